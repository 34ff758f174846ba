/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registered memory of one RDMA queue: what callers registered, what the queue has for itself,
 * and stages, through which data goes that lies in none of it. Stages are cut from slabs that are
 * registered when a size is asked for that has none free, and stay.
 */
#ifndef NVMF_HOST_MEMORY_H
#define NVMF_HOST_MEMORY_H

#include "pdu/nvme/machine/host_cmd.h"
#include "pdu/verbs/verbs.h"

enum { STAGE_CLASSES = 13 }; /* 4 KiB to 16 MiB */

struct region {
        struct region *next;
        struct verbs_mr mr;
        bool own; /* to be freed */
};

struct stage {
        struct stage *next;
        uint8_t *data;
        unsigned class;
        void *original, *user;                          /* the borrower's */
        void (*done)(struct host_cmd *cmd, void *user); /* the borrower's */
        struct memory *memory;
};

struct memory {
        struct verbs_domain *domain;
        struct region *regions; /* the one that was hit last comes first */
        struct stage *free[STAGE_CLASSES];
        struct stage_slab {
                struct stage_slab *next;
                struct stage stages[];
        } * slabs;
};

void memory_init(struct memory *m, struct verbs_domain *domain);
/* Registrations end, own memory is freed. No queue pair may use it any more. */
void memory_fini(struct memory *m);

/* Registers base[0..len) for both directions. 0; -1 with errno. */
int memory_add(struct memory *m, void *base, size_t len);
void memory_drop(struct memory *m, const void *base);
/* Page-aligned zeroes, registered; freed by memory_drop(). NULL with errno. */
void *memory_own(struct memory *m, size_t len, uint32_t *lkey);

/* The registration that data[0..len) lies in; NULL: none. */
const struct verbs_mr *memory_find(struct memory *m, const void *data, uint32_t len);

/* A stage of at least len bytes; NULL with errno. */
struct stage *stage_get(struct memory *m, uint32_t len);
void stage_put(struct stage *s);

#endif
