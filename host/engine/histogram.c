/* SPDX-License-Identifier: BSD-3-Clause */
#include "histogram.h"

#include <math.h>

void histogram_merge(struct histogram *into, const struct histogram *from)
{
        if (from->count == 0)
                return;
        if (into->count == 0 || from->min < into->min)
                into->min = from->min;
        if (from->max > into->max)
                into->max = from->max;
        into->count += from->count;
        into->sum += from->sum;
        for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
                into->bucket[i] += from->bucket[i];
}

double histogram_mean(const struct histogram *h)
{
        return h->count ? (double)h->sum / (double)h->count : 0;
}

/* The largest value that falls in bucket i. */
static uint64_t bucket_top(unsigned i)
{
        unsigned shift;

        if (i < 2 * HISTOGRAM_SUB)
                return i;
        shift = i / HISTOGRAM_SUB - 1;
        return (((uint64_t)i - (uint64_t)shift * HISTOGRAM_SUB + 1) << shift) - 1;
}

uint64_t histogram_percentile(const struct histogram *h, double percent)
{
        uint64_t want = (uint64_t)ceil((double)h->count * percent / 100), seen = 0;

        if (want == 0)
                want = 1;
        for (unsigned i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
                seen += h->bucket[i];
                if (seen >= want)
                        return bucket_top(i) < h->max ? bucket_top(i) : h->max;
        }
        return h->max;
}
