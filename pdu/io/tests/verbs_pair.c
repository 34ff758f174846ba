/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The provider over librdmacm against itself, on real devices: usage: verbs_pair CASE|all|list
 * [ROUNDS]. Two endpoints in one process, the connector on 10.0.0.1, the listener on 10.0.0.2.
 * A case prints what the devices do ("    ...") and "ok NAME", or where it failed. For
 * test_verbs_lab.py, which runs it in the lab's guest.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "pdu/io/verbs/verbs_memory.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "pdu/verbs/verbs.h"

enum { WAIT_MS = 5000, MEMORY = 1 << 20, WRS = 512, DEPTH = 64 };

static const char *running = "start";

#define CHECK(x)                                                                                   \
        do {                                                                                       \
                if (!(x)) {                                                                        \
                        printf("FAILED %s: %s:%d: %s (%s)\n", running, __FILE__, __LINE__, #x,     \
                               strerror(errno));                                                   \
                        fflush(stdout);                                                            \
                        exit(1);                                                                   \
                }                                                                                  \
        } while (0)

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
        va_list args;

        va_start(args, format);
        printf("    ");
        vprintf(format, args);
        printf("\n");
        va_end(args);
}

struct side {
        struct verbs_context *context;
        struct verbs_ep *ep;
        struct verbs_domain *domain;
        const struct verbs_caps *caps;
        struct verbs_event event; /* the latest */
        uint8_t *memory;
        struct verbs_mr mr;
        struct verbs_wr wrs[WRS];
};

static struct verbs_provider *provider;
static struct verbs_listener *listener;
static struct side server, client;
static char port[16];

/* --- waiting ---------------------------------------------------------------------------------- */

static int64_t now_us(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void wait_readable(struct side *s, int ms)
{
        struct pollfd p[4];
        int fds[4], n = verbs_fds(s->context, fds, 4);

        for (int i = 0; i < n; i++)
                p[i] = (struct pollfd) { .fd = fds[i], .events = POLLIN };
        poll(p, (nfds_t)n, ms);
}

/* The next event within ms, or false. */
static bool next_event(struct side *s, int ms)
{
        int64_t end = now_us() + ms * 1000;

        while (!verbs_event(s->context, &s->event)) {
                int64_t left = end - now_us();

                if (left <= 0)
                        return false;
                wait_readable(s, left > 10000 ? 10 : 1);
        }
        return true;
}

static bool expect(struct side *s, enum verbs_event_type type)
{
        if (!next_event(s, WAIT_MS)) {
                note("no event instead of %s", verbs_event_name(type));
                return false;
        }
        if (s->event.type != type)
                note("%s (reason %d) instead of %s", verbs_event_name(s->event.type),
                     s->event.reason, verbs_event_name(type));
        return s->event.type == type;
}

/* As above, but other events may come before. */
static bool expect_among(struct side *s, enum verbs_event_type type)
{
        while (next_event(s, WAIT_MS))
                if (s->event.type == type)
                        return true;
        note("no %s", verbs_event_name(type));
        return false;
}

/* One completion, waited for as a program does that sleeps: arm, poll once more, wait. */
static bool completion(struct side *s, struct verbs_wc *wc, int ms)
{
        int64_t end = now_us() + ms * 1000;

        while (verbs_poll(s->domain, wc, 1) <= 0) {
                int64_t left = end - now_us();

                if (left <= 0)
                        return false;
                CHECK(verbs_arm(s->context) == 0);
                if (verbs_poll(s->domain, wc, 1) == 1)
                        return true;
                wait_readable(s, (int)(left / 1000) + 1);
        }
        return true;
}

static bool done(struct side *s, struct verbs_wr *wr, enum verbs_status status)
{
        struct verbs_wc wc = { .wr = NULL };

        if (!completion(s, &wc, WAIT_MS)) {
                note("no completion");
                return false;
        }
        if (wc.wr != wr || wc.status != status)
                note("work request %td (%s): %s", wc.wr - s->wrs, verbs_op_name(wc.wr->op),
                     verbs_status_name(wc.status));
        return wc.wr == wr && wc.status == status;
}

/* --- setting up ------------------------------------------------------------------------------- */

static void side_memory(struct side *s)
{
        if (s->mr.own)
                return;
        s->memory = aligned_alloc(4096, MEMORY);
        CHECK(s->memory);
        memset(s->memory, 0, MEMORY);
        CHECK(verbs_reg(s->domain, s->memory, MEMORY, VERBS_REMOTE_READ | VERBS_REMOTE_WRITE,
                        &s->mr) == 0);
}

static void side_domain(struct side *s)
{
        s->domain = verbs_domain(s->ep);
        CHECK(s->domain);
        s->caps = verbs_caps(s->domain);
        side_memory(s);
}

static void side_open(struct side *s)
{
        memset(s, 0, sizeof(*s));
        s->context = verbs_open(provider);
        CHECK(s->context);
}

static void side_close(struct side *s)
{
        if (s->ep)
                verbs_destroy(s->ep);
        if (s->mr.own)
                verbs_dereg(s->domain, &s->mr);
        verbs_close(s->context);
        free(s->memory);
}

static void start(void)
{
        side_open(&server);
        side_open(&client);
        listener = verbs_listen(server.context, "10.0.0.2", "0", 16);
        CHECK(listener);
        CHECK(verbs_listener_port(listener) != 0);
        snprintf(port, sizeof(port), "%u", verbs_listener_port(listener));
}

static void stop(void)
{
        side_close(&client);
        if (listener)
                verbs_unlisten(listener);
        side_close(&server);
        listener = NULL;
}

static const struct verbs_qp_attr with_rq = { .send_wrs = DEPTH,
                                              .recv_wrs = DEPTH,
                                              .inline_bytes = 64 };
static const struct verbs_qp_attr with_srq = { .send_wrs = DEPTH };

static struct verbs_conn_param param_of(const void *data, size_t len)
{
        return (struct verbs_conn_param) { .data = data,
                                           .len = (uint8_t)len,
                                           .reads_in = 16,
                                           .reads_out = 8,
                                           .retry = 7,
                                           .rnr_retry = 7 };
}

static void resolve(const char *to)
{
        client.ep = verbs_resolve(client.context, to, port, 2000);
        CHECK(client.ep);
        CHECK(expect(&client, VERBS_RESOLVED));
        CHECK(client.event.ep == client.ep);
        side_domain(&client);
}

/* A request from the client arrives at the server. */
static void request(const struct verbs_qp_attr *attr, const struct verbs_conn_param *param)
{
        resolve("10.0.0.2");
        CHECK(verbs_qp(client.ep, attr) == 0);
        CHECK(verbs_connect(client.ep, param) == 0);
        CHECK(expect(&server, VERBS_CONNECT_REQUEST));
        CHECK(server.event.listener == listener && server.event.ep);
        server.ep = server.event.ep;
        side_domain(&server);
}

static void establish(const struct verbs_qp_attr *attr, const struct verbs_conn_param *param)
{
        request(attr, param);
        CHECK(verbs_qp(server.ep, attr) == 0);
        CHECK(verbs_accept(server.ep, param) == 0);
        CHECK(expect(&client, VERBS_ESTABLISHED));
        CHECK(expect(&server, VERBS_ESTABLISHED));
}

static void connected(void)
{
        struct verbs_conn_param param = param_of(NULL, 0);

        start();
        establish(&with_rq, &param);
}

/* --- work requests ---------------------------------------------------------------------------- */

static struct verbs_wr *make(struct side *s, unsigned i, enum verbs_op op, size_t at, uint32_t len)
{
        struct verbs_wr *wr = &s->wrs[i];

        *wr = (struct verbs_wr) { .op = op,
                                  .flags = VERBS_SIGNALED,
                                  .n_sge = len > 0,
                                  .sge = { { s->memory + at, len, s->mr.lkey } } };
        return wr;
}

static struct verbs_wr *make_remote(struct side *s, unsigned i, enum verbs_op op, size_t at,
                                    uint32_t len, const struct side *peer, size_t there)
{
        struct verbs_wr *wr = make(s, i, op, at, len);

        wr->remote = (uint64_t)(uintptr_t)(peer->memory + there);
        wr->rkey = peer->mr.rkey;
        return wr;
}

static void post(struct side *s, struct verbs_wr *chain)
{
        struct verbs_wr *bad;
        bool posted = verbs_post(s->ep, chain, &bad) == 0;

        if (!posted)
                note("%s is refused", verbs_op_name(bad->op));
        CHECK(posted);
}

static struct verbs_wr *post_recv(struct side *s, unsigned i, size_t at, uint32_t len)
{
        struct verbs_wr *wr = make(s, i, VERBS_RECV, at, len), *bad;

        CHECK(verbs_post_recv(s->ep, wr, &bad) == 0);
        return wr;
}

static void fill(uint8_t *p, size_t len, unsigned seed)
{
        for (size_t i = 0; i < len; i++)
                p[i] = (uint8_t)(seed + i * 7 + (i >> 8));
}

static void copy(struct side *from, struct side *to, unsigned seed, uint32_t len, uint8_t flags)
{
        struct verbs_wr *recv = post_recv(to, 1, 0, len), *send = make(from, 0, VERBS_SEND, 0, len);
        struct verbs_wc wc;

        fill(from->memory, len, seed);
        memset(to->memory, 0, len);
        send->flags |= flags;
        post(from, send);
        CHECK(completion(to, &wc, WAIT_MS));
        CHECK(wc.wr == recv && wc.status == VERBS_SUCCESS && wc.bytes == len && wc.ep == to->ep);
        CHECK(!wc.invalidated);
        CHECK(memcmp(from->memory, to->memory, len) == 0);
        CHECK(done(from, send, VERBS_SUCCESS));
}

/* --- cases ------------------------------------------------------------------------------------ */

static void show_caps(void)
{
        const struct verbs_caps *c;

        connected();
        c = client.caps;
        note("%s: sges %u, inline %u, qp_wrs %u, srq_wrs %u, cqes %u", c->name, c->sges,
             c->inline_bytes, c->qp_wrs, c->srq_wrs, c->cqes);
        note("reads in %u, out %u, windows %d, invalidates MR %d, no last WQE %d, iWARP %d",
             c->reads_in, c->reads_out, c->windows, c->invalidates_mr, c->no_last_wqe, c->iwarp);
        CHECK(c->sges >= 1 && c->qp_wrs >= DEPTH && c->cqes >= DEPTH && c->name[0]);
        stop();
}

static void private_data(void)
{
        uint8_t asked[32], answered[32];
        struct verbs_conn_param ask = param_of(asked, 32), answer = param_of(answered, 32);
        char local[64], peer[64];

        fill(asked, 32, 1);
        fill(answered, 32, 2);
        answer.reads_in = 4;
        answer.reads_out = 2;
        start();
        request(&with_rq, &ask);
        note("request: %u bytes, reads in %u, out %u, rnr retry %u", server.event.param.len,
             server.event.param.reads_in, server.event.param.reads_out,
             server.event.param.rnr_retry);
        CHECK(server.event.param.len >= 32 && !memcmp(server.event.param.data, asked, 32));
        CHECK(server.event.param.reads_in == 16 && server.event.param.reads_out == 8);
        CHECK(verbs_qp(server.ep, &with_rq) == 0);
        CHECK(verbs_accept(server.ep, &answer) == 0);
        CHECK(expect(&client, VERBS_ESTABLISHED));
        note("acceptance: %u bytes, reads in %u, out %u", client.event.param.len,
             client.event.param.reads_in, client.event.param.reads_out);
        CHECK(client.event.param.len >= 32 && !memcmp(client.event.param.data, answered, 32));
        CHECK(expect(&server, VERBS_ESTABLISHED));
        verbs_addresses(server.ep, local, peer, sizeof(local));
        note("server: local %s, peer %s", local, peer);
        CHECK(!strcmp(local, "10.0.0.2") && !strncmp(peer, "10.0.0.1:", 9));
        stop();
}

static void sends(void)
{
        connected();
        copy(&client, &server, 3, 64, 0); /* iWARP: the connector has to be first */
        copy(&server, &client, 4, 16, 0);
        copy(&client, &server, 5, 100000, 0);
        if (client.caps->inline_bytes >= 64)
                copy(&client, &server, 6, 64, VERBS_INLINE);
        stop();
}

static void reads_and_writes(void)
{
        struct verbs_wr *wr;

        connected();
        copy(&client, &server, 3, 64, 0);
        fill(client.memory, 65536, 9);
        wr = make_remote(&server, 0, VERBS_READ, 65536, 65536, &client, 0);
        post(&server, wr);
        CHECK(done(&server, wr, VERBS_SUCCESS));
        CHECK(memcmp(client.memory, server.memory + 65536, 65536) == 0);
        fill(server.memory, 50000, 77);
        wr = make_remote(&server, 0, VERBS_WRITE, 0, 50000, &client, 1000);
        post(&server, wr);
        CHECK(done(&server, wr, VERBS_SUCCESS));
        copy(&server, &client, 1, 16, 0); /* after the WRITE */
        CHECK(client.memory[1000] == (uint8_t)77);
        fill(server.memory, 50000, 77);
        CHECK(memcmp(client.memory + 1000, server.memory, 50000) == 0);
        stop();
}

/* READ into memory that was registered for local use only: iWARP needs more, the provider knows. */
static void read_into_local_memory(void)
{
        struct verbs_mr mr;
        struct verbs_wr *wr;
        uint8_t *sink;

        connected();
        copy(&client, &server, 3, 64, 0);
        sink = calloc(1, 8192);
        CHECK(sink && verbs_reg(server.domain, sink, 8192, 0, &mr) == 0);
        fill(client.memory, 8192, 50);
        wr = make_remote(&server, 0, VERBS_READ, 0, 8192, &client, 0);
        wr->sge[0] = (struct verbs_sge) { sink, 8192, mr.lkey };
        post(&server, wr);
        CHECK(done(&server, wr, VERBS_SUCCESS));
        CHECK(memcmp(client.memory, sink, 8192) == 0);
        verbs_dereg(server.domain, &mr);
        free(sink);
        stop();
}

/* WRITE and the SEND that follows in one chain, longer than what goes to the device at a time. */
static void long_chain(void)
{
        struct verbs_qp_attr attr = { .send_wrs = 300, .recv_wrs = 300 };
        struct verbs_conn_param param = param_of(NULL, 0);
        struct verbs_wr *first = NULL;
        struct verbs_wc wc;
        unsigned n = 150;

        start();
        establish(&attr, &param);
        CHECK(verbs_grow_cq(client.domain, 700) == 0 && verbs_grow_cq(server.domain, 700) == 0);
        for (unsigned i = 0; i < n; i++)
                post_recv(&server, i, i * 64, 64);
        fill(client.memory, n * 64, 20);
        for (unsigned i = n; i-- > 0;) {
                struct verbs_wr *send = make(&client, 2 * i + 1, VERBS_SEND, i * 64, 64),
                                *write = make_remote(&client, 2 * i, VERBS_WRITE, i * 64, 64,
                                                     &server, 65536 + i * 64);

                write->flags = 0;
                send->flags = i == n - 1 ? VERBS_SIGNALED : 0;
                write->next = send;
                send->next = first;
                first = write;
        }
        post(&client, first);
        for (unsigned i = 0; i < n; i++) {
                CHECK(completion(&server, &wc, WAIT_MS));
                CHECK(wc.wr == &server.wrs[i] && wc.status == VERBS_SUCCESS && wc.bytes == 64);
        }
        CHECK(done(&client, &client.wrs[2 * n - 1], VERBS_SUCCESS));
        CHECK(memcmp(client.memory, server.memory, n * 64) == 0);
        CHECK(memcmp(client.memory, server.memory + 65536, n * 64) == 0);
        stop();
}

static void full_queue(void)
{
        struct verbs_wr *bad = NULL, *first = NULL;
        unsigned n;

        connected();
        for (unsigned i = WRS; i-- > 0;) {
                struct verbs_wr *wr = make(&client, i, VERBS_RECV, 0, 64);

                wr->next = first;
                first = wr;
        }
        CHECK(verbs_post_recv(client.ep, first, &bad) == -1);
        n = (unsigned)(bad - client.wrs);
        note("receive queue of %d: work request %u is refused: %s", DEPTH, n, strerror(errno));
        CHECK(n >= DEPTH && n < WRS);
        CHECK(errno == ENOMEM || errno == ENOSPC || errno == EINVAL);
        stop();
}

static void srq(void)
{
        struct verbs_conn_param param = param_of(NULL, 0);
        struct verbs_wr *bad, *chain;
        struct verbs_wc wc;

        start();
        resolve("10.0.0.2");
        CHECK(verbs_make_srq(client.domain, DEPTH) == 0);
        CHECK(verbs_make_srq(client.domain, DEPTH) == -1 && errno == EEXIST);
        CHECK(verbs_qp(client.ep, &with_srq) == 0);
        CHECK(verbs_connect(client.ep, &param) == 0);
        CHECK(expect(&server, VERBS_CONNECT_REQUEST));
        server.ep = server.event.ep;
        side_domain(&server);
        CHECK(verbs_qp(server.ep, &with_srq) == -1 && errno == EINVAL); /* none yet */
        CHECK(verbs_make_srq(server.domain, DEPTH) == 0);
        CHECK(verbs_qp(server.ep, &with_srq) == 0);
        CHECK(verbs_accept(server.ep, &param) == 0);
        CHECK(expect(&client, VERBS_ESTABLISHED) && expect(&server, VERBS_ESTABLISHED));
        chain = make(&server, 10, VERBS_RECV, 0, 64);
        chain->next = make(&server, 11, VERBS_RECV, 64, 64);
        chain->next->next = make(&server, 12, VERBS_RECV, 128, 64);
        CHECK(verbs_post_srq(server.domain, chain, &bad) == 0);
        for (unsigned i = 0; i < 2; i++) {
                post(&client, make(&client, i, VERBS_SEND, 64 * i, 64));
                CHECK(completion(&server, &wc, WAIT_MS));
                CHECK(wc.wr->op == VERBS_RECV && wc.ep == server.ep && wc.bytes == 64);
                CHECK(done(&client, &client.wrs[i], VERBS_SUCCESS));
        }
        /* What the queue pair leaves behind is still ours. */
        post(&client, make(&client, 2, VERBS_SEND, 0, 64));
        CHECK(done(&client, &client.wrs[2], VERBS_SUCCESS));
        verbs_destroy(server.ep);
        server.ep = NULL;
        CHECK(completion(&server, &wc, WAIT_MS));
        CHECK(!wc.ep && wc.wr->op == VERBS_RECV && wc.bytes == 64);
        CHECK(verbs_poll(server.domain, &wc, 1) == 0);
        stop();
}

static void last_wqe(void)
{
        struct verbs_conn_param param = param_of(NULL, 0);
        bool came = false;

        start();
        resolve("10.0.0.2");
        CHECK(verbs_make_srq(client.domain, DEPTH) == 0);
        CHECK(verbs_qp(client.ep, &with_srq) == 0);
        CHECK(verbs_connect(client.ep, &param) == 0);
        CHECK(expect(&server, VERBS_CONNECT_REQUEST));
        server.ep = server.event.ep;
        CHECK(verbs_qp(server.ep, &with_rq) == 0);
        CHECK(verbs_accept(server.ep, &param) == 0);
        CHECK(expect(&client, VERBS_ESTABLISHED));
        CHECK(verbs_fail(client.ep) == 0);
        while (next_event(&client, 300)) {
                note("after fail: %s", verbs_event_name(client.event.type));
                came |= client.event.type == VERBS_LAST_WQE;
        }
        note("last WQE event %s", came ? "came" : "did not come");
        CHECK(came || client.caps->no_last_wqe);
        stop();
}

/* A key of the peer's goes with the SEND: of a window, or where the device does that of an MR. */
static void remote_invalidate_mr(void)
{
        struct verbs_wr *send, *recv;
        struct verbs_mr mr;
        struct verbs_wc wc;
        static uint8_t page[4096];
        bool taken;

        connected();
        CHECK(verbs_reg(client.domain, page, sizeof(page), VERBS_REMOTE_READ, &mr) == 0);
        copy(&client, &server, 3, 64, 0);
        recv = post_recv(&client, 1, 0, 16);
        send = make(&server, 0, VERBS_SEND_INVALIDATE, 0, 16);
        send->rkey = mr.rkey;
        post(&server, send);
        CHECK(completion(&client, &wc, WAIT_MS));
        taken = wc.status == VERBS_SUCCESS;
        note("SEND with invalidate of an MR: %s, invalidated %d, key %s",
             verbs_status_name(wc.status), wc.invalidated,
             wc.invalid_key == mr.rkey ? "the MR's" : "another");
        CHECK(wc.wr == recv);
        if (client.caps->invalidates_mr)
                CHECK(taken && wc.invalidated && wc.invalid_key == mr.rkey);
        else
                CHECK(!taken || !wc.invalidated);
        CHECK(completion(&server, &wc, WAIT_MS));
        note("sender: %s", verbs_status_name(wc.status));
        verbs_dereg(client.domain, &mr);
        stop();
}

static bool server_reads(uint32_t rkey, const uint8_t *from, enum verbs_status *status)
{
        struct verbs_wr *wr = make(&server, 5, VERBS_READ, 32768, 4096);
        struct verbs_wc wc;

        wr->remote = (uint64_t)(uintptr_t)from;
        wr->rkey = rkey;
        post(&server, wr);
        CHECK(completion(&server, &wc, WAIT_MS) && wc.wr == wr);
        *status = wc.status;
        return wc.status == VERBS_SUCCESS;
}

static void bind_window(struct verbs_window *w)
{
        struct verbs_wr *wr = make(&client, 20, VERBS_BIND, 0, 0);

        wr->window = w;
        post(&client, wr);
        CHECK(done(&client, wr, VERBS_SUCCESS));
}

static void windows(void)
{
        struct verbs_window w;
        static uint8_t pages[8192] __attribute__((aligned(4096)));
        struct verbs_wr *wr, *recv;
        struct verbs_wc wc;
        struct verbs_mr mr;
        enum verbs_status status;

        connected();
        if (!client.caps->windows) {
                w = (struct verbs_window) { .mr = &client.mr };
                CHECK(verbs_make_window(client.domain, &w) == -1);
                note("%s has no windows: %s", client.caps->name, strerror(errno));
                stop();
                return;
        }
        CHECK(verbs_reg(client.domain, pages, sizeof(pages), VERBS_WINDOWS, &mr) == 0);
        fill(pages, sizeof(pages), 60);
        w = (struct verbs_window) {
                .mr = &mr, .addr = pages + 4096, .len = 4096, .access = VERBS_REMOTE_READ
        };
        CHECK(verbs_make_window(client.domain, &w) == 0);
        copy(&client, &server, 3, 64, 0);
        for (int i = 0; i < 3; i++) { /* bound, read, invalidated by the peer; again */
                bind_window(&w);
                CHECK(server_reads(w.rkey, pages + 4096, &status));
                CHECK(memcmp(server.memory + 32768, pages + 4096, 4096) == 0);
                recv = post_recv(&client, 1, 0, 16);
                wr = make(&server, 0, VERBS_SEND_INVALIDATE, 0, 16);
                wr->rkey = w.rkey;
                post(&server, wr);
                CHECK(completion(&client, &wc, WAIT_MS) && wc.wr == recv);
                note("%s, invalidated %d, key %x of %x", verbs_status_name(wc.status),
                     wc.invalidated, wc.invalid_key, w.rkey);
                CHECK(wc.status == VERBS_SUCCESS && wc.invalidated && wc.invalid_key == w.rkey);
                CHECK(done(&server, wr, VERBS_SUCCESS));
                verbs_window_next(&w);
        }
        bind_window(&w); /* and by its owner */
        wr = make(&client, 21, VERBS_INVALIDATE, 0, 0);
        wr->rkey = w.rkey;
        post(&client, wr);
        CHECK(done(&client, wr, VERBS_SUCCESS));
        CHECK(!server_reads(w.rkey, pages + 4096, &status));
        note("READ through an invalid window: %s", verbs_status_name(status));
        verbs_drop_window(client.domain, &w);
        verbs_dereg(client.domain, &mr);
        stop();
}

static void other_side_sees(struct side *s)
{
        struct verbs_wc wc;

        while (next_event(s, 200))
                note("%s: %s", s == &client ? "client" : "server", verbs_event_name(s->event.type));
        while (completion(s, &wc, 100))
                note("%s: %s %s", s == &client ? "client" : "server", verbs_op_name(wc.wr->op),
                     verbs_status_name(wc.status));
}

static void wrong_access(enum verbs_op op, uint32_t len)
{
        struct verbs_wr *wr;
        struct verbs_wc wc;

        connected();
        copy(&client, &server, 3, 64, 0);
        post_recv(&client, 2, 0, 64);
        wr = make_remote(&server, 0, op, 0, len, &client, 0);
        wr->rkey ^= 0x5500;
        post(&server, wr);
        CHECK(completion(&server, &wc, WAIT_MS));
        note("%s with a wrong key: %s", verbs_op_name(op), verbs_status_name(wc.status));
        CHECK(wc.wr == wr);
        /* iWARP: a WRITE is done when it is sent; the peer's TERMINATE comes later. */
        CHECK(wc.status != VERBS_SUCCESS || (op == VERBS_WRITE && server.caps->iwarp));
        other_side_sees(&server);
        other_side_sees(&client);
        stop();
}

static void wrong_key_read(void)
{
        wrong_access(VERBS_READ, 4096);
}

static void wrong_key_write(void)
{
        wrong_access(VERBS_WRITE, 4096);
}

static void too_long_send(void)
{
        struct verbs_wc wc;

        connected();
        post_recv(&server, 1, 0, 64);
        post(&client, make(&client, 0, VERBS_SEND, 0, 128));
        CHECK(completion(&server, &wc, WAIT_MS));
        note("128 bytes into a RECV of 64: %s", verbs_status_name(wc.status));
        CHECK(wc.status != VERBS_SUCCESS);
        CHECK(completion(&client, &wc, WAIT_MS));
        note("sender: %s", verbs_status_name(wc.status));
        other_side_sees(&server);
        other_side_sees(&client);
        stop();
}

static void no_receive(void)
{
        struct verbs_conn_param param = param_of(NULL, 0);
        struct verbs_wc wc;
        int64_t begun;

        param.rnr_retry = 0;
        start();
        establish(&with_rq, &param);
        begun = now_us();
        post(&client, make(&client, 0, VERBS_SEND, 0, 64));
        CHECK(completion(&client, &wc, WAIT_MS));
        note("SEND without RECV, RNR retry 0: %s after %lld us", verbs_status_name(wc.status),
             (long long)(now_us() - begun));
        CHECK(client.caps->iwarp || wc.status == VERBS_RNR_EXCEEDED);
        other_side_sees(&client);
        other_side_sees(&server);
        stop();
}

static void reject(void)
{
        struct verbs_conn_param param = param_of(NULL, 0);
        static const uint8_t why[4] = { 0, 0, 9, 0 };

        start();
        request(&with_rq, &param);
        CHECK(verbs_reject(server.ep, why, sizeof(why)) == 0);
        CHECK(expect(&client, VERBS_REJECTED));
        note("rejected: %u bytes, reason %d", client.event.param.len, client.event.reason);
        CHECK(client.event.param.len >= 4 && memcmp(client.event.param.data, why, 4) == 0);
        stop();
}

static void destroyed_unanswered(void)
{
        struct verbs_conn_param param = param_of(NULL, 0);

        start();
        request(&with_rq, &param);
        verbs_destroy(server.ep);
        server.ep = NULL;
        CHECK(expect(&client, VERBS_REJECTED));
        note("request destroyed unanswered: rejected, %u bytes, reason %d", client.event.param.len,
             client.event.reason);
        stop();
}

static void untaken_request(void)
{
        struct verbs_conn_param param = param_of(NULL, 0);

        start();
        resolve("10.0.0.2");
        CHECK(verbs_qp(client.ep, &with_rq) == 0);
        CHECK(verbs_connect(client.ep, &param) == 0);
        wait_readable(&server, WAIT_MS);
        verbs_unlisten(listener);
        listener = NULL;
        CHECK(next_event(&client, WAIT_MS));
        note("listener closed before the request was taken: %s, reason %d",
             verbs_event_name(client.event.type), client.event.reason);
        CHECK(client.event.type == VERBS_REJECTED || client.event.type == VERBS_CONNECT_ERROR);
        CHECK(!next_event(&server, 50));
        stop();
}

static void nobody_listens(void)
{
        struct verbs_conn_param param = param_of(NULL, 0);

        start();
        verbs_unlisten(listener);
        listener = NULL;
        resolve("10.0.0.2");
        CHECK(verbs_qp(client.ep, &with_rq) == 0);
        if (verbs_connect(client.ep, &param) < 0) { /* siw waits for TCP and says at once */
                note("no listener: connect: %s", strerror(errno));
                CHECK(client.caps->iwarp && errno == ECONNREFUSED);
                stop();
                return;
        }
        CHECK(expect(&client, VERBS_REJECTED));
        note("no listener: rejected, %u bytes, reason %d", client.event.param.len,
             client.event.reason);
        stop();
}

static void addresses(void)
{
        static const char *const wild[] = { "0.0.0.0", "::", "" };
        struct verbs_conn_param param = param_of(NULL, 0);

        start();
        errno = 0;
        CHECK(!verbs_listen(server.context, "10.0.0.2", port, 16));
        note("address in use: %s", strerror(errno));
        CHECK(errno == EADDRINUSE);
        CHECK(!verbs_listen(server.context, "10.9.9.9", "0", 16));
        note("listen on a strange address: %s", strerror(errno));
        CHECK(!verbs_listen(server.context, "10.0.0.2", "http", 16) && errno == ENXIO);
        CHECK(!verbs_resolve(client.context, "no such name", "4420", 100) && errno == ENXIO);
        client.ep = verbs_resolve(client.context, "127.0.0.1", port, 500);
        if (!client.ep) {
                note("resolve 127.0.0.1: %s at once", strerror(errno));
        } else {
                CHECK(next_event(&client, WAIT_MS));
                note("resolve 127.0.0.1: %s, reason %d", verbs_event_name(client.event.type),
                     client.event.reason);
        }
        stop();
        for (unsigned i = 0; i < 3; i++) {
                start();
                verbs_unlisten(listener);
                listener = verbs_listen(server.context, wild[i], "0", 0);
                CHECK(listener);
                note("listen on \"%s\"", wild[i]);
                snprintf(port, sizeof(port), "%u", verbs_listener_port(listener));
                resolve("10.0.0.2"); /* shows what kind of device */
                verbs_destroy(client.ep);
                client.ep = NULL;
                if (client.caps->iwarp && !strcmp(wild[i], "::")) {
                        note("which takes IPv6 only");
                } else {
                        establish(&with_rq, &param);
                        copy(&client, &server, 3, 64, 0);
                }
                stop();
        }
}

static void disconnect(struct side *first, struct side *second)
{
        int64_t begun = now_us();

        CHECK(verbs_disconnect(first->ep) == 0);
        CHECK(expect(second, VERBS_DISCONNECTED));
        CHECK(second->event.ep == second->ep);
        note("the other side hears of it after %lld us", (long long)(now_us() - begun));
        verbs_disconnect(second->ep); /* answers; where there is nothing to answer it may fail */
        CHECK(expect(first, VERBS_DISCONNECTED));
        CHECK(!next_event(first, 20) || first->event.type == VERBS_TIMEWAIT_EXIT);
        CHECK(!next_event(second, 20) || second->event.type == VERBS_TIMEWAIT_EXIT);
}

static void disconnects(void)
{
        connected();
        copy(&client, &server, 3, 64, 0);
        disconnect(&client, &server);
        stop();
        connected();
        copy(&client, &server, 3, 64, 0);
        disconnect(&server, &client);
        stop();
}

static void both_disconnect(void)
{
        connected();
        copy(&client, &server, 3, 64, 0);
        CHECK(verbs_disconnect(client.ep) == 0);
        verbs_disconnect(server.ep);
        CHECK(expect(&client, VERBS_DISCONNECTED) && expect(&server, VERBS_DISCONNECTED));
        CHECK(!next_event(&client, 20) || client.event.type == VERBS_TIMEWAIT_EXIT);
        stop();
}

/* All that is posted is flushed, the work requests posted last come last. */
static void drain(struct side *s, unsigned recvs)
{
        struct verbs_wr *sentinel, *recv;
        struct verbs_wc wc;
        unsigned flushed = 0;

        CHECK(verbs_fail(s->ep) == 0);
        sentinel = make_remote(s, 100, VERBS_WRITE, 0, 0, s, 0);
        post(s, sentinel);
        recv = post_recv(s, 101, 0, 0);
        for (bool sent = false, received = false; !sent || !received;) {
                CHECK(completion(s, &wc, WAIT_MS));
                CHECK(wc.status == VERBS_FLUSHED && wc.ep == s->ep);
                if (wc.wr->op == VERBS_RECV) {
                        CHECK(!received);
                        received = wc.wr == recv;
                        flushed += !received;
                }
                sent |= wc.wr == sentinel;
        }
        CHECK(flushed == recvs);
        CHECK(verbs_poll(s->domain, &wc, 1) == 0);
        /* and again */
        post(s, sentinel);
        CHECK(done(s, sentinel, VERBS_FLUSHED));
        recv = post_recv(s, 101, 0, 0);
        CHECK(done(s, recv, VERBS_FLUSHED));
}

static void drained(void)
{
        connected();
        copy(&client, &server, 3, 64, 0);
        for (unsigned i = 10; i < 30; i++)
                post_recv(&client, i, 0, 64);
        drain(&client, 20);
        if (next_event(&server, 300))
                note("peer of the failed queue pair: %s", verbs_event_name(server.event.type));
        else
                note("peer of the failed queue pair: no event");
        drain(&server, 0);
        stop();
}

static void drained_after_disconnect(void)
{
        connected();
        copy(&client, &server, 3, 64, 0);
        post_recv(&client, 10, 0, 64);
        post_recv(&server, 10, 0, 64);
        disconnect(&server, &client);
        drain(&client, 1);
        drain(&server, 1);
        stop();
}

/* A queue pair that never got anywhere. */
static void drained_unconnected(void)
{
        start();
        resolve("10.0.0.2");
        CHECK(verbs_fail(client.ep) == -1 && errno == EINVAL);
        CHECK(verbs_qp(client.ep, &with_rq) == 0);
        post_recv(&client, 10, 0, 64);
        drain(&client, 1);
        stop();
}

/* The work requests go with the endpoint: nothing of it comes afterwards. */
static void destroyed_with_completions(void)
{
        struct verbs_conn_param param = param_of(NULL, 0);
        struct verbs_wc wc;

        start();
        establish(&with_rq, &param);
        for (unsigned i = 10; i < 20; i++)
                post_recv(&server, i, 0, 64);
        for (unsigned i = 0; i < 10; i++)
                post(&client, make(&client, i, VERBS_SEND, 0, 64));
        while (verbs_poll(client.domain, &wc, 1) == 0)
                wait_readable(&client, 1);
        verbs_destroy(server.ep);
        memset(server.wrs, 0xee, sizeof(server.wrs));
        CHECK(!completion(&server, &wc, 50));
        verbs_destroy(client.ep);
        memset(client.wrs, 0xee, sizeof(client.wrs));
        CHECK(!completion(&client, &wc, 50));
        establish(&with_rq, &param); /* the numbers may be the same */
        copy(&client, &server, 3, 64, 0);
        CHECK(verbs_poll(server.domain, &wc, 1) == 0 && verbs_poll(client.domain, &wc, 1) == 0);
        stop();
}

/* --- several contexts --- */

static struct side other;

/* Two contexts use one device. What the thread of one happens to read is about the other. */
static void event_of_another(void)
{
        struct verbs_conn_param param = param_of(NULL, 0);
        struct verbs_wr *wr;
        struct verbs_wc wc;

        start();
        establish(&with_rq, &param);
        copy(&client, &server, 3, 64, 0);
        side_open(&other);
        other.ep = verbs_resolve(other.context, "10.0.0.2", port, 2000);
        CHECK(other.ep && expect(&other, VERBS_RESOLVED));
        side_domain(&other);
        CHECK(other.domain != client.domain);
        post_recv(&client, 2, 0, 64);
        wr = make_remote(&server, 0, VERBS_READ, 0, 4096, &client, 0);
        wr->rkey ^= 0x5500;
        post(&server, wr);
        CHECK(completion(&server, &wc, WAIT_MS));
        CHECK(!next_event(&other, 200));
        while (next_event(&client, 200))
                note("%s", verbs_event_name(client.event.type));
        side_close(&other);
        stop();
}

static void port_down(void)
{
        struct side *sides[] = { &client, &other };

        connected();
        side_open(&other);
        other.ep = verbs_resolve(other.context, "10.0.0.2", port, 2000);
        CHECK(other.ep && expect(&other, VERBS_RESOLVED));
        side_domain(&other);
        CHECK(system("ip link set v0 down") == 0);
        for (int i = 0; i < 2; i++) {
                CHECK(expect(sides[i], VERBS_PORT_DOWN));
                CHECK(!sides[i]->event.ep);
        }
        CHECK(system("ip link set v0 up") == 0);
        for (int i = 0; i < 2; i++) {
                CHECK(expect_among(sides[i], VERBS_PORT_UP));
                CHECK(!sides[i]->event.ep);
        }
        CHECK(system("ip route add 10.0.0.2/32 dev v0 src 10.0.0.1 table 100") == 0);
        side_close(&other);
        stop();
}

static void ipv6(void)
{
        struct verbs_conn_param param = param_of("six", 4);
        char local[64], peer[64];

        start();
        verbs_unlisten(listener);
        listener = verbs_listen(server.context, "[fd00::2]", "0", 16);
        CHECK(listener);
        snprintf(port, sizeof(port), "%u", verbs_listener_port(listener));
        resolve("fd00::2");
        CHECK(verbs_qp(client.ep, &with_rq) == 0);
        CHECK(verbs_connect(client.ep, &param) == 0);
        CHECK(expect(&server, VERBS_CONNECT_REQUEST));
        server.ep = server.event.ep;
        side_domain(&server);
        verbs_addresses(server.ep, local, peer, sizeof(local));
        note("local %s, peer %s", local, peer);
        CHECK(!strcmp(local, "fd00::2") && !strncmp(peer, "[fd00::", 7) && strstr(peer, "]:"));
        CHECK(verbs_qp(server.ep, &with_rq) == 0 && verbs_accept(server.ep, &param) == 0);
        CHECK(expect(&client, VERBS_ESTABLISHED) && expect(&server, VERBS_ESTABLISHED));
        copy(&client, &server, 3, 64, 0);
        stop();
}

/* Connects from a context of its own, again and again. */
static void *connect_often(void *arg)
{
        struct verbs_conn_param param = param_of(NULL, 0);
        struct side *s = arg;
        struct verbs_wr *wr;

        side_open(s);
        for (int i = 0; i < 30; i++) {
                s->ep = verbs_resolve(s->context, "10.0.0.2", port, 2000);
                CHECK(s->ep && expect(s, VERBS_RESOLVED));
                side_domain(s);
                CHECK(verbs_qp(s->ep, &with_rq) == 0);
                CHECK(verbs_connect(s->ep, &param) == 0);
                CHECK(expect(s, VERBS_ESTABLISHED));
                wr = make(s, 0, VERBS_SEND, 0, 64);
                post(s, wr);
                CHECK(done(s, wr, VERBS_SUCCESS));
                if (i % 3 == 0) {
                        CHECK(verbs_disconnect(s->ep) == 0);
                        CHECK(expect(s, VERBS_DISCONNECTED));
                }
                verbs_destroy(s->ep);
        }
        s->ep = NULL;
        side_close(s);
        return NULL;
}

enum { THREADS = 4 };

static void threads(void)
{
        struct verbs_conn_param param = param_of(NULL, 0);
        static struct side sides[THREADS];
        pthread_t thread[THREADS];
        struct verbs_wr *recv, *bad;
        int ended = 0, begun = 0;

        start();
        for (int i = 0; i < THREADS; i++)
                CHECK(pthread_create(&thread[i], NULL, connect_often, &sides[i]) == 0);
        while (ended < THREADS * 30) {
                struct verbs_ep *ep;

                CHECK(next_event(&server, WAIT_MS));
                ep = server.event.ep;
                if (server.event.type == VERBS_CONNECT_REQUEST) {
                        server.domain = verbs_domain(ep);
                        CHECK(server.domain);
                        side_memory(&server);
                        CHECK(verbs_qp(ep, &with_rq) == 0);
                        recv = make(&server, (unsigned)begun++ % WRS, VERBS_RECV, 0, 64);
                        CHECK(verbs_post_recv(ep, recv, &bad) == 0);
                        CHECK(verbs_accept(ep, &param) == 0);
                } else if (server.event.type == VERBS_DISCONNECTED) {
                        verbs_destroy(ep);
                        ended++;
                }
        }
        for (int i = 0; i < THREADS; i++)
                CHECK(pthread_join(thread[i], NULL) == 0);
        note("%d connections by %d threads", begun, THREADS);
        CHECK(begun == THREADS * 30);
        stop();
}

static _Atomic bool handed_over;

static void *other_thread(void *arg)
{
        struct verbs_conn_param param = param_of(NULL, 0);

        while (!handed_over)
                sched_yield();
        other.ep = arg;
        side_domain(&other);
        CHECK(verbs_qp(other.ep, &with_rq) == 0);
        post_recv(&other, 1, 0, 64);
        CHECK(verbs_accept(other.ep, &param) == 0);
        CHECK(expect(&other, VERBS_ESTABLISHED));
        CHECK(other.event.ep == other.ep);
        CHECK(done(&other, &other.wrs[1], VERBS_SUCCESS));
        CHECK(expect(&other, VERBS_DISCONNECTED));
        verbs_disconnect(other.ep);
        side_close(&other);
        return NULL;
}

static void migrated(void)
{
        struct verbs_conn_param param = param_of(NULL, 0);
        pthread_t thread;

        start();
        side_open(&other);
        handed_over = false;
        request(&with_rq, &param); /* made a domain of the server's already */
        CHECK(pthread_create(&thread, NULL, other_thread, server.ep) == 0);
        CHECK(verbs_migrate(server.ep, other.context) == 0);
        server.ep = NULL;
        handed_over = true;
        CHECK(expect(&client, VERBS_ESTABLISHED));
        CHECK(verbs_migrate(client.ep, client.context) == -1 && errno == EBUSY);
        post(&client, make(&client, 0, VERBS_SEND, 0, 64));
        CHECK(done(&client, &client.wrs[0], VERBS_SUCCESS));
        CHECK(verbs_disconnect(client.ep) == 0);
        CHECK(expect(&client, VERBS_DISCONNECTED));
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(!next_event(&server, 20));
        stop();
}

static int resources(const char *what)
{
        char command[128];
        int n = -1;
        FILE *p;

        snprintf(command, sizeof(command),
                 "rdma resource show %s | grep -c 'pid %d\\|comm verbs_pair'", what, (int)getpid());
        p = popen(command, "r");
        CHECK(p && fscanf(p, "%d", &n) == 1);
        pclose(p);
        return n;
}

static void many_connects(void)
{
        static const char *const kinds[] = { "qp", "cm_id", "cq", "pd", "mr", "srq" };
        struct verbs_conn_param param = param_of(NULL, 0);
        int before[6], after[6];
        int64_t begun;

        start();
        establish(&with_rq, &param); /* domains are there from now on */
        verbs_destroy(client.ep);
        verbs_destroy(server.ep);
        while (next_event(&server, 20))
                ;
        for (unsigned i = 0; i < 6; i++)
                before[i] = resources(kinds[i]);
        begun = now_us();
        for (int i = 0; i < 200; i++) {
                establish(&with_rq, &param);
                copy(&client, &server, (unsigned)i, 64, 0);
                CHECK(verbs_disconnect(client.ep) == 0);
                CHECK(expect(&server, VERBS_DISCONNECTED));
                verbs_disconnect(server.ep);
                CHECK(expect(&client, VERBS_DISCONNECTED));
                verbs_destroy(client.ep);
                verbs_destroy(server.ep);
        }
        client.ep = server.ep = NULL;
        note("200 connects and disconnects: %lld us each", (long long)(now_us() - begun) / 200);
        for (unsigned i = 0; i < 6; i++) {
                after[i] = resources(kinds[i]);
                note("%s: %d before, %d after", kinds[i], before[i], after[i]);
                CHECK(before[i] == after[i]);
        }
        stop();
}

/* The link goes away in the middle of it. */
static void *delete_link(void *arg)
{
        char command[64];

        snprintf(command, sizeof(command), "rdma link delete %s", (const char *)arg);
        return (void *)(intptr_t)system(command);
}

static void removed(void)
{
        struct verbs_conn_param param = param_of(NULL, 0);
        struct verbs_wr *wr, *bad;
        struct verbs_wc wc;
        struct verbs_mr mr;
        static uint8_t page[4096];
        pthread_t thread;
        char name[64];

        start();
        establish(&with_rq, &param);
        copy(&client, &server, 3, 64, 0);
        post_recv(&client, 10, 0, 64);
        snprintf(name, sizeof(name), "%s", client.caps->name);
        CHECK(pthread_create(&thread, NULL, delete_link, name) == 0);
        if (!expect_among(&client, VERBS_DEVICE_REMOVED)) {
                puts("SKIPPED");
                _exit(77); /* the link goes with this process */
        }
        CHECK(client.event.ep == client.ep);
        note("%s is removed", name);
        wr = make(&client, 0, VERBS_SEND, 0, 64);
        if (verbs_post(client.ep, wr, &bad) < 0)
                note("post: %s", strerror(errno));
        if (verbs_fail(client.ep) < 0)
                note("fail: %s", strerror(errno));
        while (completion(&client, &wc, 100))
                note("%s: %s", verbs_op_name(wc.wr->op), verbs_status_name(wc.status));
        verbs_destroy(client.ep);
        client.ep = NULL;
        CHECK(verbs_reg(client.domain, page, sizeof(page), 0, &mr) == -1 && errno == ENODEV);
        CHECK(verbs_poll(client.domain, &wc, 1) == -1 && verbs_arm(client.context) == 0);
        CHECK(verbs_grow_cq(client.domain, 100000) == -1 && errno == ENODEV);
        while (next_event(&server, 500))
                note("the peer: %s", verbs_event_name(server.event.type));
        stop();
        pthread_join(thread, NULL);
        note("link delete has ended");
}

/* --- joined by numbers --- */

/* A local endpoint with its queue pair; false: iWARP has none. */
static bool make_local(struct side *s, const char *traddr, struct verbs_numbers *own)
{
        int why;

        s->ep = verbs_local(s->context, traddr);
        why = errno;
        if (!s->ep) {
                note("local endpoint: %s", strerror(why));
                resolve("10.0.0.2");
                CHECK(client.caps->iwarp && why == ENOTSUP);
                return false;
        }
        side_domain(s);
        CHECK(!s->caps->iwarp);
        CHECK(verbs_numbers(s->ep, own) == -1 && errno == EINVAL);
        CHECK(verbs_qp(s->ep, &with_rq) == 0 && verbs_numbers(s->ep, own) == 0);
        return true;
}

static void show_numbers(const struct verbs_numbers *n)
{
        note("queue pair %x, PSN %06x, LID %u, MTU %u, GID ..%02x%02x:%u.%u.%u.%u", n->qpn, n->psn,
             n->lid, n->mtu, n->gid[10], n->gid[11], n->gid[12], n->gid[13], n->gid[14],
             n->gid[15]);
}

static bool make_locals(struct verbs_numbers *c, struct verbs_numbers *s)
{
        static const uint8_t gid[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };

        start();
        if (!make_local(&client, "10.0.0.1", c) || !make_local(&server, "10.0.0.2", s)) {
                stop();
                return false;
        }
        show_numbers(c);
        CHECK(c->qpn > 0 && c->qpn >> 24 == 0 && c->psn >> 24 == 0 && c->mtu >= 256);
        CHECK(memcmp(c->gid, gid, 16) == 0);
        return true;
}

static void join(struct side *s, const struct verbs_numbers *peer)
{
        struct verbs_conn_param param = param_of(NULL, 0);
        int64_t begun = now_us();

        CHECK(verbs_join(s->ep, peer, &param) == 0);
        note("joined after %lld us", (long long)(now_us() - begun));
        CHECK(expect(s, VERBS_ESTABLISHED) && s->event.ep == s->ep);
        CHECK(verbs_join(s->ep, peer, &param) == -1 && errno == EINVAL);
}

/* READ and WRITE of one side in the memory of the other. */
static void move_data(struct side *s, struct side *peer)
{
        struct verbs_wr *wr = make_remote(s, 0, VERBS_WRITE, 65536, 50000, peer, 131072);

        fill(s->memory + 65536, 50000, 7);
        post(s, wr);
        CHECK(done(s, wr, VERBS_SUCCESS));
        wr = make_remote(s, 0, VERBS_READ, 262144, 50000, peer, 131072);
        post(s, wr);
        CHECK(done(s, wr, VERBS_SUCCESS));
        CHECK(memcmp(s->memory + 65536, s->memory + 262144, 50000) == 0);
        CHECK(memcmp(s->memory + 65536, peer->memory + 131072, 50000) == 0);
}

static void joined(void)
{
        struct verbs_numbers c, s;
        char local[64], peer[64];

        for (int turn = 0; turn < 2; turn++) {
                if (!make_locals(&c, &s))
                        return;
                join(turn ? &server : &client, turn ? &c : &s);
                join(turn ? &client : &server, turn ? &s : &c);
                verbs_addresses(client.ep, local, peer, sizeof(local));
                note("local %s, peer %s", local, peer);
                CHECK(!strcmp(local, "10.0.0.1") && !strcmp(peer, "10.0.0.2:0"));
                copy(&client, &server, 3, 100000, 0);
                copy(&server, &client, 4, 64, 0);
                move_data(&client, &server);
                move_data(&server, &client);
                stop();
        }
}

static void joined_ipv6(void)
{
        struct verbs_numbers c, s;
        char peer[64];

        start(); /* on one device: there is no route of IPv6 between two of one machine */
        if (make_local(&client, "fd00::2", &c)) {
                CHECK(make_local(&server, "fd00::2", &s));
                join(&client, &s);
                join(&server, &c);
                verbs_addresses(client.ep, NULL, peer, sizeof(peer));
                note("peer %s", peer);
                CHECK(!strcmp(peer, "[fd00::2]:0"));
                copy(&client, &server, 3, 64, 0);
                copy(&server, &client, 4, 64, 0);
        }
        stop();
}

/* What is posted before the other side has joined is tried again until then. */
static void joined_late(void)
{
        struct verbs_numbers c, s;
        struct verbs_wr *send, *recv;

        if (!make_locals(&c, &s))
                return;
        join(&client, &s);
        recv = post_recv(&server, 1, 0, 64);
        send = make(&client, 0, VERBS_SEND, 0, 64);
        post(&client, send);
        usleep(100000);
        join(&server, &c);
        CHECK(done(&server, recv, VERBS_SUCCESS));
        CHECK(done(&client, send, VERBS_SUCCESS));
        stop();
}

static void expect_nobody(struct side *s)
{
        struct verbs_wr *send = make(s, 0, VERBS_SEND, 0, 64);
        int64_t begun = now_us();

        post(s, send);
        CHECK(done(s, send, VERBS_RETRY_EXCEEDED));
        note("nobody is there: known after %lld us", (long long)(now_us() - begun));
}

static void joined_to_nobody(void)
{
        struct verbs_numbers c, s;

        if (!make_locals(&c, &s))
                return;
        s.qpn ^= 0x5a5a00;
        join(&client, &s);
        expect_nobody(&client);
        stop();
}

/* One side ends; the other side is not told, and sees it when it posts. */
static void joined_parts(void)
{
        struct verbs_numbers c, s;

        for (int fails = 0; fails < 2; fails++) {
                if (!make_locals(&c, &s))
                        return;
                join(&client, &s);
                join(&server, &c);
                copy(&client, &server, 3, 64, 0);
                post_recv(&client, 10, 0, 64);
                CHECK((fails ? verbs_fail(client.ep) : verbs_disconnect(client.ep)) == 0);
                if (!fails)
                        CHECK(expect(&client, VERBS_DISCONNECTED) && client.event.ep == client.ep);
                CHECK(fails || verbs_disconnect(client.ep) == 0);
                CHECK(!next_event(&client, 50) && !next_event(&server, 50));
                CHECK(done(&client, &client.wrs[10], VERBS_FLUSHED));
                drain(&client, 0);
                expect_nobody(&server);
                stop();
        }
}

/* What goes over TCP, as a protocol with a control channel has it. */
struct hello {
        struct verbs_numbers numbers;
        uint64_t addr;
        uint32_t rkey;
};

/* Ours for the peer's, and joined; false: iWARP. Both are in threads of their own. */
static bool join_by_tcp(struct side *s, const char *traddr, int fd, struct hello *peer)
{
        struct verbs_conn_param param = param_of(NULL, 0);
        struct hello own = { .addr = 0 };

        side_open(s);
        if (!make_local(s, traddr, &own.numbers))
                return false;
        own.addr = (uintptr_t)s->memory;
        own.rkey = s->mr.rkey;
        post_recv(s, 1, 0, 64);
        CHECK(send(fd, &own, sizeof(own), MSG_NOSIGNAL) == sizeof(own));
        CHECK(recv(fd, peer, sizeof(*peer), MSG_WAITALL) == sizeof(*peer));
        CHECK(verbs_join(s->ep, &peer->numbers, &param) == 0);
        CHECK(expect(s, VERBS_ESTABLISHED));
        return true;
}

/* A request by SEND; 4 KiB into the requester's memory; the response by SEND. */
static void *serve_by_tcp(void *arg)
{
        int fd = accept(*(int *)arg, NULL, NULL);
        struct hello peer;
        struct verbs_wr *write, *response;

        CHECK(fd >= 0);
        CHECK(join_by_tcp(&server, "10.0.0.2", fd, &peer));
        CHECK(done(&server, &server.wrs[1], VERBS_SUCCESS));
        fill(server.memory + 4096, 4096, server.memory[0]);
        write = make(&server, 2, VERBS_WRITE, 4096, 4096);
        write->remote = peer.addr + 4096;
        write->rkey = peer.rkey;
        write->flags = 0;
        response = make(&server, 3, VERBS_SEND, 64, 64);
        write->next = response;
        post(&server, write);
        CHECK(done(&server, response, VERBS_SUCCESS));
        CHECK(recv(fd, &peer, 1, 0) == 0); /* until the other side has gone */
        close(fd);
        side_close(&server);
        return NULL;
}

static void request_by_tcp(int fd)
{
        struct verbs_wr *request = make(&client, 0, VERBS_SEND, 64, 64);
        uint8_t expected[4096];
        struct verbs_wc wc;

        client.memory[64] = 99;
        post(&client, request);
        for (int i = 0; i < 2; i++) {
                CHECK(completion(&client, &wc, WAIT_MS) && wc.status == VERBS_SUCCESS);
                CHECK(wc.wr == request || wc.wr == &client.wrs[1]);
        }
        fill(expected, sizeof(expected), 99);
        CHECK(memcmp(client.memory + 4096, expected, sizeof(expected)) == 0);
        close(fd);
}

static void joined_by_tcp(void)
{
        struct sockaddr_in at = { .sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t len = sizeof(at);
        struct verbs_numbers c, s;
        struct hello peer;
        pthread_t thread;
        int l, fd;

        if (!make_locals(&c, &s))
                return;
        stop();
        l = socket(AF_INET, SOCK_STREAM, 0);
        fd = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(l >= 0 && bind(l, (void *)&at, len) == 0 && listen(l, 1) == 0);
        CHECK(getsockname(l, (void *)&at, &len) == 0);
        CHECK(pthread_create(&thread, NULL, serve_by_tcp, &l) == 0);
        CHECK(fd >= 0 && connect(fd, (void *)&at, len) == 0);
        CHECK(join_by_tcp(&client, "10.0.0.1", fd, &peer));
        request_by_tcp(fd);
        CHECK(pthread_join(thread, NULL) == 0);
        side_close(&client);
        close(l);
}

/* --- figures ---------------------------------------------------------------------------------- */

static int rounds = 2000;

enum { NEVER, ALWAYS, AWHILE };
static int spin; /* how long to poll before sleeping */

enum { SPIN_YIELDS = 8, BATCH = 32, RECVS = 100 };

/* Some completions, at least one. */
static int take(struct side *s, struct verbs_wc *wc)
{
        int n = verbs_poll(s->domain, wc, BATCH);

        for (int i = 0; n == 0 && (spin == ALWAYS || (spin == AWHILE && i < SPIN_YIELDS)); i++) {
                sched_yield();
                n = verbs_poll(s->domain, wc, BATCH);
        }
        while (n == 0) {
                CHECK(verbs_arm(s->context) == 0);
                n = verbs_poll(s->domain, wc, BATCH);
                if (n == 0)
                        wait_readable(s, WAIT_MS);
        }
        for (int i = 0; i < n; i++)
                CHECK(wc[i].status == VERBS_SUCCESS);
        return n;
}

/* The RECVs among completions are posted again; how many. */
static int repost(struct side *s, const struct verbs_wc *wc, int n)
{
        struct verbs_wr *chain = NULL, *bad;
        int recvs = 0;

        for (int i = 0; i < n; i++)
                if (wc[i].wr->op == VERBS_RECV) {
                        wc[i].wr->next = chain;
                        chain = wc[i].wr;
                        recvs++;
                }
        CHECK(!chain || verbs_post_recv(s->ep, chain, &bad) == 0);
        return recvs;
}

static unsigned turn; /* of the send queue's work requests, DEPTH of each side; client's */

/* One SEND of 64 bytes for each; a completion for every 16th, that the queue be known to have room. */
static void send_some(struct side *s, unsigned *at, int n)
{
        struct verbs_wr *first = NULL, **last = &first;

        for (int i = 0; i < n; i++, ++*at) {
                struct verbs_wr *wr = make(s, *at % DEPTH, VERBS_SEND, 0, 64);

                wr->flags = *at % 16 == 15 ? VERBS_SIGNALED : 0;
                if (s->caps->inline_bytes >= 64)
                        wr->flags |= VERBS_INLINE;
                *last = wr;
                last = &wr->next;
        }
        if (first)
                post(s, first);
}

/* As a target answers: 4 KiB by WRITE, then the response. */
static void answer_some(unsigned *at, int n)
{
        struct verbs_wr *first = NULL, **last = &first;

        for (int i = 0; i < n; i++, ++*at) {
                unsigned k = *at % DEPTH;
                struct verbs_wr *write = make_remote(&server, 2 * k + 200, VERBS_WRITE, 4096 * k,
                                                     4096, &client, 4096 * k),
                                *send = make(&server, 2 * k + 201, VERBS_SEND, 0, 16);

                write->flags = 0;
                send->flags = *at % 16 == 15 ? VERBS_SIGNALED : 0;
                *last = write;
                write->next = send;
                last = &send->next;
        }
        if (first)
                post(&server, first);
}

static bool with_data;

static void *answerer(void *arg)
{
        struct verbs_wc wc[BATCH];
        unsigned at = 0;

        (void)arg;
        for (int left = rounds; left > 0;) {
                int n = repost(&server, wc, take(&server, wc));

                if (with_data)
                        answer_some(&at, n);
                else
                        send_some(&server, &at, n);
                left -= n;
        }
        return NULL;
}

/* So many requests at a time until all rounds are done. */
static void exchange(const char *what, int at_a_time)
{
        static const char *const how[] = { "sleeping", "polling", "polling a while" };
        struct verbs_qp_attr attr = { .send_wrs = 4 * DEPTH,
                                      .recv_wrs = DEPTH,
                                      .inline_bytes = 64 };
        struct verbs_conn_param param = param_of(NULL, 0);
        struct verbs_wc wc[BATCH];
        pthread_t thread;
        int64_t begun, took;
        int sent = at_a_time;

        start();
        establish(&attr, &param);
        turn = 0;
        for (unsigned i = RECVS; i < RECVS + DEPTH; i++) {
                post_recv(&client, i, 65536, 64);
                post_recv(&server, i, 65536, 64);
        }
        CHECK(pthread_create(&thread, NULL, answerer, NULL) == 0);
        begun = now_us();
        send_some(&client, &turn, at_a_time);
        for (int left = rounds; left > 0;) {
                int n = repost(&client, wc, take(&client, wc));
                int more = n < rounds - sent ? n : rounds - sent;

                send_some(&client, &turn, more);
                sent += more;
                left -= n;
        }
        took = now_us() - begun;
        note("%s, %d at a time, %s: %.1f us each, %.0f in a second", what, at_a_time, how[spin],
             (double)took / rounds, rounds * 1e6 / (double)took);
        pthread_join(thread, NULL);
        stop();
}

static void ping_pong(void)
{
        for (spin = NEVER; spin <= AWHILE; spin++)
                exchange("64 bytes there and back", 1);
}

static void requests(void)
{
        with_data = true;
        for (spin = NEVER; spin <= AWHILE; spin++) {
                exchange("4 KiB for a capsule", 1);
                exchange("4 KiB for a capsule", 32);
        }
        with_data = false;
}

static const struct {
        const char *name;
        void (*run)(void);
} cases[] = {
        { "caps", show_caps },
        { "private_data", private_data },
        { "sends", sends },
        { "reads_and_writes", reads_and_writes },
        { "read_into_local_memory", read_into_local_memory },
        { "long_chain", long_chain },
        { "full_queue", full_queue },
        { "srq", srq },
        { "last_wqe", last_wqe },
        { "remote_invalidate_mr", remote_invalidate_mr },
        { "windows", windows },
        { "wrong_key_read", wrong_key_read },
        { "wrong_key_write", wrong_key_write },
        { "too_long_send", too_long_send },
        { "no_receive", no_receive },
        { "reject", reject },
        { "destroyed_unanswered", destroyed_unanswered },
        { "untaken_request", untaken_request },
        { "nobody_listens", nobody_listens },
        { "addresses", addresses },
        { "disconnects", disconnects },
        { "both_disconnect", both_disconnect },
        { "drained", drained },
        { "drained_after_disconnect", drained_after_disconnect },
        { "drained_unconnected", drained_unconnected },
        { "destroyed_with_completions", destroyed_with_completions },
        { "event_of_another", event_of_another },
        { "port_down", port_down },
        { "ipv6", ipv6 },
        { "threads", threads },
        { "migrated", migrated },
        { "many_connects", many_connects },
        { "joined", joined },
        { "joined_ipv6", joined_ipv6 },
        { "joined_late", joined_late },
        { "joined_to_nobody", joined_to_nobody },
        { "joined_parts", joined_parts },
        { "joined_by_tcp", joined_by_tcp },
        { "ping_pong", ping_pong },
        { "requests", requests },
        { "removed", removed }, /* the last: one device less */
};

/* VERBS_MEMORY=rxe or siw in the environment: memory that says of itself what that device does. */
static struct verbs_provider *in_memory(void)
{
        struct memory_caps caps;

        memory_caps_default(&caps);
        caps.device.no_last_wqe = true;
        caps.device.iwarp = strcmp(getenv("VERBS_MEMORY"), "siw") == 0;
        caps.device.windows = caps.device.iwarp ? false : true;
        caps.device.invalidates_mr = caps.device.iwarp;
        caps.no_padding = caps.device.iwarp;
        snprintf(caps.host, sizeof(caps.host), "10.0.0.1");
        return verbs_memory_new(&caps);
}

int main(int argc, char **argv)
{
        const char *wanted = argc > 1 ? argv[1] : "all";
        bool list = strcmp(wanted, "list") == 0, all = strcmp(wanted, "all") == 0;
        char error[256];
        unsigned ran = 0;

        setvbuf(stdout, NULL, _IOLBF, 0);
        if (argc > 2)
                rounds = atoi(argv[2]);
        if (!list)
                provider = getenv("VERBS_MEMORY") ? in_memory() : verbs_rdma(error, sizeof(error));
        if (!list && !provider) {
                printf("%s\n", error);
                return 1;
        }
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                running = cases[i].name;
                if (list) {
                        printf("%s\n", running);
                } else if (all || strcmp(wanted, running) == 0) {
                        cases[i].run();
                        printf("ok %s\n", running);
                        ran++;
                }
        }
        return ran > 0 || list ? 0 : 2;
}
