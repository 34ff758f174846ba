/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the parts that make a trace: one for each transport here, and the families' streams.
 * Lengths are bytes. */
#ifndef NVMF_PCAP_TRACER_H
#define NVMF_PCAP_TRACER_H

#include "pdu/io/capture/packet.h"
#include "trace.h"

/* A growing buffer. */
struct bytes {
        uint8_t *p;
        size_t n, cap;
};
/* n more bytes; p NULL: zeroes. False: no memory. */
bool bytes_add(struct bytes *b, const void *p, size_t n);
void bytes_free(struct bytes *b);

/* What many buffers take together, and about how much that may be. */
struct bytes_limit {
        size_t most, used;
        bool no_memory; /* there was none */
};
/* The same for one of these buffers. False: they would take too much, or l->no_memory. */
bool bytes_add_within(struct bytes_limit *l, struct bytes *b, const void *p, size_t n);
void bytes_free_within(struct bytes_limit *l, struct bytes *b);

enum { GATHERED_ALL = 64 << 20 };
struct tracer {
        const struct trace_family *family;
        const struct trace_family *opening; /* whose connection is being opened; NULL: family's */
        struct trace_options options;
        trace_fn *fn;
        void *user;
        struct trace_totals totals;
        struct capture_place at;     /* of the packet in hand */
        struct roce *roce;           /* NULL: no such packet yet */
        struct bytes_limit gathered; /* of messages that are incomplete: GATHERED_ALL */
        struct bytes scratch;        /* of whoever has the packet in hand */
        size_t sinks;    /* bytes that a family's streams keep of messages that are incomplete */
        uint64_t sealed; /* connections of which nothing but a ClientHello was told */
        bool sealing;    /* the connection that is being opened is one of these */
        bool no_memory;
};

/* An event of a connection, at the packet in hand; the rest is the caller's to fill in. */
static inline struct trace_event trace_event_of(const struct tracer *t, struct trace_conn *c,
                                                enum trace_kind kind, enum party sender)
{
        return (struct trace_event) {
                .kind = kind,
                .conn = c,
                .sender = sender,
                .at = t->at,
                .first = t->at,
        };
}
/* Hands it to the owner, at once; TRACE_OPENED comes first. */
void trace_emit(struct tracer *t, const struct trace_event *e);
/* One that has no more to say. */
void trace_emit_kind(struct tracer *t, struct trace_conn *c, enum trace_kind kind,
                     enum party sender);
/* Something that `sender` said is missing here: counted, and told. */
void trace_gap(struct tracer *t, struct trace_conn *c, enum party sender, struct trace_gap gap);
/* Numbers a new connection and tells of it. */
void trace_open(struct tracer *t, struct trace_conn *c);
/* The family that is read beside and claims such a request; NULL: none. */
const struct trace_family *trace_claimed(const struct tracer *t, const uint8_t *data, uint32_t len);
/* The private data of its connect request: whose it is, and which party of that family has sent it, c->active. Before
 * anything is told of it. */
void trace_recognize(struct tracer *t, struct trace_conn *c, const uint8_t *data, uint32_t len);

/* Two queue pairs (RC) of which messages over TCP have told all that connection management would have. */
struct trace_pair {
        struct capture_end end[2]; /* ports: whatever shall be shown */
        uint32_t qpn[2], psn[2];   /* psn: of the first packet that this side sends */
        uint32_t mtu;              /* bytes; 0: not known */
};
/* They are a connection of the family of `by` from now on: it is opened. Who had these queue pairs before is over. NULL: no
 * memory, or too many. */
struct trace_conn *trace_learn(struct tracer *t, const struct trace_conn *by,
                               const struct trace_pair *pair);

/* Whether it is one of the ports that the options name. */
bool trace_is_service(const struct tracer *t, uint16_t port);

static inline uint16_t be16_at(const uint8_t *p)
{
        return (uint16_t)(p[0] << 8 | p[1]);
}
static inline uint32_t be24_at(const uint8_t *p)
{
        return (uint32_t)(p[0] << 16 | p[1] << 8 | p[2]);
}
static inline uint32_t be32_at(const uint8_t *p)
{
        return (uint32_t)be16_at(p) << 16 | be16_at(p + 2);
}
static inline uint64_t be64_at(const uint8_t *p)
{
        return (uint64_t)be32_at(p) << 32 | be32_at(p + 4);
}

extern const struct trace_stream iwarp_stream; /* trace_iwarp.c: MPA, DDP and RDMAP */

/* --- RoCEv2 (trace_roce*.c) ------------------------------------------------------------------- */

enum { ROCE_PORT = 4791 };
/* The payload of a UDP datagram to ROCE_PORT, perhaps cut. What is no RoCEv2 packet of a kind
 * that is known is ignored; out of memory t->no_memory is set. */
void roce_packet(struct tracer *t, const struct packet *p);
void roce_end(struct tracer *t); /* the capture is over */

/* Connection management (cm.c): a MAD of class 07h (IBTA Architecture 1.4 chapter 12). */
enum cm_attribute {
        CM_REQ = 0x10,
        CM_MRA = 0x11,
        CM_REJ = 0x12,
        CM_REP = 0x13,
        CM_RTU = 0x14,
        CM_DREQ = 0x15,
        CM_DREP = 0x16,
};
enum { CM_REJECTED_BY_CONSUMER = 28 };
struct cm_message {
        enum cm_attribute attribute;
        uint32_t local_id,
            remote_id;        /* communication ids of the sender and of its peer (not REQ) */
        uint32_t qpn, psn;    /* REQ, REP: of the sender; what the peer has to begin to send with */
        uint64_t service;     /* REQ */
        uint32_t mtu;         /* REQ: bytes; 0: reserved value */
        uint16_t active_port; /* REQ: of the RDMA IP CM header */
        uint8_t reads_in, reads_out;
        uint8_t service_type, rnr_retry; /* REQ: TRACE_SERVICE_*; 7: forever */
        uint16_t reason;
        const uint8_t *data; /* private data of the consumer */
        uint32_t len;
};
/* False: none of these, or too short. */
bool cm_parse(const uint8_t *mad, size_t n, struct cm_message *out);
/* The port of a service id in the RDMA IP CM's TCP port space; 0: another kind. */
uint16_t cm_service_port(uint64_t service);

#endif
