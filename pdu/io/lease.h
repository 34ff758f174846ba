/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A name that one holder at a time has among the processes of this machine (of this network namespace),
 * until it gives it up or ends: nothing is left behind, and no file is needed.
 */
#ifndef NVMF_IO_LEASE_H
#define NVMF_IO_LEASE_H

enum {
        LEASE_NAME = 100,      /* bytes at most */
        LEASE_HELD = -1,       /* somebody has it */
        LEASE_IMPOSSIBLE = -2, /* nobody can have any here */
};

/* What lease_give() takes, or one of the above. */
int lease_take(const char *name);
void lease_give(int lease); /* nothing, if it is none */

#endif
