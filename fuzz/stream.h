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

/* libFuzzer's. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                                 uint8_t *out, size_t max, unsigned seed);

#endif
