/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/TCP 3.3.2.1: data from the controller to the host. */
#include "conformance/words/case.h"

CASE("tcp/c2hdata/whole", MUST, RULES(TCP_C2H_COMPLETE, TCP_C2H_CONTIG, TCP_C2H_RANGE),
     "A large Read delivers all its data, in order and without gaps")
{
        struct queue *q = io_queue(t);

        read_blocks(q, 0, large_bytes(t));
        read_blocks(q, 0, KIB(8));
}

CASE("tcp/c2hdata/written", MUST, RULES(TCP_C2H_COMPLETE),
     "A large Read returns what a large Write wrote, wherever it begins and however long it is",
     .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = large_bytes(t);

        write_blocks(q, 0, n, NULL);
        want_data(t, "what was written", read_blocks(q, 0, n), pattern(t, n), n);
        exercise_unaligned(q);
}

/* The buffer that the target read into last has the other half's data. */
static void exercise_halves(struct queue *q, uint64_t slba, uint32_t half)
{
        uint32_t blocks = half / caps(q->t)->block;
        const uint8_t *data = pattern(q->t, 2 * half);

        for (uint32_t i = 0; i < 2; i++)
                write_blocks(q, slba + i * blocks, half, data + i * half);
        for (uint32_t i = 0; i < 2; i++)
                want_data(q->t, "what was written", read_blocks(q, slba + i * blocks, half),
                          data + i * half, half);
}

CASE("tcp/c2hdata/not-stale", MUST, RULES(TCP_C2H_COMPLETE),
     "A large Read returns the data of its own blocks, not data left over from another Write",
     .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t block = caps(t)->block, half = large_bytes(t) / block / 2 * block;

        require(t, half > 0, "the namespace or MDTS allows only one block");
        exercise_halves(q, 0, half);
        if (half > 3 * block) /* neither its start nor its length is a multiple of 4 KiB */
                exercise_halves(q, 1, half - 3 * block);
}

CASE("tcp/c2hdata/last", MUST, RULES(TCP_C2H_LAST, TCP_C2H_AFTER_LAST),
     "LAST_PDU is set on the last C2HData of a command, and only there")
{
        struct queue *q = io_queue(t);

        read_blocks(q, 0, large_bytes(t));
        read_blocks(q, 0, 0);
        expect_silence(q, 30);
        expect_works(q);
}

CASE("tcp/c2hdata/interleaved", MUST, RULES(TCP_C2H_CID, TCP_C2H_DIR),
     "Parallel Reads of different blocks get their data under their own CIDs", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = r2t_bytes(t), block = caps(t)->block, blocks = n / block;
        const uint8_t *data = pattern(t, n);
        uint16_t cid[8];
        unsigned count = together(q, 8);

        write_blocks(q, 0, n, data);
        for (unsigned i = 0; i < count; i++)
                cid[i] = send_read(q, .slba = i % blocks, .bytes = block);
        for (unsigned i = 0; i < count; i++)
                want_data(t, "what was read", expect_success(q, cid[i]).data,
                          data + i % blocks * block, block);
}

CASE("tcp/c2hdata/success-off", MUST, RULES(TCP_C2H_SUCCESS_SQFC),
     "Every Read has a response capsule where SQ flow control cannot be disabled")
{
        struct queue *q = io_queue(t, .cattr = CATTR_DISABLE_SQFC);
        bool able = q->sqfc_off || q->admin->sqfc_off, success = false;

        if (q->sqfc_off)
                q = io_queue(t);
        for (int i = 0; i < 4; i++)
                success |= expect_success(q, send_read(q)).success_flag;
        /* To be capable is enough, and one request may be rejected (Connect, SQFCD). */
        able |= success && caps(t)->discovery && tested_treq(t).some & TREQ_SQFC;
        want(t, able || !success, "a CapsuleResp", "C2HData with SUCCESS");
        if (success)
                note(t, "SUCCESS is used although SQ flow control is enabled: the host gets no "
                        "SQHD");
}

CASE("tcp/c2hdata/success-on", MUST, RULES(TCP_C2H_SUCCESS_LAST, TCP_C2H_SUCCESS_RESP),
     "With SQ flow control disabled, a Read ends once: by SUCCESS on its last C2HData or by a "
     "response")
{
        struct queue *q = io_queue(t, .cattr = CATTR_DISABLE_SQFC);

        require(t, q->sqfc_off, "the target does not disable SQ flow control");
        read_blocks(q, 0, large_bytes(t));
        read_blocks(q, 0, 0);
        expect_silence(q, 30);
        expect_works(q);
}

CASE("tcp/c2hdata/fields", MUST, RULES(TCP_C2H_DATAL, TCP_C2H_DWORD_OFFSET, TCP_C2H_DWORD_LENGTH),
     "DATAO and DATAL of C2HData are multiples of a dword, and DATAL matches PLEN and PDO")
{
        struct queue *q = io_queue(t);

        read_blocks(q, 0, large_bytes(t));
        identify_ctrl(q->admin);
        get_log(q->admin, LOG_ERROR, sizeof(struct log_error), 0);
}

CASE("tcp/c2hdata/slow-reader", MUST, RULES(TCP_C2H_COMPLETE, TCP_DDGST_C2H),
     "A host that reads slowly gets every byte, digests included",
     .related = "nvmet 102110efdff6, SPDK issue 1476")
{
        struct queue *q = io_queue(t, .ddgst = caps(t)->ddgst, .hdgst = caps(t)->hdgst);
        uint16_t cid[24];
        unsigned count = together(q, 24);

        for (unsigned i = 0; i < count; i++)
                cid[i] = send_read(q, .bytes = large_bytes(t));
        pause_ms(t, 100);
        for (unsigned i = 0; i < count; i++)
                expect_success(q, cid[i]);
}
