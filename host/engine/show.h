/* SPDX-License-Identifier: BSD-3-Clause */
/* What a subcommand prints: a description as text lines, or as one JSON object with "schema": 1. */
#ifndef NVMF_HOST_SHOW_H
#define NVMF_HOST_SHOW_H

#include <stdbool.h>

#include "pdu/io/json.h"

struct show {
        struct describe d;        /* tell it what there is to show */
        struct json_object *json; /* the object; NULL for text */
        struct json_groups groups;
        struct text_lines lines;
        char *buf;
};

/* Out of memory, text is dropped, and show_end() prints nothing. */
void show_begin(struct show *s, bool json);
/* Prints and frees. */
void show_end(struct show *s);

/* A new object with "schema": 1; show_json() prints it and frees it. */
struct json_object *show_object(void);
void show_json(struct json_object *o);

/* "64.0 MiB" */
const char *show_size(uint64_t bytes, char buf[32]);

#endif
