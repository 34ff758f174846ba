/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Generated PSKs (NVMe/TCP 1.0, 3.6.1.4): what authentication leaves for TLS, until its lifetime ends.
 * Any thread may call.
 */
#ifndef NVMF_TARGET_PSK_STORE_H
#define NVMF_TARGET_PSK_STORE_H

#include "pdu/nvme/machine/tls_key.h"

enum {
        PSKS_MAX = 1024,  /* at once; the oldest one goes first */
        PSKS_OF_PAIR = 4, /* of one host with one subsystem: its associations have one each */
};

struct psk_store;

struct generated_psk {
        struct auth_key psk;
        struct auth_keys by; /* the host's proof: without these keys it is not good any more */
};

/* NULL: out of memory. */
struct psk_store *psk_store_new(void);
void psk_store_free(struct psk_store *s); /* NULL allowed */

/* One more, in the place of the oldest one if there is no room; it lives until `dies` (ms). */
void psk_store_add(struct psk_store *s, const char *hostnqn, const char *subnqn,
                   const struct generated_psk *psk, uint64_t now, uint64_t dies);
/* Those of a host and a subsystem that live, the newest first; how many. */
unsigned psk_store_find(struct psk_store *s, const char *hostnqn, const char *subnqn, uint64_t now,
                        struct generated_psk psks[PSKS_OF_PAIR]);
/* It is not good any more. */
void psk_store_remove(struct psk_store *s, const struct auth_key *psk);

#endif
