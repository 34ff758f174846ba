/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JSON-RPC on a Unix socket, and by request over TCP: a thread of its own serves a few clients and calls
 * the methods one after the other, so nobody else waits for a client. Whoever can open the Unix socket
 * (mode 0600) may call everything; over TCP a client's first request is `login` with the token.
 *
 * Bounds: clients, bytes and depth of a request (jsonrpc.h), bytes of answers that are not read, the
 * time that a request may take to arrive and an answer to be read. Who exceeds one is closed. Who has not logged in
 * takes no place of those who may call.
 */
#ifndef NVMF_IO_RPC_SERVER_H
#define NVMF_IO_RPC_SERVER_H

#include "jsonrpc.h"

enum {
        RPC_CLIENTS = 32,   /* at once; one more is told so and closed */
        RPC_STRANGERS = 16, /* over TCP without login; one more takes the place of the oldest */
        RPC_ANSWERS = JSONRPC_ANSWERS, /* bytes that wait to be read */
        RPC_TIMEOUT_MS = 30000,        /* for the rest of a request, and for answers to be read */
        RPC_LOGIN_MS = 5000,           /* over TCP, for the first request */
        RPC_TOKEN_MIN = 16,            /* bytes */
        RPC_TOKEN_MAX = 256,
};

struct rpc_server;

struct rpc_place {
        const char *path;             /* Unix socket; NULL: none */
        const char *traddr, *trsvcid; /* TCP; NULL: none */
        const char *login, *token; /* of TCP: the method's name, and what it is given as "token" */
};

/*
 * Takes the places; nobody is served before rpc_server_run(). A socket that nobody listens on any more is
 * replaced. No other thread may create files meanwhile (umask). NULL: error has one line.
 */
struct rpc_server *rpc_server_open(const struct rpc_place *at, char *error, size_t size);
/* The Unix socket's owner from here on. 0, or -1 with errno. */
int rpc_server_give(const struct rpc_server *s, unsigned uid, unsigned gid);
/* j outlives it; its state may be changed by methods. 0, or -1 with errno. */
int rpc_server_run(struct rpc_server *s, const struct jsonrpc *j);
/* Runs fn(arg) on its thread, between two methods, and waits for it. */
void rpc_server_call(struct rpc_server *s, void (*fn)(void *arg), void *arg);
/* Waits for the method that runs; closes all, and removes the Unix socket. NULL: nothing. */
void rpc_server_close(struct rpc_server *s);

/* --- the other end ----------------------------------------------------------------------------- */

/*
 * Calls a method at `at` (its path, or TCP with login), and waits for the answer, at most for ms. NULL:
 * error has one line; else the answer, with "result" or "error". params may be NULL, and is kept.
 */
struct json_object *rpc_call(const struct rpc_place *at, const char *method,
                             struct json_object *params, unsigned ms, char *error, size_t size);

#endif
