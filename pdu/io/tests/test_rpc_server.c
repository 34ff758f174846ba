/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers that are longer than may be sent. */
#include "pdu/io/rpc_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20, PATIENCE = 60000 };

struct args {
        uint64_t bytes;
};

static const struct jsonrpc_param params[] = {
        { .name = "bytes", .kind = JSONRPC_NUMBER, .required = true, .at = 0 }, { 0 }
};
static unsigned calls;

static void say(void *owner, const void *args, struct jsonrpc_call *call)
{
        size_t n = ((const struct args *)args)->bytes;
        char *text = malloc(n);

        (void)owner;
        assert_non_null(text);
        memset(text, 'x', n);
        call->result = json_object_new_string_len(text, (int)n);
        free(text);
        calls++;
}

static const struct jsonrpc_method methods[] = { { "say", say, params, JSONRPC_ANY }, { 0 } };
static const struct jsonrpc rpc = { .methods = methods,
                                    .args = sizeof(struct args),
                                    .state = JSONRPC_RUNTIME };

static struct json_object *request(uint64_t bytes, int id)
{
        struct json_object *r = json_object_new_object(), *p = json_object_new_object();

        json_object_object_add(p, "bytes", json_object_new_uint64(bytes));
        json_object_object_add(r, "id", json_object_new_int(id));
        json_object_object_add(r, "method", json_object_new_string("say"));
        json_object_object_add(r, "params", p);
        return r;
}

/* Of an error; NULL: it has succeeded. */
static const char *message_of(struct json_object *answer)
{
        struct json_object *error, *message;

        if (!json_object_object_get_ex(answer, "error", &error))
                return NULL;
        assert_true(json_object_object_get_ex(error, "message", &message));
        return json_object_get_string(message);
}

/* 15 MiB and the errors: what has not been carried out says so, in its place. */
static void a_batch_ends_where_its_answers_are_too_long(void **state)
{
        struct json_object *batch = json_object_new_array(), *answers, *id;
        size_t len;

        (void)state;
        calls = 0;
        for (int i = 0; i < 20; i++)
                json_object_array_add(batch, request(MIB, i));
        assert_true(jsonrpc_answer(&rpc, batch, false, &answers));
        assert_int_equal(json_object_array_length(answers), 20);
        assert_int_equal(calls, 15);
        for (int i = 0; i < 20; i++) {
                struct json_object *one = json_object_array_get_idx(answers, (size_t)i);
                const char *message = message_of(one);

                assert_true(json_object_object_get_ex(one, "id", &id));
                assert_int_equal(json_object_get_int(id), i);
                if (i < 14)
                        assert_null(message);
                else
                        assert_non_null(
                            strstr(message, i == 14 ? "The answer has" : "Not carried out"));
        }
        json_object_to_json_string_length(answers, JSON_C_TO_STRING_NOSLASHESCAPE, &len);
        assert_in_range(len, 14 * MIB, JSONRPC_ANSWERS);
        json_object_put(answers);
        json_object_put(batch);
}

/* The client is told, and the connection is good for more. */
static void an_answer_that_is_too_long_is_told(void **state)
{
        static const uint64_t bytes[] = { 17 * MIB, 5 };
        char folder[] = "/tmp/test_rpc.XXXXXX", path[40], error[200];
        struct rpc_place at = { .path = path };
        struct json_object *p = json_object_new_object(), *answer;
        struct rpc_server *server;

        (void)state;
        assert_non_null(mkdtemp(folder));
        snprintf(path, sizeof(path), "%s/socket", folder);
        server = rpc_server_open(&at, error, sizeof(error));
        assert_non_null(server);
        assert_int_equal(rpc_server_run(server, &rpc), 0);
        for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
                json_object_object_add(p, "bytes", json_object_new_uint64(bytes[i]));
                answer = rpc_call(&at, "say", p, PATIENCE, error, sizeof(error));
                if (!answer)
                        fail_msg("%s", error);
                if (i == 0)
                        assert_non_null(strstr(message_of(answer), "The answer has 178"));
                else
                        assert_null(message_of(answer));
                json_object_put(answer);
        }
        json_object_put(p);
        rpc_server_close(server);
        assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_batch_ends_where_its_answers_are_too_long),
                cmocka_unit_test(an_answer_that_is_too_long_is_told),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
