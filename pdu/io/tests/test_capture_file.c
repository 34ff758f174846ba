/* SPDX-License-Identifier: BSD-3-Clause */
/* Whatever a plain file holds, its frames are those that libpcap finds in it; pcapng holds more than libpcap reads. */
#include "pdu/core/tests/check.h"
#include "pdu/core/tests/rounds.h"

#include <pcap/pcap.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pdu/io/capture/capture_file.h"
#include "pdu/io/tests/memory_file.h"

enum { FRAMES = 40, ROUNDS = 400, FILE_MAX = 4 << 20 };

static char path[MEMORY_FILE], err[256];
static uint8_t *bytes;
static size_t len;
static uint64_t seed = 1;

static uint32_t random_below(uint32_t n)
{
        return (uint32_t)(random_next(&seed) >> 16) % n;
}

static int set_up(void **state)
{
        (void)state;
        bytes = malloc(FILE_MAX);
        return bytes ? memory_file(path) : -1;
}

static int tear_down(void **state)
{
        (void)state;
        free(bytes);
        return 0;
}

static void put32(uint32_t v, bool swapped)
{
        v = swapped ? __builtin_bswap32(v) : v;
        memcpy(bytes + len, &v, sizeof(v));
        len += sizeof(v);
}

static void put_file(uint32_t magic, bool swapped, uint32_t snapshot, uint32_t largest)
{
        static const uint8_t version_2_4[][4] = { { 2, 0, 4, 0 }, { 0, 2, 0, 4 } };

        len = 0;
        put32(magic, swapped);
        memcpy(bytes + len, version_2_4[swapped], sizeof(version_2_4[swapped]));
        len += sizeof(version_2_4[swapped]);
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
        while ((rc = capture_file_next(ours, &frame)) == 1) {
                assert_int_equal(pcap_next_ex(theirs, &head, &p), 1);
                assert_int_equal(frame.captured, head->caplen);
                assert_int_equal(frame.whole, head->len);
                assert_memory_equal(frame.p, p, frame.captured);
                assert_int_equal(frame.link, pcap_datalink(theirs));
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
        for (unsigned i = 0; i < random_rounds(ROUNDS); i++) {
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

/* --- pcapng ----------------------------------------------------------------------------------- */

enum {
        SECTION = 0x0a0d0d0a,
        ORDER = 0x1a2b3c4d,
        INTERFACE = 1,
        OLD_PACKET = 2,
        SIMPLE_PACKET = 3,
        NAMES = 4,
        ENHANCED_PACKET = 6,
        JOURNAL = 9,
        CUSTOM = 0xbad,
        TSRESOL = 9,
        TSOFFSET = 14,
        SEEN_MAX = 16,
};

static bool swapped_section;
static size_t block; /* where the block in hand begins */

static void put_u32(uint32_t v)
{
        put32(v, swapped_section);
}

static void put_u16(uint16_t v)
{
        v = swapped_section ? __builtin_bswap16(v) : v;
        memcpy(bytes + len, &v, sizeof(v));
        len += sizeof(v);
}

static void put_u64(uint64_t v)
{
        v = swapped_section ? __builtin_bswap64(v) : v;
        memcpy(bytes + len, &v, sizeof(v));
        len += sizeof(v);
}

static void begin_block(uint32_t type)
{
        block = len;
        put_u32(type);
        put_u32(0);
}

static void end_block(void)
{
        uint32_t n;

        while (len % 4)
                bytes[len++] = 0;
        n = (uint32_t)(len - block) + 4;
        put_u32(n);
        len = block + 4;
        put_u32(n);
        len = block + n;
}

static void put_section(bool swapped)
{
        swapped_section = swapped;
        begin_block(SECTION);
        put_u32(ORDER);
        put_u16(1);
        put_u16(0);
        put_u64(UINT64_MAX);
        end_block();
}

/* Left open for options. */
static void begin_interface(uint16_t link, uint32_t snapshot)
{
        begin_block(INTERFACE);
        put_u16(link);
        put_u16(0);
        put_u32(snapshot);
}

static void put_tsresol(uint8_t v)
{
        put_u16(TSRESOL);
        put_u16(1);
        bytes[len++] = v;
        memset(bytes + len, 0, 3);
        len += 3;
}

static void put_tsoffset(int64_t v)
{
        put_u16(TSOFFSET);
        put_u16(8);
        put_u64((uint64_t)v);
}

static void put_interface(uint16_t link, uint32_t snapshot)
{
        begin_interface(link, snapshot);
        end_block();
}

static void put_bytes(uint8_t what, size_t n)
{
        memset(bytes + len, what, n);
        len += n;
}

static void put_packet(uint32_t id, uint64_t time, uint32_t captured, uint32_t whole)
{
        begin_block(ENHANCED_PACKET);
        put_u32(id);
        put_u32((uint32_t)(time >> 32));
        put_u32((uint32_t)time);
        put_u32(captured);
        put_u32(whole);
        put_bytes((uint8_t)captured, captured);
        end_block();
}

static void put_block(uint32_t type, size_t n)
{
        begin_block(type);
        put_bytes(1, n);
        end_block();
}

static struct capture_frame seen[SEEN_MAX];
static unsigned n_seen;
static char error[256];

/* What the first n bytes hold: the frames without their bytes, and what the end of it was. */
static int read_ng(size_t n)
{
        struct capture_file *f;
        struct capture_frame frame;
        int rc;

        write_file(n);
        n_seen = 0;
        *error = '\0';
        f = capture_file_open(path, err, sizeof(err));
        if (!f)
                return -1;
        while ((rc = capture_file_next(f, &frame)) == 1) {
                for (size_t i = 0; i < frame.captured; i++)
                        assert_int_equal(frame.p[i], (uint8_t)frame.captured);
                assert_true(n_seen < SEEN_MAX);
                seen[n_seen++] = frame;
        }
        snprintf(error, sizeof(error), "%s", capture_file_error(f));
        assert_int_equal(*error != 0, rc < 0);
        capture_file_close(f);
        return rc;
}

static void check_seen(unsigned i, int link, size_t captured, size_t whole, int64_t time_ns)
{
        assert_true(i < n_seen);
        assert_int_equal(seen[i].link, link);
        assert_int_equal(seen[i].captured, captured);
        assert_int_equal(seen[i].whole, whole);
        assert_int_equal(seen[i].time_ns, time_ns);
}

/* Two sections of different byte orders, each with interfaces of its own; one frame of each kind. */
static void put_everything(bool swapped)
{
        len = 0;
        put_section(swapped);
        put_interface(1, 96);
        begin_interface(101, 0);
        put_tsresol(9);
        put_u16(0); /* end of options */
        put_u16(0);
        put_bytes(0xff, 8);
        end_block();
        put_packet(0, 1700000000123456, 61, 1000);
        put_packet(1, 1700000000123456789, 7, 7);
        put_block(NAMES, 40);
        put_block(CUSTOM, 4);
        put_block(JOURNAL, 60);
        begin_block(SIMPLE_PACKET);
        put_u32(500); /* of which the first interface catches 96 bytes */
        put_bytes(96, 96);
        end_block();
        put_section(!swapped);
        put_interface(113, 128);
        begin_block(OLD_PACKET);
        put_u16(0);
        put_u16(3); /* drops */
        put_u32(0);
        put_u32(5);
        put_u32(2);
        put_u32(90);
        put_bytes(2, 2);
        end_block();
        put_packet(0, 6, 200, 200); /* more than the snapshot: it is there */
}

static void check_everything(unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                assert_int_equal(seen[i].others, i == 2 ? 2 : 0);
        if (n > 0)
                check_seen(0, DLT_EN10MB, 61, 1000, 1700000000123456000);
        if (n > 1)
                check_seen(1, DLT_RAW, 7, 7, 1700000000123456789);
        if (n > 2)
                check_seen(2, DLT_EN10MB, 96, 500, 0);
        if (n > 3)
                check_seen(3, DLT_LINUX_SLL, 2, 90, 5000);
        if (n > 4)
                check_seen(4, DLT_LINUX_SLL, 200, 200, 6000);
}

static void test_ng_sections_and_interfaces(void **state)
{
        (void)state;
        for (int swapped = 0; swapped < 2; swapped++) {
                put_everything(swapped);
                assert_int_equal(read_ng(len), 0);
                assert_int_equal(n_seen, 5);
                check_everything(5);
        }
}

static void test_ng_cut_anywhere(void **state)
{
        unsigned before = 0;

        (void)state;
        for (int swapped = 0; swapped < 2; swapped++, before = 0) {
                put_everything(swapped);
                for (size_t n = 0; n < len; n++) {
                        int rc = read_ng(n);

                        check_everything(n_seen);
                        assert_true(n_seen >= before && n_seen < 5);
                        before = n_seen;
                        if (rc < 0 && n >= 4)
                                assert_non_null(strstr(error, "at offset"));
                }
                assert_int_equal(before, 4);
        }
}

/* Damage anywhere ends in frames or in an error, and the frames before it stay. */
static void test_ng_damaged(void **state)
{
        (void)state;
        for (unsigned i = 0; i < random_rounds(20 * ROUNDS); i++) {
                struct capture_frame frame;
                struct capture_file *f;
                int rc, frames = 0;

                put_everything(i & 1);
                for (unsigned k = 0; k < 1 + i % 3; k++)
                        bytes[random_below((uint32_t)len)] = (uint8_t)random_next(&seed);
                write_file(len);
                f = capture_file_open(path, err, sizeof(err));
                if (!f)
                        continue;
                while ((rc = capture_file_next(f, &frame)) == 1) {
                        volatile uint8_t sum = 0;

                        for (size_t k = 0; k < frame.captured; k++)
                                sum = (uint8_t)(sum + frame.p[k]);
                        frames++;
                }
                assert_true(frames <= 5);
                assert_int_equal(*capture_file_error(f) != 0, rc < 0);
                capture_file_close(f);
        }
}

static const struct {
        int tsresol; /* -1: none */
        int64_t tsoffset;
        uint64_t units;
        int64_t ns;
} times[] = {
        { -1, 0, 1700000000123456, 1700000000123456000 },
        { 6, 0, 1700000000123456, 1700000000123456000 },
        { 9, 0, 1700000000123456789, 1700000000123456789 },
        { 0, 0, 1700000000, 1700000000000000000 },
        { 3, 0, 1700000000123, 1700000000123000000 },
        { 12, 0, 1700000000123456789, 1700000000123456 },
        { 19, 0, UINT64_MAX, 1844674407 },
        { 28, 0, UINT64_MAX, 1 },
        { 29, 0, UINT64_MAX, 0 },
        { 127, 0, UINT64_MAX, 0 },
        { 0x80 | 20, 0, UINT64_C(1700000000) << 20 | 1 << 19, 1700000000500000000 },
        { 0x80 | 20, 0, UINT64_C(1700000000) << 20 | 1, 1700000000000000953 },
        { 0x80 | 32, 0, UINT64_C(1700000000) << 32 | 0xffffffff, 1700000000999999999 },
        { 0x80 | 64, 0, UINT64_MAX, 999999999 },
        { 0x80 | 93, 0, UINT64_MAX, 1 },
        { 0x80 | 127, 0, UINT64_MAX, 0 },
        { 6, 3600, 1700000000123456, 1700003600123456000 },
        { 9, -3600, 1700000000123456789, 1699996400123456789 },
        { 9, 1700000000, 123456789, 1700000000123456789 },
        { 9, -16000000000, 17000000000000000000u, 1000000000000000000 },
        { 9, 0, INT64_MAX / 2, INT64_MAX / 2 },
        { 9, 0, INT64_MAX / 2 + 1, 0 }, /* beyond 2116 */
        { 0, 0, UINT64_MAX, 0 },
        { 6, -1, 999999, 0 }, /* before 1970 */
        { 6, INT64_MAX, UINT64_MAX, 0 },
        { 6, INT64_MIN, 0, 0 },
};

static void test_ng_times(void **state)
{
        (void)state;
        for (size_t i = 0; i < 2 * COUNT(times); i++) {
                size_t k = i / 2;

                len = 0;
                put_section(i & 1);
                begin_interface(1, 0);
                if (times[k].tsresol >= 0)
                        put_tsresol((uint8_t)times[k].tsresol);
                put_tsoffset(times[k].tsoffset);
                end_block();
                put_packet(0, times[k].units, 4, 4);
                assert_int_equal(read_ng(len), 0);
                assert_int_equal(n_seen, 1);
                check_seen(0, DLT_EN10MB, 4, 4, times[k].ns);
        }
}

/* One frame, and then what is wrong. */
static void begin_wrong(void)
{
        len = 0;
        put_section(false);
        put_interface(1, 0);
        put_packet(0, 1, 4, 4);
}

static void expect_error(const char *what)
{
        char wanted[256];

        snprintf(wanted, sizeof(wanted), "%s, at offset 84", what);
        assert_int_equal(read_ng(len), -1);
        assert_int_equal(n_seen, 1);
        assert_string_equal(error, wanted);
}

static void set_length(uint32_t n)
{
        memcpy(bytes + block + 4, &n, sizeof(n));
}

static void test_ng_lengths_that_lie(void **state)
{
        const uint32_t lengths[] = { 0, 8, 11, 13, UINT32_MAX };

        (void)state;
        for (size_t i = 0; i < COUNT(lengths); i++) {
                char what[100];

                begin_wrong();
                put_packet(0, 2, 4, 4);
                set_length(lengths[i]);
                snprintf(what, sizeof(what), "the length of a block is not plausible: %u bytes",
                         lengths[i]);
                expect_error(what);
        }
        begin_wrong();
        put_packet(0, 2, 4, 4);
        set_length(32);
        expect_error("a block of 67372036 bytes at its end, and of 32 in its header");
        begin_wrong();
        put_packet(0, 2, 4, 4);
        bytes[len - 4] ^= 4;
        expect_error("a block of 32 bytes at its end, and of 36 in its header");
        begin_wrong();
        put_packet(0, 2, 4, 4);
        set_length(UINT32_MAX & ~3u);
        expect_error("the file ends in a block of 4294967292 bytes");
        begin_wrong();
        put_packet(0, 2, 4, 4);
        put_u32(0);
        bytes[block + 20] = 5; /* captured, of a block that has room for 4 */
        len -= 4;
        expect_error("the length of a frame is not plausible: 5 bytes, not 4");
        begin_wrong();
        begin_block(ENHANCED_PACKET);
        put_bytes(0, 16);
        end_block();
        expect_error("the length of a block of type 6 is not plausible: 28 bytes");
        begin_wrong();
        put_packet(0, 2, 300 << 10, 300 << 10);
        expect_error("the length of a frame is not plausible: 307200 bytes, not 262144");
        begin_wrong();
        put_packet(0, 2, 2 << 20, 2 << 20);
        expect_error("the length of a block of type 6 is not plausible: 2097184 bytes");
        begin_wrong();
        begin_block(SIMPLE_PACKET);
        put_u32(9);
        put_bytes(0, 8);
        end_block();
        expect_error("the length of a frame is not plausible: 9 bytes, not 8");
}

static void test_ng_what_cannot_be_read(void **state)
{
        (void)state;
        begin_wrong();
        put_packet(1, 2, 4, 4);
        expect_error("a frame of interface 1, of which the section has 1");
        begin_wrong();
        put_section(false);
        put_packet(0, 2, 4, 4);
        assert_int_equal(read_ng(len), -1);
        assert_string_equal(error,
                            "a frame of interface 0, of which the section has 0, at offset 112");
        begin_wrong();
        put_section(false);
        bytes[block + 8]++;
        expect_error("a section of unknown byte order");
        begin_wrong();
        put_section(true);
        bytes[block + 13] = 2; /* the version, of the other byte order */
        expect_error("a section of unknown version 2.0");
        begin_wrong();
        begin_interface(1, 0);
        put_u16(TSRESOL);
        put_u16(0);
        end_block();
        expect_error("option 9 of an interface is of 0 bytes, not 1");
        begin_wrong();
        begin_interface(1, 0);
        put_u16(2);
        put_u16(9);
        put_u64(0);
        end_block();
        expect_error("an option of an interface ends beyond its block");
}

/* A block that nobody reads may be longer than what is held of the file. */
static void test_ng_long_blocks(void **state)
{
        (void)state;
        begin_wrong();
        put_block(NAMES, 3 << 20);
        put_packet(0, 7, 200 << 10, 200 << 10);
        put_packet(0, 8, 255 << 10, 1 << 20);
        assert_int_equal(read_ng(len), 0);
        assert_int_equal(n_seen, 3);
        check_seen(1, DLT_EN10MB, 200 << 10, 200 << 10, 7000);
        check_seen(2, DLT_EN10MB, 255 << 10, 1 << 20, 8000);
        begin_wrong();
        put_block(NAMES, 3 << 20);
        bytes[len - 4] ^= 1;
        expect_error("a block of 3145741 bytes at its end, and of 3145740 in its header");
}

static void test_ng_many_interfaces(void **state)
{
        (void)state;
        len = 0;
        put_section(false);
        for (unsigned i = 0; i < 1 << 16; i++)
                put_interface(1, 0);
        put_packet(0xffff, 7, 4, 4);
        assert_int_equal(read_ng(len), 0);
        check_seen(0, DLT_EN10MB, 4, 4, 7000);
        put_interface(1, 0);
        assert_int_equal(read_ng(len), -1);
        assert_int_equal(n_seen, 1);
        assert_non_null(strstr(error, "more than 65536 interfaces"));
}

/* A pipe delivers what it likes. */
static void test_ng_pipe(void **state)
{
        struct capture_frame frame;
        struct capture_file *f;
        int fd[2], own = dup(STDIN_FILENO);

        (void)state;
        put_everything(false);
        assert_int_equal(pipe(fd), 0);
        assert_int_equal(write(fd[1], bytes, len), (ssize_t)len);
        close(fd[1]);
        dup2(fd[0], STDIN_FILENO);
        close(fd[0]);
        f = capture_file_open("-", err, sizeof(err));
        assert_non_null(f);
        for (n_seen = 0; capture_file_next(f, &frame) == 1;)
                seen[n_seen++] = frame;
        capture_file_close(f);
        dup2(own, STDIN_FILENO);
        close(own);
        assert_int_equal(n_seen, 5);
        check_everything(5);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole),
                cmocka_unit_test(test_cut),
                cmocka_unit_test(test_damaged),
                cmocka_unit_test(test_error_names_the_place),
                cmocka_unit_test(test_ng_sections_and_interfaces),
                cmocka_unit_test(test_ng_cut_anywhere),
                cmocka_unit_test(test_ng_damaged),
                cmocka_unit_test(test_ng_times),
                cmocka_unit_test(test_ng_lengths_that_lie),
                cmocka_unit_test(test_ng_what_cannot_be_read),
                cmocka_unit_test(test_ng_long_blocks),
                cmocka_unit_test(test_ng_many_interfaces),
                cmocka_unit_test(test_ng_pipe),
        };

        return cmocka_run_group_tests(tests, set_up, tear_down);
}
