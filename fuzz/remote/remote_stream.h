/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions over byte streams by hand, of any family: connecting, what is gathered and cut, what is read. What is said and
 * heard is the family's, a talk on each connection.
 */
#ifndef NVMF_FUZZ_REMOTE_STREAM_H
#define NVMF_FUZZ_REMOTE_STREAM_H

#include <sys/uio.h>

#include "schedule.h"

struct stream_talk_ops {
        size_t bytes; /* of a talk, zero at first */
        size_t room;  /* that a step takes at most */
        int (*init)(void *talk,
                    struct remote_conn *c); /* 0; -1: out of memory, and fini() follows */
        void (*fini)(void *talk);
        /* A new session; first: the talk of connection 0. 0; -1: out of memory. */
        int (*begin)(void *talk, void *first);
        /* Whether this step needs a word of the target that is on its way. */
        bool (*waits)(const void *talk, const struct seq_step *step);
        /* The bytes of a step, into `room` of them; false: it is not to be sent. */
        bool (*say)(void *talk, const struct sequence *s, const struct seq_step *step, uint8_t *p,
                    size_t *n);
        /* Where the next bytes of the target go, and that so many came: conn_received_word() and so on. */
        void (*room_for)(void *talk, struct iovec *iov);
        void (*heard)(void *talk, size_t n);
        /* Whether answers are due to what was sent so far. */
        bool (*expects)(const void *talk);
        void (*where)(const struct remote_target *to, const char **traddr, const char **trsvcid);
};

/* A family's struct remote_transport; make: its new(), which calls remote_stream_new(). */
#define REMOTE_STREAM(make)                                                                        \
        {                                                                                          \
                .new = (make), .free = remote_stream_free, .open = remote_stream_open,             \
                .retry = remote_stream_retry, .can_send = remote_stream_can_send,                  \
                .send = remote_stream_send, .flush = remote_stream_flush,                          \
                .is_stuck = remote_stream_is_stuck, .expects = remote_stream_expects,              \
                .half_close = remote_stream_half_close, .close = remote_stream_close               \
        }

/* NULL: out of memory. */
struct remote_session *remote_stream_new(const struct stream_talk_ops *ops);
/* As struct remote_transport says. */
void remote_stream_free(struct remote_session *s);
bool remote_stream_open(struct remote_conn *c, const struct seq_step *step);
bool remote_stream_retry(struct remote_conn *c);
bool remote_stream_can_send(const struct remote_conn *c, const struct seq_step *step);
bool remote_stream_send(struct remote_conn *c, const struct seq_step *step);
bool remote_stream_flush(struct remote_session *s);
bool remote_stream_is_stuck(const struct remote_conn *c);
bool remote_stream_expects(const struct remote_conn *c);
void remote_stream_half_close(struct remote_conn *c);
void remote_stream_close(struct remote_conn *c, bool reset);

#endif
