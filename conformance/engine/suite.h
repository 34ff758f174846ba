/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is behind the words of case.h: the target under test, a running case, and how it ends.
 */
#ifndef NVMF_CONFORMANCE_SUITE_H
#define NVMF_CONFORMANCE_SUITE_H

#include <setjmp.h>
#include <stdio.h>

#include "conformance/words/conn.h"
#include "pdu/nvme/wire/auth.h"
#include "pdu/verbs/verbs.h"
#include "result.h"

/* Who makes the target change. */
struct changer {
        /* 0; CHANGE_NOT: that can't be changed; else `error` says what went wrong. NULL: nobody can. */
        int (*make)(void *user, enum change what, char *error, size_t size);
        void *user;
};
enum { CHANGE_NOT = 77 };

/* The host under test, where that is what is tested. */
struct hosted {
        const char *hook; /* the shell's command that makes it connect; NULL: the reference host */
        struct rule_policy policy; /* of the reference host */
        bool fails;                /* with a sound target, too, from the beginning on */
};
enum { HOOK_MAX = 3000 };

struct suite { /* the target under test, and how it is tested; the same for all cases of a run */
        uint8_t trtype;                  /* TRTYPE_TCP, TRTYPE_RDMA */
        struct verbs_provider *verbs;    /* RDMA: what carries it */
        struct verbs_provider *recorder; /* --pcap: the same, recorded; or NULL */
        const char *traddr, *trsvcid, *subnqn;
        const char *hostnqn; /* NULL: one for each case */
        const uint8_t *hostid;
        struct auth_key dhchap, dhchap_ctrl; /* ours and the subsystem's; len 0: none */
        bool hdgst, ddgst;
        uint8_t hpda;
        double timeout_scale;
        bool strict;
        uint32_t seed;
        bool may_write;
        uint32_t write_nsid;               /* 0: the first namespace that can be used */
        uint64_t write_slba, write_blocks; /* 0 blocks: all of it */
        struct changer changer;
        const struct hosted *hosted;   /* NULL: a target is tested */
        FILE *narrate;                 /* --verbose, or NULL */
        const char *transcripts;       /* a folder, or NULL */
        struct capture_writer *record; /* --pcap, or NULL */
        struct caps caps;
};

enum { REPLY_MS = 3000, CASE_MS = 30000, SLOT_BYTES = 256 << 10 };

struct command { /* that was sent on a queue */
        struct command *next;
        uint16_t cid;
        union sqe sqe;
        enum nvme_xfer xfer;
        const uint8_t *data; /* host's */
        uint32_t bytes;      /* of the transfer */
        bool whole;          /* a success has to deliver all of it (TCP_C2H_COMPLETE) */
        uint8_t *in;         /* controller's data */
        uint32_t got;
        bool by_hand;          /* RDMA: its SGL is the case's own */
        struct region *region; /* RDMA: the memory that it describes by key, or NULL */
        bool done;
};

struct memory { /* freed when the case ends */
        struct memory *next;
        uint64_t align[];
};

struct t {
        const struct suite *suite;
        const struct test_case *test;
        struct result *result;
        jmp_buf out;
        struct queue *queues;
        struct rdma_group *rdma; /* RDMA: what all its connections share; made with the first one */
        unsigned connections;
        enum rule_id rule; /* that expectations are about */
        bool setting_up;   /* inside a word that makes a connection */
        bool negative;     /* did something that could hurt the target */
        bool busy;         /* the target had no controller, or no resources, for a connection */
        bool breach;       /* a rule that the case names was broken: see result->rule, seen */
        uint64_t deadline; /* of the whole case: conn_clock() */
        char hostnqn[NQN_FIELD];
        uint8_t hostid[16];
        uint64_t slba, blocks; /* the range that it may write */
        struct exchange log;
        char capture[256]; /* of a play: its path; removed when the case ends; "" if none */
        struct memory *memory;
        uint8_t *pattern;
        uint32_t pattern_len;
        uint16_t next_qid;
};

/* A context for `test`, with the unique number n; result gets its verdict. */
void t_start(struct t *t, const struct suite *s, const struct test_case *test,
             struct result *result, uint32_t n);
/* Closes what is open and frees; after it only the result is left. */
void t_end(struct t *t);
/* Runs body(t) to its verdict. */
void t_run(struct t *t, void (*body)(struct t *t));
/* The last words of the exchange, for the report. */
void t_keep_exchange(struct t *t);
/* All of that: start, the test's own body, end. */
void t_once(const struct suite *s, const struct test_case *test, struct result *result, uint32_t n);
void *t_alloc(struct t *t, size_t n); /* zeroed, until the case ends */

/* Ends the case as an ERROR: it says nothing about the target. */
void broke(struct t *t, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* ms of this run for what takes ms normally. */
uint64_t t_deadline(const struct t *t, unsigned ms);
bool t_names(const struct t *t, enum rule_id rule);
/* The target broke `rule`, in the PDU h (may be NULL) or in a way that `what` says. */
void t_notice(struct t *t, enum rule_id rule, const struct message *m, const char *what);
/* Ends the case if a rule that it names was broken. */
void t_settle(struct t *t);

#endif
