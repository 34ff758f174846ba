/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines, in ns of loop_now_ns(). */
#ifndef NVMF_HOST_TIME_H
#define NVMF_HOST_TIME_H

#include "pdu/io/loop.h"

enum { NS_PER_MS = 1000000 };

static inline uint64_t deadline_in(unsigned ms)
{
        return loop_now_ns() + (uint64_t)ms * NS_PER_MS;
}

/* ms until then, rounded up, not below 0. */
static inline int ms_until(uint64_t deadline)
{
        uint64_t now = loop_now_ns();

        return now >= deadline ? 0 : (int)((deadline - now + NS_PER_MS - 1) / NS_PER_MS);
}

#endif
