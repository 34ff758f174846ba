/* SPDX-License-Identifier: BSD-3-Clause */
#include "text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "be.h"
#include "le.h"

/* --- a line in a buffer ----------------------------------------------------------------------- */

struct text text_in(char *buf, size_t cap)
{
        buf[0] = '\0';
        return (struct text) { .p = buf, .cap = cap };
}

void text_add(struct text *t, const char *fmt, ...)
{
        va_list args;
        int n;

        va_start(args, fmt);
        n = vsnprintf(t->p + t->len, t->cap - t->len, fmt, args);
        va_end(args);
        if (n > 0)
                t->len += (size_t)n < t->cap - t->len ? (size_t)n : t->cap - t->len - 1;
}

/* Bytes of a peer: what is not printable ASCII is shown in hex. */
void text_printable(struct text *t, const char *s, size_t len)
{
        for (size_t i = 0; i < len; i++) {
                unsigned char c = (unsigned char)s[i];

                text_add(t, c >= 0x20 && c < 0x7f ? "%c" : "\\x%02x", c);
        }
}

size_t text_len(const char *s, size_t n)
{
        n = strnlen(s, n);
        while (n > 0 && s[n - 1] == ' ')
                n--;
        return n;
}

void text_copy(char *dst, size_t cap, const char *s, size_t n)
{
        size_t len = text_len(s, n);

        if (len > cap - 1)
                len = cap - 1;
        memcpy(dst, s, len);
        dst[len] = '\0';
}

void text_pad(char *dst, size_t n, const char *s)
{
        size_t len = strnlen(s, n);

        memcpy(dst, s, len);
        memset(dst + len, ' ', n - len);
}

void text_fill(char *dst, size_t n, const char *s)
{
        size_t len = strnlen(s, n);

        memcpy(dst, s, len);
        memset(dst + len, 0, n - len);
}

/* --- fields ----------------------------------------------------------------------------------- */

const char *word_for(const struct word *words, uint64_t value)
{
        for (; words && words->says; words++)
                if (words->value == value)
                        return words->says;
        return NULL;
}

static unsigned number_bytes(const struct field *f)
{
        return f->size < 8 ? f->size : 8;
}

static unsigned field_bits(const struct field *f)
{
        return f->bits ? f->bits : number_bytes(f) * 8;
}

static uint64_t mask_of(const struct field *f)
{
        return field_bits(f) < 64 ? (UINT64_C(1) << field_bits(f)) - 1 : UINT64_MAX;
}

int hex_digit(char c)
{
        int low = c | 0x20;

        return c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

const struct field *field_named(const struct field *fields, const char *name)
{
        for (const struct field *f = fields; f && f->name; f++)
                if (strcmp(f->name, name) == 0)
                        return f;
        return NULL;
}

uint64_t field_get(const struct field *f, const void *base)
{
        const uint8_t *at = (const uint8_t *)base + f->offset;
        uint64_t all = f->big ? be_get(at, number_bytes(f)) : le_get(at, number_bytes(f));

        return all >> f->shift & mask_of(f);
}

void field_put(const struct field *f, void *base, uint64_t value)
{
        uint8_t *at = (uint8_t *)base + f->offset;
        uint64_t mask = mask_of(f) << f->shift;
        uint64_t all = f->big ? be_get(at, number_bytes(f)) : le_get(at, number_bytes(f));

        (f->big ? be_put : le_put)(at, number_bytes(f), (all & ~mask) | (value << f->shift & mask));
}

/* The words of all bits that are set; what has no word in hex. */
static void bits_text(struct text *t, const struct word *words, uint64_t value)
{
        for (; words && words->says; words++) {
                if (words->value == 0 || (value & words->value) != words->value)
                        continue;
                text_add(t, "%s%s", t->len ? ", " : "", words->says);
                value &= ~words->value;
        }
        if (value && t->len)
                text_add(t, ", 0x%" PRIx64, value);
}

/* The meaning of a value in t; NULL if it has none. */
static const char *meaning_of(struct text *t, const struct field *f, uint64_t value)
{
        const char *word = f->kind == FIELD_BITS ? NULL : word_for(f->words, value);

        if (word)
                return word;
        if (f->kind == FIELD_BITS)
                bits_text(t, f->words, value);
        else if (f->kind == FIELD_ZERO_BASED)
                text_add(t, "%" PRIu64, value + 1);
        if (f->say)
                f->say(t, value);
        return t->len ? t->p : NULL;
}

static void describe_hex(const struct describe *d, const struct field *f, const uint8_t *p)
{
        char buf[2 * 64 + 4 + 1];
        struct text t = text_in(buf, sizeof(buf));

        for (unsigned i = 0; i < f->size; i++)
                text_add(&t,
                         f->kind == FIELD_UUID && (i == 4 || i == 6 || i == 8 || i == 10) ? "-%02x"
                                                                                          : "%02x",
                         p[i]);
        d->string(d->arg, f->name, buf, t.len);
}

/* 128 bits: a number when 64 are enough, else hex. */
static void describe_long(const struct describe *d, const struct field *f, const uint8_t *p)
{
        uint64_t low = le_get(p, 8), high = le_get(p + 8, 8);
        char buf[2 + 32 + 1];
        struct text t = text_in(buf, sizeof(buf));

        if (!high) {
                d->number(d->arg, f->name, low, 128, NULL);
                return;
        }
        text_add(&t, "0x%" PRIx64 "%016" PRIx64, high, low);
        d->string(d->arg, f->name, buf, t.len);
}

static void describe_number(const struct describe *d, const struct field *f, const void *base)
{
        char buf[256];
        struct text t = text_in(buf, sizeof(buf));
        uint64_t value = field_get(f, base);

        d->number(d->arg, f->name, value, field_bits(f), meaning_of(&t, f, value));
}

static void describe_field(const struct describe *d, const struct field *f, const void *base)
{
        const uint8_t *at = (const uint8_t *)base + f->offset;

        if (f->kind == FIELD_STRING)
                d->string(d->arg, f->name, (const char *)at, text_len((const char *)at, f->size));
        else if (f->kind == FIELD_BYTES || f->kind == FIELD_UUID)
                describe_hex(d, f, at);
        else if (f->size == 16)
                describe_long(d, f, at);
        else
                describe_number(d, f, base);
}

void describe_fields(const struct describe *d, const struct field *fields, const void *base)
{
        for (; fields->name; fields++)
                describe_field(d, fields, base);
}

/* --- the visitor that writes lines ------------------------------------------------------------ */

enum { NAME_WIDTH = 12 };

static void lines_name(struct text_lines *l, const char *name)
{
        text_add(&l->text, "%*s%-*s : ", l->depth * 2, "", NAME_WIDTH, name);
}

static void lines_group(void *arg, const char *name)
{
        struct text_lines *l = arg;

        if (!name) {
                l->depth--;
                return;
        }
        text_add(&l->text, "%*s%.*s\n", l->depth * 2, "", (int)strcspn(name, "["), name);
        l->depth++;
}

static void lines_number(void *arg, const char *name, uint64_t value, unsigned bits,
                         const char *meaning)
{
        struct text_lines *l = arg;

        (void)bits;
        lines_name(l, name);
        text_add(&l->text, "%" PRIu64, value);
        if (meaning)
                text_add(&l->text, " (%s)", meaning);
        text_add(&l->text, "\n");
}

static void lines_string(void *arg, const char *name, const char *s, size_t len)
{
        struct text_lines *l = arg;

        lines_name(l, name);
        text_printable(&l->text, s, len);
        text_add(&l->text, "\n");
}

struct describe text_describer(struct text_lines *lines)
{
        return (struct describe) { lines, lines_group, lines_number, lines_string };
}
