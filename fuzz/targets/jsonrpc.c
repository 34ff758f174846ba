/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What comes over the RPC's socket, until a method is called: bytes, requests, batches, parameters. The
 * table is the target's own; its methods only look at what they are given.
 *
 * Input: how many bytes come at once (1 byte, 0: all), the bytes. They are taken a second time at once, and
 * have to mean the same.
 */
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "pdu/io/jsonrpc.h"
#include "target/rpc/rpc.h"

struct seen {
        unsigned requests, calls;
        uint32_t digest;
        bool bad;
};

static void note(struct seen *s, const void *bytes, size_t n)
{
        fuzz_digest(&s->digest, bytes, n);
}

static const struct jsonrpc_param *now; /* of the method that is being called */

/* What is given is within its bounds. */
static void look(struct seen *s, const struct jsonrpc_param *p, const char *args)
{
        for (; p && p->name; p++) {
                const char *at = args + p->at, *text;

                if (p->effect != JSONRPC_USED)
                        continue;
                switch (p->kind) {
                case JSONRPC_TEXT:
                        text = *(const char *const *)(const void *)at;
                        must(!p->required || text);
                        if (text)
                                note(s, text, strlen(text));
                        break;
                case JSONRPC_NUMBER:
                        must(p->max == 0 || *(const uint64_t *)(const void *)at <= p->max ||
                             *(const uint64_t *)(const void *)at == p->otherwise);
                        note(s, at, 8);
                        break;
                case JSONRPC_WORD:
                        must(*(const unsigned *)(const void *)at < 64);
                        break;
                case JSONRPC_OBJECT:
                        look(s, p->members, args);
                        break;
                case JSONRPC_BOOL:
                        must(*(const uint8_t *)at <= 1);
                        break;
                case JSONRPC_WORDS:
                case JSONRPC_TEXTS:
                        break;
                }
        }
}

static void run(void *owner, const void *args, struct jsonrpc_call *call)
{
        struct seen *s = owner;

        (void)call;
        s->calls++;
        look(s, now, args);
}

static struct jsonrpc_method table[128];

static void on_unused(void *owner, const char *method, const char *param)
{
        const struct jsonrpc_method *m = jsonrpc_method(table, method);
        const struct jsonrpc_param *inside;

        (void)owner;
        must(m && jsonrpc_param(m->params, param, &inside));
}

/* One row at a time, so that it is known whose parameters are looked at. */
static void answer(struct seen *s, struct json_object *request)
{
        struct json_object *method = NULL, *text = NULL;
        const struct jsonrpc_method *m = NULL;
        struct jsonrpc j = { .methods = table,
                             .args = JSONRPC_ARGS,
                             .state = JSONRPC_RUNTIME,
                             .owner = s,
                             .unused = on_unused };

        if (json_object_is_type(request, json_type_object) &&
            json_object_object_get_ex(request, "method", &method))
                m = jsonrpc_method(table, json_object_get_string(method));
        now = m ? m->params : NULL;
        must(jsonrpc_answer(&j, request, false, &text));
        s->requests++;
        if (text) {
                const char *out = json_object_to_json_string(text);

                must(out && strstr(out, "\"jsonrpc\""));
                note(s, out, strlen(out));
        }
        json_object_put(text);
}

static struct seen play(const uint8_t *input, size_t size, size_t piece)
{
        struct jsonrpc_input in = { 0 };
        struct seen s = { .digest = FUZZ_DIGEST_START };

        while (size > 0 && !s.bad) {
                size_t n = piece < size ? piece : size, taken = n;
                struct json_object *request = NULL;

                switch (jsonrpc_feed(&in, (const char *)input, &taken, &request)) {
                case JSONRPC_BAD:
                        s.bad = true;
                        taken = n;
                        break;
                case JSONRPC_WHOLE:
                        must(request && taken > 0);
                        answer(&s, request);
                        json_object_put(request);
                        break;
                case JSONRPC_MORE:
                        break;
                }
                must(taken <= n && in.used <= JSONRPC_REQUEST);
                input += taken;
                size -= taken;
        }
        jsonrpc_input_free(&in);
        return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
        struct seen pieces, whole;

        for (unsigned i = 0; rpc_methods[i].name; i++) {
                must(i + 1 < sizeof(table) / sizeof(table[0]));
                table[i] = rpc_methods[i];
                table[i].run = run;
        }
        if (size < 2)
                return 0;
        pieces = play(input + 1, size - 1, input[0] ? input[0] : size);
        whole = play(input + 1, size - 1, size);
        must(pieces.requests == whole.requests && pieces.calls == whole.calls);
        must(pieces.digest == whole.digest && pieces.bad == whole.bad);
        return 0;
}
