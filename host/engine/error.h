/* SPDX-License-Identifier: BSD-3-Clause */
/* What went wrong, as a value: a kind that decides the exit code, and one line for the reader. */
#ifndef NVMF_HOST_ERROR_H
#define NVMF_HOST_ERROR_H

#include <stdint.h>

enum host_trouble { /* also the exit code */
                    HOST_FINE = 0,
                    HOST_STATUS =
                        1, /* a command failed by its status, or data was not what it had to be */
                    HOST_USAGE = 2, /* asked for something that cannot be */
                    HOST_BROKEN =
                        3, /* no connection, or it ended, or nothing came within the timeout */
};

struct host_error {
        enum host_trouble kind;
        uint16_t status; /* HOST_STATUS: the protocol's, */
        uint32_t dw0;    /* ... and what it says more of it */
        int no;          /* HOST_BROKEN: errno, where a connection could not be made; else 0 */
        char line[400];  /* without line end */
};

/* Replaces what e says. The line is cut at its size. */
void host_error_set(struct host_error *e, enum host_trouble kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Sets e and is -1, so that `return host_fail(e, ...)` reads well. */
#define host_fail(...) (host_error_set(__VA_ARGS__), -1)

/* Adds to the line, as far as there is room. */
void host_error_add(struct host_error *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
