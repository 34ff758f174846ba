/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of methods, what they share, and those of the framework: states, log, keys, saving. */
#include "rpc.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "methods.h"
#include "model.h"
#include "pdu/io/log.h"
#include "target/nvme/service.h"

#define VERSION "nvmfspec 0.1.0"

const struct jsonrpc_param rpc_no_params[] = { { 0 } };

const struct jsonrpc_method rpc_methods[] = {
#define METHOD_ROW(name, params, when_) { #name, rpc_##name, params, JSONRPC_##when_ },
#define none                            rpc_no_params
#include "methods.def"
#undef none
#undef METHOD_ROW
        { 0 },
};

/* --- changes ---------------------------------------------------------------------------------- */

bool rpc_edit(struct rpc *r, struct config *next, struct jsonrpc_call *call)
{
        if (config_copy(next, &r->config))
                return true;
        config_free(next);
        jsonrpc_fail(call, -ENOMEM, "%s", "");
        return false;
}

void rpc_abandon(struct config *next)
{
        config_free(next);
}

static bool share_referrals(const struct rpc *r, struct config *c)
{
        for (unsigned i = 0; i < c->n_ports; i++) {
                struct config_port *p = &c->ports[i];

                while (p->n_referrals > 0)
                        config_remove_referral(p, p->n_referrals - 1);
                for (unsigned k = 0; k < r->shared.n_referrals; k++) {
                        struct config_referral *ref = config_add_referral(p);

                        if (!ref)
                                return false;
                        *ref = r->shared.referrals[k];
                }
        }
        return true;
}

/* A port "0" is the one that it became. */
static void note_ports(struct rpc *r)
{
        for (unsigned i = 0; i < r->config.n_ports; i++) {
                struct config_port *p = &r->config.ports[i];
                const struct port *live = inventory_port(target_inventory(r->target), p->id);

                if (live)
                        strcpy(p->trsvcid, live->trsvcid);
        }
}

bool rpc_commit(struct rpc *r, struct config *next, int code, struct jsonrpc_call *call)
{
        char error[JSONRPC_MESSAGE] = "out of memory";
        int rc =
            share_referrals(r, next) ? target_change(r->target, next, error, sizeof(error)) : -1;

        if (rc < 0) {
                config_free(next);
                jsonrpc_fail(call, code, "%s: %.300s",
                             code == JSONRPC_PARAMS ? "Invalid parameters" : "Internal error",
                             error);
                return false;
        }
        if (rc > 0) /* what the file asks for, once more */
                log_line(LOG_AS_WARNING, NULL, NULL, "%s", error);
        config_free(&r->config);
        r->config = *next;
        note_ports(r);
        return true;
}

/* --- what is shown ---------------------------------------------------------------------------- */

void put_text(struct json_object *o, const char *name, const char *text)
{
        char *plain = strdup(text);

        for (char *c = plain; c && *c; c++)
                if (*c < 0x20 || *c > 0x7e)
                        *c = '?';
        json_object_object_add(o, name, plain ? json_object_new_string(plain) : NULL);
        free(plain);
}

void put_hex(struct json_object *o, const char *name, const uint8_t *bytes, size_t n)
{
        char text[65] = "";

        for (size_t i = 0; i < n; i++)
                snprintf(text + 2 * i, sizeof(text) - 2 * i, "%02X", bytes[i]);
        put_text(o, name, text);
}

void put_uuid(struct json_object *o, const char *name, const uint8_t uuid[16])
{
        char text[40], *at = text;

        for (unsigned i = 0; i < 16; i++)
                at += snprintf(at, 4, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                               uuid[i]);
        put_text(o, name, text);
}

struct json_object *add_object(struct json_object *array)
{
        struct json_object *o = json_object_new_object();

        json_object_array_add(array, o);
        return o;
}

struct json_object *add_call(struct json_object *array, const char *method)
{
        struct json_object *o = add_object(array);

        put_text(o, "method", method);
        return put_object(o, "params");
}

bool take_uuid(const char *text, uint8_t uuid[16])
{
        unsigned n = 0;

        for (; *text; text++) {
                int c = tolower((unsigned char)*text);

                if (c == '-')
                        continue;
                if (!isxdigit(c) || n == 32)
                        return false;
                uuid[n / 2] = (uint8_t)(uuid[n / 2] << 4 | (c <= '9' ? c - '0' : c - 'a' + 10));
                n++;
        }
        return n == 32;
}

/* --- the framework ---------------------------------------------------------------------------- */

struct framework {
        bool current, include_aliases, with_batches;
        const char *name;
        unsigned word;
};

const struct jsonrpc_param rpc_methods_params[] = {
        PARAM(framework, current, BOOL),
        PARAM(framework, include_aliases, BOOL),
        { 0 },
};

METHOD(rpc_get_methods)
{
        const struct rpc *r = owner;
        const struct framework *a = args;

        call->result = json_object_new_array();
        for (const struct jsonrpc_method *m = rpc_methods; m->name; m++)
                if (!a->current || (m->when & r->rpc.state))
                        json_object_array_add(call->result, json_object_new_string(m->name));
}

METHOD(spdk_get_version)
{
        struct json_object *fields;

        (void)owner;
        (void)args;
        call->result = json_object_new_object();
        put_text(call->result, "version", VERSION);
        fields = put_object(call->result, "fields");
        put_number(fields, "major", 0);
        put_number(fields, "minor", 1);
        put_number(fields, "patch", 0);
        put_text(fields, "suffix", "");
}

const struct jsonrpc_param rpc_signal_params[] = {
        { .name = "sig_name",
          .kind = JSONRPC_WORD,
          REQUIRED,
          .at = offsetof(struct framework, word),
          .words = "SIGINT|SIGTERM|SIGHUP|SIGKILL|2|15|1|9" },
        { 0 },
};

METHOD(spdk_kill_instance)
{
        static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGKILL };

        (void)owner;
        if (kill(getpid(), signals[((const struct framework *)args)->word % 4]) < 0)
                jsonrpc_fail(call, -errno, "%s", "");
}

METHOD(framework_start_init)
{
        struct rpc *r = owner;

        (void)args;
        (void)call;
        r->rpc.state = JSONRPC_RUNTIME;
}

METHOD(framework_wait_init)
{
        const struct rpc *r = owner;

        (void)args;
        call->later = r->rpc.state == JSONRPC_STARTUP;
}

static void rpc_save_keys(const struct rpc *r, struct json_object *into)
{
        for (unsigned i = 0; i < r->n_keys; i++) {
                struct json_object *p = add_call(into, "keyring_file_add_key");

                put_text(p, "name", r->keys[i].name);
                put_text(p, "path", r->keys[i].path);
        }
}

/* In the order in which they are to be loaded. */
static const struct part {
        const char *name, *needs;
        void (*save)(const struct rpc *r, struct json_object *into);
} parts[] = {
        { "keyring", NULL, rpc_save_keys },
        { "bdev", "keyring", rpc_save_bdevs },
        { "nvmf", "bdev", rpc_save_nvmf },
};
enum { PARTS = sizeof(parts) / sizeof(parts[0]) };

METHOD(framework_get_subsystems)
{
        (void)owner;
        (void)args;
        call->result = json_object_new_array();
        for (const struct part *p = parts; p < parts + PARTS; p++) {
                struct json_object *o = add_object(call->result), *needs;

                put_text(o, "subsystem", p->name);
                needs = put_array(o, "depends_on");
                if (p->needs)
                        json_object_array_add(needs, json_object_new_string(p->needs));
        }
}

const struct jsonrpc_param rpc_config_params[] = {
        PARAM(framework, name, TEXT, REQUIRED),
        PARAM(framework, with_batches, BOOL),
        { 0 },
};

METHOD(framework_get_config)
{
        const struct framework *a = args;

        for (const struct part *p = parts; p < parts + PARTS; p++)
                if (strcmp(p->name, a->name) == 0) {
                        call->result = json_object_new_array();
                        p->save(owner, call->result);
                        return;
                }
        jsonrpc_fail(call, JSONRPC_PARAMS, "Subsystem '%.100s' not found", a->name);
}

/* --- the log ---------------------------------------------------------------------------------- */

const struct jsonrpc_param rpc_level_params[] = {
        { .name = "level",
          .kind = JSONRPC_WORD,
          REQUIRED,
          .at = offsetof(struct framework, word),
          .words = RPC_LEVELS },
        { 0 },
};

static void set_chatter(struct nvme_service *s, void *arg)
{
        enum log_level level = *(const enum log_level *)arg;

        s->trace = level == LOG_AS_TRACE;
        s->quiet = s->ctrl.quiet = level == LOG_AS_ERROR;
}

/* There is one log: what SPDK prints and what it logs have one level here. */
METHOD(log_set_level)
{
        static const enum log_level levels[] = { LOG_AS_ERROR, LOG_AS_WARNING, LOG_AS_INFO,
                                                 LOG_AS_INFO, LOG_AS_TRACE };
        struct rpc *r = owner;
        enum log_level level = levels[((const struct framework *)args)->word];

        (void)call;
        r->level = ((const struct framework *)args)->word;
        log_set_level(level);
        target_alone(r->target, set_chatter, &level);
}

METHOD(log_get_level)
{
        static const char *const names[] = { "ERROR", "WARNING", "NOTICE", "INFO", "DEBUG" };
        const struct rpc *r = owner;

        (void)args;
        call->result = json_object_new_string(names[r->level]);
}

METHOD(log_set_print_level)
{
        rpc_log_set_level(owner, args, call);
}

METHOD(log_get_print_level)
{
        rpc_log_get_level(owner, args, call);
}

/* --- keys ------------------------------------------------------------------------------------- */

struct key {
        const char *name, *path;
};

const struct jsonrpc_param rpc_key_params[] = {
        PARAM(key, name, TEXT, REQUIRED),
        PARAM(key, path, TEXT, REQUIRED),
        { 0 },
};

static struct rpc_key *find_key(const struct rpc *r, const char *name)
{
        for (unsigned i = 0; i < r->n_keys; i++)
                if (strcmp(r->keys[i].name, name) == 0)
                        return &r->keys[i];
        return NULL;
}

/* 0, or a negative errno. */
static int check_key(const struct rpc *r, const struct key *a)
{
        struct stat st;

        if (find_key(r, a->name))
                return -EEXIST;
        if (!a->name[0] || strlen(a->name) > CONFIG_KEY_NAME || strlen(a->path) >= PATH_ROOM)
                return -EINVAL;
        if (a->path[0] != '/')
                return -EPERM;
        if (stat(a->path, &st) < 0)
                return -errno;
        return st.st_mode & (S_IRWXG | S_IRWXO) ? -EPERM : 0;
}

METHOD(keyring_file_add_key)
{
        struct rpc *r = owner;
        const struct key *a = args;
        int problem = check_key(r, a);

        if (problem) {
                jsonrpc_fail(call, problem, "%s", "");
        } else if (r->n_keys == KEYS_MAX) {
                jsonrpc_fail(call, -ENOSPC, "%s", "");
        } else {
                strcpy(r->keys[r->n_keys].name, a->name);
                strcpy(r->keys[r->n_keys].path, a->path);
                r->n_keys++;
        }
}

METHOD(keyring_file_remove_key)
{
        struct rpc *r = owner;
        struct rpc_key *k = find_key(r, *(const char *const *)args);

        if (!k)
                jsonrpc_fail(call, -ENOENT, "%s", "");
        else
                *k = r->keys[--r->n_keys];
}

METHOD(keyring_get_keys)
{
        const struct rpc *r = owner;

        (void)args;
        call->result = json_object_new_array();
        for (unsigned i = 0; i < r->n_keys; i++) {
                struct json_object *o = add_object(call->result);

                put_text(o, "name", r->keys[i].name);
                put_text(o, "module", "keyring_file");
                put_bool(o, "removed", false);
                put_bool(o, "probed", true);
                put_text(o, "path", r->keys[i].path);
        }
}

/* --- from the beginning to the end ------------------------------------------------------------ */

static void tell_unused(void *owner, const char *method, const char *param)
{
        (void)owner;
        log_line(LOG_AS_INFO, "unused", NULL, "%s: %s is accepted, but changes nothing here",
                 method, param);
}

struct rpc *rpc_open(const struct rpc_place *at, char *error, size_t size)
{
        struct rpc *r = calloc(1, sizeof(*r));

        snprintf(error, size, "%s", strerror(ENOMEM));
        if (!r)
                return NULL;
        r->keys = calloc(KEYS_MAX, sizeof(*r->keys));
        r->server = r->keys ? rpc_server_open(at, error, size) : NULL;
        if (!r->server) {
                rpc_free(r);
                return NULL;
        }
        r->max_subsystems = SUBSYSTEMS_MAX;
        r->level = 3;
        return r;
}

int rpc_give(const struct rpc *r, unsigned uid, unsigned gid)
{
        return rpc_server_give(r->server, uid, gid);
}

static bool is_shared(const struct rpc *r, const struct config_referral *ref)
{
        for (unsigned i = 0; i < r->shared.n_referrals; i++)
                if (memcmp(&r->shared.referrals[i], ref, sizeof(*ref)) == 0)
                        return true;
        return false;
}

/* What the target has been started with, or was told to read again. */
static bool adopt(struct rpc *r, const struct config *c)
{
        free(r->shared.referrals);
        r->shared = (struct config_port) { 0 };
        config_free(&r->config);
        if (!config_copy(&r->config, c))
                return false;
        for (unsigned i = 0; i < c->n_ports; i++) {
                const struct config_port *p = &c->ports[i];

                r->transports[p->trtype == TRTYPE_RDMA] = true;
                for (unsigned k = 0; k < p->n_referrals; k++) {
                        struct config_referral *ref;

                        if (is_shared(r, &p->referrals[k]))
                                continue;
                        ref = config_add_referral(&r->shared);
                        if (!ref)
                                return false;
                        *ref = p->referrals[k];
                }
        }
        note_ports(r);
        return true;
}

int rpc_run(struct rpc *r, struct target *t, const struct config *c, bool wait)
{
        r->target = t;
        r->rpc = (struct jsonrpc) {
                .methods = rpc_methods,
                .args = JSONRPC_ARGS,
                .state = wait ? JSONRPC_STARTUP : JSONRPC_RUNTIME,
                .owner = r,
                .unused = tell_unused,
        };
        errno = ENOMEM;
        if (!adopt(r, c))
                return -1;
        if (c->n_ports == 0) /* all of it will come from calls: as they have it */
                r->config.discovery.all_ports = true;
        return rpc_server_run(r->server, &r->rpc);
}

struct replacement {
        struct rpc *rpc;
        const struct config *config;
        char *error;
        size_t size;
        int rc;
};

static void replace(void *arg)
{
        struct replacement *n = arg;

        n->rc = target_change(n->rpc->target, n->config, n->error, n->size);
        if (n->rc >= 0 && !adopt(n->rpc, n->config)) {
                snprintf(n->error, n->size, "%s", strerror(ENOMEM));
                n->rc = -1;
        }
}

int rpc_replace(struct rpc *r, const struct config *c, char *error, size_t size)
{
        struct replacement n = { .rpc = r, .config = c, .error = error, .size = size };

        rpc_server_call(r->server, replace, &n);
        return n.rc;
}

void rpc_end(struct rpc *r)
{
        if (!r)
                return;
        rpc_server_close(r->server);
        r->server = NULL;
}

void rpc_free(struct rpc *r)
{
        if (!r)
                return;
        rpc_end(r);
        rpc_bdevs_free(r);
        config_free(&r->config);
        free(r->shared.referrals);
        free(r->keys);
        free(r);
}
