/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A family of protocols, as the engines know it: the suite's runner and reports, captures, fuzzers.
 * An engine includes no header of a family. What it needs of one beyond this it takes in a struct of
 * its own with a pointer to this, so that a family's parts stay in the rooms where they can be built.
 */
#ifndef NVMF_CORE_FAMILY_H
#define NVMF_CORE_FAMILY_H

#include <stddef.h>

#include "rule.h"

struct topic { /* what ids of rules and cases begin with: "tcp/h2cdata" */
        const char *name, *title;
};

struct family {
        const char *name;             /* "NVMe over Fabrics" */
        const struct rulebook *rules; /* all of its rules; their numbers hold in it only */
        /* In the order of reports, ended by name NULL. */
        const struct topic *topics;
        /* "tcp", "rdma"; ended by NULL. Ids that begin with one and '/' are about that one alone. */
        const char *const *transports;
        /* What the protocol calls a host and a controller, by enum party; NULL: these. */
        const char *parties[2];
};

static inline const char *family_party(const struct family *f, enum party p)
{
        return f->parties[p] ? f->parties[p] : party_name(p);
}

/*
 * Families in one list, as a command is given them: an array, ended by NULL, of pointers to structs that each begin
 * with a pointer to its struct family. The first one is that of who names none.
 */
/* All transports, "tcp|rdma|...", into text. */
void families_transports(const void *const *families, char *text, size_t size);
/* Whose transport that is; NULL: nobody's. */
const void *families_find(const void *const *families, const char *transport);

#endif
