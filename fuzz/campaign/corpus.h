/* SPDX-License-Identifier: BSD-3-Clause */
/* Sequences in memory and in files. A file holds one, or several that belong together, one after
 * the other: each begins with its line 'sequence ...'. */
#ifndef NVMF_FUZZ_CORPUS_DIR_H
#define NVMF_FUZZ_CORPUS_DIR_H

#include "seeds.h"

struct corpus {
        struct sequence **at; /* n of them */
        unsigned n, room;
        bool full; /* one did not fit */
};

enum { CORPUS_MAX = SEEDS_MAX /* what a campaign saves is read */, CORPUS_ERROR = 400 };

/* Adds a copy. False: no memory, or CORPUS_MAX are there. */
bool corpus_add(struct corpus *c, const struct sequence *s);
/* Drops the sequences of other families and transports: how many. */
unsigned corpus_keep(struct corpus *c, const struct fuzz_family *f, unsigned transport);
void corpus_free(struct corpus *c);

/*
 * Adds all sequences of a file, which may be a capture, or those of all
 * files of a folder that are texts, by their names' order. False: err
 * has one line, "FILE: line 3: ...". In a folder files that hold none are passed over: *skipped
 * (may be NULL) is how many. More than CORPUS_MAX are refused, not dropped.
 */
bool corpus_load(struct corpus *c, const char *path, unsigned *skipped, char err[CORPUS_ERROR]);
/* Writes a file; note (may be NULL): a line of comment on top. */
bool corpus_save(const struct corpus *c, const char *path, const char *note,
                 char err[CORPUS_ERROR]);
/* The highest number that a name in this folder begins with, 0: none does. What is saved there next
 * goes on after it. */
unsigned corpus_last(const char *folder);

/* Adds sessions that keep the rules, those of the family. */
void corpus_begin(struct corpus *c, const struct fuzz_family *f, unsigned transport);

#endif
