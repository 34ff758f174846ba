/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The specification as a table: each requirement that a reader found in it, who is bound, how a breach
 * would show, and the rules that judge it. What `conform --spec` prints.
 *
 * A table is text, a line a requirement, its columns apart by tabs; '#' begins a comment:
 *
 *      key     DOCUMENT/SECTION/letter, unique: "T1.0/3.6.2.8/a"
 *      party   host, controller or both
 *      level   shall, should, general (by a general rule, such as that for reserved fields), or may: a
 *              freedom, which its peer has to live with, and nobody can break
 *      when    what it is about: tcp, rdma, any; discovery, io, admin, auth, tls ...
 *      shows   "live", "capture", "live,capture": who could tell. "no: " and why nobody can
 *      rules   ids of the rules that judge it, apart by spaces; "" if none does yet. A rule binds the
 *              party, or its peer: then the requirement is how the party reacts to the breach
 *      gist    the requirement in our own words
 */
#ifndef NVMF_CONFORMANCE_SPEC_H
#define NVMF_CONFORMANCE_SPEC_H

#include <stdio.h>

#include "family.h"

enum { SPEC_RULES = 12 }; /* of a requirement */

struct spec_row {
        const char *key, *party, *level, *when, *shows, *gist;
        unsigned rules[SPEC_RULES + 1]; /* ended by RULE_NONE */
        unsigned document;              /* its length within the key, ... */
        unsigned section;               /* ... and with the section */
};

enum spec_state {
        SPEC_JUDGED, /* rules judge it */
        SPEC_OPEN,   /* none does yet */
        SPEC_FREE,   /* nobody can break it */
        SPEC_UNSEEN, /* nobody can tell: row->shows + 4 says why */
};
/* By what its row says alone. */
enum spec_state spec_state(const struct spec_row *row);

/* How many of what could be judged are. */
struct spec_figures {
        unsigned rows, unseen; /* unseen: nobody can tell, or a freedom */
        unsigned targets[2];   /* by cases against targets: judged, of so many */
        unsigned hosts[2];     /* by cases against hosts */
        unsigned captures[2];  /* in captures */
};

struct spec {
        const struct conform_family *family;
        struct spec_row *rows; /* as the tables have them */
        size_t count;
        struct rule_set by_role[2]; /* rules that cases of ROLE_TARGET, ROLE_HOST name */
        char *text;
};

/* Reads the family's tables. False: error names the line and says what is wrong; nothing to free. */
bool spec_read(struct spec *s, const struct conform_family *f, char *error, size_t size);
void spec_free(struct spec *s);

/* Rows whose key begins with the first `len` characters of `prefix`, up to a '/' or the end. */
struct spec_figures spec_count(const struct spec *s, const char *prefix, size_t len);

/* All rows by section, each with what judges it, and the figures; brief: the figures alone. */
void spec_print(FILE *out, const struct spec *s, bool brief);

#endif
