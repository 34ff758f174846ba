/* SPDX-License-Identifier: BSD-3-Clause */
/* A namespace as perf and verify know it (host/engine/load.h). */
#ifndef NVMF_HOST_NVME_LOAD_H
#define NVMF_HOST_NVME_LOAD_H

#include "ctrl.h"
#include "host/engine/load.h"

/* Over all I/O queues of c, one at least. block_size: bytes of a logical block; blocks: of the namespace. c outlives
 * it. load_io.asked_for: also a write that fits the capsule waits for an R2T (SGL 5Ah); nvmet-tcp never answers those
 * (seen with 6.12). */
struct load nvme_load(struct host_ctrl *c, uint32_t nsid, uint32_t block_size, uint64_t blocks);

#endif
