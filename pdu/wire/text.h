/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Description: a PDU, command, completion or data structure as named fields. Each family's file
 * says its fields once, to a visitor; text and JSON are two visitors, field mutation is a third
 * reader of the same tables.
 */
#ifndef NVMF_WIRE_TEXT_H
#define NVMF_WIRE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "tcp.h"

/* A growing line in a buffer of fixed size; what does not fit is cut, never overrun. */
struct text {
        char *p;
        size_t cap, len; /* p[len] is NUL; len < cap */
};
struct text text_in(char *buf, size_t cap);
void text_add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

struct describe {
        void *arg;
        void (*group)(void *arg, const char *name); /* NULL name: end of the group */
        /* meaning: the value in words, or NULL; bits: width of the field */
        void (*number)(void *arg, const char *name, uint64_t value, unsigned bits,
                       const char *meaning);
        void (*string)(void *arg, const char *name, const char *s, size_t len);
};

/* A field of a header or structure: the row of every mutation and description table. */
struct field {
        const char *name; /* as the specification abbreviates it, lower case: "ttag" */
        uint16_t offset, size; /* bytes; size above 8: a string */
};
/* The field table of a PDU type's header, ended by name NULL; NULL if the type is unknown. */
const struct field *pdu_fields(uint8_t type);
/* The field called `name` of a PDU type ("ttag", "sqe.cid", "cqe.sqhd"), NULL if there is none. */
const struct field *pdu_field(uint8_t type, const char *name);

/* Every field of a PDU header. admin says which opcodes a capsule has; data may be NULL. */
void describe_pdu(const struct describe *d, const union pdu *h, bool admin, const void *data,
                  size_t data_len);
void describe_sqe(const struct describe *d, const union sqe *s, bool admin);
void describe_cqe(const struct describe *d, const struct cqe *c);

/* One line: "CapsuleCmd cid 5 Read nsid 1 slba 0 nlb 8 sgl 5Ah 4096" without line end. */
void pdu_line(struct text *t, const union pdu *h, bool admin);

#endif
