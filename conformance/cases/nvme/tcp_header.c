/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/TCP 3.3 and 3.6.2: PDU headers, direction, padding and alignment. */
#include "conformance/words/case.h"

CASE("tcp/header/headers", MUST, RULES(TCP_TYPE_C2H, TCP_DIR_C2H, TCP_HLEN_C2H, TCP_PLEN_C2H),
     "TYPE, HLEN and PLEN of all PDUs that the target sends in ordinary work are correct",
     .writes = true)
{
        struct queue *q = io_queue(t);

        exercise(q->admin);
        exercise(q);
}

CASE("tcp/header/reserved-in-headers", SHOULD, RULES(TCP_FLAGS_C2H, TCP_RESP_RSVD, TCP_RSVD_C2H),
     "The target clears reserved flags and bytes, PDO where it is reserved, SQID and the phase tag",
     .writes = true)
{
        exercise(io_queue(t));
}

CASE("tcp/header/type-08h", MUST, RULES(TCP_TYPE_H2C), "A PDU of the unassigned type 08h is fatal")
{
        struct queue *q = bare_queue(t);

        send_pdu(q, 0x08, 16);
        expect_term(q);
}

CASE("tcp/header/type-0ch", MUST, RULES(TCP_TYPE_H2C), "A PDU of the unassigned type 0Ch is fatal")
{
        struct queue *q = admin_queue(t);

        send_pdu(q, 0x0c, 16);
        expect_term(q);
}

CASE("tcp/header/type-ffh", MUST, RULES(TCP_TYPE_H2C), "A PDU of the unassigned type FFh is fatal")
{
        struct queue *q = io_queue(t);

        send_pdu(q, 0xff, 16);
        expect_term(q);
}

CASE("tcp/header/capsule-hlen", MUST, RULES(TCP_HLEN_H2C),
     "CapsuleCmd with an HLEN other than 72 is fatal")
{
        struct queue *q = admin_queue(t);

        mutate(q, "hlen", 64);
        send_property_get(q, PROP_VS, PROP_ATTRIB_4);
        expect_term(q);
}

CASE("tcp/header/capsule-hlen-255", MUST, RULES(TCP_HLEN_H2C),
     "CapsuleCmd with HLEN 255 is fatal, even with header digests enabled",
     .related = "CVE-2025-21927 (the host's side of it)")
{
        struct queue *q = admin_queue(t, .hdgst = caps(t)->hdgst);

        mutate(q, "hlen", 255);
        send_property_get(q, PROP_VS, PROP_ATTRIB_4);
        expect_term(q);
}

CASE("tcp/header/capsule-plen-short", MUST, RULES(TCP_PLEN_H2C),
     "CapsuleCmd with a PLEN smaller than its header is fatal")
{
        struct queue *q = admin_queue(t, .hdgst = 0);

        mutate(q, "plen", 71);
        send_property_get(q, PROP_VS, PROP_ATTRIB_4);
        expect_term(q);
}

CASE("tcp/header/capsule-plen-8", MUST, RULES(TCP_PLEN_H2C), "CapsuleCmd with PLEN 8 is fatal")
{
        struct queue *q = admin_queue(t);

        mutate(q, "plen", 8);
        send_property_get(q, PROP_VS, PROP_ATTRIB_4);
        expect_term(q);
}

CASE("tcp/header/capsule-reserved-flags", INFO, RULES(TCP_FLAGS_H2C),
     "CapsuleCmd with reserved flags set is accepted")
{
        struct queue *q = admin_queue(t, .hdgst = 0, .ddgst = 0);

        mutate(q, "flags", 0xf0);
        expect_success(q, send_property_get(q, PROP_VS, PROP_ATTRIB_4));
}

CASE("tcp/header/reserved-h2cdata", INFO, RULES(TCP_RSVD_H2C),
     "H2CData with reserved bytes set is accepted", .writes = true)
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);

        violate(q, TCP_RSVD_H2C);
        send_h2c(q, r);
        succeed(q, r.cid);
}

CASE("tcp/header/direction-icresp", MUST, RULES(TCP_DIR_H2C), "ICResp sent by a host is fatal")
{
        struct queue *q = bare_queue(t);

        send_pdu(q, PDU_ICRESP, 120);
        expect_term(q);
}

CASE("tcp/header/direction-c2htermreq", MUST, RULES(TCP_DIR_H2C),
     "C2HTermReq sent by a host is fatal")
{
        struct queue *q = bare_queue(t);

        send_pdu(q, PDU_C2H_TERM, 16);
        expect_term(q);
}

CASE("tcp/header/direction-capsuleresp", MUST, RULES(TCP_DIR_H2C),
     "CapsuleResp sent by a host is fatal")
{
        struct queue *q = admin_queue(t);

        send_pdu(q, PDU_CAPSULE_RESP, 16);
        expect_term(q);
}

CASE("tcp/header/direction-c2hdata", MUST, RULES(TCP_DIR_H2C), "C2HData sent by a host is fatal")
{
        struct queue *q = io_queue(t);

        send_pdu(q, PDU_C2H_DATA, 16);
        expect_term(q);
}

CASE("tcp/header/direction-r2t", MUST, RULES(TCP_DIR_H2C), "R2T sent by a host is fatal")
{
        struct queue *q = io_queue(t);

        send_pdu(q, PDU_R2T, 16);
        expect_term(q);
}

/* T1.0 3.1 lets a target refuse a parameter that it does not support. */
static bool supports_hpda(struct t *t, int hpda, int hdgst)
{
        struct queue *q = tcp_open(t);
        bool supported;

        send_icreq(q, .hpda = hpda, .hdgst = hdgst);
        supported = expect_icresp_unless(q, offsetof(struct pdu_icreq, hpda));
        hang_up(q);
        if (!supported)
                note(t, "HPDA %d is not supported", hpda);
        return supported;
}

CASE("tcp/alignment/hpda", MUST, RULES(TCP_PDO_C2H),
     "Data sent to a host is aligned as its HPDA asks, for all 32 values")
{
        for (int hpda = 0; hpda <= PDU_PDA_MAX; hpda++) {
                struct queue *q;

                if (!supports_hpda(t, hpda, AS_RUN))
                        continue;
                q = io_queue(t, .hpda = hpda, .near = true);
                exercise(q->admin);
                exercise(q);
                hang_up(q);
                hang_up(q->admin);
        }
}

static void exercise_aligned(struct t *t, int hpda, bool hdgst, bool ddgst)
{
        struct queue *q;

        if (!supports_hpda(t, hpda, hdgst))
                return;
        q = io_queue(t, .hpda = hpda, .near = true, .hdgst = hdgst, .ddgst = ddgst);
        exercise(q);
        hang_up(q);
        hang_up(q->admin);
}

/* Without HDGST the padding begins elsewhere. */
CASE("tcp/alignment/hpda-digest", MUST, RULES(TCP_PDO_C2H, TCP_HDGST_C2H, TCP_DDGST_C2H),
     "With digests, data sent to a host is aligned as HPDA asks, and the data digest covers data "
     "only")
{
        bool hdgst = caps(t)->hdgst, ddgst = caps(t)->ddgst;

        require(t, hdgst || ddgst, "the target grants no digest");
        for (int hpda = 0; hdgst && hpda <= PDU_PDA_MAX; hpda++)
                exercise_aligned(t, hpda, true, ddgst);
        for (int hpda = 0; ddgst && hpda <= PDU_PDA_MAX; hpda++)
                exercise_aligned(t, hpda, false, true);
}

CASE("tcp/alignment/hpda-writes", MUST, RULES(TCP_PDO_C2H, TCP_DDGST_C2H),
     "Writes are executed whatever HPDA is, with digests and without, and their data can be read "
     "back",
     .writes = true)
{
        static const uint8_t values[] = { 0, 3, 17, PDU_PDA_MAX };
        bool able_h = caps(t)->hdgst, able_d = caps(t)->ddgst;

        for (unsigned i = 0; i < sizeof(values); i++)
                for (int hdgst = 0; hdgst <= able_h; hdgst++)
                        for (int ddgst = 0; ddgst <= able_d; ddgst++)
                                exercise_aligned(t, values[i], hdgst, ddgst);
}

CASE("tcp/alignment/hpda-minimal", SHOULD, RULES(TCP_PAD_MIN_C2H),
     "The target pads no more than HPDA requires")
{
        static const uint8_t values[] = { 0, 2, 3, 17, 31 };

        for (unsigned i = 0; i < sizeof(values); i++)
                if (supports_hpda(t, values[i], AS_RUN)) {
                        struct queue *q = io_queue(t, .hpda = values[i], .near = true);

                        exercise(q);
                        hang_up(q);
                        hang_up(q->admin);
                }
}

CASE("tcp/alignment/pad-more", SHOULD, RULES(TCP_PAD_MIN_H2C),
     "In-capsule data at a larger offset than CPDA requires is accepted or refused, whatever PAD "
     "contains")
{
        struct queue *q = bare_queue(t);

        pad(q, 2, 0xa5);
        expect_answer(q, send_connect(q));
}

CASE("tcp/alignment/pad-more-h2cdata", SHOULD, RULES(TCP_PAD_MIN_H2C),
     "H2CData at a larger offset than CPDA requires is refused, or its data is written",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct r2t r = open_r2t(q);
        uint16_t status;

        pad(q, 1, 0x5a);
        send_h2c(q, r);
        status = expect_answer(q, r.cid).status;
        if (q->over || status != NVME_SUCCESS)
                return;
        want_data(t, "what was written", read_blocks(q, 0, r2t_bytes(t)), pattern(t, r2t_bytes(t)),
                  r2t_bytes(t));
}

/* PAD of a length that CPDA does not ask for may be refused. */
CASE("tcp/alignment/pad-apart", MUST, RULES(NVM_DATA),
     "More than 16 KiB of H2CData are written as sent if header, PAD and data arrive apart",
     .writes = true)
{
        enum { HEADER = sizeof(struct pdu_data) };
        struct queue *q = io_queue(t);
        unsigned step = (caps(t)->cpda + 1u) * 4;
        bool lawful = HEADER % step != 0;
        uint32_t n = large_bytes(t) < KIB(64) ? large_bytes(t) : KIB(64);
        struct r2t r;
        uint16_t status;

        require(t, n > caps(t)->in_capsule, "the capsule holds %u bytes", n);
        r = open_r2t(q, .bytes = n);
        if (r.len > caps(t)->maxh2cdata)
                r.len = caps(t)->maxh2cdata;
        require(t, r.len == n && n > KIB(16), "one H2CData carries %u bytes", r.len);
        pad(q, lawful ? 0 : 1, 0x5a);
        dribble(q, HEADER);
        send_h2c(q, r);
        dribble(q, 0);
        status = expect_answer(q, r.cid).status;
        if (lawful)
                want_eq(t, "status", status, NVME_SUCCESS);
        if (!q->over && status == NVME_SUCCESS)
                want_data(t, "what was written", read_blocks(q, 0, n), pattern(t, n), n);
}

CASE("tcp/alignment/pdo-in-header", MUST, RULES(TCP_PDO_H2C),
     "PDO that points into the header is fatal")
{
        struct queue *q = bare_queue(t);

        mutate(q, "pdo", 64);
        send_connect(q);
        expect_term(q);
}

CASE("tcp/alignment/pdo-zero", MUST, RULES(TCP_PDO_H2C), "PDO 0 in a capsule with data is fatal")
{
        struct queue *q = bare_queue(t);

        mutate(q, "pdo", 0);
        send_connect(q);
        expect_term(q);
}

CASE("tcp/alignment/pdo-misaligned", MUST, RULES(TCP_PDO_H2C),
     "PDO that is not a multiple of a dword is fatal")
{
        struct queue *q = bare_queue(t);

        mutate(q, "pdo", 78);
        send_connect(q);
        expect_term(q);
}

CASE("tcp/alignment/pdo-beyond", MUST, RULES(TCP_PDO_H2C),
     "PDO that points beyond the end of its PDU is fatal", .writes = true)
{
        struct queue *q = io_queue(t, .hdgst = 0, .ddgst = 0);
        struct r2t r = open_r2t(q);

        mutate(q, "pdo", 252);
        send_h2c(q, r, .len = 64, .last = false);
        expect_term(q);
}
