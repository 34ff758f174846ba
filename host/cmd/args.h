/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of `nvmfspec host SUBCOMMAND`: one struct, one table of options for all of them. */
#ifndef NVMF_HOST_ARGS_H
#define NVMF_HOST_ARGS_H

#include "host/engine/command.h"
#include "host/nvme/ctrl.h"
#include "host/nvme/identity.h"
#include "pdu/io/option.h"

enum arg_group {                      /* what a subcommand takes, beside the groups of the engine */
                 ARGS_WHO = HOST_OWN, /* subsystem, host identity, keep alive */
                 ARGS_QUEUES = HOST_OWN << 1,
                 ARGS_NSID = HOST_OWN << 2,
                 ARGS_SLBA = HOST_OWN << 3,
                 ARGS_BLOCKS = HOST_OWN << 4,
                 ARGS_FUA = HOST_OWN << 5,
                 ARGS_DEAC = HOST_OWN << 6,
                 ARGS_DSM = HOST_OWN << 7,
                 ARGS_LOG = HOST_OWN << 8,
                 ARGS_GET_FEATURE = HOST_OWN << 9,
                 ARGS_SET_FEATURE = HOST_OWN << 10,
                 ARGS_DISCOVER = HOST_OWN << 11,
                 ARGS_RAW = HOST_OWN << 12,
                 /* The engine's: address, digests, alignment, timeout; verify and perf; files and patterns. */
                 ARGS_WHERE = HOST_WHERE,
                 ARGS_OUTPUT = HOST_OUTPUT,
                 ARGS_LOAD = HOST_LOAD,
                 ARGS_VERIFY = HOST_VERIFY,
                 ARGS_PERF = HOST_PERF,
                 ARGS_FILE = HOST_FILE,
                 ARGS_PATTERN = HOST_PATTERN,
};

struct args {
        struct host_args base; /* first */
        const char *traddr, *trsvcid, *nqn, *hostnqn, *hostid;
        uint64_t kato, timeout, hpda, maxr2t;    /* kato, timeout: ms */
        uint64_t reconnect_delay, ctrl_loss_tmo; /* ms */
        uint64_t io_queues, queue_size;          /* 0: not given */
        bool hdgst, ddgst, no_sqfc;

        uint64_t nsid; /* 1 if it is not given; of features ARG_NO_NSID */
        bool fua, deac, idw, idr;

        uint64_t length, offset; /* get-log: bytes */
        bool rae;
        const char *select;
        uint64_t value, data_length;
        bool save;
        bool persistent;

        bool ic;
        uint64_t split, delay, wait; /* bytes; ms */

        struct auth_key dhchap, dhchap_ctrl;
        struct nvme_tls tls;         /* its key, or its keys */
        struct tls_store *tls_store; /* of it, see args_forget(); NULL: none */
        bool tls_usual;              /* with the usual key store */
        const char *tls_suite, *tls_derivation;
        uint64_t tls_version;
        bool concat;
        struct rule_policy policy;
        const char *pcap;
        struct capture_writer *record; /* --pcap, once it is open */
        struct verbs_provider *verbs;  /* ... with RDMA; else NULL */
        struct host_address address;   /* what a nvme+tcp:// word said */
};

enum { ARG_UNSET = 0x7fffffff }; /* a number that was not given, where zero has a meaning */
#define ARG_NO_NSID UINT64_MAX

extern const struct option_row host_options[];

/* As host_family.defaults(), host_family.addresses() and host_family.forget(). */
void args_defaults(void *args);
int args_addresses(void *args, int count, char **words, struct host_error *e);
void args_forget(void *args);

/* As the option says, else the address, else TCP. */
enum host_transport args_transport(const struct args *a);

/* What to connect with. `port` and `nqn` stand for what was not given; nqn NULL: it has to be. */
int args_params(const struct args *a, const char *port, const char *nqn, struct host_params *p,
                struct host_error *e);

#endif
