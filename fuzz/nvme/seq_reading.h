/* SPDX-License-Identifier: BSD-3-Clause */
/* Between the readers of captures, one for each transport (seq_capture.h). Private to them. */
#ifndef NVMF_FUZZ_SEQ_READING_H
#define NVMF_FUZZ_SEQ_READING_H

#include "fuzz/campaign/corpus.h"
#include "seq_fit.h"

enum { READING_NQN = 224, READING_PAUSE_MS = 2 };

struct speaker { /* the host of a connection */
        unsigned on;
        struct seq_bind bind;
        bool answered; /* the controller has said something since */
        char hostnqn[READING_NQN], subnqn[READING_NQN];
};

struct reading {
        struct corpus *corpus;
        struct sequence s; /* so far */
        struct fit fit;
        bool no_memory;
};

/* Of connection `on`; admin: whose controller it joins, or NULL. */
void speaker_init(struct speaker *k, unsigned on, const struct speaker *admin);
/* Who connects to whom is the player's to say, not the capture's: the names of its first Connect
 * are what its host says by itself. */
void speaker_learn(struct speaker *k, const uint8_t *data, size_t n);

/* The sequence is over, and is kept if it says anything. */
void reading_end(struct reading *r);
/* The step that gives fit.want; into fit.best. False: there is none. */
bool reading_find(struct reading *r, const struct fit_ops *ops, const struct speaker *k);
/* False: there is no room. */
bool reading_add(struct reading *r, const struct speaker *k, const struct sequence *from,
                 const struct seq_step *step);
/* Bytes, or the end of the connection (SEQ_CLOSE, n is 0): neither waits for answers by itself, so a
 * delay stands for the one that came before. */
void reading_add_late(struct reading *r, struct speaker *k, enum seq_kind kind, const uint8_t *p,
                      size_t n);

/* Adds what went over a transport. False: err has one line. */
bool capture_read_tcp(struct reading *r, const char *path, char err[CORPUS_ERROR]);
bool capture_read_rdma(struct reading *r, const char *path, char err[CORPUS_ERROR]);

#endif
