/* SPDX-License-Identifier: BSD-3-Clause */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pdu/nvme/wire/nvme.h"

void host_error_set(struct host_error *e, enum host_trouble kind, const char *fmt, ...)
{
        va_list ap;

        *e = (struct host_error) { .kind = kind };
        va_start(ap, fmt);
        vsnprintf(e->line, sizeof(e->line), fmt, ap);
        va_end(ap);
}

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

void host_error_add(struct host_error *e, const char *fmt, ...)
{
        size_t len = strlen(e->line);
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(e->line + len, sizeof(e->line) - len, fmt, ap);
        va_end(ap);
}
