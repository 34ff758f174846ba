/* SPDX-License-Identifier: BSD-3-Clause */
#include "request.h"

#include <assert.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/plant.h"
#include "spoil.h"

enum {
        FIRST_REQUESTS = 8,
        FIRST_DEPTH = 64, /* until Connect has said the queue's size; a tracker allows no more */
        SLAB_REQUESTS = 32,
};

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
                [REQUEST_DEFERRED] = "deferred",
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

/* --- the requests of a queue ------------------------------------------------------------------- */

static struct request *at(const struct requests *q, struct request_slab *s, unsigned i)
{
        return (struct request *)(void *)(s->requests + i * q->transport->size);
}

static int grow(struct requests *q, unsigned n)
{
        struct request_slab *s = calloc(1, sizeof(*s) + n * q->transport->size);

        if (!s)
                return -1;
        for (unsigned i = 0; i < n; i++) {
                at(q, s, i)->queue = q;
                at(q, s, i)->owner = q->user;
                at(q, s, i)->next = i + 1 < n ? at(q, s, i + 1) : q->free;
        }
        if (q->transport->grown && !q->transport->grown(q, at(q, s, 0), n)) {
                free(s);
                return -1;
        }
        *s = (struct request_slab) { .next = q->slabs, .count = n };
        q->slabs = s;
        q->count += n;
        q->free = at(q, s, 0);
        return 0;
}

static const struct rule_set *unless_empty(const struct rule_set *rules)
{
        return rule_set_empty(rules) ? NULL : rules;
}

void requests_set_policy(struct requests *q, const struct rule_policy *policy)
{
        q->waived = policy ? unless_empty(&policy->waived) : NULL;
        q->violated = policy ? unless_empty(&policy->violated) : NULL;
        q->long_writes = flawed(policy, FLAW_MDTS_WRITE);
}

void requests_set_faulty(struct requests *q, bool faulty)
{
        q->faulty = faulty && q->ops.faults;
}

void requests_set_trace(struct requests *q, void (*trace)(void *user, const struct request *r))
{
        q->ops.trace = trace;
}

int requests_init(struct requests *q, const struct request_transport *t,
                  const struct request_ops *ops, void *user, const struct rule_policy *policy)
{
        q->transport = t;
        q->ops = *ops;
        q->user = user;
        requests_set_policy(q, policy);
        request_list_init(&q->need_buffer);
        return grow(q, FIRST_REQUESTS);
}

void requests_each(const struct requests *q, void (*fn)(struct request *r))
{
        for (struct request_slab *s = q->slabs; s; s = s->next)
                for (unsigned i = 0; i < s->count; i++)
                        fn(at(q, s, i));
}

static void put_buffer(struct request *r)
{
        if (PLANTED(LEAK_FAILED) && cqe_status(&r->cqe))
                r->buffer_len = 0;
        if (r->buffer_len > 0)
                r->queue->ops.buffer_put(r->queue->user, r->buffer, r->buffer_len);
        r->buffer_len = 0;
        r->buffer = NULL;
}

void requests_fini(struct requests *q)
{
        struct request_slab *s;

        assert(q->executing == 0);
        requests_each(q, put_buffer);
        while ((s = q->slabs)) {
                q->slabs = s->next;
                free(s);
        }
}

bool requests_available(struct requests *q)
{
        unsigned max = (q->depth > 0 ? q->depth : FIRST_DEPTH) + q->extra;

        return q->free || (q->count < max && grow(q, SLAB_REQUESTS) == 0);
}

int requests_set_depth(struct requests *q, unsigned entries)
{
        q->depth = entries;
        return q->count < entries ? grow(q, SLAB_REQUESTS) : 0;
}

unsigned requests_executing(const struct requests *q)
{
        return q->executing;
}

struct request *requests_find(const struct requests *q, uint16_t cid)
{
        return q->transport->find(q, cid);
}

/* --- its end ----------------------------------------------------------------------------------- */

void request_release_cid(struct request *r)
{
        if (r->outstanding)
                r->queue->transport->forget(r);
        r->outstanding = false;
}

void request_release(struct request *r)
{
        request_release_cid(r);
        put_buffer(r);
        request_enter(r, REQUEST_COMPLETED);
        r->state = REQUEST_FREE;
        r->next = r->queue->free;
        r->queue->free = r;
}

static void end_silently(struct request *r)
{
        const struct request_transport *t = r->queue->transport;

        r->no_response = true;
        if (t->lingers && t->lingers(r))
                request_enter(r, REQUEST_COMPLETING);
        else
                request_release(r);
}

void request_set_sqhd(struct request *r)
{
        struct requests *q = r->queue;

        if (q->ops.sqhd)
                r->cqe.sqhd = le16(q->ops.sqhd(q->user, r));
        if (q->transport->sqhd)
                q->transport->sqhd(r);
        if (q->violated)
                spoil_sqhd(q->violated, &r->sqe, &r->cqe);
        if (q->faulty)
                q->ops.faults->head(q->user, r);
}

/* No more data leaves than may move; none where nothing does. */
static void bound_data(struct request *r)
{
        if (r->xfer != XFER_C2H || !r->data || cqe_status(&r->cqe))
                r->c2h_len = 0;
        if (r->c2h_len > r->wire_len)
                r->c2h_len = r->wire_len;
}

/* r->cqe says how it ended. */
static void finish(struct request *r)
{
        struct requests *q = r->queue;

        if (q->transport->gone(q)) {
                end_silently(r);
                return;
        }
        r->cqe.cid = r->sqe.cid;
        bound_data(r);
        if (q->ops.completing)
                q->ops.completing(q->user, r);
        if (r->no_response) {
                request_set_sqhd(r);
                end_silently(r);
        } else if ((q->violated || q->faulty) && !q->transport->spoil(r)) {
                end_silently(r);
        } else {
                if (r->c2h_len == 0)
                        put_buffer(r);
                q->transport->answer(r);
        }
}

void request_fail(struct request *r, uint16_t status)
{
        r->cqe = (struct cqe) { .sf = status_field(status) };
        finish(r);
}

static bool withdraw(struct request *r)
{
        if (r->state == REQUEST_NEED_BUFFER)
                request_list_remove(&r->queue->need_buffer, r);
        r->withdrawn = !r->queue->transport->withdraw(r);
        return !r->withdrawn;
}

void request_complete(struct request *r)
{
        assert(r->state != REQUEST_FREE);
        if (r->state == REQUEST_EXECUTING) {
                r->queue->executing--;
                request_enter(r, REQUEST_EXECUTED);
                finish(r);
        } else if (r->state < REQUEST_EXECUTING && withdraw(r)) {
                finish(r);
        }
}

static void reset_request(struct request *r)
{
        if (r->state == REQUEST_FREE || r->sqe.opc == NVME_FABRICS)
                return;
        if (r->state == REQUEST_EXECUTING) {
                r->no_response = true;
                request_release_cid(r);
        } else if (r->state < REQUEST_EXECUTING) {
                r->no_response = true;
                if (withdraw(r))
                        finish(r);
        } else if (withdraw(r)) { /* its answer waited */
                request_set_sqhd(r);
                end_silently(r);
        }
}

void requests_reset(struct requests *q)
{
        requests_each(q, reset_request);
}

/* --- its beginning ----------------------------------------------------------------------------- */

static void execute(struct request *r)
{
        struct requests *q = r->queue;

        request_enter(r, REQUEST_READY_TO_EXECUTE);
        request_enter(r, REQUEST_EXECUTING);
        q->executing++;
        q->ops.execute(q->user, r);
}

void request_arrived(struct request *r)
{
        if (r->withdrawn)
                finish(r);
        else
                execute(r);
}

/* Planted: buffers come with the queue's size. */
static bool get_buffer(struct request *r)
{
        struct requests *q = r->queue;
        uint32_t unit = q->transport->granularity, len = (r->len + unit - 1) / unit * unit;
        bool none = PLANTED(CONNECT_R2T) && q->depth == 0;

        if (!none)
                r->buffer = q->ops.buffer_get(q->user, len, &r->buffer_lkey);
        if (!r->buffer && !none)
                return false;
        r->buffer_len = len;
        r->data = r->buffer;
        return true;
}

/* It has its buffer. Where a short SGL was let pass no bytes of others' data are in its place. */
static void transfer(struct request *r)
{
        if (r->xfer == XFER_C2H) {
                execute(r);
                return;
        }
        if (r->wire_len < r->len)
                memset(r->buffer + r->wire_len, 0, r->len - r->wire_len);
        if (r->queue->faulty && r->queue->ops.faults->hold(r->queue->user, r))
                request_enter(r, REQUEST_H2C_PENDING);
        else
                r->queue->transport->fetch(r);
}

void request_fetch(struct request *r)
{
        r->queue->transport->fetch(r);
}

void requests_buffers(struct requests *q)
{
        struct request *r;

        while (!q->transport->gone(q) && (r = q->need_buffer.first) && get_buffer(r)) {
                request_list_remove(&q->need_buffer, r);
                transfer(r);
        }
}

bool requests_need_buffers(const struct requests *q)
{
        return !q->transport->gone(q) && q->need_buffer.first;
}

static uint32_t longest(const struct request *r)
{
        const struct requests *q = r->queue;

        return r->sqe.opc == NVME_WRITE && q->long_writes ? 2 * q->max_transfer : q->max_transfer;
}

static uint16_t admit(struct request *r, uint16_t broken)
{
        struct requests *q = r->queue;
        uint16_t status = q->ops.admit(q->user, r);

        if (r->len == 0)
                r->xfer = XFER_NONE;
        if (status || broken)
                return status ? status : broken;
        if (r->xfer == XFER_NONE)
                return 0;
        if (r->xfer == XFER_BOTH || r->len > longest(r))
                return NVME_INVALID_FIELD | STATUS_DNR;
        return q->transport->place(r);
}

static void start(struct request *r)
{
        struct requests *q = r->queue;

        if (r->xfer == XFER_NONE || r->in_place)
                execute(r);
        else if (!q->need_buffer.first && get_buffer(r))
                transfer(r);
        else
                request_wait(r, &q->need_buffer, REQUEST_NEED_BUFFER);
}

static void defer(struct request *r)
{
        request_enter(r, REQUEST_DEFERRED);
        r->queue->ops.defer(r->queue->user, r);
}

void request_start(struct request *r)
{
        r->deferred = false;
        start(r);
}

void requests_take(struct requests *q, const union sqe *sqe, uint16_t broken)
{
        struct request *r = q->free;
        uint16_t status;

        q->free = r->next;
        r->sqe = *sqe;
        r->cqe = (struct cqe) { .cid = sqe->cid };
        r->xfer = XFER_NONE;
        r->len = r->c2h_len = r->wire_len = 0;
        r->data = NULL;
        r->in_place = r->success_ok = r->no_response = r->withdrawn = r->held = false;
        r->deferred = r->lax = false;
        r->faults = 0;
        r->user = NULL;
        q->transport->begin(r);
        r->outstanding = true;
        request_enter(r, REQUEST_NEW);
        status = admit(r, broken);
        if (status)
                request_fail(r, status);
        else if (r->deferred)
                defer(r);
        else
                start(r);
        if (PLANTED(EARLY_DDGST) && status && broken)
                request_fail(r, broken);
}
