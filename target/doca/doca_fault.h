/* SPDX-License-Identifier: BSD-3-Clause */
/* Lawful trouble of a DOCA target, on purpose: requests that it refuses, never answers, or ends the client's channel at. */
#ifndef NVMF_TARGET_DOCA_FAULT_H
#define NVMF_TARGET_DOCA_FAULT_H

#include <stddef.h>

#include "pdu/doca/wire/doca.h"

enum doca_fault { DOCA_FAULT_NONE, DOCA_FAULT_REFUSE, DOCA_FAULT_SILENT, DOCA_FAULT_CLOSE };

struct doca_faults {
        enum doca_fault control[DOCA_KINDS], /* of a request on the control channel */
            io[DOCA_IO_WRITE + 1];           /* of a read or a write; never DOCA_FAULT_CLOSE */
};

/* "HOW@REQUEST": refuse@init, silent@read, close@start. False: error has one line. */
bool doca_fault_add(struct doca_faults *f, const char *spec, char *error, size_t size);

#endif
