/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An SRP target: logical units, one port, and the reactors that serve it, from its beginning to its end. Calls come from
 * one thread that is not a reactor's.
 */
#ifndef NVMF_TARGET_SRP_SERVER_H
#define NVMF_TARGET_SRP_SERVER_H

#include "pdu/core/rule.h"
#include "pdu/srp/wire/srp.h"

struct srp_script;
struct verbs_provider;

#define SRP_PORT "5555" /* where none is given */

enum { SRP_SERVER_LISTENS = 16 };

struct srp_options {
        struct srp_place {
                const char *traddr, *trsvcid; /* "0": any free port */
        } listen[SRP_SERVER_LISTENS];
        unsigned listens; /* 0: nowhere, yet */
        const char **lun; /* specifications (ns_open()), by number; NULL: there is no such LUN */
        unsigned luns;    /* numbers; 0: LUN 0 alone, of 64 MiB of memory */
        srp_port_id id;   /* all zero: logins may name any */
        uint32_t request_limit; /* of a channel; 0: 64 */
        uint32_t channels;      /* of a nexus; 0: 8 */
        uint32_t it_iu;         /* longest IU of initiators, bytes; 0: 8260 */
        uint32_t max_transfer;  /* bytes of a command; 0: 1 MiB */
        uint32_t
            stall_timeout; /* ms that an initiator may take for a READ or a response; 0: 30 s */
        uint32_t
            probe; /* ms that an initiator is silent before it is looked whether it is there; 0: 5 min */
        bool no_immediate;
        struct rule_policy policy;
        unsigned reactors, busy_poll; /* 0: one; microseconds */
        bool trace, quiet;
        struct verbs_provider *verbs;    /* NULL: the machine's */
        const struct srp_script *script; /* NULL: none; stays until the server is stopped */
};

struct srp_server;
struct srp_service;
struct target_family;

extern const struct target_family srp_target_family;

/* Serves from here on. NULL: error has one line. o need not stay. */
struct srp_server *srp_server_start(const struct srp_options *o, char *error, size_t size);
/* Takes no logins any more; channels that are there end. */
void srp_server_disable(struct srp_server *s);
void srp_server_stop(struct srp_server *s);
/* The port of the i-th place where it listens. */
const char *srp_server_port(const struct srp_server *s, unsigned i);
/* What it serves and what its reactors share, before there are any: for who has a reactor of his own. False: error has
 * one line; srp_service_fini() is to follow all the same. */
bool srp_service_init(struct srp_service *s, const struct srp_options *o, char *error, size_t size);
void srp_service_fini(struct srp_service *s);
/* Logins are not taken from here on: any thread. */
void srp_service_disable(struct srp_service *s);

#endif
