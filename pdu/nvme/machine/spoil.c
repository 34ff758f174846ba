/* SPDX-License-Identifier: BSD-3-Clause */
#include "spoil_table.h"

void spoil_make(uint8_t *base, const struct change *c)
{
        uint8_t *p = base + c->offset;
        uint64_t old = le_get(p, c->size);

        switch (c->op) {
        case PUT:
                le_put(p, c->size, c->value);
                break;
        case ADD:
                le_put(p, c->size, old + c->value);
                break;
        case FLIP:
                le_put(p, c->size, old ^ c->value);
                break;
        }
}

/* Opcodes of I/O and admin queues overlap; only the former have the NSID of a single namespace. */
bool spoil_has_nsid(const union sqe *sqe)
{
        uint32_t nsid = le32_get(sqe->nsid);

        return nsid > 0 && nsid < UINT32_MAX;
}

bool spoil_table_has(const void *table, size_t n, size_t size, enum rule_id rule)
{
        for (size_t i = 0; i < n; i++)
                if (*(const enum rule_id *)((const char *)table + i * size) == rule)
                        return true;
        return false;
}
