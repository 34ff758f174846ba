/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tools know of NVMe. Private to the room. */
#ifndef NVMF_PCAP_NVME_TOOLS_H
#define NVMF_PCAP_NVME_TOOLS_H

#include "pcap/tools/anonymize.h"
#include "pcap/tools/extract.h"
#include "pcap/tools/secrets.h"

extern const struct trace_extract nvme_extract;
extern const struct trace_anonymize nvme_anonymize;
extern const struct trace_secrets nvme_secrets;
/* See struct trace_family; in pcap/replay. */
int replay_command(const struct trace_family *const *families, int argc, char **argv);

#endif
