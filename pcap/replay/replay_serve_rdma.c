/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Live hosts over RDMA: one group of endpoints (rdma_ep.h), one thread. A connection is an endpoint
 * below the capsule machine (rdma_controller.h); it has receives and memory of its own.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/bytes.h"
#include "pdu/io/verbs/rdma_wait.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "pdu/nvme/rdma/rdma_controller.h"
#include "pdu/nvme/wire/discovery.h"
#include "pdu/verbs/rdma_memory.h"
#include "replay_server.h"

enum {
        BACKLOG = 64,
        ENTRIES_MAX = 1024,
        QUEUES_MAX = 256,
        WRS_EACH = 2,  /* work requests of a command: data and response; more wait */
        WRS_MORE = 16, /* data of one command in many pieces */
        RESPONSE_LEN = 16,
        LATE_MS = 3000, /* that the end of a connection may take */
};

struct served_conn {
        struct serve_conn common; /* first */
        struct rdma_ep ep;
        struct rdma_controller *machine;
        struct rdma_memory memory;
        struct rdma_recv *recvs;
        struct verbs_wr *to_post; /* of them */
};

struct serve_loop {
        struct rdma_group group; /* first */
        struct server *server;
        struct verbs_listener *listener; /* NULL: its device is gone */
};

static struct served_conn *served_of(struct serve_conn *c)
{
        return (struct served_conn *)c;
}

static struct served_conn *conn_of(struct rdma_ep *e)
{
        return (struct served_conn *)(void *)((char *)e - offsetof(struct served_conn, ep));
}

/* --- what the machine asks for ---------------------------------------------------------------- */

static uint8_t *buffer_get(void *user, uint32_t len, uint32_t *lkey)
{
        return rdma_memory_own(&((struct served_conn *)user)->memory, len, lkey);
}

static void buffer_put(void *user, uint8_t *buf, uint32_t len)
{
        (void)len;
        rdma_memory_drop(&((struct served_conn *)user)->memory, buf);
}

static void *response_memory(void *user, uint32_t bytes, uint32_t *lkey)
{
        return rdma_memory_own(&((struct served_conn *)user)->memory, bytes, lkey);
}

static void response_memory_put(void *user, void *memory, uint32_t bytes)
{
        (void)bytes;
        rdma_memory_drop(&((struct served_conn *)user)->memory, memory);
}

static void recv_put(void *user, struct rdma_recv *rx)
{
        struct served_conn *c = user;

        rx->wr.next = c->to_post;
        c->to_post = &rx->wr;
}

/* --- what its endpoint says ------------------------------------------------------------------- */

static bool on_completion(struct rdma_ep *e, const struct verbs_wc *wc)
{
        struct served_conn *c = conn_of(e);
        struct rdma_recv *rx = (struct rdma_recv *)wc->wr;

        if (wc->wr->op != VERBS_RECV)
                return e->life.state < LIFE_DEAD && rdma_controller_completed(c->machine, wc);
        if (wc->status != VERBS_SUCCESS) {
                recv_put(c, rx);
                return true;
        }
        rx->bytes = wc->bytes;
        c->common.over |= rdma_controller_received(c->machine, rx);
        return false;
}

static void on_end(struct rdma_ep *e)
{
        struct served_conn *c = conn_of(e);

        rdma_controller_end(c->machine);
        serve_unpark(&c->common);
}

static void dismantle(struct served_conn *c)
{
        if (c->machine)
                rdma_controller_free(c->machine);
        rdma_ep_destroy(&c->ep);
        rdma_memory_fini(&c->memory);
        free(c->recvs);
        free(c);
}

/* --- what goes -------------------------------------------------------------------------------- */

static void post(struct served_conn *c)
{
        struct verbs_wr *recvs = c->to_post, *sends, *bad;

        c->to_post = NULL;
        if (recvs && rdma_ep_post_recv(&c->ep, recvs, &bad) < 0)
                rdma_ep_step(&c->ep, LIFE_FAILED);
        sends = rdma_controller_take(c->machine);
        if (sends && rdma_ep_post(&c->ep, sends, &bad) < 0)
                rdma_ep_flushed(&c->ep, bad);
}

/* Posts what is ready and sees what becomes of it; false: it is over. */
static bool settle(struct served_conn *c)
{
        rdma_ep_expire(&c->ep, LATE_MS, LATE_MS);
        if (c->ep.life.state == LIFE_LIVE)
                post(c);
        if (c->common.over && c->ep.life.state <= LIFE_LIVE)
                rdma_ep_step(&c->ep, LIFE_CLOSE);
        return !rdma_ep_release(&c->ep);
}

/* --- connect requests ------------------------------------------------------------------------- */

static void refuse(struct verbs_ep *ep, uint16_t sts)
{
        struct rdma_reject r = { .sts = le16(sts) };

        rdma_ep_refuse(ep, &r, sizeof(r));
}

static int make_receives(struct served_conn *c, uint32_t n, uint32_t bytes)
{
        uint32_t lkey;
        uint8_t *memory = rdma_memory_own(&c->memory, (size_t)n * bytes, &lkey);

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

static struct rdma_controller *make_machine(struct served_conn *c, const struct rdma_format *format,
                                            const struct verbs_qp_attr *attr, uint32_t entries,
                                            uint8_t reads)
{
        struct rdma_controller_config cfg = {
                .format = *format,
                .max_transfer = SGL_KEYED_MAX,
                .send_wrs = attr->send_wrs,
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
static int build(struct served_conn *c, const struct rdma_request *request, uint32_t entries,
                 uint8_t reads)
{
        struct rdma_format format = { .admin = le16_get(request->qid) == 0,
                                      .in_capsule = c->common.server->in_capsule,
                                      .msdbd = 1 };
        struct verbs_qp_attr attr = { .send_wrs = WRS_EACH * entries + WRS_MORE,
                                      .recv_wrs = entries,
                                      .inline_bytes = RESPONSE_LEN };
        struct verbs_wr *recvs, *bad;

        if (rdma_ep_qp(&c->ep, &attr) < 0 ||
            !(c->machine = make_machine(c, &format, &attr, entries, reads)) ||
            make_receives(c, entries, rdma_capsule_max(&format)) < 0)
                return -1;
        recvs = c->to_post;
        c->to_post = NULL;
        return rdma_ep_post_recv(&c->ep, recvs, &bad);
}

/* NULL: there is no room for it. */
static struct served_conn *conn_new(struct serve_loop *l, struct verbs_ep *ep)
{
        static const struct rdma_ep_ops ops = { .completed = on_completion, .end = on_end };
        struct served_conn *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        c->common.server = l->server;
        rdma_ep_init(&c->ep, &l->group, &ops);
        if (rdma_ep_take(&c->ep, ep) < 0) {
                free(c);
                return NULL;
        }
        rdma_memory_init(&c->memory, c->ep.dev->domain);
        return c;
}

static void accept_it(struct served_conn *c, uint32_t entries, uint8_t reads)
{
        struct rdma_accept a = { .crqsize = le16((uint16_t)entries) };
        struct verbs_conn_param p = {
                .data = &a, .len = sizeof(a), .reads_out = reads, .rnr_retry = 7, .retry = 7
        };

        verbs_addresses(c->ep.ep, c->common.server->traddr, NULL, NET_TRADDR);
        c->common.server->prtype = c->ep.dev->caps->iwarp ? PRTYPE_IWARP : PRTYPE_ROCE_V2;
        if (rdma_ep_accept(&c->ep, &p) < 0)
                rdma_ep_step(&c->ep, LIFE_REFUSED);
}

static void on_request(struct rdma_group *g, const struct verbs_event *e)
{
        static const struct rdma_limits limits = { QUEUES_MAX, ENTRIES_MAX, 1, 1, 0 };
        struct serve_loop *l = (struct serve_loop *)g;
        struct fault f = rdma_request_check(e->data, e->param.len, e->param.reads_in,
                                            e->param.reads_out, &limits, NULL);
        struct rdma_request request;
        uint32_t entries;
        uint8_t reads;
        struct served_conn *c;

        if (is_fault(f)) {
                refuse(e->ep, f.code);
                return;
        }
        (void)rdma_request_read(e->data, e->param.len, &request);
        entries = le16_get(request.hsqsize) + 1u;
        c = conn_new(l, e->ep);
        if (c) {
                reads = (uint8_t)least(c->ep.dev->caps->reads_out, e->param.reads_in);
                if (build(c, &request, entries, reads) == 0 &&
                    serve_add(l->server, &c->common) == 0) {
                        accept_it(c, entries, reads);
                        return;
                }
        }
        refuse(e->ep, RDMA_REJECT_RESOURCES);
        if (c) {
                rdma_ep_disown(&c->ep);
                dismantle(c);
        }
}

static void on_listener_lost(struct rdma_group *g, struct verbs_listener *listener)
{
        verbs_unlisten(listener);
        ((struct serve_loop *)g)->listener = NULL;
}

/* --- the loop --------------------------------------------------------------------------------- */

static void settle_all(struct server *sv)
{
        unsigned kept = 0;

        for (unsigned i = 0; i < sv->n_conns; i++) {
                struct served_conn *c = served_of(sv->conns[i]);

                if (settle(c))
                        sv->conns[kept++] = &c->common;
                else
                        dismantle(c);
        }
        sv->n_conns = kept;
        if (kept > 0)
                sv->idle_since = loop_now_ns();
}

static bool work(struct serve_loop *l)
{
        unsigned n = rdma_group_events(&l->group, UINT_MAX);

        n += rdma_group_poll(&l->group, UINT_MAX);
        settle_all(l->server);
        return n > 0;
}

static void work_or_rest(struct serve_loop *l)
{
        if (!work(l))
                rdma_group_sleep(&l->group, SERVE_TICK_MS);
}

/* Says good-bye to those that are still there, and waits for them as long as any may take. */
static void leave(struct serve_loop *l)
{
        for (unsigned i = 0; i < l->server->n_conns; i++)
                rdma_ep_step(&served_of(l->server->conns[i])->ep, LIFE_CLOSE);
        while (l->server->n_conns > 0)
                work_or_rest(l);
}

static int start(struct serve_loop *l, char *err, size_t err_size)
{
        static const struct rdma_group_ops ops = { .request = on_request,
                                                   .listener_lost = on_listener_lost };
        const struct serve_options *o = l->server->o;
        struct verbs_provider *p = o->verbs ? o->verbs : verbs_rdma(err, err_size);

        if (!p)
                return -1;
        if (rdma_group_open(&l->group, p, &ops, loop_now_ms) == 0)
                l->listener = verbs_listen(l->group.context, o->traddr, o->trsvcid, BACKLOG);
        if (l->listener)
                return 0;
        snprintf(err, err_size, "rdma %s:%s: %s", o->traddr, o->trsvcid, strerror(errno));
        rdma_group_close(&l->group);
        return -1;
}

int serve_rdma(struct server *sv, char *err, size_t err_size)
{
        struct serve_loop l = { .server = sv };
        int rc = 0;

        if (start(&l, err, err_size) < 0)
                return -1;
        sv->port = verbs_listener_port(l.listener);
        sv->o->listening(sv->o->user, sv->port);
        while (l.listener && !serve_is_over(sv))
                work_or_rest(&l);
        leave(&l);
        if (l.listener) {
                verbs_unlisten(l.listener);
        } else {
                snprintf(err, err_size, "rdma %s: the device was removed", sv->o->traddr);
                rc = -1;
        }
        rdma_group_close(&l.group);
        return rc;
}
