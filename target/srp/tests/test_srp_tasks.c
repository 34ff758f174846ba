/* SPDX-License-Identifier: BSD-3-Clause */
/* The SRP target: the request limit, and task management over several channels, initiators and reactors. */
#include "srp_fixture.h"

enum { SLOW = 2 /* a LUN */ };

static void send_read(struct srp_peer *p, uint64_t tag, uint32_t lun)
{
        struct peer_cmd c;

        cmd_rw(&c, tag, lun, false, 0, 1);
        cmd_direct(&c, false, peer_desc(p, 0, 4096));
        p->limit--;
        peer_send(p, c.p, c.n);
}

static struct peer_rsp manage(struct srp_peer *p, uint64_t tag, uint32_t lun, uint8_t function,
                              uint64_t task)
{
        struct peer_rsp r;

        peer_tsk_mgmt(p, tag, lun, function, task);
        assert_true(peer_response(p, &r));
        assert_int_equal(be64_get(r.rsp.tag), tag);
        assert_true(r.rsp.flags & SRP_RSPVALID);
        return r;
}

/* --- request limit ---------------------------------------------------------------------------- */

/* As many as are granted, all at once; all are answered, and then as many may be sent again. */
static void test_the_whole_limit(void **state)
{
        struct fixture f = start_on(NULL, (struct srp_options) { .request_limit = 10 });
        struct srp_peer *p = login(&f, (struct srp_peer_options) { 0 });

        (void)state;
        attend(p);
        assert_int_equal(p->limit, 10);
        for (unsigned round = 0; round < 20; round++) {
                bool seen[10] = { false };

                for (uint64_t tag = 0; tag < 10; tag++)
                        send_read(p, tag, round % 5 == 0 ? SLOW : 0);
                assert_int_equal(p->limit, round % 5 == 0 ? 0 : p->limit);
                for (unsigned i = 0; i < 10; i++) {
                        struct peer_rsp r;

                        assert_true(peer_response(p, &r));
                        is_good(r);
                        assert_int_equal(r.delta, 1);
                        assert_false(seen[be64_get(r.rsp.tag)]);
                        seen[be64_get(r.rsp.tag)] = true;
                }
                assert_int_equal(p->limit, 10);
        }
        peer_close(p);
        stop(&f);
}

static void test_overrun(void **state)
{
        struct srp_options waives = { .request_limit = 4 };
        struct fixture f = start_on(NULL, waives);
        struct srp_peer *p = login(&f, (struct srp_peer_options) { 0 });
        const struct srp_got *g;
        struct peer_rsp r;

        (void)state;
        attend(p);
        for (uint64_t tag = 0; tag < 5; tag++)
                send_read(p, tag, SLOW);
        g = peer_next(p);
        assert_non_null(g);
        assert_int_equal(g->p[0], SRP_T_LOGOUT);
        assert_true(peer_closed(p));
        peer_close(p);
        stop(&f);
        rule_add(&waives.policy.waived, SRP_LIMIT_OVERRUN);
        f = start_on(NULL, waives);
        p = login(&f, (struct srp_peer_options) { 0 });
        attend(p);
        for (uint64_t tag = 0; tag < 6; tag++)
                send_read(p, tag, SLOW);
        for (unsigned i = 0; i < 6; i++) {
                assert_true(peer_response(p, &r));
                is_good(r);
        }
        peer_close(p);
        stop(&f);
}

/* A logout is not kept waiting by requests that are. */
static void test_logout_behind_requests(void **state)
{
        static const struct srp_logout logout = { .opcode = SRP_I_LOGOUT };
        struct srp_options waives = { .request_limit = 4 };
        struct srp_peer *p;
        struct fixture f;

        (void)state;
        rule_add(&waives.policy.waived, SRP_LIMIT_OVERRUN);
        f = start_on(NULL, waives);
        p = login(&f, (struct srp_peer_options) { 0 });
        attend(p);
        for (uint64_t tag = 0; tag < 6; tag++)
                send_read(p, tag, SLOW);
        peer_send(p, &logout, sizeof(logout));
        assert_true(peer_closed(p));
        peer_close(p);
        stop(&f);
}

/* --- task attributes -------------------------------------------------------------------------- */

static void send_attr(struct srp_peer *p, uint64_t tag, uint32_t lun, uint8_t attr)
{
        struct peer_cmd c;

        cmd_rw(&c, tag, lun, false, 0, 1);
        cmd_direct(&c, false, peer_desc(p, 0, 4096));
        c.p[29] = attr;
        p->limit--;
        peer_send(p, c.p, c.n);
}

static void test_ordered(void **state)
{
        /* In the order of their coming, and in that of their ends: the slow unit answers simple ones together. */
        static const uint8_t attrs[] = { SRP_SIMPLE, SRP_ORDERED, SRP_SIMPLE, SRP_SIMPLE,
                                         SRP_ORDERED };
        struct fixture f = start();
        struct srp_peer *p = login(&f, (struct srp_peer_options) { 0 });
        uint64_t began, ended;
        struct peer_rsp r;

        (void)state;
        attend(p);
        began = loop_now_ms();
        for (unsigned i = 0; i < COUNT(attrs); i++)
                send_attr(p, i, SLOW, attrs[i]);
        is_good(run_cdb(p, 0, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1)); /* another unit */
        send_attr(p, 50, SLOW, SRP_HEAD_OF_QUEUE);
        for (unsigned i = 0, heads = 0; i <= COUNT(attrs); i++) {
                assert_true(peer_response(p, &r));
                is_good(r);
                if (be64_get(r.rsp.tag) == 50)
                        heads = 1;
                else if (attrs[be64_get(r.rsp.tag)] == SRP_ORDERED)
                        assert_int_equal(be64_get(r.rsp.tag), i - heads);
                assert_true(i < 2 || heads); /* it has not waited */
        }
        ended = loop_now_ms();
        assert_true(ended - began >= 4 * 150);
        /* one that waits for its turn can be aborted */
        send_attr(p, 60, SLOW, SRP_SIMPLE);
        send_attr(p, 61, SLOW, SRP_ORDERED);
        send_attr(p, 62, SLOW, SRP_SIMPLE);
        peer_tsk_mgmt(p, 63, SLOW, SRP_TM_ABORT_TASK, 61);
        for (unsigned i = 0; i < 3; i++) {
                assert_true(peer_response(p, &r));
                assert_int_not_equal(be64_get(r.rsp.tag), 61);
        }
        assert_int_equal(p->limit, 64);
        peer_close(p);
        stop(&f);
}

/* --- aborts ----------------------------------------------------------------------------------- */

static void test_abort_task(void **state)
{
        struct fixture f = start();
        struct srp_peer *p = login(&f, (struct srp_peer_options) { 0 });
        struct peer_rsp r;
        uint64_t tags = 0;

        (void)state;
        attend(p);
        send_read(p, 1, SLOW);
        send_read(p, 2, SLOW);
        peer_tsk_mgmt(p, 3, SLOW, SRP_TM_ABORT_TASK, 1);
        for (unsigned i = 0; i < 2; i++) { /* the other one is not affected, and may come first */
                assert_true(peer_response(p, &r));
                tags += be64_get(r.rsp.tag);
                if (be64_get(r.rsp.tag) == 3)
                        assert_int_equal(r.response, 0);
                else
                        is_good(r);
        }
        assert_int_equal(tags, 2 + 3);
        assert_true(peer_is_silent(p, 300)); /* the command is never answered */
        assert_int_equal(p->limit, 64);      /* with the credit of the command that was aborted */
        /* one that is not there has been carried out; the tag can be used again */
        assert_int_equal(manage(p, 4, SLOW, SRP_TM_ABORT_TASK, 1).response, 0);
        send_read(p, 1, 0);
        assert_true(peer_response(p, &r));
        is_good(r);
        peer_close(p);
        stop(&f);
}

/* As Linux does it: what the first one waits for, the second one has to wait for, too. */
static void test_reset_behind_an_abort(void **state)
{
        struct fixture f = start();
        struct srp_peer *p = login(&f, (struct srp_peer_options) { 0 });
        struct peer_rsp r;

        (void)state;
        attend(p);
        send_read(p, 1, SLOW);
        peer_tsk_mgmt(p, 3, SLOW, SRP_TM_ABORT_TASK, 1);
        peer_tsk_mgmt(p, 4, SLOW, SRP_TM_LUN_RESET, 0);
        for (uint64_t tag = 3; tag <= 4; tag++) {
                assert_true(peer_response(p, &r));
                assert_int_equal(be64_get(r.rsp.tag), tag);
                assert_int_equal(r.response, 0);
        }
        peer_close(p);
        stop(&f);
}

static void test_what_cannot_be_managed(void **state)
{
        struct fixture f = start();
        struct srp_peer *p = login(&f, (struct srp_peer_options) { 0 });

        (void)state;
        assert_int_equal(manage(p, 1, 7, SRP_TM_LUN_RESET, 0).response, 5);
        assert_int_equal(manage(p, 2, 0, 0x20, 0).response, 4);
        assert_int_equal(manage(p, 3, 0, SRP_TM_CLEAR_ACA, 0).response, 0);
        assert_int_equal(manage(p, 4, 0, SRP_TM_CLEAR_ACA, 0).delta, 1);
        peer_close(p);
        stop(&f);
}

/* All tasks of the nexus, over all of its channels; no others. */
static void test_abort_task_set(void **state)
{
        struct fixture f = start_on(NULL, (struct srp_options) { .reactors = 2 });
        struct srp_peer *a = login(&f, (struct srp_peer_options) { 0 });
        struct srp_peer *b = login(&f, (struct srp_peer_options) { .flags = SRP_ACTION_MULTI });
        struct srp_peer *other = login(&f, (struct srp_peer_options) { .initiator = 1 });
        struct peer_rsp r;
        const struct srp_got *g;
        struct srp_logout answer = { .opcode = SRP_CRED_RSP };

        (void)state;
        attend(a);
        attend(other);
        send_read(a, 1, SLOW);
        send_read(b, 2, SLOW);
        send_read(other, 3, SLOW);
        is_good(run_cdb(b, 0, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1)); /* it has come */
        is_good(run_cdb(other, 0, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1));
        r = manage(a, 4, SLOW, SRP_TM_ABORT_TASK_SET, 0);
        assert_int_equal(r.response, 0);
        assert_int_equal(r.delta, 2);
        /* the other channel has no response to come: its credit is given back by a request */
        g = peer_next(b);
        assert_non_null(g);
        assert_int_equal(g->p[0], SRP_CRED_REQ);
        assert_int_equal(be_get(g->p + 4, 4), 1);
        assert_int_equal(b->limit, 64);
        memcpy(&answer.tag, g->p + 8, 8);
        peer_send(b, &answer, sizeof(answer));
        assert_true(peer_response(other, &r));
        is_good(r);
        is_good(run_cdb(b, 0, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1));
        peer_close(a);
        peer_close(b);
        peer_close(other);
        stop(&f);
}

/* All tasks of the unit, of whomever; who had some is told. */
static void resets(uint8_t function, uint16_t attention, bool own)
{
        struct fixture f = start_on(NULL, (struct srp_options) { .reactors = 2 });
        struct srp_peer *a = login(&f, (struct srp_peer_options) { 0 });
        struct srp_peer *other = login(&f, (struct srp_peer_options) { .initiator = 1 });
        struct peer_rsp r;
        const struct srp_got *g;

        attend(a);
        attend(other);
        send_read(a, 1, SLOW);
        send_read(other, 2, SLOW);
        is_good(run_cdb(other, 0, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1));
        r = manage(a, 3, SLOW, function, 0);
        assert_int_equal(r.response, 0);
        assert_int_equal(r.delta, 2);
        g = peer_next(other);
        assert_non_null(g);
        assert_int_equal(g->p[0], SRP_CRED_REQ);
        has_sense(run_cdb(other, SLOW, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1),
                  SCSI_UNIT_ATTENTION, attention);
        is_good(run_cdb(other, SLOW, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1));
        r = run_cdb(a, SLOW, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1);
        if (own)
                has_sense(r, SCSI_UNIT_ATTENTION, attention);
        else
                is_good(r);
        is_good(run_cdb(a, 0, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1)); /* another unit */
        peer_close(a);
        peer_close(other);
        stop(&f);
}

static void test_logical_unit_reset(void **state)
{
        (void)state;
        resets(SRP_TM_LUN_RESET, SCSI_ASC_RESET, true);
}

static void test_clear_task_set(void **state)
{
        (void)state;
        resets(SRP_TM_CLEAR_TASK_SET, SCSI_ASC_CLEARED, false);
}

/* A credit request is not repeated before it is answered, and only what was asked may be answered. */
static void test_credit_requests(void **state)
{
        struct fixture f = start();
        struct srp_peer *a = login(&f, (struct srp_peer_options) { 0 });
        struct srp_peer *b = login(&f, (struct srp_peer_options) { .flags = SRP_ACTION_MULTI });
        struct srp_logout answer = { .opcode = SRP_CRED_RSP };
        const struct srp_got *g;

        (void)state;
        attend(a);
        for (unsigned i = 0; i < 3; i++) {
                send_read(b, 1 + i, SLOW);
                is_good(run_cdb(b, 0, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1));
                assert_int_equal(manage(a, 4 + i, SLOW, SRP_TM_ABORT_TASK_SET, 0).response, 0);
                if (i > 0)
                        continue;
                g = peer_next(b);
                assert_non_null(g);
                assert_int_equal(g->p[0], SRP_CRED_REQ);
                memcpy(&answer.tag, g->p + 8, 8);
        }
        assert_true(peer_is_silent(b, 100));
        peer_send(b, &answer, sizeof(answer));
        g = peer_next(b);
        assert_non_null(g);
        assert_int_equal(g->p[0], SRP_CRED_REQ);
        assert_int_equal(b->limit, 64);
        memcpy(&answer.tag, g->p + 8, 8);
        peer_send(b, &answer, sizeof(answer));
        is_good(run_cdb(b, 0, (uint8_t[]) { SCSI_TEST_UNIT_READY }, 1));
        peer_send(b, &answer, sizeof(answer)); /* once more */
        assert_true(peer_closed(b));
        peer_close(a);
        peer_close(b);
        stop(&f);
}

/* The channel, or the whole target, goes while tasks are under way. */
static void test_gone_meanwhile(void **state)
{
        (void)state;
        for (unsigned i = 0; i < 4; i++) {
                struct fixture f = start_on(NULL, (struct srp_options) { .reactors = 2 });
                struct srp_peer *a = login(&f, (struct srp_peer_options) { 0 });
                struct srp_peer *b = login(&f, (struct srp_peer_options) { .initiator = 1 });

                attend(a);
                attend(b);
                for (uint64_t tag = 0; tag < 8; tag++)
                        send_read(b, tag, SLOW);
                peer_tsk_mgmt(a, 1, SLOW, SRP_TM_LUN_RESET, 0);
                if (i & 1)
                        verbs_disconnect(a->ep);
                if (i & 2)
                        verbs_disconnect(b->ep);
                peer_close(a);
                if (i == 3)
                        srp_server_disable(f.s);
                peer_close(b);
                stop(&f);
        }
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_whole_limit),
                cmocka_unit_test(test_overrun),
                cmocka_unit_test(test_logout_behind_requests),
                cmocka_unit_test(test_ordered),
                cmocka_unit_test(test_abort_task),
                cmocka_unit_test(test_reset_behind_an_abort),
                cmocka_unit_test(test_what_cannot_be_managed),
                cmocka_unit_test(test_abort_task_set),
                cmocka_unit_test(test_logical_unit_reset),
                cmocka_unit_test(test_clear_task_set),
                cmocka_unit_test(test_credit_requests),
                cmocka_unit_test(test_gone_meanwhile),
        };

        return cmocka_run_group_tests_name("srp_tasks", tests, NULL, NULL);
}
