/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verdict on a capture. A finding that a frame missing from the other direction could explain
 * waits until that direction is known to be whole; if that never shows, it is told and not counted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "command.h"
#include "line.h"

enum { PENDING_MAX = 64 };

/* One broken rule at one place. */
struct finding {
        enum rule_id rule;
        enum party sender;
        struct capture_place at;
        char words[LINE_MAX_TEXT];
        struct finding *next;
};

struct conn_state {
        bool told_must, told_should;     /* something was told */
        struct finding *pending, **last; /* in order */
        unsigned pending_n;
};

struct checker {
        const struct args *args;
        int64_t start_ns;
        bool started;
        uint64_t musts, shoulds, unproven, conns;
};

static enum level level_of(enum rule_id id)
{
        return rule_get(id)->level;
}

/* --- telling ---------------------------------------------------------------------------------- */

static void tell_object(const struct trace_conn *c, const struct session *s,
                        const struct finding *f, bool proven)
{
        struct json_object *o = json_object_new_object();
        const struct rule *r = rule_get(f->rule);

        json_object_object_add(o, "schema", json_object_new_int(1));
        json_object_object_add(o, "frame", json_object_new_uint64(f->at.frame));
        json_object_object_add(o, "time_ns", json_object_new_int64(f->at.time_ns));
        json_object_object_add(o, "connection", json_object_new_uint64(c->number));
        json_object_object_add(o, "transport",
                               json_object_new_string(trace_transport_name(c->transport)));
        json_object_object_add(o, "qid", json_object_new_int(s->qid));
        if (s->assoc)
                json_object_object_add(o, "cntlid", json_object_new_int(s->assoc->cntlid));
        json_object_object_add(o, "sender", json_object_new_string(party_name(f->sender)));
        json_object_object_add(o, "rule", json_object_new_string(r->id));
        json_object_object_add(o, "level", json_object_new_string(level_name(r->level)));
        json_object_object_add(o, "bound", json_object_new_string(party_name(r->bound)));
        json_object_object_add(o, "source", json_object_new_string(r->source));
        json_object_object_add(o, "says", json_object_new_string(r->says));
        json_object_object_add(o, "what", json_object_new_string(f->words));
        json_object_object_add(o, "proven", json_object_new_boolean(proven));
        puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_NOSLASHESCAPE));
        json_object_put(o);
}

static void tell_line(const struct checker *k, const struct trace_conn *c, const struct session *s,
                      const struct finding *f, bool proven)
{
        const struct rule *r = rule_get(f->rule);
        char where[200];
        struct text t = text_in(where, sizeof(where));

        line_conn(&t, c);
        if (s->qid >= 0)
                text_add(&t, ", queue %d", s->qid);
        if (s->assoc)
                text_add(&t, " of controller %u", s->assoc->cntlid);
        printf("frame %" PRIu64 "  %.6f s  connection %u (%s)\n"
               "  %s %s %s: %s (%s)%s\n"
               "  %c %s\n",
               f->at.frame, (double)(f->at.time_ns - k->start_ns) / 1e9, c->number, where,
               party_name(r->bound), level_name(r->level), r->id, r->says, r->source,
               proven ? "" : " - unless a frame is missing", f->sender == PARTY_HOST ? '>' : '<',
               f->words);
}

static bool is_wanted(const struct checker *k, struct conn_state *c, const struct finding *f)
{
        if (level_of(f->rule) == LEVEL_INFO)
                return false;
        if (k->args->all)
                return true;
        if (level_of(f->rule) == LEVEL_SHOULD)
                return !c->told_should && !c->told_must;
        return !c->told_must;
}

static void tell(struct checker *k, const struct session *s, struct conn_state *c,
                 const struct finding *f, bool proven)
{
        bool must = level_of(f->rule) == LEVEL_MUST;

        if (!proven) {
                k->unproven++;
        } else if (level_of(f->rule) != LEVEL_INFO) {
                *(must ? &k->musts : &k->shoulds) += 1;
        }
        if (!is_wanted(k, c, f))
                return;
        if (proven)
                *(must ? &c->told_must : &c->told_should) = true;
        if (args_json(k->args))
                tell_object(s->conn, s, f, proven);
        else
                tell_line(k, s->conn, s, f, proven);
}

/* --- waiting for proof ------------------------------------------------------------------------ */

static void tell_pending(struct checker *k, const struct session *s, struct conn_state *c, bool end)
{
        while (c->pending) {
                struct finding *f = c->pending;
                bool proven = record_proven(s->conn, f->sender, f->at.frame);

                if (!proven && !end)
                        return;
                c->pending = f->next;
                if (!c->pending)
                        c->last = &c->pending;
                c->pending_n--;
                tell(k, s, c, f, proven);
                free(f);
        }
}

/* What the other side lost explains them. */
static void drop_pending(struct checker *k, struct conn_state *c)
{
        while (c->pending) {
                struct finding *f = c->pending;

                c->pending = f->next;
                free(f);
                k->unproven++;
        }
        c->last = &c->pending;
        c->pending_n = 0;
}

static void hold(struct checker *k, const struct session *s, struct conn_state *c,
                 const struct finding *f)
{
        struct finding *copy = c->pending_n < PENDING_MAX ? malloc(sizeof(*copy)) : NULL;

        if (!copy) {
                tell(k, s, c, f, false);
                return;
        }
        *copy = *f;
        copy->next = NULL;
        *c->last = copy;
        c->last = &copy->next;
        c->pending_n++;
}

/* --- records ---------------------------------------------------------------------------------- */

static void take_broken(struct checker *k, struct conn_state *c, const struct record *r)
{
        struct finding f = { .sender = r->e->sender, .at = r->e->at };
        struct text t = text_in(f.words, sizeof(f.words));

        rule_each_in (&r->broken, id) {
                f.rule = id;
                if (t.len == 0 && (r->unproven || is_wanted(k, c, &f)))
                        line_words(&t, r);
                if (r->unproven)
                        hold(k, r->session, c, &f);
                else
                        tell(k, r->session, c, &f, true);
        }
}

static void on_record(void *user, const struct record *r)
{
        struct checker *k = user;
        struct conn_state *c = r->session->user;

        if (!k->started) {
                k->started = true;
                k->start_ns = r->e->at.time_ns;
        }
        if (r->e->kind == TRACE_OPENED) {
                r->session->user = c = calloc(1, sizeof(*c));
                if (c)
                        c->last = &c->pending;
                k->conns++;
        }
        if (!c)
                return;
        if (r->e->kind == TRACE_GAP)
                drop_pending(k, c);
        tell_pending(k, r->session, c, r->e->kind == TRACE_CLOSED);
        if (r->is_broken && args_select_queue(k->args, r))
                take_broken(k, c, r);
        if (r->e->kind != TRACE_CLOSED)
                return;
        tell_pending(k, r->session, c, true);
        free(c);
        r->session->user = NULL;
}

static void print_summary(const struct checker *k, const struct trace_totals *t)
{
        printf("%s%" PRIu64 " frames, %" PRIu64 " connections, %" PRIu64 " gaps: %" PRIu64
               " must and %" PRIu64 " should broken",
               k->musts + k->shoulds + k->unproven ? "\n" : "", t->frames, t->conns, t->gaps,
               k->musts, k->shoulds);
        if (k->unproven)
                printf(", %" PRIu64 " more may be due to missing frames", k->unproven);
        printf("\n");
}

static void print_json_summary(const struct checker *k, const struct trace_totals *t)
{
        printf("{\"schema\":1,\"kind\":\"summary\",\"frames\":%" PRIu64 ",\"connections\":%" PRIu64
               ",\"gaps\":%" PRIu64 ",\"must\":%" PRIu64 ",\"should\":%" PRIu64
               ",\"unproven\":%" PRIu64 "}\n",
               t->frames, t->conns, t->gaps, k->musts, k->shoulds, k->unproven);
}

int pcap_check(struct pcap_call *call)
{
        struct session_options options = { .judge = true, .waived = &call->args->waived };
        struct checker k = { .args = call->args };
        struct trace_totals totals;

        (void)pcap_records(call, &options, on_record, &k, &totals);
        if (args_json(call->args))
                print_json_summary(&k, &totals);
        else
                print_summary(&k, &totals);
        fflush(stdout);
        pcap_remarks(call, &totals);
        return k.musts > 0 || (call->args->strict && k.shoulds > 0) ? PCAP_BROKEN : PCAP_OK;
}
