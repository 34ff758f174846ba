/* SPDX-License-Identifier: BSD-3-Clause */
#include "session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/engine/time.h"
#include "pdu/io/verbs/rdma_wait.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "pdu/io/verbs/verbs_record.h"

enum {
        READ_BYTES = 16 << 10,
        NAP_MS = 10,
        CLOSE_MS = 1000, /* that queue pairs may take to end */
        OLD_BLOCK = 512, /* 2.10 has no block size */
};

/* --- the control channel ------------------------------------------------------------------------ */

static int send_all(struct doca_session *s, uint64_t deadline, struct host_error *e)
{
        struct doca_buffer *b = &s->machine.out;

        while (doca_buffer_len(b) > 0) {
                const struct iovec iov = { b->p + b->at, doca_buffer_len(b) };
                ssize_t n = stream_write(&s->stream, &iov, 1);

                if (n < 0)
                        return host_fail(e, HOST_BROKEN, "control channel: %s",
                                         stream_why(&s->stream));
                doca_buffer_drop(b, (size_t)n);
                if (n == 0 && (ms_until(deadline) == 0 ||
                               stream_wait(&s->stream, EPOLLOUT, ms_until(deadline)) < 0))
                        return host_fail(e, HOST_BROKEN,
                                         "control channel: the target reads nothing");
        }
        return 0;
}

static int receive_some(struct doca_session *s, const char *what, uint64_t deadline,
                        struct host_error *e)
{
        uint8_t bytes[READ_BYTES];
        const struct iovec iov = { bytes, sizeof(bytes) };
        ssize_t n = stream_read(&s->stream, &iov, 1);

        if (n < 0)
                return host_fail(e, HOST_BROKEN, "%s: the target has closed the control channel%s",
                                 what, s->stream.end == STREAM_RST ? " (reset)" : "");
        if (n > 0 && !doca_service_receive(&s->machine, bytes, (size_t)n))
                return host_fail(e, HOST_BROKEN, "%s", strerror(ENOMEM));
        if (n > 0)
                return 0;
        if (ms_until(deadline) == 0)
                return host_fail(e, HOST_BROKEN, "%s: no response within %u ms", what,
                                 s->params->timeout);
        (void)stream_wait(&s->stream, EPOLLIN, ms_until(deadline));
        return 0;
}

static int explain(const struct doca_msg *m, const char *what, struct host_error *e)
{
        char buf[256];
        struct text t = text_in(buf, sizeof(buf));

        text_printable(&t, (const char *)m->data.p, m->data.len);
        host_error_set(e, HOST_STATUS, "%s: the target refuses: %s (%" PRIu64 ")%s%s", what,
                       doca_error_name(m->result), m->result, t.len > 0 ? ": " : "", buf);
        e->status = (uint16_t)m->result;
        return -1;
}

int doca_session_ask(struct doca_session *s, struct doca_msg request, struct doca_msg *response,
                     struct host_error *e)
{
        const struct doca_shape *shape = doca_shape_of(s->params->dialect, request.kind);
        uint64_t deadline = deadline_in(s->params->timeout);
        const char *what = shape ? shape->name : "a request that the dialect does not have";
        enum doca_rule rule;
        enum doca_got got;

        if (!doca_service_ask(&s->machine, request))
                return host_fail(e, HOST_BROKEN, "%s cannot be sent", what);
        if (send_all(s, deadline, e) < 0)
                return -1;
        while ((got = doca_service_next(&s->machine, response, &rule)) == DOCA_GOT_NOTHING)
                if (receive_some(s, what, deadline, e) < 0)
                        return -1;
        if (got == DOCA_GOT_FAULT)
                return host_fail(e, HOST_BROKEN, "%s: target broke %s (%s)", what,
                                 doca_rule_get(rule)->id, doca_rule_get(rule)->says);
        return doca_is_error(response) ? explain(response, what, e) : 0;
}

/* --- opening ------------------------------------------------------------------------------------ */

static int ask_size(struct doca_session *s, struct host_error *e)
{
        struct doca_msg m;

        s->total_size = s->params->storage;
        s->block_size = OLD_BLOCK;
        if (!doca_shape_of(s->params->dialect, DOCA_QUERY))
                return 0;
        if (doca_session_ask(s, (struct doca_msg) { .kind = DOCA_QUERY }, &m, e) < 0)
                return -1;
        s->total_size = m.total_size;
        s->block_size = (uint32_t)m.block_size;
        return 0;
}

int doca_session_open(struct doca_session *s, const struct doca_params *p, struct host_error *e)
{
        char why[NET_ERROR];

        *s = (struct doca_session) { .params = p };
        doca_service_init(&s->machine, p->dialect, p->reference ? DOCA_CONSUMES : DOCA_KEEPS,
                          &p->policy);
        if (stream_connect(&s->stream, p->traddr, p->trsvcid, p->timeout, why, sizeof(why)) < 0) {
                int no = errno;

                host_error_set(e, HOST_BROKEN, "%s", why);
                e->no = no;
        } else {
                s->stream.flow.comment = p->comment;
                stream_record(&s->stream, p->record, PARTY_HOST);
                if (ask_size(s, e) == 0)
                        return 0;
        }
        (void)doca_session_close(s, false, NULL);
        return -1;
}

/* --- the memory --------------------------------------------------------------------------------- */

static unsigned requests(const struct doca_session *s)
{
        return s->params->cores * s->params->depth;
}

/* 2.10: a place in the storage is the same place in the memory, which therefore has to be as long. */
static int make_memory(struct doca_session *s, struct host_error *e)
{
        const struct verbs_mr *mr;

        rdma_memory_init(&s->memory, s->dev->domain);
        s->exported_len = s->params->dialect->storage_by_memory
                              ? s->total_size
                              : (uint64_t)requests(s) * s->params->io_bytes;
        s->exported = rdma_memory_own(&s->memory, s->exported_len, &s->exported_key);
        s->messages =
            rdma_memory_own(&s->memory, 2 * (size_t)requests(s) * DOCA_IO_LEN, &s->messages_key);
        if (!s->exported || !s->messages)
                return host_fail(e, HOST_BROKEN, "cannot register %" PRIu64 " bytes: %s",
                                 s->exported_len, strerror(errno));
        mr = rdma_memory_find(&s->memory, s->exported, 1);
        s->exported_rkey = mr->rkey;
        return 0;
}

static int initialise(struct doca_session *s, struct host_error *e)
{
        const struct doca_memory m = { .base = (uint64_t)(uintptr_t)s->exported,
                                       .len = s->exported_len,
                                       .rkey = s->exported_rkey,
                                       .access = VERBS_REMOTE_READ | VERBS_REMOTE_WRITE };
        struct doca_msg response, request = { .kind = DOCA_INIT,
                                              .transactions = s->params->depth,
                                              .cores = s->params->cores,
                                              .batch = 1,
                                              .buffer_size = s->params->io_bytes };
        uint8_t blob[DOCA_MEMORY_BLOB];

        doca_memory_write(&m, blob);
        request.data = (struct doca_bytes) { blob, sizeof(blob) };
        return doca_session_ask(s, request, &response, e);
}

/* --- starting ----------------------------------------------------------------------------------- */

static int open_group(struct doca_session *s, struct host_error *e)
{
        static const struct rdma_group_ops ops = { .request = doca_session_request };
        char why[200];
        struct verbs_provider *v =
            s->params->verbs ? s->params->verbs : verbs_rdma(why, sizeof(why));

        if (!v)
                return host_fail(e, HOST_BROKEN, "%s", why);
        if (rdma_group_open(&s->group, v, &ops, loop_now_ms) < 0)
                return host_fail(e, HOST_BROKEN, "cannot open an RDMA context: %s",
                                 strerror(errno));
        s->has_group = true;
        if (s->params->comment)
                verbs_record_comment(s->group.context, s->params->comment);
        return 0;
}

/* --- by the connection manager ------------------------------------------------------------------ */

static bool no_completion(struct rdma_ep *e, const struct verbs_wc *wc)
{
        (void)e;
        (void)wc;
        return false;
}

static bool on_found(struct rdma_ep *e, const struct verbs_event *v)
{
        struct doca_session *s =
            (struct doca_session *)(void *)((char *)e - offsetof(struct doca_session, finder));

        s->found_device = v->type == VERBS_RESOLVED ? FOUND : NOT_FOUND;
        return false;
}

/* The device by which the target is reached is ours, too. */
static int find_device(struct doca_session *s, struct host_error *e)
{
        static const struct rdma_ep_ops ops = { .event = on_found, .completed = no_completion };
        uint64_t deadline = deadline_in(s->params->timeout);

        rdma_ep_init(&s->finder, &s->group, &ops);
        if (rdma_ep_resolve(&s->finder, s->params->traddr, s->params->trsvcid, s->params->timeout) <
            0)
                return host_fail(e, HOST_BROKEN, "%s: %s", s->params->traddr, strerror(errno));
        while (s->found_device == SOUGHT && ms_until(deadline) > 0) {
                (void)rdma_group_events(&s->group, UINT32_MAX);
                if (s->found_device == SOUGHT)
                        rdma_group_sleep(&s->group, NAP_MS);
        }
        if (s->found_device != FOUND)
                return host_fail(e, HOST_BROKEN, "no RDMA device reaches %s", s->params->traddr);
        s->dev = s->finder.dev;
        return 0;
}

static int open_by_cm(struct doca_session *s, struct host_error *e)
{
        s->by_cm = true;
        s->cookie = loop_now_ns() << 16;
        if (find_device(s, e) < 0)
                return -1;
        s->listener =
            verbs_listen(s->group.context, s->device, "0", DOCA_ROLES * (int)s->params->cores);
        if (!s->listener)
                return host_fail(e, HOST_BROKEN, "cannot listen at %s: %s", s->device,
                                 strerror(errno));
        return 0;
}

/* --- contexts ----------------------------------------------------------------------------------- */

static int open_by_numbers(struct doca_session *s, struct host_error *e)
{
        for (unsigned i = 0; i < s->n_contexts; i++)
                if (doca_context_local(&s->contexts[i], e) < 0)
                        return -1;
        s->dev = s->contexts[0].link[0].ep.dev;
        return 0;
}

/* By numbers where the device can be joined; iWARP cannot. */
static int open_contexts(struct doca_session *s, struct host_error *e)
{
        s->here = stream_local(&s->stream);
        s->device = s->params->device ? s->params->device : s->here.addr;
        s->contexts = calloc(s->params->cores, sizeof(*s->contexts));
        if (!s->contexts)
                return host_fail(e, HOST_BROKEN, "%s", strerror(ENOMEM));
        for (; s->n_contexts < s->params->cores; s->n_contexts++)
                doca_context_init(&s->contexts[s->n_contexts], s, s->n_contexts + 1);
        if (!s->params->by_cm && open_by_numbers(s, e) == 0)
                return 0;
        return s->params->by_cm || e->no == ENOTSUP ? open_by_cm(s, e) : -1;
}

static int connect_contexts(struct doca_session *s, struct host_error *e)
{
        for (unsigned i = 0; i < s->n_contexts; i++)
                if (doca_context_prepare(&s->contexts[i], e) < 0 ||
                    doca_context_connect(&s->contexts[i], e) < 0)
                        return -1;
        return 0;
}

/* Ours are joined by the target's answers; what comes of it is an event. */
static int await_live(struct doca_session *s, struct host_error *e)
{
        uint64_t deadline = deadline_in(s->params->timeout);
        unsigned live = 0;

        while (live < s->n_contexts) {
                const struct doca_context *c = &s->contexts[live];

                (void)rdma_group_events(&s->group, UINT32_MAX);
                if (doca_context_is_live(c)) {
                        live++;
                } else if (c->state.broken) {
                        *e = c->state.error;
                        return -1;
                } else if (ms_until(deadline) == 0) {
                        return host_fail(e, HOST_BROKEN, "context %u: not connected within %u ms",
                                         c->number, s->params->timeout);
                } else {
                        rdma_group_sleep(&s->group, NAP_MS);
                }
        }
        return 0;
}

static int ask_start(struct doca_session *s, struct host_error *e)
{
        static const enum doca_kind kinds[] = { DOCA_CONNECT, DOCA_START };
        struct doca_msg m;

        for (unsigned i = 0; i < 2; i++)
                if (doca_shape_of(s->params->dialect, kinds[i]) &&
                    doca_session_ask(s, (struct doca_msg) { .kind = kinds[i] }, &m, e) < 0)
                        return -1;
        s->started = true;
        return 0;
}

int doca_session_start(struct doca_session *s, struct host_error *e)
{
        if (s->block_size == 0 || s->total_size < s->block_size)
                return host_fail(e, HOST_BROKEN,
                                 "the storage has %" PRIu64 " bytes in blocks of %u", s->total_size,
                                 s->block_size);
        return open_group(s, e) < 0 || open_contexts(s, e) < 0 || make_memory(s, e) < 0 ||
                       initialise(s, e) < 0 || connect_contexts(s, e) < 0 || await_live(s, e) < 0
                   ? -1
                   : ask_start(s, e);
}

/* --- closing ------------------------------------------------------------------------------------ */

static int say_goodbye(struct doca_session *s, struct host_error *e)
{
        static const enum doca_kind kinds[] = { DOCA_STOP, DOCA_SHUTDOWN };
        struct doca_msg m;

        for (unsigned i = 0; i < 2; i++)
                if (doca_shape_of(s->params->dialect, kinds[i]) &&
                    doca_session_ask(s, (struct doca_msg) { .kind = kinds[i] }, &m, e) < 0)
                        return -1;
        return 0;
}

static bool is_over(const struct doca_session *s)
{
        for (unsigned i = 0; i < s->n_contexts; i++)
                for (unsigned role = 0; role < DOCA_ROLES; role++) {
                        const struct rdma_ep *ep = &s->contexts[i].link[role].ep;

                        if (ep->life.has_qp && ep->life.state < LIFE_DEAD)
                                return false;
                }
        return true;
}

static void run_down(struct doca_session *s)
{
        uint64_t deadline = deadline_in(CLOSE_MS);

        for (unsigned i = 0; i < s->n_contexts; i++)
                doca_context_close(&s->contexts[i]);
        while (!is_over(s) && ms_until(deadline) > 0) {
                (void)rdma_group_events(&s->group, UINT32_MAX);
                if (rdma_group_poll(&s->group, 1) == 0)
                        rdma_group_sleep(&s->group, NAP_MS);
        }
        for (unsigned i = 0; i < s->n_contexts; i++)
                doca_context_free(&s->contexts[i]);
        if (s->listener)
                verbs_unlisten(s->listener);
        if (s->by_cm)
                rdma_ep_destroy(&s->finder);
}

int doca_session_close(struct doca_session *s, bool orderly, struct host_error *e)
{
        struct host_error unused;
        int rc = orderly && s->started ? say_goodbye(s, e ? e : &unused) : 0;

        run_down(s);
        if (s->memory.domain)
                rdma_memory_fini(&s->memory);
        if (s->has_group)
                rdma_group_close(&s->group);
        free(s->contexts);
        stream_close(&s->stream, false);
        doca_service_fini(&s->machine);
        return e ? rc : 0;
}
