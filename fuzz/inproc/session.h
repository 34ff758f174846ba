/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sequence played to our own machines, in memory: a host's to the controller's machine with a small
 * owner behind it, a controller's to the host's machine with commands to send. What comes back is
 * read with care (over TCP a framer that finds no fault, no word after a TermReq; over RDMA keys,
 * ranges and the life of the queue pair), and at the end every command, receive, buffer and
 * allocation has come back. Of a sequence with several connections it
 * plays the first one.
 */
#ifndef NVMF_FUZZ_SESSION_H
#define NVMF_FUZZ_SESSION_H

#include "fuzz/nvme/templates.h"
#include "pdu/nvme/wire/message.h"

/* Bits of sequence.config; what they are over RDMA stands after the semicolon, if it is another. */
enum session_config {
        SESSION_DEFERS = 1 << 0, /* commands stay with the owner until a delay */
        SESSION_HUNGRY = 1 << 1, /* one data buffer at a time; host: a queue of two commands */
        SESSION_SUCCESS = 1 << 2,
        SESSION_NO_ICD = 1 << 3, /* no in-capsule data on I/O queues */
        SESSION_SHORT = 1 << 4,  /* R2Ts and C2HData of 1024 bytes; a send queue of four */
        SESSION_WINDOW = 1 << 5, /* four R2Ts at a time; READs */
        SESSION_BUDGET = 1 << 6, /* one capsule at a time; completions wait for a delay */
        SESSION_WAIVED = 1 << 7, /* the peer's rules are not checked */
        SESSION_DIGESTS =
            1 << 8, /* host: asks for them. Controller: grants none; SENDs go inline */
        SESSION_REQUIRES =
            1 << 9,      /* host: digests; no memory is registered. Controller: no READs */
        SESSION_PDA = 5, /* dwords of CPDA or HPDA: bits 12 to 16; ICDOFF (2), MSDBD (3) */
        SESSION_PDA_SHIFT = 12,
        SESSION_IO = 1 << 17, /* host: an I/O queue's commands */
};

enum { SESSION_DECLARED, SESSION_WHOLE, SESSION_BYTES }; /* how the stream is cut */

struct session_report {
        unsigned steps, pdus; /* said, heard */
        uint64_t heard;       /* bytes */
        uint32_t digest;      /* of all that was heard, but for the copy in a TermReq */
        struct fault fault;   /* that the machine found */
        bool terminated;      /* by a TermReq of its own */
        const char *end;      /* the state of its link in a word */
        /* Each message that goes either way; may be NULL. */
        void (*message)(void *user, enum party sender, const struct message *m);
        void *user;
};

/* Plays it from its first step to its end. cuts: as the steps declare, not at all, or after every
 * byte of what is not long data. *r: message and user are the caller's, all else is set. */
void session_play(const struct sequence *s, int cuts, struct session_report *r);

/* An input of a fuzz target: a text, which is played if it is a sequence of that transport and side.
 * Some are played again, over TCP with the stream cut elsewhere: the same has to come of it. */
void session_fuzz(enum seq_transport transport, enum party side, const uint8_t *input, size_t size);

#endif
