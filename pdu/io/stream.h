/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A byte stream between two ends: the one place that connects, listens, reads, writes and closes. Over
 * TCP it is non-blocking, close-on-exec, with TCP_NODELAY and keepalive. What is below it is a struct
 * stream_ops: TLS is one more of these, put in place of TCP's once a stream is connected or accepted.
 *
 * A machine's pump (pdu/nvme/io/link_stream.h has the one of an NVMe/TCP link) calls stream_read() and
 * stream_write(), and waits by stream_watch() on a loop or by stream_pollfd(). By hand, as a suite or
 * a fuzzer does: stream_send() sends exactly these bytes in these pieces, stream_serve() waits for
 * what comes; s->end then tells FIN, RST and timeout apart. Who has several connections in the making
 * on one loop takes stream_begin_connect(), waits for EPOLLOUT, and stream_end_connect().
 *
 * Events are those of the loop: EPOLLIN, EPOLLOUT; EPOLLHUP and EPOLLERR come unasked.
 */
#ifndef NVMF_IO_STREAM_H
#define NVMF_IO_STREAM_H

#include <sys/uio.h>

#include "loop.h"
#include "net.h"
#include "pdu/io/capture/capture_writer.h"

struct stream;

enum {
        STREAM_NOW = 1u << 31, /* see stream_ops.wants() */
};

struct stream_ops {
        /* As readv(2) and writev(2) with n >= 1: bytes (read: 0 is the peer's end), or -1 with errno;
         * EAGAIN: not now. */
        ssize_t (*read)(struct stream *s, const struct iovec *iov, int n);
        ssize_t (*write)(struct stream *s, const struct iovec *iov, int n);
        /* Says that no more is sent. 0, or -1 with errno. */
        int (*half_close)(struct stream *s);
        /* Closes the descriptor and frees s->own. */
        void (*close)(struct stream *s, bool reset);
        /* What to wait for on the descriptor when the owner waits for `events`; with STREAM_NOW: they
         * are there already, out of sight of the descriptor. NULL: just these. */
        uint32_t (*wants)(const struct stream *s, uint32_t events);
        /* What ended it, where errno says too little; NULL: errno says it. The function may be NULL. */
        const char *(*why)(const struct stream *s);
};
extern const struct stream_ops stream_over_tcp; /* for what is put in its place */

enum stream_end {
        STREAM_OPEN, /* also after a failed write: what the peer said last is still to be read */
        STREAM_FIN,  /* the peer sends no more */
        STREAM_RST,  /* the peer has reset it */
        STREAM_LOST, /* by anything else (s->error), such as keepalive that is not answered */
};

/* The owner's memory, zeroed; it may be moved as long as it is not watched. */
struct stream {
        const struct stream_ops *ops;                     /* NULL: closed, or never open */
        void *own;                                        /* of the ops */
        struct loop_source source;                        /* its descriptor; see stream_watch() */
        void (*ready)(struct stream *s, uint32_t events); /* the owner's; may close and free it */
        enum stream_end end;                              /* what the last read saw */
        int error; /* errno of the last read or write that failed */
        bool all;  /* the last read or write went as far as it was asked to */

        /* its own */
        struct loop *loop;
        uint32_t events; /* that the owner waits for */
        bool reset;      /* a write has found it reset: the read that follows sees a plain end */
        bool half;       /* we send no more */
        struct capture_writer *record; /* NULL: none */
        struct capture_flow flow;
        enum party self;
};

static inline bool stream_is_open(const struct stream *s)
{
        return s->ops != NULL;
}

/* --- beginning -------------------------------------------------------------------------------- */

/* Connects within timeout_ms (0: at once or never; resolving the name is not counted). All addresses
 * of a name are tried, in order. 0; -1, the error and errno (0: the name is unknown). */
int stream_connect(struct stream *s, const char *traddr, const char *trsvcid, unsigned timeout_ms,
                   char *error, size_t size);
/* The same in two steps, to one address. 0: connected; -1 with errno: EINPROGRESS if it is under way
 * (only then it is to be closed; EADDRNOTAVAIL: no port of ours is free at this moment). */
int stream_begin_connect(struct stream *s, const struct addrinfo *to);
/* 0: connected; -1 with errno, and the stream is closed. */
int stream_end_connect(struct stream *s);

/* Connects to a Unix socket. */
int stream_connect_local(struct stream *s, const char *path, char *error, size_t size);

/* A place to accept at. source.ready is the owner's to set before it puts the source on a loop. */
struct stream_listener {
        struct loop_source source;
        int spare; /* a descriptor to give up when there are no more of them */
};

/* Listens; trsvcid "0": any free port. 0, or -1 and the error. */
int stream_listen(struct stream_listener *l, const char *traddr, const char *trsvcid, char *error,
                  size_t size);
/* Listens on a Unix socket that only its owner may open (0600); one that nobody listens on any more is
 * replaced. No other thread may create files meanwhile. Removing it is the caller's. */
int stream_listen_local(struct stream_listener *l, const char *path, char *error, size_t size);
/* The next connection; false: none waits (errno is EAGAIN), or it cannot be had now. Out of descriptors, those that wait are turned away: in the
 * backlog they would wake us forever. */
bool stream_accept(struct stream_listener *l, struct stream *s);
/* Who owns a loop has removed the source. */
void stream_unlisten(struct stream_listener *l);
uint16_t stream_listener_port(const struct stream_listener *l);

struct stream_place {
        char addr[NET_TRADDR];
        uint16_t port;
};
/* Numeric address and port of an end; "" and 0 if there is none. IPv4 over a socket for both is IPv4. */
struct stream_place stream_local(const struct stream *s);
struct stream_place stream_peer(const struct stream *s);

/* From here on all that it carries is written to w, its end included, until it is closed; w NULL: it
 * is not. self: which end this is; the controller's port becomes 4420 unless it is 8009. */
void stream_record(struct stream *s, struct capture_writer *w, enum party self);
/* ... and these bytes, which its reads and writes do not show. */
void stream_record_data(struct stream *s, enum party sender, const void *p, size_t n);

/* --- moving bytes ----------------------------------------------------------------------------- */

/* Bytes read; 0: none are there; -1: it has ended (s->end, s->error). */
ssize_t stream_read(struct stream *s, const struct iovec *iov, int n);
/* Bytes taken, perhaps not all; 0: none now; -1: it takes no more (s->error). */
ssize_t stream_write(struct stream *s, const struct iovec *iov, int n);

/* What ended it, or strerror(s->error). Until the next call, or its close. */
const char *stream_why(const struct stream *s);

/* We send no more (FIN): 0, or -1 with errno. */
int stream_half_close(struct stream *s);
/* The same, and drops what comes until the peer has ended it too, or for ms: closing at once, with
 * bytes unread, would reset the connection and could take our last words along. */
void stream_linger(struct stream *s, unsigned ms);
/* Takes it off its loop and closes, with RST whatever is unsent if `reset`. Closed already: nothing. */
void stream_close(struct stream *s, bool reset);

/* --- waiting ---------------------------------------------------------------------------------- */

/* Has s->ready called on the loop's thread for these events from here on; they replace earlier ones. 0;
 * 1: something is there already, go on without waiting; -1 with errno: it cannot be watched. */
int stream_watch(struct stream *s, struct loop *l, uint32_t events);
/* What poll(2) is to wait for. False: something is there already. */
bool stream_pollfd(const struct stream *s, uint32_t events, struct pollfd *p);
/* The events that are there, 0 after ms (-1: never), or -1 with errno. */
int stream_wait(const struct stream *s, uint32_t events, int ms);
/* Our end holds no more of what is not read than about so many bytes; by itself the kernel may hold tens of MiB. */
void stream_limit_unread(const struct stream *s, int bytes);

/* --- by hand ---------------------------------------------------------------------------------- */

struct stream_hand {
        size_t piece;   /* bytes that go together; 0: all of them */
        uint64_t pause; /* ms between two pieces */
        uint64_t
            deadline; /* loop_now_ms(): for sending, pauses not counted; callbacks may move it */
        /* Something has come, or it has ended: reads it. False: enough. NULL: nothing is read. */
        bool (*readable)(void *user);
        /* These went out. May be NULL. */
        void (*sent)(void *user, const void *p, size_t n);
        void *user;
};

/* Sends all n bytes, and has read what comes meanwhile, so that two full sockets cannot stop each
 * other. 1: they are out; 0: they are not taken until the deadline; -1: the peer has ended it or
 * takes no more (s->end, s->error), or readable() has had enough. */
int stream_send(struct stream *s, const void *bytes, size_t n, struct stream_hand *h);
/* Has read what comes. True: it has ended, or readable() has had enough; false: it is the deadline. */
bool stream_serve(struct stream *s, uint64_t deadline, const struct stream_hand *h);

#endif
