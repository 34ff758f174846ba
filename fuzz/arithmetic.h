/* SPDX-License-Identifier: BSD-3-Clause */
/* Arithmetic that only looks like cryptography: fast, the same in every run, and it fails when told to. */
#ifndef NVMF_FUZZ_ARITHMETIC_H
#define NVMF_FUZZ_ARITHMETIC_H

#include "pdu/nvme/machine/auth.h"

/* Begins again: what is drawn follows from the seed, the call fails_at (1: the next one) fails; 0: none. */
const struct auth_crypto *fuzz_arithmetic(uint64_t seed, unsigned fails_at);

#endif
