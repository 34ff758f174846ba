/* SPDX-License-Identifier: BSD-3-Clause */
#include "jsonrpc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        FIRST_ROOM = 1024, /* bytes of a request */
        ERRORS = 1 << 20,  /* of all answers of a batch, if all are errors, and for their commas */
};

void jsonrpc_fail(struct jsonrpc_call *call, int code, const char *fmt, ...)
{
        va_list args;

        call->code = code;
        va_start(args, fmt);
        vsnprintf(call->message, sizeof(call->message), fmt, args);
        va_end(args);
        if (!call->message[0])
                snprintf(call->message, sizeof(call->message), "%s", strerror(-code));
        for (char *p = call->message; *p; p++) /* names that were cut may end in half a character */
                if (*p < 0x20 || *p > 0x7e)
                        *p = '?';
}

const struct jsonrpc_method *jsonrpc_method(const struct jsonrpc_method *methods, const char *name)
{
        for (; methods->name; methods++)
                if (strcmp(methods->name, name) == 0)
                        return methods;
        return NULL;
}

static const struct jsonrpc_param *own_param(const struct jsonrpc_param *p, const char *name)
{
        while (p && p->name && strcmp(p->name, name) != 0)
                p++;
        return p && p->name ? p : NULL;
}

const struct jsonrpc_param *jsonrpc_param(const struct jsonrpc_param *params, const char *name,
                                          const struct jsonrpc_param **inside)
{
        const struct jsonrpc_param *found = own_param(params, name);

        *inside = NULL;
        for (const struct jsonrpc_param *p = params; !found && p && p->name; p++)
                if (p->kind == JSONRPC_OBJECT && (found = own_param(p->members, name)) != NULL)
                        *inside = p;
        return found;
}

/* --- values ----------------------------------------------------------------------------------- */

static bool wrong(struct jsonrpc_call *call, const struct jsonrpc_param *p, const char *why)
{
        jsonrpc_fail(call, JSONRPC_PARAMS, "Invalid parameters: %s %s", p->name, why);
        return false;
}

/* NULL: it is not a string, or has a zero byte in it. */
static const char *text_of(struct json_object *v)
{
        const char *text =
            json_object_is_type(v, json_type_string) ? json_object_get_string(v) : NULL;

        return text && strlen(text) == (size_t)json_object_get_string_len(v) ? text : NULL;
}

/* The place of a word in "a|b|c", letters' case aside; -1: it is not there. */
static int place_of(const char *words, const char *word)
{
        size_t len = strlen(word);

        for (int i = 0; len > 0; i++, words++) {
                size_t n = strcspn(words, "|");

                if (n == len && strncasecmp(words, word, n) == 0)
                        return i;
                words += n;
                if (!*words)
                        break;
        }
        return -1;
}

static bool take_number(const struct jsonrpc_param *p, struct json_object *v, uint64_t *n,
                        struct jsonrpc_call *call)
{
        if (!json_object_is_type(v, json_type_int) || json_object_get_int64(v) < 0)
                return wrong(call, p, "is not a number of at least 0");
        *n = json_object_get_uint64(v);
        return p->max == 0 || *n <= p->max || wrong(call, p, "is too large");
}

static bool take_words(const struct jsonrpc_param *p, struct json_object *v, uint64_t *bits,
                       struct jsonrpc_call *call)
{
        if (!json_object_is_type(v, json_type_array))
                return wrong(call, p, "is not an array");
        for (size_t i = 0; i < json_object_array_length(v); i++) {
                const char *word = text_of(json_object_array_get_idx(v, i));
                int place = word ? place_of(p->words, word) : -1;

                if (place < 0)
                        return wrong(call, p, "has an element that is not known");
                *bits |= UINT64_C(1) << place;
        }
        return true;
}

static bool are_texts(struct json_object *v)
{
        if (!json_object_is_type(v, json_type_array))
                return text_of(v);
        for (size_t i = 0; i < json_object_array_length(v); i++)
                if (!text_of(json_object_array_get_idx(v, i)))
                        return false;
        return true;
}

static bool take_object(const struct jsonrpc *j, const char *method,
                        const struct jsonrpc_param *params, struct json_object *v, char *args,
                        struct jsonrpc_call *call);

static bool take_value(const struct jsonrpc *j, const char *method, const struct jsonrpc_param *p,
                       struct json_object *v, char *args, struct jsonrpc_call *call)
{
        void *at = args + p->at;
        const char *text = text_of(v);
        uint64_t n = 0;
        int place;

        switch (p->kind) {
        case JSONRPC_TEXT:
                *(const char **)at = text;
                return text || wrong(call, p, "is not a string");
        case JSONRPC_BOOL:
                *(bool *)at = json_object_get_boolean(v);
                return json_object_is_type(v, json_type_boolean) ||
                       wrong(call, p, "is not a boolean");
        case JSONRPC_NUMBER:
                return take_number(p, v, at, call);
        case JSONRPC_WORD:
                place = text ? place_of(p->words, text) : -1;
                *(unsigned *)at = (unsigned)place;
                return place >= 0 || wrong(call, p, "is not one of its words");
        case JSONRPC_WORDS:
                if (!take_words(p, v, &n, call))
                        return false;
                *(uint64_t *)at = n;
                return true;
        case JSONRPC_TEXTS:
                *(struct json_object **)at = v;
                return are_texts(v) || wrong(call, p, "is not an array of strings");
        case JSONRPC_OBJECT:
                return take_object(j, method, p->members, v, args, call);
        }
        return false;
}

/* What cannot be had in another value than `otherwise` says; of texts and objects there is none. */
static bool is_as_ever(const struct jsonrpc_param *p, struct json_object *v)
{
        struct jsonrpc_call ignored = { 0 };
        uint64_t bits = 0;

        switch (p->kind) {
        case JSONRPC_BOOL:
                return json_object_is_type(v, json_type_boolean) &&
                       (uint64_t)json_object_get_boolean(v) == p->otherwise;
        case JSONRPC_NUMBER:
                return json_object_is_type(v, json_type_int) &&
                       json_object_get_uint64(v) == p->otherwise;
        case JSONRPC_WORD:
                return text_of(v) && place_of(p->words, text_of(v)) == (int)p->otherwise;
        case JSONRPC_WORDS:
                return take_words(p, v, &bits, &ignored) && bits == p->otherwise;
        case JSONRPC_TEXT:
        case JSONRPC_TEXTS:
        case JSONRPC_OBJECT:
                break;
        }
        return false;
}

static bool take_given(const struct jsonrpc *j, const char *method, const struct jsonrpc_param *p,
                       struct json_object *v, char *args, struct jsonrpc_call *call)
{
        union {
                const char *text;
                uint64_t number;
        } nowhere; /* p->at is 0 */

        if (p->effect == JSONRPC_FIXED)
                return is_as_ever(p, v) || wrong(call, p, "is not supported");
        if (p->effect == JSONRPC_USED)
                return take_value(j, method, p, v, args, call);
        if (!take_value(j, method, p, v, (char *)&nowhere, call))
                return false;
        if (j->unused && !is_as_ever(p, v))
                j->unused(j->owner, method, p->name);
        return true;
}

static void set_default(const struct jsonrpc_param *p, char *args)
{
        void *at = args + p->at;

        if (p->effect != JSONRPC_USED)
                return;
        if (p->kind == JSONRPC_BOOL)
                *(bool *)at = p->otherwise;
        else if (p->kind == JSONRPC_NUMBER || p->kind == JSONRPC_WORDS)
                *(uint64_t *)at = p->otherwise;
        else if (p->kind == JSONRPC_WORD)
                *(unsigned *)at = (unsigned)p->otherwise;
        else if (p->kind == JSONRPC_OBJECT)
                for (p = p->members; p->name; p++)
                        set_default(p, args);
}

static bool take_object(const struct jsonrpc *j, const char *method,
                        const struct jsonrpc_param *params, struct json_object *v, char *args,
                        struct jsonrpc_call *call)
{
        if (v && !json_object_is_type(v, json_type_object)) {
                jsonrpc_fail(call, JSONRPC_PARAMS, "Invalid parameters: an object is expected");
                return false;
        }
        for (const struct jsonrpc_param *p = params; p && p->name; p++) {
                struct json_object *given = NULL;

                set_default(p, args);
                if (v && json_object_object_get_ex(v, p->name, &given)) {
                        if (!take_given(j, method, p, given, args, call))
                                return false;
                } else if (p->required) {
                        return wrong(call, p, "is missing");
                }
        }
        if (!v)
                return true;
        json_object_object_foreach(v, name, member)
        {
                (void)member;
                if (!own_param(params, name)) {
                        jsonrpc_fail(call, JSONRPC_PARAMS,
                                     "Invalid parameters: '%.100s' is not known", name);
                        return false;
                }
        }
        return true;
}

/* --- requests --------------------------------------------------------------------------------- */

struct request {
        struct json_object *id, *params;
        const char *method;
};

static const char *standard_message(int code)
{
        switch (code) {
        case JSONRPC_PARSE:
                return "Parse error";
        case JSONRPC_INVALID:
                return "Invalid request";
        case JSONRPC_NO_METHOD:
                return "Method not found";
        case JSONRPC_PARAMS:
                return "Invalid parameters";
        default:
                return "Internal error";
        }
}

static struct json_object *begin_answer(struct json_object *id)
{
        struct json_object *answer = json_object_new_object();

        json_object_object_add(answer, "jsonrpc", json_object_new_string("2.0"));
        json_object_object_add(answer, "id", json_object_get(id));
        return answer;
}

struct json_object *jsonrpc_error(struct json_object *id, int code, const char *message)
{
        struct json_object *answer = begin_answer(id), *error = json_object_new_object();

        json_object_object_add(error, "code", json_object_new_int(code));
        json_object_object_add(error, "message", json_object_new_string(message));
        json_object_object_add(answer, "error", error);
        return answer;
}

struct json_object *jsonrpc_refusal(int code)
{
        return jsonrpc_error(NULL, code, standard_message(code));
}

static bool is_id(struct json_object *id)
{
        return !id || text_of(id) || json_object_is_type(id, json_type_int) ||
               json_object_is_type(id, json_type_double);
}

static bool parse(struct request *r, struct json_object *v)
{
        struct json_object *id = NULL, *version = NULL, *method = NULL;
        const char *text;

        *r = (struct request) { 0 };
        if (!json_object_is_type(v, json_type_object))
                return false;
        json_object_object_get_ex(v, "id", &id);
        if (!is_id(id))
                return false;
        r->id = id;
        if (json_object_object_get_ex(v, "jsonrpc", &version) &&
            !((text = text_of(version)) && strcmp(text, "2.0") == 0))
                return false;
        json_object_object_get_ex(v, "method", &method);
        r->method = text_of(method);
        json_object_object_get_ex(v, "params", &r->params);
        if (!r->method || (r->params && !json_object_is_type(r->params, json_type_object) &&
                           !json_object_is_type(r->params, json_type_array)))
                return false;
        json_object_object_foreach(v, name, member)
        {
                (void)member;
                if (strcmp(name, "jsonrpc") != 0 && strcmp(name, "id") != 0 &&
                    strcmp(name, "method") != 0 && strcmp(name, "params") != 0)
                        return false;
        }
        return true;
}

static void run(const struct jsonrpc *j, const struct request *r, struct jsonrpc_call *call)
{
        const struct jsonrpc_method *m = jsonrpc_method(j->methods, r->method);
        union {
                char bytes[JSONRPC_ARGS];
                max_align_t align;
        } args;

        memset(&args, 0, j->args);
        if (!m)
                jsonrpc_fail(call, JSONRPC_NO_METHOD, "Method not found");
        else if (!(m->when & j->state))
                jsonrpc_fail(call, JSONRPC_STATE,
                             j->state == JSONRPC_STARTUP
                                 ? "Method may only be called after framework is initialized "
                                   "using framework_start_init RPC."
                                 : "Method may only be called before framework is initialized. "
                                   "Use --wait-for-rpc command line parameter and then issue this "
                                   "RPC before the framework_start_init RPC.");
        else if (take_object(j, m->name, m->params, r->params, args.bytes, call))
                m->run(j->owner, args.bytes, call);
}

/* False: later. */
static bool answer_one(const struct jsonrpc *j, struct json_object *v, bool again,
                       struct json_object **answer)
{
        struct jsonrpc_call call = { .again = again };
        struct request r;

        *answer = NULL;
        if (!parse(&r, v)) {
                *answer = jsonrpc_error(r.id, JSONRPC_INVALID, standard_message(JSONRPC_INVALID));
                return true;
        }
        run(j, &r, &call);
        if (call.later && call.code == 0)
                return false;
        if (call.code != 0) {
                *answer = jsonrpc_error(r.id, call.code, call.message);
        } else if (r.id) {
                *answer = begin_answer(r.id);
                json_object_object_add(*answer, "result",
                                       call.result ? call.result : json_object_new_boolean(true));
                return true;
        }
        json_object_put(call.result);
        return true;
}

struct json_object *jsonrpc_too_long(struct json_object *answer, size_t len, size_t most)
{
        struct json_object *id = NULL, *error;
        char message[100];

        json_object_object_get_ex(answer, "id", &id);
        snprintf(message, sizeof(message), "The answer has %zu bytes, at most %zu can be sent", len,
                 most);
        error = jsonrpc_error(id, JSONRPC_INTERNAL, message);
        json_object_put(answer);
        return error;
}

/* One of a batch, of whose answers *left bytes may be left; what has no answer takes none of them. */
static struct json_object *answer_of_batch(const struct jsonrpc *j, struct json_object *request,
                                           size_t *left)
{
        struct json_object *answer, *id = NULL;
        size_t len = 0;

        if (*left == 0) {
                json_object_object_get_ex(request, "id", &id);
                return jsonrpc_error(is_id(id) ? id : NULL, JSONRPC_INTERNAL,
                                     "Not carried out: the answers before it are too long");
        }
        if (!answer_one(j, request, false, &answer))
                return jsonrpc_refusal(JSONRPC_INTERNAL); /* a batch does not wait */
        if (answer)
                json_object_to_json_string_length(answer, JSON_C_TO_STRING_NOSLASHESCAPE, &len);
        if (len > *left) {
                answer = jsonrpc_too_long(answer, len, *left);
                len = *left;
        }
        *left -= len;
        return answer;
}

static struct json_object *answer_batch(const struct jsonrpc *j, struct json_object *batch)
{
        size_t n = json_object_array_length(batch), left = JSONRPC_ANSWERS - ERRORS;
        struct json_object *answers, *answer;

        if (n == 0 || n > JSONRPC_BATCH)
                return jsonrpc_refusal(JSONRPC_INVALID);
        answers = json_object_new_array();
        for (size_t i = 0; i < n; i++) {
                answer = answer_of_batch(j, json_object_array_get_idx(batch, i), &left);
                if (answer)
                        json_object_array_add(answers, answer);
        }
        if (json_object_array_length(answers) > 0)
                return answers;
        json_object_put(answers);
        return NULL;
}

bool jsonrpc_answer(const struct jsonrpc *j, struct json_object *request, bool again,
                    struct json_object **answer)
{
        if (!json_object_is_type(request, json_type_array))
                return answer_one(j, request, again, answer);
        *answer = answer_batch(j, request);
        return true;
}

/* --- bytes ------------------------------------------------------------------------------------ */

static bool is_space(char c)
{
        return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The text of one request, all of it: json-c reads some numbers otherwise where they come in pieces. */
static struct json_object *parse_text(const char *text, size_t len)
{
        struct json_tokener *t = json_tokener_new_ex(JSONRPC_DEPTH);
        struct json_object *v = NULL;

        if (!t)
                return NULL;
        json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_ALLOW_TRAILING_CHARS |
                                      JSON_TOKENER_VALIDATE_UTF8);
        v = json_tokener_parse_ex(t, text, (int)len);
        if (v && json_tokener_get_parse_end(t) < len) {
                json_object_put(v);
                v = NULL;
        }
        json_tokener_free(t);
        return v;
}

/* Looks for the end of the request that has begun: bytes of it here; *ends: it is among them. */
static size_t scan(struct jsonrpc_input *in, const char *bytes, size_t n, bool *ends)
{
        *ends = false;
        for (size_t i = 0; i < n; i++) {
                char c = bytes[i];

                if (in->escaped)
                        in->escaped = false;
                else if (in->quoted && c == '\\')
                        in->escaped = true;
                else if (c == '"')
                        in->quoted = !in->quoted;
                else if (!in->quoted && (c == '{' || c == '['))
                        in->depth++;
                else if (!in->quoted && (c == '}' || c == ']') && --in->depth == 0)
                        *ends = true;
                if (*ends || in->depth > JSONRPC_DEPTH)
                        return i + 1;
        }
        return n;
}

static bool keep(struct jsonrpc_input *in, const char *bytes, size_t n)
{
        size_t room = in->room ? in->room : FIRST_ROOM;
        char *more = in->text;

        if (n > JSONRPC_REQUEST - in->used)
                return false;
        while (room - in->used < n)
                room *= 2;
        if (room != in->room)
                more = realloc(in->text, room);
        if (!more)
                return false;
        memcpy(more + in->used, bytes, n);
        in->text = more;
        in->room = room;
        in->used += n;
        return true;
}

enum jsonrpc_fed jsonrpc_feed(struct jsonrpc_input *in, const char *bytes, size_t *n,
                              struct json_object **request)
{
        size_t skip = 0, len;
        bool ends;

        while (in->used == 0 && skip < *n && is_space(bytes[skip]))
                skip++;
        if (skip == *n)
                return JSONRPC_MORE;
        if (in->used == 0 && bytes[skip] != '{' && bytes[skip] != '[')
                return JSONRPC_BAD;
        len = scan(in, bytes + skip, *n - skip, &ends);
        if (in->depth > JSONRPC_DEPTH || !keep(in, bytes + skip, len))
                return JSONRPC_BAD;
        *n = skip + len;
        if (!ends)
                return JSONRPC_MORE;
        *request = parse_text(in->text, in->used);
        in->used = 0;
        return *request ? JSONRPC_WHOLE : JSONRPC_BAD;
}

void jsonrpc_input_free(struct jsonrpc_input *in)
{
        free(in->text);
        *in = (struct jsonrpc_input) { 0 };
}
