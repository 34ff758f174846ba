/* SPDX-License-Identifier: BSD-3-Clause */
#include "discovery.h"

#include <string.h>

#include "fabrics.h"
#include "pdu/core/bytes.h"
#include "tcp.h"

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
        return &h->entries[i];
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

/* NVMe/RDMA has no zeroes before the digits; NVMe/TCP does not forbid them. */
static bool names_port(const struct disc_entry *e)
{
        return disc_entry_port(e) > 0 && (e->trtype == TRTYPE_TCP || e->trsvcid[0] != '0');
}

static bool is_assigned(const uint8_t *tsas)
{
        return tsas[QPTYPE] >= QPTYPE_RC && tsas[QPTYPE] <= QPTYPE_RD &&
               tsas[PRTYPE] >= PRTYPE_NONE && tsas[PRTYPE] <= PRTYPE_IWARP && tsas[CMS] == CMS_IP;
}

static bool sets_reserved(const struct disc_entry *e)
{
        const uint8_t *tsas = e->tsas;

        return (e->adrfam != ADRFAM_IB && any_set(tsas + PKEY, 2)) ||
               any_set(tsas + CMS + 1, PKEY - CMS - 1) ||
               any_set(tsas + PKEY + 2, TSAS_LEN - PKEY - 2);
}

/* A number of up to three digits, and no more than 255. */
static bool take_octet(const char **p)
{
        unsigned n = 0, value = 0;

        for (; **p >= '0' && **p <= '9' && n < 3; (*p)++, n++)
                value = value * 10 + (unsigned)(**p - '0');
        return n > 0 && value <= 255;
}

static bool is_ipv4(const char *p)
{
        for (int i = 0; i < 4; i++)
                if ((i > 0 && *p++ != '.') || !take_octet(&p))
                        return false;
        return !*p;
}

/* Loosely: hex digits in groups apart by colons, perhaps with a zone or an IPv4 address at the end. */
static bool is_ipv6(const char *p)
{
        unsigned colons = 0, digits = 0;

        for (; *p && *p != '%'; p++) {
                colons += *p == ':';
                if (*p == ':' || *p == '.')
                        digits = 0;
                else if (hex_digit(*p) < 0 || ++digits > 4)
                        return false;
        }
        return colons >= 2 && colons <= 8;
}

/* 0.0.0.0, ::, however they are written: no destination (RFC 1122 3.2.1.3, RFC 4291 2.5.2), and so no address for a
 * Connect. */
static bool is_unspecified(const char *p)
{
        while (*p == '0' || *p == '.' || *p == ':')
                p++;
        return !*p || *p == '%';
}

/* 16 digits in groups of four, with hyphens between them. */
static bool is_service_id(const char *p)
{
        for (int i = 0; i < 19; i++)
                if (i % 5 == 4 ? p[i] != '-' : hex_digit(p[i]) < 0)
                        return false;
        return !p[19];
}

static bool is_address(const struct disc_entry *e)
{
        char text[sizeof(e->traddr) + 1] = { 0 };

        memcpy(text, e->traddr, text_len(e->traddr, sizeof(e->traddr)));
        if (e->adrfam == ADRFAM_IPV4)
                return is_ipv4(text) && !is_unspecified(text);
        return e->adrfam == ADRFAM_IPV6 ? is_ipv6(text) && !is_unspecified(text) : *text;
}

static bool is_service(const struct disc_entry *e)
{
        char text[sizeof(e->trsvcid) + 1] = { 0 };

        memcpy(text, e->trsvcid, text_len(e->trsvcid, sizeof(e->trsvcid)));
        return is_service_id(text);
}

/* Of entries of NVMe over Fabrics' own transports: what does not depend on which. */
static void check_common(const struct disc_entry *e, struct rule_set *found)
{
        rule_add_if(found, !is_address(e), DISC_TRADDR);
        rule_add_if(found,
                    any_set(e->rsvd12, sizeof(e->rsvd12)) ||
                        any_set(e->rsvd64, sizeof(e->rsvd64)) || e->treq >> 6 ||
                        le16_get(e->eflags) >> 3,
                    DISC_RSVD);
}

static bool is_rdma_ip(const struct disc_entry *e)
{
        return e->tsas[CMS] == CMS_IP && (e->adrfam == ADRFAM_IPV4 || e->adrfam == ADRFAM_IPV6);
}

void disc_entry_check(const struct disc_entry *e, struct rule_set *found)
{
        if (e->trtype == TRTYPE_TCP || e->trtype == TRTYPE_RDMA)
                check_common(e, found);
        if (e->trtype == TRTYPE_TCP) {
                rule_add_if(found,
                            e->subtype == SUBTYPE_NVM && disc_entry_port(e) == NVME_DISC_PORT,
                            DISC_PORT);
                rule_add_if(found, e->tsas[0] > SECTYPE_MAX, DISC_TSAS);
                rule_add_if(found, any_set(e->tsas + 1, TSAS_LEN - 1), DISC_TSAS_RSVD);
                rule_add_if(found, !names_port(e), DISC_TRSVCID);
        } else if (e->trtype == TRTYPE_RDMA) {
                rule_add_if(found, !is_assigned(e->tsas), RDMA_DISC_TSAS);
                rule_add_if(found, sets_reserved(e), RDMA_DISC_TSAS_RSVD);
                rule_add_if(found,
                            is_rdma_ip(e) ? !names_port(e)
                                          : e->adrfam == ADRFAM_IB && !is_service(e),
                            RDMA_DISC_TRSVCID);
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
