/* SPDX-License-Identifier: BSD-3-Clause */
#include "doca_fault.h"

#include <stdio.h>
#include <string.h>

static const char *const hows[] = {
        [DOCA_FAULT_REFUSE] = "refuse", [DOCA_FAULT_SILENT] = "silent", [DOCA_FAULT_CLOSE] = "close"
};
enum { HOWS = sizeof(hows) / sizeof(hows[0]) };

static const struct {
        const char *name;
        enum doca_kind kind;    /* DOCA_NOTHING: an I/O message */
        enum doca_io_type type; /* of that */
} requests[] = {
        { "query", DOCA_QUERY, 0 },
        { "init", DOCA_INIT, 0 },
        { "create", DOCA_CREATE, 0 },
        { "connect", DOCA_CONNECT, 0 },
        { "start", DOCA_START, 0 },
        { "stop", DOCA_STOP, 0 },
        { "shutdown", DOCA_SHUTDOWN, 0 },
        { "read", DOCA_NOTHING, DOCA_IO_READ },
        { "write", DOCA_NOTHING, DOCA_IO_WRITE },
};
enum { REQUESTS = sizeof(requests) / sizeof(requests[0]) };

/* DOCA_FAULT_NONE: it is none of them. */
static enum doca_fault how_of(const char *spec, size_t len)
{
        for (unsigned i = 1; i < HOWS; i++)
                if (strlen(hows[i]) == len && memcmp(hows[i], spec, len) == 0)
                        return (enum doca_fault)i;
        return DOCA_FAULT_NONE;
}

static enum doca_fault *place_of(struct doca_faults *f, const char *name, enum doca_fault how)
{
        for (unsigned i = 0; i < REQUESTS; i++) {
                if (strcmp(requests[i].name, name) != 0)
                        continue;
                if (requests[i].kind != DOCA_NOTHING)
                        return &f->control[requests[i].kind];
                return how == DOCA_FAULT_CLOSE ? NULL : &f->io[requests[i].type];
        }
        return NULL;
}

bool doca_fault_add(struct doca_faults *f, const char *spec, char *error, size_t size)
{
        const char *at = strchr(spec, '@');
        enum doca_fault how = at ? how_of(spec, (size_t)(at - spec)) : DOCA_FAULT_NONE;
        enum doca_fault *place = how ? place_of(f, at + 1, how) : NULL;

        if (place) {
                *place = how;
                return true;
        }
        snprintf(
            error, size,
            "'%s' is not a fault: refuse, silent or close, @, and query, init, create, connect, "
            "start, "
            "stop or shutdown; refuse or silent, @, and read or write",
            spec);
        return false;
}
