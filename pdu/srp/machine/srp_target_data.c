/* SPDX-License-Identifier: BSD-3-Clause */
/* Data of commands: descriptors and their tables, buffers, READs. */
#include <assert.h>
#include <stdlib.h>

#include "srp_target_own.h"

void srp_data_free(struct srp_command *c)
{
        if (c->piece != &c->one)
                free(c->piece);
        c->piece = &c->one;
        c->pieces = c->asked = c->arrived = 0;
}

/* --- descriptors ------------------------------------------------------------------------------ */

static const struct srp_data *data_of(const struct srp_command *c)
{
        return c->out_len > 0 ? &c->out : &c->in;
}

static uint32_t entries_of(const struct srp_data *d)
{
        return d->format == SRP_DIRECT     ? 1
               : d->format == SRP_INDIRECT ? d->desc.len / SRP_DESC_LEN
                                           : 0;
}

/* Not all of its table is in the IU. */
static bool is_external(const struct srp_data *d)
{
        return d->format == SRP_INDIRECT && d->in_line < entries_of(d);
}

static struct srp_desc entry_at(const struct srp_command *c, const struct srp_data *d, uint32_t i)
{
        static const struct srp_data own_table;

        if (d->format == SRP_DIRECT)
                return d->desc;
        return c->table ? srp_desc_at(c->table, &own_table, i)
                        : srp_desc_at(c->rx->wr.sge[0].addr, d, i);
}

uint32_t srp_data_size(const struct srp_command *c, const struct srp_data *d)
{
        uint64_t sum = 0;

        if (d->format == SRP_IMMEDIATE_DATA)
                return d->data_at ? d->len : 0;
        if (is_external(d))
                return d->len;
        for (uint32_t i = 0; i < entries_of(d); i++)
                sum += entry_at(c, d, i).len;
        return sum < d->len ? (uint32_t)sum : d->len;
}

/* How many entries the first n bytes have; 0: they have less, or one that cannot be. */
static uint32_t entries_for(const struct srp_command *c, const struct srp_data *d, uint32_t n)
{
        uint32_t count = entries_of(d), i = 0;

        for (; n > 0 && i < count; i++) {
                struct srp_desc e = entry_at(c, d, i);

                if (e.len > 0 && e.addr > UINT64_MAX - (e.len - 1))
                        return 0;
                n -= least(e.len, n);
        }
        return n == 0 ? i : 0;
}

/* One work request for each entry that some of the n bytes go to or come from. */
static bool lay_out(struct srp_command *c, uint32_t n)
{
        const struct srp_data *d = data_of(c);
        uint32_t entries = entries_for(c, d, n);
        uint8_t *at = c->buffer;

        srp_data_free(c);
        if (entries > 1)
                c->piece = malloc(entries * sizeof(*c->piece));
        if (!c->piece || entries == 0) {
                c->piece = &c->one;
                return n == 0;
        }
        for (uint32_t i = 0; i < entries; i++) {
                struct srp_desc e = entry_at(c, d, i);
                uint32_t len = least(e.len, n);

                if (len == 0)
                        continue;
                c->piece[c->pieces++] = (struct verbs_wr) { .n_sge = 1,
                                                            .sge = { { at, len, c->lkey } },
                                                            .remote = e.addr,
                                                            .rkey = e.key,
                                                            .user = c };
                at += len;
                n -= len;
        }
        return true;
}

/* --- READs ------------------------------------------------------------------------------------ */

bool srp_data_ask(struct srp_command *c)
{
        struct srp_target *t = c->of;

        for (; c->asked < c->pieces && room(t) > 0 && t->reads_out < t->cfg.reads; c->asked++) {
                c->piece[c->asked].op = VERBS_READ;
                c->piece[c->asked].flags = VERBS_SIGNALED;
                t->reads_out++;
                chain(t, &c->piece[c->asked]);
        }
        return c->asked == c->pieces;
}

static void read_pieces(struct srp_command *c)
{
        struct srp_target *t = c->of;

        if (t->cfg.reads == 0) {
                srp_command_refuse(c, SCSI_ABORTED_COMMAND, SCSI_ASC_DATA_PHASE);
                srp_command_answer(c);
                return;
        }
        if (!c->awaits)
                tell(t, SRP_HAS_AWAITED, 0);
        c->awaits = true;
        if (!t->reads.first && srp_data_ask(c))
                enter(c, SRP_STEP_READING);
        else
                wait_in(&t->reads, c, SRP_STEP_DATA);
}

static void read_table(struct srp_command *c)
{
        const struct srp_data *d = data_of(c);

        c->reads_table = true;
        c->pieces = 1;
        c->piece[0] = (struct verbs_wr) { .n_sge = 1,
                                          .sge = { { c->table, d->desc.len, c->lkey } },
                                          .remote = d->desc.addr,
                                          .rkey = d->desc.key,
                                          .user = c };
        read_pieces(c);
}

/* The descriptors are known. */
static void transfer(struct srp_command *c)
{
        uint32_t n = c->out_len > 0 ? c->out_len : least(c->in_max, c->in_size);

        if (!lay_out(c, n)) {
                srp_command_refuse(c, SCSI_ABORTED_COMMAND, SCSI_ASC_DATA_PHASE);
                srp_command_answer(c);
        } else if (c->out_len > 0) {
                read_pieces(c);
        } else {
                srp_command_execute(c);
        }
}

void srp_data_came(struct srp_command *c)
{
        if (c->aborted || gone(c->of)) {
                srp_command_drop(c);
        } else if (c->reads_table) {
                c->reads_table = false;
                transfer(c);
        } else {
                c->done = c->out_len;
                srp_command_execute(c);
        }
}

/* --- buffers ---------------------------------------------------------------------------------- */

enum { ALIGN = 64 };

/* Of its data and, after it, the table. */
static uint32_t memory_for(const struct srp_command *c, uint32_t *table_at)
{
        const struct srp_data *d = data_of(c);
        uint32_t len = c->out_len > 0 ? c->out_len : c->in_max;

        *table_at = (len + ALIGN - 1) / ALIGN * ALIGN;
        return is_external(d) ? *table_at + d->desc.len : len;
}

static bool get_buffer(struct srp_command *c)
{
        uint32_t table_at, len = memory_for(c, &table_at);

        c->buffer = c->of->ops.buffer_get(c->of->user, len, &c->lkey);
        if (!c->buffer)
                return false;
        c->buffer_len = len;
        c->data = c->buffer;
        c->table = is_external(data_of(c)) ? c->buffer + table_at : NULL;
        return true;
}

static void go_with_buffer(struct srp_command *c)
{
        if (c->table)
                read_table(c);
        else
                transfer(c);
}

void srp_target_feed(struct srp_target *t)
{
        struct srp_command *c;

        while ((c = t->buffers.first) != NULL && !gone(t) && get_buffer(c)) {
                list_remove(&t->buffers, c);
                go_with_buffer(c);
        }
}

void srp_data_prepare(struct srp_command *c)
{
        const struct srp_data *d = data_of(c);
        struct srp_target *t = c->of;

        assert(c->out_len <= c->out_size);
        if (c->out_len == 0 && c->in_max == 0) {
                srp_command_execute(c);
        } else if (c->out_len > 0 && d->format == SRP_IMMEDIATE_DATA) {
                c->data = (uint8_t *)c->rx->wr.sge[0].addr + d->data_at;
                c->done = c->out_len;
                srp_command_execute(c);
        } else if (is_external(d) && d->desc.len > SRP_TABLE_MAX) {
                srp_command_refuse(c, SCSI_ABORTED_COMMAND, SCSI_ASC_DATA_PHASE);
                srp_command_answer(c);
        } else if (t->buffers.first || !get_buffer(c)) {
                wait_in(&t->buffers, c, SRP_STEP_BUFFER);
        } else {
                go_with_buffer(c);
        }
}
