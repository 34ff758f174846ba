/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is left out of what is played to a target: what is known already to kill it would be found
 * again and again, and nothing behind it.
 */
#ifndef NVMF_FUZZ_AVOID_H
#define NVMF_FUZZ_AVOID_H

#include "templates.h"

enum { AVOID_VALUES = 16 };

struct avoid_value {
        const struct seq_template *step;
        const struct field *field;
        char op; /* '=', '<' or '>' */
        uint64_t value;
};

struct avoid {
        struct rule_set rules; /* of hosts */
        struct avoid_value value[AVOID_VALUES];
        unsigned values;
};

/* A rule of hosts by its name, or STEP.FIELD=N, <N or >N of a host's steps over this transport.
 * False: error has one line. */
bool avoid_add(struct avoid *a, enum seq_transport transport, const char *what, char *error,
               size_t size);
/* Whether one of its rules is among those that a host breaks. a may be NULL, as below. */
bool avoid_rules(const struct avoid *a, const struct rule_set *broken);
/* Whether this step's message (union pdu; over RDMA union seq_work) has one of its values. */
bool avoid_message(const struct avoid *a, const struct seq_template *step, const void *message);

#endif
