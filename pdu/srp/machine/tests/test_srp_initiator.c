/* SPDX-License-Identifier: BSD-3-Clause */
/* The initiator's machine, without verbs: what it sends breaks no rule, and what comes does to it what it has to. */
#include "pdu/core/tests/check.h"

#include <stdlib.h>

#include "pdu/srp/machine/channel.h"
#include "pdu/srp/machine/srp_initiator.h"

enum { DEPTH = 4, LIMIT = 5, IMM_AT = 68, DATA = 4096, KEY = 0x1234 };

static struct world {
        struct srp_initiator *i;
        struct srp_channel channel; /* looks on */
        struct rule_set found;
        struct verbs_wr *recv; /* posted */
        uint8_t *memory;
        struct srp_initiator_config cfg;
        uint8_t data[DATA];
        unsigned done;
} w;

static void *get_memory(void *user, size_t bytes, uint32_t *lkey, uint32_t *rkey)
{
        (void)user;
        *lkey = 1;
        *rkey = 2;
        return w.memory = calloc(1, bytes);
}

static bool keys(void *user, const void *data, uint32_t len, uint32_t *rkey)
{
        (void)user;
        *rkey = KEY;
        return (const uint8_t *)data >= w.data && (const uint8_t *)data + len <= w.data + DATA;
}

static void start_with(uint32_t it_iu, const struct rule_policy *policy)
{
        static const struct srp_initiator_ops ops = { get_memory, keys };
        struct rule_set unused = { 0 };

        memset(&w, 0, sizeof(w));
        w.cfg = (struct srp_initiator_config) {
                .asked = { .opcode = SRP_LOGIN_REQ,
                           .tag = be64(1),
                           .req_it_iu_len = be32(it_iu),
                           .req_buf_fmt = be16(SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT),
                           .req_flags = SRP_IMMEDIATE,
                           .imm_data_offset = be16(IMM_AT) },
                .granted = { .opcode = SRP_LOGIN_RSP,
                             .req_lim_delta = be32(LIMIT),
                             .tag = be64(1),
                             .max_it_iu_len = be32(it_iu),
                             .max_ti_iu_len = be32(100),
                             .buf_fmt = be16(SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT),
                             .rsp_flags = SRP_IMMEDIATE },
                .depth = DEPTH,
                .policy = policy,
        };
        srp_channel_init(&w.channel);
        srp_channel_login(&w.channel, &w.cfg.asked, 64, true, &unused);
        srp_channel_accept(&w.channel, &w.cfg.granted, 52, &unused);
        w.i = srp_initiator_new(&w.cfg, &ops, NULL);
        assert_non_null(w.i);
        w.recv = srp_initiator_take_recvs(w.i);
        assert_non_null(w.recv);
}

static void start(void)
{
        start_with(8260, NULL);
}

static void stop(void)
{
        srp_initiator_fail_all(w.i);
        srp_initiator_free(w.i);
        free(w.memory);
}

/* What is sent, IU by IU; NULL: nothing. The last one is copied to iu. */
static struct verbs_wr *take(uint8_t iu[SRP_PIECES_MAX * 256])
{
        struct verbs_wr *wr = srp_initiator_take(w.i);

        for (struct verbs_wr *at = wr; at; at = at->next) {
                assert_int_equal(at->op, VERBS_SEND);
                assert_int_equal(at->n_sge, 1);
                memcpy(iu, at->sge[0].addr, at->sge[0].len);
                srp_channel_iu(&w.channel, PARTY_HOST, iu, at->sge[0].len, &w.found);
        }
        return wr;
}

static bool completed(struct verbs_wr *wr, enum verbs_status status)
{
        return srp_initiator_completed(w.i, &(struct verbs_wc) { .wr = wr, .status = status });
}

/* An IU of the target; true: the channel has to end. */
static bool receive(const void *iu, uint32_t n)
{
        struct verbs_wr *wr = w.recv;
        bool ends;

        w.recv = wr->next;
        memcpy(wr->sge[0].addr, iu, n);
        srp_channel_iu(&w.channel, PARTY_CONTROLLER, iu, n, &w.found);
        ends = srp_initiator_completed(
            w.i, &(struct verbs_wc) { .wr = wr, .status = VERBS_SUCCESS, .bytes = n });
        wr = srp_initiator_take_recvs(w.i);
        assert_non_null(wr); /* goes back */
        wr->next = w.recv;
        w.recv = wr;
        return ends;
}

static struct srp_rsp response(uint64_t tag)
{
        return (struct srp_rsp) { .opcode = SRP_RSP, .req_lim_delta = be32(1), .tag = be64(tag) };
}

static void on_done(struct srp_request_out *r, void *user)
{
        (void)r;
        (void)user;
        w.done++;
}

static struct srp_request_out request(enum srp_direction direction, uint32_t len)
{
        return (struct srp_request_out) { .cdb = { direction == SRP_OUT  ? SCSI_WRITE_10
                                                   : direction == SRP_IN ? SCSI_READ_10
                                                                         : SCSI_TEST_UNIT_READY },
                                          .lun = scsi_lun_of(3),
                                          .direction = direction,
                                          .data = w.data,
                                          .len = len,
                                          .done = on_done };
}

/* --- what is sent ----------------------------------------------------------------------------- */

static void test_each_form(void **state)
{
        static const struct {
                enum srp_form form;
                enum srp_direction direction;
                uint32_t len, it_iu;
                unsigned pieces;
                enum srp_format format;
                uint32_t in_line, entries;
        } rows[] = {
                { SRP_FORM_DIRECT, SRP_NOTHING, 0, 8260, 0, SRP_NO_DATA, 0, 0 },
                { SRP_FORM_DIRECT, SRP_OUT, 512, 8260, 0, SRP_DIRECT, 0, 0 },
                { SRP_FORM_DIRECT, SRP_IN, 512, 8260, 0, SRP_DIRECT, 0, 0 },
                { SRP_FORM_INDIRECT, SRP_OUT, 512, 8260, 0, SRP_INDIRECT, 2, 2 },
                { SRP_FORM_INDIRECT, SRP_IN, 4096, 8260, 7, SRP_INDIRECT, 7, 7 },
                { SRP_FORM_INDIRECT, SRP_IN, 3, 8260, 64, SRP_INDIRECT, 3, 3 },
                { SRP_FORM_INDIRECT, SRP_IN, 4096, 100, 9, SRP_INDIRECT, 2, 2 }, /* no more fit */
                { SRP_FORM_INDIRECT, SRP_IN, 4096, 64, 9, SRP_DIRECT, 0, 0 },
                { SRP_FORM_EXTERNAL, SRP_IN, 4096, 8260, 64, SRP_INDIRECT, 1, 64 },
                { SRP_FORM_EXTERNAL, SRP_OUT, 4096, 100, 9, SRP_INDIRECT, 1, 9 },
                { SRP_FORM_IMMEDIATE, SRP_OUT, 4096, 8260, 0, SRP_IMMEDIATE_DATA, 0, 0 },
                { SRP_FORM_IMMEDIATE, SRP_IN, 4096, 8260, 0, SRP_DIRECT, 0, 0 },
                { SRP_FORM_IMMEDIATE, SRP_OUT, 4096, 100, 0, SRP_DIRECT, 0, 0 },
        };
        static uint8_t iu[SRP_PIECES_MAX * 256];

        (void)state;
        for (unsigned k = 0; k < COUNT(rows); k++) {
                struct srp_request_out r;
                struct srp_cmd_parts parts;
                const struct srp_data *d;
                struct verbs_wr *wr;
                struct rule_set found = { 0 };

                start_with(rows[k].it_iu, NULL);
                r = request(rows[k].direction, rows[k].len);
                r.form = rows[k].form;
                r.pieces = rows[k].pieces;
                assert_int_equal(srp_initiator_submit(w.i, &r), 0);
                wr = take(iu);
                assert_true(srp_cmd_read(iu, wr->sge[0].len, IMM_AT, &parts, &found));
                d = rows[k].direction == SRP_OUT ? &parts.out : &parts.in;
                assert_int_equal(d->format, rows[k].format);
                assert_int_equal(d->in_line, rows[k].in_line);
                assert_int_equal(d->len, rows[k].len);
                if (d->format == SRP_INDIRECT)
                        assert_int_equal(d->desc.len, rows[k].entries * SRP_DESC_LEN);
                if (d->format == SRP_DIRECT)
                        assert_int_equal(d->desc.key, KEY);
                assert_true(rule_set_empty(&w.found) && rule_set_empty(&found));
                stop();
        }
}

static void test_memory_that_nobody_knows(void **state)
{
        static uint8_t unknown[512];
        struct srp_request_out r;

        (void)state;
        start();
        r = request(SRP_OUT, sizeof(unknown));
        r.data = unknown;
        assert_int_equal(srp_initiator_submit(w.i, &r), -1);
        assert_false(srp_initiator_wants_post(w.i));
        r.form = SRP_FORM_IMMEDIATE; /* needs none */
        assert_int_equal(srp_initiator_submit(w.i, &r), 0);
        stop();
}

/* --- the limit -------------------------------------------------------------------------------- */

static void test_limit(void **state)
{
        static uint8_t iu[SRP_PIECES_MAX * 256];
        struct srp_request_out r[LIMIT + 1], tm = { .function = SRP_TM_LUN_RESET, .done = on_done };
        struct srp_cred_req more = { .opcode = SRP_CRED_REQ,
                                     .req_lim_delta = be32(3),
                                     .tag = be64(9) };
        struct srp_rsp rsp;
        struct verbs_wr *sent;
        unsigned n = 0;

        (void)state;
        start();
        for (; n <= LIMIT; n++) {
                r[n] = request(SRP_NOTHING, 0);
                if (srp_initiator_submit(w.i, &r[n]) < 0)
                        break;
        }
        assert_int_equal(n, LIMIT - 1); /* one is for task management */
        assert_int_equal(srp_initiator_submit(w.i, &tm), 0);
        tm.done = on_done;
        sent = take(iu);
        assert_true(rule_set_empty(&w.found));
        /* its request for credits is answered, once */
        assert_false(receive(&more, sizeof(more)));
        assert_non_null(take(iu));
        assert_int_equal(iu[0], SRP_CRED_RSP);
        assert_int_equal(be_get(iu + 8, 8), 9);
        assert_int_equal(srp_initiator_submit(w.i, &r[n]), -1); /* its depth */
        rsp = response(r[0].tag);
        assert_false(receive(&rsp, sizeof(rsp)));
        assert_int_equal(w.done, 1);
        assert_int_equal(r[0].outcome, SRP_DONE);
        assert_int_equal(srp_initiator_submit(w.i, &r[n]), 0);
        assert_true(sent && rule_set_empty(&w.found));
        assert_non_null(take(iu));
        stop();
        assert_int_equal(w.done, 1 + LIMIT);
        assert_int_equal(r[1].outcome, SRP_LOST);
}

/* Its place is not another request's before its SEND has completed, too. */
static void test_response_before_its_send_has_completed(void **state)
{
        static uint8_t iu[SRP_PIECES_MAX * 256];
        struct srp_request_out a, b;
        struct verbs_wr *first, *second;
        struct srp_rsp rsp;

        (void)state;
        start();
        a = request(SRP_NOTHING, 0);
        b = a;
        assert_int_equal(srp_initiator_submit(w.i, &a), 0);
        first = take(iu);
        rsp = response(a.tag);
        assert_false(receive(&rsp, sizeof(rsp)));
        assert_int_equal(srp_initiator_submit(w.i, &b), 0);
        second = take(iu);
        assert_ptr_not_equal(first, second);
        assert_int_not_equal(a.tag, b.tag);
        assert_false(completed(first, VERBS_SUCCESS));
        assert_true(completed(second, VERBS_RETRY_EXCEEDED));
        stop();
}

/* --- what comes ------------------------------------------------------------------------------- */

static void test_what_a_response_says(void **state)
{
        static uint8_t iu[SRP_PIECES_MAX * 256];
        static const struct scsi_sense sense = { .key = SCSI_ILLEGAL_REQUEST, .asc = SCSI_ASC_LBA };
        struct srp_request_out r;
        uint8_t p[36 + SCSI_SENSE_LEN];
        struct srp_rsp rsp;

        (void)state;
        start();
        r = request(SRP_IN, 512);
        assert_int_equal(srp_initiator_submit(w.i, &r), 0);
        assert_non_null(take(iu));
        rsp = response(r.tag);
        rsp.flags = SRP_SNSVALID | SRP_DIUNDER;
        rsp.status = SCSI_CHECK;
        rsp.in_residual = be32(512);
        rsp.sense_len = be32(SCSI_SENSE_LEN);
        memcpy(p, &rsp, sizeof(rsp));
        scsi_sense_put(p + 36, &sense);
        assert_false(receive(p, sizeof(p)));
        assert_int_equal(r.status, SCSI_CHECK);
        assert_true(r.has_sense && r.sense.asc == SCSI_ASC_LBA);
        assert_int_equal(r.in_residual, 512);
        assert_false(r.has_response);
        r = (struct srp_request_out) { .function = SRP_TM_ABORT_TASK, .done = on_done };
        assert_int_equal(srp_initiator_submit(w.i, &r), 0);
        assert_non_null(take(iu));
        rsp = response(r.tag);
        rsp.flags = SRP_RSPVALID;
        rsp.resp_len = be32(4);
        memcpy(p, &rsp, sizeof(rsp));
        memcpy(p + 36, "\0\0\0\5", 4);
        assert_false(receive(p, 40));
        assert_true(r.has_response && r.response == 5);
        assert_true(rule_set_empty(&w.found));
        stop();
}

static void test_events_and_logouts(void **state)
{
        static uint8_t iu[SRP_PIECES_MAX * 256];
        const struct srp_aer_req event = { .opcode = SRP_AER_REQ, .tag = be64(4) };
        const struct srp_t_logout logout = { .opcode = SRP_T_LOGOUT, .reason = be32(4) };
        struct srp_request_out r;
        uint32_t reason;

        (void)state;
        start();
        assert_false(receive(&event, sizeof(event)));
        assert_non_null(take(iu));
        assert_int_equal(iu[0], SRP_AER_RSP);
        assert_false(srp_initiator_is_left(w.i, &reason));
        assert_true(receive(&logout, sizeof(logout)));
        assert_true(srp_initiator_is_left(w.i, &reason));
        assert_int_equal(reason, 4);
        r = request(SRP_NOTHING, 0);
        assert_int_equal(srp_initiator_submit(w.i, &r), -1);
        stop();
        start();
        srp_initiator_logout(w.i);
        assert_non_null(take(iu));
        assert_int_equal(iu[0], SRP_I_LOGOUT);
        assert_true(rule_set_empty(&w.found));
        stop();
}

/* What ends the channel, unless that is waived; whatever the bytes are, no more than that. */
static void test_targets_that_do_wrong(void **state)
{
        static const struct {
                enum srp_rule rule;
                uint8_t iu[48], n;
        } rows[] = {
                { SRP_TAG_RESPONSE, { SRP_RSP, [15] = 99 }, 36 },
                { SRP_TYPE_T, { 0x55 }, 36 },
                { SRP_TYPE_T, { SRP_CMD }, 48 },
                { SRP_LENGTH_T, { SRP_RSP }, 35 },
                { SRP_RSP_PARTS, { SRP_RSP, [18] = SRP_SNSVALID, [28] = 0xff }, 36 },
        };

        (void)state;
        for (unsigned k = 0; k < COUNT(rows); k++) {
                struct rule_policy policy = { 0 };
                struct verbs_wr *wr;

                for (unsigned waived = 0; waived < 2; waived++) {
                        start_with(8260, &policy);
                        wr = w.recv;
                        memcpy(wr->sge[0].addr, rows[k].iu, rows[k].n);
                        assert_int_equal(
                            srp_initiator_completed(
                                w.i, &(struct verbs_wc) { .wr = wr, .bytes = rows[k].n }),
                            rows[k].rule == SRP_RSP_PARTS ? true : !waived);
                        if (!waived)
                                assert_int_equal(srp_initiator_fault(w.i), rows[k].rule);
                        rule_add(&policy.waived, rows[k].rule);
                        stop();
                }
        }
}

static void test_any_bytes(void **state)
{
        uint64_t seed = 3;

        (void)state;
        for (unsigned k = 0; k < 20000; k++) {
                struct verbs_wc wc = { 0 };
                struct srp_request_out r;

                start();
                r = request(SRP_NOTHING, 0);
                (void)srp_initiator_submit(w.i, &r);
                (void)srp_initiator_take(w.i);
                wc.wr = w.recv;
                wc.bytes = (uint32_t)(random_next(&seed) % 100);
                random_fill(&seed, wc.wr->sge[0].addr, wc.bytes);
                *(uint8_t *)wc.wr->sge[0].addr =
                    (uint8_t)srp_info_at((unsigned)(random_next(&seed) % 12))->type;
                if (random_next(&seed) % 2)
                        be_put((uint8_t *)wc.wr->sge[0].addr + 8, 8, r.tag);
                (void)srp_initiator_completed(w.i, &wc);
                stop();
        }
}

static void test_violations(void **state)
{
        static uint8_t iu[SRP_PIECES_MAX * 256];
        static const enum srp_rule rules[] = { SRP_TYPE_I,          SRP_LENGTH_I,
                                               SRP_RESERVED_I,      SRP_CMD_CDB,
                                               SRP_CMD_DESCRIPTORS, SRP_CMD_ATTRIBUTE,
                                               SRP_TAG_UNIQUE };

        (void)state;
        for (unsigned k = 0; k < COUNT(rules); k++) {
                struct rule_policy policy = { 0 };
                struct srp_request_out r;

                rule_add(&policy.violated, rules[k]);
                start_with(8260, &policy);
                r = request(SRP_OUT, 512);
                assert_int_equal(srp_initiator_submit(w.i, &r), 0);
                assert_non_null(take(iu));
                if (!rule_in(&w.found, rules[k]))
                        fail_msg("%s is not broken", srp_rule_get(rules[k])->id);
                stop();
        }
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_form),
                cmocka_unit_test(test_memory_that_nobody_knows),
                cmocka_unit_test(test_limit),
                cmocka_unit_test(test_response_before_its_send_has_completed),
                cmocka_unit_test(test_what_a_response_says),
                cmocka_unit_test(test_events_and_logouts),
                cmocka_unit_test(test_targets_that_do_wrong),
                cmocka_unit_test(test_any_bytes),
                cmocka_unit_test(test_violations),
        };

        return cmocka_run_group_tests_name("srp_initiator", tests, NULL, NULL);
}
