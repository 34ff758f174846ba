/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVMe/RDMA 3.5, IBTA 12.10: how queue pairs end. The groups are the families of bugs that targets have
 * had in their life cycle: who owns what when (a), close before connect has ended (b), completions
 * and memory that is freed (c), a drain that never ends (d), work that waits for itself (f). That
 * the device goes away (e) takes a guest: conformance/tests/lab/removal.sh.
 */
#include "conformance/words/case_rdma.h"

enum { GONE_MS = 5000, CQT_MOST = 10000 };

/* Commands that are certainly not all done yet. */
static void keep_busy(struct queue *q, unsigned most)
{
        for (unsigned i = 0; i < together(q, most); i++)
                if (i % 2)
                        send_write(q, .bytes = large_bytes(q->t));
                else
                        send_read(q, .bytes = large_bytes(q->t));
}

/* --- DREQ is answered */

CASE("rdma/disconnect/dreq", MUST, RULES(RDMA_DREQ),
     "A disconnect request is answered on an admin queue")
{
        struct queue *q = admin_queue(t);

        hang_up(q);
        expect_disconnect(q, GONE_MS);
}

CASE("rdma/disconnect/dreq-io", MUST, RULES(RDMA_DREQ),
     "A disconnect request is answered on an I/O queue")
{
        struct queue *q = io_queue(t);

        hang_up(q);
        expect_disconnect(q, GONE_MS);
}

CASE("rdma/disconnect/dreq-busy", MUST, RULES(RDMA_DREQ),
     "A disconnect request is answered with commands in flight", .writes = true,
     .related = "SCST 907bc8222, SPDK #2765")
{
        struct queue *q = io_queue(t), *other = admin_queue(t);

        keep_busy(q, 24);
        hang_up(q);
        expect_disconnect(q, GONE_MS);
        expect_works(other);
}

CASE("rdma/disconnect/dreq-before-connect", MUST, RULES(RDMA_DREQ),
     "A disconnect request is answered before Connect", .related = "SCST eae031851")
{
        struct queue *q = bare_queue(t);

        hang_up(q);
        expect_disconnect(q, GONE_MS);
}

CASE("rdma/disconnect/dreq-during-connect", MUST, RULES(RDMA_DREQ),
     "A disconnect request is answered while Connect is being processed",
     .related = "CVE-2024-42152")
{
        struct queue *q = bare_queue(t);

        send_connect(q);
        hang_up(q);
        expect_disconnect(q, GONE_MS);
        expect_works(admin_queue(t));
}

CASE("rdma/disconnect/dreq-during-connect-io", MUST, RULES(RDMA_DREQ),
     "A disconnect request is answered while Connect of an I/O queue is being processed",
     .related = "CVE-2024-42152")
{
        struct queue *q = join(admin_queue(t));

        send_connect(q);
        hang_up(q);
        expect_disconnect(q, GONE_MS);
        expect_works(admin_queue(t));
}

CASE("rdma/disconnect/dreq-with-event", MUST, RULES(RDMA_DREQ),
     "A disconnect request is answered with Asynchronous Event Requests outstanding",
     .related = "nvmet 2922e3507f6d")
{
        struct queue *q = admin_queue(t);

        send_cmd(q, .opc = NVME_AER);
        hang_up(q);
        expect_disconnect(q, GONE_MS);
}

CASE("rdma/disconnect/dreq-after-refusal", MUST, RULES(RDMA_DREQ),
     "A disconnect request is answered after a Connect that was refused")
{
        struct queue *q = bare_queue(t);

        expect_answer(q, send_connect(q, .subnqn = "nqn.2026-01.io.nvmfspec:no-such-subsystem"));
        require(t, !q->over, "the connection ends with the refusal");
        hang_up(q);
        expect_disconnect(q, GONE_MS);
}

CASE("rdma/disconnect/dreq-after-disconnect", MUST, RULES(RDMA_DREQ),
     "A disconnect request is answered after a successful Disconnect on an I/O queue")
{
        struct queue *q = io_queue_of(admin_queue(t, .cattr = CATTR_INDIVIDUAL_DELETE));

        require(t, le16_get(caps(t)->id.ofcs) & OFCS_DISCONNECT, "Disconnect is not supported");
        disconnect(q);
        hang_up(q);
        expect_disconnect(q, GONE_MS);
        expect_works(q->admin);
}

CASE("rdma/disconnect/dreq-after-shutdown", MUST, RULES(RDMA_DREQ),
     "A disconnect request is answered after a shutdown, as hosts end an association")
{
        struct queue *q = io_queue(t), *admin = q->admin;

        hang_up(q);
        expect_disconnect(q, GONE_MS);
        q = admin_queue(t);
        begin_shutdown(q, CC_SHN_NORMAL);
        hang_up(q);
        expect_disconnect(q, GONE_MS);
        hang_up(admin);
        expect_disconnect(admin, GONE_MS);
}

CASE("rdma/disconnect/dreq-all-at-once", MUST, RULES(RDMA_DREQ),
     "Disconnect requests on all five queues of an association at once are answered",
     .related = "nvmet-rdma 2acf70ade79d")
{
        struct queue *q[5] = { io_queue(t) };

        for (uint16_t i = 1; i < 4; i++)
                q[i] = io_queue_of(q[0]->admin, .qid = (uint16_t)(i + 1));
        q[4] = q[0]->admin;
        for (int i = 0; i < 5; i++)
                hang_up(q[i]);
        for (int i = 0; i < 5; i++)
                expect_disconnect(q[i], GONE_MS);
}

CASE("rdma/disconnect/dreq-last-capsule", MUST, NO_RULE,
     "A command sent right before the disconnect request does not affect the target",
     .writes = true, .storm = true, .related = "SPDK 5469bd2d12")
{
        struct queue *other = admin_queue(t);

        for (unsigned i = 0; !is_enough(t, i, 20); i++) {
                struct queue *q = io_queue(t);

                keep_busy(q, 2);
                hang_up(q);
                hang_up(q->admin);
        }
        expect_works(other);
}

CASE("rdma/disconnect/dreq-unanswered", MUST, NO_RULE,
     "A host that does not answer the target's disconnect request does not block other hosts",
     .slow = true, .unmoved = true)
{
        struct queue *admin = rdma_open(t, .mute = true), *other = admin_queue(t);
        uint32_t kato, cqt = le16_get(caps(t)->id.cqt); /* that, too, may pass (B2.2 3.9.5) */

        require(t, cqt <= CQT_MOST, "CQT is %u ms", cqt);
        expect_accept(admin);
        expect_connected(admin, send_connect(admin));
        set_cc(admin, CC_RUN, CSTS_RDY, CSTS_RDY);
        succeed(admin, send_set_feature(admin, FEAT_KATO, 1000));
        kato =
            expect_answer(admin, send_cmd(admin, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_KATO)).dw0;
        require(t, !admin->over, "the timer ran out before Get Features was answered");
        require(t, kato > 0 && kato <= 3000, "KATO is raised to %u ms", kato);
        expect_disconnect(admin, 2 * kato + cqt + GONE_MS);
        expect_works(other);
        expect_works(admin_queue(t));
}

/* --- (b) close before connect has ended */

CASE("rdma/teardown/vanish-asking", MUST, NO_RULE,
     "A host that disappears right after its connect request does not affect others",
     .related = "nvmet c758b77d4a0a")
{
        struct queue *other = admin_queue(t);

        for (int i = 0; i < 10; i++)
                vanish(rdma_open(t));
        expect_works(other);
        expect_works(admin_queue(t));
}

CASE("rdma/teardown/vanish-accepted", MUST, NO_RULE,
     "A host that disappears after the accept, without completing setup, does not affect others",
     .related = "ib_srpt, RTU never comes")
{
        struct queue *other = admin_queue(t), *q[5];

        for (int i = 0; i < 5; i++)
                q[i] = rdma_open(t);
        pause_ms(t, 50); /* nobody looks at the acceptances */
        for (int i = 0; i < 5; i++)
                vanish(q[i]);
        expect_works(other);
        expect_works(admin_queue(t));
}

CASE("rdma/teardown/vanish-established", MUST, NO_RULE,
     "A host that disappears as soon as it is connected does not affect others")
{
        struct queue *other = admin_queue(t);

        for (int i = 0; i < 10; i++) {
                struct queue *q = rdma_open(t);

                expect_accept(q);
                vanish(q);
        }
        expect_works(other);
}

CASE("rdma/teardown/vanish-connecting", MUST, NO_RULE,
     "A host that disappears during Connect does not affect others", .related = "CVE-2024-42152")
{
        struct queue *other = admin_queue(t);

        for (int i = 0; i < 10; i++) {
                struct queue *q = bare_queue(t);

                send_connect(q);
                vanish(q);
        }
        expect_works(other);
        expect_works(admin_queue(t));
}

CASE("rdma/teardown/vanish-asking-io", MUST, NO_RULE,
     "A host that disappears right after requesting an I/O queue does not affect others")
{
        struct queue *other = admin_queue(t), *admin = admin_queue(t);

        for (int i = 0; i < 5; i++)
                vanish(rdma_join(admin));
        hang_up(admin);
        expect_works(other);
}

CASE("rdma/teardown/drop-accepted", MUST, NO_RULE,
     "A queue pair that fails right after the accept does not affect others",
     .related = "ib_srpt, two zero-length writes")
{
        struct queue *other = admin_queue(t);

        for (int i = 0; i < 10; i++) {
                struct queue *q = rdma_open(t);

                expect_accept(q);
                drop(q);
        }
        expect_works(other);
        expect_works(admin_queue(t));
}

CASE("rdma/teardown/half-open", MUST, NO_RULE,
     "40 connect requests that are never completed do not affect other hosts", .writes = true,
     .related = "nvmet-rdma 31deaeb11ba7")
{
        struct queue *q = io_queue(t);

        for (int i = 0; i < 40; i++)
                rdma_open(t, .hsqsize = 3);
        exercise(q);
        pause_ms(t, 50);
        exercise(q);
}

CASE("rdma/teardown/connected-idle", MUST, NO_RULE,
     "20 connections without Connect do not affect other hosts", .writes = true)
{
        struct queue *q = io_queue(t);

        for (int i = 0; i < 20; i++)
                expect_decision(rdma_open(t, .hsqsize = 3)); /* or there is no room for more */
        exercise(q);
}

/* --- (a), (c), (d): queue pairs that end with work in hand */

CASE("rdma/teardown/drop", MUST, NO_RULE,
     "After a queue pair failed without notice, the same host can connect again")
{
        struct queue *q = io_queue(t);

        drop(q);
        drop(q->admin);
        expect_works(io_queue(t));
}

CASE("rdma/teardown/drop-busy", MUST, NO_RULE,
     "After a queue pair failed with commands in flight, the same host can connect again",
     .writes = true, .related = "SPDK #2765, #1697")
{
        struct queue *q = io_queue(t), *other = admin_queue(t);

        keep_busy(q, 24);
        drop(q);
        expect_works(other);
        exercise(io_queue(t));
}

CASE("rdma/teardown/drop-busy-again", MUST, NO_RULE,
     "After ten queue pairs failed with commands in flight, the same host can connect again",
     .writes = true, .related = "SPDK 5e156a6e79, 4703d7c5ef")
{
        struct queue *other = admin_queue(t);

        for (int i = 0; i < 10; i++) {
                struct queue *q = io_queue(t);

                keep_busy(q, 12);
                drop(q);
                drop(q->admin); /* or a small target has no controller left */
        }
        expect_works(other);
        exercise(io_queue(t));
}

CASE("rdma/teardown/vanish-busy", MUST, NO_RULE,
     "A host that disappears with commands in flight does not affect others", .writes = true)
{
        struct queue *q = io_queue(t), *other = admin_queue(t);

        keep_busy(q, 24);
        vanish(q);
        vanish(q->admin);
        expect_works(other);
        exercise(io_queue(t));
}

CASE("rdma/teardown/vanish-with-event", MUST, NO_RULE,
     "A host that disappears with Asynchronous Event Requests outstanding does not affect others")
{
        struct queue *q = admin_queue(t), *other = admin_queue(t);

        send_cmd(q, .opc = NVME_AER);
        vanish(q);
        expect_works(other);
        expect_works(admin_queue(t));
}

CASE("rdma/teardown/reconnect-storm", MUST, NO_RULE,
     "After 50 associations in sequence, each with an I/O queue, one more works", .storm = true,
     .related = "LIO 6.12-rc1, nvmet-rdma 2acf70ade79d")
{
        for (unsigned i = 0; !is_enough(t, i, 50); i++) {
                struct queue *q = io_queue(t);

                hang_up(q);
                hang_up(q->admin);
                expect_disconnect(q, GONE_MS);
                expect_disconnect(q->admin, GONE_MS);
                vanish(q); /* or our own device has no room for all of them */
                vanish(q->admin);
        }
        expect_works(io_queue(t));
}

CASE("rdma/teardown/reconnect-storm-drop", MUST, NO_RULE,
     "After 50 associations in sequence that ended without notice, one more works", .storm = true)
{
        for (unsigned i = 0; !is_enough(t, i, 50); i++) {
                struct queue *q = io_queue(t);

                drop(q);
                drop(q->admin);
                if (i % 8 == 7)
                        pause_ms(t, 20);
                vanish(q);
                vanish(q->admin);
        }
        expect_works(io_queue(t));
}

CASE("rdma/teardown/reconnect-storm-queue", MUST, NO_RULE,
     "An I/O queue can be connected and lost 25 times, each time in a new association",
     .storm = true, .related = "SPDK 2470b9957a")
{
        for (unsigned i = 0; !is_enough(t, i, 25); i++) {
                struct queue *q = io_queue(t);

                expect_works(q);
                vanish(q);
                vanish(q->admin);
        }
}

CASE("rdma/teardown/two-hosts", MUST, NO_RULE,
     "An association that ends with commands in flight does not affect another one", .writes = true)
{
        struct queue *a = io_queue(t), *b = io_queue(t);

        keep_busy(a, 20);
        hang_up(a);
        exercise(b);
        expect_disconnect(a, GONE_MS);
        exercise(b);
}

/* --- what ends with what */

CASE("rdma/teardown/admin-ends", MUST, RULES(RDMA_ASSOC_ENDS),
     "When the admin queue is disconnected, the controller's I/O queue ends")
{
        struct queue *q = io_queue(t, .kato = LOST_KATO);
        uint32_t kato = get_feature(q->admin, FEAT_KATO);

        hang_up(q->admin);
        expect_lost(q, kato);
}

CASE("rdma/teardown/admin-ends-four", MUST, RULES(RDMA_ASSOC_ENDS),
     "When the admin queue is disconnected, all four I/O queues of the controller end")
{
        struct queue *q[4] = { io_queue(t, .kato = LOST_KATO) };
        uint32_t kato = get_feature(q[0]->admin, FEAT_KATO);

        for (uint16_t i = 1; i < 4; i++)
                q[i] = io_queue_of(q[0]->admin, .qid = (uint16_t)(i + 1));
        hang_up(q[0]->admin);
        for (int i = 0; i < 4; i++)
                expect_lost(q[i], kato);
}

CASE("rdma/teardown/admin-ends-busy", MUST, RULES(RDMA_ASSOC_ENDS),
     "When the admin queue is disconnected, an I/O queue with commands in flight ends",
     .writes = true)
{
        struct queue *q = io_queue(t, .kato = LOST_KATO), *other = admin_queue(t);
        uint32_t kato = get_feature(q->admin, FEAT_KATO);

        keep_busy(q, 16);
        hang_up(q->admin);
        expect_lost(q, kato);
        expect_works(other);
}

CASE("rdma/teardown/admin-error", MUST, RULES(RDMA_ASSOC_ENDS, RDMA_ERROR_ENDS),
     "When the admin queue ends with an error, the controller's I/O queues end")
{
        struct queue *q = io_queue(t, .kato = LOST_KATO);
        uint32_t kato = get_feature(q->admin, FEAT_KATO);
        struct buffer b = fill_buffer(q->admin, IDENTIFY_LEN);

        send_cmd(q->admin, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL, .bytes = IDENTIFY_LEN,
                 .sgl = HAND(keyed_as(b, IDENTIFY_LEN, ~b.key)));
        about(t, RDMA_ERROR_ENDS);
        expect_disconnect(q->admin, GONE_MS);
        about(t, RDMA_ASSOC_ENDS);
        expect_lost(q, kato);
}

CASE("rdma/teardown/io-ends", MUST, NO_RULE,
     "When an I/O queue is disconnected, its association ends or works on, and others are not "
     "affected")
{
        struct queue *q = io_queue(t), *other = io_queue(t);

        hang_up(q);
        expect_disconnect(q, GONE_MS);
        expect_answer(q->admin, send_cmd(q->admin, .opc = NVME_KEEP_ALIVE));
        expect_works(other);
}

CASE("rdma/teardown/io-ends-other-association", MUST, NO_RULE,
     "An I/O queue that fails does not affect the I/O queues of another association",
     .writes = true)
{
        struct queue *q = io_queue(t), *other = io_queue(t);

        drop(q);
        exercise(other);
        exercise(other);
}

CASE("rdma/teardown/short-ends", MUST, RULES(RDMA_CMD_SHORT),
     "A connection that sent a short capsule ends, and another association of the host works")
{
        struct queue *q = io_queue(t), *other = io_queue(t);

        send_capsule(q, "short", 5);
        expect_refusal(q, 0);
        expect_works(other);
}

/* --- commands around the start */

CASE("rdma/teardown/at-once", MUST, RULES(FAB_ANSWERED),
     "Commands that arrive before the end of connection setup are answered",
     .related = "SRP wait list")
{
        for (int i = 0; i < 20; i++) {
                struct queue *q = rdma_open(t);

                expect_accept(q);
                expect_connected(q, send_connect(q));
                expect_works(q);
                hang_up(q);
        }
}

CASE("rdma/teardown/at-once-io", MUST, RULES(FAB_ANSWERED),
     "A burst of commands right after Connect of an I/O queue is answered")
{
        struct queue *admin = admin_queue(t);

        for (int i = 0; i < 5; i++) {
                struct queue *q = rdma_join(i == 0 ? admin : admin_queue(t));
                uint16_t first;

                expect_accept(q);
                grant_queue(q->admin);
                expect_connected(q, send_connect(q));
                first = send_burst(q, q->sqsize);
                for (uint16_t k = 0; k < q->sqsize; k++)
                        succeed(q, (uint16_t)(first + k));
        }
}

CASE("rdma/teardown/quiet", MUST, RULES(FAB_ANSWERED),
     "The target sends nothing that was not asked for")
{
        struct queue *q = io_queue(t);

        expect_works(q);
        expect_silence(q, 50);
        expect_silence(q->admin, 50);
}
