/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one side of a connection says to the other, whichever transport carries it: a PDU of NVMe/TCP,
 * or a capsule of NVMe/RDMA, which is the SQE or CQE alone. Fields, JSON and text of a command or
 * response are the same in both.
 */
#ifndef NVMF_WIRE_MESSAGE_H
#define NVMF_WIRE_MESSAGE_H

#include "text.h"

enum message_kind {
        MESSAGE_NONE,
        MESSAGE_PDU,      /* NVMe/TCP: the header */
        MESSAGE_COMMAND,  /* NVMe/RDMA: the SQE of a command capsule */
        MESSAGE_RESPONSE, /* NVMe/RDMA: the CQE of a response capsule */
};

struct message {
        enum message_kind kind;
        union { /* by kind; a field's offset counts from its start */
                union pdu pdu;
                union sqe sqe;
                struct cqe cqe;
        };
};

static inline struct message message_of_pdu(const union pdu *h)
{
        return (struct message) { .kind = MESSAGE_PDU, .pdu = *h };
}

/* MESSAGE_COMMAND or MESSAGE_RESPONSE, of a capsule's len bytes; what is missing is zero. */
struct message message_of_capsule(enum message_kind kind, const void *capsule, uint32_t len);

/* Whether it is a PDU of that type. */
static inline bool message_is(const struct message *m, uint8_t type)
{
        return m->kind == MESSAGE_PDU && m->pdu.ch.type == type;
}

/* The command that it carries, in a PDU or as it is; NULL: none. */
const union sqe *message_sqe(const struct message *m);
/* The completion that it carries, in a PDU or as it is; NULL: none. */
const struct cqe *message_cqe(const struct message *m);
/* The field called `name` ("ttag", "sqe.cid"), in the bytes from m->pdu on; NULL if it has none. */
const struct field *message_field(const struct message *m, const char *name);
/* As describe_pdu() and pdu_line() do; the capsules are called as the PDUs that carry one. */
void describe_message(const struct describe *d, const struct message *m, bool admin);
void message_line(struct text *t, const struct message *m, bool admin);

#endif
