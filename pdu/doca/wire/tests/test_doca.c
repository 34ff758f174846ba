/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages byte by byte, in each dialect: each field stands where the layout has it, and nothing is read that is not
 * there. */
#include "pdu/core/tests/check.h"

#include <stdlib.h>

#include "pdu/doca/wire/doca.h"

#define SERVICE PARTY_HOST
#define TARGET  PARTY_CONTROLLER

/* --- bytes ------------------------------------------------------------------------------------ */

/* Each field has bytes of its own, so that a wrong offset shows. */
static const uint8_t error_response[] = {
        0,    0,    0,    23,                           /* size: 20 + 3 */
        0,    0,    0,    0,                            /* type */
        0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24, /* message id, correlation id */
        0,    0,    0,    22,   0,    0,    0,    3,    'b', 'a', 'd',
};
static const uint8_t query[] = {
        0, 0, 0, 12, 0, 0, 0, 1, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24,
};
static const uint8_t query_response[] = {
        0,    0,    0,    24,   0,    0,    0,    2,    0x11, 0x12, 0x13, 0x14, 0x21, 0x22,
        0x23, 0x24, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0x43, 0x44,
};
static const uint8_t init[] = {
        0,    0,    0,    28,   0,    0,    0,    3,    0x11, 0x12, 0x13,
        0x14, 0x21, 0x22, 0x23, 0x24, 0x51, 0x52, 0x53, 0x54, 0x61, 0x62,
        0x63, 0x64, 0,    0,    0,    4,    0xb0, 0xb1, 0xb2, 0xb3,
};
static const uint8_t init_3_0[] = {
        0,    0,    0,    32,   0,    0,    0,    3,    0x11, 0x12, 0x13, 0x14,
        0x21, 0x22, 0x23, 0x24, 0x51, 0x52, 0x53, 0x54, 0x71, 0x72, 0x73, 0x74,
        0x61, 0x62, 0x63, 0x64, 0,    0,    0,    4,    0xb0, 0xb1, 0xb2, 0xb3,
};
static const uint8_t init_response[] = {
        0, 0, 0, 12, 0, 0, 0, 4, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24,
};
static const uint8_t create[] = {
        0,    0,    0,    26,   0,    0, 0, 5, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23,
        0x24, 0x81, 0x82, 0x83, 0x84, 0, 0, 0, 1,    0,    0,    0,    2,    0xc0, 0xc1,
};
static const uint8_t create_response[] = {
        0,    0,    0,    26,   0,    0, 0, 6, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23,
        0x24, 0x81, 0x82, 0x83, 0x84, 0, 0, 0, 0,    0,    0,    0,    2,    0xc0, 0xc1,
};
#define EMPTY(type)                                                                                \
        {                                                                                          \
                0, 0, 0, 12, 0, 0, 0, (type), 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24,      \
        }
static const uint8_t start[] = EMPTY(7), start_response[] = EMPTY(8), stop[] = EMPTY(9),
                     stop_response[] = EMPTY(10), shut[] = EMPTY(11), shut_response[] = EMPTY(12);

/* 2.10: the size counts itself and the header of eight bytes. */
static const uint8_t response_2_10[] = {
        0, 19, 0, 0, 0x21, 0x22, 0x23, 0x24, 0, 0, 0, 1, 0, 0, 0, 3, 'b', 'a', 'd',
};
static const uint8_t configure_2_10[] = {
        0,    28,   0,    1,    0x21, 0x22, 0x23, 0x24, 0x51, 0x52, 0x53, 0x54, 0x91, 0x92,
        0x93, 0x94, 0x71, 0x72, 0x73, 0x74, 0,    0,    0,    4,    0xb0, 0xb1, 0xb2, 0xb3,
};
static const uint8_t create_2_10[] = {
        0, 15, 0, 2, 0x21, 0x22, 0x23, 0x24, 1, 0, 0, 0, 2, 0xc0, 0xc1,
};
static const uint8_t create_response_2_10[] = {
        0, 15, 0, 3, 0x21, 0x22, 0x23, 0x24, 0, 0, 0, 0, 2, 0xc0, 0xc1,
};
static const uint8_t connect_2_10[] = { 0, 8, 0, 4, 0x21, 0x22, 0x23, 0x24 },
                     start_2_10[] = { 0, 8, 0, 5, 0x21, 0x22, 0x23, 0x24 },
                     destroy_2_10[] = { 0, 8, 0, 6, 0x21, 0x22, 0x23, 0x24 };

static const uint8_t blob[] = { 0xb0, 0xb1, 0xb2, 0xb3 }, details[] = { 0xc0, 0xc1 };

#define IDS_3             .message_id = 0x11121314, .correlation_id = 0x21222324
#define IDS_2             .correlation_id = 0x21222324
#define TEXT              .data = { (const uint8_t *)"bad", 3 }
#define BLOB              .data = { blob, 4 }
#define ENDS              .data = { details, 2 }
#define WHOLE(bytes, ...) .p = (bytes), .n = sizeof(bytes), .m = { __VA_ARGS__ }

static const struct message {
        enum doca_version version;
        enum party sender;
        const uint8_t *p;
        size_t n;
        struct doca_msg m;
        const char *line;
} messages[] = {
        /* clang-format off */
        { DOCA_3_2, TARGET, WHOLE(error_response, DOCA_ERROR_RSP, 0, IDS_3, .result = 22, TEXT),
          "error_response id 286397204 correlation 555885348 result UNEXPECTED \"bad\"" },
        { DOCA_3_2, SERVICE, WHOLE(query, DOCA_QUERY, 1, IDS_3), "query_storage_request id 286397204 correlation 555885348" },
        { DOCA_3_2, TARGET, WHOLE(query_response, DOCA_QUERY_RSP, 2, IDS_3, .total_size = 0x3132333435363738, .block_size = 0x41424344),
          "query_storage_response id 286397204 correlation 555885348 total_size 3544952156018063160 block_size 1094861636" },
        { DOCA_3_2, SERVICE, WHOLE(init, DOCA_INIT, 3, IDS_3, .transactions = 0x51525354, .cores = 0x61626364, BLOB),
          "init_storage_request id 286397204 correlation 555885348 transaction_count 1364349780 core_count 1633837924 mmap_export of 4 bytes" },
        { DOCA_3_1, SERVICE, WHOLE(init, DOCA_INIT, 3, IDS_3, .transactions = 0x51525354, .cores = 0x61626364, BLOB),
          "init_storage_request id 286397204 correlation 555885348 task_count 1364349780 core_count 1633837924 mmap_export of 4 bytes" },
        { DOCA_3_0, SERVICE, WHOLE(init_3_0, DOCA_INIT, 3, IDS_3, .transactions = 0x51525354, .batch = 0x71727374, .cores = 0x61626364, BLOB),
          "init_storage_request id 286397204 correlation 555885348 task_count 1364349780 batch_size 1903326068 core_count 1633837924 mmap_export of 4 bytes" },
        { DOCA_3_2, TARGET, WHOLE(init_response, DOCA_INIT_RSP, 4, IDS_3), "init_storage_response id 286397204 correlation 555885348" },
        { DOCA_3_2, SERVICE, WHOLE(create, DOCA_CREATE, 5, IDS_3, .context = 0x81828384, .role = 1, ENDS),
          "create_rdma_connection_request id 286397204 correlation 555885348 context_idx 2172814212 role io_control connection_details of 2 bytes" },
        { DOCA_3_2, TARGET, WHOLE(create_response, DOCA_CREATE_RSP, 6, IDS_3, .context = 0x81828384, .role = 0, ENDS),
          "create_rdma_connection_response id 286397204 correlation 555885348 context_idx 2172814212 role io_data connection_details of 2 bytes" },
        { DOCA_3_2, SERVICE, WHOLE(start, DOCA_START, 7, IDS_3), "start_storage_request id 286397204 correlation 555885348" },
        { DOCA_3_2, TARGET, WHOLE(start_response, DOCA_START_RSP, 8, IDS_3), "start_storage_response id 286397204 correlation 555885348" },
        { DOCA_3_2, SERVICE, WHOLE(stop, DOCA_STOP, 9, IDS_3), "stop_storage_request id 286397204 correlation 555885348" },
        { DOCA_3_2, TARGET, WHOLE(stop_response, DOCA_STOP_RSP, 10, IDS_3), "stop_storage_response id 286397204 correlation 555885348" },
        { DOCA_3_2, SERVICE, WHOLE(shut, DOCA_SHUTDOWN, 11, IDS_3), "shutdown_request id 286397204 correlation 555885348" },
        { DOCA_3_2, TARGET, WHOLE(shut_response, DOCA_SHUTDOWN_RSP, 12, IDS_3), "shutdown_response id 286397204 correlation 555885348" },
        { DOCA_2_10, TARGET, WHOLE(response_2_10, DOCA_RESPONSE, 0, IDS_2, .result = 1, TEXT),
          "response correlation 555885348 result UNKNOWN \"bad\"" },
        { DOCA_2_10, SERVICE, WHOLE(configure_2_10, DOCA_INIT, 1, IDS_2, .transactions = 0x51525354, .buffer_size = 0x91929394, .batch = 0x71727374, BLOB),
          "configure_data_path correlation 555885348 buffer_count 1364349780 buffer_size 2442302356 batch_size 1903326068 mmap_export of 4 bytes" },
        { DOCA_2_10, SERVICE, WHOLE(create_2_10, DOCA_CREATE, 2, IDS_2, .role = 1, ENDS),
          "create_rdma_connection_request correlation 555885348 role io_control connection_details of 2 bytes" },
        { DOCA_2_10, TARGET, WHOLE(create_response_2_10, DOCA_CREATE_RSP, 3, IDS_2, .role = 0, ENDS),
          "create_rdma_connection_response correlation 555885348 role io_data connection_details of 2 bytes" },
        { DOCA_2_10, SERVICE, WHOLE(connect_2_10, DOCA_CONNECT, 4, IDS_2), "start_data_path_connections correlation 555885348" },
        { DOCA_2_10, SERVICE, WHOLE(start_2_10, DOCA_START, 5, IDS_2), "start_storage correlation 555885348" },
        { DOCA_2_10, SERVICE, WHOLE(destroy_2_10, DOCA_SHUTDOWN, 6, IDS_2), "destroy_objects correlation 555885348" },
        /* clang-format on */
};

/* --- control messages ------------------------------------------------------------------------- */

static void assert_same(const struct doca_msg *a, const struct doca_msg *b)
{
        struct doca_msg x = *a, y = *b;

        assert_int_equal(x.data.len, y.data.len);
        if (x.data.len > 0)
                assert_memory_equal(x.data.p, y.data.p, x.data.len);
        memset(&x.data, 0, sizeof(x.data));
        memset(&y.data, 0, sizeof(y.data));
        assert_memory_equal(&x, &y, sizeof(x));
}

static void test_reading(void **state)
{
        (void)state;
        for (unsigned i = 0; i < COUNT(messages); i++) {
                const struct message *m = &messages[i];
                const struct doca_dialect *d = doca_dialect(m->version);
                struct rule_set found = { 0 };
                struct doca_msg out;

                assert_int_equal(doca_frame_len(d, m->p, m->n), m->n);
                assert_true(doca_msg_read(d, m->p, m->n, m->sender, &out, &found));
                assert_true(rule_set_empty(&found));
                assert_same(&out, &m->m);
        }
}

static void test_writing(void **state)
{
        (void)state;
        for (unsigned i = 0; i < COUNT(messages); i++) {
                const struct message *m = &messages[i];
                uint8_t buf[64];

                memset(buf, 0xee, sizeof(buf));
                assert_int_equal(doca_msg_write(doca_dialect(m->version), &m->m, buf, sizeof(buf)),
                                 m->n);
                assert_memory_equal(buf, m->p, m->n);
                assert_int_equal(buf[m->n], 0xee);
                memset(buf, 0xee, sizeof(buf));
                assert_int_equal(doca_msg_write(doca_dialect(m->version), &m->m, buf, m->n - 1),
                                 m->n);
                assert_int_equal(buf[0], 0xee);
        }
}

static void test_lines(void **state)
{
        (void)state;
        for (unsigned i = 0; i < COUNT(messages); i++) {
                char buf[400];
                struct text t = text_in(buf, sizeof(buf));

                doca_msg_line(&t, doca_dialect(messages[i].version), &messages[i].m);
                assert_string_equal(buf, messages[i].line);
        }
}

/* All types of each dialect are above, and none is there that the dialect does not have. */
static void test_all_types(void **state)
{
        static const unsigned types[DOCA_VERSIONS] = { 7, 13, 13, 13 };

        (void)state;
        for (unsigned v = 0; v < DOCA_VERSIONS; v++) {
                const struct doca_dialect *d = doca_dialect((enum doca_version)v);

                assert_int_equal(d->types, types[v]);
                assert_ptr_equal(doca_dialect_named(d->name), d);
                assert_int_equal(d->version, v);
                assert_null(doca_shape(d, types[v]));
                assert_null(doca_shape(d, UINT32_MAX));
                for (unsigned i = 0; i < types[v]; i++)
                        assert_ptr_equal(doca_shape_of(d, d->shapes[i].kind), &d->shapes[i]);
        }
        assert_ptr_equal(doca_dialect_named("3.3"), doca_dialect(DOCA_3_2));
        assert_null(doca_dialect_named("3"));
        assert_null(doca_shape_of(doca_dialect(DOCA_3_2), DOCA_CONNECT));
        assert_null(doca_shape_of(doca_dialect(DOCA_2_10), DOCA_QUERY));
}

/* Whatever is missing at the end is not read, and is somebody's fault. */
static void test_short_payloads(void **state)
{
        (void)state;
        for (unsigned i = 0; i < COUNT(messages); i++) {
                const struct message *m = &messages[i];
                const struct doca_dialect *d = doca_dialect(m->version);

                for (size_t n = d->frame.header; n < m->n; n++) {
                        uint8_t *copy = malloc(n); /* its end is watched by sanitizers */
                        struct rule_set found = { 0 };
                        struct doca_msg out;

                        memcpy(copy, m->p, n);
                        assert_false(doca_msg_read(d, copy, n, m->sender, &out, &found));
                        assert_true(rule_in(&found, m->sender == SERVICE ? DOCA_PAYLOAD_S
                                                                         : DOCA_PAYLOAD_T));
                        assert_true(out.data.len <= n);
                        assert_int_equal(out.kind, m->m.kind);
                        free(copy);
                }
        }
}

/* The oddity of the reference: a length within the frame that reaches beyond it. */
static void test_blob_beyond_frame(void **state)
{
        uint8_t p[sizeof(init)];
        struct rule_set found = { 0 };
        struct doca_msg out;

        (void)state;
        memcpy(p, init, sizeof(p));
        be_put(p + 24, 4, UINT32_MAX);
        assert_false(doca_msg_read(doca_dialect(DOCA_3_2), p, sizeof(p), SERVICE, &out, &found));
        assert_true(rule_in(&found, DOCA_PAYLOAD_S));
        assert_int_equal(out.data.len, 4);
        assert_ptr_equal(out.data.p, p + 28);
}

static void test_trailing(void **state)
{
        uint8_t p[sizeof(query) + 1] = { 0 };
        struct rule_set found = { 0 };
        struct doca_msg out;

        (void)state;
        memcpy(p, query, sizeof(query));
        assert_true(doca_msg_read(doca_dialect(DOCA_3_2), p, sizeof(p), SERVICE, &out, &found));
        assert_true(rule_in(&found, DOCA_TRAILING_S));
        assert_false(rule_in(&found, DOCA_PAYLOAD_S));
}

static void test_wrong_types(void **state)
{
        const struct doca_dialect *d = doca_dialect(DOCA_3_2);
        uint8_t p[] = EMPTY(13);
        struct rule_set found = { 0 };
        struct doca_msg out;

        (void)state;
        assert_false(doca_msg_read(d, p, sizeof(p), TARGET, &out, &found));
        assert_true(rule_in(&found, DOCA_TYPE_T));
        assert_int_equal(out.kind, DOCA_NOTHING);
        assert_int_equal(out.message_id, 0x11121314); /* to be answered */
        found = (struct rule_set) { 0 };
        assert_true(doca_msg_read(d, start, sizeof(start), TARGET, &out, &found));
        assert_true(rule_in(&found, DOCA_TYPE_T)); /* a request */
}

static void test_frames(void **state)
{
        const struct doca_dialect *d = doca_dialect(DOCA_3_2), *old = doca_dialect(DOCA_2_10);
        const uint8_t huge[] = { 0xff, 0xff, 0xff, 0xff };

        (void)state;
        assert_int_equal(doca_frame_len(d, query, 3), 0);
        assert_int_equal(doca_frame_len(d, query, 4), 16);
        assert_int_equal(doca_frame_len(d, huge, 4), UINT64_C(0x100000003));
        assert_int_equal(doca_frame_len(old, start_2_10, 1), 0);
        assert_int_equal(doca_frame_len(old, start_2_10, 2), 8);
        assert_false(doca_frame_sane(d, 15));
        assert_true(doca_frame_sane(d, 16));
        assert_false(doca_frame_sane(d, DOCA_FRAME_MAX + 1));
        assert_false(doca_frame_sane(old, 7));
}

/* A size field of two bytes cannot say how long it is. */
static void test_too_long_to_write(void **state)
{
        static const uint8_t long_blob[1 << 16];
        struct doca_msg m = { .kind = DOCA_CREATE, .data = { long_blob, sizeof(long_blob) } };
        uint8_t p[16];

        (void)state;
        assert_int_equal(doca_msg_write(doca_dialect(DOCA_2_10), &m, p, sizeof(p)), 0);
        m.kind = DOCA_QUERY;
        assert_int_equal(doca_msg_write(doca_dialect(DOCA_2_10), &m, p, sizeof(p)), 0);
}

/* --- I/O messages ----------------------------------------------------------------------------- */

static const uint8_t io_3_2[64] = {
        0,    0,    0,    1,    0,    0,    0,    0,    1,    2,    3,    4,    5,    6,
        7,    8,    0,    0,    0,    0,    0,    0x10, 0x20, 0x30, 0x41, 0x42, 0x43, 0x44,
        0x45, 0x46, 0x47, 0x48, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58,
};
static const uint8_t io_3_1[64] = {
        0,    0,    0,    2,    0x31, 0x32, 0x33, 0x34, 1,    2,    3,    4,    5,    6,
        7,    8,    0,    0,    0,    0,    0,    0x10, 0x20, 0x30, 0x41, 0x42, 0x43, 0x44,
        0x45, 0x46, 0x47, 0x48, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58,
};
static const uint8_t io_3_0[64] = {
        0,    0,    0,    0,    0x31, 0x32, 0x33, 0x34, 1,    2,    3,    4,
        5,    6,    7,    8,    0,    0,    0,    17,   0,    0x10, 0x20, 0x30,
        0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x51, 0x52, 0x53, 0x54,
};
static const uint8_t io_2_10[64] = {
        0, 0, 0, 3, 0x31, 0x32, 0x33, 0x34, 1,    2,    3,    4,    5,    6,    7,    8,
        0, 0, 0, 0, 0,    0x10, 0x20, 0x30, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48,
};
#define IO_COMMON .user_data = 0x0102030405060708, .size = 0x102030, .memory = 0x4142434445464748

static const struct {
        enum doca_version version;
        enum party sender;
        const uint8_t *p;
        struct doca_io io;
        const char *line;
} ios[] = {
        /* clang-format off */
        { DOCA_3_2, SERVICE, io_3_2, { .type = DOCA_IO_READ, IO_COMMON, .storage = 0x5152535455565758 },
          "read user_data 102030405060708h 1056816 bytes memory 4142434445464748h storage 5152535455565758h" },
        { DOCA_3_1, SERVICE, io_3_1, { .type = DOCA_IO_WRITE, .correlation_id = 0x31323334, IO_COMMON, .storage = 0x5152535455565758 },
          "write user_data 102030405060708h 1056816 bytes memory 4142434445464748h storage 5152535455565758h" },
        { DOCA_3_0, TARGET, io_3_0, { .type = DOCA_IO_RESULT, .correlation_id = 0x31323334, IO_COMMON, .result = 17, .storage = 0x51525354 },
          "result user_data 102030405060708h IO_FAILED 1056816 bytes address 4142434445464748h storage 51525354h" },
        { DOCA_2_10, SERVICE, io_2_10, { .type = DOCA_IO_STOP, .correlation_id = 0x31323334, IO_COMMON },
          "stop user_data 102030405060708h 1056816 bytes address 4142434445464748h" },
        /* clang-format on */
};

static void test_io(void **state)
{
        (void)state;
        for (unsigned i = 0; i < COUNT(ios); i++) {
                const struct doca_dialect *d = doca_dialect(ios[i].version);
                char buf[200];
                struct text t = text_in(buf, sizeof(buf));
                struct rule_set found = { 0 };
                struct doca_io io;
                uint8_t p[DOCA_IO_LEN];

                assert_true(doca_io_read(d, ios[i].p, 64, ios[i].sender, &io, &found));
                assert_true(rule_set_empty(&found));
                assert_memory_equal(&io, &ios[i].io, sizeof(io));
                doca_io_write(d, &io, p);
                assert_memory_equal(p, ios[i].p, sizeof(p));
                doca_io_line(&t, d, &io);
                assert_string_equal(buf, ios[i].line);
        }
}

static void test_io_rules(void **state)
{
        const struct doca_dialect *d = doca_dialect(DOCA_3_2);
        struct rule_set found = { 0 };
        struct doca_io io;

        (void)state;
        assert_false(doca_io_read(d, io_3_2, 63, SERVICE, &io, &found));
        assert_true(rule_in(&found, DOCA_IO_LEN_S));
        assert_false(doca_io_read(d, io_3_2, 64, TARGET, &io, &found)); /* no result */
        assert_true(rule_in(&found, DOCA_IO_TYPE_T));
        assert_false(doca_io_read(d, io_3_0, 64, SERVICE, &io, &found)); /* a result */
        assert_true(rule_in(&found, DOCA_IO_TYPE_S));
        found = (struct rule_set) { 0 };
        assert_false(doca_io_read(d, io_2_10, 64, SERVICE, &io, &found)); /* a stop, in 3.2 */
        assert_true(rule_in(&found, DOCA_IO_TYPE_S));
        assert_false(doca_io_read(d, NULL, 0, SERVICE, &io, &found));
}

/* A response is its request but for type and result: bytes that are no field stay, too. */
static void test_io_answer(void **state)
{
        uint8_t p[DOCA_IO_LEN], expected[DOCA_IO_LEN];

        (void)state;
        memset(p, 0xdd, sizeof(p));
        memset(expected, 0xdd, sizeof(expected));
        memset(expected, 0, 4);
        be_put(expected + 16, 4, 6);
        doca_io_answer(doca_dialect(DOCA_3_2), p, DOCA_ERROR_INVALID_VALUE);
        assert_memory_equal(p, expected, sizeof(p));
}

static void test_io_places(void **state)
{
        const struct doca_place at = { 0x2000, 0x9000 };

        (void)state;
        for (unsigned v = 0; v < DOCA_VERSIONS; v++) {
                const struct doca_dialect *d = doca_dialect((enum doca_version)v);
                struct doca_io io = { 0 };
                struct doca_place back;

                doca_io_put_place(d, &io, 0x10000, at);
                back = doca_io_place(d, &io, 0x10000);
                assert_int_equal(io.memory, v <= DOCA_3_0 ? 0x12000 : 0x2000);
                assert_int_equal(back.memory, 0x2000);
                assert_int_equal(back.storage, v == DOCA_2_10 ? 0x2000 : 0x9000);
                assert_true(doca_within(back.memory, 0x1000, 0x3000));
                assert_false(doca_within(back.memory, 0x1001, 0x3000));
        }
        assert_false(doca_within(UINT64_MAX, 2, 0x3000));
        assert_false(doca_within(
            doca_io_place(doca_dialect(DOCA_3_0), &(struct doca_io) { .memory = 0xffff }, 0x10000)
                .memory,
            0, 0x3000));
}

/* --- random bytes ----------------------------------------------------------------------------- */

static void ignore_number(void *arg, const char *name, uint64_t value, unsigned bits,
                          const char *meaning)
{
        (void)arg, (void)name, (void)value, (void)bits, (void)meaning;
}

static void ignore_string(void *arg, const char *name, const char *s, size_t len)
{
        (void)name, (void)s;
        *(size_t *)arg += len;
}

/* Reading is total, and what was read is written again as far as it was whole and alone. */
static void test_random(void **state)
{
        uint64_t seed = 7;

        (void)state;
        for (unsigned round = 0; round < 20000; round++) {
                const struct doca_dialect *d = doca_dialect((enum doca_version)(round % 4));
                size_t n = d->frame.header + random_next(&seed) % 48, shown = 0;
                enum party sender = round / 4 % 2 ? SERVICE : TARGET;
                struct describe to = { .arg = &shown,
                                       .number = ignore_number,
                                       .string = ignore_string };
                struct rule_set found = { 0 };
                uint8_t *p = malloc(n), back[128];
                struct doca_msg out;
                bool whole;

                random_fill(&seed, p, n);
                be_put(p, d->frame.size_len, n - d->frame.uncounted);
                be_put(p + d->frame.type_at, d->frame.type_len, random_next(&seed) % 15);
                if (round % 3 == 0 && n >= 28u)
                        be_put(p + n - 8, 4, random_next(&seed) % 6);
                whole = doca_msg_read(d, p, n, sender, &out, &found);
                doca_msg_describe(&to, d, &out);
                if (whole && !rule_in(&found, DOCA_TRAILING_S) &&
                    !rule_in(&found, DOCA_TRAILING_T)) {
                        assert_int_equal(doca_msg_write(d, &out, back, sizeof(back)), n);
                        assert_memory_equal(back, p, n);
                }
                free(p);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_reading),
                cmocka_unit_test(test_writing),
                cmocka_unit_test(test_lines),
                cmocka_unit_test(test_all_types),
                cmocka_unit_test(test_short_payloads),
                cmocka_unit_test(test_blob_beyond_frame),
                cmocka_unit_test(test_trailing),
                cmocka_unit_test(test_wrong_types),
                cmocka_unit_test(test_frames),
                cmocka_unit_test(test_too_long_to_write),
                cmocka_unit_test(test_io),
                cmocka_unit_test(test_io_rules),
                cmocka_unit_test(test_io_answer),
                cmocka_unit_test(test_io_places),
                cmocka_unit_test(test_random),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
