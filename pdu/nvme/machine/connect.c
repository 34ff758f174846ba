/* SPDX-License-Identifier: BSD-3-Clause */
/* Connect (Base 2.2 6.3): its checks, and the submission queue that it makes. */
#include <string.h>

#include "controller.h"
#include "pdu/core/plant.h"

enum { QID_INVALID = 0xffff, SQSIZE_MIN = 1 };

struct attempt {
        const struct connect_cmd *cmd;
        const struct connect_data *data;
        const struct controller *admin;
        uint16_t qid, max_sqsize;
};

static bool bad_recfmt(const struct attempt *a)
{
        return le16_get(a->cmd->recfmt) != 0;
}

static bool bad_qid(const struct attempt *a)
{
        return a->qid == QID_INVALID;
}

static bool qid_not_granted(const struct attempt *a)
{
        return a->qid > a->admin->queues;
}

static bool short_sqsize(const struct attempt *a)
{
        return le16_get(a->cmd->sqsize) < SQSIZE_MIN && !PLANTED(SQSIZE_ZERO);
}

static bool long_sqsize(const struct attempt *a)
{
        return le16_get(a->cmd->sqsize) > a->max_sqsize;
}

static bool bad_subnqn(const struct attempt *a)
{
        return !nqn_valid(a->data->subnqn, sizeof(a->data->subnqn), false);
}

static bool bad_hostnqn(const struct attempt *a)
{
        return !nqn_valid(a->data->hostnqn, sizeof(a->data->hostnqn), false);
}

static bool not_dynamic(const struct attempt *a)
{
        return le16_get(a->data->cntlid) != CNTLID_DYNAMIC;
}

static bool reserved_cntlid(const struct attempt *a)
{
        return le16_get(a->data->cntlid) > CNTLID_MAX && le16_get(a->data->cntlid) < CNTLID_STATIC;
}

static bool no_hostid(const struct attempt *a)
{
        static const uint8_t zero[16];

        return memcmp(a->data->hostid, zero, sizeof(zero)) == 0;
}

static bool other_subnqn(const struct attempt *a)
{
        return strncmp(a->data->subnqn, a->admin->subnqn, NQN_FIELD) != 0;
}

static bool other_hostnqn(const struct attempt *a)
{
        return strncmp(a->data->hostnqn, a->admin->hostnqn, NQN_FIELD) != 0;
}

static bool other_hostid(const struct attempt *a)
{
        return !no_hostid(a) && memcmp(a->data->hostid, a->admin->hostid, 16) != 0;
}

static bool not_enabled(const struct attempt *a)
{
        if (a->admin->cc & CC_IOSQES && flawed(a->admin->cfg.policy, FLAW_CONNECT_RESET))
                return false; /* as those do that look at what was set before the reset */
        return controller_ready(a->admin) != 0;
}

static bool is_discovery(const struct attempt *a)
{
        return a->admin->cfg.type == CONTROLLER_DISCOVERY;
}

enum { ALWAYS, ON_ADMIN, ON_IO };

/* In the order in which they are made: what stands alone before what has to match the admin queue.
 */
static const struct check {
        enum rule_id rule;
        int when;
        bool (*broken)(const struct attempt *a);
} checks[] = {
        { FAB_CONNECT_RECFMT, ALWAYS, bad_recfmt },
        { FAB_CONNECT_SUBNQN_SYNTAX, ALWAYS, bad_subnqn },
        { FAB_CONNECT_HOSTNQN_SYNTAX, ALWAYS, bad_hostnqn },
        { FAB_CONNECT_SQSIZE_ZERO, ALWAYS, short_sqsize },
        { FAB_CONNECT_CNTLID_RSVD, ON_ADMIN, reserved_cntlid },
        { FAB_CONNECT_CNTLID_DYN, ON_ADMIN, not_dynamic },
        { FAB_CONNECT_HOSTID_ZERO, ON_ADMIN, no_hostid },
        { FAB_DISC_IO, ON_IO, is_discovery },
        { FAB_CONNECT_IO_SUBNQN, ON_IO, other_subnqn },
        { FAB_CONNECT_IO_HOSTNQN, ON_IO, other_hostnqn },
        { FAB_CONNECT_IO_HOSTID, ON_IO, other_hostid },
        { FAB_CONNECT_QID, ALWAYS, bad_qid },
        { FAB_CONNECT_QID_GRANTED, ON_IO, qid_not_granted },
        { FAB_CONNECT_SQSIZE_MAX, ALWAYS, long_sqsize },
        { FAB_CONNECT_IO_ENABLED, ON_IO, not_enabled },
};

static bool applies(const struct check *c, const struct attempt *a)
{
        return c->when == ALWAYS || (c->when == ON_ADMIN ? a->qid == 0 : a->admin != NULL);
}

uint16_t connect_check(const struct connect_cmd *cmd, const struct connect_data *data,
                       const struct controller *admin, uint16_t max_sqsize,
                       const struct rule_policy *policy, uint32_t *ipo)
{
        uint16_t qid = le16_get(cmd->qid);
        struct attempt a = { cmd, data, qid > 0 ? admin : NULL, qid, max_sqsize };

        *ipo = 0;
        for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
                uint16_t status = rule_refuse(policy, checks[i].rule);

                if (!status || !applies(&checks[i], &a) || !checks[i].broken(&a))
                        continue;
                *ipo = rule_fault(checks[i].rule).place;
                return status;
        }
        return 0;
}

uint32_t connect_entries(const struct connect_cmd *cmd, uint16_t max_sqsize)
{
        uint16_t sqsize = le16_get(cmd->sqsize);

        if (PLANTED(SQSIZE_ZERO))
                max_sqsize = (uint16_t)(max_sqsize / sqsize * sqsize);
        if (sqsize > max_sqsize)
                sqsize = max_sqsize;
        return (sqsize < SQSIZE_MIN ? SQSIZE_MIN : sqsize) + 1u;
}

/* --- submission queue: 3.3.2, 6.3 ------------------------------------------------------------- */

void sq_init(struct sq *sq, uint32_t size, bool no_flow_control)
{
        *sq = (struct sq) { .size = size, .no_flow_control = no_flow_control };
}

void sq_free(struct sq *sq)
{
        if (sq->size > 0)
                sq->head = (uint16_t)((sq->head + 1u) % sq->size);
}

uint16_t sq_head(const struct sq *sq)
{
        return sq->no_flow_control ? 0 : sq->head;
}
