/* SPDX-License-Identifier: BSD-3-Clause */
#include "doca_conn.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/plant.h"
#include "pdu/io/log.h"

enum {
        READ_BYTES = 16 << 10, /* at once */
        UNSENT_MAX = 64 << 10, /* bytes of responses; beyond that no more requests are read */
        START_MS =
            5000, /* until all queue pairs are live: as long as the reference's service waits */
        STOP_MS = 10000, /* until all requests are done */
};

static struct doca_conn *of_stream(struct stream *s)
{
        return (struct doca_conn *)(void *)((char *)s - offsetof(struct doca_conn, stream));
}

/* --- what the user is told ---------------------------------------------------------------------- */

static void say(const struct doca_conn *c, enum log_level level, const char *kind, const char *fmt,
                va_list ap)
{
        char line[600];

        vsnprintf(line, sizeof(line), fmt, ap);
        log_line(level, kind, c->base.peer.addr, "conn %u (%s:%u): %s", c->base.number,
                 c->base.peer.addr, c->base.peer.port, line);
}

static void __attribute__((format(printf, 2, 3)))
trace(const struct doca_conn *c, const char *fmt, ...)
{
        va_list ap;

        if (!doca_shared_of_conn(c)->trace)
                return;
        va_start(ap, fmt);
        say(c, LOG_AS_TRACE, NULL, fmt, ap);
        va_end(ap);
}

void doca_conn_warn(const struct doca_conn *c, const char *kind, const char *fmt, ...)
{
        va_list ap;

        if (doca_shared_of_conn(c)->quiet)
                return;
        va_start(ap, fmt);
        say(c, LOG_AS_WARNING, kind, fmt, ap);
        va_end(ap);
}

/* Of its reactor, whoever they were for. */
static struct doca_polls polls_of(const struct doca_conn *c)
{
        const struct rdma *m = c->base.reactor->rdma;

        return m ? (struct doca_polls) { m->hits - c->before.hits, m->misses - c->before.misses }
                 : (struct doca_polls) { 0 };
}

static void say_stats(const struct doca_conn *c)
{
        struct doca_shared *s = doca_shared_of_conn(c);
        struct doca_polls polls = c->n_workers > 0 ? polls_of(c) : (struct doca_polls) { 0 };

        pthread_mutex_lock(&s->lock);
        s->polls.hits += polls.hits;
        s->polls.misses += polls.misses;
        for (unsigned i = 0; i < c->n_workers; i++) {
                const struct doca_stats *w = &c->workers[i].stats;

                s->total.reads += w->reads;
                s->total.writes += w->writes;
                s->total.failed += w->failed;
                s->total.bytes_read += w->bytes_read;
                s->total.bytes_written += w->bytes_written;
        }
        pthread_mutex_unlock(&s->lock);
        for (unsigned i = 0; i < c->n_workers && !s->quiet; i++) {
                const struct doca_stats *w = &c->workers[i].stats;

                log_line(LOG_AS_INFO, NULL, NULL,
                         "conn %u: context %u: %" PRIu64 " reads (%" PRIu64 " bytes), %" PRIu64
                         " writes (%" PRIu64 " bytes), %" PRIu64 " failed",
                         c->base.number, i, w->reads, w->bytes_read, w->writes, w->bytes_written,
                         w->failed);
        }
        if (c->n_workers > 0 && !s->quiet)
                log_line(LOG_AS_INFO, NULL, NULL,
                         "conn %u: polls: %" PRIu64 " hits, %" PRIu64 " misses", c->base.number,
                         polls.hits, polls.misses);
}

/* --- the workers -------------------------------------------------------------------------------- */

static void close_workers(struct doca_conn *c)
{
        for (unsigned i = 0; i < c->n_workers; i++)
                doca_worker_close(&c->workers[i]);
        doca_conn_again(c);
}

static bool each_worker(const struct doca_conn *c, bool (*is)(const struct doca_worker *w))
{
        for (unsigned i = 0; i < c->n_workers; i++)
                if (!is(&c->workers[i]))
                        return false;
        return true;
}

static bool is_idle(const struct doca_worker *w)
{
        return doca_worker_is_idle(w);
}

static bool any_lost(const struct doca_conn *c)
{
        for (unsigned i = 0; i < c->n_workers; i++)
                if (doca_worker_is_lost(&c->workers[i]))
                        return true;
        return false;
}

void doca_conn_leave_pool(struct doca_conn *c)
{
        struct conn *base = &c->base;

        conn_leave_hungry(base);
        pool_leave(base->pool, base->borrower.host);
        pool_leave(base->pool, base->borrower.place);
        base->borrower = (struct pool_borrower) { 0 };
        base->pool = &base->reactor->pool;
}

/* They are over. */
static void free_workers(struct doca_conn *c)
{
        say_stats(c);
        if (c->n_workers > 0)
                doca_conn_leave_pool(c);
        for (unsigned i = 0; i < c->n_workers; i++)
                doca_worker_dismantle(&c->workers[i]);
        free(c->workers);
        c->workers = NULL;
        c->n_workers = 0;
}

/* --- requests ----------------------------------------------------------------------------------- */

static void refused(void *user, const struct doca_msg *m, enum doca_rule rule, const char *why)
{
        const struct doca_conn *c = user;

        if (rule == DOCA_TYPE_S && PLANTED(DOCA_TYPE_ENDS))
                abort();
        doca_tell_broken(doca_shared_of_conn(c), rule);
        doca_conn_warn(c, "refused", "%s refused for %s: %s",
                       doca_msg_name(doca_shared_of_conn(c)->dialect, m), doca_rule_get(rule)->id,
                       why);
}

#define REFUSE(c, code, ...)                                                                       \
        do {                                                                                       \
                doca_conn_warn((c), "refused", __VA_ARGS__);                                       \
                doca_target_refuse(&(c)->machine, (code), __VA_ARGS__);                            \
        } while (0)

/* The answer with nothing in it, to the request in hand. */
static void answer(struct doca_conn *c)
{
        const struct doca_shape *s =
            doca_shape_of(c->machine.control.dialect, c->machine.request.kind);

        doca_target_answer(&c->machine, (struct doca_msg) { .kind = s->answer });
}

static void run_query(struct doca_conn *c, const struct doca_msg *m)
{
        const struct doca_shared *s = doca_shared_of_conn(c);

        (void)m;
        doca_target_answer(&c->machine, (struct doca_msg) { .kind = DOCA_QUERY_RSP,
                                                            .total_size = doca_total_size(s),
                                                            .block_size = doca_block_size(s) });
}

/* 2.10 does not say how many cores: as many as it asks connections for. */
static uint64_t cores_of(const struct doca_conn *c, const struct doca_msg *m)
{
        const struct doca_shared *s = doca_shared_of_conn(c);

        return s->dialect->has_context ? m->cores : s->cores;
}

static bool make_workers(struct doca_conn *c, uint64_t n)
{
        c->workers = calloc(n, sizeof(*c->workers));
        if (!c->workers && n > 0)
                return false;
        c->n_workers = (unsigned)n;
        c->before = (struct doca_polls) { 0 };
        c->before = polls_of(c);
        for (unsigned i = 0; i < n; i++)
                doca_worker_init(&c->workers[i], c, i);
        return true;
}

static void take_memory(struct doca_conn *c, const struct doca_msg *m)
{
        if (doca_memory_read(m->data, &c->memory))
                return;
        c->memory = (struct doca_memory) { 0 };
        doca_conn_warn(c, "foreign",
                       "the memory of its mmap export (%" PRIu32 " bytes) cannot be reached: it is "
                       "not a verbs blob, version 1; no request will move data",
                       m->data.len);
}

static bool overlooks(const struct doca_conn *c, enum doca_rule rule)
{
        return rule_in(&doca_shared_of_conn(c)->policy.waived, rule);
}

static void run_init(struct doca_conn *c, const struct doca_msg *m)
{
        const struct doca_shared *s = doca_shared_of_conn(c);
        uint64_t cores = cores_of(c, m);

        if (c->n_workers > 0)
                REFUSE(c, DOCA_ERROR_BAD_STATE, "the storage is initialised");
        else if (cores > s->cores)
                REFUSE(c, DOCA_ERROR_INVALID_VALUE,
                       "%" PRIu64 " cores are asked for, and there are %" PRIu64, cores, s->cores);
        else if (m->transactions > s->transactions ||
                 (m->transactions == 0 && !overlooks(c, DOCA_INIT_COUNTS)))
                REFUSE(c, DOCA_ERROR_INVALID_VALUE,
                       "%" PRIu64 " transactions are asked for, and a context has 1 to %" PRIu64,
                       m->transactions, s->transactions);
        else if (!make_workers(c, cores))
                REFUSE(c, DOCA_ERROR_NO_MEMORY, "out of memory");
        else {
                c->transactions = m->transactions ? m->transactions : 1;
                take_memory(c, m);
                answer(c);
        }
}

/* NULL: it was refused. */
static struct doca_worker *worker_of(struct doca_conn *c, const struct doca_msg *m,
                                     enum doca_role *role)
{
        uint64_t context = m->context;

        *role = (enum doca_role)(overlooks(c, DOCA_ROLE) ? m->role % DOCA_ROLES : m->role);
        if (c->n_workers > 0 && overlooks(c, DOCA_CONTEXT))
                context %= c->n_workers;
        if (context < c->n_workers + PLANTED(DOCA_CONTEXT_END) && *role < DOCA_ROLES)
                return &c->workers[context];
        REFUSE(c, DOCA_ERROR_INVALID_VALUE, "there is no context %" PRIu64 " with role %" PRIu64,
               m->context, m->role);
        return NULL;
}

static void run_create(struct doca_conn *c, const struct doca_msg *m)
{
        struct doca_msg rsp = { .kind = DOCA_CREATE_RSP, .context = m->context, .role = m->role };
        uint8_t blob[DOCA_END_BLOB];
        struct doca_end peer, own;
        enum doca_role role;
        struct doca_worker *w = worker_of(c, m, &role);
        const char *why;

        if (!w)
                return;
        if (!doca_end_read(m->data, &peer)) {
                REFUSE(c, DOCA_ERROR_NOT_SUPPORTED,
                       "cannot connect: the connection details (%" PRIu32
                       " bytes) are not a verbs blob, version 1",
                       m->data.len);
                return;
        }
        why = doca_worker_create(w, role, &peer, &own);
        if (why) {
                REFUSE(c, DOCA_ERROR_INITIALIZATION, "context %" PRIu64 ", %s: %s", m->context,
                       doca_role_name(role), why);
                return;
        }
        doca_end_write(&own, blob);
        rsp.data = (struct doca_bytes) { blob, sizeof(blob) };
        doca_target_answer(&c->machine, rsp);
}

static void await(struct doca_conn *c, const struct doca_msg *m)
{
        c->awaits = m->kind;
        c->since = reactor_now(c->base.reactor);
        if (m->kind == DOCA_SHUTDOWN)
                close_workers(c);
        doca_conn_again(c);
}

/* Of contexts that 2.10 did not ask for there is nothing. */
static void drop_unused(struct doca_conn *c)
{
        while (!doca_shared_of_conn(c)->dialect->has_context && c->n_workers > 1 &&
               !c->workers[c->n_workers - 1].ep[DOCA_IO_DATA].made &&
               !c->workers[c->n_workers - 1].ep[DOCA_IO_CONTROL].made)
                c->n_workers--;
}

static void run_start(struct doca_conn *c, const struct doca_msg *m)
{
        drop_unused(c);
        if (c->n_workers == 0 || any_lost(c))
                REFUSE(c, DOCA_ERROR_NOT_CONNECTED, "not all connections are there");
        else
                await(c, m);
}

/* Named, so that the table below has one for each request. */
static void (*const runs[DOCA_KINDS])(struct doca_conn *c, const struct doca_msg *m) = {
        [DOCA_QUERY] = run_query,   [DOCA_INIT] = run_init,   [DOCA_CREATE] = run_create,
        [DOCA_CONNECT] = run_start, [DOCA_START] = run_start, [DOCA_STOP] = await,
        [DOCA_SHUTDOWN] = await,
};

static void end(struct doca_conn *c, bool at_once);

/* A request that is not answered stays in hand. */
static void misbehave(struct doca_conn *c, const struct doca_msg *m, enum doca_fault how)
{
        if (how == DOCA_FAULT_REFUSE)
                REFUSE(c, DOCA_ERROR_BAD_STATE, "%s is refused, on purpose",
                       doca_msg_name(c->machine.control.dialect, m));
        else if (how == DOCA_FAULT_CLOSE)
                end(c, true);
}

static void run(void *user, const struct doca_msg *m)
{
        struct doca_conn *c = user;
        enum doca_fault how = doca_shared_of_conn(c)->faults.control[m->kind];

        c->heard = reactor_now(c->base.reactor);
        trace(c, "%s (%s)", doca_msg_name(c->machine.control.dialect, m),
              doca_control_stage(&c->machine.control));
        if (how != DOCA_FAULT_NONE)
                misbehave(c, m, how);
        else if (runs[m->kind])
                runs[m->kind](c, m);
        else
                trace(c, "type %" PRIu32 " is overlooked", m->type);
}

void doca_conn_stopped(struct doca_conn *c)
{
        trace(c, "stopped by an I/O message");
}

/* --- requests that wait for the workers --------------------------------------------------------- */

static bool is_late(const struct doca_conn *c, unsigned ms)
{
        return conn_is_older(&c->base, c->since, ms);
}

static void go_on_starting(struct doca_conn *c)
{
        if (each_worker(c, doca_worker_is_ready)) {
                c->awaits = DOCA_NOTHING;
                answer(c);
        } else if (any_lost(c) || is_late(c, START_MS)) {
                c->awaits = DOCA_NOTHING;
                REFUSE(c, DOCA_ERROR_INITIALIZATION, "the connections did not become ready");
        }
}

static void go_on_stopping(struct doca_conn *c)
{
        if (!each_worker(c, is_idle) && !is_late(c, STOP_MS))
                return;
        c->awaits = DOCA_NOTHING;
        if (each_worker(c, is_idle))
                answer(c);
        else
                REFUSE(c, DOCA_ERROR_BAD_STATE, "requests are still in hand after %d ms", STOP_MS);
}

static void go_on_shutting(struct doca_conn *c)
{
        if (!each_worker(c, doca_worker_is_over))
                return;
        c->awaits = DOCA_NOTHING;
        free_workers(c);
        answer(c);
        c->ending = true;
}

static void go_on_waiting(struct doca_conn *c)
{
        if (c->awaits == DOCA_START || c->awaits == DOCA_CONNECT)
                go_on_starting(c);
        else if (c->awaits == DOCA_STOP)
                go_on_stopping(c);
        else if (c->awaits == DOCA_SHUTDOWN)
                go_on_shutting(c);
}

/* --- the control channel ------------------------------------------------------------------------ */

static void dismantle(struct doca_conn *c)
{
        stream_close(&c->stream, false);
        doca_target_fini(&c->machine);
        conn_leave(&c->base);
        free(c);
}

/* Its workers end first, whatever they do. */
static void end(struct doca_conn *c, bool at_once)
{
        if (!c->ending)
                close_workers(c);
        c->ending = true;
        c->at_once |= at_once;
        c->awaits = DOCA_NOTHING;
        if (at_once)
                stream_close(&c->stream, false);
        doca_conn_again(c);
}

static void flush(struct doca_conn *c)
{
        struct doca_buffer *out = &c->machine.out;

        while (doca_buffer_len(out) > 0 && !c->at_once) {
                const struct iovec iov = { out->p + out->at, doca_buffer_len(out) };
                ssize_t n = stream_write(&c->stream, &iov, 1);

                if (n < 0 || (PLANTED(DOCA_SHORT_WRITE) && (size_t)n < iov.iov_len))
                        end(c, true);
                if (n <= 0)
                        break;
                if (!c->ending)
                        c->moved = reactor_now(c->base.reactor);
                doca_buffer_drop(out, (size_t)n);
        }
}

/* Its client does not read. */
static bool is_full(const struct doca_conn *c)
{
        return doca_buffer_len(&c->machine.out) > UNSENT_MAX;
}

/* May free it. */
static void settle(struct doca_conn *c)
{
        bool said, over;

        for (unsigned i = 0; i < c->n_workers; i++)
                doca_worker_go_on(&c->workers[i]);
        go_on_waiting(c);
        if (c->machine.failed && !c->ending)
                end(c, false);
        flush(c);
        said = doca_buffer_len(&c->machine.out) == 0 || c->at_once;
        over = c->n_workers == 0 || each_worker(c, doca_worker_is_over);
        if (c->ending && over && said) {
                free_workers(c);
                dismantle(c);
                return;
        }
        if (c->at_once)
                return;
        (void)stream_watch(&c->stream, &c->base.reactor->loop,
                           (c->ending || is_full(c) ? 0 : EPOLLIN) | (said ? 0 : EPOLLOUT));
}

static void fault(struct doca_conn *c)
{
        const struct rule *r = doca_rule_get(c->machine.fault);

        doca_tell_broken(doca_shared_of_conn(c), c->machine.fault);
        doca_conn_warn(c, "fault", "closed: %s%s%s", r ? r->id : "out of memory", r ? ": " : "",
                       r ? r->says : "");
}

static void receive(struct doca_conn *c)
{
        uint8_t bytes[READ_BYTES];
        const struct iovec iov = { bytes, sizeof(bytes) };
        ssize_t n;

        while (!c->ending && !is_full(c) && (n = stream_read(&c->stream, &iov, 1)) != 0) {
                if (n < 0 && PLANTED(DOCA_CLOSE_UNSEEN))
                        return;
                if (n < 0) {
                        trace(c, "the client has closed the channel (%s)",
                              doca_control_stage(&c->machine.control));
                        end(c, true);
                } else if (!doca_target_receive(&c->machine, bytes, (size_t)n)) {
                        fault(c);
                        end(c, false);
                }
        }
}

static void on_ready(struct stream *s, uint32_t events)
{
        struct doca_conn *c = of_stream(s);

        (void)events;
        receive(c);
        settle(c);
}

static void go_on(struct conn *base)
{
        settle(doca_conn_of(base));
}

static void feed(struct conn *base)
{
        struct doca_conn *c = doca_conn_of(base);

        for (unsigned i = 0; i < c->n_workers; i++)
                doca_worker_feed(&c->workers[i]);
        settle(c);
}

/* NVIDIA's service connects to a storage long before its own client comes and it asks for anything: silence alone is no
 * fault, but where places are short it gives way. */
static bool is_in_the_way(const struct doca_conn *c)
{
        struct service *s = c->base.reactor->service;

        return c->n_workers == 0 && !c->ending &&
               atomic_load(&s->conns) > s->limits.connections / 2 &&
               conn_is_older(&c->base, c->heard, doca_shared_of_conn(c)->patience);
}

static void sweep_channel(struct doca_conn *c)
{
        if (doca_buffer_len(&c->machine.out) == 0)
                c->moved = reactor_now(c->base.reactor);
        if (c->at_once)
                return;
        if (conn_is_older(&c->base, c->moved, doca_shared_of_conn(c)->patience)) {
                doca_conn_warn(c, "timeout", "closed: its client does not read its answers");
                end(c, true);
        } else if (is_in_the_way(c)) {
                doca_conn_warn(c, "timeout",
                               "closed: its client asks for nothing, and others come");
                end(c, false);
        }
}

static void sweep(struct conn *base)
{
        struct doca_conn *c = doca_conn_of(base);

        sweep_channel(c);
        for (unsigned i = 0; i < c->n_workers; i++)
                doca_worker_sweep(&c->workers[i]);
        settle(c);
}

static void drain(struct conn *base, bool at_once)
{
        struct doca_conn *c = doca_conn_of(base);
        bool busy = !each_worker(c, is_idle) && !at_once;

        if (!busy && (!c->ending || at_once))
                end(c, at_once);
        settle(c);
}

void doca_conn_start(struct reactor *r, struct port *port, struct stream *stream,
                     const struct conn_peer *peer)
{
        static const struct conn_kind kind = {
                .go_on = go_on, .feed = feed, .sweep = sweep, .drain = drain
        };
        static const struct doca_target_ops ops = { .run = run, .refused = refused };
        struct doca_shared *s = doca_shared_of(r);
        struct doca_conn *c = calloc(1, sizeof(*c));

        if (!c) {
                stream_close(stream, false);
                conn_uncount(r->service, port, peer);
                return;
        }
        c->stream = *stream;
        c->stream.ready = on_ready;
        conn_enter(&c->base, &kind, r, port, peer, &r->pool);
        memcpy(c->base.traddr, stream_local(&c->stream).addr, sizeof(c->base.traddr));
        doca_target_init(&c->machine, s->dialect, s->after_error, &ops, &s->policy, c);
        c->heard = c->moved = reactor_now(r);
        stream_record(&c->stream, s->base.record, PARTY_CONTROLLER);
        pthread_mutex_lock(&s->lock);
        s->clients++;
        pthread_mutex_unlock(&s->lock);
        trace(c, "connected");
        settle(c);
}
