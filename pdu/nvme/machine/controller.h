/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An NVMe controller as Fabrics sees it, without transport and without namespaces: properties and
 * the enable/shutdown cycle (Base 2.2 3.5, 3.6), Keep Alive (3.9), asynchronous events (5.1.2), the
 * features that are its own, which command is allowed when (3.3.2.3). Time comes in as milliseconds
 * of any steady clock. Not thread-safe: the owner locks.
 *
 * And the submission queue's bookkeeping: SQHD and its disabling (6.3).
 */
#ifndef NVMF_MACHINE_CONTROLLER_H
#define NVMF_MACHINE_CONTROLLER_H

#include "pdu/nvme/wire/fabrics.h"
#include "pdu/nvme/wire/rules.h"

/* What a host wishes by NSSR or NSSD, for every controller of the subsystem. */
enum controller_wish { WISH_NONE, WISH_RESET, WISH_SHUTDOWN, WISH_ABRUPT_SHUTDOWN };

enum controller_type { CONTROLLER_IO, CONTROLLER_DISCOVERY };

struct controller_config {
        enum controller_type type;
        bool persistent;       /* discovery: KATO != 0 in Connect is granted (EPCSD) */
        uint16_t mqes;         /* 0's based */
        uint16_t queues_max;   /* I/O queues */
        uint16_t kas;          /* KATO granularity, 100 ms units, not 0 */
        uint32_t kato_min;     /* ms; shorter ones are raised to it */
        uint32_t idle_timeout; /* ms that an association may say nothing while the controller is
                                * disabled or shut down, and a discovery controller without KATO at
                                * any time; 2 min by the specification. 0: never ends it */
        uint32_t ready_time;   /* ms from CC.EN to CSTS.RDY; CAP.TO is longer */
        uint8_t aerl;          /* 0's based */
        bool whole;            /* hosts may reset and shut down the whole subsystem */
        bool ana;              /* reports Asymmetric Namespace Access */
        bool administrative;   /* it has no I/O queues */
        bool command_based;    /* Keep Alive: only its own command counts (3.9.3) */
        const struct rule_policy *policy; /* may be NULL */
};

enum { CONTROLLER_AERS = 16, CONTROLLER_EVENTS = 16 };

struct controller {
        struct controller_config cfg;
        uint16_t cntlid;
        uint8_t hostid[16];
        char hostnqn[NQN_FIELD], subnqn[NQN_FIELD];
        uint32_t cc, csts;
        uint32_t kato;         /* ms in force; 0: off */
        uint32_t kato_connect; /* ms: what Connect set, and a reset brings back */
        uint64_t ready_at;     /* ms: enabled, CSTS.RDY is set then; 0: not awaited */
        uint64_t alive_until;  /* ms; the Keep Alive timer; 0: not running */
        bool traffic;          /* admin or I/O commands since the timer started */
        uint64_t idle_since;   /* ms */
        uint16_t queues;       /* I/O queues granted by Number of Queues */
        uint16_t io_queues;    /* I/O queues that exist: kept by the owner */
        uint32_t aec;          /* feature 0Bh */
        struct {
                uint16_t cid;
                void *request;
        } aer[CONTROLLER_AERS];
        unsigned aers;
        struct {
                uint32_t dw0, dw1;
        } event[CONTROLLER_EVENTS]; /* waiting for an AER */
        unsigned events;
        uint8_t masked;        /* event types (bit n: type n) reported and not cleared ... */
        uint8_t masked_lid[8]; /* ... and the log that clears each */
        enum controller_wish
            wish;  /* by the last Property Set: the owner's to fulfil, and to clear */
        bool dead; /* CSTS.CFS by timeout: the association has to end */
        struct {
                bool done;
                uint32_t ofst;
                uint64_t value;
        } overwritten; /* a read-only property: FAB_PROP_KEPT is broken */
};

/* What a host's breach of `rule` makes of a command: the first status that the rule accepts, or 0
 * if the policy (may be NULL) waives the rule. */
uint16_t rule_refuse(const struct rule_policy *policy, enum rule_id rule);

/* Before CC.EN: properties and features have their first values. *cfg is copied, what it points
 * to is not. now: ms, as in all calls that follow. Nothing has to be freed. */
void controller_init(struct controller *c, const struct controller_config *cfg, uint64_t now);

/* CAP and VS of this configuration. */
uint64_t controller_cap(const struct controller_config *cfg);
uint32_t controller_vs(void);

/*
 * Whether the command may run now on queue qid (0: admin): 0, or the status it ends with (unknown
 * FCTYPE, disabled, after shutdown, opcode not of this type ...). connected: whether Connect has
 * succeeded on this queue; if not, c may be NULL.
 */
uint16_t controller_admit(const struct controller *c, uint16_t qid, bool connected,
                          const union sqe *sqe);
/* The part of it that is the controller's state: 0 if admin and I/O commands may run now. */
uint16_t controller_ready(const struct controller *c);
/* Whether controllers of this type execute the admin command `opc`. */
bool controller_supports(const struct controller_config *cfg, uint8_t opc);

/*
 * Property Get/Set, Keep Alive, Set/Get Features 07h, 0Bh, 0Fh: fill in cqe (status included).
 * controller_feature() returns false if the feature is not the controller's own, or one that a
 * discovery controller does not have.
 *
 * A Property Set that clears CC.EN is a Controller Reset: I/O queues are the owner's to close and
 * parked AERs to take away (controller_aer_take()), without a response (3.7.2).
 */
void controller_property_get(struct controller *c, const struct property_cmd *cmd, struct cqe *cqe,
                             uint64_t now);
void controller_property_set(struct controller *c, const struct property_cmd *cmd, struct cqe *cqe,
                             uint64_t now);
/* After a Property Set that asks for a shutdown, if the owner has something to do for it: SHST says that
 * shutdown occurs. */
void controller_shutdown_begin(struct controller *c);
/* It is complete, or failed and with it the controller; unless a reset has come in between. */
void controller_shutdown_end(struct controller *c, bool good);
/* An NVM Subsystem Shutdown begins here, or (done) is complete. Who is not shut down reports a normal one
 * by an Asynchronous Event Request, if it has one (3.6.3.1). */
void controller_subsystem_shutdown(struct controller *c, bool normal, bool done);
/* A controller begins whose subsystem is shut down, or has been reset since power was applied. */
void controller_subsystem_state(struct controller *c, bool shut_down, bool was_reset);
void controller_keep_alive(struct controller *c, struct cqe *cqe, uint64_t now);
bool controller_feature(struct controller *c, const union sqe *sqe, struct cqe *cqe, uint64_t now);

enum feature_select { FEATURE_CURRENT, FEATURE_DEFAULT, FEATURE_SAVED, FEATURE_CAPABILITIES };
enum { FEATURE_OF_NS = 1 << 1, FEATURE_CHANGEABLE = 1 << 2 }; /* DW0 of FEATURE_CAPABILITIES */
/* Get Features' SEL, and what is common to Set and Get Features: no feature is saveable (SV ends in
 * 1/0Dh; the saved value is the default one), reserved selects are refused. 0, or the status. */
enum feature_select feature_select(const union sqe *sqe);
uint16_t feature_check(const union sqe *sqe);

/* KATO by Connect: rounded up, minimum applied. Non-zero: the status of the Connect (IPO 48). */
uint16_t controller_connect_kato(struct controller *c, uint32_t kato);

/* A command was fetched. Admin and I/O commands keep alive (traffic based, 3.9.4.2); Fabrics
 * commands only show that the association is not idle. */
void controller_traffic(struct controller *c, bool fabrics, uint64_t now);
/* False: Keep Alive or idle timer has run out, CSTS.CFS is set, the association has to end. */
bool controller_tick(struct controller *c, uint64_t now);

/*
 * Asynchronous events. controller_aer(): parks the request, or says the status it ends with at once
 * (AER limit). controller_event(): an event of this kind happened. controller_aer_pop(): the next
 * parked request that completes now, its cqe filled in; NULL: none. controller_log_read(): log
 * `lid` was read with RAE 0, what it was about is known and its event type is reported again.
 *
 * An event is reported only if feature 0Bh asks for it (5.1.25, AEC), and not while its type is
 * masked: reported and its log not yet read. What happens then is reported afterwards, unless it is told
 * by that same log.
 */
uint16_t controller_aer(struct controller *c, uint16_t cid, void *request);
void controller_event(struct controller *c, uint8_t type, uint8_t info, uint8_t lid);
void *controller_aer_pop(struct controller *c, struct cqe *cqe);
void controller_log_read(struct controller *c, uint8_t lid);
/* Takes one parked AER away (Abort, CID), or any (cid FFFFFFFFh: reset, teardown); NULL: none. */
void *controller_aer_take(struct controller *c, uint32_t cid);

/*
 * Submission queue: what SQHD to answer. An entry is free again when its command ends: so a host that
 * goes by SQHD has no more commands outstanding than the queue has entries, and the controller no
 * more than it has room for. (One that was told of entries as soon as they were read could fill that
 * room with commands whose data is stuck behind the next of them.)
 */
struct sq {
        uint32_t size; /* entries, at most 65536 */
        uint16_t head;
        bool no_flow_control; /* SQHD is 0 in every response but Connect's (FFFFh) */
};
/* The head is 0, and no command is outstanding. size: entries, not the 0 based SQSIZE. */
void sq_init(struct sq *sq, uint32_t size, bool no_flow_control);
void sq_free(struct sq *sq);           /* a command ends; before sq_init() nothing happens */
uint16_t sq_head(const struct sq *sq); /* SQHD for a response */

/*
 * Connect, the checks that need only the command, its data and what the admin queue said
 * (Base 6.3): 0, or status; *ipo gets DW0 (IPO | IATTR). admin: the controller that an I/O queue
 * joins, or NULL if there is none; not looked at on the admin queue. max_sqsize: 0's based.
 */
uint16_t connect_check(const struct connect_cmd *cmd, const struct connect_data *data,
                       const struct controller *admin, uint16_t max_sqsize,
                       const struct rule_policy *policy, uint32_t *ipo);
/* Entries of the queue that a Connect asks for, within 2 and max_sqsize + 1. */
uint32_t connect_entries(const struct connect_cmd *cmd, uint16_t max_sqsize);

#endif
