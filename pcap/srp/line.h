/* SPDX-License-Identifier: BSD-3-Clause */
/* A record of SRP in words, and in JSON, in the form of pcap/nvme/line.h. */
#ifndef NVMF_PCAP_SRP_LINE_H
#define NVMF_PCAP_SRP_LINE_H

#include "family.h"
#include "pdu/io/json.h"

/* What it says, without frame, time and connection: "SRP_CMD tag 5h lun 0 READ(10) in 4096 direct". */
void srp_words(struct text *t, const struct srp_record *r);
/* All fields to a visitor. */
void srp_fields(const struct describe *d, const struct srp_record *r);
/* A new object with schema, protocol, frame, time_ns, connection, transport, sender, kind and, if there
 * are any, the broken rules. */
struct json_object *srp_object(const struct srp_record *r);

#endif
