/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The controller's NVMe/TCP machine, and what a host may say to it.
 *
 * Input: a sequence of a host as text (fuzz/sequence/sequence.h).
 */
#include "fuzz/fuzz.h"
#include "fuzz/inproc/session.h"
#include "fuzz/sequence/seq_mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        session_fuzz(SEQ_TCP, PARTY_HOST, input, size);
        return 0;
}

LLVMFuzzerCustomMutator_OF_SEQUENCES(SEQ_TCP, PARTY_HOST)
