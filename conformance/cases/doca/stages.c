/* SPDX-License-Identifier: BSD-3-Clause */
/* DOCA's stages: requests that are not due, clients that stop in the middle, and two of them at a time. */
#include <string.h>

#include "conformance/doca/doca_words.h"

enum { IDLE_MS = 1500, HALF = 6 /* bytes of a header */ };

/* --- requests that are not due ------------------------------------------------------------------ */

static void want_not_due(struct channel *c, enum doca_kind kind)
{
        say_message(c, (struct doca_msg) { .kind = kind, .transactions = 1, .cores = 1 });
        expect_refused(c);
}

CASE("doca/order/init-first", MUST, RULES(DOCA_ORDER),
     "init_storage before query_storage is refused", .needs = NEEDS_QUERY)
{
        want_not_due(connect_channel(t), DOCA_INIT);
}

CASE("doca/order/start-first", MUST, RULES(DOCA_ORDER),
     "start_storage before anything else is refused")
{
        want_not_due(connect_channel(t), DOCA_START);
}

CASE("doca/order/connection-first", MUST, RULES(DOCA_ORDER),
     "A connection before init_storage is refused")
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        say_message(c, connection_request(c, 0, DOCA_IO_DATA));
        expect_refused(c);
}

CASE("doca/order/query-twice", MUST, RULES(DOCA_ORDER), "A second query_storage is refused",
     .needs = NEEDS_QUERY)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        want_not_due(c, DOCA_QUERY);
}

CASE("doca/order/init-twice", MUST, RULES(DOCA_ORDER), "A second init_storage is refused")
{
        struct channel *c = connect_channel(t);

        initialise(c, 1);
        want_not_due(c, DOCA_INIT);
}

CASE("doca/order/shutdown-early", MUST, RULES(DOCA_ORDER),
     "shutdown in place of connections is refused")
{
        struct channel *c = connect_channel(t);

        initialise(c, 1);
        want_not_due(c, DOCA_SHUTDOWN);
}

CASE("doca/order/connection-too-many", MUST, RULES(DOCA_ORDER),
     "A connection after the last one is refused", .needs = NEEDS_CONTEXTS)
{
        struct channel *c = connect_channel(t);

        initialise(c, 1);
        (void)create_connection(c, 0, DOCA_IO_DATA);
        (void)create_connection(c, 0, DOCA_IO_CONTROL);
        say_message(c, connection_request(c, 0, DOCA_IO_DATA));
        expect_refused(c);
}

CASE("doca/order/roles-either-way", MUST, NO_RULE,
     "Connections may come in any order of roles and contexts", .needs = NEEDS_CONTEXTS)
{
        struct channel *c = connect_channel(t);

        initialise(c, 2);
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
     "query_storage while data flows is refused, and data flows on", .needs = NEEDS_QUERY)
{
        want_refused_in_between(t, DOCA_QUERY);
}

CASE("doca/order/init-late", MUST, RULES(DOCA_ORDER),
     "init_storage while data flows is refused, and data flows on")
{
        want_refused_in_between(t, DOCA_INIT);
}

CASE("doca/order/connection-late", MUST, RULES(DOCA_ORDER),
     "A connection while data flows is refused, and data flows on")
{
        want_refused_in_between(t, DOCA_CREATE);
}

CASE("doca/order/start-twice", MUST, RULES(DOCA_ORDER),
     "A second start_storage is refused, and data flows on")
{
        want_refused_in_between(t, DOCA_START);
}

/* --- one request after the other ---------------------------------------------------------------- */

CASE("doca/order/two-at-once", MUST, NO_RULE,
     "Of two requests that come together the first is answered, and the second does no harm")
{
        struct channel *c = connect_channel(t);
        struct doca_msg m;
        uint8_t both[256], *frame;
        size_t n, first;

        use_ids(c, 5, 6);
        frame = frame_of(c, first_request(c), &first);
        memcpy(both, frame, first);
        frame = frame_of(c, (struct doca_msg) { .kind = DOCA_START }, &n);
        memcpy(both + first, frame, n);
        say_bytes(c, both, first + n);
        m = expect_response(c);
        want(t, m.correlation_id == 6, "the response to the first of them",
             "one with correlation id %u", m.correlation_id);
        want_others_served(t);
}

CASE("doca/order/slow", MUST, NO_RULE, "A request may come long after the one before", .slow = true)
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        pause_ms(t, IDLE_MS);
        init_storage(c, 1);
}

CASE("doca/order/half-frame", MUST, NO_RULE, "Half a request, and then the rest of it, is answered",
     .slow = true)
{
        struct channel *c = connect_channel(t);
        size_t n;
        const uint8_t *request = frame_of(c, first_request(c), &n);

        say_bytes(c, request, HALF);
        pause_ms(t, IDLE_MS);
        say_bytes(c, request + HALF, n - HALF);
        (void)expect_response(c);
}

/* --- clients that go ---------------------------------------------------------------------------- */

CASE("doca/gone/half-closed", MUST, NO_RULE, "The channel ends when the client sends no more")
{
        struct channel *c = connect_channel(t);

        query_storage(c);
        say_no_more(c);
        advise_gone(c, "though its client has ended");
        want_others_served(t);
}

CASE("doca/gone/half-frame", MUST, NO_RULE,
     "The channel ends when the client does within a request")
{
        struct channel *c = connect_channel(t);
        size_t n;

        say_bytes(c, frame_of(c, first_request(c), &n), HALF);
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

        initialise(c, 1);
        reset_channel(c);
        want_others_served(t);
}

CASE("doca/gone/half-connected", MUST, NO_RULE,
     "After a client that has gone with half of its connections, others are served")
{
        struct channel *c = connect_channel(t);

        initialise(c, 1);
        (void)create_connection(c, 0, DOCA_IO_DATA);
        reset_channel(c);
        want_others_served(t);
}

CASE("doca/gone/unread", MUST, NO_RULE,
     "After a client that does not await its response, others are served")
{
        struct channel *c = connect_channel(t);

        say_message(c, first_request(c));
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

CASE("doca/clients/second", MUST, NO_RULE, "A second client does not disturb the first")
{
        struct channel *first = connect_channel(t), *second;

        query_storage(first);
        second = connect_channel(t);
        say_message(second, first_request(second)); /* it may wait for an answer */
        init_storage(first, 1);
        reset_channel(second);
}

CASE("doca/clients/second-broken", MUST, NO_RULE,
     "A second client whose messages are none does not disturb the first")
{
        struct channel *first = connect_channel(t), *second;

        query_storage(first);
        second = connect_channel(t);
        say_bytes(second, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16);
        init_storage(first, 1);
}
