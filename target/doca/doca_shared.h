/* SPDX-License-Identifier: BSD-3-Clause */
/* What all reactors of a DOCA target share, and what each has for itself. */
#ifndef NVMF_TARGET_DOCA_SHARED_H
#define NVMF_TARGET_DOCA_SHARED_H

#include "doca_fault.h"
#include "pdu/doca/machine/doca_target.h"
#include "target/engine/reactor.h"
#include "target/ns/ns.h"

struct doca_slot;

struct doca_stats { /* requests; bytes of those that succeeded */
        uint64_t reads, writes, failed, bytes_read, bytes_written;
};

struct doca_polls { /* for completions: that found some, and that found none */
        uint64_t hits, misses;
};

struct doca_shared {
        struct service base; /* first */
        struct ns *ns;
        const struct doca_dialect *dialect;
        enum doca_after_error after_error;
        struct rule_policy policy;
        struct doca_faults faults;
        uint64_t cores, transactions; /* of a client at most */
        const char *device; /* address of the RDMA device; NULL: that of the control channel */
        void (*broken)(void *user, enum doca_rule rule); /* see struct doca_options */
        void *user;
        unsigned patience; /* see struct doca_options */
        bool trace, quiet;
        char no_rdma[200]; /* why there is none; "": there is */
        pthread_mutex_t lock;
        unsigned clients;        /* so far; under the lock, like */
        struct doca_stats total; /* of all that have ended */
        struct doca_polls polls;
};

struct doca_reactor {
        _Atomic(struct doca_slot *) finished; /* given back by other threads, newest first */
        struct loop_message mail;
};

static inline struct doca_shared *doca_shared_of(const struct reactor *r)
{
        return (struct doca_shared *)(void *)r->service;
}

static inline void doca_tell_broken(const struct doca_shared *s, enum doca_rule rule)
{
        if (s->broken && rule != DOCA_RULE_NONE)
                s->broken(s->user, rule);
}

static inline uint32_t doca_block_size(const struct doca_shared *s)
{
        return 1u << s->ns->lbads;
}

static inline uint64_t doca_total_size(const struct doca_shared *s)
{
        return atomic_load(&s->ns->blocks) * doca_block_size(s);
}

#endif
