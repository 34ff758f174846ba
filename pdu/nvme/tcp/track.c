/* SPDX-License-Identifier: BSD-3-Clause */
#include "track.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/core/plant.h"
#include "pdu/nvme/machine/queue_track.h"

enum {
        R2TS_DEFAULT = 256,
        R2TS_FIRST = 64, /* that there is room for at first */
        ENDED_KEPT = 16, /* CIDs that SUCCESS ended, remembered to name what comes after it */
};

enum ic { IC_NONE, IC_ASKED, IC_DONE };

struct track {
        struct queue_track queue; /* first: queue_kind.leaves() is called with it */
        struct track_limits limits;

        enum ic ic;
        bool gave_up[2];
        uint8_t hpda, dgst_asked;
        struct pdu_format format[2]; /* by sender */
        uint32_t maxh2cdata, maxr2t, in_capsule;

        struct tags ttags;
        struct track_r2t *r2ts;
        struct track_cmd *last, *in_hand[2];
        uint16_t ended[ENDED_KEPT], next_ttag;
        unsigned ended_n;
        unsigned strays; /* R2Ts that are not in the table, and whose H2CData is not judged */
};

/* Of lengths that a peer made up. */
static uint32_t sum(uint32_t a, uint32_t b)
{
        return a < UINT32_MAX - b ? a + b : UINT32_MAX;
}

static bool breaks(struct track *t, bool broken, enum rule_id rule)
{
        return queue_breaks(&t->queue, broken, rule);
}

static void finds(struct track *t, bool broken, enum rule_id rule)
{
        queue_finds(&t->queue, broken, rule);
}

/* Of a record that begins with it, or of none. */
static struct track_cmd *track_cmd_of(struct queue_cmd *cmd)
{
        return (struct track_cmd *)(void *)cmd;
}

/* --- life ------------------------------------------------------------------------------------- */

static void orphan_r2ts(struct queue_track *q, struct queue_cmd *ended);

static const struct queue_kind tcp_queue = {
        .cmd_size = sizeof(struct track_cmd),
        .cmd_cid = TCP_CMD_CID,
        .rsp_cid = TCP_RESP_CID,
        .rsp_reserved = RULE_NONE, /* pdu_check_overlooked() does */
        .leaves = orphan_r2ts,
};

/* Twice the room for R2Ts, as few have more than some at a time. What track_r2t() has returned moves. False: r2ts_max are
 * there already, or there is no memory. */
static bool more_r2ts(struct track *t)
{
        unsigned was = t->ttags.slots, n = was ? was * 2 : R2TS_FIRST;
        struct track_r2t *r2ts;

        n = n < t->limits.r2ts_max ? n : t->limits.r2ts_max;
        if (n <= was)
                return false;
        r2ts = realloc(t->r2ts, n * sizeof(*r2ts));
        if (!r2ts)
                return false;
        memset(r2ts + was, 0, (n - was) * sizeof(*r2ts));
        t->r2ts = r2ts;
        return tags_grow(&t->ttags, n) == 0;
}

struct track *track_new(const struct track_limits *limits, const struct rule_set *waived)
{
        struct track *t = calloc(1, sizeof(*t));
        bool good;

        if (!t)
                return NULL;
        t->limits = *limits;
        t->limits.r2ts_max = limits->r2ts_max ? limits->r2ts_max : R2TS_DEFAULT;
        t->maxh2cdata = t->in_capsule = UINT32_MAX;
        t->maxr2t = 1;
        good =
            queue_track_init(&t->queue, &tcp_queue, limits->depth_max, waived) == 0 && more_r2ts(t);
        t->queue.looks = limits->findings;
        t->queue.passive = limits->passive;
        if (good)
                return t;
        track_free(t);
        return NULL;
}

void track_free(struct track *t)
{
        if (!t)
                return;
        queue_track_fini(&t->queue);
        tags_fini(&t->ttags);
        free(t->r2ts);
        free(t);
}

int track_assume(struct track *t, const struct pdu_format *h2c, const struct pdu_format *c2h,
                 uint32_t maxh2cdata, uint32_t maxr2t)
{
        t->ic = IC_DONE;
        t->format[PARTY_HOST] = *h2c;
        t->format[PARTY_CONTROLLER] = *c2h;
        t->maxh2cdata = maxh2cdata;
        t->maxr2t = maxr2t;
        return queue_track_mid_stream(&t->queue);
}

/* --- commands and R2Ts ------------------------------------------------------------------------ */

struct track_cmd *track_cmd(struct track *t, uint16_t cid)
{
        return track_cmd_of(queue_track_cmd(&t->queue, cid));
}

struct track_r2t *track_r2t(struct track *t, uint16_t ttag)
{
        int slot = tags_find(&t->ttags, ttag);

        return slot < 0 ? NULL : &t->r2ts[slot];
}

static void close_r2t(struct track *t, struct track_r2t *r)
{
        if (r->cmd)
                r->cmd->r2ts--;
        tags_free(&t->ttags, tags_remove(&t->ttags, r->ttag));
        r->cmd = NULL;
}

/* Its H2CData may still be on its way: T1.0 3.3.2.2 does not recall an R2T. */
static void orphan_r2ts(struct queue_track *q, struct queue_cmd *ended)
{
        struct track *t = (struct track *)(void *)q;
        struct track_cmd *cmd = track_cmd_of(ended);

        for (unsigned i = 0; cmd->r2ts > 0 && i < t->ttags.slots; i++) {
                if (t->r2ts[i].cmd != cmd)
                        continue;
                t->r2ts[i].cmd = NULL;
                cmd->r2ts--;
        }
}

void track_release(struct track *t, struct track_cmd *cmd)
{
        orphan_r2ts(&t->queue, &cmd->queue);
}

/* Room is needed: the host may have dropped R2Ts of commands that were answered. */
static void drop_orphans(struct track *t)
{
        for (unsigned i = 0; t->r2ts && i < t->ttags.slots; i++) {
                struct track_r2t *r = &t->r2ts[i];

                if (!r->cmd && track_r2t(t, r->ttag) == r)
                        close_r2t(t, r);
        }
}

/* --- set-up ----------------------------------------------------------------------------------- */

/* The ICs in force from here on. A digest that nobody asked for is believed where that is waived.
 */
static void negotiate(struct track *t, const struct pdu_icresp *r)
{
        struct pdu_format f = {
                .hdgst = r->dgst & PDU_DGST_HEADER,
                .ddgst = r->dgst & PDU_DGST_DATA,
                .pda = r->cpda,
        };

        t->format[PARTY_HOST] = f;
        f.pda = t->hpda;
        t->format[PARTY_CONTROLLER] = f;
        t->maxh2cdata = le32_get(r->maxh2cdata);
        if (t->maxh2cdata == 0)
                t->maxh2cdata = UINT32_MAX;
        t->ic = IC_DONE;
}

/* TCP_ICREQ_ONCE waived: the first one counts. */
static void on_icreq(struct track *t, const union pdu *h)
{
        uint32_t maxr2t = le32_get(h->icreq.maxr2t);

        if ((breaks(t, t->ic != IC_NONE && !PLANTED(ICREQ_TWICE), TCP_ICREQ_ONCE)) ||
            t->ic != IC_NONE)
                return;
        t->hpda = h->icreq.hpda;
        t->dgst_asked = h->icreq.dgst;
        t->maxr2t = maxr2t < UINT32_MAX ? maxr2t + 1 : maxr2t;
        t->ic = IC_ASKED;
}

/* TCP_ICRESP_ONCE waived: the first one counts. */
static void on_icresp(struct track *t, const union pdu *h)
{
        const unsigned digests = PDU_DGST_HEADER | PDU_DGST_DATA;

        if (breaks(t, t->ic == IC_NONE, TCP_ICRESP_FIRST) ||
            breaks(t, t->ic == IC_DONE, TCP_ICRESP_ONCE) ||
            breaks(t, h->icresp.dgst & digests & ~(unsigned)t->dgst_asked, TCP_ICRESP_DGST))
                return;
        if (t->ic != IC_DONE)
                negotiate(t, &h->icresp);
}

static bool too_early(struct track *t, enum party sender)
{
        if (sender == PARTY_CONTROLLER)
                return breaks(t, t->ic != IC_DONE, TCP_ICRESP_FIRST);
        finds(t, t->ic == IC_ASKED, TCP_ICREQ_WAIT);
        return breaks(t, t->ic == IC_NONE, TCP_ICREQ_FIRST);
}

/* --- capsules --------------------------------------------------------------------------------- */

/* Which queue it is may not be known where the beginning was not seen. */
static uint32_t in_capsule_max(const struct track *t, const union sqe *s)
{
        const struct queue_past *past = &t->queue.past;
        bool io = past->qid > 0 || (past->qid < 0 && past->mid_stream);

        return io && s->opc != NVME_FABRICS ? t->in_capsule : PDU_ADMIN_IN_CAPSULE;
}

/* A descriptor of another kind than the two is a matter of status (TCP_SGL_TYPE). */
static bool wrong_capsule_data(struct track *t, const union sqe *s, uint32_t len)
{
        bool in_capsule = s->sgl.id == SGL_IN_CAPSULE && !(sqe_xfer(s) == XFER_C2H && len == 0);
        uint64_t offset = le64_get(s->sgl.addr);
        bool wrong_length = in_capsule && (offset > len || le32_get(s->sgl.len) != len - offset);
        bool undescribed = s->sgl.id == SGL_TRANSPORT && len > 0;

        if (PLANTED(SGL_LENGTH) || PLANTED(NO_DATA) || PLANTED(PLEN_WRAP))
                return false;
        return breaks(t, len > in_capsule_max(t, s), TCP_ICD_LIMIT) ||
               breaks(t, wrong_length || undescribed, TCP_ICD_LEN);
}

/* A record's part that is TCP's. */
static void set_command(const struct track *t, struct track_cmd *cmd, const union sqe *s)
{
        bool buffer = s->sgl.id == SGL_TRANSPORT;
        enum nvme_xfer xfer = buffer ? sqe_xfer(s) : XFER_NONE;

        memset((uint8_t *)cmd + sizeof(cmd->queue), 0, sizeof(*cmd) - sizeof(cmd->queue));
        cmd->sgl_id = s->sgl.id;
        cmd->h2c = xfer & XFER_H2C;
        cmd->c2h = xfer & XFER_C2H;
        cmd->counts_bytes = sqe_counts_bytes(&t->queue.past, s);
        cmd->buffer = buffer ? le32_get(s->sgl.len) : 0;
        cmd->needs = buffer && t->queue.past.qid == 0 ? admin_delivers(s) : 0;
}

static void on_command(struct track *t, const union pdu *h)
{
        const union sqe *s = &h->cmd.sqe;
        struct queue_cmd *old = queue_track_cmd(&t->queue, le16_get(s->cid));
        struct track_cmd *cmd;
        bool fresh;

        if (queue_track_refuses(&t->queue, old) ||
            wrong_capsule_data(t, s, pdu_data_len(h, &t->format[PARTY_HOST])))
                return;
        cmd = track_cmd_of(queue_track_takes(&t->queue, old, s, &fresh));
        if (cmd && fresh)
                set_command(t, cmd, s);
        if (cmd)
                t->last = t->in_hand[PARTY_HOST] = cmd;
}

/* --- responses -------------------------------------------------------------------------------- */

static void judge_success(struct track *t, const struct track_cmd *cmd)
{
        finds(t, cmd->c2h && cmd->c2h_next < cmd->needs, TCP_C2H_COMPLETE);
        finds(t, cmd->c2h_next > 0 && !cmd->last_seen, TCP_C2H_LAST);
}

static bool is_connect(const struct track_cmd *cmd)
{
        return cmd->opc == NVME_FABRICS && cmd->fctype == FCTYPE_CONNECT;
}

/* Whether SUCCESS has ended a command of this CID not long ago. */
static bool just_ended(const struct track *t, uint16_t cid)
{
        for (unsigned i = 0; i < ENDED_KEPT && i < t->ended_n; i++)
                if (t->ended[i] == cid)
                        return true;
        return false;
}

static void on_response(struct track *t, const union pdu *h)
{
        const struct cqe *cqe = &h->resp.cqe;
        uint16_t cid = le16_get(cqe->cid);
        struct track_cmd *cmd = track_cmd(t, cid);

        if (!cmd && !queue_track_answers_unknown(&t->queue, cqe))
                (void)(breaks(t, just_ended(t, cid), TCP_C2H_SUCCESS_RESP) ||
                       breaks(t, !just_ended(t, cid), tcp_queue.rsp_cid));
        if (!cmd)
                return;
        t->last = cmd;
        queue_track_answers(&t->queue, &cmd->queue, cqe);
        if (!is_connect(cmd) && !cqe_status(cqe))
                judge_success(t, cmd);
}

/* --- controller to host data ------------------------------------------------------------------ */

static bool reaches_past(uint32_t offset, uint32_t len, uint64_t end)
{
        return (uint64_t)offset + len > end;
}

/* SUCCESS is for those who can do without SQHD, on whatever queue they use it: 3.3.2.1 asks for the
 * capability, which no PDU shows; who has it may refuse a request for it. TCP_C2H_SUCCESS_LAST waived: SUCCESS ends the
 * command all the same. */
static void end_by_success(struct track *t, struct track_cmd *cmd)
{
        judge_success(t, cmd);
        t->ended[t->ended_n++ % ENDED_KEPT] = cmd->cid;
        queue_track_ends(&t->queue, &cmd->queue);
}

static bool wrong_c2h_data(struct track *t, const struct track_cmd *cmd, const struct pdu_data *h)
{
        uint32_t offset = le32_get(h->offset), len = le32_get(h->length);

        if (PLANTED(C2H_OFFSET))
                return false;
        return breaks(t, !cmd->c2h, TCP_C2H_DIR) ||
               breaks(t, len % 4 != 0 && !cmd->counts_bytes, TCP_C2H_DWORD_LENGTH) ||
               breaks(t, cmd->last_seen, TCP_C2H_AFTER_LAST) ||
               breaks(t, offset != cmd->c2h_next, TCP_C2H_CONTIG) ||
               breaks(t, reaches_past(offset, len, cmd->buffer), TCP_C2H_RANGE);
}

/* TCP_C2H_CONTIG waived: the bytes count, wherever they went. */
static void on_c2h_data(struct track *t, const union pdu *h)
{
        uint16_t cid = le16_get(h->data.cccid);
        struct track_cmd *cmd = track_cmd(t, cid);

        if (!cmd && t->queue.unknown > 0) {
                if (h->ch.flags & PDU_SUCCESS)
                        (void)queue_track_answers_unknown(&t->queue, NULL);
                return;
        }
        if (breaks(t, !cmd && just_ended(t, cid), TCP_C2H_AFTER_LAST) ||
            breaks(t, !cmd, TCP_C2H_CID) || !cmd || wrong_c2h_data(t, cmd, &h->data))
                return;
        finds(t, t->queue.disconnected, FAB_DISCONNECT_LAST);
        t->last = t->in_hand[PARTY_CONTROLLER] = cmd;
        cmd->c2h_next = sum(cmd->c2h_next, le32_get(h->data.length));
        cmd->last_seen |= (h->ch.flags & PDU_LAST) != 0;
        if (h->ch.flags & PDU_SUCCESS)
                end_by_success(t, cmd);
}

/* --- host to controller data ------------------------------------------------------------------ */

static bool over_r2t_limit(struct track *t, const struct track_cmd *cmd)
{
        uint64_t max = (uint64_t)t->maxr2t + (t->limits.passive ? 1 : 0);

        if (t->ttags.left == 0 && !more_r2ts(t))
                drop_orphans(t);
        return breaks(t, cmd->r2ts >= max || (!t->limits.passive && t->ttags.left == 0),
                      TCP_R2T_LIMIT);
}

static bool wrong_r2t(struct track *t, const struct track_cmd *cmd, const struct pdu_data *h)
{
        uint32_t offset = le32_get(h->offset), len = le32_get(h->length);
        const struct track_r2t *other = track_r2t(t, le16_get(h->ttag));
        bool in_use = other && other->cmd;

        return breaks(t, len % 4 != 0 && !cmd->counts_bytes, TCP_R2T_DWORD_LENGTH) ||
               breaks(t, offset != cmd->r2t_next, TCP_R2T_CONTIG) ||
               breaks(t, reaches_past(offset, len, cmd->buffer) && !PLANTED(R2T_RANGE),
                      TCP_R2T_RANGE) ||
               over_r2t_limit(t, cmd) || breaks(t, in_use, TCP_R2T_TTAG);
}

/* TCP_R2T_TTAG broken: the new one takes the place of the old. TCP_R2T_LIMIT waived: one that finds no room is not known;
 * in a capture, where it breaks nothing, it is a stray. */
static void open_r2t(struct track *t, struct track_cmd *cmd, const struct pdu_data *h)
{
        uint16_t ttag = le16_get(h->ttag);
        struct track_r2t *r = track_r2t(t, ttag);
        int slot;

        if (r && r->cmd)
                t->strays++;
        if (r)
                close_r2t(t, r);
        slot = tags_add(&t->ttags, ttag);
        if (slot < 0) {
                t->strays += t->limits.passive;
                return;
        }
        t->r2ts[slot] = (struct track_r2t) {
                .ttag = ttag,
                .cid = cmd->cid,
                .cmd = cmd,
                .offset = le32_get(h->offset),
                .length = le32_get(h->length),
                .next = le32_get(h->offset),
        };
        cmd->r2ts++;
}

/* One that asks for nothing is over at once, where TCP_R2T_EMPTY is waived. */
static void on_r2t(struct track *t, const union pdu *h)
{
        struct track_cmd *cmd = track_cmd(t, le16_get(h->data.cccid));

        if (!cmd && t->queue.unknown > 0) {
                t->strays++;
                return;
        }
        if (breaks(t, !cmd || !cmd->h2c, TCP_R2T_CID) || !cmd || wrong_r2t(t, cmd, &h->data))
                return;
        finds(t, t->queue.disconnected, FAB_DISCONNECT_LAST);
        t->last = t->in_hand[PARTY_CONTROLLER] = cmd;
        cmd->r2t_next = sum(cmd->r2t_next, le32_get(h->data.length));
        if (le32_get(h->data.length) > 0)
                open_r2t(t, cmd, &h->data);
}

static uint64_t r2t_end(const struct track_r2t *r)
{
        return (uint64_t)r->offset + r->length;
}

/* TCP_H2C_DWORD_OFFSET waived: the low bits are not looked at. */
static uint32_t datao(const struct track *t, const struct pdu_data *h)
{
        uint32_t offset = le32_get(h->offset);

        return rule_in(t->queue.waived, TCP_H2C_DWORD_OFFSET) ? offset & ~3u : offset;
}

/* R2Ts follow each other without a gap, so what is served in their order does, too. */
static bool out_of_order(const struct track *t, const struct track_r2t *r)
{
        return r->cmd && r->next != r->cmd->h2c_got && !rule_in(t->queue.waived, TCP_R2T_CONTIG);
}

static bool wrong_h2c_data(struct track *t, const struct track_r2t *r, const union pdu *h)
{
        uint32_t offset = datao(t, &h->data), len = le32_get(h->data.length);
        bool counts = r->cmd && r->cmd->counts_bytes, last = h->ch.flags & PDU_LAST;
        bool ends = (uint64_t)r->next + len >= r2t_end(r), huge = len > t->maxh2cdata;
        bool outside = offset < r->offset || reaches_past(offset, len, r2t_end(r));

        if (PLANTED(H2C_OFFSET) || (PLANTED(H2C_LENGTH) && offset == r->next))
                return false;
        return breaks(t, le16_get(h->data.cccid) != r->cid, TCP_H2C_CID) ||
               breaks(t, len % 4 != 0 && !counts, TCP_H2C_DWORD_LENGTH) ||
               breaks(t, offset != r->next, TCP_H2C_CONTIG) ||
               breaks(t, out_of_order(t, r), TCP_H2C_ORDER) ||
               breaks(t, huge && outside, TCP_H2C_LIMIT_RANGE) ||
               breaks(t, huge && !outside, TCP_H2C_LIMIT) ||
               breaks(t, outside && !huge, TCP_H2C_RANGE) ||
               breaks(t, last && !ends, TCP_H2C_LAST_EARLY) ||
               breaks(t, !last && ends, TCP_H2C_LAST_MISSING);
}

/* With rules waived an R2T is over when as many bytes came as it asked for, whatever LAST_PDU and
 * DATAO say. */
static void on_h2c_data(struct track *t, const union pdu *h)
{
        struct track_r2t *r = track_r2t(t, le16_get(h->data.ttag));
        struct track_cmd *cmd = track_cmd(t, le16_get(h->data.cccid));
        uint32_t len = le32_get(h->data.length);

        if (t->strays > 0 && (!r || r->cid != le16_get(h->data.cccid))) {
                t->strays -= (h->ch.flags & PDU_LAST) != 0;
                if (cmd)
                        cmd->h2c_got = sum(cmd->h2c_got, len);
                return;
        }
        if (!r && PLANTED(H2C_TTAG))
                r = &t->r2ts[le16_get(h->data.ttag)];
        if (!r && cmd && PLANTED(H2C_NO_BUFFER)) {
                t->last = track_cmd(t, cmd->cid);
                return;
        }
        if (!r && (!cmd || cmd->r2ts == 0)) {
                breaks(t, true, TCP_H2C_UNSOLICITED);
                return;
        }
        if (breaks(t, !r, TCP_H2C_TTAG) || !r || wrong_h2c_data(t, r, h))
                return;
        t->last = t->in_hand[PARTY_HOST] = r->cmd;
        r->next = sum(r->next, len);
        if (r->cmd)
                r->cmd->h2c_got = sum(r->cmd->h2c_got, len);
        if (r->next >= r2t_end(r))
                close_r2t(t, r);
}

/* --- termination ------------------------------------------------------------------------------ */

static void on_h2c_term(struct track *t, const union pdu *h)
{
        finds(t, le32_get(h->ch.plen) <= sizeof(struct pdu_term), TCP_TERM_COPY_H2C);
        t->gave_up[PARTY_HOST] = true;
}

static void on_c2h_term(struct track *t, const union pdu *h)
{
        finds(t, le32_get(h->ch.plen) <= sizeof(struct pdu_term), TCP_TERM_COPY_C2H);
        t->gave_up[PARTY_CONTROLLER] = true;
}

/* --- a PDU ------------------------------------------------------------------------------------ */

typedef void take_fn(struct track *t, const union pdu *h);

static const struct {
        take_fn *take;
        bool any_time; /* also before the IC exchange */
} pdus[PDU_TYPES] = {
        [PDU_ICREQ] = { on_icreq, true },
        [PDU_ICRESP] = { on_icresp, true },
        [PDU_H2C_TERM] = { on_h2c_term, true },
        [PDU_C2H_TERM] = { on_c2h_term, true },
        [PDU_CAPSULE_CMD] = { on_command, false },
        [PDU_CAPSULE_RESP] = { on_response, false },
        [PDU_H2C_DATA] = { on_h2c_data, false },
        [PDU_C2H_DATA] = { on_c2h_data, false },
        [PDU_R2T] = { on_r2t, false },
};

static void start_pdu(struct track *t, enum party sender)
{
        queue_track_begin(&t->queue, sender);
        t->last = t->in_hand[sender] = NULL;
}

/* Types that are unknown or travel the wrong way get here only with those rules waived. */
static bool is_of(enum party sender, const union pdu *h)
{
        const struct pdu_info *info = pdu_info(h->ch.type);

        return info && info->sender == sender && pdus[h->ch.type].take;
}

/* What a party answers whose peer has sent a TermReq may belong to what that has sent since. */
struct fault track_header(struct track *t, enum party sender, const union pdu *h)
{
        start_pdu(t, sender);
        if (t->limits.findings) {
                enum rule_id rule = pdu_check_overlooked(h, sender, &t->format[sender]).rule;

                finds(t, rule != RULE_NONE, rule);
        }
        if (t->gave_up[sender]) {
                finds(t, sender == PARTY_CONTROLLER, TCP_TERM_QUIET);
                return t->queue.fault;
        }
        if (!is_of(sender, h))
                return t->queue.fault;
        if (pdus[h->ch.type].any_time || (!t->gave_up[peer_of(sender)] && !too_early(t, sender)))
                pdus[h->ch.type].take(t, h);
        return t->queue.fault;
}

struct fault track_pdu(struct track *t, enum party sender, const union pdu *h, bool ddgst_bad)
{
        enum rule_id rule = sender == PARTY_HOST ? TCP_DDGST_H2C : TCP_DDGST_C2H;
        struct fault fault = { 0 };

        (void)h;
        if (!ddgst_bad || rule_in(t->queue.waived, rule))
                return fault;
        finds(t, true, rule);
        if (t->in_hand[sender])
                t->in_hand[sender]->ddgst_bad = true;
        return rule_fault(rule);
}

/* --- what the owner asks ---------------------------------------------------------------------- */

const struct rule_set *track_findings(const struct track *t)
{
        return &t->queue.findings;
}

struct fault track_warning(const struct track *t)
{
        enum rule_id gravest = RULE_NONE;

        if (rule_set_empty(&t->queue.findings))
                return rule_fault(RULE_NONE);
        rule_each (id)
                if (rule_in(&t->queue.findings, id) &&
                    (!gravest || rule_get(id)->level < rule_get(gravest)->level))
                        gravest = id;
        return rule_fault(gravest);
}

const struct pdu_format *track_format(const struct track *t, enum party sender)
{
        return &t->format[sender];
}

bool track_live(const struct track *t)
{
        return t->ic == IC_DONE;
}

uint32_t track_maxh2cdata(const struct track *t)
{
        return t->maxh2cdata;
}

uint32_t track_maxr2t(const struct track *t)
{
        return t->maxr2t;
}

int track_qid(const struct track *t)
{
        return t->queue.past.qid;
}

unsigned track_outstanding(const struct track *t)
{
        return t->queue.outstanding;
}

unsigned track_r2ts(const struct track *t)
{
        return t->ttags.used;
}

void track_set_in_capsule(struct track *t, uint32_t bytes)
{
        t->in_capsule = bytes;
}

struct track_cmd *track_last_cmd(struct track *t)
{
        return t->last;
}

uint16_t track_free_ttag(struct track *t)
{
        while (tags_find(&t->ttags, t->next_ttag) >= 0)
                t->next_ttag++;
        return t->next_ttag++;
}
