/* SPDX-License-Identifier: BSD-3-Clause */
/* The reports: text as the run goes, files when it is over. All say what struct run says. */
#ifndef NVMF_CONFORMANCE_REPORT_H
#define NVMF_CONFORMANCE_REPORT_H

#include "family.h"

/* --- text ---------------------------------------------------------------------------------- */

struct report_text {
        const struct family *family;
        FILE *out;
        bool colour, brief; /* brief: nothing about cases that passed */
        char section[64];   /* that was printed last */
        unsigned width;     /* of a line; 0: any */
};
struct report_text report_text(const struct family *f, FILE *out, bool brief);
void report_text_case(struct report_text *r, const struct result *result);
/* Noticed rules, failures once more with all that is known, the summary. */
void report_text_end(struct report_text *r, const struct run *run);
/* Which rules the run covered, and which not. */
void report_text_rules(FILE *out, const struct run *run);

/* --- files ("-": stdout). 0, or -1 with errno. --------------------------------------------- */

int report_json(const struct run *run, const char *path);
int report_junit(const struct run *run, const char *path);
int report_tap(const struct run *run, const char *path);
int report_html(const struct run *run, const char *path);
/* Not results, but what there is to run. */
int report_list_json(const struct family *f, const struct test_case **cases, size_t n,
                     const char *path);

/* For their writers. */
FILE *report_open(const char *path);
int report_close(FILE *f);
/* The name after the section of an id. */
const char *id_name(const char *id);
/* The rulebook, each rule with its cases; 0, or -1 if it can't be written. */
int report_rules_json(const struct conform_family *f, const char *path);
/* Rules that a case can cover at all: those of the family, without the reserved 0. */
unsigned rules_total(const struct family *f);
unsigned rules_count(const struct rule_set *s);

#endif
