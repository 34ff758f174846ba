/* SPDX-License-Identifier: BSD-3-Clause */
/* Admin and Fabrics commands: what each transfers, who executes it, how it ends. */
#include "admin.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/core/plant.h"

enum { RESETS = 1024 }; /* controllers that an event about a reset names at most */

/* --- admission -------------------------------------------------------------------------------- */

static uint16_t transfer(struct request *r, enum nvme_xfer xfer, uint32_t len)
{
        r->xfer = xfer;
        r->len = len;
        return 0;
}

static uint16_t transfer_log(const struct ctrl_env *env, struct request *r)
{
        uint32_t numdl = le32_get(r->sqe.cdw10) >> 16, numdu = le32_get(r->sqe.cdw11) & 0xffff;
        uint64_t len = ((uint64_t)(numdu << 16 | numdl) + 1) * 4;

        if (pel_action(&r->sqe) == PEL_RELEASE) /* it returns no data (B2.2 figure 226) */
                return transfer(r, XFER_NONE, 0);
        if (pel_action(&r->sqe) == PEL_HEADER && !flawed(env->policy, FLAW_PEL_SHORT_HEADER))
                len = LOG_PEL_HEADER; /* whatever was asked for */
        if (len > env->limits->max_transfer)
                return NVME_INVALID_FIELD;
        r->lax = flawed(env->policy, FLAW_SGL_SHORT);
        return transfer(r, XFER_C2H, (uint32_t)len);
}

static uint16_t transfer_lba_status(const struct ctrl_env *env, struct request *r)
{
        uint64_t len = ((uint64_t)le32_get(r->sqe.cdw12) + 1) * 4;

        if (len > env->limits->max_transfer)
                return NVME_INVALID_FIELD;
        return transfer(r, XFER_C2H, (uint32_t)len);
}

/* With the rule waived the bytes that are missing are zeroes. */
static uint16_t transfer_connect(const struct ctrl_env *env, struct request *r)
{
        uint32_t len = le32_get(r->sqe.sgl.len);

        if (len >= CONNECT_DATA_LEN)
                return transfer(r, XFER_H2C, CONNECT_DATA_LEN);
        transfer(r, XFER_H2C, len);
        return rule_refuse(env->policy, FAB_CONNECT_DATA);
}

static uint32_t identify_len(const struct request *r)
{
        if (PLANTED(IDENTIFY_SHORT) && le32_get(r->sqe.sgl.len) < IDENTIFY_LEN)
                return le32_get(r->sqe.sgl.len);
        return IDENTIFY_LEN;
}

static uint16_t transfer_feature(const struct ctrl_env *env, struct request *r)
{
        uint16_t status = features_transfer(r);

        r->lax = flawed(env->policy, FLAW_SGL_SHORT);
        if (!status && r->len == 0 && le32_get(r->sqe.sgl.len) &&
            flawed(env->policy, FLAW_FEATURE_DPTR))
                return NVME_SGL_LENGTH;
        return status;
}

static uint16_t admin_transfer(const struct ctrl_env *env, struct request *r)
{
        switch (r->sqe.opc) {
        case NVME_FABRICS:
                return r->sqe.fctype == FCTYPE_CONNECT ? transfer_connect(env, r)
                                                       : transfer(r, XFER_NONE, 0);
        case NVME_IDENTIFY:
                return transfer(r, XFER_C2H, identify_len(r));
        case NVME_GET_LOG_PAGE:
                return transfer_log(env, r);
        case NVME_GET_LBA_STATUS:
                return transfer_lba_status(env, r);
        case NVME_NS_MANAGEMENT: /* Create alone has data */
                return le32_get(r->sqe.cdw10) & 15 ? transfer(r, XFER_NONE, 0)
                                                   : transfer(r, XFER_H2C, IDENTIFY_LEN);
        case NVME_NS_ATTACHMENT:
                return transfer(r, XFER_H2C, IDENTIFY_LEN);
        case NVME_SET_FEATURES:
        case NVME_GET_FEATURES:
                return transfer_feature(env, r);
        default:
                return transfer(r, XFER_NONE, 0);
        }
}

/* Before Connect: with FAB_FIRST_CONNECT waived everything succeeds, and does nothing. */
static uint16_t admit_stranger(const struct ctrl_env *env, const struct request *r)
{
        uint16_t status = controller_admit(NULL, 0, false, &r->sqe);

        return status ? rule_refuse(env->policy, FAB_FIRST_CONNECT) : 0;
}

/* Of a host that may be here. */
static uint16_t admit_known(struct ctrl_queue *q, const struct request *r)
{
        struct ctrl *c = q->ctrl;
        uint16_t status = auth_required(c, q);

        if (!status)
                status = controller_admit(&c->m, q->qid, true, &r->sqe);
        if (!status)
                status = lockdown_bars(c, r->sqe.opc);
        return !status && sanitize_bars(c, &r->sqe) ? NVME_SANITIZING : status;
}

static uint16_t admit(struct ctrl_queue *q, const struct request *r, uint64_t now)
{
        struct ctrl *c = q->ctrl;
        uint16_t status;

        if (c->ended || q->disconnecting)
                return NVME_SEQUENCE_ERROR;
        if (auth_concerns(c, &r->sqe))
                return 0;
        status = admit_known(q, r);
        if (ctrl_is_traffic(q, status))
                controller_traffic(&c->m, r->sqe.opc == NVME_FABRICS, now);
        return status;
}

/* What the command ends with: there is more about a failure in the error log, except of a Connect,
 * which leaves no trace there (Base 2.2 2.2). */
static uint16_t log_failure(struct ctrl *c, const struct ctrl_queue *q, const struct request *r,
                            uint16_t status)
{
        if (!status || sqe_is_connect(&r->sqe))
                return status;
        status |= STATUS_MORE;
        ctrl_add_error(c, q->qid, &r->sqe, status);
        return status;
}

uint16_t with_dnr(uint16_t status)
{
        switch (status) {
        case NVME_SUCCESS:
        case NVME_SEQUENCE_ERROR:
        case NVME_ABORT_REQUESTED:
        case NVME_ABORT_SQ_DELETED:
        case NVME_INVALID_QID:
        case NVME_AER_LIMIT:
        case NVME_CONNECT_BUSY:
        case NVME_INTERNAL_ERROR:
        case NVME_ANA_LOSS: /* by another path it may succeed */
        case NVME_ANA_INACCESSIBLE:
        case NVME_ANA_TRANSITION:
                return status;
        default:
                return status | STATUS_DNR;
        }
}

uint16_t ctrl_admit(const struct ctrl_env *env, struct ctrl_queue *q, struct request *r,
                    uint64_t now)
{
        struct ctrl *c = q->ctrl;
        uint16_t status;

        if (c) {
                pthread_mutex_lock(&c->lock);
                status = log_failure(c, q, r, with_dnr(admit(q, r, now)));
                pthread_mutex_unlock(&c->lock);
        } else {
                status = with_dnr(admit_stranger(env, r));
        }
        if (status)
                return status;
        return with_dnr(c && auth_concerns(c, &r->sqe) ? auth_transfer(env, r)
                                                       : admin_transfer(env, r));
}

/* --- Fabrics commands ------------------------------------------------------------------------- */

static uint16_t property_get(struct admin *a)
{
        pthread_mutex_lock(&a->ctrl->lock);
        controller_property_get(&a->ctrl->m, &a->r->sqe.property, &a->r->cqe, a->now);
        pthread_mutex_unlock(&a->ctrl->lock);
        return cqe_status(&a->r->cqe);
}

/* Ends the command after those that were handed to q->complete() before it. */
static void answer_later(struct admin *a, uint16_t status)
{
        a->r->cqe.sf = status_field(with_dnr(status));
        a->verdict = CTRL_PARKED;
        a->queue->complete(a->queue, a->r);
}

static bool has_disk(const struct subsystem *s)
{
        struct ns *ns = s ? s->ns : NULL;

        while (ns && !ns_waits(ns, true))
                ns = ns->next;
        return ns;
}

/* It asks for a shutdown, and something has a disk behind it. */
static bool needs_flush(const struct admin *a)
{
        return le32_get(a->r->sqe.property.ofst) == PROP_CC && CC_SHN(a->ctrl->m.cc) &&
               !(a->ctrl->m.csts & CSTS_ST) && has_disk(a->ctrl->subsystem);
}

/* NSSR, NSSD. What was written is on stable storage before the shutdown is complete. */
static void fulfil(struct admin *a, enum controller_wish wish)
{
        struct subsystem *s = a->ctrl->subsystem;
        bool normal = wish == WISH_SHUTDOWN;

        if (wish == WISH_RESET) {
                ctrl_table_reset(a->env->table, s, a->ctrl);
        } else if (wish != WISH_NONE && !atomic_load(&s->shut_down)) {
                ctrl_table_shut_down(a->env->table, s, normal, false);
                if (has_disk(s))
                        a->verdict = CTRL_FLUSH;
                else
                        ctrl_table_shut_down(a->env->table, s, normal, true);
        }
}

/* Whether it is a Controller Reset, if it is executed. */
static bool is_reset(const struct admin *a)
{
        return a->ctrl->subsystem && le32_get(a->r->sqe.property.ofst) == PROP_CC &&
               a->ctrl->m.cc & CC_EN && !(le64_get(a->r->sqe.property.value) & CC_EN);
}

/* Which controllers there were when it came, in an event of the Persistent Event log. */
struct reset_event {
        char firmware[8];
        struct pel_reset list[RESETS];
};

static void record_reset(struct admin *a, struct reset_event *e, unsigned n)
{
        struct ctrl *c = a->ctrl;
        struct pel_from from = { c->m.cntlid, c->port_id, settings_stamp(c, a->now) };

        if (!a->queue->reset || !e || has_flaw(a->env, FLAW_PEL_NO_RESET))
                return;
        text_pad(e->firmware, sizeof(e->firmware), c->subsystem->firmware);
        pel_add(&c->subsystem->pel, PEL_RESET, &from, e,
                sizeof(e->firmware) + n * sizeof(e->list[0]));
}

static uint16_t property_set(struct admin *a)
{
        struct reset_event *event = is_reset(a) ? malloc(sizeof(*event)) : NULL;
        unsigned n = event ? ctrl_table_resets(a->env->table, a->ctrl->subsystem, a->now,
                                               event->list, RESETS)
                           : 0;
        enum controller_wish wish;
        uint16_t status;

        pthread_mutex_lock(&a->ctrl->lock);
        bool dropped = ctrl_set_property(a->queue, a->r, a->now);
        wish = a->ctrl->m.wish;
        a->ctrl->m.wish = WISH_NONE;
        record_reset(a, event, n);
        free(event);
        status = cqe_status(&a->r->cqe);
        if (!status && needs_flush(a)) {
                controller_shutdown_begin(&a->ctrl->m);
                a->verdict = CTRL_FLUSH;
        } else if (dropped) {
                answer_later(a, status);
        }
        pthread_mutex_unlock(&a->ctrl->lock);
        fulfil(a, wish);
        return status;
}

/* The connection ends what came before; nothing comes after. */
static uint16_t fabrics_disconnect(struct admin *a)
{
        if (a->queue->qid == 0) /* FAB_DISCONNECT_ADMIN waived */
                return 0;
        if (PLANTED(AFTER_DISCONNECT)) {
                ctrl_queue_gone(a->queue);
                return 0;
        }
        pthread_mutex_lock(&a->ctrl->lock);
        for (struct ctrl_queue *q = a->ctrl->queues; q; q = q->next)
                if (q->qid > 0 && q != a->queue && has_flaw(a->env, FLAW_DISCONNECT_OTHERS)) {
                        q->detached = true;
                        q->close(q);
                }
        ctrl_leave_queue(a->queue);
        pthread_mutex_unlock(&a->ctrl->lock);
        a->verdict = CTRL_DISCONNECT;
        return 0;
}

/* --- admin commands --------------------------------------------------------------------------- */

static uint16_t keep_alive(struct admin *a)
{
        pthread_mutex_lock(&a->ctrl->lock);
        controller_keep_alive(&a->ctrl->m, &a->r->cqe, a->now);
        pthread_mutex_unlock(&a->ctrl->lock);
        return cqe_status(&a->r->cqe);
}

/* Parked; the events that have waited for it complete it at once. */
static uint16_t async_event(struct admin *a)
{
        struct ctrl *c = a->ctrl;
        uint16_t status;

        pthread_mutex_lock(&c->lock);
        status = controller_aer(&c->m, le16_get(a->r->sqe.cid), a->r);
        if (!status) {
                a->verdict = CTRL_PARKED;
                ctrl_send_events(c);
        }
        pthread_mutex_unlock(&c->lock);
        return status;
}

/* An Asynchronous Event Request that Abort may end by mistake: not the one with this CID. */
static struct request *take_other(struct controller *m, uint16_t cid)
{
        for (unsigned i = 0; i < m->aers; i++)
                if (m->aer[i].cid != cid)
                        return controller_aer_take(m, m->aer[i].cid);
        return NULL;
}

static void abort_request(struct admin *a, struct request *r)
{
        uint16_t status = has_flaw(a->env, FLAW_ABORT_STATUS) ? 0 : NVME_ABORT_REQUESTED;

        r->cqe = (struct cqe) { .sf = status_field(status) };
        a->queue->complete(a->queue, r);
}

/* Only what is parked can be caught: the rest is executed as it comes. Its CQE is posted before the one
 * of Abort: of what has no effects any more either order will do (5.1.1), but hosts may not know. */
static uint16_t admin_abort(struct admin *a)
{
        uint32_t dw10 = le32_get(a->r->sqe.cdw10);
        struct ctrl *c = a->ctrl;
        struct request *r = NULL;

        pthread_mutex_lock(&c->lock);
        if ((dw10 & 0xffff) == 0 && has_flaw(a->env, FLAW_ABORT_OTHER))
                r = take_other(&c->m, (uint16_t)(dw10 >> 16));
        else if ((dw10 & 0xffff) == 0 && !has_flaw(a->env, FLAW_ABORT_LIES))
                r = controller_aer_take(&c->m, dw10 >> 16);
        if (r && PLANTED(ABORT_TWICE))
                controller_aer(&c->m, (uint16_t)(dw10 >> 16), r);
        if (r) {
                abort_request(a, r);
                while (has_flaw(a->env, FLAW_ABORT_ALL) &&
                       (r = controller_aer_take(&c->m, UINT32_MAX)))
                        abort_request(a, r);
                answer_later(a, 0);
        } else {
                a->r->cqe.dw0 =
                    le32(!has_flaw(a->env, FLAW_ABORT_FOUND) && !has_flaw(a->env, FLAW_ABORT_LIES));
        }
        pthread_mutex_unlock(&c->lock);
        return 0;
}

/* --- execution -------------------------------------------------------------------------------- */

typedef uint16_t handler(struct admin *a);

static handler *const admin_handlers[256] = {
        [NVME_GET_LOG_PAGE] = admin_get_log,
        [NVME_IDENTIFY] = admin_identify,
        [NVME_ABORT] = admin_abort,
        [NVME_SET_FEATURES] = admin_features,
        [NVME_GET_FEATURES] = admin_features,
        [NVME_AER] = async_event,
        [NVME_KEEP_ALIVE] = keep_alive,
        [NVME_FORMAT] = admin_format,
        [NVME_SANITIZE] = admin_sanitize,
        [NVME_NS_MANAGEMENT] = admin_ns_management,
        [NVME_LOCKDOWN] = admin_lockdown,
        [NVME_NS_ATTACHMENT] = admin_ns_attachment,
        [NVME_GET_LBA_STATUS] = admin_lba_status,
};

static handler *const fabrics_handlers[256] = {
        [FCTYPE_PROPERTY_SET] = property_set,
        [FCTYPE_CONNECT] = admin_connect,
        [FCTYPE_PROPERTY_GET] = property_get,
        [FCTYPE_DISCONNECT] = fabrics_disconnect,
};

/* What it does is done to a subsystem, which a discovery controller is not part of. */
static bool is_of_subsystem(uint8_t opc)
{
        switch (opc) {
        case NVME_NS_MANAGEMENT:
        case NVME_NS_ATTACHMENT:
        case NVME_LOCKDOWN:
        case NVME_FORMAT:
        case NVME_SANITIZE:
        case NVME_GET_LBA_STATUS:
                return true;
        default:
                return false;
        }
}

/* NULL: a rule is waived, and the command, whatever it is, succeeds without effect. */
static handler *handler_of(const struct admin *a)
{
        const union sqe *sqe = &a->r->sqe;

        if (!a->ctrl)
                return sqe_is_connect(sqe) ? admin_connect : NULL;
        if (auth_concerns(a->ctrl, sqe))
                return sqe->fctype == FCTYPE_AUTH_SEND ? admin_auth_send : admin_auth_receive;
        if (!a->ctrl->subsystem && is_of_subsystem(sqe->opc))
                return NULL;
        return sqe->opc == NVME_FABRICS ? fabrics_handlers[sqe->fctype] : admin_handlers[sqe->opc];
}

static struct log_error *ctrl_last_error(struct ctrl *c)
{
        return &c->errors[(c->error_count - 1) % ERROR_ENTRIES];
}

static uint16_t log_status(const struct admin *a, uint16_t status)
{
        if (!a->ctrl || !status)
                return status;
        pthread_mutex_lock(&a->ctrl->lock);
        status = log_failure(a->ctrl, a->queue, a->r, status);
        if (a->csinfo && !sqe_is_connect(&a->r->sqe))
                ctrl_last_error(a->ctrl)->csinfo =
                    le64(has_flaw(a->env, FLAW_ERROR_CSINFO) ? 0 : a->csinfo);
        pthread_mutex_unlock(&a->ctrl->lock);
        return status;
}

/* The Write Command Group of figure 647, as far as we have it. */
static bool is_write(uint8_t opc)
{
        return opc == NVME_FORMAT || opc == NVME_SANITIZE || opc == NVME_NS_MANAGEMENT ||
               opc == NVME_NS_ATTACHMENT;
}

/* What an active NSID names, or all that the command has an effect on. */
static bool is_meant(const struct admin *a, const struct ns *ns)
{
        const union sqe *sqe = &a->r->sqe;
        bool all = sqe->opc == NVME_SANITIZE || le32_get(sqe->nsid) == NSID_ALL;

        if (all && sqe->opc != NVME_FORMAT)
                return true;
        return (all || le32_get(sqe->nsid) == ns->nsid) && ctrl_ns(a->ctrl, ns->nsid) == ns;
}

/* Whether a reservation keeps the host off what it wants changed (B2.2 8.1.22). */
static bool conflicts(const struct admin *a)
{
        if (!is_write(a->r->sqe.opc) || !a->ctrl || !a->ctrl->subsystem ||
            has_flaw(a->env, FLAW_RESERVATION_FORMAT))
                return false;
        for (struct ns *ns = a->ctrl->subsystem->ns; ns; ns = ns->next)
                if (is_meant(a, ns) && !ns_resv_allows(ns, a->ctrl->m.hostid, true, a->env->policy))
                        return true;
        return false;
}

static uint16_t run(struct admin *a)
{
        handler *h = handler_of(a);

        if (h && conflicts(a))
                return NVME_RESERVATION_CONFLICT;
        if (h)
                return h(a);
        if (a->r->xfer == XFER_C2H)
                memset(a->r->data, 0, a->r->len);
        return 0;
}

static void end(struct admin *a, uint16_t status)
{
        a->r->cqe.sf = status_field(log_status(a, with_dnr(status)));
        if (status && has_flaw(a->env, FLAW_RETRY_DELAY))
                a->r->cqe.sf = le16((uint16_t)(le16_get(a->r->cqe.sf) | 1 << 12));
        if (!status && a->r->xfer == XFER_C2H)
                a->r->c2h_len = a->r->len;
}

enum ctrl_verdict ctrl_execute(const struct ctrl_env *env, struct ctrl_queue *q,
                               const struct port *port, struct request *r, uint64_t now)
{
        struct admin a = { env, q->ctrl, q, port, r, now, CTRL_COMPLETE, 0 };
        uint16_t status;

        r->cqe.result = le64(0);
        r->c2h_len = 0;
        status = run(&a);
        if (a.verdict != CTRL_PARKED) /* it may have been completed: not ours any more */
                end(&a, status);
        if (a.verdict != CTRL_PARKED && a.ctrl)
                features_protected(a.ctrl, r, a.verdict != CTRL_FLUSH);
        return a.verdict;
}

bool ctrl_waits(const struct ctrl_queue *q, const struct request *r)
{
        return r->user && (sqe_is_auth(&r->sqe) || (q->qid == 0 && features_persists(r)));
}

enum ctrl_verdict ctrl_resume(const struct ctrl_env *env, struct ctrl_queue *q, struct request *r,
                              uint64_t now)
{
        struct admin a = { env, q->ctrl, q, NULL, r, now, CTRL_COMPLETE, 0 };

        end(&a, sqe_is_auth(&r->sqe) ? admin_auth_done(&a) : features_persistent(&a));
        return a.verdict;
}

/* In the response to Connect FFFFh says that flow control is disabled; it is not a head. */
uint16_t ctrl_sqhd(struct ctrl_queue *q, const struct request *r)
{
        bool connected = sqe_is_connect(&r->sqe) && cqe_status(&r->cqe) == 0;

        sq_free(&q->sq);
        return connected && q->sq.no_flow_control ? SQHD_DISABLED : sq_head(&q->sq);
}
