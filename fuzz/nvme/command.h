/* SPDX-License-Identifier: BSD-3-Clause */
/* `nvmfspec fuzz ...`: sequences on the command line. */
#ifndef NVMF_FUZZ_COMMAND_H
#define NVMF_FUZZ_COMMAND_H

/* argv[0] is "fuzz". Exit code: 0 done, nothing found, 1 something was found, 2 usage,
 * 3 a file that is no sequence, or no target. */
int fuzz_command(int argc, char **argv);

#endif
