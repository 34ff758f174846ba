/* SPDX-License-Identifier: BSD-3-Clause */
/* Who and where: addresses as users write them, UUIDs, and the identity of this host. */
#ifndef NVMF_HOST_IDENTITY_H
#define NVMF_HOST_IDENTITY_H

#include <stdint.h>

#include "status.h"

struct host_address {
        char transport[8], traddr[256], trsvcid[32], subnqn[256]; /* empty: not said */
};

/*
 * "nvme+tcp://HOST[:PORT][/NQN]" or "nvme+rdma://...", HOST in brackets if it is an IPv6 address;
 * only what it says is overwritten.
 */
int host_address_parse(struct host_address *a, const char *uri, struct host_error *e);

/* 36 characters or 32 hex digits. -1 if it is not a UUID. */
int host_uuid_parse(const char *s, uint8_t uuid[16]);
void host_uuid_print(const uint8_t uuid[16], char s[37]);

/*
 * The identity of this machine, the same at each run: a UUID made of /etc/machine-id (or the host's
 * name) that does not give it away, and the NQN of that UUID. Not the one of nvme-cli, so that the
 * kernel's own associations stay apart from ours.
 */
void host_identity(uint8_t hostid[16], char hostnqn[256]);

#endif
