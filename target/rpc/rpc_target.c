/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmf_...: targets, and what holds for all of their subsystems. */
#include <stdio.h>
#include <string.h>

#include "methods.h"
#include "model.h"

/* --- targets ---------------------------------------------------------------------------------- */

struct target_args {
        const char *name;
        uint64_t max_subsystems;
};

const struct jsonrpc_param rpc_create_target_params[] = {
        PARAM(target_args, name, TEXT, REQUIRED),
        UNUSED("max_subsystems", NUMBER), /* it can have none */
        FIXED("discovery_filter", WORDS, 0, .words = RPC_DISCOVERY_FILTERS),
        FIXED("dup_host_policy", WORD, 0, .words = RPC_DUP_HOST_POLICIES),
        { 0 },
};
const struct jsonrpc_param rpc_by_target[] = { PARAM(target_args, name, TEXT, REQUIRED), { 0 } };

/* Its place among those that were created; n_targets: it is not there. */
static unsigned find_target(const struct rpc *r, const char *name)
{
        unsigned i = 0;

        while (i < r->n_targets && strcmp(r->targets[i], name) != 0)
                i++;
        return i;
}

/* As in SPDK's nvmf_tgt, no thread serves it: it is a name. */
METHOD(nvmf_create_target)
{
        struct rpc *r = owner;
        const struct target_args *a = args;

        if (strcmp(a->name, RPC_TARGET) == 0 || find_target(r, a->name) < r->n_targets) {
                jsonrpc_fail(call, JSONRPC_PARAMS, "Target already exists.");
        } else if (r->n_targets == TARGETS_MAX || !a->name[0] || strlen(a->name) > TARGET_NAME) {
                jsonrpc_fail(call, JSONRPC_INTERNAL, "Unable to create the requested target.");
        } else {
                strcpy(r->targets[r->n_targets++], a->name);
                call->result = json_object_new_string(a->name);
        }
}

METHOD(nvmf_delete_target)
{
        struct rpc *r = owner;
        const struct target_args *a = args;
        unsigned at = find_target(r, a->name);

        if (strcmp(a->name, RPC_TARGET) == 0)
                jsonrpc_fail(call, JSONRPC_PARAMS,
                             "Invalid parameters: " RPC_TARGET " ends with the program");
        else if (at == r->n_targets)
                jsonrpc_fail(call, JSONRPC_PARAMS,
                             "The specified target doesn't exist, cannot delete it.");
        else
                memmove(r->targets[at], r->targets[at + 1],
                        (--r->n_targets - at) * sizeof(r->targets[0]));
}

METHOD(nvmf_get_targets)
{
        const struct rpc *r = owner;

        (void)args;
        call->result = json_object_new_array();
        json_object_array_add(call->result, json_object_new_string(RPC_TARGET));
        for (unsigned i = 0; i < r->n_targets; i++)
                json_object_array_add(call->result, json_object_new_string(r->targets[i]));
}

const struct jsonrpc_param rpc_max_params[] = {
        { .name = "max_subsystems", .kind = JSONRPC_NUMBER, REQUIRED, .max = SUBSYSTEMS_MAX },
        { 0 },
};

METHOD(nvmf_set_max_subsystems)
{
        struct rpc *r = owner;

        (void)call;
        r->max_subsystems = (unsigned)*(const uint64_t *)args;
}

/* --- what holds for all subsystems ------------------------------------------------------------ */

#define DIGESTS "sha256|sha384|sha512"
#define GROUPS  "null|ffdhe2048|ffdhe3072|ffdhe4096|ffdhe6144|ffdhe8192"

struct nvmf_config {
        uint64_t digests, groups, filters;
        const char *filter; /* the same, as older scripts write it */
};

/* Commands that would be handed on to a disk: none is. */
static const struct jsonrpc_param passthru[] = {
        FIXED("identify_ctrlr", BOOL, false),  FIXED("identify_uuid_list", BOOL, false),
        FIXED("get_log_page", BOOL, false),    FIXED("get_set_features", BOOL, false),
        FIXED("sanitize", BOOL, false),        FIXED("security_send_recv", BOOL, false),
        FIXED("fw_update", BOOL, false),       FIXED("nvme_mi", BOOL, false),
        FIXED("vendor_specific", BOOL, false), { 0 },
};

const struct jsonrpc_param rpc_nvmf_config_params[] = {
        { .name = "dhchap_digests",
          .kind = JSONRPC_WORDS,
          .at = offsetof(struct nvmf_config, digests),
          .words = DIGESTS },
        { .name = "dhchap_dhgroups",
          .kind = JSONRPC_WORDS,
          .at = offsetof(struct nvmf_config, groups),
          .words = GROUPS },
        { .name = "discovery_filters",
          .kind = JSONRPC_WORDS,
          .at = offsetof(struct nvmf_config, filters),
          .words = RPC_DISCOVERY_FILTERS },
        { .name = "discovery_filter",
          .kind = JSONRPC_TEXT,
          .at = offsetof(struct nvmf_config, filter) },
        { .name = "admin_cmd_passthru", .kind = JSONRPC_OBJECT, .members = passthru },
        FIXED("dup_host_policy", WORD, 0, .words = RPC_DUP_HOST_POLICIES),
        UNUSED("poll_groups_mask", TEXT),
        { 0 },
};

enum { ANY = 1, TYPE = 2, ADDRESS = 4, SVCID = 8 }; /* bits of RPC_DISCOVERY_FILTERS */

/* The words of "transport,svcid" as bits; 0: there is one that is not known. */
static unsigned filters_of(const char *text)
{
        static const char *const words[] = { "match_any", "transport", "address", "svcid" };
        unsigned bits = 0;

        for (;;) {
                size_t n = strcspn(text, ","), i = 0;

                while (i < 4 && (strlen(words[i]) != n || strncmp(words[i], text, n) != 0))
                        i++;
                if (i == 4)
                        return 0;
                bits |= 1U << i;
                if (!text[n])
                        return bits;
                text += n + 1;
        }
}

METHOD(nvmf_set_config)
{
        struct rpc *r = owner;
        const struct nvmf_config *a = args;
        unsigned filters = a->filter ? filters_of(a->filter) : (unsigned)a->filters;

        if ((a->filter && !filters) || ((filters & ANY) && filters != ANY)) {
                jsonrpc_fail(call, JSONRPC_PARAMS,
                             "Invalid parameters: a filter is not known, or match_any is not "
                             "alone");
                return;
        }
        r->digests = a->digests << AUTH_SHA256;
        r->groups = a->groups << AUTH_NO_DH;
        r->config.discovery = (struct discovery_scope) { .all_ports = true,
                                                         .same_trtype = filters & TYPE,
                                                         .same_traddr = filters & ADDRESS,
                                                         .same_trsvcid = filters & SVCID };
}

const struct jsonrpc_param rpc_crdt_params[] = {
        FIXED("crdt1", NUMBER, 0),
        FIXED("crdt2", NUMBER, 0),
        FIXED("crdt3", NUMBER, 0),
        { 0 },
};

/* Hosts may repeat a command at once. */
METHOD(nvmf_set_crdt)
{
        (void)owner;
        (void)args;
        (void)call;
}

/* --- saving ----------------------------------------------------------------------------------- */

/* Those of "a|b|c" whose bit is set. */
static void put_words(struct json_object *o, const char *name, const char *words, uint64_t bits)
{
        struct json_object *array = put_array(o, name);

        for (; *words; bits >>= 1) {
                size_t n = strcspn(words, "|");

                if (bits & 1)
                        json_object_array_add(array, json_object_new_string_len(words, (int)n));
                words += n + (words[n] == '|');
        }
}

/* What is as ever is left out: it can be set before the start alone. */
void rpc_save_target(const struct rpc *r, struct json_object *into)
{
        const struct discovery_scope *s = &r->config.discovery;
        unsigned filters = (s->same_trtype ? TYPE : 0) | (s->same_traddr ? ADDRESS : 0) |
                           (s->same_trsvcid ? SVCID : 0);
        struct json_object *p;

        if (r->max_subsystems != SUBSYSTEMS_MAX)
                put_number(add_call(into, "nvmf_set_max_subsystems"), "max_subsystems",
                           r->max_subsystems);
        if (!filters && !r->digests && !r->groups)
                return;
        p = add_call(into, "nvmf_set_config");
        put_words(p, "discovery_filters", RPC_DISCOVERY_FILTERS, filters);
        if (r->digests)
                put_words(p, "dhchap_digests", DIGESTS, r->digests >> AUTH_SHA256);
        if (r->groups)
                put_words(p, "dhchap_dhgroups", GROUPS, r->groups >> AUTH_NO_DH);
}
