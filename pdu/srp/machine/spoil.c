/* SPDX-License-Identifier: BSD-3-Clause */
#include "spoil.h"

#include <string.h>

enum op { PUT, ADD, FLIP };

/* What an IU must be like for a violator, besides its type. */
struct view {
        const struct srp_spoil *s;
        union srp_iu iu; /* as it was */
        struct srp_cmd_parts parts;
};
typedef bool fits_fn(const struct view *v);

static bool has_immediate(const struct view *v)
{
        return v->parts.out.format == SRP_IMMEDIATE_DATA && v->iu.cmd.add_cdb_len >> 2 == 0;
}

static const struct srp_data *first(const struct view *v)
{
        return v->parts.out.format != SRP_NO_DATA ? &v->parts.out : &v->parts.in;
}

static bool has_descriptor(const struct view *v)
{
        return first(v)->format == SRP_DIRECT || first(v)->format == SRP_INDIRECT;
}

static bool has_buffer(const struct view *v)
{
        return has_descriptor(v) && v->iu.cmd.add_cdb_len >> 2 == 0 && first(v)->desc.len > 1;
}

static bool has_table(const struct view *v)
{
        return first(v)->format == SRP_INDIRECT && v->iu.cmd.add_cdb_len >> 2 == 0;
}

static bool has_entries(const struct view *v)
{
        return has_table(v) && first(v)->in_line >= 2;
}

static bool has_whole_table(const struct view *v)
{
        return has_entries(v) && first(v)->in_line * SRP_DESC_LEN == first(v)->desc.len;
}

static bool is_short(const struct view *v)
{
        return v->s->len < sizeof(struct srp_cmd) + 0xfc;
}

static bool required_formats(const struct view *v)
{
        return v->s->asked && be16_get(v->s->asked->req_buf_fmt) != 0;
}

static bool asked_single(const struct view *v)
{
        return v->s->asked && (v->s->asked->req_flags & SRP_ACTION) == SRP_ACTION_SINGLE;
}

static bool asked_multi(const struct view *v)
{
        return v->s->asked && (v->s->asked->req_flags & SRP_ACTION) == SRP_ACTION_MULTI;
}

static bool asked_no_immediate(const struct view *v)
{
        return v->s->asked && !(v->s->asked->req_flags & SRP_IMMEDIATE);
}

static bool has_response(const struct view *v)
{
        return v->iu.rsp.flags & SRP_RSPVALID && !(v->iu.rsp.flags & SRP_SNSVALID);
}

static bool has_no_response(const struct view *v)
{
        return !(v->iu.rsp.flags & SRP_RSPVALID);
}

static bool has_sense(const struct view *v)
{
        return v->iu.rsp.flags & SRP_SNSVALID;
}

static bool needs_sense(const struct view *v)
{
        return has_sense(v) && has_no_response(v) && v->iu.rsp.status == SRP_CHECK_CONDITION;
}

static bool has_no_residual(const struct view *v)
{
        return !(v->iu.rsp.flags & (SRP_DOOVER | SRP_DOUNDER | SRP_DIOVER | SRP_DIUNDER));
}

static bool is_unsolicited(const struct view *v)
{
        return !v->s->asks_solicited;
}

enum { LENGTH = 0xffff }; /* not a field, but the length of the IU */

/* Big-endian field of an IU, and what is done to it; several rows of a rule all apply. */
static const struct {
        enum srp_rule rule;
        enum srp_type type;
        uint16_t offset, size;
        enum op op;
        uint64_t value;
        fits_fn *fits;
} changes[] = {
        /* clang-format off */
        { SRP_TYPE_I, SRP_CMD, 0, 1, PUT, 0x7f, NULL },
        { SRP_TYPE_T, SRP_RSP, 0, 1, PUT, 0xff, NULL },
        { SRP_LENGTH_I, SRP_CMD, LENGTH, 0, PUT, 47, NULL },
        { SRP_LENGTH_T, SRP_RSP, LENGTH, 0, PUT, 35, NULL },
        { SRP_RESERVED_I, SRP_CMD, 16, 1, PUT, 1, NULL },
        { SRP_RESERVED_T, SRP_RSP, 16, 1, PUT, 1, NULL },
        { SRP_LOGIN_IT_LEN, SRP_LOGIN_REQ, 16, 4, PUT, 63, NULL },
        { SRP_LOGIN_FORMATS, SRP_LOGIN_REQ, 24, 2, FLIP, 0x0100, NULL },
        { SRP_LOGIN_ACTION, SRP_LOGIN_REQ, 26, 1, FLIP, 2, NULL },
        { SRP_LOGIN_ANSWER, SRP_LOGIN_RSP, 0, 1, PUT, SRP_RSP, NULL },
        { SRP_LOGIN_TAG, SRP_LOGIN_RSP, 8, 8, FLIP, 0x4000, NULL },
        { SRP_LOGIN_TAG, SRP_LOGIN_REJ, 8, 8, FLIP, 0x4000, NULL },
        { SRP_LOGIN_GRANTED, SRP_LOGIN_RSP, 16, 4, PUT, 1, NULL },
        { SRP_LOGIN_TI_LEN, SRP_LOGIN_RSP, 20, 4, PUT, 35, NULL },
        { SRP_LOGIN_SUPPORTED, SRP_LOGIN_RSP, 24, 2, PUT, 0, required_formats },
        { SRP_LOGIN_LIMIT, SRP_LOGIN_RSP, 4, 4, PUT, 0x80000000, NULL },
        { SRP_LOGIN_RESULT, SRP_LOGIN_RSP, 26, 1, PUT, 3, NULL },
        { SRP_LOGIN_OUTCOME, SRP_LOGIN_RSP, 26, 1, PUT, SRP_RESULT_MAINTAINED, asked_single },
        { SRP_LOGIN_OUTCOME, SRP_LOGIN_RSP, 26, 1, PUT, SRP_RESULT_TERMINATED, asked_multi },
        { SRP_LOGIN_IMMEDIATE, SRP_LOGIN_RSP, 26, 1, FLIP, SRP_IMMEDIATE, asked_no_immediate },
        { SRP_REJECT_IU, SRP_LOGIN_REJ, 0, 1, PUT, SRP_RSP, NULL },
        { SRP_REJECT_REASON, SRP_LOGIN_REJ, 4, 4, PUT, 0, NULL },
        { SRP_LIMIT_OVERFLOW, SRP_RSP, 4, 4, PUT, 0x7fffffff, NULL },
        { SRP_LIMIT_TAKEN, SRP_RSP, 4, 4, PUT, 0x80000001, NULL },
        { SRP_TAG_RESPONSE, SRP_RSP, 8, 8, FLIP, 0x4000, NULL },
        { SRP_TAG_ANSWER, SRP_CRED_RSP, 8, 8, FLIP, 0x4000, NULL },
        { SRP_TAG_ANSWER, SRP_AER_RSP, 8, 8, FLIP, 0x4000, NULL },
        { SRP_CMD_CDB, SRP_CMD, 31, 1, PUT, 0xfc, is_short },
        { SRP_CMD_FORMAT, SRP_CMD, 5, 1, PUT, 0x40, NULL },
        { SRP_CMD_DESCRIPTORS, SRP_CMD, LENGTH, 0, ADD, UINT64_MAX, has_descriptor },
        { SRP_CMD_IMMEDIATE, SRP_CMD, 48, 4, PUT, 0xffffffff, has_immediate },
        { SRP_CMD_TABLE, SRP_CMD, 60, 4, ADD, 1, has_table },
        { SRP_CMD_COUNT, SRP_CMD, 60, 4, PUT, 16, has_entries },
        { SRP_CMD_TOTAL, SRP_CMD, 64, 4, ADD, 1, has_whole_table },
        { SRP_CMD_WRAP, SRP_CMD, 48, 8, PUT, UINT64_MAX, has_buffer },
        { SRP_CMD_ATTRIBUTE, SRP_CMD, 29, 1, PUT, 3, NULL },
        { SRP_TM_FUNCTION, SRP_TSK_MGMT, 30, 1, PUT, 0x20, NULL },
        { SRP_TM_ANSWER, SRP_RSP, 18, 1, FLIP, SRP_RSPVALID, has_response },
        { SRP_TM_ANSWER, SRP_RSP, 32, 4, PUT, 0, has_response },
        { SRP_RSP_PARTS, SRP_RSP, 28, 4, PUT, 0xffffffff, has_sense },
        { SRP_RSP_UNMARKED, SRP_RSP, 32, 4, PUT, 4, has_no_response },
        { SRP_RSP_DATA, SRP_RSP, 32, 4, PUT, 3, has_response },
        { SRP_RSP_SENSE, SRP_RSP, 18, 1, FLIP, SRP_SNSVALID, needs_sense },
        { SRP_RSP_SENSE, SRP_RSP, 28, 4, PUT, 0, needs_sense },
        { SRP_RSP_BOTH, SRP_RSP, 18, 1, FLIP, SRP_DIOVER | SRP_DIUNDER, has_no_residual },
        { SRP_RSP_RESIDUAL, SRP_RSP, 24, 4, PUT, 1, has_no_residual },
        { SRP_RSP_UNDERFLOW, SRP_RSP, 18, 1, FLIP, SRP_DOUNDER, has_no_residual },
        { SRP_RSP_UNDERFLOW, SRP_RSP, 20, 4, PUT, 0xffffffff, has_no_residual },
        { SRP_SOLICITED, SRP_RSP, 1, 1, FLIP, SRP_SOLNT, is_unsolicited },
        /* clang-format on */
};
enum { CHANGES = sizeof(changes) / sizeof(changes[0]) };

/* What breaks a rule when it is sent once more. */
static const struct {
        enum srp_rule rule;
        enum srp_type type;
} repeats[] = {
        { SRP_TAG_UNIQUE, SRP_CMD },         { SRP_TAG_RESPONSE, SRP_RSP },
        { SRP_TAG_ANSWER, SRP_CRED_RSP },    { SRP_TAG_ANSWER, SRP_AER_RSP },
        { SRP_TARGET_WAITS, SRP_CRED_REQ },  { SRP_TARGET_WAITS, SRP_AER_REQ },
        { SRP_LOGOUT_LAST_I, SRP_I_LOGOUT }, { SRP_LOGOUT_LAST_T, SRP_T_LOGOUT },
};
enum { REPEATS = sizeof(repeats) / sizeof(repeats[0]) };

static uint64_t changed(uint64_t old, enum op op, uint64_t value)
{
        return op == PUT ? value : op == ADD ? old + value : old ^ value;
}

static bool change(struct srp_spoil *s, unsigned i)
{
        if (changes[i].offset == LENGTH) {
                uint32_t len = (uint32_t)changed(s->len, changes[i].op, changes[i].value);

                if (len >= s->len)
                        return false;
                s->len = len;
                return true;
        }
        if (changes[i].offset + changes[i].size > s->len)
                return false;
        be_put(s->iu + changes[i].offset, changes[i].size,
               changed(be_get(s->iu + changes[i].offset, changes[i].size), changes[i].op,
                       changes[i].value));
        return true;
}

static bool repeat(const struct rule_set *violated, const struct view *v, struct srp_spoil *s)
{
        for (unsigned i = 0; i < REPEATS; i++)
                if (rule_in(violated, repeats[i].rule) && repeats[i].type == v->iu.opcode)
                        s->twice = true;
        return s->twice;
}

bool srp_spoil(const struct rule_set *violated, struct srp_spoil *s)
{
        struct rule_set found = { 0 };
        struct view v = { .s = s };
        bool any = false;

        s->twice = false;
        if (!srp_read(s->iu, s->len, &v.iu))
                return false;
        if (v.iu.opcode == SRP_CMD)
                (void)srp_cmd_read(s->iu, s->len, 0, &v.parts, &found);
        for (unsigned i = 0; i < CHANGES; i++)
                if (rule_in(violated, changes[i].rule) && changes[i].type == v.iu.opcode &&
                    (!changes[i].fits || changes[i].fits(&v)))
                        any |= change(s, i);
        /* A response with a strange tag already breaks what its repetition would. */
        return any || repeat(violated, &v, s);
}

unsigned srp_spoil_kinds(enum srp_rule rule)
{
        unsigned kinds = srp_rule_get(rule)->violators & ~(unsigned)SRP_V_SPOILS;

        for (unsigned i = 0; i < CHANGES; i++)
                if (changes[i].rule == rule)
                        kinds |= SRP_V_IU;
        for (unsigned i = 0; i < REPEATS; i++)
                if (repeats[i].rule == rule)
                        kinds |= SRP_V_TWICE;
        return kinds;
}
