/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an association has been through, as its admin queue showed it, and what may not follow from
 * there. Commands in flight are passed by in between: whatever may still be changing is not judged.
 */
#include <stdlib.h>
#include <string.h>

#include "judge.h"
#include "pdu/nvme/wire/discovery.h"

enum {
        EVENTS = 32,
        MS = 1000000, /* ns */
        TO_UNIT = 500 * MS,
        TO_SATURATED = 0xff,
        HEARD_SLACK_MS = 1000,
        LOG_MAX = 1 << 20,
        LOG_RAE_BIT = 15, /* of cdw10 */
        LOG_OT_BIT = 23,  /* of cdw14 */
};
/* By when the I/O queues of a lost admin queue are gone; nobody prescribes it. */
#define GONE_NS INT64_C(5000000000)

struct event { /* of the kinds that stay masked until their log is read */
        uint8_t type, info, lid;
        bool reported, kept; /* kept: the log was read, but not so that it ends that */
        bool reading;        /* ... and is read so just now */
};

struct past {
        bool has_cap, has_vs, has_id, has_cc;
        uint64_t cap;
        uint32_t vs, cc;
        struct id_ctrl id;
        uint64_t moves;         /* Property Sets of CC and Set Features, each begun and ended */
        uint64_t moved_frame;   /* of the last of these */
        int64_t cc_ns, shut_ns; /* when CC.EN changed and CC.SHN was set; 0: never */
        uint64_t stopped_frame; /* CSTS said RDY 0 since CC.EN became 0; 0: no */
        uint32_t kato, kato_in_force; /* ms: asked for; as Get Features says. 0: not known */
        int64_t gone_ns;              /* the admin queue ended; 0: not yet */
        int64_t heard_ns;             /* the last command of any of its queues */
        uint32_t queues;              /* I/O queues granted; 0: not known */
        bool joined;                  /* there was an I/O queue since CC.EN is 1 */
        bool has_aec;
        uint32_t aec;  /* Asynchronous Event Configuration that was set since then */
        unsigned aers; /* outstanding */
        struct event event[EVENTS];
        unsigned events;
        uint64_t genctr; /* of the discovery log that is kept here from its beginning */
        uint8_t *log;
        uint32_t log_len;
        bool log_differs; /* a piece of it is not what it was */
};

struct past *past_new(const struct session_cmd *connect)
{
        struct past *p = calloc(1, sizeof(*p));

        const struct connect_data *data = (const void *)connect->data;

        if (p) {
                p->has_cc = data && !connect->data_cut && connect->data_len >= sizeof(*data) &&
                            le16_get(data->cntlid) == CNTLID_DYNAMIC; /* a new one: CC is 0 */
                p->kato = le32_get(connect->sqe.connect.kato);
                p->heard_ns = connect->at.time_ns;
        }
        return p;
}

void past_free(struct past *p)
{
        if (p)
                free(p->log);
        free(p);
}

void past_disconnects(struct past *p, int64_t time_ns)
{
        if (p && !p->gone_ns)
                p->gone_ns = time_ns;
}

/* A completion of the admin queue, and what it ends. */
struct answer {
        const struct session *s;
        const struct session_cmd *cmd;
        const struct cqe *cqe;
        const struct trace_event *e;
        struct rule_set *found;
};

static bool succeeded(const struct answer *a)
{
        return cqe_status(a->cqe) == NVME_SUCCESS;
}

static bool is_discovery(const struct answer *a)
{
        return a->s->assoc->discovery;
}

/* --- properties ------------------------------------------------------------------------------- */

static bool sets_cc(const union sqe *s)
{
        return s->opc == NVME_FABRICS && s->fctype == FCTYPE_PROPERTY_SET &&
               le32_get(s->property.ofst) == PROP_CC;
}

static bool sets_feature(const union sqe *s)
{
        return s->opc == NVME_SET_FEATURES;
}

static uint8_t selector(const union sqe *s)
{
        return (uint8_t)le32_get(s->cdw10);
}

static uint32_t version(const struct past *p)
{
        return p->has_vs ? p->vs : p->has_id ? le32_get(p->id.ver) : 0;
}

static void judge_versions(const struct past *p, const struct answer *a)
{
        bool two = version(p) >= NVME_VERSION(2, 0, 0);

        judge_finds(a->found, p->has_vs && p->has_id && p->vs != le32_get(p->id.ver), FAB_VS);
        judge_finds(a->found, p->has_cap && two && !is_discovery(a) && !(p->cap & CAP_CRMS_CRWMS),
                    FAB_CRMS);
}

static void judge_cap(const struct past *p, const struct answer *a)
{
        uint64_t cap = p->cap;

        judge_finds(a->found, cap & CAP_RESERVED, FAB_PROP_RSVD);
        judge_finds(a->found, is_discovery(a) && !cap_is_discovery(cap), FAB_CAP_DISC);
        judge_versions(p, a);
}

static bool is_late(const struct past *p, const struct answer *a)
{
        unsigned to = CAP_TO(p->cap);

        return p->has_cap && to != TO_SATURATED && p->cc_ns &&
               a->cmd->at.time_ns > p->cc_ns + (int64_t)to * TO_UNIT;
}

static bool is_late_down(const struct past *p, const struct answer *a)
{
        int64_t us = p->has_id ? le32_get(p->id.rtd3e) : 0;

        return us && p->shut_ns && a->cmd->at.time_ns > p->shut_ns + us * 1000;
}

static void judge_csts(struct past *p, const struct answer *a, uint32_t csts)
{
        bool settled = a->cmd->mark == p->moves && p->has_cc && !(csts & CSTS_CFS);
        bool ready = csts & CSTS_RDY, enabled = p->cc & CC_EN;
        bool down = CSTS_SHST(csts) == CSTS_SHST(CSTS_SHST_COMPLETE);

        judge_finds(a->found, csts & CSTS_RESERVED, FAB_PROP_RSVD);
        judge_finds(a->found, settled && ready != enabled && !CC_SHN(p->cc) && is_late(p, a),
                    FAB_RDY);
        judge_finds(a->found, settled && CC_SHN(p->cc) && !down && is_late_down(p, a), FAB_SHST);
        if (settled && !ready && !enabled && !p->stopped_frame)
                p->stopped_frame = a->e->at.frame;
}

static void on_property_get(struct past *p, const struct answer *a)
{
        uint32_t ofst = le32_get(a->cmd->sqe.property.ofst);
        uint64_t value = le64_get(a->cqe->result);

        if (!succeeded(a)) {
                judge_finds(a->found,
                            ofst == PROP_CRTO && p->has_cap && CAP_CRMS(p->cap) &&
                                cqe_status(a->cqe) == NVME_INVALID_FIELD,
                            FAB_CRTO);
        } else if (ofst == PROP_CAP) {
                p->cap = value;
                p->has_cap = true;
                judge_cap(p, a);
        } else if (ofst == PROP_VS) {
                p->vs = (uint32_t)value;
                p->has_vs = true;
                judge_versions(p, a);
        } else if (ofst == PROP_CC) {
                judge_finds(a->found,
                            p->has_cc && a->cmd->mark == p->moves && (uint32_t)value != p->cc,
                            FAB_CC_READBACK);
        } else if (ofst == PROP_CSTS) {
                judge_csts(p, a, (uint32_t)value);
        }
}

/* A Controller Reset takes Asynchronous Event Requests and what is masked with it. */
static void on_cc(struct past *p, const struct answer *a)
{
        uint32_t cc = (uint32_t)le64_get(a->cmd->sqe.property.value);

        if ((p->cc ^ cc) & CC_EN) {
                p->cc_ns = a->e->at.time_ns;
                p->joined = p->has_aec = false;
        }
        if (p->cc & CC_EN && !(cc & CC_EN))
                p->aers = p->events = 0;
        if (cc & CC_EN)
                p->stopped_frame = 0;
        if (!CC_SHN(cc))
                p->shut_ns = 0;
        else if (!CC_SHN(p->cc))
                p->shut_ns = a->e->at.time_ns;
        p->cc = cc;
        p->has_cc = true;
}

/* --- features, Keep Alive --------------------------------------------------------------------- */

static void judge_kato(struct past *p, const struct answer *a)
{
        uint32_t kato = le32_get(a->cqe->dw0);
        uint32_t grain = p->has_id ? le16_get(p->id.kas) * 100u : 0;

        if (a->cmd->mark != p->moves)
                return;
        p->kato_in_force = kato;
        judge_finds(a->found, p->kato && (kato < p->kato || (grain && kato % grain)), KA_ROUND);
}

/* One that is in force is not below the minimum, nor is what is above it. */
static void judge_kato_refused(const struct past *p, const struct answer *a)
{
        uint32_t asked = le32_get(a->cmd->sqe.cdw11);

        judge_finds(a->found,
                    cqe_status(a->cqe) == NVME_KATO_INVALID && asked && p->kato_in_force &&
                        asked <= p->kato_in_force,
                    KA_MINIMUM);
}

static void on_set_features(struct past *p, const struct answer *a)
{
        const union sqe *s = &a->cmd->sqe;
        uint32_t granted = le32_get(a->cqe->dw0);

        if (selector(s) == FEAT_KATO && !succeeded(a)) {
                judge_kato_refused(p, a);
        } else if (selector(s) == FEAT_KATO) {
                p->kato = le32_get(s->cdw11);
                p->kato_in_force = 0;
        } else if (selector(s) == FEAT_QUEUES && succeeded(a)) {
                p->queues = (granted & 0xffff) + 1;
        } else if (selector(s) == FEAT_AEC && succeeded(a)) {
                p->aec = le32_get(s->cdw11);
                p->has_aec = true;
        }
}

/* Of the current value. */
static void on_get_features(struct past *p, const struct answer *a)
{
        const union sqe *s = &a->cmd->sqe;

        if (selector(s) == FEAT_KATO)
                judge_kato(p, a);
        else if (selector(s) == FEAT_AEC)
                judge_finds(a->found,
                            p->has_aec && a->cmd->mark == p->moves &&
                                le32_get(a->cqe->dw0) != p->aec,
                            FEAT_KEPT);
}

static bool is_aborted(uint16_t status)
{
        return status == NVME_ABORT_REQUESTED || status == NVME_ABORT_SQ_DELETED ||
               status == NVME_AUTH_REQUIRED;
}

static void on_keep_alive(const struct past *p, const struct answer *a)
{
        bool runs = p->cc & CC_EN && !CC_SHN(p->cc) && a->cmd->mark == p->moves;
        bool fails = !succeeded(a) && !is_aborted(cqe_status(a->cqe));

        if (is_discovery(a))
                judge_finds(a->found, p->kato && runs && fails, DISC_PERSISTENT);
        else
                judge_finds(a->found, runs && fails, KA_COMMAND);
}

/* --- asynchronous events, logs ---------------------------------------------------------------- */

static bool is_masked_kind(uint8_t type)
{
        return type <= 2; /* error, health, notice; the others have no log, or are told once */
}

static struct event *event_of(struct past *p, uint8_t type, uint8_t info, uint8_t lid)
{
        for (unsigned i = 0; i < p->events; i++)
                if (p->event[i].type == type && p->event[i].info == info && p->event[i].lid == lid)
                        return &p->event[i];
        if (p->events == EVENTS)
                return NULL;
        p->event[p->events] = (struct event) { .type = type, .info = info, .lid = lid };
        return &p->event[p->events++];
}

static void on_aer(struct past *p, const struct answer *a)
{
        uint32_t dw0 = le32_get(a->cqe->dw0);
        uint8_t type = dw0 & 7;
        struct event *e;

        p->aers -= p->aers > 0;
        judge_finds(a->found,
                    is_discovery(a) && p->kato && p->cc & CC_EN &&
                        cqe_status(a->cqe) == NVME_INVALID_OPCODE,
                    DISC_PERSISTENT);
        if (!succeeded(a) || !is_masked_kind(type) ||
            !(e = event_of(p, type, (uint8_t)(dw0 >> 8), (uint8_t)(dw0 >> 16))))
                return;
        judge_finds(a->found, e->reported && !e->reading, e->kept ? LOG_RAE : AER_MASKED);
        *e = (struct event) { .type = e->type, .info = e->info, .lid = e->lid, .reported = true };
}

static bool keeps_event(const union sqe *s)
{
        return le32_get(s->cdw10) >> LOG_RAE_BIT & 1;
}

static void begin_log(struct past *p, const union sqe *s)
{
        for (unsigned i = 0; i < p->events; i++)
                if (p->event[i].lid == selector(s) && !keeps_event(s))
                        p->event[i].reading = true;
}

static void end_log(struct past *p, const struct answer *a)
{
        for (unsigned i = 0; i < p->events; i++) {
                struct event *e = &p->event[i];

                if (e->lid != selector(&a->cmd->sqe))
                        continue;
                if (keeps_event(&a->cmd->sqe) || !succeeded(a))
                        e->kept = true;
                else if (e->reading)
                        e->reported = e->kept = false;
                if (!keeps_event(&a->cmd->sqe))
                        e->reading = false;
        }
}

/* Of pages whose size is known; 0: it is not. */
static uint64_t log_size(const struct past *p, uint8_t lid)
{
        switch (lid) {
        case LOG_SMART:
                return sizeof(struct log_smart);
        case LOG_FW_SLOT:
                return sizeof(struct log_fw_slot);
        case LOG_CHANGED_NS:
                return LOG_CHANGED_NS_MAX * 4;
        case LOG_EFFECTS:
                return sizeof(struct log_effects);
        case LOG_ERROR:
                return p->has_id ? (p->id.elpe + UINT64_C(1)) * sizeof(struct log_error) : 0;
        default:
                return 0;
        }
}

static uint64_t log_offset(const union sqe *s)
{
        return le32_get(s->cdw12) | (uint64_t)le32_get(s->cdw13) << 32;
}

static bool by_index(const union sqe *s)
{
        return le32_get(s->cdw14) >> LOG_OT_BIT & 1;
}

static void judge_get_log(const struct past *p, const struct session *s, const union sqe *sqe,
                          struct rule_set *found)
{
        uint64_t size = log_size(p, selector(sqe));
        bool io = !s->assoc->discovery && p->has_id && p->id.cntrltype == CNTRLTYPE_IO;

        judge_finds(found, size && !by_index(sqe) && log_offset(sqe) > size, LOG_OFFSET);
        judge_finds(found,
                    io && selector(sqe) >= LOG_DISCOVERY && selector(sqe) <= LOG_DISCOVERY + 3,
                    LOG_NOT_DISC);
}

static bool differs(const struct past *p, const struct session_cmd *cmd, uint64_t at)
{
        uint64_t n;

        if (at >= p->log_len)
                return false;
        n = p->log_len - at < cmd->data_len ? p->log_len - at : cmd->data_len;
        return memcmp(p->log + at, cmd->data, n) != 0;
}

static void keep_log(struct past *p, const struct session_cmd *cmd, uint64_t at)
{
        uint64_t end = at + cmd->data_len;
        uint8_t *more;

        if (at > p->log_len || end <= p->log_len || end > LOG_MAX || !(more = realloc(p->log, end)))
                return;
        memcpy(more + at, cmd->data, cmd->data_len);
        p->log = more;
        p->log_len = (uint32_t)end;
}

/*
 * The log of one GENCTR is one log. What a piece of it shows otherwise counts once GENCTR is read
 * again and has not moved. That it moved without a reason nobody can tell who does not see what
 * other hosts see.
 */
static void on_discovery_log(struct past *p, const struct answer *a)
{
        const struct session_cmd *cmd = a->cmd;
        uint64_t at = log_offset(&cmd->sqe), genctr;
        bool plain = !by_index(&cmd->sqe) && !(le32_get(cmd->sqe.cdw10) >> 8 & 0x7f);

        if (!plain || !cmd->data || cmd->data_cut || (at == 0 && cmd->data_len < 16))
                return;
        if (at == 0) {
                genctr = le64_get(((const struct disc_header *)(const void *)cmd->data)->genctr);
                if (genctr != p->genctr || p->log_len == 0)
                        p->log_len = 0;
                else if (p->log_differs)
                        judge_finds(a->found, true, DISC_OFFSETS);
                else
                        judge_finds(a->found, differs(p, cmd, 0), DISC_GENCTR_STEP);
                p->genctr = genctr;
                p->log_differs = false;
        } else {
                p->log_differs |= differs(p, cmd, at);
        }
        keep_log(p, cmd, at);
}

/* Statuses that only Connect has, of an entry that is no I/O command's. */
static bool is_of_connect(const struct log_error *e)
{
        uint16_t status = le16_get(e->sf) >> 1 & STATUS_MASK;

        return status >= NVME_CONNECT_BUSY && status <= NVME_CONNECT_HOST &&
               (e->opc == NVME_FABRICS || le16_get(e->sqid) == 0);
}

static void on_error_log(const struct answer *a)
{
        const struct log_error *e = (const void *)a->cmd->data;

        for (size_t i = 0; !a->cmd->data_cut && (i + 1) * sizeof(*e) <= a->cmd->data_len; i++)
                judge_finds(a->found, le64_get(e[i].count) && is_of_connect(&e[i]),
                            FAB_CONNECT_NO_LOG);
}

static void on_get_log(struct past *p, const struct answer *a)
{
        uint8_t lid = selector(&a->cmd->sqe);

        end_log(p, a);
        if (succeeded(a) && lid == LOG_DISCOVERY && is_discovery(a))
                on_discovery_log(p, a);
        else if (succeeded(a) && lid == LOG_ERROR && a->cmd->data && log_offset(&a->cmd->sqe) == 0)
                on_error_log(a);
}

/* --- Abort ------------------------------------------------------------------------------------ */

enum { ABORT_UNSURE = 0 };

static struct session *queue_of(const struct session *s, int qid)
{
        for (struct session *it = s->assoc->first; it; it = it->sibling)
                if (it->qid == qid)
                        return it;
        return NULL;
}

/* How many commands the queue had had when the one to abort was not outstanding on it; + 1. */
static uint64_t abort_mark(const struct session *s, const union sqe *sqe)
{
        uint32_t dw = le32_get(sqe->cdw10);
        const struct session *q = queue_of(s, dw & 0xffff);

        if (!q || q->gapped || session_find(q, (uint16_t)(dw >> 16)))
                return ABORT_UNSURE;
        return q->commands + 1;
}

static void on_abort(const struct answer *a)
{
        judge_finds(a->found,
                    succeeded(a) && a->cmd->mark != ABORT_UNSURE && !(le32_get(a->cqe->dw0) & 1) &&
                        abort_mark(a->s, &a->cmd->sqe) == a->cmd->mark,
                    ABORT_UNKNOWN);
}

/* --- Set Features of what is fixed ------------------------------------------------------------ */

static void on_hostid(const struct answer *a)
{
        const struct session_cmd *cmd = a->cmd;
        const uint8_t *own = a->s->assoc->connect.hostid;
        bool another =
            cmd->data && !cmd->data_cut && cmd->data_len >= 16 && memcmp(cmd->data, own, 16) != 0;

        judge_finds(a->found,
                    !is_discovery(a) && (another || cqe_status(a->cqe) == NVME_SEQUENCE_ERROR ||
                                         cqe_status(a->cqe) == NVME_FEATURE_NOT_CHANGEABLE),
                    FEAT_HOSTID_FIXED);
}

/* --- the whole -------------------------------------------------------------------------------- */

static void judge_set_queues(const struct past *p, uint32_t asked, struct rule_set *found)
{
        judge_finds(found, p->joined, FEAT_QUEUES_LATE);
        judge_finds(found, (asked & 0xffff) == 0xffff || asked >> 16 == 0xffff, FEAT_QUEUES_RANGE);
}

static void admin_command(struct past *p, const struct session *s, struct session_cmd *cmd,
                          struct rule_set *found)
{
        if (sets_cc(&cmd->sqe) || sets_feature(&cmd->sqe)) {
                p->moves++;
                p->moved_frame = cmd->at.frame;
        }
        if (sets_feature(&cmd->sqe) && selector(&cmd->sqe) == FEAT_QUEUES)
                judge_set_queues(p, le32_get(cmd->sqe.cdw11), found);
        cmd->mark = cmd->sqe.opc == NVME_ABORT ? abort_mark(s, &cmd->sqe) : p->moves;
        if (cmd->sqe.opc == NVME_AER) {
                judge_finds(found, p->has_id && p->aers > p->id.aerl, AER_LIMIT);
                p->aers++;
        } else if (cmd->sqe.opc == NVME_GET_LOG_PAGE) {
                begin_log(p, &cmd->sqe);
                judge_get_log(p, s, &cmd->sqe, found);
        }
}

/* Nobody was heard for twice the timeout, and yet there is somebody to answer. */
static bool is_expired(const struct past *p, const struct session *s, const struct session_cmd *cmd)
{
        int64_t patience = (2 * (int64_t)p->kato_in_force + HEARD_SLACK_MS) * MS;

        for (const struct session *it = s->assoc->first; it; it = it->sibling)
                if (it->gapped)
                        return false;
        return p->kato_in_force && p->cc & CC_EN && cmd->at.time_ns > p->heard_ns + patience;
}

void past_command(const struct session *s, struct session_cmd *cmd, struct rule_set *found)
{
        struct past *p = s->assoc ? s->assoc->past : NULL;

        if (!p || s->gapped)
                return;
        cmd->expired = is_expired(p, s, cmd);
        p->heard_ns = cmd->at.time_ns;
        if (s->qid == 0)
                admin_command(p, s, cmd, found);
}

static void fabrics_answer(struct past *p, const struct answer *a)
{
        if (a->cmd->sqe.fctype == FCTYPE_PROPERTY_GET)
                on_property_get(p, a);
        else if (sets_cc(&a->cmd->sqe) && succeeded(a))
                on_cc(p, a);
}

static void on_identify(struct past *p, const struct answer *a)
{
        if (!succeeded(a) || selector(&a->cmd->sqe) != CNS_CTRL || !a->cmd->data ||
            a->cmd->data_cut || a->cmd->data_len < sizeof(p->id))
                return;
        memcpy(&p->id, a->cmd->data, sizeof(p->id));
        p->has_id = true;
        judge_versions(p, a);
}

static void admin_answer(struct past *p, const struct answer *a)
{
        const union sqe *s = &a->cmd->sqe;

        if (s->opc == NVME_FABRICS)
                fabrics_answer(p, a);
        else if (s->opc == NVME_IDENTIFY)
                on_identify(p, a);
        else if (s->opc == NVME_SET_FEATURES && selector(s) == FEAT_HOSTID)
                on_hostid(a);
        else if (s->opc == NVME_SET_FEATURES)
                on_set_features(p, a);
        else if (s->opc == NVME_GET_FEATURES && succeeded(a) && !(le32_get(s->cdw10) >> 8 & 7))
                on_get_features(p, a);
        else if (s->opc == NVME_KEEP_ALIVE)
                on_keep_alive(p, a);
        else if (s->opc == NVME_AER)
                on_aer(p, a);
        else if (s->opc == NVME_GET_LOG_PAGE)
                on_get_log(p, a);
        else if (s->opc == NVME_ABORT)
                on_abort(a);
        if (sets_cc(s) || sets_feature(s)) {
                p->moves++;
                p->moved_frame = a->e->at.frame;
        }
}

void past_answer(const struct session *s, const struct session_cmd *cmd, const struct cqe *cqe,
                 const struct trace_event *e, struct rule_set *found)
{
        struct past *p = s->assoc ? s->assoc->past : NULL;
        struct answer a = { s, cmd, cqe, e, found };

        if (!p || s->gapped)
                return;
        judge_finds(found, cmd->expired && succeeded(&a), KA_EXPIRY);
        if (s->qid == 0) {
                admin_answer(p, &a);
                return;
        }
        judge_finds(found, p->stopped_frame && cmd->at.frame > p->stopped_frame && succeeded(&a),
                    FAB_RESET_CLEARS);
        judge_finds(found, p->gone_ns && cmd->at.time_ns > p->gone_ns + GONE_NS && succeeded(&a),
                    RDMA_ASSOC_ENDS);
}

/* --- Connect of an I/O queue ------------------------------------------------------------------ */

static bool is_used(const struct association *a, const struct session *but, uint16_t qid)
{
        for (const struct session *it = a->first; it; it = it->sibling)
                if (it != but && it->qid == qid && !it->disconnected && !it->gapped)
                        return true;
        return false;
}

void past_joins(const struct association *a, const struct session *s, const struct session_cmd *cmd,
                uint16_t status, struct rule_set *found)
{
        struct past *p = a->past;
        uint16_t qid = le16_get(cmd->sqe.connect.qid);
        bool settled;

        for (const struct session *it = a->first; it; it = it->sibling)
                if (it->gapped && it->qid == 0)
                        return;
        if (!p || a->discovery)
                return;
        settled = p->moved_frame < cmd->at.frame;
        judge_finds(found, settled && !(p->cc & CC_EN), FAB_CONNECT_IO_ENABLED);
        judge_finds(found, p->has_cap && le16_get(cmd->sqe.connect.sqsize) > CAP_MQES(p->cap),
                    FAB_CONNECT_SQSIZE_MAX);
        judge_finds(found, settled && p->queues && qid > p->queues, FAB_CONNECT_QID);
        judge_finds(found,
                    is_used(a, s, qid) &&
                        (status == NVME_INVALID_QID || status == NVME_SEQUENCE_ERROR ||
                         status == NVME_CONNECT_PARAM || status == NVME_SUCCESS),
                    FAB_CONNECT_QID_USED);
        p->joined |= status == NVME_SUCCESS;
}
