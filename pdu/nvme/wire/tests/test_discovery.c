/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"

#include "pdu/nvme/wire/discovery.h"
#include "pdu/nvme/wire/fabrics.h"
#include "pdu/nvme/wire/logs.h"

static union {
        struct disc_header head;
        uint8_t bytes[DISC_HEADER_LEN + 3 * DISC_ENTRY_LEN];
} log_page;

static void fill(void)
{
        memset(&log_page, 0, sizeof(log_page));
        log_page.head.genctr = le64(7);
        log_page.head.numrec = le64(2);
        disc_entry_tcp(&log_page.head.entries[0], SUBTYPE_NVM, ADRFAM_IPV4, "192.0.2.1", 4420,
                       "nqn.2026-01.com.example:x");
        disc_entry_tcp(&log_page.head.entries[1], SUBTYPE_CURRENT, ADRFAM_IPV6, "::1", 65535,
                       NQN_DISCOVERY);
}

static void test_entry(void **state)
{
        const struct disc_entry *e = &log_page.head.entries[0];

        (void)state;
        fill();
        assert_int_equal(e->trtype, TRTYPE_TCP);
        assert_int_equal(le16_get(e->cntlid), CNTLID_DYNAMIC);
        assert_int_equal(le16_get(e->asqsz), 32);
        assert_memory_equal(e->trsvcid, "4420                            ", 32);
        assert_memory_equal(e->traddr, "192.0.2.1   ", 12);
        assert_int_equal(e->traddr[255], ' ');
        assert_true(nqn_valid(e->subnqn, sizeof(e->subnqn), true));
        assert_int_equal(disc_entry_port(e), 4420);
}

static void test_long_strings(void **state)
{
        char many[400];
        struct disc_entry e;

        (void)state;
        memset(many, 'x', sizeof(many) - 1);
        many[sizeof(many) - 1] = '\0';
        disc_entry_tcp(&e, SUBTYPE_NVM, ADRFAM_IPV4, many, 1, many);
        assert_int_equal(e.subnqn[255], '\0');
        assert_int_equal(e.traddr[255], 'x');
        assert_int_equal(e.tsas[0], 0);
}

static void test_ports(void **state)
{
        static const struct {
                const char *trsvcid;
                uint16_t port;
        } ports[] = {
                { "1", 1 },     { "8009", 8009 }, { "65535", 65535 }, { "65536", 0 },
                { "", 0 },      { "0", 0 },       { "44x0", 0 },      { "-1", 0 },
                { "+4420", 0 }, { " 4420", 0 },   { "4420 1", 0 },    { "99999999999999999999", 0 },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(ports); i++) {
                struct disc_entry e = { 0 };

                text_pad(e.trsvcid, sizeof(e.trsvcid), ports[i].trsvcid);
                assert_int_equal(disc_entry_port(&e), ports[i].port);
                text_fill(e.trsvcid, sizeof(e.trsvcid), ports[i].trsvcid);
                assert_int_equal(disc_entry_port(&e), ports[i].port);
        }
}

static void test_log(void **state)
{
        (void)state;
        fill();
        assert_ptr_equal(disc_log_entry(&log_page, sizeof(log_page), 0), &log_page.head.entries[0]);
        assert_ptr_equal(disc_log_entry(&log_page, sizeof(log_page), 1), &log_page.head.entries[1]);
        assert_null(disc_log_entry(&log_page, sizeof(log_page), 2)); /* beyond NUMREC */
        log_page.head.numrec = le64(UINT64_MAX);
        assert_non_null(disc_log_entry(&log_page, sizeof(log_page), 2));
        assert_null(disc_log_entry(&log_page, sizeof(log_page), 3)); /* beyond the bytes */
        assert_null(disc_log_entry(&log_page, sizeof(log_page), UINT64_MAX - 1));
        assert_null(disc_log_entry(&log_page, 2047, 0));
        assert_null(disc_log_entry(&log_page, 1023, 0));
        assert_null(disc_log_entry(&log_page, 0, 0));
}

static void test_description(void **state)
{
        char buf[8192];
        struct text_lines lines = { text_in(buf, sizeof(buf)), 0 };
        struct describe d = text_describer(&lines);

        (void)state;
        fill();
        log_page.head.entries[1].trtype = TRTYPE_RDMA;
        log_page.head.entries[1].tsas[1] = 4;
        log_page.head.entries[1].treq = TREQ_SQFC | 1;
        assert_true(describe_log(&d, LOG_DISCOVERY, &log_page, sizeof(log_page)));
        assert_non_null(strstr(buf, "genctr       : 7\n"));
        assert_non_null(strstr(buf, "  subtype      : 2 (NVM subsystem)\n"));
        assert_non_null(strstr(buf, "  traddr       : 192.0.2.1\n"));
        assert_non_null(strstr(buf, "  sectype      : 0 (no security)\n"));
        assert_non_null(strstr(buf, "  treq         : 1 (secure channel required)\n"));
        assert_non_null(strstr(buf, "  sqfc         : 1 (flow control can be disabled)\n"));
        assert_non_null(strstr(buf, "  prtype       : 4 (RoCE v2)\n"));
}

static void assert_found(const struct disc_entry *e, enum rule_id only)
{
        struct rule_set found = { 0 };

        disc_entry_check(e, &found);
        rule_each (r)
                assert_int_equal(rule_in(&found, r), r == only);
}

static struct disc_entry rdma(void)
{
        struct disc_entry e;

        disc_entry_rdma(&e, SUBTYPE_NVM, ADRFAM_IPV4, "192.0.2.1", 4420,
                        "nqn.2026-01.com.example:x", PRTYPE_ROCE_V2);
        return e;
}

static void test_rdma_entry(void **state)
{
        struct disc_entry e = rdma(), tcp;

        (void)state;
        disc_entry_tcp(&tcp, SUBTYPE_NVM, ADRFAM_IPV4, "192.0.2.1", 4420,
                       "nqn.2026-01.com.example:x");
        assert_int_equal(e.trtype, TRTYPE_RDMA);
        assert_memory_equal(e.tsas, "\1\4\1\0", 4);
        assert_found(&e, RULE_NONE);
        e.trtype = TRTYPE_TCP;
        memset(e.tsas, 0, sizeof(e.tsas));
        assert_memory_equal(&e, &tcp, sizeof(e));
}

static void test_checks_rdma(void **state)
{
        static const struct {
                uint8_t at, value;
        } broken[] = { { 0, 0 }, { 0, 3 }, { 1, 0 }, { 1, 6 },  { 2, 0 },
                       { 2, 2 }, { 3, 1 }, { 7, 1 }, { 10, 1 }, { 255, 1 } };
        static const char *const ports[] = { "04420", "0", "", "65536", "44-20", " 4420" };
        struct disc_entry e;

        (void)state;
        for (size_t i = 0; i < COUNT(broken); i++) {
                e = rdma();
                e.tsas[broken[i].at] = broken[i].value;
                assert_found(&e, broken[i].at < 3 ? RDMA_DISC_TSAS : RDMA_DISC_TSAS_RSVD);
        }
        for (size_t i = 0; i < COUNT(ports); i++) {
                e = rdma();
                text_pad(e.trsvcid, sizeof(e.trsvcid), ports[i]);
                assert_found(&e, RDMA_DISC_TRSVCID);
        }
        e.adrfam = ADRFAM_IB; /* there it is a service identifier */
        assert_found(&e, RDMA_DISC_TRSVCID);
        text_pad(e.trsvcid, sizeof(e.trsvcid), "dead-BEEF-0123-3210");
        assert_found(&e, RULE_NONE);
        e.tsas[8] = e.tsas[9] = 0xff; /* PKEY */
        assert_found(&e, RULE_NONE);
}

static void test_checks_tcp(void **state)
{
        struct disc_entry e;

        (void)state;
        fill();
        for (uint8_t sectype = 0; sectype < 4; sectype++) {
                e = log_page.head.entries[0];
                e.tsas[0] = sectype;
                assert_found(&e, sectype > 2 ? DISC_TSAS : RULE_NONE);
        }
        e = log_page.head.entries[0];
        e.tsas[255] = 1;
        assert_found(&e, DISC_TSAS_RSVD);
        e = log_page.head.entries[0];
        e.trsvcid[0] = 'x';
        assert_found(&e, DISC_TRSVCID);
        text_pad(e.trsvcid, sizeof(e.trsvcid), "04420"); /* T1.0 3.1.2 does not forbid the zero */
        assert_found(&e, RULE_NONE);
        e.trsvcid[0] = 'x';
        e.trtype = TRTYPE_FC;
        assert_found(&e, RULE_NONE);
}

static void test_checks_both(void **state)
{
        static const struct {
                uint8_t adrfam;
                const char *traddr;
                bool good;
        } addresses[] = {
                { ADRFAM_IPV4, "192.0.2.1", true },
                { ADRFAM_IPV4, "192.0.2.256", false },
                { ADRFAM_IPV4, "192.0.2", false },
                { ADRFAM_IPV4, "", false },
                { ADRFAM_IPV4, "2001:db8::1", false },
                { ADRFAM_IPV6, "2001:db8::1", true },
                { ADRFAM_IPV6, "::ffff:192.0.2.1", true },
                { ADRFAM_IPV6, "fe80::1%eth0", true },
                { ADRFAM_IPV4, "0.0.0.0", false },
                { ADRFAM_IPV4, "0.0.0.1", true },
                { ADRFAM_IPV6, "::", false },
                { ADRFAM_IPV6, "0:0:0:0:0:0:0:0", false },
                { ADRFAM_IPV6, "::0.0.0.0", false },
                { ADRFAM_IPV6, "::%eth0", false },
                { ADRFAM_IPV6, "::1", true },
                { ADRFAM_IPV6, "2001:db80a::1", false },
                { ADRFAM_IPV6, "192.0.2.1", false },
        };
        struct disc_entry e;

        (void)state;
        fill();
        for (size_t i = 0; i < COUNT(addresses); i++) {
                e = log_page.head.entries[0];
                e.adrfam = addresses[i].adrfam;
                text_pad(e.traddr, sizeof(e.traddr), addresses[i].traddr);
                assert_found(&e, addresses[i].good ? RULE_NONE : DISC_TRADDR);
        }
        e = log_page.head.entries[0];
        e.eflags = le16(1 << 3);
        assert_found(&e, DISC_RSVD);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_checks_both),  cmocka_unit_test(test_entry),
                cmocka_unit_test(test_long_strings), cmocka_unit_test(test_ports),
                cmocka_unit_test(test_log),          cmocka_unit_test(test_description),
                cmocka_unit_test(test_rdma_entry),   cmocka_unit_test(test_checks_rdma),
                cmocka_unit_test(test_checks_tcp),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
