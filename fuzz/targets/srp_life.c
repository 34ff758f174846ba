/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The SRP target as it is, without sockets and threads, and three initiators by hand: logins, commands of every form,
 * task management, logouts, disconnects, completions that fail, messages of connection management that are lost or late,
 * a port that is disabled, a device that goes away. The input plays fate; what has to hold whatever happens stands in
 * target/srp/tests/srp_schedule.h: the fourteen invariants of a channel's life, and an end of all of it.
 *
 * Input: a byte for each choice; what is chosen beyond its end is a matter of its first bytes.
 */
#include "fuzz/fuzz.h"

#include <stdio.h>

#define assert_true(x)         must(x)
#define assert_null(p)         must((p) == NULL)
#define assert_non_null(p)     must((p) != NULL)
#define assert_int_equal(a, b) must((uint64_t)(a) == (uint64_t)(b))
#define fail_msg(...)                                                                              \
        do {                                                                                       \
                fprintf(stderr, __VA_ARGS__);                                                      \
                fputc('\n', stderr);                                                               \
                fuzz_broken("a schedule", __FILE__, __LINE__);                                     \
        } while (0)

#include "target/srp/tests/srp_schedule.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct srp_schedule s = { .input = input, .n = size, .saw = fuzz_seen };
        uint32_t digest = FUZZ_DIGEST_START;

        fuzz_digest(&digest, input, size < 4 ? size : 4);
        s.seed = digest;
        srp_schedule_run(&s);
        return 0;
}
