/* SPDX-License-Identifier: BSD-3-Clause */
/* The live side of a replay: its associations, queues and commands. Private to replay*.c. */
#ifndef NVMF_PCAP_REPLAY_LIVE_H
#define NVMF_PCAP_REPLAY_LIVE_H

#include "replay.h"
#include "target/ns/marks.h"

struct live_assoc {
        unsigned number; /* of the captured one; 0: that did not come to be */
        uint16_t cntlid;
        unsigned kato; /* ms */
        uint64_t cap;  /* 0: not read yet */
        struct id_ctrl id;
        bool identified, enabled, discovery;
        struct live_queue *admin; /* NULL: closed */
        struct host_cmd keep;
        bool keep_busy;
        uint64_t spoken; /* loop_now_ns() of the last command on the admin queue */
        struct live_assoc *next;
};

struct live_queue {
        struct host_queue q;
        struct plan_queue *plan;
        struct live_assoc *assoc;
        bool refused; /* its Connect, unlike the captured one */
        bool authenticated;
        unsigned answers; /* live */
        unsigned last;    /* the latest, by that count, that was judged */
        struct live_cmd *cmds;
        struct live_queue *next;
};

struct live_cmd {
        struct host_cmd cmd;
        struct plan_cmd *plan; /* NULL: of our own */
        struct live_queue *queue;
        bool over, unknown;
        unsigned nth; /* answer of its queue */
        uint64_t deadline;
        struct live_cmd *next; /* on the queue */
};

/* Which blocks of a namespace hold what the capture says. */
struct contents {
        uint32_t nsid;
        struct marks known;
        bool lost; /* none is known any more */
        struct contents *next;
};

struct replay {
        const struct replay_plan *plan;
        const struct replay_options *o;
        replay_fn *fn;
        void *user;
        struct replay_totals *totals;
        struct host_error error;
        struct live_assoc *assocs;
        struct live_queue *queues;
        struct contents *contents;
        struct pollfd *fds;
        uint64_t started; /* loop_now_ns() of the first step */
};

/* Serves all queues once, after waiting up to ms for something to come. */
void live_pump(struct replay *r, int ms);
/* Opens the queue of a captured Connect. -1: r->error. */
int live_open(struct replay *r, struct plan_queue *q, const union sqe *connect);
/* Without Disconnect; commands without response are given up. */
void live_close(struct replay *r, struct live_queue *lq);
/* The live association that stands for a captured one; of a number that is not known, the newest one
 * with I/O queues. NULL: none. */
struct live_assoc *live_assoc_of(struct replay *r, unsigned number);

/* NULL: it could not be sent (the queue is broken, or full for too long). data is taken over. */
struct live_cmd *live_submit(struct replay *r, struct live_queue *lq, const union sqe *sqe,
                             void *data, uint32_t len, struct plan_cmd *plan);
/* Waits until it is over; false: it is not in time, or its queue broke. */
bool live_wait(struct replay *r, struct live_cmd *c);
/* Off its queue, and freed; it is over, or the queue closed. */
void live_drop(struct live_cmd *c);
/* After a Connect with these data, answered by dw0: authentication, if that asks for it. -1:
 * r->error. */
int live_authenticate(struct replay *r, struct live_queue *lq, const struct connect_data *data,
                      uint32_t dw0);
/* Enables the controller, where the capture lacks what did it. */
void live_enable(struct replay *r, struct live_queue *lq);
/* CSTS follows what was written to CC. -1: it does not, in time. */
int live_settle(struct replay *r, struct live_queue *lq, uint32_t cc);
/* CAP of its controller; 0: it can't be read. */
uint64_t live_cap(struct replay *r, struct live_queue *lq);

/* What commands do to the contents of namespaces: before one is sent, and when it has succeeded. */
bool contents_known(struct replay *r, const union sqe *sqe);
void contents_sent(struct replay *r, const union sqe *sqe, const void *data, uint32_t len);
void contents_done(struct replay *r, const union sqe *sqe);
/* Something that changed them may be missing. */
void contents_lost(struct replay *r);
void contents_free(struct replay *r);

#endif
