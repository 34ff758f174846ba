/* SPDX-License-Identifier: BSD-3-Clause */
/* What is left out of what is played to a target: what is known already to kill it would be found again and again. */
#ifndef NVMF_FUZZ_SRP_AVOID_H
#define NVMF_FUZZ_SRP_AVOID_H

#include "pdu/srp/wire/rules.h"
#include "pdu/srp/wire/srp.h"

struct srp_avoid {
        struct rule_set rules; /* of initiators */
        unsigned kinds;        /* of descriptors, a bit each */
};

/* A rule of initiators, or a kind of descriptors, by its name: external (a table that is not all in SRP_CMD), empty (no
 * byte), long (more than 16 MiB). False: error has one line. */
bool srp_avoid_add(struct srp_avoid *a, const char *what, char *error, size_t size);
/* Whether an IU of n bytes (0: it is a login), which breaks these rules, is to be avoided. imm_at: where its immediate data
 * begins. a may be NULL. */
bool srp_avoids(const struct srp_avoid *a, const uint8_t *iu, uint32_t n, uint32_t imm_at,
                const struct rule_set *broken);

#endif
