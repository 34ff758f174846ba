/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A subsystem that is paused: commands that come wait before they are given data buffers, in order, until it is
 * resumed. As many as their queue has entries at most, each with what came in its capsule. What is about the queue
 * alone is served, Fabrics commands are as well.
 */
#include <stdlib.h>
#include <string.h>

#include "conn.h"
#include "nvm.h"

struct conn_deferred {
        struct request *request;
        struct conn_deferred *next;
        uint8_t *data; /* that came in the capsule, conn_keep(); NULL: none did */
        uint32_t len;
};

static bool is_always_served(const struct target_conn *c, const struct request *r)
{
        uint8_t opc = r->sqe.opc;

        if (c->queue.qid > 0)
                return opc == NVME_FABRICS || opc == NVME_CANCEL;
        return opc == NVME_FABRICS || opc == NVME_KEEP_ALIVE || opc == NVME_AER ||
               opc == NVME_ABORT;
}

/* Copy may read from other namespaces than its own. */
static bool concerns(uint64_t pause, const struct target_conn *c, const struct request *r)
{
        uint32_t paused = (uint32_t)pause, nsid = le32_get(r->sqe.nsid);

        if (pause == 0 || is_always_served(c, r))
                return false;
        if (c->queue.qid == 0 || paused == NSID_ALL)
                return true;
        return paused != 0 && (nsid == paused || nsid == NSID_ALL || r->sqe.opc == NVME_COPY);
}

bool conn_is_paused(const struct target_conn *c, const struct request *r)
{
        const struct subsystem *s = ctrl_subsystem(&c->queue);

        return s && concerns(atomic_load(&s->pause), c, r);
}

/* --- what waits ------------------------------------------------------------------------------- */

void conn_defer(void *user, struct request *r)
{
        struct target_conn *c = user;
        struct conn_deferred *d = c->over ? NULL : calloc(1, sizeof(*d));

        if (d && r->in_place) {
                d->len = r->len;
                d->data = conn_keep(&c->base, r->data, r->len);
        }
        if (!d || (r->in_place && !d->data)) {
                free(d);
                request_fail(r, c->queue.qid > 0 ? NVME_NS_NOT_READY : NVME_INTERNAL_ERROR);
                return;
        }
        d->request = r;
        if (d->data)
                r->data = d->data;
        *c->deferred_last = d;
        c->deferred_last = &d->next;
}

static void free_deferred(struct target_conn *c, struct conn_deferred *d)
{
        if (d->data)
                conn_drop(&c->base, d->data, d->len);
        free(d);
}

static struct conn_deferred *unlink_deferred(struct target_conn *c, struct conn_deferred **at)
{
        struct conn_deferred *d = *at;

        *at = d->next;
        if (!*at)
                c->deferred_last = at;
        return d;
}

void conn_undefer(struct target_conn *c, const struct request *r)
{
        struct conn_deferred **at = &c->deferred;

        while (*at && (*at)->request != r)
                at = &(*at)->next;
        if (*at)
                free_deferred(c, unlink_deferred(c, at));
}

static void start(struct target_conn *c, struct request *r)
{
        uint16_t status = 0;

        if (c->queue.qid > 0)
                status =
                    conn_log_status(c, r, nvm_admit_again(&c->nvm, ctrl_subsystem(&c->queue), r));
        if (status)
                request_fail(r, status);
        else
                request_start(r);
}

void conn_resume(struct target_conn *c)
{
        while (c->deferred) {
                struct conn_deferred *d = unlink_deferred(c, &c->deferred);

                start(c, d->request);
                free_deferred(c, d);
        }
}

void conn_drop_deferred(struct target_conn *c)
{
        while (c->deferred)
                free_deferred(c, unlink_deferred(c, &c->deferred));
}

/* --- what is in work -------------------------------------------------------------------------- */

/* Once a connection is over, its commands end unless they execute. */
static void count(struct request *r)
{
        struct target_conn *c = r->owner;
        bool begun = c->over ? r->state == REQUEST_EXECUTING
                             : r->state != REQUEST_FREE && r->state <= REQUEST_EXECUTING;

        if (begun && !r->deferred && concerns(c->counted.pause, c, r) && !nvm_waits_for_half(r))
                c->counted.working++;
}

void conn_count_work(struct target_conn *c, struct conn_work *work)
{
        const struct subsystem *s = c->over ? c->nvm.subsystem : ctrl_subsystem(&c->queue);

        if (!s || s != work->subsystem)
                return;
        c->counted.pause = work->pause;
        c->counted.working = 0;
        requests_each(c->kind->requests(c), count);
        work->working += c->counted.working;
        for (const struct conn_deferred *d = c->deferred; d; d = d->next)
                work->waiting++;
}
