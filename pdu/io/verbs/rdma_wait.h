/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for what comes to an RDMA group (pdu/verbs/rdma_ep.h): asleep, with descriptors of one's
 * own beside, or in an event loop. Before any of them rdma_group_events() has found nothing, or
 * what is left wakes nobody.
 */
#ifndef NVMF_IO_RDMA_WAIT_H
#define NVMF_IO_RDMA_WAIT_H

#include <poll.h>

#include "pdu/io/loop.h"
#include "pdu/verbs/rdma_ep.h"

enum { RDMA_FDS = 32, RDMA_BLIND_MS = 1 /* a provider without descriptors is asked so often */ };

/*
 * Asks for a bell at the next completion; then polls once more, for what came before that. What to
 * wait for is in fds, how many is returned, at most max. 0: there is nothing to wait for, ask again.
 * -1: something came meanwhile, do not wait.
 */
int rdma_group_arm(struct rdma_group *g, struct pollfd *fds, int max);

/* Sleeps until something comes, if nothing has come meanwhile; at most ms (-1: no limit). */
void rdma_group_sleep(struct rdma_group *g, int ms);

/* A group's descriptors in a loop. */
struct rdma_loop {
        struct loop *loop;
        struct verbs_context *context;
        /* Something may have come; events: also for rdma_group_events(). */
        void (*ready)(struct rdma_loop *l, bool events);
        int count;
        struct rdma_loop_fd {
                struct loop_source source;
                struct rdma_loop *of;
        } fds[RDMA_FDS];
};
/* loop, context and ready are set. At first, and whenever a device may be new: descriptors that came
 * are waited for, those that went are not. -1 with errno. */
int rdma_loop_update(struct rdma_loop *l);
/* Before the group is closed. */
void rdma_loop_end(struct rdma_loop *l);

#endif
