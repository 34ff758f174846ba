/* SPDX-License-Identifier: BSD-3-Clause */
#include "spec.h"

#include <stdlib.h>
#include <string.h>

#include "result.h"

/* --- reading ------------------------------------------------------------------------------- */

enum column { KEY, PARTY, LEVEL, WHEN, SHOWS, RULES, GIST, COLUMNS };

static bool is_one_of(const char *word, const char *const *words)
{
        while (*words && strcmp(word, *words) != 0)
                words++;
        return *words;
}

static bool binds(const struct spec_row *row, enum party p)
{
        return strcmp(row->party, "both") == 0 || strcmp(row->party, party_name(p)) == 0;
}

static bool is_freedom(const struct spec_row *row)
{
        return strcmp(row->level, "may") == 0;
}

static bool shows(const struct spec_row *row, const char *how)
{
        return !is_freedom(row) && strncmp(row->shows, "no: ", 4) != 0 && strstr(row->shows, how);
}

enum spec_state spec_state(const struct spec_row *row)
{
        if (is_freedom(row))
                return SPEC_FREE;
        if (!shows(row, "live") && !shows(row, "capture"))
                return SPEC_UNSEEN;
        return row->rules[0] == RULE_NONE ? SPEC_OPEN : SPEC_JUDGED;
}

/* NULL, or what is wrong with them. */
static const char *read_rules(const struct rulebook *book, struct spec_row *row, char *ids)
{
        unsigned n = 0;

        for (char *save, *id = strtok_r(ids, " ", &save); id; id = strtok_r(NULL, " ", &save)) {
                unsigned rule = rulebook_by_name(book, id);

                if (rule == RULE_NONE)
                        return "names a rule that does not exist";
                if (!binds(row, book->rows[rule].bound) && book->rows[rule].reaction == REACT_NONE)
                        return "names a rule that binds the other party, and demands no reaction";
                if (n == SPEC_RULES)
                        return "names too many rules";
                row->rules[n++] = rule;
        }
        return NULL;
}

static const char *read_row(const struct rulebook *book, struct spec_row *row, char *line)
{
        static const char *const parties[] = { "host", "controller", "both", NULL };
        static const char *const levels[] = { "shall", "should", "may", "general", NULL };
        static const char *const ways[] = { "live", "capture", "live,capture", NULL };
        char *column[COLUMNS];

        for (int i = 0; i < COLUMNS; i++)
                if (!(column[i] = strsep(&line, "\t")))
                        return "has fewer than seven columns";
        *row = (struct spec_row) { .key = column[KEY],
                                   .party = column[PARTY],
                                   .level = column[LEVEL],
                                   .when = column[WHEN],
                                   .shows = column[SHOWS],
                                   .gist = column[GIST] };
        const char *section = strchr(row->key, '/'), *letter = strrchr(row->key, '/');

        if (line)
                return "has more than seven columns";
        if (!section || letter == section || !letter[1])
                return "has a key that is not DOCUMENT/SECTION/letter";
        row->document = (unsigned)(section - row->key);
        row->section = (unsigned)(letter - row->key);
        if (!is_one_of(row->party, parties))
                return "has a party that is not host, controller or both";
        if (!is_one_of(row->level, levels))
                return "has a level that is not shall, should, may or general";
        if (!is_one_of(row->shows, ways) && strncmp(row->shows, "no: ", 4) != 0)
                return "does not say how a breach shows, or 'no: ' and why it does not";
        return read_rules(book, row, column[RULES]);
}

static const struct spec_row *twin(const struct spec *s, const char *key)
{
        for (size_t i = 0; i < s->count; i++)
                /* read_row() leaves no row without a key. */
                /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
                if (strcmp(s->rows[i].key, key) == 0)
                        return &s->rows[i];
        return NULL;
}

static size_t lines_of(const char *text)
{
        size_t n = 1;

        while ((text = strchr(text, '\n')))
                text++, n++;
        return n;
}

bool spec_read(struct spec *s, const struct conform_family *f, char *error, size_t size)
{
        char *rest, *line;
        unsigned number = 0;

        *s = (struct spec) { .family = f, .text = strdup(f->spec ?: "") };
        s->rows = calloc(lines_of(f->spec ?: ""), sizeof(*s->rows));
        if (!s->text || !s->rows) {
                snprintf(error, size, "out of memory");
                spec_free(s);
                return false;
        }
        for (enum role r = ROLE_TARGET; r <= ROLE_HOST; r++)
                s->by_role[r] = rules_named(f, r);
        for (rest = s->text; (line = strsep(&rest, "\n"));) {
                struct spec_row row;
                const char *wrong;

                number++;
                if (!*line || *line == '#')
                        continue;
                wrong = read_row(f->family->rules, &row, line);
                if (!wrong && twin(s, row.key))
                        wrong = "has a key that an earlier one has";
                if (wrong) {
                        snprintf(error, size, "line %u of the table (%s) %s", number, line, wrong);
                        spec_free(s);
                        return false;
                }
                s->rows[s->count++] = row;
        }
        return true;
}

void spec_free(struct spec *s)
{
        free(s->rows);
        free(s->text);
        *s = (struct spec) { 0 };
}

/* --- what is judged ------------------------------------------------------------------------ */

/* By cases against who is tested: they name a rule that binds it, or one that binds its peer, whose
 * breach it has to answer. What a host sends is captured, and judged as a capture, whatever the case
 * is about. */
static bool judged_live(const struct spec *s, const struct spec_row *row, enum role role)
{
        enum party tested = role == ROLE_TARGET ? PARTY_CONTROLLER : PARTY_HOST;

        for (const unsigned *r = row->rules; *r != RULE_NONE; r++) {
                const struct rule *rule = rulebook_get(s->family->family->rules, *r);
                bool owes = rule->bound == tested || rule->reaction != REACT_NONE;

                if (owes && rule_in(&s->by_role[role], *r))
                        return true;
                if (role == ROLE_HOST && rule->bound == tested && (rule->seen & SEEN_CAPTURE))
                        return true;
        }
        return false;
}

static bool judged_in_captures(const struct spec *s, const struct spec_row *row)
{
        for (const unsigned *r = row->rules; *r != RULE_NONE; r++) {
                const struct rule *rule = rulebook_get(s->family->family->rules, *r);

                if (binds(row, rule->bound) && (rule->seen & SEEN_CAPTURE))
                        return true;
        }
        return false;
}

static bool begins(const char *key, const char *prefix, size_t len)
{
        return len == 0 || (strncmp(key, prefix, len) == 0 && (!key[len] || key[len] == '/'));
}

static void count_way(unsigned way[2], bool possible, bool judged)
{
        way[0] += possible && judged;
        way[1] += possible;
}

struct spec_figures spec_count(const struct spec *s, const char *prefix, size_t len)
{
        struct spec_figures n = { 0 };

        for (size_t i = 0; i < s->count; i++) {
                const struct spec_row *row = &s->rows[i];
                bool live = shows(row, "live"), capture = shows(row, "capture");

                if (!begins(row->key, prefix, len))
                        continue;
                n.rows++;
                n.unseen += !live && !capture;
                count_way(n.targets, live && binds(row, PARTY_CONTROLLER),
                          judged_live(s, row, ROLE_TARGET));
                count_way(n.hosts, live && binds(row, PARTY_HOST), judged_live(s, row, ROLE_HOST));
                count_way(n.captures, capture, judged_in_captures(s, row));
        }
        return n;
}

/* --- text ---------------------------------------------------------------------------------- */

static void print_way(FILE *out, const unsigned way[2])
{
        char text[48];

        if (way[1] > 0)
                snprintf(text, sizeof(text), "%u of %u, %.0f %%", way[0], way[1],
                         100.0 * way[0] / way[1]);
        else
                snprintf(text, sizeof(text), "-");
        fprintf(out, "  %-18s", text);
}

static void print_figures(FILE *out, const char *name, size_t len, struct spec_figures n)
{
        fprintf(out, "%-16.*s %5u", (int)len, name, n.rows);
        print_way(out, n.targets);
        print_way(out, n.hosts);
        print_way(out, n.captures);
        fprintf(out, "  %u\n", n.unseen);
}

static void print_rules(FILE *out, const struct spec *s, const struct spec_row *row)
{
        const struct rulebook *book = s->family->family->rules;

        static const char *const says[] = { [SPEC_OPEN] = "NOT JUDGED",
                                            [SPEC_FREE] = "free to do so or not",
                                            [SPEC_UNSEEN] = "can't be judged: " };
        enum spec_state state = spec_state(row);

        if (state != SPEC_JUDGED)
                fprintf(out, "      %s%s\n", says[state],
                        state == SPEC_UNSEEN ? row->shows + 4 : "");
        for (const unsigned *r = row->rules; *r != RULE_NONE; r++) {
                fprintf(out, "      %s:%s%s%s\n", book->rows[*r].id,
                        rule_in(&s->by_role[ROLE_TARGET], *r) ? " cases for targets" : "",
                        rule_in(&s->by_role[ROLE_HOST], *r) ? " cases for hosts" : "",
                        book->rows[*r].seen & SEEN_CAPTURE ? " captures" : "");
        }
}

static void print_rows(FILE *out, const struct spec *s)
{
        const char *section = "";
        size_t len = 0;

        for (size_t i = 0; i < s->count; i++) {
                const struct spec_row *row = &s->rows[i];

                if (row->section != len || strncmp(row->key, section, len) != 0)
                        fprintf(out, "%s%.*s\n", i > 0 ? "\n" : "", (int)row->section, row->key);
                section = row->key;
                len = row->section;
                fprintf(out, "  %s  %s %s (%s): %s\n", row->key + len + 1, row->party, row->level,
                        row->when, row->gist);
                print_rules(out, s, row);
        }
        fprintf(out, "\n");
}

void spec_print(FILE *out, const struct spec *s, bool brief)
{
        if (!brief)
                print_rows(out, s);
        fprintf(out, "%-16s %5s  %-18s  %-18s  %-18s  %s\n", "requirements of", "all",
                "judged of targets", "of hosts", "in captures", "can't be judged");
        for (size_t i = 0; i < s->count; i++) {
                const struct spec_row *row = &s->rows[i];

                if (i == 0 || !begins(row->key, row[-1].key, row[-1].document))
                        print_figures(out, row->key, row->document,
                                      spec_count(s, row->key, row->document));
        }
        print_figures(out, "all", 3, spec_count(s, "", 0));
}
