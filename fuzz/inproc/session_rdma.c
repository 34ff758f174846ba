/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions with the machines of NVMe/RDMA, over verbs in memory: one endpoint is the machine's, and
 * lives as any endpoint does; the other one is the sequence's, which connects or accepts, sends, and
 * transfers data as its steps say. Keys, ranges, order and what fails with what are the fabric's.
 */
#include <stdlib.h>

#include "pdu/core/asan.h"
#include "pdu/nvme/rdma/rdma_controller.h"
#include "pdu/nvme/rdma/rdma_host.h"
#include "pdu/nvme/wire/fabrics.h"
#include "pdu/verbs/memory_verbs.h"
#include "pdu/verbs/rdma_ep.h"
#include "session_own.h"

enum {
        ENTRIES = 128, /* of a queue at most */
        IN_CAPSULE = 4096,
        SEND_WRS = 24,
        SEND_WRS_SHORT = 4,
        ROUNDS = 4096,
        EVENTS = 64,
        CAPSULE = BIND_ROOM / 2, /* bytes of a receive */
        RECVS = ENTRIES + 1,
        SENDS = 8, /* of the sequence, at a time */
        READS = 16,
        SOME = 6, /* steps of the fabric */
        REGIONS = 4 * ENTRIES,
};

/* One of the two ends. */
struct side {
        struct rdma_group group;
        struct rdma_ep ep; /* group NULL: none yet */
};

struct rdma_play {
        struct play p;
        struct memory_fabric *f;
        struct side machine, player;

        struct rdma_controller *c; /* one of the two, while it lives */
        struct rdma_host *h;
        struct verbs_mr receives, data;  /* registered: received[], client_data() */
        struct verbs_mr region[REGIONS]; /* addr NULL: free */
        struct rdma_recv recv[RECVS];    /* of the controller */
        unsigned held;                   /* of them by the machine */
        unsigned regions, ended;
        unsigned fail_in; /* the completion that fails, once there is a queue pair; 0: none */
        enum verbs_status fail_status;
        bool accepted;

        struct verbs_mr memory, own; /* registered: the sequence's */
        struct verbs_wr send[SENDS], player_recv[RECVS];
        bool sending[SENDS];
        struct bind_work request; /* what it connects with */
        uint8_t private[VERBS_PRIVATE_MAX];
};

/* Where they lie is the same in every run: sequences name addresses. */
static _Alignas(BIND_STRIDE) uint8_t memory[BIND_MEMORY];
static struct {
        uint8_t said[BIND_ROOM], heard[RECVS][CAPSULE];
} own;                                   /* the sequence's */
static uint8_t received[RECVS][CAPSULE]; /* the controller's */
static uint32_t written[BIND_PLACES];    /* of the memory, in the last run */

static const char address[] = "127.0.0.1", service[] = "4420";

static struct rdma_play *play_of(void *user)
{
        return user; /* the play is its first member */
}

static struct rdma_play *play_of_machine(struct rdma_ep *e)
{
        return (struct rdma_play *)(void *)((char *)e - offsetof(struct rdma_play, machine.ep));
}

static struct rdma_play *play_of_player(struct rdma_ep *e)
{
        return (struct rdma_play *)(void *)((char *)e - offsetof(struct rdma_play, player.ep));
}

static uint64_t no_clock(void)
{
        return 0;
}

static bool is_live(const struct side *s)
{
        return s->ep.group && s->ep.ep && s->ep.life.state == LIFE_LIVE;
}

/* --- registered memory of the machine ----------------------------------------------------------- */

static bool region_add(struct rdma_play *t, void *p, size_t len, uint32_t *lkey)
{
        struct verbs_mr *mr = t->region;

        while (mr < t->region + REGIONS && mr->addr)
                mr++;
        must(mr < t->region + REGIONS);
        if (verbs_reg(t->machine.ep.dev->domain, p, len, 0, mr) < 0) {
                mr->addr = NULL;
                return false;
        }
        *lkey = mr->lkey;
        t->regions++;
        return true;
}

static void region_remove(struct rdma_play *t, const void *p)
{
        struct verbs_mr *mr = t->region;

        while (mr < t->region + REGIONS && mr->addr != p)
                mr++;
        must(mr < t->region + REGIONS);
        verbs_dereg(t->machine.ep.dev->domain, mr);
        mr->addr = NULL;
        t->regions--;
}

static void *get_memory(void *user, size_t bytes, uint32_t *lkey)
{
        void *p = malloc(bytes);

        if (p && region_add(play_of(user), p, bytes, lkey))
                return p;
        free(p);
        return NULL;
}

static void put_memory(void *user, void *p, size_t bytes)
{
        (void)bytes;
        region_remove(play_of(user), p);
        free(p);
}

static void *response_memory(void *user, uint32_t bytes, uint32_t *lkey)
{
        return get_memory(user, bytes, lkey);
}

static void put_response_memory(void *user, void *p, uint32_t bytes)
{
        put_memory(user, p, bytes);
}

static uint8_t *buffer_get(void *user, uint32_t len, uint32_t *lkey)
{
        uint8_t *p = toy_buffer_get(user, len, lkey);

        if (!p || region_add(play_of(user), p, len, lkey))
                return p;
        toy_buffer_put(user, p, len);
        return NULL;
}

static void buffer_put(void *user, uint8_t *buf, uint32_t len)
{
        region_remove(play_of(user), buf);
        toy_buffer_put(user, buf, len);
}

static bool data_keys(void *user, const void *data, uint32_t len, uint32_t *lkey, uint32_t *rkey)
{
        const struct verbs_mr *mr = &play_of(user)->data;

        must((const uint8_t *)data >= (uint8_t *)mr->addr && len <= mr->len);
        *lkey = mr->lkey;
        *rkey = mr->rkey;
        return !is(user, SESSION_REQUIRES);
}

/* --- the machine: what comes -------------------------------------------------------------------- */

static void note_fault(struct rdma_play *t)
{
        struct fault f = t->c ? rdma_controller_fault(t->c) : rdma_host_fault(t->h);

        if (is_fault(f))
                t->p.r->fault = f;
}

/* A capsule, in a buffer that ends with it: what lies after it is nobody's. */
static bool take_capsule(struct rdma_play *t, const struct verbs_wc *wc)
{
        struct rdma_recv *rx = wc->wr->user;

        if (wc->status != VERBS_SUCCESS)
                return true;
        rx->bytes = rx->wr.sge[0].len = wc->bytes;
        ASAN_POISON_MEMORY_REGION((uint8_t *)rx->wr.sge[0].addr + rx->bytes, CAPSULE - rx->bytes);
        t->held++;
        return rdma_controller_received(t->c, rx);
}

static void post_recv(struct rdma_play *t, struct rdma_recv *rx)
{
        struct verbs_wr *bad;

        rx->wr.next = NULL;
        if (rdma_ep_post_recv(&t->machine.ep, &rx->wr, &bad) < 0)
                rdma_ep_step(&t->machine.ep, LIFE_FAILED);
}

static void recv_put(void *user, struct rdma_recv *rx)
{
        struct rdma_play *t = user;

        t->held--;
        rx->wr.sge[0].len = CAPSULE;
        ASAN_UNPOISON_MEMORY_REGION(rx->wr.sge[0].addr, CAPSULE);
        if (is_live(&t->machine))
                post_recv(t, rx);
}

static bool complete(struct rdma_play *t, const struct verbs_wc *wc)
{
        bool ends = t->c ? rdma_controller_completed(t->c, wc) : rdma_host_completed(t->h, wc);

        must(ends || wc->status == VERBS_SUCCESS || wc->status == VERBS_FLUSHED);
        return ends;
}

static bool machine_completed(struct rdma_ep *e, const struct verbs_wc *wc)
{
        struct rdma_play *t = play_of_machine(e);
        bool ends = false;

        if (t->c && wc->wr->op == VERBS_RECV)
                ends = take_capsule(t, wc);
        else
                ends = complete(t, wc);
        note_fault(t);
        return ends;
}

static void machine_moved(struct rdma_ep *e, enum life_event why)
{
        (void)why;
        if (e->life.state > LIFE_LIVE)
                play_of_machine(e)->p.closed = true;
}

static void machine_end(struct rdma_ep *e)
{
        struct rdma_play *t = play_of_machine(e);

        t->ended++;
        if (t->c)
                rdma_controller_end(t->c);
        if (t->h)
                rdma_host_fail_all(t->h, NVME_TRANSIENT_TRANSPORT);
}

/* --- the machine: what goes --------------------------------------------------------------------- */

/* True: something was posted. It fails only when memory runs out. */
static bool post_chain(struct rdma_play *t, struct verbs_wr *chain)
{
        struct verbs_wr *bad;

        if (chain && rdma_ep_post(&t->machine.ep, chain, &bad) < 0) {
                must(t->p.s->scarce > 0);
                rdma_ep_flushed(&t->machine.ep, bad);
                rdma_ep_step(&t->machine.ep, LIFE_FAILED);
        }
        return chain != NULL;
}

static bool post_of_controller(struct rdma_play *t)
{
        bool any;

        if (!is(&t->p, SESSION_DEFERS))
                owner_unpark(&t->p);
        requests_buffers(rdma_requests(t->c));
        any = post_chain(t, rdma_controller_take(t->c));
        note_fault(t);
        if (is_fault(rdma_controller_fault(t->c)))
                rdma_ep_step(&t->machine.ep, LIFE_FAILED);
        return any || (is_live(&t->machine) && rdma_controller_wants_post(t->c));
}

static bool post_of_host(struct rdma_play *t)
{
        struct verbs_wr *recvs = rdma_host_take_recvs(t->h), *bad;

        if (recvs && rdma_ep_post_recv(&t->machine.ep, recvs, &bad) < 0) {
                must(t->p.s->scarce > 0);
                rdma_ep_step(&t->machine.ep, LIFE_FAILED);
        }
        if (!is_live(&t->machine))
                return recvs != NULL;
        client_submit(&t->p);
        return post_chain(t, rdma_host_take(t->h)) || recvs;
}

static bool post(struct rdma_play *t)
{
        if (!is_live(&t->machine))
                return false;
        return t->c ? post_of_controller(t) : post_of_host(t);
}

static bool turn_of(struct side *s)
{
        unsigned events = rdma_group_events(&s->group, EVENTS);

        return rdma_group_poll(&s->group, EVENTS) > 0 || events > 0;
}

/* A few of the things that follow from what was done, in whatever order; what is left is late. */
static void pump_some(struct rdma_play *t)
{
        for (unsigned i = 0; i < SOME && memory_step(t->f);)
                i++;
        turn_of(&t->machine);
        turn_of(&t->player);
        post(t);
}

/* All of them. */
static void pump(struct rdma_play *t)
{
        unsigned rounds = 0;
        bool any;

        do {
                must(++rounds < ROUNDS);
                memory_idle(t->f);
                any = turn_of(&t->machine);
                any |= turn_of(&t->player);
                any |= post(t);
        } while (any);
}

/* --- the machine: connections ------------------------------------------------------------------- */

static void apply_failure(struct rdma_play *t)
{
        if (t->fail_in > 0 && t->machine.ep.ep && t->machine.ep.life.has_qp)
                memory_fail_completion(t->machine.ep.ep, t->fail_in, t->fail_status);
        t->fail_in = t->machine.ep.life.has_qp ? 0 : t->fail_in;
}

static struct rdma_format format_of(const struct play *p, bool admin)
{
        return (struct rdma_format) {
                .admin = admin,
                .icdoff = pda_of(p) & 3,
                .in_capsule = admin || is(p, SESSION_NO_ICD) ? 0 : IN_CAPSULE,
                .msdbd = pda_of(p) >> 2,
        };
}

static bool make_queue_pair(struct rdma_play *t, uint32_t send_wrs, uint32_t recv_wrs,
                            uint32_t inline_bytes)
{
        struct verbs_qp_attr attr = { send_wrs, recv_wrs, inline_bytes };

        if (rdma_ep_qp(&t->machine.ep, &attr) < 0)
                return false;
        apply_failure(t);
        return true;
}

static bool make_controller(struct rdma_play *t, const struct rdma_request *r, uint8_t reads_in)
{
        const struct play *p = &t->p;
        uint32_t reads = is(p, SESSION_REQUIRES) ? 0 : is(p, SESSION_WINDOW) ? 4 : 1;
        struct rdma_controller_config cfg = {
                .format = format_of(p, le16_get(r->qid) == 0),
                .max_transfer = 1 << 17,
                .send_wrs = is(p, SESSION_SHORT) ? SEND_WRS_SHORT : SEND_WRS,
                .reads = reads < reads_in ? reads : reads_in,
                .inline_bytes = is(p, SESSION_DIGESTS) ? sizeof(struct cqe) : 0,
                .depth = (uint16_t)(le16_get(r->hsqsize) + 1),
                .policy = &p->policy,
        };
        struct rdma_controller_ops ops = { owner_ops, recv_put, response_memory,
                                           put_response_memory };
        unsigned recvs = cfg.depth > 0 && cfg.depth < ENTRIES ? cfg.depth : ENTRIES;
        struct verbs_conn_param accept = { .reads_out = (uint8_t)cfg.reads };
        struct rdma_accept a = { .crqsize = le16(cfg.depth) };

        ops.request.buffer_get = buffer_get;
        ops.request.buffer_put = buffer_put;
        t->p.bind.format = cfg.format;
        if (!make_queue_pair(t, cfg.send_wrs, recvs, cfg.inline_bytes) ||
            verbs_reg(t->machine.ep.dev->domain, received, sizeof(received), 0, &t->receives) < 0)
                return false;
        t->c = rdma_controller_new(&cfg, &ops, t);
        if (!t->c)
                return false;
        for (unsigned i = 0; i < recvs && t->machine.ep.life.state == LIFE_CONNECTING; i++) {
                t->recv[i].wr = (struct verbs_wr) {
                        .op = VERBS_RECV,
                        .n_sge = 1,
                        .sge = { { received[i], CAPSULE, t->receives.lkey } },
                        .user = &t->recv[i],
                };
                post_recv(t, &t->recv[i]);
        }
        accept.data = &a;
        accept.len = sizeof(a);
        return t->machine.ep.life.state == LIFE_CONNECTING &&
               rdma_ep_accept(&t->machine.ep, &accept) == 0;
}

/* Private data in memory of just that size: who reads a byte too far is seen. NULL: no memory. */
static void *just(const struct verbs_conn_param *p)
{
        void *copy = malloc(p->len > 0 ? p->len : 1);

        if (copy && p->len > 0)
                memcpy(copy, p->data, p->len);
        return copy;
}

static struct fault check_request(struct rdma_play *t, const struct verbs_conn_param *p,
                                  struct rdma_request *r)
{
        static const struct rdma_limits limits = { 4, ENTRIES, 1, 1, 0 };
        void *data = just(p);
        struct fault f = { .rule = RULE_NONE, .code = RDMA_REJECT_RESOURCES };

        if (data) {
                f = rdma_request_check(data, p->len, p->reads_in, p->reads_out, &limits,
                                       &t->p.policy.waived);
                rdma_request_read(data, p->len, r);
        }
        free(data);
        if (is_fault(f)) {
                must(f.code >= RDMA_REJECT_LENGTH && f.code <= RDMA_REJECT_CNTLID);
                t->p.r->fault = f;
        }
        return f;
}

static const struct rdma_ep_ops machine_ops;

/* A controller is asked; a second request would be another's. */
static void machine_asked(struct rdma_group *g, const struct verbs_event *v)
{
        struct rdma_play *t =
            (struct rdma_play *)(void *)((char *)g - offsetof(struct rdma_play, machine.group));
        struct rdma_ep *e = &t->machine.ep;
        struct rdma_request r = { 0 };
        struct fault f = check_request(t, &v->param, &r);

        if (e->group) {
                rdma_ep_refuse(v->ep, NULL, 0);
                return;
        }
        rdma_ep_init(e, g, &machine_ops);
        if (is_fault(f) || rdma_ep_take(e, v->ep) < 0) {
                struct rdma_reject reject = { .sts = le16((uint16_t)f.code) };

                rdma_ep_refuse(v->ep, &reject, sizeof(reject));
                rdma_ep_step(e, LIFE_REFUSED);
        } else if (!make_controller(t, &r, v->param.reads_in)) {
                rdma_ep_step(e, LIFE_REFUSED);
        }
}

static bool make_host(struct rdma_play *t)
{
        static const struct rdma_host_ops ops = { get_memory, put_memory, data_keys };
        const struct play *p = &t->p;
        uint16_t qid = is(p, SESSION_IO) ? 1 : 0;
        struct rdma_format format = format_of(p, qid == 0);
        const struct rdma_host_config cfg = {
                .qid = qid,
                .depth = is(p, SESSION_HUNGRY) ? 2 : 31,
                .icdoff = format.icdoff,
                .in_capsule = format.in_capsule,
                .capsule_max = 64u + format.icdoff * 16u + format.in_capsule + CONNECT_DATA_LEN,
                .inline_bytes = is(p, SESSION_DIGESTS) ? 64 : 0,
                .msdbd = format.msdbd,
                .policy = &p->policy,
        };
        struct rdma_request r = { .qid = le16(qid),
                                  .hsqsize = le16(cfg.depth),
                                  .hrqsize = le16(cfg.depth) };
        struct verbs_conn_param ask = {
                .data = &r, .len = sizeof(r), .reads_in = READS, .rnr_retry = 7
        };
        size_t all;
        uint8_t *first = client_data(&all);

        if (!make_queue_pair(t, rdma_host_sends(&cfg), cfg.depth + 1u, cfg.inline_bytes) ||
            verbs_reg(t->machine.ep.dev->domain, first, all, VERBS_REMOTE_READ | VERBS_REMOTE_WRITE,
                      &t->data) < 0)
                return false;
        t->h = rdma_host_new(&cfg, &ops, t);
        if (!t->h)
                return false;
        post_of_host(t);
        return t->machine.ep.life.state == LIFE_CONNECTING &&
               rdma_ep_connect(&t->machine.ep, &ask) == 0;
}

static void check_answer(const struct verbs_event *v)
{
        struct rdma_request r = { .hsqsize = le16(31) };
        struct rule_set found = { 0 };
        void *data = just(&v->param);

        if (data && v->type == VERBS_ESTABLISHED)
                rdma_accept_check(data, v->param.len, v->param.reads_in, &r, &found);
        else if (data)
                rdma_reject_check(data, v->param.len, &found);
        free(data);
}

static bool machine_event(struct rdma_ep *e, const struct verbs_event *v)
{
        struct rdma_play *t = play_of_machine(e);

        if (v->type == VERBS_RESOLVED && !make_host(t))
                rdma_ep_step(e, LIFE_REFUSED);
        else if (t->h && (v->type == VERBS_ESTABLISHED || v->type == VERBS_REJECTED))
                check_answer(v);
        return true;
}

static const struct rdma_ep_ops machine_ops = { .event = machine_event,
                                                .completed = machine_completed,
                                                .moved = machine_moved,
                                                .end = machine_end };

/* --- the sequence: what it hears ---------------------------------------------------------------- */

static struct message capsule(const struct rdma_play *t, bool command, const uint8_t *bytes,
                              uint32_t len)
{
        const struct session_report *r = t->p.r;
        struct message m =
            message_of_capsule(command ? MESSAGE_COMMAND : MESSAGE_RESPONSE, bytes, len);

        if (r->message)
                r->message(r->user, command ? PARTY_HOST : PARTY_CONTROLLER, &m);
        return m;
}

static void hear(struct rdma_play *t, const uint8_t *bytes, uint32_t len)
{
        bool command = t->p.s->side == PARTY_CONTROLLER;
        struct message m = capsule(t, command, bytes, len);
        struct session_report *r = t->p.r;

        must(is_lenient(&t->p) || (command ? len >= sizeof(m.sqe) : len == sizeof(m.cqe)));
        r->heard += len;
        r->pdus++;
        if (command)
                fuzz_digest(&r->digest, &m.sqe.cid, sizeof(m.sqe.cid));
        else
                fuzz_digest(&r->digest, &m.cqe, sizeof(m.cqe));
        seq_bind_received(&t->p.bind, &m);
}

/* Again, with another key, once the controller has invalidated the old one. */
static bool register_memory(struct rdma_play *t)
{
        struct verbs_domain *d = t->player.ep.dev->domain;
        bool ok;

        if (t->memory.own)
                verbs_dereg(d, &t->memory);
        ok = verbs_reg(d, memory, sizeof(memory), VERBS_REMOTE_READ | VERBS_REMOTE_WRITE,
                       &t->memory) == 0;
        t->p.bind.memory.key = t->memory.rkey;
        return ok;
}

static bool player_posts_recv(struct rdma_play *t, unsigned i)
{
        struct verbs_wr *bad;

        t->player_recv[i] = (struct verbs_wr) { .op = VERBS_RECV,
                                                .n_sge = 1,
                                                .sge = { { own.heard[i], CAPSULE, t->own.lkey } } };
        return rdma_ep_post_recv(&t->player.ep, &t->player_recv[i], &bad) == 0;
}

static bool player_completed(struct rdma_ep *e, const struct verbs_wc *wc)
{
        struct rdma_play *t = play_of_player(e);

        if (wc->wr->op != VERBS_RECV) {
                t->sending[wc->wr - t->send] = false;
                return wc->status != VERBS_SUCCESS;
        }
        if (wc->status != VERBS_SUCCESS)
                return true;
        hear(t, wc->wr->sge[0].addr, wc->bytes);
        if (wc->invalidated && !register_memory(t))
                return true;
        return !player_posts_recv(t, (unsigned)(wc->wr - t->player_recv));
}

static void mark_written(struct rdma_play *t, uint32_t at, uint32_t len)
{
        for (uint32_t end = at + len, next; at < end; at = next) {
                uint32_t *place = &t->p.bind.memory.written[at / SEQ_DATA_MAX], upto;

                next = (at / SEQ_DATA_MAX + 1) * SEQ_DATA_MAX;
                upto = (end < next ? end : next) - (next - SEQ_DATA_MAX);
                if (*place < upto)
                        *place = upto;
        }
}

/* What a controller writes to the sequence's memory, if it may. */
static void tap(void *user, const struct memory_tap_entry *e)
{
        struct rdma_play *t = user;
        uint64_t at = e->addr - (uintptr_t)memory;

        if (e->act != MEMORY_WRITE || !t->machine.ep.ep || e->from != t->machine.ep.ep ||
            e->key != t->memory.rkey || at >= sizeof(memory) || e->len > sizeof(memory) - at)
                return;
        mark_written(t, (uint32_t)at, e->len);
        fuzz_digest(&t->p.r->digest, e->data, e->len);
        t->p.r->heard += e->len;
}

/* --- the sequence: connections ------------------------------------------------------------------ */

static bool player_ready(struct rdma_play *t)
{
        struct verbs_qp_attr attr = { .send_wrs = SENDS, .recv_wrs = RECVS };
        struct verbs_domain *d = t->player.ep.dev->domain;
        bool ok = rdma_ep_qp(&t->player.ep, &attr) == 0 &&
                  verbs_reg(d, &own, sizeof(own), 0, &t->own) == 0 && register_memory(t);

        for (unsigned i = 0; i < RECVS && ok; i++)
                ok = player_posts_recv(t, i);
        return ok;
}

static bool player_event(struct rdma_ep *e, const struct verbs_event *v)
{
        struct rdma_play *t = play_of_player(e);
        struct verbs_conn_param p = { .data = t->private,
                                      .len = (uint8_t)t->request.len,
                                      .reads_in = t->request.reads_in,
                                      .reads_out = t->request.reads_out };

        if (v->type == VERBS_RESOLVED && (!player_ready(t) || rdma_ep_connect(e, &p) < 0))
                rdma_ep_step(e, LIFE_REFUSED);
        return true;
}

static const struct rdma_ep_ops player_ops = { .event = player_event,
                                               .completed = player_completed };

/* A controller of the sequence's is asked. */
static void player_asked(struct rdma_group *g, const struct verbs_event *v)
{
        struct rdma_play *t =
            (struct rdma_play *)(void *)((char *)g - offsetof(struct rdma_play, player.group));
        struct rdma_request r = { 0 };

        rdma_request_read(v->param.data, v->param.len, &r);
        seq_bind_asked(&t->p.bind, &r);
        rdma_ep_init(&t->player.ep, g, &player_ops);
        if (rdma_ep_take(&t->player.ep, v->ep) < 0)
                rdma_ep_refuse(v->ep, NULL, 0);
}

/* Once: one that asks while there is a connection would be another host. */
static void ask(struct rdma_play *t, const struct bind_work *w)
{
        if (t->player.ep.group)
                return;
        t->request = *w;
        memcpy(t->private, own.said, w->len);
        rdma_ep_init(&t->player.ep, &t->player.group, &player_ops);
        if (rdma_ep_resolve(&t->player.ep, address, service, 1) < 0)
                rdma_ep_step(&t->player.ep, LIFE_REFUSED);
}

static void answer(struct rdma_play *t, const struct bind_work *w)
{
        struct rdma_ep *e = &t->player.ep;
        const struct verbs_conn_param p = { .data = own.said,
                                            .len = (uint8_t)w->len,
                                            .reads_in = w->reads_in,
                                            .reads_out = READS };

        if (!e->group || !e->ep || e->life.has_qp)
                return; /* it was answered */
        if (w->type == SEQ_ACCEPT) {
                t->accepted = player_ready(t) && rdma_ep_accept(e, &p) == 0;
                return;
        }
        rdma_ep_refuse(e->ep, own.said, (uint8_t)w->len);
        rdma_ep_disown(e);
}

/* --- the sequence: what it says ----------------------------------------------------------------- */

static void player_posts(struct rdma_play *t, const struct verbs_wr *like)
{
        struct verbs_wr *bad;
        unsigned i = 0;

        while (i < SENDS && t->sending[i])
                i++;
        if (i == SENDS || !is_live(&t->player))
                return;
        t->send[i] = *like;
        t->send[i].flags |= VERBS_SIGNALED;
        t->sending[i] = true;
        if (rdma_ep_post(&t->player.ep, &t->send[i], &bad) < 0) {
                rdma_ep_flushed(&t->player.ep, bad);
                rdma_ep_step(&t->player.ep, LIFE_FAILED);
        }
}

static void player_sends(struct rdma_play *t, const struct bind_work *w)
{
        player_posts(t,
                     &(struct verbs_wr) { .op = w->invalidate ? VERBS_SEND_INVALIDATE : VERBS_SEND,
                                          .n_sge = 1,
                                          .sge = { { own.said, w->len, t->own.lkey } },
                                          .rkey = w->key });
}

/* More than all the memory is more than a host has. */
static void player_transfers(struct rdma_play *t, const struct bind_work *w)
{
        uint32_t len = w->len < BIND_MEMORY ? w->len : BIND_MEMORY;

        if (w->type == SEQ_WRITE)
                memset(memory, 0x33, len);
        player_posts(t, &(struct verbs_wr) { .op = w->type == SEQ_WRITE ? VERBS_WRITE : VERBS_READ,
                                             .n_sge = 1,
                                             .sge = { { memory, len, t->memory.lkey } },
                                             .remote = w->addr,
                                             .rkey = w->key });
}

static void perform(struct rdma_play *t, const struct bind_work *w)
{
        if (w->type == SEQ_REQUEST)
                ask(t, w);
        else if (w->type == SEQ_ACCEPT || w->type == SEQ_REJECT)
                answer(t, w);
        else if (w->type == SEQ_READ || w->type == SEQ_WRITE)
                player_transfers(t, w);
        else
                player_sends(t, w);
}

static void perform_step(struct rdma_play *t, const struct seq_step *step)
{
        struct bind_work w = seq_bind_work(&t->p.bind, t->p.s, step, own.said);

        if (w.type == PDU_CAPSULE_CMD || w.type == PDU_CAPSULE_RESP)
                capsule(t, w.type == PDU_CAPSULE_CMD, own.said, w.len);
        for (unsigned i = 0; i < w.times; i++)
                perform(t, &w);
}

static void play_step(struct rdma_play *t, const struct seq_step *step)
{
        t->p.r->steps++;
        switch (step->kind) {
        case SEQ_PDU:
        case SEQ_RAW:
                perform_step(t, step);
                break;
        case SEQ_DELAY:
                if (t->c)
                        owner_unpark(&t->p);
                break;
        case SEQ_CLOSE:
                if (is_live(&t->player))
                        rdma_ep_disconnect(&t->player.ep);
                break;
        case SEQ_RESET:
                if (is_live(&t->player) && t->machine.ep.ep)
                        memory_inject(t->machine.ep.ep, VERBS_QP_ERROR, 0);
                break;
        case SEQ_FAIL:
                t->fail_in = step->of + 1u;
                t->fail_status = step->status;
                apply_failure(t);
                break;
        case SEQ_REMOVE:
                memory_remove(t->f, t->machine.group.context);
                break;
        case SEQ_RELOAD:
                break;
        }
}

/* --- all of it ---------------------------------------------------------------------------------- */

static int submit(struct play *p, struct host_cmd *cmd)
{
        return rdma_host_submit(play_of(p)->h, cmd);
}

/* Who of the two listens; a host's machine asks at once. */
static bool open_session(struct rdma_play *t)
{
        static const struct rdma_group_ops machine = { .request = machine_asked },
                                           player = { .request = player_asked };
        bool host = t->p.s->side == PARTY_HOST;
        struct verbs_provider *verbs;
        struct memory_caps caps;
        struct memory_config cfg = { .caps = &caps, .tap = tap, .user = t };

        memory_caps_default(&caps);
        caps.no_padding = true;
        caps.device.invalidates_mr = true;
        t->p.bind.memory = (struct bind_memory) { .at = memory, .addr = (uintptr_t)memory };
        for (unsigned i = 0; i < BIND_PLACES; i++)
                memset(memory + i * (size_t)SEQ_DATA_MAX, 0, written[i]);
        t->f = memory_fabric_new(&cfg);
        if (!t->f)
                return false;
        verbs = memory_provider(t->f);
        if (rdma_group_open(&t->machine.group, verbs, &machine, no_clock) < 0 ||
            rdma_group_open(&t->player.group, verbs, &player, no_clock) < 0 ||
            !verbs_listen(host ? t->machine.group.context : t->player.group.context, address,
                          service, 1))
                return false;
        if (host)
                return true;
        rdma_ep_init(&t->machine.ep, &t->machine.group, &machine_ops);
        return rdma_ep_resolve(&t->machine.ep, address, service, 1) == 0;
}

/* The queue pair ends, then what still executes, then all the rest. */
static void end_machine(struct rdma_play *t)
{
        struct rdma_ep *e = &t->machine.ep;

        rdma_ep_step(e, LIFE_ABORT);
        pump(t);
        must(e->life.state == LIFE_DEAD && t->ended == 1);
        if (t->c) {
                owner_unpark(&t->p);
                must(requests_executing(rdma_requests(t->c)) == 0);
        }
        must(rdma_ep_release(e));
        rdma_controller_free(t->c);
        rdma_host_free(t->h);
        t->c = NULL;
        t->h = NULL;
        must(t->p.owner.buffers == 0 && t->held == 0 && t->regions == 0);
        if (t->receives.own)
                verbs_dereg(e->dev->domain, &t->receives);
        if (t->data.own)
                verbs_dereg(e->dev->domain, &t->data);
        rdma_ep_destroy(e);
}

static void end(struct rdma_play *t)
{
        fuzz_scarce(0);
        if (t->machine.ep.group)
                end_machine(t);
        if (t->player.ep.group)
                rdma_ep_destroy(&t->player.ep);
        rdma_group_close(&t->machine.group);
        rdma_group_close(&t->player.group);
        must(memory_leaked(t->f) == 0);
        memory_fabric_free(t->f);
        for (unsigned i = 0; i < COMMANDS; i++)
                must(!t->p.busy[i]);
}

void session_play_rdma(const struct play *as)
{
        static struct rdma_play t;
        const struct sequence *s = as->s;

        t = (struct rdma_play) { .p = *as };
        t.p.submit = submit;
        fuzz_scarce(0); /* of the machine, and not of what is between the two */
        if (open_session(&t)) {
                fuzz_scarce(s->scarce);
                pump(&t);
                for (unsigned i = 0; i < s->steps && !t.p.closed; i++) {
                        if (s->step[i].on > 0)
                                continue;
                        play_step(&t, &s->step[i]);
                        if (is(&t.p, SESSION_BUDGET) && s->step[i].kind != SEQ_DELAY)
                                pump_some(&t);
                        else
                                pump(&t);
                }
        }
        t.p.r->end = life_state_name(t.machine.ep.life.state);
        end(&t);
        memcpy(written, t.p.bind.memory.written, sizeof(written));
}
