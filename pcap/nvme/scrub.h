/* SPDX-License-Identifier: BSD-3-Clause */
/* What names somebody in the data of NVMe's commands. Private to the room. */
#ifndef NVMF_PCAP_NVME_SCRUB_H
#define NVMF_PCAP_NVME_SCRUB_H

#include "pcap/tools/scrub.h"
#include "session.h"

/*
 * The n bytes at p, which lie at `offset` of the data that this command moves. What the command says
 * of its data decides: names and identifiers in the structures that are known, blocks of I/O
 * commands, zeroes for what nobody can look into. Parts of a field that is not all there become zero.
 */
void scrub_data(const struct scrub *s, const union sqe *sqe, bool admin, uint64_t offset,
                uint8_t *p, size_t n);

#endif
