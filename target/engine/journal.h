/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file of lines about what reactors do, a line for each record that they hand over. A thread of its own makes the
 * lines and writes them, so that a slow disk holds up nobody: a record that finds no room is left out, and the next
 * line says how many were, {"left_out":N}. The file, or each of a ring of files, begins with a line of the owner's and
 * has at most so many bytes.
 */
#ifndef NVMF_TARGET_ENGINE_JOURNAL_H
#define NVMF_TARGET_ENGINE_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

enum {
        JOURNAL_ROOM = 1 << 20, /* bytes of records that wait, and as many that are being written */
        JOURNAL_LINE = 8192,    /* bytes of a line; a longer one is left out */
        JOURNAL_LEAST = 64 << 10, /* bytes that a file may have, at least */
};

struct journal_options {
        const char *path;
        uint64_t most; /* bytes of a file, at least JOURNAL_LEAST; 0: no limit */
        /* As tcpdump -C -W has it: PATH, PATH.1, ... PATH.(files - 1), then PATH over again. With one file (0, 1) what
         * comes once it is full is left out, which is its last line. */
        unsigned files;
        /* Both write a line without its end into text and return its length, less than size; 0: none. On the journal's
         * thread, or in journal_open(). part: how many files there were before this one. */
        size_t (*head)(uint64_t part, char *text, size_t size);
        size_t (*line)(const void *record, size_t n, char *text, size_t size);
};

struct journal;
/* Makes the file, or empties it. NULL: error (of `size` bytes) has one line. */
struct journal *journal_open(const struct journal_options *o, char *error, size_t size);
/* A record of n bytes, which is copied; `record` is aligned as malloc() does it when it comes to line(). Any thread; it
 * does not wait for the file. */
void journal_add(struct journal *j, const void *record, size_t n);
/* One that its owner could not make, for want of memory: counted as left out. Any thread. */
void journal_lose(struct journal *j);
/* Those left out until now. Any thread. */
uint64_t journal_left_out(struct journal *j);
/* Writes what waits, and frees it; nobody adds any more. 0; -1 with the errno of the first write that failed, after which
 * everything was left out. NULL is fine. */
int journal_close(struct journal *j);

#endif
