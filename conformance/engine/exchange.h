/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What went over all connections of one case: a line for each message and event, and the bytes as they
 * went, for the failure report and the transcript. Bounded: the oldest lines go first, bytes stop
 * being kept after EXCHANGE_BYTES.
 */
#ifndef NVMF_CONFORMANCE_EXCHANGE_H
#define NVMF_CONFORMANCE_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
        EXCHANGE_LINES = 512,
        EXCHANGE_LINE = 200,
        EXCHANGE_HEADER = 144, /* bytes: of a message that are kept with its line */
        EXCHANGE_BYTES = 8 << 20,
};

struct exchange_line {
        uint64_t at; /* us since the epoch */
        unsigned conn;
        char way; /* '>' sent, '<' received, ' ' an event */
        char text[EXCHANGE_LINE];
        uint8_t kind; /* bits, the family's: how the header reads; 0: it has none */
        uint8_t header[EXCHANGE_HEADER];
};

enum exchange_kind { CHUNK_DATA, CHUNK_FIN, CHUNK_RST };

struct exchange_chunk { /* bytes in one direction, as the socket took or gave them; or its end */
        uint64_t at;
        unsigned conn;
        enum exchange_kind kind;
        bool sent;
        size_t offset, len; /* in bytes */
};

struct exchange {
        struct exchange_line *lines; /* a ring */
        unsigned first, count, dropped;
        struct exchange_chunk *chunks;
        size_t chunk_count, chunk_cap;
        uint8_t *bytes;
        size_t len, cap;
        bool cut;        /* some bytes were not kept */
        bool starved;    /* a connection was out of memory: what the case saw counts for nothing */
        uint64_t now;    /* us since the epoch, of what is added; 0: the clock's */
        FILE *narrate;   /* every line goes here too; may be NULL */
        const char *who; /* in front of it */
};

uint64_t exchange_now(void); /* us since the epoch */
/* What it has kept; it is empty then, and narrates to nobody. */
void exchange_free(struct exchange *x);
/* A message of this kind, not 0: len bytes of its header are kept, EXCHANGE_HEADER at most. */
void exchange_header(struct exchange *x, unsigned conn, bool sent, uint8_t kind, const void *header,
                     size_t len, const char *text);
/* A message of connection management. */
void exchange_cm(struct exchange *x, unsigned conn, bool sent, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* What happened to the connection, in words. */
void exchange_event(struct exchange *x, unsigned conn, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* What its socket took or gave, for the capture; beyond EXCHANGE_BYTES it is not kept, and x->cut. */
void exchange_bytes(struct exchange *x, unsigned conn, bool sent, const void *bytes, size_t len);
/* CHUNK_FIN or CHUNK_RST. */
void exchange_end(struct exchange *x, unsigned conn, bool sent, enum exchange_kind kind);
/* The i-th line that is kept, oldest first. */
const struct exchange_line *exchange_line(const struct exchange *x, unsigned i);
/* "1.234 ms  #1 -> CapsuleCmd ..." without line end; `start`: time of the first line. */
void exchange_format(const struct exchange_line *l, uint64_t start, char *buf, size_t size);

#endif
