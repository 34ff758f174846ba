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
                return complain(r, "%s requires a number", what);
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
                return complain(r, "%s requires pairs of hex digits", what);
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

/* --- what stands after a template -------------------------------------------------------------- */

static bool take_cuts(struct reader *r)
{
        uint64_t v, last = r->step->cuts > 0 ? r->step->cut[r->step->cuts - 1] : 0;

        if (!seq_transport(r->s)->stream)
                return complain(r, "cuts are possible in a stream only");
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
                return complain(r, "poke requires OFFSET:BYTES");
        return take_hex(r, "poke", &r->step->poke);
}

static bool take_rule(struct reader *r, unsigned *rule)
{
        char id[WORD];
        size_t n = 0;

        while (r->p < r->end && !is_blank(*r->p) && n + 1 < sizeof(id))
                id[n++] = *r->p++;
        id[n] = '\0';
        *rule = seq_rule(r->s->family, id);
        return *rule != RULE_NONE || complain(r, "no rule '%s'", id);
}

static bool take_violate(struct reader *r)
{
        return take_rule(r, &r->step->violates);
}

static bool take_keys(struct reader *r)
{
        uint64_t v;

        if (seq_transport(r->s)->keys == 0 || !r->step->template->command)
                return complain(r, "keys belong to commands over rdma");
        if (!take_number(r, "keys", seq_transport(r->s)->keys, &v))
                return false;
        r->step->keys = (uint8_t)(v + 1);
        return true;
}

static bool take_of(struct reader *r)
{
        uint64_t v;

        if (!take_number(r, "of", UINT8_MAX, &v))
                return false;
        r->step->of = (uint8_t)v;
        return true;
}

static bool take_on(struct reader *r)
{
        uint64_t v;

        if (seq_is_for_all(r->step))
                return complain(r, "a %s applies to all connections",
                                r->step->kind == SEQ_DELAY ? "delay" : "reload");
        if (!take_number(r, "on", r->s->queues - 1u, &v))
                return false;
        r->step->on = (uint8_t)v;
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

static bool take_change(struct reader *r, const char *name, enum seq_op op)
{
        const struct seq_template *t = r->step->template;
        const struct field *f = seq_field(r->s->family, r->s->transport, t, name);
        uint64_t v;

        if (!f)
                return complain(r, "no field '%s' in %s", name, t->message ? t->message : t->name);
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
                           { "violate", take_violate },
                           { "of", take_of },
                           { "keys", take_keys } };
        bool stream = seq_transport(r->s)->stream;

        if (stream && op == SEQ_FLIP && strcmp(name, "hdgst") == 0)
                return take_digest(r, name, &r->step->hdgst_xor);
        if (stream && op == SEQ_FLIP && strcmp(name, "ddgst") == 0)
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
                return complain(r, "unknown word '%.*s'",
                                (int)(r->end - r->p > 20 ? 20 : r->end - r->p), r->p);
        if (r->step->kind == SEQ_PDU && seq_transport(r->s)->stream && strcmp(name, "stale") == 0) {
                r->step->stale = true;
                return true;
        }
        if (!take_sign(r, &op))
                return complain(r, "'%s' requires =, += or ^= and a value", name);
        if (op == SEQ_SET && strcmp(name, "cut") == 0)
                return take_cuts(r);
        if (op == SEQ_SET && strcmp(name, "on") == 0)
                return take_on(r);
        if (op == SEQ_SET && r->step->kind == SEQ_FAIL && strcmp(name, "of") == 0)
                return take_of(r);
        if (r->step->kind != SEQ_PDU)
                return complain(r, "'%s' does not belong to this", name);
        return take_value(r, name, op);
}

static bool take_attributes(struct reader *r)
{
        for (skip_blanks(r); r->p < r->end; skip_blanks(r))
                if (!take_attribute(r) || (r->p < r->end && !is_blank(*r->p) &&
                                           !complain(r, "'%c' after a value", *r->p)))
                        return false;
        return true;
}

/* --- lines -------------------------------------------------------------------------------------- */

static bool take_delay(struct reader *r)
{
        uint64_t ms = 0;

        skip_blanks(r);
        if (!take_number(r, "delay", SEQ_DELAY_MAX, &ms))
                return false;
        r->step->ms = (uint32_t)ms;
        return true;
}

static bool take_reload(struct reader *r)
{
        uint64_t of = 0;

        skip_blanks(r);
        if (!take_number(r, "reload", SEQ_RELOADS - 1, &of))
                return false;
        r->step->of = (uint8_t)of;
        return true;
}

static bool take_raw(struct reader *r)
{
        skip_blanks(r);
        return take_hex(r, "raw", &r->step->bytes);
}

static bool take_status(struct reader *r)
{
        char name[WORD];

        take_name(r, name);
        r->step->status = seq_status(name);
        return r->step->status != VERBS_STATUSES || complain(r, "no status '%s'", name);
}

static bool take_kind(struct reader *r, const char *word)
{
        static const struct {
                const char *word;
                enum seq_kind kind;
                bool device;
                bool (*take)(struct reader *r);
        } kinds[] = {
                { "raw", SEQ_RAW, false, take_raw },
                { "delay", SEQ_DELAY, false, take_delay },
                { "close", SEQ_CLOSE, false, NULL },
                { "reset", SEQ_RESET, false, NULL },
                { "fail", SEQ_FAIL, true, take_status },
                { "remove", SEQ_REMOVE, true, NULL },
                { "reload", SEQ_RELOAD, false, take_reload },
        };

        r->step->template = seq_template(r->s->family, r->s->transport, r->s->side, word);
        if (r->step->template)
                return true;
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                if (strcmp(word, kinds[i].word) == 0 &&
                    (!kinds[i].device || seq_transport(r->s)->device)) {
                        r->step->kind = kinds[i].kind;
                        return !kinds[i].take || kinds[i].take(r);
                }
        return complain(r, "a %s does not send '%s' over %s", party_name(r->s->side), word,
                        r->s->family->family->transports[r->s->transport]);
}

static bool take_step(struct reader *r, const char *word)
{
        if (r->s->steps == SEQ_STEPS)
                return complain(r, "more than %d steps", SEQ_STEPS);
        r->step = &r->s->step[r->s->steps++];
        memset(r->step, 0, sizeof(*r->step));
        return take_kind(r, word) && take_attributes(r);
}

/* The family is told where a program has several; then who plays. */
static bool take_party(struct reader *r)
{
        char word[WORD];

        take_name(r, word);
        for (const struct fuzz_family *const *f = fuzz_families + 1; *f; f++)
                if (strcmp(word, (*f)->family->rules->name) == 0) {
                        r->s->family = *f;
                        take_name(r, word);
                        break;
                }
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                if (strcmp(word, party_name(p)) == 0) {
                        r->s->side = p;
                        return true;
                }
        return complain(r, "neither 'host' nor 'controller' follows 'sequence'");
}

static bool take_u32(struct reader *r, const char *name, uint32_t *out)
{
        uint64_t v = 0;

        if (!take_number(r, name, UINT32_MAX, &v))
                return false;
        *out = (uint32_t)v;
        return true;
}

static bool take_queues(struct reader *r)
{
        uint64_t v = 0;

        if (!take_number(r, "queues", SEQ_QUEUES, &v))
                return false;
        r->s->queues = (uint8_t)(v > 0 ? v : 1);
        return true;
}

/* A word of the first line, after who plays. */
static bool take_setting(struct reader *r)
{
        const char *const *transports = r->s->family->family->transports;
        char name[WORD];
        enum seq_op op;

        take_name(r, name);
        for (unsigned i = 1; transports[0] && transports[i]; i++)
                if (strcmp(name, transports[i]) == 0) {
                        r->s->transport = i;
                        return true;
                }
        if (take_sign(r, &op) && op == SEQ_SET) {
                if (strcmp(name, "config") == 0)
                        return take_u32(r, name, &r->s->config);
                if (strcmp(name, "scarce") == 0)
                        return take_u32(r, name, &r->s->scarce);
                if (strcmp(name, "queues") == 0)
                        return take_queues(r);
                if (strcmp(name, "violate") == 0)
                        return take_rule(r, &r->s->violates);
        }
        return complain(r, "rdma, config=N, scarce=N, queues=N or violate=RULE, not '%s'", name);
}

static bool take_first(struct reader *r, const char *word)
{
        if (strcmp(word, "sequence") != 0)
                return complain(r, "the first line is 'sequence host' or 'sequence controller'");
        if (!take_party(r))
                return false;
        for (skip_blanks(r); r->p < r->end; skip_blanks(r))
                if (!take_setting(r))
                        return false;
        return true;
}

static bool take_lines(struct reader *r, const char *text, size_t n, bool begun)
{
        const char *end = text + n;
        char word[WORD];

        for (const char *next; text < end; text = next) {
                const char *stop = memchr(text, '\n', (size_t)(end - text));
                const char *comment;

                r->p = text;
                r->end = stop ? stop : end;
                next = stop ? stop + 1 : end;
                r->line++;
                comment = memchr(text, '#', (size_t)(r->end - text));
                if (comment)
                        r->end = comment;
                skip_blanks(r);
                if (r->p == r->end)
                        continue;
                take_name(r, word);
                if (begun ? !take_step(r, word) : !take_first(r, word))
                        return false;
                begun = true;
        }
        return begun || complain(r, "it contains no sequence");
}

static void make_empty(struct sequence *s)
{
        s->config = s->scarce = 0;
        s->violates = RULE_NONE;
        s->steps = 0;
        s->pooled = 0;
        s->queues = 1;
}

bool seq_parse(struct sequence *s, const char *text, size_t n, char *err, size_t err_size)
{
        struct reader r = { .s = s, .err = err, .err_size = err_size };

        s->family = fuzz_families[0];
        s->transport = 0;
        make_empty(s);
        return take_lines(&r, text, n, false);
}

bool seq_parse_steps(struct sequence *s, const struct sequence *like, const char *text, char *err,
                     size_t err_size)
{
        struct reader r = { .s = s, .err = err, .err_size = err_size };

        s->family = like->family;
        s->transport = like->transport;
        s->side = like->side;
        make_empty(s);
        return take_lines(&r, text, strlen(text), true);
}
