/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/TCP 3.3.1.1: header and data digests. */
#include "conformance/words/case.h"

#define NEEDS_HDGST require(t, caps(t)->hdgst, "the target grants no header digest")
#define NEEDS_DDGST require(t, caps(t)->ddgst, "the target grants no data digest")
#define NEEDS_ICD(bytes)                                                                           \
        require(t, caps(t)->in_capsule >= (bytes), "I/O capsules hold %u bytes of data",           \
                caps(t)->in_capsule)

CASE("tcp/digest/none", MUST, RULES(TCP_DGSTF_C2H),
     "Without digests all commands work, and no PDU has a digest flag", .writes = true)
{
        exercise(io_queue(t, .hdgst = 0, .ddgst = 0));
}

CASE("tcp/digest/header", MUST, RULES(TCP_DGSTF_C2H, TCP_HDGST_C2H),
     "With header digests all commands work, and every header digest is correct", .writes = true)
{
        NEEDS_HDGST;
        exercise(io_queue(t, .hdgst = 1, .ddgst = 0));
}

CASE("tcp/digest/data", MUST, RULES(TCP_DGSTF_C2H, TCP_DDGST_C2H),
     "With data digests all commands work, and every data digest is correct", .writes = true)
{
        NEEDS_DDGST;
        exercise(io_queue(t, .hdgst = 0, .ddgst = 1));
}

CASE("tcp/digest/both", MUST, RULES(TCP_DGSTF_C2H, TCP_HDGST_C2H, TCP_DDGST_C2H),
     "With header and data digests all commands work", .writes = true)
{
        NEEDS_HDGST;
        NEEDS_DDGST;
        exercise(io_queue(t, .hdgst = 1, .ddgst = 1));
}

CASE("tcp/digest/data-lengths", MUST, RULES(TCP_DDGST_C2H),
     "The data digest is correct for data of any length in dwords")
{
        struct queue *q;

        NEEDS_DDGST;
        q = admin_queue(t, .ddgst = 1);
        for (uint32_t bytes = 4; bytes <= 260; bytes += 4)
                finish(q, send_get_log(q, LOG_ERROR, bytes, 0));
}

CASE("tcp/digest/both-dribbled", MUST, RULES(TCP_DDGST_C2H),
     "Digests that are split across TCP segments are accepted", .writes = true)
{
        struct queue *q = io_queue(t, .hdgst = caps(t)->hdgst, .ddgst = caps(t)->ddgst);

        dribble(q, 3);
        exercise(q);
}

CASE("tcp/digest/hdgst-capsule", MUST, RULES(TCP_HDGST_H2C),
     "A command capsule with a wrong header digest is fatal")
{
        struct queue *q;

        NEEDS_HDGST;
        q = admin_queue(t, .hdgst = 1);
        wrong_hdgst(q);
        send_property_get(q, PROP_VS, PROP_ATTRIB_4);
        expect_term(q);
}

CASE("tcp/digest/hdgst-bits", MUST, RULES(TCP_HDGST_H2C),
     "A command capsule with any one of the four bytes of its header digest wrong is fatal")
{
        NEEDS_HDGST;
        for (unsigned byte = 0; byte < 4; byte++) {
                struct queue *q = admin_queue(t, .hdgst = 1);

                flip_hdgst(q, 0x80u << 8 * byte);
                send_property_get(q, PROP_VS, PROP_ATTRIB_4);
                expect_term(q);
                hang_up(q);
        }
}

CASE("tcp/digest/hdgst-connect", MUST, RULES(TCP_HDGST_H2C),
     "Connect with a wrong header digest is fatal")
{
        struct queue *q;

        NEEDS_HDGST;
        q = bare_queue(t, .hdgst = 1);
        wrong_hdgst(q);
        send_connect(q);
        expect_term(q);
}

CASE("tcp/digest/hdgst-h2cdata", MUST, RULES(TCP_HDGST_H2C),
     "H2CData with a wrong header digest is fatal", .writes = true)
{
        struct queue *q;
        struct r2t r;

        NEEDS_HDGST;
        q = io_queue(t, .hdgst = 1);
        r = open_r2t(q);
        wrong_hdgst(q);
        send_h2c(q, r);
        expect_term(q);
}

/* With its data in the capsule the Compare has failed before the Write is there, else after that. */
CASE("tcp/digest/ddgst-fused", MUST, RULES(TCP_DDGST_H2C, NVM_FUSED),
     "A fused Compare with a wrong data digest fails, and its Write is answered and writes nothing",
     .writes = true)
{
        uint32_t n = caps(t)->block;
        struct queue *q;
        const uint8_t *data;

        NEEDS_DDGST;
        NEEDS_ICD(n);
        require(t, le16_get(caps(t)->id.fuses) & FUSES_COMPARE_WRITE, "FUSES is 0");
        q = io_queue(t, .ddgst = 1);
        require(t, together(q, 2) > 1, ONE_AT_A_TIME);
        data = pattern(t, 2 * n);
        succeed(q, send_write(q, .data = data, .in_capsule = true));
        for (int in_capsule = 1; in_capsule >= 0 && !q->over; in_capsule--) {
                uint16_t compare, write;

                if (in_capsule)
                        wrong_ddgst(q);
                compare =
                    send_compare(q, .fuse = SQE_FUSE_FIRST, .data = data, .in_capsule = in_capsule);
                write =
                    send_write(q, .fuse = SQE_FUSE_SECOND, .data = data + n, .in_capsule = true);
                if (!in_capsule) {
                        struct r2t r = expect_r2t(q, compare);

                        wrong_ddgst(q);
                        send_h2c(q, r);
                }
                about(t, TCP_DDGST_H2C);
                expect_refusal(q, compare);
                about(t, NVM_FUSED);
                expect_error(q, write, NVME_ABORT_FAILED_FUSED);
        }
        if (!q->over)
                want_data(t, "what was there before", read_blocks(q, 0, n), data, n);
}

CASE("tcp/digest/ddgst-capsule", MUST, RULES(TCP_DDGST_H2C),
     "In-capsule data with a wrong digest fails its command and affects nothing else",
     .writes = true)
{
        struct queue *q;

        NEEDS_DDGST;
        NEEDS_ICD(caps(t)->block);
        q = io_queue(t, .ddgst = 1);
        wrong_ddgst(q);
        expect_refusal(q, send_write(q, .in_capsule = true));
        expect_works(q);
}

CASE("tcp/digest/ddgst-h2cdata", MUST, RULES(TCP_DDGST_H2C),
     "H2CData with a wrong digest fails its command and affects nothing else", .writes = true,
     .related = "nvmet drops the connection")
{
        struct queue *q;
        struct r2t r;

        NEEDS_DDGST;
        q = io_queue(t, .ddgst = 1);
        r = open_r2t(q);
        wrong_ddgst(q);
        send_h2c(q, r);
        expect_refusal(q, r.cid);
        expect_works(q);
}

CASE("tcp/digest/ddgst-bits", MUST, RULES(TCP_DDGST_H2C),
     "A command fails if any one of the four bytes of its data digest is wrong", .writes = true)
{
        NEEDS_DDGST;
        for (unsigned byte = 0; byte < 4; byte++) {
                struct queue *q = io_queue(t, .ddgst = 1);
                struct r2t r = open_r2t(q);

                flip_ddgst(q, 0x80u << 8 * byte);
                send_h2c(q, r);
                expect_refusal(q, r.cid);
        }
}

CASE("tcp/digest/ddgst-first-of-two", MUST, RULES(TCP_DDGST_H2C),
     "A wrong digest on the first of two H2CData PDUs fails the command", .writes = true)
{
        struct queue *q;
        struct r2t r;

        NEEDS_DDGST;
        q = io_queue(t, .ddgst = 1);
        r = open_r2t(q);
        wrong_ddgst(q);
        send_h2c(q, r, .len = HALF(r), .last = false);
        send_h2c(q, r, .offset = r.offset + HALF(r), .len = r.len - HALF(r));
        expect_refusal(q, r.cid);
        expect_works(q);
}

/* Hosts send Connect once to a queue (B2.2 3.3.2.2): that it can be sent again is printed nowhere. */
CASE("tcp/digest/ddgst-connect", MUST, RULES(TCP_DDGST_H2C),
     "Connect whose data has a wrong digest fails and can be sent again")
{
        struct queue *q;
        struct reply r;

        NEEDS_DDGST;
        q = bare_queue(t, .ddgst = 1);
        wrong_ddgst(q);
        expect_refusal(q, send_connect(q));
        if (q->over)
                return;
        r = expect_answer(q, send_connect(q));
        if (q->over || r.status != NVME_SUCCESS)
                advise(t, "the next Connect on the queue succeeds", "it is refused");
}

CASE("tcp/digest/ddgst-of-a-failure", MUST, RULES(TCP_DDGST_H2C),
     "A Write that fails anyway and has a wrong data digest fails and affects nothing else",
     .writes = true, .related = "nvmet 4606467a75cf")
{
        struct queue *q;

        NEEDS_DDGST;
        NEEDS_ICD(caps(t)->block);
        q = io_queue(t, .ddgst = 1);
        wrong_ddgst(q);
        prefer_refusal(q, send_write(q, .in_capsule = true, .nsid = 0xfffffffe));
        expect_works(q);
}

CASE("tcp/digest/hdgstf-missing", MUST, RULES(TCP_DGSTF_H2C),
     "A capsule without HDGSTF is fatal when header digests are enabled")
{
        struct queue *q;

        NEEDS_HDGST;
        q = admin_queue(t, .hdgst = 1);
        mutate(q, "flags", 0);
        send_property_get(q, PROP_VS, PROP_ATTRIB_4);
        expect_term(q);
}

CASE("tcp/digest/hdgstf-extra", MUST, RULES(TCP_DGSTF_H2C),
     "A capsule with HDGSTF is fatal when header digests are disabled")
{
        struct queue *q = admin_queue(t, .hdgst = 0);

        mutate(q, "flags", PDU_HDGSTF);
        send_property_get(q, PROP_VS, PROP_ATTRIB_4);
        expect_term(q);
}

CASE("tcp/digest/ddgstf-missing", MUST, RULES(TCP_DGSTF_H2C),
     "H2CData without DDGSTF is fatal when data digests are enabled", .writes = true)
{
        struct queue *q;
        struct r2t r;

        NEEDS_DDGST;
        q = io_queue(t, .hdgst = 0, .ddgst = 1);
        r = open_r2t(q);
        mutate(q, "flags", PDU_LAST);
        send_h2c(q, r);
        expect_term(q);
}

CASE("tcp/digest/ddgstf-extra", MUST, RULES(TCP_DGSTF_H2C),
     "H2CData with DDGSTF is fatal when data digests are disabled", .writes = true)
{
        struct queue *q = io_queue(t, .hdgst = 0, .ddgst = 0);
        struct r2t r = open_r2t(q);

        mutate(q, "flags", PDU_LAST | PDU_DDGSTF);
        send_h2c(q, r);
        expect_term(q);
}

CASE("tcp/digest/ddgstf-without-data", INFO, RULES(TCP_FLAGS_H2C),
     "DDGSTF on a capsule without data is ignored")
{
        struct queue *q;

        NEEDS_DDGST;
        q = admin_queue(t, .hdgst = 0, .ddgst = 1);
        mutate(q, "flags", PDU_DDGSTF);
        expect_success(q, send_property_get(q, PROP_VS, PROP_ATTRIB_4));
}

CASE("tcp/digest/pad-not-summed", SHOULD, RULES(TCP_PAD_MIN_H2C),
     "PAD is not part of either digest", .writes = true)
{
        struct queue *q = io_queue(t, .hdgst = caps(t)->hdgst, .ddgst = caps(t)->ddgst);
        struct r2t r = open_r2t(q);

        pad(q, 1, 0xff);
        send_h2c(q, r);
        require(t, expect_answer(q, r.cid).status == NVME_SUCCESS && !q->over,
                "the target refuses more padding than CPDA requires");
}

CASE("tcp/digest/termreq", MUST, RULES(TCP_TYPE_H2C, TCP_TERM_DIGEST_C2H),
     "C2HTermReq has no digest even when digests are enabled")
{
        struct queue *q;

        NEEDS_HDGST;
        q = admin_queue(t, .hdgst = 1, .ddgst = caps(t)->ddgst);
        send_pdu(q, 0xff, 20);
        expect_term(q);
}

CASE("tcp/digest/termreq-from-host", MUST, RULES(TCP_TERM_CLOSE),
     "H2CTermReq without digests is accepted when digests are enabled")
{
        struct queue *q;

        NEEDS_HDGST;
        q = admin_queue(t, .hdgst = 1, .ddgst = caps(t)->ddgst);
        send_term(q);
        expect_close(q);
}
