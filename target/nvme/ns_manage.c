/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Namespace Management and Namespace Attachment (Base 2.2 5.1.20, 5.1.21, 8.1.15), of subsystems whose hosts
 * may do what they like with them as a whole. What hosts make is in memory, and goes with the target or when
 * the configuration is read again, which brings back what they deleted.
 *
 * A namespace that is deleted leaves the subsystem's list, and gives its blocks back; readers may still walk
 * on from it, so it is freed with the subsystem only.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "admin.h"

enum { CREATE, DELETE, ATTACH = 0, DETACH = 1, SELECT = 15, MADE_LBADS = 9, IDS_MAX = 2047 };
enum {
        MADE_MAX = 16384
}; /* since the configuration was read: what was deleted still takes some memory */

/* The part of Identify Namespace that Create brings. */
struct created {
        uint64_t nsze, ncap;
        uint8_t flbas, dps, nmic;
};

static struct created created(const struct admin *a)
{
        const struct id_ns *id = (const struct id_ns *)(const void *)a->r->data;

        return (struct created) { le64_get(id->nsze), le64_get(id->ncap), id->flbas, id->dps,
                                  id->nmic };
}

uint64_t subsystem_unallocated(const struct subsystem *s)
{
        uint64_t used = 0;

        for (const struct ns *ns = s->ns; ns; ns = ns->next)
                used += atomic_load(&ns->blocks) << ns->lbads;
        return used < SUBSYSTEM_CAPACITY ? SUBSYSTEM_CAPACITY - used : 0;
}

static uint32_t free_nsid(const struct subsystem *s)
{
        uint32_t nsid = 1;

        while (nsid <= CTRL_NSID_MAX && subsystem_ns(s, nsid))
                nsid++;
        return nsid <= CTRL_NSID_MAX ? nsid : 0;
}

static void record(const struct admin *a, const struct created *c, uint32_t nsid)
{
        struct ctrl *ctrl = a->ctrl;
        struct pel_from from = { ctrl->m.cntlid, ctrl->port_id, settings_stamp(ctrl, a->now) };
        uint8_t data[48] = { 0 };

        if (has_flaw(a->env, FLAW_PEL_NAMESPACE))
                return;
        le_put(data, 4, le32_get(a->r->sqe.cdw10));
        le_put(data + 8, 8, c->nsze);
        le_put(data + 16, 8, c->ncap);
        data[32] = c->flbas;
        data[33] = c->dps;
        data[34] = c->nmic;
        le_put(data + 44, 4, nsid);
        pel_add(&ctrl->subsystem->pel, PEL_NAMESPACE, &from, data, sizeof(data));
}

/* --- Create ------------------------------------------------------------------------------------- */

static uint16_t check_created(struct admin *a, const struct created *c)
{
        const struct subsystem *s = a->ctrl->subsystem;
        uint64_t most = UINT64_MAX >> MADE_LBADS, left = subsystem_unallocated(s);

        if (has_flaw(a->env, FLAW_NS_CREATE_ANY))
                return 0;
        if (le32_get(a->r->sqe.cdw11) >> 24)
                return NVME_IOCS_UNSUPPORTED;
        if (c->flbas & 0x6f || c->dps & 7)
                return NVME_INVALID_FORMAT;
        if (le32_get(a->r->sqe.nsid) || c->nsze == 0 || c->ncap > c->nsze || c->nmic & ~1)
                return NVME_INVALID_FIELD;
        if (c->ncap < c->nsze)
                return NVME_THIN_PROVISIONING;
        if (c->nsze > most || c->nsze << MADE_LBADS > left) {
                a->csinfo = c->nsze > most ? UINT64_MAX : c->nsze << MADE_LBADS;
                return NVME_NS_CAPACITY;
        }
        return free_nsid(s) && s->made < MADE_MAX ? 0 : NVME_NSID_UNAVAILABLE;
}

/* An identifier that no namespace had before, deleted ones among them. */
static void name(const struct admin *a, struct subsystem *s, struct ns *ns)
{
        if (!has_flaw(a->env, FLAW_NS_REUSED))
                s->made++;
        le_put(ns->uuid, 4, le_get(ns->uuid, 4) ^ s->made);
        memcpy(nvme_ns(ns)->nguid, ns->uuid, sizeof(nvme_ns(ns)->nguid));
}

static uint16_t create(struct admin *a)
{
        struct subsystem *s = a->ctrl->subsystem;
        struct created c = created(a);
        uint16_t status = check_created(a, &c);
        char spec[40], error[256];
        uint32_t nsid = has_flaw(a->env, FLAW_NS_CREATE_ANY) && c.nsze > 4096 ? 0 : free_nsid(s);
        struct ns *ns;

        if (status || !nsid)
                return status;
        snprintf(spec, sizeof(spec), "mem:%" PRIu64, c.nsze << MADE_LBADS);
        ns = ns_open(&nvme_ns_family, spec, s->nqn, nsid, error, sizeof(error));
        if (!ns)
                return NVME_INTERNAL_ERROR;
        nvme_ns(ns)->made = !has_flaw(a->env, FLAW_NS_CREATE_ATTACHES);
        nvme_ns(ns)->anagrpid = ANA_GROUP_FIRST;
        name(a, s, ns);
        subsystem_add_ns(s, ns);
        a->r->cqe.dw0 = le32(has_flaw(a->env, FLAW_NS_CREATE_NSID) ? nsid + 1 : nsid);
        record(a, &c, nsid);
        return 0;
}

/* --- Delete ------------------------------------------------------------------------------------- */

static void tell_deleted(const struct admin *a, struct ns *ns)
{
        ctrl_table_ns_changed(a->env->table,
                              &(struct ns_change) { .subsystem = a->ctrl->subsystem,
                                                    .nsid = ns->nsid,
                                                    .was = true,
                                                    .before = nvme_ns(ns)->hosts,
                                                    .attached = ns,
                                                    .but = has_flaw(a->env, FLAW_NS_EVENT_OWN)
                                                               ? 0
                                                               : a->ctrl->m.cntlid });
}

/* Every controller, but for one (0: none): of Delete, and of nothing else, the one that got the command is not
 * told (figure 152 of 5.1.2, 8.1.15). */
static void tell_allocated(const struct admin *a, uint32_t nsid, uint16_t but)
{
        ctrl_table_allocated_changed(
            a->env->table,
            &(struct ns_change) { .subsystem = a->ctrl->subsystem, .nsid = nsid, .but = but });
}

static void bury(const struct admin *a, struct ns *ns)
{
        struct subsystem *s = a->ctrl->subsystem;

        subsystem_remove_ns(s, ns);
        ns_hurry(ns);
        ns_zero(ns, 0, atomic_load(&ns->blocks), true);
        nvme_ns(ns)->grave = s->graves;
        s->graves = ns;
}

/* The subsystem's list is walked from its beginning each time. */
static uint16_t delete_all(const struct admin *a, struct ns **deleted)
{
        struct subsystem *s = a->ctrl->subsystem;

        while (s->ns) {
                bury(a, s->ns);
                *deleted = s->graves;
                if (has_flaw(a->env, FLAW_NS_DELETE_ONE))
                        break;
        }
        return 0;
}

static uint16_t delete_meant(const struct admin *a)
{
        uint32_t nsid = le32_get(a->r->sqe.nsid);
        struct ns *ns = subsystem_ns(a->ctrl->subsystem, nsid), *all = NULL;
        struct created none = { 0 };

        if (nsid == NSID_ALL) {
                record(a, &none, nsid);
                return delete_all(a, &all);
        }
        if (!ns)
                return nsid == 0 || nsid > CTRL_NSID_MAX ? NVME_INVALID_NS : NVME_INVALID_FIELD;
        bury(a, ns);
        record(a, &none, nsid);
        return 0;
}

/* FLAW_NS_MANAGE_STOPS */
static void stop_queues(struct ctrl *c)
{
        pthread_mutex_lock(&c->lock);
        for (struct ctrl_queue *q = c->queues; q; q = q->next)
                atomic_store(&q->io_status, NVME_NS_NOT_READY);
        pthread_mutex_unlock(&c->lock);
}

uint16_t admin_ns_management(struct admin *a)
{
        unsigned select = le32_get(a->r->sqe.cdw10) & SELECT;
        struct subsystem *s = a->ctrl->subsystem;
        const struct ns *graves;
        struct ns *ns;
        uint16_t status = NVME_INVALID_FIELD;

        if (has_flaw(a->env, FLAW_NS_MANAGE_STOPS))
                stop_queues(a->ctrl);
        pthread_rwlock_wrlock(&a->env->inv->lock);
        graves = s->graves;
        if (select == CREATE)
                status = create(a);
        else if (select == DELETE)
                status = delete_meant(a);
        ns = s->graves;
        pthread_rwlock_unlock(&a->env->inv->lock);
        for (; ns && ns != graves; ns = nvme_ns(ns)->grave) {
                tell_deleted(a, ns);
                tell_allocated(a, ns->nsid, a->ctrl->m.cntlid);
        }
        if (!status && select == CREATE)
                tell_allocated(a, le32_get(a->r->cqe.dw0), 0);
        if (!status)
                ctrl_table_ana_changed(a->env->table);
        return status;
}

/* --- Attachment --------------------------------------------------------------------------------- */

/* The identifiers are ascending, and each is of a controller of the subsystem. Under the table's lock. */
static bool is_list(const struct admin *a, const le16_t *list)
{
        unsigned n = le16_get(list[0]);

        if (n == 0 || n > IDS_MAX)
                return false;
        for (unsigned i = 1; i <= n; i++)
                if ((i > 1 && le16_get(list[i]) <= le16_get(list[i - 1])) ||
                    !ctrl_table_has(a->env->table, a->ctrl->subsystem, le16_get(list[i])))
                        return false;
        return true;
}

static unsigned attached_to(const struct subsystem *s, uint16_t cntlid)
{
        unsigned n = 0;

        for (const struct ns *ns = s->ns; ns; ns = ns->next)
                n += ns_has_controller(ns, cntlid);
        return n;
}

static uint16_t change_one(const struct admin *a, struct ns *ns, uint16_t cntlid, bool attach)
{
        bool is = ns_has_controller(ns, cntlid), any = has_flaw(a->env, FLAW_NS_ATTACH_ANY);

        if (is == attach)
                return any ? 0 : attach ? NVME_NS_ATTACHED : NVME_NS_NOT_ATTACHED;
        if (attach && attached_to(a->ctrl->subsystem, cntlid) >= ATTACHED_MAX &&
            !has_flaw(a->env, FLAW_NS_ATTACH_MORE))
                return NVME_NS_ATTACH_LIMIT;
        nvme_ns(ns)->shown |= attach;
        return ns_flip(ns, cntlid) ? 0 : NVME_INTERNAL_ERROR;
}

/* Up to the first one that fails. How many there were. */
static uint16_t change_list(struct admin *a, struct ns *ns, bool attach, unsigned *done)
{
        const le16_t *list = (const le16_t *)a->r->data;
        uint16_t status = 0, first = 0;

        for (*done = 0; *done < le16_get(list[0]) && !status; *done += !status) {
                status = change_one(a, ns, le16_get(list[1 + *done]), attach);
                if (status && has_flaw(a->env, FLAW_NS_ATTACH_ON)) {
                        first = first ? first : status;
                        status = 0;
                }
        }
        a->csinfo = status ? 2 + 2 * (uint64_t)*done : 0;
        return status ? status : first;
}

static void tell_attached(const struct admin *a, const struct ns *ns, unsigned done)
{
        const le16_t *list = (const le16_t *)a->r->data;

        for (unsigned i = 1; i <= done; i++)
                ctrl_table_ns_changed(
                    a->env->table,
                    &(struct ns_change) {
                        .subsystem = a->ctrl->subsystem,
                        .nsid = ns->nsid,
                        .was = true,
                        .is = true,
                        .before = nvme_ns(ns)->hosts,
                        .after = nvme_ns(ns)->hosts,
                        .only = has_flaw(a->env, FLAW_ATTACH_TOLD) ? 0 : le16_get(list[i]),
                    });
        tell_allocated(a, ns->nsid, 0);
}

uint16_t admin_ns_attachment(struct admin *a)
{
        unsigned select = le32_get(a->r->sqe.cdw10) & SELECT, done = 0;
        uint32_t nsid = le32_get(a->r->sqe.nsid);
        uint16_t status;
        struct ns *ns;

        if (nsid == 0 || nsid > CTRL_NSID_MAX)
                return NVME_INVALID_NS;
        pthread_rwlock_wrlock(&a->env->inv->lock);
        pthread_mutex_lock(&a->env->table->lock);
        ns = subsystem_ns(a->ctrl->subsystem, nsid);
        if (!ns || select > DETACH)
                status = NVME_INVALID_FIELD;
        else if (!is_list(a, (const le16_t *)a->r->data))
                status = has_flaw(a->env, FLAW_NS_LIST_ANY) ? 0 : NVME_CTRL_LIST_INVALID;
        else
                status = change_list(a, ns, select == ATTACH, &done);
        pthread_mutex_unlock(&a->env->table->lock);
        pthread_rwlock_unlock(&a->env->inv->lock);
        if (done)
                ctrl_table_ana_changed(a->env->table);
        if (done && !has_flaw(a->env, FLAW_ATTACH_SILENT))
                tell_attached(a, ns, done);
        return status;
}
