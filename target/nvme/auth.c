/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Authentication Send and Receive (Base 2.2 6.1, 6.2, 8.3.4) on queues whose host has a key. The
 * transaction is the queue's own, and its reactor's; what follows from it is the controller's.
 */
#include <string.h>

#include "admin.h"
#include "pdu/nvme/io/auth_openssl.h"

enum { SEND_MAX = 4096 /* bytes: a Negotiate of 63 protocols */ };

void auth_set_up(struct ctrl *c, const struct subsystem *s)
{
        c->auth = (struct auth_config) { .role = PARTY_CONTROLLER,
                                         .crypto = auth_openssl(),
                                         .hostnqn = c->m.hostnqn,
                                         .subnqn = c->m.subnqn,
                                         .policy = c->env->policy };
        if (s)
                c->auth.keys = *subsystem_keys(s, c->m.hostnqn);
}

static bool has_key(const struct ctrl *c)
{
        return c->auth.keys.host.len > 0;
}

void auth_begin(const struct ctrl *c, struct ctrl_queue *q)
{
        q->unproven = has_key(c);
        auth_start(&q->auth, &c->auth);
}

bool auth_concerns(const struct ctrl *c, const union sqe *sqe)
{
        return has_key(c) && sqe->opc == NVME_FABRICS &&
               (sqe->fctype == FCTYPE_AUTH_SEND || sqe->fctype == FCTYPE_AUTH_RECEIVE);
}

uint16_t auth_required(const struct ctrl *c, const struct ctrl_queue *q)
{
        return q->unproven ? with_dnr(rule_refuse(c->env->policy, FAB_AUTH_REQUIRED)) : 0;
}

uint16_t auth_transfer(const struct ctrl_env *env, struct request *r)
{
        const struct auth_cmd *cmd = &r->sqe.auth;
        bool send = cmd->fctype == FCTYPE_AUTH_SEND;

        r->xfer = send ? XFER_H2C : XFER_C2H;
        r->len = le32_get(cmd->len);
        if ((cmd->secp != AUTH_SECP || cmd->spsp0 != AUTH_SPSP || cmd->spsp1 != AUTH_SPSP) &&
            rule_refuse(env->policy, FAB_AUTH_SECP))
                return NVME_INVALID_FIELD;
        if (r->len == 0 || r->len > (send ? (uint32_t)SEND_MAX : env->limits->max_transfer))
                return NVME_INVALID_FIELD;
        return 0;
}

/* What has been said last may have been the last word. */
static void settle(struct admin *a)
{
        struct ctrl_queue *q = a->queue;
        enum auth_turn turn = auth_turn(&q->auth);

        pthread_mutex_lock(&a->ctrl->lock);
        if (turn == AUTH_DONE) {
                q->unproven = false;
                ctrl_update_queues(a->ctrl);
        } else if (turn == AUTH_REFUSED && !violates(a->env, FAB_AUTH_ENDS)) {
                ctrl_leave_queue(q);
                a->verdict = CTRL_DISCONNECT;
        }
        pthread_mutex_unlock(&a->ctrl->lock);
}

/* A host may authenticate itself once more, at any time (8.3.4.2). */
uint16_t admin_auth_send(struct admin *a)
{
        struct auth *auth = &a->queue->auth;

        if (auth_turn(auth) == AUTH_DONE)
                auth_start(auth, &a->ctrl->auth);
        auth_hear(auth, a->r->data, a->r->len);
        settle(a);
        return 0;
}

uint16_t admin_auth_receive(struct admin *a)
{
        struct auth *auth = &a->queue->auth, before = *auth;
        uint8_t message[AUTH_MESSAGE_MAX];
        size_t len;

        if (auth_turn(auth) != AUTH_SPEAK)
                return NVME_SEQUENCE_ERROR;
        len = auth_speak(auth, message);
        if (len > a->r->len && rule_refuse(a->env->policy, FAB_AUTH_ROOM)) {
                *auth = before; /* with more room it is said again */
                return NVME_INVALID_FIELD;
        }
        memset(a->r->data, violates(a->env, FAB_AUTH_ZEROES) ? 0xa5 : 0, a->r->len);
        memcpy(a->r->data, message, len < a->r->len ? len : a->r->len);
        settle(a);
        return 0;
}
