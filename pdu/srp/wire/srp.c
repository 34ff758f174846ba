/* SPDX-License-Identifier: BSD-3-Clause */
#include "srp.h"

#include <inttypes.h>
#include <string.h>

/* --- fields ----------------------------------------------------------------------------------- */

/* clang-format off */
#define BIG(type, member, ...) FIELD(type, member, .big = true, ##__VA_ARGS__)
#define TAG(type)              FIELD(type, tag, .kind = FIELD_BYTES)
#define OPCODE(type)           FIELD(type, opcode)

#define FORMAT_WORDS WORDS({ SRP_FORMAT_DIRECT, "direct" }, { SRP_FORMAT_INDIRECT, "indirect" })
#define ASKED_WORDS WORDS({ SRP_SCSOLNT, "SCSOLNT" }, { SRP_UCSOLNT, "UCSOLNT" })
#define GIVEN_WORDS WORDS({ SRP_SOLNT, "SOLNT" })

static const struct field fields_of_login_req[] = {
        OPCODE(struct srp_login_req),
        TAG(struct srp_login_req),
        BIG(struct srp_login_req, req_it_iu_len, .key = true),
        BIG(struct srp_login_req, req_buf_fmt, .kind = FIELD_BITS, .words = FORMAT_WORDS, .key = true),
        FIELD(struct srp_login_req, req_flags, .kind = FIELD_BITS, .key = true,
              .words = WORDS({ SRP_ACTION_MULTI, "multiple channels" }, { SRP_LOSOLNT, "LOSOLNT" },
                             { SRP_CRSOLNT, "CRSOLNT" }, { SRP_AESOLNT, "AESOLNT" }, { SRP_IMMEDIATE, "immediate data" })),
        BIG(struct srp_login_req, imm_data_offset),
        FIELD(struct srp_login_req, initiator_port_id, .kind = FIELD_BYTES),
        FIELD(struct srp_login_req, target_port_id, .kind = FIELD_BYTES),
        { 0 },
};
static const struct field fields_of_login_rsp[] = {
        OPCODE(struct srp_login_rsp),
        BIG(struct srp_login_rsp, req_lim_delta, .key = true),
        TAG(struct srp_login_rsp),
        BIG(struct srp_login_rsp, max_it_iu_len, .key = true),
        BIG(struct srp_login_rsp, max_ti_iu_len, .key = true),
        BIG(struct srp_login_rsp, buf_fmt, .kind = FIELD_BITS, .words = FORMAT_WORDS),
        FIELD(struct srp_login_rsp, rsp_flags, .kind = FIELD_BITS, .key = true,
              .words = WORDS({ SRP_RESULT_TERMINATED, "channels terminated" }, { SRP_RESULT_MAINTAINED, "channels maintained" },
                             { SRP_SOLNTSUP, "SOLNTSUP" }, { SRP_IMMEDIATE, "immediate data" })),
        { 0 },
};

static void reason_text(struct text *t, uint64_t reason)
{
        text_add(t, "%s", srp_reject_name((uint32_t)reason));
}

static const struct field fields_of_login_rej[] = {
        OPCODE(struct srp_login_rej),
        BIG(struct srp_login_rej, reason, .say = reason_text, .key = true),
        TAG(struct srp_login_rej),
        BIG(struct srp_login_rej, buf_fmt, .kind = FIELD_BITS, .words = FORMAT_WORDS),
        { 0 },
};
static const struct field fields_of_tsk_mgmt[] = {
        OPCODE(struct srp_tsk_mgmt),
        FIELD(struct srp_tsk_mgmt, sol_not, .kind = FIELD_BITS, .words = ASKED_WORDS),
        TAG(struct srp_tsk_mgmt),
        FIELD(struct srp_tsk_mgmt, lun, .kind = FIELD_BYTES),
        FIELD(struct srp_tsk_mgmt, function, .key = true,
              .words = WORDS({ SRP_TM_ABORT_TASK, "abort task" }, { SRP_TM_ABORT_TASK_SET, "abort task set" },
                             { SRP_TM_CLEAR_TASK_SET, "clear task set" }, { SRP_TM_LUN_RESET, "logical unit reset" },
                             { SRP_TM_CLEAR_ACA, "clear ACA" })),
        FIELD(struct srp_tsk_mgmt, task_tag, .kind = FIELD_BYTES),
        { 0 },
};
static const struct field fields_of_cmd[] = {
        OPCODE(struct srp_cmd),
        FIELD(struct srp_cmd, sol_not, .kind = FIELD_BITS, .words = ASKED_WORDS),
        FIELD(struct srp_cmd, buf_fmt),
        FIELD(struct srp_cmd, out_count),
        FIELD(struct srp_cmd, in_count),
        TAG(struct srp_cmd),
        FIELD(struct srp_cmd, lun, .kind = FIELD_BYTES),
        FIELD(struct srp_cmd, attr, .words = WORDS({ 0, "simple" }, { 1, "head of queue" }, { 2, "ordered" }, { 4, "ACA" })),
        FIELD(struct srp_cmd, add_cdb_len),
        FIELD(struct srp_cmd, cdb, .kind = FIELD_BYTES),
        { 0 },
};
static const struct field fields_of_tag[] = { OPCODE(struct srp_logout), TAG(struct srp_logout), { 0 } };
static const struct field fields_of_t_logout[] = {
        OPCODE(struct srp_t_logout),
        FIELD(struct srp_t_logout, sol_not, .kind = FIELD_BITS, .words = GIVEN_WORDS),
        BIG(struct srp_t_logout, reason, .key = true,
            .words = WORDS({ 0, "no reason" }, { 1, "inactive channel" }, { 2, "invalid IU type" },
                           { 3, "response without request" }, { 4, "multi-channel action of a new login" })),
        TAG(struct srp_t_logout),
        { 0 },
};
static const struct field fields_of_rsp[] = {
        OPCODE(struct srp_rsp),
        FIELD(struct srp_rsp, sol_not, .kind = FIELD_BITS, .words = GIVEN_WORDS),
        BIG(struct srp_rsp, req_lim_delta, .key = true),
        TAG(struct srp_rsp),
        FIELD(struct srp_rsp, flags, .kind = FIELD_BITS,
              .words = WORDS({ SRP_RSPVALID, "RSPVALID" }, { SRP_SNSVALID, "SNSVALID" }, { SRP_DOOVER, "DOOVER" },
                             { SRP_DOUNDER, "DOUNDER" }, { SRP_DIOVER, "DIOVER" }, { SRP_DIUNDER, "DIUNDER" })),
        FIELD(struct srp_rsp, status, .key = true,
              .words = WORDS({ 0, "GOOD" }, { SRP_CHECK_CONDITION, "CHECK CONDITION" }, { 8, "BUSY" },
                             { 0x18, "RESERVATION CONFLICT" }, { 0x28, "TASK SET FULL" }, { 0x30, "ACA ACTIVE" },
                             { 0x40, "TASK ABORTED" })),
        BIG(struct srp_rsp, out_residual),
        BIG(struct srp_rsp, in_residual),
        BIG(struct srp_rsp, sense_len),
        BIG(struct srp_rsp, resp_len),
        { 0 },
};
static const struct field fields_of_cred_req[] = {
        OPCODE(struct srp_cred_req),
        FIELD(struct srp_cred_req, sol_not, .kind = FIELD_BITS, .words = GIVEN_WORDS),
        BIG(struct srp_cred_req, req_lim_delta, .key = true),
        TAG(struct srp_cred_req),
        { 0 },
};
static const struct field fields_of_aer_req[] = {
        OPCODE(struct srp_aer_req),
        FIELD(struct srp_aer_req, sol_not, .kind = FIELD_BITS, .words = GIVEN_WORDS),
        BIG(struct srp_aer_req, req_lim_delta, .key = true),
        TAG(struct srp_aer_req),
        FIELD(struct srp_aer_req, lun, .kind = FIELD_BYTES),
        BIG(struct srp_aer_req, sense_len),
        { 0 },
};

#define I PARTY_HOST
#define T PARTY_CONTROLLER

static const struct srp_info infos[] = {
        { "SRP_LOGIN_REQ", SRP_LOGIN_REQ, I, 64, .fields = fields_of_login_req },
        { "SRP_TSK_MGMT", SRP_TSK_MGMT, I, 48, .request = true, .fields = fields_of_tsk_mgmt },
        { "SRP_CMD", SRP_CMD, I, 48, .request = true, .has_more = true, .fields = fields_of_cmd },
        { "SRP_I_LOGOUT", SRP_I_LOGOUT, I, 16, .fields = fields_of_tag },
        { "SRP_CRED_RSP", SRP_CRED_RSP, I, 16, .fields = fields_of_tag },
        { "SRP_AER_RSP", SRP_AER_RSP, I, 16, .fields = fields_of_tag },
        { "SRP_T_LOGOUT", SRP_T_LOGOUT, T, 16, .fields = fields_of_t_logout },
        { "SRP_CRED_REQ", SRP_CRED_REQ, T, 16, .grants = true, .fields = fields_of_cred_req },
        { "SRP_AER_REQ", SRP_AER_REQ, T, 36, .grants = true, .has_more = true, .fields = fields_of_aer_req },
        { "SRP_LOGIN_RSP", SRP_LOGIN_RSP, T, 52, .fields = fields_of_login_rsp },
        { "SRP_RSP", SRP_RSP, T, 36, .grants = true, .has_more = true, .fields = fields_of_rsp },
        { "SRP_LOGIN_REJ", SRP_LOGIN_REJ, T, 32, .fields = fields_of_login_rej },
};
/* clang-format on */
enum { TYPES = sizeof(infos) / sizeof(infos[0]) };

const struct srp_info *srp_info_at(unsigned i)
{
        return i < TYPES ? &infos[i] : NULL;
}

const struct srp_info *srp_info(uint8_t opcode)
{
        for (unsigned i = 0; i < TYPES; i++)
                if (infos[i].type == opcode)
                        return &infos[i];
        return NULL;
}

/* --- fixed parts ------------------------------------------------------------------------------ */

bool srp_read(const void *p, size_t n, union srp_iu *out)
{
        const struct srp_info *info;

        memset(out, 0, sizeof(*out));
        if (n == 0)
                return false;
        memcpy(out, p, n < sizeof(*out) ? n : sizeof(*out));
        info = srp_info(out->opcode);
        return info && n >= info->len;
}

size_t srp_write(const union srp_iu *iu, void *p, size_t cap)
{
        const struct srp_info *info = srp_info(iu->opcode);

        if (!info || cap < info->len)
                return 0;
        memcpy(p, iu, info->len);
        return info->len;
}

struct srp_login_req srp_login_of_cm(const struct srp_login_req_cm *r)
{
        struct srp_login_req out = {
                .opcode = r->opcode,
                .tag = r->tag,
                .req_it_iu_len = r->req_it_iu_len,
                .req_buf_fmt = r->req_buf_fmt,
                .req_flags = r->req_flags,
                .imm_data_offset = r->imm_data_offset,
        };

        memcpy(out.initiator_port_id, r->initiator_port_id, sizeof(srp_port_id));
        memcpy(out.target_port_id, r->target_port_id, sizeof(srp_port_id));
        return out;
}

struct srp_login_req_cm srp_login_to_cm(const struct srp_login_req *r)
{
        struct srp_login_req_cm out = {
                .opcode = r->opcode,
                .tag = r->tag,
                .req_it_iu_len = r->req_it_iu_len,
                .req_buf_fmt = r->req_buf_fmt,
                .req_flags = r->req_flags,
                .imm_data_offset = r->imm_data_offset,
        };

        memcpy(out.initiator_port_id, r->initiator_port_id, sizeof(srp_port_id));
        memcpy(out.target_port_id, r->target_port_id, sizeof(srp_port_id));
        return out;
}

/* What comes after the ports' names of the form of RDMA CM may be missing: it is Linux's. */
bool srp_login_read(const void *p, size_t n, bool native, struct srp_login_req *out)
{
        const size_t needs = offsetof(struct srp_login_req_cm, imm_data_offset);
        struct srp_login_req_cm cm = { 0 };

        memset(out, 0, sizeof(*out));
        if (native) {
                if (n > 0)
                        memcpy(out, p, n < sizeof(*out) ? n : sizeof(*out));
                return n >= sizeof(*out);
        }
        if (n > 0)
                memcpy(&cm, p, n < sizeof(cm) ? n : sizeof(cm));
        *out = srp_login_of_cm(&cm);
        return n >= needs;
}

static bool is_named(const srp_port_id id)
{
        static const srp_port_id nobody;

        return memcmp(id, nobody, sizeof(nobody)) != 0;
}

bool srp_login_likely(const void *p, size_t n)
{
        enum { LONGEST = 1 << 20, KNOWN = SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT };
        struct srp_login_req r;

        return srp_login_read(p, n, false, &r) && r.opcode == SRP_LOGIN_REQ &&
               be16_get(r.req_buf_fmt) & KNOWN && be32_get(r.req_it_iu_len) > 0 &&
               be32_get(r.req_it_iu_len) <= LONGEST && is_named(r.initiator_port_id) &&
               (is_named(r.target_port_id) || !(be16_get(r.req_buf_fmt) & ~KNOWN));
}

/* --- identifiers of ports --------------------------------------------------------------------- */

bool srp_port_id_read(srp_port_id id, const char *text)
{
        bool ok = strlen(text) == SRP_PORT_ID_TEXT - 1;

        for (unsigned i = 0; ok && i < sizeof(srp_port_id); i++) {
                int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

                ok = high >= 0 && low >= 0;
                if (ok)
                        id[i] = (uint8_t)(high << 4 | low);
        }
        return ok;
}

void srp_port_id_text(const srp_port_id id, char text[SRP_PORT_ID_TEXT])
{
        struct text t = text_in(text, SRP_PORT_ID_TEXT);

        for (unsigned i = 0; i < sizeof(srp_port_id); i++)
                text_add(&t, "%02x", id[i]);
}

/* --- words ------------------------------------------------------------------------------------ */

const char *srp_reject_name(uint32_t reason)
{
        static const char *const names[] = {
                "no reason",
                "insufficient resources",
                "IU length too large",
                "cannot associate with the nexus",
                "buffer format not supported",
                "no multiple channels",
                "channel limit reached",
        };

        return reason >= SRP_REJECT_FIRST && reason <= SRP_REJECT_LAST
                   ? names[reason - SRP_REJECT_FIRST]
                   : "reserved";
}

const char *srp_command_name(uint8_t opcode)
{
        static const struct word names[] = {
                { 0x00, "TEST UNIT READY" },
                { 0x03, "REQUEST SENSE" },
                { 0x12, "INQUIRY" },
                { 0x1a, "MODE SENSE(6)" },
                { 0x1b, "START STOP UNIT" },
                { 0x25, "READ CAPACITY(10)" },
                { 0x28, "READ(10)" },
                { 0x2a, "WRITE(10)" },
                { 0x2f, "VERIFY(10)" },
                { 0x35, "SYNCHRONIZE CACHE(10)" },
                { 0x41, "WRITE SAME(10)" },
                { 0x42, "UNMAP" },
                { 0x4d, "LOG SENSE" },
                { 0x5a, "MODE SENSE(10)" },
                { 0x5e, "PERSISTENT RESERVE IN" },
                { 0x5f, "PERSISTENT RESERVE OUT" },
                { 0x88, "READ(16)" },
                { 0x8a, "WRITE(16)" },
                { 0x91, "SYNCHRONIZE CACHE(16)" },
                { 0x93, "WRITE SAME(16)" },
                { 0x9e, "SERVICE ACTION IN(16)" },
                { 0xa0, "REPORT LUNS" },
                { 0xa3, "MAINTENANCE IN" },
                { 0, NULL },
        };

        return word_for(names, opcode);
}

static const char *const format_names[SRP_FORMATS] = { "none", "direct", "indirect", "immediate" };

static void describe_buffer(const struct describe *d, const struct srp_desc *b)
{
        d->number(d->arg, "addr", b->addr, 64, NULL);
        d->number(d->arg, "key", b->key, 32, NULL);
        d->number(d->arg, "len", b->len, 32, NULL);
}

static void describe_data(const struct describe *d, const char *name, const void *p,
                          const struct srp_data *data)
{
        const char *format = format_names[data->format];

        if (data->format == SRP_NO_DATA)
                return;
        d->group(d->arg, name);
        d->string(d->arg, "format", format, strlen(format));
        if (data->format == SRP_DIRECT)
                describe_buffer(d, &data->desc);
        else
                d->number(d->arg, "len", data->len, 32, NULL);
        if (data->format == SRP_IMMEDIATE_DATA)
                d->number(d->arg, "offset", data->data_at, 32, NULL);
        if (data->format == SRP_INDIRECT) {
                d->group(d->arg, "table");
                describe_buffer(d, &data->desc);
                d->group(d->arg, NULL);
        }
        for (uint32_t i = 0; i < data->in_line; i++) {
                struct srp_desc b = srp_desc_at(p, data, i);

                d->group(d->arg, "entry[]");
                describe_buffer(d, &b);
                d->group(d->arg, NULL);
        }
        d->group(d->arg, NULL);
}

static void describe_bytes(const struct describe *d, const char *name, const uint8_t *p, uint32_t n)
{
        enum { SHOWN = 64 };
        char buf[2 * SHOWN + 1];
        struct text t = text_in(buf, sizeof(buf));

        for (uint32_t i = 0; i < n && i < SHOWN; i++)
                text_add(&t, "%02x", p[i]);
        if (n > 0)
                d->string(d->arg, name, buf, t.len);
}

static void describe_cmd(const struct describe *d, const uint8_t *p, uint32_t n, uint32_t imm_at)
{
        struct rule_set found = { 0 };
        struct srp_cmd_parts parts;

        (void)srp_cmd_read(p, n, imm_at, &parts, &found);
        describe_bytes(d, "add_cdb", p + parts.add_cdb_at, parts.add_cdb_len);
        describe_data(d, "out", p, &parts.out);
        describe_data(d, "in", p, &parts.in);
}

static void describe_rsp(const struct describe *d, const uint8_t *p, uint32_t n)
{
        struct rule_set found = { 0 };
        struct srp_rsp_parts parts;

        (void)srp_rsp_read(p, n, &parts, &found);
        describe_bytes(d, "response", p + parts.resp_at, parts.resp_len);
        describe_bytes(d, "sense", p + parts.sense_at, parts.sense_len);
}

void srp_describe(const struct describe *d, const void *p, uint32_t n, uint32_t imm_at)
{
        const struct srp_info *info;
        union srp_iu iu;
        bool whole = srp_read(p, n, &iu);

        info = n > 0 ? srp_info(iu.opcode) : NULL;
        if (!info) {
                describe_bytes(d, "bytes", p, n);
                return;
        }
        d->string(d->arg, "iu", info->name, strlen(info->name));
        describe_fields(d, info->fields, &iu);
        if (whole && iu.opcode == SRP_CMD)
                describe_cmd(d, p, n, imm_at);
        else if (whole && iu.opcode == SRP_RSP)
                describe_rsp(d, p, n);
        else if (whole && iu.opcode == SRP_AER_REQ &&
                 be32_get(iu.aer_req.sense_len) <= n - info->len)
                describe_bytes(d, "sense", (const uint8_t *)p + info->len,
                               be32_get(iu.aer_req.sense_len));
}

/* --- a line ----------------------------------------------------------------------------------- */

static void line_lun(struct text *t, be64_t lun)
{
        uint64_t v = be64_get(lun), first = v >> 48;

        if (v << 16 == 0 && first >> 14 < 2) /* one level: peripheral or flat */
                text_add(t, " lun %" PRIu64, first & 0x3fff);
        else
                text_add(t, " lun %" PRIx64 "h", v);
}

static void line_data(struct text *t, const char *name, const struct srp_data *d)
{
        if (d->format == SRP_NO_DATA)
                return;
        text_add(t, " %s %u %s", name, d->len, format_names[d->format]);
        if (d->format == SRP_INDIRECT)
                text_add(t, ", %u of %u entries in line", d->in_line,
                         (unsigned)(d->desc.len / SRP_DESC_LEN));
}

static void line_cmd(struct text *t, const void *p, uint32_t n, uint32_t imm_at,
                     const struct srp_cmd *c)
{
        struct rule_set found = { 0 };
        struct srp_cmd_parts parts;
        const char *name = srp_command_name(c->cdb[0]);

        (void)srp_cmd_read(p, n, imm_at, &parts, &found);
        line_lun(t, c->lun);
        if (name)
                text_add(t, " %s", name);
        else
                text_add(t, " CDB %02Xh", c->cdb[0]);
        line_data(t, "out", &parts.out);
        line_data(t, "in", &parts.in);
}

static void line_residual(struct text *t, const char *name, uint8_t flags, uint8_t over,
                          uint8_t under, be32_t count)
{
        if (flags & (over | under))
                text_add(t, " %s %u %s", name, be32_get(count), flags & over ? "over" : "under");
}

static void line_rsp(struct text *t, const void *p, uint32_t n, const struct srp_rsp *r)
{
        struct rule_set found = { 0 };
        struct srp_rsp_parts parts;

        line_residual(t, "out", r->flags, SRP_DOOVER, SRP_DOUNDER, r->out_residual);
        line_residual(t, "in", r->flags, SRP_DIOVER, SRP_DIUNDER, r->in_residual);
        (void)srp_rsp_read(p, n, &parts, &found);
        if (parts.resp_len >= 4)
                text_add(t, " response code %u", ((const uint8_t *)p)[parts.resp_at + 3]);
        if (parts.sense_len > 0)
                text_add(t, " sense %u", parts.sense_len);
}

/* Key fields: their words, or their number; signed what a delta is. */
static void line_fields(struct text *t, const struct field *fields, const union srp_iu *iu)
{
        for (const struct field *f = fields; f->name; f++) {
                uint64_t v = field_get(f, iu);
                const char *word = f->kind == FIELD_BITS ? NULL : word_for(f->words, v);

                if (!f->key)
                        continue;
                if (strcmp(f->name, "req_lim_delta") == 0)
                        text_add(t, " %s %" PRId32, f->name, (int32_t)v);
                else if (f->kind == FIELD_BITS || f->say)
                        text_add(t, " %s %" PRIX64 "h", f->name, v);
                else if (word)
                        text_add(t, " %s %s", f->name, word);
                else
                        text_add(t, " %s %" PRIu64, f->name, v);
        }
}

void srp_line(struct text *t, const void *p, uint32_t n, uint32_t imm_at)
{
        const struct srp_info *info;
        union srp_iu iu;
        bool whole = srp_read(p, n, &iu);

        info = n > 0 ? srp_info(iu.opcode) : NULL;
        if (!info) {
                text_add(t, "IU of %u bytes", n);
                if (n > 0)
                        text_add(t, ", type %02Xh", iu.opcode);
                return;
        }
        text_add(t, "%s tag %" PRIx64 "h", info->name, be64_get(iu.i_logout.tag));
        line_fields(t, info->fields, &iu);
        if (!whole)
                text_add(t, ", only %u bytes", n);
        else if (iu.opcode == SRP_CMD)
                line_cmd(t, p, n, imm_at, &iu.cmd);
        else if (iu.opcode == SRP_RSP)
                line_rsp(t, p, n, &iu.rsp);
        else if (iu.opcode == SRP_TSK_MGMT)
                line_lun(t, iu.tsk_mgmt.lun);
        else if (iu.opcode == SRP_LOGIN_REJ)
                text_add(t, " (%s)", srp_reject_name(be32_get(iu.login_rej.reason)));
}
