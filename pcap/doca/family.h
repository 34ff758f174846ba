/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DOCA's storage protocol as a family of captures: the control channel in a TCP stream, and where its connections have
 * blobs of ours, the I/O messages over the queue pairs that these name, or over connections whose cookie they name. Blobs of
 * NVIDIA's libraries name nothing that can be read, so that what goes over those connections is not found.
 *
 *      stream.c        a TCP stream becomes messages; queue pairs are learned
 *      family.c        messages become records; connections are tied to their control channel; rules
 *      line.c          words and fields
 */
#ifndef NVMF_PCAP_DOCA_FAMILY_H
#define NVMF_PCAP_DOCA_FAMILY_H

#include "pcap/trace/trace.h"

extern const struct trace_family doca_capture;

#endif
