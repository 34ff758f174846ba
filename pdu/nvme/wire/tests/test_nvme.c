/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"

#include "pdu/nvme/wire/fabrics.h"
#include "pdu/nvme/wire/nvme.h"
#include "pdu/nvme/wire/text.h"

static void test_status(void **state)
{
        struct cqe c = { .sf = status_field(NVME_INVALID_FIELD | STATUS_DNR) };

        (void)state;
        assert_int_equal(le16_get(c.sf), 0x8004);
        assert_int_equal(cqe_status(&c), NVME_INVALID_FIELD);
        assert_true(cqe_dnr(&c));
        c.sf = status_field(NVME_COMPARE_FAILURE);
        assert_int_equal(cqe_status(&c), NVME_COMPARE_FAILURE);
        assert_false(cqe_dnr(&c));
}

static void test_status_names(void **state)
{
        union sqe copy = { .opc = NVME_COPY }, connect = { .opc = NVME_FABRICS };

        (void)state;
        assert_string_equal(status_name(0), "Success");
        assert_string_equal(status_name(0x022), "Transient Transport Error");
        assert_string_equal(status_name(0x182), "Connect Invalid Parameters");
        assert_string_equal(status_name(0x182 | STATUS_DNR), "Connect Invalid Parameters");
        assert_string_equal(status_name(0x7c0), "Unknown Status");
        assert_string_equal(status_name_of(&copy, 0x183), "Command Size Limit Exceeded");
        assert_string_equal(status_name_of(&connect, 0x183), "Connect Restart Discovery");
        assert_string_equal(status_name_of(&copy, 0x002), "Invalid Field in Command");
}

static void test_blocks(void **state)
{
        union sqe s = { .opc = NVME_READ,
                        .cdw10 = le32(0x89abcdef),
                        .cdw11 = le32(0x01234567),
                        .cdw12 = le32(RW_FUA | 0xffff) };
        uint64_t slba;
        uint32_t blocks;

        (void)state;
        assert_true(sqe_blocks(&s, &slba, &blocks));
        assert_int_equal(slba, 0x0123456789abcdef);
        assert_int_equal(blocks, 65536);
        s.opc = NVME_DSM;
        assert_false(sqe_blocks(&s, &slba, &blocks));
        s.opc = NVME_FLUSH;
        assert_false(sqe_blocks(&s, &slba, &blocks));
}

static void test_commands(void **state)
{
        static const struct {
                uint8_t opc, fctype;
                bool admin;
                enum nvme_xfer xfer;
                const char *name;
        } commands[] = {
                { NVME_READ, 0, false, XFER_C2H, "Read" },
                { NVME_WRITE, 0, false, XFER_H2C, "Write" },
                { NVME_FLUSH, 0, false, XFER_NONE, "Flush" },
                { NVME_DSM, 0, false, XFER_H2C, "Dataset Management" },
                { NVME_GET_LOG_PAGE, 0, true, XFER_C2H, "Get Log Page" },
                { NVME_IDENTIFY, 0, true, XFER_C2H, "Identify" },
                { NVME_AER, 0, true, XFER_NONE, "Asynchronous Event Request" },
                { NVME_FABRICS, FCTYPE_CONNECT, true, XFER_H2C, "Connect" },
                { NVME_FABRICS, FCTYPE_CONNECT, false, XFER_H2C, "Connect" },
                { NVME_FABRICS, FCTYPE_PROPERTY_GET, true, XFER_NONE, "Property Get" },
                { NVME_FABRICS, FCTYPE_AUTH_RECEIVE, true, XFER_C2H, "Authentication Receive" },
                { NVME_FABRICS, 0x3f, true, XFER_BOTH, "Unknown Fabrics" },
                { 0x03, 0, true, XFER_BOTH, "Unknown" },
                { 0xff, 0, false, XFER_BOTH, "Unknown" },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(commands); i++) {
                union sqe s = { .opc = commands[i].opc };

                s.fctype = commands[i].fctype;
                assert_string_equal(sqe_name(&s, commands[i].admin), commands[i].name);
                assert_int_equal(sqe_xfer(&s), commands[i].xfer);
        }
}

static void test_names(void **state)
{
        (void)state;
        assert_string_equal(log_name(LOG_DISCOVERY), "Discovery");
        assert_null(log_name(0x6f));
        assert_string_equal(feature_name(FEAT_KATO), "Keep Alive Timer");
        assert_null(feature_name(0));
}

static void assert_sqe_line(const union sqe *s, bool admin, const char *want)
{
        char buf[256];
        struct text t = text_in(buf, sizeof(buf));

        sqe_line(&t, s, admin);
        assert_string_equal(buf, want);
}

static void test_lines(void **state)
{
        union sqe s = { .opc = NVME_GET_LOG_PAGE, .cid = le16(3), .nsid = le32(UINT32_MAX) };

        (void)state;
        s.cdw10 = le32(LOG_SMART | 1 << 15 | 127u << 16);
        assert_sqe_line(&s, true,
                        "cid 3 Get Log Page nsid 4294967295 lid SMART / Health rae 1 numdl 127");
        s = (union sqe) { .opc = NVME_DSM, .nsid = le32(1), .cdw11 = le32(4) };
        assert_sqe_line(&s, false, "cid 0 Dataset Management nsid 1 nr 1 attributes 4");
        s = (union sqe) { .opc = NVME_WRITE, .nsid = le32(1), .cdw12 = le32(RW_FUA) };
        assert_sqe_line(&s, false, "cid 0 Write nsid 1 slba 0 nlb 1 fua 1");
        s = (union sqe) { .opc = NVME_ABORT, .cdw10 = le32(5u << 16 | 1) };
        assert_sqe_line(&s, true, "cid 0 Abort sqid 1 cdid 5");
        s = (union sqe) { .opc = 0xc1, .cdw13 = le32(9) };
        assert_sqe_line(&s, true, "cid 0 Unknown cdw13 9");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_status), cmocka_unit_test(test_status_names),
                cmocka_unit_test(test_blocks), cmocka_unit_test(test_commands),
                cmocka_unit_test(test_names),  cmocka_unit_test(test_lines),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
