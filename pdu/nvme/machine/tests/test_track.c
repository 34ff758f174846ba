/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/rounds.h"
#include "session.h"

/* --- scripts and what they break -------------------------------------------------------------- */

typedef void script_fn(struct session *s);

struct expectation {
        script_fn *script;
        const char *reports; /* faults with FES and FEI, and findings, line by line */
        struct track_limits limits;
        enum rule_id waived;
};

static void play(struct session *s, const struct expectation *e, struct events *events)
{
        struct rule_set waived = { 0 };

        if (e->waived)
                rule_add(&waived, e->waived);
        s->limits = e->limits;
        s->waived = &waived;
        s->events = events;
        s->quiet = true;
        session_begin(s);
        e->script(s);
        session_end(s);
}

/* Whole PDUs, byte by byte, and cut at random: the same reports. */
static void check(const struct expectation *e)
{
        static struct events whole, cut;
        static struct session s;

        s.cut = 0;
        play(&s, e, &whole);
        assert_string_equal(whole.text, e->reports);
        for (unsigned i = 0; i <= random_rounds(SPLITS_RANDOM); i++) {
                s.cut = i == 0 ? 1 : i % 4 == 1 ? 5000 : 100;
                s.seed = i;
                play(&s, e, &cut);
                assert_string_equal(cut.text, e->reports);
        }
}

#define CHECK_ALL(...)                                                                             \
        do {                                                                                       \
                const struct expectation list[] = { __VA_ARGS__ };                                 \
                for (size_t i_ = 0; i_ < sizeof(list) / sizeof(list[0]); i_++)                     \
                        check(&list[i_]);                                                          \
        } while (0)

static const struct track_limits no_limits;

static void say_hello(struct session *s)
{
        say_connected(s, 1, 127);
}

static void say_admin(struct session *s)
{
        say_connected(s, 0, 31);
        say_cmd(s, a_property(1, FCTYPE_PROPERTY_SET, PROP_CC, CC_EN));
        say_resp(s, 1, 2);
}

/* --- set-up ----------------------------------------------------------------------------------- */

static void no_icreq(struct session *s)
{
        say_cmd(s, a_connect(1, 0, 31));
}

static void two_icreqs(struct session *s)
{
        say_icreq(s, 0, 0, 1);
        say_icreq(s, 0, 0, 1);
}

static void icreq_when_live(struct session *s)
{
        say_hello(s);
        say_icreq(s, 3, 3, 9);
        say_cmd(s, an_io(1, NVME_FLUSH, SGL_TRANSPORT, 0));
        say_resp(s, 1, 2);
}

static void impatient(struct session *s)
{
        say_icreq(s, 0, 0, 1);
        say_cmd(s, a_connect(1, 1, 127));
        say_icresp(s, 0, 0, 4096);
        say_resp(s, 1, 1);
}

static void icresp_to_nothing(struct session *s)
{
        say_icresp(s, 0, 0, 4096);
}

static void response_before_icresp(struct session *s)
{
        say_icreq(s, 0, 0, 1);
        say_resp(s, 0, 0);
}

static void two_icresps(struct session *s)
{
        say_hello(s);
        say_icresp(s, 9, 0, 4096);
        say_cmd(s, an_io(1, NVME_FLUSH, SGL_TRANSPORT, 0));
        say_resp(s, 1, 2);
}

static void digest_unasked(struct session *s)
{
        say_icreq(s, 0, PDU_DGST_HEADER, 1);
        say_icresp(s, 0, PDU_DGST_HEADER | PDU_DGST_DATA, 4096);
}

static void digest_refused(struct session *s)
{
        say_icreq(s, 0, PDU_DGST_HEADER | PDU_DGST_DATA, 1);
        say_icresp(s, 0, 0, 4096);
        say_cmd(s, a_connect(1, 1, 127));
        say_resp(s, 1, 1);
}

static void terms_only(struct session *s)
{
        say_term(s, PARTY_HOST, 8);
        say_term(s, PARTY_CONTROLLER, 8);
}

static void set_up(void **state)
{
        (void)state;
        CHECK_ALL({ say_hello, "", no_limits, 0 }, { digest_refused, "", no_limits, 0 },
                  { terms_only, "", no_limits, 0 },
                  { no_icreq, "fault tcp/setup/icreq-first 2 0\n", no_limits, 0 },
                  { no_icreq, "", no_limits, TCP_ICREQ_FIRST },
                  { two_icreqs, "fault tcp/setup/icreq-once 2 0\n", no_limits, 0 },
                  { icreq_when_live, "fault tcp/setup/icreq-once 2 0\n", no_limits, 0 },
                  { icreq_when_live, "", no_limits, TCP_ICREQ_ONCE },
                  { impatient, "finding tcp/setup/wait-for-icresp\n", no_limits, 0 },
                  { icresp_to_nothing, "fault tcp/setup/icresp-first 2 0\n", no_limits, 0 },
                  { response_before_icresp, "fault tcp/setup/icresp-first 2 0\n", no_limits, 0 },
                  { two_icresps, "fault tcp/setup/icresp-once 2 0\n", no_limits, 0 },
                  { two_icresps, "", no_limits, TCP_ICRESP_ONCE },
                  { digest_unasked, "fault tcp/setup/digest-unasked 1 11\n", no_limits, 0 },
                  { digest_unasked, "", no_limits, TCP_ICRESP_DGST });
}

static void what_was_negotiated(void **state)
{
        static struct session s;
        const struct pdu_format *f;

        (void)state;
        s = (struct session) { 0 };
        session_begin(&s);
        assert_false(track_live(s.judge));
        assert_int_equal(track_qid(s.judge), -1);
        assert_int_equal(track_maxh2cdata(s.judge), UINT32_MAX);
        say_icreq(&s, 7, PDU_DGST_HEADER, UINT32_MAX); /* MAXR2T FFFFFFFEh */
        assert_int_equal(track_maxr2t(s.judge), UINT32_MAX);
        say_icresp(&s, 3, PDU_DGST_HEADER, 16384);
        assert_true(track_live(s.judge));
        assert_int_equal(track_maxh2cdata(s.judge), 16384);
        f = track_format(s.judge, PARTY_HOST);
        assert_true(f->hdgst && !f->ddgst && f->pda == 3);
        f = track_format(s.judge, PARTY_CONTROLLER);
        assert_true(f->hdgst && !f->ddgst && f->pda == 7);
        say_cmd(&s, a_connect(1, 5, 63));
        assert_int_equal(track_qid(s.judge), 5);
        assert_int_equal(track_outstanding(s.judge), 1);
        assert_ptr_equal(track_last_cmd(s.judge), track_cmd(s.judge, 1));
        say_cqe(&s, 1, 1, 0, 1);
        assert_int_equal(track_last_cmd(s.judge)->cid, 1); /* it has ended, and can be looked at */
        assert_null(track_cmd(s.judge, 1));
        assert_int_equal(track_outstanding(s.judge), 0);
        session_end(&s);
}

/* MAXR2T is 0's based: FFFFFFFFh has no successor. */
static void maxr2t_saturates(void **state)
{
        static struct session s;

        (void)state;
        s = (struct session) { 0 };
        session_begin(&s);
        say_icreq(&s, 0, 0, 0);
        assert_int_equal(track_maxr2t(s.judge), UINT32_MAX);
        session_end(&s);
}

static void mid_stream(void **state)
{
        static const struct pdu_format plain;
        static struct session s;

        (void)state;
        s = (struct session) { .limits.passive = true };
        session_begin(&s);
        assert_int_equal(track_assume(s.judge, &plain, &plain, 131072, 1), 0);
        assert_int_equal(track_assume(s.own, &plain, &plain, 131072, 1), 0);
        say_cmd(&s, an_io(900, NVME_READ, SGL_TRANSPORT, 4096));
        say_c2h(&s, 900, 0, 4096, PDU_LAST | PDU_SUCCESS);
        say_cmd(&s, an_io(900, NVME_WRITE, SGL_IN_CAPSULE, 4096));
        say_resp(&s, 900, 77);
        say_cmd(&s, a_property(1, FCTYPE_PROPERTY_GET, PROP_CSTS, 0));
        say_resp(&s, 1, 5);
        assert_true(rule_set_empty(&s.reported));
        assert_int_equal(track_qid(s.judge), -1);
        session_end(&s);
}

/* --- capsules --------------------------------------------------------------------------------- */

static void same_cid(struct session *s)
{
        say_hello(s);
        say_cmd(s, an_io(5, NVME_FLUSH, SGL_TRANSPORT, 0));
        say_cmd(s, an_io(5, NVME_FLUSH, SGL_TRANSPORT, 0));
        say_resp(s, 5, 2);
        say_resp(s, 5, 3);
        say_resp(s, 5, 3);
}

static void unknown_cid(struct session *s)
{
        say_hello(s);
        say_resp(s, 77, 1);
}

/* CIDs of any value, answered in any order, used again at once. */
static void any_cid(struct session *s)
{
        static const uint16_t cids[] = { 0, 0xffff, 0x1000, 0x2000, 0x8000, 1, 0xf000, 64 };

        say_hello(s);
        for (unsigned i = 0; i < 8; i++)
                say_cmd(s, an_io(cids[i], NVME_FLUSH, SGL_TRANSPORT, 0));
        for (unsigned i = 8; i-- > 0;) {
                say_resp(s, cids[i], (uint16_t)(i < 4 ? 9 : 8));
                if (i == 4)
                        say_cmd(s, an_io(cids[7], NVME_FLUSH, SGL_TRANSPORT, 0));
        }
        say_resp(s, cids[7], 10);
}

static void data_behind_a_buffer(struct session *s)
{
        union pdu h = { .ch.type = PDU_CAPSULE_CMD };

        say_hello(s);
        h.cmd.sqe = an_io(1, NVME_WRITE, SGL_TRANSPORT, 512);
        session_send(s, PARTY_HOST, h, 512);
}

static void data_at_an_offset(struct session *s)
{
        union sqe sqe = an_io(1, NVME_WRITE, SGL_IN_CAPSULE, 512);

        say_hello(s);
        sqe.sgl.addr = le64(4);
        say_cmd(s, sqe);
}

static void no_data(struct session *s)
{
        union pdu h = { .ch.type = PDU_CAPSULE_CMD };

        say_hello(s);
        h.cmd.sqe = an_io(1, NVME_WRITE, SGL_IN_CAPSULE, 512);
        session_send(s, PARTY_HOST, h, 0);
}

/* What does not fit into a capsule is no matter of the connection but of the command's status. */
static void read_into_the_capsule(struct session *s)
{
        union pdu h = { .ch.type = PDU_CAPSULE_CMD };

        say_hello(s);
        h.cmd.sqe = an_io(1, NVME_READ, SGL_IN_CAPSULE, 512);
        session_send(s, PARTY_HOST, h, 0);
}

static void address_sgl(struct session *s)
{
        say_hello(s);
        say_cmd(s, an_io(1, NVME_READ, SGL_DATA_BLOCK, 512));
        say_cmd(s, an_io(2, NVME_FLUSH, SGL_DATA_BLOCK, 0));
}

static void features_without_sgl(struct session *s)
{
        say_admin(s);
        say_cmd(s, a_command(2, NVME_GET_FEATURES, 0, 0));
        say_resp(s, 2, 3);
}

static void capsule_of(struct session *s, uint16_t qid, uint32_t len)
{
        say_connected(s, qid, 31);
        if (qid == 0)
                say_cmd(s, a_fabrics(9, FCTYPE_AUTH_SEND, SGL_IN_CAPSULE, len));
        else
                say_cmd(s, an_io(9, NVME_WRITE, SGL_IN_CAPSULE, len));
}

static void admin_8192(struct session *s)
{
        capsule_of(s, 0, 8192);
}

static void admin_8196(struct session *s)
{
        capsule_of(s, 0, 8196);
}

static void io_8192(struct session *s)
{
        capsule_of(s, 1, 8192);
}

static void io_8196(struct session *s)
{
        capsule_of(s, 1, 8196);
}

static void io_not_told(struct session *s)
{
        track_set_in_capsule(s->judge, UINT32_MAX);
        capsule_of(s, 1, 65536);
}

/* IOCCSZ 4 */
static void io_none(struct session *s)
{
        track_set_in_capsule(s->judge, 0);
        capsule_of(s, 1, 512);
}

static void io_none_but_fabrics(struct session *s)
{
        track_set_in_capsule(s->judge, 0);
        say_connected(s, 1, 31);
        say_cmd(s, a_fabrics(9, FCTYPE_AUTH_SEND, SGL_IN_CAPSULE, 8192));
}

/* The controller takes them all the same. */
static void io_8196_answered(struct session *s)
{
        io_8196(s);
        say_resp(s, 9, 2);
}

static void no_data_answered(struct session *s)
{
        no_data(s);
        say_resp(s, 1, 2);
}

/* In-capsule data may begin at an offset, and ends where the capsule does. */
static void data_at_a_described_offset(struct session *s)
{
        union pdu h = { .ch.type = PDU_CAPSULE_CMD };

        say_hello(s);
        h.cmd.sqe = an_io(1, NVME_WRITE, SGL_IN_CAPSULE, 512);
        h.cmd.sqe.sgl.addr = le64(4);
        session_send(s, PARTY_HOST, h, 516);
}

static void capsules(void **state)
{
        const struct track_limits passive = { .passive = true };

        (void)state;
        CHECK_ALL(
            { any_cid, "", no_limits, 0 },
            { same_cid, "fault tcp/capsule/command-cid 3 0\n", no_limits, 0 },
            { same_cid, "fault tcp/capsule/response-cid 1 20\n", no_limits, TCP_CMD_CID },
            { unknown_cid, "fault tcp/capsule/response-cid 1 20\n", no_limits, 0 },
            { unknown_cid, "", no_limits, TCP_RESP_CID },
            { data_behind_a_buffer, "fault tcp/capsule/in-capsule-length 1 4\n", no_limits, 0 },
            { data_at_an_offset, "fault tcp/capsule/in-capsule-length 1 4\n", no_limits, 0 },
            { no_data, "fault tcp/capsule/in-capsule-length 1 4\n", no_limits, 0 },
            { no_data, "", no_limits, TCP_ICD_LEN },
            { read_into_the_capsule, "finding tcp/capsule/sgl-type\n", no_limits, 0 },
            { address_sgl, "finding tcp/capsule/sgl-type\n", no_limits, 0 },
            { features_without_sgl, "", no_limits, 0 }, { admin_8192, "", no_limits, 0 },
            { admin_8196, "fault tcp/capsule/in-capsule-limit 1 4\n", no_limits, 0 },
            { io_8192, "", no_limits, 0 },
            { io_8196, "fault tcp/capsule/in-capsule-limit 1 4\n", no_limits, 0 },
            { io_not_told, "", no_limits, 0 },
            { io_none, "fault tcp/capsule/in-capsule-limit 1 4\n", no_limits, 0 },
            { io_none_but_fabrics, "", no_limits, 0 },
            { io_8196_answered, "finding tcp/capsule/in-capsule-limit\n", passive, 0 },
            { no_data_answered, "finding tcp/capsule/in-capsule-length\n", passive, 0 },
            { data_at_a_described_offset, "", no_limits, 0 });
}

/* --- the submission queue --------------------------------------------------------------------- */

static void flushes(struct session *s, uint16_t first, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                say_cmd(s, an_io((uint16_t)(first + i), NVME_FLUSH, SGL_TRANSPORT, 0));
}

static void queue_of_4_filled(struct session *s)
{
        say_connected(s, 1, 3);
        flushes(s, 1, 3);
}

static void queue_of_4_overrun(struct session *s)
{
        say_connected(s, 1, 3);
        flushes(s, 1, 4);
}

/* SQHD says that there is room, though nothing is answered but one. */
static void head_runs_ahead(struct session *s)
{
        say_connected(s, 1, 3);
        flushes(s, 1, 3);
        say_resp(s, 1, 0); /* all three are taken: 4 modulo 4 */
        flushes(s, 10, 3);
        flushes(s, 20, 1);
}

/* 300 Writes on a queue of 32, that the controller serves. */
static void overrun_by_far(struct session *s)
{
        say_connected(s, 1, 31);
        for (uint16_t cid = 1; cid <= 300; cid++)
                say_cmd(s, an_io(cid, NVME_WRITE, SGL_TRANSPORT, 8192));
        for (uint16_t cid = 1; cid <= 300; cid++) {
                say_r2t(s, cid, (uint16_t)(cid + 1000), 0, 8192);
                say_h2c(s, cid, (uint16_t)(cid + 1000), 0, 8192, PDU_LAST);
                say_resp(s, cid, (uint16_t)((cid + 1) % 32));
        }
        say_cmd(s, an_io(400, NVME_WRITE, SGL_TRANSPORT, 8192));
        say_r2t(s, 400, 7, 0, 8192);
        say_h2c(s, 400, 7, 0, 8192, PDU_LAST);
        say_resp(s, 400, 302 % 32);
        say_r2t(s, 401, 7, 0, 8192);
}

/* What a queue may have, and more than is remembered of one that is only watched. */
static void many_at_once(struct session *s)
{
        enum { MANY = 1500 };

        say_connected(s, 1, 2047);
        for (uint16_t cid = 1; cid <= MANY; cid++)
                say_cmd(s, an_io(cid, NVME_WRITE, SGL_TRANSPORT, 16384));
        for (unsigned half = 0; half < 2; half++) {
                for (uint16_t cid = 1; cid <= MANY; cid++)
                        say_r2t(s, cid, cid, half * 8192, 8192);
                for (uint16_t cid = 1; cid <= MANY; cid++)
                        say_h2c(s, cid, cid, half * 8192, 8192, PDU_LAST);
        }
        for (uint16_t cid = 1; cid <= MANY; cid++)
                say_resp(s, cid, cid + 1);
}

static void ask_sqfc_off(struct session *s, uint16_t sqsize, uint16_t sqhd)
{
        union sqe sqe = a_connect(0, 1, sqsize);

        sqe.connect.cattr = CATTR_DISABLE_SQFC;
        say_icreq(s, 0, 0, 1);
        say_icresp(s, 0, 0, 8192);
        say_cmd(s, sqe);
        say_cqe(s, 0, sqhd, 0, 1);
}

static void ask_no_flow_control(struct session *s, uint16_t sqsize)
{
        ask_sqfc_off(s, sqsize, SQHD_DISABLED);
}

static void no_flow_control(struct session *s)
{
        ask_no_flow_control(s, 3);
        flushes(s, 1, 3);
        say_resp(s, 1, 0);
        flushes(s, 10, 1);
}

static void no_flow_control_overrun(struct session *s)
{
        no_flow_control(s);
        flushes(s, 20, 1);
}

static void sqhd_though_disabled(struct session *s)
{
        no_flow_control(s);
        say_resp(s, 2, 3);
}

/* Nobody can say what SQHD should be after it. */
static void disabled_unasked(struct session *s, uint16_t sqhd)
{
        say_icreq(s, 0, 0, 1);
        say_icresp(s, 0, 0, 8192);
        say_cmd(s, a_connect(0, 1, 31));
        say_cqe(s, 0, SQHD_DISABLED, 0, 1);
        flushes(s, 1, 1);
        say_resp(s, 1, sqhd);
}

static void unasked_then_zero(struct session *s)
{
        disabled_unasked(s, 0);
}

static void unasked_then_head(struct session *s)
{
        disabled_unasked(s, 2);
}

/* Around a queue of 4 entries, three times; SQHD may lag, but not behind what was answered before. */
static void heads_wrap(struct session *s)
{
        say_connected(s, 1, 3);
        for (uint16_t i = 2; i < 14; i++) {
                flushes(s, i, 1);
                say_resp(s, i, i % 4);
        }
        flushes(s, 20, 3); /* 14, 15, 16 */
        say_resp(s, 22, 0);
        say_resp(s, 21, 3); /* created before the one that was sent before it */
        say_resp(s, 20, 2);
}

/* Completions are counted, and sent in another order. */
static void heads_of_completions(struct session *s)
{
        say_hello(s);
        flushes(s, 1, 3);
        say_resp(s, 3, 3);
        say_resp(s, 2, 2);
        say_resp(s, 1, 4);
}

/* Slots are free when their commands have been answered. */
static void heads_of_what_was_answered(struct session *s)
{
        say_hello(s);
        for (uint16_t i = 1; i < 9; i++) {
                flushes(s, i, 1);
                say_resp(s, i, i);
        }
}

/* One was answered before this one was sent, and is not counted. */
static void head_behind_its_command(struct session *s)
{
        say_hello(s);
        flushes(s, 1, 3);
        say_resp(s, 1, 2);
        flushes(s, 4, 1);
        say_resp(s, 4, 1);
}

static void head_stuck(struct session *s)
{
        say_hello(s);
        flushes(s, 1, 1);
        say_resp(s, 1, 1);
        flushes(s, 2, 1);
        say_resp(s, 2, 1);
        flushes(s, 3, 1);
        say_resp(s, 3, 4);
}

static void head_too_far(struct session *s)
{
        say_hello(s);
        flushes(s, 1, 2);
        say_resp(s, 1, 4);
}

static void head_not_of_the_queue(struct session *s)
{
        say_connected(s, 1, 3);
        flushes(s, 1, 1);
        say_resp(s, 1, 4);
}

static void head_zero_at_connect(struct session *s)
{
        say_icreq(s, 0, 0, 1);
        say_icresp(s, 0, 0, 8192);
        say_cmd(s, a_connect(0, 1, 31));
        say_cqe(s, 0, 0, 0, 1);
        flushes(s, 1, 2);
        say_resp(s, 1, 1); /* Connect does not count, */
        say_resp(s, 2, 3); /* or it does */
}

/* Refused Connects: one controller counts them, another does not. */
static void connect_after(struct session *s, unsigned refused, uint16_t sqhd)
{
        say_icreq(s, 0, 0, 1);
        say_icresp(s, 0, 0, 8192);
        for (unsigned i = 0; i < refused; i++) {
                say_cmd(s, a_connect(0, 1, 31));
                say_cqe(s, 0, 0, NVME_CONNECT_HOST, 0);
        }
        say_cmd(s, a_connect(0, 1, 31));
        say_cqe(s, 0, sqhd, 0, 1);
        flushes(s, 1, 1);
        say_resp(s, 1, (uint16_t)(sqhd + 1));
}

static void refusals_counted(struct session *s)
{
        connect_after(s, 2, 3);
}

static void refusals_not_counted(struct session *s)
{
        connect_after(s, 2, 1);
}

static void deep_queue(struct session *s)
{
        say_connected(s, 1, 1023);
        flushes(s, 1, 1023);
        for (uint16_t i = 1; i < 1024; i++)
                say_resp(s, i, 0);
}

static void submission_queue(void **state)
{
        const char *sqhd = "finding fab/queue/sqhd\n", *overrun = "fault fab/queue/overrun 0 0\n";
        const char *outstanding = "fault fab/queue/outstanding 0 0\n";
        const char *unasked = "finding fab/queue/sqhd-ffffh-unasked\n";
        const struct track_limits shallow = { .depth_max = 4 }, passive = { .passive = true };
        static struct session s, deep;
        static struct events events;

        (void)state;
        CHECK_ALL(
            { queue_of_4_filled, "", no_limits, 0 }, { queue_of_4_overrun, overrun, no_limits, 0 },
            { queue_of_4_overrun, "", no_limits, FAB_OVERRUN },
            { head_runs_ahead, overrun, no_limits, 0 }, { no_flow_control, "", no_limits, 0 },
            { no_flow_control_overrun, outstanding, no_limits, 0 },
            { sqhd_though_disabled, sqhd, no_limits, 0 }, { heads_wrap, "", no_limits, 0 },
            { head_stuck, sqhd, no_limits, 0 }, { head_too_far, sqhd, no_limits, 0 },
            { head_not_of_the_queue, sqhd, no_limits, 0 },
            { head_zero_at_connect, "", no_limits, 0 }, { heads_of_completions, "", no_limits, 0 },
            { heads_of_what_was_answered, "", no_limits, 0 },
            { head_behind_its_command, sqhd, no_limits, 0 },
            { unasked_then_zero, unasked, no_limits, 0 },
            { unasked_then_head, unasked, no_limits, 0 }, { refusals_counted, "", no_limits, 0 },
            { refusals_not_counted, "", no_limits, 0 });
        check(&(struct expectation) { queue_of_4_filled, "", shallow, 0 });
        check(&(struct expectation) { overrun_by_far, "fault tcp/r2t/cccid 1 8\n", no_limits,
                                      FAB_OVERRUN });
        play(&deep, &(struct expectation) { many_at_once, "", passive, 0 }, &events);
        assert_string_equal(events.text, "");
        s.limits = passive;
        session_begin(&s);
        overrun_by_far(&s);
        assert_true(rule_in(&s.reported, FAB_OVERRUN));
        rule_each_in (&s.reported, rule)
                assert_true(rule == FAB_OVERRUN || rule == TCP_R2T_CID);
        session_end(&s);
}

static void depth_is_bounded(void **state)
{
        static struct session s;
        static struct events events;
        struct expectation e = { deep_queue, "", no_limits, 0 };

        (void)state;
        play(&s, &e, &events);
        assert_string_equal(events.text, "");
        e.limits.depth_max = 100;
        play(&s, &e, &events);
        assert_string_equal(events.text, "fault fab/queue/overrun 0 0\n");
}

/* Commands are known by the same pointer from beginning to end, also across Connect. */
static void commands_stay_where_they_are(void **state)
{
        static struct session s;
        struct track_cmd *first;

        (void)state;
        s = (struct session) { 0 };
        session_begin(&s);
        say_icreq(&s, 0, 0, 1);
        say_icresp(&s, 0, 0, 8192);
        say_cmd(&s, a_command(40, NVME_AER, SGL_TRANSPORT, 0));
        first = track_last_cmd(s.judge);
        first->user = &s;
        say_cmd(&s, a_connect(1, 0, 511));
        say_cqe(&s, 1, 1, 0, 1);
        for (uint16_t i = 100; i < 500; i++)
                say_cmd(&s, a_command(i, NVME_AER, SGL_TRANSPORT, 0));
        assert_ptr_equal(track_cmd(s.judge, 40), first);
        assert_ptr_equal(track_cmd(s.judge, 40)->user, &s);
        assert_int_equal(track_outstanding(s.judge), 401);
        session_end(&s);
}

/* --- controller to host data ------------------------------------------------------------------ */

static void read_8192(struct session *s, uint16_t cid)
{
        say_cmd(s, an_io(cid, NVME_READ, SGL_TRANSPORT, 8192));
}

static void interleaved_reads(struct session *s)
{
        say_hello(s);
        read_8192(s, 1);
        read_8192(s, 2);
        say_c2h(s, 2, 0, 4096, 0);
        say_c2h(s, 1, 0, 4096, 0);
        say_c2h(s, 2, 4096, 4096, PDU_LAST);
        say_resp(s, 2, 3);
        say_c2h(s, 1, 4096, 4096, PDU_LAST);
        say_resp(s, 1, 3);
}

static void short_read_fails(struct session *s)
{
        say_hello(s);
        read_8192(s, 1);
        say_c2h(s, 1, 0, 4096, 0);
        say_cqe(s, 1, 2, NVME_UNRECOVERED_READ, 0);
}

static void data_of_nobody(struct session *s)
{
        say_hello(s);
        say_c2h(s, 1, 0, 4096, PDU_LAST);
}

static void data_for_a_write(struct session *s)
{
        say_hello(s);
        say_cmd(s, an_io(1, NVME_WRITE, SGL_TRANSPORT, 4096));
        say_c2h(s, 1, 0, 4096, PDU_LAST);
}

static void gap(struct session *s)
{
        say_hello(s);
        read_8192(s, 1);
        say_c2h(s, 1, 0, 2048, 0);
        say_c2h(s, 1, 4096, 4096, PDU_LAST);
}

static void too_much_data(struct session *s)
{
        say_hello(s);
        read_8192(s, 1);
        say_c2h(s, 1, 0, 4096, 0);
        say_c2h(s, 1, 4096, 4100, PDU_LAST);
}

static void data_after_last(struct session *s)
{
        say_hello(s);
        read_8192(s, 1);
        say_c2h(s, 1, 0, 4096, PDU_LAST);
        say_c2h(s, 1, 4096, 4096, PDU_LAST);
}

static void no_last(struct session *s)
{
        say_hello(s);
        read_8192(s, 1);
        say_c2h(s, 1, 0, 8192, 0);
        say_resp(s, 1, 2);
}

static void odd_length(struct session *s)
{
        say_hello(s);
        read_8192(s, 1);
        say_c2h(s, 1, 0, 13, PDU_LAST);
}

static void odd_length_of_bytes(struct session *s)
{
        enum { SECURITY_RECEIVE = 0x82, VENDOR = 0xc2 }; /* controller to host */

        say_admin(s);
        say_cmd(s, a_fabrics(2, FCTYPE_AUTH_RECEIVE, SGL_TRANSPORT, 13));
        say_c2h(s, 2, 0, 13, PDU_LAST);
        say_resp(s, 2, 3);
        say_cmd(s, a_command(3, SECURITY_RECEIVE, SGL_TRANSPORT, 13));
        say_c2h(s, 3, 0, 13, PDU_LAST);
        say_resp(s, 3, 4);
        say_cmd(s, a_command(4, VENDOR, SGL_TRANSPORT, 13));
        say_c2h(s, 4, 0, 13, PDU_LAST);
        say_resp(s, 4, 5);
}

static void success(struct session *s)
{
        ask_no_flow_control(s, 127);
        read_8192(s, 1);
        say_c2h(s, 1, 0, 8192, PDU_LAST | PDU_SUCCESS);
        read_8192(s, 1);
        say_c2h(s, 1, 0, 8192, PDU_LAST | PDU_SUCCESS);
}

static void success_and_response(struct session *s)
{
        success(s);
        say_resp(s, 1, 0);
}

static void success_and_data(struct session *s)
{
        success(s);
        say_c2h(s, 1, 0, 8192, PDU_LAST);
}

/* Whether the controller could do without SQHD nobody has asked. */
static void success_with_flow_control(struct session *s)
{
        say_hello(s);
        read_8192(s, 1);
        say_c2h(s, 1, 0, 8192, PDU_LAST | PDU_SUCCESS);
        flushes(s, 2, 1);
        say_resp(s, 2, 3);
}

/* Whether it lacks the ability is not known: TREQ may say that it has it. */
static void success_where_one_was_refused(struct session *s)
{
        ask_sqfc_off(s, 127, 1);
        read_8192(s, 1);
        say_c2h(s, 1, 0, 8192, PDU_LAST | PDU_SUCCESS);
        flushes(s, 2, 1);
        say_resp(s, 2, 3);
}

static void identify(struct session *s, uint32_t got)
{
        say_admin(s);
        say_cmd(s, a_command(2, NVME_IDENTIFY, SGL_TRANSPORT, IDENTIFY_LEN));
        if (got > 0)
                say_c2h(s, 2, 0, got, PDU_LAST);
        say_resp(s, 2, 3);
}

static void whole_identify(struct session *s)
{
        identify(s, IDENTIFY_LEN);
}

static void short_identify(struct session *s)
{
        identify(s, 512);
}

static void no_identify(struct session *s)
{
        identify(s, 0);
}

static void log_page(struct session *s, uint32_t numd, uint32_t len, uint32_t got)
{
        union sqe sqe = a_command(2, NVME_GET_LOG_PAGE, SGL_TRANSPORT, len);

        say_admin(s);
        sqe.cdw10 = le32(LOG_SMART | (numd & 0xffff) << 16);
        sqe.cdw11 = le32(numd >> 16);
        say_cmd(s, sqe);
        say_c2h(s, 2, 0, got, PDU_LAST);
        say_resp(s, 2, 3);
}

static void short_log(struct session *s)
{
        log_page(s, 127, 512, 508);
}

static void big_log(struct session *s)
{
        log_page(s, (131072 - 4) / 4, 131072, 131072);
}

static void log_beyond_count(struct session *s)
{
        log_page(s, UINT32_MAX, 512, 512);
}

static void c2h_data(void **state)
{
        (void)state;
        CHECK_ALL({ interleaved_reads, "", no_limits, 0 }, { short_read_fails, "", no_limits, 0 },
                  { data_of_nobody, "fault tcp/c2hdata/cccid 1 8\n", no_limits, 0 },
                  { data_of_nobody, "", no_limits, TCP_C2H_CID },
                  { data_for_a_write, "fault tcp/c2hdata/not-a-read 2 0\n", no_limits, 0 },
                  { gap, "fault tcp/c2hdata/datao 2 0\n", no_limits, 0 },
                  { gap, "", no_limits, TCP_C2H_CONTIG },
                  { too_much_data, "fault tcp/c2hdata/range 4 0\n", no_limits, 0 },
                  { data_after_last, "fault tcp/c2hdata/after-last 2 0\n", no_limits, 0 },
                  { data_after_last, "", no_limits, TCP_C2H_AFTER_LAST },
                  { no_last, "finding tcp/c2hdata/last\n", no_limits, 0 },
                  { odd_length, "fault tcp/c2hdata/datal-dword 1 16\n", no_limits, 0 },
                  { odd_length_of_bytes, "", no_limits, 0 });
        CHECK_ALL(
            { success, "", no_limits, 0 },
            { success_and_response, "fault tcp/c2hdata/success-or-response 1 8\n", no_limits, 0 },
            { success_and_data, "fault tcp/c2hdata/after-last 2 0\n", no_limits, 0 },
            { success_with_flow_control, "", no_limits, 0 },
            { success_where_one_was_refused, "", no_limits, 0 },
            { whole_identify, "", no_limits, 0 },
            { short_identify, "finding tcp/c2hdata/whole-transfer\n", no_limits, 0 },
            { no_identify, "finding tcp/c2hdata/whole-transfer\n", no_limits, 0 },
            { short_log, "finding tcp/c2hdata/whole-transfer\n", no_limits, 0 },
            { log_beyond_count, "", no_limits, 0 });
        check(&(struct expectation) { big_log, "", no_limits, 0 });
}

/* --- host to controller data ------------------------------------------------------------------ */

static void write_of(struct session *s, uint16_t cid, uint32_t len)
{
        say_cmd(s, an_io(cid, NVME_WRITE, SGL_TRANSPORT, len));
}

/* Two writes whose R2Ts and data mix. */
static void interleaved_writes(struct session *s)
{
        say_hello(s);
        write_of(s, 1, 16384);
        write_of(s, 2, 8192);
        say_r2t(s, 1, 0, 0, 8192);
        say_r2t(s, 2, 0xffff, 0, 8192);
        say_h2c(s, 1, 0, 0, 4096, 0);
        say_h2c(s, 2, 0xffff, 0, 8192, PDU_LAST);
        say_resp(s, 2, 3);
        say_h2c(s, 1, 0, 4096, 4096, PDU_LAST);
        say_r2t(s, 1, 0, 8192, 8192); /* the TTAG may be used again at once */
        say_h2c(s, 1, 0, 8192, 8192, PDU_LAST);
        say_resp(s, 1, 3);
}

static void r2t_of_nobody(struct session *s)
{
        say_hello(s);
        say_r2t(s, 1, 0, 0, 4096);
}

static void r2t_for_a_read(struct session *s)
{
        say_hello(s);
        read_8192(s, 1);
        say_r2t(s, 1, 0, 0, 4096);
}

static void r2t_for_a_capsule(struct session *s)
{
        say_hello(s);
        say_cmd(s, an_io(1, NVME_WRITE, SGL_IN_CAPSULE, 4096));
        say_r2t(s, 1, 0, 0, 4096);
}

static void r2t_gap(struct session *s)
{
        say_hello(s);
        write_of(s, 1, 8192);
        say_r2t(s, 1, 0, 4096, 4096);
}

static void r2t_past_buffer(struct session *s)
{
        say_hello(s);
        write_of(s, 1, 8192);
        say_r2t(s, 1, 0, 0, 8196);
}

static void r2ts(struct session *s, unsigned n)
{
        say_icreq(s, 0, 0, 2);
        say_icresp(s, 0, 0, 8192);
        say_cmd(s, a_connect(0, 1, 31));
        say_cqe(s, 0, 1, 0, 1);
        write_of(s, 1, 16384);
        for (unsigned i = 0; i < n; i++)
                say_r2t(s, 1, (uint16_t)i, 4096 * i, 4096);
}

static void two_r2ts(struct session *s)
{
        r2ts(s, 2);
}

static void three_r2ts(struct session *s)
{
        r2ts(s, 3);
}

static void four_r2ts(struct session *s)
{
        r2ts(s, 4);
}

static void two_open(struct session *s)
{
        say_icreq(s, 0, 0, 2);
        say_icresp(s, 0, 0, 131072);
        say_cmd(s, a_connect(0, 1, 31));
        say_cqe(s, 0, 1, 0, 1);
        write_of(s, 1, 16384);
        write_of(s, 2, 8192);
        say_r2t(s, 1, 1, 0, 8192);
        say_r2t(s, 1, 2, 8192, 8192);
        say_r2t(s, 2, 3, 0, 8192);
}

static void served_in_order(struct session *s)
{
        two_open(s);
        say_h2c(s, 1, 1, 0, 4096, 0);
        say_h2c(s, 2, 3, 0, 8192, PDU_LAST); /* another command's may come in between */
        say_h2c(s, 1, 1, 4096, 4096, PDU_LAST);
        say_h2c(s, 1, 2, 8192, 8192, PDU_LAST);
}

static void served_out_of_order(struct session *s)
{
        two_open(s);
        say_h2c(s, 1, 1, 0, 4096, 0);
        say_h2c(s, 1, 2, 8192, 8192, PDU_LAST);
}

static void same_ttag(struct session *s)
{
        say_hello(s);
        write_of(s, 1, 8192);
        write_of(s, 2, 8192);
        say_r2t(s, 1, 9, 0, 8192);
        say_r2t(s, 2, 9, 0, 8192);
        say_h2c(s, 2, 9, 0, 8192, PDU_LAST);
        say_resp(s, 2, 3);
}

static void same_ttag_served(struct session *s)
{
        same_ttag(s);
        say_h2c(s, 1, 9, 0, 8192, PDU_LAST);
        say_resp(s, 1, 3);
        say_h2c(s, 1, 9, 0, 8192, PDU_LAST);
}

static void odd_r2t(struct session *s)
{
        say_hello(s);
        write_of(s, 1, 8192);
        say_r2t(s, 1, 9, 0, 13);
}

static void odd_bytes_to_the_controller(struct session *s)
{
        say_connected(s, 0, 31);
        say_cmd(s, a_fabrics(1, FCTYPE_AUTH_SEND, SGL_TRANSPORT, 13));
        say_r2t(s, 1, 9, 0, 13);
        say_h2c(s, 1, 9, 0, 13, PDU_LAST);
        say_resp(s, 1, 2);
}

static void unsolicited(struct session *s)
{
        say_hello(s);
        write_of(s, 1, 8192);
        say_h2c(s, 1, 9, 0, 8192, PDU_LAST);
}

static void with_r2t(struct session *s)
{
        say_hello(s);
        write_of(s, 1, 16384);
        write_of(s, 2, 16384);
        say_r2t(s, 1, 9, 0, 16384);
}

static void wrong_ttag(struct session *s)
{
        with_r2t(s);
        say_h2c(s, 1, 10, 0, 8192, 0);
}

static void wrong_cccid(struct session *s)
{
        with_r2t(s);
        say_h2c(s, 2, 9, 0, 8192, 0);
        say_h2c(s, 1, 9, 8192, 8192, PDU_LAST);
}

static void h2c_gap(struct session *s)
{
        with_r2t(s);
        say_h2c(s, 1, 9, 4096, 4096, 0);
}

static void h2c_too_long(struct session *s)
{
        with_r2t(s);
        say_h2c(s, 1, 9, 0, 8196, 0);
}

static void h2c_too_long_and_past(struct session *s)
{
        with_r2t(s);
        say_h2c(s, 1, 9, 0, 16388, PDU_LAST);
}

static void h2c_past_r2t(struct session *s)
{
        with_r2t(s);
        say_h2c(s, 1, 9, 0, 8192, 0);
        say_h2c(s, 1, 9, 8192, 8192, PDU_LAST);
        say_r2t(s, 2, 10, 0, 4096);
        say_h2c(s, 2, 10, 0, 8192, PDU_LAST);
}

static void last_early(struct session *s)
{
        with_r2t(s);
        say_h2c(s, 1, 9, 0, 8192, PDU_LAST);
        say_h2c(s, 1, 9, 8192, 8192, PDU_LAST);
        say_resp(s, 1, 3);
}

static void last_missing(struct session *s)
{
        with_r2t(s);
        say_h2c(s, 1, 9, 0, 8192, 0);
        say_h2c(s, 1, 9, 8192, 8192, 0);
        say_resp(s, 1, 3);
}

static void odd_h2c(struct session *s)
{
        with_r2t(s);
        say_h2c(s, 1, 9, 0, 13, 0);
}

static void h2c_after_last(struct session *s)
{
        with_r2t(s);
        say_h2c(s, 1, 9, 0, 8192, 0);
        say_h2c(s, 1, 9, 8192, 8192, PDU_LAST);
        say_h2c(s, 1, 9, 8192, 8192, PDU_LAST);
}

/* The command failed while its data was under way. */
static void answered_too_soon(struct session *s)
{
        with_r2t(s);
        say_h2c(s, 1, 9, 0, 8192, 0);
        say_cqe(s, 1, 2, NVME_INTERNAL_ERROR, 0);
        say_h2c(s, 1, 9, 8192, 8192, PDU_LAST);
        say_r2t(s, 2, 9, 0, 8192);
        say_h2c(s, 2, 9, 0, 8192, PDU_LAST);
}

/* ... and the host sends no more of it. */
static void host_drops_an_r2t(struct session *s)
{
        with_r2t(s);
        say_cqe(s, 1, 2, NVME_INTERNAL_ERROR, 0);
        say_r2t(s, 2, 9, 0, 8192);
        say_h2c(s, 2, 9, 0, 8192, PDU_LAST);
}

/* A table of one R2T. */
static void orphans_make_room(struct session *s)
{
        with_r2t(s);
        say_cqe(s, 1, 2, NVME_INTERNAL_ERROR, 0);
        say_r2t(s, 2, 10, 0, 8192);
        say_h2c(s, 2, 10, 0, 8192, PDU_LAST);
}

static void two_writes_asked(struct session *s)
{
        with_r2t(s);
        say_r2t(s, 2, 10, 0, 8192);
}

static void h2c_data(void **state)
{
        const struct track_limits passive = { .passive = true }, one = { .r2ts_max = 1 };

        (void)state;
        CHECK_ALL({ interleaved_writes, "", no_limits, 0 },
                  { r2t_of_nobody, "fault tcp/r2t/cccid 1 8\n", no_limits, 0 },
                  { r2t_of_nobody, "", no_limits, TCP_R2T_CID },
                  { r2t_for_a_read, "fault tcp/r2t/cccid 1 8\n", no_limits, 0 },
                  { r2t_for_a_capsule, "fault tcp/r2t/cccid 1 8\n", no_limits, 0 },
                  { r2t_gap, "fault tcp/r2t/offset 2 0\n", no_limits, 0 },
                  { r2t_past_buffer, "fault tcp/r2t/range 1 16\n", no_limits, 0 },
                  { two_r2ts, "", no_limits, 0 },
                  { three_r2ts, "fault tcp/r2t/limit 5 0\n", no_limits, 0 },
                  { three_r2ts, "", no_limits, TCP_R2T_LIMIT }, { three_r2ts, "", passive, 0 },
                  { four_r2ts, "fault tcp/r2t/limit 5 0\n", passive, 0 },
                  { same_ttag, "fault tcp/r2t/ttag-unique 1 10\n", no_limits, 0 },
                  { same_ttag, "", no_limits, TCP_R2T_TTAG },
                  { same_ttag_served,
                    "finding tcp/r2t/ttag-unique\nfault tcp/h2cdata/unsolicited 2 0\n", passive,
                    0 },
                  { odd_r2t, "fault tcp/r2t/r2tl-dword 1 16\n", no_limits, 0 },
                  { odd_bytes_to_the_controller, "", no_limits, 0 },
                  { two_writes_asked, "fault tcp/r2t/limit 5 0\n", one, 0 },
                  { two_writes_asked, "", one, TCP_R2T_LIMIT }, { orphans_make_room, "", one, 0 });
        CHECK_ALL(
            { unsolicited, "fault tcp/h2cdata/unsolicited 2 0\n", no_limits, 0 },
            { wrong_ttag, "fault tcp/h2cdata/ttag 1 10\n", no_limits, 0 },
            { wrong_ttag, "", no_limits, TCP_H2C_TTAG },
            { wrong_cccid, "fault tcp/h2cdata/cccid 1 8\n", no_limits, 0 },
            { wrong_cccid, "", no_limits, TCP_H2C_CID },
            { h2c_gap, "fault tcp/h2cdata/datao 2 0\n", no_limits, 0 },
            { h2c_too_long, "fault tcp/h2cdata/maxh2cdata 5 0\n", no_limits, 0 },
            { h2c_too_long_and_past, "fault tcp/h2cdata/maxh2cdata-and-range 5 0\n", no_limits, 0 },
            { h2c_past_r2t, "fault tcp/h2cdata/range 4 0\n", no_limits, 0 },
            { h2c_past_r2t, "", no_limits, TCP_H2C_RANGE }, { served_in_order, "", no_limits, 0 },
            { served_out_of_order, "fault tcp/h2cdata/r2t-order 2 0\n", no_limits, 0 },
            { served_out_of_order, "", no_limits, TCP_H2C_ORDER },
            { last_early, "fault tcp/h2cdata/last-early 2 0\n", no_limits, 0 },
            { last_early, "", no_limits, TCP_H2C_LAST_EARLY },
            { last_missing, "fault tcp/h2cdata/last-missing 1 1\n", no_limits, 0 },
            { last_missing, "", no_limits, TCP_H2C_LAST_MISSING },
            { odd_h2c, "fault tcp/h2cdata/datal-dword 1 16\n", no_limits, 0 },
            { h2c_after_last, "fault tcp/h2cdata/unsolicited 2 0\n", no_limits, 0 },
            { answered_too_soon, "", no_limits, 0 }, { host_drops_an_r2t, "", no_limits, 0 });
}

static void r2ts_are_known(void **state)
{
        static struct session s;
        struct track_r2t *r;
        uint16_t ttag;

        (void)state;
        s = (struct session) { 0 };
        session_begin(&s);
        with_r2t(&s);
        r = track_r2t(s.judge, 9);
        assert_non_null(r);
        assert_ptr_equal(r->cmd, track_cmd(s.judge, 1));
        assert_int_equal(r->cmd->r2ts, 1);
        assert_int_equal(track_r2ts(s.judge), 1);
        assert_null(track_r2t(s.judge, 10));
        say_h2c(&s, 1, 9, 0, 8192, 0);
        assert_int_equal(r->next, 8192);
        assert_int_equal(track_last_cmd(s.judge)->h2c_got, 8192);
        say_cqe(&s, 1, 2, NVME_INTERNAL_ERROR, 0);
        assert_null(r->cmd);
        say_h2c(&s, 1, 9, 8192, 8192, PDU_LAST);
        assert_null(track_last_cmd(s.judge)); /* nobody wants it */
        assert_int_equal(track_r2ts(s.judge), 0);
        for (unsigned i = 0; i < 70000; i++) {
                ttag = track_free_ttag(s.judge);
                assert_null(track_r2t(s.judge, ttag));
        }
        session_end(&s);
}

/* --- digests ---------------------------------------------------------------------------------- */

static void bad_data_is_remembered(void **state)
{
        static struct session s;
        struct rule_set flip = { 0 };

        (void)state;
        rule_add(&flip, TCP_DDGST_C2H);
        s = (struct session) { .violated = &flip };
        session_begin(&s);
        say_icreq(&s, 0, PDU_DGST_DATA, 1);
        say_icresp(&s, 0, PDU_DGST_DATA, 8192);
        say_cmd(&s, a_connect(0, 1, 31));
        say_cqe(&s, 0, 1, 0, 1);
        read_8192(&s, 1);
        say_c2h(&s, 1, 0, 4096, 0);
        assert_true(track_cmd(s.judge, 1)->ddgst_bad);
        assert_int_equal(track_warning(s.judge).rule, TCP_DDGST_C2H);
        assert_int_equal(track_warning(s.judge).code, NVME_TRANSIENT_TRANSPORT);
        s.violated = NULL;
        say_c2h(&s, 1, 4096, 4096, PDU_LAST);
        assert_true(track_cmd(s.judge, 1)->ddgst_bad);
        say_resp(&s, 1, 2);
        assert_true(track_last_cmd(s.judge)->ddgst_bad);
        assert_int_equal(track_warning(s.judge).rule, RULE_NONE);
        session_end(&s);
}

/* --- Fabrics ---------------------------------------------------------------------------------- */

static void not_connected(struct session *s)
{
        say_icreq(s, 0, 0, 1);
        say_icresp(s, 0, 0, 8192);
        flushes(s, 1, 1);
        say_cqe(s, 1, 0, NVME_SEQUENCE_ERROR, 0);
}

static void connect_twice(struct session *s)
{
        say_hello(s);
        say_cmd(s, a_connect(1, 2, 31));
        say_cqe(s, 1, 2, NVME_SEQUENCE_ERROR, 0);
}

static void io_while_disabled(struct session *s)
{
        say_connected(s, 0, 31);
        say_cmd(s, a_command(1, NVME_KEEP_ALIVE, SGL_TRANSPORT, 0));
        say_cqe(s, 1, 2, NVME_SEQUENCE_ERROR, 0);
}

static void io_after_shutdown(struct session *s)
{
        say_admin(s);
        say_cmd(s, a_property(2, FCTYPE_PROPERTY_SET, PROP_CC, CC_EN | CC_SHN_NORMAL));
        say_resp(s, 2, 3);
        say_cmd(s, a_command(3, NVME_KEEP_ALIVE, SGL_TRANSPORT, 0));
        say_cqe(s, 3, 4, NVME_SEQUENCE_ERROR, 0);
}

static void property_on_io_queue(struct session *s)
{
        say_hello(s);
        say_cmd(s, a_property(1, FCTYPE_PROPERTY_GET, PROP_VS, 0));
        say_cqe(s, 1, 2, NVME_INVALID_FIELD, 0);
}

static void disconnect_admin(struct session *s)
{
        say_admin(s);
        say_cmd(s, a_fabrics(2, FCTYPE_DISCONNECT, SGL_TRANSPORT, 0));
        say_cqe(s, 2, 3, NVME_INVALID_QUEUE_TYPE, 0);
}

static void response_after_disconnect(struct session *s)
{
        say_hello(s);
        flushes(s, 1, 1);
        say_cmd(s, a_fabrics(2, FCTYPE_DISCONNECT, SGL_TRANSPORT, 0));
        say_resp(s, 2, 3);
        say_resp(s, 1, 3);
}

static void result_of_nothing(struct session *s)
{
        say_hello(s);
        flushes(s, 1, 2);
        say_cqe(s, 1, 2, 0, 1);
        say_cqe(s, 2, 3, NVME_INTERNAL_ERROR, 1); /* of failures nobody says so */
}

static void connect_refused(struct session *s, uint16_t status, uint64_t result)
{
        say_icreq(s, 0, 0, 1);
        say_icresp(s, 0, 0, 8192);
        say_cmd(s, a_connect(0, 1, 31));
        say_cqe(s, 0, 0, status, result);
}

static void refused_with_ipo(struct session *s)
{
        connect_refused(s, NVME_CONNECT_PARAM, 256 | CONNECT_IATTR_DATA);
}

static void refused_with_field(struct session *s)
{
        connect_refused(s, NVME_INVALID_FIELD, 0);
}

static void refused_with_junk(struct session *s)
{
        connect_refused(s, NVME_CONNECT_HOST, 1);
}

static void fabrics(void **state)
{
        (void)state;
        CHECK_ALL(
            { not_connected, "finding fab/connect/first\n", no_limits, 0 },
            { connect_twice, "finding fab/connect/once\n", no_limits, 0 },
            { io_while_disabled, "finding fab/ready/enabled\n", no_limits, 0 },
            { io_after_shutdown, "finding fab/shutdown/after\n", no_limits, 0 },
            { property_on_io_queue, "finding fab/property/admin-only\n", no_limits, 0 },
            { disconnect_admin, "finding fab/disconnect/admin-queue\n", no_limits, 0 },
            { response_after_disconnect, "finding fab/disconnect/last-response\n", no_limits, 0 },
            { result_of_nothing, "finding fab/queue/dw0-zero\n", no_limits, 0 },
            { refused_with_ipo, "", no_limits, 0 },
            { refused_with_field, "finding fab/connect/not-invalid-field\n", no_limits, 0 },
            { refused_with_junk, "finding fab/connect/response-reserved\n", no_limits, 0 });
}

static void say_aer(struct session *s, uint16_t cid)
{
        say_cmd(s, a_command(cid, NVME_AER, SGL_TRANSPORT, 0));
}

static void say_cc(struct session *s, uint16_t cid, uint16_t sqhd, uint32_t cc)
{
        say_cmd(s, a_property(cid, FCTYPE_PROPERTY_SET, PROP_CC, cc));
        say_resp(s, cid, sqhd);
}

/* AERs vanish at a Controller Reset: their CIDs may be used again, and they don't fill the queue.
 * A controller that answers them after all does no harm. */
static void reset_takes_aers_away(struct session *s)
{
        say_admin(s);
        say_aer(s, 10);
        say_aer(s, 11);
        say_cc(s, 2, 5, 0);
        say_cc(s, 3, 6, CC_EN);
        say_aer(s, 10);
        say_cqe(s, 11, 7, NVME_ABORT_REQUESTED, 0);
        say_cqe(s, 10, 7, 0, AEN_NOTICE | LOG_CHANGED_NS << 16);
}

static void many_resets(struct session *s)
{
        uint16_t cid = 100, sqhd = 2;

        say_admin(s);
        for (unsigned i = 0; i < 40; i++) {
                for (unsigned n = 0; n < 4; n++)
                        say_aer(s, cid++);
                sqhd = (uint16_t)((sqhd + 6) % 32);
                say_cc(s, 2, (uint16_t)((sqhd + 31) % 32), 0);
                say_cc(s, 3, sqhd, CC_EN);
        }
}

static void say_csts(struct session *s, uint16_t cid, uint16_t sqhd, uint32_t csts)
{
        say_cmd(s, a_property(cid, FCTYPE_PROPERTY_GET, PROP_CSTS, 0));
        say_cqe(s, cid, sqhd, 0, csts);
}

/* So they do once the host has read that the controller is shut down. */
static void shutdown_takes_aers_away(struct session *s)
{
        say_admin(s);
        say_aer(s, 10);
        say_csts(s, 2, 4, CSTS_SHST_OCCURS);
        say_csts(s, 3, 5, CSTS_SHST_COMPLETE);
        say_aer(s, 10);
}

static void shutdown_goes_on(struct session *s)
{
        say_admin(s);
        say_aer(s, 10);
        say_csts(s, 2, 4, CSTS_SHST_OCCURS);
        say_aer(s, 10);
}

static void resets(void **state)
{
        (void)state;
        CHECK_ALL({ reset_takes_aers_away, "", no_limits, 0 }, { many_resets, "", no_limits, 0 },
                  { shutdown_takes_aers_away, "", no_limits, 0 },
                  { shutdown_goes_on, "fault tcp/capsule/command-cid 3 0\n", no_limits, 0 });
}

/* --- termination ------------------------------------------------------------------------------ */

static void talk_after_term(struct session *s)
{
        say_hello(s);
        flushes(s, 1, 1);
        say_term(s, PARTY_CONTROLLER, 72);
        say_resp(s, 1, 2);
        say_resp(s, 77, 2); /* nothing else is judged */
}

static void host_talks_after_term(struct session *s)
{
        say_hello(s);
        say_term(s, PARTY_HOST, 24);
        flushes(s, 1, 1);
        flushes(s, 1, 1);
}

static void no_copy(struct session *s)
{
        say_hello(s);
        say_term(s, PARTY_CONTROLLER, 0);
}

static void termination(void **state)
{
        (void)state;
        CHECK_ALL(
            { talk_after_term,
              "finding tcp/termreq/quiet-after-fault\nfinding tcp/termreq/quiet-after-fault\n",
              no_limits, 0 },
            { host_talks_after_term, "", no_limits, 0 },
            { no_copy, "finding tcp/termreq/copy-c2h\n", no_limits, 0 });
}

/* --- findings --------------------------------------------------------------------------------- */

static void the_gravest_comes_first(void **state)
{
        struct track_limits limits = { .findings = true };
        union pdu h = { .ch = { .type = PDU_ICREQ, .flags = 0x20 } };
        struct track *t = track_new(&limits, NULL);

        (void)state;
        pdu_lay_out(&h, track_format(t, PARTY_HOST), 0);
        h.icreq.rsvd[0] = 1;
        assert_false(is_fault(track_header(t, PARTY_HOST, &h)));
        assert_true(rule_in(track_findings(t), TCP_FLAGS_H2C)); /* the lowest of the reserved */
        assert_int_equal(track_warning(t).rule, TCP_FLAGS_H2C);
        h = (union pdu) { .ch = { .type = PDU_CAPSULE_CMD, .flags = 0x20 } };
        h.cmd.sqe = an_io(1, NVME_READ, SGL_KEYED, 512);
        pdu_lay_out(&h, track_format(t, PARTY_HOST), 0);
        assert_false(is_fault(track_header(t, PARTY_HOST, &h)));
        assert_true(rule_in(track_findings(t), TCP_FLAGS_H2C)); /* should */
        assert_true(rule_in(track_findings(t), TCP_SGL_TYPE));  /* must */
        assert_int_equal(rule_get(track_warning(t).rule)->level, LEVEL_MUST);
        track_free(t);
}

/* Endpoints don't ask for them. */
static void findings_are_for_those_who_ask(void **state)
{
        static struct session s;

        (void)state;
        s = (struct session) { 0 };
        session_begin(&s);
        track_free(s.judge);
        s.judge = track_new(&(struct track_limits) { 0 }, NULL);
        not_connected(&s);
        assert_true(rule_set_empty(&s.reported));
        session_end(&s);
}

/* --- anything at all -------------------------------------------------------------------------- */

static void random_pdu(uint64_t *seed, union pdu *h)
{
        static const uint8_t types[] = { PDU_CAPSULE_CMD, PDU_CAPSULE_CMD, PDU_CAPSULE_RESP,
                                         PDU_H2C_DATA,    PDU_C2H_DATA,    PDU_R2T,
                                         PDU_R2T,         PDU_H2C_DATA };
        static const uint8_t opcodes[] = { NVME_WRITE, NVME_READ,     NVME_FLUSH, NVME_FABRICS,
                                           NVME_AER,   NVME_IDENTIFY, 0x82,       0xc1 };
        uint32_t r = splits_rand(seed);

        for (size_t i = 8; i < sizeof(*h); i++)
                h->bytes[i] = (uint8_t)(splits_rand(seed) % 5);
        h->ch = (struct pdu_ch) { .type = types[r % 8], .flags = (uint8_t)(r >> 3 & 0xc) };
        if (r % 512 == 0)
                h->ch.type = (uint8_t)(r >> 9 & 0xf);
        if (h->ch.type == PDU_CAPSULE_CMD) {
                h->cmd.sqe.opc = opcodes[r >> 8 & 7];
                h->cmd.sqe.cid = le16((uint16_t)(splits_rand(seed) % 40 * 4096));
                h->cmd.sqe.sgl.id = r & 0x10000 ? SGL_TRANSPORT : SGL_IN_CAPSULE;
                h->cmd.sqe.sgl.len = le32(splits_rand(seed) % 3 ? 64 : splits_rand(seed) * 2);
        } else if (h->ch.type == PDU_CAPSULE_RESP) {
                h->resp.cqe.cid = le16((uint16_t)(splits_rand(seed) % 40 * 4096));
                h->resp.cqe.sf = le16(r & 0x10000 ? 0 : 4);
        } else {
                h->data.cccid = le16((uint16_t)(splits_rand(seed) % 40 * 4096));
                h->data.ttag = le16((uint16_t)(splits_rand(seed) % 16 * 256));
                h->data.offset = le32(splits_rand(seed) % 4 ? 0 : splits_rand(seed) * 2);
                h->data.length = le32(splits_rand(seed) % 3 ? 32 : splits_rand(seed) * 2);
        }
}

static void tracker_of_anything(uint64_t *seed, const struct rule_set *waived, unsigned pdus)
{
        struct track_limits limits = { 40, 10, true, splits_rand(seed) & 1 };
        struct track *t = track_new(&limits, waived);
        union pdu h;

        assert_non_null(t);
        for (unsigned i = 0; i < pdus; i++) {
                const struct pdu_info *info;
                enum party sender;

                random_pdu(seed, &h);
                if (i < 2)
                        h.ch.type = i == 0 ? PDU_ICREQ : PDU_ICRESP;
                info = pdu_info(h.ch.type);
                sender = info && splits_rand(seed) % 64 ? info->sender : PARTY_HOST;
                pdu_lay_out(&h, track_format(t, sender), 0);
                (void)track_header(t, sender, &h);
                (void)track_warning(t);
                (void)track_pdu(t, sender, &h, splits_rand(seed) % 8 == 0);
                assert_in_range(track_outstanding(t), 0, 70000);
                assert_in_range(track_r2ts(t), 0, 10);
        }
        track_free(t);
}

static void anything_does_no_harm(void **state)
{
        struct rule_set waived;
        uint64_t seed = 20260102;

        (void)state;
        memset(&waived, 0xff, sizeof(waived));
        for (unsigned i = 0; i < random_rounds(200); i++) {
                tracker_of_anything(&seed, NULL, 400);
                tracker_of_anything(&seed, &waived, 400);
                for (size_t w = 0; w < sizeof(waived.bits) / sizeof(waived.bits[0]); w++)
                        waived.bits[w] =
                            (uint64_t)splits_rand(&seed) << 32 | splits_rand(&seed) * 2;
        }
}

/* Whole sessions of which bits are flipped here and there. */
static void flipped_bits_do_no_harm(void **state)
{
        static script_fn *const scripts[] = { interleaved_writes, interleaved_reads, success,
                                              answered_too_soon,  many_resets,       any_cid };
        static struct session s;
        struct rule_set all;

        (void)state;
        memset(&all, 0xff, sizeof(all));
        for (unsigned i = 0; i < random_rounds(1200); i++) {
                s = (struct session) {
                        .waived = i & 1 ? &all : NULL, .seed = i, .flips = true, .cut = 3000
                };
                session_begin(&s);
                scripts[i % 6](&s);
                session_end(&s);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(set_up),
                cmocka_unit_test(what_was_negotiated),
                cmocka_unit_test(maxr2t_saturates),
                cmocka_unit_test(mid_stream),
                cmocka_unit_test(capsules),
                cmocka_unit_test(submission_queue),
                cmocka_unit_test(depth_is_bounded),
                cmocka_unit_test(commands_stay_where_they_are),
                cmocka_unit_test(c2h_data),
                cmocka_unit_test(h2c_data),
                cmocka_unit_test(r2ts_are_known),
                cmocka_unit_test(bad_data_is_remembered),
                cmocka_unit_test(fabrics),
                cmocka_unit_test(resets),
                cmocka_unit_test(termination),
                cmocka_unit_test(the_gravest_comes_first),
                cmocka_unit_test(findings_are_for_those_who_ask),
                cmocka_unit_test(anything_does_no_harm),
                cmocka_unit_test(flipped_bits_do_no_harm),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
