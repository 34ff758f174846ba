/* SPDX-License-Identifier: BSD-3-Clause */
#include "baseline.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "family.h"

/* --- reading ------------------------------------------------------------------------------- */

static char *trim(char *s)
{
        size_t len;

        s += strspn(s, " \t\r");
        len = strlen(s);
        while (len > 0 && strchr(" \t\r", s[len - 1]))
                s[--len] = '\0';
        return s;
}

static enum verdict word(const char *s)
{
        static const enum verdict may_be[] = { VERDICT_FAIL, VERDICT_LENIENT, VERDICT_ADVICE };

        for (size_t i = 0; i < sizeof(may_be) / sizeof(may_be[0]); i++)
                if (strcmp(s, verdict_name(may_be[i])) == 0)
                        return may_be[i];
        return VERDICT_NONE;
}

/* Fills in an entry from a line that is not empty; NULL, or what is wrong with it. */
static const char *parse_line(char *line, char *comment, struct baseline_entry *e)
{
        char *rest, *id = strtok_r(line, " \t\r", &rest);
        char *verdict = strtok_r(NULL, " \t\r", &rest);
        char *when = verdict ? strtok_r(NULL, " \t\r", &rest) : NULL;
        enum verdict v = verdict ? word(verdict) : VERDICT_NONE;

        if (v == VERDICT_NONE)
                return "the verdict after the id is not 'fail', 'lenient' or 'advice'";
        if (when && (strcmp(when, "sometimes") != 0 || strtok_r(NULL, " \t\r", &rest)))
                return "unexpected text after id and verdict (a reason starts with '#')";
        if (strlen(id) >= sizeof(e->id))
                return "the id is too long";
        *e = (struct baseline_entry) { .verdict = v, .sometimes = when != NULL };
        snprintf(e->id, sizeof(e->id), "%s", id);
        snprintf(e->reason, sizeof(e->reason), "%s", comment ? trim(comment) : "");
        return NULL;
}

static const char *append(struct baseline *b, const struct baseline_entry *e)
{
        struct baseline_entry *more = realloc(b->entries, (b->count + 1) * sizeof(*e));

        if (!more)
                return "out of memory";
        more[b->count++] = *e;
        b->entries = more;
        return NULL;
}

static const char *take_line(struct baseline *b, char *line, int number)
{
        struct baseline_entry e;
        char *comment = strchr(line, '#');
        const char *wrong;

        if (comment)
                *comment++ = '\0';
        line = trim(line);
        if (*line == '\0')
                return NULL;
        wrong = parse_line(line, comment, &e);
        e.line = number;
        return wrong ?: append(b, &e);
}

int baseline_parse(struct baseline *b, const char *text, const char *name, char *error, size_t size)
{
        char *copy = must_have(strdup(text)), *rest = copy, *line;

        for (int number = 1; (line = strsep(&rest, "\n")); number++) {
                const char *wrong = take_line(b, line, number);

                if (!wrong)
                        continue;
                snprintf(error, size, "%s:%d: %s", name, number, wrong);
                free(copy);
                baseline_free(b);
                return -1;
        }
        free(copy);
        return 0;
}

/* The text of a file, or NULL with errno. */
static char *slurp(const char *path)
{
        FILE *f = fopen(path, "r");
        char *text = NULL;
        size_t cap = 0;
        int failed = 0;

        if (!f)
                return NULL;
        if (getdelim(&text, &cap, '\0', f) < 0) {
                failed = ferror(f) ? errno : 0; /* of a folder, say */
                free(text);
                text = failed ? NULL : strdup("");
        }
        fclose(f);
        errno = failed ? failed : errno;
        return text;
}

int baseline_read(struct baseline *b, const char *path, char *error, size_t size)
{
        char *text = slurp(path);
        int result;

        if (!text) {
                snprintf(error, size, "%s: %s", path, strerror(errno));
                baseline_free(b);
                return -1;
        }
        result = baseline_parse(b, text, path, error, size);
        free(text);
        return result;
}

void baseline_free(struct baseline *b)
{
        free(b->entries);
        *b = (struct baseline) { 0 };
}

/* --- what it names ------------------------------------------------------------------------- */

/* Results that a run may have: of cases, of rules that are noticed, of the probe. */
static bool names_any(const struct baseline_entry *e, const struct rulebook *rules,
                      const struct test_case **all, size_t count)
{
        char noticed[sizeof(e->id)];

        for (size_t i = 0; i < count; i++)
                if (fnmatch(e->id, all[i]->id, 0) == 0)
                        return true;
        for (unsigned rule = 1; rule < rules->count; rule++) {
                snprintf(noticed, sizeof(noticed), "noticed/%s", rules->rows[rule].id);
                if (fnmatch(e->id, noticed, 0) == 0)
                        return true;
        }
        return strncmp(e->id, "probe/", strlen("probe/")) == 0 ||
               fnmatch(e->id, "noticed/leak", 0) == 0 || fnmatch(e->id, "noticed/death", 0) == 0;
}

const struct baseline_entry *baseline_stray(const struct baseline *b, size_t from,
                                            const struct conform_family *f, enum role role)
{
        size_t count, i = from;
        const struct test_case **all = cases_all(f, role, &count);

        while (i < b->count && names_any(&b->entries[i], f->family->rules, all, count))
                i++;
        free(all);
        return i < b->count ? &b->entries[i] : NULL;
}

/* --- applying ------------------------------------------------------------------------------ */

static bool lists(const struct baseline_entry *e, const struct result *r)
{
        return fnmatch(e->id, r->id, 0) == 0;
}

/* 'lenient' excuses what fails in a strict run only; advice needs no excuse. */
static bool excuses(const struct baseline_entry *e, const struct result *r)
{
        return r->verdict == VERDICT_FAIL &&
               (e->verdict == VERDICT_FAIL || (e->verdict == VERDICT_LENIENT && r->only_strict));
}

static bool passes(const struct result *r)
{
        return r->verdict == VERDICT_PASS || r->verdict == VERDICT_ADVICE ||
               r->verdict == VERDICT_LENIENT;
}

/* Outside of a strict run there is nothing to be said about a 'lenient' entry, and never about an
 * 'advice', or one that is there by chance. */
static bool judged(const struct baseline_entry *e, const struct run *run)
{
        if (e->sometimes)
                return false;
        return e->verdict == VERDICT_FAIL || (e->verdict == VERDICT_LENIENT && run->strict);
}

static void apply(const struct baseline_entry *e, struct run *run)
{
        bool excused = false;

        for (size_t i = 0; i < run->count; i++) {
                struct result *r = &run->results[i];

                if (!lists(e, r) || !excuses(e, r))
                        continue;
                r->known = KNOWN_LISTED;
                r->reason = e->reason;
                excused = true;
        }
        for (size_t i = 0; i < run->count && !excused && judged(e, run); i++)
                if (lists(e, &run->results[i]) && passes(&run->results[i]))
                        run->results[i].known = KNOWN_FIXED;
}

void baseline_apply(const struct baseline *b, struct run *run)
{
        for (size_t i = 0; i < b->count; i++)
                apply(&b->entries[i], run);
}
