/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One play with the host under test: a reference target for it alone, which departs from the usual as
 * the play says, what the host is asked to do there, and what it did, as the capture of it shows.
 */
#ifndef NVMF_CONFORMANCE_PLAY_H
#define NVMF_CONFORMANCE_PLAY_H

#include "suite.h"
#include "target/target.h"

struct play {
        struct target_options target; /* what is not as usual: limits, CPDA, namespaces, ... */
        enum rule_id breaks;          /* the rule that the target breaks, or RULE_NONE */
        bool hdgst, ddgst;            /* the host is to ask for these digests */
        bool stranger; /* the subsystem that the host is told is none of the target's */
};

enum { PLAY_CANNOT = 77 }; /* status: the host can't do what it was asked for */

struct played {
        int status;             /* of the host: 0: all went well; else something did not */
        char says[RESULT_TEXT]; /* its first words */
        unsigned connections, commands;
        bool hdgst, ddgst; /* the host asked for them */

        /* The connections on which the target was seen to break the rule: */
        bool broken;   /* there are any */
        bool accepted; /* the host ended one by H2CTermReq as the rule says; */
        bool termed;   /* or by another one, with these */
        uint16_t fes;
        uint32_t fei;
        bool left; /* one of them was open until the target ended */
};

/*
 * Plays, on the thread that calls it; rules that the host broke are noticed (t_notice()) as far as the
 * target gave no cause for it. Ends the case as an ERROR if the target or the capture fails.
 */
void play(struct t *t, const struct play *p, struct played *seen);

#endif
