/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A capture as what a host did: its commands with their data and the answers they got, and the order
 * of all that. What a replay reads; it holds all the data of the capture in memory.
 */
#ifndef NVMF_PCAP_REPLAY_PLAN_H
#define NVMF_PCAP_REPLAY_PLAN_H

#include "pcap/nvme/session.h"
#include "pcap/trace/spill.h"

struct plan_queue {
        unsigned number; /* the connection's */
        unsigned assoc;  /* number of its association; 0: not known */
        bool gapped;     /* something of it is missing */
        bool connects;   /* its Connect is in the capture */
        int qid;         /* -1: not known */
        unsigned answered;
        struct plan_cmd *open; /* commands without an answer so far */
        void *live;            /* the replay's */
        struct plan_queue *next;
};

struct plan_cmd {
        struct plan_queue *queue;
        bool admin;
        union sqe sqe;
        uint32_t len;   /* bytes of data that the command describes */
        struct cqe cqe; /* the answer, if there is one */
        bool answered;  /* frame and time: */
        unsigned nth;   /* the how manieth answer on its queue, from 1 */
        struct capture_place at, answer;
        uint8_t *data; /* as far as seen; NULL: none, or some of it was cut */
        uint32_t data_len;
        bool data_cut;
        void *live; /* the replay's */
        struct plan_cmd *next_open;
        struct plan_cmd *next; /* in the order of the capture */
};

enum plan_kind { PLAN_SUBMIT, PLAN_ANSWER, PLAN_GAP, PLAN_CLOSE };

struct plan_step {
        enum plan_kind kind;
        struct plan_cmd *cmd; /* SUBMIT, ANSWER */
        struct plan_queue *queue;
        int64_t time_ns;
        struct plan_step *next;
};

struct replay_plan {
        struct spill spill; /* queues, commands, steps and data */
        struct plan_step *steps, *last_step;
        struct plan_cmd *cmds, *last_cmd;
        struct plan_queue *queues;
        struct trace_totals totals;
        uint64_t stop_at; /* no frame after this; 0: all */
        bool rdma;        /* its queues went over RDMA */
        unsigned others;  /* connections that are not NVMe's, the first one of ... */
        const struct trace_family *other; /* ... this family */
        bool no_memory;
};

/* Reads `path` ("-": standard input) up to frame stop_at. -1 with one line in err. Either way
 * replay_plan_free() ends it. */
int replay_plan_read(struct replay_plan *p, const char *path, const struct trace_options *trace,
                     uint64_t stop_at, char *err, size_t err_size);
void replay_plan_free(struct replay_plan *p);

#endif
