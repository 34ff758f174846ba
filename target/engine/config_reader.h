/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A configuration's JSON taken into structures by tables of keys. What is wrong is told in one line,
 * with the place in the document: "FILE: subsystems[0].namespaces[1].nsid: '0' is no number". For the
 * families' readers. A file may have sections of several families: each reads its own.
 */
#ifndef NVMF_TARGET_CONFIG_READER_H
#define NVMF_TARGET_CONFIG_READER_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reader {
        const char *file;
        char path[256]; /* of the value in hand; it stays where something was wrong */
        char *error;    /* the caller's */
        size_t size;
        bool has_keys; /* itself, not in files that it names */
};

/* Takes a value into *at. All functions here return false (NULL) once they have complained. */
typedef bool take_fn(struct reader *r, struct json_object *v, void *at);

struct key { /* of an object; a table ends with name NULL */
        const char *name;
        take_fn *take;
        size_t offset; /* into the struct that the object fills */
};

struct choice { /* a table ends with text NULL */
        const char *text;
        uint8_t value;
};

/* Always false. */
bool __attribute__((format(printf, 2, 3))) reader_complain(struct reader *r, const char *fmt, ...);
bool reader_no_memory(struct reader *r);

/* Keys of nvmetcli that are not supported here: a warning says that they are ignored, with their place. Always; unless
 * the value is 0, -1 or empty, which asks for nothing; unless it is not 0; never, as there is nothing to ignore. */
take_fn reader_ignored, reader_ignored_unless_off, reader_ignored_unless_on, reader_moot;

/* One step down: ".key" or "[index]"; the caller cuts path back to the length returned. */
size_t __attribute__((format(printf, 2, 3))) reader_descend(struct reader *r, const char *fmt, ...);

/* An object by its keys; keys that begin with "x-" are for others, unknown ones are wrong. */
bool reader_object(struct reader *r, struct json_object *v, const struct key *keys, void *at);
/* `each` takes an element; all get the same `at`. */
bool reader_array(struct reader *r, struct json_object *v, take_fn *each, void *at);

/* A number, or a string that is one; hexadecimal with 0x, octal not at all. */
bool reader_number(struct reader *r, struct json_object *v, uint64_t min, uint64_t max,
                   uint64_t *n);
take_fn reader_u16;  /* a uint16_t */
take_fn reader_bool; /* a bool: true, 1, "1" */
/* A string of at most max bytes, none of them zero, or a number as one; good as long as v. */
const char *reader_text(struct reader *r, struct json_object *v, size_t max);
/* Copied to at, which has room for max bytes and a zero. */
bool reader_copy(struct reader *r, struct json_object *v, void *at, size_t max);
/* A uint8_t: the value of one of the words. */
bool reader_choice(struct reader *r, struct json_object *v, const struct choice *words, void *at);

/* All of r->file, to be given back; NULL: it cannot be read, is no JSON, or an object has a key twice. */
struct json_object *reader_file(struct reader *r);

#endif
