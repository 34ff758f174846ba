/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVMe/RDMA Transport 1.0: the private data of connection management (3.1, figures 5 to 7 and 11)
 * and keyed SGL descriptors (3.3). All fields are little-endian.
 */
#ifndef NVMF_WIRE_RDMA_H
#define NVMF_WIRE_RDMA_H

#include "nvme.h"
#include "rules.h"
#include "text.h"

struct rdma_request { /* private data of a host's connect request */
        le16_t recfmt;
        le16_t qid;
        le16_t hrqsize; /* entries of the host's receive queue: a plain count */
        le16_t hsqsize; /* entries of its submission queue: 0's based, as SQSIZE of Connect */
        le16_t cntlid; /* of the association an I/O queue joins; 0: not told, and on admin queues */
        uint8_t rsvd10[22];
};

struct rdma_accept { /* of the controller's acceptance */
        le16_t recfmt;
        le16_t crqsize; /* entries of the controller's receive queue: a plain count */
        uint8_t rsvd4[28];
};

struct rdma_reject {
        le16_t recfmt;
        le16_t sts; /* enum rdma_reject_status */
};

_Static_assert(sizeof(struct rdma_request) == 32 && offsetof(struct rdma_request, cntlid) == 8,
               "RDMA_CM REQUEST");
_Static_assert(sizeof(struct rdma_accept) == 32, "RDMA_CM ACCEPT");
_Static_assert(sizeof(struct rdma_reject) == 4, "RDMA_CM REJECT");

enum rdma_reject_status {
        RDMA_REJECT_LENGTH = 1,
        RDMA_REJECT_RECFMT = 2,
        RDMA_REJECT_QID = 3,
        RDMA_REJECT_HSQSIZE = 4,
        RDMA_REJECT_HRQSIZE = 5,
        RDMA_REJECT_RESOURCES = 6,
        RDMA_REJECT_IRD = 7,
        RDMA_REJECT_ORD = 8,
        RDMA_REJECT_CNTLID = 9,
};
const char *rdma_reject_name(uint16_t sts); /* "no resources", ...; "reserved" */

/*
 * The private data as they came (len bytes, perhaps padded by the CM): copied into out. False: too
 * short, and what is missing is zeroes. Nothing else is looked at. data may be NULL.
 */
bool rdma_request_read(const void *data, size_t len, struct rdma_request *out);
bool rdma_accept_read(const void *data, size_t len, struct rdma_accept *out);
bool rdma_reject_read(const void *data, size_t len, struct rdma_reject *out);

enum { RDMA_READS_UNKNOWN = UINT16_MAX }; /* as a responder resource or an initiator depth */

struct rdma_limits {          /* of a controller, against which a request is judged */
        uint16_t queues;      /* highest QID */
        uint32_t entries;     /* of a queue at most: HSQSIZE + 1 */
        uint16_t hrqsize_min; /* 1 */
        uint8_t reads_in_min, reads_out_min; /* 0: any will do */
};
/*
 * The first rule that a request breaks; f.code is the reject status (enum rdma_reject_status), f.place
 * is 0. reads_in and reads_out are the CM's responder resources and initiator depth of it, as the
 * host sent them. waived may be NULL; RDMA_REQ_LENGTH waived: what is missing is judged as zeroes.
 */
struct fault rdma_request_check(const void *data, size_t len, uint16_t reads_in, uint16_t reads_out,
                                const struct rdma_limits *limits, const struct rule_set *waived);
/* Findings about a request whatever the controller's limits; adds to `found`. */
void rdma_request_findings(const void *data, size_t len, uint16_t reads_in, struct rule_set *found);
/* ... about an acceptance, given the request. reads_in: the responder resources it offers. */
void rdma_accept_check(const void *data, size_t len, uint16_t reads_in,
                       const struct rdma_request *request, struct rule_set *found);
/* A rejection's data without InfiniBand's padding: of len bytes none where RDMA_CM itself rejects. */
size_t rdma_reject_len(const void *data, size_t len);
/* ... about a rejection that carries data. */
void rdma_reject_check(const void *data, size_t len, struct rule_set *found);

/* All fields. */
void describe_rdma_request(const struct describe *d, const struct rdma_request *r);
void describe_rdma_accept(const struct describe *d, const struct rdma_accept *r);
void describe_rdma_reject(const struct describe *d, const struct rdma_reject *r);
/* Their field tables, ended by name NULL. */
const struct field *rdma_request_fields(void);
const struct field *rdma_accept_fields(void);
const struct field *rdma_reject_fields(void);

/* --- keyed SGL descriptors ----------------------------------------------------------------- */

enum { SGL_KEYED_MAX = 0xffffff }; /* bytes that one describes */

struct rdma_buffer { /* of the host, as a descriptor says */
        uint64_t addr;
        uint32_t len, key;
        bool invalidate; /* subtype Fh */
};

/* Of b->len the low 24 bits are written (Base 4.3.2). */
void sgl_put_keyed(struct sgl *s, const struct rdma_buffer *b);
/* SGL of an in-capsule data block at `offset`. */
void sgl_put_in_capsule(struct sgl *s, uint64_t offset, uint32_t len);
/* False: s is no keyed data block of subtype 0h or Fh. */
bool sgl_get_keyed(const struct sgl *s, struct rdma_buffer *b);

enum { RDMA_DESCRIPTORS = 16 }; /* of one command at most: what MSDBD may be here */

/* How a command's data is described: in the capsule, or by keyed descriptors (in the SQE, or as a
 * last segment within the capsule). */
struct rdma_data {
        bool in_capsule;
        uint32_t offset; /* within the capsule, from its first byte */
        uint32_t len;    /* bytes in all: may be more than the command transfers (Base 4.3.2) */
        unsigned count;  /* of keyed descriptors */
        struct rdma_buffer keyed[RDMA_DESCRIPTORS];
        bool invalidate;         /* the last keyed descriptor asks for it ... */
        uint32_t invalidate_key; /* ... and this is its key */
};

struct rdma_format { /* of the capsules of a queue */
        bool admin;
        uint16_t icdoff;     /* 16-byte units */
        uint32_t in_capsule; /* bytes of in-capsule data; 0 on the admin queue, but for `connect` */
        uint8_t msdbd;       /* 0: no limit (but RDMA_DESCRIPTORS) */
};

/* Bytes of a command capsule at most (RDMA_CMD_LONG). Fabrics commands of I/O queues may come with
 * their data in the capsule before IOCCSZ is known (Linux's Connect): 64 + their data. */
uint32_t rdma_capsule_max(const struct rdma_format *f);

/*
 * Reads the description of the data of a command capsule of `len` bytes. `xfer` and `needs`: what
 * the command transfers by its own words (needs 0: unknown, not compared). REACT_STATUS fault: f.code
 * is SCT << 8 | SC; out is all zero then. A command without data (XFER_NONE) has out->count 0
 * whatever its SGL says.
 *
 * The length of the capsule is judged by its owner, apart from one with no whole SQE: that is
 * RDMA_CMD_SHORT (REACT_ANY), waived or not. What out says always lies within the capsule, also of
 * waived rules; out->len is less than needs only where RDMA_SGL_LENGTH is waived.
 *
 * In-capsule data begins at 64 + ICDOFF * 16; the offsets of descriptors count from there.
 */
struct fault rdma_data_read(const void *capsule, uint32_t len, const struct rdma_format *format,
                            enum nvme_xfer xfer, uint32_t needs, const struct rule_set *waived,
                            struct rdma_data *out);

#endif
