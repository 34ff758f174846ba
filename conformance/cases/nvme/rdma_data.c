/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/RDMA 3.3: READs and WRITEs, keys, invalidation, credits. */
#include <string.h>

#include "conformance/words/case_rdma.h"

enum { GONE_MS = 5000 };

/* An I/O queue made by a connect request of the case's own. */
static struct queue *connected(struct queue *q)
{
        if (q->admin)
                grant_queue(q->admin);
        expect_accept(q);
        expect_connected(q, send_connect(q, .qid = 1));
        return q;
}

/* --- data that is there, and all of it */

CASE("rdma/transfer/whole-read", MUST, RULES(RDMA_WRITE_WHOLE),
     "A successful Read has filled its whole buffer")
{
        struct queue *q = io_queue(t);

        read_blocks(q, 0, 0);
        read_blocks(q, 0, KIB(8));
        read_blocks(q, 0, large_bytes(t));
}

CASE("rdma/transfer/whole-admin", MUST, RULES(RDMA_WRITE_WHOLE),
     "A successful Identify or Get Log Page has filled its whole buffer")
{
        struct queue *q = admin_queue(t);

        identify_ctrl(q);
        identify(q, CNS_NS_LIST, 0);
        get_log(q, LOG_ERROR, 64, 0);
        get_log(q, LOG_SMART, 512, 0);
}

CASE("rdma/transfer/whole-write", MUST, RULES(RDMA_READ_WHOLE),
     "A successful Write has fetched all of its data", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = large_bytes(t);

        write_blocks(q, 0, n, NULL);
        want_data(t, "what was written", read_blocks(q, 0, n), pattern(t, n), n);
}

CASE("rdma/transfer/whole-write-small", MUST, RULES(RDMA_READ_WHOLE),
     "A successful Write of a single block by key has fetched all of its data", .writes = true)
{
        struct queue *q = io_queue(t);
        uint32_t n = caps(t)->block;

        write_blocks(q, 0, 0, NULL);
        want_data(t, "what was written", read_blocks(q, 0, 0), pattern(t, n), n);
}

CASE("rdma/transfer/write-before", MUST, RULES(RDMA_WRITE_BEFORE, RDMA_WRITE_WHOLE),
     "The data of a Read has arrived when its response arrives")
{
        struct queue *q = io_queue(t);

        for (int i = 0; i < 50; i++)
                read_blocks(q, 0, large_bytes(t));
}

CASE("rdma/transfer/write-before-many", MUST, RULES(RDMA_WRITE_BEFORE, RDMA_WRITE_WHOLE),
     "The data of each of many parallel Reads has arrived when its response arrives")
{
        struct queue *q = io_queue(t);
        uint16_t cid[24];
        unsigned n = together(q, 24);
        uint32_t large = large_bytes(t) < KIB(64) ? large_bytes(t) : KIB(64);

        for (int round = 0; round < 4; round++) {
                for (unsigned i = 0; i < n; i++)
                        cid[i] = send_read(q, .bytes = i % 2 ? KIB(8) : large);
                for (unsigned i = 0; i < n; i++)
                        succeed(q, cid[i]);
        }
}

CASE("rdma/transfer/write-range", MUST, RULES(RDMA_WRITE_RANGE),
     "A Read writes nothing before or after its buffer")
{
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(16));

        read_blocks(q, 0, KIB(8));
        read_blocks(q, 0, 0);
        succeed(q, send_read(q, .bytes = KIB(8), .sgl = HAND(keyed_part(b, KIB(4), KIB(8)))));
        want_untouched(t, &b, 0, KIB(4));
        want_untouched(t, &b, KIB(12), KIB(4));
}

CASE("rdma/transfer/write-range-failed", MUST, RULES(RDMA_WRITE_RANGE),
     "A failed Read writes nothing outside its buffer")
{
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(8));
        struct reply r;

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        r = finish(q, send_read(q, .slba = caps(t)->blocks, .sgl = HAND(keyed_part(b, 0, KIB(4)))));
        want(t, r.status != NVME_SUCCESS, "an error", "success");
        want_untouched(t, &b, KIB(4), KIB(4));
}

CASE("rdma/transfer/write-direction", MUST, RULES(RDMA_WRITE_DIR),
     "A Write does not change the host's memory even if the key permits it", .writes = true)
{
        struct queue *q = io_queue(t);
        struct buffer b = buffer_with(q, KIB(8), VERBS_REMOTE_READ | VERBS_REMOTE_WRITE);

        succeed(q, send_write(q, .bytes = KIB(8), .sgl = HAND(keyed(b))));
        want_untouched(t, &b, 0, b.len);
        want_data(t, "what was written", read_blocks(q, 0, KIB(8)), b.data, KIB(8));
}

CASE("rdma/transfer/read-direction", MUST, RULES(RDMA_READ_DIR),
     "A Read succeeds though its key gives no right to RDMA READ")
{
        struct queue *q = io_queue(t);
        struct buffer b = buffer_with(q, KIB(8), VERBS_REMOTE_WRITE);

        succeed(q, send_read(q, .bytes = KIB(8), .sgl = HAND(keyed(b))));
        expect_works(q);
}

CASE("rdma/transfer/read-range", MUST, RULES(RDMA_READ_RANGE),
     "A Write fetches no byte that its descriptors do not describe, as no key covers others",
     .writes = true)
{
        struct queue *q = io_queue(t);

        for (uint32_t n = caps(t)->block; n <= KIB(64) && n <= large_bytes(t); n *= 2)
                write_blocks(q, 0, n, NULL);
        expect_works(q);
}

CASE("rdma/key/shared", MUST, NO_RULE, "Commands in parallel can use the same buffer")
{
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(8));
        uint16_t cid[8];
        unsigned count = together(q, 8);

        for (unsigned i = 0; i < count; i++)
                cid[i] = send_read(q, .bytes = KIB(8), .sgl = HAND(keyed(b)));
        for (unsigned i = 0; i < count; i++)
                succeed(q, cid[i]);
        want(t, !is_untouched(&b, 0, 8), "data", "nothing was written");
}

CASE("rdma/key/again", MUST, RULES(RDMA_INV_UNASKED),
     "A key that a command used without subtype Fh can be used by the next command")
{
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(8));

        for (int i = 0; i < 8; i++)
                succeed(q, send_read(q, .bytes = KIB(8), .sgl = HAND(keyed(b))));
}

/* --- limits */

CASE("rdma/transfer/read-limit", MUST, RULES(RDMA_READ_LIMIT),
     "With one RDMA READ allowed at a time, Writes in parallel all succeed", .writes = true)
{
        struct queue *q = connected(rdma_join(admin_queue(t), .reads_in = 1));
        uint16_t cid[8];
        unsigned count = together(q, 8);

        for (unsigned i = 0; i < count; i++)
                cid[i] = send_write(q, .bytes = KIB(8));
        for (unsigned i = 0; i < count; i++)
                succeed(q, cid[i]);
}

CASE("rdma/transfer/read-limit-list", MUST, RULES(RDMA_READ_LIMIT),
     "With one RDMA READ allowed at a time, a Write from several buffers succeeds", .writes = true)
{
        struct queue *q = connected(rdma_join(admin_queue(t), .reads_in = 1));
        struct buffer b = data_buffer(q, KIB(8), 0);

        require(t, caps(t)->in_capsule >= 64 && (caps(t)->msdbd == 0 || caps(t)->msdbd >= 4),
                "the target does not accept four SGL descriptors");
        for (int i = 0; i < 4; i++)
                succeed(q, send_write(q, .bytes = KIB(8),
                                      .sgl = LIST(keyed_part(b, 0, KIB(2)),
                                                  keyed_part(b, KIB(2), KIB(2)),
                                                  keyed_part(b, KIB(4), KIB(2)),
                                                  keyed_part(b, KIB(6), KIB(2)))));
        want_data(t, "what was written", read_blocks(q, 0, KIB(8)), b.data, KIB(8));
}

CASE("rdma/transfer/read-limit-two", MUST, RULES(RDMA_READ_LIMIT),
     "With two RDMA READs allowed at a time, large Writes succeed", .writes = true)
{
        struct queue *q = connected(rdma_join(admin_queue(t), .reads_in = 2));
        uint16_t cid[8];
        unsigned count = together(q, 8);

        for (unsigned i = 0; i < count; i++)
                cid[i] = send_write(q, .bytes = large_bytes(t));
        for (unsigned i = 0; i < count; i++)
                succeed(q, cid[i]);
}

CASE("rdma/flow/credits", MUST, RULES(RDMA_CREDITS, FAB_ANSWERED),
     "As many commands as CRQSIZE says are accepted at once, without RNR retries")
{
        enum { POSTED_MS = 5 }; /* until receives are posted again: by when is not printed */
        struct queue *q = rdma_join(admin_queue(t), .rnr_retry = 0);
        uint16_t n = le16_get(accepted_or_skip(q, NO_RETRIES).data.crqsize), first;

        grant_queue(q->admin);
        expect_connected(q, send_connect(q));
        n = n > q->sqsize ? q->sqsize : n;
        for (int round = 0; round < 20; round++) {
                pause_ms(t, POSTED_MS);
                first = send_burst(q, n);
                for (uint16_t i = 0; i < n; i++)
                        succeed(q, (uint16_t)(first + i));
        }
}

CASE("rdma/flow/burst-mqes", MUST, RULES(FAB_ANSWERED),
     "An I/O queue of 128 entries accepts 127 commands at once, again and again")
{
        uint16_t mqes = CAP_MQES(caps(t)->cap), n = mqes < 127 ? mqes : 127;
        struct queue *q = io_queue(t, .sqsize = n);

        for (int round = 0; round < 5; round++) {
                uint16_t first = send_burst(q, n);

                for (uint16_t i = 0; i < n; i++)
                        succeed(q, (uint16_t)(first + i));
        }
}

CASE("rdma/flow/burst-queues", MUST, RULES(FAB_ANSWERED),
     "Four I/O queues each accept as many commands as fit (at most 31) at the same time")
{
        struct queue *q[4] = { io_queue(t) };
        uint16_t first[4], n = q[0]->sqsize;

        for (uint16_t i = 1; i < 4; i++)
                q[i] = io_queue_of(q[0]->admin, .qid = (uint16_t)(i + 1));
        for (int i = 0; i < 4; i++)
                first[i] = send_burst(q[i], n);
        for (int i = 0; i < 4; i++)
                for (uint16_t k = 0; k < n; k++)
                        succeed(q[i], (uint16_t)(first[i] + k));
}

CASE("rdma/transfer/large", MUST, RULES(RDMA_WRITE_WHOLE),
     "Reads of 1 MiB (or MDTS) in parallel all succeed")
{
        uint32_t mdts = caps(t)->mdts, n = mdts > 0 && mdts < KIB(1024) ? mdts : KIB(1024);
        struct queue *q = io_queue(t);
        uint16_t cid[8];
        unsigned count = together(q, 8);

        require(t, bytes_left(t) >= n, "no suitable namespace");
        for (unsigned i = 0; i < count; i++)
                cid[i] = send_read(q, .bytes = n);
        for (unsigned i = 0; i < count; i++)
                succeed(q, cid[i]);
}

/* --- keys that are no good: the provider ends the connection, the target tells it */

/* The connection ends, and the host's other association does not care. */
static void expect_broken(struct queue *q, struct queue *other)
{
        expect_disconnect(q, GONE_MS);
        expect_works(other);
}

CASE("rdma/key/wrong", MUST, RULES(RDMA_ERROR_ENDS),
     "A Read with an unknown key ends its connection and affects nothing else")
{
        struct queue *q = io_queue(t), *other = admin_queue(t);
        struct buffer b = fill_buffer(q, KIB(8));

        send_read(q, .bytes = KIB(8), .sgl = HAND(keyed_as(b, KIB(8), ~b.key)));
        expect_broken(q, other);
        want_untouched(t, &b, 0, b.len);
}

CASE("rdma/key/wrong-write", MUST, RULES(RDMA_ERROR_ENDS),
     "A Write with an unknown key ends the connection", .writes = true)
{
        struct queue *q = io_queue(t), *other = admin_queue(t);
        struct buffer b = data_buffer(q, KIB(8), 0);

        send_write(q, .bytes = KIB(8), .sgl = HAND(keyed_as(b, KIB(8), ~b.key)));
        expect_broken(q, other);
}

CASE("rdma/key/wrong-admin", MUST, RULES(RDMA_ERROR_ENDS),
     "Identify with an unknown key ends the connection")
{
        struct queue *q = admin_queue(t), *other = admin_queue(t);
        struct buffer b = fill_buffer(q, IDENTIFY_LEN);

        send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL, .bytes = IDENTIFY_LEN,
                 .sgl = HAND(keyed_as(b, IDENTIFY_LEN, ~b.key)));
        expect_broken(q, other);
}

CASE("rdma/key/wrong-connect", MUST, RULES(RDMA_ERROR_ENDS),
     "Connect with an unknown key ends the connection")
{
        struct queue *q = bare_queue(t), *other = admin_queue(t);
        struct buffer b = data_buffer(q, CONNECT_DATA_LEN, 0);

        send_connect(q, .sgl = HAND(keyed_as(b, CONNECT_DATA_LEN, ~b.key)));
        expect_broken(q, other);
}

CASE("rdma/key/stale", MUST, RULES(RDMA_ERROR_ENDS),
     "A Read with the key of memory that is no longer registered ends the connection")
{
        struct queue *q = io_queue(t), *other = admin_queue(t);
        struct buffer b = fill_buffer(q, KIB(8));

        revoke_key(&b);
        send_read(q, .bytes = KIB(8), .sgl = HAND(keyed(b)));
        expect_broken(q, other);
        want_untouched(t, &b, 0, b.len);
}

CASE("rdma/key/stale-write", MUST, RULES(RDMA_ERROR_ENDS),
     "A Write with the key of memory that is no longer registered ends the connection",
     .writes = true)
{
        struct queue *q = io_queue(t), *other = admin_queue(t);
        struct buffer b = data_buffer(q, KIB(8), 0);

        revoke_key(&b);
        send_write(q, .bytes = KIB(8), .sgl = HAND(keyed(b)));
        expect_broken(q, other);
}

CASE("rdma/key/short", MUST, RULES(RDMA_ERROR_ENDS),
     "A Write with a descriptor that extends beyond the registered memory ends the connection",
     .writes = true)
{
        struct queue *q = io_queue(t), *other = admin_queue(t);
        struct buffer b = data_buffer(q, KIB(8), 0);

        send_write(q, .bytes = KIB(8), .sgl = HAND(keyed_part(b, 4, KIB(8))));
        expect_broken(q, other);
}

CASE("rdma/key/address", MUST, RULES(RDMA_ERROR_ENDS),
     "A Read to an address outside its key's memory ends the connection")
{
        struct queue *q = io_queue(t), *other = admin_queue(t);
        struct buffer b = fill_buffer(q, KIB(8));
        struct buffer far = b;

        far.data = (uint8_t *)((uintptr_t)b.data + (UINT64_C(1) << 40));
        send_read(q, .bytes = KIB(8), .sgl = HAND(keyed(far)));
        expect_broken(q, other);
        want_untouched(t, &b, 0, b.len);
}

CASE("rdma/key/address-max", MUST, RULES(RDMA_SGL_OVERFLOW),
     "A Read to an address whose end overflows 64 bits fails with Data SGL Length Invalid")
{
        struct queue *q = io_queue(t), *other = admin_queue(t);
        struct buffer b = fill_buffer(q, KIB(8));
        struct buffer far = b;

        far.data = (uint8_t *)(uintptr_t)(UINT64_MAX - KIB(4) + 1);
        expect_refusal(q, send_read(q, .bytes = KIB(8), .sgl = HAND(keyed(far))));
        expect_works(other);
        want_untouched(t, &b, 0, b.len);
}

CASE("rdma/key/no-write", MUST, RULES(RDMA_ERROR_ENDS),
     "A Read to memory that is registered for remote reading only ends the connection")
{
        struct queue *q = io_queue(t), *other = admin_queue(t);
        struct buffer b = buffer_with(q, KIB(8), VERBS_REMOTE_READ);

        send_read(q, .bytes = KIB(8), .sgl = HAND(keyed(b)));
        expect_broken(q, other);
        want_untouched(t, &b, 0, b.len);
}

CASE("rdma/key/no-read", MUST, RULES(RDMA_ERROR_ENDS),
     "A Write from memory that is registered for remote writing only ends the connection",
     .writes = true)
{
        struct queue *q = io_queue(t), *other = admin_queue(t);
        struct buffer b = buffer_with(q, KIB(8), VERBS_REMOTE_WRITE);

        send_write(q, .bytes = KIB(8), .sgl = HAND(keyed(b)));
        expect_broken(q, other);
}

CASE("rdma/key/second", MUST, RULES(RDMA_ERROR_ENDS),
     "A Read whose second descriptor has a wrong key ends the connection")
{
        struct queue *q = io_queue(t), *other = admin_queue(t);
        struct buffer a = fill_buffer(q, KIB(4)), b = fill_buffer(q, KIB(4));

        require(t, caps(t)->in_capsule >= 32 && caps(t)->msdbd != 1,
                "the target does not "
                "accept two SGL descriptors");
        send_read(q, .bytes = KIB(8), .sgl = LIST(keyed(a), keyed_as(b, KIB(4), ~b.key)));
        expect_broken(q, other);
        want_untouched(t, &b, 0, b.len);
}

CASE("rdma/key/then-association", MUST, RULES(RDMA_ERROR_ENDS),
     "After a connection ended by a wrong key, the same host can connect and work", .writes = true)
{
        struct queue *q = io_queue(t);
        struct buffer b = fill_buffer(q, KIB(8));

        send_read(q, .bytes = KIB(8), .sgl = HAND(keyed_as(b, KIB(8), ~b.key)));
        expect_disconnect(q, GONE_MS);
        exercise(io_queue(t));
}

CASE("rdma/key/busy", MUST, RULES(RDMA_ERROR_ENDS),
     "A wrong key in one of 16 commands ends the connection, and nothing else is written",
     .writes = true)
{
        struct queue *q = io_queue(t), *other = admin_queue(t);
        struct buffer b = fill_buffer(q, KIB(8));

        for (unsigned i = 1; i < together(q, 17); i++)
                send_write(q, .bytes = KIB(8));
        send_read(q, .bytes = KIB(8), .sgl = HAND(keyed_as(b, KIB(8), ~b.key)));
        expect_broken(q, other);
        want_untouched(t, &b, 0, b.len);
}

/* Not every device tells the target that it has refused one. */
CASE("rdma/transfer/host-writes", MUST, NO_RULE,
     "An RDMA WRITE issued by the host does not affect other hosts")
{
        struct queue *q = io_queue(t), *other = admin_queue(t);

        host_write(q, 0x1000, 0x12345678);
        expect_end(q, GONE_MS);
        expect_works(other);
}

CASE("rdma/flow/no-receives", MUST, RULES(RDMA_ERROR_ENDS),
     "A host without a receive buffer for the response to Connect loses the connection")
{
        struct queue *q = rdma_open(t, .receives = 0, .rnr_retry = 0), *other = admin_queue(t);

        accepted_or_skip(q, NO_RETRIES);
        send_connect(q);
        expect_broken(q, other);
}

CASE("rdma/flow/few-receives", MUST, NO_RULE,
     "A host that posts its receive buffers late, but allows RNR retries, gets all its responses")
{
        /* each pair waits for an RNR timer, of up to 655 ms */
        struct queue *q = connected(rdma_join(admin_queue(t), .receives = 2));
        uint16_t first, n = (uint16_t)together(q, 8);

        require(t, !is_iwarp(q), "iWARP has no RNR");
        first = send_burst(q, n);
        for (uint16_t i = 0; i < n; i++)
                succeed(q, (uint16_t)(first + i));
}

/* --- SEND with invalidate */

CASE("rdma/key/invalidate-unasked", MUST, RULES(RDMA_INV_UNASKED),
     "A response does not invalidate a key whose command did not ask for it", .writes = true)
{
        struct queue *q = io_queue(t);

        exercise(q);
        exercise(q->admin);
        succeed(q, send_cmd(q, .opc = NVME_FLUSH, .nsid = caps(t)->nsid));
}

static void invalidate(struct queue *q, uint16_t cid, struct buffer b)
{
        struct reply r = succeed(q, cid);

        if (!r.invalidated)
                note(q->t, "the target does not invalidate keys");
        else
                want_eq(q->t, "key", r.key, b.key);
}

CASE("rdma/key/invalidate-read", MUST, RULES(RDMA_INV_KEY, RDMA_WRITE_WHOLE),
     "A Read with subtype Fh may invalidate its own key, and no other")
{
        struct queue *q = io_queue(t);
        struct buffer b = window_buffer(q, KIB(8), VERBS_REMOTE_WRITE);

        invalidate(q, send_read(q, .bytes = KIB(8), .sgl = HAND(keyed_invalidate(b))), b);
        expect_works(q);
}

CASE("rdma/key/invalidate-write", MUST, RULES(RDMA_INV_KEY, RDMA_INV_EARLY),
     "A Write with subtype Fh has fetched its data before its key is invalidated", .writes = true)
{
        struct queue *q = io_queue(t);
        struct buffer b = window_buffer(q, KIB(8), VERBS_REMOTE_READ);

        invalidate(q, send_write(q, .bytes = KIB(8), .sgl = HAND(keyed_invalidate(b))), b);
        want_data(t, "what was written", read_blocks(q, 0, KIB(8)), b.data, KIB(8));
}

CASE("rdma/key/invalidate-early", MUST, RULES(RDMA_INV_EARLY, RDMA_WRITE_WHOLE),
     "Large Reads with subtype Fh are complete, and their connection lives on")
{
        struct queue *q = io_queue(t);

        for (int i = 0; i < 16; i++) {
                struct buffer b = window_buffer(q, large_bytes(t), VERBS_REMOTE_WRITE);

                invalidate(q, send_read(q, .bytes = b.len, .sgl = HAND(keyed_invalidate(b))), b);
                want(t, !is_untouched(&b, b.len - 8, 8), "data to the end of the buffer",
                     "nothing was written");
        }
        expect_works(q);
}

CASE("rdma/key/invalidate-admin", MUST, RULES(RDMA_INV_KEY),
     "Identify with subtype Fh may invalidate its own key, and no other")
{
        struct queue *q = admin_queue(t);
        struct buffer b = window_buffer(q, IDENTIFY_LEN, VERBS_REMOTE_WRITE);

        invalidate(q,
                   send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL, .bytes = IDENTIFY_LEN,
                            .sgl = HAND(keyed_invalidate(b))),
                   b);
        expect_works(q);
}

CASE("rdma/key/invalidate-last", MUST, RULES(RDMA_INV_KEY),
     "Of two descriptors with subtype Fh only the key of the last one is invalidated")
{
        struct queue *q = io_queue(t);
        struct buffer a = window_buffer(q, KIB(4), VERBS_REMOTE_WRITE),
                      b = window_buffer(q, KIB(4), VERBS_REMOTE_WRITE);

        require(t, caps(t)->in_capsule >= 32 && caps(t)->msdbd != 1,
                "the target does not "
                "accept two SGL descriptors");
        invalidate(
            q, send_read(q, .bytes = KIB(8), .sgl = LIST(keyed_invalidate(a), keyed_invalidate(b))),
            b);
        succeed(q, send_read(q, .bytes = KIB(4), .sgl = HAND(keyed(a))));
}

CASE("rdma/key/invalidate-not-first", MUST, RULES(RDMA_INV_KEY),
     "A key without subtype Fh stays valid next to a key with it")
{
        struct queue *q = io_queue(t);
        struct buffer a = fill_buffer(q, KIB(4)), b = window_buffer(q, KIB(4), VERBS_REMOTE_WRITE);

        require(t, caps(t)->in_capsule >= 32 && caps(t)->msdbd != 1,
                "the target does not "
                "accept two SGL descriptors");
        invalidate(q, send_read(q, .bytes = KIB(8), .sgl = LIST(keyed(a), keyed_invalidate(b))), b);
        succeed(q, send_read(q, .bytes = KIB(4), .sgl = HAND(keyed(a))));
}

CASE("rdma/key/invalidate-failed", MUST, RULES(RDMA_INV_KEY),
     "A failed command invalidates its own key or none")
{
        struct queue *q = io_queue(t);
        struct buffer b = window_buffer(q, KIB(4), VERBS_REMOTE_WRITE);
        struct reply r;

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        r = finish(q, send_read(q, .slba = caps(t)->blocks, .sgl = HAND(keyed_invalidate(b))));
        want(t, r.status != NVME_SUCCESS, "an error", "success");
        want(t, !r.invalidated || r.key == b.key, "the command's own key", "%08Xh", r.key);
        expect_works(q);
}

CASE("rdma/key/invalidate-then-use", MUST, RULES(RDMA_ERROR_ENDS),
     "A Read with a key that was invalidated ends the connection")
{
        struct queue *q = io_queue(t), *other = admin_queue(t);
        struct buffer b = window_buffer(q, KIB(8), VERBS_REMOTE_WRITE);
        struct reply r =
            succeed(q, send_read(q, .bytes = KIB(8), .sgl = HAND(keyed_invalidate(b))));

        require(t, r.invalidated, "the target does not invalidate keys");
        send_read(q, .bytes = KIB(8), .sgl = HAND(keyed(b)));
        expect_broken(q, other);
}
