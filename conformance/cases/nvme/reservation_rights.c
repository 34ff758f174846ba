/* SPDX-License-Identifier: BSD-3-Clause */
/* What a reservation lets whom do: Base 2.2 8.1.22.1 (figures 646 and 647), NVM Command Set 1.2 5.9. */
#include <string.h>

#include "conformance/words/case_reservation.h"

/* --- commands of the two groups, each on the first block of the case's range */

static uint16_t send_at(struct queue *q, uint8_t opc)
{
        uint64_t lba = own_lba(q->t);

        return send_cmd(q, .opc = opc, .nsid = caps(q->t)->nsid, .cdw10 = (uint32_t)lba,
                        .cdw11 = (uint32_t)(lba >> 32));
}

static uint16_t send_a_read(struct queue *q)
{
        return send_read(q);
}

static uint16_t send_a_compare(struct queue *q)
{
        return send_compare(q);
}

static uint16_t send_a_verify(struct queue *q)
{
        return send_at(q, NVME_VERIFY);
}

static uint16_t send_a_write(struct queue *q)
{
        return send_write(q);
}

static uint16_t send_zeroes(struct queue *q)
{
        return send_write_zeroes(q);
}

static uint16_t send_uncorrectable(struct queue *q)
{
        return send_at(q, NVME_WRITE_UNCORRECTABLE);
}

static uint16_t send_flush(struct queue *q)
{
        return send_cmd(q, .opc = NVME_FLUSH, .nsid = caps(q->t)->nsid);
}

/* Of no attribute: a hint that changes nothing. */
static uint16_t send_dsm(struct queue *q)
{
        static struct dsm_range one;

        one = (struct dsm_range) { .blocks = le32(1), .slba = le64(own_lba(q->t)) };
        return send_cmd(q, .opc = NVME_DSM, .nsid = caps(q->t)->nsid, .bytes = sizeof(one),
                        .data = &one, .in_capsule = caps(q->t)->in_capsule >= sizeof(one));
}

static uint16_t send_copy(struct queue *q)
{
        static struct copy_range one;
        uint64_t to = own_lba(q->t) + 1;

        one = (struct copy_range) { .slba = le64(own_lba(q->t)) };
        return send_cmd(q, .opc = NVME_COPY, .nsid = caps(q->t)->nsid, .cdw10 = (uint32_t)to,
                        .cdw11 = (uint32_t)(to >> 32), .bytes = sizeof(one), .data = &one,
                        .in_capsule = caps(q->t)->in_capsule >= sizeof(one));
}

enum { READS = 1, WRITES = 2 };

/* The last one leaves the block unreadable until it is written. */
static const struct deed {
        const char *name;
        unsigned group;
        uint16_t oncs; /* the bit that it needs; 0: every controller has it */
        uint16_t (*send)(struct queue *q);
} deeds[] = {
        { "Write", WRITES, 0, send_a_write },
        { "Read", READS, 0, send_a_read },
        { "Compare", READS, ONCS_COMPARE, send_a_compare },
        { "Verify", READS, ONCS_VERIFY, send_a_verify },
        { "Flush", WRITES, 0, send_flush },
        { "Dataset Management", WRITES, ONCS_DSM, send_dsm },
        { "Copy", READS | WRITES, ONCS_COPY, send_copy },
        { "Write Zeroes", WRITES, ONCS_WRITE_ZEROES, send_zeroes },
        { "Write Uncorrectable", WRITES, ONCS_WRITE_UNCORRECTABLE, send_uncorrectable },
};

/* One host does all of it, and may do what `rights` says. */
static void try_all(struct queue *q, const char *who, unsigned rights)
{
        for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++) {
                const struct deed *d = &deeds[i];
                bool allowed = (d->group & rights) == d->group;
                uint16_t status;

                if (d->oncs && !(le16_get(caps(q->t)->id.oncs) & d->oncs))
                        continue;
                status = finish(q, d->send(q)).status;
                if (status == NVME_COMPARE_FAILURE && allowed)
                        continue;
                if (allowed ? status == NVME_RESERVATION_CONFLICT : status == NVME_SUCCESS)
                        fail(q->t, allowed ? "a command that is processed" : "Reservation Conflict",
                             "%s of %s ended with %s", d->name, who, status_name(status));
                if (!allowed && status != NVME_RESERVATION_CONFLICT)
                        lenient(q->t, "Reservation Conflict", "%s of %s ended with %s", d->name,
                                who, status_name(status));
        }
}

/* The first host holds a reservation of this type; another registrant and a stranger try. */
static void judge_type(struct t *t, unsigned type, unsigned registrant, unsigned stranger)
{
        struct queue *q = reserving_queue(t), *other = host_queue(t, 1), *third = host_queue(t, 2);
        uint32_t block = caps(t)->block;
        const uint8_t *data = pattern(t, block);

        require(t, rescap(q) >> type & 1, "RESCAP does not name type %u", type);
        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(other, do_register(other, KEY(2)), NVME_SUCCESS);
        expect_reserved(q, do_acquire(q, type, KEY(1)), NVME_SUCCESS);
        expect_reserved(q, send_write(q, .data = data), NVME_SUCCESS);
        try_all(third, "a host that is not registered", stranger);
        want_data(t, "what the holder wrote", read_blocks(q, 0, block), data, block);
        try_all(other, "another registrant", registrant);
        try_all(q, "the holder", READS | WRITES);
        expect_reserved(q, send_write(q, .data = data), NVME_SUCCESS);
}

CASE("base/reservation/rights-write-exclusive", MUST, RULES(RESV_RIGHTS),
     "Write Exclusive: the holder writes, everybody else reads", RESERVES)
{
        judge_type(t, WRITE_EXCLUSIVE, READS, READS);
}

CASE("base/reservation/rights-exclusive-access", MUST, RULES(RESV_RIGHTS),
     "Exclusive Access: the holder alone reads and writes", RESERVES)
{
        judge_type(t, EXCLUSIVE_ACCESS, 0, 0);
}

CASE("base/reservation/rights-write-exclusive-registrants", MUST, RULES(RESV_RIGHTS),
     "Write Exclusive - Registrants Only: registrants write, everybody reads", RESERVES)
{
        judge_type(t, WRITE_EXCLUSIVE_REGISTRANTS, READS | WRITES, READS);
}

CASE("base/reservation/rights-exclusive-access-registrants", MUST, RULES(RESV_RIGHTS),
     "Exclusive Access - Registrants Only: registrants alone read and write", RESERVES)
{
        judge_type(t, EXCLUSIVE_ACCESS_REGISTRANTS, READS | WRITES, 0);
}

CASE("base/reservation/rights-write-exclusive-all", MUST, RULES(RESV_RIGHTS),
     "Write Exclusive - All Registrants: registrants write, everybody reads", RESERVES)
{
        judge_type(t, WRITE_EXCLUSIVE_ALL, READS | WRITES, READS);
}

CASE("base/reservation/rights-exclusive-access-all", MUST, RULES(RESV_RIGHTS),
     "Exclusive Access - All Registrants: registrants alone read and write", RESERVES)
{
        judge_type(t, EXCLUSIVE_ACCESS_ALL, READS | WRITES, 0);
}

CASE("base/reservation/rights-all-namespaces", MUST, RULES(RESV_RIGHTS),
     "Flush of namespace FFFFFFFFh ends with Reservation Conflict where one of them keeps it off",
     RESERVES)
{
        struct queue *q = reserving_queue(t), *other = host_queue(t, 1);

        require(t, caps(t)->vs >= NVME_VERSION(2, 0, 0), "before 2.0 nothing says so");
        require(t, (caps(t)->id.vwc >> 1 & 3) == 3, "Flush of all namespaces is not supported");
        require(t,
                finish(q, send_cmd(q, .opc = NVME_FLUSH, .nsid = NSID_ALL)).status == NVME_SUCCESS,
                "somebody else keeps us off another namespace");
        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(q, do_acquire(q, WRITE_EXCLUSIVE, KEY(1)), NVME_SUCCESS);
        expect_reserved(other, send_cmd(other, .opc = NVME_FLUSH, .nsid = NSID_ALL),
                        NVME_RESERVATION_CONFLICT);
        expect_reserved(q, send_cmd(q, .opc = NVME_FLUSH, .nsid = NSID_ALL), NVME_SUCCESS);
}

CASE("base/reservation/rights-other-commands", MUST, RULES(RESV_RIGHTS),
     "Identify, features, log pages, Register and Report of other hosts are never in conflict",
     RESERVES)
{
        struct queue *q = reserving_queue(t), *other = host_queue(t, 1);

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(q, do_acquire(q, EXCLUSIVE_ACCESS, KEY(1)), NVME_SUCCESS);
        identify(other->admin, CNS_NS, caps(t)->nsid);
        get_log(other->admin, LOG_SMART, 512, 0);
        ptpl_of(other);
        report_of(other);
        expect_reserved(other, do_register(other, KEY(2)), NVME_SUCCESS);
        expect_reserved(other, do_unregister(other, KEY(2)), NVME_SUCCESS);
}

/* --- an admin command, of a subsystem that the run may do this to */

static void hold_exclusively(struct queue *q, uint32_t nsid)
{
        enum { ACQUIRE = RACQA_ACQUIRE | EXCLUSIVE_ACCESS << RESERVATION_TYPE_SHIFT };

        expect_reserved(q,
                        send_keys_to(q, nsid, NVME_RESERVATION_REGISTER, RREGA_REGISTER, 0, KEY(1)),
                        NVME_SUCCESS);
        expect_reserved(q, send_keys_to(q, nsid, NVME_RESERVATION_ACQUIRE, ACQUIRE, KEY(1), 0),
                        NVME_SUCCESS);
}

CASE("base/reservation/rights-format", MUST, RULES(RESV_RIGHTS),
     "Exclusive Access: Format NVM of another host ends with Reservation Conflict", .alone = true,
     .after = unreserve_expendable)
{
        enum { OACS_FORMAT = 1 << 1 };
        uint32_t nsid;
        struct queue *q = expendable_reserving_queue(t, &nsid), *other;
        const struct id_ns *ns = identify(q->admin, CNS_NS, nsid);

        require(t, le16_get(identify_ctrl(q->admin)->oacs) & OACS_FORMAT,
                "OACS announces no Format NVM");
        require(t, ns->rescap >> EXCLUSIVE_ACCESS & 1, "RESCAP does not name type %u",
                (unsigned)EXCLUSIVE_ACCESS);
        hold_exclusively(q, nsid);
        other = expendable_queue(t, 1);
        expect_reserved(
            other->admin,
            send_cmd(other->admin, .opc = NVME_FORMAT, .nsid = nsid, .cdw10 = ns->flbas & 15u),
            NVME_RESERVATION_CONFLICT);
}
