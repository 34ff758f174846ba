/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DOCA's storage protocol: control messages in any order to the target's machine and to a channel that is watched, I/O
 * messages on one context, blobs.
 *
 * Input: a byte of the dialect and of how errors are taken; then messages: each a byte of what it is (of the service, of the
 * target, I/O of either, bytes as they are, a message changed by a violator, a blob, loss), two of its length, and its
 * bytes, those of a control message without its size.
 */
#include "fuzz/fuzz.h"
#include "pdu/doca/machine/doca_service.h"
#include "pdu/doca/machine/doca_target.h"
#include "pdu/doca/machine/flow.h"
#include "pdu/doca/machine/spoil.h"
#include "pdu/doca/wire/blob.h"

enum kind { SERVICE, TARGET, IO_S, IO_T, RAW, SPOIL, BLOB, MISS, KINDS };
enum { LONGEST = 512 };

struct scene {
        const struct doca_dialect *d;
        struct doca_control control;
        struct doca_target target;
        struct doca_service service;
        struct rule_policy policy;
        unsigned asked, answered;
};

static void run(void *user, const struct doca_msg *m)
{
        struct scene *s = user;
        const struct doca_shape *shape = doca_shape_of(s->d, m->kind);

        must(shape && shape->answer != DOCA_NOTHING);
        s->asked++;
        doca_target_answer(&s->target, (struct doca_msg) { .kind = shape->answer,
                                                           .context = m->context,
                                                           .role = m->role,
                                                           .total_size = 1 << 20,
                                                           .block_size = 512 });
}

static void refused(void *user, const struct doca_msg *m, enum doca_rule rule, const char *why)
{
        must(m && why && doca_rule_get(rule)->bound == PARTY_HOST);
        ((struct scene *)user)->asked++;
}

/* What was read is written as it was, if it was whole; nothing is found that does not bind who sent it. */
static void look_at(const struct scene *s, const uint8_t *p, size_t n, enum party sender)
{
        struct rule_set found = { 0 };
        struct fuzz_reader reader;
        struct text_lines lines;
        struct describe d = fuzz_describer(&reader);
        uint8_t again[LONGEST + 32];
        char buf[600];
        struct text t = text_in(buf, sizeof(buf));
        struct doca_msg m;
        bool whole = doca_msg_read(s->d, p, n, sender, &m, &found);

        rule_each_in (&found, rule)
                must(doca_rule_get(rule)->bound == sender);
        must(m.data.len == 0 || (m.data.p >= p && m.data.p + m.data.len <= p + n));
        if (whole && !rule_in(&found, DOCA_TRAILING_S) && !rule_in(&found, DOCA_TRAILING_T)) {
                must(doca_msg_write(s->d, &m, again, sizeof(again)) == n);
                must(memcmp(again, p, n) == 0);
        }
        doca_msg_describe(&d, s->d, &m);
        fuzz_described(&reader);
        d = fuzz_liner(&lines);
        doca_msg_describe(&d, s->d, &m);
        fuzz_lined(&lines);
        doca_msg_line(&t, s->d, &m);
        must(t.len > 0 && t.len < sizeof(buf));
}

/* All that the target has said is whole frames, as many as were asked for. */
static void drain(struct scene *s)
{
        struct doca_buffer *out = &s->target.out;
        size_t n;

        while (doca_frame_next(s->d, out, &n) == DOCA_FRAME_WHOLE) {
                struct rule_set found = { 0 };
                struct doca_msg m;

                must(doca_msg_read(s->d, out->p + out->at, n, PARTY_CONTROLLER, &m, &found));
                must(rule_set_empty(&found));
                doca_buffer_drop(out, n);
                s->answered++;
        }
        must(doca_buffer_len(out) == 0);
        must(s->answered == s->asked);
}

static size_t framed(const struct scene *s, uint8_t *p, size_t n)
{
        const struct doca_framing *f = &s->d->frame;

        if (n < f->header)
                memset(p + n, 0, f->header - n);
        n = n < f->header ? f->header : n;
        be_put(p, f->size_len, n - f->uncounted);
        return n;
}

/* A whole frame is a response or a fault of the target, whatever it is. */
static void answer_service(struct scene *s, const uint8_t *p, size_t n)
{
        enum doca_rule rule;
        struct doca_msg m;
        enum doca_got got;

        must(doca_service_receive(&s->service, p, n));
        got = doca_service_next(&s->service, &m, &rule);
        must(got != DOCA_GOT_NOTHING);
        must(got != DOCA_GOT_FAULT || doca_rule_get(rule)->bound == PARTY_CONTROLLER);
        must(doca_service_next(&s->service, &m, &rule) == DOCA_GOT_NOTHING);
}

/* What it says is what it was asked to say. */
static void ask_by_service(struct scene *s, const struct doca_msg *m)
{
        struct doca_buffer *out = &s->service.out;
        struct rule_set found = { 0 };
        struct doca_msg said;

        if (!doca_service_ask(&s->service, *m))
                return;
        must(doca_frame_len(s->d, out->p + out->at, doca_buffer_len(out)) == doca_buffer_len(out));
        (void)doca_msg_read(s->d, out->p + out->at, doca_buffer_len(out), PARTY_HOST, &said,
                            &found);
        must(said.kind == m->kind && said.data.len == m->data.len);
        doca_buffer_drop(out, doca_buffer_len(out));
}

static void control_message(struct scene *s, uint8_t *p, size_t n, enum party sender)
{
        struct rule_set found = { 0 };
        struct doca_msg m;

        n = framed(s, p, n);
        look_at(s, p, n, sender);
        (void)doca_msg_read(s->d, p, n, sender, &m, &found);
        doca_control_says(&s->control, sender, &m, &found);
        must(doca_control_stage(&s->control) != NULL);
        must(s->control.requests <= DOCA_OUTSTANDING);
        if (sender != PARTY_HOST) {
                answer_service(s, p, n);
                return;
        }
        ask_by_service(s, &m);
        must(doca_target_receive(&s->target, p, n));
        drain(s);
}

static void io_message(struct scene *s, struct doca_flow *flow, const uint8_t *p, size_t n,
                       enum party sender)
{
        struct rule_set found = { 0 };
        struct fuzz_reader reader;
        struct describe d = fuzz_describer(&reader);
        uint8_t again[DOCA_IO_LEN], answer[DOCA_IO_LEN];
        struct doca_io io, same;
        char buf[300];
        struct text t = text_in(buf, sizeof(buf));

        doca_flow_says(flow, sender, p, n, &io, &found);
        must(flow->count <= DOCA_FLOW_REQUESTS);
        doca_io_write(s->d, &io, again);
        (void)doca_io_read(s->d, again, sizeof(again), sender, &same, &found);
        must(memcmp(&io, &same, sizeof(io)) == 0);
        memcpy(answer, again, sizeof(answer));
        doca_io_answer(s->d, answer, 6);
        must(memcmp(answer + 4, again + 4, 12) == 0 && memcmp(answer + 20, again + 20, 44) == 0);
        doca_io_describe(&d, s->d, &io);
        fuzz_described(&reader);
        doca_io_line(&t, s->d, &io);
        must(t.len > 0 && t.len < sizeof(buf));
}

/* A violator changes nothing beyond the message, and only what it is asked for. */
static void spoil(struct scene *s, struct fuzz_input *b, uint8_t *p, size_t n, enum party sender)
{
        unsigned rule = 1u + bytes_u16(b) % (DOCA_RULES - 1u);
        struct rule_set violated = { 0 }, unused = { 0 };
        uint32_t io_len = DOCA_IO_LEN;
        uint8_t io[DOCA_IO_LEN] = { 0 };
        struct doca_msg m;
        size_t before;

        rule_add(&violated, rule);
        n = before = framed(s, p, n);
        (void)doca_msg_read(s->d, p, n, sender, &m, &unused);
        must(!doca_spoil_msg(&violated, s->d, &m) || doca_rule_get(rule)->violators);
        must(!doca_spoil_frame(&violated, s->d, p, &n) || doca_rule_get(rule)->violators);
        must(n <= before + DOCA_SPOIL_ROOM);
        memcpy(io, p, before < sizeof(io) ? before : sizeof(io));
        must(!doca_spoil_io(&violated, s->d, sender, io, &io_len) ||
             doca_rule_get(rule)->violators);
        must(io_len <= DOCA_IO_LEN);
}

static void blob(const uint8_t *p, size_t n)
{
        struct doca_bytes b = { p, (uint32_t)n };
        uint8_t end[DOCA_END_BLOB], again[DOCA_END_BLOB], memory[DOCA_MEMORY_BLOB],
            cm[DOCA_CM_DATA];
        struct doca_memory m, m_again;
        struct doca_end e, e_again;
        uint64_t cookie;

        if (doca_end_read(b, &e)) {
                doca_end_write(&e, end);
                must(doca_end_read((struct doca_bytes) { end, sizeof(end) }, &e_again));
                doca_end_write(&e_again, again);
                must(memcmp(end, again, sizeof(end)) == 0);
        }
        if (doca_memory_read(b, &m)) {
                doca_memory_write(&m, memory);
                must(doca_memory_read((struct doca_bytes) { memory, sizeof(memory) }, &m_again));
                must(m.base == m_again.base && m.len == m_again.len && m.rkey == m_again.rkey);
        }
        if (doca_cm_read(p, n, &cookie)) {
                doca_cm_write(cookie, cm);
                must(memcmp(cm, p, sizeof(cm)) == 0);
        }
}

static void one_message(struct scene *s, struct doca_flow *flow, struct fuzz_input *b)
{
        uint8_t what = bytes_u8(b), p[LONGEST + DOCA_HEADER_MAX + DOCA_SPOIL_ROOM];
        enum kind kind = (enum kind)(what % KINDS);
        enum party sender = what / KINDS & 1 ? PARTY_HOST : PARTY_CONTROLLER;
        size_t n = bytes_u16(b) % (LONGEST + 1u);

        n = n < b->left ? n : b->left;
        bytes_copy(b, p, n);
        if (kind == SERVICE || kind == TARGET)
                control_message(s, p, n, kind == SERVICE ? PARTY_HOST : PARTY_CONTROLLER);
        else if (kind == IO_S || kind == IO_T)
                io_message(s, flow, p, n, kind == IO_S ? PARTY_HOST : PARTY_CONTROLLER);
        else if (kind == SPOIL)
                spoil(s, b, p, n, sender);
        else if (kind == BLOB)
                blob(p, n);
        else if (kind == MISS)
                doca_control_miss(&s->control), doca_flow_miss(flow);
        else if (kind == RAW)
                (void)doca_target_receive(&s->target, p, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        static const struct doca_target_ops ops = { run, refused };
        static const struct doca_bounds bounds = {
                .total_size = 1 << 20, .block_size = 512, .base = 0x10000, .len = 1 << 16
        };
        static struct doca_flow flow;
        struct fuzz_input b = bytes_of(input, size);
        uint8_t how = bytes_u8(&b);
        struct scene s = { .d = doca_dialect((enum doca_version)(how % DOCA_VERSIONS)) };

        doca_control_init(&s.control, s.d, (enum doca_after_error)(how / DOCA_VERSIONS % 3));
        doca_target_init(&s.target, s.d, how & 0x80 ? DOCA_CONSUMES : DOCA_KEEPS, &ops, &s.policy,
                         &s);
        doca_service_init(&s.service, s.d, DOCA_UNSURE, &s.policy);
        doca_flow_init(&flow, s.d, &bounds, how & 0x40 ? 4 : 0);
        while (b.left > 0 && !s.target.failed && doca_buffer_len(&s.target.in) == 0)
                one_message(&s, &flow, &b);
        drain(&s);
        doca_target_fini(&s.target);
        doca_service_fini(&s.service);
        return 0;
}
