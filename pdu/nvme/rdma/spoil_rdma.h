/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Violators of NVMe/RDMA; see spoil.h. Where a PDU is one thing, a command here is many: private
 * data, capsules, and the work requests between them. Each has its struct below, which says what may
 * be looked at and changed; the caller fills it in, calls, and does as it then says.
 *
 * What violators pick, as in spoil.h: responses of Write, data of Read and Write, and of capsules
 * none of Fabrics commands where it can be helped.
 */
#ifndef NVMF_RDMA_SPOIL_RDMA_H
#define NVMF_RDMA_SPOIL_RDMA_H

#include "pdu/nvme/machine/spoil.h"
#include "pdu/nvme/wire/rdma.h"
#include "pdu/verbs/verbs.h"

/* Private data and numbers of a connect request (by a host), acceptance or rejection (by a
 * controller), just before they go out. */
enum spoil_cm_message { SPOIL_REQUEST, SPOIL_ACCEPT, SPOIL_REJECT };
struct spoil_cm {
        enum spoil_cm_message message;
        void *data;  /* as struct rdma_request, rdma_accept, rdma_reject; writable */
        uint8_t len; /* in and out: gets shorter only */
        uint8_t reads_in, reads_out; /* in and out; as in struct verbs_conn_param */
};
/* Applies the violators of all rules in `violated` that fit; true if anything changed. */
bool spoil_cm(const struct rule_set *violated, struct spoil_cm *s);

/* A response that is about to be posted, by a controller. After spoil_completion(). */
struct spoil_response {
        const union sqe *sqe;
        const struct rdma_data *data; /* of the command */
        uint8_t *bytes;               /* the CQE; writable */
        uint32_t len;                 /* in and out: gets shorter only */
        bool invalidate;              /* in and out: SEND with invalidate ... */
        uint32_t key;                 /* ... of this key */
        bool early;                   /* out: before the WRITEs of its command */
        bool drop;                    /* out: never */
};
/* As spoil_cm(). */
bool spoil_response(const struct rule_set *violated, struct spoil_response *s);

/* A READ or WRITE of data that is about to be posted, by a controller. Only the last one of a
 * command is changed. */
struct spoil_transfer {
        const union sqe *sqe;
        enum verbs_op op;  /* in and out */
        bool last;         /* of the command's */
        uint64_t addr;     /* in and out; with key: where the host has it */
        uint32_t key, len; /* in and out: len gets shorter only */
        bool drop;         /* out: not posted, and taken as done */
};
/* As spoil_cm(). */
bool spoil_transfer(const struct rule_set *violated, struct spoil_transfer *s);

/* A command capsule that is about to be posted, by a host. */
struct spoil_capsule {
        uint8_t *bytes; /* from the SQE on; writable */
        uint32_t len;   /* in and out */
        uint32_t room;  /* bytes that there are at `bytes`; after `len` they are overwritten. Some
                         * violators need more than a queue allows: max + 16 bytes, and 64 + 16 * (MSDBD + 1) */
        const struct rdma_format *format; /* of the queue */
        uint8_t *connect_data;            /* of a Connect: 1,024 bytes in its data buffer or in the
                                           * capsule, writable; else NULL */
        bool twice;                       /* out: sent twice */
};
/* As spoil_cm(), with the violators of the command in it (spoil_sqe()). */
bool spoil_capsule(const struct rule_set *violated, struct spoil_capsule *s);

/* Of V_CM, V_CAPSULE, V_RESPONSE and V_TRANSFER, what has a violator for the rule: what its row says, and a
 * test holds them to each other. */
unsigned spoil_kinds_rdma(enum rule_id rule);

#endif
