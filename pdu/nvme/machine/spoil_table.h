/* SPDX-License-Identifier: BSD-3-Clause */
/* What the violators of all layers (spoil_*.c) share; nobody else's. */
#ifndef NVMF_MACHINE_SPOIL_TABLE_H
#define NVMF_MACHINE_SPOIL_TABLE_H

#include "pdu/nvme/wire/fabrics.h"
#include "spoil.h"

enum op { PUT, ADD, FLIP };

/* Little-endian field of a header, completion or data structure, and what is done to it. */
struct change {
        uint16_t offset, size;
        enum op op;
        uint64_t value;
};
/* base: where the structure begins; it has at least offset + size bytes. */
void spoil_make(uint8_t *base, const struct change *c);

#define SIZE(type, member) sizeof(((type *)0)->member)
#define AT(type, member)   offsetof(type, member), SIZE(type, member)

/* An identifier that differs in this bit is unlikely to be in use as well. */
enum { STRANGE = 0x4000 };

/* Whether it is a command of an I/O queue, as far as that shows. */
bool spoil_has_nsid(const union sqe *sqe);

struct spoil_sqe { /* a command that is about to be sent */
        union sqe *sqe;
        uint8_t *connect_data; /* of a Connect: 1,024 bytes, writable; NULL: not to be had */
};
/* Applies the violators of all rules in `violated` that fit this command; true if anything changed. */
bool spoil_sqe(const struct rule_set *violated, struct spoil_sqe *s);

/* What of V_TABLES has an entry for it, of commands and of completions: what its row says, and a test
 * holds them to each other. Those of transports: spoil_kinds_pdu(), spoil_kinds_rdma(). */
unsigned spoil_kinds_sqe(enum rule_id rule);
unsigned spoil_kinds_cqe(enum rule_id rule);

/* Whether one of n entries of `size` bytes, whose first member is a rule, is about this one. */
bool spoil_table_has(const void *table, size_t n, size_t size, enum rule_id rule);
#define TABLE_HAS(table, rule)                                                                     \
        spoil_table_has(table, sizeof(table) / sizeof((table)[0]), sizeof((table)[0]), rule)

#endif
