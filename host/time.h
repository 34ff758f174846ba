/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines, in ns of host_now(). */
#ifndef NVMF_HOST_TIME_H
#define NVMF_HOST_TIME_H

#include "host/nvme/queue.h"

static inline uint64_t deadline_in(unsigned ms)
{
        return host_now() + (uint64_t)ms * 1000000;
}

/* ms until then, rounded up, not below 0. */
static inline int ms_until(uint64_t deadline)
{
        uint64_t now = host_now();

        return now >= deadline ? 0 : (int)((deadline - now + 999999) / 1000000);
}

#endif
