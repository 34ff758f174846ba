/* SPDX-License-Identifier: BSD-3-Clause */
#include "doca_target.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spoil.h"

void doca_target_init(struct doca_target *t, const struct doca_dialect *d,
                      enum doca_after_error after_error, const struct doca_target_ops *ops,
                      const struct rule_policy *policy, void *user)
{
        *t = (struct doca_target) { .ops = ops, .policy = policy, .user = user };
        doca_control_init(&t->control, d, after_error);
}

void doca_target_fini(struct doca_target *t)
{
        doca_buffer_free(&t->in);
        doca_buffer_free(&t->out);
}

static void fail(struct doca_target *t, enum doca_rule rule)
{
        t->failed = true;
        t->fault = rule;
}

/* --- out ---------------------------------------------------------------------------------------- */

static void put_frame(struct doca_target *t, const struct doca_msg *m)
{
        const struct doca_dialect *d = t->control.dialect;
        size_t n = doca_msg_write(d, m, NULL, 0);
        uint8_t *p = malloc(n + DOCA_SPOIL_ROOM);
        bool ok = n > 0 && p;

        if (ok) {
                (void)doca_msg_write(d, m, p, n);
                (void)doca_spoil_frame(&t->policy->violated, d, p, &n);
                ok = doca_buffer_add(&t->out, p, n);
        }
        if (ok && rule_in(&t->policy->violated, DOCA_ANSWER_ASKED))
                ok = doca_buffer_add(&t->out, p, n);
        free(p);
        if (!ok)
                fail(t, DOCA_RULE_NONE);
}

/* What it says may be wrong on purpose; what the machine knows is not. */
static void say(struct doca_target *t, struct doca_msg *m)
{
        struct rule_set own = { 0 };

        m->message_id = t->request.message_id;
        m->correlation_id = t->request.correlation_id;
        doca_control_says(&t->control, PARTY_CONTROLLER, m, &own);
        (void)doca_spoil_msg(&t->policy->violated, t->control.dialect, m);
        put_frame(t, m);
        doca_buffer_drop(&t->in, t->request_len);
        t->busy = false;
}

/* --- in ----------------------------------------------------------------------------------------- */

/* Of the rules that are broken, the first that is not overlooked. What is to be tolerated is refused by who violates the
 * rule. */
static enum doca_rule reason(const struct doca_target *t, const struct rule_set *found)
{
        rule_each_in (found, id)
                if (doca_is_refused(t->policy, (enum doca_rule)id))
                        return (enum doca_rule)id;
        return DOCA_RULE_NONE;
}

static void refuse_by(struct doca_target *t, enum doca_rule rule)
{
        const struct rule *r = doca_rule_get(rule);
        const struct doca_dialect *d = t->control.dialect;
        const struct doca_shape *due = doca_shape_of(d, doca_control_due(&t->control));
        /* What is to be tolerated has none. */
        enum doca_error code =
            r->accept[0].code ? (enum doca_error)r->accept[0].code : DOCA_ERROR_INVALID_VALUE;

        if (t->ops->refused)
                t->ops->refused(t->user, &t->request, rule, r->says);
        if (rule == DOCA_ORDER)
                doca_target_refuse(t, DOCA_ERROR_UNEXPECTED, "Unexpected %s while expecting a %s",
                                   doca_msg_name(d, &t->request), due ? due->name : "nothing");
        else
                doca_target_refuse(t, code, "%s (%s)", r->says, r->id);
}

/* A type that is none, and is not to be noticed, is in no order either. */
static bool is_overlooked(const struct doca_target *t, const struct rule_set *found)
{
        return rule_in(found, DOCA_TYPE_S) && rule_in(&t->policy->waived, DOCA_TYPE_S);
}

static void take(struct doca_target *t, size_t n)
{
        struct rule_set found = { 0 };
        enum doca_rule rule;

        t->busy = true;
        t->request_len = n;
        (void)doca_msg_read(t->control.dialect, t->in.p + t->in.at, n, PARTY_HOST, &t->request,
                            &found);
        if (!t->control.dialect->has_context)
                t->request.context = t->control.made / 2;
        rule = reason(t, &found);
        doca_control_says(&t->control, PARTY_HOST, &t->request, &found);
        if (rule == DOCA_RULE_NONE && !is_overlooked(t, &found))
                rule = reason(t, &found);
        if (rule != DOCA_RULE_NONE)
                refuse_by(t, rule);
        else
                t->ops->run(t->user, &t->request);
}

/* Where no frame can begin: who overlooks it goes on after the header. */
static void take_bad_size(struct doca_target *t)
{
        size_t have = doca_buffer_len(&t->in), header = t->control.dialect->frame.header;

        if (rule_in(&t->policy->waived, DOCA_SIZE_S))
                doca_buffer_drop(&t->in, have < header ? have : header);
        else
                fail(t, DOCA_SIZE_S);
}

static void pump(struct doca_target *t)
{
        size_t n;

        if (t->pumping)
                return;
        t->pumping = true;
        while (!t->busy && !t->failed) {
                enum doca_frame next = doca_frame_next(t->control.dialect, &t->in, &n);

                if (next == DOCA_FRAME_MORE)
                        break;
                if (next == DOCA_FRAME_WHOLE)
                        take(t, n);
                else
                        take_bad_size(t);
        }
        t->pumping = false;
}

/* The frame of the request in hand moves with the buffer. */
static bool add(struct doca_target *t, const void *p, size_t n)
{
        const uint8_t *data = t->busy ? t->request.data.p : NULL;
        size_t at = data ? (size_t)(data - (t->in.p + t->in.at)) : 0;

        if (!doca_buffer_add(&t->in, p, n))
                return false;
        if (data)
                t->request.data.p = t->in.p + t->in.at + at;
        return true;
}

bool doca_target_receive(struct doca_target *t, const void *p, size_t n)
{
        if (t->failed)
                return false;
        if (doca_buffer_len(&t->in) + n > 2 * DOCA_FRAME_MAX || !add(t, p, n))
                fail(t, DOCA_RULE_NONE);
        pump(t);
        return !t->failed;
}

void doca_target_answer(struct doca_target *t, struct doca_msg response)
{
        say(t, &response);
        pump(t);
}

void doca_target_refuse(struct doca_target *t, enum doca_error code, const char *why, ...)
{
        bool old = !doca_shape_of(t->control.dialect, DOCA_ERROR_RSP);
        struct doca_msg m = { .kind = old ? DOCA_RESPONSE : DOCA_ERROR_RSP, .result = code };
        char text[256];
        va_list ap;

        va_start(ap, why);
        vsnprintf(text, sizeof(text), why, ap);
        va_end(ap);
        m.data = (struct doca_bytes) { (const uint8_t *)text, (uint32_t)strlen(text) };
        doca_target_answer(t, m);
}
