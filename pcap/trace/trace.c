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

const char *trace_kind_name(enum trace_kind kind)
{
        static const char *const names[] = {
                [TRACE_OPENED] = "opened",
                [TRACE_CLOSED] = "closed",
                [TRACE_GAP] = "gap",
                [TRACE_FOUND] = "found",
                [TRACE_HEADER] = "header",
                [TRACE_PDU] = "pdu",
                [TRACE_FAULT] = "fault",
                [TRACE_REQUEST] = "request",
                [TRACE_ACCEPT] = "accept",
                [TRACE_REJECT] = "reject",
                [TRACE_READY] = "ready",
                [TRACE_DISCONNECT] = "disconnect",
                [TRACE_DISCONNECTED] = "disconnected",
                [TRACE_TERMINATE] = "terminate",
                [TRACE_SECURED] = "secured",
                [TRACE_REFUSAL] = "refusal",
                [TRACE_CAPSULE] = "capsule",
                [TRACE_READ] = "rdma_read",
                [TRACE_READ_DATA] = "rdma_read_data",
                [TRACE_READ_END] = "rdma_read_end",
                [TRACE_WRITE_DATA] = "rdma_write_data",
                [TRACE_WRITE] = "rdma_write",
        };

        return names[kind];
}

/* --- events ----------------------------------------------------------------------------------- */

void trace_emit(struct tracer *t, const struct trace_event *e)
{
        if (e->conn->untold)
                trace_open(t, e->conn);
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
        c->untold = false;
        c->sealed = t->sealing;
        if (!c->family)
                c->family = t->opening ? t->opening : t->family;
        c->number = (unsigned)++t->totals.conns;
        t->totals.guests +=
            c->family != t->family && trace_is_service(t, c->end[peer_of(c->active)].port);
        trace_emit_kind(t, c, TRACE_OPENED, PARTY_HOST);
}

const struct trace_family *trace_claimed(const struct tracer *t, const uint8_t *data, uint32_t len)
{
        for (const struct trace_family *const *f = t->options.beside; f && *f; f++)
                if ((*f)->claims && (*f)->claims(data, len))
                        return *f;
        return NULL;
}

void trace_recognize(struct tracer *t, struct trace_conn *c, const uint8_t *data, uint32_t len)
{
        if (c->family) /* it has been told of already */
                return;
        c->family = trace_claimed(t, data, len);
        c->active = (c->family ? c->family : t->family)->active;
}

static bool has_port(const uint16_t ports[TRACE_PORTS], uint16_t port)
{
        for (int i = 0; i < TRACE_PORTS && ports[i]; i++)
                if (ports[i] == port)
                        return true;
        return false;
}

bool trace_is_service(const struct tracer *t, uint16_t port)
{
        return has_port(t->options.ports, port);
}

/* --- growing buffers -------------------------------------------------------------------------- */

/* Room for n more bytes; false: no memory. */
static bool bytes_reserve(struct bytes *b, size_t n)
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

bool bytes_add_within(struct bytes_limit *l, struct bytes *b, const void *p, size_t n)
{
        size_t before = b->cap;
        bool room = b->cap - b->n >= n || l->used + n <= l->most,
             added = room && bytes_add(b, p, n);

        l->used += b->cap - before;
        l->no_memory |= room && !added;
        return added;
}

void bytes_free_within(struct bytes_limit *l, struct bytes *b)
{
        l->used -= b->cap;
        bytes_free(b);
}

/* --- TCP connections: which protocol? --------------------------------------------------------- */

struct flow {
        const struct trace_stream *stream; /* NULL: not known yet, or not read */
        struct trace_flow *in;
        const struct trace_family *service; /* whose port it is; NULL: nobody's */
        bool midstream;
        bool missed[2];     /* by sender: something was before it was known what this is */
        bool other;         /* what it says is not read (further) */
        struct bytes head;  /* of the host, while unknown */
        void *tls;          /* NULL: without TLS */
        bool opened;        /* something inside was read */
        struct bytes hello; /* of TLS: until it is told of */
        struct capture_place hello_at;
        bool greeted; /* it has been, or will not be */
        bool sealed;  /* without secrets: but for the ClientHello nothing is read */
};

/* Who is asked whether a stream is theirs, in this order: the families, then iWARP, which is of whatever family its
 * connect request says. */
struct candidate {
        const struct trace_family *family;
        const struct trace_stream *stream; /* NULL: it has none */
        bool last;
};

static struct candidate candidate_of(const struct tracer *t, unsigned i)
{
        const struct trace_family *const *beside = t->options.beside;
        unsigned n = 0;

        if (i == 0)
                return (struct candidate) { .family = t->family, .stream = t->family->stream };
        while (beside && beside[n] && n + 1 < i)
                n++;
        if (beside && beside[n])
                return (struct candidate) { .family = beside[n], .stream = beside[n]->stream };
        return (struct candidate) { .stream = &iwarp_stream, .last = true };
}

static const struct trace_family *service_of(const struct tracer *t, uint16_t port)
{
        const struct trace_family *const *f = t->options.beside;

        if (trace_is_service(t, port))
                return t->family;
        while (f && *f && !has_port((*f)->ports, port))
                f++;
        return f ? *f : NULL;
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
        f->service = service_of(t, c->end[PARTY_CONTROLLER].port);
        f->midstream = c->midstream;
        c->user = f;
}

/* A handshake record of TLS (RFC 8446 5.1). */
static bool is_tls(const uint8_t *p, size_t n)
{
        static const uint8_t handshake[2] = { 22, 3 };

        return memcmp(p, handshake, n < 2 ? n : 2) == 0;
}

static void decide(struct tracer *t, struct flow *f, const struct capture_conn *c,
                   const struct trace_stream *stream, const struct trace_family *family)
{
        f->stream = stream;
        if (!stream) {
                f->other = true;
                t->totals.other++;
                return;
        }
        t->opening = family;
        f->in = stream->open(t, c, !f->midstream);
        t->opening = NULL;
        if (!f->in) {
                t->no_memory = true;
                f->stream = NULL;
                f->other = true;
        }
        for (enum party p = PARTY_HOST; f->stream && p <= PARTY_CONTROLLER; p++)
                if (f->missed[p])
                        stream->gap(t, f->in, p, 0);
}

static void decide_tls(struct tracer *t, struct flow *f)
{
        const struct trace_tls *tls = t->options.tls;

        t->totals.tls++;
        if (tls) {
                f->tls = tls->open(tls->keys);
                t->no_memory |= !f->tls;
        }
        f->sealed = !f->tls;
        f->other = f->sealed;
}

/* On a port of controllers what begins almost as the family's connections do is the family's, which
 * will say what is wrong; HTTP, AJP and others use these ports, too. */
static void decide_by_port(struct tracer *t, struct flow *f, const struct capture_conn *c,
                           enum party sender, const uint8_t *p, size_t n)
{
        const struct trace_stream *s = f->service ? f->service->stream : NULL;
        enum trace_guess guess = s && s->resembles ? s->resembles(p, n) : TRACE_YES;

        if (guess == TRACE_PERHAPS && sender == PARTY_HOST)
                return;
        t->totals.unlike += s && guess != TRACE_YES;
        decide(t, f, c, guess == TRACE_YES ? s : NULL, f->service);
}

/* As soon as somebody is sure of the host's first bytes. */
static void guess_from_start(struct tracer *t, struct flow *f, const struct capture_conn *c,
                             const uint8_t *p, size_t n)
{
        struct candidate who;
        bool perhaps = false;
        unsigned i = 0;

        do {
                enum trace_guess guess;

                who = candidate_of(t, i++);
                guess = who.stream ? who.stream->begins(p, n) : TRACE_NO;
                if (guess == TRACE_YES) {
                        decide(t, f, c, who.stream, who.family);
                        return;
                }
                perhaps |= guess == TRACE_PERHAPS;
        } while (!who.last);
        if (perhaps)
                return;
        if (!f->service || f->tls || !is_tls(p, n))
                decide_by_port(t, f, c, PARTY_HOST, p, n);
        else if (n >= 2)
                decide_tls(t, f);
}

/* In the middle only segments that begin with something plausible tell; the ports have to agree. */
static void guess_midstream(struct tracer *t, struct flow *f, const struct capture_conn *c,
                            enum party sender, const uint8_t *p, size_t n)
{
        struct candidate who;
        unsigned i = 0;

        do {
                const struct trace_stream *s;
                bool here;

                who = candidate_of(t, i++);
                s = who.stream;
                here = f->service && (who.last || f->service == who.family);
                if (s && ((sender == PARTY_HOST && s->begins(p, n) == TRACE_YES) ||
                          (here && s->plausible && s->plausible(p, n, sender)))) {
                        decide(t, f, c, s, who.family);
                        return;
                }
        } while (!who.last);
        if (!f->service)
                decide(t, f, c, NULL, NULL);
}

static void take_data(struct tracer *t, struct flow *f, const struct capture_conn *c,
                      enum party sender, const uint8_t *p, size_t n);

/* --- TLS -------------------------------------------------------------------------------------- */

enum { HELLO_MAX = 5 + 16384 };

/* Bytes of the first record; 0: it is not there as a whole. */
static size_t hello_len(const struct bytes *b)
{
        size_t len = b->n < 5 ? 0 : 5 + (size_t)be16_at(b->p + 3);

        return len <= b->n ? len : 0;
}

static void keep_hello(struct tracer *t, struct flow *f, enum party sender, const uint8_t *p,
                       size_t n)
{
        if (sender != PARTY_HOST || f->greeted || hello_len(&f->hello) || f->hello.n > HELLO_MAX)
                return;
        if (!bytes_add(&f->hello, p, n < HELLO_MAX ? n : HELLO_MAX))
                t->no_memory = true;
        f->hello_at = t->at;
}

/* On a connection that has been opened. */
static void tell_hello(struct tracer *t, struct flow *f)
{
        size_t len = hello_len(&f->hello);
        struct trace_event e;

        if (len && !f->greeted && f->stream && f->stream->conn) {
                e = trace_event_of(t, f->stream->conn(f->in), TRACE_SECURED, PARTY_HOST);
                e.at = e.first = f->hello_at;
                e.hello = (struct trace_hello) { f->hello.p, len };
                trace_emit(t, &e);
        }
        f->greeted = true;
        bytes_free(&f->hello);
}

/* Nothing more will be read of it: that there was TLS is told all the same. */
static void tell_sealed(struct tracer *t, struct flow *f, const struct capture_conn *c)
{
        const struct trace_stream *stream = t->family->stream;

        if (f->greeted || f->stream || !hello_len(&f->hello) || !stream || !stream->conn)
                return;
        t->sealing = true;
        f->in = stream->open(t, c, true);
        t->sealing = false;
        t->no_memory |= !f->in;
        if (!f->in)
                return;
        f->stream = stream;
        t->sealed++;
        tell_hello(t, f);
}

struct sealed {
        struct tracer *t;
        struct flow *f;
        const struct capture_conn *c;
};

static void on_plain(void *user, enum party sender, const uint8_t *p, size_t n)
{
        const struct sealed *s = user;

        s->t->totals.tls_read += !s->f->opened;
        s->f->opened = true;
        if (!s->f->other)
                take_data(s->t, s->f, s->c, sender, p, n);
}

/* From here on something of both sides is missing, nobody knows how much. */
static void leave_tls(struct tracer *t, struct flow *f, const struct capture_conn *c,
                      const char *why)
{
        const struct trace_tls *tls = t->options.tls;

        f->other = true;
        for (enum party p = PARTY_HOST; f->stream && p <= PARTY_CONTROLLER; p++)
                f->stream->gap(t, f->in, p, 0);
        tell_sealed(t, f, c);
        if (tls->unread)
                tls->unread(tls->user, c, &t->at, why);
}

static void take_tls(struct tracer *t, struct flow *f, const struct capture_conn *c,
                     enum party sender, const uint8_t *p, size_t n)
{
        struct sealed s = { t, f, c };
        const char *why;

        keep_hello(t, f, sender, p, n);
        why = t->options.tls->read(f->tls, sender, p, n, on_plain, &s);
        if (why && !f->other)
                leave_tls(t, f, c, why);
}

static void take_sealed(struct tracer *t, struct flow *f, const struct capture_conn *c,
                        enum party sender, const uint8_t *p, size_t n)
{
        keep_hello(t, f, sender, p, n);
        tell_sealed(t, f, c);
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* The first bytes inside TLS come after the ClientHello. */
static void give_data(struct tracer *t, struct flow *f, enum party sender, const uint8_t *p,
                      size_t n)
{
        if (f->tls && !f->greeted)
                tell_hello(t, f);
        f->stream->data(t, f->in, sender, p, n);
}

static void take_undecided(struct tracer *t, struct flow *f, const struct capture_conn *c,
                           enum party sender, const uint8_t *p, size_t n)
{
        const void *was_tls = f->tls;
        struct bytes head;

        if (f->midstream) {
                guess_midstream(t, f, c, sender, p, n);
        } else if (sender == PARTY_CONTROLLER) { /* speaks first: none of them */
                decide_by_port(t, f, c, sender, p, n);
        } else if (bytes_add(&f->head, p, n)) {
                guess_from_start(t, f, c, f->head.p, f->head.n);
                p = f->head.p;
                n = f->head.n;
        } else {
                t->no_memory = true;
        }
        if (!f->stream && !f->other && f->tls == was_tls)
                return;
        head = f->head; /* what is inside TLS has one of its own */
        f->head = (struct bytes) { 0 };
        if (f->stream && !f->midstream && sender == PARTY_CONTROLLER && head.n > 0)
                give_data(t, f, PARTY_HOST, head.p, head.n); /* interrupted */
        if (f->stream)
                give_data(t, f, sender, p, n);
        else if (f->sealed)
                take_sealed(t, f, c, sender, p, n);
        else if (!f->other)
                take_tls(t, f, c, sender, p, n);
        bytes_free(&head);
}

static void take_data(struct tracer *t, struct flow *f, const struct capture_conn *c,
                      enum party sender, const uint8_t *p, size_t n)
{
        if (f->stream)
                give_data(t, f, sender, p, n);
        else
                take_undecided(t, f, c, sender, p, n);
}

static void on_data(void *user, struct capture_conn *c, enum party sender, const uint8_t *p,
                    size_t n, const struct capture_place *at)
{
        struct tracer *t = user;
        struct flow *f = c->user;

        t->at = *at;
        t->totals.bytes += n;
        if (f && f->sealed && !f->greeted)
                take_sealed(t, f, c, sender, p, n);
        if (!f || f->other)
                return;
        if (f->tls)
                take_tls(t, f, c, sender, p, n);
        else
                take_data(t, f, c, sender, p, n);
}

static void on_gap(void *user, struct capture_conn *c, enum party sender, uint32_t n,
                   const struct capture_place *at)
{
        struct tracer *t = user;
        struct flow *f = c->user;

        t->at = *at;
        if (!f || f->other)
                return;
        if (f->tls)
                leave_tls(t, f, c, "bytes are missing in the capture");
        else if (f->stream)
                f->stream->gap(t, f->in, sender, n);
        else
                f->midstream = f->missed[sender] = true;
}

static void on_closed(void *user, struct capture_conn *c, const struct capture_place *at)
{
        struct tracer *t = user;
        struct flow *f = c->user;

        t->at = *at;
        if (!f)
                return;
        if (f->tls && !f->opened && !f->other)
                leave_tls(t, f, c, "it ends in its handshake");
        t->totals.unrecognized += f->service && f->midstream && !f->stream && !f->other && !f->tls;
        if (f->stream)
                f->stream->close(t, f->in);
        if (f->tls)
                t->options.tls->close(f->tls);
        bytes_free(&f->head);
        bytes_free(&f->hello);
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

static void on_skipped(void *user, enum capture_skip why, const struct capture_place *at)
{
        struct tracer *t = user;

        (void)at;
        t->totals.fragments += why == SKIP_FRAGMENT;
        t->totals.cut += why == SKIP_CUT;
        t->totals.unknown_link += why == SKIP_LINK;
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
        struct tracer t = {
                .family = family, .fn = fn, .user = user, .gathered = { .most = GATHERED_ALL }
        };
        int rc;

        if (options)
                t.options = *options;
        if (!t.options.ports[0])
                memcpy(t.options.ports, family->ports, sizeof(t.options.ports));
        rc = capture_read(path, &ops, &t, err, err_size);
        if (rc < 0 && t.totals.frames > t.totals.unknown_link) {
                size_t n = strlen(err);

                snprintf(err + n, err_size - n, ", after frame %" PRIu64, t.totals.frames);
        }
        roce_end(&t);
        bytes_free(&t.scratch);
        t.no_memory |= t.gathered.no_memory;
        t.totals.conns -= t.sealed;
        if (totals)
                *totals = t.totals;
        if (rc == 0 && t.no_memory) {
                snprintf(err, err_size, "%s: out of memory", path);
                rc = -1;
        }
        return rc;
}
