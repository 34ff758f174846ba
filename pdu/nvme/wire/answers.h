/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What controllers have to answer certain commands with: answers.def, a row a command and the statuses
 * that are right, that judges controllers under test, which are asked it, and captures in which a host
 * has asked the same.
 */
#ifndef NVMF_WIRE_ANSWERS_H
#define NVMF_WIRE_ANSWERS_H

#include "nvme.h"
#include "rules.h"

enum { ANSWER_STATUSES = 3 };

/* What is known of a controller. */
struct answerer {
        uint8_t cntrltype; /* CNTRLTYPE_* of what it is; 0: not known */
        uint32_t vs;       /* 0: not known; only what holds for every revision is judged */
        uint64_t cap;
        const struct id_ctrl *ctrl; /* NULL: not known */
        uint32_t active, inactive;  /* NSIDs that are; 0: not known */
};

struct ask { /* a command of the admin queue */
        uint8_t opc;
        uint32_t nsid, cdw10, cdw11, cdw12, cdw13, cdw14;
        uint32_t bytes; /* that it is to transfer, in the direction that the opcode says */
};

struct answer_duty {
        enum rule_id rule;
        unsigned types; /* bits 1 << CNTRLTYPE_* */
        uint32_t since; /* NVME_VERSION(); 0: ever since there are Fabrics */
        const char *key, *says;
        uint16_t statuses[ANSWER_STATUSES]; /* right ones, the prescribed one first; 0: Success */
        unsigned n;
};

/* The duty of that number, NULL beyond the last one; from 0. */
const struct answer_duty *answer_duty(unsigned i);
/* Whether this controller has it. */
bool answer_applies(const struct answerer *a, unsigned i);
/* The command that asks for it; whether it names this status; whether there is one about this rule. */
struct ask answer_ask(const struct answerer *a, unsigned i);
bool answer_is_right(unsigned i, uint16_t status);
bool answer_is_judged(enum rule_id rule);
/* Adds the rules that are broken by this answer to a command of the admin queue: it succeeds though it
 * is to be refused. Other statuses may have other causes. */
void answer_judge(const struct answerer *a, const union sqe *sqe, uint16_t status,
                  struct rule_set *found);
/* A status that breaks the rule, if it is about this command and this status is right; else the same. */
uint16_t answer_spoil(enum rule_id rule, const union sqe *sqe, uint16_t status);

#endif
