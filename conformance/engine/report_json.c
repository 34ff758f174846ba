/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "cause.h"
#include "escape.h"
#include "report.h"
#include "select.h"
#include "spec.h"

/* A change that a reader could stumble over makes it 2. */
enum { SCHEMA = 1 };

static bool lost; /* memory ran out: what is there is not the whole report */

static void add(struct json_object *o, const char *name, struct json_object *value)
{
        if (o && value && json_object_object_add(o, name, value) == 0)
                return;
        json_object_put(value);
        lost = true;
}

static void push(struct json_object *a, struct json_object *value)
{
        if (a && value && json_object_array_add(a, value) == 0)
                return;
        json_object_put(value);
        lost = true;
}

/* A peer's words, or a hook's, may be anything; JSON is UTF-8. */
static struct json_object *string(const char *value)
{
        char *valid = strdup(value);
        struct json_object *o;

        if (!valid)
                return NULL;
        escape_text(valid);
        o = json_object_new_string(valid);
        free(valid);
        return o;
}

static void add_string(struct json_object *o, const char *name, const char *value)
{
        if (value && *value)
                add(o, name, string(value));
}

static void add_bool(struct json_object *o, const char *name, bool value)
{
        add(o, name, json_object_new_boolean(value));
}

static struct json_object *rule_names(const struct rulebook *book, const unsigned *rules)
{
        struct json_object *a = json_object_new_array();

        for (; *rules != RULE_NONE; rules++)
                push(a, json_object_new_string(book->rows[*rules].id));
        return a;
}

static struct json_object *notices(const struct rulebook *book, const struct result *r)
{
        struct json_object *a = json_object_new_array();

        for (unsigned i = 0; i < r->notice_count; i++) {
                struct json_object *n = json_object_new_object();

                add_string(n, "rule", book->rows[r->notices[i].rule].id);
                add_string(n, "seen", r->notices[i].line);
                push(a, n);
        }
        return a;
}

static struct json_object *exchange(const struct result *r)
{
        struct json_object *a = json_object_new_array();
        char line[EXCHANGE_LINE + 64];

        for (unsigned i = 0; i < r->exchange_count; i++) {
                exchange_format(&r->exchange[i], r->exchange_start, line, sizeof(line));
                push(a, string(line));
        }
        return a;
}

static void add_case(struct json_object *o, const struct rulebook *book, const struct result *r)
{
        if (!r->test)
                return;
        add_string(o, "requirement", r->test->says);
        add(o, "rules", rule_names(book, r->test->rules));
        add_string(o, "related", result_related(r));
        add(o, "ms", json_object_new_double(r->ms));
        add(o, "runs", json_object_new_int((int)r->repeats));
}

/* What the verdict rests on, as the report of who fails has to quote it. */
static void add_rule(struct json_object *o, const struct run *run, const struct result *r)
{
        const struct rulebook *book = run->family->family->rules;
        const struct rule *rule = rulebook_get(book, r->rule);

        if (r->cause != RULE_NONE)
                add_string(o, "cause", book->rows[r->cause].id);
        if (!rule)
                return;
        add_string(o, "rule", rule->id);
        add_string(o, "bound", party_name(rule->bound));
        add_string(o, "basis", basis_name(result_basis(run, r)));
        add_string(o, "source", rule->source);
        add_string(o, "gist", rule->says);
}

static struct json_object *result(const struct run *run, const struct result *r)
{
        const struct rulebook *book = run->family->family->rules;
        struct json_object *o = json_object_new_object();

        add_string(o, "id", r->id);
        add_string(o, "level", level_name(r->level));
        add_string(o, "verdict", verdict_name(r->verdict));
        if (r->known != KNOWN_NOT)
                add_string(o, "baseline", r->known == KNOWN_LISTED ? "listed" : "fixed");
        add_string(o, "baseline_reason", r->reason);
        add_case(o, book, r);
        add_string(o, "expected", r->expected);
        add_string(o, "seen", r->seen);
        add_string(o, "note", r->note);
        if (r->harm)
                add_bool(o, "harm", true);
        add_rule(o, run, r);
        if (r->notice_count > 0)
                add(o, "noticed", notices(book, r));
        if (r->exchange_count > 0)
                add(o, "exchange", exchange(r));
        add_string(o, "transcript", r->transcript);
        return o;
}

static struct json_object *results(const struct run *run)
{
        struct json_object *a = json_object_new_array();

        for (size_t i = 0; i < run->count; i++)
                push(a, result(run, &run->results[i]));
        return a;
}

static struct json_object *summary(const struct run *run)
{
        struct json_object *o = json_object_new_object();

        for (enum verdict v = VERDICT_PASS; v < VERDICTS; v++)
                add(o, verdict_name(v), json_object_new_int((int)run->verdicts[v]));
        add(o, "known", json_object_new_int((int)run->known));
        add(o, "fixed", json_object_new_int((int)run->fixed));
        return o;
}

static struct json_object *causes(const struct run *run)
{
        const struct rulebook *book = run->family->family->rules;
        struct json_object *a = json_object_new_array();
        char line[REPORT_LINE];

        for (size_t i = 0; i < run->cause_count; i++) {
                struct json_object *o = json_object_new_object();

                cause_says(run, &run->causes[i], line, sizeof(line));
                add_string(o, "rule", book->rows[run->causes[i].rule].id);
                add(o, "failures", json_object_new_int((int)run->causes[i].failures));
                add_string(o, "says", line);
                push(a, o);
        }
        return a;
}

static struct json_object *coverage(const struct run *run)
{
        const struct rulebook *book = run->family->family->rules;
        struct json_object *o = json_object_new_object(), *covered = json_object_new_array(),
                           *not = json_object_new_array();

        for (unsigned r = 1; r < book->count; r++)
                push(rule_in(&run->covered, r) ? covered : not,
                     json_object_new_string(book->rows[r].id));
        add(o, "covered", covered);
        add(o, "not_covered", not );
        return o;
}

static int write_out(struct json_object *o, const char *path)
{
        const char *text = json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY |
                                                                 JSON_C_TO_STRING_NOSLASHESCAPE);
        struct report_file file = { 0 };

        if (lost || !text)
                errno = ENOMEM;
        else
                file = report_open(path);
        if (file.f)
                fprintf(file.f, "%s\n", text);
        json_object_put(o);
        lost = false;
        return file.f ? report_close(&file) : -1;
}

int report_json(const struct run *run, const char *path)
{
        struct json_object *o = json_object_new_object();

        add(o, "schema", json_object_new_int(SCHEMA));
        add_string(o, "target", run->target);
        add_string(o, "abilities", run->abilities);
        add_string(o, "started", run->started);
        add(o, "seconds", json_object_new_double(run->seconds));
        add(o, "strict", json_object_new_boolean(run->strict));
        add(o, "baseline_lax", json_object_new_boolean(run->lax));
        add_string(o, "error", run->error);
        add(o, "summary", summary(run));
        add(o, "causes", causes(run));
        add(o, "results", results(run));
        add(o, "rules", coverage(run));
        return write_out(o, path);
}

static struct json_object *transports(const struct family *f, const struct test_case *c)
{
        struct json_object *a = json_object_new_array();

        for (const char *const *t = f->transports; *t; t++)
                if (case_runs_on(c, *t))
                        push(a, json_object_new_string(*t));
        return a;
}

static struct json_object *listed(const struct family *f, const struct test_case *c)
{
        struct json_object *o = json_object_new_object();

        add_string(o, "id", c->id);
        add_string(o, "level", level_name(c->level));
        add_string(o, "requirement", c->says);
        add(o, "rules", rule_names(f->rules, c->rules));
        add(o, "writes", json_object_new_boolean(c->writes));
        add(o, "changes", json_object_new_boolean(c->changes));
        add(o, "slow", json_object_new_boolean(c->slow));
        add(o, "transports", transports(f, c));
        add_string(o, "related", c->related);
        return o;
}

int report_list_json(const struct family *f, const struct test_case **cases, size_t n,
                     const char *path)
{
        struct json_object *o = json_object_new_object(), *a = json_object_new_array();

        for (size_t i = 0; i < n; i++)
                push(a, listed(f, cases[i]));
        add(o, "schema", json_object_new_int(SCHEMA));
        add(o, "cases", a);
        return write_out(o, path);
}

/* --- the rulebook -------------------------------------------------------------------------- */

static struct json_object *outcomes(const struct rule *r)
{
        struct json_object *a = json_object_new_array();

        for (int i = 0; i < RULE_OUTCOMES && r->accept[i].code; i++) {
                struct json_object *o = json_object_new_object();

                add(o, "code", json_object_new_int(r->accept[i].code));
                if (r->accept[i].place >= 0)
                        add(o, "place", json_object_new_int(r->accept[i].place));
                push(a, o);
        }
        return a;
}

static struct json_object *words(const char *text)
{
        struct json_object *a = json_object_new_array();

        for (size_t n; text && *text; text += n + (text[n] == ' ')) {
                n = strcspn(text, " ");
                push(a, json_object_new_string_len(text, (int)n));
        }
        return a;
}

static struct json_object *violators(const struct rulebook *book, const struct rule *r)
{
        struct json_object *a = json_object_new_array();

        for (unsigned i = 0; book->violators[i]; i++)
                if (r->violators >> i & 1)
                        push(a, json_object_new_string(book->violators[i]));
        return a;
}

static struct json_object *cases_of(const struct conform_family *f, unsigned rule, enum role role)
{
        struct json_object *a = json_object_new_array();
        size_t count;
        const struct test_case **all = cases_all(f, role, &count);

        for (size_t i = 0; i < count; i++)
                for (const unsigned *r = all[i]->rules; *r != RULE_NONE; r++)
                        if (*r == rule)
                                push(a, json_object_new_string(all[i]->id));
        free(all);
        return a;
}

static struct json_object *row(const struct conform_family *f, unsigned id)
{
        const struct rule *r = rulebook_get(f->family->rules, id);
        struct json_object *o = json_object_new_object();

        add_string(o, "id", r->id);
        add_string(o, "symbol", r->symbol);
        add_string(o, "bound", party_name(r->bound));
        add_string(o, "level", level_name(r->level));
        add_string(o, "basis", basis_name(r->basis));
        add_string(o, "source", r->source);
        add_string(o, "duty", r->says);
        add_string(o, "reaction", rulebook_reaction(f->family->rules, r->reaction));
        add_string(o, "reaction_basis", basis_name(r->reacts));
        add_bool(o, "unowed", r->unowed);
        add(o, "accept", outcomes(r));
        add(o, "checked", words(r->checked));
        add_string(o, "unchecked", r->unchecked);
        add(o, "violators", violators(f->family->rules, r));
        add_string(o, "unbroken", r->unbroken);
        add_bool(o, "live", r->seen & SEEN_LIVE);
        add_bool(o, "capture", r->seen & SEEN_CAPTURE);
        add_string(o, "unseen", r->unseen);
        add(o, "cases", cases_of(f, id, ROLE_TARGET));
        add(o, "host_cases", cases_of(f, id, ROLE_HOST));
        return o;
}

int report_rules_json(const struct conform_family *f, const char *path)
{
        struct json_object *o = json_object_new_object(), *a = json_object_new_array();

        for (unsigned id = 1; id < f->family->rules->count; id++)
                push(a, row(f, id));
        add(o, "schema", json_object_new_int(SCHEMA));
        add(o, "rules", a);
        return write_out(o, path);
}

/* --- the specification --------------------------------------------------------------------- */

int report_spec_json(const struct spec *s, const char *path)
{
        const struct rulebook *book = s->family->family->rules;
        struct json_object *o = json_object_new_object(), *a = json_object_new_array();

        for (const struct spec_row *r = s->rows; r < s->rows + s->count; r++) {
                struct json_object *one = json_object_new_object();

                add_string(one, "key", r->key);
                add_string(one, "party", r->party);
                add_string(one, "level", r->level);
                add_string(one, "when", r->when);
                add_string(one, "shows", r->shows);
                add_string(one, "gist", r->gist);
                add(one, "rules", rule_names(book, r->rules));
                push(a, one);
        }
        add(o, "schema", json_object_new_int(SCHEMA));
        add(o, "requirements", a);
        return write_out(o, path);
}
