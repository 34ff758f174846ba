/* SPDX-License-Identifier: BSD-3-Clause */
/* What a live host is answered: the captured answers, each for the command that got it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/engine/time.h"
#include "pdu/nvme/tcp/framer.h"
#include "pdu/nvme/wire/discovery.h"
#include "replay_server.h"

enum { /* SGLS of Identify Controller (Base 2.2 5.1.13.2.1) */
       SGLS_KEYED = 1 << 2,
       SGLS_OFFSET = 1 << 20,
       SGLS_TRANSPORT = 1 << 21,
       SGLS_OF_TRANSPORTS = SGLS_KEYED | SGLS_OFFSET | SGLS_TRANSPORT,
};

/* --- the captured answers --------------------------------------------------------------------- */

static bool is_discovery(const struct connect_data *d)
{
        return strncmp(d->subnqn, NQN_DISCOVERY, NQN_FIELD) == 0;
}

/* The association of the live admin queue that an I/O queue names: by CNTLID, newest first. */
static unsigned find_assoc(const struct serve_conn *c, uint16_t cntlid)
{
        const struct server *sv = c->server;

        for (unsigned n = sv->n_conns; n-- > 0;) {
                const struct serve_conn *admin = sv->conns[n];

                if (admin->qid == 0 && admin->connected && !admin->over &&
                    answers_is(sv->answers, admin->assoc, cntlid))
                        return admin->assoc;
        }
        return 0;
}

/* --- telling ---------------------------------------------------------------------------------- */

static void __attribute__((format(printf, 5, 6)))
report_served(const struct serve_conn *c, const union sqe *s, const struct plan_cmd *p,
              enum likeness l, const char *fmt, ...)
{
        struct served served = { .sqe = s, .qid = c->qid, .cmd = p, .verdict = { .likeness = l } };
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(served.verdict.why, sizeof(served.verdict.why), fmt, ap);
        va_end(ap);
        c->server->o->served(c->server->o->user, &served);
}

/* --- commands --------------------------------------------------------------------------------- */

static void set_status(struct request *r, uint16_t status)
{
        r->cqe.sf = status_field(status);
}

static void refuse(struct serve_conn *c, struct request *r, uint16_t status)
{
        set_status(r, status);
        report_served(c, &r->sqe, NULL, DIFFERENT, "not in the capture: %s", status_name(status));
}

static bool is_rdma(const struct serve_conn *c)
{
        return c->server->o->transport == HOST_RDMA;
}

/* A discovery log names the place where the capture is served, and how it is reached. */
static void map_entry(const struct serve_conn *c, struct disc_entry *e)
{
        const struct server *sv = c->server;
        uint8_t adrfam = strchr(sv->traddr, ':') ? ADRFAM_IPV6 : ADRFAM_IPV4;
        struct disc_entry live;

        if (is_rdma(c))
                disc_entry_rdma(&live, e->subtype, adrfam, sv->traddr, sv->port, "", sv->prtype);
        else
                disc_entry_tcp(&live, e->subtype, adrfam, sv->traddr, sv->port, "");
        e->trtype = live.trtype;
        e->adrfam = live.adrfam;
        memcpy(e->trsvcid, live.trsvcid, sizeof(e->trsvcid));
        memcpy(e->traddr, live.traddr, sizeof(e->traddr));
        memcpy(e->tsas, live.tsas, sizeof(e->tsas));
}

static void map_log(const struct serve_conn *c, struct request *r)
{
        uint64_t offset = log_offset(&r->sqe);

        if (r->sqe.opc != NVME_GET_LOG_PAGE || (le32_get(r->sqe.cdw10) & 0xff) != LOG_DISCOVERY ||
            c->qid != 0)
                return;
        for (uint32_t at = 0; at + DISC_ENTRY_LEN <= r->c2h_len; at += DISC_ENTRY_LEN)
                if (offset + at >= DISC_HEADER_LEN && offset % DISC_ENTRY_LEN == 0)
                        map_entry(c, (struct disc_entry *)(void *)(r->data + at));
}

/*
 * What a host has to know of the transport that it comes by: whichever it was in the capture, it is
 * told of this one.
 */
static void map_identify(const struct serve_conn *c, struct request *r)
{
        struct id_ctrl *id = (void *)r->data;
        uint32_t in_capsule = c->server->in_capsule;
        uint32_t sgls;

        if (c->qid != 0 || r->sqe.opc != NVME_IDENTIFY ||
            (le32_get(r->sqe.cdw10) & 0xff) != CNS_CTRL || r->c2h_len < sizeof(*id))
                return;
        sgls = (le32_get(id->sgls) & ~(uint32_t)SGLS_OF_TRANSPORTS) | SGLS_OFFSET;
        id->sgls = le32(sgls | (is_rdma(c) ? SGLS_KEYED : SGLS_TRANSPORT));
        if (le32_get(id->ioccsz) > 0) /* no discovery service */
                id->ioccsz = le32((uint32_t)(sizeof(union sqe) + in_capsule) / 16);
        id->icdoff = le16(0);
        if (is_rdma(c))
                id->msdbd = 1;
}

static void give(struct serve_conn *c, struct request *r, const struct plan_cmd *p)
{
        r->cqe.result = p->cqe.result;
        set_status(r, cqe_status(&p->cqe) | (cqe_dnr(&p->cqe) ? STATUS_DNR : 0));
        if (sqe_xfer(&r->sqe) != XFER_C2H || !r->data)
                return;
        spill_looked(&c->server->plan->spill, &c->server->looked_at, sizeof(*p) + p->data_len);
        r->c2h_len = p->data_len < r->len ? p->data_len : r->len;
        if (p->data)
                memcpy(r->data, p->data, r->c2h_len);
        memset(r->data + r->c2h_len, 0, r->len - r->c2h_len);
        r->c2h_len = r->len;
        map_log(c, r);
        if (!cqe_status(&r->cqe) && c->server->plan->rdma != is_rdma(c))
                map_identify(c, r);
}

/* What lies beyond the end of the captured piece is zero. */
static bool answer_piece(struct serve_conn *c, struct request *r)
{
        const struct plan_cmd *p;
        uint32_t skip, n;

        if (!r->data || c->qid != 0 || r->sqe.opc != NVME_GET_LOG_PAGE)
                return false;
        p = answers_log(c->server->answers, c->assoc, &r->sqe);
        if (!p)
                return false;
        skip = (uint32_t)(log_offset(&r->sqe) - log_offset(&p->sqe));
        n = p->data_len - skip < r->len ? p->data_len - skip : r->len;
        memcpy(r->data, p->data + skip, n);
        memset(r->data + n, 0, r->len - n);
        r->c2h_len = r->len;
        map_log(c, r);
        report_served(c, &r->sqe, p, ALLOWED, "another piece of the log page than in the capture");
        return true;
}

static void answer(struct serve_conn *c, struct request *r)
{
        bool again;
        const struct plan_cmd *p =
            answers_next(c->server->answers, c->assoc, c->qid == 0, &r->sqe, &again);

        if (!p && answer_piece(c, r))
                return;
        if (!p) {
                refuse(c, r, c->qid ? NVME_INVALID_OPCODE : NVME_INVALID_FIELD);
                return;
        }
        if (p->data_cut && sqe_xfer(&r->sqe) == XFER_C2H && !cqe_status(&p->cqe)) {
                set_status(r, NVME_INTERNAL_ERROR);
                report_served(c, &r->sqe, p, DIFFERENT, "the capture lacks some of its data");
                return;
        }
        give(c, r, p);
        if (again)
                report_served(c, &r->sqe, p, ALLOWED, "more often than in the capture");
        else
                report_served(c, &r->sqe, p, SAME, "%s", "");
}

/* --- Connect and properties ------------------------------------------------------------------- */

static bool join_admin(struct serve_conn *c, const struct connect_data *d,
                       const struct plan_cmd **p)
{
        *p = answers_connect(c->server->answers, is_discovery(d));
        if (*p)
                c->assoc = (*p)->queue->assoc;
        return *p;
}

static bool join_io(struct serve_conn *c, const struct request *r, const struct connect_data *d,
                    const struct plan_cmd **p)
{
        bool again;

        c->assoc = find_assoc(c, le16_get(d->cntlid));
        *p = c->assoc ? answers_next(c->server->answers, c->assoc, false, &r->sqe, &again) : NULL;
        return *p;
}

/* The responses that were captured answer other challenges than a live host's. */
static void leave_out_auth(const struct serve_conn *c, struct request *r, const struct plan_cmd *p)
{
        uint32_t dw0 = le32_get(p->cqe.dw0), asks = CONNECT_ATR | CONNECT_ASCR;

        r->cqe.dw0 = le32(dw0 & ~asks);
        if (dw0 & asks)
                report_served(c, &r->sqe, p, ALLOWED, "authentication is no longer asked for");
        else
                report_served(c, &r->sqe, p, SAME, "%s", "");
}

static void connect_queue(struct serve_conn *c, struct request *r)
{
        const struct connect_data *d = (const void *)r->data;
        const struct plan_cmd *p = NULL;
        bool no_sqfc = r->sqe.connect.cattr & CATTR_DISABLE_SQFC;
        unsigned entries = le16_get(r->sqe.connect.sqsize) + 1u;

        c->qid = le16_get(r->sqe.connect.qid);
        if (r->len < sizeof(*d) || c->connected || entries < 2) {
                refuse(c, r, c->connected ? NVME_SEQUENCE_ERROR : NVME_CONNECT_PARAM);
                return;
        }
        if (!(c->qid == 0 ? join_admin(c, d, &p) : join_io(c, r, d, &p))) {
                refuse(c, r, NVME_CONNECT_PARAM);
                return;
        }
        r->cqe.result = p->cqe.result;
        set_status(r, cqe_status(&p->cqe));
        if (cqe_status(&p->cqe)) {
                report_served(c, &r->sqe, p, SAME, "%s", "");
                return;
        }
        leave_out_auth(c, r, p);
        c->connected = true;
        sq_init(&c->sq, entries, no_sqfc);
        c->over |= requests_set_depth(r->queue, entries) != 0;
}

static uint32_t csts(const struct serve_conn *c)
{
        return (c->cc & CC_EN ? CSTS_RDY : 0) | (CC_SHN(c->cc) ? CSTS_SHST_COMPLETE : 0);
}

/* CC and CSTS, which follow the live host; false: another property. */
static bool live_property(struct serve_conn *c, struct request *r)
{
        uint32_t ofst = le32_get(r->sqe.property.ofst);
        bool set = r->sqe.fctype == FCTYPE_PROPERTY_SET;

        if (ofst != PROP_CC && (set || ofst != PROP_CSTS))
                return false;
        if (set)
                c->cc = (uint32_t)le64_get(r->sqe.property.value);
        else
                r->cqe.result = le64(ofst == PROP_CC ? c->cc : csts(c));
        report_served(c, &r->sqe, NULL, ALLOWED, "CC and CSTS follow the live host");
        return true;
}

static bool by_intent(struct serve_conn *c, struct request *r)
{
        const union sqe *s = &r->sqe;

        if (sqe_is_fabrics(s, FCTYPE_PROPERTY_SET) || sqe_is_fabrics(s, FCTYPE_PROPERTY_GET))
                return live_property(c, r);
        if (c->qid != 0 || s->opc != NVME_KEEP_ALIVE)
                return false;
        report_served(c, s, NULL, ALLOWED, "Keep Alive is answered as it arrives");
        return true;
}

/* --- what the machine asks for ---------------------------------------------------------------- */

static uint16_t admit(void *user, struct request *r)
{
        struct serve_conn *c = user;

        if (!c->connected && !sqe_is_connect(&r->sqe))
                return NVME_SEQUENCE_ERROR;
        r->xfer = sqe_xfer(&r->sqe);
        r->len = r->xfer == XFER_NONE ? 0 : sgl_len(&r->sqe.sgl);
        if (r->xfer == XFER_BOTH || r->len > SERVE_TRANSFER_MAX)
                return NVME_INVALID_FIELD;
        if (r->len == 0)
                r->xfer = XFER_NONE;
        return NVME_SUCCESS;
}

static void execute(void *user, struct request *r)
{
        struct serve_conn *c = user;

        if (c->qid == 0 && c->connected && r->sqe.opc == NVME_AER) {
                r->next = c->parked;
                c->parked = r;
                report_served(c, &r->sqe, NULL, ALLOWED, "no event occurs");
                return;
        }
        if (sqe_is_connect(&r->sqe))
                connect_queue(c, r);
        else if (!by_intent(c, r))
                answer(c, r);
        request_complete(r);
}

static uint16_t sqhd(void *user, const struct request *r)
{
        struct serve_conn *c = user;
        bool connect = sqe_is_connect(&r->sqe);

        sq_free(&c->sq);
        return connect && c->sq.no_flow_control ? SQHD_DISABLED : sq_head(&c->sq);
}

const struct request_ops serve_request_ops = {
        .admit = admit,
        .execute = execute,
        .sqhd = sqhd,
};

void serve_unpark(struct serve_conn *c)
{
        while (c->parked) {
                struct request *r = c->parked;

                c->parked = r->next;
                r->no_response = true;
                request_complete(r);
        }
}

/* --- the server ------------------------------------------------------------------------------- */

int serve_add(struct server *sv, struct serve_conn *c)
{
        if (sv->n_conns == SERVE_CONNS)
                return -1;
        sv->conns[sv->n_conns++] = c;
        sv->had_one = true;
        return 0;
}

bool serve_is_over(const struct server *sv)
{
        if (sv->o->stop && *sv->o->stop)
                return true;
        return sv->o->idle && sv->had_one && sv->n_conns == 0 &&
               loop_now_ns() - sv->idle_since >= (uint64_t)sv->o->idle * 1000000;
}

int replay_serve(const struct replay_plan *plan, const struct serve_options *o, char *err,
                 size_t err_size)
{
        struct server sv = { .plan = plan, .o = o };
        int rc = -1;

        sv.answers = answers_new(plan);
        spill_rest(&plan->spill);
        if (sv.answers) {
                sv.in_capsule = answers_in_capsule(sv.answers);
                rc = o->transport == HOST_RDMA ? serve_rdma(&sv, err, err_size)
                                               : serve_tcp(&sv, err, err_size);
        } else {
                snprintf(err, err_size, "out of memory");
        }
        answers_free(sv.answers);
        return rc;
}
