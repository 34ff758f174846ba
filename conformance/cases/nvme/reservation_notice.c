/* SPDX-License-Identifier: BSD-3-Clause */
/* What other hosts are told of reservations: Base 2.2 8.1.22.2, 5.1.12.1.32, 5.1.25.1.29. */
#include <string.h>

#include "conformance/words/case_reservation.h"

enum {
        ALL_MS = 300, /* until all of several are there */
        LOST = 300,   /* more notices than a page can say are left */
        EVENT = AEN_COMMAND_SET | AEN_INFO_RESERVATION << 8 | LOG_RESERVATION << 16
};

static struct log_reservation read_notice(struct queue *q, bool retain)
{
        struct log_reservation page;
        uint32_t dw10 = LOG_RESERVATION | (retain ? 1u << 15 : 0) | (sizeof(page) / 4 - 1) << 16;

        memcpy(&page,
               succeed(q->admin, send_cmd(q->admin, .opc = NVME_GET_LOG_PAGE, .nsid = NSID_ALL,
                                          .cdw10 = dw10, .bytes = sizeof(page)))
                   .data,
               sizeof(page));
        return page;
}

/* A notice is there some time after what it is about: nothing says how soon. */
static struct log_reservation next_notice(struct queue *q)
{
        struct log_reservation page = read_notice(q, false);
        uint64_t until = 0;

        while (!page.type && look_again(q->t, &until))
                page = read_notice(q, false);
        return page;
}

/* The next page of q has this type, and our namespace. */
static void want_notice(struct queue *q, unsigned type)
{
        struct log_reservation page = type ? next_notice(q) : read_notice(q, false);

        want_eq(q->t, "the type of the notice", page.type, type);
        if (type)
                want_eq(q->t, "the namespace of the notice", le32_get(page.nsid), caps(q->t)->nsid);
}

/* The first host holds the reservation, the second one is registered, too; neither knows of any notice. */
struct pair {
        struct queue *q, *other;
};

static struct pair pair(struct t *t, unsigned type)
{
        struct pair p = { reserving_queue(t), host_queue(t, 1) };

        require(t, rescap(p.q) >> type & 1, "RESCAP does not name type %u", type);
        expect_reserved(p.q, do_register(p.q, KEY(1)), NVME_SUCCESS);
        expect_reserved(p.other, do_register(p.other, KEY(2)), NVME_SUCCESS);
        expect_reserved(p.q, do_acquire(p.q, type, KEY(1)), NVME_SUCCESS);
        return p;
}

/* --- which notices */

CASE("base/reservation/notice-preempted", MUST, RULES(RESV_NOTICE),
     "A host whose registration is preempted is told so, and the one that preempts is told nothing",
     RESERVES)
{
        struct pair p = pair(t, WRITE_EXCLUSIVE);

        expect_reserved(p.other, do_preempt(p.other, WRITE_EXCLUSIVE, KEY(2), KEY(1)),
                        NVME_SUCCESS);
        want_notice(p.q, REGISTRATION_PREEMPTED);
        want_notice(p.q, 0);
        want_notice(p.other, 0);
}

CASE(
    "base/reservation/notice-type-changed", MUST, RULES(RESV_NOTICE),
    "Registrants that stay are told that a reservation was released where Preempt changes its type",
    RESERVES)
{
        struct pair p = pair(t, WRITE_EXCLUSIVE);
        struct queue *third = host_queue(t, 2);

        expect_reserved(third, do_register(third, KEY(3)), NVME_SUCCESS);
        expect_reserved(p.other, do_preempt(p.other, WRITE_EXCLUSIVE_REGISTRANTS, KEY(2), KEY(1)),
                        NVME_SUCCESS);
        want_notice(p.q, REGISTRATION_PREEMPTED);
        want_notice(third, RESERVATION_RELEASED);
}

CASE("base/reservation/notice-released", MUST, RULES(RESV_NOTICE),
     "Other registrants are told of the release of types 3 to 6, and not of types 1 and 2",
     RESERVES)
{
        struct pair p = pair(t, WRITE_EXCLUSIVE);

        expect_reserved(p.q, do_release(p.q, WRITE_EXCLUSIVE, KEY(1)), NVME_SUCCESS);
        want_notice(p.other, 0);
        for (unsigned type = EXCLUSIVE_ACCESS; type <= EXCLUSIVE_ACCESS_ALL; type++) {
                if (!(rescap(p.q) >> type & 1))
                        continue;
                expect_reserved(p.q, do_acquire(p.q, type, KEY(1)), NVME_SUCCESS);
                expect_reserved(p.q, do_release(p.q, type, KEY(1)), NVME_SUCCESS);
                want_notice(p.other, type > EXCLUSIVE_ACCESS ? RESERVATION_RELEASED : 0);
                want_notice(p.q, 0);
        }
}

CASE(
    "base/reservation/notice-unregistered", MUST, RULES(RESV_NOTICE),
    "Other registrants are told of a release when the holder of a type for registrants unregisters",
    RESERVES)
{
        struct pair p = pair(t, WRITE_EXCLUSIVE_REGISTRANTS);

        expect_reserved(p.q, do_unregister(p.q, KEY(1)), NVME_SUCCESS);
        want_notice(p.other, RESERVATION_RELEASED);
        want_notice(p.other, 0);
}

CASE("base/reservation/notice-cleared", MUST, RULES(RESV_NOTICE),
     "Other registrants are told that a reservation was preempted when it is cleared", RESERVES)
{
        struct pair p = pair(t, WRITE_EXCLUSIVE);

        expect_reserved(p.other, do_clear(p.other, KEY(2)), NVME_SUCCESS);
        want_notice(p.q, RESERVATION_PREEMPTED);
        want_notice(p.other, 0);
}

CASE("base/reservation/notice-each-controller", MUST, RULES(RESV_NOTICE),
     "Each controller of a host that is preempted has the notice", RESERVES)
{
        struct pair p = pair(t, WRITE_EXCLUSIVE);
        struct queue *path = host_queue(t, 0);

        expect_reserved(p.other, do_preempt(p.other, WRITE_EXCLUSIVE, KEY(2), KEY(1)),
                        NVME_SUCCESS);
        want_notice(p.q, REGISTRATION_PREEMPTED);
        want_notice(path, REGISTRATION_PREEMPTED);
}

/* --- the log page */

/* One notice for q: a reservation that another host releases. */
static void release_once(const struct pair *p)
{
        expect_reserved(p->q, do_acquire(p->q, WRITE_EXCLUSIVE_REGISTRANTS, KEY(1)), NVME_SUCCESS);
        expect_reserved(p->q, do_release(p->q, WRITE_EXCLUSIVE_REGISTRANTS, KEY(1)), NVME_SUCCESS);
}

static struct pair releasing_pair(struct t *t)
{
        struct pair p = pair(t, WRITE_EXCLUSIVE_REGISTRANTS);

        expect_reserved(p.q, do_release(p.q, WRITE_EXCLUSIVE_REGISTRANTS, KEY(1)), NVME_SUCCESS);
        want_notice(p.other, RESERVATION_RELEASED);
        return p;
}

CASE("base/reservation/log-order", MUST, RULES(RESV_LOG),
     "The log has the notices in order, counted, with the number of those that are left", RESERVES)
{
        struct pair p = releasing_pair(t); /* its notice was the first one */
        struct log_reservation page;

        for (int i = 0; i < 3; i++)
                release_once(&p);
        give_ms(t, ALL_MS);
        for (unsigned i = 0; i < 3; i++) {
                page = read_notice(p.other, i == 1);
                want_eq(t, "the count of the page", le64_get(page.count), 2 + i);
                want_eq(t, "the pages that are left", page.available, 2 - i);
                want_eq(t, "the type of the notice", page.type, RESERVATION_RELEASED);
        }
        page = read_notice(p.other, false);
        want(t, !page.type && !le64_get(page.count) && !le32_get(page.nsid), "an empty page",
             "type %u, count %llu", page.type, (unsigned long long)le64_get(page.count));
        release_once(&p);
        want_eq(t, "the count after an empty page", le64_get(next_notice(p.other).count), 5);
}

CASE("base/reservation/log-reset", MUST, RULES(RESV_LOG),
     "Log pages are counted from 1 on after a Controller Reset", RESERVES)
{
        struct pair p = releasing_pair(t);
        struct queue *admin = p.other->admin;

        set_cc(admin, 0, CSTS_RDY, 0);
        set_cc(admin, CC_RUN, CSTS_RDY, CSTS_RDY);
        release_once(&p);
        want_eq(t, "the count of the page", le64_get(next_notice(p.other).count), 1);
}

CASE("base/reservation/log-lost", MUST, RULES(RESV_LOG),
     "Where notices are lost the count of the last page in the log is that of the last one lost",
     RESERVES)
{
        struct pair p = releasing_pair(t);
        struct log_reservation page;
        uint64_t last = 1;
        unsigned pages = 0;

        read_notice(p.other, false);
        for (unsigned i = 0; i < LOST; i++) {
                if (is_enough(t, i, LOST))
                        skip(t, "the target is too slow for %u notices", LOST);
                release_once(&p);
        }
        while ((page = last > LOST ? read_notice(p.other, false) : next_notice(p.other)).type) {
                want(t, le64_get(page.count) > last, "counts that increase", "%llu after %llu",
                     (unsigned long long)le64_get(page.count), (unsigned long long)last);
                last = le64_get(page.count);
                want(t, ++pages <= LOST, "as many pages as notices at most", "more");
        }
        want_eq(t, "the count of the last page", last, LOST + 1);
}

/* --- masks */

static uint16_t send_mask(struct queue *q, uint32_t nsid, uint32_t mask)
{
        return send_cmd(q->admin, .opc = NVME_SET_FEATURES, .nsid = nsid,
                        .cdw10 = FEAT_RESERVATION_MASK, .cdw11 = mask);
}

static uint32_t mask_of(struct queue *q)
{
        return succeed(q->admin, send_cmd(q->admin, .opc = NVME_GET_FEATURES,
                                          .nsid = caps(q->t)->nsid, .cdw10 = FEAT_RESERVATION_MASK))
            .dw0;
}

CASE("base/reservation/mask", MUST, RULES(RESV_MASK),
     "A masked notice makes no log page; others do, and so does it when it is not masked any more",
     RESERVES)
{
        struct pair p = releasing_pair(t);

        succeed(p.other->admin, send_mask(p.other, caps(t)->nsid, 1 << RESERVATION_RELEASED));
        want_eq(t, "Reservation Notification Mask", mask_of(p.other), 1 << RESERVATION_RELEASED);
        release_once(&p);
        want_notice(p.other, 0);
        succeed(p.other->admin, send_mask(p.other, each_nsid(t), 0));
        want_eq(t, "Reservation Notification Mask", mask_of(p.other), 0);
        release_once(&p);
        want_notice(p.other, RESERVATION_RELEASED);
        succeed(p.other->admin, send_mask(p.other, each_nsid(t), 1 << RESERVATION_RELEASED));
        want_eq(t, "Reservation Notification Mask", mask_of(p.other), 1 << RESERVATION_RELEASED);
        expect_reserved(p.q, do_clear(p.q, KEY(1)), NVME_SUCCESS);
        want_notice(p.other, RESERVATION_PREEMPTED);
}

/* Another active namespace with reservations; 0: there is none. */
static uint32_t other_namespace(struct queue *q)
{
        const le32_t *list = identify(q->admin, CNS_NS_LIST, 0);

        for (unsigned i = 0; i < IDENTIFY_LEN / 4 && le32_get(list[i]); i++) {
                uint32_t nsid = le32_get(list[i]);
                const struct id_ns *id = identify_optional(q->admin, CNS_NS, nsid);

                if (nsid != caps(q->t)->nsid && id && id->rescap)
                        return nsid;
        }
        return 0;
}

CASE("base/reservation/mask-one", MUST, RULES(RESV_MASK),
     "The mask of one namespace leaves the notices of another one", RESERVES)
{
        struct pair p = releasing_pair(t);
        uint32_t nsid = other_namespace(p.other);

        require(t, nsid, "there is no other namespace with reservations");
        keep_feature(p.other->admin, FEAT_RESERVATION_MASK, nsid, 0, 0);
        succeed(p.other->admin, send_mask(p.other, nsid, 1 << RESERVATION_RELEASED));
        want_eq(t, "Reservation Notification Mask", mask_of(p.other), 0);
        release_once(&p);
        want_notice(p.other, RESERVATION_RELEASED);
}

CASE("base/reservation/mask-refused", MUST, RULES(RESV_MASK),
     "Set Features of 82h and 83h for a namespace that does not exist fails with Invalid Field",
     RESERVES)
{
        struct queue *q = reserving_queue(t);

        expect_error(q->admin, send_mask(q, NSID_ALL - 1, 0), NVME_INVALID_FIELD);
        expect_error(q->admin,
                     send_cmd(q->admin, .opc = NVME_SET_FEATURES, .nsid = NSID_ALL - 1,
                              .cdw10 = FEAT_RESERVATION_PERSISTENCE),
                     NVME_INVALID_FIELD);
}

/* --- events */

CASE("base/reservation/event", MUST, RULES(RESV_EVENT),
     "A notice completes an Asynchronous Event Request, and the next one after the log was read",
     RESERVES)
{
        enum { QUIET_MS = 150 };
        struct pair p = releasing_pair(t);
        struct queue *admin = p.other->admin;
        uint16_t cid;

        disable_events(admin); /* of other kinds */
        cid = send_cmd(admin, .opc = NVME_AER);
        expect_works(admin);
        release_once(&p);
        want_eq(t, "type, information and log page of the event", expect_success(admin, cid).dw0,
                EVENT);
        cid = send_cmd(admin, .opc = NVME_AER);
        release_once(&p);
        read_notice(p.other, true);
        release_once(&p);
        expect_silence(admin, QUIET_MS);
        read_notice(p.other, false);
        read_notice(p.other, false);
        release_once(&p);
        want_eq(t, "type, information and log page of the event", expect_success(admin, cid).dw0,
                EVENT);
}
