/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `nvmfspec host SUBCOMMAND`, as far as it is the same for every family: finding the subcommand, its options, help and
 * exit code; verify and perf, whose options and results are here; and read and write of blocks from and to a file. The rest
 * is the family's.
 */
#ifndef NVMF_HOST_COMMAND_H
#define NVMF_HOST_COMMAND_H

#include <stdio.h>

#include "load.h"
#include "pdu/core/family.h"
#include "pdu/io/option.h"

enum host_group {                      /* of options: what a subcommand takes */
                  HOST_WHERE = 1 << 0, /* -t */
                  HOST_OUTPUT = 1 << 1,
                  HOST_LOAD = 1 << 2, /* verify and perf */
                  HOST_VERIFY = 1 << 3,
                  HOST_PERF = 1 << 4,
                  HOST_FILE = 1 << 5,
                  HOST_PATTERN = 1 << 6,
                  HOST_OWN = 1 << 7, /* this one and above: the family's own */
};

enum { HOST_NO_PATTERN = 256 };

struct host_args { /* what a family's arguments begin with */
        const char *transport, *output;
        bool verbose, help;

        uint64_t slba,
            blocks; /* the first one that is used, and how many; a family may have options for these */
        const char *file;                    /* NULL: none is named */
        uint64_t pattern;                    /* a byte to fill blocks with, or HOST_NO_PATTERN */
        uint64_t iodepth, range, time, seed; /* time: ms */
        uint64_t size, passes;
        bool asked_for;
        const char *rw, *cpu;
        uint64_t mix, block_size, warmup;
        bool no_busy_poll;
};

static inline bool host_json(const struct host_args *a)
{
        return a->output[0] == 'j';
}

struct host_subcommand {
        const char *name, *words, *says; /* words: "" if it takes none */
        uint32_t groups;
};

struct host_family {
        const struct family *family; /* first */
        /* The i-th one, NULL after the last. */
        const struct host_subcommand *(*subcommand)(unsigned i);
        const char *address; /* in the usage: "[nvme+tcp|rdma://HOST[:PORT][/NQN]] " */
        const struct option_row
            *options; /* of groups from HOST_OWN on; args begin with a struct host_args */
        size_t args_size;
        void (*defaults)(void *args); /* NULL: all zero */
        /* After the options: takes what is an address out of the words; how many are left, or -1 and e. NULL: none is. */
        int (*addresses)(void *args, int count, char **words, struct host_error *e);
        void (*forget)(void *args); /* what args hold goes. NULL: nothing does */
        /* 0, or -1 and e: its kind is the exit code. */
        int (*run)(const struct host_subcommand *s, void *args, int count, char **words,
                   struct host_error *e);
};

/* argv from "host" on; families: ended by NULL, the first one unless -t says another's transport. The exit code. */
int host_command(const struct host_family *const *families, int argc, char **argv);

/* Parses argv[1..] by the options of `groups` into args, which is zero: how many words are left, moved to *words; -1:
 * e->line says what is wrong. */
int host_parse(const struct host_family *f, uint32_t groups, int argc, char **argv, void *args,
               char ***words, struct host_error *e);

/* What run() calls, once it is connected, for subcommands with these groups; and what can be told to be wrong before. */
int host_verify(struct load *l, const struct host_args *a, struct host_error *e);
int host_perf(struct load *l, const struct host_args *a, struct host_error *e);
int host_perf_check(const struct host_args *a, struct host_error *e);

/* Blocks that are read or written one request at a time. */
struct host_blocks {
        uint32_t block_size, max_blocks; /* bytes; of one request */
        uint8_t *buf;                    /* of max_blocks */
        /* The first blocks of buf are read from there, or written. -1: e says why they were not. */
        int (*transfer)(void *user, bool write, uint64_t block, uint32_t blocks,
                        struct host_error *e);
        /* More of them for a report: members of a JSON object. NULL: nothing. */
        void (*show)(void *user, struct json_object *o);
        void *user;
};
/* a->blocks of them from a->slba on: to a->file or standard output; from there or standard input, or a->pattern. */
int host_blocks_read(const struct host_blocks *b, const struct host_args *a, struct host_error *e);
int host_blocks_write(const struct host_blocks *b, const struct host_args *a, struct host_error *e);
/* The file that what is read goes to; closing it is the caller's. One that exists has its bytes until
 * host_output_begin(). NULL: e says why. */
FILE *host_output_open(const char *path, struct host_error *e);
/* The first bytes are there to be written: those that the file has are dropped. 0; -1: e says why. */
int host_output_begin(FILE *f, struct host_error *e);
/* What can be told to be wrong before. */
int host_blocks_check(const struct host_args *a, struct host_error *e);

#endif
