/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/wire/discovery.h"

#include <string.h>

#include "pdu/wire/fabrics.h"

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

static void say_cntlid(struct text *t, uint64_t v)
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
        FIELD(struct disc_entry, cntlid, .say = say_cntlid),
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
static const struct field tsas_tcp[] = {
        FIELD_AT("sectype", offsetof(struct disc_entry, tsas), 1,
                 .words = WORDS({ 0, "no security" }, { 1, "TLS 1.2" }, { 2, "TLS 1.3" })),
        { 0 },
};
static const struct field tsas_rdma[] = {
        FIELD_AT("qptype", offsetof(struct disc_entry, tsas), 1,
                 .words = WORDS({ 1, "reliable connected" }, { 2, "reliable datagram" })),
        FIELD_AT("prtype", offsetof(struct disc_entry, tsas) + 1, 1,
                 .words = WORDS({ 1, "none" }, { 2, "InfiniBand" }, { 3, "RoCE v1" },
                                { 4, "RoCE v2" }, { 5, "iWARP" })),
        FIELD_AT("cms", offsetof(struct disc_entry, tsas) + 2, 1,
                 .words = WORDS({ 1, "RDMA_IP_CM" })),
        FIELD_AT("pkey", offsetof(struct disc_entry, tsas) + 8, 2),
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

void disc_entry_tcp(struct disc_entry *e, uint8_t subtype, uint8_t adrfam, const char *traddr,
                    uint16_t port, const char *subnqn)
{
        char digits[6];
        struct text trsvcid = text_in(digits, sizeof(digits));

        text_add(&trsvcid, "%u", port);
        memset(e, 0, sizeof(*e));
        e->trtype = TRTYPE_TCP;
        e->adrfam = adrfam;
        e->subtype = subtype;
        e->cntlid = le16(CNTLID_DYNAMIC);
        e->asqsz = le16(ADMIN_SQ_MIN);
        text_pad(e->trsvcid, sizeof(e->trsvcid), digits);
        text_fill(e->subnqn, sizeof(e->subnqn) - 1, subnqn);
        text_pad(e->traddr, sizeof(e->traddr), traddr);
}
