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
#include "pdu/io/capture/capture_rdma.h"

/* --- the family ------------------------------------------------------------------------------- */

enum { ECHO_GREETS = 1, ECHO_LENGTH, ECHO_LETTERS };
static const struct rule rows[] = {
        [ECHO_GREETS] = { .id = "echo/greets",
                          .bound = PARTY_HOST,
                          .level = LEVEL_MUST,
                          .basis = BASIS_PRINTED,
                          .source = "Echo 1",
                          .says = "A host says hi first." },
        [ECHO_LENGTH] = { .id = "echo/length",
                          .bound = PARTY_CONTROLLER,
                          .level = LEVEL_SHOULD,
                          .basis = BASIS_PRINTED,
                          .source = "Echo 2",
                          .says = "An answer is as long as what it answers." },
        [ECHO_LETTERS] = { .id = "echo/letters",
                           .bound = PARTY_HOST,
                           .level = LEVEL_MUST,
                           .basis = BASIS_OWN,
                           .source = "Echo 3",
                           .says = "A host says letters." },
};
static const struct rulebook rules = { .name = "echo", .rows = rows, .count = 4 };

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

/* Queue pairs between the same two, whose packets count from 5: "!", their numbers. */
static void learn(struct tracer *t, const struct trace_flow *f, const uint8_t *p)
{
        struct trace_pair pair = { .end = { f->pub.end[0], f->pub.end[1] },
                                   .qpn = { p[1], p[2] },
                                   .psn = { 5, 5 } };

        assert_non_null(trace_learn(t, &f->pub, &pair));
}

static void flow_data(struct tracer *t, struct trace_flow *f, enum party sender, const uint8_t *p,
                      size_t n)
{
        for (size_t i = 0; i < n; i += 1u + p[i]) { /* the test sends whole messages */
                if (p[i] == 3 && p[i + 1] == '!')
                        learn(t, f, p + i + 1);
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

static const struct trace_stream stream = {
        .begins = begins,
        .plausible = plausible,
        .open = flow_open,
        .data = flow_data,
        .gap = flow_gap,
        .close = flow_close,
};

struct tracker {
        struct trace_reading how;
        unsigned asked; /* length of what was said last */
        bool greeted;
};

static void *tracker_open(const struct trace_reading *how)
{
        struct tracker *t = calloc(1, sizeof(*t));

        t->how = *how;
        return t;
}

static void tracker_event(void *tracker, const struct trace_event *e)
{
        struct tracker *t = tracker;
        struct rule_set broken = { 0 };
        struct trace_record v = { .e = e, .broken = &broken, .record = e };

        if (e->kind == TRACE_PDU && e->sender == PARTY_CONTROLLER && e->pdu->len != t->asked)
                rule_add(&broken, ECHO_LENGTH);
        if (e->kind == TRACE_PDU && e->sender == PARTY_CONTROLLER && !t->greeted)
                rule_add(&broken, ECHO_GREETS);
        if (e->kind == TRACE_PDU && e->sender == PARTY_HOST) {
                if (e->pdu->len > 2) /* "good day" has a space */
                        rule_add(&broken, ECHO_LETTERS);
                t->greeted = true;
                t->asked = e->pdu->len;
        }
        t->how.record(t->how.user, &v);
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

static const struct trace_family echo = {
        .family = &family,
        .ports = { 7 },
        .stream = &stream,
        .open = tracker_open,
        .event = tracker_event,
        .close = tracker_close,
        .words = words,
        .place = place,
        .place_json = place_json,
};

static const struct trace_family *const alone[] = { &echo, NULL };

/* --- another one, over RDMA, beside it -------------------------------------------------------- */

enum { KNOCK_TWICE = 1 };
static const struct rule knock_rows[] = {
        [KNOCK_TWICE] = { .id = "knock/twice",
                          .bound = PARTY_HOST,
                          .level = LEVEL_MUST,
                          .basis = BASIS_PRINTED,
                          .source = "Knock 1",
                          .says = "A caller knocks twice." },
};
static const struct rulebook knock_rules = { .name = "knock", .rows = knock_rows, .count = 2 };
static const struct family knock_family = { .name = "Knock",
                                            .rules = &knock_rules,
                                            .parties = { "caller", "door" } };

static bool claims(const uint8_t *data, uint32_t len)
{
        return len > 5 && memcmp(data, "knock", 5) == 0;
}

static const struct rule_set *knock_waived;

static void *knock_open(const struct trace_reading *how)
{
        knock_waived = how->waived;
        return tracker_open(how);
}

static void knock_event(void *tracker, const struct trace_event *e)
{
        struct tracker *t = tracker;
        struct rule_set broken = { 0 };
        struct trace_record v = { .e = e, .broken = &broken, .record = e };

        if (e->kind == TRACE_REQUEST && e->cm.data[5] != '!' && !rule_in(knock_waived, KNOCK_TWICE))
                rule_add(&broken, KNOCK_TWICE);
        t->how.record(t->how.user, &v);
}

static void knock_words(struct text *t, const void *record)
{
        text_add(t, "knock of %u", ((const struct trace_event *)record)->cm.len);
}

static const struct trace_family knock = {
        .family = &knock_family,
        .claims = claims,
        .open = knock_open,
        .event = knock_event,
        .close = tracker_close,
        .words = knock_words,
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
            capture_check(path, alone, NULL, &options, f, &counts, &totals, err, sizeof(err)), 0);
        fclose(f);
        assert_int_equal(totals.conns, 1);
        assert_int_equal(totals.other, 1);
        assert_int_equal(counts.of[GRADE_MUST], 0);
        assert_int_equal(counts.of[GRADE_SHOULD], 1);
        assert_int_equal(counts.of[GRADE_ADVICE], 1);
        assert_non_null(
            strstr(out, "controller should echo/length: An answer is as long as what it answers. "
                        "(Echo 2)\n  < message of 3\n"));
        assert_non_null(strstr(out, "host advice echo/letters: "));
        assert_non_null(strstr(out, "0 must and 1 should broken, 1 advised\n"));
        assert_non_null(strstr(out, "connection 1 (tcp 10.0.0.1:50000 > 10.0.0.2:7)"));
        free(out);
        unlink(path);
}

static void write_request(struct capture_writer *w, const char *said, int64_t ms)
{
        struct capture_rdma f = { 0 };
        struct capture_cm m = { .kind = CAPTURE_REQUEST,
                                .data = said,
                                .len = (uint32_t)strlen(said) };

        capture_rdma_open(w, &f, NULL, NULL, ms * 1000000);
        capture_rdma_cm(w, &f, PARTY_HOST, &m, ms * 1000000);
}

/* By its requests, one of which somebody else's; each family's rules are its own. */
static void another_family_is_read_beside_it(void **state)
{
        static const struct trace_family *const families[] = { &echo, &knock, NULL };
        struct rule_set waived[2] = { 0 };
        struct check_options options = { .all = true };
        struct capture_writer *w;
        struct check_counts counts;
        struct trace_totals totals;
        char err[200], *out = NULL;
        size_t size;

        (void)state;
        rule_add(&waived[1], KNOCK_TWICE);
        for (int round = 0; round < 2; round++) {
                FILE *f = open_memstream(&out, &size);

                w = capture_writer_open(path, err, sizeof(err));
                assert_non_null(w);
                write_request(w, "knock knock", 1);
                write_request(w, "knock!", 2);
                write_request(w, "ring", 3);
                assert_int_equal(capture_writer_close(w), 0);
                options.waived = round ? waived : NULL;
                assert_int_equal(capture_check(path, families, NULL, &options, f, &counts, &totals,
                                               err, sizeof(err)),
                                 0);
                fclose(f);
                assert_int_equal(totals.conns, 2);
                assert_int_equal(counts.of[GRADE_MUST], round == 0);
                assert_int_equal(round == 0,
                                 strstr(out, "caller must knock/twice: A caller knocks "
                                             "twice. (Knock 1)\n  > knock of 56\n") != NULL);
                free(out);
        }
        unlink(path);
}

/* --- queue pairs that a message describes ------------------------------------------------------- */

static void write_described(bool described)
{
        struct sockaddr_in host = { .sin_family = AF_INET, .sin_port = htons(50000) };
        struct sockaddr_in controller = { .sin_family = AF_INET, .sin_port = htons(7) };
        struct iovec said = { (void *)(uintptr_t) "through the pair", 16 };
        struct capture_flow f = { 0 };
        struct capture_rdma pair = { 0 };
        char err[200];
        struct capture_writer *w = capture_writer_open(path, err, sizeof(err));

        assert_non_null(w);
        host.sin_addr.s_addr = htonl(0x0a000001);
        controller.sin_addr.s_addr = htonl(0x0a000002);
        capture_flow_open(w, &f, (void *)&host, (void *)&controller, 0);
        say(w, &f, PARTY_HOST, "hi", 1);
        say(w, &f, PARTY_CONTROLLER, described ? "!AB" : "???", 2);
        capture_rdma_open(w, &pair, (void *)&host, (void *)&controller, 3000000);
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++) {
                pair.qpn[p] = p == PARTY_HOST ? 'A' : 'B';
                pair.next[p] = 5;
        }
        capture_rdma_send(w, &pair, PARTY_HOST, &said, 1, NULL, 3000000);
        capture_rdma_gap(&pair, PARTY_CONTROLLER, 1);
        capture_rdma_send(w, &pair, PARTY_CONTROLLER, &said, 1, NULL, 4000000);
        capture_flow_close(w, &f, PARTY_HOST, false, 5000000);
        assert_int_equal(capture_writer_close(w), 0);
}

struct described {
        unsigned opened, capsules[2], gaps, closed;
};

static void on_described(void *user, const struct trace_event *e)
{
        struct described *d = user;

        if (e->conn->transport != TRACE_ROCE)
                return;
        assert_ptr_equal(e->conn->family, &echo);
        assert_int_equal(e->conn->described_by, 1);
        assert_int_equal(e->conn->number, 2);
        d->opened += e->kind == TRACE_OPENED;
        d->closed += e->kind == TRACE_CLOSED;
        d->gaps += e->kind == TRACE_GAP && e->gap.packets == 1 && e->sender == PARTY_CONTROLLER;
        if (e->kind != TRACE_CAPSULE)
                return;
        assert_memory_equal(e->capsule.data, "through the pair", 16);
        d->capsules[e->sender]++;
}

/* What a message over TCP has said of two queue pairs is enough to read them; without it nobody knows whose they are. */
static void a_message_describes_queue_pairs(void **state)
{
        char err[200];

        (void)state;
        for (int described = 0; described < 2; described++) {
                struct described d = { 0 };
                struct trace_totals totals;

                write_described(described);
                assert_int_equal(
                    trace_read(path, &echo, NULL, on_described, &d, &totals, err, sizeof(err)), 0);
                assert_int_equal(totals.conns, 1 + described);
                assert_int_equal(totals.strange > 0, !described);
                assert_int_equal(d.opened, described);
                assert_int_equal(d.closed, described);
                assert_int_equal(d.capsules[PARTY_HOST], described);
                assert_int_equal(d.capsules[PARTY_CONTROLLER], described);
                assert_int_equal(d.gaps, described);
        }
        unlink(path);
}

/* --- a family whose controllers ask for connections --------------------------------------------- */

static bool bell_claims(const uint8_t *data, uint32_t len)
{
        return len >= 4 && memcmp(data, "bell", 4) == 0;
}

static const struct trace_family bell = { .family = &family,
                                          .claims = bell_claims,
                                          .active = PARTY_CONTROLLER };

enum { ACTIVE_PORT = 40000, PASSIVE_PORT = 5000, READ_LEN = 16 };

struct bell_way {
        bool iwarp;
        bool accepted;     /* RoCE: the acceptance was caught */
        bool no_handshake; /* iWARP: that of TCP was not */
};

/* Returns the frame of the last that the active side said. */
static uint64_t write_bell(const struct bell_way *way)
{
        struct sockaddr_in active = { .sin_family = AF_INET, .sin_port = htons(ACTIVE_PORT) };
        struct sockaddr_in passive = { .sin_family = AF_INET, .sin_port = htons(PASSIVE_PORT) };
        struct capture_cm request = { .kind = CAPTURE_REQUEST, .data = "bell", .len = 4 };
        struct iovec said = { (void *)(uintptr_t) "ding", 4 };
        struct iovec data = { (void *)(uintptr_t) "bytes of a READ.", READ_LEN };
        struct capture_rdma f = { .iwarp = way->iwarp, .tcp.midstream = way->no_handshake };
        char err[200];
        struct capture_writer *w = capture_writer_open(path, err, sizeof(err));
        uint32_t read;
        uint64_t frame;
        unsigned file;

        assert_non_null(w);
        active.sin_addr.s_addr = htonl(0x0a000002);
        passive.sin_addr.s_addr = htonl(0x0a000001);
        capture_rdma_open(w, &f, (void *)&active, (void *)&passive, 1000);
        f.qpn[PARTY_HOST] = 'A'; /* of the active side */
        f.qpn[PARTY_CONTROLLER] = 'P';
        f.next[PARTY_HOST] = 100;
        f.next[PARTY_CONTROLLER] = 200;
        capture_rdma_cm(w, &f, PARTY_HOST, &request, 2000);
        if (way->accepted)
                capture_rdma_cm(w, &f, PARTY_CONTROLLER,
                                &(struct capture_cm) { .kind = CAPTURE_ACCEPT }, 3000);
        capture_rdma_send(w, &f, PARTY_HOST, &said, 1, NULL, 4000);
        read = capture_rdma_read(w, &f, PARTY_HOST, 0x1000, 7, READ_LEN, 5000);
        capture_rdma_answer(w, &f, PARTY_CONTROLLER, read, &data, 1, 6000);
        said.iov_base = (void *)(uintptr_t) "dong";
        capture_rdma_send(w, &f, PARTY_CONTROLLER, &said, 1, NULL, 7000);
        capture_rdma_gap(&f, PARTY_HOST, way->iwarp ? 40 : 1);
        capture_rdma_send(w, &f, PARTY_HOST, &said, 1, NULL, 8000);
        frame = capture_writer_frames(w, &file);
        capture_rdma_ack(w, &f, PARTY_CONTROLLER, f.next[PARTY_HOST] - 1, CAPTURE_ACK, 9000);
        capture_rdma_close(w, &f, 10000);
        assert_int_equal(capture_writer_close(w), 0);
        return frame;
}

struct rung {
        const struct bell_way *way;
        unsigned seen[2][TRACE_WRITE + 1];
        uint64_t whole_until[2];
};

static void on_bell(void *user, const struct trace_event *e)
{
        struct rung *r = user;
        const struct trace_conn *c = e->conn;

        assert_ptr_equal(c->family, &bell);
        assert_int_equal(c->active, PARTY_CONTROLLER);
        assert_int_equal(c->end[PARTY_CONTROLLER].port, ACTIVE_PORT);
        assert_int_equal(c->end[PARTY_CONTROLLER].addr[3], 2);
        assert_int_equal(c->end[PARTY_HOST].port, PASSIVE_PORT);
        assert_int_equal(c->end[PARTY_HOST].addr[3], 1);
        if (!r->way->iwarp)
                assert_int_equal(c->qpn[PARTY_CONTROLLER], 'A');
        if (!r->way->iwarp && e->kind > TRACE_ACCEPT)
                assert_int_equal(c->qpn[PARTY_HOST], 'P');
        if (e->kind == TRACE_CAPSULE && r->seen[e->sender][TRACE_CAPSULE] == 0)
                assert_memory_equal(e->capsule.data,
                                    e->sender == PARTY_CONTROLLER ? "ding" : "dong", 4);
        r->seen[e->sender][e->kind]++;
        r->whole_until[e->sender] = c->whole_until[e->sender];
}

/* Its parties are told apart by who they are in the family, not by who has asked. */
static void a_controller_may_ask(void **state)
{
        static const struct trace_family *const beside[] = { &bell, NULL };
        static const struct bell_way ways[] = {
                { .accepted = true },
                { .accepted = false },
                { .iwarp = true, .accepted = true },
                { .iwarp = true, .accepted = true, .no_handshake = true }
        };
        const struct trace_options options = { .beside = beside };
        char err[200];

        (void)state;
        for (unsigned i = 0; i < 4; i++) {
                struct rung r = { .way = &ways[i] };
                const unsigned *door = r.seen[PARTY_CONTROLLER], *caller = r.seen[PARTY_HOST];
                uint64_t last = write_bell(&ways[i]);
                struct trace_totals totals;

                assert_int_equal(
                    trace_read(path, &echo, &options, on_bell, &r, &totals, err, sizeof(err)), 0);
                assert_int_equal(totals.conns, 1);
                assert_int_equal(totals.strange, 0);
                assert_int_equal(door[TRACE_REQUEST], 1);
                assert_int_equal(caller[TRACE_REQUEST], 0);
                assert_int_equal(caller[TRACE_ACCEPT], ways[i].accepted);
                assert_int_equal(caller[TRACE_GAP], !ways[i].accepted);
                assert_int_equal(door[TRACE_ACCEPT], 0);
                assert_int_equal(door[TRACE_CAPSULE], 2);
                assert_int_equal(caller[TRACE_CAPSULE], 1);
                assert_int_equal(door[TRACE_READ], 1);
                assert_int_equal(caller[TRACE_READ_DATA], 1);
                assert_int_equal(door[TRACE_GAP], 1);
                if (!ways[i].iwarp)
                        assert_int_equal(r.whole_until[PARTY_CONTROLLER], last);
        }
        unlink(path);
}

/* --- inside TLS --------------------------------------------------------------------------------- */

/* What begins with 22 is of the handshake; else the highest bit of each byte is changed, and '!' cannot be read. */
static struct {
        unsigned open, unread;
        uint64_t frame;
        char why[60];
} tls;

static void *tls_open(const void *keys)
{
        assert_string_equal(keys, "keys");
        tls.open++;
        return &tls;
}

static const char *
tls_read(void *conn, enum party sender, const uint8_t *p, size_t n,
         void (*plain)(void *user, enum party sender, const uint8_t *p, size_t n), void *user)
{
        uint8_t inside[64];
        size_t len = 0;

        assert_ptr_equal(conn, &tls);
        for (size_t i = 0; i < n && p[0] != 22; i++) {
                if (p[i] == '!')
                        return "it is damaged";
                inside[len++] = p[i] ^ 0x80;
        }
        if (len > 0)
                plain(user, sender, inside, len);
        return NULL;
}

static void tls_close(void *conn)
{
        assert_ptr_equal(conn, &tls);
        tls.open--;
}

static void on_unread(void *user, const struct capture_conn *c, const struct capture_place *at,
                      const char *why)
{
        assert_ptr_equal(user, &tls);
        assert_int_equal(c->end[PARTY_CONTROLLER].port, 7);
        tls.unread++;
        tls.frame = at->frame;
        snprintf(tls.why, sizeof(tls.why), "%s", why);
}

/* What the two sides say by turns, a string a segment. */
static void write_sealed(const char *const *said, unsigned n)
{
        struct sockaddr_in host = { .sin_family = AF_INET, .sin_port = htons(50000) };
        struct sockaddr_in controller = { .sin_family = AF_INET, .sin_port = htons(7) };
        struct capture_flow f = { 0 };
        char err[200];
        struct capture_writer *w = capture_writer_open(path, err, sizeof(err));

        assert_non_null(w);
        capture_flow_open(w, &f, (void *)&host, (void *)&controller, 0);
        for (unsigned i = 0; i < n; i++)
                capture_flow_data(w, &f, i % 2 ? PARTY_CONTROLLER : PARTY_HOST, said[i],
                                  strlen(said[i]), (i + 1) * 1000000);
        capture_flow_close(w, &f, PARTY_HOST, false, 99000000);
        assert_int_equal(capture_writer_close(w), 0);
}

static char *check_sealed(const char *const *said, unsigned n, bool keys,
                          struct trace_totals *totals)
{
        const struct trace_tls ops = { "keys", tls_open, tls_read, tls_close, on_unread, &tls };
        const struct trace_options trace = { .tls = keys ? &ops : NULL };
        const struct check_options options = { .all = true };
        struct check_counts counts;
        char err[200], *out = NULL;
        size_t size;
        FILE *f = open_memstream(&out, &size);

        memset(&tls, 0, sizeof(tls));
        write_sealed(said, n);
        assert_int_equal(
            capture_check(path, alone, &trace, &options, f, &counts, totals, err, sizeof(err)), 0);
        fclose(f);
        assert_int_equal(tls.open, 0);
        assert_int_equal(totals->tls, 1);
        unlink(path);
        return out;
}

#define HELLO "\26\3\1hello"

static void what_is_inside_tls_is_judged(void **state)
{
        static const char *const said[] = { HELLO,
                                            "\26\3\3hello",
                                            "\202\350\351",
                                            "\202\350\351",
                                            "\204\347\357\357\344",
                                            "\203\344\341\371",
                                            "!",
                                            "\201\341" };
        struct trace_totals totals;
        char *out = check_sealed(said, 8, true, &totals);

        (void)state;
        assert_int_equal(totals.tls_read, 1);
        assert_int_equal(totals.conns, 1);
        assert_int_equal(totals.gaps, 2); /* of both sides, from the damage on */
        assert_non_null(strstr(out, "controller should echo/length: "));
        assert_non_null(strstr(out, "0 must and 1 should broken, 1 advised\n"));
        assert_int_equal(tls.unread, 1);
        assert_string_equal(tls.why, "it is damaged");
        free(out);
        out = check_sealed(said, 8, false, &totals);
        assert_int_equal(totals.tls_read, 0);
        assert_int_equal(totals.conns, 0);
        assert_non_null(strstr(out, "0 must and 0 should broken\n"));
        free(out);
}

static void a_handshake_alone_is_told(void **state)
{
        static const char *const said[] = { HELLO, "\26\3\3hello" };
        struct trace_totals totals;

        (void)state;
        free(check_sealed(said, 2, true, &totals));
        assert_int_equal(totals.tls_read, 0);
        assert_int_equal(totals.conns, 0);
        assert_int_equal(tls.unread, 1);
        assert_string_equal(tls.why, "it ends in its handshake");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_family_of_a_few_lines_is_judged),
                cmocka_unit_test(another_family_is_read_beside_it),
                cmocka_unit_test(a_message_describes_queue_pairs),
                cmocka_unit_test(a_controller_may_ask),
                cmocka_unit_test(what_is_inside_tls_is_judged),
                cmocka_unit_test(a_handshake_alone_is_told),
        };
        int fd = mkstemps(path, 5);

        if (fd < 0)
                return 1;
        close(fd);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
