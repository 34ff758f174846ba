/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Places for what a long run leaves in the end: asked before it begins, so that nobody waits for a
 * report that can't be written. And files that are made out of another one.
 */
#ifndef NVMF_IO_OUTPUT_H
#define NVMF_IO_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a file of that name can be written; makes none, and leaves one that is there as it is.
 * false with errno. */
bool output_file(const char *path);

/* Makes the folder unless it is there; whether files can be put into it. false with errno. */
bool output_folder(const char *path);

/* Whether both are one file, whatever they are called. */
bool output_same(const char *a, const char *b);

enum { OUTPUT_PATH = 4096 };

/* A file that is made out of another one. It is written under a name of its own beside the place where
 * it shall be, and gets there whole or not at all; what is not a regular file (/dev/stdout, a pipe) is
 * written at once. */
struct output {
        char to[OUTPUT_PATH];
        char path[OUTPUT_PATH]; /* to be opened and written; it is there, and empty */
};

/* false: error (of `size` bytes) has one line, nothing is left behind; also if `to` is `from`. */
bool output_begin(struct output *o, const char *from, const char *to, char *error, size_t size);
/* Once it has been written and closed: puts it where it belongs. Not good: removes it instead. false
 * with errno if that fails. */
bool output_end(struct output *o, bool good);

#endif
