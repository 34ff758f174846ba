/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounce buffers of one RDMA queue: registered memory for data that lies in none. They are cut
 * from slabs that are registered when a size is asked for that has none free, and stay.
 */
#ifndef NVMF_HOST_BOUNCE_H
#define NVMF_HOST_BOUNCE_H

#include "pdu/nvme/machine/host_cmd.h"
#include "pdu/verbs/rdma_memory.h"

enum { BOUNCE_CLASSES = 13 }; /* 4 KiB to 16 MiB */

struct bounce {
        struct bounce *next;
        uint8_t *data;
        unsigned class;
        void *original, *user;                          /* the borrower's */
        void (*done)(struct host_cmd *cmd, void *user); /* the borrower's */
        struct bounces *of;
};

struct bounces {
        struct rdma_memory *memory; /* where slabs are registered, and freed with */
        struct bounce *free[BOUNCE_CLASSES];
        struct bounce_slab {
                struct bounce_slab *next;
                struct bounce bounces[];
        } * slabs;
};

/* No buffer is lent any more; what they lay in goes with the memory. */
void bounces_fini(struct bounces *m);

/* A buffer of at least len bytes; NULL with errno. */
struct bounce *bounce_get(struct bounces *m, uint32_t len);
void bounce_put(struct bounce *s);

#endif
