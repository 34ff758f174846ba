/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The I/O messages of one context, as whoever sees them knows them: which requests are outstanding, and what their results
 * have to echo. Passive, as control.h.
 */
#ifndef NVMF_DOCA_MACHINE_FLOW_H
#define NVMF_DOCA_MACHINE_FLOW_H

#include "pdu/doca/wire/doca.h"

enum { DOCA_FLOW_REQUESTS = 1024 }; /* outstanding at a time; of more, not all is judged */

struct doca_bounds {                     /* within which requests lie */
        uint64_t total_size, block_size; /* of the storage; 0: not known */
        uint64_t base, len;              /* of the service's memory; len 0: not known */
};
/* What a request of this kind breaks there; another one: nothing. */
void doca_bounds_check(const struct doca_dialect *d, const struct doca_bounds *b,
                       const struct doca_io *io, struct rule_set *found);

struct doca_flow {
        const struct doca_dialect *dialect;
        struct doca_bounds bounds;
        uint64_t limit; /* requests outstanding; 0: not known */
        bool missing;   /* something was not seen */
        unsigned count;
        struct doca_io request[DOCA_FLOW_REQUESTS]; /* oldest first */
};

/* Nothing is outstanding; it owns no memory. */
void doca_flow_init(struct doca_flow *f, const struct doca_dialect *d,
                    const struct doca_bounds *bounds, uint64_t limit);
/* An I/O message of n bytes; out: what it says. Rules that it breaks are added to found. */
void doca_flow_says(struct doca_flow *f, enum party sender, const void *p, size_t n,
                    struct doca_io *out, struct rule_set *found);
/* Something was not seen: what is outstanding is not known any more. */
void doca_flow_miss(struct doca_flow *f);

#endif
