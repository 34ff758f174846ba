/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference target inside this process: on a free port of the loopback interface, or over RDMA
 * in memory, with private data that are not padded (so that their length can be tested). */
#ifndef NVMF_CONFORMANCE_EMBEDDED_H
#define NVMF_CONFORMANCE_EMBEDDED_H

#include "args.h"
#include "target/nvme/target.h"

struct embedded {
        struct target *target;
        struct verbs_provider *verbs; /* NULL: TCP */
        char trsvcid[8];
        const struct nvme_args *args;
        bool changed[CHANGES]; /* by enum change, from what it was at first */
};

/* False: error says why. */
bool embedded_start(struct embedded *e, const struct nvme_args *a, const struct rule_policy *policy,
                    char *error, size_t size);
/* Nobody uses suite.verbs any more. */
void embedded_stop(struct embedded *e);
/* Points the suite at it, and has it changed where the suite asks for that; e has to outlive it. */
void embedded_address(struct embedded *e, struct suite *s);

#endif
