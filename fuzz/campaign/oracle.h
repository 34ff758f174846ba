/* SPDX-License-Identifier: BSD-3-Clause */
/* Who else can tell that a target is not well: itself, on a connection of its own, and a command
 * (pdu/io/shell.h). */
#ifndef NVMF_FUZZ_ORACLE_H
#define NVMF_FUZZ_ORACLE_H

#include "fuzz/remote/remote.h"
#include "pdu/io/shell.h"

enum { ORACLE_LINE = SHELL_LINE };

/* Whether a fresh connection is served as it should be. Waits, for the target's timeout at most for
 * each answer. False: why has one line. */
static inline bool oracle_alive(const struct remote_target *target, char why[ORACLE_LINE])
{
        return target->family->alive(target, why);
}

/* What a target says that it takes at most, in units of its own, such as bytes. What it does not say
 * is left out; where nobody answers there are none. */
enum { ORACLE_LIMITS = 8 };
struct oracle_limits {
        uint64_t at[ORACLE_LIMITS];
        unsigned n;
};
static inline struct oracle_limits oracle_limits(const struct remote_target *target)
{
        return target->family->limits ? target->family->limits(target)
                                      : (struct oracle_limits) { 0 };
}

#endif
