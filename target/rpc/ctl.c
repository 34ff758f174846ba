/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of the RPC. What a key's value is to be says the method's own table, so "serial_number=1"
 * is a string and "nsid=1" a number; keys of an object that only it has may be given without its name.
 * Methods that this program does not know are called all the same, with JSON for values where it is JSON.
 */
#include "ctl.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl_top.h"
#include "pdu/core/text.h"
#include "pdu/io/net.h"
#include "pdu/io/option.h"
#include "pdu/io/rpc_server.h"
#include "rpc.h"

enum { EXIT_REFUSED = 1, EXIT_USAGE = 2, COLUMNS = 12, CELL = 60 };

struct args {
        const char *path, *connect, *token_file, *params_of;
        uint64_t timeout;
        bool json, methods, completion, help;
        char token[RPC_TOKEN_MAX + 2], addr[NET_TRADDR], port[32];
        struct rpc_place at;
};

#define AT(field) .at = offsetof(struct args, field)

/* clang-format off */
static const struct option_row rows[] = {
        { 's', "rpc", "PATH", "the target's Unix socket (" RPC_SOCKET ")", OPTION_STRING, 1, AT(path) },
        { 0, "connect", "ADDR:PORT", "over TCP instead, with --token", OPTION_STRING, 1, AT(connect) },
        { 0, "token", "@FILE", "the token of the target's --rpc-listen", OPTION_STRING, 1, AT(token_file) },
        { 't', "timeout", "SECONDS", "wait for the answer at most so long (60)",
          OPTION_SECONDS, 1, AT(timeout), .min = 1, .max = 86400000 },
        { 'j', "json", NULL, "print the result as JSON, not as a table", OPTION_FLAG, 1, AT(json) },
        { 0, "methods", NULL, "list the methods that this program knows", OPTION_FLAG, 1, AT(methods) },
        { 0, "params", "METHOD", "list the parameters of a method", OPTION_STRING, 1, AT(params_of) },
        { 0, "completion", NULL, "print a completion for bash: source <(nvmfspec ctl --completion)",
          OPTION_FLAG, 1, AT(completion) },
        { 'h', "help", NULL, "this", OPTION_FLAG, 1, AT(help) },
        { 0 },
};
/* clang-format on */

static void help(void)
{
        puts("usage: nvmfspec ctl [OPTION...] METHOD [KEY=VALUE...]\n"
             "       nvmfspec ctl [OPTION...] save_config [FILE]\n"
             "       nvmfspec ctl [OPTION...] load_config FILE\n"
             "       nvmfspec ctl [OPTION...] top [SECONDS [TIMES]]\n\n"
             "Calls a method of a running target (nvmfspec target --rpc PATH). load_config calls "
             "all that a file\nof SPDK's save_config has, and reports each call that fails. top "
             "shows hosts, their\nqueues and bdevs: rates, times, and how deep queues are used.\n");
        option_help(rows, 1, stdout);
}

static const char completion[] =
    "_nvmfspec()\n"
    "{\n"
    "        local word=${COMP_WORDS[COMP_CWORD]} method=\n"
    "        [ \"${COMP_WORDS[1]}\" = ctl ] || return\n"
    "        for w in \"${COMP_WORDS[@]:2:COMP_CWORD-2}\"; do\n"
    "                [[ $w == *_* && $w != -* && $w != /* ]] && { method=$w; break; }\n"
    "        done\n"
    "        if [ -n \"$method\" ]; then\n"
    "                compopt -o nospace\n"
    "                COMPREPLY=($(compgen -W \"$(\"$1\" ctl --params \"$method\" | "
    "awk '{ print $1 \"=\" }')\" -- \"$word\"))\n"
    "        else\n"
    "                COMPREPLY=($(compgen -W \"$(\"$1\" ctl --methods) save_config load_config\" "
    "-- \"$word\"))\n"
    "        fi\n"
    "}\n"
    "complete -F _nvmfspec nvmfspec\n";

/* --- what is known ---------------------------------------------------------------------------- */

static void list_params(const struct jsonrpc_param *p, const char *before)
{
        static const char *const kinds[] = {
                "text", "true|false", "number", "", "list", "list", ""
        };

        for (; p->name; p++) {
                char name[128];

                snprintf(name, sizeof(name), "%s%s", before, p->name);
                if (p->kind == JSONRPC_OBJECT) {
                        strcat(name, ".");
                        list_params(p->members, name);
                        continue;
                }
                printf("%-40s %s%s%s\n", name, p->words ? p->words : kinds[p->kind],
                       p->required ? ", required" : "",
                       p->effect == JSONRPC_UNUSED  ? ", changes nothing here"
                       : p->effect == JSONRPC_FIXED ? ", has one value"
                                                    : "");
        }
}

static int print_params(const char *name)
{
        const struct jsonrpc_method *m = jsonrpc_method(rpc_methods, name);

        if (!m) {
                fprintf(stderr, "nvmfspec ctl: there is no method '%s' (--methods)\n", name);
                return EXIT_USAGE;
        }
        list_params(m->params, "");
        return 0;
}

/* --- parameters ------------------------------------------------------------------------------- */

static struct json_object *list_of(const char *value)
{
        struct json_object *array = json_object_new_array();

        while (*value) {
                size_t len = strcspn(value, ",");

                json_object_array_add(array, json_object_new_string_len(value, (int)len));
                value += len + (value[len] == ',');
        }
        return array;
}

/* NULL: it is not such a value. */
static struct json_object *value_of(const struct jsonrpc_param *p, const char *text)
{
        struct json_object *v;
        uint64_t n;

        if (!p) {
                v = json_tokener_parse(text);
                return v ? v : json_object_new_string(text);
        }
        switch (p->kind) {
        case JSONRPC_TEXT:
        case JSONRPC_WORD:
                return json_object_new_string(text);
        case JSONRPC_BOOL:
                if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
                        return NULL;
                return json_object_new_boolean(text[0] == 't');
        case JSONRPC_NUMBER:
                return option_size(text, &n) == 0 || option_number(text, &n) == 0
                           ? json_object_new_uint64(n)
                           : NULL;
        case JSONRPC_WORDS:
        case JSONRPC_TEXTS:
                return list_of(text);
        case JSONRPC_OBJECT:
                return json_tokener_parse(text);
        }
        return NULL;
}

/* The object of that name in it, made if it is not there. */
static struct json_object *inside_of(struct json_object *params, const char *name)
{
        struct json_object *o = NULL;

        if (json_object_object_get_ex(params, name, &o))
                return o;
        o = json_object_new_object();
        json_object_object_add(params, name, o);
        return o;
}

static bool add_param(struct json_object *params, const struct jsonrpc_method *m, const char *word)
{
        const char *equals = strchr(word, '=');
        size_t len = equals ? (size_t)(equals - word) : 0;
        const struct jsonrpc_param *p = NULL, *inside = NULL;
        struct json_object *v;
        char key[128], *dot;

        if (len == 0 || len >= sizeof(key))
                return false;
        snprintf(key, sizeof(key), "%.*s", (int)len, word);
        dot = strchr(key, '.');
        if (dot)
                *dot++ = '\0';
        if (m)
                p = jsonrpc_param(m->params, dot ? dot : key, &inside);
        v = value_of(p, equals + 1);
        if (!v)
                return false;
        if (dot || inside)
                json_object_object_add(inside_of(params, dot ? key : inside->name), dot ? dot : key,
                                       v);
        else
                json_object_object_add(params, key, v);
        return true;
}

/* --- results ---------------------------------------------------------------------------------- */

static void make_string_printable(struct json_object *v)
{
        const char *s = json_object_get_string(v);
        size_t len = (size_t)json_object_get_string_len(v), size = 4 * len + 1; /* \xNN */
        char *plain = malloc(size);
        struct text t;

        if (plain) {
                t = text_in(plain, size);
                text_printable(&t, s, len);
        }
        json_object_set_string(v, plain ? plain : "");
        free(plain);
}

/* Names that peers have given themselves may have anything in them: a terminal gets it as the log has it. */
static void make_printable(struct json_object *v)
{
        if (json_object_is_type(v, json_type_string))
                make_string_printable(v);
        else if (json_object_is_type(v, json_type_array))
                for (size_t i = 0; i < json_object_array_length(v); i++)
                        make_printable(json_object_array_get_idx(v, i));
        else if (json_object_is_type(v, json_type_object)) {
                json_object_object_foreach(v, name, member)
                {
                        (void)name;
                        make_printable(member);
                }
        }
}

static const char *text_of(struct json_object *v)
{
        return json_object_is_type(v, json_type_string)
                   ? json_object_get_string(v)
                   : json_object_to_json_string_ext(v, JSON_C_TO_STRING_PLAIN |
                                                           JSON_C_TO_STRING_NOSLASHESCAPE);
}

static bool are_objects(struct json_object *v)
{
        for (size_t i = 0; i < json_object_array_length(v); i++)
                if (!json_object_is_type(json_object_array_get_idx(v, i), json_type_object))
                        return false;
        return json_object_array_length(v) > 0;
}

static size_t shown(struct json_object *v)
{
        size_t len = v ? strlen(text_of(v)) : 1;

        return len < CELL ? len : CELL;
}

struct table {
        const char *names[COLUMNS];
        size_t widths[COLUMNS];
        unsigned columns;
};

static void measure(struct table *t, struct json_object *row)
{
        json_object_object_foreach(row, name, v)
        {
                unsigned i = 0;

                while (i < t->columns && strcmp(t->names[i], name) != 0)
                        i++;
                if (i == COLUMNS)
                        continue;
                if (i == t->columns) {
                        t->names[t->columns++] = name;
                        t->widths[i] = strlen(name);
                }
                if (shown(v) > t->widths[i])
                        t->widths[i] = shown(v);
        }
}

static void print_table(struct json_object *array)
{
        struct table t = { 0 };

        for (size_t i = 0; i < json_object_array_length(array); i++)
                measure(&t, json_object_array_get_idx(array, i));
        for (unsigned c = 0; c < t.columns; c++)
                printf("%-*s%s", (int)t.widths[c], t.names[c], c + 1 < t.columns ? "  " : "\n");
        for (size_t i = 0; i < json_object_array_length(array); i++)
                for (unsigned c = 0; c < t.columns; c++) {
                        struct json_object *v = NULL;

                        json_object_object_get_ex(json_object_array_get_idx(array, i), t.names[c],
                                                  &v);
                        printf("%-*.*s%s", (int)t.widths[c], CELL, v ? text_of(v) : "-",
                               c + 1 < t.columns ? "  " : "\n");
                }
}

static void print_result(struct json_object *v, bool json);

static void print_members(struct json_object *o)
{
        json_object_object_foreach(o, name, v)
        {
                if (json_object_is_type(v, json_type_array) && are_objects(v)) {
                        printf("%s:\n", name);
                        print_table(v);
                } else {
                        printf("%-20s %s\n", name, v ? text_of(v) : "-");
                }
        }
}

static void print_result(struct json_object *v, bool json)
{
        if (json)
                puts(json_object_to_json_string_ext(v, JSON_C_TO_STRING_PRETTY |
                                                           JSON_C_TO_STRING_NOSLASHESCAPE));
        else if (json_object_is_type(v, json_type_boolean))
                ; /* done */
        else if (json_object_is_type(v, json_type_object))
                print_members(v);
        else if (!json_object_is_type(v, json_type_array))
                puts(text_of(v));
        else if (are_objects(v))
                print_table(v);
        else
                for (size_t i = 0; i < json_object_array_length(v); i++)
                        puts(text_of(json_object_array_get_idx(v, i)));
}

/* --- calls ------------------------------------------------------------------------------------ */

/* The result, the caller's; NULL: stderr has a line that says why. */
static struct json_object *call(const struct args *a, const char *method,
                                struct json_object *params)
{
        char error[NET_ERROR + 100] = "";
        struct json_object *answer =
            rpc_call(&a->at, method, params, (unsigned)a->timeout, error, sizeof(error));
        struct json_object *result = NULL, *problem = NULL, *code = NULL, *message = NULL;

        if (!answer) {
                fprintf(stderr, "nvmfspec ctl: %s\n", error);
                return NULL;
        }
        if (json_object_object_get_ex(answer, "result", &result)) {
                result = json_object_get(result);
        } else if (json_object_object_get_ex(answer, "error", &problem)) {
                json_object_object_get_ex(problem, "code", &code);
                json_object_object_get_ex(problem, "message", &message);
                make_printable(message);
                fprintf(stderr, "nvmfspec ctl: %s: %s (%d)\n", method,
                        message ? json_object_get_string(message) : "", json_object_get_int(code));
        }
        json_object_put(answer);
        return result;
}

static int call_method(const struct args *a, const char *name, char *const *words, int n)
{
        const struct jsonrpc_method *m = jsonrpc_method(rpc_methods, name);
        struct json_object *params = json_object_new_object(), *result = NULL;
        int code = EXIT_REFUSED;

        for (int i = 0; i < n; i++)
                if (!add_param(params, m, words[i])) {
                        fprintf(stderr,
                                "nvmfspec ctl: '%s' is not KEY=VALUE, or the value is of "
                                "another kind (--params %s)\n",
                                words[i], name);
                        json_object_put(params);
                        return EXIT_USAGE;
                }
        result = call(a, name, params);
        if (result && !a->json)
                make_printable(result);
        if (result) {
                print_result(result, a->json);
                code = 0;
        }
        json_object_put(result);
        json_object_put(params);
        return code;
}

/* --- whole configurations --------------------------------------------------------------------- */

static struct json_object *config_of(const struct args *a, struct json_object *subsystem)
{
        struct json_object *name = NULL, *params = json_object_new_object(), *config,
                           *part = json_object_new_object();

        json_object_object_get_ex(subsystem, "subsystem", &name);
        json_object_object_add(params, "name", json_object_get(name));
        config = call(a, "framework_get_config", params);
        json_object_object_add(part, "subsystem", json_object_get(name));
        json_object_object_add(part, "config", config);
        json_object_put(params);
        return part;
}

static int save_config(const struct args *a, const char *file)
{
        struct json_object *subsystems = call(a, "framework_get_subsystems", NULL), *whole, *parts;
        int rc = 0;

        if (!json_object_is_type(subsystems, json_type_array)) {
                json_object_put(subsystems);
                return EXIT_REFUSED;
        }
        whole = json_object_new_object();
        parts = json_object_new_array();
        json_object_object_add(whole, "subsystems", parts);
        for (size_t i = 0; i < json_object_array_length(subsystems); i++)
                json_object_array_add(parts,
                                      config_of(a, json_object_array_get_idx(subsystems, i)));
        if (!file)
                print_result(whole, true);
        else if (json_object_to_file_ext(
                     file, whole, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE) < 0) {
                fprintf(stderr, "nvmfspec ctl: %s: %s\n", file, json_util_get_last_err());
                rc = EXIT_REFUSED;
        }
        json_object_put(whole);
        json_object_put(subsystems);
        return rc;
}

struct loading {
        unsigned done, failed;
};

/* One entry, or a batch of them. */
static void load(const struct args *a, struct json_object *entry, struct loading *l)
{
        struct json_object *method = NULL, *params = NULL, *result;

        if (json_object_is_type(entry, json_type_array)) {
                for (size_t i = 0; i < json_object_array_length(entry); i++)
                        if (!json_object_is_type(json_object_array_get_idx(entry, i),
                                                 json_type_array))
                                load(a, json_object_array_get_idx(entry, i), l);
                return;
        }
        if (!json_object_is_type(entry, json_type_object) ||
            !json_object_object_get_ex(entry, "method", &method)) {
                fprintf(stderr, "nvmfspec ctl: an entry has no method\n");
                l->failed++;
                return;
        }
        json_object_object_get_ex(entry, "params", &params);
        result = call(a, json_object_get_string(method), params);
        ++*(result ? &l->done : &l->failed);
        json_object_put(result);
}

static int load_config(const struct args *a, const char *file)
{
        struct json_object *whole = json_object_from_file(file), *parts = NULL, *config;
        struct loading l = { 0 };

        if (!whole || !json_object_object_get_ex(whole, "subsystems", &parts) ||
            !json_object_is_type(parts, json_type_array)) {
                fprintf(stderr, "nvmfspec ctl: %s: %s\n", file,
                        whole ? "has no array \"subsystems\"" : json_util_get_last_err());
                json_object_put(whole);
                return EXIT_USAGE;
        }
        for (size_t i = 0; i < json_object_array_length(parts); i++)
                if (json_object_object_get_ex(json_object_array_get_idx(parts, i), "config",
                                              &config) &&
                    json_object_is_type(config, json_type_array))
                        for (size_t k = 0; k < json_object_array_length(config); k++)
                                load(a, json_object_array_get_idx(config, k), &l);
        json_object_put(whole);
        printf("%u calls done, %u failed\n", l.done, l.failed);
        return l.failed ? EXIT_REFUSED : 0;
}

/* --- a live table ----------------------------------------------------------------------------- */

static struct json_object *call_plainly(void *args, const char *method)
{
        struct json_object *result = call(args, method, NULL);

        make_printable(result);
        return result;
}

static int top(struct args *a, uint64_t ms, uint64_t times)
{
        struct ctl_top t = { .call = call_plainly, .user = a, .ms = ms, .times = times };

        return ctl_top(&t) ? 0 : EXIT_REFUSED;
}

/* --- the command ------------------------------------------------------------------------------ */

static bool find_place(struct args *a, char *error, size_t size)
{
        FILE *f;

        a->at = (struct rpc_place) { .path = a->path ? a->path : RPC_SOCKET };
        if (!a->connect)
                return true;
        if (!a->token_file || a->token_file[0] != '@' || !net_split(a->connect, a->addr, a->port)) {
                snprintf(error, size, "--connect ADDR:PORT requires --token @FILE");
                return false;
        }
        f = fopen(a->token_file + 1, "re");
        if (!f || !fgets(a->token, sizeof(a->token), f))
                snprintf(error, size, "%s: %s", a->token_file + 1,
                         f ? "is empty" : strerror(errno));
        if (f)
                fclose(f);
        a->token[strcspn(a->token, "\n")] = '\0';
        a->at = (struct rpc_place) {
                .traddr = a->addr, .trsvcid = a->port, .login = RPC_LOGIN, .token = a->token
        };
        return a->token[0];
}

static int run(struct args *a, char *const *words, int n)
{
        uint64_t ms = 1000, times = 0;
        char error[NET_ERROR];

        if (!find_place(a, error, sizeof(error))) {
                fprintf(stderr, "nvmfspec ctl: %s\n", error);
                return EXIT_USAGE;
        }
        if (strcmp(words[0], "save_config") == 0 && n <= 2)
                return save_config(a, n == 2 ? words[1] : NULL);
        if (strcmp(words[0], "load_config") == 0 && n == 2)
                return load_config(a, words[1]);
        if (strcmp(words[0], "top") == 0 && n <= 3 &&
            (n < 2 || (option_seconds(words[1], &ms) == 0 && ms > 0)) &&
            (n < 3 || option_number(words[2], &times) == 0))
                return top(a, ms, times);
        return call_method(a, words[0], words + 1, n - 1);
}

int ctl_command(int argc, char **argv)
{
        struct args a = { .timeout = 60000 };
        char error[NET_ERROR] = "";
        int at = option_parse(rows, 1, argc, argv, &a, error, sizeof(error));

        if (at >= 0 && a.help) {
                help();
                return 0;
        }
        if (at >= 0 && a.methods) {
                for (const struct jsonrpc_method *m = rpc_methods; m->name; m++)
                        puts(m->name);
                return 0;
        }
        if (at >= 0 && a.completion) {
                fputs(completion, stdout);
                return 0;
        }
        if (at >= 0 && a.params_of)
                return print_params(a.params_of);
        if (at < 0 || at == argc) {
                fprintf(stderr, "nvmfspec ctl: %s\n", at < 0 ? error : "which method? (--methods)");
                return EXIT_USAGE;
        }
        return run(&a, argv + at, argc - at);
}
