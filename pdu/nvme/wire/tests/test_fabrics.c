/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"

#include "pdu/nvme/wire/fabrics.h"

static void test_nqns(void **state)
{
        static const struct {
                const char *nqn;
                bool valid, strict;
        } nqns[] = {
                { NQN_DISCOVERY, true, true },
                { "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6", true,
                  true },
                { "nqn.2014-08.org.nvmexpress:uuid:F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6", true,
                  true },
                { "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf", true,
                  false },
                { "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf60", true,
                  false },
                { "nqn.2014-08.org.nvmexpress:uuid:f81d4fae+7dec-11d0-a765-00a0c91e6bf6", true,
                  false },
                { "nqn.2026-01.com.example:disk1", true, true },
                { "nqn.2026-12.com.example:a", true, true },
                { "nqn.2026-01.com.example", true, false },
                { "nqn.2026-01.com.example:", true, false },
                { "nqn.2026-01.x", true, false },
                { "nqn.2026-01.:x", false, false },
                { "nqn.2026-01.", false, false },
                { "nqn.2026-00.com.example:x", false, false },
                { "nqn.2026-13.com.example:x", false, false },
                { "nqn.2026-1.com.example:x", false, false },
                { "nqn.202a-01.com.example:x", false, false },
                { "nqn.2026.01.com.example:x", false, false },
                { "NQN.2026-01.com.example:x", false, false },
                { "nqn-2026-01.com.example:x", false, false },
                { "iqn.2026-01.com.example:x", false, false },
                { "nqn.", false, false },
                { "", false, false },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(nqns); i++) {
                char field[NQN_FIELD] = "";

                strncpy(field, nqns[i].nqn, sizeof(field) - 1);
                assert_int_equal(nqn_valid(field, sizeof(field), false), nqns[i].valid);
                assert_int_equal(nqn_valid(field, sizeof(field), true), nqns[i].strict);
                /* its NUL has to be inside */
                assert_false(nqn_valid(nqns[i].nqn, strlen(nqns[i].nqn), false));
        }
}

static void test_forms(void **state)
{
        static const char uuid[] =
            "nqn.2014-08.org.nvmexpress:uuid:11223344-5566-7788-99aa-bbccddeeff00";
        static const char old[] =
            "nqn.2014-08.org.nvmexpress:NVMf:uuid:11223344-5566-7788-99aa-bbccddeeff00";

        (void)state;
        assert_true(nqn_has_uuid(uuid));
        assert_false(nqn_has_uuid(old));
        assert_true(nqn_is_formed(uuid));
        assert_true(nqn_is_formed(old));
        assert_true(nqn_is_formed(NQN_DISCOVERY));
        assert_true(nqn_is_formed("nqn.2026-01.org.example:x"));
        assert_true(nqn_is_formed("nqn.2014-08.org.nvmexpressive:x"));
        assert_true(nqn_is_formed("no name"));
        assert_false(nqn_is_formed("nqn.2014-08.org.nvmexpress:x"));
        assert_false(nqn_is_formed("nqn.2026-01.org.nvmexpress.x"));
        assert_false(nqn_is_formed("nqn.2014-08.org.nvmexpress:uuid:1"));
        assert_false(nqn_is_formed("nqn.2014-08.org.nvmexpress:NVMf:uuid:1"));
}

static void test_nqn_length(void **state)
{
        char field[NQN_FIELD];

        (void)state;
        memset(field, 'x', sizeof(field));
        memcpy(field, "nqn.2026-01.com.example:", 24);
        assert_false(nqn_valid(field, sizeof(field), false)); /* no NUL at all */
        field[NQN_MAX + 1] = '\0';
        assert_false(nqn_valid(field, sizeof(field), false));
        field[NQN_MAX] = '\0';
        assert_true(nqn_valid(field, sizeof(field), false));
}

static void test_properties(void **state)
{
        (void)state;
        assert_string_equal(property_name(PROP_CAP), "CAP");
        assert_int_equal(property_size(PROP_CAP), 8);
        assert_int_equal(property_size(PROP_CC), 4);
        assert_int_equal(property_size(PROP_CSTS), 4);
        assert_null(property_name(0x04)); /* the upper half of CAP is no property */
        assert_int_equal(property_size(0x04), 0);
        assert_int_equal(property_size(0x0c), 0); /* INTMS: not for message-based transports */
        assert_int_equal(property_size(UINT32_MAX), 0);
}

static void test_fctypes(void **state)
{
        (void)state;
        for (unsigned t = 0; t < 256; t++)
                assert_int_equal(fctype_name((uint8_t)t) != NULL,
                                 fabrics_fields((uint8_t)t) != NULL);
        assert_string_equal(fctype_name(FCTYPE_CONNECT), "Connect");
        assert_null(fctype_name(2));
}

static void assert_described(void (*say)(const struct describe *, const void *), const void *what,
                             const char *line)
{
        char buf[8192];
        struct text_lines lines = { text_in(buf, sizeof(buf)), 0 };
        struct describe d = text_describer(&lines);

        say(&d, what);
        if (!strstr(buf, line))
                fail_msg("no \"%s\" in:\n%s", line, buf);
}

static void say_connect(const struct describe *d, const void *c)
{
        describe_connect_data(d, c);
}

static void say_cap(const struct describe *d, const void *v)
{
        describe_property(d, PROP_CAP, *(const uint64_t *)v);
}

static void say_csts(const struct describe *d, const void *v)
{
        describe_property(d, PROP_CSTS, *(const uint64_t *)v);
}

static void say_vs(const struct describe *d, const void *v)
{
        describe_property(d, PROP_VS, *(const uint64_t *)v);
}

static void test_description(void **state)
{
        struct connect_data c = { .hostid = { 0xaa }, .cntlid = le16(CNTLID_DYNAMIC) };
        uint64_t cap = 127 | CAP_CQR | UINT64_C(20) << 24 | CAP_CSS_NVM | CAP_CRMS_CRWMS;
        uint64_t csts = CSTS_RDY | CSTS_SHST_COMPLETE, vs = NVME_VERSION(2, 1, 3);

        (void)state;
        memset(c.subnqn, 'x', sizeof(c.subnqn)); /* no NUL */
        assert_described(say_connect, &c, "hostid       : aa000000-0000-0000-0000-000000000000\n");
        assert_described(say_connect, &c, "cntlid       : 65535 (any, dynamic)\n");
        assert_described(say_connect, &c, "xxxxx\nhostnqn      : \n");
        assert_described(say_cap, &cap, "mqes         : 127 (128)\n");
        assert_described(say_cap, &cap, "to           : 20 (10000 ms)\n");
        assert_described(say_cap, &cap, "css          : 1 (NVM)\n");
        assert_described(say_cap, &cap, "crms         : 1 (ready with media)\n");
        assert_described(say_csts, &csts, "shst         : 2 (shutdown complete)\n");
        assert_described(say_vs, &vs, "major        : 2\nminor        : 1\ntertiary     : 3\n");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nqns),        cmocka_unit_test(test_nqn_length),
                cmocka_unit_test(test_properties),  cmocka_unit_test(test_fctypes),
                cmocka_unit_test(test_description), cmocka_unit_test(test_forms),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
