/* SPDX-License-Identifier: BSD-3-Clause */
/* Violators of NVMe/TCP; see pdu/nvme/machine/spoil.h. */
#ifndef NVMF_TCP_SPOIL_TCP_H
#define NVMF_TCP_SPOIL_TCP_H

#include "pdu/nvme/machine/spoil.h"
#include "pdu/nvme/wire/tcp.h"

/* What a violator may look at and change of one outgoing PDU, after its layout, before digests. */
struct spoil {
        union pdu *h;
        uint8_t *data;     /* may be NULL; changed in place only if `data_writable` */
        uint32_t data_len; /* in and out: may get shorter; where it gets 0 there is no DDGST */
        uint32_t pad;      /* in and out: bytes of PAD, at most PDU_PDO_MAX */
        bool data_writable;
        const union sqe *sqe;          /* that a CapsuleResp, C2HData or R2T belongs to, or NULL */
        uint32_t hdgst_xor, ddgst_xor; /* out: what to flip in the digests; 0: nothing */
        bool twice;                    /* out: send it twice */
};

/* Applies the violators of all rules in `violated` that fit this PDU; true if anything changed. */
bool spoil_pdu(const struct rule_set *violated, enum party sender, struct spoil *s);

/* V_PDU if a violator of PDUs is there for the rule, else 0: what its row says, and a test holds them to
 * each other. */
unsigned spoil_kinds_pdu(enum rule_id rule);

#endif
