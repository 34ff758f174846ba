/* SPDX-License-Identifier: BSD-3-Clause */
#include "show.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "power.h"
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

void show_list(FILE *out, const struct family *f, const struct test_case **cases, size_t n)
{
        const char *section = "";
        size_t len = 0;

        for (size_t i = 0; i < n; i++) {
                const struct test_case *c = cases[i];

                if (id_section(c->id) != len || strncmp(c->id, section, len) != 0) {
                        section = c->id;
                        len = id_section(c->id);
                        fprintf(out, "%s%.*s  %s\n", i > 0 ? "\n" : "", (int)len, section,
                                section_title(f, section, len));
                }
                fprintf(out, "  %-6s  %-12s  %-44s  %s\n", level_name(c->level), flags_of(c), c->id,
                        c->says);
        }
        fprintf(out, "\n%zu cases\n", n);
}

/* --- rules --------------------------------------------------------------------------------- */

static void print_reaction(FILE *out, const struct conform_family *f, const struct rule *r)
{
        char text[256];
        bool listed = r->reaction == REACT_TERM || r->reaction == REACT_STATUS;

        fprintf(out, "%s", rulebook_reaction(f->family->rules, r->reaction));
        for (int i = 0; listed && i < RULE_OUTCOMES && r->accept[i].code; i++) {
                if (f->outcome)
                        f->outcome(r, &r->accept[i], text, sizeof(text));
                else
                        snprintf(text, sizeof(text), "%u", r->accept[i].code);
                fprintf(out, "%s%s", i == 0 ? ": " : ", or ", text);
        }
        if (r->reacts != BASIS_NONE)
                fprintf(out, " (%s%s)", basis_name(r->reacts),
                        r->unowed ? "; nobody is required to detect it" : "");
        fprintf(out, "\n");
}

static void print_list(FILE *out, const char *before, unsigned bits, const char *const *names)
{
        for (unsigned i = 0; names[i]; i++)
                if (bits >> i & 1) {
                        fprintf(out, "%s%s", before, names[i]);
                        before = ", ";
                }
}

static void print_proof(FILE *out, const struct rulebook *book, const struct rule *r)
{
        static const char *const seen[] = { "live", "in captures", "from a single frame",
                                            "if the setup was captured", NULL };

        fprintf(out, "  checked%s %s\n",
                r->checked ? " in" : " nowhere:", r->checked ? r->checked : r->unchecked);
        fprintf(out, "  broken by");
        if (r->unbroken)
                fprintf(out, " nothing: %s", r->unbroken);
        print_list(out, " ", r->violators, book->violators);
        fprintf(out, "\n  seen");
        print_list(out, " ", r->seen, seen);
        fprintf(out, "%s%s%s%s\n", r->seen ? "" : " nowhere", r->unseen ? " (" : "",
                r->unseen ? r->unseen : "", r->unseen ? ")" : "");
}

static void print_rule(FILE *out, const struct conform_family *f, const struct rule *r)
{
        fprintf(out, "%s\n  %s\n", r->id, r->says);
        fprintf(out, "  binds the %s, %s, %s (%s)\n", party_name(r->bound), level_name(r->level),
                r->source, basis_name(r->basis));
        fprintf(out, "  if broken: ");
        print_reaction(out, f, r);
        print_proof(out, f->family->rules, r);
}

void show_rules(FILE *out, const struct conform_family *f, enum role role)
{
        const struct rulebook *book = f->family->rules;
        struct rule_set named = rules_named(f, role);

        for (unsigned r = 1; r < book->count; r++) {
                print_rule(out, f, &book->rows[r]);
                fprintf(out, "  %s\n\n", rule_in(&named, r) ? "has cases" : "no case yet");
        }
        fprintf(out, "%u rules, %u of them with cases\n", rules_total(f->family),
                rules_count(&named));
}

/* --- how many ------------------------------------------------------------------------------ */

typedef bool counts_fn(const struct rule *r, unsigned what);

static bool by_party(const struct rule *r, unsigned what)
{
        return (unsigned)r->bound == what;
}

static bool by_level(const struct rule *r, unsigned what)
{
        return (unsigned)r->level == what;
}

static bool by_basis(const struct rule *r, unsigned what)
{
        return (unsigned)r->basis == what;
}

static bool by_reaction(const struct rule *r, unsigned what)
{
        return r->reaction != REACT_NONE && (unsigned)r->reacts == what;
}

static bool by_seen(const struct rule *r, unsigned what)
{
        return what ? (r->seen & what) : !(r->seen & (SEEN_LIVE | SEEN_CAPTURE));
}

static bool by_violator(const struct rule *r, unsigned what)
{
        return r->violators & what;
}

static unsigned count(const struct rulebook *book, counts_fn *counts, unsigned what)
{
        unsigned n = 0;

        for (unsigned id = 1; id < book->count; id++)
                n += counts(&book->rows[id], what);
        return n;
}

/* Rules that a power check over this transport tries. */
static unsigned count_power(const struct conform_family *f, enum role role, const char *transport)
{
        size_t n;
        const struct test_case **all = cases_all(f, role, &n);
        struct rule_set tried = { 0 };

        for (size_t i = 0; i < n; i++)
                for (const unsigned *r = all[i]->rules; *r != RULE_NONE; r++)
                        if (case_runs_on(all[i], transport) &&
                            power_tries(f, role, rulebook_get(f->family->rules, *r)))
                                rule_add(&tried, *r);
        free(all);
        return rules_count(&tried);
}

/* "207 over TCP and 167 over RDMA"; without names: "207 and 167". */
static void print_power(FILE *out, const struct conform_family *f, enum role role, bool names)
{
        for (const char *const *t = f->family->transports; *t; t++) {
                fprintf(out, "%s%u%s", t == f->family->transports ? "" : " and ",
                        count_power(f, role, *t), names ? " over " : "");
                for (const char *c = *t; names && *c; c++)
                        fputc(toupper((unsigned char)*c), out);
        }
}

void show_count(FILE *out, const struct conform_family *f)
{
        const struct rulebook *b = f->family->rules;
        struct rule_set target = rules_named(f, ROLE_TARGET), host = rules_named(f, ROLE_HOST);

        fprintf(out, "%u rules: %u bind hosts, %u controllers; %u must, %u should, %u info\n",
                rules_total(f->family), count(b, by_party, PARTY_HOST),
                count(b, by_party, PARTY_CONTROLLER), count(b, by_level, LEVEL_MUST),
                count(b, by_level, LEVEL_SHOULD), count(b, by_level, LEVEL_INFO));
        fprintf(out, "  the duty: %u printed, %u by a general rule, %u our own reading\n",
                count(b, by_basis, BASIS_PRINTED), count(b, by_basis, BASIS_GENERAL),
                count(b, by_basis, BASIS_OWN));
        fprintf(out,
                "  the reaction to a breach: %u printed, %u by a general rule, %u our own "
                "reading, the others none\n",
                count(b, by_reaction, BASIS_PRINTED), count(b, by_reaction, BASIS_GENERAL),
                count(b, by_reaction, BASIS_OWN));
        fprintf(out, "  judged by cases: %u (%u against targets, %u against hosts)\n",
                count(b, by_seen, SEEN_LIVE), rules_count(&target), rules_count(&host));
        fprintf(out, "  judged in captures: %u; by neither: %u\n", count(b, by_seen, SEEN_CAPTURE),
                count(b, by_seen, 0));
        fprintf(out, "  broken on request: %u by target or host, %u by what a case sends\n",
                count(b, by_violator, ~f->by_case), count(b, by_violator, f->by_case));
        fprintf(out, "  power tries: ");
        print_power(out, f, ROLE_TARGET, true);
        fprintf(out, " against targets, ");
        print_power(out, f, ROLE_HOST, false);
        fprintf(out, " against hosts\n");
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
        const struct conform_family *f = c->family;
        const char *dir = c->file ? strstr(c->file, "conformance/") : NULL;

        fprintf(out, "%s\n  %s\n", c->id, c->says);
        fprintf(out, "  %s%s%s%s", level_name(c->level), c->writes ? ", writes" : "",
                c->changes ? ", makes the target change" : "",
                c->slow ? ", waits up to some seconds" : "");
        for (unsigned i = 0; c->needs >> i; i++)
                if ((c->needs >> i & 1) && f->needs[i][0])
                        fprintf(out, ", %s", f->needs[i]);
        fprintf(out, "\n");
        if (c->related)
                fprintf(out, "  related: %s\n", c->related);
        if (c->rules[0] != RULE_NONE)
                fprintf(out, "\n  rules\n");
        for (const unsigned *n = c->rules; *n != RULE_NONE; n++) {
                const struct rule *r = rulebook_get(f->family->rules, *n);

                fprintf(out, "    %s (%s, binds the %s)\n      %s\n      if broken: ", r->id,
                        r->source, party_name(r->bound), r->says);
                print_reaction(out, f, r);
        }
        if (!c->source) /* one of a table */
                return;
        fprintf(out, "\n  %s:%d\n\n", dir ? dir : c->file, c->line);
        print_source(out, c);
}

static void explain_rule(FILE *out, const struct conform_family *f, unsigned rule,
                         const struct test_case **all, size_t n)
{
        print_rule(out, f, rulebook_get(f->family->rules, rule));
        fprintf(out, "  tested by:");
        for (size_t i = 0; i < n; i++)
                for (const unsigned *r = all[i]->rules; *r != RULE_NONE; r++)
                        if (*r == rule)
                                fprintf(out, " %s", all[i]->id);
        fprintf(out, "\n");
}

static void explain_flaw(FILE *out, const struct rulebook *book, const struct flaw *flaw)
{
        const struct rule *r = rulebook_get(book, flaw->breaks);

        fprintf(out, "%s\n  %s\n", flaw->id, flaw->says);
        if (r)
                fprintf(out, "  breaks %s (%s): %s\n", r->id, r->source, r->says);
        fprintf(out, "  to be found by%s: %s\n", flaw->host ? " (--role host)" : "",
                flaw->found_by);
}

bool show_explain(FILE *out, const struct conform_family *f, enum role role, const char *id)
{
        size_t n, found = 0;
        const struct test_case **all = cases_all(f, role, &n);
        const struct rulebook *book = f->family->rules;
        unsigned rule = rulebook_by_name(book, id), flaw = rulebook_flaw_by_name(book, id);

        if (flaw) {
                explain_flaw(out, book, &book->flaws[flaw]);
                found++;
        }
        if (rule != RULE_NONE) {
                explain_rule(out, f, rule, all, n);
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
