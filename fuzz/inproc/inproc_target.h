/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference target in this process: a host's sequence is played to its real engine (inventory,
 * controllers, namespaces, machines), without sockets and threads, on the sequence's own clock. The
 * target is made once; each session begins with the same state, and when its connections are closed
 * everything it took has come back: connections, controllers, buffers, references, what quotas count.
 * After a reload nobody has stayed who may not, after a delay no deadline has been missed.
 *
 * "reload N": 1 without namespace 2, 2 with namespace 1 half as large, 3 with another key, 4 for other
 * hosts, 5 without the open subsystem, 6 on another port, 7 with another namespace 2.
 */
#ifndef NVMF_FUZZ_INPROC_TARGET_H
#define NVMF_FUZZ_INPROC_TARGET_H

#include "fuzz/sequence/sequence.h"

/* Bits of sequence.config, as they are for session.h where they have the same name. */
enum inproc_config {
        INPROC_SECRET = 1 << 0,   /* the subsystem whose hosts have to authenticate themselves */
        INPROC_HUNGRY = 1 << 1,   /* few data buffers */
        INPROC_STRANGER = 1 << 2, /* the host does not know its key */
        INPROC_LATE = 1 << 3,     /* authentication computes when a delay comes */
        INPROC_SHORT = 1 << 4,    /* R2Ts and C2HData of 1024 bytes */
        INPROC_WINDOW = 1 << 5,   /* four R2Ts at a time */
        INPROC_BUDGET = 1 << 6,   /* one capsule at a time */
        INPROC_DIGESTS = 1 << 8,  /* grants none */
        INPROC_PDA = 5,           /* dwords of CPDA: bits 12 to 16 */
        INPROC_PDA_SHIFT = 12,
};

struct inproc_report {
        unsigned steps, pdus; /* said, heard */
        uint32_t digest;      /* of all that was heard, but for the copy in a TermReq */
        /* What goes either way, as it goes; and a connection's end (p NULL). May be NULL. */
        void (*bytes)(void *user, unsigned on, enum party sender, const void *p, size_t n);
        void *user;
};

/* Plays it. A step on a connection that was closed by an earlier step begins it again; on one that the
 * target closed, nobody hears it. *r: bytes and user are the caller's, all else is set. */
void inproc_play(const struct sequence *s, struct inproc_report *r);

#endif
