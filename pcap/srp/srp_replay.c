/* SPDX-License-Identifier: BSD-3-Clause */
#include "srp_replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/engine/time.h"
#include "tools.h"

enum {
        NAP_MS = 10,
        TRIES = 8, /* of a command that is told something else first */
        DEPTH = 128,
        UNITS = 256,
};

struct live_cmd {
        struct srp_request_out r;
        void *data;
        bool sent, done;
        const char *skipped; /* why */
};

struct live_chan {
        struct srp_chan c;
        bool open;
};

struct written { /* blocks that hold what the capture's initiator wrote */
        uint64_t lun, first, end;
};

struct replay {
        const struct srp_plan *plan;
        const struct srp_replay_options *o;
        struct srp_params params;
        struct live_chan *chan;
        struct live_cmd *cmd;
        struct written *written;
        unsigned n_written;
        struct { /* of the live target */
                bool asked;
                struct srp_disk disk; /* blocks 0: there is none */
        } unit[UNITS];
        uint64_t *counts;
        struct host_error error;
};

/* --- what can be done again ------------------------------------------------------------------- */

static bool changes_something(const struct srp_plan_cmd *c)
{
        if (c->function)
                return c->function != SRP_TM_ABORT_TASK && c->function != SRP_TM_ABORT_TASK_SET;
        return !scsi_is_harmless(c->cdb[0]);
}

static const struct srp_disk *unit_of(struct replay *y, struct srp_chan *c, uint64_t lun)
{
        uint32_t number = scsi_lun_number(lun);
        struct host_error unused;

        if (number >= UNITS)
                return NULL;
        if (!y->unit[number].asked &&
            (srp_disk_open(c, number, &y->unit[number].disk, &unused) < 0))
                y->unit[number].disk.blocks = 0;
        y->unit[number].asked = true;
        return y->unit[number].disk.blocks ? &y->unit[number].disk : NULL;
}

/* Blocks of the live unit that are as long as those of the capture. */
static const char *has_no_blocks(struct replay *y, struct srp_chan *c,
                                 const struct srp_plan_cmd *cmd)
{
        const struct srp_disk *d;
        struct srp_blocks b;
        uint64_t blocks;
        uint32_t size;

        if (!srp_blocks_of(cmd->cdb, &b))
                return NULL;
        d = unit_of(y, c, cmd->lun);
        if (!d)
                return "the live target has no such logical unit";
        if (srp_plan_capacity(y->plan, cmd->lun, &blocks, &size) && size != d->block_size)
                return "the live unit has blocks of another length";
        if (cmd->status == SCSI_GOOD && (b.lba > d->blocks || b.count > d->blocks - b.lba))
                return "it is beyond the end of the live unit";
        return NULL;
}

/* NULL: nothing. */
static const char *is_in_the_way(struct replay *y, struct live_chan *l,
                                 const struct srp_plan_cmd *cmd)
{
        if (!l->open)
                return "its channel could not be opened";
        if (cmd->answer.frame == 0)
                return "it has no answer in the capture";
        if (!y->o->allow_write && changes_something(cmd))
                return "it may change something: --allow-write permits it";
        if (cmd->both)
                return "data in both directions is not replayed";
        if (cmd->out && cmd->room > 0 && !cmd->data && cmd->status == SCSI_GOOD)
                return "its data is not in the capture";
        return cmd->function ? NULL : has_no_blocks(y, &l->c, cmd);
}

/* --- contents --------------------------------------------------------------------------------- */

static bool is_known(const struct replay *y, uint64_t lun, uint64_t block)
{
        for (unsigned i = 0; i < y->n_written; i++)
                if (y->written[i].lun == lun && block >= y->written[i].first &&
                    block < y->written[i].end)
                        return true;
        return false;
}

static bool all_known(const struct replay *y, const struct srp_plan_cmd *c)
{
        struct srp_blocks b;

        if (!srp_blocks_of(c->cdb, &b) || b.write)
                return false;
        for (uint32_t i = 0; i < b.count; i++)
                if (!is_known(y, c->lun, b.lba + i))
                        return false;
        return true;
}

/* What is not written as it was makes nothing known; later writes of the same blocks are as good as the first. */
static void note_written(struct replay *y, const struct srp_plan_cmd *c,
                         const struct srp_request_out *live)
{
        struct srp_blocks b;

        if (!srp_blocks_of(c->cdb, &b) || !b.write || b.count == 0 || live->status != SCSI_GOOD ||
            c->status != SCSI_GOOD)
                return;
        y->written[y->n_written++] = (struct written) { c->lun, b.lba, b.lba + b.count };
}

/* --- requests --------------------------------------------------------------------------------- */

static void on_done(struct srp_request_out *r, void *user)
{
        (void)r;
        ((struct live_cmd *)user)->done = true;
}

static uint64_t live_task(const struct replay *y, const struct srp_plan_cmd *c)
{
        for (unsigned i = y->plan->cmds; i-- > 0;)
                if (y->plan->cmd[i].chan == c->chan && y->plan->cmd[i].tag == c->task_tag &&
                    y->cmd[i].sent)
                        return y->cmd[i].r.tag;
        return UINT64_MAX;
}

static enum srp_form form_of(const struct srp_plan_cmd *c)
{
        if (c->format == SRP_IMMEDIATE_DATA)
                return SRP_FORM_IMMEDIATE;
        if (c->format != SRP_INDIRECT)
                return SRP_FORM_DIRECT;
        return c->external ? SRP_FORM_EXTERNAL : SRP_FORM_INDIRECT;
}

static struct srp_request_out request_of(const struct replay *y, const struct srp_plan_cmd *c,
                                         struct live_cmd *l)
{
        struct srp_request_out r = { .lun = c->lun,
                                     .attr = c->attr,
                                     .function = c->function,
                                     .data = l->data,
                                     .len = c->room,
                                     .form = form_of(c),
                                     .pieces =
                                         c->pieces < SRP_PIECES_MAX ? c->pieces : SRP_PIECES_MAX,
                                     .done = on_done,
                                     .user = l };

        memcpy(r.cdb, c->cdb, sizeof(r.cdb));
        if (c->function)
                r.task_tag = live_task(y, c);
        if (c->room > 0)
                r.direction = c->out ? SRP_OUT : SRP_IN;
        return r;
}

/* Until that has come true, or time is over. False: it has not, or the channel is lost. */
static bool wait_for(struct srp_chan *c, const bool *what, unsigned ms)
{
        uint64_t deadline = deadline_in(ms);

        while (!*what && srp_chan_send(c) == 0) {
                if (host_rdma_receive(&c->conn) != 0)
                        continue;
                if (ms_until(deadline) == 0)
                        host_rdma_break(&c->conn, "no response within %u ms", ms);
                else if (!*what)
                        host_rdma_sleep(&c->conn, NAP_MS);
        }
        return *what;
}

/* The limit may be a smaller one: until an answer makes room. */
static bool submit(struct replay *y, struct srp_chan *c, struct live_cmd *l)
{
        uint64_t deadline = deadline_in(y->params.timeout);

        while (srp_chan_submit(c, &l->r) < 0) {
                if (c->state.broken || ms_until(deadline) == 0)
                        return false;
                (void)srp_chan_send(c);
                if (host_rdma_receive(&c->conn) == 0)
                        host_rdma_sleep(&c->conn, 1);
        }
        return srp_chan_send(c) == 0;
}

static void do_send(struct replay *y, unsigned which)
{
        const struct srp_plan_cmd *c = &y->plan->cmd[which];
        struct live_chan *chan = &y->chan[c->chan];
        struct live_cmd *l = &y->cmd[which];
        struct host_error unused;

        l->skipped = is_in_the_way(y, chan, c);
        if (l->skipped)
                return;
        if (c->room > 0) {
                l->data = srp_alloc(&chan->c, c->room, &unused);
                if (l->data && c->out && c->data)
                        memcpy(l->data, c->data, c->n < c->room ? c->n : c->room);
        }
        if (c->room > 0 && !l->data) {
                l->skipped = "there is no memory for its data";
                return;
        }
        l->r = request_of(y, c, l);
        l->sent = submit(y, &chan->c, l);
        if (!l->sent)
                l->skipped = "the live target gives no room for it";
}

/* Again, where the live unit had something to tell first that the other one had not. */
static bool insist(struct replay *y, struct srp_chan *chan, const struct srp_plan_cmd *c,
                   struct live_cmd *l)
{
        for (unsigned i = 0; i < TRIES && !c->function && c->status == SCSI_GOOD &&
                             srp_is_passing(l->r.status, l->r.has_sense, &l->r.sense);
             i++) {
                l->done = false;
                l->r = request_of(y, c, l);
                if (!submit(y, chan, l) || !wait_for(chan, &l->done, y->params.timeout))
                        return false;
        }
        return true;
}

/* What changed the one unit and not the other makes blocks unknown again. */
static void say(struct replay *y, const struct srp_plan_cmd *c, struct srp_verdict v)
{
        if (v.likeness != SRP_SAME && changes_something(c))
                y->n_written = 0;
        y->counts[v.likeness]++;
        y->o->replayed(y->o->user, y->plan, c, &v);
}

static uint32_t returned(const struct srp_plan_cmd *c, const struct srp_request_out *r)
{
        int64_t less = r->in_residual > 0 ? r->in_residual : 0;

        return c->out || less >= c->room ? 0 : c->room - (uint32_t)less;
}

static void do_answer(struct replay *y, unsigned which)
{
        const struct srp_plan_cmd *c = &y->plan->cmd[which];
        struct srp_chan *chan = &y->chan[c->chan].c;
        struct live_cmd *l = &y->cmd[which];

        if (l->skipped) {
                say(y, c, (struct srp_verdict) { SRP_SKIPPED, l->skipped });
                return;
        }
        if (!wait_for(chan, &l->done, y->params.timeout) || l->r.outcome != SRP_DONE ||
            !insist(y, chan, c, l)) {
                say(y, c, (struct srp_verdict) { SRP_DIFFERENT, "the live channel was lost" });
                return;
        }
        say(y, c, srp_replay_compare(c, &l->r, l->data, returned(c, &l->r), all_known(y, c)));
        note_written(y, c, &l->r);
        if (l->data)
                rdma_memory_drop(&chan->conn.memory, l->data);
        l->data = NULL;
}

/* --- channels --------------------------------------------------------------------------------- */

static void do_open(struct replay *y, unsigned which)
{
        const struct srp_plan_chan *c = &y->plan->chan[which];
        struct live_chan *l = &y->chan[which];
        bool single = (c->asked.req_flags & SRP_ACTION) == SRP_ACTION_SINGLE;

        y->params.immediate = c->asked.req_flags & SRP_IMMEDIATE;
        l->open = srp_chan_open(&l->c, &y->params, which + 1, single, &y->error) == 0;
        for (unsigned i = 0; l->open && i < UNITS; i++)
                y->unit[i].asked &= !single; /* each login has to ask again */
}

static void do_close(struct replay *y, unsigned which)
{
        struct live_chan *l = &y->chan[which];

        if (l->open)
                srp_chan_close(&l->c, false);
        l->open = false;
}

static void skip_unanswered(struct replay *y)
{
        for (unsigned i = 0; i < y->plan->cmds; i++)
                if (y->plan->cmd[i].answer.frame == 0)
                        say(y, &y->plan->cmd[i],
                            (struct srp_verdict) { SRP_SKIPPED,
                                                   "it has no answer in the capture" });
}

static void do_all(struct replay *y)
{
        static void (*const acts[])(struct replay * y, unsigned which) = {
                [SRP_PLAN_OPEN] = do_open,
                [SRP_PLAN_SEND] = do_send,
                [SRP_PLAN_ANSWER] = do_answer,
                [SRP_PLAN_CLOSE] = do_close,
        };

        for (unsigned i = 0; i < y->plan->steps; i++)
                acts[y->plan->step[i].act](y, y->plan->step[i].which);
        for (unsigned i = 0; i < y->plan->chans; i++)
                do_close(y, i);
        skip_unanswered(y);
}

int srp_replay_run(const struct srp_plan *p, const struct srp_replay_options *o,
                   uint64_t counts[SRP_LIKENESSES], char *err, size_t err_size)
{
        struct replay *y = calloc(1, sizeof(*y));
        int rc = -1;

        snprintf(err, err_size, "out of memory");
        if (!y)
                return -1;
        y->plan = p;
        y->o = o;
        y->counts = counts;
        y->params = o->host;
        y->params.depth = DEPTH;
        y->chan = calloc(p->chans + 1, sizeof(*y->chan));
        y->cmd = calloc(p->cmds + 1, sizeof(*y->cmd));
        y->written = calloc(p->cmds + 1, sizeof(*y->written));
        if (y->chan && y->cmd && y->written) {
                do_all(y);
                snprintf(err, err_size, "%s",
                         *y->error.line ? y->error.line : "nothing could be replayed");
                if (counts[SRP_SAME] + counts[SRP_ALLOWED] + counts[SRP_DIFFERENT] > 0)
                        rc = 0;
        }
        free(y->chan);
        free(y->cmd);
        free(y->written);
        free(y);
        return rc;
}
