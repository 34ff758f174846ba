/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A SCSI target device: logical units on namespaces (target/ns), and tasks, which a transport hands over in two steps,
 * because a command's CDB says how much data moves:
 *
 *      scsi_admit()     the CDB is looked at; how many bytes it needs, or returns at most
 *      (the transport)  fetches the data-out, or finds memory for the data-in
 *      scsi_execute()   it is carried out, at once or later
 *
 * The commands are those of SPC-4 and SBC-3 that a disk needs (scsi_task.c has the table). It knows no transport, and has no
 * memory of its own.
 */
#ifndef NVMF_TARGET_SCSI_TASK_H
#define NVMF_TARGET_SCSI_TASK_H

#include <stdatomic.h>

#include "pdu/scsi/scsi.h"
#include "target/ns/ns.h"

enum {
        SCSI_UNITS = 256,  /* numbers below it */
        SCSI_REPLY = 4096, /* bytes that a command returns beside data of blocks, at most */
};

struct scsi_device {                 /* does not change while tasks come */
        struct ns *unit[SCSI_UNITS]; /* by LUN; NULL: there is none */
        uint32_t max_transfer;       /* bytes of a command */
        uint8_t protocol;            /* of the transport: SPC-4 7.6.1; 4: SRP */
};

/* What an initiator has with the device, over however many connections. All zero: nothing. */
struct scsi_nexus {
        _Atomic uint16_t attention[SCSI_UNITS]; /* enum scsi_asc to be reported; 0: none */
};
/* It has come: the first command to each unit is told so. */
void scsi_nexus_init(struct scsi_nexus *n, const struct scsi_device *d);
/* Something has happened to the unit, of which the initiator has to be told once. Any thread. */
void scsi_nexus_attend(struct scsi_nexus *n, uint32_t lun, enum scsi_asc what);

enum scsi_attr { SCSI_SIMPLE, SCSI_HEAD_OF_QUEUE, SCSI_ORDERED, SCSI_ACA = 4 };

struct scsi_row;

struct scsi_task {
        /* Before scsi_admit(). */
        const uint8_t *cdb; /* stays until it is done */
        unsigned cdb_len;   /* 16 or more */
        uint64_t lun;       /* as the transport has it */
        uint8_t attr;
        uint32_t out_size; /* bytes that the initiator gives */
        void (*done)(
            struct scsi_task *t); /* if scsi_execute() said that it is not: another thread */
        /* After it. Not both. */
        uint32_t out_len, in_max;
        /* Before scsi_execute(): out_len bytes, or room for in_max. */
        uint8_t *data;
        /* When it is done. */
        uint8_t status;
        struct scsi_sense sense; /* with CHECK CONDITION */
        uint32_t in_len;         /* bytes returned */

        /* Its own. */
        const struct scsi_device *device;
        struct scsi_nexus *nexus;
        const struct scsi_row *row;
        struct ns *ns;
        uint32_t number; /* of its logical unit */
        uint64_t block;
        uint32_t blocks;
        struct ns_wait wait;
};

/* Whether the command may be executed; false: it is done, with its status. */
bool scsi_admit(const struct scsi_device *d, struct scsi_nexus *n, struct scsi_task *t);
/* True: it is done. */
bool scsi_execute(struct scsi_task *t);
/* Blocks of a unit that has one; its number is below SCSI_UNITS. */
static inline bool scsi_has_unit(const struct scsi_device *d, uint32_t lun)
{
        return lun < SCSI_UNITS && d->unit[lun];
}

#endif
