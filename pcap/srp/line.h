/* SPDX-License-Identifier: BSD-3-Clause */
/* A struct srp_record in words, and its fields. */
#ifndef NVMF_PCAP_SRP_LINE_H
#define NVMF_PCAP_SRP_LINE_H

#include "family.h"
#include "pdu/core/text.h"

/* What it says, without frame, time and connection: "SRP_CMD tag 5h lun 0 READ(10) in 4096 direct". */
void srp_words(struct text *t, const void *record);
/* Whether its target listens where NVMe does by default (IANA: 4420, 8009). */
bool srp_is_on_nvme_port(const struct trace_conn *c);
/* ", SRP", and that its port is one of NVMe; static. */
const char *srp_place(const struct trace_conn *c);
/* All fields to a visitor. */
void srp_fields(const struct describe *d, const void *record);

#endif
