/* SPDX-License-Identifier: BSD-3-Clause */
#include "host_cmd.h"

#include <stdlib.h>

#include "pdu/core/plant.h"

static struct host_slot *at(const struct host_slots *h, unsigned i)
{
        return (struct host_slot *)(void *)(h->slots + i * h->size);
}

/*
 * The CID that a slot has for its next command. Its low bits, below `generation`, name the slot; the
 * rest moves on, so that a late answer meets nobody. FFFFh means "no command" in the Error Information
 * log (Base 2.2 5.1.12.1.2) and is left out.
 */
static uint16_t next_cid(uint16_t cid, uint32_t generation)
{
        cid = (uint16_t)(cid + generation);
        return cid == 0xffff ? (uint16_t)(cid + generation) : cid;
}

int host_slots_init(struct host_slots *h, size_t size, unsigned depth)
{
        *h = (struct host_slots) { .size = size, .generation = 1, .free = HOST_NO_SLOT };
        h->slots = calloc(depth, size);
        if (!h->slots)
                return -1;
        h->depth = depth;
        while (h->generation < depth)
                h->generation <<= 1;
        for (unsigned i = depth; i-- > 0;) {
                at(h, i)->cid = (uint16_t)i;
                at(h, i)->next_free = h->free;
                h->free = (uint16_t)i;
        }
        return 0;
}

void host_slots_fini(struct host_slots *h)
{
        free(h->slots);
}

/* PSDT 01b is what Linux asks of every command, Fabrics ones included. */
struct host_slot *host_slots_take(struct host_slots *h, struct host_cmd *cmd)
{
        union sqe *sqe = &cmd->sqe;
        struct host_slot *s;

        if (h->free == HOST_NO_SLOT)
                return NULL;
        s = at(h, h->free);
        h->free = s->next_free;
        h->outstanding++;
        s->cmd = cmd;
        s->ended = false;
        sqe->flags = (uint8_t)((sqe->flags & ~(unsigned)SQE_PSDT_MASK) | SQE_PSDT_SGL);
        sqe->cid = le16(s->cid);
        cmd->cqe = (struct cqe) { .cid = sqe->cid };
        cmd->status = 0;
        cmd->got = 0;
        return s;
}

struct host_slot *host_slots_find(const struct host_slots *h, uint16_t cid)
{
        unsigned i = cid & (h->generation - 1);
        struct host_slot *s = i < h->depth ? at(h, i) : NULL;

        if (PLANTED(RSP_CID))
                return at(h, cid)->cmd ? at(h, cid) : NULL;

        return s && s->cmd && s->cid == cid && !s->ended ? s : NULL;
}

void host_slot_done(struct host_slots *h, struct host_slot *s)
{
        struct host_cmd *cmd = s->cmd;
        uint16_t i = (uint16_t)(s->cid & (h->generation - 1));

        s->cmd = NULL;
        s->cid = next_cid(s->cid, h->generation);
        s->next_free = h->free;
        h->free = i;
        h->outstanding--;
        cmd->done(cmd, cmd->user);
}

void host_slots_fail(struct host_slots *h, uint16_t status)
{
        for (unsigned i = 0; i < h->depth; i++) {
                struct host_slot *s = at(h, i);

                if (!s->cmd)
                        continue;
                if (!s->ended)
                        s->cmd->status = status;
                host_slot_done(h, s);
        }
}
