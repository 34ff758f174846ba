/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cause before effect: who breaks one rule may fail thirty cases, and what all of them noticed on the way
 * tells why.
 */
#ifndef NVMF_CONFORMANCE_CAUSE_H
#define NVMF_CONFORMANCE_CAUSE_H

#include "result.h"

/*
 * Fills in run->causes, run->failing and the cause of each result that fails or broke. A MUST, or a rule
 * that one of the failures is about, explains the failures of cases that noticed it if it was noticed less
 * than half as often where cases pass: what every case notices is no reason why a few of them fail, and
 * explains only those that fail by its own name.
 */
void causes_find(struct run *run);
/* "24 of 24 failures: the target broke tcp/c2hdata/datao (T1.0 3.6.2.9): Each C2HData ..." */
void cause_says(const struct run *run, const struct cause *c, char *buf, size_t size);

#endif
