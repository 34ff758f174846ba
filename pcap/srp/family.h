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
        struct trace_command command[SRP_CHANNEL_REQUESTS]; /* each of channel.request */
        struct srp_session *next;
};

struct srp_record {
        const struct trace_event *e;
        const struct srp_session *session;
        uint32_t imm_at; /* where immediate data begins, if the event is SRP_CMD */
        const struct trace_command
            *command;              /* the request that it is about; NULL: none, or not known */
        bool begins;               /* it is that request ... */
        const struct srp_rsp *rsp; /* ... or its response, or anybody's; NULL: neither */
        uint8_t code;              /* response code of `rsp`, if it has one (SRP_RSPVALID) */
        struct rule_set broken;
        bool is_broken;
        bool unproven; /* the findings need proof: trace_proven() */
};

#endif
