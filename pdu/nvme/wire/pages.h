/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fields of log pages have to be, given the kind of controller, the revision that it reports
 * and its Identify Controller data: pages.def, a row a requirement, that judges controllers under
 * test and captures alike. (What they mean to a reader: logs.h.)
 */
#ifndef NVMF_WIRE_PAGES_H
#define NVMF_WIRE_PAGES_H

#include "nvme.h"
#include "rules.h"
#include "text.h"

/* A log page, or its first len bytes, as one command returned it from offset 0. */
struct page {
        uint8_t lid, lsp;           /* of the command: LSP */
        uint8_t cntrltype;          /* CNTRLTYPE_* of what it is; 0: not known */
        uint32_t vs;                /* 0: not known; only what holds for every revision is judged */
        const struct id_ctrl *ctrl; /* NULL: not known */
        const uint8_t *data;
        size_t len;
};

struct page_duty {
        enum rule_id rule;
        uint8_t lid;
        uint16_t least; /* bytes that it looks at, or begins to */
        unsigned types; /* bits 1 << CNTRLTYPE_*; 0: whichever it is */
        bool ctrl;      /* looks at Identify Controller */
        uint32_t since; /* NVME_VERSION(); 0: ever since there are Fabrics */
        const char *key, *says;
};

/* The duty of that number, NULL beyond the last one; from 0. */
const struct page_duty *page_duty(unsigned i);
/* Whether it can be judged by this page. */
bool page_applies(const struct page *p, unsigned i);
/* Whether it is kept, if it applies; *seen (may be NULL): the value, or which entry it is about. */
bool page_holds(const struct page *p, unsigned i, uint64_t *seen);
/* Adds the rules that this page breaks. */
void page_judge(const struct page *p, struct rule_set *found);
/* Each duty of that rule that is not kept, as text: "; " between them. Returns how many. */
unsigned page_explain(const struct page *p, enum rule_id rule, struct text *text);

#endif
