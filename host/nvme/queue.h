/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One queue pair over TCP or RDMA: the host machine (pdu/nvme/tcp/tcp_host.h, rdma_host.h) and what
 * moves its bytes (queue_tcp.c, queue_rdma.c). Nothing here blocks but host_queue_open(), _wait(),
 * _run(), _break() and _close(), and these not forever; many queues may be served by one thread
 * that calls host_queue_poll() of each, and sleeps by host_sleep.
 *
 * A queue breaks once and stays broken: every command outstanding is called back with
 * HOST_STATUS_ABORTED, q->state.error says why, and only host_queue_close() is of use then.
 */
#ifndef NVMF_HOST_QUEUE_H
#define NVMF_HOST_QUEUE_H

#include <poll.h>

#include "host/engine/load.h"
#include "pdu/io/loop.h"
#include "pdu/nvme/tcp/tcp_host.h"
#include "status.h"

struct capture_writer;
struct nvme_io;
struct nvme_tls;
struct verbs_provider;

enum {
        HOST_STATUS_ABORTED = 0x8371, /* Command Aborted By Host: the connection is gone; with a bit
                                       * that the wire does not have, lest a controller say so */
        HOST_TIMEOUT = 30000,         /* ms */
        HOST_QUEUE_FDS = LOAD_FDS,
};

enum host_transport { HOST_TCP, HOST_RDMA };
const char *host_transport_name(enum host_transport t); /* "tcp", "rdma" */

struct host_queue_config {
        enum host_transport transport;
        const char *traddr, *trsvcid; /* name or number; port or service */
        uint16_t qid;
        uint16_t entries;    /* of the queue; commands outstanding at most: one less */
        unsigned timeout;    /* ms, for set-up and for each command of host_queue_run() */
        uint32_t in_capsule; /* bytes of in-capsule data: from IOCCSZ; TCP's admin queue: 8192 */
        const struct rule_policy *policy; /* may be NULL */
        struct capture_writer *record;    /* TCP: what goes over it is written there; may be NULL */
        const struct nvme_tls *tls;       /* TCP: with TLS, if it has a key; may be NULL */
        const char *hostnqn, *subnqn;     /* with TLS: the names of its identity */

        struct tcp_host_config tcp; /* its own part: digests, HPDA, MAXR2T */

        struct verbs_provider *verbs; /* RDMA; NULL: the devices of this machine */
        uint16_t cntlid;              /* of the association; admin queue: 0 */
        uint16_t icdoff;              /* 16-byte units, of Identify */
        uint8_t msdbd;
};

struct host_queue {
        const struct host_queue_ops *ops;
        void *own;           /* the transport's */
        uint16_t qid, depth; /* commands outstanding at most */
        unsigned timeout;
        struct load_state state;
        struct nvme_io *later; /* nvme_load.c's: commands that wait to be sent once more */
        uint64_t submitted;    /* commands so far: the traffic that a keep-alive timer sees;
                             * one thread writes it, others may read it atomically */
};

/* What a transport does; callers use the functions below. */
struct host_queue_ops {
        int (*open)(struct host_queue *q, const struct host_queue_config *cfg,
                    struct host_error *e); /* -1: nothing is left of it */
        void (*close)(struct host_queue *q);
        void (*fail)(struct host_queue *q); /* the queue has just broken: call back all commands */
        int (*submit)(struct host_queue *q, struct host_cmd *cmd);
        int (*send)(struct host_queue *q);
        long (*receive)(struct host_queue *q);
        int (*fds)(struct host_queue *q, struct pollfd *fds); /* see host_queue_fds() */
        int (*add_memory)(struct host_queue *q, void *base, size_t len);
        void (*drop_memory)(struct host_queue *q, const void *base);
};
extern const struct host_queue_ops host_queue_tcp, host_queue_rdma;

/* Connects; TCP: exchanges ICs. 0; -1: e says why, and nothing has to be closed. */
int host_queue_open(struct host_queue *q, const struct host_queue_config *cfg,
                    struct host_error *e);
/* Tells the peer what is still queued (a TermReq), or that it is over (DREQ); disconnects, frees.
 * Nothing, where it is closed. */
void host_queue_close(struct host_queue *q);

/* Queues a command; nothing is sent before the next poll. -1 when the queue is full or broken. */
static inline int host_queue_submit(struct host_queue *q, struct host_cmd *cmd)
{
        if (q->state.broken || q->ops->submit(q, cmd) < 0)
                return -1;
        __atomic_store_n(&q->submitted, q->submitted + 1, __ATOMIC_RELAXED);
        return 0;
}

/* Sends all that is queued, as far as the transport takes it, in one call. */
static inline int host_queue_send(struct host_queue *q)
{
        return q->state.broken ? -1 : q->ops->send(q);
}
/* Takes what has arrived, in one call: done() of ended commands. Bytes or completions taken; 0:
 * none; -1: broken. */
static inline long host_queue_receive(struct host_queue *q)
{
        return q->state.broken ? -1 : q->ops->receive(q);
}
/* Both. 1 if something was received. */
int host_queue_poll(struct host_queue *q);
/* The same after waiting up to ms for something to come. */
int host_queue_wait(struct host_queue *q, int ms);

/*
 * Memory that data of many commands will lie in: registered here, so that it need not be copied
 * (RDMA; with TCP nothing happens). It stays good until it is dropped or the queue is closed; no
 * command may be outstanding that uses it when it is dropped. -1: e says why.
 */
int host_queue_add_memory(struct host_queue *q, void *base, size_t len, struct host_error *e);
void host_queue_drop_memory(struct host_queue *q, const void *base);

/*
 * What to wait for before the next host_queue_poll(), HOST_QUEUE_FDS at most; how many. 0: it has no
 * descriptors, and is to be asked. -1: something has come meanwhile (done() may have been called),
 * or it is broken: do not wait.
 */
int host_queue_fds(struct host_queue *q, struct pollfd *fds);

struct host_sleep {
        struct pollfd *fds; /* room for HOST_QUEUE_FDS of each queue */
        unsigned count;
        bool awake; /* something has come: no sleep */
        bool blind; /* some queue has to be asked */
};
/* Sleeping on several queues: all zero but fds, then one after the other. */
void host_sleep_on(struct host_sleep *s, struct host_queue *q);
/* Up to ms; -1: forever. How many descriptors are ready; > 0 also if there was no need to sleep. */
int host_sleep(const struct host_sleep *s, int ms);

/*
 * A command from start to end: sends, waits up to q->timeout. sqe: opcode and own fields; data (len
 * bytes, may be NULL) goes the way that the opcode says. 0; -1: broken, or an error status (then
 * e->kind is HOST_STATUS, and the line begins with the command's name). cqe may be NULL.
 */
int host_queue_run(struct host_queue *q, const union sqe *sqe, void *data, uint32_t len,
                   struct cqe *cqe, struct host_error *e);

struct host_run {
        struct host_queue *queue;
        struct host_cmd cmd;
        bool done;
        uint64_t deadline;
};
/*
 * The same in steps, for who has more to do meanwhile: start, host_queue_wait() until
 * host_run_over(), end. The struct stays where it is until then.
 */
void host_run_start(struct host_run *run, struct host_queue *q, const union sqe *sqe, void *data,
                    uint32_t len);
bool host_run_over(const struct host_run *run);
int host_run_left(const struct host_run *run); /* ms until its deadline */
int host_run_end(struct host_run *run, struct cqe *cqe, struct host_error *e);

/* Breaks the queue for a reason of the caller's own. Returns -1. */
int host_queue_break(struct host_queue *q, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
