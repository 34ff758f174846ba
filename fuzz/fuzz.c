/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

_Noreturn void fuzz_broken(const char *what, const char *file, int line)
{
        fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, what);
        abort();
}

__attribute__((weak)) struct fuzz_heap fuzz_heap; /* harness/heap.c has the real one */

void fuzz_scarce(unsigned nth)
{
        if (fuzz_heap.scarce)
                fuzz_heap.scarce(nth);
}

void fuzz_run_begin(void)
{
        if (fuzz_heap.begin)
                fuzz_heap.begin();
}

void fuzz_run_end(void)
{
        if (fuzz_heap.end)
                fuzz_heap.end();
}

/* --- feedback ----------------------------------------------------------------------------------- */

enum { SEEN_BITS = 13 };
__attribute__((section("__libfuzzer_extra_counters"))) static uint8_t seen[1 << SEEN_BITS];

void fuzz_seen(uint32_t what)
{
        seen[what * 0x9e3779b1u >> (32 - SEEN_BITS)] = 1;
}

/* --- a reader of descriptions ------------------------------------------------------------------- */

static void read_name(struct fuzz_reader *r, const char *name)
{
        must(name && *name);
        fuzz_digest(&r->digest, name, strlen(name));
}

static void on_group(void *arg, const char *name)
{
        struct fuzz_reader *r = arg;

        r->depth += name ? 1 : -1;
        must(r->depth >= 0);
        if (name)
                read_name(r, name);
}

static void on_number(void *arg, const char *name, uint64_t value, unsigned bits,
                      const char *meaning)
{
        struct fuzz_reader *r = arg;

        read_name(r, name);
        must(bits > 0 && (bits >= 64 || value >> bits == 0));
        if (meaning)
                fuzz_digest(&r->digest, meaning, strlen(meaning));
}

static void on_string(void *arg, const char *name, const char *s, size_t len)
{
        struct fuzz_reader *r = arg;

        read_name(r, name);
        fuzz_digest(&r->digest, s, len);
}

struct describe fuzz_describer(struct fuzz_reader *reader)
{
        *reader = (struct fuzz_reader) { .digest = FUZZ_DIGEST_START };
        return (struct describe) { reader, on_group, on_number, on_string };
}

void fuzz_described(const struct fuzz_reader *reader)
{
        must(reader->depth == 0);
}

enum { LINES = 1500 };

static bool is_full(const struct text_lines *lines)
{
        return lines->text.len + 1 >= lines->text.cap; /* what is said on would only take time */
}

static void line_group(void *arg, const char *name)
{
        text_describer(arg).group(arg, name);
}

static void line_number(void *arg, const char *name, uint64_t value, unsigned bits,
                        const char *meaning)
{
        if (!is_full(arg))
                text_describer(arg).number(arg, name, value, bits, meaning);
}

static void line_string(void *arg, const char *name, const char *s, size_t len)
{
        if (!is_full(arg))
                text_describer(arg).string(arg, name, s, len);
}

struct describe fuzz_liner(struct text_lines *lines)
{
        static char buf[LINES];

        *lines = (struct text_lines) { .text = text_in(buf, sizeof(buf)) };
        return (struct describe) { lines, line_group, line_number, line_string };
}

void fuzz_lined(const struct text_lines *lines)
{
        must(lines->depth == 0);
        must(lines->text.len < LINES && strlen(lines->text.p) == lines->text.len);
}

/* --- rules and files ---------------------------------------------------------------------------- */

const struct rule_set *fuzz_all_rules(void)
{
        static struct rule_set all;

        if (rule_set_empty(&all))
                rule_each (rule)
                        rule_add(&all, rule);
        return &all;
}

struct place { /* on a ring of all numbers, by the rule's id; a rule has those up to its own */
        uint16_t at;
        enum rule_id rule;
};

static int by_place(const void *a, const void *b)
{
        const struct place *x = a, *y = b;

        return x->at != y->at ? x->at - y->at : (int)x->rule - (int)y->rule;
}

static void place_all(struct place ring[RULES - 1])
{
        rule_each (rule) {
                const char *id = rule_get(rule)->id;

                ring[rule - 1] = (struct place) { (uint16_t)crc32c(id, strlen(id)), rule };
        }
        qsort(ring, RULES - 1, sizeof(*ring), by_place);
        for (size_t i = 1; i < RULES - 1; i++) /* none has none */
                if (ring[i].at <= ring[i - 1].at)
                        ring[i].at = ring[i - 1].at + 1;
}

enum rule_id fuzz_rule(uint16_t n)
{
        static struct place ring[RULES - 1];
        size_t low = 0, high = RULES - 1;

        if (ring[0].rule == RULE_NONE)
                place_all(ring);
        while (low < high) {
                size_t mid = (low + high) / 2;

                if (ring[mid].at < n)
                        low = mid + 1;
                else
                        high = mid;
        }
        return ring[low % (RULES - 1)].rule;
}

const char *fuzz_file(const uint8_t *p, size_t n)
{
        static char path[64];
        static int fd = -1;

        if (fd < 0) {
                fd = memfd_create("input", 0);
                must(fd >= 0);
                snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        }
        must(ftruncate(fd, 0) == 0);
        must(n == 0 || pwrite(fd, p, n, 0) == (ssize_t)n);
        return path;
}
