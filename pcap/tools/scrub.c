/* SPDX-License-Identifier: BSD-3-Clause */
#include "scrub.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "pcap/nvme/judge.h"
#include "pdu/nvme/wire/auth.h"
#include "pdu/nvme/wire/identify.h"
#include "pdu/nvme/wire/reservation.h"

/* --- SipHash-2-4 (Aumasson and Bernstein) ----------------------------------------------------- */

static uint64_t rotate(uint64_t v, int by)
{
        return v << by | v >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
        v[3] ^= word;
        sip_round(v);
        sip_round(v);
        v[0] ^= word;
}

static uint64_t scrub_hash(const struct scrub *s, const void *p, size_t n)
{
        uint64_t v[4] = { s->key[0] ^ UINT64_C(0x736f6d6570736575),
                          s->key[1] ^ UINT64_C(0x646f72616e646f6d),
                          s->key[0] ^ UINT64_C(0x6c7967656e657261),
                          s->key[1] ^ UINT64_C(0x7465646279746573) };
        const uint8_t *at = p;
        size_t left = n;

        for (; left >= 8; at += 8, left -= 8)
                sip_word(v, le_get(at, 8));
        sip_word(v, (left ? le_get(at, (unsigned)left) : 0) | (uint64_t)n << 56);
        v[2] ^= 0xff;
        for (int i = 0; i < 4; i++)
                sip_round(v);
        return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* n bytes that stand for these; all zero stays so, for that means that there is none. */
static void replace_bytes(const struct scrub *s, uint8_t *p, size_t n)
{
        uint64_t word, seed[2] = { scrub_hash(s, p, n), 0 };
        size_t i;

        for (i = 0; i < n && p[i] == 0; i++)
                continue;
        if (i == n)
                return;
        for (i = 0; i < n; i += 8) {
                word = scrub_hash(s, seed, sizeof(seed));
                memcpy(p + i, &word, n - i < 8 ? n - i : 8);
                seed[1]++;
        }
}

/* --- addresses -------------------------------------------------------------------------------- */

/* 10.0.0.0/8 and fd00::/8; the port stays. */
void scrub_address(const struct scrub *s, struct capture_end *e)
{
        size_t n = e->family == AF_INET ? 4 : 16;
        uint64_t hash = scrub_hash(s, e->addr, n);

        memset(e->addr + 1, 0, n - 1);
        e->addr[0] = e->family == AF_INET ? 10 : 0xfd;
        memcpy(e->addr + (n == 4 ? 1 : 8), &hash, n == 4 ? 3 : 8);
}

static void replace_address_text(const struct scrub *s, uint8_t *p, size_t n)
{
        struct capture_end e = { .family = AF_INET };
        char text[INET6_ADDRSTRLEN + 1] = "";

        text_copy(text, sizeof(text), (const char *)p, n);
        memset(p, 0, n);
        if (inet_pton(AF_INET, text, e.addr) != 1) {
                e.family = AF_INET6;
                if (inet_pton(AF_INET6, text, e.addr) != 1)
                        return;
        }
        scrub_address(s, &e);
        inet_ntop(e.family, e.addr, text, sizeof(text));
        text_fill((char *)p, n, text);
}

/* --- structures ------------------------------------------------------------------------------- */

enum kind { KIND_NQN, KIND_BYTES, KIND_TEXT, KIND_ADDRESS, KIND_ZERO };

struct place {
        uint32_t at, len;
        enum kind kind;
};

/* Other letters and digits, and what is neither stays as it is: so does what is wrong with it. */
static void replace_letters(const struct scrub *s, uint8_t *p, size_t n)
{
        uint64_t word = 0, seed[2] = { scrub_hash(s, p, n), 0 };

        for (size_t i = 0; i < n; i++, word >>= 8) {
                uint8_t c = p[i];

                if (i % 8 == 0) {
                        seed[1] = i;
                        word = scrub_hash(s, seed, sizeof(seed));
                }
                if (c >= 'a' && c <= 'z')
                        p[i] = (uint8_t)('a' + (word & 0xff) % 26);
                else if (c >= 'A' && c <= 'Z')
                        p[i] = (uint8_t)('A' + (word & 0xff) % 26);
                else if (c >= '0' && c <= '9')
                        p[i] = (uint8_t)('0' + (word & 0xff) % 10);
                else if (c > '~')
                        p[i] = 0xff;
        }
}

static void replace_nqn(const struct scrub *s, uint8_t *p, size_t n)
{
        size_t len = strnlen((const char *)p, n);
        uint64_t hash = scrub_hash(s, p, len);
        size_t date = len > 12 && memcmp(p, "nqn.", 4) == 0 ? 12 : 0; /* "nqn.yyyy-mm." */
        char name[64];

        if (len == 0 || strncmp((const char *)p, NQN_DISCOVERY, n) == 0)
                return;
        if (!nqn_valid((const char *)p, n, false)) {
                replace_letters(s, p + date, len - date);
                memset(p + len, 0, n - len);
                return;
        }
        snprintf(name, sizeof(name), ANONYMOUS_NQN "%016llx", (unsigned long long)hash);
        text_fill((char *)p, n, name);
}

static void replace(const struct scrub *s, enum kind kind, uint8_t *p, size_t n)
{
        switch (kind) {
        case KIND_NQN:
                replace_nqn(s, p, n);
                break;
        case KIND_BYTES:
                replace_bytes(s, p, n);
                break;
        case KIND_TEXT:
                replace_letters(s, p, n);
                break;
        case KIND_ADDRESS:
                replace_address_text(s, p, n);
                break;
        case KIND_ZERO:
                memset(p, 0, n);
                break;
        }
}

/* A piece of data: n bytes at `offset` of the whole. */
struct piece {
        uint64_t offset;
        uint8_t *p;
        size_t n;
};

static void replace_at(const struct scrub *s, const struct piece *d, uint64_t at, uint32_t len,
                       enum kind kind)
{
        uint64_t from = at > d->offset ? at : d->offset;
        uint64_t to = at + len < d->offset + d->n ? at + len : d->offset + d->n;

        if (from >= to)
                return;
        if (to - from < len)
                kind = KIND_ZERO;
        replace(s, kind, d->p + (from - d->offset), (size_t)(to - from));
}

static void replace_all(const struct scrub *s, const struct piece *d, uint64_t base,
                        const struct place *places, size_t n)
{
        for (size_t i = 0; i < n; i++)
                replace_at(s, d, base + places[i].at, places[i].len, places[i].kind);
}

#define PLACE(type, member, kind)                                                                  \
        {                                                                                          \
                offsetof(type, member), sizeof(((type *)0)->member), kind                          \
        }
#define LISTED(list) list, sizeof(list) / sizeof((list)[0])

static const struct place in_connect[] = {
        PLACE(struct connect_data, hostid, KIND_BYTES),
        PLACE(struct connect_data, subnqn, KIND_NQN),
        PLACE(struct connect_data, hostnqn, KIND_NQN),
};
static const struct place in_id_ctrl[] = {
        PLACE(struct id_ctrl, sn, KIND_TEXT),    PLACE(struct id_ctrl, mn, KIND_TEXT),
        PLACE(struct id_ctrl, fr, KIND_TEXT),    PLACE(struct id_ctrl, fguid, KIND_BYTES),
        PLACE(struct id_ctrl, subnqn, KIND_NQN), PLACE(struct id_ctrl, vs, KIND_ZERO),
};
static const struct place in_id_ns[] = {
        PLACE(struct id_ns, nguid, KIND_BYTES),
        PLACE(struct id_ns, eui64, KIND_BYTES),
        PLACE(struct id_ns, vs, KIND_ZERO),
};
static const struct place in_disc_entry[] = {
        PLACE(struct disc_entry, subnqn, KIND_NQN),
        PLACE(struct disc_entry, traddr, KIND_ADDRESS),
};
/* Each slot on its own: the revision in use is the same text as FR. */
enum { REVISION = 8 };
#define SLOT(i)                                                                                    \
        {                                                                                          \
                offsetof(struct log_fw_slot, frs) + (i)*REVISION, REVISION, KIND_TEXT              \
        }
static const struct place in_fw_slot[] = {
        SLOT(0), SLOT(1), SLOT(2), SLOT(3), SLOT(4), SLOT(5), SLOT(6),
};
static const struct place in_pel[] = {
        PLACE(struct log_pel, sn, KIND_TEXT),
        PLACE(struct log_pel, mn, KIND_TEXT),
        PLACE(struct log_pel, subnqn, KIND_NQN),
};
static const struct place in_hostid[] = { { 0, 16, KIND_BYTES } };

/* What is known to name nobody is left as it is; what is not known is emptied: vendors' own, telemetry,
 * hosts' names, metadata that an administrator wrote. */
struct harmless {
        uint8_t first, last;
};
static const struct harmless harmless_cns[] = {
        { CNS_NS_LIST, CNS_NS_LIST },
        { CNS_IOCS_NS, CNS_NS_INDEPENDENT },
        { CNS_ALLOCATED_NS_LIST, CNS_ALLOCATED_NS_LIST },
        { CNS_NS_CTRL_LIST, CNS_CTRL_LIST },
        { CNS_IOCS, CNS_IOCS },
};
static const struct harmless harmless_logs[] = {
        { LOG_SUPPORTED, 0x06 }, /* to self-tests */
        { LOG_ANA, LOG_ANA },
        { LOG_FEATURE_EFFECTS, LOG_FEATURE_EFFECTS },
        { LOG_RESERVATION, LOG_SANITIZE },
};
static const struct harmless harmless_features[] = {
        { FEAT_TIMESTAMP, FEAT_TIMESTAMP },
        { FEAT_HOST_BEHAVIOR, FEAT_HOST_BEHAVIOR },
};

static bool is_harmless(const struct harmless *list, size_t n, uint8_t id)
{
        for (size_t i = 0; i < n; i++)
                if (id >= list[i].first && id <= list[i].last)
                        return true;
        return false;
}

/* Identification descriptors follow each other from the start; without that they cannot be read. */
static void replace_descriptors(const struct scrub *s, const struct piece *d)
{
        size_t at = 0;
        struct ns_id id;

        if (d->offset > 0) {
                memset(d->p, 0, d->n);
                return;
        }
        while (ns_desc_next(d->p, d->n, &at, &id))
                if (id.type != NIDT_CSI)
                        replace_bytes(s, d->p + (id.bytes - d->p), id.len);
}

static void scrub_identify(const struct scrub *s, uint8_t cns, const struct piece *d)
{
        switch (cns) {
        case CNS_CTRL:
                replace_all(s, d, 0, LISTED(in_id_ctrl));
                break;
        case CNS_NS:
        case CNS_ALLOCATED_NS:
                replace_all(s, d, 0, LISTED(in_id_ns));
                break;
        case CNS_NS_DESCS:
                replace_descriptors(s, d);
                break;
        default:
                if (!is_harmless(LISTED(harmless_cns), cns))
                        memset(d->p, 0, d->n);
                break;
        }
}

/* Events have text of vendors: they are emptied, and so is what does not begin as this log does. */
static void scrub_events(const struct scrub *s, const struct piece *d)
{
        bool other = d->offset == 0 && d->n > 0 && d->p[0] != LOG_PERSISTENT;
        uint64_t kept = !other && d->offset < LOG_PEL_HEADER ? LOG_PEL_HEADER - d->offset : 0;

        replace_all(s, d, 0, LISTED(in_pel));
        if (kept < d->n)
                memset(d->p + kept, 0, d->n - (size_t)kept);
}

static void scrub_log(const struct scrub *s, const union sqe *sqe, struct piece d)
{
        enum { WITH_CONTEXT = 3 << 8 }; /* the header, whatever the offset */
        uint8_t lid = (uint8_t)le32_get(sqe->cdw10);
        uint64_t first;

        if (lid == LOG_PERSISTENT && (le32_get(sqe->cdw10) & WITH_CONTEXT) == WITH_CONTEXT) {
                scrub_events(s, &d);
                return;
        }
        first = d.offset += le32_get(sqe->cdw12) | (uint64_t)le32_get(sqe->cdw13) << 32;
        if (lid == LOG_PERSISTENT) {
                scrub_events(s, &d);
                return;
        }
        if (lid == LOG_FW_SLOT)
                replace_all(s, &d, 0, LISTED(in_fw_slot));
        if (lid != LOG_DISCOVERY) {
                if (!is_harmless(LISTED(harmless_logs), lid))
                        memset(d.p, 0, d.n);
                return;
        }
        first = first < DISC_HEADER_LEN ? 0 : (first - DISC_HEADER_LEN) / DISC_ENTRY_LEN;
        for (uint64_t at = DISC_HEADER_LEN + first * DISC_ENTRY_LEN; at < d.offset + d.n;
             at += DISC_ENTRY_LEN)
                replace_all(s, &d, at, LISTED(in_disc_entry));
}

static bool is_unit(const uint8_t *dhv, unsigned len)
{
        while (len > 1 && *dhv == 0)
                dhv++, len--;
        return len == 0 || (len == 1 && *dhv <= 1);
}

/* Random values, responses and DH values by others of their length; those that are wrong by themselves
 * stay. What nobody can read keeps the bytes that say what it is and how long. */
static void scrub_auth(const struct scrub *s, const struct piece *d)
{
        size_t head = d->n < sizeof(struct auth_challenge) ? d->n : sizeof(struct auth_challenge);
        struct auth_view v;

        if (d->offset > 0 || auth_view(&v, d->p, d->n) != 0) {
                head = d->offset > 0 ? 0 : head;
                replace_bytes(s, d->p + head, d->n - head);
                return;
        }
        if (v.rval)
                replace_bytes(s, d->p + (v.rval - d->p), v.hl);
        if (v.cval)
                replace_bytes(s, d->p + (v.cval - d->p), v.hl);
        if (v.dhv && !is_unit(v.dhv, v.dhvlen))
                replace_bytes(s, d->p + (v.dhv - d->p), v.dhvlen);
        replace_bytes(s, d->p + v.len, d->n - v.len);
}

static void scrub_admin(const struct scrub *s, const union sqe *sqe, const struct piece *d)
{
        uint8_t selector = (uint8_t)le32_get(sqe->cdw10);
        bool feature = sqe->opc == NVME_SET_FEATURES || sqe->opc == NVME_GET_FEATURES;

        if (sqe->opc == NVME_FABRICS && sqe->fctype == FCTYPE_CONNECT)
                replace_all(s, d, 0, LISTED(in_connect));
        else if (sqe->opc == NVME_FABRICS &&
                 (sqe->fctype == FCTYPE_AUTH_SEND || sqe->fctype == FCTYPE_AUTH_RECEIVE))
                scrub_auth(s, d);
        else if (sqe->opc == NVME_IDENTIFY)
                scrub_identify(s, selector, d);
        else if (sqe->opc == NVME_GET_LOG_PAGE)
                scrub_log(s, sqe, *d);
        else if (feature && selector == FEAT_HOSTID)
                replace_all(s, d, 0, LISTED(in_hostid));
        else if (!feature || !is_harmless(LISTED(harmless_features), selector))
                memset(d->p, 0, d->n);
}

/* By sectors, so that the same ones stay the same wherever they are read or written. */
static void scrub_blocks(const struct scrub *s, const struct piece *d)
{
        size_t done = 0;

        while (done < d->n) {
                size_t run = 512 - (size_t)((d->offset + done) % 512);

                if (run > d->n - done)
                        run = d->n - done;
                replace_bytes(s, d->p + done, run);
                done += run;
        }
}

/* Keys and Host Identifiers of Reservation Report; who holds what stays. */
static void scrub_report(const struct scrub *s, bool extended, const struct piece *d)
{
        size_t head = extended ? REPORT_HEADER : sizeof(struct reservation_status);
        size_t entry =
            extended ? sizeof(struct reservation_entry_extended) : sizeof(struct reservation_entry);

        for (size_t i = 0; i < d->n; i++) {
                uint64_t at = d->offset + i;

                if (at >= head && (at - head) % entry >= offsetof(struct reservation_entry, hostid))
                        replace_bytes(s, d->p + i, 1);
        }
}

void scrub_data(const struct scrub *s, const union sqe *sqe, bool admin, uint64_t offset,
                uint8_t *p, size_t n)
{
        struct piece d = { offset, p, n };

        if (admin || sqe->opc == NVME_FABRICS)
                scrub_admin(s, sqe, &d);
        else if (sqe->opc == NVME_RESERVATION_REPORT)
                scrub_report(s, le32_get(sqe->cdw11) & REPORT_EXTENDED, &d);
        else if (!s->keep_data && sqe->opc != NVME_DSM && sqe->opc != NVME_COPY)
                scrub_blocks(s, &d);
}
