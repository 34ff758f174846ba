/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One control channel as whoever sees all of it knows it: which request is due, which is outstanding, what was agreed on.
 * It is told what each side says, in order, and finds what that breaks, on either side. It does no I/O and has no memory
 * but its own; it is passive, so the same one serves both ends, captures and fuzzers.
 *
 * The stages are the requests of struct doca_dialect.order. What an error does to its stage is not written anywhere: the
 * reference target uses the stage up, so that a retried request is not due any more; one that is strict stays where it is.
 */
#ifndef NVMF_DOCA_MACHINE_CONTROL_H
#define NVMF_DOCA_MACHINE_CONTROL_H

#include "pdu/doca/wire/doca.h"

enum {
        DOCA_CORES_MAX = 256,
        DOCA_OUTSTANDING = 8, /* requests without response; of more, not all is judged */
};

enum doca_after_error {
        DOCA_KEEPS,    /* the stage stays: strict */
        DOCA_CONSUMES, /* it is used up: as the reference has it */
        DOCA_UNSURE,   /* nobody knows: from then on the order is not judged */
};

struct doca_control {
        const struct doca_dialect *dialect;
        enum doca_after_error after_error;
        unsigned at;  /* the stage: in dialect->order; its end: the channel has said all */
        bool unsure;  /* of the stage */
        bool missing; /* something was not seen: responses are not judged by their requests */
        uint64_t cores,
            transactions; /* of the initialisation that was answered; 2.10: as connections come */
        uint64_t left;    /* connections to be asked for */
        uint64_t made;    /* that were answered */
        uint64_t role_made[DOCA_ROLES][DOCA_CORES_MAX / 64];
        uint64_t total_size, block_size; /* of the query that was answered */
        bool started,
            stopped; /* start_storage was answered; stop_storage was asked for, or the end */
        struct doca_msg request[DOCA_OUTSTANDING]; /* oldest first; without their bytes */
        unsigned requests;
};

/* Nothing has been said yet. */
void doca_control_init(struct doca_control *c, const struct doca_dialect *d,
                       enum doca_after_error after_error);
/* What `sender` says; rules that this breaks are added to found. */
void doca_control_says(struct doca_control *c, enum party sender, const struct doca_msg *m,
                       struct rule_set *found);
/* Something that either side said is not known. */
void doca_control_miss(struct doca_control *c);

/* The request that is due; DOCA_NOTHING: none, all is said. */
enum doca_kind doca_control_due(const struct doca_control *c);
/* "query", "init", "connections", "start", "data", "stop", "shutdown", "end". */
const char *doca_control_stage(const struct doca_control *c);
/* Whether a response says that something failed. */
bool doca_is_error(const struct doca_msg *m);

#endif
