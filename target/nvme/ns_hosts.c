/* SPDX-License-Identifier: BSD-3-Clause */
#include "ns_hosts.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/nvme/wire/fabrics.h"

struct ns_hosts {
        unsigned count;
        char nqn[][NQN_FIELD]; /* ascending, each once */
};

static int compare(const void *a, const void *b)
{
        return strcmp(a, b);
}

struct ns_hosts *ns_hosts_new(char *const *nqns, unsigned n)
{
        struct ns_hosts *h = calloc(1, sizeof(*h) + n * sizeof(h->nqn[0]));

        if (!h)
                return NULL;
        for (unsigned i = 0; i < n; i++)
                strncpy(h->nqn[i], nqns[i], NQN_FIELD - 1);
        qsort(h->nqn, n, sizeof(h->nqn[0]), compare);
        for (unsigned i = 0; i < n; i++)
                if (h->count == 0 || strcmp(h->nqn[h->count - 1], h->nqn[i]) != 0)
                        memmove(h->nqn[h->count++], h->nqn[i], NQN_FIELD);
        return h;
}

void ns_hosts_free(struct ns_hosts *h)
{
        free(h);
}

bool ns_hosts_has(const struct ns_hosts *h, const char *hostnqn)
{
        return !h || (hostnqn && bsearch(hostnqn, h->nqn, h->count, sizeof(h->nqn[0]), compare));
}

bool ns_hosts_equal(const struct ns_hosts *a, const struct ns_hosts *b)
{
        if (!a || !b)
                return a == b;
        if (a->count != b->count)
                return false;
        for (unsigned i = 0; i < a->count; i++)
                if (strcmp(a->nqn[i], b->nqn[i]) != 0)
                        return false;
        return true;
}
