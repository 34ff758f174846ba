/* SPDX-License-Identifier: BSD-3-Clause */
/* The smallest sequence that is still bad. */
#ifndef NVMF_FUZZ_MINIMISE_H
#define NVMF_FUZZ_MINIMISE_H

#include "fuzz/sequence/sequence.h"

/*
 * Whether the fault still shows. A caller that has no more time, or no more target, says false from
 * then on: the work ends after as many trials as the sequence has parts.
 */
typedef bool seq_bad_fn(const struct sequence *s, void *user);

/*
 * Makes *s, that is bad, as small as it gets: steps first, in halves, quarters and so on, then what
 * each step holds (changes, digests, cuts, data, delays), until nothing more can go. Bytes that no
 * step has any more leave the pool. How many sequences were tried; *s itself is not.
 */
unsigned seq_minimise(struct sequence *s, seq_bad_fn *bad, void *user);

#endif
