/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe/RDMA 3.1: private data of connection management; 2: discovery entries. */
#include <string.h>

#include "conformance/words/case_rdma.h"
#include "pdu/nvme/wire/discovery.h"

#define NEEDS_LENGTHS require(t, !caps(t)->pads, "RDMA_CM pads private data on this link")
#define ACCEPTANCE    RDMA_ACC_LENGTH, RDMA_ACC_RECFMT, RDMA_ACC_CRQSIZE

/* An I/O queue whose connect request was made by hand is used as one. */
static struct queue *connected(struct queue *q)
{
        if (q->admin)
                grant_queue(q->admin);
        expect_accept(q);
        expect_connected(q, send_connect(q, .qid = q->admin ? 1 : 0));
        return q;
}

/* --- acceptances */

CASE("rdma/accept/answer", MUST, RULES(RDMA_ACC_LENGTH, ACCEPTANCE),
     "A connect request for an admin queue is accepted with 32 bytes of private data")
{
        struct accept a = expect_accept(rdma_open(t));

        want(t, a.len >= sizeof(a.data), "32 bytes of private data", "%u", a.len);
}

CASE("rdma/accept/io", MUST, RULES(RDMA_ACC_LENGTH, ACCEPTANCE),
     "A connect request for an I/O queue is accepted with 32 bytes of private data")
{
        struct accept a = expect_accept(rdma_join(admin_queue(t)));

        want(t, a.len >= sizeof(a.data), "32 bytes of private data", "%u", a.len);
}

CASE("rdma/accept/recfmt", MUST, RULES(RDMA_ACC_RECFMT), "RECFMT of a connect accept is 0")
{
        want_eq(t, "RECFMT", le16_get(expect_accept(rdma_open(t)).data.recfmt), 0);
}

CASE("rdma/accept/crqsize", MUST, RULES(RDMA_ACC_CRQSIZE),
     "CRQSIZE of a connect accept is not 0 and at most the entries that HSQSIZE asks for")
{
        uint16_t crqsize = le16_get(expect_accept(rdma_open(t)).data.crqsize);

        want(t, crqsize >= 1 && crqsize <= 32, "CRQSIZE 1 to 32", "%u", crqsize);
}

CASE("rdma/accept/crqsize-two", MUST, RULES(RDMA_ACC_CRQSIZE),
     "CRQSIZE of an I/O queue of two entries is 1 or 2")
{
        struct queue *q = rdma_join(admin_queue(t), .hsqsize = 1);
        uint16_t crqsize = le16_get(expect_accept(q).data.crqsize);

        want(t, crqsize >= 1 && crqsize <= 2, "CRQSIZE 1 or 2", "%u", crqsize);
}

CASE("rdma/accept/crqsize-mqes", MUST, RULES(RDMA_ACC_CRQSIZE),
     "CRQSIZE of an I/O queue with as many entries as CAP.MQES allows is at most that number")
{
        uint16_t mqes = CAP_MQES(caps(t)->cap);
        struct queue *q = rdma_join(admin_queue(t), .hsqsize = mqes);
        uint16_t crqsize = le16_get(expect_accept(q).data.crqsize);

        want(t, crqsize >= 1 && crqsize <= mqes + 1u, "CRQSIZE up to CAP.MQES + 1", "%u", crqsize);
}

CASE("rdma/accept/reserved", SHOULD, RULES(RDMA_ACC_RSVD),
     "Reserved bytes of a connect accept are 0")
{
        static const uint8_t zeroes[28];
        struct accept a = expect_accept(rdma_open(t));

        want_bytes(t, "reserved bytes", a.data.rsvd4, zeroes, sizeof(zeroes));
}

CASE("rdma/accept/ird", SHOULD, RULES(RDMA_ACC_IRD),
     "A controller offers no responder resources, as hosts do not RDMA READ")
{
        struct queue *q = rdma_open(t);
        uint8_t reads = expect_accept(q).reads_in;

        require(t, !is_iwarp(q), "with iWARP the device sets the responder resources");
        want_eq(t, "responder resources", reads, 0);
}

/* --- length of a request */

CASE("rdma/request/none", MUST, RULES(RDMA_REQ_LENGTH),
     "A connect request without private data is rejected")
{
        NEEDS_LENGTHS;
        expect_reject(rdma_open(t, .len = 0));
}

CASE("rdma/request/1-byte", MUST, RULES(RDMA_REQ_LENGTH),
     "A connect request with 1 byte of private data is rejected")
{
        NEEDS_LENGTHS;
        expect_reject(rdma_open(t, .len = 1));
}

CASE("rdma/request/16-bytes", MUST, RULES(RDMA_REQ_LENGTH),
     "A connect request with 16 bytes of private data is rejected")
{
        NEEDS_LENGTHS;
        expect_reject(rdma_open(t, .len = 16));
}

CASE("rdma/request/31-bytes", MUST, RULES(RDMA_REQ_LENGTH),
     "A connect request with 31 bytes of private data is rejected")
{
        NEEDS_LENGTHS;
        expect_reject(rdma_open(t, .len = 31));
}

CASE("rdma/request/31-bytes-io", MUST, RULES(RDMA_REQ_LENGTH),
     "A connect request for an I/O queue with 31 bytes of private data is rejected")
{
        NEEDS_LENGTHS;
        expect_reject(rdma_join(admin_queue(t), .len = 31));
}

/* A host that has no receives (R1.0 figure 5: HRQSIZE 0) is owed no response, either. */
static void prefer_reject_or_silence(struct queue *q)
{
        enum { ANSWER_MS = 3000 };
        uint16_t cid;

        if (!expect_decision(q))
                return;
        cid = send_connect(q);
        if (answers_within(q, cid, ANSWER_MS) || ends_within(q, 0))
                prefer_refusal(q, cid);
        else
                advise(q->t, "the connect request is rejected",
                       "it is accepted, and Connect is not answered");
}

CASE("rdma/request/zeroes", MUST, RULES(RDMA_REQ_HSQSIZE),
     "A connect request whose private data is all zeroes is rejected, or its Connect refused")
{
        static const struct rdma_request zeroes;

        prefer_reject_or_silence(rdma_open(t, .data = &zeroes, .receives = 8));
}

CASE("rdma/request/padded", MUST, RULES(RDMA_ACC_LENGTH),
     "A connect request with private data padded to 56 bytes, as InfiniBand pads it, is accepted")
{
        struct queue *q = rdma_open(t, .len = 56);

        require(t, caps(t)->pads || !is_iwarp(q), "with iWARP 56 bytes are a wrong length");
        expect_works(connected(q));
}

CASE("rdma/request/33-bytes", MUST, NO_RULE,
     "A connect request with private data of 33 bytes, as nobody pads it, is accepted or rejected")
{
        struct queue *q = rdma_open(t, .len = 33);

        if (expect_decision(q))
                expect_connected(q, send_connect(q));
}

/* --- RECFMT, QID */

CASE("rdma/request/recfmt-1", MUST, RULES(RDMA_REQ_RECFMT),
     "A connect request with RECFMT 1 is rejected")
{
        expect_reject(rdma_open(t, .recfmt = 1));
}

CASE("rdma/request/recfmt-max", MUST, RULES(RDMA_REQ_RECFMT),
     "A connect request with RECFMT FFFFh is rejected")
{
        expect_reject(rdma_open(t, .recfmt = 0xffff));
}

CASE("rdma/request/recfmt-high-byte", MUST, RULES(RDMA_REQ_RECFMT),
     "A connect request with RECFMT 0100h is rejected, as RECFMT has two bytes")
{
        expect_reject(rdma_open(t, .recfmt = 0x100));
}

CASE("rdma/request/recfmt-io", MUST, RULES(RDMA_REQ_RECFMT),
     "A connect request for an I/O queue with RECFMT 1 is rejected")
{
        struct queue *admin = admin_queue(t);

        expect_reject(rdma_join(admin, .recfmt = 1));
        expect_works(admin);
}

CASE("rdma/request/qid-65535", MUST, RULES(RDMA_REQ_QID),
     "A connect request with QID FFFFh is rejected, or its Connect refused")
{
        struct queue *admin = admin_queue(t);

        prefer_reject(rdma_join(admin, .qid = 0xffff));
        expect_works(admin);
}

CASE("rdma/request/qid-65534", MUST, NO_RULE,
     "A connect request with QID FFFEh is accepted or rejected, and the controller works on")
{
        struct queue *admin = admin_queue(t);

        expect_decision(rdma_join(admin, .qid = 0xfffe));
        expect_works(admin);
}

CASE("rdma/request/qid-differs", MUST, RULES(RDMA_REQ_SAME_QID),
     "Connect with QID 1 on a connection requested for the admin queue is refused")
{
        struct queue *admin = admin_queue(t), *q = rdma_open(t);

        expect_accept(q);
        expect_refusal(q, send_connect(q, .qid = 1, .cntlid = admin->cntlid));
}

CASE("rdma/request/qid-differs-io", MUST, RULES(RDMA_REQ_SAME_QID),
     "Connect with QID 2 on a connection requested for I/O queue 1 is refused")
{
        struct queue *q = rdma_join(admin_queue(t));

        expect_accept(q);
        expect_refusal(q, send_connect(q, .qid = 2));
        expect_works(q->admin);
}

CASE("rdma/request/qid-differs-admin", MUST, RULES(RDMA_REQ_SAME_QID),
     "Connect of an admin queue on a connection requested for an I/O queue is refused")
{
        struct queue *q = rdma_open(t, .qid = 1);

        expect_accept(q);
        expect_refusal(q, send_connect(q, .qid = 0));
}

/* --- HSQSIZE */

CASE("rdma/request/hsqsize-0", MUST, RULES(RDMA_REQ_HSQSIZE),
     "A connect request with HSQSIZE 0 (a queue of one entry) is rejected, or its Connect refused")
{
        prefer_reject(rdma_open(t, .hsqsize = 0));
}

CASE("rdma/request/hsqsize-0-io", MUST, RULES(RDMA_REQ_HSQSIZE),
     "A connect request for an I/O queue with HSQSIZE 0 is rejected, or its Connect refused")
{
        prefer_reject(rdma_join(admin_queue(t), .hsqsize = 0));
}

CASE("rdma/request/hsqsize-max", MUST, RULES(RDMA_REQ_HSQSIZE),
     "A connect request for an I/O queue of more entries than CAP.MQES allows is rejected, or its "
     "Connect refused")
{
        require(t, CAP_MQES(caps(t)->cap) < 0xffff, "CAP.MQES is FFFFh");
        prefer_reject(rdma_join(admin_queue(t), .hsqsize = CAP_MQES(caps(t)->cap) + 1));
}

CASE("rdma/request/hsqsize-ffffh", MUST, RULES(RDMA_REQ_HSQSIZE),
     "A connect request with HSQSIZE FFFFh is rejected, or its Connect refused")
{
        require(t, CAP_MQES(caps(t)->cap) < 0xffff, "CAP.MQES is FFFFh");
        prefer_reject(rdma_join(admin_queue(t), .hsqsize = 0xffff));
}

CASE("rdma/request/hsqsize-mqes", MUST, RULES(ACCEPTANCE),
     "An I/O queue can have as many entries as CAP.MQES allows")
{
        struct queue *q = io_queue(t, .sqsize = CAP_MQES(caps(t)->cap));

        expect_works(q);
}

CASE("rdma/request/hsqsize-1", MUST, RULES(ACCEPTANCE), "An I/O queue can have two entries")
{
        struct queue *q = io_queue(t, .sqsize = 1);

        for (int i = 0; i < 5; i++)
                expect_works(q);
}

CASE("rdma/request/sqsize-differs", MUST, RULES(RDMA_REQ_SQSIZE),
     "Connect whose SQSIZE differs from HSQSIZE of the connect request is refused")
{
        struct queue *q = rdma_open(t, .hsqsize = 31);

        expect_accept(q);
        expect_refusal(q, send_connect(q, .sqsize = 30));
}

CASE("rdma/request/sqsize-differs-io", MUST, RULES(RDMA_REQ_SQSIZE),
     "Connect of an I/O queue with an SQSIZE above HSQSIZE of its connect request is refused")
{
        struct queue *q = rdma_join(admin_queue(t), .hsqsize = 1);

        expect_accept(q);
        expect_refusal(q, send_connect(q, .sqsize = 3));
        expect_works(q->admin);
}

/* --- HRQSIZE, IRD, ORD */

CASE("rdma/request/hrqsize-0", MUST, RULES(RDMA_REQ_HRQSIZE),
     "A connect request with HRQSIZE 0 is rejected, or its Connect refused")
{
        prefer_reject_or_silence(rdma_open(t, .hrqsize = 0, .receives = 32));
}

CASE("rdma/request/hrqsize-0-io", MUST, RULES(RDMA_REQ_HRQSIZE),
     "A connect request for an I/O queue with HRQSIZE 0 is rejected, or its Connect refused")
{
        prefer_reject_or_silence(rdma_join(admin_queue(t), .hrqsize = 0, .receives = 32));
}

CASE("rdma/request/hrqsize-1", MUST, NO_RULE,
     "A connect request with HRQSIZE 1 (one receive buffer) is accepted and works, or is rejected")
{
        struct queue *q = rdma_open(t, .hrqsize = 1);

        if (!expect_decision(q))
                return;
        expect_connected(q, send_connect(q));
        expect_works(q);
}

CASE("rdma/request/hrqsize-max", MUST, NO_RULE,
     "A connect request with HRQSIZE FFFFh is accepted or rejected")
{
        struct queue *q = rdma_open(t, .hrqsize = 0xffff);

        if (expect_decision(q))
                expect_connected(q, send_connect(q));
}

CASE("rdma/request/ird-0", MUST, RULES(RDMA_REQ_IRD),
     "A connect request without responder resources is rejected, or its Connect refused, as no "
     "data could be fetched")
{
        prefer_reject(rdma_open(t, .reads_in = 0));
}

CASE("rdma/request/ird-0-io", MUST, RULES(RDMA_REQ_IRD),
     "A connect request for an I/O queue without responder resources is rejected, or its Connect "
     "refused")
{
        prefer_reject(rdma_join(admin_queue(t), .reads_in = 0));
}

CASE("rdma/request/ird-1", MUST, RULES(RDMA_READ_LIMIT),
     "A host that allows one RDMA READ at a time is accepted and works", .writes = true)
{
        struct queue *q = rdma_join(admin_queue(t), .reads_in = 1);
        uint8_t depth = expect_accept(q).reads_out;

        want(t, depth <= 1, "an initiator depth of at most 1", "%u", depth);
        grant_queue(q->admin);
        expect_connected(q, send_connect(q));
        exercise(q);
}

CASE("rdma/request/ord", MUST, NO_RULE,
     "A host that announces RDMA READs of its own is accepted and works")
{
        struct queue *q = rdma_open(t, .reads_out = 1);

        accepted_or_skip(q, "a host that wants to READ is rejected"); /* STS 8, Invalid ORD */
        expect_connected(q, send_connect(q));
        expect_works(q);
}

CASE("rdma/request/rnr-retry-0", MUST, NO_RULE,
     "A host that allows no RNR retries is accepted and works, as its receive buffers are posted")
{
        struct queue *q = rdma_join(admin_queue(t), .rnr_retry = 0);

        /* "or fail the QP creation" (R1.0 3.1.4) */
        accepted_or_skip(q, NO_RETRIES);
        grant_queue(q->admin);
        expect_connected(q, send_connect(q));
        for (int i = 0; i < 40; i++)
                expect_works(q);
}

/* --- CNTLID */

CASE("rdma/request/cntlid-admin", MUST, RULES(RDMA_REQ_CNTLID),
     "A connect request for an admin queue with a CNTLID is rejected, or its Connect refused")
{
        prefer_reject(rdma_open(t, .cntlid = 1));
}

CASE("rdma/request/cntlid-admin-ffffh", MUST, RULES(RDMA_REQ_CNTLID),
     "A connect request for an admin queue with CNTLID FFFFh, as in Connect, is rejected, or its "
     "Connect refused")
{
        prefer_reject(rdma_open(t, .cntlid = 0xffff));
}

CASE("rdma/request/cntlid-io-0", MUST, NO_RULE,
     "A connect request for an I/O queue with CNTLID 0, as older hosts send it, is accepted")
{
        expect_works(connected(rdma_join(admin_queue(t), .cntlid = 0)));
}

CASE("rdma/request/cntlid-io", MUST, NO_RULE,
     "A connect request for an I/O queue with its controller's CNTLID is accepted")
{
        struct queue *admin = admin_queue(t);

        expect_works(connected(rdma_join(admin, .cntlid = admin->cntlid)));
}

CASE("rdma/request/cntlid-io-wrong", MUST, NO_RULE,
     "A connect request for an I/O queue with a wrong CNTLID is answered, and the association "
     "lives on")
{
        struct queue *admin = admin_queue(t);

        expect_decision(rdma_join(admin, .cntlid = admin->cntlid ^ 0x4000));
        expect_works(admin);
}

/* --- reserved bytes, rejections */

CASE("rdma/request/reserved", SHOULD, NO_RULE,
     "A connect request with reserved bytes set is accepted")
{
        struct rdma_request r = private_data(t);

        memset(r.rsvd10, 0xff, sizeof(r.rsvd10));
        expect_works(connected(rdma_open(t, .data = &r)));
}

CASE("rdma/reject/format", MUST, RULES(RDMA_REJ_FORMAT, RDMA_REJ_STATUS),
     "The reject of an admin queue's connect request has RECFMT 0 and an assigned STS")
{
        struct queue *q = rdma_open(t, .recfmt = 2);

        want(t, !expect_decision(q), "a connect reject", "a connect accept");
        if (reject_status(q) == 0)
                lenient(t, "a connect reject with private data",
                        "a connect reject without private data");
}

CASE("rdma/reject/format-io", MUST, RULES(RDMA_REJ_FORMAT, RDMA_REJ_STATUS),
     "The reject of an I/O queue's connect request has RECFMT 0 and an assigned STS")
{
        struct queue *q = rdma_join(admin_queue(t), .recfmt = 2);

        want(t, !expect_decision(q), "a connect reject", "a connect accept");
        if (reject_status(q) == 0)
                lenient(t, "a connect reject with private data",
                        "a connect reject without private data");
}

CASE("rdma/request/several-errors", MUST, RULES(RDMA_REJ_STATUS),
     "A connect request in which every field is wrong is rejected")
{
        struct rdma_request r;

        memset(&r, 0xff, sizeof(r));
        want(t, !expect_decision(rdma_open(t, .data = &r, .reads_in = 0, .receives = 8)),
             "a connect reject", "a connect accept");
}

CASE("rdma/reject/then-accept", MUST, RULES(RDMA_REQ_RECFMT),
     "After a rejected connect request the same host can connect")
{
        expect_reject(rdma_open(t, .recfmt = 1));
        expect_works(admin_queue(t));
}

CASE("rdma/reject/storm", MUST, RULES(RDMA_REQ_RECFMT),
     "After 50 rejected connect requests a valid one is accepted", .storm = true)
{
        for (unsigned i = 0; !is_enough(t, i, 50); i++)
                expect_reject(rdma_open(t, .recfmt = 1));
        expect_works(admin_queue(t));
}

/* --- discovery entries */

static const struct disc_entry *entries(struct t *t, uint64_t *n)
{
        return whole_discovery_log(discovery_queue(t), 0, n)->entries;
}

CASE("rdma/discovery/tsas", MUST, RULES(RDMA_DISC_TSAS),
     "TSAS of RDMA discovery log entries has assigned QPTYPE, PRTYPE and CMS", .needs = DISCOVERY)
{
        uint64_t n;
        const struct disc_entry *e = entries(t, &n);

        for (uint64_t i = 0; i < n; i++) {
                if (e[i].trtype != TRTYPE_RDMA)
                        continue;
                want(t, e[i].tsas[0] == 1 || e[i].tsas[0] == 2, "QPTYPE 1 or 2", "%u",
                     e[i].tsas[0]);
                want(t, e[i].tsas[1] >= 1 && e[i].tsas[1] <= 5, "PRTYPE 1 to 5", "%u",
                     e[i].tsas[1]);
                want_eq(t, "CMS", e[i].tsas[2], 1);
        }
}

CASE("rdma/discovery/tsas-reserved", SHOULD, RULES(RDMA_DISC_TSAS_RSVD),
     "TSAS of RDMA discovery log entries is zero but for QPTYPE, PRTYPE, CMS and PKEY",
     .needs = DISCOVERY)
{
        static const uint8_t zeroes[246];
        uint64_t n;
        const struct disc_entry *e = entries(t, &n);

        for (uint64_t i = 0; i < n; i++) {
                if (e[i].trtype != TRTYPE_RDMA)
                        continue;
                want_bytes(t, "bytes 7:3 of TSAS", e[i].tsas + 3, zeroes, 5);
                want_bytes(t, "bytes 255:10 of TSAS", e[i].tsas + 10, zeroes, sizeof(zeroes));
        }
}

CASE("rdma/discovery/trsvcid", MUST, RULES(RDMA_DISC_TRSVCID),
     "TRSVCID of RDMA discovery log entries with an IP address is a decimal port number",
     .needs = DISCOVERY)
{
        uint64_t n;
        const struct disc_entry *e = entries(t, &n);

        for (uint64_t i = 0; i < n; i++) {
                struct rule_set found = { 0 };

                disc_entry_check(&e[i], &found);
                want(t, !rule_in(&found, RDMA_DISC_TRSVCID), "a decimal port number", "'%.32s'",
                     e[i].trsvcid);
        }
}
