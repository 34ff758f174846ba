/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The blobs of this project, "verbs blob, version 1": what its target and requester put where DOCA's have exports of
 * NVIDIA's libraries. Those (doca_rdma_export(), doca_mmap_export_rdma()) are not documented, and differ from library to
 * library: nobody but the libraries can read them, and they cannot read these. doc/doca.md has the layout.
 */
#ifndef NVMF_DOCA_WIRE_BLOB_H
#define NVMF_DOCA_WIRE_BLOB_H

#include "doca.h"
#include "pdu/verbs/verbs.h"

enum { DOCA_END_BLOB = 40, DOCA_MEMORY_BLOB = 32 }; /* bytes */

struct doca_end { /* one end of a connection */
        struct verbs_numbers numbers;
        uint8_t reads_in, reads_out, rnr_retry, retry; /* see struct verbs_conn_param */
};

struct doca_memory {        /* what the target may read and write */
        uint64_t base, len; /* address in the service; bytes */
        uint32_t rkey;
        unsigned access; /* enum verbs_access */
};

/* All bytes of p. */
void doca_end_write(const struct doca_end *e, uint8_t p[DOCA_END_BLOB]);
/* False: it is not one of these. */
bool doca_end_read(struct doca_bytes b, struct doca_end *out);
/* All bytes of p. */
void doca_memory_write(const struct doca_memory *m, uint8_t p[DOCA_MEMORY_BLOB]);
/* False: it is not one of these, or it does not fit into the addresses that there are. */
bool doca_memory_read(struct doca_bytes b, struct doca_memory *out);

#endif
