/* SPDX-License-Identifier: BSD-3-Clause */
#include "quota.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct quota_entry {
        struct quota_entry *next;
        unsigned has;
        char who[];
};

struct conn_peer conn_peer_of(const char *addr, uint16_t port)
{
        struct conn_peer p = { .port = port };
        struct in6_addr v6;

        snprintf(p.addr, sizeof(p.addr), "%.63s", addr + (addr[0] == '['));
        p.addr[strcspn(p.addr, "]")] = '\0';
        memcpy(p.place, p.addr, sizeof(p.place));
        if (inet_pton(AF_INET6, p.addr, &v6) == 1 && !IN6_IS_ADDR_V4MAPPED(&v6)) {
                memset(v6.s6_addr + 8, 0, 8);
                inet_ntop(AF_INET6, &v6, p.place, sizeof(p.place));
        }
        return p;
}

void quota_init(struct quota *q)
{
        *q = (struct quota) { 0 };
        pthread_mutex_init(&q->lock, NULL);
}

void quota_fini(struct quota *q)
{
        pthread_mutex_destroy(&q->lock);
}

/* Where the entry is, or NULL at the end of its list. */
static struct quota_entry **find(struct quota *q, const char *who)
{
        struct quota_entry **at;
        uint32_t h = 2166136261u; /* FNV-1a */

        for (const char *p = who; *p; p++)
                h = (h ^ (uint8_t)*p) * 16777619u;
        for (at = &q->entries[h % QUOTA_PLACES]; *at && strcmp((*at)->who, who) != 0;)
                at = &(*at)->next;
        return at;
}

bool quota_take(struct quota *q, const char *who, unsigned most)
{
        struct quota_entry **at;
        bool ok;

        pthread_mutex_lock(&q->lock);
        at = find(q, who);
        if (!*at && most > 0 && (*at = calloc(1, sizeof(**at) + strlen(who) + 1)))
                strcpy((*at)->who, who);
        ok = *at && (*at)->has < most;
        if (ok)
                (*at)->has++;
        pthread_mutex_unlock(&q->lock);
        return ok;
}

void quota_give(struct quota *q, const char *who)
{
        struct quota_entry **at, *e;

        pthread_mutex_lock(&q->lock);
        at = find(q, who);
        e = *at;
        if (e && --e->has == 0) {
                *at = e->next;
                free(e);
        }
        pthread_mutex_unlock(&q->lock);
}
