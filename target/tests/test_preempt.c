/* SPDX-License-Identifier: BSD-3-Clause */
/* Preempt and Abort in a running target, while a reactor stands still: what comes meanwhile is there at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>

#include "pdu/nvme/wire/reservation.h"
#include "peer.h"
#include "target/nvme/conn.h"
#include "target/nvme/control.h"

enum { ALICE = 1, BOB, KEY = 10 }; /* a host's key is KEY + its number, unless it has another */

static struct target *start(unsigned reactors, const char *ns)
{
        const char *const list[] = { ns, NULL };
        char error[256] = "";
        struct target *t = target_start(
            &(struct target_options) {
                .trsvcid = "0", .quiet = true, .reactors = reactors, .ns = list },
            error, sizeof(error));

        if (!t)
                print_error("%s\n", error);
        assert_non_null(t);
        return t;
}

/* --- a reactor that stands still ---------------------------------------------------------------- */

struct standstill {
        struct target *target;
        unsigned skip; /* reactors before it */
        sem_t stands, go;
        pthread_t thread;
};

static void stand(struct reactor *r, void *arg)
{
        struct standstill *s = arg;

        (void)r;
        if (s->skip-- != 0)
                return;
        sem_post(&s->stands);
        sem_wait(&s->go);
}

static void *stop_reactor(void *arg)
{
        struct standstill *s = arg;

        target_each_reactor(s->target, stand, s);
        return NULL;
}

static void stop(struct standstill *s, struct target *t, unsigned reactor)
{
        *s = (struct standstill) { .target = t, .skip = reactor };
        sem_init(&s->stands, 0, 0);
        sem_init(&s->go, 0, 0);
        assert_int_equal(pthread_create(&s->thread, NULL, stop_reactor, s), 0);
        sem_wait(&s->stands);
}

static void go_on(struct standstill *s)
{
        sem_post(&s->go);
        pthread_join(s->thread, NULL);
}

/* --- hosts -------------------------------------------------------------------------------------- */

struct reserve {
        struct peer_cmd cmd;
        struct reservation_keys keys;
};

static void reserve(struct peer *p, struct reserve *r, uint8_t opc, uint32_t cdw10, uint64_t crkey,
                    uint64_t key)
{
        *r = (struct reserve) { .keys = { le64(crkey), le64(key) } };
        r->cmd.cmd.sqe.opc = opc;
        r->cmd.cmd.sqe.nsid = le32(1);
        r->cmd.cmd.sqe.cdw10 = le32(cdw10);
        r->cmd.cmd.data = (uint8_t *)&r->keys;
        r->cmd.cmd.len = sizeof(r->keys);
        r->cmd.cmd.xfer = XFER_H2C;
        peer_submit(p, &r->cmd);
}

static void register_key(struct peer *p, struct reserve *r, uint64_t key)
{
        reserve(p, r, NVME_RESERVATION_REGISTER, RREGA_REGISTER, 0, key);
}

static void preempt_and_abort(struct peer *p, struct reserve *r, uint64_t own, uint64_t other)
{
        reserve(p, r, NVME_RESERVATION_ACQUIRE,
                RACQA_PREEMPT_ABORT | WRITE_EXCLUSIVE << RESERVATION_TYPE_SHIFT, own, other);
}

static uint16_t status_of(struct peer *p, struct reserve *r)
{
        return peer_wait(p, &r->cmd);
}

static struct peer *there(struct peer *p)
{
        if (p)
                return p;
        print_error("a connection was refused\n");
        abort();
}

static struct peer *admin_of(struct target *t, uint8_t host)
{
        peer_host = host;
        return there(peer_admin(t, TARGET_NQN, (struct peer_options) { 0 }));
}

static struct peer *queue_of(struct target *t, uint8_t host, const struct peer *admin, uint16_t qid)
{
        peer_host = host;
        return there(peer_io(t, TARGET_NQN, admin, qid, (struct peer_options) { 0 }));
}

/* --- tests -------------------------------------------------------------------------------------- */

/* Each preempts the other: what a host is waited for is not that it waits. */
static void each_other(void **state)
{
        struct target *t = start(1, "mem:1M");
        struct peer *admin[2] = { admin_of(t, ALICE), admin_of(t, BOB) };
        struct peer *a = queue_of(t, ALICE, admin[0], 1), *b = queue_of(t, BOB, admin[1], 1);
        struct reserve first, second, again;
        struct standstill still;

        (void)state;
        register_key(b, &second, KEY + BOB);
        assert_int_equal(status_of(b, &second), NVME_SUCCESS);
        register_key(a, &first, KEY + ALICE); /* last, so that epoll has it first */
        assert_int_equal(status_of(a, &first), NVME_SUCCESS);
        stop(&still, t, 0);
        preempt_and_abort(a, &first, KEY + ALICE, KEY + BOB);
        register_key(b, &again, KEY);
        preempt_and_abort(b, &second, KEY, KEY + ALICE);
        go_on(&still);
        assert_int_equal(status_of(b, &again), NVME_SUCCESS);
        assert_int_equal(status_of(b, &second), NVME_SUCCESS);
        assert_int_equal(status_of(a, &first), NVME_SUCCESS);
        peer_close(a);
        peer_close(b);
        peer_close(admin[0]);
        peer_close(admin[1]);
        target_stop(t);
}

static void cut_reader(struct target_conn *c, void *arg)
{
        if (c->queue.connected && c->queue.qid == *(const uint16_t *)arg)
                c->kind->cut(c);
}

struct cut {
        struct target *target;
        uint16_t qid;
};

static void *cut_it(void *arg)
{
        struct cut *c = arg;

        target_each_conn(c->target, cut_reader, &c->qid);
        return NULL;
}

/* A queue with a Read that takes its time is asked twice, and is lost between the two. Connections go to the reactors in
 * turn: all but the reader's are on the first one. */
static void a_queue_that_is_lost_between_two(void **state)
{
        enum { READER = 5 };
        struct target *t = start(2, "mem:1M,delay=1s");
        struct cut cut = { t, READER };
        static uint8_t data[512];
        struct peer_cmd read = peer_rw(NVME_READ, 1, 0, 1, data, sizeof(data));
        struct peer *alice = admin_of(t, ALICE), *bob = admin_of(t, BOB),
                    *a = queue_of(t, ALICE, alice, 1), *reader = queue_of(t, BOB, bob, READER),
                    *b = queue_of(t, BOB, bob, 1);
        struct reserve first, second, again;
        struct standstill still;
        pthread_t cutter;

        (void)state;
        register_key(b, &again, KEY + BOB);
        assert_int_equal(status_of(b, &again), NVME_SUCCESS);
        register_key(a, &first, KEY + ALICE);
        assert_int_equal(status_of(a, &first), NVME_SUCCESS);
        peer_submit(reader, &read);
        usleep(100000);
        stop(&still, t, 1);
        preempt_and_abort(a, &first, KEY + ALICE, KEY + BOB);
        usleep(100000);
        register_key(b, &again, KEY);
        assert_int_equal(status_of(b, &again), NVME_SUCCESS);
        assert_int_equal(pthread_create(&cutter, NULL, cut_it, &cut), 0);
        usleep(100000);
        preempt_and_abort(a, &second, KEY + ALICE, KEY);
        usleep(100000);
        go_on(&still);
        pthread_join(cutter, NULL);
        assert_int_equal(status_of(a, &first), NVME_SUCCESS);
        assert_int_equal(status_of(a, &second), NVME_SUCCESS);
        assert_true(peer_closed(reader, PEER_PATIENCE));
        peer_close(a);
        peer_close(b);
        peer_close(reader);
        peer_close(alice);
        peer_close(bob);
        target_stop(t);
}

/* The preempted host has sent the first command of a fused pair, and sends no second one. */
static void half_a_pair(void **state)
{
        struct target *t = start(1, "mem:1M");
        static uint8_t data[512];
        struct peer_cmd half = peer_rw(NVME_COMPARE, 1, 0, 1, data, sizeof(data)),
                        late = peer_rw(NVME_WRITE, 1, 0, 1, data, sizeof(data));
        struct peer *alice = admin_of(t, ALICE), *bob = admin_of(t, BOB),
                    *a = queue_of(t, ALICE, alice, 1), *b = queue_of(t, BOB, bob, 1);
        struct reserve first, second;

        (void)state;
        register_key(b, &second, KEY + BOB);
        assert_int_equal(status_of(b, &second), NVME_SUCCESS);
        register_key(a, &first, KEY + ALICE);
        assert_int_equal(status_of(a, &first), NVME_SUCCESS);
        half.cmd.sqe.flags |= SQE_FUSE_FIRST;
        late.cmd.sqe.flags |= SQE_FUSE_SECOND;
        peer_submit(b, &half);
        usleep(100000);
        preempt_and_abort(a, &first, KEY + ALICE, KEY + BOB);
        assert_int_equal(status_of(a, &first), NVME_SUCCESS);
        assert_int_equal(peer_wait(b, &half), NVME_PREEMPTED);
        assert_int_not_equal(peer_run(b, &late), NVME_SUCCESS);
        peer_close(a);
        peer_close(b);
        peer_close(alice);
        peer_close(bob);
        target_stop(t);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_other),
                cmocka_unit_test(half_a_pair),
                cmocka_unit_test(a_queue_that_is_lost_between_two),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
