/* SPDX-License-Identifier: BSD-3-Clause */
/* libFuzzer's own mutator, for programs without it: targets name it, replaying never calls it. */
#include "fuzz/stream.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max)
{
        (void)data;
        return size < max ? size : max;
}
