/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands that a host sends again although their status asks it to wait, or not to. */
#include <string.h>

#include "judge.h"

enum {
        TOO_FEW_RESOURCES = 0x189,
        COPY_SECONDS = 60, /* so long a Copy that was refused for good is remembered */
        LOST_SECONDS = 60, /* ... and that a path is lost */
};
#define MS         INT64_C(1000000)
#define AT_ONCE    (10 * MS)
#define SECOND     (1000 * MS)
#define OF_COMMAND 40 /* bytes of a command before those that tell one from another */

static bool is_same(const union sqe *a, const union sqe *b)
{
        return a->opc == b->opc && le32_get(a->nsid) == le32_get(b->nsid) &&
               memcmp(a->bytes + OF_COMMAND, b->bytes + OF_COMMAND, sizeof(*a) - OF_COMMAND) == 0;
}

static uint64_t data_of(const struct session_cmd *cmd)
{
        return hash_of(HASH_START, cmd->data, cmd->data_cut ? 0 : cmd->data_len);
}

/* --- what is not to be sent again ------------------------------------------------------------------ */

static void remember(struct retry_past *p, const struct session_cmd *cmd, unsigned rule,
                     int64_t until_ns)
{
        p->failed[p->next++ % RETRIES] = (struct failed) { cmd->sqe, data_of(cmd), until_ns, rule };
}

/* ns that the host has to wait by CRD. */
static int64_t delay_of(const struct id_ctrl *id, uint16_t sf)
{
        const le16_t *delays[] = { NULL, &id->crdt1, &id->crdt2, &id->crdt3 };
        unsigned crd = (unsigned)(sf & STATUS_CRD) >> 11;

        return crd ? le16_get(*delays[crd]) * 100 * MS : 0;
}

void retry_fails(struct retry_past *p, const struct session_cmd *cmd, const struct cqe *cqe,
                 const struct id_ctrl *id, int64_t now_ns)
{
        uint16_t sf = le16_get(cqe->sf) >> 1, status = cqe_status(cqe);
        bool copy = cmd->sqe.opc == NVME_COPY && cmd->data && !cmd->data_cut;

        if (status == NVME_ANA_LOSS)
                remember(p, cmd, ANA_HOST_AGAIN, now_ns + LOST_SECONDS * SECOND);
        else if (status == NVME_ANA_TRANSITION)
                remember(p, cmd, ANA_HOST_AGAIN, now_ns + AT_ONCE);
        else if (copy &&
                 ((status == NVME_NO_FAST_COPY && sf & STATUS_DNR) || status == TOO_FEW_RESOURCES))
                remember(p, cmd, NVM_COPY_AGAIN, now_ns + COPY_SECONDS * SECOND);
        else if (id && !(sf & STATUS_DNR) && delay_of(id, sf))
                remember(p, cmd, CMD_RETRY_EARLY, now_ns + delay_of(id, sf));
}

/* Of Copy the data decides, which is not there yet. */
void judge_retry(const struct retry_past *p, const union sqe *s, int64_t now_ns,
                 struct rule_set *found)
{
        for (unsigned i = 0; i < RETRIES; i++) {
                const struct failed *f = &p->failed[i];

                judge_finds(found,
                            f->rule && f->rule != NVM_COPY_AGAIN && now_ns < f->until_ns &&
                                is_same(&f->sqe, s),
                            f->rule);
        }
}

void judge_copied_again(const struct retry_past *p, const struct session_cmd *cmd,
                        struct rule_set *found)
{
        uint64_t data = data_of(cmd);

        for (unsigned i = 0; i < RETRIES; i++) {
                const struct failed *f = &p->failed[i];

                judge_finds(found,
                            f->rule == NVM_COPY_AGAIN && f->data == data &&
                                cmd->at.time_ns < f->until_ns && is_same(&f->sqe, &cmd->sqe),
                            NVM_COPY_AGAIN);
        }
}

void retry_forgets_states(struct retry_past *p)
{
        for (unsigned i = 0; i < RETRIES; i++)
                if (p->failed[i].rule == ANA_HOST_AGAIN)
                        p->failed[i].rule = RULE_NONE;
}

/* --- Connect Restart Discovery --------------------------------------------------------------------- */

static bool same_host(const struct connect_data *a, const struct connect_data *b)
{
        return strncmp(a->hostnqn, b->hostnqn, NQN_FIELD) == 0;
}

void memory_restarts(struct host_memory *m, const struct connect_data *c)
{
        m->restarts[m->restarted++ % HOST_KNOWS] = (struct restart) { .connect = *c };
}

void memory_discovers(struct host_memory *m, const struct connect_data *c)
{
        for (unsigned i = 0; i < HOST_KNOWS; i++)
                if (same_host(&m->restarts[i].connect, c))
                        m->restarts[i] = (struct restart) { 0 };
}

void memory_watched(struct host_memory *m, const struct connect_data *c)
{
        for (unsigned i = 0; i < HOST_KNOWS; i++)
                m->restarts[i].watched |= same_host(&m->restarts[i].connect, c);
}

/* A discovery service may be elsewhere, or its port was not caught: only who has one here is known not to have read
 * its log. */
void judge_restart(struct host_memory *m, const struct connect_data *c, bool watched,
                   struct rule_set *found)
{
        for (unsigned i = 0; i < HOST_KNOWS; i++) {
                struct restart *r = &m->restarts[i];

                if (!r->connect.subnqn[0] || !same_host(&r->connect, c) ||
                    strncmp(r->connect.subnqn, c->subnqn, NQN_FIELD) != 0)
                        continue;
                judge_finds(found, watched || r->watched, FAB_RESTART);
                if (watched || r->watched)
                        *r = (struct restart) { 0 };
        }
}
