/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "line.h"
#include "pdu/nvme/wire/family.h"
#include "tools.h"

struct tracker {
        struct reader *reader;
        struct trace_reading how;
};

static void give(trace_record_fn *fn, void *user, const struct record *r)
{
        struct trace_record out = {
                .e = r->e,
                .broken = r->is_broken ? &r->broken : NULL,
                .unproven = r->unproven,
                .record = r,
        };

        fn(user, &out);
}

static void on_record(void *user, const struct record *r)
{
        const struct tracker *t = user;

        give(t->how.record, t->how.user, r);
}

static void on_lost(void *user, const struct record *r)
{
        const struct tracker *t = user;

        give(t->how.lost, t->how.user, r);
}

static void *tracker_open(const struct trace_reading *how)
{
        struct session_options options = { .judge = how->judge,
                                           .keep_data = how->keep_data,
                                           .waived = how->waived,
                                           .lost = how->lost ? on_lost : NULL };
        struct tracker *t = calloc(1, sizeof(*t));

        if (!t)
                return NULL;
        t->how = *how;
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

/* --- records ---------------------------------------------------------------------------------- */

static void words(struct text *t, const void *record)
{
        line_words(t, record);
}

static void describe(const struct describe *d, const void *record)
{
        line_describe(d, record);
}

static const char *kind_of(const struct record *r)
{
        if (r->e->kind != TRACE_CAPSULE)
                return NULL;
        return r->sqe ? "command" : r->cqe ? "response" : NULL;
}

/* In lists those of Fabrics come first, then those of the admin queue. */
static void view_command(struct trace_command *c, const struct record *r, const union sqe *s)
{
        bool admin = session_admin(r->session, s);

        *c = (struct trace_command) {
                .name = sqe_name(s, admin),
                .queue = admin ? "admin queues" : "I/O queues",
                .io = !admin,
                .waits = admin && s->opc == NVME_AER,
                .code = s->opc,
                .rank = s->opc == NVME_FABRICS ? s->fctype : (admin ? 256u : 512u) + s->opc,
                .id = le16_get(s->cid),
        };
        if (!r->cmd)
                return;
        c->at = r->cmd->at;
        c->asked = r->cmd->asked;
        c->data_first = r->cmd->data_first;
        c->data_last = r->cmd->data_last;
        c->h2c = r->cmd->h2c;
        c->c2h = r->cmd->c2h;
}

static void view(struct trace_view *v, const void *record)
{
        const struct record *r = record;
        const struct pdu_info *pdu =
            r->e->kind == TRACE_PDU ? pdu_info(r->e->pdu->h->ch.type) : NULL;

        v->kind = kind_of(r);
        v->message = pdu ? pdu->name : NULL;
        v->rank = pdu ? r->e->pdu->h->ch.type : 0;
        v->begins = r->sqe;
        v->ends = r->ends && r->cmd;
        v->known = r->cmd;
        if (r->cmd || r->sqe)
                view_command(&v->command, r, r->cmd ? &r->cmd->sqe : r->sqe);
        v->answers = r->cqe;
        v->status = r->cqe ? cqe_status(r->cqe) : NVME_SUCCESS;
        v->error = v->status != NVME_SUCCESS;
}

static void status(struct text *t, unsigned status)
{
        text_add(t, "%X/%02Xh %s", status >> 8, status & 255, status_name((uint16_t)status));
}

static bool has_command(const char *name)
{
        for (unsigned i = 0; i < 256; i++) {
                union sqe plain = { .opc = (uint8_t)i }, fabrics = { .opc = NVME_FABRICS };

                fabrics.fctype = (uint8_t)i;
                if (strcasecmp(sqe_name(&plain, true), name) == 0 ||
                    strcasecmp(sqe_name(&plain, false), name) == 0 ||
                    strcasecmp(sqe_name(&fabrics, true), name) == 0)
                        return true;
        }
        return false;
}

/* --- connections ------------------------------------------------------------------------------ */

static int queue(const struct trace_conn *c)
{
        const struct session *s = c->user;

        return s ? s->qid : -1;
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
        if (s && s->assoc)
                json_object_object_add(o, "association", json_object_new_uint64(s->assoc->number));
}

const struct trace_family nvme_capture = {
        .family = &nvme_family,
        .name = "NVMe",
        .ports = { NVME_TCP_PORT, NVME_DISC_PORT },
        .stream = &nvme_tcp_stream,
        .is_request = is_request,
        .open = tracker_open,
        .event = tracker_event,
        .close = tracker_close,
        .words = words,
        .describe = describe,
        .view = view,
        .status = status,
        .has_command = has_command,
        .queue = queue,
        .place = place,
        .place_json = place_json,
        .extract = &nvme_extract,
        .anonymize = &nvme_anonymize,
        .secrets = &nvme_secrets,
        .replay = replay_command,
};
