/* SPDX-License-Identifier: BSD-3-Clause */
/* From sessions after which a target was not well to the few steps that make it so, in a file. */
#ifndef NVMF_FUZZ_FINDING_H
#define NVMF_FUZZ_FINDING_H

#include "campaign.h"
#include "seeds.h"

enum { FINDING_SHAPE = 120 };

struct finding {
        struct trouble trouble;
        struct corpus sequences; /* one as a rule; several where only they together do it */
        bool reproduced;         /* these sequences, played once more, did it again */
        unsigned again, played;  /* ... so often, of so often, in the end; 0, 0: no time was left */
        uint64_t wait;           /* ms after which the oracle has complained, if it does */
        bool gone;               /* the target did not come back */
        unsigned trials;
        struct remote_log log;     /* what went over the wire with the last of them; of its own */
        char shape[FINDING_SHAPE]; /* findings of one shape are one */
        char file[CORPUS_ERROR];   /* where it was saved; "" : not at all */
};

/*
 * Finds out which of the past sessions (oldest first) brought the trouble about, and makes it small,
 * on the live target. last: what went over the wire with the last of them, that broke the rule or did
 * hang, if that is the trouble. What can't be found out is kept with all of them. If the target is
 * lost before the trouble shows again, that is studied in its place. Takes as long as
 * config->minimise says at most, but for hangs, and for both of them. Free it afterwards.
 */
void finding_study(struct finding *f, struct player *p, const struct trouble *t,
                   const struct seeds *past, const struct remote_log *last);
void finding_free(struct finding *f);
/* That of a trouble, where numbers do not count: its kind, and the rule or what the oracle says.
 * False: the steps are to be added. */
bool finding_shape(const struct fuzz_family *f, const struct trouble *t, char shape[FINDING_SHAPE]);

/*
 * NUMBER-KIND.seq in config->out, and .pcap next to it: over TCP what went over the wire when it
 * showed; over RDMA it is played once more to a target that is there, through a provider that
 * records. False: err has one line.
 */
bool finding_save(struct finding *f, const struct campaign_config *config, unsigned number,
                  char err[CORPUS_ERROR]);

/* Runs the command that starts the target again, if there is one, and waits until the target answers,
 * for its host's timeout at most; says: what that printed, or why not. False: it does not. */
bool finding_revive(const struct campaign_config *config, char says[ORACLE_LINE]);
/* Before the first session: the same, but only if it does not answer and there is such a command. */
bool finding_awake(const struct campaign_config *config, char says[ORACLE_LINE]);
/* Waits so many ms, and takes a complaint for one of what was played before. False: the target did not come
 * back, where there is a command for it. */
bool finding_hear_out(const struct campaign_config *config, uint64_t late);

#endif
