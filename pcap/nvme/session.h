/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A trace with memory: each event laid beside the command it belongs to, the queue and the
 * association it is of, and the rules it breaks. What show, check, stat, extract and replay read.
 *
 * Judging is passive and never guesses: after a gap, or in a capture that begins in the middle, what
 * concerns commands that were not seen is not judged. Over RoCEv2 a finding may be the fault of a
 * frame of the other side that the capture lost; it is `unproven` until that side is known to have
 * lost none (trace_proven()).
 */
#ifndef NVMF_PCAP_SESSION_H
#define NVMF_PCAP_SESSION_H

#include "family.h"
#include "pdu/nvme/wire/fabrics.h"
#include "pdu/nvme/wire/rdma.h"

/* The queues of one controller, as one host uses them. */
struct association {
        unsigned number; /* from 1, in the order of the admin Connects */
        struct connect_data connect;
        bool named; /* `connect` was seen whole */
        uint16_t cntlid;
        bool discovery;      /* SUBNQN is the discovery NQN, or Identify said so */
        bool io;             /* Identify said so, or it has I/O queues; neither: it is not known */
        uint32_t in_capsule; /* bytes of in-capsule data of I/O commands, if identified */
        uint16_t icdoff;
        uint8_t msdbd;
        bool long_sgls;        /* SGLS: those longer than the data are supported (LLDTS) */
        bool identified;       /* the four above are known */
        bool holed;            /* one of its queues that are gone had gaps: it may have gone on */
        struct past *past;     /* the judge's; NULL where nothing is judged */
        struct session *first; /* its queues, by session.sibling */
        struct association *next;
};

/* A command from its capsule to its response. Times: frame 0 means that there was none. */
struct session_cmd {
        uint16_t cid;
        union sqe sqe;
        struct capture_place at;         /* its capsule was whole */
        struct capture_place asked;      /* the controller first asked for its data: R2T, READ */
        struct capture_place data_first; /* data, in whichever direction */
        struct capture_place data_last;
        uint64_t h2c, c2h;     /* bytes of data seen, in-capsule data included */
        unsigned asks;         /* R2Ts, READs */
        struct rdma_data rdma; /* where its data is; RDMA only */
        uint8_t *data;      /* kept as session_options say, at most SESSION_DATA_MAX; the holes */
        uint32_t data_len;  /* of it are zeroes */
        bool data_cut;      /* some of it is missing, or not kept: known when the command ends */
        bool data_dropped;  /* none of it is kept, nor will be */
        uint64_t mark;      /* the judge's, from its beginning to its end; */
        bool expired;       /* so is this, */
        int64_t aborted_ns; /* ... this: when the host was told so; 0: it was not, */
        uint16_t second;    /* the CID of its Write, if it is a fused Compare; */
        bool has_second, voided; /* it has one; ... its Compare has failed; */
        unsigned wrong;          /* and a rule that it breaks, for which a status is printed */
        struct session_cmd *next, *older, *newer;
        uint64_t serial; /* of the queue's commands */
        void *user;
};
enum { SESSION_DATA_MAX = 32 << 20 };

/* One queue: what is known of a connection. */
struct session {
        struct trace_conn *conn;
        struct association *assoc; /* NULL: not known */
        struct session *sibling;   /* the next one of it */
        uint64_t commands;         /* so far */
        bool doubled;              /* another one has its number now, and it has not spoken since */
        bool disconnected;         /* a Disconnect of it has succeeded */
        int qid;                   /* -1: not known */
        bool asked;                /* Connect has asked for authentication */
        bool gapped;               /* something of it is missing */
        struct capture_place opened;
        unsigned broken; /* findings of level must so far */
        struct session_private *private;
        void *user; /* the consumer's, for this connection; NULL at first */
};

struct record {
        const struct trace_event *e;
        struct session *session;
        struct session_cmd *cmd; /* the command it is about; NULL: none, or not known */
        const union sqe *sqe;    /* the event is this command capsule */
        const struct cqe *cqe;   /* the event is this completion */
        uint64_t offset; /* TRACE_READ.., WRITE..: where the transfer lies in the command's data */
        bool ends;       /* with it the command is over: completion, or SUCCESS */
        struct rule_set broken;  /* by e->sender or, where it did not act, by who is bound */
        const char *why;         /* which requirements, with their fields; NULL: the rules say it */
        bool is_broken, is_must; /* something is; something of level must */
        bool unproven;           /* the findings need proof: trace_proven() */
};

struct session_options {
        bool judge;
        bool shows_tls; /* the capture has a ClientHello before whatever is inside TLS */
        bool keep_data; /* of all commands; else of Connect and of admin commands only */
        const struct rule_set *waived; /* rules that are not checked; may be NULL */
        /* r->cmd is over without an answer: its connection is, its CID was used again, or both sides have
         * gaps since, so that it may have been. Called after the record of r->e. May be NULL. */
        void (*lost)(void *user, const struct record *r);
        /* session_read(): a connection of a family that is read beside, of which nothing more is told. May be NULL. */
        void (*other)(void *user, const struct trace_conn *c);
};

typedef void record_fn(void *user, const struct record *r);

/* As trace_read(). TRACE_HEADER and the pieces of data come as records, too. */
int session_read(const char *path, const struct trace_options *trace,
                 const struct session_options *options, record_fn *fn, void *user,
                 struct trace_totals *totals, char *err, size_t err_size);

/* Whether the opcodes of the session's commands are those of an admin queue. For a queue whose
 * Connect was not seen that is a guess from the command. */
bool session_admin(const struct session *s, const union sqe *sqe);

/* The command that is outstanding under this CID; NULL: none. */
struct session_cmd *session_find(const struct session *s, uint16_t cid);

/* The same from events that come from elsewhere: NULL: out of memory; false: memory ran out on the way.
 * What options point to outlives it. */
struct reader *reader_new(const struct session_options *options, record_fn *fn, void *user);
void reader_event(struct reader *r, const struct trace_event *e);
bool reader_free(struct reader *r);

#endif
