/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_CONFORMANCE_ENGINE_CONFORM_H
#define NVMF_CONFORMANCE_ENGINE_CONFORM_H

struct conform_family;

/* `nvmfspec conform` for this family: lists, explains, or judges by its cases. argv[0] is "conform";
 * returns the exit code: 0 all passed (known failures apart), 1 a failure, 2 usage, 3 the harness or
 * the connection broke, 77 everything was skipped. */
int conform_run(const struct conform_family *f, int argc, char **argv);

#endif
