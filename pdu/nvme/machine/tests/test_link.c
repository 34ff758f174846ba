/* SPDX-License-Identifier: BSD-3-Clause */
/* A link against another: output in any pieces, negotiation, termination, and the hand-driven kind.
 */
#include "pair.h"
#include "stream.h"

struct end {
        struct link l;
        uint8_t *buf;
        unsigned sent, headers, pdus, faults;
        union pdu last;
        uint8_t data[PDU_TERM_MAX];
        struct ending *ending; /* on purpose */
};

static void count_sent(struct tx *tx, void *user)
{
        struct end *e = user;

        assert_non_null(tx);
        e->sent++;
}

static void end_init(struct end *e, enum party side, bool manual, const struct rule_policy *policy)
{
        struct link_config cfg = {
                .side = side,
                .policy = policy,
                .limits = { .depth_max = 32, .r2ts_max = 8 },
                .manual = manual,
        };

        memset(e, 0, sizeof(*e));
        assert_int_equal(link_init(&e->l, &cfg, e), 0);
        e->buf = malloc(FRAMER_BUFFER_MIN);
        framer_attach(&e->l.rx, e->buf, FRAMER_BUFFER_MIN);
}

static void end_fini(struct end *e)
{
        link_fini(&e->l);
        free(e->buf);
}

static void take_events(struct end *e)
{
        for (;;) {
                switch (link_next(&e->l)) {
                case FRAMER_MORE:
                        return;
                case FRAMER_FAULT:
                        e->faults++;
                        return;
                case FRAMER_HEADER:
                        e->headers++;
                        break;
                case FRAMER_PDU:
                        e->pdus++;
                        e->last = *framer_header(&e->l.rx);
                        if (framer_data(&e->l.rx) && framer_data_len(&e->l.rx) <= sizeof(e->data))
                                memcpy(e->data, framer_data(&e->l.rx), framer_data_len(&e->l.rx));
                        break;
                }
        }
}

static void move(struct end *from, struct end *to, size_t most)
{
        size_t n;

        while ((n = flow(&from->l, &to->l, most)) > 0) {
                link_received(&to->l, n);
                take_events(to);
        }
}

static struct tx tx_of(void *head, const void *data, uint32_t len)
{
        return (struct tx) { .head = head, .data = data, .data_len = len, .sent = count_sent };
}

/* Both ends live, with all digests and HPDA 17, CPDA 31. */
static void negotiate(struct end *host, struct end *controller)
{
        union pdu req = { .icreq = { .ch.type = PDU_ICREQ, .hpda = 17, .dgst = 3 } };
        union pdu resp = {
                .icresp = { .ch.type = PDU_ICRESP, .cpda = 31, .dgst = 3, .maxh2cdata = le32(4096) }
        };
        struct tx tx = tx_of(&req, NULL, 0);

        assert_int_equal(host->l.state, LINK_CONNECTING);
        link_send(&host->l, &tx);
        move(host, controller, 0);
        tx = tx_of(&resp, NULL, 0);
        link_send(&controller->l, &tx);
        assert_int_equal(controller->l.state, LINK_LIVE);
        move(controller, host, 0);
        assert_int_equal(host->l.state, LINK_LIVE);
        host->pdus = controller->pdus = host->sent = controller->sent = 0;
}

static union pdu capsule(uint16_t cid, uint8_t opc, uint32_t len, uint8_t sgl_id)
{
        union pdu h = { .cmd = { .ch.type = PDU_CAPSULE_CMD } };

        h.cmd.sqe.opc = opc;
        h.cmd.sqe.cid = le16(cid);
        h.cmd.sqe.sgl = (struct sgl) { .len = le32(len), .id = sgl_id };
        return h;
}

static void open_ends(struct end *host, struct end *controller)
{
        end_init(host, PARTY_HOST, false, NULL);
        end_init(controller, PARTY_CONTROLLER, false, NULL);
        negotiate(host, controller);
}

static void any_piece_of_output(void **state)
{
        static const uint8_t data[600] = { 1, 2, 3 };
        struct end host, controller;

        (void)state;
        for (size_t most = 1; most < 900; most += most < 10 ? 1 : 83) {
                union pdu h[3];
                struct tx tx[3];

                open_ends(&host, &controller);
                for (uint16_t i = 0; i < 3; i++) {
                        uint32_t len = i * 300u;

                        h[i] = capsule(i, NVME_WRITE, len, len ? SGL_IN_CAPSULE : SGL_TRANSPORT);
                        tx[i] = tx_of(&h[i], data, len);
                        link_send(&host.l, &tx[i]);
                }
                assert_true(link_wants_send(&host.l));
                move(&host, &controller, most);
                assert_false(link_wants_send(&host.l));
                assert_int_equal(host.sent, 3);
                assert_int_equal(controller.pdus, 3);
                assert_int_equal(controller.headers, 4);
                assert_false(framer_ddgst_bad(&controller.l.rx));
                assert_int_equal(le32_get(controller.last.ch.plen), 128 + 600 + 4);
                end_fini(&host);
                end_fini(&controller);
        }
}

static void few_iovecs_are_enough(void **state)
{
        union pdu h = capsule(1, NVME_WRITE, 512, SGL_IN_CAPSULE);
        static const uint8_t data[512];
        struct end host, controller;
        struct tx tx = tx_of(&h, data, 512);
        struct iovec iov[8];

        (void)state;
        open_ends(&host, &controller);
        assert_int_equal(link_send_iov(&host.l, iov, 8), 0);
        link_send(&host.l, &tx);
        assert_int_equal(link_send_iov(&host.l, iov, 8), 4);
        assert_int_equal(iov[0].iov_len, 76);
        assert_int_equal(iov[1].iov_len, 128 - 76);
        assert_ptr_equal(iov[2].iov_base, data);
        assert_int_equal(iov[3].iov_len, 4);
        assert_int_equal(link_send_iov(&host.l, iov, 1), 1);
        link_sent(&host.l, 76 + 52 + 100);
        assert_int_equal(link_send_iov(&host.l, iov, 8), 2);
        assert_ptr_equal(iov[0].iov_base, data + 100);
        end_fini(&host);
        end_fini(&controller);
}

static void a_violator_may_send_twice_or_nothing(void **state)
{
        struct rule_policy policy = { 0 };
        union pdu h = { .icreq = { .ch.type = PDU_ICREQ } };
        union pdu cmd = capsule(5, NVME_FLUSH, 0, SGL_TRANSPORT);
        struct tx tx = tx_of(&h, NULL, 0), next = tx_of(&cmd, NULL, 0);
        struct end host, controller;

        (void)state;
        rule_add(&policy.violated, TCP_ICREQ_ONCE);
        end_init(&host, PARTY_HOST, false, &policy);
        end_init(&controller, PARTY_CONTROLLER, true, NULL);
        link_send(&host.l, &tx);
        link_send(&host.l, &next); /* all three PDUs leave at once */
        move(&host, &controller, 0);
        assert_int_equal(host.sent, 2);
        assert_int_equal(controller.pdus, 3);
        assert_int_equal(controller.last.ch.type, PDU_CAPSULE_CMD);
        assert_int_equal(controller.l.fault.rule, TCP_ICREQ_ONCE);
        end_fini(&host);
        end_fini(&controller);
}

static void termreq_ends_it(void **state)
{
        union pdu h = capsule(5, NVME_READ, 512, SGL_TRANSPORT);
        struct tx tx = tx_of(&h, NULL, 0);
        struct end host, controller;
        struct iovec iov[2];

        (void)state;
        open_ends(&host, &controller);
        link_send(&host.l, &tx);
        move(&host, &controller, 0);
        link_terminate(&controller.l, rule_fault(TCP_ICD_LIMIT));
        assert_int_equal(controller.l.state, LINK_TERMINATING);
        link_terminate(&controller.l, rule_fault(TCP_H2C_TTAG)); /* too late */
        assert_int_equal(controller.l.fault.rule, TCP_ICD_LIMIT);
        link_send(&controller.l, &tx); /* nor does anything follow */
        move(&controller, &host, 7);
        assert_int_equal(controller.l.state, LINK_CLOSING);
        assert_true(link_term_sent(&controller.l));
        assert_int_equal(host.l.state, LINK_CLOSING);
        assert_false(link_term_sent(&host.l));
        assert_int_equal(host.l.peer_term.fes, 1);
        assert_int_equal(host.l.peer_term.fei, 4);
        assert_int_equal(host.last.ch.type, PDU_C2H_TERM);
        assert_int_equal(le32_get(host.last.ch.plen), 24);
        /* what still comes is read, and dropped */
        assert_int_equal(link_recv_iov(&controller.l, iov), 1);
        assert_int_equal(iov[0].iov_len, FRAMER_BUFFER_MIN);
        link_received(&controller.l, 100);
        assert_int_equal(link_next(&controller.l), FRAMER_MORE);
        link_kill(&controller.l);
        link_close(&controller.l);
        assert_int_equal(controller.l.state, LINK_DEAD);
        end_fini(&host);
        end_fini(&controller);
}

/* --- driven by hand --------------------------------------------------------------------------- */

static void manual_only_notes_faults(void **state)
{
        union pdu h = capsule(5, NVME_READ, 512, SGL_TRANSPORT);
        union pdu resp = { .resp = { .ch.type = PDU_CAPSULE_RESP } };
        struct tx tx = tx_of(&h, NULL, 0);
        struct end host, controller;
        uint8_t head[28];

        (void)state;
        end_init(&host, PARTY_HOST, true, NULL);
        end_init(&controller, PARTY_CONTROLLER, true, NULL);
        negotiate(&host, &controller);
        link_send(&host.l, &tx);
        move(&host, &controller, 0);
        resp.resp.cqe.cid = le16(77);
        memcpy(head, &resp, 24);
        tx = tx_of(head, NULL, 0);
        link_send(&controller.l, &tx); /* no assertion: it may do that */
        move(&controller, &host, 0);
        assert_int_equal(host.l.fault.rule, TCP_RESP_CID);
        assert_int_equal(host.l.state, LINK_LIVE);
        assert_int_equal(host.pdus, 1);
        assert_false(link_wants_send(&host.l));

        link_terminate(&host.l, rule_fault(TCP_RESP_CID)); /* sends it, and stays */
        move(&host, &controller, 0);
        assert_int_equal(host.l.state, LINK_LIVE);
        assert_true(controller.l.peer_term.seen);
        assert_int_equal(controller.l.state, LINK_LIVE);
        assert_int_equal(controller.last.ch.type, PDU_H2C_TERM);
        end_fini(&host);
        end_fini(&controller);
}

static void manual_ends_where_the_stream_does(void **state)
{
        uint8_t junk[8] = { 0x08, 0, 8, 0, 8 };
        struct tx tx = { .head = junk, .head_len = 8, .sent = count_sent };
        struct end host, controller;

        (void)state;
        end_init(&host, PARTY_HOST, true, NULL);
        end_init(&controller, PARTY_CONTROLLER, true, NULL);
        link_send_raw(&host.l, &tx);
        move(&host, &controller, 3);
        assert_int_equal(host.sent, 1);
        assert_int_equal(controller.faults, 1);
        assert_int_equal(controller.l.fault.rule, TCP_TYPE_H2C);
        assert_int_equal(link_next(&controller.l), FRAMER_FAULT);
        assert_int_equal(controller.l.state, LINK_CONNECTING);
        assert_false(link_wants_send(&controller.l));
        link_close(&controller.l);
        assert_int_equal(link_next(&controller.l), FRAMER_MORE);
        link_send_raw(&controller.l, &tx);
        assert_false(link_wants_send(&controller.l));
        end_fini(&host);
        end_fini(&controller);
}

/* --- ends on purpose -------------------------------------------------------------------------- */

struct ending {
        enum tx_end how;
        uint32_t at;
        unsigned asked; /* PDUs */
};

static void end_second(void *user, struct tx *tx, struct spoil *s)
{
        struct ending *e = ((struct end *)user)->ending;

        assert_ptr_equal(s->h, tx->head);
        if (++e->asked == 2) {
                tx->end = e->how;
                tx->end_at = e->at;
        }
}

/* Two capsules of 672 bytes, with digests and alignment: what the controller gets before the end. */
static size_t bytes_until_end(enum tx_end how, uint32_t at, size_t most, enum link_state state)
{
        static const uint8_t data[512] = { 1, 2, 3 };
        struct ending e = { .how = how, .at = at };
        struct end host, controller;
        size_t n, sum = 0, one;
        union pdu h[3];
        struct tx tx[3];

        open_ends(&host, &controller);
        host.ending = &e;
        host.l.sending = end_second;
        for (uint16_t i = 0; i < 3; i++) {
                h[i] = capsule(i, NVME_WRITE, sizeof(data), SGL_IN_CAPSULE);
                tx[i] = tx_of(&h[i], data, sizeof(data));
                link_send(&host.l, &tx[i]);
        }
        one = le32_get(h[0].ch.plen);
        while ((n = flow(&host.l, &controller.l, most)) > 0) {
                link_received(&controller.l, n);
                take_events(&controller);
                sum += n;
        }
        assert_int_equal(e.asked, 3);
        assert_int_equal(host.l.state, state);
        assert_int_equal(host.sent, 1);
        assert_false(link_wants_send(&host.l));
        assert_int_equal(controller.pdus, sum >= 2 * one ? 2 : 1);
        end_fini(&host);
        end_fini(&controller);
        assert_true(sum >= one);
        return sum - one;
}

static void an_end_within_a_pdu(void **state)
{
        size_t whole = bytes_until_end(TX_CLOSES, TX_WHOLE, 0, LINK_CLOSING);

        (void)state;
        assert_true(whole > 512 + 72);
        for (size_t most = 0; most < 700; most += 233)
                for (uint32_t at = 0; at < whole; at += at < 80 ? 1 : 101)
                        assert_int_equal(bytes_until_end(TX_RESETS, at, most, LINK_DEAD), at);
        assert_int_equal(bytes_until_end(TX_CLOSES, TX_HALF, 1, LINK_CLOSING), whole / 2);
        assert_int_equal(bytes_until_end(TX_CLOSES, (uint32_t)whole, 7, LINK_CLOSING), whole);
}

/* What is queued is sent, what comes then is not; nothing is received. */
static void an_end_after_what_is_queued(void **state)
{
        struct end host, controller;
        union pdu h[3];
        struct tx tx[3];

        (void)state;
        open_ends(&host, &controller);
        for (uint16_t i = 0; i < 3; i++) {
                h[i] = capsule(i, NVME_FLUSH, 0, SGL_TRANSPORT);
                tx[i] = tx_of(&h[i], NULL, 0);
                if (i == 2)
                        link_finish(&host.l, TX_CLOSES);
                link_send(&host.l, &tx[i]);
        }
        assert_int_equal(host.l.state, LINK_TERMINATING);
        link_finish(&host.l, TX_RESETS); /* it ends already */
        move(&host, &controller, 5);
        assert_int_equal(controller.pdus, 2);
        assert_int_equal(host.l.state, LINK_CLOSING);
        link_finish(&controller.l, TX_RESETS);
        assert_int_equal(controller.l.state, LINK_DEAD);
        end_fini(&host);
        end_fini(&controller);

        open_ends(&host, &controller);
        link_finish(&controller.l, TX_CLOSES);
        assert_int_equal(controller.l.state, LINK_CLOSING);
        end_fini(&host);
        end_fini(&controller);
}

/* Who ends within a PDU that is queued keeps to that. */
static void an_end_within_comes_first(void **state)
{
        struct ending e = { .how = TX_RESETS, .at = 4, .asked = 1 };
        struct end host, controller;
        union pdu h = capsule(0, NVME_FLUSH, 0, SGL_TRANSPORT);
        struct tx tx = tx_of(&h, NULL, 0);

        (void)state;
        open_ends(&host, &controller);
        host.ending = &e;
        host.l.sending = end_second;
        link_send(&host.l, &tx);
        link_finish(&host.l, TX_CLOSES);
        assert_int_equal(flow(&host.l, &controller.l, 0), 4);
        assert_int_equal(flow(&host.l, &controller.l, 0), 0);
        assert_int_equal(host.l.state, LINK_DEAD);
        end_fini(&host);
        end_fini(&controller);
}

static void names(void **state)
{
        (void)state;
        assert_string_equal(link_state_name(LINK_CONNECTING), "connecting");
        assert_string_equal(link_state_name(LINK_DEAD), "dead");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(any_piece_of_output),
                cmocka_unit_test(few_iovecs_are_enough),
                cmocka_unit_test(a_violator_may_send_twice_or_nothing),
                cmocka_unit_test(termreq_ends_it),
                cmocka_unit_test(manual_only_notes_faults),
                cmocka_unit_test(manual_ends_where_the_stream_does),
                cmocka_unit_test(an_end_within_a_pdu),
                cmocka_unit_test(an_end_after_what_is_queued),
                cmocka_unit_test(an_end_within_comes_first),
                cmocka_unit_test(names),
        };

        return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
