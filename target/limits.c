/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounds as the command line names them. */
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
        LIMIT(connections),     LIMIT(queue_entries), LIMIT(queues),     LIMIT(controllers),
        LIMIT(buffers),         LIMIT(max_transfer),  LIMIT(in_capsule), LIMIT(maxh2cdata),
        LIMIT(rdma_in_capsule), LIMIT(receives),      LIMIT(ic_timeout), LIMIT(stall_timeout),
        LIMIT(term_timeout),    LIMIT(idle_timeout),
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
