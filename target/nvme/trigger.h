/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults with a trigger: what the target does wrong on purpose, to which commands, and when. One
 * grammar for the command line, the configuration and the RPC: words with blanks between them, the first
 * says what happens, the others, in any order, when (doc/target.md has the table):
 *
 *      status=2/81h cmd=read host=NQN nth=3
 *      delay=50ms on=r2t one-in=100 seed=7
 *      violate=tcp/c2hdata/datao qid=2 after=1G times=1
 *      reset=half on=c2hdata
 *
 * Everything here is without clock and connection. A command meets the faults once, as it comes; what
 * it has met goes with it as a mask, and at each point of its life those of that point are asked for.
 */
#ifndef NVMF_TARGET_TRIGGER_H
#define NVMF_TARGET_TRIGGER_H

#include "pdu/nvme/wire/fabrics.h"
#include "pdu/nvme/wire/rules.h"

enum {
        FAULTS_MAX = 64,       /* at once: bits of a mask */
        FAULT_TEXT = 511,      /* bytes of one in words */
        FAULT_COMMANDS = 768,  /* opcodes of admin and I/O commands, FCTYPEs, 256 each */
        FAULT_MS_MAX = 600000, /* of a delay */
};

enum fault_action {
        FAULT_STATUS,  /* the command is refused with a status, and not executed */
        FAULT_VIOLATE, /* a rule is broken in a message */
        FAULT_DELAY,   /* it comes later */
        FAULT_DROP,    /* the command is executed, and never answered */
        FAULT_CLOSE,   /* the connection is closed; over TCP with FIN ... */
        FAULT_RESET,   /* ... or with RST */
        FAULT_CORRUPT, /* a byte of the data is another, and all digests are right */
        FAULT_ACTIONS,
};

enum fault_point {                /* in the life of a command */
                   FAULT_COMMAND, /* its capsule has come */
                   FAULT_R2T,     /* its data is about to be asked for: R2T, RDMA READ */
                   FAULT_H2CDATA, /* all of its data has come, it is about to be executed */
                   FAULT_C2HDATA, /* its data is about to leave: C2HData, RDMA WRITE */
                   FAULT_RESP,    /* its response is about to leave */
                   FAULT_POINTS,
};

struct trigger_range { /* given or not */
        uint64_t first, last;
        bool given;
};

struct trigger {
        char text[FAULT_TEXT + 1];
        enum fault_action action;
        enum fault_point point; /* not of FAULT_VIOLATE */
        uint16_t status;        /* SCT << 8 | SC, perhaps STATUS_DNR */
        enum rule_id rule;
        struct rule_set rules; /* that one alone */
        uint64_t value;        /* ms, or a byte of the message or of the data */
        bool half;             /* of the message, in place of a byte */

        char host[NQN_MAX + 1], nqn[NQN_MAX + 1]; /* "": any */
        bool any_command;
        uint64_t commands[FAULT_COMMANDS / 64]; /* by kind * 256 + opcode */
        struct trigger_range qid, nsid, lba;
        uint64_t after;                           /* bytes */
        uint64_t wait;                            /* ms */
        uint64_t nth, every, one_in, times, seed; /* 0: not given */

        /* What it has come to. */
        unsigned id;    /* from 1; 0: there is no fault here */
        uint64_t since; /* ms */
        uint64_t bytes, met, fired;
};

/* Reads one. False: error has one line, "at character 15, 'on=c2h': on= is one of ...". */
bool trigger_parse(struct trigger *f, const char *text, char *error, size_t size);
/* "status", "violate"... */
const char *fault_action_name(enum fault_action a);

/* --- those that a target has ------------------------------------------------------------------- */

struct triggers;

struct triggers *triggers_new(void);    /* without any; NULL: out of memory */
void triggers_free(struct triggers *l); /* or NULL */
/*
 * Makes them those of the texts, FAULTS_MAX at most, which have been read before without an error: what
 * was there already stays, with all that it has come to. Nobody else uses it meanwhile. The slots whose
 * faults are not there any more.
 */
uint64_t triggers_change(struct triggers *l, char *const *texts, unsigned n, uint64_t now);
/* Whether it has just these, in this order. l may be NULL. */
bool triggers_are(const struct triggers *l, char *const *texts, unsigned n);
/* As it is now, from slot *slot on, which goes on after it; false: there are no more. Any thread. */
bool triggers_list(struct triggers *l, unsigned *slot, struct trigger *copy);

/* A command that comes, or (sqe NULL) a message that belongs to none. */
struct trigger_command {
        const char *host, *nqn; /* NULL: not known yet, as before Connect */
        uint16_t qid;
        const union sqe *sqe;
        uint32_t len; /* bytes that it transfers */
        uint64_t now; /* ms */
};
/* The slots of the faults that it may have. Any thread, as all below. */
uint64_t triggers_meet(struct triggers *l, const struct trigger_command *c);

/* The next one of the slots in mask, from *slot on, that does one of these (1 << enum fault_action) at
 * that point, or, if it violates, at any; NULL: there are no more. */
const struct trigger *triggers_at(const struct triggers *l, uint64_t mask, unsigned *slot,
                                  unsigned actions, enum fault_point point);
/* The fault could happen here: whether it does. To be called once for each chance. */
bool triggers_due(struct triggers *l, const struct trigger *f);

#endif
