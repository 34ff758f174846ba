/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"

#include "rules.h"

static const struct topic topics[] = {
        { "srp/iu", "Information units" },
        { "srp/login", "Logging in" },
        { "srp/reject", "Rejected logins" },
        { "srp/limit", "The request limit" },
        { "srp/tag", "Tags" },
        { "srp/command", "Commands and their buffers" },
        { "srp/task-management", "Task management" },
        { "srp/response", "Responses" },
        { "srp/transfer", "RDMA READ and RDMA WRITE" },
        { "srp/logout", "Logging out" },
        { "srp/life", "Ends of channels" },
        { NULL, NULL },
};

static const char *const transports[] = { "srp", NULL }; /* over RDMA */

const struct family srp_family = {
        .name = "SRP",
        .rules = &srp_rules,
        .topics = topics,
        .transports = transports,
        .parties = { "initiator", "target" },
};
