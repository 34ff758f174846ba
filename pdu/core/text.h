/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Description: a message or data structure as named fields. Each file of a protocol lists its fields
 * once, in tables; text and JSON are two visitors, field mutation is a third reader of the same
 * tables.
 */
#ifndef NVMF_CORE_TEXT_H
#define NVMF_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing line in a buffer of fixed size; what does not fit is cut, never overrun. */
struct text {
        char *p;
        size_t cap, len; /* p[len] is NUL; len < cap */
};
/* An empty line in buf, which stays the caller's and must outlive it; cap, bytes with the NUL,
 * is not 0. text_add() appends as printf() does, and cuts without notice. */
struct text text_in(char *buf, size_t cap);
void text_add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

struct describe {
        void *arg;
        /* NULL: end of the group. A name that ends in "[]": an element of the list of that name. */
        void (*group)(void *arg, const char *name);
        /* meaning: the value in words, or NULL; bits: width of the field */
        void (*number)(void *arg, const char *name, uint64_t value, unsigned bits,
                       const char *meaning);
        void (*string)(void *arg, const char *name, const char *s, size_t len);
};

/* Values and their words, ended by says NULL; for FIELD_BITS the values are masks. */
struct word {
        uint64_t value;
        const char *says;
};
/* clang-format off */
#define WORDS(...) (const struct word[]) { __VA_ARGS__, { 0, NULL } }
/* clang-format on */
/* What `value` is called in the list, NULL if nothing. */
const char *word_for(const struct word *words, uint64_t value);

enum field_kind {
        FIELD_NUMBER,     /* little-endian, up to 16 bytes, or .big, up to 8 */
        FIELD_ZERO_BASED, /* ... whose meaning is one more */
        FIELD_BITS,       /* ... whose bits have names */
        FIELD_STRING,     /* padded with spaces or NULs */
        FIELD_BYTES,      /* shown in hex */
        FIELD_UUID,
};

/* A field of a header or structure: the row of every mutation and description table. */
struct field {
        const char *name;      /* as the specification abbreviates it, lower case: "ttag" */
        uint16_t offset, size; /* bytes */
        enum field_kind kind;
        uint8_t shift, bits;                         /* only these bits of it; bits 0: all */
        bool key;                                    /* told in a line also when it is zero */
        bool big;                                    /* big-endian */
        const struct word *words;                    /* may be NULL */
        void (*say)(struct text *t, uint64_t value); /* the meaning; may be NULL */
};
/* A row by place, and that of a structure's member, named after it; .kind and so on may follow. */
/* clang-format off */
#define FIELD_AT(called, at, bytes, ...)                                                           \
        { .name = (called), .offset = (at), .size = (bytes), ##__VA_ARGS__ }
#define FIELD(type, member, ...)                                                                   \
        FIELD_AT(#member, offsetof(type, member), sizeof(((type *)0)->member), ##__VA_ARGS__)
/* clang-format on */

/* The value of a hexadecimal digit; -1: it is none. */
int hex_digit(char c);

/* The row of that name in a table (ended by name NULL; NULL: an empty one), NULL if there is none. */
const struct field *field_named(const struct field *fields, const char *name);
/* The value of a field (of one longer than 8 bytes: its first 8) in the structure at `base`. */
uint64_t field_get(const struct field *f, const void *base);
/* Sets it, its neighbours in the same bytes apart. */
void field_put(const struct field *f, void *base, uint64_t value);

/* The fields of a table (ended by name NULL) to a visitor. */
void describe_fields(const struct describe *d, const struct field *fields, const void *base);

/* Lines "name : value (meaning)", groups indented. Start with { .text = text_in(...) }. */
struct text_lines {
        struct text text;
        int depth;
};
/* The visitor that writes them; lines must outlive it. */
struct describe text_describer(struct text_lines *lines);

/* Adds s[0..len) as it can be shown to anybody: what is not printable ASCII as \xNN. */
void text_printable(struct text *t, const char *s, size_t len);

/* Bytes of a string in a field of n bytes: up to the first NUL, without trailing spaces. */
size_t text_len(const char *s, size_t n);
/* That string into dst, NUL-terminated and cut to cap - 1 bytes. */
void text_copy(char *dst, size_t cap, const char *s, size_t n);
/* Fills a field of n bytes with s, padded with spaces (text_pad) or NULs (text_fill); cut to n. */
void text_pad(char *dst, size_t n, const char *s);
void text_fill(char *dst, size_t n, const char *s);

#endif
