/* SPDX-License-Identifier: BSD-3-Clause */
/* The reports: text as the run goes, files when it is over. All say what struct run says. */
#ifndef NVMF_CONFORMANCE_REPORT_H
#define NVMF_CONFORMANCE_REPORT_H

#include "family.h"
#include "pdu/io/output.h"

/* --- text ---------------------------------------------------------------------------------- */

struct report_text {
        const struct family *family;
        FILE *out;
        bool colour, brief; /* brief: nothing about cases that passed */
        char section[64];   /* that was printed last */
        unsigned width;     /* of a line; 0: any */
};
/* Colour, and lines as wide as the terminal, where out is one. out stays the caller's. */
struct report_text report_text(const struct family *f, FILE *out, bool brief);
/* A case that has ended: printed at once, and flushed. */
void report_text_case(struct report_text *r, const struct result *result);
/* Noticed rules, failures once more with all that is known, the summary. */
void report_text_end(struct report_text *r, const struct run *run);
/* Which rules the run covered, and which not. */
void report_text_rules(FILE *out, const struct run *run);

/* --- files ("-": stdout). 0, or -1 with errno. --------------------------------------------- */

/* What a run has found. Where it fails, a file that was there before is kept. */
int report_json(const struct run *run, const char *path);
int report_junit(const struct run *run, const char *path);
int report_tap(const struct run *run, const char *path);
int report_html(const struct run *run, const char *path);
/* Not results, but what there is to run. */
int report_list_json(const struct family *f, const struct test_case **cases, size_t n,
                     const char *path);

struct report_file {
        FILE *f; /* NULL: it can't be opened, with errno */
        struct output to;
};
/* For their writers: a file gets to its place whole, by report_close(), or not at all. */
struct report_file report_open(const char *path);
/* 0, or -1 with errno. */
int report_close(struct report_file *r);
/* "tcp/h2cdata/ttag (T1.0 3.6.2.8; must; the reaction: printed)", of r->rule; "" if there is none. */
void report_rule(const struct run *run, const struct result *r, char *buf, size_t size);
enum { REPORT_LINE = 1024 };
/* The name after the section of an id. */
const char *id_name(const char *id);
/* The rulebook, each rule with its cases; 0, or -1 if it can't be written. */
int report_rules_json(const struct conform_family *f, const char *path);
struct spec;
/* The specification's requirements, each with its rules; 0, or -1 with errno. */
int report_spec_json(const struct spec *s, const char *path);
int report_spec_html(const struct spec *s, const char *path);
/* Rules that a case can cover at all: those of the family, without the reserved 0. */
unsigned rules_total(const struct family *f);
unsigned rules_count(const struct rule_set *s);

#endif
