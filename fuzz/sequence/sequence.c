/* SPDX-License-Identifier: BSD-3-Clause */
#include "sequence.h"

#include <string.h>

#include "pdu/nvme/wire/fabrics.h"

const char *seq_transport_name(enum seq_transport t)
{
        return t == SEQ_RDMA ? "rdma" : "tcp";
}

/* --- templates ---------------------------------------------------------------------------------- */

/* clang-format off */
#define FABRICS(called, fct, ...)                                                                 \
        { .name = (called), .type = PDU_CAPSULE_CMD, .opc = NVME_FABRICS, .fctype = (fct), ##__VA_ARGS__ }
#define COMMAND(called, code, ...)                                                                 \
        { .name = (called), .type = PDU_CAPSULE_CMD, .opc = (code), ##__VA_ARGS__ }
static const struct seq_template of_host[] = { /* TCP's own, common ones, RDMA's own */
        { .name = "icreq", .type = PDU_ICREQ },
        { .name = "h2c", .type = PDU_H2C_DATA, .data = SEQ_PATTERN },
        { .name = "h2cterm", .type = PDU_H2C_TERM, .data = SEQ_RETURNED, .data_len = 24 },
        { .name = "kdreq", .type = PDU_KDREQ },
        FABRICS("connect", FCTYPE_CONNECT, .sgl = SGL_IN_CAPSULE, .data = SEQ_CONNECT, .data_len = CONNECT_DATA_LEN),
        FABRICS("connect_r2t", FCTYPE_CONNECT, .sgl = SGL_TRANSPORT, .data_len = CONNECT_DATA_LEN),
        FABRICS("property_get", FCTYPE_PROPERTY_GET),
        FABRICS("property_set", FCTYPE_PROPERTY_SET),
        FABRICS("enable", FCTYPE_PROPERTY_SET, .cdw11 = PROP_CC, .cdw12 = CC_EN | CC_IOSQES | CC_IOCQES),
        FABRICS("disable", FCTYPE_PROPERTY_SET, .cdw11 = PROP_CC),
        FABRICS("disconnect", FCTYPE_DISCONNECT),
        FABRICS("auth_send", FCTYPE_AUTH_SEND, .sgl = SGL_IN_CAPSULE, .data = SEQ_PATTERN, .data_len = 30),
        FABRICS("auth_receive", FCTYPE_AUTH_RECEIVE, .sgl = SGL_TRANSPORT, .data_len = 64),
        COMMAND("identify", NVME_IDENTIFY, .sgl = SGL_TRANSPORT, .data_len = IDENTIFY_LEN, .cdw10 = CNS_CTRL),
        COMMAND("identify_ns", NVME_IDENTIFY, .sgl = SGL_TRANSPORT, .data_len = IDENTIFY_LEN, .cdw10 = CNS_NS, .nsid = 1),
        COMMAND("identify_list", NVME_IDENTIFY, .sgl = SGL_TRANSPORT, .data_len = IDENTIFY_LEN, .cdw10 = CNS_NS_LIST),
        COMMAND("get_smart", NVME_GET_LOG_PAGE, .sgl = SGL_TRANSPORT, .data_len = 512, .cdw10 = 127u << 16 | LOG_SMART),
        COMMAND("get_log", NVME_GET_LOG_PAGE, .sgl = SGL_TRANSPORT, .data_len = 1024, .cdw10 = 255u << 16 | LOG_DISCOVERY),
        COMMAND("set_features", NVME_SET_FEATURES, .cdw10 = FEAT_QUEUES, .cdw11 = 0x30003),
        COMMAND("set_kato", NVME_SET_FEATURES, .cdw10 = FEAT_KATO, .cdw11 = 10000),
        COMMAND("get_behavior", NVME_GET_FEATURES, .sgl = SGL_TRANSPORT, .data_len = 512, .cdw10 = FEAT_HOST_BEHAVIOR),
        COMMAND("set_hostid", NVME_SET_FEATURES, .sgl = SGL_IN_CAPSULE, .data = SEQ_PATTERN, .data_len = 16, .cdw10 = FEAT_HOSTID),
        COMMAND("get_features", NVME_GET_FEATURES, .cdw10 = FEAT_KATO),
        COMMAND("aer", NVME_AER),
        COMMAND("abort", NVME_ABORT),
        COMMAND("keep_alive", NVME_KEEP_ALIVE),
        COMMAND("flush", NVME_FLUSH, .nsid = 1),
        COMMAND("read", NVME_READ, .sgl = SGL_TRANSPORT, .nsid = 1, .data_len = 4096, .cdw12 = 7),
        COMMAND("write", NVME_WRITE, .sgl = SGL_TRANSPORT, .nsid = 1, .data_len = 4096, .cdw12 = 7),
        COMMAND("write_icd", NVME_WRITE, .sgl = SGL_IN_CAPSULE, .nsid = 1, .data = SEQ_PATTERN, .data_len = 512),
        COMMAND("compare", NVME_COMPARE, .sgl = SGL_IN_CAPSULE, .nsid = 1, .data = SEQ_PATTERN, .data_len = 512),
        COMMAND("compare_r2t", NVME_COMPARE, .sgl = SGL_TRANSPORT, .nsid = 1, .data_len = 4096, .cdw12 = 7),
        COMMAND("write_zeroes", NVME_WRITE_ZEROES, .nsid = 1, .cdw12 = 7),
        COMMAND("dsm", NVME_DSM, .sgl = SGL_IN_CAPSULE, .nsid = 1, .data = SEQ_PATTERN, .data_len = sizeof(struct dsm_range), .cdw11 = 4),
        { .name = "request", .type = SEQ_REQUEST },
};
enum { HOST_TCP = 4, HOST_RDMA = 1 };
#undef FABRICS
#undef COMMAND
#define CONTROLLER(called, kind, ...)                                                              \
        { .name = (called), .side = PARTY_CONTROLLER, .type = (kind), ##__VA_ARGS__ }
static const struct seq_template of_controller[] = {
        CONTROLLER("icresp", PDU_ICRESP),
        CONTROLLER("c2h", PDU_C2H_DATA, .data = SEQ_PATTERN),
        CONTROLLER("r2t", PDU_R2T),
        CONTROLLER("c2hterm", PDU_C2H_TERM, .data = SEQ_RETURNED, .data_len = 24),
        CONTROLLER("kdresp", PDU_KDRESP),
        CONTROLLER("resp", PDU_CAPSULE_RESP),
        CONTROLLER("accept", SEQ_ACCEPT),
        CONTROLLER("reject", SEQ_REJECT),
        CONTROLLER("read", SEQ_READ),
        CONTROLLER("write", SEQ_WRITE),
};
/* clang-format on */
enum { CONTROLLER_TCP = 5, CONTROLLER_RDMA = 4 };

#define COUNT(table) (sizeof(table) / sizeof(*(table)))
const struct seq_template *seq_templates(enum seq_transport transport, enum party side, size_t *n)
{
        static const struct {
                const struct seq_template *first;
                size_t n;
        } slices[2][2] = {
                { { of_host, COUNT(of_host) - HOST_RDMA },
                  { of_controller, COUNT(of_controller) - CONTROLLER_RDMA } },
                { { of_host + HOST_TCP, COUNT(of_host) - HOST_TCP },
                  { of_controller + CONTROLLER_TCP, COUNT(of_controller) - CONTROLLER_TCP } },
        };

        *n = slices[transport][side].n;
        return slices[transport][side].first;
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
        if (copy.on >= s->queues)
                copy.on = 0;
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

/* Thousands of texts a second: formats would take most of the time. */
static void print_bytes(struct text *t, const char *p, size_t n)
{
        size_t room = t->cap - t->len - 1;

        n = n < room ? n : room;
        memcpy(t->p + t->len, p, n);
        t->len += n;
        t->p[t->len] = '\0';
}

static void print(struct text *t, const char *word)
{
        print_bytes(t, word, strlen(word));
}

static void print_hex(struct text *t, const struct sequence *s, struct seq_bytes b)
{
        static const char digits[] = "0123456789abcdef";

        for (unsigned i = 0; i < b.len; i++) {
                uint8_t v = s->pool[b.at + i];

                print_bytes(t, (const char[]) { digits[v >> 4], digits[v & 15] }, 2);
        }
}

static void print_number(struct text *t, uint64_t v)
{
        static const char digits[] = "0123456789abcdef";
        unsigned base = v < 10000 ? 10 : 16;
        char word[20];
        size_t n = sizeof(word);

        do
                word[--n] = digits[v % base];
        while ((v /= base) > 0);
        if (base == 16)
                print(t, "0x");
        print_bytes(t, word + n, sizeof(word) - n);
}

static void print_named(struct text *t, const char *name, uint64_t v)
{
        print(t, name);
        print_number(t, v);
}

static void print_change(struct text *t, const char *name, enum seq_op op, uint64_t value)
{
        static const char *const signs[] = { "=", "+=", "^=" };

        print(t, " ");
        print(t, name);
        print_named(t, signs[op], value);
}

static void print_data(struct text *t, const struct sequence *s, const struct seq_step *step)
{
        if (step->has_data && step->is_literal) {
                print(t, " data=hex:");
                print_hex(t, s, step->bytes);
        } else if (step->has_data) {
                print_named(t, " data=", step->data_len);
        }
        if (step->poke.len > 0) {
                print_named(t, " poke=", step->poke_at);
                print(t, ":");
                print_hex(t, s, step->poke);
        }
}

static void print_violate(struct text *t, enum rule_id rule)
{
        if (rule == RULE_NONE)
                return;
        print(t, " violate=");
        print(t, rule_get(rule)->id);
}

static void print_pdu(struct text *t, const struct sequence *s, const struct seq_step *step)
{
        print(t, step->template->name);
        for (unsigned i = 0; i < step->changes; i++)
                print_change(t, step->change[i].field->name, step->change[i].op,
                             step->change[i].value);
        print_data(t, s, step);
        if (step->keys > 0)
                print_named(t, " keys=", step->keys - 1u);
        if (step->of > 0)
                print_named(t, " of=", step->of);
        print_violate(t, step->violates);
        if (step->stale)
                print(t, " stale");
        if (step->hdgst_xor)
                print_change(t, "hdgst", SEQ_FLIP, step->hdgst_xor);
        if (step->ddgst_xor)
                print_change(t, "ddgst", SEQ_FLIP, step->ddgst_xor);
}

static void print_fail(struct text *t, const struct seq_step *step)
{
        char name[SEQ_STATUS_NAME];

        seq_status_name(step->status, name);
        print(t, "fail ");
        print(t, name);
        if (step->of > 0)
                print_named(t, " of=", step->of);
}

static void print_step(struct text *t, const struct sequence *s, const struct seq_step *step)
{
        switch (step->kind) {
        case SEQ_PDU:
                print_pdu(t, s, step);
                break;
        case SEQ_RAW:
                print(t, "raw ");
                print_hex(t, s, step->bytes);
                break;
        case SEQ_DELAY:
                print_named(t, "delay ", step->ms);
                break;
        case SEQ_CLOSE:
                print(t, "close");
                break;
        case SEQ_RESET:
                print(t, "reset");
                break;
        case SEQ_FAIL:
                print_fail(t, step);
                break;
        case SEQ_REMOVE:
                print(t, "remove");
                break;
        }
        if (step->on > 0)
                print_named(t, " on=", step->on);
        for (unsigned i = 0; i < step->cuts; i++)
                print_named(t, i == 0 ? " cut=" : ",", step->cut[i]);
        print(t, "\n");
}

size_t seq_print(const struct sequence *s, char *text, size_t cap)
{
        struct text t = text_in(text, cap);

        print(&t, "sequence ");
        print(&t, party_name(s->side));
        if (s->transport == SEQ_RDMA)
                print(&t, " rdma");
        if (s->config)
                print_change(&t, "config", SEQ_SET, s->config);
        if (s->scarce)
                print_change(&t, "scarce", SEQ_SET, s->scarce);
        if (s->queues > 1)
                print_named(&t, " queues=", s->queues);
        print_violate(&t, s->violates);
        print(&t, "\n");
        for (unsigned i = 0; i < s->steps; i++)
                print_step(&t, s, &s->step[i]);
        return t.len;
}
