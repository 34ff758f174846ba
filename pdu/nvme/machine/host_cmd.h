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

/*
 * The CID that a slot has for its next command. Its low bits, below `generation` (a power of two, not
 * less than the slots there are), name the slot; the rest moves on, so that a late answer meets
 * nobody. FFFFh means "no command" in the Error Information log (Base 2.2 5.1.12.1.2) and is left out.
 */
static inline uint16_t host_cid_next(uint16_t cid, uint32_t generation)
{
        cid = (uint16_t)(cid + generation);
        return cid == 0xffff ? (uint16_t)(cid + generation) : cid;
}

#endif
