/* SPDX-License-Identifier: BSD-3-Clause */
/* What ns.c and the backends share. */
#ifndef NVMF_TARGET_NS_BACKEND_H
#define NVMF_TARGET_NS_BACKEND_H

#include "ns.h"

struct ns_spec {         /* what a specification says, in parts */
        const char *arg; /* behind "mem:", "null:" or "file:" */
        uint64_t bytes;  /* of SIZE or size=; 0: not given */
        uint8_t lbads;
};

/* Set ops, store and blocks of the namespace; false: `error` says why (without the spec). */
bool ns_mem_open(struct ns *ns, const struct ns_spec *spec, char *error, size_t size);
bool ns_null_open(struct ns *ns, const struct ns_spec *spec, char *error, size_t size);
bool ns_file_open(struct ns *ns, const struct ns_spec *spec, char *error, size_t size);

#endif
