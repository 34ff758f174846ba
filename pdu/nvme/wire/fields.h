/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fields of properties and Identify data have to be, given the kind of controller, the
 * revision that it reports and each other: fields.def, a row a requirement, that judges controllers
 * under test and captures alike.
 */
#ifndef NVMF_WIRE_FIELDS_H
#define NVMF_WIRE_FIELDS_H

#include "identify.h"
#include "rules.h"

enum { /* what a row looks at */
       FIELDS_CAP = 1 << 0,
       FIELDS_CRTO = 1 << 1,
       FIELDS_CTRL = 1 << 2,
       FIELDS_NS = 1 << 3,
       FIELDS_NS_INDEPENDENT = 1 << 4,
       FIELDS_NVM_CTRL = 1 << 5,
       FIELDS_NVM_NS = 1 << 6,
       FIELDS_COMMON = 1 << 7,
       FIELDS_NVM_COMMON = 1 << 8,
       FIELDS_GRANULARITY = 1 << 9,
};

/* What is known of a controller and one of its namespaces. */
struct fields {
        unsigned known;    /* FIELDS_* of what follows */
        uint8_t cntrltype; /* CNTRLTYPE_* of what it is, whatever it reports; 0: not known */
        uint32_t vs;       /* 0: not known; only what holds for every revision is judged */
        uint64_t cap;
        uint32_t crto;
        const struct id_ctrl *ctrl;
        const struct id_ns *ns;              /* of an active namespace */
        const struct id_ns_independent *nsi; /* of the same */
        const struct id_nvm_ctrl *nvm;
        const struct id_nvm_ns *nvm_ns; /* of ns */
        const struct id_ns
            *common; /* what namespaces of a format have in common: CNS 00h, 09h, ... */
        const struct id_nvm_ns *nvm_common; /* ... 05h, 0Ah */
        const struct id_granularity *granularity;
};

struct field_duty {
        enum rule_id rule;
        unsigned looks; /* FIELDS_*: judged where all of them are known */
        unsigned types; /* bits 1 << CNTRLTYPE_*; 0: whichever it is */
        uint32_t since; /* NVME_VERSION(); 0: ever since there are Fabrics */
        const char *key, *says;
};

/* The duty of that number, NULL beyond the last one; from 0. */
const struct field_duty *field_duty(unsigned i);
/* Whether it can be judged by what is known. */
bool field_applies(const struct fields *f, unsigned i);
/* Whether it is kept, if it applies; *seen (may be NULL): the value of the field. */
bool field_holds(const struct fields *f, unsigned i, uint64_t *seen);
/* Adds the rules that are broken by what looks at one of `news` (FIELDS_*). */
void fields_judge(const struct fields *f, unsigned news, struct rule_set *found);
/* Each duty of that rule that is not kept, as text: "; " between them. Returns how many. */
unsigned fields_explain(const struct fields *f, enum rule_id rule, struct text *text);

#endif
