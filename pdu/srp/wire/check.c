/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of variable length, and what is wrong with an IU that shows in it alone. */
#include <string.h>

#include "srp.h"

/* --- descriptors ------------------------------------------------------------------------------ */

static struct srp_desc desc_get(const uint8_t *p)
{
        return (struct srp_desc) { .addr = be_get(p, 8),
                                   .key = (uint32_t)be_get(p + 8, 4),
                                   .len = (uint32_t)be_get(p + 12, 4) };
}

void srp_desc_put(void *p, const struct srp_desc *d)
{
        uint8_t *at = p;

        be_put(at, 8, d->addr);
        be_put(at + 8, 4, d->key);
        be_put(at + 12, 4, d->len);
}

struct srp_desc srp_desc_at(const void *p, const struct srp_data *d, uint32_t i)
{
        return desc_get((const uint8_t *)p + d->list_at + i * SRP_DESC_LEN);
}

static bool wraps(const struct srp_desc *d)
{
        return d->len > 0 && d->addr > UINT64_MAX - (d->len - 1);
}

/* A command in hand: what comes next is at `at`. */
struct reading {
        const uint8_t *p;
        uint32_t n, at, imm_at;
        struct rule_set *found;
};

static void read_direct(struct reading *r, struct srp_data *d)
{
        d->desc = desc_get(r->p + r->at);
        d->len = d->desc.len;
        rule_add_if(r->found, wraps(&d->desc), SRP_CMD_WRAP);
}

static void read_indirect(struct reading *r, struct srp_data *d, uint32_t count)
{
        uint64_t sum = 0;
        bool wrapped;

        d->desc = desc_get(r->p + r->at);
        d->len = (uint32_t)be_get(r->p + r->at + SRP_DESC_LEN, 4);
        d->in_line = count;
        d->list_at = r->at + SRP_TABLE_LEN;
        wrapped = wraps(&d->desc);
        for (uint32_t i = 0; i < count; i++) {
                struct srp_desc entry = srp_desc_at(r->p, d, i);

                sum += entry.len;
                wrapped |= wraps(&entry);
        }
        rule_add_if(r->found, wrapped, SRP_CMD_WRAP);
        rule_add_if(r->found, d->desc.len == 0 || d->desc.len % SRP_DESC_LEN, SRP_CMD_TABLE);
        rule_add_if(r->found, count > d->desc.len / SRP_DESC_LEN && d->desc.len > 0, SRP_CMD_COUNT);
        rule_add_if(r->found, count > 0 && count * SRP_DESC_LEN == d->desc.len && sum != d->len,
                    SRP_CMD_TOTAL);
}

static uint32_t size_of(enum srp_format format, uint32_t count)
{
        switch (format) {
        case SRP_DIRECT:
                return SRP_DESC_LEN;
        case SRP_INDIRECT:
                return SRP_TABLE_LEN + count * SRP_DESC_LEN;
        case SRP_IMMEDIATE_DATA:
                return 4;
        case SRP_NO_DATA:
        case SRP_FORMATS:
                break;
        }
        return 0;
}

/* False: where the next one begins is not known. */
static bool read_data(struct reading *r, unsigned code, uint32_t count, bool out,
                      struct srp_data *d)
{
        enum srp_format format = (enum srp_format)code;
        uint32_t size;

        if (code >= SRP_FORMATS || (format == SRP_IMMEDIATE_DATA && !out)) {
                rule_add(r->found, SRP_CMD_FORMAT);
                return false;
        }
        size = size_of(format, count);
        if (size > r->n - r->at) {
                rule_add(r->found, SRP_CMD_DESCRIPTORS);
                return false;
        }
        *d = (struct srp_data) { .format = format, .at = r->at, .size = size };
        if (format == SRP_DIRECT)
                read_direct(r, d);
        else if (format == SRP_INDIRECT)
                read_indirect(r, d, count);
        else if (format == SRP_IMMEDIATE_DATA)
                d->len = (uint32_t)be_get(r->p + r->at, 4);
        r->at += size;
        return true;
}

/* Immediate data, now that it is known where all else ends. */
static bool read_immediate(struct reading *r, struct srp_data *d)
{
        if (d->format != SRP_IMMEDIATE_DATA || r->imm_at == 0)
                return true;
        if (r->imm_at < r->at || r->imm_at > r->n || d->len > r->n - r->imm_at) {
                rule_add(r->found, SRP_CMD_IMMEDIATE);
                *d = (struct srp_data) { 0 };
                return false;
        }
        d->data_at = r->imm_at;
        return true;
}

bool srp_cmd_read(const void *p, uint32_t n, uint32_t imm_at, struct srp_cmd_parts *out,
                  struct rule_set *found)
{
        struct reading r = {
                .p = p, .n = n, .at = sizeof(struct srp_cmd), .imm_at = imm_at, .found = found
        };
        struct srp_cmd c;
        uint32_t cdb;

        memset(out, 0, sizeof(*out));
        if (n < sizeof(c))
                return false;
        memcpy(&c, p, sizeof(c));
        cdb = c.add_cdb_len & ~3u;
        if (cdb > n - r.at) {
                rule_add(found, SRP_CMD_CDB);
                return false;
        }
        out->add_cdb_at = r.at;
        out->add_cdb_len = cdb;
        r.at += cdb;
        return read_data(&r, c.buf_fmt >> 4, c.out_count, true, &out->out) &&
               read_data(&r, c.buf_fmt & 15, c.in_count, false, &out->in) &&
               read_immediate(&r, &out->out);
}

/* --- responses -------------------------------------------------------------------------------- */

bool srp_rsp_read(const void *p, uint32_t n, struct srp_rsp_parts *out, struct rule_set *found)
{
        struct srp_rsp r;
        uint32_t left, resp, sense;

        memset(out, 0, sizeof(*out));
        if (n < sizeof(r))
                return false;
        memcpy(&r, p, sizeof(r));
        left = n - (uint32_t)sizeof(r);
        resp = r.flags & SRP_RSPVALID ? be32_get(r.resp_len) : 0;
        sense = r.flags & SRP_SNSVALID ? be32_get(r.sense_len) : 0;
        if (resp > left || sense > left - resp) {
                rule_add(found, SRP_RSP_PARTS);
                return false;
        }
        out->resp_at = sizeof(r);
        out->resp_len = resp;
        out->sense_at = out->resp_at + resp;
        out->sense_len = sense;
        return true;
}

static bool has_both(uint8_t flags, uint8_t one, uint8_t other)
{
        return flags & one && flags & other;
}

static void check_rsp(const struct srp_rsp *r, const void *p, uint32_t n, struct rule_set *found)
{
        struct srp_rsp_parts parts;
        bool valid = srp_rsp_read(p, n, &parts, found);

        rule_add_if(found,
                    (!(r->flags & SRP_RSPVALID) && be32_get(r->resp_len)) ||
                        (!(r->flags & SRP_SNSVALID) && be32_get(r->sense_len)),
                    SRP_RSP_UNMARKED);
        rule_add_if(found, valid && r->flags & SRP_RSPVALID && parts.resp_len != 4, SRP_RSP_DATA);
        rule_add_if(found,
                    valid && r->status == SRP_CHECK_CONDITION && parts.sense_len == 0 &&
                        !(r->flags & SRP_RSPVALID),
                    SRP_RSP_SENSE);
        rule_add_if(found,
                    has_both(r->flags, SRP_DOOVER, SRP_DOUNDER) ||
                        has_both(r->flags, SRP_DIOVER, SRP_DIUNDER),
                    SRP_RSP_BOTH);
        rule_add_if(found,
                    (!(r->flags & (SRP_DOOVER | SRP_DOUNDER)) && be32_get(r->out_residual)) ||
                        (!(r->flags & (SRP_DIOVER | SRP_DIUNDER)) && be32_get(r->in_residual)),
                    SRP_RSP_RESIDUAL);
}

/* --- commands --------------------------------------------------------------------------------- */

static void check_cmd(const struct srp_cmd *c, const void *p, uint32_t n, uint32_t imm_at,
                      struct rule_set *found)
{
        struct srp_cmd_parts parts;

        (void)srp_cmd_read(p, n, imm_at, &parts, found);
        rule_add_if(found, c->attr > 4 || c->attr == 3, SRP_CMD_ATTRIBUTE);
}

static bool is_function(uint8_t function)
{
        return function == SRP_TM_ABORT_TASK || function == SRP_TM_ABORT_TASK_SET ||
               function == SRP_TM_CLEAR_TASK_SET || function == SRP_TM_LUN_RESET ||
               function == SRP_TM_CLEAR_ACA;
}

/* --- logging in ------------------------------------------------------------------------------- */

void srp_login_check(const struct srp_login_req *r, struct rule_set *found)
{
        rule_add_if(found, be32_get(r->req_it_iu_len) < sizeof(union srp_iu), SRP_LOGIN_IT_LEN);
        rule_add_if(found, be16_get(r->req_buf_fmt) & ~(SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT),
                    SRP_LOGIN_FORMATS);
        rule_add_if(found, (r->req_flags & SRP_ACTION) > SRP_ACTION_MULTI, SRP_LOGIN_ACTION);
        rule_add_if(found, r->req_flags & 0x0c, SRP_RESERVED_I);
}

static void srp_login_rsp_check(const struct srp_login_rsp *r, struct rule_set *found)
{
        rule_add_if(found, be32_get(r->max_ti_iu_len) < sizeof(struct srp_rsp), SRP_LOGIN_TI_LEN);
        rule_add_if(found, (int32_t)be32_get(r->req_lim_delta) < 0, SRP_LOGIN_LIMIT);
        rule_add_if(found, (r->rsp_flags & SRP_RESULT) > SRP_RESULT_MAINTAINED, SRP_LOGIN_RESULT);
}

static void srp_login_rej_check(const struct srp_login_rej *r, struct rule_set *found)
{
        uint32_t reason = be32_get(r->reason);

        rule_add_if(found, reason < SRP_REJECT_FIRST || reason > SRP_REJECT_LAST,
                    SRP_REJECT_REASON);
}

/* --- reserved --------------------------------------------------------------------------------- */

/* Bytes that a sender clears, by type; of a single one these bits. */
static const struct {
        enum srp_type type;
        uint8_t at, n, bits;
} reserved[] = {
        { SRP_LOGIN_REQ, 1, 7, 0xff },   { SRP_LOGIN_REQ, 20, 4, 0xff },
        { SRP_LOGIN_REQ, 27, 1, 0xff },  { SRP_LOGIN_REQ, 30, 2, 0xff },
        { SRP_LOGIN_RSP, 1, 3, 0xff },   { SRP_LOGIN_RSP, 26, 1, 0x6c },
        { SRP_LOGIN_RSP, 27, 25, 0xff }, { SRP_LOGIN_REJ, 1, 3, 0xff },
        { SRP_LOGIN_REJ, 16, 8, 0xff },  { SRP_LOGIN_REJ, 26, 6, 0xff },
        { SRP_TSK_MGMT, 1, 1, 0xf9 },    { SRP_TSK_MGMT, 2, 6, 0xff },
        { SRP_TSK_MGMT, 16, 4, 0xff },   { SRP_TSK_MGMT, 28, 2, 0xff },
        { SRP_TSK_MGMT, 31, 1, 0xff },   { SRP_TSK_MGMT, 40, 8, 0xff },
        { SRP_CMD, 1, 1, 0xf9 },         { SRP_CMD, 2, 3, 0xff },
        { SRP_CMD, 16, 4, 0xff },        { SRP_CMD, 28, 1, 0xff },
        { SRP_CMD, 30, 1, 0xff },        { SRP_CMD, 31, 1, 0x03 },
        { SRP_I_LOGOUT, 1, 7, 0xff },    { SRP_CRED_RSP, 1, 7, 0xff },
        { SRP_AER_RSP, 1, 7, 0xff },     { SRP_T_LOGOUT, 1, 1, 0xfe },
        { SRP_T_LOGOUT, 2, 2, 0xff },    { SRP_RSP, 1, 1, 0xfe },
        { SRP_RSP, 2, 2, 0xff },         { SRP_RSP, 16, 2, 0xff },
        { SRP_RSP, 18, 1, 0xc0 },        { SRP_CRED_REQ, 1, 1, 0xfe },
        { SRP_CRED_REQ, 2, 2, 0xff },    { SRP_AER_REQ, 1, 1, 0xfe },
        { SRP_AER_REQ, 2, 2, 0xff },     { SRP_AER_REQ, 16, 4, 0xff },
        { SRP_AER_REQ, 32, 4, 0xff },
};

static bool has_reserved(const uint8_t *p, uint8_t type)
{
        unsigned set = 0;

        for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
                for (unsigned j = 0; reserved[i].type == type && j < reserved[i].n; j++)
                        set |= p[reserved[i].at + j] & reserved[i].bits;
        return set != 0;
}

/* --- an IU ------------------------------------------------------------------------------------ */

static void check_parts(const union srp_iu *iu, const void *p, uint32_t n, uint32_t imm_at,
                        struct rule_set *found)
{
        switch (iu->opcode) {
        case SRP_LOGIN_REQ:
                srp_login_check(&iu->login_req, found);
                break;
        case SRP_LOGIN_RSP:
                srp_login_rsp_check(&iu->login_rsp, found);
                break;
        case SRP_LOGIN_REJ:
                srp_login_rej_check(&iu->login_rej, found);
                break;
        case SRP_CMD:
                check_cmd(&iu->cmd, p, n, imm_at, found);
                break;
        case SRP_TSK_MGMT:
                rule_add_if(found, !is_function(iu->tsk_mgmt.function), SRP_TM_FUNCTION);
                break;
        case SRP_RSP:
                check_rsp(&iu->rsp, p, n, found);
                break;
        case SRP_AER_REQ:
                rule_add_if(found, be32_get(iu->aer_req.sense_len) > n - sizeof(iu->aer_req),
                            SRP_RSP_PARTS);
                break;
        default:
                break;
        }
}

void srp_check(const void *p, uint32_t n, enum party sender, uint32_t imm_at,
               struct rule_set *found)
{
        bool initiator = sender == PARTY_HOST;
        const struct srp_info *info;
        union srp_iu iu;
        bool whole = srp_read(p, n, &iu);

        info = n > 0 ? srp_info(iu.opcode) : NULL;
        if (n > 0 && (!info || info->sender != sender)) {
                rule_add(found, initiator ? SRP_TYPE_I : SRP_TYPE_T);
                return;
        }
        if (!whole) {
                rule_add(found, initiator ? SRP_LENGTH_I : SRP_LENGTH_T);
                return;
        }
        rule_add_if(found, has_reserved((const uint8_t *)&iu, iu.opcode),
                    initiator ? SRP_RESERVED_I : SRP_RESERVED_T);
        check_parts(&iu, p, n, imm_at, found);
}
