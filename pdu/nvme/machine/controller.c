/* SPDX-License-Identifier: BSD-3-Clause */
#include "controller.h"

#include <string.h>

#include "pdu/core/plant.h"

enum {
        READY_TIMEOUT = 2, /* CAP.TO and CRTO.CRWMT, 500 ms units: it is ready at once */
        CC_DEFINED = 0x00fffff1,
        ATTRIB_SIZE = 7,
};

uint16_t rule_refuse(const struct rule_policy *policy, enum rule_id rule)
{
        return policy && rule_in(&policy->waived, rule) ? 0 : rule_fault(rule).code;
}

static uint16_t refuse(const struct controller *c, enum rule_id rule)
{
        return rule_refuse(c->cfg.policy, rule);
}

static bool violates(const struct controller *c, enum rule_id rule)
{
        return c->cfg.policy && rule_in(&c->cfg.policy->violated, rule);
}

static void end(struct cqe *cqe, uint16_t status)
{
        cqe->sf = status_field(status);
}

/* --- which command is allowed when: 3.1.3, 3.3.2.3 -------------------------------------------- */

enum { FOR_IO = 1, FOR_DISCOVERY = 2, FOR_PERSISTENT = 4 }; /* controllers that have it */

static const uint8_t admin_opcodes[256] = {
        [NVME_GET_LOG_PAGE] = FOR_IO | FOR_DISCOVERY,
        [NVME_IDENTIFY] = FOR_IO | FOR_DISCOVERY,
        [NVME_ABORT] = FOR_IO | FOR_DISCOVERY,
        [NVME_SET_FEATURES] = FOR_IO | FOR_PERSISTENT,
        [NVME_GET_FEATURES] = FOR_IO | FOR_PERSISTENT,
        [NVME_AER] = FOR_IO | FOR_PERSISTENT,
        [NVME_KEEP_ALIVE] = FOR_IO | FOR_PERSISTENT,
};

bool controller_supports(const struct controller_config *cfg, uint8_t opc)
{
        if (cfg->type == CONTROLLER_IO)
                return admin_opcodes[opc] & FOR_IO;
        return admin_opcodes[opc] &
               (cfg->persistent ? FOR_DISCOVERY | FOR_PERSISTENT : FOR_DISCOVERY);
}

static bool is_queue_opcode(uint8_t opc)
{
        return opc == NVME_CREATE_SQ || opc == NVME_CREATE_CQ || opc == NVME_DELETE_SQ ||
               opc == NVME_DELETE_CQ;
}

static uint16_t admit_opcode(const struct controller *c, uint8_t opc)
{
        bool prohibited = c->cfg.type == CONTROLLER_DISCOVERY && !is_queue_opcode(opc);

        if (violates(c, DISC_PERSISTENT) && prohibited && opc == NVME_AER)
                return NVME_INVALID_OPCODE;
        if (controller_supports(&c->cfg, opc))
                return 0;
        return refuse(c, prohibited ? DISC_PROHIBITED : FAB_OPCODE);
}

static uint16_t admit_disconnect(const struct controller *c, uint16_t qid, const union sqe *sqe)
{
        if (qid == 0)
                return refuse(c, FAB_DISCONNECT_ADMIN);
        return le16_get(sqe->disconnect.recfmt) ? refuse(c, FAB_DISCONNECT_RECFMT) : 0;
}

static uint16_t admit_fabrics(const struct controller *c, uint16_t qid, const union sqe *sqe)
{
        switch (sqe->fctype) {
        case FCTYPE_CONNECT:
                return refuse(c, FAB_CONNECT_ONCE);
        case FCTYPE_PROPERTY_GET:
        case FCTYPE_PROPERTY_SET:
                return qid == 0 ? 0 : refuse(c, FAB_PROP_QUEUE);
        case FCTYPE_DISCONNECT:
                return admit_disconnect(c, qid, sqe);
        default: /* authentication too: there is none */
                return refuse(c, FAB_FCTYPE);
        }
}

static bool is_enabled(const struct controller *c)
{
        return (c->cc & CC_EN) && (c->csts & CSTS_RDY);
}

static bool is_shut_down(const struct controller *c)
{
        return CC_SHN(c->cc) || CSTS_SHST(c->csts);
}

uint16_t controller_ready(const struct controller *c)
{
        if (is_shut_down(c))
                return refuse(c, FAB_SHUTDOWN);
        return is_enabled(c) ? 0 : refuse(c, FAB_ENABLED);
}

uint16_t controller_admit(const struct controller *c, uint16_t qid, bool connected,
                          const union sqe *sqe)
{
        bool fabrics = sqe->opc == NVME_FABRICS;
        uint16_t status;

        if (!connected || !c)
                return fabrics && sqe->fctype == FCTYPE_CONNECT
                           ? 0
                           : rule_fault(FAB_FIRST_CONNECT).code;
        if (fabrics)
                return admit_fabrics(c, qid, sqe);
        status = controller_ready(c);
        if (status || qid > 0)
                return status;
        return sqe->flags & SQE_FUSE_MASK ? NVME_INVALID_FIELD : admit_opcode(c, sqe->opc);
}

/* --- enable, reset, shutdown: 3.5, 3.6, 3.7 --------------------------------------------------- */

/* The timer runs only while EN = 1, RDY = 1, SHN = 0 and SHST = 0 (3.9). */
static bool is_running(const struct controller *c)
{
        return is_enabled(c) && !is_shut_down(c);
}

static void restart_timer(struct controller *c, uint64_t now)
{
        c->traffic = false;
        c->alive_until = is_running(c) && c->kato > 0 ? now + c->kato : 0;
}

/* A persistent discovery controller reports changes without being asked to (3.1.3.3). */
static uint32_t default_aec(const struct controller *c)
{
        return c->cfg.type == CONTROLLER_DISCOVERY && c->kato_connect > 0 ? AEC_DISCOVERY : 0;
}

static void reset_features(struct controller *c)
{
        c->queues = c->cfg.queues_max;
        c->kato = c->kato_connect;
        c->aec = default_aec(c);
        c->events = 0;
        c->masked = 0;
}

static bool cc_valid(const struct controller *c)
{
        unsigned css = c->cc >> 4 & 7, mps = c->cc >> 7 & 0xf, ams = c->cc >> 11 & 7;
        unsigned iosqes = c->cc >> 16 & 0xf, iocqes = c->cc >> 20 & 0xf;
        bool sizes = (iosqes == 0 || iosqes == CC_IOSQES >> 16) &&
                     (iocqes == 0 || iocqes == CC_IOCQES >> 20);

        return css == 0 && mps == 0 && ams == 0 && (sizes || c->cfg.type == CONTROLLER_DISCOVERY);
}

/* What CC asks for is not there: the controller fails, until the next reset. */
static void enable(struct controller *c)
{
        if (!cc_valid(c))
                c->csts = CSTS_CFS;
        else if (violates(c, FAB_RDY))
                c->csts = 0;
        else
                c->csts = CSTS_RDY;
}

static void reset(struct controller *c)
{
        c->csts = 0;
        reset_features(c);
}

static void shut_down(struct controller *c)
{
        c->csts &= ~(uint32_t)(CSTS_SHST_OCCURS | CSTS_SHST_COMPLETE);
        c->csts |= violates(c, FAB_SHST) ? CSTS_SHST_OCCURS : CSTS_SHST_COMPLETE;
}

static void set_cc(struct controller *c, uint32_t cc, uint64_t now)
{
        bool was = c->cc & CC_EN, on = cc & CC_EN;

        c->cc = cc & CC_DEFINED;
        if (!was && on)
                enable(c);
        else if (was && !on)
                reset(c);
        if (CC_SHN(cc))
                shut_down(c);
        restart_timer(c, now);
}

/* --- properties: 3.1.4, 6.5, 6.6 -------------------------------------------------------------- */

uint64_t controller_cap(const struct controller_config *cfg)
{
        /* Who sees CRMS reads CRTO, which discovery controllers do not have (3.1.4). */
        uint64_t crms = cfg->type == CONTROLLER_IO ? CAP_CRMS_CRWMS : 0;

        return cfg->mqes | CAP_CQR | (uint64_t)READY_TIMEOUT << 24 | CAP_CSS_NVM | crms;
}

uint32_t controller_vs(void)
{
        return NVME_VERSION(2, 0, 0);
}

/* Planted: a file of registers, without an end. */
static bool register_at(const struct controller *c, uint32_t ofst, uint64_t *value)
{
        const uint64_t file[] = { controller_cap(&c->cfg), controller_vs(), c->cc, c->csts };

        *value = file[ofst / sizeof(file[0])];
        return true;
}

/* False: this type of controller does not have it. */
static bool property(const struct controller *c, uint32_t ofst, uint64_t *value)
{
        switch (ofst) {
        case PROP_CAP:
                *value = controller_cap(&c->cfg);
                return true;
        case PROP_VS:
                *value = controller_vs();
                return true;
        case PROP_CC:
                *value = c->cc;
                return true;
        case PROP_CSTS:
                *value = c->csts;
                return true;
        case PROP_CRTO:
                *value = READY_TIMEOUT;
                return c->cfg.type == CONTROLLER_IO;
        default:
                return PLANTED(PROPERTY_OFFSET) && register_at(c, ofst, value);
        }
}

static uint16_t check_size(const struct controller *c, const struct property_cmd *cmd)
{
        unsigned attrib = cmd->attrib & ATTRIB_SIZE;
        unsigned size = attrib == PROP_ATTRIB_4 ? 4 : attrib == PROP_ATTRIB_8 ? 8 : 0;

        return size == property_size(le32_get(cmd->ofst)) ? 0 : refuse(c, FAB_PROP_SIZE);
}

void controller_property_get(struct controller *c, const struct property_cmd *cmd, struct cqe *cqe)
{
        uint64_t value = 0;
        uint16_t status = property(c, le32_get(cmd->ofst), &value) ? check_size(c, cmd)
                                                                   : refuse(c, FAB_PROP_OFFSET);

        end(cqe, status);
        cqe->result = le64(status ? 0 : value);
}

void controller_property_set(struct controller *c, const struct property_cmd *cmd, struct cqe *cqe,
                             uint64_t now)
{
        uint32_t ofst = le32_get(cmd->ofst);
        uint64_t old = 0;
        uint16_t status;

        if (!property(c, ofst, &old))
                status = refuse(c, FAB_PROP_OFFSET);
        else if (ofst != PROP_CC)
                status = refuse(c, FAB_PROP_RO);
        else
                status = check_size(c, cmd);
        if (!status && ofst == PROP_CC)
                set_cc(c, (uint32_t)le64_get(cmd->value), now);
        end(cqe, status);
        cqe->result = le64(0);
}

/* --- Keep Alive: 3.9 -------------------------------------------------------------------------- */

enum { KAS_UNIT = 100 }; /* ms */

/* Up to the granularity, and not below the minimum. */
static uint32_t round_kato(const struct controller *c, uint32_t kato)
{
        uint64_t unit = (uint64_t)c->cfg.kas * KAS_UNIT;
        uint64_t ms = kato > c->cfg.kato_min ? kato : c->cfg.kato_min;

        ms = (ms + unit - 1) / unit * unit;
        return (uint32_t)(ms > UINT32_MAX ? ms - unit : ms);
}

uint16_t controller_connect_kato(struct controller *c, uint32_t kato)
{
        if (kato > 0 && c->cfg.type == CONTROLLER_DISCOVERY && !c->cfg.persistent)
                return NVME_CONNECT_PARAM;
        c->kato_connect = kato > 0 ? round_kato(c, kato) : 0;
        c->kato = c->kato_connect;
        c->aec = default_aec(c);
        return 0;
}

void controller_keep_alive(struct controller *c, struct cqe *cqe, uint64_t now)
{
        end(cqe, violates(c, KA_COMMAND) ? NVME_INVALID_FIELD : 0);
        cqe->result = le64(0);
        if (!violates(c, KA_ALIVE))
                restart_timer(c, now);
}

void controller_traffic(struct controller *c, bool fabrics, uint64_t now)
{
        c->idle_since = now;
        c->traffic |= !fabrics && !violates(c, KA_ALIVE);
}

static bool die(struct controller *c)
{
        c->csts |= CSTS_CFS;
        c->dead = true;
        return false;
}

/* Traffic within the interval starts another one (3.9.4.2): it takes up to 2 * KATO to see that a
 * host has gone. */
static bool tick_keep_alive(struct controller *c, uint64_t now)
{
        if (now < c->alive_until)
                return true;
        if (!c->traffic && !violates(c, KA_EXPIRY))
                return die(c);
        restart_timer(c, now);
        return true;
}

/* The clock of the thread that ticks may be behind the one of the thread that had the traffic. */
static bool tick_idle(struct controller *c, uint64_t now)
{
        if (c->cfg.idle_timeout == 0 || now < c->idle_since + c->cfg.idle_timeout)
                return true;
        return die(c);
}

bool controller_tick(struct controller *c, uint64_t now)
{
        if (c->dead)
                return false;
        if (c->alive_until > 0)
                return tick_keep_alive(c, now);
        if (is_running(c) && c->cfg.type == CONTROLLER_IO)
                return true; /* Keep Alive is off: the host's own choice */
        return tick_idle(c, now);
}

/* --- its own features: 5.1.25 ----------------------------------------------------------------- */

enum feature_select feature_select(const union sqe *sqe)
{
        return (enum feature_select)(le32_get(sqe->cdw10) >> 8 & 7);
}

uint16_t feature_check(const union sqe *sqe)
{
        if (sqe->opc == NVME_SET_FEATURES)
                return le32_get(sqe->cdw10) >> 31 ? NVME_FEATURE_NOT_SAVEABLE : 0;
        return feature_select(sqe) > FEATURE_CAPABILITIES ? NVME_INVALID_FIELD : 0;
}

static uint32_t queues_value(uint16_t queues)
{
        uint32_t n = queues > 0 ? queues - 1u : 0;

        return n << 16 | n;
}

static uint16_t set_queues(struct controller *c, uint32_t dw11)
{
        uint32_t nsq = dw11 & 0xffff, ncq = dw11 >> 16, n = (nsq < ncq ? nsq : ncq) + 1;

        uint16_t status = 0;

        if (nsq == 0xffff || ncq == 0xffff)
                status = refuse(c, FEAT_QUEUES_RANGE);
        if (!status && c->io_queues > 0)
                status = refuse(c, FEAT_QUEUES_LATE);
        if (status)
                return status;
        c->queues = n < c->cfg.queues_max ? (uint16_t)n : c->cfg.queues_max;
        return 0;
}

static uint16_t set_aec(struct controller *c, uint32_t dw11)
{
        uint32_t smart = 0xff,
                 known = c->cfg.type == CONTROLLER_IO ? smart | AEC_NS : AEC_DISCOVERY;

        if (dw11 & ~known)
                return NVME_INVALID_FIELD;
        c->aec = dw11;
        return 0;
}

static uint16_t set_kato(struct controller *c, uint32_t dw11, uint64_t now)
{
        uint16_t status = dw11 == 0 && !PLANTED(KATO_ZERO) ? refuse(c, KA_ZERO) : 0;

        if (status)
                return status;
        if (PLANTED(KATO_ZERO))
                dw11 = (dw11 + c->cfg.kato_min) / dw11 * dw11;
        c->kato = dw11 > 0 ? round_kato(c, dw11) : 0;
        restart_timer(c, now);
        return 0;
}

static uint16_t set_feature(struct controller *c, uint8_t fid, uint32_t dw11, uint64_t now)
{
        switch (fid) {
        case FEAT_QUEUES:
                return set_queues(c, dw11);
        case FEAT_AEC:
                return set_aec(c, dw11);
        default:
                return set_kato(c, dw11, now);
        }
}

static uint32_t get_feature(const struct controller *c, uint8_t fid, bool current)
{
        switch (fid) {
        case FEAT_QUEUES:
                return queues_value(current ? c->queues : c->cfg.queues_max);
        case FEAT_AEC:
                return current ? c->aec : default_aec(c);
        default:
                return current ? c->kato : c->kato_connect;
        }
}

bool controller_feature(struct controller *c, const union sqe *sqe, struct cqe *cqe, uint64_t now)
{
        enum feature_select select =
            violates(c, FEAT_SELECT) ? FEATURE_CURRENT : feature_select(sqe);
        uint8_t fid = (uint8_t)le32_get(sqe->cdw10);
        bool set = sqe->opc == NVME_SET_FEATURES;
        uint32_t value = 0;
        uint16_t status;

        if (fid != FEAT_AEC && fid != FEAT_KATO &&
            (fid != FEAT_QUEUES || c->cfg.type == CONTROLLER_DISCOVERY))
                return false;
        status = feature_check(sqe);
        if (!status && set)
                status = set_feature(c, fid, le32_get(sqe->cdw11), now);
        if (!status && !set && select == FEATURE_CAPABILITIES)
                value = FEATURE_CHANGEABLE;
        else if (!status && (!set || fid == FEAT_QUEUES))
                value = get_feature(c, fid, set || select == FEATURE_CURRENT);
        end(cqe, status);
        cqe->dw0 = le32(value);
        cqe->dw1 = le32(0);
        return true;
}

void controller_init(struct controller *c, const struct controller_config *cfg, uint64_t now)
{
        memset(c, 0, sizeof(*c));
        c->cfg = *cfg;
        c->idle_since = now;
        reset_features(c);
}
