/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/TCP 3.1 and 3.6.2.2, 3.6.2.3: connection set-up. */
#include "conformance/words/case_tls.h"

CASE("tcp/setup/icreq", MUST, RULES(TCP_ICRESP_FIRST, TCP_ICRESP_ONCE),
     "A valid ICReq is answered with one ICResp and nothing else")
{
        struct queue *q = tcp_open(t);

        ic(q);
        expect_silence(q, 50);
}

CASE("tcp/icresp/pfv", MUST, RULES(TCP_ICRESP_PFV), "PFV of ICResp is 0")
{
        ic(tcp_open(t));
}

CASE("tcp/icresp/cpda", MUST, RULES(TCP_ICRESP_CPDA), "CPDA of ICResp is at most 31")
{
        ic(tcp_open(t));
}

CASE("tcp/icresp/maxh2cdata", MUST, RULES(TCP_ICRESP_MAXH2C),
     "MAXH2CDATA of ICResp is a multiple of a dword and not zero",
     .related = "nvmet, February 2020: 0's based")
{
        ic(tcp_open(t));
}

CASE("tcp/icresp/maxh2cdata-4096", SHOULD, RULES(TCP_ICRESP_MAXH2C_MIN),
     "MAXH2CDATA of ICResp is at least 4096, which the Linux host requires")
{
        ic(tcp_open(t));
}

CASE("tcp/icresp/reserved", INFO, RULES(TCP_ICRESP_RSVD), "Reserved bits of ICResp are cleared")
{
        ic(tcp_open(t), .hdgst = 1, .ddgst = 1);
}

CASE("tcp/setup/digest-unasked", MUST, RULES(TCP_ICRESP_DGST),
     "The target enables no digest that the host did not ask for")
{
        ic(tcp_open(t), .hdgst = 0, .ddgst = 0);
        ic(tcp_open(t), .hdgst = 1, .ddgst = 0);
        ic(tcp_open(t), .hdgst = 0, .ddgst = 1);
}

CASE("tcp/icreq/pfv-1", MUST, RULES(TCP_ICREQ_PFV), "ICReq with PFV 1 is refused")
{
        struct queue *q = tcp_open(t);

        send_icreq(q, .pfv = 1);
        expect_term(q);
}

CASE("tcp/icreq/pfv-max", MUST, RULES(TCP_ICREQ_PFV), "ICReq with PFV FFFFh is refused")
{
        struct queue *q = tcp_open(t);

        send_icreq(q, .pfv = 0xffff);
        expect_term(q);
}

CASE("tcp/icreq/hpda-32", MUST, RULES(TCP_ICREQ_HPDA), "ICReq with HPDA 32 is refused")
{
        struct queue *q = tcp_open(t);

        send_icreq(q, .hpda = 32);
        expect_term(q);
}

CASE("tcp/icreq/hpda-255", MUST, RULES(TCP_ICREQ_HPDA), "ICReq with HPDA 255 is refused")
{
        struct queue *q = tcp_open(t);

        send_icreq(q, .hpda = 255);
        expect_term(q);
}

CASE("tcp/icreq/lowest-offset", MUST, RULES(TCP_ICREQ_PFV),
     "For an ICReq with two invalid fields the C2HTermReq names the first of them")
{
        struct queue *q = tcp_open(t);

        send_icreq(q, .pfv = 2, .hpda = 32);
        expect_term(q);
}

CASE("tcp/icreq/hlen", MUST, RULES(TCP_HLEN_H2C), "ICReq with an HLEN other than 128 is refused")
{
        struct queue *q = tcp_open(t);

        mutate(q, "hlen", 124);
        send_icreq(q);
        expect_term(q);
}

CASE("tcp/icreq/plen-short", MUST, RULES(TCP_PLEN_H2C), "ICReq with PLEN 127 is refused")
{
        struct queue *q = tcp_open(t);

        mutate(q, "plen", 127);
        send_icreq(q);
        expect_term(q);
}

CASE("tcp/icreq/plen-max", MUST, RULES(TCP_PLEN_H2C),
     "ICReq with PLEN FFFFFFFFh is refused without reading all of it")
{
        struct queue *q = tcp_open(t);

        mutate(q, "plen", 0xffffffff);
        send_icreq(q);
        expect_term(q);
}

CASE("tcp/icreq/reserved-flags", INFO, RULES(TCP_FLAGS_H2C),
     "ICReq with a reserved flag set is accepted (in TCP 1.1 bit 7 asks for KickStart)")
{
        struct queue *q = tcp_open(t);

        mutate(q, "flags", 0x80);
        ic(q);
}

CASE("tcp/icreq/reserved-bits", INFO, RULES(TCP_ICREQ_RSVD),
     "ICReq with reserved bits of DGST set is accepted")
{
        struct queue *q = tcp_open(t);

        mutate(q, "dgst", 0xfc);
        ic(q);
        expect_success(q, send_connect(q));
}

CASE("tcp/setup/capsule-first", MUST, RULES(TCP_ICREQ_FIRST),
     "A command capsule before ICReq ends the connection")
{
        struct queue *q = tcp_open(t);

        send_connect(q);
        expect_term(q);
}

CASE("tcp/setup/h2cdata-first", MUST, RULES(TCP_ICREQ_FIRST),
     "H2CData before ICReq ends the connection", .related = "CVE-2023-6536")
{
        struct queue *q = tcp_open(t);

        send_h2c(q, NO_R2T, .len = 512);
        expect_term(q);
}

CASE("tcp/setup/icreq-twice", MUST, RULES(TCP_ICREQ_ONCE), "A second ICReq ends the connection")
{
        struct queue *q = bare_queue(t);

        send_icreq(q);
        expect_end(q, 0);
}

CASE("tcp/setup/icreq-twice-digest", MUST, RULES(TCP_ICREQ_ONCE),
     "A second ICReq ends the connection even when a header digest is expected after it",
     .related = "CVE-2026-89969")
{
        struct queue *q = tcp_open(t);

        require(t, caps(t)->hdgst, "the target grants no header digest");
        ic(q, .hdgst = 1);
        hold_back(q, 0);
        send_icreq(q, .hdgst = 1);
        send_bytes(q, "\xff\xff\xff\xff", 4);
        expect_end(q, 0);
}

CASE("tcp/setup/icreq-live", MUST, RULES(TCP_ICREQ_ONCE),
     "ICReq on a connected queue ends the connection")
{
        struct queue *q = admin_queue(t);

        send_icreq(q);
        expect_end(q, 0);
}

CASE("tcp/setup/icreq-half", INFO, RULES(TCP_IC_TIMEOUT),
     "The target closes a connection within seconds after half an ICReq", .slow = true,
     .unmoved = true)
{
        struct queue *q = tcp_open(t);

        hold_back(q, 64);
        send_icreq(q);
        expect_end(q, REPLY_MS);
}

CASE("tcp/setup/icreq-never", INFO, RULES(TCP_IC_TIMEOUT),
     "The target closes a connection on which nothing is sent within seconds", .slow = true,
     .unmoved = true)
{
        expect_end(tcp_open(t), REPLY_MS);
}

CASE("tcp/setup/icreq-dribbled", MUST, RULES(TCP_ICRESP_FIRST),
     "ICReq and Connect that arrive byte by byte are accepted")
{
        struct queue *q = tcp_open(t);

        dribble(q, 1);
        ic(q);
        expect_success(q, send_connect(q));
}

CASE("tcp/setup/icreq-and-connect", INFO, NO_RULE,
     "Connect sent right after ICReq, before ICResp, is accepted, refused or ends the connection")
{
        struct queue *q = tcp_open(t);

        send_icreq(q, .hdgst = 0, .ddgst = 0, .hpda = 0);
        expect_answer(q, send_connect(q));
}

CASE("tcp/setup/maxr2t-max", MUST, RULES(TCP_R2T_LIMIT, TCP_CDB),
     "ICReq with MAXR2T FFFFFFFFh (0's based: 2^32) does not overflow", .writes = true)
{
        exercise(io_queue(t, .maxr2t = 0xffffffff));
}

CASE("tcp/setup/reset-storm", MUST, NO_RULE,
     "The target works on after 1000 connections that send ICReq and are reset at once",
     .storm = true, .related = "nvmet 5293a8882c54")
{
        for (unsigned i = 0; !is_enough(t, i, 1000); i++) {
                struct queue *q = tcp_open(t);

                send_icreq(q, .hdgst = i & 1, .ddgst = i >> 1 & 1);
                rst(q);
        }
}

CASE("tcp/setup/close-storm", MUST, NO_RULE,
     "The target works on after 500 connections that send ICReq and are closed at once",
     .storm = true, .related = "nvmet 5293a8882c54")
{
        for (unsigned i = 0; !is_enough(t, i, 500); i++) {
                struct queue *q = tcp_open(t);

                send_icreq(q, .hdgst = i & 1, .ddgst = i >> 1 & 1);
                hang_up(q);
        }
}

CASE("tcp/setup/refusal-storm", MUST, RULES(TCP_ICREQ_HPDA),
     "The target works on after 200 refused ICReqs that asked for digests", .storm = true,
     .related = "CVE-2023-5178")
{
        for (unsigned i = 0; !is_enough(t, i, 200); i++) {
                struct queue *q = tcp_open(t);

                send_icreq(q, .hdgst = 1, .ddgst = 1, .hpda = 32 + (int)i);
                expect_term(q);
                hang_up(q);
        }
}

CASE("tcp/setup/tls-hello", MUST, RULES(TCP_TYPE_H2C),
     "A TLS ClientHello on a plain connection ends the connection")
{
        struct queue *q = knows_tls(t) ? bare_queue(t) : tcp_open(t);

        send_bytes(q, "\x16\x03\x01\x00\x40\x01\x00\x00\x3c\x03\x03", 11);
        expect_term(q);
}

CASE("tcp/setup/http", MUST, RULES(TCP_TYPE_H2C), "An HTTP request ends the connection")
{
        struct queue *q = tcp_open(t);

        send_bytes(q, "GET / HTTP/1.1\r\nHost: nvme\r\n\r\n", 31);
        expect_term(q);
}
