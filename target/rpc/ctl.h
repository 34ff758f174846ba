/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_TARGET_RPC_CTL_H
#define NVMF_TARGET_RPC_CTL_H

/* nvmfspec ctl METHOD key=value...: calls a running target; argv[0] is the name, returns the exit code. */
int ctl_command(int argc, char **argv);

#endif
