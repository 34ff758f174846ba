/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Associations: which queues belong to which controller, from Connect to the end.
 *
 * An association ends by being taken out of the table (its CNTLID is free again) and telling its
 * queues to close; each connection then lets go of the controller with ctrl_queue_gone(), and the
 * last one frees it. q->ctrl is written by the queue's own reactor only. Order of locks: ctrl.h.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "admin.h"
#include "pdu/core/plant.h"
#include "pdu/core/wipe.h"
#include "pdu/io/log.h"
#include "target/nvme/ns_hosts.h"

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
        assert(t->count == 0 && !t->first);
        pthread_mutex_destroy(&t->lock);
        free(t);
}

unsigned ctrl_table_list(struct ctrl_table *t, const struct subsystem *s, const struct ns *ns,
                         uint16_t from, le16_t *list, unsigned max)
{
        unsigned n = 0;

        pthread_mutex_lock(&t->lock);
        for (struct ctrl *c = t->first; c && n < max; c = c->next)
                if (c->subsystem == s && c->m.cntlid >= from &&
                    (!ns || ns_is_attached(ns, c->m.hostnqn, c->m.cntlid)))
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

bool ctrl_table_has(const struct ctrl_table *t, const struct subsystem *s, uint16_t cntlid)
{
        return table_find(t, s, cntlid);
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

/* Whatever was attached to an earlier controller of that identifier, or detached from it. */
static void attach_as_usual(const struct ctrl *c)
{
        for (struct ns *ns = c->subsystem ? c->subsystem->ns : NULL; ns; ns = ns->next)
                if (ns_is_flipped(ns, c->m.cntlid) != (nvme_ns(ns)->made && nvme_ns(ns)->shown))
                        ns_flip(ns, c->m.cntlid);
}

void ctrl_table_add(struct ctrl_table *t, struct ctrl *c)
{
        struct ctrl **at = &t->first;

        attach_as_usual(c);

        while (*at && (*at)->m.cntlid < c->m.cntlid)
                at = &(*at)->next;
        c->next = *at;
        *at = c;
        t->count++;
        metric_add(is_discovery(c) ? &t->discovery : &t->io, 1);
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
        metric_add(is_discovery(c) ? &t->discovery : &t->io, UINT64_MAX); /* one less */
}

void ctrl_table_count(const struct ctrl_table *t, struct metrics_sum *sum)
{
        sum->io_controllers = atomic_load(&t->io);
        sum->discovery_controllers = atomic_load(&t->discovery);
        sum->refused_controllers = atomic_load(&t->refused);
        sum->expired = atomic_load(&t->expired);
}

/* --- the queues of an association: under the controller's lock -------------------------------- */

static uint16_t io_status(const struct ctrl *c, const struct ctrl_queue *q)
{
        uint16_t status = auth_required(c, q);

        if (is_discovery(c)) /* FAB_DISC_IO waived: there is nothing behind the queue */
                return NVME_INVALID_OPCODE;
        if (!status && !(CC_SHN(c->m.cc) && has_flaw(c->env, FLAW_SHUTDOWN_SERVED)))
                status = controller_ready(&c->m);
        if (!status && !has_flaw(c->env, FLAW_SANITIZE_READS))
                status = sanitize_io_status(c->subsystem);
        return status;
}

/* An I/O queue beside the first one, which this flaw forgets. */
static bool is_further(const struct ctrl *c, const struct ctrl_queue *q, enum flaw_id flaw)
{
        return q->qid > 1 && has_flaw(c->env, flaw);
}

static bool outlives_reset(const struct ctrl *c, const struct ctrl_queue *q)
{
        return violates(c->env, FAB_RESET_CLEARS) || is_further(c, q, FLAW_RESET_FURTHER);
}

void ctrl_update_queues(struct ctrl *c)
{
        c->m.io_queues = 0;
        for (struct ctrl_queue *q = c->queues; q; q = q->next) {
                if (q->qid == 0 || q->detached)
                        continue;
                c->m.io_queues++;
                if (!outlives_reset(c, q))
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
        c->env->table->count += PLANTED(CTRL_KEPT) && c->m.io_queues > 0;
        for (struct ctrl_queue *q = c->queues; q; q = q->next)
                if (!is_further(c, q, FLAW_ASSOC_FURTHER))
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

static _Atomic uint64_t errors_of_all;

uint64_t ctrl_errors_of_all(void)
{
        return atomic_load(&errors_of_all);
}

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
                .opc = sqe ? sqe->opc : 0,
                .lpver = 1,
        };
        atomic_fetch_add(&errors_of_all, 1);
}

/* The first block that the command could not read. */
static uint64_t unreadable(const struct ctrl *c, const union sqe *s)
{
        uint64_t lba = le32_get(s->cdw10) | (uint64_t)le32_get(s->cdw11) << 32, count;
        uint64_t end = lba + (le32_get(s->cdw12) & RW_NLB_MASK) + 1;
        struct ns *ns = ns_find(c->subsystem, le32_get(s->nsid));

        return ns ? ns_extent(ns, NS_UNREADABLE, lba, end, &count) : lba;
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
        if ((status & STATUS_MASK) == NVME_UNRECOVERED_READ)
                c->errors[(c->error_count - 1) % ERROR_ENTRIES].lba =
                    le64(unreadable(c, &r->sqe) + has_flaw(c->env, FLAW_ERROR_LBA));
        pthread_mutex_unlock(&c->lock);
}

/* --- Controller Reset and shutdown: 3.6, 3.7 -------------------------------------------------- */

/* I/O queues die; AERs, and what else the admin queue has not answered, vanish without a CQE. */
static bool reset(struct ctrl *c, uint64_t now)
{
        bool dropped = c->m.aers > 0;
        struct request *r;

        settings_reset(c, now);
        if (!violates(c->env, LOG_ERROR_RESET))
                c->errors_gone = c->error_count;
        if (c->admin && !has_flaw(c->env, FLAW_AUTH_KEPT))
                auth_drop(c, c->admin);
        if (c->ana)
                ana_reset(c->ana);
        free(c->pel);
        free(c->lba_log);
        c->pel = NULL;
        c->io_lost = false;
        for (struct ctrl_queue *q = c->queues; q; q = q->next)
                if (q->qid > 0 && !q->detached && !outlives_reset(c, q))
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
                dropped = reset(c, now);
        if (CC_SHN(c->m.cc))
                c->io_lost = false;
        ctrl_update_queues(c);
        return dropped;
}

/* What hosts have written is on stable storage before SHST says that shutdown is complete (3.6.1); what
 * is not there is a failure of the controller. */
void ctrl_flushed(struct ctrl_queue *q, struct request *r)
{
        struct ctrl *c = q->ctrl;

        if (r->sqe.opc == NVME_SET_FEATURES) {
                if (c)
                        features_flushed(c, r);
                return;
        }
        if (c && le32_get(r->sqe.property.ofst) == PROP_NSSD) {
                if (cqe_status(&r->cqe) == NVME_SUCCESS)
                        ctrl_table_shut_down(c->env->table, c->subsystem, false, true);
        } else if (c) {
                pthread_mutex_lock(&c->lock);
                controller_shutdown_end(&c->m, cqe_status(&r->cqe) == NVME_SUCCESS);
                pthread_mutex_unlock(&c->lock);
        }
        r->cqe.sf = status_field(NVME_SUCCESS);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* The end of the association, unless both ends know what to do about a single queue (B2.2 3.3.2.4).
 * Many hosts do not say that they do, yet close I/O queues and open them again as they need them. */
static void lose_io_queue(struct ctrl *c, const struct ctrl_queue *q)
{
        bool fatal = has_flaw(c->env, FLAW_IO_LOSS_FATAL);

        if (!(c->env->strict || fatal) || q->detached || (c->single_queues && !fatal) ||
            !(c->m.cc & CC_EN) || CC_SHN(c->m.cc))
                return;
        c->io_lost = true;
        c->io_lost_at = 0;
}

void ctrl_free(struct ctrl *c)
{
        if (c->subsystem)
                subsystem_put(c->subsystem);
        free(c->pel);
        free(c->lba_log);
        pthread_mutex_destroy(&c->lock);
        wipe(&c->auth, sizeof(c->auth));
        ana_view_free(c->ana);
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

/* As long as there are I/O queues. */
static bool outlives_admin(const struct ctrl *c, const struct ctrl_queue *q)
{
        return violates(c->env, q->rdma ? RDMA_ASSOC_ENDS : FAB_ASSOC_ENDS) && c->queues;
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
        wipe(&q->auth, sizeof(q->auth));
        if (last)
                ctrl_free(c);
        return parked;
}

/* --- the I/O path: no locks ------------------------------------------------------------------- */

bool ctrl_is_traffic(const struct ctrl_queue *q, uint16_t status)
{
        return !q->unproven || !status;
}

uint16_t ctrl_io_admit(struct ctrl_queue *q)
{
        uint16_t status = ctrl_io_status(q);

        if (ctrl_is_traffic(q, status) && !atomic_load_explicit(&q->traffic, memory_order_relaxed))
                atomic_store_explicit(&q->traffic, true, memory_order_relaxed);
        return status;
}

uint16_t ctrl_io_status(const struct ctrl_queue *q)
{
        return atomic_load_explicit(&q->io_status, memory_order_acquire);
}

struct subsystem *ctrl_subsystem(const struct ctrl_queue *q)
{
        return q->ctrl ? q->ctrl->subsystem : NULL;
}

const struct ana_view *ctrl_ana(const struct ctrl_queue *q)
{
        return q->ctrl ? q->ctrl->ana : NULL;
}

bool ctrl_write_through(const struct ctrl_queue *q)
{
        return q->ctrl && atomic_load_explicit(&q->ctrl->write_through, memory_order_relaxed);
}

uint16_t ctrl_copy_formats(const struct ctrl_queue *q)
{
        return q->ctrl ? atomic_load_explicit(&q->ctrl->copy_formats, memory_order_relaxed) : 0;
}

bool ctrl_extended(const struct ctrl_queue *q)
{
        return q->ctrl && atomic_load_explicit(&q->ctrl->extended, memory_order_relaxed);
}

/* Only the queue's reactor writes. */
static void count(_Atomic uint64_t *n, uint64_t more)
{
        atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + more,
                              memory_order_relaxed);
}

void ctrl_account_verify(struct ctrl_queue *q, const struct request *r)
{
        const struct ns *ns = ns_find(q->ctrl->subsystem, le32_get(r->sqe.nsid));

        if (ns && !has_flaw(q->ctrl->env, FLAW_SMART_VERIFY))
                count(&q->bytes_read, (uint64_t)((le32_get(r->sqe.cdw12) & RW_NLB_MASK) + 1)
                                          << ns->lbads);
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

/* Base 2.2 8.3.4.2: an initial authentication that times out has failed. The queue's reactor may be ahead
 * of this one's clock. */
static void end_unproven(struct ctrl *c, uint64_t now)
{
        for (struct ctrl_queue *q = c->queues; q; q = q->next) {
                if (!q->unproven || q->detached || (PLANTED(AUTH_DEADLINE) && q->auth.at > 0) ||
                    now < q->due_since + c->env->limits->auth_timeout)
                        continue;
                if (q->qid == 0) {
                        end_association(c);
                        return;
                }
                close_queue(q, NVME_ABORT_SQ_DELETED);
        }
}

static bool is_behind(const struct ctrl *c)
{
        for (struct ctrl_queue *q = c->queues; q; q = q->next)
                if (q->behind && q->behind(q))
                        return true;
        return false;
}

/* Timers wait for who may have been heard of. */
static void tick(struct ctrl *c, const void *arg)
{
        uint64_t now = *(const uint64_t *)arg;

        collect_traffic(c, now);
        if (is_behind(c))
                return;
        if (!controller_tick(&c->m, now)) {
                if (PLANTED(KATO_REF) && c->subsystem)
                        subsystem_put(c->subsystem);
                metric_add(&c->env->table->expired, 1);
                ctrl_add_error(c, 0xffff, NULL, NVME_KATO_EXPIRED);
                end_association(c);
        } else if (lost_for_long(c, now)) {
                end_association(c);
        } else {
                end_unproven(c, now);
                lba_status_tick(c, now);
        }
}

void ctrl_table_tick(struct ctrl_table *t, uint64_t now)
{
        pthread_mutex_lock(&t->lock);
        visit_all(t, tick, &now);
        sanitize_tick(t, now);
        pthread_mutex_unlock(&t->lock);
}

/* --- changes of the inventory ----------------------------------------------------------------- */

/* Ascending; LOG_CHANGED_NS_MAX + 1 of them: too many. */
static void note_nsid(uint32_t *list, unsigned *count, uint32_t nsid)
{
        unsigned i = 0;

        if (*count > LOG_CHANGED_NS_MAX)
                return;
        while (i < *count && list[i] < nsid)
                i++;
        if (i < *count && list[i] == nsid)
                return;
        if ((*count)++ == LOG_CHANGED_NS_MAX)
                return;
        memmove(&list[i + 1], &list[i], (*count - 1 - i) * sizeof(list[0]));
        list[i] = nsid;
}

/* Whether the controllers of a host see the change. */
static bool is_seen(const struct ns_change *change, const char *hostnqn)
{
        bool before = change->was && ns_hosts_has(change->before, hostnqn);
        bool after = change->is && ns_hosts_has(change->after, hostnqn);

        return change->hosts_alone ? before != after : before || after;
}

static void report_ns_changed(struct ctrl *c, const void *arg)
{
        const struct ns_change *change = arg;

        if (is_discovery(c) || c->subsystem != change->subsystem ||
            (!is_seen(change, c->m.hostnqn) && !has_flaw(c->env, FLAW_MASKED_TOLD)))
                return;
        if ((change->attached && !ns_has_controller(change->attached, c->m.cntlid)) ||
            (change->but && change->but == c->m.cntlid) ||
            (change->only && change->only != c->m.cntlid))
                return;
        note_nsid(c->changed_ns, &c->changed, change->nsid);
        controller_event(&c->m, AEN_NOTICE, AEN_INFO_NS_CHANGED, LOG_CHANGED_NS);
        ctrl_send_events(c);
}

void ctrl_table_ns_changed(struct ctrl_table *t, const struct ns_change *change)
{
        pthread_mutex_lock(&t->lock);
        visit_all(t, report_ns_changed, change);
        pthread_mutex_unlock(&t->lock);
}

static void report_allocated(struct ctrl *c, const void *arg)
{
        const struct ns_change *change = arg;

        if (c->subsystem != change->subsystem || c->m.cntlid == change->but ||
            has_flaw(c->env, FLAW_NS_EVENT_ALLOCATED))
                return;
        note_nsid(c->changed_allocated_ns, &c->changed_allocated, change->nsid);
        controller_event(&c->m, AEN_NOTICE, AEN_INFO_ALLOCATED, LOG_CHANGED_ALLOCATED);
        ctrl_send_events(c);
}

void ctrl_table_allocated_changed(struct ctrl_table *t, const struct ns_change *change)
{
        pthread_mutex_lock(&t->lock);
        visit_all(t, report_allocated, change);
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

static void update_ana(struct ctrl *c, const void *arg)
{
        const struct inventory *inv = arg;
        struct ana_news news;

        if (!c->ana)
                return;
        news = ana_update(c->ana, c->subsystem, inventory_port(inv, c->port_id), c->m.cntlid);
        if (news.told || (news.joined && violates(c->env, ANA_NS_EVENT_ALONE)))
                controller_event(&c->m, AEN_NOTICE, AEN_INFO_ANA, LOG_ANA);
        if (news.state && violates(c->env, ANA_NO_NS_EVENT))
                controller_event(&c->m, AEN_NOTICE, AEN_INFO_NS_CHANGED, LOG_CHANGED_NS);
        ctrl_send_events(c);
}

void ctrl_table_ana_changed(struct ctrl_table *t)
{
        struct inventory *inv = atomic_load(&t->inv);

        if (inv)
                look_over(t, inv, update_ana);
}

void ctrl_table_ana_tick(struct ctrl_table *t, uint64_t now)
{
        struct inventory *inv = atomic_load(&t->inv);
        uint64_t due = inv ? atomic_load(&inv->ana_due) : 0;

        if (!due || now < due)
                return;
        pthread_rwlock_wrlock(&inv->lock);
        atomic_store(&inv->ana_due, ana_states_settle(inv, now));
        pthread_rwlock_unlock(&inv->lock);
        ctrl_table_ana_changed(t);
}

static bool is_served(const struct inventory *inv, const struct subsystem *s)
{
        const struct subsystem *i = inv->subsystems;

        while (i && i != s)
                i = i->next;
        return i;
}

/* NULL: it may stay. */
static const char *why_not(const struct inventory *inv, const struct ctrl *c)
{
        const struct port *p = inventory_port(inv, c->port_id);

        if (!p)
                return "its port is gone";
        if (is_discovery(c))
                return NULL;
        if (!is_served(inv, c->subsystem) || !port_subsystem(p, c->subsystem->nqn))
                return "the subsystem is not there any more";
        if (!c->ana != !c->subsystem->ana)
                return "its subsystem reports ANA now, or no longer";
        if (c->m.cfg.queues_max != ctrl_queues_max(c->env, c->subsystem))
                return "its subsystem allows another number of queues now";
        if (!subsystem_allows(c->subsystem, c->m.hostnqn))
                return "the host is not allowed any more";
        if (!PLANTED(KEYS_KEPT) &&
            !auth_keys_equal(&c->auth.keys, subsystem_keys(c->subsystem, c->m.hostnqn)))
                return "its keys have changed";
        return NULL;
}

static void end_unless_allowed(struct ctrl *c, const void *arg)
{
        const char *why = why_not(arg, c);

        if (!why)
                return;
        if (!c->env->quiet)
                log_line(LOG_AS_INFO, "revoked", c->admin ? c->admin->peer : NULL,
                         "association %u of %s with %s ended: %s", c->m.cntlid, c->m.hostnqn,
                         c->m.subnqn, why);
        end_association(c);
}

void ctrl_table_revoke(struct ctrl_table *t, struct inventory *inv)
{
        look_over(t, inv, end_unless_allowed);
}

/* --- NVM Subsystem Reset and Shutdown: 3.6.3, 3.7.1 ------------------------------------------- */

static void end_of_subsystem(struct ctrl *c, const void *arg)
{
        const struct ctrl *by = arg;

        if (c->subsystem == by->subsystem && (c == by || !has_flaw(c->env, FLAW_NSSR_ALONE)))
                end_association(c);
}

void ctrl_table_reset(struct ctrl_table *t, struct subsystem *s, const struct ctrl *by)
{
        pthread_mutex_lock(&t->lock);
        atomic_store(&s->shut_down, has_flaw(by->env, FLAW_NSS_FOREVER) && s->shut_down);
        atomic_store(&s->was_reset, true);
        visit_all(t, end_of_subsystem, by);
        pthread_mutex_unlock(&t->lock);
}

struct shutdown {
        const struct subsystem *subsystem;
        bool normal, done;
};

static void shut_down(struct ctrl *c, const void *arg)
{
        const struct shutdown *s = arg;

        if (c->subsystem != s->subsystem)
                return;
        controller_subsystem_shutdown(&c->m, s->normal, s->done);
        ctrl_send_events(c);
        ctrl_update_queues(c);
}

void ctrl_table_shut_down(struct ctrl_table *t, struct subsystem *s, bool normal, bool done)
{
        pthread_mutex_lock(&t->lock);
        atomic_store(&s->shut_down, true);
        visit_all(t, shut_down, &(struct shutdown) { s, normal, done });
        pthread_mutex_unlock(&t->lock);
}

/* --- on request ------------------------------------------------------------------------------- */

static struct ctrl_info info_of(const struct ctrl *c)
{
        return (struct ctrl_info) {
                .cntlid = c->m.cntlid,
                .discovery = is_discovery(c),
                .hostnqn = c->m.hostnqn,
                .subnqn = c->m.subnqn,
                .hostid = c->m.hostid,
                .io_queues = c->m.io_queues,
        };
}

void ctrl_table_each(struct ctrl_table *t, const struct subsystem *s,
                     void (*fn)(const struct ctrl_info *info, void *arg), void *arg)
{
        pthread_mutex_lock(&t->lock);
        for (struct ctrl *c = t->first; c; c = c->next) {
                struct ctrl_info info;

                if (s && c->subsystem != s)
                        continue;
                pthread_mutex_lock(&c->lock);
                info = info_of(c);
                fn(&info, arg);
                pthread_mutex_unlock(&c->lock);
        }
        pthread_mutex_unlock(&t->lock);
}

unsigned ctrl_table_resets(struct ctrl_table *t, const struct subsystem *s, uint64_t now,
                           struct pel_reset *list, unsigned max)
{
        unsigned n = 0;

        pthread_mutex_lock(&t->lock);
        for (struct ctrl *c = t->first; c && n < max; c = c->next) {
                if (c->subsystem != s)
                        continue;
                pthread_mutex_lock(&c->lock);
                list[n++] = (struct pel_reset) {
                        .cntlid = le16(c->m.cntlid),
                        .power_cycles = le32(1),
                        .power_on = le64(now),
                        .stamp = settings_stamp(c, now),
                };
                pthread_mutex_unlock(&c->lock);
        }
        pthread_mutex_unlock(&t->lock);
        return n;
}

bool ctrl_info_of(const struct ctrl_queue *q, struct ctrl_info *info)
{
        if (!q->ctrl)
                return false;
        pthread_mutex_lock(&q->ctrl->lock);
        *info = info_of(q->ctrl);
        pthread_mutex_unlock(&q->ctrl->lock);
        return true;
}

void ctrl_table_rekey(struct ctrl_table *t, const char *hostnqn, const char *subnqn,
                      const struct auth_keys *keys)
{
        pthread_mutex_lock(&t->lock);
        for (struct ctrl *c = t->first; c; c = c->next)
                if (strcmp(hostnqn, c->m.hostnqn) == 0 && strcmp(subnqn, c->m.subnqn) == 0)
                        c->auth.keys = *keys;
        pthread_mutex_unlock(&t->lock);
}

struct ending {
        uint16_t cntlid;
        const char *hostnqn, *subnqn;
        unsigned *count;
};

static void end_if_meant(struct ctrl *c, const void *arg)
{
        const struct ending *e = arg;

        if ((e->cntlid && e->cntlid != c->m.cntlid) ||
            (e->hostnqn && strcmp(e->hostnqn, c->m.hostnqn) != 0) ||
            (e->subnqn && strcmp(e->subnqn, c->m.subnqn) != 0))
                return;
        ++*e->count;
        end_association(c);
}

unsigned ctrl_table_end(struct ctrl_table *t, uint16_t cntlid, const char *hostnqn,
                        const char *subnqn)
{
        unsigned count = 0;

        pthread_mutex_lock(&t->lock);
        visit_all(t, end_if_meant, &(struct ending) { cntlid, hostnqn, subnqn, &count });
        pthread_mutex_unlock(&t->lock);
        return count;
}
