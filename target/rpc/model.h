/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of the RPC, shared by its files: what it knows beside the target's own inventory, and how
 * methods change it. All of it belongs to the RPC's thread.
 */
#ifndef NVMF_TARGET_RPC_MODEL_H
#define NVMF_TARGET_RPC_MODEL_H

#include "pdu/io/json.h"
#include "pdu/io/rpc_server.h"
#include "rpc.h"
#include "target/ns/bdev.h"
#include "target/nvme/config.h"
#include "target/nvme/control.h"

enum {
        BDEVS_MAX = 1024,
        KEYS_MAX = 256,
        PATH_ROOM = 512,
        SUBSYSTEMS_MAX = 1024,
        REFERRALS_MAX = 256,
        TARGETS_MAX = 16, /* beside RPC_TARGET */
        TARGET_NAME = 255,
};

#define RPC_TARGET            "nvmf_tgt" /* the one that serves */
#define RPC_DISCOVERY_FILTERS "match_any|transport|address|svcid"
#define RPC_DUP_HOST_POLICIES "allow|restrict_per_listener"

#define LATENCY_MAX           UINT64_C(3600000000) /* us */

struct rpc_key { /* read when it is used */
        char name[CONFIG_KEY_NAME + 1], path[PATH_ROOM];
};

struct rpc {
        struct jsonrpc rpc;
        struct rpc_server *server;
        struct target *target;
        struct config config;      /* as it is applied */
        struct config_port shared; /* its referrals are those of every port */
        struct bdev *bdevs[BDEVS_MAX];
        unsigned n_bdevs;
        struct rpc_key *keys;
        unsigned n_keys;
        char targets[TARGETS_MAX][TARGET_NAME + 1]; /* that were created; they hold nothing */
        unsigned n_targets;
        bool transports[2]; /* of TCP and RDMA: there is one */
        unsigned max_subsystems;
        uint64_t digests, groups; /* that hosts with keys may use, as masks of auth_keys; 0: all */
        unsigned level;           /* of the log: place in RPC_LEVELS */
        unsigned serial;          /* of names that are made */
};

#define RPC_LEVELS "ERROR|WARNING|NOTICE|INFO|DEBUG"

/* Rows of a table of parameters. */
#define PARAM(type, field, kind_, ...)                                                             \
        {                                                                                          \
                .name = #field, .kind = JSONRPC_##kind_, .at = offsetof(struct type, field),       \
                __VA_ARGS__                                                                        \
        }
#define UNUSED(name_, kind_)                                                                       \
        {                                                                                          \
                .name = name_, .kind = JSONRPC_##kind_, .effect = JSONRPC_UNUSED                   \
        }
#define FIXED(name_, kind_, value, ...)                                                            \
        {                                                                                          \
                .name = name_, .kind = JSONRPC_##kind_, .effect = JSONRPC_FIXED,                   \
                .otherwise = (value), __VA_ARGS__                                                  \
        }
#define REQUIRED .required = true

/* A method of the table. */
#define METHOD(name) void rpc_##name(void *owner, const void *args, struct jsonrpc_call *call)

/* --- changes ---------------------------------------------------------------------------------- */

/* A copy of the configuration to change. False: the call has failed. */
bool rpc_edit(struct rpc *r, struct config *next, struct jsonrpc_call *call);
/* Applies it, and it is the configuration then; or frees it, and the call has failed with `code`. */
bool rpc_commit(struct rpc *r, struct config *next, int code, struct jsonrpc_call *call);
/* Drops a copy. */
void rpc_abandon(struct config *next);

/* --- bdevs ------------------------------------------------------------------------------------ */

struct bdev *rpc_bdev(const struct rpc *r, const char *name); /* by name or UUID; NULL: none */
/* Whether a namespace or a layer is on it: it cannot be deleted then. */
bool rpc_bdev_claimed(const struct rpc *r, const struct bdev *b);
/* Puts the reference to each that r has; those that namespaces use stay. */
void rpc_bdevs_free(struct rpc *r);

/* --- what is shown ---------------------------------------------------------------------------- */

/* Adds a string; bytes that are not printable ASCII become '?'. */
void put_text(struct json_object *o, const char *name, const char *text);
void put_uuid(struct json_object *o, const char *name, const uint8_t uuid[16]);
/* In upper-case digits; n: at most 32. */
void put_hex(struct json_object *o, const char *name, const uint8_t *bytes, size_t n);
/* One more object at the end. */
struct json_object *add_object(struct json_object *array);
/* {"method": NAME, "params": {}}; the params. */
struct json_object *add_call(struct json_object *array, const char *method);

/* 32 hexadecimal digits, with dashes wherever. */
bool take_uuid(const char *text, uint8_t uuid[16]);

/* Adds to the array `into` the calls that make it what it is now. */
void rpc_save_bdevs(const struct rpc *r, struct json_object *into);
void rpc_save_target(const struct rpc *r, struct json_object *into);
void rpc_save_transports(const struct rpc *r, struct json_object *into);
void rpc_save_faults(const struct rpc *r, struct json_object *into);
void rpc_save_trace(const struct rpc *r, struct json_object *into);
void rpc_save_nvmf(const struct rpc *r, struct json_object *into);

/* Tables of the parts; each ends with name NULL. */
extern const struct jsonrpc_param rpc_no_params[];

#endif
