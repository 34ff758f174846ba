/* SPDX-License-Identifier: BSD-3-Clause */
/* DOCA's control channel. */
#include "conformance/doca/doca_words.h"

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
