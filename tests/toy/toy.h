/* SPDX-License-Identifier: BSD-3-Clause */
/* A protocol of a few lines, through every engine: blocks over TCP. Registered in a test build only (NVMF_TOY). */
#ifndef NVMF_TOY_H
#define NVMF_TOY_H

extern const struct target_family toy_target;
extern const struct host_family toy_host;
extern const struct conform_family toy_conform;
extern const struct trace_family toy_capture;
extern const struct fuzz_family toy_fuzz;

#endif
