/* SPDX-License-Identifier: BSD-3-Clause */
/* A record in words, and its fields. */
#ifndef NVMF_PCAP_LINE_H
#define NVMF_PCAP_LINE_H

#include "pdu/core/text.h"
#include "session.h"

enum { LINE_MAX_TEXT = 1024 };

/* What it says, without frame, time and connection: "CapsuleCmd cid 5 Read nsid 1 slba 0 nlb 8". */
void line_words(struct text *t, const struct record *r);

/* All fields to a visitor, the structure that a completed command has moved included. */
void line_describe(const struct describe *d, const struct record *r);

#endif
