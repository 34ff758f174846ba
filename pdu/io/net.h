/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses: a TRADDR (name, IPv4 or IPv6 address, the latter also in brackets or with a %scope) and
 * a TRSVCID (decimal port). Errors come as one line of text without line end.
 */
#ifndef NVMF_IO_NET_H
#define NVMF_IO_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct addrinfo;

enum { NET_TRADDR = 256, NET_ERROR = 320 }; /* bytes that are enough for an address, for an error */

/* The addresses of a TRADDR and a TRSVCID, to be freed by freeaddrinfo(); flags as in AI_PASSIVE (with
 * it "" is every address); or NULL and the error. */
struct addrinfo *net_resolve(const char *traddr, const char *trsvcid, int flags, char *error,
                             size_t size);

/* The addresses to listen at for a TRADDR, as text, so that a resolver is asked here only: itself where it is one, or "".
 * How many, at most `most`; 0: none, and the error. */
unsigned net_addresses(const char *traddr, const char *trsvcid, char (*addr)[NET_TRADDR],
                       unsigned most, char *error, size_t size);

/* A numeric address as RoCEv2 and others have it: IPv6, IPv4 as ::ffff:a.b.c.d. False: it is none. */
bool net_gid(const char *addr, uint8_t gid[16]);

/* "ADDR:PORT", "[V6]:PORT" or ":PORT" in two; false if it is neither or a part does not fit. */
bool net_split(const char *text, char addr[NET_TRADDR], char port[32]);

#endif
