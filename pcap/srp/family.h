/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SRP as a family of captures: its login in the private data of connection management, its IUs in
 * SENDs, and what srp_channel finds in them. It is read beside another family, where a connect request
 * is a login beyond doubt.
 */
#ifndef NVMF_PCAP_SRP_FAMILY_H
#define NVMF_PCAP_SRP_FAMILY_H

#include "pcap/trace/trace.h"
#include "pdu/srp/machine/channel.h"

extern const struct trace_family srp_capture;

/* One connection. */
struct srp_session {
        struct trace_conn *conn;
        struct srp_channel channel;
        struct srp_session *next;
};

struct srp_record {
        const struct trace_event *e;
        const struct srp_session *session;
        uint32_t imm_at; /* where immediate data begins, if the event is SRP_CMD */
        struct rule_set broken;
        bool is_broken;
        bool unproven; /* the findings need proof: trace_proven() */
};
typedef void srp_record_fn(void *user, const struct srp_record *r);

/* A record for each event of connections that are SRP's. waived may be NULL, and outlives it. NULL: out
 * of memory; false: memory ran out on the way. */
struct srp_reader *srp_reader_new(const struct rule_set *waived, srp_record_fn *fn, void *user);
void srp_reader_event(struct srp_reader *r, const struct trace_event *e);
bool srp_reader_free(struct srp_reader *r);

#endif
