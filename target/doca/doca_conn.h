/* SPDX-License-Identifier: BSD-3-Clause */
/* A client of the target: its control channel, and the workers that it has asked for. */
#ifndef NVMF_TARGET_DOCA_CONN_H
#define NVMF_TARGET_DOCA_CONN_H

#include "doca_worker.h"
#include "pdu/io/stream.h"
#include "target/engine/conn.h"

struct doca_conn {
        struct conn base; /* first */
        struct stream stream;
        struct doca_target machine;
        struct doca_worker *workers;
        unsigned n_workers;
        struct doca_memory memory; /* len 0: none that is known */
        uint64_t transactions;
        struct doca_polls before; /* init_storage, of its reactor */
        enum doca_kind
            awaits; /* the request that waits for the workers: DOCA_START, DOCA_STOP, DOCA_SHUTDOWN */
        uint64_t since; /* ms: it does so since then */
        uint64_t heard; /* ms: the last request, or the beginning */
        uint64_t
            moved;    /* ms: nothing was unsent, or some of it went and the channel does not end */
        bool ending;  /* its workers have to end, and then the channel */
        bool at_once; /* ... whatever is unsent */
};

static inline struct doca_conn *doca_conn_of(struct conn *c)
{
        return (struct doca_conn *)c;
}

static inline struct doca_shared *doca_shared_of_conn(const struct doca_conn *c)
{
        return doca_shared_of(c->base.reactor);
}

/* target_family.start_stream(). */
void doca_conn_start(struct reactor *r, struct port *port, struct stream *stream,
                     const struct conn_peer *peer);
/* Something of a worker has changed: looked at later in this turn. */
static inline void doca_conn_again(struct doca_conn *c)
{
        conn_come_again(&c->base);
}
/* 2.10: the client has said by an I/O message that it stops. */
void doca_conn_stopped(struct doca_conn *c);
/* The device's pool goes with the device, which may go with its last queue pair. */
void doca_conn_leave_pool(struct doca_conn *c);
/* For the log. */
void doca_conn_warn(const struct doca_conn *c, const char *kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
