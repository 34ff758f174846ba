/* SPDX-License-Identifier: BSD-3-Clause */
/* DOCA's control channel. */
#include <string.h>

#include "conformance/doca/doca_words.h"
#include "pdu/doca/machine/control.h"

enum { NEW = 1 }; /* needs: messages of 3.0 and later */
enum { QUIET_MS = 100 };

/* --- frames ------------------------------------------------------------------------------------- */

#define ASK_FIRST(t) ask_first(connect_channel(t))

static const struct doca_msg first = { .kind = DOCA_QUERY };

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
     "A frame that is shorter than its header ends the channel", .needs = NEW)
{
        struct channel *c = connect_channel(t);

        say_broken(c, first, DOCA_SIZE_S);
        expect_gone(c);
}

CASE("doca/frame/type-service", MUST, RULES(DOCA_TYPE_S),
     "A type that nobody knows is refused, or ends the channel", .needs = NEW)
{
        struct channel *c = connect_channel(t);

        say_broken(c, first, DOCA_TYPE_S);
        expect_refused_or_gone(c);
}

CASE("doca/frame/response-type", MUST, RULES(DOCA_TYPE_S),
     "A response in place of a request is refused, or ends the channel", .needs = NEW)
{
        struct channel *c = connect_channel(t);

        say_message(c, (struct doca_msg) { .kind = DOCA_SHUTDOWN_RSP });
        expect_refused_or_gone(c);
}

CASE("doca/frame/payload-service", MUST, RULES(DOCA_PAYLOAD_S),
     "A blob that ends beyond its frame is refused, or ends the channel", .needs = NEW)
{
        struct channel *c = connect_channel(t);
        struct doca_msg m = { .kind = DOCA_INIT, .transactions = 1, .cores = 1 };

        query_storage(c);
        m.data = connection_request(c, 0, 0).data;
        say_broken(c, m, DOCA_PAYLOAD_S);
        expect_refused_or_gone(c);
}

CASE("doca/frame/blob-endless", MUST, RULES(DOCA_PAYLOAD_S),
     "A blob of 4,294,967,295 bytes in a frame of 40 is refused, or ends the channel", .needs = NEW)
{
        static const uint8_t bytes[] = { 0, 0, 0,    28,   0,    0,    0, 5, 0, 0, 0,
                                         9, 0, 0,    0,    9,    0,    0, 0, 0, 0, 0,
                                         0, 0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4 };
        struct channel *c = connect_channel(t);

        query_storage(c);
        init_storage(c, 1);
        say_bytes(c, bytes, sizeof(bytes));
        expect_refused_or_gone(c);
        want_others_served(t);
}

CASE("doca/frame/size-0", MUST, RULES(DOCA_SIZE_S), "A frame of no bytes ends the channel",
     .needs = NEW)
{
        static const uint8_t bytes[16] = { 0 };
        struct channel *c = connect_channel(t);

        say_bytes(c, bytes, sizeof(bytes));
        expect_gone(c);
        want_others_served(t);
}

CASE("doca/frame/size-huge", MUST, NO_RULE, "A frame that announces 4 GiB takes nobody's place",
     .needs = NEW)
{
        static const uint8_t bytes[] = {
                0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 6
        };

        say_bytes(connect_channel(t), bytes, sizeof(bytes));
        want_others_served(t);
}

CASE("doca/frame/trailing-service", SHOULD, RULES(DOCA_TRAILING_S),
     "Bytes after the last field of a request are not looked at", .needs = NEW)
{
        struct channel *c = connect_channel(t);
        struct doca_msg m;

        say_broken(c, first, DOCA_TRAILING_S);
        m = expect_response(c);
        want(t, m.kind == DOCA_QUERY_RSP, "a query_storage_response", "%s",
             doca_error_name(m.result));
}

CASE("doca/frame/pieces", MUST, NO_RULE, "A request that comes byte by byte is answered",
     .needs = NEW)
{
        static const uint8_t bytes[] = { 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 9 };
        struct channel *c = connect_channel(t);

        for (unsigned i = 0; i + 1 < sizeof(bytes); i++) {
                say_bytes(c, bytes + i, 1);
                pause_ms(t, 1);
        }
        expect_no_more(c, QUIET_MS);
        say_bytes(c, bytes + sizeof(bytes) - 1, 1);
        (void)expect_response(c);
}

/* --- responses ---------------------------------------------------------------------------------- */

CASE("doca/answer/message-id", MUST, RULES(DOCA_ANSWER_ID),
     "A response has the message id of its request", .needs = NEW)
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

        query_storage(c);
        init_storage(c, 1);
}

CASE("doca/answer/asked", MUST, RULES(DOCA_ANSWER_ASKED), "One request has one response")
{
        struct channel *c = connect_channel(t);

        ask_first(c);
        expect_no_more(c, QUIET_MS);
}

CASE("doca/error/code", SHOULD, RULES(DOCA_ERROR_CODE),
     "An error response has another code than success", .needs = NEW)
{
        struct channel *c = connect_channel(t);

        say_message(c, (struct doca_msg) { .kind = DOCA_SHUTDOWN });
        (void)expect_response(c);
}

CASE("doca/query/size", MUST, RULES(DOCA_QUERY_SIZE),
     "The total size is a multiple of the block size, which is not 0", .needs = NEW)
{
        ASK_FIRST(t);
}

CASE("doca/answer/ids", MUST, RULES(DOCA_ANSWER_ID, DOCA_ANSWER_CORRELATION),
     "Ids are echoed whatever they are", .needs = NEW)
{
        struct channel *c = connect_channel(t);

        use_ids(c, 0, UINT32_MAX);
        query_storage(c);
        use_ids(c, UINT32_MAX, 0);
        init_storage(c, 1);
}

CASE("doca/answer/error-ids", MUST, RULES(DOCA_ANSWER_ID, DOCA_ANSWER_CORRELATION),
     "An error response has the ids of its request, too", .needs = NEW)
{
        struct channel *c = connect_channel(t);

        use_ids(c, 0x80000001, 0x7ffffffe);
        say_message(c, (struct doca_msg) { .kind = DOCA_SHUTDOWN });
        (void)expect_response(c);
}

/* Responses that fill what the network holds; each has 12 bytes and more. */
enum { UNREAD = 40000, IDLE_AT_END_MS = 300 };

CASE("doca/answer/slow-reader", MUST, RULES(DOCA_PAYLOAD_T),
     "A client that reads late reads whole responses", .needs = NEW, .slow = true)
{
        static const uint8_t query[] = { 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 6 };
        uint8_t *all = t_alloc(t, UNREAD * sizeof(query));

        for (unsigned i = 0; i < UNREAD; i++)
                memcpy(all + i * sizeof(query), query, sizeof(query));
        want_whole_responses(connect_channel(t), all, UNREAD * sizeof(query), IDLE_AT_END_MS);
}

/* --- order -------------------------------------------------------------------------------------- */

CASE("doca/order/stop-first", MUST, RULES(DOCA_ORDER),
     "stop_storage before anything else is refused", .needs = NEW)
{
        struct channel *c = connect_channel(t);

        say_message(c, (struct doca_msg) { .kind = DOCA_STOP });
        expect_refused(c);
}

CASE("doca/order/stop-before-start", MUST, RULES(DOCA_ORDER),
     "stop_storage in place of connections is refused", .needs = NEW)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        init_storage(c, 1);
        say_message(c, (struct doca_msg) { .kind = DOCA_STOP });
        expect_refused(c);
}

CASE("doca/order/start-unconnected", MUST, NO_RULE,
     "start_storage without connections is not answered with success", .needs = NEW)
{
        struct channel *c = connect_channel(t);
        struct doca_msg m;

        query_storage(c);
        init_storage(c, 1);
        say_message(c, (struct doca_msg) { .kind = DOCA_START });
        m = expect_response(c);
        if (m.kind == DOCA_START_RSP)
                advise(t, "an error response", "start_storage_response");
}

CASE("doca/init/counts", SHOULD, RULES(DOCA_INIT_COUNTS), "An initialisation of no core is refused",
     .needs = NEW)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        say_message(c, (struct doca_msg) { .kind = DOCA_INIT, .transactions = 1 });
        expect_refused(c);
}

/* Some answer, which need not be a refusal: the numbers are lawful, and more than anybody has. */
static void want_answer_to_init(struct t *t, struct doca_msg m)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        m.kind = DOCA_INIT;
        say_message(c, m);
        (void)expect_response(c);
        want_others_served(t);
}

CASE("doca/init/no-transactions", SHOULD, RULES(DOCA_INIT_COUNTS),
     "An initialisation of no transaction is refused", .needs = NEW)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        say_message(c, (struct doca_msg) { .kind = DOCA_INIT, .cores = 1 });
        expect_refused(c);
}

CASE("doca/init/cores-many", MUST, NO_RULE,
     "4,294,967,295 cores are answered, and others are served", .needs = NEW)
{
        want_answer_to_init(t, (struct doca_msg) { .transactions = 1, .cores = UINT32_MAX });
}

CASE("doca/init/transactions-many", MUST, NO_RULE,
     "4,294,967,295 transactions are answered, and others are served", .needs = NEW)
{
        want_answer_to_init(t, (struct doca_msg) { .transactions = UINT32_MAX, .cores = 1 });
}

CASE("doca/init/foreign-blob", MUST, NO_RULE,
     "A memory blob that nobody made is answered, and others are served", .needs = NEW)
{
        want_answer_to_init(t, (struct doca_msg) { .transactions = 1,
                                                   .cores = 1,
                                                   .data = { (const uint8_t *)"no blob", 7 } });
}

CASE("doca/init/again", MUST, NO_RULE, "An initialisation after a refused one is answered",
     .needs = NEW)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        say_message(c, (struct doca_msg) { .kind = DOCA_INIT, .transactions = 1 });
        (void)expect_response(c);
        say_message(c, (struct doca_msg) { .kind = DOCA_INIT, .transactions = 1, .cores = 1 });
        (void)expect_response(c);
}

/* --- connections -------------------------------------------------------------------------------- */

CASE("doca/connection/echo", MUST, RULES(DOCA_CREATE_ECHO),
     "The response to a connection request names its context and role")
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        init_storage(c, 1);
        (void)create_connection(c, 0, DOCA_IO_DATA);
}

CASE("doca/connection/context", MUST, RULES(DOCA_CONTEXT),
     "A connection of a context beyond the last one is refused", .needs = NEW)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        init_storage(c, 1);
        say_message(c, connection_request(c, 1, DOCA_IO_DATA));
        expect_refused(c);
}

CASE("doca/connection/context-far", MUST, RULES(DOCA_CONTEXT),
     "A connection of a context far beyond the last one is refused", .needs = NEW)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        init_storage(c, 1);
        say_message(c, connection_request(c, UINT32_MAX, DOCA_IO_DATA));
        expect_refused(c);
}

CASE("doca/connection/role", MUST, RULES(DOCA_ROLE), "A connection of no known role is refused",
     .needs = NEW)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        init_storage(c, 1);
        say_message(c, connection_request(c, 0, DOCA_ROLES));
        expect_refused(c);
}

CASE("doca/connection/once", MUST, RULES(DOCA_ROLE_ONCE),
     "A second connection of the same context and role is refused", .needs = NEW)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        init_storage(c, 1);
        (void)create_connection(c, 0, DOCA_IO_DATA);
        say_message(c, connection_request(c, 0, DOCA_IO_DATA));
        expect_refused(c);
}

static void want_blob_refused(struct t *t, const char *blob)
{
        struct channel *c = connect_channel(t);
        struct doca_msg m = { .kind = DOCA_CREATE,
                              .data = { (const uint8_t *)blob, (uint32_t)strlen(blob) } };

        query_storage(c);
        init_storage(c, 1);
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
