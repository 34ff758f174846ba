/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Violators: for each rule that binds the sender of a PDU, the change that turns a valid one into
 * one that breaks just this rule. The reference target and host apply them to their own output on
 * request (--violate), conformance cases to what they send, the fuzzer as mutations. Those of commands
 * and completions are here, those of a transport in pdu/nvme/tcp/spoil_tcp.h and
 * pdu/nvme/rdma/spoil_rdma.h.
 *
 * A violator that could strike any PDU of its type picks those of I/O commands (Write's response,
 * Read's data) or at least none of Fabrics commands, so that a queue can be connected and the
 * violation is met by those who look for it.
 */
#ifndef NVMF_MACHINE_SPOIL_H
#define NVMF_MACHINE_SPOIL_H

#include "pdu/nvme/wire/nvme.h"
#include "pdu/nvme/wire/rules.h"

/* Whether a violator here can strike what goes over this transport, as the rule's row says. What is
 * broken over time is broken where it happens, by whoever finds it in policy->violated. */
static inline bool spoil_can(enum rule_id rule)
{
        return rule_get(rule) && (rule_get(rule)->violators & V_ON_TCP);
}

static inline bool spoil_can_rdma(enum rule_id rule)
{
        const struct rule *r = rule_get(rule);

        return r && (r->violators & V_ON_RDMA) && !(r->violators & V_NOT_RDMA);
}

/* Whether a host machine, of either transport, breaks it of its own accord where policy->violated has
 * it. The others are broken by what a host sends when. */
static inline bool spoil_host_can(enum rule_id rule)
{
        const struct rule *r = rule_get(rule);

        return r && r->bound == PARTY_HOST && (r->violators & ~(unsigned)V_CASE);
}

/*
 * Rules about values (Identify, properties, log pages, statuses) are broken in the completed
 * command before it becomes PDUs: cqe and the data it returns (len bytes, writable; may be NULL).
 */
bool spoil_completion(const struct rule_set *violated, const union sqe *sqe, struct cqe *cqe,
                      uint8_t *data, uint32_t len);
/* Of these, those about SQHD alone, which is known only when the response leaves. */
bool spoil_sqhd(const struct rule_set *violated, const union sqe *sqe, struct cqe *cqe);

#endif
