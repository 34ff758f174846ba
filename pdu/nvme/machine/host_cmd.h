/* SPDX-License-Identifier: BSD-3-Clause */
/* A command as a host sends it, whatever transport it goes by. */
#ifndef NVMF_MACHINE_HOST_CMD_H
#define NVMF_MACHINE_HOST_CMD_H

#include "pdu/nvme/wire/nvme.h"

/* Owned by the caller from *_host_submit() until done() is called. */
struct host_cmd {
        union sqe sqe; /* opc and own fields; CID, PSDT and SGL are filled in at submit */
        uint8_t *data; /* sent or filled in; NULL if none. TCP: NULL with XFER_C2H: what comes is
                              * checked and counted, and kept nowhere. RDMA: in registered memory */
        uint32_t len;  /* bytes */
        enum nvme_xfer xfer; /* XFER_NONE, XFER_H2C, XFER_C2H */
        bool command_buffer; /* describe it by 5Ah or a key even where in-capsule data would fit */
        struct cqe cqe;      /* the response; synthesised for C2HData with SUCCESS */
        uint16_t status; /* SCT << 8 | SC of cqe, or NVME_TRANSIENT_TRANSPORT after a bad DDGST, or
                          * NVME_DATA_TRANSFER_ERROR where a read came back short */
        uint32_t got;    /* bytes of C2HData received (RDMA: len, if it succeeded) */
        /* Called once, from within the machine's input, output or ..._fail_all(); it may submit
         * commands, but not free the host. */
        void (*done)(struct host_cmd *cmd, void *user);
        void *user;
};

/* --- the transport's -------------------------------------------------------------------------- */

enum { HOST_NO_SLOT = 0xffff };

/* The place of an outstanding command; a transport's own begins with it. */
struct host_slot {
        struct host_cmd *cmd; /* NULL: free */
        uint16_t cid, next_free;
        bool ended; /* cmd->cqe is there: done() waits for something that is still on its way out */
};

struct host_slots {
        uint8_t *slots;
        size_t size; /* bytes of one */
        unsigned depth, outstanding;
        uint32_t generation; /* a power of two, not less than depth */
        uint16_t free;
};

/* depth slots of `size` bytes each, zero in what is the transport's; -1: out of memory. */
int host_slots_init(struct host_slots *h, size_t size, unsigned depth);
void host_slots_fini(struct host_slots *h);
/* The slot for a command that is submitted, NULL if there is none: cqe, status and got as if nothing
 * had come, CID and PSDT filled in. What is the transport's in it is as the command before left it. */
struct host_slot *host_slots_take(struct host_slots *h, struct host_cmd *cmd);
/* Of the command that waits for a response with this CID; NULL: none does. */
struct host_slot *host_slots_find(const struct host_slots *h, uint16_t cid);
/* Frees the slot and hands the command back to its owner. */
void host_slot_done(struct host_slots *h, struct host_slot *s);
/* The connection is over: every command is handed back, those that have not ended with `status`. */
void host_slots_fail(struct host_slots *h, uint16_t status);

#endif
