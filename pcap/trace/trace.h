/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A capture as events: what the two sides of each NVMe queue said, in the order in which it was
 * captured, whether it went over NVMe/TCP, RoCEv2 or iWARP. Nothing is judged here but what makes an
 * NVMe/TCP header unbelievable. What the capture does not hold is told (TRACE_GAP), never filled in;
 * behind it the next thing that is beyond doubt goes on.
 *
 * Sources: NVMe/TCP 1.0; IBTA Architecture 1.4 chapters 9 and 12 and annexes A11 (RDMA IP CM) and
 * A17 (RoCEv2); RFC 5040 (RDMAP), 5041 (DDP), 5044 and 6581 (MPA).
 */
#ifndef NVMF_PCAP_TRACE_H
#define NVMF_PCAP_TRACE_H

#include "pdu/io/capture/capture.h"
#include "pdu/nvme/wire/tcp.h"

enum trace_transport { TRACE_TCP, TRACE_ROCE, TRACE_IWARP };
const char *trace_transport_name(enum trace_transport t); /* "tcp", "roce", "iwarp" */

/* The connection of one queue. */
struct trace_conn {
        unsigned number; /* from 1, in order of appearance */
        enum trace_transport transport;
        struct capture_end end[2]; /* RoCE: the ports are those of connection management */
        uint32_t qpn[2];           /* RoCE; 0: not known */
        bool midstream;            /* its beginning is not in the capture */
        /* Frames up to which nothing that this side sent is missing; UINT64_MAX where that shows at
         * once. What one side seems to have done wrong may be due to a lost frame of the other
         * until this has passed it. */
        uint64_t whole_until[2];
        void *user; /* the caller's; NULL at first */
};

enum trace_kind {
        TRACE_OPENED,
        TRACE_CLOSED,       /* ... or the capture is over */
        TRACE_GAP,          /* `gap`: something that `sender` sent is missing */
        TRACE_FOUND,        /* `gap`: ... its stream goes on here */
        TRACE_HEADER,       /* `pdu`: header of an NVMe/TCP PDU */
        TRACE_PDU,          /* `pdu`: ... all of it */
        TRACE_FAULT,        /* `pdu`: a header that no receiver can believe; TRACE_FOUND follows */
        TRACE_REQUEST,      /* `cm`: the host asks for an RDMA connection */
        TRACE_ACCEPT,       /* `cm` */
        TRACE_REJECT,       /* `cm` */
        TRACE_READY,        /* the host has seen the acceptance */
        TRACE_DISCONNECT,   /* DREQ: the sender ends the connection */
        TRACE_DISCONNECTED, /* DREP */
        TRACE_TERMINATE,    /* `capsule`: RDMAP Terminate message */
        TRACE_REFUSAL,   /* `refusal`: RoCE: a NAK of what the peer sent; not of a sequence error */
        TRACE_CAPSULE,   /* `capsule`: a whole RDMA SEND */
        TRACE_READ,      /* `memory`: an RDMA READ is asked for */
        TRACE_READ_DATA, /* `memory`: bytes of its answer, sent by the peer of who asked */
        TRACE_READ_END,  /* `memory`: the answer is over */
        TRACE_WRITE_DATA, /* `memory`: bytes of an RDMA WRITE */
        TRACE_WRITE,      /* `memory`: ... which is over; all of it */
};

struct trace_pdu {
        const union pdu *h;
        const uint8_t *data; /* NULL: none, or (long data that nobody wanted) not kept */
        uint32_t data_len;
        bool cut; /* some bytes of the data are not in the capture and are zero here */
        bool ddgst_bad;
        uint32_t hdgst;                  /* as received, where ch.flags say it is there */
        uint32_t header_len;             /* TRACE_FAULT: bytes of the header that came */
        struct fault fault;              /* TRACE_FAULT */
        const struct pdu_format *format; /* in force for it */
};

struct trace_cm {
        const uint8_t *data; /* private data of the consumer, as padded by the CM */
        uint32_t len;
        uint8_t reads_in, reads_out; /* responder resources, initiator depth */
        uint16_t reason;             /* of a reject: IBTA 12.6.7.2; 28: the consumer's. MPA: 28 */
};

struct trace_capsule {
        const uint8_t *data;
        uint32_t len;
        bool cut; /* the snapshot lacks some of it, which is zero here */
        bool invalidates;
        uint32_t key; /* ... this one */
};

enum trace_refusal {
        TRACE_NOT_READY, /* RNR: no receive was posted */
        TRACE_NO_ACCESS, /* to the memory that it names */
        TRACE_REFUSED_OTHERWISE,
};

struct trace_memory {
        uint64_t addr; /* where the whole transfer begins, in the memory of the host */
        uint32_t key;
        uint32_t len;        /* of the transfer; of DATA: of this piece */
        uint32_t offset;     /* of DATA: of this piece in the transfer */
        bool cut;            /* END, WRITE: some of it is not in the capture */
        const uint8_t *data; /* of DATA */
};

struct trace_gap {
        uint64_t bytes;   /* TCP, iWARP: bytes; 0: nobody knows */
        uint64_t packets; /* RoCE: packets */
};

struct trace_event {
        enum trace_kind kind;
        struct trace_conn *conn;
        enum party sender;
        struct capture_place at;    /* where its last byte is */
        struct capture_place first; /* where its first byte is */
        union {
                struct trace_pdu pdu;
                struct trace_cm cm;
                struct trace_capsule capsule;
                struct trace_memory memory;
                struct trace_gap gap;
                enum trace_refusal refusal;
        };
};

enum { TRACE_PORTS = 16 };

struct trace_options {
        uint16_t ports[TRACE_PORTS]; /* of controllers, ended by 0; none: 4420 and 8009 */
        bool data; /* keep all data of PDUs; else only what is at most FRAMER_IN_PLACE */
};

/* What was seen of the file as a whole. */
struct trace_totals {
        uint64_t frames, bytes;        /* bytes: of TCP and UDP payload */
        uint64_t fragments, cut;       /* frames that could not be read */
        uint64_t guessed_times;        /* frames with a clock of their own */
        uint64_t conns, other;         /* NVMe connections; TCP connections of something else */
        uint64_t tls;                  /* TLS on a port of controllers: not read */
        uint64_t gaps, pdus, capsules; /* pdus: NVMe/TCP */
        uint64_t repeated;             /* RoCE packets that came again */
        uint64_t strange;              /* RoCE packets and MADs of no connection that is known */
        uint64_t crc_bad;              /* MPA CRCs */
};

typedef void trace_fn(void *user, const struct trace_event *e);

/* Reads `path` ("-": standard input). options and totals may be NULL. 0, or -1 with one line in err
 * (as capture_read: what stands before the damage was handed out). */
int trace_read(const char *path, const struct trace_options *options, trace_fn *fn, void *user,
               struct trace_totals *totals, char *err, size_t err_size);

#endif
