/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of SRP sequences: logins, and the information units of an initiator. */
#ifndef NVMF_FUZZ_SRP_TEMPLATES_H
#define NVMF_FUZZ_SRP_TEMPLATES_H

#include "fuzz/sequence/sequence.h"
#include "pdu/core/le.h"
#include "pdu/scsi/scsi.h"
#include "pdu/srp/wire/srp.h"

extern const struct fuzz_family srp_fuzz;

enum { SRP_KEYS_MAX = 16 }; /* entries of a table; more are never in line */

/* What a step is, and its fields are of: the fixed part, and what the rest is made of. */
struct srp_said {
        union srp_iu iu;   /* first */
        le32_t len;        /* bytes that are sent: of the IU, or of the login's private data */
        le64_t addr;       /* of its descriptor: the data, or the table */
        le32_t key, bytes; /* likewise; bytes: its length */
        le32_t total;      /* of an indirect descriptor, or of immediate data */
        uint8_t reads_in;  /* of a login: as in struct verbs_conn_param */
        uint8_t reads_out;
};

enum srp_way { SRP_NO_WAY, SRP_TO_TARGET, SRP_FROM_TARGET, SRP_BOTH_WAYS };
enum srp_shape { SRP_AS_DIRECT, SRP_AS_TABLE, SRP_AS_EXTERNAL, SRP_AS_IMMEDIATE };

struct srp_template {
        struct seq_template base; /* type: enum srp_type; data_len: of each direction */
        enum srp_way way;
        enum srp_shape shape;
        uint8_t function; /* of task management */
        uint8_t add_cdb;  /* bytes of the CDB beyond 16, a multiple of 4 */
        uint8_t cdb[SCSI_CDB_LEN];
};
static inline const struct srp_template *srp_template(const struct seq_template *t)
{
        return (const struct srp_template *)(const void *)t;
}

/* The n-th of an initiator; NULL: there are fewer, or it is the other side. */
const struct seq_template *srp_template_at(unsigned transport, enum party side, unsigned n);
/* As struct fuzz_family has it. */
void srp_template_fields(unsigned transport, const struct seq_template *t,
                         const struct field *table[FUZZ_FIELD_TABLES]);

#endif
