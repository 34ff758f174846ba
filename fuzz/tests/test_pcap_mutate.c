/* SPDX-License-Identifier: BSD-3-Clause */
/* What a kernel said of its packets is what packet_fix() says of them; mutated captures stay captures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fuzz/inproc/pcap_mutate.h"
#include "fuzz/stream.h"
#include "pdu/core/le.h"

enum { ROOM = 1 << 20, ETHERNET = 1, FILE_HEAD = 24, RECORD_HEAD = 16 };

static uint8_t room[ROOM];

/* As any mutator of bytes. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max)
{
        (void)max;
        if (size > 0)
                data[size / 2] ^= 0x55;
        return size;
}

static size_t load(const char *name)
{
        char path[300];
        FILE *f;
        size_t n;

        snprintf(path, sizeof(path), "%s/%s", SOURCE_DIR, name);
        f = fopen(path, "rb");
        assert_non_null(f);
        n = fread(room, 1, sizeof(room), f);
        fclose(f);
        assert_true(n > FILE_HEAD);
        return n;
}

/* The offset of the first byte that is another, or n. */
static size_t first_difference(const uint8_t *a, const uint8_t *b, size_t n)
{
        size_t i = 0;

        while (i < n && a[i] == b[i])
                i++;
        return i;
}

/* Every whole packet from `skip` on, that is not one whose sums the card was to make. */
static void stays(const char *name, bool sums_left_out, unsigned at_least)
{
        static uint8_t copy[ROOM];
        size_t n = load(name), whole = 0;

        for (size_t at = FILE_HEAD; at + RECORD_HEAD <= n;) {
                uint32_t len = (uint32_t)le_get(room + at + 8, 4);
                uint8_t *p = room + at + RECORD_HEAD;
                size_t differs;

                at += RECORD_HEAD + len;
                if (len != le_get(p - 4, 4) || at > n)
                        continue;
                memcpy(copy, p, len);
                packet_fix(copy, len, ETHERNET);
                if (sums_left_out && p[23] == 6) /* TCP's */
                        memcpy(copy + 50, p + 50, 2);
                differs = first_difference(copy, p, len);
                if (differs != len)
                        fail_msg("%s: byte %zu of the packet that ends at %zu", name, differs, at);
                whole++;
        }
        assert_true(whole >= at_least);
}

static void packets_of_a_kernel_are_right_already(void **state)
{
        (void)state;
        stays("pcap/tests/captures/nvme-rdma-rxe-6.12.pcap", true, 50);
        stays("pcap/tests/captures/nvme-rdma-siw-6.12.pcap", true, 50);
        stays("pdu/io/tests/captures/nvme-tcp-6.12.pcap", true, 50);
        stays("pdu/io/tests/captures/nvme-tcp-digest-6.12.pcap", true, 50);
}

static void what_was_spoilt_is_mended(void **state)
{
        static const size_t sums[] = { 16, 24, 25 }; /* of IPv4: length, checksum */
        uint8_t *p = room + FILE_HEAD + RECORD_HEAD, was[4];
        size_t len;

        (void)state;
        load("pcap/tests/captures/nvme-rdma-rxe-6.12.pcap");
        while (p[23] != 17) /* to a packet of UDP */
                p += le_get(p - 8, 4) + RECORD_HEAD;
        len = (size_t)le_get(p - 8, 4);
        memcpy(was, p + len - 4, 4);
        for (size_t i = 0; i < 3; i++)
                p[sums[i]] ^= 0xff;
        p[len - 1] ^= 0xff;
        packet_fix(p, len, ETHERNET);
        assert_memory_equal(p + len - 4, was, 4);
        assert_int_equal(p[16] << 8 | p[17], (int)len - 14);
        p[len - 5] ^= 0xff; /* the invariant CRC is of all that is before it */
        packet_fix(p, len, ETHERNET);
        assert_memory_not_equal(p + len - 4, was, 4);
}

static bool is_capture(const uint8_t *p, size_t n)
{
        return n > FILE_HEAD && (le_get(p, 4) == 0xa1b2c3d4 || le_get(p, 4) == 0x0a0d0d0a);
}

static void mutants_are_captures(void **state)
{
        size_t n = load("pdu/io/tests/captures/nvme-tcp-digest-6.12.pcap"), formats[2] = { 0 };

        (void)state;
        n = n < 8000 ? n : 8000;
        for (unsigned seed = 1; seed < 3000; seed++) {
                size_t next = pcap_mutate(room, n, 12000, seed);

                assert_true(next <= 12000);
                if (is_capture(room, next))
                        n = next;
                else
                        n = load("pdu/io/tests/captures/nvme-tcp-digest-6.12.pcap") % 8000;
                formats[room[0] == 0x0a] += is_capture(room, next);
        }
        assert_true(formats[0] > 300 && formats[1] > 300);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(packets_of_a_kernel_are_right_already),
                cmocka_unit_test(what_was_spoilt_is_mended),
                cmocka_unit_test(mutants_are_captures),
        };

        return cmocka_run_group_tests_name("pcap_mutate", tests, NULL, NULL);
}
