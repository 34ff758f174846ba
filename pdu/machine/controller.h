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

#include "pdu/wire/fabrics.h"
#include "pdu/wire/rules.h"

enum controller_type { CONTROLLER_IO, CONTROLLER_DISCOVERY };

struct controller_config {
        enum controller_type type;
        bool persistent;     /* discovery: KATO != 0 in Connect is granted (EPCSD) */
        uint16_t mqes;       /* 0's based */
        uint16_t queues_max; /* I/O queues */
        uint16_t kas;        /* KATO granularity, 100 ms units, not 0 */
        uint32_t kato_min;   /* ms; shorter ones are raised to it */
        uint32_t idle_timeout; /* ms: an association that is never enabled, or has no KATO, and sends
                                * nothing; 2 min by the specification */
        uint8_t aerl;        /* 0's based */
        const struct rule_policy *policy; /* may be NULL */
};

enum { CONTROLLER_AERS = 16, CONTROLLER_EVENTS = 16 };

struct controller {
        struct controller_config cfg;
        uint16_t cntlid;
        uint8_t hostid[16];
        char hostnqn[NQN_FIELD], subnqn[NQN_FIELD];
        uint32_t cc, csts;
        uint32_t kato;           /* ms in force; 0: off */
        uint64_t alive_until;    /* ms; the Keep Alive timer; 0: not running */
        uint64_t idle_since;     /* ms */
        uint16_t queues;         /* I/O queues granted by Number of Queues */
        uint32_t aec;            /* feature 0Bh */
        struct { uint16_t cid; void *request; } aer[CONTROLLER_AERS];
        unsigned aers;
        struct { uint32_t dw0, dw1; } event[CONTROLLER_EVENTS]; /* waiting for an AER */
        unsigned events;
        uint32_t masked;         /* event types reported and not cleared; see controller.c */
        bool dead;               /* CSTS.CFS: the association has to end */
};

void controller_init(struct controller *c, const struct controller_config *cfg, uint64_t now);

/* CAP and VS of this configuration. */
uint64_t controller_cap(const struct controller_config *cfg);
uint32_t controller_vs(void);

/*
 * Whether the command may run now on queue qid (0: admin): 0, or the status it ends with (unknown
 * FCTYPE, disabled, after shutdown, opcode not of this type ...). connected: whether Connect has
 * succeeded on this queue.
 */
uint16_t controller_admit(const struct controller *c, uint16_t qid, bool connected,
                          const union sqe *sqe);

/* Property Get/Set, Keep Alive, Set/Get Features 07h, 0Bh, 0Fh: fill in cqe (status included).
 * controller_feature() returns false if the feature is not the controller's own. */
void controller_property_get(struct controller *c, const struct property_cmd *cmd, struct cqe *cqe);
void controller_property_set(struct controller *c, const struct property_cmd *cmd, struct cqe *cqe,
                             uint64_t now);
void controller_keep_alive(struct controller *c, struct cqe *cqe, uint64_t now);
bool controller_feature(struct controller *c, const union sqe *sqe, struct cqe *cqe, uint64_t now);

/* KATO by Connect: rounded up, minimum applied. Non-zero: the status of the Connect. */
uint16_t controller_connect_kato(struct controller *c, uint32_t kato, uint64_t now);

/* A command was fetched: traffic based keep alive. */
void controller_traffic(struct controller *c, uint64_t now);
/* False: Keep Alive or idle timer has run out, CSTS.CFS is set, the association has to end. */
bool controller_tick(struct controller *c, uint64_t now);

/*
 * Asynchronous events. controller_aer(): parks the request, or says the status it ends with at once
 * (AER limit). controller_event(): an event of this kind happened. controller_aer_pop(): the next
 * parked request that completes now, its cqe filled in; NULL: none. controller_log_read(): log `lid`
 * was read with RAE 0, its event type is reported again.
 */
uint16_t controller_aer(struct controller *c, uint16_t cid, void *request);
void controller_event(struct controller *c, uint8_t type, uint8_t info, uint8_t lid);
void *controller_aer_pop(struct controller *c, struct cqe *cqe);
void controller_log_read(struct controller *c, uint8_t lid);
/* Takes one parked AER away (Abort, CID), or any (cid FFFFFFFFh: reset, teardown); NULL: none. */
void *controller_aer_take(struct controller *c, uint32_t cid);

/* Submission queue: what SQHD to answer. */
struct sq {
        uint16_t size; /* entries */
        uint16_t head;
        bool no_flow_control; /* SQHD is 0 in every response but Connect's (FFFFh) */
};
void sq_init(struct sq *sq, uint16_t size, bool no_flow_control);
void sq_take(struct sq *sq);              /* a command was fetched */
uint16_t sq_head(const struct sq *sq);    /* SQHD for a response */

/*
 * Connect, the checks that need only the command, its data and what the admin queue said
 * (Base 6.3): 0, or status; *ipo gets DW0 (IPO | IATTR). admin: the controller that an I/O queue
 * joins, NULL on the admin queue. max_sqsize: 0's based.
 */
uint16_t connect_check(const struct connect_cmd *cmd, const struct connect_data *data,
                       const struct controller *admin, uint16_t max_sqsize,
                       const struct rule_policy *policy, uint32_t *ipo);

#endif
