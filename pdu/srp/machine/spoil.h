/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Violators: for each rule that an IU can break, the change that turns a valid one into one that breaks
 * just this rule. Reference peers apply them to what they send, tests and fuzzers to what they make.
 */
#ifndef NVMF_SRP_MACHINE_SPOIL_H
#define NVMF_SRP_MACHINE_SPOIL_H

#include "pdu/srp/wire/srp.h"

struct srp_spoil {
        uint8_t *iu;  /* whole and valid; a login request as an IU, before srp_login_to_cm() */
        uint32_t len; /* in and out: may get shorter */
        const struct srp_login_req *asked; /* the channel's, for login responses; NULL: not known */
        bool asks_solicited;               /* SRP_RSP: its request asks for notification */
        bool twice;                        /* out: send it twice */
};

/* Applies the violators of all rules in `violated` that fit this IU; true if anything changed. */
bool srp_spoil(const struct rule_set *violated, struct srp_spoil *s);

/* What has an entry for the rule, and what breaks it otherwise: bits SRP_V_*, as its row says. */
unsigned srp_spoil_kinds(enum srp_rule rule);

#endif
