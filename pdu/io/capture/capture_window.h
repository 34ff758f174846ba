/* SPDX-License-Identifier: BSD-3-Clause */
/* A file or pipe that is read in order and in large parts: what is asked for lies in one piece in memory. */
#ifndef NVMF_IO_CAPTURE_WINDOW_H
#define NVMF_IO_CAPTURE_WINDOW_H

#include <stdint.h>
#include <sys/types.h>

enum { WINDOW_MAX = 1 << 20 }; /* bytes in one piece */

struct capture_window {
        int fd;
        uint8_t *bytes;    /* those from `start` to `end` are read and not taken */
        size_t start, end; /* who takes some advances start */
        size_t room;       /* bytes: grows as one piece needs it */
        uint64_t read;     /* bytes of the file before `end` */
        char why[120];     /* what the last failure was, or "" */
};

/* "-": standard input. -1: errno says why, and there is nothing to close. */
int window_open(struct capture_window *w, const char *path);
void window_close(struct capture_window *w);
/* At least n <= WINDOW_MAX bytes from `start` on, if the file has them: how many there are, or -1 with
 * why. What was taken may move away. */
ssize_t window_fill(struct capture_window *w, size_t n);
/* Takes n bytes unseen, of any number: 1; 0: the file ends before; -1 with why. */
int window_skip(struct capture_window *w, uint64_t n);
/* Where in the file `start` is. */
uint64_t window_offset(const struct capture_window *w);
/* Puts the sentence and the offset into why; returns -1. */
int window_fail(struct capture_window *w, uint64_t offset, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
