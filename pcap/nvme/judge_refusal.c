/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a refusal shows. A controller knows its own configuration, so that a host which is told that
 * a name or a queue is not there has asked for what is not; and what it may not refuse it may not
 * refuse for that reason. What a host can't have known is advice to it (rules.def). Log pages, features and opcodes
 * a host may ask for to find out.
 */
#include <string.h>

#include "judge.h"

enum {
        IPO_ANY = -1,
        IPO_IN_DATA = 1 << 16,
        IPO_MASK = 0x1ffff,
        LOG_OT_BIT = 23, /* of cdw14 */
};

struct refused {
        const struct session *s;
        const struct session_cmd *cmd;
};

static const struct connect_data *data_of(const struct session_cmd *cmd)
{
        bool whole = cmd->data && cmd->data_len >= CONNECT_DATA_LEN && !cmd->data_cut;

        return whole ? (const struct connect_data *)(const void *)cmd->data : NULL;
}

static bool is_admin(const struct refused *r)
{
        return le16_get(r->cmd->sqe.connect.qid) == 0;
}

/* One that cannot be; another one may have gone while the command was on its way. */
static bool impossible_nsid(const struct refused *r)
{
        uint32_t nn = r->s->assoc ? past_nn(r->s->assoc) : 0, nsid = le32_get(r->cmd->sqe.nsid);

        return r->s->qid > 0 && r->cmd->sqe.opc != NVME_FABRICS &&
               (nsid == 0 || (nn && nsid > nn && nsid != UINT32_MAX));
}

/* A size that is none breaks another rule, and over RDMA it may be that of the request that differs. */
static bool big_queue(const struct refused *r)
{
        return sqe_is_connect(&r->cmd->sqe) && r->s->conn->transport == TRACE_TCP &&
               le16_get(r->cmd->sqe.connect.sqsize) > 0;
}

static uint16_t cntlid_of(const struct refused *r)
{
        const struct connect_data *c = data_of(r->cmd);

        return c ? le16_get(c->cntlid) : 0;
}

static bool admin_static(const struct refused *r)
{
        return sqe_is_connect(&r->cmd->sqe) && data_of(r->cmd) && is_admin(r) &&
               cntlid_of(r) == CNTLID_DYNAMIC;
}

static bool admin_dynamic(const struct refused *r)
{
        return sqe_is_connect(&r->cmd->sqe) && data_of(r->cmd) && is_admin(r) &&
               cntlid_of(r) != CNTLID_DYNAMIC && (cntlid_of(r) < 0xfff0 || cntlid_of(r) > 0xfffd);
}

static bool admin_connect(const struct refused *r)
{
        return sqe_is_connect(&r->cmd->sqe) && data_of(r->cmd) && is_admin(r);
}

/* For one controller; FFFEh and FFFFh are for any. */
static bool admin_this(const struct refused *r)
{
        return admin_connect(r) && cntlid_of(r) <= CNTLID_MAX;
}

/* No controller has it. Of others, and of names and QIDs, the refusal proves nothing: the association may have just ended,
 * and there are controllers that say so by the QID. What does differ judge_connect() and past_joins() compare. */
static bool io_nobody(const struct refused *r)
{
        return sqe_is_connect(&r->cmd->sqe) && data_of(r->cmd) && !is_admin(r) &&
               cntlid_of(r) > CNTLID_MAX;
}

static bool unknown_subsystem(const struct refused *r)
{
        return admin_connect(r) && nqn_valid(data_of(r->cmd)->subnqn, NQN_FIELD, false);
}

static bool zero_hostid(const struct refused *r)
{
        return admin_connect(r) && is_nobody(data_of(r->cmd)->hostid);
}

static bool same_nqns(const struct refused *r)
{
        const struct connect_data *c = data_of(r->cmd);

        return sqe_is_connect(&r->cmd->sqe) && c && strncmp(c->subnqn, c->hostnqn, NQN_FIELD) == 0;
}

static bool other_host(const struct refused *r)
{
        return admin_connect(r) && !same_nqns(r);
}

/* A subsystem knows its hosts by name. What is no name breaks another rule. */
static bool unknown_host(const struct refused *r)
{
        return admin_connect(r) && nqn_valid(data_of(r->cmd)->hostnqn, NQN_FIELD, false);
}

static uint8_t selector(const struct refused *r)
{
        return (uint8_t)le32_get(r->cmd->sqe.cdw10);
}

static bool is_get_log(const struct refused *r)
{
        return r->s->qid == 0 && r->cmd->sqe.opc == NVME_GET_LOG_PAGE;
}

static bool discovery_page(const struct refused *r)
{
        return is_get_log(r) && r->s->assoc && r->s->assoc->io && selector(r) >= LOG_DISCOVERY &&
               selector(r) <= LOG_DISCOVERY + 3;
}

/* Index 0 exists where there are any. */
static bool index_zero(const struct refused *r)
{
        const union sqe *s = &r->cmd->sqe;

        return is_get_log(r) && le32_get(s->cdw14) >> LOG_OT_BIT & 1 && le32_get(s->cdw12) == 0 &&
               le32_get(s->cdw13) == 0;
}

/* One that no log has. */
static bool far_offset(const struct refused *r)
{
        const union sqe *s = &r->cmd->sqe;

        return is_get_log(r) && !(le32_get(s->cdw14) >> LOG_OT_BIT & 1) && le32_get(s->cdw13) > 0;
}

static bool no_authentication(const struct refused *r)
{
        const union sqe *s = &r->cmd->sqe;

        return r->s->asked && (s->opc != NVME_FABRICS ||
                               (s->fctype != FCTYPE_CONNECT && s->fctype != FCTYPE_AUTH_SEND &&
                                s->fctype != FCTYPE_AUTH_RECEIVE));
}

/* Where AERL is known they are counted. */
static bool uncounted_aer(const struct refused *r)
{
        return r->s->qid == 0 && r->cmd->sqe.opc == NVME_AER &&
               !(r->s->assoc && r->s->assoc->identified);
}

/* --- what a controller takes ------------------------------------------------------------------ */

static bool transport_sgl(const struct refused *r)
{
        return r->s->conn->transport == TRACE_TCP && r->cmd->sqe.sgl.id == SGL_TRANSPORT;
}

static bool admin_in_capsule(const struct refused *r)
{
        return r->s->conn->transport == TRACE_TCP && r->s->qid == 0 &&
               r->cmd->sqe.sgl.id == SGL_IN_CAPSULE && sqe_xfer(&r->cmd->sqe) == XFER_H2C &&
               sgl_len(&r->cmd->sqe.sgl) <= PDU_ADMIN_IN_CAPSULE;
}

/* Commands that say by themselves how much they move: fewer bytes than described. Who does not support
 * that (LLDTS) says so by this status (4.3.2). */
static bool long_sgl(const struct refused *r)
{
        const union sqe *s = &r->cmd->sqe;
        uint32_t described = sgl_len(&s->sgl);

        if (s->sgl.id == SGL_LAST_IN_CAPSULE || !r->s->assoc || !r->s->assoc->long_sgls)
                return false;
        if (r->s->qid == 0)
                return s->opc == NVME_IDENTIFY && described > IDENTIFY_LEN;
        return r->s->qid > 0 && s->opc == NVME_DSM &&
               described > ((le32_get(s->cdw10) & 0xff) + 1) * sizeof(struct dsm_range);
}

/* The first row that fits counts. */
static const struct refusal {
        uint16_t status;
        int32_t ipo; /* of Connect; IPO_IN_DATA: within its data */
        bool (*fits)(const struct refused *r);
        enum rule_id rule;
} refusals[] = {
        /* clang-format off */
        { NVME_SGL_TYPE, IPO_ANY, transport_sgl, TCP_CDB },
        { NVME_SGL_TYPE, IPO_ANY, admin_in_capsule, TCP_ICD_ADMIN },
        { NVME_SGL_OFFSET, IPO_ANY, admin_in_capsule, TCP_ICD_ADMIN },
        { NVME_SGL_LENGTH, IPO_ANY, long_sgl, FAB_SGL_LONG },
        { NVME_INVALID_NS, IPO_ANY, impossible_nsid, FAB_NSID },
        { NVME_AER_LIMIT, IPO_ANY, uncounted_aer, AER_LIMIT },
        { NVME_AUTH_REQUIRED, IPO_ANY, no_authentication, FAB_AUTH_REQUIRED },
        { NVME_INVALID_LOG_PAGE, IPO_ANY, discovery_page, LOG_NOT_DISC },
        { NVME_INVALID_FIELD, IPO_ANY, index_zero, LOG_INDEX },
        { NVME_INVALID_FIELD, IPO_ANY, far_offset, LOG_OFFSET },
        { NVME_CONNECT_BUSY, IPO_ANY, admin_this, FAB_CONNECT_TAKEN },
        { NVME_CONNECT_HOST, IPO_ANY, same_nqns, FAB_CONNECT_SAME_NQN },
        { NVME_CONNECT_HOST, IPO_ANY, other_host, FAB_CONNECT_HOST },
        { NVME_CONNECT_PARAM, offsetof(union sqe, connect.sqsize), big_queue, FAB_CONNECT_SQSIZE_MAX },
        { NVME_CONNECT_PARAM, IPO_IN_DATA | 0, zero_hostid, FAB_CONNECT_HOSTID_ZERO },
        { NVME_CONNECT_PARAM, IPO_IN_DATA | 16, admin_static, FAB_CONNECT_CNTLID_STATIC },
        { NVME_CONNECT_PARAM, IPO_IN_DATA | 16, admin_dynamic, FAB_CONNECT_CNTLID_DYN },
        { NVME_CONNECT_PARAM, IPO_IN_DATA | 16, io_nobody, FAB_CONNECT_CNTLID_IO },
        { NVME_CONNECT_PARAM, IPO_IN_DATA | 256, unknown_subsystem, FAB_CONNECT_SUBNQN },
        { NVME_CONNECT_PARAM, IPO_IN_DATA | 512, unknown_host, FAB_CONNECT_HOST },
        /* clang-format on */
};

/* It numbers a source range: the first that was not copied. */
static bool wrong_copy_result(const struct refused *r, const struct cqe *cqe)
{
        return r->s->qid > 0 && r->cmd->sqe.opc == NVME_COPY &&
               le32_get(cqe->dw0) > (le32_get(r->cmd->sqe.cdw12) & 0xff);
}

void judge_refusal(const struct session *s, const struct session_cmd *cmd, const struct cqe *cqe,
                   struct rule_set *found)
{
        struct refused r = { s, cmd };
        int32_t ipo = (int32_t)(le32_get(cqe->dw0) & IPO_MASK);

        judge_finds(found, wrong_copy_result(&r, cqe), NVM_COPY_RESULT);
        for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
                const struct refusal *row = &refusals[i];

                if (row->status != cqe_status(cqe) || (row->ipo != IPO_ANY && row->ipo != ipo) ||
                    !row->fits(&r))
                        continue;
                rule_add(found, row->rule);
                return;
        }
}
