/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures of SRP: extract, anonymize and replay, of crafted sessions and of the Linux kernel's traffic. */
#include "srp_capture.h"

#include <json-c/json.h>
#include <sys/stat.h>

#include "pcap/srp/kept.h"
#include "pcap/srp/srp_replay.h"
#include "pcap/trace/keep.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "target/srp/srp_server.h"

enum { BLOCK = 512, BLOCKS = 100, SECRET = 0x5a };

static char to[] = "/tmp/test_srp_tools.XXXXXX";

/* --- a session with contents ------------------------------------------------------------------ */

static void transfer(bool writes, uint64_t addr, const void *p, uint32_t n)
{
        struct say *one;

        say_transfer(&session, writes, addr, 7, n);
        one = &session.says[session.n - 1];
        memcpy(one->p, p, n);
        one->n = n;
}

static void fill_transfer(bool writes, uint64_t addr, uint8_t byte, uint32_t n)
{
        uint8_t p[SAY_BYTES];

        memset(p, byte, n);
        transfer(writes, addr, p, n);
}

/* READ(10), WRITE(10) of LUN 0. */
static struct say *say_rw(uint64_t tag, bool write, uint32_t lba, uint16_t blocks)
{
        struct say *c = say_cmd(&session, tag, write ? 0x2a : 0x28);

        be_put(c->p + 20, 8, 0);
        be_put(c->p + 32 + 2, 4, lba);
        be_put(c->p + 32 + 7, 2, blocks);
        return c;
}

static void log_in(void)
{
        session.n = 0;
        say_login(&session, SRP_ACTION_SINGLE | SRP_IMMEDIATE);
        say_accept(&session, SRP_RESULT_NONE | SRP_IMMEDIATE);
}

static void name_capacity(void)
{
        static const uint8_t capacity[8] = { 0, 0, 0, BLOCKS - 1, 0, 0, BLOCK >> 8, 0 };
        struct say *c = say_cmd(&session, 1, 0x25);

        be_put(c->p + 20, 8, 0);
        add_direct(c, false, (struct srp_desc) { 0x1000, 7, 8 });
        transfer(true, 0x1000, capacity, 8);
        (void)say_rsp(&session, 1, 0);
}

static void write_direct(uint32_t lba, uint8_t byte)
{
        add_direct(say_rw(2, true, lba, 1), true, (struct srp_desc) { 0x2000, 7, BLOCK });
        fill_transfer(false, 0x2000, byte, BLOCK);
        (void)say_rsp(&session, 2, 0);
}

static void read_direct(uint32_t lba, uint8_t byte, uint8_t status)
{
        struct say *r;

        add_direct(say_rw(3, false, lba, 1), false, (struct srp_desc) { 0x3000, 7, BLOCK });
        fill_transfer(true, 0x3000, byte, BLOCK);
        r = say_rsp(&session, 3, 0);
        r->p[19] = status;
}

static void write_immediate(uint32_t lba, uint8_t byte)
{
        struct say *c = say_rw(4, true, lba, 1);

        add_immediate(c, BLOCK);
        memset(c->p + IMMEDIATE_AT, byte, BLOCK);
        (void)say_rsp(&session, 4, 0);
}

/* Two blocks, whose table is only in part in the IU; they come in three pieces. */
static void read_external(uint32_t lba, uint8_t byte)
{
        static const struct srp_desc list[] = { { 0x6000, 7, 300 }, { 0x5000, 7, 724 } };
        uint8_t table[2 * SRP_DESC_LEN];

        srp_desc_put(table, &list[0]);
        srp_desc_put(table + SRP_DESC_LEN, &list[1]);
        add_indirect(say_rw(5, false, lba, 2), false, (struct srp_desc) { 0x4000, 7, 32 }, 1024,
                     list, 1);
        transfer(false, 0x4000, table, sizeof(table));
        fill_transfer(true, 0x6000, byte, 300);
        fill_transfer(true, 0x5000, byte, 212);
        fill_transfer(true, 0x5000 + 212, (uint8_t)(byte + 1), 512);
        (void)say_rsp(&session, 5, 0);
}

static void write_capture(void)
{
        begin();
        write_session(session.n, -1);
        end();
}

static void all_forms(void)
{
        log_in();
        name_capacity();
        write_direct(3, 'A');
        write_immediate(4, 'B');
        read_external(5, 'C');
        read_direct(9, 'E', 0);
        write_capture();
}

/* --- extract ---------------------------------------------------------------------------------- */

static size_t load(const char *name, uint8_t *p, size_t size)
{
        FILE *f = fopen(name, "rb");
        size_t n;

        assert_non_null(f);
        n = fread(p, 1, size, f);
        fclose(f);
        return n;
}

static bool is_all(const uint8_t *p, uint8_t byte)
{
        for (unsigned i = 0; i < BLOCK; i++)
                if (p[i] != byte)
                        return false;
        return true;
}

static void test_blocks(void **state)
{
        static const uint8_t contents[] = { 0, 0, 0, 'A', 'B', 'C', 'D', 0, 0, 'E' };
        static uint8_t image[BLOCK * BLOCKS];

        (void)state;
        all_forms();
        assert_int_equal(RUN("extract", path, "--kind", "data", "--to", to), PCAP_OK);
        assert_int_equal(load(to, image, sizeof(image)), sizeof(contents) * BLOCK);
        for (unsigned i = 0; i < sizeof(contents); i++)
                assert_true(is_all(image + i * BLOCK, contents[i]));
        /* of another unit there are none */
        assert_int_equal(RUN("extract", path, "--kind", "data", "--nsid", "2", "--to", to),
                         PCAP_OK);
        assert_int_equal(load(to, image, sizeof(image)), 0);
}

static void test_sequence(void **state)
{
        static char lines[1 << 16];
        unsigned n = 0;

        (void)state;
        all_forms();
        assert_int_equal(RUN("extract", path, "--kind", "sequence", "--to", to), PCAP_OK);
        lines[load(to, (uint8_t *)lines, sizeof(lines) - 1)] = 0;
        for (char *line = strtok(lines, "\n"); line; line = strtok(NULL, "\n"), n++) {
                struct json_object *o = json_tokener_parse(line), *v;

                assert_true(json_object_object_get_ex(o, "cdb", &v));
                assert_int_equal(json_object_get_string_len(v), 32);
                assert_true(json_object_object_get_ex(o, "lun", &v));
                assert_int_equal(json_object_get_int(v), 0);
                assert_true(
                    json_object_object_get_ex(o, n == 1 || n == 2 ? "sent_data" : "got_data", &v));
                assert_int_equal(json_object_get_string_len(v), 2 * (n == 0   ? 8
                                                                     : n == 3 ? 2 * BLOCK
                                                                              : BLOCK));
                json_object_put(o);
        }
        assert_int_equal(n, 5);
}

static void test_seeds(void **state)
{
        static const char *const names[] = { "srp-login-01", "srp-accept-01", "SRP_CMD-05",
                                             "SRP_RSP-05" };
        char folder[] = "/tmp/test_srp_seeds.XXXXXX", file[100], command[100];

        (void)state;
        all_forms();
        assert_non_null(mkdtemp(folder));
        assert_int_equal(RUN("extract", path, "--kind", "seeds", "--to", folder), PCAP_OK);
        for (unsigned i = 0; i < 4; i++) {
                snprintf(file, sizeof(file), "%s/%s", folder, names[i]);
                if (access(file, R_OK) < 0)
                        fail_msg("no %s", file);
        }
        snprintf(command, sizeof(command), "rm -r %s", folder);
        assert_int_equal(system(command), 0);
}

/* --- anonymize -------------------------------------------------------------------------------- */

static bool holds(const uint8_t *p, size_t n, const char *what)
{
        return memmem(p, n, what, strlen(what)) != NULL;
}

static void test_nothing_names_anybody(void **state)
{
        static uint8_t bytes[1 << 20];
        struct say *inquiry;
        size_t n;

        (void)state;
        for (int keep = 0; keep < 2; keep++) {
                log_in();
                name_capacity();
                write_immediate(4, SECRET);
                read_direct(9, SECRET, 0);
                inquiry = say_cmd(&session, 6, 0x12);
                add_direct(inquiry, false, (struct srp_desc) { 0x7000, 7, 36 });
                transfer(true, 0x7000, "12345678VENDOR  A PRODUCT'S NAMEREV1", 36);
                (void)say_rsp(&session, 6, 0);
                write_capture();
                assert_int_equal(keep ? RUN("anonymize", path, "--to", to, "--keep-data")
                                      : RUN("anonymize", path, "--to", to),
                                 PCAP_OK);
                n = load(to, bytes, sizeof(bytes));
                assert_false(holds(bytes, n, "the initiator's"));
                assert_false(holds(bytes, n, "the target's"));
                assert_false(holds(bytes, n, "VENDOR") || holds(bytes, n, "PRODUCT"));
                assert_true(holds(bytes, n, "12345678"));
                assert_int_equal(holds(bytes, n, "ZZZZZZZZ"), keep);
                assert_int_equal(RUN("check", to, "--all", "--strict"), PCAP_OK);
                assert_int_equal(RUN("show", to), PCAP_OK);
                assert_int_equal(count_of(" SRP_CMD "), 4);
                assert_int_equal(count_of(" SRP_RSP "), 4);
        }
}

/* --- replay ----------------------------------------------------------------------------------- */

static void assert_replayed(unsigned same, unsigned allowed, unsigned different, unsigned skipped)
{
        char line[120];

        snprintf(line, sizeof(line), "%u same, %u allowed differences, %u DIFFERENT, %u skipped\n",
                 same, allowed, different, skipped);
        if (!strstr(out, line))
                fail_msg("not %s but %s", line, out);
}

static void test_to_our_own_target(void **state)
{
        (void)state;
        all_forms(); /* blocks that nobody has written before have other contents */
        assert_int_equal(RUN("replay", path, "-t", "srp"), PCAP_OK);
        assert_replayed(3, 2, 0, 0);
        log_in();
        name_capacity();
        write_direct(3, 'A');
        read_direct(3, 'A', 0);
        write_capture();
        assert_int_equal(RUN("replay", path, "-t", "srp", "-v"), PCAP_OK);
        assert_replayed(3, 0, 0, 0);
        assert_non_null(strstr(out, "same      frame "));
        assert_non_null(strstr(out, " connection 1 lun 0 WRITE(10)\n"));
}

static void test_what_differs_is_found(void **state)
{
        (void)state;
        log_in();
        name_capacity();
        write_direct(3, 'A');
        read_direct(3, 'Z', 0);
        write_capture();
        assert_int_equal(RUN("replay", path, "-t", "srp"), PCAP_BROKEN);
        assert_replayed(2, 0, 1, 0);
        assert_non_null(
            strstr(out, "READ(10): another content of blocks that were written before"));
        log_in();
        name_capacity();
        read_direct(3, 0, 0x18); /* RESERVATION CONFLICT */
        write_capture();
        assert_int_equal(RUN("replay", path, "-t", "srp"), PCAP_BROKEN);
        assert_non_null(strstr(out, "READ(10): another status"));
}

static void test_kernel_traffic_to_our_target(void **state)
{
        static const char *const kernel[] = { "srp-rxe-6.12.pcap", "srp-tables-rxe-6.12.pcap" };

        (void)state;
        for (int i = 0; i < 2; i++) {
                char file[300];
                unsigned same, allowed, different, skipped;

                snprintf(file, sizeof(file), "%s/pcap/tests/captures/%s", SOURCE_DIR, kernel[i]);
                assert_int_equal(RUN("replay", file, "-t", "srp"), PCAP_OK);
                assert_int_equal(sscanf(out,
                                        "%u same, %u allowed differences, %u DIFFERENT, %u skipped",
                                        &same, &allowed, &different, &skipped),
                                 4);
                assert_int_equal(different + skipped, 0);
                assert_in_range(same, 15, 35);
                assert_int_equal(same + allowed, 35);
        }
}

/* --- another one's target --------------------------------------------------------------------- */

static struct verbs_provider *verbs;
static struct srp_server *server;
static unsigned skipped[4];

static void start(const char *spec)
{
        static const char *luns[1];
        struct srp_options o = { .listen = { { "127.0.0.1", "0" } },
                                 .listens = 1,
                                 .lun = luns,
                                 .luns = 1,
                                 .quiet = true };
        char error[200];

        luns[0] = spec;
        o.verbs = verbs = verbs_memory_new(NULL);
        server = srp_server_start(&o, error, sizeof(error));
        if (!server)
                fail_msg("%s", error);
}

static void stop(void)
{
        srp_server_stop(server);
        verbs_memory_free(verbs);
}

static void on_replayed(void *user, const struct srp_plan *p, const struct srp_plan_cmd *c,
                        const struct srp_verdict *v)
{
        static const char *const reasons[] = { "it may change something", "beyond the end",
                                               "blocks of another length", "no answer" };

        (void)user, (void)p, (void)c;
        for (unsigned i = 0; i < 4 && v->likeness == SRP_SKIPPED; i++)
                skipped[i] += strstr(v->why, reasons[i]) != NULL;
}

static void play(bool allow_write, uint64_t counts[SRP_LIKENESSES])
{
        struct srp_replay_options o = { .host = { .traddr = "127.0.0.1",
                                                  .trsvcid = srp_server_port(server, 0),
                                                  .initiator = "a replay",
                                                  .channels = 1,
                                                  .it_iu = 8260,
                                                  .immediate = true,
                                                  .timeout = 10000,
                                                  .verbs = verbs },
                                        .allow_write = allow_write,
                                        .replayed = on_replayed };
        struct srp_plan plan;

        memset(skipped, 0, sizeof(skipped));
        memset(counts, 0, SRP_LIKENESSES * sizeof(counts[0]));
        if (srp_plan_read(&plan, path, families, err, sizeof(err)) < 0 ||
            srp_replay_run(&plan, &o, counts, err, sizeof(err)) < 0)
                fail_msg("%s", err);
        srp_plan_free(&plan);
}

static void test_what_is_left_out(void **state)
{
        uint64_t counts[SRP_LIKENESSES];

        (void)state;
        all_forms();
        (void)say_cmd(&session, 9, 0x00);
        write_capture();
        start("mem:1M");
        play(false, counts);
        assert_int_equal(skipped[0], 2);
        assert_int_equal(skipped[3], 1);
        assert_int_equal(counts[SRP_SKIPPED], 3);
        assert_int_equal(counts[SRP_DIFFERENT], 0);
        stop();
        start("mem:4K");
        play(true, counts);
        assert_int_equal(skipped[1], 1); /* block 9 */
        stop();
        start("mem:1M,bs=4096");
        play(true, counts);
        assert_int_equal(skipped[2], 4);
        stop();
}

/* --- answers compared ------------------------------------------------------------------------- */

static void test_verdicts(void **state)
{
        static const struct row {
                struct {
                        uint8_t op, status, key;
                        uint16_t asc;
                } was, is;
                enum srp_likeness likeness;
        } rows[] = {
                { { 0x00, 0, 0, 0 }, { 0x00, 0, 0, 0 }, SRP_SAME },
                { { 0x00, 2, 6, 0x2900 }, { 0x00, 0, 0, 0 }, SRP_ALLOWED },
                { { 0x00, 0, 0, 0 }, { 0x00, 2, 6, 0x2900 }, SRP_ALLOWED },
                { { 0x00, 0, 0, 0 }, { 0x00, 2, 5, 0x2000 }, SRP_DIFFERENT },
                { { 0xa3, 0, 0, 0 }, { 0xa3, 2, 5, 0x2000 }, SRP_ALLOWED },
                { { 0xa3, 2, 5, 0x2000 }, { 0xa3, 0, 0, 0 }, SRP_ALLOWED },
                { { 0x28, 2, 5, 0x2100 }, { 0x28, 2, 5, 0x2100 }, SRP_SAME },
                { { 0x28, 2, 5, 0x2100 }, { 0x28, 2, 5, 0x2400 }, SRP_ALLOWED },
                { { 0x28, 2, 5, 0x2100 }, { 0x28, 2, 3, 0x1100 }, SRP_DIFFERENT },
                { { 0x28, 0x18, 0, 0 }, { 0x28, 0, 0, 0 }, SRP_DIFFERENT },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const struct row *r = &rows[i];
                struct srp_plan_cmd c = { .cdb = { r->was.op },
                                          .status = r->was.status,
                                          .has_sense = r->was.status == 2,
                                          .sense = { .key = r->was.key, .asc = r->was.asc } };
                struct srp_request_out live = { .status = r->is.status,
                                                .has_sense = r->is.status == 2,
                                                .sense = { .key = r->is.key, .asc = r->is.asc } };

                if (srp_replay_compare(&c, &live, NULL, 0, false).likeness != r->likeness)
                        fail_msg("row %zu", i);
        }
}

static int make_files(void **state)
{
        int fd = mkstemp(to);

        return fd < 0 || close(fd) < 0 ? -1 : set_up(state);
}

static int drop_files(void **state)
{
        return unlink(to) < 0 ? -1 : tear_down(state);
}

/* --- how much is kept ------------------------------------------------------------------------- */

static void begin_read(struct srp_kept *k, struct keep *keep, uint32_t len)
{
        struct trace_capsule capsule;
        union srp_iu iu;
        struct say *c;

        log_in();
        c = say_rw(3, false, 0, 1);
        add_direct(c, false, (struct srp_desc) { 0x3000, 7, len });
        capsule = (struct trace_capsule) { .data = c->p, .len = c->n, .known = c->n };
        assert_true(srp_read(c->p, c->n, &iu));
        assert_true(kept_begin(k, &iu, &capsule, 0, keep));
}

/* A block; at: where in the data of the request. */
static bool has_kept(struct srp_kept *k, uint32_t at)
{
        static uint8_t block[BLOCK];
        struct trace_memory m = { .addr = 0x3000, .key = 7, .len = BLOCK, .data = block };
        uint32_t n;

        assert_true(kept_add(k, &m, at));
        return srp_kept_data(k, NULL, &n) && n == BLOCK;
}

/* Data for which there is none is as if it had not been seen. */
static void test_requests_keep_what_there_is_room_for(void **state)
{
        struct keep keep = keep_most(1000), roomy = keep_most(SIZE_MAX);
        struct srp_kept a = { .iu = NULL }, b = { .iu = NULL };

        (void)state;
        begin_read(&a, &keep, BLOCK);
        begin_read(&b, &keep, BLOCK);
        assert_true(has_kept(&a, 0));
        assert_false(has_kept(&b, 0));
        kept_drop(&a);
        assert_false(has_kept(&b, 0));
        kept_drop(&b);
        assert_int_equal(keep.used, 0);
        begin_read(&b, &keep, BLOCK);
        assert_true(has_kept(&b, 0));
        kept_drop(&b);
        for (unsigned i = 0; i < 100; i++) { /* the ends of data that is not there */
                begin_read(&a, &roomy, 32 << 20);
                (void)has_kept(&a, (32 << 20) - BLOCK);
                assert_int_equal(a.data != NULL, i < KEEP_HOLES / (32 << 20));
                kept_drop(&a);
        }
        assert_int_equal(roomy.used, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_blocks),
                cmocka_unit_test(test_sequence),
                cmocka_unit_test(test_seeds),
                cmocka_unit_test(test_nothing_names_anybody),
                cmocka_unit_test(test_to_our_own_target),
                cmocka_unit_test(test_what_differs_is_found),
                cmocka_unit_test(test_kernel_traffic_to_our_target),
                cmocka_unit_test(test_what_is_left_out),
                cmocka_unit_test(test_verdicts),
                cmocka_unit_test(test_requests_keep_what_there_is_room_for),
        };

        return cmocka_run_group_tests_name("srp_tools", tests, make_files, drop_files);
}
