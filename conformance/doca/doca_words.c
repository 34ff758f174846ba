/* SPDX-License-Identifier: BSD-3-Clause */
#include "doca_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/doca/machine/control.h"
#include "pdu/doca/machine/frames.h"
#include "pdu/doca/machine/spoil.h"
#include "pdu/doca/wire/blob.h"
#include "pdu/io/loop.h"
#include "pdu/io/net.h"
#include "pdu/io/stream.h"
#include "pdu/io/verbs/rdma_wait.h"

enum {
        WAIT_MS = 5000,
        NAP_MS = 10,
        UNHEARD_MS = 500,
        READ_BYTES = 16 << 10,
        FRAME_BYTES = 1024,
        UNREAD_BYTES = 128 << 10,
        ANY_QPN = 0x4d5e6f,
        DEPTH = 4,
        IO_BYTES = 4096,
};

struct channel {
        struct channel *next;
        struct t *t;
        unsigned number;
        struct stream stream;
        struct doca_control control;
        struct doca_buffer in;
        size_t taken;
        uint32_t next_id, correlation;
};

struct world {
        struct channel *channels;
        struct doca_session session;
        struct doca_params params;
        bool has_session;
};

static struct world *world(const struct t *t)
{
        return t->world;
}

static const struct doca_dialect *dialect(const struct t *t)
{
        return peer_of_case(t)->dialect;
}

void doca_world_begin(struct t *t)
{
        t->world = calloc(1, sizeof(struct world));
        if (!t->world)
                broke(t, "out of memory");
}

void doca_world_end(struct t *t)
{
        struct world *w = t->world;

        if (!w)
                return;
        for (struct channel *c = w->channels, *next; c; c = next) {
                next = c->next;
                stream_close(&c->stream, false);
                doca_buffer_free(&c->in);
                free(c);
        }
        if (w->has_session)
                (void)doca_session_close(&w->session, true, NULL);
        free(w);
        t->world = NULL;
}

/* --- saying ------------------------------------------------------------------------------------- */

struct channel *connect_channel(struct t *t)
{
        struct channel *c = calloc(1, sizeof(*c));
        char error[NET_ERROR];

        if (!c)
                broke(t, "out of memory");
        c->t = t;
        c->number = ++t->connections;
        c->next_id = 1;
        c->correlation = 0x101;
        c->next = world(t)->channels;
        world(t)->channels = c;
        doca_control_init(&c->control, dialect(t), DOCA_UNSURE);
        if (stream_connect(&c->stream, t->suite->traddr, t->suite->trsvcid,
                           (unsigned)t_scaled(t, WAIT_MS), error, sizeof(error)) < 0)
                broke(t, "%s", error);
        exchange_event(&t->log, c->number, "connected");
        return c;
}

/* How a header reads: the dialect's number, from 1. */
static void show(struct channel *c, bool sent, const struct doca_msg *m, const void *frame,
                 size_t n)
{
        char line[EXCHANGE_LINE];
        struct text text = text_in(line, sizeof(line));

        doca_msg_line(&text, dialect(c->t), m);
        exchange_header(&c->t->log, c->number, sent, (uint8_t)(dialect(c->t)->version + 1), frame,
                        n, line);
}

void doca_words_fields(const struct exchange_line *l, char *buf, size_t size)
{
        const struct doca_dialect *d = doca_dialect((enum doca_version)(l->kind - 1));
        enum party sender = l->way == '>' ? PARTY_HOST : PARTY_CONTROLLER;
        struct text_lines lines = { .text = text_in(buf, size) };
        struct describe to = text_describer(&lines);
        uint64_t len = doca_frame_len(d, l->header, sizeof(l->header));
        struct rule_set unused = { 0 };
        struct doca_msg m;

        if (len < d->frame.header || len > sizeof(l->header))
                len = sizeof(l->header); /* of a longer one no more is kept */
        (void)doca_msg_read(d, l->header, (size_t)len, sender, &m, &unused);
        doca_msg_describe(&to, d, &m);
}

static void put(struct channel *c, const void *p, size_t n)
{
        struct stream_hand hand = { .deadline = t_deadline(c->t, WAIT_MS) };

        c->t->negative |= c->t->rule != DOCA_RULE_NONE;
        exchange_bytes(&c->t->log, c->number, true, p, n);
        if (stream_send(&c->stream, p, n, &hand) == 0)
                broke_if_over(c->t);
}

/* What they ask for is not known: responses are judged by themselves. */
void say_bytes(struct channel *c, const void *p, size_t n)
{
        doca_control_miss(&c->control);
        put(c, p, n);
}

/* How many bytes it has, with the ids that are next. */
static size_t build(struct channel *c, struct doca_msg *m, const struct rule_set *violated,
                    uint8_t frame[FRAME_BYTES])
{
        size_t n;

        m->message_id = c->next_id++;
        m->correlation_id = c->correlation++;
        (void)doca_spoil_msg(violated, dialect(c->t), m);
        n = doca_msg_write(dialect(c->t), m, frame, FRAME_BYTES - DOCA_SPOIL_ROOM);
        if (n == 0 || n > FRAME_BYTES - DOCA_SPOIL_ROOM)
                broke(c->t, "a message of %zu bytes", n);
        (void)doca_spoil_frame(violated, dialect(c->t), frame, &n);
        return n;
}

uint8_t *frame_of(struct channel *c, struct doca_msg m, size_t *n)
{
        uint8_t *frame = t_alloc(c->t, FRAME_BYTES);

        *n = build(c, &m, &(struct rule_set) { 0 }, frame);
        return frame;
}

static void say_spoilt(struct channel *c, struct doca_msg m, const struct rule_set *violated)
{
        struct rule_set own = { 0 };
        uint8_t frame[FRAME_BYTES];
        size_t n = build(c, &m, violated, frame);

        show(c, true, &m, frame, n);
        doca_control_says(&c->control, PARTY_HOST, &m, &own);
        put(c, frame, n);
}

void say_message(struct channel *c, struct doca_msg m)
{
        say_spoilt(c, m, &(struct rule_set) { 0 });
}

void say_broken(struct channel *c, struct doca_msg m, enum doca_rule rule)
{
        struct rule_set violated = { 0 };

        rule_add(&violated, rule);
        say_spoilt(c, m, &violated);
}

void use_ids(struct channel *c, uint32_t message, uint32_t correlation)
{
        c->next_id = message;
        c->correlation = correlation;
}

void say_no_more(struct channel *c)
{
        exchange_event(&c->t->log, c->number, "no more is sent");
        (void)stream_half_close(&c->stream);
}

void reset_channel(struct channel *c)
{
        exchange_event(&c->t->log, c->number, "reset");
        stream_close(&c->stream, true);
}

/* --- hearing ------------------------------------------------------------------------------------ */

/* Bytes come, or the end. False: nothing until the deadline. */
static bool hear(struct channel *c, uint64_t deadline)
{
        uint8_t bytes[READ_BYTES];
        const struct iovec iov = { bytes, sizeof(bytes) };
        ssize_t n;

        while ((n = stream_read(&c->stream, &iov, 1)) == 0) {
                if (loop_left(deadline) == 0)
                        return false;
                (void)stream_wait(&c->stream, EPOLLIN, loop_left(deadline));
        }
        if (n < 0) {
                exchange_event(&c->t->log, c->number, "closed by the target");
                return true;
        }
        exchange_bytes(&c->t->log, c->number, false, bytes, (size_t)n);
        if (!doca_buffer_add(&c->in, bytes, (size_t)n))
                broke(c->t, "out of memory");
        return true;
}

static void judge(struct channel *c, const struct rule_set *found, const char *line)
{
        rule_each_in (found, id)
                if (t_rule(c->t, id)->bound == PARTY_CONTROLLER)
                        t_notice(c->t, id, line);
        t_settle(c->t);
}

static struct doca_msg take(struct channel *c, size_t n)
{
        struct rule_set found = { 0 };
        char line[EXCHANGE_LINE];
        struct text text = text_in(line, sizeof(line));
        struct doca_msg m;

        c->taken = n;
        (void)doca_msg_read(dialect(c->t), c->in.p + c->in.at, n, PARTY_CONTROLLER, &m, &found);
        show(c, false, &m, c->in.p + c->in.at, n);
        doca_control_says(&c->control, PARTY_CONTROLLER, &m, &found);
        doca_msg_line(&text, dialect(c->t), &m);
        judge(c, &found, line);
        return m;
}

/* False: the channel has ended, or nothing comes until the deadline. */
static bool next(struct channel *c, uint64_t deadline, struct doca_msg *m)
{
        enum doca_frame frame;
        size_t n;

        doca_buffer_drop(&c->in, c->taken);
        c->taken = 0;
        while ((frame = doca_frame_next(dialect(c->t), &c->in, &n)) == DOCA_FRAME_MORE)
                if (c->stream.end != STREAM_OPEN || !hear(c, deadline))
                        return false;
        if (frame == DOCA_FRAME_BAD) {
                t_notice(c->t, DOCA_SIZE_T, "a frame whose size is none");
                t_settle(c->t);
                fail(c->t, "a message", "a frame whose size is none");
        }
        *m = take(c, n);
        return true;
}

static const char *absent(const struct channel *c)
{
        return c->stream.end == STREAM_OPEN ? "nothing" : "the end of the control channel";
}

struct doca_msg expect_response(struct channel *c)
{
        struct doca_msg m;

        if (next(c, t_deadline(c->t, WAIT_MS), &m))
                return m;
        broke_if_over(c->t);
        fail(c->t, "a response", "%s", absent(c));
}

static bool is_accepted(const struct rule *r, uint64_t code)
{
        for (unsigned i = 0; i < RULE_OUTCOMES && r->accept[i].code; i++)
                if (r->accept[i].code == code)
                        return true;
        return false;
}

static void judge_refusal(struct channel *c, const struct doca_msg *m)
{
        if (!doca_is_error(m))
                fail(c->t, "an error response", "%s", doca_msg_name(dialect(c->t), m));
        if (!is_accepted(t_rule(c->t, c->t->rule), m->result))
                lenient(c->t, "an error response with the usual code", "%s (%" PRIu64 ")",
                        doca_error_name(m->result), m->result);
}

void expect_refused(struct channel *c)
{
        struct doca_msg m = expect_response(c);

        judge_refusal(c, &m);
}

void expect_refused_or_gone(struct channel *c)
{
        struct doca_msg m;

        if (next(c, t_deadline(c->t, WAIT_MS), &m))
                judge_refusal(c, &m);
        else if (c->stream.end == STREAM_OPEN)
                fail(c->t, "an error response, or the end of the control channel", "nothing");
}

void expect_gone(struct channel *c)
{
        struct doca_msg m;

        if (next(c, t_deadline(c->t, WAIT_MS), &m))
                fail(c->t, "the end of the control channel", "%s",
                     doca_msg_name(dialect(c->t), &m));
        if (c->stream.end == STREAM_OPEN)
                fail(c->t, "the end of the control channel", "nothing");
}

void advise_gone(struct channel *c, const char *because)
{
        struct doca_msg m;

        while (next(c, t_deadline(c->t, WAIT_MS), &m))
                ;
        if (c->stream.end == STREAM_OPEN)
                advise(c->t, "the end of the control channel", "it stays, %s", because);
}

/* As much as is taken without a response being read; then there is time to answer as much of it as the network holds. */
static void say_all_unheard(struct channel *c, const void *requests, size_t n)
{
        const uint8_t *p = requests;
        size_t at = 0;

        stream_limit_unread(&c->stream, UNREAD_BYTES);
        c->t->negative = true;
        while (at < n) {
                const struct iovec iov = { (void *)(uintptr_t)(p + at), n - at };
                ssize_t m = stream_write(&c->stream, &iov, 1);

                if (m < 0 || (m == 0 && stream_wait(&c->stream, EPOLLOUT, UNHEARD_MS) <= 0))
                        break;
                at += (size_t)m;
        }
        exchange_event(&c->t->log, c->number, "%zu of %zu bytes of requests are taken", at, n);
        pause_ms(c->t, UNHEARD_MS);
}

/* Whole messages that lie in the buffer go; how many. */
static unsigned drop_whole(struct channel *c)
{
        unsigned whole = 0;
        size_t n;

        for (; doca_frame_next(dialect(c->t), &c->in, &n) == DOCA_FRAME_WHOLE; whole++)
                doca_buffer_drop(&c->in, n);
        return whole;
}

void want_whole_responses(struct channel *c, const void *requests, size_t n, unsigned ms)
{
        uint8_t bytes[READ_BYTES];
        const struct iovec iov = { bytes, sizeof(bytes) };
        uint64_t until;
        unsigned whole = 0;
        ssize_t m;

        say_all_unheard(c, requests, n);
        until = now_ms() + t_scaled(c->t, ms);
        while ((m = stream_read(&c->stream, &iov, 1)) >= 0 && loop_left(until) > 0) {
                if (m == 0) {
                        (void)stream_wait(&c->stream, EPOLLIN, loop_left(until));
                        continue;
                }
                if (!doca_buffer_add(&c->in, bytes, (size_t)m))
                        broke(c->t, "out of memory");
                whole += drop_whole(c);
                until = now_ms() + t_scaled(c->t, ms);
        }
        exchange_event(&c->t->log, c->number, "%u whole responses", whole);
        if (doca_buffer_len(&c->in) > 0)
                fail(c->t, "whole responses", "%u of them, and %zu bytes of one more", whole,
                     doca_buffer_len(&c->in));
        if (c->stream.end != STREAM_OPEN)
                advise(c->t, "a control channel that stays", "its end after %u responses", whole);
}

void want_others_served(struct t *t)
{
        ask_first(connect_channel(t));
}

void expect_no_more(struct channel *c, unsigned ms)
{
        struct doca_msg m;

        if (next(c, now_ms() + t_scaled(c->t, ms), &m))
                fail(c->t, "nothing more", "%s", doca_msg_name(dialect(c->t), &m));
}

/* --- exchanges ---------------------------------------------------------------------------------- */

struct doca_msg ask_for(struct channel *c, struct doca_msg m)
{
        const char *name = doca_msg_name(dialect(c->t), &m);
        struct doca_msg answer;

        say_message(c, m);
        answer = expect_response(c);
        if (doca_is_error(&answer))
                fail(c->t, "a response that is no error", "%s to %s",
                     doca_error_name(answer.result), name);
        return answer;
}

void query_storage(struct channel *c)
{
        if (doca_shape_of(dialect(c->t), DOCA_QUERY))
                (void)ask_for(c, (struct doca_msg) { .kind = DOCA_QUERY });
}

struct doca_msg init_request(struct channel *c, unsigned cores)
{
        const struct doca_memory m = {
                .base = 0x10000, .len = 1 << 20, .rkey = 0x1234, .access = 3
        };
        uint8_t *blob = t_alloc(c->t, DOCA_MEMORY_BLOB);

        doca_memory_write(&m, blob);
        return (struct doca_msg) { .kind = DOCA_INIT,
                                   .transactions = 4,
                                   .batch = 1,
                                   .buffer_size = 4096,
                                   .cores = dialect(c->t)->has_context ? cores : 0,
                                   .data = { blob, DOCA_MEMORY_BLOB } };
}

void init_storage(struct channel *c, unsigned cores)
{
        (void)ask_for(c, init_request(c, cores));
}

void initialise(struct channel *c, unsigned cores)
{
        query_storage(c);
        init_storage(c, cores);
}

struct doca_msg first_request(struct channel *c)
{
        return doca_shape_of(dialect(c->t), DOCA_QUERY) ? (struct doca_msg) { .kind = DOCA_QUERY }
                                                        : init_request(c, 1);
}

void ask_first(struct channel *c)
{
        (void)ask_for(c, first_request(c));
}

/* Nobody has this queue pair, which the target finds out with its first message. */
static void own_end(struct channel *c, uint8_t blob[DOCA_END_BLOB])
{
        struct stream_place own = stream_local(&c->stream);
        struct doca_end e = { .numbers = { .qpn = ANY_QPN, .psn = 1, .mtu = 1024 },
                              .reads_in = 1,
                              .reads_out = 1,
                              .rnr_retry = 7,
                              .retry = 1 };

        (void)net_gid(own.addr, e.numbers.gid);
        doca_end_write(&e, blob);
}

struct doca_msg connection_request(struct channel *c, uint64_t context, uint64_t role)
{
        uint8_t *blob = t_alloc(c->t, DOCA_END_BLOB);

        own_end(c, blob);
        return (struct doca_msg) { .kind = DOCA_CREATE,
                                   .context = context,
                                   .role = role,
                                   .data = { blob, DOCA_END_BLOB } };
}

struct doca_msg create_connection(struct channel *c, uint64_t context, uint64_t role)
{
        struct doca_msg answer;

        say_message(c, connection_request(c, context, role));
        answer = expect_response(c);
        require(c->t, !doca_is_error(&answer),
                "the target does not connect a verbs blob, version 1 (%s)",
                doca_error_name(answer.result));
        return answer;
}

/* --- the data path ------------------------------------------------------------------------------ */

uint64_t first_block(const struct t *t)
{
        return (uint64_t)(t->range < 0 ? 0 : t->range) * DOCA_RANGE_BYTES /
               world(t)->session.block_size;
}

unsigned doca_ranges(const struct suite *s)
{
        const struct doca_peer *p = s->peer;
        uint64_t n = p->total_size / DOCA_RANGE_BYTES;

        return n < 64 ? (unsigned)n : 64;
}

static struct doca_params params_of(const struct t *t, struct path path)
{
        const struct doca_peer *p = peer_of_case(t);
        struct doca_params params = { .traddr = t->suite->traddr,
                                      .trsvcid = t->suite->trsvcid,
                                      .device = p->device,
                                      .dialect = p->dialect,
                                      .by_cm = p->by_cm,
                                      .cores = path.cores ? path.cores : 1,
                                      .depth = path.depth ? path.depth : DEPTH,
                                      .io_bytes = path.io_bytes ? path.io_bytes : IO_BYTES,
                                      .storage = p->total_size ? p->total_size : DOCA_RANGE_BYTES,
                                      .timeout = (unsigned)t_scaled(t, WAIT_MS),
                                      .change = path.change,
                                      .verbs =
                                          t->suite->recorder ? t->suite->recorder : t->suite->verbs,
                                      .record = t->suite->record,
                                      .comment = t->test->id };

        if (path.broken != DOCA_RULE_NONE)
                rule_add(&params.policy.violated, path.broken);
        return params;
}

/* One at a time. */
struct doca_session *data_path(struct t *t, struct path path)
{
        struct world *w = world(t);
        const struct doca_peer *p = peer_of_case(t);
        struct host_error e = { 0 };

        require(t, !p->no_rdma[0], "%s", p->no_rdma);
        w->params = params_of(t, path);
        if (doca_session_open(&w->session, &w->params, &e) < 0)
                broke(t, "%s", e.line);
        w->has_session = true;
        t->connections++;
        exchange_event(&t->log, t->connections, "a session of %u contexts", w->params.cores);
        if (doca_session_start(&w->session, &e) < 0)
                skip(t, "no data path: %s", e.line);
        return &w->session;
}

static void settle_results(struct t *t, const struct doca_session *s, const char *line)
{
        rule_each_in (&s->found, id)
                t_notice(t, id, line);
        t_settle(t);
}

bool transfer(struct t *t, struct doca_session *s, unsigned context, bool write, uint64_t block,
              uint32_t blocks, void *data)
{
        struct host_error e = { 0 };
        bool ok = doca_transfer(s, context, write, block, blocks, data, &e) == 0;

        exchange_event(&t->log, t->connections, "%s of %u blocks: %s", write ? "write" : "read",
                       blocks, ok ? "success" : e.line);
        settle_results(t, s, ok ? "a result" : e.line);
        if (!ok && e.kind != HOST_STATUS)
                fail(t, "a result", "%s", e.line);
        return ok;
}

bool transfer_block(struct t *t, struct doca_session *s, bool write, void *data)
{
        return transfer(t, s, 0, write, first_block(t), 1, data);
}

static void count_one(struct load_io *io, void *user)
{
        if (io->outcome != LOAD_LOST)
                ++*(unsigned *)user;
}

void read_at_once(struct t *t, struct doca_session *s,
                  void (*meanwhile)(struct t *, struct doca_session *))
{
        struct load l = doca_load(s);
        unsigned done = 0, n = s->params->depth;
        struct load_io *ios = t_alloc(t, n * sizeof(*ios));
        uint64_t deadline = t_deadline(t, WAIT_MS);

        for (unsigned i = 0; i < n; i++) {
                ios[i] = (struct load_io) {
                        .block = first_block(t), .blocks = 1, .done = count_one, .user = &done
                };
                if (l.ops->submit(&l, 0, &ios[i]) < 0)
                        broke(t, "no place for request %u of %u", i + 1, n);
        }
        (void)l.ops->send(&l, 0);
        if (meanwhile)
                meanwhile(t, s);
        while (done < n && l.ops->receive(&l, 0) >= 0 && loop_left(deadline) > 0)
                if (done < n) {
                        s->slept = true;
                        rdma_group_sleep(&s->group, NAP_MS);
                }
        exchange_event(&t->log, t->connections, "%u of %u reads have a result", done, n);
        settle_results(t, s, "a result");
        broke_if_over(t);
        if (done < n)
                t_notice(t, DOCA_IO_ANSWERED, "a request without a result");
        t_settle(t);
        want(t, done == n, "a result of each request", "%u of %u", done, n);
}

void ask_session(struct t *t, struct doca_session *s, enum doca_kind kind)
{
        struct doca_msg m;
        struct host_error e = { 0 };

        if (doca_session_ask(s, (struct doca_msg) { .kind = kind }, &m, &e) < 0)
                fail(t, "a response that is no error", "%s", e.line);
}

void want_request_refused(struct t *t, struct doca_session *s, enum doca_kind kind)
{
        uint8_t *data = t_alloc(t, s->params->io_bytes);
        struct doca_msg m;
        struct host_error e = { 0 };

        t->negative = true;
        if (doca_session_ask(s, (struct doca_msg) { .kind = kind, .transactions = 1, .cores = 1 },
                             &m, &e) == 0)
                fail(t, "an error response", "%s", doca_msg_name(dialect(t), &m));
        want(t, e.kind == HOST_STATUS, "an error response", "%s", e.line);
        if (!transfer_block(t, s, false, data))
                harm(t, "a data path that works on", "%s", doca_error_name(refused_with(s)));
}

void abandon_session(struct t *t)
{
        struct world *w = world(t);

        w->has_session = false;
        exchange_event(&t->log, t->connections, "the session ends without a word");
        (void)doca_session_close(&w->session, false, NULL);
}

uint16_t refused_with(const struct doca_session *s)
{
        return (uint16_t)s->failed_result;
}

void stop_session(struct t *t, struct doca_session *s)
{
        struct host_error e = { 0 };

        world(t)->has_session = false;
        if (doca_session_close(s, true, &e) < 0)
                fail(t, "responses to stop_storage and shutdown", "%s", e.line);
}
