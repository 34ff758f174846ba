/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a target listens, over either transport. What comes in goes to the reactors in turn. Calls
 * are the target's owner's, one at a time; accepting is done by the first reactor.
 */
#ifndef NVMF_TARGET_LISTEN_H
#define NVMF_TARGET_LISTEN_H

#include "reactor.h"

struct listener;

struct listeners { /* zeroed; the owner sets service, reactors and verbs */
        struct service *service;
        struct reactor *reactors;
        unsigned n_reactors, next_reactor;
        struct verbs_provider *verbs;    /* of RDMA ports; NULL: the machine's, when one is there */
        struct verbs_provider *recorder; /* ours: the same, recorded; NULL: not used yet */
        struct listener *first;
};

/* Listens on these ports, on all or none; nothing is accepted yet. They are there until listen_drop(). A port "0"
 * becomes the one that was free. false: error has one line that names the place. */
bool listen_on(struct listeners *l, struct port *const *ports, unsigned n, char *error,
               size_t size);
/* A context of RDMA for each reactor, recorded where the service is: before the first port or connection over it, again at
 * will. false: why is one line. */
bool listen_open_rdma(struct listeners *l, char *why, size_t size);
/* From here on, on the ports of the last listen_on(), of which there were n. */
void listen_accept(struct listeners *l, unsigned n);
/* No longer on these. */
void listen_drop(struct listeners *l, struct port *const *ports, unsigned n);
/* On none at all. */
void listen_drop_all(struct listeners *l);
/* All reactors have ended. */
void listen_fini(struct listeners *l);

#endif
