/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of `nvmfspec pcap SUBCOMMAND FILE`. */
#ifndef NVMF_PCAP_ARGS_H
#define NVMF_PCAP_ARGS_H

#include "pdu/io/option.h"
#include "secrets.h"

enum args_group {
        ARGS_FILTER = 1 << 0, /* which records */
        ARGS_OUTPUT = 1 << 1, /* text or JSON */
        ARGS_VERBOSE = 1 << 2,
        ARGS_COUNT = 1 << 3,
        ARGS_JUDGE = 1 << 4, /* which rules */
        ARGS_ALL = 1 << 5,
        ARGS_HTML = 1 << 6,
        ARGS_CONN = 1 << 7,
        ARGS_EXTRACT = 1 << 8,
        ARGS_ANON = 1 << 9,
        ARGS_TO = 1 << 10,
        ARGS_KEYS = 1 << 11, /* secrets of TLS */
        ARGS_TOLD = 1 << 12, /* connections that the capture does not tell of */
};

enum { ARG_ANY = -1, STATUS_ANY_ERROR = -2 };

struct args {                                       /* strings are argv's */
        struct trace_options trace;                 /* first: args_take_port() */
        void *secrets;                              /* of the first family; NULL: none so far */
        const struct trace_family *const *families; /* those that are read; ended by NULL */
        struct rule_set waived[TRACE_FAMILIES];     /* one for each of these */
        bool verbose, help, violations, count, all, strict;
        const char *output;
        uint64_t conn;      /* 0: all */
        int qid, status;    /* ARG_ANY; status: as families number it, or STATUS_ANY_ERROR */
        int64_t cid;        /* ARG_ANY */
        const char *opcode; /* a number or a name; NULL: all */
        const char *html;   /* stat: where the page goes */
        const char *to;     /* anonymize, extract: where it goes */
        const char *kind;   /* extract: what */
        uint64_t interval;  /* stat: ms; 0: what suits */
        uint64_t nsid, slba, blocks, block_size; /* extract: blocks, and bytes of one; 0: as seen */
        uint64_t seed;                           /* anonymize: of the key; 0: a new one */
        bool keep_data;                          /* anonymize */
};

extern const struct option_row pcap_options[];

/* What holds where no option says otherwise. args_free() frees it. */
void args_init(struct args *a, const struct trace_family *const *families);
void args_free(struct args *a);
/* Before the file is read, once the options are known: what reads TLS in it. False: error says why. */
bool args_open(struct args *a, const char *file, char *error, size_t size);

/* An option_row's `call` for arguments that begin with a struct trace_options: one more port. */
bool args_take_port(void *trace_options, const char *value, char *error, size_t size);

static inline bool args_json(const struct args *a)
{
        return a->output[0] == 'j';
}

/* Of a family's kinds, in lists: that of a rank. */
uint64_t args_key(const struct args *a, const struct trace_family *family, unsigned rank);

/* Whether it is the connection and queue that were asked for. */
bool args_select_conn(const struct args *a, const struct trace_conn *c);

/* Whether the filters let this record through; what is of no command passes only those that ask for
 * none. */
bool args_select(const struct args *a, const struct trace_record *r);

#endif
