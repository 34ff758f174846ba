/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Live hosts over RDMA: one context, one thread. A connection is a queue pair between the capsule
 * machine (rdma_controller.h) and its life (rdma_life.h); it has receives and memory of its own.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/nvme/memory.h"
#include "host/time.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "pdu/nvme/rdma/rdma_controller.h"
#include "pdu/nvme/wire/discovery.h"
#include "pdu/verbs/rdma_life.h"
#include "replay_server.h"

enum {
        FDS = 32,
        BACKLOG = 64,
        BATCH = 64,
        ENTRIES_MAX = 1024,
        QUEUES_MAX = 256,
        WRS_EACH = 2,  /* work requests of a command: data and response; more wait */
        WRS_MORE = 17, /* data of one command in many pieces, and the sentinel */
        SENTINEL = 1,
        RESPONSE_LEN = 16,
        LATE_MS = 3000, /* that the end of a connection may take */
};

struct conn {
        struct serve_conn common; /* first */
        struct verbs_ep *ep;
        struct verbs_domain *domain;
        struct rdma_controller *machine;
        struct rdma_life life;
        struct memory memory;
        struct rdma_recv *recvs;
        struct verbs_wr *to_post;            /* of them */
        struct rdma_recv *kept, **kept_last; /* capsules before it was established */
        uint32_t cqes;
        uint64_t since; /* ns: in this state of life */
};

struct loop {
        struct server *server;
        struct verbs_context *context;
        struct verbs_listener *listener; /* NULL: its device is gone */
};

static struct conn *of(struct serve_conn *c)
{
        return (struct conn *)c;
}

/* --- what the machine asks for ---------------------------------------------------------------- */

static uint8_t *buffer_get(void *user, uint32_t len, uint32_t *lkey)
{
        return memory_own(&((struct conn *)user)->memory, len, lkey);
}

static void buffer_put(void *user, uint8_t *buf, uint32_t len)
{
        (void)len;
        memory_drop(&((struct conn *)user)->memory, buf);
}

static void *response_memory(void *user, uint32_t bytes, uint32_t *lkey)
{
        return memory_own(&((struct conn *)user)->memory, bytes, lkey);
}

static void response_memory_put(void *user, void *memory, uint32_t bytes)
{
        (void)bytes;
        memory_drop(&((struct conn *)user)->memory, memory);
}

static void recv_put(void *user, struct rdma_recv *rx)
{
        struct conn *c = user;

        rx->wr.next = c->to_post;
        c->to_post = &rx->wr;
}

/* --- its life --------------------------------------------------------------------------------- */

static void take_capsule(struct conn *c, struct rdma_recv *rx)
{
        c->common.over |= rdma_controller_received(c->machine, rx);
}

/* Those that came before it was established: taken now, or given back. */
static void empty_kept(struct conn *c, bool take)
{
        struct rdma_recv *rx = c->kept, *next;

        c->kept = NULL;
        c->kept_last = &c->kept;
        for (; rx; rx = next) {
                next = rx->next;
                if (take)
                        take_capsule(c, rx);
                else
                        recv_put(c, rx);
        }
}

/* What can't be posted is as good as flushed. */
static void fail_queue_pair(struct conn *c)
{
        struct verbs_wr *send, *recv, *bad;

        verbs_fail(c->ep);
        send = life_send_sentinel(&c->life);
        recv = life_recv_sentinel(&c->life);
        if (verbs_post(c->ep, send, &bad) < 0)
                life_sentinel_flushed(&c->life, send);
        if (verbs_post_recv(c->ep, recv, &bad) < 0)
                life_sentinel_flushed(&c->life, recv);
}

static void end(struct conn *c)
{
        empty_kept(c, false);
        rdma_controller_end(c->machine);
        serve_unpark(&c->common);
}

/* It stays busy, so that it is not released before settle() says so. */
static void step(struct conn *c, enum life_event e)
{
        enum life_state was = c->life.state;
        unsigned todo;

        life_busy(&c->life);
        todo = life_event(&c->life, e);
        if (c->life.state != was)
                c->since = host_now();
        if (todo & LIFE_DO_REPLAY)
                empty_kept(c, true);
        if (todo & LIFE_DO_DISCONNECT)
                verbs_disconnect(c->ep);
        if (todo & LIFE_DO_FAIL)
                fail_queue_pair(c);
        if (todo & LIFE_DO_END)
                end(c);
}

static void dismantle(struct conn *c)
{
        if (c->machine)
                rdma_controller_free(c->machine);
        if (c->ep)
                verbs_destroy(c->ep);
        memory_fini(&c->memory);
        free(c->recvs);
        free(c);
}

/* --- completions ------------------------------------------------------------------------------ */

static void received(struct conn *c, const struct verbs_wc *wc)
{
        struct rdma_recv *rx = (struct rdma_recv *)wc->wr;

        rx->bytes = wc->bytes;
        if (wc->status == VERBS_SUCCESS && c->life.state == LIFE_CONNECTING) {
                rx->next = NULL;
                *c->kept_last = rx;
                c->kept_last = &rx->next;
        } else if (wc->status == VERBS_SUCCESS && c->life.state == LIFE_LIVE) {
                take_capsule(c, rx);
        } else {
                recv_put(c, rx);
                if (wc->status != VERBS_SUCCESS)
                        step(c, LIFE_FAILED);
        }
}

static void completed(struct conn *c, const struct verbs_wc *wc)
{
        if (life_sentinel_flushed(&c->life, wc->wr))
                return;
        if (wc->wr->op == VERBS_RECV)
                received(c, wc);
        else if (c->life.state < LIFE_DEAD && rdma_controller_completed(c->machine, wc))
                step(c, LIFE_FAILED);
}

/* All that is there, of each device once. */
static bool poll_all(struct server *sv)
{
        struct verbs_wc wc[BATCH];
        bool any = false;
        int n;

        for (unsigned i = 0; i < sv->n_conns; i++) {
                struct verbs_domain *d = of(sv->conns[i])->domain;
                unsigned k = 0;

                while (of(sv->conns[k])->domain != d)
                        k++;
                while (k == i && (n = verbs_poll(d, wc, BATCH)) > 0) {
                        any = true;
                        for (int m = 0; m < n; m++)
                                if (wc[m].ep && verbs_user(wc[m].ep))
                                        completed(verbs_user(wc[m].ep), &wc[m]);
                }
        }
        return any;
}

/* --- what goes -------------------------------------------------------------------------------- */

static void post(struct conn *c)
{
        struct verbs_wr *recvs = c->to_post, *sends, *bad, *next;

        c->to_post = NULL;
        if (recvs && verbs_post_recv(c->ep, recvs, &bad) < 0)
                step(c, LIFE_FAILED);
        sends = rdma_controller_take(c->machine);
        if (!sends || verbs_post(c->ep, sends, &bad) == 0)
                return;
        for (; bad; bad = next) {
                next = bad->next;
                completed(c, &(struct verbs_wc) { .wr = bad, .status = VERBS_FLUSHED });
        }
}

/* Posts what is ready and sees what becomes of it; false: it is over. */
static bool settle(struct conn *c)
{
        bool ending = c->life.state == LIFE_CLOSING || c->life.state == LIFE_DRAINING;

        if (c->life.state == LIFE_DRAINING && c->life.sentinels == 0)
                step(c, LIFE_DRAINED);
        else if (ending && host_now() - c->since > LATE_MS * UINT64_C(1000000))
                step(c, LIFE_LATE);
        if (c->life.state == LIFE_LIVE)
                post(c);
        if (c->common.over && c->life.state <= LIFE_LIVE)
                step(c, LIFE_CLOSE);
        return c->life.state != LIFE_DEAD || !(life_event(&c->life, LIFE_IDLE) & LIFE_DO_RELEASE);
}

/* --- connect requests ------------------------------------------------------------------------- */

static void refuse(struct verbs_ep *ep, uint16_t sts)
{
        struct rdma_reject r = { .sts = le16(sts) };

        verbs_reject(ep, &r, sizeof(r));
        verbs_destroy(ep);
}

static uint32_t least(uint32_t a, uint32_t b)
{
        return a < b ? a : b;
}

static int make_receives(struct conn *c, uint32_t n, uint32_t bytes)
{
        uint32_t lkey;
        uint8_t *memory = memory_own(&c->memory, (size_t)n * bytes, &lkey);

        c->recvs = calloc(n, sizeof(*c->recvs));
        if (!memory || !c->recvs)
                return -1;
        for (uint32_t i = 0; i < n; i++) {
                c->recvs[i].wr = (struct verbs_wr) {
                        .op = VERBS_RECV,
                        .n_sge = 1,
                        .sge = { { memory + (size_t)i * bytes, bytes, lkey } },
                };
                recv_put(c, &c->recvs[i]);
        }
        return 0;
}

static uint32_t cqes_of(const struct server *sv, const struct verbs_domain *d)
{
        uint32_t n = 0;

        for (unsigned i = 0; i < sv->n_conns; i++)
                n += of(sv->conns[i])->domain == d ? of(sv->conns[i])->cqes : 0;
        return n;
}

static struct rdma_controller *make_machine(struct conn *c, const struct rdma_format *format,
                                            const struct verbs_qp_attr *attr, uint32_t entries,
                                            uint8_t reads)
{
        struct rdma_controller_config cfg = {
                .format = *format,
                .max_transfer = SGL_KEYED_MAX,
                .send_wrs = attr->send_wrs - SENTINEL,
                .reads = reads,
                .inline_bytes = attr->inline_bytes,
                .depth = (uint16_t)entries,
        };
        struct rdma_controller_ops ops = {
                .request = serve_request_ops,
                .recv_put = recv_put,
                .response_memory = response_memory,
                .response_memory_put = response_memory_put,
        };

        ops.request.buffer_get = buffer_get;
        ops.request.buffer_put = buffer_put;
        return rdma_controller_new(&cfg, &ops, c);
}

/* Queue pair, receives and machine; -1: there is no room for them. */
static int build(struct conn *c, const struct rdma_request *request, uint32_t entries,
                 uint8_t reads)
{
        const struct verbs_caps *caps = verbs_caps(c->domain);
        struct rdma_format format = { .admin = le16_get(request->qid) == 0,
                                      .in_capsule = c->common.server->in_capsule,
                                      .msdbd = 1 };
        struct verbs_qp_attr attr = {
                .send_wrs = least(WRS_EACH * entries + WRS_MORE, caps->qp_wrs),
                .recv_wrs = entries + SENTINEL,
                .inline_bytes = caps->inline_bytes >= RESPONSE_LEN ? RESPONSE_LEN : 0,
        };
        struct verbs_wr *recvs, *bad;

        c->cqes = attr.send_wrs + attr.recv_wrs;
        if (verbs_grow_cq(c->domain, cqes_of(c->common.server, c->domain) + c->cqes) < 0 ||
            !(c->machine = make_machine(c, &format, &attr, entries, reads)) ||
            verbs_qp(c->ep, &attr) < 0)
                return -1;
        c->life.has_qp = true;
        if (make_receives(c, entries, rdma_capsule_max(&format)) < 0)
                return -1;
        recvs = c->to_post;
        c->to_post = NULL;
        return verbs_post_recv(c->ep, recvs, &bad);
}

static struct conn *conn_new(struct server *sv, struct verbs_ep *ep)
{
        struct conn *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        c->common.server = sv;
        c->kept_last = &c->kept;
        c->since = host_now();
        life_init(&c->life);
        c->domain = verbs_domain(ep);
        memory_init(&c->memory, c->domain);
        return c;
}

static void accept_it(struct conn *c, uint32_t entries, uint8_t reads)
{
        struct rdma_accept a = { .crqsize = le16((uint16_t)entries) };
        struct verbs_conn_param p = {
                .data = &a, .len = sizeof(a), .reads_out = reads, .rnr_retry = 7, .retry = 7
        };

        verbs_set_user(c->ep, c);
        verbs_addresses(c->ep, c->common.server->traddr, NULL, NET_TRADDR);
        c->common.server->prtype = verbs_caps(c->domain)->iwarp ? PRTYPE_IWARP : PRTYPE_ROCE_V2;
        if (verbs_accept(c->ep, &p) < 0)
                step(c, LIFE_REFUSED);
}

static void take_request(struct server *sv, const struct verbs_event *e)
{
        static const struct rdma_limits limits = { QUEUES_MAX, ENTRIES_MAX, 1, 1, 0 };
        struct fault f = rdma_request_check(e->data, e->param.len, e->param.reads_in,
                                            e->param.reads_out, &limits, NULL);
        struct rdma_request request;
        uint32_t entries;
        uint8_t reads;
        struct conn *c;

        if (is_fault(f)) {
                refuse(e->ep, f.code);
                return;
        }
        (void)rdma_request_read(e->data, e->param.len, &request);
        c = conn_new(sv, e->ep);
        entries = le16_get(request.hsqsize) + 1u;
        if (c && c->domain) {
                reads = (uint8_t)least(verbs_caps(c->domain)->reads_out, e->param.reads_in);
                c->ep = e->ep;
                if (build(c, &request, entries, reads) == 0 && serve_add(sv, &c->common) == 0) {
                        accept_it(c, entries, reads);
                        return;
                }
                c->ep = NULL;
        }
        refuse(e->ep, RDMA_REJECT_RESOURCES);
        if (c)
                dismantle(c);
}

/* --- the loop --------------------------------------------------------------------------------- */

static void on_conn(struct conn *c, enum verbs_event_type type)
{
        switch (type) {
        case VERBS_ESTABLISHED:
                step(c, LIFE_ESTABLISHED);
                return;
        case VERBS_REJECTED:
        case VERBS_UNREACHABLE:
        case VERBS_CONNECT_ERROR:
                step(c, LIFE_REFUSED);
                return;
        case VERBS_DISCONNECTED:
                step(c, LIFE_DISCONNECTED);
                return;
        case VERBS_TIMEWAIT_EXIT:
                step(c, LIFE_TIMEWAIT);
                return;
        case VERBS_DEVICE_REMOVED:
                step(c, LIFE_REMOVED);
                return;
        case VERBS_QP_ERROR:
                step(c, LIFE_FAILED);
                return;
        case VERBS_CONNECT_REQUEST:
        case VERBS_RESOLVED:
        case VERBS_ADDR_CHANGE:
        case VERBS_LAST_WQE:
        case VERBS_PORT_DOWN:
        case VERBS_PORT_UP:
                return;
        }
}

static bool take_events(struct loop *l)
{
        struct verbs_event e;
        bool any = false;

        while (verbs_event(l->context, &e)) {
                any = true;
                if (e.type == VERBS_CONNECT_REQUEST) {
                        take_request(l->server, &e);
                } else if (e.ep && verbs_user(e.ep)) {
                        on_conn(verbs_user(e.ep), e.type);
                } else if (e.type == VERBS_DEVICE_REMOVED && e.listener == l->listener) {
                        verbs_unlisten(l->listener);
                        l->listener = NULL;
                }
        }
        return any;
}

static void settle_all(struct server *sv)
{
        unsigned kept = 0;

        for (unsigned i = 0; i < sv->n_conns; i++) {
                struct conn *c = of(sv->conns[i]);

                if (settle(c))
                        sv->conns[kept++] = &c->common;
                else
                        dismantle(c);
        }
        sv->n_conns = kept;
        if (kept > 0)
                sv->idle_since = host_now();
}

static bool work(struct loop *l)
{
        bool any = take_events(l);

        any |= poll_all(l->server);
        settle_all(l->server);
        return any;
}

/* Sleeps until something comes, if nothing has come meanwhile. */
static void rest(struct loop *l)
{
        struct pollfd fds[FDS];
        int fd[FDS], n;

        verbs_arm(l->context);
        if (work(l))
                return;
        n = verbs_fds(l->context, fd, FDS);
        for (int i = 0; i < n; i++)
                fds[i] = (struct pollfd) { .fd = fd[i], .events = POLLIN };
        (void)poll(fds, (nfds_t)n, SERVE_TICK_MS);
}

/* Says good-bye to those that are still there, and waits for them as long as any may take. */
static void leave(struct loop *l)
{
        for (unsigned i = 0; i < l->server->n_conns; i++)
                step(of(l->server->conns[i]), LIFE_CLOSE);
        while (l->server->n_conns > 0)
                if (!work(l))
                        rest(l);
}

static int start(struct loop *l, char *err, size_t err_size)
{
        const struct serve_options *o = l->server->o;
        struct verbs_provider *p = o->verbs ? o->verbs : verbs_rdma(err, err_size);

        if (!p)
                return -1;
        l->context = verbs_open(p);
        if (l->context)
                l->listener = verbs_listen(l->context, o->traddr, o->trsvcid, BACKLOG);
        if (l->listener)
                return 0;
        snprintf(err, err_size, "rdma %s:%s: %s", o->traddr, o->trsvcid, strerror(errno));
        if (l->context)
                verbs_close(l->context);
        return -1;
}

int serve_rdma(struct server *sv, char *err, size_t err_size)
{
        struct loop l = { .server = sv };
        int rc = 0;

        if (start(&l, err, err_size) < 0)
                return -1;
        sv->port = verbs_listener_port(l.listener);
        sv->o->listening(sv->o->user, sv->port);
        while (l.listener && !serve_is_over(sv))
                if (!work(&l))
                        rest(&l);
        leave(&l);
        if (l.listener) {
                verbs_unlisten(l.listener);
        } else {
                snprintf(err, err_size, "rdma %s: the device is gone", sv->o->traddr);
                rc = -1;
        }
        verbs_close(l.context);
        return rc;
}
