/* SPDX-License-Identifier: BSD-3-Clause */
/* DOCA's stages: requests that are not due, clients that stop in the middle, and two of them at a time. */
#include "conformance/doca/doca_words.h"

enum { NEW = 1 }; /* needs: messages of 3.0 and later */
enum { IDLE_MS = 1500 };

/* --- requests that are not due ------------------------------------------------------------------ */

static void want_not_due(struct channel *c, enum doca_kind kind)
{
        say_message(c, (struct doca_msg) { .kind = kind, .transactions = 1, .cores = 1 });
        expect_refused(c);
}

CASE("doca/order/init-first", MUST, RULES(DOCA_ORDER),
     "init_storage before query_storage is refused", .needs = NEW)
{
        want_not_due(connect_channel(t), DOCA_INIT);
}

CASE("doca/order/start-first", MUST, RULES(DOCA_ORDER),
     "start_storage before anything else is refused", .needs = NEW)
{
        want_not_due(connect_channel(t), DOCA_START);
}

CASE("doca/order/connection-first", MUST, RULES(DOCA_ORDER),
     "A connection before init_storage is refused", .needs = NEW)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        say_message(c, connection_request(c, 0, DOCA_IO_DATA));
        expect_refused(c);
}

CASE("doca/order/query-twice", MUST, RULES(DOCA_ORDER), "A second query_storage is refused",
     .needs = NEW)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        want_not_due(c, DOCA_QUERY);
}

CASE("doca/order/init-twice", MUST, RULES(DOCA_ORDER), "A second init_storage is refused",
     .needs = NEW)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        init_storage(c, 1);
        want_not_due(c, DOCA_INIT);
}

CASE("doca/order/shutdown-early", MUST, RULES(DOCA_ORDER),
     "shutdown in place of connections is refused", .needs = NEW)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        init_storage(c, 1);
        want_not_due(c, DOCA_SHUTDOWN);
}

CASE("doca/order/connection-too-many", MUST, RULES(DOCA_ORDER),
     "A connection after the last one is refused", .needs = NEW)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        init_storage(c, 1);
        (void)create_connection(c, 0, DOCA_IO_DATA);
        (void)create_connection(c, 0, DOCA_IO_CONTROL);
        say_message(c, connection_request(c, 0, DOCA_IO_DATA));
        expect_refused(c);
}

CASE("doca/order/roles-either-way", MUST, NO_RULE,
     "Connections may come in any order of roles and contexts", .needs = NEW)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        init_storage(c, 2);
        (void)create_connection(c, 1, DOCA_IO_CONTROL);
        (void)create_connection(c, 0, DOCA_IO_CONTROL);
        (void)create_connection(c, 1, DOCA_IO_DATA);
        (void)create_connection(c, 0, DOCA_IO_DATA);
}

/* While data flows. */
static void want_refused_in_between(struct t *t, enum doca_kind kind)
{
        struct doca_session *s = data_path(t, (struct path) { 0 });

        want_request_refused(t, s, kind);
}

CASE("doca/order/query-late", MUST, RULES(DOCA_ORDER),
     "query_storage while data flows is refused, and data flows on", .needs = NEW)
{
        want_refused_in_between(t, DOCA_QUERY);
}

CASE("doca/order/init-late", MUST, RULES(DOCA_ORDER),
     "init_storage while data flows is refused, and data flows on", .needs = NEW)
{
        want_refused_in_between(t, DOCA_INIT);
}

CASE("doca/order/connection-late", MUST, RULES(DOCA_ORDER),
     "A connection while data flows is refused, and data flows on", .needs = NEW)
{
        want_refused_in_between(t, DOCA_CREATE);
}

CASE("doca/order/start-twice", MUST, RULES(DOCA_ORDER),
     "A second start_storage is refused, and data flows on", .needs = NEW)
{
        want_refused_in_between(t, DOCA_START);
}

/* --- one request after the other ---------------------------------------------------------------- */

CASE("doca/order/two-at-once", MUST, NO_RULE,
     "Of two requests that come together the first is answered, and the second does no harm",
     .needs = NEW)
{
        static const uint8_t both[] = { 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 6,
                                        0, 0, 0, 12, 0, 0, 0, 9, 0, 0, 0, 7, 0, 0, 0, 8 };
        struct channel *c = connect_channel(t);
        struct doca_msg m;

        say_bytes(c, both, sizeof(both));
        m = expect_response(c);
        want(t, m.message_id == 5, "the response to the first of them", "one to message %u",
             m.message_id);
        want_others_served(t);
}

CASE("doca/order/slow", MUST, NO_RULE, "A request may come long after the one before", .needs = NEW,
     .slow = true)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        pause_ms(t, IDLE_MS);
        init_storage(c, 1);
}

CASE("doca/order/half-frame", MUST, NO_RULE, "Half a request, and then the rest of it, is answered",
     .needs = NEW, .slow = true)
{
        static const uint8_t request[] = { 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 6 };
        struct channel *c = connect_channel(t);

        say_bytes(c, request, 6);
        pause_ms(t, IDLE_MS);
        say_bytes(c, request + 6, sizeof(request) - 6);
        (void)expect_response(c);
}

/* --- clients that go ---------------------------------------------------------------------------- */

CASE("doca/gone/half-closed", MUST, NO_RULE, "The channel ends when the client sends no more",
     .needs = NEW)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        say_no_more(c);
        advise_gone(c, "though its client has ended");
        want_others_served(t);
}

CASE("doca/gone/half-frame", MUST, NO_RULE,
     "The channel ends when the client does within a request", .needs = NEW)
{
        struct channel *c = connect_channel(t);

        say_bytes(c, "\0\0\0\14\0\0", 6);
        say_no_more(c);
        advise_gone(c, "though its client has ended");
        want_others_served(t);
}

CASE("doca/gone/at-once", MUST, NO_RULE, "After a client that says nothing, others are served")
{
        reset_channel(connect_channel(t));
        want_others_served(t);
}

CASE("doca/gone/initialised", MUST, NO_RULE,
     "After a client that has gone without a connection, others are served")
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        init_storage(c, 1);
        reset_channel(c);
        want_others_served(t);
}

CASE("doca/gone/half-connected", MUST, NO_RULE,
     "After a client that has gone with half of its connections, others are served")
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        init_storage(c, 1);
        (void)create_connection(c, 0, DOCA_IO_DATA);
        reset_channel(c);
        want_others_served(t);
}

CASE("doca/gone/unread", MUST, NO_RULE,
     "After a client that does not await its response, others are served", .needs = NEW)
{
        struct channel *c = connect_channel(t);

        say_message(c, (struct doca_msg) { .kind = DOCA_QUERY });
        reset_channel(c);
        want_others_served(t);
}

CASE("doca/gone/with-data", MUST, NO_RULE,
     "After a client that has gone while data flowed, others are served")
{
        uint8_t *data = t_alloc(t, 4096);
        struct doca_session *s = data_path(t, (struct path) { 0 });

        want(t, transfer_block(t, s, false, data), "success", "%s",
             doca_error_name(refused_with(s)));
        abandon_session(t);
        s = data_path(t, (struct path) { 0 });
        if (!transfer_block(t, s, false, data))
                harm(t, "success", "%s", doca_error_name(refused_with(s)));
        stop_session(t, s);
}

/* --- two of them -------------------------------------------------------------------------------- */

CASE("doca/clients/second", MUST, NO_RULE, "A second client does not disturb the first",
     .needs = NEW)
{
        struct channel *first = connect_channel(t), *second;

        query_storage(first);
        second = connect_channel(t);
        say_message(second,
                    (struct doca_msg) { .kind = DOCA_QUERY }); /* it may wait for an answer */
        init_storage(first, 1);
        reset_channel(second);
}

CASE("doca/clients/second-broken", MUST, NO_RULE,
     "A second client whose messages are none does not disturb the first", .needs = NEW)
{
        struct channel *first = connect_channel(t), *second;

        query_storage(first);
        second = connect_channel(t);
        say_bytes(second, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16);
        init_storage(first, 1);
}
