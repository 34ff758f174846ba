/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `pcap check` on the captures of the Linux kernel's host and target, whole and damaged. What it
 * finds in whole ones is known and explained; in captures that lost frames it finds nothing else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>

#include "capfile.h"
#include "pcap/nvme/family.h"
#include "pcap/srp/family.h"
#include "pdu/io/tests/memory_file.h"
#include "run.h"

static char path[MEMORY_FILE], out[1 << 20];

static int make_path(void **state)
{
        (void)state;
        return memory_file(path);
}

static int run(char **argv, int argc)
{
        static const struct trace_family *const families[] = { &nvme_capture, &srp_capture, NULL };

        return run_pcap(families, argv, argc, out, sizeof(out));
}

static int check(const char *file)
{
        char *argv[] = { "pcap", "check", (char *)(uintptr_t)file, "--all", "-o", "json" };

        return run(argv, 6);
}

/* Lines with this in them. */
static unsigned count_of(const char *what)
{
        unsigned n = 0;

        for (const char *at = out; (at = strstr(at, what)); at++)
                n++;
        return n;
}

static long number_after(const char *what)
{
        const char *at = strstr(out, what);

        assert_non_null(at);
        return atol(at + strlen(what));
}

static const char *const known[] = {
        /* nvmet fills in SQID on I/O queues, which Base 2.2 3.3.3 reserves over fabrics */
        "\"rule\":\"tcp/capsule/cqe-reserved\"",
        "\"rule\":\"rdma/response/cqe-reserved\"",
        /* and says CAP.CQR 0 where Base 2.2 3.1.4.1 has 1 for controllers over fabrics; the suite
         * finds the same in a live one (conformance/baseline/nvmet-tcp.txt) */
        "\"rule\":\"fab/property/cap\"",
        /* and WCTEMP and CCTEMP 0, which 5.1.13.2.1 allows only before NVMe 1.2 */
        "\"rule\":\"base/identify/controller-fields\"",
};
enum { KNOWN = sizeof(known) / sizeof(known[0]) };

static unsigned count_known(void)
{
        unsigned n = 0;

        for (int i = 0; i < KNOWN; i++)
                n += count_of(known[i]);
        return n;
}

static bool is_known(const char *line)
{
        for (int i = 0; i < KNOWN; i++)
                if (strstr(line, known[i]))
                        return true;
        return false;
}

/* Nothing but what is known is found. */
static void assert_clean(int rc, int round)
{
        if ((rc == PCAP_OK || rc == PCAP_BROKEN || rc == PCAP_UNJUDGED) &&
            count_of("\"rule\":") == count_known())
                return;
        for (char *line = strtok(out, "\n"); line; line = strtok(NULL, "\n"))
                if (!is_known(line))
                        print_error("%s\n", line);
        fail_msg("round %d", round);
}

static void full_path(char file[512], int i)
{
        snprintf(file, 512, "%s/%s", SOURCE_DIR, captures[i]);
}

/* Every response of an I/O queue, 25 of them; CAP, which the host reads twice per controller; and what
 * each of the two says of its temperatures. */
static void test_kernel_traffic(void **state)
{
        char file[512];

        (void)state;
        for (int i = 0; i < CAPTURES; i++) {
                full_path(file, i);
                assert_int_equal(check(file), PCAP_BROKEN);
                assert_int_equal(number_after("\"must\":"), 6);
                assert_int_equal(number_after("\"should\":"), 25);
                assert_int_equal(number_after("\"unproven\":"), 0);
                assert_int_equal(count_of("\"rule\":"), 31);
                assert_int_equal(count_of(known[i / 2]), 25);
                assert_int_equal(count_of(known[2]), 4);
                assert_int_equal(count_of(known[3]), 2);
                assert_int_equal(count_of("\"cntlid\":1,"), 31);
        }
}

/* A finding is what the file says: one byte of a completion turned into the CID of no command. */
static void test_one_violation(void **state)
{
        struct capfile c;
        uint8_t *cqe = NULL;
        const char *at;
        unsigned frame = 0;

        (void)state;
        cap_load(&c, captures[0]);
        for (unsigned i = 100; i < c.packets && !cqe; i++) {
                uint8_t *p = c.bytes + c.at[i] + CAP_PACKET_HEAD + 66;

                if (c.at[i + 1] - c.at[i] == CAP_PACKET_HEAD + 66 + 24 && p[0] == 5 && p[4] == 24) {
                        cqe = p + 8;
                        frame = i + 1;
                }
        }
        assert_non_null(cqe);
        cqe[12] ^= 0x55;
        cap_write_bytes(path, c.bytes, c.len);
        assert_int_equal(check(path), PCAP_BROKEN);
        assert_int_equal(number_after("\"must\":"), 7);
        at = strstr(out, "\"rule\":\"tcp/capsule/response-cid\"");
        assert_non_null(at);
        while (at > out && at[-1] != '\n')
                at--;
        assert_int_equal(atol(strstr(at, "\"frame\":") + 8), frame);
        cap_free(&c);
}

/* --- one byte of the RoCEv2 capture changed --------------------------------------------------- */

enum { BTH = 14 + 20 + 8, EXT = BTH + 12, MAD = EXT + 8, CM = MAD + 24 };

static const struct change {
        uint8_t opcode;     /* of the packet's BTH */
        unsigned attribute; /* of the MAD; 0: none */
        size_t length;      /* of the frame; 0: any */
        size_t at;          /* the byte */
        uint8_t with;       /* is xor'ed */
        unsigned from;      /* packet that it comes after */
        const char *rule;
} changes[] = {
        { 4, 0, EXT + 16 + 4, EXT + 12, 0x55, 100, "rdma/response/cid" },
        { 4, 0, EXT + 16 + 4, EXT + 8, 0x11, 100, "fab/queue/sqhd" },
        { 6, 0, 0, EXT + 11, 1, 100, "rdma/transfer/write-range" },
        { 6, 0, 0, EXT + 5, 0x40, 100, "rdma/transfer/write-range" },
        { 12, 0, 0, EXT + 11, 1, 100, "rdma/transfer/read-range" },
        { 23, 0, 0, EXT + 3, 1, 100, "rdma/key/invalidate-key" },
        { 4, 0, EXT + 64 + 4, EXT + 24 + 15, 0x0a, 180, "rdma/sgl/subtype" },
        { 0x64, 0x10, 0, CM + 176, 1, 0, "rdma/request/recfmt" },
        { 0x64, 0x10, 0, CM + 178, 1, 0, "rdma/request/qid-is-qid" },
        { 0x64, 0x10, 0, CM + 182, 0x40, 0, "rdma/request/hsqsize-is-sqsize" },
        { 0x64, 0x13, 0, CM + 36, 1, 0, "rdma/accept/recfmt" },
        { 0x64, 0x13, 0, CM + 39, 1, 0, "rdma/accept/crqsize" },
};

static bool is_meant(const struct capfile *c, unsigned i, const struct change *what)
{
        size_t n = c->at[i + 1] - c->at[i] - CAP_PACKET_HEAD;
        const uint8_t *p = c->bytes + c->at[i] + CAP_PACKET_HEAD;

        if (i < what->from || n < EXT + 4 || p[12] != 8 || p[23] != 17 || p[BTH] != what->opcode ||
            (what->length && n != what->length))
                return false;
        return !what->attribute || p[MAD + 17] == what->attribute;
}

static unsigned change_one(struct capfile *c, const struct change *what)
{
        for (unsigned i = 0; i < c->packets; i++) {
                if (!is_meant(c, i, what))
                        continue;
                c->bytes[c->at[i] + CAP_PACKET_HEAD + what->at] ^= what->with;
                return i + 1;
        }
        fail_msg("no packet for %s", what->rule);
        return 0;
}

/* The rule is told, first of all and of level must; at that frame, but where Connect shows it. */
static void test_rdma_violations(void **state)
{
        struct capfile c;

        (void)state;
        for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
                const struct change *what = &changes[i];
                unsigned frame;
                char want[128];
                char *line;

                cap_load(&c, captures[2]);
                frame = change_one(&c, what);
                cap_write_bytes(path, c.bytes, c.len);
                assert_int_equal(check(path), PCAP_BROKEN);
                for (line = strtok(out, "\n"); line && is_known(line); line = strtok(NULL, "\n"))
                        continue;
                snprintf(want, sizeof(want), "\"rule\":\"%s\"", what->rule);
                if (!line || !strstr(line, want))
                        fail_msg("%s: %s", what->rule, line);
                assert_non_null(strstr(line, "\"proven\":true"));
                if (strstr(what->rule, "-is-"))
                        assert_true(atol(strstr(line, "\"frame\":") + 8) > (long)frame);
                else /* of a WRITE the last packet, the fourth */
                        assert_int_equal(atol(strstr(line, "\"frame\":") + 8),
                                         frame + (what->opcode == 6 ? 3 : 0));
                cap_free(&c);
        }
}

/* 1 % of the frames gone, 200 times: nothing is invented. */
static void test_loss(void **state)
{
        struct capfile c;
        uint64_t seed = 2026;
        unsigned dropped = 0, gaps = 0;

        (void)state;
        for (int round = 0; round < 200; round++) {
                cap_load(&c, captures[round % CAPTURES]);
                dropped += cap_write_lossy(&c, path, 100, &seed);
                assert_clean(check(path), round);
                gaps += (unsigned)number_after("\"gaps\":");
                cap_free(&c);
        }
        assert_true(dropped > 2000);
        assert_true(gaps > dropped / 4); /* many frames are but acknowledgements */
}

/* Heavier losses, and only the first or the last part of a capture. */
static void test_much_loss(void **state)
{
        struct capfile c;
        uint64_t seed = 7;

        (void)state;
        for (int round = 0; round < 100; round++) {
                cap_load(&c, captures[round % CAPTURES]);
                (void)cap_write_lossy(&c, path, 2 + (unsigned)round % 20, &seed);
                assert_clean(check(path), round);
                cap_free(&c);
        }
}

static void test_parts(void **state)
{
        struct capfile c;
        uint64_t seed = 11;

        (void)state;
        for (int round = 0; round < 80; round++) {
                unsigned from, to;

                cap_load(&c, captures[round % CAPTURES]);
                from = (unsigned)(cap_random(&seed) % c.packets);
                to = from + 1 + (unsigned)(cap_random(&seed) % (c.packets - from));
                memmove(c.bytes + CAP_HEAD, c.bytes + c.at[from], c.at[to] - c.at[from]);
                cap_write_bytes(path, c.bytes, CAP_HEAD + c.at[to] - c.at[from]);
                assert_clean(check(path), round);
                cap_free(&c);
        }
}

/* Whatever is in the file, every subcommand comes to an end. */
static void test_damage(void **state)
{
        static char to[] = "/tmp/test_check_to-XXXXXX";
        char *commands[][6] = {
                { "pcap", "show", path, "-v", NULL },
                { "pcap", "show", path, "-o", "json", NULL },
                { "pcap", "show", path, "--count", NULL },
                { "pcap", "stat", path, "--html", to, NULL },
                { "pcap", "anonymize", path, "--to", to, NULL },
                { "pcap", "extract", path, "--to", to, NULL },
        };
        struct capfile c;
        uint64_t seed = 3;

        (void)state;
        close(mkstemp(to));
        for (int round = 0; round < 96; round++) {
                char **argv = commands[round / CAPTURES % 6];
                int argc = 0;

                cap_load(&c, captures[round % CAPTURES]);
                for (int i = 0; i < 300; i++)
                        c.bytes[CAP_HEAD + cap_random(&seed) % (c.len - CAP_HEAD)] ^=
                            (uint8_t)(1 << cap_random(&seed) % 8);
                cap_write_bytes(path, c.bytes, c.len);
                while (argv[argc])
                        argc++;
                assert_in_range(check(path), PCAP_OK, PCAP_UNJUDGED);
                assert_in_range(run(argv, argc), PCAP_OK, PCAP_UNREADABLE);
                cap_free(&c);
        }
        unlink(to);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kernel_traffic),  cmocka_unit_test(test_one_violation),
                cmocka_unit_test(test_rdma_violations), cmocka_unit_test(test_loss),
                cmocka_unit_test(test_much_loss),       cmocka_unit_test(test_parts),
                cmocka_unit_test(test_damage),
        };

        return cmocka_run_group_tests(tests, make_path, NULL);
}
