/* SPDX-License-Identifier: BSD-3-Clause */
/* `nvmfspec host SUBCOMMAND ...`: the reference host on the command line. */
#ifndef NVMF_HOST_COMMAND_H
#define NVMF_HOST_COMMAND_H

/* argv[0] is "host". Returns the exit code: enum host_trouble. */
int host_command(int argc, char **argv);

#endif
