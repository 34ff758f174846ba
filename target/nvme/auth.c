/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Authentication Send and Receive (Base 2.2 6.1, 6.2, 8.3.4) on queues whose host has a key. The
 * transaction is the queue's own, and its reactor's; what follows from it is the controller's.
 */
#include <stdio.h>
#include <string.h>

#include "admin.h"
#include "auth_work.h"
#include "pdu/core/plant.h"
#include "pdu/core/wipe.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "psk_store.h"
#include "tls_keys.h"

enum { SEND_MAX = 4096 /* bytes: a Negotiate of 63 protocols */ };

void auth_set_up(struct ctrl *c, const struct subsystem *s)
{
        c->auth = (struct auth_config) { .role = PARTY_CONTROLLER,
                                         .crypto = c->env->crypto ? c->env->crypto : auth_openssl(),
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

/* What 8.3.4.4.1 and figure 754 allow on this queue: over TCP alone, and on the admin queue. */
static uint8_t allowed_channels(const struct ctrl *c, const struct ctrl_queue *q)
{
        const uint8_t none = 1u << AUTH_SC_NONE;

        if (!c->env->psks || q->rdma || q->qid != 0 ||
            (c->auth.keys.psk.len > 0 && !violates(c->env, FAB_AUTH_PSK_RETAINED)))
                return none;
        if (q->tls)
                return q->generated ? none | 1u << AUTH_SC_REPLACE_PSK : none;
        return c->env->psk_required ? 1u << AUTH_SC_NEW_PSK : none | 1u << AUTH_SC_NEW_PSK;
}

static void start_over(const struct ctrl *c, struct ctrl_queue *q)
{
        auth_start(&q->auth, &c->auth);
        q->auth.allowed = allowed_channels(c, q);
        q->auth.credulous = q->qid > 0 && has_flaw(c->env, FLAW_AUTH_IO);
}

/* A channel that is secured by a PSK of its own host and subsystem has proven who it is. */
void auth_begin(const struct ctrl *c, struct ctrl_queue *q, uint64_t now)
{
        struct auth_key psk;

        q->generated = has_key(c) && tls_keys_prove(c, q, now, &psk);
        q->unproven = has_key(c) && !q->generated;
        q->due_since = now;
        start_over(c, q);
        wipe(&psk, sizeof(psk));
}

uint32_t auth_demand(const struct ctrl_queue *q)
{
        if (!q->unproven)
                return 0;
        if (has_flaw(q->ctrl->env, FLAW_AUTHREQ_BOTH))
                return CONNECT_ASCR | CONNECT_ATR;
        return q->ctrl->env->psk_required && !q->tls && !q->rdma ? CONNECT_ASCR : CONNECT_ATR;
}

/* Until then it may have been good for the channel that it replaces. */
static void keep_psk(struct admin *a)
{
        const struct ctrl *c = a->ctrl;
        struct generated_psk new;
        struct auth_key old;

        if (!auth_take_psk(&a->queue->auth, &new.psk))
                return;
        new.by = c->auth.keys;
        if (a->queue->auth.sc_c == AUTH_SC_REPLACE_PSK &&
            tls_keys_prove(c, a->queue, a->now, &old)) {
                psk_store_remove(a->env->psks, &old);
                wipe(&old, sizeof(old));
        }
        psk_store_add(a->env->psks, c->m.hostnqn, c->m.subnqn, &new, a->now,
                      violates(a->env, FAB_AUTH_PSK_LIFETIME)
                          ? UINT64_MAX
                          : a->now + a->env->limits->psk_lifetime);
        wipe(&new, sizeof(new));
}

bool auth_concerns(const struct ctrl *c, const union sqe *sqe)
{
        return has_key(c) && sqe_is_auth(sqe);
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
        q->due_since = a->now;
        if (turn == AUTH_DONE) {
                keep_psk(a);
                q->unproven = q->unproven && a->env->psk_required && !q->tls && !q->rdma;
                q->begun = false;
                ctrl_update_queues(a->ctrl);
        } else if (turn == AUTH_REFUSED && !violates(a->env, FAB_AUTH_ENDS)) {
                ctrl_leave_queue(q);
                a->verdict = CTRL_DISCONNECT;
        }
        pthread_mutex_unlock(&a->ctrl->lock);
}

/* What was said goes into the command's data. */
static uint16_t put_message(struct admin *a, const struct auth *before, const uint8_t *message,
                            size_t len)
{
        if (len > a->r->len && !PLANTED(AUTH_ROOM) && rule_refuse(a->env->policy, FAB_AUTH_ROOM)) {
                a->queue->auth = *before; /* with more room it is said again */
                return NVME_INVALID_FIELD;
        }
        memset(a->r->data, violates(a->env, FAB_AUTH_ZEROES) ? 0xa5 : 0, a->r->len);
        memcpy(a->r->data, message, len < a->r->len || PLANTED(AUTH_ROOM) ? len : a->r->len);
        settle(a);
        return 0;
}

/* --- on another thread ------------------------------------------------------------------------ */

static struct auth_job *make_job(const struct admin *a, bool hears)
{
        const struct ctrl_queue *q = a->queue;
        struct auth_job *job = auth_job_new(hears ? a->r->len : AUTH_MESSAGE_MAX);

        if (!job)
                return NULL;
        job->queue = a->queue;
        job->r = a->r;
        job->auth = job->before = q->auth;
        job->cfg = a->ctrl->auth;
        memcpy(job->hostnqn, a->ctrl->m.hostnqn, sizeof(job->hostnqn));
        memcpy(job->subnqn, a->ctrl->m.subnqn, sizeof(job->subnqn));
        snprintf(job->peer, sizeof(job->peer), "%s", q->peer ? q->peer : "");
        job->cfg.hostnqn = job->hostnqn;
        job->cfg.subnqn = job->subnqn;
        job->auth.cfg = &job->cfg;
        job->hears = hears;
        job->len = hears ? a->r->len : 0;
        if (hears) /* it may lie in the receive buffer */
                memcpy(job->message, a->r->data, a->r->len);
        return job;
}

/* One step at a time. Out of room the command fails, and may be sent again. */
static uint16_t hand_over(struct admin *a, bool hears)
{
        struct auth_job *job = make_job(a, hears);

        if (!job)
                return NVME_INTERNAL_ERROR;
        a->r->user = job;
        a->queue->computing = true;
        if (auth_work_do(a->env->auth_work, job)) {
                a->verdict = CTRL_PARKED;
                return 0;
        }
        a->queue->computing = false;
        a->r->user = NULL;
        auth_job_free(job);
        return NVME_INTERNAL_ERROR;
}

uint16_t admin_auth_done(struct admin *a)
{
        struct auth_job *job = a->r->user;
        struct ctrl_queue *q = a->queue;
        uint16_t status = NVME_ABORT_SQ_DELETED;

        a->r->user = NULL;
        if (a->ctrl || PLANTED(AUTH_LATE)) {
                q->computing = false;
                q->auth = job->auth;
                q->auth.cfg = job->before.cfg = &a->ctrl->auth;
                status = 0;
                if (job->hears)
                        settle(a);
                else
                        status = put_message(a, &job->before, job->message, job->len);
        }
        auth_job_free(job);
        return status;
}

/* --- the commands ----------------------------------------------------------------------------- */

static bool is_for_others(const struct admin *a)
{
        return a->env->auth_work && auth_computes(&a->queue->auth);
}

void auth_drop(struct ctrl *c, struct ctrl_queue *q)
{
        if (!q->begun || q->computing)
                return;
        q->begun = false;
        start_over(c, q);
}

/* Of a transaction that proves the host once more: its last command is longer ago than KATO, or two
 * minutes, and it is dropped (8.3.4.2). */
static bool is_overdue(struct admin *a)
{
        struct ctrl_queue *q = a->queue;
        enum { TWO_MINUTES = 120000 };
        uint32_t most = a->ctrl->m.kato ? a->ctrl->m.kato : TWO_MINUTES;

        if (q->unproven || !q->begun || a->now <= q->due_since + most ||
            violates(a->env, FAB_AUTH_TIMEOUT))
                return false;
        auth_drop(a->ctrl, q);
        return true;
}

/* A host may authenticate itself once more, at any time (8.3.4.2). */
uint16_t admin_auth_send(struct admin *a)
{
        struct auth *auth = &a->queue->auth;

        if (a->queue->computing || is_overdue(a))
                return NVME_SEQUENCE_ERROR;
        if (auth_turn(auth) == AUTH_DONE || (!a->queue->unproven && !a->queue->begun)) {
                start_over(a->ctrl, a->queue);
                a->queue->begun = true;
                a->queue->unproven |= has_flaw(a->env, FLAW_AUTH_BEGUN);
        }
        if (is_for_others(a))
                return hand_over(a, true);
        auth_hear(auth, a->r->data, a->r->len);
        settle(a);
        return 0;
}

uint16_t admin_auth_receive(struct admin *a)
{
        struct auth *auth = &a->queue->auth, before = *auth;
        uint8_t message[AUTH_MESSAGE_MAX];
        uint16_t status;
        size_t len;

        if (a->queue->computing || is_overdue(a))
                return NVME_SEQUENCE_ERROR;
        if (auth_turn(auth) != AUTH_SPEAK && has_flaw(a->env, FLAW_AUTH_IDLE)) {
                memset(a->r->data, 0, a->r->len);
                return 0;
        }
        if (auth_turn(auth) != AUTH_SPEAK)
                return NVME_SEQUENCE_ERROR;
        if (is_for_others(a))
                return hand_over(a, false);
        len = auth_speak(auth, message);
        status = put_message(a, &before, message, len);
        wipe(&before, sizeof(before));
        return status;
}
