/* SPDX-License-Identifier: BSD-3-Clause */
/* The live side of a sequence: what of a step only the session knows, and steps as bytes. */
#ifndef NVMF_FUZZ_SRP_BIND_H
#define NVMF_FUZZ_SRP_BIND_H

#include "pdu/srp/machine/channel.h"
#include "srp_templates.h"

enum {
        SRP_BIND_DATA = SEQ_DATA_MAX, /* bytes of data; after it, as many for what comes */
        SRP_BIND_TABLE = 2 * SRP_BIND_DATA,
        SRP_BIND_MEMORY = 1 << 16, /* of one connection: data-out, data-in, table */
        SRP_BIND_IU = SEQ_DATA_MAX + 2048,
        SRP_BIND_IMM_AT = 68, /* where immediate data begins: as Linux has it */
        SRP_BIND_TAGS = 16,
};

struct srp_bind {
        srp_port_id initiator, target;
        bool first;    /* of its session's connections: it asks for a single channel */
        uint8_t *at;   /* registered memory, SRP_BIND_MEMORY bytes */
        uint64_t addr; /* of it, as descriptors say */
        uint32_t key;  /* likewise */
        const struct srp_channel *channel; /* of this connection */
        uint64_t tag;                      /* of the next request */
        uint64_t sent[SRP_BIND_TAGS];      /* the last ones, of commands */
        unsigned commands;
};

/* A step comes to this. */
struct srp_bound {
        uint8_t type;   /* enum srp_type */
        uint32_t len;   /* bytes in out: of the IU, or of private data; 0: nothing is sent */
        unsigned times; /* how often: a violator may want it twice */
        uint8_t reads_in, reads_out; /* login */
        struct srp_login_req asked;  /* login: as it is sent */
};

/* A step (SEQ_PDU, SEQ_RAW) as bytes into out[SRP_BIND_IU]; its data goes into the memory. A tag is used then. */
struct srp_bound srp_bind_step(struct srp_bind *b, const struct sequence *s,
                               const struct seq_step *step, uint8_t *out);

#endif
