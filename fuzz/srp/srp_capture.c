/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures as sequences: what initiators asked, in the words of templates, to be played again or to be mutated. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pcap/srp/srp_plan.h"
#include "srp_capture.h"
#include "srp_templates.h"

enum { NO_CONN = SEQ_QUEUES, IT_IU = 8260 };

struct reading {
        struct corpus *corpus;
        const struct srp_plan *plan;
        struct sequence s;
        uint8_t *on; /* of each channel of the plan; NO_CONN: it has none, or is over */
        unsigned open;
        bool no_memory;
};

static void end_sequence(struct reading *r)
{
        if (r->s.steps > 0 && !corpus_add(r->corpus, &r->s))
                r->no_memory = true;
        r->s = (struct sequence) { .family = &srp_fuzz, .side = PARTY_HOST };
}

static void add(struct reading *r, unsigned on, struct seq_step *step)
{
        step->on = (uint8_t)on;
        (void)seq_insert(&r->s, r->s.steps, &r->s, step);
}

/* The step says this, if it does not by itself. */
static void set(struct seq_step *step, const char *name, uint64_t value, uint64_t itself)
{
        const struct field *f = seq_field(&srp_fuzz, 0, step->template, name);

        if (f && value != itself && step->changes < SEQ_CHANGES)
                step->change[step->changes++] = (struct seq_change) { f, SEQ_SET, value };
}

/* --- logins ----------------------------------------------------------------------------------- */

/* Channels that are open together are connections of one sequence. */
static void open_chan(struct reading *r, unsigned which)
{
        const struct srp_login_req *q = &r->plan->chan[which].asked;
        struct seq_step step = seq_step_of(seq_template(&srp_fuzz, 0, PARTY_HOST, "login"));
        unsigned on;

        if (r->open == 0)
                end_sequence(r);
        on = r->s.queues;
        if (on == SEQ_QUEUES)
                return;
        r->s.queues++;
        r->open++;
        r->on[which] = (uint8_t)on;
        set(&step, "req_flags", q->req_flags,
            (on == 0 ? SRP_ACTION_SINGLE : SRP_ACTION_MULTI) | SRP_IMMEDIATE);
        set(&step, "req_it_iu_len", be32_get(q->req_it_iu_len), IT_IU);
        set(&step, "req_buf_fmt", be16_get(q->req_buf_fmt),
            SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT);
        add(r, on, &step);
}

static void close_chan(struct reading *r, unsigned which)
{
        struct seq_step step = { .kind = SEQ_CLOSE };

        if (r->on[which] == NO_CONN)
                return;
        r->open--;
        if (r->open > 0) /* the end of the last one is that of the sequence */
                add(r, r->on[which], &step);
        r->on[which] = NO_CONN;
}

/* --- requests --------------------------------------------------------------------------------- */

static enum srp_way way_of(const struct srp_plan_cmd *c)
{
        if (c->both)
                return SRP_BOTH_WAYS;
        return c->format == SRP_NO_DATA ? SRP_NO_WAY : c->out ? SRP_TO_TARGET : SRP_FROM_TARGET;
}

static enum srp_shape shape_of(const struct srp_plan_cmd *c)
{
        return c->format == SRP_IMMEDIATE_DATA ? SRP_AS_IMMEDIATE
               : c->format != SRP_INDIRECT     ? SRP_AS_DIRECT
               : c->external                   ? SRP_AS_EXTERNAL
                                               : SRP_AS_TABLE;
}

/* How much of it the template says by itself: the way of its data above all, without which it is none. */
static int likeness(const struct srp_template *t, const struct srp_plan_cmd *c)
{
        if (t->base.type != (c->function ? SRP_TSK_MGMT : SRP_CMD))
                return -1;
        if (c->function)
                return t->function == c->function;
        if (t->way != way_of(c) || t->add_cdb)
                return -1;
        return 4 * (t->cdb[0] == c->cdb[0]) + 2 * (t->shape == shape_of(c)) +
               (memcmp(t->cdb, c->cdb, sizeof(t->cdb)) == 0);
}

static const struct srp_template *most_alike(const struct srp_plan_cmd *c)
{
        const struct srp_template *best = NULL;
        const struct seq_template *t;
        int most = -1;

        for (unsigned i = 0; (t = srp_template_at(0, PARTY_HOST, i)); i++)
                if (likeness(srp_template(t), c) > most) {
                        best = srp_template(t);
                        most = likeness(best, c);
                }
        return best;
}

static void set_cdb(struct seq_step *step, const uint8_t *cdb, const uint8_t *itself)
{
        static const struct {
                const char *name;
                unsigned at, size;
        } pieces[] = {
                { "op", 0, 1 }, { "service", 1, 1 }, { "lba16", 2, 8 }, { "blocks16", 10, 4 }
        };

        for (unsigned i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
                set(step, pieces[i].name, be_get(cdb + pieces[i].at, pieces[i].size),
                    be_get(itself + pieces[i].at, pieces[i].size));
}

static void set_data(struct seq_step *step, const struct srp_plan_cmd *c,
                     const struct srp_template *t)
{
        unsigned keys = c->format == SRP_IMMEDIATE_DATA ? 0
                        : c->format == SRP_DIRECT       ? 1
                        : c->pieces < SRP_KEYS_MAX      ? c->pieces
                                                        : SRP_KEYS_MAX;

        if (c->format == SRP_NO_DATA)
                return;
        if (t->shape != shape_of(c) || c->format == SRP_INDIRECT)
                step->keys = (uint8_t)(keys + 1);
        step->data_len = (uint16_t)(c->room < SEQ_DATA_MAX ? c->room : SEQ_DATA_MAX);
        step->has_data = step->data_len != t->base.data_len;
}

/* Which of the commands before it on its channel a task is, from the youngest. */
static uint8_t task_of(const struct srp_plan *p, const struct srp_plan_cmd *m)
{
        uint8_t n = 0;

        for (const struct srp_plan_cmd *c = m; c-- > p->cmd;) {
                if (c->chan != m->chan || c->function)
                        continue;
                if (c->tag == m->task_tag || n == UINT8_MAX)
                        return n;
                n++;
        }
        return UINT8_MAX;
}

static void ask(struct reading *r, unsigned which)
{
        const struct srp_plan_cmd *c = &r->plan->cmd[which];
        const struct srp_template *t = most_alike(c);
        const struct field *lun;
        struct srp_cmd said = { .lun = be64(c->lun) };
        struct seq_step step;

        if (r->on[c->chan] == NO_CONN || !t)
                return;
        step = seq_step_of(&t->base);
        lun = seq_field(&srp_fuzz, 0, &t->base, "lun");
        set(&step, "lun", field_get(lun, &said), 0); /* in the same place of both */
        if (c->function) {
                step.of = task_of(r->plan, c);
                set(&step, "function", c->function, t->function);
        } else {
                set_cdb(&step, c->cdb, t->cdb);
                set_data(&step, c, t);
                set(&step, "attr", c->attr, 0);
        }
        add(r, r->on[c->chan], &step);
}

/* --- files -------------------------------------------------------------------------------------- */

static void read_plan(struct reading *r)
{
        r->s = (struct sequence) { .family = &srp_fuzz, .side = PARTY_HOST };
        memset(r->on, NO_CONN, r->plan->chans);
        for (unsigned i = 0; i < r->plan->steps; i++) {
                const struct srp_plan_step *step = &r->plan->step[i];

                if (step->act == SRP_PLAN_OPEN)
                        open_chan(r, step->which);
                else if (step->act == SRP_PLAN_SEND)
                        ask(r, step->which);
                else if (step->act == SRP_PLAN_CLOSE)
                        close_chan(r, step->which);
        }
        end_sequence(r);
}

bool srp_sequences(struct corpus *c, const char *path, char *err)
{
        /* it is read beside another family: here that is nobody */
        static const struct trace_family *const families[] = { &srp_capture, &srp_capture, NULL };
        struct srp_plan plan;
        struct reading *r = calloc(1, sizeof(*r));
        char why[CORPUS_ERROR];
        bool ok = srp_plan_read(&plan, path, families, why, sizeof(why)) == 0;

        if (ok && r)
                r->on = malloc(plan.chans + 1);
        if (ok && r && r->on) {
                r->corpus = c;
                r->plan = &plan;
                read_plan(r);
                ok = !r->no_memory;
        }
        if (!r || (ok && !r->on) || (r->no_memory && !c->full))
                snprintf(err, CORPUS_ERROR, "%s: out of memory", path);
        else if (r->no_memory)
                snprintf(err, CORPUS_ERROR, "%s: more than %u sequences", path, c->n);
        ok = ok && r && r->on;
        if (r)
                free(r->on);
        free(r);
        srp_plan_free(&plan);
        return ok;
}
