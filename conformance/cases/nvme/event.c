/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events and what they are about (Base 2.2 5.1.2, 5.1.12): the target is made to change. */
#include <string.h>

#include "conformance/words/case.h"

enum {
        QUIET_MS = 300,
        NS_EVENT = AEN_NOTICE | AEN_INFO_NS_CHANGED << 8 | LOG_CHANGED_NS << 16,
        DISCOVERY_EVENT = AEN_NOTICE | AEN_INFO_DISCOVERY << 8 | LOG_DISCOVERY << 16,
        LIST = 1024, /* NSIDs of a list */
};

static void ask_for(struct queue *q, uint32_t events)
{
        succeed(q, send_set_feature(q, FEAT_AEC, events));
}

/* An association that is told of namespaces, nothing having happened yet. */
static struct queue *watcher(struct t *t)
{
        struct queue *q = admin_queue(t);

        require(t, le32_get(caps(t)->id.oaes) & OAES_NS,
                "OAES does not announce Namespace "
                "Attribute Notices");
        ask_for(q, AEC_NS);
        return q;
}

/* ... of discovery logs. */
static struct queue *discovery_watcher(struct t *t)
{
        struct queue *q;

        require(t, caps(t)->persistent,
                "the discovery service does not support persistent "
                "connections");
        q = discovery_queue(t, .kato = 120000);
        require(t, le32_get(identify_ctrl(q)->oaes) & OAES_DISCOVERY,
                "OAES does not announce Discovery Log Page Change");
        ask_for(q, AEC_DISCOVERY);
        return q;
}

/* ... and the target has it before anything changes. */
static uint16_t send_aer(struct queue *q)
{
        uint16_t cid = send_cmd(q, .opc = NVME_AER);

        expect_works(q);
        return cid;
}

static void expect_event(struct queue *q, uint16_t aer, uint32_t event)
{
        want_eq(q->t, "type, information and log page of the event", expect_success(q, aer).dw0,
                event);
}

/* The list, and what it says is known. */
static const le32_t *read_changed(struct queue *q, bool retain)
{
        uint32_t dw10 = LOG_CHANGED_NS | (retain ? 1u << 15 : 0) | (LIST - 1) << 16;

        return (const le32_t *)succeed(q, send_cmd(q, .opc = NVME_GET_LOG_PAGE, .nsid = 0xffffffff,
                                                   .cdw10 = dw10, .bytes = 4 * LIST))
            .data;
}

/* --- events */

CASE("base/event/reported", MUST, RULES(AER_REPORTED),
     "A namespace change is reported to every controller that enables the notice", .changes = true)
{
        struct queue *q = watcher(t), *other = watcher(t);
        uint16_t cid = send_aer(q), cid_other = send_aer(other);

        change(t, CHANGE_NAMESPACES);
        expect_event(q, cid, NS_EVENT);
        expect_event(other, cid_other, NS_EVENT);
        expect_works(q);
}

CASE("base/event/once", MUST, RULES(AER_HELD),
     "One change completes one Asynchronous Event Request", .changes = true)
{
        struct queue *q = watcher(t);

        require(t, caps(t)->id.aerl > 0, "AERL is 0");
        send_aer(q);
        send_aer(q);
        change(t, CHANGE_NAMESPACES);
        want_eq(t, "the event", expect_next(q).dw0, NS_EVENT);
        expect_silence(q, QUIET_MS);
}

CASE("base/event/masked", MUST, RULES(AER_MASKED),
     "A reported event type is reported again only after its log page was read", .changes = true)
{
        struct queue *q = watcher(t);
        uint16_t cid = send_aer(q);

        change(t, CHANGE_NAMESPACES);
        expect_event(q, cid, NS_EVENT);
        cid = send_aer(q);
        change(t, CHANGE_NAMESPACES);
        expect_silence(q, QUIET_MS);
        read_changed(q, false);
        change(t, CHANGE_NAMESPACES);
        expect_event(q, cid, NS_EVENT);
}

CASE("base/event/kept", SHOULD, RULES(AER_KEPT),
     "A change without an outstanding Asynchronous Event Request is reported to the next one",
     .changes = true)
{
        struct queue *q = watcher(t);

        change(t, CHANGE_NAMESPACES);
        pause_ms(t, QUIET_MS);
        expect_event(q, send_aer(q), NS_EVENT);
}

CASE("base/event/asked", MUST, RULES(AER_ASKED),
     "With Asynchronous Event Configuration 0, no namespace change is reported", .changes = true)
{
        struct queue *q = watcher(t);

        ask_for(q, 0);
        send_aer(q);
        change(t, CHANGE_NAMESPACES);
        expect_silence(q, QUIET_MS);
        expect_works(q);
}

/* --- log pages */

CASE("base/log/rae", MUST, RULES(LOG_RAE), "Reading a log page with RAE 1 leaves its event masked",
     .changes = true)
{
        struct queue *q = watcher(t);
        uint16_t cid = send_aer(q);

        change(t, CHANGE_NAMESPACES);
        expect_event(q, cid, NS_EVENT);
        read_changed(q, true);
        send_aer(q);
        change(t, CHANGE_NAMESPACES);
        expect_silence(q, QUIET_MS);
}

static bool lists(const le32_t *list, uint32_t nsid)
{
        for (unsigned i = 0; i < LIST && le32_get(list[i]); i++)
                if (le32_get(list[i]) == nsid)
                        return true;
        return false;
}

/* Each NSID that only one of the two lists has is among those that changed. */
static void want_changes(struct t *t, const le32_t *a, const le32_t *b, const le32_t *changed)
{
        for (unsigned i = 0; i < LIST && le32_get(a[i]); i++)
                want(t, lists(b, le32_get(a[i])) || lists(changed, le32_get(a[i])),
                     "the changed namespace in the list", "NSID %u is not in the list",
                     le32_get(a[i]));
}

CASE("base/log/changed-namespaces", MUST, RULES(LOG_CHANGED),
     "The Changed Attached Namespace List names the changed namespaces, and is empty after it was "
     "read",
     .changes = true)
{
        static const uint8_t none[4 * LIST];
        struct queue *q = watcher(t);
        const le32_t *before = identify(q, CNS_NS_LIST, 0), *after, *changed;

        send_aer(q);
        want_bytes(t, "the list of a new controller", read_changed(q, false), none, sizeof(none));
        change(t, CHANGE_NAMESPACES);
        pause_ms(t, QUIET_MS);
        after = identify(q, CNS_NS_LIST, 0);
        changed = read_changed(q, false);
        want(t, le32_get(changed[0]) != 0, "a changed namespace", "none");
        if (le32_get(changed[0]) != UINT32_MAX) { /* too many to be listed */
                want_changes(t, before, after, changed);
                want_changes(t, after, before, changed);
        }
        want_bytes(t, "the list after it was read", read_changed(q, false), none, sizeof(none));
}

/* --- discovery */

static struct disc_header read_header(struct queue *q)
{
        struct disc_header h;

        memcpy(&h, get_log(q, LOG_DISCOVERY, DISC_HEADER_LEN, 0), sizeof(h));
        return h;
}

/* A change of what the log shows: how far GENCTR has moved. */
static uint64_t change_log(struct queue *q)
{
        struct disc_header before = read_header(q), after;

        change(q->t, CHANGE_DISCOVERY);
        pause_ms(q->t, QUIET_MS);
        after = read_header(q);
        require(q->t, le64_get(before.numrec) != le64_get(after.numrec),
                "the discovery log has as many entries as before");
        return le64_get(after.genctr) - le64_get(before.genctr);
}

CASE("fab/discovery/event-reported", MUST, RULES(AER_REPORTED),
     "A change of the discovery log is reported as Discovery Log Page Change", .needs = DISCOVERY,
     .changes = true)
{
        struct queue *q = discovery_watcher(t);
        uint16_t cid = send_aer(q);

        change_log(q);
        expect_event(q, cid, DISCOVERY_EVENT);
}

CASE("fab/discovery/genctr-step", MUST, RULES(DISC_GENCTR_STEP),
     "GENCTR increases by 1 with a change of the discovery log", .needs = DISCOVERY,
     .changes = true, .related = "blktests nvme/030")
{
        want_eq(t, "the increase of GENCTR", change_log(discovery_queue(t)), 1);
}
