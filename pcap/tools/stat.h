/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the time of a capture went: latencies from capsule to response by kind of command, with
 * their parts, and what happened over time. Of fixed size, however long the capture is.
 */
#ifndef NVMF_PCAP_STAT_H
#define NVMF_PCAP_STAT_H

#include <stdio.h>

#include "host/engine/histogram.h"
#include "pcap/trace/trace.h"
#include "tally.h"

enum stat_part {
        PART_WHOLE,    /* the command's capsule to its response */
        PART_TO_DATA,  /* to the controller's first R2T, READ, or byte of data */
        PART_DATA,     /* from there to the last byte of data */
        PART_TO_REPLY, /* from the last byte of data to the response */
        PARTS
};
extern const char *const stat_parts[PARTS];

struct stat_group { /* commands of one kind */
        const struct trace_family *family;
        char name[64];     /* of its kind */
        const char *queue; /* where such commands are */
        bool io;
        uint64_t count, errors, h2c, c2h; /* count: completed; bytes */
        struct histogram part[PARTS];     /* ns */
        struct stat_group *next;          /* those of a queue stand together */
};

enum { STAT_BINS = 600 };

struct stat_bin { /* of time */
        uint64_t done, errors, h2c, c2h;
        uint64_t latency_sum, latency_max; /* ns */
        double depth_area;                 /* commands * ns */
        unsigned depth_max;
};

enum { STAT_CONNS = 64, STAT_CONN_NAME = 160 };

struct stat_conn {                 /* one of the first connections */
        unsigned number;           /* as `show` numbers them */
        char name[STAT_CONN_NAME]; /* who and over what */
        const struct trace_family *family;
        int qid; /* -1: not known, or it has no number */
        uint64_t count, errors, h2c, c2h, gaps;
        uint64_t latency_sum, latency_max; /* ns */
};

struct stats {
        struct stat_group *groups; /* by family; those of I/O last; in order of appearance */
        struct histogram whole;    /* of all I/O commands */
        uint64_t commands, completed, errors, unanswered, aers;
        struct tally *statuses; /* of errors */
        int64_t start_ns, last_ns;
        bool started;
        unsigned depth, depth_max; /* commands outstanding, AERs apart */
        int64_t interval_ns;       /* of a bin; doubles when the bins do not suffice */
        unsigned bins;             /* used */
        struct stat_bin bin[STAT_BINS];
        struct stat_conn conn[STAT_CONNS];
        unsigned conns;
        uint64_t more_conns; /* that found no room */
        bool no_memory;
        struct stat_trace *trace; /* of a trace of commands (stat_trace.h); NULL: of a capture */
};

static inline double stat_mean(const struct stat_conn *c) /* ns */
{
        return c->count ? (double)c->latency_sum / (double)c->count : 0;
}

static inline double stat_seconds(const struct stats *s)
{
        return (double)(s->last_ns - s->start_ns) / 1e9;
}

/* A page that needs nothing from elsewhere. */
void stat_html(FILE *f, const struct stats *s, const struct trace_totals *totals, const char *file);

#endif
