/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What both sides of one queue have said so far that is the queue's own, whatever transport it goes
 * by: commands that are outstanding, SQHD, Connect, Disconnect, Controller Resets, and every rule
 * that needs memory of them. track.h (NVMe/TCP) and rdma_track.h are built on it; only they use it.
 *
 * As there: what breaks a rule that ends the connection is the fault (at most one, and it changes
 * nothing), all else are findings.
 */
#ifndef NVMF_MACHINE_QUEUE_TRACK_H
#define NVMF_MACHINE_QUEUE_TRACK_H

#include "judge.h"
#include "pdu/nvme/wire/fabrics.h"
#include "tags.h"

struct
    queue_cmd { /* a command that is outstanding; the transport's record of it begins with this */
        uint16_t cid;
        uint8_t opc, fctype; /* fctype: when opc is NVME_FABRICS */
        uint8_t again;       /* more commands with the same CID (that rule is waived) */
        bool shared;         /* a later command had its CID: a completion may be of any of them */
        bool vanished;       /* by a Controller Reset: it needs no answer, its CID is free to use */
        uint64_t least;      /* where the head of the queue is at least when it is answered */
        union {              /* what a success of these Fabrics commands changes; as on the wire */
                struct {
                        le16_t qid, sqsize;
                        uint8_t cattr;
                } connect;
                struct {
                        le32_t ofst, value;
                } property;
        };
};

struct queue_track;

/* What differs from transport to transport. */
struct queue_kind {
        size_t cmd_size;           /* bytes of its record of a command */
        enum rule_id cmd_cid;      /* CIDs of outstanding commands are unique */
        enum rule_id rsp_cid;      /* a response belongs to an outstanding command */
        enum rule_id rsp_reserved; /* SQID and phase bit; RULE_NONE: the transport looks itself */
        bool keyed;                /* see struct queue_past */
        /* The record is given up, or to another command. May be NULL. */
        void (*leaves)(struct queue_track *q, struct queue_cmd *cmd);
};

enum {
        QUEUE_FIRST_COMMANDS = 64
}; /* until Connect has said the queue's size: admin depth and AERs */

struct queue_track {
        const struct queue_kind *kind;
        const struct rule_set *waived; /* may be NULL */
        struct fault fault;            /* of what was told last */
        struct rule_set findings;
        uint16_t depth_max;
        bool looks, passive; /* for findings; both directions may race */

        /* The submission queue as SQHD shows it: counted without end, on the wire modulo its size. */
        struct queue_past past;
        bool disconnected;
        bool no_flow_control, unasked; /* unasked: FAB_SQFC_UNASKED, SQHD may be anything */
        uint32_t size;                 /* entries; 0: not known */
        uint64_t sent, head;           /* commands, from the start */
        uint64_t vanished;             /* by resets, of those sent */
        unsigned unknown; /* outstanding ones that found no room here: nothing is said of them */

        struct tags cids;
        uint8_t *first_cmds, *more_cmds;
        unsigned outstanding;
        int dying; /* slot of the command that the controller's last word ended */
};

/* 0, or -1: out of memory. depth_max: entries of a queue, 0: 1024; more are FAB_OVERRUN or FAB_OUTSTANDING. */
int queue_track_init(struct queue_track *q, const struct queue_kind *kind, uint16_t depth_max,
                     const struct rule_set *waived);
void queue_track_fini(struct queue_track *q);
/* Nobody saw the beginning: as many commands as depth_max may be outstanding. -1: out of memory. */
int queue_track_mid_stream(struct queue_track *q);

/* Before anything new that `sender` said. */
static inline void queue_track_begin(struct queue_track *q, enum party sender)
{
        q->fault = (struct fault) { 0 };
        if (q->looks)
                q->findings = (struct rule_set) { 0 };
        if (sender == PARTY_CONTROLLER && q->dying != TAGS_NONE) {
                tags_free(&q->cids, q->dying);
                q->dying = TAGS_NONE;
        }
}

/* True: it is a fault. To who only watches, what a receiver may survive is a finding: the sender is to
 * blame, and what the two make of it is followed all the same. */
bool queue_fails(struct queue_track *q, enum rule_id rule);
static inline bool queue_breaks(struct queue_track *q, bool broken, enum rule_id rule)
{
        return broken && queue_fails(q, rule);
}

static inline void queue_finds(struct queue_track *q, bool broken, enum rule_id rule)
{
        if (broken && q->looks && !rule_in(q->waived, rule))
                rule_add(&q->findings, rule);
}
/* As queue_finds(), for each rule in `found`. */
void queue_track_collects(struct queue_track *q, const struct rule_set *found);

/* The record of a slot; NULL: of none. */
static inline struct queue_cmd *queue_track_at(struct queue_track *q, int slot)
{
        bool first = slot < QUEUE_FIRST_COMMANDS;
        uint8_t *base = first ? q->first_cmds : q->more_cmds;
        void *cmd = NULL;

        if (slot >= 0)
                cmd =
                    base + (size_t)(slot - (first ? 0 : QUEUE_FIRST_COMMANDS)) * q->kind->cmd_size;
        return cmd;
}

/* NULL if not outstanding. */
static inline struct queue_cmd *queue_track_cmd(struct queue_track *q, uint16_t cid)
{
        return queue_track_at(q, tags_find(&q->cids, cid));
}

/* Whether the queue has no room for another command, or its CID (cmd has it now) is taken. */
bool queue_track_refuses(struct queue_track *q, struct queue_cmd *cmd);
/*
 * Takes a command that was not refused; cmd has its CID now, or NULL. Returns its record; fresh: it
 * is a new one, of which the transport's part is whatever was there before.
 * Waived rules: of two commands with one CID the first one stays in the model, and is answered as
 * often as it came; NULL when there is no room at all, and of the command only its number is kept.
 */
struct queue_cmd *queue_track_takes(struct queue_track *q, struct queue_cmd *cmd,
                                    const union sqe *s, bool *fresh);
/* Takes its response (cmd is not NULL): it has ended, and its record is good until the controller's
 * next word. */
void queue_track_answers(struct queue_track *q, struct queue_cmd *cmd, const struct cqe *cqe);
/* Takes the response to a command that found no room, or by SUCCESS its end (cqe NULL); false: there is
 * no such command. */
bool queue_track_answers_unknown(struct queue_track *q, const struct cqe *cqe);
/* Ends a command without a response. */
void queue_track_ends(struct queue_track *q, struct queue_cmd *cmd);

#endif
