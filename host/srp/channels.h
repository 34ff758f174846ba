/* SPDX-License-Identifier: BSD-3-Clause */
/* An initiator's channels to one target port, and SCSI commands over them, one at a time. */
#ifndef NVMF_HOST_SRP_CHANNELS_H
#define NVMF_HOST_SRP_CHANNELS_H

#include "chan.h"
#include "host/engine/load.h"

struct srp_channels {
        struct srp_params params;
        struct srp_chan *chan; /* of them: */
        unsigned channels;
};

/* All channels of p->channels. 0; -1: e says why, and nothing is to be closed. */
int srp_channels_open(struct srp_channels *s, const struct srp_params *p, struct host_error *e);
void srp_channels_close(struct srp_channels *s, bool logout);
/* All of them again, tried for params.reconnect; memory that was added is not known any more. */
int srp_channels_reopen(struct srp_channels *s, struct host_error *e);

/* Memory that the channel's commands can use, until it is closed; NULL: e says why. */
void *srp_alloc(struct srp_chan *c, size_t len, struct host_error *e);

/* Sends it and waits for its end; again, while the unit has something to tell first. -1: e says why not, also for another
 * status than GOOD, with the name `what`. */
int srp_run_well(struct srp_chan *c, struct srp_request_out *r, const char *what,
                 struct host_error *e);
/* e: kind HOST_STATUS, with the sense data in words. Always -1. */
int srp_fail_status(const struct srp_request_out *r, const char *what, struct host_error *e);

struct srp_disk {
        uint64_t lun, blocks;
        uint32_t block_size; /* bytes */
        uint32_t max_blocks; /* of one command */
};
/* Waits until it is ready, and asks for its size and limits. */
int srp_disk_open(struct srp_chan *c, uint32_t lun, struct srp_disk *d, struct host_error *e);

/* READ(16) or WRITE(16); `data` as in struct srp_request_out. */
struct srp_request_out srp_rw(const struct srp_disk *d, bool write, uint64_t block, uint32_t blocks,
                              void *data);
/* INQUIRY of n bytes; page < 0: standard data. */
struct srp_request_out srp_inquiry(uint64_t lun, int page, void *data, uint16_t n);
struct srp_request_out srp_report_luns(void *data, uint32_t n);

struct srp_work { /* what verify and perf work on */
        struct srp_channels *all;
        struct srp_disk disk;
        enum srp_form form; /* how data is described; see struct srp_request_out */
        unsigned pieces;
};
/* w must outlive it. */
struct load srp_load(struct srp_work *w);

#endif
