/* SPDX-License-Identifier: BSD-3-Clause */
/* Both ends of a control channel, one against the other, in pieces of any size, and against bytes of anybody. */
#include "pdu/core/tests/check.h"

#include <stdlib.h>

#include "pdu/doca/machine/doca_service.h"
#include "pdu/doca/machine/doca_target.h"
#include "pdu/doca/machine/spoil.h"

struct pair {
        struct doca_target target;
        struct doca_service service;
        struct rule_policy target_policy, service_policy;
        unsigned ran, refused;
        enum doca_rule reason; /* of the last refusal */
        uint8_t blob[8];       /* of the last request that had one */
        uint32_t blob_len;
        bool later; /* requests are answered by answer() */
        size_t piece;
};

static struct doca_msg answer_to(const struct pair *p, const struct doca_msg *m)
{
        struct doca_msg r = { .kind = doca_shape_of(p->target.control.dialect, m->kind)->answer };

        if (r.kind == DOCA_QUERY_RSP) {
                r.total_size = 1 << 20;
                r.block_size = 512;
        }
        if (r.kind == DOCA_CREATE_RSP) {
                r.context = m->context;
                r.role = m->role;
                r.data = (struct doca_bytes) { (const uint8_t *)"there", 5 };
        }
        return r;
}

static void run(void *user, const struct doca_msg *m)
{
        struct pair *p = user;

        p->ran++;
        if (m->data.len > 0 && m->data.len <= sizeof(p->blob)) {
                memcpy(p->blob, m->data.p, m->data.len);
                p->blob_len = m->data.len;
        }
        if (!p->later)
                doca_target_answer(&p->target, answer_to(p, m));
}

static void refused(void *user, const struct doca_msg *m, enum doca_rule rule, const char *why)
{
        struct pair *p = user;

        (void)m, (void)why;
        p->refused++;
        p->reason = rule;
}

static const struct doca_target_ops ops = { run, refused };

static void open_pair(struct pair *p, enum doca_version v, enum doca_after_error after,
                      size_t piece)
{
        *p = (struct pair) { .piece = piece };
        doca_target_init(&p->target, doca_dialect(v), after, &ops, &p->target_policy, p);
        doca_service_init(&p->service, doca_dialect(v), after, &p->service_policy);
}

static void close_pair(struct pair *p)
{
        doca_target_fini(&p->target);
        doca_service_fini(&p->service);
}

/* What the service has said goes to the target, and what that has said back. */
static void move(struct pair *p)
{
        struct doca_buffer *b = &p->service.out;

        while (doca_buffer_len(b) > 0 && !p->target.failed) {
                size_t n = doca_buffer_len(b) < p->piece ? doca_buffer_len(b) : p->piece;

                (void)doca_target_receive(&p->target, b->p + b->at, n);
                doca_buffer_drop(b, n);
        }
        for (b = &p->target.out; doca_buffer_len(b) > 0;) {
                size_t n = doca_buffer_len(b) < p->piece ? doca_buffer_len(b) : p->piece;

                assert_true(doca_service_receive(&p->service, b->p + b->at, n));
                doca_buffer_drop(b, n);
        }
}

static enum doca_got ask(struct pair *p, struct doca_msg m, struct doca_msg *response)
{
        enum doca_rule rule;

        assert_true(doca_service_ask(&p->service, m));
        move(p);
        return doca_service_next(&p->service, response, &rule);
}

static void ask_well(struct pair *p, struct doca_msg m)
{
        struct doca_msg response;

        assert_int_equal(ask(p, m, &response), DOCA_GOT_RESPONSE);
        assert_false(doca_is_error(&response));
        if (response.kind == DOCA_CREATE_RSP)
                assert_memory_equal(response.data.p, "there", 5);
}

static void whole_life(enum doca_version v, size_t piece)
{
        struct doca_msg init = { .kind = DOCA_INIT,
                                 .transactions = 3,
                                 .cores = v == DOCA_2_10 ? 0 : 2,
                                 .data = { (const uint8_t *)"here", 4 } };
        struct pair p;

        open_pair(&p, v, DOCA_KEEPS, piece);
        if (v != DOCA_2_10)
                ask_well(&p, (struct doca_msg) { .kind = DOCA_QUERY });
        ask_well(&p, init);
        assert_int_equal(p.blob_len, 4);
        assert_memory_equal(p.blob, "here", 4);
        for (unsigned i = 0; i < 4; i++)
                ask_well(&p, (struct doca_msg) { .kind = DOCA_CREATE,
                                                 .context = v == DOCA_2_10 ? 0 : i / 2,
                                                 .role = i % 2 });
        if (v == DOCA_2_10)
                ask_well(&p, (struct doca_msg) { .kind = DOCA_CONNECT });
        ask_well(&p, (struct doca_msg) { .kind = DOCA_START });
        if (v != DOCA_2_10)
                ask_well(&p, (struct doca_msg) { .kind = DOCA_STOP });
        ask_well(&p, (struct doca_msg) { .kind = DOCA_SHUTDOWN });
        assert_int_equal(doca_control_due(&p.service.control), DOCA_NOTHING);
        assert_int_equal(p.refused, 0);
        close_pair(&p);
}

static void test_whole_lives(void **state)
{
        (void)state;
        for (unsigned v = 0; v < DOCA_VERSIONS; v++) {
                whole_life((enum doca_version)v, 1);
                whole_life((enum doca_version)v, 7);
                whole_life((enum doca_version)v, 4096);
        }
}

static void test_refusals(void **state)
{
        struct doca_msg response;
        struct pair p;

        (void)state;
        open_pair(&p, DOCA_3_2, DOCA_KEEPS, 4096);
        assert_int_equal(ask(&p, (struct doca_msg) { .kind = DOCA_START }, &response),
                         DOCA_GOT_RESPONSE);
        assert_int_equal(response.result, DOCA_ERROR_UNEXPECTED);
        assert_int_equal(
            response.data.len,
            strlen("Unexpected start_storage_request while expecting a query_storage_request"));
        assert_int_equal(p.reason, DOCA_ORDER);
        ask_well(&p, (struct doca_msg) { .kind = DOCA_QUERY });
        assert_int_equal(
            ask(&p, (struct doca_msg) { .kind = DOCA_INIT, .transactions = 1 }, &response),
            DOCA_GOT_RESPONSE);
        assert_int_equal(response.result, DOCA_ERROR_INVALID_VALUE);
        assert_int_equal(p.reason, DOCA_INIT_COUNTS);
        assert_int_equal(p.ran, 1);
        close_pair(&p);
}

/* A waived rule is not checked. */
static void test_waived(void **state)
{
        struct pair p;

        (void)state;
        open_pair(&p, DOCA_3_2, DOCA_KEEPS, 4096);
        rule_add(&p.target_policy.waived, DOCA_ORDER);
        ask_well(&p, (struct doca_msg) { .kind = DOCA_STOP });
        assert_int_equal(p.ran, 1);
        close_pair(&p);
}

/* Each rule of a control message that the target breaks on request is what the service finds. */
static void test_spoilt_targets(void **state)
{
        unsigned tried = 0;

        (void)state;
        for (unsigned rule = 1; rule < DOCA_RULES; rule++) {
                const struct rule *r = doca_rule_get(rule);
                enum doca_got got = DOCA_GOT_RESPONSE;
                enum doca_rule found = DOCA_RULE_NONE;
                struct doca_msg response;
                struct pair p;

                if (r->bound != PARTY_CONTROLLER || rule_grade(r) != GRADE_MUST ||
                    !(doca_spoil_kinds((enum doca_rule)rule) & DOCA_V_CONTROL))
                        continue;
                tried++;
                open_pair(&p, DOCA_3_2, DOCA_KEEPS, 4096);
                rule_add(&p.target_policy.violated, rule);
                for (unsigned step = 0; step < 3 && got == DOCA_GOT_RESPONSE; step++) {
                        static const struct doca_msg steps[] = {
                                { .kind = DOCA_QUERY },
                                { .kind = DOCA_INIT, .transactions = 1, .cores = 1 },
                                { .kind = DOCA_CREATE },
                        };

                        assert_true(doca_service_ask(&p.service, steps[step]));
                        move(&p);
                        got = doca_service_next(&p.service, &response, &found);
                }
                assert_int_equal(got, DOCA_GOT_FAULT);
                assert_int_equal(found, rule);
                close_pair(&p);
        }
        assert_int_equal(tried, 8);
}

/* ... and the other way round; what the target has to tolerate it answers. */
static void test_spoilt_services(void **state)
{
        unsigned tried = 0;

        (void)state;
        for (unsigned rule = 1; rule < DOCA_RULES; rule++) {
                static const struct doca_msg steps[] = {
                        { .kind = DOCA_QUERY },
                        { .kind = DOCA_INIT,
                          .transactions = 1,
                          .cores = 1,
                          .data = { (const uint8_t *)"b", 1 } },
                        { .kind = DOCA_CREATE },
                };
                const struct rule *r = doca_rule_get(rule);
                struct doca_msg response;
                struct pair p;

                if (r->bound != PARTY_HOST ||
                    !(doca_spoil_kinds((enum doca_rule)rule) & DOCA_V_CONTROL))
                        continue;
                tried++;
                open_pair(&p, DOCA_3_2, DOCA_KEEPS, 4096);
                rule_add(&p.service_policy.violated, rule);
                for (unsigned step = 0; step < 3 && p.refused == 0 && !p.target.failed; step++)
                        (void)ask(&p, steps[step], &response);
                if (rule == DOCA_SIZE_S)
                        assert_true(p.target.failed && p.target.fault == DOCA_SIZE_S);
                else if (r->reaction == REACT_TOLERATE)
                        assert_int_equal(p.ran, 3);
                else
                        assert_int_equal(p.reason, rule);
                close_pair(&p);
        }
        assert_int_equal(tried, 8);
}

/* The request in hand stays what it is while more bytes come. */
static void test_sending_ahead(void **state)
{
        struct doca_msg response;
        enum doca_rule rule;
        struct pair p;

        (void)state;
        open_pair(&p, DOCA_3_2, DOCA_KEEPS, 4096);
        ask_well(&p, (struct doca_msg) { .kind = DOCA_QUERY });
        p.later = true;
        assert_true(doca_service_ask(
            &p.service, (struct doca_msg) { .kind = DOCA_INIT,
                                            .transactions = 1,
                                            .cores = 1,
                                            .data = { (const uint8_t *)"hello", 5 } }));
        move(&p);
        for (unsigned i = 0; i < 100; i++)
                assert_true(
                    doca_service_ask(&p.service, (struct doca_msg) { .kind = DOCA_CREATE }));
        p.piece = 5;
        move(&p);
        assert_int_equal(p.ran, 2);
        assert_memory_equal(p.target.request.data.p, "hello", 5);
        p.later = false;
        doca_target_answer(&p.target, answer_to(&p, &p.target.request));
        move(&p);
        assert_int_equal(doca_service_next(&p.service, &response, &rule), DOCA_GOT_RESPONSE);
        assert_int_equal(response.kind, DOCA_INIT_RSP);
        close_pair(&p);
}

/* Twice what was asked for once. */
static void test_unasked(void **state)
{
        struct doca_msg response;
        enum doca_rule rule;
        struct pair p;

        (void)state;
        open_pair(&p, DOCA_3_2, DOCA_KEEPS, 4096);
        rule_add(&p.target_policy.violated, DOCA_ANSWER_ASKED);
        assert_int_equal(ask(&p, (struct doca_msg) { .kind = DOCA_QUERY }, &response),
                         DOCA_GOT_RESPONSE);
        assert_int_equal(doca_service_next(&p.service, &response, &rule), DOCA_GOT_FAULT);
        assert_int_equal(rule, DOCA_ANSWER_ASKED);
        close_pair(&p);
}

static void test_random(void **state)
{
        uint64_t seed = 11;

        (void)state;
        for (unsigned round = 0; round < 3000; round++) {
                uint8_t bytes[300];
                struct pair p;

                open_pair(&p, (enum doca_version)(round % DOCA_VERSIONS),
                          round & 1 ? DOCA_KEEPS : DOCA_CONSUMES, 4096);
                for (unsigned i = 0; i < 12 && !p.target.failed; i++) {
                        size_t n = 8 + random_next(&seed) % 60;
                        const struct doca_framing *f = &p.target.control.dialect->frame;

                        random_fill(&seed, bytes, sizeof(bytes));
                        if (n < f->header)
                                n = f->header;
                        be_put(bytes, f->size_len, n - f->uncounted);
                        be_put(bytes + f->type_at, f->type_len, random_next(&seed) % 13);
                        if (n >= f->header + 12u)
                                be_put(bytes + f->header + 8, 4, random_next(&seed) % 8);
                        (void)doca_target_receive(&p.target, bytes, n);
                }
                random_fill(&seed, bytes, sizeof(bytes));
                (void)doca_target_receive(&p.target, bytes, sizeof(bytes));
                move(&p);
                close_pair(&p);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole_lives),     cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_waived),          cmocka_unit_test(test_spoilt_targets),
                cmocka_unit_test(test_spoilt_services), cmocka_unit_test(test_sending_ahead),
                cmocka_unit_test(test_unasked),         cmocka_unit_test(test_random),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
