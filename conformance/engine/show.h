/* SPDX-License-Identifier: BSD-3-Clause */
/* What `conform` prints about cases and rules without running anything. */
#ifndef NVMF_CONFORMANCE_SHOW_H
#define NVMF_CONFORMANCE_SHOW_H

#include <stdio.h>

#include "family.h"

/* Cases in the order given, by sections: level, flags, id, requirement. */
void show_list(FILE *out, const struct family *f, const struct test_case **cases, size_t n);
/* The rulebook: who is bound, what is demanded, how its breach is answered. */
void show_rules(FILE *out, const struct conform_family *f, enum role role);
/* How many there are, by who is bound and by what proves them. */
void show_count(FILE *out, const struct conform_family *f);
/* All about the cases that `id` selects, or a rule of that id; false if there is none. */
bool show_explain(FILE *out, const struct conform_family *f, enum role role, const char *id);

#endif
