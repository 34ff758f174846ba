/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounds and rules as the command line names them. */
#include <stdio.h>
#include <string.h>

#include "pdu/io/option.h"
#include "target.h"

#define LIMIT(field, ...)                                                                          \
        {                                                                                          \
                .name = #field, .offset = offsetof(struct target_limits, field),                   \
                .size = sizeof(((struct target_limits *)0)->field), __VA_ARGS__                    \
        }
static const struct limit {
        const char *name;
        size_t offset, size;
        bool or_none; /* 0 says TARGET_NONE */
} table[] = {
        LIMIT(connections),
        LIMIT(queue_entries),
        LIMIT(queues),
        LIMIT(controllers),
        LIMIT(buffers),
        LIMIT(max_transfer),
        LIMIT(in_capsule, .or_none = true),
        LIMIT(maxh2cdata),
        LIMIT(rdma_in_capsule, .or_none = true),
        LIMIT(receives),
        LIMIT(ic_timeout),
        LIMIT(stall_timeout),
        LIMIT(term_timeout),
        LIMIT(idle_timeout),
        LIMIT(auth_timeout),
        LIMIT(segment),
        LIMIT(least_rate),
        LIMIT(unproven),
        LIMIT(auth_jobs),
        LIMIT(host_connections),
        LIMIT(host_controllers),
        LIMIT(subsystem_controllers),
        LIMIT(c2hdata),
        LIMIT(r2t),
        LIMIT(psk_lifetime),
        LIMIT(ready_time),
};
enum { LIMITS = sizeof(table) / sizeof(table[0]) };

static const struct limit *find_limit(const char *name, size_t len)
{
        for (const struct limit *l = table; l < table + LIMITS; l++)
                if (strlen(l->name) == len && strncmp(l->name, name, len) == 0)
                        return l;
        return NULL;
}

static bool read_value(const struct limit *l, const char *value, uint64_t *n)
{
        if (option_size(value, n) < 0 || (l->size == 4 && *n > UINT32_MAX))
                return false;
        if (!l->or_none)
                return *n > 0;
        if (*n == 0)
                *n = TARGET_NONE;
        else if (*n == TARGET_NONE)
                return false;
        return true;
}

static uint64_t get(const struct target_limits *limits, const struct limit *l)
{
        const char *at = (const char *)limits + l->offset;

        return l->size == 4 ? *(const uint32_t *)at : *(const uint64_t *)at;
}

static void set(struct target_limits *limits, const struct limit *l, uint64_t n)
{
        char *at = (char *)limits + l->offset;

        if (l->size == 4)
                *(uint32_t *)at = (uint32_t)n;
        else
                *(uint64_t *)at = n;
}

void target_limits_fill(struct target_limits *limits, const struct target_limits *more)
{
        for (const struct limit *l = table; l < table + LIMITS; l++)
                if (get(limits, l) == 0)
                        set(limits, l, get(more, l));
}

bool target_limits_same(const struct target_limits *a, const struct target_limits *b)
{
        for (const struct limit *l = table; l < table + LIMITS; l++)
                if (get(a, l) != get(b, l))
                        return false;
        return true;
}

bool target_limit(struct target_limits *limits, const char *setting, char *error, size_t size)
{
        const char *equals = strchr(setting, '=');
        const struct limit *l = equals ? find_limit(setting, (size_t)(equals - setting)) : NULL;
        uint64_t n;

        if (!l) {
                snprintf(error, size, "'%s' is not a limit; the limits are", setting);
                for (l = table; l < table + LIMITS; l++)
                        snprintf(error + strlen(error), size - strlen(error), " %s", l->name);
                return false;
        }
        if (!read_value(l, equals + 1, &n)) {
                snprintf(error, size, "%s: '%s' is not a number in range", l->name, equals + 1);
                return false;
        }
        set(limits, l, n);
        return true;
}

/* What a receiver tolerates the target may do or overlook, whoever the rule binds. */
static bool add_rule(struct rule_set *set, enum party bound, const char *rule, char *error,
                     size_t size)
{
        enum rule_id id = rule_by_name(rule);

        if (id != RULE_NONE && rule_get(id)->reaction == REACT_TOLERATE)
                return option_rule(&nvme_rules, set, rule, error, size);
        return option_rule_of(&nvme_rules, set, bound, rule, error, size);
}

bool target_waive(struct rule_policy *p, const char *rule, char *error, size_t size)
{
        return add_rule(&p->waived, PARTY_HOST, rule, error, size);
}

bool target_violate(struct rule_policy *p, const char *rule, char *error, size_t size)
{
        if (rulebook_flaw_by_name(&nvme_rules, rule))
                return option_violate(&nvme_rules, p, rule, error, size);
        return add_rule(&p->violated, PARTY_CONTROLLER, rule, error, size);
}
