/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What authentication computes in a DH group takes milliseconds, and is asked for by who has proven
 * nothing: it is done by one thread of low priority, whose queue is bounded, in all and by address, and
 * serves the addresses in turn.
 */
#ifndef NVMF_TARGET_AUTH_WORK_H
#define NVMF_TARGET_AUTH_WORK_H

#include "ctrl.h"

struct auth_work;

struct
    auth_job { /* a step of a transaction, on a copy of everything: the controller may go meanwhile */
        struct auth_job *next;
        struct ctrl_queue *queue; /* stays as long as the request executes */
        struct request *r;        /* given to queue->complete(); its user is the job */
        struct auth auth, before;
        struct auth_config cfg;
        char hostnqn[NQN_MAX + 1], subnqn[NQN_MAX + 1], peer[64];
        bool hears;        /* the message; else it is to be said */
        size_t len;        /* of the message */
        uint8_t message[]; /* room for what is said or heard */
};

/* jobs: how many may wait. NULL if out of memory. */
struct auth_work *auth_work_new(unsigned jobs);
/* From here on it has no thread: each job is done by auth_work_step(), which is false if there is none. */
void auth_work_by_hand(struct auth_work *w);
bool auth_work_step(struct auth_work *w);
/* None is left. */
void auth_work_free(struct auth_work *w);
/* Takes the job; false: there are too many. Any thread. */
bool auth_work_do(struct auth_work *w, struct auth_job *job);

/* NULL if out of memory; nothing of its secrets stays behind. */
struct auth_job *auth_job_new(size_t room);
void auth_job_free(struct auth_job *job);

#endif
