/* SPDX-License-Identifier: BSD-3-Clause */
/* Reservations on the I/O path (Base 2.2 7.5 to 7.8, 8.1.22; NVM Command Set 1.2 5.9). */
#include <stdlib.h>
#include <string.h>

#include "nvm.h"

/* --- which commands conflict: figure 647 and figure 178 of the NVM command set ------------------ */

enum { READS = 1, WRITES = 2 };

static const uint8_t groups[] = {
        [NVME_FLUSH] = WRITES,        [NVME_WRITE] = WRITES,
        [NVME_READ] = READS,          [NVME_WRITE_UNCORRECTABLE] = WRITES,
        [NVME_COMPARE] = READS,       [NVME_WRITE_ZEROES] = WRITES,
        [NVME_DSM] = WRITES,          [NVME_VERIFY] = READS,
        [NVME_COPY] = READS | WRITES, /* within one namespace: source and destination */
};

static unsigned group_of(const struct nvm_queue *q, uint8_t opc)
{
        unsigned group = opc < sizeof(groups) ? groups[opc] : 0;

        if ((opc == NVME_FLUSH && nvm_has_flaw(q, FLAW_RESERVATION_FLUSH)) ||
            (opc == NVME_DSM && nvm_has_flaw(q, FLAW_RESERVATION_DSM)) ||
            (opc == NVME_COMPARE && nvm_has_flaw(q, FLAW_RESERVATION_COMPARE)))
                return 0;
        return opc == NVME_COPY && nvm_has_flaw(q, FLAW_RESERVATION_COPY) ? READS : group;
}

static bool conflicts(const struct nvm_queue *q, struct ns *ns, unsigned group)
{
        return (group & READS && !ns_resv_allows(ns, q->hostid, false, q->policy)) ||
               (group & WRITES && !ns_resv_allows(ns, q->hostid, true, q->policy));
}

uint16_t nvm_reservation_check(const struct nvm_queue *q, const struct subsystem *s, struct ns *ns,
                               const struct request *r)
{
        unsigned group = group_of(q, r->sqe.opc);
        bool all = le32_get(r->sqe.nsid) == NSID_ALL && !nvm_has_flaw(q, FLAW_RESERVATION_ALL);
        bool bad = ns && conflicts(q, ns, group);

        for (struct ns *each = all ? ns_attached_from(s->ns, q->hostnqn, q->cntlid) : NULL;
             each && !bad; each = ns_attached_from(each->next, q->hostnqn, q->cntlid))
                bad = conflicts(q, each, group);
        return bad ? NVME_RESERVATION_CONFLICT : NVME_SUCCESS;
}

/* --- the commands ------------------------------------------------------------------------------- */

static uint16_t transfer(const struct nvm_queue *q, struct request *r, uint32_t len)
{
        r->lax = nvm_has_flaw(q, FLAW_SGL_SHORT_KEYS);
        r->xfer = sqe_xfer(&r->sqe);
        r->len = len;
        return NVME_SUCCESS;
}

static uint16_t admit_report(const struct nvm_queue *q, struct request *r)
{
        uint64_t bytes = ((uint64_t)le32_get(r->sqe.cdw10) + 1) * 4;

        if (!(le32_get(r->sqe.cdw11) & REPORT_EXTENDED) && !nvm_has_flaw(q, FLAW_RESERVATION_EDS))
                return NVME_HOSTID_INCONSISTENT; /* Fabrics has Host Identifiers of 128 bits */
        return bytes > UINT32_MAX ? NVME_INVALID_FIELD : transfer(q, r, (uint32_t)bytes);
}

/* Without a name a host cannot be told from others: CTRATT.RHII. */
static bool is_nameless(const struct nvm_queue *q)
{
        static const uint8_t zero[16];

        return memcmp(q->hostid, zero, sizeof(zero)) == 0 && !nvm_violates(q, RESV_NAMELESS);
}

uint16_t nvm_reservation_admit(const struct nvm_queue *q, const struct ns *ns, struct request *r)
{
        if (!ns_resv_supported(ns))
                return nvm_violates(q, RESV_REFUSED) ? NVME_INVALID_FIELD : NVME_INVALID_OPCODE;
        if (is_nameless(q))
                return NVME_HOSTID_NOT_SET;
        switch (r->sqe.opc) {
        case NVME_RESERVATION_REPORT:
                return admit_report(q, r);
        case NVME_RESERVATION_RELEASE:
                return transfer(q, r, sizeof(le64_t));
        default:
                return transfer(q, r, sizeof(struct reservation_keys));
        }
}

static void finish(struct nvm_queue *q, struct request *r, uint16_t status, uint32_t c2h)
{
        bool final = status && status != NVME_INTERNAL_ERROR;

        r->cqe.sf = status_field(final ? status | STATUS_DNR : status);
        r->c2h_len = c2h;
        q->ops->done(q, r);
}

static void spoil_report(const struct nvm_queue *q, uint8_t *data, uint32_t len)
{
        struct reservation_status *s = (struct reservation_status *)data;
        struct reservation_entry_extended *e =
            (struct reservation_entry_extended *)(data + REPORT_HEADER);

        if (len >= REPORT_HEADER && nvm_violates(q, RESV_RESERVED))
                data[REPORT_HEADER - 1] = 1;
        if (len >= sizeof(*s) && nvm_has_flaw(q, FLAW_RESERVATION_COUNT))
                s->registrants = le16((uint16_t)(le16_get(s->registrants) + 1));
        if (len >= REPORT_HEADER + sizeof(*e) && nvm_has_flaw(q, FLAW_RESERVATION_STATUS))
                e->rcsts ^= RCSTS_HOLDER;
        if (len >= REPORT_HEADER + sizeof(*e) && nvm_has_flaw(q, FLAW_RESERVATION_CNTLID))
                e->cntlid = le16(0);
}

static void run_report(struct nvm_queue *q, struct ns *ns, struct request *r)
{
        bool extended = le32_get(r->sqe.cdw11) & REPORT_EXTENDED;
        struct reservation *state = ns_resv_copy(ns);
        uint32_t n;

        if (!state) {
                finish(q, r, NVME_INTERNAL_ERROR, 0);
                return;
        }
        memset(r->data, 0, r->len);
        n = reservation_report(state, extended, r->data, r->len, q->ops->cntlid, q);
        free(state);
        if (n > r->len || nvm_has_flaw(q, FLAW_RESERVATION_PADDED))
                n = r->len;
        if (extended)
                spoil_report(q, r->data, n);
        finish(q, r, NVME_SUCCESS, n);
}

static struct reservation_cmd cmd_of(const struct nvm_queue *q, const struct request *r)
{
        struct reservation_cmd c = {
                .opc = r->sqe.opc,
                .cdw10 = le32_get(r->sqe.cdw10),
                .crkey = le_get(r->data, 8),
                .key = r->len < sizeof(struct reservation_keys) ? 0 : le_get(r->data + 8, 8),
                .policy = q->policy,
        };

        memcpy(c.hostid, q->hostid, sizeof(c.hostid));
        return c;
}

/* A command that changes the state: its r->user. */
struct changing {
        struct ns_resv_change change;
        struct reservation_cmd cmd;
        struct nvm_queue *q;
        struct request *r;
        struct ns *ns;
};

static void on_changed(struct ns_resv_change *c)
{
        const struct changing *w = (struct changing *)c;

        w->q->ops->post(w->q, w->r);
}

void nvm_reservation_resume(struct nvm_queue *q, struct request *r)
{
        struct changing *w = r->user;
        struct ns_resv_notices *n = w->change.notices;
        uint16_t status = w->change.status;

        r->user = NULL;
        if (n)
                q->ops->notify(q, w->ns, n);
        r->cqe.sf = status_field(NVME_SUCCESS);
        r->c2h_len = 0;
        if (status || !n || !reservation_aborts(&w->cmd) ||
            nvm_has_flaw(q, FLAW_RESERVATION_ABORT) || !q->ops->preempt(q, w->ns, n, r))
                finish(q, r, status, 0);
        ns_put(w->ns);
        free(n);
        free(w);
}

void nvm_reservation_execute(struct nvm_queue *q, struct ns *ns, struct request *r)
{
        struct changing *w;

        if (r->sqe.opc == NVME_RESERVATION_REPORT) {
                run_report(q, ns, r);
                return;
        }
        w = malloc(sizeof(*w));
        if (!w) {
                finish(q, r, NVME_INTERNAL_ERROR, 0);
                return;
        }
        *w = (struct changing) { .cmd = cmd_of(q, r), .q = q, .r = r, .ns = ns };
        w->change = (struct ns_resv_change) { .cmd = &w->cmd, .done = on_changed };
        atomic_fetch_add(&ns->refs, 1);
        r->user = w;
        if (ns_resv_apply(ns, &w->change))
                nvm_reservation_resume(q, r);
}
