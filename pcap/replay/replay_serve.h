/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A captured controller once more, for a live host, over TCP or RDMA: each command gets the answer that
 * the same command (its opcode and own fields) got in the capture, in the order of the capture, with
 * the live CID, TTAG and SQHD. CC and CSTS follow the live host, Keep Alive always succeeds, an
 * Asynchronous Event Request waits forever, and a discovery log shows the live address. Where the
 * transport is not the captured one, Identify Controller says what this one can.
 */
#ifndef NVMF_PCAP_REPLAY_SERVE_H
#define NVMF_PCAP_REPLAY_SERVE_H

#include <signal.h>

#include "host/nvme/queue.h"
#include "replay_compare.h"
#include "replay_plan.h"

struct served {
        const union sqe *sqe;
        uint16_t qid;
        const struct plan_cmd *cmd; /* whose answer it got; NULL: none */
        struct verdict verdict;     /* SAME; ALLOWED: answered by intent, or once more; DIFFERENT:
                                     * the capture does not have it, and it was refused */
};
typedef void serve_fn(void *user, const struct served *s);

struct serve_options {
        enum host_transport transport;
        struct verbs_provider *verbs; /* RDMA; NULL: the devices of this machine */
        const char *traddr, *trsvcid; /* "0": any free port */
        unsigned idle; /* ms without a connection, once there was one, that end it; 0:
                                       * only a signal does */
        const volatile sig_atomic_t *stop; /* ends it when it is not 0 */
        void (*listening)(void *user, uint16_t port);
        serve_fn *served;
        void *user;
};

/* Serves until it is to end. 0; -1 with one line in err. */
int replay_serve(const struct replay_plan *plan, const struct serve_options *o, char *err,
                 size_t err_size);

#endif
