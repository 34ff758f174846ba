/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection management in memory, as the IB CM does it (IBTA 12): REQ, REP, RTU, REJ, DREQ, DREP. */
#include <stdio.h>

#include "memory_own.h"

enum { /* reasons of the CM's own rejections (IBTA 12.6.7.2) */
       REASON_RESOURCES = 1,
       REASON_TIMEOUT = 4,
       REASON_NO_LISTENER = 8,
       REASON_CONSUMER = 28,
};

enum { REQUEST_DATA = 56, REPLY_DATA = 196, REJECT_DATA = 148 }; /* what IB leaves to the user */

/* --- messages ---------------------------------------------------------------------------------- */

static void put_data(struct verbs_ep *to, struct verbs_event *e, const void *data, uint8_t len,
                     uint8_t padded)
{
        if (len > 0)
                memcpy(e->data, data, len);
        e->param.len = to->o.fabric->caps.no_padding ? len : padded;
}

static struct memory_event *message_new(enum message m, int reason)
{
        struct memory_event *e = calloc(1, sizeof(*e));

        if (!e)
                return NULL;
        e->message = m;
        e->e.reason = reason;
        return e;
}

/* A message that there is no memory for is lost, as on a network. */
static void deliver(struct verbs_ep *to, enum message m, int reason,
                    const struct verbs_conn_param *p, uint8_t padded)
{
        struct memory_event *e = message_new(m, reason);

        if (!e)
                return;
        if (p) {
                e->e.param = *p;
                put_data(to, &e->e, p->data, p->len, padded);
        }
        fifo_push(&to->messages, &e->chain);
        memory_ready(to);
}

static void deliver_to_peer(struct verbs_ep *ep, enum message m, int reason,
                            const struct verbs_conn_param *p, uint8_t padded)
{
        if (ep->peer && !ep->removed)
                deliver(ep->peer, m, reason, p, padded);
}

void memory_send_event(struct verbs_ep *ep, enum verbs_event_type type)
{
        struct memory_event *e = message_new(MESSAGES, 0);

        if (!e)
                return;
        e->e.type = type;
        e->e.ep = ep;
        fifo_push(&ep->async, &e->chain);
        memory_ready(ep);
}

/* --- listeners --------------------------------------------------------------------------------- */

static int port_of(const char *trsvcid, uint16_t *port)
{
        unsigned n = 0, digits = 0;

        for (; trsvcid[digits] >= '0' && trsvcid[digits] <= '9' && n <= 0xffff; digits++)
                n = n * 10 + (unsigned)(trsvcid[digits] - '0');
        *port = (uint16_t)n;
        if (digits > 0 && trsvcid[digits] == '\0' && n <= 0xffff)
                return 0;
        errno = ENXIO;
        return -1;
}

int memory_address_of(const char *traddr, char *address, size_t size)
{
        bool brackets = traddr[0] == '[';
        size_t n;

        traddr += brackets;
        n = strspn(traddr, "0123456789abcdefABCDEF.:%");
        errno = ENXIO;
        if (n >= size || strcmp(traddr + n, brackets ? "]" : "") != 0)
                return -1;
        memcpy(address, traddr, n);
        address[n] = '\0';
        return 0;
}

void memory_with_port(char *text, size_t size, const char *address, unsigned port)
{
        snprintf(text, size, strchr(address, ':') ? "[%.60s]:%u" : "%.60s:%u", address, port);
}

bool memory_is_any(const char *traddr)
{
        return traddr[0] == '\0' || strcmp(traddr, "0.0.0.0") == 0 || strcmp(traddr, "::") == 0;
}

static bool same_address(const char *a, const char *b)
{
        return memory_is_any(a) || memory_is_any(b) || strcmp(a, b) == 0;
}

static struct verbs_listener *listener_at(struct memory_fabric *f, const char *traddr,
                                          uint16_t port)
{
        struct verbs_listener *l = f->listeners;

        while (l && (l->port != port || !same_address(l->traddr, traddr)))
                l = l->next;
        return l;
}

static uint16_t ephemeral(struct memory_fabric *f)
{
        f->last_port = f->last_port < 49152 || f->last_port == 0xffff ? 49152 : f->last_port + 1;
        return f->last_port;
}

static uint16_t free_port(struct memory_fabric *f, const char *traddr)
{
        uint16_t port = ephemeral(f);

        while (listener_at(f, traddr, port))
                port = ephemeral(f);
        return port;
}

static int may_listen(struct verbs_context *c, const char *traddr, uint16_t port)
{
        if (c->removed)
                errno = ENODEV;
        else if (port > 0 && listener_at(c->o.fabric, traddr, port))
                errno = EADDRINUSE;
        else
                return 0;
        return -1;
}

struct verbs_listener *memory_listen(struct verbs_context *c, const char *traddr,
                                     const char *trsvcid, int backlog)
{
        struct memory_fabric *f = c->o.fabric;
        struct verbs_listener *l;
        char address[sizeof(l->traddr)];
        uint16_t port;

        ALIVE(c);
        if (memory_address_of(traddr, address, sizeof(address)) < 0 ||
            port_of(trsvcid, &port) < 0 || may_listen(c, address, port) < 0 ||
            memory_refused(f, MEMORY_LISTEN))
                return NULL;
        l = memory_object_new(f, sizeof(*l));
        if (!l)
                return NULL;
        l->context = c;
        l->backlog = backlog;
        l->port = port ? port : free_port(f, address);
        memcpy(l->traddr, address, sizeof(address));
        l->next = f->listeners;
        f->listeners = l;
        return l;
}

static bool not_of_listener(struct chained *c, void *arg)
{
        struct memory_event *e = (struct memory_event *)(void *)c;

        if (e->e.listener != arg)
                return true;
        free(e);
        return false;
}

void memory_unlisten(struct verbs_listener *l)
{
        struct verbs_listener **at = &l->o.fabric->listeners;

        ALIVE(l);
        while (*at != l)
                at = &(*at)->next;
        *at = l->next;
        for (struct verbs_ep *ep = l->o.fabric->eps, *next; ep; ep = next) {
                next = ep->next;
                if (ep->listener != l)
                        continue;
                ep->listener = NULL;
                if (!ep->taken)
                        memory_ep_end(ep);
        }
        fifo_sift(&l->context->events, not_of_listener, l);
        memory_changed(l->context);
        l->o.gone = true;
}

/* --- connecting -------------------------------------------------------------------------------- */

struct verbs_ep *memory_resolve(struct verbs_context *c, const char *traddr, const char *trsvcid,
                                unsigned timeout_ms)
{
        const char *own = c->o.fabric->caps.host;
        struct verbs_ep *ep;
        char address[sizeof(ep->traddr)];
        uint16_t port;

        (void)timeout_ms;
        ALIVE(c);
        if (memory_address_of(traddr, address, sizeof(address)) < 0 ||
            port_of(trsvcid, &port) < 0 || memory_refused(c->o.fabric, MEMORY_RESOLVE))
                return NULL;
        if (c->removed) {
                errno = ENODEV;
                return NULL;
        }
        ep = memory_ep_new(c);
        if (!ep)
                return NULL;
        ep->taken = ep->connector = true;
        ep->port = port;
        memcpy(ep->traddr, address, sizeof(address));
        snprintf(ep->local, sizeof(ep->local), "%s",
                 own[0] && !strchr(address, ':') ? own : address);
        memory_with_port(ep->remote, sizeof(ep->remote), address, port);
        deliver(ep, MESSAGE_RESOLVED, 0, NULL, 0);
        return ep;
}

static struct verbs_ep *acceptor_new(struct verbs_ep *connector, struct verbs_listener *l)
{
        struct verbs_ep *ep;

        if (l->backlog > 0 && l->waiting >= l->backlog)
                return NULL;
        ep = memory_ep_new(l->context);
        if (!ep)
                return NULL;
        l->waiting++;
        ep->listener = l;
        ep->cm = CM_REQUESTED;
        ep->peer = connector;
        connector->peer = ep;
        connector->connection = ep->connection = ++l->o.fabric->connections;
        snprintf(ep->local, sizeof(ep->local), "%s", connector->traddr);
        memory_with_port(ep->remote, sizeof(ep->remote), connector->local, ephemeral(l->o.fabric));
        return ep;
}

static void tap_param(struct verbs_ep *from, enum memory_act act, const struct verbs_conn_param *p)
{
        memory_tap(
            from, &(struct memory_tap_entry) {
                      .act = act, .data = p->len > 0 ? p->data : NULL, .len = p->len, .param = p });
}

const struct verbs_conn_param *memory_offer(struct verbs_ep *ep,
                                            const struct verbs_conn_param *param)
{
        const struct verbs_caps *caps = &ep->o.fabric->caps.device;

        ep->param = *param;
        if (ep->param.reads_in > caps->reads_in)
                ep->param.reads_in = caps->reads_in;
        if (ep->param.reads_out > caps->reads_out)
                ep->param.reads_out = caps->reads_out;
        return &ep->param;
}

/* Of a connect request: iWARP, which pads nothing, has room for all that verbs.h has. */
static uint8_t request_max(const struct verbs_ep *ep)
{
        return ep->o.fabric->caps.no_padding ? VERBS_PRIVATE_MAX : REQUEST_DATA;
}

int memory_connect(struct verbs_ep *ep, const struct verbs_conn_param *param)
{
        struct verbs_listener *l = listener_at(ep->o.fabric, ep->traddr, ep->port);
        struct verbs_ep *acceptor;

        ALIVE(ep);
        if (ep->removed)
                return fail_with(ENODEV);
        if (ep->cm != CM_RESOLVED || param->len > request_max(ep) || ep->qp == MEMORY_QP_NONE)
                return fail_with(EINVAL);
        if (memory_refused(ep->o.fabric, MEMORY_CONNECT))
                return -1;
        ep->cm = CM_CONNECTING;
        param = memory_offer(ep, param);
        acceptor = l ? acceptor_new(ep, l) : NULL;
        if (!acceptor) {
                deliver(ep, MESSAGE_REJECT, l ? REASON_RESOURCES : REASON_NO_LISTENER, NULL, 0);
                return 0;
        }
        tap_param(ep, MEMORY_REQUEST, param);
        acceptor->theirs = *param;
        deliver(acceptor, MESSAGE_REQUEST, 0, param, REQUEST_DATA);
        return 0;
}

int memory_accept(struct verbs_ep *ep, const struct verbs_conn_param *param)
{
        ALIVE(ep);
        if (ep->removed)
                return fail_with(ENODEV);
        if (ep->cm != CM_REQUESTED || param->len > REPLY_DATA || ep->qp == MEMORY_QP_NONE)
                return fail_with(EINVAL);
        if (memory_refused(ep->o.fabric, MEMORY_ACCEPTANCE))
                return -1;
        ep->cm = CM_ACCEPTED;
        param = memory_offer(ep, param);
        if (ep->qp == MEMORY_QP_NEW)
                ep->qp = MEMORY_QP_LIVE;
        if (ep->peer)
                ep->peer->theirs = *param;
        tap_param(ep, MEMORY_ACCEPT, param);
        deliver_to_peer(ep, MESSAGE_REPLY, 0, param, REPLY_DATA);
        return 0;
}

int memory_reject(struct verbs_ep *ep, const void *data, uint8_t len)
{
        struct verbs_conn_param p = { .data = data, .len = len };

        ALIVE(ep);
        if (ep->cm != CM_REQUESTED || len > REJECT_DATA)
                return fail_with(EINVAL);
        ep->cm = CM_OVER;
        tap_param(ep, MEMORY_REJECT, &p);
        deliver_to_peer(ep, MESSAGE_REJECT, REASON_CONSUMER, &p, REJECT_DATA);
        return 0;
}

/* --- parting ----------------------------------------------------------------------------------- */

static void part(struct verbs_ep *ep)
{
        memory_tap(ep, &(struct memory_tap_entry) { .act = MEMORY_DISCONNECT });
        deliver_to_peer(ep, MESSAGE_DREQ, 0, NULL, 0);
}

/* The CM itself answers for an endpoint that is gone. */
static void send_dreq(struct verbs_ep *ep)
{
        bool gone = !ep->peer;

        part(ep);
        ep->cm = CM_DREQ_SENT;
        if (gone && !ep->removed)
                deliver(ep, MESSAGE_DREP, 0, NULL, 0);
}

static void send_drep(struct verbs_ep *ep)
{
        deliver_to_peer(ep, MESSAGE_DREP, 0, NULL, 0);
        ep->cm = CM_CLOSED;
        deliver(ep, MESSAGE_TIMEWAIT, 0, NULL, 0);
}

static void part_silently(struct verbs_ep *ep)
{
        ep->cm = CM_CLOSED;
        memory_send_event(ep, VERBS_DISCONNECTED);
}

int memory_disconnect(struct verbs_ep *ep)
{
        ALIVE(ep);
        memory_qp_fail(ep);
        if (memory_refused(ep->o.fabric, MEMORY_DISCONNECTION))
                return -1;
        if (ep->cm == CM_REPLIED || ep->cm == CM_ACCEPTED || ep->cm == CM_ESTABLISHED)
                send_dreq(ep);
        else if (ep->cm == CM_DREQ_SEEN)
                send_drep(ep);
        else if (ep->cm == CM_JOINED)
                part_silently(ep);
        else if (ep->cm != CM_DREQ_SENT && ep->cm != CM_CLOSED)
                return fail_with(ENOTCONN);
        return 0;
}

void memory_hang_up(struct verbs_ep *ep)
{
        if (ep->cm == CM_CONNECTING)
                deliver_to_peer(ep, MESSAGE_REJECT, REASON_TIMEOUT, NULL, 0);
        else if (ep->cm == CM_REQUESTED)
                deliver_to_peer(ep, MESSAGE_REJECT, REASON_CONSUMER, NULL, 0);
        else if (ep->cm == CM_REPLIED || ep->cm == CM_ACCEPTED || ep->cm == CM_ESTABLISHED)
                part(ep);
        else if (ep->cm == CM_DREQ_SEEN)
                deliver_to_peer(ep, MESSAGE_DREP, 0, NULL, 0);
        if (ep->peer) {
                ep->peer->peer = NULL;
                memory_ready(ep->peer);
                ep->peer = NULL;
        }
}

/* --- arrival ----------------------------------------------------------------------------------- */

struct arrival {
        enum verbs_event_type type;
        enum cm next;
        bool answered; /* nothing is left to be said: TIMEWAIT follows */
};

/* [message][state]: what the owner is told. A row without next (CM_NEW): the message says nothing
 * in this state. */
static const struct arrival arrivals[MESSAGES][CMS] = {
        [MESSAGE_RESOLVED] = { [CM_NEW] = { VERBS_RESOLVED, CM_RESOLVED, false } },
        [MESSAGE_REQUEST] = { [CM_REQUESTED] = { VERBS_CONNECT_REQUEST, CM_REQUESTED, false } },
        [MESSAGE_REPLY] = { [CM_CONNECTING] = { VERBS_ESTABLISHED, CM_REPLIED, false } },
        [MESSAGE_READY] = { [CM_ACCEPTED] = { VERBS_ESTABLISHED, CM_ESTABLISHED, false } },
        [MESSAGE_REJECT] = {
                [CM_CONNECTING] = { VERBS_REJECTED, CM_OVER, false },
                [CM_REQUESTED] = { VERBS_REJECTED, CM_OVER, false },
                [CM_ACCEPTED] = { VERBS_REJECTED, CM_OVER, false },
        },
        [MESSAGE_DREQ] = {
                [CM_REPLIED] = { VERBS_DISCONNECTED, CM_DREQ_SEEN, false },
                [CM_ACCEPTED] = { VERBS_DISCONNECTED, CM_DREQ_SEEN, false },
                [CM_ESTABLISHED] = { VERBS_DISCONNECTED, CM_DREQ_SEEN, false },
                [CM_DREQ_SENT] = { VERBS_DISCONNECTED, CM_CLOSED, true },
        },
        [MESSAGE_DREP] = { [CM_DREQ_SENT] = { VERBS_DISCONNECTED, CM_CLOSED, true } },
        [MESSAGE_TIMEWAIT] = { [CM_CLOSED] = { VERBS_TIMEWAIT_EXIT, CM_CLOSED, false } },
};

void memory_deliver(struct verbs_ep *ep)
{
        struct memory_event *e = fifo_pop(&ep->messages);
        const struct arrival *a = &arrivals[e->message][ep->cm];

        if (ep->lose > 0 || a->next == CM_NEW || ep->removed) {
                ep->lose -= ep->lose > 0;
                free(e);
                return;
        }
        ep->cm = a->next;
        e->e.type = a->type;
        e->e.ep = ep;
        e->e.listener = e->message == MESSAGE_REQUEST ? ep->listener : NULL;
        memory_event_push(ep->context, e);
        if (a->answered)
                deliver(ep, MESSAGE_TIMEWAIT, 0, NULL, 0);
}

/* The connector's queue pair goes to work when its owner hears of the reply, not before. */
static void reply_taken(struct verbs_ep *ep)
{
        if (ep->qp == MEMORY_QP_NEW)
                ep->qp = MEMORY_QP_LIVE;
        if (ep->cm == CM_REPLIED) {
                ep->cm = CM_ESTABLISHED;
                deliver_to_peer(ep, MESSAGE_READY, 0, NULL, 0);
        }
        if (ep->peer)
                memory_ready(ep->peer);
}

void memory_taken(const struct memory_event *e)
{
        struct verbs_ep *ep = e->e.ep;

        if (e->injected || !ep)
                return;
        if (e->message == MESSAGE_REQUEST) {
                ep->taken = true;
                if (ep->listener)
                        ep->listener->waiting--;
        } else if (e->message == MESSAGE_REPLY) {
                reply_taken(ep);
        }
}
