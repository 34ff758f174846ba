/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reactor: one thread with an event loop, the connections it owns, and the memory they borrow.
 * What happens to a connection happens on its reactor; others post messages.
 */
#ifndef NVMF_TARGET_REACTOR_H
#define NVMF_TARGET_REACTOR_H

#include <pthread.h>
#include <stdatomic.h>

#include "metric.h"
#include "pdu/io/loop.h"
#include "pool.h"
#include "quota.h"

struct capture_writer;
struct conn;
struct port;
struct rdma;
struct stream;
struct target_family;
struct verbs_event;
struct verbs_provider;

enum {
        RX_BUFFER = 128 << 10, /* bytes that are received at once */
        SWEEP_MS = 50,         /* how often timers are looked at */
};

struct engine_limits {
        unsigned connections;      /* at once; more are closed at accept */
        unsigned host_connections; /* of them, of one address */
        uint32_t max_transfer;     /* bytes: a pool has room for a few buffers of that length */
        uint32_t receives;         /* posted at once on an RDMA device, by one reactor */
        uint32_t receive_bytes;    /* of each */
};

/* What all reactors of a target share; embedded in what the family shares. */
struct service {
        const struct target_family *family;
        struct engine_limits limits;
        struct quota of_address;       /* connections */
        struct capture_writer *record; /* may be NULL */
        unsigned busy_poll;            /* microseconds */
        uint64_t longest;              /* bytes of a transfer for which each pool has room */
        metric refused_address, refused_target; /* connections, by the first reactor */
        _Atomic unsigned conns;                 /* of all reactors */
        _Atomic unsigned accepted;              /* ever: their numbers in traces */
};

/* A source that is left alone for a while. */
struct reactor_pause {
        struct loop_source *source; /* NULL: it is not */
        uint32_t events;
        uint64_t until; /* ms */
        struct reactor_pause *next;
};

/* What is done each so many ms. */
struct reactor_beat {
        uint64_t last; /* ms */
        bool missed;   /* it was left out then, as the reactor came late */
};

struct reactor {
        struct loop loop;
        struct service *service;
        pthread_t thread;
        unsigned number;            /* among those of its target */
        bool is_ticker;             /* this one calls target_family.tick() */
        struct turns turns, places; /* of hosts; of their addresses */
        uint64_t now;               /* ms, of this turn; 0: not asked for yet, see reactor_now() */
        bool given;                 /* by who steps it; there is no other clock then */
        _Atomic uint64_t looked; /* ms: it had done what came until then; see reactor_is_behind() */
        struct reactor_beat sweep, tick, trim;
        uint64_t wake;       /* ms: a connection has something held until then; 0: none */
        uint64_t busy_until; /* ns: polls instead of sleeping */

        struct reactor_pause *paused;
        struct conn *conns;                 /* all of them */
        struct conn *again;                 /* stopped for their budget, or have something to do */
        struct conn *hungry, **hungry_last; /* wait for data buffers, first come first */
        bool fed;                           /* a buffer came back */
        struct pool pool;
        struct rx_buffer *rx_free;
        struct rdma *rdma; /* NULL: no port of this target ever was RDMA */
        unsigned rx_spare;
        void *own;            /* the family's: target_family.own_bytes of it */
        uint64_t drain_until; /* ms; 0: not draining */
};

/* 0, or -1 with errno. buffers: bytes of data buffers it may use. */
int reactor_start(struct reactor *r, struct service *s, uint64_t buffers, bool is_ticker);

/* One without thread and descriptors, for who has the target in his own: reactor_step() is a turn of
 * it at the time `now` (ms, not 0), which stays its time until the next one. False: out of memory. */
bool reactor_init(struct reactor *r, struct service *s, uint64_t buffers, bool is_ticker);
void reactor_step(struct reactor *r, uint64_t now);
/* Gives its memory back; no connection is left. */
void reactor_fini(struct reactor *r);

/* Closes all connections once their commands have ended, at the latest after drain_ms, and then
 * ends the thread; the second call waits for that, and reactor_fini() is to follow. No reactor_adopt() or reactor_call() may follow.
 */
void reactor_drain(struct reactor *r, unsigned drain_ms);
void reactor_join(struct reactor *r);

/* Runs fn(arg) on the reactor's thread, between two turns, and waits for it. Not from a reactor. */
void reactor_call(struct reactor *r, void (*fn)(struct reactor *r, void *arg), void *arg);

/* A connection that was accepted: the reactor's from here on, also if it fails. Any thread. The
 * reference to the port is handed over. */
void reactor_adopt(struct reactor *r, struct port *port, struct stream *stream,
                   const struct conn_peer *peer);

/* RDMA can be had on it from here on; 0, or -1 with errno. Not from a reactor. */
int reactor_open_rdma(struct reactor *r, struct verbs_provider *p);
/* The same as reactor_adopt() for a connect request that came in `from`, on whose thread this is. */
void reactor_adopt_rdma(struct reactor *r, struct port *port, const struct verbs_event *e,
                        struct reactor *from, const struct conn_peer *peer);

/* On the reactor's thread. */
void reactor_pause(struct reactor *r, struct reactor_pause *p, struct loop_source *s, unsigned ms);
/* It is watched again, also before its time. */
void reactor_resume(struct reactor *r, struct reactor_pause *p);
uint64_t reactor_now(struct reactor *r); /* ms */
/* The same, and looks again: on a crowded machine a turn may take long, and a Keep Alive that came in the middle
 * of it counts from then, not from where the turn began. */
uint64_t reactor_look(struct reactor *r);
/* Any thread: for half a second it has not looked at what came, so that nobody's silence means anything. */
bool reactor_is_behind(const struct reactor *r);
/* Receive buffers of RX_BUFFER bytes, aligned to 64. NULL: out of memory. */
uint8_t *reactor_rx_get(struct reactor *r);
void reactor_rx_put(struct reactor *r, uint8_t *buf);

#endif
