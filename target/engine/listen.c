/* SPDX-License-Identifier: BSD-3-Clause */
#include "listen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "family.h"
#include "pdu/io/net.h"
#include "pdu/io/stream.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "rdma.h"

enum {
        ACCEPTS = 64,   /* of one listener in a turn */
        PAUSE_MS = 100, /* where there is no memory for one more */
        ADDRESSES = 8,  /* of a name that RDMA listens at, the first that can be had */
};

struct listener {
        struct stream_listener tcp; /* first */
        struct rdma_listener rdma;  /* RDMA */
        char
            address[NET_TRADDR]; /* its address, whatever its name: reactors wait for no resolver */
        struct listeners *all;
        struct port *port;
        struct listen_place place;
        struct reactor_pause pause;
        struct listener *next;
};

static const struct target_family *family(const struct listener *l)
{
        return l->all->service->family;
}

/* A reference for a connection. */
static struct port *port_of(const struct listener *l)
{
        return family(l)->port_get ? family(l)->port_get(l->port) : l->port;
}

/* --- accepting -------------------------------------------------------------------------------- */

static struct reactor *whose_turn(struct listeners *l)
{
        return &l->reactors[l->next_reactor++ % l->n_reactors];
}

static void on_connection(struct loop_source *s, uint32_t events)
{
        struct listener *l = (struct listener *)s;
        struct stream stream = { 0 };

        (void)events;
        for (unsigned i = 0; i < ACCEPTS; i++) {
                struct stream_place place;
                struct conn_peer peer;

                if (!stream_accept(&l->tcp, &stream)) {
                        if (errno != EAGAIN)
                                reactor_pause(l->all->reactors, &l->pause, &l->tcp.source,
                                              PAUSE_MS);
                        return;
                }
                place = stream_peer(&stream);
                peer = conn_peer_of(place.addr, place.port);
                if (conn_count(l->all->service, &peer))
                        reactor_adopt(whose_turn(l->all), port_of(l), &stream, &peer);
                else
                        stream_close(&stream, false);
        }
}

static void on_request(struct rdma_listener *rl, const struct verbs_event *e)
{
        struct listener *l =
            (struct listener *)(void *)((char *)rl - offsetof(struct listener, rdma));
        struct conn_peer peer = rdma_peer(e->ep);

        if (conn_count(l->all->service, &peer))
                reactor_adopt_rdma(whose_turn(l->all), port_of(l), e, rl->rdma->reactor, &peer);
        else
                family(l)->reject_rdma(l->all->service, e->ep);
}

/* --- listening -------------------------------------------------------------------------------- */

static bool listen_tcp(struct listener *l, char *error, size_t size)
{
        if (stream_listen(&l->tcp, l->place.traddr, l->place.trsvcid, error, size) < 0)
                return false;
        snprintf(l->place.trsvcid, LISTEN_SERVICE, "%u", stream_listener_port(&l->tcp));
        l->tcp.source.ready = on_connection;
        return true;
}

struct rdma_call {
        struct listener *listener;
        int error;
};

static void call_listen(struct reactor *r, void *arg)
{
        struct rdma_call *c = arg;

        c->error = rdma_port_listen(r->rdma, &c->listener->rdma) < 0 ? errno : 0;
}

static bool complain(const struct listen_place *at, const char *why, char *error, size_t size)
{
        snprintf(error, size, "rdma:%s:%s: %s", at->traddr, at->trsvcid, why);
        return false;
}

static bool open_everywhere(struct listeners *all)
{
        const struct service *s = all->service;

        errno = ENOMEM;
        if (s->record && !all->recorder &&
            !(all->recorder = s->family->record_rdma(all->verbs, s->record)))
                return false;
        for (unsigned i = 0; i < all->n_reactors; i++)
                if (reactor_open_rdma(&all->reactors[i],
                                      all->recorder ? all->recorder : all->verbs) < 0)
                        return false;
        return true;
}

bool listen_open_rdma(struct listeners *all, char *why, size_t size)
{
        if (!all->verbs)
                all->verbs = verbs_rdma(why, size);
        if (!all->verbs)
                return false;
        if (open_everywhere(all))
                return true;
        snprintf(why, size, "%s", strerror(errno));
        return false;
}

static const char *why_not(int problem)
{
        if (problem == ENODEV || problem == EADDRNOTAVAIL)
                return "no RDMA device has this address";
        return strerror(problem);
}

static bool listen_rdma(struct listener *l, char *error, size_t size)
{
        struct rdma_call call = { .listener = l, .error = EADDRNOTAVAIL };
        char why[NET_ERROR] = "", addr[ADDRESSES][NET_TRADDR];
        unsigned n;

        if (!listen_open_rdma(l->all, why, sizeof(why)))
                return complain(&l->place, why, error, size);
        n = net_addresses(l->place.traddr, l->place.trsvcid, addr, ADDRESSES, why, sizeof(why));
        if (n == 0)
                return complain(&l->place, why, error, size);
        l->rdma.traddr = l->address;
        l->rdma.trsvcid = l->place.trsvcid;
        l->rdma.request = on_request;
        for (unsigned i = 0; i < n && call.error; i++) {
                memcpy(l->address, addr[i], NET_TRADDR);
                reactor_call(l->all->reactors, call_listen, &call);
        }
        if (call.error)
                return complain(&l->place, why_not(call.error), error, size);
        snprintf(l->place.trsvcid, LISTEN_SERVICE, "%u", verbs_listener_port(l->rdma.verbs));
        return true;
}

static bool listen_at(struct listeners *all, struct port *port, char *error, size_t size)
{
        struct listener *l = calloc(1, sizeof(*l));

        if (!l) {
                snprintf(error, size, "%s", strerror(ENOMEM));
                return false;
        }
        l->all = all;
        l->port = port;
        l->place = family(l)->place(port);
        if (!(l->place.rdma ? listen_rdma(l, error, size) : listen_tcp(l, error, size))) {
                free(l);
                return false;
        }
        l->next = all->first;
        all->first = l;
        return true;
}

/* --- beginning and ending to accept ----------------------------------------------------------- */

static void begin_accepting(struct reactor *r, void *arg)
{
        struct listener *l = arg;

        if (l->place.rdma)
                l->rdma.accepting = true;
        else
                loop_add(&r->loop, &l->tcp.source, EPOLLIN);
}

static void end_accepting(struct reactor *r, void *arg)
{
        struct listener *l = arg;

        if (l->place.rdma)
                rdma_port_unlisten(&l->rdma);
        else if (l->tcp.source.events || l->pause.source) {
                reactor_resume(r, &l->pause);
                loop_remove(&r->loop, &l->tcp.source);
        }
}

static void close_listener(struct listener *l)
{
        reactor_call(l->all->reactors, end_accepting, l);
        if (!l->place.rdma)
                stream_unlisten(&l->tcp);
        free(l);
}

static void close_until(struct listeners *all, const struct listener *end)
{
        while (all->first != end) {
                struct listener *l = all->first;

                all->first = l->next;
                close_listener(l);
        }
}

bool listen_on(struct listeners *all, struct port *const *ports, unsigned n, char *error,
               size_t size)
{
        struct listener *before = all->first;

        for (unsigned i = 0; i < n; i++)
                if (!listen_at(all, ports[i], error, size)) {
                        close_until(all, before);
                        return false;
                }
        return true;
}

void listen_accept(struct listeners *all, unsigned n)
{
        struct listener *l = all->first;

        for (; n > 0; n--, l = l->next)
                reactor_call(all->reactors, begin_accepting, l);
}

static bool is_one_of(struct port *const *ports, unsigned n, const struct port *port)
{
        while (n > 0 && ports[n - 1] != port)
                n--;
        return n > 0;
}

void listen_drop(struct listeners *all, struct port *const *ports, unsigned n)
{
        struct listener **at = &all->first, *l;

        while ((l = *at) != NULL) {
                if (!is_one_of(ports, n, l->port)) {
                        at = &l->next;
                        continue;
                }
                *at = l->next;
                close_listener(l);
        }
}

void listen_drop_all(struct listeners *all)
{
        close_until(all, NULL);
}

void listen_fini(struct listeners *all)
{
        if (all->recorder)
                all->service->family->record_end(all->recorder);
}
