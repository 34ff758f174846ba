/* SPDX-License-Identifier: BSD-3-Clause */
/* What the initiators of a capture did, to be done again: logins, requests with their data, and what was answered. */
#ifndef NVMF_PCAP_SRP_PLAN_H
#define NVMF_PCAP_SRP_PLAN_H

#include "family.h"
#include "pcap/trace/spill.h"
#include "pdu/scsi/scsi.h"

struct srp_plan_cmd {
        unsigned chan;                   /* of srp_plan.chan */
        struct capture_place at, answer; /* answer.frame 0: none is in the capture */
        uint64_t tag, lun, task_tag;
        uint8_t cdb[SCSI_CDB_LEN], attr;
        uint8_t function; /* not 0: SRP_TSK_MGMT */
        bool both;        /* data in both directions */
        bool out;         /* data-out */
        enum srp_format format;
        unsigned pieces; /* of a table */
        bool external;   /* not all of it is in the IU */
        uint32_t room;   /* bytes that the initiator has for its data */
        uint8_t *data;   /* that moved, of n bytes; NULL: none, or it is not known */
        uint32_t n;
        uint8_t status, response;
        bool has_response, has_sense;
        struct scsi_sense sense;
};

struct srp_plan_chan {
        unsigned number; /* of the connection */
        struct srp_login_req asked;
        bool accepted; /* else rejected, or without an answer */
};

enum srp_plan_act { SRP_PLAN_OPEN, SRP_PLAN_SEND, SRP_PLAN_ANSWER, SRP_PLAN_CLOSE };

struct srp_plan {
        struct spill spill; /* data */
        struct srp_plan_chan *chan;
        struct srp_plan_cmd *cmd;
        struct srp_plan_step { /* in the order of the capture */
                enum srp_plan_act act;
                unsigned which; /* of chan; SEND, ANSWER: of cmd */
        } * step;
        unsigned chans, cmds, steps;
        uint64_t others; /* connections of other protocols */
        bool no_memory;
};

/* Reads it; families: SRP is one of them. 0; -1: err has one line. srp_plan_free() is to follow in either case. */
int srp_plan_read(struct srp_plan *p, const char *file, const struct trace_family *const *families,
                  char *err, size_t err_size);
void srp_plan_free(struct srp_plan *p);
/* The capacity that the target named for this logical unit: blocks, and bytes of one. False: it did not. */
bool srp_plan_capacity(const struct srp_plan *p, uint64_t lun, uint64_t *blocks, uint32_t *size);

#endif
