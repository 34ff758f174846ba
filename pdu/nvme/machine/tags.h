/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bounded map from 16-bit tags that the peer chooses (CID, TTAG) to slots of the owner's own
 * arrays. Look-up, addition and removal take constant time (linear probing at a load of at most
 * one half) and no memory. A slot keeps its number for as long as it is in use.
 */
#ifndef NVMF_MACHINE_TAGS_H
#define NVMF_MACHINE_TAGS_H

#include <stdint.h>

enum { TAGS_MAX = 32767, TAGS_NONE = -1 };

struct tags {
        struct tag_place *places;
        uint16_t *free; /* slots nobody has, the last used on top */
        uint32_t mask;
        unsigned slots, used, left; /* left: entries of free */
};

/* 0, or -1: out of memory; slots is cut to TAGS_MAX. */
int tags_init(struct tags *t, unsigned slots);
void tags_fini(struct tags *t);
/* Room for more; those in use stay where they are. -1: out of memory, nothing has changed. */
int tags_grow(struct tags *t, unsigned slots);

/* The slot, or TAGS_NONE. */
int tags_find(const struct tags *t, uint16_t tag);
/* A slot for a tag that has none; TAGS_NONE if all are taken. */
int tags_add(struct tags *t, uint16_t tag);
/*
 * Takes the tag out; its slot is not given to anybody else before tags_free(), so that what the
 * owner keeps there can still be looked at.
 */
int tags_remove(struct tags *t, uint16_t tag);
void tags_free(struct tags *t, int slot);

#endif
