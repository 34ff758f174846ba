/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_CONFORMANCE_ENGINE_CONFORM_H
#define NVMF_CONFORMANCE_ENGINE_CONFORM_H

struct conform_family;

/* `nvmfspec conform`: lists, explains, or judges by the cases of one of these families (ended by NULL): the first one,
 * unless -t says another's transport. argv[0] is "conform"; returns the exit code: 0 all passed (known failures apart), 1 a failure, 2 usage, 3 the harness or
 * the connection broke, 77 everything was skipped. */
int conform_command(const struct conform_family *const *families, int argc, char **argv);

#endif
