/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A provider of verbs.h that is another one, and writes what goes over its connections into a capture
 * (capture_rdma.h). It works for devices, for RDMA in memory and for threads alike, and is used by
 * one of the two ends. Whatever the device is, the capture shows RoCEv2 with path MTU 4096.
 *
 * An end sees what it posts and what it receives, so this is what is written:
 *
 *   SEND, WRITE      when it is posted, by either end; one that fails later is there all the same,
 *                    but nobody acknowledges it
 *   READ             when it is posted; the answer when it is known to have come
 *   SEND of the peer when it is received
 *   READ and WRITE of the peer: a device does not tell. A protocol may know that there were some,
 *                    and make them up; when they really were, and of which ranges, only the capture
 *                    of the peer shows
 *   REQ, REP, RTU, REJ, DREQ, DREP: as the events of either end say
 *
 * A queue pair that is joined by numbers (verbs_join()) has its numbers, PSNs and MTU, and the addresses that
 * the GIDs are; its end is the "controller", so that nothing is made up of what it sends. Nothing shows
 * when it begins and when it ends.
 *
 * What the queue pair does itself is not there: packets that come again, RNR NAKs, path MTU.
 */
#ifndef NVMF_IO_VERBS_RECORD_H
#define NVMF_IO_VERBS_RECORD_H

#include "pdu/io/capture/capture_writer.h"
#include "pdu/verbs/verbs.h"

struct record_protocol; /* verbs_record_flow.h */

/* All are the caller's and outlive it. protocol NULL: nothing is made up, and addresses and ports are as they are. NULL: out
 * of memory. */
struct verbs_provider *verbs_record_new(struct verbs_provider *of, struct capture_writer *w,
                                        const struct record_protocol *protocol);
/* All contexts are closed. p may be NULL. */
void verbs_record_free(struct verbs_provider *p);

/* A comment for each connection of c from now on, where the format has them; kept by the caller as
 * long as c. Of another provider's context: nothing happens. */
void verbs_record_comment(struct verbs_context *c, const char *text);

#endif
