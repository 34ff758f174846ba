/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is at the other end, and how much each of many has of something that is counted, such as
 * connections. Any thread. */
#ifndef NVMF_TARGET_QUOTA_H
#define NVMF_TARGET_QUOTA_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct conn_peer {     /* the other end of a connection; "" if there is none */
        char addr[64]; /* numeric */
        char place
            [64]; /* what is counted: the address, of IPv6 its /64, all of which a host may have */
        uint16_t port;
};
/* Of a numeric address, IPv6 also in brackets. */
struct conn_peer conn_peer_of(const char *addr, uint16_t port);

enum { QUOTA_PLACES = 256 };

struct quota {
        pthread_mutex_t lock;
        struct quota_entry *entries[QUOTA_PLACES]; /* of those who have any */
};

/* Nobody has taken any yet. */
void quota_init(struct quota *q);
/* Everything was given back. */
void quota_fini(struct quota *q);
/* One more; false: it has as many as `most`, or there is no memory. */
bool quota_take(struct quota *q, const char *who, unsigned most);
void quota_give(struct quota *q, const char *who);

#endif
