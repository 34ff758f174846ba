/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an association has been through, as its admin queue showed it, and what may not follow from
 * there. Commands in flight are passed by in between: whatever may still be changing is not judged.
 */
#include <stdlib.h>
#include <string.h>

#include "judge.h"
#include "pcap/trace/keep.h"
#include "pdu/nvme/machine/judge.h"
#include "pdu/nvme/wire/answers.h"
#include "pdu/nvme/wire/commands.h"
#include "pdu/nvme/wire/discovery.h"
#include "pdu/nvme/wire/fields.h"
#include "pdu/nvme/wire/identify.h"
#include "pdu/nvme/wire/pages.h"
#include "pdu/nvme/wire/reservation.h"

enum {
        EVENTS = 32,
        FORMATS = 16,
        MS = 1000000, /* ns */
        TO_UNIT = 500 * MS,
        TO_SATURATED = 0xff,
        HEARD_SLACK_MS = 1000,
        LOG_MAX = 1 << 20,
        LOG_RAE_BIT = 15,     /* of cdw10 */
        LOG_OT_BIT = 23,      /* of cdw14 */
        PERSISTENT_ERROR = 3, /* of errors: Persistent Internal Error */
        AEN_INFO_LAST_BIT = 6,
        EFFECTS_CSE_BIT = 16,
        PEL_ACTION_MASK = 3, /* of LSP: */
        PEL_READ = 0,
        PEL_RELEASE = 2,
};
/* By when a host is gone, a shutdown shows, and the I/O queues of a lost admin queue are gone: nobody
 * prescribes it. What is as it was after so long has not been noticed at all. */
#define GONE_NS INT64_C(5000000000)
#define LOST_NS INT64_C(10000000000)
/* More than twice what CAP.TO can say. */
#define READY_NS INT64_C(300000000000)

struct event { /* of the kinds that stay masked until their log is read */
        uint8_t type, info, lid;
        bool reported, kept; /* kept: the log was read, but not so that it ends that */
        bool reading;        /* ... and is read so just now */
};

struct past {
        bool has_cap, has_vs, has_id, has_cc, vs_written;
        uint64_t cap;
        uint32_t vs, cc;
        struct id_ctrl id;
        uint32_t nsid; /* of ns, Identify Namespace that was read last; 0: none */
        struct id_ns ns;
        struct known_ns {
                uint32_t nsid;
                struct ns_format format;
        } formats[FORMATS]; /* those that were told last; nsid 0: none */
        unsigned next_format;
        uint32_t nn;            /* its namespaces have no NSID above; 0: not known */
        uint32_t above;         /* what a list had all the same; 0: there was none */
        uint64_t above_frame;   /* when that was seen */
        struct ids_past ids;    /* of its namespaces */
        struct ns_past spaces;  /* as long as changes of them would be told, */
        bool spaces_told;       /* ... which they are not while one was and its log is not read */
        uint64_t moves;         /* Property Sets of CC and Set Features, each begun and ended */
        uint64_t moved_frame;   /* of the last of these */
        int64_t cc_ns;          /* when CC.EN changed; 0: never */
        int64_t shn_ns;         /* when CC.SHN did */
        uint64_t stopped_frame; /* CSTS said RDY 0 since CC.EN became 0; 0: no */
        uint32_t kato, kato_in_force; /* ms: asked for; as Get Features says. 0: not known */
        int64_t gone_ns;              /* the admin queue ended; 0: not yet */
        int64_t heard_ns;             /* the last command of any of its queues */
        int64_t answered_ns;          /* ... and the last answer of the controller */
        uint32_t queues;              /* I/O queues granted; 0: not known */
        bool joined;                  /* there was an I/O queue since CC.EN is 1 */
        bool has_aec, set_aec;        /* known; as the host has set it */
        uint32_t aec;                 /* Asynchronous Event Configuration since then */
        unsigned aers, aborts;        /* outstanding */
        bool rdy;                     /* CSTS said so, since CC.EN was written */
        bool asked_id, asked_queues;
        bool indivioqdels;   /* the host's Connect said so */
        uint16_t sqsize;     /* of the admin queue, as Connect has it */
        bool plain_features; /* of Host Behavior Support nothing is set: it has its defaults, */
        int64_t ended_ns;    /* but for an end that is in order; 0: it has not */
        int64_t fatal_ns;    /* the controller said that it is out of order; 0: it has not */
        unsigned setting;    /* Set Features of Asynchronous Event Configuration outstanding */
        bool fresh;          /* a controller made for this association, and not reset since */
        bool format_alone; /* the Effects log demands that nothing else goes on during Format NVM */
        unsigned formats_out;       /* outstanding Format NVMs, of which the last is */
        uint32_t formatted;         /* ... of this namespace */
        int64_t format_ns;          /* ... and was sent then */
        uint16_t lsipi;             /* of feature 15h; 0: not known */
        bool context;               /* of the Persistent Event log: it was made */
        unsigned contexts_out;      /* commands outstanding that make or release one */
        uint64_t context_frame;     /* of the last of these, or of its completion */
        unsigned pieces;            /* other logs that were read so, by bits */
        int64_t event_ns;           /* the discovery service reported a change of a log, */
        uint8_t event_lid;          /* ... this one; 0: none, or it was read */
        uint32_t attached[FORMATS]; /* namespaces that the host has attached; 0: none */
        struct held {
                uint32_t nsid;
                uint8_t type; /* of reservation */
        } held[FORMATS];      /* by this host, as far as it is known; nsid 0: none */
        bool other_sets;      /* command sets that are not made of NVM's are asked for */
        bool in_pieces;       /* the discovery log was read so, and GENCTR not since */
        struct command_view
            join; /* .joins: an I/O queue was connected, and this is not yet judged */
        struct rule_set joined_wrongly; /* nor this */
        int64_t kept_ns; /* the host did last what keeps the timer from expiring; 0: it is off */
        struct event event[EVENTS];
        unsigned events;
        uint64_t genctr; /* of the discovery log that is kept here from its beginning */
        uint8_t *log;
        uint32_t log_len, log_room;
        struct keep *logs;
        bool log_differs;     /* a piece of it is not what it was */
        struct ana_past *ana; /* may be NULL */
        bool ana_begun;       /* its log was read from offset 0 */
        struct retry_past retry;
        int64_t left_ns; /* the host ended an I/O queue's connection without Disconnect; 0: no */
};

struct past *past_new(const struct session_cmd *connect, struct keep *logs)
{
        struct past *p = calloc(1, sizeof(*p));

        const struct connect_data *data = (const void *)connect->data;

        if (p) {
                p->has_cc = data && !connect->data_cut && connect->data_len >= sizeof(*data) &&
                            le16_get(data->cntlid) == CNTLID_DYNAMIC; /* a new one: CC is 0 */
                p->plain_features = p->fresh = p->has_cc;
                p->indivioqdels = connect->sqe.connect.cattr & CATTR_INDIVIDUAL_DELETE;
                p->sqsize = le16_get(connect->sqe.connect.sqsize);
                p->kato = le32_get(connect->sqe.connect.kato);
                p->heard_ns = p->answered_ns = connect->at.time_ns;
                p->ana = ana_past_new(logs);
                p->logs = logs;
        }
        return p;
}

void past_free(struct past *p)
{
        if (p) {
                keep_less(p->logs, p->log_room);
                free(p->log);
                ana_past_free(p->ana);
        }
        free(p);
}

void past_disconnects(struct past *p, int64_t time_ns)
{
        if (p && !p->gone_ns)
                p->gone_ns = time_ns;
}

/* 3.3.2.4: unless both sides can delete single queues, the association ends with each of them. */
void past_closed(const struct session *s, int64_t time_ns)
{
        struct past *p = s->assoc ? s->assoc->past : NULL;
        bool alone;

        if (!p || p->ended_ns || s->gapped)
                return;
        alone = p->indivioqdels && le16_get(p->id.ofcs) & OFCS_DISCONNECT;
        if (s->qid == 0 || (p->has_id && !alone && p->cc & CC_EN && !CC_SHN(p->cc)))
                p->ended_ns = time_ns;
}

/* 9.6.2: CQT at least, whoever has ended the connection. A controller that was reset or shut down is
 * not busy. */
int64_t past_busy_until(const struct past *p, int64_t time_ns)
{
        bool busy = p->has_id && p->cc & CC_EN && !CC_SHN(p->cc) && !p->stopped_frame;

        return busy && le16_get(p->id.cqt) ? time_ns + (int64_t)le16_get(p->id.cqt) * MS : 0;
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

/* Not the opposite: which of them it is may not be known. */
static bool is_io(const struct answer *a)
{
        return a->s->assoc->io;
}

/* --- properties ------------------------------------------------------------------------------- */

static bool sets_cc(const union sqe *s)
{
        return sqe_is_fabrics(s, FCTYPE_PROPERTY_SET) && le32_get(s->property.ofst) == PROP_CC;
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

/* CNTRLTYPE_*; 0: not known. */
static uint8_t type_of(const struct past *p, const struct answer *a)
{
        if (is_discovery(a))
                return CNTRLTYPE_DISCOVERY;
        if (!p->has_id)
                return 0;
        if (version(p) < NVME_VERSION(1, 4, 0))
                return is_io(a) ? CNTRLTYPE_IO : 0;
        return p->id.cntrltype;
}

/* What is known by now, for fields.def; `f` has what this answer adds. */
static void judge_fields(const struct past *p, const struct answer *a, struct fields f)
{
        unsigned news = f.known;
        struct id_ns ns = p->ns;

        f.known |= (p->has_cap ? FIELDS_CAP : 0u) | (p->has_id ? FIELDS_CTRL : 0u);
        if (f.known & (FIELDS_NVM_NS | FIELDS_NS_INDEPENDENT) && p->nsid &&
            p->nsid == le32_get(a->cmd->sqe.nsid)) {
                f.known |= FIELDS_NS;
                f.ns = &ns;
        }
        if (f.nsi) { /* these may have changed since */
                ns.nsattr = f.nsi->nsattr;
                ns.anagrpid = f.nsi->anagrpid;
        }
        f.cap = p->cap;
        f.ctrl = &p->id;
        f.vs = version(p);
        f.cntrltype = type_of(p, a);
        fields_judge(&f, news, a->found);
}

/* Where reserved bits may have become fields, or where nobody knows. */
static bool is_later(const struct past *p)
{
        return version(p) == 0 || version(p) >= NVME_VERSION(2, 3, 0);
}

static void judge_versions(const struct past *p, const struct answer *a)
{
        bool two = version(p) >= NVME_VERSION(2, 0, 0);

        if (p->has_cap)
                judge_fields(p, a, (struct fields) { .known = FIELDS_CAP });
        judge_finds(a->found, p->has_cap && p->cap & CAP_RESERVED && !is_later(p), FAB_PROP_RSVD);
        judge_finds(a->found, p->has_vs && p->has_id && p->vs != le32_get(p->id.ver), FAB_VS);
        judge_finds(a->found, p->has_cap && two && is_io(a) && !(p->cap & CAP_CRMS_CRWMS),
                    FAB_CRMS);
}

/* Whether it is one for I/O hosts learn after they have read CAP. */
static void judge_io_cap(const struct past *p, const struct answer *a)
{
        judge_finds(a->found,
                    p->has_cap && is_io(a) && (CAP_DSTRD(p->cap) != 0 || CAP_MQES(p->cap) == 0),
                    FAB_CAP);
}

static void judge_cap(const struct past *p, const struct answer *a)
{
        judge_finds(a->found, is_discovery(a) && !cap_is_discovery(p->cap), FAB_CAP_DISC);
        judge_io_cap(p, a);
        judge_versions(p, a);
}

/* How long the host should wait for RDY says CAP.TO, and binds no controller; it has to come, though. */
static void judge_ready(const struct past *p, const struct answer *a)
{
        unsigned to = CAP_TO(p->cap);
        int64_t waited = p->cc_ns ? a->cmd->at.time_ns - p->cc_ns : 0;
        bool told = p->has_cap && to != TO_SATURATED;

        judge_finds(a->found, told && waited > (int64_t)to * TO_UNIT, FAB_RDY_TIME);
        judge_finds(a->found, told && waited > READY_NS, FAB_RDY);
}

static void judge_csts(struct past *p, const struct answer *a, uint32_t csts)
{
        bool down =
            csts & CSTS_ST && CSTS_SHST(csts); /* the whole subsystem is: RDY stays as it is */
        bool settled = a->cmd->mark == p->moves && p->has_cc && !(csts & CSTS_CFS) && !down;
        bool ready = csts & CSTS_RDY, enabled = p->cc & CC_EN;

        judge_finds(a->found, csts & CSTS_RESERVED && !is_later(p), FAB_PROP_RSVD);
        if (csts & CSTS_CFS && !p->fatal_ns)
                p->fatal_ns = a->e->at.time_ns;
        if (settled && ready != enabled && !CC_SHN(p->cc))
                judge_ready(p, a);
        judge_finds(a->found,
                    settled && enabled && CC_SHN(p->cc) && !CSTS_SHST(csts) && p->shn_ns &&
                        a->cmd->at.time_ns > p->shn_ns + GONE_NS,
                    FAB_SHST);
        if (settled && !ready && !enabled && !p->stopped_frame)
                p->stopped_frame = a->e->at.frame;
        if (a->cmd->mark == p->moves)
                p->rdy = ready;
}

/* A reset clears CC (3.7.2). Entry sizes of I/O queues are reserved or read-only where there are
 * none. */
static bool reads_otherwise(const struct past *p, uint64_t value)
{
        bool io = p->has_id && p->id.cntrltype == CNTRLTYPE_IO;
        uint32_t kept = io ? CC_FIELDS | CC_IO_FIELDS : CC_FIELDS;

        return p->has_cc && p->cc & CC_EN && ((uint32_t)value ^ p->cc) & kept;
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
                judge_finds(a->found, p->has_vs && p->vs_written && (uint32_t)value != p->vs,
                            FAB_PROP_KEPT);
                p->vs = (uint32_t)value;
                p->has_vs = true;
                judge_versions(p, a);
        } else if (ofst == PROP_CRTO) {
                judge_fields(p, a,
                             (struct fields) { .known = FIELDS_CRTO, .crto = (uint32_t)value });
        } else if (ofst == PROP_CC) {
                judge_finds(a->found, a->cmd->mark == p->moves && reads_otherwise(p, value),
                            FAB_CC_READBACK);
        } else if (ofst == PROP_CSTS) {
                judge_csts(p, a, (uint32_t)value);
        }
}

/* A Controller Reset takes Asynchronous Event Requests and what is masked with it. */
static void on_cc(struct past *p, const struct answer *a)
{
        uint32_t cc = (uint32_t)le64_get(a->cmd->sqe.property.value);

        if (CC_SHN(p->cc) != CC_SHN(cc))
                p->shn_ns = a->e->at.time_ns;
        if ((p->cc ^ cc) & CC_EN) {
                p->cc_ns = a->e->at.time_ns;
                p->joined = p->has_aec = p->set_aec = p->rdy = false;
                p->retry = (struct retry_past) { 0 };
                p->kept_ns = p->fatal_ns = 0;
        }
        if (p->cc & CC_EN && !(cc & CC_EN)) {
                p->aers = p->events = p->aborts = 0;
                p->spaces_told = false;
                memset(&p->spaces, 0, sizeof(p->spaces));
                p->plain_features = true;
                p->fresh = p->context = false;
                p->has_vs = p->vs_written = false; /* there may be another firmware now */
                ana_past_reset(p->ana);
        }
        if (cc & CC_EN)
                p->stopped_frame = 0;
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

/* Bytes that are a field, each 0h or 1h. */
static void on_host_behavior(struct past *p, const struct answer *a)
{
        const uint8_t *d = a->cmd->data;
        bool known = d && !a->cmd->data_cut && a->cmd->data_len >= 4;

        p->plain_features &= known && !d[0];
        judge_finds(a->found, known && (d[0] > 1 || d[1] > 1 || d[2] > 1), CMD_CODED);
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
        } else if (selector(s) == FEAT_LBA_STATUS) {
                judge_finds(a->found, (le32_get(s->cdw11) & 0xffff) < p->lsipi, CMD_ADVISED);
        } else if (selector(s) == FEAT_HOST_BEHAVIOR) {
                on_host_behavior(p, a);
        } else if (selector(s) == FEAT_AEC && succeeded(a)) {
                p->aec = le32_get(s->cdw11);
                p->has_aec = p->set_aec = true;
        }
}

/* The default is the vendor's (4.4): until the host sets or reads it, it is not known. */
static void judge_aec(struct past *p, const struct answer *a)
{
        uint32_t aec = le32_get(a->cqe->dw0);

        judge_finds(a->found, p->set_aec && aec != p->aec, FEAT_KEPT);
        if (!p->set_aec)
                p->aec = aec;
        p->has_aec = true;
}

/* Of the current value. */
static void on_get_features(struct past *p, const struct answer *a)
{
        const union sqe *s = &a->cmd->sqe;

        if (selector(s) == FEAT_KATO)
                judge_kato(p, a);
        else if (selector(s) == FEAT_LBA_RANGES)
                judge_finds(a->found, le32_get(a->cqe->dw0) & ~0x3fu, CQE_RESERVED);
        else if (selector(s) == FEAT_WRITE_ATOMICITY)
                judge_finds(a->found, le32_get(a->cqe->dw0) & ~1u, CQE_RESERVED);
        else if (selector(s) == FEAT_LBA_STATUS)
                p->lsipi = (uint16_t)(le32_get(a->cqe->dw0) >> 16);
        else if (selector(s) == FEAT_AEC && a->cmd->mark == p->moves)
                judge_aec(p, a);
}

/* Nothing in it is out of place: neither NSID nor a fused operation, and no bit that is reserved. */
static bool is_plain(const union sqe *s)
{
        uint32_t set = le32_get(s->nsid) | le32_get(s->cdw10) | le32_get(s->cdw11) |
                       le32_get(s->cdw12) | le32_get(s->cdw13) | le32_get(s->cdw14) |
                       le32_get(s->cdw15);

        return !set && s->flags == SQE_PSDT_SGL;
}

/* 3.9 has it supported: any other status says that it is, and that something else is wrong just now. */
static void on_keep_alive(const struct past *p, const struct answer *a)
{
        uint16_t status = cqe_status(a->cqe);
        bool runs = p->cc & CC_EN && !CC_SHN(p->cc) && a->cmd->mark == p->moves;
        bool fails = is_plain(&a->cmd->sqe) &&
                     (status == NVME_INVALID_OPCODE || status == NVME_INVALID_FIELD);

        if (is_discovery(a))
                judge_finds(a->found, p->kato && runs && fails, DISC_PERSISTENT);
        else
                judge_finds(a->found, is_io(a) && runs && fails, KA_COMMAND);
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

/* What was known of them may have changed. */
static void forget_namespaces(struct past *p)
{
        memset(p->formats, 0, sizeof(p->formats));
        memset(p->attached, 0, sizeof(p->attached));
        memset(&p->ids, 0, sizeof(p->ids));
        memset(&p->spaces, 0, sizeof(p->spaces));
        p->nn = p->above = 0;
}

/* Whether a change of namespaces would be told now; what was known of them is over otherwise. */
static bool watches_namespaces(struct past *p)
{
        bool watches = p->set_aec && !p->setting && p->aec & AEC_NS && p->aers > 0 &&
                       !p->spaces_told && p->cc & CC_EN;

        if (!watches)
                memset(&p->spaces, 0, sizeof(p->spaces));
        return watches;
}

/* Feature 0Bh has a bit for each, from 8 on. A discovery controller has them by KATO. */
static bool is_unasked(const struct past *p, const struct answer *a, uint8_t info)
{
        return info <= AEN_INFO_LAST_BIT && p->has_aec && !p->setting && is_io(a) &&
               !(p->aec >> (8 + info) & 1);
}

/* Of those whose log page a host should read. */
static void on_notice(struct past *p, const struct answer *a, uint32_t dw0)
{
        uint8_t lid = (uint8_t)(dw0 >> 16);

        if (lid == LOG_ANA) {
                ana_told(p->ana);
                retry_forgets_states(&p->retry);
        }
        if (lid != LOG_ANA && lid != LOG_LBA_STATUS)
                return;
        p->event_ns = a->e->at.time_ns;
        p->event_lid = lid;
}

static void on_aer(struct past *p, const struct answer *a)
{
        uint32_t dw0 = le32_get(a->cqe->dw0);
        uint8_t type = dw0 & 7;
        struct event *e;

        p->aers -= p->aers > 0;
        if (succeeded(a) && type == AEN_NOTICE && (dw0 >> 8 & 0xff) == AEN_INFO_NS_CHANGED) {
                forget_namespaces(p);
                p->spaces_told = true;
        }
        judge_finds(a->found,
                    succeeded(a) && type == AEN_NOTICE && is_unasked(p, a, (uint8_t)(dw0 >> 8)),
                    AER_ASKED);
        if (succeeded(a) && is_discovery(a) && type == AEN_NOTICE && (dw0 >> 8 & 0xff) >= 0xf0) {
                p->event_ns = a->e->at.time_ns;
                p->event_lid = (uint8_t)(dw0 >> 16);
        }
        if (succeeded(a) && !is_discovery(a) && type == AEN_NOTICE)
                on_notice(p, a, dw0);
        if (succeeded(a) && type == AEN_ERROR && (uint8_t)(dw0 >> 8) == PERSISTENT_ERROR &&
            !p->fatal_ns)
                p->fatal_ns = a->e->at.time_ns;
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
        bool offsets = p->has_id && p->id.lpa & LPA_EXTENDED;
        uint64_t size = offsets ? log_size(p, selector(sqe)) : 0;
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

static bool has_log_room(struct past *p, uint64_t len)
{
        size_t more = len > p->log_room ? (size_t)len - p->log_room : 0;
        uint8_t *log;

        if (more == 0)
                return true;
        if (!keep_more(p->logs, more, more))
                return false;
        log = realloc(p->log, (size_t)len);
        if (!log) {
                keep_less(p->logs, more);
                return false;
        }
        p->log = log;
        p->log_room = (uint32_t)len;
        return true;
}

/* Where a discovery log ends, of which so much was read; what is read beyond that is undefined (figure 198). */
static uint64_t log_end(const void *log, size_t len)
{
        const struct disc_header *h = log;

        if (len < offsetof(struct disc_header, rsvd24))
                return DISC_HEADER_LEN;
        if (le32_get(h->tdlpl))
                return le32_get(h->tdlpl);
        return le64_get(h->numrec) < LOG_MAX
                   ? DISC_HEADER_LEN + le64_get(h->numrec) * DISC_ENTRY_LEN
                   : UINT64_MAX;
}

/* No more of it than there is: only that is compared. */
static void keep_log(struct past *p, const struct session_cmd *cmd, uint64_t at)
{
        uint64_t end = at + cmd->data_len;
        uint64_t last = at ? log_end(p->log, p->log_len) : log_end(cmd->data, cmd->data_len);

        end = end < last ? end : last;
        if (at > p->log_len || end <= p->log_len || end > LOG_MAX || !has_log_room(p, end))
                return;
        memcpy(p->log + at, cmd->data, (size_t)(end - at));
        p->log_len = (uint32_t)end;
}

/* Whether the log that GENCTR begins now has to be read, or read again, beyond this piece. */
static bool is_part(const struct past *p, const struct session_cmd *cmd)
{
        const struct disc_header *h = (const void *)cmd->data;
        bool whole =
            cmd->data_len >= sizeof(*h) &&
            le64_get(h->numrec) <= (cmd->data_len - sizeof(*h)) / sizeof(struct disc_entry);

        return p->in_pieces && le64_get(h->genctr) != p->genctr && !whole;
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
        p->in_pieces = at > 0 || is_part(p, cmd);
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

/* Statuses that only Connect has, of an entry that is no I/O command's. Controller Busy is Disconnect's, too, but
 * not on the admin queue (6.4). */
static bool is_of_connect(const struct log_error *e)
{
        uint16_t status = le16_get(e->sf) >> 1 & STATUS_MASK;
        bool admin = le16_get(e->sqid) == 0;

        if (status == NVME_CONNECT_BUSY)
                return admin;
        return status > NVME_CONNECT_BUSY && status <= NVME_CONNECT_HOST &&
               (e->opc == NVME_FABRICS || admin);
}

static void on_error_log(const struct answer *a)
{
        const struct log_error *e = (const void *)a->cmd->data;

        for (size_t i = 0; !a->cmd->data_cut && (i + 1) * sizeof(*e) <= a->cmd->data_len; i++)
                judge_finds(a->found, le64_get(e[i].count) && is_of_connect(&e[i]),
                            FAB_CONNECT_NO_LOG);
}

/* Of the NVM command set or none, and of no vendor's UUID, by which a log page may be another one (5.1.12, 8.1.28). */
static bool is_generic(const union sqe *s)
{
        uint32_t cdw14 = le32_get(s->cdw14), csi = cdw14 >> 24, uuid_index = cdw14 & 0x7f;

        return csi == 0 && uuid_index == 0;
}

/* The page from its beginning, as far as it was asked for (pages.def). */
static void judge_page(const struct past *p, const struct answer *a)
{
        const union sqe *s = &a->cmd->sqe;
        struct page page = { .lid = selector(s),
                             .lsp = le32_get(s->cdw10) >> 8 & 0x7f,
                             .cntrltype = type_of(p, a),
                             .vs = version(p),
                             .ctrl = p->has_id ? &p->id : NULL,
                             .data = a->cmd->data,
                             .len = a->cmd->data_len };

        if (page.data && !a->cmd->data_cut && log_offset(s) == 0 && !by_index(s) && is_generic(s))
                page_judge(&page, a->found);
}

/* Logs that have to be begun again once they were read in pieces. */
static unsigned piece_of(uint8_t lid)
{
        return lid == LOG_ANA ? 1 : lid == LOG_PERSISTENT ? 2 : lid == LOG_HOSTS ? 4 : 0;
}

static bool moves_context(const union sqe *s)
{
        return selector(s) == LOG_PERSISTENT &&
               (le32_get(s->cdw10) >> 8 & PEL_ACTION_MASK) != PEL_READ;
}

/* Commands that are outstanding together are executed in any order. */
static bool knows_context(const struct past *p, const struct session_cmd *read)
{
        return p->fresh && !p->contexts_out && p->context_frame < read->at.frame;
}

/* A log page that the host has read: what it owes thereafter. */
static void note_read(struct past *p, const struct answer *a, uint8_t lid)
{
        unsigned action = le32_get(a->cmd->sqe.cdw10) >> 8 & PEL_ACTION_MASK;
        bool begins = log_offset(&a->cmd->sqe) == 0;

        if (lid == LOG_EFFECTS && begins && a->cmd->data && !a->cmd->data_cut &&
            a->cmd->data_len >= sizeof(struct log_effects))
                p->format_alone = le32_get(((const struct log_effects *)(const void *)a->cmd->data)
                                               ->admin[NVME_FORMAT]) >>
                                      EFFECTS_CSE_BIT &
                                  7;
        if (lid == p->event_lid)
                p->event_lid = 0;
        if (lid == LOG_ANA)
                retry_forgets_states(&p->retry);
        if (lid == LOG_ANA && p->fresh && !(le32_get(a->cmd->sqe.cdw14) >> LOG_OT_BIT & 1))
                judge_finds(a->found, !begins && !p->ana_begun, CMD_ADVISED);
        p->ana_begun |= lid == LOG_ANA && begins;
        p->pieces = begins ? p->pieces & ~piece_of(lid) : p->pieces | piece_of(lid);
        if (lid != LOG_PERSISTENT)
                return;
        judge_finds(a->found, action == PEL_READ && knows_context(p, a->cmd) && !p->context,
                    LOG_PEL_CONTEXT);
        p->context = action == PEL_READ ? p->context : action != PEL_RELEASE;
}

static void on_get_log(struct past *p, const struct answer *a)
{
        uint8_t lid = selector(&a->cmd->sqe);

        if (moves_context(&a->cmd->sqe)) {
                p->contexts_out -= p->contexts_out > 0;
                p->context_frame = a->e->at.frame;
        }
        if (lid == LOG_CHANGED_NS && succeeded(a) && !keeps_event(&a->cmd->sqe))
                p->spaces_told = false;
        end_log(p, a);
        if (cqe_status(a->cqe) == NVME_DISCOVER_RESTART && lid == LOG_DISCOVERY)
                p->in_pieces = true; /* it has to be read again */
        if (succeeded(a)) {
                judge_page(p, a);
                note_read(p, a, lid);
        }
        judge_finds(a->found,
                    succeeded(a) && lid == LOG_HOSTS && is_discovery(a) && a->cmd->data &&
                        !a->cmd->data_cut && log_offset(&a->cmd->sqe) == 0 &&
                        !hosts_are_named(a->cmd->data, a->cmd->data_len),
                    DISC_HOSTS);
        if (succeeded(a) && lid == LOG_ANA)
                ana_reads(p->ana, a->cmd, a->e->at.frame, a->found);
        else if (succeeded(a) && lid == LOG_DISCOVERY && is_discovery(a))
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

/* Of an Abort or Cancel that has ended one: what it names and is still outstanding, if it was then. */
static void note_aborted(const struct session *q, const struct answer *a)
{
        uint16_t cid = (uint16_t)(le32_get(a->cmd->sqe.cdw10) >> 16);
        struct session_cmd *cmd = q && !q->gapped ? session_find(q, cid) : NULL;

        if (cmd && cmd != a->cmd && cmd->at.frame < a->cmd->at.frame)
                cmd->aborted_ns = a->e->at.time_ns;
}

/* Dword 0 of a Cancel of one command: how many were aborted, and how many still may be. */
static void on_cancel(const struct answer *a)
{
        uint32_t dw0 = le32_get(a->cqe->dw0), aborted = dw0 & 0xffff;

        if (!succeeded(a) || le32_get(a->cmd->sqe.cdw11) & 3)
                return;
        judge_finds(a->found, aborted > 1 || (aborted && dw0 >> 16), ABORT_WHICH);
        if (aborted == 1)
                note_aborted(a->s, a);
}

static void on_abort(const struct answer *a)
{
        if (succeeded(a) && !(le32_get(a->cqe->dw0) & 1))
                note_aborted(queue_of(a->s, le32_get(a->cmd->sqe.cdw10) & 0xffff), a);
        judge_finds(a->found,
                    succeeded(a) && a->cmd->mark != ABORT_UNSURE && !(le32_get(a->cqe->dw0) & 1) &&
                        abort_mark(a->s, &a->cmd->sqe) == a->cmd->mark,
                    ABORT_UNKNOWN);
}

/* --- Set Features of what is fixed ------------------------------------------------------------ */

/* One that has connected with HOSTID 0 may set it, once (5.1.25.1.28). */
static void on_hostid(const struct answer *a)
{
        const struct session_cmd *cmd = a->cmd;
        struct association *own = a->s->assoc;
        bool known = own->named && cmd->data && !cmd->data_cut &&
                     cmd->data_len >= sizeof(own->connect.hostid);
        bool another = known && memcmp(cmd->data, own->connect.hostid, 16) != 0;

        if (own->named && is_nobody(own->connect.hostid)) {
                if (known && succeeded(a))
                        memcpy(own->connect.hostid, cmd->data, sizeof(own->connect.hostid));
                return;
        }
        judge_finds(a->found,
                    is_io(a) && (another || cqe_status(a->cqe) == NVME_SEQUENCE_ERROR ||
                                 cqe_status(a->cqe) == NVME_FEATURE_NOT_CHANGEABLE),
                    FEAT_HOSTID_FIXED);
}

/* --- the whole -------------------------------------------------------------------------------- */

static void judge_set_queues(const struct past *p, uint32_t asked, struct rule_set *found)
{
        judge_finds(found, p->joined, FEAT_QUEUES_LATE);
        judge_finds(found, (asked & 0xffff) == 0xffff || asked >> 16 == 0xffff, FEAT_QUEUES_RANGE);
}

/* It turns to the end of its work with a discovery controller. */
static void judge_leaving(const struct past *p, const struct session *s, uint64_t cc,
                          int64_t now_ns, struct rule_set *found)
{
        bool leaves = CC_SHN(cc) || !(cc & CC_EN);

        judge_finds(found, s->assoc->discovery && p->in_pieces && leaves, DISC_REREAD);
        judge_finds(found, leaves && (p->pieces || p->context), LOG_REREAD);
        judge_finds(found, leaves && p->event_lid && now_ns > p->event_ns + GONE_NS,
                    p->event_lid == LOG_ANA          ? ANA_HOST_READS
                    : p->event_lid == LOG_LBA_STATUS ? NVM_STATUS_READ
                                                     : DISC_EVENT_READ);
}

static uint32_t *attached(struct past *p, uint32_t nsid)
{
        for (unsigned i = 0; i < FORMATS; i++)
                if (p->attached[i] == nsid)
                        return &p->attached[i];
        return NULL;
}

/* What this association has attached, and nobody is known to have detached, is not deleted. */
static void judge_management(struct past *p, const struct session_cmd *cmd, struct rule_set *found)
{
        const union sqe *s = &cmd->sqe;
        uint32_t nsid = le32_get(s->nsid);

        if (s->opc == NVME_FORMAT) {
                p->formats_out++;
                p->formatted = nsid;
                p->format_ns = cmd->at.time_ns;
        }

        if (s->opc == NVME_NS_MANAGEMENT)
                judge_finds(found, (s->cdw10.b[0] & 15) == 1 && nsid && attached(p, nsid),
                            NS_DETACHED);
        if (s->opc == NVME_FORMAT || s->opc == NVME_NS_MANAGEMENT)
                memset(p->formats, 0, sizeof(p->formats));
        if (s->opc == NVME_NS_ATTACHMENT || s->opc == NVME_NS_MANAGEMENT)
                memset(&p->spaces, 0, sizeof(p->spaces));
}

static void on_attachment(struct past *p, const struct answer *a)
{
        uint32_t nsid = le32_get(a->cmd->sqe.nsid), *at;
        bool attaches = !(a->cmd->sqe.cdw10.b[0] & 15);

        if (!nsid || (attaches && (!succeeded(a) || attached(p, nsid))))
                return;
        if ((at = attached(p, attaches ? 0 : nsid)))
                *at = attaches ? nsid : 0;
}

static void admin_command(struct past *p, const struct session *s, struct session_cmd *cmd,
                          struct rule_set *found)
{
        if (sets_cc(&cmd->sqe) || sets_feature(&cmd->sqe)) {
                p->moves++;
                p->moved_frame = cmd->at.frame;
        }
        if (sets_feature(&cmd->sqe) && selector(&cmd->sqe) == FEAT_QUEUES) {
                judge_set_queues(p, le32_get(cmd->sqe.cdw11), found);
                p->asked_queues = true;
        }
        p->asked_id |= cmd->sqe.opc == NVME_IDENTIFY && selector(&cmd->sqe) == CNS_CTRL;
        p->aborts += cmd->sqe.opc == NVME_ABORT;
        judge_management(p, cmd, found);
        p->setting += sets_feature(&cmd->sqe) && selector(&cmd->sqe) == FEAT_AEC;
        if (sets_cc(&cmd->sqe))
                judge_leaving(p, s, le64_get(cmd->sqe.property.value), cmd->at.time_ns, found);
        cmd->mark = cmd->sqe.opc == NVME_ABORT ? abort_mark(s, &cmd->sqe) : p->moves;
        if (cmd->sqe.opc == NVME_AER) {
                judge_finds(found, p->has_id && p->aers > p->id.aerl, AER_LIMIT);
                p->aers++;
        } else if (cmd->sqe.opc == NVME_GET_LOG_PAGE) {
                begin_log(p, &cmd->sqe);
                if (selector(&cmd->sqe) == LOG_ANA)
                        ana_asks(p->ana, cmd);
                if (moves_context(&cmd->sqe)) {
                        p->contexts_out++;
                        p->context_frame = cmd->at.frame;
                }
                judge_get_log(p, s, &cmd->sqe, found);
        }
}

bool past_gapped(const struct association *a)
{
        for (const struct session *it = a->first; it; it = it->sibling)
                if (it->gapped)
                        return true;
        return a->holed;
}

/* Nobody was heard for twice the timeout, and for the time to clean up (CQT), and yet there is
 * somebody to answer. A controller that is shut down has no timer (3.9.2). */
static bool is_expired(const struct past *p, const struct session *s, const struct session_cmd *cmd)
{
        int64_t cqt = p->has_id ? le16_get(p->id.cqt) : 0;
        int64_t patience = (2 * (int64_t)p->kato_in_force + cqt + HEARD_SLACK_MS) * MS;

        return !past_gapped(s->assoc) && p->kato_in_force && p->cc & CC_EN && !CC_SHN(p->cc) &&
               cmd->at.time_ns > p->heard_ns + patience;
}

/* The timer is active from the first RDY that is seen on; slack is for what delays commands on their
 * way. Where traffic counts, that of other queues may be missing unnoticed. */
static void judge_kept(struct past *p, const struct session_cmd *cmd, struct rule_set *found)
{
        int64_t katt = p->kato_in_force > p->kato ? p->kato_in_force : p->kato;
        bool keeps = cmd->sqe.opc == NVME_KEEP_ALIVE ||
                     (sets_feature(&cmd->sqe) && selector(&cmd->sqe) == FEAT_KATO);

        if (!p->rdy || !katt || !(p->cc & CC_EN) || CC_SHN(p->cc) || !p->has_id ||
            le32_get(p->id.ctratt) & CTRATT_TBKAS) {
                p->kept_ns = 0;
                return;
        }
        judge_finds(found,
                    p->kept_ns && cmd->at.time_ns > p->kept_ns + katt * MS + HEARD_SLACK_MS * MS,
                    KA_SENT);
        if (keeps || !p->kept_ns)
                p->kept_ns = cmd->at.time_ns;
}

/* Slack is for what delays commands on their way, and for the time that a host needs to notice. */
static void judge_ended(const struct past *p, const struct session *s,
                        const struct session_cmd *cmd, struct rule_set *found)
{
        int64_t now = cmd->at.time_ns;
        bool apart = s->qid == 0 && sqe_has_no_nsid(&cmd->sqe); /* Keep Alive and the like */

        if (cmd->sqe.opc == NVME_FABRICS || past_gapped(s->assoc))
                return;
        judge_finds(found, p->ended_ns && now > p->ended_ns + GONE_NS, FAB_HOST_ENDS);
        judge_finds(found, p->fatal_ns && !apart && now > p->fatal_ns + GONE_NS, FAB_HOST_RESETS);
}

const struct ns_format *past_format(const struct association *a, uint32_t nsid)
{
        const struct past *p = a ? a->past : NULL;

        for (unsigned i = 0; p && nsid && i < FORMATS; i++)
                if (p->formats[i].nsid == nsid)
                        return &p->formats[i].format;
        return NULL;
}

uint32_t past_version(const struct association *a)
{
        return a && a->past ? version(a->past) : 0;
}

/* What Identify Namespace does not tell of protection information, from CNS 05h. */
static void keep_extended(struct past *p, uint32_t nsid, const struct id_nvm_ns *x)
{
        static const uint8_t guards[] = { 16, 32, 64, 0 };

        for (unsigned i = 0; i < FORMATS; i++) {
                struct ns_format *f = &p->formats[i].format;
                uint32_t e;

                if (p->formats[i].nsid != nsid || f->index >= 64)
                        continue;
                e = le32_get(x->elbaf[f->index]);
                f->guard = guards[e >> 7 & 3];
                f->sts = e & 0x7f;
        }
}

static void keep_format(struct past *p, uint32_t nsid, const struct id_ns *n)
{
        unsigned i = 0;

        while (i < FORMATS && p->formats[i].nsid != nsid)
                i++;
        if (i == FORMATS)
                i = p->next_format++ % FORMATS;
        p->formats[i] = (struct known_ns) {
                .nsid = le64_get(n->nsze) && n->lbaf[id_ns_format(n)].lbads < 32 ? nsid : 0,
                .format = { .pi = n->dps & 7,
                            .lbads = n->lbaf[id_ns_format(n)].lbads,
                            .ms = (uint16_t)id_ns_metadata(n),
                            .index = (uint8_t)id_ns_format(n),
                            .guard = p->has_id && !(le32_get(p->id.ctratt) & CTRATT_ELBAS) ? 16 : 0,
                            .first = n->dps >> 3 & 1,
                            .deallocated_errors = n->nsfeat >> 2 & 1,
                            .refuses_iekey = n->rescap & RESCAP_IEKEY,
                            .nvmsetid = le16_get(n->nvmsetid),
                            .nacwu = n->nsfeat >> 1 & 1 ? le16_get(n->nacwu) : 0 }
        };
}

void past_view(const struct association *a, struct command_view *v)
{
        const struct past *p = a ? a->past : NULL;

        if (!p || past_gapped(a))
                return;
        v->known = true;
        v->discovery = a->discovery;
        v->nvm = !p->other_sets;
        v->has_cap = p->has_cap;
        v->cap = p->cap;
        v->has_cc = p->has_cc;
        v->cc = p->cc;
        v->rdy = p->rdy;
        v->asked_id = p->asked_id;
        v->asked_queues = p->asked_queues;
        v->aborts = p->aborts;
        v->kato = p->kato;
        v->sqsize = p->sqsize;
        v->id = p->has_id ? &p->id : NULL;
        v->format = v->sqe ? past_format(a, le32_get(v->sqe->nsid)) : NULL;
}

uint32_t past_nn(const struct association *a)
{
        return a->past ? a->past->nn : 0;
}

bool past_joined(const struct association *a, struct command_view *v, struct rule_set *found)
{
        struct past *p = a ? a->past : NULL;
        const union sqe *sqe = v->sqe;

        if (!p || !p->join.joins || past_gapped(a))
                return false;
        rule_each_in (&p->joined_wrongly, rule)
                rule_add(found, rule);
        p->joined_wrongly = (struct rule_set) { 0 };
        *v = p->join;
        v->sqe = sqe;
        p->join.joins = false;
        return true;
}

/* Slack is for what was sent before on other connections. */
static bool disturbs_format(const struct past *p, const struct session_cmd *cmd)
{
        uint32_t nsid = le32_get(cmd->sqe.nsid);

        return p->format_alone && p->formats_out && cmd->sqe.opc != NVME_FABRICS && nsid &&
               (p->formatted == NSID_ALL || nsid == NSID_ALL || nsid == p->formatted) &&
               cmd->at.time_ns > p->format_ns + HEARD_SLACK_MS * MS;
}

uint8_t past_ana_shown(const struct association *a, uint32_t nsid, int64_t now_ns)
{
        return a->past ? ana_shown(a->past->ana, nsid, now_ns) : 0;
}

static bool is_up(const struct past *p)
{
        return !p->ended_ns && !p->gone_ns && !p->fatal_ns && p->cc & CC_EN && !CC_SHN(p->cc);
}

/* Who pulls a cable ends nothing: the controller does not answer any more. By KATO a host has noticed that. */
bool past_lives(const struct association *a, int64_t now_ns)
{
        const struct past *p = a->past;
        int64_t katt =
            p ? (int64_t)(p->kato_in_force > p->kato ? p->kato_in_force : p->kato) * MS : 0;

        return p && is_up(p) && now_ns <= p->answered_ns + (katt > GONE_NS ? katt : GONE_NS);
}

/* Only where the association survives it: both sides can delete single queues. */
void past_leaves(const struct session *s, int64_t time_ns)
{
        struct past *p = s->assoc ? s->assoc->past : NULL;

        if (p && s->qid > 0 && !s->gapped && !s->disconnected && is_up(p) && p->has_id &&
            p->indivioqdels && le16_get(p->id.ofcs) & OFCS_DISCONNECT)
                p->left_ns = time_ns;
}

/* Who goes on with the admin queue had no other reason to end that connection. */
static void judge_left(struct past *p, const struct session_cmd *cmd, struct rule_set *found)
{
        bool goes_on = cmd->sqe.opc != NVME_FABRICS && cmd->sqe.opc != NVME_ABORT;

        if (!p->left_ns || cmd->at.time_ns < p->left_ns + GONE_NS / 5)
                return;
        judge_finds(found, goes_on && !p->fatal_ns, FAB_DISCONNECT_FIRST);
        p->left_ns = 0;
}

void past_command(const struct session *s, struct session_cmd *cmd, struct rule_set *found)
{
        struct past *p = s->assoc ? s->assoc->past : NULL;

        if (!p || s->gapped)
                return;
        cmd->expired = is_expired(p, s, cmd);
        judge_finds(found,
                    s->qid > 0 && is_reservation_command(cmd->sqe.opc) && s->assoc->named &&
                        is_nobody(s->assoc->connect.hostid),
                    RESV_HOSTID);
        judge_finds(found, s->qid > 0 && !past_gapped(s->assoc) && disturbs_format(p, cmd),
                    NS_QUIET);
        judge_ended(p, s, cmd, found);
        if (s->qid > 0)
                judge_retry(&p->retry, &cmd->sqe, cmd->at.time_ns, found);
        if (s->qid == 0 && !past_gapped(s->assoc))
                judge_left(p, cmd, found);
        if (s->qid == 0 && !past_gapped(s->assoc))
                judge_kept(p, cmd, found);
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
        else if (a->cmd->sqe.fctype == FCTYPE_PROPERTY_SET)
                p->vs_written |= le32_get(a->cmd->sqe.property.ofst) == PROP_VS;
}

/* Zoned namespaces have its commands, too. */
static bool is_nvm(uint8_t csi)
{
        return csi == 0 || csi == 2;
}

/* NN may grow with a namespace that is added: a list has too many where NN is the same before and after it. */
static void on_list(struct past *p, const struct answer *a)
{
        size_t n = ns_list_count(a->cmd->data, IDENTIFY_LEN);
        uint32_t last = n > 0 ? ns_list_get(a->cmd->data, n - 1) : 0;

        if (!p->nn || last <= p->nn)
                return;
        p->above = last;
        p->above_frame = a->e->at.frame;
        p->nn = 0;
}

static void on_nn(struct past *p, const struct answer *a)
{
        p->nn = le32_get(p->id.nn);
        if (!p->above || a->cmd->at.frame <= p->above_frame)
                return;
        judge_finds(a->found, p->nn < p->above && !past_gapped(a->s->assoc), ID_NS_LIST);
        p->above = 0;
}

/* Who reads the list of namespaces from its beginning looks for changes of them. */
static void on_identifiers(struct past *p, const struct answer *a)
{
        const union sqe *s = &a->cmd->sqe;

        if (selector(s) == CNS_NS_LIST || selector(s) == CNS_ALLOCATED_NS_LIST)
                on_list(p, a);
        if (selector(s) == CNS_NS_LIST && !le32_get(s->nsid)) {
                memset(&p->ids, 0, sizeof(p->ids));
                if (watches_namespaces(p) && !past_gapped(a->s->assoc))
                        ns_lists(&p->spaces, a->cmd, a->e->at.frame, a->found);
        } else if (selector(s) == CNS_NS_DESCS) {
                judge_ids(&p->ids, le32_get(s->nsid), a->cmd->data, IDENTIFY_LEN, a->found);
        }
}

/* Of an active namespace. */
static void on_group(struct past *p, const struct answer *a, const struct id_ns *ns)
{
        bool fixed = p->has_id && p->id.cmic & CMIC_ANA && p->id.anacap & ANACAP_FIXED;

        if (fixed && watches_namespaces(p) && !past_gapped(a->s->assoc))
                ns_is_in_group(&p->spaces, le32_get(a->cmd->sqe.nsid), ns, a->found);
}

static void on_identify(struct past *p, const struct answer *a)
{
        const union sqe *s = &a->cmd->sqe;
        struct fields f = { 0 };

        if (selector(s) >= CNS_IOCS_NS && selector(s) <= CNS_IOCS_NS_LIST)
                p->other_sets |= !is_nvm(s->cdw11.b[3]);
        if (!succeeded(a) || !a->cmd->data || a->cmd->data_cut || a->cmd->data_len < IDENTIFY_LEN)
                return;
        on_identifiers(p, a);
        if (selector(s) == CNS_CTRL) {
                memcpy(&p->id, a->cmd->data, sizeof(p->id));
                p->has_id = true;
                on_nn(p, a);
                judge_io_cap(p, a);
                judge_versions(p, a);
                f.known = FIELDS_CTRL;
        } else if (selector(s) == CNS_IOCS_NS && le32_get(s->cdw11) >> 24 == 0) {
                f.known = FIELDS_NVM_NS;
                f.nvm_ns = (const void *)a->cmd->data;
                if (le32_get(s->nsid) != NSID_ALL)
                        keep_extended(p, le32_get(s->nsid), f.nvm_ns);
        } else if (selector(s) == CNS_IOCS_CTRL && le32_get(s->cdw11) >> 24 == 0) {
                f.known = FIELDS_NVM_CTRL;
                f.nvm = (const void *)a->cmd->data;
        } else if (selector(s) == CNS_NS && le32_get(s->nsid) != NSID_ALL) {
                f.ns = (const void *)a->cmd->data;
                f.known = le64_get(f.ns->nsze) ? FIELDS_NS : 0;
                p->nsid = f.known ? le32_get(s->nsid) : 0;
                p->ns = *f.ns;
                ana_identifies(p->ana, a->cmd, f.ns);
                if (f.known)
                        on_group(p, a, f.ns);
                keep_format(p, le32_get(s->nsid), f.ns);
        } else if (selector(s) == CNS_NS_INDEPENDENT && le32_get(s->nsid) != NSID_ALL) {
                f.known = FIELDS_NS_INDEPENDENT;
                f.nsi = (const void *)a->cmd->data;
        }
        judge_fields(p, a, f);
}

static void judge_answer(const struct past *p, const struct answer *a)
{
        struct answerer who = { .cntrltype = type_of(p, a),
                                .vs = version(p),
                                .cap = p->cap,
                                .ctrl = p->has_id ? &p->id : NULL };

        answer_judge(&who, &a->cmd->sqe, cqe_status(a->cqe), a->found);
}

static void admin_answer(struct past *p, const struct answer *a)
{
        const union sqe *s = &a->cmd->sqe;

        judge_answer(p, a);
        if (s->opc == NVME_SET_FEATURES || s->opc == NVME_GET_FEATURES)
                ana_feature(p->ana, a->cmd, cqe_status(a->cqe));
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
        else if (s->opc == NVME_DISCOVERY_MANAGEMENT)
                judge_registration(a->cmd, a->found);
        else if (s->opc == NVME_FORMAT)
                p->formats_out -= p->formats_out > 0;
        else if (s->opc == NVME_NS_ATTACHMENT)
                on_attachment(p, a);
        if (s->opc == NVME_NS_ATTACHMENT || s->opc == NVME_NS_MANAGEMENT)
                p->nn = p->above = 0;
        p->setting -= sets_feature(s) && selector(s) == FEAT_AEC && p->setting > 0;
        p->aborts -= s->opc == NVME_ABORT && p->aborts > 0;
        if (sets_cc(s) || sets_feature(s)) {
                p->moves++;
                p->moved_frame = a->e->at.frame;
        }
}

static struct held *held(struct past *p, uint32_t nsid)
{
        for (unsigned i = 0; i < FORMATS; i++)
                if (p->held[i].nsid == nsid)
                        return &p->held[i];
        return NULL;
}

/* The type that a host has acquired it releases. Others may have preempted it: only where the
 * controller finds fault with the type is it known that it was another one. */
static void on_reservation(struct past *p, const struct answer *a)
{
        const union sqe *s = &a->cmd->sqe;
        uint32_t nsid = le32_get(s->nsid), cdw10 = le32_get(s->cdw10), action = cdw10 & 7;
        struct held *h = nsid ? held(p, nsid) : NULL;
        uint8_t type = (uint8_t)(cdw10 >> 8);

        if (s->opc == NVME_RESERVATION_RELEASE && action == 0)
                judge_finds(a->found,
                            h && h->type != type && cqe_status(a->cqe) == NVME_INVALID_FIELD,
                            RESV_RELEASE_TYPE);
        if (!nsid || !succeeded(a) || s->opc == NVME_RESERVATION_REPORT)
                return;
        if (h)
                h->nsid = 0;
        if (s->opc == NVME_RESERVATION_ACQUIRE && action == 0 && (h = held(p, 0)))
                *h = (struct held) { nsid, type };
}

/* CQT is what a controller has to stop what it was doing (3.3.2.4). */
static bool outlives_admin(const struct past *p, const struct session_cmd *cmd)
{
        int64_t cqt = p->has_id ? le16_get(p->id.cqt) : 0;

        return p->gone_ns && cmd->at.time_ns > p->gone_ns + LOST_NS + cqt * MS;
}

void past_answer(const struct session *s, const struct session_cmd *cmd, const struct cqe *cqe,
                 const struct trace_event *e, struct rule_set *found)
{
        struct past *p = s->assoc ? s->assoc->past : NULL;
        struct answer a = { s, cmd, cqe, e, found };

        if (p)
                p->answered_ns = e->at.time_ns;
        if (!p || s->gapped)
                return;
        judge_finds(found, cmd->expired && succeeded(&a), KA_EXPIRY);
        judge_finds(found,
                    s->qid > 0 && sqe_is_fabrics(&cmd->sqe, FCTYPE_DISCONNECT) && succeeded(&a) &&
                        p->has_id && !(le16_get(p->id.ofcs) & OFCS_DISCONNECT) && !is_later(p),
                    FAB_DISCONNECT_TOLD);
        judge_finds(found, cmd->aborted_ns && cqe_status(cqe) != NVME_ABORT_REQUESTED, ABORT_WHICH);
        judge_finds(
            found,
            p->plain_features && cqe_status(cqe) &&
                (le16_get(cqe->sf) >> 1 & STATUS_CRD || cqe_status(cqe) == NVME_INTERRUPTED),
            CQE_UNASKED_RETRY);
        judge_finds(found,
                    le16_get(cqe->sf) >> 1 & STATUS_CRD && le16_get(cqe->sf) >> 1 & STATUS_DNR,
                    CQE_UNASKED_RETRY);
        if (s->qid == 0) {
                admin_answer(p, &a);
                return;
        }
        judge_finds(found, p->stopped_frame && cmd->at.frame > p->stopped_frame && succeeded(&a),
                    FAB_RESET_CLEARS);
        judge_finds(found, outlives_admin(p, cmd) && succeeded(&a), RDMA_ASSOC_ENDS);
        if (cmd->sqe.opc != NVME_FABRICS)
                ana_io(p->ana, cmd, cqe_status(cqe));
        if (succeeded(&a) && watches_namespaces(p) && !past_gapped(s->assoc))
                ns_serves(&p->spaces, cmd, e->at.frame);
        if (cmd->sqe.opc == NVME_COPY)
                judge_copied_again(&p->retry, cmd, found);
        if (cmd->sqe.opc != NVME_FABRICS && !succeeded(&a))
                retry_fails(&p->retry, cmd, cqe, p->has_id ? &p->id : NULL, e->at.time_ns);
        judge_finds(found,
                    cmd->sqe.opc == NVME_WRITE_ZEROES && !p->other_sets && succeeded(&a) &&
                        le32_get(cqe->dw0) >> 1,
                    CQE_RESERVED);
        if (cmd->sqe.opc == NVME_CANCEL)
                on_cancel(&a);
        else if (is_reservation_command(cmd->sqe.opc))
                on_reservation(p, &a);
}

/* --- Connect of an I/O queue ------------------------------------------------------------------ */

/* Who has this number already. */
static struct session *user_of(const struct association *a, const struct session *but, uint16_t qid)
{
        for (struct session *it = a->first; it; it = it->sibling)
                if (it != but && it->qid == qid && !it->disconnected && !it->gapped)
                        return it;
        return NULL;
}

/*
 * What the admin queue has done may have been lost, with nothing behind it that shows the hole, and so may the end of
 * the queue that had this number: a controller that refuses agrees; otherwise it shows when these queues go on.
 */
void past_joins(const struct association *a, const struct session *s, const struct session_cmd *cmd,
                uint16_t status, struct rule_set *found)
{
        struct past *p = a->past;
        uint16_t qid = le16_get(cmd->sqe.connect.qid);
        struct session *old = user_of(a, s, qid);
        struct rule_set *doubtful;
        bool settled;

        for (const struct session *it = a->first; it; it = it->sibling)
                if (it->gapped && it->qid == 0)
                        return;
        if (!p || a->discovery || a->holed)
                return;
        doubtful = status != NVME_SUCCESS ? found : &p->joined_wrongly;
        settled = p->moved_frame < cmd->at.frame;
        judge_finds(doubtful, settled && !(p->cc & CC_EN), FAB_CONNECT_IO_ENABLED);
        judge_finds(found, p->has_cap && le16_get(cmd->sqe.connect.sqsize) > CAP_MQES(p->cap),
                    FAB_CONNECT_SQSIZE_MAX);
        judge_finds(doubtful, settled && p->queues && qid > p->queues, FAB_CONNECT_QID_GRANTED);
        judge_finds(found,
                    old && (status == NVME_INVALID_QID || status == NVME_SEQUENCE_ERROR ||
                            status == NVME_CONNECT_PARAM),
                    FAB_CONNECT_QID_USED);
        if (old && status == NVME_SUCCESS)
                old->doubled = true;
        p->joined |= status == NVME_SUCCESS;
        p->join = (struct command_view) { 0 };
        past_view(a, &p->join);
        p->join.joins = status == NVME_SUCCESS && p->join.known;
}
