/* SPDX-License-Identifier: BSD-3-Clause */
#include "page_server.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stream.h"

enum {
        TURN_MS = 200,  /* timers are looked at, where there are clients */
        PAUSE_MS = 100, /* where there is no descriptor for one more client */
        HEAD_MAX = 512,
};

struct client {
        struct stream stream; /* first */
        struct page_server *server;
        char in[PAGE_REQUEST];
        size_t in_len;
        char head[HEAD_MAX];
        char *body;
        size_t head_len, body_len, at; /* at: bytes of both that are out */
        uint64_t deadline;             /* ms */
        bool answered, failed;
        struct client *next; /* the one that came before it */
};

struct page_server {
        struct stream_listener listener; /* first */
        struct loop loop;
        const struct page *page;
        struct client *clients;
        unsigned n_clients;
        uint64_t pause; /* ms: until when nobody is accepted; 0: everybody is */
        pthread_t thread;
        bool running, end;
        struct loop_message ending;
};

/* --- the answer ------------------------------------------------------------------------------- */

static void answer(struct client *c, const char *status, const char *type, char *body, size_t len,
                   bool head_only)
{
        int n = snprintf(c->head, sizeof(c->head),
                         "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s"
                         "Connection: close\r\n\r\n",
                         status, type, len,
                         strncmp(status, "405", 3) == 0 ? "Allow: GET, HEAD\r\n" : "");

        c->head_len = (size_t)n;
        c->body = body;
        c->body_len = head_only ? 0 : len;
        c->answered = true;
}

static void refuse(struct client *c, const char *status)
{
        char *body = malloc(HEAD_MAX);
        int n = body ? snprintf(body, HEAD_MAX, "%s\n", status) : 0;

        answer(c, status, "text/plain; charset=utf-8", body, (size_t)n, false);
}

/* "/metrics", perhaps with a query. */
static bool is_path(const struct page *page, const char *target, size_t len)
{
        size_t n = strlen(page->path);

        return len >= n && strncmp(target, page->path, n) == 0 && (len == n || target[n] == '?');
}

static void serve_page(struct client *c, bool head_only)
{
        const struct page *page = c->server->page;
        size_t len = 0;
        char *body = page->make(page->user, &len);

        if (body)
                answer(c, "200 OK", page->type, body, len, head_only);
        else
                refuse(c, "503 Service Unavailable");
}

/* Its first line: "GET /metrics HTTP/1.1". */
static void take_request(struct client *c)
{
        const char *line = c->in, *end = memchr(line, '\r', c->in_len);
        const char *path = end ? memchr(line, ' ', (size_t)(end - line)) : NULL;
        const char *last = path ? memchr(path + 1, ' ', (size_t)(end - path - 1)) : NULL;
        bool head;

        if (!last || end - last != 9 || strncmp(last, " HTTP/1.", 8) != 0 || path[1] != '/') {
                refuse(c, "400 Bad Request");
                return;
        }
        head = path - line == 4 && strncmp(line, "HEAD", 4) == 0;
        if (!head && !(path - line == 3 && strncmp(line, "GET", 3) == 0))
                refuse(c, "405 Method Not Allowed");
        else if (is_path(c->server->page, path + 1, (size_t)(last - path - 1)))
                serve_page(c, head);
        else
                refuse(c, "404 Not Found");
}

/* --- clients ---------------------------------------------------------------------------------- */

static void receive(struct client *c)
{
        const struct iovec iov = { c->in + c->in_len, sizeof(c->in) - c->in_len };
        ssize_t n = stream_read(&c->stream, &iov, 1);

        c->failed |= n < 0;
        c->in_len += n > 0 ? (size_t)n : 0;
        if (c->answered) { /* what comes now is of no interest, but is not to reset the connection */
                c->in_len = 0;
                return;
        }
        if (memmem(c->in, c->in_len, "\r\n\r\n", 4))
                take_request(c);
        else if (c->in_len == sizeof(c->in))
                refuse(c, "431 Request Header Fields Too Large");
        if (c->answered)
                c->in_len = 0;
}

static bool is_out(const struct client *c)
{
        return c->at == c->head_len + c->body_len;
}

static void send_answer(struct client *c)
{
        while (c->answered && !is_out(c) && !c->failed) {
                bool head = c->at < c->head_len;
                struct iovec iov = { head ? c->head + c->at : c->body + (c->at - c->head_len),
                                     head ? c->head_len - c->at
                                          : c->head_len + c->body_len - c->at };
                ssize_t n = stream_write(&c->stream, &iov, 1);

                if (n == 0)
                        return;
                c->failed |= n < 0;
                c->at += n > 0 ? (size_t)n : 0;
        }
        if (c->answered && !c->failed && !c->stream.half)
                c->failed = stream_half_close(&c->stream) < 0;
}

static void on_ready(struct stream *stream, uint32_t events)
{
        struct client *c = (struct client *)stream;

        if (events & EPOLLIN)
                receive(c);
        else if (events & (EPOLLHUP | EPOLLERR))
                c->failed = true;
        send_answer(c);
        c->failed |= stream_watch(&c->stream, &c->server->loop,
                                  c->failed                   ? 0
                                  : c->answered && !is_out(c) ? EPOLLIN | EPOLLOUT
                                                              : EPOLLIN) < 0;
}

static void free_failed(struct page_server *s)
{
        struct client **at = &s->clients, *c;

        while ((c = *at) != NULL) {
                if (!c->failed) {
                        at = &c->next;
                        continue;
                }
                *at = c->next;
                s->n_clients--;
                stream_close(&c->stream, false);
                free(c->body);
                free(c);
        }
}

static void drop_oldest(struct page_server *s)
{
        struct client *c = s->clients;

        while (c && c->next)
                c = c->next;
        if (c)
                c->failed = true;
        free_failed(s);
}

static void on_connection(struct loop_source *source, uint32_t events)
{
        struct page_server *s = (struct page_server *)source;
        struct stream stream = { 0 };
        struct client *c;

        (void)events;
        if (!stream_accept(&s->listener, &stream)) {
                if (errno != EAGAIN) { /* who waits would wake us at once, again and again */
                        loop_change(&s->loop, source, 0);
                        s->pause = loop_now_ms() + PAUSE_MS;
                }
                return;
        }
        c = calloc(1, sizeof(*c));
        if (!c) {
                stream_close(&stream, false);
                return;
        }
        c->stream = stream;
        c->stream.ready = on_ready;
        c->server = s;
        c->deadline = loop_now_ms() + PAGE_TIMEOUT_MS;
        c->next = s->clients;
        s->clients = c;
        s->n_clients++;
        c->failed = stream_watch(&c->stream, &s->loop, EPOLLIN) < 0;
}

/* --- the thread ------------------------------------------------------------------------------- */

static void *serve(void *arg)
{
        struct page_server *s = arg;

        loop_add(&s->loop, &s->listener.source, EPOLLIN);
        while (!s->end) {
                loop_turn(&s->loop, s->clients || s->pause ? TURN_MS : -1);
                if (s->pause && loop_left(s->pause) == 0) {
                        s->pause = 0;
                        loop_change(&s->loop, &s->listener.source, EPOLLIN);
                }
                for (struct client *c = s->clients; c; c = c->next)
                        c->failed |= loop_left(c->deadline) == 0;
                free_failed(s);
                while (s->n_clients > PAGE_CLIENTS)
                        drop_oldest(s);
        }
        loop_remove(&s->loop, &s->listener.source);
        for (struct client *c = s->clients; c; c = c->next)
                c->failed = true;
        free_failed(s);
        return NULL;
}

static void on_ending(struct loop_message *m)
{
        struct page_server *s =
            (struct page_server *)(void *)((char *)m - offsetof(struct page_server, ending));

        s->end = true;
}

/* --- from the beginning to the end ------------------------------------------------------------ */

struct page_server *page_server_open(const char *traddr, const char *trsvcid, char *error,
                                     size_t size)
{
        struct page_server *s = calloc(1, sizeof(*s));

        snprintf(error, size, "%s", strerror(ENOMEM));
        if (!s)
                return NULL;
        s->ending.run = on_ending;
        if (loop_init(&s->loop) < 0) {
                snprintf(error, size, "%s", strerror(errno));
                free(s);
                return NULL;
        }
        if (stream_listen(&s->listener, traddr, trsvcid, error, size) < 0) {
                loop_fini(&s->loop);
                free(s);
                return NULL;
        }
        s->listener.source.ready = on_connection;
        return s;
}

uint16_t page_server_port(const struct page_server *s)
{
        return stream_listener_port(&s->listener);
}

int page_server_run(struct page_server *s, const struct page *page)
{
        s->page = page;
        errno = pthread_create(&s->thread, NULL, serve, s);
        s->running = errno == 0;
        return s->running ? 0 : -1;
}

void page_server_close(struct page_server *s)
{
        if (!s)
                return;
        if (s->running) {
                loop_post(&s->loop, &s->ending);
                pthread_join(s->thread, NULL);
        }
        stream_unlisten(&s->listener);
        loop_fini(&s->loop);
        free(s);
}
