/* SPDX-License-Identifier: BSD-3-Clause */
#include "families.h"

#include <stddef.h>

#include "conformance/conform.h"
#include "conformance/doca/doca_peer.h"
#include "conformance/engine/family.h"
#include "conformance/srp/srp_suite.h"
#include "fuzz/doca/doca_fuzz.h"
#include "fuzz/nvme/templates.h"
#include "fuzz/srp/srp_templates.h"
#include "host/cmd/command.h"
#include "host/doca/command.h"
#include "host/srp/args.h"
#include "pcap/doca/family.h"
#include "pcap/nvme/family.h"
#include "pcap/srp/family.h"
#include "target/doca/doca_server.h"
#include "target/nvme/conn.h"
#include "target/srp/srp_server.h"
#ifdef NVMF_TOY
#include "tests/toy/toy.h"
#endif

/* A protocol is a line; what it does not do here is NULL. */
static const struct protocol {
        const struct target_family *target;
        const struct host_family *host;
        const struct conform_family *conform;
        const struct trace_family *capture;
} protocols[] = {
        { &nvme_target, &nvme_host, &nvme_conform, &nvme_capture },
        { &srp_target_family, &srp_host_family, &srp_conform, &srp_capture },
        { &doca_target_family, &doca_host_family, &doca_conform, &doca_capture },
#ifdef NVMF_TOY
        { &toy_target, &toy_host, &toy_conform, &toy_capture },
#endif
};
enum { PROTOCOLS = sizeof(protocols) / sizeof(protocols[0]) };

/* What one column has. */
#define LIST(type, column)                                                                         \
        static const struct type *list[PROTOCOLS + 1];                                             \
        size_t n = 0;                                                                              \
                                                                                                   \
        for (size_t i = 0; i < PROTOCOLS; i++)                                                     \
                if (protocols[i].column)                                                           \
                        list[n++] = protocols[i].column;                                           \
        return list

const struct target_family *const *target_families(void)
{
        LIST(target_family, target);
}

const struct host_family *const *host_families(void)
{
        LIST(host_family, host);
}

const struct conform_family *const *conform_families(void)
{
        LIST(conform_family, conform);
}

const struct trace_family *const *trace_families(void)
{
        LIST(trace_family, capture);
}

/* The fuzzer's engine asks for these by name. */
const struct fuzz_family *const fuzz_families[] = {
        &nvme_fuzz, &srp_fuzz, &doca_fuzz,
#ifdef NVMF_TOY
        &toy_fuzz,
#endif
        NULL,
};
