/* SPDX-License-Identifier: BSD-3-Clause */
#include "trace_line.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/io/json.h"

#define BEGINS "{\"nvmfspec_trace\":"

enum { VERSION = 1, DEPTH = 8 };

bool trace_line_begins(const char *text)
{
        return strncmp(text, BEGINS, sizeof(BEGINS) - 1) == 0;
}

int trace_line_next(FILE *f, char text[TRACE_LINE_MAX], char *error, size_t size)
{
        char *end;

        if (!fgets(text, TRACE_LINE_MAX, f)) {
                if (!ferror(f))
                        return 0;
                snprintf(error, size, "%s", strerror(errno));
                return -1;
        }
        end = strchr(text, '\n');
        if (end) {
                *end = '\0';
                return 1;
        }
        if (feof(f))
                snprintf(error, size, "the file is cut here");
        else
                snprintf(error, size, "has a zero byte, or more than %d", TRACE_LINE_MAX - 2);
        return -1;
}

/* --- members ---------------------------------------------------------------------------------- */

struct members {
        struct json_object *of;
        char *error; /* what is wrong with the first that is */
        size_t size;
        bool wrong;
};

static void complain(struct members *m, const char *name, const char *is)
{
        if (!m->wrong)
                snprintf(m->error, m->size, "%s is %s", name, is);
        m->wrong = true;
}

/* NULL: it is not there, and that is wrong if it is required. */
static struct json_object *member(struct members *m, const char *name, enum json_type type,
                                  bool required)
{
        struct json_object *v = NULL;

        if (!json_object_object_get_ex(m->of, name, &v)) {
                if (required)
                        complain(m, name, "missing");
                return NULL;
        }
        if (json_object_is_type(v, type))
                return v;
        complain(m, name, "of another type");
        return NULL;
}

static bool take_number(struct members *m, const char *name, uint64_t max, bool required,
                        uint64_t *n)
{
        struct json_object *v = member(m, name, json_type_int, required);

        *n = 0;
        if (!v)
                return false;
        *n = json_object_get_uint64(v);
        if (*n > max || json_object_get_int64(v) < 0)
                complain(m, name, "out of range");
        return !m->wrong;
}

static void take_text(struct members *m, const char *name, bool required, char *to, size_t room)
{
        struct json_object *v = member(m, name, json_type_string, required);
        const char *from = v ? json_object_get_string(v) : "";
        size_t n = 0;

        for (; from[n] && n + 1 < room; n++)
                to[n] = from[n] >= ' ' && from[n] < 0x7f ? from[n] : '?';
        to[n] = '\0';
}

static bool take_bool(struct members *m, const char *name, bool otherwise)
{
        struct json_object *v = member(m, name, json_type_boolean, false);

        return v ? json_object_get_boolean(v) : otherwise;
}

/* --- a command -------------------------------------------------------------------------------- */

static void take_who(struct members *m, struct trace_line *l)
{
        uint64_t time;

        if (take_number(m, "time", INT64_MAX / 2, true, &time))
                l->time_ns = (int64_t)time;
        take_number(m, "conn", UINT32_MAX, true, &l->conn);
        take_text(m, "transport", true, l->transport, sizeof(l->transport));
        take_text(m, "hostnqn", false, l->hostnqn, sizeof(l->hostnqn));
        take_text(m, "subnqn", false, l->subnqn, sizeof(l->subnqn));
        take_number(m, "cntlid", UINT16_MAX, false, &l->cntlid);
        take_number(m, "qid", UINT16_MAX, true, &l->qid);
        take_number(m, "cid", UINT16_MAX, true, &l->cid);
}

static void take_what(struct members *m, struct trace_line *l)
{
        char way[8];

        take_text(m, "opcode", true, l->opcode, sizeof(l->opcode));
        l->has_nsid = take_number(m, "nsid", UINT32_MAX, false, &l->nsid);
        l->has_blocks = take_number(m, "slba", UINT64_MAX, false, &l->slba);
        take_number(m, "nlb", 65536, l->has_blocks, &l->nlb);
        take_number(m, "bytes", UINT32_MAX, true, &l->bytes);
        take_text(m, "data", true, way, sizeof(way));
        l->h2c = strcmp(way, "h2c") == 0;
}

/* "2/81h" */
static bool is_status(const char *text)
{
        return strlen(text) == 5 && text[0] >= '0' && text[0] <= '7' && text[1] == '/' &&
               isxdigit((unsigned char)text[2]) && isxdigit((unsigned char)text[3]) &&
               text[4] == 'h';
}

/* The status is null if there was none. */
static void take_end(struct members *m, struct trace_line *l)
{
        struct json_object *v = NULL;
        char text[16] = "";

        l->ended = take_bool(m, "ended", true);
        if (!json_object_object_get_ex(m->of, "status", &v)) {
                complain(m, "status", "missing");
                return;
        }
        if (!v)
                return;
        take_text(m, "status", true, text, sizeof(text));
        take_text(m, "status_text", true, l->status_text, sizeof(l->status_text));
        if (is_status(text))
                l->status = (uint16_t)(strtoul(text, NULL, 16) << 8 | strtoul(text + 2, NULL, 16));
        else
                complain(m, "status", "not a status such as 0/00h");
        l->answered = true;
}

static void take_state(struct members *m, struct trace_line *l, struct json_object *v)
{
        struct members of = { .of = v, .error = m->error, .size = m->size };
        unsigned i = l->states;

        if (!json_object_is_type(v, json_type_object)) {
                complain(m, "an element of states", "not an object");
                return;
        }
        take_text(&of, "state", true, l->state[i].name, sizeof(l->state[i].name));
        take_number(&of, "at", INT64_MAX / 16, true, &l->state[i].at);
        if (i > 0 && l->state[i].at < l->state[i - 1].at)
                complain(&of, "at", "before that of the state before");
        m->wrong |= of.wrong;
        l->states++;
}

static void take_states(struct members *m, struct trace_line *l)
{
        struct json_object *v = member(m, "states", json_type_array, true);
        size_t n = v ? json_object_array_length(v) : 0;

        if (v && (n == 0 || n > TRACE_LINE_STATES))
                complain(m, "states", "empty, or too long");
        for (size_t i = 0; i < n && !m->wrong; i++)
                take_state(m, l, json_object_array_get_idx(v, i));
}

static void take_command(struct members *m, struct trace_line *l)
{
        l->kind = TRACE_LINE_COMMAND;
        take_who(m, l);
        take_what(m, l);
        take_end(m, l);
        take_states(m, l);
}

static void take_head(struct members *m, struct trace_line *l)
{
        uint64_t version;

        l->kind = TRACE_LINE_HEAD;
        if (take_number(m, "nvmfspec_trace", UINT32_MAX, true, &version) && version != VERSION)
                complain(m, "nvmfspec_trace", "a version that is not known");
        take_number(m, "part", UINT64_MAX, false, &l->part);
}

/* --- a line ----------------------------------------------------------------------------------- */

static struct json_object *parse(const char *text, char *error, size_t size)
{
        struct json_tokener *tok = json_tokener_new_ex(DEPTH);
        size_t n = strlen(text);
        struct json_object *v = tok ? json_tokener_parse_ex(tok, text, (int)n) : NULL;
        bool good =
            v && json_object_is_type(v, json_type_object) && json_tokener_get_parse_end(tok) == n;

        if (!tok)
                snprintf(error, size, "out of memory");
        else if (!good)
                snprintf(error, size, "is not a JSON object");
        if (!good && v)
                json_object_put(v);
        if (tok)
                json_tokener_free(tok);
        return good ? v : NULL;
}

bool trace_line_read(struct trace_line *l, const char *text, char *error, size_t size)
{
        struct members m = { .error = error, .size = size };

        memset(l, 0, offsetof(struct trace_line, state));
        m.of = parse(text, error, size);
        if (!m.of)
                return false;
        if (json_object_object_get_ex(m.of, "nvmfspec_trace", NULL)) {
                take_head(&m, l);
        } else if (json_object_object_get_ex(m.of, "left_out", NULL)) {
                l->kind = TRACE_LINE_LEFT_OUT;
                take_number(&m, "left_out", UINT64_MAX, true, &l->left_out);
        } else {
                take_command(&m, l);
        }
        json_object_put(m.of);
        return !m.wrong;
}
