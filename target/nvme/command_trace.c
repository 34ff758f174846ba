/* SPDX-License-Identifier: BSD-3-Clause */
#include "command_trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pdu/core/text.h"
#include "pdu/io/loop.h"

/* --- times ------------------------------------------------------------------------------------ */

void trace_times_begin(struct trace_times *t, int64_t wall_ns, uint64_t now_ns)
{
        t->came = wall_ns;
        t->began = now_ns;
        t->n = 1;
        t->at[0] = 0;
        t->state[0] = REQUEST_NEW;
}

void trace_times_enter(struct trace_times *t, enum request_state s, uint64_t now_ns)
{
        if (t->n < TRACE_STATES)
                t->n++;
        t->at[t->n - 1] = now_ns - t->began;
        t->state[t->n - 1] = (uint8_t)s;
}

static bool has_been(const struct trace_times *t, enum request_state s)
{
        return memchr(t->state, (int)s, t->n) != NULL;
}

uint32_t trace_times_bytes(const struct trace_times *t, const struct request *r)
{
        if (r->xfer == XFER_C2H)
                return r->c2h_len;
        if (r->xfer != XFER_H2C || !(r->in_place || has_been(t, REQUEST_TRANSFERRING_H2C)))
                return 0;
        return r->wire_len;
}

/* --- what waits to be written: the names no longer than they are -------------------------------- */

enum { NAMES = offsetof(struct trace_record, hostnqn) };

void command_trace_add(struct journal *j, const struct trace_record *r)
{
        size_t host = strlen(r->hostnqn) + 1, sub = strlen(r->subnqn) + 1;
        uint8_t packed[sizeof(*r)];

        memcpy(packed, r, NAMES);
        memcpy(packed + NAMES, r->hostnqn, host);
        memcpy(packed + NAMES + host, r->subnqn, sub);
        journal_add(j, packed, NAMES + host + sub);
}

/* --- the line --------------------------------------------------------------------------------- */

/* A name that a peer has given itself: as pdu/io/json.h has bytes that are not ASCII. */
static void add_string(struct text *t, const char *name, const char *s)
{
        text_add(t, "\"%s\":\"", name);
        while (*s) {
                const char *p = s;

                while (*p >= ' ' && *p < 0x7f && *p != '"' && *p != '\\')
                        p++;
                text_add(t, "%.*s", (int)(p - s), s);
                if (*p)
                        text_add(t, "\\u%04x", (uint8_t)*p++);
                s = p;
        }
        text_add(t, "\",");
}

static void add_who(struct text *t, const struct trace_record *r, const char *hostnqn,
                    const char *subnqn)
{
        text_add(t, "{\"time\":%" PRId64 ",\"conn\":%u,\"transport\":\"%s\",", r->times.came,
                 r->conn, r->rdma ? "rdma" : "tcp");
        if (*hostnqn) {
                add_string(t, "hostnqn", hostnqn);
                add_string(t, "subnqn", subnqn);
                text_add(t, "\"cntlid\":%u,", r->cntlid);
        }
        text_add(t, "\"qid\":%u,\"cid\":%u,", r->qid, le16_get(r->sqe.cid));
}

static void add_what(struct text *t, const struct trace_record *r)
{
        static const char *const ways[] = { "none", "h2c", "c2h", "both" };
        uint64_t slba;
        uint32_t blocks;

        text_add(t, "\"opcode\":\"%s\",\"opc\":%u,", sqe_name(&r->sqe, r->qid == 0), r->sqe.opc);
        if (r->sqe.opc == NVME_FABRICS)
                text_add(t, "\"fctype\":%u,", r->sqe.fctype);
        else
                text_add(t, "\"nsid\":%u,", le32_get(r->sqe.nsid));
        if (r->qid > 0 && r->sqe.opc != NVME_FABRICS && sqe_blocks(&r->sqe, &slba, &blocks))
                text_add(t, "\"slba\":%" PRIu64 ",\"nlb\":%u,", slba, blocks);
        text_add(t, "\"bytes\":%u,\"data\":\"%s\",", r->bytes, ways[r->xfer]);
}

/* SCT and SC; null: the host got no answer. */
static void add_end(struct text *t, const struct trace_record *r)
{
        unsigned code = r->status & 0x7ff;

        if (!r->ended)
                text_add(t, "\"ended\":false,");
        if (!r->answered)
                text_add(t, "\"status\":null,");
        else
                text_add(t, "\"status\":\"%X/%02Xh\",\"status_text\":\"%s\",", code >> 8,
                         code & 0xff, status_name_of(&r->sqe, (uint16_t)code));
        if (r->answered && (r->status & STATUS_DNR))
                text_add(t, "\"dnr\":true,");
}

static void add_states(struct text *t, const struct trace_times *times)
{
        text_add(t, "\"states\":[");
        for (unsigned i = 0; i < times->n; i++)
                text_add(t, "%s{\"state\":\"%s\",\"at\":%" PRIu64 "}", i > 0 ? "," : "",
                         request_state_name((enum request_state)times->state[i]), times->at[i]);
        text_add(t, "]}");
}

size_t command_trace_line(const void *packed, size_t n, char *text, size_t size)
{
        struct text t = text_in(text, size);
        struct trace_record r;
        const char *hostnqn = (const char *)packed + NAMES;

        (void)n;
        memcpy(&r, packed, NAMES);
        add_who(&t, &r, hostnqn, hostnqn + strlen(hostnqn) + 1);
        add_what(&t, &r);
        add_end(&t, &r);
        add_states(&t, &r.times);
        return t.len + 1 < t.cap ? t.len : 0;
}

static size_t head(uint64_t part, char *text, size_t size)
{
        struct text t = text_in(text, size);

        text_add(&t, "{\"nvmfspec_trace\":1,\"part\":%" PRIu64 ",\"time\":%" PRId64 "}", part,
                 loop_wall_ns());
        return t.len;
}

struct journal *command_trace_open(const char *file, uint64_t size, unsigned files, char *error,
                                   size_t error_size)
{
        const struct journal_options o = {
                .path = file, .most = size, .files = files, .head = head, .line = command_trace_line
        };

        return journal_open(&o, error, error_size);
}
