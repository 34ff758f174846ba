/* SPDX-License-Identifier: BSD-3-Clause */
/* What pcap anonymize writes, for its two kinds of transport, and what a family says to it. */
#ifndef NVMF_PCAP_ANONYMIZE_H
#define NVMF_PCAP_ANONYMIZE_H

#include "pcap/trace/tracer.h"
#include "pdu/io/capture/capture_writer.h"
#include "scrub.h"

enum { TRANSFERS_ALL = 256 << 20 };
struct anonymizer {
        const struct args *args;
        struct scrub scrub;
        struct capture_writer *out;
        struct bytes message;         /* in hand */
        struct bytes_limit transfers; /* over RDMA that are incomplete */
        uint64_t written;             /* connections */
        bool no_memory;
};

struct trace_anonymize {
        /* Over TCP: writes what a record of the connection says, without what names somebody. kept: tcp_size bytes
         * of this connection, zero at first. */
        size_t tcp_size;
        void (*tcp)(struct anonymizer *a, struct capture_flow *f, void *kept,
                    const struct trace_record *r);
        /* Over RDMA: so many bytes of private data, which name nobody, are written; ... */
        uint32_t private_data;
        /* ... what of them does name somebody is replaced, n of them; NULL: nothing does. */
        void (*private_bytes)(const struct scrub *s, const struct trace_event *e, uint8_t *p,
                              uint32_t n);
        /* ... and of a capsule, and of the whole of a transfer, what names somebody is replaced. */
        void (*capsule)(const struct scrub *s, const void *record, uint8_t *p, uint32_t n);
        void (*transfer)(const struct scrub *s, const void *record, uint8_t *p, size_t n);
};

/* The end of a connection, with another address. */
struct sockaddr_storage anonymous_address(const struct scrub *s, const struct capture_end *end);

/* A connection over RDMA; its `tool`. */
struct rdma_copy;
/* NULL: no memory. */
struct rdma_copy *rdma_copy_new(struct anonymizer *a, const struct trace_record *r);
/* The record's part of the connection, changed, into the capture; a->no_memory where memory runs out. */
void rdma_copy_record(struct anonymizer *a, struct rdma_copy *c, const struct trace_record *r);
void rdma_copy_free(struct anonymizer *a, struct rdma_copy *c);

#endif
