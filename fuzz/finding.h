/* SPDX-License-Identifier: BSD-3-Clause */
/* From sessions after which a target was not well to the few steps that make it so, in a file. */
#ifndef NVMF_FUZZ_FINDING_H
#define NVMF_FUZZ_FINDING_H

#include "campaign.h"

struct past { /* a session as it was played */
        const struct sequence *sequence;
        const struct remote_log *log;
};

struct finding {
        struct trouble trouble;
        struct corpus sequences; /* one as a rule; several where only they together do it */
        bool reproduced;         /* these sequences, played once more, did it again */
        bool gone;               /* the target did not come back */
        unsigned trials;
        struct remote_log log;   /* what went over the wire with the last of them; of its own */
        char shape[120];         /* findings of one shape are one */
        char file[CORPUS_ERROR]; /* where it was saved; "" : not at all */
};

/*
 * Finds out which of n sessions (oldest first) brought the trouble about, and makes it small, on the
 * live target. Takes as long as config->minimise says at most, but for hangs. Free it afterwards.
 */
void finding_study(struct finding *f, struct player *p, const struct trouble *t,
                   const struct past *past, unsigned n);
void finding_free(struct finding *f);

/* FOLDER/NUMBER-KIND.seq, and .pcap next to it (TCP). False: err has one line. */
bool finding_save(struct finding *f, const char *folder, unsigned number, char err[CORPUS_ERROR]);

/* Waits until the target answers, after the command that brings it back, if there is one; says:
 * what that printed. False: it does not. */
bool finding_revive(const struct campaign_config *config, char says[ORACLE_LINE]);

#endif
