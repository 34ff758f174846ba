/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One queue pair over a TCP socket: the host machine (pdu/machine/tcp_host.h) and what moves its
 * bytes. Nothing here blocks but host_queue_open(), _wait(), _run() and _close(); many queues may
 * be served by one thread that calls host_queue_poll() of each, or polls host_queue_fd() itself.
 *
 * A queue breaks once and stays broken: every command outstanding is called back with
 * HOST_STATUS_ABORTED, q->error says why, and only host_queue_close() is of use then.
 */
#ifndef NVMF_HOST_QUEUE_H
#define NVMF_HOST_QUEUE_H

#include "host/error.h"
#include "pdu/machine/tcp_host.h"

enum {
        HOST_STATUS_ABORTED = 0x371,    /* Command Aborted By Host: the connection is gone */
        HOST_QUEUE_BUFFER = 256 * 1024, /* bytes of the receive buffer */
        HOST_TIMEOUT = 30000,           /* ms */
};

struct host_queue_config {
        const char *traddr, *trsvcid; /* name or number; port or service */
        uint16_t qid;                 /* for error lines */
        unsigned timeout;             /* ms, for set-up and for each command of host_queue_run() */
        struct tcp_host_config tcp;   /* limits of all zero: from depth and maxr2t */
};

struct host_queue {
        int fd;
        uint16_t qid, depth; /* commands outstanding at most */
        unsigned timeout;
        bool broken;
        struct tcp_host *tcp;
        struct link *link;
        uint8_t *buf;
        uint64_t submitted;      /* commands so far: the traffic that a keep-alive timer sees;
                                  * one thread writes it, others may read it atomically */
        uint64_t received_at;    /* host_now() when the bytes in hand came in */
        struct host_error error; /* once broken */
};

/* ns of CLOCK_MONOTONIC. */
uint64_t host_now(void);

/* Connects the socket and exchanges ICs. 0; -1: e says why, and nothing has to be closed. */
int host_queue_open(struct host_queue *q, const struct host_queue_config *cfg,
                    struct host_error *e);
/* Tells the peer what is still queued (a TermReq), closes the socket, frees. */
void host_queue_close(struct host_queue *q);

/* Queues a command; nothing is sent before the next poll. -1 when the queue is full or broken. */
static inline int host_queue_submit(struct host_queue *q, struct host_cmd *cmd)
{
        if (q->broken || tcp_host_submit(q->tcp, cmd) < 0)
                return -1;
        __atomic_store_n(&q->submitted, q->submitted + 1, __ATOMIC_RELAXED);
        return 0;
}

/* Sends all that is queued, as far as the socket takes it, in one call to the kernel. */
int host_queue_send(struct host_queue *q);
/* Takes what has arrived, in one call: done() of ended commands. Bytes taken; 0: none; -1: broken.
 */
long host_queue_receive(struct host_queue *q);
/* Both. 1 if something was received. */
int host_queue_poll(struct host_queue *q);
/* The same after waiting up to ms for the socket. */
int host_queue_wait(struct host_queue *q, int ms);

static inline int host_queue_fd(const struct host_queue *q)
{
        return q->fd;
}

/* poll(2) events that the queue waits for. */
short host_queue_events(const struct host_queue *q);

/*
 * A command from start to end: sends, waits up to q->timeout. sqe: opcode and own fields; data (len
 * bytes, may be NULL) goes the way that the opcode says. 0; -1: broken, or an error status (then
 * e->kind is HOST_STATUS, and the line begins with the command's name). cqe may be NULL.
 */
int host_queue_run(struct host_queue *q, const union sqe *sqe, void *data, uint32_t len,
                   struct cqe *cqe, struct host_error *e);

/*
 * The same in steps, for who has more to do meanwhile: start, host_queue_wait() until
 * host_run_over(), end. The struct stays where it is until then.
 */
struct host_run {
        struct host_queue *queue;
        struct host_cmd cmd;
        bool done;
        uint64_t deadline;
};
void host_run_start(struct host_run *run, struct host_queue *q, const union sqe *sqe, void *data,
                    uint32_t len);
bool host_run_over(const struct host_run *run);
int host_run_left(const struct host_run *run); /* ms until its deadline */
int host_run_end(struct host_run *run, struct cqe *cqe, struct host_error *e);

/* Breaks the queue for a reason of the caller's own. Returns -1. */
int host_queue_break(struct host_queue *q, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
