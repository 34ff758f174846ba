/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of `nvmfspec conform`: what any family takes. A family adds rows to these, and its
 * struct of arguments begins with this one.
 */
#ifndef NVMF_CONFORMANCE_OPTIONS_H
#define NVMF_CONFORMANCE_OPTIONS_H

#include "pdu/io/option_table.h"
#include "suite.h"

enum { OPTION_LIST = 64 };

struct option_list {                        /* of an option that may be given more than once */
        const char *items[OPTION_LIST + 1]; /* ended by NULL */
        size_t count;
};
/* value is not copied. False: it has OPTION_LIST already, and error says so. */
bool option_list_add(struct option_list *l, const char *value, char *error, size_t size);

enum option_group { /* as the help has them */
                    OPTIONS_TARGET = 1,
                    OPTIONS_CASES = 2,
                    OPTIONS_RUN = 4,
                    OPTIONS_REPORTS = 8,
                    OPTIONS_EMBEDDED = 16,
                    OPTIONS_ALL = 31
};

enum action { ACT_RUN, ACT_LIST, ACT_RULES, ACT_SPEC, ACT_EXPLAIN, ACT_POWER, ACT_HELP };

struct options {
        const struct conform_family *const
            *families; /* that -t has to choose from, ended by NULL */
        enum action action;
        struct suite
            suite; /* role, transport and address as given; traddr NULL: the embedded one */
        struct selection selection;
        struct option_list excluded;
        const char *explain;
        uint64_t jobs, repeat, seed, wait;
        bool brief, verbose, show_rules, baseline_lax;
        const char *json, *junit, *tap, *html, *pcap;
        struct option_list baselines;
        struct rule_policy policy; /* of the reference peer */
        /* as given: for the fields of suite that are narrower */
        const char *role, *level;
        bool list, dry_run, rules, spec, count, power, help;
};

/* Into o, which is the start of f->args_size bytes. 0; 2: it was wrong, and why is said on stderr. */
int options_parse(const struct conform_family *const *families, const struct conform_family *f,
                  struct options *o, int argc, char **argv);
void options_usage(const struct options *o, FILE *out);
/* Says on stderr what is wrong with the command line; returns the exit code. */
int options_wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
