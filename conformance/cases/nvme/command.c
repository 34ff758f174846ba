/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 6 (FCTYPE), 6.4 (Disconnect), 6.5 and 6.6 (properties). */
#include <string.h>

#include "conformance/words/case.h"

#define NEEDS_DISCONNECT                                                                           \
        require(t, le16_get(caps(t)->id.ofcs) & OFCS_DISCONNECT, "Disconnect is not supported")

static struct queue *deletable(struct t *t)
{
        return io_queue_of(admin_queue(t, .cattr = CATTR_INDIVIDUAL_DELETE));
}

CASE("fab/command/fctype", MUST, RULES(FAB_FCTYPE, FAB_REFUSED),
     "A reserved FCTYPE on the admin queue is refused")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_cmd(q, .opc = NVME_FABRICS, .fctype = 0x20));
        expect_works(q);
}

CASE("fab/command/fctype-io", MUST, RULES(FAB_FCTYPE),
     "A reserved FCTYPE on an I/O queue is refused")
{
        struct queue *q = io_queue(t);

        expect_refusal(q, send_cmd(q, .opc = NVME_FABRICS, .fctype = 0x40));
        expect_works(q);
}

CASE("fab/command/fuse", SHOULD, RULES(FAB_FUSE),
     "A Fabrics command that claims to be half of a fused operation is refused")
{
        struct queue *q = admin_queue(t);

        mutate(q, "sqe.flags", SQE_FUSE_FIRST);
        expect_refusal(q, send_property_get(q, PROP_VS, PROP_ATTRIB_4));
        expect_works(q);
}

/* --- Disconnect */

CASE("fab/disconnect/admin", MUST, RULES(FAB_DISCONNECT_ADMIN),
     "Disconnect on the admin queue is refused, and the association continues")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_disconnect(q, 0));
        expect_works(q);
}

CASE("fab/disconnect/recfmt", MUST, RULES(FAB_DISCONNECT_RECFMT),
     "Disconnect with RECFMT 1 is refused")
{
        struct queue *q = deletable(t);

        expect_refusal(q, send_disconnect(q, 1));
}

/* 6.4 leaves open what becomes of commands that follow Disconnect; these come before it. They are completed or aborted
 * (3.3.2.4): who completes them needs their data first. */
CASE("fab/disconnect/last-response", MUST, RULES(FAB_DISCONNECT_LAST),
     "A Write that waits for its data when Disconnect is answered gets no response after that",
     .writes = true)
{
        enum { DISCONNECT_MS = 1000 };
        struct queue *q = deletable(t);
        bool rdma = t_is_rdma(t), waits;
        struct r2t r = { 0 };
        uint16_t cid;

        NEEDS_DISCONNECT;
        require(t, together(q, 2) == 2, ONE_AT_A_TIME);
        if (rdma)
                send_write(q, .bytes = large_bytes(t));
        else
                r = open_r2t(q);
        cid = send_disconnect(q, 0);
        waits = !rdma && !answers_within(q, cid, DISCONNECT_MS);
        if (waits && !answered(q, r.cid))
                serve(q, r);
        expect_disconnected(q, cid);
        if (!rdma && !waits && !answered(q, r.cid))
                send_h2c(q, r);
        pause_ms(t, 50);
        expect_answer(q->admin, send_property_get(q->admin, PROP_VS, PROP_ATTRIB_4));
}

CASE("fab/disconnect/again", MUST, RULES(FAB_ANSWERED),
     "After Disconnect the same QID can be connected again in the same association")
{
        struct queue *q = deletable(t);

        NEEDS_DISCONNECT;
        disconnect(q);
        hang_up(q);
        pause_ms(t, 50);
        expect_works(io_queue_of(q->admin));
        expect_works(q->admin);
}

/* --- properties */

CASE("fab/property/supported", MUST, RULES(FAB_ANSWERED), "CAP, VS, CC and CSTS can be read")
{
        static const uint32_t offsets[] = { PROP_CAP, PROP_VS, PROP_CC, PROP_CSTS };
        struct queue *q = admin_queue(t);

        for (int i = 0; i < 4; i++)
                property_get(q, offsets[i]);
}

enum { INTMS = 0x0c, AQA = 0x24, ASQ = 0x28, RESERVED_FROM = 0x6c, FOR_FABRICS = 0x1000 };

/* 3.1.4 has reserved properties return 0, 6.5 refuses what is not a property. After NVMe 2.2 more may be one. */
static void want_nothing(struct queue *q, uint32_t ofst)
{
        struct reply r = expect_answer(q, send_property_get(q, ofst, PROP_ATTRIB_4));
        bool known = ofst < RESERVED_FROM || caps(q->t)->vs < NVME_VERSION(2, 3, 0);

        if (!q->over && known && r.status == NVME_SUCCESS)
                want_eq(q->t, "the reserved property", r.dw0, 0);
}

CASE("fab/property/offset", MUST, RULES(FAB_PROP_RSVD),
     "Property Get of INTMS, AQA or another reserved property is refused or returns 0")
{
        static const uint32_t offsets[] = { INTMS, AQA, RESERVED_FROM, FOR_FABRICS };
        struct queue *q = admin_queue(t);

        for (unsigned i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
                want_nothing(q, offsets[i]);
        expect_works(q);
}

CASE("fab/property/offset-far", MUST, NO_RULE,
     "Property Get far beyond all properties is answered, and the controller works on",
     .related = "register files without a bound")
{
        struct queue *q = admin_queue(t);

        expect_answer(q, send_property_get(q, 0xfffffffc, PROP_ATTRIB_4));
        expect_works(q);
}

CASE("fab/property/offset-within", MUST, RULES(FAB_PROP_OFFSET),
     "Property Get from the middle of a property to the middle of the next one is refused")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_property_get(q, PROP_VS + 2, PROP_ATTRIB_4));
}

/* A half of a property: SPDK answers, which no sentence forbids. */
CASE("fab/property/offset-half", SHOULD, RULES(FAB_PROP_SIZE),
     "Property Get of the upper half of CAP is refused")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_property_get(q, PROP_CAP + 4, PROP_ATTRIB_4));
}

/* 3.1.4 binds the host to the width; 6.5 refuses but a property or offset that is none. */
CASE("fab/property/size", SHOULD, RULES(FAB_PROP_SIZE),
     "Property Get of 4 bytes of CAP, or of 8 of VS, is refused")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_property_get(q, PROP_CAP, PROP_ATTRIB_4));
        expect_refusal(q, send_property_get(q, PROP_VS, PROP_ATTRIB_8));
}

CASE("fab/property/size-reserved", SHOULD, RULES(FAB_PROP_SIZE),
     "Property Get with a reserved size is refused")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_property_get(q, PROP_VS, 2));
        expect_refusal(q, send_property_get(q, PROP_CAP, 7));
}

CASE("fab/property/get-io-queue", MUST, RULES(FAB_PROP_QUEUE),
     "Property Get on an I/O queue is refused")
{
        struct queue *q = io_queue(t);

        expect_refusal(q, send_property_get(q, PROP_VS, PROP_ATTRIB_4));
        expect_works(q);
}

CASE("fab/property/set-io-queue", MUST, RULES(FAB_PROP_QUEUE),
     "Property Set on an I/O queue is refused")
{
        struct queue *q = io_queue(t);

        expect_refusal(q, send_property_set(q, PROP_CC, PROP_ATTRIB_4, 0));
        if (!q->over) /* its end may be that of the association (3.3.2.4) */
                expect_works(q->admin);
}

CASE("fab/property/read-only", MUST, RULES(FAB_PROP_KEPT),
     "Property Set of VS is refused or changes nothing")
{
        struct queue *q = admin_queue(t);
        uint32_t vs = (uint32_t)property_get(q, PROP_VS);

        expect_answer(q, send_property_set(q, PROP_VS, PROP_ATTRIB_4, 0));
        if (!q->over)
                want_eq(t, "VS", property_get(q, PROP_VS), vs);
}

CASE("fab/property/read-only-cap", MUST, RULES(FAB_PROP_KEPT),
     "Property Set of CAP is refused or changes nothing")
{
        struct queue *q = admin_queue(t);
        uint64_t cap = property_get(q, PROP_CAP);

        expect_answer(q, send_property_set(q, PROP_CAP, PROP_ATTRIB_8, 0));
        if (!q->over)
                want_eq(t, "CAP", property_get(q, PROP_CAP), cap);
}

CASE("fab/property/set-offset", MUST, RULES(FAB_PROP_RSVD),
     "Property Set of ASQ, which is reserved, is refused or changes nothing")
{
        struct queue *q = admin_queue(t);

        expect_answer(q, send_property_set(q, ASQ, PROP_ATTRIB_8, UINT64_MAX));
        want_nothing(q, ASQ);
        expect_works(q);
}

/* Both are write only, and reserved where there is no reset or shutdown of a whole subsystem. */
CASE("fab/property/reads-zero", MUST, RULES(FAB_PROP_ZERO),
     "Property Get of NSSR and NSSD is refused or returns 0")
{
        struct queue *q = admin_queue(t);

        want_nothing(q, PROP_NSSR);
        want_nothing(q, PROP_NSSD);
        expect_works(q);
}

CASE("fab/discovery/property-reserved", MUST, RULES(FAB_PROP_RSVD),
     "Property Get of reserved properties of a discovery controller is refused or returns 0",
     .needs = DISCOVERY)
{
        static const uint32_t offsets[] = { INTMS, PROP_NSSR, AQA, PROP_NSSD, RESERVED_FROM };
        struct queue *q = discovery_queue(t);

        for (unsigned i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
                want_nothing(q, offsets[i]);
        expect_works(q);
}

CASE("fab/property/upper-dword", SHOULD, RULES(FAB_PROP_UPPER),
     "The upper four bytes of VS, CC and CSTS, which are properties of four bytes, are 0")
{
        static const uint32_t offsets[] = { PROP_VS, PROP_CC, PROP_CSTS };
        struct queue *q = admin_queue(t);

        for (unsigned i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
                want_eq(t, "the upper four bytes of the result",
                        expect_success(q, send_property_get(q, offsets[i], PROP_ATTRIB_4)).dw1, 0);
}

CASE("fab/property/cc-initial", MUST, RULES(FAB_CC_INITIAL),
     "CC reads as 0 when a controller begins")
{
        struct queue *q = admin_queue(t, .disabled = true);

        want_eq(t, "CC", property_get(q, PROP_CC), 0);
}

CASE("fab/discovery/crime", MUST, RULES(FAB_CC_CRIME),
     "CC.CRIME of a discovery controller cannot be set unless CAP.CRMS is 11b", .needs = DISCOVERY)
{
        struct queue *q = discovery_queue(t, .disabled = true);

        require(t, (uint32_t)property_get(q, PROP_VS) >= NVME_VERSION(2, 0, 0),
                "CC.CRIME was added in NVMe 2.0");
        require(t, CAP_CRMS(property_get(q, PROP_CAP)) != 3, "CAP.CRMS is 11b");
        expect_answer(q, send_property_set(q, PROP_CC, PROP_ATTRIB_4, CC_CRIME));
        if (!q->over)
                want_eq(t, "CC.CRIME", property_get(q, PROP_CC) & CC_CRIME, 0);
}

/* Both kinds of commands succeed, whatever else the media are waiting for (3.5.3). */
CASE("fab/ready/independent", MUST, RULES(FAB_CRIME),
     "With CC.CRIME 1 admin commands without media work once CSTS.RDY is 1, I/O commands after "
     "CRWMT",
     .slow = true, .unmoved = true)
{
        enum { UNIT_MS = 500 };
        struct queue *q = admin_queue(t, .disabled = true), *io;
        uint32_t crto;

        require(t, CAP_CRMS(caps(t)->cap) == 3, "CAP.CRMS is not 11b");
        require(t, caps(t)->io && caps(t)->nsid, "the subsystem has no namespace");
        crto = (uint32_t)property_get(q, PROP_CRTO);
        require(t, (crto & 0xffff) <= 4, "CRWMT is longer than 2 s");
        set_cc(q, with_css(q, CC_RUN) | CC_CRIME, CSTS_RDY, CSTS_RDY);
        identify_ctrl(q);
        get_feature(q, FEAT_AEC);
        get_log(q, LOG_ERROR, 64, 0);
        expect_success(q, send_cmd(q, .opc = NVME_KEEP_ALIVE));
        want_eq(t, "CRTO with CC.CRIME 1", property_get(q, PROP_CRTO), crto);
        pause_ms(t, (crto & 0xffff) * UNIT_MS);
        io = io_queue_of(q);
        read_blocks(io, 0, caps(t)->block);
        identify(q, CNS_NS, caps(t)->nsid);
}

CASE("fab/property/crime", MUST, RULES(FAB_CC_CRIME),
     "CC.CRIME cannot be set unless CAP.CRMS is 11b")
{
        struct queue *q = admin_queue(t, .disabled = true);

        require(t, caps(t)->vs >= NVME_VERSION(2, 0, 0), "CC.CRIME was added in NVMe 2.0");
        require(t, CAP_CRMS(caps(t)->cap) != 3, "CAP.CRMS is 11b");
        expect_answer(q, send_property_set(q, PROP_CC, PROP_ATTRIB_4, CC_CRIME));
        if (!q->over)
                want_eq(t, "CC.CRIME", property_get(q, PROP_CC) & CC_CRIME, 0);
}

CASE("fab/command/data-psdt", SHOULD, RULES(DATA_PSDT),
     "A Read with PSDT 00b or 11b fails with Invalid Field in Command")
{
        struct queue *q = io_queue(t);

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        mutate(q, "sqe.flags", 0);
        expect_error(q, send_read(q), NVME_INVALID_FIELD);
        mutate(q, "sqe.flags", SQE_PSDT_MASK);
        expect_error(q, send_read(q), NVME_INVALID_FIELD);
        expect_works(q);
}

CASE("fab/ready/media", MUST, RULES(MEDIA_READY),
     "Admin Command Media Not Ready is not returned after CRTO.CRWMT with CC.CRIME 0", .slow = true,
     .unmoved = true)
{
        enum { UNIT_MS = 500, MOST_MS = 20000, TRACKED = 0x11, DWORDS = 4 };
        struct queue *q = io_queue(t);
        uint32_t wait;
        uint16_t cid;

        require(t, CAP_CRMS(caps(t)->cap), "CAP.CRMS is 0: there is no CRTO");
        wait = (uint32_t)property_get(q->admin, PROP_CRTO) & 0xffff;
        require(t, le16_get(caps(t)->id.oacs) & OACS_LBA_STATUS && caps(t)->nsid,
                "OACS announces no Get LBA Status");
        require(t, wait * UNIT_MS <= MOST_MS, "CRWMT is %u ms", wait * UNIT_MS);
        pause_ms(t, wait * UNIT_MS);
        cid = send_cmd(q->admin, .opc = NVME_GET_LBA_STATUS, .nsid = caps(t)->nsid,
                       .cdw12 = DWORDS - 1, .cdw13 = (uint32_t)TRACKED << 24 | 1,
                       .bytes = DWORDS * 4);
        want(t, finish(q->admin, cid).status != NVME_MEDIA_NOT_READY, "another status",
             "Admin Command Media Not Ready");
}

CASE("fab/ready/no-command-set", MUST, RULES(CSS_NONE),
     "With CC.CSS 111b an admin command of the NVM command set fails with Invalid Command Opcode",
     .alone = true)
{
        enum { CSS_NONE_BITS = 7 << 4, DWORDS = 4, TRACKED = 0x11, POLL_MS = 20, WAIT_MS = 10000 };
        struct queue *q;

        require(t, caps(t)->expendable, "no subsystem may be changed (--expendable-nqn)");
        q = admin_queue(t, .subnqn = caps(t)->expendable, .disabled = true);
        require(t, property_get(q, PROP_CAP) & CAP_CSS_NOIO, "CAP.CSS bit 44 is 0");
        set_slowly(q, PROP_CC, CC_EN | CSS_NONE_BITS);
        for (unsigned ms = 0; !(property_get(q, PROP_CSTS) & CSTS_RDY); ms += POLL_MS) {
                require(t, ms < WAIT_MS, "the controller is not ready after %d s", WAIT_MS / 1000);
                pause_ms(t, POLL_MS);
        }
        expect_status(q,
                      send_cmd(q, .opc = NVME_GET_LBA_STATUS, .nsid = 1, .cdw12 = DWORDS - 1,
                               .cdw13 = (uint32_t)TRACKED << 24 | 1, .bytes = DWORDS * 4),
                      NVME_INVALID_OPCODE);
}

/* --- Lockdown */

enum { PROHIBIT = 1 << 4 };

static struct queue *locker(struct t *t)
{
        enum { OACS_LOCKDOWN = 1 << 10 };
        struct queue *q;

        require(t, caps(t)->expendable, "no subsystem may be changed (--expendable-nqn)");
        q = admin_queue(t, .subnqn = caps(t)->expendable);
        require(t, le16_get(identify_ctrl(q)->oacs) & OACS_LOCKDOWN, "OACS announces no Lockdown");
        return q;
}

static uint16_t lockdown(struct queue *q, uint8_t opc, uint32_t prohibit)
{
        return finish(q, send_cmd(q, .opc = NVME_LOCKDOWN, .cdw10 = (uint32_t)opc << 8 | prohibit))
            .status;
}

/* One that log page 14h does not list among those that can be prohibited; 0: it lists all that are tried. */
static uint8_t not_lockable(struct queue *q)
{
        static const uint8_t tried[] = { NVME_IDENTIFY, NVME_KEEP_ALIVE, NVME_ABORT };
        enum { BYTES = 512, LENGTH = 3, LIST = 4 };
        const uint8_t *log = get_log(q, LOG_LOCKDOWN, BYTES, 0);

        for (unsigned i = 0; i < sizeof(tried); i++)
                if (!memchr(log + LIST, tried[i], log[LENGTH]))
                        return tried[i];
        return 0;
}

CASE("base/lockdown/not-listed", MUST, RULES(LOCKDOWN_BARS),
     "Lockdown of a command that log page 14h does not list fails with Lockdown Failed",
     .alone = true)
{
        struct queue *q = locker(t);
        uint8_t opc = not_lockable(q);
        uint16_t status;

        require(t, opc, "each command can be prohibited");
        status = lockdown(q, opc, PROHIBIT);
        lockdown(q, opc, 0);
        want_eq(t, "the status of Lockdown", status, NVME_LOCKDOWN_FAILED);
}

CASE("base/lockdown/prohibited", MUST, RULES(LOCKDOWN_BARS),
     "A command that Lockdown prohibits fails with Command Prohibited, and prohibiting it again is "
     "no error",
     .alone = true)
{
        enum { OACS_FORMAT = 1 << 1, RESERVED_SES = 7 << 9 };
        struct queue *q = locker(t);
        uint16_t first, second, status, allowed, again;

        require(t, le16_get(identify_ctrl(q)->oacs) & OACS_FORMAT, "OACS announces no Format NVM");
        first = lockdown(q, NVME_FORMAT, PROHIBIT);
        require(t, first == NVME_SUCCESS, "Format NVM cannot be prohibited");
        second = lockdown(q, NVME_FORMAT, PROHIBIT);
        status =
            finish(q, send_cmd(q, .opc = NVME_FORMAT, .nsid = 1, .cdw10 = RESERVED_SES)).status;
        allowed = lockdown(q, NVME_FORMAT, 0);
        again = lockdown(q, NVME_FORMAT, 0);
        want_eq(t, "the status of Lockdown that prohibits it again", second, NVME_SUCCESS);
        want_eq(t, "the status of Format NVM", status, NVME_PROHIBITED);
        want_eq(t, "the status of Lockdown that allows it", allowed, NVME_SUCCESS);
        want_eq(t, "the status of Lockdown that allows it again", again, NVME_SUCCESS);
}

/* --- administrative controllers */

static struct queue *administrative(struct t *t)
{
        struct queue *q;

        require(t, caps(t)->administrative,
                "no subsystem with administrative controllers is known (--administrative-nqn)");
        q = admin_queue(t, .subnqn = caps(t)->administrative);
        require(t, identify_ctrl(q)->cntrltype == CNTRLTYPE_ADMIN,
                "CNTRLTYPE is not that of an administrative controller");
        return q;
}

CASE("fab/connect/administrative", MUST, RULES(ADMIN_QUEUES),
     "Connect of an I/O queue to an administrative controller does not succeed")
{
        struct queue *q = administrative(t), *io = join(q);
        struct reply r = expect_answer(io, send_connect(io));

        want(t, io->over || r.status != NVME_SUCCESS, "a refusal", "Success");
        expect_works(q);
}

CASE("base/identify/administrative", MUST, RULES(ADMIN_NS),
     "No namespace is attached to an administrative controller")
{
        struct queue *q = administrative(t);
        struct reply r = finish(
            q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_NS_LIST, .bytes = IDENTIFY_LEN));

        want(t, r.status != NVME_SUCCESS || le_get(r.data, 4) == 0, "no active NSID", "NSID %u",
             (unsigned)le_get(r.data, 4));
}

CASE("fab/property/administrative-sizes", MUST, RULES(ADMIN_SIZES),
     "IOSQES and IOCQES of a controller without I/O queues stay 0")
{
        enum { SIZES = 6 << 16 | 4 << 20 };
        struct queue *q = administrative(t);
        uint32_t cc = (uint32_t)property_get(q, PROP_CC);

        expect_answer(q, send_property_set(q, PROP_CC, PROP_ATTRIB_4, cc | SIZES));
        if (!q->over)
                want_eq(t, "IOSQES and IOCQES", property_get(q, PROP_CC) & SIZES, 0);
}
