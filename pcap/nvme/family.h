/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe as a family of captures: its ports, its messages in a TCP stream, and the tracker of session.c. */
#ifndef NVMF_PCAP_NVME_FAMILY_H
#define NVMF_PCAP_NVME_FAMILY_H

#include "pcap/trace/trace.h"
#include "pdu/nvme/wire/tcp.h"

/* A PDU of NVMe/TCP. */
struct trace_pdu {
        const union pdu *h;
        const uint8_t *data; /* NULL: none, or (long data that nobody wanted) not kept */
        uint32_t data_len;
        bool cut; /* some bytes of the data are not in the capture and are zero here */
        bool ddgst_bad, pad_set;         /* pad_set: PAD is not zero */
        uint32_t hdgst;                  /* as received, where ch.flags say it is there */
        uint32_t header_len;             /* TRACE_FAULT: bytes of the header that came */
        struct fault fault;              /* TRACE_FAULT */
        const struct pdu_format *format; /* in force for it */
};

/* Data that is kept anyway is at most FRAMER_IN_PLACE bytes. */
extern const struct trace_stream nvme_tcp_stream;
extern const struct trace_family nvme_capture;

#endif
