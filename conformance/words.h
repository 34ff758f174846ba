/* SPDX-License-Identifier: BSD-3-Clause */
/* What the words share among themselves. */
#ifndef NVMF_CONFORMANCE_WORDS_H
#define NVMF_CONFORMANCE_WORDS_H

#include "suite.h"

/* The command with this CID, the last one sent if there are several; ends the case if none. */
struct command *command_of(struct queue *q, uint16_t cid);
/* The response has to be Success, or the case ends as what() failed. */
struct reply must_succeed(struct queue *q, struct reply r, const char *what);
/* sqsize, or as much as an I/O queue can have by CAP.MQES (not known while probing). */
uint16_t fitting_sqsize(struct t *t, uint16_t qid, uint16_t sqsize);

#endif
