/* SPDX-License-Identifier: BSD-3-Clause */
#include "show.h"

#include <stdio.h>
#include <stdlib.h>

enum { TEXT_MAX = 1 << 20, SCHEMA = 1 };

struct json_object *show_object(void)
{
        struct json_object *o = json_object_new_object();

        json_object_object_add(o, "schema", json_object_new_int(SCHEMA));
        return o;
}

void show_json(struct json_object *o)
{
        puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PRETTY |
                                                   JSON_C_TO_STRING_NOSLASHESCAPE));
        json_object_put(o);
}

void show_begin(struct show *s, bool json)
{
        static char none[1];

        *s = (struct show) { 0 };
        if (json) {
                s->json = show_object();
                s->d = json_describer(&s->groups, s->json);
        } else {
                s->buf = malloc(TEXT_MAX);
                s->lines.text = s->buf ? text_in(s->buf, TEXT_MAX) : text_in(none, sizeof(none));
                s->d = text_describer(&s->lines);
        }
}

void show_end(struct show *s)
{
        if (s->json)
                show_json(s->json);
        else
                fputs(s->lines.text.p, stdout);
        free(s->buf);
}

const char *show_size(uint64_t bytes, char buf[32])
{
        static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
        double value = (double)bytes;
        unsigned unit = 0;

        while (value >= 1024 && unit < 6) {
                value /= 1024;
                unit++;
        }
        snprintf(buf, 32, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
        return buf;
}
