/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RoCEv2, between its parts: packets and connection management (trace_roce.c), connections and how
 * they are found (trace_roce_conn.c), and what one side of one sends, in sequence
 * (trace_roce_stream.c). Sources: IBTA Architecture 1.4 chapter 9 and annex A17. Lengths are bytes.
 */
#ifndef NVMF_PCAP_TRACE_ROCE_H
#define NVMF_PCAP_TRACE_ROCE_H

#include <string.h>

#include "tracer.h"

/* What a packet of an opcode is made of. */
enum roce_part {
        FIRST = 1 << 0, /* of a message */
        LAST = 1 << 1,
        SEND = 1 << 2,
        WRITE = 1 << 3,
        READ = 1 << 4,
        ANSWER = 1 << 5, /* PSN of the other side's sequence: read response, ACK */
        RETH = 1 << 6,
        AETH = 1 << 7,
        IMMEDIATE = 1 << 8,
        INVALIDATE = 1 << 9,
        ATOMIC = 1 << 10,
        KNOWN = 1 << 11,
};

/* One packet of a reliable connection, taken apart. */
struct roce_packet {
        unsigned parts;
        uint32_t qpn, psn; /* qpn: where it goes */
        uint64_t addr;
        uint32_t key, len; /* RETH; INVALIDATE: key */
        unsigned syndrome;
        const uint8_t *data;
        uint32_t n, whole; /* bytes of data in the capture and in the packet */
        struct capture_place at;
};

/* What one side sends. */
struct roce_direction {
        bool synced;
        uint32_t next; /* PSN */
        struct roce_held *held;
        unsigned held_n;
        enum { IDLE, SENDING, WRITING } doing;
        struct capture_place first;
        struct bytes message; /* SEND in several packets */
        uint32_t known;       /* of it, before what was not caught */
        struct trace_memory write;
        uint32_t written;
        bool cut;
        bool acked; /* its peer has received all up to ... */
        uint32_t ack_psn;
        uint64_t ack_frame;
        struct roce_read *reads; /* READS of them, from the first on */
        unsigned next_read;
};

struct roce_conn {
        struct trace_conn pub;
        struct roce_direction dir[2];
        uint32_t mtu; /* bytes; 0: not known */
        uint32_t id[2];
        uint32_t asked_psn; /* of the request: what answers begin with */
        bool accepted, rejected, leaving;
        bool adopted; /* its passive queue pair is a guess */
        struct roce_conn *earlier, *later;
};

/* A queue pair to which packets go and nobody knows whose they are: a capture that began later. */
struct roce_half {
        bool used;
        struct capture_end from, to;
        uint32_t qpn, last_psn;
        bool commands, responses, others; /* what it looks like */
        uint64_t frame;
};

/* A queue pair whose connection is over: packets that come to it now were seen before. */
struct roce_past {
        struct capture_end at; /* no port */
        uint32_t qpn;          /* 0: none */
        struct roce_next {
                bool known;
                uint32_t psn;
        } next[2]; /* of requests to it; of answers to it */
};

enum roce_name_kind { NAME_QP, NAME_ID };

/* Where a connection is found by: queue pair or communication id, at an address. */
struct roce_name {
        enum roce_name_kind kind;
        struct capture_end at; /* no port */
        uint32_t number;
        struct roce_conn *conn;
        enum party owner; /* whose it is */
        struct roce_name *next;
};

enum { ROCE_BUCKETS = 4096, ROCE_HALVES = 256, ROCE_MADS = 256, ROCE_PASTS = 64 };
struct roce {
        struct roce_name *bucket[ROCE_BUCKETS];
        struct roce_conn *all, *last;
        unsigned conns;
        struct roce_half halves[ROCE_HALVES];
        unsigned next_half;
        size_t held;              /* bytes of packets ahead of their turn, of all connections */
        uint64_t mads[ROCE_MADS]; /* hashes of the last ones, round about */
        unsigned next_mad;
        struct roce_past pasts[ROCE_PASTS];
        unsigned next_past;
};

/* How far a is behind b: negative before it, of numbers modulo 2^24. */
static inline int32_t psn_distance(uint32_t a, uint32_t b)
{
        return (int32_t)((a - b) << 8) >> 8;
}

/* --- connections (trace_roce_conn.c) ---------------------------------------------------------- */

static inline bool same_address(const struct capture_end *a, const struct capture_end *b)
{
        return a->family == b->family && memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}
/* What has this name now; NULL: nothing. */
struct roce_name *roce_find(struct roce *r, enum roce_name_kind kind, const struct capture_end *at,
                            uint32_t number);
/* A name for the owner's side of c. Who had it before is over. */
void roce_name(struct tracer *t, enum roce_name_kind kind, struct roce_conn *c, enum party owner,
               uint32_t number);
/* The passive side's queue pair; another one may have been taken for it before. */
void roce_name_passive(struct tracer *t, struct roce_conn *c, uint32_t qpn);
/* Without a name yet; the oldest one goes if there are too many. NULL: out of memory. */
struct roce_conn *roce_conn_new(struct tracer *t);
void roce_conn_close(struct tracer *t, struct roce_conn *c); /* tells, and frees it */
/* Whether a packet to a queue pair that nobody has may be one of a connection that is over, caught again. */
bool roce_was_seen(const struct roce *r, const struct capture_end *to, const struct roce_packet *p);

/* --- what one side sends (trace_roce_stream.c) ------------------------------------------------ */

/* Packets of one side's own sequence, and those that answer the other's. */
void roce_take_request(struct tracer *t, struct roce_conn *c, enum party sender,
                       const struct roce_packet *p);
void roce_take_answer(struct tracer *t, struct roce_conn *c, enum party sender,
                      const struct roce_packet *p);
/* Whatever waits for its turn goes on; what it waited for is not in the capture. */
void roce_flush(struct tracer *t, struct roce_conn *c, enum party sender);
void roce_direction_free(struct tracer *t, struct roce_direction *d);

#endif
