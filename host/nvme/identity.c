/* SPDX-License-Identifier: BSD-3-Clause */
#include "identity.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/engine/random.h"
#include "pdu/core/le.h"
#include "pdu/core/text.h"

/* Copies [from, to) if it fits. */
static int copy_part(char *dst, size_t size, const char *from, const char *to)
{
        if ((size_t)(to - from) >= size)
                return -1;
        memcpy(dst, from, (size_t)(to - from));
        dst[to - from] = '\0';
        return 0;
}

/* The authority [p, end): HOST, HOST:PORT, [HOST] or [HOST]:PORT. */
static int take_authority(struct host_address *a, const char *p, const char *end)
{
        const char *host = p, *host_end, *port;

        if (*p == '[') {
                host++;
                host_end = memchr(p, ']', (size_t)(end - p));
                port = host_end ? host_end + 1 : NULL;
        } else {
                host_end = memchr(p, ':', (size_t)(end - p));
                host_end = port = host_end ? host_end : end;
        }
        if (!host_end || host_end == host ||
            copy_part(a->traddr, sizeof(a->traddr), host, host_end) < 0)
                return -1;
        if (port == end)
                return 0;
        if (*port != ':' || port + 1 == end)
                return -1;
        return copy_part(a->trsvcid, sizeof(a->trsvcid), port + 1, end);
}

/* What comes after it; NULL: it is none of ours. */
static const char *take_scheme(struct host_address *a, const char *uri)
{
        static const char *const transports[] = { "tcp", "rdma" };

        for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
                char scheme[16];
                int n = snprintf(scheme, sizeof(scheme), "nvme+%s://", transports[i]);

                if (strncmp(uri, scheme, (size_t)n) != 0)
                        continue;
                strcpy(a->transport, transports[i]);
                return uri + n;
        }
        return NULL;
}

int host_address_parse(struct host_address *a, const char *uri, struct host_error *e)
{
        const char *p = take_scheme(a, uri), *slash;

        if (!p)
                return host_fail(e, HOST_USAGE,
                                 "'%s' is not an address of the form "
                                 "nvme+tcp://HOST[:PORT][/NQN] or nvme+rdma://",
                                 uri);
        slash = strchrnul(p, '/');
        if (take_authority(a, p, slash) < 0 ||
            (*slash && slash[1] &&
             copy_part(a->subnqn, sizeof(a->subnqn), slash + 1, slash + strlen(slash)) < 0))
                return host_fail(e, HOST_USAGE,
                                 "'%s' must be of the form "
                                 "nvme+%s://HOST[:PORT][/NQN]",
                                 uri, a->transport);
        return 0;
}

/* --- UUIDs ------------------------------------------------------------------------------------ */

int host_uuid_parse(const char *s, uint8_t uuid[16])
{
        unsigned digits = 0;

        for (; *s; s++) {
                int v = hex_digit(*s);

                if (*s == '-' && digits > 0 && digits % 2 == 0)
                        continue;
                if (v < 0 || digits == 32)
                        return -1;
                uuid[digits / 2] = (uint8_t)(uuid[digits / 2] << 4 | v);
                digits++;
        }
        return digits == 32 ? 0 : -1;
}

void host_uuid_print(const uint8_t u[16], char s[37])
{
        for (unsigned i = 0; i < 16; i++) {
                bool dash = i == 4 || i == 6 || i == 8 || i == 10;

                s += sprintf(s, dash ? "-%02x" : "%02x", u[i]);
        }
}

/* --- this machine ----------------------------------------------------------------------------- */

static size_t machine_name(char *buf, size_t size)
{
        FILE *f = fopen("/etc/machine-id", "re");
        size_t n = f ? fread(buf, 1, size - 1, f) : 0;

        if (f)
                fclose(f);
        buf[n] = '\0';
        if (n == 0 && gethostname(buf, size - 1) < 0)
                strcpy(buf, "localhost");
        return strcspn(buf, "\n");
}

static uint64_t hash(const char *s, size_t n, uint64_t state)
{
        for (size_t i = 0; i < n; i++)
                state = random_mix(state ^ (uint8_t)s[i]);
        return state;
}

void host_identity(uint8_t hostid[16], char hostnqn[256])
{
        char name[256], uuid[37];
        size_t n = machine_name(name, sizeof(name));

        le_put(hostid, 8, hash(name, n, 1));
        le_put(hostid + 8, 8, hash(name, n, 2));
        hostid[6] = (uint8_t)((hostid[6] & 0x0f) | 0x80); /* RFC 9562: version 8, custom */
        hostid[8] = (uint8_t)((hostid[8] & 0x3f) | 0x80);
        host_uuid_print(hostid, uuid);
        snprintf(hostnqn, 256, "nqn.2014-08.org.nvmexpress:uuid:%s", uuid);
}
