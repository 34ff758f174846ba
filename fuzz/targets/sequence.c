/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sequence files: what parses prints, and prints to what parses to the same; mutators leave it so.
 *
 * Input: a sequence as text.
 */
#include "fuzz/fuzz.h"
#include "fuzz/nvme/seq_bind.h"
#include "fuzz/sequence/seq_mutate.h"

static void check_print(const struct sequence *s)
{
        static struct sequence again;
        static char text[SEQ_TEXT], second[SEQ_TEXT];
        char err[100];
        size_t n = seq_print(s, text, sizeof(text));

        must(n < sizeof(text) - 1);
        if (!seq_parse(&again, text, n, err, sizeof(err)))
                fuzz_broken(err, __FILE__, __LINE__);
        must(again.steps == s->steps && again.side == s->side);
        must(seq_print(&again, second, sizeof(second)) == n);
        must(memcmp(text, second, n) == 0);
}

static void check_bind(const struct sequence *s)
{
        static uint8_t out[BIND_ROOM];
        static uint8_t memory[BIND_MEMORY];
        static struct seq_bind b;

        seq_bind_init(&b, s->side, "nqn.host", "nqn.subsystem");
        b.memory = (struct bind_memory) { .at = memory, .addr = 0x10000, .key = 7 };
        for (unsigned i = 0; i < s->steps; i++)
                if (s->step[i].kind <= SEQ_RAW && s->transport == SEQ_TCP)
                        must(seq_bind_encode(&b, s, &s->step[i], out) <= sizeof(out));
                else if (s->step[i].kind <= SEQ_RAW)
                        (void)seq_bind_work(&b, s, &s->step[i], out);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        static struct sequence s;
        char err[100] = "";
        uint64_t seed = size;

        if (!seq_parse(&s, (const char *)input, size, err, sizeof(err))) {
                must(strncmp(err, "line ", 5) == 0 && !strchr(err, '\n'));
                return 0;
        }
        check_print(&s);
        check_bind(&s);
        for (size_t i = 0; i < size && i < 8; i++)
                seed = seed * 31 + input[size - 1 - i];
        for (unsigned i = 0; i < 4; i++) {
                seq_mutate(&s, &seed);
                check_print(&s);
        }
        return 0;
}
