/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Task management (SAM-5 7): a function visits all channels that may have tasks it is about, each on its own reactor,
 * aborts them, and is answered when all of them have ended: nothing of theirs moves any more then.
 */
#ifndef NVMF_TARGET_SRP_TASKS_H
#define NVMF_TARGET_SRP_TASKS_H

#include "srp_conn.h"

/* srp_target_ops.manage(). */
void srp_tasks_manage(struct srp_conn *c, struct srp_command *cmd);
/* A task that is waited for has ended. */
void srp_tasks_ended(struct srp_task *t);

#endif
