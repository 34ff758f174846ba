/* SPDX-License-Identifier: BSD-3-Clause */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "spoil.h"
#include "srp_target_own.h"

enum { RESPONSE_DATA = 4 };

const char *srp_step_name(enum srp_step s)
{
        static const char *const names[] = {
                [SRP_STEP_FREE] = "free",
                [SRP_STEP_NEW] = "new",
                [SRP_STEP_BUFFER] = "need buffer",
                [SRP_STEP_DATA] = "need data",
                [SRP_STEP_READING] = "transferring to target",
                [SRP_STEP_TURN] = "wait for its turn",
                [SRP_STEP_EXECUTING] = "executing",
                [SRP_STEP_ROOM] = "need room",
                [SRP_STEP_ANSWERING] = "transferring to initiator",
        };

        return names[s];
}

/* --- lists ------------------------------------------------------------------------------------ */

static void list_outstanding(struct srp_command *c)
{
        struct srp_target *t = c->of;

        c->later = NULL;
        c->link = t->newest;
        *t->newest = c;
        t->newest = &c->later;
}

static void unlist(struct srp_command *c)
{
        *c->link = c->later;
        if (c->later)
                c->later->link = c->link;
        else
                c->of->newest = c->link;
        c->link = NULL;
}

struct srp_command *srp_target_first(const struct srp_target *t)
{
        return t->oldest;
}

struct srp_command *srp_command_next(const struct srp_command *c)
{
        return c->later;
}

/* --- work requests ---------------------------------------------------------------------------- */

static void reset_chain(struct srp_target *t)
{
        t->chain = NULL;
        t->chain_last = &t->chain;
}

static struct verbs_wr send_of(const struct srp_target *t, void *iu, uint32_t len, void *user)
{
        return (struct verbs_wr) {
                .op = VERBS_SEND,
                .flags = t->ius ? 0 : VERBS_INLINE,
                .n_sge = 1,
                .sge = { { iu, len, t->ius_lkey } },
                .user = user,
        };
}

/* Breaks what is to be broken: an IU of n bytes, whose length may change. True: it is sent twice. */
static bool spoil(const struct srp_target *t, uint8_t *iu, uint32_t *n, bool solicited)
{
        struct srp_spoil s = {
                .iu = iu, .len = *n, .asked = &t->cfg.asked, .asks_solicited = solicited
        };

        if (!t->violated)
                return false;
        (void)srp_spoil(t->violated, &s);
        *n = s.len;
        return s.twice;
}

/* --- a command's end -------------------------------------------------------------------------- */

static void put_recv(struct srp_target *t, struct rdma_recv *rx)
{
        t->ops.recv_put(t->user, rx);
}

static void release(struct srp_command *c)
{
        struct srp_target *t = c->of;

        if (c->buffer)
                t->ops.buffer_put(t->user, c->buffer, c->buffer_len);
        c->buffer = NULL;
        srp_data_free(c);
        enter(c, SRP_STEP_FREE);
        c->next = t->free;
        t->free = c;
}

/* The initiator and the owner are done with it. */
static void retire(struct srp_command *c)
{
        struct srp_target *t = c->of;

        if (!c->link)
                return;
        if (c->awaits)
                tell(t, SRP_HAS_DROPPED, 0);
        c->awaits = false;
        t->ordered -= c->attr == SRP_ORDERED;
        unlist(c);
        t->ops.ended(t->user, c);
        put_recv(t, c->rx);
        c->rx = NULL;
}

void srp_command_drop(struct srp_command *c)
{
        c->of->owed++;
        retire(c);
        release(c);
}

/* --- the response ----------------------------------------------------------------------------- */

void srp_command_check(struct srp_command *c, const struct scsi_sense *s)
{
        c->status = SCSI_CHECK;
        c->sense_len = SCSI_SENSE_LEN;
        scsi_sense_put(c->sense, s);
}

void srp_command_refuse(struct srp_command *c, uint8_t key, uint16_t asc)
{
        srp_command_check(c, &(struct scsi_sense) { .key = key, .asc = asc });
}

static uint8_t residual(uint32_t wanted, uint32_t got, uint32_t size, uint8_t over, uint8_t under,
                        be32_t *count)
{
        if (wanted > size) {
                *count = be32(wanted - size);
                return over;
        }
        if (got < size) {
                *count = be32(size - got);
                return under;
        }
        return 0;
}

/* What a response is to say in place of what has happened. */
static void spoil_outcome(struct srp_command *c)
{
        if (violates(c->of, SRP_RSP_STATUS)) {
                c->status = SCSI_GOOD;
                c->sense_len = 0;
        }
        if (violates(c->of, SRP_SENSE_FORM))
                c->sense[0] = 0;
        if (violates(c->of, SRP_TM_RESULT) && c->type == SRP_TSK_MGMT)
                c->response = c->response ? SRP_TM_COMPLETE : SRP_TM_FAILED;
}

static void spoil_count(const struct srp_target *t, be32_t *count)
{
        if (violates(t, SRP_RSP_COUNT) && be32_get(*count) > 0)
                *count = be32(be32_get(*count) - 1);
}

static uint32_t build_response(struct srp_command *c, uint32_t delta)
{
        bool answers = c->type == SRP_TSK_MGMT || c->response != 0;
        struct srp_rsp r = {
                .opcode = SRP_RSP,
                .req_lim_delta = be32(delta),
                .tag = be64(c->tag),
                .flags = answers        ? SRP_RSPVALID
                         : c->sense_len ? SRP_SNSVALID
                                        : 0,
                .status = answers ? 0 : c->status,
                .resp_len = be32(answers ? RESPONSE_DATA : 0),
                .sense_len = be32(answers ? 0 : c->sense_len),
        };
        uint8_t *more = c->iu + sizeof(r);

        r.flags |=
            residual(c->out_len, c->done, c->out_size, SRP_DOOVER, SRP_DOUNDER, &r.out_residual);
        r.flags |=
            residual(c->in_len, c->in_len, c->in_size, SRP_DIOVER, SRP_DIUNDER, &r.in_residual);
        spoil_count(c->of, &r.out_residual);
        spoil_count(c->of, &r.in_residual);
        memcpy(c->iu, &r, sizeof(r));
        if (answers)
                memcpy(more, (uint8_t[RESPONSE_DATA]) { [RESPONSE_DATA - 1] = c->response },
                       RESPONSE_DATA);
        else
                memcpy(more, c->sense, c->sense_len);
        return (uint32_t)sizeof(r) + (answers ? RESPONSE_DATA : c->sense_len);
}

static struct verbs_wr *last_wr(struct srp_command *c)
{
        return c->again.user ? &c->again : &c->answer;
}

/* From here on the initiator may use its tag, and what it is given back. */
static void chain_response(struct srp_command *c)
{
        struct srp_target *t = c->of;
        uint32_t delta = violates(t, SRP_LIMIT_RETURNED) ? 0 : 1 + t->owed, len;
        bool twice;

        spoil_outcome(c);
        len = build_response(c, delta);
        twice = spoil(t, c->iu, &len, c->sol_not & (SRP_SCSOLNT | SRP_UCSOLNT));
        t->owed = 0;
        t->limit += delta;
        tell(t, SRP_HAS_GRANTED, delta);
        c->answer = send_of(t, c->iu, len, c);
        c->with_answer++;
        chain(t, &c->answer);
        if (twice) {
                c->again = send_of(t, c->iu, len, c);
                c->with_answer++;
                chain(t, &c->again);
        }
        last_wr(c)->flags |= VERBS_SIGNALED;
        retire(c);
        enter(c, SRP_STEP_ANSWERING);
}

/* WRITEs are not signaled: the response's completion comes when they have arrived. Unless there are so many that the
 * queue has no room for them otherwise. False: it waits for room. */
static bool chain_answer(struct srp_command *c)
{
        struct srp_target *t = c->of;
        bool many = c->writes + 2 > t->cfg.send_wrs / 2;

        for (; c->asked < c->writes; c->asked++) {
                if (room(t) == 0)
                        return false;
                c->piece[c->asked].op = VERBS_WRITE;
                c->piece[c->asked].flags = many ? VERBS_SIGNALED : 0;
                c->with_answer += !many;
                chain(t, &c->piece[c->asked]);
        }
        if (room(t) < (t->violated ? 2 : 1))
                return false;
        chain_response(c);
        return true;
}

/* The last one of the WRITEs may not need all of its piece. */
static void prepare_writes(struct srp_command *c)
{
        uint32_t left = c->buffer ? least(c->in_len, c->in_size) : 0;

        c->writes = 0;
        for (; left > 0 && c->writes < c->pieces; c->writes++) {
                struct verbs_sge *sge = &c->piece[c->writes].sge[0];

                sge->len = least(sge->len, left);
                left -= sge->len;
                c->piece[c->writes].remote += violates(c->of, SRP_TRANSFER);
        }
        if (violates(c->of, SRP_TRANSFER_WHOLE))
                c->writes = 0;
}

/* It ends silently. */
static bool is_dropped(const struct srp_command *c)
{
        return gone(c->of) || c->aborted ||
               (violates(c->of, SRP_RSP_ANSWERED) && c->type == SRP_CMD);
}

void srp_command_answer(struct srp_command *c)
{
        struct srp_target *t = c->of;

        if (is_dropped(c)) {
                srp_command_drop(c);
                return;
        }
        if (c->out_len == 0)
                prepare_writes(c);
        if (t->sends.first || !chain_answer(c))
                wait_in(&t->sends, c, SRP_STEP_ROOM);
}

/* --- the owner's part ------------------------------------------------------------------------- */

/* An ordered command begins when all older ones of its logical unit have ended, younger ones when it has; one for the
 * head of the queue at once. */
static bool has_to_wait(const struct srp_command *c)
{
        const struct srp_command *older = c->of->oldest;

        if (c->of->ordered == 0 || c->type != SRP_CMD || c->attr == SRP_HEAD_OF_QUEUE)
                return false;
        for (; older != c; older = older->later)
                if (older->type == SRP_CMD && older->lun == c->lun &&
                    (older->attr == SRP_ORDERED || c->attr == SRP_ORDERED))
                        return true;
        return false;
}

void srp_command_execute(struct srp_command *c)
{
        struct srp_target *t = c->of;

        if (gone(t) || c->aborted) { /* tasks end with their channel */
                srp_command_drop(c);
                return;
        }
        if (has_to_wait(c)) {
                enter(c, SRP_STEP_TURN);
                return;
        }
        if (c->awaits)
                tell(t, SRP_HAS_EXECUTED, 0);
        c->awaits = false;
        t->executing++;
        tell(t, SRP_HAS_GOT, 0);
        enter(c, SRP_STEP_EXECUTING);
        if (c->type == SRP_TSK_MGMT)
                t->ops.manage(t->user, c);
        else
                t->ops.execute(t->user, c);
}

void srp_command_done(struct srp_command *c)
{
        assert(c->step == SRP_STEP_EXECUTING);
        tell(c->of, SRP_HAS_PUT, 0);
        c->of->executing--;
        srp_command_answer(c);
}

/* Those whose turn has come; each may end, and with it others. */
static void take_turns(struct srp_target *t)
{
        struct srp_command *c = t->oldest;

        while (c) {
                bool goes = c->step == SRP_STEP_TURN && !has_to_wait(c);

                if (goes)
                        srp_command_execute(c);
                c = goes ? t->oldest : c->later;
        }
}

/* --- what comes ------------------------------------------------------------------------------- */

static struct srp_command *begin(struct srp_target *t, struct rdma_recv *rx, uint8_t type,
                                 uint64_t tag, uint64_t lun)
{
        struct srp_command *c = t->free;

        t->free = c->next;
        *c = (struct srp_command) { .type = type,
                                    .tag = tag,
                                    .lun = lun,
                                    .own = c->own,
                                    .of = t,
                                    .rx = rx,
                                    .piece = &c->one,
                                    .iu = c->iu };
        list_outstanding(c);
        enter(c, SRP_STEP_NEW);
        return c;
}

static void take_cmd(struct srp_target *t, struct rdma_recv *rx, const struct srp_cmd *cmd)
{
        struct srp_command *c = begin(t, rx, SRP_CMD, be64_get(cmd->tag), be64_get(cmd->lun));
        uint8_t *p = rx->wr.sge[0].addr;
        struct rule_set found = { 0 };
        struct srp_cmd_parts parts;

        (void)srp_cmd_read(p, rx->bytes, t->imm_at, &parts, &found);
        c->attr = cmd->attr;
        t->ordered += c->attr == SRP_ORDERED;
        c->sol_not = cmd->sol_not;
        c->cdb = p + offsetof(struct srp_cmd, cdb);
        c->cdb_len = SCSI_CDB_LEN + parts.add_cdb_len;
        c->out = parts.out;
        c->in = parts.in;
        c->out_size = srp_data_size(c, &c->out);
        c->in_size = srp_data_size(c, &c->in);
        if (t->ops.admit(t->user, c))
                srp_data_prepare(c);
        else
                srp_command_answer(c);
}

static void take_tsk_mgmt(struct srp_target *t, struct rdma_recv *rx, const struct srp_tsk_mgmt *m)
{
        struct srp_command *c = begin(t, rx, SRP_TSK_MGMT, be64_get(m->tag), be64_get(m->lun));

        c->function = m->function;
        c->task_tag = be64_get(m->task_tag);
        c->sol_not = m->sol_not;
        srp_command_execute(c);
}

static void take_iu(struct srp_target *t, struct rdma_recv *rx)
{
        union srp_iu iu;
        bool whole = srp_read(rx->wr.sge[0].addr, rx->bytes, &iu);

        if (whole && iu.opcode == SRP_CMD) {
                take_cmd(t, rx, &iu.cmd);
                return;
        }
        if (whole && iu.opcode == SRP_TSK_MGMT) {
                take_tsk_mgmt(t, rx, &iu.tsk_mgmt);
                return;
        }
        t->left |= whole && iu.opcode == SRP_I_LOGOUT && !violates(t, SRP_LOGOUT_ENDS);
        t->credit.waits &= !(whole && iu.opcode == SRP_CRED_RSP);
        put_recv(t, rx);
}

static bool breaks(struct srp_target *t, bool broken, enum srp_rule rule)
{
        if (!broken || rule_in(t->waived, rule))
                return false;
        t->fault = rule;
        return true;
}

static bool is_agreed(const struct srp_target *t, unsigned format)
{
        uint16_t formats = be16_get(t->cfg.granted.buf_fmt);

        return (format != SRP_DIRECT || formats & SRP_FORMAT_DIRECT) &&
               (format != SRP_INDIRECT || formats & SRP_FORMAT_INDIRECT) &&
               (format != SRP_IMMEDIATE_DATA || t->imm_at != 0);
}

/* What a target that is not to tolerate it makes of a breach: see rule_policy. */
static bool ends(const struct srp_target *t, unsigned rule)
{
        enum reaction reaction = srp_rule_get(rule)->reaction;

        return reaction == REACT_CLOSE ||
               (reaction == REACT_TOLERATE && violates(t, (enum srp_rule)rule));
}

/* What shows in the IU alone, and obliges the target to end the channel. */
static bool breaks_alone(struct srp_target *t, const uint8_t *p, uint32_t n)
{
        struct rule_set found = { 0 };

        srp_check(p, n, PARTY_HOST, t->imm_at, &found);
        rule_each_in (&found, id)
                if (breaks(t, ends(t, id), (enum srp_rule)id))
                        return true;
        return false;
}

static bool is_answer_to(const struct own_iu *own, const union srp_iu *iu)
{
        const union srp_iu *asked = (const union srp_iu *)(const void *)own->in_line;

        return own->waits && be64_get(asked->cred_req.tag) == be64_get(iu->cred_rsp.tag);
}

/* ... and what shows beside all that was said before. */
static bool breaks_rule(struct srp_target *t, const uint8_t *p, uint32_t n, bool *takes_credit)
{
        const struct srp_info *info;
        union srp_iu iu;
        bool whole = srp_read(p, n, &iu);

        *takes_credit = false;
        if (breaks_alone(t, p, n))
                return true;
        info = whole ? srp_info(iu.opcode) : NULL;
        if (!info || info->sender != PARTY_HOST)
                return false;
        *takes_credit = info->request;
        return breaks(t, info->request && t->limit == 0, SRP_LIMIT_OVERRUN) ||
               breaks(t,
                      iu.opcode == SRP_CMD &&
                          !(is_agreed(t, iu.cmd.buf_fmt >> 4) && is_agreed(t, iu.cmd.buf_fmt & 15)),
                      SRP_CMD_AGREED) ||
               breaks(t,
                      iu.opcode == SRP_AER_RSP ||
                          (iu.opcode == SRP_CRED_RSP && !is_answer_to(&t->credit, &iu)),
                      SRP_TAG_ANSWER);
}

static void stall(struct srp_target *t, struct rdma_recv *rx)
{
        rx->next = NULL;
        *t->stalled_last = rx;
        t->stalled_last = &rx->next;
}

static struct rdma_recv *unstall(struct srp_target *t)
{
        struct rdma_recv *rx = t->stalled;

        t->stalled = rx->next;
        if (!t->stalled)
                t->stalled_last = &t->stalled;
        return rx;
}

static void take_stalled(struct srp_target *t)
{
        while (t->stalled && !gone(t) && t->free)
                take_iu(t, unstall(t));
}

enum srp_verdict srp_target_received(struct srp_target *t, struct rdma_recv *rx)
{
        bool takes;

        if (gone(t)) {
                put_recv(t, rx);
                return SRP_GOES_ON;
        }
        if (breaks_rule(t, rx->wr.sge[0].addr, rx->bytes, &takes)) {
                put_recv(t, rx);
                return SRP_AT_FAULT;
        }
        if (takes && t->limit > 0) {
                t->limit--;
                tell(t, SRP_HAS_REQUESTED, 0);
        }
        if (takes && (t->stalled || !t->free))
                stall(t, rx);
        else
                take_iu(t, rx);
        return t->left ? SRP_LOGGED_OUT : SRP_GOES_ON;
}

enum srp_rule srp_target_fault(const struct srp_target *t)
{
        return t->fault;
}

/* --- IUs of its own --------------------------------------------------------------------------- */

static void chain_own(struct srp_target *t, struct own_iu *own, const union srp_iu *iu)
{
        uint32_t n = (uint32_t)srp_write(iu, own->in_line, sizeof(own->in_line));
        bool twice;

        memmove(own->iu, own->in_line, n);
        twice = spoil(t, own->iu, &n, false);
        own->wr = send_of(t, own->iu, n, NULL);
        own->wr.flags |= VERBS_SIGNALED;
        own->sent = true;
        own->out = 1 + twice;
        chain(t, &own->wr);
        if (!twice)
                return;
        own->again = own->wr;
        chain(t, &own->again);
}

/* What requests that had no response have taken is given back, once no response is due that would do so. */
static void grant(struct srp_target *t)
{
        struct srp_cred_req r = { .opcode = SRP_CRED_REQ, .req_lim_delta = be32(t->owed) };

        if (t->owed == 0 || t->oldest || t->stalled || t->credit.waits || t->credit.out > 0 ||
            gone(t) || room(t) < 2)
                return;
        t->limit += t->owed;
        tell(t, SRP_HAS_GRANTED, t->owed);
        t->owed = 0;
        t->credit.waits = true;
        chain_own(t, &t->credit, &(union srp_iu) { .cred_req = r });
}

void srp_target_logout(struct srp_target *t, uint32_t reason)
{
        t->leaves = true;
        t->reason = reason;
}

static void say_logout(struct srp_target *t)
{
        struct srp_t_logout r = { .opcode = SRP_T_LOGOUT, .reason = be32(t->reason) };

        if (!t->leaves || t->logout.sent || t->broken || t->stopped || t->ended || room(t) < 2)
                return;
        chain_own(t, &t->logout, &(union srp_iu) { .t_logout = r });
}

bool srp_target_is_said(const struct srp_target *t)
{
        return t->broken || t->stopped || t->ended ||
               (t->leaves && t->logout.sent && t->logout.out == 0 && !t->chain);
}

/* --- completions ------------------------------------------------------------------------------ */

/* Work requests or READs have come back. */
static void go_on(struct srp_target *t)
{
        struct srp_command *c;

        while ((c = t->sends.first) != NULL && !gone(t) && chain_answer(c))
                list_remove(&t->sends, c);
        while ((c = t->reads.first) != NULL && !gone(t) && srp_data_ask(c)) {
                list_remove(&t->reads, c);
                enter(c, SRP_STEP_READING);
        }
}

static void answered(struct srp_command *c)
{
        struct srp_target *t = c->of;

        t->wrs_out -= c->with_answer;
        release(c);
        go_on(t);
}

static void arrived(struct srp_command *c)
{
        struct srp_target *t = c->of;
        bool all;

        t->reads_out--;
        t->wrs_out--;
        c->arrived++;
        all = c->arrived == c->asked && (c->asked == c->pieces || c->aborted || t->stopped);
        if (all && c->step == SRP_STEP_DATA) /* the rest will not be asked for */
                list_remove(&t->reads, c);
        go_on(t);
        if (all)
                srp_data_came(c);
}

static bool own_completed(struct srp_target *t, struct own_iu *own, const struct verbs_wr *wr)
{
        if (wr != &own->wr && wr != &own->again)
                return false;
        own->out--;
        t->wrs_out--;
        go_on(t);
        return true;
}

bool srp_target_completed(struct srp_target *t, const struct verbs_wc *wc)
{
        struct srp_command *c = wc->wr->user;

        tell(t, SRP_HAS_COMPLETED, 0);
        if (wc->status != VERBS_SUCCESS && !t->broken) {
                t->broken = true;
                reset_chain(t);
        }
        if (t->broken || t->ended)
                return wc->status != VERBS_SUCCESS;
        if (own_completed(t, &t->credit, wc->wr) || own_completed(t, &t->logout, wc->wr))
                return false;
        if (wc->wr->op == VERBS_READ) {
                arrived(c);
        } else if (wc->wr == last_wr(c)) {
                answered(c);
        } else { /* one of many WRITEs */
                t->wrs_out--;
                go_on(t);
        }
        return false;
}

struct verbs_wr *srp_target_take(struct srp_target *t)
{
        struct verbs_wr *first;

        take_stalled(t);
        take_turns(t);
        grant(t);
        say_logout(t);
        first = t->chain;
        reset_chain(t);
        return first;
}

bool srp_target_wants_post(const struct srp_target *t)
{
        return t->chain || (t->stalled && t->free && !gone(t)) || (t->leaves && !t->logout.sent);
}

/* --- the owner's side ------------------------------------------------------------------------- */

void srp_command_abort(struct srp_command *c)
{
        struct srp_target *t = c->of;

        if (c->step == SRP_STEP_ROOM && c->asked > 0) /* its answer is on its way */
                return;
        c->aborted = true;
        switch (c->step) {
        case SRP_STEP_BUFFER:
                list_remove(&t->buffers, c);
                srp_command_drop(c);
                break;
        case SRP_STEP_DATA:
                list_remove(&t->reads, c);
                enter(c, SRP_STEP_READING);
                if (c->asked == c->arrived)
                        srp_command_drop(c);
                break;
        case SRP_STEP_ROOM:
                list_remove(&t->sends, c);
                srp_command_drop(c);
                break;
        case SRP_STEP_TURN:
                srp_command_drop(c);
                break;
        case SRP_STEP_FREE:
        case SRP_STEP_NEW:
        case SRP_STEP_READING:
        case SRP_STEP_EXECUTING:
        case SRP_STEP_ANSWERING:
                break;
        }
}

void srp_target_stop(struct srp_target *t)
{
        t->stopped = true;
}

static void end_command(struct srp_command *c)
{
        switch (c->step) {
        case SRP_STEP_FREE:
                break;
        case SRP_STEP_EXECUTING: /* until srp_command_done() */
                c->aborted = true;
                break;
        case SRP_STEP_NEW:
        case SRP_STEP_BUFFER:
        case SRP_STEP_DATA:
        case SRP_STEP_READING:
        case SRP_STEP_TURN:
        case SRP_STEP_ROOM:
        case SRP_STEP_ANSWERING:
                retire(c);
                release(c);
                break;
        }
}

void srp_target_end(struct srp_target *t)
{
        t->ended = true;
        reset_chain(t);
        list_init(&t->buffers);
        list_init(&t->reads);
        list_init(&t->sends);
        while (t->stalled)
                put_recv(t, unstall(t));
        for (unsigned i = 0; i < t->count; i++)
                end_command(&t->slots[i]);
}

unsigned srp_target_executing(const struct srp_target *t)
{
        return t->executing;
}

/* --- from the beginning to the end ------------------------------------------------------------ */

static bool get_memory(struct srp_target *t)
{
        uint32_t bytes = (t->count + 2) * SRP_IU_OUT;

        t->slots = calloc(t->count, sizeof(*t->slots));
        t->own = calloc(t->count, t->cfg.own_bytes ? t->cfg.own_bytes : 1);
        if (!t->slots || !t->own)
                return false;
        if (t->cfg.inline_bytes >= SRP_IU_OUT)
                return true;
        t->ius = t->ops.iu_memory(t->user, bytes, &t->ius_lkey);
        return t->ius;
}

static void share_memory(struct srp_target *t)
{
        for (unsigned i = t->count; i-- > 0;) {
                struct srp_command *c = &t->slots[i];

                c->of = t;
                c->piece = &c->one;
                c->own = (char *)t->own + i * t->cfg.own_bytes;
                c->iu = t->ius ? t->ius + i * SRP_IU_OUT : c->iu_inline;
                c->next = t->free;
                t->free = c;
        }
        t->credit.iu = t->ius ? t->ius + t->count * SRP_IU_OUT : t->credit.in_line;
        t->logout.iu = t->ius ? t->credit.iu + SRP_IU_OUT : t->logout.in_line;
}

struct srp_target *srp_target_new(const struct srp_target_config *cfg,
                                  const struct srp_target_ops *ops, void *user)
{
        bool immediate = cfg->asked.req_flags & cfg->granted.rsp_flags & SRP_IMMEDIATE;
        struct srp_target *t = calloc(1, sizeof(*t));

        if (!t)
                return NULL;
        t->cfg = *cfg;
        t->ops = *ops;
        t->user = user;
        t->waived = cfg->policy ? &cfg->policy->waived : NULL;
        t->violated =
            cfg->policy && !rule_set_empty(&cfg->policy->violated) ? &cfg->policy->violated : NULL;
        t->imm_at = immediate ? be16_get(cfg->asked.imm_data_offset) : 0;
        t->limit = t->count = be32_get(cfg->granted.req_lim_delta);
        t->newest = &t->oldest;
        t->stalled_last = &t->stalled;
        list_init(&t->buffers);
        list_init(&t->reads);
        list_init(&t->sends);
        reset_chain(t);
        if (!get_memory(t)) {
                free(t->slots);
                free(t->own);
                free(t);
                return NULL;
        }
        share_memory(t);
        tell(t, SRP_HAS_GRANTED, t->limit);
        return t;
}

void srp_target_free(struct srp_target *t)
{
        if (!t->ended)
                srp_target_end(t);
        assert(t->executing == 0);
        if (t->ius)
                t->ops.iu_memory_put(t->user, t->ius, (t->count + 2) * SRP_IU_OUT);
        free(t->slots);
        free(t->own);
        free(t);
}
