/* SPDX-License-Identifier: BSD-3-Clause */
/* What NVMe's commands ask for of protection information (NVM Command Set 1.2, 5.3). */
#ifndef NVMF_WIRE_PROTECT_H
#define NVMF_WIRE_PROTECT_H

#include "nvme.h"
#include "pdu/core/protect.h"

/* Of Read, Write, Compare, Verify, Write Zeroes, and of Copy for what it writes. */
struct pi_use pi_use_of(const union sqe *s, const struct pi_format *f);
/* Of a source range of Copy, of the kind (16b guard, or wider) that goes with the format. */
struct pi_use pi_use_of_range(const union sqe *s, const void *range, const struct pi_format *f);

/* Whether the command can be carried out on a namespace of this type: NVME_SUCCESS or
 * NVME_INVALID_PROTECTION (5.3.3). */
uint16_t pi_admit(const struct pi_use *u, const struct pi_format *f, uint64_t slba);

#endif
