/* SPDX-License-Identifier: BSD-3-Clause */
#include "doca_service.h"

#include <stdlib.h>

#include "spoil.h"

void doca_service_init(struct doca_service *s, const struct doca_dialect *d,
                       enum doca_after_error after_error, const struct rule_policy *policy)
{
        *s = (struct doca_service) { .policy = policy, .next_id = 1 };
        doca_control_init(&s->control, d, after_error);
}

void doca_service_fini(struct doca_service *s)
{
        doca_buffer_free(&s->in);
        doca_buffer_free(&s->out);
}

/* What the machine knows is what the target has to answer: the message as it goes out. */
bool doca_service_ask(struct doca_service *s, struct doca_msg m)
{
        const struct doca_dialect *d = s->control.dialect;
        struct rule_set own = { 0 };
        size_t n;
        uint8_t *p;
        bool ok;

        m.message_id = m.correlation_id = s->next_id++;
        (void)doca_spoil_msg(&s->policy->violated, d, &m);
        n = doca_msg_write(d, &m, NULL, 0);
        p = n > 0 ? malloc(n + DOCA_SPOIL_ROOM) : NULL;
        if (!p)
                return false;
        (void)doca_msg_write(d, &m, p, n);
        (void)doca_spoil_frame(&s->policy->violated, d, p, &n);
        doca_control_says(&s->control, PARTY_HOST, &m, &own);
        ok = doca_buffer_add(&s->out, p, n);
        free(p);
        return ok;
}

bool doca_service_receive(struct doca_service *s, const void *p, size_t n)
{
        doca_buffer_drop(&s->in, s->taken);
        s->taken = 0;
        return doca_buffer_add(&s->in, p, n);
}

static enum doca_rule fault(const struct doca_service *s, const struct rule_set *found)
{
        rule_each_in (found, id)
                if (!rule_in(&s->policy->waived, id) && rule_grade(doca_rule_get(id)) == GRADE_MUST)
                        return (enum doca_rule)id;
        return DOCA_RULE_NONE;
}

enum doca_got doca_service_next(struct doca_service *s, struct doca_msg *m, enum doca_rule *rule)
{
        const struct doca_dialect *d = s->control.dialect;
        struct rule_set found = { 0 };
        enum doca_frame next;

        doca_buffer_drop(&s->in, s->taken);
        *m = (struct doca_msg) { 0 };
        next = doca_frame_next(d, &s->in, &s->taken);
        if (next == DOCA_FRAME_MORE)
                return DOCA_GOT_NOTHING;
        *rule = DOCA_SIZE_T;
        if (next == DOCA_FRAME_BAD)
                return DOCA_GOT_FAULT;
        (void)doca_msg_read(d, s->in.p + s->in.at, s->taken, PARTY_CONTROLLER, m, &found);
        doca_control_says(&s->control, PARTY_CONTROLLER, m, &found);
        *rule = fault(s, &found);
        return *rule == DOCA_RULE_NONE ? DOCA_GOT_RESPONSE : DOCA_GOT_FAULT;
}
