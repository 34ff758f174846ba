/* SPDX-License-Identifier: BSD-3-Clause */
#include "judge.h"

#include <string.h>

enum {
        SECURITY_SEND = 0x81,
        SECURITY_RECEIVE = 0x82,
        VENDOR = 0xc0, /* opcodes and FCTYPEs from here on */
};

static void finds(struct rule_set *found, bool broken, enum rule_id rule)
{
        if (broken)
                rule_add(found, rule);
}

bool sqe_counts_bytes(const struct queue_past *q, const union sqe *s)
{
        if (s->opc == NVME_FABRICS)
                return s->fctype == FCTYPE_AUTH_SEND || s->fctype == FCTYPE_AUTH_RECEIVE ||
                       s->fctype >= VENDOR;
        return s->opc >= VENDOR ||
               (q->qid <= 0 && (s->opc == SECURITY_SEND || s->opc == SECURITY_RECEIVE));
}

uint32_t sqe_needs(const struct queue_past *q, const union sqe *s)
{
        uint64_t numd;

        if (q->qid != 0)
                return 0;
        if (s->opc == NVME_IDENTIFY)
                return IDENTIFY_LEN;
        if (s->opc != NVME_GET_LOG_PAGE)
                return 0;
        numd = (le32_get(s->cdw10) >> 16) | (uint64_t)(le32_get(s->cdw11) & 0xffff) << 16;
        return numd < UINT32_MAX / 4 ? (uint32_t)(numd + 1) * 4 : 0;
}

/* --- commands --------------------------------------------------------------------------------- */

static bool describes_nothing(const struct sgl *sgl)
{
        static const struct sgl nothing;

        return memcmp(sgl, &nothing, sizeof(nothing)) == 0;
}

/* Features mostly move no data, whatever their opcode says. */
enum nvme_xfer sqe_moves(const union sqe *s)
{
        bool feature = s->opc == NVME_SET_FEATURES || s->opc == NVME_GET_FEATURES;

        return feature && describes_nothing(&s->sgl) ? XFER_NONE : sqe_xfer(s);
}

static bool wrong_sgl_type(const union sqe *s)
{
        if (sqe_moves(s) == XFER_NONE)
                return false;
        if (s->sgl.id == SGL_IN_CAPSULE)
                return sqe_xfer(s) == XFER_C2H;
        return s->sgl.id != SGL_TRANSPORT;
}

/* Bytes; of a list, which RDMA knows, nothing is known here. */
static uint32_t described(const struct sgl *sgl)
{
        return sgl->id == SGL_LAST_IN_CAPSULE ? UINT32_MAX : sgl_len(sgl);
}

static void judge_connect(struct rule_set *found, const struct queue_past *q, const union sqe *s)
{
        finds(found, q->connected, FAB_CONNECT_ONCE);
        finds(found, le16_get(s->connect.recfmt) != 0, FAB_CONNECT_RECFMT);
        finds(found, le16_get(s->connect.sqsize) == 0, FAB_CONNECT_SQSIZE_ZERO);
        finds(found, described(&s->sgl) < CONNECT_DATA_LEN, FAB_CONNECT_DATA);
}

static void judge_disconnect(struct rule_set *found, const struct queue_past *q, const union sqe *s)
{
        finds(found, q->qid == 0, FAB_DISCONNECT_ADMIN);
        finds(found, le16_get(s->disconnect.recfmt) != 0, FAB_DISCONNECT_RECFMT);
}

static void judge_property(struct rule_set *found, const struct queue_past *q, const union sqe *s)
{
        uint32_t ofst = le32_get(s->property.ofst);
        unsigned size = property_size(ofst), asked = s->property.attrib & 7;
        unsigned attrib = size == 8 ? PROP_ATTRIB_8 : PROP_ATTRIB_4;
        bool read_only = ofst != PROP_CC && ofst != PROP_NSSR;

        finds(found, q->qid > 0, FAB_PROP_QUEUE);
        finds(found, size == 0, FAB_PROP_OFFSET);
        finds(found, size > 0 && asked != attrib, FAB_PROP_SIZE);
        finds(found, size > 0 && read_only && s->fctype == FCTYPE_PROPERTY_SET, FAB_PROP_RO);
}

/* Hosts say 01b with all Fabrics commands, so that is let pass, and 00b and 10b wherever they are. */
static void judge_flags(struct rule_set *found, const union sqe *s)
{
        finds(found, s->flags & SQE_FUSE_MASK, FAB_FUSE);
        finds(found, (s->flags & SQE_PSDT_MASK) == SQE_PSDT_MASK, FAB_PSDT);
}

static void judge_fabrics(struct rule_set *found, const struct queue_past *q, const union sqe *s)
{
        finds(found, !fctype_name(s->fctype) && s->fctype < VENDOR, FAB_FCTYPE);
        judge_flags(found, s);
        if (s->fctype == FCTYPE_CONNECT)
                judge_connect(found, q, s);
        else if (s->fctype == FCTYPE_DISCONNECT)
                judge_disconnect(found, q, s);
        else if (s->fctype == FCTYPE_PROPERTY_GET || s->fctype == FCTYPE_PROPERTY_SET)
                judge_property(found, q, s);
}

static bool manages_queues(uint8_t opc)
{
        return opc == NVME_CREATE_SQ || opc == NVME_DELETE_SQ || opc == NVME_CREATE_CQ ||
               opc == NVME_DELETE_CQ;
}

static bool turns_keep_alive_off(const union sqe *s)
{
        return s->opc == NVME_SET_FEATURES && (le32_get(s->cdw10) & 0xff) == FEAT_KATO &&
               le32_get(s->cdw11) == 0;
}

/* Of those that never do. */
static bool has_no_nsid(const union sqe *s)
{
        static const uint8_t opcodes[] = { NVME_ABORT, NVME_AER, NVME_KEEP_ALIVE };

        return memchr(opcodes, s->opc, sizeof(opcodes)) ||
               (s->opc == NVME_IDENTIFY && (le32_get(s->cdw10) & 0xff) == CNS_CTRL);
}

static void judge_admin(struct rule_set *found, const struct queue_past *q, const union sqe *s)
{
        bool known = !manages_queues(s->opc), enabled = q->cc & CC_EN;

        finds(found, !known, FAB_OPCODE);
        finds(found, known && !enabled, FAB_ENABLED);
        finds(found, known && enabled && CC_SHN(q->cc), FAB_SHUTDOWN);
        finds(found, sqe_needs(q, s) > described(&s->sgl), FAB_SGL_SHORT);
        finds(found, turns_keep_alive_off(s), KA_ZERO);
        finds(found, has_no_nsid(s) && le32_get(s->nsid), FAB_NSID_UNUSED);
}

void judge_sqe(struct rule_set *found, const struct queue_past *q, const union sqe *s)
{
        bool connect = s->opc == NVME_FABRICS && s->fctype == FCTYPE_CONNECT;

        finds(found, q->qid < 0 && !q->mid_stream && !connect, FAB_FIRST_CONNECT);
        finds(found, !q->keyed && wrong_sgl_type(s), TCP_SGL_TYPE);
        if (s->opc == NVME_FABRICS)
                judge_fabrics(found, q, s);
        else if (q->qid == 0 && q->connected)
                judge_admin(found, q, s);
}

/* --- completions ------------------------------------------------------------------------------ */

/* Bits of Connect's dwords 0 and 1 that mean something with this status. */
static uint64_t connect_result(uint16_t status)
{
        if (status == NVME_SUCCESS)
                return 0x7ffff; /* CNTLID, AUTHREQ */
        return status == NVME_CONNECT_PARAM ? 0xffff | CONNECT_IATTR_DATA : 0;
}

/* Commands that define no result, by what Base 2.2 and the NVM command set say of DW0. */
static bool has_no_result(const struct queue_past *q, uint8_t opc, uint8_t fctype)
{
        static const uint8_t admin[] = { NVME_IDENTIFY, NVME_GET_LOG_PAGE, NVME_KEEP_ALIVE };
        static const uint8_t io[] = { NVME_FLUSH,  NVME_WRITE,
                                      NVME_READ,   NVME_WRITE_ZEROES,
                                      NVME_DSM,    NVME_COMPARE,
                                      NVME_VERIFY, NVME_WRITE_UNCORRECTABLE };

        if (opc == NVME_FABRICS)
                return fctype == FCTYPE_PROPERTY_SET || fctype == FCTYPE_DISCONNECT;
        if (q->qid == 0)
                return memchr(admin, opc, sizeof(admin));
        return q->qid > 0 && memchr(io, opc, sizeof(io));
}

void judge_cqe(struct rule_set *found, const struct queue_past *q, uint8_t opc, uint8_t fctype,
               const struct cqe *cqe)
{
        uint16_t status = cqe_status(cqe);
        uint64_t result = le64_get(cqe->result);

        if (opc == NVME_FABRICS && fctype == FCTYPE_CONNECT) {
                finds(found, status == NVME_INVALID_FIELD, FAB_CONNECT_NOT_FIELD);
                finds(found, result & ~connect_result(status), FAB_CONNECT_RSVD);
        } else if (status == NVME_SUCCESS) {
                finds(found, result && has_no_result(q, opc, fctype), FAB_CQE_ZERO);
        }
}
