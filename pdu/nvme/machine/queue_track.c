/* SPDX-License-Identifier: BSD-3-Clause */
#include "queue_track.h"

#include <stdlib.h>

enum {
        SPARE_COMMANDS = 2, /* beyond the queue's size, where more is waived */
        DEPTH_DEFAULT = 1024,
};

static bool survivable(const struct rule *r)
{
        return r->reaction == REACT_ANY || r->reaction == REACT_CLOSE || r->reacts == BASIS_OWN;
}

bool queue_fails(struct queue_track *q, enum rule_id rule)
{
        if (rule_in(q->waived, rule))
                return false;
        if (q->passive && q->looks && survivable(rule_get(rule))) {
                rule_add(&q->findings, rule);
                return false;
        }
        q->fault = rule_fault(rule);
        return true;
}

void queue_track_collects(struct queue_track *q, const struct rule_set *found)
{
        rule_each_in (found, rule)
                queue_finds(q, true, rule);
}

/* --- life ------------------------------------------------------------------------------------- */

int queue_track_init(struct queue_track *q, const struct queue_kind *kind, uint16_t depth_max,
                     const struct rule_set *waived)
{
        *q = (struct queue_track) {
                .kind = kind,
                .waived = waived,
                .depth_max = depth_max ? depth_max : DEPTH_DEFAULT,
                .past = { .qid = -1, .keyed = kind->keyed },
                .dying = TAGS_NONE,
        };
        q->first_cmds = calloc(QUEUE_FIRST_COMMANDS, kind->cmd_size);
        return q->first_cmds ? tags_init(&q->cids, QUEUE_FIRST_COMMANDS) : -1;
}

void queue_track_fini(struct queue_track *q)
{
        tags_fini(&q->cids);
        free(q->first_cmds);
        free(q->more_cmds);
}

/* Once: those that are outstanding stay where they are. When memory runs out, the queue stays small, and
 * more commands than that overrun it. */
static int grow(struct queue_track *q, unsigned size)
{
        unsigned n = q->passive ? size * 2 : size + SPARE_COMMANDS;
        unsigned most = q->depth_max + (unsigned)SPARE_COMMANDS;

        n = n < most ? n : most;
        if (n <= QUEUE_FIRST_COMMANDS || q->more_cmds)
                return 0;
        q->more_cmds = calloc(n - QUEUE_FIRST_COMMANDS, q->kind->cmd_size);
        return q->more_cmds ? tags_grow(&q->cids, n) : -1;
}

int queue_track_mid_stream(struct queue_track *q)
{
        q->past.mid_stream = true;
        return grow(q, q->depth_max);
}

/* --- commands --------------------------------------------------------------------------------- */

static void leave(struct queue_track *q, struct queue_cmd *cmd)
{
        if (q->kind->leaves)
                q->kind->leaves(q, cmd);
}

/* Its slot stays as it is until it is freed. */
static int remove_cid(struct queue_track *q, struct queue_cmd *cmd)
{
        leave(q, cmd);
        return tags_remove(&q->cids, cmd->cid);
}

void queue_track_ends(struct queue_track *q, struct queue_cmd *cmd)
{
        if (!cmd->vanished)
                q->outstanding--;
        if (cmd->again > 0)
                cmd->again--;
        else
                q->dying = remove_cid(q, cmd);
}

static bool is_outstanding(struct queue_track *q, const struct queue_cmd *cmd)
{
        return queue_track_cmd(q, cmd->cid) == cmd;
}

static void drop_vanished(struct queue_track *q)
{
        for (unsigned i = 0; i < q->cids.slots; i++) {
                struct queue_cmd *cmd = queue_track_at(q, (int)i);

                if (cmd->vanished && is_outstanding(q, cmd))
                        tags_free(&q->cids, remove_cid(q, cmd));
        }
}

/* The host has to stop when all entries but one wait for SQHD; there is nothing to wait for while
 * fewer than that are unanswered, or SQHD runs ahead. That there is no room here is no fault of a host's that
 * is only watched. */
static bool overruns(struct queue_track *q)
{
        bool full = q->size > 0 && q->outstanding + 1 >= q->size &&
                    (q->no_flow_control || q->sent - q->head + 1 >= q->size);

        if (q->cids.left == 0)
                drop_vanished(q);
        return queue_breaks(q, full || (!q->passive && q->cids.left == 0),
                            q->no_flow_control ? FAB_OUTSTANDING : FAB_OVERRUN);
}

bool queue_track_refuses(struct queue_track *q, struct queue_cmd *cmd)
{
        bool in_use = cmd && !cmd->vanished;

        if (in_use)
                cmd->shared = true;
        return overruns(q) || queue_breaks(q, in_use, q->kind->cmd_cid);
}

static void set_command(struct queue_cmd *cmd, const union sqe *s)
{
        *cmd = (struct queue_cmd) { .cid = le16_get(s->cid), .opc = s->opc, .fctype = s->fctype };
        if (sqe_is_connect(s)) {
                cmd->connect.qid = s->connect.qid;
                cmd->connect.sqsize = s->connect.sqsize;
                cmd->connect.cattr = s->connect.cattr;
        } else if (sqe_is_fabrics(s, FCTYPE_PROPERTY_SET) ||
                   sqe_is_fabrics(s, FCTYPE_PROPERTY_GET)) {
                cmd->property.ofst = s->property.ofst;
                cmd->property.value = le32((uint32_t)le64_get(s->property.value));
        }
}

static void judge_command(struct queue_track *q, const union sqe *s)
{
        struct rule_set found = { 0 };

        judge_sqe(&found, &q->past, s);
        queue_track_collects(q, &found);
}

/* 3.4.2: a second command follows a first one, and nothing else does. */
static void judge_fused(struct queue_track *q, const union sqe *s)
{
        unsigned fuse = s->flags & SQE_FUSE_MASK;
        bool known = q->past.qid > 0 && (q->sent > 0 || !q->past.mid_stream);
        bool follows = fuse == SQE_FUSE_SECOND, due = q->past.fuse == SQE_FUSE_FIRST;

        queue_finds(q, known && follows != due, FUSE_ALONE);
        q->past.fuse = (uint8_t)fuse;
}

static uint64_t answered(const struct queue_track *q)
{
        uint64_t open = q->vanished + q->outstanding;

        return q->sent > open ? q->sent - open : 0;
}

struct queue_cmd *queue_track_takes(struct queue_track *q, struct queue_cmd *cmd,
                                    const union sqe *s, bool *fresh)
{
        if (q->looks)
                judge_command(q, s);
        judge_fused(q, s);
        if (sqe_is_connect(s) && !q->past.connected && !q->past.mid_stream) {
                q->past.qid = le16_get(s->connect.qid);
                q->past.nvm_set = q->past.qid > 0 && le16_get(s->connect.nvmsetid);
        }
        *fresh = !cmd || cmd->vanished;
        if (cmd && *fresh)
                leave(q, cmd);
        else if (!cmd)
                cmd = queue_track_at(q, tags_add(&q->cids, le16_get(s->cid)));
        if (cmd && *fresh) {
                set_command(cmd, s);
                cmd->least = answered(q);
        } else if (cmd) {
                cmd->again++;
        } else {
                q->unknown++;
        }
        q->sent++;
        q->outstanding++;
        return cmd;
}

/* --- responses -------------------------------------------------------------------------------- */

/* SQHD of Connect: where the queue begins to count. A controller may count refused Connects, or none. */
static void start_queue(struct queue_track *q, const struct queue_cmd *cmd, const struct cqe *cqe)
{
        uint16_t sqhd = le16_get(cqe->sqhd);
        bool possible;

        q->past.connected = true;
        q->past.open = le32_get(cqe->dw0) >> CONNECT_AUTHREQ_SHIFT == 0;
        q->past.qid = le16_get(cmd->connect.qid); /* another Connect may have come after it */
        q->size = le16_get(cmd->connect.sqsize) > 0 ? le16_get(cmd->connect.sqsize) + 1u
                                                    : 0; /* 1 would hold nothing */
        q->no_flow_control = sqhd == SQHD_DISABLED;
        possible = sqhd < q->size && (q->sent >= q->size || sqhd <= q->sent);
        q->unasked = q->no_flow_control && !(cmd->connect.cattr & CATTR_DISABLE_SQFC);
        queue_finds(q, q->unasked, FAB_SQFC_UNASKED);
        queue_finds(q, q->size > 0 && !q->no_flow_control && !possible, FAB_SQHD);
        q->head = sqhd;
        /* which of those that are outstanding it counted already is not known, nor is it of Connect */
        q->sent = (sqhd > 0 ? sqhd : 1u) + q->outstanding;
        q->vanished += q->outstanding + (sqhd == 0);
        for (unsigned i = 0; i < q->cids.slots; i++)
                queue_track_at(q, (int)i)->least = q->head;
        (void)grow(q, q->size);
}

/*
 * SQHD is that of when the completion was created (figure 97), and completions may be sent in another
 * order than that. By then the controller had removed from the queue all that were answered before this
 * command was sent, and none that was not sent; whether it ever took those that a reset made vanish is its
 * own affair. That it had removed this one or those sent before it is not asked: 3.3.2.6 does not say when
 * a capsule is removed, and there are controllers whose head counts completions.
 */
static void move_head(struct queue_track *q, const struct queue_cmd *cmd, uint16_t sqhd)
{
        uint64_t head;

        if (q->no_flow_control || q->size == 0) {
                queue_finds(q, q->no_flow_control && !q->unasked && sqhd != 0, FAB_SQHD);
                return;
        }
        head = q->head + (sqhd + q->size - q->head % q->size) % q->size;
        while (head < cmd->least && head + q->size <= q->sent)
                head += q->size;
        if (head > q->sent && head >= q->size) /* it was created before the last one */
                head -= q->size;
        if (sqhd >= q->size || head < cmd->least || head > q->sent)
                queue_finds(q, true, FAB_SQHD);
        else if (head > q->head)
                q->head = head;
}

/* A Controller Reset takes away what is outstanding, AERs above all, without an answer; and so does a shutdown, when the
 * host has read that it is complete (B2.2 3.4.5). */
static void reset(struct queue_track *q)
{
        for (unsigned i = 0; i < q->cids.slots; i++) {
                struct queue_cmd *cmd = queue_track_at(q, (int)i);

                if (cmd->opc == NVME_FABRICS || cmd->vanished || !is_outstanding(q, cmd))
                        continue;
                cmd->vanished = true;
                q->outstanding -= 1u + cmd->again;
                q->vanished += 1u + cmd->again;
        }
        q->outstanding -= q->unknown;
        q->vanished += q->unknown;
        q->unknown = 0;
}

static void on_property_set(struct queue_track *q, const struct queue_cmd *cmd)
{
        uint32_t cc = le32_get(cmd->property.value);

        if (le32_get(cmd->property.ofst) != PROP_CC || q->past.qid != 0)
                return;
        if ((q->past.cc & CC_EN) && !(cc & CC_EN))
                reset(q);
        q->past.cc = cc;
}

static void on_property_get(struct queue_track *q, const struct queue_cmd *cmd, uint32_t value)
{
        bool shut_down = CSTS_SHST(value) == CSTS_SHST(CSTS_SHST_COMPLETE);

        if (le32_get(cmd->property.ofst) == PROP_CSTS && q->past.qid == 0 && shut_down)
                reset(q);
}

/* What a success of this command changes in the model. */
static void succeed(struct queue_track *q, const struct queue_cmd *cmd, const struct cqe *cqe)
{
        if (cmd->opc != NVME_FABRICS)
                return;
        if (cmd->fctype == FCTYPE_DISCONNECT)
                q->disconnected = true;
        else if (cmd->fctype == FCTYPE_PROPERTY_SET)
                on_property_set(q, cmd);
        else if (cmd->fctype == FCTYPE_PROPERTY_GET)
                on_property_get(q, cmd, le32_get(cqe->dw0));
}

static void judge_response(struct queue_track *q, const struct queue_cmd *cmd,
                           const struct cqe *cqe)
{
        bool reserved = le16_get(cqe->sqid) != 0 || (le16_get(cqe->sf) & 1);
        struct rule_set found = { 0 };

        queue_finds(q, q->disconnected, FAB_DISCONNECT_LAST);
        if (q->kind->rsp_reserved)
                queue_finds(q, reserved, q->kind->rsp_reserved);
        if (!cmd->shared)
                judge_cqe(&found, &q->past, cmd->opc, cmd->fctype, cqe);
        queue_track_collects(q, &found);
}

void queue_track_answers(struct queue_track *q, struct queue_cmd *cmd, const struct cqe *cqe)
{
        queue_track_ends(q, cmd);
        if (q->looks)
                judge_response(q, cmd, cqe);
        if (cmd->opc == NVME_FABRICS && cmd->fctype == FCTYPE_CONNECT) {
                if (!cqe_status(cqe) && !q->past.connected)
                        start_queue(q, cmd, cqe);
                return;
        }
        move_head(q, cmd, le16_get(cqe->sqhd));
        if (!cqe_status(cqe))
                succeed(q, cmd, cqe);
}

bool queue_track_answers_unknown(struct queue_track *q, const struct cqe *cqe)
{
        static const struct queue_cmd nobody;

        if (q->unknown == 0)
                return false;
        q->unknown--;
        q->outstanding--;
        if (cqe)
                move_head(q, &nobody, le16_get(cqe->sqhd));
        return true;
}
