/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Violators: for each rule that a message can break, the change that turns a valid one into one that breaks just this
 * rule. Reference peers apply them to what they send, tests and fuzzers to what they make.
 */
#ifndef NVMF_DOCA_MACHINE_SPOIL_H
#define NVMF_DOCA_MACHINE_SPOIL_H

#include "pdu/doca/wire/doca.h"

enum { DOCA_SPOIL_ROOM = 4 }; /* bytes by which a frame may grow */

/* Applies the violators of all rules in `violated` that fit this control message: to what it says, before it is written;
 * to the frame, which has room for DOCA_SPOIL_ROOM bytes more. True if anything changed. */
bool doca_spoil_msg(const struct rule_set *violated, const struct doca_dialect *d,
                    struct doca_msg *m);
bool doca_spoil_frame(const struct rule_set *violated, const struct doca_dialect *d, uint8_t *p,
                      size_t *n);
/* The same of an I/O message of 64 bytes, *n of which are to be sent. */
bool doca_spoil_io(const struct rule_set *violated, const struct doca_dialect *d, enum party sender,
                   uint8_t p[DOCA_IO_LEN], uint32_t *n);

/* What has an entry for the rule: bits DOCA_V_CONTROL, DOCA_V_IO, as its row says. */
unsigned doca_spoil_kinds(enum doca_rule rule);

#endif
