/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference target's engine, and what a host may say to it on several connections.
 *
 * Input: a sequence as text (fuzz/sequence/sequence.h), of a host. Each session finds the target as the first
 * one did, and leaves it so; some are played twice, and the same has to come of it.
 */
#include "fuzz/fuzz.h"
#include "fuzz/inproc/inproc_target.h"
#include "fuzz/nvme/templates.h"
#include "fuzz/sequence/seq_mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        static struct sequence s;
        struct inproc_report report = { 0 }, again = { 0 };
        char err[100];

        if (!seq_parse(&s, (const char *)input, size, err, sizeof(err)) || s.side != PARTY_HOST ||
            s.transport != SEQ_TCP)
                return 0;
        inproc_play(&s, &report);
        if (report.digest % 16 != 0 || s.scarce > 0)
                return 0;
        inproc_play(&s, &again);
        must(again.digest == report.digest && again.pdus == report.pdus);
        return 0;
}

LLVMFuzzerCustomMutator_OF_SEQUENCES(SEQ_TCP, PARTY_HOST)
