/* SPDX-License-Identifier: BSD-3-Clause */
/* The target over RDMA in memory, under a host of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>
#include <unistd.h>

#include "pdu/io/log.h"
#include "pdu/nvme/wire/discovery.h"
#include "peer.h"
#include "rdma_peer.h"
#include "target/engine/reactor.h"
#include "target/nvme/config.h"
#include "target/nvme/conn.h"
#include "target/nvme/control.h"

#define NQN TARGET_NQN

static char error[512];

struct fixture {
        struct verbs_provider *v;
        struct target *t;
};

static struct fixture start_on(const struct memory_caps *caps, struct target_options o)
{
        struct fixture f = { .v = verbs_memory_new(caps) };

        o.trtype = TRTYPE_RDMA;
        o.verbs = f.v;
        o.trsvcid = "0";
        o.quiet = true;
        f.t = target_start(&o, error, sizeof(error));
        if (!f.t)
                print_error("%s\n", error);
        assert_non_null(f.t);
        return f;
}

static struct fixture start(void)
{
        return start_on(NULL, (struct target_options) { 0 });
}

/* Whatever the tests did, nothing of it may be left. */
static void stop(struct fixture *f)
{
        struct memory_count c;

        target_stop(f->t);
        c = verbs_memory_leaks(f->v);
        assert_int_equal(c.contexts, 0);
        assert_int_equal(c.listeners, 0);
        assert_int_equal(c.eps, 0);
        assert_int_equal(c.qps, 0);
        assert_int_equal(c.mrs, 0);
        verbs_memory_free(f->v);
}

/* --- commands --------------------------------------------------------------------------------- */

static void write_and_read(struct rpeer *io, uint32_t blocks, uint64_t lba)
{
        uint8_t *out = rpeer_alloc(io, blocks * 512), *in = rpeer_alloc(io, blocks * 512);
        struct rpeer_cmd w = rpeer_rw(NVME_WRITE, lba, blocks, out);
        struct rpeer_cmd r = rpeer_rw(NVME_READ, lba, blocks, in);

        for (uint32_t i = 0; i < blocks * 512; i++)
                out[i] = (uint8_t)(i * 7 + lba + (i >> 9));
        assert_int_equal(rpeer_run(io, &w), NVME_SUCCESS);
        assert_int_equal(rpeer_run(io, &r), NVME_SUCCESS);
        assert_memory_equal(in, out, blocks * 512);
}

static void sizes(struct fixture *f, uint32_t in_capsule, uint16_t icdoff)
{
        struct rpeer *admin = rpeer_admin(f->v, f->t, NQN), *io;

        assert_non_null(admin);
        io = rpeer_io(f->v, f->t, NQN, admin,
                      (struct rpeer_options) {
                          .qid = 1, .entries = 128, .in_capsule = in_capsule, .icdoff = icdoff });
        assert_non_null(io);
        assert_int_equal(io->crqsize, 128);
        write_and_read(io, 1, 0);
        write_and_read(io, 8, 3);
        write_and_read(io, 9, 100);
        write_and_read(io, 256, 1000);
        write_and_read(io, 2048, 5000);
        rpeer_close(io);
        rpeer_close(admin);
}

static void test_data_of_all_sizes(void **state)
{
        struct fixture f = start();

        (void)state;
        sizes(&f, 0, 0);
        sizes(&f, 4096, 0);
        stop(&f);
}

static void test_icdoff(void **state)
{
        struct fixture f = start_on(NULL, (struct target_options) { .icdoff = 2 });

        (void)state;
        sizes(&f, 4096, 2);
        stop(&f);
}

static void test_no_in_capsule(void **state)
{
        struct fixture f = start_on(NULL, (struct target_options) { .no_in_capsule = true });

        (void)state;
        sizes(&f, 0, 0);
        stop(&f);
        f = start_on(NULL, (struct target_options) { .limits.rdma_in_capsule = TARGET_NONE });
        sizes(&f, 0, 0);
        stop(&f);
}

static void test_device_without_srq_or_inline(void **state)
{
        struct memory_caps caps;
        struct fixture f;

        (void)state;
        memory_caps_default(&caps);
        caps.device.srq_wrs = 0;
        caps.device.inline_bytes = 0;
        f = start_on(&caps, (struct target_options) { 0 });
        sizes(&f, 4096, 0);
        stop(&f);
}

/* --- connect requests ------------------------------------------------------------------------- */

static void rejects(struct fixture *f, struct rpeer_options o, uint16_t sts)
{
        struct rpeer *p = rpeer_open(f->v, f->t, o);

        assert_true(p->rejected);
        assert_false(p->established);
        assert_int_equal(p->sts, sts);
        rpeer_close(p);
}

static void test_rejections(void **state)
{
        struct memory_caps caps;
        struct fixture f;
        struct rdma_request r = { .hrqsize = le16(32), .hsqsize = le16(31) }, x;

        (void)state;
        memory_caps_default(&caps);
        caps.no_padding = true;
        f = start_on(&caps,
                     (struct target_options) { .limits.queue_entries = 64, .limits.queues = 4 });
        rejects(&f, (struct rpeer_options) { .data = &r, .len = 31 }, RDMA_REJECT_LENGTH);
        rejects(&f, (struct rpeer_options) { .data = "", .len = 0 }, RDMA_REJECT_LENGTH);
        x = r, x.recfmt = le16(1);
        rejects(&f, (struct rpeer_options) { .data = &x, .len = 32 }, RDMA_REJECT_RECFMT);
        rejects(&f, (struct rpeer_options) { .qid = 5 }, RDMA_REJECT_QID);
        rejects(&f, (struct rpeer_options) { .qid = 1, .entries = 65 }, RDMA_REJECT_HSQSIZE);
        x = r, x.hsqsize = le16(0);
        rejects(&f, (struct rpeer_options) { .data = &x, .len = 32 }, RDMA_REJECT_HSQSIZE);
        x = r, x.hsqsize = le16(0xffff);
        rejects(&f, (struct rpeer_options) { .data = &x, .len = 32 }, RDMA_REJECT_HSQSIZE);
        x = r, x.hrqsize = le16(0);
        rejects(&f, (struct rpeer_options) { .data = &x, .len = 32 }, RDMA_REJECT_HRQSIZE);
        x = r, x.cntlid = le16(7);
        rejects(&f, (struct rpeer_options) { .data = &x, .len = 32 }, RDMA_REJECT_CNTLID);
        rejects(&f, (struct rpeer_options) { .no_reads = true }, RDMA_REJECT_IRD);
        stop(&f);
}

/* QID and SQSIZE of Connect have been named before. */
/* A pipe that is full, at both ends of which nobody is. */
static void make_full(int ends[2])
{
        static const char some[4096];

        assert_int_equal(pipe(ends), 0);
        assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
        while (write(ends[1], some, sizeof(some)) > 0)
                ;
        assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
        assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
}

static void test_a_log_that_nobody_reads_stops_nothing(void **state)
{
        enum { MANY = 600 };
        struct fixture f = { .v = verbs_memory_new(NULL) };
        struct target_options o = { .trtype = TRTYPE_RDMA, .verbs = f.v, .trsvcid = "0" };
        struct rdma_request r = { .recfmt = le16(1), .hrqsize = le16(32), .hsqsize = le16(31) };
        char some[4096];
        struct rpeer *admin;
        int ends[2];

        (void)state;
        make_full(ends);
        log_start(ends[1], LOG_AS_INFO, false);
        f.t = target_start(&o, error, sizeof(error));
        assert_non_null(f.t);
        for (unsigned i = 0; i < MANY; i++)
                rejects(&f, (struct rpeer_options) { .data = &r, .len = 32 }, RDMA_REJECT_RECFMT);
        admin = rpeer_admin(f.v, f.t, NQN);
        assert_non_null(admin);
        assert_false(log_flush(1)); /* nobody has read */
        rpeer_close(admin);
        stop(&f);
        while (!log_flush(1))
                while (read(ends[0], some, sizeof(some)) > 0)
                        ;
        log_start(STDERR_FILENO, LOG_AS_INFO, false);
        close(ends[0]);
        close(ends[1]);
}

static void test_connect_differs_from_private_data(void **state)
{
        struct fixture f = start();
        struct rdma_request r = { .hrqsize = le16(32), .hsqsize = le16(30) };
        struct rpeer *p;

        (void)state;
        p = rpeer_open(f.v, f.t, (struct rpeer_options) { .data = &r, .len = sizeof(r) });
        assert_true(p->established);
        assert_int_equal(rpeer_connect_queue(p, NQN, CNTLID_DYNAMIC), NVME_CONNECT_PARAM);
        rpeer_close(p);
        r.qid = le16(1);
        r.hsqsize = le16(31);
        p = rpeer_open(f.v, f.t, (struct rpeer_options) { .data = &r, .len = sizeof(r) });
        assert_true(p->established);
        assert_int_equal(rpeer_connect_queue(p, NQN, CNTLID_DYNAMIC), NVME_CONNECT_PARAM);
        rpeer_close(p);
        stop(&f);
}

/* When the target has let go of who went before. */
static struct rpeer *rpeer_io_at_last(struct fixture *f, struct rpeer *admin, uint16_t qid,
                                      uint16_t entries)
{
        struct rpeer_options o = { .qid = qid, .entries = entries, .no_rnr_retry = true };
        struct rpeer *io = NULL;

        for (uint64_t until = loop_now_ms() + RPEER_PATIENCE; !io && loop_now_ms() < until;) {
                io = rpeer_io(f->v, f->t, NQN, admin, o);
                if (!io)
                        usleep(10000);
        }
        assert_non_null(io);
        return io;
}

/* With a small SRQ, three quarters of which are one address's, late comers get a smaller CRQSIZE, or, if they can't bear RNR, none. */
static void test_receives_are_promised_once(void **state)
{
        struct fixture f = start_on(NULL, (struct target_options) { .limits.receives = 128 });
        struct rpeer *admin = rpeer_admin(f.v, f.t, NQN), *a, *b;

        (void)state;
        assert_non_null(admin);
        a = rpeer_io(f.v, f.t, NQN, admin, (struct rpeer_options) { .qid = 1, .entries = 48 });
        assert_non_null(a);
        assert_int_equal(a->crqsize, 48);
        rejects(&f, (struct rpeer_options) { .qid = 2, .entries = 64, .no_rnr_retry = true },
                RDMA_REJECT_RESOURCES);
        b = rpeer_io(f.v, f.t, NQN, admin, (struct rpeer_options) { .qid = 2, .entries = 64 });
        assert_non_null(b);
        assert_int_equal(b->crqsize, 16);
        rejects(&f, (struct rpeer_options) { .qid = 3 }, RDMA_REJECT_RESOURCES);
        write_and_read(b, 8, 0);
        rpeer_close(a);
        rpeer_close(b);
        a = rpeer_io_at_last(&f, admin, 3, 64);
        assert_int_equal(a->crqsize, 64);
        rpeer_close(a);
        rpeer_close(admin);
        stop(&f);
}

/* ... as soon as they ask for a connection, whoever they are. */
static void test_one_address_does_not_have_all_receives(void **state)
{
        struct fixture f =
            start_on(NULL, (struct target_options) { .traddr = "0.0.0.0", .limits.receives = 128 });
        struct rpeer_options a = { .qid = 1, .entries = 48, .at = "127.0.0.2" };
        struct rpeer_options b = { .at = "127.0.0.3", .no_rnr_retry = true };
        struct rpeer *first, *second, *other;
        uint64_t until = loop_now_ms() + RPEER_PATIENCE;

        (void)state;
        first = rpeer_open(f.v, f.t, a);
        second = rpeer_open(f.v, f.t, a);
        assert_true(first->established && second->established);
        rejects(&f, a, RDMA_REJECT_RESOURCES);
        other = rpeer_open(f.v, f.t, b);
        assert_true(other->established);
        assert_int_equal(other->crqsize, 32);
        rpeer_close(other);
        rpeer_close(first);
        for (first = NULL; !first || !first->established; first = rpeer_open(f.v, f.t, a)) {
                if (first)
                        rpeer_close(first);
                assert_true(loop_now_ms() < until);
                usleep(10000); /* when the target has let go */
        }
        rpeer_close(first);
        rpeer_close(second);
        stop(&f);
}

static void test_flood(void **state)
{
        enum { MANY = 100, MOST = 20 };
        struct fixture f = start_on(NULL, (struct target_options) { .limits.connections = MOST,
                                                                    .limits.host_connections = MOST,
                                                                    .reactors = 2 });
        struct rpeer *p[MANY], *again = NULL;
        unsigned in = 0, out = 0;

        (void)state;
        for (unsigned i = 0; i < MANY; i++) {
                p[i] = rpeer_open(f.v, f.t, (struct rpeer_options) { 0 });
                in += p[i]->established;
                out += p[i]->rejected && p[i]->sts == RDMA_REJECT_RESOURCES;
        }
        assert_int_equal(in, MOST);
        assert_int_equal(out, MANY - MOST);
        for (unsigned i = 0; i < MANY; i++)
                rpeer_close(p[i]);
        for (uint64_t until = loop_now_ms() + RPEER_PATIENCE; !again;) {
                assert_true(loop_now_ms() < until);
                again = rpeer_admin(f.v, f.t, NQN);
                if (!again)
                        usleep(10000);
        }
        rpeer_close(again);
        stop(&f);
}

/* --- turns ------------------------------------------------------------------------------------ */

struct gate { /* stops a reactor once in each of its turns */
        struct loop_message message;
        struct reactor *reactor;
        sem_t stopped, go;
        bool open;
};

static void on_gate(struct loop_message *m)
{
        struct gate *g = (struct gate *)m;

        sem_post(&g->stopped);
        sem_wait(&g->go);
        if (!g->open)
                loop_post(&g->reactor->loop, &g->message);
}

static void note_reactor(struct reactor *r, void *arg)
{
        *(struct reactor **)arg = r;
}

static void gate_close(struct gate *g, struct target *t)
{
        *g = (struct gate) { .message.run = on_gate };
        sem_init(&g->stopped, 0, 0);
        sem_init(&g->go, 0, 0);
        target_each_reactor(t, note_reactor, &g->reactor);
        loop_post(&g->reactor->loop, &g->message);
        sem_wait(&g->stopped);
}

static void gate_turn(struct gate *g)
{
        sem_post(&g->go);
        sem_wait(&g->stopped);
}

static void gate_open(struct gate *g, struct target *t)
{
        struct reactor *r;

        g->open = true;
        sem_post(&g->go);
        target_each_reactor(t, note_reactor, &r); /* it is out of the message */
        sem_destroy(&g->stopped);
        sem_destroy(&g->go);
}

enum { MANY = 32, DEEP = 64 };

struct deep { /* a queue with as many commands outstanding as it has room for */
        struct rpeer *io;
        struct rpeer_cmd cmd[DEEP - 1];
        unsigned done;
};

static void deep_submit(struct deep *d, struct rpeer_cmd *c)
{
        *c = (struct rpeer_cmd) { .cmd.sqe = { .opc = NVME_FLUSH, .nsid = le32(1) } };
        c->cmd.xfer = sqe_xfer(&c->cmd.sqe);
        rpeer_submit(d->io, c);
}

static void deep_open(struct deep *d, struct fixture *f, struct rpeer *admin, uint16_t qid,
                      const char *host)
{
        struct rpeer_options o = { .qid = qid, .entries = DEEP, .host = host };

        d->io = rpeer_io(f->v, f->t, NQN, admin, o);
        assert_non_null(d->io);
        assert_int_equal(d->io->crqsize, DEEP);
}

static void deep_fill(struct deep *d)
{
        for (unsigned i = 0; i < DEEP - 1; i++)
                deep_submit(d, &d->cmd[i]);
        d->done = 0;
}

static void deep_go_on(struct deep *d)
{
        while (rpeer_poll(d->io))
                ;
        for (unsigned i = 0; i < DEEP - 1; i++) {
                if (!d->cmd[i].done)
                        continue;
                assert_int_equal(d->cmd[i].status, NVME_SUCCESS);
                d->done++;
                deep_submit(d, &d->cmd[i]);
        }
}

static void deep_turns(struct gate *g, struct deep many[MANY], struct deep *one, unsigned turns)
{
        for (unsigned i = 0; i < MANY; i++)
                many[i].done = 0;
        one->done = 0;
        while (turns-- > 0) {
                gate_turn(g);
                for (unsigned i = 0; i < MANY; i++)
                        deep_go_on(&many[i]);
                deep_go_on(one);
        }
}

/* Counted in turns of the reactor: the host with one queue is served about as much as the other, and each
 * queue of that as well. */
static void test_a_host_with_many_queues_has_one_share_of_a_turn(void **state)
{
        static const char other[] = "nqn.2026-01.io.nvmfspec:other-host";
        enum { TURNS = 100 };
        static struct deep many[MANY], one;
        static struct gate g;
        struct fixture f =
            start_on(NULL, (struct target_options) { .limits.receives = 8192,
                                                     .limits.connections = 64,
                                                     .limits.host_connections = 64 });
        struct rpeer *admin = rpeer_admin(f.v, f.t, NQN);
        struct rpeer *other_admin = rpeer_admin_of(f.v, f.t, NQN, other);
        unsigned all = 0, least = UINT_MAX;

        (void)state;
        assert_non_null(admin);
        assert_non_null(other_admin);
        for (unsigned i = 0; i < MANY; i++)
                deep_open(&many[i], &f, admin, (uint16_t)(i + 1), NULL);
        deep_open(&one, &f, other_admin, 1, other);
        gate_close(&g, f.t);
        for (unsigned i = 0; i < MANY; i++)
                deep_fill(&many[i]);
        deep_fill(&one);
        deep_turns(&g, many, &one, 20); /* what came at once is shared by then */
        deep_turns(&g, many, &one, TURNS);
        gate_open(&g, f.t);
        for (unsigned i = 0; i < MANY; i++) {
                all += many[i].done;
                least = many[i].done < least ? many[i].done : least;
                rpeer_close(many[i].io);
        }
        print_message("%u turns: %u of %u queues, %u of one\n", TURNS, all, MANY, one.done);
        rpeer_close(one.io);
        rpeer_close(admin);
        rpeer_close(other_admin);
        stop(&f);
        assert_true(one.done >= 10 * TURNS);
        assert_true(all >= 10 * TURNS && all <= 8 * one.done);
        assert_true(least >= all / MANY / 4);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void test_dreq_is_answered(void **state)
{
        struct fixture f = start();
        struct rpeer *p;

        (void)state;
        p = rpeer_open(f.v, f.t, (struct rpeer_options) { 0 });
        assert_true(p->established);
        assert_true(rpeer_disconnect(p)); /* before Connect */
        rpeer_close(p);
        p = rpeer_admin(f.v, f.t, NQN);
        assert_non_null(p);
        assert_true(rpeer_disconnect(p));
        rpeer_close(p);
        stop(&f);
}

static struct rpeer_cmd disconnect_cmd(void)
{
        struct rpeer_cmd c = { 0 };

        c.cmd.sqe.property.opc = NVME_FABRICS;
        c.cmd.sqe.property.fctype = FCTYPE_DISCONNECT;
        return c;
}

/* The queue goes after its last response. */
static void test_disconnect_command(void **state)
{
        struct fixture f = start();
        struct rpeer *admin = rpeer_admin(f.v, f.t, NQN), *io;
        struct rpeer_cmd c = disconnect_cmd();

        (void)state;
        assert_non_null(admin);
        io = rpeer_io(f.v, f.t, NQN, admin, (struct rpeer_options) { .qid = 1 });
        assert_non_null(io);
        write_and_read(io, 8, 0);
        assert_int_equal(rpeer_run(io, &c), NVME_SUCCESS);
        assert_true(rpeer_closed(io, RPEER_PATIENCE));
        rpeer_close(io);
        io = rpeer_io(f.v, f.t, NQN, admin, (struct rpeer_options) { .qid = 1 });
        assert_non_null(io);
        rpeer_close(io);
        rpeer_close(admin);
        stop(&f);
}

/* The I/O queues go with the admin queue. */
static void test_association_ends(void **state)
{
        struct fixture f = start_on(NULL, (struct target_options) { .reactors = 3 });
        struct rpeer *admin = rpeer_admin(f.v, f.t, NQN), *io[3];

        (void)state;
        assert_non_null(admin);
        for (uint16_t i = 0; i < 3; i++) {
                io[i] = rpeer_io(f.v, f.t, NQN, admin,
                                 (struct rpeer_options) { .qid = (uint16_t)(i + 1) });
                assert_non_null(io[i]);
                write_and_read(io[i], 8, i);
        }
        assert_true(rpeer_disconnect(admin));
        for (unsigned i = 0; i < 3; i++) {
                assert_true(rpeer_closed(io[i], RPEER_PATIENCE));
                rpeer_close(io[i]);
        }
        rpeer_close(admin);
        stop(&f);
}

static void test_who_never_connects_is_dropped(void **state)
{
        struct fixture f = start_on(NULL, (struct target_options) { .limits.ic_timeout = 300 });
        struct rpeer *p = rpeer_open(f.v, f.t, (struct rpeer_options) { 0 });

        (void)state;
        for (unsigned again = 4; !p->established && again > 0; again--) { /* a stall of ours */
                print_message("not established within 300 ms: again, %u left\n", again);
                rpeer_close(p);
                p = rpeer_open(f.v, f.t, (struct rpeer_options) { 0 });
        }
        assert_true(p->established);
        assert_true(rpeer_closed(p, RPEER_PATIENCE));
        rpeer_close(p);
        stop(&f);
}

/* With RNR retries forever nothing fails: it would hold what it has for as long as it likes. */
static void test_who_posts_no_receives_is_dropped(void **state)
{
        struct fixture f = start_on(NULL, (struct target_options) { .limits.stall_timeout = 300 });
        struct rpeer *admin = rpeer_admin(f.v, f.t, NQN), *bad;
        uint64_t since = loop_now_ms();

        (void)state;
        assert_non_null(admin);
        bad = rpeer_io(f.v, f.t, NQN, admin, (struct rpeer_options) { .qid = 1 });
        assert_non_null(bad);
        bad->no_receives = true;
        for (unsigned i = 0; i < 100 && !bad->disconnected; i++) {
                struct rpeer_cmd c = { .cmd.sqe = { .opc = NVME_FLUSH, .nsid = le32(1) } };

                rpeer_run(bad, &c);
        }
        assert_true(bad->disconnected);
        assert_in_range(loop_now_ms() - since, 300, RPEER_PATIENCE);
        assert_false(rpeer_closed(admin, 300));
        rpeer_close(bad);
        rpeer_close(admin);
        stop(&f);
}

/* Sends what its host machine knows nothing of, so that completions are left alone from here on. */
static void send_raw(struct rpeer *p, uint32_t bytes)
{
        struct verbs_wr wr = { .op = VERBS_SEND, .flags = VERBS_SIGNALED, .n_sge = 1 }, *no;

        assert_true(p->established);
        wr.sge[0] = (struct verbs_sge) { p->arena + RPEER_ARENA / 2, bytes, p->mr.lkey };
        assert_int_equal(verbs_post(p->ep, &wr, &no), 0);
}

static void is_disconnected(struct rpeer *p)
{
        for (uint64_t until = loop_now_ms() + RPEER_PATIENCE;
             !p->disconnected && loop_now_ms() < until;) {
                struct verbs_event e;

                while (verbs_event(p->context, &e))
                        rpeer_note(p, &e);
                usleep(1000);
        }
        assert_true(p->disconnected);
}

/* A capsule that is no command ends the queue, and it alone. */
static void test_fault_ends_the_queue(void **state)
{
        struct fixture f = start();
        struct rpeer *admin = rpeer_admin(f.v, f.t, NQN), *bad, *bad2;

        (void)state;
        assert_non_null(admin);
        bad = rpeer_open(f.v, f.t, (struct rpeer_options) { 0 });
        send_raw(bad, 63);
        bad2 = rpeer_open(f.v, f.t, (struct rpeer_options) { 0 });
        assert_true(bad2->established);
        rpeer_close(bad2); /* without a word */
        is_disconnected(bad);
        rpeer_close(bad);
        bad = rpeer_io(f.v, f.t, NQN, admin, (struct rpeer_options) { .qid = 1 });
        assert_non_null(bad);
        write_and_read(bad, 8, 0);
        rpeer_close(bad);
        rpeer_close(admin);
        stop(&f);
}

/* A receive that failed may be the last of its chunk, which goes when queues have gone. */
static void test_failed_receives_are_given_up(void **state)
{
        enum { QUEUES = 7, FAILURES = 300 };
        struct fixture f = start();
        struct rpeer *admin = rpeer_admin(f.v, f.t, NQN), *io[QUEUES];

        (void)state;
        assert_non_null(admin);
        for (uint16_t i = 0; i < QUEUES; i++)
                io[i] = rpeer_io(f.v, f.t, NQN, admin,
                                 (struct rpeer_options) { .qid = i + 1, .entries = 128 });
        for (unsigned i = 0; i < QUEUES; i++) {
                assert_non_null(io[i]);
                rpeer_close(io[i]);
        }
        for (unsigned i = 0; i < FAILURES; i++) {
                struct rpeer *bad = rpeer_open(f.v, f.t, (struct rpeer_options) { 0 });

                send_raw(bad, RPEER_ARENA / 4); /* longer than any receive */
                is_disconnected(bad);
                rpeer_close(bad);
        }
        rpeer_close(admin);
        stop(&f);
}

enum { FLIGHT = 60 };

static void fly(struct rpeer *io, struct rpeer_cmd *c, uint8_t *data)
{
        for (unsigned i = 0; i < FLIGHT; i++) {
                c[i] = rpeer_rw(i % 2 ? NVME_READ : NVME_WRITE, i * 64, 64, data);
                rpeer_submit(io, &c[i]);
        }
}

/* Whoever goes in the middle of it. */
static void test_gone_with_commands_in_flight(void **state)
{
        struct fixture f = start_on(NULL, (struct target_options) { .reactors = 2 });

        (void)state;
        for (unsigned round = 0; round < 30; round++) {
                struct rpeer *admin = rpeer_admin(f.v, f.t, NQN), *io;
                struct rpeer_cmd c[FLIGHT];

                assert_non_null(admin);
                io = rpeer_io(f.v, f.t, NQN, admin,
                              (struct rpeer_options) { .qid = 1, .entries = 64 });
                assert_non_null(io);
                fly(io, c, rpeer_alloc(io, 64 * 512));
                if (round % 3 == 0)
                        assert_true(rpeer_disconnect(io));
                if (round % 3 == 1)
                        verbs_fail(io->ep);
                if (round % 2)
                        rpeer_close(admin);
                rpeer_close(io);
                if (round % 2 == 0)
                        rpeer_close(admin);
        }
        stop(&f);
}

static void test_stop_with_commands_in_flight(void **state)
{
        (void)state;
        for (unsigned round = 0; round < 3; round++) {
                struct fixture f = start_on(NULL, (struct target_options) { .reactors = 2 });
                struct rpeer *admin = rpeer_admin(f.v, f.t, NQN), *io;
                struct rpeer_cmd c[FLIGHT];

                assert_non_null(admin);
                io = rpeer_io(f.v, f.t, NQN, admin,
                              (struct rpeer_options) { .qid = 1, .entries = 64 });
                assert_non_null(io);
                fly(io, c, rpeer_alloc(io, 64 * 512));
                target_stop(f.t);
                assert_true(rpeer_closed(io, RPEER_PATIENCE));
                assert_true(rpeer_closed(admin, RPEER_PATIENCE));
                rpeer_close(io);
                rpeer_close(admin);
                assert_int_equal(verbs_memory_leaks(f.v).qps, 0);
                verbs_memory_free(f.v);
        }
}

/* --- the device ------------------------------------------------------------------------------- */

static void remove_device(struct memory_fabric *fabric, void *arg)
{
        (void)arg;
        memory_remove(fabric, NULL);
}

/* The target survives it, and ends with nothing left. */
static void test_device_removed_with_commands_in_flight(void **state)
{
        (void)state;
        for (unsigned round = 0; round < 10; round++) {
                struct fixture f = start_on(NULL, (struct target_options) { .reactors = 2 });
                struct rpeer *admin = rpeer_admin(f.v, f.t, NQN), *io;
                struct rpeer_cmd c[FLIGHT];

                assert_non_null(admin);
                io = rpeer_io(f.v, f.t, NQN, admin,
                              (struct rpeer_options) { .qid = 1, .entries = 64 });
                assert_non_null(io);
                fly(io, c, rpeer_alloc(io, 64 * 512));
                verbs_memory_do(f.v, remove_device, NULL);
                assert_true(rpeer_until(io, &io->removed, RPEER_PATIENCE));
                usleep(round * 1000);
                rpeer_close(io);
                rpeer_close(admin);
                stop(&f);
        }
}

struct refusal {
        enum memory_what what;
        unsigned nth;
};

static void refuse(struct memory_fabric *fabric, void *arg)
{
        const struct refusal *r = arg;

        memory_refuse(fabric, r->what, r->nth);
}

/* Whatever of the device's is short at whatever moment: that host is turned away or served, nothing
 * leaks, the next one is served. */
static void short_of(enum memory_what what, const struct memory_caps *caps)
{
        for (unsigned nth = 1; nth < 12; nth++) {
                struct fixture f = start_on(caps, (struct target_options) { 0 });
                struct rpeer *p, *other;

                verbs_memory_do(f.v, refuse, &(struct refusal) { what, nth });
                p = rpeer_admin(f.v, f.t, NQN);
                verbs_memory_do(f.v, refuse, &(struct refusal) { what, 0 });
                other = rpeer_admin(f.v, f.t, NQN);
                if (!other)
                        fail_msg("after refusal %u of %d", nth, what);
                rpeer_close(other);
                if (p)
                        rpeer_close(p);
                stop(&f);
        }
}

static void test_short_of_everything(void **state)
{
        static const enum memory_what kinds[] = { MEMORY_DOMAIN,    MEMORY_QP,  MEMORY_SRQ,
                                                  MEMORY_CQ,        MEMORY_REG, MEMORY_POST,
                                                  MEMORY_ACCEPTANCE };
        struct memory_caps caps;

        (void)state;
        memory_caps_default(&caps);
        caps.device.srq_wrs = 0;
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
                short_of(kinds[i], NULL);
                short_of(kinds[i], &caps);
        }
}

/* It says that it has SRQs, and refuses to make one. */
static void test_device_that_makes_no_srq(void **state)
{
        struct fixture f = start_on(NULL, (struct target_options) { 0 });
        struct rpeer *admin, *io;

        (void)state;
        verbs_memory_do(f.v, refuse, &(struct refusal) { MEMORY_SRQ, 1 });
        admin = rpeer_admin(f.v, f.t, NQN);
        assert_non_null(admin);
        io = rpeer_io(f.v, f.t, NQN, admin, (struct rpeer_options) { .qid = 1, .entries = 64 });
        assert_non_null(io);
        write_and_read(io, 64, 0);
        rpeer_close(io);
        rpeer_close(admin);
        stop(&f);
}

/* In whatever order things happen. */
static void test_any_order(void **state)
{
        (void)state;
        for (uint32_t seed = 1; seed <= 40; seed++) {
                struct fixture f = { .v = verbs_memory_new_slow(NULL, seed) };
                struct target_options o = {
                        .trtype = TRTYPE_RDMA, .verbs = f.v, .trsvcid = "0", .quiet = true
                };
                struct rpeer *admin, *io;
                struct rpeer_cmd c[FLIGHT];

                f.t = target_start(&o, error, sizeof(error));
                assert_non_null(f.t);
                admin = rpeer_admin(f.v, f.t, NQN);
                assert_non_null(admin);
                io = rpeer_io(f.v, f.t, NQN, admin,
                              (struct rpeer_options) { .qid = 1, .entries = 64 });
                assert_non_null(io);
                write_and_read(io, 64, seed);
                fly(io, c, rpeer_alloc(io, 64 * 512));
                if (seed % 2)
                        for (unsigned i = 0; i < FLIGHT; i++)
                                assert_int_equal(rpeer_wait(io, &c[i]), NVME_SUCCESS);
                rpeer_close(io);
                rpeer_close(admin);
                stop(&f);
        }
}

/* --- several ports ---------------------------------------------------------------------------- */

static bool add_port(struct config *c, uint16_t id, uint8_t trtype)
{
        struct config_port *p = config_add_port(c, id, "127.0.0.1", "0");

        if (p)
                p->trtype = trtype;
        return p && config_add_string(&p->subsystems, &p->n_subsystems, NQN);
}

/* A name is resolved by who opens the listener, as a provider (this one knows no names) does it on a reactor. */
static void test_a_listener_by_name(void **state)
{
        struct fixture f = start_on(NULL, (struct target_options) { .traddr = "localhost" });
        char ports[256];

        (void)state;
        target_ports(f.t, ports, sizeof(ports));
        assert_non_null(strstr(ports, "rdma:localhost:"));
        stop(&f);
}

/* What is written over one transport is read over the other. */
static void test_both_transports_at_once(void **state)
{
        struct config c = { 0 };
        struct fixture f;
        char ports[256];
        struct rpeer *admin, *io;
        struct peer *tadmin, *tio;
        uint8_t *out, in[4096];
        struct rpeer_cmd w;
        struct peer_cmd r;

        (void)state;
        assert_non_null(config_add_subsystem(&c, NQN));
        assert_non_null(config_add_ns(&c.subsystems[0], 1, "mem:8M"));
        assert_true(add_port(&c, 1, TRTYPE_RDMA) && add_port(&c, 2, TRTYPE_TCP));
        f = start_on(NULL, (struct target_options) { .serve = &c, .reactors = 2 });
        config_free(&c);
        target_ports(f.t, ports, sizeof(ports));
        assert_non_null(strstr(ports, "rdma:127.0.0.1:"));
        assert_non_null(strstr(ports, " 127.0.0.1:"));
        admin = rpeer_admin(f.v, f.t, NQN);
        assert_non_null(admin);
        io = rpeer_io(f.v, f.t, NQN, admin, (struct rpeer_options) { .qid = 1 });
        assert_non_null(io);
        out = rpeer_alloc(io, sizeof(in));
        memset(out, 0x5a, sizeof(in));
        w = rpeer_rw(NVME_WRITE, 8, 8, out);
        assert_int_equal(rpeer_run(io, &w), NVME_SUCCESS);
        peer_port = strrchr(ports, ':') + 1;
        tadmin = peer_admin(f.t, NQN, (struct peer_options) { 0 });
        assert_non_null(tadmin);
        tio = peer_io(f.t, NQN, tadmin, 1, (struct peer_options) { 0 });
        peer_port = NULL;
        assert_non_null(tio);
        r = peer_rw(NVME_READ, 1, 8, 8, in, sizeof(in));
        assert_int_equal(peer_run(tio, &r), NVME_SUCCESS);
        assert_memory_equal(in, out, sizeof(in));
        peer_close(tio);
        peer_close(tadmin);
        rpeer_close(io);
        rpeer_close(admin);
        stop(&f);
}

/* What a line of the trace of commands has. */
static bool has_words(const char *text, const char *const *words)
{
        for (; *words; words++)
                if (!strstr(text, *words))
                        return false;
        return true;
}

static unsigned lines_with(const char *file, const char *const *words)
{
        char text[8192];
        unsigned n = 0;
        FILE *f = fopen(file, "r");

        assert_non_null(f);
        while (fgets(text, sizeof(text), f))
                n += has_words(text, words);
        fclose(f);
        return n;
}

static void test_trace_of_commands(void **state)
{
        static const char *const write[] = {
                "\"transport\":\"rdma\"",
                ("\"hostnqn\":\"" RPEER_HOSTNQN "\""),
                ("\"subnqn\":\"" NQN "\""),
                "\"qid\":1,",
                "\"opcode\":\"Write\"",
                "\"nsid\":1,\"slba\":1000,\"nlb\":256,\"bytes\":131072,\"data\":\"h2c\"",
                "\"status\":\"0/00h\"",
                "[{\"state\":\"new\",\"at\":0},",
                "\"transferring host to controller\"",
                "\"ready to execute\"",
                "\"executing\"",
                "\"executed\"",
                "\"ready to complete\"",
                "\"completing\"",
                "\"completed\"",
                NULL,
        };
        static const char *const read[] = { "\"opcode\":\"Read\"", "\"data\":\"c2h\"",
                                            "\"bytes\":131072,",
                                            "\"transferring controller to host\"", NULL };
        static const char *const connect[] = { "\"opcode\":\"Connect\"", "\"status\":\"0/00h\"",
                                               "\"cntlid\":", NULL };
        static const char *const all[] = { "{", NULL }, *const gone[] = { "\"ended\":false", NULL };
        struct config c = { 0 };
        char file[] = "/tmp/test_trace.XXXXXX";
        struct fixture f;

        (void)state;
        close(mkstemp(file));
        assert_non_null(config_add_subsystem(&c, NQN));
        assert_non_null(config_add_ns(&c.subsystems[0], 1, "mem:8M"));
        assert_true(add_port(&c, 1, TRTYPE_RDMA));
        assert_true(
            config_set_trace(&c, &(struct config_trace) { file, 0, 1 }, error, sizeof(error)));
        f = start_on(NULL, (struct target_options) { .serve = &c });
        config_free(&c);
        sizes(&f, 4096, 0);
        stop(&f);
        assert_int_equal(lines_with(file, write), 1);
        assert_int_equal(lines_with(file, read), 1);
        assert_int_equal(lines_with(file, connect), 2);
        assert_int_equal(lines_with(file, gone), 0);
        assert_int_equal(lines_with(file, all), 1 + 2 + 1 + 1 + 10);
        unlink(file);
}

/* A port over RDMA comes and goes while the other one serves. */
static void write_config(const char *file, const char *more)
{
        FILE *out = fopen(file, "w");

        fprintf(out,
                "{\"hosts\": [], \"ports\": [{\"portid\": 1, \"addr\": {\"trtype\": \"rdma\", "
                "\"traddr\": \"127.0.0.1\", \"trsvcid\": \"0\"}, \"subsystems\": [\"" NQN
                "\"]}%s], "
                "\"subsystems\": [{\"nqn\": \"" NQN "\", \"attr\": {\"allow_any_host\": \"1\"}, "
                "\"namespaces\": [{\"nsid\": 1, \"enable\": 1, \"device\": {\"path\": "
                "\"mem:8M\"}}]}]}",
                more);
        fclose(out);
}

static void test_reload(void **state)
{
        char file[] = "/tmp/test_rdma.XXXXXX", ports[256];
        struct fixture f;
        struct rpeer *admin, *io;

        (void)state;
        close(mkstemp(file));
        write_config(file, "");
        f = start_on(NULL, (struct target_options) { .config = file, .reactors = 2 });
        admin = rpeer_admin(f.v, f.t, NQN);
        assert_non_null(admin);
        io = rpeer_io(f.v, f.t, NQN, admin, (struct rpeer_options) { .qid = 1 });
        assert_non_null(io);
        for (unsigned i = 0; i < 5; i++) {
                write_config(file, ", {\"portid\": 2, \"addr\": {\"trtype\": \"rdma\", \"traddr\": "
                                   "\"127.0.0.2\", \"trsvcid\": \"7777\"}, \"subsystems\": [\"" NQN
                                   "\"]}");
                assert_int_equal(target_reload(f.t, error, sizeof(error)), 0);
                target_ports(f.t, ports, sizeof(ports));
                assert_non_null(strstr(ports, "rdma:127.0.0.2:7777"));
                write_and_read(io, 8, i);
                write_config(file, "");
                assert_int_equal(target_reload(f.t, error, sizeof(error)), 0);
                target_ports(f.t, ports, sizeof(ports));
                assert_null(strstr(ports, "7777"));
                write_and_read(io, 8, i);
        }
        /* a place that is taken: named, and nothing changes */
        write_config(file, ", {\"portid\": 2, \"addr\": {\"trtype\": \"rdma\", \"traddr\": "
                           "\"127.0.0.2\", \"trsvcid\": \"7777\"}}, {\"portid\": 3, \"addr\": "
                           "{\"trtype\": \"rdma\", \"traddr\": \"127.0.0.2\", \"trsvcid\": "
                           "\"7777\"}}");
        assert_int_equal(target_reload(f.t, error, sizeof(error)), -1);
        assert_non_null(strstr(error, "rdma:127.0.0.2:7777: "));
        write_and_read(io, 8, 1);
        rpeer_close(io);
        rpeer_close(admin);
        stop(&f);
        unlink(file);
}

static void count_waiting(struct target_conn *c, void *arg)
{
        conn_count_work(c, arg);
}

static void wait_for_waiting(struct fixture *f, struct subsystem *s, unsigned n)
{
        uint64_t until = loop_now_ms() + RPEER_PATIENCE / 4;
        struct conn_work work;

        do {
                work = (struct conn_work) { .subsystem = s, .pause = atomic_load(&s->pause) };
                target_each_conn(f->t, count_waiting, &work);
        } while ((work.waiting < n || work.working > 0) && loop_now_ms() < until);
        assert_int_equal(work.waiting, n);
        assert_int_equal(work.working, 0);
}

static void resume(struct target_conn *c, void *arg)
{
        (void)arg;
        conn_resume(c);
        c->kind->base.go_on(&c->base);
}

/* Data in capsules, and keyed: neither is taken before, and the first is kept while its receive is used again. */
static void pauses(struct fixture *f, struct rpeer *admin, struct rpeer *io)
{
        struct subsystem *s = target_inventory(f->t)->subsystems;
        struct ns *ns = ns_find(s, 1);
        uint8_t *out = rpeer_alloc(io, 64 * 512), *in = rpeer_alloc(io, 64 * 512);
        struct rpeer_cmd w[8], r = rpeer_rw(NVME_READ, 0, 64, in),
                               alive = { .cmd.sqe.opc = NVME_KEEP_ALIVE };

        for (unsigned i = 0; i < 64 * 512; i++)
                out[i] = (uint8_t)(i * 5 + (i >> 9));
        atomic_store(&s->pause, subsystem_pause(NSID_ALL));
        assert_true(subsystem_remove_ns(s, ns)); /* it is away while they come */
        for (unsigned i = 0; i < 8; i++) {
                w[i] = rpeer_rw(NVME_WRITE, i * 8, 8, out + i * 8 * 512);
                rpeer_submit(io, &w[i]);
        }
        wait_for_waiting(f, s, 8);
        assert_int_equal(rpeer_run(admin, &alive), NVME_SUCCESS);
        rpeer_pump(io, 0);
        for (unsigned i = 0; i < 8; i++)
                assert_false(w[i].done);
        subsystem_add_ns(s, ns);
        atomic_store(&s->pause, 0);
        target_each_conn(f->t, resume, NULL);
        for (unsigned i = 0; i < 8; i++) {
                assert_true(rpeer_until(io, &w[i].done, RPEER_PATIENCE));
                assert_int_equal(w[i].status, NVME_SUCCESS);
        }
        assert_int_equal(rpeer_run(io, &r), NVME_SUCCESS);
        assert_memory_equal(in, out, 64 * 512);
}

static void pause_subsystem(struct fixture *f, bool on)
{
        struct subsystem *s = target_inventory(f->t)->subsystems;

        atomic_store(&s->pause, on ? subsystem_pause(1) : 0);
        if (!on)
                target_each_conn(f->t, resume, NULL);
}

/* Compare and Write: a first half that has begun keeps nobody waiting, and its second waits. */
static void pauses_within_fused(struct fixture *f, struct rpeer *io, unsigned begun)
{
        struct subsystem *s = target_inventory(f->t)->subsystems;
        uint8_t *was = rpeer_alloc(io, 512), *new = rpeer_alloc(io, 512),
                *in = rpeer_alloc(io, 512);
        struct rpeer_cmd half[2], read = rpeer_rw(NVME_READ, 900, 1, in);

        assert_int_equal(rpeer_run(io, &read), NVME_SUCCESS);
        memcpy(was, in, 512);
        memset(new, (int)(0x40 + begun + io->o.qid * 3u), 512);
        half[0] = rpeer_rw(NVME_COMPARE, 900, 1, was);
        half[1] = rpeer_rw(NVME_WRITE, 900, 1, new);
        half[0].cmd.sqe.flags |= SQE_FUSE_FIRST;
        half[1].cmd.sqe.flags |= SQE_FUSE_SECOND;
        for (unsigned i = 0; i < begun; i++)
                rpeer_submit(io, &half[i]);
        if (begun ==
            1) /* a command after it would break the pair: the target has seen it when this ends */
                loop_sleep_us(100000);
        pause_subsystem(f, true);
        for (unsigned i = begun; i < 2; i++)
                rpeer_submit(io, &half[i]);
        wait_for_waiting(f, s, 2 - begun);
        assert_false(half[1].done);
        pause_subsystem(f, false);
        for (unsigned i = 0; i < 2; i++) {
                assert_true(rpeer_until(io, &half[i].done, RPEER_PATIENCE));
                assert_int_equal(half[i].status, NVME_SUCCESS);
        }
        assert_int_equal(rpeer_run(io, &read), NVME_SUCCESS);
        assert_memory_equal(in, new, 512);
}

static void test_pause(void **state)
{
        struct fixture f = start_on(NULL, (struct target_options) { .reactors = 2 });
        struct rpeer *admin = rpeer_admin(f.v, f.t, NQN), *io;

        (void)state;
        assert_non_null(admin);
        for (uint16_t qid = 1; qid < 3; qid++) {
                io = rpeer_io(f.v, f.t, NQN, admin,
                              (struct rpeer_options) {
                                  .qid = qid, .entries = 16, .in_capsule = qid == 1 ? 4096 : 0 });
                assert_non_null(io);
                pauses(&f, admin, io);
                for (unsigned begun = 0; begun < 2; begun++)
                        pauses_within_fused(&f, io, begun);
                rpeer_close(io);
        }
        rpeer_close(admin);
        stop(&f);
}

/* The host leaves, or the target stops, while its commands wait. */
static void test_ends_while_it_is_paused(void **state)
{
        (void)state;
        for (unsigned round = 0; round < 4; round++) {
                struct fixture f = start_on(NULL, (struct target_options) { .reactors = 2 });
                struct subsystem *s = target_inventory(f.t)->subsystems;
                struct rpeer *admin = rpeer_admin(f.v, f.t, NQN), *io;
                struct rpeer_cmd c[FLIGHT];

                assert_non_null(admin);
                io = rpeer_io(f.v, f.t, NQN, admin,
                              (struct rpeer_options) { .qid = 1, .entries = 64 });
                assert_non_null(io);
                atomic_store(&s->pause, subsystem_pause(1));
                fly(io, c, rpeer_alloc(io, 64 * 512));
                wait_for_waiting(&f, s, FLIGHT);
                if (round % 2)
                        rpeer_close(io);
                target_stop(f.t);
                if (round % 2 == 0)
                        rpeer_close(io);
                rpeer_close(admin);
                assert_int_equal(verbs_memory_leaks(f.v).qps, 0);
                assert_int_equal(verbs_memory_leaks(f.v).mrs, 0);
                verbs_memory_free(f.v);
        }
}

static struct disc_entry discovery_entry(struct rpeer *p, unsigned i)
{
        uint8_t *log = rpeer_alloc(p, 4096);
        struct rpeer_cmd c = { .cmd = { .data = log, .len = 4096, .xfer = XFER_C2H } };

        c.cmd.sqe.opc = NVME_GET_LOG_PAGE;
        c.cmd.sqe.cdw10 = le32(LOG_DISCOVERY | (4096 / 4 - 1) << 16);
        assert_int_equal(rpeer_run(p, &c), NVME_SUCCESS);
        return *disc_log_entry(log, 4096, i);
}

static struct rpeer *discovery_peer(struct fixture *f)
{
        struct rpeer *p = rpeer_open(f->v, f->t, (struct rpeer_options) { 0 });

        assert_true(p->established);
        assert_int_equal(rpeer_connect_queue(p, NQN_DISCOVERY, CNTLID_DYNAMIC), NVME_SUCCESS);
        assert_int_equal(rpeer_enable_with(p, CC_EN), NVME_SUCCESS);
        return p;
}

static void discovers(const struct memory_caps *caps, enum disc_prtype prtype)
{
        struct fixture f = start_on(caps, (struct target_options) { 0 });
        struct rpeer *p = discovery_peer(&f);
        struct rule_set found = { 0 };

        assert_non_null(p);
        for (unsigned i = 0; i < 2; i++) {
                struct disc_entry e = discovery_entry(p, i);

                disc_entry_check(&e, &found);
                assert_true(rule_set_empty(&found));
                assert_int_equal(e.trtype, TRTYPE_RDMA);
                assert_int_equal(e.tsas[1], prtype);
                assert_int_equal(disc_entry_port(&e), target_trsvcid(f.t));
        }
        rpeer_close(p);
        stop(&f);
}

static void test_discovery_names_the_provider(void **state)
{
        struct memory_caps caps;

        (void)state;
        memory_caps_default(&caps);
        caps.device.iwarp = true;
        discovers(NULL, PRTYPE_ROCE_V2);
        discovers(&caps, PRTYPE_IWARP);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_data_of_all_sizes),
                cmocka_unit_test(test_icdoff),
                cmocka_unit_test(test_no_in_capsule),
                cmocka_unit_test(test_device_without_srq_or_inline),
                cmocka_unit_test(test_rejections),
                cmocka_unit_test(test_a_log_that_nobody_reads_stops_nothing),
                cmocka_unit_test(test_connect_differs_from_private_data),
                cmocka_unit_test(test_receives_are_promised_once),
                cmocka_unit_test(test_one_address_does_not_have_all_receives),
                cmocka_unit_test(test_flood),
                cmocka_unit_test(test_a_host_with_many_queues_has_one_share_of_a_turn),
                cmocka_unit_test(test_dreq_is_answered),
                cmocka_unit_test(test_disconnect_command),
                cmocka_unit_test(test_association_ends),
                cmocka_unit_test(test_who_never_connects_is_dropped),
                cmocka_unit_test(test_who_posts_no_receives_is_dropped),
                cmocka_unit_test(test_fault_ends_the_queue),
                cmocka_unit_test(test_failed_receives_are_given_up),
                cmocka_unit_test(test_gone_with_commands_in_flight),
                cmocka_unit_test(test_stop_with_commands_in_flight),
                cmocka_unit_test(test_device_removed_with_commands_in_flight),
                cmocka_unit_test(test_short_of_everything),
                cmocka_unit_test(test_device_that_makes_no_srq),
                cmocka_unit_test(test_any_order),
                cmocka_unit_test(test_a_listener_by_name),
                cmocka_unit_test(test_both_transports_at_once),
                cmocka_unit_test(test_trace_of_commands),
                cmocka_unit_test(test_reload),
                cmocka_unit_test(test_pause),
                cmocka_unit_test(test_ends_while_it_is_paused),
                cmocka_unit_test(test_discovery_names_the_provider),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
