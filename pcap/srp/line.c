/* SPDX-License-Identifier: BSD-3-Clause */
#include "line.h"

#include <inttypes.h>
#include <string.h>

#include "pcap/trace/check.h"
#include "pdu/srp/wire/family.h"

enum { SCHEMA = 1, CONSUMER = 28, LOGIN_RSP = 52, LOGIN_REJ = 32 };

/* What a SEND carries is an IU here. */
static const char *kind_of(enum trace_kind kind)
{
        return kind == TRACE_CAPSULE ? "iu" : trace_kind_name(kind);
}

/* --- the IU of an event ----------------------------------------------------------------------- */

struct iu {
        const void *p; /* NULL: none */
        uint32_t n;
};

/* Private data is padded, and shows no more than the IU that it is. */
static struct iu iu_of(const struct srp_record *r)
{
        const struct trace_event *e = r->e;
        struct iu iu = { 0 };

        if (e->kind == TRACE_CAPSULE) {
                iu.p = e->capsule.data;
                iu.n = e->capsule.known;
        } else if (e->kind == TRACE_ACCEPT ||
                   (e->kind == TRACE_REJECT && e->cm.reason == CONSUMER)) {
                uint32_t most = e->kind == TRACE_ACCEPT ? LOGIN_RSP : LOGIN_REJ;

                iu.p = e->cm.data;
                iu.n = e->cm.len < most ? e->cm.len : most;
        }
        return iu;
}

/* --- words ------------------------------------------------------------------------------------ */

static void opened_words(struct text *t, const struct trace_conn *c)
{
        text_add(t, "connection %u: ", c->number);
        check_conn(t, c);
        text_add(t, ", SRP");
        if (c->end[PARTY_CONTROLLER].port == 4420 || c->end[PARTY_CONTROLLER].port == 8009)
                text_add(t, " on a port of NVMe");
        if (c->midstream)
                text_add(t, ", began before the capture");
}

static void cm_words(struct text *t, const struct srp_record *r)
{
        static const char *const names[] = { "REQUEST", "ACCEPT", "REJECT" };
        const struct trace_cm *cm = &r->e->cm;
        struct srp_login_req login;
        struct iu iu = iu_of(r);

        text_add(t, "%s ", names[r->e->kind - TRACE_REQUEST]);
        if (r->e->kind == TRACE_REQUEST) {
                (void)srp_login_read(cm->data, cm->len, false, &login);
                srp_line(t, &login, sizeof(login), 0);
        } else if (iu.p) {
                srp_line(t, iu.p, iu.n, 0);
        } else {
                text_add(t, "by the connection manager, reason %u", cm->reason);
        }
        if (cm->depths && r->e->kind != TRACE_REJECT)
                text_add(t, ", READs in %u out %u", cm->reads_in, cm->reads_out);
}

static void gap_words(struct text *t, const struct trace_gap *g)
{
        if (g->packets)
                text_add(t, "GAP: %" PRIu64 " packets are not in the capture", g->packets);
        else if (g->bytes)
                text_add(t, "GAP: %" PRIu64 " bytes are not in the capture", g->bytes);
        else
                text_add(t, "GAP: the capture is incomplete here");
}

static void memory_words(struct text *t, const struct trace_event *e)
{
        static const char *const names[] = { "READ", "READ data", "READ done", "WRITE data",
                                             "WRITE" };
        const struct trace_memory *m = &e->memory;

        text_add(t, "RDMA %s %u bytes at %" PRIx64 "h key %08Xh", names[e->kind - TRACE_READ],
                 m->len, m->addr, m->key);
        if (m->offset)
                text_add(t, " + %u", m->offset);
        if (m->cut)
                text_add(t, ", not complete in the capture");
}

static void iu_words(struct text *t, const struct srp_record *r)
{
        const struct trace_capsule *c = &r->e->capsule;

        srp_line(t, c->data, c->known, r->imm_at);
        if (c->known < c->len)
                text_add(t, ", not complete in the capture");
}

static const char *plain_words(enum trace_kind kind)
{
        static const struct word words[] = {
                { TRACE_CLOSED, "end of the connection" },
                { TRACE_FOUND, "continues here" },
                { TRACE_READY, "READY" },
                { TRACE_DISCONNECT, "DISCONNECT" },
                { TRACE_DISCONNECTED, "DISCONNECT answered" },
                { TRACE_TERMINATE, "RDMAP Terminate" },
                { TRACE_REFUSAL, "NAK" },
                { 0, NULL },
        };

        return word_for(words, kind);
}

void srp_words(struct text *t, const struct srp_record *r)
{
        const struct trace_event *e = r->e;
        const char *plain = plain_words(e->kind);

        if (plain)
                text_add(t, "%s", plain);
        else if (e->kind == TRACE_OPENED)
                opened_words(t, e->conn);
        else if (e->kind == TRACE_GAP)
                gap_words(t, &e->gap);
        else if (e->kind == TRACE_CAPSULE)
                iu_words(t, r);
        else if (e->kind >= TRACE_REQUEST && e->kind <= TRACE_REJECT)
                cm_words(t, r);
        else if (e->kind >= TRACE_READ && e->kind <= TRACE_WRITE)
                memory_words(t, e);
}

/* --- fields ----------------------------------------------------------------------------------- */

static void describe_cm(const struct describe *d, const struct srp_record *r)
{
        const struct trace_cm *cm = &r->e->cm;
        struct srp_login_req login;
        struct iu iu = iu_of(r);

        if (cm->depths && r->e->kind != TRACE_REJECT) {
                d->number(d->arg, "reads_in", cm->reads_in, 16, NULL);
                d->number(d->arg, "reads_out", cm->reads_out, 16, NULL);
        }
        if (r->e->kind == TRACE_REJECT)
                d->number(d->arg, "cm_reason", cm->reason, 16, NULL);
        if (r->e->kind == TRACE_REQUEST) {
                (void)srp_login_read(cm->data, cm->len, false, &login);
                srp_describe(d, &login, sizeof(login), 0);
        } else if (iu.p) {
                srp_describe(d, iu.p, iu.n, 0);
        }
}

static void describe_memory(const struct describe *d, const struct trace_memory *m)
{
        d->number(d->arg, "addr", m->addr, 64, NULL);
        d->number(d->arg, "key", m->key, 32, NULL);
        d->number(d->arg, "len", m->len, 32, NULL);
        d->number(d->arg, "offset", m->offset, 32, NULL);
        d->number(d->arg, "cut", m->cut, 1, NULL);
}

void srp_fields(const struct describe *d, const struct srp_record *r)
{
        const struct trace_event *e = r->e;

        if (e->kind == TRACE_CAPSULE) {
                d->number(d->arg, "len", e->capsule.len, 32, NULL);
                srp_describe(d, e->capsule.data, e->capsule.known, r->imm_at);
        } else if (e->kind >= TRACE_REQUEST && e->kind <= TRACE_REJECT) {
                describe_cm(d, r);
        } else if (e->kind >= TRACE_READ && e->kind <= TRACE_WRITE) {
                describe_memory(d, &e->memory);
        } else if (e->kind == TRACE_GAP) {
                d->number(d->arg, "packets", e->gap.packets, 64, NULL);
                d->number(d->arg, "bytes", e->gap.bytes, 64, NULL);
        }
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void add(struct json_object *o, const char *name, struct json_object *value)
{
        json_object_object_add(o, name, value);
}

static void add_string(struct json_object *o, const char *name, const char *s)
{
        add(o, name, json_object_new_string(s));
}

static void add_broken(struct json_object *o, const struct srp_record *r)
{
        struct json_object *list = json_object_new_array();

        add(o, "broken", list);
        rule_each_in (&r->broken, id) {
                const struct rule *rule = srp_rule_get(id);
                struct json_object *one = json_object_new_object();

                add_string(one, "rule", rule->id);
                add_string(one, "level", level_name(rule->level));
                add_string(one, "grade", grade_name(rule_grade(rule)));
                add_string(one, "bound", family_party(&srp_family, rule->bound));
                add_string(one, "source", rule->source);
                add_string(one, "says", rule->says);
                json_object_array_add(list, one);
        }
        if (r->unproven)
                add(o, "unproven", json_object_new_boolean(true));
}

struct json_object *srp_object(const struct srp_record *r)
{
        const struct trace_conn *c = r->e->conn;
        struct json_object *o = json_object_new_object();
        char end[2][CAPTURE_END_TEXT];

        add(o, "schema", json_object_new_int(SCHEMA));
        add_string(o, "protocol", srp_family.name);
        add(o, "frame", json_object_new_uint64(r->e->at.frame));
        add(o, "time_ns", json_object_new_int64(r->e->at.time_ns));
        if (r->e->at.time_guessed)
                add(o, "time_guessed", json_object_new_boolean(true));
        add(o, "connection", json_object_new_uint64(c->number));
        add_string(o, "transport", trace_transport_name(c->transport));
        add_string(o, "sender", family_party(&srp_family, r->e->sender));
        add_string(o, "kind", kind_of(r->e->kind));
        add_string(o, "state", srp_state_name(r->session->channel.state));
        if (r->e->kind == TRACE_OPENED) {
                for (int p = 0; p < 2; p++)
                        add_string(o, srp_family.parties[p], capture_end_text(&c->end[p], end[p]));
                add(o, "midstream", json_object_new_boolean(c->midstream));
        }
        if (r->is_broken)
                add_broken(o, r);
        return o;
}
