/* SPDX-License-Identifier: BSD-3-Clause */
#include "avoid.h"

#include <stdio.h>
#include <string.h>

#include "pdu/io/option.h"

enum { NAME = 64 };

/* STEP.FIELD, an operator, N. */
static bool read_value(struct avoid_value *v, enum seq_transport transport, const char *what)
{
        const char *dot = strchr(what, '.'), *op = dot ? strpbrk(dot, "=<>") : NULL;
        char step[NAME], field[NAME];

        if (!op || dot - what >= NAME || op - dot >= NAME)
                return false;
        snprintf(step, sizeof(step), "%.*s", (int)(dot - what), what);
        snprintf(field, sizeof(field), "%.*s", (int)(op - dot - 1), dot + 1);
        v->op = *op;
        v->step = nvme_template_by_name(transport, PARTY_HOST, step);
        v->field = v->step ? seq_field(&nvme_fuzz, transport, v->step, field) : NULL;
        return v->field && option_number(op + 1, &v->value) == 0;
}

bool avoid_add(struct avoid *a, enum seq_transport transport, const char *what, char *error,
               size_t size)
{
        enum rule_id id = rule_by_name(what);

        if (id != RULE_NONE && rule_get(id)->bound == PARTY_HOST) {
                rule_add(&a->rules, id);
                return true;
        }
        if (a->values == AVOID_VALUES) {
                snprintf(error, size, "more than %d values to avoid", AVOID_VALUES);
        } else if (read_value(&a->value[a->values], transport, what)) {
                a->values++;
                return true;
        } else {
                snprintf(error, size, "'%.100s' is neither a rule of hosts nor STEP.FIELD>N", what);
        }
        return false;
}

bool avoid_rules(const struct avoid *a, const struct rule_set *broken)
{
        uint64_t both = 0;

        for (size_t i = 0; a && i < sizeof(a->rules.bits) / sizeof(a->rules.bits[0]); i++)
                both |= a->rules.bits[i] & broken->bits[i];
        return both != 0;
}

bool avoid_message(const struct avoid *a, const struct seq_template *step, const void *message)
{
        for (unsigned i = 0; a && i < a->values; i++) {
                const struct avoid_value *v = &a->value[i];
                uint64_t has;

                if (v->step != step)
                        continue;
                has = field_get(v->field, message);
                if (v->op == '=' ? has == v->value : v->op == '<' ? has < v->value : has > v->value)
                        return true;
        }
        return false;
}
