/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions over RDMA by hand, of any family and any verbs provider: connecting, receives, sends, events. What is said and
 * heard is the family's, a talk on each connection. All memory of a session is registered once and as a whole: whatever a
 * target does there harms nobody. Queue pairs that are over stay until the session is.
 */
#ifndef NVMF_FUZZ_REMOTE_VERBS_H
#define NVMF_FUZZ_REMOTE_VERBS_H

#include "pdu/verbs/verbs.h"
#include "schedule.h"

enum {
        REMOTE_VERBS_DATA = 1 << 18, /* registered bytes of one connection, aligned to as many */
        REMOTE_VERBS_SEND = SEQ_DATA_MAX + 2048, /* bytes of one message at most */
};

struct verbs_where {
        const char *traddr, *trsvcid;
        struct verbs_provider *verbs; /* NULL: the machine's */
};

struct verbs_ask { /* what a connection is asked for with */
        uint8_t data[VERBS_PRIVATE_MAX];
        uint32_t len; /* of data */
        uint8_t reads_in, reads_out;
};

struct verbs_talk_ops {
        size_t bytes; /* of a talk, zero at first */
        void (*init)(void *talk, struct remote_conn *c);
        void (*fini)(void *talk); /* NULL: nothing to do */
        /* A new session; first: the talk of connection 0. NULL: nothing to do. */
        void (*begin)(void *first);
        void (*where)(const struct remote_target *to, struct verbs_where *at);
        /* A new connection, with this step to come; first: the talk of connection 0. 1; 0: it is not to be; -1 with
         * errno. */
        int (*ask)(void *talk, void *first, const struct seq_step *step, struct verbs_ask *ask);
        /* REMOTE_VERBS_DATA bytes of its own, which descriptors have at their address under this key; it asks next. */
        void (*asking)(void *talk, uint8_t *data, uint32_t key);
        /* Events of the connection: conn_received_word() and so on. */
        void (*accepted)(void *talk, const struct verbs_event *e);
        void (*rejected)(void *talk, const struct verbs_event *e);
        /* Whether this step needs a word of the target that is on its way. */
        bool (*waits)(const void *talk, const struct seq_step *step);
        /* A step by remote_verbs_post(); false: it is not to be sent. */
        bool (*say)(void *talk, const struct sequence *s, const struct seq_step *step);
        /* A message of wc->bytes bytes. */
        void (*heard)(void *talk, const uint8_t *p, const struct verbs_wc *wc);
        /* Whether answers are due to what was sent so far. */
        bool (*expects)(const void *talk);
        void (*leaves)(void *talk); /* it disconnects next; NULL: nothing to do */
};

/* A family's struct remote_transport; make: its new(), which calls remote_verbs_new(); to_capture: its record(). */
#define REMOTE_VERBS(make, to_capture)                                                             \
        {                                                                                          \
                .new = (make), .free = remote_verbs_free, .begin = remote_verbs_begin,             \
                .end = remote_verbs_end, .open = remote_verbs_open,                                \
                .can_send = remote_verbs_can_send, .send = remote_verbs_send,                      \
                .expects = remote_verbs_expects, .half_close = remote_verbs_half_close,            \
                .close = remote_verbs_close, .poll = remote_verbs_poll,                            \
                .answered_for = true, /* by the connection manager of a machine */                 \
                    .record = (to_capture)                                                         \
        }

/* NULL: out of memory. */
struct remote_session *remote_verbs_new(const struct verbs_talk_ops *ops);
/* Sends at most REMOTE_VERBS_SEND of len bytes, which are copied. False: not sent, as too many are out, or the connection
 * is broken. */
bool remote_verbs_post(struct remote_conn *c, const uint8_t *bytes, uint32_t len);
/* As struct remote_transport says. */
void remote_verbs_free(struct remote_session *s);
bool remote_verbs_begin(struct remote_session *s);
void remote_verbs_end(struct remote_session *s);
bool remote_verbs_open(struct remote_conn *c, const struct seq_step *step);
bool remote_verbs_can_send(const struct remote_conn *c, const struct seq_step *step);
bool remote_verbs_send(struct remote_conn *c, const struct seq_step *step);
bool remote_verbs_expects(const struct remote_conn *c);
void remote_verbs_half_close(struct remote_conn *c);
void remote_verbs_close(struct remote_conn *c, bool reset);
bool remote_verbs_poll(struct remote_session *s);

#endif
