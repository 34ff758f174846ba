/* SPDX-License-Identifier: BSD-3-Clause */
#include "srp_words.h"

#include <stdio.h>
#include <string.h>

#include "pdu/srp/machine/spoil.h"

enum {
        WAIT_MS = 5000,
        CM_MS = 15000, /* three tries: Linux repeats a REQ, REP or DREQ that was lost after 4.3 s */
        END_MS = 3000, /* of a channel */
        GONE_MS = 1000, /* who was asked whether he serves others; his answer to that is no harm */
        BACK_MS = 250,  /* what is given back beside a response */
        LATER = 8,      /* commands, by which what was taken before is given back */
        TELLS = 16,     /* that a unit may have at first */
        AGAIN_MS = 50,  /* until a unit that is busy is asked again */
        LARGE_BLOCK = 4096,
};

static const struct srp_peer *peer_of_chan(const struct chan *c)
{
        return srp_peer_of(c->t->suite);
}

static uint64_t patience(const struct chan *c)
{
        return t_deadline(c->t, WAIT_MS);
}

uint32_t unit_of(const struct chan *c)
{
        return peer_of_chan(c)->lun;
}

uint32_t block_of(const struct chan *c)
{
        return peer_of_chan(c)->block;
}

/* Expectations are about a rule that is held against the target. */
static bool is_held(const struct t *t)
{
        return t->rule != RULE_NONE && !rests_on_own_reading(t, t->rule);
}

/* What the rule of the case does not ask for is of this one. */
static void doubt(const struct chan *c, enum srp_rule rule)
{
        if (is_held(c->t))
                blame(c->t, rule);
}

static void answer_text(const struct answer *a, char *buf, size_t size)
{
        struct text text = text_in(buf, size);

        text_add(&text, "%s", scsi_status_name(a->status));
        if (a->has_sense) {
                text_add(&text, ", ");
                scsi_sense_text(&text, &a->sense);
        }
        if (a->code >= 0)
                text_add(&text, ", response code %d", a->code);
}

/* --- logging in ------------------------------------------------------------------------------- */

/* As the end of a channel reads in a report. */
static const char *end_of(const struct chan *c)
{
        return c->state == CHAN_REJECTED ? "a rejection"
               : c->left                 ? "SRP_T_LOGOUT"
               : c->disconnected         ? "the end of the connection"
               : c->state == CHAN_ENDED  ? "a connection that failed"
                                         : "nothing";
}

struct chan *ask_login_as(struct t *t, struct chan_login how)
{
        struct chan *c = chan_new(t, &how);

        t->negative |= how.len || how.opcode || how.reserved;
        chan_connect(c);
        if (!chan_is_decided(c, t_deadline(t, CM_MS))) {
                broke_if_over(t);
                doubt(c, SRP_RSP_ANSWERED);
                fail(t, "an answer to the login", "nothing");
        }
        t_settle(t);
        return c;
}

/* How many channels an initiator has is the target's to say, and so is that it has no room now; what the CM itself
 * rejects, as while it still knows the last connection, passes (IBTA 12.6.7.2). */
static void excuse_rejection(struct t *t, const struct chan *c)
{
        uint32_t reason = c->has_rej ? be32_get(c->rej.reason) : 0;
        bool more = (c->how.flags & SRP_ACTION) == SRP_ACTION_MULTI;

        t->busy |= reason == SRP_REJECT_RESOURCES || reason == SRP_REJECT_CHANNELS ||
                   (!c->has_rej && chan_is_cm_busy(c));
        require(t, !more || (reason != SRP_REJECT_CHANNELS && reason != SRP_REJECT_MULTI),
                "the target has no room for another channel of an initiator");
        require(t, t->busy || !c->has_rej || !is_held(t), "a login is rejected: %s",
                srp_reject_name(reason));
}

struct chan *log_in_as(struct t *t, struct chan_login how)
{
        struct chan *c = ask_login_as(t, how);

        if (c->state == CHAN_REJECTED)
                excuse_rejection(t, c);
        if (c->state == CHAN_REJECTED && c->has_rej)
                fail(t, "a login response", "a rejection: %s",
                     srp_reject_name(be32_get(c->rej.reason)));
        want(t, c->state == CHAN_LIVE, "a login response", "%s", end_of(c));
        want(t, c->rsp.opcode == SRP_LOGIN_RSP, "a login response",
             "an acceptance without login response");
        return c;
}

void expect_rejected(struct chan *c, uint32_t reason)
{
        uint32_t seen = be32_get(c->rej.reason);

        if (c->state == CHAN_LIVE)
                fail(c->t, "a rejection", "a login response");
        if (c->state == CHAN_REJECTED && !c->has_rej)
                lenient(c->t, "a login rejection", "a rejection without SRP_LOGIN_REJ");
        else if (c->state == CHAN_REJECTED && reason && seen != reason)
                lenient(c->t, srp_reject_name(reason), "%s (%08Xh)", srp_reject_name(seen), seen);
}

void expect_works_or_rejected(struct chan *c)
{
        if (c->state == CHAN_LIVE) {
                attend(c);
                expect_served(c);
        }
}

struct chan *ready_channel_as(struct t *t, struct chan_login how)
{
        struct chan *c = log_in_as(t, how);

        attend(c);
        return c;
}

/* Which states a unit has is not SRP's (SAM-5 5.3.1): that it answers is all that is asked of the target here. */
void attend_unit(struct chan *c, uint32_t lun)
{
        static const uint8_t cdb[6] = { SCSI_TEST_UNIT_READY };
        struct answer a = { .status = SCSI_GOOD };
        char seen[200];

        for (unsigned i = 0; i < TELLS; i++) {
                a = run_order(order_cdb(c, lun, cdb, sizeof(cdb)));
                if (a.status == SCSI_GOOD)
                        return;
                if (a.status != SCSI_CHECK)
                        give_ms(c->t, AGAIN_MS);
        }
        c->t->busy = true; /* whoever answers lives */
        answer_text(&a, seen, sizeof(seen));
        skip(c->t, "unit %u is not ready: %s", lun, seen);
}

void attend(struct chan *c)
{
        attend_unit(c, unit_of(c));
}

struct chan *slow_channel_as(struct t *t, struct chan_login how)
{
        struct chan *c = ready_channel_as(t, how);

        attend_unit(c, peer_of_chan(c)->slow_lun);
        return c;
}

/* --- commands --------------------------------------------------------------------------------- */

struct order *order_cdb(struct chan *c, uint32_t lun, const void *cdb, size_t n)
{
        struct order *o = t_alloc(c->t, sizeof(*o));
        struct srp_cmd s = { .opcode = SRP_CMD, .lun = be64(scsi_lun_of(lun)) };

        o->chan = c;
        o->tag = c->tag++;
        s.tag = be64(o->tag);
        memcpy(s.cdb, cdb, n < sizeof(s.cdb) ? n : sizeof(s.cdb));
        memcpy(o->iu, &s, sizeof(s));
        o->n = sizeof(s);
        return o;
}

static struct order *read_or_write(struct chan *c, uint32_t lun, bool write, uint64_t block,
                                   uint16_t blocks)
{
        uint8_t cdb[10] = { write ? SCSI_WRITE_10 : SCSI_READ_10 };

        be_put(cdb + 2, 4, block);
        be_put(cdb + 7, 2, blocks);
        return order_cdb(c, lun, cdb, sizeof(cdb));
}

static uint64_t first_block(const struct chan *c)
{
        int range = c->t->range < 0 ? 0 : c->t->range;

        return (uint64_t)range * SRP_RANGE_BYTES / block_of(c);
}

static void need_blocks(const struct chan *c)
{
        require(c->t, block_of(c) > 0, "unit %u has no blocks that can be read", unit_of(c));
}

uint16_t blocks_in(const struct chan *c, uint32_t bytes)
{
        uint32_t blocks;

        need_blocks(c);
        blocks = bytes / block_of(c);
        return (uint16_t)(blocks ? blocks : 1);
}

/* Of a case: others write beyond. */
static void need_range(const struct chan *c, uint16_t blocks)
{
        need_blocks(c);
        require(c->t, (uint64_t)blocks * block_of(c) <= SRP_RANGE_BYTES,
                "%u blocks of %u bytes are more than a case may have", blocks, block_of(c));
}

struct order *order_read(struct chan *c, uint16_t blocks)
{
        need_range(c, blocks);
        return read_or_write(c, unit_of(c), false, first_block(c), blocks);
}

struct order *order_write(struct chan *c, uint16_t blocks)
{
        need_range(c, blocks);
        return read_or_write(c, unit_of(c), true, first_block(c), blocks);
}

/* --- their data ------------------------------------------------------------------------------- */

static void add_range(struct order *o, bool out, const uint8_t *p, uint32_t len)
{
        struct chan_range *list = out ? o->out : o->in;
        unsigned *n = out ? &o->outs : &o->ins;

        if (*n == CHAN_PIECES)
                broke(o->chan->t, "more than %d pieces", CHAN_PIECES);
        list[(*n)++] = (struct chan_range) { (uint32_t)(p - o->chan->arena), len };
}

static void set_format(struct order *o, bool out, uint8_t format, unsigned count)
{
        o->iu[5] |= (uint8_t)(out ? format << 4 : format);
        o->iu[out ? 6 : 7] = (uint8_t)count;
}

/* The target has accepted a login that requires it, or says of itself that it supports it (6.2, 6.3). */
static void need_format(const struct chan *c, uint16_t format)
{
        require(c->t, (be16_get(c->asked.req_buf_fmt) | be16_get(c->rsp.buf_fmt)) & format,
                "the target does not support %s descriptors",
                format == SRP_FORMAT_DIRECT ? "direct" : "indirect");
}

void data_direct(struct order *o, bool out, struct srp_desc d)
{
        need_format(o->chan, SRP_FORMAT_DIRECT);
        set_format(o, out, SRP_DIRECT, 0);
        srp_desc_put(o->iu + o->n, &d);
        o->n += SRP_DESC_LEN;
}

static uint8_t *data_of(struct order *o, bool out, uint32_t len)
{
        uint8_t *p = chan_memory(o->chan, len);

        add_range(o, out, p, len);
        data_direct(o, out, chan_desc(o->chan, p, len));
        return p;
}

uint8_t *data_in(struct order *o, uint32_t len)
{
        return data_of(o, false, len);
}

uint8_t *data_out(struct order *o, uint32_t len)
{
        return data_of(o, true, len);
}

/* All of a channel go to one place: what they read is not looked at, and there are as many as its limit permits. */
struct order *order_slow(struct chan *c)
{
        struct order *o = read_or_write(c, peer_of_chan(c)->slow_lun, false, 0, 1);

        if (!c->slow)
                c->slow = chan_memory(c, LARGE_BLOCK);
        add_range(o, false, c->slow, LARGE_BLOCK);
        data_direct(o, false, chan_desc(c, c->slow, LARGE_BLOCK));
        return o;
}

void data_indirect(struct order *o, bool out, struct srp_desc table, uint32_t total,
                   const struct srp_desc *list, unsigned in_line)
{
        need_format(o->chan, SRP_FORMAT_INDIRECT);
        set_format(o, out, SRP_INDIRECT, in_line);
        srp_desc_put(o->iu + o->n, &table);
        be_put(o->iu + o->n + SRP_DESC_LEN, 4, total);
        o->n += SRP_TABLE_LEN;
        for (unsigned i = 0; i < in_line; i++, o->n += SRP_DESC_LEN)
                srp_desc_put(o->iu + o->n, &list[i]);
}

/* The table itself is memory that the target reads. */
static uint8_t *put_table(struct order *o, const struct srp_desc *list, unsigned n)
{
        uint8_t *table = chan_memory(o->chan, n * SRP_DESC_LEN);

        for (unsigned i = 0; i < n; i++)
                srp_desc_put(table + i * SRP_DESC_LEN, &list[i]);
        add_range(o, true, table, n * SRP_DESC_LEN);
        return table;
}

uint8_t *data_table(struct order *o, bool out, uint32_t len, unsigned pieces, unsigned in_line)
{
        struct srp_desc list[CHAN_PIECES];
        uint8_t *p = chan_memory(o->chan, len), *table;
        uint32_t each = len / pieces;

        for (unsigned i = 0; i < pieces; i++)
                list[i] = chan_desc(o->chan, p + i * each, i + 1 < pieces ? each : len - i * each);
        add_range(o, out, p, len);
        table = put_table(o, list, pieces);
        data_indirect(o, out, chan_desc(o->chan, table, pieces * SRP_DESC_LEN), len, list, in_line);
        return p;
}

void data_immediate(struct order *o, const void *data, uint32_t len)
{
        uint32_t at = o->chan->how.imm_at ? o->chan->how.imm_at : CHAN_IMM_AT;

        require(o->chan->t, len <= CHAN_LARGE - at, "%u bytes of immediate data are too many", len);
        set_format(o, true, SRP_IMMEDIATE_DATA, 0);
        be_put(o->iu + o->n, 4, len);
        memcpy(o->iu + at, data, len);
        o->n = at + len;
}

void order_set(struct order *o, unsigned at, uint8_t value)
{
        o->iu[at] = value;
}

void order_set_tag(struct order *o, uint64_t tag)
{
        o->tag = tag;
        be_put(o->iu + offsetof(struct srp_cmd, tag), 8, tag);
}

/* --- sending ---------------------------------------------------------------------------------- */

/* The answer to a request of the target. False: it is none. */
static bool answer_target(struct chan *c, const struct chan_iu *iu)
{
        if (!chan_is_request(iu))
                return false;
        if (!c->mute)
                send_small(c, iu->p[0] == SRP_CRED_REQ ? SRP_CRED_RSP : SRP_AER_RSP,
                           be_get(iu->p + 8, 8));
        return true;
}

static void answer_requests(struct chan *c)
{
        const struct chan_iu *iu;

        while (!c->mute && (iu = chan_take_request(c)) != NULL)
                (void)answer_target(c, iu);
}

/* It has ended, or will, or the limit is so much. A target may wait for the answer to its last request. */
static bool comes_limit(struct chan *c, int64_t least, uint64_t until)
{
        bool ends;

        do {
                answer_requests(c);
                ends = c->left || c->state != CHAN_LIVE;
        } while (!ends && c->limit < least && chan_has_limit(c, least, until));
        return ends || c->limit >= least;
}

/* Nothing obliges a target to give back with its response what a request has taken: it may do so later, or by
 * SRP_CRED_REQ. Until then it is the initiator who would break a rule. */
static void await_limit(struct chan *c)
{
        if (c->limit > 0 || c->overruns || comes_limit(c, 1, patience(c)))
                return;
        broke_if_over(c->t);
        blame(c->t, SRP_LIMIT_RETURNED);
        fail(c->t, "a request limit above zero", "%lld", (long long)c->limit);
}

/* From here on the target may read and change its memory. */
static void give_memory(struct order *o)
{
        struct chan *c = o->chan;

        for (unsigned i = 0; i < o->outs; i++)
                memcpy(c->shadow + o->out[i].at, c->arena + o->out[i].at, o->out[i].len);
        o->next = c->orders;
        c->orders = o;
}

void send_order(struct order *o)
{
        const struct chan *c = o->chan;
        bool fits = c->t->negative || o->n <= be32_get(c->rsp.max_it_iu_len);

        c->t->busy |= !fits; /* whoever accepts a login lives */
        require(c->t, fits, "IUs of %u bytes are longer than the target accepts", o->n);
        await_limit(o->chan);
        give_memory(o);
        o->chan->limit--;
        chan_send(o->chan, o->iu, o->n, true);
}

void send_oddly(struct order *o)
{
        o->chan->t->negative = true;
        await_limit(o->chan);
        give_memory(o);
        o->chan->limit--;
        chan_send(o->chan, o->iu, o->n, false);
}

void send_broken(struct order *o, enum srp_rule rule)
{
        struct rule_set violated = { 0 };
        struct srp_spoil s = { .iu = o->iu, .len = o->n, .asked = &o->chan->asked };

        rule_add(&violated, rule);
        if (!srp_spoil(&violated, &s))
                broke(o->chan->t, "this command cannot break %s", srp_rule_get(rule)->id);
        o->n = s.len;
        o->chan->t->negative = true;
        send_order(o);
        if (s.twice)
                chan_send(o->chan, o->iu, o->n, true);
}

void send_as_is(struct chan *c, const void *p, uint32_t n)
{
        c->t->negative = true;
        chan_send(c, p, n, false);
}

void send_small(struct chan *c, uint8_t type, uint64_t tag)
{
        const struct srp_logout iu = { .opcode = type, .tag = be64(tag) };

        chan_send(c, &iu, sizeof(iu), true);
}

uint64_t send_function_to(struct chan *c, uint32_t lun, uint8_t function, uint64_t task)
{
        uint64_t tag = c->tag++;
        const struct srp_tsk_mgmt m = { .opcode = SRP_TSK_MGMT,
                                        .tag = be64(tag),
                                        .lun = be64(scsi_lun_of(lun)),
                                        .function = function,
                                        .task_tag = be64(task) };

        await_limit(c);
        c->limit--;
        chan_send(c, &m, sizeof(m), true);
        return tag;
}

uint64_t send_function(struct chan *c, uint8_t function, uint64_t task)
{
        return send_function_to(c, unit_of(c), function, task);
}

/* --- what comes ------------------------------------------------------------------------------- */

static void __attribute__((noreturn)) fail_for(struct chan *c, const char *expected)
{
        broke_if_over(c->t);
        doubt(c, SRP_RSP_ANSWERED);
        if (c->state == CHAN_LIVE)
                fail(c->t, expected, "nothing");
        fail(c->t, expected, "%s", end_of(c));
}

/* NULL: none comes. */
static const struct chan_iu *next_iu(struct chan *c, uint64_t deadline)
{
        const struct chan_iu *iu;

        while (chan_has_iu(c, deadline)) {
                iu = chan_take(c);
                if (!answer_target(c, iu))
                        return iu;
        }
        return NULL;
}

static struct answer read_rsp(const struct chan_iu *iu)
{
        struct answer a = { .code = -1 };
        struct rule_set unused = { 0 };
        struct srp_rsp_parts parts;
        struct srp_rsp r;

        memcpy(&r, iu->p, sizeof(r));
        (void)srp_rsp_read(iu->p, iu->n, &parts, &unused);
        a.tag = be64_get(r.tag);
        a.status = r.status;
        a.flags = r.flags;
        a.sol_not = r.sol_not;
        a.delta = (int32_t)be32_get(r.req_lim_delta);
        a.out_residual = be32_get(r.out_residual);
        a.in_residual = be32_get(r.in_residual);
        a.sense_len = parts.sense_len;
        a.has_sense = parts.sense_len > 0 &&
                      scsi_sense_get(iu->p + parts.sense_at, parts.sense_len, &a.sense);
        if (parts.resp_len >= 4)
                a.code = iu->p[parts.resp_at + 3];
        return a;
}

static bool is_rsp(const struct chan_iu *iu)
{
        return iu->n >= sizeof(struct srp_rsp) && iu->p[0] == SRP_RSP;
}

/* False: the channel has ended in place of it. */
static bool rsp_comes(struct chan *c, struct answer *a)
{
        const struct chan_iu *iu = next_iu(c, patience(c));

        if (iu && is_rsp(iu)) {
                *a = read_rsp(iu);
                return true;
        }
        if (iu && iu->p[0] != SRP_T_LOGOUT)
                fail(c->t, "SRP_RSP", "an IU of %u bytes and type %02Xh", iu->n, iu->p[0]);
        if (!iu && c->state == CHAN_LIVE)
                fail_for(c, "SRP_RSP");
        return false;
}

struct answer expect_rsp(struct chan *c)
{
        struct answer a;

        if (!rsp_comes(c, &a))
                fail_for(c, "SRP_RSP");
        return a;
}

struct answer expect_rsp_to(struct chan *c, uint64_t tag)
{
        struct answer a = expect_rsp(c);

        while (a.tag != tag)
                a = expect_rsp(c);
        return a;
}

struct answer run_order(struct order *o)
{
        struct answer a;

        send_order(o);
        a = expect_rsp(o->chan);
        want(o->chan->t, a.tag == o->tag, "a response with the command's tag", "tag %llxh",
             (unsigned long long)a.tag);
        return a;
}

struct answer run_function(struct chan *c, uint8_t function, uint64_t task)
{
        return expect_rsp_to(c, send_function(c, function, task));
}

void expect_quiet(struct chan *c, unsigned ms)
{
        const struct chan_iu *iu = next_iu(c, now_ms() + t_scaled(c->t, ms));

        want(c->t, !iu || !is_rsp(iu), "no response", "SRP_RSP");
}

/* --- what is in an answer --------------------------------------------------------------------- */

/* What a unit says of its own state, or of what others do to it, in place of doing what it can do later (SAM-5 5.3.1,
 * SPC-4 4.5.6). */
static bool passes_by(const struct answer *a)
{
        static const uint8_t statuses[] = { SCSI_BUSY, SCSI_CONFLICT, SCSI_TASK_SET_FULL,
                                            SCSI_TASK_ABORTED };
        static const uint8_t keys[] = { SCSI_NOT_READY, SCSI_UNIT_ATTENTION };

        return memchr(statuses, a->status, sizeof(statuses)) ||
               (a->status == SCSI_CHECK && a->has_sense &&
                memchr(keys, a->sense.key, sizeof(keys)));
}

void expect_good(struct chan *c, const struct answer *a)
{
        char seen[200];

        answer_text(a, seen, sizeof(seen));
        c->t->busy |= passes_by(a);
        if (a->status == SCSI_GOOD && a->code <= 0)
                return;
        doubt(c, SRP_RSP_STATUS);
        fail(c->t, "GOOD", "%s", seen);
}

void need_writable(struct chan *c, const struct answer *a)
{
        require(c->t, a->status != SCSI_CHECK || !a->has_sense || a->sense.key != SCSI_DATA_PROTECT,
                "unit %u is write-protected", unit_of(c));
}

void expect_sense(struct chan *c, const struct answer *a, uint8_t key, uint16_t asc)
{
        char expected[120] = "CHECK CONDITION, ", seen[200];
        struct text text = text_in(expected + strlen(expected), sizeof(expected) - 20);

        scsi_sense_text(&text, &(struct scsi_sense) { .key = key, .asc = asc });
        answer_text(a, seen, sizeof(seen));
        c->t->busy |= passes_by(a);
        want(c->t, a->status == SCSI_CHECK && a->has_sense && a->sense.key == key, expected, "%s",
             seen);
        if (a->sense.asc != asc)
                advise(c->t, expected, "%s", seen);
}

void expect_no_success(struct chan *c, const struct answer *a)
{
        if (a->status != SCSI_GOOD || a->code > 0)
                return;
        doubt(c, SRP_RSP_STATUS);
        fail(c->t, "an error", "GOOD");
}

static const char *residual_name(uint8_t flag)
{
        return flag == SRP_DOOVER    ? "data-out overflow"
               : flag == SRP_DOUNDER ? "data-out underflow"
               : flag == SRP_DIOVER  ? "data-in overflow"
               : flag == SRP_DIUNDER ? "data-in underflow"
                                     : "no residual";
}

void expect_residual(struct chan *c, const struct answer *a, uint8_t flag, uint32_t count)
{
        uint8_t seen = a->flags & (SRP_DOOVER | SRP_DOUNDER | SRP_DIOVER | SRP_DIUNDER);
        bool out = flag & (SRP_DOOVER | SRP_DOUNDER);

        c->t->busy |= passes_by(a);
        want(c->t, seen == flag, residual_name(flag), "flags %02Xh", a->flags);
        if (flag)
                want_eq(c->t, "residual count", out ? a->out_residual : a->in_residual, count);
}

void expect_code(struct chan *c, const struct answer *a, int code)
{
        enum { NOT_SUPPORTED = 4 };

        want(c->t, a->code >= 0, "response data", "none");
        require(c->t, code != 0 || a->code != NOT_SUPPORTED, "the target does not support that");
        if (code == 0)
                want_eq(c->t, "response code", (uint64_t)a->code, 0);
        else
                want(c->t, a->code != 0, "another response code than 0", "0");
        if (a->code != code)
                advise(c->t, "the usual response code", "%d", a->code);
}

/* --- whether it goes on ------------------------------------------------------------------------ */

bool is_live(struct chan *c)
{
        chan_look(c);
        return c->state == CHAN_LIVE && !c->left;
}

void expect_ended(struct chan *c)
{
        uint64_t deadline = t_deadline(c->t, END_MS);

        while (!c->left && c->state == CHAN_LIVE && chan_has_iu(c, deadline))
                (void)chan_take(c);
        if (!chan_is_ended(c, deadline))
                fail_for(c, "the end of the channel");
}

void expect_ended_or_refused(struct chan *c, uint64_t tag)
{
        struct answer a;

        while (rsp_comes(c, &a))
                if (a.tag == tag) {
                        expect_no_success(c, &a);
                        return;
                }
        expect_ended(c);
}

void expect_ended_or_answered(struct chan *c, uint64_t tag)
{
        struct answer a;

        while (rsp_comes(c, &a))
                if (a.tag == tag) {
                        expect_served(c);
                        return;
                }
        expect_ended(c);
}

void expect_served(struct chan *c)
{
        struct answer a = { .status = SCSI_BUSY };

        for (unsigned i = 0; i < TELLS && passes_by(&a); i++) {
                struct order *o = order_of(c, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0);

                send_order(o);
                a = expect_rsp_to(c, o->tag);
        }
        expect_good(c, &a);
}

void expect_ended_or_works(struct chan *c)
{
        struct order *o = order_of(c, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0);
        struct answer a = { .tag = 0 };

        if (is_live(c))
                send_order(o);
        while (rsp_comes(c, &a) && a.tag != o->tag)
                continue;
        if (a.tag == o->tag)
                expect_good(c, &a);
        else
                expect_ended(c);
}

/* --- ends ------------------------------------------------------------------------------------- */

void expect_left(struct chan *c)
{
        if (!chan_is_disconnected(c, t_deadline(c->t, CM_MS))) {
                broke_if_over(c->t);
                doubt(c, SRP_DREQ);
                fail(c->t, "an answer to the disconnect request", "nothing");
        }
}

void leave(struct chan *c)
{
        chan_leave(c);
        expect_left(c);
}

void expect_others_served(struct t *t)
{
        unsigned rule = t->rule;
        struct chan *other;

        t->rule = RULE_NONE;
        other = ready_channel(t, .other = 0xff);
        expect_served(other);
        chan_leave(other);
        (void)chan_is_disconnected(other, t_deadline(t, GONE_MS));
        t->rule = rule;
}

unsigned limit_of(const struct chan *c)
{
        return c->limit < 0 ? 0 : c->limit < CHAN_AT_ONCE ? (unsigned)c->limit : CHAN_AT_ONCE;
}

/* Whether it gives back with each response, with every second one or of itself is the target's to choose. */
void expect_limit(struct chan *c, int64_t least)
{
        for (unsigned i = 0; i < LATER && c->limit < least; i++)
                if (!comes_limit(c, least, now_ms() + t_scaled(c->t, BACK_MS)) && c->limit > 0)
                        expect_served(c);
        want(c->t, c->limit >= least || !is_live(c),
             "what was taken from the request limit, given back", "a limit of %lld, which was %lld",
             (long long)c->limit, (long long)least);
}

void run_burst(struct chan *c, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                send_order(order_of(c, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0));
        for (unsigned i = 0; i < n; i++) {
                struct answer a = expect_rsp(c);

                if (!passes_by(&a))
                        expect_good(c, &a);
        }
}

void fill(const struct chan *c, uint8_t *p, uint32_t len, unsigned salt)
{
        uint64_t x = UINT64_C(0x9e3779b97f4a7c15) * (c->t->number + 1) + salt;

        for (uint32_t i = 0; i < len; i++) {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                p[i] = (uint8_t)(x >> 24);
        }
}
