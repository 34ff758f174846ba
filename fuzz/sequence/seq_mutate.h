/* SPDX-License-Identifier: BSD-3-Clause */
/* Mutators of sequences. All choices come from the seed: the same seed makes the same of the same. */
#ifndef NVMF_FUZZ_SEQ_MUTATE_H
#define NVMF_FUZZ_SEQ_MUTATE_H

#include "sequence.h"

/* One to a few changes. The sequence stays one that prints and parses. */
void seq_mutate(struct sequence *s, uint64_t *seed);
/* Steps of the other one (of the same side and transport, or nothing happens) go into this one. */
void seq_splice(struct sequence *s, const struct sequence *other, uint64_t *seed);
/* A session that keeps every rule, for who has none to begin with. */
void seq_begin(struct sequence *s, const struct fuzz_family *f, unsigned transport, enum party side,
               uint64_t *seed);

/*
 * What the peer said its limits are: entries, bytes, blocks ... From here on mutants have these and
 * their neighbours more often; 16 at most, 0: none. Who wants the same mutants says the same limits.
 */
void seq_mutate_limits(const uint64_t *limit, unsigned n);
/* There are n configurations to be reloaded; 0, as at first: mutants reload nothing. */
void seq_mutate_reloads(unsigned n);

/* For a family's own mutators: any step by a template, NULL if none was met; a value that code forgets,
 * of so many bits; a field of this name becomes that value, if the step has one; a field or the data of a step
 * by a template is changed. */
struct seq_step *seq_any_pdu(struct sequence *s, uint64_t *seed);
uint64_t seq_boundary(uint64_t *seed, unsigned bits);
void seq_change(struct sequence *s, struct seq_step *step, uint64_t *seed);
void seq_set(struct sequence *s, struct seq_step *step, const char *name, uint64_t value);

/* libFuzzer's custom mutator and crossover for texts of sequences of this side. */
#define LLVMFuzzerCustomMutator_OF_SEQUENCES(transport, side)                                      \
        size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);     \
        size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)      \
        {                                                                                          \
                return seq_mutate_text(data, size, max, seed, (transport), (side));                \
        }                                                                                          \
        size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b,        \
                                         size_t b_size, uint8_t *out, size_t max, unsigned seed);  \
        size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b,        \
                                         size_t b_size, uint8_t *out, size_t max, unsigned seed)   \
        {                                                                                          \
                return seq_splice_text(a, a_size, b, b_size, out, max, seed);                      \
        }
/* For libFuzzer; both return bytes. In place: a text that cannot be read, or is of another side
 * or transport, gives way to a new one; it stays as it was if the result has more than max
 * bytes. Spliced into out: 0 if a text cannot be read, or the result does not fit. */
size_t seq_mutate_text(uint8_t *data, size_t size, size_t max, unsigned seed, unsigned transport,
                       enum party side);
size_t seq_splice_text(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                       uint8_t *out, size_t max, unsigned seed);

#endif
