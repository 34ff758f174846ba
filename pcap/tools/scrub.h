/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names, identifiers, addresses and data replaced by others: the same one always by the same one, so
 * that what a capture shows stays, and by a keyed function (SipHash-2-4), so that nobody who lacks
 * the key can find out by trying.
 */
#ifndef NVMF_PCAP_SCRUB_H
#define NVMF_PCAP_SCRUB_H

#include "pdu/io/capture/capture.h"

struct scrub {
        uint64_t key[2];
        bool keep_data; /* of I/O commands */
};

/* By which something can be named instead. */
uint64_t scrub_hash(const struct scrub *s, const void *p, size_t n);

/* In place, by a keyed hash: the same address becomes the same again, of 10.0.0.0/8 or
 * fd00::/8. The port stays. */
void scrub_address(const struct scrub *s, struct capture_end *e);

/* n bytes of a field, in place. */
typedef void scrub_fn(const struct scrub *s, uint8_t *p, size_t n);
scrub_fn scrub_bytes; /* all zero stays so, for that means that there is none */
scrub_fn
    scrub_letters; /* other letters and digits; what is neither stays, and what is wrong with it */
scrub_fn scrub_address_text; /* of an IP address; anything else becomes zero */
scrub_fn scrub_zero;

/* A piece of data: n bytes at `offset` of the whole. */
struct scrub_piece {
        uint64_t offset;
        uint8_t *p;
        size_t n;
};
/* A field of a structure. */
struct scrub_place {
        uint32_t at, len; /* bytes */
        scrub_fn *replace;
};
#define SCRUB_PLACE(type, member, replace)                                                         \
        {                                                                                          \
                offsetof(type, member), sizeof(((type *)0)->member), replace                       \
        }
/* The fields of a structure that begins at `base` of the whole; those that are not all there become zero. */
void scrub_places(const struct scrub *s, const struct scrub_piece *d, uint64_t base,
                  const struct scrub_place *places, size_t n);

#endif
