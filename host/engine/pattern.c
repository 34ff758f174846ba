/* SPDX-License-Identifier: BSD-3-Clause */
#include "pattern.h"

#include <stdio.h>
#include <string.h>

#include "pdu/core/le.h"
#include "random.h"

static const char magic[8] = "NVMFSPEC";

struct unit {
        char magic[8];
        le64_t place, generation, seed;
        le64_t rest[60];
};
_Static_assert(sizeof(struct unit) == PATTERN_UNIT, "unit");

static void fill_unit(struct unit *u, uint64_t place, uint64_t generation, uint64_t seed)
{
        uint64_t state = random_mix(place ^ random_mix(generation ^ random_mix(seed)));

        memcpy(u->magic, magic, sizeof(magic));
        u->place = le64(place);
        u->generation = le64(generation);
        u->seed = le64(seed);
        for (size_t i = 0; i < sizeof(u->rest) / sizeof(u->rest[0]); i++)
                u->rest[i] = le64(random_next(&state));
}

void pattern_fill(uint8_t *buf, size_t len, uint64_t place, uint64_t generation, uint64_t seed)
{
        struct unit u;

        for (size_t at = 0; at < len; at += sizeof(u)) {
                fill_unit(&u, place++, generation, seed);
                memcpy(buf + at, &u, sizeof(u));
        }
}

/* What the unit that was found says of itself. */
static void read_head(const uint8_t *found, struct pattern_diff *diff)
{
        struct unit u, promised;

        memcpy(&u, found, sizeof(u));
        diff->marked = memcmp(u.magic, magic, sizeof(magic)) == 0;
        if (!diff->marked)
                return;
        diff->place = le64_get(u.place);
        diff->generation = le64_get(u.generation);
        diff->seed = le64_get(u.seed);
        fill_unit(&promised, diff->place, diff->generation, diff->seed);
        diff->torn = memcmp(&promised, found, sizeof(promised)) != 0;
}

bool pattern_check(const uint8_t *buf, size_t len, uint64_t place, uint64_t generation,
                   uint64_t seed, struct pattern_diff *diff)
{
        struct unit u;
        const uint8_t *want = (const uint8_t *)&u;

        for (size_t at = 0; at < len; at += sizeof(u)) {
                size_t i = 0;

                fill_unit(&u, place++, generation, seed);
                if (memcmp(&u, buf + at, sizeof(u)) == 0)
                        continue;
                while (want[i] == buf[at + i])
                        i++;
                *diff = (struct pattern_diff) { .offset = at + i,
                                                .expected = want[i],
                                                .seen = buf[at + i] };
                read_head(buf + at, diff);
                return false;
        }
        return true;
}

static const char *verdict(const struct pattern_diff *d, uint64_t place, uint64_t generation,
                           uint64_t seed)
{
        if (!d->marked)
                return "not written by this program";
        if (d->torn)
                return "torn or corrupt";
        if (d->seed != seed)
                return "left by another run";
        if (d->place != place)
                return "in the wrong place";
        return d->generation < generation ? "stale" : "newer than what was written";
}

void pattern_explain(const struct pattern_diff *d, uint64_t place, uint64_t generation,
                     uint64_t seed, char *line, size_t size)
{
        int n = snprintf(line, size, "byte %zu is %02xh, not %02xh: %s", d->offset % PATTERN_UNIT,
                         d->seen, d->expected, verdict(d, place, generation, seed));

        if (d->marked && n > 0 && (size_t)n < size)
                snprintf(line + n, size - (size_t)n,
                         " (unit %llu generation %llu seed %llu, expected %llu %llu %llu)",
                         (unsigned long long)d->place, (unsigned long long)d->generation,
                         (unsigned long long)d->seed, (unsigned long long)place,
                         (unsigned long long)generation, (unsigned long long)seed);
}
