/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a thread that controls a running target may look at and change, beside its configuration
 * (target_change()). Calls come from one thread that is not a reactor; each waits for the reactors' turn.
 */
#ifndef NVMF_TARGET_CONTROL_H
#define NVMF_TARGET_CONTROL_H

#include "target.h"

struct trigger;
struct inventory;
struct reactor;
struct nvme_service;
struct target_conn;

/* Parts of t, which live as long as it does. */
struct inventory *target_inventory(struct target *t);
struct nvme_service *target_service(struct target *t);

/* On each reactor's thread, one after the other. */
void target_each_reactor(struct target *t, void (*fn)(struct reactor *r, void *arg), void *arg);
/* With each connection, on its reactor; fn may end it. */
void target_each_conn(struct target *t, void (*fn)(struct target_conn *c, void *arg), void *arg);
/* While all reactors stand still: what they share may change. Connections are told of a new policy. */
void target_alone(struct target *t, void (*fn)(struct nvme_service *s, void *arg), void *arg);
/* The next of its faults with a trigger, as it is now, from *slot (0) on; false: there are no more. */
bool target_trigger(struct target *t, unsigned *slot, struct trigger *copy);
/* Takes over new sizes of files and of bdevs, and tells hosts. */
void target_measure(struct target *t);

#endif
