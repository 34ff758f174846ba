/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of a process that serves others: lines on a descriptor, written by a thread of their own, so
 * that a reader who does not read holds up nobody. What does not fit is dropped and counted; lines of
 * one kind about one peer are limited, and how many were left out is a line of its own. Any thread.
 */
#ifndef NVMF_IO_LOG_H
#define NVMF_IO_LOG_H

#include <stdbool.h>

enum log_level { LOG_AS_ERROR, LOG_AS_WARNING, LOG_AS_INFO, LOG_AS_TRACE };

enum {
        LOG_RING = 1 << 18,    /* bytes that wait to be written */
        LOG_LINE = 1024,       /* bytes of a line; longer ones are cut */
        LOG_BURST = 20,        /* lines of one kind about one peer ... */
        LOG_WINDOW_MS = 10000, /* ... in this time */
};

/* Before the first line; without it: text on stderr, up to LOG_AS_INFO. The descriptor stays the caller's. */
void log_start(int fd, enum log_level most, bool json);
/* From here on. */
void log_set_level(enum log_level most);
/* One line without line end; control characters in it are escaped. kind: what it is limited by, of static
 * duration, and peer, an address, may be NULL; without a kind it is not limited. */
void __attribute__((format(printf, 4, 5)))
log_line(enum log_level level, const char *kind, const char *peer, const char *fmt, ...);
/* Waits until all is written, at most for ms. False: it is not. At the end of the process it is done for
 * half a second. */
bool log_flush(unsigned ms);

#endif
