/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures of NVMe/TCP as sequences: what a host said, to be played again, or to be mutated. */
#ifndef NVMF_FUZZ_SEQ_CAPTURE_H
#define NVMF_FUZZ_SEQ_CAPTURE_H

#include "corpus.h"

/* Whether a file that begins with these bytes is a pcap or pcapng file. */
bool seq_is_capture(const void *p, size_t n);

/*
 * Adds what the hosts of a capture said: connections that were open together make a sequence, each a
 * connection of it. A PDU becomes a step of its template, with the fields changed that differ from
 * what a host would say there, so that CIDs, TTAGs and CNTLID are bound anew; what is no PDU becomes
 * raw bytes. What a sequence has no room for is left out: connections behind the fourth, what follows
 * 48 steps, and contents of long data. Where the wire was cut, and how long a host waited, is not
 * kept. False: err has one line.
 */
bool seq_capture(struct corpus *c, const char *path, char err[CORPUS_ERROR]);

#endif
