/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Between the parts of replay_serve.h: what is answered (replay_answer.c), and the connections of
 * live hosts over TCP (replay_serve_tcp.c) and RDMA (replay_serve_rdma.c). Private to the room.
 */
#ifndef NVMF_PCAP_REPLAY_SERVER_H
#define NVMF_PCAP_REPLAY_SERVER_H

#include "pdu/io/net.h"
#include "pdu/nvme/machine/controller.h"
#include "pdu/nvme/machine/request.h"
#include "pdu/nvme/wire/discovery.h"
#include "replay_index.h"
#include "replay_serve.h"

enum {
        SERVE_CONNS = 256,
        SERVE_TRANSFER_MAX = 32 << 20,
        SERVE_TICK_MS = 200, /* how often `stop` is looked at */
};

/* What the queue of a live host needs, whatever it came over; its transport's struct begins so. */
struct serve_conn {
        struct server *server;
        struct sq sq;
        bool connected, over;
        uint16_t qid;
        unsigned assoc;         /* of the capture; 0: none */
        uint32_t cc;            /* admin queue */
        struct request *parked; /* AERs */
};

struct server {
        const struct replay_plan *plan;
        const struct serve_options *o;
        struct answers *answers;
        size_t looked_at; /* for spill_looked() */
        struct serve_conn *conns[SERVE_CONNS];
        unsigned n_conns;
        bool had_one;
        uint64_t idle_since;
        uint16_t port;
        enum disc_prtype prtype; /* RDMA: of the device that was served last */
        uint32_t in_capsule;     /* bytes of in-capsule data that I/O commands may have */
        char traddr[NET_TRADDR];
};

/* admit, execute and sqhd; the user of the machine is the struct serve_conn. */
extern const struct request_ops serve_request_ops;

/* Of a connection that is over: those that wait for an event end without a word. */
void serve_unpark(struct serve_conn *c);
/* -1 if there are too many. */
int serve_add(struct server *sv, struct serve_conn *c);
/* It was stopped, or has had nobody for as long as --idle says. */
bool serve_is_over(const struct server *sv);

/* The loops: until it is over. 0; -1 with one line in err. */
int serve_tcp(struct server *sv, char *err, size_t err_size);
int serve_rdma(struct server *sv, char *err, size_t err_size);

#endif
