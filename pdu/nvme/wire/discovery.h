/* SPDX-License-Identifier: BSD-3-Clause */
/* The discovery log page (Base 2.2 5.1.12.3.1, log 70h; T1.0 3.1.1 and figure 17 for TCP,
 * R1.0 2 and figure 3 for RDMA). */
#ifndef NVMF_WIRE_DISCOVERY_H
#define NVMF_WIRE_DISCOVERY_H

#include "nvme.h"
#include "rules.h"
#include "text.h"

extern const struct word transport_types[]; /* TRTYPE */

/* All fields of the header of a discovery log and of an entry; TSAS of TCP and RDMA by its own
 * fields. */
void describe_disc_header(const struct describe *d, const struct disc_header *h);
void describe_disc_entry(const struct describe *d, const struct disc_entry *e);

enum { DISC_LSP_EXTENDED = 1 << 8 }; /* dword 10 of Get Log Page: EXTDLPE of LSP */
/* Whether a Get Log Page of it asks for extended entries, too, which are of any length. */
static inline bool disc_asks_extended(const union sqe *s)
{
        return le32_get(s->cdw10) & DISC_LSP_EXTENDED;
}

/* A log of so many entries would be longer than an offset of 64 bits reaches (5.1.12, LPOL and LPOU). */
#define DISC_NUMREC_END (UINT64_C(1) << 54)

/*
 * Entry i of a log of which len bytes, header included, were read; NULL when NUMREC or len ends
 * before it.
 */
const struct disc_entry *disc_log_entry(const void *log, size_t len, uint64_t i);

/* The port that TRSVCID of an IP transport names in decimal; 0 if it does not. */
uint16_t disc_entry_port(const struct disc_entry *e);

/* Findings about TSAS and TRSVCID of an entry, by the rules of its transport (DISC_TSAS and
 * DISC_TRSVCID for TCP, RDMA_DISC_* for RDMA); adds to `found`. */
void disc_entry_check(const struct disc_entry *e, struct rule_set *found);

/* Whether both are entries of the dynamic model for one subsystem at one port and address: a log has
 * no two of them (DISC_ONE_DYNAMIC). */
bool disc_entry_twins(const struct disc_entry *a, const struct disc_entry *b);

/*
 * Fills in an entry for NVMe/TCP without TLS: SUBTYPE_*, ADRFAM_*, address, port and NQN as given,
 * controllers of the dynamic model, everything else zero. Strings are cut to their fields.
 */
void disc_entry_tcp(struct disc_entry *e, uint8_t subtype, uint8_t adrfam, const char *traddr,
                    uint16_t port, const char *subnqn);

enum disc_prtype { /* TSAS of RDMA, byte 1: what the provider of an address is (R1.0, figure 3) */
                   PRTYPE_NONE = 1,
                   PRTYPE_IB = 2,
                   PRTYPE_ROCE = 3,
                   PRTYPE_ROCE_V2 = 4,
                   PRTYPE_IWARP = 5,
};
/* The same for NVMe/RDMA: reliable connections, set up by RDMA_IP_CM. */
void disc_entry_rdma(struct disc_entry *e, uint8_t subtype, uint8_t adrfam, const char *traddr,
                     uint16_t port, const char *subnqn, enum disc_prtype prtype);

#endif
