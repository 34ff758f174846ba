/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detection power: for each rule that the cases name, the embedded target is spoilt in just that
 * rule (it overlooks the host's breach of it, or breaks it itself), and the cases that name it have
 * to find out. A suite that has never failed a bad target has proven nothing.
 */
#ifndef NVMF_CONFORMANCE_POWER_H
#define NVMF_CONFORMANCE_POWER_H

#include "family.h"

/* Prints "power: n of m" and the rules that survive; the exit code: 0 if none does. Cases that fail
 * on the sound target are named and left out of the array; rules whose cases can all not be run are named, and not
 * counted: 77 if there are no others. */
int power_run(const struct options *o, const struct test_case **cases, size_t n);

/* Whether the ids on the command line are of flaws: those are tried then, at the default grade, and every
 * case is there to find them. */
bool power_is_of_flaws(const struct options *o);
/* Whether it tries a rule that some case of the role names. */
bool power_tries(const struct conform_family *f, enum role role, const struct rule *r);

#endif
