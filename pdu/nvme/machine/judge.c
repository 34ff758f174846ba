/* SPDX-License-Identifier: BSD-3-Clause */
#include "judge.h"

#include <string.h>

#include "controller.h"
#include "pdu/nvme/wire/reservation.h"

enum {
        SECURITY_SEND = 0x81,
        SECURITY_RECEIVE = 0x82,
        VENDOR = 0xc0,              /* opcodes and FCTYPEs from here on */
        LOG_OFFSET_INDEX = 1 << 23, /* CDW14 (OT): the offset counts entries */
};

bool sqe_counts_bytes(const struct queue_past *q, const union sqe *s)
{
        if (s->opc == NVME_FABRICS)
                return s->fctype == FCTYPE_AUTH_SEND || s->fctype == FCTYPE_AUTH_RECEIVE ||
                       s->fctype >= VENDOR;
        return s->opc >= VENDOR ||
               (q->qid <= 0 && (s->opc == SECURITY_SEND || s->opc == SECURITY_RECEIVE));
}

/* Of the Persistent Event log a context is released without data, and with action 3 it is the header that is read,
 * whatever NUMD says (B2.2 5.1.12.1.14). */
static uint32_t log_most(const union sqe *s)
{
        static const uint32_t most[] = { UINT32_MAX, UINT32_MAX, 0, LOG_PEL_HEADER };
        uint32_t cdw10 = le32_get(s->cdw10);

        return (cdw10 & 0xff) == LOG_PERSISTENT ? most[cdw10 >> 8 & 3] : UINT32_MAX;
}

static uint32_t log_needs(const union sqe *s)
{
        uint64_t numd = (le32_get(s->cdw10) >> 16) | (uint64_t)(le32_get(s->cdw11) & 0xffff) << 16;
        uint32_t bytes = numd < UINT32_MAX / 4 ? (uint32_t)(numd + 1) * 4 : 0;

        return bytes < log_most(s) ? bytes : log_most(s);
}

uint32_t sqe_needs(const struct queue_past *q, const union sqe *s)
{
        if (q->qid != 0)
                return 0;
        if (s->opc == NVME_IDENTIFY)
                return IDENTIFY_LEN;
        return s->opc == NVME_GET_LOG_PAGE ? log_needs(s) : 0;
}

/* Bytes; of a page that has no fixed length its header, or an entry; 0: not known. */
static uint32_t page_bytes(uint8_t lid)
{
        static const uint16_t bytes[UINT8_MAX + 1] = {
                [LOG_SUPPORTED] = 1024,
                [LOG_ERROR] = sizeof(struct log_error),
                [LOG_SMART] = sizeof(struct log_smart),
                [LOG_FW_SLOT] = sizeof(struct log_fw_slot),
                [LOG_CHANGED_NS] = LOG_CHANGED_NS_MAX * 4,
                [LOG_EFFECTS] = sizeof(struct log_effects),
                [LOG_ANA] = sizeof(struct log_ana),
                [LOG_PERSISTENT] = sizeof(struct log_pel),
                [LOG_LBA_STATUS] = 16,
                [LOG_FEATURE_EFFECTS] = 1024,
                [LOG_MI_EFFECTS] = 4096,
                [LOG_LOCKDOWN] = 512,
                [LOG_DISCOVERY] = sizeof(struct disc_header),
                [LOG_RESERVATION] = sizeof(struct log_reservation),
                [LOG_SANITIZE] = 512,
        };

        return bytes[lid];
}

/* What is beyond the end of the page is undefined (B2.2 5.1.12, figure 198: NUMDL). */
static uint32_t log_delivers(const union sqe *s)
{
        uint64_t offset = le32_get(s->cdw12) | (uint64_t)le32_get(s->cdw13) << 32;
        uint32_t page = page_bytes(le32_get(s->cdw10) & 0xff), asked = log_needs(s);
        uint32_t left = offset < page ? page - (uint32_t)offset : 0;

        if (le32_get(s->cdw14) & LOG_OFFSET_INDEX)
                return 0;
        return asked < left ? asked : left;
}

/* The structure that is returned with its Current, Default or Saved value, and of ranges the first; Supported Capabilities
 * have none (B2.2 5.1.25.1, N1.1 4.1.3.1). */
static uint32_t feature_delivers(const union sqe *s)
{
        if (feature_select(s) >= FEATURE_CAPABILITIES)
                return 0;
        switch (le32_get(s->cdw10) & 0xff) {
        case FEAT_LBA_RANGES:
                return LBA_RANGE_LEN;
        case FEAT_TIMESTAMP:
                return TIMESTAMP_LEN;
        case FEAT_HOST_BEHAVIOR:
                return HOST_BEHAVIOR_LEN;
        case FEAT_AGENT:
        case FEAT_HOST_AGENT:
                return AGENT_LEN;
        case FEAT_HOSTID:
                return le32_get(s->cdw11) & EXHID ? 16 : 8;
        default:
                return 0;
        }
}

uint32_t admin_delivers(const union sqe *s)
{
        if (s->opc == NVME_IDENTIFY)
                return IDENTIFY_LEN;
        if (s->opc == NVME_GET_FEATURES)
                return feature_delivers(s);
        return s->opc == NVME_GET_LOG_PAGE ? log_delivers(s) : 0;
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
        rule_add_if(found, q->connected, FAB_CONNECT_ONCE);
        rule_add_if(found, le16_get(s->connect.recfmt) != 0, FAB_CONNECT_RECFMT);
        rule_add_if(found, le16_get(s->connect.qid) == UINT16_MAX, FAB_CONNECT_QID);
        rule_add_if(found, le16_get(s->connect.sqsize) == 0, FAB_CONNECT_SQSIZE_ZERO);
        rule_add_if(found, described(&s->sgl) < CONNECT_DATA_LEN, FAB_CONNECT_DATA);
}

static void judge_disconnect(struct rule_set *found, const struct queue_past *q, const union sqe *s)
{
        rule_add_if(found, q->qid == 0, FAB_DISCONNECT_ADMIN);
        rule_add_if(found, le16_get(s->disconnect.recfmt) != 0, FAB_DISCONNECT_RECFMT);
}

static void judge_property(struct rule_set *found, const struct queue_past *q, const union sqe *s)
{
        uint32_t ofst = le32_get(s->property.ofst);
        unsigned size = property_size(ofst), asked = s->property.attrib & 7;
        unsigned attrib = size == 8 ? PROP_ATTRIB_8 : PROP_ATTRIB_4;
        bool read_only = property_name(ofst) && !property_is_writable(ofst);

        rule_add_if(found, q->qid > 0, FAB_PROP_QUEUE);
        rule_add_if(found, !property_begins(ofst), FAB_PROP_OFFSET);
        rule_add_if(found, size > 0 && asked != attrib, FAB_PROP_SIZE);
        rule_add_if(found, read_only && s->fctype == FCTYPE_PROPERTY_SET, FAB_PROP_RO);
}

/* Hosts say 01b with all Fabrics commands, so that is let pass, and 00b and 10b wherever they are. */
static void judge_flags(struct rule_set *found, const union sqe *s)
{
        rule_add_if(found, s->flags & SQE_FUSE_MASK, FAB_FUSE);
        rule_add_if(found, (s->flags & SQE_PSDT_MASK) == SQE_PSDT_MASK, FAB_PSDT);
}

static void judge_fabrics(struct rule_set *found, const struct queue_past *q, const union sqe *s)
{
        rule_add_if(found, !fctype_name(s->fctype) && s->fctype < VENDOR, FAB_FCTYPE);
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

bool sqe_has_no_nsid(const union sqe *s)
{
        static const uint8_t opcodes[] = { NVME_ABORT, NVME_AER, NVME_KEEP_ALIVE };

        return memchr(opcodes, s->opc, sizeof(opcodes));
}

static bool identifies_controller(const union sqe *s)
{
        return s->opc == NVME_IDENTIFY && (le32_get(s->cdw10) & 0xff) == CNS_CTRL;
}

/* I/O commands that a single namespace is asked for. */
static bool has_one_nsid(const union sqe *s)
{
        static const uint8_t opcodes[] = { NVME_WRITE,       NVME_READ, NVME_WRITE_UNCORRECTABLE,
                                           NVME_COMPARE,     NVME_DSM,  NVME_VERIFY,
                                           NVME_WRITE_ZEROES };

        return memchr(opcodes, s->opc, sizeof(opcodes));
}

static void judge_io(struct rule_set *found, const union sqe *s)
{
        rule_add_if(found, has_one_nsid(s) && le32_get(s->nsid) == NSID_ALL, FAB_NSID_ALL);
        rule_add_if(found, (s->flags & SQE_FUSE_MASK) == SQE_FUSE_MASK, FUSE_RESERVED);
}

static void judge_admin(struct rule_set *found, const struct queue_past *q, const union sqe *s)
{
        bool known = !manages_queues(s->opc), enabled = q->cc & CC_EN;

        rule_add_if(found, !known, FAB_OPCODE);
        rule_add_if(found, known && !enabled, FAB_ENABLED);
        rule_add_if(found, known && enabled && CC_SHN(q->cc), FAB_SHUTDOWN);
        rule_add_if(found, sqe_needs(q, s) > described(&s->sgl), FAB_SGL_SHORT);
        rule_add_if(found, turns_keep_alive_off(s), KA_ZERO);
        rule_add_if(found, (sqe_has_no_nsid(s) || identifies_controller(s)) && le32_get(s->nsid),
                    FAB_NSID_UNUSED);
        rule_add_if(found, s->flags & SQE_FUSE_MASK, FUSE_UNSUPPORTED);
}

void judge_sqe(struct rule_set *found, const struct queue_past *q, const union sqe *s)
{
        bool connect = sqe_is_connect(s);

        rule_add_if(found, q->qid < 0 && !q->mid_stream && !connect, FAB_FIRST_CONNECT);
        rule_add_if(found, !q->keyed && wrong_sgl_type(s), TCP_SGL_TYPE);
        if (s->opc == NVME_FABRICS)
                judge_fabrics(found, q, s);
        else if (q->qid == 0 && q->connected)
                judge_admin(found, q, s);
        else if (q->qid > 0)
                judge_io(found, s);
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
        static const uint8_t io[] = { NVME_FLUSH,
                                      NVME_WRITE,
                                      NVME_READ,
                                      NVME_DSM,
                                      NVME_COMPARE,
                                      NVME_VERIFY,
                                      NVME_WRITE_UNCORRECTABLE };

        if (opc == NVME_FABRICS)
                return fctype == FCTYPE_PROPERTY_SET || fctype == FCTYPE_DISCONNECT;
        if (q->qid == 0)
                return memchr(admin, opc, sizeof(admin));
        return q->qid > 0 && memchr(io, opc, sizeof(io));
}

/* --- what each status and event may be */

struct span { /* of values */
        uint16_t first, last;
};

static bool is_in(uint16_t value, const struct span *list, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (value >= list[i].first && value <= list[i].last)
                        return true;
        return false;
}
#define IN(value, list) is_in((value), (list), sizeof(list) / sizeof((list)[0]))

/* B2.2 4.2.3, figures 101 to 107; some that only a command set has are not told apart. */
static bool is_reserved_status(uint16_t status)
{
        static const struct span reserved[] = {
                { 0x017, 0x017 }, { 0x02b, 0x07f }, { 0x08a, 0x0bf }, { 0x104, 0x104 },
                { 0x117, 0x117 }, { 0x13c, 0x16f }, { 0x200, 0x27f }, { 0x289, 0x2bf },
                { 0x304, 0x35f }, { 0x361, 0x37f }, { 0x400, 0x6ff },
        };

        return IN(status, reserved);
}

/* Statuses of up to twelve opcodes; what no table has is not judged. */
struct owners {
        uint16_t first, last;
        uint8_t opcodes[12];
};

static bool is_foreign_to(const struct owners *o, uint8_t opc)
{
        return !memchr(o->opcodes, opc, sizeof(o->opcodes)) ||
               (opc == 0 && o->first != 0x100 && o->first != 0x182);
}

/* Admin commands: B2.2 figure 103. I/O commands: N1.2 3.1.2. */
static bool is_foreign_status(const struct queue_past *q, uint8_t opc, uint16_t status)
{
        enum { ZONE_SEND = 0x79, ZONE_RECEIVE = 0x7a, ZONE_APPEND = 0x7d };
        static const struct owners io[] = {
                { 0x014,
                  0x014,
                  { NVME_COMPARE, NVME_COPY, NVME_WRITE, NVME_WRITE_UNCORRECTABLE,
                    NVME_WRITE_ZEROES, ZONE_APPEND } },
                { 0x025,
                  0x025,
                  { NVME_COMPARE, NVME_COPY, NVME_READ, NVME_VERIFY, NVME_WRITE, NVME_WRITE_ZEROES,
                    ZONE_APPEND } },
                { 0x080,
                  0x080,
                  { NVME_COMPARE, NVME_COPY, NVME_DSM, NVME_READ, NVME_VERIFY, NVME_WRITE,
                    NVME_WRITE_UNCORRECTABLE, NVME_WRITE_ZEROES, ZONE_APPEND, ZONE_RECEIVE,
                    ZONE_SEND } },
                { 0x285, 0x285, { NVME_COMPARE } },
                { 0x287, 0x287, { NVME_COMPARE, NVME_COPY, NVME_READ, NVME_VERIFY } },
                { 0x180, 0x180, { NVME_DSM, NVME_READ, NVME_WRITE } },
                { 0x181,
                  0x181,
                  { NVME_COMPARE, NVME_COPY, NVME_READ, NVME_VERIFY, NVME_WRITE,
                    NVME_WRITE_ZEROES } },
                { 0x182,
                  0x182,
                  { NVME_COPY, NVME_DSM, NVME_FLUSH, NVME_WRITE, NVME_WRITE_UNCORRECTABLE,
                    NVME_WRITE_ZEROES } },
                { 0x183, 0x183, { NVME_COPY, NVME_DSM } },
                { 0x185, 0x189, { NVME_COPY } },
        };
        static const struct owners admin[] = {
                { 0x014, 0x014, { 0 } },
                { 0x025, 0x025, { 0 } },
                { 0x285, 0x285, { 0 } },
                { 0x100,
                  0x102,
                  { NVME_CREATE_SQ, NVME_CREATE_CQ, NVME_DELETE_SQ, NVME_DELETE_CQ } },
                { 0x103, 0x103, { NVME_ABORT } },
                { 0x105, 0x105, { NVME_AER } },
                { 0x106, 0x107, { 0x10 } },
                { 0x108, 0x108, { NVME_CREATE_CQ } },
                { 0x109, 0x109, { NVME_GET_LOG_PAGE } },
                { 0x10a, 0x10a, { 0x80, 0x0d } },
                { 0x10b, 0x10b, { 0x10, 0x84 } },
                { 0x10c, 0x10c, { NVME_DELETE_CQ } },
                { 0x10d, 0x10f, { NVME_SET_FEATURES } },
                { 0x110, 0x111, { 0x10, 0x84 } },
                { 0x112, 0x113, { 0x10 } },
                { 0x114, 0x114, { 0x10, 0x11, NVME_SET_FEATURES } },
                { 0x115, 0x116, { 0x0d } },
                { 0x118, 0x11a, { 0x15 } },
                { 0x11b, 0x11b, { 0x0d } },
                { 0x11c, 0x11c, { 0x15 } },
                { 0x11d, 0x11d, { 0x14 } },
                { 0x11e, 0x11e, { 0x10 } },
                { 0x120, 0x122, { 0x1c } },
                { 0x123, 0x123, { 0x84 } },
                { 0x124, 0x124, { 0x0d } },
                { 0x125, 0x125, { 0x15 } },
                { 0x126, 0x126, { 0x20 } },
                { 0x127, 0x127, { 0x15 } },
                { 0x128, 0x128, { 0x24 } },
                { 0x129, 0x129, { 0x15, 0x0d, NVME_GET_LOG_PAGE } }, /* 5.1.12.4 has it, too */
                { 0x12a, 0x12a, { 0x15 } },
                { 0x12b, 0x12b, { NVME_SET_FEATURES } },
                { 0x12c, 0x12c, { NVME_IDENTIFY } },
                { 0x190, 0x190, { NVME_GET_LOG_PAGE } },
        };

        const struct owners *list = q->qid == 0 ? admin : io;
        size_t n = q->qid == 0 ? sizeof(admin) / sizeof(admin[0]) : sizeof(io) / sizeof(io[0]);

        if (opc == NVME_FABRICS || opc >= VENDOR || q->qid < 0)
                return false;
        for (size_t i = 0; i < n; i++)
                if (status >= list[i].first && status <= list[i].last)
                        return is_foreign_to(&list[i], opc);
        return false;
}

/* B2.2 4.2.3.1 (figure 102) */
static bool is_wrong_retry(const struct queue_past *q, const struct cqe *cqe)
{
        uint16_t status = cqe_status(cqe);

        return ((status == 0x021 || status == 0x084) && cqe_dnr(cqe)) ||
               (status == 0x024 && q->qid > 0);
}

/* Events, and the log page of each (figures 150 to 153); 0: it has none. */
static const struct event_kind {
        uint8_t type, first, last, lid;
} event_kinds[] = {
        { AEN_ERROR, 0, 5, LOG_ERROR },
        { AEN_SMART, 0, 2, LOG_SMART },
        { AEN_NOTICE, AEN_INFO_NS_CHANGED, AEN_INFO_NS_CHANGED, LOG_CHANGED_NS },
        { AEN_NOTICE, 1, 1, LOG_FW_SLOT },
        { AEN_NOTICE, 2, 2, 0x08 },
        { AEN_NOTICE, AEN_INFO_ANA, AEN_INFO_ANA, LOG_ANA },
        { AEN_NOTICE, 4, 4, 0x0b },
        { AEN_NOTICE, 5, 5, 0x0e },
        { AEN_NOTICE, 6, 6, 0x0f },
        { AEN_NOTICE, 7, 7, 0x1a },
        { AEN_NOTICE, 8, 8, 0x1b },
        { AEN_NOTICE, 9, 9, LOG_CHANGED_ALLOCATED },
        { AEN_NOTICE, 0xef, 0xef, 0xbf },
        { AEN_NOTICE, AEN_INFO_DISCOVERY, AEN_INFO_DISCOVERY, LOG_DISCOVERY },
        { AEN_NOTICE, 0xf1, 0xf1, 0x71 },
        { AEN_NOTICE, 0xf2, 0xf2, 0x72 },
        { AEN_NOTICE, 0xf3, 0xf3, 0x73 },
        { AEN_IMMEDIATE, 0, 1, 0 },
        { AEN_ONE_SHOT, 0, 1, 0 },
        { AEN_COMMAND_SET, 0, 0, LOG_RESERVATION },
        { AEN_COMMAND_SET, 1, 3, LOG_SANITIZE },
};

/* Of errors, of health, and of notices of logs and attributes figure 149 defines no parameter. */
static bool has_parameter(uint8_t type, uint8_t info)
{
        bool plain = info <= 3 || info == AEN_INFO_DISCOVERY;

        return type > AEN_NOTICE || (type == AEN_NOTICE && !plain);
}

static void judge_event(struct rule_set *found, uint64_t result)
{
        uint8_t type = result & 7, info = (uint8_t)(result >> 8), lid = (uint8_t)(result >> 16);

        rule_add_if(found, result & 0xff0000f8 || (result >> 32 && !has_parameter(type, info)),
                    CQE_RESERVED);
        if (type == AEN_VENDOR)
                return;
        for (size_t i = 0; i < sizeof(event_kinds) / sizeof(event_kinds[0]); i++) {
                const struct event_kind *k = &event_kinds[i];

                if (k->type != type || info < k->first || info > k->last)
                        continue;
                rule_add_if(found, k->lid && lid != k->lid, AER_FORM);
                return;
        }
        rule_add(found, CQE_RESERVED);
}

static void judge_result(struct rule_set *found, uint8_t opc, uint64_t result)
{
        if (opc == NVME_AER)
                judge_event(found, result);
        else if (opc == NVME_ABORT)
                rule_add_if(found, (uint32_t)result & ~1u, CQE_RESERVED);
}

void judge_cqe(struct rule_set *found, const struct queue_past *q, uint8_t opc, uint8_t fctype,
               const struct cqe *cqe)
{
        uint16_t status = cqe_status(cqe);
        uint64_t result = le64_get(cqe->result);
        uint16_t sf = le16_get(cqe->sf) >> 1;

        rule_add_if(found, !status && sf & (STATUS_DNR | STATUS_CRD), FAB_SUCCESS_BITS);
        rule_add_if(found, is_reserved_status(status), STATUS_RESERVED);
        rule_add_if(found, is_foreign_status(q, opc, status), STATUS_COMMAND);
        rule_add_if(found, is_wrong_retry(q, cqe), STATUS_RETRY);
        if (q->qid == 0 && !status)
                judge_result(found, opc, result);
        if (opc == NVME_FABRICS && fctype == FCTYPE_CONNECT) {
                rule_add_if(found, status == NVME_INVALID_FIELD && !q->nvm_set,
                            FAB_CONNECT_NOT_FIELD);
                rule_add_if(found, result & ~connect_result(status), FAB_CONNECT_RSVD);
                rule_add_if(found, !status && (result & 0xffff) > CNTLID_MAX, FAB_CONNECT_CNTLID);
        } else if (status == NVME_SUCCESS) {
                rule_add_if(found, result && has_no_result(q, opc, fctype), FAB_CQE_ZERO);
        } else {
                rule_add_if(found, status == NVME_AUTH_REQUIRED && q->open, FAB_AUTH_NOT_ASKED);
        }
}
