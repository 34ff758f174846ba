/* SPDX-License-Identifier: BSD-3-Clause */
#include "rule.h"

#include <string.h>

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

const char *rulebook_reaction(const struct rulebook *b, enum reaction r)
{
        static const char *const names[] = {
                [REACT_NONE] = "nothing prescribed",
                [REACT_TERM] = "message of termination",
                [REACT_STATUS] = "error status",
                [REACT_CLOSE] = "close",
                [REACT_ANY] = "error status or end of the connection",
                [REACT_REFUSE] = "error status or end of the connection",
                [REACT_REJECT] = "rejection",
                [REACT_AUTH] = "authentication failure",
                [REACT_TOLERATE] = "tolerate",
        };

        return r == REACT_TERM && b->term ? b->term : names[r];
}

const char *basis_name(enum basis b)
{
        static const char *const names[] = {
                [BASIS_NONE] = "",
                [BASIS_PRINTED] = "printed",
                [BASIS_GENERAL] = "general rule",
                [BASIS_OWN] = "own reading",
        };

        return names[b];
}

enum basis rule_basis(const struct rule *r, enum party judged)
{
        if (r->bound == judged)
                return r->basis;
        return r->unowed ? BASIS_NONE : r->reacts;
}

bool rule_is_advice(const struct rule *r, enum party judged)
{
        enum basis basis = rule_basis(r, judged);

        return basis == BASIS_OWN || basis == BASIS_NONE;
}

enum grade rule_grade(const struct rule *r)
{
        if (r->level == LEVEL_INFO)
                return GRADE_INFO;
        if (rule_is_advice(r, r->bound))
                return GRADE_ADVICE;
        return r->level == LEVEL_MUST ? GRADE_MUST : GRADE_SHOULD;
}

const char *grade_name(enum grade g)
{
        static const char *const names[GRADES] = { "must", "should", "advice", "info" };

        return names[g];
}

const struct rule *rulebook_get(const struct rulebook *b, unsigned rule)
{
        return rule > RULE_NONE && rule < b->count ? &b->rows[rule] : NULL;
}

unsigned rulebook_by_name(const struct rulebook *b, const char *id)
{
        for (unsigned r = 1; r < b->count; r++)
                if (strcmp(b->rows[r].id, id) == 0)
                        return r;
        return RULE_NONE;
}

unsigned rulebook_flaw_by_name(const struct rulebook *b, const char *id)
{
        for (unsigned f = 1; f < b->flaw_count; f++)
                if (strcmp(b->flaws[f].id, id) == 0)
                        return f;
        return 0;
}

void rulebook_add_flaws(const struct rulebook *b, struct rule_policy *policy)
{
        for (unsigned f = 1; f < b->flaw_count; f++)
                if (b->flaws[f].breaks && rule_in(&policy->violated, b->flaws[f].breaks))
                        rule_add(&policy->flaws, f);
}

static bool outcome_is(const struct outcome *o, uint16_t code, uint32_t place, uint32_t digest)
{
        if (o->code != code)
                return false;
        if (o->place == PLACE_ANY)
                return true;
        return place == (o->place == PLACE_DIGEST ? digest : (uint32_t)o->place);
}

bool rulebook_accepts(const struct rulebook *b, unsigned rule, uint16_t code, uint32_t place,
                      uint32_t received_digest)
{
        const struct rule *r = rulebook_get(b, rule);

        for (int i = 0; r && i < RULE_OUTCOMES && r->accept[i].code; i++)
                if (outcome_is(&r->accept[i], code, place, received_digest))
                        return true;
        return false;
}

struct fault rulebook_fault(const struct rulebook *b, unsigned rule)
{
        const struct rule *r = rulebook_get(b, rule);

        if (!r)
                return (struct fault) { 0 };
        return (struct fault) {
                .rule = rule,
                .code = r->accept[0].code,
                .place = r->accept[0].place < 0 ? 0 : (uint32_t)r->accept[0].place,
        };
}

bool rule_set_empty(const struct rule_set *s)
{
        uint64_t any = 0;

        for (size_t i = 0; s && i < sizeof(s->bits) / sizeof(s->bits[0]); i++)
                any |= s->bits[i];
        return any == 0;
}

unsigned rule_next(const struct rule_set *s, unsigned rule)
{
        unsigned at = rule + 1, word = at / 64;
        uint64_t bits = at < RULE_CAPACITY ? s->bits[word] >> at % 64 << at % 64 : 0;

        while (bits == 0 && ++word < RULE_CAPACITY / 64)
                bits = s->bits[word];
        return bits == 0 ? RULE_NONE : word * 64 + (unsigned)__builtin_ctzll(bits);
}
