/* SPDX-License-Identifier: BSD-3-Clause */
#include "request.h"

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
