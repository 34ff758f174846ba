/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"

#include <stdio.h>
#include <string.h>

static const struct family *family_of(const void *engine_family)
{
        return *(const struct family *const *)engine_family;
}

void families_transports(const void *const *families, char *text, size_t size)
{
        size_t len = 0;

        text[0] = '\0';
        for (; *families; families++)
                for (const char *const *t = family_of(*families)->transports; *t && len < size; t++)
                        len += (size_t)snprintf(text + len, size - len, "%s%s", len ? "|" : "", *t);
}

const void *families_find(const void *const *families, const char *transport)
{
        for (; *families; families++)
                for (const char *const *t = family_of(*families)->transports; *t; t++)
                        if (strcmp(*t, transport) == 0)
                                return *families;
        return NULL;
}
