/* SPDX-License-Identifier: BSD-3-Clause */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

#include "pdu/nvme/wire/nvme.h"

int host_fail_status(struct host_error *e, uint16_t status, const struct cqe *cqe, const char *fmt,
                     ...)
{
        va_list ap;

        *e = (struct host_error) { .kind = HOST_STATUS,
                                   .status = status,
                                   .dw0 = le32_get(cqe->dw0) };
        va_start(ap, fmt);
        vsnprintf(e->line, sizeof(e->line), fmt, ap);
        va_end(ap);
        host_error_add(e, ": %s (status %03xh%s)", status_name(status), status,
                       cqe_dnr(cqe) ? ", do not retry" : "");
        return -1;
}
