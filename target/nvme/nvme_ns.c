/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvme_ns.h"

#include <stdlib.h>

#include "ns_hosts.h"
#include "ns_resv.h"
#include "pdu/nvme/wire/nvme.h"

/* --- what is kept ------------------------------------------------------------------------------ */

static void own_fini(void *own)
{
        struct nvme_ns *n = own;

        ns_hosts_free(n->hosts);
        free(n->lba_ranges);
        free(atomic_load(&n->flips));
}

static void resv_init(void *resv)
{
        ns_resv_init(resv);
}

static void resv_fini(void *resv)
{
        ns_resv_fini(resv);
}

static const char *resv_restore(void *resv, const char *path, bool device, char why[256])
{
        struct ns_resv *v = resv;

        v->unsupported = device;
        return device ? NULL : ns_resv_restore(v, path, why);
}

const struct ns_family nvme_ns_family = {
        .own_bytes = sizeof(struct nvme_ns),
        .own_fini = own_fini,
        .shared_bytes = sizeof(struct ns_resv),
        .shared_init = resv_init,
        .shared_fini = resv_fini,
        .shared_restore = resv_restore,
};

void ns_set_recovery(struct ns *ns, uint32_t value)
{
        atomic_store(&nvme_ns(ns)->recovery, value);
        atomic_store(&ns->deallocated_fails, value & RECOVERY_DULBE);
}

/* --- statuses ---------------------------------------------------------------------------------- */

uint16_t ns_status(enum ns_result result)
{
        static const uint16_t status[NS_RESULTS] = {
                [NS_DONE] = NVME_SUCCESS,
                [NS_BEYOND] = NVME_LBA_RANGE,
                [NS_DIFFERS] = NVME_COMPARE_FAILURE,
                [NS_READ_ERROR] = NVME_UNRECOVERED_READ,
                [NS_WRITE_ERROR] = NVME_WRITE_FAULT,
                [NS_DEALLOCATED] = NVME_DEALLOCATED,
                [NS_NO_SPACE] = NVME_CAPACITY_EXCEEDED,
                [NS_NO_MEMORY] = NVME_INTERNAL_ERROR,
                [NS_BUSY] = NVME_NS_NOT_READY,
                [NS_FIXED] = NVME_FEATURE_NOT_CHANGEABLE,
                [NS_GUARD_WRONG] = NVME_GUARD_CHECK,
                [NS_APP_WRONG] = NVME_APP_TAG_CHECK,
                [NS_STORAGE_WRONG] = NVME_STORAGE_TAG_CHECK,
                [NS_REF_WRONG] = NVME_REF_TAG_CHECK,
        };

        return result < NS_OWN ? status[result] : (uint16_t)(result - NS_OWN);
}

/* --- attachment to controllers ------------------------------------------------------------------ */

struct ns_flips {
        _Atomic uint64_t bits[(UINT16_MAX + 1) / 64]; /* by CNTLID */
};

bool ns_is_flipped(const struct ns *ns, uint16_t cntlid)
{
        const struct ns_flips *f = atomic_load_explicit(&nvme_ns(ns)->flips, memory_order_acquire);

        return f && atomic_load(&f->bits[cntlid / 64]) >> cntlid % 64 & 1;
}

bool ns_flip(struct ns *ns, uint16_t cntlid)
{
        struct ns_flips *f = atomic_load(&nvme_ns(ns)->flips);

        if (!f) {
                f = calloc(1, sizeof(*f));
                if (!f)
                        return false;
                atomic_store(&nvme_ns(ns)->flips, f);
        }
        atomic_fetch_xor(&f->bits[cntlid / 64], UINT64_C(1) << cntlid % 64);
        return true;
}
