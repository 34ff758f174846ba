/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a host said, as the simplest step of any template that says it again: the fields that differ
 * from what a host would say there are changes, data that differ are the step's. What is of a
 * transport is its reader's (seq_capture_tcp.c, seq_capture_rdma.c).
 */
#ifndef NVMF_FUZZ_SEQ_FIT_H
#define NVMF_FUZZ_SEQ_FIT_H

#include "seq_bind.h"

enum { FIT_CONTENTS = 512 }; /* bytes of data that are told where the data do not go with it */

struct fit_message {          /* bytes are the caller's */
        uint8_t type;         /* of PDU, or enum seq_message */
        const uint8_t *bytes; /* PDU, capsule or private data */
        size_t n;
        union { /* what seq_fields() are of */
                union pdu pdu;
                union seq_work work;
        } head;
        const uint8_t *data; /* NULL: nobody knows it */
        size_t data_len;
        bool apart;    /* RDMA: the data are not among the bytes */
        unsigned keys; /* RDMA: that describe them */
};

struct fit {
        const struct fit_ops *ops;
        const struct seq_bind *bind; /* of who said it, just before */
        struct fit_message want;
        size_t room;                 /* of the pool that its bytes may take */
        bool plain;                  /* this variant has the data that its template has */
        struct sequence trial, best; /* of one step each */
};

struct fit_ops { /* of a transport */
        enum seq_transport transport;
        /* How many variants of a step by this template are to be tried; 0: it is another message. */
        unsigned (*variants)(const struct fit *f, const struct seq_template *t);
        /* Before data and fields are looked at: the nth variant. */
        void (*vary)(struct fit *f, unsigned nth);
        /* What the trial says, into out[BIND_ROOM]. */
        void (*render)(const struct fit *f, uint8_t *out, struct fit_message *is);
        /* After that: whether the trial says what is wanted. */
        bool (*same)(struct fit *f);
        /* Whether a field is the live session's, so that this value is to be told by its difference
         * to what it would be. */
        bool (*is_live)(const struct field *field, uint64_t value, uint64_t difference);
};

/* Finds it, into f->best. False: there is none. */
bool seq_fit(struct fit *f);

#endif
