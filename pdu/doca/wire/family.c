/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"

#include "rules.h"

static const struct topic topics[] = {
        { "doca/frame", "Frames of the control channel" },
        { "doca/order", "The order of requests" },
        { "doca/answer", "Responses" },
        { "doca/error", "Error responses" },
        { "doca/query", "Querying the storage" },
        { "doca/init", "Initialising the storage" },
        { "doca/connection", "RDMA connections" },
        { "doca/io", "I/O messages" },
        { "doca/data", "RDMA READ and RDMA WRITE" },
        { "doca/contexts", "Several contexts" },
        { "doca/stop", "Stopping the storage" },
        { "doca/gone", "Clients that go" },
        { "doca/clients", "Several clients" },
        { "doca/refused", "Services: what is refused" },
        { "doca/silent", "Services: what is not answered" },
        { "doca/closed", "Services: channels that end" },
        { NULL, NULL },
};

static const char *const transports[] = { "doca", NULL };

const struct family doca_family = {
        .name = "DOCA storage",
        .rules = &doca_rules,
        .topics = topics,
        .transports = transports,
        .parties = { "service", "target" },
};
