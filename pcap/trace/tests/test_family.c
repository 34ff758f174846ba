/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A protocol of a few lines goes through the capture engine without a header of NVMe: its messages are
 * a length byte and that many letters; the host says "hi" first, and each answer is as long as what was
 * said.
 */
#include "pcap/trace/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pcap/trace/tracer.h"
#include "pdu/core/text.h"
#include "pdu/io/capture/capture_writer.h"

/* --- the family ------------------------------------------------------------------------------- */

enum { ECHO_GREETS = 1, ECHO_LENGTH };
static const struct rule rows[] = {
        [ECHO_GREETS] = { .id = "echo/greets",
                          .bound = PARTY_HOST,
                          .level = LEVEL_MUST,
                          .source = "Echo 1",
                          .says = "A host says hi first." },
        [ECHO_LENGTH] = { .id = "echo/length",
                          .bound = PARTY_CONTROLLER,
                          .level = LEVEL_SHOULD,
                          .source = "Echo 2",
                          .says = "An answer is as long as what it answers." },
};
static const struct rulebook rules = { .name = "echo", .rows = rows, .count = 3 };

static const struct family family = { .name = "Echo", .rules = &rules };

struct trace_pdu { /* a message */
        unsigned len;
};

struct trace_flow {
        struct trace_conn pub;
        unsigned left[2]; /* bytes of the message in hand */
};

static enum trace_guess begins(const uint8_t *p, size_t n)
{
        return n < 3 ? TRACE_PERHAPS : p[0] == 2 && p[1] == 'h' ? TRACE_YES : TRACE_NO;
}

static bool plausible(const uint8_t *p, size_t n, enum party sender)
{
        (void)p, (void)n, (void)sender;
        return false;
}

static struct trace_flow *flow_open(struct tracer *t, const struct capture_conn *c, bool begun)
{
        struct trace_flow *f = calloc(1, sizeof(*f));

        assert_true(begun);
        f->pub.transport = TRACE_TCP;
        for (int p = 0; p < 2; p++) {
                f->pub.end[p] = c->end[p];
                f->pub.whole_until[p] = UINT64_MAX;
        }
        trace_open(t, &f->pub);
        return f;
}

static void flow_data(struct tracer *t, struct trace_flow *f, enum party sender, const uint8_t *p,
                      size_t n)
{
        for (size_t i = 0; i < n; i += 1u + p[i]) { /* the test sends whole messages */
                struct trace_event e = trace_event_of(t, &f->pub, TRACE_PDU, sender);
                struct trace_pdu pdu = { .len = p[i] };

                e.pdu = &pdu;
                trace_emit(t, &e);
        }
}

static void flow_gap(struct tracer *t, struct trace_flow *f, enum party sender, uint32_t n)
{
        trace_gap(t, &f->pub, sender, (struct trace_gap) { .bytes = n });
}

static void flow_close(struct tracer *t, struct trace_flow *f)
{
        trace_emit_kind(t, &f->pub, TRACE_CLOSED, PARTY_HOST);
        free(f);
}

static const struct trace_stream stream = { begins,    plausible, flow_open,
                                            flow_data, flow_gap,  flow_close };

struct tracker {
        trace_verdict_fn *verdict;
        void *user;
        unsigned asked; /* length of what was said last */
        bool greeted;
};

static void *tracker_open(const struct rule_set *waived, trace_verdict_fn *verdict, void *user)
{
        struct tracker *t = calloc(1, sizeof(*t));

        (void)waived;
        t->verdict = verdict;
        t->user = user;
        return t;
}

static void tracker_event(void *tracker, const struct trace_event *e)
{
        struct tracker *t = tracker;
        struct rule_set broken = { 0 };
        struct trace_verdict v = { .e = e, .broken = &broken, .record = e };

        if (e->kind == TRACE_PDU && e->sender == PARTY_CONTROLLER && e->pdu->len != t->asked)
                rule_add(&broken, ECHO_LENGTH);
        if (e->kind == TRACE_PDU && e->sender == PARTY_CONTROLLER && !t->greeted)
                rule_add(&broken, ECHO_GREETS);
        if (e->kind == TRACE_PDU && e->sender == PARTY_HOST) {
                t->greeted = true;
                t->asked = e->pdu->len;
        }
        t->verdict(t->user, &v);
}

static bool tracker_close(void *tracker)
{
        free(tracker);
        return true;
}

static void words(struct text *t, const void *record)
{
        text_add(t, "message of %u", ((const struct trace_event *)record)->pdu->len);
}

static void place(struct text *t, const struct trace_conn *c)
{
        (void)t, (void)c;
}

static void place_json(struct json_object *o, const struct trace_conn *c)
{
        (void)o, (void)c;
}

static bool is_request(const uint8_t *data)
{
        (void)data;
        return false;
}

static const struct trace_family echo = {
        .family = &family,
        .ports = { 7 },
        .stream = &stream,
        .is_request = is_request,
        .open = tracker_open,
        .event = tracker_event,
        .close = tracker_close,
        .words = words,
        .place = place,
        .place_json = place_json,
};

/* --- through the engine ------------------------------------------------------------------------- */

static char path[] = "/tmp/test-family-XXXXXX.pcap";

static void say(struct capture_writer *w, struct capture_flow *f, enum party sender,
                const char *letters, int64_t ms)
{
        uint8_t message[64] = { (uint8_t)strlen(letters) };

        memcpy(message + 1, letters, message[0]);
        capture_flow_data(w, f, sender, message, 1u + message[0], ms * 1000000);
}

/* A connection to port 7 and one to port 9, which is none of the family's. */
static void write_capture(void)
{
        struct sockaddr_in host = { .sin_family = AF_INET, .sin_port = htons(50000) };
        struct sockaddr_in controller = { .sin_family = AF_INET, .sin_port = htons(7) };
        struct capture_flow f = { 0 }, other = { 0 };
        char err[200];
        struct capture_writer *w = capture_writer_open(path, err, sizeof(err));

        assert_non_null(w);
        host.sin_addr.s_addr = htonl(0x0a000001);
        controller.sin_addr.s_addr = htonl(0x0a000002);
        capture_flow_open(w, &f, (void *)&host, (void *)&controller, 0);
        say(w, &f, PARTY_HOST, "hi", 1);
        say(w, &f, PARTY_CONTROLLER, "hi", 2);
        say(w, &f, PARTY_HOST, "good day", 3);
        say(w, &f, PARTY_CONTROLLER, "day", 4);
        capture_flow_close(w, &f, PARTY_HOST, false, 5000000);
        controller.sin_port = htons(9);
        capture_flow_open(w, &other, (void *)&host, (void *)&controller, 6000000);
        say(w, &other, PARTY_HOST, "something else", 7);
        assert_int_equal(capture_writer_close(w), 0);
}

static void a_family_of_a_few_lines_is_judged(void **state)
{
        struct check_options options = { .all = true };
        struct check_counts counts;
        struct trace_totals totals;
        char err[200], *out = NULL;
        size_t size;
        FILE *f = open_memstream(&out, &size);

        (void)state;
        write_capture();
        assert_int_equal(
            capture_check(path, &echo, NULL, &options, f, &counts, &totals, err, sizeof(err)), 0);
        fclose(f);
        assert_int_equal(totals.conns, 1);
        assert_int_equal(totals.other, 1);
        assert_int_equal(counts.musts, 0);
        assert_int_equal(counts.shoulds, 1);
        assert_non_null(
            strstr(out, "controller should echo/length: An answer is as long as what it answers. "
                        "(Echo 2)\n  < message of 3\n"));
        assert_non_null(strstr(out, "connection 1 (tcp 10.0.0.1:50000 > 10.0.0.2:7)"));
        free(out);
        unlink(path);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(a_family_of_a_few_lines_is_judged) };
        int fd = mkstemps(path, 5);

        if (fd < 0)
                return 1;
        close(fd);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
