/* SPDX-License-Identifier: BSD-3-Clause */
/* What a family says to `pcap extract`. */
#ifndef NVMF_PCAP_EXTRACT_H
#define NVMF_PCAP_EXTRACT_H

#include "pcap/trace/tracer.h"

struct extract_blocks { /* that a command has moved */
        uint64_t first, count;
        const uint8_t *data; /* of len bytes; NULL: not all is known */
        size_t len;
};

struct extract_seed {  /* a message as a fuzzer gets it */
        char kind[64]; /* what the name of its file begins with: "tcp-R2T" */
        unsigned rank; /* of that kind, below 2^16 */
        const uint8_t *p;
        size_t n;
};

/* Called with the family's records; commands keep their data. NULL, each: there is no such thing. */
struct trace_extract {
        /* Whether it ends a command that has moved blocks of this namespace. */
        bool (*blocks)(struct extract_blocks *b, const void *record, uint64_t nsid);
        /* How long a block of this namespace is, bytes, if it says so; else 0. */
        uint32_t (*block_size)(const void *record, uint64_t nsid);
        /* Adds to a new object what the command that it ends was; where the family has a view. */
        void (*command)(struct json_object *o, const void *record);
        /* Whether it is a whole message; `room` is for its bytes, where they do not lie anywhere. */
        bool (*seed)(struct extract_seed *s, const void *record, struct bytes *room);
};

/* Bytes in hex, a new string; NULL: out of memory. */
struct json_object *extract_hex(const uint8_t *p, size_t n);

#endif
