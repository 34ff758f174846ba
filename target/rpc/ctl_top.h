/* SPDX-License-Identifier: BSD-3-Clause */
/* A table of who uses a running target, and how much: hosts, queues, bdevs. */
#ifndef NVMF_TARGET_RPC_CTL_TOP_H
#define NVMF_TARGET_RPC_CTL_TOP_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

struct ctl_top {
        /* Calls a method without parameters; its result, to be put; NULL: it has failed, and that has been
         * told. */
        struct json_object *(*call)(void *user, const char *method);
        void *user;
        uint64_t ms, times; /* between two tables; 0: forever */
};

/* Prints it on stdout. False: a call has failed. */
bool ctl_top(const struct ctl_top *t);

#endif
