/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's NVMe/RDMA machine, and what a controller may say to it and a device do.
 *
 * Input: a sequence of a controller over RDMA as text (fuzz/sequence/sequence.h).
 */
#include "fuzz/inproc/session.h"
#include "fuzz/sequence/seq_mutate.h"
#include "fuzz/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        session_fuzz(SEQ_RDMA, PARTY_CONTROLLER, input, size);
        return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
        return seq_mutate_text(data, size, max, seed, SEQ_RDMA, PARTY_CONTROLLER);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                                 uint8_t *out, size_t max, unsigned seed)
{
        return seq_splice_text(a, a_size, b, b_size, out, max, seed);
}
