/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latencies in buckets of logarithmic width: 64 per power of two, so that a percentile is off by at
 * most 1/64 of its value. Fixed size; recording is a shift and an increment.
 */
#ifndef NVMF_HOST_HISTOGRAM_H
#define NVMF_HOST_HISTOGRAM_H

#include <stdint.h>

enum {
        HISTOGRAM_SUB = 64, /* buckets per power of two */
        HISTOGRAM_BITS =
            40, /* values of 2^40 (18 minutes in ns) and above fall in the last bucket */
        HISTOGRAM_BUCKETS = (HISTOGRAM_BITS - 6 + 1) * HISTOGRAM_SUB,
};

struct histogram {                     /* all zero: empty */
        uint64_t count, sum, min, max; /* exact; min of an empty one is 0 */
        uint64_t bucket[HISTOGRAM_BUCKETS];
};

/* Below 64 each value has a bucket of its own; above, the top seven bits name it. */
static inline unsigned histogram_index(uint64_t value)
{
        unsigned shift;

        if (value < HISTOGRAM_SUB)
                return (unsigned)value;
        if (value >> HISTOGRAM_BITS)
                return HISTOGRAM_BUCKETS - 1;
        shift = 57 - (unsigned)__builtin_clzll(value);
        return shift * HISTOGRAM_SUB + (unsigned)(value >> shift);
}

static inline void histogram_add(struct histogram *h, uint64_t value)
{
        h->bucket[histogram_index(value)]++;
        h->sum += value;
        if (value > h->max)
                h->max = value;
        if (h->count++ == 0 || value < h->min)
                h->min = value;
}

/* As if all values of `from` had been added to `into`. */
void histogram_merge(struct histogram *into, const struct histogram *from);
double histogram_mean(const struct histogram *h); /* 0 if empty */
/*
 * The smallest recorded magnitude that at least `percent` of the values do not exceed: the top of
 * its bucket, never above max; 0 if empty.
 */
uint64_t histogram_percentile(const struct histogram *h, double percent);

#endif
