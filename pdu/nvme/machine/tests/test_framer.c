/* SPDX-License-Identifier: BSD-3-Clause */
#include "splits.h"
#include "stream.h"

#include "pdu/core/asan.h"
#include "pdu/nvme/tcp/framer.h"

static uint8_t pattern[1 << 17];

/* --- a framer that writes down what it says --------------------------------------------------- */

struct setup {
        enum party sender;
        struct pdu_format format;
        const struct rule_set *waived;
        bool no_sink;
        uint32_t cap; /* 0: FRAMER_BUFFER_MIN */
};

struct subject {
        struct framer f;
        uint8_t *buf, *sink;
        const struct setup *setup;
};

static void *make(void *arg)
{
        const struct setup *setup = arg;
        uint32_t cap = setup->cap ? setup->cap : FRAMER_BUFFER_MIN;
        struct subject *s = calloc(1, sizeof(*s));

        assert_non_null(s);
        s->setup = setup;
        s->buf = malloc(cap);
        framer_init(&s->f, setup->sender, setup->waived);
        framer_negotiated(&s->f, &setup->format);
        framer_attach(&s->f, s->buf, cap);
        return s;
}

static void drop(void *machine)
{
        struct subject *s = machine;

        free(s->sink);
        free(s->buf);
        free(s);
}

static void say(struct subject *s, enum framer_event event, struct events *e)
{
        const union pdu *h = framer_header(&s->f);
        uint32_t len = framer_data_len(&s->f);
        struct fault fault;

        switch (event) {
        case FRAMER_HEADER:
                events_add(e, "header %02x %u\n", h->ch.type, len);
                break;
        case FRAMER_PDU:
                events_add(e, "pdu %02x %u %08x%s\n", h->ch.type, len,
                           framer_data(&s->f) ? crc32c(framer_data(&s->f), len) : 0,
                           framer_ddgst_bad(&s->f) ? " bad" : "");
                break;
        case FRAMER_FAULT:
                fault = framer_fault(&s->f);
                events_add(e, "fault %s %u %u\n", rule_get(fault.rule)->id, fault.code,
                           fault.place);
                assert_in_range(framer_header_got(&s->f), 8, 128);
                break;
        case FRAMER_MORE:
                break;
        }
}

static bool take_events(struct subject *s, struct events *e)
{
        enum framer_event event;

        while ((event = framer_next(&s->f)) != FRAMER_MORE) {
                say(s, event, e);
                if (event == FRAMER_FAULT)
                        return false;
                if (event == FRAMER_HEADER && !s->setup->no_sink &&
                    framer_data_len(&s->f) <= sizeof(pattern)) {
                        free(s->sink);
                        s->sink = malloc(framer_data_len(&s->f));
                        framer_sink(&s->f, s->sink);
                }
        }
        return true;
}

static void feed(void *machine, const uint8_t *p, size_t n, struct events *e)
{
        struct subject *s = machine;

        if (framer_next(&s->f) == FRAMER_FAULT)
                return;
        while (n > 0) {
                struct iovec iov[2];
                int count = framer_recv_iov(&s->f, iov);
                size_t put = 0;

                assert_in_range(count, 1, 2);
                for (int i = 0; i < count; i++) {
                        size_t len = iov[i].iov_len < n ? iov[i].iov_len : n;

                        assert_true(iov[i].iov_len > 0);
                        memcpy(iov[i].iov_base, p, len);
                        p += len;
                        n -= len;
                        put += len;
                }
                framer_received(&s->f, put);
                if (!take_events(s, e))
                        return;
        }
}

static const char *events_of(struct setup *setup, const struct stream *s)
{
        struct splits_machine m = { make, feed, drop, setup };

        return splits_check(&m, s->bytes, s->len);
}

/* --- streams ---------------------------------------------------------------------------------- */

static struct stream s;

static void start(bool hdgst, bool ddgst, uint8_t pda)
{
        memset(&s, 0, sizeof(s));
        s.format = (struct pdu_format) { .hdgst = hdgst, .ddgst = ddgst, .pda = pda };
        for (size_t i = 0; i < sizeof(pattern); i++)
                pattern[i] = (uint8_t)(i * 31 >> 3);
}

static void add_ic(uint8_t type)
{
        union pdu h = { .ch.type = type };

        if (type == PDU_ICRESP)
                h.icresp.maxh2cdata = le32(131072);
        stream_add(&s, &h, NULL, 0);
}

static void add_cmd(uint16_t cid, uint32_t len)
{
        union pdu h = { .ch.type = PDU_CAPSULE_CMD };

        h.cmd.sqe.cid = le16(cid);
        stream_add(&s, &h, pattern, len);
}

static void add_data(uint8_t type, uint32_t offset, uint32_t len)
{
        union pdu h = { .ch = { .type = type, .flags = PDU_LAST } };

        h.data.offset = le32(offset);
        h.data.length = le32(len);
        stream_add(&s, &h, pattern, len);
}

static void add_r2t(uint32_t len)
{
        union pdu h = { .ch.type = PDU_R2T };

        h.data.length = le32(len);
        stream_add(&s, &h, NULL, 0);
}

static void add_resp(void)
{
        union pdu h = { .ch.type = PDU_CAPSULE_RESP };

        stream_add(&s, &h, NULL, 0);
}

static void add_term(uint8_t type, uint32_t len)
{
        union pdu h = { .ch.type = type };

        h.term.fes = le16(FES_SEQUENCE_ERROR);
        pdu_lay_out(&h, &s.format, len);
        stream_laid(&s, &h, pattern, len);
}

/* The events of PDUs that break nothing, in the order of the test. */
static void expect_pdus(struct setup *setup, const uint8_t *types, const uint32_t *lens, size_t n)
{
        static struct events want;

        want.len = 0;
        for (size_t i = 0; i < n; i++)
                events_add(&want, "header %02x %u\npdu %02x %u %08x\n", types[i], lens[i], types[i],
                           lens[i], lens[i] ? crc32c(pattern, lens[i]) : 0);
        assert_string_equal(events_of(setup, &s), want.text);
}

/* --- what it gets right ----------------------------------------------------------------------- */

static void every_type_of_a_host(void **state)
{
        static const uint8_t types[] = { PDU_CAPSULE_CMD, PDU_CAPSULE_CMD, PDU_H2C_DATA,
                                         PDU_CAPSULE_CMD, PDU_H2C_DATA,    PDU_H2C_TERM };
        static const uint32_t lens[] = { 0, 4096, 16384, 512, 16388, 72 };

        (void)state;
        for (unsigned i = 0; i < 8; i++) {
                static const uint8_t pdas[] = { 0, 1, 2, 15, 17, 31, 0, 31 };
                struct setup setup = { .sender = PARTY_HOST };

                start(i & 1, i & 2, pdas[i]);
                setup.format = s.format;
                add_cmd(1, 0);
                add_cmd(2, 4096);
                add_data(PDU_H2C_DATA, 0, 16384);
                add_cmd(3, 512);
                add_data(PDU_H2C_DATA, 16384, 16388);
                add_term(PDU_H2C_TERM, 72);
                expect_pdus(&setup, types, lens, 6);
        }
}

static void every_type_of_a_controller(void **state)
{
        static const uint8_t types[] = { PDU_C2H_DATA, PDU_CAPSULE_RESP, PDU_R2T,
                                         PDU_C2H_DATA, PDU_CAPSULE_RESP, PDU_C2H_TERM };
        static const uint32_t lens[] = { 4, 0, 0, 40000, 0, 128 };

        (void)state;
        for (unsigned i = 0; i < 4; i++) {
                struct setup setup = { .sender = PARTY_CONTROLLER };

                start(i & 1, i & 2, i == 3 ? 31 : 0);
                setup.format = s.format;
                add_data(PDU_C2H_DATA, 0, 4);
                add_resp();
                add_r2t(8192);
                add_data(PDU_C2H_DATA, 4, 40000);
                add_resp();
                add_term(PDU_C2H_TERM, 128);
                expect_pdus(&setup, types, lens, 6);
        }
}

static void set_up(void **state)
{
        static const uint8_t icreq = PDU_ICREQ, icresp = PDU_ICRESP;
        static const uint32_t none;
        struct setup host = { .sender = PARTY_HOST }, controller = { .sender = PARTY_CONTROLLER };

        (void)state;
        start(false, false, 0);
        add_ic(PDU_ICREQ);
        expect_pdus(&host, &icreq, &none, 1);
        start(false, false, 0);
        add_ic(PDU_ICRESP);
        expect_pdus(&controller, &icresp, &none, 1);
}

static void digests_begin_behind_icreq(void **state)
{
        struct setup setup = { .sender = PARTY_HOST };
        struct subject *subject = make(&setup);
        struct pdu_format format = { .hdgst = true, .ddgst = true, .pda = 3 };
        struct iovec iov[2];

        (void)state;
        start(false, false, 0);
        add_ic(PDU_ICREQ);
        s.format = format;
        add_cmd(1, 512);
        assert_int_equal(framer_recv_iov(&subject->f, iov), 1);
        memcpy(iov[0].iov_base, s.bytes, s.len);
        framer_received(&subject->f, s.len);
        assert_int_equal(framer_next(&subject->f), FRAMER_HEADER);
        assert_int_equal(framer_next(&subject->f), FRAMER_PDU);
        framer_negotiated(&subject->f, &format);
        assert_int_equal(framer_next(&subject->f), FRAMER_HEADER);
        assert_int_equal(framer_next(&subject->f), FRAMER_PDU);
        assert_memory_equal(framer_data(&subject->f), pattern, 512);
        assert_int_equal(framer_next(&subject->f), FRAMER_MORE);
        drop(subject);
}

/* Many small PDUs fill the buffer several times over; nothing is ever copied out of it. */
static void data_is_handed_out_in_place(void **state)
{
        struct setup setup = { .sender = PARTY_HOST, .cap = 40000 };
        struct subject *subject = make(&setup);
        size_t at = 0;
        unsigned pdus = 0;

        (void)state;
        start(false, false, 0);
        for (uint16_t i = 0; i < 40; i++)
                add_cmd(i, 4096);
        while (at < s.len) {
                struct iovec iov[2];
                enum framer_event event;
                size_t n;

                assert_int_equal(framer_recv_iov(&subject->f, iov), 1);
                n = iov[0].iov_len < s.len - at ? iov[0].iov_len : s.len - at;
                memcpy(iov[0].iov_base, s.bytes + at, n);
                framer_received(&subject->f, n);
                at += n;
                while ((event = framer_next(&subject->f)) != FRAMER_MORE) {
                        if (event != FRAMER_PDU)
                                continue;
                        assert_in_range(framer_data(&subject->f) - subject->buf, 0, 40000 - 4096);
                        assert_memory_equal(framer_data(&subject->f), pattern, 4096);
                        assert_int_equal(le16_get(framer_header(&subject->f)->cmd.sqe.cid), pdus);
                        pdus++;
                }
        }
        assert_int_equal(pdus, 40);
        drop(subject);
}

/* The data of a long PDU is read to where it belongs, with a little of what follows. */
static void long_data_goes_to_its_sink(void **state)
{
        struct setup setup = { .sender = PARTY_CONTROLLER, .format = { .ddgst = true } };
        struct subject *subject = make(&setup);
        uint8_t *sink = malloc(100000);
        struct iovec iov[2];

        (void)state;
        start(false, true, 0);
        add_data(PDU_C2H_DATA, 0, 100000);
        framer_recv_iov(&subject->f, iov);
        memcpy(iov[0].iov_base, s.bytes, 100);
        framer_received(&subject->f, 100);
        assert_int_equal(framer_next(&subject->f), FRAMER_HEADER);
        framer_sink(&subject->f, sink);
        assert_int_equal(framer_next(&subject->f), FRAMER_MORE);
        assert_int_equal(framer_recv_iov(&subject->f, iov), 2);
        assert_ptr_equal(iov[0].iov_base, sink + 76);
        assert_int_equal(iov[0].iov_len, 100000 - 76);
        assert_int_equal(iov[1].iov_len, FRAMER_LOOK_AHEAD);
        memcpy(iov[0].iov_base, s.bytes + 100, 100000 - 76);
        memcpy(iov[1].iov_base, s.bytes + 100024, 4);
        framer_received(&subject->f, 100000 - 76 + 4);
        assert_int_equal(framer_next(&subject->f), FRAMER_PDU);
        assert_ptr_equal(framer_data(&subject->f), sink);
        assert_memory_equal(sink, pattern, 100000);
        assert_false(framer_ddgst_bad(&subject->f));
        free(sink);
        drop(subject);
}

static void long_data_without_a_sink_is_dropped(void **state)
{
        struct setup setup = { .sender = PARTY_HOST, .no_sink = true, .format = { .ddgst = true } };

        (void)state;
        start(false, true, 0);
        add_data(PDU_H2C_DATA, 0, 70000);
        s.bytes[s.len - 1] ^= 1;
        add_cmd(1, 0);
        assert_string_equal(events_of(&setup, &s), "header 06 70000\npdu 06 70000 00000000 bad\n"
                                                   "header 04 0\npdu 04 0 00000000\n");
}

static void who_reads_behind_what_came_is_seen(void **state)
{
        struct setup setup = { .sender = PARTY_HOST };
        struct subject *subject = make(&setup);

        (void)state;
        if (!NVMF_ASAN)
                skip();
        start(false, false, 0);
        add_cmd(1, 512);
        framer_feed(&subject->f, s.bytes, s.len);
        while (framer_next(&subject->f) != FRAMER_PDU)
                ;
        assert_false(ASAN_IS_POISONED((void *)(uintptr_t)framer_data(&subject->f), 512));
        assert_true(ASAN_IS_POISONED((void *)(uintptr_t)framer_data(&subject->f), 513));
        assert_ptr_equal(framer_detach(&subject->f), subject->buf);
        assert_false(ASAN_IS_POISONED(subject->buf, FRAMER_BUFFER_MIN));
        drop(subject);
}

static void a_buffer_with_nothing_in_it_goes_back(void **state)
{
        struct setup setup = { .sender = PARTY_HOST };
        struct subject *subject = make(&setup);
        struct iovec iov[2];

        (void)state;
        start(false, false, 0);
        add_cmd(1, 512);
        assert_ptr_equal(framer_detach(&subject->f), subject->buf);
        assert_int_equal(framer_next(&subject->f), FRAMER_MORE);
        framer_attach(&subject->f, subject->buf, FRAMER_BUFFER_MIN);
        framer_recv_iov(&subject->f, iov);
        memcpy(iov[0].iov_base, s.bytes, 4);
        framer_received(&subject->f, 4);
        assert_int_equal(framer_next(&subject->f), FRAMER_MORE);
        assert_null(framer_detach(&subject->f));
        framer_recv_iov(&subject->f, iov);
        memcpy(iov[0].iov_base, s.bytes + 4, 68);
        framer_received(&subject->f, 68);
        assert_int_equal(framer_next(&subject->f), FRAMER_HEADER);
        assert_int_equal(framer_next(&subject->f), FRAMER_MORE);
        assert_ptr_equal(framer_detach(&subject->f), subject->buf); /* the header is kept */
        framer_attach(&subject->f, subject->buf, FRAMER_BUFFER_MIN);
        framer_recv_iov(&subject->f, iov);
        memcpy(iov[0].iov_base, s.bytes + 72, 512);
        framer_received(&subject->f, 512);
        assert_int_equal(framer_next(&subject->f), FRAMER_PDU);
        assert_memory_equal(framer_data(&subject->f), pattern, 512);
        drop(subject);
}

/* --- what breaks a rule ----------------------------------------------------------------------- */

static const char *fault_of(enum party sender, const struct rule_set *waived)
{
        struct setup setup = { .sender = sender, .format = s.format, .waived = waived };
        const char *events = events_of(&setup, &s), *fault = strstr(events, "fault");

        return fault ? fault : events;
}

static void a_lying_common_header_is_not_waited_for(void **state)
{
        static const struct {
                uint8_t ch[8];
                const char *fault;
        } lies[] = {
                { { 0x08, 0, 24, 0, 24, 0, 0, 0 }, "fault tcp/header/type-h2c 1 0\n" },
                { { 0x0a, 0, 24, 0, 24, 0, 0, 0 }, "fault tcp/header/type-h2c 1 0\n" },
                { { 0xff, 0, 255, 0, 24, 0, 0, 0 }, "fault tcp/header/type-h2c 1 0\n" },
                { { 0x08, 0, 0, 0, 24, 0, 0, 0 }, "fault tcp/header/type-h2c 1 0\n" },
                { { 0x05, 0, 24, 0, 24, 0, 0, 0 }, "fault tcp/header/direction-h2c 1 0\n" },
                { { 0x04, 0, 255, 0, 72, 0, 0, 0 }, "fault tcp/header/hlen-h2c 1 2\n" },
                { { 0x04, 0, 72, 71, 84, 0, 0, 0 }, "fault tcp/alignment/pdo-h2c 1 3\n" },
                { { 0x04, 0, 72, 0, 71, 0, 0, 0 }, "fault tcp/header/plen-h2c 1 4\n" },
                { { 0x04, 1, 72, 0, 72, 0, 0, 0 }, "fault tcp/digest/flags-h2c 1 1\n" },
                { { 0x00, 0, 128, 0, 255, 255, 255, 255 }, "fault tcp/header/plen-h2c 1 4\n" },
                { { 0x02, 0, 24, 0, 23, 0, 0, 0 }, "fault tcp/termreq/length-h2c 0 0\n" },
                { { 0x02, 0, 24, 0, 153, 0, 0, 0 }, "fault tcp/termreq/length-h2c 0 0\n" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
                start(false, false, 0);
                stream_bytes(&s, lies[i].ch, 8);
                assert_string_equal(fault_of(PARTY_HOST, NULL), lies[i].fault);
                stream_fill(&s, 200);
                assert_string_equal(fault_of(PARTY_HOST, NULL), lies[i].fault);
        }
}

static void plen_is_bounded(void **state)
{
        (void)state;
        start(false, false, 0);
        s.format.max_data = 8192;
        add_cmd(1, 8192);
        assert_null(strstr(fault_of(PARTY_HOST, NULL), "fault"));
        add_cmd(2, 8196);
        assert_string_equal(fault_of(PARTY_HOST, NULL), "fault tcp/header/plen-h2c 1 4\n");
}

static void a_bad_header_digest_is_its_fei(void **state)
{
        struct rule_set waived = { 0 };
        char want[80];

        (void)state;
        start(true, false, 0);
        add_cmd(1, 512);
        add_cmd(2, 512);
        s.bytes[s.last + 72] ^= 0x80;
        snprintf(want, sizeof(want), "fault tcp/digest/hdgst-h2c 3 %u\n",
                 (uint32_t)le_get(s.bytes + s.last + 72, 4));
        assert_string_equal(fault_of(PARTY_HOST, NULL), want);
        rule_add(&waived, TCP_HDGST_H2C);
        assert_null(strstr(fault_of(PARTY_HOST, &waived), "fault"));

        start(true, false, 0); /* it comes before the fields it should protect */
        add_data(PDU_C2H_DATA, 2, 4);
        stream_last(&s)->data.offset = le32(3);
        assert_non_null(strstr(fault_of(PARTY_CONTROLLER, NULL), "hdgst-c2h"));
}

static void a_bad_data_digest_ends_nothing(void **state)
{
        struct rule_set waived = { 0 };

        (void)state;
        start(false, true, 0);
        add_cmd(1, 512);
        s.bytes[s.last + 100] ^= 1;
        add_cmd(2, 512);
        assert_non_null(strstr(fault_of(PARTY_HOST, NULL), " bad\nheader 04 512\n"));
        rule_add(&waived, TCP_DDGST_H2C);
        assert_null(strstr(fault_of(PARTY_HOST, &waived), "bad"));
}

/* Feeds the stream but for n bytes, and says how many of these were passed over; zeroes stand for the rest. */
static uint32_t feed_but(struct setup *setup, size_t from, uint32_t n, struct events *e)
{
        static const uint8_t zeroes[64];
        struct subject *subject = make(setup);
        uint32_t skipped;

        feed(subject, s.bytes, from, e);
        skipped = framer_skip(&subject->f, n);
        assert_in_range(n - skipped, 0, sizeof(zeroes));
        feed(subject, zeroes, n - skipped, e);
        feed(subject, s.bytes + from + n, s.len - from - n, e);
        drop(subject);
        return skipped;
}

/* The stream goes on where it would have; of the data nothing is said. */
static void what_is_nowhere_is_passed_over(void **state)
{
        enum { PDO = 128, LEN = 100000 };
        static const struct {
                size_t from;
                uint32_t n, skipped;
        } holes[] = {
                { 28, LEN / 2, LEN / 2 },           /* from the first byte of PAD on */
                { 1000, 1, 1 },                     /* in the data */
                { PDO, LEN, LEN },                  /* all data */
                { 1000, LEN - 872, LEN - 872 },     /* to its end */
                { 1000, LEN - 872 + 4, LEN - 872 }, /* and the digest */
        };
        struct setup setup = { .sender = PARTY_CONTROLLER };

        (void)state;
        start(true, true, PDO / 4 - 1);
        setup.format = s.format;
        add_data(PDU_C2H_DATA, 0, LEN);
        add_resp();
        for (size_t i = 0; i < sizeof(holes) / sizeof(holes[0]); i++) {
                static struct events e;

                e.len = 0;
                assert_int_equal(feed_but(&setup, holes[i].from, holes[i].n, &e), holes[i].skipped);
                assert_string_equal(e.text, "header 07 100000\npdu 07 100000 00000000\n"
                                            "header 05 0\npdu 05 0 00000000\n");
        }
}

static void of_short_data_and_between_pdus_nothing_is_passed_over(void **state)
{
        struct setup setup = { .sender = PARTY_HOST };
        static struct events e;

        (void)state;
        start(false, false, 0);
        add_cmd(1, 512);
        assert_int_equal(feed_but(&setup, 0, 0, &e), 0);
        assert_int_equal(feed_but(&setup, 40, 10, &e), 0);
        assert_int_equal(feed_but(&setup, 100, 10, &e), 0);
        assert_int_equal(feed_but(&setup, s.len - 1, 1, &e), 0);
}

static void header_fields_are_judged(void **state)
{
        (void)state;
        start(false, false, 0);
        add_ic(PDU_ICREQ);
        stream_last(&s)->icreq.hpda = 32;
        assert_string_equal(fault_of(PARTY_HOST, NULL), "fault tcp/icreq/hpda 1 10\n");
        start(false, false, 0);
        add_data(PDU_H2C_DATA, 2, 512);
        assert_string_equal(fault_of(PARTY_HOST, NULL), "fault tcp/h2cdata/datao-dword 1 12\n");
}

/* A command that counts bytes may move any number of them: the tracker knows. */
static void odd_lengths_are_left_to_the_tracker(void **state)
{
        (void)state;
        start(false, false, 0);
        add_data(PDU_C2H_DATA, 0, 13);
        add_r2t(13);
        assert_null(strstr(fault_of(PARTY_CONTROLLER, NULL), "fault"));
        start(false, false, 0);
        add_data(PDU_H2C_DATA, 0, 13);
        assert_null(strstr(fault_of(PARTY_HOST, NULL), "fault"));
}

/* --- with rules waived the framer believes PLEN and nothing else ------------------------------ */

static void waive_common(struct rule_set *waived)
{
        static const enum rule_id rules[] = { TCP_TYPE_H2C,     TCP_DIR_H2C,     TCP_HLEN_H2C,
                                              TCP_PLEN_H2C,     TCP_PDO_H2C,     TCP_DGSTF_H2C,
                                              TCP_TERM_LEN_H2C, TCP_TERM_FES_H2C };

        for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
                rule_add(waived, rules[i]);
}

static void waived_lengths_keep_the_stream(void **state)
{
        static const struct {
                uint8_t ch[8];
                uint32_t more; /* bytes after it that it claims */
                const char *events;
        } odd[] = {
                /* an unknown type is its PLEN, and at least a common header */
                { { 0x08, 0, 24, 0, 40, 0, 0, 0 }, 32, "header 08 0\npdu 08 0 00000000\n" },
                { { 0xff, 0, 24, 0, 0, 0, 0, 0 }, 0, "header ff 0\npdu ff 0 00000000\n" },
                /* a header without the bytes of one is read all the same */
                { { 0x04, 0, 72, 0, 8, 0, 0, 0 }, 64, "header 04 0\npdu 04 0 00000000\n" },
                { { 0x04, 0, 255, 0, 72, 0, 0, 0 }, 64, "header 04 0\npdu 04 0 00000000\n" },
                { { 0x00, 0, 128, 0, 0, 1, 0, 0 }, 248, "header 00 0\npdu 00 0 00000000\n" },
                { { 0x05, 0, 24, 0, 24, 0, 0, 0 }, 16, "header 05 0\npdu 05 0 00000000\n" },
                /* PDO within the header or beyond the end */
                { { 0x04, 0, 72, 3, 76, 0, 0, 0 }, 68, "header 04 4\npdu 04 4 " },
                { { 0x04, 0, 72, 255, 76, 0, 0, 0 }, 68, "header 04 0\npdu 04 0 00000000\n" },
                { { 0x02, 0, 24, 0, 0, 2, 0, 0 }, 504, "header 02 488\npdu 02 488 " },
                { { 0x02, 0, 24, 0, 0, 0, 1, 0 },
                  65528,
                  "header 02 65512\npdu 02 65512 00000000\n" },
        };
        struct rule_set waived = { 0 };

        (void)state;
        waive_common(&waived);
        for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
                struct setup setup = { PARTY_HOST, .waived = &waived, .no_sink = true };
                const char *events;

                start(false, false, 0);
                stream_bytes(&s, odd[i].ch, 8);
                for (uint32_t n = 0; n < odd[i].more; n++)
                        stream_bytes(&s, "", 1);
                add_ic(PDU_ICREQ);
                events = events_of(&setup, &s);
                assert_int_equal(strncmp(events, odd[i].events, strlen(odd[i].events)), 0);
                assert_non_null(strstr(events, "header 00 0\npdu 00 0 00000000\n"));
        }
}

/* Four bytes after the head where DDGST is on: too few for data and digest. */
static void waived_plen_with_digest_only(void **state)
{
        struct rule_set waived = { 0 };
        struct setup setup = { PARTY_HOST, .waived = &waived, .format = { .ddgst = true } };
        static const uint8_t ch[8] = { 0x04, 2, 72, 72, 76, 0, 0, 0 };

        (void)state;
        waive_common(&waived);
        start(false, true, 0);
        stream_bytes(&s, ch, 8);
        stream_fill(&s, 76);
        add_cmd(1, 0);
        assert_string_equal(events_of(&setup, &s), "header 04 0\npdu 04 0 00000000\n"
                                                   "header 04 0\npdu 04 0 00000000\n");
}

/* --- anything at all -------------------------------------------------------------------------- */

static void one_mutant(uint64_t *seed, struct rule_set *waived, struct events *e)
{
        struct setup setup = { splits_rand(seed) & 1,
                               .waived = splits_rand(seed) & 1 ? waived : NULL,
                               .format = { splits_rand(seed) & 1, splits_rand(seed) & 1,
                                           (uint8_t)(splits_rand(seed) % 40), 0 } };
        struct splits_machine m = { make, feed, drop, &setup };
        unsigned flips = splits_rand(seed) % 4;

        e->len = 0;
        s.len = 0;
        s.format = setup.format;
        for (unsigned i = 0; i < 8; i++) {
                union pdu h;

                for (size_t b = 0; b < sizeof(h); b++)
                        h.bytes[b] = (uint8_t)splits_rand(seed);
                h.ch.type = (uint8_t)(splits_rand(seed) % 11);
                stream_add(&s, &h, pattern, splits_rand(seed) % 300);
        }
        while (flips-- > 0)
                s.bytes[splits_rand(seed) % (flips & 1 ? 8 : s.len)] ^=
                    (uint8_t)(1 << splits_rand(seed) % 8);
        splits_run(&m, s.bytes, s.len, 500, seed, e);
}

static void mutants_do_no_harm(void **state)
{
        static struct events e;
        struct rule_set waived;
        uint64_t seed = 20260101;

        (void)state;
        memset(&waived, 0xff, sizeof(waived));
        start(false, false, 0);
        for (unsigned i = 0; i < 6000; i++)
                one_mutant(&seed, &waived, &e);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_type_of_a_host),
                cmocka_unit_test(every_type_of_a_controller),
                cmocka_unit_test(set_up),
                cmocka_unit_test(digests_begin_behind_icreq),
                cmocka_unit_test(data_is_handed_out_in_place),
                cmocka_unit_test(long_data_goes_to_its_sink),
                cmocka_unit_test(long_data_without_a_sink_is_dropped),
                cmocka_unit_test(who_reads_behind_what_came_is_seen),
                cmocka_unit_test(a_buffer_with_nothing_in_it_goes_back),
                cmocka_unit_test(a_lying_common_header_is_not_waited_for),
                cmocka_unit_test(plen_is_bounded),
                cmocka_unit_test(a_bad_header_digest_is_its_fei),
                cmocka_unit_test(a_bad_data_digest_ends_nothing),
                cmocka_unit_test(what_is_nowhere_is_passed_over),
                cmocka_unit_test(of_short_data_and_between_pdus_nothing_is_passed_over),
                cmocka_unit_test(header_fields_are_judged),
                cmocka_unit_test(odd_lengths_are_left_to_the_tracker),
                cmocka_unit_test(waived_lengths_keep_the_stream),
                cmocka_unit_test(waived_plen_with_digest_only),
                cmocka_unit_test(mutants_do_no_harm),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
