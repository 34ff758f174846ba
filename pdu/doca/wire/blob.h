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

enum { DOCA_END_BLOB = 40, DOCA_MEMORY_BLOB = 32, DOCA_CM_DATA = 12 }; /* bytes */

/*
 * One end of a connection. By numbers, both ends tell theirs. By the connection manager, for devices that cannot be joined
 * (iWARP), the service listens, and the target connects to it with the cookie as private data; the target's blob repeats the
 * service's.
 */
struct doca_end {
        bool by_cm;
        struct verbs_numbers numbers; /* by_cm: the gid alone, which is the address */
        uint16_t port;                /* by_cm */
        uint64_t cookie;              /* by_cm: which connection of the service it is */
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
/* Private data of the connect request to such an end; the cookie of it, false: it is none. More bytes than these may follow. */
void doca_cm_write(uint64_t cookie, uint8_t p[DOCA_CM_DATA]);
bool doca_cm_read(const void *p, size_t n, uint64_t *cookie);
/* All bytes of p. */
void doca_memory_write(const struct doca_memory *m, uint8_t p[DOCA_MEMORY_BLOB]);
/* False: it is not one of these, or it does not fit into the addresses that there are. */
bool doca_memory_read(struct doca_bytes b, struct doca_memory *out);

#endif
