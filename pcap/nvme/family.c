/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "line.h"
#include "pdu/nvme/wire/family.h"

struct tracker {
        struct reader *reader;
        trace_verdict_fn *verdict;
        void *user;
};

static void on_record(void *user, const struct record *r)
{
        const struct tracker *t = user;
        struct trace_verdict v = {
                .e = r->e,
                .broken = r->is_broken ? &r->broken : NULL,
                .unproven = r->unproven,
                .record = r,
        };

        t->verdict(t->user, &v);
}

static void *tracker_open(const struct rule_set *waived, trace_verdict_fn *verdict, void *user)
{
        struct session_options options = { .judge = true, .waived = waived };
        struct tracker *t = calloc(1, sizeof(*t));

        if (!t)
                return NULL;
        t->verdict = verdict;
        t->user = user;
        t->reader = reader_new(&options, on_record, t);
        if (t->reader)
                return t;
        free(t);
        return NULL;
}

static void tracker_event(void *tracker, const struct trace_event *e)
{
        reader_event(((struct tracker *)tracker)->reader, e);
}

static bool tracker_close(void *tracker)
{
        struct tracker *t = tracker;
        bool whole = reader_free(t->reader);

        free(t);
        return whole;
}

/* Record format 0, and sizes (R1.0 figure 5). */
static bool is_request(const uint8_t *data)
{
        return data[0] == 0 && data[1] == 0 && (data[4] || data[5]) && (data[6] || data[7]);
}

static uint32_t be32(const uint8_t *p)
{
        return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* A login request of SRP over RDMA CM: operation code 0 at 11, buffer formats, the length of an
 * information unit, and the ports' names, where NVMe/RDMA has reserved bytes. */
static const char *foreign(const uint8_t *data, uint32_t len)
{
        enum { LOGIN_LEN = 48, FORMATS = 0x06, UNIT_MIN = 64, UNIT_MAX = 1 << 20 };
        static const uint8_t nobody[16];

        if (len < LOGIN_LEN || data[8] != 0 || data[9] & ~FORMATS || data[11] != 0)
                return NULL;
        if (be32(data + 12) < UNIT_MIN || be32(data + 12) > UNIT_MAX)
                return NULL;
        return memcmp(data + 16, nobody, 16) != 0 && memcmp(data + 32, nobody, 16) != 0 ? "SRP"
                                                                                        : NULL;
}

static void words(struct text *t, const void *record)
{
        line_words(t, record);
}

static void place(struct text *t, const struct trace_conn *c)
{
        const struct session *s = c->user;

        if (s && s->qid >= 0)
                text_add(t, ", queue %d", s->qid);
        if (s && s->assoc)
                text_add(t, " of controller %u", s->assoc->cntlid);
}

static void place_json(struct json_object *o, const struct trace_conn *c)
{
        const struct session *s = c->user;

        json_object_object_add(o, "qid", json_object_new_int(s ? s->qid : -1));
        if (s && s->assoc)
                json_object_object_add(o, "cntlid", json_object_new_int(s->assoc->cntlid));
}

const struct trace_family nvme_capture = {
        .family = &nvme_family,
        .ports = { NVME_TCP_PORT, NVME_DISC_PORT },
        .stream = &nvme_tcp_stream,
        .is_request = is_request,
        .foreign = foreign,
        .open = tracker_open,
        .event = tracker_event,
        .close = tracker_close,
        .words = words,
        .place = place,
        .place_json = place_json,
};
