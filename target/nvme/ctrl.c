/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Associations: which queues belong to which controller, from Connect to the end.
 *
 * An association ends by being taken out of the table (its CNTLID is free again) and telling its
 * queues to close; each connection then lets go of the controller with ctrl_queue_gone(), and the
 * last one frees it. q->ctrl is written by the queue's own reactor only. Order of locks: ctrl.h.
 */
#include <stdlib.h>
#include <string.h>

#include "admin.h"

enum { IO_LOST_GRACE = 2000 /* ms */ };

struct ctrl_table *ctrl_table_new(unsigned controllers_max)
{
        struct ctrl_table *t = calloc(1, sizeof(*t));

        if (!t)
                return NULL;
        pthread_mutex_init(&t->lock, NULL);
        t->max = controllers_max;
        return t;
}

void ctrl_table_free(struct ctrl_table *t)
{
        if (!t)
                return;
        pthread_mutex_destroy(&t->lock);
        free(t);
}

unsigned ctrl_table_list(struct ctrl_table *t, const struct subsystem *s, uint16_t from,
                         le16_t *list, unsigned max)
{
        unsigned n = 0;

        pthread_mutex_lock(&t->lock);
        for (struct ctrl *c = t->first; c && n < max; c = c->next)
                if (c->subsystem == s && c->m.cntlid >= from)
                        list[n++] = le16(c->m.cntlid);
        pthread_mutex_unlock(&t->lock);
        return n;
}

/* --- the table: under its lock ---------------------------------------------------------------- */

static struct ctrl *table_find(const struct ctrl_table *t, const struct subsystem *s,
                               uint16_t cntlid)
{
        struct ctrl *c = t->first;

        while (c && (c->subsystem != s || c->m.cntlid != cntlid))
                c = c->next;
        return c;
}

uint16_t ctrl_table_cntlid(struct ctrl_table *t, const struct subsystem *s)
{
        unsigned min = s && s->cntlid_min >= CNTLID_MIN ? s->cntlid_min : CNTLID_MIN;
        unsigned max = s && s->cntlid_max >= min ? s->cntlid_max : CNTLID_MAX;
        unsigned id = t->last;

        if (max > CNTLID_MAX)
                max = CNTLID_MAX;
        for (unsigned i = min; i <= max; i++) {
                id = id + 1 < min || id + 1 > max ? min : id + 1;
                if (table_find(t, s, (uint16_t)id))
                        continue;
                t->last = (uint16_t)id;
                return t->last;
        }
        return 0;
}

void ctrl_table_add(struct ctrl_table *t, struct ctrl *c)
{
        struct ctrl **at = &t->first;

        while (*at && (*at)->m.cntlid < c->m.cntlid)
                at = &(*at)->next;
        c->next = *at;
        *at = c;
        t->count++;
}

static void table_remove(struct ctrl_table *t, struct ctrl *c)
{
        struct ctrl **at = &t->first;

        while (*at && *at != c)
                at = &(*at)->next;
        if (!*at)
                return;
        *at = c->next;
        t->count--;
}

/* --- the queues of an association: under the controller's lock -------------------------------- */

static uint16_t io_status(const struct ctrl *c, const struct ctrl_queue *q)
{
        uint16_t status = auth_required(c, q);

        if (is_discovery(c)) /* FAB_DISC_IO waived: there is nothing behind the queue */
                return NVME_INVALID_OPCODE;
        return status ? status : controller_ready(&c->m);
}

void ctrl_update_queues(struct ctrl *c)
{
        c->m.io_queues = 0;
        for (struct ctrl_queue *q = c->queues; q; q = q->next) {
                if (q->qid == 0 || q->detached)
                        continue;
                c->m.io_queues++;
                if (!violates(c->env, FAB_RESET_CLEARS))
                        atomic_store(&q->io_status, io_status(c, q));
        }
}

static void close_queue(struct ctrl_queue *q, uint16_t status)
{
        atomic_store(&q->io_status, status);
        q->detached = true;
        q->close(q);
}

void ctrl_leave_queue(struct ctrl_queue *q)
{
        q->detached = true;
        q->disconnecting = true;
        atomic_store(&q->io_status, NVME_SEQUENCE_ERROR);
}

void ctrl_add_queue(struct ctrl *c, struct ctrl_queue *q)
{
        q->next = c->queues;
        c->queues = q;
        if (q->qid == 0)
                c->admin = q;
        ctrl_update_queues(c);
}

static void unlink_queue(struct ctrl *c, struct ctrl_queue *q)
{
        struct ctrl_queue **at = &c->queues;

        while (*at && *at != q)
                at = &(*at)->next;
        if (*at)
                *at = q->next;
        if (c->admin == q)
                c->admin = NULL;
        c->bytes_read += atomic_load(&q->bytes_read);
        c->bytes_written += atomic_load(&q->bytes_written);
        c->reads += atomic_load(&q->reads);
        c->writes += atomic_load(&q->writes);
}

/* The association ends; also under the table's lock. */
static void end_association(struct ctrl *c)
{
        if (c->ended)
                return;
        c->ended = true;
        table_remove(c->env->table, c);
        for (struct ctrl_queue *q = c->queues; q; q = q->next)
                close_queue(q, NVME_ABORT_SQ_DELETED);
}

void ctrl_send_events(struct ctrl *c)
{
        struct request *r;
        struct cqe cqe;

        while (c->admin && (r = controller_aer_pop(&c->m, &cqe))) {
                r->cqe = cqe;
                c->admin->complete(c->admin, r);
        }
}

/* --- errors ----------------------------------------------------------------------------------- */

void ctrl_add_error(struct ctrl *c, uint16_t sqid, const union sqe *sqe, uint16_t status)
{
        struct log_error *e = &c->errors[c->error_count++ % ERROR_ENTRIES];

        *e = (struct log_error) {
                .count = le64(c->error_count),
                .sqid = le16(sqid),
                .cid = sqe ? sqe->cid : le16(0xffff),
                .sf = status_field(status),
                .pel = le16(0xffff),
                .nsid = sqe && sqe->opc != NVME_FABRICS ? sqe->nsid : le32(0),
                .trtype = c->trtype,
                .opc = sqe ? sqe->opc : 0,
                .lpver = 1,
        };
}

void ctrl_log_error(struct ctrl_queue *q, struct request *r)
{
        struct ctrl *c = q->ctrl;
        uint16_t status = le16_get(r->cqe.sf) >> 1 | STATUS_MORE;

        if (!c)
                return;
        r->cqe.sf = status_field(status);
        pthread_mutex_lock(&c->lock);
        ctrl_add_error(c, q->qid, &r->sqe, status);
        pthread_mutex_unlock(&c->lock);
}

/* --- Controller Reset and shutdown: 3.6, 3.7 -------------------------------------------------- */

/* I/O queues die; AERs, and what else the admin queue has not answered, vanish without a CQE. */
static bool reset(struct ctrl *c)
{
        bool dropped = c->m.aers > 0;
        struct request *r;

        settings_reset(c);
        c->io_lost = false;
        for (struct ctrl_queue *q = c->queues; q; q = q->next)
                if (q->qid > 0 && !q->detached && !violates(c->env, FAB_RESET_CLEARS))
                        close_queue(q, NVME_SEQUENCE_ERROR);
        while ((r = controller_aer_take(&c->m, UINT32_MAX))) {
                r->no_response = true;
                c->admin->complete(c->admin, r);
        }
        return dropped;
}

bool ctrl_set_property(struct ctrl_queue *q, struct request *r, uint64_t now)
{
        struct ctrl *c = q->ctrl;
        bool was = c->m.cc & CC_EN, dropped = false;

        controller_property_set(&c->m, &r->sqe.property, &r->cqe, now);
        q->reset = was && !(c->m.cc & CC_EN);
        if (q->reset)
                dropped = reset(c);
        if (CC_SHN(c->m.cc))
                c->io_lost = false;
        ctrl_update_queues(c);
        return dropped;
}

/* --- the end ---------------------------------------------------------------------------------- */

/* 3.1.2: the end of the association, unless both ends know what to do about a single queue. */
static void lose_io_queue(struct ctrl *c, const struct ctrl_queue *q)
{
        if (q->detached || c->single_queues || !(c->m.cc & CC_EN) || CC_SHN(c->m.cc))
                return;
        c->io_lost = true;
        c->io_lost_at = 0;
}

void ctrl_free(struct ctrl *c)
{
        if (c->subsystem)
                subsystem_put(c->subsystem);
        pthread_mutex_destroy(&c->lock);
        free(c);
}

/* Linked by next. */
static struct request *take_aers(struct ctrl *c)
{
        struct request *first = NULL, *r;

        while ((r = controller_aer_take(&c->m, UINT32_MAX))) {
                r->next = first;
                first = r;
        }
        return first;
}

/* RDMA_ASSOC_ENDS is broken, as long as there are I/O queues. */
static bool outlives_admin(const struct ctrl *c, const struct ctrl_queue *q)
{
        return q->rdma && violates(c->env, RDMA_ASSOC_ENDS) && c->queues;
}

static struct request *let_go(struct ctrl *c, struct ctrl_queue *q)
{
        struct request *parked = NULL;

        unlink_queue(c, q);
        if (q->qid == 0) {
                parked = take_aers(c);
                if (!outlives_admin(c, q))
                        end_association(c);
        } else if (!c->ended) {
                lose_io_queue(c, q);
                ctrl_update_queues(c);
                if (!c->queues)
                        end_association(c);
        }
        return parked;
}

struct request *ctrl_queue_gone(struct ctrl_queue *q)
{
        struct ctrl *c = q->ctrl;
        struct ctrl_table *t;
        struct request *parked;
        bool last;

        if (!c)
                return NULL;
        t = c->env->table;
        pthread_mutex_lock(&t->lock);
        pthread_mutex_lock(&c->lock);
        parked = let_go(c, q);
        last = !c->queues;
        pthread_mutex_unlock(&c->lock);
        pthread_mutex_unlock(&t->lock);
        q->ctrl = NULL;
        q->connected = false;
        if (last)
                ctrl_free(c);
        return parked;
}

/* --- the I/O path: no locks ------------------------------------------------------------------- */

uint16_t ctrl_io_admit(struct ctrl_queue *q)
{
        if (!atomic_load_explicit(&q->traffic, memory_order_relaxed))
                atomic_store_explicit(&q->traffic, true, memory_order_relaxed);
        return ctrl_io_status(q);
}

uint16_t ctrl_io_status(const struct ctrl_queue *q)
{
        return atomic_load_explicit(&q->io_status, memory_order_acquire);
}

struct subsystem *ctrl_subsystem(const struct ctrl_queue *q)
{
        return q->ctrl ? q->ctrl->subsystem : NULL;
}

bool ctrl_write_through(const struct ctrl_queue *q)
{
        return q->ctrl && atomic_load_explicit(&q->ctrl->write_through, memory_order_relaxed);
}

/* Only the queue's reactor writes. */
static void count(_Atomic uint64_t *n, uint64_t more)
{
        atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + more,
                              memory_order_relaxed);
}

void ctrl_account(struct ctrl_queue *q, bool write, uint64_t bytes)
{
        count(write ? &q->bytes_written : &q->bytes_read, bytes);
        count(write ? &q->writes : &q->reads, 1);
}

/* For each controller, which it may end; under the table's lock. */
static void visit_all(struct ctrl_table *t, void (*visit)(struct ctrl *c, const void *arg),
                      const void *arg)
{
        for (struct ctrl *c = t->first, *next; c; c = next) {
                next = c->next;
                pthread_mutex_lock(&c->lock);
                visit(c, arg);
                pthread_mutex_unlock(&c->lock);
        }
}

/* --- time ------------------------------------------------------------------------------------- */

static void collect_traffic(struct ctrl *c, uint64_t now)
{
        for (struct ctrl_queue *q = c->queues; q; q = q->next)
                if (atomic_exchange_explicit(&q->traffic, false, memory_order_relaxed))
                        controller_traffic(&c->m, false, now);
}

static bool lost_for_long(struct ctrl *c, uint64_t now)
{
        if (!c->io_lost)
                return false;
        if (c->io_lost_at == 0)
                c->io_lost_at = now;
        return now - c->io_lost_at >= IO_LOST_GRACE;
}

static void tick(struct ctrl *c, const void *arg)
{
        uint64_t now = *(const uint64_t *)arg;

        collect_traffic(c, now);
        if (!controller_tick(&c->m, now)) {
                ctrl_add_error(c, 0xffff, NULL, NVME_KATO_EXPIRED);
                end_association(c);
        } else if (lost_for_long(c, now)) {
                end_association(c);
        }
}

void ctrl_table_tick(struct ctrl_table *t, uint64_t now)
{
        pthread_mutex_lock(&t->lock);
        visit_all(t, tick, &now);
        pthread_mutex_unlock(&t->lock);
}

/* --- changes of the inventory ----------------------------------------------------------------- */

static void note_changed_ns(struct ctrl *c, uint32_t nsid)
{
        unsigned i = 0;

        if (c->changed > LOG_CHANGED_NS_MAX)
                return;
        while (i < c->changed && c->changed_ns[i] < nsid)
                i++;
        if (i < c->changed && c->changed_ns[i] == nsid)
                return;
        if (c->changed++ == LOG_CHANGED_NS_MAX)
                return;
        memmove(&c->changed_ns[i + 1], &c->changed_ns[i],
                (c->changed - 1 - i) * sizeof(c->changed_ns[0]));
        c->changed_ns[i] = nsid;
}

struct ns_change {
        const struct subsystem *subsystem;
        uint32_t nsid;
};

static void report_ns_changed(struct ctrl *c, const void *arg)
{
        const struct ns_change *change = arg;

        if (is_discovery(c) || c->subsystem != change->subsystem)
                return;
        note_changed_ns(c, change->nsid);
        controller_event(&c->m, AEN_NOTICE, AEN_INFO_NS_CHANGED, LOG_CHANGED_NS);
        ctrl_send_events(c);
}

void ctrl_table_ns_changed(struct ctrl_table *t, struct subsystem *s, uint32_t nsid)
{
        pthread_mutex_lock(&t->lock);
        visit_all(t, report_ns_changed, &(struct ns_change) { s, nsid });
        pthread_mutex_unlock(&t->lock);
}

static void look_again(struct ctrl *c, const void *arg)
{
        const struct inventory *inv = arg;
        uint64_t view;

        if (!is_discovery(c))
                return;
        view = discovery_view(c, inventory_port(inv, c->port_id));
        if (view == c->view)
                return;
        c->view = view;
        controller_event(&c->m, AEN_NOTICE, AEN_INFO_DISCOVERY, LOG_DISCOVERY);
        ctrl_send_events(c);
}

/* Under the locks of inventory and table. */
static void look_over(struct ctrl_table *t, struct inventory *inv,
                      void (*visit)(struct ctrl *c, const void *arg))
{
        pthread_rwlock_rdlock(&inv->lock);
        pthread_mutex_lock(&t->lock);
        visit_all(t, visit, inv);
        pthread_mutex_unlock(&t->lock);
        pthread_rwlock_unlock(&inv->lock);
}

void ctrl_table_discovery_changed(struct ctrl_table *t)
{
        struct inventory *inv = atomic_load(&t->inv);

        if (inv) /* or nobody has connected yet */
                look_over(t, inv, look_again);
}

static bool is_served(const struct inventory *inv, const struct subsystem *s)
{
        const struct subsystem *i = inv->subsystems;

        while (i && i != s)
                i = i->next;
        return i;
}

static bool may_stay(const struct inventory *inv, const struct ctrl *c)
{
        const struct port *p = inventory_port(inv, c->port_id);

        if (is_discovery(c) || !p)
                return p;
        return is_served(inv, c->subsystem) && port_subsystem(p, c->subsystem->nqn) &&
               subsystem_allows(c->subsystem, c->m.hostnqn);
}

static void end_unless_allowed(struct ctrl *c, const void *arg)
{
        if (!may_stay(arg, c))
                end_association(c);
}

void ctrl_table_revoke(struct ctrl_table *t, struct inventory *inv)
{
        look_over(t, inv, end_unless_allowed);
}
