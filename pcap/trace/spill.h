/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for what grows with the capture: it only grows, lies in a file without a name in TMPDIR
 * (/tmp), and is read back where it is looked at. So the process stays small, however much that is.
 */
#ifndef NVMF_PCAP_SPILL_H
#define NVMF_PCAP_SPILL_H

#include <stddef.h>

struct spill_part;
struct spill { /* all zero: empty */
        struct spill_part *parts;
        size_t bytes; /* in use */
        int error;    /* errno of the first spill_add() that found no room */
};

/* n bytes, zero, aligned for any type, at this address until spill_free(). NULL: there is no room in
 * the file. */
void *spill_add(struct spill *s, size_t n);
/* Nothing of it will be looked at for a while: memory is given back, contents stay. */
void spill_rest(const struct spill *s);
/* The caller has looked at n bytes: spill_rest(), whenever that has come to some MiB. *since is his,
 * 0 at first. */
void spill_looked(const struct spill *s, size_t *since, size_t n);
void spill_free(struct spill *s);

#endif
