/* SPDX-License-Identifier: BSD-3-Clause */
/* Format NVM (Base 2.2 5.1.10), of subsystems whose hosts may do what they like with them as a whole. A
 * namespace keeps its format: what it may be asked for is to be empty. Where there are extended formats, one more is
 * listed, with a storage tag: nothing can be formatted to that (N1.2 4.1.2). */
#include <string.h>

#include "admin.h"

enum {
        ERASE_DATA = 1,
        METADATA_APART = 1 << 4, /* MSET */
        LBAFEE = 2,              /* byte of Host Behavior Support */
        ERROR = 1,               /* FNVMS of the completion event */
};

struct format {
        uint32_t nsid, dw10;
        unsigned index, pi, erase;
        bool extended; /* the host has enabled extended formats */
};

static struct format format_of(const struct admin *a)
{
        uint32_t dw10 = le32_get(a->r->sqe.cdw10);
        bool extended = a->ctrl->settings.host_behavior[LBAFEE] == 1;
        unsigned upper = extended || has_flaw(a->env, FLAW_FORMAT_UPPER) ? dw10 >> 12 & 3 : 0;

        return (struct format) { .nsid = le32_get(a->r->sqe.nsid),
                                 .dw10 = dw10,
                                 .index = upper << 4 | (dw10 & 15),
                                 .pi = dw10 >> 5 & 7,
                                 .erase = dw10 >> 9 & 7,
                                 .extended = extended };
}

static bool is_meant(const struct admin *a, const struct format *f, const struct ns *ns)
{
        if (f->nsid == NSID_ALL)
                return !has_flaw(a->env, FLAW_FORMAT_ONE) || ns == ctrl_ns(a->ctrl, 1);
        return f->nsid == ns->nsid || has_flaw(a->env, FLAW_FORMAT_ALL);
}

static uint16_t check_namespace(const struct admin *a, const struct format *f, const struct ns *ns)
{
        const struct pi_format of = ns_pi(ns);
        bool apart = f->dw10 & METADATA_APART;

        if (atomic_load(&ns->protection) && !has_flaw(a->env, FLAW_FORMAT_PROTECTED))
                return NVME_WRITE_PROTECTED;
        if (pi_is_extended(&of) && f->nsid != NSID_ALL && !f->extended &&
            !violates(a->env, FORMAT_EXTENDED))
                return NVME_INVALID_NS;
        if (f->index > 0)
                return NVME_SUCCESS; /* a rule is violated */
        if (apart && !ns->ms && violates(a->env, FORMAT_MSET))
                return NVME_INVALID_FORMAT;
        return f->pi != ns->pi ? NVME_INVALID_FORMAT : NVME_SUCCESS;
}

/* Where several things are wrong with it, the command's own fields come first. */
static uint16_t check(const struct admin *a, const struct format *f)
{
        uint16_t status = NVME_SUCCESS;

        if (f->nsid == 0 || (f->erase > ERASE_DATA && !has_flaw(a->env, FLAW_FORMAT_ANY)))
                return NVME_INVALID_FIELD;
        if (f->nsid == NSID_ALL && !ctrl_first_ns(a->ctrl) && has_flaw(a->env, FLAW_FORMAT_NONE))
                return NVME_INVALID_NS;
        if (f->nsid != NSID_ALL && f->nsid > CTRL_NSID_MAX)
                return NVME_INVALID_NS;
        if (f->nsid != NSID_ALL && !ctrl_ns(a->ctrl, f->nsid))
                return NVME_INVALID_FIELD;
        if (f->index == EXTENDED_FORMAT && subsystem_is_extended(a->ctrl->subsystem)) {
                if (!violates(a->env, f->extended ? FORMAT_STORAGE_TAG : FORMAT_EXTENDED))
                        return NVME_INVALID_NS;
        } else if (f->index > 0 && !has_flaw(a->env, FLAW_FORMAT_ANY)) {
                return NVME_INVALID_FORMAT;
        }
        if (violates(a->env, FORMAT_INDEX))
                return NVME_INVALID_FORMAT;
        for (struct ns *ns = ctrl_first_ns(a->ctrl); ns && !status; ns = ctrl_next_ns(a->ctrl, ns))
                if (is_meant(a, f, ns))
                        status = check_namespace(a, f, ns);
        return status;
}

static uint16_t format(const struct admin *a, const struct format *f)
{
        uint16_t status = NVME_SUCCESS;

        for (struct ns *ns = ctrl_first_ns(a->ctrl); ns && !status;
             ns = ctrl_next_ns(a->ctrl, ns)) {
                uint64_t blocks = atomic_load(&ns->blocks);

                if (has_flaw(a->env, FLAW_FORMAT_KEEPS))
                        blocks /= 2;
                if (is_meant(a, f, ns))
                        status = ns_status(ns_zero(ns, 0, blocks, true));
        }
        return status;
}

/* Start and completion, each of 12 bytes. */
static void record(const struct admin *a, const struct format *f, uint8_t type, uint16_t status)
{
        struct ctrl *c = a->ctrl;
        struct pel_from from = { c->m.cntlid, c->port_id, settings_stamp(c, a->now) };
        uint8_t data[12] = { 0 };

        if (has_flaw(a->env, FLAW_PEL_NO_FORMAT))
                return;
        le_put(data, 4, f->nsid);
        if (type == PEL_FORMAT_START) {
                le_put(data + 8, 4, f->dw10);
        } else {
                data[5] = status ? ERROR : 0;
                le_put(data + 8, 2,
                       (unsigned)status << 1 |
                           (has_flaw(a->env, FLAW_PEL_FORMAT_STATUS) ? 2u : 0u));
        }
        pel_add(&c->subsystem->pel, type, &from, data, sizeof(data));
}

uint16_t admin_format(struct admin *a)
{
        struct format f = format_of(a);
        uint16_t status = check(a, &f);

        if (!status && a->ctrl->asked_lba_status && has_flaw(a->env, FLAW_FORMAT_BUSY))
                status = NVME_INTERNAL_ERROR;
        if (status)
                return status;
        record(a, &f, PEL_FORMAT_START, 0);
        status = format(a, &f);
        atomic_fetch_add(&a->ctrl->subsystem->formats, 1);
        record(a, &f, PEL_FORMAT_END, status);
        for (struct ns *ns = ctrl_first_ns(a->ctrl); ns; ns = ctrl_next_ns(a->ctrl, ns))
                atomic_store(&nvme_ns(ns)->upset, has_flaw(a->env, FLAW_FORMAT_UPSETS));
        return status;
}
