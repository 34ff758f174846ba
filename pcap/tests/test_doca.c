/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A DOCA session in a capture: the control channel is found by its framing, in each dialect; its blobs, where they are ours,
 * name the RDMA connections on which the I/O messages are then read.
 */
#include "doca_capture.h"

static void assert_nothing(const struct check_counts *counts, const char *where)
{
        if (counts->of[GRADE_MUST] + counts->of[GRADE_SHOULD] + counts->of[GRADE_ADVICE] +
                counts->unproven >
            0)
                fail_msg("%s: %s", where, out);
}

static void test_good_sessions(void **state)
{
        (void)state;
        for (unsigned i = 0; i < DOCA_VERSIONS * WAYS; i++) {
                struct check_counts counts;
                struct trace_totals totals;
                struct scene s;

                begin(&s, (enum doca_version)(i / WAYS), (enum way)(i % WAYS));
                set_up(&s);
                request(&s, false, 0xabc, 0x1000, 4096);
                request(&s, true, 0xabd, 0x2000, 4096);
                stop(&s);
                exchange(&s, (struct doca_msg) { .kind = DOCA_SHUTDOWN }, (struct doca_msg) { 0 });
                end(&s);
                counts = check(NULL, &totals);
                assert_int_equal(totals.conns, 3);
                assert_int_equal(totals.gaps, 0);
                assert_int_equal(totals.strange, 0);
                assert_nothing(&counts, s.d->name);
        }
}

static void test_wrong_control_messages(void **state)
{
        struct check_counts counts;
        struct trace_totals totals;
        struct scene s;

        (void)state;
        begin(&s, DOCA_3_2, BY_NUMBERS);
        exchange(&s, (struct doca_msg) { .kind = DOCA_QUERY },
                 (struct doca_msg) { .total_size = 1000, .block_size = 512 });
        exchange(&s, (struct doca_msg) { .kind = DOCA_STOP }, (struct doca_msg) { 0 });
        end(&s);
        counts = check(NULL, &totals);
        assert_int_equal(counts.of[GRADE_MUST], 2);
        assert_int_equal(count_of("\"rule\":\"doca/query/size\""), 1);
        assert_int_equal(count_of("\"bound\":\"target\""), 1);
        assert_int_equal(count_of("\"rule\":\"doca/order/stage\""), 1);
        assert_int_equal(count_of("\"bound\":\"service\""), 1);
}

/* Blobs of others name nothing: the channel is read, and no queue pair is. */
static void test_foreign_blobs(void **state)
{
        static const uint8_t blob[] = "a library's";
        struct doca_bytes foreign = { blob, sizeof(blob) };
        struct check_counts counts;
        struct trace_totals totals;
        struct scene s;

        (void)state;
        begin(&s, DOCA_3_2, BY_NUMBERS);
        exchange(&s, (struct doca_msg) { .kind = DOCA_QUERY },
                 (struct doca_msg) { .total_size = 1 << 20, .block_size = 512 });
        exchange(
            &s,
            (struct doca_msg) { .kind = DOCA_INIT, .transactions = 1, .cores = 1, .data = foreign },
            (struct doca_msg) { 0 });
        exchange(&s, (struct doca_msg) { .kind = DOCA_CREATE, .data = foreign },
                 (struct doca_msg) { .data = foreign });
        end(&s);
        counts = check(NULL, &totals);
        assert_int_equal(totals.conns, 1);
        assert_int_equal(counts.of[GRADE_MUST], 0);
}

/* A blob of each kind names no two ends: nothing is learned of them. */
static void test_blobs_of_two_kinds(void **state)
{
        struct trace_totals totals;

        (void)state;
        for (int i = 0; i < 2; i++) {
                struct doca_end numbers, cm;
                uint8_t one[DOCA_END_BLOB], other[DOCA_END_BLOB];
                struct scene s;

                begin(&s, DOCA_3_2, BY_CM);
                cm = end_of(&s, DOCA_IO_DATA, PARTY_HOST);
                s.way = BY_NUMBERS;
                numbers = end_of(&s, DOCA_IO_DATA, PARTY_HOST);
                doca_end_write(i ? &numbers : &cm, one);
                doca_end_write(i ? &cm : &numbers, other);
                initialise(&s);
                exchange(&s,
                         (struct doca_msg) { .kind = DOCA_CREATE, .data = { one, sizeof(one) } },
                         (struct doca_msg) { .data = { other, sizeof(other) } });
                end(&s);
                (void)check(NULL, &totals);
                assert_int_equal(totals.conns, 1);
        }
}

/* A size that is none, and what cannot be this protocol. */
static void test_bad_frames_and_others(void **state)
{
        static const uint8_t bad[] = { 0, 0, 0, 1 }, other[] = "GET / HTTP/1.1\r\n\r\n";
        struct trace_totals totals;
        struct scene s;

        (void)state;
        begin(&s, DOCA_3_2, BY_NUMBERS);
        exchange(&s, (struct doca_msg) { .kind = DOCA_QUERY },
                 (struct doca_msg) { .total_size = 1 << 20, .block_size = 512 });
        capture_flow_data(s.w, &s.f, PARTY_HOST, bad, sizeof(bad), tick(&s));
        end(&s);
        (void)check(NULL, &totals);
        assert_found(DOCA_SIZE_S, "a frame of 1 byte");

        begin(&s, DOCA_3_2, BY_NUMBERS);
        capture_flow_data(s.w, &s.f, PARTY_HOST, other, sizeof(other) - 1, tick(&s));
        end(&s);
        (void)check(NULL, &totals);
        assert_int_equal(totals.conns, 0);
        assert_int_equal(totals.other, 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_good_sessions),
                cmocka_unit_test(test_wrong_control_messages),
                cmocka_unit_test(test_foreign_blobs),
                cmocka_unit_test(test_blobs_of_two_kinds),
                cmocka_unit_test(test_bad_frames_and_others),
        };

        return cmocka_run_group_tests_name("doca", tests, make_path, drop_path);
}
