/* SPDX-License-Identifier: BSD-3-Clause */
#include "select.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_cases.h"

extern const struct test_case *const __start_nvmf_cases[];
extern const struct test_case *const __stop_nvmf_cases[];

/* --- ids ----------------------------------------------------------------------------------- */

static int family(const char *id)
{
        static const char *const families[] = { "tcp/", "rdma/", "fab/", "base/", "noticed/" };
        enum { N = sizeof(families) / sizeof(families[0]) };
        int i = 0;

        while (i < N && strncmp(id, families[i], strlen(families[i])) != 0)
                i++;
        return i;
}

size_t id_section(const char *id)
{
        const char *slash = strrchr(id, '/');

        return slash ? (size_t)(slash - id) : strlen(id);
}

int id_compare(const char *a, const char *b)
{
        char sa[128], sb[128];
        int order = family(a) - family(b);

        if (order != 0)
                return order;
        snprintf(sa, sizeof(sa), "%.*s", (int)id_section(a), a);
        snprintf(sb, sizeof(sb), "%.*s", (int)id_section(b), b);
        order = strverscmp(sa, sb);
        return order != 0 ? order : strverscmp(a, b);
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

static const struct {
        const char *section, *title;
} titles[] = {
        { "tcp/3.1", "Connection set-up" },
        { "tcp/3.1.1", "Discovery entries of TCP" },
        { "tcp/3.3", "PDUs: direction, padding, alignment" },
        { "tcp/3.3.1", "Capsules and SGLs" },
        { "tcp/3.3.1.1", "Digests" },
        { "tcp/3.3.2.1", "Data from the controller" },
        { "tcp/3.3.2.2", "Data from the host" },
        { "tcp/3.4", "Keep Alive over TCP" },
        { "tcp/3.5", "Termination" },
        { "tcp/3.6.2", "PDU headers" },
        { "tcp/3.6.2.2", "ICReq" },
        { "tcp/3.6.2.3", "ICResp" },
        { "tcp/3.6.2.7", "CapsuleResp" },
        { "tcp/3.6.2.8", "R2T" },
        { "tcp/3.6.2.9", "H2CData" },
        { "tcp/3.6.2.10", "C2HData" },
        { "rdma/2.2", "Discovery entries of RDMA" },
        { "rdma/3.1", "Connection set-up: private data" },
        { "rdma/3.2", "Disconnecting" },
        { "rdma/3.3", "Capsules, SGLs, keys and data" },
        { "rdma/3.5", "Errors, and the life of queue pairs" },
        { "fab/2.2", "Failing Connects" },
        { "fab/3.1.2", "Opcodes" },
        { "fab/3.1.3.3", "Discovery" },
        { "fab/3.1.4", "Properties of the controller" },
        { "fab/3.1.4.1", "CAP" },
        { "fab/3.1.4.2", "VS" },
        { "fab/3.1.4.5", "CC" },
        { "fab/3.2.1", "Namespaces" },
        { "fab/3.3", "Commands and queues" },
        { "fab/3.3.2", "Queue size and flow control" },
        { "fab/3.3.2.3", "Queue states" },
        { "fab/3.3.3", "Completions" },
        { "fab/3.5.2", "Enabling" },
        { "fab/3.6.2", "Shutdown" },
        { "fab/3.7.2", "Controller Reset" },
        { "fab/3.9", "Keep Alive" },
        { "fab/4.3.2", "SGLs" },
        { "fab/6", "Fabrics commands" },
        { "fab/6.3", "Connect" },
        { "fab/6.4", "Disconnect" },
        { "fab/6.5", "Property Get" },
        { "fab/6.6", "Property Set" },
        { "fab/8.3.4", "Authentication" },
        { "base/5.1.1", "Abort" },
        { "base/5.1.2", "Asynchronous Event Request" },
        { "base/5.1.12", "Log pages" },
        { "base/5.1.13", "Identify" },
        { "base/5.1.25", "Features" },
        { "base/nvm", "NVM commands" },
        { "probe", "What the target can do" },
        { "noticed", "Seen on the way, named by no case" },
};

const char *section_title(const char *section, size_t len)
{
        for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
                if (strlen(titles[i].section) == len &&
                    strncmp(titles[i].section, section, len) == 0)
                        return titles[i].title;
        return "";
}

/* --- the registry -------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
        const struct test_case *const *x = a, *const *y = b;

        return id_compare((*x)->id, (*y)->id);
}

static const struct test_case **target_cases(size_t *count)
{
        size_t n = (size_t)(__stop_nvmf_cases - __start_nvmf_cases);
        const struct test_case **all = calloc(n + 1, sizeof(struct test_case *));

        if (!all)
                abort();
        memcpy(all, __start_nvmf_cases, n * sizeof(struct test_case *));
        *count = n;
        return all;
}

const struct test_case **cases_all(enum role role, size_t *count)
{
        const struct test_case **all = role == ROLE_HOST ? host_cases(count) : target_cases(count);

        qsort(all, *count, sizeof(struct test_case *), by_id);
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
        for (const enum rule_id *r = c->rules; *r != RULE_NONE; r++)
                if (rule_in(rules, *r))
                        return true;
        return rule_set_empty(rules);
}

bool case_runs_on(const struct test_case *c, uint8_t trtype)
{
        static const uint8_t of_family[] = { TRTYPE_TCP, TRTYPE_RDMA };
        int i = family(c->id);

        if (i < 2)
                return of_family[i] == trtype;
        return trtype == TRTYPE_TCP || !c->tcp_only;
}

static bool takes(const struct selection *s, const struct test_case *c)
{
        const char *const *ids = (const char *const *)s->ids;

        return (s->trtype == 0 || case_runs_on(c, s->trtype)) && c->level <= s->level &&
               names_any(c, &s->rules) &&
               (s->id_count == 0 || any_matches(ids, s->id_count, c->id)) &&
               !any_matches(s->excluded, s->excluded_count, c->id);
}

/* The first pattern that no case of the registry fits. */
static const char *useless(const char *const *patterns, size_t n, const struct test_case **all,
                           size_t count)
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
        const char *bad = useless((const char *const *)s->ids, s->id_count, all, count);

        return bad ? bad : useless(s->excluded, s->excluded_count, all, count);
}

const struct test_case **cases_select(const struct selection *s, size_t *count, char *error,
                                      size_t size)
{
        size_t all_count, n = 0;
        const struct test_case **all = cases_all(s->role, &all_count);
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
                snprintf(error, size, "nothing is selected (of what runs over %s)",
                         s->trtype == TRTYPE_RDMA ? "RDMA: -t rdma" : "TCP: -t tcp");
        free(all);
        return NULL;
}
