/* SPDX-License-Identifier: BSD-3-Clause */
#include "listen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/io/stream.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "pdu/nvme/io/verbs_record.h"
#include "target/nvme/conn.h"
#include "target/nvme/rdma_conn.h"

enum {
        ACCEPTS = 64,   /* of one listener in a turn */
        PAUSE_MS = 100, /* where there is no memory for one more */
};

struct listener {
        struct stream_listener tcp; /* first */
        struct rdma_listener rdma;  /* RDMA */
        struct listeners *all;
        struct port *port;
        struct reactor_pause pause;
        struct listener *next;
};

static bool is_rdma(const struct listener *l)
{
        return l->port->trtype == TRTYPE_RDMA;
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
                        reactor_adopt(whose_turn(l->all), port_get(l->port), &stream, &peer);
                else
                        stream_close(&stream, false);
        }
}

static void on_request(struct rdma_listener *rl, const struct verbs_event *e)
{
        struct listener *l =
            (struct listener *)(void *)((char *)rl - offsetof(struct listener, rdma));
        struct conn_peer peer = rdma_conn_peer(e->ep);

        if (conn_count(l->all->service, &peer))
                reactor_adopt_rdma(whose_turn(l->all), port_get(l->port), e, rl->rdma->reactor,
                                   &peer);
        else
                rdma_conn_reject(l->all->service, e->ep, RDMA_REJECT_RESOURCES);
}

/* --- listening -------------------------------------------------------------------------------- */

static bool listen_tcp(struct listener *l, char *error, size_t size)
{
        if (stream_listen(&l->tcp, l->port->traddr, l->port->trsvcid, error, size) < 0)
                return false;
        snprintf(l->port->trsvcid, sizeof(l->port->trsvcid), "%u", stream_listener_port(&l->tcp));
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

static bool complain(const struct port *port, const char *why, char *error, size_t size)
{
        snprintf(error, size, "rdma:%s:%s: %s", port->traddr, port->trsvcid, why);
        return false;
}

/* A reactor that gets a connection has to have a context for it. */
static bool open_everywhere(struct listener *l, char *error, size_t size)
{
        struct listeners *all = l->all;
        char why[256] = "";

        if (!all->verbs)
                all->verbs = verbs_rdma(why, sizeof(why));
        if (!all->verbs)
                return complain(l->port, why, error, size);
        if (all->service->record && !all->recorder &&
            !(all->recorder = verbs_record_new(all->verbs, all->service->record)))
                return complain(l->port, strerror(ENOMEM), error, size);
        for (unsigned i = 0; i < all->n_reactors; i++)
                if (reactor_open_rdma(&all->reactors[i],
                                      all->recorder ? all->recorder : all->verbs) < 0)
                        return complain(l->port, strerror(errno), error, size);
        return true;
}

static const char *why_not(int problem)
{
        if (problem == ENODEV || problem == EADDRNOTAVAIL)
                return "no RDMA device has this address";
        return strerror(problem);
}

static bool listen_rdma(struct listener *l, char *error, size_t size)
{
        struct rdma_call call = { .listener = l };

        if (!open_everywhere(l, error, size))
                return false;
        l->rdma.port = l->port;
        l->rdma.request = on_request;
        reactor_call(l->all->reactors, call_listen, &call);
        if (call.error)
                return complain(l->port, why_not(call.error), error, size);
        snprintf(l->port->trsvcid, sizeof(l->port->trsvcid), "%u",
                 verbs_listener_port(l->rdma.verbs));
        return true;
}

static bool listen_on(struct listeners *all, struct port *port, char *error, size_t size)
{
        struct listener *l = calloc(1, sizeof(*l));

        if (!l) {
                snprintf(error, size, "%s", strerror(ENOMEM));
                return false;
        }
        l->all = all;
        l->port = port;
        if (!(is_rdma(l) ? listen_rdma(l, error, size) : listen_tcp(l, error, size))) {
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

        if (is_rdma(l))
                l->rdma.accepting = true;
        else
                loop_add(&r->loop, &l->tcp.source, EPOLLIN);
}

static void end_accepting(struct reactor *r, void *arg)
{
        struct listener *l = arg;

        if (is_rdma(l))
                rdma_port_unlisten(&l->rdma);
        else if (l->tcp.source.events || l->pause.source) {
                reactor_resume(r, &l->pause);
                loop_remove(&r->loop, &l->tcp.source);
        }
}

static void close_listener(struct listener *l)
{
        reactor_call(l->all->reactors, end_accepting, l);
        if (!is_rdma(l))
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

bool listen_on_new(struct listeners *all, const struct plan *p, char *error, size_t size)
{
        struct listener *before = all->first;

        for (unsigned i = 0; i < p->n_new_ports; i++)
                if (!listen_on(all, p->new_ports[i], error, size)) {
                        close_until(all, before);
                        return false;
                }
        return true;
}

void listen_accept_new(struct listeners *all, const struct plan *p)
{
        struct listener *l = all->first;

        for (unsigned i = 0; i < p->n_new_ports; i++, l = l->next)
                reactor_call(all->reactors, begin_accepting, l);
}

static bool is_old(const struct plan *p, const struct port *port)
{
        for (unsigned i = 0; i < p->n_old_ports; i++)
                if (p->old_ports[i] == port)
                        return true;
        return false;
}

void listen_drop_old(struct listeners *all, const struct plan *p)
{
        struct listener **at = &all->first, *l;

        while ((l = *at) != NULL) {
                if (p && !is_old(p, l->port)) {
                        at = &l->next;
                        continue;
                }
                *at = l->next;
                close_listener(l);
        }
}
