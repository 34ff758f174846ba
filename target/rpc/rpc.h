/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A running target driven by JSON-RPC, with the methods, parameters and results of SPDK's, and a few of our
 * own (nvmfspec_...). What a method changes it changes in a copy of the configuration, which is then
 * applied as a reload is: in full or not at all, but for sizes that a file asks for and cannot have.
 */
#ifndef NVMF_TARGET_RPC_H
#define NVMF_TARGET_RPC_H

#include "pdu/io/jsonrpc.h"

struct config;
struct rpc;
struct rpc_place;
struct target;

#define RPC_SOCKET "/var/tmp/spdk.sock" /* where SPDK's tools look */
#define RPC_LOGIN  "nvmfspec_login"

/* Takes the places, before the target's threads are born. NULL: error has one line. */
struct rpc *rpc_open(const struct rpc_place *at, char *error, size_t size);
/* The Unix socket's owner. 0, or -1 with errno. */
int rpc_give(const struct rpc *r, unsigned uid, unsigned gid);
/* Serves the target, which has been started with c; wait: framework_start_init is awaited first. 0, or
 * -1 with errno. */
int rpc_run(struct rpc *r, struct target *t, const struct config *c, bool wait);
/* Another configuration in place of what there is; as target_change(). */
int rpc_replace(struct rpc *r, const struct config *c, char *error, size_t size);
/* Before the target ends. NULL: nothing. */
void rpc_end(struct rpc *r);
/* After it. */
void rpc_free(struct rpc *r);

/* What can be called: for clients, which have the same program. */
extern const struct jsonrpc_method rpc_methods[];

#endif
