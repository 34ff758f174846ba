/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reservation of a namespace: who is registered, who holds it, and what commands make of that
 * (Base 2.2 8.1.22, 7.5 to 7.8). No I/O, no lock, no memory of its own: a command reads one state and
 * writes the next one, which the owner keeps or drops.
 */
#ifndef NVMF_TARGET_RESERVATION_H
#define NVMF_TARGET_RESERVATION_H

#include "pdu/nvme/wire/reservation.h"
#include "pdu/nvme/wire/rules.h"

enum { RESERVATION_REGISTRANTS = 1024 };

struct registrant {
        uint8_t hostid[16];
        uint64_t key;
};

struct reservation { /* all zero: nobody is registered */
        uint32_t gen;
        uint8_t type;       /* enum reservation_type */
        bool ptpl;          /* persists through power loss */
        uint8_t holder[16]; /* where one host holds it: types 1 to 4 */
        unsigned count;
        struct registrant registrant[RESERVATION_REGISTRANTS]; /* in the order of registration */
};

struct reservation_cmd { /* Register, Acquire or Release */
        uint8_t opc;
        uint32_t cdw10;
        uint64_t crkey, key; /* key: NRKEY, PRKEY */
        uint8_t hostid[16];
        const struct rule_policy *policy; /* may be NULL */
};

/*
 * Makes of `was` what the command makes of it, in `next`, and says in notices[] which of the
 * registrants that there were is to be told what (enum reservation_notice, 0: nothing). Returns 0 or
 * the status, with which all stays as it was. next and was may not be the same.
 */
uint16_t reservation_run(const struct reservation *was, const struct reservation_cmd *c,
                         struct reservation *next, uint8_t notices[RESERVATION_REGISTRANTS]);

/* Whether it preempts and aborts: commands of those who are told REGISTRATION_PREEMPTED. */
bool reservation_aborts(const struct reservation_cmd *c);

/* Whether a command of this host may be processed: one that reads, or writes; r NULL: nothing was ever
 * registered. */
bool reservation_allows(const struct reservation *r, const uint8_t hostid[16], bool writes,
                        const struct rule_policy *policy);

/*
 * Reservation Status, extended or not, as far as it fits in `size` bytes. cntlid(): of a controller of
 * this host, or CNTLID_NOT_ASSOCIATED. Returns the bytes of all of it.
 */
uint32_t reservation_report(const struct reservation *r, bool extended, uint8_t *out, uint32_t size,
                            uint16_t (*cntlid)(void *user, const uint8_t hostid[16]), void *user);

#endif
