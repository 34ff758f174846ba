/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The smallest controller that carries commands out: the owner of a machine's requests in tests and
 * fuzz targets, over any transport. Connect makes it an admin or an I/O queue; Identify returns the
 * same byte throughout, Set Features writes as many bytes as CDW12 says, Read and Write move blocks of
 * a disk in memory. A fuzz target whose commands mean other things has an admit and execute of its
 * own, and the rest from here.
 */
#ifndef NVMF_MACHINE_TOY_H
#define NVMF_MACHINE_TOY_H

#include "pdu/nvme/wire/fabrics.h"
#include "request.h"

enum { TOY_BLOCK = 512, TOY_IDENTIFY_BYTE = 0x1d, TOY_LKEY = 7 }; /* LKEY: of every buffer */

/* The user of the machine, or what that begins with. Zero but for what is set before. */
struct toy {
        uint8_t *disk;
        uint32_t blocks;      /* of the disk */
        unsigned buffers_max; /* that may be lent at once; 0: any number */
        bool defers;          /* what was executed is parked, for toy_complete() */
        bool success_ok;      /* of every request */
        uint16_t refuse;      /* status that every I/O command ends with; 0: none */

        unsigned buffers; /* lent */
        bool connected;   /* what follows is set */
        bool no_flow_control;
        uint16_t qid, sq_size, sq_head;       /* sq_head: commands that have ended */
        struct request *parked, *parked_last; /* oldest first; parked_last: where there are any */
        unsigned admitted, executed, in_place, completing;
};

/* All but trace: `user` is a struct toy. */
extern const struct request_ops toy_ops;
/* The oldest that is parked ends; nothing without one. */
void toy_complete(struct toy *t);
/* Connect succeeds, with a queue of so many entries; false: out of memory. */
bool toy_connect(struct toy *t, struct request *r, unsigned entries);

/* Of request_ops; each buffer is memory of just its size, and overwritten when it comes back. */
uint8_t *toy_buffer_get(void *user, uint32_t len, uint32_t *lkey);
void toy_buffer_put(void *user, uint8_t *buf, uint32_t len);
uint16_t toy_sqhd(void *user, const struct request *r);

#endif
