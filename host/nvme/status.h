/* SPDX-License-Identifier: BSD-3-Clause */
/* What went wrong with a command, in NVMe's words. */
#ifndef NVMF_HOST_STATUS_H
#define NVMF_HOST_STATUS_H

#include "host/engine/error.h"

struct cqe;

/* As host_fail(), for a command that ended with an error status (SCT << 8 | SC): "WHAT: status in words (0x182)"; e->dw0
 * is DW0 of the CQE, such as IPO of a refused Connect. */
int host_fail_status(struct host_error *e, uint16_t status, const struct cqe *cqe, const char *fmt,
                     ...) __attribute__((format(printf, 4, 5)));

#endif
