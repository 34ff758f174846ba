/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection over RDMA, whatever protocol it speaks: its endpoint (pdu/verbs/rdma_ep.h), its receives, which are a
 * share of the device's SRQ or, where it has none, its own, messages that a turn has no time for, and registered
 * memory for its data. Embedded in the family's connection, which has what is said, and the endpoint's operations.
 */
#ifndef NVMF_TARGET_RDMA_LINK_H
#define NVMF_TARGET_RDMA_LINK_H

#include "conn.h"
#include "rdma.h"

struct rdma_link {
        struct rdma_ep ep;          /* first */
        struct conn *conn;          /* whose it is; conn->rdma is this */
        struct rdma_device *device; /* once it is taken */
        struct recv_chunk *own;     /* receives, where there is no SRQ */
        struct verbs_wr *to_post;   /* of them */
        uint32_t reserved;          /* with the SRQ, */
        struct pool_share *place;   /* of its address */
        struct rdma_recv *waiting, **waiting_last;
        uint32_t waits; /* so many */
};

/* Nothing yet, on c->reactor. ops must outlive it. */
void rdma_link_init(struct rdma_link *l, struct conn *c, const struct rdma_ep_ops *ops);
/* Takes a connect request. -1 with errno: it stays the caller's. (What it then has, rdma_link_fini() lets go of.) */
int rdma_link_take(struct rdma_link *l, struct verbs_ep *ep);
/* Makes its queue pair, as rdma_ep_qp() but that attr->recv_wrs does not count where there is an SRQ, and gets it so
 * many receives. -1 with errno. */
int rdma_link_make(struct rdma_link *l, struct verbs_qp_attr *attr, uint32_t receives);
/* How many receives it could have: connections of one address have three quarters of an SRQ's, whoever they are and
 * whether they have said so yet. */
uint32_t rdma_link_receives_left(const struct rdma_link *l);
/* How many READs may be outstanding, of who asks for a connection with p. */
uint8_t rdma_link_reads(const struct rdma_link *l, const struct verbs_conn_param *p);
/* Its endpoint, unless it is destroyed already, and its receives, as far as there are any; nothing waits. */
void rdma_link_fini(struct rdma_link *l);

/* A line of the log: "WHAT of ADDRESS:PORT rejected (REASON): WHY"; why may be NULL. */
void rdma_log_rejected(const struct verbs_ep *ep, const char *what, const char *reason,
                       const char *why);
/* What has failed, for the log. False: nothing, the queue pair is being flushed. */
bool rdma_failure(const struct verbs_wc *wc, char *text, size_t size);

/* Posts the receives that were given back, which come first, since the peer may answer at once, and a chain (NULL:
 * none) if it is live. -1 with errno: some of the chain is as good as flushed. */
int rdma_link_post(struct rdma_link *l, struct verbs_wr *chain);

/* Whether a message may be taken in this turn; if not, it is to be deferred. */
static inline bool rdma_link_has_turn(const struct rdma_link *l)
{
        return !l->waiting && conn_budget(l->conn) > 0;
}
/* After those that wait already, for a later turn. */
void rdma_link_defer(struct rdma_link *l, struct rdma_recv *rx);
/* The oldest that waits, whatever the turn has time for; there is one. */
struct rdma_recv *rdma_link_oldest(struct rdma_link *l);
/* The oldest that waits. NULL: none, or the turn has no time for it, and there will be another one. */
struct rdma_recv *rdma_link_next(struct rdma_link *l);
/* Those that wait are given back. */
void rdma_link_drop_waiting(struct rdma_link *l);

/* Now and then: a disconnect, or a drain, does not take longer than it may. */
void rdma_link_expire(struct rdma_link *l);

/* For machines whose `user` is the struct conn: data buffers, as conn_buffer_get(), with their key; registered memory of
 * the device, for as long as the connection needs it (NULL: there is none); and a receive that is not needed any more. */
uint8_t *rdma_link_buffer_get(void *conn, uint32_t len, uint32_t *lkey);
void rdma_link_buffer_put(void *conn, uint8_t *buf, uint32_t len);
void *rdma_link_memory_get(void *conn, uint32_t bytes, uint32_t *lkey);
void rdma_link_memory_put(void *conn, void *memory, uint32_t bytes);
void rdma_link_recv_put(void *conn, struct rdma_recv *rx);

#endif
