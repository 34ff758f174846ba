/* SPDX-License-Identifier: BSD-3-Clause */
/* What the data of a command that succeeded shows, given what its association has said. */
#include <string.h>

#include "judge.h"
#include "pdu/nvme/wire/commands.h"
#include "pdu/nvme/wire/discovery.h"
#include "pdu/nvme/wire/identify.h"
#include "pdu/nvme/wire/protect.h"
#include "pdu/nvme/wire/reservation.h"

enum {
        TWINS = 256, /* entries of a log that are compared with each other */
        CTRL_LIST_MAX = 2047,
};

static bool same_name(const char *a, const char *b)
{
        return strncmp(a, b, NQN_FIELD) == 0;
}

/* --- Connect ---------------------------------------------------------------------------------- */

/* Accepted or refused: what is wrong with it is the host's fault all the same. */
void judge_connect(const struct session_cmd *cmd, const struct cqe *cqe,
                   const struct association *admin, struct rule_set *found)
{
        const struct connect_data *c = (const void *)cmd->data;
        uint16_t cntlid = le16_get(c->cntlid);

        judge_finds(found, !nqn_valid(c->subnqn, NQN_FIELD, false), FAB_CONNECT_SUBNQN_SYNTAX);
        judge_finds(found, !nqn_valid(c->hostnqn, NQN_FIELD, false), FAB_CONNECT_HOSTNQN_SYNTAX);
        judge_finds(found, cntlid >= 0xfff0 && cntlid <= 0xfffd, FAB_CONNECT_CNTLID_RSVD);
        judge_finds(found,
                    le16_get(cmd->sqe.connect.qid) == 0 && cntlid <= CNTLID_MAX &&
                        cqe_status(cqe) == NVME_SUCCESS && (uint16_t)le32_get(cqe->dw0) != cntlid,
                    FAB_CONNECT_CNTLID_SAME);
        judge_finds(found,
                    cqe_status(cqe) == NVME_SUCCESS && le32_get(cqe->dw0) & CONNECT_ATR &&
                        le32_get(cqe->dw0) & CONNECT_ASCR,
                    FAB_AUTHREQ);
        if (!admin || !admin->named)
                return;
        judge_finds(found, admin->discovery, FAB_DISC_IO);
        judge_finds(found, !same_name(c->subnqn, admin->connect.subnqn), FAB_CONNECT_IO_SUBNQN);
        judge_finds(found, !same_name(c->hostnqn, admin->connect.hostnqn), FAB_CONNECT_IO_HOSTNQN);
        judge_finds(found,
                    !is_nobody(c->hostid) &&
                        memcmp(c->hostid, admin->connect.hostid, sizeof(c->hostid)) != 0,
                    FAB_CONNECT_IO_HOSTID);
}

/* --- Identify --------------------------------------------------------------------------------- */

static void judge_io_sizes(const struct session *s, const struct id_ctrl *id,
                           struct rule_set *found)
{
        bool tcp = s->conn->transport == TRACE_TCP;
        uint32_t ioccsz = le32_get(id->ioccsz), icdoff = le16_get(id->icdoff);

        judge_finds(found, ioccsz < 4 || le32_get(id->iorcsz) != 1, ID_IOCCSZ);
        judge_finds(found, !id_entry_sizes_right(id), ID_QES);
        judge_finds(found, tcp && icdoff != 0, ID_ICDOFF);
        judge_finds(found, !tcp && ioccsz > 4 && ioccsz <= 4 + icdoff, RDMA_ICDOFF);
}

/* CNTRLTYPE came with 1.4, so that a discovery controller may also say 0. A discovery subsystem may have
 * a name of its own, and not all controllers of others are there for I/O. */
static bool is_type_wrong(const struct association *a, const struct id_ctrl *id)
{
        bool well_known = strncmp(a->connect.subnqn, NQN_DISCOVERY, NQN_FIELD) == 0;

        if (!a->named || le32_get(id->ver) < NVME_VERSION(1, 4, 0))
                return false;
        return well_known ? id->cntrltype != CNTRLTYPE_DISCOVERY
                          : id->cntrltype < CNTRLTYPE_IO || id->cntrltype > CNTRLTYPE_ADMIN;
}

static void judge_id_ctrl(const struct session *s, const struct id_ctrl *id, struct rule_set *found)
{
        const struct association *a = s->assoc;
        uint32_t sgls = le32_get(id->sgls);
        bool keyed = (sgls & 3) == 1 && sgls & 1 << 2;

        judge_finds(found, le16_get(id->cntlid) != a->cntlid, ID_CNTLID);
        judge_finds(found, is_type_wrong(a, id), ID_CNTRLTYPE);
        judge_finds(found, (sgls & 3) != 1 && (sgls & 3) != 2, ID_SGLS);
        judge_finds(found, s->conn->transport != TRACE_TCP && !keyed, RDMA_SGLS);
        if (!a->io)
                return;
        judge_finds(found, a->named && !same_name(id->subnqn, a->connect.subnqn), ID_SUBNQN);
        judge_finds(found, le16_get(id->kas) == 0, ID_KAS);
        judge_finds(found, le16_get(id->maxcmd) == 0, ID_MAXCMD);
        judge_finds(found, id_text_fault(id), ID_TEXT);
        if (id->cntrltype != CNTRLTYPE_ADMIN)
                judge_io_sizes(s, id, found);
}

/* Numbers of `size` bytes above `last`, each above the one before it; zeroes follow. */
static bool ascends(const uint8_t *p, size_t len, size_t size, uint64_t last)
{
        bool over = false;

        for (size_t at = 0; at + size <= len; at += size) {
                uint64_t n = le_get(p + at, (unsigned)size);

                if (n ? over || n <= last : false)
                        return false;
                over |= !n;
                last = n ? n : last;
        }
        return true;
}

/* Of Controller Lists CNTLID 0 may be the first. */
static void judge_lists(const struct session_cmd *cmd, uint8_t cns, struct rule_set *found)
{
        size_t count = le16_get(*(const le16_t *)(const void *)cmd->data);
        size_t first = count && !le_get(cmd->data + 2, 2) ? 4 : 2;
        bool namespaces =
            cns == CNS_NS_LIST || cns == CNS_ALLOCATED_NS_LIST || cns == CNS_IOCS_ALLOCATED_NS_LIST;
        bool controllers = cns == CNS_NS_CTRL_LIST || cns == CNS_CTRL_LIST;

        judge_finds(found,
                    namespaces && !ascends(cmd->data, IDENTIFY_LEN, 4, le32_get(cmd->sqe.nsid)),
                    ID_NS_LIST);
        judge_finds(found,
                    controllers && (count > CTRL_LIST_MAX ||
                                    !ascends(cmd->data + first, 2 + 2 * count - first, 2, 0)),
                    ID_CTRL_LIST);
}

/* A whole structure of what Identify has of a namespace. */
static void judge_id_ns(const struct session_cmd *cmd, uint8_t cns, struct rule_set *found)
{
        judge_finds(found, cns == CNS_NS && id_ns_fault((const void *)cmd->data), ID_NS);
        judge_finds(found, cns == CNS_NS_DESCS && ns_descs_fault(cmd->data, IDENTIFY_LEN),
                    ID_NS_DESCS);
}

static void judge_identify(const struct session *s, const struct session_cmd *cmd,
                           struct rule_set *found)
{
        uint8_t cns = (uint8_t)le32_get(cmd->sqe.cdw10);

        if (cmd->data_len < IDENTIFY_LEN)
                return;
        if (cns == CNS_CTRL)
                judge_id_ctrl(s, (const void *)cmd->data, found);
        else if (!s->assoc->discovery)
                judge_id_ns(cmd, cns, found);
        judge_lists(cmd, cns, found);
}

/* --- the discovery log ------------------------------------------------------------------------ */

static bool is_assigned(const struct disc_entry *e)
{
        bool transport =
            (e->trtype >= TRTYPE_RDMA && e->trtype <= TRTYPE_TCP) || e->trtype == TRTYPE_LOOP;

        return transport && e->subtype >= SUBTYPE_REFERRAL && e->subtype <= SUBTYPE_CURRENT &&
               (e->adrfam <= ADRFAM_FC || e->trtype == TRTYPE_LOOP);
}

static void judge_twins(const struct session_cmd *cmd, struct rule_set *found)
{
        const struct disc_entry *a, *b;

        for (uint64_t i = 0; i < TWINS && (a = disc_log_entry(cmd->data, cmd->data_len, i)); i++)
                for (uint64_t k = 0; k < i; k++) {
                        b = disc_log_entry(cmd->data, cmd->data_len, k);
                        judge_finds(found, disc_entry_twins(a, b), DISC_ONE_DYNAMIC);
                        judge_finds(found,
                                    same_name(a->subnqn, b->subnqn) && a->trtype == b->trtype &&
                                        a->subtype == SUBTYPE_NVM && b->subtype == SUBTYPE_NVM &&
                                        (a->treq ^ b->treq) & TREQ_SECURE_MASK,
                                    DISC_TREQ_SAME);
                }
}

/* Read from its beginning; entries that the command did not reach are not there. Among extended ones nothing tells
 * which is one. */
static void judge_log(const struct session_cmd *cmd, struct rule_set *found)
{
        const struct disc_header *h = (const void *)cmd->data;
        const struct disc_entry *e;

        judge_finds(found, le16_get(h->recfmt) != 0 || le64_get(h->numrec) >= DISC_NUMREC_END,
                    DISC_HEADER);
        if (disc_asks_extended(&cmd->sqe) || h->flags & DLPF_EXTENDED)
                return;
        for (uint64_t i = 0; (e = disc_log_entry(cmd->data, cmd->data_len, i)); i++) {
                judge_finds(found,
                            !is_assigned(e) || !memchr(e->subnqn, 0, NQN_MAX + 1) ||
                                le16_get(e->asqsz) < ADMIN_SQ_MIN,
                            DISC_ENTRY);
                disc_entry_check(e, found);
        }
        judge_twins(cmd, found);
}

static bool from_start(const union sqe *s)
{
        return le32_get(s->cdw12) == 0 && le32_get(s->cdw13) == 0 &&
               !(le32_get(s->cdw14) >> 23 & 1);
}

/* --- properties ------------------------------------------------------------------------------- */

static void judge_property(const union sqe *sqe, const struct cqe *cqe, struct rule_set *found)
{
        uint64_t value = le64_get(cqe->result);
        uint32_t ofst = le32_get(sqe->property.ofst);

        judge_finds(found, ofst == PROP_CAP && !(value & CAP_CQR), FAB_CAP);
        judge_finds(found, property_is_reserved(ofst) && value, FAB_PROP_RSVD);
        judge_finds(found, (sqe->property.attrib & 7) == PROP_ATTRIB_4 && value >> 32,
                    FAB_PROP_UPPER);
}

/* --- protection information ------------------------------------------------------------------- */

static bool is_tuple_right(const struct pi_format *f, const struct pi_use *u,
                           const struct ns_format *ns, const uint8_t *block, uint32_t i)
{
        uint32_t covered = (1u << ns->lbads) + (ns->first ? 0 : ns->ms - pi_len(f));
        const uint8_t *tuple = block + (ns->first ? 1u << ns->lbads : covered);

        return pi_check(u, f, tuple, i, u->guard ? pi_crc(f, 0, block, covered) : 0) == PI_RIGHT;
}

static bool is_anonymous(const struct association *a)
{
        return !a || !a->named ||
               strncmp(a->connect.hostnqn, ANONYMOUS_NQN, strlen(ANONYMOUS_NQN)) == 0;
}

/* Of a Read that had it checked, and succeeded; the storage tag has a mask that is not known. */
static void judge_tuples(const struct session *s, const struct session_cmd *cmd,
                         struct rule_set *found)
{
        const struct ns_format *ns = past_format(s->assoc, le32_get(cmd->sqe.nsid));
        uint32_t cdw12 = le32_get(cmd->sqe.cdw12), n = (cdw12 & RW_NLB_MASK) + 1, unit;
        struct pi_format f;
        struct pi_use u;

        if (is_anonymous(s->assoc) || !ns || !ns->pi || !ns->guard || !cmd->data || cmd->data_cut ||
            cdw12 & RW_PRACT)
                return;
        f = (struct pi_format) { .type = ns->pi, .guard = ns->guard, .sts = ns->sts };
        unit = (1u << ns->lbads) + ns->ms;
        if (!pi_is_format(&f) || ns->ms < pi_len(&f) || cmd->data_len != (uint64_t)n * unit)
                return;
        u = pi_use_of(&cmd->sqe, &f);
        u.stc = false;
        for (uint32_t i = 0; i < n; i++)
                judge_finds(found, !is_tuple_right(&f, &u, ns, cmd->data + (size_t)i * unit, i),
                            NVM_PI_READ);
}

void judge_data(const struct session *s, const struct session_cmd *cmd, const struct cqe *cqe,
                struct rule_set *found)
{
        const union sqe *sqe = &cmd->sqe;

        if (s->qid > 0 && !s->gapped && is_reservation_command(sqe->opc))
                judge_reservation(s, cmd, found);
        if (s->qid > 0 && !s->gapped && sqe->opc == NVME_READ)
                judge_tuples(s, cmd, found);
        if (s->qid != 0 || !s->assoc || !s->assoc->named || s->gapped)
                return;
        if (sqe_is_fabrics(sqe, FCTYPE_PROPERTY_GET))
                judge_property(sqe, cqe, found);
        if (!cmd->data || cmd->data_cut)
                return;
        if (sqe->opc == NVME_IDENTIFY)
                judge_identify(s, cmd, found);
        else if (sqe->opc == NVME_GET_LOG_PAGE && (le32_get(sqe->cdw10) & 0xff) == LOG_DISCOVERY &&
                 from_start(sqe) && cmd->data_len >= sizeof(struct disc_header))
                judge_log(cmd, found);
}

/* --- commands --------------------------------------------------------------------------------- */

static bool is_one_of(uint8_t value, const uint8_t *list, size_t n)
{
        return memchr(list, value, n) != NULL;
}

/* What a discovery controller is never asked (B2.2 3.1.3.3). */
void judge_command(const struct session *s, const union sqe *sqe, struct rule_set *found)
{
        static const uint8_t opcodes[] = { 0x0d, 0x10, 0x11, 0x15, 0x80, 0x81, 0x82, 0x84 };
        static const uint8_t logs[] = { LOG_SMART, LOG_FW_SLOT, LOG_CHANGED_NS };
        static const uint8_t features[] = { FEAT_QUEUES, FEAT_HOSTID };
        uint8_t selector = (uint8_t)le32_get(sqe->cdw10);
        bool feature = sqe->opc == NVME_SET_FEATURES || sqe->opc == NVME_GET_FEATURES;

        if (s->qid != 0 || !s->assoc || !s->assoc->discovery)
                return;
        judge_finds(found, is_one_of(sqe->opc, opcodes, sizeof(opcodes)), DISC_PROHIBITED);
        judge_finds(found, sqe->opc == NVME_GET_LOG_PAGE && is_one_of(selector, logs, sizeof(logs)),
                    DISC_LOGS);
        judge_finds(found, feature && is_one_of(selector, features, sizeof(features)),
                    DISC_FEATURES);
}

/* Bytes that so many whole blocks can have; the size of a block is not known here, nor that of its
 * metadata, and an SGL may describe more than that. */
static bool can_be_blocks(uint64_t bytes, uint32_t blocks)
{
        enum { METADATA = 256 };
        uint64_t size = bytes / blocks, block = 512;

        while (block * 2 <= size)
                block *= 2;
        return bytes % blocks == 0 && size >= block && size - block <= METADATA;
}

/* With the format known, so is what travels (N1.2 5.3.2). Of longer metadata it is not known whether it
 * is protection information and nothing else; a host may send more in a capsule than is needed. */
static void judge_metadata(const struct session *s, const struct session_cmd *cmd,
                           struct rule_set *found)
{
        const struct ns_format *f = past_format(s->assoc, le32_get(cmd->sqe.nsid));
        uint32_t cdw12 = le32_get(cmd->sqe.cdw12), unit;
        bool stripped = cdw12 & RW_PRACT;
        uint64_t bytes;

        if (s->qid <= 0 || !f || !f->pi || (stripped && f->ms != PI_LEN))
                return;
        unit = (1u << f->lbads) + (stripped ? 0 : f->ms);
        bytes = ((cdw12 & RW_NLB_MASK) + UINT64_C(1)) * unit;
        if (bytes > sgl_len(&cmd->sqe.sgl))
                return;
        judge_finds(found,
                    (cmd->sqe.opc == NVME_READ && cmd->c2h != bytes) ||
                        (cmd->sqe.opc == NVME_WRITE && cmd->h2c < bytes),
                    NVM_PI_LENGTH);
}

void judge_transfer(const struct session *s, const struct session_cmd *cmd, struct rule_set *found)
{
        const union sqe *sqe = &cmd->sqe;
        bool admin = session_admin(s, sqe);

        if (s->conn->transport != TRACE_TCP || s->qid < 0 || s->gapped || cmd->data_cut)
                return;
        judge_metadata(s, cmd, found);
        judge_finds(found,
                    !admin && sqe->opc == NVME_WRITE && cmd->h2c < sgl_len(&sqe->sgl) &&
                        !can_be_blocks(cmd->h2c, (le32_get(sqe->cdw12) & RW_NLB_MASK) + 1),
                    TCP_H2C_COMPLETE);
        if (cmd->c2h >= sgl_len(&sqe->sgl))
                return;
        judge_finds(found, admin && sqe->opc == NVME_IDENTIFY && cmd->c2h < IDENTIFY_LEN,
                    TCP_C2H_COMPLETE);
        judge_finds(found,
                    !admin && sqe->opc == NVME_READ &&
                        !can_be_blocks(cmd->c2h, (le32_get(sqe->cdw12) & RW_NLB_MASK) + 1),
                    TCP_C2H_COMPLETE);
}
