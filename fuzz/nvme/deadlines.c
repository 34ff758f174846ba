/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a connection must not outlast: no text says how soon after a deadline a controller ends it, or
 * is done with a shutdown, so `hang` more is given, and what lasts longer counts as a hang and breaks no
 * rule.
 */
#include "pdu/nvme/wire/fabrics.h"
#include "peer.h"

/* Since when it leaves, and which command asks whether it has. */
static void note_property(struct remote_conn *c, const union sqe *sqe)
{
        uint32_t cc = (uint32_t)le64_get(sqe->property.value), ofst = le32_get(sqe->property.ofst);

        if (sqe->fctype == FCTYPE_PROPERTY_SET && ofst == PROP_CC)
                c->leaves = !CC_SHN(cc) ? 0 : c->leaves ? c->leaves : loop_now_ms();
        else if (sqe->fctype == FCTYPE_PROPERTY_GET && ofst == PROP_CSTS)
                c->question = 1u + le16_get(sqe->cid);
}

static void note_kato(struct remote_conn *c, const union sqe *sqe)
{
        bool connects = sqe->opc == NVME_FABRICS && sqe->fctype == FCTYPE_CONNECT;

        if (!connects &&
            (sqe->opc != NVME_SET_FEATURES || (le32_get(sqe->cdw10) & 0xff) != FEAT_KATO))
                return;
        c->kato_asked = le32_get(connects ? sqe->connect.kato : sqe->cdw11);
        c->asks_kato = 1u + le16_get(sqe->cid);
}

static bool is_past(const struct remote_conn *c, uint64_t since, uint64_t ms)
{
        return since > 0 && loop_now_ms() - since > ms + c->session->hang;
}

/* A controller may take twice KATO to notice (Base 2.2 3.9.4), and none is in force before CC.EN or
 * after CC.SHN: a command that succeeds shows that it is. */
static bool outlasts_kato(const struct remote_conn *c, const union sqe *sqe)
{
        return c->kato > 0 && c->leaves == 0 && sqe->opc != NVME_FABRICS &&
               c->silence > 2 * (uint64_t)c->kato + c->session->hang;
}

void nvme_asks(struct remote_conn *c, const union sqe *sqe, bool admin)
{
        unsigned within = peer_of_session(c->session)->prove_within;

        if (is_past(c, c->revoked, 0) || (within > 0 && is_past(c, c->unproven, within)))
                c->posthumous = 1u + le16_get(sqe->cid);
        if (!admin)
                return;
        if (outlasts_kato(c, sqe))
                c->neglected = 1u + le16_get(sqe->cid);
        note_kato(c, sqe);
        if (sqe->opc == NVME_FABRICS)
                note_property(c, sqe);
}

static bool is_shutting_down(const struct remote_conn *c, const struct cqe *cqe)
{
        return is_past(c, c->leaves, 0) &&
               CSTS_SHST(le32_get(cqe->dw0)) == CSTS_SHST(CSTS_SHST_OCCURS);
}

void nvme_answered(struct remote_conn *c, const struct cqe *cqe)
{
        unsigned asked = 1u + le16_get(cqe->cid);
        bool succeeded = cqe_status(cqe) == 0;

        if (c->wild)
                return;
        if (c->joining && c->on == 0 && succeeded && peer_of_session(c->session)->host.dhchap.len)
                c->unproven = loop_now_ms();
        if (c->asks_kato == asked && succeeded)
                c->kato = c->kato_asked;
        c->overdue |= c->posthumous == asked || (c->neglected == asked && succeeded);
        if (c->question != asked || !succeeded)
                return;
        c->question = 0;
        c->overdue |= is_shutting_down(c, cqe);
}

void nvme_proven(struct remote_conn *c, const struct seq_bind *b)
{
        struct rule_set found = { 0 };

        if (!b->auth.succeeded)
                return;
        c->unproven = 0;
        if (!peer_of_session(c->session)->stranger)
                return;
        rule_add(&found, FAB_AUTH_REFUSED);
        conn_broke(c, &found);
}
