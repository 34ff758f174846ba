/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_CONFORMANCE_CONFORM_H
#define NVMF_CONFORMANCE_CONFORM_H

/* `nvmfspec conform`: judges a target by the suite. argv[0] is "conform"; returns the exit code: 0
 * all passed (known failures apart), 1 a failure, 2 usage, 3 the harness or the connection broke,
 * 77 everything was skipped. */
int conform_command(int argc, char **argv);

#endif
