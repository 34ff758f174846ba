/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/TCP 3.5: termination. */
#include "conformance/words/case.h"

CASE("tcp/termreq/h2ctermreq", MUST, RULES(TCP_TERM_CLOSE),
     "The target closes the connection after H2CTermReq with any assigned FES")
{
        for (uint16_t fes = FES_INVALID_HEADER_FIELD; fes <= FES_UNSUPPORTED_PARAMETER; fes++) {
                struct queue *q = admin_queue(t);

                send_term(q, .fes = fes);
                expect_close(q);
                hang_up(q);
        }
}

CASE("tcp/termreq/h2ctermreq-fes", MUST, RULES(TCP_TERM_CLOSE),
     "The target closes the connection after H2CTermReq with a reserved FES")
{
        static const uint16_t reserved[] = { 0, 7, 0xffff };

        for (int i = 0; i < 3; i++) {
                struct queue *q = bare_queue(t);

                send_term(q, .fes = reserved[i]);
                expect_close(q);
        }
}

CASE("tcp/termreq/h2ctermreq-io", MUST, RULES(TCP_TERM_CLOSE),
     "The target closes the connection after H2CTermReq on an I/O queue with a Write in progress",
     .writes = true)
{
        struct queue *q = io_queue(t);

        open_r2t(q);
        send_term(q);
        expect_close(q);
}

CASE("tcp/termreq/h2ctermreq-24", MUST, RULES(TCP_TERM_CLOSE),
     "The target closes the connection after H2CTermReq without data (PLEN 24), which is legal",
     .related = "SPDK answers it")
{
        struct queue *q = bare_queue(t);

        send_term(q, .bytes = 0);
        expect_close(q);
}

CASE("tcp/termreq/h2ctermreq-152", MUST, RULES(TCP_TERM_CLOSE),
     "The target closes the connection after H2CTermReq with 128 bytes of data (PLEN 152)")
{
        struct queue *q = bare_queue(t);

        send_term(q, .bytes = 128);
        expect_close(q);
}

CASE("tcp/termreq/h2ctermreq-153", MUST, RULES(TCP_TERM_LEN_H2C, TCP_TERM_SILENCE),
     "The target closes the connection without C2HTermReq after H2CTermReq with PLEN 153",
     .related = "SPDK answers it")
{
        struct queue *q = admin_queue(t);

        send_term(q, .bytes = 129);
        expect_close(q);
}

CASE("tcp/termreq/h2ctermreq-23", MUST, RULES(TCP_TERM_LEN_H2C, TCP_TERM_SILENCE),
     "The target closes the connection without C2HTermReq after H2CTermReq with PLEN 23")
{
        struct queue *q = admin_queue(t);

        send_term(q, .bytes = 0, .plen = 23);
        expect_close(q);
}

CASE("tcp/termreq/h2ctermreq-plen-max", MUST, RULES(TCP_TERM_LEN_H2C, TCP_TERM_SILENCE),
     "The target closes the connection without C2HTermReq after H2CTermReq with PLEN FFFFFFFFh")
{
        struct queue *q = admin_queue(t);

        send_term(q, .plen = 0xffffffff);
        expect_close(q);
}

CASE("tcp/termreq/h2ctermreq-early", MUST, RULES(TCP_TERM_CLOSE),
     "The target closes the connection after H2CTermReq before ICReq")
{
        struct queue *q = tcp_open(t);

        send_term(q);
        expect_end(q, 0);
}

CASE("tcp/termreq/nothing-after-h2ctermreq", MUST, RULES(TCP_TERM_CLOSE),
     "A command after H2CTermReq is not executed")
{
        struct queue *q = admin_queue(t);
        uint16_t cid;

        send_term(q);
        cid = send_property_get(q, PROP_VS, PROP_ATTRIB_4);
        expect_close(q);
        if (answered(q, cid)) /* 3.5 forbids that of who finds a fault, not of who is told of one */
                lenient(t, "only the end of the connection", "Property Get is answered");
}

CASE("tcp/termreq/c2htermreq", MUST,
     RULES(TCP_HLEN_H2C, TCP_TERM_LEN_C2H, TCP_TERM_FES_C2H, TCP_TERM_COPY_C2H),
     "C2HTermReq has an assigned FES and returns the header of the PDU at fault")
{
        struct queue *q = admin_queue(t, .hdgst = 0);

        mutate(q, "hlen", 71);
        send_property_get(q, PROP_VS, PROP_ATTRIB_4);
        expect_term(q);
}

/* By C2HTermReq; 0: nothing, -1: there is none. That HDGST is no part of a header is a definition. */
static void want_copied(struct t *t, int copied, int header, int hdgst)
{
        about(t, TCP_TERM_COPY_LEN_C2H);
        require(t, copied > 0, "C2HTermReq of this target returns no header"); /* termreq-copy */
        if (copied != header + hdgst)
                want_eq(t, "bytes of the header", (unsigned)copied, (unsigned)header);
}

CASE("tcp/termreq/c2htermreq-copy", SHOULD, RULES(TCP_H2C_UNSOLICITED, TCP_TERM_COPY_LEN_C2H),
     "C2HTermReq for unsolicited H2CData returns all 24 bytes of its header")
{
        struct queue *q = admin_queue(t, .hdgst = 0);

        send_h2c(q, NO_R2T, .cid = 1, .len = 512);
        want_copied(t, expect_term(q), 24, 0);
}

CASE("tcp/termreq/c2htermreq-copy-capsule", SHOULD, RULES(TCP_HDGST_H2C, TCP_TERM_COPY_LEN_C2H),
     "C2HTermReq for a wrong header digest returns the 72 bytes of the capsule's header")
{
        struct queue *q;

        require(t, caps(t)->hdgst, "the target grants no header digest");
        q = admin_queue(t, .hdgst = 1);
        wrong_hdgst(q);
        send_property_get(q, PROP_VS, PROP_ATTRIB_4);
        want_copied(t, expect_term(q), 72, 4);
}

CASE("tcp/termreq/stops-processing", MUST, RULES(TCP_TERM_STOPS, TCP_H2C_UNSOLICITED),
     "Commands after a fatal PDU are not executed")
{
        struct queue *q = admin_queue(t);
        uint16_t cid[4];

        send_h2c(q, NO_R2T, .cid = 1, .len = 512);
        for (int i = 0; i < 4; i++)
                cid[i] = send_property_get(q, PROP_VS, PROP_ATTRIB_4);
        expect_end(q, 0);
        for (int i = 0; i < 4; i++)
                want(t, !answered(q, cid[i]), "only the end of the connection",
                     "Property Get %d after unsolicited H2CData is answered", i + 1);
}

CASE("tcp/termreq/quiet-after-fault", SHOULD, RULES(TCP_TERM_QUIET, TCP_H2C_UNSOLICITED),
     "Nothing follows a C2HTermReq")
{
        struct queue *q = admin_queue(t);

        send_h2c(q, NO_R2T, .cid = 1, .len = 512);
        for (int i = 0; i < 4; i++)
                send_property_get(q, PROP_VS, PROP_ATTRIB_4);
        expect_end(q, 0);
}

CASE("tcp/termreq/one-of-two", MUST, RULES(TCP_HLEN_H2C),
     "A connection that is ended for a fault does not affect other associations")
{
        struct queue *other = admin_queue(t), *q = admin_queue(t);

        mutate(q, "hlen", 0);
        send_property_get(q, PROP_VS, PROP_ATTRIB_4);
        expect_term(q);
        expect_works(other);
        identify_ctrl(other);
}

CASE("tcp/termreq/half-close", INFO, NO_RULE,
     "The target closes a connection whose host has closed its direction")
{
        struct queue *q = admin_queue(t);

        half_close(q);
        expect_end(q, 0);
}
