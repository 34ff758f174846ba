/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cases of --role host: a target of ours for each, that follows its rules or departs from them at one place, and an
 * initiator that has a session with it.
 */
#ifndef NVMF_CONFORMANCE_SRP_INITIATORS_H
#define NVMF_CONFORMANCE_SRP_INITIATORS_H

#include "srp_suite.h"

/* A session with a correct target works, and breaks no rule. */
extern const struct test_case srp_initiator_session;
/* family.host_cases(). */
const struct test_case **srp_initiator_cases(size_t *count);

#endif
