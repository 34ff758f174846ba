/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA connections in capture files (capture_writer.h): as RoCEv2 packets with messages of connection
 * management, right PSNs and invariant CRCs, or as an iWARP stream with MPA CRCs. Wireshark dissects
 * both, and NVMe in RoCEv2 alone. Queue pair numbers, PSNs, communication ids and where in the memory
 * of the requester the answer to a READ goes are made up; keys and addresses are the caller's. Who
 * knows qpn[], the first PSNs, next[], and the path MTU may set them once it is open, before the first packet.
 *
 * Sources: IBTA Architecture 1.4 chapters 9 and 12, annexes A11 (RDMA IP CM) and A17 (RoCEv2);
 * RFC 5040 (RDMAP), 5041 (DDP), 5044 and 6581 (MPA).
 */
#ifndef NVMF_IO_CAPTURE_RDMA_H
#define NVMF_IO_CAPTURE_RDMA_H

#include "capture_writer.h"

/* One connection that is being written; the caller's memory, zero at first. One thread at a time.
 * Times are ns since 1970; data are a list of `n` pieces. */
struct capture_rdma {
        bool iwarp;          /* set before capture_rdma_open() */
        const char *comment; /* goes with the next packet, where the format has comments; or NULL */
        struct capture_flow tcp; /* iWARP; of RoCEv2 its ends, with the ports of the CM */
        uint32_t qpn[2], id[2];
        uint32_t next[2]; /* RoCEv2: PSN of the next request; iWARP: number of the next READ */
        uint32_t msn[2];  /* messages that this side has sent */
        uint32_t mtu;     /* RoCEv2: bytes of data in a packet; 4096 unless it is set */
};

/* Begins it, with the ends as capture_flow_open() has them. */
void capture_rdma_open(struct capture_writer *w, struct capture_rdma *f,
                       const struct sockaddr *host, const struct sockaddr *controller,
                       int64_t time_ns);
/* iWARP: the end of the TCP connection, which RoCEv2 has not. */
void capture_rdma_close(struct capture_writer *w, struct capture_rdma *f, int64_t time_ns);

enum capture_cm_kind { /* iWARP has the first three alone */
                       CAPTURE_REQUEST,
                       CAPTURE_ACCEPT,
                       CAPTURE_REJECT,
                       CAPTURE_READY,
                       CAPTURE_DISCONNECT,
                       CAPTURE_DISCONNECTED,
};
struct capture_cm {
        enum capture_cm_kind kind;
        const void *data; /* private data; what the message has no room for is left out */
        uint32_t len;
        uint16_t reads_in, reads_out; /* responder resources, initiator depth */
        bool depths;                  /* iWARP names them even if both are 0 */
        uint16_t reason;              /* REJECT */
};
/* A message of connection management: a MAD of RoCEv2, or an MPA start frame of iWARP. */
void capture_rdma_cm(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                     const struct capture_cm *m, int64_t time_ns);

/* These three return the number by which the peer acknowledges or answers. */
uint32_t capture_rdma_send(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                           const struct iovec *data, int n, const uint32_t *invalidated_key,
                           int64_t time_ns); /* key NULL: it invalidates none */
uint32_t capture_rdma_write(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                            uint64_t addr, uint32_t key, const struct iovec *data, int n,
                            int64_t time_ns);
uint32_t capture_rdma_read(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                           uint64_t addr, uint32_t key, uint32_t len, int64_t time_ns);
/* All of the answer to a READ. */
void capture_rdma_answer(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                         uint32_t read, const struct iovec *data, int n, int64_t time_ns);

enum capture_ack {
        CAPTURE_ACK = 0,
        CAPTURE_NAK_REQUEST = 0x61,
        CAPTURE_NAK_ACCESS = 0x62,
        CAPTURE_NAK_OPERATION = 0x63
};
/* RoCEv2; with iWARP nothing is written. number: as returned for the message that it answers. */
void capture_rdma_ack(struct capture_writer *w, struct capture_rdma *f, enum party sender,
                      uint32_t number, enum capture_ack ack, int64_t time_ns);
/* iWARP: an RDMAP Terminate message. */
void capture_rdma_terminate(struct capture_writer *w, struct capture_rdma *f, const void *p,
                            size_t n, enum party sender, int64_t time_ns);
/* So many packets (RoCEv2) or bytes (iWARP) of `sender` are missing; 0: nobody knows how many. */
void capture_rdma_gap(struct capture_rdma *f, enum party sender, uint64_t n);

#endif
