/* SPDX-License-Identifier: BSD-3-Clause */
/* DOCA's control channel. */
#include <string.h>

#include "conformance/doca/doca_words.h"
#include "pdu/doca/machine/control.h"

enum { QUIET_MS = 100 };

/* --- frames ------------------------------------------------------------------------------------- */

#define ASK_FIRST(t) ask_first(connect_channel(t))

CASE("doca/frame/size-target", MUST, RULES(DOCA_SIZE_T), "The size of a response counts its header")
{
        ASK_FIRST(t);
}

CASE("doca/frame/type-target", MUST, RULES(DOCA_TYPE_T),
     "A response is of a type that targets send")
{
        ASK_FIRST(t);
}

CASE("doca/frame/payload-target", MUST, RULES(DOCA_PAYLOAD_T),
     "The fields of a response lie within its frame")
{
        ASK_FIRST(t);
}

CASE("doca/frame/trailing-target", SHOULD, RULES(DOCA_TRAILING_T),
     "Nothing follows the last field of a response")
{
        ASK_FIRST(t);
}

CASE("doca/frame/size-service", MUST, RULES(DOCA_SIZE_S),
     "A frame that is shorter than its header ends the channel")
{
        struct channel *c = connect_channel(t);

        say_broken(c, first_request(c), DOCA_SIZE_S);
        expect_gone(c);
}

CASE("doca/frame/type-service", MUST, RULES(DOCA_TYPE_S),
     "A type that nobody knows is refused, or ends the channel")
{
        struct channel *c = connect_channel(t);

        say_broken(c, first_request(c), DOCA_TYPE_S);
        expect_refused_or_gone(c);
}

CASE("doca/frame/response-type", MUST, RULES(DOCA_TYPE_S),
     "A response in place of a request is refused, or ends the channel")
{
        const struct doca_dialect *d = peer_of_case(t)->dialect;
        struct channel *c = connect_channel(t);

        say_message(c, (struct doca_msg) { .kind = doca_shape_of(d, DOCA_RESPONSE)
                                                       ? DOCA_RESPONSE
                                                       : DOCA_SHUTDOWN_RSP });
        expect_refused_or_gone(c);
}

CASE("doca/frame/payload-service", MUST, RULES(DOCA_PAYLOAD_S),
     "A blob that ends beyond its frame is refused, or ends the channel")
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        say_broken(c, init_request(c, 1), DOCA_PAYLOAD_S);
        expect_refused_or_gone(c);
}

CASE("doca/frame/blob-endless", MUST, RULES(DOCA_PAYLOAD_S),
     "A blob of 4,294,967,295 bytes in a frame of at most 40 is refused, or ends the channel")
{
        struct channel *c = connect_channel(t);
        const struct doca_bytes four = { (const uint8_t *)"blob", 4 };
        uint8_t *bytes;
        size_t n;

        initialise(c, 1);
        bytes = frame_of(c, (struct doca_msg) { .kind = DOCA_CREATE, .data = four }, &n);
        memset(bytes + n - 4 - four.len, 0xff, 4);
        say_bytes(c, bytes, n);
        expect_refused_or_gone(c);
        want_others_served(t);
}

CASE("doca/frame/size-0", MUST, RULES(DOCA_SIZE_S), "A frame of no bytes ends the channel")
{
        static const uint8_t bytes[16] = { 0 };
        struct channel *c = connect_channel(t);

        say_bytes(c, bytes, sizeof(bytes));
        expect_gone(c);
        want_others_served(t);
}

CASE("doca/frame/size-huge", MUST, NO_RULE,
     "A frame that announces as much as there can be takes nobody's place")
{
        struct channel *c = connect_channel(t);
        size_t n;
        uint8_t *bytes = frame_of(c, first_request(c), &n);

        memset(bytes, 0xff, peer_of_case(t)->dialect->frame.size_len);
        say_bytes(c, bytes, n);
        want_others_served(t);
}

CASE("doca/frame/trailing-service", SHOULD, RULES(DOCA_TRAILING_S),
     "Bytes after the last field of a request are not looked at")
{
        struct channel *c = connect_channel(t);
        struct doca_msg m;

        say_broken(c, first_request(c), DOCA_TRAILING_S);
        m = expect_response(c);
        want(t, !doca_is_error(&m), "a response that is no error", "%s", doca_error_name(m.result));
}

CASE("doca/frame/pieces", MUST, NO_RULE, "A request that comes byte by byte is answered")
{
        struct channel *c = connect_channel(t);
        size_t n;
        const uint8_t *bytes = frame_of(c, first_request(c), &n);

        for (size_t i = 0; i + 1 < n; i++) {
                say_bytes(c, bytes + i, 1);
                pause_ms(t, 1);
        }
        expect_no_more(c, QUIET_MS);
        say_bytes(c, bytes + n - 1, 1);
        (void)expect_response(c);
}

/* --- responses ---------------------------------------------------------------------------------- */

CASE("doca/answer/message-id", MUST, RULES(DOCA_ANSWER_ID),
     "A response has the message id of its request", .needs = NEEDS_IDS)
{
        ASK_FIRST(t);
}

CASE("doca/answer/correlation-id", MUST, RULES(DOCA_ANSWER_CORRELATION),
     "A response has the correlation id of its request")
{
        ASK_FIRST(t);
}

CASE("doca/answer/type", MUST, RULES(DOCA_ANSWER_TYPE), "A response is that of its request")
{
        struct channel *c = connect_channel(t);

        initialise(c, 1);
}

CASE("doca/answer/asked", MUST, RULES(DOCA_ANSWER_ASKED), "One request has one response")
{
        struct channel *c = connect_channel(t);

        ask_first(c);
        expect_no_more(c, QUIET_MS);
}

CASE("doca/error/code", SHOULD, RULES(DOCA_ERROR_CODE),
     "An error response has another code than success", .needs = NEEDS_ERRORS)
{
        struct channel *c = connect_channel(t);

        say_message(c, (struct doca_msg) { .kind = DOCA_SHUTDOWN });
        (void)expect_response(c);
}

CASE("doca/query/size", MUST, RULES(DOCA_QUERY_SIZE),
     "The total size is a multiple of the block size, which is not 0", .needs = NEEDS_QUERY)
{
        ASK_FIRST(t);
}

CASE("doca/answer/ids", MUST, RULES(DOCA_ANSWER_ID, DOCA_ANSWER_CORRELATION),
     "Ids are echoed whatever they are", .needs = NEEDS_IDS)
{
        struct channel *c = connect_channel(t);

        use_ids(c, 0, UINT32_MAX);
        query_storage(c);
        use_ids(c, UINT32_MAX, 0);
        init_storage(c, 1);
}

CASE("doca/answer/error-ids", MUST, RULES(DOCA_ANSWER_ID, DOCA_ANSWER_CORRELATION),
     "An error response has the ids of its request, too", .needs = NEEDS_IDS)
{
        struct channel *c = connect_channel(t);

        use_ids(c, 0x80000001, 0x7ffffffe);
        say_message(c, (struct doca_msg) { .kind = DOCA_SHUTDOWN });
        (void)expect_response(c);
}

/* Responses that fill what the network holds; each has 12 bytes and more. */
enum { UNREAD = 150000, IDLE_AT_END_MS = 300 };

CASE("doca/answer/slow-reader", MUST, RULES(DOCA_PAYLOAD_T),
     "A client that reads late reads whole responses", .slow = true)
{
        struct channel *c = connect_channel(t);
        size_t n;
        const uint8_t *request = frame_of(c, first_request(c), &n);
        uint8_t *all = t_alloc(t, UNREAD * n);

        for (unsigned i = 0; i < UNREAD; i++)
                memcpy(all + i * n, request, n);
        want_whole_responses(c, all, UNREAD * n, IDLE_AT_END_MS);
}

/* --- order -------------------------------------------------------------------------------------- */

CASE("doca/order/stop-first", MUST, RULES(DOCA_ORDER),
     "stop_storage before anything else is refused", .needs = NEEDS_STOP)
{
        struct channel *c = connect_channel(t);

        say_message(c, (struct doca_msg) { .kind = DOCA_STOP });
        expect_refused(c);
}

CASE("doca/order/stop-before-start", MUST, RULES(DOCA_ORDER),
     "stop_storage in place of connections is refused", .needs = NEEDS_STOP)
{
        struct channel *c = connect_channel(t);

        initialise(c, 1);
        say_message(c, (struct doca_msg) { .kind = DOCA_STOP });
        expect_refused(c);
}

CASE("doca/order/start-unconnected", MUST, NO_RULE,
     "start_storage without connections is not answered with success")
{
        struct channel *c = connect_channel(t);
        struct doca_msg m;

        initialise(c, 1);
        say_message(c, (struct doca_msg) { .kind = DOCA_START });
        m = expect_response(c);
        if (!doca_is_error(&m))
                advise(t, "an error response", "success");
}

CASE("doca/init/counts", SHOULD, RULES(DOCA_INIT_COUNTS), "An initialisation of no core is refused",
     .needs = NEEDS_CONTEXTS)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        say_message(c, (struct doca_msg) { .kind = DOCA_INIT, .transactions = 1 });
        expect_refused(c);
}

static void of_many_cores(struct doca_msg *m)
{
        m->cores = UINT32_MAX;
}

static void of_many_transactions(struct doca_msg *m)
{
        m->transactions = UINT32_MAX;
}

static void of_no_transactions(struct doca_msg *m)
{
        m->transactions = 0;
}

static void with_a_foreign_blob(struct doca_msg *m)
{
        m->data = (struct doca_bytes) { (const uint8_t *)"no blob", 7 };
}

/* Some answer, which need not be a refusal: the numbers are lawful, and more than anybody has. */
static void want_answer_to_init(struct t *t, void (*change)(struct doca_msg *m))
{
        struct channel *c = connect_channel(t);
        struct doca_msg m = init_request(c, 1);

        change(&m);
        query_storage(c);
        say_message(c, m);
        (void)expect_response(c);
        want_others_served(t);
}

CASE("doca/init/no-transactions", SHOULD, RULES(DOCA_INIT_COUNTS),
     "An initialisation of no transaction is refused")
{
        struct channel *c = connect_channel(t);
        struct doca_msg m = init_request(c, 1);

        of_no_transactions(&m);
        query_storage(c);
        say_message(c, m);
        expect_refused(c);
}

CASE("doca/init/cores-many", MUST, NO_RULE,
     "4,294,967,295 cores are answered, and others are served", .needs = NEEDS_CONTEXTS)
{
        want_answer_to_init(t, of_many_cores);
}

CASE("doca/init/transactions-many", MUST, NO_RULE,
     "4,294,967,295 transactions are answered, and others are served")
{
        want_answer_to_init(t, of_many_transactions);
}

CASE("doca/init/foreign-blob", MUST, NO_RULE,
     "A memory blob that nobody made is answered, and others are served")
{
        want_answer_to_init(t, with_a_foreign_blob);
}

CASE("doca/init/again", MUST, NO_RULE, "An initialisation after a refused one is answered")
{
        struct channel *c = connect_channel(t);
        struct doca_msg m = init_request(c, 1);

        of_no_transactions(&m);
        query_storage(c);
        say_message(c, m);
        (void)expect_response(c);
        say_message(c, init_request(c, 1));
        (void)expect_response(c);
}

/* --- connections -------------------------------------------------------------------------------- */

CASE("doca/connection/echo", MUST, RULES(DOCA_CREATE_ECHO),
     "The response to a connection request names its context and role")
{
        struct channel *c = connect_channel(t);

        initialise(c, 1);
        (void)create_connection(c, 0, DOCA_IO_DATA);
}

CASE("doca/connection/context", MUST, RULES(DOCA_CONTEXT),
     "A connection of a context beyond the last one is refused", .needs = NEEDS_CONTEXTS)
{
        struct channel *c = connect_channel(t);

        initialise(c, 1);
        say_message(c, connection_request(c, 1, DOCA_IO_DATA));
        expect_refused(c);
}

CASE("doca/connection/context-far", MUST, RULES(DOCA_CONTEXT),
     "A connection of a context far beyond the last one is refused", .needs = NEEDS_CONTEXTS)
{
        struct channel *c = connect_channel(t);

        initialise(c, 1);
        say_message(c, connection_request(c, UINT32_MAX, DOCA_IO_DATA));
        expect_refused(c);
}

CASE("doca/connection/role", MUST, RULES(DOCA_ROLE), "A connection of no known role is refused")
{
        struct channel *c = connect_channel(t);

        initialise(c, 1);
        say_message(c, connection_request(c, 0, DOCA_ROLES));
        expect_refused(c);
}

CASE("doca/connection/once", MUST, RULES(DOCA_ROLE_ONCE),
     "A second connection of the same context and role is refused")
{
        struct channel *c = connect_channel(t);

        initialise(c, 1);
        (void)create_connection(c, 0, DOCA_IO_DATA);
        say_message(c, connection_request(c, 0, DOCA_IO_DATA));
        expect_refused(c);
}

static void want_blob_refused(struct t *t, const char *blob)
{
        struct channel *c = connect_channel(t);
        struct doca_msg m = { .kind = DOCA_CREATE,
                              .data = { (const uint8_t *)blob, (uint32_t)strlen(blob) } };

        initialise(c, 1);
        say_message(c, m);
        m = expect_response(c);
        if (!doca_is_error(&m))
                advise(t, "an error response", "a connection to details that nobody made");
        want_others_served(t);
}

CASE("doca/connection/foreign-blob", MUST, NO_RULE,
     "Connection details that nobody made are refused, and others are served")
{
        want_blob_refused(t, "these are no connection details of any library");
}

CASE("doca/connection/no-blob", MUST, NO_RULE,
     "A connection without details is refused, and others are served")
{
        want_blob_refused(t, "");
}
