/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 3.1.4.7, 3.1.4.20, 3.6.3, 3.7.1: reset and shutdown of a whole subsystem, one that the run may
 * do this to. */
#include "conformance/words/case.h"

enum {
        WAIT_MS = 20000, /* a shutdown has no deadline: then the case says so */
        POLL_MS = 20,
        QUIET_MS = 100,
        LATE_MS = 5000,        /* until a reset shows */
        EVENT = AEN_IMMEDIATE, /* Normal NVM Subsystem Shutdown, which has no log page */
        SHST = CSTS_SHST_OCCURS | CSTS_SHST_COMPLETE,
};

static uint32_t csts(struct queue *q)
{
        return (uint32_t)property_get(q, PROP_CSTS);
}

/* One more association with it; all of these cases are about its capabilities. */
static struct queue *whole(struct t *t, uint64_t capability)
{
        struct queue *q;

        require(t, caps(t)->expendable, "no subsystem may be reset as a whole (--expendable-nqn)");
        q = admin_queue(t, .subnqn = caps(t)->expendable);
        require(t, (property_get(q, PROP_CAP) & capability) == capability,
                "CAP does not announce it (NSSRS, NSSS)");
        return q;
}

/* The connection ends before or after the response; how soon nobody says. */
static void reset_subsystem(struct queue *q)
{
        q->patience = WAIT_MS;
        expect_answer(q, send_property_set(q, PROP_NSSR, PROP_ATTRIB_4, NSSR_RESET));
}

/* However the case ended. */
static void restore(struct t *t)
{
        struct queue *q;

        if (!caps(t)->expendable)
                return;
        await_target(t);
        q = admin_queue(t, .subnqn = caps(t)->expendable, .disabled = true);
        if (csts(q) & SHST)
                reset_subsystem(q);
}

/* As soon as one controller says that the shutdown is complete, the other one does. */
static void want_down(struct queue *q, struct queue *other)
{
        uint32_t a = 0, b = 0;

        for (unsigned ms = 0; CSTS_SHST(a) != 2 || CSTS_SHST(b) != 2; ms += POLL_MS) {
                require(q->t, ms < WAIT_MS, "the shutdown takes longer than %d s", WAIT_MS / 1000);
                a = csts(q);
                b = csts(other);
                if (CSTS_SHST(a) == 2)
                        want_eq(q->t, "SHST of the other controller", CSTS_SHST(b), 2);
                else if (CSTS_SHST(b) == 2)
                        want_eq(q->t, "SHST of this controller", CSTS_SHST(csts(q)), 2);
                else
                        pause_ms(q->t, POLL_MS);
        }
        want(q->t, a & CSTS_ST && b & CSTS_ST, "CSTS.ST of 1 on both controllers",
             "CSTS %08Xh and %08Xh", a, b);
}

CASE("fab/subsystem/reset", MUST, RULES(FAB_NSSR),
     "An NVM Subsystem Reset ends the associations of all controllers, and CSTS.NSSRO tells of it",
     .alone = true)
{
        struct queue *q = whole(t, CAP_NSSRS), *other = whole(t, CAP_NSSRS);

        reset_subsystem(q);
        expect_end(q, LATE_MS);
        expect_end(other, LATE_MS);
        give_ms(t, QUIET_MS);
        await_target(t);
        q = whole(t, CAP_NSSRS);
        want_eq(t, "CSTS.NSSRO", csts(q) & CSTS_NSSRO, CSTS_NSSRO);
        property_set(q, PROP_CSTS, CSTS_NSSRO);
        want_eq(t, "CSTS.NSSRO when it was cleared", csts(q) & CSTS_NSSRO, 0);
        identify_ctrl(q);
}

CASE("fab/subsystem/other-values", MUST, RULES(FAB_NSSR_OTHER),
     "Values of NSSR and NSSD that have no meaning neither reset the subsystem nor shut it down",
     .alone = true, .after = restore)
{
        struct queue *q = whole(t, CAP_NSSRS), *other = whole(t, CAP_NSSRS);
        uint32_t before = csts(q);

        expect_answer(q, send_property_set(q, PROP_NSSR, PROP_ATTRIB_4, 1));
        expect_answer(q, send_property_set(q, PROP_NSSR, PROP_ATTRIB_4, NSSR_RESET ^ 0x20));
        if (property_get(other, PROP_CAP) & CAP_SHUTDOWN_ALL)
                expect_answer(q,
                              send_property_set(q, PROP_NSSD, PROP_ATTRIB_4, NSSD_NORMAL ^ 0x20));
        give_ms(t, QUIET_MS);
        want_eq(t, "CSTS", csts(q), before);
        identify_ctrl(q);
        identify_ctrl(other);
}

CASE("fab/subsystem/shutdown", MUST, RULES(FAB_NSS),
     "An NVM Subsystem Shutdown that is complete on one controller is so on one shut down before",
     .alone = true, .after = restore)
{
        struct queue *q = whole(t, CAP_SHUTDOWN_ALL), *other = whole(t, CAP_SHUTDOWN_ALL);

        set_slowly(other, PROP_CC, with_css(other, CC_RUN) | CC_SHN_NORMAL);
        set_slowly(q, PROP_NSSD, NSSD_ABRUPT);
        want_down(q, other);
}

/* With CAP.NSSES 1 by B2.2 3.6.3; before NVMe 2.1 a Controller Reset had no effect. */
CASE("fab/subsystem/shutdown-stays", MUST, RULES(FAB_NSS_STAYS),
     "After an NVM Subsystem Shutdown CSTS stays shut down through CC.SHN and a Controller Reset",
     .alone = true, .after = restore)
{
        struct queue *q = whole(t, CAP_SHUTDOWN_ALL | CAP_SHUTDOWN_STAYS | CAP_NSSRS);
        struct queue *other = whole(t, CAP_SHUTDOWN_ALL | CAP_SHUTDOWN_STAYS | CAP_NSSRS);
        uint32_t run = with_css(q, CC_RUN);

        set_slowly(q, PROP_NSSD, NSSD_NORMAL);
        want_down(q, other);
        set_slowly(q, PROP_CC, run | CC_SHN_NORMAL);
        want_eq(t, "SHN of CC", CC_SHN(property_get(q, PROP_CC)), 1);
        want_eq(t, "ST and SHST after CC.SHN", csts(q) & (CSTS_ST | SHST),
                CSTS_ST | CSTS_SHST_COMPLETE);
        set_cc(q, 0, CSTS_RDY, 0);
        want_eq(t, "ST and SHST after a Controller Reset", csts(q) & (CSTS_ST | SHST),
                CSTS_ST | CSTS_SHST_COMPLETE);
        set_slowly(q, PROP_CC, run);
        give_ms(t, QUIET_MS);
        want_eq(t, "EN of CC", property_get(q, PROP_CC) & CC_EN, CC_EN);
        want_eq(t, "RDY, ST and SHST after CC.EN", csts(q) & (CSTS_RDY | CSTS_ST | SHST),
                CSTS_ST | CSTS_SHST_COMPLETE);
        reset_subsystem(q);
        expect_end(q, LATE_MS);
        give_ms(t, QUIET_MS);
        await_target(t);
        q = admin_queue(t, .subnqn = caps(t)->expendable, .disabled = true);
        want_eq(t, "ST and SHST after an NVM Subsystem Reset", csts(q) & (CSTS_ST | SHST), 0);
        set_cc(q, CC_RUN, CSTS_RDY, CSTS_RDY);
        identify_ctrl(q);
}

CASE(
    "fab/subsystem/shutdown-event", MUST, RULES(FAB_NSS_EVENT),
    "A normal NVM Subsystem Shutdown is reported by each controller that has an Asynchronous Event "
    "Request",
    .alone = true, .after = restore)
{
        struct queue *q = whole(t, CAP_SHUTDOWN_ALL), *other = whole(t, CAP_SHUTDOWN_ALL);
        uint16_t aer = send_cmd(q, .opc = NVME_AER), aer_other = send_cmd(other, .opc = NVME_AER);

        identify_ctrl(q);
        identify_ctrl(other);
        set_slowly(q, PROP_NSSD, NSSD_NORMAL);
        want_eq(t, "the event of this controller", expect_success(q, aer).dw0, EVENT);
        want_eq(t, "the event of the other controller", expect_success(other, aer_other).dw0,
                EVENT);
}
