/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The controller's NVMe/RDMA machine, and what a host may say to it and a device do.
 *
 * Input: a sequence of a host over RDMA as text (fuzz/sequence/sequence.h).
 */
#include "fuzz/fuzz.h"
#include "fuzz/inproc/session.h"
#include "fuzz/sequence/seq_mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        session_fuzz(SEQ_RDMA, PARTY_HOST, input, size);
        return 0;
}

LLVMFuzzerCustomMutator_OF_SEQUENCES(SEQ_RDMA, PARTY_HOST)
