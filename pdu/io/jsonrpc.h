/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JSON-RPC 2.0 without a socket: bytes become requests, requests are checked by a table of methods, and
 * become answers. A method is a row: its name, its parameters, and the function that carries it out. A
 * parameter is a row, too: from it come decoding, the errors -32602, and the help of a client.
 *
 * As SPDK's server has it: "jsonrpc" may be left out, params may be null, a request without an id is
 * answered only if it fails, and several requests may come as an array, whose answers are one, too.
 */
#ifndef NVMF_IO_JSONRPC_H
#define NVMF_IO_JSONRPC_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum jsonrpc_code { /* others are negative values of errno */
                    JSONRPC_PARSE = -32700,
                    JSONRPC_INVALID = -32600,
                    JSONRPC_NO_METHOD = -32601,
                    JSONRPC_PARAMS = -32602,
                    JSONRPC_INTERNAL = -32603,
                    JSONRPC_STATE = -1,
};

enum {
        JSONRPC_REQUEST = 256 << 10, /* bytes of a request, or of a batch */
        JSONRPC_DEPTH = 16,          /* of objects and arrays */
        JSONRPC_BATCH = 1024,        /* requests in a batch */
        JSONRPC_MESSAGE = 400,       /* bytes of an error's text */
        JSONRPC_ANSWERS = 16 << 20,  /* bytes of an answer, or of all those of a batch */
};

/* --- parameters ------------------------------------------------------------------------------- */

enum jsonrpc_kind {
        JSONRPC_TEXT,   /* const char *, as long as the request */
        JSONRPC_BOOL,   /* bool */
        JSONRPC_NUMBER, /* uint64_t up to `max` (0: any) */
        JSONRPC_WORD,   /* unsigned: the place in `words` */
        JSONRPC_WORDS,  /* uint64_t: bits 1 << place in `words`, of an array of them */
        JSONRPC_TEXTS,  /* struct json_object *, an array of strings; or a string alone */
        JSONRPC_OBJECT, /* its members, in the same struct */
};

enum jsonrpc_effect {
        JSONRPC_USED,
        JSONRPC_UNUSED, /* accepted, since it changes nothing that a peer could see; the log says so */
        JSONRPC_FIXED, /* no other value than `otherwise` can be had: refused */
};

struct jsonrpc_param { /* a table ends with name NULL */
        const char *name;
        enum jsonrpc_kind kind;
        bool required;
        enum jsonrpc_effect effect;
        size_t at;          /* in the struct of arguments */
        uint64_t otherwise; /* value where it is not given: a number, a bool, a word's place */
        uint64_t max;
        const char *words; /* "a|b|c" */
        const struct jsonrpc_param *members;
};

/* --- methods ---------------------------------------------------------------------------------- */

struct jsonrpc_call {
        struct json_object *result; /* NULL: true */
        int code;                   /* 0: it has succeeded */
        char message[JSONRPC_MESSAGE];
        bool later; /* it cannot be answered yet: it is called again */
        bool again; /* it is: what it does once has been done */
};

enum jsonrpc_state { JSONRPC_STARTUP = 1, JSONRPC_RUNTIME = 2, JSONRPC_ANY = 3 };

struct jsonrpc_method { /* a table ends with name NULL */
        const char *name;
        void (*run)(void *owner, const void *args, struct jsonrpc_call *call);
        const struct jsonrpc_param *params; /* NULL: none */
        enum jsonrpc_state when;
};

struct jsonrpc {
        const struct jsonrpc_method *methods;
        size_t args;              /* bytes of the struct of arguments, at most JSONRPC_ARGS */
        enum jsonrpc_state state; /* RUNTIME or STARTUP */
        void *owner;
        /* A parameter was given that changes nothing. May be NULL. */
        void (*unused)(void *owner, const char *method, const char *param);
};
enum { JSONRPC_ARGS = 1024 };

/* NULL: none of this name. */
const struct jsonrpc_method *jsonrpc_method(const struct jsonrpc_method *methods, const char *name);
/* The row of a parameter, also one of an object among them; *inside: that object's row, or NULL. */
const struct jsonrpc_param *jsonrpc_param(const struct jsonrpc_param *params, const char *name,
                                          const struct jsonrpc_param **inside);

/* The call has failed. A code of errno (negative) without text gets the system's. */
void __attribute__((format(printf, 3, 4)))
jsonrpc_fail(struct jsonrpc_call *call, int code, const char *fmt, ...);

/*
 * Carries out a request or a batch. Of a batch, what comes once the answers have JSONRPC_ANSWERS bytes is refused, not
 * carried out; an answer alone may be longer, and is its sender's to look at. False: it cannot be answered yet, ask again (`again`). Else *answer is what
 * is to be sent, NULL if nothing is.
 */
bool jsonrpc_answer(const struct jsonrpc *j, struct json_object *request, bool again,
                    struct json_object **answer);
/* The answer to what is not JSON, or is too long. */
struct json_object *jsonrpc_refusal(int code);
/* The answer in place of one that has len bytes, more than `most`; that one is given back. */
struct json_object *jsonrpc_too_long(struct json_object *answer, size_t len, size_t most);
/* The answer to a request that has failed; id NULL: null. */
struct json_object *jsonrpc_error(struct json_object *id, int code, const char *message);

/* --- bytes ------------------------------------------------------------------------------------ */

struct jsonrpc_input { /* zeroed */
        char *text;
        size_t used, room;    /* bytes of the request that has begun; 0: none has */
        unsigned depth;       /* objects and arrays that are open */
        bool quoted, escaped; /* in a string; after a backslash in it */
};

enum jsonrpc_fed {
        JSONRPC_MORE, /* all bytes are used, the request goes on */
        JSONRPC_WHOLE,
        JSONRPC_BAD, /* it is not JSON, or is too long or too deep: there is no way on */
};
/* Takes *n bytes at most, and says in *n how many it took. WHOLE: *request is the caller's. */
enum jsonrpc_fed jsonrpc_feed(struct jsonrpc_input *in, const char *bytes, size_t *n,
                              struct json_object **request);
void jsonrpc_input_free(struct jsonrpc_input *in);

#endif
