/* SPDX-License-Identifier: BSD-3-Clause */
/* DOCA's control channel to the fuzzer: requests of 3.1 to 3.3, to a live target over TCP. No connection is made, so that no
 * data moves. */
#ifndef NVMF_FUZZ_DOCA_H
#define NVMF_FUZZ_DOCA_H

#include "fuzz/sequence/fuzz_family.h"

extern const struct fuzz_family doca_fuzz;

#endif
