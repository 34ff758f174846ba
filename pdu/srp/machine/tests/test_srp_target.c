/* SPDX-License-Identifier: BSD-3-Clause */
/* The target's machine, without verbs: bounds of what is outstanding, whatever a command's descriptors are like. */
#include "pdu/core/tests/check.h"

#include <stdlib.h>

#include "pdu/srp/machine/srp_target.h"

enum { LIMIT = 4, RECVS = 8, BYTES = 4096 };

static struct world {
        struct srp_target *t;
        struct rdma_recv recv[RECVS];
        uint8_t iu[RECVS][512];
        bool free[RECVS];
        uint32_t out_len, in_len; /* of each command */
        unsigned executed, ended, buffers;
        bool no_buffers;
        struct verbs_wr *posted[256];
        unsigned n_posted;
} w;

static bool admit(void *user, struct srp_command *c)
{
        (void)user;
        c->out_len = w.out_len;
        c->in_max = w.in_len;
        return true;
}

static void execute(void *user, struct srp_command *c)
{
        (void)user;
        w.executed++;
        c->in_len = w.in_len;
        srp_command_done(c);
}

static void ended(void *user, struct srp_command *c)
{
        (void)user;
        (void)c;
        w.ended++;
}

static uint8_t *buffer_get(void *user, uint32_t len, uint32_t *lkey)
{
        (void)user;
        *lkey = 1;
        if (w.no_buffers)
                return NULL;
        w.buffers++;
        return calloc(1, len);
}

static void buffer_put(void *user, uint8_t *buf, uint32_t len)
{
        (void)user;
        (void)len;
        w.buffers--;
        free(buf);
}

static void recv_put(void *user, struct rdma_recv *rx)
{
        (void)user;
        assert_false(w.free[rx - w.recv]);
        w.free[rx - w.recv] = true;
}

static void start(uint32_t send_wrs, uint32_t reads)
{
        static const struct srp_target_ops ops = { .admit = admit,
                                                   .execute = execute,
                                                   .manage = execute,
                                                   .ended = ended,
                                                   .buffer_get = buffer_get,
                                                   .buffer_put = buffer_put,
                                                   .recv_put = recv_put };
        const struct srp_target_config cfg = {
                .granted = { .opcode = SRP_LOGIN_RSP,
                             .req_lim_delta = be32(LIMIT),
                             .buf_fmt = be16(SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT) },
                .send_wrs = send_wrs,
                .reads = reads,
                .inline_bytes = SRP_IU_OUT,
        };

        memset(&w, 0, sizeof(w));
        memset(w.free, true, sizeof(w.free));
        w.t = srp_target_new(&cfg, &ops, NULL);
        assert_non_null(w.t);
}

static void stop(void)
{
        srp_target_free(w.t);
        assert_int_equal(w.buffers, 0);
        for (unsigned i = 0; i < RECVS; i++)
                assert_true(w.free[i]);
}

static enum srp_verdict say(const void *iu, uint32_t n)
{
        unsigned i = 0;

        while (!w.free[i])
                i++;
        w.free[i] = false;
        memcpy(w.iu[i], iu, n);
        w.recv[i] = (struct rdma_recv) {
                .wr = { .op = VERBS_RECV, .n_sge = 1, .sge = { { w.iu[i], sizeof(w.iu[i]), 1 } } },
                .bytes = n
        };
        return srp_target_received(w.t, &w.recv[i]);
}

/* A command with a table of so many entries, in line. */
static enum srp_verdict say_cmd(uint64_t tag, bool out, unsigned pieces)
{
        uint8_t p[512] = { 0 };
        struct srp_cmd c = { .opcode = SRP_CMD, .tag = be64(tag) };
        uint32_t n = sizeof(c) + SRP_TABLE_LEN;

        c.buf_fmt = (uint8_t)(out ? SRP_INDIRECT << 4 : SRP_INDIRECT);
        c.out_count = out ? (uint8_t)pieces : 0;
        c.in_count = out ? 0 : (uint8_t)pieces;
        memcpy(p, &c, sizeof(c));
        srp_desc_put(p + sizeof(c), &(struct srp_desc) { 0x1000, 1, pieces * SRP_DESC_LEN });
        be_put(p + sizeof(c) + SRP_DESC_LEN, 4, BYTES);
        for (unsigned i = 0; i < pieces; i++, n += SRP_DESC_LEN)
                srp_desc_put(p + n, &(struct srp_desc) { 0x10000 + i * 4096u, 2, BYTES / pieces });
        return say(p, n);
}

/* Posts what is ready; how many of that kind were posted, in all. */
static unsigned post(enum verbs_op op)
{
        unsigned n = 0;

        for (struct verbs_wr *wr = srp_target_take(w.t), *next; wr; wr = next) {
                next = wr->next;
                w.posted[w.n_posted++] = wr;
        }
        for (unsigned i = 0; i < w.n_posted; i++)
                n += w.posted[i]->op == op;
        return n;
}

/* The oldest is done, and all that are not signaled before it. */
static void complete(void)
{
        struct verbs_wr *wr;

        do {
                wr = w.posted[0];
                memmove(w.posted, w.posted + 1, --w.n_posted * sizeof(w.posted[0]));
        } while (!(wr->flags & VERBS_SIGNALED));
        assert_false(srp_target_completed(w.t, &(struct verbs_wc) { .wr = wr }));
}

static void test_reads_are_bounded(void **state)
{
        (void)state;
        for (unsigned reads = 1; reads <= 3; reads++) {
                unsigned sends;

                start(64, reads);
                w.out_len = BYTES;
                assert_int_equal(say_cmd(1, true, 8), SRP_GOES_ON);
                assert_int_equal(say_cmd(2, true, 4), SRP_GOES_ON);
                for (unsigned left = 12; left > 0; left--) {
                        assert_int_equal(post(VERBS_READ), left < reads ? left : reads);
                        assert_int_equal(w.executed, left > 4 ? 0 : 1);
                        while (w.posted[0]->op != VERBS_READ)
                                complete(); /* a response */
                        complete();
                }
                assert_int_equal(w.executed, 2);
                sends = post(VERBS_SEND);
                assert_int_equal(sends, w.n_posted);
                while (w.n_posted > 0)
                        complete();
                assert_int_equal(w.ended, 2);
                stop();
        }
}

/* However many pieces it has, and however small the queue is. */
static void test_send_queue_is_never_overrun(void **state)
{
        (void)state;
        for (unsigned size = 8; size <= 40; size += 3)
                for (unsigned pieces = 1; pieces <= 24; pieces++) {
                        unsigned writes = 0, sends = 0;

                        start(size, 4);
                        w.in_len = BYTES;
                        for (uint64_t tag = 0; tag < 3; tag++)
                                assert_int_equal(say_cmd(tag, false, pieces), SRP_GOES_ON);
                        for (unsigned turns = 0; sends < 3 && turns < 1000; turns++) {
                                (void)post(VERBS_WRITE);
                                assert_true(w.n_posted > 0 && w.n_posted <= size);
                                for (bool signaled = false; !signaled;) {
                                        const struct verbs_wr *wr = w.posted[0];

                                        writes += wr->op == VERBS_WRITE;
                                        sends += wr->op == VERBS_SEND;
                                        signaled = wr->flags & VERBS_SIGNALED;
                                        if (signaled)
                                                complete();
                                        else
                                                memmove(w.posted, w.posted + 1,
                                                        --w.n_posted * sizeof(w.posted[0]));
                                }
                        }
                        assert_int_equal(writes, 3 * pieces);
                        assert_int_equal(sends, 3);
                        stop();
                }
}

/* Buffers come back in whatever order: first come, first served. */
static void test_without_buffers(void **state)
{
        (void)state;
        start(64, 4);
        w.out_len = BYTES;
        w.no_buffers = true;
        for (uint64_t tag = 0; tag < 3; tag++)
                assert_int_equal(say_cmd(tag, true, 1), SRP_GOES_ON);
        srp_target_feed(w.t);
        assert_int_equal(post(VERBS_READ), 0);
        srp_command_abort(srp_target_first(w.t));
        assert_int_equal(w.ended, 1);
        w.no_buffers = false;
        srp_target_feed(w.t);
        assert_int_equal(post(VERBS_READ), 2);
        stop();
}

/* What executes, or is on its way, when the queue pair ends: each goes back once. */
static void test_end_in_each_step(void **state)
{
        (void)state;
        for (unsigned step = 0; step < 6; step++) {
                start(64, 2);
                w.out_len = step < 5 ? BYTES : 0;
                w.in_len = step < 5 ? 0 : BYTES;
                w.no_buffers = step == 0;
                assert_int_equal(say_cmd(1, step < 5, 4), SRP_GOES_ON);
                if (step > 1)
                        (void)post(VERBS_READ);
                for (unsigned i = 2; i < step && w.n_posted > 0; i++)
                        complete();
                if (step == 4)
                        srp_target_stop(w.t);
                srp_target_end(w.t);
                assert_int_equal(w.ended, 1);
                stop();
        }
}

static void test_failure_keeps_everything(void **state)
{
        (void)state;
        start(64, 4);
        w.out_len = BYTES;
        assert_int_equal(say_cmd(1, true, 4), SRP_GOES_ON);
        assert_int_equal(post(VERBS_READ), 4);
        assert_true(srp_target_completed(
            w.t, &(struct verbs_wc) { .wr = w.posted[0], .status = VERBS_REMOTE_ACCESS }));
        assert_int_equal(w.buffers, 1); /* others may still write to it */
        for (unsigned i = 1; i < 4; i++)
                assert_true(srp_target_completed(
                    w.t, &(struct verbs_wc) { .wr = w.posted[i], .status = VERBS_FLUSHED }));
        assert_int_equal(w.buffers, 1);
        assert_int_equal(say_cmd(2, true, 4), SRP_GOES_ON);
        assert_null(srp_target_take(w.t));
        srp_target_end(w.t);
        assert_int_equal(w.buffers, 0);
        stop();
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_reads_are_bounded),
                cmocka_unit_test(test_send_queue_is_never_overrun),
                cmocka_unit_test(test_without_buffers),
                cmocka_unit_test(test_end_in_each_step),
                cmocka_unit_test(test_failure_keeps_everything),
        };

        return cmocka_run_group_tests_name("srp_target_machine", tests, NULL, NULL);
}
