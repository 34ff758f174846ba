/* SPDX-License-Identifier: BSD-3-Clause */
#include "rules.h"

#include <string.h>

static const struct rule rules[RULES] = {
#define RULE(sym, id, bound, level, source, says, ...)                                             \
        [sym] = { id, bound, level, source, says, __VA_ARGS__ },
#include "rules.def"
#undef RULE
};

const char *party_name(enum party p)
{
        return p == PARTY_HOST ? "host" : "controller";
}

const char *level_name(enum level l)
{
        static const char *const names[] = {
                [LEVEL_MUST] = "must",
                [LEVEL_SHOULD] = "should",
                [LEVEL_INFO] = "info",
        };

        return names[l];
}

const char *reaction_name(enum reaction r)
{
        static const char *const names[] = {
                [REACT_NONE] = "nothing prescribed",
                [REACT_TERM] = "TermReq",
                [REACT_STATUS] = "error status",
                [REACT_CLOSE] = "close",
                [REACT_ANY] = "error status or end of the connection",
                [REACT_REJECT] = "rejection",
                [REACT_AUTH] = "authentication failure",
                [REACT_TOLERATE] = "tolerate",
        };

        return names[r];
}

const struct rule *rule_get(enum rule_id id)
{
        return id > RULE_NONE && id < RULES ? &rules[id] : NULL;
}

enum rule_id rule_by_name(const char *id)
{
        rule_each (r)
                if (strcmp(rules[r].id, id) == 0)
                        return r;
        return RULE_NONE;
}

static bool outcome_is(const struct outcome *o, uint16_t code, uint32_t fei, uint32_t digest)
{
        if (o->code != code)
                return false;
        if (o->fei == FEI_ANY)
                return true;
        return fei == (o->fei == FEI_DIGEST ? digest : (uint32_t)o->fei);
}

bool rule_accepts(enum rule_id id, uint16_t code, uint32_t fei, uint32_t received_digest)
{
        const struct rule *r = rule_get(id);

        for (int i = 0; r && i < RULE_OUTCOMES && r->accept[i].code; i++)
                if (outcome_is(&r->accept[i], code, fei, received_digest))
                        return true;
        return false;
}

struct fault rule_fault(enum rule_id id)
{
        const struct rule *r = rule_get(id);

        if (!r)
                return (struct fault) { 0 };
        return (struct fault) {
                .rule = id,
                .fes = r->accept[0].code,
                .fei = r->accept[0].fei < 0 ? 0 : (uint32_t)r->accept[0].fei,
        };
}

bool rule_set_empty(const struct rule_set *s)
{
        uint64_t any = 0;

        for (size_t i = 0; s && i < sizeof(s->bits) / sizeof(s->bits[0]); i++)
                any |= s->bits[i];
        return any == 0;
}

enum rule_id rule_behind(const struct rule_set *s, enum rule_id id)
{
        unsigned at = (unsigned)id + 1, word = at / 64;
        uint64_t bits = at < RULES ? s->bits[word] >> at % 64 << at % 64 : 0;

        while (bits == 0 && ++word < sizeof(s->bits) / sizeof(s->bits[0]))
                bits = s->bits[word];
        if (bits == 0)
                return RULES;
        return (enum rule_id)(word * 64 + (unsigned)__builtin_ctzll(bits));
}
