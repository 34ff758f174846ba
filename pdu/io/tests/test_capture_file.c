/* SPDX-License-Identifier: BSD-3-Clause */
/* Whatever a plain file holds, its frames are those that libpcap finds in it. */
#include "pdu/core/tests/check.h"

#include <pcap/pcap.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pdu/io/capture/capture_file.h"

enum { FRAMES = 40, ROUNDS = 400, FILE_MAX = 4 << 20 };

static char path[] = "/tmp/test_capture_file.XXXXXX", err[256];
static uint8_t *bytes;
static size_t len;
static uint64_t seed = 1;

static uint32_t random_below(uint32_t n)
{
        return (uint32_t)(random_next(&seed) >> 16) % n;
}

static int set_up(void **state)
{
        int fd = mkstemp(path);

        (void)state;
        bytes = malloc(FILE_MAX);
        return !bytes || fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
        (void)state;
        free(bytes);
        return unlink(path);
}

static void put32(uint32_t v, bool swapped)
{
        v = swapped ? __builtin_bswap32(v) : v;
        memcpy(bytes + len, &v, sizeof(v));
        len += sizeof(v);
}

static void put_file(uint32_t magic, bool swapped, uint32_t snapshot, uint32_t largest)
{
        len = 0;
        put32(magic, swapped);
        memcpy(bytes + len, swapped ? "\0\2\0\4" : "\2\0\4\0", 4); /* version 2.4 */
        len += 4;
        put32(0, swapped);
        put32(0, swapped);
        put32(snapshot, swapped);
        put32(DLT_EN10MB, swapped);
        for (unsigned i = 0; i < FRAMES; i++) {
                uint32_t n = random_below(largest);

                put32(1700000000 + i, swapped);
                put32(i * 1000, swapped);
                put32(n, swapped);
                put32(n + random_below(3), swapped);
                memset(bytes + len, (int)i, n);
                len += n;
        }
}

static void write_file(size_t n)
{
        FILE *f = fopen(path, "wb");

        assert_non_null(f);
        assert_int_equal(fwrite(bytes, 1, n, f), n);
        fclose(f);
}

/* Frame by frame as libpcap, up to the same end. Returns how many there were. */
static unsigned compare(size_t n)
{
        struct capture_file *ours;
        struct capture_frame frame;
        struct pcap_pkthdr *head;
        const uint8_t *p;
        pcap_t *theirs;
        char why[PCAP_ERRBUF_SIZE];
        unsigned frames = 0;
        int rc;

        write_file(n);
        theirs = pcap_open_offline_with_tstamp_precision(path, PCAP_TSTAMP_PRECISION_NANO, why);
        ours = capture_file_open(path, err, sizeof(err));
        assert_int_equal(!ours, !theirs);
        if (!ours)
                return 0;
        assert_int_equal(capture_file_link(ours), pcap_datalink(theirs));
        while ((rc = capture_file_next(ours, &frame)) == 1) {
                assert_int_equal(pcap_next_ex(theirs, &head, &p), 1);
                assert_int_equal(frame.captured, head->caplen);
                assert_int_equal(frame.whole, head->len);
                assert_memory_equal(frame.p, p, frame.captured);
                if (head->ts.tv_sec >= 0 && head->ts.tv_usec >= 0)
                        assert_int_equal(frame.time_ns,
                                         head->ts.tv_sec * 1000000000 + head->ts.tv_usec);
                frames++;
        }
        assert_int_equal(pcap_next_ex(theirs, &head, &p), rc == 0 ? PCAP_ERROR_BREAK : PCAP_ERROR);
        assert_int_equal(*capture_file_error(ours) != 0, rc < 0);
        capture_file_close(ours);
        pcap_close(theirs);
        return frames;
}

static const uint32_t magics[] = { 0xa1b2c3d4, 0xa1b23c4d };

static void test_whole(void **state)
{
        (void)state;
        for (int m = 0; m < 2; m++)
                for (int swapped = 0; swapped < 2; swapped++) {
                        put_file(magics[m], swapped, 262144, 1500);
                        assert_int_equal(compare(len), FRAMES);
                        put_file(magics[m], swapped, 262144, 64 << 10); /* more than one part */
                        assert_int_equal(compare(len), FRAMES);
                        put_file(magics[m], swapped, 96, 1500); /* more than the snapshot */
                        assert_int_equal(compare(len), FRAMES);
                }
}

static void test_cut(void **state)
{
        (void)state;
        put_file(magics[0], false, 262144, 100);
        for (size_t n = 0; n < 400; n++)
                assert_true(compare(n) < FRAMES);
        put_file(magics[0], false, 262144, 100 << 10);
        for (int i = 0; i < 50; i++)
                compare(random_below((uint32_t)len));
}

static void test_damaged(void **state)
{
        (void)state;
        for (int i = 0; i < ROUNDS; i++) {
                put_file(magics[i & 1], i & 2, 262144, i % 16 ? 200 : 90 << 10);
                for (int k = 0; k < 3; k++)
                        bytes[random_below(k == 0 ? 120 : (uint32_t)len)] =
                            (uint8_t)random_below(256);
                compare(len);
        }
}

static void test_error_names_the_place(void **state)
{
        struct capture_file *f;
        struct capture_frame frame;

        (void)state;
        put_file(magics[0], false, 262144, 100);
        write_file(30);
        f = capture_file_open(path, err, sizeof(err));
        assert_non_null(f);
        assert_int_equal(capture_file_next(f, &frame), -1);
        assert_string_equal(capture_file_error(f),
                            "the file ends in the header of a frame: 6 bytes, "
                            "not 16, at offset 24");
        capture_file_close(f);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole),
                cmocka_unit_test(test_cut),
                cmocka_unit_test(test_damaged),
                cmocka_unit_test(test_error_names_the_place),
        };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}
