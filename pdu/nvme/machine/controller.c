/* SPDX-License-Identifier: BSD-3-Clause */
#include "controller.h"

#include <string.h>

#include "judge.h"
#include "pdu/core/plant.h"

enum {
        READY_UNIT = 500,  /* ms */
        READY_TIMEOUT = 2, /* of these, CAP.TO and CRTO.CRWMT: longer than ready_time by so many */
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

static bool has_flaw(const struct controller *c, enum flaw_id flaw)
{
        return flawed(c->cfg.policy, flaw);
}

static void end(struct cqe *cqe, uint16_t status)
{
        cqe->sf = status_field(status);
}

/* --- which command is allowed when: 3.1.3, 3.3.2.3 -------------------------------------------- */

enum {
        FOR_IO = 1,
        FOR_DISCOVERY = 2,
        FOR_PERSISTENT = 4,
        FOR_WHOLE = 8
}; /* controllers that have it */

static const uint8_t admin_opcodes[256] = {
        [NVME_GET_LOG_PAGE] = FOR_IO | FOR_DISCOVERY,
        [NVME_IDENTIFY] = FOR_IO | FOR_DISCOVERY,
        [NVME_ABORT] = FOR_IO | FOR_DISCOVERY,
        [NVME_SET_FEATURES] = FOR_IO | FOR_PERSISTENT,
        [NVME_GET_FEATURES] = FOR_IO | FOR_PERSISTENT,
        [NVME_AER] = FOR_IO | FOR_PERSISTENT,
        [NVME_KEEP_ALIVE] = FOR_IO | FOR_PERSISTENT,
        [NVME_GET_LBA_STATUS] = FOR_IO,
        [NVME_FORMAT] = FOR_WHOLE,
        [NVME_SANITIZE] = FOR_WHOLE,
        [NVME_NS_MANAGEMENT] = FOR_WHOLE,
        [NVME_NS_ATTACHMENT] = FOR_WHOLE,
        [NVME_LOCKDOWN] = FOR_WHOLE,
};

bool controller_supports(const struct controller_config *cfg, uint8_t opc)
{
        if (admin_opcodes[opc] == FOR_WHOLE)
                return cfg->whole;
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
        bool connect = sqe->fctype == FCTYPE_CONNECT; /* never fails with Invalid Field: 6.3 */
        uint16_t fused = sqe->flags & SQE_FUSE_MASK && !connect ? refuse(c, FAB_FUSE) : 0;

        if (fused)
                return fused;
        switch (sqe->fctype) {
        case FCTYPE_CONNECT:
                if (le16_get(sqe->connect.qid) != qid && has_flaw(c, FLAW_CONNECT_ANOTHER))
                        return 0;
                return refuse(c, FAB_CONNECT_ONCE);
        case FCTYPE_PROPERTY_GET:
        case FCTYPE_PROPERTY_SET:
                return qid == 0 ? 0 : refuse(c, FAB_PROP_QUEUE);
        case FCTYPE_DISCONNECT:
                return admit_disconnect(c, qid, sqe);
        default: /* authentication too: there is none */
                return violates(c, FAB_REFUSED) ? 0 : refuse(c, FAB_FCTYPE);
        }
}

static uint16_t admit_admin(const struct controller *c, const union sqe *sqe)
{
        uint16_t status = sqe->flags & SQE_FUSE_MASK ? refuse(c, FUSE_UNSUPPORTED) : 0;

        if (c->cc & CC_CRIME && sqe->opc == NVME_IDENTIFY && has_flaw(c, FLAW_CRIME_MEDIA))
                return NVME_MEDIA_NOT_READY;
        if (sqe->opc == NVME_GET_LBA_STATUS && (c->cc >> 4 & 7) == 7 && !has_flaw(c, FLAW_CSS_NONE))
                return NVME_INVALID_OPCODE;
        if (sqe->opc == NVME_GET_LBA_STATUS && has_flaw(c, FLAW_MEDIA_LATE))
                return NVME_MEDIA_NOT_READY;
        if (!status && le32_get(sqe->nsid) > 0 && sqe_has_no_nsid(sqe))
                status = refuse(c, FAB_NSID_UNUSED);
        return status ? status : admit_opcode(c, sqe->opc);
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
        if (c->cc & CC_IOSQES && has_flaw(c, FLAW_RESET_SERVED))
                return 0;
        return is_enabled(c) ? 0 : refuse(c, FAB_ENABLED);
}

uint16_t controller_admit(const struct controller *c, uint16_t qid, bool connected,
                          const union sqe *sqe)
{
        bool fabrics = sqe->opc == NVME_FABRICS;
        uint16_t status = 0;

        if (!connected || !c)
                return fabrics && sqe->fctype == FCTYPE_CONNECT
                           ? 0
                           : rule_fault(FAB_FIRST_CONNECT).code;
        if (fabrics)
                return admit_fabrics(c, qid, sqe);
        if (qid > 0 || !is_shut_down(c) || !has_flaw(c, FLAW_SHUTDOWN_ADMIN))
                status = controller_ready(c);
        return status || qid > 0 ? status : admit_admin(c, sqe);
}

/* --- enable, reset, shutdown: 3.5, 3.6, 3.7 --------------------------------------------------- */

/* The timer runs only while EN = 1, RDY = 1, SHN = 0 and SHST = 0 (3.9). */
static bool is_running(const struct controller *c)
{
        return is_enabled(c) && !is_shut_down(c);
}

static bool is_timed(const struct controller *c)
{
        if (c->cfg.type == CONTROLLER_DISCOVERY && has_flaw(c, FLAW_DISC_KATO))
                return false;
        if (!(c->cc & CC_EN) && has_flaw(c, FLAW_KA_DISABLED))
                return true;
        return is_running(c) || (is_enabled(c) && has_flaw(c, FLAW_KA_SHUTDOWN));
}

static void restart_timer(struct controller *c, uint64_t now)
{
        c->traffic = false;
        c->alive_until = is_timed(c) && c->kato > 0 ? now + c->kato : 0;
}

/* A persistent discovery controller reports changes without being asked to (3.1.3.3). */
static uint32_t default_aec(const struct controller *c)
{
        return c->cfg.type == CONTROLLER_DISCOVERY && c->kato_connect > 0 &&
                       !has_flaw(c, FLAW_DISC_SILENT)
                   ? AEC_DISCOVERY
                   : 0;
}

static void reset_features(struct controller *c)
{
        c->queues = c->cfg.queues_max;
        c->kato = c->kato_connect;
        if (!flawed(c->cfg.policy, FLAW_KEPT_EVENTS))
                c->aec = default_aec(c);
        if (!flawed(c->cfg.policy, FLAW_EVENT_STAYS))
                c->events = 0;
        c->masked = 0;
}

enum { NO_COMMAND_SET = 7 /* of CC: no I/O command set */ };

static bool cc_valid(const struct controller *c)
{
        unsigned css = c->cc >> 4 & 7, mps = c->cc >> 7 & 0xf, ams = c->cc >> 11 & 7;
        unsigned iosqes = c->cc >> 16 & 0xf, iocqes = c->cc >> 20 & 0xf;
        bool sizes = (iosqes == 0 || iosqes == CC_IOSQES >> 16) &&
                     (iocqes == 0 || iocqes == CC_IOCQES >> 20);

        bool sets = css == 0 || (css == NO_COMMAND_SET && c->cfg.whole);

        return sets && mps == 0 && ams == 0 && (sizes || c->cfg.type == CONTROLLER_DISCOVERY);
}

enum { SHST_MASK = CSTS_SHST_OCCURS | CSTS_SHST_COMPLETE };

/* An NVM Subsystem Shutdown occurs, or is complete (3.6.3). */
static bool is_subsystem_down(const struct controller *c)
{
        return c->csts & CSTS_ST && CSTS_SHST(c->csts);
}

/* What CC asks for is not there: the controller fails, until the next reset. */
static void enable(struct controller *c, uint64_t now)
{
        if (is_subsystem_down(c)) /* until an NVM Subsystem Reset */
                return;
        if (!cc_valid(c) || (c->cfg.type == CONTROLLER_IO && has_flaw(c, FLAW_FATAL)))
                c->csts = CSTS_CFS | (c->csts & CSTS_NSSRO);
        else if (violates(c, FAB_RDY))
                c->csts = 0;
        else if (c->cfg.ready_time > 0)
                c->ready_at = now + c->cfg.ready_time;
        else
                c->csts = CSTS_RDY | (c->csts & CSTS_NSSRO);
}

static void reset(struct controller *c)
{
        bool stays = is_subsystem_down(c) && !has_flaw(c, FLAW_NSS_CLEARED);
        bool shst_stays = has_flaw(c, FLAW_SHST_STAYS);

        c->ready_at = 0;
        c->csts &= CSTS_NSSRO | (stays ? CSTS_ST | SHST_MASK : 0u) | (shst_stays ? SHST_MASK : 0u);
        reset_features(c);
}

static void shut_down(struct controller *c)
{
        if (is_subsystem_down(c))
                return;
        c->csts &= ~(uint32_t)(CSTS_SHST_OCCURS | CSTS_SHST_COMPLETE);
        c->csts |= violates(c, FAB_SHST) || (PLANTED(SHUTDOWN_ABRUPT) && CC_SHN(c->cc) > 1)
                       ? CSTS_SHST_OCCURS
                       : CSTS_SHST_COMPLETE;
}

void controller_subsystem_shutdown(struct controller *c, bool normal, bool done)
{
        if (normal && !done && !CSTS_SHST(c->csts) && c->aers > 0 && !has_flaw(c, FLAW_NSS_SILENT))
                controller_event(c, AEN_IMMEDIATE, 0, 0);
        c->csts &= ~(uint32_t)SHST_MASK;
        c->csts |= done && !(has_flaw(c, FLAW_NSS_UNFINISHED) && c->cntlid & 1) ? CSTS_SHST_COMPLETE
                                                                                : CSTS_SHST_OCCURS;
        if (!has_flaw(c, FLAW_NSS_TYPE))
                c->csts |= CSTS_ST;
}

void controller_subsystem_state(struct controller *c, bool shut_down, bool was_reset)
{
        if (shut_down)
                c->csts |= CSTS_ST | CSTS_SHST_COMPLETE;
        if (was_reset && !has_flaw(c, FLAW_NSSR_UNTOLD))
                c->csts |= CSTS_NSSRO;
}

void controller_shutdown_begin(struct controller *c)
{
        c->csts &= ~(uint32_t)CSTS_SHST_COMPLETE;
        c->csts |= CSTS_SHST_OCCURS;
}

void controller_shutdown_end(struct controller *c, bool good)
{
        if (CSTS_SHST(c->csts) == 0)
                return;
        if (good)
                shut_down(c);
        else
                c->csts |= CSTS_CFS;
}

static void set_cc(struct controller *c, uint32_t cc, uint64_t now)
{
        bool was = c->cc & CC_EN, on = cc & CC_EN;

        bool crime = c->cfg.type == CONTROLLER_IO || has_flaw(c, FLAW_CRIME_KEPT);

        c->cc = cc & (CC_DEFINED | (crime ? CC_CRIME : 0u));
        if (c->cfg.administrative && !has_flaw(c, FLAW_ADMIN_SIZES))
                c->cc &= ~(uint32_t)(CC_IOSQES | CC_IOCQES);
        if (!was && on)
                enable(c, now);
        else if (was && !on)
                reset(c);
        if (CC_SHN(cc))
                shut_down(c);
        restart_timer(c, now);
}

/* --- properties: 3.1.4, 6.5, 6.6 -------------------------------------------------------------- */

static uint16_t ready_timeout(const struct controller_config *cfg)
{
        return (uint16_t)(READY_TIMEOUT + cfg->ready_time / READY_UNIT);
}

uint64_t controller_cap(const struct controller_config *cfg)
{
        /* Who sees CRMS reads CRTO, which discovery controllers do not have (3.1.4). */
        uint64_t crms = cfg->type == CONTROLLER_IO ? CAP_CRMS_CRWMS | CAP_CRMS_CRIMS : 0;

        return cfg->mqes | CAP_CQR | (uint64_t)ready_timeout(cfg) << 24 | CAP_CSS_NVM | crms |
               (cfg->whole ? CAP_NSSRS | CAP_SHUTDOWN_ALL | CAP_SHUTDOWN_STAYS | CAP_CPS_WHOLE |
                                 CAP_CSS_NOIO
                           : 0);
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
                *value = ready_timeout(&c->cfg) * UINT64_C(0x10001);
                if (c->cc & CC_CRIME && has_flaw(c, FLAW_CRIME_CRTO))
                        *value = ready_timeout(&c->cfg) + 1u;
                return c->cfg.type == CONTROLLER_IO;
        case PROP_NSSR:
        case PROP_NSSD: /* read as 0 */
                return c->cfg.whole;
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

/* When its time has come: no host that asks waits for a tick that is late. */
static void become_ready(struct controller *c, uint64_t now)
{
        if (c->ready_at == 0 || now < c->ready_at)
                return;
        c->ready_at = 0;
        c->csts |= CSTS_RDY;
}

void controller_property_get(struct controller *c, const struct property_cmd *cmd, struct cqe *cqe,
                             uint64_t now)
{
        uint64_t value = 0;
        uint16_t status;

        become_ready(c, now);
        status = property(c, le32_get(cmd->ofst), &value) ? check_size(c, cmd)
                                                          : refuse(c, FAB_PROP_OFFSET);
        if (c->overwritten.done && c->overwritten.ofst == le32_get(cmd->ofst))
                value = c->overwritten.value;
        end(cqe, status);
        cqe->result = le64(status ? 0 : value);
}

static uint16_t overwrite(struct controller *c, const struct property_cmd *cmd)
{
        if (!violates(c, FAB_PROP_KEPT))
                return refuse(c, FAB_PROP_RO);
        c->overwritten.done = true;
        c->overwritten.ofst = le32_get(cmd->ofst);
        c->overwritten.value = le64_get(cmd->value);
        return NVME_SUCCESS;
}

static enum controller_wish wish_of(const struct controller *c, uint32_t ofst, uint32_t value)
{
        if (ofst == PROP_NSSR && (value == NSSR_RESET || has_flaw(c, FLAW_NSSR_ANY)))
                return WISH_RESET;
        if (ofst == PROP_NSSD && (value == NSSD_NORMAL || has_flaw(c, FLAW_NSSD_ANY)))
                return WISH_SHUTDOWN;
        return ofst == PROP_NSSD && value == NSSD_ABRUPT ? WISH_ABRUPT_SHUTDOWN : WISH_NONE;
}

/* Of a subsystem that can be reset: NSSRO is cleared by writing it. */
static uint16_t set_for_subsystem(struct controller *c, const struct property_cmd *cmd)
{
        uint32_t ofst = le32_get(cmd->ofst), value = (uint32_t)le64_get(cmd->value);
        uint16_t status = check_size(c, cmd);

        if (!status && ofst == PROP_CSTS)
                c->csts &= ~(value & (has_flaw(c, FLAW_NSSRO_STAYS) ? 0 : CSTS_NSSRO));
        else if (!status)
                c->wish = wish_of(c, ofst, value);
        return status;
}

void controller_property_set(struct controller *c, const struct property_cmd *cmd, struct cqe *cqe,
                             uint64_t now)
{
        uint32_t ofst = le32_get(cmd->ofst);
        uint64_t old = 0;
        uint16_t status;

        if (!property(c, ofst, &old))
                status = refuse(c, FAB_PROP_OFFSET);
        else if (c->cfg.whole && ofst != PROP_CC && property_is_writable(ofst))
                status = set_for_subsystem(c, cmd);
        else if (ofst != PROP_CC)
                status = overwrite(c, cmd);
        else
                status = check_size(c, cmd);
        if (!status && ofst == PROP_CC)
                set_cc(c, (uint32_t)le64_get(cmd->value), now);
        end(cqe, status);
        cqe->result = le64(0);
}

/* --- Keep Alive: 3.9 -------------------------------------------------------------------------- */

enum { KAS_UNIT = 100, KATO_DEFAULT = 120000 }; /* ms */

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
        bool counts = !c->cfg.command_based || has_flaw(c, FLAW_KEEP_ALIVE_ANY);

        c->idle_since = now;
        c->traffic |= counts && !fabrics && !violates(c, KA_ALIVE);
}

static bool die(struct controller *c)
{
        c->csts |= CSTS_CFS;
        c->dead = true;
        return false;
}

/* Traffic within the interval starts another one (3.9.4.1): it takes up to 2 * KATO to see that a
 * host has gone. A host that is late can be given no grace: a timeout has occurred as soon as KATO has
 * passed (3.9.3.1, 3.9.4.1), CQT is for the cleanup after it, in which no command is processed (3.9.5),
 * and a longer KATO is one that Get Features returns (3.9.1). */
static bool tick_keep_alive(struct controller *c, uint64_t now)
{
        if (now < c->alive_until || (PLANTED(KATO_AER) && c->aers > 0))
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
        become_ready(c, now);
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
        uint32_t io = 0xff /* SMART */ | AEC_NS | AEC_LBA_STATUS | (c->cfg.ana ? AEC_ANA : 0u) |
                      (c->cfg.whole ? AEC_ALLOCATED : 0u);
        uint32_t known = c->cfg.type == CONTROLLER_IO ? io : AEC_DISCOVERY;

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
        if (dw11 < c->cfg.kato_min && has_flaw(c, FLAW_KATO_REFUSED))
                return NVME_INVALID_FIELD;
        if (PLANTED(KATO_ZERO))
                dw11 = (dw11 + c->cfg.kato_min) / dw11 * dw11;
        if (dw11 > c->kato && has_flaw(c, FLAW_KATO_LONGER))
                return 0;
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
                return current                          ? c->kato
                       : has_flaw(c, FLAW_KATO_DEFAULT) ? 0
                                                        : round_kato(c, KATO_DEFAULT);
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
        c->cc = has_flaw(c, FLAW_CC_INITIAL) ? CC_IOSQES | CC_IOCQES : 0;
        c->idle_since = now;
        reset_features(c);
}
