/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"

#include <stdlib.h>
#include <string.h>

#include "line.h"
#include "pdu/srp/wire/family.h"

enum { CONSUMER = 28 }; /* reason of a reject that the target itself has sent (IBTA 12.6.7.2) */

struct srp_reader {
        const struct rule_set *waived;
        srp_record_fn *fn;
        void *user;
        struct srp_session *sessions;
        bool no_memory;
};

/* --- sessions --------------------------------------------------------------------------------- */

static struct srp_session *open_session(struct srp_reader *r, struct trace_conn *conn)
{
        struct srp_session *s = calloc(1, sizeof(*s));

        if (!s) {
                r->no_memory = true;
                return NULL;
        }
        srp_channel_init(&s->channel);
        s->conn = conn;
        s->next = r->sessions;
        r->sessions = s;
        return s;
}

static void close_session(struct srp_reader *r, struct srp_session *s)
{
        struct srp_session **at = &r->sessions;

        while (*at && *at != s)
                at = &(*at)->next;
        if (*at)
                *at = s->next;
        s->conn->user = NULL;
        free(s);
}

static bool same_nexus(const struct srp_channel *a, const struct srp_channel *b)
{
        return memcmp(a->asked.initiator_port_id, b->asked.initiator_port_id,
                      sizeof(srp_port_id)) == 0 &&
               memcmp(a->asked.target_port_id, b->asked.target_port_id, sizeof(srp_port_id)) == 0;
}

/* The answer to task management that reaches beyond one task: other channels of the nexus may have lost
 * theirs. */
static void spread_task_management(struct srp_reader *r, const struct srp_session *s,
                                   const struct trace_capsule *c)
{
        const struct srp_request *tm;
        union srp_iu iu;

        if (!srp_read(c->data, c->len, &iu) || iu.opcode != SRP_RSP)
                return;
        tm = srp_channel_find(&s->channel, be64_get(iu.rsp.tag));
        if (!tm || tm->type != SRP_TSK_MGMT || tm->function == SRP_TM_ABORT_TASK)
                return;
        for (struct srp_session *o = r->sessions; o; o = o->next)
                if (o != s && same_nexus(&o->channel, &s->channel))
                        srp_channel_doubt(&o->channel, tm->lun);
}

/* --- events ----------------------------------------------------------------------------------- */

static void take_capsule(struct srp_reader *r, struct srp_session *s, const struct trace_event *e,
                         struct srp_record *rec)
{
        const struct trace_capsule *c = &e->capsule;

        rec->imm_at = srp_channel_immediate(&s->channel);
        if (c->known < c->len) {
                srp_channel_miss(&s->channel, e->sender);
                return;
        }
        if (e->sender == PARTY_CONTROLLER)
                spread_task_management(r, s, c);
        srp_channel_iu(&s->channel, e->sender, c->data, c->len, &rec->broken);
}

static void take_memory(struct srp_session *s, const struct trace_event *e, struct srp_record *rec)
{
        struct srp_desc memory = { e->memory.addr, e->memory.key, e->memory.len };

        if (e->sender == PARTY_CONTROLLER)
                srp_channel_transfer(&s->channel, e->kind == TRACE_WRITE, &memory, &rec->broken);
}

static void take_event(struct srp_reader *r, struct srp_session *s, const struct trace_event *e,
                       struct srp_record *rec)
{
        struct srp_channel *c = &s->channel;

        switch (e->kind) {
        case TRACE_REQUEST:
                srp_channel_login(c, e->cm.data, e->cm.len, false, &rec->broken);
                break;
        case TRACE_ACCEPT:
                srp_channel_accept(c, e->cm.data, e->cm.len, &rec->broken);
                break;
        case TRACE_REJECT:
                if (e->cm.reason == CONSUMER)
                        srp_channel_reject(c, e->cm.data, e->cm.len, &rec->broken);
                else
                        srp_channel_close(c);
                break;
        case TRACE_GAP:
                srp_channel_miss(c, e->sender);
                break;
        case TRACE_CAPSULE:
                take_capsule(r, s, e, rec);
                break;
        case TRACE_READ:
        case TRACE_WRITE:
                take_memory(s, e, rec);
                break;
        case TRACE_CLOSED:
                srp_channel_close(c);
                break;
        case TRACE_OPENED:
        case TRACE_FOUND:
        case TRACE_HEADER:
        case TRACE_PDU:
        case TRACE_FAULT:
        case TRACE_READY:
        case TRACE_DISCONNECT:
        case TRACE_DISCONNECTED:
        case TRACE_TERMINATE:
        case TRACE_SECURED:
        case TRACE_REFUSAL:
        case TRACE_READ_DATA:
        case TRACE_READ_END:
        case TRACE_WRITE_DATA:
                break;
        }
}

/* What is not checked goes; what one frame alone does not prove may be due to one that is missing. Not so
 * the answer to a login: both were seen. */
static void weigh(const struct srp_reader *r, struct srp_record *rec)
{
        enum trace_kind kind = rec->e->kind;
        bool in_doubt = false;

        rule_each_in (&rec->broken, id)
                if (rule_in(r->waived, id))
                        rule_remove(&rec->broken, id);
        rule_each_in (&rec->broken, id) {
                rec->is_broken = true;
                in_doubt |= !(srp_rule_get(id)->seen & SEEN_ALONE);
        }
        in_doubt &= kind != TRACE_ACCEPT && kind != TRACE_REJECT;
        rec->unproven = in_doubt && rec->e->conn->transport == TRACE_ROCE &&
                        !trace_proven(rec->e->conn, rec->e->sender, rec->e->at.frame);
}

void srp_reader_event(struct srp_reader *r, const struct trace_event *e)
{
        struct srp_record rec = { .e = e };
        struct srp_session *s = e->conn->user;

        if (e->kind == TRACE_OPENED)
                e->conn->user = s = open_session(r, e->conn);
        if (!s)
                return;
        rec.session = s;
        take_event(r, s, e, &rec);
        weigh(r, &rec);
        r->fn(r->user, &rec);
        if (e->kind == TRACE_CLOSED)
                close_session(r, s);
}

struct srp_reader *srp_reader_new(const struct rule_set *waived, srp_record_fn *fn, void *user)
{
        struct srp_reader *r = calloc(1, sizeof(*r));

        if (r)
                *r = (struct srp_reader) { .waived = waived, .fn = fn, .user = user };
        return r;
}

bool srp_reader_free(struct srp_reader *r)
{
        bool whole = !r->no_memory;

        while (r->sessions)
                close_session(r, r->sessions);
        free(r);
        return whole;
}

/* --- the family ------------------------------------------------------------------------------- */

struct tracker {
        struct srp_reader *reader;
        trace_verdict_fn *verdict;
        void *user;
};

static void on_record(void *user, const struct srp_record *r)
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
        struct tracker *t = calloc(1, sizeof(*t));

        if (!t)
                return NULL;
        *t = (struct tracker) { .verdict = verdict, .user = user };
        t->reader = srp_reader_new(waived, on_record, t);
        if (t->reader)
                return t;
        free(t);
        return NULL;
}

static void tracker_event(void *tracker, const struct trace_event *e)
{
        srp_reader_event(((struct tracker *)tracker)->reader, e);
}

static bool tracker_close(void *tracker)
{
        struct tracker *t = tracker;
        bool whole = srp_reader_free(t->reader);

        free(t);
        return whole;
}

static bool claims(const uint8_t *data, uint32_t len)
{
        return srp_login_likely(data, len);
}

static bool is_request(const uint8_t *data)
{
        (void)data; /* its padding would not tell */
        return false;
}

static void words(struct text *t, const void *record)
{
        srp_words(t, record);
}

static void place(struct text *t, const struct trace_conn *c)
{
        (void)c;
        text_add(t, ", SRP");
}

static void place_json(struct json_object *o, const struct trace_conn *c)
{
        (void)c;
        json_object_object_add(o, "protocol", json_object_new_string(srp_family.name));
}

const struct trace_family srp_capture = {
        .family = &srp_family,
        .is_request = is_request,
        .claims = claims,
        .open = tracker_open,
        .event = tracker_event,
        .close = tracker_close,
        .words = words,
        .place = place,
        .place_json = place_json,
};
