/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel: a connection (host/engine/rdma.h) and the initiator's machine. One thread's. */
#ifndef NVMF_HOST_SRP_CHAN_H
#define NVMF_HOST_SRP_CHAN_H

#include "host/engine/rdma.h"
#include "pdu/srp/machine/srp_initiator.h"

struct srp_params {
        const char *traddr, *trsvcid;
        srp_port_id initiator, target;
        unsigned channels, depth; /* requests outstanding of each */
        uint32_t it_iu;           /* longest IU that is asked for */
        bool immediate;           /* is asked for */
        unsigned timeout;         /* ms: of the login, and of each command */
        unsigned reconnect;       /* ms: for which lost channels are tried again; 0: they are not */
        struct rule_policy policy;
        struct verbs_provider *verbs; /* NULL: the machine's */
};

struct srp_chan {
        struct host_rdma conn; /* first */
        struct srp_initiator *machine;
        const struct srp_params *params;
        unsigned number; /* from 1 */
        unsigned depth;  /* requests that may be outstanding */
        struct srp_login_req asked;
        struct srp_login_rsp granted;
        struct load_state state;
};

/* Logs in, as one of several channels or (single) as the first. p must outlive it. 0; -1: e says why, and nothing is to
 * be closed. */
int srp_chan_open(struct srp_chan *c, const struct srp_params *p, unsigned number, bool single,
                  struct host_error *e);
/* SRP_I_LOGOUT if `logout`, then DREQ; what is outstanding is lost. */
void srp_chan_close(struct srp_chan *c, bool logout);

/* As struct load_ops: -1: full, or lost. Nothing is sent before srp_chan_send(). To receive: host_rdma_receive(). */
int srp_chan_submit(struct srp_chan *c, struct srp_request_out *r);
int srp_chan_send(struct srp_chan *c);

#endif
