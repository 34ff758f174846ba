/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_record.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "verbs_record_flow.h"

enum { REJECTED_BY_CONSUMER = 28 }; /* of a REJ: IBTA 1.4, chapter 12 */

struct recorder {
        struct verbs_provider provider;
        struct verbs_provider *of;
        struct capture_writer *w;
        const struct record_protocol *protocol;
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

struct verbs_domain {
        const struct verbs *ops;
        struct verbs_domain *of, *next;
        struct record_memory memory;
};

struct verbs_ep {
        const struct verbs *ops;
        struct verbs_ep *of, *next;
        struct verbs_context *context;
        struct verbs_domain *domain;
        void *user;
        struct record_flow flow;
};

static struct recorder *recorder_of(const struct verbs_ep *ep)
{
        return ep->context->recorder;
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
        ep->flow.w = c->recorder->w;
        ep->flow.protocol = c->recorder->protocol;
        ep->flow.self = self;
        join(ep, c);
        verbs_set_user(of, ep);
        return ep;
}

static void ep_free(struct verbs_ep *ep)
{
        record_flow_fini(&ep->flow);
        free(ep);
}

/* NULL with errno, and `of` is destroyed; also where that is NULL. */
static struct verbs_ep *ep_over(struct verbs_context *c, struct verbs_ep *of, enum party self)
{
        struct verbs_ep *ep = of ? ep_new(c, of, self) : NULL;

        if (ep || !of)
                return ep;
        verbs_destroy(of);
        errno = ENOMEM;
        return NULL;
}

static struct verbs_ep *resolve(struct verbs_context *c, const char *traddr, const char *trsvcid,
                                unsigned timeout_ms)
{
        return ep_over(c, verbs_resolve(c->of, traddr, trsvcid, timeout_ms), PARTY_HOST);
}

/* The context of the provider below is asked first: once it agrees, its thread may have events. */
static int migrate(struct verbs_ep *ep, struct verbs_context *to)
{
        struct verbs_context *from = ep->context;

        leave(ep);
        join(ep, to);
        ep->domain = NULL;
        ep->flow.memory = NULL;
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
        ep->flow.memory = d ? &d->memory : NULL;
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
        record_flow_open(&ep->flow, ep->of, ep->context->comment);
        record_flow_add_cm(&ep->flow, PARTY_HOST, CAPTURE_REQUEST, &p, 0);
        return 0;
}

static int accept_it(struct verbs_ep *ep, const struct verbs_conn_param *param)
{
        struct verbs_conn_param p = said(ep, param);

        if (verbs_accept(ep->of, param) < 0)
                return -1;
        record_flow_add_cm(&ep->flow, PARTY_CONTROLLER, CAPTURE_ACCEPT, &p, 0);
        return 0;
}

static int reject(struct verbs_ep *ep, const void *data, uint8_t len)
{
        struct verbs_conn_param p = { .data = data, .len = len };

        if (verbs_reject(ep->of, data, len) < 0)
                return -1;
        record_flow_add_cm(&ep->flow, PARTY_CONTROLLER, CAPTURE_REJECT, &p, REJECTED_BY_CONSUMER);
        return 0;
}

static struct verbs_ep *local(struct verbs_context *c, const char *traddr)
{
        return ep_over(c, verbs_local(c->of, traddr), PARTY_CONTROLLER);
}

static int numbers(const struct verbs_ep *ep, struct verbs_numbers *own)
{
        return verbs_numbers(ep->of, own);
}

static int join_peer(struct verbs_ep *ep, const struct verbs_numbers *peer,
                     const struct verbs_conn_param *param)
{
        struct verbs_numbers own;

        if (verbs_numbers(ep->of, &own) < 0 || verbs_join(ep->of, peer, param) < 0)
                return -1;
        record_flow_join(&ep->flow, &own, peer, ep->context->comment);
        return 0;
}

static int disconnect(struct verbs_ep *ep)
{
        if (verbs_disconnect(ep->of) < 0)
                return -1;
        record_flow_part(&ep->flow, ep->flow.self);
        ep->flow.dead = true;
        return 0;
}

static int fail(struct verbs_ep *ep)
{
        ep->flow.dead = true;
        return (verbs_fail)(ep->of);
}

static void destroy(struct verbs_ep *ep)
{
        verbs_destroy(ep->of);
        record_flow_partings(&ep->flow);
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
        record_flow_add_cm(&ep->flow, PARTY_CONTROLLER, CAPTURE_ACCEPT, &p, 0);
}

static uint16_t listener_port(const struct verbs_listener *l)
{
        return verbs_listener_port(l->of);
}

static void record_event(struct verbs_ep *ep, const struct verbs_event *e)
{
        enum party peer = peer_of(ep->flow.self);

        if (e->type == VERBS_CONNECT_REQUEST) {
                ep->flow.port = e->listener ? listener_port(e->listener) : 0;
                record_flow_open(&ep->flow, ep->of, ep->context->comment);
                record_flow_add_cm(&ep->flow, PARTY_HOST, CAPTURE_REQUEST, &e->param, 0);
        } else if (e->type == VERBS_ESTABLISHED) {
                if (ep->flow.self == PARTY_HOST)
                        record_acceptance(ep, &e->param);
                record_flow_ready(&ep->flow);
        } else if (e->type == VERBS_REJECTED) {
                record_flow_add_cm(&ep->flow, peer, CAPTURE_REJECT, &e->param, e->reason);
        } else if (e->type == VERBS_DISCONNECTED) {
                record_flow_part(&ep->flow, peer);
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

static void close_context(struct verbs_context *c)
{
        verbs_close(c->of);
        while (c->eps) {
                struct verbs_ep *ep = c->eps;

                c->eps = ep->next;
                record_flow_partings(&ep->flow);
                ep_free(ep);
        }
        while (c->domains) {
                struct verbs_domain *d = c->domains;

                c->domains = d->next;
                record_memory_fini(&d->memory);
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

static int reg(struct verbs_domain *d, void *addr, size_t len, unsigned access, struct verbs_mr *mr)
{
        if (verbs_reg(d->of, addr, len, access, mr) < 0)
                return -1;
        if (access & (VERBS_REMOTE_READ | VERBS_REMOTE_WRITE))
                record_memory_add(&d->memory, mr, addr, len);
        return 0;
}

static void dereg(struct verbs_domain *d, struct verbs_mr *mr)
{
        record_memory_drop(&d->memory, NULL, mr->rkey);
        verbs_dereg(d->of, mr);
}

static int make_window(struct verbs_domain *d, struct verbs_window *w)
{
        return verbs_make_window(d->of, w);
}

static void drop_window(struct verbs_domain *d, struct verbs_window *w)
{
        record_memory_drop(&d->memory, w, 0);
        verbs_drop_window(d->of, w);
}

/* Written before it is posted: a request whose answer is there may be used again at once. */
static int post(struct verbs_ep *ep, struct verbs_wr *chain, struct verbs_wr **bad)
{
        for (const struct verbs_wr *wr = chain; wr && ep->flow.open && !ep->flow.dead;
             wr = wr->next)
                record_flow_posted(&ep->flow, wr);
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
                        record_flow_completed(&wc[i].ep->flow, &wc[i]);
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
        .local = local,
        .numbers = numbers,
        .join_peer = join_peer,
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

struct verbs_provider *verbs_record_new(struct verbs_provider *of, struct capture_writer *w,
                                        const struct record_protocol *protocol)
{
        struct recorder *r = calloc(1, sizeof(*r));

        if (!r)
                return NULL;
        r->provider.ops = &ops;
        r->of = of;
        r->w = w;
        r->protocol = protocol;
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
