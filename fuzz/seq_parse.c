/* SPDX-License-Identifier: BSD-3-Clause */
/* Sequences as text, in. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sequence.h"

enum { WORD = 80 };

struct reader {
        struct sequence *s;
        const char *p, *end; /* of the line */
        unsigned line;
        char *err;
        size_t err_size;
        struct seq_step *step;
};

__attribute__((format(printf, 2, 3))) static bool complain(struct reader *r, const char *fmt, ...)
{
        va_list ap;
        int n = snprintf(r->err, r->err_size, "line %u: ", r->line);

        va_start(ap, fmt);
        if (n > 0 && (size_t)n < r->err_size)
                vsnprintf(r->err + n, r->err_size - (size_t)n, fmt, ap);
        va_end(ap);
        return false;
}

/* --- words and numbers -------------------------------------------------------------------------- */

static bool is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(struct reader *r)
{
        while (r->p < r->end && is_blank(*r->p))
                r->p++;
}

static bool is_name(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

/* The next name; empty where there is none, or it is longer than any. */
static void take_name(struct reader *r, char word[WORD])
{
        size_t n = 0;

        skip_blanks(r);
        while (r->p < r->end && is_name(*r->p) && n + 1 < WORD)
                word[n++] = *r->p++;
        word[n] = '\0';
}

static bool take_char(struct reader *r, char c)
{
        if (r->p == r->end || *r->p != c)
                return false;
        r->p++;
        return true;
}

static int digit(char c, unsigned base)
{
        int v = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;

        return v < (int)base ? v : -1;
}

static bool take_number(struct reader *r, const char *what, uint64_t max, uint64_t *value)
{
        unsigned base = 10;
        const char *first;
        uint64_t v = 0;

        if (r->end - r->p > 2 && r->p[0] == '0' && r->p[1] == 'x') {
                base = 16;
                r->p += 2;
        }
        first = r->p;
        for (int d; r->p < r->end && (d = digit(*r->p, base)) >= 0; r->p++) {
                if (v > (UINT64_MAX - (unsigned)d) / base)
                        return complain(r, "%s is too large", what);
                v = v * base + (unsigned)d;
        }
        if (r->p == first)
                return complain(r, "%s wants a number", what);
        if (v > max)
                return complain(r, "%s is more than %llu", what, (unsigned long long)max);
        *value = v;
        return true;
}

static bool take_hex(struct reader *r, const char *what, struct seq_bytes *out)
{
        uint8_t bytes[SEQ_POOL];
        size_t n = 0;

        while (r->end - r->p >= 2 && digit(r->p[0], 16) >= 0 && digit(r->p[1], 16) >= 0) {
                if (n == sizeof(bytes))
                        return complain(r, "%s is more than %d bytes", what, SEQ_POOL);
                bytes[n++] = (uint8_t)(digit(r->p[0], 16) << 4 | digit(r->p[1], 16));
                r->p += 2;
        }
        if (r->p < r->end && !is_blank(*r->p) && n > 0)
                return complain(r, "%s wants pairs of hex digits", what);
        if (!seq_pool(r->s, bytes, n, out))
                return complain(r, "more than %d bytes in all", SEQ_POOL);
        return true;
}

static bool take_sign(struct reader *r, enum seq_op *op)
{
        *op = SEQ_SET;
        if (take_char(r, '+'))
                *op = SEQ_ADD;
        else if (take_char(r, '^'))
                *op = SEQ_FLIP;
        return take_char(r, '=');
}

/* --- what stands behind a template -------------------------------------------------------------- */

static bool take_cuts(struct reader *r)
{
        uint64_t v, last = r->step->cuts > 0 ? r->step->cut[r->step->cuts - 1] : 0;

        do {
                if (r->step->cuts == SEQ_CUTS)
                        return complain(r, "more than %d cuts", SEQ_CUTS);
                if (!take_number(r, "cut", UINT16_MAX, &v))
                        return false;
                if (v <= last)
                        return complain(r, "cuts have to ascend");
                r->step->cut[r->step->cuts++] = (uint16_t)v;
                last = v;
        } while (take_char(r, ','));
        return true;
}

static bool take_data(struct reader *r)
{
        uint64_t v;

        r->step->has_data = true;
        if (r->end - r->p >= 4 && memcmp(r->p, "hex:", 4) == 0) {
                r->p += 4;
                r->step->is_literal = true;
                return take_hex(r, "data", &r->step->bytes);
        }
        if (!take_number(r, "data", SEQ_DATA_MAX, &v))
                return false;
        r->step->data_len = (uint16_t)v;
        return true;
}

static bool take_poke(struct reader *r)
{
        uint64_t v;

        if (!take_number(r, "poke", SEQ_DATA_MAX, &v))
                return false;
        r->step->poke_at = (uint16_t)v;
        if (!take_char(r, ':'))
                return complain(r, "poke wants OFFSET:BYTES");
        return take_hex(r, "poke", &r->step->poke);
}

static bool take_rule(struct reader *r)
{
        char id[WORD];
        size_t n = 0;

        while (r->p < r->end && !is_blank(*r->p) && n + 1 < sizeof(id))
                id[n++] = *r->p++;
        id[n] = '\0';
        r->step->violates = rule_by_name(id);
        return r->step->violates != RULE_NONE || complain(r, "no rule '%s'", id);
}

static bool take_of(struct reader *r)
{
        uint64_t v;

        if (!take_number(r, "of", UINT8_MAX, &v))
                return false;
        r->step->of = (uint8_t)v;
        return true;
}

static bool take_digest(struct reader *r, const char *name, uint32_t *mask)
{
        uint64_t v;

        if (!take_number(r, name, UINT32_MAX, &v))
                return false;
        *mask = (uint32_t)v;
        return true;
}

/* "sqe." and "cqe." may be left out. */
static const struct field *field_of(uint8_t type, const char *name)
{
        const struct field *f = pdu_field(type, name);
        char full[WORD + 4];

        if (f || (type != PDU_CAPSULE_CMD && type != PDU_CAPSULE_RESP))
                return f;
        snprintf(full, sizeof(full), "%s%s", type == PDU_CAPSULE_CMD ? "sqe." : "cqe.", name);
        return pdu_field(type, full);
}

static bool take_change(struct reader *r, const char *name, enum seq_op op)
{
        const struct field *f = field_of(r->step->template->type, name);
        uint64_t v;

        if (!f)
                return complain(r, "no field '%s' in %s", name,
                                pdu_info(r->step->template->type)->name);
        if (r->step->changes == SEQ_CHANGES)
                return complain(r, "more than %d changes", SEQ_CHANGES);
        if (!take_number(r, name, UINT64_MAX, &v))
                return false;
        r->step->change[r->step->changes++] = (struct seq_change) { f, op, v };
        return true;
}

static bool take_value(struct reader *r, const char *name, enum seq_op op)
{
        static const struct {
                const char *name;
                bool (*take)(struct reader *r);
        } attributes[] = { { "data", take_data },
                           { "poke", take_poke },
                           { "violate", take_rule },
                           { "of", take_of } };

        if (op == SEQ_FLIP && strcmp(name, "hdgst") == 0)
                return take_digest(r, name, &r->step->hdgst_xor);
        if (op == SEQ_FLIP && strcmp(name, "ddgst") == 0)
                return take_digest(r, name, &r->step->ddgst_xor);
        for (size_t i = 0; op == SEQ_SET && i < sizeof(attributes) / sizeof(attributes[0]); i++)
                if (strcmp(name, attributes[i].name) == 0)
                        return attributes[i].take(r);
        return take_change(r, name, op);
}

/* One attribute: a field of a PDU, or something of the step. */
static bool take_attribute(struct reader *r)
{
        char name[WORD];
        enum seq_op op;

        take_name(r, name);
        if (!*name)
                return complain(r, "what is '%.*s'?",
                                (int)(r->end - r->p > 20 ? 20 : r->end - r->p), r->p);
        if (r->step->kind == SEQ_PDU && strcmp(name, "stale") == 0) {
                r->step->stale = true;
                return true;
        }
        if (!take_sign(r, &op))
                return complain(r, "'%s' wants =, += or ^= and a value", name);
        if (op == SEQ_SET && strcmp(name, "cut") == 0)
                return take_cuts(r);
        if (r->step->kind != SEQ_PDU)
                return complain(r, "'%s' is not of this", name);
        return take_value(r, name, op);
}

static bool take_attributes(struct reader *r)
{
        for (skip_blanks(r); r->p < r->end; skip_blanks(r))
                if (!take_attribute(r) || (r->p < r->end && !is_blank(*r->p) &&
                                           !complain(r, "'%c' behind a value", *r->p)))
                        return false;
        return true;
}

/* --- lines -------------------------------------------------------------------------------------- */

static bool take_delay(struct reader *r)
{
        uint64_t ms;

        skip_blanks(r);
        if (!take_number(r, "delay", SEQ_DELAY_MAX, &ms))
                return false;
        r->step->ms = (uint32_t)ms;
        return true;
}

static bool take_kind(struct reader *r, const char *word)
{
        r->step->template = seq_template(r->s->side, word);
        if (r->step->template)
                return true;
        if (strcmp(word, "raw") == 0) {
                r->step->kind = SEQ_RAW;
                skip_blanks(r);
                return take_hex(r, "raw", &r->step->bytes);
        }
        if (strcmp(word, "delay") == 0) {
                r->step->kind = SEQ_DELAY;
                return take_delay(r);
        }
        if (strcmp(word, "close") == 0)
                r->step->kind = SEQ_CLOSE;
        else if (strcmp(word, "reset") == 0)
                r->step->kind = SEQ_RESET;
        else
                return complain(r, "a %s says no '%s'", party_name(r->s->side), word);
        return true;
}

static bool take_step(struct reader *r, const char *word)
{
        if (r->s->steps == SEQ_STEPS)
                return complain(r, "more than %d steps", SEQ_STEPS);
        r->step = &r->s->step[r->s->steps++];
        memset(r->step, 0, sizeof(*r->step));
        return take_kind(r, word) && take_attributes(r);
}

static bool take_party(struct reader *r, enum party *side)
{
        char word[WORD];

        take_name(r, word);
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                if (strcmp(word, party_name(p)) == 0) {
                        *side = p;
                        return true;
                }
        return complain(r, "who plays: host or controller?");
}

static bool take_first(struct reader *r, const char *word)
{
        char name[WORD];
        enum seq_op op;
        uint64_t v = 0;

        if (strcmp(word, "sequence") != 0)
                return complain(r, "the first line is 'sequence host' or 'sequence controller'");
        if (!take_party(r, &r->s->side))
                return false;
        for (skip_blanks(r); r->p < r->end; skip_blanks(r)) {
                take_name(r, name);
                if (!take_sign(r, &op) || op != SEQ_SET ||
                    (strcmp(name, "config") != 0 && strcmp(name, "scarce") != 0))
                        return complain(r, "config=N or scarce=N, not '%s'", name);
                if (!take_number(r, name, UINT32_MAX, &v))
                        return false;
                *(*name == 'c' ? &r->s->config : &r->s->scarce) = (uint32_t)v;
        }
        return true;
}

bool seq_parse(struct sequence *s, const char *text, size_t n, char *err, size_t err_size)
{
        struct reader r = { .s = s, .err = err, .err_size = err_size };
        const char *end = text + n;
        bool begun = false;
        char word[WORD];

        s->config = s->scarce = 0;
        s->steps = 0;
        s->pooled = 0;
        for (const char *next; text < end; text = next) {
                const char *stop = memchr(text, '\n', (size_t)(end - text));
                const char *comment;

                r.p = text;
                r.end = stop ? stop : end;
                next = stop ? stop + 1 : end;
                r.line++;
                comment = memchr(text, '#', (size_t)(r.end - text));
                if (comment)
                        r.end = comment;
                skip_blanks(&r);
                if (r.p == r.end)
                        continue;
                take_name(&r, word);
                if (begun ? !take_step(&r, word) : !take_first(&r, word))
                        return false;
                begun = true;
        }
        return begun || complain(&r, "there is no sequence in it");
}
