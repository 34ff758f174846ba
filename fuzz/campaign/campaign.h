/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `nvmfspec fuzz remote`: sessions that are mutants of those that showed something new, several at
 * a time, to one target, for as long as it is to be; what is found is made small, saved and told.
 * Which run plays which sequence depends on the seed and on what earlier runs were answered, not on
 * which of them was done first.
 */
#ifndef NVMF_FUZZ_CAMPAIGN_H
#define NVMF_FUZZ_CAMPAIGN_H

#include "corpus.h"
#include "fuzz/remote/remote.h"
#include "oracle.h"

enum {
        CAMPAIGN_JOBS = 64,   /* at most */
        CAMPAIGN_PAST = 8192, /* sessions between two looks at the target, at most */
        CAMPAIGN_AHEAD = 16,  /* runs of a job that may begin before an older one is judged */
};

struct campaign_config {
        struct remote_target target;
        uint64_t seed, runs; /* runs 0: no bound */
        uint64_t time;       /* ms; 0: no bound */
        uint64_t findings;   /* after so many it ends; 0: no bound */
        uint64_t look;       /* ms between two looks at the target and questions to the oracle */
        uint64_t late;       /* ms after a session that the oracle may still complain of it */
        uint64_t jobs;
        uint64_t minimise;    /* ms for one finding */
        const char *oracle;   /* command, or NULL */
        const char *restart;  /* command that starts the target again, or NULL */
        bool fresh;           /* it does so after each trial */
        const char *out;      /* folder for findings and what is new, or NULL */
        struct corpus corpus; /* to begin with; may be empty */
};

enum campaign_exit { CAMPAIGN_CLEAN, CAMPAIGN_FOUND, CAMPAIGN_USAGE, CAMPAIGN_NOBODY };

/* enum campaign_exit, when time or runs are over, at SIGINT or SIGTERM, or when the target is lost
 * for good. Writes to stdout and, of what went wrong, to stderr. */
int campaign_run(const struct campaign_config *config);

/* What a target did wrong. */
enum trouble_kind {
        TROUBLE_NONE,
        TROUBLE_LOST,   /* it does not answer a probe as it should */
        TROUBLE_HANG,   /* a connection stays open though we closed it */
        TROUBLE_RULE,   /* it broke a rule */
        TROUBLE_ORACLE, /* the command says so */
};
const char *trouble_name(enum trouble_kind k); /* "lost", "hang", "rule", "oracle" */

struct trouble {
        enum trouble_kind kind;
        unsigned rule;
        char says[ORACLE_LINE]; /* more about it */
};

/* Asks the oracle, if there is one, for `late` ms until it complains; says: its first line, may be empty. */
bool oracle_complains(const struct campaign_config *config, uint64_t late, char says[ORACLE_LINE]);

/* --- a target and who plays to it, one at a time ------------------------------------------------ */

struct player {
        const struct campaign_config *config;
        struct loop *loop;
        struct remote_session *session;
        bool over;
        uint64_t run; /* what it plays; the campaign's */
};

/* -1 with errno. */
int player_init(struct player *p, const struct campaign_config *config, struct loop *loop);
void player_fini(struct player *p);
/* Begins: p->over is true when p->session->answer is there. The sequence stays where it is. */
void player_start(struct player *p, const struct sequence *s);
/* The same, and waits for it. */
void player_play(struct player *p, const struct sequence *s);
/* What is wrong now: asks the target itself (probe), the oracle, for `late` ms until it complains, and the
 * answer to what was played. */
struct trouble player_ask(struct player *p, bool probe, uint64_t late);
/* The one, then the other. */
struct trouble player_try(struct player *p, const struct sequence *s, bool probe);
/* What an answer alone shows. */
struct trouble player_judge(const struct player *p, const struct remote_answer *a);

#endif
