/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One live NVMe/TCP session as the rulebook sees it: both directions framed and tracked, what the
 * next step needs bound, and what the controller says judged for as long as the host kept the rules
 * itself: afterwards the two sides may have different views of what is going on.
 */
#ifndef NVMF_FUZZ_DIALOGUE_H
#define NVMF_FUZZ_DIALOGUE_H

#include "pdu/nvme/tcp/framer.h"
#include "pdu/nvme/tcp/track.h"
#include "peer.h"
#include "seq_bind.h"

struct dialogue {
        struct remote_conn *conn;
        struct seq_bind bind;
        struct framer said, heard;
        uint8_t *room[2];
        struct track *track;
        bool deaf;  /* what comes cannot be framed any more */
        bool harms; /* what was just told is not to be sent: it changes data, or is avoided */
        bool asked; /* ICReq went out, ICResp did not come */
};

/* 0, or -1: out of memory. */
int dialogue_init(struct dialogue *d, struct remote_conn *c);
void dialogue_fini(struct dialogue *d);
/* A new session; admin: the dialogue of connection 0. -1: out of memory. */
int dialogue_begin(struct dialogue *d, const struct dialogue *admin);
/* The host is about to send these bytes. */
void dialogue_says(struct dialogue *d, const uint8_t *p, size_t n);
/* Where the next bytes of the controller go, and that so many came. */
int dialogue_room(struct dialogue *d, struct iovec iov[2]);
void dialogue_hears(struct dialogue *d, size_t n);
/* Whether this step needs a word of the controller that is on its way. */
bool dialogue_waits(const struct dialogue *d, const struct seq_step *step);
/* Whether answers are due to what was sent so far; not of commands that wait for us. */
bool dialogue_expects(const struct dialogue *d);

#endif
