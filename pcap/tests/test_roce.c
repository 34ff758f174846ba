/* SPDX-License-Identifier: BSD-3-Clause */
/* The RoCEv2 capture with packets repeated, reordered, refused and lost: what is told of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "capfile.h"
#include "pcap/nvme/family.h"
#include "pdu/io/tests/memory_file.h"

enum { RXE = 2, BTH = 14 + 20 + 8 };
enum { CM = 0x64, CM_REQ = 0x10, CM_REJ = 0x12, CM_REP = 0x13, ATTRIBUTE = 12 + 8 + 17 };

static char path[MEMORY_FILE], err[256];
static struct capfile c;

static int set_up(void **state)
{
        (void)state;
        cap_load(&c, captures[RXE]);
        return memory_file(path);
}

static int tear_down(void **state)
{
        (void)state;
        cap_free(&c);
        return 0;
}

static struct {
        unsigned commands, responses, reads, ended, cut, writes, gaps;
        uint64_t lost;
} seen;

static void on_event(void *user, const struct trace_event *e)
{
        (void)user;
        if (e->kind == TRACE_CAPSULE)
                *(e->sender == PARTY_HOST ? &seen.commands : &seen.responses) += 1;
        seen.reads += e->kind == TRACE_READ;
        seen.ended += e->kind == TRACE_READ_END;
        seen.cut += e->kind == TRACE_READ_END && e->memory.cut;
        seen.writes += e->kind == TRACE_WRITE;
        seen.gaps += e->kind == TRACE_GAP;
        if (e->kind == TRACE_GAP)
                seen.lost += e->gap.packets;
}

static struct trace_totals trace(void)
{
        struct trace_totals totals;

        memset(&seen, 0, sizeof(seen));
        assert_int_equal(
            trace_read(path, &nvme_capture, NULL, on_event, NULL, &totals, err, sizeof(err)), 0);
        return totals;
}

static void assert_all_seen(void)
{
        assert_int_equal(seen.commands, 75);
        assert_int_equal(seen.responses, 73);
        assert_int_equal(seen.reads, 6);
        assert_int_equal(seen.ended, 6);
        assert_int_equal(seen.cut, 0);
        assert_int_equal(seen.writes, 32);
        assert_int_equal(seen.gaps, 0);
}

static FILE *begin(void)
{
        FILE *f = fopen(path, "wb");

        assert_non_null(f);
        fwrite(c.bytes, 1, CAP_HEAD, f);
        return f;
}

static void put(FILE *f, unsigned i)
{
        fwrite(c.bytes + c.at[i], 1, c.at[i + 1] - c.at[i], f);
}

static const uint8_t *bth(unsigned i)
{
        size_t n = c.at[i + 1] - c.at[i] - CAP_PACKET_HEAD;
        const uint8_t *p = c.bytes + c.at[i] + CAP_PACKET_HEAD;

        return n > BTH + 12 && p[12] == 8 && p[23] == 17 ? p + BTH : NULL;
}

/* A packet of a reliable connection that is no answer. */
static bool is_request(unsigned i)
{
        const uint8_t *p = bth(i);

        return p && p[0] < 24 && !(p[0] >= 13 && p[0] <= 18);
}

static uint32_t psn_of(unsigned i)
{
        return (uint32_t)(bth(i)[9] << 16 | bth(i)[10] << 8 | bth(i)[11]);
}

static void test_as_it_is(void **state)
{
        struct trace_totals totals;

        (void)state;
        cap_write_bytes(path, c.bytes, c.len);
        totals = trace();
        assert_all_seen();
        assert_int_equal(totals.repeated, 0);
}

/* Each packet twice, connection management too. */
static void test_repeated(void **state)
{
        struct trace_totals totals;
        FILE *f = begin();

        (void)state;
        for (unsigned i = 0; i < c.packets; i++) {
                put(f, i);
                if (bth(i) && bth(i)[0] != 0x64)
                        put(f, i);
        }
        fclose(f);
        totals = trace();
        assert_all_seen();
        assert_true(totals.repeated > 700);
}

/* The CM repeats what is slow: the requests come again when 20 other packets have been sent. */
static void test_requests_again(void **state)
{
        enum { LATER = 20 };
        unsigned again = 0;
        struct trace_totals once, totals;
        FILE *f;

        (void)state;
        cap_write_bytes(path, c.bytes, c.len);
        once = trace();
        f = begin();
        for (unsigned i = 0; i < c.packets; i++) {
                const uint8_t *p = i >= LATER ? bth(i - LATER) : NULL;

                put(f, i);
                if (!p || p[0] != CM || p[ATTRIBUTE] != CM_REQ)
                        continue;
                put(f, i - LATER);
                again++;
        }
        fclose(f);
        totals = trace();
        assert_true(again >= once.conns);
        assert_int_equal(totals.conns, once.conns);
        assert_int_equal(totals.strange, once.strange);
        assert_int_equal(totals.gaps, 0);
        assert_all_seen();
}

/* Two packets of one message change places. */
static void test_reordered(void **state)
{
        unsigned swapped = 0;
        FILE *f = begin();

        (void)state;
        for (unsigned i = 0; i < c.packets; i++) {
                if (i + 1 < c.packets && is_request(i) && is_request(i + 1) &&
                    psn_of(i + 1) == psn_of(i) + 1 && memcmp(bth(i) + 5, bth(i + 1) + 5, 3) == 0) {
                        put(f, i + 1);
                        put(f, i++);
                        swapped++;
                } else {
                        put(f, i);
                }
        }
        fclose(f);
        (void)trace();
        assert_true(swapped > 250);
        assert_all_seen();
}

/* The network lost a packet before the capture: what comes after it is refused and comes again. */
static void test_refused(void **state)
{
        uint8_t nak[BTH + 16 + 4];
        unsigned refused = 0;
        FILE *f = begin();

        (void)state;
        for (unsigned i = 0; i < c.packets; i++) {
                if (i + 2 < c.packets && is_request(i) && is_request(i + 1) &&
                    psn_of(i + 1) == psn_of(i) + 1 && memcmp(bth(i) + 5, bth(i + 1) + 5, 3) == 0) {
                        struct {
                                uint32_t sec, usec, n, whole;
                        } head;

                        memcpy(&head, c.bytes + c.at[i], sizeof(head));
                        head.n = head.whole = sizeof(nak);
                        /* the receiver's answer: addresses turned round, NAK of the missing PSN; its
                         * queue pair has the same number as the sender's in this capture */
                        memcpy(nak, c.bytes + c.at[i] + CAP_PACKET_HEAD, BTH + 12);
                        memcpy(nak + 26, c.bytes + c.at[i] + CAP_PACKET_HEAD + 30, 4);
                        memcpy(nak + 30, c.bytes + c.at[i] + CAP_PACKET_HEAD + 26, 4);
                        nak[16] = 0;
                        nak[17] = sizeof(nak) - 14;
                        nak[38] = 0;
                        nak[39] = sizeof(nak) - 34;
                        nak[BTH] = 17;
                        nak[BTH + 1] = 0;
                        memset(nak + BTH + 12, 0, 8);
                        nak[BTH + 12] = 0x60;
                        put(f, i + 1); /* ahead of its turn, with something wrong in it */
                        fwrite(&head, 1, sizeof(head), f);
                        fwrite(nak, 1, sizeof(nak), f);
                        put(f, i);
                        put(f, i + 1);
                        i++;
                        refused++;
                } else {
                        put(f, i);
                }
        }
        fclose(f);
        (void)trace();
        assert_true(refused > 250);
        assert_all_seen();
}

/* Each request in turn is the one that is missing: one packet, or the connection says nothing more. */
static void test_one_lost(void **state)
{
        unsigned lost = 0, told = 0;

        (void)state;
        for (unsigned missing = 0; missing < c.packets; missing += 3) {
                FILE *f;

                if (!is_request(missing))
                        continue;
                f = begin();
                for (unsigned i = 0; i < c.packets; i++)
                        if (i != missing)
                                put(f, i);
                fclose(f);
                (void)trace();
                lost++;
                told += seen.gaps > 0;
                assert_true(seen.lost <= 128);
                assert_true(seen.commands >= 74 && seen.responses >= 72);
        }
        assert_true(lost > 200);
        assert_true(told + 2 >= lost);
}

/* Without connection management the pairs are found by what acknowledges what, once there was a response:
 * of each, its first command with its data and answer is gone. */
static void test_without_management(void **state)
{
        struct trace_totals totals;
        FILE *f = begin();

        (void)state;
        for (unsigned i = 0; i < c.packets; i++)
                if (bth(i) && bth(i)[0] != 0x64)
                        put(f, i);
        fclose(f);
        totals = trace();
        assert_int_equal(totals.conns, 4);
        assert_true(totals.strange <= 4 * 6);
        assert_in_range(seen.commands, 75 - 8, 75);
        assert_in_range(seen.responses, 73 - 4, 73);
}

enum { FIRST_CONN = 80 };

static void put_changed(FILE *f, unsigned i, size_t at, uint32_t value, size_t n)
{
        uint8_t packet[9000];
        size_t len = c.at[i + 1] - c.at[i], head = (size_t)(bth(i) - (c.bytes + c.at[i]));

        assert_true(len <= sizeof(packet));
        memcpy(packet, c.bytes + c.at[i], len);
        for (size_t k = 0; k < n; k++)
                packet[head + at + k] = (uint8_t)(value >> 8 * (n - 1 - k));
        fwrite(packet, 1, len, f);
}

/* Of a connection that was rejected no PSN is known: packets of the same queue pairs, whose PSNs are just below 0, are not
 * taken for what it sent. */
static void test_after_a_rejection(void **state)
{
        FILE *f = begin();
        uint32_t shift = 0;

        (void)state;
        for (unsigned i = 0; i < FIRST_CONN; i++) {
                if (!bth(i))
                        continue;
                if (bth(i)[0] == 0x64 && bth(i)[ATTRIBUTE] == CM_REP) {
                        put_changed(f, i, ATTRIBUTE, CM_REJ, 1);
                } else if (bth(i)[0] == 0x64) {
                        put(f, i);
                } else {
                        shift = shift ? shift : 0xfffe00 - psn_of(i);
                        put_changed(f, i, 9, (psn_of(i) + shift) & 0xffffff, 3);
                }
        }
        fclose(f);
        assert_int_equal(trace().repeated, 0);
        assert_true(seen.commands > 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_as_it_is),          cmocka_unit_test(test_repeated),
                cmocka_unit_test(test_reordered),         cmocka_unit_test(test_refused),
                cmocka_unit_test(test_one_lost),          cmocka_unit_test(test_without_management),
                cmocka_unit_test(test_after_a_rejection), cmocka_unit_test(test_requests_again),
        };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}
