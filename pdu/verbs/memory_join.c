/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs in memory that are joined by numbers: nothing goes between them but work. */
#include <stdio.h>

#include "memory_own.h"

enum { FIRST_QPN = 0x11, MTU = 4096, MASK_24 = 0xffffff, V6_WORDS = 8 };

/* --- numbers ----------------------------------------------------------------------------------- */

static void put_v4(uint8_t gid[16], const char *text)
{
        char *end;

        gid[10] = gid[11] = 0xff;
        for (unsigned i = 12; i < 16; i++, text = *end ? end + 1 : end)
                gid[i] = (uint8_t)strtoul(text, &end, 10);
}

/* The words after "::" are the last ones. */
static void put_v6(uint8_t gid[16], const char *text)
{
        unsigned n = 0, gap = V6_WORDS, tail;
        unsigned long word;

        for (char *end; n < V6_WORDS; n++, text = end) {
                if (strncmp(text, "::", 2) == 0)
                        gap = n;
                text += gap == n ? 2 : *text == ':';
                word = strtoul(text, &end, 16);
                if (end == text)
                        break;
                gid[2 * n] = (uint8_t)(word >> 8);
                gid[2 * n + 1] = (uint8_t)word;
        }
        tail = gap < n ? n - gap : 0;
        memmove(gid + 16 - 2 * tail, gid + 2 * (n - tail), 2 * (size_t)tail);
        memset(gid + 2 * (n - tail), 0, 16 - 2 * (size_t)n);
}

static struct verbs_numbers numbers_new(struct memory_fabric *f, const char *address)
{
        struct verbs_numbers n = { .qpn = FIRST_QPN + f->last_qpn++, .mtu = MTU };

        n.psn = n.qpn * 0x9e3779u & MASK_24;
        (strchr(address, ':') ? put_v6 : put_v4)(n.gid, address);
        return n;
}

static bool same_numbers(const struct verbs_numbers *a, const struct verbs_numbers *b)
{
        return a->qpn == b->qpn && a->psn == b->psn && memcmp(a->gid, b->gid, sizeof(a->gid)) == 0;
}

int memory_numbers(const struct verbs_ep *ep, struct verbs_numbers *own)
{
        ALIVE(ep);
        if (ep->own.qpn == 0 || ep->qp == MEMORY_QP_NONE)
                return fail_with(EINVAL);
        *own = ep->own;
        return 0;
}

/* --- joining ----------------------------------------------------------------------------------- */

struct verbs_ep *memory_local(struct verbs_context *c, const char *traddr)
{
        bool iwarp = c->o.fabric->caps.device.iwarp;
        struct verbs_ep *ep;
        char address[sizeof(ep->traddr)];

        ALIVE(c);
        if (memory_address_of(traddr, address, sizeof(address)) < 0 ||
            memory_refused(c->o.fabric, MEMORY_RESOLVE))
                return NULL;
        errno = iwarp ? ENOTSUP : ENODEV;
        if (iwarp || c->removed || memory_is_any(address))
                return NULL;
        ep = memory_ep_new(c);
        if (!ep)
                return NULL;
        ep->taken = true;
        ep->cm = CM_LOCAL;
        ep->own = numbers_new(c->o.fabric, address);
        snprintf(ep->local, sizeof(ep->local), "%s", address);
        return ep;
}

/* The one that it was joined to; NULL: nobody has these numbers. */
static struct verbs_ep *named(const struct verbs_ep *ep)
{
        struct verbs_ep *other = ep->o.fabric->eps;

        while (other && (other == ep || (other->cm != CM_LOCAL && other->cm != CM_JOINED) ||
                         !same_numbers(&other->own, &ep->joins)))
                other = other->next;
        return other;
}

bool memory_awaits(const struct verbs_ep *ep)
{
        const struct verbs_ep *other = ep->cm == CM_JOINED && !ep->peer ? named(ep) : NULL;

        return other && other->cm == CM_LOCAL && other->qp == MEMORY_QP_NEW;
}

void memory_wake_joined(struct memory_fabric *f)
{
        for (struct verbs_ep *ep = f->eps; ep; ep = ep->next)
                if (ep->cm == CM_JOINED && !ep->peer)
                        memory_ready(ep);
}

/* Where the other one has joined, too: both have the right numbers, or neither reaches the other. */
static void meet(struct verbs_ep *ep)
{
        struct verbs_ep *other = named(ep);

        if (!other)
                return;
        memory_with_port(ep->remote, sizeof(ep->remote), other->local, 0);
        if (other->cm != CM_JOINED || !same_numbers(&other->joins, &ep->own))
                return;
        ep->peer = other;
        other->peer = ep;
        ep->connection = other->connection = ++ep->o.fabric->connections;
        memory_ready(ep);
        memory_ready(other);
}

int memory_join(struct verbs_ep *ep, const struct verbs_numbers *peer,
                const struct verbs_conn_param *param)
{
        ALIVE(ep);
        if (ep->removed)
                return fail_with(ENODEV);
        if (ep->cm != CM_LOCAL || ep->qp != MEMORY_QP_NEW)
                return fail_with(EINVAL);
        if (memory_refused(ep->o.fabric, MEMORY_CONNECT))
                return -1;
        ep->theirs = *memory_offer(ep, param); /* how often this end tries: nobody else says it */
        ep->joins = *peer;
        ep->cm = CM_JOINED;
        ep->qp = MEMORY_QP_LIVE;
        meet(ep);
        memory_send_event(ep, VERBS_ESTABLISHED);
        memory_wake_joined(ep->o.fabric);
        return 0;
}
