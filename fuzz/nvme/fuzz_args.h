/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of `nvmfspec fuzz SUBCOMMAND`. */
#ifndef NVMF_FUZZ_FUZZ_ARGS_H
#define NVMF_FUZZ_FUZZ_ARGS_H

#include "fuzz/campaign/campaign.h"
#include "pdu/io/option.h"
#include "peer.h"

enum { FUZZ_AVOIDS = 64 };

enum fuzz_group { /* what a subcommand takes */
                  FUZZ_LIVE = 1 << 0,
                  FUZZ_CAMPAIGN = 1 << 1,
                  FUZZ_ORACLE = 1 << 2,
                  FUZZ_MIN = 1 << 3,
                  FUZZ_MERGE = 1 << 4,
                  FUZZ_ANY = 1 << 5,
};

struct fuzz_args { /* what config does not take as it is */
        const char *transport, *traddr, *trsvcid, *nqn, *hostnqn, *hostid;
        uint64_t timeout, settle, hang, delay; /* ms */
        struct rule_policy policy;
        const char *avoid[FUZZ_AVOIDS]; /* ended by NULL */
        bool allow_write, stranger, help;
        const char *reload;
        uint64_t reloads, revokes, prove_within;
        struct auth_key dhchap, dhchap_ctrl;
};

struct fuzz_call {
        const char *name; /* of the subcommand */
        struct fuzz_args args;
        struct campaign_config config; /* of the arguments */
        struct nvme_peer peer;         /* its target's */
        struct avoid avoid;            /* the peer's */
        bool live;                     /* a target was named */
        char **word;
        int words;
};

extern const struct option_row fuzz_options[];

/* Fills in args, config and live; the index of the first word that is no option, or -1: error has
 * one line. call must not move afterwards. */
int fuzz_args_parse(struct fuzz_call *call, uint32_t groups, int argc, char **argv, char *error,
                    size_t size);

#endif
