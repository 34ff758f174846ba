/* SPDX-License-Identifier: BSD-3-Clause */
/* A host says a byte, the target says the same one. */
#include "toy.h"

#include <stdlib.h>
#include <string.h>

#include "conformance/engine/family.h"
#include "conformance/engine/test_case.h"
#include "fuzz/campaign/command.h"
#include "fuzz/remote/schedule.h"
#include "host/engine/command.h"
#include "pcap/trace/tracer.h"
#include "pcap/trace/words.h"
#include "pdu/io/stream.h"
#include "target/engine/command.h"
#include "target/engine/conn.h"
#include "target/engine/engine.h"
#include "target/engine/family.h"

#define OUTER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

enum { TOY_SAME = 1, TOY_FORBIDDEN, TOY_RULES };
enum { FORBIDDEN = 0xff, PIECE = 256, MS = 5000 };

static const struct rule rows[TOY_RULES] = {
        [TOY_SAME] = { .id = "toy/answer/same",
                       .bound = PARTY_CONTROLLER,
                       .basis = BASIS_PRINTED,
                       .source = "Toy 1",
                       .says = "An answer is the byte that was asked.",
                       .violators = 1 },
        [TOY_FORBIDDEN] = { .id = "toy/question/forbidden",
                            .bound = PARTY_HOST,
                            .basis = BASIS_PRINTED,
                            .source = "Toy 2",
                            .says = "FFh is not asked.",
                            .reaction = REACT_CLOSE,
                            .reacts = BASIS_PRINTED,
                            .violators = 1 },
};
static const char *const violators[] = { "the peer", NULL }, *const transports[] = { "toy", NULL };
static const struct topic topics[] = { { "toy/answer", "Answers" },
                                       { "toy/question", "Questions" },
                                       { 0 } };
static const struct rulebook rules = {
        .name = "toy", .rows = rows, .count = TOY_RULES, .violators = violators
};
static const struct family family = {
        .name = "Toy", .rules = &rules, .topics = topics, .transports = transports
};

/* --- target ------------------------------------------------------------------------------------ */

struct port {
        char traddr[64], trsvcid[LISTEN_SERVICE];
};
struct server {
        struct service service; /* first */
        struct engine engine;
        struct port port, *ports[1];
        struct rule_policy policy;
};
struct toy_conn {
        struct conn base; /* first */
        struct stream stream;
};

static void end(struct conn *c, bool at_once)
{
        (void)at_once;
        stream_close(&((struct toy_conn *)c)->stream, false);
        conn_leave(c);
        free(c);
}

/* What was read goes back; a host that does not take it is no longer served. */
static void serve(struct conn *c)
{
        const struct server *s = (const struct server *)(void *)c->reactor->service;
        struct stream *stream = &((struct toy_conn *)c)->stream;
        uint8_t bytes[PIECE];
        struct iovec iov = { bytes, sizeof(bytes) };
        ssize_t n = stream_read(stream, &iov, 1);

        for (ssize_t i = 0; i < n; i++) {
                if (bytes[i] == FORBIDDEN && !rule_in(&s->policy.waived, TOY_FORBIDDEN))
                        n = -1;
                bytes[i] ^= rule_in(&s->policy.violated, TOY_SAME);
        }
        iov.iov_len = n > 0 ? (size_t)n : 0;
        if (n < 0 || (n > 0 && stream_write(stream, &iov, 1) < n))
                end(c, true);
        else
                stream_watch(stream, &c->reactor->loop, EPOLLIN);
}

static void on_question(struct stream *s, uint32_t events)
{
        (void)events;
        serve(&OUTER(s, struct toy_conn, stream)->base);
}

static void accepted(struct reactor *r, struct port *port, struct stream *stream,
                     const struct conn_peer *peer)
{
        static const struct conn_kind kind = { .go_on = serve, .drain = end };
        struct toy_conn *c = calloc(1, sizeof(*c));

        c->stream = *stream;
        c->stream.ready = on_question;
        conn_enter(&c->base, &kind, r, port, peer, &r->pool);
        stream_record(&c->stream, r->service->record, PARTY_CONTROLLER);
        stream_watch(&c->stream, &r->loop, EPOLLIN);
}

static struct listen_place place(struct port *p)
{
        return (struct listen_place) { false, p->traddr, p->trsvcid };
}

static void stop(void *started)
{
        struct server *s = started;

        engine_close(&s->engine);
        engine_drain(&s->engine);
        engine_fini(&s->engine);
        quota_fini(&s->service.of_address);
        free(s);
}

static struct server *serve_at(const char *traddr, const char *trsvcid,
                               const struct rule_policy *policy, struct capture_writer *record,
                               char *error, size_t size)
{
        struct server *s = calloc(1, sizeof(*s));

        s->service = (struct service) { .family = &toy_target,
                                        .record = record,
                                        .limits = { .connections = 64, .host_connections = 64 } };
        quota_init(&s->service.of_address);
        s->policy = *policy;
        s->ports[0] = &s->port;
        snprintf(s->port.traddr, sizeof(s->port.traddr), "%s", traddr);
        snprintf(s->port.trsvcid, sizeof(s->port.trsvcid), "%s", trsvcid);
        if (engine_start(&s->engine, &s->service, 1, 1 << 20, NULL, error, size) &&
            listen_on(&s->engine.listeners, s->ports, 1, error, size)) {
                listen_accept(&s->engine.listeners, 1);
                return s;
        }
        stop(s);
        return NULL;
}

static void *start(void *args, struct capture_writer *record, char *error, size_t size)
{
        const struct target_args *a = args;

        return serve_at(a->traddr ? a->traddr : "127.0.0.1", a->trsvcid ? a->trsvcid : "4420",
                        &(struct rule_policy) { 0 }, record, error, size);
}

static void where(void *started, const void *args, char *text, size_t size)
{
        const struct server *s = started;

        (void)args;
        snprintf(text, size, "%s:%s", s->port.traddr, s->port.trsvcid);
}

static const struct target_command command = { .args_size = sizeof(struct target_args),
                                               .intro = "Says what it hears.\n",
                                               .start = start,
                                               .describe = where,
                                               .stop = stop };
const struct target_family toy_target = {
        .family = &family, .place = place, .start_stream = accepted, .command = &command
};

/* --- host -------------------------------------------------------------------------------------- */

struct client {
        struct stream s;
        struct load_io *io[PIECE]; /* by the byte that was asked */
};

static bool ask(struct stream *s, uint8_t byte)
{
        const struct iovec iov = { &byte, 1 };

        return stream_write(s, &iov, 1) == 1;
}

/* 1: an answer; 0: not yet; -1: the end. */
static int hear(struct stream *s, uint8_t *byte)
{
        const struct iovec iov = { byte, 1 };

        return (int)stream_read(s, &iov, 1);
}

static int submit(struct load *l, unsigned queue, struct load_io *io)
{
        struct client *c = l->host;
        uint8_t byte = 1;

        (void)queue;
        while (c->io[byte] && byte < FORBIDDEN)
                byte++;
        c->io[byte] = io;
        return ask(&c->s, byte) ? 0 : -1;
}

static long receive(struct load *l, unsigned queue)
{
        struct client *c = l->host;
        uint8_t byte;
        int n = hear(&c->s, &byte);
        struct load_io *io = n > 0 ? c->io[byte] : NULL;

        (void)queue;
        if (io) {
                c->io[byte] = NULL;
                io->done(io, io->user);
        }
        return n;
}

static int fds(struct load *l, unsigned queue, struct pollfd *to)
{
        (void)queue;
        return stream_pollfd(&((struct client *)l->host)->s, EPOLLIN, to) ? 1 : -1;
}

struct toy_args {
        struct host_args base; /* first */
        const char *traddr, *trsvcid;
};

static int perf(const struct host_subcommand *s, void *args, int count, char **words,
                struct host_error *e)
{
        static const struct load_ops ops = {
                .io_bytes = sizeof(struct load_io), .submit = submit, .receive = receive, .fds = fds
        };
        const struct toy_args *a = args;
        struct client c = { 0 };
        struct load l = { .ops = &ops,
                          .host = &c,
                          .queues = 1,
                          .depth = FORBIDDEN - 1,
                          .block_size = 512,
                          .blocks = 1 << 10,
                          .max_blocks = 1,
                          .timeout = MS };
        int rc;

        (void)s, (void)count, (void)words;
        e->kind = HOST_BROKEN;
        if (stream_connect(&c.s, a->traddr, a->trsvcid, MS, e->line, sizeof(e->line)) < 0)
                return -1;
        rc = host_perf(&l, args, e);
        stream_close(&c.s, false);
        return rc;
}

static const struct host_subcommand *subcommand(unsigned i)
{
        static const struct host_subcommand only = {
                "perf", "", "measure", HOST_WHERE | HOST_OUTPUT | HOST_LOAD | HOST_PERF
        };

        return i == 0 ? &only : NULL;
}

#define ARG(letter, name, member)                                                                  \
        {                                                                                          \
                letter, name, "X", "where", OPTION_STRING, HOST_WHERE,                             \
                    offsetof(struct toy_args, member), 0, 0, NULL, NULL                            \
        }
static const struct option_row rows_of_host[] = { ARG('a', "traddr", traddr),
                                                  ARG('s', "trsvcid", trsvcid),
                                                  { 0 } };
const struct host_family toy_host = { .family = &family,
                                      .subcommand = subcommand,
                                      .address = "",
                                      .options = rows_of_host,
                                      .args_size = sizeof(struct toy_args),
                                      .run = perf };

/* --- cases ------------------------------------------------------------------------------------- */

#define CASE_FAMILY toy_conform

/* What comes of a byte: hear(). */
static int answer(struct t *t, uint8_t byte, uint8_t *back)
{
        struct stream s = { 0 };
        char error[NET_ERROR];
        int n;

        if (stream_connect(&s, t->suite->traddr, t->suite->trsvcid, MS, error, sizeof(error)) < 0)
                broke(t, "%s", error);
        n = ask(&s, byte) && stream_wait(&s, EPOLLIN, MS) > 0 ? hear(&s, back) : 0;
        stream_close(&s, false);
        return n;
}

CASE("toy/answer/same", MUST, RULES(TOY_SAME), "A byte comes back as it was")
{
        uint8_t back = 0;

        want(t, answer(t, 7, &back) == 1, "an answer", "none");
        want_eq(t, "byte", back, 7);
}

CASE("toy/question/forbidden", MUST, RULES(TOY_FORBIDDEN), "FFh ends the connection")
{
        uint8_t back;

        want(t, answer(t, FORBIDDEN, &back) < 0, "the end of the connection", "none");
}

static void *embed(const struct options *o, const struct rule_policy *policy, struct suite *s,
                   char *error, size_t size)
{
        struct server *own = serve_at("127.0.0.1", "0", policy, NULL, error, size);

        (void)o;
        if (own && s->embedded) {
                s->traddr = own->port.traddr;
                s->trsvcid = own->port.trsvcid;
        }
        return own;
}

static bool probe(struct suite *s, struct probed *p, char *error, size_t size)
{
        (void)s, (void)error, (void)size;
        p->count = 0;
        return true;
}

const struct conform_family toy_conform = { .family = &family,
                                            .args_size = sizeof(struct options),
                                            .start = embed,
                                            .stop = stop,
                                            .probe = probe };

/* --- captures ---------------------------------------------------------------------------------- */

struct trace_pdu {
        uint8_t byte;
};
struct trace_flow {
        struct trace_conn conn;
        bool asked[PIECE]; /* by the byte */
};
struct tracker {
        struct trace_reading how;
};

static enum trace_guess begins(const uint8_t *p, size_t n)
{
        return n > 0 && p[0] > 0 && p[0] < ' ' ? TRACE_YES : TRACE_NO;
}

static struct trace_flow *flow_open(struct tracer *t, const struct capture_conn *c, bool begun)
{
        struct trace_flow *f = calloc(1, sizeof(*f));

        f->conn = (struct trace_conn) { .end = { c->end[0], c->end[1] },
                                        .midstream = !begun,
                                        .whole_until = { UINT64_MAX, UINT64_MAX } };
        trace_open(t, &f->conn);
        return f;
}

static void flow_data(struct tracer *t, struct trace_flow *f, enum party sender, const uint8_t *p,
                      size_t n)
{
        for (; n > 0; n--, p++) {
                struct trace_event e = trace_event_of(t, &f->conn, TRACE_PDU, sender);

                e.pdu = &(struct trace_pdu) { *p };
                trace_emit(t, &e);
        }
}

static void flow_gap(struct tracer *t, struct trace_flow *f, enum party sender, uint32_t n)
{
        trace_gap(t, &f->conn, sender, (struct trace_gap) { .bytes = n });
}

static void flow_close(struct tracer *t, struct trace_flow *f)
{
        trace_emit_kind(t, &f->conn, TRACE_CLOSED, PARTY_HOST);
        free(f);
}

static void *track(const struct trace_reading *how)
{
        struct tracker *t = calloc(1, sizeof(*t));

        t->how = *how;
        return t;
}

static void judge(void *tracker, const struct trace_event *e)
{
        const struct tracker *t = tracker;
        struct trace_flow *f = OUTER(e->conn, struct trace_flow, conn);
        struct rule_set broken = { 0 };
        struct trace_record v = { .e = e, .record = e };

        if (e->kind == TRACE_PDU && e->sender == PARTY_HOST)
                f->asked[e->pdu->byte] = true;
        else if (e->kind == TRACE_PDU && !f->asked[e->pdu->byte])
                rule_add(&broken, TOY_SAME);
        v.broken = rule_set_empty(&broken) ? NULL : &broken;
        t->how.record(t->how.user, &v);
}

static bool tracked(void *tracker)
{
        free(tracker);
        return true;
}

static void words(struct text *t, const void *record)
{
        const struct trace_event *e = record;

        if (!words_event(t, e, NULL))
                text_add(t, "%02xh", e->pdu->byte);
}

static const struct trace_stream stream_of = {
        .begins = begins, .open = flow_open, .data = flow_data, .gap = flow_gap, .close = flow_close
};
const struct trace_family toy_capture = { .family = &family,
                                          .name = "Toy",
                                          .stream = &stream_of,
                                          .open = track,
                                          .event = judge,
                                          .close = tracked,
                                          .words = words };

/* --- fuzzing ----------------------------------------------------------------------------------- */

struct toy_remote {
        struct remote_conn base; /* first */
        struct stream s;
};
struct toy_session {
        struct remote_session base; /* first */
        struct toy_remote conn[SEQ_QUEUES];
};

static struct remote_session *session_new(void)
{
        struct toy_session *s = calloc(1, sizeof(*s));

        for (unsigned i = 0; i < SEQ_QUEUES; i++)
                s->base.conn[i] = &s->conn[i].base;
        return &s->base;
}

static void session_free(struct remote_session *s)
{
        free(s);
}

static struct stream *wire(struct remote_conn *c)
{
        return &((struct toy_remote *)c)->s;
}

static void on_answer(struct stream *s, uint32_t events)
{
        struct remote_conn *c = &OUTER(s, struct toy_remote, s)->base;
        uint8_t byte;
        int n;

        (void)events;
        while ((n = hear(s, &byte)) > 0)
                conn_received_word(c, byte);
        if (n < 0)
                conn_ended(c, s->end == STREAM_RST);
        remote_go(c->session);
}

static bool connect_now(struct stream *s, const struct remote_target *to, char *why)
{
        const struct fuzz_args *a = to->peer;

        return stream_connect(s, a->traddr, a->trsvcid, to->timeout, why, ORACLE_LINE) == 0;
}

static bool remote_connect(struct remote_conn *c, const struct seq_step *step)
{
        char why[ORACLE_LINE];

        (void)step;
        *wire(c) = (struct stream) { .ready = on_answer };
        if (connect_now(wire(c), c->session->target, why)) {
                wire(c)->ready = on_answer;
                stream_watch(wire(c), c->session->loop, EPOLLIN);
                conn_live(c);
        } else {
                conn_refuse(c, "%s", why);
        }
        return true;
}

static bool remote_say(struct remote_conn *c, const struct seq_step *step)
{
        uint8_t byte = 1;

        if (step->kind == SEQ_PDU)
                seq_apply(step, &byte);
        remote_acted(c->session);
        return ask(wire(c), byte);
}

static void half_close(struct remote_conn *c)
{
        stream_half_close(wire(c));
}

static void close_it(struct remote_conn *c, bool reset)
{
        stream_close(wire(c), reset);
}

static bool alive(const struct remote_target *target, char *why)
{
        struct stream s = { 0 };
        uint8_t byte = 0;
        bool up = connect_now(&s, target, why) && ask(&s, 1) && stream_wait(&s, EPOLLIN, MS) > 0 &&
                  hear(&s, &byte) == 1;

        stream_close(&s, false);
        return up;
}

static const struct seq_template *template_at(unsigned transport, enum party side, unsigned n)
{
        static const struct seq_template question = { .name = "question" };

        (void)transport;
        return side == PARTY_HOST && n == 0 ? &question : NULL;
}

static void fields(unsigned transport, const struct seq_template *t,
                   const struct field *table[FUZZ_FIELD_TABLES])
{
        static const struct field own[] = { FIELD_AT("byte", 0, 1), { 0 } };

        (void)transport, (void)t;
        table[0] = own;
}

static bool to_peer(void *args, char *error, size_t size)
{
        struct fuzz_args *a = args;

        (void)error, (void)size;
        a->config.target.peer = a;
        return true;
}

static const struct remote_transport over_tcp = { .new = session_new,
                                                  .free = session_free,
                                                  .open = remote_connect,
                                                  .send = remote_say,
                                                  .half_close = half_close,
                                                  .close = close_it };
static const char *const seeds[] = { "sequence toy host\nquestion byte=3\nquestion\n", NULL };
static const struct fuzz_transport over[] = { { .seeds = seeds, .remote = &over_tcp } };
static const struct fuzz_command fuzz_line = { .args_size = sizeof(struct fuzz_args),
                                               .complete = to_peer };
const struct fuzz_family toy_fuzz = { .family = &family,
                                      .transports = over,
                                      .template = template_at,
                                      .fields = fields,
                                      .alive = alive,
                                      .command = &fuzz_line };
