/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connection tracking for NVMe/RDMA: what both sides of one queue pair have said, and every rule
 * that needs memory of it; the counterpart of track.h. One model for all uses: the suite feeds it
 * what the target says, a capture check both directions with the READs and WRITEs between them.
 * Commands and completions of the queue itself (CIDs, SQHD, Connect, statuses) are judged by
 * queue_track.h, the same for TCP.
 *
 * Each call returns the findings of what it was told: the rules it breaks.
 */
#ifndef NVMF_MACHINE_RDMA_TRACK_H
#define NVMF_MACHINE_RDMA_TRACK_H

#include "pdu/nvme/wire/rdma.h"

struct rdma_track;

/* NULL: out of memory. waived may be NULL and must outlive it. passive: a capture. */
struct rdma_track *rdma_track_new(uint16_t depth_max, bool passive, const struct rule_set *waived);
void rdma_track_free(struct rdma_track *t);

/* Nobody saw the beginning: queue, sizes and flow control stay unknown. */
void rdma_track_mid_stream(struct rdma_track *t);
/* `sender` said DREQ or DREP: of a controller nothing more is expected. */
void rdma_track_closed(struct rdma_track *t, enum party sender);
/* What IOCCSZ, ICDOFF and MSDBD of the controller say; until then I/O capsules are not measured. */
void rdma_track_format(struct rdma_track *t, uint32_t in_capsule, uint16_t icdoff, uint8_t msdbd);

/* Connection management, in order; data and len as they came. reads_*: the CM's numbers. */
const struct rule_set *rdma_track_request(struct rdma_track *t, const void *data, size_t len,
                                          uint16_t reads_in, uint16_t reads_out);
const struct rule_set *rdma_track_accept(struct rdma_track *t, const void *data, size_t len,
                                         uint16_t reads_in, uint16_t reads_out);
const struct rule_set *rdma_track_reject(struct rdma_track *t, const void *data, size_t len);

/* SENDs: a whole capsule. invalidated: it came with invalidate, of key. */
const struct rule_set *rdma_track_command(struct rdma_track *t, const void *capsule, uint32_t len);
const struct rule_set *rdma_track_response(struct rdma_track *t, const void *capsule, uint32_t len,
                                           bool invalidated, uint32_t key);
/*
 * READ and WRITE by `sender` of the other side's memory; whole, or in parts as packets come, once or
 * again. Who is told of none, and is not passive, judges no transfer to be incomplete.
 */
const struct rule_set *rdma_track_read(struct rdma_track *t, enum party sender, uint64_t addr,
                                       uint32_t key, uint32_t len);
const struct rule_set *rdma_track_write(struct rdma_track *t, enum party sender, uint64_t addr,
                                        uint32_t key, uint32_t len);

/* So many READs of the controller are unanswered now (RDMA_READ_LIMIT), for those who can tell. */
const struct rule_set *rdma_track_reads(struct rdma_track *t, unsigned outstanding);

struct rdma_track_cmd { /* an outstanding command, and how its data is described */
        union sqe sqe;
        struct rdma_data data;
        bool described; /* data says something */
        uint32_t moved; /* bytes READ or WRITTEN so far, each counted once */
        uint32_t needs; /* bytes that a success has to move by keys; 0: not known. Of Read and Write
                         * what is described, if that is whole blocks: who knows better, sets it */
        void *user;     /* the owner's */
};
/* The outstanding command of this CID; NULL: there is none. Valid until its response. */
struct rdma_track_cmd *rdma_track_cmd(struct rdma_track *t, uint16_t cid);
/* The one that the last call was about; NULL: none. It may have ended by it. */
struct rdma_track_cmd *rdma_track_last(struct rdma_track *t);
int rdma_track_qid(const struct rdma_track *t); /* of Connect or private data; -1: unknown */
unsigned rdma_track_outstanding(const struct rdma_track *t);

#endif
