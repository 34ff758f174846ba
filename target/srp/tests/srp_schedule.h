/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The target and some initiators in any order of events: one reactor without thread on verbs in memory, whose steps,
 * failures and clock come from a number, or from bytes and then that number. A watch on each channel looks for the
 * fourteen invariants; whatever the schedule, all of it comes to an end in bounded time, and nothing is left.
 *
 * Asserts as cmocka does, by assert_true() and so on of whoever includes it.
 */
#ifndef NVMF_TARGET_SRP_TESTS_SRP_SCHEDULE_H
#define NVMF_TARGET_SRP_TESTS_SRP_SCHEDULE_H

#include "pdu/core/rng.h"
#include "srp_peer.h"
#include "target/engine/conn.h"
#include "target/engine/rdma.h"
#include "target/srp/srp_conn.h"
#include "target/srp/srp_server.h"

enum {
        PEERS = 3,
        ACTS = 60,
        WATCHES = 256,
        BUFFERS = 4 << 20,
        SETUP_MS = 300,
        HELD_MS = 50, /* a reactor has a turn at least so often */
};

/* Beyond the target's own times: a sweep, and a piece of the clock. */
static const struct srp_watch_times bounds = { SETUP_MS + 200, 2000 + 200, 3000 + 200, 1000 };

struct watched {
        const struct srp_conn *conn; /* NULL: it has gone */
        struct srp_watch watch;
};

struct srp_schedule {
        uint64_t seed;        /* not 0 */
        const uint8_t *input; /* a choice a byte, first; n of them */
        size_t n;
        void (*saw)(uint32_t what); /* each state, and what has happened in it; may be NULL */
};

static struct world {
        struct srp_schedule plan;
        uint64_t random;
        struct memory_fabric *fabric;
        struct srp_service service;
        struct reactor reactor;
        struct rdma_listener listener;
        uint64_t now, turned; /* when its last turn was */
        bool removed;
        struct srp_peer *peer[PEERS];
        bool begun[PEERS], wired[PEERS];
        struct watched watched[WATCHES];
        unsigned watches;
} w;

/* Over all seeds: what happened, and how often; a value of it, where that tells. */
static struct {
        unsigned happened[SRP_HAPPENINGS], moved[LIFE_RELEASED + 1];
        unsigned terminated, disabled_early, removed_early, dreq_while_closing;
} seen;

static uint32_t next_choice(void)
{
        if (w.plan.n == 0)
                return fuzz_random(&w.random);
        w.plan.n--;
        return *w.plan.input++;
}

static uint32_t chance(uint32_t n)
{
        return next_choice() % n;
}

static uint32_t next_random(void *user)
{
        (void)user;
        return next_choice();
}

static uint64_t fake_now(void)
{
        return w.now;
}

/* --- the watch -------------------------------------------------------------------------------- */

static struct watched *watch_of(const struct srp_conn *c)
{
        for (unsigned i = w.watches; i-- > 0;)
                if (w.watched[i].conn == c)
                        return &w.watched[i];
        assert_true(w.watches < WATCHES);
        w.watched[w.watches].conn = c;
        srp_watch_init(&w.watched[w.watches].watch, &bounds, w.now);
        return &w.watched[w.watches++];
}

static void judge(const struct srp_watch *watch)
{
        if (watch->broken != SRP_INVARIANT_NONE)
                fail_msg("seed %llu: %s: %s", (unsigned long long)w.plan.seed,
                         srp_happening_name(watch->by), srp_invariant_says(watch->broken));
}

static void on_happening(void *user, const struct srp_conn *c, enum srp_happening what,
                         int64_t value)
{
        struct watched *of = watch_of(c);

        (void)user;
        if (w.plan.saw)
                w.plan.saw((uint32_t)of->watch.state << 8 | what);
        srp_watch_tell(&of->watch, what, value, w.now);
        judge(&of->watch);
        seen.happened[what]++;
        if (what == SRP_HAS_MOVED)
                seen.moved[value]++;
        seen.terminated += what == SRP_HAS_RELOGGED && value & 1;
        seen.disabled_early += what == SRP_HAS_DISABLED && of->watch.state == LIFE_CONNECTING;
        seen.dreq_while_closing += what == SRP_HAS_HEARD_DREQ && of->watch.state == LIFE_CLOSING;
        if (what != SRP_HAS_PUT || of->watch.refs > 0)
                return;
        srp_watch_end(&of->watch);
        if (of->watch.by == SRP_HAPPENINGS && of->watch.broken)
                fail_msg("seed %llu: at its end: %s", (unsigned long long)w.plan.seed,
                         srp_invariant_says(of->watch.broken));
        of->conn = NULL;
}

/* --- the world -------------------------------------------------------------------------------- */

static void on_request(struct rdma_listener *l, const struct verbs_event *e)
{
        struct conn_peer peer = rdma_peer(e->ep);

        (void)l;
        if (conn_count(&w.service.base, &peer))
                srp_conn_start(&w.reactor, NULL, e, &peer);
        else
                srp_conn_reject(&w.service.base, e->ep);
}

static void start_world(const struct srp_schedule *s)
{
        static const char *luns[] = { "mem:64K" };
        struct srp_options o = {
                .lun = luns, .luns = 1, .request_limit = 6, .max_transfer = 16384, .quiet = true
        };
        struct memory_config cfg = { .random = next_random };
        struct memory_caps caps;
        char error[200] = "";

        memset(&w, 0, sizeof(w));
        w.plan = *s;
        w.random = s->seed;
        w.now = w.turned = 1000;
        memory_caps_default(&caps);
        if (chance(3) == 0)
                caps.device.srq_wrs = 0;
        if (chance(3) == 0)
                caps.device.inline_bytes = 0;
        caps.device.no_last_wqe = chance(2);
        cfg.caps = &caps;
        w.fabric = memory_fabric_new(&cfg);
        assert_true(srp_service_init(&w.service, &o, error, sizeof(error)));
        w.service.watch = on_happening;
        w.service.setup_timeout = SETUP_MS;
        assert_true(reactor_init(&w.reactor, &w.service.base, BUFFERS, true));
        w.reactor.now = w.now;
        w.reactor.given = true;
        w.reactor.rdma = rdma_start(&w.reactor, memory_provider(w.fabric));
        assert_non_null(w.reactor.rdma);
        w.reactor.rdma->group.now = fake_now;
        w.listener = (struct rdma_listener) {
                .traddr = "127.0.0.1", .trsvcid = "5555", .accepting = true, .request = on_request
        };
        assert_int_equal(rdma_port_listen(w.reactor.rdma, &w.listener), 0);
}

static void turn(void)
{
        w.turned = w.now;
        (void)rdma_work(w.reactor.rdma);
        reactor_step(&w.reactor, w.now);
}

/* A little of everything. */
static void go_on(void *arg)
{
        (void)arg;
        for (unsigned n = chance(8); n > 0; n--)
                (void)memory_step(w.fabric);
        if (chance(3) > 0 || w.now > w.turned + HELD_MS)
                turn();
}

/* --- initiators ------------------------------------------------------------------------------- */

static void begin_peer(unsigned i)
{
        struct srp_peer_options o = { .flags =
                                          (uint8_t)(chance(2) | (chance(2) ? SRP_IMMEDIATE : 0)),
                                      .initiator = chance(4) == 0,
                                      .reads = (uint8_t)(1 + chance(3)) };

        w.peer[i] = peer_new(memory_provider(w.fabric), o);
        w.peer[i]->go_on = go_on;
        w.peer[i]->ep = verbs_resolve(w.peer[i]->context, "127.0.0.1", "5555", 1000);
        w.begun[i] = w.wired[i] = false;
}

static void end_peer(unsigned i)
{
        peer_close(w.peer[i]);
        w.peer[i] = NULL;
}

/* What is due: the queue pair, the login. */
static void serve_peer(unsigned i)
{
        struct srp_peer *p = w.peer[i];

        if (!p->ep) {
                end_peer(i);
                return;
        }
        (void)peer_poll(p);
        if (p->resolved && !w.wired[i]) {
                w.wired[i] = true;
                if (peer_build(p) && chance(16) > 0)
                        peer_connect(p);
        }
        if (p->rejected || p->failed || p->disconnected)
                if (chance(4) == 0)
                        end_peer(i);
}

static bool is_ready(const struct srp_peer *p)
{
        return p && p->established && !p->disconnected && !p->failed &&
               !p->out[p->sent % PEER_SENDS];
}

static void send_command(struct srp_peer *p)
{
        bool write = chance(2), immediate = p->rsp.rsp_flags & SRP_IMMEDIATE && chance(2);
        struct peer_cmd c;

        if (p->limit <= 0)
                return;
        p->limit--;
        cmd_rw(&c, p->tag++, 0, write, chance(64), (uint16_t)(1 + chance(8)));
        if (write && immediate)
                cmd_immediate(&c, p->arena, 4096);
        else if (chance(3) == 0)
                cmd_direct(&c, write, peer_desc(p, 8192, 4096));
        else {
                struct srp_desc list[3];

                for (unsigned k = 0; k < 3; k++) {
                        list[k] = peer_desc(p, k * 4096, k < 2 ? 1365 : 1366);
                        srp_desc_put(p->arena + 65536 + k * SRP_DESC_LEN, &list[k]);
                }
                cmd_indirect(&c, write, peer_desc(p, 65536, sizeof(list)), 4096, list,
                             chance(2) ? 3 : 1);
        }
        c.p[29] = (uint8_t)(chance(4) ? SRP_SIMPLE : chance(3));
        peer_send(p, c.p, c.n);
}

static void manage(struct srp_peer *p)
{
        static const uint8_t functions[] = { SRP_TM_ABORT_TASK, SRP_TM_ABORT_TASK_SET,
                                             SRP_TM_CLEAR_TASK_SET, SRP_TM_LUN_RESET };

        if (p->limit <= 0)
                return;
        peer_tsk_mgmt(p, p->tag, 0, functions[chance(4)], p->tag - 1 - chance(3));
        p->tag++;
}

static void answer_credits(struct srp_peer *p)
{
        for (; p->read < p->got_n && is_ready(p); p->read++) {
                const struct srp_got *g = &p->got[p->read % 512];
                struct srp_logout answer = { .opcode = SRP_CRED_RSP };

                if (g->p[0] != SRP_CRED_REQ)
                        continue;
                memcpy(&answer.tag, g->p + 8, 8);
                peer_send(p, &answer, sizeof(answer));
        }
}

/* --- what happens ----------------------------------------------------------------------------- */

/* The other end of that peer's connection, if there is one. */
static struct verbs_ep *target_ep(void)
{
        struct verbs_ep *ep, *found = NULL;
        unsigned n = 0;

        for (unsigned i = 0; (ep = memory_ep(w.fabric, i)) != NULL; i++)
                if (!memory_connects(ep) && memory_qp_state(ep) != MEMORY_QP_NONE &&
                    chance(++n) == 0)
                        found = ep;
        return found;
}

static void fail_something(void)
{
        static const enum verbs_status statuses[] = { VERBS_RETRY_EXCEEDED, VERBS_RNR_EXCEEDED,
                                                      VERBS_REMOTE_ACCESS, VERBS_FLUSHED };
        struct verbs_ep *ep = target_ep();

        if (!ep)
                return;
        if (chance(2))
                memory_fail_completion(ep, 1 + chance(4), statuses[chance(4)]);
        else
                memory_fail_work(ep, 1 + chance(4), statuses[chance(4)]);
}

static void trouble_cm(struct srp_peer *p)
{
        switch (chance(3)) {
        case 0:
                memory_lose_cm(p->ep, 1);
                break;
        case 1:
                memory_hold_cm(p->ep, true);
                break;
        default:
                memory_hold_cm(p->ep, false);
        }
}

static void end_of_port(void)
{
        srp_service_disable(&w.service);
        for (unsigned i = 0; i < w.watches; i++)
                if (w.watched[i].conn)
                        on_happening(NULL, w.watched[i].conn, SRP_HAS_DISABLED, 0);
        for (struct conn *c = w.reactor.conns, *next; c; c = next) {
                next = c->next;
                if (chance(2))
                        srp_conn_end(c);
                else
                        c->kind->drain(c, chance(2));
        }
}

static void remove_device(void)
{
        if (w.removed)
                return;
        w.removed = true;
        for (unsigned i = 0; i < w.watches; i++)
                seen.removed_early +=
                    w.watched[i].conn && w.watched[i].watch.state == LIFE_CONNECTING;
        memory_remove(w.fabric, w.reactor.rdma->group.context);
}

static void act_on(unsigned i)
{
        static const struct srp_logout logout = { .opcode = SRP_I_LOGOUT };
        struct srp_peer *p = w.peer[i];

        switch (chance(24)) {
        case 0:
                if (p->ep && w.wired[i])
                        (void)verbs_disconnect(p->ep);
                break;
        case 1:
                if (is_ready(p))
                        peer_send(p, &logout, sizeof(logout));
                break;
        case 2:
                end_peer(i);
                break;
        case 3:
        case 4:
                fail_something();
                break;
        case 5:
                trouble_cm(p);
                break;
        case 6:
        case 7:
                if (is_ready(p))
                        manage(p);
                break;
        default:
                for (unsigned n = chance(4); n > 0 && is_ready(p); n--)
                        send_command(p);
        }
}

static void act(void)
{
        unsigned i = chance(PEERS);

        w.now += chance(20);
        if (chance(150) == 0)
                end_of_port();
        else if (chance(200) == 0)
                remove_device();
        else if (!w.peer[i])
                begin_peer(i);
        else
                act_on(i);
        for (i = 0; i < PEERS; i++) {
                if (w.peer[i] && is_ready(w.peer[i]))
                        answer_credits(w.peer[i]);
                if (w.peer[i])
                        serve_peer(i);
        }
        go_on(NULL);
}

/* Whatever state it is in, all of it comes to an end in bounded time. */
static void end_world(void)
{
        struct memory_count left;

        for (unsigned i = 0; i < PEERS; i++)
                if (w.peer[i])
                        end_peer(i);
        rdma_port_unlisten(&w.listener);
        for (unsigned i = 0; i < 4000 && (w.reactor.conns || i < 4); i++) {
                memory_idle(w.fabric);
                w.now += 10;
                turn();
                if (i == 1000)
                        for (struct conn *c = w.reactor.conns, *next; c; c = next) {
                                next = c->next;
                                c->kind->drain(c, false);
                        }
        }
        if (w.reactor.conns)
                fail_msg("seed %llu: a channel is left, %s", (unsigned long long)w.plan.seed,
                         srp_life_name(srp_conn_of(w.reactor.conns)->link.ep.life.state));
        assert_null(w.service.nexuses);
        assert_int_equal(w.service.base.conns, 0);
        for (unsigned i = 0; i < w.watches; i++)
                assert_null(w.watched[i].conn);
        rdma_stop(w.reactor.rdma);
        reactor_fini(&w.reactor);
        srp_service_fini(&w.service);
        left = memory_leaks(w.fabric);
        assert_int_equal(left.contexts + left.eps + left.qps + left.mrs, 0);
        memory_fabric_free(w.fabric);
}

static void srp_schedule_run(const struct srp_schedule *s)
{
        start_world(s);
        for (unsigned n = 0; n < ACTS; n++)
                act();
        end_world();
}

#endif
