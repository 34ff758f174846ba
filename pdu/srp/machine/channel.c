/* SPDX-License-Identifier: BSD-3-Clause */
#include "channel.h"

#include <string.h>

void srp_channel_init(struct srp_channel *c)
{
        memset(c, 0, sizeof(*c));
}

const char *srp_state_name(enum srp_state s)
{
        static const char *const names[] = {
                [SRP_STATE_NEW] = "new",
                [SRP_STATE_ASKED] = "login",
                [SRP_STATE_OPEN] = "live",
                [SRP_STATE_CLOSED] = "closed",
        };

        return names[s];
}

/* --- what is known ---------------------------------------------------------------------------- */

/* What was sent since the login, by both sides, is all known, and so are all requests. */
static bool knows_requests(const struct srp_channel *c)
{
        return c->state == SRP_STATE_OPEN && !c->missing[PARTY_HOST] && !c->overfull;
}

/* No response can be missing. */
static bool knows_responses(const struct srp_channel *c)
{
        return c->state == SRP_STATE_OPEN && !c->missing[PARTY_CONTROLLER];
}

uint32_t srp_channel_immediate(const struct srp_channel *c)
{
        bool wanted = c->asked.req_flags & SRP_IMMEDIATE;

        return c->agreed && wanted && c->granted.rsp_flags & SRP_IMMEDIATE
                   ? be16_get(c->asked.imm_data_offset)
                   : 0;
}

/* At most: what the target takes back may not have reached the initiator. */
static int64_t most_left(const struct srp_channel *c)
{
        return c->gifts - (int64_t)c->taken;
}

uint32_t srp_channel_limit(const struct srp_channel *c)
{
        int64_t left = most_left(c);

        return c->agreed && left > 0 ? (uint32_t)left : 0;
}

const struct srp_request *srp_channel_find(const struct srp_channel *c, uint64_t tag)
{
        for (unsigned i = 0; i < SRP_CHANNEL_REQUESTS; i++)
                if (c->request[i].used && c->request[i].tag == tag)
                        return &c->request[i];
        return NULL;
}

static struct srp_request *find(struct srp_channel *c, uint64_t tag)
{
        const struct srp_request *r = srp_channel_find(c, tag);

        return r ? &c->request[r - c->request] : NULL;
}

unsigned srp_channel_outstanding(const struct srp_channel *c)
{
        unsigned n = 0;

        for (unsigned i = 0; i < SRP_CHANNEL_REQUESTS; i++)
                n += c->request[i].used;
        return n;
}

void srp_channel_miss(struct srp_channel *c, enum party sender)
{
        c->missing[sender] = true;
        for (unsigned i = 0; sender == PARTY_HOST && i < SRP_CHANNEL_REQUESTS; i++)
                c->request[i].stale = true;
}

void srp_channel_doubt(struct srp_channel *c, uint64_t lun)
{
        for (unsigned i = 0; i < SRP_CHANNEL_REQUESTS; i++)
                if (c->request[i].lun == lun)
                        c->request[i].doubtful = true;
}

void srp_channel_close(struct srp_channel *c)
{
        c->state = SRP_STATE_CLOSED;
}

/* --- logging in ------------------------------------------------------------------------------- */

/* The two forms have their reserved bytes in other places. */
static bool cm_reserved(const uint8_t *p, uint32_t n)
{
        bool set = false;

        for (uint32_t i = offsetof(struct srp_login_req_cm, rsvd50);
             i < sizeof(struct srp_login_req_cm) && i < n; i++)
                set |= p[i] != 0;
        return set;
}

void srp_channel_login(struct srp_channel *c, const void *p, uint32_t n, bool native,
                       struct rule_set *found)
{
        bool whole = srp_login_read(p, n, native, &c->asked);

        c->state = SRP_STATE_ASKED;
        if (!whole) {
                rule_add(found, SRP_LENGTH_I);
                return;
        }
        if (c->asked.opcode != SRP_LOGIN_REQ) {
                rule_add(found, SRP_TYPE_I);
                return;
        }
        if (native)
                srp_check(p, n, PARTY_HOST, 0, found);
        else
                srp_login_check(&c->asked, found);
        rule_add_if(found, !native && cm_reserved(p, n), SRP_RESERVED_I);
}

static bool fits(uint8_t action, uint8_t result)
{
        if (result == SRP_RESULT_TERMINATED)
                return action == SRP_ACTION_SINGLE;
        return result != SRP_RESULT_MAINTAINED || action == SRP_ACTION_MULTI;
}

/* What the target has agreed to, beside what it was asked for. */
static void compare(const struct srp_login_req *q, const struct srp_login_rsp *a,
                    struct rule_set *found)
{
        rule_add_if(found, be64_get(a->tag) != be64_get(q->tag), SRP_LOGIN_TAG);
        rule_add_if(found, be32_get(a->max_it_iu_len) < be32_get(q->req_it_iu_len),
                    SRP_LOGIN_GRANTED);
        rule_add_if(found,
                    be16_get(q->req_buf_fmt) & ~be16_get(a->buf_fmt) &
                        (SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT),
                    SRP_LOGIN_SUPPORTED);
        rule_add_if(found, a->rsp_flags & SRP_IMMEDIATE && !(q->req_flags & SRP_IMMEDIATE),
                    SRP_LOGIN_IMMEDIATE);
        rule_add_if(found, !fits(q->req_flags & SRP_ACTION, a->rsp_flags & SRP_RESULT),
                    SRP_LOGIN_OUTCOME);
}

void srp_channel_accept(struct srp_channel *c, const void *p, uint32_t n, struct rule_set *found)
{
        bool asked = c->state == SRP_STATE_ASKED;
        union srp_iu iu;

        c->state = SRP_STATE_OPEN;
        if (!srp_read(p, n, &iu) || iu.opcode != SRP_LOGIN_RSP) {
                rule_add(found, SRP_LOGIN_ANSWER);
                return;
        }
        srp_check(p, sizeof(iu.login_rsp), PARTY_CONTROLLER, 0, found);
        c->granted = iu.login_rsp;
        c->agreed = asked;
        c->given = c->gifts = (int32_t)be32_get(iu.login_rsp.req_lim_delta);
        if (c->given < 0) /* which is no limit: nothing after it can be counted */
                srp_channel_miss(c, PARTY_CONTROLLER);
        if (asked)
                compare(&c->asked, &iu.login_rsp, found);
}

void srp_channel_reject(struct srp_channel *c, const void *p, uint32_t n, struct rule_set *found)
{
        bool asked = c->state == SRP_STATE_ASKED;
        union srp_iu iu;

        c->state = SRP_STATE_CLOSED;
        if (!srp_read(p, n, &iu) || iu.opcode != SRP_LOGIN_REJ) {
                rule_add(found, SRP_REJECT_IU);
                return;
        }
        srp_check(p, sizeof(iu.login_rej), PARTY_CONTROLLER, 0, found);
        /* Of what is no login request nobody has to know where its tag is. */
        rule_add_if(found,
                    asked && c->asked.opcode == SRP_LOGIN_REQ &&
                        be64_get(iu.login_rej.tag) != be64_get(c->asked.tag),
                    SRP_LOGIN_TAG);
}

/* --- requests of the initiator ---------------------------------------------------------------- */

/* In a place that is free, or in that of one whose tag it has. NULL: there is none. */
static struct srp_request *new_request(struct srp_channel *c, uint64_t tag)
{
        struct srp_request *r = find(c, tag);

        for (unsigned i = 0; !r && i < SRP_CHANNEL_REQUESTS; i++)
                if (!c->request[i].used)
                        r = &c->request[i];
        if (!r)
                c->overfull = true;
        return r;
}

static void take_tag(struct srp_channel *c, uint64_t tag, struct rule_set *found)
{
        const struct srp_request *r = find(c, tag);

        rule_add_if(found, r && !r->doubtful && knows_requests(c) && knows_responses(c),
                    SRP_TAG_UNIQUE);
        rule_add_if(found, c->agreed && knows_responses(c) && most_left(c) <= 0, SRP_LIMIT_OVERRUN);
        c->taken++;
}

static void add_range(struct srp_request *r, const struct srp_range *range)
{
        if (r->ranges == SRP_CHANNEL_RANGES)
                r->whole = false;
        else
                r->range[r->ranges++] = *range;
}

/* Of a table that is not all in the IU nobody sees what memory it describes until it is read. */
static void add_memory(struct srp_request *r, const void *p, const struct srp_data *d, bool written)
{
        struct srp_range range = { d->desc, .written = written };

        if (d->format == SRP_DIRECT)
                add_range(r, &range);
        if (d->format != SRP_INDIRECT)
                return;
        if (d->in_line * SRP_DESC_LEN != d->desc.len)
                r->whole = false;
        range = (struct srp_range) { d->desc, .table = true };
        add_range(r, &range);
        for (uint32_t i = 0; i < d->in_line; i++) {
                range = (struct srp_range) { srp_desc_at(p, d, i), .written = written };
                add_range(r, &range);
        }
}

static bool is_agreed(const struct srp_channel *c, enum srp_format format)
{
        uint16_t formats = be16_get(c->granted.buf_fmt);

        switch (format) {
        case SRP_DIRECT:
                return formats & SRP_FORMAT_DIRECT;
        case SRP_INDIRECT:
                return formats & SRP_FORMAT_INDIRECT;
        case SRP_IMMEDIATE_DATA:
                return srp_channel_immediate(c) != 0;
        case SRP_NO_DATA:
        case SRP_FORMATS:
                break;
        }
        return true;
}

static void take_cmd(struct srp_channel *c, const struct srp_cmd *cmd, const void *p, uint32_t n,
                     struct rule_set *found)
{
        struct rule_set known = { 0 };
        struct srp_cmd_parts parts;
        struct srp_request *r;

        take_tag(c, be64_get(cmd->tag), found);
        r = new_request(c, be64_get(cmd->tag));
        if (!r)
                return;
        *r = (struct srp_request) {
                .used = true,
                .type = cmd->opcode,
                .tag = be64_get(cmd->tag),
                .lun = be64_get(cmd->lun),
                .sol_not = cmd->sol_not,
        };
        r->whole = srp_cmd_read(p, n, srp_channel_immediate(c), &parts, &known);
        r->out_len = parts.out.len;
        r->in_len = parts.in.len;
        add_memory(r, p, &parts.out, false);
        add_memory(r, p, &parts.in, true);
        rule_add_if(found,
                    c->agreed && !(is_agreed(c, parts.out.format) && is_agreed(c, parts.in.format)),
                    SRP_CMD_AGREED);
}

static void take_tsk_mgmt(struct srp_channel *c, const struct srp_tsk_mgmt *t,
                          struct rule_set *found)
{
        struct srp_request *r;

        take_tag(c, be64_get(t->tag), found);
        r = new_request(c, be64_get(t->tag));
        if (r)
                *r = (struct srp_request) {
                        .used = true,
                        .whole = true,
                        .type = t->opcode,
                        .function = t->function,
                        .tag = be64_get(t->tag),
                        .lun = be64_get(t->lun),
                        .task_tag = be64_get(t->task_tag),
                        .sol_not = t->sol_not,
                };
}

/* The answer to a request of the target. */
static void take_answer(struct srp_channel *c, uint8_t type, uint64_t tag, struct rule_set *found)
{
        uint8_t asked = type == SRP_CRED_RSP ? SRP_CRED_REQ : SRP_AER_REQ;

        for (unsigned i = 0; i < SRP_CHANNEL_ASKED; i++) {
                struct srp_asked *a = &c->target_request[i];

                if (a->used && a->type == asked && a->tag == tag) {
                        a->used = false;
                        return;
                }
        }
        rule_add_if(found, knows_responses(c), SRP_TAG_ANSWER);
}

/* --- what the target says --------------------------------------------------------------------- */

static void take_delta(struct srp_channel *c, be32_t delta, struct rule_set *found)
{
        int32_t by = (int32_t)be32_get(delta);

        c->given += by;
        if (by > 0)
                c->gifts += by;
        if (!c->agreed || !knows_responses(c))
                return;
        rule_add_if(found, c->given < 0, SRP_LIMIT_TAKEN);
        rule_add_if(found, knows_requests(c) && c->given - (int64_t)c->taken > INT32_MAX,
                    SRP_LIMIT_OVERFLOW);
}

static void finish_task_management(struct srp_channel *c, const struct srp_request *tm)
{
        struct srp_request *task = find(c, tm->task_tag);

        if (tm->function != SRP_TM_ABORT_TASK)
                srp_channel_doubt(c, tm->lun);
        else if (task)
                task->doubtful = true;
}

/* A response beside what it answers. */
static void compare_rsp(const struct srp_request *r, const struct srp_rsp *rsp,
                        struct rule_set *found)
{
        rule_add_if(found, rsp->sol_not & SRP_SOLNT && !(r->sol_not & (SRP_SCSOLNT | SRP_UCSOLNT)),
                    SRP_SOLICITED);
        rule_add_if(found, r->type == SRP_TSK_MGMT && !(rsp->flags & SRP_RSPVALID), SRP_TM_ANSWER);
        rule_add_if(found,
                    r->type == SRP_CMD && r->whole &&
                        ((rsp->flags & SRP_DOUNDER && be32_get(rsp->out_residual) > r->out_len) ||
                         (rsp->flags & SRP_DIUNDER && be32_get(rsp->in_residual) > r->in_len)),
                    SRP_RSP_UNDERFLOW);
}

static void take_rsp(struct srp_channel *c, const struct srp_rsp *rsp, struct rule_set *found)
{
        struct srp_request *r = find(c, be64_get(rsp->tag));

        take_delta(c, rsp->req_lim_delta, found);
        if (!r) {
                rule_add_if(found, knows_requests(c), SRP_TAG_RESPONSE);
                return;
        }
        if (!r->stale)
                compare_rsp(r, rsp, found);
        r->used = false;
        if (r->type == SRP_TSK_MGMT)
                finish_task_management(c, r);
}

static void check_solicited(const struct srp_channel *c, uint8_t sol_not, uint8_t asked_by,
                            struct rule_set *found)
{
        rule_add_if(found, c->agreed && sol_not & SRP_SOLNT && !(c->asked.req_flags & asked_by),
                    SRP_SOLICITED);
}

static void take_target_request(struct srp_channel *c, uint8_t type, uint64_t tag,
                                struct rule_set *found)
{
        struct srp_asked *place = &c->target_request[SRP_CHANNEL_ASKED - 1];
        bool waits = false;

        for (unsigned i = SRP_CHANNEL_ASKED; i-- > 0;) {
                waits |= c->target_request[i].used;
                if (!c->target_request[i].used)
                        place = &c->target_request[i];
        }
        rule_add_if(found, waits && knows_requests(c), SRP_TARGET_WAITS);
        *place = (struct srp_asked) { .used = true, .type = type, .tag = tag };
}

/* --- information units ------------------------------------------------------------------------ */

static void take_iu(struct srp_channel *c, const union srp_iu *iu, const void *p, uint32_t n,
                    struct rule_set *found)
{
        uint64_t tag = be64_get(iu->i_logout.tag);

        switch (iu->opcode) {
        case SRP_LOGIN_REQ:
                rule_add_if(found, c->state == SRP_STATE_OPEN, SRP_LOGIN_ONCE);
                break;
        case SRP_CMD:
                take_cmd(c, &iu->cmd, p, n, found);
                break;
        case SRP_TSK_MGMT:
                take_tsk_mgmt(c, &iu->tsk_mgmt, found);
                break;
        case SRP_CRED_RSP:
        case SRP_AER_RSP:
                take_answer(c, iu->opcode, tag, found);
                break;
        case SRP_RSP:
                take_rsp(c, &iu->rsp, found);
                break;
        case SRP_CRED_REQ:
                take_delta(c, iu->cred_req.req_lim_delta, found);
                check_solicited(c, iu->cred_req.sol_not, SRP_CRSOLNT, found);
                take_target_request(c, iu->opcode, tag, found);
                break;
        case SRP_AER_REQ:
                take_delta(c, iu->aer_req.req_lim_delta, found);
                check_solicited(c, iu->aer_req.sol_not, SRP_AESOLNT, found);
                take_target_request(c, iu->opcode, tag, found);
                break;
        case SRP_T_LOGOUT:
                check_solicited(c, iu->t_logout.sol_not, SRP_LOSOLNT, found);
                c->left[PARTY_CONTROLLER] = true;
                break;
        case SRP_I_LOGOUT:
                c->left[PARTY_HOST] = true;
                break;
        default:
                break;
        }
}

void srp_channel_iu(struct srp_channel *c, enum party sender, const void *p, uint32_t n,
                    struct rule_set *found)
{
        bool initiator = sender == PARTY_HOST;
        const be32_t longest = initiator ? c->granted.max_it_iu_len : c->granted.max_ti_iu_len;
        const struct srp_info *info;
        union srp_iu iu;
        bool whole = srp_read(p, n, &iu);

        srp_check(p, n, sender, srp_channel_immediate(c), found);
        rule_add_if(found, c->agreed && n > be32_get(longest), initiator ? SRP_MAX_I : SRP_MAX_T);
        rule_add_if(found, c->left[sender], initiator ? SRP_LOGOUT_LAST_I : SRP_LOGOUT_LAST_T);
        info = whole ? srp_info(iu.opcode) : NULL;
        if (info && info->sender == sender)
                take_iu(c, &iu, p, n, found);
        else
                srp_channel_miss(c, sender); /* what it was meant to be nobody knows */
}

/* --- data ------------------------------------------------------------------------------------- */

/* Bytes from addr on that a request of the channel describes. */
static uint64_t described(const struct srp_channel *c, bool writes, uint64_t addr, uint32_t key)
{
        uint64_t most = 0;

        for (unsigned i = 0; i < SRP_CHANNEL_REQUESTS; i++) {
                const struct srp_request *r = &c->request[i];

                for (unsigned j = 0; r->used && j < r->ranges; j++) {
                        const struct srp_desc *d = &r->range[j].desc;

                        if (r->range[j].written == writes && d->key == key && addr >= d->addr &&
                            addr - d->addr < d->len && d->len - (addr - d->addr) > most)
                                most = d->len - (addr - d->addr);
                }
        }
        return most;
}

static bool knows_memory(const struct srp_channel *c)
{
        bool whole = knows_requests(c) && knows_responses(c);

        for (unsigned i = 0; i < SRP_CHANNEL_REQUESTS; i++)
                whole &= !c->request[i].used || c->request[i].whole;
        return whole;
}

void srp_channel_transfer(struct srp_channel *c, bool writes, const struct srp_desc *memory,
                          struct rule_set *found)
{
        uint64_t addr = memory->addr, left = memory->len, n = 0;

        while (left > 0 && (n = described(c, writes, addr, memory->key)) > 0) {
                n = n < left ? n : left;
                addr += n;
                left -= n;
        }
        rule_add_if(found, left > 0 && knows_memory(c), SRP_TRANSFER);
}
