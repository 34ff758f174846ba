/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reactor: one thread with an event loop, the connections it owns, and the memory they borrow.
 * What happens to a connection happens on its reactor; others post messages.
 */
#ifndef NVMF_TARGET_REACTOR_H
#define NVMF_TARGET_REACTOR_H

#include <pthread.h>

#include "pdu/io/loop.h"
#include "pdu/nvme/tcp/tcp_controller.h"
#include "pool.h"
#include "target/nvme/ctrl.h"

struct capture_writer;
struct target_conn;
struct rdma;
struct stream;
struct verbs_event;
struct verbs_provider;

enum {
        RX_BUFFER = 128 << 10, /* bytes that are received at once */
        SWEEP_MS = 50,         /* how often timers are looked at */
};

/* What all reactors of a target share; does not change while they run. */
struct service {
        struct ctrl_env ctrl;
        struct target_limits limits;
        struct rule_policy policy;
        struct tcp_controller_config tcp;
        bool success; /* C2HData may carry SUCCESS */
        bool trace, quiet;
        struct capture_writer *record;    /* may be NULL */
        unsigned busy_poll;               /* microseconds */
        _Atomic unsigned conns, io_conns; /* of all reactors; those with I/O queues */
        _Atomic unsigned accepted;        /* ever: their numbers in traces */
};

/* From what is asked for; no zeroes are left in its limits. False: `error` has one line. The
 * inventory is the caller's and outlives it. */
bool service_init(struct service *s, const struct target_options *o, struct inventory *inv,
                  char *error, size_t size);
/* No controller is left. */
void service_fini(struct service *s);

struct reactor {
        struct loop loop;
        struct service *service;
        pthread_t thread;
        bool is_ticker; /* this one drives the controllers' timers */
        uint64_t now;   /* ms, of this turn; 0: not asked for yet, see reactor_now() */
        uint64_t swept, ticked, trimmed; /* ms */
        uint64_t busy_until;             /* ns: polls instead of sleeping */

        struct target_conn *conns; /* all of them */
        struct target_conn *again; /* stopped for their budget, or were given requests back */
        struct target_conn *hungry, **hungry_last; /* wait for data buffers, first come first */
        bool fed;                                  /* a buffer came back */
        struct pool pool;
        struct rx_buffer *rx_free;
        struct rdma *rdma; /* NULL: no port of this target ever was RDMA */
        unsigned rx_spare;

        _Atomic(struct request *) finished; /* given back by other threads, newest first */
        struct loop_message finished_mail;
        uint64_t drain_until; /* ms; 0: not draining */
};

/* 0, or -1 with errno. buffers: bytes of data buffers it may use. */
int reactor_start(struct reactor *r, struct service *s, uint64_t buffers, bool is_ticker);

/* One without thread and descriptors, for who has the target in his own: reactor_step() is a turn of
 * it at the time `now` (ms, not 0), which stays its time until the next one. */
void reactor_init(struct reactor *r, struct service *s, uint64_t buffers, bool is_ticker);
void reactor_step(struct reactor *r, uint64_t now);
/* Gives its memory back; no connection is left. */
void reactor_fini(struct reactor *r);

/* Closes all connections once their commands have ended, at the latest after drain_ms, and then
 * ends the thread; the second call waits for that. No reactor_adopt() or reactor_call() may follow.
 */
void reactor_drain(struct reactor *r, unsigned drain_ms);
void reactor_join(struct reactor *r);

/* Runs fn(arg) on the reactor's thread, between two turns, and waits for it. Not from a reactor. */
void reactor_call(struct reactor *r, void (*fn)(struct reactor *r, void *arg), void *arg);

/* A connection that was accepted: the reactor's from here on, also if it fails. Any thread. The
 * reference to the port is handed over. */
void reactor_adopt(struct reactor *r, struct port *port, struct stream *stream);

/* RDMA can be had on it from here on; 0, or -1 with errno. Not from a reactor. */
int reactor_open_rdma(struct reactor *r, struct verbs_provider *p);
/* The same as reactor_adopt() for a connect request that came in `from`, on whose thread this is. */
void reactor_adopt_rdma(struct reactor *r, struct port *port, const struct verbs_event *e,
                        struct reactor *from);

/* Any thread: an EXECUTING request goes back to its connection to be completed there. */
void reactor_give_back(struct reactor *r, struct request *request);

/* On the reactor's thread. */
uint64_t reactor_now(struct reactor *r); /* ms */
uint8_t *reactor_rx_get(struct reactor *r);
void reactor_rx_put(struct reactor *r, uint8_t *buf);

#endif
