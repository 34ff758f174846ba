/* SPDX-License-Identifier: BSD-3-Clause */
#include "discovery.h"

#include <string.h>

#include "fabrics.h"

const struct word transport_types[] = {
        { TRTYPE_RDMA, "RDMA" }, { TRTYPE_FC, "FC" }, { TRTYPE_TCP, "TCP" },
        { TRTYPE_LOOP, "loop" }, { 0, NULL },
};

static const struct field header_fields[] = {
        FIELD(struct disc_header, genctr),
        FIELD(struct disc_header, numrec),
        FIELD(struct disc_header, recfmt),
        FIELD(struct disc_header, flags, .kind = FIELD_BITS,
              .words = WORDS({ 1 << 0, "extended" }, { 1 << 1, "this port only" },
                             { 1 << 2, "all subsystems" })),
        FIELD(struct disc_header, tdlpl),
        { 0 },
};

void describe_disc_header(const struct describe *d, const struct disc_header *h)
{
        describe_fields(d, header_fields, h);
}

static void cntlid_text(struct text *t, uint64_t v)
{
        if (v == CNTLID_DYNAMIC)
                text_add(t, "dynamic");
        else if (v == CNTLID_STATIC)
                text_add(t, "any, static");
}

static const struct field entry_fields[] = {
        FIELD(struct disc_entry, trtype, .words = transport_types),
        FIELD(struct disc_entry, adrfam,
              .words = WORDS({ ADRFAM_IPV4, "IPv4" }, { ADRFAM_IPV6, "IPv6" },
                             { ADRFAM_IB, "InfiniBand" }, { ADRFAM_FC, "FC" })),
        FIELD(struct disc_entry, subtype,
              .words = WORDS({ SUBTYPE_REFERRAL, "referral" }, { SUBTYPE_NVM, "NVM subsystem" },
                             { SUBTYPE_CURRENT, "this discovery subsystem" })),
        FIELD(struct disc_entry, treq, .bits = 2,
              .words =
                  WORDS({ 0, "secure channel not specified" }, { 1, "secure channel required" },
                        { 2, "secure channel not required" })),
        FIELD_AT("sqfc", offsetof(struct disc_entry, treq), 1, .shift = 2, .bits = 1,
                 .words = WORDS({ 1, "flow control can be disabled" })),
        FIELD_AT("zhids", offsetof(struct disc_entry, treq), 1, .shift = 3, .bits = 1,
                 .words = WORDS({ 1, "HOSTID 0 accepted" })),
        FIELD(struct disc_entry, portid),
        FIELD(struct disc_entry, cntlid, .say = cntlid_text),
        FIELD(struct disc_entry, asqsz),
        FIELD(struct disc_entry, eflags, .kind = FIELD_BITS,
              .words = WORDS({ EFLAGS_DUPRETINFO, "duplicate information" },
                             { EFLAGS_EPCSD, "persistent connections" },
                             { 1 << 2, "no CDC connectivity" })),
        FIELD(struct disc_entry, trsvcid, .kind = FIELD_STRING),
        FIELD(struct disc_entry, subnqn, .kind = FIELD_STRING),
        FIELD(struct disc_entry, traddr, .kind = FIELD_STRING),
        { 0 },
};

/* TSAS depends on the transport. */
enum { TSAS_LEN = sizeof(((struct disc_entry *)0)->tsas), SECTYPE_MAX = 2 };

static const struct field tsas_tcp[] = {
        FIELD_AT("sectype", offsetof(struct disc_entry, tsas), 1,
                 .words = WORDS({ 0, "no security" }, { 1, "TLS 1.2" }, { 2, "TLS 1.3" })),
        { 0 },
};
enum { QPTYPE, PRTYPE, CMS, PKEY = 8 }; /* bytes of TSAS, R1.0 figure 3 */
enum { QPTYPE_RC = 1, QPTYPE_RD = 2, CMS_IP = 1 };

static const struct field tsas_rdma[] = {
        FIELD_AT("qptype", offsetof(struct disc_entry, tsas) + QPTYPE, 1,
                 .words = WORDS({ QPTYPE_RC, "reliable connected" },
                                { QPTYPE_RD, "reliable datagram" })),
        FIELD_AT("prtype", offsetof(struct disc_entry, tsas) + PRTYPE, 1,
                 .words = WORDS({ PRTYPE_NONE, "none" }, { PRTYPE_IB, "InfiniBand" },
                                { PRTYPE_ROCE, "RoCE v1" }, { PRTYPE_ROCE_V2, "RoCE v2" },
                                { PRTYPE_IWARP, "iWARP" })),
        FIELD_AT("cms", offsetof(struct disc_entry, tsas) + CMS, 1,
                 .words = WORDS({ CMS_IP, "RDMA_IP_CM" })),
        FIELD_AT("pkey", offsetof(struct disc_entry, tsas) + PKEY, 2),
        { 0 },
};

void describe_disc_entry(const struct describe *d, const struct disc_entry *e)
{
        describe_fields(d, entry_fields, e);
        if (e->trtype == TRTYPE_TCP)
                describe_fields(d, tsas_tcp, e);
        else if (e->trtype == TRTYPE_RDMA)
                describe_fields(d, tsas_rdma, e);
}

const struct disc_entry *disc_log_entry(const void *log, size_t len, uint64_t i)
{
        const struct disc_header *h = log;

        if (len < sizeof(*h) || i >= le64_get(h->numrec) ||
            i >= (len - sizeof(*h)) / sizeof(struct disc_entry))
                return NULL;
        return (const struct disc_entry *)(h + 1) + i;
}

uint16_t disc_entry_port(const struct disc_entry *e)
{
        size_t len = text_len(e->trsvcid, sizeof(e->trsvcid));
        uint32_t port = 0;

        for (size_t i = 0; i < len; i++) {
                if (e->trsvcid[i] < '0' || e->trsvcid[i] > '9')
                        return 0;
                port = port * 10 + (uint32_t)(e->trsvcid[i] - '0');
                if (port > UINT16_MAX)
                        return 0;
        }
        return (uint16_t)port;
}

/* --- what breaks a rule ----------------------------------------------------------------------- */

static void finds(struct rule_set *found, bool broken, enum rule_id rule)
{
        if (broken)
                rule_add(found, rule);
}

static bool any_set(const uint8_t *p, size_t n)
{
        while (n > 0 && p[n - 1] == 0)
                n--;
        return n > 0;
}

/* Digits without a zero before them. */
static bool names_port(const struct disc_entry *e)
{
        return e->trsvcid[0] != '0' && disc_entry_port(e) > 0;
}

static bool wrong_tsas_rdma(const uint8_t *tsas)
{
        bool assigned = tsas[QPTYPE] >= QPTYPE_RC && tsas[QPTYPE] <= QPTYPE_RD &&
                        tsas[PRTYPE] >= PRTYPE_NONE && tsas[PRTYPE] <= PRTYPE_IWARP &&
                        tsas[CMS] == CMS_IP;
        bool zeroes = !any_set(tsas + CMS + 1, PKEY - CMS - 1) &&
                      !any_set(tsas + PKEY + 2, TSAS_LEN - PKEY - 2);

        return !assigned || !zeroes;
}

static bool is_rdma_ip(const struct disc_entry *e)
{
        return e->tsas[CMS] == CMS_IP && (e->adrfam == ADRFAM_IPV4 || e->adrfam == ADRFAM_IPV6);
}

void disc_entry_check(const struct disc_entry *e, struct rule_set *found)
{
        if (e->trtype == TRTYPE_TCP) {
                finds(found, e->tsas[0] > SECTYPE_MAX || any_set(e->tsas + 1, TSAS_LEN - 1),
                      DISC_TSAS);
                finds(found, !names_port(e), DISC_TRSVCID);
        } else if (e->trtype == TRTYPE_RDMA) {
                finds(found, wrong_tsas_rdma(e->tsas), RDMA_DISC_TSAS);
                finds(found, is_rdma_ip(e) && !names_port(e), RDMA_DISC_TRSVCID);
        }
}

static bool same_string(const char *a, const char *b, size_t size)
{
        return strncmp(a, b, size) == 0;
}

static bool is_dynamic(const struct disc_entry *e)
{
        return e->subtype == SUBTYPE_NVM && le16_get(e->cntlid) == CNTLID_DYNAMIC;
}

bool disc_entry_twins(const struct disc_entry *a, const struct disc_entry *b)
{
        return is_dynamic(a) && is_dynamic(b) && a->trtype == b->trtype &&
               le16_get(a->portid) == le16_get(b->portid) &&
               same_string(a->subnqn, b->subnqn, sizeof(a->subnqn)) &&
               same_string(a->traddr, b->traddr, sizeof(a->traddr)) &&
               same_string(a->trsvcid, b->trsvcid, sizeof(a->trsvcid));
}

/* --- made ------------------------------------------------------------------------------------- */

static void fill_in(struct disc_entry *e, uint8_t trtype, uint8_t subtype, uint8_t adrfam,
                    const char *traddr, uint16_t port, const char *subnqn)
{
        char digits[6];
        struct text trsvcid = text_in(digits, sizeof(digits));

        text_add(&trsvcid, "%u", port);
        memset(e, 0, sizeof(*e));
        e->trtype = trtype;
        e->adrfam = adrfam;
        e->subtype = subtype;
        e->cntlid = le16(CNTLID_DYNAMIC);
        e->asqsz = le16(ADMIN_SQ_MIN);
        text_pad(e->trsvcid, sizeof(e->trsvcid), digits);
        text_fill(e->subnqn, sizeof(e->subnqn) - 1, subnqn);
        text_pad(e->traddr, sizeof(e->traddr), traddr);
}

void disc_entry_tcp(struct disc_entry *e, uint8_t subtype, uint8_t adrfam, const char *traddr,
                    uint16_t port, const char *subnqn)
{
        fill_in(e, TRTYPE_TCP, subtype, adrfam, traddr, port, subnqn);
}

void disc_entry_rdma(struct disc_entry *e, uint8_t subtype, uint8_t adrfam, const char *traddr,
                     uint16_t port, const char *subnqn, enum disc_prtype prtype)
{
        fill_in(e, TRTYPE_RDMA, subtype, adrfam, traddr, port, subnqn);
        e->tsas[QPTYPE] = QPTYPE_RC;
        e->tsas[PRTYPE] = (uint8_t)prtype;
        e->tsas[CMS] = CMS_IP;
}
