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

void trace_emit_kind(struct tracer *t, struct trace_conn *c, enum trace_kind kind,
                     enum party sender)
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
        trace_emit_kind(t, c, TRACE_OPENED, PARTY_HOST);
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

enum { STREAMS = 2 };

struct flow {
        const struct trace_stream *stream; /* NULL: not known yet, or not read */
        struct trace_flow *in;
        bool service, midstream;
        bool other;        /* what it says is not read */
        struct bytes head; /* of the host, while unknown */
};

/* In the order in which they are asked; NULL where the family has none. */
static const struct trace_stream *stream_of(const struct tracer *t, int i)
{
        return i == 0 ? t->family->stream : &iwarp_stream;
}

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

/* A handshake record of TLS (RFC 8446 5.1): nothing after it can be read. */
static bool is_tls(const uint8_t *p, size_t n)
{
        static const uint8_t handshake[2] = { 22, 3 };

        return memcmp(p, handshake, n < 2 ? n : 2) == 0;
}

/* On a port of controllers that speak first or begin otherwise it is the family's, which will say so. */
static void decide(struct tracer *t, struct flow *f, const struct capture_conn *c,
                   const struct trace_stream *stream)
{
        f->stream = stream;
        if (!stream) {
                f->other = true;
                t->totals.other++;
                return;
        }
        f->in = stream->open(t, c, !f->midstream);
        if (!f->in) {
                t->no_memory = true;
                f->stream = NULL;
                f->other = true;
        }
}

/* As soon as the host's first bytes leave no doubt. */
static void guess_from_start(struct tracer *t, struct flow *f, const struct capture_conn *c,
                             const uint8_t *p, size_t n)
{
        for (int i = 0; i < STREAMS; i++) {
                const struct trace_stream *s = stream_of(t, i);
                enum trace_guess guess = s ? s->begins(p, n) : TRACE_NO;

                if (guess == TRACE_YES)
                        decide(t, f, c, s);
                if (guess != TRACE_NO)
                        return;
        }
        if (!f->service || !is_tls(p, n)) {
                decide(t, f, c, f->service ? t->family->stream : NULL);
        } else if (n >= 2) {
                f->other = true;
                t->totals.tls++;
        }
}

/* In the middle only segments that begin with something plausible tell; the ports have to agree. */
static void guess_midstream(struct tracer *t, struct flow *f, const struct capture_conn *c,
                            enum party sender, const uint8_t *p, size_t n)
{
        for (int i = 0; i < STREAMS; i++) {
                const struct trace_stream *s = stream_of(t, i);

                if (s && ((sender == PARTY_HOST && s->begins(p, n) == TRACE_YES) ||
                          (f->service && s->plausible(p, n, sender)))) {
                        decide(t, f, c, s);
                        return;
                }
        }
        if (!f->service)
                decide(t, f, c, NULL);
}

static void take_undecided(struct tracer *t, struct flow *f, const struct capture_conn *c,
                           enum party sender, const uint8_t *p, size_t n)
{
        if (f->midstream) {
                guess_midstream(t, f, c, sender, p, n);
        } else if (sender == PARTY_CONTROLLER) { /* speaks first: none of them */
                decide(t, f, c, f->service ? t->family->stream : NULL);
        } else if (bytes_add(&f->head, p, n)) {
                guess_from_start(t, f, c, f->head.p, f->head.n);
                p = f->head.p;
                n = f->head.n;
        } else {
                t->no_memory = true;
        }
        if (!f->stream && !f->other)
                return;
        if (f->stream)
                f->stream->data(t, f->in, sender, p, n);
        bytes_free(&f->head);
}

static void on_data(void *user, struct capture_conn *c, enum party sender, const uint8_t *p,
                    size_t n, const struct capture_place *at)
{
        struct tracer *t = user;
        struct flow *f = c->user;

        t->at = *at;
        t->totals.bytes += n;
        if (!f || f->other)
                return;
        if (f->stream)
                f->stream->data(t, f->in, sender, p, n);
        else
                take_undecided(t, f, c, sender, p, n);
}

static void on_gap(void *user, struct capture_conn *c, enum party sender, uint32_t n,
                   const struct capture_place *at)
{
        struct tracer *t = user;
        struct flow *f = c->user;

        t->at = *at;
        if (!f)
                return;
        if (f->stream)
                f->stream->gap(t, f->in, sender, n);
        else if (!f->other)
                f->midstream = true;
}

static void on_closed(void *user, struct capture_conn *c, const struct capture_place *at)
{
        struct tracer *t = user;
        struct flow *f = c->user;

        t->at = *at;
        if (!f)
                return;
        if (f->stream)
                f->stream->close(t, f->in);
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

int trace_read(const char *path, const struct trace_family *family,
               const struct trace_options *options, trace_fn *fn, void *user,
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
        struct tracer t = { .family = family, .fn = fn, .user = user };
        int rc;

        if (options)
                t.options = *options;
        if (!t.options.ports[0])
                memcpy(t.options.ports, family->ports, sizeof(t.options.ports));
        rc = capture_read(path, &ops, &t, err, err_size);
        if (rc < 0 && t.totals.frames > 0) {
                size_t n = strlen(err);

                snprintf(err + n, err_size - n, ", after frame %" PRIu64, t.totals.frames);
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
