/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads of a target, and where they listen: the reactors with all that they share, from their beginning to
 * their end. A family's target embeds it.
 *
 *      engine_start()      reactors run
 *      (the family)        listen_on(), listen_accept(), listen_drop() with engine->listeners, at any time
 *      engine_drain()      no new connections; commands end, and with them connections and threads
 *      (the family)        gives back what connections had
 *      engine_fini()
 *
 * Calls come from one thread that is not a reactor's, and each waits for the reactors' turn.
 */
#ifndef NVMF_TARGET_ENGINE_H
#define NVMF_TARGET_ENGINE_H

#include "listen.h"
#include "reactor.h"

enum { REACTORS_MAX = 256 };

struct engine { /* zeroed */
        struct listeners listeners;
        struct reactor *reactors;
        unsigned n_reactors;
};

/* n reactors (at most REACTORS_MAX) that serve with `s`, which have `buffers` bytes of data buffers in all, or enough
 * for some of the longest transfers each. verbs: of RDMA ports; NULL: the machine's. False: error has one line, and
 * engine_drain() and engine_fini() are to follow all the same. */
bool engine_start(struct engine *e, struct service *s, unsigned n, uint64_t buffers,
                  struct verbs_provider *verbs, char *error, size_t size);
/* Listens no more. */
void engine_close(struct engine *e);
/* Ends connections once their commands have ended, at the latest after some seconds, and the threads with them. */
void engine_drain(struct engine *e);
/* Threads that posted to the reactors have ended. */
void engine_fini(struct engine *e);

/* Every reactor has ended the turn it was in. */
void engine_wait_for_turn(struct engine *e);
/* On each reactor's thread, one after the other. */
void engine_each_reactor(struct engine *e, void (*fn)(struct reactor *r, void *arg), void *arg);
/* With each connection, on its reactor; fn may end it. */
void engine_each_conn(struct engine *e, void (*fn)(struct conn *c, void *arg), void *arg);
/* While all reactors stand still: what they share may change. */
void engine_alone(struct engine *e, void (*fn)(void *arg), void *arg);

#endif
