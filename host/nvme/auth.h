/* SPDX-License-Identifier: BSD-3-Clause */
/* In-band authentication of a queue whose Connect has asked for it (Base 2.2, 8.3.4). */
#ifndef NVMF_HOST_AUTH_H
#define NVMF_HOST_AUTH_H

#include "pdu/nvme/machine/auth.h"
#include "status.h"

struct host_auth { /* read during the call only */
        const char *hostnqn, *subnqn;
        struct auth_key host; /* this host's; len 0: none */
        struct auth_key ctrl; /* the subsystem's; len 0: it need not authenticate itself */
        bool
            proven; /* both have authenticated themselves by the PSK of this channel: no need to ask */
        enum auth_sc_c
            sc_c; /* a secure channel that is to be concatenated: authenticates, asked or not */
        /* Runs a command of the queue from start to end, as host_queue_run(). */
        int (*run)(void *user, const union sqe *sqe, void *data, uint32_t len,
                   struct host_error *e);
        void *user;
        const struct rule_policy *policy; /* waived: what it overlooks; may be NULL */
};

/*
 * What Connect's DW0 asks for: nothing, or authentication, which is done. 0; -1: it failed, or a
 * key that it takes is not there, or the subsystem's key is, and nobody asks for authentication;
 * the connection has to end. The well-known discovery NQN stands for many services and is never
 * asked to authenticate itself (8.3.4.2.1). psk: that which was generated, where sc_c asks for one; else
 * NULL.
 */
int host_authenticate(const struct host_auth *h, uint32_t connect_dw0, struct auth_key *psk,
                      struct host_error *e);

#endif
