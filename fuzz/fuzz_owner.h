/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What owners of a controller's machine have in common: data buffers on the heap, each of just its
 * size, and the submission queue as Connect made it. The machine's user begins with one.
 */
#ifndef NVMF_FUZZ_FUZZ_OWNER_H
#define NVMF_FUZZ_FUZZ_OWNER_H

#include <stdlib.h>
#include <string.h>

#include "pdu/nvme/machine/request.h"
#include "pdu/nvme/wire/fabrics.h"

enum { FUZZ_LKEY = 7 }; /* of every buffer */

struct fuzz_owner {
        bool hungry;               /* one buffer at a time */
        unsigned buffers;          /* that the machine holds */
        bool connected;            /* what follows is set */
        bool no_flow_control;      /* of the submission queue */
        uint16_t sq_size, sq_head; /* entries; commands that have ended */
};

/* Its Connect has succeeded, with a queue of so many entries. */
static inline void fuzz_owner_connect(struct fuzz_owner *o, const struct connect_cmd *cmd,
                                      unsigned entries)
{
        o->sq_size = (uint16_t)entries;
        o->sq_head = 0;
        o->no_flow_control = cmd->cattr & CATTR_DISABLE_SQFC;
        o->connected = true;
}

/* request_ops; user begins with a fuzz_owner. */

static inline uint8_t *fuzz_owner_buffer_get(void *user, uint32_t len, uint32_t *lkey)
{
        struct fuzz_owner *o = user;
        uint8_t *buf = NULL;

        *lkey = FUZZ_LKEY;
        if (!o->hungry || o->buffers == 0)
                buf = malloc(len); /* of just that size: a byte too far is seen */
        o->buffers += buf != NULL;
        return buf;
}

static inline void fuzz_owner_buffer_put(void *user, uint8_t *buf, uint32_t len)
{
        struct fuzz_owner *o = user;

        memset(buf, 0xee, len); /* whoever still looks at it will see */
        o->buffers--;
        free(buf);
}

static inline uint16_t fuzz_owner_sqhd(void *user, const struct request *r)
{
        struct fuzz_owner *o = user;
        unsigned head = ++o->sq_head;

        if (o->sq_size > 0)
                head %= o->sq_size;
        if (o->no_flow_control)
                head = r->sqe.opc == NVME_FABRICS ? SQHD_DISABLED : 0;
        return (uint16_t)head;
}

#endif
