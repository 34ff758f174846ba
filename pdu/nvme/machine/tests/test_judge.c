/* SPDX-License-Identifier: BSD-3-Clause */
#include "session.h"

#include "pdu/nvme/machine/judge.h"

static const struct queue_past fresh = { .qid = -1 }, unseen = { .qid = -1, .mid_stream = true },
                               disabled = { .qid = 0, .connected = true },
                               admin = { .qid = 0, .connected = true, .cc = CC_EN },
                               stopped = { .qid = 0,
                                           .connected = true,
                                           .cc = CC_EN | CC_SHN_ABRUPT },
                               io = { .qid = 3, .connected = true };

static void expect(const struct queue_past *q, union sqe s, enum rule_id rule)
{
        struct rule_set found = { 0 }, want = { 0 };

        if (rule)
                rule_add(&want, rule);
        judge_sqe(&found, q, &s);
        assert_memory_equal(&found, &want, sizeof(found));
}

static union sqe a_kato(uint32_t ms)
{
        union sqe s = a_command(1, NVME_SET_FEATURES, SGL_TRANSPORT, 0);

        s.cdw10 = le32(FEAT_KATO);
        s.cdw11 = le32(ms);
        return s;
}

static void commands(void **state)
{
        const union sqe keep_alive = a_command(1, NVME_KEEP_ALIVE, SGL_TRANSPORT, 0);
        union sqe s;

        (void)state;
        expect(&fresh, a_connect(1, 0, 31), 0);
        expect(&fresh, keep_alive, FAB_FIRST_CONNECT);
        expect(&unseen, keep_alive, 0);
        expect(&admin, keep_alive, 0);
        expect(&disabled, keep_alive, FAB_ENABLED);
        expect(&stopped, keep_alive, FAB_SHUTDOWN);
        expect(&disabled, a_property(1, FCTYPE_PROPERTY_GET, PROP_CSTS, 0), 0);
        expect(&stopped, a_property(1, FCTYPE_PROPERTY_GET, PROP_CSTS, 0), 0);
        expect(&admin, a_connect(1, 0, 31), FAB_CONNECT_ONCE);
        expect(&fresh, a_connect(1, 0, 0), FAB_CONNECT_SQSIZE_ZERO);
        s = a_connect(1, 0, 31);
        s.connect.recfmt = le16(1);
        expect(&fresh, s, FAB_CONNECT_RECFMT);
        s = a_connect(1, 0, 31);
        s.sgl.len = le32(1023);
        expect(&fresh, s, FAB_CONNECT_DATA);
        expect(&admin, a_command(1, NVME_CREATE_CQ, SGL_TRANSPORT, 0), FAB_OPCODE);
        expect(&admin, a_command(1, NVME_IDENTIFY, SGL_TRANSPORT, 4092), FAB_SGL_SHORT);
        expect(&admin, a_kato(0), KA_ZERO);
        expect(&admin, a_kato(1), 0);
        s = keep_alive;
        s.nsid = le32(1);
        expect(&admin, s, FAB_NSID_UNUSED);
        s = a_command(1, NVME_IDENTIFY, SGL_TRANSPORT, 4096);
        s.nsid = le32(1);
        expect(&admin, s, 0);
        s.cdw10 = le32(CNS_CTRL);
        expect(&admin, s, FAB_NSID_UNUSED);
        s = keep_alive;
        s.flags |= SQE_FUSE_FIRST;
        expect(&admin, s, FUSE_UNSUPPORTED);
        s = an_io(1, NVME_READ, SGL_TRANSPORT, 512);
        s.flags |= SQE_FUSE_MASK;
        expect(&io, s, FUSE_RESERVED);
        s = an_io(1, NVME_READ, SGL_TRANSPORT, 512);
        s.nsid = le32(NSID_ALL);
        expect(&io, s, FAB_NSID_ALL);
        s.opc = NVME_FLUSH;
        expect(&io, s, 0);
        expect(&io, an_io(1, NVME_DSM, SGL_TRANSPORT, 16), 0);
        expect(&io, an_io(1, NVME_READ, SGL_KEYED, 16), TCP_SGL_TYPE);
        expect(&io, an_io(1, NVME_READ, SGL_IN_CAPSULE, 16), TCP_SGL_TYPE);
        expect(&io, an_io(1, NVME_FLUSH, SGL_KEYED, 0), 0);
}

static void fabrics(void **state)
{
        union sqe s;

        (void)state;
        expect(&admin, a_fabrics(1, (enum fctype)0x0c, SGL_TRANSPORT, 0), FAB_FCTYPE);
        expect(&admin, a_fabrics(1, (enum fctype)0xc0, SGL_TRANSPORT, 0), 0); /* vendor's */
        expect(&admin, a_fabrics(1, FCTYPE_DISCONNECT, SGL_TRANSPORT, 0), FAB_DISCONNECT_ADMIN);
        expect(&io, a_fabrics(1, FCTYPE_DISCONNECT, SGL_TRANSPORT, 0), 0);
        s = a_fabrics(1, FCTYPE_DISCONNECT, SGL_TRANSPORT, 0);
        s.disconnect.recfmt = le16(1);
        expect(&io, s, FAB_DISCONNECT_RECFMT);
        for (unsigned flags = 0; flags < 256; flags += SQE_PSDT_SGL) {
                s = a_property(1, FCTYPE_PROPERTY_GET, PROP_VS, 0);
                s.flags = (uint8_t)flags;
                expect(&admin, s, flags == SQE_PSDT_MASK ? FAB_PSDT : 0);
        }
        s.flags = SQE_FUSE_SECOND;
        expect(&admin, s, FAB_FUSE);
        expect(&io, a_property(1, FCTYPE_PROPERTY_GET, PROP_VS, 0), FAB_PROP_QUEUE);
        expect(&admin, a_property(1, FCTYPE_PROPERTY_GET, 0x04, 0), FAB_PROP_OFFSET);
        expect(&admin, a_property(1, FCTYPE_PROPERTY_SET, PROP_VS, 1), FAB_PROP_RO);
        expect(&admin, a_property(1, FCTYPE_PROPERTY_SET, PROP_NSSR, 1), 0);
        expect(&admin, a_property(1, FCTYPE_PROPERTY_SET, PROP_NSSD, 1), 0);
        expect(&admin, a_property(1, FCTYPE_PROPERTY_SET, PROP_CSTS, 1 << 4), 0);
        expect(&admin, a_property(1, FCTYPE_PROPERTY_GET, 0x0c, 0), 0); /* INTMS reads as 0 */
        expect(&admin, a_property(1, FCTYPE_PROPERTY_GET, 0x1301, 0), 0);
        expect(&admin, a_property(1, FCTYPE_PROPERTY_GET, 0x0a, 0), FAB_PROP_OFFSET);
        s = a_property(1, FCTYPE_PROPERTY_GET, PROP_CAP, 0);
        s.property.attrib = PROP_ATTRIB_4;
        expect(&admin, s, FAB_PROP_SIZE);
}

static void expect_cqe(const struct queue_past *q, uint8_t opc, uint8_t fctype, uint16_t status,
                       uint64_t result, enum rule_id rule)
{
        uint16_t dnr = status ? STATUS_DNR : 0;
        struct cqe cqe = { .result = le64(result), .sf = status_field((uint16_t)(status | dnr)) };
        struct rule_set found = { 0 }, want = { 0 };

        if (rule)
                rule_add(&want, rule);
        judge_cqe(&found, q, opc, fctype, &cqe);
        assert_memory_equal(&found, &want, sizeof(found));
}

static void completions(void **state)
{
        const uint8_t f = NVME_FABRICS;

        (void)state;
        expect_cqe(&fresh, f, FCTYPE_CONNECT, 0, 0x70001, 0);
        expect_cqe(&fresh, f, FCTYPE_CONNECT, 0, 0, 0);
        expect_cqe(&fresh, f, FCTYPE_CONNECT, 0, 0xffef, 0);
        expect_cqe(&fresh, f, FCTYPE_CONNECT, 0, 0xfff0, FAB_CONNECT_CNTLID);
        expect_cqe(&admin, NVME_IDENTIFY, 0, NVME_AUTH_REQUIRED, 0, 0);
        expect_cqe(&(struct queue_past) { .qid = 0, .connected = true, .open = true },
                   NVME_IDENTIFY, 0, NVME_AUTH_REQUIRED, 0, FAB_AUTH_NOT_ASKED);
        expect_cqe(&fresh, f, FCTYPE_CONNECT, 0, 0x80001, FAB_CONNECT_RSVD);
        expect_cqe(&fresh, f, FCTYPE_CONNECT, 0, 1ull << 32, FAB_CONNECT_RSVD);
        expect_cqe(&fresh, f, FCTYPE_CONNECT, NVME_CONNECT_PARAM, 0x1ffff, 0);
        expect_cqe(&fresh, f, FCTYPE_CONNECT, NVME_CONNECT_PARAM, 0x20000, FAB_CONNECT_RSVD);
        expect_cqe(&fresh, f, FCTYPE_CONNECT, NVME_CONNECT_BUSY, 1, FAB_CONNECT_RSVD);
        expect_cqe(&fresh, f, FCTYPE_CONNECT, NVME_INVALID_FIELD, 0, FAB_CONNECT_NOT_FIELD);
        expect_cqe(&(struct queue_past) { .qid = 1, .nvm_set = true }, f, FCTYPE_CONNECT,
                   NVME_INVALID_FIELD, 0, 0);
        expect_cqe(&admin, f, FCTYPE_PROPERTY_SET, 0, 1, FAB_CQE_ZERO);
        expect_cqe(&admin, f, FCTYPE_PROPERTY_GET, 0, 1, 0);
        expect_cqe(&admin, NVME_IDENTIFY, 0, 0, 1ull << 63, FAB_CQE_ZERO);
        expect_cqe(&admin, NVME_IDENTIFY, 0, NVME_INVALID_FIELD, 1, 0);
        expect_cqe(&admin, NVME_GET_FEATURES, 0, 0, 1, 0);
        expect_cqe(&io, NVME_READ, 0, 0, 1, FAB_CQE_ZERO);
        expect_cqe(&io, 0x99, 0, 0, 1, 0);
        expect_cqe(&unseen, NVME_READ, 0, 0, 1, 0);
}

static void lengths(void **state)
{
        union sqe log = a_command(1, NVME_GET_LOG_PAGE, SGL_TRANSPORT, 0);
        union sqe security = a_command(1, 0x82, SGL_TRANSPORT, 0);
        union sqe auth = a_fabrics(1, FCTYPE_AUTH_SEND, SGL_TRANSPORT, 0);
        union sqe identify = a_command(1, NVME_IDENTIFY, SGL_TRANSPORT, 0);
        union sqe vendor = a_command(1, 0xc0, SGL_TRANSPORT, 0);
        union sqe feature = a_command(1, NVME_GET_FEATURES, SGL_TRANSPORT, 0);

        (void)state;
        feature.cdw10 = le32(FEAT_HOSTID);
        assert_int_equal(sqe_needs(&admin, &identify), 4096);
        assert_int_equal(sqe_needs(&io, &identify), 0);
        assert_int_equal(sqe_needs(&admin, &log), 4);
        log.cdw10 = le32(0xffffu << 16);
        log.cdw11 = le32(1);
        assert_int_equal(sqe_needs(&admin, &log), 0x20000 * 4);
        log.cdw11 = le32(0xffff);
        assert_int_equal(sqe_needs(&admin, &log), 0); /* more than a length can say */
        log.cdw11 = le32(0);
        log.cdw10 = le32(LOG_PERSISTENT | 1023u << 16);
        assert_int_equal(sqe_needs(&admin, &log), 4096);
        log.cdw10 = le32(LOG_PERSISTENT | 2 << 8 | 1023u << 16); /* releases its context */
        assert_int_equal(sqe_needs(&admin, &log), 0);
        log.cdw10 = le32(LOG_PERSISTENT | 3 << 8 | 1023u << 16); /* reads its header */
        assert_int_equal(sqe_needs(&admin, &log), 512);
        log.cdw10 = le32(LOG_PERSISTENT | 3 << 8);
        assert_int_equal(sqe_needs(&admin, &log), 4);
        log.cdw10 = le32(LOG_ANA | 2 << 8 | 1023u << 16);
        assert_int_equal(sqe_needs(&admin, &log), 4096);
        assert_int_equal(admin_delivers(&log), 16); /* its header: all of it has no fixed length */
        log.cdw10 = le32(LOG_SMART | 255u << 16);
        assert_int_equal(admin_delivers(&log), 512); /* beyond that it is undefined */
        log.cdw12 = le32(500);
        assert_int_equal(admin_delivers(&log), 12);
        log.cdw14 = le32(1u << 23);
        assert_int_equal(admin_delivers(&log), 0);
        log.cdw12 = log.cdw14 = le32(0);
        log.cdw10 = le32(LOG_SMART | 3u << 16);
        assert_int_equal(admin_delivers(&log), 16);
        log.cdw10 = le32(LOG_PERSISTENT | 2 << 8 | 1023u << 16);
        assert_int_equal(admin_delivers(&log), 0);
        assert_int_equal(admin_delivers(&identify), 4096);
        assert_int_equal(admin_delivers(&security), 0);
        assert_int_equal(admin_delivers(&feature), 8);
        feature.cdw11 = le32(1);
        assert_int_equal(admin_delivers(&feature), 16);
        feature.cdw10 = le32(FEAT_HOST_BEHAVIOR | 2 << 8); /* saved */
        assert_int_equal(admin_delivers(&feature), 512);
        feature.cdw10 = le32(FEAT_HOST_BEHAVIOR | 3 << 8); /* Supported Capabilities */
        assert_int_equal(admin_delivers(&feature), 0);
        feature.cdw10 = le32(FEAT_KATO); /* a Dword */
        assert_int_equal(admin_delivers(&feature), 0);
        assert_false(sqe_counts_bytes(&admin, &log));
        assert_true(sqe_counts_bytes(&admin, &security));
        assert_false(sqe_counts_bytes(&io, &security));
        assert_true(sqe_counts_bytes(&io, &auth));
        assert_true(sqe_counts_bytes(&io, &vendor));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(commands),
                cmocka_unit_test(fabrics),
                cmocka_unit_test(completions),
                cmocka_unit_test(lengths),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
