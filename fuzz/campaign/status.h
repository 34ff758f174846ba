/* SPDX-License-Identifier: BSD-3-Clause */
/* How a campaign goes: a screen that is drawn again on a terminal, else JSON, an object a line. */
#ifndef NVMF_FUZZ_STATUS_H
#define NVMF_FUZZ_STATUS_H

#include "finding.h"

struct status {
        const struct fuzz_family *family; /* of the rules */
        bool screen;
        uint64_t began, shown; /* ms */
        uint64_t shown_runs, last_new;
        unsigned lines; /* of the screen */

        uint64_t runs, ends[REMOTE_ENDS];
        unsigned novelty, corpus, findings;
};

/* The campaign begins now: all counts are 0. Where stdout is a terminal, status_show() writes
 * over what it has shown. */
void status_begin(struct status *s, const struct fuzz_family *family);
/* Once a second, whenever it is called; now: in any case. */
void status_show(struct status *s, bool now);
void status_finding(struct status *s, const struct finding *f);
/* In a line, when it is over. */
void status_end(struct status *s);

#endif
