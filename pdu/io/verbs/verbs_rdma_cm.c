/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts, listeners, endpoints; what happens to them is in verbs_rdma_event.c. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "pdu/io/net.h"
#include "verbs_rdma_parts.h"

/* --- contexts --------------------------------------------------------------------------------- */

int vrdma_watch(int epoll, int fd, void *what)
{
        struct epoll_event e = { .events = EPOLLIN, .data.ptr = what };

        return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

static void close_fd(int fd)
{
        if (fd >= 0)
                close(fd);
}

static void context_free(struct verbs_context *c)
{
        int saved = errno;

        if (c->channel)
                rdma_destroy_event_channel(c->channel);
        close_fd(c->events);
        close_fd(c->completions);
        close_fd(c->bell);
        close_fd(c->flush_bell);
        pthread_mutex_destroy(&c->lock);
        free(c);
        errno = saved;
}

/* All descriptors and who watches what; -1 with errno. In the events' epoll NULL stands for the
 * bell, the context for its channel, anything else is a device. */
static int context_wire(struct verbs_context *c)
{
        c->channel = rdma_create_event_channel();
        c->events = epoll_create1(EPOLL_CLOEXEC);
        c->completions = epoll_create1(EPOLL_CLOEXEC);
        c->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        c->flush_bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (!c->channel || c->events < 0 || c->completions < 0 || c->bell < 0 || c->flush_bell < 0)
                return -1;
        if (fcntl(c->channel->fd, F_SETFL, O_NONBLOCK) < 0)
                return -1;
        if (vrdma_watch(c->events, c->channel->fd, c) < 0 ||
            vrdma_watch(c->events, c->bell, NULL) < 0)
                return -1;
        return vrdma_watch(c->completions, c->flush_bell, NULL);
}

struct verbs_context *vrdma_context_open(struct verbs_provider *p)
{
        struct verbs_context *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        c->ops = p->ops;
        c->last_note = &c->notes;
        c->events = c->completions = c->bell = c->flush_bell = -1;
        pthread_mutex_init(&c->lock, NULL);
        if (context_wire(c) < 0) {
                context_free(c);
                return NULL;
        }
        return c;
}

void vrdma_context_close(struct verbs_context *c)
{
        while (c->domains)
                vrdma_domain_free(c->domains);
        context_free(c);
}

int vrdma_context_fds(struct verbs_context *c, int *fds, int max)
{
        if (max > 0)
                fds[0] = c->events;
        if (max > 1)
                fds[1] = c->completions;
        return max < 2 ? max : 2;
}

/* --- addresses -------------------------------------------------------------------------------- */

/* As getaddrinfo(); NULL with errno. */
static struct addrinfo *find(const char *traddr, const char *trsvcid, int flags)
{
        char error[NET_ERROR];
        struct addrinfo *list = net_resolve(traddr, trsvcid, flags, error, sizeof(error));

        if (!list)
                errno = ENXIO;
        return list;
}

/* "10.0.0.1" or, with port, "10.0.0.1:4420", "[fe80::1%v0]:4420"; "" if there is none. */
static void address_text(struct sockaddr *sa, bool with_port, char *text, size_t size)
{
        socklen_t len =
            sa->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        char host[NET_TRADDR], port[32];

        text[0] = '\0';
        if (sa->sa_family != AF_INET && sa->sa_family != AF_INET6)
                return;
        if (getnameinfo(sa, len, host, sizeof(host), port, sizeof(port),
                        NI_NUMERICHOST | NI_NUMERICSERV) != 0)
                return;
        if (!with_port)
                snprintf(text, size, "%s", host);
        else if (sa->sa_family == AF_INET6)
                snprintf(text, size, "[%s]:%s", host, port);
        else
                snprintf(text, size, "%s:%s", host, port);
}

void vrdma_ep_addresses(const struct verbs_ep *ep, char *local, char *peer, size_t size)
{
        if (local)
                address_text(rdma_get_local_addr(ep->id), false, local, size);
        if (peer)
                address_text(ep->joined ? (void *)(uintptr_t)&ep->peer : rdma_get_peer_addr(ep->id),
                             true, peer, size);
}

/* --- listeners -------------------------------------------------------------------------------- */

/* 0, or -1 with errno; nothing is left then. */
static int listen_at(struct verbs_listener *l, struct addrinfo *ai, int backlog)
{
        int on = 1, saved;

        if (rdma_create_id(l->context->channel, &l->id, l, RDMA_PS_TCP) < 0)
                return -1;
        rdma_set_option(l->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on));
        if (rdma_bind_addr(l->id, ai->ai_addr) == 0 && rdma_listen(l->id, backlog) == 0)
                return 0;
        saved = errno;
        rdma_destroy_id(l->id);
        l->id = NULL;
        errno = saved;
        return -1;
}

struct verbs_listener *vrdma_listener(struct verbs_context *c, const char *traddr,
                                      const char *trsvcid, int backlog)
{
        struct verbs_listener *l = calloc(1, sizeof(*l));
        struct addrinfo *list = l ? find(traddr, trsvcid, AI_PASSIVE) : NULL;

        if (!list) {
                free(l);
                return NULL;
        }
        *l = (struct verbs_listener) { .owner = { c->ops, CM_LISTENER }, .context = c };
        for (struct addrinfo *ai = list; ai && !l->id; ai = ai->ai_next)
                listen_at(l, ai, backlog);
        freeaddrinfo(list);
        if (!l->id) {
                int saved = errno;

                free(l);
                errno = saved;
                return NULL;
        }
        return l;
}

uint16_t vrdma_listener_port(const struct verbs_listener *l)
{
        return ntohs(rdma_get_src_port(l->id));
}

/* The connection manager rejects the requests that wait in its queue. */
void vrdma_unlisten(struct verbs_listener *l)
{
        rdma_destroy_id(l->id);
        free(l);
}

/* --- ids that wait for their port ------------------------------------------------------------- */

/*
 * With rxe (6.12) a message of the connection manager that finds no route, as none is while the link
 * is down, puts the queue pair of such messages into the error state. That is the kernel's own, and
 * nobody mends it: until the device is made again no connection is made to it or from it. So nothing
 * is said while the port is down. Destroying an id says DREQ or REJ, too; it waits, in the list of
 * those that are held, until the port is up.
 */
struct held {
        struct held *next;
        struct rdma_cm_id *id;
};
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;
static struct held *held;
static struct rdma_event_channel *held_events; /* nobody reads them */

static bool is_down(const struct rdma_cm_id *id)
{
        struct ibv_port_attr port;

        return ibv_query_port(id->verbs, id->port_num, &port) == 0 && port.state != IBV_PORT_ACTIVE;
}

static bool is_mute(const struct verbs_ep *ep)
{
        if (ep->local || !ep->domain || !ep->domain->mute_down || !is_down(ep->id))
                return false;
        errno = ENETDOWN;
        return true;
}

/* False: it has to be destroyed now. Its context's channel may be closed before it. */
static bool hold(struct rdma_cm_id *id)
{
        struct held *h = calloc(1, sizeof(*h));
        bool moved;

        pthread_mutex_lock(&held_lock);
        if (!held_events)
                held_events = rdma_create_event_channel();
        moved = h && held_events && rdma_migrate_id(id, held_events) == 0;
        if (moved) {
                *h = (struct held) { held, id };
                held = h;
        } else {
                free(h);
        }
        pthread_mutex_unlock(&held_lock);
        return moved;
}

void vrdma_destroy_held(void)
{
        struct held **at = &held, *h;

        pthread_mutex_lock(&held_lock);
        while ((h = *at) != NULL) {
                if (is_down(h->id)) {
                        at = &h->next;
                        continue;
                }
                *at = h->next;
                rdma_destroy_id(h->id);
                free(h);
        }
        pthread_mutex_unlock(&held_lock);
}

/* --- endpoints -------------------------------------------------------------------------------- */

struct verbs_ep *vrdma_ep_new(struct verbs_context *c)
{
        struct verbs_ep *ep = calloc(1, sizeof(*ep));

        if (!ep)
                return NULL;
        ep->owner = (struct cm_owner) { c->ops, CM_EP };
        ep->context = c;
        ep->note.ep = ep;
        return ep;
}

/* What is done with a new id and an address; 0, or -1 with errno. */
typedef int id_begin(struct verbs_ep *ep, struct sockaddr *address);

static int resolve_to(struct verbs_ep *ep, struct sockaddr *address)
{
        return rdma_resolve_addr(ep->id, NULL, address, ep->timeout_ms);
}

/* That names the device, so nothing is to be waited for. */
static int bind_to(struct verbs_ep *ep, struct sockaddr *address)
{
        if (rdma_bind_addr(ep->id, address) < 0)
                return -1;
        errno = ep->id->verbs ? ENOTSUP : ENODEV;
        if (!ep->id->verbs || ep->id->verbs->device->transport_type != IBV_TRANSPORT_IB)
                return -1;
        ep->local = true;
        return getrandom(&ep->psn, sizeof(ep->psn), 0) == sizeof(ep->psn) ? 0 : -1;
}

/* 0, or -1 with errno; no id is left then. */
static int new_id(struct verbs_ep *ep, struct addrinfo *ai, id_begin *begin)
{
        int saved;

        if (rdma_create_id(ep->context->channel, &ep->id, ep, RDMA_PS_TCP) < 0)
                return -1;
        if (begin(ep, ai->ai_addr) == 0)
                return 0;
        saved = errno;
        rdma_destroy_id(ep->id);
        ep->id = NULL;
        errno = saved;
        return -1;
}

static struct verbs_ep *begin_at(struct verbs_context *c, const char *traddr, const char *trsvcid,
                                 unsigned timeout_ms, id_begin *begin)
{
        struct addrinfo *list = find(traddr, trsvcid, 0);
        struct verbs_ep *ep = list ? vrdma_ep_new(c) : NULL;

        vrdma_destroy_held();
        if (!ep) {
                if (list)
                        freeaddrinfo(list);
                return NULL;
        }
        ep->timeout_ms = timeout_ms > INT_MAX ? INT_MAX : (int)timeout_ms;
        for (struct addrinfo *ai = list; ai && !ep->id; ai = ai->ai_next)
                new_id(ep, ai, begin);
        freeaddrinfo(list);
        if (!ep->id) {
                int saved = errno;

                free(ep);
                errno = saved;
                return NULL;
        }
        return ep;
}

struct verbs_ep *vrdma_resolve(struct verbs_context *c, const char *traddr, const char *trsvcid,
                               unsigned timeout_ms)
{
        return begin_at(c, traddr, trsvcid, timeout_ms, resolve_to);
}

struct verbs_ep *vrdma_local(struct verbs_context *c, const char *traddr)
{
        return begin_at(c, traddr, "0", 0, bind_to);
}

/* The new context's thread may be told of it before this returns. */
int vrdma_ep_migrate(struct verbs_ep *ep, struct verbs_context *to)
{
        struct verbs_context *from = ep->context;

        if (ep->id->qp) {
                errno = EBUSY;
                return -1;
        }
        vrdma_domain_leave(ep);
        ep->context = to;
        if (rdma_migrate_id(ep->id, to->channel) == 0)
                return 0;
        ep->context = from;
        return -1;
}

/* More READs than the device can do are refused by librdmacm before anything is sent. */
static struct rdma_conn_param to_cm(const struct verbs_ep *ep, const struct verbs_conn_param *p)
{
        const struct verbs_caps *caps = &ep->domain->caps;

        return (struct rdma_conn_param) {
                .private_data = p->data,
                .private_data_len = p->len,
                .responder_resources = at_most(p->reads_in, caps->reads_in),
                .initiator_depth = at_most(p->reads_out, caps->reads_out),
                .flow_control = 1,
                .retry_count = p->retry,
                .rnr_retry_count = p->rnr_retry,
                .srq = ep->srq,
        };
}

/* Whether there is a queue pair; else errno. */
static bool has_qp(const struct verbs_ep *ep)
{
        if (ep->id->qp)
                return true;
        errno = EINVAL;
        return false;
}

int vrdma_ep_connect(struct verbs_ep *ep, const struct verbs_conn_param *param)
{
        struct rdma_conn_param p;

        if (!has_qp(ep) || is_mute(ep))
                return -1;
        p = to_cm(ep, param);
        return rdma_connect(ep->id, &p);
}

int vrdma_ep_accept(struct verbs_ep *ep, const struct verbs_conn_param *param)
{
        struct rdma_conn_param p;

        if (!has_qp(ep) || is_mute(ep))
                return -1;
        p = to_cm(ep, param);
        return rdma_accept(ep->id, &p);
}

int vrdma_ep_reject(struct verbs_ep *ep, const void *data, uint8_t len)
{
        return is_mute(ep) ? -1 : rdma_reject(ep->id, data, len);
}

int vrdma_ep_disconnect(struct verbs_ep *ep)
{
        if (ep->local)
                return vrdma_ep_part(ep);
        return is_mute(ep) ? vrdma_ep_fail(ep) : rdma_disconnect(ep->id);
}

void vrdma_ep_destroy(struct verbs_ep *ep)
{
        bool mute = is_mute(ep);

        if (ep->id->qp)
                vrdma_ep_drop_qp(ep);
        vrdma_drop_note(ep->context, &ep->note);
        vrdma_domain_leave(ep);
        if (!mute || !hold(ep->id))
                rdma_destroy_id(ep->id);
        free(ep);
}

void vrdma_ep_set_user(struct verbs_ep *ep, void *user)
{
        ep->user = user;
}

void *vrdma_ep_user(const struct verbs_ep *ep)
{
        return ep->user;
}
