/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 6.3: Connect. */
#include <string.h>

#include "conformance/engine/suite.h"
#include "conformance/words/case.h"

/* --- the admin queue */

CASE("fab/connect/admin", SHOULD, RULES(FAB_CONNECT_RSVD),
     "The result of Connect on the admin queue is CNTLID and AUTHREQ, and its other bits are 0")
{
        struct queue *q = bare_queue(t);

        expect_success(q, send_connect(q));
}

CASE("fab/connect/cntlid-allocated", MUST, RULES(FAB_CONNECT_CNTLID),
     "Connect on the admin queue returns a CNTLID below FFF0h")
{
        struct queue *q = bare_queue(t);
        uint16_t cntlid = (uint16_t)expect_success(q, send_connect(q)).dw0;

        want(t, cntlid <= CNTLID_MAX, "a CNTLID up to FFEFh", "%Xh", cntlid);
}

CASE("fab/connect/failure-reserved", SHOULD, RULES(FAB_CONNECT_RSVD),
     "A failed Connect returns nothing but IPO and IATTR")
{
        struct queue *q = bare_queue(t);

        expect_answer(q, send_connect(q, .sqsize = 0));
}

/* A controller whose association the target has ended may be gone, and its CNTLID another one's. */
static void want_own_cntlid(struct queue *q, struct queue *other)
{
        enum { ENDED_MS = 100 };

        if (q->cntlid != other->cntlid)
                return;
        require(q->t, !ends_within(other, ENDED_MS),
                "the target has ended an association meanwhile");
        fail(q->t, "a CNTLID that no other controller has",
             "CNTLID %u of two associations at a time", q->cntlid);
}

CASE("fab/connect/two-associations", MUST, RULES(FAB_CNTLID_OWN),
     "One host can have two associations, each with a controller of its own")
{
        struct queue *a = admin_queue(t), *b = admin_queue(t);

        want_own_cntlid(b, a);
        expect_works(a);
        expect_works(b);
}

CASE("fab/connect/five-associations", MUST, RULES(FAB_CNTLID_OWN),
     "Five controllers of a subsystem at a time, and those that come and go beside them, have "
     "CNTLIDs of their own")
{
        enum { KEPT = 5, LATER = 5 };
        struct queue *kept[KEPT];

        require(t, !caps(t)->fixed, "the subsystem is of the static controller model");
        for (int i = 0; i < KEPT + LATER; i++) {
                struct queue *q = admin_queue(t);

                for (int k = 0; k < i && k < KEPT; k++)
                        want_own_cntlid(q, kept[k]);
                if (i < KEPT)
                        kept[i] = q;
                else
                        hang_up(q);
        }
}

/* Revisions before `since` need not know this PSDT of Fabrics commands. */
static void want_psdt(struct t *t, uint8_t flags, uint32_t since)
{
        struct queue *q = bare_queue(t);
        uint16_t cid;

        mutate(q, "sqe.flags", flags);
        cid = send_connect(q);
        if (caps(t)->vs >= since)
                expect_success(q, cid);
        else if (expect_answer(q, cid).status != NVME_SUCCESS || q->over)
                advise(t, "Connect with this PSDT is accepted", "PSDT %u is refused", flags >> 6);
}

/* Base 2.1 (figure 95) has 10b and 00b, 2.0 (figure 80) 01b and 00b, those before it 01b alone. */
CASE("fab/connect/psdt", MUST, RULES(FAB_ANSWERED),
     "Connect with PSDT 10b or 00b is accepted, as is the 01b that hosts send")
{
        want_psdt(t, 0x80, NVME_VERSION(2, 1, 0));
        want_psdt(t, 0x00, NVME_VERSION(2, 0, 0));
}

CASE("fab/connect/recfmt", MUST, RULES(FAB_CONNECT_RECFMT), "Connect with RECFMT 1 is refused")
{
        struct queue *q = bare_queue(t);

        expect_refusal(q, send_connect(q, .recfmt = 1));
}

CASE("fab/connect/recfmt-io", MUST, RULES(FAB_CONNECT_RECFMT),
     "Connect of an I/O queue with RECFMT 0100h is refused")
{
        struct queue *q = join(admin_queue(t));

        expect_refusal(q, send_connect(q, .recfmt = 0x0100));
}

CASE("fab/connect/sqsize-0", MUST, RULES(FAB_CONNECT_SQSIZE_ZERO),
     "Connect with SQSIZE 0 (a queue of one entry) is refused", .related = "nvmet bb1cc74790eb")
{
        struct queue *q = bare_queue(t);

        expect_refusal(q, send_connect(q, .sqsize = 0));
}

CASE("fab/connect/sqsize-0-io", MUST, RULES(FAB_CONNECT_SQSIZE_ZERO),
     "Connect of an I/O queue with SQSIZE 0 is refused", .related = "nvmet bb1cc74790eb")
{
        struct queue *q = join(admin_queue(t));

        expect_refusal(q, send_connect(q, .sqsize = 0));
}

CASE("fab/connect/sqsize-max-io", MUST, RULES(FAB_CONNECT_SQSIZE_MAX),
     "Connect of an I/O queue with SQSIZE above CAP.MQES is refused")
{
        struct queue *q = join(admin_queue(t));

        require(t, CAP_MQES(caps(t)->cap) < 0xffff, "CAP.MQES is FFFFh");
        expect_refusal(q, send_connect(q, .sqsize = (uint16_t)(CAP_MQES(caps(t)->cap) + 1)));
}

CASE("fab/connect/sqsize-mqes", MUST, RULES(FAB_CAP),
     "An I/O queue can have as many entries as CAP.MQES allows, or as few as two")
{
        struct queue *q = io_queue(t, .sqsize = CAP_MQES(caps(t)->cap), .judged = true);

        expect_works(q);
        expect_works(io_queue_of(q->admin, .qid = 2, .sqsize = 1, .judged = true));
}

CASE("fab/connect/admin-32", MUST, RULES(FAB_ANSWERED), "An admin queue can have 32 entries")
{
        expect_works(admin_queue(t, .sqsize = 31, .judged = true));
}

/* --- CNTLID */

/* 3.1.2 says no time by which an association has ended, nor 9.6.1 when its loss is noticed. */
enum { GONE_MS = 6000 };

CASE("fab/connect/cntlid-dynamic", MUST, RULES(FAB_CONNECT_CNTLID_DYN),
     "Connect with a specific CNTLID is refused by a subsystem of the dynamic model")
{
        struct queue *q = bare_queue(t);

        require(t, !caps(t)->fixed, "the subsystem is of the static model");
        expect_refusal(q, send_connect(q, .cntlid = 1));
}

CASE("fab/connect/cntlid-static", MUST, RULES(FAB_CONNECT_CNTLID_DYN),
     "Connect with CNTLID FFFEh (any static controller) is refused by a subsystem of the dynamic "
     "model")
{
        struct queue *q = bare_queue(t);

        require(t, !caps(t)->fixed, "the subsystem is of the static model");
        expect_refusal(q, send_connect(q, .cntlid = CNTLID_STATIC));
}

CASE("fab/connect/cntlid-reserved", MUST, RULES(FAB_CONNECT_CNTLID_RSVD),
     "Connect with the reserved CNTLID FFF0h is refused")
{
        struct queue *q = bare_queue(t);

        expect_refusal(q, send_connect(q, .cntlid = 0xfff0));
}

/* Connect to a subsystem of the static model. */
static uint16_t send_static(struct queue *q, int cntlid)
{
        const char *nqn = caps(q->t)->statics;

        require(q->t, nqn, "no subsystem of the static model is given (--static-nqn)");
        return send_connect(q, .subnqn = nqn, .cntlid = cntlid);
}

CASE("fab/connect/static-ffffh", MUST, RULES(FAB_CONNECT_CNTLID_STATIC),
     "Connect with CNTLID FFFFh is refused by a subsystem of the static model")
{
        struct queue *q = bare_queue(t);

        expect_refusal(q, send_static(q, CNTLID_DYNAMIC));
}

/* Another host may be faster than we are, or the association take its time to end. */
CASE("fab/connect/static-same", MUST, RULES(FAB_CONNECT_CNTLID_SAME),
     "Connect with the CNTLID of a static controller returns that CNTLID")
{
        struct queue *q = bare_queue(t);
        uint64_t end;
        uint16_t cntlid = (uint16_t)expect_success(q, send_static(q, CNTLID_STATIC)).dw0;
        struct reply r = { .status = NVME_CONNECT_BUSY };

        want(t, cntlid <= CNTLID_MAX, "a CNTLID up to FFEFh", "%Xh", cntlid);
        hang_up(q);
        for (end = now_ms() + GONE_MS; now_ms() < end; pause_ms(t, 100)) {
                q = bare_queue(t);
                r = expect_resp(q, send_static(q, cntlid));
                if (r.status == NVME_SUCCESS)
                        break;
                hang_up(q);
        }
        require(t, r.status == NVME_SUCCESS, "the controller is not free again after %u s",
                GONE_MS / 1000);
        want_eq(t, "CNTLID", r.dw0 & 0xffff, cntlid);
}

CASE("fab/connect/static-taken", MUST, RULES(FAB_CONNECT_TAKEN),
     "Connect with the CNTLID of a static controller that has an association is refused")
{
        struct queue *q = bare_queue(t), *other = bare_queue(t);
        uint16_t cntlid = (uint16_t)expect_success(q, send_static(q, CNTLID_STATIC)).dw0;

        expect_refusal(other, send_static(other, cntlid));
        expect_works(q);
}

CASE("fab/connect/cntlid-io", MUST, RULES(FAB_CONNECT_CNTLID_IO),
     "Connect of an I/O queue with a CNTLID other than its association's is refused")
{
        struct queue *q = join(admin_queue(t));

        expect_refusal(q, send_connect(q, .cntlid = q->admin->cntlid ^ 0x4000));
}

CASE("fab/connect/cntlid-io-ffffh", MUST, RULES(FAB_CONNECT_CNTLID_IO),
     "Connect of an I/O queue with CNTLID FFFFh is refused")
{
        struct queue *q = join(admin_queue(t));

        expect_refusal(q, send_connect(q, .cntlid = CNTLID_DYNAMIC));
}

static unsigned queues_of(struct queue *admin, unsigned most)
{
        uint32_t asked = most - 1, granted;

        require(admin->t, caps(admin->t)->io, "the target has no I/O subsystem");
        granted = succeed(admin, send_set_feature(admin, FEAT_QUEUES, asked << 16 | asked)).dw0;
        return (granted & 0xffff) < most ? (granted & 0xffff) + 1 : most;
}

/* After so many ms a Connect to the controller of that association. */
static bool is_refused(struct queue *admin, const struct queue *gone, uint16_t qid, uint32_t ms)
{
        struct t *t = admin->t;
        uint64_t left = t_lend(t, t_scaled(t, ms)), end = t_deadline(t, ms);
        struct queue *q;
        bool refused;

        while (now_ms() < end)
                pause_ms(t, 5);
        q = join(admin, .qid = qid);
        refused =
            expect_answer(q, send_connect(q, .qid = qid, .cntlid = gone->cntlid)).status || q->over;
        hang_up(q);
        t_repay(t, left);
        return refused;
}

/* The association that asks is there before the other one ends: their CNTLIDs differ, and nobody else is given
 * the CNTLID that is free again. Each try has a QID of its own, which no earlier one can have left in use, and
 * waits twice as long as the one before: 3.1.2 says no time by which it is gone. The last one waits for the Keep Alive
 * timer. */
CASE("fab/connect/cntlid-gone", MUST, RULES(FAB_CONNECT_CNTLID_IO),
     "Connect of an I/O queue with the CNTLID of an association that has ended is refused",
     .alone = true)
{
        struct queue *gone = admin_queue(t, .kato = LOST_KATO), *admin = admin_queue(t);
        uint16_t tries = (uint16_t)queues_of(gone, 8);
        uint32_t kato = get_feature(gone, FEAT_KATO);

        hang_up(gone);
        for (uint16_t qid = 1; qid < tries; qid++)
                if (is_refused(admin, gone, qid, GONE_MS >> (tries - 1 - qid)))
                        return;
        require(t, kato > 0 && kato <= LOST_KATO_MOST, "only Keep Alive may end it, in %u ms",
                kato);
        want(t, is_refused(admin, gone, tries, expiry_ms(t, kato)),
             "an error status, or the end of the connection",
             "success, after Keep Alive has expired");
        if (tries > 1)
                lenient(t, "an error status, or the end of the connection",
                        "success, until Keep Alive has expired");
}

/* --- names */

CASE("fab/connect/subnqn-unknown", MUST, RULES(FAB_CONNECT_SUBNQN),
     "Connect to a subsystem that does not exist is refused")
{
        struct queue *q = bare_queue(t);

        expect_refusal(q, send_connect(q, .subnqn = "nqn.2026-01.io.nvmfspec:no-such-subsystem"));
}

CASE("fab/connect/subnqn-longer", MUST, RULES(FAB_CONNECT_SUBNQN),
     "Connect with a SUBNQN that is longer than the subsystem's but begins with it is refused")
{
        struct queue *q = bare_queue(t);
        struct connect_data d = connect_data(q);
        static const char more[] = "-no-such-subsystem";
        size_t len = strlen(d.subnqn);

        require(t, len + sizeof(more) <= 224, "the NQN has %u bytes", (unsigned)len);
        memcpy(d.subnqn + len, more, sizeof(more));
        expect_refusal(q, send_connect(q, .data = &d));
}

static bool is_letter(char c)
{
        return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

CASE("fab/connect/subnqn-case", MUST, RULES(FAB_CONNECT_SUBNQN),
     "Connect with a SUBNQN that differs only in the case of a letter is refused")
{
        struct queue *q = bare_queue(t);
        struct connect_data d = connect_data(q);
        char *last = d.subnqn + strlen(d.subnqn);

        do
                require(t, last > d.subnqn, "the NQN contains no letter");
        while (!is_letter(*--last));
        *last ^= 0x20;
        expect_refusal(q, send_connect(q, .data = &d));
}

CASE("fab/connect/subnqn-no-nul", MUST, RULES(FAB_CONNECT_SUBNQN_SYNTAX),
     "Connect with a SUBNQN that fills all 256 bytes is refused", .related = "CVE-2023-6121")
{
        struct queue *q = bare_queue(t);
        struct connect_data d = connect_data(q);
        size_t len = strlen(d.subnqn);

        memset(d.subnqn + len, 'x', sizeof(d.subnqn) - len);
        expect_refusal(q, send_connect(q, .data = &d));
}

CASE("fab/connect/subnqn-224", MUST, RULES(FAB_CONNECT_SUBNQN_SYNTAX),
     "Connect with a SUBNQN of 224 bytes is refused")
{
        struct queue *q = bare_queue(t);
        struct connect_data d = connect_data(q);
        size_t len = strlen(d.subnqn);

        memset(d.subnqn + len, 'x', 224 - len);
        expect_refusal(q, send_connect(q, .data = &d));
}

CASE("fab/connect/subnqn-empty", MUST, RULES(FAB_CONNECT_SUBNQN_SYNTAX),
     "Connect with an empty SUBNQN is refused")
{
        struct queue *q = bare_queue(t);

        expect_refusal(q, send_connect(q, .subnqn = ""));
}

CASE("fab/connect/hostnqn-no-nul", MUST, RULES(FAB_CONNECT_HOSTNQN_SYNTAX),
     "Connect with a HOSTNQN that fills all 256 bytes is refused", .related = "CVE-2023-6121")
{
        struct queue *q = bare_queue(t);
        struct connect_data d = connect_data(q);
        size_t len = strlen(d.hostnqn);

        memset(d.hostnqn + len, 'x', sizeof(d.hostnqn) - len);
        expect_refusal(q, send_connect(q, .data = &d));
}

CASE("fab/connect/hostnqn-empty", MUST, RULES(FAB_CONNECT_HOSTNQN_SYNTAX),
     "Connect with an empty HOSTNQN is refused")
{
        struct queue *q = bare_queue(t);

        expect_refusal(q, send_connect(q, .hostnqn = ""));
}

CASE("fab/connect/hostnqn-syntax", SHOULD, RULES(FAB_CONNECT_HOSTNQN_SYNTAX),
     "Connect with a HOSTNQN that is not a valid NQN is refused")
{
        struct queue *q = bare_queue(t);

        expect_refusal(q, send_connect(q, .hostnqn = "host"));
}

CASE("fab/connect/host-denied", MUST, RULES(FAB_CONNECT_HOST),
     "Connect to a subsystem that does not allow this host is refused")
{
        struct queue *q = bare_queue(t);

        require(t, caps(t)->denied, "no subsystem that refuses this host is given (--denied-nqn)");
        expect_refusal(q, send_connect(q, .subnqn = caps(t)->denied));
}

CASE("fab/connect/hostid-zero", SHOULD, RULES(FAB_CONNECT_HOSTID_ZERO),
     "HOSTID 0 on the admin queue is accepted only if the discovery entry allows it (TREQ bit 3)")
{
        struct queue *q = bare_queue(t);
        uint16_t cid = send_connect(q, .hostid = (const uint8_t[16]) { 0 });

        require(t, caps(t)->entry.trtype, "no discovery log entry says whether HOSTID may be 0");
        if (caps(t)->entry.treq & TREQ_ZHIDS)
                expect_success(q, cid);
        else
                expect_refusal(q, cid);
}

/* --- I/O queues */

CASE("fab/connect/hostnqn-is-subnqn", MUST, RULES(FAB_CONNECT_SAME_NQN),
     "Connect whose HOSTNQN is the SUBNQN is refused by a subsystem that authenticates its hosts")
{
        struct queue *q;

        require(t, caps(t)->auth, "no subsystem that demands authentication is known");
        q = bare_queue(t);
        expect_refusal(q, send_connect(q, .subnqn = caps(t)->auth, .hostnqn = caps(t)->auth));
}

CASE("fab/connect/io-hostnqn", MUST, RULES(FAB_CONNECT_IO_HOSTNQN),
     "Connect of an I/O queue with a HOSTNQN other than the admin queue's is refused")
{
        struct queue *q = join(admin_queue(t));
        struct connect_data d = connect_data(q);

        expect_refusal(q, send_connect(q, .hostnqn = "nqn.2026-01.io.nvmfspec:another-host"));
        require(t, strlen(d.hostnqn) < NQN_MAX, "the HOSTNQN cannot be longer");
        strcat(d.hostnqn, "x");
        q = join(q->admin);
        expect_refusal(q, send_connect(q, .data = &d));
}

CASE("fab/connect/io-subnqn", MUST, RULES(FAB_CONNECT_IO_SUBNQN),
     "Connect of an I/O queue with a SUBNQN other than the admin queue's is refused")
{
        struct queue *q = join(admin_queue(t));

        expect_refusal(q, send_connect(q, .subnqn = NQN_DISCOVERY));
}

CASE("fab/connect/io-cntlid", MUST, NO_RULE,
     "Connect of an I/O queue returns the CNTLID of its association")
{
        struct queue *q = join(granting_queue(t, NULL));

        want_eq(t, "CNTLID", expect_success(q, send_connect(q)).dw0 & 0xffff, q->admin->cntlid);
}

CASE("fab/connect/io-hostid", MUST, RULES(FAB_CONNECT_IO_HOSTID),
     "Connect of an I/O queue with a HOSTID other than the admin queue's is refused")
{
        static const size_t byte[] = { 0, 15 };
        struct queue *admin = admin_queue(t);

        for (int i = 0; i < 2; i++) {
                struct queue *q = join(admin);
                struct connect_data d = connect_data(q);

                d.hostid[byte[i]] ^= 0x40;
                expect_refusal(q, send_connect(q, .data = &d));
        }
}

CASE("fab/connect/io-hostid-zero", SHOULD, RULES(FAB_ANSWERED),
     "Connect of an I/O queue with HOSTID 0 is accepted (from NVMe 2.1 on)")
{
        struct queue *q = join(granting_queue(t, NULL));
        uint16_t cid = send_connect(q, .hostid = (const uint8_t[16]) { 0 });

        if (caps(t)->vs < NVME_VERSION(2, 1, 0)) /* 2.0 6.3: it is not the admin queue's */
                expect_answer(q, cid);
        else
                expect_success(q, cid);
}

CASE("fab/connect/io-not-enabled", MUST, RULES(FAB_CONNECT_IO_ENABLED),
     "Connect of an I/O queue while CC.EN is 0 is refused")
{
        struct queue *q = join(admin_queue(t, .disabled = true));

        expect_refusal(q, send_connect(q));
}

CASE("fab/connect/io-after-reset", MUST, RULES(FAB_CONNECT_IO_ENABLED),
     "Connect of an I/O queue after a Controller Reset, while CC.EN is 0, is refused")
{
        struct queue *admin = admin_queue(t), *q;

        grant_queue(admin);
        set_cc(admin, CC_RUN & ~CC_EN, CSTS_RDY, 0);
        q = join(admin);
        expect_refusal(q, send_connect(q));
}

CASE("fab/connect/qid-65535", MUST, RULES(FAB_CONNECT_QID), "Connect with QID 65535 is refused")
{
        struct queue *q = join(admin_queue(t));

        expect_refusal(q, send_connect(q, .qid = 65535));
}

CASE("fab/connect/qid-not-granted", MUST, RULES(FAB_CONNECT_QID_GRANTED),
     "Connect with a QID above those that Number of Queues granted is refused")
{
        struct queue *q = join(admin_queue(t));
        uint32_t granted = succeed(q->admin, send_set_feature(q->admin, FEAT_QUEUES, 0)).dw0;

        require(t, (granted & 0xffff) < 65533, "Number of Queues grants every queue");
        expect_refusal(q, send_connect(q, .qid = (int)(granted & 0xffff) + 2));
}

CASE("fab/connect/qid-granted", MUST, RULES(FEAT_QUEUES_KEPT),
     "The highest QID that Number of Queues grants can be connected, and Get Features reports that "
     "grant")
{
        struct queue *q = admin_queue(t);
        uint32_t granted, nsq, ncq;

        require(t, caps(t)->io, "the target has no I/O subsystem");
        granted = succeed(q, send_set_feature(q, FEAT_QUEUES, 0x00070007)).dw0;
        want_eq(t, "Number of Queues", get_feature(q, FEAT_QUEUES), granted);
        nsq = granted & 0xffff;
        ncq = granted >> 16;
        expect_works(
            io_queue_of(q, .qid = (uint16_t)((nsq < ncq ? nsq : ncq) + 1), .judged = true));
}

CASE(
    "fab/connect/qid-in-use", MUST, RULES(FAB_CONNECT_QID_USED),
    "Connect with a QID that is already connected is refused, and the existing queue keeps working")
{
        struct queue *first = io_queue(t), *q = join(first->admin);

        expect_refusal(q, send_connect(q));
        expect_works(first);
}

CASE("fab/connect/once-admin", MUST, RULES(FAB_CONNECT_ONCE),
     "A second Connect on an admin queue is refused")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_connect(q));
}

CASE("fab/connect/once-io", MUST, RULES(FAB_CONNECT_ONCE),
     "A second Connect on an I/O queue is refused")
{
        struct queue *q = io_queue(t);

        expect_refusal(q, send_connect(q));
}

/* Each transport has a connection for one queue (T1.0 3.2, R1.0 3.2); with which status it is refused nobody says. */
static void want_refused(struct queue *q, uint16_t cid)
{
        struct reply r = expect_answer(q, cid);

        want(q->t, r.status != NVME_SUCCESS || q->over,
             "an error status, or the end of the connection", "Success");
}

CASE("fab/connect/another-queue", MUST, RULES(FAB_CONNECT_ONCE),
     "Connect for another queue on the connection of an admin queue or of an I/O queue is refused")
{
        struct queue *q = io_queue(t), *admin = admin_queue(t);

        want_refused(q, send_connect(q, .qid = 2));
        want_refused(admin, send_connect(admin, .qid = 1, .cntlid = admin->cntlid));
}

CASE("fab/connect/four-queues", MUST, RULES(FAB_ANSWERED), "An association can use four I/O queues")
{
        struct queue *q = io_queue(t);

        for (uint16_t qid = 2; qid <= 4; qid++)
                exercise(io_queue_of(q->admin, .qid = qid));
        exercise(q);
}

CASE("fab/connect/io-of-nobody", MUST, RULES(FAB_CONNECT_CNTLID_IO),
     "Connect of an I/O queue that belongs to no association is refused",
     .related = "CVE-2024-42152")
{
        struct queue *q = bare_queue(t, .qid = 1);

        expect_refusal(q, send_connect(q, .qid = 1, .cntlid = 0xff00));
}

/* --- data */

CASE("fab/connect/data-short", MUST, RULES(FAB_CONNECT_DATA),
     "Connect with 512 bytes of data is refused")
{
        struct queue *q = bare_queue(t);

        expect_refusal(q, send_connect(q, .bytes = 512));
}

CASE("fab/connect/data-768", MUST, RULES(FAB_CONNECT_DATA),
     "Connect with 768 bytes of data, without the reserved bytes at its end, is refused")
{
        struct queue *q = bare_queue(t);

        expect_refusal(q, send_connect(q, .bytes = 768));
}

CASE("fab/connect/data-none", MUST, RULES(FAB_CONNECT_DATA), "Connect without data is refused")
{
        struct queue *q = bare_queue(t);

        expect_refusal(q, send_connect(q, .bytes = 0));
}

CASE("fab/connect/data-long", SHOULD, RULES(FAB_SGL_LONG),
     "Connect with 2048 bytes of data is accepted, and only the first 1024 are used")
{
        struct queue *q = bare_queue(t);

        succeed_long(q, send_connect(q, .bytes = 2048));
}

/* --- SQ flow control */

CASE("fab/connect/sqfc-unasked", MUST, RULES(FAB_SQFC_UNASKED),
     "SQ flow control stays enabled unless the host asks to disable it")
{
        struct queue *q = io_queue(t);

        want(t, !q->sqfc_off && !q->admin->sqfc_off, "SQHD below the size of the queue",
             "SQHD FFFFh");
}

CASE("fab/connect/sqfc-off", MUST, RULES(FAB_SQHD),
     "With SQ flow control disabled, SQHD is FFFFh in the Connect response and 0 in every later "
     "response")
{
        struct queue *q = io_queue(t, .cattr = CATTR_DISABLE_SQFC);

        require(t, q->sqfc_off, "the target does not disable SQ flow control");
        require(t, caps(t)->nsid, "no namespace for Flush");
        for (int i = 0; i < 4; i++)
                want_eq(
                    t, "SQHD",
                    expect_success(q, send_cmd(q, .opc = NVME_FLUSH, .nsid = caps(t)->nsid)).sqhd,
                    0);
}

/* --- failing Connects */

CASE("fab/connect/not-invalid-field", MUST, RULES(FAB_CONNECT_NOT_FIELD),
     "A failed Connect never reports Invalid Field in Command")
{
        struct queue *q = bare_queue(t), *io = join(admin_queue(t));

        expect_answer(q, send_connect(q, .sqsize = 0));
        expect_answer(io, send_connect(io, .qid = 65535));
        io = join(io->admin);
        expect_answer(io, send_connect(io, .hostnqn = "nqn.2026-01.io.nvmfspec:another-host"));
}

CASE("fab/connect/no-error-log", MUST, RULES(FAB_CONNECT_NO_LOG),
     "A failed Connect adds no entry to the Error Information log")
{
        struct queue *q = join(admin_queue(t));
        const struct log_error *e = get_log(q->admin, LOG_ERROR, sizeof(*e), 0);
        uint64_t before = le64_get(e->count);

        expect_answer(q, send_connect(q, .cntlid = q->admin->cntlid, .sqsize = 0));
        e = get_log(q->admin, LOG_ERROR, sizeof(*e), 0);
        want_eq(t, "error count", le64_get(e->count), before);
}
