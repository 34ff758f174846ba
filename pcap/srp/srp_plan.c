/* SPDX-License-Identifier: BSD-3-Clause */
#include "srp_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/be.h"
#include "tools.h"

/* --- lists ------------------------------------------------------------------------------------ */

/* One more element, zero; NULL: out of memory. Room grows by powers of two. */
static void *add(struct srp_plan *p, void *list, unsigned *n, size_t size)
{
        void **at = list, *more = *at;

        if ((*n & (*n - 1)) == 0)
                more = realloc(*at, (*n ? 2u * *n : 1) * size);
        if (!more) {
                p->no_memory = true;
                return NULL;
        }
        *at = more;
        return memset((char *)more + size * (*n)++, 0, size);
}

static void add_step(struct srp_plan *p, enum srp_plan_act act, unsigned which)
{
        struct srp_plan_step *s = add(p, &p->step, &p->steps, sizeof(*s));

        if (s)
                *s = (struct srp_plan_step) { act, which };
}

static int chan_of(const struct srp_plan *p, const struct trace_conn *c)
{
        for (unsigned i = p->chans; i-- > 0;)
                if (p->chan[i].number == c->number)
                        return (int)i;
        return -1;
}

/* --- requests --------------------------------------------------------------------------------- */

static void describe(struct srp_plan_cmd *c, const struct srp_kept *k)
{
        const struct srp_data *d = k->out ? &k->parts.out : &k->parts.in;

        c->both = k->parts.out.format && k->parts.in.format;
        c->out = k->out;
        c->format = d->format;
        c->room = k->len;
        if (d->format != SRP_INDIRECT)
                return;
        c->pieces = d->desc.len / SRP_DESC_LEN;
        c->external = d->in_line < c->pieces;
}

static void begin(struct srp_plan *p, const struct srp_record *r, unsigned chan)
{
        const struct trace_capsule *c = &r->e->capsule;
        struct srp_plan_cmd *cmd = add(p, &p->cmd, &p->cmds, sizeof(*cmd));
        union srp_iu iu;

        if (!cmd || !srp_read(c->data, c->len, &iu))
                return;
        cmd->chan = chan;
        cmd->at = r->e->at;
        cmd->tag = be64_get(iu.cmd.tag);
        cmd->lun = r->kept->lun;
        if (r->kept->manages) {
                cmd->function = iu.tsk_mgmt.function;
                cmd->task_tag = be64_get(iu.tsk_mgmt.task_tag);
        } else {
                memcpy(cmd->cdb, r->kept->cdb, sizeof(cmd->cdb));
                cmd->attr = iu.cmd.attr;
                describe(cmd, r->kept);
        }
        add_step(p, SRP_PLAN_SEND, p->cmds - 1);
}

/* The last one of this tag that has no answer yet. */
static int find(const struct srp_plan *p, unsigned chan, uint64_t tag)
{
        for (unsigned i = p->cmds; i-- > 0;)
                if (p->cmd[i].chan == chan && p->cmd[i].tag == tag && p->cmd[i].answer.frame == 0)
                        return (int)i;
        return -1;
}

static void take_data(struct srp_plan *p, struct srp_plan_cmd *cmd, const struct srp_record *r)
{
        const uint8_t *data = srp_kept_data(r->kept, r->rsp, &cmd->n);

        if (!data)
                return;
        cmd->data = spill_add(&p->spill, cmd->n);
        if (cmd->data)
                memcpy(cmd->data, data, cmd->n);
        else
                p->no_memory = true;
}

static void answer(struct srp_plan *p, const struct srp_record *r, unsigned chan)
{
        const struct trace_capsule *c = &r->e->capsule;
        int which = find(p, chan, be64_get(r->rsp->tag));
        struct rule_set unused = { 0 };
        struct srp_rsp_parts parts;
        struct srp_plan_cmd *cmd;

        if (which < 0)
                return;
        cmd = &p->cmd[which];
        cmd->answer = r->e->at;
        cmd->status = r->rsp->status;
        (void)srp_rsp_read(c->data, c->len, &parts, &unused);
        cmd->has_response = parts.resp_len >= 4;
        cmd->response = r->code;
        cmd->has_sense = parts.sense_len > 0 &&
                         scsi_sense_get(c->data + parts.sense_at, parts.sense_len, &cmd->sense);
        take_data(p, cmd, r);
        add_step(p, SRP_PLAN_ANSWER, (unsigned)which);
}

/* --- connections ------------------------------------------------------------------------------ */

static void open_chan(struct srp_plan *p, const struct trace_event *e)
{
        struct srp_plan_chan *c = add(p, &p->chan, &p->chans, sizeof(*c));

        if (!c)
                return;
        c->number = e->conn->number;
        (void)srp_login_read(e->cm.data, e->cm.len, false, &c->asked);
}

static void take_srp(struct srp_plan *p, const struct srp_record *r)
{
        const struct trace_event *e = r->e;
        int chan = chan_of(p, e->conn);

        if (e->kind == TRACE_REQUEST && chan < 0)
                open_chan(p, e);
        if (chan < 0)
                return;
        if (e->kind == TRACE_ACCEPT && !p->chan[chan].accepted) {
                p->chan[chan].accepted = true;
                add_step(p, SRP_PLAN_OPEN, (unsigned)chan);
        } else if (e->kind == TRACE_CAPSULE && r->begins && r->kept) {
                begin(p, r, (unsigned)chan);
        } else if (e->kind == TRACE_CAPSULE && r->rsp && r->kept) {
                answer(p, r, (unsigned)chan);
        } else if (e->kind == TRACE_DISCONNECT || e->kind == TRACE_CLOSED) {
                add_step(p, SRP_PLAN_CLOSE, (unsigned)chan);
        }
}

static void on_record(void *user, const struct trace_record *r)
{
        struct srp_plan *p = user;

        if (r->e->conn->family == &srp_capture)
                take_srp(p, r->record);
        else
                p->others += r->e->kind == TRACE_OPENED;
}

/* --- all of it -------------------------------------------------------------------------------- */

int srp_plan_read(struct srp_plan *p, const char *file, const struct trace_family *const *families,
                  char *err, size_t err_size)
{
        const struct trace_reading how = { .keep_data = true, .record = on_record, .user = p };
        const struct trace_options options = { .data = true };
        struct trace_totals totals;
        int rc;

        *p = (struct srp_plan) { 0 };
        rc = trace_records(file, families, &options, &how, &totals, err, err_size);
        spill_rest(&p->spill);
        if (rc == 0 && p->no_memory) {
                snprintf(err, err_size, "%s: %s", file,
                         p->spill.error ? "not enough space for its data in TMPDIR"
                                        : "out of memory");
                rc = -1;
        } else if (rc == 0 && p->cmds == 0) {
                snprintf(err, err_size, "%s: contains no request of SRP", file);
                rc = -1;
        }
        return rc;
}

void srp_plan_free(struct srp_plan *p)
{
        spill_free(&p->spill);
        free(p->chan);
        free(p->cmd);
        free(p->step);
        *p = (struct srp_plan) { 0 };
}

bool srp_plan_capacity(const struct srp_plan *p, uint64_t lun, uint64_t *blocks, uint32_t *size)
{
        for (unsigned i = 0; i < p->cmds; i++) {
                const struct srp_plan_cmd *c = &p->cmd[i];
                bool ten = c->cdb[0] == SCSI_READ_CAPACITY_10 && c->n >= 8,
                     sixteen = c->cdb[0] == SCSI_SERVICE_IN_16 &&
                               (c->cdb[1] & 0x1f) == SCSI_READ_CAPACITY_16 && c->n >= 12;

                if (c->lun != lun || c->function || !c->data || c->status || !(ten || sixteen))
                        continue;
                *blocks = be_get(c->data, ten ? 4 : 8) + 1;
                *size = (uint32_t)be_get(c->data + (ten ? 4 : 8), 4);
                return true;
        }
        return false;
}
