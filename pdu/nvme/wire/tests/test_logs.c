/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"

#include "pdu/nvme/wire/logs.h"

static char buf[65536];

static const char *described(uint8_t lid, const void *data, size_t len)
{
        struct text_lines lines = { text_in(buf, sizeof(buf)), 0 };
        struct describe d = text_describer(&lines);

        return describe_log(&d, lid, data, len) ? buf : NULL;
}

static void assert_has(const char *text, const char *line)
{
        if (!text || !strstr(text, line))
                fail_msg("no \"%s\" in:\n%s", line, text ? text : "(refused)");
}

static void test_smart(void **state)
{
        static struct log_smart s = { .critical = 3, .temp = { 0x2c, 0x01 }, .spare = 100 };

        (void)state;
        s.data_read[0] = 9;
        s.reads[15] = 1;
        assert_has(described(LOG_SMART, &s, sizeof(s)),
                   "critical     : 3 (spare low, temperature)\n");
        assert_has(buf, "temp         : 300 (27 C)\n");
        assert_has(buf, "spare        : 100 (100 %)\n");
        assert_has(buf, "data_read    : 9\n");
        assert_has(buf, "reads        : 0x1000000000000000000000000000000\n");
        assert_null(described(LOG_SMART, &s, sizeof(s) - 1));
}

static void test_errors(void **state)
{
        struct log_error e[3] = {
                { .count = le64(2), .sf = { { 0x04, 0x80 } }, .nsid = le32(1), .trtype = 3 },
                { .count = le64(1) },
        };

        (void)state;
        assert_has(described(LOG_ERROR, e, sizeof(e)), "(Invalid Field in Command)\n");
        assert_has(buf, "trtype       : 3 (TCP)\n");
        assert_has(buf, "count        : 1\n");
        assert_null(strstr(buf, "count        : 0\n"));
        assert_null(described(LOG_ERROR, e, 63));
}

static void test_fw_slot(void **state)
{
        static struct log_fw_slot f = { .afi = 0x21 };

        (void)state;
        text_pad(f.frs[0], 8, "1.0");
        assert_has(described(LOG_FW_SLOT, &f, sizeof(f)), "active       : 1\nnext         : 2\n");
        assert_has(buf, "frs1         : 1.0\n");
}

static void test_effects(void **state)
{
        static struct log_effects e;

        (void)state;
        e.admin[NVME_IDENTIFY] = le32(1);
        e.io[NVME_WRITE] = le32(3);
        assert_has(described(LOG_EFFECTS, &e, sizeof(e)), "opc          : 6 (Identify)\n");
        assert_has(buf, "effects      : 3 (supported, changes blocks)\n");
        assert_null(strstr(buf, "opc          : 2"));
}

static void test_lists(void **state)
{
        static le32_t changed[LOG_CHANGED_NS_MAX] = { { { 0xff, 0xff, 0xff, 0xff } } };
        static le32_t supported[256];

        (void)state;
        assert_has(described(LOG_CHANGED_NS, changed, sizeof(changed)),
                   "(more entries than the log contains)\n");
        supported[LOG_DISCOVERY] = le32(1);
        assert_has(described(LOG_SUPPORTED, supported, sizeof(supported)), "112 (Discovery)\n");
        assert_null(described(LOG_SUPPORTED, supported, 1023));
        assert_null(described(0x99, supported, sizeof(supported)));
}

static void test_ana(void **state)
{
        struct {
                struct log_ana head;
                struct ana_group a;
                le32_t nsids[2];
                struct ana_group b;
        } log = {
                .head = { .ngrps = le16(2) },
                .a = { .grpid = le32(1), .nnsids = le32(2), .state = ANA_OPTIMIZED },
                .nsids = { le32(5), le32(6) },
                .b = { .grpid = le32(2), .nnsids = le32(UINT32_MAX), .state = ANA_INACCESSIBLE },
        };
        size_t at = sizeof(log.head), count;
        const void *nsids;

        (void)state;
        assert_ptr_equal(ana_group_next(&log, sizeof(log), &at, &nsids, &count), &log.a);
        assert_int_equal(count, 2);
        assert_ptr_equal(ana_group_next(&log, sizeof(log), &at, &nsids, &count), &log.b);
        assert_int_equal(count, 0); /* it names more than there are */
        assert_null(ana_group_next(&log, sizeof(log), &at, &nsids, &count));
        at = sizeof(log) + 1;
        assert_null(ana_group_next(&log, sizeof(log), &at, &nsids, &count));
        assert_has(described(LOG_ANA, &log, sizeof(log)), "    nsid         : 6\n");
        assert_has(buf, "  state        : 3 (inaccessible)\n");
        log.head.ngrps = le16(1);
        described(LOG_ANA, &log, sizeof(log));
        assert_null(strstr(buf, "inaccessible"));
}

static void test_random(void **state)
{
        static uint8_t log[8192];
        uint64_t seed = 7;

        (void)state;
        for (int round = 0; round < 200; round++) {
                random_fill(&seed, log, sizeof(log));
                for (unsigned lid = 0; lid < 256; lid++)
                        described((uint8_t)lid, log, random_next(&seed) % sizeof(log));
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_smart),   cmocka_unit_test(test_errors),
                cmocka_unit_test(test_fw_slot), cmocka_unit_test(test_effects),
                cmocka_unit_test(test_lists),   cmocka_unit_test(test_ana),
                cmocka_unit_test(test_random),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
