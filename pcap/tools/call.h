/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommands of `nvmfspec pcap`. Private to the room. */
#ifndef NVMF_PCAP_CALL_H
#define NVMF_PCAP_CALL_H

#include "args.h"

struct pcap_call {
        const struct args *args;
        const char *file;
        bool selected; /* something passed --conn and --qid */
        /* Of which families it reads connections, and why not of others: "has no ...". NULL: of all. */
        bool (*can)(const struct args *a, const struct trace_family *f);
        const char *cannot;
        bool data;     /* messages keep all their data */
        char err[300]; /* what went wrong, when the file could not be read or written */
};
typedef int pcap_fn(struct pcap_call *call); /* enum pcap_exit */

/* The subcommands: each prints its result to stdout or writes --to. The caller prints
 * call->err; if it is set, PCAP_OK becomes PCAP_UNREADABLE. */
int pcap_show(struct pcap_call *call);
int pcap_check(struct pcap_call *call);
int pcap_stat(struct pcap_call *call);
int pcap_anonymize(struct pcap_call *call);
int pcap_extract(struct pcap_call *call);

/* trace_records() of the call's file by its arguments. What it cannot do is told on stderr; connections over TLS
 * that are not read are there for whoever judges. -1 with call->err. */
int pcap_records(struct pcap_call *call, const struct trace_reading *how,
                 struct trace_totals *totals);
/* Whether there were keys, and none of the connections over TLS could be read at all: call->err says so. */
bool pcap_sealed(struct pcap_call *call, const struct trace_totals *t);

/* "3 gaps, 2 IP fragments left out, ..." on stderr, if there is anything to say. */
void pcap_remarks(const struct pcap_call *call, const struct trace_totals *t);

#endif
