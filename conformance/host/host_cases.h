/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cases of --role host. Those that are written down play something legal and expect the host to
 * do its work; then there is one for each rule of controllers that the reference target can break: its
 * id is the rule's, and the rulebook says what the host has to do about it.
 */
#ifndef NVMF_CONFORMANCE_HOST_CASES_H
#define NVMF_CONFORMANCE_HOST_CASES_H

#include "conformance/words/case.h"

/* In any order; the array is the caller's to free, the cases are static. One thread at a time. */
const struct test_case **host_cases(size_t *count);
/* The host connects to a sound target, works and goes. */
const struct test_case *host_liveness(void);

#endif
