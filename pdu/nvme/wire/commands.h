/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What hosts have to write into commands, given what the controller has said and what they did before:
 * commands.def, a row a requirement.
 */
#ifndef NVMF_WIRE_COMMANDS_H
#define NVMF_WIRE_COMMANDS_H

#include "fabrics.h"
#include "pdu/core/text.h"
#include "rules.h"

struct ns_format {  /* of a namespace, as Identify Namespace tells */
        uint8_t pi; /* type of protection information; 0: none */
        uint8_t lbads;
        uint16_t ms;
        uint8_t index, guard, sts; /* of the format in use; guard 0: not known */
        bool first;                /* protection information comes before other metadata */
        bool deallocated_errors;   /* NSFEAT.DAE */
        bool refuses_iekey;        /* RESCAP bit 7: Acquire and Release with IEKEY fail */
        uint16_t nacwu;            /* 0's based; 0: not reported */
        uint16_t nvmsetid;         /* 0: none */
};

/* A command, and what is known of its queue and association when it is sent. All zero but the first
 * two: nothing else is. */
struct command_view {
        const union sqe *sqe;
        int qid; /* < 0: not known */
        bool tcp;
        bool joins;     /* it is the Connect of an I/O queue, and the rest is about what it joins */
        bool known;     /* the association was seen from its beginning */
        bool discovery; /* its controller */
        bool nvm;       /* I/O commands are of the NVM command set */
        bool has_cap, has_cc;
        uint64_t cap;
        uint32_t cc; /* before this command */
        bool rdy;    /* CSTS.RDY was 1 when it was last read, since CC.EN was written */
        bool asked_id, asked_queues; /* Identify Controller was sent; Number of Queues was set */
        bool leaving; /* a Disconnect of the queue is outstanding, or has succeeded */
        unsigned outstanding, aborts;   /* other commands of the queue; Aborts of the admin queue */
        uint32_t kato;                  /* ms, of its Connect */
        unsigned sqsize;                /* of the admin queue's Connect; 0: not known */
        const struct id_ctrl *id;       /* NULL: not known */
        const struct ns_format *format; /* of its namespace; NULL: not known */
        const union sqe *first;         /* the command before, if it is the first of a fused pair */
};

/* Adds what it breaks to `found`, and to `why` (may be NULL) each requirement with what was seen. */
void command_judge(const struct command_view *v, struct rule_set *found, struct text *why);
/* Breaks those requirements of these rules that are the command's own; false: there are none. */
bool command_spoil(const struct rule_set *violated, union sqe *sqe);

struct command_duty {
        enum rule_id rule;
        const char *key, *says;
        bool breakable; /* by command_spoil() */
};
/* The row of that number, from 0; NULL beyond the last one. */
const struct command_duty *command_duty(unsigned i);

#endif
