/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptions as JSON: numbers stay numbers, their meaning stands beside them as "<name>_text";
 * groups are objects, "name[]" groups the elements of an array called name. Bytes of a peer that
 * are not ASCII are written as the code points 80h to FFh, so that the output is valid whatever
 * they are.
 */
#ifndef NVMF_IO_JSON_H
#define NVMF_IO_JSON_H

#include <json-c/json.h>

#include "pdu/core/text.h"

enum { JSON_GROUPS = 8 }; /* depth; deeper groups are left out */

struct json_groups {
        struct json_object *open[JSON_GROUPS]; /* open[0]: the caller's object */
        int depth;
};

/* A visitor that adds to the object `into`; g is its memory and must outlive it. */
struct describe json_describer(struct json_groups *g, struct json_object *into);

/* Adds a member to an object; put_string() as it is. */
void put_string(struct json_object *o, const char *name, const char *text);
void put_number(struct json_object *o, const char *name, uint64_t n);
void put_bool(struct json_object *o, const char *name, bool b);
/* An object, or an array, of that name in it. */
struct json_object *put_object(struct json_object *o, const char *name);
struct json_object *put_array(struct json_object *o, const char *name);

#endif
