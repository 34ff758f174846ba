/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfspec host identify, list */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "host/engine/show.h"
#include "pdu/nvme/wire/identify.h"

static const struct {
        const char *name;
        uint8_t cns;
        bool of_ns; /* takes a namespace */
} kinds[] = {
        { "ctrl", CNS_CTRL, false },
        { "ns", CNS_NS, true },
        { "ns-list", CNS_NS_LIST, false },
        { "ns-descs", CNS_NS_DESCS, true },
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* Index of the kind that is asked for, or -1. */
static int find_kind(const struct call *call, struct host_error *e)
{
        const char *what = call->count > 0 ? call->words[0] : "ctrl";

        for (int i = 0; i < KINDS; i++)
                if (strcmp(kinds[i].name, what) == 0)
                        return i;
        return host_fail(e, HOST_USAGE, "'%s' is not one of ctrl, ns, ns-list, ns-descs", what);
}

int check_identify(struct call *call, struct host_error *e)
{
        return find_kind(call, e) < 0 ? -1 : 0;
}

int call_identify(struct call *call, struct host_error *e)
{
        int kind = find_kind(call, e);
        uint8_t data[IDENTIFY_LEN];
        struct show s;

        if (host_ctrl_identify(call->ctrl, kinds[kind].cns,
                               kinds[kind].of_ns ? (uint32_t)call->args->nsid : 0, data, e) < 0)
                return -1;
        show_begin(&s, host_json(&call->args->base));
        describe_identify(&s.d, kinds[kind].cns, data, sizeof(data));
        show_end(&s);
        return 0;
}

/* --- list ------------------------------------------------------------------------------------- */

enum { ROWS_MAX = 65536 }; /* whatever NN says: a controller may go on until there is no memory */

struct row {
        uint32_t nsid, block_size;
        uint64_t blocks;
        bool sized;  /* the two before it are known */
        char id[40]; /* UUID, NGUID or EUI-64 */
};

/* The identifier that says most; the structure lists them in no certain order. */
static void name_namespace(const void *descs, struct row *row)
{
        struct ns_id id;
        uint8_t best = 0;
        size_t at = 0;

        while (ns_desc_next(descs, IDENTIFY_LEN, &at, &id)) {
                char *p = row->id;

                if (id.type <= best || id.type > NIDT_UUID || id.len > 16)
                        continue;
                best = id.type;
                if (id.type == NIDT_UUID && id.len == 16) {
                        host_uuid_print(id.bytes, row->id);
                        continue;
                }
                for (unsigned i = 0; i < id.len; i++)
                        p += sprintf(p, "%02x", id.bytes[i]);
        }
}

/* A namespace whose data or descriptors the controller refuses is listed all the same. */
static int get_row(struct host_ctrl *c, uint32_t nsid, struct row *row, struct host_error *e)
{
        uint8_t data[IDENTIFY_LEN];
        struct id_ns ns;

        *row = (struct row) { .nsid = nsid };
        row->sized = host_ctrl_identify(c, CNS_NS, nsid, &ns, e) == 0;
        if (row->sized) {
                row->block_size = id_ns_block_size(&ns);
                row->blocks = le64_get(ns.nsze);
        } else if (e->kind != HOST_STATUS) {
                return -1;
        }
        if (host_ctrl_identify(c, CNS_NS_DESCS, nsid, data, e) == 0)
                name_namespace(data, row);
        return e->kind == HOST_BROKEN ? -1 : 0;
}

static void print_row(const struct row *row)
{
        char size[32];

        if (!row->sized)
                printf("%10u  %12s  %10s  %14s  %s\n", row->nsid, "-", "-", "-", row->id);
        else
                printf("%10u  %12s  %10u  %14" PRIu64 "  %s\n", row->nsid,
                       show_size(row->blocks * row->block_size, size), row->block_size, row->blocks,
                       row->id);
}

static struct json_object *row_json(const struct row *row)
{
        struct json_object *o = json_object_new_object();

        json_object_object_add(o, "nsid", json_object_new_int64(row->nsid));
        if (row->sized) {
                put_number(o, "bytes", row->blocks * row->block_size);
                json_object_object_add(o, "block_size", json_object_new_int64(row->block_size));
                put_number(o, "blocks", row->blocks);
        }
        put_string(o, "id", row->id);
        return o;
}

/* Whether nsid may be the next in a list: from 1 to NN (Base 2.2, 3.2.1.1), each once, in order. */
static int check_nsid(const struct host_ctrl *c, uint32_t nsid, uint32_t last, struct host_error *e)
{
        uint32_t nn = le32_get(c->id.nn);

        if (nsid <= last)
                return host_fail(e, HOST_STATUS, "the namespace list is not in order: %u after %u",
                                 nsid, last);
        if (nsid > nn)
                return host_fail(e, HOST_STATUS,
                                 "the namespace list has NSID %u, which is above NN, %u", nsid, nn);
        return 0;
}

/* Every namespace of one Identify list to `rows` (JSON) or the terminal; *last: the last of them, *listed: how many.
 */
static int list_page(struct call *call, const uint8_t *list, struct json_object *rows,
                     uint32_t *last, unsigned *listed, struct host_error *e)
{
        size_t count = ns_list_count(list, IDENTIFY_LEN);

        for (size_t i = 0; i < count; i++) {
                struct row row;
                uint32_t nsid = ns_list_get(list, i);

                if (check_nsid(call->ctrl, nsid, *last, e) < 0)
                        return -1;
                if (++*listed > ROWS_MAX)
                        return host_fail(e, HOST_STATUS,
                                         "the controller has more than %u namespaces",
                                         (unsigned)ROWS_MAX);
                *last = nsid;
                if (get_row(call->ctrl, nsid, &row, e) < 0)
                        return -1;
                if (rows)
                        json_object_array_add(rows, row_json(&row));
                else
                        print_row(&row);
        }
        return count == IDENTIFY_LEN / 4;
}

static int list_all(struct call *call, struct json_object *rows, struct host_error *e)
{
        uint8_t list[IDENTIFY_LEN];
        unsigned listed = 0;
        uint32_t last = 0;
        int more = 1;

        while (more > 0) {
                if (host_ctrl_identify(call->ctrl, CNS_NS_LIST, last, list, e) < 0)
                        return -1;
                more = list_page(call, list, rows, &last, &listed, e);
        }
        return more;
}

int call_list(struct call *call, struct host_error *e)
{
        struct json_object *o, *rows = json_object_new_array();
        int result;

        if (!host_json(&call->args->base)) {
                json_object_put(rows);
                printf("%10s  %12s  %10s  %14s  %s\n", "nsid", "size", "block size", "blocks",
                       "id");
                return list_all(call, NULL, e);
        }
        o = show_object();
        put_string(o, "subnqn", call->ctrl->params.subnqn);
        json_object_object_add(o, "cntlid", json_object_new_int(call->ctrl->cntlid));
        json_object_object_add(o, "namespaces", rows);
        result = list_all(call, rows, e);
        if (result == 0)
                show_json(o);
        else
                json_object_put(o);
        return result;
}
