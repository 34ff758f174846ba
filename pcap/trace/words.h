/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said of an event alike whatever the family. */
#ifndef NVMF_PCAP_WORDS_H
#define NVMF_PCAP_WORDS_H

#include "pdu/core/text.h"
#include "trace.h"

/* "tcp 192.0.2.1:53343 > 192.0.2.7:4420": over what, and between whom. */
void words_conn(struct text *t, const struct trace_conn *c);

/* Of a message nothing, and false. more: what the family adds to a connection that opens, or to a transfer; NULL:
 * nothing. */
bool words_event(struct text *t, const struct trace_event *e, const char *more);

/* Fields likewise. */
bool words_fields(const struct describe *d, const struct trace_event *e);

#endif
