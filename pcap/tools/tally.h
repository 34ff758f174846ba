/* SPDX-License-Identifier: BSD-3-Clause */
/* How often things of a few kinds were seen. Private to the room. */
#ifndef NVMF_PCAP_TALLY_H
#define NVMF_PCAP_TALLY_H

#include <stdbool.h>
#include <stdint.h>

enum { TALLY_NAME = 64 };

struct tally { /* one kind, in a list in order of keys */
        uint64_t key, count;
        char name[TALLY_NAME];
        struct tally *next;
};

/* One more of the kind of this key, which is called so: how many there are. 0: no memory. */
uint64_t tally_add(struct tally **list, uint64_t key, const char *name);
void tally_free(struct tally **list);

#endif
