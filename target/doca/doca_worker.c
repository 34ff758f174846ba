/* SPDX-License-Identifier: BSD-3-Clause */
#include "doca_worker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doca_conn.h"
#include "pdu/core/plant.h"
#include "pdu/doca/machine/spoil.h"

enum {
        DRAINING_MS = 3000, /* that a device may take to flush a queue pair */
        GONE_MS = 200,      /* that a device which is gone may take */
        SLOTS_EACH = 2, /* per transaction: a result's completion may come after the next request */
        RETRIES = 7,
        RESOLVE_MS = 3000,
};

static struct doca_ep *ep_of(struct rdma_ep *e)
{
        return (struct doca_ep *)e;
}

static struct doca_shared *shared(const struct doca_worker *w)
{
        return doca_shared_of_conn(w->client);
}

/* --- slots -------------------------------------------------------------------------------------- */

static void drop_buffer(struct doca_slot *s)
{
        if (s->buf)
                conn_buffer_put(&s->worker->client->base, s->buf, (uint32_t)s->io.size);
        s->buf = NULL;
}

static void slot_free(struct doca_slot *s)
{
        struct doca_worker *w = s->worker;

        drop_buffer(s);
        s->next = w->free;
        w->free = s;
        w->in_use--;
        doca_conn_again(w->client);
}

static void put_last(struct verbs_wr ***last, struct verbs_wr *wr)
{
        wr->next = NULL;
        **last = wr;
        *last = &wr->next;
}

/* False: there is no queue pair that would take it. */
static bool queue_work(struct doca_worker *w, enum doca_role role, struct verbs_wr *wr)
{
        struct doca_ep *e = &w->ep[role];

        if (!e->made || e->ep.life.state != LIFE_LIVE)
                return false;
        put_last(&e->chain_last, wr);
        doca_conn_again(w->client);
        return true;
}

static void count(struct doca_slot *s)
{
        struct doca_stats *stats = &s->worker->stats;
        bool ok = s->result == DOCA_SUCCESS;

        stats->failed += !ok;
        if (s->io.type == DOCA_IO_READ) {
                stats->reads++;
                stats->bytes_read += ok ? s->io.size : 0;
        } else if (s->io.type == DOCA_IO_WRITE) {
                stats->writes++;
                stats->bytes_written += ok ? s->io.size : 0;
        }
}

/* A response is the message of its request. */
static void send_result(struct doca_slot *s)
{
        struct doca_worker *w = s->worker;
        uint32_t n = DOCA_IO_LEN;

        s->answered = true;
        doca_io_answer(shared(w)->dialect, s->message, s->result);
        (void)doca_spoil_io(&shared(w)->policy.violated, shared(w)->dialect, PARTY_CONTROLLER,
                            s->message, &n);
        s->send = (struct verbs_wr) { .op = VERBS_SEND,
                                      .flags = VERBS_SIGNALED,
                                      .n_sge = 1,
                                      .sge = { { s->message, n, w->message_key } },
                                      .user = s };
        if (!queue_work(w, DOCA_IO_CONTROL, &s->send))
                slot_free(s);
}

static void finish(struct doca_slot *s, uint32_t result)
{
        s->result = result;
        count(s);
        drop_buffer(s);
        send_result(s);
}

/* --- the storage -------------------------------------------------------------------------------- */

static uint32_t error_of(enum ns_result r)
{
        return r == NS_DONE        ? DOCA_SUCCESS
               : r == NS_NO_MEMORY ? DOCA_ERROR_NO_MEMORY
                                   : DOCA_ERROR_IO_FAILED;
}

/* Its data cannot be moved. */
static void give_up(struct doca_slot *s, uint32_t why)
{
        if (s->answered)
                slot_free(s);
        else
                finish(s, why);
}

static void transfer(struct doca_slot *s, enum verbs_op op)
{
        struct doca_worker *w = s->worker;
        const struct doca_memory *m = &w->client->memory;

        s->data =
            (struct verbs_wr) { .op = op,
                                .flags = VERBS_SIGNALED,
                                .n_sge = 1,
                                .sge = { { s->buf, (uint32_t)s->io.size,
                                           regmem_key(s->buf, pool_size((uint32_t)s->io.size)) } },
                                .remote = m->base + s->place.memory,
                                .rkey = m->rkey,
                                .user = s };
        if (!queue_work(w, DOCA_IO_DATA, &s->data))
                give_up(s, DOCA_ERROR_NOT_CONNECTED);
}

/* What the storage has done is done in time, too. */
static void stored(struct doca_slot *s)
{
        uint32_t result = error_of(s->wait.result);

        if (result != DOCA_SUCCESS || s->io.type == DOCA_IO_WRITE) {
                finish(s, result);
                return;
        }
        s->early = rule_in(&shared(s->worker)->policy.violated, DOCA_DATA_FIRST);
        if (s->early) {
                s->result = DOCA_SUCCESS;
                count(s);
                send_result(s);
        } else {
                transfer(s, VERBS_WRITE);
        }
}

/* Another thread's: the client lives until it is through. */
static void give_back(struct ns_wait *wait)
{
        struct doca_slot *s =
            (struct doca_slot *)(void *)((char *)wait - offsetof(struct doca_slot, wait));
        struct reactor *r = s->worker->client->base.reactor;
        struct doca_reactor *own = r->own;
        struct doca_slot *top = atomic_load(&own->finished);

        do
                s->next = top;
        while (!atomic_compare_exchange_weak(&own->finished, &top, s));
        loop_post(&r->loop, &own->mail);
}

static void store(struct doca_slot *s, enum ns_result done)
{
        struct doca_worker *w = s->worker;
        struct ns *ns = shared(w)->ns;

        s->wait = (struct ns_wait) { .write = s->io.type == DOCA_IO_WRITE,
                                     .result = done,
                                     .done = give_back };
        if (done != NS_DONE || !ns_waits(ns, false)) {
                stored(s);
                return;
        }
        w->away++;
        if (!ns_await(ns, &s->wait))
                return;
        w->away--;
        stored(s);
}

static struct doca_slot *in_order(struct doca_slot *newest)
{
        struct doca_slot *list = NULL, *next;

        for (; newest; newest = next) {
                next = newest->next;
                newest->next = list;
                list = newest;
        }
        return list;
}

static void take_back(struct loop_message *m)
{
        struct doca_reactor *own =
            (struct doca_reactor *)(void *)((char *)m - offsetof(struct doca_reactor, mail));
        struct doca_slot *s = in_order(atomic_exchange(&own->finished, NULL)), *next;

        for (; s; s = next) {
                next = s->next;
                s->worker->away--;
                stored(s);
        }
}

void doca_reactor_init(struct reactor *r)
{
        ((struct doca_reactor *)r->own)->mail.run = take_back;
}

static void read_storage(struct doca_slot *s)
{
        struct ns *ns = shared(s->worker)->ns;

        store(s, ns_read(ns, s->place.storage >> ns->lbads, (uint32_t)(s->io.size >> ns->lbads),
                         s->buf));
}

static void write_storage(struct doca_slot *s)
{
        struct ns *ns = shared(s->worker)->ns;
        bool fixed = atomic_load(&ns->protection);

        store(s, fixed ? NS_FIXED
                       : ns_write(ns, s->place.storage >> ns->lbads,
                                  (uint32_t)(s->io.size >> ns->lbads), s->buf));
}

/* --- requests ----------------------------------------------------------------------------------- */

static void go_hungry(struct doca_slot *s)
{
        struct doca_worker *w = s->worker;

        s->next = NULL;
        *w->hungry_last = s;
        w->hungry_last = &s->next;
}

/* False: it waits for a buffer. */
static bool execute(struct doca_slot *s)
{
        s->buf = conn_buffer_get(&s->worker->client->base, (uint32_t)s->io.size);
        if (!s->buf)
                return false;
        if (s->io.type == DOCA_IO_READ)
                read_storage(s);
        else
                transfer(s, VERBS_READ);
        return true;
}

static enum doca_rule reason(const struct doca_worker *w, const struct rule_set *found)
{
        rule_each_in (found, id)
                if (doca_is_refused(&shared(w)->policy, (enum doca_rule)id))
                        return (enum doca_rule)id;
        return DOCA_RULE_NONE;
}

/* A waived rule is not checked, and still nothing beyond the storage is touched. */
static uint32_t refusal(const struct doca_slot *s, enum doca_rule broken)
{
        const struct doca_worker *w = s->worker;
        const struct doca_shared *d = shared(w);

        if (broken != DOCA_RULE_NONE)
                return doca_refusal(broken);
        if (w->client->memory.len == 0)
                return DOCA_ERROR_BAD_STATE;
        if (s->io.size > d->base.limits.max_transfer)
                return DOCA_ERROR_TOO_BIG;
        if (s->place.storage % doca_block_size(d) || s->io.size % doca_block_size(d))
                return DOCA_ERROR_INVALID_VALUE;
        return doca_within(s->place.storage, s->io.size, doca_total_size(d)) ? DOCA_SUCCESS
                                                                             : DOCA_ERROR_IO_FAILED;
}

static void say_refusal(const struct doca_slot *s, enum doca_rule broken, uint32_t code)
{
        const struct doca_worker *w = s->worker;
        const struct rule *r = doca_rule_get(broken);
        char line[200];
        struct text t = text_in(line, sizeof(line));

        doca_tell_broken(shared(w), broken);
        doca_io_line(&t, shared(w)->dialect, &s->io);
        doca_conn_warn(w->client, "request", "context %u: %s: %s%s%s", w->index, line,
                       doca_error_name(code), r ? ": " : "", r ? r->id : "");
}

static struct doca_bounds bounds_of(const struct doca_worker *w)
{
        return (struct doca_bounds) { .total_size = doca_total_size(shared(w)),
                                      .block_size = doca_block_size(shared(w)),
                                      .base = w->client->memory.base,
                                      .len = w->client->memory.len };
}

static enum doca_fault fault_of(const struct doca_slot *s)
{
        return s->io.type <= DOCA_IO_WRITE ? shared(s->worker)->faults.io[s->io.type]
                                           : DOCA_FAULT_NONE;
}

/* It has no result, on purpose. */
static bool is_left_out(struct doca_worker *w, const struct doca_slot *s)
{
        return fault_of(s) == DOCA_FAULT_SILENT ||
               (rule_in(&shared(w)->policy.violated, DOCA_IO_ANSWERED) && w->begun++ % 2 == 1);
}

static void do_request(struct doca_slot *s)
{
        struct doca_worker *w = s->worker;

        if (is_left_out(w, s))
                slot_free(s);
        else if (fault_of(s) == DOCA_FAULT_REFUSE)
                finish(s, DOCA_ERROR_IO_FAILED);
        else if (s->io.size == 0)
                finish(s, DOCA_SUCCESS);
        else if (!execute(s))
                go_hungry(s);
}

static void begin(struct doca_slot *s, uint32_t bytes)
{
        struct doca_worker *w = s->worker;
        const struct doca_dialect *d = shared(w)->dialect;
        struct doca_bounds bounds = bounds_of(w);
        struct rule_set found = { 0 };
        enum doca_rule broken;
        uint32_t code;

        (void)doca_io_read(d, s->message, bytes, PARTY_HOST, &s->io, &found);
        doca_bounds_check(d, &bounds, &s->io, &found);
        s->place = doca_io_place(d, &s->io, bounds.base);
        broken = reason(w, &found);
        if (broken == DOCA_RULE_NONE && s->io.type == DOCA_IO_STOP) {
                doca_conn_stopped(w->client);
                finish(s, DOCA_SUCCESS);
                return;
        }
        code = refusal(s, broken);
        if ((code == DOCA_ERROR_IO_FAILED && rule_in(&shared(w)->policy.waived, DOCA_IO_STORAGE)) ||
            (broken == DOCA_IO_STORAGE && PLANTED(DOCA_RANGE))) {
                finish(s, DOCA_SUCCESS); /* overlooked, and nothing is touched */
                return;
        }
        if (code == DOCA_SUCCESS) {
                do_request(s);
                return;
        }
        w->in_use -= broken == DOCA_IO_TYPE_S && PLANTED(DOCA_STOP_COUNT);
        say_refusal(s, broken, code);
        finish(s, code);
}

/* The receive goes back before the result is sent: the client may answer that at once. */
static void take_request(struct doca_worker *w, struct rdma_recv *rx)
{
        struct doca_slot *s = w->free;
        uint8_t *message = s->message;

        w->free = s->next;
        w->in_use++;
        *s = (struct doca_slot) { .worker = w, .message = message };
        memset(message, 0, DOCA_IO_LEN);
        memcpy(message, rx->wr.sge[0].addr, rx->bytes < DOCA_IO_LEN ? rx->bytes : DOCA_IO_LEN);
        rx->wr.next = w->to_post;
        w->to_post = &rx->wr;
        w->part.taken++;
        begin(s, rx->bytes);
}

static void take_or_defer(struct doca_worker *w, struct rdma_recv *rx)
{
        doca_conn_again(w->client);
        if (!w->waiting && w->free && conn_ask(&w->client->base, &w->part) > 0) {
                take_request(w, rx);
                return;
        }
        rx->next = NULL;
        *w->waiting_last = rx;
        w->waiting_last = &rx->next;
}

static void take_waiting(struct doca_worker *w)
{
        while (w->waiting && w->free && conn_ask(&w->client->base, &w->part) > 0) {
                struct rdma_recv *rx = w->waiting;

                w->waiting = rx->next;
                if (!w->waiting)
                        w->waiting_last = &w->waiting;
                take_request(w, rx);
        }
        if (w->waiting && w->free)
                doca_conn_again(w->client);
}

void doca_worker_feed(struct doca_worker *w)
{
        struct doca_slot *s = w->hungry, *next;

        w->hungry = NULL;
        w->hungry_last = &w->hungry;
        for (; s; s = next) {
                next = s->next;
                if (!execute(s))
                        go_hungry(s);
        }
}

/* --- completions -------------------------------------------------------------------------------- */

static void sent(struct doca_slot *s, bool ok)
{
        struct doca_worker *w = s->worker;

        if (!ok || !s->early) {
                slot_free(s);
                return;
        }
        s->next = w->late;
        w->late = s;
}

/* Its result went before it, and long before. */
static void send_late_data(struct doca_worker *w)
{
        struct doca_slot *s = w->late, *next;

        w->late = NULL;
        for (; s; s = next) {
                next = s->next;
                transfer(s, VERBS_WRITE);
        }
}

static void transferred(struct doca_slot *s, bool ok)
{
        if (ok && s->io.type == DOCA_IO_WRITE)
                write_storage(s);
        else
                give_up(s, ok ? DOCA_SUCCESS : DOCA_ERROR_IO_FAILED);
}

static void say_failure(const struct doca_ep *e, const struct verbs_wc *wc)
{
        const struct doca_worker *w = e->worker;

        if (wc->status != VERBS_SUCCESS && wc->status != VERBS_FLUSHED && !w->closing)
                doca_conn_warn(w->client, "failed", "context %u: %s on %s failed: %s", w->index,
                               verbs_op_name(wc->wr->op), doca_role_name(e->role),
                               verbs_status_name(wc->status));
}

static bool on_completion(struct rdma_ep *ep, const struct verbs_wc *wc)
{
        struct doca_ep *e = ep_of(ep);

        say_failure(e, wc);
        if (wc->wr->op == VERBS_RECV) {
                struct rdma_recv *rx = (struct rdma_recv *)wc->wr;

                rx->bytes = wc->bytes;
                if (wc->status == VERBS_SUCCESS && e->role == DOCA_IO_CONTROL)
                        take_or_defer(e->worker, rx);
        } else if (wc->wr->op == VERBS_SEND) {
                sent(wc->wr->user, wc->status == VERBS_SUCCESS);
        } else if (wc->wr != &e->knock) {
                transferred(wc->wr->user, wc->status == VERBS_SUCCESS);
        }
        return wc->status != VERBS_SUCCESS;
}

/* --- posting ------------------------------------------------------------------------------------ */

static void post_receives(struct doca_worker *w)
{
        struct verbs_wr *chain = w->to_post, *bad;

        w->to_post = NULL;
        if (chain && rdma_ep_post_recv(&w->ep[DOCA_IO_CONTROL].ep, chain, &bad) < 0)
                rdma_ep_step(&w->ep[DOCA_IO_CONTROL].ep, LIFE_FAILED);
}

/* What was to go over a queue pair that has failed since. */
static void drop_chain(struct verbs_wr *chain)
{
        for (struct verbs_wr *next; chain; chain = next) {
                next = chain->next;
                if (chain->op == VERBS_SEND)
                        sent(chain->user, false);
                else if (chain->user) /* a knock is nobody's */
                        transferred(chain->user, false);
        }
}

static void post_chain(struct doca_ep *e)
{
        struct verbs_wr *chain = e->chain, *bad = NULL;

        e->chain = NULL;
        e->chain_last = &e->chain;
        if (chain && e->ep.life.state != LIFE_LIVE)
                drop_chain(chain);
        else if (chain && rdma_ep_post(&e->ep, chain, &bad) < 0)
                rdma_ep_flushed(&e->ep, bad);
}

/* iWARP: the side that connected has to send first (RFC 5044, 7.1.2), and here the other one wants to. */
static void knock(struct doca_ep *e)
{
        if (!e->knocks || e->ep.life.state != LIFE_LIVE)
                return;
        e->knocks = false;
        e->knock = (struct verbs_wr) { .op = VERBS_WRITE, .flags = VERBS_SIGNALED };
        (void)queue_work(e->worker, e->role, &e->knock);
}

/* Receives first: the client may answer a result at once. */
static void post(struct doca_worker *w)
{
        if (w->ep[DOCA_IO_CONTROL].made && w->ep[DOCA_IO_CONTROL].ep.life.state <= LIFE_LIVE)
                post_receives(w);
        knock(&w->ep[DOCA_IO_CONTROL]);
        post_chain(&w->ep[DOCA_IO_DATA]);
        post_chain(&w->ep[DOCA_IO_CONTROL]);
}

void doca_worker_go_on(struct doca_worker *w)
{
        take_waiting(w);
        post(w);
}

static void settle(struct rdma_ep *e)
{
        struct doca_worker *w = ep_of(e)->worker;

        doca_worker_go_on(w);
        doca_conn_again(w->client);
}

/* --- timers, the end ---------------------------------------------------------------------------- */

void doca_worker_sweep(struct doca_worker *w)
{
        for (unsigned role = 0; role < DOCA_ROLES; role++) {
                struct rdma_ep *e = &w->ep[role].ep;

                if (w->ep[role].made && e->life.state > LIFE_LIVE)
                        rdma_ep_expire(e, GONE_MS, e->dev && e->dev->gone ? GONE_MS : DRAINING_MS);
        }
        send_late_data(w);
}

/* Requests that wait for memory wait for nothing any more; receives are the chunk's. */
static void drop_hungry(struct doca_worker *w)
{
        struct doca_slot *s = w->hungry, *next;

        w->hungry = NULL;
        w->hungry_last = &w->hungry;
        w->waiting = NULL;
        w->waiting_last = &w->waiting;
        for (; s; s = next) {
                next = s->next;
                slot_free(s);
        }
}

void doca_worker_close(struct doca_worker *w)
{
        w->closing = true;
        post(w);
        for (unsigned role = 0; role < DOCA_ROLES; role++)
                if (w->ep[role].made)
                        rdma_ep_step(&w->ep[role].ep, LIFE_ABORT);
        drop_hungry(w);
}

bool doca_worker_is_over(const struct doca_worker *w)
{
        for (unsigned role = 0; role < DOCA_ROLES; role++)
                if (w->ep[role].made && w->ep[role].ep.life.state < LIFE_DEAD)
                        return false;
        return (w->in_use == 0 || PLANTED(DOCA_STOP_COUNT)) && w->away == 0;
}

static void drop_memory(struct doca_worker *w)
{
        uint64_t bytes = pool_size(w->n_slots * DOCA_IO_LEN);

        if (w->recvs)
                rdma_device_drop_chunk(w->device, w->recvs);
        if (w->messages)
                regmem_put(&w->device->memory, w->messages, bytes);
        free(w->slots);
        w->recvs = NULL;
        w->messages = NULL;
        w->slots = w->free = NULL;
}

void doca_worker_dismantle(struct doca_worker *w)
{
        if (w->device)
                drop_memory(w);
        for (unsigned role = 0; role < DOCA_ROLES; role++) {
                if (w->ep[role].made)
                        (void)rdma_ep_release(&w->ep[role].ep);
                if (w->client->base.reactor->rdma) /* or they never were any */
                        rdma_ep_destroy(&w->ep[role].ep);
        }
}

bool doca_worker_is_ready(const struct doca_worker *w)
{
        for (unsigned role = 0; role < DOCA_ROLES; role++)
                if (!w->ep[role].made || w->ep[role].ep.life.state != LIFE_LIVE)
                        return false;
        return true;
}

bool doca_worker_is_lost(const struct doca_worker *w)
{
        for (unsigned role = 0; role < DOCA_ROLES; role++)
                if (!w->ep[role].made || w->ep[role].ep.life.state > LIFE_LIVE)
                        return true;
        return false;
}

/* --- queue pairs -------------------------------------------------------------------------------- */

static bool on_event(struct rdma_ep *ep, const struct verbs_event *event);

void doca_worker_init(struct doca_worker *w, struct doca_conn *client, unsigned index)
{
        static const struct rdma_ep_ops ops = { .event = on_event,
                                                .completed = on_completion,
                                                .settle = settle };

        w->client = client;
        w->index = index;
        w->waiting_last = &w->waiting;
        w->hungry_last = &w->hungry;
        for (unsigned role = 0; role < DOCA_ROLES; role++) {
                struct doca_ep *e = &w->ep[role];

                e->worker = w;
                e->role = (enum doca_role)role;
                e->chain_last = &e->chain;
                if (client->base.reactor->rdma)
                        rdma_ep_init(&e->ep, &client->base.reactor->rdma->group, &ops);
        }
}

/* -1 with errno. */
static int make_slots(struct doca_worker *w)
{
        uint64_t bytes;

        if (w->slots)
                return 0;
        w->n_slots = SLOTS_EACH * (uint32_t)w->client->transactions;
        bytes = pool_size(w->n_slots * DOCA_IO_LEN);
        w->slots = calloc(w->n_slots, sizeof(*w->slots));
        w->messages = regmem_get(&w->device->memory, bytes);
        if (!w->slots || !w->messages) {
                drop_memory(w);
                errno = ENOMEM;
                return -1;
        }
        w->message_key = regmem_key(w->messages, bytes);
        for (uint32_t i = 0; i < w->n_slots; i++) {
                w->slots[i].message = w->messages + (size_t)i * DOCA_IO_LEN;
                w->slots[i].next = w->free;
                w->free = &w->slots[i];
        }
        return 0;
}

static int make_receives(struct doca_worker *w)
{
        unsigned n = (unsigned)w->client->transactions;
        struct verbs_wr *bad;

        w->recvs = rdma_device_chunk(w->device, n);
        if (!w->recvs)
                return -1;
        for (unsigned i = 0; i + 1 < n; i++)
                w->recvs->recv[i].wr.next = &w->recvs->recv[i + 1].wr;
        return rdma_ep_post_recv(&w->ep[DOCA_IO_CONTROL].ep, &w->recvs->recv[0].wr, &bad);
}

/* io_data never receives anything, but a queue pair without receives would take them from an SRQ. */
static int make_queue_pair(struct doca_worker *w, struct doca_ep *e)
{
        struct verbs_qp_attr attr = {
                .send_wrs = SLOTS_EACH * (uint32_t)w->client->transactions,
                .recv_wrs = e->role == DOCA_IO_CONTROL ? (uint32_t)w->client->transactions : 1,
        };
        struct verbs_qp_attr asked = attr;

        if (rdma_ep_qp(&e->ep, &attr) < 0)
                return -1;
        e->made = true;
        errno = ENOSPC;
        return attr.send_wrs < asked.send_wrs || attr.recv_wrs < asked.recv_wrs ? -1 : 0;
}

static int join(struct doca_ep *e, const struct doca_end *peer, struct doca_end *own)
{
        const struct verbs_caps *caps = e->ep.dev->caps;
        struct verbs_conn_param p = {
                .reads_in = caps->reads_in < peer->reads_out ? caps->reads_in : peer->reads_out,
                .reads_out = caps->reads_out < peer->reads_in ? caps->reads_out : peer->reads_in,
                .rnr_retry = RETRIES,
                .retry = RETRIES,
        };

        *own = (struct doca_end) { .reads_in = caps->reads_in,
                                   .reads_out = caps->reads_out,
                                   .rnr_retry = RETRIES,
                                   .retry = RETRIES };
        errno = EPROTO; /* who answers no READ cannot be written from */
        return p.reads_out == 0 || rdma_ep_numbers(&e->ep, &own->numbers) < 0
                   ? -1
                   : rdma_ep_join(&e->ep, &peer->numbers, &p);
}

/* NULL: its workers have no queue pair yet. */
static struct rdma_device *device_of(const struct doca_conn *c)
{
        for (unsigned i = 0; i < c->n_workers; i++)
                if (c->workers[i].device)
                        return c->workers[i].device;
        return NULL;
}

/* All queue pairs of a client are of one device, for its buffers are that device's. */
static int use_device(struct doca_worker *w, struct rdma_dev *dev)
{
        struct conn *base = &w->client->base;
        struct rdma_device *used = device_of(w->client),
                           *device = rdma_device_of(base->reactor->rdma, dev);

        errno = device ? EXDEV : errno;
        if (!device || (used && used != device))
                return -1;
        w->device = device;
        base->pool = &device->pool;
        return 0;
}

/* It has no queue pair there any more. */
static void leave_device(struct doca_worker *w)
{
        drop_memory(w);
        w->device = NULL;
        if (!device_of(w->client))
                doca_conn_leave_pool(w->client);
}

/* On its device: all that it needs to be joined, or to connect. */
static int prepare(struct doca_worker *w, struct doca_ep *e)
{
        if (use_device(w, e->ep.dev) < 0)
                return -1;
        if (make_queue_pair(w, e) < 0 || make_slots(w) < 0)
                return -1;
        return e->role == DOCA_IO_CONTROL ? make_receives(w) : 0;
}

/* --- by the connection manager ------------------------------------------------------------------ */

/* The address of its peer is known. */
static int connect_to(struct doca_ep *e)
{
        const struct verbs_caps *caps = e->ep.dev->caps;
        struct verbs_conn_param p = { .data = e->data,
                                      .len = sizeof(e->data),
                                      .reads_in = caps->reads_in,
                                      .reads_out =
                                          caps->reads_out < e->reads ? caps->reads_out : e->reads,
                                      .rnr_retry = RETRIES,
                                      .retry = RETRIES };

        return prepare(e->worker, e) < 0 ? -1 : rdma_ep_connect(&e->ep, &p);
}

static bool on_event(struct rdma_ep *ep, const struct verbs_event *event)
{
        struct doca_ep *e = ep_of(ep);

        if (event->type == VERBS_RESOLVED && connect_to(e) < 0) {
                doca_conn_warn(e->worker->client, "failed", "context %u: %s to %s port %s: %s",
                               e->worker->index, doca_role_name(e->role), e->addr, e->port,
                               strerror(errno));
                rdma_ep_step(ep, LIFE_REFUSED);
        }
        e->knocks = e->by_cm && event->type == VERBS_ESTABLISHED && e->role == DOCA_IO_CONTROL;
        return true;
}

static int reach(struct doca_ep *e, const struct doca_end *peer, struct doca_end *own)
{
        static const uint8_t v4[12] = { [10] = 0xff, [11] = 0xff };
        const uint8_t *gid = peer->numbers.gid;
        bool is_v4 = memcmp(gid, v4, sizeof(v4)) == 0;

        (void)inet_ntop(is_v4 ? AF_INET : AF_INET6, is_v4 ? gid + sizeof(v4) : gid, e->addr,
                        sizeof(e->addr));
        snprintf(e->port, sizeof(e->port), "%u", peer->port);
        doca_cm_write(peer->cookie, e->data);
        e->reads = peer->reads_in;
        e->by_cm = e->made = true;
        *own = *peer;
        return rdma_ep_resolve(&e->ep, e->addr, e->port, RESOLVE_MS);
}

/* --- by either way ------------------------------------------------------------------------------ */

static int create(struct doca_worker *w, struct doca_ep *e, const char *device,
                  const struct doca_end *peer, struct doca_end *own)
{
        if (peer->by_cm)
                return reach(e, peer, own);
        if (rdma_ep_local(&e->ep, device) < 0)
                return -1;
        return prepare(w, e) < 0 ? -1 : join(e, peer, own);
}

/* Whatever it had got to: it may be tried again. */
static void undo(struct doca_ep *e)
{
        struct doca_worker *w = e->worker;
        int saved = errno;

        rdma_ep_destroy(&e->ep);
        if (e->role == DOCA_IO_CONTROL && w->recvs) {
                rdma_device_drop_chunk(w->device, w->recvs);
                w->recvs = NULL;
        }
        if (w->device && !w->ep[!e->role].ep.dev)
                leave_device(w);
        e->made = e->by_cm = false;
        rdma_ep_init(&e->ep, &w->client->base.reactor->rdma->group, e->ep.ops);
        errno = saved;
}

const char *doca_worker_create(struct doca_worker *w, enum doca_role role,
                               const struct doca_end *peer, struct doca_end *own)
{
        struct doca_conn *c = w->client;
        const struct doca_shared *s = shared(w);

        if (!c->base.reactor->rdma)
                return s->no_rdma[0] ? s->no_rdma : "no RDMA here";
        if (w->ep[role].made)
                return "it has this connection already";
        if (create(w, &w->ep[role], s->device ? s->device : c->base.traddr, peer, own) == 0)
                return NULL;
        undo(&w->ep[role]);
        return errno == ENODEV || errno == EADDRNOTAVAIL ? "no RDMA device has this address"
                                                         : strerror(errno);
}
