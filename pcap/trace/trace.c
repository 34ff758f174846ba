/* SPDX-License-Identifier: BSD-3-Clause */
#include "tracer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *trace_transport_name(enum trace_transport t)
{
        static const char *const names[] = { "tcp", "roce", "iwarp" };

        return names[t];
}

/* --- events ----------------------------------------------------------------------------------- */

void trace_emit(struct tracer *t, const struct trace_event *e)
{
        t->fn(t->user, e);
}

void trace_tell(struct tracer *t, struct trace_conn *c, enum trace_kind kind, enum party sender)
{
        struct trace_event e = trace_event_of(t, c, kind, sender);

        trace_emit(t, &e);
}

void trace_gap(struct tracer *t, struct trace_conn *c, enum party sender, struct trace_gap gap)
{
        struct trace_event e = trace_event_of(t, c, TRACE_GAP, sender);

        e.gap = gap;
        t->totals.gaps++;
        trace_emit(t, &e);
}

void trace_open(struct tracer *t, struct trace_conn *c)
{
        c->number = (unsigned)++t->totals.conns;
        trace_tell(t, c, TRACE_OPENED, PARTY_HOST);
}

bool trace_is_service(const struct tracer *t, uint16_t port)
{
        for (int i = 0; i < TRACE_PORTS && t->options.ports[i]; i++)
                if (t->options.ports[i] == port)
                        return true;
        return false;
}

/* --- growing buffers -------------------------------------------------------------------------- */

bool bytes_reserve(struct bytes *b, size_t n)
{
        size_t cap = b->cap ? b->cap : 4096;
        uint8_t *p;

        if (b->cap - b->n >= n)
                return true;
        while (cap - b->n < n)
                cap *= 2;
        p = realloc(b->p, cap);
        if (!p)
                return false;
        b->p = p;
        b->cap = cap;
        return true;
}

bool bytes_add(struct bytes *b, const void *p, size_t n)
{
        if (n == 0)
                return true;
        if (!bytes_reserve(b, n))
                return false;
        if (p)
                memcpy(b->p + b->n, p, n);
        else
                memset(b->p + b->n, 0, n);
        b->n += n;
        return true;
}

void bytes_free(struct bytes *b)
{
        free(b->p);
        *b = (struct bytes) { 0 };
}

/* --- TCP connections: which protocol? --------------------------------------------------------- */

enum { HEAD = 32 }; /* bytes that tell all protocols apart */

enum protocol { PROTOCOL_UNKNOWN, PROTOCOL_NVME, PROTOCOL_IWARP, PROTOCOL_TLS, PROTOCOL_OTHER };

struct flow {
        enum protocol protocol;
        bool service, midstream;
        union {
                struct tcp_flow *tcp;
                struct iwarp_flow *iwarp;
        };
        struct bytes head; /* of the host, while unknown */
};

static void on_opened(void *user, struct capture_conn *c, const struct capture_place *at)
{
        struct tracer *t = user;
        struct flow *f = calloc(1, sizeof(*f));

        t->at = *at;
        if (!f) {
                t->no_memory = true;
                return;
        }
        f->service = trace_is_service(t, c->end[PARTY_CONTROLLER].port);
        f->midstream = c->midstream;
        c->user = f;
}

/* A handshake record of TLS (RFC 8446 5.1): nothing behind it can be read. */
static bool is_tls(const uint8_t *p, size_t n)
{
        static const uint8_t handshake[2] = { 22, 3 };

        return memcmp(p, handshake, n < 2 ? n : 2) == 0;
}

/* As soon as the host's first bytes leave no doubt; PROTOCOL_UNKNOWN: more are needed. */
static enum protocol guess_from_start(const struct flow *f, const uint8_t *p, size_t n)
{
        if (tcp_is_icreq(p, n < HEAD ? n : HEAD))
                return n >= 8 ? PROTOCOL_NVME : PROTOCOL_UNKNOWN;
        if (iwarp_is_request(p, n))
                return n >= 16 ? PROTOCOL_IWARP : PROTOCOL_UNKNOWN;
        if (f->service && is_tls(p, n))
                return n >= 2 ? PROTOCOL_TLS : PROTOCOL_UNKNOWN;
        return f->service ? PROTOCOL_NVME : PROTOCOL_OTHER;
}

/* In the middle only segments that begin with something plausible tell; the ports have to agree. */
static enum protocol guess_midstream(const struct flow *f, enum party sender, const uint8_t *p,
                                     size_t n)
{
        if (sender == PARTY_HOST && n >= 8 && tcp_is_icreq(p, n))
                return PROTOCOL_NVME;
        if (sender == PARTY_HOST && n >= 16 && iwarp_is_request(p, n))
                return PROTOCOL_IWARP;
        if (!f->service)
                return PROTOCOL_OTHER;
        if (tcp_is_plausible(p, n, sender))
                return PROTOCOL_NVME;
        return iwarp_is_plausible(p, n) ? PROTOCOL_IWARP : PROTOCOL_UNKNOWN;
}

static void decide(struct tracer *t, struct flow *f, const struct capture_conn *c,
                   enum protocol protocol)
{
        bool begun = !f->midstream;

        f->protocol = protocol;
        if (protocol == PROTOCOL_NVME)
                f->tcp = tcp_flow_new(t, c, begun);
        else if (protocol == PROTOCOL_IWARP)
                f->iwarp = iwarp_flow_new(t, c, begun);
        else if (protocol == PROTOCOL_TLS)
                t->totals.tls++;
        else
                t->totals.other++;
        if ((protocol == PROTOCOL_NVME || protocol == PROTOCOL_IWARP) && !f->tcp) {
                t->no_memory = true;
                f->protocol = PROTOCOL_OTHER;
        }
}

static void hand_on(struct tracer *t, struct flow *f, enum party sender, const uint8_t *p, size_t n)
{
        if (f->protocol == PROTOCOL_NVME)
                tcp_flow_data(t, f->tcp, sender, p, n);
        else if (f->protocol == PROTOCOL_IWARP)
                iwarp_flow_data(t, f->iwarp, sender, p, n);
}

static void take_undecided(struct tracer *t, struct flow *f, const struct capture_conn *c,
                           enum party sender, const uint8_t *p, size_t n)
{
        enum protocol protocol;

        if (f->midstream) {
                protocol = guess_midstream(f, sender, p, n);
                if (protocol == PROTOCOL_UNKNOWN)
                        return;
                decide(t, f, c, protocol);
                hand_on(t, f, sender, p, n);
                return;
        }
        if (sender == PARTY_CONTROLLER) { /* speaks first: neither of them */
                decide(t, f, c, f->service ? PROTOCOL_NVME : PROTOCOL_OTHER);
                hand_on(t, f, sender, p, n);
                return;
        }
        if (!bytes_add(&f->head, p, n)) {
                t->no_memory = true;
                return;
        }
        protocol = guess_from_start(f, f->head.p, f->head.n);
        if (protocol == PROTOCOL_UNKNOWN)
                return;
        decide(t, f, c, protocol);
        hand_on(t, f, sender, f->head.p, f->head.n);
        bytes_free(&f->head);
}

static void on_data(void *user, struct capture_conn *c, enum party sender, const uint8_t *p,
                    size_t n, const struct capture_place *at)
{
        struct tracer *t = user;
        struct flow *f = c->user;

        t->at = *at;
        t->totals.bytes += n;
        if (!f || f->protocol == PROTOCOL_OTHER)
                return;
        if (f->protocol == PROTOCOL_UNKNOWN)
                take_undecided(t, f, c, sender, p, n);
        else
                hand_on(t, f, sender, p, n);
}

static void on_gap(void *user, struct capture_conn *c, enum party sender, uint32_t n,
                   const struct capture_place *at)
{
        struct tracer *t = user;
        struct flow *f = c->user;

        t->at = *at;
        if (!f)
                return;
        if (f->protocol == PROTOCOL_NVME)
                tcp_flow_gap(t, f->tcp, sender, n);
        else if (f->protocol == PROTOCOL_IWARP)
                iwarp_flow_gap(t, f->iwarp, sender, n);
        else if (f->protocol == PROTOCOL_UNKNOWN)
                f->midstream = true;
}

static void on_closed(void *user, struct capture_conn *c, const struct capture_place *at)
{
        struct tracer *t = user;
        struct flow *f = c->user;

        t->at = *at;
        if (!f)
                return;
        if (f->protocol == PROTOCOL_NVME)
                tcp_flow_free(t, f->tcp);
        else if (f->protocol == PROTOCOL_IWARP)
                iwarp_flow_free(t, f->iwarp);
        bytes_free(&f->head);
        free(f);
        c->user = NULL;
}

/* --- the file --------------------------------------------------------------------------------- */

static void on_datagram(void *user, const struct packet *p, const struct capture_place *at)
{
        struct tracer *t = user;

        t->at = *at;
        if (p->to.port != ROCE_PORT)
                return;
        t->totals.bytes += p->n;
        roce_packet(t, p);
}

static void on_skipped(void *user, bool fragment, const struct capture_place *at)
{
        struct tracer *t = user;

        (void)at;
        if (fragment)
                t->totals.fragments++;
        else
                t->totals.cut++;
}

static bool on_service(void *user, uint16_t port)
{
        return trace_is_service(user, port);
}

static void on_packet(void *user, const struct capture_place *at)
{
        struct tracer *t = user;

        if (at->frame > t->totals.frames)
                t->totals.frames = at->frame;
        t->totals.guessed_times += at->time_guessed;
}

int trace_read(const char *path, const struct trace_options *options, trace_fn *fn, void *user,
               struct trace_totals *totals, char *err, size_t err_size)
{
        static const struct capture_ops ops = {
                .opened = on_opened,
                .data = on_data,
                .gap = on_gap,
                .closed = on_closed,
                .datagram = on_datagram,
                .skipped = on_skipped,
                .service = on_service,
                .packet = on_packet,
        };
        struct tracer t = { .fn = fn, .user = user };
        int rc;

        if (options)
                t.options = *options;
        if (!t.options.ports[0]) {
                t.options.ports[0] = NVME_TCP_PORT;
                t.options.ports[1] = NVME_DISC_PORT;
        }
        rc = capture_read(path, &ops, &t, err, err_size);
        if (rc < 0 && t.totals.frames > 0) {
                size_t n = strlen(err);

                snprintf(err + n, err_size - n, ", behind frame %" PRIu64, t.totals.frames);
        }
        roce_end(&t);
        if (totals)
                *totals = t.totals;
        if (rc == 0 && t.no_memory) {
                snprintf(err, err_size, "%s: out of memory", path);
                rc = -1;
        }
        return rc;
}
