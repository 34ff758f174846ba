/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory_verbs.h"

#include <stdio.h>

#include "memory_own.h"

void memory_caps_default(struct memory_caps *caps)
{
        *caps = (struct memory_caps) {
                .device = { .sges = VERBS_SGES,
                            .inline_bytes = 64,
                            .qp_wrs = 4096,
                            .srq_wrs = 16384,
                            .cqes = 1 << 20,
                            .reads_in = 16,
                            .reads_out = 16,
                            .windows = true,
                            .name = "memory" },
        };
}

bool memory_refused(struct memory_fabric *f, enum memory_what what)
{
        unsigned *any = &f->refuse[MEMORY_ANY], *this = &f->refuse[what];
        bool refused = false;

        if (*any > 0 && --*any == 0)
                refused = true;
        if (*this > 0 && --*this == 0)
                refused = true;
        if (refused)
                errno = ENOMEM;
        return refused;
}

void memory_refuse(struct memory_fabric *f, enum memory_what what, unsigned nth)
{
        f->refuse[what] = nth;
}

void *memory_object_new(struct memory_fabric *f, size_t size)
{
        struct memory_object *o = calloc(1, size);

        if (!o)
                return NULL;
        *o = (struct memory_object) { f->cfg.ops, f, f->objects, false };
        f->objects = o;
        return o;
}

struct memory_fabric *memory_fabric_of(const void *object)
{
        return ((const struct memory_object *)object)->fabric;
}

void *memory_fabric_user(const struct memory_fabric *f)
{
        return f->cfg.user;
}

struct verbs_provider *memory_provider(struct memory_fabric *f)
{
        return &f->provider;
}

/* --- contexts ---------------------------------------------------------------------------------- */

void memory_changed(struct verbs_context *c)
{
        const struct memory_config *cfg = &c->o.fabric->cfg;

        if (cfg->changed)
                cfg->changed(cfg->user, c);
}

bool memory_readable(const struct verbs_context *c)
{
        return c->events.head || c->rung;
}

void memory_context_set_own(struct verbs_context *c, void *own)
{
        c->own = own;
}

void *memory_context_own(const struct verbs_context *c)
{
        return c->own;
}

static struct verbs_context *open_context(struct verbs_provider *p)
{
        struct memory_fabric *f = (struct memory_fabric *)(void *)p;
        struct verbs_context *c;

        if (memory_refused(f, MEMORY_OPEN))
                return NULL;
        c = memory_object_new(f, sizeof(*c));
        if (!c)
                return NULL;
        c->next = f->contexts;
        f->contexts = c;
        return c;
}

static void free_events(struct fifo *list)
{
        struct memory_event *e;

        while ((e = fifo_pop(list)))
                free(e);
}

static void close_context(struct verbs_context *c)
{
        struct memory_fabric *f = c->o.fabric;
        struct verbs_context **at = &f->contexts;

        ALIVE(c);
        for (struct verbs_listener *l = f->listeners, *next; l; l = next) {
                next = l->next;
                if (l->context == c)
                        memory_unlisten(l);
        }
        for (struct verbs_ep *ep = f->eps, *next; ep; ep = next) {
                next = ep->next;
                if (ep->context == c)
                        memory_ep_end(ep);
        }
        free_events(&c->events);
        if (c->domain)
                memory_domain_end(c->domain);
        while (*at != c)
                at = &(*at)->next;
        *at = c->next;
        c->o.gone = true;
}

static int no_fds(struct verbs_context *c, int *fds, int max)
{
        (void)c;
        (void)fds;
        (void)max;
        return 0;
}

void memory_event_push(struct verbs_context *c, struct memory_event *e)
{
        fifo_push(&c->events, &e->chain);
        memory_changed(c);
}

static bool take_event(struct verbs_context *c, struct verbs_event *e)
{
        struct memory_event *taken;

        ALIVE(c);
        taken = fifo_pop(&c->events);
        if (!taken)
                return false;
        *e = taken->e;
        e->param.data = e->data;
        memory_taken(taken);
        free(taken);
        if (!c->events.head)
                memory_changed(c);
        return true;
}

static int arm(struct verbs_context *c)
{
        ALIVE(c);
        c->armed = true;
        c->rung = false;
        memory_changed(c);
        return 0;
}

/* --- endpoints --------------------------------------------------------------------------------- */

/* A place in the ring (a power of two) for every endpoint there ever was: memory_ready() cannot
 * fail. */
static int make_room(struct memory_fabric *f)
{
        uint32_t n = f->ready_room ? 2 * f->ready_room : 16;
        struct verbs_ep **ring;

        if (f->created < f->ready_room)
                return 0;
        ring = calloc(n, sizeof(struct verbs_ep *));
        if (!ring)
                return -1;
        for (uint32_t i = 0; i < f->ready_count; i++)
                ring[i] = f->ready[(f->ready_at + i) & (f->ready_room - 1)];
        free(f->ready);
        f->ready = ring;
        f->ready_at = 0;
        f->ready_room = n;
        return 0;
}

struct verbs_ep *memory_ep_new(struct verbs_context *c)
{
        struct memory_fabric *f = c->o.fabric;
        struct verbs_ep *ep = make_room(f) < 0 ? NULL : memory_object_new(f, sizeof(*ep));

        if (!ep)
                return NULL;
        f->created++;
        ep->context = c;
        ep->next = f->eps;
        if (f->eps)
                f->eps->prev = ep;
        f->eps = ep;
        return ep;
}

static bool not_of_ep(struct chained *c, void *arg)
{
        struct memory_event *e = (struct memory_event *)(void *)c;

        if (e->e.ep != arg)
                return true;
        free(e);
        return false;
}

void memory_ep_end(struct verbs_ep *ep)
{
        struct memory_fabric *f = ep->o.fabric;

        memory_hang_up(ep);
        memory_qp_end(ep);
        if (!ep->taken && ep->listener)
                ep->listener->waiting--;
        free_events(&ep->messages);
        free_events(&ep->async);
        fifo_sift(&ep->context->events, not_of_ep, ep);
        if (ep->prev)
                ep->prev->next = ep->next;
        else
                f->eps = ep->next;
        if (ep->next)
                ep->next->prev = ep->prev;
        ep->o.gone = true;
        memory_changed(ep->context);
}

static void destroy(struct verbs_ep *ep)
{
        ALIVE(ep);
        memory_ep_end(ep);
}

struct move {
        struct verbs_ep *ep;
        struct verbs_context *to;
};

static bool not_moved(struct chained *c, void *arg)
{
        struct memory_event *e = (struct memory_event *)(void *)c;
        const struct move *m = arg;

        if (e->e.ep != m->ep)
                return true;
        memory_event_push(m->to, e);
        return false;
}

static int migrate(struct verbs_ep *ep, struct verbs_context *to)
{
        struct verbs_context *from = ep->context;

        ALIVE(ep);
        ALIVE(to);
        if (ep->qp != MEMORY_QP_NONE) {
                errno = EBUSY;
                return -1;
        }
        if (from == to)
                return 0;
        ep->domain = NULL;
        fifo_sift(&from->events, not_moved, &(struct move) { ep, to });
        memory_changed(from);
        ep->context = to;
        return 0;
}

enum { FIRST_CQES = 256 }; /* until somebody says how many it needs, and then has to mean it */

static struct verbs_domain *domain_of(struct verbs_ep *ep)
{
        struct verbs_context *c = ep->context;
        struct verbs_domain *d = c->domain;

        ALIVE(ep);
        if (ep->removed || c->removed)
                errno = ENODEV;
        else if (!d && !memory_refused(c->o.fabric, MEMORY_DOMAIN))
                c->domain = d = memory_object_new(c->o.fabric, sizeof(*d));
        else if (!d)
                return NULL;
        if (ep->removed || c->removed || !d)
                return NULL;
        d->context = c;
        if (!d->asked)
                d->cq_room = FIRST_CQES;
        ep->domain = d;
        return d;
}

static int make_qp(struct verbs_ep *ep, const struct verbs_qp_attr *attr)
{
        const struct verbs_caps *caps = &ep->o.fabric->caps.device;

        ALIVE(ep);
        MUST(ep->qp == MEMORY_QP_NONE, "it still has a queue pair");
        if (!ep->domain && !domain_of(ep))
                return -1;
        if (memory_refused(ep->o.fabric, MEMORY_QP))
                return -1;
        errno = ep->removed ? ENODEV : EINVAL;
        if (ep->removed || attr->send_wrs > caps->qp_wrs || attr->recv_wrs > caps->qp_wrs ||
            attr->inline_bytes > caps->inline_bytes || attr->send_wrs == 0 ||
            (attr->recv_wrs == 0 && ep->domain->srq_wrs == 0))
                return -1;
        ep->attr = *attr;
        ep->qp = MEMORY_QP_NEW;
        return 0;
}

static int fail(struct verbs_ep *ep)
{
        ALIVE(ep);
        if (ep->qp == MEMORY_QP_NONE) {
                errno = EINVAL;
                return -1;
        }
        memory_qp_fail(ep);
        return 0;
}

static void set_user(struct verbs_ep *ep, void *user)
{
        ALIVE(ep);
        ep->user = user;
}

static void *user_of(const struct verbs_ep *ep)
{
        ALIVE(ep);
        return ep->user;
}

static void addresses(const struct verbs_ep *ep, char *local, char *peer, size_t size)
{
        ALIVE(ep);
        if (local)
                snprintf(local, size, "%s", ep->local);
        if (peer)
                snprintf(peer, size, "%s", ep->remote);
}

static uint16_t listener_port(const struct verbs_listener *l)
{
        ALIVE(l);
        return l->port;
}

/* --- domains ----------------------------------------------------------------------------------- */

static const struct verbs_caps *caps_of(const struct verbs_domain *d)
{
        ALIVE(d);
        return &d->o.fabric->caps.device;
}

static int make_srq(struct verbs_domain *d, uint32_t wrs)
{
        uint32_t most = d->o.fabric->caps.device.srq_wrs;

        ALIVE(d);
        if (memory_refused(d->o.fabric, MEMORY_SRQ))
                return -1;
        if (d->srq_wrs > 0 || wrs == 0 || wrs > most) {
                errno = d->srq_wrs > 0 ? EEXIST : most > 0 ? EINVAL : EOPNOTSUPP;
                return -1;
        }
        d->srq_wrs = wrs;
        return 0;
}

static int grow_cq(struct verbs_domain *d, uint32_t cqes)
{
        uint32_t most = d->o.fabric->caps.device.cqes;

        ALIVE(d);
        if (d->asked && cqes <= d->cq_room)
                return 0;
        if (memory_refused(d->o.fabric, MEMORY_CQ))
                return -1;
        if (most > 0 && cqes > most) {
                errno = EINVAL;
                return -1;
        }
        d->cq_room = cqes;
        d->asked = true;
        return 0;
}

const struct verbs memory_ops = {
        .open = open_context,
        .close = close_context,
        .fds = no_fds,
        .event = take_event,
        .listen = memory_listen,
        .listener_port = listener_port,
        .unlisten = memory_unlisten,
        .resolve = memory_resolve,
        .migrate = migrate,
        .domain = domain_of,
        .qp = make_qp,
        .connect = memory_connect,
        .accept = memory_accept,
        .reject = memory_reject,
        .local = memory_local,
        .numbers = memory_numbers,
        .join_peer = memory_join,
        .disconnect = memory_disconnect,
        .fail = fail,
        .destroy = destroy,
        .set_user = set_user,
        .user = user_of,
        .addresses = addresses,
        .caps = caps_of,
        .make_srq = make_srq,
        .grow_cq = grow_cq,
        .reg = memory_reg,
        .dereg = memory_dereg,
        .make_window = memory_make_window,
        .drop_window = memory_drop_window,
        .post = memory_post,
        .post_recv = memory_post_recv,
        .post_srq = memory_post_srq,
        .poll = memory_poll,
        .arm = arm,
};

/* --- the fabric -------------------------------------------------------------------------------- */

struct memory_fabric *memory_fabric_new(const struct memory_config *cfg)
{
        struct memory_fabric *f = calloc(1, sizeof(*f));

        if (!f)
                return NULL;
        if (cfg)
                f->cfg = *cfg;
        if (f->cfg.caps)
                f->caps = *f->cfg.caps;
        else
                memory_caps_default(&f->caps);
        if (!f->cfg.ops)
                f->cfg.ops = &memory_ops;
        f->provider.ops = f->cfg.ops;
        return f;
}

void memory_fabric_free(struct memory_fabric *f)
{
        struct memory_object *o;

        if (!f)
                return;
        while (f->contexts)
                close_context(f->contexts);
        while ((o = f->objects)) {
                f->objects = o->next;
                free(o);
        }
        map_fini(&f->work);
        map_fini(&f->keys);
        free(f->ready);
        free(f);
}

void memory_tap(struct verbs_ep *from, const struct memory_tap_entry *e)
{
        const struct memory_config *cfg = &from->o.fabric->cfg;
        struct memory_tap_entry entry = *e;

        if (!cfg->tap)
                return;
        entry.from = from;
        entry.by_connector = from->connector;
        entry.connection = from->connection;
        cfg->tap(cfg->user, &entry);
}

/* --- steps ------------------------------------------------------------------------------------- */

enum { MAY_MESSAGE = 64, MAY_ASYNC = 128 }; /* besides WORK_* */

void memory_ready(struct verbs_ep *ep)
{
        struct memory_fabric *f = ep->o.fabric;

        if (ep->queued)
                return;
        ep->queued = true;
        f->ready[(f->ready_at + f->ready_count++) & (f->ready_room - 1)] = ep;
}

static uint32_t choose(struct memory_fabric *f, uint32_t of)
{
        return f->cfg.random && of > 1 ? f->cfg.random(f->cfg.user) % of : 0;
}

static struct verbs_ep *pop_ready(struct memory_fabric *f)
{
        struct verbs_ep **first = &f->ready[f->ready_at];
        struct verbs_ep **chosen =
            &f->ready[(f->ready_at + choose(f, f->ready_count)) & (f->ready_room - 1)];
        struct verbs_ep *ep = *chosen;

        *chosen = *first;
        f->ready_at = (f->ready_at + 1) & (f->ready_room - 1);
        f->ready_count--;
        ep->queued = false;
        return ep;
}

static unsigned may(struct verbs_ep *ep)
{
        unsigned bits;

        if (ep->o.gone)
                return 0;
        bits = memory_work_may(ep);
        if (ep->messages.head && !ep->hold)
                bits |= MAY_MESSAGE;
        if (ep->async.head)
                bits |= MAY_ASYNC;
        return bits;
}

static unsigned one_of(struct memory_fabric *f, unsigned bits)
{
        unsigned n = 0;

        for (unsigned b = bits; b; b &= b - 1)
                n++;
        for (n = choose(f, n); n > 0; n--)
                bits &= bits - 1;
        return bits & (~bits + 1);
}

static void act(struct verbs_ep *ep, unsigned bit)
{
        if (bit == MAY_MESSAGE)
                memory_deliver(ep);
        else if (bit == MAY_ASYNC)
                memory_event_push(ep->context, fifo_pop(&ep->async));
        else
                memory_work_do(ep, bit);
}

bool memory_step(struct memory_fabric *f)
{
        while (f->ready_count > 0) {
                struct verbs_ep *ep = pop_ready(f);
                unsigned bits = may(ep);

                if (bits == 0)
                        continue;
                act(ep, one_of(f, bits));
                memory_ready(ep);
                return true;
        }
        return false;
}

void memory_idle(struct memory_fabric *f)
{
        while (memory_step(f))
                ;
}

/* --- faults ------------------------------------------------------------------------------------ */

void memory_fail_completion(struct verbs_ep *ep, unsigned k, enum verbs_status status)
{
        ALIVE(ep);
        ep->fail_in = k;
        ep->fail_status = status;
}

void memory_fail_work(struct verbs_ep *ep, unsigned k, enum verbs_status status)
{
        ALIVE(ep);
        ep->fail_work_in = k;
        ep->fail_work_status = status;
}

void memory_lose_cm(struct verbs_ep *ep, unsigned n)
{
        ALIVE(ep);
        ep->lose = n;
}

void memory_hold_cm(struct verbs_ep *ep, bool hold)
{
        ALIVE(ep);
        ep->hold = hold;
        memory_ready(ep);
}

static void inject(struct verbs_context *c, struct verbs_ep *ep, struct verbs_listener *l,
                   enum verbs_event_type type, int reason)
{
        struct memory_event *e = calloc(1, sizeof(*e));

        if (!e)
                return;
        e->injected = true;
        e->e.type = type;
        e->e.reason = reason;
        e->e.ep = ep;
        e->e.listener = l;
        memory_event_push(c, e);
}

void memory_inject(struct verbs_ep *ep, enum verbs_event_type type, int reason)
{
        ALIVE(ep);
        inject(ep->context, ep, NULL, type, reason);
}

void memory_inject_context(struct verbs_context *c, enum verbs_event_type type, int reason)
{
        ALIVE(c);
        inject(c, NULL, NULL, type, reason);
}

/* One whose request nobody has taken yet is nobody's to destroy, nor to be told of. */
static void remove_ep(struct verbs_ep *ep)
{
        if (!ep->taken) {
                memory_ep_end(ep);
                return;
        }
        ep->removed = true;
        memory_qp_fail(ep);
        inject(ep->context, ep, NULL, VERBS_DEVICE_REMOVED, 0);
}

static void remove_device(struct verbs_context *c)
{
        struct memory_fabric *f = c->o.fabric;

        if (c->removed)
                return;
        c->removed = true;
        for (struct verbs_ep *ep = f->eps, *next; ep; ep = next) {
                next = ep->next;
                if (ep->context == c)
                        remove_ep(ep);
        }
        for (struct verbs_listener *l = f->listeners; l; l = l->next)
                if (l->context == c)
                        inject(c, NULL, l, VERBS_DEVICE_REMOVED, 0);
}

void memory_remove(struct memory_fabric *f, struct verbs_context *c)
{
        if (c)
                remove_device(c);
        for (struct verbs_context *each = f->contexts; !c && each; each = each->next)
                remove_device(each);
}

/* --- accounts ---------------------------------------------------------------------------------- */

struct memory_count memory_leaks(const struct memory_fabric *f)
{
        struct memory_count n = { .mrs = f->mrs, .windows = f->windows, .posted = f->work.used };

        for (const struct verbs_context *c = f->contexts; c; c = c->next)
                n.contexts++;
        for (const struct verbs_listener *l = f->listeners; l; l = l->next)
                n.listeners++;
        for (const struct verbs_ep *ep = f->eps; ep; ep = ep->next) {
                n.eps += ep->taken;
                n.qps += ep->qp != MEMORY_QP_NONE;
        }
        return n;
}

unsigned memory_leaked(const struct memory_fabric *f)
{
        struct memory_count n = memory_leaks(f);

        return n.listeners + n.eps + n.qps + n.mrs + n.windows + n.posted;
}

struct verbs_ep *memory_ep(const struct memory_fabric *f, unsigned i)
{
        struct verbs_ep *ep = f->eps;

        while (ep && (!ep->taken || i-- > 0))
                ep = ep->next;
        return ep;
}

struct verbs_context *memory_context(const struct verbs_ep *ep)
{
        ALIVE(ep);
        return ep->context;
}

bool memory_connects(const struct verbs_ep *ep)
{
        ALIVE(ep);
        return ep->connector;
}

enum memory_qp memory_qp_state(const struct verbs_ep *ep)
{
        ALIVE(ep);
        return ep->qp;
}
