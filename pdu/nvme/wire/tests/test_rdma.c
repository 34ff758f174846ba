/* SPDX-License-Identifier: BSD-3-Clause */
#include "pdu/core/tests/check.h"

#include <stdlib.h>

#include "pdu/nvme/wire/fabrics.h"
#include "pdu/nvme/wire/rdma.h"

static void assert_rule(enum rule_id got, enum rule_id want)
{
        assert_string_equal(got ? rule_get(got)->id : "none", want ? rule_get(want)->id : "none");
}

static void assert_found(const struct rule_set *found, enum rule_id only)
{
        rule_each (r)
                if (rule_in(found, r) != (r == only))
                        fail_msg("%s %s found", rule_get(r)->id, r == only ? "not" : "was");
}

/* A copy that ends where its memory does: the sanitizer sees every byte read after it. */
static void *exact(const void *p, size_t n)
{
        void *copy = malloc(n);

        assert_non_null(copy);
        if (n > 0)
                memcpy(copy, p, n);
        return copy;
}

/* --- private data ----------------------------------------------------------------------------- */

static const struct rdma_limits limits = {
        .queues = 8, .entries = 128, .hrqsize_min = 1, .reads_in_min = 1
};

static struct rdma_request request(uint16_t qid)
{
        return (struct rdma_request) {
                .qid = le16(qid),
                .hrqsize = le16(32),
                .hsqsize = le16(31),
        };
}

static struct fault check(const struct rdma_request *r, uint8_t reads_in)
{
        return rdma_request_check(r, sizeof(*r), reads_in, 0, &limits, NULL);
}

static void test_request_valid(void **state)
{
        struct rdma_request r = request(0);

        (void)state;
        assert_rule(check(&r, 1).rule, RULE_NONE);
        r = request(8);
        r.cntlid = le16(7);
        r.hsqsize = le16(127);
        assert_rule(check(&r, 128).rule, RULE_NONE);
        r.rsvd10[21] = 1; /* overlooked */
        assert_rule(check(&r, 128).rule, RULE_NONE);
}

static void test_request_broken(void **state)
{
        static const struct {
                enum rule_id rule;
                size_t offset;
                uint16_t value, sts;
        } broken[] = {
                { RDMA_REQ_RECFMT, 0, 1, RDMA_REJECT_RECFMT },
                { RDMA_REQ_QID, 2, 9, RDMA_REJECT_QID },
                { RDMA_REQ_QID, 2, 0xffff, RDMA_REJECT_QID },
                { RDMA_REQ_HRQSIZE, 4, 0, RDMA_REJECT_HRQSIZE },
                { RDMA_REQ_HSQSIZE, 6, 0, RDMA_REJECT_HSQSIZE },
                { RDMA_REQ_HSQSIZE, 6, 128, RDMA_REJECT_HSQSIZE },
                { RDMA_REQ_HSQSIZE, 6, 0xffff, RDMA_REJECT_HSQSIZE },
                { RDMA_REQ_CNTLID, 8, 1, RDMA_REJECT_CNTLID },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(broken); i++) {
                struct rdma_request r = request(0);
                struct rule_set waived = { 0 };

                le_put((uint8_t *)&r + broken[i].offset, 2, broken[i].value);
                assert_rule(check(&r, 1).rule, broken[i].rule);
                assert_int_equal(check(&r, 1).code, broken[i].sts);
                assert_true(rule_accepts(broken[i].rule, broken[i].sts, 0, 0));
                rule_add(&waived, broken[i].rule);
                assert_rule(rdma_request_check(&r, sizeof(r), 1, 0, &limits, &waived).rule,
                            RULE_NONE);
        }
}

static void test_request_reads(void **state)
{
        struct rdma_request r = request(1);
        struct rdma_limits wants = limits;
        struct fault f = check(&r, 0);

        (void)state;
        assert_rule(f.rule, RDMA_REQ_IRD);
        assert_int_equal(f.code, RDMA_REJECT_IRD);
        wants.reads_out_min = 2;
        f = rdma_request_check(&r, sizeof(r), 1, 1, &wants, NULL);
        assert_int_equal(f.code, RDMA_REJECT_ORD);
        wants.reads_in_min = wants.reads_out_min = 0;
        assert_rule(rdma_request_check(&r, sizeof(r), 0, 0, &wants, NULL).rule, RULE_NONE);
}

static void test_request_truncated(void **state)
{
        struct rdma_request r = request(3), out;
        struct rule_set waived = { 0 };

        (void)state;
        rule_add(&waived, RDMA_REQ_LENGTH);
        for (size_t len = 0; len < sizeof(r); len++) {
                void *data = exact(&r, len);
                struct fault f = rdma_request_check(data, len, 1, 0, &limits, NULL);

                assert_rule(f.rule, RDMA_REQ_LENGTH);
                assert_int_equal(f.code, RDMA_REJECT_LENGTH);
                assert_false(rdma_request_read(data, len, &out));
                f = rdma_request_check(data, len, 1, 0, &limits, &waived);
                assert_rule(f.rule, len >= 7 ? RULE_NONE : RDMA_REQ_HSQSIZE);
                free(data);
        }
        assert_rule(rdma_request_check(NULL, 0, 1, 0, &limits, NULL).rule, RDMA_REQ_LENGTH);
        assert_false(rdma_request_read(NULL, 56, &out));
}

static void test_padding(void **state)
{
        uint8_t padded[196] = { 0 };
        struct rdma_request r = request(3), out;

        (void)state;
        memcpy(padded, &r, sizeof(r));
        assert_rule(rdma_request_check(padded, 56, 1, 0, &limits, NULL).rule, RULE_NONE);
        assert_true(rdma_request_read(padded, sizeof(padded), &out));
        assert_memory_equal(&r, &out, sizeof(r));
}

static void test_request_findings(void **state)
{
        struct rdma_request r = request(0xfffe);
        struct rule_set found = { 0 };

        (void)state;
        r.hsqsize = le16(0xffff);
        rdma_request_findings(&r, sizeof(r), 1, &found);
        assert_found(&found, RULE_NONE);
        r.rsvd10[0] = 1;
        rdma_request_findings(&r, sizeof(r), 1, &found);
        assert_found(&found, RDMA_REQ_RSVD);
        found = (struct rule_set) { 0 };
        r = request(1);
        rdma_request_findings(&r, sizeof(r), 0, &found);
        assert_found(&found, RDMA_REQ_IRD);
}

static struct rule_set judge_accept(struct rdma_accept a, size_t len, uint8_t reads_in)
{
        struct rdma_request r = request(1);
        struct rule_set found = { 0 };
        void *data = exact(&a, len);

        rdma_accept_check(data, len, reads_in, &r, &found);
        free(data);
        return found;
}

static void test_accept(void **state)
{
        static const struct {
                struct rdma_accept a;
                size_t len;
                uint8_t reads_in;
                enum rule_id rule;
        } accepts[] = {
                { { .crqsize = { { 31 } } }, 32, 0, RULE_NONE },
                { { .crqsize = { { 32 } } }, 32, 0, RULE_NONE }, /* nvmet */
                { { .crqsize = { { 1 } } }, 32, 0, RULE_NONE },
                { { .crqsize = { { 33 } } }, 32, 0, RDMA_ACC_CRQSIZE },
                { { .crqsize = { { 0xff, 0xff } } }, 32, 0, RDMA_ACC_CRQSIZE },
                { { .crqsize = { { 0 } } }, 32, 0, RDMA_ACC_CRQSIZE },
                { { .recfmt = { { 1 } }, .crqsize = { { 31 } } }, 32, 0, RDMA_ACC_RECFMT },
                { { .crqsize = { { 31 } }, .rsvd4 = { [27] = 1 } }, 32, 0, RDMA_ACC_RSVD },
                { { .crqsize = { { 31 } } }, 32, 1, RDMA_ACC_IRD },
                { { .crqsize = { { 31 } } }, 31, 0, RDMA_ACC_LENGTH },
                { { .recfmt = { { 0 } } }, 0, 0, RDMA_ACC_LENGTH },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(accepts); i++) {
                struct rule_set found =
                    judge_accept(accepts[i].a, accepts[i].len, accepts[i].reads_in);

                assert_found(&found, accepts[i].rule);
        }
}

static void test_reject(void **state)
{
        static const struct {
                uint8_t bytes[4], len;
                enum rule_id rule;
        } rejects[] = {
                { { 0, 0, 1, 0 }, 4, RULE_NONE },          { { 0, 0, 9, 0 }, 4, RULE_NONE },
                { { 0, 0, 0, 0 }, 4, RDMA_REJ_STATUS },    { { 0, 0, 10, 0 }, 4, RDMA_REJ_STATUS },
                { { 0, 0, 1, 0xff }, 4, RDMA_REJ_STATUS }, { { 1, 0, 1, 0 }, 4, RDMA_REJ_FORMAT },
                { { 0, 0, 1, 0 }, 3, RDMA_REJ_FORMAT },    { { 0 }, 1, RDMA_REJ_FORMAT },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rejects); i++) {
                struct rule_set found = { 0 };
                void *data = exact(rejects[i].bytes, rejects[i].len);

                rdma_reject_check(data, rejects[i].len, &found);
                assert_found(&found, rejects[i].rule);
                free(data);
        }
        assert_string_equal(rdma_reject_name(RDMA_REJECT_RESOURCES), "no resources");
        assert_string_equal(rdma_reject_name(RDMA_REJECT_CNTLID), "invalid CNTLID");
        assert_string_equal(rdma_reject_name(0), "reserved");
        assert_string_equal(rdma_reject_name(10), "reserved");
        assert_string_equal(rdma_reject_name(0xffff), "reserved");
}

static void test_description(void **state)
{
        char buf[1024];
        struct text_lines lines = { text_in(buf, sizeof(buf)), 0 };
        struct describe d = text_describer(&lines);
        struct rdma_request r = request(5);
        struct rdma_accept a = { .crqsize = le16(32) };
        struct rdma_reject j = { .sts = le16(RDMA_REJECT_IRD) };

        (void)state;
        describe_rdma_request(&d, &r);
        describe_rdma_accept(&d, &a);
        describe_rdma_reject(&d, &j);
        assert_non_null(strstr(buf, "qid          : 5\n"));
        assert_non_null(strstr(buf, "hrqsize      : 32\n"));
        assert_non_null(strstr(buf, "hsqsize      : 31 (32)\n"));
        assert_non_null(strstr(buf, "crqsize      : 32\n"));
        assert_non_null(strstr(buf, "sts          : 7 (invalid IRD)\n"));
}

/* --- descriptors ------------------------------------------------------------------------------ */

static void test_keyed(void **state)
{
        static const struct rdma_buffer in = { UINT64_C(0x1122334455667788), SGL_KEYED_MAX,
                                               0xdeadbeef, true };
        static const uint8_t bytes[] = { 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
                                         0xff, 0xff, 0xff, 0xef, 0xbe, 0xad, 0xde, 0x4f };
        struct rdma_buffer out;
        struct sgl s;

        (void)state;
        sgl_put_keyed(&s, &in);
        assert_memory_equal(&s, bytes, sizeof(bytes));
        assert_int_equal(sgl_len(&s), SGL_KEYED_MAX);
        assert_true(sgl_get_keyed(&s, &out));
        assert_true(out.addr == in.addr && out.len == in.len && out.key == in.key);
        assert_true(out.invalidate);
        for (unsigned id = 0; id < 256; id++) {
                s.id = (uint8_t)id;
                assert_int_equal(sgl_get_keyed(&s, &out), id == 0x40 || id == 0x4f);
                assert_true(id == 0x4f || !out.invalidate || !sgl_get_keyed(&s, &out));
        }
}

static void test_sqe_text(void **state)
{
        char buf[2048];
        struct text line = text_in(buf, sizeof(buf));
        struct text_lines lines = { text_in(buf + 1024, 1024), 0 };
        struct describe d = text_describer(&lines);
        union sqe sqe = { { .opc = NVME_READ } };

        (void)state;
        sgl_put_keyed(&sqe.sgl, &(struct rdma_buffer) { 0x1000, 4096, 0xabcd01, false });
        sqe_line(&line, &sqe, false);
        assert_non_null(strstr(buf, " sgl 40h 4096 key abcd01"));
        describe_sqe(&d, &sqe, false);
        assert_non_null(strstr(buf + 1024, "len          : 4096\n"));
        assert_non_null(strstr(buf + 1024, "key          : 11259137\n"));
}

/* --- how data is described -------------------------------------------------------------------- */

/* A capsule, its command and what a queue says about it; `list` fills the place after the SQE. */
struct capsule {
        union sqe sqe;
        uint8_t data[1024];
};

static const struct rdma_format io = { .in_capsule = 4096 }, admin = { .admin = true };

static struct sgl keyed(uint32_t len, uint32_t key, bool invalidate)
{
        struct sgl s;

        sgl_put_keyed(&s, &(struct rdma_buffer) { 0x10000, len, key, invalidate });
        return s;
}

static struct capsule command(uint8_t opc, struct sgl sgl)
{
        return (struct capsule) { .sqe = { { .opc = opc, .sgl = sgl } } };
}

static struct sgl block(uint8_t id, uint64_t offset, uint32_t len)
{
        return (struct sgl) { .addr = le64(offset), .len = le32(len), .id = id };
}

static void put_list(struct capsule *c, size_t at, unsigned n, uint32_t each)
{
        for (unsigned i = 0; i < n; i++) {
                struct sgl s = keyed(each, 100 + i, false);

                memcpy(c->data + at + i * sizeof(s), &s, sizeof(s));
        }
}

static struct fault read_data(const struct capsule *c, uint32_t len, const struct rdma_format *f,
                              uint32_t needs, const struct rule_set *waived, struct rdma_data *out)
{
        void *copy = exact(c, len);
        struct fault fault = rdma_data_read(copy, len, f, sqe_xfer(&c->sqe), needs, waived, out);

        /* wherever it points is in the capsule, waived or not */
        assert_in_range(out->offset, 0, len);
        assert_true(!out->in_capsule || out->len <= len - out->offset);
        assert_in_range(out->count, 0, RDMA_DESCRIPTORS);
        free(copy);
        return fault;
}

static void test_data_keyed(void **state)
{
        struct capsule c = command(NVME_READ, keyed(4096, 7, true));
        struct rdma_data d;

        (void)state;
        assert_rule(read_data(&c, 64, &io, 4096, NULL, &d).rule, RULE_NONE);
        assert_false(d.in_capsule);
        assert_int_equal(d.count, 1);
        assert_int_equal(d.len, 4096);
        assert_true(d.keyed[0].addr == 0x10000 && d.keyed[0].key == 7);
        assert_true(d.invalidate && d.invalidate_key == 7);
        assert_rule(read_data(&c, 64, &io, 512, NULL, &d).rule, RULE_NONE); /* longer is fine */
        assert_rule(read_data(&c, 64, &io, 4097, NULL, &d).rule, RDMA_SGL_LENGTH);
        assert_int_equal(d.count, 0);
        assert_rule(read_data(&c, 64, &admin, 0, NULL, &d).rule, RULE_NONE);
        assert_int_equal(d.count, 1);
        c.sqe.sgl.addr = le64(UINT64_MAX - 4095); /* to the end of the address space, and over it */
        assert_rule(read_data(&c, 64, &io, 4096, NULL, &d).rule, RULE_NONE);
        c.sqe.sgl.addr = le64(UINT64_MAX - 4094);
        assert_rule(read_data(&c, 64, &io, 4096, NULL, &d).rule, RDMA_SGL_OVERFLOW);
}

static void test_data_none(void **state)
{
        struct capsule c = command(NVME_FLUSH, block(0xee, 99, 99));
        struct rdma_data d;

        (void)state;
        assert_rule(read_data(&c, 64, &io, 0, NULL, &d).rule, RULE_NONE);
        assert_int_equal(d.count, 0);
        assert_int_equal(d.len, 0);
}

static void test_data_in_capsule(void **state)
{
        struct capsule c = command(NVME_WRITE, block(SGL_IN_CAPSULE, 512, 512));
        struct rdma_format off = { .in_capsule = 4096, .icdoff = 2 };
        struct rdma_data d;

        (void)state;
        assert_rule(read_data(&c, 64 + 1024, &io, 512, NULL, &d).rule, RULE_NONE);
        assert_true(d.in_capsule && d.offset == 64 + 512 && d.len == 512 && d.count == 0);
        assert_rule(read_data(&c, 64 + 1023, &io, 512, NULL, &d).rule, RDMA_ICD_LENGTH);
        assert_rule(read_data(&c, 64 + 512, &io, 512, NULL, &d).rule, RDMA_ICD_OFFSET);
        c.sqe.sgl = block(SGL_IN_CAPSULE, 0, 512);
        assert_rule(read_data(&c, 64 + 32 + 512, &off, 512, NULL, &d).rule, RULE_NONE);
        assert_int_equal(d.offset, 64 + 32);
        assert_rule(read_data(&c, 64 + 31 + 512, &off, 512, NULL, &d).rule, RDMA_ICD_LENGTH);
        assert_rule(read_data(&c, 80, &off, 512, NULL, &d).rule, RDMA_ICD_OFFSET);
        off.icdoff = 0xffff;
        assert_rule(read_data(&c, 1088, &off, 512, NULL, &d).rule, RDMA_ICD_OFFSET);
}

static void test_connect(void **state)
{
        struct capsule c = command(NVME_FABRICS, block(SGL_IN_CAPSULE, 0, CONNECT_DATA_LEN));
        struct rdma_format early = { 0 }; /* nobody has said IOCCSZ yet */
        struct rdma_data d;

        (void)state;
        c.sqe.fctype = FCTYPE_CONNECT;
        assert_rule(read_data(&c, 1088, &early, 1024, NULL, &d).rule, RULE_NONE);
        assert_true(d.in_capsule && d.offset == 64 && d.len == 1024);
        assert_rule(read_data(&c, 1088, &admin, 1024, NULL, &d).rule, RDMA_ICD_ADMIN);
        assert_int_equal(rdma_capsule_max(&early), 64);
        assert_int_equal(rdma_capsule_max(&admin), 64);
        assert_int_equal(rdma_capsule_max(&(struct rdma_format) { .icdoff = 1, .in_capsule = 8 }),
                         88);
}

static void test_data_segment(void **state)
{
        struct capsule c = command(NVME_READ, block(SGL_LAST_IN_CAPSULE, 32, 48));
        struct rdma_data d;

        (void)state;
        put_list(&c, 32, 2, 512);
        memcpy(c.data + 64, &(struct sgl[]) { keyed(SGL_KEYED_MAX, 9, true) }, 16);
        assert_rule(read_data(&c, 64 + 80, &io, 1024 + SGL_KEYED_MAX, NULL, &d).rule, RULE_NONE);
        assert_false(d.in_capsule);
        assert_int_equal(d.count, 3);
        assert_int_equal(d.len, 1024 + SGL_KEYED_MAX);
        assert_int_equal(d.keyed[1].key, 101);
        assert_true(d.invalidate && d.invalidate_key == 9);
        assert_rule(read_data(&c, 64 + 79, &io, 0, NULL, &d).rule, RDMA_SGL_SEGMENT);
        c.sqe.opc = NVME_FABRICS;
        c.sqe.fctype = FCTYPE_AUTH_RECEIVE;
        assert_rule(read_data(&c, 64 + 80, &io, 0, NULL, &d).rule, RDMA_SGL_ONE);
}

static void test_invalidate_is_of_the_last(void **state)
{
        struct capsule c = command(NVME_READ, block(SGL_LAST_IN_CAPSULE, 0, 32));
        struct rdma_data d;

        (void)state;
        put_list(&c, 0, 2, 512);
        c.data[15] = SGL_KEYED_INVALIDATE;
        assert_rule(read_data(&c, 96, &io, 1024, NULL, &d).rule, RULE_NONE);
        assert_false(d.invalidate);
        assert_true(d.keyed[0].invalidate);
        assert_int_equal(d.invalidate_key, 101);
}

static void test_segment_counts(void **state)
{
        struct rdma_format two = { .in_capsule = 4096, .msdbd = 2 };
        struct rdma_data d;

        (void)state;
        for (unsigned n = 0; n <= 20; n++) {
                struct capsule c = command(NVME_READ, block(SGL_LAST_IN_CAPSULE, 0, n * 16));
                uint32_t len = 64 + n * 16;
                struct rule_set waived = { 0 };

                put_list(&c, 0, n, 512);
                assert_rule(read_data(&c, len, &io, 0, NULL, &d).rule, n == 0   ? RDMA_SGL_SEGMENT
                                                                       : n > 16 ? RDMA_SGL_COUNT
                                                                                : RULE_NONE);
                assert_int_equal(d.count, n <= 16 ? n : 0);
                if (n > 2)
                        assert_rule(read_data(&c, len, &two, 0, NULL, &d).rule, RDMA_SGL_COUNT);
                rule_add(&waived, RDMA_SGL_COUNT);
                if (n > 2)
                        assert_rule(read_data(&c, len, &two, 0, &waived, &d).rule, RULE_NONE);
                assert_int_equal(d.count, n > 16 ? 16 : n);
        }
}

/* Each descriptor that is wrong by itself, with its status; in a list after the SQE, too. */
static void test_types(void **state)
{
        (void)state;
        for (unsigned id = 0; id < 256; id++) {
                enum rule_id want = id == 0x40 || id == 0x4f    ? RULE_NONE
                                    : id >> 4 == SGL_KEYED >> 4 ? RDMA_SGL_SUBTYPE
                                                                : RDMA_SGL_TYPE;
                struct capsule c = command(NVME_READ, block((uint8_t)id, 0, 512)), list;
                struct rule_set waived = { 0 };
                struct rdma_data d;

                list = command(NVME_READ, block(SGL_LAST_IN_CAPSULE, 0, 16));
                memcpy(list.data, &c.sqe.sgl, 16);
                assert_rule(read_data(&list, 80, &io, 512, NULL, &d).rule, want);
                if (want)
                        assert_true(rule_accepts(want, NVME_SGL_TYPE, 0, 0));
                if (id != SGL_IN_CAPSULE && id != SGL_LAST_IN_CAPSULE)
                        assert_rule(read_data(&c, 64, &io, 512, NULL, &d).rule, want);
                rule_add(&waived, RDMA_SGL_SUBTYPE);
                rule_add(&waived, RDMA_SGL_TYPE);
                assert_rule(read_data(&list, 80, &io, 512, &waived, &d).rule,
                            want == RDMA_SGL_TYPE ? RDMA_SGL_LENGTH : RULE_NONE);
        }
}

static void test_directions(void **state)
{
        struct capsule c = command(NVME_READ, block(SGL_IN_CAPSULE, 0, 512));
        struct rdma_data d;

        (void)state;
        assert_rule(read_data(&c, 1088, &io, 512, NULL, &d).rule, RDMA_ICD_DIR);
        c.sqe.sgl = block(SGL_IN_CAPSULE, 0, 0);
        assert_rule(read_data(&c, 64, &io, 0, NULL, &d).rule, RULE_NONE);
        assert_rule(read_data(&c, 64, &io, 512, NULL, &d).rule, RDMA_SGL_LENGTH);
}

static const enum rule_id all_rules[] = {
        RDMA_ICD_ADMIN, RDMA_ICD_OFFSET,  RDMA_ICD_LENGTH,   RDMA_ICD_DIR,
        RDMA_SGL_TYPE,  RDMA_SGL_SUBTYPE, RDMA_SGL_SEGMENT,  RDMA_SGL_COUNT,
        RDMA_SGL_ONE,   RDMA_SGL_LENGTH,  RDMA_SGL_OVERFLOW,
};

/* Every truncation of every command of a list, offsets and lengths that wrap, waived or not. */
static void test_hostile(void **state)
{
        static const uint64_t offsets[] = { 0,
                                            1,
                                            16,
                                            1023,
                                            1024,
                                            1025,
                                            0x7fffffff,
                                            UINT32_MAX,
                                            UINT32_MAX - 63,
                                            (uint64_t)UINT32_MAX + 1,
                                            UINT64_MAX - 15,
                                            UINT64_MAX };
        static const uint32_t lens[] = { 0,         1,    16,        512,
                                         1024,      1025, INT32_MAX, UINT32_MAX - 15,
                                         UINT32_MAX };
        static const uint8_t ids[] = { SGL_IN_CAPSULE, SGL_LAST_IN_CAPSULE, SGL_KEYED, 0x4a, 0x5a };
        struct rule_set waived = { 0 };
        struct rdma_format f = { .in_capsule = 1024, .icdoff = 1 };

        (void)state;
        for (size_t i = 0; i < COUNT(all_rules); i++)
                rule_add(&waived, all_rules[i]);
        for (size_t i = 0; i < COUNT(ids) * COUNT(offsets) * COUNT(lens) * 2; i++) {
                struct capsule c = command(i & 1 ? NVME_READ : NVME_WRITE, (struct sgl) { 0 });
                struct rdma_data d;
                size_t n = i / 2;

                c.sqe.sgl = block(ids[n % COUNT(ids)], offsets[n / COUNT(ids) % COUNT(offsets)],
                                  lens[n / COUNT(ids) / COUNT(offsets)]);
                put_list(&c, 16, 63, SGL_KEYED_MAX);
                for (uint32_t len = 0; len <= sizeof(c); len += len < 100 ? 1 : 33) {
                        struct fault fault = read_data(&c, len, &f, 512, NULL, &d);

                        if (!is_fault(fault))
                                assert_in_range(d.len, 512, 16 * SGL_KEYED_MAX);
                        fault = read_data(&c, len, &f, 512, &waived, &d);
                        assert_rule(fault.rule, len < 64 ? RDMA_CMD_SHORT : RULE_NONE);
                }
        }
}

static void test_random(void **state)
{
        uint64_t seed = 7;

        (void)state;
        for (int i = 0; i < 100000; i++) {
                struct capsule c;
                struct rdma_data d;
                uint32_t len = (uint32_t)(random_next(&seed) % (sizeof(c) + 1));
                struct rdma_format f = { .admin = i % 7 == 0,
                                         .icdoff = (uint16_t)(i % 5),
                                         .in_capsule = 1024,
                                         .msdbd = (uint8_t)(i % 3) };
                struct rule_set waived = { 0 };

                random_fill(&seed, &c, sizeof(c));
                c.sqe.sgl.id = i % 2 ? SGL_LAST_IN_CAPSULE : SGL_IN_CAPSULE;
                c.sqe.sgl.len = le32(le32_get(c.sqe.sgl.len) % 600);
                c.sqe.sgl.addr = le64(le64_get(c.sqe.sgl.addr) % 600);
                for (size_t r = 0; r < COUNT(all_rules); r++)
                        if (random_next(&seed) >> 40 & 1)
                                rule_add(&waived, all_rules[r]);
                (void)read_data(&c, len, &f, 256, &waived, &d);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_request_valid),
                cmocka_unit_test(test_request_broken),
                cmocka_unit_test(test_request_reads),
                cmocka_unit_test(test_request_truncated),
                cmocka_unit_test(test_padding),
                cmocka_unit_test(test_request_findings),
                cmocka_unit_test(test_accept),
                cmocka_unit_test(test_reject),
                cmocka_unit_test(test_description),
                cmocka_unit_test(test_keyed),
                cmocka_unit_test(test_sqe_text),
                cmocka_unit_test(test_data_keyed),
                cmocka_unit_test(test_data_none),
                cmocka_unit_test(test_data_in_capsule),
                cmocka_unit_test(test_connect),
                cmocka_unit_test(test_data_segment),
                cmocka_unit_test(test_invalidate_is_of_the_last),
                cmocka_unit_test(test_segment_counts),
                cmocka_unit_test(test_types),
                cmocka_unit_test(test_directions),
                cmocka_unit_test(test_hostile),
                cmocka_unit_test(test_random),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
