/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/RDMA 3.3 and NVMe Base 4.3.2: SGL descriptors, and lists of them. */
#include <string.h>

#include "conformance/words/case_rdma.h"

enum { SGL_BIT_BUCKET = 0x10, SGL_SEGMENT = 0x20, SGL_SEGMENT_OFFSET = 0x21, SGL_LAST = 0x30 };

#define NEEDS_LISTS(n)                                                                             \
        do {                                                                                       \
                require(t, caps(t)->nsid, "the subsystem has no namespace");                       \
                require(t, caps(t)->msdbd != 1, "MSDBD is 1, so there is no list of descriptors"); \
                require(t, caps(t)->msdbd == 0 || caps(t)->msdbd >= (n), "MSDBD is %u",            \
                        caps(t)->msdbd);                                                           \
                require(t, caps(t)->in_capsule >= (n)*16u,                                         \
                        "a capsule has no room for descriptors");                                  \
        } while (0)

/* Blocks that are no two alike, so that pieces in the wrong place show. */
static const uint8_t *written(struct queue *q, uint32_t n)
{
        write_blocks(q, 0, n, NULL);
        return pattern(q->t, n);
}

/* A Read of one block whose descriptor has this byte 15 is refused, and nothing is written. */
static void refuse_type(struct t *t, uint8_t id)
{
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(8));

        expect_refusal(q, send_read(q, .sgl = HAND(typed(keyed_part(b, 0, caps(t)->block), id))));
        want_untouched(t, &b, 0, b.len);
        expect_works(q);
}

/* ... of type 0h to 3h, where length and address are elsewhere. */
static void refuse_plain_type(struct t *t, uint8_t id)
{
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(8));
        struct sgl s = { .addr = le64((uintptr_t)b.data), .len = le32(caps(t)->block), .id = id };

        expect_refusal(q, send_read(q, .sgl = HAND(s)));
        want_untouched(t, &b, 0, b.len);
        expect_works(q);
}

/* --- types */

CASE("rdma/sgl/data-block", MUST, RULES(RDMA_SGL_TYPE),
     "A Data Block by address (00h) is refused, as host memory cannot be addressed without a key")
{
        refuse_plain_type(t, SGL_DATA_BLOCK);
}

CASE("rdma/sgl/bit-bucket", MUST, RULES(RDMA_SGL_TYPE), "A Bit Bucket descriptor (10h) is refused")
{
        refuse_plain_type(t, SGL_BIT_BUCKET);
}

CASE("rdma/sgl/segment", MUST, RULES(RDMA_SGL_TYPE),
     "A Segment descriptor by address (20h) is refused")
{
        refuse_plain_type(t, SGL_SEGMENT);
}

CASE("rdma/sgl/type-segment-offset", MUST, RULES(RDMA_SGL_TYPE),
     "A Segment descriptor with offset (21h), not a last one, is refused")
{
        refuse_plain_type(t, SGL_SEGMENT_OFFSET);
}

CASE("rdma/sgl/last-segment", MUST, RULES(RDMA_SGL_TYPE),
     "A Last Segment descriptor by address (30h) is refused")
{
        refuse_plain_type(t, SGL_LAST);
}

CASE("rdma/sgl/transport", MUST, RULES(RDMA_SGL_TYPE),
     "A Transport Data Block descriptor (5Ah), which belongs to NVMe/TCP, is refused")
{
        refuse_plain_type(t, SGL_TRANSPORT);
}

CASE("rdma/sgl/type-reserved", MUST, RULES(RDMA_SGL_TYPE),
     "An SGL descriptor of a reserved type (60h) is refused")
{
        refuse_plain_type(t, 0x60);
}

CASE("rdma/sgl/type-vendor", MUST, RULES(RDMA_SGL_TYPE),
     "A vendor specific SGL descriptor (F0h) is refused")
{
        refuse_plain_type(t, 0xf0);
}

CASE("rdma/sgl/type-write", MUST, RULES(RDMA_SGL_TYPE),
     "A Write whose data is described by address is refused", .writes = true)
{
        struct queue *q = io_queue(t);
        struct buffer b = data_buffer(q, caps(t)->block, 0);

        expect_refusal(q, send_write(q, .sgl = HAND(typed(keyed(b), SGL_DATA_BLOCK))));
        expect_works(q);
}

CASE("rdma/sgl/type-admin", MUST, RULES(RDMA_SGL_TYPE),
     "Identify whose buffer is described by address is refused")
{
        struct queue *q = admin_queue(t);
        struct buffer b = fill_buffer(q, IDENTIFY_LEN);

        expect_refusal(q,
                       send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL, .bytes = IDENTIFY_LEN,
                                .sgl = HAND(typed(keyed(b), SGL_DATA_BLOCK))));
        want_untouched(t, &b, 0, b.len);
        expect_works(q);
}

CASE("rdma/sgl/subtype-1", MUST, RULES(RDMA_SGL_SUBTYPE),
     "A keyed descriptor with subtype 1h (offset) is refused")
{
        refuse_type(t, 0x41);
}

CASE("rdma/sgl/subtype-2", MUST, RULES(RDMA_SGL_SUBTYPE),
     "A keyed descriptor with the reserved subtype 2h is refused")
{
        refuse_type(t, 0x42);
}

CASE("rdma/sgl/subtype-ah", MUST, RULES(RDMA_SGL_SUBTYPE),
     "A keyed descriptor with subtype Ah, which belongs to NVMe/TCP, is refused")
{
        refuse_type(t, 0x4a);
}

CASE("rdma/sgl/subtype-eh", MUST, RULES(RDMA_SGL_SUBTYPE),
     "A keyed descriptor with the reserved subtype Eh is refused")
{
        refuse_type(t, 0x4e);
}

/* --- one descriptor */

CASE("rdma/sgl/short", MUST, RULES(RDMA_SGL_LENGTH),
     "A Read with a descriptor shorter than its blocks is refused, and nothing is written")
{
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(8));

        expect_refusal(q, send_read(q, .bytes = KIB(8), .sgl = HAND(keyed_part(b, 0, KIB(4)))));
        want_untouched(t, &b, 0, b.len);
        expect_works(q);
}

CASE("rdma/sgl/short-by-one", MUST, RULES(RDMA_SGL_LENGTH),
     "A Read with a descriptor one byte too short is refused")
{
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(8));

        expect_refusal(q, send_read(q, .bytes = KIB(8), .sgl = HAND(keyed_part(b, 0, KIB(8) - 1))));
        want_untouched(t, &b, 0, b.len);
        expect_works(q);
}

CASE("rdma/sgl/short-write", MUST, RULES(RDMA_SGL_LENGTH),
     "A Write with a descriptor shorter than its blocks is refused", .writes = true)
{
        struct queue *q = io_queue(t);
        struct buffer b = data_buffer(q, KIB(8), 0);

        expect_refusal(q, send_write(q, .bytes = KIB(8), .sgl = HAND(keyed_part(b, 0, KIB(4)))));
        expect_works(q);
}

CASE("rdma/sgl/nothing", MUST, RULES(RDMA_SGL_LENGTH),
     "A Read with a descriptor of 0 bytes is refused")
{
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(4));

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        expect_refusal(q, send_read(q, .sgl = HAND(keyed_part(b, 0, 0))));
        want_untouched(t, &b, 0, b.len);
        expect_works(q);
}

CASE("rdma/sgl/nothing-admin", MUST, RULES(RDMA_SGL_LENGTH),
     "Identify with a descriptor of 0 bytes is refused")
{
        struct queue *q = admin_queue(t);
        struct buffer b = fill_buffer(q, KIB(4));

        expect_refusal(q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL,
                                   .bytes = IDENTIFY_LEN, .sgl = HAND(keyed_part(b, 0, 0))));
        want_untouched(t, &b, 0, b.len);
        expect_works(q);
}

CASE("rdma/sgl/long", SHOULD, RULES(FAB_SGL_LONG, RDMA_WRITE_RANGE),
     "A Read with a descriptor longer than its blocks succeeds and writes no more than its blocks")
{
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(16));

        succeed_long(q, send_read(q, .bytes = KIB(8), .sgl = HAND(keyed(b))));
        about(t, RDMA_WRITE_RANGE);
        want_untouched(t, &b, KIB(8), KIB(8));
}

CASE("rdma/sgl/long-24-bits", MUST, NO_RULE,
     "A Read with a descriptor of FFFFFFh bytes succeeds or is refused, and writes no more than "
     "its blocks")
{
        struct queue *q = io_queue(t);
        uint32_t block = caps(t)->block;
        struct buffer b = fill_buffer(q, block + KIB(4));

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        expect_answer(q, send_read(q, .sgl = HAND(keyed_as(b, 0xffffff, b.key))));
        want_untouched(t, &b, block, KIB(4));
}

CASE("rdma/sgl/odd-address", MUST, RULES(RDMA_WRITE_WHOLE),
     "A Read into an unaligned buffer succeeds", .writes = true)
{
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(8) + 5);
        const uint8_t *data = written(q, KIB(8));

        succeed(q, send_read(q, .bytes = KIB(8), .sgl = HAND(keyed_part(b, 3, KIB(8)))));
        want_data(t, "what was read", b.data + 3, data, KIB(8));
        want_untouched(t, &b, 0, 3);
        want_untouched(t, &b, KIB(8) + 3, 2);
}

/* --- the segment */

/* A Read with its descriptors in the capsule, and this one in the SQE. */
static void refuse_segment(struct t *t, struct sgl segment, uint32_t held)
{
        struct queue *q;
        struct buffer b;
        struct sgl list[2];

        NEEDS_LISTS(2);
        q = io_queue(t);
        b = fill_buffer(q, KIB(8));
        list[0] = keyed_part(b, 0, KIB(4));
        list[1] = keyed_part(b, KIB(4), KIB(4));
        expect_refusal(q, send_read(q, .bytes = KIB(8),
                                    .sgl = HAND(segment, .list = list, .count = 2,
                                                .capsule = 64 + caps(t)->icdoff * 16u + held)));
        want_untouched(t, &b, 0, b.len);
        expect_works(q);
}

CASE("rdma/sgl/segment-empty", MUST, RULES(RDMA_SGL_SEGMENT),
     "A Last Segment of 0 bytes is refused")
{
        refuse_segment(t, last_segment(0, 0), 32);
}

CASE("rdma/sgl/segment-15", MUST, RULES(RDMA_SGL_SEGMENT), "A Last Segment of 15 bytes is refused")
{
        refuse_segment(t, last_segment(0, 15), 32);
}

CASE("rdma/sgl/segment-31", MUST, RULES(RDMA_SGL_SEGMENT),
     "A Last Segment that ends within a descriptor is refused")
{
        refuse_segment(t, last_segment(0, 31), 32);
}

CASE("rdma/sgl/segment-beyond", MUST, RULES(RDMA_SGL_SEGMENT),
     "A Last Segment that extends beyond the capsule is refused")
{
        refuse_segment(t, last_segment(0, 32), 16);
}

CASE("rdma/sgl/segment-nowhere", MUST, RULES(RDMA_SGL_SEGMENT),
     "A Last Segment in a capsule that has only an SQE is refused")
{
        struct queue *q = io_queue(t);

        NEEDS_LISTS(2);
        expect_refusal(q, send_read(q, .bytes = KIB(8), .sgl = HAND(last_segment(0, 32))));
        expect_works(q);
}

CASE("rdma/sgl/segment-offset", MUST, RULES(RDMA_SGL_SEGMENT),
     "A Last Segment at an offset beyond the end of the capsule is refused")
{
        refuse_segment(t, last_segment(4096, 32), 32);
}

CASE("rdma/sgl/segment-offset-max", MUST, RULES(RDMA_SGL_SEGMENT),
     "A Last Segment at offset FFFFFFFFFFFFFFF0h is refused")
{
        refuse_segment(t, last_segment(UINT64_MAX - 15, 32), 32);
}

CASE("rdma/sgl/segment-length-max", MUST, RULES(RDMA_SGL_SEGMENT),
     "A Last Segment of FFFFFFF0h bytes is refused", .related = "SPDK, nvmf_rdma sgl_multi")
{
        refuse_segment(t, last_segment(0, 0xfffffff0), 32);
}

CASE("rdma/sgl/segment-in-segment", MUST, RULES(RDMA_SGL_TYPE),
     "A Segment descriptor within the Last Segment is refused")
{
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(4));

        NEEDS_LISTS(2);
        expect_refusal(q, send_read(q, .sgl = LIST(keyed(b), last_segment(0, 16))));
        want_untouched(t, &b, 0, b.len);
        expect_works(q);
}

CASE("rdma/sgl/segment-in-capsule-data", MUST, RULES(RDMA_SGL_TYPE),
     "An in-capsule Data Block within the Last Segment is refused")
{
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(4));

        NEEDS_LISTS(2);
        expect_refusal(q, send_read(q, .sgl = LIST(keyed(b), in_capsule(0, 16))));
        want_untouched(t, &b, 0, b.len);
        expect_works(q);
}

CASE("rdma/sgl/segment-subtype", MUST, RULES(RDMA_SGL_SUBTYPE),
     "A keyed descriptor with a reserved subtype within the Last Segment is refused")
{
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(4));

        NEEDS_LISTS(2);
        expect_refusal(q, send_read(q, .sgl = LIST(keyed_part(b, 0, KIB(2)),
                                                   typed(keyed_part(b, KIB(2), KIB(2)), 0x43))));
        want_untouched(t, &b, 0, b.len);
        expect_works(q);
}

/* --- several descriptors */

CASE("rdma/sgl/list-one", MUST, RULES(RDMA_WRITE_WHOLE),
     "A Read with one descriptor in a Last Segment succeeds", .writes = true)
{
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(8));
        const uint8_t *data;

        NEEDS_LISTS(1);
        data = written(q, KIB(8));
        succeed(q, send_read(q, .bytes = KIB(8), .sgl = LIST(keyed(b))));
        want_data(t, "what was read", b.data, data, KIB(8));
}

CASE("rdma/sgl/list-two", MUST, RULES(RDMA_WRITE_WHOLE),
     "A Read with two descriptors fills both buffers", .writes = true)
{
        struct queue *q = io_queue(t);
        struct buffer a = fill_buffer(q, KIB(4)), b = fill_buffer(q, KIB(4));
        const uint8_t *data;

        NEEDS_LISTS(2);
        data = written(q, KIB(8));
        succeed(q, send_read(q, .bytes = KIB(8), .sgl = LIST(keyed(a), keyed(b))));
        want_data(t, "the first half", a.data, data, KIB(4));
        want_data(t, "the second half", b.data, data + KIB(4), KIB(4));
}

CASE("rdma/sgl/list-turned", MUST, RULES(RDMA_WRITE_WHOLE),
     "Buffers are filled in the order of their descriptors, not of their addresses", .writes = true)
{
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(8));
        const uint8_t *data;

        NEEDS_LISTS(2);
        data = written(q, KIB(8));
        succeed(q, send_read(q, .bytes = KIB(8),
                             .sgl = LIST(keyed_part(b, KIB(4), KIB(4)), keyed_part(b, 0, KIB(4)))));
        want_data(t, "the first half", b.data + KIB(4), data, KIB(4));
        want_data(t, "the second half", b.data, data + KIB(4), KIB(4));
}

CASE("rdma/sgl/list-odd-pieces", MUST, RULES(RDMA_WRITE_WHOLE, RDMA_WRITE_RANGE),
     "Descriptors of odd lengths with gaps between their buffers are filled to the byte",
     .writes = true)
{
        static const uint32_t at[] = { 1, 100, 5000, 7000 }, len[] = { 7, 4093, 1200, 2892 };
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(12));
        const uint8_t *data;
        uint32_t done = 0;

        NEEDS_LISTS(4);
        data = written(q, KIB(8));
        succeed(q,
                send_read(q, .bytes = KIB(8),
                          .sgl = LIST(keyed_part(b, at[0], len[0]), keyed_part(b, at[1], len[1]),
                                      keyed_part(b, at[2], len[2]), keyed_part(b, at[3], len[3]))));
        for (int i = 0; i < 4; i++, done += len[i - 1])
                want_data(t, "a piece", b.data + at[i], data + done, len[i]);
        about(t, RDMA_WRITE_RANGE);
        want_untouched(t, &b, 8, 92);
        want_untouched(t, &b, 4193, 807);
        want_untouched(t, &b, 9892, b.len - 9892);
}

CASE("rdma/sgl/list-write", MUST, RULES(RDMA_READ_WHOLE),
     "A Write with three descriptors fetches from all of them, in order", .writes = true)
{
        struct queue *q = io_queue(t);
        struct buffer a = data_buffer(q, 100, 0), b = data_buffer(q, KIB(4), 100),
                      c = data_buffer(q, KIB(4) - 100, KIB(4) + 100);

        NEEDS_LISTS(3);
        succeed(q, send_write(q, .bytes = KIB(8), .sgl = LIST(keyed(a), keyed(b), keyed(c))));
        want_data(t, "what was written", read_blocks(q, 0, KIB(8)), pattern(t, KIB(8)), KIB(8));
}

CASE("rdma/sgl/list-empty-piece", MUST, RULES(RDMA_WRITE_WHOLE),
     "A descriptor of 0 bytes among others is skipped", .writes = true)
{
        struct queue *q = io_queue(t);
        struct buffer a = fill_buffer(q, KIB(4)), b = fill_buffer(q, KIB(4));
        const uint8_t *data;

        NEEDS_LISTS(3);
        data = written(q, KIB(8));
        succeed(
            q, send_read(q, .bytes = KIB(8), .sgl = LIST(keyed(a), keyed_part(a, 0, 0), keyed(b))));
        want_data(t, "the first half", a.data, data, KIB(4));
        want_data(t, "the second half", b.data, data + KIB(4), KIB(4));
}

CASE("rdma/sgl/list-long", SHOULD, RULES(FAB_SGL_LONG, RDMA_WRITE_RANGE),
     "A Read with descriptors longer than its transfer succeeds and writes no more than the "
     "transfer")
{
        struct queue *q = io_queue(t);
        struct buffer a = fill_buffer(q, KIB(6)), b = fill_buffer(q, KIB(6));

        NEEDS_LISTS(2);
        succeed_long(q, send_read(q, .bytes = KIB(8), .sgl = LIST(keyed(a), keyed(b))));
        about(t, RDMA_WRITE_RANGE);
        want_untouched(t, &b, KIB(2), KIB(4));
}

CASE("rdma/sgl/list-unneeded", SHOULD, RULES(FAB_SGL_LONG, RDMA_WRITE_RANGE),
     "A Read leaves the buffer of a descriptor that it does not need unchanged")
{
        struct queue *q = io_queue(t);
        struct buffer a = fill_buffer(q, KIB(8)), b = fill_buffer(q, KIB(4));

        NEEDS_LISTS(2);
        succeed_long(q, send_read(q, .bytes = KIB(8), .sgl = LIST(keyed(a), keyed(b))));
        about(t, RDMA_WRITE_RANGE);
        want_untouched(t, &b, 0, b.len);
}

CASE("rdma/sgl/list-short", MUST, RULES(RDMA_SGL_LENGTH),
     "A Read with descriptors that are together shorter than its transfer is refused")
{
        struct queue *q = io_queue(t);
        struct buffer a = fill_buffer(q, KIB(4)), b = fill_buffer(q, KIB(4));

        NEEDS_LISTS(2);
        expect_refusal(
            q, send_read(q, .bytes = KIB(8), .sgl = LIST(keyed(a), keyed_part(b, 0, KIB(4) - 4))));
        want_untouched(t, &a, 0, a.len);
        want_untouched(t, &b, 0, b.len);
        expect_works(q);
}

CASE("rdma/sgl/list-msdbd", MUST, RULES(RDMA_WRITE_WHOLE),
     "A Read with as many descriptors as MSDBD allows fills each buffer", .writes = true)
{
        unsigned n = caps(t)->msdbd > 0 ? caps(t)->msdbd : 16;
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(64));
        struct sgl list[256];
        uint32_t piece = KIB(8) / n / 4 * 4;
        const uint8_t *data;

        NEEDS_LISTS(n);
        data = written(q, KIB(8));
        for (unsigned i = 0; i < n; i++)
                list[i] = keyed_part(b, i * 2 * piece, i + 1 < n ? piece : KIB(8) - i * piece);
        succeed(q, send_read(q, .bytes = KIB(8),
                             .sgl = HAND(last_segment(0, n * 16), .list = list, .count = n)));
        for (unsigned i = 0; i + 1 < n; i++)
                want_data(t, "a piece", b.data + i * 2 * piece, data + i * piece, piece);
}

CASE("rdma/sgl/list-msdbd-more", MUST, RULES(RDMA_SGL_COUNT),
     "A Read with one descriptor more than MSDBD allows is refused")
{
        unsigned n = caps(t)->msdbd + 1u;
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(4) * 2);
        struct sgl list[257];

        require(t, caps(t)->msdbd > 0 && caps(t)->nsid, "MSDBD sets no limit");
        require(t, caps(t)->in_capsule >= n * 16u, "a capsule has no room for %u descriptors", n);
        for (unsigned i = 0; i < n; i++)
                list[i] = i == 0 ? keyed(b) : keyed_part(b, 0, 0);
        expect_refusal(q,
                       send_read(q, .bytes = KIB(8),
                                 .sgl = HAND(last_segment(0, n * 16), .list = list, .count = n)));
        want_untouched(t, &b, 0, b.len);
        expect_works(q);
}

CASE("rdma/sgl/list-admin", MUST, RULES(RDMA_SGL_ONE),
     "An admin command with a Last Segment is refused, as it must have exactly one descriptor")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL,
                                   .bytes = IDENTIFY_LEN, .sgl = HAND(last_segment(0, 16))));
        expect_works(q);
}

CASE("rdma/sgl/list-admin-sent", MUST, NO_RULE,
     "An admin command with a Last Segment after its SQE is refused or ends the connection")
{
        struct queue *q = admin_queue(t);
        struct buffer b = fill_buffer(q, IDENTIFY_LEN);

        prefer_refusal(q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL,
                                   .bytes = IDENTIFY_LEN, .sgl = LIST(keyed(b))));
}

CASE("rdma/sgl/list-fabrics", MUST, NO_RULE,
     "Connect of an I/O queue with a Last Segment is refused")
{
        struct queue *q = join(admin_queue(t));
        struct buffer b = data_buffer(q, CONNECT_DATA_LEN, 0);
        struct connect_data d = connect_data(q);

        NEEDS_LISTS(1);
        memcpy(b.data, &d, sizeof(d));
        prefer_refusal(q, send_connect(q, .sgl = LIST(keyed(b))));
}

CASE("rdma/sgl/list-mdts", MUST, RULES(RDMA_WRITE_WHOLE),
     "A Read as long as MDTS allows (at most 1 MiB) into four buffers succeeds", .writes = true)
{
        uint32_t mdts = caps(t)->mdts, n = mdts > 0 && mdts < KIB(1024) ? mdts : KIB(1024);
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, n);
        const uint8_t *data;

        NEEDS_LISTS(4);
        data = written(q, large_bytes(t));
        require(t, caps(t)->blocks * caps(t)->block >= n, "the namespace is too small");
        succeed(q, send_read(q, .bytes = n,
                             .sgl = LIST(keyed_part(b, 0, n / 4), keyed_part(b, n / 4, n / 4),
                                         keyed_part(b, n / 2, n / 4),
                                         keyed_part(b, n / 4 * 3, n / 4))));
        want_data(t, "what was read", b.data, data, large_bytes(t));
}
