/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounds and rules as the command line names them. */
#include <stdio.h>
#include <string.h>

#include "pdu/io/option.h"
#include "target.h"

#define LIMIT(field)                                                                               \
        {                                                                                          \
#field, offsetof(struct target_limits, field),                                     \
                    sizeof(((struct target_limits *)0)->field)                                     \
        }
static const struct limit {
        const char *name;
        size_t offset, size;
} table[] = {
        LIMIT(connections),      LIMIT(queue_entries),
        LIMIT(queues),           LIMIT(controllers),
        LIMIT(buffers),          LIMIT(max_transfer),
        LIMIT(in_capsule),       LIMIT(maxh2cdata),
        LIMIT(rdma_in_capsule),  LIMIT(receives),
        LIMIT(ic_timeout),       LIMIT(stall_timeout),
        LIMIT(term_timeout),     LIMIT(idle_timeout),
        LIMIT(auth_timeout),     LIMIT(segment),
        LIMIT(least_rate),       LIMIT(unproven),
        LIMIT(auth_jobs),        LIMIT(host_connections),
        LIMIT(host_controllers), LIMIT(subsystem_controllers),
        LIMIT(c2hdata),          LIMIT(psk_lifetime),
};
enum { LIMITS = sizeof(table) / sizeof(table[0]) };

static const struct limit *find_limit(const char *name, size_t len)
{
        for (const struct limit *l = table; l < table + LIMITS; l++)
                if (strlen(l->name) == len && strncmp(l->name, name, len) == 0)
                        return l;
        return NULL;
}

bool target_limit(struct target_limits *limits, const char *setting, char *error, size_t size)
{
        const char *equals = strchr(setting, '=');
        const struct limit *l = equals ? find_limit(setting, (size_t)(equals - setting)) : NULL;
        char *at = (char *)limits + (l ? l->offset : 0);
        uint64_t n;

        if (!l) {
                snprintf(error, size, "'%s' is not a limit; the limits are", setting);
                for (l = table; l < table + LIMITS; l++)
                        snprintf(error + strlen(error), size - strlen(error), " %s", l->name);
                return false;
        }
        if (option_size(equals + 1, &n) < 0 || n == 0 || (l->size == 4 && n > UINT32_MAX)) {
                snprintf(error, size, "%s: '%s' is not a number in range", l->name, equals + 1);
                return false;
        }
        if (l->size == 4)
                *(uint32_t *)at = (uint32_t)n;
        else
                *(uint64_t *)at = n;
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
