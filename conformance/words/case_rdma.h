/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The words that only RDMA has: connection management with any private data, memory and its keys,
 * capsules and SGLs by hand, the ways a queue pair can end.
 *
 *      CASE("rdma/sgl/two", MUST, RULES(RDMA_WRITE_WHOLE),
 *           "A Read into two descriptors fills both")
 *      {
 *              struct queue *q = io_queue(t);
 *              struct buffer a = fill_buffer(q, KIB(4)), b = fill_buffer(q, KIB(4));
 *
 *              succeed(q, send_read(q, .bytes = KIB(8), .sgl = LIST(keyed(a), keyed(b))));
 *              ...
 *      }
 */
#ifndef NVMF_CONFORMANCE_CASE_RDMA_H
#define NVMF_CONFORMANCE_CASE_RDMA_H

#include "conformance/words/case.h"
#include "pdu/nvme/wire/rdma.h"
#include "pdu/verbs/verbs.h"

/* --- connections --------------------------------------------------------------------------- */

struct rdma_setup { /* a connect request; AS_FITS: as a sound host would have it */
        int qid, hrqsize, hsqsize, recfmt, cntlid;
        const struct rdma_request *data; /* in place of all of the above */
        int len;                         /* bytes of it; beyond 32 they are zeroes; AS_FITS: 32 */
        int reads_in, reads_out;         /* responder resources, initiator depth */
        int rnr_retry; /* that the target has when we post no receives; 7: forever */
        int receives;  /* that we post; AS_FITS: HRQSIZE */
        bool mute;     /* a DREQ is not answered */
};
#define RDMA_DEFAULTS                                                                              \
        .qid = AS_FITS, .hrqsize = AS_FITS, .hsqsize = AS_FITS, .recfmt = 0, .cntlid = AS_FITS,    \
        .len = AS_FITS, .reads_in = AS_FITS, .reads_out = AS_FITS, .rnr_retry = 7,                 \
        .receives = AS_FITS

/* A connect request, for an admin queue if it does not say .qid; its answer is for later. */
#define rdma_open(t, ...)                                                                          \
        rdma_request_queue((t), NULL, (struct rdma_setup) { RDMA_DEFAULTS, ##__VA_ARGS__ })
/* ... for I/O queue 1 (or .qid) of the association. */
#define rdma_join(admin, ...)                                                                      \
        rdma_request_queue((admin)->t, (admin),                                                    \
                           (struct rdma_setup) { RDMA_DEFAULTS, .qid = 1, ##__VA_ARGS__ })
/* The device of q does without RNR: a SEND that finds no receive ends the connection. */
bool is_iwarp(struct queue *q);
/* What rdma_open() would send, to be changed. */
struct rdma_request private_data(struct t *t);

struct accept {
        struct rdma_accept data;
        unsigned len; /* bytes that came, with padding */
        uint8_t reads_in, reads_out;
};
/* The connection is established. */
struct accept expect_accept(struct queue *q);
/* The connect request is rejected: with an STS of the case's rule is the strict grade, with another
 * or without private data the lenient one. */
void expect_reject(struct queue *q);
/* The same, where the host alone is bound: who accepts the request and refuses its Connect is as good,
 * who lets it pass gets advice. */
void prefer_reject(struct queue *q);
/* Either; whether it was accepted. */
bool expect_decision(struct queue *q);
/* Accepted; where it is rejected, and not for want of room, the case does not apply, for this reason: a target need
 * not serve every host (R1.0 3.1.4). */
struct accept accepted_or_skip(struct queue *q, const char *why);
/* ... who allows no RNR retries: "shall match RNR_RETRY_COUNT or fail the QP creation" (R1.0 3.1.4). */
#define NO_RETRIES "who allows no RNR retries is rejected"
/* STS of the rejection, 0: none. */
uint16_t reject_status(struct queue *q);

/* Ends the connection: the queue pair fails, and the target is not told; the endpoint is destroyed,
 * whatever it was waiting for; (hang_up() says DREQ). */
void drop(struct queue *q);
void vanish(struct queue *q);
/* The end of the connection as RDMA_CM tells it (DREQ, or DREP to ours) comes within ms. */
void expect_disconnect(struct queue *q, unsigned ms);

/* --- memory -------------------------------------------------------------------------------- */

/* Registered memory of this queue's device. What the target may write lies between guard zones that
 * are looked at with every response (RDMA_WRITE_RANGE). */
struct buffer {
        uint8_t *data;
        uint32_t len, key;
        struct region *region;
};
/* Bytes to be READ: the pattern of send_write(), from `offset` on. */
struct buffer data_buffer(struct queue *q, uint32_t len, uint32_t offset);
/* Bytes to be WRITTEN: each is a canary until then. */
struct buffer fill_buffer(struct queue *q, uint32_t len);
/* With other rights than its use needs (enum verbs_access). */
struct buffer buffer_with(struct queue *q, uint32_t len, unsigned access);
/* With the key of a memory window, which a SEND with invalidate takes back; skips the case where
 * the device has none. */
struct buffer window_buffer(struct queue *q, uint32_t len, unsigned access);
/* Its key is worth nothing from now on. */
void revoke_key(struct buffer *b);
/* None of its bytes n from offset was written. */
void want_untouched(struct t *t, const struct buffer *b, uint32_t offset, uint32_t n);
bool is_untouched(const struct buffer *b, uint32_t offset, uint32_t n);

/* --- capsules ------------------------------------------------------------------------------ */

struct by_hand {
        struct sgl sgl;         /* in the SQE */
        const struct sgl *list; /* after it, count descriptors */
        unsigned count;
        const void *behind; /* ... or these bytes */
        uint32_t len;
        int64_t capsule; /* bytes of the SEND, beyond what there is zeroes; -1: what there is */
};
/* For .sgl of send_read(), send_write(), send_cmd(). */
#define HAND(sgl_, ...) (&(struct by_hand) { .sgl = (sgl_), .capsule = -1, ##__VA_ARGS__ })
/* Descriptors in a last segment after the SQE. */
#define LIST(...)                                                                                  \
        (&(struct by_hand) { .sgl = last_segment(0, sizeof((struct sgl[]) { __VA_ARGS__ })),       \
                             .list = (struct sgl[]) { __VA_ARGS__ },                               \
                             .count = sizeof((struct sgl[]) { __VA_ARGS__ }) / sizeof(struct sgl), \
                             .capsule = -1 })

/* Descriptors with subtype 0h: of the buffer; of len bytes from offset on; of its address with
 * other numbers. Nothing is checked: they may lie. */
struct sgl keyed(struct buffer b);
struct sgl keyed_part(struct buffer b, uint32_t offset, uint32_t len);
struct sgl keyed_as(struct buffer b, uint32_t len, uint32_t key);
/* ... with subtype Fh: the key may be invalidated with the response. */
struct sgl keyed_invalidate(struct buffer b);
/* In-capsule descriptors: a data block; a last segment of len bytes of descriptors. */
struct sgl in_capsule(uint64_t offset, uint32_t len);
struct sgl last_segment(uint64_t offset, uint32_t len);
/* s with another byte 15 (type << 4 | subtype). */
struct sgl typed(struct sgl s, uint8_t id);

/* A SEND of these bytes; of none, if n is 0. */
void send_capsule(struct queue *q, const void *bytes, uint32_t n);
/* ... of an SQE that is otherwise a sound one, cut or filled up to n bytes. */
uint16_t send_sized(struct queue *q, uint8_t opc, uint32_t n);
/* An RDMA WRITE of ours to the target. */
void host_write(struct queue *q, uint64_t addr, uint32_t key);
/* n commands posted in one go: CIDs from *first on. Reads of one block each. */
uint16_t send_burst(struct queue *q, unsigned n);

/* --- behind the macros --------------------------------------------------------------------- */

/* The connect request of s is sent; admin: whose association it names, or NULL. Breaks the case
 * off where it cannot be sent. */
struct queue *rdma_request_queue(struct t *t, struct queue *admin, struct rdma_setup s);

#endif
