/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a session is played, over any transport: steps go out as far as they go without an answer, a
 * connection begins with its first step, delays and answers are waited for. After the last step, when
 * no more answers are due, our ends are closed: the target's own then says that it has seen everything.
 * What only a transport knows is its struct remote_transport. Private to the transports.
 */
#ifndef NVMF_FUZZ_SCHEDULE_H
#define NVMF_FUZZ_SCHEDULE_H

#include "remote.h"

enum remote_state { CONN_ABSENT, CONN_OPENING, CONN_LIVE, CONN_OVER };

struct remote_conn { /* a transport's begins with one */
        struct remote_session *session;
        unsigned on; /* which connection of it */
        enum remote_state state;
        bool broken;       /* it takes no more; why is yet to come */
        bool term;         /* the target has said that it ends it: nothing more is sent */
        bool wild;         /* the host broke a rule that ends connections: judged no more */
        bool joining;      /* Connect went out, its response did not come */
        bool overdue;      /* what the host waited for did not come within `hang` */
        unsigned aers;     /* outstanding */
        uint64_t leaves;   /* ms: when the host asked for an orderly end; 0: it did not */
        unsigned question; /* that asks whether it has come: 1 + its number; 0: none */
        uint64_t spoke;    /* ms: when something was sent last */
        uint64_t silence;  /* ms without a word of the host on any connection, before that */
        unsigned kato;     /* ms: within which the host is to be heard of; 0: whenever it likes */
        unsigned kato_asked, asks_kato; /* another one, and who asks for it: 1 + its number */
        uint64_t
            unproven; /* ms: when the host came, as long as it has not proven itself; 0: it has */
        uint64_t revoked; /* ms: when a configuration took what let it in; 0: none has */
        unsigned posthumous,
            neglected; /* asked when it should have been over, or, if that succeeds,
                                         * when silence should have ended it: 1 + its number */
};

enum remote_mode { REMOTE_RUNNING, REMOTE_DELAYED, REMOTE_SETTLING, REMOTE_ENDING };

struct remote_transport { /* NULL: there is nothing to do */
        /* A session, its conn[] set; NULL with errno. */
        struct remote_session *(*new)(void);
        void (*free)(struct remote_session *s);
        /* Before the first step. False: answer.why says why nobody can connect. */
        bool (*begin)(struct remote_session *s);
        /* After the last one, or to give up: what is left of connections is put away. */
        void (*end)(struct remote_session *s);
        /* Begins to connect, with this step to come: conn_opening(), conn_live() or conn_refuse().
         * False: it is not to be. */
        bool (*open)(struct remote_conn *c, const struct seq_step *step);
        /* Its time is over. True: it tries once more. */
        bool (*retry)(struct remote_conn *c);
        /* Whether a live connection can send the step now; with s->impatient: without an answer. */
        bool (*can_send)(const struct remote_conn *c, const struct seq_step *step);
        /* False: it is not to be sent. */
        bool (*send)(struct remote_conn *c, const struct seq_step *step);
        /* What was gathered goes out. False: not all of it yet. */
        bool (*flush)(struct remote_session *s);
        /* Whether something that was sent has not gone out for long. */
        bool (*is_stuck)(const struct remote_conn *c);
        /* Whether answers are due to what was sent; not of commands that wait for us. */
        bool (*expects)(const struct remote_conn *c);
        /* We say no more, and go on listening. */
        void (*half_close)(struct remote_conn *c);
        /* Of one that is opening or live. */
        void (*close)(struct remote_conn *c, bool reset);
        /* Whether somebody else may close, in place of a target that is not there. */
        bool answered_for;
        /* A target's log is not all that goes over it: lets play() play to one that is recorded, into a
         * capture. False: err has one line. NULL: the log is saved. */
        bool (*record)(const struct remote_target *target, const char *path,
                       bool (*play)(void *user, const struct remote_target *recorded), void *user,
                       bool *played, char *err, size_t size);
        /* For those whose events may wake nobody: takes what there is. False: there may be more. */
        bool (*poll)(struct remote_session *s);
};

/* --- a transport tells ------------------------------------------------------------------------- */

/* Within so many ms it is connected, refused or tried once more. */
void conn_opening(struct remote_conn *c, unsigned ms);
/* It is connected: what it has to send may go. */
void conn_live(struct remote_conn *c);
__attribute__((format(printf, 2, 3))) void conn_refuse(struct remote_conn *c, const char *why, ...);
/* The target closed it, or answers our closing so. */
void conn_ended(struct remote_conn *c, bool reset);
/* A word of the target, as a number below 1 << 56. */
void conn_received_word(struct remote_conn *c, uint64_t word);
/* Something is about to be sent on it. */
void conn_speaks(struct remote_conn *c);
/* Something was sent, or begun: the target has time to answer. */
void remote_acted(struct remote_session *s);
/* After events, when all of them are told. It may be over then, and the next one begun. */
void remote_go(struct remote_session *s);
/* Whether rules that this one broke are the target's to answer for: they are added to the answer. */
void conn_broke(struct remote_conn *c, const struct rule_set *found);
/* Somebody listens to messages: here is one. */
void conn_message(const struct remote_conn *c, enum party sender, const void *message);

#endif
