/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Linux kernel's host and target, as captured in pdu/io/tests/captures: both directions of
 * every connection through framer and tracker. Whatever they do that we call a fault is our
 * mistake.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pdu/io/capture/capture.h"
#include "pdu/nvme/tcp/framer.h"
#include "pdu/nvme/tcp/track.h"

struct tally {
        unsigned pdus[PDU_TYPES], connections, digests;
        unsigned broken[RULES]; /* how often */
};

struct checked_conn {
        struct framer framer[2];
        struct track *track;
        uint8_t *buf[2];
};

static void opened(void *user, struct capture_conn *cc, const struct capture_place *at)
{
        static const struct track_limits limits = { .findings = true, .passive = true };
        struct tally *tally = user;
        struct checked_conn *c = calloc(1, sizeof(*c));

        (void)at;
        assert_non_null(c);
        assert_false(cc->midstream);
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++) {
                framer_init(&c->framer[p], p, NULL);
                c->buf[p] = malloc(FRAMER_BUFFER_MIN);
                framer_attach(&c->framer[p], c->buf[p], FRAMER_BUFFER_MIN);
        }
        c->track = track_new(&limits, NULL);
        assert_non_null(c->track);
        cc->user = c;
        tally->connections++;
}

static void closed(void *user, struct capture_conn *cc, const struct capture_place *at)
{
        struct checked_conn *c = cc->user;

        (void)user, (void)at;
        track_free(c->track);
        free(c->buf[PARTY_HOST]);
        free(c->buf[PARTY_CONTROLLER]);
        free(c);
}

static void broke(struct tally *t, enum rule_id rule, const struct capture_place *at)
{
        if (t->broken[rule]++ == 0)
                print_message("frame %llu: %s: %s\n", (unsigned long long)at->frame,
                              rule_get(rule)->id, rule_get(rule)->says);
}

static void judge(struct tally *t, const struct track *track, struct fault fault,
                  const struct capture_place *at)
{
        if (is_fault(fault))
                broke(t, fault.rule, at);
        rule_each (rule)
                if (rule_in(track_findings(track), rule))
                        broke(t, rule, at);
}

static void whole(struct tally *t, struct checked_conn *c, enum party sender, const union pdu *h,
                  const struct capture_place *at)
{
        struct framer *f = &c->framer[sender];

        /* findings of the header are still there */
        judge(t, c->track, track_pdu(c->track, sender, h, framer_ddgst_bad(f)), at);
        t->pdus[h->ch.type]++;
        t->digests += (h->ch.flags & PDU_HDGSTF) != 0;
        if (h->ch.type != PDU_ICRESP)
                return;
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                framer_negotiated(&c->framer[p], track_format(c->track, p));
}

static void take_events(struct tally *t, struct checked_conn *c, enum party sender,
                        const struct capture_place *at)
{
        struct framer *f = &c->framer[sender];
        const union pdu *h = framer_header(f);
        struct fault fault;

        for (;;) {
                switch (framer_next(f)) {
                case FRAMER_HEADER:
                        fault = track_header(c->track, sender, h);
                        if (is_fault(fault))
                                broke(t, fault.rule, at);
                        break;
                case FRAMER_PDU:
                        whole(t, c, sender, h, at);
                        break;
                case FRAMER_FAULT:
                        broke(t, framer_fault(f).rule, at);
                        return;
                case FRAMER_MORE:
                        return;
                }
        }
}

static void data(void *user, struct capture_conn *cc, enum party sender, const uint8_t *p, size_t n,
                 const struct capture_place *at)
{
        struct checked_conn *c = cc->user;
        struct framer *f = &c->framer[sender];

        while (n > 0 && !is_fault(framer_fault(f))) {
                size_t len = framer_feed(f, p, n);

                take_events(user, c, sender, at);
                p += len;
                n -= len;
        }
}

static void gap(void *user, struct capture_conn *cc, enum party sender, uint32_t n,
                const struct capture_place *at)
{
        (void)user, (void)cc, (void)sender;
        fail_msg("frame %llu: %u bytes are missing", (unsigned long long)at->frame, n);
}

/* Controllers are at the ports of NVMe/TCP. */
static bool is_service(void *user, uint16_t port)
{
        (void)user;
        return port == NVME_TCP_PORT || port == NVME_DISC_PORT;
}

static struct tally check(const char *name)
{
        static const struct capture_ops ops = {
                .opened = opened, .data = data, .gap = gap, .closed = closed, .service = is_service
        };
        char path[512], err[200];
        struct tally t = { 0 };

        snprintf(path, sizeof(path), "%s/pdu/io/tests/captures/%s", SOURCE_DIR, name);
        if (capture_read(path, &ops, &t, err, sizeof(err)) != 0)
                fail_msg("%s", err);
        for (unsigned type = 0; type < PDU_TYPES; type++)
                if (t.pdus[type] > 0)
                        print_message("%-12s %u\n", pdu_info((uint8_t)type)->name, t.pdus[type]);
        return t;
}

/*
 * The numbers of the captures' README. nvmet fills in SQID in the responses of its I/O queues,
 * where Fabrics reserves it (TCP_RESP_RSVD, a should); nothing else is to be found.
 */
static void expect_traffic(const struct tally *t, unsigned responses)
{
        assert_int_equal(t->connections, 4);
        assert_int_equal(t->pdus[PDU_ICREQ], 4);
        assert_int_equal(t->pdus[PDU_ICRESP], 4);
        assert_int_equal(t->pdus[PDU_CAPSULE_CMD], 75);
        assert_int_equal(t->pdus[PDU_CAPSULE_RESP], responses);
        assert_int_equal(t->pdus[PDU_R2T], 4);
        assert_int_equal(t->pdus[PDU_H2C_DATA], 4);
        assert_int_equal(t->pdus[PDU_C2H_DATA], 32);
        rule_each (rule)
                assert_int_equal(t->broken[rule], rule == TCP_RESP_RSVD ? 25 : 0);
}

static void linux_without_digests(void **state)
{
        struct tally t = check("nvme-tcp-6.12.pcap");

        (void)state;
        expect_traffic(&t, 75);
        assert_int_equal(t.digests, 0);
}

/* Here the AER of the I/O controller has no answer: the connection ends first. */
static void linux_with_digests(void **state)
{
        struct tally t = check("nvme-tcp-digest-6.12.pcap");

        (void)state;
        expect_traffic(&t, 74);
        assert_int_equal(t.digests, 155); /* all but those of the discovery connection */
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(linux_without_digests),
                cmocka_unit_test(linux_with_digests),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
