/* SPDX-License-Identifier: BSD-3-Clause */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void host_error_set(struct host_error *e, enum host_trouble kind, const char *fmt, ...)
{
        va_list ap;

        *e = (struct host_error) { .kind = kind };
        va_start(ap, fmt);
        vsnprintf(e->line, sizeof(e->line), fmt, ap);
        va_end(ap);
}

void host_error_add(struct host_error *e, const char *fmt, ...)
{
        size_t len = strlen(e->line);
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(e->line + len, sizeof(e->line) - len, fmt, ap);
        va_end(ap);
}
