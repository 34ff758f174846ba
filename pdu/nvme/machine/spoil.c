/* SPDX-License-Identifier: BSD-3-Clause */
#include "spoil_table.h"

void spoil_make(uint8_t *base, const struct change *c)
{
        uint8_t *p = base + c->offset;
        uint64_t old = le_get(p, c->size);

        switch (c->op) {
        case PUT:
                le_put(p, c->size, c->value);
                break;
        case ADD:
                le_put(p, c->size, old + c->value);
                break;
        case FLIP:
                le_put(p, c->size, old ^ c->value);
                break;
        }
}

/* Opcodes of I/O and admin queues overlap; only the former have the NSID of a single namespace. */
bool spoil_has_nsid(const union sqe *sqe)
{
        uint32_t nsid = le32_get(sqe->nsid);

        return nsid > 0 && nsid < UINT32_MAX;
}

static bool can_any(enum rule_id rule)
{
        return spoil_can_sqe(rule) || spoil_can_complete(rule);
}

bool spoil_can(enum rule_id rule)
{
        return spoil_can_tcp(rule) || can_any(rule);
}

bool spoil_can_rdma(enum rule_id rule)
{
        return spoil_can_verbs(rule) || spoil_can_complete_rdma(rule) || can_any(rule);
}

bool spoil_host_can(enum rule_id rule)
{
        return rule_get(rule)->bound == PARTY_HOST &&
               (spoil_can(rule) || spoil_can_rdma(rule) || rule == RDMA_HOST_KEY_CHECK ||
                rule == RDMA_HOST_RECEIVES);
}

/*
 * What of NVMe/TCP and of all transports is broken elsewhere (for RDMA see spoil_rdma.h), by whoever
 * checks the rule in policy->violated:
 *
 * link            TCP_TERM_CLOSE, TCP_TERM_SILENCE, TCP_TERM_QUIET
 * tcp_controller  TCP_ICRESP_FIRST, TCP_ICD_ADMIN, TCP_CDB, TCP_C2H_SUCCESS_SQFC,
 *                 TCP_C2H_SUCCESS_RESP, TCP_C2H_COMPLETE, TCP_R2T_LIMIT, TCP_R2T_TTAG, FAB_ANSWERED
 * controller      FAB_RDY, FAB_SHST, KA_EXPIRY, KA_ALIVE, KA_COMMAND, AER_HELD, AER_MASKED, AER_KEPT,
 *                 AER_REPORTED, AER_ASKED, DISC_PERSISTENT, FEAT_SELECT
 * auth            FAB_AUTH_CHALLENGE, FAB_AUTH_FRESH, FAB_AUTH_R2
 * target          FAB_SQFC_UNASKED, FAB_CONNECT_NO_LOG, FAB_DISCONNECT_LAST, FAB_RESET_CLEARS,
 *                 DISC_GENCTR, DISC_GENCTR_STEP, DISC_LISTED, DISC_OFFSETS, DISC_ONE_DYNAMIC,
 *                 LOG_MORE, LOG_RAE, LOG_CHANGED, LOG_SMART_READS, FAB_AUTH_ENDS, FAB_AUTH_ZEROES
 *
 * What a host breaks by when it sends something: TCP_ICREQ_WAIT, TCP_IC_TIMEOUT, TCP_H2C_ORDER,
 * FAB_ENABLED, FAB_SHUTDOWN, FAB_OVERRUN, FAB_CONNECT_QID_USED, FAB_CONNECT_ONCE,
 * FAB_CONNECT_IO_ENABLED, FAB_DISC_IO, FAB_DISCONNECT_ADMIN, FAB_PROP_QUEUE, AER_LIMIT,
 * FEAT_HOSTID_FIXED, FEAT_QUEUES_LATE, DISC_PROHIBITED, DISC_LOGS: their cases send just that.
 */
