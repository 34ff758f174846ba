/* SPDX-License-Identifier: BSD-3-Clause */
/* What is kept of requests (struct srp_kept): CDBs, and where that is asked for, data as it has moved. */
#ifndef NVMF_PCAP_SRP_KEPT_H
#define NVMF_PCAP_SRP_KEPT_H

#include "family.h"

/* A new request in place of the one before it, from a whole IU; keep: room for its data, which outlives it; NULL: that is not
 * kept. False: out of memory. */
bool kept_begin(struct srp_kept *k, const union srp_iu *iu, const struct trace_capsule *c,
                uint32_t imm_at, struct keep *keep);
/* Whether a transfer goes to or from its data by a descriptor of its IU or its table, and where in the data it begins. */
bool kept_has(const struct srp_kept *k, const struct trace_memory *m, uint32_t *offset);
/* A piece of a transfer that begins at this offset of its data. False: out of memory; so below. */
bool kept_add(struct srp_kept *k, const struct trace_memory *m, uint32_t offset);
/* A piece of a transfer that is nobody's data: perhaps it is its table. */
bool kept_add_table(struct srp_kept *k, const struct trace_memory *m);
/* Nothing of it is left. */
void kept_drop(struct srp_kept *k);

#endif
