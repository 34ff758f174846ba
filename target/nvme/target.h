/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference target as a library: start it, ask where it listens, stop it. The command
 * `nvmfspec target` and the suite's embedded target are this with different options.
 */
#ifndef NVMF_TARGET_TARGET_H
#define NVMF_TARGET_TARGET_H

#include <stdio.h>

#include "pdu/nvme/machine/tls_key.h"
#include "pdu/nvme/wire/rules.h"

struct capture_writer;
struct config;
struct nvme_tls_server;
struct stream;
struct verbs_provider;

#define TARGET_NQN "nqn.2026-01.io.nvmfspec:target" /* the default subsystem */

/* Every bound of the target; zero means the default. For in-capsule data TARGET_NONE means none. */
#define TARGET_NONE UINT32_MAX
struct target_limits {
        unsigned connections;   /* at once; more are closed at accept */
        unsigned queue_entries; /* per queue: CAP.MQES + 1 */
        unsigned queues;        /* I/O queues per controller */
        unsigned controllers;   /* at once */
        unsigned host_connections,
            host_controllers;           /* of them, of one host or address; default 3/4 */
        unsigned subsystem_controllers; /* of them, of one subsystem; default 7/8 */
        unsigned auth_jobs;             /* computations of authentication that may wait */
        unsigned
            unproven; /* of them, of one address, of hosts that still have to authenticate themselves */
        uint64_t buffers;         /* bytes of data buffers in all */
        uint32_t max_transfer;    /* bytes of one command: MDTS */
        uint32_t in_capsule;      /* bytes of I/O in-capsule data over TCP */
        uint32_t maxh2cdata;      /* bytes */
        uint32_t c2hdata;         /* bytes of one C2HData; 0: all of a transfer */
        uint32_t r2t;             /* bytes of one R2T; 0: all of a transfer */
        uint32_t rdma_in_capsule; /* bytes of I/O in-capsule data over RDMA */
        uint32_t receives;        /* posted at once on an RDMA device, by one reactor */
        unsigned ic_timeout;      /* ms until ICReq, and from ICResp to Connect, must be there */
        unsigned stall_timeout;   /* ms without progress within a PDU, an R2T or unread output */
        unsigned term_timeout;    /* ms that a peer may take to close after our TermReq */
        unsigned idle_timeout;    /* ms without traffic where KATO is 0 */
        unsigned auth_timeout; /* ms until a host has authenticated itself, since it was last due */
        uint32_t segment;      /* bytes that are given to TCP at once; 0: any number */
        unsigned psk_lifetime; /* ms of a generated PSK */
        unsigned ready_time;   /* ms that I/O controllers take from CC.EN to CSTS.RDY; 0: none */
        unsigned least_rate;   /* bytes/s of a host that has data to send or to read */
};
/* Sets one as "NAME=VALUE" says; false: error says why. */
bool target_limit(struct target_limits *limits, const char *setting, char *error, size_t size);
/* Those that are 0 become what they are in `more`. */
void target_limits_fill(struct target_limits *limits, const struct target_limits *more);
bool target_limits_same(const struct target_limits *a, const struct target_limits *b);

/* Adds a rule of hosts that is not checked, or a rule of controllers or a flaw that is broken, by its id;
 * what a receiver tolerates may be either. false: error says why. */
bool target_waive(struct rule_policy *p, const char *rule, char *error, size_t size);
bool target_violate(struct rule_policy *p, const char *rule, char *error, size_t size);

enum target_concat { CONCAT_OFF, CONCAT_PERMITTED, CONCAT_REQUIRED };

/* Strict: ends what most targets put up with. Usual: tolerant. */
enum target_rigour { RIGOUR_USUAL, RIGOUR_TOLERANT, RIGOUR_STRICT };

struct target_options {
        uint8_t trtype;               /* TRTYPE_TCP (also 0) or TRTYPE_RDMA */
        const char *traddr;           /* default "127.0.0.1" */
        const char *trsvcid;          /* default "4420"; "0": any free port */
        const char *subnqn;           /* default TARGET_NQN */
        const char *const *ns;        /* see ns_open(); NULL ends; default "mem:64M" */
        const struct auth_keys *keys; /* of the subsystem; NULL: none */
        const char *const *faults;    /* see trigger.h; NULL ends; NULL: none */
        const char *config;           /* nvmetcli JSON instead of the above; or NULL */
        const struct config *serve;   /* or this (see config.h), instead of all of the above; copied
                                     * into the inventory, need not outlive target_start() */
        unsigned reactors;            /* threads; default 1 */
        unsigned busy_poll;           /* microseconds a reactor polls before it sleeps */
        enum target_rigour rigour;
        uint8_t cpda;
        bool no_hdgst, no_ddgst, no_sqfc_disable, no_success;
        struct verbs_provider *verbs; /* of RDMA ports; NULL: verbs_rdma() */
        bool no_in_capsule; /* limits.in_capsule and limits.rdma_in_capsule are TARGET_NONE */
        uint16_t icdoff;    /* over RDMA, 16-byte units */
        uint8_t msdbd;      /* data block descriptors of an I/O command over RDMA; default 16 */
        bool trace;         /* request states to stderr */
        bool quiet;         /* else stderr tells what hosts do wrong */
        bool timed;         /* measures how long commands take: for target_metrics() */
        struct capture_writer *record; /* what goes over the ports is written there; may be NULL */
        bool record_hello;             /* ... and over TLS each ClientHello before what is inside */
        struct nvme_tls tls; /* of ports over TCP: TLS for any host that has this PSK; key.len
                                        * 0: none */
        bool tls_required;   /* hosts without TLS are not served */
        bool tls_untold;     /* the discovery log tells nothing of TLS */
        /* As nvme_tls_server.take_over, before the target's own; it is called on the reactors' threads. NULL: none. */
        bool (*tls_take_over)(void *tls_user, const struct nvme_tls_server *server,
                              struct stream *s, const uint8_t *hello, size_t len);
        void *tls_user; /* its own */
        /* Secure channel concatenation for hosts that have a key for authentication (TCP): the PSK that they
         * generate is the only one that they may use. */
        enum target_concat concat;
        struct rule_policy policy; /* what it waives and violates */
        struct target_limits limits;
};

/* Adds what the profiles of these names, with commas between them, set to `o`, in which there is nothing else: the
 * last one that sets something wins. False: `error` says which name there is not. */
bool target_profile(struct target_options *o, const char *names, char *error, size_t size);
/* What profiles can set and `o` leaves open (0) becomes what it is in `profile`. */
void target_profile_fill(struct target_options *o, const struct target_options *profile);
/* "  NAME   what it is", a line each. */
void target_profile_help(FILE *out);

struct target;

/* NULL: `error` (of `size` bytes) has one line that names what was wrong. The target runs in threads
 * of its own until target_stop(). Options are copied. */
struct target *target_start(const struct target_options *o, char *error, size_t size);
/* Where the first port listens (discovery service and subsystems alike). */
const char *target_traddr(const struct target *t);
uint16_t target_trsvcid(const struct target *t);
/* Its state, in SPDK's words (doc/target.md): "running" between target_start() and target_stop(). */
const char *target_state(const struct target *t);
/* Connections that are open, or have not been seen to end yet. */
unsigned target_connections(const struct target *t);
/* What it has counted, as a page for Prometheus (metrics.h), to be freed; NULL: out of memory. Any thread;
 * it holds up nobody. */
char *target_metrics(struct target *t, size_t *len);
/* All ports, one after the other: "127.0.0.1:4420 rdma:10.0.0.2:4420". */
void target_ports(struct target *t, char *text, size_t size);
/* Re-reads the configuration and applies the difference. 0; -1: `error` says why, nothing changed; 1: `error`
 * says which namespace cannot have its new size, all else has changed. */
int target_reload(struct target *t, char *error, size_t size);
/* Applies the difference to another configuration; c is copied. A port "0" is the one that it became.
 * As above. */
int target_change(struct target *t, const struct config *c, char *error, size_t size);
/* Drains: no new connections, commands in flight end, connections are closed; then frees. */
void target_stop(struct target *t);

#endif
