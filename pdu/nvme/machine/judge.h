/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one command or completion shows by itself, given what its queue has been through: rules that
 * end no connection. The tracker's findings come from here and from its own memory.
 */
#ifndef NVMF_MACHINE_JUDGE_H
#define NVMF_MACHINE_JUDGE_H

#include "pdu/nvme/wire/fabrics.h"
#include "pdu/nvme/wire/rules.h"

struct queue_past {
        int qid;         /* of Connect; -1: there was none */
        bool connected;  /* it succeeded */
        bool open;       /* ... and asked for no authentication */
        bool mid_stream; /* nobody saw the beginning: no Connect means nothing */
        bool keyed;      /* NVMe/RDMA: rdma_data_read() judges descriptors */
        uint32_t cc;     /* as last written (admin queue) */
        uint8_t fuse;    /* of the last command (I/O queue) */
        bool nvm_set;    /* an I/O queue's Connect names an NVM Set */
};

/* Adds what is broken to `found`. */
void judge_sqe(struct rule_set *found, const struct queue_past *q, const union sqe *s);
/* The completion of a command with these two; before the past learns of it. */
void judge_cqe(struct rule_set *found, const struct queue_past *q, uint8_t opc, uint8_t fctype,
               const struct cqe *cqe);

/* Bytes that the command transfers, for which its SGL has to have room, where the SQE alone says it (Identify, Get Log
 * Page); else 0. */
uint32_t sqe_needs(const struct queue_past *q, const union sqe *s);
/* Bytes that a success of an admin command has to deliver at least, where the SQE alone says it; else 0. */
uint32_t admin_delivers(const union sqe *s);
/* Direction of its data; XFER_NONE also of a feature that has none, and says so by an SGL of zeroes. */
enum nvme_xfer sqe_moves(const union sqe *s);
/* Whether NSID of this admin command is never used (figure 142). */
bool sqe_has_no_nsid(const union sqe *s);
/* Whether its length is bytes by definition, or unknown: it need not be dwords then. */
bool sqe_counts_bytes(const struct queue_past *q, const union sqe *s);

#endif
