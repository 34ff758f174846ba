/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events and what they are about (Base 2.2 5.1.2, 5.1.12): the target is made to change. */
#include <string.h>

#include "conformance/engine/suite.h"
#include "conformance/words/case.h"

enum {
        SETTLE_MS = 100, /* until all of a change has been noticed */
        SILENCE_MS = 100,
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

/* Namespaces change, and this controller has noticed: its list names one. Its event stays, by RAE. */
static void change_noticed(struct queue *q)
{
        uint64_t until = 0;

        require(q->t, caps(q->t)->vs >= NVME_VERSION(1, 3, 0), "RAE was added in NVMe 1.3");
        change(q->t, CHANGE_NAMESPACES);
        while (!le32_get(read_changed(q, true)[0]))
                require(q->t, look_again(q->t, &until), "no changed namespace is listed");
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

CASE("base/event/log-page", MUST, RULES(AER_FORM),
     "The completion about a namespace change names log page 04h", .changes = true)
{
        struct queue *q = watcher(t);
        uint16_t cid = send_aer(q);

        change(t, CHANGE_NAMESPACES);
        want_eq(t, "the log page", expect_success(q, cid).dw0 >> 16, LOG_CHANGED_NS);
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
        expect_silence(q, SILENCE_MS);
}

CASE("base/event/masked", MUST, RULES(AER_MASKED),
     "A reported event type is reported again only after its log page was read", .changes = true)
{
        struct queue *q = watcher(t);
        uint16_t cid = send_aer(q);

        change(t, CHANGE_NAMESPACES);
        expect_event(q, cid, NS_EVENT);
        cid = send_aer(q);
        change_noticed(q);
        expect_silence(q, SILENCE_MS);
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
        give_ms(t, SETTLE_MS);
        expect_event(q, send_aer(q), NS_EVENT);
}

CASE("base/event/asked", MUST, RULES(AER_ASKED),
     "With Asynchronous Event Configuration 0, no namespace change is reported", .changes = true)
{
        struct queue *q = watcher(t);

        ask_for(q, 0);
        read_changed(q, false); /* a static controller may have been told of changes before (3.1) */
        send_aer(q);
        change_noticed(q);
        expect_silence(q, SILENCE_MS);
        expect_works(q);
}

CASE("base/event/cleared", MUST, RULES(AER_CLEARED),
     "A change whose log page has been read is not reported to a later Asynchronous Event Request",
     .changes = true)
{
        struct queue *q = watcher(t);

        read_changed(q, false);
        change_noticed(q);
        give_ms(t, SETTLE_MS);
        read_changed(q, false);
        send_aer(q);
        expect_silence(q, SILENCE_MS);
}

/* Up to Base 2.0 it is a power off that drops the events that wait (5.2). */
static void expect_dropped(struct queue *q, uint16_t aer)
{
        if (caps(q->t)->vs < NVME_VERSION(2, 1, 0) && answers_within(q, aer, SILENCE_MS))
                advise(q->t, "no event from before the Controller Reset", "it is reported");
        else
                expect_silence(q, SILENCE_MS);
}

CASE("base/event/cleared-by-reset", MUST, RULES(AER_CLEARED),
     "A change from before a Controller Reset is not reported after it", .changes = true)
{
        struct queue *q = watcher(t);

        read_changed(q, false);
        change_noticed(q);
        give_ms(t, SETTLE_MS);
        set_cc(q, CC_RUN & ~CC_EN, CSTS_RDY, 0);
        set_cc(q, CC_RUN, CSTS_RDY, CSTS_RDY);
        ask_for(q, AEC_NS);
        expect_dropped(q, send_aer(q));
}

/* --- critical warnings */

/* The composite temperature, or the case ends: kelvins. */
static uint32_t temperature(struct queue *q)
{
        const struct log_smart *s = get_log(q, LOG_SMART, sizeof(*s), 0);
        uint32_t kelvins = (uint32_t)le_get(s->temp, 2);

        require(q->t, kelvins > 200 && kelvins < 500, "the composite temperature is %u K", kelvins);
        return kelvins;
}

static void set_threshold(struct queue *q, uint32_t kelvins)
{
        require_feature(q, finish(q, send_set_feature(q, FEAT_TEMP, kelvins)),
                        "Temperature Threshold cannot be set");
}

CASE("base/event/temperature", MUST, RULES(AER_WARNING),
     "A temperature beyond its threshold is reported when its event is enabled, and not before",
     .slow = true, .after = undo)
{
        struct queue *q = admin_queue(t);
        uint32_t kelvins = temperature(q);
        uint16_t aer;

        ask_for(q, 0);
        keep_feature(q, FEAT_TEMP, 0, 0, 0);
        set_threshold(q, kelvins - 50);
        aer = send_aer(q);
        expect_silence(q, SILENCE_MS);
        ask_for(q, AEC_TEMPERATURE);
        expect_event(q, aer, AEN_SMART | AEN_INFO_TEMPERATURE << 8 | LOG_SMART << 16);
}

CASE("base/event/two-kinds", SHOULD, RULES(AER_KEPT),
     "Events of two types without an Asynchronous Event Request are reported to the next two",
     .changes = true, .after = undo)
{
        static const uint32_t events[] = { AEN_SMART | AEN_INFO_TEMPERATURE << 8 | LOG_SMART << 16,
                                           NS_EVENT };
        struct queue *q = watcher(t);
        uint32_t seen[2], kelvins = temperature(q);

        require(t, caps(t)->id.aerl > 0, "AERL is 0");
        ask_for(q, AEC_NS | AEC_TEMPERATURE);
        keep_feature(q, FEAT_TEMP, 0, 0, 0);
        set_threshold(q, kelvins - 50);
        change(t, CHANGE_NAMESPACES);
        give_ms(t, SETTLE_MS);
        for (int i = 0; i < 2; i++)
                seen[i] = expect_success(q, send_aer(q)).dw0;
        want(t,
             (seen[0] == events[0] && seen[1] == events[1]) ||
                 (seen[0] == events[1] && seen[1] == events[0]),
             "a temperature event and a namespace change", "%08Xh and %08Xh", seen[0], seen[1]);
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
        change_noticed(q);
        expect_silence(q, SILENCE_MS);
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

CASE("base/log/rae-failed", MUST, RULES(LOG_RAE),
     "A Get Log Page that fails leaves the event of its log page masked", .changes = true)
{
        enum { BEYOND = 2 * 4 * LIST };
        struct queue *q = watcher(t);
        uint16_t cid = send_aer(q);

        require(t, caps(t)->vs >= NVME_VERSION(1, 3, 0), "RAE was added in NVMe 1.3");
        require(t, caps(t)->id.lpa & LPA_EXTENDED, "log page offsets are not supported");
        change(t, CHANGE_NAMESPACES);
        expect_event(q, cid, NS_EVENT);
        cid = send_cmd(q, .opc = NVME_GET_LOG_PAGE, .nsid = NSID_ALL,
                       .cdw10 = LOG_CHANGED_NS | (LIST - 1) << 16, .cdw12 = BEYOND,
                       .bytes = 4 * LIST);
        require(t, finish(q, cid).status != NVME_SUCCESS,
                "a read from beyond the end of the log page succeeds");
        send_aer(q);
        change_noticed(q);
        expect_silence(q, SILENCE_MS);
}

CASE("base/log/changed-namespaces", MUST, RULES(LOG_CHANGED),
     "The Changed Attached Namespace List names the changed namespaces, and is empty after it was "
     "read",
     .changes = true)
{
        static const uint8_t none[4 * LIST];
        struct queue *q = watcher(t);
        const le32_t *before, *after, *changed;
        uint16_t aer;

        read_changed(q, false); /* a static controller may have been told of changes before (3.1) */
        before = identify(q, CNS_NS_LIST, 0);
        aer = send_aer(q);
        change(t, CHANGE_NAMESPACES);
        expect_event(q, aer, NS_EVENT); /* it has noticed, however long that takes */
        give_ms(t, SETTLE_MS);          /* it may be several changes */
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

/* A change of what the log shows, which had this GENCTR. */
static void change_log(struct queue *q, uint64_t genctr)
{
        uint64_t until = 0;

        change(q->t, CHANGE_DISCOVERY);
        while (le64_get(read_header(q).genctr) == genctr && look_again(q->t, &until))
                continue;
}

/* How far a change moves GENCTR. */
static uint64_t genctr_step(struct queue *q)
{
        struct disc_header before = read_header(q), after;

        change_log(q, le64_get(before.genctr));
        give_ms(q->t, SETTLE_MS); /* until the whole of it is counted */
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
        struct disc_header before = read_header(q), after;

        change_log(q, le64_get(before.genctr));
        after = read_header(q);
        require(t, memcmp(&before, &after, sizeof(before)) != 0, "the discovery log is as before");
        expect_event(q, cid, DISCOVERY_EVENT);
}

CASE("fab/discovery/genctr-step", MUST, RULES(DISC_GENCTR_STEP),
     "GENCTR increases by 1 with a change of the discovery log", .needs = DISCOVERY,
     .changes = true, .related = "blktests nvme/030")
{
        enum { TRIES = 3 };
        struct queue *q = discovery_queue(t);
        uint64_t step;

        genctr_step(q); /* the first one may make what the next ones use */
        step = genctr_step(q);
        for (int i = 1; i < TRIES && step > 1; i++) /* others change it, too */
                step = genctr_step(q);
        if (step > 1) /* in how many steps the change was made nobody says */
                advise(t, "GENCTR increased by 1", "it increased by more");
        want(t, step > 0, "GENCTR increased", "the same GENCTR with another number of entries");
}
