/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/TCP 3.3.2.2: data from the host to the controller. */
#include "conformance/words/case.h"

/* --- R2T ----------------------------------------------------------------------------------- */

CASE(
    "tcp/r2t/asked", MUST, RULES(TCP_R2T_CID, TCP_R2T_CONTIG, TCP_R2T_RANGE),
    "The R2Ts of a large Write ask for all of its data, in order, and for nothing else, and all of "
    "it is written",
    .writes = true)
{
        struct queue *q = io_queue(t);

        write_blocks(q, 0, large_bytes(t), NULL);
        write_blocks(q, 0, r2t_bytes(t), NULL);
        exercise_unaligned(q);
}

CASE("tcp/r2t/limit", MUST, RULES(TCP_R2T_LIMIT),
     "With MAXR2T 0 the second R2T of a command comes only after all data of the first has been "
     "sent",
     .writes = true)
{
        enum { EARLY_MS = 100 };
        struct queue *q = io_queue(t, .maxr2t = 0);
        uint16_t cid = send_write(q, .bytes = large_bytes(t));
        struct r2t r = expect_r2t(q, cid);
        uint32_t half = HALF(r) < caps(t)->maxh2cdata ? HALF(r) : caps(t)->maxh2cdata / 4 * 4;

        expect_silence(q, EARLY_MS);
        if (half > 0) { /* R2TL may be a single dword */
                send_h2c(q, r, .len = half, .last = false);
                expect_silence(q, EARLY_MS);
        }
        r.offset += half;
        r.len -= half;
        serve(q, r);
        succeed(q, cid);
}

CASE("tcp/r2t/limit-4", MUST, RULES(TCP_R2T_LIMIT),
     "With MAXR2T 3 at most four R2Ts of a command are outstanding", .writes = true)
{
        struct queue *q = io_queue(t, .maxr2t = 3);
        uint16_t cid = send_write(q, .bytes = large_bytes(t));

        pause_ms(t, 100);
        succeed(q, cid);
}

CASE("tcp/r2t/fields", MUST, RULES(TCP_R2T_DWORD_OFFSET, TCP_R2T_DWORD_LENGTH),
     "R2TO and R2TL of R2T are multiples of a dword", .writes = true)
{
        struct queue *q = io_queue(t);

        write_blocks(q, 0, large_bytes(t), NULL);
        write_blocks(q, 0, r2t_bytes(t), NULL);
}

CASE("tcp/r2t/not-empty", SHOULD, RULES(TCP_R2T_EMPTY), "R2TL of R2T is not zero", .writes = true)
{
        write_blocks(io_queue(t), 0, r2t_bytes(t), NULL);
}

enum { SECOND_MS = 1000 };
#define ONE_R2T_AT_A_TIME "the target asks for the data of one command at a time"

/* The R2T of one more Write, while `first` waits for its data; skips the case where it does not come. */
static struct r2t second_r2t(struct queue *q, struct r2t first, uint64_t slba, const void *data)
{
        uint16_t cid = send_write(q, .slba = slba, .bytes = r2t_bytes(q->t), .data = data);
        struct r2t r;

        if (r2t_within(q, SECOND_MS, &r))
                return r;
        serve(q, first);
        succeed(q, first.cid);
        succeed(q, cid);
        skip(q->t, ONE_R2T_AT_A_TIME);
}

CASE("tcp/r2t/ttag-unique", MUST, RULES(TCP_R2T_TTAG),
     "R2Ts that are outstanding at the same time have different TTAGs", .writes = true)
{
        struct queue *q = io_queue(t);
        unsigned n = together(q, 4);
        uint16_t cid[4];
        struct r2t r[4];
        unsigned asked = 0;

        require(t, n > 1, ONE_AT_A_TIME);
        for (unsigned i = 0; i < n; i++)
                cid[i] = send_write(q, .bytes = r2t_bytes(t));
        while (asked < n && r2t_within(q, SECOND_MS, &r[asked]))
                asked++;
        for (unsigned i = asked; i > 0; i--)
                serve(q, r[i - 1]);
        for (unsigned i = 0; i < n; i++)
                succeed(q, cid[i]);
        require(t, asked > 1, ONE_R2T_AT_A_TIME);
}

/* --- legal H2CData ------------------------------------------------------------------------- */

CASE("tcp/h2cdata/pieces", MUST, RULES(TCP_CDB), "An R2T can be answered with many H2CData PDUs",
     .writes = true)
{
        enum { PIECE = 256 };
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);
        uint32_t n = r2t_bytes(t);

        for (uint32_t at = 0, len; at < r.len; at += len) { /* R2TL is any number of dwords */
                len = r.len - at < PIECE ? r.len - at : PIECE;
                send_h2c(q, r, .offset = r.offset + at, .len = len, .last = at + len == r.len);
        }
        succeed(q, r.cid);
        want_data(t, "what was written", read_blocks(q, 0, n), pattern(t, n), n);
}

CASE("tcp/h2cdata/interleaved", MUST, RULES(TCP_CDB), "H2CData of two commands can be interleaved",
     .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = r2t_bytes(t);
        const uint8_t *data = pattern(t, 2 * n);
        struct r2t a = open_r2t(q, .data = data), b;

        require(t, together(q, 2) > 1, ONE_AT_A_TIME);
        b = second_r2t(q, a, n / caps(t)->block, data + n);
        send_h2c(q, b, .len = HALF(b), .last = false);
        send_h2c(q, a, .len = HALF(a), .last = false);
        send_h2c(q, b, .offset = b.offset + HALF(b), .len = b.len - HALF(b));
        send_h2c(q, a, .offset = a.offset + HALF(a), .len = a.len - HALF(a));
        succeed(q, a.cid);
        succeed(q, b.cid);
        want_data(t, "what the first wrote", read_blocks(q, 0, n), data, n);
        want_data(t, "what the second wrote", read_blocks(q, n / caps(t)->block, n), data + n, n);
}

CASE("tcp/h2cdata/dribbled", MUST, RULES(TCP_CDB),
     "H2CData that arrives in TCP segments of 7 bytes is accepted", .writes = true)
{
        struct queue *q = io_queue(t);

        dribble(q, 7);
        exercise(q);
}

/* --- wrong tags ---------------------------------------------------------------------------- */

CASE("tcp/h2cdata/ttag-unknown", MUST, RULES(TCP_H2C_TTAG),
     "H2CData with a TTAG that no R2T carried ends the connection", .writes = true)
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        send_h2c(q, r, .ttag = r.ttag + 1);
        expect_term(q);
}

CASE("tcp/h2cdata/ttag-ffffh", MUST, RULES(TCP_H2C_TTAG),
     "H2CData with TTAG FFFFh, beyond the size of any queue, ends the connection", .writes = true,
     .related = "nvmet b6a545ffa2c1")
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        send_h2c(q, r, .ttag = r.ttag == 0xffff ? 0x7fff : 0xffff);
        expect_term(q);
}

CASE("tcp/h2cdata/ttag-stale", MUST, RULES(TCP_H2C_UNSOLICITED),
     "H2CData for an R2T that is already complete ends the connection", .writes = true)
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        require(t, together(q, 2) > 1, ONE_AT_A_TIME);
        second_r2t(q, r, 0, NULL); /* so that one is outstanding */
        send_h2c(q, r);
        succeed(q, r.cid);
        send_h2c(q, r);
        expect_term(q);
}

CASE("tcp/h2cdata/unsolicited", MUST, RULES(TCP_H2C_UNSOLICITED),
     "H2CData without any R2T ends the connection", .related = "CVE-2023-6535, nvmet db62b35cbca0")
{
        struct queue *q = io_queue(t);

        send_h2c(q, NO_R2T, .cid = 1, .len = 512);
        expect_term(q);
}

CASE("tcp/h2cdata/unsolicited-admin", MUST, RULES(TCP_H2C_UNSOLICITED),
     "H2CData for a command without data (an AER) ends the connection", .related = "CVE-2026-22998")
{
        struct queue *q = admin_queue(t);
        uint16_t cid = send_cmd(q, .opc = NVME_AER);

        send_h2c(q, NO_R2T, .cid = cid, .len = 512);
        expect_term(q);
}

CASE("tcp/h2cdata/unsolicited-in-capsule", MUST, RULES(TCP_H2C_UNSOLICITED),
     "H2CData after a Write with in-capsule data ends the connection", .writes = true)
{
        struct queue *q = io_queue(t);
        uint16_t cid;

        require(t, caps(t)->in_capsule >= caps(t)->block, "no in-capsule data on I/O queues");
        cid = send_write(q, .in_capsule = true);
        expect_success(q, cid);
        send_h2c(q, NO_R2T, .cid = cid, .len = caps(t)->block);
        expect_term(q);
}

CASE("tcp/h2cdata/cccid", SHOULD, RULES(TCP_H2C_CID),
     "H2CData whose CCCID differs from its R2T's is refused, or accepted by its TTAG",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        mutate(q, "cccid", r.cid + 100u);
        send_h2c(q, r);
        prefer_refusal(q, r.cid);
}

/* --- wrong offsets and lengths ------------------------------------------------------------- */

CASE("tcp/h2cdata/datao-gap", MUST, RULES(TCP_H2C_CONTIG),
     "H2CData that leaves a gap ends the connection", .writes = true,
     .related = "CVE-2023-6536; SPDK says FES 04h")
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        send_h2c(q, r, .offset = r.offset + HALF(r), .len = r.len - HALF(r));
        expect_term(q);
}

CASE("tcp/h2cdata/datao-again", MUST, RULES(TCP_H2C_CONTIG),
     "H2CData that repeats bytes already sent ends the connection", .writes = true)
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        send_h2c(q, r, .len = HALF(r), .last = false);
        send_h2c(q, r, .len = r.len - HALF(r)); /* as many bytes as R2TL asks for, and LAST_PDU */
        expect_term(q);
}

CASE("tcp/h2cdata/datao-swapped", MUST, RULES(TCP_H2C_CONTIG),
     "H2CData that sends the second half first ends the connection", .writes = true)
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        send_h2c(q, r, .offset = r.offset + HALF(r), .len = r.len - HALF(r), .last = false);
        send_h2c(q, r, .len = HALF(r));
        expect_term(q);
}

CASE("tcp/h2cdata/range", MUST, RULES(TCP_H2C_RANGE),
     "H2CData that extends beyond the end of its R2T ends the connection", .writes = true,
     .related = "CVE-2026-23112")
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        send_h2c(q, r, .len = r.len + 4);
        expect_term(q);
}

CASE("tcp/h2cdata/range-at-end", MUST, RULES(TCP_H2C_RANGE),
     "H2CData that continues exactly at the end of its R2T ends the connection", .writes = true,
     .related = "Linux 5.10.250, backport of CVE-2026-23112")
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        send_h2c(q, r, .len = r.len - 4, .last = false);
        send_h2c(q, r, .offset = r.offset + r.len - 4, .len = 8);
        expect_term(q);
}

CASE("tcp/h2cdata/range-and-more", MUST, RULES(TCP_H2C_RANGE),
     "After H2CData beyond the end of its R2T nothing more is accepted", .writes = true,
     .related = "nvmet ea8e356acb16")
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        send_h2c(q, r, .len = r.len + 4, .last = false);
        for (int i = 0; i < 8; i++)
                send_h2c(q, r);
        expect_term(q);
}

CASE("tcp/h2cdata/datao-max", MUST, RULES(TCP_H2C_CONTIG),
     "H2CData whose DATAO plus DATAL overflows ends the connection", .writes = true)
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        mutate(q, "datao", 0xfffffffc);
        send_h2c(q, r, .len = 8, .last = false);
        expect_end(q, 0);
}

CASE("tcp/h2cdata/maxh2cdata", MUST, RULES(TCP_H2C_LIMIT),
     "H2CData longer than MAXH2CDATA, within its R2T, ends the connection", .writes = true,
     .related = "CVE-2023-52454")
{
        uint32_t max = caps(t)->maxh2cdata;
        struct queue *q = io_queue(t);
        struct r2t r;

        require(t, max < KIB(2048), "MAXH2CDATA is %u", max);
        r = open_r2t(q, .bytes = large_bytes(t));
        require(t, r.len > max, "its R2Ts ask for no more than MAXH2CDATA");
        send_h2c(q, r, .len = max + 4, .last = false);
        expect_term(q);
}

CASE("tcp/h2cdata/maxh2cdata-and-range", MUST, RULES(TCP_H2C_LIMIT_RANGE),
     "H2CData longer than MAXH2CDATA and beyond the end of its R2T ends the connection",
     .writes = true, .related = "CVE-2023-52454")
{
        uint32_t max = caps(t)->maxh2cdata;
        struct queue *q = io_queue(t);
        struct r2t r;

        require(t, max < KIB(2048), "MAXH2CDATA is %u", max);
        r = open_r2t(q);
        send_h2c(q, r, .len = (r.len > max ? r.len : max) + 4, .last = false);
        expect_term(q);
}

CASE("tcp/h2cdata/datal-plen", MUST, RULES(TCP_H2C_DATAL),
     "H2CData whose DATAL is larger than PLEN allows ends the connection", .writes = true,
     .related = "CVE-2023-6356")
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        send_h2c(q, r, .len = HALF(r), .datal = r.len);
        expect_term(q);
}

CASE("tcp/h2cdata/datal-plen-long", MUST, RULES(TCP_H2C_DATAL),
     "H2CData whose DATAL is smaller than the data that PLEN counts ends the connection",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        send_h2c(q, r, .datal = HALF(r), .last = false);
        expect_term(q);
}

CASE("tcp/h2cdata/datao-dword", MUST, RULES(TCP_H2C_DWORD_OFFSET),
     "H2CData with a DATAO that is not a multiple of a dword ends the connection", .writes = true)
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        send_h2c(q, r, .offset = r.offset + 2, .len = 4, .last = false);
        expect_term(q);
}

CASE("tcp/h2cdata/datal-dword", MUST, RULES(TCP_H2C_DWORD_LENGTH),
     "H2CData with a DATAL that is not a multiple of a dword ends the connection", .writes = true)
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        send_h2c(q, r, .len = 510, .last = false);
        expect_term(q);
}

CASE("tcp/h2cdata/empty", SHOULD, RULES(TCP_H2C_EMPTY),
     "H2CData without data is refused or ignored, but does not hang the command", .writes = true)
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        send_h2c(q, r, .len = 0, .last = false);
        serve(q, r);
        prefer_refusal(q, r.cid);
}

/* --- LAST_PDU ------------------------------------------------------------------------------ */

CASE("tcp/h2cdata/last-early", SHOULD, RULES(TCP_H2C_LAST_EARLY),
     "LAST_PDU before the end of an R2T is refused or ignored, but does not hang the command",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        send_h2c(q, r, .len = HALF(r));
        pause_ms(t, 50);
        send_h2c(q, r, .offset = r.offset + HALF(r), .len = r.len - HALF(r));
        prefer_refusal(q, r.cid);
}

CASE("tcp/h2cdata/last-missing", SHOULD, RULES(TCP_H2C_LAST_MISSING),
     "An R2T completed without LAST_PDU is refused or ignored, but does not hang the command",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        send_h2c(q, r, .last = false);
        prefer_refusal(q, r.cid);
}

/* --- interruptions ------------------------------------------------------------------------- */

CASE("tcp/h2cdata/reset-midway", MUST, NO_RULE,
     "The target works on after 50 connections that are reset in the middle of H2CData",
     .writes = true, .storm = true, .related = "nvmet af21250bb503")
{
        for (unsigned i = 0; !is_enough(t, i, 50); i++) {
                struct queue *q = io_queue(t);
                struct r2t r = open_r2t(q);

                hold_back(q, 1 + i * 100);
                send_h2c(q, r);
                rst(q);
                rst(q->admin);
        }
}

CASE("tcp/h2cdata/others-go-on", MUST, RULES(TCP_H2C_RANGE),
     "A connection that is ended for faulty H2CData does not affect other hosts' connections",
     .writes = true)
{
        struct queue *other = io_queue(t), *q = io_queue(t);
        struct r2t r = open_r2t(q);

        send_h2c(q, r, .len = r.len + 4);
        expect_term(q);
        exercise(other);
        expect_works(other->admin);
}
