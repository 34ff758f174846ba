/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of `nvmfspec conform`. */
#ifndef NVMF_CONFORMANCE_OPTIONS_H
#define NVMF_CONFORMANCE_OPTIONS_H

#include "conformance/engine/select.h"
#include "conformance/engine/suite.h"
#include "target/target.h"

enum { OPTION_LIST = 64 };

struct option_list {                        /* of an option that may be given more than once */
        const char *items[OPTION_LIST + 1]; /* ended by NULL */
        size_t count;
};

enum action { ACT_RUN, ACT_LIST, ACT_RULES, ACT_EXPLAIN, ACT_POWER, ACT_HELP };

struct options {
        enum action action;
        struct suite suite; /* traddr NULL: the embedded target */
        uint8_t hostid[16];
        struct selection selection;
        struct option_list excluded;
        const char *explain;
        uint64_t jobs, repeat, seed, wait;
        const char *change;   /* command, or NULL */
        struct hosted hosted; /* of --role host */
        bool brief, verbose, show_rules, baseline_lax;
        const char *json, *junit, *tap, *html, *pcap;
        struct option_list baselines;
        /* of the embedded target */
        struct option_list ns;
        uint64_t cpda;
        struct target_limits limits; /* 0: as usual */
        bool limited;
        bool keyed; /* -S was given: its subsystem demands that, too */
        struct rule_policy policy;
        /* as given: for the fields of suite that are narrower */
        const char *transport, *role, *level;
        uint64_t hpda;
        bool list, dry_run, rules, count, power, help;
};

/* 0; 2: it was wrong, and why is said on stderr. */
int options_parse(struct options *o, int argc, char **argv);
void options_usage(FILE *out);

#endif
