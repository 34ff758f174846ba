/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frames of a pcapng file: of any number of sections in either byte order, with interfaces of any
 * link types and snapshot lengths. Source: draft-ietf-opsawg-pcapng.
 */
#ifndef NVMF_IO_CAPTURE_PCAPNG_H
#define NVMF_IO_CAPTURE_PCAPNG_H

#include <stdbool.h>

#include "capture_file.h"
#include "capture_window.h"

struct pcapng;
/* Whether the file, of which nothing is taken yet, begins as one. */
bool pcapng_begins(const struct capture_window *w);
/* Reads on in w, which stays the caller's. NULL: out of memory. */
struct pcapng *pcapng_new(struct capture_window *w);
/* As capture_file_next(); the window says why. */
int pcapng_next(struct pcapng *g, struct capture_frame *out);
void pcapng_free(struct pcapng *g);

#endif
