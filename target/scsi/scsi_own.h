/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of the SCSI device share: the table's rows, and how a command ends. */
#ifndef NVMF_TARGET_SCSI_OWN_H
#define NVMF_TARGET_SCSI_OWN_H

#include "pdu/core/be.h"
#include "scsi_task.h"

enum scsi_row_flags {
        SCSI_ANY_UNIT = 1,   /* also for a LUN without logical unit */
        SCSI_UNATTENDED = 2, /* does not report what the initiator has to be told */
        SCSI_WRITES = 4,     /* not where it is write protected */
};
enum { SCSI_NO_ACTION = 0xff };

/* admit(): lengths, and what of the CDB is wrong; false: scsi_fail() was called. run(): as scsi_execute(). */
typedef bool scsi_fn(struct scsi_task *t);

struct scsi_row {
        uint8_t op, action; /* service action, or SCSI_NO_ACTION */
        uint8_t len, flags;
        scsi_fn *admit, *run;
        const char *name;
        uint8_t bits
            [SCSI_CDB_LEN]; /* of the CDB that may be set; those of operation code and service action apart */
};
/* In the order of the table; NULL: there are no more. */
const struct scsi_row *scsi_row_at(unsigned i);

/* The command ends so. Always false. */
bool scsi_fail(struct scsi_task *t, uint8_t key, uint16_t asc);
/* Because of byte `field` of its CDB, or of its parameter list. Likewise. */
bool scsi_bad_field(struct scsi_task *t, unsigned field);
bool scsi_bad_parameter(struct scsi_task *t, unsigned field);
/* As the blocks say; true: the command has ended, well or not. durable: only once it is on stable storage. */
bool scsi_finish(struct scsi_task *t, enum ns_result result, bool durable);

/* admit() of one that returns at most what the allocation length, n bytes at `at`, has room for. */
bool scsi_returns(struct scsi_task *t, unsigned at, unsigned n);
/* run() of that: returns so much of these n bytes as there is room for. Always true. */
bool scsi_reply(struct scsi_task *t, const uint8_t *p, uint32_t n);
/* What is reported instead of the command; 0: nothing. It is told, and so is no more to be told. */
uint16_t scsi_take_attention(struct scsi_task *t);

static inline uint32_t scsi_block_bytes(const struct scsi_task *t)
{
        return 1u << t->ns->lbads;
}
/* Blocks of one command at most, of WRITE SAME, UNMAP, and of COMPARE AND WRITE. What is done in one go is not long. */
uint32_t scsi_blocks_max(const struct scsi_task *t);
enum {
        SCSI_SAME_BYTES = 1 << 20,
        SCSI_UNMAP_BYTES = 1 << 30,
        SCSI_COMPARE_MAX = 128,
        SCSI_UNMAP_RANGES = 64
};
static inline uint32_t scsi_same_max(const struct scsi_task *t)
{
        return SCSI_SAME_BYTES >> t->ns->lbads;
}
static inline uint32_t scsi_unmap_max(const struct scsi_task *t)
{
        return SCSI_UNMAP_BYTES >> t->ns->lbads;
}

/* The commands, by their files: scsi_inquiry.c, */
scsi_fn scsi_admit_inquiry, scsi_inquiry;
/* scsi_mode.c, */
scsi_fn scsi_admit_mode_6, scsi_admit_mode_10, scsi_mode_sense;
/* scsi_report.c, */
scsi_fn scsi_ready, scsi_admit_start, scsi_admit_sense, scsi_request_sense, scsi_admit_luns,
    scsi_report_luns;
scsi_fn scsi_admit_capacity_10, scsi_capacity_10, scsi_admit_capacity_16, scsi_capacity_16;
scsi_fn scsi_admit_opcodes, scsi_report_opcodes;
/* scsi_block.c. */
scsi_fn scsi_admit_read, scsi_read, scsi_admit_write, scsi_write, scsi_admit_verify, scsi_verify;
scsi_fn scsi_admit_sync, scsi_sync, scsi_admit_same, scsi_same, scsi_admit_unmap, scsi_unmap;
scsi_fn scsi_admit_compare, scsi_compare;

#endif
