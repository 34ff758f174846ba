/* SPDX-License-Identifier: BSD-3-Clause */
#include "show.h"

#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "select.h"

/* --- list ---------------------------------------------------------------------------------- */

static const char *flags_of(const struct test_case *c)
{
        if (c->changes)
                return "changes";
        if (c->writes)
                return c->slow ? "writes, slow" : "writes";
        return c->slow ? "slow" : "";
}

void show_list(FILE *out, const struct test_case **cases, size_t n)
{
        const char *section = "";
        size_t len = 0;

        for (size_t i = 0; i < n; i++) {
                const struct test_case *c = cases[i];

                if (id_section(c->id) != len || strncmp(c->id, section, len) != 0) {
                        section = c->id;
                        len = id_section(c->id);
                        fprintf(out, "%s%.*s  %s\n", i > 0 ? "\n" : "", (int)len, section,
                                section_title(section, len));
                }
                fprintf(out, "  %-6s  %-12s  %-44s  %s\n", level_name(c->level), flags_of(c), c->id,
                        c->says);
        }
        fprintf(out, "\n%zu cases\n", n);
}

/* --- rules --------------------------------------------------------------------------------- */

static void print_outcome(FILE *out, const struct rule *r, const struct outcome *o)
{
        if (r->reaction == REACT_STATUS) {
                fprintf(out, "%s (%X/%02Xh)", status_name(o->code), o->code >> 8, o->code & 0xffu);
                if (o->place >= 0)
                        fprintf(out, " IPO %d in the %s", o->place & 0xffff,
                                o->place & CONNECT_IATTR_DATA ? "data" : "SQE");
                return;
        }
        fprintf(out, "%s (%02Xh)", pdu_fes_name(o->code, peer_of(r->bound)), o->code);
        if (o->place >= 0)
                fprintf(out, " FEI %d", o->place);
        else if (o->place == PLACE_DIGEST)
                fprintf(out, " FEI = the digest received");
}

static void print_reaction(FILE *out, const struct rule *r)
{
        bool listed = r->reaction == REACT_TERM || r->reaction == REACT_STATUS;

        fprintf(out, "%s", reaction_name(r->reaction));
        for (int i = 0; listed && i < RULE_OUTCOMES && r->accept[i].code; i++) {
                fprintf(out, "%s", i == 0 ? ": " : ", or ");
                print_outcome(out, r, &r->accept[i]);
        }
        fprintf(out, "\n");
}

static void print_rule(FILE *out, enum rule_id id)
{
        const struct rule *r = rule_get(id);

        fprintf(out, "%s\n  %s\n", r->id, r->says);
        fprintf(out, "  binds the %s, %s, %s\n", party_name(r->bound), level_name(r->level),
                r->source);
        fprintf(out, "  if broken: ");
        print_reaction(out, r);
}

void show_rules(FILE *out, enum role role)
{
        struct rule_set named = rules_named(role);

        rule_each (r) {
                print_rule(out, r);
                fprintf(out, "  %s\n\n", rule_in(&named, r) ? "has cases" : "no case yet");
        }
        fprintf(out, "%u rules, %u of them with cases\n", rules_total(), rules_count(&named));
}

/* --- one case ------------------------------------------------------------------------------ */

/* The text of the case, from its CASE( to the brace that closes it. */
static void print_source(FILE *out, const struct test_case *c)
{
        const char *p = c->source;

        for (int line = 1; line < c->line && p; line++) {
                p = strchr(p, '\n');
                p = p ? p + 1 : NULL;
        }
        while (p && *p) {
                size_t len = strcspn(p, "\n");

                fprintf(out, "    %.*s\n", (int)len, p);
                if (*p == '}')
                        break;
                p += len + (p[len] == '\n');
        }
}

static void explain_case(FILE *out, const struct test_case *c)
{
        const char *dir = c->file ? strstr(c->file, "conformance/") : NULL;

        fprintf(out, "%s\n  %s\n", c->id, c->says);
        fprintf(out, "  %s%s%s%s%s\n", level_name(c->level), c->writes ? ", writes" : "",
                c->changes ? ", makes the target change" : "", c->slow ? ", takes seconds" : "",
                c->discovery ? ", discovery service" : "");
        if (c->related)
                fprintf(out, "  related: %s\n", c->related);
        if (c->rules[0] != RULE_NONE)
                fprintf(out, "\n  rules\n");
        for (const enum rule_id *r = c->rules; *r != RULE_NONE; r++) {
                fprintf(out,
                        "    %s (%s, binds the %s)\n      %s\n      if broken: ", rule_get(*r)->id,
                        rule_get(*r)->source, party_name(rule_get(*r)->bound), rule_get(*r)->says);
                print_reaction(out, rule_get(*r));
        }
        if (!c->source) /* one of a table */
                return;
        fprintf(out, "\n  %s:%d\n\n", dir ? dir : c->file, c->line);
        print_source(out, c);
}

static void explain_rule(FILE *out, enum rule_id rule, const struct test_case **all, size_t n)
{
        print_rule(out, rule);
        fprintf(out, "  tested by:");
        for (size_t i = 0; i < n; i++)
                for (const enum rule_id *r = all[i]->rules; *r != RULE_NONE; r++)
                        if (*r == rule)
                                fprintf(out, " %s", all[i]->id);
        fprintf(out, "\n");
}

bool show_explain(FILE *out, enum role role, const char *id)
{
        size_t n, found = 0;
        const struct test_case **all = cases_all(role, &n);
        enum rule_id rule = rule_by_name(id);

        if (rule != RULE_NONE) {
                explain_rule(out, rule, all, n);
                found++;
        }
        for (size_t i = 0; i < n; i++) {
                if (!id_matches(id, all[i]->id))
                        continue;
                fprintf(out, "%s", found++ > 0 ? "\n\n" : "");
                explain_case(out, all[i]);
        }
        free(all);
        return found > 0;
}
