/* SPDX-License-Identifier: BSD-3-Clause */
#include "sequence.h"

#include <string.h>

#include "pdu/wire/fabrics.h"

/* --- templates ---------------------------------------------------------------------------------- */

/* clang-format off */
#define FABRICS(called, fct, ...)                                                                 \
        { .name = (called), .type = PDU_CAPSULE_CMD, .opc = NVME_FABRICS, .fctype = (fct), ##__VA_ARGS__ }
#define COMMAND(called, code, ...)                                                                 \
        { .name = (called), .type = PDU_CAPSULE_CMD, .opc = (code), ##__VA_ARGS__ }
static const struct seq_template of_host[] = {
        { .name = "icreq", .type = PDU_ICREQ },
        FABRICS("connect", FCTYPE_CONNECT, .sgl = SGL_IN_CAPSULE, .data = SEQ_CONNECT, .data_len = CONNECT_DATA_LEN),
        FABRICS("connect_r2t", FCTYPE_CONNECT, .sgl = SGL_TRANSPORT, .data_len = CONNECT_DATA_LEN),
        FABRICS("property_get", FCTYPE_PROPERTY_GET),
        FABRICS("property_set", FCTYPE_PROPERTY_SET),
        FABRICS("disconnect", FCTYPE_DISCONNECT),
        FABRICS("auth_send", FCTYPE_AUTH_SEND, .sgl = SGL_IN_CAPSULE, .data = SEQ_PATTERN, .data_len = 30),
        FABRICS("auth_receive", FCTYPE_AUTH_RECEIVE, .sgl = SGL_TRANSPORT, .data_len = 64),
        COMMAND("identify", NVME_IDENTIFY, .sgl = SGL_TRANSPORT, .data_len = IDENTIFY_LEN, .cdw10 = CNS_CTRL),
        COMMAND("get_log", NVME_GET_LOG_PAGE, .sgl = SGL_TRANSPORT, .data_len = 1024, .cdw10 = 255u << 16 | LOG_DISCOVERY),
        COMMAND("set_features", NVME_SET_FEATURES, .cdw10 = FEAT_QUEUES, .cdw11 = 0x30003),
        COMMAND("set_hostid", NVME_SET_FEATURES, .sgl = SGL_IN_CAPSULE, .data = SEQ_PATTERN, .data_len = 16, .cdw10 = FEAT_HOSTID),
        COMMAND("get_features", NVME_GET_FEATURES, .cdw10 = FEAT_KATO),
        COMMAND("aer", NVME_AER),
        COMMAND("abort", NVME_ABORT),
        COMMAND("keep_alive", NVME_KEEP_ALIVE),
        COMMAND("flush", NVME_FLUSH, .nsid = 1),
        COMMAND("read", NVME_READ, .sgl = SGL_TRANSPORT, .nsid = 1, .data_len = 4096, .cdw12 = 7),
        COMMAND("write", NVME_WRITE, .sgl = SGL_TRANSPORT, .nsid = 1, .data_len = 4096, .cdw12 = 7),
        COMMAND("write_icd", NVME_WRITE, .sgl = SGL_IN_CAPSULE, .nsid = 1, .data = SEQ_PATTERN, .data_len = 512),
        { .name = "h2c", .type = PDU_H2C_DATA, .data = SEQ_PATTERN },
        { .name = "h2cterm", .type = PDU_H2C_TERM, .data = SEQ_RETURNED, .data_len = 24 },
        { .name = "kdreq", .type = PDU_KDREQ },
};
#undef FABRICS
#undef COMMAND
#define CONTROLLER(called, kind, ...)                                                              \
        { .name = (called), .side = PARTY_CONTROLLER, .type = (kind), ##__VA_ARGS__ }
static const struct seq_template of_controller[] = {
        CONTROLLER("icresp", PDU_ICRESP),
        CONTROLLER("resp", PDU_CAPSULE_RESP),
        CONTROLLER("c2h", PDU_C2H_DATA, .data = SEQ_PATTERN),
        CONTROLLER("r2t", PDU_R2T),
        CONTROLLER("c2hterm", PDU_C2H_TERM, .data = SEQ_RETURNED, .data_len = 24),
        CONTROLLER("kdresp", PDU_KDRESP),
};
/* clang-format on */

const struct seq_template *seq_templates(enum party side, size_t *n)
{
        if (side == PARTY_CONTROLLER) {
                *n = sizeof(of_controller) / sizeof(of_controller[0]);
                return of_controller;
        }
        *n = sizeof(of_host) / sizeof(of_host[0]);
        return of_host;
}

const struct seq_template *seq_template(enum party side, const char *name)
{
        size_t n;
        const struct seq_template *t = seq_templates(side, &n);

        for (; n > 0; t++, n--)
                if (strcmp(t->name, name) == 0)
                        return t;
        return NULL;
}

/* --- steps -------------------------------------------------------------------------------------- */

struct seq_step seq_step_of(const struct seq_template *t)
{
        return (struct seq_step) { .kind = SEQ_PDU, .template = t };
}

bool seq_pool(struct sequence *s, const void *p, size_t n, struct seq_bytes *out)
{
        if (n > (size_t)SEQ_POOL - s->pooled)
                return false;
        *out = (struct seq_bytes) { s->pooled, (uint16_t)n };
        if (n > 0)
                memcpy(s->pool + s->pooled, p, n);
        s->pooled = (uint16_t)(s->pooled + n);
        return true;
}

bool seq_insert(struct sequence *s, unsigned at, const struct sequence *from,
                const struct seq_step *step)
{
        struct seq_step copy = *step;

        if (s->steps == SEQ_STEPS || at > s->steps ||
            !seq_pool(s, from->pool + step->bytes.at, step->bytes.len, &copy.bytes) ||
            !seq_pool(s, from->pool + step->poke.at, step->poke.len, &copy.poke))
                return false;
        memmove(&s->step[at + 1], &s->step[at], (s->steps - at) * sizeof(s->step[0]));
        s->step[at] = copy;
        s->steps++;
        return true;
}

void seq_remove(struct sequence *s, unsigned at)
{
        s->steps--;
        memmove(&s->step[at], &s->step[at + 1], (s->steps - at) * sizeof(s->step[0]));
}

/* --- text out ----------------------------------------------------------------------------------- */

static void print_hex(struct text *t, const struct sequence *s, struct seq_bytes b)
{
        for (unsigned i = 0; i < b.len; i++)
                text_add(t, "%02x", s->pool[b.at + i]);
}

static void print_number(struct text *t, uint64_t v)
{
        text_add(t, v < 10000 ? "%llu" : "0x%llx", (unsigned long long)v);
}

static void print_change(struct text *t, const char *name, enum seq_op op, uint64_t value)
{
        static const char *const signs[] = { "=", "+=", "^=" };

        text_add(t, " %s%s", name, signs[op]);
        print_number(t, value);
}

static void print_data(struct text *t, const struct sequence *s, const struct seq_step *step)
{
        if (step->has_data && step->is_literal) {
                text_add(t, " data=hex:");
                print_hex(t, s, step->bytes);
        } else if (step->has_data) {
                text_add(t, " data=%u", step->data_len);
        }
        if (step->poke.len > 0) {
                text_add(t, " poke=%u:", step->poke_at);
                print_hex(t, s, step->poke);
        }
}

static void print_pdu(struct text *t, const struct sequence *s, const struct seq_step *step)
{
        text_add(t, "%s", step->template->name);
        for (unsigned i = 0; i < step->changes; i++)
                print_change(t, step->change[i].field->name, step->change[i].op,
                             step->change[i].value);
        print_data(t, s, step);
        if (step->of > 0)
                text_add(t, " of=%u", step->of);
        if (step->violates != RULE_NONE)
                text_add(t, " violate=%s", rule_get(step->violates)->id);
        if (step->stale)
                text_add(t, " stale");
        if (step->hdgst_xor)
                print_change(t, "hdgst", SEQ_FLIP, step->hdgst_xor);
        if (step->ddgst_xor)
                print_change(t, "ddgst", SEQ_FLIP, step->ddgst_xor);
}

static void print_step(struct text *t, const struct sequence *s, const struct seq_step *step)
{
        switch (step->kind) {
        case SEQ_PDU:
                print_pdu(t, s, step);
                break;
        case SEQ_RAW:
                text_add(t, "raw ");
                print_hex(t, s, step->bytes);
                break;
        case SEQ_DELAY:
                text_add(t, "delay %u", step->ms);
                break;
        case SEQ_CLOSE:
                text_add(t, "close");
                break;
        case SEQ_RESET:
                text_add(t, "reset");
                break;
        }
        for (unsigned i = 0; i < step->cuts; i++)
                text_add(t, "%s%u", i == 0 ? " cut=" : ",", step->cut[i]);
        text_add(t, "\n");
}

size_t seq_print(const struct sequence *s, char *text, size_t cap)
{
        struct text t = text_in(text, cap);

        text_add(&t, "sequence %s", party_name(s->side));
        if (s->config)
                print_change(&t, "config", SEQ_SET, s->config);
        if (s->scarce)
                print_change(&t, "scarce", SEQ_SET, s->scarce);
        text_add(&t, "\n");
        for (unsigned i = 0; i < s->steps; i++)
                print_step(&t, s, &s->step[i]);
        return t.len;
}
