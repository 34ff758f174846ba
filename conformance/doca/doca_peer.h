/* SPDX-License-Identifier: BSD-3-Clause */
/* DOCA's storage protocol as a family of the suite. */
#ifndef NVMF_CONFORMANCE_DOCA_PEER_H
#define NVMF_CONFORMANCE_DOCA_PEER_H

#include "conformance/engine/family.h"
#include "pdu/doca/wire/doca.h"

struct doca_peer { /* suite.peer */
        const struct doca_dialect *dialect;
        const char *device; /* address of the RDMA device; NULL: that of the control channel */
        bool by_cm;         /* connections by the connection manager */
        const char *hook; /* --role host: the command that runs the service; NULL: our requester */
        struct rule_policy policy; /* of our requester */
        bool may_write;
        uint64_t total_size, block_size; /* of the probe; 0: 2.10, which cannot be asked */
        char no_rdma[200];               /* why no connection can be made from here; "": it can */
};

extern const struct conform_family doca_conform;

#endif
