/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/text.h"
#include "pdu/io/json.h"
#include "words.h"

enum { PENDING_MAX = 64, PENDING_ALL = 16384, WORDS = 1024 }; /* of a connection, of all */

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
        bool told[GRADES];               /* something of it, or of more weight, was printed */
        struct finding *pending, **last; /* in order */
        unsigned pending_n;
};

struct checker {
        const struct check_options *options;
        FILE *out;
        struct check_counts counts;
        int64_t start_ns;
        bool started;
        unsigned pending; /* findings of all connections */
        bool no_memory;   /* a connection was not judged */
};

/* --- printing --------------------------------------------------------------------------------- */

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
        put_number(o, "frame", f->at.frame);
        json_object_object_add(o, "time_ns", json_object_new_int64(f->at.time_ns));
        put_number(o, "connection", c->number);
        put_string(o, "transport", trace_transport_name(c->transport));
        if (c->family->place_json)
                c->family->place_json(o, c);
        put_string(o, "sender", family_party(c->family->family, f->sender));
        put_string(o, "rule", f->rule->id);
        put_string(o, "level", level_name(f->rule->level));
        put_string(o, "grade", grade_name(rule_grade(f->rule)));
        put_string(o, "bound", family_party(c->family->family, f->rule->bound));
        put_string(o, "source", f->rule->source);
        put_string(o, "says", f->rule->says);
        put_string(o, "what", f->words);
        put_bool(o, "proven", proven);
        print_object(k->out, o);
}

static void print_finding(const struct checker *k, const struct trace_conn *c,
                          const struct finding *f, bool proven)
{
        const struct rule *r = f->rule;
        char where[200];
        struct text t = text_in(where, sizeof(where));

        words_conn(&t, c);
        if (c->family->place)
                c->family->place(&t, c);
        fprintf(k->out,
                "frame %" PRIu64 "  %.6f s  connection %u (%s)\n"
                "  %s %s %s: %s (%s)%s\n"
                "  %c %s\n",
                f->at.frame, (double)(f->at.time_ns - k->start_ns) / 1e9, c->number, where,
                family_party(c->family->family, r->bound), grade_name(rule_grade(r)), r->id,
                r->says, r->source, proven ? "" : " - unless a frame is missing in the capture",
                f->sender == PARTY_HOST ? '>' : '<', f->words);
}

static bool is_wanted(const struct checker *k, const struct conn_state *c, enum grade grade)
{
        return grade != GRADE_INFO && (k->options->all || !c->told[grade]);
}

static void report(struct checker *k, struct conn_state *c, const struct finding *f, bool proven)
{
        enum grade grade = rule_grade(f->rule);
        bool wanted = is_wanted(k, c, grade);

        if (!proven)
                k->counts.unproven++;
        else if (grade != GRADE_INFO)
                k->counts.of[grade]++;
        if (!wanted)
                return;
        for (unsigned g = grade; proven && g < GRADES; g++)
                c->told[g] = true;
        if (k->options->json)
                print_finding_json(k, c->conn, f, proven);
        else
                print_finding(k, c->conn, f, proven);
}

/* --- waiting for proof ------------------------------------------------------------------------ */

static struct finding *take_first(struct checker *k, struct conn_state *c)
{
        struct finding *f = c->pending;

        c->pending = f->next;
        if (!c->pending)
                c->last = &c->pending;
        c->pending_n--;
        k->pending--;
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
                f = take_first(k, c);
                report(k, c, f, proven);
                free(f);
        }
}

/* What the other side lost explains them. */
static void drop_pending(struct checker *k, struct conn_state *c)
{
        while (c->pending) {
                free(take_first(k, c));
                k->counts.unproven++;
        }
}

static void hold(struct checker *k, struct conn_state *c, const struct finding *f)
{
        bool room = c->pending_n < PENDING_MAX && k->pending < PENDING_ALL;
        struct finding *copy = room ? malloc(sizeof(*copy)) : NULL;

        if (!copy) {
                report(k, c, f, false);
                return;
        }
        *copy = *f;
        copy->next = NULL;
        *c->last = copy;
        c->last = &copy->next;
        c->pending_n++;
        k->pending++;
}

/* --- records ----------------------------------------------------------------------------------- */

static void take_broken(struct checker *k, struct conn_state *c, const struct trace_record *r)
{
        const struct trace_family *family = r->e->conn->family;
        struct finding f = { .sender = r->e->sender, .at = r->e->at };
        struct text t = text_in(f.words, sizeof(f.words));

        rule_each_in (r->broken, id) {
                f.rule = rulebook_get(family->family->rules, id);
                if (t.len == 0 && (r->unproven || is_wanted(k, c, rule_grade(f.rule))))
                        family->words(&t, r->record);
                if (r->unproven)
                        hold(k, c, &f);
                else
                        report(k, c, &f, true);
        }
}

/* Whether a side said something here that a verdict can rest on: not that a connection was there, that
 * it is encrypted, half a capsule, or what its family cannot make anything of. */
static bool is_judged(const struct trace_record *r)
{
        const struct trace_event *e = r->e;
        static const bool speaks[TRACE_WRITE + 1] = {
                [TRACE_HEADER] = true,  [TRACE_PDU] = true,    [TRACE_FAULT] = true,
                [TRACE_REQUEST] = true, [TRACE_ACCEPT] = true, [TRACE_REJECT] = true,
                [TRACE_REFUSAL] = true,
        };

        if (e->kind == TRACE_CAPSULE)
                return e->capsule.known == e->capsule.len && !r->unknown;
        return speaks[e->kind] && !r->unknown;
}

static void on_record(void *user, const struct trace_record *r)
{
        struct checker *k = user;
        struct trace_conn *conn = r->e->conn;
        struct conn_state *c = conn->tool;
        bool selected = !k->options->selects || k->options->selects(k->options->user, r);

        if (!k->started) {
                k->started = true;
                k->start_ns = r->e->at.time_ns;
        }
        if (r->e->kind == TRACE_OPENED) {
                conn->tool = c = calloc(1, sizeof(*c));
                k->no_memory |= !c;
        }
        if (c && !c->conn) {
                c->conn = conn;
                c->last = &c->pending;
        }
        if (!c)
                return;
        if (r->e->kind == TRACE_GAP)
                drop_pending(k, c);
        report_pending(k, c, r->e->kind == TRACE_CLOSED);
        k->counts.judged += selected && (r->broken || is_judged(r));
        if (selected && r->broken)
                take_broken(k, c, r);
        if (r->e->kind != TRACE_CLOSED)
                return;
        report_pending(k, c, true);
        free(c);
        conn->tool = NULL;
}

static void print_summary(const struct checker *k, const struct trace_totals *t)
{
        const struct check_counts *n = &k->counts;

        fprintf(k->out,
                "%s%" PRIu64 " frames, %" PRIu64 " connections, %" PRIu64 " gaps: %" PRIu64
                " must and %" PRIu64 " should broken",
                n->of[GRADE_MUST] + n->of[GRADE_SHOULD] + n->of[GRADE_ADVICE] + n->unproven ? "\n"
                                                                                            : "",
                t->frames, t->conns, t->gaps, n->of[GRADE_MUST], n->of[GRADE_SHOULD]);
        if (n->of[GRADE_ADVICE])
                fprintf(k->out, ", %" PRIu64 " advised", n->of[GRADE_ADVICE]);
        if (n->unproven)
                fprintf(k->out, ", %" PRIu64 " more may be due to missing frames", n->unproven);
        fputc('\n', k->out);
}

static void print_summary_json(const struct checker *k, const struct trace_totals *t)
{
        fprintf(k->out,
                "{\"schema\":1,\"kind\":\"summary\",\"frames\":%" PRIu64 ",\"connections\":%" PRIu64
                ",\"gaps\":%" PRIu64 ",\"must\":%" PRIu64 ",\"should\":%" PRIu64
                ",\"advice\":%" PRIu64 ",\"unproven\":%" PRIu64 "}\n",
                t->frames, t->conns, t->gaps, k->counts.of[GRADE_MUST], k->counts.of[GRADE_SHOULD],
                k->counts.of[GRADE_ADVICE], k->counts.unproven);
}

int capture_check(const char *path, const struct trace_family *const *families,
                  const struct trace_options *trace, const struct check_options *options, FILE *out,
                  struct check_counts *counts, struct trace_totals *totals, char *err,
                  size_t err_size)
{
        struct checker k = { .options = options, .out = out };
        struct trace_reading how = {
                .judge = true, .waived = options->waived, .record = on_record, .user = &k
        };
        int rc = trace_records(path, families, trace, &how, totals, err, err_size);

        if (k.no_memory && rc == 0) {
                snprintf(err, err_size, "%s: out of memory", path);
                rc = -1;
        }
        *counts = k.counts;
        (options->json ? print_summary_json : print_summary)(&k, totals);
        fflush(out);
        return rc;
}
