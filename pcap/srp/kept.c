/* SPDX-License-Identifier: BSD-3-Clause */
#include "kept.h"

#include <stdlib.h>
#include <string.h>

enum { DATA_MAX = 32 << 20, TABLE_MAX = 1 << 16 };

void kept_drop(struct srp_kept *k)
{
        free(k->iu);
        free(k->table);
        free(k->data);
        *k = (struct srp_kept) { 0 };
}

static const struct srp_data *way_of(const struct srp_kept *k)
{
        return k->out ? &k->parts.out : &k->parts.in;
}

/* Of a command with data in both directions nothing is kept. */
static bool keep_data(struct srp_kept *k, const struct trace_capsule *c, uint32_t imm_at)
{
        struct rule_set unused = { 0 };
        const struct srp_data *d;

        k->iu = malloc(c->len);
        if (!k->iu)
                return false;
        memcpy(k->iu, c->data, c->len);
        k->iu_len = c->len;
        if (!srp_cmd_read(k->iu, k->iu_len, imm_at, &k->parts, &unused) ||
            (k->parts.out.format && k->parts.in.format))
                return true;
        k->out = k->parts.out.format != SRP_NO_DATA;
        d = way_of(k);
        if (d->len == 0 || d->len > DATA_MAX)
                return true;
        k->len = d->len;
        k->data = calloc(1, k->len);
        if (!k->data)
                return false;
        if (d->format == SRP_IMMEDIATE_DATA && d->data_at) {
                memcpy(k->data, k->iu + d->data_at, k->len);
                k->got = k->len;
        }
        return true;
}

bool kept_begin(struct srp_kept *k, const union srp_iu *iu, const struct trace_capsule *c,
                uint32_t imm_at, bool data)
{
        kept_drop(k);
        k->manages = iu->opcode == SRP_TSK_MGMT;
        k->lun = be64_get(iu->cmd.lun); /* in the same place of both */
        if (k->manages)
                return true;
        memcpy(k->cdb, iu->cmd.cdb, sizeof(k->cdb));
        return !data || keep_data(k, c, imm_at);
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

void kept_add(struct srp_kept *k, const struct trace_memory *m, uint32_t offset)
{
        uint64_t at = (uint64_t)offset + m->offset;

        if (!k->data || !m->data || at + m->len > k->len)
                return;
        memcpy(k->data + at, m->data, m->len);
        k->got = k->got + m->len < k->len ? k->got + m->len : k->len;
}

void kept_add_table(struct srp_kept *k, const struct trace_memory *m)
{
        const struct srp_data *d = way_of(k);

        if (!k->iu || !m->data || d->format != SRP_INDIRECT || d->desc.addr != m->addr ||
            d->desc.key != m->key || d->desc.len > TABLE_MAX ||
            (uint64_t)m->offset + m->len > d->desc.len)
                return;
        if (!k->table)
                k->table = calloc(1, d->desc.len);
        if (k->table)
                memcpy(k->table + m->offset, m->data, m->len);
}

const uint8_t *srp_kept_data(const struct srp_kept *k, const struct srp_rsp *rsp, uint32_t *n)
{
        uint8_t under = k->out ? SRP_DOUNDER : SRP_DIUNDER;
        uint32_t less =
            rsp && rsp->flags & under ? be32_get(k->out ? rsp->out_residual : rsp->in_residual) : 0;

        *n = k->len > less ? k->len - less : 0;
        return k->data && *n > 0 && k->got >= *n ? k->data : NULL;
}
