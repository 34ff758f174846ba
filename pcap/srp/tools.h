/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tools know of SRP. Private to the room. */
#ifndef NVMF_PCAP_SRP_TOOLS_H
#define NVMF_PCAP_SRP_TOOLS_H

#include "pcap/tools/anonymize.h"
#include "pcap/tools/extract.h"

extern const struct trace_extract srp_extract;
extern const struct trace_anonymize srp_anonymize;

/* See struct trace_family. */
int srp_replay_command(const struct trace_family *const *families, int argc, char **argv);

/* What a CDB reads or writes: blocks of a logical unit. */
struct srp_blocks {
        uint64_t lba;
        uint32_t count;
        bool write;
};
/* False: it is another command. */
bool srp_blocks_of(const uint8_t cdb[16], struct srp_blocks *out);

#endif
