/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What perf and verify do their work on: queues to some blocks, whatever the protocol. Reads and writes are submitted
 * to a queue and completed by a callback while it is served; a family of protocols has the operations.
 *
 * A queue belongs to one thread at a time; keep() and next() are the owner's of all of it.
 */
#ifndef NVMF_HOST_LOAD_H
#define NVMF_HOST_LOAD_H

#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

enum load_outcome {
        LOAD_DONE,
        LOAD_FAILED, /* by its status */
        LOAD_LOST,   /* its queue is gone: it may have been carried out, or not */
};

struct load_io { /* begins the family's: load_ops.io_bytes, zero at first */
        bool write;
        bool asked_for; /* its data is not sent at once, but when it is asked for */
        uint64_t block; /* the first one */
        uint32_t blocks;
        void *data; /* NULL: what is read is thrown away */
        void (*done)(struct load_io *io, void *user);
        void *user;
        enum load_outcome outcome; /* in done() */
        uint64_t
            held_until; /* loop_now_ns() when the family sends it once more: the timeout counts from there */
};

enum { LOAD_FDS = 4 }; /* descriptors of one queue at most */

struct load_state {  /* what is to be known of a queue; in the family's, zero at first */
        bool broken; /* it is lost, and stays so */
        struct host_error error; /* ... for this reason */
        uint64_t received_at;    /* loop_now_ns() when what is in hand came in; 0: nobody knows */
};
/* It is lost from here on, for a reason in a line. False: it was already. */
bool load_break(struct load_state *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool load_vbreak(struct load_state *s, const char *fmt, va_list ap);

struct json_object;
struct load;

struct load_ops {
        size_t io_bytes; /* of what begins with a struct load_io */
        /* Nothing is sent before the next send(). -1: the queue is full or lost. */
        int (*submit)(struct load *l, unsigned queue, struct load_io *io);
        /* Sends what is queued (NULL: submit() does); takes what has come: how much (0: nothing), calling done(). -1: lost. */
        int (*send)(struct load *l, unsigned queue);
        long (*receive)(struct load *l, unsigned queue);
        /* Stays where it is until reconnect(). NULL: no more is known. */
        struct load_state *(*state)(const struct load *l, unsigned queue);
        /* What to wait for, LOAD_FDS at most; how many. 0: it has to be asked. -1: do not wait. */
        int (*fds)(struct load *l, unsigned queue, struct pollfd *fds);
        /* It is lost from here on, for this reason: done() of all that is outstanding. NULL: nobody is told. */
        void (*abandon)(struct load *l, unsigned queue, const char *why);
        /* Memory that data will lie in. -1: e says why. NULL, both: any will do. */
        int (*add_memory)(struct load *l, unsigned queue, void *base, size_t len,
                          struct host_error *e);
        void (*drop_memory)(struct load *l, unsigned queue, const void *base);

        /* By which reports name it. NULL: from 1. */
        unsigned (*number)(const struct load *l, unsigned queue);
        /* NULL: no more is known. */
        void (*why_failed)(const struct load *l, const struct load_io *io, struct host_error *e);

        /* More of them for a report: members of a JSON object. NULL: nothing. */
        void (*show)(const struct load *l, struct json_object *o);

        /* Keeps the connections alive. -1: lost, and e says why. NULL: nothing has to be done. */
        int (*keep)(struct load *l, struct host_error *e);
        /* ms until keep() has something to do; -1: never. */
        int (*next)(const struct load *l);
        /* All queues again, of the same number. -1: they were not to be had. NULL where no load reconnects. */
        int (*reconnect)(struct load *l, struct host_error *e);
};

struct load {
        const struct load_ops *ops;
        void *host;             /* the family's */
        unsigned queues, depth; /* outstanding per queue at most */
        uint32_t block_size;    /* bytes */
        uint64_t blocks;
        uint32_t max_blocks; /* of one command */
        unsigned timeout;    /* ms, of a command */
        bool reconnects;     /* when it is lost */
        bool sinks;          /* what is read and thrown away needs memory all the same */
        unsigned param;      /* the family's */
};

/* By which reports name a queue. */
unsigned load_number(const struct load *l, unsigned queue);
/* As load_ops; where the family has nothing of the kind, what can be said all the same. */
int load_send(struct load *l, unsigned queue);
void load_abandon(struct load *l, unsigned queue, const char *why);
void load_why_failed(const struct load *l, const struct load_io *io, struct host_error *e);
void load_why_lost(const struct load *l, unsigned queue, struct host_error *e);

/* Serves a queue once. 1: something came; -1: it is lost. */
int load_poll(struct load *l, unsigned queue);
/* Sleeps until something comes to one of these queues, up to ms; fds has room for LOAD_FDS of each. How many
 * descriptors are ready; > 0 also if there was no need to sleep. */
int load_sleep(struct load *l, const unsigned *queues, unsigned n, struct pollfd *fds, int ms);

#endif
