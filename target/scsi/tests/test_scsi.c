/* SPDX-License-Identifier: BSD-3-Clause */
/* The SCSI device: each command, and the sense data of each mistake. */
#include "pdu/core/tests/check.h"

#include <pthread.h>
#include <semaphore.h>

#include "target/scsi/scsi_own.h"

enum { BLOCKS = 2048, BUFFER = 1 << 20, BIG_LUN = 3 };

static uint8_t buffer[BUFFER];

struct fixture {
        struct scsi_device device;
        struct scsi_nexus nexus;
        struct scsi_task task;
        uint8_t cdb[SCSI_CDB_LEN];
        sem_t done;
};

static struct ns *open_ns(const char *spec, uint32_t nsid)
{
        char error[200] = "";
        struct ns *ns = ns_open(NULL, spec, "test", nsid, error, sizeof(error));

        if (!ns)
                fail_msg("%s", error);
        return ns;
}

static void start(struct fixture *f)
{
        memset(f, 0, sizeof(*f));
        f->device.max_transfer = 1 << 18;
        f->device.protocol = 4;
        f->device.unit[0] = open_ns("mem:1M", 1);
        f->device.unit[BIG_LUN] = open_ns("mem:1M,bs=4096", 2);
        sem_init(&f->done, 0, 0);
}

static void stop(struct fixture *f)
{
        for (unsigned i = 0; i < SCSI_UNITS; i++)
                if (f->device.unit[i])
                        ns_put(f->device.unit[i]);
        sem_destroy(&f->done);
}

static void on_done(struct scsi_task *t)
{
        sem_post(&((struct fixture *)(void *)((char *)t - offsetof(struct fixture, task)))->done);
}

/* What the initiator sends is in buffer[0..out). */
static struct scsi_task *run_on(struct fixture *f, uint32_t lun, const uint8_t *cdb, size_t n,
                                uint32_t out)
{
        memset(f->cdb, 0, sizeof(f->cdb));
        memcpy(f->cdb, cdb, n);
        f->task = (struct scsi_task) { .cdb = f->cdb,
                                       .cdb_len = sizeof(f->cdb),
                                       .lun = scsi_lun_of(lun),
                                       .attr = f->task.attr,
                                       .out_size = out,
                                       .done = on_done };
        if (!scsi_admit(&f->device, &f->nexus, &f->task))
                return &f->task;
        assert_true(f->task.out_len <= out);
        assert_true(f->task.out_len == 0 || f->task.in_max == 0);
        assert_true(f->task.in_max <= BUFFER);
        f->task.data = buffer;
        if (!scsi_execute(&f->task))
                sem_wait(&f->done);
        return &f->task;
}

#define RUN(f, out, ...)                                                                           \
        run_on(f, 0, (const uint8_t[]) { __VA_ARGS__ }, sizeof((const uint8_t[]) { __VA_ARGS__ }), \
               out)

static void is_good(const struct scsi_task *t, uint32_t in_len)
{
        if (t->status == SCSI_CHECK)
                fail_msg("%02x: sense %x/%04x", t->cdb[0], t->sense.key, t->sense.asc);
        assert_int_equal(t->status, SCSI_GOOD);
        assert_int_equal(t->in_len, in_len);
}

static void has_sense(const struct scsi_task *t, uint8_t key, uint16_t asc)
{
        assert_int_equal(t->status, SCSI_CHECK);
        if (t->sense.key != key || t->sense.asc != asc)
                fail_msg("%02x: sense %x/%04x, not %x/%04x", t->cdb[0], t->sense.key, t->sense.asc,
                         key, asc);
        assert_int_equal(t->in_len, 0);
}

/* --- what it is -------------------------------------------------------------------------------- */

static void test_inquiry(void **state)
{
        struct fixture f;

        (void)state;
        start(&f);
        is_good(RUN(&f, 0, SCSI_INQUIRY, 0, 0, 0, 36), 36);
        assert_int_equal(buffer[0], 0);
        assert_int_equal(buffer[2], 6);
        assert_int_equal(buffer[3] & 15, 2);
        assert_memory_equal(buffer + 8, "NVMFSPECvirtual disk    1   ", 28);
        is_good(RUN(&f, 0, SCSI_INQUIRY, 0, 0, 1, 0), 96);
        assert_int_equal(buffer[4], 91);
        is_good(RUN(&f, 0, SCSI_INQUIRY), 0);
        is_good(run_on(&f, 7, (uint8_t[]) { SCSI_INQUIRY, 0, 0, 0, 36 }, 5, 0), 36);
        assert_int_equal(buffer[0], 0x7f);
        has_sense(RUN(&f, 0, SCSI_INQUIRY, 0, 1, 0, 36), SCSI_ILLEGAL_REQUEST, SCSI_ASC_CDB_FIELD);
        assert_true(f.task.sense.in_cdb);
        assert_int_equal(f.task.sense.field, 2);
        stop(&f);
}

static void test_vital_product_data(void **state)
{
        static const uint8_t pages[] = { 0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2 };
        static const uint16_t sizes[] = { 6, 32, 64, 60, 60, 4 };
        struct fixture f;

        (void)state;
        start(&f);
        for (unsigned i = 0; i < COUNT(pages); i++) {
                is_good(RUN(&f, 0, SCSI_INQUIRY, 1, pages[i], 0, 255), 4u + sizes[i]);
                assert_int_equal(buffer[1], pages[i]);
                assert_int_equal(be_get(buffer + 2, 2), sizes[i]);
                is_good(RUN(&f, 0, SCSI_INQUIRY, 1, pages[i], 0, 4), 4);
        }
        is_good(RUN(&f, 0, SCSI_INQUIRY, 1, 0x00, 0, 255), 10);
        assert_memory_equal(buffer + 4, pages, sizeof(pages));
        is_good(RUN(&f, 0, SCSI_INQUIRY, 1, 0x83, 0, 255), 68);
        assert_int_equal(buffer[5] & 15, 3); /* NAA */
        assert_int_equal(buffer[8] >> 4, 3);
        is_good(RUN(&f, 0, SCSI_INQUIRY, 1, 0xb0, 0, 255), 64);
        assert_int_equal(be_get(buffer + 8, 4), (1 << 18) / 512);
        has_sense(RUN(&f, 0, SCSI_INQUIRY, 1, 0x84, 0, 255), SCSI_ILLEGAL_REQUEST,
                  SCSI_ASC_CDB_FIELD);
        stop(&f);
}

/* Two units, and two runs, are told apart and known again. */
static void test_identity(void **state)
{
        uint8_t first[68];
        struct fixture f;

        (void)state;
        start(&f);
        (void)RUN(&f, 0, SCSI_INQUIRY, 1, 0x83, 0, 255);
        memcpy(first, buffer, sizeof(first));
        (void)run_on(&f, BIG_LUN, (uint8_t[]) { SCSI_INQUIRY, 1, 0x83, 0, 255 }, 5, 0);
        assert_memory_not_equal(first, buffer, sizeof(first));
        stop(&f);
        start(&f);
        (void)RUN(&f, 0, SCSI_INQUIRY, 1, 0x83, 0, 255);
        assert_memory_equal(first, buffer, sizeof(first));
        stop(&f);
}

static void test_luns(void **state)
{
        struct fixture f;

        (void)state;
        start(&f);
        is_good(RUN(&f, 0, SCSI_REPORT_LUNS, 0, 0, 0, 0, 0, 0, 0, 16, 0), 24);
        assert_int_equal(be_get(buffer, 4), 16);
        assert_int_equal(be_get(buffer + 8, 8), 0);
        assert_int_equal(be_get(buffer + 16, 8), (uint64_t)BIG_LUN << 48);
        is_good(RUN(&f, 0, SCSI_REPORT_LUNS, 0, 1, 0, 0, 0, 0, 0, 16, 0), 8);
        is_good(run_on(&f, 9, (uint8_t[]) { SCSI_REPORT_LUNS, 0, 0, 0, 0, 0, 0, 0, 0, 12 }, 10, 0),
                12);
        has_sense(RUN(&f, 0, SCSI_REPORT_LUNS, 0, 3, 0, 0, 0, 0, 0, 16, 0), SCSI_ILLEGAL_REQUEST,
                  SCSI_ASC_CDB_FIELD);
        stop(&f);
}

static void test_lun_numbers(void **state)
{
        (void)state;
        for (uint32_t lun = 0; lun < 0x4000; lun++)
                assert_int_equal(scsi_lun_number(scsi_lun_of(lun)), lun);
        assert_int_equal(scsi_lun_number(UINT64_C(0x4003000000000000)), 3);
        assert_int_equal(scsi_lun_number(UINT64_C(0x0103000000000000)), UINT32_MAX);
        assert_int_equal(scsi_lun_number(UINT64_C(0x8003000000000000)), UINT32_MAX);
        assert_int_equal(scsi_lun_number(UINT64_C(0x0003000000000001)), UINT32_MAX);
}

static void test_capacity(void **state)
{
        struct fixture f;

        (void)state;
        start(&f);
        is_good(RUN(&f, 0, SCSI_READ_CAPACITY_10), 8);
        assert_int_equal(be_get(buffer, 4), BLOCKS - 1);
        assert_int_equal(be_get(buffer + 4, 4), 512);
        is_good(RUN(&f, 0, SCSI_SERVICE_IN_16, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32), 32);
        assert_int_equal(be_get(buffer, 8), BLOCKS - 1);
        assert_int_equal(be_get(buffer + 8, 4), 512);
        assert_int_equal(buffer[14], 0x80);
        is_good(run_on(&f, BIG_LUN, (uint8_t[]) { SCSI_READ_CAPACITY_10 }, 1, 0), 8);
        assert_int_equal(be_get(buffer + 4, 4), 4096);
        has_sense(RUN(&f, 0, SCSI_SERVICE_IN_16, 0x11), SCSI_ILLEGAL_REQUEST, SCSI_ASC_CDB_FIELD);
        assert_int_equal(f.task.sense.field, 1);
        stop(&f);
}

static void test_mode_sense(void **state)
{
        struct fixture f;

        (void)state;
        start(&f);
        is_good(RUN(&f, 0, SCSI_MODE_SENSE_6, 0, 0x3f, 0, 255), 4 + 8 + 20 + 12);
        assert_int_equal(buffer[0], 43);
        assert_int_equal(buffer[2], 0x10);
        assert_int_equal(buffer[3], 8);
        assert_int_equal(be_get(buffer + 4, 4), BLOCKS);
        assert_int_equal(be_get(buffer + 9, 3), 512);
        assert_int_equal(buffer[12], 0x08);
        is_good(RUN(&f, 0, SCSI_MODE_SENSE_6, 8, 0x08, 0, 255), 4 + 20);
        assert_int_equal(buffer[3], 0);
        is_good(RUN(&f, 0, SCSI_MODE_SENSE_10, 8, 0x0a, 0, 0, 0, 0, 0, 255), 8 + 12);
        assert_int_equal(be_get(buffer, 2), 18);
        assert_int_equal(buffer[8], 0x0a);
        is_good(RUN(&f, 0, SCSI_MODE_SENSE_10, 0, 0x3f, 0, 0, 0, 0, 0, 4), 4);
        is_good(RUN(&f, 0, SCSI_MODE_SENSE_6, 8, 0x40 | 0x0a, 0, 255), 4 + 12);
        assert_int_equal(buffer[4 + 3], 0); /* nothing can be changed */
        assert_int_equal(ns_protect(f.device.unit[0], 1), NS_DONE);
        is_good(RUN(&f, 0, SCSI_MODE_SENSE_6, 8, 0x3f, 0, 255), 4 + 32);
        assert_int_equal(buffer[2], 0x90);
        has_sense(RUN(&f, 0, SCSI_MODE_SENSE_6, 0, 0xc0 | 0x3f, 0, 255), SCSI_ILLEGAL_REQUEST,
                  0x3900);
        has_sense(RUN(&f, 0, SCSI_MODE_SENSE_6, 0, 0x02, 0, 255), SCSI_ILLEGAL_REQUEST,
                  SCSI_ASC_CDB_FIELD);
        has_sense(RUN(&f, 0, SCSI_MODE_SENSE_6, 0, 0x0a, 5, 255), SCSI_ILLEGAL_REQUEST,
                  SCSI_ASC_CDB_FIELD);
        assert_int_equal(f.task.sense.field, 3);
        stop(&f);
}

/* --- attention --------------------------------------------------------------------------------- */

static void test_attention_is_reported_once(void **state)
{
        struct fixture f;

        (void)state;
        start(&f);
        scsi_nexus_init(&f.nexus, &f.device);
        is_good(RUN(&f, 0, SCSI_INQUIRY, 0, 0, 0, 36), 36);
        is_good(RUN(&f, 0, SCSI_REPORT_LUNS, 0, 0, 0, 0, 0, 0, 0, 16, 0), 24);
        has_sense(RUN(&f, 0, SCSI_TEST_UNIT_READY), SCSI_UNIT_ATTENTION, SCSI_ASC_POWER_ON);
        is_good(RUN(&f, 0, SCSI_TEST_UNIT_READY), 0);
        has_sense(run_on(&f, BIG_LUN, (uint8_t[]) { 0x7e }, 1, 0), SCSI_UNIT_ATTENTION,
                  SCSI_ASC_POWER_ON);
        has_sense(run_on(&f, BIG_LUN, (uint8_t[]) { 0x7e }, 1, 0), SCSI_ILLEGAL_REQUEST,
                  SCSI_ASC_OPCODE);
        scsi_nexus_attend(&f.nexus, 0, SCSI_ASC_RESET);
        scsi_nexus_attend(&f.nexus, SCSI_UNITS, SCSI_ASC_RESET); /* is none of it */
        is_good(RUN(&f, 0, SCSI_REQUEST_SENSE, 0, 0, 0, 18), 18);
        assert_int_equal(buffer[0], 0x70);
        assert_int_equal(buffer[2], SCSI_UNIT_ATTENTION);
        assert_int_equal(be_get(buffer + 12, 2), SCSI_ASC_RESET);
        is_good(RUN(&f, 0, SCSI_REQUEST_SENSE, 0, 0, 0, 18), 18);
        assert_int_equal(buffer[2], SCSI_NO_SENSE);
        is_good(run_on(&f, 5, (uint8_t[]) { SCSI_REQUEST_SENSE, 0, 0, 0, 252 }, 5, 0), 18);
        assert_int_equal(be_get(buffer + 12, 2), SCSI_ASC_LUN);
        stop(&f);
}

/* --- blocks ------------------------------------------------------------------------------------ */

static void fill(uint8_t *p, uint32_t n, uint8_t with)
{
        for (uint32_t i = 0; i < n; i++)
                p[i] = (uint8_t)(with + i + (i >> 9));
}

static void test_read_and_write(void **state)
{
        static const struct {
                uint8_t w[16], r[16], len;
                uint32_t blocks;
        } rows[] = {
                { { SCSI_WRITE_6, 0, 1, 2 }, { SCSI_READ_6, 0, 1, 2 }, 6, 256 },
                { { SCSI_WRITE_6, 0, 0, 9, 3 }, { SCSI_READ_6, 0, 0, 9, 3 }, 6, 3 },
                { { SCSI_WRITE_10, 8, 0, 0, 1, 0, 0, 0, 7 },
                  { SCSI_READ_10, 0x18, 0, 0, 1, 0, 0, 0, 7 },
                  10,
                  7 },
                { { SCSI_WRITE_12, 0, 0, 0, 0, 5, 0, 0, 0, 2 },
                  { SCSI_READ_12, 0, 0, 0, 0, 5, 0, 0, 0, 2 },
                  12,
                  2 },
                { { SCSI_WRITE_16, 0, 0, 0, 0, 0, 0, 0, 7, 0xff, 0, 0, 0, 1 },
                  { SCSI_READ_16, 0, 0, 0, 0, 0, 0, 0, 7, 0xff, 0, 0, 0, 1 },
                  16,
                  1 },
        };
        static uint8_t expected[256 * 512];
        struct fixture f;

        (void)state;
        start(&f);
        for (unsigned i = 0; i < COUNT(rows); i++) {
                uint32_t n = rows[i].blocks * 512;

                fill(expected, n, (uint8_t)(i + 1));
                memcpy(buffer, expected, n);
                is_good(run_on(&f, 0, rows[i].w, rows[i].len, n), 0);
                memset(buffer, 0, n);
                is_good(run_on(&f, 0, rows[i].r, rows[i].len, 0), n);
                assert_memory_equal(buffer, expected, n);
        }
        is_good(RUN(&f, 0, SCSI_READ_10, 0, 0, 0, 0, 0, 0, 0, 0), 0);
        is_good(RUN(&f, 0, SCSI_WRITE_10, 0, 0, 0, 0, 0, 0, 0, 0), 0);
        stop(&f);
}

static void test_verify(void **state)
{
        struct fixture f;

        (void)state;
        start(&f);
        is_good(RUN(&f, 0, SCSI_VERIFY_10, 0, 0, 0, 0, 0, 0, 0, 8), 0);
        memset(buffer, 0, 1024);
        is_good(RUN(&f, 1024, SCSI_VERIFY_10, 2, 0, 0, 0, 0, 0, 0, 2), 0);
        buffer[700] = 1;
        has_sense(RUN(&f, 1024, SCSI_VERIFY_16, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2),
                  SCSI_MISCOMPARE, SCSI_ASC_MISCOMPARE);
        has_sense(RUN(&f, 1024, SCSI_VERIFY_10, 6, 0, 0, 0, 0, 0, 0, 2), SCSI_ILLEGAL_REQUEST,
                  SCSI_ASC_CDB_FIELD);
        stop(&f);
}

static void test_write_same(void **state)
{
        struct fixture f;

        (void)state;
        start(&f);
        fill(buffer, 512, 3);
        is_good(RUN(&f, 512, SCSI_WRITE_SAME_16, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 1, 44), 0);
        is_good(RUN(&f, 0, SCSI_READ_10, 0, 0, 0, 1, 0x2f, 0, 0, 2), 1024);
        assert_int_equal(buffer[0], 3);
        assert_int_equal(buffer[512], 0); /* 304 is not written */
        is_good(RUN(&f, 0, SCSI_WRITE_SAME_16, 9, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 1, 44), 0);
        is_good(RUN(&f, 0, SCSI_READ_10, 0, 0, 0, 0, 4, 0, 0, 1), 512);
        assert_int_equal(buffer[0], 0);
        memset(buffer, 0, 512);
        is_good(RUN(&f, 512, SCSI_WRITE_SAME_10, 8, 0, 0, 0, 0, 0, 0, 9), 0);
        has_sense(RUN(&f, 512, SCSI_WRITE_SAME_10, 0, 0, 0, 0, 0, 0, 0, 0), SCSI_ILLEGAL_REQUEST,
                  SCSI_ASC_CDB_FIELD);
        has_sense(RUN(&f, 511, SCSI_WRITE_SAME_10, 0, 0, 0, 0, 0, 0, 0, 1), SCSI_ILLEGAL_REQUEST,
                  SCSI_ASC_CDB_FIELD);
        stop(&f);
}

static void test_unmap(void **state)
{
        struct fixture f;

        (void)state;
        start(&f);
        fill(buffer, 1024, 3);
        is_good(RUN(&f, 1024, SCSI_WRITE_10, 0, 0, 0, 0, 8, 0, 0, 2), 0);
        memset(buffer, 0, 40);
        be_put(buffer, 2, 38);
        be_put(buffer + 2, 2, 32);
        be_put(buffer + 8, 8, 8);
        be_put(buffer + 16, 4, 1);
        be_put(buffer + 24, 8, 100);
        be_put(buffer + 32, 4, 5);
        is_good(RUN(&f, 40, SCSI_UNMAP, 0, 0, 0, 0, 0, 0, 0, 40), 0);
        is_good(RUN(&f, 0, SCSI_READ_10, 0, 0, 0, 0, 8, 0, 0, 2), 1024);
        assert_int_equal(buffer[0], 0);
        assert_int_not_equal(buffer[513], 0);
        is_good(RUN(&f, 0, SCSI_UNMAP), 0);
        has_sense(RUN(&f, 7, SCSI_UNMAP, 0, 0, 0, 0, 0, 0, 0, 7), SCSI_ILLEGAL_REQUEST,
                  SCSI_ASC_PARAMETER_LENGTH);
        memset(buffer, 0, 24);
        be_put(buffer + 2, 2, 17);
        has_sense(RUN(&f, 24, SCSI_UNMAP, 0, 0, 0, 0, 0, 0, 0, 24), SCSI_ILLEGAL_REQUEST,
                  SCSI_ASC_PARAMETER_LENGTH);
        be_put(buffer + 2, 2, 16);
        be_put(buffer + 8, 8, BLOCKS - 1);
        be_put(buffer + 16, 4, 2);
        has_sense(RUN(&f, 24, SCSI_UNMAP, 0, 0, 0, 0, 0, 0, 0, 24), SCSI_ILLEGAL_REQUEST,
                  SCSI_ASC_LBA);
        assert_int_equal(f.task.sense.info, BLOCKS);
        memset(buffer, 0, 8 + 65 * 16);
        be_put(buffer + 2, 2, 65 * 16);
        has_sense(RUN(&f, 8 + 65 * 16, SCSI_UNMAP, 0, 0, 0, 0, 0, 0, 4, 24), SCSI_ILLEGAL_REQUEST,
                  SCSI_ASC_PARAMETER_FIELD);
        assert_true(f.task.sense.in_data);
        stop(&f);
}

static void test_compare_and_write(void **state)
{
        struct fixture f;

        (void)state;
        start(&f);
        memset(buffer, 0, 512);
        memset(buffer + 512, 7, 512);
        is_good(RUN(&f, 1024, SCSI_COMPARE_WRITE, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1), 0);
        has_sense(RUN(&f, 1024, SCSI_COMPARE_WRITE, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1),
                  SCSI_MISCOMPARE, SCSI_ASC_MISCOMPARE);
        has_sense(RUN(&f, 1023, SCSI_COMPARE_WRITE, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1),
                  SCSI_ILLEGAL_REQUEST, SCSI_ASC_CDB_FIELD);
        has_sense(RUN(&f, BUFFER, SCSI_COMPARE_WRITE, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 129),
                  SCSI_ILLEGAL_REQUEST, SCSI_ASC_CDB_FIELD);
        assert_int_equal(f.task.sense.field, 13);
        stop(&f);
}

static void test_cache_and_start(void **state)
{
        struct fixture f;

        (void)state;
        start(&f);
        is_good(RUN(&f, 0, SCSI_SYNC_CACHE_10), 0);
        is_good(RUN(&f, 0, SCSI_SYNC_CACHE_16, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1), 0);
        has_sense(RUN(&f, 0, SCSI_SYNC_CACHE_10, 0, 0, 0, 9, 0, 0, 0, 1), SCSI_ILLEGAL_REQUEST,
                  SCSI_ASC_LBA);
        is_good(RUN(&f, 0, SCSI_START_STOP, 0, 0, 0, 1), 0);
        is_good(RUN(&f, 0, SCSI_START_STOP, 1, 0, 0, 0), 0);
        has_sense(RUN(&f, 0, SCSI_START_STOP, 0, 0, 0, 2), SCSI_ILLEGAL_REQUEST,
                  SCSI_ASC_CDB_FIELD);
        has_sense(RUN(&f, 0, SCSI_START_STOP, 0, 0, 0, 0x10), SCSI_ILLEGAL_REQUEST,
                  SCSI_ASC_CDB_FIELD);
        stop(&f);
}

/* --- mistakes ---------------------------------------------------------------------------------- */

static void test_ranges(void **state)
{
        static const struct {
                uint8_t cdb[16];
                uint32_t out;
                uint16_t asc;
                uint64_t info; /* or the field */
        } rows[] = {
                { { SCSI_READ_10, 0, 0, 0, 8, 0, 0, 0, 1 }, 0, SCSI_ASC_LBA, BLOCKS },
                { { SCSI_READ_10, 0, 0, 0, 7, 0xff, 0, 0, 2 }, 0, SCSI_ASC_LBA, BLOCKS },
                { { SCSI_READ_10, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 1 },
                  0,
                  SCSI_ASC_LBA,
                  UINT32_MAX },
                { { SCSI_WRITE_6, 0, 8, 0, 1 }, 512, SCSI_ASC_LBA, BLOCKS },
                { { SCSI_READ_16, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1 },
                  0,
                  SCSI_ASC_LBA,
                  UINT64_MAX },
                { { SCSI_WRITE_16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff },
                  512,
                  SCSI_ASC_LBA,
                  BLOCKS },
                { { SCSI_READ_10, 0, 0, 0, 0, 0, 0, 2, 1 },
                  0,
                  SCSI_ASC_CDB_FIELD,
                  7 }, /* 513 blocks */
                { { SCSI_WRITE_10, 0, 0, 0, 0, 0, 0, 2, 1 }, BUFFER, SCSI_ASC_CDB_FIELD, 7 },
                { { SCSI_WRITE_10, 0, 0, 0, 0, 0, 0, 0, 2 }, 1023, SCSI_ASC_CDB_FIELD, 8 },
        };
        struct fixture f;

        (void)state;
        start(&f);
        for (unsigned i = 0; i < COUNT(rows); i++) {
                const struct scsi_task *t = run_on(&f, 0, rows[i].cdb, 16, rows[i].out);

                has_sense(t, SCSI_ILLEGAL_REQUEST, rows[i].asc);
                if (rows[i].asc == SCSI_ASC_LBA)
                        assert_true(t->sense.has_info && t->sense.info == rows[i].info);
                else
                        assert_true(t->sense.in_cdb && t->sense.field == rows[i].info);
        }
        stop(&f);
}

static void test_what_it_is_not(void **state)
{
        static const uint8_t opcodes[] = { 0x15, 0x1e, 0x4d, 0x55, 0x5e,
                                           0x5f, 0x7f, 0x85, 0xa1, 0xff };
        struct fixture f;

        (void)state;
        start(&f);
        for (unsigned i = 0; i < COUNT(opcodes); i++)
                has_sense(run_on(&f, 0, &opcodes[i], 1, 0), SCSI_ILLEGAL_REQUEST, SCSI_ASC_OPCODE);
        for (unsigned i = 0; i < 256; i++) {
                uint8_t op = (uint8_t)i;

                if (op == SCSI_INQUIRY || op == SCSI_REQUEST_SENSE || op == SCSI_REPORT_LUNS)
                        continue;
                has_sense(run_on(&f, 5, &op, 1, 0), SCSI_ILLEGAL_REQUEST, SCSI_ASC_LUN);
        }
        f.task.attr = SCSI_ACA;
        has_sense(RUN(&f, 0, SCSI_TEST_UNIT_READY), SCSI_ILLEGAL_REQUEST, SCSI_ASC_MESSAGE);
        f.task.attr = SCSI_ORDERED;
        is_good(RUN(&f, 0, SCSI_TEST_UNIT_READY), 0);
        stop(&f);
}

static void test_write_protection(void **state)
{
        struct fixture f;

        (void)state;
        start(&f);
        assert_int_equal(ns_protect(f.device.unit[0], 1), NS_DONE);
        has_sense(RUN(&f, 512, SCSI_WRITE_10, 0, 0, 0, 0, 0, 0, 0, 1), SCSI_DATA_PROTECT,
                  SCSI_ASC_WRITE_PROTECTED);
        has_sense(RUN(&f, 0, SCSI_UNMAP), SCSI_DATA_PROTECT, SCSI_ASC_WRITE_PROTECTED);
        is_good(RUN(&f, 0, SCSI_READ_10, 0, 0, 0, 0, 0, 0, 0, 1), 512);
        stop(&f);
}

/* Each bit that a row does not name, of each command, is refused by its place. */
static void test_each_reserved_bit(void **state)
{
        const struct scsi_row *r;
        struct fixture f;

        (void)state;
        start(&f);
        for (unsigned i = 0; (r = scsi_row_at(i)) != NULL; i++)
                for (unsigned bit = 8; bit < r->len * 8u; bit++) {
                        uint8_t cdb[16] = { r->op, r->action == SCSI_NO_ACTION ? 0 : r->action };

                        if (r->bits[bit / 8] >> bit % 8 & 1 ||
                            (r->action != SCSI_NO_ACTION && bit < 8 + 5))
                                continue;
                        cdb[bit / 8] = (uint8_t)(cdb[bit / 8] | 1 << bit % 8);
                        has_sense(run_on(&f, 0, cdb, 16, 0), SCSI_ILLEGAL_REQUEST,
                                  SCSI_ASC_CDB_FIELD);
                        assert_int_equal(f.task.sense.field, bit / 8);
                }
        stop(&f);
}

static void test_opcodes_are_reported(void **state)
{
        static uint8_t all[SCSI_REPLY];
        const struct scsi_row *r;
        struct fixture f;
        uint32_t n = 4;

        (void)state;
        start(&f);
        (void)RUN(&f, 0, SCSI_MAINTENANCE_IN, 0x0c, 0, 0, 0, 0, 0, 0, 16, 0);
        assert_int_equal(f.task.status, SCSI_GOOD);
        memcpy(all, buffer, f.task.in_len);
        assert_int_equal(be_get(all, 4), f.task.in_len - 4);
        for (unsigned i = 0; (r = scsi_row_at(i)) != NULL; i++, n += 8) {
                bool acts = r->action != SCSI_NO_ACTION;

                assert_int_equal(all[n], r->op);
                assert_int_equal(be_get(all + n + 6, 2), r->len);
                assert_int_equal(r->len, scsi_cdb_len(r->op));
                is_good(RUN(&f, 0, SCSI_MAINTENANCE_IN, 0x0c, acts ? 2 : 1, r->op, 0,
                            acts ? r->action : 0, 0, 0, 16, 0),
                        4u + r->len);
                assert_int_equal(buffer[1], 3);
                assert_int_equal(buffer[4], r->op);
        }
        assert_int_equal(n, f.task.status == SCSI_GOOD ? be_get(all, 4) + 4 : 0);
        is_good(RUN(&f, 0, SCSI_MAINTENANCE_IN, 0x0c, 1, 0x4d, 0, 0, 0, 0, 16, 0), 4);
        assert_int_equal(buffer[1], 1);
        is_good(RUN(&f, 0, SCSI_MAINTENANCE_IN, 0x0c, 3, SCSI_SERVICE_IN_16, 0, 0x11, 0, 0, 16, 0),
                4);
        assert_int_equal(buffer[1], 1);
        has_sense(RUN(&f, 0, SCSI_MAINTENANCE_IN, 0x0c, 1, SCSI_SERVICE_IN_16, 0, 0, 0, 0, 16, 0),
                  SCSI_ILLEGAL_REQUEST, SCSI_ASC_CDB_FIELD);
        stop(&f);
}

static void test_later(void **state)
{
        struct fixture f;

        (void)state;
        start(&f);
        f.device.unit[1] = open_ns("mem:1M,delay=1ms", 3);
        is_good(run_on(&f, 1, (uint8_t[]) { SCSI_READ_10, 0, 0, 0, 0, 0, 0, 0, 1 }, 9, 0), 512);
        stop(&f);
}

/* Whatever the bytes: an end, within bounds. */
static void test_any_cdb(void **state)
{
        uint64_t seed = 7;
        struct fixture f;

        (void)state;
        start(&f);
        for (unsigned i = 0; i < 50000; i++) {
                uint8_t cdb[16];
                const struct scsi_row *r;
                const struct scsi_task *t;

                random_fill(&seed, cdb, sizeof(cdb));
                for (unsigned k = (unsigned)(random_next(&seed) % 40);
                     (r = scsi_row_at(k)) != NULL;) {
                        cdb[0] = r->op;
                        for (unsigned b = 1; b < 16; b++)
                                cdb[b] = (uint8_t)(cdb[b] & (b < r->len ? r->bits[b] : 0) &
                                                   random_next(&seed));
                        if (r->action != SCSI_NO_ACTION)
                                cdb[1] |= r->action;
                        break;
                }
                random_fill(&seed, buffer, 64);
                t = run_on(&f, (uint32_t)(random_next(&seed) % 5), cdb, sizeof(cdb),
                           (uint32_t)(random_next(&seed) % BUFFER));
                assert_true(t->status == SCSI_GOOD || t->status == SCSI_CHECK);
                assert_true(t->in_len <= t->in_max);
        }
        stop(&f);
}

/* --- sense data -------------------------------------------------------------------------------- */

static void test_sense_data(void **state)
{
        static const struct scsi_sense rows[] = {
                { .key = SCSI_NO_SENSE },
                { .key = SCSI_UNIT_ATTENTION, .asc = SCSI_ASC_RESET },
                { .key = SCSI_ILLEGAL_REQUEST,
                  .asc = SCSI_ASC_CDB_FIELD,
                  .in_cdb = true,
                  .field = 9 },
                { .key = SCSI_ILLEGAL_REQUEST,
                  .asc = SCSI_ASC_PARAMETER_FIELD,
                  .in_data = true,
                  .field = 300 },
                { .key = SCSI_MEDIUM_ERROR,
                  .asc = SCSI_ASC_READ_ERROR,
                  .has_info = true,
                  .info = 123456 },
        };
        static const uint8_t descriptors[] = {
                0x72, 5, 0x24, 0, 0, 0, 0, 20, 0, 10, 0x80, 0, 0, 0,
                0,    1, 0,    0, 0, 2, 2, 6,  0, 0,  0xc0, 0, 7, 0
        };
        struct scsi_sense s;
        uint8_t p[SCSI_SENSE_LEN];
        char line[200];
        struct text t = text_in(line, sizeof(line));

        (void)state;
        for (unsigned i = 0; i < COUNT(rows); i++) {
                scsi_sense_put(p, &rows[i]);
                assert_true(scsi_sense_get(p, sizeof(p), &s));
                assert_int_equal(s.key, rows[i].key);
                assert_int_equal(s.asc, rows[i].asc);
                assert_int_equal(s.has_info, rows[i].has_info);
                assert_int_equal(s.info, rows[i].info);
                assert_int_equal(s.in_cdb, rows[i].in_cdb);
                assert_int_equal(s.in_data, rows[i].in_data);
                assert_int_equal(s.field, rows[i].field);
        }
        assert_true(scsi_sense_get(descriptors, sizeof(descriptors), &s));
        assert_int_equal(s.key, 5);
        assert_int_equal(s.asc, SCSI_ASC_CDB_FIELD);
        assert_true(s.has_info && s.info == UINT64_C(0x100000002));
        assert_true(s.in_cdb);
        assert_int_equal(s.field, 7);
        for (size_t n = 0; n < sizeof(descriptors); n++)
                (void)scsi_sense_get(descriptors, n, &s);
        assert_false(scsi_sense_get((uint8_t[]) { 0x70, 0, 5 }, 3, &s));
        assert_false(scsi_sense_get((uint8_t[8]) { 0 }, 8, &s));
        scsi_sense_text(&t, &rows[2]);
        assert_string_equal(line,
                            "ILLEGAL REQUEST 24h/00h (invalid field in CDB), byte 9 of the CDB");
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_inquiry),
                cmocka_unit_test(test_vital_product_data),
                cmocka_unit_test(test_identity),
                cmocka_unit_test(test_luns),
                cmocka_unit_test(test_lun_numbers),
                cmocka_unit_test(test_capacity),
                cmocka_unit_test(test_mode_sense),
                cmocka_unit_test(test_attention_is_reported_once),
                cmocka_unit_test(test_read_and_write),
                cmocka_unit_test(test_verify),
                cmocka_unit_test(test_write_same),
                cmocka_unit_test(test_unmap),
                cmocka_unit_test(test_compare_and_write),
                cmocka_unit_test(test_cache_and_start),
                cmocka_unit_test(test_ranges),
                cmocka_unit_test(test_what_it_is_not),
                cmocka_unit_test(test_write_protection),
                cmocka_unit_test(test_each_reserved_bit),
                cmocka_unit_test(test_opcodes_are_reported),
                cmocka_unit_test(test_later),
                cmocka_unit_test(test_any_cdb),
                cmocka_unit_test(test_sense_data),
        };

        return cmocka_run_group_tests_name("scsi", tests, NULL, NULL);
}
