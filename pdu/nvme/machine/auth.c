/* SPDX-License-Identifier: BSD-3-Clause */
#include "auth.h"

#include <string.h>

#include "pdu/core/plant.h"
#include "pdu/core/wipe.h"

static int fail(struct auth *a, enum auth_failure_code code, const char *why)
{
        a->failed = (uint8_t)code;
        a->why = why;
        return -1;
}

/* 0: it is overlooked. */
static int breaks(struct auth *a, enum rule_id rule, const char *why)
{
        if (a->cfg->policy && rule_in(&a->cfg->policy->waived, rule))
                return 0;
        return fail(a, (enum auth_failure_code)rule_fault(rule).code, why);
}

static bool violates(const struct auth *a, enum rule_id rule)
{
        return a->cfg->policy && rule_in(&a->cfg->policy->violated, rule);
}

static int no_crypto(struct auth *a)
{
        return fail(a, AUTH_FAILED, "the cryptographic library failed");
}

/* --- computations ----------------------------------------------------------------------------- */

static const struct auth_crypto *crypto(const struct auth *a)
{
        return a->cfg->crypto;
}

static unsigned hash_len(const struct auth *a)
{
        return auth_hash_len(a->hash);
}

static struct auth_slice string(const char *s)
{
        return (struct auth_slice) { s, strlen(s) };
}

/* A key with a hash is tied to the NQN of whom it is for: 8.3.4.5.8. */
static int tie_key(const struct auth *a, const struct auth_key *key, const char *nqn,
                   struct auth_slice *tied, uint8_t buf[AUTH_HASH_MAX])
{
        const struct auth_slice raw = { key->bytes, key->len };
        const struct auth_slice parts[] = { string(nqn), string("NVMe-over-Fabrics") };

        *tied = raw;
        if (key->hash == 0)
                return 0;
        *tied = (struct auth_slice) { buf, auth_hash_len(key->hash) };
        return crypto(a)->digest((enum auth_hash)key->hash, &raw, parts, 2, buf);
}

/* Ca: the challenge, augmented where a DH value was exchanged. */
static int augment(const struct auth *a, const uint8_t *challenge, uint8_t out[AUTH_HASH_MAX])
{
        const struct auth_slice session = { a->session, hash_len(a) };
        const struct auth_slice c = { challenge, hash_len(a) };

        memcpy(out, challenge, hash_len(a));
        return a->group == AUTH_NO_DH
                   ? 0
                   : crypto(a)->digest((enum auth_hash)a->hash, &session, &c, 1, out);
}

/* R1 (of the host) or R2 of 8.3.4.5.4 and 8.3.4.5.5. */
static int respond(const struct auth *a, enum party who, uint8_t out[AUTH_HASH_MAX])
{
        bool host = who == PARTY_HOST;
        const struct auth_config *cfg = a->cfg;
        const char *own = host ? cfg->hostnqn : cfg->subnqn;
        const char *other = host ? cfg->subnqn : cfg->hostnqn;
        uint8_t ca[AUTH_HASH_MAX], tied[AUTH_HASH_MAX];
        const le32_t s = le32(host ? a->s1 : a->s2);
        const le16_t t_id = le16(a->t_id);
        struct auth_slice key;
        int rc = -1;
        const struct auth_slice parts[] = {
                { ca, hash_len(a) },
                { &s, sizeof(s) },
                { &t_id, sizeof(t_id) },
                { &a->sc_c, 1 },
                string(host ? "HostHost" : "Controller"),
                string(own),
                { "", 1 },
                string(other),
        };

        if (tie_key(a, host ? &cfg->keys.host : &cfg->keys.ctrl, own, &key, tied) == 0 &&
            augment(a, host ? a->c1 : a->c2, ca) == 0)
                rc = crypto(a)->digest((enum auth_hash)a->hash, &key, parts,
                                       sizeof(parts) / sizeof(parts[0]), out);
        wipe(ca, sizeof(ca));
        wipe(tied, sizeof(tied));
        return rc;
}

/* In a time that does not tell where they differ. */
static bool same(const uint8_t *a, const uint8_t *b, unsigned n)
{
        uint8_t differ = 0;

        while (n-- > 0)
                differ |= *a++ ^ *b++;
        return differ == 0;
}

static int verify(struct auth *a, enum party who, const uint8_t *response, unsigned hl)
{
        unsigned n = PLANTED(AUTH_HL) ? hl : hash_len(a);
        uint8_t want[AUTH_HASH_MAX];

        if (who == PARTY_HOST && a->credulous)
                return 0;
        if (respond(a, who, want) < 0)
                return no_crypto(a);
        if (!same(want, response, flawed(a->cfg->policy, FLAW_AUTH_SHORT) ? 8 : n))
                return who == PARTY_HOST
                           ? breaks(a, FAB_AUTH_R1, "the response of the host is wrong")
                           : breaks(a, FAB_AUTH_R2, "the response of the controller is wrong");
        return 0;
}

static int draw_seqnum(const struct auth *a, uint32_t *s)
{
        do
                if (crypto(a)->random(s, sizeof(*s)) < 0)
                        return -1;
        while (*s == 0);
        return 0;
}

static void put_small(uint8_t *number, unsigned len, uint8_t value)
{
        memset(number, 0, len);
        number[len - 1] = value;
}

static bool is_small(const uint8_t *number, unsigned len)
{
        static const uint8_t zero[AUTH_GROUP_MAX];

        return number[len - 1] <= 1 && memcmp(number, zero, len - 1) == 0;
}

/* The own half of the DH exchange into out. */
static int give_dh(struct auth *a, uint8_t *out)
{
        if (a->weak == AUTH_STRONG)
                return crypto(a)->power((enum auth_group)a->group, NULL, a->exponent,
                                        sizeof(a->exponent), out);
        if (a->weak == AUTH_TOP)
                return crypto(a)->top((enum auth_group)a->group, out);
        put_small(out, auth_group_len(a->group), a->weak == AUTH_ONE);
        return 0;
}

static int offer_dh(struct auth *a, uint8_t *out)
{
        return crypto(a)->random(a->exponent, sizeof(a->exponent)) < 0 ? -1 : give_dh(a, out);
}

static bool takes_any_dhv(const struct auth *a)
{
        return flawed(a->cfg->policy,
                      a->cfg->role == PARTY_HOST ? FLAW_HOST_AUTH_DHV : FLAW_AUTH_ANY_DHV);
}

static bool is_top(const struct auth *a, const uint8_t *value)
{
        uint8_t top[AUTH_GROUP_MAX];

        return crypto(a)->top((enum auth_group)a->group, top) == 0 &&
               memcmp(value, top, auth_group_len(a->group)) == 0;
}

/* g^xy mod p; of a weak value, where that is used, the value itself, or, of p - 1, what an even exponent makes of it.
 * -1: the peer's is not from 2 to p - 2. */
static int share(struct auth *a, const uint8_t *value, uint8_t *shared)
{
        unsigned len = auth_group_len(a->group);

        if (a->weak != AUTH_STRONG)
                put_small(shared, len, a->weak != AUTH_ZERO);
        else if (takes_any_dhv(a) && is_small(value, len))
                memcpy(shared, value, len);
        else if (takes_any_dhv(a) && is_top(a, value))
                put_small(shared, len, 1);
        else
                return crypto(a)->power((enum auth_group)a->group, value, a->exponent,
                                        sizeof(a->exponent), shared);
        return 0;
}

/* H(g^xy mod p) of the own exponent and the peer's value. */
static int finish_dh(struct auth *a, const struct auth_view *v)
{
        unsigned len = auth_group_len(a->group);
        uint8_t value[AUTH_GROUP_MAX] = { 0 }, shared[AUTH_GROUP_MAX];
        const struct auth_slice part = { shared, len };
        int rc;

        memcpy(value + len - v->dhvlen, v->dhv, v->dhvlen);
        if (share(a, value, shared) < 0)
                return breaks(a, a->cfg->role == PARTY_HOST ? FAB_AUTH_CHALLENGE : FAB_AUTH_DHV,
                              "DHV is not from 2 to p - 2");
        rc = crypto(a)->digest((enum auth_hash)a->hash, NULL, &part, 1, a->session);
        wipe(shared, sizeof(shared));
        return rc < 0 ? no_crypto(a) : 0;
}

/* --- what may be used ------------------------------------------------------------------------- */

static bool allows_hash(const struct auth *a, uint8_t hash)
{
        if (hash == AUTH_SHA256 && a->cfg->role == PARTY_CONTROLLER && violates(a, AUTH_MANDATORY))
                return false;
        return auth_hash_len(hash) && (!a->cfg->keys.hashes || a->cfg->keys.hashes >> hash & 1);
}

/* A PSK is generated of a DH exchange: 8.3.4.5.9. */
static bool allows_group(const struct auth *a, uint8_t group)
{
        if (group == AUTH_NO_DH && a->sc_c != AUTH_SC_NONE)
                return a->cfg->role == PARTY_CONTROLLER && violates(a, FAB_AUTH_CHALLENGE);
        return group < AUTH_GROUPS && (!a->cfg->keys.groups || a->cfg->keys.groups >> group & 1);
}

static bool allows_sc_c(const struct auth *a, uint8_t sc_c)
{
        unsigned allowed = a->allowed ? a->allowed : 1u << AUTH_SC_NONE;

        return sc_c < 8 && allowed >> sc_c & 1;
}

static const char *wrong_dhv(const struct auth *a, const struct auth_view *v)
{
        unsigned len = auth_group_len(a->group);

        if (len > 0 && v->dhvlen == 0 && takes_any_dhv(a))
                return NULL;
        if (len == 0 ? v->dhvlen != 0 : v->dhvlen == 0)
                return "DHVLEN does not match the DH group";
        if (v->dhvlen > len || v->dhvlen % 4)
                return "DHVLEN is not the length of the DH group";
        return NULL;
}

static const char *wrong_hl(const struct auth *a, const struct auth_view *v)
{
        return v->hl == hash_len(a) || PLANTED(AUTH_HL) ? NULL
                                                        : "HL does not match the hash function";
}

/* --- Negotiate: 8.3.4.4.1 --------------------------------------------------------------------- */

/* Nearest to what is usual first; no DH exchange is the last resort. */
static size_t make_negotiate(struct auth *a, struct auth_header *h)
{
        struct auth_negotiate *n = (void *)h;
        struct auth_protocol *p = n->protocol;

        n->sc_c = a->sc_c;
        n->napd = 1;
        p->authid = AUTH_CHAP;
        for (uint8_t i = AUTH_SHA256; i < AUTH_HASHES; i++)
                if (allows_hash(a, i))
                        p->hashes[p->halen++] = i;
        for (uint8_t i = AUTH_FFDHE2048; i < AUTH_GROUPS; i++)
                if (allows_group(a, i))
                        p->groups[p->dhlen++] = i;
        if (allows_group(a, AUTH_NO_DH))
                p->groups[p->dhlen++] = AUTH_NO_DH;
        a->t_id = a->cfg->t_id;
        return sizeof(*n) + sizeof(*p);
}

static unsigned listed(uint8_t len)
{
        return len < 1 ? 1 : len > AUTH_LIST_MAX ? AUTH_LIST_MAX : len;
}

static int choose(struct auth *a, const struct auth_protocol *p)
{
        unsigned hashes = listed(p->halen), groups = listed(p->dhlen), i = 0, k = 0;
        int wrong = 0;

        if (PLANTED(AUTH_LISTS))
                hashes = p->halen;
        if (hashes != p->halen || groups != p->dhlen)
                wrong = breaks(a, FAB_AUTH_LENGTHS, "HALEN or DHLEN is not from 1 to 30");
        while (i < hashes && !allows_hash(a, p->hashes[i]))
                i++;
        if (!wrong && i == hashes)
                wrong = breaks(a, FAB_AUTH_HASH, "no hash function of the host is allowed");
        while (k < groups && !allows_group(a, p->groups[k]))
                k++;
        if (!wrong && k == groups)
                wrong = breaks(a, FAB_AUTH_GROUP, "no DH group of the host is allowed");
        if (!wrong && a->sc_c != AUTH_SC_NONE && memchr(p->groups, AUTH_NO_DH, groups))
                wrong = breaks(a, FAB_AUTH_GROUP, "the NULL DH group with a secure channel");
        a->hash = i < hashes ? p->hashes[i] : AUTH_SHA256;
        a->group = k < groups ? p->groups[k] : AUTH_NO_DH;
        return wrong;
}

static int take_negotiate(struct auth *a, const struct auth_view *v)
{
        static const struct auth_protocol usual = {
                .authid = AUTH_CHAP, .halen = 1, .dhlen = 1, .hashes = { AUTH_SHA256 }
        };
        const struct auth_negotiate *n = v->negotiate;
        unsigned i = 0;

        if (!allows_sc_c(a, n->sc_c) &&
            breaks(a, FAB_AUTH_SC_C,
                   n->sc_c == AUTH_SC_NONE ? "a secure channel is required"
                                           : "such a secure channel is not supported here") < 0)
                return -1;
        a->sc_c = allows_sc_c(a, n->sc_c) ? n->sc_c : AUTH_SC_NONE;
        while (i < n->napd && n->protocol[i].authid != AUTH_CHAP)
                i++;
        if (n->napd > 1 && violates(a, FAB_AUTH_SEVERAL))
                i = n->napd;
        if (i < n->napd)
                return choose(a, &n->protocol[i]);
        if (breaks(a, FAB_AUTH_PROTOCOL, "DH-HMAC-CHAP is not among the protocols") < 0)
                return -1;
        return choose(a, n->napd ? n->protocol : &usual);
}

/* --- Challenge: 8.3.4.5.3 --------------------------------------------------------------------- */

static unsigned challenge_len(const struct auth *a)
{
        unsigned hl = hash_len(a);

        if (flawed(a->cfg->policy, FLAW_AUTH_HL))
                return hl < AUTH_HASH_MAX ? AUTH_HASH_MAX : AUTH_HASH_MAX / 2;
        return hl;
}

static size_t make_challenge(struct auth *a, struct auth_header *h)
{
        struct auth_challenge *c = (void *)h;
        unsigned hl = challenge_len(a), dhvlen = auth_group_len(a->group);

        if (crypto(a)->random(a->c1, hl) < 0 || draw_seqnum(a, &a->s1) < 0 ||
            (dhvlen && offer_dh(a, c->values + hl) < 0))
                return 0;
        if (violates(a, FAB_AUTH_FRESH))
                memset(a->c1, 0x5a, hl);
        if (flawed(a->cfg->policy, FLAW_AUTH_DHVLEN_0))
                dhvlen = 0;
        if (violates(a, FAB_AUTH_CHALLENGE) && !a->weak && hl == hash_len(a))
                a->s1 = 0;
        c->hl = (uint8_t)hl;
        c->hashid = a->hash;
        c->dhgid = a->group;
        c->dhvlen = le16((uint16_t)dhvlen);
        c->seqnum = le32(a->s1);
        memcpy(c->values, a->c1, hl);
        return sizeof(*c) + hl + dhvlen;
}

static int take_challenge(struct auth *a, const struct auth_view *v)
{
        const struct auth_challenge *c = v->challenge;
        const char *wrong;

        if (!allows_hash(a, c->hashid) || !allows_group(a, c->dhgid))
                return breaks(a, FAB_AUTH_CHALLENGE,
                              "the hash function or DH group was not "
                              "proposed");
        a->hash = c->hashid;
        a->group = c->dhgid;
        a->s1 = le32_get(c->seqnum);
        if ((wrong = wrong_hl(a, v)) || (wrong = wrong_dhv(a, v)))
                return breaks(a, FAB_AUTH_CHALLENGE, wrong);
        if (a->s1 == 0)
                return breaks(a, FAB_AUTH_CHALLENGE, "SEQNUM is 0");
        memcpy(a->c1, v->cval, v->hl);
        if (a->group == AUTH_NO_DH)
                return 0;
        if (crypto(a)->random(a->exponent, sizeof(a->exponent)) < 0)
                return no_crypto(a);
        return finish_dh(a, v);
}

/* --- Reply: 8.3.4.5.4 ------------------------------------------------------------------------- */

/* C2 differs from C1. S2 is 0 where it is for a PSK alone. */
static int draw_challenge(struct auth *a)
{
        do
                if (crypto(a)->random(a->c2, hash_len(a)) < 0)
                        return -1;
        while (same(a->c1, a->c2, hash_len(a)));
        return a->mutual ? draw_seqnum(a, &a->s2) : 0;
}

static size_t make_reply(struct auth *a, struct auth_header *h)
{
        struct auth_reply *r = (void *)h;
        unsigned hl = hash_len(a), dhvlen = auth_group_len(a->group);

        bool challenges;

        a->mutual = a->cfg->keys.ctrl.len > 0;
        challenges = a->mutual || a->sc_c != AUTH_SC_NONE;
        if ((challenges && draw_challenge(a) < 0) || respond(a, PARTY_HOST, r->values) < 0 ||
            (dhvlen && give_dh(a, r->values + 2 * hl) < 0))
                return 0;
        r->hl = (uint8_t)hl;
        r->cvalid = challenges;
        r->dhvlen = le16((uint16_t)dhvlen);
        r->seqnum = le32(a->s2);
        memcpy(r->values + hl, a->c2, hl);
        return sizeof(*r) + 2 * hl + dhvlen;
}

/* S2 of 0 comes with a C2 that is for a secure channel alone. */
static int take_reply(struct auth *a, const struct auth_view *v)
{
        const struct auth_reply *r = v->reply;
        const char *wrong;

        if ((wrong = wrong_hl(a, v))) /* overlooked: there is nothing to compare */
                return breaks(a, FAB_AUTH_HL, wrong);
        if ((wrong = wrong_dhv(a, v)))
                return breaks(a, FAB_AUTH_DHV, wrong);
        if (r->cvalid > 1)
                return fail(a, AUTH_BAD_PAYLOAD, "CVALID is neither 0 nor 1");
        if (a->sc_c != AUTH_SC_NONE && !r->cvalid)
                return fail(a, AUTH_BAD_PAYLOAD, "a secure channel without a challenge");
        a->s2 = le32_get(r->seqnum);
        a->mutual = r->cvalid && a->s2 != 0;
        memcpy(a->c2, v->cval, v->hl);
        if (r->cvalid && same(a->c1, a->c2, v->hl) && breaks(a, FAB_AUTH_C2, "C2 equals C1") < 0)
                return -1;
        if (a->mutual && a->cfg->keys.ctrl.len == 0)
                return fail(a, AUTH_FAILED, "no key to authenticate the controller with");
        if (a->group != AUTH_NO_DH && finish_dh(a, v) < 0)
                return -1;
        return verify(a, PARTY_HOST, v->rval, v->hl);
}

/* --- Success1 and Success2: 8.3.4.5.5, 8.3.4.5.6 ---------------------------------------------- */

static size_t make_success1(struct auth *a, struct auth_header *h)
{
        struct auth_success1 *s = (void *)h;

        if (a->mutual && respond(a, PARTY_CONTROLLER, s->values) < 0)
                return 0;
        s->values[0] ^= violates(a, FAB_AUTH_R2);
        s->hl = (uint8_t)hash_len(a);
        if (violates(a, FAB_AUTH_SUCCESS_HL))
                s->hl = s->hl == AUTH_HASH_MAX ? AUTH_HASH_MAX / 2 : AUTH_HASH_MAX;
        s->rvalid = a->mutual != violates(a, FAB_AUTH_SUCCESS);
        return sizeof(*s) + s->hl;
}

static int take_success1(struct auth *a, const struct auth_view *v)
{
        const char *wrong = wrong_hl(a, v);

        if (wrong) /* overlooked: there is nothing to compare */
                return breaks(a, FAB_AUTH_SUCCESS_HL, wrong);
        if (flawed(a->cfg->policy, FLAW_HOST_UNPROVEN) && !v->success1->rvalid)
                return 0;
        if (a->mutual && v->success1->rvalid != 1)
                return fail(a, AUTH_FAILED, "the controller does not authenticate itself");
        if (!a->mutual && v->success1->rvalid != 0)
                return fail(a, AUTH_BAD_PAYLOAD, "RVALID without a challenge");
        if (flawed(a->cfg->policy, FLAW_HOST_PROOF_BLIND))
                return 0;
        return a->mutual ? verify(a, PARTY_CONTROLLER, v->rval, v->hl) : 0;
}

static size_t make_success2(struct auth *a, struct auth_header *h)
{
        (void)a;
        (void)h;
        return sizeof(struct auth_success2);
}

static int take_success2(struct auth *a, const struct auth_view *v)
{
        (void)a;
        (void)v;
        return 0;
}

/* --- the sequence: figure 738 ----------------------------------------------------------------- */

static const struct step {
        enum auth_message message;
        enum party by;
        size_t (*make)(struct auth *a, struct auth_header *h); /* into zeroes; 0: no crypto */
        int (*take)(struct auth *a, const struct auth_view *v);
} sequence[] = {
        { AUTH_NEGOTIATE, PARTY_HOST, make_negotiate, take_negotiate },
        { AUTH_CHALLENGE, PARTY_CONTROLLER, make_challenge, take_challenge },
        { AUTH_REPLY, PARTY_HOST, make_reply, take_reply },
        { AUTH_SUCCESS1, PARTY_CONTROLLER, make_success1, take_success1 },
        { AUTH_SUCCESS2, PARTY_HOST, make_success2, take_success2 }, /* if mutual */
};
enum { STEPS = sizeof(sequence) / sizeof(sequence[0]) };

static enum auth_weak weak_challenge(const struct rule_policy *p)
{
        if (flawed(p, FLAW_AUTH_DHV_0) || flawed(p, FLAW_AUTH_DHVLEN_0))
                return AUTH_ZERO;
        return flawed(p, FLAW_AUTH_DHV_1) ? AUTH_ONE : AUTH_STRONG;
}

void auth_start(struct auth *a, const struct auth_config *cfg)
{
        *a = (struct auth) { .cfg = cfg };
        if (cfg->role == PARTY_CONTROLLER)
                a->weak = (uint8_t)weak_challenge(cfg->policy);
}

enum auth_turn auth_turn(const struct auth *a)
{
        if (a->failed)
                return a->told ? AUTH_REFUSED : AUTH_SPEAK;
        if (a->at == STEPS || (sequence[a->at].message == AUTH_SUCCESS2 && !a->mutual))
                return AUTH_DONE;
        return sequence[a->at].by == a->cfg->role ? AUTH_SPEAK : AUTH_LISTEN;
}

bool auth_computes(const struct auth *a)
{
        return !a->failed && a->group != AUTH_NO_DH && a->at < STEPS &&
               (sequence[a->at].message == AUTH_CHALLENGE || sequence[a->at].message == AUTH_REPLY);
}

/* 8.3.4.5.9: of the session's key and both challenges. */
static int generate_psk(struct auth *a)
{
        const struct auth_slice key = { a->session, hash_len(a) };
        const struct auth_slice parts[] = { { a->c1, hash_len(a) }, { a->c2, hash_len(a) } };
        uint8_t psk[AUTH_HASH_MAX];
        int rc = crypto(a)->digest((enum auth_hash)a->hash, &key, parts, 2, psk);

        if (violates(a, FAB_AUTH_PSK))
                psk[0] ^= 1;
        memcpy(a->session, psk, rc < 0 ? 0 : hash_len(a));
        wipe(psk, sizeof(psk));
        return rc;
}

bool auth_take_psk(struct auth *a, struct auth_key *psk)
{
        if (!a->generated)
                return false;
        *psk = (struct auth_key) { .len = (uint8_t)hash_len(a) };
        memcpy(psk->bytes, a->session, psk->len);
        wipe(a->session, sizeof(a->session));
        a->generated = false;
        return true;
}

/* At its end, however it ended, what it computed with is of no more use. */
static void wipe_secrets(struct auth *a)
{
        bool done = !a->failed && auth_turn(a) == AUTH_DONE;

        if (!a->failed && !done)
                return;
        a->generated =
            done && a->sc_c != AUTH_SC_NONE && a->group != AUTH_NO_DH && generate_psk(a) == 0;
        wipe(a->exponent, sizeof(a->exponent));
        if (!a->generated)
                wipe(a->session, sizeof(a->session));
        wipe(a->c1, sizeof(a->c1));
        wipe(a->c2, sizeof(a->c2));
}

static void put_header(const struct auth *a, struct auth_header *h, enum auth_message m)
{
        h->type = (uint8_t)(m >> 8);
        h->id = (uint8_t)m;
        h->t_id = le16(a->t_id);
}

static size_t make_failure(struct auth *a, struct auth_failure *f)
{
        put_header(a, &f->h, a->cfg->role == PARTY_HOST ? AUTH_FAILURE2 : AUTH_FAILURE1);
        f->rcode = AUTH_RCODE;
        f->rcodeex = a->failed;
        a->told = true;
        return sizeof(*f);
}

size_t auth_speak(struct auth *a, void *buf)
{
        const struct step *step = &sequence[a->at];
        size_t len = 0;

        memset(buf, 0, AUTH_MESSAGE_MAX);
        if (!a->failed && (len = step->make(a, buf)) == 0) {
                no_crypto(a);
                memset(buf, 0, AUTH_MESSAGE_MAX);
        }
        if (a->failed) {
                wipe_secrets(a);
                return make_failure(a, buf);
        }
        put_header(a, buf,
                   step->message == AUTH_CHALLENGE && violates(a, FAB_AUTH_ORDER_C2H)
                       ? AUTH_SUCCESS1
                       : step->message);
        a->at++;
        wipe_secrets(a);
        return len;
}

static bool is_failure_of_peer(const struct auth *a, const struct auth_view *v)
{
        return v->message == (a->cfg->role == PARTY_HOST ? AUTH_FAILURE1 : AUTH_FAILURE2);
}

static bool is_due(const struct auth *a, const struct auth_view *v)
{
        return auth_turn(a) == AUTH_LISTEN && v->message == sequence[a->at].message;
}

/* One that is not due, where that is overlooked, is not listened to. */
static void take_message(struct auth *a, const struct auth_view *v)
{
        if (!is_due(a, v))
                breaks(a, a->cfg->role == PARTY_HOST ? FAB_AUTH_ORDER_C2H : FAB_AUTH_ORDER,
                       "the message is not the one that is due");
        else if ((v->message == AUTH_NEGOTIATE || v->t_id == a->t_id ||
                  breaks(a, FAB_AUTH_T_ID, "the message has the T_ID of another transaction") ==
                      0) &&
                 sequence[a->at].take(a, v) == 0)
                a->at++;
}

static void hear(struct auth *a, const void *data, size_t len)
{
        struct auth_view v;
        int wrong = auth_view(&v, data, len);

        if (a->failed) /* the first failure is told */
                return;
        if (a->at == 0 &&
            a->cfg->role == PARTY_CONTROLLER) /* also of a transaction that fails now */
                a->t_id = v.t_id;
        if (wrong) {
                fail(a, (enum auth_failure_code)wrong,
                     wrong == AUTH_BAD_MESSAGE ? "this is not an authentication message"
                                               : "the message is truncated");
                return;
        }
        if (is_failure_of_peer(a, &v)) {
                fail(a, v.failure->rcodeex ? v.failure->rcodeex : AUTH_FAILED, NULL);
                a->told = true;
                return;
        }
        take_message(a, &v);
}

void auth_hear(struct auth *a, const void *data, size_t len)
{
        hear(a, data, len);
        wipe_secrets(a);
}
