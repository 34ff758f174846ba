/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of contexts: of the connection manager, and notes about asynchronous ones. Every connection
 * event is copied and acknowledged as soon as it is read: destroying or migrating an id waits for
 * those that are not, forever in the thread that holds one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "verbs_rdma_parts.h"

/* --- notes ------------------------------------------------------------------------------------ */

static void ring(int bell)
{
        uint64_t one = 1;

        if (write(bell, &one, sizeof(one)) < 0)
                return; /* it rings already */
}

static void silence(int bell)
{
        uint64_t count;

        if (read(bell, &count, sizeof(count)) < 0)
                return; /* it did not ring */
}

void vrdma_note(struct verbs_context *c, struct note *n, unsigned bits)
{
        pthread_mutex_lock(&c->lock);
        n->bits |= bits;
        if (!n->listed) {
                n->next = NULL;
                *c->last_note = n;
                c->last_note = &n->next;
                n->listed = true;
        }
        pthread_mutex_unlock(&c->lock);
        ring(c->bell);
}

static void unlist_note(struct verbs_context *c, struct note *n)
{
        struct note **p = &c->notes;

        while (*p != n)
                p = &(*p)->next;
        *p = n->next;
        if (!n->next)
                c->last_note = p;
        n->listed = false;
}

void vrdma_drop_note(struct verbs_context *c, struct note *n)
{
        pthread_mutex_lock(&c->lock);
        if (n->listed)
                unlist_note(c, n);
        n->bits = 0;
        pthread_mutex_unlock(&c->lock);
}

/* The oldest note and one of its bits; NULL: none. */
static struct note *take_note(struct verbs_context *c, unsigned *bit)
{
        struct note *n;

        pthread_mutex_lock(&c->lock);
        n = c->notes;
        if (n) {
                *bit = n->bits & -n->bits;
                n->bits &= ~*bit;
                if (n->bits == 0)
                        unlist_note(c, n);
        }
        pthread_mutex_unlock(&c->lock);
        return n;
}

/* --- events ----------------------------------------------------------------------------------- */

/* The receiver is told the numbers from its own point of view: what the sender answers at a time
 * is what the receiver may have outstanding. Ours are the sender's. */
static struct verbs_conn_param from_cm(const struct rdma_conn_param *p, uint8_t *data)
{
        size_t len = p->private_data ? p->private_data_len : 0;

        if (len > VERBS_PRIVATE_MAX)
                len = VERBS_PRIVATE_MAX;
        memcpy(data, p->private_data ? p->private_data : "", len);
        return (struct verbs_conn_param) {
                .data = data,
                .len = (uint8_t)len,
                .reads_in = p->initiator_depth,
                .reads_out = p->responder_resources,
                .retry = p->retry_count,
                .rnr_retry = p->rnr_retry_count,
        };
}

/* What becomes of a connection event: told (true), or dealt with here (false). */
typedef bool event_handler(struct verbs_context *c, struct rdma_cm_event *from,
                           struct verbs_event *to);

static bool resolved_address(struct verbs_context *c, struct rdma_cm_event *from,
                             struct verbs_event *to)
{
        (void)c;
        if (rdma_resolve_route(from->id, to->ep->timeout_ms) == 0)
                return false;
        to->type = VERBS_UNREACHABLE;
        to->reason = errno;
        return true;
}

static bool request(struct verbs_context *c, struct rdma_cm_event *from, struct verbs_event *to)
{
        struct verbs_ep *ep = vrdma_ep_new(c);

        to->listener = from->listen_id->context;
        to->ep = ep;
        if (!ep)
                return false; /* out of memory: take_cm() rejects it */
        ep->id = from->id;
        ep->id->context = ep;
        return true;
}

static bool disconnected(struct verbs_context *c, struct rdma_cm_event *from,
                         struct verbs_event *to)
{
        bool first = !to->ep->disconnected;

        (void)c;
        (void)from;
        to->ep->disconnected = true;
        return first;
}

static bool removed(struct verbs_context *c, struct rdma_cm_event *from, struct verbs_event *to)
{
        const struct cm_owner *owner = from->id->context;
        bool first;

        (void)c;
        if (owner->kind == CM_LISTENER)
                to->listener = from->id->context;
        if (owner->kind != CM_EP)
                return owner->kind == CM_LISTENER;
        first = !to->ep->removed;
        to->ep->removed = true;
        if (to->ep->domain)
                to->ep->domain->removed = true;
        return first;
}

static const struct {
        bool known;
        enum verbs_event_type type;
        event_handler *handler;
} cm_events[] = {
        [RDMA_CM_EVENT_ADDR_RESOLVED] = { true, VERBS_RESOLVED, resolved_address },
        [RDMA_CM_EVENT_ADDR_ERROR] = { true, VERBS_UNREACHABLE, NULL },
        [RDMA_CM_EVENT_ROUTE_RESOLVED] = { true, VERBS_RESOLVED, NULL },
        [RDMA_CM_EVENT_ROUTE_ERROR] = { true, VERBS_UNREACHABLE, NULL },
        [RDMA_CM_EVENT_CONNECT_REQUEST] = { true, VERBS_CONNECT_REQUEST, request },
        [RDMA_CM_EVENT_CONNECT_ERROR] = { true, VERBS_CONNECT_ERROR, NULL },
        [RDMA_CM_EVENT_UNREACHABLE] = { true, VERBS_UNREACHABLE, NULL },
        [RDMA_CM_EVENT_REJECTED] = { true, VERBS_REJECTED, NULL },
        [RDMA_CM_EVENT_ESTABLISHED] = { true, VERBS_ESTABLISHED, NULL },
        [RDMA_CM_EVENT_DISCONNECTED] = { true, VERBS_DISCONNECTED, disconnected },
        [RDMA_CM_EVENT_DEVICE_REMOVAL] = { true, VERBS_DEVICE_REMOVED, removed },
        [RDMA_CM_EVENT_ADDR_CHANGE] = { true, VERBS_ADDR_CHANGE, NULL },
        [RDMA_CM_EVENT_TIMEWAIT_EXIT] = { true, VERBS_TIMEWAIT_EXIT, NULL },
};

/* Translates it; false: it is nothing to tell. */
static bool translate(struct verbs_context *c, struct rdma_cm_event *from, struct verbs_event *to)
{
        const struct cm_owner *owner = from->id->context;

        if (from->event >= sizeof(cm_events) / sizeof(cm_events[0]) ||
            !cm_events[from->event].known)
                return false;
        to->type = cm_events[from->event].type;
        to->ep = owner->kind == CM_EP ? from->id->context : NULL;
        to->listener = NULL;
        to->reason = abs(from->status); /* a negative errno, or the connection manager's own */
        to->param = from_cm(&from->param.conn, to->data);
        if (cm_events[from->event].handler)
                return cm_events[from->event].handler(c, from, to);
        return to->ep != NULL;
}

/* The domain whose guard hears of the removal; NULL: it is about something else. */
static struct verbs_domain *domain_lost(const struct rdma_cm_event *e)
{
        const struct cm_owner *owner = e->id->context;

        if (e->event != RDMA_CM_EVENT_DEVICE_REMOVAL || owner->kind != CM_GUARD)
                return NULL;
        return e->id->context;
}

/* Reads one connection event: told. */
static bool take_cm(struct verbs_context *c, struct verbs_event *e)
{
        struct rdma_cm_event *event;
        struct rdma_cm_id *orphan = NULL;
        struct verbs_domain *gone;
        bool told;

        if (rdma_get_cm_event(c->channel, &event) < 0) {
                c->cm_ready = false;
                return false;
        }
        told = translate(c, event, e);
        if (!told && event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
                orphan = event->id;
        gone = domain_lost(event);
        rdma_ack_cm_event(event);
        if (orphan)
                rdma_destroy_id(orphan); /* rejects it */
        if (gone)
                vrdma_domain_removed(gone);
        return told;
}

/* An asynchronous event of the whole device becomes one of each endpoint. */
static void note_all(struct verbs_domain *d, unsigned bits)
{
        for (struct verbs_ep *ep = d->eps; ep; ep = ep->next)
                vrdma_note(d->context, &ep->note, bits);
}

static bool domain_event(struct verbs_domain *d, unsigned bit, struct verbs_event *e)
{
        if (bit == NOTE_REMOVED) {
                note_all(d, NOTE_REMOVED);
                vrdma_domain_removed(d);
        }
        if (bit == NOTE_PORT_UP)
                vrdma_destroy_held();
        if (bit == NOTE_CQ_ERROR)
                note_all(d, NOTE_QP_ERROR);
        *e = (struct verbs_event) { .type = bit == NOTE_PORT_UP ? VERBS_PORT_UP : VERBS_PORT_DOWN };
        return bit == NOTE_PORT_UP || bit == NOTE_PORT_DOWN;
}

static bool ep_event(struct verbs_ep *ep, unsigned bit, struct verbs_event *e)
{
        static const enum verbs_event_type types[] = {
                [NOTE_LAST_WQE] = VERBS_LAST_WQE,      [NOTE_QP_ERROR] = VERBS_QP_ERROR,
                [NOTE_REMOVED] = VERBS_DEVICE_REMOVED, [NOTE_JOINED] = VERBS_ESTABLISHED,
                [NOTE_PARTED] = VERBS_DISCONNECTED,
        };

        *e = (struct verbs_event) { .type = types[bit], .ep = ep };
        if (bit != NOTE_REMOVED)
                return true;
        if (ep->removed)
                return false;
        ep->removed = true;
        return true;
}

static bool next_note(struct verbs_context *c, struct verbs_event *e)
{
        struct note *n;
        unsigned bit;

        while ((n = take_note(c, &bit)))
                if (n->ep ? ep_event(n->ep, bit, e) : domain_event(n->domain, bit, e))
                        return true;
        return false;
}

/* Whether anything new came. One system call when nothing did. */
static bool look(struct verbs_context *c)
{
        struct epoll_event ready[8];
        int n = epoll_wait(c->events, ready, 8, 0);

        for (int i = 0; i < n; i++) {
                if (!ready[i].data.ptr)
                        silence(c->bell);
                else if (ready[i].data.ptr == c)
                        c->cm_ready = true;
                else
                        vrdma_read_async(ready[i].data.ptr);
        }
        return n > 0;
}

bool vrdma_context_event(struct verbs_context *c, struct verbs_event *e)
{
        do {
                if (next_note(c, e))
                        return true;
                while (c->cm_ready)
                        if (take_cm(c, e))
                                return true;
        } while (look(c));
        return false;
}
