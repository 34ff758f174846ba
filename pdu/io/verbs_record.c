/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/io/verbs_record.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/io/capture_rdma.h"
#include "pdu/wire/rdma.h"

enum { NVME_PORT = 4420, DISCOVERY_PORT = 8009, REJECTED_BY_CONSUMER = 28, ADDRESS_TEXT = 80 };

struct recorder {
        struct verbs_provider provider;
        struct verbs_provider *of;
        struct capture_writer *w;
        pthread_mutex_t lock; /* of the lists of endpoints: one may migrate */
};

/* Each object stands before the one of the provider below, `of`. */
struct verbs_context {
        const struct verbs *ops;
        struct verbs_context *of;
        struct recorder *recorder;
        struct verbs_listener *listeners;
        struct verbs_domain *domains;
        struct verbs_ep *eps;
        const char *comment;
};

struct verbs_listener {
        const struct verbs *ops;
        struct verbs_listener *of, *next;
        struct verbs_context *context;
};

struct region { /* memory of this end that the peer may access, by its key */
        struct region *next;
        const struct verbs_window *window; /* NULL: an MR */
        uint32_t key;
        const uint8_t *addr;
        size_t len;
};

struct verbs_domain {
        const struct verbs *ops;
        struct verbs_domain *of, *next;
        struct region *regions;
};

/* A work request on the send queue. */
struct sent {
        const struct verbs_wr *wr;
        enum verbs_op op;
        uint32_t number; /* by which the peer answers or acknowledges */
        int n_sge;
        struct iovec sge[VERBS_SGES]; /* READ: where the answer goes */
};

/* A command of the host that is outstanding. */
struct command {
        struct command *next;
        uint16_t cid;
        enum nvme_xfer xfer;
        struct rdma_data data;
};

struct verbs_ep {
        const struct verbs *ops;
        struct verbs_ep *of, *next;
        struct verbs_context *context;
        struct verbs_domain *domain;
        void *user;
        enum party self;
        struct capture_rdma flow;
        bool open; /* the flow is */
        bool ready, leaving, dead;
        enum party parted[2]; /* who has said that it ends, and it is not written yet */
        unsigned partings;
        struct sent *sent; /* a ring */
        size_t first, n, cap;
        struct command *commands;
};

static struct recorder *recorder_of(const struct verbs_ep *ep)
{
        return ep->context->recorder;
}

/* --- the flow --------------------------------------------------------------------------------- */

/* "10.0.0.1", "10.0.0.1:4420", "[fe80::1%v0]:4420". */
static struct sockaddr_storage address_of(char *text)
{
        struct sockaddr_storage ss = { 0 };
        struct sockaddr_in *in4 = (void *)&ss;
        struct sockaddr_in6 *in6 = (void *)&ss;
        char *end = strchr(text, ']'), *port = strrchr(end ? end : text, ':');
        char *first = strchr(text, ':');
        bool v6 = text[0] == '[' || (first && first != port);

        if (v6 && !end)
                port = NULL;
        if (port)
                *port++ = '\0';
        text[strcspn(text, "%]")] = '\0';
        if (inet_pton(AF_INET, text, &in4->sin_addr) == 1)
                ss.ss_family = AF_INET;
        else if (inet_pton(AF_INET6, text + (text[0] == '['), &in6->sin6_addr) == 1)
                ss.ss_family = AF_INET6;
        in4->sin_port = htons(port ? (uint16_t)strtoul(port, NULL, 10) : 0);
        return ss;
}

static bool same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
        const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
        const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

        if (a->ss_family != AF_INET || b->ss_family != AF_INET)
                return a->ss_family == b->ss_family &&
                       memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0;
        return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
}

/* Readers tell queue pairs by address: the two ends of a loopback get one each. */
static void open_flow(struct verbs_ep *ep)
{
        char text[2][ADDRESS_TEXT] = { "", "" };
        struct sockaddr_storage end[2];
        struct sockaddr_in *port = (void *)&end[PARTY_CONTROLLER];
        bool loops;

        verbs_addresses(ep->of, text[0], text[1], ADDRESS_TEXT);
        end[ep->self] = address_of(text[0]);
        end[peer_of(ep->self)] = address_of(text[1]);
        if (port->sin_port != htons(DISCOVERY_PORT))
                port->sin_port = htons(NVME_PORT);
        loops = same_host(&end[0], &end[1]);
        ep->flow.comment = ep->context->comment;
        capture_rdma_open(recorder_of(ep)->w, &ep->flow, loops ? NULL : (void *)&end[PARTY_HOST],
                          (void *)&end[PARTY_CONTROLLER], capture_clock());
        ep->open = true;
}

static void say(struct verbs_ep *ep, enum party sender, enum capture_cm_kind kind,
                const struct verbs_conn_param *p, int reason)
{
        struct capture_cm m = { .kind = kind, .reason = (uint16_t)reason };

        if (!ep->open)
                return;
        if (p) {
                m.data = p->data;
                m.len = p->data ? p->len : 0;
                m.reads_in = p->reads_in;
                m.reads_out = p->reads_out;
        }
        capture_rdma_cm(recorder_of(ep)->w, &ep->flow, sender, &m, capture_clock());
}

/* The host has seen the acceptance; what it sends may be received before that is told. */
static void be_ready(struct verbs_ep *ep)
{
        if (!ep->ready)
                say(ep, PARTY_HOST, CAPTURE_READY, NULL, 0);
        ep->ready = true;
}

/* --- what is posted --------------------------------------------------------------------------- */

static bool push(struct verbs_ep *ep, const struct sent *s)
{
        if (ep->n == ep->cap) {
                size_t cap = ep->cap ? 2 * ep->cap : 64;
                struct sent *bigger = calloc(cap, sizeof(*bigger));

                if (!bigger)
                        return false;
                for (size_t i = 0; i < ep->n; i++)
                        bigger[i] = ep->sent[(ep->first + i) % ep->cap];
                free(ep->sent);
                ep->sent = bigger;
                ep->cap = cap;
                ep->first = 0;
        }
        ep->sent[(ep->first + ep->n++) % ep->cap] = *s;
        return true;
}

static int list_of(const struct verbs_wr *wr, struct iovec iov[VERBS_SGES])
{
        for (int i = 0; i < wr->n_sge; i++)
                iov[i] = (struct iovec) { wr->sge[i].addr, wr->sge[i].len };
        return wr->n_sge;
}

static uint32_t list_len(const struct iovec *iov, int n)
{
        size_t len = 0;

        for (int i = 0; i < n; i++)
                len += iov[i].iov_len;
        return (uint32_t)len;
}

/* Where the data of a command is, as it says itself: the device judges the rest. */
static void keep_command(struct verbs_ep *ep, const struct iovec *iov, int n)
{
        struct rdma_format format = { .in_capsule = UINT32_MAX / 2 };
        const union sqe *sqe = n > 0 ? iov[0].iov_base : NULL;
        struct rule_set all;
        struct command *c;

        if (n < 1 || iov[0].iov_len < sizeof(*sqe) || !(c = calloc(1, sizeof(*c))))
                return;
        memset(&all, 0xff, sizeof(all)); /* all waived */
        c->cid = le16_get(sqe->cid);
        c->xfer = sqe_xfer(sqe);
        (void)rdma_data_read(sqe, (uint32_t)iov[0].iov_len, &format, c->xfer, 0, &all, &c->data);
        if (c->data.count == 0) {
                free(c);
                return;
        }
        c->next = ep->commands;
        ep->commands = c;
}

static void keep_window(struct verbs_domain *d, const struct verbs_window *window)
{
        struct region *r = d->regions;

        while (r && r->window != window)
                r = r->next;
        if (!r && !(r = calloc(1, sizeof(*r))))
                return;
        if (!r->window) {
                r->next = d->regions;
                d->regions = r;
        }
        r->window = window;
        r->key = window->rkey;
        r->addr = window->addr;
        r->len = window->len;
}

static void record_work(struct verbs_ep *ep, const struct verbs_wr *wr)
{
        struct capture_writer *w = recorder_of(ep)->w;
        struct sent s = { .wr = wr, .op = wr->op };
        int64_t now = capture_clock();
        bool invalidates = wr->op == VERBS_SEND_INVALIDATE;

        s.n_sge = list_of(wr, s.sge);
        if (wr->op == VERBS_SEND || invalidates)
                s.number = capture_rdma_send(w, &ep->flow, ep->self, s.sge, s.n_sge,
                                             invalidates ? &wr->rkey : NULL, now);
        else if (wr->op == VERBS_WRITE)
                s.number = capture_rdma_write(w, &ep->flow, ep->self, wr->remote, wr->rkey, s.sge,
                                              s.n_sge, now);
        else if (wr->op == VERBS_READ)
                s.number = capture_rdma_read(w, &ep->flow, ep->self, wr->remote, wr->rkey,
                                             list_len(s.sge, s.n_sge), now);
        if (wr->op == VERBS_SEND && ep->self == PARTY_HOST)
                keep_command(ep, s.sge, s.n_sge);
        if (wr->op == VERBS_BIND && ep->domain)
                keep_window(ep->domain, wr->window);
        else if (wr->op != VERBS_INVALIDATE)
                (void)push(ep, &s);
}

/* --- what has come ---------------------------------------------------------------------------- */

static bool is_outstanding(const struct verbs_ep *ep, const struct verbs_wr *wr)
{
        for (size_t i = 0; i < ep->n; i++)
                if (ep->sent[(ep->first + i) % ep->cap].wr == wr)
                        return true;
        return false;
}

static void refuse(struct verbs_ep *ep, const struct sent *s, enum verbs_status status)
{
        static const enum capture_ack naks[VERBS_STATUSES] = {
                [VERBS_REMOTE_INVALID] = CAPTURE_NAK_REQUEST,
                [VERBS_REMOTE_ACCESS] = CAPTURE_NAK_ACCESS,
                [VERBS_REMOTE_OPERATION] = CAPTURE_NAK_OPERATION,
        };

        ep->dead = true;
        if (naks[status])
                capture_rdma_ack(recorder_of(ep)->w, &ep->flow, peer_of(ep->self), s->number,
                                 naks[status], capture_clock());
}

static void succeed(struct verbs_ep *ep, const struct sent *s, bool last)
{
        struct capture_writer *w = recorder_of(ep)->w;

        if (s->op == VERBS_READ)
                capture_rdma_answer(w, &ep->flow, peer_of(ep->self), s->number, s->sge, s->n_sge,
                                    capture_clock());
        else if (last)
                capture_rdma_ack(w, &ep->flow, peer_of(ep->self), s->number, CAPTURE_ACK,
                                 capture_clock());
}

/* With this one all that was posted before it is done, too. */
static void record_done(struct verbs_ep *ep, const struct verbs_wc *wc)
{
        bool last = !is_outstanding(ep, wc->wr);

        while (!last) {
                struct sent s = ep->sent[ep->first];

                ep->first = (ep->first + 1) % ep->cap;
                ep->n--;
                last = s.wr == wc->wr;
                if (last && wc->status != VERBS_SUCCESS)
                        refuse(ep, &s, wc->status);
                else if (!ep->dead)
                        succeed(ep, &s, last);
        }
}

/* Bytes of the memory that this describes; a descriptor may say more than there is. */
static uint32_t bytes_there(const struct verbs_domain *d, const struct rdma_buffer *b)
{
        for (const struct region *r = d ? d->regions : NULL; r; r = r->next) {
                uint64_t begin = (uintptr_t)r->addr;

                if (r->key == b->key && b->addr >= begin && b->addr - begin < r->len)
                        return r->len - (b->addr - begin) < b->len
                                   ? (uint32_t)(r->len - (b->addr - begin))
                                   : b->len;
        }
        return 0;
}

/* The controller must have read or written this. */
static void make_up(struct verbs_ep *ep, enum nvme_xfer xfer, const struct rdma_buffer *b)
{
        struct capture_writer *w = recorder_of(ep)->w;
        uint32_t len = bytes_there(ep->domain, b), number;
        struct iovec iov = { (void *)(uintptr_t)b->addr, len };
        int64_t now = capture_clock();

        if (len == 0)
                return;
        if (xfer == XFER_C2H) {
                (void)capture_rdma_write(w, &ep->flow, PARTY_CONTROLLER, b->addr, b->key, &iov, 1,
                                         now);
        } else if (xfer == XFER_H2C) {
                number =
                    capture_rdma_read(w, &ep->flow, PARTY_CONTROLLER, b->addr, b->key, len, now);
                capture_rdma_answer(w, &ep->flow, PARTY_HOST, number, &iov, 1, now);
        }
}

static void end_command(struct verbs_ep *ep, const struct cqe *cqe)
{
        struct command **at = &ep->commands, *c;

        while (*at && (*at)->cid != le16_get(cqe->cid))
                at = &(*at)->next;
        if (!*at)
                return;
        c = *at;
        *at = c->next;
        for (unsigned i = 0; i < c->data.count && cqe_status(cqe) == NVME_SUCCESS; i++)
                make_up(ep, c->xfer, &c->data.keyed[i]);
        free(c);
}

static void record_received(struct verbs_ep *ep, const struct verbs_wc *wc)
{
        struct capture_writer *w = recorder_of(ep)->w;
        enum party peer = peer_of(ep->self);
        struct iovec iov[VERBS_SGES];
        int n = list_of(wc->wr, iov);
        uint32_t left = wc->bytes, number;
        int64_t now;

        be_ready(ep);
        if (ep->self == PARTY_HOST && n > 0 && left >= sizeof(struct cqe) &&
            iov[0].iov_len >= sizeof(struct cqe))
                end_command(ep, iov[0].iov_base);
        for (int i = 0; i < n; i++) {
                if (iov[i].iov_len > left)
                        iov[i].iov_len = left;
                left -= (uint32_t)iov[i].iov_len;
        }
        now = capture_clock();
        number = capture_rdma_send(w, &ep->flow, peer, iov, n,
                                   wc->invalidated ? &wc->invalid_key : NULL, now);
        capture_rdma_ack(w, &ep->flow, ep->self, number, CAPTURE_ACK, now);
}

/* The first to say so sends DREQ, the other one DREP. */
static void write_parting(struct verbs_ep *ep, enum party sender)
{
        say(ep, sender, ep->leaving ? CAPTURE_DISCONNECTED : CAPTURE_DISCONNECT, NULL, 0);
        if (ep->leaving)
                ep->open = false;
        ep->leaving = true;
}

static void write_partings(struct verbs_ep *ep)
{
        for (unsigned i = 0; i < ep->partings; i++)
                write_parting(ep, ep->parted[i]);
        ep->partings = 0;
}

/* What the peer sent before may still be in the completion queue: its end is written when work of
 * the queue pair fails, or when the queue pair is destroyed. */
static void part(struct verbs_ep *ep, enum party sender)
{
        if (sender == ep->self && ep->partings == 0)
                write_parting(ep, sender);
        else if (ep->partings < 2)
                ep->parted[ep->partings++] = sender;
}

static void record_completion(struct verbs_ep *ep, const struct verbs_wc *wc)
{
        if (!ep->open)
                return;
        if (wc->wr->op != VERBS_RECV)
                record_done(ep, wc);
        else if (wc->status == VERBS_SUCCESS)
                record_received(ep, wc);
        if (wc->status != VERBS_SUCCESS) {
                ep->dead = true;
                write_partings(ep);
        }
}

/* --- endpoints -------------------------------------------------------------------------------- */

static void join(struct verbs_ep *ep, struct verbs_context *c)
{
        pthread_mutex_lock(&c->recorder->lock);
        ep->context = c;
        ep->next = c->eps;
        c->eps = ep;
        pthread_mutex_unlock(&c->recorder->lock);
}

static void leave(struct verbs_ep *ep)
{
        struct verbs_ep **at = &ep->context->eps;

        pthread_mutex_lock(&recorder_of(ep)->lock);
        while (*at != ep)
                at = &(*at)->next;
        *at = ep->next;
        pthread_mutex_unlock(&recorder_of(ep)->lock);
}

static struct verbs_ep *ep_new(struct verbs_context *c, struct verbs_ep *of, enum party self)
{
        struct verbs_ep *ep = calloc(1, sizeof(*ep));

        if (!ep)
                return NULL;
        ep->ops = c->ops;
        ep->of = of;
        ep->self = self;
        join(ep, c);
        verbs_set_user(of, ep);
        return ep;
}

static void ep_free(struct verbs_ep *ep)
{
        struct command *next;

        for (struct command *c = ep->commands; c; c = next) {
                next = c->next;
                free(c);
        }
        free(ep->sent);
        free(ep);
}

static struct verbs_ep *resolve(struct verbs_context *c, const char *traddr, const char *trsvcid,
                                unsigned timeout_ms)
{
        struct verbs_ep *of = verbs_resolve(c->of, traddr, trsvcid, timeout_ms), *ep;

        if (!of)
                return NULL;
        ep = ep_new(c, of, PARTY_HOST);
        if (ep)
                return ep;
        verbs_destroy(of);
        errno = ENOMEM;
        return NULL;
}

/* The context of the provider below is asked first: once it agrees, its thread may have events. */
static int migrate(struct verbs_ep *ep, struct verbs_context *to)
{
        struct verbs_context *from = ep->context;

        leave(ep);
        join(ep, to);
        ep->domain = NULL;
        if (verbs_migrate(ep->of, to->of) == 0)
                return 0;
        leave(ep);
        join(ep, from);
        return -1;
}

static struct verbs_domain *domain(struct verbs_ep *ep)
{
        struct verbs_domain *of = verbs_domain(ep->of), *d = ep->context->domains;

        if (!of)
                return NULL;
        while (d && d->of != of)
                d = d->next;
        if (!d && (d = calloc(1, sizeof(*d)))) {
                d->ops = ep->ops;
                d->of = of;
                d->next = ep->context->domains;
                ep->context->domains = d;
        }
        if (!d)
                errno = ENOMEM;
        ep->domain = d;
        return d;
}

static int qp(struct verbs_ep *ep, const struct verbs_qp_attr *attr)
{
        (void)domain(ep);
        return verbs_qp(ep->of, attr);
}

/* No more READs are said than the device can do. */
static struct verbs_conn_param said(const struct verbs_ep *ep, const struct verbs_conn_param *param)
{
        const struct verbs_caps *caps = ep->domain ? verbs_caps(ep->domain->of) : NULL;
        struct verbs_conn_param p = *param;

        if (caps && p.reads_in > caps->reads_in)
                p.reads_in = caps->reads_in;
        if (caps && p.reads_out > caps->reads_out)
                p.reads_out = caps->reads_out;
        return p;
}

static int connect_to(struct verbs_ep *ep, const struct verbs_conn_param *param)
{
        struct verbs_conn_param p = said(ep, param);

        if (verbs_connect(ep->of, param) < 0)
                return -1;
        open_flow(ep);
        say(ep, PARTY_HOST, CAPTURE_REQUEST, &p, 0);
        return 0;
}

static int accept_it(struct verbs_ep *ep, const struct verbs_conn_param *param)
{
        struct verbs_conn_param p = said(ep, param);

        if (verbs_accept(ep->of, param) < 0)
                return -1;
        say(ep, PARTY_CONTROLLER, CAPTURE_ACCEPT, &p, 0);
        return 0;
}

static int reject(struct verbs_ep *ep, const void *data, uint8_t len)
{
        struct verbs_conn_param p = { .data = data, .len = len };

        if (verbs_reject(ep->of, data, len) < 0)
                return -1;
        say(ep, PARTY_CONTROLLER, CAPTURE_REJECT, &p, REJECTED_BY_CONSUMER);
        return 0;
}

static int disconnect(struct verbs_ep *ep)
{
        if (verbs_disconnect(ep->of) < 0)
                return -1;
        part(ep, ep->self);
        ep->dead = true;
        return 0;
}

static int fail(struct verbs_ep *ep)
{
        ep->dead = true;
        return (verbs_fail)(ep->of);
}

static void destroy(struct verbs_ep *ep)
{
        verbs_destroy(ep->of);
        write_partings(ep);
        leave(ep);
        ep_free(ep);
}

static void set_user(struct verbs_ep *ep, void *user)
{
        ep->user = user;
}

static void *user_of(const struct verbs_ep *ep)
{
        return ep->user;
}

static void addresses(const struct verbs_ep *ep, char *local, char *peer, size_t size)
{
        verbs_addresses(ep->of, local, peer, size);
}

/* --- events ----------------------------------------------------------------------------------- */

static struct verbs_listener *listener_of(const struct verbs_context *c,
                                          const struct verbs_listener *of)
{
        struct verbs_listener *l = c->listeners;

        while (l && l->of != of)
                l = l->next;
        return l;
}

/* Of iWARP the responder resources that are told are the device's own. */
static void record_acceptance(struct verbs_ep *ep, const struct verbs_conn_param *param)
{
        struct verbs_conn_param p = *param;

        if (ep->domain && verbs_caps(ep->domain->of)->iwarp)
                p.reads_in = 0;
        say(ep, PARTY_CONTROLLER, CAPTURE_ACCEPT, &p, 0);
}

static void record_event(struct verbs_ep *ep, const struct verbs_event *e)
{
        enum party peer = peer_of(ep->self);

        if (e->type == VERBS_CONNECT_REQUEST) {
                open_flow(ep);
                say(ep, PARTY_HOST, CAPTURE_REQUEST, &e->param, 0);
        } else if (e->type == VERBS_ESTABLISHED) {
                if (ep->self == PARTY_HOST)
                        record_acceptance(ep, &e->param);
                be_ready(ep);
        } else if (e->type == VERBS_REJECTED) {
                say(ep, peer, CAPTURE_REJECT, &e->param, e->reason);
        } else if (e->type == VERBS_DISCONNECTED) {
                part(ep, peer);
        }
}

/* False: there is no memory for a new endpoint, whose request is turned down. */
static bool take_event(struct verbs_context *c, struct verbs_event *e)
{
        struct verbs_ep *of = e->ep;

        if (e->listener)
                e->listener = listener_of(c, e->listener);
        if (!of)
                return true;
        if (e->type == VERBS_CONNECT_REQUEST)
                e->ep = ep_new(c, of, PARTY_CONTROLLER);
        else
                e->ep = verbs_user(of);
        if (e->ep) {
                record_event(e->ep, e);
                return true;
        }
        if (e->type == VERBS_CONNECT_REQUEST) {
                (void)verbs_reject(of, NULL, 0);
                verbs_destroy(of);
        }
        return false;
}

static bool event(struct verbs_context *c, struct verbs_event *e)
{
        while (verbs_event(c->of, e))
                if (take_event(c, e))
                        return true;
        return false;
}

/* --- contexts and listeners ------------------------------------------------------------------- */

static struct verbs_context *open_context(struct verbs_provider *p)
{
        struct recorder *r = (struct recorder *)p;
        struct verbs_context *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        c->ops = p->ops;
        c->recorder = r;
        c->of = verbs_open(r->of);
        if (c->of)
                return c;
        free(c);
        return NULL;
}

static void free_regions(struct verbs_domain *d)
{
        struct region *next;

        for (struct region *r = d->regions; r; r = next) {
                next = r->next;
                free(r);
        }
}

static void close_context(struct verbs_context *c)
{
        verbs_close(c->of);
        while (c->eps) {
                struct verbs_ep *ep = c->eps;

                c->eps = ep->next;
                write_partings(ep);
                ep_free(ep);
        }
        while (c->domains) {
                struct verbs_domain *d = c->domains;

                c->domains = d->next;
                free_regions(d);
                free(d);
        }
        while (c->listeners) {
                struct verbs_listener *l = c->listeners;

                c->listeners = l->next;
                free(l);
        }
        free(c);
}

static int fds(struct verbs_context *c, int *fd, int max)
{
        return verbs_fds(c->of, fd, max);
}

static int arm(struct verbs_context *c)
{
        return verbs_arm(c->of);
}

static struct verbs_listener *listen_on(struct verbs_context *c, const char *traddr,
                                        const char *trsvcid, int backlog)
{
        struct verbs_listener *l = calloc(1, sizeof(*l));

        if (!l)
                return NULL;
        l->ops = c->ops;
        l->context = c;
        l->of = verbs_listen(c->of, traddr, trsvcid, backlog);
        if (!l->of) {
                free(l);
                return NULL;
        }
        l->next = c->listeners;
        c->listeners = l;
        return l;
}

static uint16_t listener_port(const struct verbs_listener *l)
{
        return verbs_listener_port(l->of);
}

static void unlisten(struct verbs_listener *l)
{
        struct verbs_listener **at = &l->context->listeners;

        verbs_unlisten(l->of);
        while (*at != l)
                at = &(*at)->next;
        *at = l->next;
        free(l);
}

/* --- memory and work -------------------------------------------------------------------------- */

static const struct verbs_caps *caps_of(const struct verbs_domain *d)
{
        return verbs_caps(d->of);
}

static int make_srq(struct verbs_domain *d, uint32_t wrs)
{
        return verbs_make_srq(d->of, wrs);
}

static int grow_cq(struct verbs_domain *d, uint32_t cqes)
{
        return verbs_grow_cq(d->of, cqes);
}

static void drop_region(struct verbs_domain *d, const struct verbs_window *window, uint32_t key)
{
        for (struct region **at = &d->regions; *at; at = &(*at)->next) {
                struct region *r = *at;

                if (r->window != window || (!window && r->key != key))
                        continue;
                *at = r->next;
                free(r);
                return;
        }
}

static int reg(struct verbs_domain *d, void *addr, size_t len, unsigned access, struct verbs_mr *mr)
{
        struct region *r;

        if (verbs_reg(d->of, addr, len, access, mr) < 0)
                return -1;
        if (!(access & (VERBS_REMOTE_READ | VERBS_REMOTE_WRITE)) || !(r = calloc(1, sizeof(*r))))
                return 0;
        *r = (struct region) { .next = d->regions, .key = mr->rkey, .addr = addr, .len = len };
        d->regions = r;
        return 0;
}

static void dereg(struct verbs_domain *d, struct verbs_mr *mr)
{
        drop_region(d, NULL, mr->rkey);
        verbs_dereg(d->of, mr);
}

static int make_window(struct verbs_domain *d, struct verbs_window *w)
{
        return verbs_make_window(d->of, w);
}

static void drop_window(struct verbs_domain *d, struct verbs_window *w)
{
        drop_region(d, w, 0);
        verbs_drop_window(d->of, w);
}

/* Written before it is posted: a request whose answer is there may be used anew at once. */
static int post(struct verbs_ep *ep, struct verbs_wr *chain, struct verbs_wr **bad)
{
        for (const struct verbs_wr *wr = chain; wr && ep->open && !ep->dead; wr = wr->next)
                record_work(ep, wr);
        return verbs_post(ep->of, chain, bad);
}

static int post_recv(struct verbs_ep *ep, struct verbs_wr *chain, struct verbs_wr **bad)
{
        return verbs_post_recv(ep->of, chain, bad);
}

static int post_srq(struct verbs_domain *d, struct verbs_wr *chain, struct verbs_wr **bad)
{
        return verbs_post_srq(d->of, chain, bad);
}

static int poll_cq(struct verbs_domain *d, struct verbs_wc *wc, int max)
{
        int n = verbs_poll(d->of, wc, max);

        for (int i = 0; i < n; i++) {
                wc[i].ep = wc[i].ep ? verbs_user(wc[i].ep) : NULL;
                if (wc[i].ep)
                        record_completion(wc[i].ep, &wc[i]);
        }
        return n;
}

/* --- the provider ----------------------------------------------------------------------------- */

static const struct verbs ops = {
        .open = open_context,
        .close = close_context,
        .fds = fds,
        .event = event,
        .listen = listen_on,
        .listener_port = listener_port,
        .unlisten = unlisten,
        .resolve = resolve,
        .migrate = migrate,
        .domain = domain,
        .qp = qp,
        .connect = connect_to,
        .accept = accept_it,
        .reject = reject,
        .disconnect = disconnect,
        .fail = fail,
        .destroy = destroy,
        .set_user = set_user,
        .user = user_of,
        .addresses = addresses,
        .caps = caps_of,
        .make_srq = make_srq,
        .grow_cq = grow_cq,
        .reg = reg,
        .dereg = dereg,
        .make_window = make_window,
        .drop_window = drop_window,
        .post = post,
        .post_recv = post_recv,
        .post_srq = post_srq,
        .poll = poll_cq,
        .arm = arm,
};

struct verbs_provider *verbs_record_new(struct verbs_provider *of, struct capture_writer *w)
{
        struct recorder *r = calloc(1, sizeof(*r));

        if (!r)
                return NULL;
        r->provider.ops = &ops;
        r->of = of;
        r->w = w;
        pthread_mutex_init(&r->lock, NULL);
        return &r->provider;
}

void verbs_record_free(struct verbs_provider *p)
{
        struct recorder *r = (struct recorder *)p;

        if (!r)
                return;
        pthread_mutex_destroy(&r->lock);
        free(r);
}

void verbs_record_comment(struct verbs_context *c, const char *text)
{
        if (c->ops == &ops)
                c->comment = text;
}
