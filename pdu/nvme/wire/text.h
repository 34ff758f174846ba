/* SPDX-License-Identifier: BSD-3-Clause */
/* PDUs, commands and completions described: as named fields to a visitor, and in one line. */
#ifndef NVMF_WIRE_TEXT_H
#define NVMF_WIRE_TEXT_H

#include "pdu/core/text.h"
#include "tcp.h"

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
