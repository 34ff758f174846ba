/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A provider of verbs.h that is another one, and writes what goes over its connections into a capture
 * (capture_rdma.h). It works for devices, for RDMA in memory and for threads alike, and is used by
 * one of the two ends. Whatever the device is, the capture shows RoCEv2 with path MTU 4096. The
 * controller's port becomes 4420 unless it is 8009.
 *
 * An end sees what it posts and what it receives, so this is what is written:
 *
 *   SEND, WRITE      when it is posted, by either end; one that fails later is there all the same,
 *                    but nobody acknowledges it
 *   READ             when it is posted; the answer when it is known to have come
 *   SEND of the peer when it is received
 *   READ and WRITE of the peer: a device does not tell. The host's end makes them up when a command
 *                    has succeeded: one for each descriptor of its data, as long as that is (or
 *                    its memory), with what the memory holds when the response comes. Which
 *                    ranges the controller has really accessed, and when, only the capture of the
 *                    controller's end shows
 *   REQ, REP, RTU, REJ, DREQ, DREP: as the events of either end say
 *
 * A queue pair that is joined by numbers (verbs_join()) has its numbers and PSNs, and the addresses that
 * the GIDs are; its end is the "controller", so that nothing is made up of what it sends. Nothing shows
 * when it begins and when it ends.
 *
 * What the queue pair does itself is not there: packets that come again, RNR NAKs, path MTU.
 */
#ifndef NVMF_IO_VERBS_RECORD_H
#define NVMF_IO_VERBS_RECORD_H

#include "pdu/io/capture/capture_writer.h"
#include "pdu/verbs/verbs.h"

/* Both are the caller's and outlive it. NULL: out of memory. */
struct verbs_provider *verbs_record_new(struct verbs_provider *of, struct capture_writer *w);
/* All contexts are closed. p may be NULL. */
void verbs_record_free(struct verbs_provider *p);

/* A comment for each connection of c from now on, where the format has them; kept by the caller as
 * long as c. Of another provider's context: nothing happens. */
void verbs_record_comment(struct verbs_context *c, const char *text);

#endif
