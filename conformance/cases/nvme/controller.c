/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 3: controllers and queues as Fabrics has them; 4.3.2: SGLs. */
#include "conformance/words/case.h"

#include "conformance/engine/suite.h"
#include "pdu/nvme/wire/reservation.h"

/* --- properties of the controller */

CASE("fab/property/cap", MUST, RULES(FAB_CAP),
     "CAP.CQR is 1 and, on I/O controllers, CAP.DSTRD is 0 and CAP.MQES is at least 1")
{
        uint64_t cap = property_get(admin_queue(t), PROP_CAP);

        want(t, cap & CAP_CQR, "CAP.CQR 1", "0");
        if (!caps(t)->io)
                return;
        want_eq(t, "CAP.DSTRD", CAP_DSTRD(cap), 0);
        want(t, CAP_MQES(cap) >= 1, "CAP.MQES at least 1", "%u", CAP_MQES(cap));
}

CASE("fab/property/vs", MUST, RULES(FAB_VS),
     "VS equals VER of Identify Controller, and Fabrics were added in 1.2.1")
{
        struct queue *q = admin_queue(t);
        uint32_t vs = (uint32_t)property_get(q, PROP_VS);

        want_eq(t, "VER", le32_get(identify_ctrl(q)->ver), vs);
        if (vs < NVME_VERSION(1, 2, 1))
                advise(t, "VS 1.2.1 or later", "%Xh", vs);
}

CASE("fab/property/cc", MUST, RULES(FAB_CC_READBACK),
     "Property Get of CC returns the value last written")
{
        struct queue *q = admin_queue(t, .disabled = true);

        want_eq(t, "CC", property_get(q, PROP_CC), 0);
        set_slowly(q, PROP_CC, with_css(q, CC_RUN));
        want_eq(t, "CC", property_get(q, PROP_CC), with_css(q, CC_RUN));
}

CASE("fab/property/reserved", MUST, RULES(FAB_PROP_RSVD), "Reserved bits of CAP and CSTS read as 0")
{
        struct queue *q = admin_queue(t);

        require(t, caps(t)->vs < NVME_VERSION(2, 3, 0), "after NVMe 2.2 they may be fields");
        want_eq(t, "reserved bits of CAP", property_get(q, PROP_CAP) & CAP_RESERVED, 0);
        want_eq(t, "reserved bits of CSTS", property_get(q, PROP_CSTS) & CSTS_RESERVED, 0);
}

CASE("fab/property/crms", MUST, RULES(FAB_CRMS),
     "CAP.CRMS bit 0 is 1 on controllers of NVMe 2.0 and later")
{
        require(t, caps(t)->io, "the target has no I/O subsystem");
        require(t, caps(t)->vs >= NVME_VERSION(2, 0, 0), "CAP.CRMS was added in NVMe 2.0");
        want(t, property_get(admin_queue(t), PROP_CAP) & CAP_CRMS_CRWMS, "CAP.CRMS bit 0 1", "0");
}

CASE("fab/property/crto", MUST, RULES(FAB_CRTO),
     "A controller with CAP.CRMS set has the property CRTO")
{
        require(t, caps(t)->io, "the target has no I/O subsystem");
        require(t, CAP_CRMS(caps(t)->cap), "CAP.CRMS is 0");
        property_get(admin_queue(t), PROP_CRTO);
}

/* --- enabling, resetting, shutting down */

CASE("fab/ready/ready", MUST, RULES(FAB_RDY), "CSTS.RDY follows CC.EN both to 1 and to 0")
{
        struct queue *q = admin_queue(t, .disabled = true);

        want_eq(t, "CSTS.RDY", property_get(q, PROP_CSTS) & CSTS_RDY, 0);
        set_cc(q, CC_RUN, CSTS_RDY, CSTS_RDY);
        set_cc(q, CC_RUN & ~CC_EN, CSTS_RDY, 0);
}

CASE("fab/ready/ten-times", MUST, RULES(FAB_RDY),
     "A controller can be reset and enabled again ten times")
{
        struct queue *q = admin_queue(t);

        for (int i = 0; i < 10; i++) {
                set_cc(q, CC_RUN & ~CC_EN, CSTS_RDY, 0);
                set_cc(q, CC_RUN, CSTS_RDY, CSTS_RDY);
        }
        identify_ctrl(q);
}

CASE("fab/association/admin-lost", MUST, RULES(FAB_ASSOC_ENDS),
     "When its admin queue is lost, an association and its I/O queues end", .only = "tcp")
{
        struct queue *q = io_queue(t, .kato = LOST_KATO), *second = second_queue(q, 0);
        uint32_t kato = get_feature(q->admin, FEAT_KATO);

        hang_up(q->admin);
        expect_lost(q, kato);
        if (second)
                expect_lost(second, kato);
}

static void reset(struct queue *q)
{
        set_cc(q, CC_RUN & ~CC_EN, CSTS_RDY, 0);
        set_cc(q, CC_RUN, CSTS_RDY, CSTS_RDY);
}

/* The command is not executed: whether it is answered or the connection ends is printed nowhere. */
static void want_unexecuted(struct queue *q, uint16_t cid, const char *name, const char *expected)
{
        enum { ANSWER_MS = 500 };

        if (answers_within(q, cid, ANSWER_MS))
                want(q->t, expect_answer(q, cid).status != NVME_SUCCESS || q->over, expected,
                     "%s succeeded", name);
}

static void want_idle(struct queue *q, const char *expected)
{
        want_unexecuted(q, send_cmd(q, .opc = NVME_FLUSH, .nsid = caps(q->t)->nsid), "Flush",
                        expected);
}

/* A reset has deleted it. */
static void want_gone(struct queue *q)
{
        want_idle(q, "an I/O queue that has ended");
}

/* Where queues are not deleted one by one, the end of a connection may be that of the association (3.3.2.4): it
 * is left open then. */
CASE("fab/reset/controller", MUST, RULES(FAB_RESET_CLEARS),
     "A Controller Reset ends the I/O queues, and the admin queue still accepts Fabrics commands")
{
        bool apart = le16_get(caps(t)->id.ofcs) & OFCS_DISCONNECT;
        struct queue *q = io_queue_of(admin_queue(t, .cattr = apart ? CATTR_INDIVIDUAL_DELETE : 0));
        struct queue *second = second_queue(q, !apart);

        set_cc(q->admin, CC_RUN & ~CC_EN, CSTS_RDY, 0);
        expect_works(q->admin);
        want_gone(q);
        if (second)
                want_gone(second);
        if (apart) {
                hang_up(q);
                pause_ms(t, 100);
        }
        set_cc(q->admin, CC_RUN, CSTS_RDY, CSTS_RDY);
        q->admin->queues_granted = 0; /* as all that was set before */
        expect_works(io_queue_of(q->admin, .qid = apart ? 1 : second ? 3 : 2));
}

CASE("fab/reset/queues-gone", MUST, RULES(FAB_RESET_CLEARS),
     "An I/O queue that a Controller Reset ended stays ended when the controller is enabled again")
{
        struct queue *q = io_queue(t), *second = second_queue(q, 0);

        reset(q->admin);
        want_gone(q);
        if (second)
                want_gone(second);
        expect_works(q->admin);
}

CASE("fab/reset/aer-vanishes", MUST, RULES(FAB_RESET_CLEARS),
     "A Controller Reset drops an Asynchronous Event Request without a response")
{
        struct queue *q = admin_queue(t);
        uint16_t cid;

        disable_events(q);
        cid = send_cmd(q, .opc = NVME_AER);
        reset(q);
        expect_held(q, 50, &cid, 1);
}

CASE("fab/reset/aer-room", MUST, RULES(AER_HELD),
     "After a Controller Reset as many Asynchronous Event Requests are accepted as before it",
     .related = "nvmet keeps the requests from before the reset")
{
        struct queue *q = admin_queue(t);
        unsigned most = identify_ctrl(q)->aerl + 1u;
        uint16_t old[16];

        require(t, most <= 16, "AERL allows %u", most);
        disable_events(q);
        for (unsigned i = 0; i < most; i++)
                old[i] = send_cmd(q, .opc = NVME_AER);
        reset(q);
        disable_events(q);
        for (unsigned i = 0; i < most; i++)
                send_cmd(q, .opc = NVME_AER);
        expect_held(q, 50, old, most);
}

CASE("fab/reset/features", MUST, RULES(FEAT_RESET),
     "A Controller Reset restores the initial value of Asynchronous Event Configuration")
{
        struct queue *q = admin_queue(t);
        uint32_t first = get_feature(q, FEAT_AEC);

        require_feature(q, finish(q, send_set_feature(q, FEAT_AEC, first ^ 1)),
                        "Asynchronous Event Configuration cannot be changed");
        want_eq(t, "Asynchronous Event Configuration", get_feature(q, FEAT_AEC), first ^ 1);
        reset(q);
        want_eq(t, "Asynchronous Event Configuration", get_feature(q, FEAT_AEC), first);
}

/* One that is still at it has broken nothing. */
static void shut_down(struct queue *q, uint32_t shn)
{
        uint32_t shst = begin_shutdown(q, shn);

        if (q->over)
                return;
        if (shst == CSTS_SHST(CSTS_SHST_OCCURS))
                advise(q->t, "CSTS.SHST 10b", "CSTS.SHST 01b, in progress, for RTD3E or 5 s");
        else
                want_eq(q->t, "CSTS.SHST", shst, CSTS_SHST(CSTS_SHST_COMPLETE));
}

CASE("fab/shutdown/normal", MUST, RULES(FAB_SHST), "After a normal shutdown CSTS.SHST is 10b")
{
        struct queue *q = admin_queue(t);

        shut_down(q, CC_SHN_NORMAL);
}

CASE("fab/shutdown/abrupt", MUST, RULES(FAB_SHST), "After an abrupt shutdown CSTS.SHST is 10b")
{
        struct queue *q = admin_queue(t);

        shut_down(q, CC_SHN_ABRUPT);
}

CASE("fab/shutdown/alone", MUST, NO_RULE,
     "Shutdown and Controller Reset of one controller do not affect another controller of the same "
     "host")
{
        struct queue *other = io_queue(t), *q = admin_queue(t);

        shut_down(q, CC_SHN_NORMAL);
        expect_works(other);
        set_cc(q, 0, CSTS_RDY, 0);
        expect_works(other);
        identify_ctrl(other->admin);
        want_eq(t, "RDY and SHST of the other controller",
                property_get(other->admin, PROP_CSTS) & (CSTS_RDY | 3 << 2), CSTS_RDY);
}

CASE("fab/shutdown/after", MUST, RULES(FAB_SHUTDOWN),
     "After shutdown, commands other than Fabrics commands are refused")
{
        struct queue *q = admin_queue(t);

        shut_down(q, CC_SHN_NORMAL);
        expect_refusal(q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL, .bytes = 4096));
        expect_works(q);
}

CASE("fab/shutdown/admin-queue", MUST, RULES(FAB_SHUTDOWN_ADMIN),
     "After shutdown an admin queue executes no Identify, Get Log Page and Get Features")
{
        static const char expected[] = "an error status, no answer or the end of the connection";
        struct queue *q = admin_queue(t);

        shut_down(q, CC_SHN_NORMAL);
        want_unexecuted(q,
                        send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL, .bytes = IDENTIFY_LEN),
                        "Identify", expected);
        want_unexecuted(q, send_get_log(q, LOG_ERROR, sizeof(struct log_error), 0), "Get Log Page",
                        expected);
        want_unexecuted(q, send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_KATO),
                        "Get Features", expected);
        expect_works(q);
}

CASE("fab/shutdown/io-queue", MUST, RULES(FAB_SHUTDOWN_IO),
     "After shutdown an I/O queue executes no Flush")
{
        struct queue *q = io_queue(t);

        require(t, caps(t)->nsid, "no namespace for Flush");
        shut_down(q->admin, CC_SHN_NORMAL);
        want_idle(q, "an error status, no answer or the end of the connection");
        expect_works(q->admin);
}

CASE("fab/shutdown/restart", MUST, RULES(FAB_SHST),
     "After shutdown and a Controller Reset CSTS.SHST is 00b, and the controller can be enabled "
     "again")
{
        enum { SETTLE_MS = 2000 };
        struct queue *q = admin_queue(t);
        bool resets;

        shut_down(q, CC_SHN_NORMAL);
        /* One that goes on may still do so, one of the subsystem stays, and where RDY is 0 already nothing is reset:
         * CC.EN goes from 1 to 0 no more (3.1.4.6). */
        resets = (property_get(q, PROP_CSTS) & (CSTS_ST | 3 << 2 | CSTS_RDY)) ==
                 (CSTS_SHST_COMPLETE | CSTS_RDY);
        set_cc(q, 0, CSTS_RDY, 0);
        if (resets)
                want_eq(t, "CSTS.SHST after the Controller Reset",
                        shst_after(q, CSTS_SHST(CSTS_SHST_COMPLETE), SETTLE_MS), 0);
        set_cc(q, CC_RUN, CSTS_RDY | 3 << 2, CSTS_RDY);
        identify_ctrl(q);
}

/* --- which command when */

CASE("fab/connect/first", MUST, RULES(FAB_FIRST_CONNECT), "Property Get before Connect is refused")
{
        struct queue *q = bare_queue(t);

        expect_refusal(q, send_property_get(q, PROP_VS, PROP_ATTRIB_4));
}

CASE("fab/connect/first-io", MUST, RULES(FAB_FIRST_CONNECT), "A Read before Connect is refused")
{
        struct queue *q = bare_queue(t);

        expect_refusal(q, send_read(q));
}

enum { ABSENT = 0xfffffff0 }; /* an NSID that nobody has: what is not refused does no harm */

CASE("fab/connect/first-write", MUST, RULES(FAB_FIRST_CONNECT),
     "A command with in-capsule data before Connect is refused")
{
        struct queue *q = bare_queue(t);

        expect_refusal(
            q, send_cmd(q, .opc = NVME_WRITE, .nsid = ABSENT, .bytes = 512, .in_capsule = true));
}

CASE("fab/ready/enabled", MUST, RULES(FAB_ENABLED),
     "While CC.EN is 0, Identify is refused and Property Get is not")
{
        struct queue *q = admin_queue(t, .disabled = true);

        expect_refusal(q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL, .bytes = 4096));
        expect_works(q);
}

CASE("fab/ready/reset", MUST, RULES(FAB_ENABLED),
     "After a Controller Reset, while CC.EN is 0, Identify is refused and Property Get is not")
{
        struct queue *q = admin_queue(t);

        set_cc(q, CC_RUN & ~CC_EN, CSTS_RDY, 0);
        expect_works(q);
        expect_refusal(q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL, .bytes = 4096));
        expect_works(q);
}

CASE("fab/command/create-queue", MUST, RULES(FAB_OPCODE),
     "Create and Delete I/O Queue are refused, as they do not exist over Fabrics")
{
        static const uint8_t opcodes[] = { NVME_CREATE_SQ, NVME_CREATE_CQ, NVME_DELETE_SQ,
                                           NVME_DELETE_CQ };
        struct queue *q = admin_queue(t);

        for (int i = 0; i < 4; i++)
                expect_refusal(q, send_cmd(q, .opc = opcodes[i], .cdw10 = 1, .cdw11 = 1));
        expect_works(q);
}

CASE("fab/command/admin-opcode", MUST, RULES(FAB_OPCODE), "An unassigned admin opcode is refused")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_cmd(q, .opc = 0x6c));
        expect_works(q);
}

CASE("fab/command/io-opcode", MUST, RULES(FAB_OPCODE), "An unassigned I/O opcode is refused")
{
        struct queue *q = io_queue(t);

        expect_refusal(q, send_cmd(q, .opc = 0x70, .nsid = caps(t)->nsid));
        expect_works(q);
}

/* What has no namespace breaks one rule or the other, as NN says. */
static void expect_no_namespace(struct queue *q, uint32_t nsid, uint16_t cid)
{
        about(q->t, nsid > 0 && nsid <= le32_get(caps(q->t)->id.nn) ? FAB_NSID_INACTIVE : FAB_NSID);
        expect_refusal(q, cid);
}

CASE(
    "fab/nsid/invalid", MUST, RULES(FAB_NSID, FAB_NSID_INACTIVE),
    "A Read from namespace 0 or FFFFFFFEh, or a Flush of FFFFFFFEh, fails and affects nothing else")
{
        enum { LAST = 0xfffffffe };
        struct queue *q = io_queue(t);

        expect_no_namespace(q, 0,
                            send_cmd(q, .opc = NVME_READ, .nsid = 0, .bytes = caps(t)->block));
        expect_no_namespace(q, LAST, send_read(q, .nsid = LAST));
        expect_no_namespace(q, LAST, send_cmd(q, .opc = NVME_FLUSH, .nsid = LAST));
        expect_works(q);
}

CASE("fab/nsid/broadcast", MUST, RULES(FAB_NSID_ALL),
     "Read, Compare and Verify of namespace FFFFFFFFh fail with Invalid Field in Command")
{
        struct queue *q = io_queue(t);
        uint16_t oncs = le16_get(caps(t)->id.oncs);
        uint64_t lba = own_lba(t);

        expect_refusal(q, send_read(q, .nsid = NSID_ALL));
        if (oncs & ONCS_COMPARE)
                expect_refusal(q, send_compare(q, .nsid = NSID_ALL));
        if (oncs & ONCS_VERIFY)
                expect_refusal(q, send_cmd(q, .opc = NVME_VERIFY, .nsid = NSID_ALL,
                                           .cdw10 = (uint32_t)lba, .cdw11 = (uint32_t)(lba >> 32)));
        expect_works(q);
}

/* What figure 92 of Base 2.2 demands, revisions before it need not have. */
static void expect_nsid_refused(struct queue *q, uint16_t cid)
{
        if (caps(q->t)->vs < NVME_VERSION(2, 2, 0))
                prefer_refusal(q, cid);
        else
                expect_refusal(q, cid);
}

CASE("fab/nsid/unused", MUST, RULES(FAB_NSID_UNUSED),
     "Keep Alive and Abort with an NSID, which they do not use, fail with Invalid Field in Command")
{
        struct queue *q = admin_queue(t);

        expect_nsid_refused(q, send_cmd(q, .opc = NVME_KEEP_ALIVE, .nsid = 1));
        expect_nsid_refused(q, send_cmd(q, .opc = NVME_ABORT, .nsid = 1, .cdw10 = 0xfff0u << 16));
        expect_works(q);
}

static bool is_active(const uint8_t *list, uint32_t nsid)
{
        for (size_t i = 0; i < IDENTIFY_LEN; i += 4)
                if (le_get(list + i, 4) == nsid)
                        return true;
        return false;
}

CASE("fab/nsid/inactive", MUST, RULES(FAB_NSID_INACTIVE, FAB_NSID),
     "A Read from an NSID without a namespace (the next one, or ours plus 256) is refused")
{
        struct queue *q = io_queue(t);
        uint32_t nsid[] = { caps(t)->nsid + 1, caps(t)->nsid + 0x100 };
        const uint8_t *list; /* from ours on: it may have more than a list has room for */

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        list = identify(q->admin, CNS_NS_LIST, caps(t)->nsid - 1);
        for (int i = 0; i < 2; i++)
                if (nsid[i] > caps(t)->nsid && nsid[i] != NSID_ALL && !is_active(list, nsid[i]))
                        expect_no_namespace(q, nsid[i], send_read(q, .nsid = nsid[i]));
        expect_works(q);
}

CASE("fab/nsid/write", MUST, RULES(FAB_NSID, FAB_NSID_INACTIVE),
     "A Write to a namespace that does not exist is refused, with its data in the capsule or not",
     .writes = true)
{
        struct queue *q = io_queue(t);

        expect_no_namespace(q, ABSENT, send_write(q, .nsid = ABSENT, .bytes = r2t_bytes(t)));
        if (caps(t)->in_capsule >= caps(t)->block)
                expect_no_namespace(q, ABSENT, send_write(q, .nsid = ABSENT, .in_capsule = true));
        expect_works(q);
}

/* An optional I/O command. */
struct optional {
        uint8_t opc;
        uint16_t oncs;
        uint64_t cdw10; /* ... and 11 */
        const void *data;
        uint32_t bytes;
};

static uint16_t send_optional(struct queue *q, uint32_t nsid, const struct optional *c)
{
        return send_cmd(q, .opc = c->opc, .nsid = nsid, .cdw10 = (uint32_t)c->cdw10,
                        .cdw11 = (uint32_t)(c->cdw10 >> 32), .data = c->data, .bytes = c->bytes,
                        .as_is = c->opc == NVME_COPY,
                        .in_capsule = c->data && caps(q->t)->in_capsule >= c->bytes);
}

static bool has_optional(const struct t *t, const struct optional *c)
{
        return le16_get(caps(t)->id.oncs) & c->oncs;
}

/* Dwords 10 and 11 of a Reservation Report of 64 bytes. */
#define REPORTED ((uint64_t)REPORT_EXTENDED << 32 | (REPORT_HEADER / 4 - 1))

CASE("fab/nsid/optional-commands", MUST, RULES(FAB_NSID, FAB_NSID_INACTIVE),
     "Each optional I/O command that ONCS names is refused for a namespace that does not exist",
     .writes = true)
{
        static const uint8_t nothing[sizeof(struct copy_range)];
        uint64_t lba = own_lba(t);
        const struct optional commands[] = {
                { NVME_COMPARE, ONCS_COMPARE, lba, NULL, caps(t)->block },
                { NVME_VERIFY, ONCS_VERIFY, lba, NULL, 0 },
                { NVME_WRITE_ZEROES, ONCS_WRITE_ZEROES, lba, NULL, 0 },
                { NVME_WRITE_UNCORRECTABLE, ONCS_WRITE_UNCORRECTABLE, lba, NULL, 0 },
                { NVME_DSM, ONCS_DSM, 0, nothing, sizeof(struct dsm_range) },
                { NVME_COPY, ONCS_COPY, 0, nothing, sizeof(struct copy_range) },
                { NVME_RESERVATION_REGISTER, ONCS_RESERVATIONS, 0, nothing, 16 },
                { NVME_RESERVATION_ACQUIRE, ONCS_RESERVATIONS, 0, nothing, 16 },
                { NVME_RESERVATION_RELEASE, ONCS_RESERVATIONS, 0, nothing, 8 },
                { NVME_RESERVATION_REPORT, ONCS_RESERVATIONS, REPORTED, NULL, REPORT_HEADER },
        };
        struct queue *q = io_queue(t);
        unsigned n = 0;

        for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
                if (!has_optional(t, &commands[i]))
                        continue;
                expect_no_namespace(q, ABSENT, send_optional(q, ABSENT, &commands[i]));
                n++;
        }
        require(t, n > 0, "ONCS names none of them");
        expect_works(q);
}

/* Each changes nothing where it is executed, of whatever namespace. */
CASE("fab/nsid/broadcast-optional", MUST, RULES(FAB_NSID_ALL),
     "Dataset Management, Copy and Reservation Report of namespace FFFFFFFFh fail with Invalid "
     "Field in Command",
     .writes = true)
{
        struct copy_range itself = { .slba = le64(own_lba(t)) };
        struct dsm_range unhinted = { .slba = le64(own_lba(t)), .blocks = le32(1) };
        const struct optional commands[] = {
                { NVME_DSM, ONCS_DSM, 0, &unhinted, sizeof(unhinted) },
                { NVME_COPY, ONCS_COPY, own_lba(t), &itself, sizeof(itself) },
                { NVME_RESERVATION_REPORT, ONCS_RESERVATIONS, REPORTED, NULL, REPORT_HEADER },
        };
        struct queue *q = io_queue(t);
        unsigned n = 0;

        for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
                if (!has_optional(t, &commands[i]))
                        continue;
                expect_refusal(q, send_optional(q, NSID_ALL, &commands[i]));
                n++;
        }
        require(t, n > 0, "ONCS names none of them");
        expect_works(q);
}

/* --- queues */

/* A Read may end by SUCCESS on its data, which tells no SQHD. */
static struct reply flush(struct queue *q)
{
        require(q->t, caps(q->t)->nsid, "no namespace for Flush");
        return expect_success(q, send_cmd(q, .opc = NVME_FLUSH, .nsid = caps(q->t)->nsid));
}

CASE("fab/queue/sqhd", MUST, RULES(FAB_SQHD),
     "SQHD advances by one for each command, modulo the queue's size")
{
        struct queue *q = io_queue(t, .sqsize = 3);
        uint16_t sqhd = flush(q).sqhd, entries = q->sqsize + 1;

        for (int i = 0; i < 10; i++) {
                uint16_t next = flush(q).sqhd;

                want_eq(t, "SQHD", next, (sqhd + 1u) % entries);
                sqhd = next;
        }
}

CASE("fab/queue/sqhd-overtaking", MUST, RULES(FAB_SQHD),
     "SQHD counts each command that is answered, also when short ones overtake long Reads")
{
        struct queue *q = io_queue(t);
        unsigned n = together(q, 20);
        uint16_t cid[20];

        for (unsigned i = 0; i < n; i++)
                cid[i] = i % 5 == 0 ? send_read(q, .bytes = large_bytes(t))
                                    : send_cmd(q, .opc = NVME_FLUSH, .nsid = caps(t)->nsid);
        for (unsigned i = 0; i < n; i++)
                expect_success(q, cid[i]);
}

/* 3.3.2.5 and 3.3.2.6 speak of a controller that detects it: one with room for more never sees too many. */
static void overrun(struct queue *q)
{
        enum { BY_FAR = 300 }; /* of a queue of 32: some targets have room for twice that */

        for (int i = 0; i < BY_FAR; i++)
                send_write(q, .bytes = r2t_bytes(q->t));
        expect_close(q);
        expect_end(q->admin, 0);
}

CASE("fab/queue/overrun", INFO, RULES(FAB_OVERRUN),
     "A host that overruns its queue loses its association", .writes = true, .slow = true,
     .unmoved = true, .only = "tcp")
{
        overrun(io_queue(t));
}

CASE("fab/queue/outstanding", INFO, RULES(FAB_OUTSTANDING),
     "A host without SQ flow control that has too many commands outstanding loses its association",
     .writes = true, .slow = true, .unmoved = true, .only = "tcp")
{
        struct queue *q = io_queue(t, .cattr = CATTR_DISABLE_SQFC);

        require(t, q->sqfc_off, "the target does not disable SQ flow control");
        overrun(q);
}

CASE("fab/queue/full", MUST, RULES(FAB_ANSWERED),
     "A queue of n entries accepts n - 1 commands at once", .writes = true)
{
        struct queue *q = io_queue(t, .sqsize = 7);
        uint16_t cid[7];
        unsigned count = q->sqsize;

        for (unsigned i = 0; i < count; i++) /* over TCP none ends before its R2T is served */
                cid[i] = send_write(q, .bytes = r2t_bytes(t));
        for (unsigned i = 0; i < count; i++)
                succeed(q, cid[i]);
        expect_works(q);
}

/* Flush, which is answered while n Writes wait for their data, or the case is skipped: MAXCMD allows that many
 * commands (3.3.2.5), and says nothing of how many are worked at. */
static struct reply overtaking_flush(struct queue *q, const uint16_t *writes, unsigned n)
{
        enum { FLUSH_MS = 1000 };
        uint16_t cid = send_cmd(q, .opc = NVME_FLUSH, .nsid = caps(q->t)->nsid);

        if (answers_within(q, cid, FLUSH_MS))
                return expect_success(q, cid);
        for (unsigned i = 0; i < n; i++)
                succeed(q, writes[i]);
        expect_success(q, cid);
        skip(q->t, "commands wait for the data of those before them");
}

CASE("fab/queue/room", MUST, RULES(FAB_ANSWERED),
     "As many commands are accepted as SQHD shows free entries, even while others wait for data",
     .writes = true, .only = "tcp")
{
        enum { ENTRIES = 8 };
        struct queue *q = io_queue(t, .sqsize = ENTRIES - 1);
        uint16_t cid[2 * ENTRIES], tail, head, entries = q->sqsize + 1;
        unsigned most = together(q, ENTRIES - 1), n = 0, taken;

        require(t, most > 1, ONE_AT_A_TIME);
        tail = flush(q).sqhd; /* after Connect, and authentication where it is asked for */
        while (n < most - 1)
                cid[n++] = send_write(q, .bytes = r2t_bytes(t));
        head = overtaking_flush(q, cid, n).sqhd;
        taken = (tail + n + 1u + entries - head) % entries; /* with the Flush */
        for (; taken < q->sqsize; taken++)
                cid[n++] = send_write(q, .bytes = r2t_bytes(t));
        for (unsigned i = 0; i < n; i++)
                succeed(q, cid[i]);
        expect_works(q);
}

CASE("fab/queue/answered", MUST, RULES(FAB_ANSWERED),
     "Reads and Flushes in parallel are all answered, each exactly once")
{
        struct queue *q = io_queue(t);
        unsigned n = together(q, 20);
        uint16_t cid[20];

        for (unsigned i = 0; i < n; i++)
                cid[i] =
                    i % 2 ? send_read(q) : send_cmd(q, .opc = NVME_FLUSH, .nsid = caps(t)->nsid);
        for (unsigned i = 0; i < n; i++)
                expect_success(q, cid[i]);
        expect_silence(q, 30);
}

CASE("fab/queue/large-reads", MUST, RULES(FAB_ANSWERED),
     "64 large Reads that are sent without waiting are all answered")
{
        enum { READS = 64 };
        struct queue *q = io_queue(t, .sqsize = READS);
        unsigned n = together(q, READS);
        uint16_t cid[READS];

        for (unsigned i = 0; i < n; i++)
                cid[i] = send_read(q, .bytes = large_bytes(t));
        for (unsigned i = 0; i < n; i++)
                expect_success(q, cid[i]);
        expect_works(q);
}

CASE("fab/queue/cid-bits", MUST, RULES(FAB_ANSWERED),
     "Commands whose CIDs differ in any one of the 16 bits are told apart")
{
        static const uint16_t cid[] = { 0x0000, 0x0040, 0x0100, 0x0140, 0x1000, 0x7fff, 0x8000 };
        struct queue *q = io_queue(t);
        unsigned n = together(q, sizeof(cid) / sizeof(cid[0]));

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        for (unsigned i = 0; i < n; i++)
                send_cmd(q, .opc = NVME_READ, .cid = cid[i], .nsid = caps(t)->nsid,
                         .bytes = caps(t)->block);
        for (unsigned i = 0; i < n; i++)
                expect_success(q, cid[i]);
        expect_silence(q, 30);
}

CASE("fab/queue/dw0-zero", SHOULD, RULES(FAB_CQE_ZERO),
     "Dwords 0 and 1 of responses that define no result are zero", .writes = true,
     .related = "CVE-2024-41079")
{
        struct queue *q = io_queue(t);

        exercise(q);
        exercise(q->admin);
        succeed(q->admin, send_cmd(q->admin, .opc = NVME_KEEP_ALIVE));
}

CASE("fab/queue/success-bits", SHOULD, RULES(FAB_SUCCESS_BITS),
     "DNR and CRD of completions that report success are 0")
{
        struct queue *q = io_queue(t);

        exercise(q);
        exercise(q->admin);
}

/* --- SGLs */

CASE("fab/sgl/short-admin", MUST, RULES(FAB_SGL_SHORT),
     "Identify with an SGL of 2048 bytes is refused")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL, .bytes = 2048));
        expect_works(q);
}

CASE("fab/sgl/short-read", MUST, RULES(FAB_SGL_SHORT),
     "A Read with an SGL shorter than its blocks is refused")
{
        struct queue *q = io_queue(t);

        expect_refusal(q, send_read(q, .bytes = KIB(8), .sgl_len = KIB(4)));
        expect_works(q);
}

CASE("fab/sgl/short-write", MUST, RULES(FAB_SGL_SHORT),
     "A Write with an SGL shorter than its blocks is refused", .writes = true)
{
        struct queue *q = io_queue(t);

        expect_refusal(
            q, send_write(q, .bytes = r2t_bytes(t), .sgl_len = r2t_bytes(t) - caps(t)->block));
        expect_works(q);
}

CASE("fab/sgl/short-capsule", MUST, RULES(FAB_SGL_SHORT),
     "A Write of two blocks with in-capsule data for only one is refused", .writes = true)
{
        struct queue *q = io_queue(t);
        uint64_t lba = own_lba(t);

        require(t, caps(t)->nsid && caps(t)->in_capsule >= caps(t)->block,
                "the capsule has no room for data");
        expect_refusal(q, send_cmd(q, .opc = NVME_WRITE, .nsid = caps(t)->nsid,
                                   .cdw10 = (uint32_t)lba, .cdw11 = (uint32_t)(lba >> 32),
                                   .cdw12 = 1, .bytes = caps(t)->block, .in_capsule = true));
        expect_works(q);
}

/* What the SGL describes of their data is enough for each to succeed. */
CASE("fab/sgl/short-commands", MUST, RULES(FAB_SGL_SHORT),
     "Get Log Page and three optional commands are refused with an SGL shorter than their data",
     .writes = true)
{
        enum { PAGE = 512, STAMP = 8, RANGE = 16 };
        static const uint8_t stamp[STAMP] = { 0, 0x68, 0xe5, 0xcf }; /* whole in the first half */
        struct queue *q = io_queue(t);
        uint16_t oncs = le16_get(caps(t)->id.oncs);
        uint32_t bytes = r2t_bytes(t);
        uint8_t range[RANGE] = { 0 };

        le_put(range + 8, 8, own_lba(t));
        expect_refusal(q->admin, send_cmd(q->admin, .opc = NVME_GET_LOG_PAGE, .nsid = NSID_ALL,
                                          .cdw10 = (PAGE / 4 - 1) << 16 | LOG_SMART, .bytes = PAGE,
                                          .sgl_len = PAGE / 2));
        if (oncs & ONCS_TIMESTAMP)
                expect_refusal(q->admin, send_half(q->admin, NVME_SET_FEATURES, 0, FEAT_TIMESTAMP,
                                                   stamp, STAMP));
        if (oncs &
            ONCS_DSM) /* no attribute is set: it changes nothing, and nobody needs the data */
                (caps(t)->vs >= NVME_VERSION(2, 1, 0) ? expect_refusal : prefer_refusal)(
                    q, send_half(q, NVME_DSM, caps(t)->nsid, 0, range, RANGE));
        if (oncs & ONCS_COMPARE) {
                const uint8_t *data = pattern(t, bytes);

                write_blocks(q, 0, bytes, data);
                expect_refusal(q, send_compare(q, .bytes = bytes, .data = data,
                                               .sgl_len = bytes - caps(t)->block));
        }
        expect_works(q->admin);
        expect_works(q);
}

CASE("fab/sgl/long-admin", SHOULD, RULES(FAB_SGL_LONG),
     "Identify with an SGL of 8192 bytes succeeds")
{
        struct queue *q = admin_queue(t);

        identify_ctrl(q); /* SGLS stands there, for who reads a capture */
        succeed_long(q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL, .bytes = 4096,
                                 .sgl_len = 8192));
}

CASE("fab/sgl/long-read", SHOULD, RULES(FAB_SGL_LONG),
     "A Read with an SGL longer than its blocks succeeds")
{
        struct queue *q = io_queue(t);

        succeed_long(q, send_read(q, .bytes = KIB(8), .sgl_len = KIB(16)));
}

CASE("fab/sgl/null", SHOULD, RULES(FAB_SGL_NULL),
     "Flush, which has no data, succeeds with an SGL of zeroes")
{
        struct queue *q = io_queue(t);

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        succeed(q, send_cmd(q, .opc = NVME_FLUSH, .nsid = caps(t)->nsid));
}

CASE("fab/sgl/huge", MUST, NO_RULE,
     "A Write whose SGL claims FFFFFFFFh bytes is refused or completes, but does not hang",
     .writes = true, .only = "tcp", .related = "nvmet 4a3f00262a04, 737a3b535247")
{
        struct queue *q = io_queue(t);

        mutate(q, "sqe.sgl.len", 0xffffffff);
        expect_answer(q, send_write(q));
}
