/* SPDX-License-Identifier: BSD-3-Clause */
#include "inproc_target.h"

#include <stdio.h>
#include <stdlib.h>

#include "fuzz/arithmetic.h"
#include "fuzz/fuzz.h"
#include "fuzz/nvme/seq_bind.h"
#include "fuzz/sequence/seq_mutate.h"
#include "pdu/core/asan.h"
#include "pdu/nvme/tcp/tcp_controller.h"
#include "target/nvme/admin.h"
#include "target/nvme/auth_work.h"
#include "target/nvme/conn.h"
#include "target/nvme/plan.h"

enum {
        START = 1000, /* ms: when a session begins */
        BLOCKS = 128, /* of namespace 1 */
        BUDGET = 128,
        TURNS = 64,        /* until all is closed */
        PIECES = 8,        /* that a delay passes in */
        HUNGRY = 65536,    /* bytes of buffers */
        BUFFERS = 1 << 20, /* otherwise */
        ASKED = 16,        /* commands that are remembered */
        AUTH_TIMEOUT = 20000,
        TIMER = 200,  /* ms that one is late */
        STRANGER = 3, /* whose keys */
};

enum configuration {
        FIRST,
        NO_NS,
        SMALL_NS,
        OTHER_KEY,
        OTHER_HOSTS,
        NO_SUBSYSTEM,
        OTHER_PORT,
        OTHER_NS,
        RELOADS,
        NOTHING = RELOADS, /* between two sessions */
};

static const char host_nqn[] = "nqn.2026-01.io.nvmfspec:fuzz";
static const char secret_nqn[] = "nqn.2026-01.io.nvmfspec:secret";

/* A connection of the target, whose peer is the sequence. */
struct wire {
        struct target_conn conn; /* first */
        struct tcp_controller *tcp;
        struct link *link;
        struct peer *peer;
        bool open, more;
};

/* The host's end of it. */
struct peer {
        struct wire *wire; /* NULL: closed, or not begun */
        struct seq_bind bind;
        struct framer ear;
        uint16_t asked[ASKED]; /* which command a CID is of */
        bool begun, term_heard;
        uint64_t spoke; /* ms: its last word */
        uint8_t *rx,
            heard[FRAMER_BUFFER_MIN]; /* rx: the target's, on the heap: a byte too far is seen */
};

static struct engine {
        bool is_up;
        struct nvme_service service;
        struct inventory inv;
        struct reactor reactor;
        struct tcp_controller_config tcp; /* as the options made it */
        enum configuration has;
        uint64_t genctr;
} e;

static struct peer peers[SEQ_QUEUES];
static const struct sequence *seq;
static struct inproc_report *report;
static uint64_t now;
static uint64_t coarse; /* ms of the longest piece of a delay */

static bool is(unsigned bit)
{
        return seq->config & bit;
}

/* --- what the target says ----------------------------------------------------------------------- */

static void report_bytes(const struct peer *p, enum party sender, const void *bytes, size_t n)
{
        if (report->bytes)
                report->bytes(report->user, (unsigned)(p - peers), sender, bytes, n);
}

/* Which command had which answer. */
static void see_answer(const struct peer *p, const struct cqe *cqe)
{
        uint32_t command = p->asked[le16_get(cqe->cid) % ASKED];

        fuzz_seen(command << 16 | cqe_status(cqe));
}

static void see_command(struct peer *p, const union sqe *sqe)
{
        uint8_t code = sqe->opc == NVME_FABRICS ? sqe->fctype | 0x80 : sqe->opc;

        p->asked[le16_get(sqe->cid) % ASKED] = (uint16_t)(code | (sqe->flags & SQE_FUSE_MASK) << 8);
}

static void on_pdu(struct peer *p)
{
        const union pdu *h = framer_header(&p->ear);
        const uint8_t *data = framer_data(&p->ear);
        bool term = h->ch.type == PDU_C2H_TERM;
        struct message m = message_of_pdu(h);

        must(!p->term_heard);
        must(!framer_ddgst_bad(&p->ear));
        report->pdus++;
        fuzz_digest(&report->digest, h, term ? 1 : h->ch.hlen);
        if (data && !term)
                fuzz_digest(&report->digest, data, framer_data_len(&p->ear));
        p->term_heard = term;
        if (h->ch.type == PDU_CAPSULE_RESP)
                see_answer(p, &h->resp.cqe);
        seq_bind_received_data(&p->bind, h, data);
        seq_bind_received(&p->bind, &m);
        if (h->ch.type == PDU_ICRESP)
                framer_negotiated(&p->ear, track_format(p->wire->link->track, PARTY_CONTROLLER));
}

static void peer_receive(struct peer *p, const uint8_t *bytes, size_t n)
{
        enum framer_event ev;

        report_bytes(p, PARTY_CONTROLLER, bytes, n);
        for (size_t len; n > 0; bytes += len, n -= len) {
                len = framer_feed(&p->ear, bytes, n);
                while ((ev = framer_next(&p->ear)) != FRAMER_MORE) {
                        must(ev != FRAMER_FAULT);
                        if (ev == FRAMER_PDU)
                                on_pdu(p);
                }
        }
}

static void flush(struct wire *w)
{
        struct iovec iov[8];
        int n;

        while ((n = link_send_iov(w->link, iov, 8)) > 0) {
                size_t bytes = 0;

                for (int i = 0; i < n; i++) {
                        must(iov[i].iov_len > 0);
                        peer_receive(w->peer, iov[i].iov_base, iov[i].iov_len);
                        bytes += iov[i].iov_len;
                }
                link_sent(w->link, bytes);
        }
}

/* --- a connection of the target ----------------------------------------------------------------- */

static struct wire *wire_of(struct conn *c)
{
        return (struct wire *)(void *)c;
}

static void end(struct wire *w)
{
        w->open = false;
        link_kill(w->link);
        conn_end(&w->conn);
        framer_attach(&w->link->rx, NULL, 0);
        if (w->peer) {
                report_bytes(w->peer, PARTY_CONTROLLER, NULL, 0);
                w->peer->wire = NULL;
        }
        w->peer = NULL;
}

static bool is_over(const struct wire *w)
{
        return w->conn.failed || w->link->state == LINK_DEAD || w->conn.last_words ||
               (w->link->state == LINK_CLOSING && !link_term_sent(w->link));
}

/* Says what there is, and sees what becomes of it. After a TermReq the host is to close. */
static void settle(struct wire *w)
{
        if (w->open) {
                flush(w);
                if (is_over(w))
                        end(w);
                else if (w->more)
                        conn_come_again(&w->conn.base);
                else if (requests_need_buffers(tcp_requests(w->tcp)))
                        conn_go_hungry(&w->conn.base);
        }
        if (w->open || requests_executing(tcp_requests(w->tcp)) > 0 || loop_posted(&w->conn.close))
                return;
        tcp_controller_free(w->tcp);
        conn_retire(&w->conn);
        free(w);
}

static void machine_received(struct wire *w, size_t n)
{
        w->more = tcp_controller_received(w->tcp, n, is(INPROC_BUDGET) ? 1 : BUDGET);
}

static void go_on(struct conn *c)
{
        struct wire *w = wire_of(c);

        if (w->open && w->more)
                machine_received(w, 0);
        settle(w);
}

static void feed(struct conn *c)
{
        requests_buffers(tcp_requests(wire_of(c)->tcp));
        settle(wire_of(c));
}

static void sweep(struct conn *c)
{
        struct wire *w = wire_of(c);

        if (w->open && requests_need_buffers(tcp_requests(w->tcp)))
                requests_buffers(tcp_requests(w->tcp));
        settle(w);
}

static void drain(struct conn *c, bool at_once)
{
        wire_of(c)->conn.failed |= at_once;
        settle(wire_of(c));
}

static const struct requests *requests(const struct target_conn *c)
{
        return tcp_requests(((const struct wire *)(const void *)c)->tcp);
}

static const struct target_conn_kind kind = {
        .base = { .go_on = go_on, .feed = feed, .sweep = sweep, .wake = conn_wake, .drain = drain },
        .requests = requests,
};

static uint8_t *buffer_get(void *user, uint32_t len, uint32_t *lkey)
{
        (void)lkey;
        return conn_buffer_get(&((struct target_conn *)user)->base, len);
}

static void buffer_put(void *user, uint8_t *buf, uint32_t len)
{
        if (!NVMF_ASAN)
                memset(buf, 0xee, len); /* whoever still looks at it will see */
        conn_buffer_put(&((struct target_conn *)user)->base, buf, len);
}

static struct wire *wire_new(struct peer *p)
{
        struct wire *w = calloc(1, sizeof(*w));
        struct request_ops ops = conn_request_ops;

        ops.buffer_get = buffer_get;
        ops.buffer_put = buffer_put;
        if (w)
                w->tcp = tcp_controller_new(&e.service.tcp, &ops, &w->conn);
        if (!w || !w->tcp) {
                free(w);
                return NULL;
        }
        w->link = tcp_controller_link(w->tcp);
        w->peer = p;
        w->open = true;
        return w;
}

static struct auth_keys keys_of(uint8_t which)
{
        struct auth_keys keys = { .host = { .len = 32 }, .ctrl = { .len = 32 } };

        memset(keys.host.bytes, which, keys.host.len);
        memset(keys.ctrl.bytes, which + 16, keys.ctrl.len);
        if (which == STRANGER) { /* nothing but its key is in the way */
                keys.groups = 1 << AUTH_NO_DH;
                keys.ctrl.len = 0;
        }
        return keys;
}

static void begin_bind(struct peer *p)
{
        struct auth_keys keys = keys_of(is(INPROC_STRANGER) ? STRANGER : 1);

        seq_bind_init(&p->bind, PARTY_HOST, host_nqn, is(INPROC_SECRET) ? secret_nqn : TARGET_NQN);
        seq_bind_auth(&p->bind, e.service.ctrl.crypto, &keys);
}

static void open_wire(struct peer *p)
{
        static const struct conn_peer nobody;
        unsigned i = (unsigned)(p - peers);

        p->begun = true;
        p->term_heard = false;
        begin_bind(p);
        p->bind.qid = (uint16_t)i;
        p->bind.admin = i > 0 ? &peers[0].bind : NULL;
        framer_init(&p->ear, PARTY_CONTROLLER, NULL);
        framer_attach(&p->ear, p->heard, sizeof(p->heard));
        p->wire = wire_new(p);
        if (!p->wire)
                return;
        framer_attach(&p->wire->link->rx, p->rx, FRAMER_BUFFER_MIN);
        if (!conn_count(&e.service.base, &nobody)) {
                tcp_controller_free(p->wire->tcp);
                free(p->wire);
                p->wire = NULL;
                return;
        }
        conn_begin(&p->wire->conn, &kind, &e.reactor, port_get(e.inv.ports), &nobody,
                   &e.reactor.pool);
        snprintf(p->wire->conn.base.traddr, sizeof(p->wire->conn.base.traddr), "127.0.0.1");
}

/* The host is gone. */
static void close_wire(struct peer *p)
{
        struct wire *w = p->wire;

        if (w) {
                report_bytes(p, PARTY_HOST, NULL, 0);
                w->conn.failed = true;
                w->peer = NULL;
                p->wire = NULL;
                link_kill(w->link);
                settle(w);
        }
        p->begun = false;
}

/* --- what it is told ---------------------------------------------------------------------------- */

/* It takes nothing more before it has done what it has: sooner or later it must. */
static void work_off(struct peer *p)
{
        for (unsigned i = 0; p->wire && p->wire->more; i++) {
                must(i < FRAMER_BUFFER_MIN);
                reactor_step(&e.reactor, now);
        }
}

static void peer_send(struct peer *p, const uint8_t *bytes, size_t n)
{
        struct iovec iov[2];

        while (n > 0 && p->wire) {
                int iovs = link_recv_iov(p->wire->link, iov);
                size_t done = 0;

                for (int i = 0; i < iovs && done < n; i++) {
                        size_t len = iov[i].iov_len < n - done ? iov[i].iov_len : n - done;

                        must(len > 0);
                        memcpy(iov[i].iov_base, bytes + done, len);
                        done += len;
                }
                machine_received(p->wire, done);
                settle(p->wire);
                work_off(p);
                bytes += done;
                n -= done;
        }
}

static void perform_step(struct peer *p, const struct seq_step *step)
{
        static uint8_t said[BIND_ROOM];
        size_t n = seq_bind_encode(&p->bind, seq, step, said), at = 0;

        p->spoke = now;
        if (n > 0)
                report_bytes(p, PARTY_HOST, said, n);
        if (step->kind == SEQ_PDU && step->template->type == PDU_CAPSULE_CMD)
                see_command(p, &((const struct pdu_capsule_cmd *)(const void *)said)->sqe);
        for (unsigned i = 0; i < step->cuts && step->cut[i] < n; i++) {
                peer_send(p, said + at, step->cut[i] - at);
                at = step->cut[i];
        }
        peer_send(p, said + at, n - at);
}

/* --- time --------------------------------------------------------------------------------------- */

/* Since when nobody has said a word to this controller. */
static uint64_t silent(const struct ctrl *c)
{
        uint64_t since = 0;

        for (const struct peer *p = peers; p < peers + SEQ_QUEUES; p++)
                if (p->wire && p->wire->conn.queue.ctrl == c && p->spoke > since)
                        since = p->spoke;
        return now - since;
}

/* A timer that traffic starts again does so when it looks, a piece of a delay later; a reactor that comes late looks one
 * piece later still. */
static void check_deadlines(void)
{
        const uint64_t late = TIMER + 3 * coarse;

        for (const struct ctrl *c = e.service.ctrl.table->first; c; c = c->next) {
                const struct controller *m = &c->m;

                must(m->alive_until == 0 || silent(c) <= 2 * (uint64_t)m->kato + late);
                must(!(m->csts & CSTS_SHST_OCCURS)); /* nothing has to reach a disk */
                for (const struct ctrl_queue *q = c->queues; q; q = q->next)
                        must(!q->unproven || silent(c) <= AUTH_TIMEOUT + late);
        }
}

static void compute(void)
{
        while (auth_work_step(e.service.ctrl.auth_work))
                reactor_step(&e.reactor, now);
}

static void wait(uint32_t ms)
{
        uint64_t until = now + ms, piece = ms / PIECES + 1;

        coarse = piece > coarse ? piece : coarse;
        compute();
        while (now < until) {
                now += piece;
                reactor_step(&e.reactor, now);
        }
        check_deadlines();
}

/* --- configurations ----------------------------------------------------------------------------- */

static bool fill_in_secret(struct config *c, struct config_port *p, enum configuration which)
{
        struct config_subsystem *s = config_add_subsystem(c, secret_nqn);

        if (!s || !config_add_ns(s, 1, "null:1M"))
                return false;
        s->keys = keys_of(which == OTHER_KEY ? 2 : 1);
        return config_add_string(&p->subsystems, &p->n_subsystems, secret_nqn);
}

static bool fill_in_open(struct config *c, struct config_port *p, enum configuration which)
{
        struct config_subsystem *s = config_add_subsystem(c, TARGET_NQN);

        if (!s || !config_add_ns(s, 1, which == SMALL_NS ? "mem:32K" : "mem:64K") ||
            (which != NO_NS &&
             !config_add_ns(s, 2, which == OTHER_NS ? "null:1G" : "null:1G,bs=4096")))
                return false;
        s->allow_any_host = which != OTHER_HOSTS;
        return config_add_string(&p->subsystems, &p->n_subsystems, TARGET_NQN);
}

static bool fill_in(struct config *c, enum configuration which)
{
        struct config_port *p =
            config_add_port(c, 1, "127.0.0.1", which == OTHER_PORT ? "4421" : "4420");

        if (!p || which == NOTHING)
                return p;
        return fill_in_secret(c, p, which) && (which == NO_SUBSYSTEM || fill_in_open(c, p, which));
}

/* Whoever is still there may be. */
static void check_allowed(void)
{
        for (const struct ctrl *c = e.service.ctrl.table->first; c; c = c->next) {
                const struct subsystem *s = c->subsystem;

                must(inventory_port(&e.inv, c->port_id));
                must(!s || s == inventory_subsystem(&e.inv, s->nqn));
                must(!s || subsystem_allows(s, c->m.hostnqn));
                must(!s || auth_keys_equal(&c->auth.keys, subsystem_keys(s, c->m.hostnqn)));
        }
}

static bool apply(const struct config *c)
{
        char error[200] = "";
        struct plan plan;
        bool ok = plan_make(&plan, &e.inv, c, error, sizeof(error));

        if (!ok)
                return false;
        ok = plan_apply(&plan, &e.inv, error, sizeof(error));
        plan_notify(&plan, e.service.ctrl.table, &e.inv);
        reactor_step(&e.reactor, now);
        check_allowed();
        plan_free(&plan);
        return ok;
}

/* False: out of memory; then it keeps what it has, or all but the size of a namespace is changed. */
static bool reload(enum configuration which)
{
        struct config c = { 0 };
        bool ok = fill_in(&c, which) && apply(&c);

        config_free(&c);
        e.has = ok ? which : RELOADS; /* none that has a name */
        return ok;
}

/* --- steps -------------------------------------------------------------------------------------- */

/* Who does not know the key gets nowhere. */
static void check_strangers(void)
{
        for (const struct ctrl *c = e.service.ctrl.table->first; is(INPROC_STRANGER) && c;
             c = c->next)
                for (const struct ctrl_queue *q = c->queues; q; q = q->next)
                        must(q->unproven || c->auth.keys.host.len == 0);
}

static void play_step(const struct seq_step *step)
{
        struct peer *p = &peers[step->on];

        report->steps++;
        switch (step->kind) {
        case SEQ_PDU:
        case SEQ_RAW:
                if (!p->begun)
                        open_wire(p);
                if (p->wire)
                        perform_step(p, step);
                break;
        case SEQ_DELAY:
                wait(step->ms);
                break;
        case SEQ_CLOSE:
        case SEQ_RESET:
                close_wire(p);
                break;
        case SEQ_RELOAD:
                (void)reload(step->of % RELOADS);
                break;
        case SEQ_FAIL: /* RDMA's */
        case SEQ_REMOVE:
                break;
        }
        reactor_step(&e.reactor, now);
        if (!is(INPROC_LATE))
                compute();
        check_strangers();
}

/* --- the target --------------------------------------------------------------------------------- */

static void set_boundaries(const struct target_limits *l)
{
        const uint64_t limits[] = { l->queue_entries, l->queues,     l->controllers, BLOCKS,
                                    l->max_transfer,  l->in_capsule, l->maxh2cdata };

        seq_mutate_limits(limits, sizeof(limits) / sizeof(limits[0]));
}

static void start(void)
{
        const struct target_options o = {
                .quiet = true,
                .limits = { .queue_entries = 64,
                            .queues = SEQ_QUEUES - 1,
                            .controllers = 4,
                            .max_transfer = BLOCKS * 512,
                            .in_capsule = 8192,
                            .maxh2cdata = 16384,
                            .auth_timeout = AUTH_TIMEOUT },
        };
        char error[200] = "";

        inventory_init(&e.inv);
        must(service_init(&e.service, &o, &e.inv, error, sizeof(error)));
        e.service.ctrl.crypto = fuzz_arithmetic(1, 0);
        auth_work_by_hand(e.service.ctrl.auth_work);
        set_boundaries(&e.service.limits);
        seq_mutate_reloads(RELOADS);
        e.tcp = e.service.tcp;
        e.tcp.limits.r2ts_max = 64;
        must(reactor_init(&e.reactor, &e.service.base, BUFFERS, true));
        now = START;
        must(reload(FIRST));
        e.genctr = e.inv.genctr;
        for (unsigned i = 0; i < SEQ_QUEUES; i++) {
                peers[i].rx = malloc(FRAMER_BUFFER_MIN);
                must(peers[i].rx);
        }
        e.is_up = true;
}

/* Buffers that sessions with plenty have left behind would be taken without asking. */
static void set_pool(uint64_t cap)
{
        struct pool *pool = &e.reactor.pool;

        if (cap < pool->cap)
                pool_fini(pool);
        pool->cap = cap;
}

static void set_up(void)
{
        struct tcp_controller_config *tcp = &e.service.tcp;

        *tcp = e.tcp;
        tcp->cpda = seq->config >> INPROC_PDA_SHIFT & ((1 << INPROC_PDA) - 1);
        tcp->hdgst = tcp->ddgst = !is(INPROC_DIGESTS);
        tcp->c2h_max = tcp->r2t_max = is(INPROC_SHORT) ? 1024 : 0;
        tcp->r2t_window = is(INPROC_WINDOW) ? 4 : 1;
        set_pool(is(INPROC_HUNGRY) ? HUNGRY : BUFFERS);
        e.service.base.accepted = 0;
        e.service.ctrl.table->last = 0;
        e.inv.genctr = e.genctr;
        (void)fuzz_arithmetic(1, 0);
        coarse = 0;
        now = START;
        e.reactor.sweep = e.reactor.tick = e.reactor.trim = (struct reactor_beat) { .last = now };
        reactor_step(&e.reactor, now);
}

/* What controllers leave in a subsystem goes with it: events, features, Lockdown, namespaces that hosts have made or
 * deleted, blocks that were written. */
static void start_afresh(void)
{
        if (e.has == FIRST && e.service.ctrl.table->last == 0)
                return;
        must(reload(NOTHING));
        must(reload(FIRST));
}

/* Nothing of a session is left. */
static void check_balance(void)
{
        must(!e.reactor.conns && !e.reactor.again && !e.reactor.hungry);
        must(e.service.base.conns == 0 && e.service.io_conns == 0);
        must(e.service.ctrl.table->count == 0 && !e.service.ctrl.table->first);
        must(e.reactor.pool.lent == 0 && !e.reactor.pool.shares);
        for (unsigned i = 0; i < QUOTA_PLACES; i++)
                must(!e.service.base.of_address.entries[i]);
        must(e.inv.ports->refs == 1);
        for (const struct subsystem *s = e.inv.subsystems; s; s = s->next) {
                must(s->refs == 1);
                for (const struct ns *ns = s->ns; ns; ns = ns->next)
                        must(ns->refs == 1);
        }
}

void inproc_play(const struct sequence *s, struct inproc_report *r)
{
        seq = s;
        report = r;
        r->steps = r->pdus = 0;
        r->digest = FUZZ_DIGEST_START;
        if (!e.is_up)
                start();
        set_up();
        begin_bind(&peers[0]); /* others ask it for a CNTLID before it has said anything */
        fuzz_scarce(s->scarce);
        for (unsigned i = 0; i < s->steps; i++)
                play_step(&s->step[i]);
        fuzz_scarce(0);
        for (unsigned i = 0; i < SEQ_QUEUES; i++)
                close_wire(&peers[i]);
        compute();
        for (unsigned i = 0; i < TURNS && e.reactor.conns; i++)
                reactor_step(&e.reactor, now);
        check_balance();
        start_afresh();
}
