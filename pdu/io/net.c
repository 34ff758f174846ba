/* SPDX-License-Identifier: BSD-3-Clause */
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_port(const char *trsvcid)
{
        char *end;
        unsigned long port;

        if (trsvcid[0] < '0' || trsvcid[0] > '9')
                return false;
        port = strtoul(trsvcid, &end, 10);
        return *end == '\0' && port <= UINT16_MAX;
}

/* The address without the brackets that it may stand in; false if it is too long. */
static bool strip_brackets(const char *traddr, char out[NET_TRADDR])
{
        size_t len = strlen(traddr);

        if (len >= 2 && traddr[0] == '[' && traddr[len - 1] == ']') {
                traddr++;
                len -= 2;
        }
        if (len >= NET_TRADDR)
                return false;
        memcpy(out, traddr, len);
        out[len] = '\0';
        return true;
}

/* 256.1.1.1 is a mistake and no name: no resolver is asked, which may take long to say so. */
static bool is_dotted(const char *addr)
{
        return addr[0] && !addr[strspn(addr, "0123456789.")];
}

struct addrinfo *net_resolve(const char *traddr, const char *trsvcid, int flags, char *error,
                             size_t size)
{
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV };
        struct addrinfo *list = NULL;
        char addr[NET_TRADDR];
        int rc;

        if (!is_port(trsvcid)) {
                snprintf(error, size, "'%s' is not a TCP port", trsvcid);
                return NULL;
        }
        if (!strip_brackets(traddr, addr)) {
                snprintf(error, size, "address is longer than %d bytes", NET_TRADDR - 1);
                return NULL;
        }
        if (is_dotted(addr))
                hints.ai_flags |= AI_NUMERICHOST;
        rc = getaddrinfo(addr[0] || !(flags & AI_PASSIVE) ? addr : NULL, trsvcid, &hints, &list);
        if (rc != 0)
                snprintf(error, size, "%s: %s", traddr,
                         rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
        return rc == 0 ? list : NULL;
}

unsigned net_addresses(const char *traddr, const char *trsvcid, char (*addr)[NET_TRADDR],
                       unsigned most, char *error, size_t size)
{
        struct addrinfo *list =
            net_resolve(traddr, trsvcid, AI_PASSIVE | AI_NUMERICHOST, error, size);
        bool numeric = list && strlen(traddr) < NET_TRADDR;
        unsigned n = 0;

        if (numeric)
                strcpy(addr[n++], traddr);
        else if (!list)
                list = net_resolve(traddr, trsvcid, AI_PASSIVE, error, size);
        for (struct addrinfo *ai = list; ai && !numeric && n < most; ai = ai->ai_next)
                n += getnameinfo(ai->ai_addr, ai->ai_addrlen, addr[n], NET_TRADDR, NULL, 0,
                                 NI_NUMERICHOST) == 0;
        if (list)
                freeaddrinfo(list);
        return n;
}

bool net_split(const char *text, char addr[NET_TRADDR], char port[32])
{
        const char *colon = strrchr(text, ':');
        size_t len = colon ? (size_t)(colon - text) : 0;

        if (!colon || len >= NET_TRADDR || strlen(colon + 1) >= 32 || !is_port(colon + 1))
                return false;
        if (memchr(text, ':', len) && !(text[0] == '[' && colon[-1] == ']'))
                return false; /* a bare IPv6 address: which colon is it? */
        memcpy(addr, text, len);
        addr[len] = '\0';
        memcpy(port, colon + 1, strlen(colon + 1) + 1);
        return true;
}

bool net_gid(const char *addr, uint8_t gid[16])
{
        if (inet_pton(AF_INET6, addr, gid) == 1)
                return true;
        memset(gid, 0, 16);
        memset(gid + 10, 0xff, 2);
        return inet_pton(AF_INET, addr, gid + 12) == 1;
}
