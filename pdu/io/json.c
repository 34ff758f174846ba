/* SPDX-License-Identifier: BSD-3-Clause */
#include "json.h"

#include <stdio.h>
#include <string.h>

/* NULL where groups are nested too deep: json-c frees what could not be added. */
static struct json_object *top(const struct json_groups *g)
{
        return g->depth < JSON_GROUPS ? g->open[g->depth] : NULL;
}

static void add(const struct json_groups *g, const char *name, struct json_object *value)
{
        if (top(g))
                json_object_object_add(top(g), name, value);
        else
                json_object_put(value);
}

/* The array called `name` in the open group, made when it is not there. */
static struct json_object *list(const struct json_groups *g, const char *name)
{
        struct json_object *array = NULL;

        if (top(g) && !json_object_object_get_ex(top(g), name, &array)) {
                array = json_object_new_array();
                json_object_object_add(top(g), name, array);
        }
        return array;
}

static void open_group(struct json_groups *g, const char *name)
{
        struct json_object *object = json_object_new_object();
        size_t len = strcspn(name, "[");
        char bare[64];

        snprintf(bare, sizeof(bare), "%.*s", (int)len, name);
        if (!top(g))
                json_object_put(object);
        else if (name[len] == '[')
                json_object_array_add(list(g, bare), object);
        else
                json_object_object_add(top(g), bare, object);
        if (++g->depth < JSON_GROUPS)
                g->open[g->depth] = object;
}

static void on_group(void *arg, const char *name)
{
        struct json_groups *g = arg;

        if (name)
                open_group(g, name);
        else
                g->depth--;
}

static void on_number(void *arg, const char *name, uint64_t value, unsigned bits,
                      const char *meaning)
{
        struct json_groups *g = arg;
        char text[80];

        (void)bits;
        add(g, name, json_object_new_uint64(value));
        if (!meaning)
                return;
        snprintf(text, sizeof(text), "%s_text", name);
        add(g, text, json_object_new_string(meaning));
}

static void on_string(void *arg, const char *name, const char *s, size_t len)
{
        char utf8[2048];
        size_t n = 0;

        for (size_t i = 0; i < len && n < sizeof(utf8) - 2; i++) {
                unsigned char c = (unsigned char)s[i];

                if (c >= 0x80)
                        utf8[n++] = (char)(0xc0 | c >> 6);
                utf8[n++] = (char)(c >= 0x80 ? 0x80 | (c & 0x3f) : c);
        }
        add(arg, name, json_object_new_string_len(utf8, (int)n));
}

struct describe json_describer(struct json_groups *g, struct json_object *into)
{
        *g = (struct json_groups) { .open = { into } };
        return (struct describe) { g, on_group, on_number, on_string };
}

void put_string(struct json_object *o, const char *name, const char *text)
{
        json_object_object_add(o, name, json_object_new_string(text));
}

void put_number(struct json_object *o, const char *name, uint64_t n)
{
        json_object_object_add(o, name, json_object_new_uint64(n));
}

void put_bool(struct json_object *o, const char *name, bool b)
{
        json_object_object_add(o, name, json_object_new_boolean(b));
}

struct json_object *put_object(struct json_object *o, const char *name)
{
        struct json_object *inside = json_object_new_object();

        json_object_object_add(o, name, inside);
        return inside;
}

struct json_object *put_array(struct json_object *o, const char *name)
{
        struct json_object *array = json_object_new_array();

        json_object_object_add(o, name, array);
        return array;
}
