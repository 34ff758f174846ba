/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the discovery log as a whole (Base 2.2 3.1.3.3 and 5.1.12.3.1). */
#ifndef NVMF_HOST_DISCOVERY_H
#define NVMF_HOST_DISCOVERY_H

#include "ctrl.h"
#include "pdu/nvme/wire/discovery.h"

enum { DISCOVERY_ENTRIES_MAX = 65536, DISCOVERY_TRIES = 10 };

struct discovery_log {
        uint8_t *page; /* header and entries */
        size_t len;    /* bytes */
        uint64_t genctr, count;
        unsigned restarts; /* times that it changed while it was read */
};

/*
 * Reads header and entries by rising offsets in pieces of at most `piece` bytes (0: as large as the
 * controller takes), then GENCTR again; starts over when that changed. The last command has RAE
 * cleared, so that the next change is reported. 0: discovery_free() it; -1: an error.
 */
int discovery_read(struct host_ctrl *c, uint32_t piece, struct discovery_log *log,
                   struct host_error *e);
void discovery_free(struct discovery_log *log);

/* Whether `log` has an entry of just these bytes. */
bool discovery_has(const struct discovery_log *log, const struct disc_entry *entry);

#endif
