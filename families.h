/* SPDX-License-Identifier: BSD-3-Clause */
/* Which protocols this program speaks, and which of its commands speak them: one table, families.c. Each list is ended
 * by NULL; the first of each is that of who names no other one. The fuzzer's is fuzz_families (fuzz/sequence/fuzz_family.h). */
#ifndef NVMF_FAMILIES_H
#define NVMF_FAMILIES_H

struct conform_family;
struct host_family;
struct target_family;
struct trace_family;

const struct target_family *const *target_families(void);
const struct host_family *const *host_families(void);
const struct conform_family *const *conform_families(void);
const struct trace_family *const *trace_families(void);

#endif
