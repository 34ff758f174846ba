/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a target listens, over either transport. What comes in goes to the reactors in turn. Calls
 * are the target's owner's, one at a time; accepting goes on on the first reactor.
 */
#ifndef NVMF_TARGET_LISTEN_H
#define NVMF_TARGET_LISTEN_H

#include "plan.h"
#include "reactor.h"

struct listener;

struct listeners {
        struct service *service;
        struct reactor *reactors;
        unsigned n_reactors, next_reactor;
        struct verbs_provider *verbs;    /* of RDMA ports; NULL: the machine's, when one is there */
        struct verbs_provider *recorder; /* ours: the same, recorded; NULL: not used yet */
        struct listener *first;
};

/* Listens on the new ports of a plan, on all or none; nothing is accepted yet. The ports learn
 * their port number and address family. false: error has one line that names the place. */
bool listen_on_new(struct listeners *l, const struct plan *p, char *error, size_t size);
/* Connections to these are accepted from here on. */
void listen_accept_new(struct listeners *l, const struct plan *p);
/* No longer on the old ports of a plan; NULL: on none at all. */
void listen_drop_old(struct listeners *l, const struct plan *p);

#endif
