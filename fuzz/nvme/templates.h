/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of NVMe sequences: PDUs over TCP; over RDMA capsules, transfers and private data. */
#ifndef NVMF_FUZZ_NVME_TEMPLATES_H
#define NVMF_FUZZ_NVME_TEMPLATES_H

#include "fuzz/sequence/sequence.h"
#include "pdu/nvme/wire/rdma.h"

extern const struct fuzz_family nvme_fuzz;

enum seq_transport { SEQ_TCP, SEQ_RDMA }; /* sequence.transport */

enum {
        SEQ_KEYS = 2 * RDMA_DESCRIPTORS
}; /* of a command over RDMA: more than anybody has room for */

/* What is no PDU: types of templates over RDMA. */
enum seq_message { SEQ_REQUEST = 0x80, SEQ_ACCEPT, SEQ_REJECT, SEQ_READ, SEQ_WRITE, SEQ_MESSAGES };

/* What a step over RDMA is, and its fields are of. */
union seq_work {
        struct { /* a SEND of a capsule */
                union {
                        union sqe sqe;
                        struct cqe cqe;
                };
                le32_t len; /* bytes of it */
                le32_t key; /* of its invalidate, with a CQE */
                uint8_t invalidate;
        };
        struct { /* connection management */
                union {
                        struct rdma_request request;
                        struct rdma_accept accept;
                        struct rdma_reject reject;
                };
                uint8_t private_len;         /* bytes of that */
                uint8_t reads_in, reads_out; /* as in struct verbs_conn_param */
        };
        struct {
                le64_t addr;
                le32_t rkey, bytes;
        } transfer; /* READ, WRITE */
};

/* What a template makes of a step by itself, before anything live: a row of templates[]. */
enum seq_data { /* what data a template has */
                SEQ_NO_DATA,
                SEQ_PATTERN,
                SEQ_CONNECT,  /* Connect data of the session */
                SEQ_RETURNED, /* header bytes, of a TermReq */
                SEQ_AUTH,     /* the authentication message that is due, if the session has a key */
};

struct nvme_template {
        struct seq_template
            base; /* type: of PDU, or enum seq_message; data_len: of SGL_TRANSPORT what
                                   * the command describes */
        uint8_t opc, fctype;
        uint8_t sgl; /* enum sgl_id; 0: 5Ah of no bytes. Over RDMA data is described by a key, that
                      * of I/O commands with SGL_IN_CAPSULE apart */
        enum seq_data data;
        uint32_t cdw10, cdw11, cdw12;
        uint32_t nsid;
        bool io; /* a command of I/O queues */
};
static inline const struct nvme_template *nvme_template(const struct seq_template *t)
{
        return (const struct nvme_template *)(const void *)t;
}

/* The n-th that this side sends over this transport; NULL: there are fewer. */
const struct seq_template *nvme_template_at(unsigned transport, enum party side, unsigned n);
/* NULL: none */
const struct seq_template *nvme_template_by_name(unsigned transport, enum party side,
                                                 const char *name);
/* The tables of its fields, each ended by name NULL; of those not needed nothing is written. */
void nvme_template_fields(unsigned transport, const struct seq_template *t,
                          const struct field *table[FUZZ_FIELD_TABLES]);

#endif
