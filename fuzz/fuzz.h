/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every fuzz target uses. A target is a file of fuzz/targets that defines
 * LLVMFuzzerTestOneInput(): libFuzzer, AFL++ and the replayer (fuzz/harness/main.c) all call that. It keeps
 * nothing from one input to the next, and ends the program by must() where something is wrong that
 * no sanitizer sees.
 */
#ifndef NVMF_FUZZ_FUZZ_H
#define NVMF_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pdu/core/crc32c.h"
#include "pdu/core/rng.h"
#include "pdu/nvme/wire/text.h"

/* Each file of fuzz/targets defines it; libFuzzer or the harness calls it. Always 0: a bug aborts. */
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

/* Says what is broken and aborts, in release builds, too. */
_Noreturn void fuzz_broken(const char *what, const char *file, int line);
#define must(condition)                                                                            \
        do {                                                                                       \
                if (!(condition))                                                                  \
                        fuzz_broken(#condition, __FILE__, __LINE__);                               \
        } while (0)

/* The input as it is eaten up; beyond its end there are zeroes. */
struct fuzz_input {
        const uint8_t *p;
        size_t left;
};

static inline struct fuzz_input bytes_of(const uint8_t *p, size_t n)
{
        return (struct fuzz_input) { p, n };
}

/* A little-endian integer of n bytes, at most 8. */
static inline uint64_t bytes_take(struct fuzz_input *b, unsigned n)
{
        uint64_t v = 0;

        for (unsigned i = 0; i < n && b->left > 0; i++, b->left--)
                v |= (uint64_t)*b->p++ << 8 * i;
        return v;
}

static inline uint8_t bytes_u8(struct fuzz_input *b)
{
        return (uint8_t)bytes_take(b, 1);
}

static inline uint16_t bytes_u16(struct fuzz_input *b)
{
        return (uint16_t)bytes_take(b, 2);
}

static inline uint32_t bytes_u32(struct fuzz_input *b)
{
        return (uint32_t)bytes_take(b, 4);
}

/* Fills into[0..n). */
static inline void bytes_copy(struct fuzz_input *b, void *into, size_t n)
{
        size_t have = n < b->left ? n : b->left;

        memset(into, 0, n);
        if (have > 0)
                memcpy(into, b->p, have);
        b->p += have;
        b->left -= have;
}

/* What happened, in order, as one number. */
enum { FUZZ_DIGEST_START = 0x811c9dc5 };
static inline void fuzz_digest(uint32_t *digest, const void *p, size_t n)
{
        *digest = crc32c_more(*digest, p, n) * 0x01000193;
}

/* A thing that happened, by any number of its own: libFuzzer keeps inputs that show new ones, as it does
 * with lines of code. For what no line tells apart. */
void fuzz_seen(uint32_t what);

struct fuzz_reader {
        uint32_t digest;
        int depth;
};
/* A visitor that looks at everything it is told and keeps nothing: text of it is made, and names,
 * meanings and strings are read to their ends. */
struct describe fuzz_describer(struct fuzz_reader *reader);
/* After a description: all groups are closed. */
void fuzz_described(const struct fuzz_reader *reader);
/* The visitor that makes lines of it, in a buffer that is soon full; fuzz_lined() when it is done. */
struct describe fuzz_liner(struct text_lines *lines);
void fuzz_lined(const struct text_lines *lines);

/* Every rule but RULE_NONE, as a set. */
const struct rule_set *fuzz_all_rules(void);

/* A rule, by a number of the input; its own is another one with every rule that is added, and what the
 * corpus reaches would move with it. Here nearly all rules keep their numbers. */
enum rule_id fuzz_rule(uint16_t n);

/* The path of a file that holds these bytes; always the same one. For readers of files. */
const char *fuzz_file(const uint8_t *p, size_t n);

/*
 * The heap, in programs that were linked with harness/heap.c and --wrap=malloc,calloc,realloc,free,
 * as targets are. In others nothing happens.
 */

/* From here on the nth allocation of this program fails (1: the next one), once; 0: none. */
void fuzz_scarce(unsigned nth);
/* A run begins and ends: all that is allocated between the two comes out of one block, and has to be
 * free at the end. */
void fuzz_run_begin(void);
void fuzz_run_end(void);

struct fuzz_heap {
        void (*scarce)(unsigned nth);
        void (*begin)(void), (*end)(void);
        unsigned long allocations; /* ever, but for those out of the block */
};
extern struct fuzz_heap fuzz_heap;

#endif
