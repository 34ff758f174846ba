/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A baseline: failures of one target that are known. A line is
 *
 *      ID fail      # why, and where it is tracked
 *      ID lenient   # with --strict: the lenient outcome is known
 *      ID fail sometimes      # likewise, but it is no news if it passes: it is there by chance
 *
 * where ID is a case's, or "noticed/RULE", or a glob; '#' starts a comment.
 */
#ifndef NVMF_CONFORMANCE_BASELINE_H
#define NVMF_CONFORMANCE_BASELINE_H

#include "result.h"

struct baseline_entry {
        char id[128];
        enum verdict verdict; /* VERDICT_FAIL, _LENIENT or _ADVICE */
        bool sometimes;
        char reason[160];
        int line;
};

struct baseline {
        struct baseline_entry *entries;
        size_t count;
};

/* Adds what a file says to b, which is all zero before the first: 0; -1: error says why, with the
 * line, and b is free. */
int baseline_read(struct baseline *b, const char *path, char *error, size_t size);
/* The same from text that is in memory; name is for messages. */
int baseline_parse(struct baseline *b, const char *text, const char *name, char *error,
                   size_t size);
void baseline_free(struct baseline *b);
/* The first entry, of those from `from` on, that names no case of the role and no rule: it would excuse
 * nothing, and never be found to be out of date. NULL: there is none. */
const struct baseline_entry *baseline_stray(const struct baseline *b, size_t from,
                                            const struct conform_family *f, enum role role);
/* Marks results that are listed (KNOWN_LISTED), and those of entries of which nothing fails any
 * more (KNOWN_FIXED). */
void baseline_apply(const struct baseline *b, struct run *run);

#endif
