/* SPDX-License-Identifier: BSD-3-Clause */
/* SRP as a family of the suite: who is tested, and what is known of him. */
#ifndef NVMF_CONFORMANCE_SRP_SUITE_H
#define NVMF_CONFORMANCE_SRP_SUITE_H

#include "conformance/engine/family.h"
#include "pdu/srp/wire/srp.h"

enum srp_needs {                      /* bits of test_case.needs */
                 NEEDS_SLOW = 1,      /* a slow unit */
                 NEEDS_MULTI = 2,     /* several channels of a nexus */
                 NEEDS_IMMEDIATE = 4, /* immediate data */
                 NEEDS_PORT = 8,      /* a target that insists on its port identifier */
};

struct srp_peer { /* suite.peer */
        srp_port_id target;
        bool named; /* the user has said so */
        uint32_t lun, slow_lun;
        bool has_slow, may_write;
        const char *hook; /* --role host: the command that runs the initiator; NULL: ours */
        struct rule_policy policy; /* of our initiator */

        /* What the probe found. */
        uint32_t limit;   /* requests of a channel */
        uint32_t it_iu;   /* what a login may ask for, ... */
        uint16_t formats; /* ... and these; 0: that is not known, so that it asks as Linux does */
        bool multi, immediate;
        uint32_t block; /* bytes; 0: the unit cannot be read */
        uint64_t blocks;
};

static inline struct srp_peer *srp_peer_of(const struct suite *s)
{
        return s->peer;
}

extern const struct conform_family srp_conform;

#endif
