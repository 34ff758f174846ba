/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reservations (Base 2.2 7.5 to 7.8, 8.1.22): who is registered, and who holds. Hosts 0, 1 and 2 differ in
 * HOSTID. A reservation is of the whole namespace: these cases run alone, and leave nobody registered.
 */
#include <string.h>

#include "conformance/words/case_reservation.h"

#include "conformance/engine/suite.h"

enum { HOSTS = 3 };

/* --- Reservation Register */

CASE("base/reservation/register", MUST, RULES(RESV_REGISTERED),
     "A host may register its key again, but not another one", RESERVES)
{
        struct queue *q = reserving_queue(t);

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(q, do_register(q, KEY(2)), NVME_RESERVATION_CONFLICT);
        expect_reserved(q, do_unregister(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(q, do_register(q, KEY(2)), NVME_SUCCESS);
}

CASE("base/reservation/register-equal-keys", MUST, RULES(RESV_REGISTERED),
     "Two hosts may register equal keys", RESERVES)
{
        struct queue *q = reserving_queue(t), *other = host_queue(t, 1);

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(other, do_register(other, KEY(1)), NVME_SUCCESS);
        want_eq(t, "registrants", report_of(q).count, 2);
}

CASE("base/reservation/register-replaced", MUST, RULES(RESV_REGISTERED),
     "The holder of a reservation still holds it after it has replaced its key", RESERVES)
{
        struct queue *q = reserving_queue(t);
        struct report r;

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(q, do_acquire(q, WRITE_EXCLUSIVE, KEY(1)), NVME_SUCCESS);
        expect_reserved(q, do_replace(q, KEY(1), KEY(2)), NVME_SUCCESS);
        r = report_of(q);
        want_eq(t, "the type of the reservation", r.type, WRITE_EXCLUSIVE);
        want_eq(t, "the key", r.of[0].key, KEY(2));
        want(t, r.of[0].holds, "the holder", "a registrant that does not hold it");
}

/* --- keys */

/* All commands that need the key of a registrant, with one that is not the host's. */
static void all_conflict(struct queue *q, uint64_t key)
{
        expect_reserved(q, do_unregister(q, key), NVME_RESERVATION_CONFLICT);
        expect_reserved(q, do_replace(q, key, KEY(8)), NVME_RESERVATION_CONFLICT);
        expect_reserved(q, do_acquire(q, a_type(q), key), NVME_RESERVATION_CONFLICT);
        expect_reserved(q, do_preempt(q, a_type(q), key, KEY(8)), NVME_RESERVATION_CONFLICT);
        expect_reserved(q, do_release(q, a_type(q), key), NVME_RESERVATION_CONFLICT);
        expect_reserved(q, do_clear(q, key), NVME_RESERVATION_CONFLICT);
}

CASE("base/reservation/key-none", MUST, RULES(RESV_KEY),
     "Reservation commands of a host that is not registered end with Reservation Conflict",
     RESERVES)
{
        struct queue *q = reserving_queue(t), *other = host_queue(t, 1);

        all_conflict(q, KEY(1));
        expect_reserved(other, do_register(other, KEY(1)), NVME_SUCCESS);
        all_conflict(q, KEY(1));
        want_eq(t, "registrants", report_of(q).count, 1);
}

CASE("base/reservation/key-wrong", MUST, RULES(RESV_KEY),
     "Reservation commands with a CRKEY that is not the host's key end with Reservation Conflict",
     RESERVES)
{
        struct queue *q = reserving_queue(t), *other = host_queue(t, 1);
        struct report r;

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(other, do_register(other, KEY(2)), NVME_SUCCESS);
        all_conflict(q, KEY(2));
        r = report_of(q);
        want_eq(t, "registrants", r.count, 2);
        want_eq(t, "the type of the reservation", r.type, RESERVATION_NONE);
}

CASE("base/reservation/ignore-key", MUST, RULES(RESV_IEKEY),
     "With IEKEY 1 Reservation Register replaces and unregisters whatever CRKEY is, and registers "
     "no "
     "other key",
     RESERVES)
{
        struct queue *q = reserving_queue(t);

        require(t, rescap(q) & RESCAP_IEKEY, "RESCAP bit 7 is 0");
        expect_reserved(q, send_register(q, RREGA_REPLACE | RESERVATION_IEKEY, KEY(7), KEY(1)),
                        NVME_SUCCESS);
        expect_reserved(q, send_register(q, RREGA_REPLACE | RESERVATION_IEKEY, KEY(7), KEY(2)),
                        NVME_SUCCESS);
        expect_reserved(q, send_register(q, RREGA_REGISTER | RESERVATION_IEKEY, KEY(2), KEY(3)),
                        NVME_RESERVATION_CONFLICT);
        expect_reserved(q, send_register(q, RREGA_UNREGISTER | RESERVATION_IEKEY, KEY(7), 0),
                        NVME_SUCCESS);
        want_eq(t, "registrants", report_of(q).count, 0);
}

CASE("base/reservation/ignore-key-refused", MUST, RULES(RESV_IEKEY),
     "Reservation Acquire and Release with IEKEY 1 fail with Invalid Field", RESERVES)
{
        struct queue *q = reserving_queue(t);

        require(t, rescap(q) & RESCAP_IEKEY, "RESCAP bit 7 is 0: up to 1.2.1 they succeed");
        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(q, send_acquire(q, RACQA_ACQUIRE | RESERVATION_IEKEY, a_type(q), KEY(1), 0),
                        NVME_INVALID_FIELD);
        expect_reserved(q, do_acquire(q, a_type(q), KEY(1)), NVME_SUCCESS);
        expect_reserved(q, send_release(q, RRELA_RELEASE | RESERVATION_IEKEY, a_type(q), KEY(1)),
                        NVME_INVALID_FIELD);
        want_eq(t, "the type of the reservation", report_of(q).type, a_type(q));
}

CASE("base/reservation/coded-values", MUST, RULES(RESV_CODED),
     "Reserved actions, types and CPTPL values of reservation commands are refused", RESERVES)
{
        struct queue *q = reserving_queue(t);

        expect_reserved(q, send_register(q, 1u << CPTPL_SHIFT, 0, KEY(1)), NVME_INVALID_FIELD);
        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(q, send_register(q, 3, KEY(1), KEY(1)), NVME_INVALID_FIELD);
        expect_reserved(q, send_register(q, 7, KEY(1), KEY(1)), NVME_INVALID_FIELD);
        expect_reserved(q, send_acquire(q, 3, a_type(q), KEY(1), KEY(1)), NVME_INVALID_FIELD);
        expect_reserved(q, send_acquire(q, 7, a_type(q), KEY(1), KEY(1)), NVME_INVALID_FIELD);
        expect_reserved(q, do_acquire(q, 0, KEY(1)), NVME_INVALID_FIELD);
        expect_reserved(q, do_acquire(q, 7, KEY(1)), NVME_INVALID_FIELD);
        expect_reserved(q, do_acquire(q, 0xff, KEY(1)), NVME_INVALID_FIELD);
        expect_reserved(q, send_release(q, 2, a_type(q), KEY(1)), NVME_INVALID_FIELD);
        expect_reserved(q, send_release(q, 7, a_type(q), KEY(1)), NVME_INVALID_FIELD);
        want_eq(t, "the type of the reservation", report_of(q).type, RESERVATION_NONE);
}

/* A key of which the first bytes are all, and half the data that the command has. */
static uint16_t send_half_of(struct queue *q, uint8_t opc, uint32_t cdw10, uint64_t key)
{
        uint32_t bytes = opc == NVME_RESERVATION_RELEASE ? 8 : 16;
        uint8_t *data = t_alloc(q->t, bytes);

        le_put(data, 8, key);
        return send_half(q, opc, caps(q->t)->nsid, cdw10, data, bytes);
}

CASE("base/reservation/sgl-short", MUST, RULES(FAB_SGL_SHORT),
     "Reservation Acquire, Release and Register with an SGL shorter than their keys are refused, "
     "and change nothing",
     RESERVES)
{
        enum { SMALL = 0x6b65 }; /* a key of zeroes in its second half */
        struct queue *q = reserving_queue(t);
        unsigned type = a_type(q) << RESERVATION_TYPE_SHIFT;

        expect_reserved(q, do_register(q, SMALL), NVME_SUCCESS);
        expect_refusal(q, send_half_of(q, NVME_RESERVATION_ACQUIRE, RACQA_ACQUIRE | type, SMALL));
        want_eq(t, "the type of the reservation", report_of(q).type, RESERVATION_NONE);
        expect_reserved(q, do_acquire(q, a_type(q), SMALL), NVME_SUCCESS);
        expect_refusal(q, send_half_of(q, NVME_RESERVATION_RELEASE, RRELA_RELEASE | type, SMALL));
        want_eq(t, "the type of the reservation", report_of(q).type, a_type(q));
        expect_refusal(q, send_half_of(q, NVME_RESERVATION_REGISTER, RREGA_UNREGISTER, SMALL));
        want_eq(t, "registrants", report_of(q).count, 1);
}

/* --- Reservation Acquire */

static bool is_of_all(unsigned type)
{
        return type == WRITE_EXCLUSIVE_ALL || type == EXCLUSIVE_ACCESS_ALL;
}

CASE("base/reservation/acquire", MUST, RULES(RESV_ACQUIRED),
     "A registrant acquires each type that RESCAP names, and again while it holds it, and no other "
     "one",
     RESERVES)
{
        struct queue *q = reserving_queue(t);

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        for (unsigned type = WRITE_EXCLUSIVE; type <= EXCLUSIVE_ACCESS_ALL; type++) {
                unsigned other = type == WRITE_EXCLUSIVE ? EXCLUSIVE_ACCESS : WRITE_EXCLUSIVE;

                if (!(rescap(q) >> type & 1))
                        continue;
                expect_reserved(q, do_acquire(q, type, KEY(1)), NVME_SUCCESS);
                want_eq(t, "the type of the reservation", report_of(q).type, type);
                expect_reserved(q, do_acquire(q, type, KEY(1)), NVME_SUCCESS);
                if (rescap(q) >> other & 1)
                        expect_reserved(q, do_acquire(q, other, KEY(1)), NVME_RESERVATION_CONFLICT);
                want_eq(t, "the type of the reservation", report_of(q).type, type);
                expect_reserved(q, do_release(q, type, KEY(1)), NVME_SUCCESS);
        }
}

CASE("base/reservation/acquire-held", MUST, RULES(RESV_ACQUIRED),
     "A reservation that one host holds is not acquired by another registrant", RESERVES)
{
        struct queue *q = reserving_queue(t), *other = host_queue(t, 1);

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(other, do_register(other, KEY(2)), NVME_SUCCESS);
        for (unsigned type = WRITE_EXCLUSIVE; type <= EXCLUSIVE_ACCESS_REGISTRANTS; type++) {
                if (!(rescap(q) >> type & 1))
                        continue;
                expect_reserved(q, do_acquire(q, type, KEY(1)), NVME_SUCCESS);
                expect_reserved(other, do_acquire(other, type, KEY(2)), NVME_RESERVATION_CONFLICT);
                want(t, holds(report_of(q), q), "the first host as the holder", "another one");
                expect_reserved(q, do_release(q, type, KEY(1)), NVME_SUCCESS);
        }
}

/* --- Reservation Release, unregistering */

CASE("base/reservation/release-type", MUST, RULES(RESV_RELEASED),
     "Release with a type other than the holder's fails with Invalid Field", RESERVES)
{
        struct queue *q = reserving_queue(t);
        unsigned type = a_type(q);

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(q, do_acquire(q, type, KEY(1)), NVME_SUCCESS);
        prefer_error(q, do_release(q, type == 1 ? 2 : 1, KEY(1)), NVME_INVALID_FIELD);
        want_eq(t, "the type of the reservation", report_of(q).type, type);
        expect_reserved(q, do_release(q, type, KEY(1)), NVME_SUCCESS);
        want_eq(t, "the type of the reservation", report_of(q).type, RESERVATION_NONE);
}

CASE("base/reservation/release-other", MUST, RULES(RESV_RELEASED),
     "Release of a registrant that holds nothing succeeds and changes nothing", RESERVES)
{
        struct queue *q = reserving_queue(t), *other = host_queue(t, 1);
        unsigned type = a_type(q);

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(q, do_release(q, type, KEY(1)), NVME_SUCCESS);
        expect_reserved(other, do_register(other, KEY(2)), NVME_SUCCESS);
        expect_reserved(q, do_acquire(q, type, KEY(1)), NVME_SUCCESS);
        require(t, !is_of_all(type), "all registrants hold a reservation of this type");
        expect_reserved(other, do_release(other, type, KEY(2)), NVME_SUCCESS);
        want_eq(t, "the type of the reservation", report_of(q).type, type);
        want(t, holds(report_of(q), q), "the first host as the holder", "another one");
}

CASE("base/reservation/release-all", MUST, RULES(RESV_RELEASED),
     "A reservation that all registrants hold is released by one that did not acquire it", RESERVES)
{
        struct queue *q = reserving_queue(t), *other = host_queue(t, 1);
        unsigned tried = 0;

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(other, do_register(other, KEY(2)), NVME_SUCCESS);
        for (unsigned type = WRITE_EXCLUSIVE_ALL; type <= EXCLUSIVE_ACCESS_ALL; type++) {
                if (!(rescap(q) >> type & 1))
                        continue;
                tried++;
                expect_reserved(q, do_acquire(q, type, KEY(1)), NVME_SUCCESS);
                expect_reserved(other, do_release(other, type, KEY(2)), NVME_SUCCESS);
                want_eq(t, "the type of the reservation", report_of(q).type, RESERVATION_NONE);
        }
        require(t, tried > 0, "RESCAP names no type that all registrants hold");
}

CASE("base/reservation/release-unregister", MUST, RULES(RESV_RELEASED),
     "A reservation ends when its only holder, or the last of them, unregisters", RESERVES)
{
        struct queue *q = reserving_queue(t), *other = host_queue(t, 1);

        expect_reserved(other, do_register(other, KEY(2)), NVME_SUCCESS);
        for (unsigned type = WRITE_EXCLUSIVE; type <= EXCLUSIVE_ACCESS_ALL; type++) {
                if (!(rescap(q) >> type & 1))
                        continue;
                expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
                expect_reserved(q, do_acquire(q, type, KEY(1)), NVME_SUCCESS);
                expect_reserved(q, do_unregister(q, KEY(1)), NVME_SUCCESS);
                want_eq(t, "the type of the reservation", report_of(q).type,
                        is_of_all(type) ? type : RESERVATION_NONE);
                if (!is_of_all(type))
                        continue;
                expect_reserved(other, do_unregister(other, KEY(2)), NVME_SUCCESS);
                want_eq(t, "the type of the reservation", report_of(q).type, RESERVATION_NONE);
                expect_reserved(other, do_register(other, KEY(2)), NVME_SUCCESS);
        }
}

/* --- preempting */

/* Three hosts that have registered KEY(1), KEY(2) and KEY(2); the first one holds the reservation. */
struct trio {
        struct queue *q[HOSTS];
};

static struct trio trio(struct t *t, unsigned type)
{
        struct trio three = { { reserving_queue(t), host_queue(t, 1), host_queue(t, 2) } };

        require(t, rescap(three.q[0]) >> type & 1, "RESCAP does not name type %u", type);
        for (unsigned i = 0; i < HOSTS; i++)
                expect_reserved(three.q[i], do_register(three.q[i], i > 0 ? KEY(2) : KEY(1)),
                                NVME_SUCCESS);
        expect_reserved(three.q[0], do_acquire(three.q[0], type, KEY(1)), NVME_SUCCESS);
        return three;
}

static void want_registered(struct queue *q, struct queue *of, bool registered)
{
        bool seen = is_registered(report_of(q), of);

        want(q->t, seen == registered,
             registered ? "a host that stays registered" : "a host that is not registered any more",
             seen ? "it is registered" : "it is not registered");
}

CASE("base/reservation/preempt-holder", MUST, RULES(RESV_PREEMPTED),
     "Preempt of the holder's key unregisters the holder and makes the caller holder of the new "
     "type",
     RESERVES)
{
        uint8_t types = rescap(reserving_queue(t));

        for (unsigned type = WRITE_EXCLUSIVE; type <= EXCLUSIVE_ACCESS_REGISTRANTS; type++) {
                struct trio three;
                unsigned after = type == WRITE_EXCLUSIVE ? EXCLUSIVE_ACCESS : WRITE_EXCLUSIVE;

                if (!(types >> type & 1))
                        continue;
                three = trio(t, type);
                expect_reserved(three.q[1], do_preempt(three.q[1], after, KEY(2), KEY(1)),
                                NVME_SUCCESS);
                want_eq(t, "the type of the reservation", report_of(three.q[1]).type, after);
                want(t, holds(report_of(three.q[1]), three.q[1]), "the caller as the holder",
                     "another host");
                want_registered(three.q[1], three.q[0], false);
                want_registered(three.q[1], three.q[2], true);
                expect_reserved(three.q[1], do_clear(three.q[1], KEY(2)), NVME_SUCCESS);
                for (unsigned i = 0; i < HOSTS; i++) /* few targets have room for twelve */
                        hang_up(three.q[i]->admin);
        }
}

CASE("base/reservation/preempt-registrant", MUST, RULES(RESV_PREEMPTED),
     "Preempt of a key that is not the holder's unregisters those who have it and leaves the "
     "reservation",
     RESERVES)
{
        struct trio three = trio(t, WRITE_EXCLUSIVE);

        expect_reserved(three.q[0], do_preempt(three.q[0], EXCLUSIVE_ACCESS, KEY(1), KEY(2)),
                        NVME_SUCCESS);
        want_eq(t, "the type of the reservation", report_of(three.q[0]).type, WRITE_EXCLUSIVE);
        want_registered(three.q[0], three.q[0], true);
        want_registered(three.q[0], three.q[1], false);
        want_registered(three.q[0], three.q[2], false);
}

CASE("base/reservation/preempt-zero", MUST, RULES(RESV_PREEMPTED),
     "Preempt with PRKEY 0 of a reservation that one host holds fails with Invalid Field", RESERVES)
{
        struct trio three = trio(t, WRITE_EXCLUSIVE);

        expect_reserved(three.q[1], do_preempt(three.q[1], EXCLUSIVE_ACCESS, KEY(2), 0),
                        NVME_INVALID_FIELD);
        want_eq(t, "registrants", report_of(three.q[0]).count, HOSTS);
}

CASE("base/reservation/preempt-itself", MUST, RULES(RESV_PREEMPTED),
     "A holder changes the type of its reservation by preempting itself", RESERVES)
{
        struct trio three = trio(t, WRITE_EXCLUSIVE);

        expect_reserved(three.q[0], do_preempt(three.q[0], EXCLUSIVE_ACCESS, KEY(1), KEY(1)),
                        NVME_SUCCESS);
        want_eq(t, "the type of the reservation", report_of(three.q[0]).type, EXCLUSIVE_ACCESS);
        want(t, holds(report_of(three.q[0]), three.q[0]), "the caller as the holder",
             "another host");
        want_eq(t, "registrants", report_of(three.q[0]).count, HOSTS);
}

CASE("base/reservation/preempt-nothing-held", MUST, RULES(RESV_PREEMPTED),
     "Preempt where no reservation is held unregisters those who have the key, and makes none",
     RESERVES)
{
        struct trio three = trio(t, a_type(reserving_queue(t)));

        expect_reserved(three.q[0], do_release(three.q[0], a_type(three.q[0]), KEY(1)),
                        NVME_SUCCESS);
        expect_reserved(three.q[0], do_preempt(three.q[0], a_type(three.q[0]), KEY(1), KEY(2)),
                        NVME_SUCCESS);
        want_eq(t, "the type of the reservation", report_of(three.q[0]).type, RESERVATION_NONE);
        want_eq(t, "registrants", report_of(three.q[0]).count, 1);
}

CASE("base/reservation/preempt-all", MUST, RULES(RESV_PREEMPTED),
     "Preempt with PRKEY 0 takes over what all registrants hold, and unregisters all others",
     RESERVES)
{
        struct trio three = trio(t, WRITE_EXCLUSIVE_ALL);

        expect_reserved(three.q[1], do_preempt(three.q[1], EXCLUSIVE_ACCESS, KEY(2), 0),
                        NVME_SUCCESS);
        want_eq(t, "the type of the reservation", report_of(three.q[1]).type, EXCLUSIVE_ACCESS);
        want_eq(t, "registrants", report_of(three.q[1]).count, 1);
        want(t, holds(report_of(three.q[1]), three.q[1]), "the caller as the holder",
             "another host");
}

/* Up to 2.1 that is not demanded: 2.0 8.19 advises it. */
static void refuse_stranger(struct queue *q, uint64_t key)
{
        uint16_t cid = do_preempt(q, EXCLUSIVE_ACCESS_ALL, KEY(1), key);

        if (caps(q->t)->vs < NVME_VERSION(2, 2, 0))
                prefer_error(q, cid, NVME_RESERVATION_CONFLICT);
        else
                expect_reserved(q, cid, NVME_RESERVATION_CONFLICT);
}

CASE("base/reservation/preempt-one-of-all", MUST, RULES(RESV_PREEMPTED),
     "Where all registrants hold it, Preempt unregisters those with the key, and needs one of them",
     RESERVES)
{
        struct trio three = trio(t, EXCLUSIVE_ACCESS_ALL);
        struct report r;

        refuse_stranger(three.q[0], KEY(9));
        want_eq(t, "registrants", report_of(three.q[0]).count, HOSTS);
        expect_reserved(three.q[0], do_preempt(three.q[0], EXCLUSIVE_ACCESS_ALL, KEY(1), KEY(2)),
                        NVME_SUCCESS);
        r = report_of(three.q[0]);
        want_eq(t, "registrants", r.count, 1);
        want_eq(t, "the type of the reservation", r.type, EXCLUSIVE_ACCESS_ALL);
}

/* A Write whose data we keep back is outstanding on q. The Reservation Acquire waits for those commands that are
 * already being processed: a Write that comes to that later is held against the new reservation, and writes nothing. */
static void end_preempted(struct queue *q, struct r2t r)
{
        static const char expected[] =
            "Command Aborted due to Preempt and Abort (0/1Bh), or Reservation Conflict, after the "
            "Reservation Acquire has completed";
        enum { LATE_MS = 300 };
        uint16_t status;

        if (!comes_within(q, r.cid, LATE_MS))
                serve(q, r);
        status = finish(q, r.cid).status;
        want(q->t, status != NVME_SUCCESS, expected, "Success");
        if (!q->over && status != NVME_PREEMPTED && status != NVME_RESERVATION_CONFLICT)
                lenient(q->t, expected, "status %u/%02Xh", status >> 8, status & 0xff);
}

CASE("base/reservation/preempt-abort", MUST, RULES(RESV_ABORTS),
     "No command of the preempted host succeeds once Preempt and Abort has completed", RESERVES,
     .only = "tcp")
{
        enum { WAIT_MS = 200 };
        struct queue *q = reserving_queue(t), *other = host_queue(t, 1);
        struct r2t r;
        uint16_t acquire;

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(q, do_acquire(q, WRITE_EXCLUSIVE, KEY(1)), NVME_SUCCESS);
        expect_reserved(other, do_register(other, KEY(2)), NVME_SUCCESS);
        r = open_r2t(q);
        acquire = send_acquire(other, RACQA_PREEMPT_ABORT, WRITE_EXCLUSIVE, KEY(2), KEY(1));
        if (comes_within(other, acquire, WAIT_MS)) {
                end_preempted(q, r);
        } else if (!comes_within(q, r.cid, 0)) { /* it may wait for the data */
                serve(q, r);
                finish(q, r.cid);
        }
        expect_reserved(other, acquire, NVME_SUCCESS);
        want_registered(other, q, false);
        expect_works(other);
}

/* --- clearing */

CASE("base/reservation/clear", MUST, RULES(RESV_CLEARED),
     "Clear of a registrant that does not hold the reservation ends it and unregisters all",
     RESERVES)
{
        struct trio three = trio(t, WRITE_EXCLUSIVE);
        struct report r;

        expect_reserved(three.q[1], do_clear(three.q[1], KEY(2)), NVME_SUCCESS);
        r = report_of(three.q[0]);
        want_eq(t, "the type of the reservation", r.type, RESERVATION_NONE);
        want_eq(t, "registrants", r.count, 0);
        all_conflict(three.q[1], KEY(2));
}

/* --- whose they are, and how long */

CASE("base/reservation/host", MUST, RULES(RESV_HOST),
     "A host registered on one controller acquires, writes and releases on another one of its own",
     RESERVES)
{
        struct queue *q = reserving_queue(t), *path = host_queue(t, 0), *other = host_queue(t, 1);

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(path, do_acquire(path, WRITE_EXCLUSIVE, KEY(1)), NVME_SUCCESS);
        expect_reserved(q, send_write(q), NVME_SUCCESS);
        expect_reserved(path, send_write(path), NVME_SUCCESS);
        expect_reserved(other, send_write(other), NVME_RESERVATION_CONFLICT);
        want_eq(t, "registrants", report_of(q).count, 1);
        expect_reserved(q, do_replace(q, KEY(1), KEY(2)), NVME_SUCCESS);
        expect_reserved(path, do_release(path, WRITE_EXCLUSIVE, KEY(2)), NVME_SUCCESS);
        expect_reserved(path, do_unregister(path, KEY(2)), NVME_SUCCESS);
        want_eq(t, "registrants", report_of(q).count, 0);
}

CASE("base/reservation/nameless-host", MUST, RULES(RESV_NAMELESS),
     "With CTRATT.RHII 1 a host with Host Identifier 0 cannot register", RESERVES)
{
        static const uint8_t zero[16];
        struct queue *q, *io;

        reserving_queue(t);
        require(t, le32_get(caps(t)->id.ctratt) & CTRATT_RHII, "CTRATT.RHII is 0");
        q = bare_queue(t);
        require(t, expect_resp(q, send_connect(q, .hostid = zero)).status == NVME_SUCCESS,
                "the target does not accept Host Identifier 0");
        set_cc(q, CC_RUN, CSTS_RDY, CSTS_RDY);
        grant_queue(q);
        io = join(q);
        expect_connected(io, send_connect(io, .hostid = zero));
        expect_reserved(io, do_register(io, KEY(1)), NVME_HOSTID_NOT_SET);
}

CASE("base/reservation/reset", MUST, RULES(RESV_STAYS),
     "Registrations and the reservation survive a Controller Reset and the end of the association",
     RESERVES)
{
        struct queue *q = reserving_queue(t), *other = host_queue(t, 1), *again;
        struct report r;

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(q, do_acquire(q, WRITE_EXCLUSIVE, KEY(1)), NVME_SUCCESS);
        set_cc(q->admin, 0, CSTS_RDY, 0);
        expect_reserved(other, send_write(other), NVME_RESERVATION_CONFLICT);
        hang_up(q->admin);
        again = host_queue(t, 0);
        r = report_of(again);
        want_eq(t, "registrants", r.count, 1);
        want_eq(t, "the type of the reservation", r.type, WRITE_EXCLUSIVE);
        expect_reserved(other, send_write(other), NVME_RESERVATION_CONFLICT);
        expect_reserved(again, send_write(again), NVME_SUCCESS);
}

/* --- Reservation Report */

/* Up to 2.0 CNTLID may be FFFFh of every dynamic controller, and does not say that there is none. */
static bool names_controllers(const struct t *t)
{
        return caps(t)->vs > NVME_VERSION(2, 0, 0);
}

CASE("base/reservation/report", MUST, RULES(RESV_STATUS),
     "Reservation Report lists each registrant with HOSTID, key, controller and its part in the "
     "reservation",
     RESERVES)
{
        struct trio three = trio(t, WRITE_EXCLUSIVE);
        struct report r = report_of(three.q[0]);

        want_eq(t, "registrants", r.count, HOSTS);
        want_eq(t, "bytes of the structure", r.bytes, 64 * (1 + r.entries));
        for (unsigned i = 0; i < HOSTS; i++) {
                const struct registrant_seen *e = registrant_of(&r, three.q[i]);

                want(t, e, "an entry of each host", "none of host %u", i);
                want_eq(t, "the key", e->key, i > 0 ? KEY(2) : KEY(1));
                if (e->cntlid != CNTLID_NOT_ASSOCIATED || names_controllers(t))
                        want_eq(t, "CNTLID", e->cntlid, three.q[i]->admin->cntlid);
                want_eq(t, "RCSTS bit 0", e->holds, i == 0);
        }
        expect_reserved(three.q[0], do_preempt(three.q[0], EXCLUSIVE_ACCESS_ALL, KEY(1), KEY(1)),
                        NVME_SUCCESS);
        r = report_of(three.q[0]);
        for (unsigned i = 0; i < r.count; i++)
                want(t, r.of[i].holds, "all registrants as holders", "one that is none");
}

CASE("base/reservation/report-gone", MUST, RULES(RESV_STATUS),
     "CNTLID of a registrant without a controller is FFFFh in Reservation Report", RESERVES)
{
        struct queue *q = reserving_queue(t), *other = host_queue(t, 1);
        const struct registrant_seen *e;
        struct report r;

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(other, do_register(other, KEY(2)), NVME_SUCCESS);
        begin_shutdown(other->admin, CC_SHN_NORMAL);
        hang_up(other->admin);
        for (int i = 0; i < 100; i++) { /* until the association has ended */
                give_ms(t, 50);
                r = report_of(q);
                e = registrant_of(&r, other);
                require(t, e || names_controllers(t), "VS 2.0 and lower need not list it");
                want(t, e, "an entry of each registrant", "none of host 1");
                if (e->cntlid == CNTLID_NOT_ASSOCIATED)
                        return;
        }
        require(t, names_controllers(t), "VS 2.0 and lower may name a controller that is gone");
        want_eq(t, "CNTLID", e->cntlid, CNTLID_NOT_ASSOCIATED);
}

CASE("base/reservation/report-length", MUST, RULES(RESV_STATUS),
     "Reservation Report moves as much as NUMD asks for, and no more than there is", RESERVES)
{
        struct queue *q = reserving_queue(t);

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        want_eq(t, "bytes of a report of 24", report_bytes(q, 24), 24);
        want_eq(t, "bytes of a report of 100", report_bytes(q, 100), 100);
        want_eq(t, "bytes of a report of 1,024", report_bytes(q, 1024), 128);
}

CASE("base/reservation/report-format", MUST, RULES(RESV_EDS),
     "Reservation Report without EDS fails with Host Identifier Inconsistent Format", RESERVES)
{
        struct queue *q = reserving_queue(t);

        require(t, caps(t)->vs >= NVME_VERSION(1, 3, 0), "this status came with NVMe 1.3");
        expect_reserved(q, send_report(q, 4096, 0), NVME_HOSTID_INCONSISTENT);
}

CASE("base/reservation/generation", MUST, RULES(RESV_GENERATION),
     "GEN increases by 1 with Register, Preempt and Clear, and not with Acquire, Release or a "
     "failure",
     RESERVES)
{
        struct queue *q = reserving_queue(t), *other = host_queue(t, 1);
        uint32_t gen = report_of(q).gen;
        unsigned type = a_type(q);

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(other, do_register(other, KEY(2)), NVME_SUCCESS);
        want_eq(t, "GEN after two Registers", report_of(q).gen, gen += 2);
        expect_reserved(q, do_acquire(q, type, KEY(1)), NVME_SUCCESS);
        expect_reserved(q, do_release(q, type, KEY(1)), NVME_SUCCESS);
        expect_reserved(q, do_register(q, KEY(3)), NVME_RESERVATION_CONFLICT);
        want_eq(t, "GEN after Acquire, Release and a conflict", report_of(q).gen, gen);
        expect_reserved(q, do_preempt(q, type, KEY(1), KEY(2)), NVME_SUCCESS);
        want_eq(t, "GEN after Preempt", report_of(q).gen, gen += 1);
        expect_reserved(q, do_clear(q, KEY(1)), NVME_SUCCESS);
        want_eq(t, "GEN after Clear", report_of(q).gen, gen + 1);
}

CASE("base/reservation/generation-actions", MUST, RULES(RESV_GENERATION),
     "GEN increases by 1 with Replace, Unregister and Preempt and Abort", RESERVES)
{
        struct queue *q = reserving_queue(t), *other = host_queue(t, 1);
        unsigned type = a_type(q);
        uint32_t gen;

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(other, do_register(other, KEY(2)), NVME_SUCCESS);
        gen = report_of(q).gen;
        expect_reserved(q, do_replace(q, KEY(1), KEY(3)), NVME_SUCCESS);
        want_eq(t, "GEN after Replace", report_of(q).gen, ++gen);
        expect_reserved(other, do_unregister(other, KEY(2)), NVME_SUCCESS);
        want_eq(t, "GEN after Unregister", report_of(q).gen, ++gen);
        expect_reserved(other, do_register(other, KEY(2)), NVME_SUCCESS);
        want_eq(t, "GEN after Register", report_of(q).gen, ++gen);
        expect_reserved(q, send_acquire(q, RACQA_PREEMPT_ABORT, type, KEY(3), KEY(2)),
                        NVME_SUCCESS);
        want_eq(t, "GEN after Preempt and Abort", report_of(q).gen, ++gen);
}

/* --- persistence */

/* That it has to be there is another case's business. */
static struct queue *persisting_queue(struct t *t)
{
        struct queue *q = reserving_queue(t);

        require(t, rescap(q) & 1, "RESCAP says that no reservation persists");
        keep_feature(q->admin, FEAT_RESERVATION_PERSISTENCE, caps(t)->nsid, 0, 0);
        return q;
}

CASE("base/reservation/persistence", MUST, RULES(RESV_PERSISTENCE),
     "CPTPL sets the PTPL state that Reservation Report and Get Features of 83h return", RESERVES)
{
        struct queue *q = persisting_queue(t);

        for (unsigned set = 0; set < 4; set++) {
                uint32_t cptpl = set & 1 ? CPTPL_CLEAR : CPTPL_SET;

                expect_reserved(q, send_register(q, cptpl << CPTPL_SHIFT, 0, KEY(1)), NVME_SUCCESS);
                want_eq(t, "PTPLS", report_of(q).ptpls, cptpl == CPTPL_SET);
                want_eq(t, "Reservation Persistence", ptpl_of(q), cptpl == CPTPL_SET);
                expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
                want_eq(t, "PTPLS", report_of(q).ptpls, cptpl == CPTPL_SET);
        }
}

CASE("base/reservation/persistence-feature", MUST, RULES(RESV_PERSISTENCE),
     "Set Features of Reservation Persistence sets the PTPL state of Reservation Report", RESERVES)
{
        struct queue *q = persisting_queue(t);

        for (unsigned set = 0; set < 4; set++) {
                uint32_t nsid = set < 2 ? caps(t)->nsid : each_nsid(t);

                succeed(q->admin,
                        send_cmd(q->admin, .opc = NVME_SET_FEATURES, .nsid = nsid,
                                 .cdw10 = FEAT_RESERVATION_PERSISTENCE, .cdw11 = !(set & 1)));
                want_eq(t, "PTPLS", report_of(q).ptpls, !(set & 1));
                want_eq(t, "Reservation Persistence", ptpl_of(q), !(set & 1));
        }
}

/* --- what a controller has */

static bool has_command(struct queue *q, uint16_t cid)
{
        uint16_t status = finish(q, cid).status;

        return status != NVME_INVALID_OPCODE;
}

CASE("base/reservation/announced", MUST, RULES(RESV_ANNOUNCED),
     "A controller with reservations has their commands, log page and features, and so has another "
     "one",
     RESERVES)
{
        struct queue *q = reserving_queue(t), *other = host_queue(t, 1);
        uint32_t nsid = caps(t)->nsid;

        want(t, has_command(q, send_register(q, 7, 0, 0)), "Reservation Register",
             "Invalid Command Opcode");
        want(t, has_command(q, send_acquire(q, 7, 7, 0, 0)), "Reservation Acquire",
             "Invalid Command Opcode");
        want(t, has_command(q, send_release(q, 7, 7, 0)), "Reservation Release",
             "Invalid Command Opcode");
        want(t, has_command(q, send_report(q, 64, REPORT_EXTENDED)), "Reservation Report",
             "Invalid Command Opcode");
        succeed(q->admin, send_get_log(q->admin, LOG_RESERVATION, 64, 0));
        succeed(q->admin, send_cmd(q->admin, .opc = NVME_GET_FEATURES, .nsid = nsid,
                                   .cdw10 = FEAT_RESERVATION_MASK));
        succeed(q->admin, send_cmd(q->admin, .opc = NVME_GET_FEATURES, .nsid = nsid,
                                   .cdw10 = FEAT_RESERVATION_PERSISTENCE));
        want(t, le16_get(identify_ctrl(other->admin)->oncs) & ONCS_RESERVATIONS,
             "reservations on each controller of the subsystem", "one without them");
}

CASE("base/reservation/unsupported", MUST, RULES(RESV_REFUSED),
     "A reservation command where there are no reservations fails with Invalid Command Opcode",
     .writes = true)
{
        struct queue *q = io_queue(t);

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        require(t, !(le16_get(caps(t)->id.oncs) & ONCS_RESERVATIONS) || !rescap(q),
                "the namespace has reservations");
        expect_reserved(q, do_register(q, KEY(1)), NVME_INVALID_OPCODE);
        expect_reserved(q, send_report(q, 64, REPORT_EXTENDED), NVME_INVALID_OPCODE);
}

CASE("base/reservation/capabilities", MUST, RULES(RESV_CAPABLE),
     "RESCAP of a namespace with reservations says that they can persist through a loss of power")
{
        struct queue *q = admin_queue(t);
        uint8_t cap;

        require(t, le16_get(caps(t)->id.oncs) & ONCS_RESERVATIONS,
                "ONCS does not announce reservations");
        require(t, caps(t)->nsid, "the subsystem has no namespace");
        identify_ctrl(q); /* who reads its capture knows what kind of controller this is */
        cap = ((const struct id_ns *)identify(q, CNS_NS, caps(t)->nsid))->rescap;
        require(t, cap, "the namespace has no reservations");
        want(t, cap & RESCAP_PTPL, "bit 0 of RESCAP", "%02Xh", cap);
        want(t, cap & RESCAP_TYPES, "a type of reservation in RESCAP", "%02Xh", cap);
}

static bool is_null(const uint8_t *p, size_t n)
{
        while (n > 0 && p[n - 1] == 0)
                n--;
        return n == 0;
}

CASE("base/reservation/report-reserved", SHOULD, RULES(RESV_RESERVED),
     "Reserved bytes of the header and of the registrants in Reservation Report are 0", RESERVES)
{
        struct queue *q = reserving_queue(t);
        const struct reservation_status *s;
        const struct reservation_entry_extended *e;
        struct reply r;

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        r = succeed(q, send_report(q, 4096, REPORT_EXTENDED));
        require(t, r.got >= REPORT_HEADER + sizeof(*e), "no registrant in the report");
        s = (const void *)r.data;
        e = (const void *)(r.data + REPORT_HEADER);
        want(t, is_null(s->rsvd7, sizeof(s->rsvd7)), "bytes 8:7 of 0", "others");
        want(t, is_null(s->rsvd10, sizeof(s->rsvd10)), "bytes 23:10 of 0", "others");
        want(t, is_null(r.data + sizeof(*s), REPORT_HEADER - sizeof(*s)), "bytes 63:24 of 0",
             "others");
        want(t, is_null(e->rsvd3, sizeof(e->rsvd3)) && is_null(e->rsvd32, sizeof(e->rsvd32)),
             "reserved bytes of the first registrant of 0", "others");
}

CASE("base/reservation/room", MUST, RULES(RESV_ROOM),
     "As many hosts as have controllers can register", RESERVES)
{
        struct queue *q = reserving_queue(t), *second = host_queue(t, 1), *third = host_queue(t, 2);

        expect_reserved(q, do_register(q, KEY(1)), NVME_SUCCESS);
        expect_reserved(second, do_register(second, KEY(2)), NVME_SUCCESS);
        expect_reserved(third, do_register(third, KEY(3)), NVME_SUCCESS);
        want_eq(t, "registrants", report_of(q).count, HOSTS);
}
