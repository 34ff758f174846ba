/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stages of one RDMA queue: registered memory through which data goes that lies in none. They are cut
 * from slabs that are registered when a size is asked for that has none free, and stay.
 */
#ifndef NVMF_HOST_STAGE_H
#define NVMF_HOST_STAGE_H

#include "pdu/nvme/machine/host_cmd.h"
#include "pdu/verbs/rdma_memory.h"

enum { STAGE_CLASSES = 13 }; /* 4 KiB to 16 MiB */

struct stage {
        struct stage *next;
        uint8_t *data;
        unsigned class;
        void *original, *user;                          /* the borrower's */
        void (*done)(struct host_cmd *cmd, void *user); /* the borrower's */
        struct stages *of;
};

struct stages {
        struct rdma_memory *memory; /* where slabs are registered, and freed with */
        struct stage *free[STAGE_CLASSES];
        struct stage_slab {
                struct stage_slab *next;
                struct stage stages[];
        } * slabs;
};

/* No stage is lent any more; what they lay in goes with the memory. */
void stages_fini(struct stages *m);

/* A stage of at least len bytes; NULL with errno. */
struct stage *stage_get(struct stages *m, uint32_t len);
void stage_put(struct stage *s);

#endif
