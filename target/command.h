/* SPDX-License-Identifier: BSD-3-Clause */
/* `nvmfspec target`: the reference target as a program. */
#ifndef NVMF_TARGET_COMMAND_H
#define NVMF_TARGET_COMMAND_H

/* argv[0] is "target". Returns the exit code: 0 after SIGTERM or SIGINT, 2 for options or a
 * configuration that it can't serve. */
int target_command(int argc, char **argv);

#endif
