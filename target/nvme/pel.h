/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Persistent Event log of a subsystem (Base 2.2 5.1.12.1.14), for as long as the target runs: what
 * its controllers have recorded, the newest first, and contexts, which are copies of it. Its lock is
 * taken last.
 */
#ifndef NVMF_TARGET_PEL_H
#define NVMF_TARGET_PEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "pdu/nvme/wire/nvme.h"

enum {
        PEL_UNITS = 4, /* PELS, 64 KiB: events and header of a log have no more */
        PEL_MOST = PEL_UNITS << 16,
        PEL_TIMESTAMP = 3, /* event types */
        PEL_RESET = 4,
        PEL_NAMESPACE = 6,
        PEL_FORMAT_START = 7,
        PEL_FORMAT_END = 8,
        PEL_SANITIZE_START = 9,
        PEL_SANITIZE_END = 10,
        PEL_SET_FEATURE = 11,
};

struct pel_event;

struct pel {
        pthread_mutex_t lock;
        struct pel_event *newest;
        uint32_t count, bytes; /* of the events */
        uint64_t recorded;     /* events, ever */
        uint64_t told;         /* ... when a context was made last */
        uint16_t generation;   /* GNUM */
};

/* A Timestamp as the data structure has it: 48 bits of ms, then Synch and origin. */
struct pel_stamp {
        uint8_t bytes[8];
};

struct pel_reset { /* Controller Reset Information descriptor */
        le16_t cntlid;
        uint8_t fa, oip, rsvd4[12];
        le32_t power_cycles;
        le64_t power_on; /* ms */
        struct pel_stamp stamp;
};
_Static_assert(sizeof(struct pel_reset) == 36, "Controller Reset Information");

/* Who records: with what the event header says of it. */
struct pel_from {
        uint16_t cntlid, port_id;
        struct pel_stamp stamp;
};

/* Without events. pel_fini() frees them, when nobody uses the log any more. */
void pel_init(struct pel *p);
void pel_fini(struct pel *p);
/* An event of n bytes of data; the oldest ones make way. Out of memory it is lost. */
void pel_add(struct pel *p, uint8_t type, const struct pel_from *from, const void *data, size_t n);

/* What is returned in the header besides. */
struct pel_subject {
        const char *subnqn;
        const struct id_ctrl *ctrl; /* VID, SSVID, SN, MN */
        struct pel_stamp stamp;
        bool formats; /* events about Format NVM and Sanitize are among those that there are */
};
struct pel_context {
        uint32_t len;
        uint8_t bytes[];
};
/* The log as it is now; free() is its end. NULL: out of memory. oldest_first, still: what breaks rules. */
struct pel_context *pel_context(struct pel *p, const struct pel_subject *about, bool oldest_first,
                                bool still);

#endif
