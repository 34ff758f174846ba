/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchange of a failed case as files: FOLDER/ID.txt, every message with its fields, and
 * FOLDER/ID.pcap, both directions of every connection, which Wireshark opens (addresses in it are
 * made up; the controller's port is always the family's). Of a play with a host it is what its target has
 * recorded.
 */
#ifndef NVMF_CONFORMANCE_TRANSCRIPT_H
#define NVMF_CONFORMANCE_TRANSCRIPT_H

#include "suite.h"

/* Writes both and puts their path without suffix into r->transcript; a file that can't be written
 * is named in r->note. */
void transcript_write(const char *folder, struct result *r, struct t *t);

struct capture_writer;
/* Adds the connections of a case to a capture, with its id as comment; more than EXCHANGE_BYTES of
 * them are not kept. Any thread. */
void transcript_record(struct capture_writer *w, const struct t *t);

#endif
