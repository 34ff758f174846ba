/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A session as one side plays it: PDUs by template, with fields changed, bytes as they are, cuts,
 * waits and the end of the connection. What only the live session knows (CID, TTAG, CNTLID, offsets,
 * lengths, digests) is bound when a step is sent, by seq_bind.h. It is what the session targets run,
 * what a corpus keeps and what a reproducer is; the mutators of seq_mutate.h work on it.
 *
 * As text, a step a line; '#' begins a comment:
 *
 *      sequence host config=0x5 scarce=0
 *      icreq dgst=3
 *      connect qid=0 sqsize=31 poke=256:6e716e
 *      write cdw12=7 data=4096 cut=8,72
 *      h2c ttag^=0x8000 datal+=4 violate=tcp/h2cdata/last hdgst^=1
 *      raw 0400480048000000
 *      delay 20
 *      close
 *
 * A host may play on several connections: 'sequence host queues=3' has three of them, and 'on=1'
 * after a step says that it is the second one's. Each begins with its first step; on=0 is the admin
 * queue's, and what Connect says by itself on another one joins its controller, with QID 1, 2 ...
 *
 * The first line says who plays. A field is called as pdu_fields() calls it (sqe. and cqe. may be
 * left out), and set (=), added to (+=) or flipped (^=) after the PDU was laid out: digests are of
 * what is sent, lengths are not mended. To have lengths that fit, say how much data there is
 * (data=N, data=hex:...).
 *
 * Over RDMA a step is what a queue pair or connection management carries: the same commands and
 * responses, as capsules; READ and WRITE of the controller's; private data. There are no cuts and no
 * digests, but there is a device to fail:
 *
 *      sequence host rdma
 *      request qid=1 hsqsize=31 reads_in=4
 *      connect qid=1
 *      write data=4096 keys=3 sgl.id=0x4f
 *      write_icd data=512
 *      raw 0100
 *      fail remote_access_error of=2
 *      remove
 *
 * keys=N: data described by so many keyed descriptors, 0: in the capsule. A controller answers with
 * "resp invalidate=1 key^=1", reads and writes with "read addr+=4 len=512". close is a DREQ, reset
 * the queue pair's failing without a word.
 *
 * "reload 2": whoever runs the target gives it another configuration, in the middle of everything;
 * which ones there are is the player's to know, 0 is the first one.
 */
#ifndef NVMF_FUZZ_SEQUENCE_H
#define NVMF_FUZZ_SEQUENCE_H

#include "fuzz_family.h"
#include "pdu/verbs/verbs.h"

enum {
        SEQ_STEPS = 48,
        SEQ_CHANGES = 6,
        SEQ_CUTS = 4,
        SEQ_POOL = 4096,      /* bytes that stand in the text as such, all steps together */
        SEQ_DATA_MAX = 20480, /* of one PDU */
        SEQ_TEXT = 32768,     /* of any sequence, with NUL */
        SEQ_DELAY_MAX = 600000,
        SEQ_QUEUES = 4,   /* connections at most */
        SEQ_RELOADS = 16, /* configurations */
};

enum seq_kind {
        SEQ_PDU, /* by a template; over RDMA what stands for a PDU */
        SEQ_RAW, /* over RDMA a SEND */
        SEQ_DELAY,
        SEQ_CLOSE,
        SEQ_RESET,
        SEQ_FAIL,   /* RDMA: a completion of the other side has this status */
        SEQ_REMOVE, /* RDMA: the device of the other side goes away */
        SEQ_RELOAD, /* the other side gets its configuration `of`; 0: the one that it began with */
};
enum seq_op { SEQ_SET, SEQ_ADD, SEQ_FLIP };

struct seq_change {
        const struct field *field; /* one of seq_fields() */
        enum seq_op op;
        uint64_t value;
};

struct seq_bytes { /* in the pool */
        uint16_t at, len;
};

struct seq_step {
        enum seq_kind kind;
        const struct seq_template *template; /* SEQ_PDU */
        struct seq_change change[SEQ_CHANGES];
        uint8_t changes, cuts;
        uint8_t of;      /* which of the commands or R2Ts that wait: 0 is the oldest (Abort's:
                          * the youngest); SEQ_FAIL: which completion from here on: 0 is the next;
                          * SEQ_RELOAD: the configuration */
        uint8_t keys;    /* RDMA: 1 + keyed descriptors; 0: as the template does */
        uint8_t on;      /* which connection; below sequence.queues; of a delay or reload: 0 */
        bool has_data;   /* as data_len and bytes say, else as the template does */
        bool is_literal; /* `bytes` are the data, else data_len bytes of a pattern */
        bool stale;      /* HDGST is of the header before the changes */
        uint16_t cut[SEQ_CUTS]; /* the wire is cut after so many bytes of it; ascending */
        uint16_t data_len;
        uint16_t poke_at;             /* bytes of the data that are replaced by `poke` */
        struct seq_bytes bytes, poke; /* SEQ_RAW: bytes are what is sent */
        unsigned violates;            /* by its violator; RULE_NONE: none */
        uint32_t hdgst_xor, ddgst_xor;
        uint32_t ms;              /* SEQ_DELAY */
        enum verbs_status status; /* SEQ_FAIL */
};

struct sequence {
        const struct fuzz_family *family;
        unsigned transport; /* of family->transports */
        enum party side;    /* who plays it */
        unsigned violates;  /* by the other side; RULE_NONE: none */
        uint32_t config;    /* how the other side is set up; what its bits mean is its business */
        uint32_t scarce;    /* the allocation of it that fails; 0: none */
        uint8_t queues;     /* connections; 0 is 1, too */
        unsigned steps;
        struct seq_step step[SEQ_STEPS];
        uint16_t pooled;
        uint8_t pool[SEQ_POOL];
};

/* Reads a text of n bytes. False: err has one line, "line 3: no field 'ttga' in H2CData". */
bool seq_parse(struct sequence *s, const char *text, size_t n, char *err, size_t err_size);
/* The same of steps alone, as a sequence of the family, transport and side of another one. */
bool seq_parse_steps(struct sequence *s, const struct sequence *like, const char *text, char *err,
                     size_t err_size);
/* Writes it, NUL-terminated; the length. What was parsed prints to a text that parses to the same.
 * cap: SEQ_TEXT is always enough. */
size_t seq_print(const struct sequence *s, char *text, size_t cap);

/* The templates of a side; *n of them. */
const struct seq_template *const *seq_templates(const struct fuzz_family *f, unsigned transport,
                                                enum party side, size_t *n);
/* NULL: none */
const struct seq_template *seq_template(const struct fuzz_family *f, unsigned transport,
                                        enum party side, const char *name);
/* The fields that a step of this template may change, ended by NULL. */
const struct field *const *seq_fields(const struct fuzz_family *f, unsigned transport,
                                      const struct seq_template *t);
/* NULL: none. */
const struct field *seq_field(const struct fuzz_family *f, unsigned transport,
                              const struct seq_template *t, const char *name);
/* RULE_NONE: none. As rulebook_by_name(), faster. */
unsigned seq_rule(const struct fuzz_family *f, const char *id);
static inline const struct rule *seq_rule_get(const struct fuzz_family *f, unsigned rule)
{
        return rulebook_get(f->family->rules, rule);
}
static inline const struct fuzz_transport *seq_transport(const struct sequence *s)
{
        return &s->family->transports[s->transport];
}
enum { SEQ_STATUS_NAME = 40 };
/* As it stands in a text: "remote_access_error". VERBS_STATUSES: none. */
enum verbs_status seq_status(const char *name);
void seq_status_name(enum verbs_status status, char name[SEQ_STATUS_NAME]);

/* It is of no connection. */
static inline bool seq_is_for_all(const struct seq_step *step)
{
        return step->kind == SEQ_DELAY || step->kind == SEQ_RELOAD;
}

/* A step of this template with nothing changed. */
struct seq_step seq_step_of(const struct seq_template *t);
/* Its changes, to a message that has the fields of its template. */
void seq_apply(const struct seq_step *step, void *message);
/* Room for n bytes in the pool; false if there is none. */
bool seq_pool(struct sequence *s, const void *p, size_t n, struct seq_bytes *out);
/* Inserts a step at `at`, with its bytes, that lie in `from`; of a connection that this sequence does
 * not have it becomes the first one's. False if there is no room. */
bool seq_insert(struct sequence *s, unsigned at, const struct sequence *from,
                const struct seq_step *step);
void seq_remove(struct sequence *s, unsigned at); /* its bytes stay in the pool */

#endif
