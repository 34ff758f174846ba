/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A protocol of a few lines goes through the tools of captures without a header of NVMe: a host asks with a
 * small letter, and the answer is the capital one, or, if it is refused, the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "../../tests/run.h"
#include "pcap/tools/extract.h"
#include "pcap/trace/words.h"
#include "pdu/io/capture/capture_writer.h"

/* --- the family ------------------------------------------------------------------------------- */

static const struct rule rows[] = { { 0 }, { .id = "beat/none", .says = "There is no rule." } };
static const struct rulebook rules = { .name = "beat", .rows = rows, .count = 2 };
static const struct family family = { .name = "Beat", .rules = &rules };

struct trace_pdu {
        uint8_t letter;
};

struct trace_flow {
        struct trace_conn pub; /* first */
        struct trace_command asked[128];
};

struct beat {
        const struct trace_event *e;
        const struct trace_command *command;
};

static enum trace_guess begins(const uint8_t *p, size_t n)
{
        return n > 0 && p[0] >= 'a' && p[0] <= 'z' ? TRACE_YES : TRACE_NO;
}

static struct trace_flow *flow_open(struct tracer *t, const struct capture_conn *c, bool begun)
{
        struct trace_flow *f = calloc(1, sizeof(*f));

        assert_true(begun);
        f->pub = (struct trace_conn) { .end = { c->end[0], c->end[1] },
                                       .whole_until = { UINT64_MAX, UINT64_MAX } };
        trace_open(t, &f->pub);
        return f;
}

static void flow_data(struct tracer *t, struct trace_flow *f, enum party sender, const uint8_t *p,
                      size_t n)
{
        for (; n > 0; n--, p++) {
                struct trace_event e = trace_event_of(t, &f->pub, TRACE_PDU, sender);

                e.pdu = &(struct trace_pdu) { *p & 127 };
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

static void *open_tracker(const struct trace_reading *how)
{
        struct trace_reading *t = malloc(sizeof(*t));

        *t = *how;
        return t;
}

static void take_event(void *tracker, const struct trace_event *e)
{
        struct trace_flow *f = (struct trace_flow *)e->conn;
        const struct trace_reading *t = tracker;
        struct beat b = { .e = e };
        struct trace_record r = { .e = e, .record = &b };

        if (e->kind == TRACE_PDU) {
                struct trace_command *c = &f->asked[e->pdu->letter | 0x20];

                if (e->sender == PARTY_HOST)
                        *c = (struct trace_command) { .name = "Ask",
                                                      .queue = "questions",
                                                      .io = true,
                                                      .code = 7,
                                                      .id = e->pdu->letter,
                                                      .at = e->at };
                b.command = c->name ? c : NULL;
        }
        t->record(t->user, &r);
}

static bool close_tracker(void *tracker)
{
        free(tracker);
        return true;
}

static void words(struct text *t, const void *record)
{
        const struct beat *b = record;

        if (!words_event(t, b->e, NULL))
                text_add(t, "says %c", b->e->pdu->letter);
}

static void view(struct trace_view *v, const void *record)
{
        const struct beat *b = record;
        bool host = b->e->sender == PARTY_HOST;

        if (b->e->kind != TRACE_PDU)
                return;
        v->message = host ? "question" : "answer";
        v->rank = !host;
        v->known = b->command;
        if (b->command)
                v->command = *b->command;
        v->begins = host;
        v->answers = !host;
        v->ends = !host && b->command;
        v->status = !host && b->e->pdu->letter >= 'a';
        v->error = v->status;
}

static void status(struct text *t, unsigned code)
{
        text_add(t, code ? "refused" : "good");
}

static bool has_command(const char *name)
{
        return strcmp(name, "ask") == 0;
}

static bool seed(struct extract_seed *s, const void *record, struct bytes *room)
{
        const struct beat *b = record;

        (void)room;
        if (b->e->kind != TRACE_PDU)
                return false;
        snprintf(s->kind, sizeof(s->kind), "letter");
        s->p = &b->e->pdu->letter;
        s->n = 1;
        return true;
}

static const struct trace_stream stream = {
        .begins = begins, .open = flow_open, .data = flow_data, .gap = flow_gap, .close = flow_close
};
static const struct trace_extract seeds = { .seed = seed };
static const struct trace_family beat = { .family = &family,
                                          .name = "Beat",
                                          .ports = { 7 },
                                          .stream = &stream,
                                          .open = open_tracker,
                                          .event = take_event,
                                          .close = close_tracker,
                                          .words = words,
                                          .view = view,
                                          .status = status,
                                          .has_command = has_command,
                                          .extract = &seeds };
static const struct trace_family *const families[] = { &beat, NULL };

/* --- through the tools -------------------------------------------------------------------------- */

static char path[] = "/tmp/test-tools-XXXXXX.pcap", out[1 << 16];

#define RUN(...)                                                                                   \
        run_pcap(families, (char *[]) { "pcap", __VA_ARGS__ },                                     \
                 (int)(sizeof((char *[]) { "pcap", __VA_ARGS__ }) / sizeof(char *)), out,          \
                 sizeof(out))

/* a and b are asked, 1 ms apart, and answered 2 ms later, b with a refusal. */
static void write_capture(void)
{
        struct sockaddr_in host = { .sin_family = AF_INET, .sin_port = htons(50000) };
        struct sockaddr_in controller = { .sin_family = AF_INET, .sin_port = htons(7) };
        struct capture_flow f = { 0 };
        char err[200];
        struct capture_writer *w = capture_writer_open(path, err, sizeof(err));

        assert_non_null(w);
        host.sin_addr.s_addr = htonl(0x0a000001);
        controller.sin_addr.s_addr = htonl(0x0a000002);
        capture_flow_open(w, &f, (void *)&host, (void *)&controller, 0);
        capture_flow_data(w, &f, PARTY_HOST, "a", 1, 1000000);
        capture_flow_data(w, &f, PARTY_HOST, "b", 1, 2000000);
        capture_flow_data(w, &f, PARTY_CONTROLLER, "A", 1, 3000000);
        capture_flow_data(w, &f, PARTY_CONTROLLER, "b", 1, 4000000);
        capture_flow_close(w, &f, PARTY_HOST, false, 5000000);
        assert_int_equal(capture_writer_close(w), 0);
}

static unsigned lines(void)
{
        unsigned n = 0;

        for (const char *p = out; *p; p++)
                n += *p == '\n';
        return n;
}

static void it_is_shown(void **state)
{
        (void)state;
        write_capture();
        assert_int_equal(RUN("show", path), PCAP_OK);
        assert_int_equal(lines(), 6);
        assert_true(strstr(out, "> says a\n") && strstr(out, "< says A\n"));
        assert_int_equal(RUN("show", path, "--opcode", "ask"), PCAP_OK);
        assert_int_equal(lines(), 4);
        assert_int_equal(RUN("show", path, "--opcode", "8"), PCAP_OK);
        assert_int_equal(lines(), 0);
        assert_int_equal(RUN("show", path, "--cid", "97"), PCAP_OK);
        assert_int_equal(lines(), 2);
        assert_int_equal(RUN("show", path, "--status", "error"), PCAP_OK);
        assert_true(lines() == 1 && strstr(out, "< says b\n"));
        assert_int_equal(RUN("show", path, "--opcode", "tell"), PCAP_USAGE);
        assert_int_equal(RUN("show", path, "--qid", "0"), PCAP_USAGE);
        assert_int_equal(RUN("show", path, "--count"), PCAP_OK);
        assert_non_null(strstr(out, "  question                     2\n"
                                    "  answer                       2\n"
                                    "2 commands\n"
                                    "  Ask                          2\n"
                                    "2 responses\n"
                                    "  good                         1\n"
                                    "  refused                      1\n"));
}

static void it_is_checked(void **state)
{
        (void)state;
        write_capture();
        assert_int_equal(RUN("check", path), PCAP_OK);
        assert_non_null(strstr(out, "1 connections, 0 gaps: 0 must"));
        assert_int_equal(RUN("check", path, "--waive", "beat/none"), PCAP_OK);
        assert_int_equal(RUN("check", path, "--waive", "beat/other"), PCAP_USAGE);
        assert_int_equal(RUN("check", path, "--keylog", path), PCAP_USAGE);
}

static void it_is_measured(void **state)
{
        (void)state;
        write_capture();
        assert_int_equal(RUN("stat", path, "-o", "json"), PCAP_OK);
        assert_non_null(strstr(out, "\"commands\":2,\"completed\":2,\"errors\":1,\"unanswered\":0,"
                                    "\"depth_max\":2,"));
        assert_non_null(strstr(out, "\"protocol\":\"Beat\",\"command\":\"Ask\",\"io\":true,"
                                    "\"count\":2,\"errors\":1,\"h2c_bytes\":0,\"c2h_bytes\":0,"
                                    "\"whole_ns\":{\"count\":2,\"min\":2000000,"));
        assert_int_equal(RUN("stat", path), PCAP_OK);
        assert_true(strstr(out, "\nquestions: latency in us") && strstr(out, "\nrefused "));
}

static void what_it_has_not_is_said(void **state)
{
        char folder[] = "/tmp/test-tools-XXXXXX", to[64];

        (void)state;
        write_capture();
        assert_non_null(mkdtemp(folder));
        assert_int_equal(RUN("extract", path, "--kind", "seeds", "--to", folder), PCAP_OK);
        for (int i = 1; i <= 5; i++) {
                snprintf(to, sizeof(to), "%s/letter-%02d", folder, i);
                assert_int_equal(unlink(to), i <= 4 ? 0 : -1);
        }
        assert_int_equal(RUN("anonymize", path, "--to", to), PCAP_UNREADABLE);
        assert_int_equal(unlink(to), -1);
        assert_int_equal(rmdir(folder), 0);
        assert_int_equal(RUN("replay", path), PCAP_USAGE);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(it_is_shown),
                cmocka_unit_test(it_is_checked),
                cmocka_unit_test(it_is_measured),
                cmocka_unit_test(what_it_has_not_is_said),
        };
        int fd = mkstemps(path, 5), failed;

        if (fd < 0)
                return 1;
        close(fd);
        failed = cmocka_run_group_tests(tests, NULL, NULL);
        unlink(path);
        return failed;
}
