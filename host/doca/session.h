/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A requester's session with a DOCA target: what the storage service and the initiator do, in one. Control channel, one
 * memory that the target reads and writes, and contexts, each of two queue pairs. One thread's.
 */
#ifndef NVMF_HOST_DOCA_SESSION_H
#define NVMF_HOST_DOCA_SESSION_H

#include "host/engine/error.h"
#include "host/engine/load.h"
#include "pdu/doca/machine/doca_service.h"
#include "pdu/doca/machine/flow.h"
#include "pdu/doca/wire/blob.h"
#include "pdu/io/stream.h"
#include "pdu/verbs/rdma_ep.h"
#include "pdu/verbs/rdma_memory.h"

struct doca_session;

struct doca_params {
        const char *traddr, *trsvcid;
        const char *device; /* address of the RDMA device; NULL: that of the control channel */
        const struct doca_dialect *dialect;
        bool reference; /* the target's errors use their stage up */
        bool by_cm; /* connections by the connection manager, also where the device can be joined */
        unsigned cores, depth; /* contexts; requests outstanding of each */
        uint32_t io_bytes;     /* of a request at most */
        uint64_t storage;      /* bytes; 2.10 alone, which cannot ask */
        unsigned timeout;      /* ms: of each response, and of the connections */
        struct rule_policy policy;
        /* A request is changed before it is sent, for tests of targets; its user data is told apart as it was sent. NULL: as
         * it is. */
        void (*change)(const struct doca_session *s, struct doca_io *io);
        struct verbs_provider *verbs; /* NULL: the machine's */
        /* The control channel is written to it, which may be NULL; RDMA where `verbs` records (verbs_record.h). */
        struct capture_writer *record;
        const char *comment; /* of what is recorded, kept by the caller; or NULL */
};

struct doca_context;

struct doca_request { /* a slot; its data lies in the session's memory */
        struct verbs_wr send;
        struct doca_context *context;
        struct doca_request *next; /* free */
        struct load_io *io;        /* NULL: it is free */
        uint8_t *data, *message;
        struct doca_io said;
        uint32_t result;
        bool sent,
            answered; /* it is over when both are: the work request is the provider's until then */
};

struct doca_link {
        struct rdma_ep ep; /* first */
        struct doca_context *context;
        enum doca_role role;
};

struct doca_context {
        struct doca_session *session;
        unsigned number; /* from 1 */
        struct doca_link link[DOCA_ROLES];
        struct doca_request *requests, *free;
        struct rdma_recv *recvs;
        struct verbs_wr *to_send, **to_send_last, *to_post;
        struct doca_flow *flow;
        struct load_state state;
};

struct doca_session {
        const struct doca_params *params;
        struct stream stream;
        struct stream_place here; /* of it */
        const char *device;       /* address of the RDMA device */
        struct doca_service machine;
        struct rdma_group group;
        bool has_group, started;
        enum { SOUGHT, FOUND, NOT_FOUND } found_device;
        bool by_cm;                      /* the target connects to the listener; */
        struct rdma_ep finder;           /* ... whose device it finds; */
        struct verbs_listener *listener; /* NULL: none */
        uint64_t cookie;                 /* of the first context's io_data; others follow */
        struct rdma_dev *dev;            /* of all queue pairs */
        struct rdma_memory memory;       /* all of it */
        uint8_t *exported;               /* what the target may reach; */
        uint64_t exported_len;           /* bytes */
        uint32_t exported_key, exported_rkey;
        uint8_t *messages; /* beside it: 64 bytes per request, and per receive */
        uint32_t messages_key;
        uint64_t total_size;
        uint32_t block_size;
        struct doca_context *contexts; /* params->cores */
        unsigned n_contexts;
        struct rule_set found;  /* what the target\'s I/O messages broke */
        unsigned polls;         /* that found nothing */
        bool slept;             /* since the last one */
        uint32_t failed_result; /* of the last request that failed */
};

/* Connects and asks for the size of the storage; nothing else yet. p must outlive it. 0; -1: e says why, and nothing is to
 * be closed. */
int doca_session_open(struct doca_session *s, const struct doca_params *p, struct host_error *e);
/* All up to start_storage. -1: e says why; the session is still to be closed. */
int doca_session_start(struct doca_session *s, struct host_error *e);
/* stop_storage and shutdown, if it was started and `orderly`; then the connections end. e: NULL, or what could not be done;
 * -1 then. */
int doca_session_close(struct doca_session *s, bool orderly, struct host_error *e);

/* A request and its response, which is no error. -1: e says what came in its place. */
int doca_session_ask(struct doca_session *s, struct doca_msg request, struct doca_msg *response,
                     struct host_error *e);

/* --- contexts (context.c) ---------------------------------------------------------------------- */

/* A connect request of the target, for one of its contexts; else it is refused. */
void doca_session_request(struct rdma_group *g, const struct verbs_event *v);
/* Nothing is made yet. Its ends at the session's device, to be joined: -1: e, with the errno. With queue pairs, and joined
 * or connected, by asking the target: -1: e. */
void doca_context_init(struct doca_context *c, struct doca_session *s, unsigned number);
int doca_context_local(struct doca_context *c, struct host_error *e);
int doca_context_connect(struct doca_context *c, struct host_error *e);
/* Slots and receives, in the session's memory, which is there. */
int doca_context_prepare(struct doca_context *c, struct host_error *e);
bool doca_context_is_live(const struct doca_context *c);
/* It is lost from here on, for this reason: done() of all that is outstanding. Always -1. */
int __attribute__((format(printf, 2, 3)))
doca_context_break(struct doca_context *c, const char *fmt, ...);
/* Its queue pairs end. */
void doca_context_close(struct doca_context *c);
void doca_context_free(struct doca_context *c);

/* As struct load_ops, with the session as load->host. */
struct load doca_load(struct doca_session *s);
/* One request of a context (from 0), and its end; data of blocks * block size bytes. -1: e. */
int doca_transfer(struct doca_session *s, unsigned context, bool write, uint64_t block,
                  uint32_t blocks, void *data, struct host_error *e);

#endif
