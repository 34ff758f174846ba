/* SPDX-License-Identifier: BSD-3-Clause */
/* What controllers learn of reservations (Base 2.2 8.1.22.2, 5.1.12.1.32), and whose they are. */
#include <string.h>

#include "admin.h"
#include "target/ns/ns_backend.h"

uint16_t ctrl_cntlid_of(const struct ctrl_queue *q, const uint8_t hostid[16])
{
        struct ctrl_table *t = q->ctrl->env->table;
        uint16_t cntlid = CNTLID_NOT_ASSOCIATED;

        pthread_mutex_lock(&t->lock);
        for (const struct ctrl *c = t->first; c && cntlid == CNTLID_NOT_ASSOCIATED; c = c->next)
                if (c->subsystem == q->ctrl->subsystem && memcmp(c->m.hostid, hostid, 16) == 0)
                        cntlid = c->m.cntlid;
        pthread_mutex_unlock(&t->lock);
        return cntlid;
}

/* --- the log: under the controller's lock ------------------------------------------------------- */

static struct log_reservation *page_at(struct notices *n, unsigned i)
{
        return &n->page[(n->first + i) % NOTICE_PAGES];
}

/* One for which there is no room is lost; the count of the last one tells. */
static void add_page(struct ctrl *c, uint32_t nsid, uint8_t notice)
{
        struct notices *n = &c->notices;

        n->made += n->made == UINT64_MAX ? 2 : 1; /* never 0: that is an empty page */
        if (n->count == NOTICE_PAGES) {
                if (!has_flaw(c->env, FLAW_NOTICE_LOST))
                        page_at(n, NOTICE_PAGES - 1)->count = le64(n->made);
                return;
        }
        *page_at(n, n->count++) =
            (struct log_reservation) { .count = le64(n->made), .type = notice, .nsid = le32(nsid) };
}

struct log_reservation notices_read(struct ctrl *c)
{
        struct notices *n = &c->notices;
        struct log_reservation page = { 0 };

        if (n->count == 0)
                return page;
        page = n->page[n->first];
        page.available = (uint8_t)(n->count - 1);
        if (has_flaw(c->env, FLAW_NOTICE_STAYS))
                return page;
        n->first = (n->first + 1) % NOTICE_PAGES;
        n->count--;
        return page;
}

static bool is_masked(const struct ctrl *c, uint32_t nsid, uint8_t notice)
{
        return nsid <= CTRL_NSID_MAX && c->notices.masked[nsid] >> notice & 1 &&
               !has_flaw(c->env, FLAW_NOTICE_MASKED);
}

static void notice(struct ctrl *c, uint32_t nsid, uint8_t what)
{
        if (is_masked(c, nsid, what) || has_flaw(c->env, FLAW_NOTICE_NONE))
                return;
        if (has_flaw(c->env, FLAW_NOTICE_TYPE))
                what = RESERVATION_RELEASED;
        add_page(c, nsid, what);
        if (!has_flaw(c->env, FLAW_NOTICE_SILENT))
                controller_event(&c->m, AEN_COMMAND_SET, AEN_INFO_RESERVATION, LOG_RESERVATION);
        ctrl_send_events(c);
}

/* --- whose controllers -------------------------------------------------------------------------- */

static uint8_t notice_for(const struct ctrl *c, const struct ns_resv_notices *n)
{
        for (unsigned i = 0; i < n->count; i++)
                if (memcmp(n->of[i].hostid, c->m.hostid, 16) == 0)
                        return n->of[i].notice;
        return 0;
}

/* Each NSID by which a controller of these hosts reaches the storage of `ns`. */
static void visit(struct ctrl_table *t, struct ns *ns, const struct ns_resv_notices *n,
                  void (*fn)(struct ctrl *c, uint32_t nsid, uint8_t notice, void *arg), void *arg)
{
        pthread_mutex_lock(&t->lock);
        for (struct ctrl *c = n->count > 0 ? t->first : NULL; c; c = c->next) {
                uint8_t what = notice_for(c, n);

                pthread_mutex_lock(&c->lock);
                for (struct ns *i = what && c->subsystem ? c->subsystem->ns : NULL; i; i = i->next)
                        if (ns_resv_of(i) == ns_resv_of(ns))
                                fn(c, i->nsid, what, arg);
                pthread_mutex_unlock(&c->lock);
        }
        pthread_mutex_unlock(&t->lock);
}

static void notify_one(struct ctrl *c, uint32_t nsid, uint8_t what, void *arg)
{
        (void)arg;
        if (ctrl_ns(c, nsid)) /* of others it may still have commands, but hears nothing */
                notice(c, nsid, what);
}

void ctrl_table_notify(struct ctrl_table *t, struct ns *ns, const struct ns_resv_notices *n)
{
        visit(t, ns, n, notify_one, NULL);
}

static void preempt(struct ctrl *c, uint32_t nsid, uint8_t what, void *by)
{
        for (struct ctrl_queue *q = what == REGISTRATION_PREEMPTED ? c->queues : NULL; q;
             q = q->next)
                if (q->qid > 0 && !q->detached)
                        q->preempt(q, nsid, by);
}

void ctrl_table_preempt(struct ctrl_table *t, struct ns *ns, const struct ns_resv_notices *n,
                        void *by)
{
        visit(t, ns, n, preempt, by);
}
