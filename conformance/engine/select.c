/* SPDX-License-Identifier: BSD-3-Clause */
#include "select.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "family.h"

extern const struct test_case *const __start_suite_cases[];
extern const struct test_case *const __stop_suite_cases[];

/* --- ids ----------------------------------------------------------------------------------- */

/* What stands after the family's own topics. */
static const struct topic own_topics[] = {
        { "probe", "What the target can do" },
        { "noticed", "Noticed during cases, but named by none" },
        { NULL, NULL },
};

static const struct topic *find_topic(const struct topic *t, const char *id, size_t len)
{
        while (t->name && (strncmp(t->name, id, len) != 0 || t->name[len] != '\0'))
                t++;
        return t;
}

/* Its place; ids without a topic come last. title: of it, "" if it has none. */
static size_t topic_of(const struct family *f, const char *id, size_t len, const char **title)
{
        const struct topic *t = find_topic(f->topics, id, len);
        size_t place = (size_t)(t - f->topics);

        if (!t->name) {
                t = find_topic(own_topics, id, len);
                place += (size_t)(t - own_topics);
        }
        if (title)
                *title = t->name ? t->title : "";
        return place;
}

size_t id_section(const char *id)
{
        const char *slash = strrchr(id, '/');

        return slash ? (size_t)(slash - id) : strlen(id);
}

int id_compare(const struct family *f, const char *a, const char *b)
{
        size_t x = topic_of(f, a, id_section(a), NULL), y = topic_of(f, b, id_section(b), NULL);

        return x == y ? strverscmp(a, b) : x < y ? -1 : 1;
}

bool id_matches(const char *pattern, const char *id)
{
        size_t len = strlen(pattern);

        if (strpbrk(pattern, "*?["))
                return fnmatch(pattern, id, 0) == 0;
        if (strncmp(pattern, id, len) != 0 || len == 0)
                return false;
        return pattern[len - 1] == '/' || strchr("/.-", id[len]) != NULL;
}

const char *section_title(const struct family *f, const char *section, size_t len)
{
        const char *title;

        topic_of(f, section, len, &title);
        return title;
}

/* --- the registry -------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b, void *family)
{
        const struct test_case *const *x = a, *const *y = b;

        return id_compare(family, (*x)->id, (*y)->id);
}

static const struct test_case **registered(const struct conform_family *f, enum role role,
                                           size_t *count)
{
        size_t all = (size_t)(__stop_suite_cases - __start_suite_cases);
        const struct test_case **list = must_have(calloc(all + 1, sizeof(struct test_case *)));

        *count = 0;
        for (size_t i = 0; i < all; i++)
                if (role == ROLE_TARGET && __start_suite_cases[i]->family == f)
                        list[(*count)++] = __start_suite_cases[i];
        return list;
}

const struct test_case **cases_all(const struct conform_family *f, enum role role, size_t *count)
{
        const struct test_case **all =
            role == ROLE_HOST && f->host_cases ? f->host_cases(count) : registered(f, role, count);

        qsort_r(all, *count, sizeof(struct test_case *), by_id, (void *)(uintptr_t)f->family);
        return all;
}

/* --- selection ----------------------------------------------------------------------------- */

static bool any_matches(const char *const *patterns, size_t n, const char *id)
{
        for (size_t i = 0; i < n; i++)
                if (id_matches(patterns[i], id))
                        return true;
        return false;
}

static bool names_any(const struct test_case *c, const struct rule_set *rules)
{
        for (const unsigned *r = c->rules; *r != RULE_NONE; r++)
                if (rule_in(rules, *r))
                        return true;
        return rule_set_empty(rules);
}

/* The transport that the id begins with, or NULL. */
static const char *transport_of(const struct test_case *c)
{
        const char *const *t = c->family->family->transports;
        size_t len = strcspn(c->id, "/");

        while (*t && (strlen(*t) != len || strncmp(c->id, *t, len) != 0))
                t++;
        return *t;
}

bool case_runs_on(const struct test_case *c, const char *transport)
{
        const char *only = transport_of(c) ?: c->only;

        return !only || strcmp(only, transport) == 0;
}

static bool takes(const struct selection *s, const struct test_case *c)
{
        const char *const *ids = (const char *const *)s->ids;

        return (!s->transport || case_runs_on(c, s->transport)) && c->level <= s->level &&
               names_any(c, &s->rules) &&
               (s->id_count == 0 || any_matches(ids, s->id_count, c->id)) &&
               !any_matches(s->excluded, s->excluded_count, c->id);
}

/* The first pattern that no case of the registry fits. */
static const char *first_unmatched(const char *const *patterns, size_t n,
                                   const struct test_case **all, size_t count)
{
        for (size_t i = 0; i < n; i++) {
                size_t c = 0;

                while (c < count && !id_matches(patterns[i], all[c]->id))
                        c++;
                if (c == count)
                        return patterns[i];
        }
        return NULL;
}

static const char *mistyped(const struct selection *s, const struct test_case **all, size_t count)
{
        const char *bad = first_unmatched((const char *const *)s->ids, s->id_count, all, count);

        return bad ? bad : first_unmatched(s->excluded, s->excluded_count, all, count);
}

const struct test_case **cases_select(const struct selection *s, size_t *count, char *error,
                                      size_t size)
{
        size_t all_count, n = 0;
        const struct test_case **all = cases_all(s->family, s->role, &all_count);
        const char *bad = mistyped(s, all, all_count);

        for (size_t i = 0; i < all_count; i++)
                if (takes(s, all[i]))
                        all[n++] = all[i];
        *count = n;
        if (!bad && n > 0)
                return all;
        if (bad)
                snprintf(error, size, "no case is called '%s' (--list shows them)", bad);
        else
                snprintf(error, size, "nothing is selected of what runs over -t %s",
                         s->transport ?: "any");
        free(all);
        return NULL;
}
