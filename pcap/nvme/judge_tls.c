/* SPDX-License-Identifier: BSD-3-Clause */
/* What hosts offer for TLS, and whether they use it where they have to (NVMe/TCP 1.0, 3.6.1). */
#include <string.h>

#include "judge.h"
#include "pdu/nvme/machine/tls_hello.h"
#include "pdu/nvme/wire/discovery.h"

enum { BOTH_SUITES = 1 << TLS_AES_128_GCM | 1 << TLS_AES_256_GCM };
#define KEYED_NS INT64_C(600000000000) /* a generated PSK lives so long */

/* --- a ClientHello ------------------------------------------------------------------------------- */

static bool is_prefixed(const uint8_t *p, size_t len)
{
        return len >= 4 && memcmp(p, "NVMe", 4) == 0;
}

static bool same_pair(const struct tls_identity *a, const struct tls_identity *b)
{
        return strcmp(a->hostnqn, b->hostnqn) == 0 && strcmp(a->subnqn, b->subnqn) == 0;
}

static uint64_t pair_of(const char *hostnqn, const char *subnqn)
{
        uint64_t h = hash_of(HASH_START, hostnqn, strnlen(hostnqn, NQN_FIELD));

        return hash_of(hash_of(h, " ", 1), subnqn, strnlen(subnqn, NQN_FIELD));
}

static bool is_retained(const struct tls_memory *m, const struct connect_data *c)
{
        uint64_t pair = pair_of(c->hostnqn, c->subnqn);

        for (unsigned i = 0; i < TLS_PAIRS; i++)
                if (m->retained[i] == pair)
                        return true;
        return false;
}

static void note_identity(struct tls_past *p, struct tls_memory *m, const struct tls_identity *id)
{
        bool first = !p->retained && !p->generated;

        p->mixed |= !first && !same_pair(&p->id, id);
        if (first)
                p->id = *id;
        p->retained |= !id->generated;
        p->generated |= id->generated;
        if (!id->generated)
                m->retained[m->next_retained++ % TLS_PAIRS] = pair_of(id->hostnqn, id->subnqn);
}

/* Tickets of earlier connections have identities of another kind: those are nobody's business. */
static void judge_identities(struct tls_past *p, struct tls_memory *m,
                             const struct tls_hello_view *v, struct rule_set *found)
{
        const uint8_t *bytes;
        unsigned hashes = 0;
        uint16_t len;

        for (unsigned n = 0; tls_hello_identity(v, n, &bytes, &len); n++) {
                struct tls_identity id;
                bool formed = tls_identity_parse(&id, bytes, len);

                judge_finds(found, !formed && is_prefixed(bytes, len), TLS_HOST_IDENTITY);
                if (!formed)
                        continue;
                note_identity(p, m, &id);
                hashes |= 1u << id.suite;
                judge_finds(found, !(v->suites >> id.suite & 1), TLS_HOST_HASH);
        }
        judge_finds(found, hashes && v->suites == BOTH_SUITES && hashes != BOTH_SUITES,
                    TLS_HOST_TWO_KEYS);
        judge_finds(found, p->retained && p->generated && !p->mixed, TLS_HOST_RETAINED);
}

/* What was caught twice has the same random. */
static void judge_share(struct tls_memory *m, const struct tls_hello_view *v,
                        struct rule_set *found)
{
        uint64_t random = hash_of(HASH_START, v->random, 32), share;

        if (!v->share_group || !v->share_len)
                return;
        share = hash_of(HASH_START, v->share, v->share_len);
        for (unsigned i = 0; i < TLS_SHARES; i++)
                judge_finds(found, m->shares[i].share == share && m->shares[i].random != random,
                            TLS_HOST_SHARE);
        m->shares[m->next_share++ % TLS_SHARES] = (struct tls_share) { share, random };
}

void judge_hello(struct tls_past *p, struct tls_memory *m, const struct trace_hello *hello,
                 struct rule_set *found)
{
        struct tls_hello_view v;

        p->secured = m->shown = true;
        if (!tls_hello_read(&v, hello->p, hello->len))
                return;
        judge_finds(found, v.version < TLS_1_2, TLS_HOST_OLD);
        if (v.version < TLS_1_3)
                return;
        judge_finds(found, v.identities == 0, TLS_HOST_PSK);
        judge_finds(found, v.early, TLS_HOST_EARLY);
        judge_identities(p, m, &v, found);
        judge_share(m, &v, found);
}

/* --- which connections ---------------------------------------------------------------------------- */

static uint64_t name_of(const char *subnqn)
{
        return hash_of(HASH_START, subnqn, strnlen(subnqn, NQN_FIELD));
}

static void remember(struct tls_memory *m, const struct disc_entry *e)
{
        struct tls_entry new = { .name = name_of(e->subnqn),
                                 .required = (e->treq & TREQ_SECURE_MASK) == TREQ_SECURE_REQUIRED };

        for (unsigned i = 0; i < TLS_ENTRIES; i++)
                if (m->entries[i].name == new.name) {
                        m->entries[i].doubtful |= m->entries[i].required != new.required;
                        return;
                }
        m->entries[m->next_entry++ % TLS_ENTRIES] = new;
}

static bool has_extended(const struct session_cmd *cmd, uint64_t offset)
{
        const struct disc_header *h = (const void *)cmd->data;

        return disc_asks_extended(&cmd->sqe) ||
               (!offset && cmd->data_len >= DISC_HEADER_LEN && h->flags & DLPF_EXTENDED);
}

/* Those that lie in it as a whole. */
void remember_entries(struct tls_memory *m, const struct session_cmd *cmd)
{
        uint64_t offset = le32_get(cmd->sqe.cdw12) | (uint64_t)le32_get(cmd->sqe.cdw13) << 32;
        size_t at = offset ? 0 : DISC_HEADER_LEN;

        if (cmd->sqe.opc != NVME_GET_LOG_PAGE || cmd->sqe.cdw10.b[0] != LOG_DISCOVERY ||
            !cmd->data || cmd->data_cut || offset % DISC_ENTRY_LEN || has_extended(cmd, offset))
                return;
        for (; at + DISC_ENTRY_LEN <= cmd->data_len; at += DISC_ENTRY_LEN) {
                const struct disc_entry *e = (const void *)(cmd->data + at);

                if (e->trtype == TRTYPE_TCP && e->subtype == SUBTYPE_NVM && e->subnqn[0])
                        remember(m, e);
        }
}

/* Of an NQN whose entries disagree nobody knows. */
static bool is_required(const struct tls_memory *m, const char *subnqn)
{
        uint64_t name = name_of(subnqn);

        for (unsigned i = 0; i < TLS_ENTRIES; i++)
                if (m->entries[i].name == name)
                        return m->entries[i].required && !m->entries[i].doubtful;
        return false;
}

static bool same_names(const struct connect_data *a, const struct connect_data *b)
{
        return strncmp(a->hostnqn, b->hostnqn, NQN_FIELD) == 0 &&
               strncmp(a->subnqn, b->subnqn, NQN_FIELD) == 0;
}

/* Who has generated a PSK comes back with it: once. */
static bool comes_back_without(const struct tls_past *p, struct tls_memory *m,
                               const struct connect_data *c, int64_t now_ns)
{
        for (unsigned i = 0; i < TLS_KEYED; i++) {
                struct tls_keyed *k = &m->keyed[i];

                if (!k->since_ns || !same_names(&k->names, c))
                        continue;
                if (now_ns > k->since_ns + KEYED_NS) {
                        k->since_ns = 0;
                        continue;
                }
                k->since_ns = 0;
                return !p->secured || !p->generated;
        }
        return false;
}

void judge_channel(const struct tls_past *p, struct tls_memory *m, const struct tls_past *admin,
                   const struct session_cmd *cmd, struct rule_set *found)
{
        const struct connect_data *c = (const void *)cmd->data;
        bool well_known = strncmp(c->subnqn, NQN_DISCOVERY, NQN_FIELD) == 0;
        bool io = le16_get(cmd->sqe.connect.qid) > 0;
        bool named = (p->retained || p->generated) && !p->mixed;

        judge_finds(found,
                    named && (strncmp(p->id.hostnqn, c->hostnqn, NQN_FIELD) != 0 ||
                              (!well_known && strncmp(p->id.subnqn, c->subnqn, NQN_FIELD) != 0)),
                    TLS_HOST_IDENTITY);
        judge_finds(found, io && !p->secured && (!admin || admin->secured) && is_retained(m, c),
                    TLS_HOST_ALL);
        if (!m->shown || well_known)
                return;
        judge_finds(found, !p->secured && is_required(m, c->subnqn), DISC_SECURE);
        judge_finds(found, !io && comes_back_without(p, m, c, cmd->at.time_ns), FAB_AUTH_CONCAT);
}

/* --- keys of authentication ----------------------------------------------------------------------- */

static void judge_exponential(const struct tls_memory *m, const struct session_cmd *cmd,
                              struct rule_set *found)
{
        struct auth_view v;
        uint64_t share;

        if (!cmd->data || cmd->data_cut || auth_view(&v, cmd->data, cmd->data_len) != 0 ||
            v.message != AUTH_REPLY || !v.dhvlen)
                return;
        share = hash_of(HASH_START, v.dhv, v.dhvlen);
        for (unsigned i = 0; i < TLS_SHARES; i++)
                judge_finds(found, m->shares[i].share == share, TLS_HOST_APART);
}

/* A pair that has a PSK has no use for another one. */
void judge_keys(struct tls_past *p, struct tls_memory *m, const struct connect_data *names,
                const struct auth_past *a, const struct session_cmd *cmd, struct rule_set *found)
{
        bool says = cmd->sqe.fctype == FCTYPE_AUTH_SEND;

        if (says)
                judge_exponential(m, cmd, found);
        judge_finds(found,
                    says && a->last == AUTH_NEGOTIATE && a->sc_c && p->retained && !p->generated,
                    FAB_AUTH_CONCAT);
        if (!a->keyed_ns || p->keyed)
                return;
        p->keyed = true;
        m->keyed[m->next_keyed++ % TLS_KEYED] = (struct tls_keyed) { *names, a->keyed_ns };
}
