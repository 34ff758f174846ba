/* SPDX-License-Identifier: BSD-3-Clause */
#include "request.h"

#include <stdalign.h>
#include <stdlib.h>

struct request_slab {
        struct request_slab *next;
        unsigned count;
        alignas(16) uint8_t requests[];
};

const char *request_state_name(enum request_state s)
{
        static const char *const names[] = {
                [REQUEST_FREE] = "free",
                [REQUEST_NEW] = "new",
                [REQUEST_NEED_BUFFER] = "need buffer",
                [REQUEST_H2C_PENDING] = "host to controller pending",
                [REQUEST_TRANSFERRING_H2C] = "transferring host to controller",
                [REQUEST_READY_TO_EXECUTE] = "ready to execute",
                [REQUEST_EXECUTING] = "executing",
                [REQUEST_EXECUTED] = "executed",
                [REQUEST_C2H_PENDING] = "controller to host pending",
                [REQUEST_COMPLETION_PENDING] = "completion pending",
                [REQUEST_READY_TO_COMPLETE] = "ready to complete",
                [REQUEST_TRANSFERRING_C2H] = "transferring controller to host",
                [REQUEST_COMPLETING] = "completing",
                [REQUEST_COMPLETED] = "completed",
        };

        return names[s];
}

void request_list_init(struct request_list *l)
{
        l->first = NULL;
        l->last = &l->first;
}

void request_list_add(struct request_list *l, struct request *r)
{
        r->next = NULL;
        *l->last = r;
        l->last = &r->next;
}

void request_list_remove(struct request_list *l, struct request *r)
{
        struct request **p = &l->first;

        while (*p && *p != r)
                p = &(*p)->next;
        if (!*p)
                return;
        *p = r->next;
        if (l->last == &r->next)
                l->last = p;
}

static struct request *at(const struct request_pool *p, struct request_slab *s, unsigned i)
{
        return (struct request *)(void *)(s->requests + i * p->size);
}

struct request *request_pool_grow(struct request_pool *p, unsigned n)
{
        struct request_slab *s = calloc(1, sizeof(*s) + n * p->size);

        if (!s)
                return NULL;
        s->count = n;
        s->next = p->slabs;
        p->slabs = s;
        p->count += n;
        while (n-- > 0) {
                at(p, s, n)->owner = p->owner;
                request_pool_put(p, at(p, s, n));
        }
        return at(p, s, 0);
}

void request_pool_each(const struct request_pool *p, void (*fn)(struct request *r))
{
        for (struct request_slab *s = p->slabs; s; s = s->next)
                for (unsigned i = 0; i < s->count; i++)
                        fn(at(p, s, i));
}

void request_pool_free(struct request_pool *p)
{
        struct request_slab *s;

        while ((s = p->slabs)) {
                p->slabs = s->next;
                free(s);
        }
}
