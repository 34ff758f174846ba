/* SPDX-License-Identifier: BSD-3-Clause */
/* What a target says to a login request: pure, so that who owns the channels does what it says. */
#ifndef NVMF_SRP_MACHINE_LOGIN_H
#define NVMF_SRP_MACHINE_LOGIN_H

#include "pdu/srp/wire/srp.h"

/* What a target port offers. */
struct srp_port {
        srp_port_id id;     /* requests for another one are rejected; all zero: for none */
        uint32_t it_iu_max; /* the longest IU that it can receive, bytes; 64 or more */
        uint32_t ti_iu_max; /* the longest that it sends */
        uint16_t formats;   /* SRP_FORMAT_* */
        uint16_t
            immediate_max; /* immediate data may begin here at the latest, bytes; 0: not wanted */
        uint32_t request_limit; /* of a new channel */
        unsigned channels_max;  /* of one nexus; 1: no multiple channels */
};

struct srp_login_answer {
        uint32_t reason;          /* SRP_REJECT_*; 0: accepted */
        bool terminates;          /* the nexus's older channels have to end before the answer */
        struct srp_login_rsp rsp; /* if accepted; */
        struct srp_login_rej rej; /* else */
};

/* The answer to a request, when `channels` of its nexus are open. Rules in waived are not checked; may be
 * NULL. */
struct srp_login_answer srp_login_decide(const struct srp_login_req *r, const struct srp_port *port,
                                         unsigned channels, const struct rule_set *waived);

#endif
