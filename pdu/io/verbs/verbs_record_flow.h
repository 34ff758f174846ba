/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside verbs_record.h: one connection as its end sees it, and how that is written. What is posted
 * is written at once, what the peer has sent when it is received; what a device does not tell a
 * protocol may make up, of messages and of the memory that the peer may access.
 */
#ifndef NVMF_IO_VERBS_RECORD_FLOW_H
#define NVMF_IO_VERBS_RECORD_FLOW_H

#include "pdu/io/capture/capture_rdma.h"
#include "pdu/verbs/verbs.h"

/* Memory of this end that its peers may access, by key: of a protection domain. Zero at first. */
struct record_memory {
        struct region *regions;
};

/* When memory runs out, it is not known, and nothing of it is made up. */
void record_memory_add(struct record_memory *m, const struct verbs_mr *mr, const void *addr,
                       size_t len);
/* That window; window NULL: the registration of that key. */
void record_memory_drop(struct record_memory *m, const struct verbs_window *window, uint32_t key);
void record_memory_fini(struct record_memory *m);
/* Of the len bytes at addr: so many are there for who has this key. */
uint32_t record_memory_bytes(const struct record_memory *m, uint64_t addr, uint32_t key,
                             uint32_t len);

struct record_flow;

/* What a protocol adds to the connections that this end has asked for: PARTY_HOST. */
struct record_protocol {
        uint16_t ports[2]; /* the controller's becomes the first one, unless it is the second */
        /* This end sends, or has received: the pieces have what the message has. Before a received one is written. */
        void (*sent)(struct record_flow *f, const struct iovec *iov, int n);
        void (*received)(struct record_flow *f, const struct iovec *iov, int n);
        void (*end)(struct record_flow *f); /* f->kept goes */
};

/* Embedded in its endpoint, whose thread it belongs to; zero at first but for w, self and protocol. */
struct record_flow {
        struct capture_writer *w;
        enum party self;
        const struct record_protocol *protocol; /* NULL: see verbs_record_new() */
        struct record_memory *memory;           /* of its domain; NULL: none yet */
        uint16_t port; /* its own, of the listener; 0: it has none, or its address says it */
        struct capture_rdma rdma;
        bool open;   /* rdma is */
        bool joined; /* by numbers: nobody says anything */
        bool ready, leaving;
        bool dead;            /* nothing that is posted goes out any more; set by the owner, too */
        enum party parted[2]; /* who has said that it ends, and it is not written yet */
        unsigned partings;
        struct sent *sent; /* a ring */
        size_t first, n, cap;
        void *kept; /* the protocol's */
};

/* The addresses are known: those of `of`. comment: of the first packet, or NULL. */
void record_flow_open(struct record_flow *f, struct verbs_ep *of, const char *comment);
/* In place of that, of a flow that is joined: both ends with their numbers, as their GIDs say. */
void record_flow_join(struct record_flow *f, const struct verbs_numbers *own,
                      const struct verbs_numbers *peer, const char *comment);
/* A message of connection management; p: its private data and READs, or NULL. */
void record_flow_add_cm(struct record_flow *f, enum party sender, enum capture_cm_kind kind,
                        const struct verbs_conn_param *p, int reason);
/* The host has seen the acceptance; what it sends may be received before that is told. */
void record_flow_ready(struct record_flow *f);
/* `sender` ends the connection. What the peer sent before may still be in the completion queue: its
 * end is written when work of the queue pair fails, or by record_flow_partings(). */
void record_flow_part(struct record_flow *f, enum party sender);
void record_flow_partings(struct record_flow *f);
/* Called before it is posted; completed: in the order of the completion queue. */
void record_flow_posted(struct record_flow *f, const struct verbs_wr *wr);
void record_flow_completed(struct record_flow *f, const struct verbs_wc *wc);
/* The memory that it holds; nothing is written. */
void record_flow_fini(struct record_flow *f);

#endif
