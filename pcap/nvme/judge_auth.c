/* SPDX-License-Identifier: BSD-3-Clause */
/* Authentication transactions as a capture shows them, without the keys (Base 2.2, 8.3.4). */
#include <string.h>

#include "judge.h"
#include "pdu/core/bytes.h"

enum { CHALLENGE_MIN = sizeof(struct auth_challenge) + 32 /* bytes: with the shortest hash */ };

/* What the host has to say now; AUTH_FAILURE2: nothing else, it is not its turn. */
static enum auth_message due(const struct auth_past *a)
{
        switch (a->last) {
        case AUTH_CHALLENGE:
                return AUTH_REPLY;
        case AUTH_SUCCESS1:
                return a->mutual ? AUTH_SUCCESS2 : AUTH_NEGOTIATE;
        case AUTH_SUCCESS2:
        case AUTH_FAILURE1:
        case AUTH_FAILURE2:
                return AUTH_NEGOTIATE;
        case AUTH_NEGOTIATE:
        case AUTH_REPLY:
                break;
        }
        return a->begun ? AUTH_FAILURE2 : AUTH_NEGOTIATE;
}

/* --- what a host says ------------------------------------------------------------------------- */

static void judge_negotiate(struct auth_past *a, const struct auth_view *v, struct rule_set *found)
{
        const struct auth_negotiate *n = v->negotiate;
        const struct auth_protocol *p = n->protocol;

        while (p < n->protocol + n->napd && p->authid != AUTH_CHAP)
                p++;
        if (p == n->protocol + n->napd) {
                rule_add(found, FAB_AUTH_PROTOCOL);
                return;
        }
        judge_finds(found,
                    p->halen < 1 || p->halen > AUTH_LIST_MAX || p->dhlen < 1 ||
                        p->dhlen > AUTH_LIST_MAX,
                    FAB_AUTH_LENGTHS);
        judge_finds(found,
                    n->sc_c && p->dhlen <= AUTH_LIST_MAX && memchr(p->groups, AUTH_NO_DH, p->dhlen),
                    FAB_AUTH_FIELDS);
        a->null_group =
            n->sc_c && p->dhlen <= AUTH_LIST_MAX && memchr(p->groups, AUTH_NO_DH, p->dhlen);
        a->offered = *p;
        a->sc_c = n->sc_c;
}

/* Most significant byte first. */
static bool is_small(const uint8_t *dhv, unsigned len)
{
        while (len > 1 && *dhv == 0)
                dhv++, len--;
        return len <= 1 && (len == 0 || *dhv <= 1);
}

/* A challenge that was used before. The same message, with T_ID, SEQNUM and whatever else is in it, is one message that
 * was caught twice, as on both sides of a NAT. */
static bool is_repeated(struct auth_value *last, const struct auth_view *v)
{
        uint64_t message = hash_of(HASH_START, v->header, v->len);
        bool same = v->hl && last->hl == v->hl && memcmp(last->value, v->cval, v->hl) == 0;
        bool twin = same && message == last->message;

        last->hl = (uint8_t)v->hl;
        memcpy(last->value, v->cval, v->hl);
        last->message = message;
        return same && !twin;
}

static void judge_reply(struct auth_past *a, struct auth_memory *memory, const struct auth_view *v,
                        struct rule_set *found)
{
        unsigned dhlen = auth_group_len(a->group);

        judge_finds(found, v->hl != auth_hash_len(a->hash), FAB_AUTH_HL);
        judge_finds(found, dhlen ? is_small(v->dhv, v->dhvlen) || v->dhvlen > dhlen : v->dhvlen > 0,
                    FAB_AUTH_DHV);
        a->asked = v->reply->cvalid && le32_get(v->reply->seqnum);
        a->unclear = v->reply->cvalid && !a->asked && !a->sc_c;
        a->returned = v->reply->cvalid && v->hl == auth_hash_len(a->hash) &&
                      memcmp(v->cval, a->challenge, v->hl) == 0;
        judge_finds(found, a->returned, FAB_AUTH_C2);
        judge_finds(found,
                    v->reply->cvalid && v->hl <= AUTH_HASH_MAX &&
                        is_repeated(&memory->seen[PARTY_HOST], v),
                    FAB_AUTH_C2_FRESH);
        judge_finds(found,
                    v->dhvlen % 4 || v->reply->cvalid > 1 ||
                        (!v->reply->cvalid && any_set(v->cval, v->hl)) ||
                        (v->reply->cvalid && !a->sc_c && !le32_get(v->reply->seqnum)),
                    FAB_AUTH_FIELDS);
        judge_finds(found, a->sc_c && !v->reply->cvalid, FAB_AUTH_CONCAT);
}

static void judge_message(struct auth_past *a, struct auth_memory *memory,
                          const struct session_cmd *cmd, struct rule_set *found)
{
        struct auth_view v;
        int wrong = auth_view(&v, cmd->data, cmd->data_len);

        judge_finds(found, wrong == AUTH_BAD_PAYLOAD, FAB_AUTH_LENGTHS);
        if (wrong == AUTH_BAD_PAYLOAD)
                return;
        if (wrong || (v.message != due(a) && v.message != AUTH_FAILURE2)) {
                rule_add(found, FAB_AUTH_ORDER);
                return;
        }
        judge_finds(found, v.message != AUTH_NEGOTIATE && v.t_id != a->t_id, FAB_AUTH_T_ID);
        if (v.message == AUTH_NEGOTIATE)
                judge_negotiate(a, &v, found);
        else if (v.message == AUTH_REPLY)
                judge_reply(a, memory, &v, found);
        else if (v.message == AUTH_FAILURE2)
                judge_finds(found, a->last == AUTH_SUCCESS1 && v.failure->rcodeex == AUTH_FAILED,
                            FAB_AUTH_R2);
        if (v.message == AUTH_NEGOTIATE)
                a->t_id = v.t_id;
        a->last = v.message;
        a->begun = true;
}

static void judge_said(struct auth_past *a, struct auth_memory *memory,
                       const struct session_cmd *cmd, struct rule_set *found)
{
        struct rule_set broken = { 0 };

        judge_message(a, memory, cmd, &broken);
        if (a->last == AUTH_FAILURE2)
                a->failed_ns = cmd->at.time_ns;
        a->wrong = RULE_NONE;
        rule_each_in (&broken, id) {
                rule_add(found, id);
                if (rule_get(id)->reaction == REACT_AUTH && rule_get(id)->reacts == BASIS_PRINTED)
                        a->wrong = id;
        }
}

/* --- and a controller ------------------------------------------------------------------------- */

static bool is_offered(const struct auth_past *a, const struct auth_challenge *c)
{
        const struct auth_protocol *p = &a->offered;
        unsigned hashes = p->halen < AUTH_LIST_MAX ? p->halen : AUTH_LIST_MAX;
        unsigned groups = p->dhlen < AUTH_LIST_MAX ? p->dhlen : AUTH_LIST_MAX;

        return memchr(p->hashes, c->hashid, hashes) && memchr(p->groups, c->dhgid, groups);
}

static void judge_challenge(struct auth_past *a, struct auth_memory *memory,
                            const struct auth_view *v, struct rule_set *found)
{
        const struct auth_challenge *c = v->challenge;
        unsigned dhlen = auth_group_len(c->dhgid);

        judge_finds(found,
                    !is_offered(a, c) || v->hl != auth_hash_len(c->hashid) ||
                        le32_get(c->seqnum) == 0 || (a->sc_c && !dhlen) ||
                        (dhlen ? is_small(v->dhv, v->dhvlen) || v->dhvlen > dhlen : v->dhvlen > 0),
                    FAB_AUTH_CHALLENGE);
        if (v->hl > AUTH_HASH_MAX)
                return;
        judge_finds(found, is_repeated(&memory->seen[PARTY_CONTROLLER], v), FAB_AUTH_FRESH);
        memcpy(a->challenge, v->cval, v->hl);
        a->hash = c->hashid;
        a->group = c->dhgid;
}

/* What the controller holds against the host: advice, for it may be the controller that is set up wrongly. */
static void judge_failure(const struct auth_past *a, uint8_t code, struct rule_set *found)
{
        judge_finds(found, code == AUTH_SC_C_MISMATCH, FAB_AUTH_SC_C);
        judge_finds(found, code == AUTH_HASH_UNUSABLE, FAB_AUTH_HASH);
        judge_finds(found, code == AUTH_GROUP_UNUSABLE, FAB_AUTH_GROUP);
        judge_finds(found, code == AUTH_FAILED && a->last == AUTH_REPLY && !a->returned,
                    FAB_AUTH_R1);
}

static void judge_heard(struct auth_past *a, struct auth_memory *memory,
                        const struct session_cmd *cmd, struct rule_set *found)
{
        struct auth_view v;

        if (auth_view(&v, cmd->data, cmd->data_len) != 0)
                return;
        for (size_t i = v.len; i < cmd->data_len; i++)
                judge_finds(found, cmd->data[i], FAB_AUTH_ZEROES);
        judge_finds(found,
                    (a->wrong || (a->null_group && a->last == AUTH_NEGOTIATE)) &&
                        v.message != AUTH_FAILURE1,
                    FAB_AUTH_REFUSED);
        judge_finds(found,
                    v.message == AUTH_SUCCESS1 && a->last == AUTH_REPLY && !a->unclear &&
                        !v.success1->rvalid != !a->asked,
                    FAB_AUTH_SUCCESS);
        judge_finds(found,
                    v.message == AUTH_SUCCESS1 && a->last == AUTH_REPLY &&
                        v.hl != auth_hash_len(a->hash),
                    FAB_AUTH_SUCCESS_HL);
        judge_finds(found,
                    (a->last == AUTH_NEGOTIATE && v.message == AUTH_SUCCESS1) ||
                        (a->last == AUTH_REPLY && v.message == AUTH_CHALLENGE),
                    FAB_AUTH_ORDER_C2H);
        if (v.message == AUTH_CHALLENGE)
                judge_challenge(a, memory, &v, found);
        else if (v.message == AUTH_SUCCESS1)
                a->mutual = v.success1->rvalid;
        else if (v.message == AUTH_FAILURE1)
                judge_failure(a, v.failure->rcodeex, found);
        a->last = v.message;
}

void judge_auth(struct auth_past *a, struct auth_memory *memory, const struct session_cmd *cmd,
                bool success, struct rule_set *found)
{
        const struct auth_cmd *c = &cmd->sqe.auth;
        bool said = c->fctype == FCTYPE_AUTH_SEND;

        judge_finds(found, c->secp != AUTH_SECP || c->spsp0 != AUTH_SPSP || c->spsp1 != AUTH_SPSP,
                    FAB_AUTH_SECP);
        if (!success)
                judge_finds(found,
                            !said && a->last == AUTH_NEGOTIATE && le32_get(c->len) < CHALLENGE_MIN,
                            FAB_AUTH_ROOM);
        else if (!cmd->data || cmd->data_cut)
                a->lost = true;
        else if (said && !a->lost)
                judge_said(a, memory, cmd, found);
        else if (!a->lost)
                judge_heard(a, memory, cmd, found);
        if (a->sc_c == AUTH_SC_NEW_PSK &&
            (a->last == AUTH_SUCCESS2 || (a->last == AUTH_SUCCESS1 && !a->mutual)))
                a->keyed_ns = cmd->at.time_ns;
}
