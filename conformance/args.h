/* SPDX-License-Identifier: BSD-3-Clause */
/* What `nvmfspec conform` takes of NVMe besides what it takes of any family. */
#ifndef NVMF_CONFORMANCE_ARGS_H
#define NVMF_CONFORMANCE_ARGS_H

#include "conformance/words/words.h"
#include "target/nvme/target.h"

struct nvme_args {
        struct options o;
        struct peer peer; /* as given */
        uint8_t hostid[16];
        const char *change; /* command, or NULL */
        uint64_t hpda, tls_version;
        const char *tls_derivation; /* NULL: as printed */
        bool tls;
        uint64_t masked_nsid;
        /* of the embedded target */
        struct option_list ns, faults;
        uint64_t cpda;
        struct target_limits limits;   /* 0: as usual */
        struct target_options profile; /* what --profile sets, where nothing else does */
        bool limited;
        bool keyed; /* -S was given: its subsystem demands that, too */
};

static inline const struct nvme_args *nvme_args(const struct options *o)
{
        return (const struct nvme_args *)(const void *)o;
}

extern const struct option_row nvme_options[];
extern const char nvme_intro[], nvme_more[]; /* of the help */
/* As conform_family.check. */
int nvme_check(struct options *o);

#endif
