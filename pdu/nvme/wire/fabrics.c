/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabrics.h"

#include <string.h>

#include "text.h"

static const struct word fctypes[] = {
        { FCTYPE_PROPERTY_SET, "Property Set" },
        { FCTYPE_CONNECT, "Connect" },
        { FCTYPE_PROPERTY_GET, "Property Get" },
        { FCTYPE_AUTH_SEND, "Authentication Send" },
        { FCTYPE_AUTH_RECEIVE, "Authentication Receive" },
        { FCTYPE_DISCONNECT, "Disconnect" },
        { 0, NULL },
};

const char *fctype_name(uint8_t fctype)
{
        return word_for(fctypes, fctype);
}

/* --- properties: Base 2.2, figure 33 ---------------------------------------------------------- */

static const struct word property_words[] = {
        { PROP_CAP, "CAP" },   { PROP_VS, "VS" },     { PROP_CC, "CC" },     { PROP_CSTS, "CSTS" },
        { PROP_NSSR, "NSSR" }, { PROP_NSSD, "NSSD" }, { PROP_CRTO, "CRTO" }, { 0, NULL },
};

const char *property_name(uint32_t ofst)
{
        return word_for(property_words, ofst);
}

unsigned property_size(uint32_t ofst)
{
        if (!property_name(ofst))
                return 0;
        return ofst == PROP_CAP ? 8 : 4;
}

bool property_is_reserved(uint32_t ofst)
{
        return ofst % 4 == 0 && ofst > PROP_CAP + 4 && ofst < PROP_VENDOR && !property_name(ofst);
}

bool property_is_writable(uint32_t ofst)
{
        return ofst == PROP_CC || ofst == PROP_CSTS || ofst == PROP_NSSR || ofst == PROP_NSSD;
}

bool property_begins(uint32_t ofst)
{
        return ofst >= PROP_VENDOR || (ofst % 4 == 0 && ofst != PROP_CAP + 4);
}

bool cap_is_discovery(uint64_t cap)
{
        uint64_t mps = cap >> 48 & 0xff, nssrs = cap >> 36 & 1, ams = cap >> 17 & 3;

        return !mps && !nssrs && !ams;
}

/* --- NQNs: Base 2.2, 4.7 ---------------------------------------------------------------------- */

static bool is_digits(const char *s, int n)
{
        while (n-- > 0)
                if (*s < '0' || *s++ > '9')
                        return false;
        return true;
}

static bool is_uuid(const char *s)
{
        static const char form[] = "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh";

        for (size_t i = 0; form[i]; i++)
                if (form[i] == '-' ? s[i] != '-' : hex_digit(s[i]) < 0)
                        return false;
        return s[sizeof(form) - 1] == '\0';
}

/* "nqn.yyyy-mm." with a month of the calendar. */
static bool has_date(const char *nqn)
{
        return strncmp(nqn, "nqn.", 4) == 0 && is_digits(nqn + 4, 4) && nqn[8] == '-' &&
               is_digits(nqn + 9, 2) && memcmp(nqn + 9, "01", 2) >= 0 &&
               memcmp(nqn + 9, "12", 2) <= 0 && nqn[11] == '.';
}

#define NVMEXPRESS "org.nvmexpress"

static const char uuid_form[] = "nqn.2014-08." NVMEXPRESS ":uuid:";

bool nqn_has_uuid(const char *nqn)
{
        return strncmp(nqn, uuid_form, sizeof(uuid_form) - 1) == 0 &&
               is_uuid(nqn + sizeof(uuid_form) - 1);
}

bool nqn_is_formed(const char *nqn)
{
        static const char old_form[] = "nqn.2014-08." NVMEXPRESS ":NVMf:uuid:";
        const char *domain = nqn + sizeof("nqn.2014-08.") - 1;
        size_t len = sizeof(NVMEXPRESS) - 1;

        if (!has_date(nqn) || strncmp(domain, NVMEXPRESS, len) != 0 || !strchr(":.", domain[len]))
                return true;
        return strcmp(nqn, NQN_DISCOVERY) == 0 || nqn_has_uuid(nqn) ||
               (strncmp(nqn, old_form, sizeof(old_form) - 1) == 0 &&
                is_uuid(nqn + sizeof(old_form) - 1));
}

bool nqn_valid(const char *nqn, size_t size, bool strict)
{
        const char *colon, *domain = nqn + 12;
        size_t len = strnlen(nqn, size);

        if (len == size || len > NQN_MAX || len < 13 || !has_date(nqn))
                return false;
        if (strcmp(nqn, NQN_DISCOVERY) == 0)
                return true;
        if (strict && strncmp(nqn, uuid_form, sizeof(uuid_form) - 1) == 0)
                return nqn_has_uuid(nqn);
        colon = strchr(domain, ':');
        return colon ? colon > domain && (colon[1] || !strict) : !strict;
}

/* --- description ------------------------------------------------------------------------------ */

static void cntlid_text(struct text *t, uint64_t v)
{
        if (v == CNTLID_DYNAMIC)
                text_add(t, "any, dynamic");
        else if (v == CNTLID_STATIC)
                text_add(t, "any, static");
}

static const struct field connect_data_fields[] = {
        FIELD(struct connect_data, hostid, .kind = FIELD_UUID),
        FIELD(struct connect_data, cntlid, .say = cntlid_text),
        FIELD(struct connect_data, subnqn, .kind = FIELD_STRING),
        FIELD(struct connect_data, hostnqn, .kind = FIELD_STRING),
        { 0 },
};

void describe_connect_data(const struct describe *d, const struct connect_data *c)
{
        describe_fields(d, connect_data_fields, c);
}

static void ms_text(struct text *t, uint64_t v)
{
        text_add(t, "%llu ms", (unsigned long long)v);
}

static const struct word cattrs[] = {
        { CATTR_DISABLE_SQFC, "disable SQ flow control" },
        { CATTR_INDIVIDUAL_DELETE, "individual queue deletion" },
        { 1 << 4, "discovery controller" },
        { 0, NULL },
};
static const struct word widths[] = { { PROP_ATTRIB_4, "4 bytes" },
                                      { PROP_ATTRIB_8, "8 bytes" },
                                      { 0, NULL } };

static const struct field connect_fields[] = {
        FIELD(struct connect_cmd, recfmt),
        FIELD(struct connect_cmd, qid, .key = true),
        FIELD(struct connect_cmd, sqsize, .kind = FIELD_ZERO_BASED),
        FIELD(struct connect_cmd, cattr, .kind = FIELD_BITS, .words = cattrs),
        FIELD(struct connect_cmd, kato, .say = ms_text),
        FIELD(struct connect_cmd, nvmsetid),
        { 0 },
};
static const struct field property_get_fields[] = {
        FIELD(struct property_cmd, attrib, .bits = 3, .words = widths),
        FIELD(struct property_cmd, ofst, .key = true, .words = property_words),
        { 0 },
};
static const struct field property_set_fields[] = {
        FIELD(struct property_cmd, attrib, .bits = 3, .words = widths),
        FIELD(struct property_cmd, ofst, .key = true, .words = property_words),
        FIELD(struct property_cmd, value, .key = true),
        { 0 },
};
static const struct field disconnect_fields[] = {
        FIELD(struct disconnect_cmd, recfmt),
        { 0 },
};
static const struct field auth_fields[] = {
        FIELD(struct auth_cmd, spsp0),
        FIELD(struct auth_cmd, spsp1),
        FIELD(struct auth_cmd, secp),
        FIELD(struct auth_cmd, len),
        { 0 },
};

const struct field *fabrics_fields(uint8_t fctype)
{
        switch (fctype) {
        case FCTYPE_PROPERTY_SET:
                return property_set_fields;
        case FCTYPE_CONNECT:
                return connect_fields;
        case FCTYPE_PROPERTY_GET:
                return property_get_fields;
        case FCTYPE_AUTH_SEND:
        case FCTYPE_AUTH_RECEIVE:
                return auth_fields;
        case FCTYPE_DISCONNECT:
                return disconnect_fields;
        default:
                return NULL;
        }
}

/* --- what the bits of a property say ---------------------------------------------------------- */

static void half_seconds_text(struct text *t, uint64_t v)
{
        text_add(t, "%llu ms", (unsigned long long)v * 500);
}

static const struct field cap_fields[] = {
        FIELD_AT("mqes", 0, 2, .kind = FIELD_ZERO_BASED, .bits = 16),
        FIELD_AT("cqr", 2, 1, .bits = 1),
        FIELD_AT("ams", 2, 1, .shift = 1, .bits = 2),
        FIELD_AT("to", 3, 1, .bits = 8, .say = half_seconds_text),
        FIELD_AT("dstrd", 4, 1, .bits = 4),
        FIELD_AT("nssrs", 4, 1, .shift = 4, .bits = 1),
        FIELD_AT("css", 4, 2, .kind = FIELD_BITS, .shift = 5, .bits = 8,
                 .words = WORDS({ 1 << 0, "NVM" }, { 1 << 6, "I/O command sets" },
                                { 1 << 7, "no I/O" })),
        FIELD_AT("mpsmin", 6, 1, .bits = 4),
        FIELD_AT("mpsmax", 6, 1, .shift = 4, .bits = 4),
        FIELD_AT("crms", 7, 1, .kind = FIELD_BITS, .shift = 3, .bits = 2,
                 .words = WORDS({ 1 << 0, "ready with media" },
                                { 1 << 1, "ready independent of media" })),
        { 0 },
};
static const struct field vs_fields[] = {
        FIELD_AT("major", 2, 2),
        FIELD_AT("minor", 1, 1),
        FIELD_AT("tertiary", 0, 1),
        { 0 },
};
static const struct field cc_fields[] = {
        FIELD_AT("en", 0, 1, .bits = 1),
        FIELD_AT("css", 0, 1, .shift = 4, .bits = 3,
                 .words = WORDS({ 0, "NVM" }, { 6, "all I/O command sets" }, { 7, "admin only" })),
        FIELD_AT("mps", 0, 2, .shift = 7, .bits = 4),
        FIELD_AT("ams", 1, 1, .shift = 3, .bits = 3),
        FIELD_AT("shn", 1, 1, .shift = 6, .bits = 2,
                 .words = WORDS({ 1, "normal" }, { 2, "abrupt" })),
        FIELD_AT("iosqes", 2, 1, .bits = 4),
        FIELD_AT("iocqes", 2, 1, .shift = 4, .bits = 4),
        { 0 },
};
static const struct field csts_fields[] = {
        FIELD_AT("rdy", 0, 1, .bits = 1),
        FIELD_AT("cfs", 0, 1, .shift = 1, .bits = 1),
        FIELD_AT("shst", 0, 1, .shift = 2, .bits = 2,
                 .words = WORDS({ 0, "normal operation" }, { 1, "shutdown occurring" },
                                { 2, "shutdown complete" })),
        FIELD_AT("nssro", 0, 1, .shift = 4, .bits = 1),
        FIELD_AT("pp", 0, 1, .shift = 5, .bits = 1),
        FIELD_AT("st", 0, 1, .shift = 6, .bits = 1),
        { 0 },
};
static const struct field crto_fields[] = {
        FIELD_AT("crwmt", 0, 2, .say = half_seconds_text),
        FIELD_AT("crimt", 2, 2, .say = half_seconds_text),
        { 0 },
};

void describe_property(const struct describe *d, uint32_t ofst, uint64_t value)
{
        static const struct {
                uint32_t ofst;
                const struct field *fields;
        } tables[] = {
                { PROP_CAP, cap_fields },   { PROP_VS, vs_fields },     { PROP_CC, cc_fields },
                { PROP_CSTS, csts_fields }, { PROP_CRTO, crto_fields },
        };
        le64_t bytes = le64(value);

        for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
                if (tables[i].ofst == ofst)
                        describe_fields(d, tables[i].fields, &bytes);
}
