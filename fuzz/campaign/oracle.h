/* SPDX-License-Identifier: BSD-3-Clause */
/* Who else can tell that a target is not well: itself, on a connection of its own, and a command
 * (pdu/io/shell.h). */
#ifndef NVMF_FUZZ_ORACLE_H
#define NVMF_FUZZ_ORACLE_H

#include "fuzz/remote/remote.h"
#include "pdu/io/shell.h"

enum { ORACLE_LINE = SHELL_LINE };

/*
 * A fresh association: Connect, Identify, an I/O queue, and a read of the first block of the first
 * namespace if there is one. Waits, for target->host.timeout at most for each answer; longer, and
 * says so on stderr, where no local port is free. False: why has one line.
 */
bool oracle_alive(const struct remote_target *target, char why[ORACLE_LINE]);

/* What a target says that it takes at most, in units of its own: entries (CAP.MQES, Base 2.2 3.1.4.1),
 * bytes (MDTS, IOCCSZ), events (AERL), namespaces (NN, all 5.1.13), blocks (NSZE, NVM Command Set 1.2
 * 4.1.5.1). What it does not say
 * is left out; where nobody answers there are none. */
enum { ORACLE_LIMITS = 8 };
struct oracle_limits {
        uint64_t at[ORACLE_LIMITS];
        unsigned n;
};
struct oracle_limits oracle_limits(const struct remote_target *target);

#endif
