/* SPDX-License-Identifier: BSD-3-Clause */
/* The lines of a trace of commands, as `nvmfspec target --trace-file` writes them (doc/target.md). */
#ifndef NVMF_PCAP_TRACE_LINE_H
#define NVMF_PCAP_TRACE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
        TRACE_LINE_MAX = 16384, /* bytes of a line, with its end */
        TRACE_LINE_STATES = 64, /* of a command */
        TRACE_LINE_WORD = 64,   /* bytes of a name of an opcode, a status, a state */
        TRACE_LINE_NAME = 256,
};

enum trace_line_kind { TRACE_LINE_HEAD, TRACE_LINE_COMMAND, TRACE_LINE_LEFT_OUT };

/* Texts have nothing but printable ASCII: other bytes are '?'. */
struct trace_line {
        enum trace_line_kind kind;
        uint64_t part;     /* HEAD: files of a ring that there were before this one */
        uint64_t left_out; /* LEFT_OUT: commands */

        int64_t time_ns; /* COMMAND, all that follows: when it came, since 1970 */
        uint64_t conn, cntlid, qid, cid, nsid, slba, nlb, bytes;
        bool has_nsid, has_blocks, h2c;
        bool ended;    /* it was over before its connection */
        bool answered; /* status is what the host got */
        uint16_t status;
        char transport[8], hostnqn[TRACE_LINE_NAME], subnqn[TRACE_LINE_NAME];
        char opcode[TRACE_LINE_WORD], status_text[TRACE_LINE_WORD];
        unsigned states; /* at least one */
        struct {
                char name[TRACE_LINE_WORD];
                uint64_t at; /* ns since it came, not before that of the one before */
        } state[TRACE_LINE_STATES];
};

/* Whether this is the beginning of a file of such lines. */
bool trace_line_begins(const char *text);
/* The next line without its end, in text. 1; 0: there are no more; -1: it is cut, too long, or cannot be read: error
 * says which. */
int trace_line_next(FILE *f, char text[TRACE_LINE_MAX], char *error, size_t size);
/* False: error says what is wrong with it. Members that are not known are ignored. */
bool trace_line_read(struct trace_line *l, const char *text, char *error, size_t size);

#endif
