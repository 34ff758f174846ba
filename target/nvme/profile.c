/* SPDX-License-Identifier: BSD-3-Clause */
/* Kinds of target by name: what options would set one by one. */
#include <string.h>

#include "target.h"

static const char *const large_blocks[] = { "mem:64M,bs=4096", NULL };

/* Options that set the same stand after the colon; TCP and RDMA in front of what concerns that transport alone. */
/* clang-format off */
static const struct profile {
        const char *name, *says;
        struct target_options sets;
} profiles[] = {
        { "tolerant", "bears with hosts as most targets do (the default)",
          { .rigour = RIGOUR_TOLERANT } },
        { "strict", "refuses a HOSTNQN that is not an NQN, ends an association that has lost an I/O queue",
          { .rigour = RIGOUR_STRICT } },
        { "small-queues", "16 entries a queue: --limit queue_entries=16",
          { .limits.queue_entries = 16 } },
        { "one-command", "2 entries a queue, one command at a time: --limit queue_entries=2",
          { .limits.queue_entries = 2 } },
        { "one-queue", "one I/O queue a controller: --limit queues=1",
          { .limits.queues = 1 } },
        { "flow-control", "SQ flow control that cannot be disabled: --no-sqfc-disable",
          { .no_sqfc_disable = true } },
        { "small-mdts", "8 KiB a command (MDTS 1): --limit max_transfer=8K",
          { .limits.max_transfer = 8192 } },
        { "large-blocks", "blocks of 4 KiB, unless --ns is given: --ns mem:64M,bs=4096",
          { .ns = large_blocks } },
        { "no-in-capsule", "no data in I/O capsules (IOCCSZ 4): --no-in-capsule",
          { .limits.in_capsule = TARGET_NONE, .limits.rdma_in_capsule = TARGET_NONE } },
        { "padding", "TCP: data sent to it is padded to 128 bytes: --cpda 31",
          { .cpda = 31 } },
        { "small-h2cdata", "TCP: 4 KiB of data in one H2CData: --limit maxh2cdata=4K",
          { .limits.maxh2cdata = 4096 } },
        { "icdoff", "RDMA: in-capsule data begins 32 bytes after the command: --icdoff 2",
          { .icdoff = 2 } },
        { "one-descriptor", "RDMA: one data block descriptor a command: --msdbd 1",
          { .msdbd = 1 } },
};
/* clang-format on */
enum { PROFILES = sizeof(profiles) / sizeof(profiles[0]) };

static const struct profile *find(const char *name, size_t len)
{
        for (const struct profile *p = profiles; p < profiles + PROFILES; p++)
                if (strlen(p->name) == len && strncmp(p->name, name, len) == 0)
                        return p;
        return NULL;
}

void target_profile_fill(struct target_options *o, const struct target_options *profile)
{
        target_limits_fill(&o->limits, &profile->limits);
        if (o->rigour == RIGOUR_USUAL)
                o->rigour = profile->rigour;
        if (!o->ns)
                o->ns = profile->ns;
        if (o->cpda == 0)
                o->cpda = profile->cpda;
        if (o->icdoff == 0)
                o->icdoff = profile->icdoff;
        if (o->msdbd == 0)
                o->msdbd = profile->msdbd;
        o->no_sqfc_disable |= profile->no_sqfc_disable;
}

static void name_profiles(char *text, size_t size)
{
        for (const struct profile *p = profiles; p < profiles + PROFILES; p++)
                snprintf(text + strlen(text), size - strlen(text), " %s", p->name);
}

bool target_profile(struct target_options *o, const char *names, char *error, size_t size)
{
        for (const char *name = names, *end; name; name = *end ? end + 1 : NULL) {
                const struct profile *p;
                struct target_options sum;

                end = strchrnul(name, ',');
                p = find(name, (size_t)(end - name));
                if (!p) {
                        snprintf(error, size, "'%.*s' is not a profile; the profiles are",
                                 (int)(end - name), name);
                        name_profiles(error, size);
                        return false;
                }
                sum = p->sets;
                target_profile_fill(&sum, o);
                *o = sum;
        }
        return true;
}

void target_profile_help(FILE *out)
{
        for (const struct profile *p = profiles; p < profiles + PROFILES; p++)
                fprintf(out, "  %-16s %s\n", p->name, p->says);
}
