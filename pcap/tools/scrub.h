/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names, identifiers, addresses and data replaced by others: the same one always by the same one, so
 * that what a capture shows stays, and by a keyed function (SipHash-2-4), so that nobody who lacks
 * the key can find out by trying.
 */
#ifndef NVMF_PCAP_SCRUB_H
#define NVMF_PCAP_SCRUB_H

#include "pcap/nvme/session.h"

struct scrub {
        uint64_t key[2];
        bool keep_data; /* of I/O commands */
};

/* In place, by a keyed hash: the same address becomes the same again, of 10.0.0.0/8 or
 * fd00::/8. The port stays. */
void scrub_address(const struct scrub *s, struct capture_end *e);

/*
 * The n bytes at p, which lie at `offset` of the data that this command moves. What the command says
 * of its data decides: names and identifiers in the structures that are known, blocks of I/O
 * commands, zeroes for what nobody can look into. Parts of a field that is not all there become zero.
 */
void scrub_data(const struct scrub *s, const union sqe *sqe, bool admin, uint64_t offset,
                uint8_t *p, size_t n);

#endif
