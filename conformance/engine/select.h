/* SPDX-License-Identifier: BSD-3-Clause */
/* The registry of cases, and which of them a run takes. */
#ifndef NVMF_CONFORMANCE_SELECT_H
#define NVMF_CONFORMANCE_SELECT_H

#include "test_case.h"

enum role { ROLE_TARGET, ROLE_HOST }; /* who is tested */

struct selection {
        const struct conform_family *family;
        enum role role;
        char *const *ids; /* prefixes of ids ("tcp/h2cdata") or globs; count 0: all */
        size_t id_count;
        const char *const *excluded; /* likewise */
        size_t excluded_count;
        const char *transport; /* cases that run over it; NULL: all */
        enum level level;      /* cases of this level and above it */
        struct rule_set rules; /* only cases that name one of these; empty: all */
};

/* All cases of a role, of the family, by topic; count gets how many. The array is the caller's to free. */
const struct test_case **cases_all(const struct conform_family *f, enum role role, size_t *count);

/*
 * Those that the selection takes, in the same order. NULL: `error` says what is wrong with it (an
 * id that no case has, or nothing is left).
 */
const struct test_case **cases_select(const struct selection *s, size_t *count, char *error,
                                      size_t size);

/* Whether the case can be run over this transport, one of its family's. */
bool case_runs_on(const struct test_case *c, const char *transport);
/* Whether `pattern` selects `id`: a prefix that ends where a word of it ends, or a glob. */
bool id_matches(const char *pattern, const char *id);
/* Order of ids in reports: by topic as the table of topics has them, then by name. */
int id_compare(const struct family *f, const char *a, const char *b);
/* "tcp/h2cdata" of "tcp/h2cdata/ttag"; what the section is about, "" if not known. */
size_t id_section(const char *id);
const char *section_title(const struct family *f, const char *section, size_t len);

#endif
