/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The controller's NVMe/TCP machine, and what a host may say to it.
 *
 * Input: a sequence as text (fuzz/sequence.h), of a host. Some are played again with the stream cut
 * behind every byte: the same has to come of it.
 */
#include "fuzz/fuzz.h"
#include "fuzz/seq_mutate.h"
#include "fuzz/session.h"
#include "fuzz/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        static struct sequence s;
        struct session_report report = { 0 }, again = { 0 };
        char err[100];

        if (!seq_parse(&s, (const char *)input, size, err, sizeof(err)) || s.side != PARTY_HOST)
                return 0;
        session_play(&s, SESSION_DECLARED, &report);
        if (report.digest % 8 != 0 || s.scarce > 0)
                return 0;
        session_play(&s, report.digest % 16 ? SESSION_BYTES : SESSION_WHOLE, &again);
        must(again.fault.rule == report.fault.rule && again.fault.fes == report.fault.fes &&
             again.fault.fei == report.fault.fei);
        /* where rules are waived a peer that overran the queue may have it wait for its owner */
        must(again.digest == report.digest || (s.config & SESSION_WAIVED));
        return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
        return seq_mutate_text(data, size, max, seed, PARTY_HOST);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                                 uint8_t *out, size_t max, unsigned seed)
{
        return seq_splice_text(a, a_size, b, b_size, out, max, seed);
}
