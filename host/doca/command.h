/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfspec host -t doca */
#ifndef NVMF_HOST_DOCA_COMMAND_H
#define NVMF_HOST_DOCA_COMMAND_H

#include "host/engine/command.h"
#include "session.h"

struct doca_args {
        struct host_args base; /* first */
        const char *traddr, *trsvcid, *device, *dialect;
        bool reference, by_cm;
        uint64_t cores, timeout, storage;
        struct rule_policy policy;
        struct verbs_provider *verbs; /* NULL: the machine's */
};

extern const struct host_family doca_host_family;

#endif
