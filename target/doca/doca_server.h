/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A DOCA target: one storage, and the reactors that serve it to clients, from its beginning to its end. Calls come from
 * one thread that is not a reactor's.
 */
#ifndef NVMF_TARGET_DOCA_SERVER_H
#define NVMF_TARGET_DOCA_SERVER_H

#include "doca_fault.h"

struct verbs_provider;

enum { DOCA_SERVER_LISTENS = 16 };

struct doca_options {
        struct doca_listen {
                const char *traddr, *trsvcid; /* "0": any free port */
        } listen[DOCA_SERVER_LISTENS];
        unsigned listens;
        const char *ns; /* specification (ns_open()); NULL: 64 MiB of memory */
        const struct doca_dialect *dialect;
        bool reference;               /* an error uses its stage up */
        uint32_t cores, transactions; /* of a client at most; 0: 16; 1024 */
        uint32_t max_transfer;        /* bytes of a request; 0: 4 MiB */
        uint32_t clients;   /* at once, all of which one address may be; 0: 64, 48 of one address */
        const char *device; /* address of the RDMA device; NULL: that of the control channel */
        struct rule_policy policy;
        struct doca_faults faults;
        unsigned reactors, busy_poll; /* 0: one; microseconds */
        unsigned
            patience; /* ms that answers may lie unread, and where more than half of all places are taken a client
                            * without contexts may say nothing; 0: 10000 */
        bool trace, quiet;
        struct capture_writer *record; /* may be NULL */
        struct verbs_provider *verbs;  /* NULL: the machine's, if it has one */
        /* A client's message was refused, or has ended its channel, for this rule; on a reactor. NULL: nobody asks. */
        void (*broken)(void *user, enum doca_rule rule);
        void *user;
};

struct doca_server;
struct target_family;

extern const struct target_family doca_target_family;

/* Serves from here on. NULL: error has one line. o need not stay, but its device. */
struct doca_server *doca_server_start(const struct doca_options *o, char *error, size_t size);
void doca_server_stop(struct doca_server *s);
/* The port of the i-th place where it listens. */
const char *doca_server_port(const struct doca_server *s, unsigned i);
/* Bytes of its storage, and of a block. */
uint64_t doca_server_size(const struct doca_server *s, uint32_t *block_size);
/* "": connections can be had; else why not. */
const char *doca_server_no_rdma(const struct doca_server *s);

#endif
