/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verdict on a capture, for any family: which party broke which rule first, connection by
 * connection. A finding that a frame missing from the other direction could explain waits until that
 * direction is known to be whole; if that never shows, it is printed and not counted.
 */
#ifndef NVMF_PCAP_CHECK_H
#define NVMF_PCAP_CHECK_H

#include <stdio.h>

#include "trace.h"

struct check_options {
        bool all;  /* every finding; else the first of each grade on each connection */
        bool json; /* an object a line */
        const struct rule_set
            *waived; /* rules that are not checked, a set for each family; NULL: none */
        /* Whether findings of this record count; NULL: all do. Called for each one. */
        bool (*selects)(void *user, const struct trace_record *r);
        void *user;
};

struct check_counts {
        uint64_t of[GRADES]; /* of GRADE_INFO none is counted */
        uint64_t unproven;   /* findings that a missing frame may explain: in none of these */
        uint64_t judged; /* events that a verdict can rest on, whatever it is; 0: there is none */
};

/* Prints findings and a summary to `out`. 0, or -1 with one line in err; counts and totals hold what
 * was seen in either case. */
int capture_check(const char *path, const struct trace_family *const *families,
                  const struct trace_options *trace, const struct check_options *options, FILE *out,
                  struct check_counts *counts, struct trace_totals *totals, char *err,
                  size_t err_size);

#endif
