/* SPDX-License-Identifier: BSD-3-Clause */
#include "kept.h"

#include <stdlib.h>
#include <string.h>

#include "pcap/trace/keep.h"

enum { DATA_MAX = 32 << 20, TABLE_MAX = 1 << 16 };

static const struct srp_data *way_of(const struct srp_kept *k)
{
        return k->out ? &k->parts.out : &k->parts.in;
}

void kept_drop(struct srp_kept *k)
{
        if (k->iu)
                keep_less(k->keep, k->iu_len);
        if (k->table)
                keep_less(k->keep, way_of(k)->desc.len);
        if (k->data)
                keep_less(k->keep, k->len);
        free(k->iu);
        free(k->table);
        free(k->data);
        *k = (struct srp_kept) { 0 };
}

/* Zeroes, of which so many bytes will be there at once; NULL: there is no room, or no memory (*none). */
static uint8_t *make_room(struct srp_kept *k, uint32_t len, uint32_t there, bool *none)
{
        uint8_t *p;

        *none = false;
        if (!keep_more(k->keep, len, there))
                return NULL;
        p = calloc(1, len);
        if (p)
                return p;
        keep_less(k->keep, len);
        *none = true;
        return NULL;
}

/* Of a command with data in both directions nothing is kept. */
static bool keep_data(struct srp_kept *k, const struct trace_capsule *c, uint32_t imm_at)
{
        struct rule_set unused = { 0 };
        const struct srp_data *d;
        bool none;

        if (!srp_cmd_read(c->data, c->len, imm_at, &k->parts, &unused) ||
            (k->parts.out.format && k->parts.in.format))
                return true;
        k->out = k->parts.out.format != SRP_NO_DATA;
        d = way_of(k);
        if (d->len > DATA_MAX)
                return true;
        k->len = d->len;
        k->iu = make_room(k, c->len, c->len, &none);
        if (!k->iu)
                return !none;
        memcpy(k->iu, c->data, c->len);
        k->iu_len = c->len;
        if (d->format != SRP_IMMEDIATE_DATA || !d->data_at || k->len == 0)
                return true;
        k->data = make_room(k, k->len, k->len, &none);
        if (k->data) {
                memcpy(k->data, k->iu + d->data_at, k->len);
                k->got = k->len;
        }
        return !none;
}

bool kept_begin(struct srp_kept *k, const union srp_iu *iu, const struct trace_capsule *c,
                uint32_t imm_at, struct keep *keep)
{
        kept_drop(k);
        k->keep = keep;
        k->manages = iu->opcode == SRP_TSK_MGMT;
        k->lun = be64_get(iu->cmd.lun); /* in the same place of both */
        if (k->manages)
                return true;
        memcpy(k->cdb, iu->cmd.cdb, sizeof(k->cdb));
        return !keep || keep_data(k, c, imm_at);
}

/* --- where data lies -------------------------------------------------------------------------- */

static uint32_t entries_of(const struct srp_data *d)
{
        return d->format == SRP_DIRECT     ? 1
               : d->format == SRP_INDIRECT ? d->desc.len / SRP_DESC_LEN
                                           : 0;
}

/* False: it is in a table that was not seen. */
static bool entry_at(const struct srp_kept *k, const struct srp_data *d, uint32_t i,
                     struct srp_desc *out)
{
        static const struct srp_data own_table;

        if (d->format == SRP_DIRECT)
                *out = d->desc;
        else if (i < d->in_line)
                *out = srp_desc_at(k->iu, d, i);
        else if (k->table)
                *out = srp_desc_at(k->table, &own_table, i);
        else
                return false;
        return true;
}

bool kept_has(const struct srp_kept *k, const struct trace_memory *m, uint32_t *offset)
{
        const struct srp_data *d = way_of(k);
        uint64_t at = 0;
        struct srp_desc e;

        for (uint32_t i = 0; k->iu && i < entries_of(d) && at < k->len; i++) {
                if (!entry_at(k, d, i, &e))
                        return false;
                if (e.key == m->key && m->addr >= e.addr && m->addr - e.addr < e.len) {
                        *offset = (uint32_t)(at + (m->addr - e.addr));
                        return true;
                }
                at += e.len;
        }
        return false;
}

bool kept_add(struct srp_kept *k, const struct trace_memory *m, uint32_t offset)
{
        uint64_t at = (uint64_t)offset + m->offset;
        bool none = false;

        if (!k->iu || !m->data || at + m->len > k->len)
                return true;
        keep_saw(k->keep, m->len);
        if (!k->data && k->got == 0)
                k->data = make_room(k, k->len, m->len, &none);
        if (k->data)
                memcpy(k->data + at, m->data, m->len);
        k->got = k->got + m->len < k->len ? k->got + m->len : k->len;
        return !none;
}

bool kept_add_table(struct srp_kept *k, const struct trace_memory *m)
{
        const struct srp_data *d = way_of(k);
        bool none = false;

        if (!k->iu || !m->data || d->format != SRP_INDIRECT || d->desc.addr != m->addr ||
            d->desc.key != m->key || d->desc.len > TABLE_MAX ||
            (uint64_t)m->offset + m->len > d->desc.len)
                return true;
        keep_saw(k->keep, m->len);
        if (!k->table)
                k->table = make_room(k, d->desc.len, m->len, &none);
        if (k->table)
                memcpy(k->table + m->offset, m->data, m->len);
        return !none;
}

const uint8_t *srp_kept_data(const struct srp_kept *k, const struct srp_rsp *rsp, uint32_t *n)
{
        uint8_t under = k->out ? SRP_DOUNDER : SRP_DIUNDER;
        uint32_t less =
            rsp && rsp->flags & under ? be32_get(k->out ? rsp->out_residual : rsp->in_residual) : 0;

        *n = k->len > less ? k->len - less : 0;
        return k->data && *n > 0 && k->got >= *n ? k->data : NULL;
}
