/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/text.h"

enum { PENDING_MAX = 64, WORDS = 1024 };

/* One broken rule at one place. */
struct finding {
        const struct rule *rule;
        enum party sender;
        struct capture_place at;
        char words[WORDS];
        struct finding *next;
};

struct conn_state {
        struct trace_conn *conn;
        bool told_must, told_should;     /* something was printed */
        struct finding *pending, **last; /* in order */
        unsigned pending_n;
};

struct checker {
        const struct trace_family *family;
        const struct check_options *options;
        FILE *out;
        struct check_counts counts;
        int64_t start_ns;
        bool started;
        void *tracker;
};

void check_conn(struct text *t, const struct trace_conn *c)
{
        char host[CAPTURE_END_TEXT], controller[CAPTURE_END_TEXT];

        text_add(t, "%s %s > %s", trace_transport_name(c->transport),
                 capture_end_text(&c->end[PARTY_HOST], host),
                 capture_end_text(&c->end[PARTY_CONTROLLER], controller));
        if (c->transport == TRACE_ROCE)
                text_add(t, " QP %u > %u", c->qpn[PARTY_HOST], c->qpn[PARTY_CONTROLLER]);
}

/* --- printing --------------------------------------------------------------------------------- */

static void add_string(struct json_object *o, const char *name, const char *s)
{
        json_object_object_add(o, name, json_object_new_string(s));
}

static void print_object(FILE *out, struct json_object *o)
{
        fprintf(out, "%s\n", json_object_to_json_string_ext(o, JSON_C_TO_STRING_NOSLASHESCAPE));
        json_object_put(o);
}

static void print_finding_json(const struct checker *k, const struct trace_conn *c,
                               const struct finding *f, bool proven)
{
        struct json_object *o = json_object_new_object();

        json_object_object_add(o, "schema", json_object_new_int(1));
        json_object_object_add(o, "frame", json_object_new_uint64(f->at.frame));
        json_object_object_add(o, "time_ns", json_object_new_int64(f->at.time_ns));
        json_object_object_add(o, "connection", json_object_new_uint64(c->number));
        add_string(o, "transport", trace_transport_name(c->transport));
        k->family->place_json(o, c);
        add_string(o, "sender", party_name(f->sender));
        add_string(o, "rule", f->rule->id);
        add_string(o, "level", level_name(f->rule->level));
        add_string(o, "bound", party_name(f->rule->bound));
        add_string(o, "source", f->rule->source);
        add_string(o, "says", f->rule->says);
        add_string(o, "what", f->words);
        json_object_object_add(o, "proven", json_object_new_boolean(proven));
        print_object(k->out, o);
}

static void print_finding(const struct checker *k, const struct trace_conn *c,
                          const struct finding *f, bool proven)
{
        const struct rule *r = f->rule;
        char where[200];
        struct text t = text_in(where, sizeof(where));

        check_conn(&t, c);
        k->family->place(&t, c);
        fprintf(k->out,
                "frame %" PRIu64 "  %.6f s  connection %u (%s)\n"
                "  %s %s %s: %s (%s)%s\n"
                "  %c %s\n",
                f->at.frame, (double)(f->at.time_ns - k->start_ns) / 1e9, c->number, where,
                party_name(r->bound), level_name(r->level), r->id, r->says, r->source,
                proven ? "" : " - unless a frame is missing in the capture",
                f->sender == PARTY_HOST ? '>' : '<', f->words);
}

static bool is_wanted(const struct checker *k, const struct conn_state *c, enum level level)
{
        if (level == LEVEL_INFO)
                return false;
        return k->options->all || !(c->told_must || (level == LEVEL_SHOULD && c->told_should));
}

static void report(struct checker *k, struct conn_state *c, const struct finding *f, bool proven)
{
        enum level level = f->rule->level;

        if (!proven)
                k->counts.unproven++;
        else if (level != LEVEL_INFO)
                *(level == LEVEL_MUST ? &k->counts.musts : &k->counts.shoulds) += 1;
        if (!is_wanted(k, c, level))
                return;
        if (proven)
                *(level == LEVEL_MUST ? &c->told_must : &c->told_should) = true;
        if (k->options->json)
                print_finding_json(k, c->conn, f, proven);
        else
                print_finding(k, c->conn, f, proven);
}

/* --- waiting for proof ------------------------------------------------------------------------ */

static struct finding *take_first(struct conn_state *c)
{
        struct finding *f = c->pending;

        c->pending = f->next;
        if (!c->pending)
                c->last = &c->pending;
        c->pending_n--;
        return f;
}

/* Those that have proof by now; at the end all. */
static void report_pending(struct checker *k, struct conn_state *c, bool end)
{
        while (c->pending) {
                bool proven = trace_proven(c->conn, c->pending->sender, c->pending->at.frame);
                struct finding *f;

                if (!proven && !end)
                        return;
                f = take_first(c);
                report(k, c, f, proven);
                free(f);
        }
}

/* What the other side lost explains them. */
static void drop_pending(struct checker *k, struct conn_state *c)
{
        while (c->pending) {
                free(take_first(c));
                k->counts.unproven++;
        }
}

static void hold(struct checker *k, struct conn_state *c, const struct finding *f)
{
        struct finding *copy = c->pending_n < PENDING_MAX ? malloc(sizeof(*copy)) : NULL;

        if (!copy) {
                report(k, c, f, false);
                return;
        }
        *copy = *f;
        copy->next = NULL;
        *c->last = copy;
        c->last = &copy->next;
        c->pending_n++;
}

/* --- verdicts --------------------------------------------------------------------------------- */

static void take_broken(struct checker *k, struct conn_state *c, const struct trace_verdict *v)
{
        struct finding f = { .sender = v->e->sender, .at = v->e->at };
        struct text t = text_in(f.words, sizeof(f.words));

        rule_each_in (v->broken, id) {
                f.rule = rulebook_get(k->family->family->rules, id);
                if (t.len == 0 && (v->unproven || is_wanted(k, c, f.rule->level)))
                        k->family->words(&t, v->record);
                if (v->unproven)
                        hold(k, c, &f);
                else
                        report(k, c, &f, true);
        }
}

static void on_verdict(void *user, const struct trace_verdict *v)
{
        struct checker *k = user;
        struct trace_conn *conn = v->e->conn;
        struct conn_state *c = conn->checker;
        bool selected = !k->options->selects || k->options->selects(k->options->user, v);

        if (!k->started) {
                k->started = true;
                k->start_ns = v->e->at.time_ns;
        }
        if (v->e->kind == TRACE_OPENED && (conn->checker = c = calloc(1, sizeof(*c)))) {
                c->conn = conn;
                c->last = &c->pending;
        }
        if (!c)
                return;
        if (v->e->kind == TRACE_GAP)
                drop_pending(k, c);
        report_pending(k, c, v->e->kind == TRACE_CLOSED);
        if (selected && v->broken)
                take_broken(k, c, v);
        if (v->e->kind != TRACE_CLOSED)
                return;
        report_pending(k, c, true);
        free(c);
        conn->checker = NULL;
}

static void print_summary(const struct checker *k, const struct trace_totals *t)
{
        const struct check_counts *n = &k->counts;

        fprintf(k->out,
                "%s%" PRIu64 " frames, %" PRIu64 " connections, %" PRIu64 " gaps: %" PRIu64
                " must and %" PRIu64 " should broken",
                n->musts + n->shoulds + n->unproven ? "\n" : "", t->frames, t->conns, t->gaps,
                n->musts, n->shoulds);
        if (n->unproven)
                fprintf(k->out, ", %" PRIu64 " more may be due to missing frames", n->unproven);
        fputc('\n', k->out);
}

static void print_summary_json(const struct checker *k, const struct trace_totals *t)
{
        fprintf(k->out,
                "{\"schema\":1,\"kind\":\"summary\",\"frames\":%" PRIu64 ",\"connections\":%" PRIu64
                ",\"gaps\":%" PRIu64 ",\"must\":%" PRIu64 ",\"should\":%" PRIu64
                ",\"unproven\":%" PRIu64 "}\n",
                t->frames, t->conns, t->gaps, k->counts.musts, k->counts.shoulds,
                k->counts.unproven);
}

static void on_event(void *user, const struct trace_event *e)
{
        struct checker *k = user;

        k->family->event(k->tracker, e);
}

int capture_check(const char *path, const struct trace_family *family,
                  const struct trace_options *trace, const struct check_options *options, FILE *out,
                  struct check_counts *counts, struct trace_totals *totals, char *err,
                  size_t err_size)
{
        struct checker k = { .family = family, .options = options, .out = out };
        int rc = 0;

        *totals = (struct trace_totals) { 0 };
        k.tracker = family->open(options->waived, on_verdict, &k);
        if (k.tracker)
                rc = trace_read(path, family, trace, on_event, &k, totals, err, err_size);
        if ((!k.tracker || !family->close(k.tracker)) && rc == 0) {
                snprintf(err, err_size, "%s: out of memory", path);
                rc = -1;
        }
        *counts = k.counts;
        (options->json ? print_summary_json : print_summary)(&k, totals);
        fflush(out);
        return rc;
}
