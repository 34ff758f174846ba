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

struct keep;
extern const struct trace_family srp_capture;

/* A request, beside what the channel knows of it. */
struct srp_kept {
        uint8_t cdb[16]; /* of SRP_CMD */
        uint64_t lun;
        bool manages; /* SRP_TSK_MGMT */
        /* Where all data is kept: */
        uint8_t *iu; /* of iu_len bytes; NULL: it is not */
        uint32_t iu_len;
        struct srp_cmd_parts parts; /* of it */
        uint8_t *table; /* of descriptors, as the target has READ it; NULL: it has not */
        uint8_t *
            data; /* of len bytes, as the initiator describes it; NULL: none was seen, or there is no room for it */
        uint32_t len, got; /* got: bytes that were seen */
        bool out;          /* data-out */
        struct keep *keep; /* room for all this, of all requests; NULL: it is not kept */
};
/* All of the data that has moved, and is there; n is how many bytes. NULL: there is none, or not all was seen. */
const uint8_t *srp_kept_data(const struct srp_kept *k, const struct srp_rsp *rsp, uint32_t *n);

/* One connection. */
struct srp_session {
        struct trace_conn *conn;
        struct srp_channel channel;
        struct trace_command command[SRP_CHANNEL_REQUESTS]; /* each of channel.request */
        struct srp_kept kept[SRP_CHANNEL_REQUESTS];         /* likewise */
        struct srp_session *next;
};

struct srp_record {
        const struct trace_event *e;
        const struct srp_session *session;
        uint32_t imm_at; /* where immediate data begins, if the event is SRP_CMD */
        const struct trace_command
            *command;                /* the request that it is about; NULL: none, or not known */
        const struct srp_kept *kept; /* likewise */
        bool is_table;               /* a READ of a table of descriptors */
        uint32_t offset; /* of a READ or WRITE: where in the data of its request it begins */
        bool begins;     /* it is that request ... */
        const struct srp_rsp *rsp; /* ... or its response, or anybody's; NULL: neither */
        uint8_t code;              /* response code of `rsp`, if it has one (SRP_RSPVALID) */
        struct rule_set broken;
        bool is_broken;
        bool unproven; /* the findings need proof: trace_proven() */
};

#endif
