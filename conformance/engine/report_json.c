/* SPDX-License-Identifier: BSD-3-Clause */
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "escape.h"
#include "report.h"
#include "select.h"

/* A change that a reader could stumble over makes it 2. */
enum { SCHEMA = 1 };

/* A peer's words, or a hook's, may be anything; JSON is UTF-8. */
static struct json_object *string(const char *value)
{
        char *valid = strdup(value);
        struct json_object *o;

        if (!valid)
                abort();
        escape_text(valid);
        o = json_object_new_string(valid);
        free(valid);
        return o;
}

static void add_string(struct json_object *o, const char *name, const char *value)
{
        if (value && *value)
                json_object_object_add(o, name, string(value));
}

static struct json_object *rule_names(const struct rulebook *book, const unsigned *rules)
{
        struct json_object *a = json_object_new_array();

        for (; *rules != RULE_NONE; rules++)
                json_object_array_add(a, json_object_new_string(book->rows[*rules].id));
        return a;
}

static struct json_object *notices(const struct rulebook *book, const struct result *r)
{
        struct json_object *a = json_object_new_array();

        for (unsigned i = 0; i < r->notice_count; i++) {
                struct json_object *n = json_object_new_object();

                add_string(n, "rule", book->rows[r->notices[i].rule].id);
                add_string(n, "seen", r->notices[i].line);
                json_object_array_add(a, n);
        }
        return a;
}

static struct json_object *exchange(const struct result *r)
{
        struct json_object *a = json_object_new_array();
        char line[EXCHANGE_LINE + 64];

        for (unsigned i = 0; i < r->exchange_count; i++) {
                exchange_format(&r->exchange[i], r->exchange_start, line, sizeof(line));
                json_object_array_add(a, string(line));
        }
        return a;
}

static void add_case(struct json_object *o, const struct rulebook *book, const struct result *r)
{
        if (!r->test)
                return;
        add_string(o, "requirement", r->test->says);
        json_object_object_add(o, "rules", rule_names(book, r->test->rules));
        add_string(o, "related", r->test->related);
        json_object_object_add(o, "ms", json_object_new_double(r->ms));
        json_object_object_add(o, "runs", json_object_new_int((int)r->repeats));
}

static struct json_object *result(const struct rulebook *book, const struct result *r)
{
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
        if (rulebook_get(book, r->rule))
                add_string(o, "rule", rulebook_get(book, r->rule)->id);
        if (r->notice_count > 0)
                json_object_object_add(o, "noticed", notices(book, r));
        if (r->exchange_count > 0)
                json_object_object_add(o, "exchange", exchange(r));
        add_string(o, "transcript", r->transcript);
        return o;
}

static struct json_object *results(const struct run *run)
{
        struct json_object *a = json_object_new_array();

        for (size_t i = 0; i < run->count; i++)
                json_object_array_add(a, result(run->family->family->rules, &run->results[i]));
        return a;
}

static struct json_object *summary(const struct run *run)
{
        struct json_object *o = json_object_new_object();

        for (enum verdict v = VERDICT_PASS; v < VERDICTS; v++)
                json_object_object_add(o, verdict_name(v),
                                       json_object_new_int((int)run->verdicts[v]));
        json_object_object_add(o, "known", json_object_new_int((int)run->known));
        json_object_object_add(o, "fixed", json_object_new_int((int)run->fixed));
        return o;
}

static struct json_object *coverage(const struct run *run)
{
        const struct rulebook *book = run->family->family->rules;
        struct json_object *o = json_object_new_object(), *covered = json_object_new_array(),
                           *not = json_object_new_array();

        for (unsigned r = 1; r < book->count; r++)
                json_object_array_add(rule_in(&run->covered, r) ? covered : not,
                                      json_object_new_string(book->rows[r].id));
        json_object_object_add(o, "covered", covered);
        json_object_object_add(o, "not_covered", not );
        return o;
}

static int write_out(struct json_object *o, const char *path)
{
        FILE *f = report_open(path);

        if (f)
                fprintf(f, "%s\n",
                        json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY |
                                                              JSON_C_TO_STRING_NOSLASHESCAPE));
        json_object_put(o);
        return f ? report_close(f) : -1;
}

int report_json(const struct run *run, const char *path)
{
        struct json_object *o = json_object_new_object();

        json_object_object_add(o, "schema", json_object_new_int(SCHEMA));
        add_string(o, "target", run->target);
        add_string(o, "abilities", run->abilities);
        add_string(o, "started", run->started);
        json_object_object_add(o, "seconds", json_object_new_double(run->seconds));
        json_object_object_add(o, "strict", json_object_new_boolean(run->strict));
        json_object_object_add(o, "baseline_lax", json_object_new_boolean(run->lax));
        json_object_object_add(o, "summary", summary(run));
        json_object_object_add(o, "results", results(run));
        json_object_object_add(o, "rules", coverage(run));
        return write_out(o, path);
}

static struct json_object *transports(const struct family *f, const struct test_case *c)
{
        struct json_object *a = json_object_new_array();

        for (const char *const *t = f->transports; *t; t++)
                if (case_runs_on(c, *t))
                        json_object_array_add(a, json_object_new_string(*t));
        return a;
}

static struct json_object *listed(const struct family *f, const struct test_case *c)
{
        struct json_object *o = json_object_new_object();

        add_string(o, "id", c->id);
        add_string(o, "level", level_name(c->level));
        add_string(o, "requirement", c->says);
        json_object_object_add(o, "rules", rule_names(f->rules, c->rules));
        json_object_object_add(o, "writes", json_object_new_boolean(c->writes));
        json_object_object_add(o, "changes", json_object_new_boolean(c->changes));
        json_object_object_add(o, "slow", json_object_new_boolean(c->slow));
        json_object_object_add(o, "transports", transports(f, c));
        add_string(o, "related", c->related);
        return o;
}

int report_list_json(const struct family *f, const struct test_case **cases, size_t n,
                     const char *path)
{
        struct json_object *o = json_object_new_object(), *a = json_object_new_array();

        for (size_t i = 0; i < n; i++)
                json_object_array_add(a, listed(f, cases[i]));
        json_object_object_add(o, "schema", json_object_new_int(SCHEMA));
        json_object_object_add(o, "cases", a);
        return write_out(o, path);
}

/* --- the rulebook -------------------------------------------------------------------------- */

static struct json_object *outcomes(const struct rule *r)
{
        struct json_object *a = json_object_new_array();

        for (int i = 0; i < RULE_OUTCOMES && r->accept[i].code; i++) {
                struct json_object *o = json_object_new_object();

                json_object_object_add(o, "code", json_object_new_int(r->accept[i].code));
                if (r->accept[i].place >= 0)
                        json_object_object_add(o, "place", json_object_new_int(r->accept[i].place));
                json_object_array_add(a, o);
        }
        return a;
}

static struct json_object *words(const char *text)
{
        struct json_object *a = json_object_new_array();

        for (size_t n; text && *text; text += n + (text[n] == ' ')) {
                n = strcspn(text, " ");
                json_object_array_add(a, json_object_new_string_len(text, (int)n));
        }
        return a;
}

static struct json_object *violators(const struct rulebook *book, const struct rule *r)
{
        struct json_object *a = json_object_new_array();

        for (unsigned i = 0; book->violators[i]; i++)
                if (r->violators >> i & 1)
                        json_object_array_add(a, json_object_new_string(book->violators[i]));
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
                                json_object_array_add(a, json_object_new_string(all[i]->id));
        free(all);
        return a;
}

static void add_bool(struct json_object *o, const char *name, bool value)
{
        json_object_object_add(o, name, json_object_new_boolean(value));
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
        add_string(o, "reaction", reaction_name(r->reaction));
        add_string(o, "reaction_basis", basis_name(r->reacts));
        add_bool(o, "unowed", r->unowed);
        json_object_object_add(o, "accept", outcomes(r));
        json_object_object_add(o, "checked", words(r->checked));
        add_string(o, "unchecked", r->unchecked);
        json_object_object_add(o, "violators", violators(f->family->rules, r));
        add_string(o, "unbroken", r->unbroken);
        add_bool(o, "live", r->seen & SEEN_LIVE);
        add_bool(o, "capture", r->seen & SEEN_CAPTURE);
        add_string(o, "unseen", r->unseen);
        json_object_object_add(o, "cases", cases_of(f, id, ROLE_TARGET));
        json_object_object_add(o, "host_cases", cases_of(f, id, ROLE_HOST));
        return o;
}

int report_rules_json(const struct conform_family *f, const char *path)
{
        struct json_object *o = json_object_new_object(), *a = json_object_new_array();

        for (unsigned id = 1; id < f->family->rules->count; id++)
                json_object_array_add(a, row(f, id));
        json_object_object_add(o, "schema", json_object_new_int(SCHEMA));
        json_object_object_add(o, "rules", a);
        return write_out(o, path);
}
