/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A mutator of captures, packet by packet: lengths, checksums and CRCs of what it changed are right
 * again afterwards, so that what is wrong is further in. A file that is none is mutated as bytes.
 */
#ifndef NVMF_FUZZ_PCAP_MUTATE_H
#define NVMF_FUZZ_PCAP_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/* A custom mutator, as libFuzzer's: the new size. Reads and writes little-endian pcap and pcapng. */
size_t pcap_mutate(uint8_t *data, size_t size, size_t max, unsigned seed);

/* Repairs one packet of n bytes as it lies on a link of this type: IP and UDP lengths, checksums of
 * IP, TCP and UDP, digests of NVMe/TCP, the CRC of each FPDU, the invariant CRC of RoCEv2. */
void packet_fix(uint8_t *p, size_t n, uint32_t linktype);

#endif
