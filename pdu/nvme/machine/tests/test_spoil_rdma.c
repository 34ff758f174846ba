/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"

#include "pdu/nvme/rdma/spoil_rdma.h"
#include "pdu/nvme/wire/fabrics.h"

static struct rule_set just(enum rule_id rule)
{
        struct rule_set one = { 0 };

        rule_add(&one, rule);
        return one;
}

static void assert_rule(enum rule_id got, enum rule_id want)
{
        assert_string_equal(got ? rule_get(got)->id : "none", want ? rule_get(want)->id : "none");
}

/* --- which ------------------------------------------------------------------------------------ */

/* Each rule of RDMA is broken by a violator, or its row says where it is broken over time, or why not. */
static void every_rule_can_be_broken(void **state)
{
        (void)state;
        rule_each (rule) {
                const struct rule *r = rule_get(rule);

                if (strncmp(r->id, "rdma/", 5) != 0)
                        continue;
                if (!spoil_can_rdma(rule) && !(r->violators & ~(unsigned)V_TABLES) && !r->unbroken)
                        fail_msg("nothing breaks %s", r->id);
                assert_false(spoil_can(rule));
        }
        assert_true(spoil_can_rdma(FAB_CONNECT_SUBNQN));
        assert_true(spoil_can_rdma(ID_KAS));
        assert_false(spoil_can_rdma(TCP_ICREQ_PFV));
        assert_false(spoil_can_rdma(RULE_NONE));
}

/* --- private data ----------------------------------------------------------------------------- */

/* What one side broke in its message, as the other sees it. */
static struct rule_set exchange(const struct rule_set *violated, enum spoil_cm_message message)
{
        struct rdma_request q = { .qid = le16(0), .hrqsize = le16(32), .hsqsize = le16(31) };
        struct rdma_accept a = { .crqsize = le16(32) };
        struct rdma_reject j = { .sts = le16(RDMA_REJECT_RESOURCES) };
        struct spoil_cm s = { .message = message, .reads_out = 1 };
        struct rule_set found = { 0 };

        s.data = message == SPOIL_REQUEST ? (void *)&q : message == SPOIL_ACCEPT ? (void *)&a : &j;
        s.len = message == SPOIL_REJECT ? sizeof(j) : sizeof(q);
        s.reads_in = message == SPOIL_REQUEST ? 16 : 0;
        spoil_cm(violated, &s);
        if (message == SPOIL_REQUEST) {
                struct rdma_limits limits = { 128, 128, 1, 1, 0 };
                enum rule_id rule =
                    rdma_request_check(s.data, s.len, s.reads_in, s.reads_out, &limits, NULL).rule;

                if (rule)
                        rule_add(&found, rule);
                rdma_request_findings(s.data, s.len, s.reads_in, &found);
        } else if (message == SPOIL_ACCEPT) {
                rdma_accept_check(s.data, s.len, s.reads_in, &q, &found);
        } else {
                rdma_reject_check(s.data, s.len, &found);
        }
        return found;
}

static void private_data(void **state)
{
        unsigned broken = 0;

        (void)state;
        rule_each (rule) {
                struct rule_set one = just(rule);

                for (enum spoil_cm_message m = SPOIL_REQUEST; m <= SPOIL_REJECT; m++) {
                        struct rule_set found = exchange(&one, m);

                        rule_each (r)
                                if (rule_in(&found, r))
                                        assert_rule(r, rule);
                        broken += rule_in(&found, rule);
                }
        }
        assert_int_equal(broken, 15);
}

static void cntlid_of_an_io_queue_stays(void **state)
{
        struct rdma_request q = { .qid = le16(1), .cntlid = le16(7) };
        struct rule_set one = just(RDMA_REQ_CNTLID);
        struct spoil_cm s = { .message = SPOIL_REQUEST, .data = &q, .len = sizeof(q) };

        (void)state;
        assert_false(spoil_cm(&one, &s));
        assert_int_equal(le16_get(q.cntlid), 7);
}

/* --- responses -------------------------------------------------------------------------------- */

struct answer {
        union sqe sqe;
        struct rdma_data data;
        struct cqe cqe;
};

static struct answer an_answer(uint8_t opc, bool invalidate)
{
        struct answer a = { .sqe = { { .opc = opc, .cid = le16(3), .nsid = le32(1) } },
                            .data = { .count = 2, .len = 1024, .invalidate = invalidate },
                            .cqe = { .cid = le16(3) } };

        a.data.keyed[0] = (struct rdma_buffer) { 0x1000, 512, 0x100, false };
        a.data.keyed[1] = (struct rdma_buffer) { 0x2000, 512, 0x200, invalidate };
        return a;
}

static struct spoil_response spoilt(struct answer *a, enum rule_id rule, bool strikes)
{
        struct rule_set one = just(rule);
        struct spoil_response s = { .sqe = &a->sqe,
                                    .data = &a->data,
                                    .bytes = (uint8_t *)&a->cqe,
                                    .len = sizeof(a->cqe),
                                    .invalidate = a->data.invalidate,
                                    .key = a->data.invalidate ? 0x200 : 0 };

        assert_int_equal(spoil_response(&one, &s), strikes);
        return s;
}

static void responses(void **state)
{
        struct answer a = an_answer(NVME_WRITE, false);

        (void)state;
        assert_int_equal(spoilt(&a, RDMA_RSP_LENGTH, true).len, 12);
        spoilt(&a, RDMA_RSP_CID, true);
        assert_int_equal(le16_get(a.cqe.cid), 0x4003);
        spoilt(&a, RDMA_RSP_RSVD, true);
        assert_int_equal(le16_get(a.cqe.sqid), 1);
        a = an_answer(NVME_FLUSH, false);
        a.data.count = 0;
        assert_true(spoilt(&a, FAB_ANSWERED, true).drop);
        spoilt(&a, RDMA_RSP_CID, false);
        spoilt(&a, RDMA_INV_UNASKED, false);
        spoilt(&a, RDMA_INV_KEY, false);
        a = an_answer(NVME_WRITE, false);
        a.sqe.nsid = le32(0); /* on the admin queue: Create I/O SQ */
        spoilt(&a, RDMA_RSP_CID, false);
}

static void invalidations(void **state)
{
        struct answer plain = an_answer(NVME_READ, false), asks = an_answer(NVME_READ, true);
        struct spoil_response s = spoilt(&plain, RDMA_INV_UNASKED, true);

        (void)state;
        assert_true(s.invalidate && s.key == 0x200 && !s.early);
        spoilt(&asks, RDMA_INV_UNASKED, false);
        spoilt(&plain, RDMA_INV_KEY, false);
        s = spoilt(&asks, RDMA_INV_KEY, true);
        assert_true(s.invalidate && s.key != 0x200 && s.key != 0x100);
        spoilt(&plain, RDMA_INV_EARLY, false);
        s = spoilt(&asks, RDMA_INV_EARLY, true);
        assert_true(s.invalidate && s.key == 0x200 && s.early);
        s = spoilt(&asks, RDMA_WRITE_BEFORE, true);
        assert_true(!s.invalidate && s.early);
        asks.sqe.opc = NVME_WRITE;
        spoilt(&asks, RDMA_WRITE_BEFORE, false);
        spoilt(&asks, RDMA_INV_EARLY, false);
}

/* --- READs and WRITEs ------------------------------------------------------------------------- */

static bool transfer(enum rule_id rule, struct spoil_transfer *s, uint8_t opc, uint32_t len,
                     bool last)
{
        static union sqe sqe;
        struct rule_set one = just(rule);

        sqe = (union sqe) { { .opc = opc, .nsid = le32(1) } };
        *s = (struct spoil_transfer) { .sqe = &sqe,
                                       .op = opc == NVME_WRITE ? VERBS_READ : VERBS_WRITE,
                                       .last = last,
                                       .addr = 0x1000,
                                       .key = 7,
                                       .len = len };
        return spoil_transfer(&one, s);
}

static void transfers(void **state)
{
        struct spoil_transfer s;

        (void)state;
        assert_true(transfer(RDMA_WRITE_RANGE, &s, NVME_READ, 512, true));
        assert_true(s.addr > 0x1000 && s.len == 512);
        assert_false(transfer(RDMA_WRITE_RANGE, &s, NVME_READ, 512, false));
        assert_false(transfer(RDMA_WRITE_RANGE, &s, NVME_WRITE, 512, true));
        assert_false(transfer(RDMA_WRITE_RANGE, &s, NVME_IDENTIFY, 512, true));
        assert_true(transfer(RDMA_READ_RANGE, &s, NVME_WRITE, 512, true));
        assert_true(transfer(RDMA_WRITE_DIR, &s, NVME_WRITE, 512, true));
        assert_int_equal(s.op, VERBS_WRITE);
        assert_true(transfer(RDMA_READ_DIR, &s, NVME_READ, 512, true));
        assert_int_equal(s.op, VERBS_READ);
        assert_true(transfer(RDMA_WRITE_WHOLE, &s, NVME_READ, 512, true));
        assert_true(s.len == 508 && !s.drop);
        assert_true(transfer(RDMA_READ_WHOLE, &s, NVME_WRITE, 4, true));
        assert_true(s.drop);
}

/* --- capsules --------------------------------------------------------------------------------- */

enum { ROOM = 8192 };

struct sent {
        union sqe sqe;
        uint8_t rest[ROOM - sizeof(union sqe)];
};

static const struct rdma_format io = { .in_capsule = 4096, .msdbd = 4 }, admin = { .admin = true };

static uint32_t compose(struct sent *c, uint8_t opc, bool in_capsule)
{
        memset(c, 0xee, sizeof(*c));
        c->sqe = (union sqe) { { .opc = opc, .cid = le16(1), .nsid = le32(1) } };
        if (in_capsule)
                sgl_put_in_capsule(&c->sqe.sgl, 0, 512);
        else
                sgl_put_keyed(&c->sqe.sgl, &(struct rdma_buffer) { 0x1000, 512, 0x300, true });
        return (uint32_t)sizeof(union sqe) + (in_capsule ? 512 : 0);
}

/* What a receiver makes of it. */
static enum rule_id received(const struct spoil_capsule *s, const struct rdma_format *f)
{
        const union sqe *sqe = (const union sqe *)s->bytes;
        struct rdma_data data;
        struct fault fault = rdma_data_read(s->bytes, s->len, f, sqe_xfer(sqe), 512, NULL, &data);

        if (is_fault(fault))
                return fault.rule;
        if (s->len > rdma_capsule_max(f))
                return RDMA_CMD_LONG;
        return data.count > 0 && data.keyed[0].key != 0x300 ? RDMA_KEY : RULE_NONE;
}

static void each_capsule_breaks_its_rule(void **state)
{
        static const struct {
                enum rule_id rule;
                uint8_t opc;
                bool in_capsule, admin;
        } rows[] = {
                { RDMA_CMD_SHORT, NVME_READ, false, false },
                { RDMA_CMD_LONG, NVME_READ, false, false },
                { RDMA_CMD_LONG, NVME_WRITE, true, false },
                { RDMA_CMD_LONG, NVME_IDENTIFY, false, true },
                { RDMA_ICD_ADMIN, NVME_IDENTIFY, false, true },
                { RDMA_ICD_OFFSET, NVME_WRITE, true, false },
                { RDMA_ICD_LENGTH, NVME_WRITE, true, false },
                { RDMA_ICD_DIR, NVME_READ, false, false },
                { RDMA_SGL_TYPE, NVME_READ, false, false },
                { RDMA_SGL_SUBTYPE, NVME_WRITE, false, false },
                { RDMA_SGL_SEGMENT, NVME_READ, false, false },
                { RDMA_SGL_COUNT, NVME_READ, false, false },
                { RDMA_SGL_ONE, NVME_IDENTIFY, false, true },
                { RDMA_SGL_LENGTH, NVME_READ, false, false },
                { RDMA_KEY, NVME_READ, false, false },
        };
        static struct sent c;

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                const struct rdma_format *f = rows[i].admin ? &admin : &io;
                struct rule_set one = just(rows[i].rule);
                uint32_t len = compose(&c, rows[i].opc, rows[i].in_capsule);
                struct spoil_capsule s = {
                        .bytes = c.sqe.bytes, .len = len, .room = ROOM, .format = f
                };

                assert_rule(received(&s, f), RULE_NONE);
                assert_true(spoil_capsule(&one, &s));
                assert_rule(received(&s, f), rows[i].rule);
                if (s.len <= len)
                        continue;
                (void)compose(&c, rows[i].opc, rows[i].in_capsule);
                s.len = s.room = len; /* there is no room for more */
                assert_false(spoil_capsule(&one, &s));
                assert_int_equal(s.len, len);
        }
}

static void commands_that_stay_are_sent_twice(void **state)
{
        static struct sent c;
        struct rule_set one = just(RDMA_CMD_CID);
        struct spoil_capsule s = { .bytes = c.sqe.bytes, .len = 64, .room = ROOM, .format = &io };

        (void)state;
        compose(&c, NVME_READ, false);
        assert_false(spoil_capsule(&one, &s));
        compose(&c, NVME_WRITE, true);
        assert_false(spoil_capsule(&one, &s));
        compose(&c, NVME_WRITE, false);
        assert_true(spoil_capsule(&one, &s));
        assert_true(s.twice);
        s = (struct spoil_capsule) { .bytes = c.sqe.bytes, .len = 64, .room = ROOM, &admin };
        compose(&c, NVME_AER, false);
        assert_true(spoil_capsule(&one, &s));
}

static void connect_is_not_what_was_requested(void **state)
{
        static struct sent c;
        static struct connect_data data;
        struct rule_set one = just(RDMA_REQ_SQSIZE);
        struct spoil_capsule s = { .bytes = c.sqe.bytes,
                                   .len = 64,
                                   .room = 64,
                                   .format = &io,
                                   .connect_data = (uint8_t *)&data };

        (void)state;
        compose(&c, NVME_FABRICS, false);
        c.sqe.fctype = FCTYPE_CONNECT;
        c.sqe.connect.qid = le16(3);
        c.sqe.connect.sqsize = le16(31);
        assert_true(spoil_capsule(&one, &s));
        assert_int_equal(le16_get(c.sqe.connect.sqsize), 30);
        one = just(RDMA_REQ_SAME_QID);
        assert_true(spoil_capsule(&one, &s));
        assert_int_equal(le16_get(c.sqe.connect.qid), 4);
        one = just(FAB_CONNECT_SUBNQN_SYNTAX);
        assert_true(spoil_capsule(&one, &s));
        assert_int_equal(data.subnqn[255], 'x');
        one = just(FAB_CONNECT_DATA);
        assert_true(spoil_capsule(&one, &s));
        assert_int_equal(sgl_len(&c.sqe.sgl), 512);
        s.connect_data = NULL;
        one = just(FAB_CONNECT_SUBNQN_SYNTAX);
        assert_false(spoil_capsule(&one, &s));
}

static void values(void **state)
{
        union sqe sqe = { { .opc = NVME_IDENTIFY, .cdw10 = le32(CNS_CTRL) } };
        struct id_ctrl id = { .sgls = le32(5) };
        struct rule_set one = just(RDMA_SGLS);
        struct cqe cqe = { 0 };

        (void)state;
        assert_true(spoil_completion(&one, &sqe, &cqe, (uint8_t *)&id, sizeof(id)));
        assert_int_equal(le32_get(id.sgls), 1);
        one = just(RDMA_ICDOFF);
        assert_true(spoil_completion(&one, &sqe, &cqe, (uint8_t *)&id, sizeof(id)));
        assert_int_equal(le16_get(id.icdoff), 0xffff);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_rule_can_be_broken),
                cmocka_unit_test(private_data),
                cmocka_unit_test(cntlid_of_an_io_queue_stays),
                cmocka_unit_test(responses),
                cmocka_unit_test(invalidations),
                cmocka_unit_test(transfers),
                cmocka_unit_test(each_capsule_breaks_its_rule),
                cmocka_unit_test(commands_that_stay_are_sent_twice),
                cmocka_unit_test(connect_is_not_what_was_requested),
                cmocka_unit_test(values),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
