/* SPDX-License-Identifier: BSD-3-Clause */
#include "rpc_server.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pdu/core/wipe.h"
#include "stream.h"

enum {
        IN = 16384,     /* bytes that are read at once */
        REQUESTS = 32,  /* of one client in a turn */
        TURN_MS = 500,  /* timers are looked at */
        AGAIN_MS = 20,  /* methods that could not be answered yet are asked again */
        PAUSE_MS = 100, /* where there is no descriptor for one more client */
        LISTENERS = 2,
};

struct client {
        struct stream stream; /* first */
        struct rpc_server *server;
        struct jsonrpc_input input;
        char in[IN];
        size_t in_at, in_len;
        char *out;
        size_t out_at, out_len, out_room;
        struct json_object *waiting; /* a request that is answered later */
        bool again;                  /* ... and has been tried */
        uint64_t since;              /* ms: a request has begun, or output waits; 0: neither */
        bool trusted;
        bool
            last_words; /* then what comes is dropped until the client's end, or a reset would overtake them */
        bool failed; /* it is over: the next turn frees it */
        struct client *next;
};

struct listener {
        struct stream_listener at; /* first */
        struct rpc_server *server;
        bool open, trusted;
        uint64_t pause; /* ms: until when it is not looked at; 0: it is */
};

struct rpc_server {
        struct loop loop;
        struct listener listeners[LISTENERS];
        const struct jsonrpc *rpc;
        char *path, *login, *token;
        struct client *clients; /* the latest first */
        pthread_t thread;
        bool running;
        struct loop_message ending;
        bool end; /* the thread's */
};

/* --- answers ---------------------------------------------------------------------------------- */

static bool make_room(struct client *c, size_t len)
{
        size_t room = c->out_room ? c->out_room : IN;
        char *more;

        if (c->out_at > 0) {
                memmove(c->out, c->out + c->out_at, c->out_len - c->out_at);
                c->out_len -= c->out_at;
                c->out_at = 0;
        }
        if (len > RPC_ANSWERS - c->out_len)
                return false;
        while (room - c->out_len < len)
                room *= 2;
        more = realloc(c->out, room);
        if (!more)
                return false;
        c->out = more;
        c->out_room = room;
        return true;
}

static void put_answer(struct client *c, struct json_object *answer)
{
        size_t len;
        const char *text =
            json_object_to_json_string_length(answer, JSON_C_TO_STRING_NOSLASHESCAPE, &len);

        if (text && len >= RPC_ANSWERS) {
                answer = jsonrpc_too_long(answer, len, RPC_ANSWERS - 1);
                text =
                    json_object_to_json_string_length(answer, JSON_C_TO_STRING_NOSLASHESCAPE, &len);
        }
        if (text && make_room(c, len + 1)) {
                memcpy(c->out + c->out_len, text, len);
                c->out[c->out_len + len] = '\n';
                c->out_len += len + 1;
        } else {
                c->failed = true;
        }
        json_object_put(answer);
}

static void flush(struct client *c)
{
        while (c->out_at < c->out_len && !c->failed) {
                const struct iovec iov = { c->out + c->out_at, c->out_len - c->out_at };
                ssize_t n = stream_write(&c->stream, &iov, 1);

                if (n == 0)
                        return;
                c->failed = n < 0;
                c->out_at += n > 0 ? (size_t)n : 0;
        }
        c->out_at = c->out_len = 0;
        if (c->last_words && !c->stream.half && !c->failed)
                c->failed = stream_half_close(&c->stream) < 0;
}

/* --- requests --------------------------------------------------------------------------------- */

static unsigned count_clients(const struct rpc_server *s, bool trusted)
{
        unsigned n = 0;

        for (const struct client *c = s->clients; c; c = c->next)
                n += c->trusted == trusted && !c->failed;
        return n;
}

/* False: there are too many; it is told so. */
static bool trust(struct client *c, struct json_object *id)
{
        if (count_clients(c->server, true) < RPC_CLIENTS) {
                c->trusted = true;
                return true;
        }
        put_answer(c, jsonrpc_error(id, JSONRPC_INTERNAL, "There are too many clients"));
        c->last_words = true;
        return false;
}

/* In a time that does not tell how much of it is right. */
static bool is_token(const char *token, const char *given, size_t len)
{
        unsigned char differs = strlen(token) != len;

        for (size_t i = 0; i < len; i++)
                differs |= (unsigned char)(given[i] ^ token[differs ? 0 : i]);
        return !differs;
}

/* {"method": LOGIN, "params": {"token": TOKEN}} */
static void log_in(struct client *c, struct json_object *request)
{
        const struct rpc_server *s = c->server;
        struct json_object *method = NULL, *params = NULL, *token = NULL, *id = NULL, *answer;
        bool right;

        if (json_object_is_type(request, json_type_object)) {
                json_object_object_get_ex(request, "method", &method);
                json_object_object_get_ex(request, "params", &params);
                json_object_object_get_ex(request, "id", &id);
        }
        if (json_object_is_type(params, json_type_object))
                json_object_object_get_ex(params, "token", &token);
        right = json_object_is_type(method, json_type_string) &&
                strcmp(json_object_get_string(method), s->login) == 0 &&
                json_object_is_type(token, json_type_string) &&
                is_token(s->token, json_object_get_string(token),
                         (size_t)json_object_get_string_len(token));
        if (right && trust(c, id)) {
                answer = json_object_new_object();
                json_object_object_add(answer, "jsonrpc", json_object_new_string("2.0"));
                json_object_object_add(answer, "id", json_object_get(id));
                json_object_object_add(answer, "result", json_object_new_boolean(true));
                put_answer(c, answer);
        } else if (!right) {
                put_answer(c, jsonrpc_refusal(JSONRPC_INVALID));
                c->last_words = true;
        }
}

static void answer(struct client *c)
{
        struct json_object *text = NULL;

        if (!jsonrpc_answer(c->server->rpc, c->waiting, c->again, &text)) {
                c->again = true;
                return;
        }
        c->again = false;
        json_object_put(c->waiting);
        c->waiting = NULL;
        if (text)
                put_answer(c, text);
}

static void feed_client(struct client *c)
{
        size_t n = c->in_len - c->in_at;

        switch (jsonrpc_feed(&c->input, c->in + c->in_at, &n, &c->waiting)) {
        case JSONRPC_MORE:
                break;
        case JSONRPC_BAD:
                put_answer(c, jsonrpc_refusal(JSONRPC_PARSE));
                c->last_words = true;
                break;
        case JSONRPC_WHOLE:
                if (c->trusted) {
                        c->since = 0; /* the next one has its own time */
                        answer(c);
                        break;
                }
                log_in(c, c->waiting);
                json_object_put(c->waiting);
                c->waiting = NULL;
                break;
        }
        c->in_at += n;
}

static bool has_input(const struct client *c)
{
        return c->in_at < c->in_len && !c->waiting && c->out_len == 0 && !c->last_words &&
               !c->failed;
}

static void receive(struct client *c)
{
        const struct iovec iov = { c->in, sizeof(c->in) };
        ssize_t n;

        if (c->in_at < c->in_len || c->waiting)
                return;
        n = stream_read(&c->stream, &iov, 1);
        c->in_at = 0;
        c->in_len = n > 0 && !c->last_words ? (size_t)n : 0;
        c->failed |= n < 0;
}

static void free_failed(struct rpc_server *s)
{
        struct client **at = &s->clients, *c;

        while ((c = *at) != NULL) {
                if (!c->failed) {
                        at = &c->next;
                        continue;
                }
                *at = c->next;
                stream_close(&c->stream, false);
                jsonrpc_input_free(&c->input);
                json_object_put(c->waiting);
                free(c->out);
                free(c);
        }
}

/* Takes what there is, a little at a time. */
static void work(struct client *c)
{
        unsigned left = REQUESTS;
        bool blocked;

        flush(c);
        while (has_input(c) && left-- > 0) {
                feed_client(c);
                flush(c);
        }
        if (c->last_words)
                c->in_at = c->in_len;
        blocked = c->out_at < c->out_len;
        if (!blocked && c->input.used == 0 && c->trusted && !c->last_words)
                c->since = 0;
        else if (c->since == 0)
                c->since = loop_now_ms();
        c->failed |= stream_watch(&c->stream, &c->server->loop,
                                  c->failed                            ? 0
                                  : blocked                            ? EPOLLOUT
                                  : c->waiting || c->in_at < c->in_len ? 0
                                                                       : EPOLLIN) < 0;
}

static void on_ready(struct stream *stream, uint32_t events)
{
        struct client *c = (struct client *)stream;

        if (events & EPOLLIN)
                receive(c);
        else if (events & (EPOLLHUP | EPOLLERR))
                c->failed = true;
        work(c);
}

static void on_connection(struct loop_source *source, uint32_t events)
{
        struct listener *l = (struct listener *)source;
        struct rpc_server *s = l->server;
        struct stream stream = { 0 };
        struct client *c;

        (void)events;
        if (!stream_accept(&l->at, &stream)) {
                if (errno != EAGAIN) { /* who waits would wake us at once, again and again */
                        loop_change(&s->loop, source, 0);
                        l->pause = loop_now_ms() + PAUSE_MS;
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
        c->next = s->clients;
        s->clients = c;
        if (l->trusted)
                trust(c, NULL);
        work(c);
}

static void drop_strangers(struct rpc_server *s)
{
        unsigned n = 0;

        for (struct client *c = s->clients; c; c = c->next)
                if (!c->trusted && !c->failed && ++n > RPC_STRANGERS)
                        c->failed = true;
}

/* --- the thread ------------------------------------------------------------------------------- */

static void look_after(struct client *c)
{
        unsigned ms = c->trusted ? RPC_TIMEOUT_MS : RPC_LOGIN_MS;

        if (c->waiting)
                answer(c);
        else if (c->since && loop_now_ms() - c->since >= ms)
                c->failed = true;
        work(c);
}

static int wait_ms(const struct rpc_server *s)
{
        int ms = TURN_MS;

        for (const struct client *c = s->clients; c; c = c->next)
                if (has_input(c))
                        return 0;
                else if (c->waiting)
                        ms = AGAIN_MS;
        return ms;
}

static void end_pauses(struct rpc_server *s)
{
        for (struct listener *l = s->listeners; l < s->listeners + LISTENERS; l++)
                if (l->pause && loop_left(l->pause) == 0) {
                        l->pause = 0;
                        loop_change(&s->loop, &l->at.source, EPOLLIN);
                }
}

static void *serve(void *arg)
{
        struct rpc_server *s = arg;

        for (unsigned i = 0; i < LISTENERS; i++)
                if (s->listeners[i].open)
                        loop_add(&s->loop, &s->listeners[i].at.source, EPOLLIN);
        while (!s->end) {
                loop_turn(&s->loop, wait_ms(s));
                end_pauses(s);
                for (struct client *c = s->clients; c; c = c->next)
                        look_after(c);
                drop_strangers(s);
                free_failed(s);
        }
        for (unsigned i = 0; i < LISTENERS; i++)
                if (s->listeners[i].open)
                        loop_remove(&s->loop, &s->listeners[i].at.source);
        for (struct client *c = s->clients; c; c = c->next)
                c->failed = true;
        free_failed(s);
        return NULL;
}

static void on_ending(struct loop_message *m)
{
        struct rpc_server *s =
            (struct rpc_server *)(void *)((char *)m - offsetof(struct rpc_server, ending));

        s->end = true;
}

struct message {
        struct loop_message message; /* first */
        void (*fn)(void *arg);
        void *arg;
        sem_t done;
};

static void on_message(struct loop_message *loop_message)
{
        struct message *m = (struct message *)loop_message;

        m->fn(m->arg);
        sem_post(&m->done);
}

void rpc_server_call(struct rpc_server *s, void (*fn)(void *arg), void *arg)
{
        struct message m = { .message.run = on_message, .fn = fn, .arg = arg };

        sem_init(&m.done, 0, 0);
        loop_post(&s->loop, &m.message);
        while (sem_wait(&m.done) < 0 && errno == EINTR)
                ;
        sem_destroy(&m.done);
}

/* --- from the beginning to the end ------------------------------------------------------------ */

static bool copy_names(struct rpc_server *s, const struct rpc_place *at)
{
        s->path = at->path ? strdup(at->path) : NULL;
        s->login = at->login ? strdup(at->login) : NULL;
        s->token = at->token ? strdup(at->token) : NULL;
        return !(at->path && !s->path) && !(at->login && !s->login) && !(at->token && !s->token);
}

static bool listen_everywhere(struct rpc_server *s, const struct rpc_place *at, char *error,
                              size_t size)
{
        struct listener *local = &s->listeners[0], *tcp = &s->listeners[1];

        local->server = tcp->server = s;
        if (at->path) {
                if (stream_listen_local(&local->at, at->path, error, size) < 0)
                        return false;
                local->at.source.ready = on_connection;
                local->open = local->trusted = true;
        }
        if (at->traddr) {
                if (stream_listen(&tcp->at, at->traddr, at->trsvcid, error, size) < 0)
                        return false;
                tcp->at.source.ready = on_connection;
                tcp->open = true;
        }
        return true;
}

struct rpc_server *rpc_server_open(const struct rpc_place *at, char *error, size_t size)
{
        struct rpc_server *s = calloc(1, sizeof(*s));

        snprintf(error, size, "%s", strerror(ENOMEM));
        if (!s)
                return NULL;
        s->ending.run = on_ending;
        if (loop_init(&s->loop) < 0) {
                snprintf(error, size, "%s", strerror(errno));
                free(s);
                return NULL;
        }
        if (copy_names(s, at) && listen_everywhere(s, at, error, size))
                return s;
        rpc_server_close(s);
        return NULL;
}

int rpc_server_give(const struct rpc_server *s, unsigned uid, unsigned gid)
{
        return s->path ? lchown(s->path, uid, gid) : 0;
}

int rpc_server_run(struct rpc_server *s, const struct jsonrpc *j)
{
        s->rpc = j;
        errno = pthread_create(&s->thread, NULL, serve, s);
        s->running = errno == 0;
        return s->running ? 0 : -1;
}

void rpc_server_close(struct rpc_server *s)
{
        if (!s)
                return;
        if (s->running) {
                loop_post(&s->loop, &s->ending);
                pthread_join(s->thread, NULL);
        }
        for (unsigned i = 0; i < LISTENERS; i++)
                if (s->listeners[i].open)
                        stream_unlisten(&s->listeners[i].at);
        if (s->listeners[0].open)
                unlink(s->path);
        loop_fini(&s->loop);
        free(s->path);
        free(s->login);
        if (s->token)
                wipe(s->token, strlen(s->token));
        free(s->token);
        free(s);
}

/* --- the other end ----------------------------------------------------------------------------- */

static struct json_object *request_of(const char *method, struct json_object *params, int id)
{
        struct json_object *r = json_object_new_object();

        json_object_object_add(r, "jsonrpc", json_object_new_string("2.0"));
        json_object_object_add(r, "id", json_object_new_int(id));
        json_object_object_add(r, "method", json_object_new_string(method));
        if (params)
                json_object_object_add(r, "params", json_object_get(params));
        return r;
}

/* The answer may be longer than a request: it is read whole by a tokener of its own. */
static struct json_object *read_answer(struct stream *s, uint64_t deadline, const char **why)
{
        struct json_tokener *t = json_tokener_new();
        struct json_object *v = NULL;
        size_t left = RPC_ANSWERS + IN;
        char bytes[IN];

        *why = "no answer";
        while (t && !v && left > IN) {
                const struct iovec iov = { bytes, sizeof(bytes) };
                ssize_t n = stream_read(s, &iov, 1);

                if (n < 0 || (n == 0 && stream_wait(s, EPOLLIN, loop_left(deadline)) <= 0)) {
                        *why = n < 0 ? "closed the connection" : "timed out";
                        break;
                }
                left -= (size_t)n;
                v = n > 0 ? json_tokener_parse_ex(t, bytes, (int)n) : NULL;
                if (!v && json_tokener_get_error(t) != json_tokener_continue && n > 0) {
                        *why = "the answer is not JSON";
                        break;
                }
        }
        if (t)
                json_tokener_free(t);
        return v;
}

static struct json_object *ask(struct stream *s, const char *method, struct json_object *params,
                               int id, uint64_t deadline, const char **why)
{
        struct json_object *request = request_of(method, params, id), *answer = NULL;
        const char *text = json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN);
        struct stream_hand hand = { .deadline = deadline };

        *why = "does not read";
        if (stream_send(s, text, strlen(text), &hand) > 0)
                answer = read_answer(s, deadline, why);
        json_object_put(request);
        return answer;
}

static bool is_full(struct json_object *answer)
{
        struct json_object *error = NULL, *code = NULL;

        return json_object_object_get_ex(answer, "error", &error) &&
               json_object_object_get_ex(error, "code", &code) &&
               json_object_get_int(code) == JSONRPC_INTERNAL;
}

static bool log_in_there(struct stream *s, const struct rpc_place *at, uint64_t deadline,
                         const char **why)
{
        struct json_object *params = json_object_new_object(), *answer;
        bool ok;

        json_object_object_add(params, "token", json_object_new_string(at->token));
        answer = ask(s, at->login, params, 0, deadline, why);
        ok = answer && json_object_object_get_ex(answer, "result", NULL);
        if (answer && !ok)
                *why = is_full(answer) ? "has too many clients" : "refuses the token";
        json_object_put(answer);
        json_object_put(params);
        return ok;
}

struct json_object *rpc_call(const struct rpc_place *at, const char *method,
                             struct json_object *params, unsigned ms, char *error, size_t size)
{
        uint64_t deadline = loop_now_ms() + ms;
        struct stream s = { 0 };
        struct json_object *answer = NULL;
        const char *why = "";

        if ((at->path ? stream_connect_local(&s, at->path, error, size)
                      : stream_connect(&s, at->traddr, at->trsvcid, ms, error, size)) < 0)
                return NULL;
        if (at->path || log_in_there(&s, at, deadline, &why))
                answer = ask(&s, method, params, 1, deadline, &why);
        if (!answer)
                snprintf(error, size, "%s: %s", at->path ? at->path : at->traddr, why);
        stream_close(&s, false);
        return answer;
}
