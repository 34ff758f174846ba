/* SPDX-License-Identifier: BSD-3-Clause */
/* What pcap anonymize writes, for its two kinds of transport. Private to the room. */
#ifndef NVMF_PCAP_ANONYMIZE_H
#define NVMF_PCAP_ANONYMIZE_H

#include "pcap/nvme/family.h"
#include "pcap/trace/tracer.h"
#include "pdu/io/capture/capture_writer.h"
#include "scrub.h"

struct anonymizer {
        const struct args *args;
        struct scrub scrub;
        struct capture_writer *out;
        struct bytes message; /* in hand */
        uint64_t written;     /* connections */
        bool no_memory;
};

/* The end of a connection, with another address. */
struct sockaddr_storage anonymous_address(const struct scrub *s, const struct capture_end *end);

/* A connection over RDMA; its session's user. */
struct rdma_copy;
struct rdma_copy *rdma_copy_new(struct anonymizer *a, const struct record *r); /* NULL: no memory */
/* The record's part of the connection, changed, into the capture; a->no_memory where memory runs out. */
void rdma_copy_record(struct anonymizer *a, struct rdma_copy *c, const struct record *r);
void rdma_copy_free(struct rdma_copy *c);

#endif
