/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The trace of commands: a file with a line of JSON for each command that has come since it was begun, written when the
 * command is over. What is in it says doc/target.md.
 */
#ifndef NVMF_TARGET_COMMAND_TRACE_H
#define NVMF_TARGET_COMMAND_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pdu/nvme/machine/request.h"
#include "pdu/nvme/wire/fabrics.h"
#include "target/engine/journal.h"

enum {
        TRACE_STATES = 24, /* of a command; of more the last one is kept */
        TRACE_FILES_MAX = 100000,
};
#define TRACE_SIZE_USUAL (UINT64_C(1) << 30) /* bytes of a file, unless another is asked for */

/* How long a command was where; when, ns since it came, it entered each state. */
struct trace_times {
        int64_t came;   /* ns since 1970 */
        uint64_t began; /* ns, loop_now_ns() */
        unsigned n;
        uint64_t at[TRACE_STATES];
        uint8_t state[TRACE_STATES]; /* enum request_state */
};

/* All of a command that goes into its line. */
struct trace_record {
        union sqe sqe;
        struct trace_times times;
        unsigned conn;
        uint32_t bytes;      /* that it transfers */
        enum nvme_xfer xfer; /* and which way */
        uint16_t qid, cntlid, status;
        bool rdma, ended, answered;
        char hostnqn[NQN_MAX + 1], subnqn[NQN_MAX + 1]; /* "": there is none yet */
};

/* As journal_open(), with a file as config.h has it. */
struct journal *command_trace_open(const char *file, uint64_t size, unsigned files, char *error,
                                   size_t error_size);

/* It comes: the first state. */
void trace_times_begin(struct trace_times *t, int64_t wall_ns, uint64_t now_ns);
/* It is in this one from here on. */
void trace_times_enter(struct trace_times *t, enum request_state s, uint64_t now_ns);
/* Bytes of data that have moved for a command that is over, or were about to; one that was refused has moved none. */
uint32_t trace_times_bytes(const struct trace_times *t, const struct request *r);
/* Its line is to be written. r is not kept. */
void command_trace_add(struct journal *j, const struct trace_record *r);
/* The line of what command_trace_add() hands on, without its end; its length, 0: it does not fit. */
size_t command_trace_line(const void *packed, size_t n, char *text, size_t size);

#endif
