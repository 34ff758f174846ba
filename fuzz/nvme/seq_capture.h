/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures as sequences: what a host said, to be played again, or to be mutated. */
#ifndef NVMF_FUZZ_SEQ_CAPTURE_H
#define NVMF_FUZZ_SEQ_CAPTURE_H

#include "fuzz/campaign/corpus.h"

/*
 * Adds what the hosts of a capture said, over NVMe/TCP, then over NVMe/RDMA (RoCEv2, iWARP):
 * connections that were open together make a sequence, each a connection of it. A PDU, a capsule or
 * a connect request becomes a step of its template, with the fields changed that differ from what a
 * host would say there, so that CIDs, TTAGs and CNTLID are bound again; what is none becomes raw bytes.
 * A TCP connection on which the host says nothing becomes a close.
 * What a sequence has no room for is left out: connections after the fourth, what follows 48 steps,
 * and contents of long data. Where the wire was cut, and how long a host waited, is not kept.
 *
 * Over RDMA descriptors name the memory of who plays. Where those of the capture lie as ours do, one
 * that names another place or key does so again; another host's are good, and do not ask for
 * invalidation, which our memory does not bear. Contents of data are those that the controller has
 * READ. A DREQ is the end of the connection if the host went on elsewhere, or still waited for an
 * answer and did not wait long; else all sequences end so. What RoCE's private data end with is not
 * told from its padding.
 *
 * False: err has one line.
 */
bool seq_capture(struct corpus *c, const char *path, char *err); /* err: CORPUS_ERROR bytes */

#endif
