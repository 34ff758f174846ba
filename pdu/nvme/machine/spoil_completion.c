/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be wrong with the outcome of a command, whatever transport it goes by: values of Identify,
 * properties and log pages, statuses. */
#include "pdu/nvme/wire/answers.h"
#include "spoil_table.h"

struct done {
        const union sqe *sqe;
        struct cqe *cqe;
        uint8_t *data;
        uint32_t len;
        uint32_t which; /* CNS or offset of the property that is looked for */
};

static bool succeeded(const struct done *d)
{
        return cqe_status(d->cqe) == NVME_SUCCESS;
}

static bool done_connect(const struct done *d)
{
        return sqe_is_connect(d->sqe);
}

static bool done_connected(const struct done *d)
{
        return done_connect(d) && succeeded(d);
}

static bool done_connect_failed(const struct done *d)
{
        return done_connect(d) && !succeeded(d);
}

static bool done_not_connect(const struct done *d)
{
        return !done_connect(d);
}

/* Commands without a result, on either kind of queue. */
static bool done_without_result(const struct done *d)
{
        return succeeded(d) && (d->sqe->opc == NVME_IDENTIFY || d->sqe->opc == NVME_WRITE);
}

static bool done_long_sgl(const struct done *d)
{
        uint32_t len = sgl_len(&d->sqe->sgl);
        uint32_t ranges = (le32_get(d->sqe->cdw10) & 0xff) + 1;

        if (d->sqe->opc == NVME_DSM && spoil_has_nsid(d->sqe))
                return len > ranges * sizeof(struct dsm_range);
        return d->sqe->opc == NVME_IDENTIFY && len > IDENTIFY_LEN;
}

static bool done_property(const struct done *d)
{
        return succeeded(d) && sqe_is_fabrics(d->sqe, FCTYPE_PROPERTY_GET) &&
               le32_get(d->sqe->property.ofst) == d->which;
}

/* Also where it is refused. */
static bool done_any_property(const struct done *d)
{
        return sqe_is_fabrics(d->sqe, FCTYPE_PROPERTY_GET) &&
               le32_get(d->sqe->property.ofst) == d->which;
}

static bool done_reserved_property(const struct done *d)
{
        return !succeeded(d) && sqe_is_fabrics(d->sqe, FCTYPE_PROPERTY_GET) &&
               property_is_reserved(le32_get(d->sqe->property.ofst));
}

static bool done_keep_alive(const struct done *d)
{
        return succeeded(d) && d->sqe->opc == NVME_KEEP_ALIVE && !spoil_has_nsid(d->sqe);
}

static bool done_flush(const struct done *d)
{
        return succeeded(d) && d->sqe->opc == NVME_FLUSH && spoil_has_nsid(d->sqe);
}

static bool done_abort(const struct done *d)
{
        return succeeded(d) && d->sqe->opc == NVME_ABORT && !spoil_has_nsid(d->sqe);
}

static bool done_aer(const struct done *d)
{
        return succeeded(d) && d->sqe->opc == NVME_AER && !spoil_has_nsid(d->sqe);
}

/* Get Log Page of the LID that is looked for. */
static bool done_log_refused(const struct done *d)
{
        return !succeeded(d) && d->sqe->opc == NVME_GET_LOG_PAGE && !spoil_has_nsid(d->sqe) &&
               (le32_get(d->sqe->cdw10) & 0xff) == d->which;
}

static bool done_identify(const struct done *d)
{
        return succeeded(d) && d->sqe->opc == NVME_IDENTIFY &&
               (le32_get(d->sqe->cdw10) & 0xff) == d->which;
}

/* Of its current value. */
static bool done_get_feature(const struct done *d, uint8_t fid)
{
        uint32_t dw10 = le32_get(d->sqe->cdw10);

        return succeeded(d) && d->sqe->opc == NVME_GET_FEATURES && (dw10 & 0xff) == fid &&
               (dw10 >> 8 & 7) == 0;
}

/* Of its capabilities. */
static bool done_capabilities(const struct done *d)
{
        uint32_t dw10 = le32_get(d->sqe->cdw10);

        return succeeded(d) && d->sqe->opc == NVME_GET_FEATURES &&
               (dw10 & 0xff) == FEAT_ARBITRATION && (dw10 >> 8 & 7) == 3;
}

static bool done_get_power(const struct done *d)
{
        return done_get_feature(d, FEAT_POWER);
}

static bool done_get_queues(const struct done *d)
{
        return done_get_feature(d, FEAT_QUEUES);
}

/* A Read that was refused for what it asks. */
static bool done_long_read(const struct done *d)
{
        return d->sqe->opc == NVME_READ && cqe_status(d->cqe) == NVME_INVALID_FIELD &&
               spoil_has_nsid(d->sqe);
}

static bool done_get_kato(const struct done *d)
{
        return done_get_feature(d, FEAT_KATO);
}

static bool done_get_aec(const struct done *d)
{
        return done_get_feature(d, FEAT_AEC);
}

static bool done_get_timestamp(const struct done *d)
{
        return done_get_feature(d, FEAT_TIMESTAMP);
}

static bool done_discovery(const struct done *d)
{
        return succeeded(d) && d->sqe->opc == NVME_GET_LOG_PAGE && !spoil_has_nsid(d->sqe) &&
               (le32_get(d->sqe->cdw10) & 0xff) == LOG_DISCOVERY;
}

/* Any log page whose number is looked for, from its beginning. */
static bool done_log(const struct done *d)
{
        return succeeded(d) && d->sqe->opc == NVME_GET_LOG_PAGE && !spoil_has_nsid(d->sqe) &&
               (le32_get(d->sqe->cdw10) & 0xff) == d->which;
}

/* LPO; the log has 1024 bytes of header and entries of 1024 bytes, so low halves are enough. */
static uint32_t log_offset(const struct done *d)
{
        bool by_index = le32_get(d->sqe->cdw14) >> 23 & 1;

        return le32_get(d->sqe->cdw12) * (by_index ? DISC_ENTRY_LEN : 1u);
}

struct completion {
        enum rule_id rule;
        enum { IN_CQE, IN_DATA, IN_LOG } where; /* IN_LOG: offset counts from the log's begin */
        bool (*fits)(const struct done *d);
        struct change change;
        uint32_t which; /* of done_property(), done_identify() */
};

#define CQE(name, when, member, ...)                                                               \
        {                                                                                          \
                (name), IN_CQE, (when), { AT(struct cqe, member), __VA_ARGS__ }, 0                 \
        }
#define PROPERTY(name, ofst, member, ...)                                                          \
        {                                                                                          \
                (name), IN_CQE, done_property, { AT(struct cqe, member), __VA_ARGS__ }, (ofst)     \
        }
#define IDENTIFY(name, cns, type, member, ...)                                                     \
        {                                                                                          \
                (name), IN_DATA, done_identify, { AT(struct type, member), __VA_ARGS__ }, (cns)    \
        }
#define ID(name, member, ...) IDENTIFY(name, CNS_CTRL, id_ctrl, member, __VA_ARGS__)
/* A reserved log page (6Fh) ends with this status. */
#define REFUSED(name, sf_)                                                                         \
        {                                                                                          \
                (name), IN_CQE, done_log_refused, { AT(struct cqe, sf), PUT, (sf_) }, 0x6f         \
        }
#define ENTRY(name, member, ...)                                                                   \
        {                                                                                          \
                (name), IN_LOG, done_discovery,                                                    \
                    { DISC_HEADER_LEN + offsetof(struct disc_entry, member), __VA_ARGS__ }, 0      \
        }
#define LOG(name, lid, offset, size, ...)                                                          \
        {                                                                                          \
                (name), IN_LOG, done_log, { (offset), (size), __VA_ARGS__ }, (lid)                 \
        }

#define PORT_8009 UINT64_C(0x2020202039303038) /* TRSVCID begins so */

/* What is known only when the response leaves. */
static const struct completion heads[] = { CQE(FAB_SQHD, done_not_connect, sqhd, PUT, 0xfffe) };

static const struct completion completions[] = {
        /* clang-format off */
        CQE(FAB_CQE_ZERO, done_without_result, dw0, PUT, 0x5a5a5a5a),
        CQE(FAB_SUCCESS_BITS, done_without_result, sf, FLIP, STATUS_DNR << 1),
        CQE(FAB_SGL_LONG, done_long_sgl, sf, PUT, NVME_SGL_LENGTH << 1),
        CQE(FAB_CONNECT_NOT_FIELD, done_connect_failed, sf, PUT, NVME_INVALID_FIELD << 1),
        CQE(FAB_CONNECT_NOT_FIELD, done_connect_failed, dw0, PUT, 0),
        CQE(FAB_CONNECT_RSVD, done_connected, dw1, PUT, 1),
        { FAB_CONNECT_CNTLID, IN_CQE, done_connected, { offsetof(struct cqe, dw0), 2, PUT, 0xfff0 }, 0 },
        { FAB_CNTLID_OWN, IN_CQE, done_connected, { offsetof(struct cqe, dw0), 2, PUT, 1 }, 0 },
        { FAB_PROP_ZERO, IN_CQE, done_any_property, { AT(struct cqe, result), PUT, 1 }, PROP_NSSR },
        { FAB_PROP_ZERO, IN_CQE, done_any_property, { AT(struct cqe, sf), PUT, 0 }, PROP_NSSR },
        PROPERTY(FAB_PROP_UPPER, PROP_VS, dw1, PUT, 1),
        CQE(FEAT_NSSPEC, done_capabilities, dw0, FLIP, 2),
        CQE(FEAT_KEPT, done_get_power, dw0, FLIP, 0x20),
        CQE(FEAT_QUEUES_KEPT, done_get_queues, dw0, ADD, 1),
        CQE(ID_MDTS, done_long_read, sf, PUT, 0),
        CQE(CMD_MANDATORY, done_flush, sf, PUT, NVME_INVALID_OPCODE << 1),
        CQE(FAB_AUTH_NOT_ASKED, done_keep_alive, sf, PUT, NVME_AUTH_REQUIRED << 1),
        PROPERTY(FAB_CAP, PROP_CAP, result, FLIP, CAP_CQR),
        PROPERTY(FAB_CAP_AGREES, PROP_CAP, result, FLIP, UINT64_C(1) << 61),
        PROPERTY(FAB_CAP_ADVISED, PROP_CAP, result, FLIP, CAP_CSS_NVM | CAP_CSS_IOCSS),
        PROPERTY(FAB_CAP_DISC, PROP_CAP, result, FLIP, CAP_MPSMAX),
        PROPERTY(FAB_CRMS, PROP_CAP, result, FLIP, CAP_CRMS_CRWMS),
        PROPERTY(FAB_CRTO, PROP_CRTO, sf, PUT, NVME_INVALID_FIELD << 1),
        PROPERTY(FAB_PROP_RSVD, PROP_CSTS, result, FLIP, 1 << 20),
        CQE(FAB_PROP_RSVD, done_reserved_property, result, PUT, 0x5a),
        CQE(FAB_PROP_RSVD, done_reserved_property, sf, PUT, 0),
        CQE(ABORT_UNKNOWN, done_abort, dw0, PUT, 0),
        { AER_FORM, IN_CQE, done_aer, { offsetof(struct cqe, dw0) + 2, 1, FLIP, 2 }, 0 },
        CQE(CQE_RESERVED, done_abort, dw0, FLIP, 0x100),
        REFUSED(STATUS_RESERVED, 0x02b << 1),
        REFUSED(STATUS_COMMAND, NVME_ABORT_LIMIT << 1),
        REFUSED(STATUS_RETRY, (0x084 | STATUS_DNR) << 1),
        PROPERTY(FAB_VS, PROP_VS, result, PUT, 0),
        PROPERTY(FAB_CC_READBACK, PROP_CC, result, FLIP, CC_EN),
        ID(ID_CNTLID, cntlid, FLIP, STRANGE),
        { ID_SUBNQN, IN_DATA, done_identify, { offsetof(struct id_ctrl, subnqn), 1, FLIP, 1 }, CNS_CTRL },
        ID(ID_IOCCSZ, ioccsz, PUT, 3),
        ID(ID_ICDOFF, icdoff, PUT, 1),
        ID(ID_SGLS, sgls, PUT, 0),
        ID(ID_KAS, kas, PUT, 0),
        ID(ID_CNTRLTYPE, cntrltype, PUT, 0),
        ID(ID_MAXCMD, maxcmd, PUT, 0),
        { ID_TEXT, IN_DATA, done_identify, { offsetof(struct id_ctrl, fr), 1, PUT, 0 }, CNS_CTRL },
        ID(ID_QES, sqes, PUT, 0x67),
        ID(ID_CTRL_FIELDS, wctemp, PUT, 0),
        ID(ID_CTRL_AGREES, anagrpmax, PUT, 1),
        ID(ID_CTRL_ADVISED, acl, PUT, 2),
        ID(ID_POWER, psd[0].rrt, PUT, 31),
        ID(ID_DISCOVERY, oaes, PUT, 0),
        ID(ID_RESERVED, rsvd388, FLIP, 1),
        IDENTIFY(ID_NS_FIELDS, CNS_NS, id_ns, nabo, PUT, 1),
        IDENTIFY(ID_NS_FORMAT, CNS_NS, id_ns, dps, PUT, 1),
        IDENTIFY(ID_NS_RESERVED, CNS_NS, id_ns, rsvd83, PUT, 1),
        IDENTIFY(ID_NS_INDEPENDENT, CNS_NS_INDEPENDENT, id_ns_independent, rescap, PUT, 1),
        IDENTIFY(RESV_CAPABLE, CNS_NS, id_ns, rescap, PUT, 0x82),
        IDENTIFY(ID_NS_ATOMIC, CNS_NS, id_ns, nawupf, PUT, 0xfff0),
        IDENTIFY(ID_NS_ADVISED, CNS_NS, id_ns, npwa, PUT, 0x5555),
        IDENTIFY(ID_NVM_CTRL, CNS_IOCS_CTRL, id_nvm_ctrl, dmrl, PUT, 1),
        IDENTIFY(ID_NVM_NS, CNS_IOCS_NS, id_nvm_ns, pifa, PUT, 2),
        IDENTIFY(ID_NS, CNS_NS, id_ns, nuse, PUT, UINT64_MAX),
        IDENTIFY(ID_NS_DESCS, CNS_NS_DESCS, ns_desc, nidl, PUT, 5),
        CQE(FEAT_KEPT, done_get_aec, dw0, FLIP, 1),
        { FEAT_KEPT, IN_DATA, done_get_timestamp, { 5, 1, FLIP, 1 }, 0 },
        CQE(KA_ROUND, done_get_kato, dw0, ADD, 1),
        LOG(LOG_SUPPORTED_FIELDS, LOG_SUPPORTED, 4 * LOG_SMART, 1, PUT, 0),
        LOG(LOG_SERVED, LOG_SUPPORTED, 4 * 0x06, 1, PUT, 1),
        LOG(LOG_ERROR_FIELDS, LOG_ERROR, offsetof(struct log_error, vsia), 1, PUT, 1),
        LOG(LOG_SMART_FIELDS, LOG_SMART, offsetof(struct log_smart, spare), 1, PUT, 101),
        LOG(LOG_FIRMWARE_FIELDS, LOG_FW_SLOT, offsetof(struct log_fw_slot, frs[6]), 1, PUT, 'x'),
        LOG(LOG_LIST_FIELDS, LOG_CHANGED_NS, 4, 4, PUT, UINT32_MAX),
        LOG(LOG_EFFECTS_FIELDS, LOG_EFFECTS, 4 * NVME_IDENTIFY, 1, PUT, 0),
        LOG(LOG_FEATURE_FIELDS, LOG_FEATURE_EFFECTS, 4 * FEAT_KATO, 1, PUT, 0),
        LOG(LOG_ANA_FIELDS, LOG_ANA, sizeof(struct log_ana) + offsetof(struct ana_group, state), 1, PUT, 5),
        ID(ANA_CAPABILITIES, anacap, FLIP, 1),
        ID(ANA_STATES, anacap, PUT, 1),
        LOG(ANA_MEMBERS, LOG_ANA, sizeof(struct log_ana) + sizeof(struct ana_group), 1, FLIP, 2),
        LOG(LOG_PEL_FIELDS, LOG_PERSISTENT, 0, 1, PUT, 0),
        LOG(LOG_RESERVATION_FIELDS, LOG_RESERVATION, 8, 1, PUT, 4),
        LOG(LOG_SANITIZE_FIELDS, LOG_SANITIZE, 2, 1, PUT, 7),
        LOG(LOG_RESERVED, LOG_SMART, offsetof(struct log_smart, rsvd7), 1, PUT, 1),
        { DISC_HEADER, IN_LOG, done_discovery, { AT(struct disc_header, recfmt), PUT, 1 }, 0 },
        ENTRY(DISC_ENTRY, trtype, 1, PUT, 0),
        ENTRY(DISC_LOG_FIELDS, treq, 1, PUT, 3),
        ENTRY(DISC_TRSVCID, trsvcid, 2, PUT, 'x'),
        ENTRY(DISC_TSAS, tsas, 1, PUT, 0x77),
        ENTRY(DISC_TSAS_RSVD, tsas[255], 1, PUT, 0x77),
        ENTRY(DISC_RSVD, rsvd64, 1, PUT, 1),
        /* the second one: the first is the discovery service's own */
        { DISC_PORT, IN_LOG, done_discovery,
          { DISC_HEADER_LEN + DISC_ENTRY_LEN + offsetof(struct disc_entry, trsvcid), 8, PUT, PORT_8009 }, 0 },
        /* clang-format on */
};

/* Rules that RDMA has in place of those of TCP. */
static const struct completion rdma_completions[] = {
        /* clang-format off */
        ID(RDMA_SGLS, sgls, PUT, 1),
        ID(RDMA_ICDOFF, icdoff, PUT, 0xffff),
        ENTRY(RDMA_DISC_TRSVCID, trsvcid, 2, PUT, 'x'),
        ENTRY(RDMA_DISC_TSAS, tsas, 1, PUT, 0x77),
        ENTRY(RDMA_DISC_TSAS_RSVD, tsas[255], 1, PUT, 0x77),
        /* clang-format on */
};

enum {
        HEADS = sizeof(heads) / sizeof(heads[0]),
        COMPLETIONS = sizeof(completions) / sizeof(completions[0]),
        RDMA_COMPLETIONS = sizeof(rdma_completions) / sizeof(rdma_completions[0]),
};

static bool spoil_bytes(uint8_t *base, uint32_t len, struct change c, uint32_t skipped)
{
        if (!base || c.offset < skipped || c.offset - skipped + (uint32_t)c.size > len)
                return false;
        c.offset = (uint16_t)(c.offset - skipped);
        spoil_make(base, &c);
        return true;
}

static bool spoil_done(const struct completion *v, struct done *d)
{
        d->which = v->which;
        if (!v->fits(d))
                return false;
        switch (v->where) {
        case IN_CQE:
                return spoil_bytes((uint8_t *)d->cqe, sizeof(*d->cqe), v->change, 0);
        case IN_DATA:
                return spoil_bytes(d->data, d->len, v->change, 0);
        case IN_LOG:
                return spoil_bytes(d->data, d->len, v->change, log_offset(d));
        }
        return false;
}

static bool spoil_by(const struct completion *list, unsigned n, const struct rule_set *violated,
                     struct done *d)
{
        bool any = false;

        for (unsigned i = 0; i < n; i++)
                if (rule_in(violated, list[i].rule))
                        any |= spoil_done(&list[i], d);
        return any;
}

bool spoil_sqhd(const struct rule_set *violated, const union sqe *sqe, struct cqe *cqe)
{
        struct done d = { .sqe = sqe, .cqe = cqe };

        return spoil_by(heads, HEADS, violated, &d);
}

/* Rules of answers.def. */
static bool spoil_answer(const struct rule_set *violated, const union sqe *sqe, struct cqe *cqe)
{
        uint16_t was = cqe_status(cqe), status = was;

        rule_each (rule)
                if (rule_in(violated, rule) && answer_is_judged(rule))
                        status = answer_spoil(rule, sqe, status);
        if (status != was)
                cqe->sf = status_field(status);
        return status != was;
}

bool spoil_completion(const struct rule_set *violated, const union sqe *sqe, struct cqe *cqe,
                      uint8_t *data, uint32_t len)
{
        struct done d = { .sqe = sqe, .cqe = cqe, .data = data, .len = len };
        bool any = spoil_sqhd(violated, sqe, cqe);

        any |= spoil_by(completions, COMPLETIONS, violated, &d);
        any |= spoil_answer(violated, sqe, cqe);
        return spoil_by(rdma_completions, RDMA_COMPLETIONS, violated, &d) || any;
}

unsigned spoil_kinds_cqe(enum rule_id rule)
{
        return (TABLE_HAS(completions, rule) || TABLE_HAS(heads, rule) || answer_is_judged(rule)
                    ? V_CQE
                    : 0u) |
               (TABLE_HAS(rdma_completions, rule) ? V_RDMA_CQE : 0u);
}
