/* SPDX-License-Identifier: BSD-3-Clause */
/* PDUs, commands and completions described: as named fields to a visitor, and in one line. */
#ifndef NVMF_WIRE_TEXT_H
#define NVMF_WIRE_TEXT_H

#include "pdu/core/text.h"
#include "tcp.h"

/* The rows of an SQE's or CQE's fields, for tables of what carries one `at` bytes from its start; those
 * that only some commands have come last. */
/* clang-format off */
#define SQE_FIELD(at, name, member)                                                                \
        FIELD_AT("sqe." name, (at) + offsetof(union sqe, member), sizeof(((union sqe *)0)->member))
#define SQE_FIELDS(at) \
        SQE_FIELD(at, "opc", opc), SQE_FIELD(at, "flags", flags), \
        SQE_FIELD(at, "cid", cid), SQE_FIELD(at, "nsid", nsid), \
        SQE_FIELD(at, "fctype", fctype), SQE_FIELD(at, "cdw2", cdw2), \
        SQE_FIELD(at, "cdw3", cdw3), SQE_FIELD(at, "mptr", mptr), \
        SQE_FIELD(at, "sgl.addr", sgl.addr), SQE_FIELD(at, "sgl.len", sgl.len), \
        SQE_FIELD(at, "sgl.id", sgl.id), SQE_FIELD(at, "cdw10", cdw10), \
        SQE_FIELD(at, "cdw11", cdw11), SQE_FIELD(at, "cdw12", cdw12), \
        SQE_FIELD(at, "cdw13", cdw13), SQE_FIELD(at, "cdw14", cdw14), \
        SQE_FIELD(at, "cdw15", cdw15), SQE_FIELD(at, "recfmt", connect.recfmt), \
        SQE_FIELD(at, "qid", connect.qid), SQE_FIELD(at, "sqsize", connect.sqsize), \
        SQE_FIELD(at, "cattr", connect.cattr), SQE_FIELD(at, "kato", connect.kato), \
        SQE_FIELD(at, "nvmsetid", connect.nvmsetid), \
        SQE_FIELD(at, "attrib", property.attrib), SQE_FIELD(at, "ofst", property.ofst), \
        SQE_FIELD(at, "value", property.value), SQE_FIELD(at, "spsp0", auth.spsp0), \
        SQE_FIELD(at, "spsp1", auth.spsp1), SQE_FIELD(at, "secp", auth.secp), \
        SQE_FIELD(at, "len", auth.len)
#define CQE_FIELD(at, member)                                                                      \
        FIELD_AT("cqe." #member, (at) + offsetof(struct cqe, member),                              \
                 sizeof(((struct cqe *)0)->member))
#define CQE_FIELDS(at)                                                                             \
        CQE_FIELD(at, dw0), CQE_FIELD(at, dw1), CQE_FIELD(at, result), CQE_FIELD(at, sqhd),        \
        CQE_FIELD(at, sqid), CQE_FIELD(at, cid), CQE_FIELD(at, sf)
/* clang-format on */
/* The field tables of an SQE and a CQE on their own, as capsules of NVMe/RDMA carry them. */
const struct field *sqe_fields(void);
const struct field *cqe_fields(void);

/* The field table of a PDU type's header, ended by name NULL; NULL if the type is unknown. */
const struct field *pdu_fields(uint8_t type);
/* The field called `name` of a PDU type ("ttag", "sqe.cid", "cqe.sqhd"), NULL if there is none. */
const struct field *pdu_field(uint8_t type, const char *name);

/*
 * Every field of a PDU header. admin says which opcodes a capsule has; data may be NULL: of it the
 * Connect data and the header that a TermReq returns are described.
 */
void describe_pdu(const struct describe *d, const union pdu *h, bool admin, const void *data,
                  size_t data_len);
/* In groups called "sqe" and "cqe". */
void describe_sqe(const struct describe *d, const union sqe *s, bool admin);
void describe_cqe(const struct describe *d, const struct cqe *c);

/*
 * One line: "CapsuleCmd cid 5 Read nsid 1 slba 0 nlb 8 sgl 5Ah 4096" without line end. Fields of a
 * command that are 0's based on the wire are counts here.
 */
void pdu_line(struct text *t, const union pdu *h, bool admin);
void sqe_line(struct text *t, const union sqe *s, bool admin); /* from "cid" on */
void cqe_line(struct text *t, const struct cqe *c);

#endif
