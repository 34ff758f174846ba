/* SPDX-License-Identifier: BSD-3-Clause */
/* What a fuzzer that only knows bytes cannot do to a stream of PDUs. */
#ifndef NVMF_FUZZ_STREAM_H
#define NVMF_FUZZ_STREAM_H

#include "fuzz.h"

/*
 * Walks the stream as PDUs of `sender` and repairs what a receiver looks at first: HLEN, PDO, PLEN
 * (within what is there), flags, HDGST and DDGST. The seed says of which PDU which of these are left
 * as they stand: most are repaired in full, so that what is wrong is further in.
 */
void stream_fix(uint8_t *p, size_t n, const struct pdu_format *f, enum party sender, unsigned seed);

/* Sums the digests of one PDU of n bytes, whatever it is. */
void stream_sum(uint8_t *p, size_t n, const struct pdu_format *f);

/* libFuzzer's. Without libFuzzer the first is that of fuzz/harness/mutate.c, which a seed starts. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                                 uint8_t *out, size_t max, unsigned seed);
void fuzz_mutate_seed(unsigned seed);

#endif
