/* SPDX-License-Identifier: BSD-3-Clause */
/* Who else can tell that a target is not well: itself, on a connection of its own, and a command. */
#ifndef NVMF_FUZZ_ORACLE_H
#define NVMF_FUZZ_ORACLE_H

#include "remote.h"

enum { ORACLE_LINE = 300 };

/*
 * A fresh association: Connect, Identify, an I/O queue, and a read of the first block of the first
 * namespace if there is one. Waits, for target->host.timeout at most for each answer. False: why has
 * one line.
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

/*
 * Runs it by the shell, in a process group of its own, and waits until the shell ends: what it has
 * left behind in the background runs on. says: the first line of what was written to standard output
 * until then, "" if there is none. Its exit status; 128 + a signal's number; -1 if it could not be
 * run, or was ended because it took longer than ORACLE_MS.
 */
enum { ORACLE_MS = 60000 };
int oracle_command(const char *command, char says[ORACLE_LINE]);

#endif
