/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of `nvmfspec host SUBCOMMAND`: one struct, one table of options for all of them. */
#ifndef NVMF_HOST_ARGS_H
#define NVMF_HOST_ARGS_H

#include "host/nvme/ctrl.h"
#include "host/nvme/identity.h"
#include "pdu/io/option.h"

enum arg_group {                      /* what a subcommand takes */
                 ARGS_WHERE = 1 << 0, /* address, digests, alignment, timeout */
                 ARGS_WHO = 1 << 1,   /* subsystem, host identity, keep alive */
                 ARGS_QUEUES = 1 << 2,
                 ARGS_OUTPUT = 1 << 3,
                 ARGS_NSID = 1 << 4,
                 ARGS_SLBA = 1 << 5,
                 ARGS_BLOCKS = 1 << 6,
                 ARGS_FILE = 1 << 7,
                 ARGS_PATTERN = 1 << 8,
                 ARGS_FUA = 1 << 9,
                 ARGS_DEAC = 1 << 10,
                 ARGS_DSM = 1 << 11,
                 ARGS_LOG = 1 << 12,
                 ARGS_GET_FEATURE = 1 << 13,
                 ARGS_SET_FEATURE = 1 << 14,
                 ARGS_DISCOVER = 1 << 15,
                 ARGS_LOAD = 1 << 16, /* verify and perf */
                 ARGS_VERIFY = 1 << 17,
                 ARGS_PERF = 1 << 18,
                 ARGS_RAW = 1 << 19,
};

struct args {
        const char *transport, *traddr, *trsvcid, *nqn, *hostnqn, *hostid, *output;
        uint64_t kato, timeout, hpda, maxr2t;    /* kato, timeout: ms */
        uint64_t reconnect_delay, ctrl_loss_tmo; /* ms */
        uint64_t io_queues, queue_size;          /* 0: not given */
        bool hdgst, ddgst, no_sqfc, verbose, help;

        uint64_t nsid, slba, blocks;
        const char *file;
        uint64_t pattern;
        bool fua, deac, idw, idr;

        uint64_t length, offset; /* get-log: bytes */
        bool rae;
        const char *select;
        uint64_t value, data_length;
        bool save;
        bool persistent;

        uint64_t iodepth, range, time, seed;
        uint64_t size, passes;
        bool command_buffers;
        const char *rw, *cpu;
        uint64_t mix, block_size, warmup;
        bool no_busy_poll;

        bool ic;
        uint64_t split, delay, wait; /* bytes; ms */

        struct auth_key dhchap, dhchap_ctrl;
        struct nvme_tls tls; /* its key */
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

extern const struct option_row host_options[];

/*
 * Parses argv[1..]: options of `groups`, an address as a word (taken out of the words), other
 * words. Returns how many of these there are, moved to *words; -1: e->line says what is wrong.
 */
int args_parse(struct args *a, uint32_t groups, int argc, char **argv, char ***words,
               struct host_error *e);

/* As the option says, else the address, else TCP. */
enum host_transport args_transport(const struct args *a);

/* What to connect with. `port` and `nqn` stand for what was not given; nqn NULL: it has to be. */
int args_params(const struct args *a, const char *port, const char *nqn, struct host_params *p,
                struct host_error *e);

static inline bool args_json(const struct args *a)
{
        return a->output[0] == 'j';
}

#endif
