/* SPDX-License-Identifier: BSD-3-Clause */
#include "srp_avoid.h"

#include <string.h>

#include "pdu/io/option.h"

enum { LONG = 16 << 20 };

static bool is_external(const uint8_t *iu, const struct srp_data *d)
{
        (void)iu;
        return d->format == SRP_INDIRECT && (uint64_t)d->in_line * SRP_DESC_LEN < d->desc.len;
}

static bool is_empty(const struct srp_desc *d)
{
        return d->len == 0;
}

static bool is_long(const struct srp_desc *d)
{
        return d->len > LONG;
}

static bool any_is(const uint8_t *iu, const struct srp_data *d, bool (*is)(const struct srp_desc *))
{
        if (d->format == SRP_DIRECT)
                return is(&d->desc);
        for (uint32_t i = 0; d->format == SRP_INDIRECT && i < d->in_line; i++) {
                struct srp_desc entry = srp_desc_at(iu, d, i);

                if (is(&entry))
                        return true;
        }
        return false;
}

static bool has_empty(const uint8_t *iu, const struct srp_data *d)
{
        return any_is(iu, d, is_empty);
}

static bool has_long(const uint8_t *iu, const struct srp_data *d)
{
        return any_is(iu, d, is_long);
}

static const struct {
        const char *name;
        bool (*has)(const uint8_t *iu, const struct srp_data *d);
} kinds[] = {
        { "external", is_external },
        { "empty", has_empty },
        { "long", has_long },
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

bool srp_avoid_add(struct srp_avoid *a, const char *what, char *error, size_t size)
{
        for (unsigned i = 0; i < KINDS; i++)
                if (strcmp(kinds[i].name, what) == 0) {
                        a->kinds |= 1u << i;
                        return true;
                }
        return option_rule_of(&srp_rules, &a->rules, PARTY_HOST, what, error, size);
}

static bool has_kind(const struct srp_avoid *a, const uint8_t *iu, uint32_t n, uint32_t imm_at)
{
        struct rule_set unused = { 0 };
        struct srp_cmd_parts parts;

        if (n < sizeof(struct srp_cmd) || iu[0] != SRP_CMD)
                return false;
        (void)srp_cmd_read(iu, n, imm_at, &parts, &unused);
        for (unsigned i = 0; i < KINDS; i++)
                if (a->kinds & 1u << i &&
                    (kinds[i].has(iu, &parts.out) || kinds[i].has(iu, &parts.in)))
                        return true;
        return false;
}

bool srp_avoids(const struct srp_avoid *a, const uint8_t *iu, uint32_t n, uint32_t imm_at,
                const struct rule_set *broken)
{
        if (!a)
                return false;
        rule_each_in (broken, id)
                if (rule_in(&a->rules, id))
                        return true;
        return has_kind(a, iu, n, imm_at);
}
