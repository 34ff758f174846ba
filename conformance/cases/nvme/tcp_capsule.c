/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/TCP 3.3.1: capsules, in-capsule data and SGL descriptors. */
#include "conformance/words/case.h"

#define NEEDS_ICD(bytes)                                                                           \
        require(t, caps(t)->in_capsule >= (bytes), "I/O capsules hold %u bytes of data",           \
                caps(t)->in_capsule)

CASE("tcp/capsule/admin-8192", MUST, RULES(TCP_ICD_ADMIN),
     "A Connect with 8192 bytes of in-capsule data is answered, with any status",
     .related = "ceph-nvmeof #1550")
{
        struct queue *q = bare_queue(t);
        struct reply r = expect_resp(q, send_connect(q, .bytes = 8192));

        note(t, "%s", status_name(r.status));
}

CASE("tcp/capsule/admin-8196", MUST, RULES(TCP_ICD_LIMIT),
     "A Connect with more than 8192 bytes of in-capsule data is refused")
{
        struct queue *q = bare_queue(t);

        expect_refusal(q, send_connect(q, .bytes = 8196));
}

/* Some answer HPDA with a CPDA as large: 16, and with digests 17, puts the data after byte 128. */
CASE("tcp/capsule/connect-aligned", MUST, RULES(TCP_ICD_ADMIN),
     "Connect data in the capsule are taken where CPDA puts them")
{
        static const uint8_t hpda[] = { 16, 17, 31 };

        for (unsigned i = 0; i < sizeof(hpda); i++) {
                struct queue *q = tcp_open(t);

                send_icreq(q, .hpda = hpda[i]);
                if (!expect_icresp_unless(q, offsetof(struct pdu_icreq, hpda)))
                        continue;
                expect_connected(q, send_connect(q));
                hang_up(q);
        }
}

CASE("tcp/capsule/capsule-plen-max", MUST, RULES(TCP_ICD_LIMIT),
     "A Connect with PLEN FFFFFFFCh is refused without reading all of it")
{
        struct queue *q = bare_queue(t);

        mutate(q, "plen", 0xfffffffc);
        expect_refusal(q, send_connect(q));
}

CASE("tcp/capsule/io-in-capsule", MUST, RULES(ID_IOCCSZ),
     "An I/O capsule can be as long as IOCCSZ allows", .writes = true)
{
        uint32_t bytes = caps(t)->in_capsule / caps(t)->block * caps(t)->block;
        struct queue *q = io_queue(t);

        require(t, bytes > 0, "I/O capsules hold %u bytes of data", caps(t)->in_capsule);
        require(t, bytes <= own_bytes(t), "I/O capsules hold %u bytes of data", bytes);
        require(t, !caps(t)->mdts || bytes <= caps(t)->mdts, "I/O capsules hold more than MDTS");
        expect_success(q, send_write(q, .bytes = bytes, .in_capsule = true));
        want_data(t, "what was written", read_blocks(q, 0, bytes), pattern(t, bytes), bytes);
}

CASE("tcp/capsule/io-in-capsule-beyond", MUST, RULES(TCP_ICD_LIMIT),
     "An I/O capsule longer than IOCCSZ allows is refused", .writes = true)
{
        uint32_t block = caps(t)->block;
        struct queue *q = io_queue(t);
        uint32_t bytes = (caps(t)->in_capsule / block + 1) * block;

        require(t, bytes <= own_bytes(t), "I/O capsules hold %u bytes of data",
                caps(t)->in_capsule);
        expect_refusal(q, send_write(q, .bytes = bytes, .in_capsule = true));
}

CASE("tcp/capsule/in-capsule-short", MUST, RULES(TCP_ICD_LEN),
     "In-capsule data shorter than its SGL says is refused", .writes = true)
{
        struct queue *q = io_queue(t);

        NEEDS_ICD(caps(t)->block);
        mutate(q, "sqe.sgl.len", caps(t)->block + 4);
        expect_refusal(q, send_write(q, .in_capsule = true));
}

/* Who accepts what does not fit writes what the case meant, and nothing of somebody else's. */
static void refused_or_written(struct queue *q, uint16_t cid)
{
        uint32_t n = caps(q->t)->block;

        if (expect_answer(q, cid).status != NVME_SUCCESS || q->over)
                return;
        want_data(q->t, "what was written", read_blocks(q, 0, n), pattern(q->t, n), n);
        advise(q->t, "an error status or the end of the connection", "it was accepted");
}

CASE("tcp/capsule/in-capsule-missing", MUST, RULES(TCP_ICD_LEN),
     "An SGL for in-capsule data in a capsule without data is refused", .writes = true)
{
        struct queue *q = io_queue(t);

        mutate(q, "sqe.sgl.id", SGL_IN_CAPSULE);
        refused_or_written(q, send_write(q));
}

CASE("tcp/capsule/in-capsule-long", MUST, RULES(TCP_ICD_LEN),
     "In-capsule data longer than its SGL says is refused")
{
        struct queue *q = bare_queue(t);

        expect_refusal(q, send_connect(q, .bytes = 1028, .sgl_len = 1024));
}

CASE("tcp/capsule/in-capsule-offset", MUST, RULES(TCP_ICD_LEN),
     "An SGL with an offset into the in-capsule data is refused")
{
        struct queue *q = bare_queue(t);

        mutate(q, "sqe.sgl.addr", 4);
        expect_refusal(q, send_connect(q));
}

CASE("tcp/capsule/in-capsule-offset-max", MUST, RULES(TCP_ICD_LEN),
     "An SGL whose offset plus length overflows is refused", .writes = true)
{
        struct queue *q = io_queue(t);

        NEEDS_ICD(caps(t)->block);
        mutate(q, "sqe.sgl.addr", ~UINT64_C(0) - caps(t)->block + 1);
        refused_or_written(q, send_write(q, .in_capsule = true));
}

/* The descriptor types that NVMe/TCP does not have, on a Read. */
static void read_with_sgl(struct t *t, uint8_t id)
{
        struct queue *q = io_queue(t);

        mutate(q, "sqe.sgl.id", id);
        expect_refusal(q, send_read(q));
        expect_works(q);
}

CASE("tcp/capsule/sgl-address", MUST, RULES(TCP_SGL_TYPE),
     "A Read with a Data Block by address (00h) fails and affects nothing else",
     .related = "SPDK ends the connection")
{
        read_with_sgl(t, SGL_DATA_BLOCK);
}

CASE("tcp/capsule/sgl-segment", MUST, RULES(TCP_SGL_TYPE),
     "A Read with a Segment descriptor (20h) fails and affects nothing else")
{
        read_with_sgl(t, 0x20);
}

CASE("tcp/capsule/sgl-last-segment", MUST, RULES(TCP_SGL_TYPE),
     "A Read with a Last Segment descriptor (31h) fails and affects nothing else")
{
        read_with_sgl(t, 0x31);
}

CASE("tcp/capsule/sgl-keyed", MUST, RULES(TCP_SGL_TYPE),
     "A Read with a Keyed Data Block (40h) fails and affects nothing else")
{
        read_with_sgl(t, SGL_KEYED);
}

CASE("tcp/capsule/sgl-transport-subtype", MUST, RULES(TCP_SGL_TYPE),
     "A Read with a Transport Data Block of another subtype (5Bh) fails and affects nothing else")
{
        read_with_sgl(t, 0x5b);
}

CASE("tcp/capsule/sgl-vendor", MUST, RULES(TCP_SGL_TYPE),
     "A Read with a vendor specific descriptor (F0h) fails and affects nothing else")
{
        read_with_sgl(t, 0xf0);
}

CASE("tcp/capsule/connect-through-r2t", MUST, RULES(TCP_CDB),
     "Connect data is fetched by R2T if the SGL is a Transport Data Block (5Ah)",
     .related = "SPDK issue 1546")
{
        struct queue *q = bare_queue(t);

        if (!(succeed(q, send_connect(q, .through_r2t = true)).dw0 & CONNECT_ATR))
                expect_works(q);
}

CASE("tcp/capsule/small-write-through-r2t", MUST, RULES(TCP_CDB),
     "A Write of one block is fetched by R2T if the SGL is a Transport Data Block (5Ah)",
     .writes = true)
{
        struct queue *q = io_queue(t);
        uint16_t cid = send_write(q);

        serve(q, expect_r2t(q, cid)); /* of all of it, or for a part */
        succeed(q, cid);
}

CASE("tcp/capsule/response-cid", MUST, RULES(TCP_RESP_CID, FAB_ANSWERED),
     "Sixteen commands in parallel are all answered, each exactly once", .writes = true)
{
        struct queue *q = io_queue(t);
        unsigned n = together(q, 16);
        uint16_t cid[16];

        for (unsigned i = 0; i < n; i++)
                cid[i] = i % 2 ? send_write(q, .bytes = r2t_bytes(t)) : send_read(q);
        while (n > 0)
                succeed(q, cid[--n]);
        expect_silence(q, 50);
}

CASE("tcp/capsule/cid-in-use", INFO, RULES(TCP_CMD_CID),
     "A command with the CID of an outstanding command gets an error or ends the connection",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        expect_refusal(q, send_cmd(q, .opc = NVME_FLUSH, .cid = r.cid, .nsid = caps(t)->nsid));
}

CASE("tcp/capsule/capsule-split", MUST, RULES(FAB_ANSWERED),
     "The target waits for a capsule whose last byte arrives late")
{
        struct queue *q = admin_queue(t);
        uint16_t cid;

        hold_back(q, 1);
        cid = send_property_get(q, PROP_VS, PROP_ATTRIB_4);
        expect_silence(q, 100);
        release(q);
        expect_success(q, cid);
}
