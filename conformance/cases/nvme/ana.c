/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asymmetric Namespace Access (Base 2.2 8.1.1, NVM Command Set 1.2 5.1): the log page, what states do to
 * commands, events. What single fields have to be: fields.c, pages.c.
 */
#include <string.h>

#include "conformance/words/case.h"
#include "pdu/nvme/wire/identify.h"
#include "pdu/nvme/wire/logs.h"

enum {
        QUIET_MS = 300,
        SILENCE_MS = 100,
        CONTROLLERS = 4, /* that are compared */
        COMPARED = 32,   /* NSIDs of each */
        LOG_MOST = 64 << 10,
        NSIDS = 1024,           /* of a list */
        NSID_LAST = 0xfffffffd, /* after which there can be others */
        LSP_RGO = 1 << 8,
        OT = 1 << 23,    /* of cdw14 */
        SETTLE_MS = 100, /* until all of a change has been noticed */
        ANA_EVENT_DW0 = AEN_NOTICE | AEN_INFO_ANA << 8 | LOG_ANA << 16,
        NS_EVENT_DW0 = AEN_NOTICE | AEN_INFO_NS_CHANGED << 8 | LOG_CHANGED_NS << 16,
};

/* --- the log page ------------------------------------------------------------------------------ */

struct log {
        struct queue *q;
        const struct log_ana *page;
        uint32_t len;
};

static uint32_t at_most(uint64_t n, uint32_t most)
{
        return n < most ? (uint32_t)n : most;
}

/* All of it, as far as one command may have it. */
static uint32_t log_bytes(const struct queue *q)
{
        const struct id_ctrl *id = &caps(q->t)->ana_id;
        uint32_t mdts = mdts_bytes(id->mdts, caps(q->t)->cap);
        uint32_t most = mdts ? at_most(mdts, LOG_MOST) : LOG_MOST;

        return at_most(sizeof(struct log_ana) +
                           (uint64_t)le32_get(id->nanagrpid) * sizeof(struct ana_group) +
                           (uint64_t)le32_get(id->mnan) * 4,
                       most) /
               4 * 4;
}

static bool is_whole(const struct log *l)
{
        size_t at = sizeof(*l->page), count;
        const struct ana_group *g;
        const void *nsids;

        for (unsigned n = le16_get(l->page->ngrps); n > 0; n--) {
                g = ana_group_next(l->page, l->len, &at, &nsids, &count);
                if (!g || count < le32_get(g->nnsids))
                        return false;
        }
        return true;
}

/* A page of it is mostly enough. */
static struct log read_log(struct queue *q)
{
        uint32_t most = log_bytes(q), bytes = at_most(KIB(4), most);
        struct log l = { q, get_log(q, LOG_ANA, bytes, 0), bytes };

        if (is_whole(&l) || bytes == most)
                return l;
        return (struct log) { q, get_log(q, LOG_ANA, most, 0), most };
}

/* As long as the change count stands still, what was seen since was done in the states of `l`. */
static void require_unchanged(const struct log *l)
{
        struct log again = read_log(l->q);

        require(l->q->t, le64_get(again.page->chgcnt) == le64_get(l->page->chgcnt),
                "ANA states have changed meanwhile");
}

struct group {
        const struct ana_group *g;
        const void *nsids;
        size_t count;
        uint32_t id;
        uint8_t state;
};

/* The next one, from *at = 0 on. */
static bool next_group(const struct log *l, size_t *at, struct group *g)
{
        if (*at == 0)
                *at = sizeof(*l->page);
        g->g = ana_group_next(l->page, l->len, at, &g->nsids, &g->count);
        if (!g->g || le32_get(g->g->grpid) == 0)
                return false;
        g->id = le32_get(g->g->grpid);
        g->state = g->g->state & 15;
        return true;
}

static bool find_group(const struct log *l, uint32_t id, struct group *g)
{
        size_t at = 0;

        while (next_group(l, &at, g))
                if (g->id == id)
                        return true;
        return false;
}

/* The first namespace whose group is in this state; 0: there is none. */
static uint32_t nsid_in(const struct log *l, uint8_t state)
{
        struct group g;
        size_t at = 0;

        while (next_group(l, &at, &g))
                if (g.state == state && g.count > 0)
                        return ns_list_get(g.nsids, 0);
        return 0;
}

static const char *state_name(uint8_t state)
{
        static const char *const names[16] = { [ANA_OPTIMIZED] = "optimized",
                                               [ANA_NONOPTIMIZED] = "non-optimized",
                                               [ANA_INACCESSIBLE] = "inaccessible",
                                               [ANA_PERSISTENT_LOSS] = "persistent loss",
                                               [ANA_CHANGE] = "change" };

        return names[state] ? names[state] : "reserved";
}

/* The first group in this state that has a namespace. */
static struct group require_state(const struct log *l, uint8_t state)
{
        struct group g;
        size_t at = 0;

        while (next_group(l, &at, &g))
                if (g.state == state && g.count > 0)
                        return g;
        skip(l->q->t, "no namespace is in the ANA state %s", state_name(state));
}

static uint16_t status_in(uint8_t state)
{
        return state == ANA_INACCESSIBLE      ? NVME_ANA_INACCESSIBLE
               : state == ANA_PERSISTENT_LOSS ? NVME_ANA_LOSS
                                              : NVME_ANA_TRANSITION;
}

/* --- what is reported --------------------------------------------------------------------------- */

CASE("base/ana/supported", MUST, RULES(ANA_SUPPORTED),
     "Every controller of a subsystem with ANA Reporting announces it in CMIC")
{
        for (unsigned i = 0; i < CONTROLLERS; i++)
                want_eq(t, "CMIC bit 3 of each controller",
                        identify_ctrl(ana_queue(t))->cmic >> 3 & 1, 1);
}

static uint32_t group_of(struct queue *q, uint32_t nsid)
{
        return le32_get(((const struct id_ns *)identify(q, CNS_NS, nsid))->anagrpid);
}

/* What is wrong with the groups, as text: an NSID that is not in the group that it names; and how many NSIDs
 * and groups there are. */
struct census {
        unsigned nsids, groups;
        uint32_t nsid, group, named; /* NSID 0: nothing is */
};

static struct census count_members(struct queue *q, const struct log *l)
{
        struct census c = { 0 };
        struct group g;
        size_t at = 0;

        for (; c.groups < le16_get(l->page->ngrps) && next_group(l, &at, &g); c.groups++)
                for (size_t i = 0; i < g.count; i++, c.nsids++) {
                        uint32_t nsid = ns_list_get(g.nsids, i), named = group_of(q, nsid);

                        if (named != g.id && !c.nsid)
                                c = (struct census) { c.nsids, c.groups, nsid, g.id, named };
                }
        return c;
}

/* A list has no more than NSIDS of them; the next one begins after its last. */
static uint32_t count_active(struct queue *q)
{
        uint32_t last = 0, sum = 0;
        const void *list;
        size_t n;

        do {
                list = identify(q, CNS_NS_LIST, last);
                n = ns_list_count(list, IDENTIFY_LEN);
                sum += (uint32_t)n;
                if (n == 0 || ns_list_get(list, n - 1) <= last) /* ... or it does not ascend */
                        return sum;
                last = ns_list_get(list, n - 1);
        } while (n == NSIDS && last < NSID_LAST);
        return sum;
}

CASE(
    "base/ana/members", MUST, RULES(ANA_MEMBERS),
    "Each active namespace is in the group of the ANA log that its ANAGRPID names, and in no other")
{
        struct queue *q = ana_queue(t);
        struct log l = read_log(q);
        uint32_t active = count_active(q);
        struct census c;

        require(t, is_whole(&l), "the ANA log is longer than MDTS");
        c = count_members(q, &l);
        require_unchanged(&l);
        want(t, !c.nsid, "an NSID in the group that its ANAGRPID names",
             "NSID %u in group %u, ANAGRPID %u", c.nsid, c.group, c.named);
        want_eq(t, "group descriptors, as the header counts them", c.groups,
                le16_get(l.page->ngrps));
        want_eq(t, "namespaces in the log", c.nsids, active);
}

/* It may change meanwhile: then the first controller says so, too. */
static void want_same_group(struct queue *first, struct queue *other, uint32_t nsid, uint32_t group)
{
        uint32_t id = group_of(other, nsid);

        if (id == 0 || id == group) /* 0: it is not attached there */
                return;
        require(first->t, group_of(first, nsid) == group, "the ANAGRPID of NSID %u has changed",
                nsid);
        want_eq(first->t, "ANAGRPID on another controller", id, group);
}

CASE("base/ana/same-group", MUST, RULES(ANA_SAME_GROUP),
     "A namespace has the same ANAGRPID on every controller")
{
        struct queue *q = ana_queue(t);
        const void *list = identify(q, CNS_NS_LIST, 0);
        uint32_t n = at_most(ns_list_count(list, IDENTIFY_LEN), COMPARED), group[COMPARED];

        require(t, n > 0, "the subsystem has no namespace");
        for (uint32_t i = 0; i < n; i++)
                group[i] = group_of(q, ns_list_get(list, i));
        for (unsigned k = 1; k < CONTROLLERS; k++) {
                struct queue *other = ana_queue(t);

                for (uint32_t i = 0; i < n; i++)
                        want_same_group(q, other, ns_list_get(list, i), group[i]);
        }
}

static struct reply read_entry(struct queue *q, uint32_t index, uint32_t bytes)
{
        return succeed(q, send_cmd(q, .opc = NVME_GET_LOG_PAGE, .nsid = NSID_ALL,
                                   .cdw10 = LOG_ANA | 1u << 15 | (bytes / 4 - 1) << 16,
                                   .cdw12 = index, .cdw14 = OT, .bytes = bytes));
}

CASE("base/ana/index", MUST, RULES(ANA_INDEX),
     "Index 0 of the ANA log is its header, and index n descriptor n - 1, where IOS announces that")
{
        struct queue *q = ana_queue(t);
        struct reply r = finish(q, send_get_log(q, LOG_SUPPORTED, 1024, 0));
        struct reply entries[COMPARED + 1];
        struct group g;
        struct log l;
        size_t at = 0;
        uint32_t n = 0;

        require(t, r.status == NVME_SUCCESS && r.data[4 * LOG_ANA] & 2,
                "the ANA log does not support an index offset (IOS)");
        l = read_log(q);
        entries[0] = read_entry(q, 0, sizeof(*l.page));
        for (; n < COMPARED && next_group(&l, &at, &g); n++)
                entries[n + 1] = read_entry(q, n + 1, sizeof(*g.g));
        require_unchanged(&l);
        want_bytes(t, "the header", entries[0].data, l.page, sizeof(*l.page));
        at = 0;
        for (uint32_t i = 1; i <= n && next_group(&l, &at, &g); i++)
                want_bytes(t, "the descriptor", entries[i].data, g.g, sizeof(*g.g));
}

/* --- what states do to I/O commands -------------------------------------------------------------- */

static uint32_t block_of(struct queue *q, uint32_t nsid)
{
        const struct id_ns *n = identify(q, CNS_NS, nsid);
        uint32_t block = id_ns_block_size(n);

        require(q->t, block && block <= KIB(64) && !id_ns_metadata(n),
                "NSID %u has metadata, or blocks of a size that is not used here", nsid);
        return block;
}

static struct queue *ana_io_queue(struct t *t)
{
        require(t, caps(t)->ana, NO_ANA);
        return io_queue(t, .subnqn = caps(t)->ana);
}

/* I/O commands that change nothing, also where they are not refused. */
static const struct deed {
        const char *name;
        uint8_t opc;
        uint16_t oncs; /* the bit that it needs; 0: every controller has it */
        enum { NO_DATA, BLOCK, RANGE /* of no blocks, and no attributes */ } data;
} deeds[] = {
        { "Read", NVME_READ, 0, BLOCK },
        { "Flush", NVME_FLUSH, 0, NO_DATA },
        { "Compare", NVME_COMPARE, ONCS_COMPARE, BLOCK },
        { "Verify", NVME_VERIFY, ONCS_VERIFY, NO_DATA },
        { "Dataset Management", NVME_DSM, ONCS_DSM, RANGE },
};
enum { DEEDS = sizeof(deeds) / sizeof(deeds[0]), NOT_TRIED = 0xffff };

struct tried {
        uint16_t status[DEEDS];
};

static uint16_t send_deed(struct queue *q, const struct deed *d, uint32_t nsid, uint32_t block)
{
        static const struct dsm_range range;
        const uint32_t bytes[] = { [NO_DATA] = 0, [BLOCK] = block, [RANGE] = sizeof(range) };

        return send_cmd(q, .opc = d->opc, .nsid = nsid, .bytes = bytes[d->data],
                        .data = d->data == RANGE ? &range : NULL,
                        .in_capsule = d->data == RANGE && caps(q->t)->in_capsule >= sizeof(range));
}

static struct tried try(struct queue *q, uint32_t nsid)
{
        uint32_t block = block_of(q->admin, nsid);
        uint16_t oncs = le16_get(identify_ctrl(q->admin)->oncs);
        struct tried tried;

        for (unsigned i = 0; i < DEEDS; i++)
                tried.status[i] = deeds[i].oncs && !(oncs & deeds[i].oncs)
                                      ? NOT_TRIED
                                      : finish(q, send_deed(q, &deeds[i], nsid, block)).status;
        return tried;
}

#define CHANGING "the ANA state of a namespace is about to change"

/* Transitions need not show in the log, nor in its count, before they have ended (8.1.1.8); there are none from
 * persistent loss. */
static bool may_be_in_transition(uint8_t state, uint16_t status)
{
        return status == NVME_ANA_TRANSITION && state != ANA_CHANGE && state != ANA_PERSISTENT_LOSS;
}

static void require_settled(struct t *t, uint8_t state, const struct tried *tried)
{
        for (unsigned i = 0; i < DEEDS; i++)
                require(t, !may_be_in_transition(state, tried->status[i]), CHANGING);
}

static void want_all(struct t *t, const struct tried *tried, uint8_t state)
{
        uint16_t right = status_in(state);

        for (unsigned i = 0; i < DEEDS; i++)
                want(t,
                     tried->status[i] == NOT_TRIED || tried->status[i] == right ||
                         may_be_in_transition(state, tried->status[i]),
                     status_name(right), "%s ended with %s", deeds[i].name,
                     status_name(tried->status[i]));
}

/* Each namespace of the first group in that state. */
static void expect_aborted(struct t *t, uint8_t state)
{
        struct queue *q = ana_io_queue(t);
        struct log l = read_log(q->admin);
        struct group g = require_state(&l, state);
        struct tried tried[COMPARED];
        uint32_t n = at_most(g.count, COMPARED);

        for (uint32_t i = 0; i < n; i++)
                tried[i] = try(q, ns_list_get(g.nsids, i));
        require_unchanged(&l);
        for (uint32_t i = 0; i < n; i++)
                want_all(t, &tried[i], state);
        expect_works(q->admin);
        for (uint32_t i = 0; i < n; i++)
                require_settled(t, state, &tried[i]);
}

CASE("base/ana/inaccessible", MUST, RULES(ANA_INACCESSIBLE_STATUS),
     "I/O commands that change nothing end with Asymmetric Access Inaccessible in the inaccessible "
     "state")
{
        expect_aborted(t, ANA_INACCESSIBLE);
}

CASE("base/ana/persistent-loss", MUST, RULES(ANA_LOSS_STATUS),
     "I/O commands that change nothing end with Asymmetric Access Persistent Loss in that state")
{
        expect_aborted(t, ANA_PERSISTENT_LOSS);
}

CASE("base/ana/transition", MUST, RULES(ANA_TRANSITION_STATUS),
     "I/O commands that change nothing end with Asymmetric Access Transition in the change state")
{
        expect_aborted(t, ANA_CHANGE);
}

static bool is_of_ana(uint16_t status)
{
        return status >= NVME_ANA_LOSS && status <= NVME_ANA_TRANSITION;
}

static void want_none(struct t *t, const struct tried *tried)
{
        for (unsigned i = 0; i < DEEDS; i++)
                want(t, !is_of_ana(tried->status[i]) || tried->status[i] == NVME_ANA_TRANSITION,
                     "a status other than those of ANA", "%s", status_name(tried->status[i]));
}

CASE("base/ana/accessible", MUST, RULES(ANA_ACCESSIBLE),
     "I/O commands that change nothing are not refused for ANA in the states optimized and "
     "non-optimized")
{
        static const uint8_t states[] = { ANA_OPTIMIZED, ANA_NONOPTIMIZED };
        enum { STATES = sizeof(states) };
        struct tried tried[STATES] = { 0 };
        struct queue *q = ana_io_queue(t);
        struct log l = read_log(q->admin);
        unsigned n = 0;

        for (size_t i = 0; i < STATES; i++)
                if (nsid_in(&l, states[i])) {
                        tried[i] = try(q, nsid_in(&l, states[i]));
                        n++;
                }
        require(t, n > 0, "no namespace is in an accessible state");
        require_unchanged(&l);
        for (size_t i = 0; i < STATES; i++)
                want_none(t, &tried[i]);
        for (size_t i = 0; i < STATES; i++)
                require_settled(t, states[i], &tried[i]);
}

/* --- what they do to admin commands --------------------------------------------------------------- */

#define ALL_OPEN "every namespace is accessible"
static const uint8_t closed[] = { ANA_INACCESSIBLE, ANA_PERSISTENT_LOSS, ANA_CHANGE };

static bool has_closed(const struct log *l)
{
        for (size_t i = 0; i < sizeof(closed); i++)
                if (nsid_in(l, closed[i]))
                        return true;
        return false;
}

CASE(
    "base/ana/unaffected", MUST, RULES(ANA_UNAFFECTED),
    "Identify Controller, SMART / Health, Number of Queues and Keep Alive succeed whatever the ANA "
    "states are")
{
        struct queue *q = ana_queue(t);
        struct log l = read_log(q);

        require(t, has_closed(&l), ALL_OPEN);
        identify_ctrl(q);
        get_log(q, LOG_SMART, sizeof(struct log_smart), 0);
        get_feature(q, FEAT_QUEUES);
        succeed(q, send_cmd(q, .opc = NVME_KEEP_ALIVE));
}

/* Feature 05h is optional: log page 12h says whether there is one. */
static void require_recovery(struct queue *q)
{
        struct reply r = finish(q, send_get_log(q, LOG_FEATURE_EFFECTS, 1024, 0));

        require(q->t, r.status == NVME_SUCCESS && r.data[4 * FEAT_ERROR_RECOVERY] & 1,
                "log page 12h announces no feature that needs the namespace (05h)");
}

static uint16_t feature_status(struct queue *q, uint8_t opc, uint32_t nsid, uint32_t cdw10)
{
        return finish(q,
                      send_cmd(q, .opc = opc, .nsid = nsid, .cdw10 = FEAT_ERROR_RECOVERY | cdw10))
            .status;
}

/* In each of these states that a namespace is in. */
static void want_feature_aborted(struct queue *q, uint8_t opc, const char *what)
{
        uint16_t status[sizeof(closed)];
        struct log l;

        require_recovery(q);
        l = read_log(q);
        require(q->t, has_closed(&l), ALL_OPEN);
        for (size_t i = 0; i < sizeof(closed); i++) {
                uint32_t nsid = nsid_in(&l, closed[i]);

                status[i] = nsid ? feature_status(q, opc, nsid, 0) : status_in(closed[i]);
        }
        require_unchanged(&l);
        for (size_t i = 0; i < sizeof(closed); i++) {
                require(q->t, !may_be_in_transition(closed[i], status[i]), CHANGING);
                want_eq(q->t, what, status[i], status_in(closed[i]));
        }
}

CASE("base/ana/get-features", MUST, RULES(ANA_FEATURE_GET),
     "Get Features of Error Recovery ends with the status of the namespace's ANA state")
{
        want_feature_aborted(ana_queue(t), NVME_GET_FEATURES, "the status of Get Features");
}

CASE("base/ana/set-features", MUST, RULES(ANA_FEATURE_SET),
     "Set Features of Error Recovery ends with the status of the namespace's ANA state, and is not "
     "saved")
{
        struct queue *q = ana_queue(t);
        uint16_t status;
        uint32_t nsid;
        struct log l;

        want_feature_aborted(q, NVME_SET_FEATURES, "the status of Set Features");
        l = read_log(q);
        nsid = nsid_in(&l, ANA_INACCESSIBLE);
        if (nsid == 0)
                return;
        status = feature_status(q, NVME_SET_FEATURES, nsid, UINT32_C(1) << 31);
        require_unchanged(&l);
        want(t, status != NVME_SUCCESS, "Set Features with SV 1 refused", "%s",
             status_name(status));
}

CASE("base/ana/set-features-all", MUST, RULES(ANA_FEATURE_ALL),
     "Set Features of Error Recovery with NSID FFFFFFFFh fails if a namespace is not accessible")
{
        struct queue *q = ana_queue(t);
        bool right = false;
        uint16_t status;
        struct log l;

        require_recovery(q);
        l = read_log(q);
        require(t, has_closed(&l), ALL_OPEN);
        status = feature_status(q, NVME_SET_FEATURES, NSID_ALL, 0);
        require_unchanged(&l);
        for (size_t i = 0; i < sizeof(closed); i++)
                right |= nsid_in(&l, closed[i]) && status == status_in(closed[i]);
        require(t, right || status != NVME_ANA_TRANSITION, CHANGING);
        want(t, right, "the status of an ANA state that a namespace is in", "%s",
             status_name(status));
}

CASE("base/ana/capacity", MUST, RULES(ANA_CAPACITY),
     "NUSE and NVMCAP of a namespace that is inaccessible or lost are 0")
{
        static const uint8_t states[] = { ANA_INACCESSIBLE, ANA_PERSISTENT_LOSS };
        static const uint8_t none[16];
        const struct id_ns *ns[2] = { NULL, NULL };
        struct queue *q = ana_queue(t);
        struct log l = read_log(q);

        for (size_t i = 0; i < sizeof(states); i++)
                if (nsid_in(&l, states[i]))
                        ns[i] = identify(q, CNS_NS, nsid_in(&l, states[i]));
        require(t, ns[0] || ns[1], "no namespace is inaccessible or lost");
        require_unchanged(&l);
        for (size_t i = 0; i < sizeof(states); i++) {
                if (!ns[i])
                        continue;
                want_eq(t, "NUSE", le64_get(ns[i]->nuse), 0);
                want_bytes(t, "NVMCAP", ns[i]->nvmcap, none, sizeof(none));
        }
}

/* --- changes --------------------------------------------------------------------------------------- */

/* An association that is told of these, nothing having happened yet. */
static struct queue *watcher(struct t *t, uint32_t events)
{
        struct queue *q = ana_queue(t);

        succeed(q, send_set_feature(q, FEAT_AEC, events));
        return q;
}

static uint16_t send_aer(struct queue *q)
{
        uint16_t cid = send_cmd(q, .opc = NVME_AER);

        expect_works(q);
        return cid;
}

CASE("base/ana/event", MUST, RULES(ANA_EVENT),
     "A change of an ANA state is reported as Asymmetric Namespace Access Change", .changes = true)
{
        struct queue *q = watcher(t, AEC_ANA);
        uint16_t cid = send_aer(q);

        change(t, CHANGE_ANA);
        want_eq(t, "type, information and log page of the event", expect_success(q, cid).dw0,
                ANA_EVENT_DW0);
}

CASE("base/ana/event-moved", MUST, RULES(ANA_MOVED),
     "A change of an ANAGRPID is reported as Asymmetric Namespace Access Change", .changes = true)
{
        struct queue *q = watcher(t, AEC_ANA);
        uint16_t cid = send_aer(q);

        change(t, CHANGE_ANA_GROUP);
        want_eq(t, "type, information and log page of the event", expect_success(q, cid).dw0,
                ANA_EVENT_DW0);
}

CASE("base/ana/no-namespace-event", MUST, RULES(ANA_NO_NS_EVENT),
     "A change of an ANA state or an ANAGRPID is not reported as Attached Namespace Attribute "
     "Changed",
     .changes = true)
{
        struct queue *q;

        require(t, caps(t)->ana, NO_ANA);
        require(t, le32_get(caps(t)->ana_id.oaes) & OAES_NS,
                "OAES does not announce Namespace Attribute Notices");
        q = watcher(t, AEC_NS);
        send_aer(q);
        change(t, CHANGE_ANA);
        change(t, CHANGE_ANA_GROUP);
        expect_silence(q, SILENCE_MS);
        expect_works(q);
}

CASE("base/ana/no-ana-event", MUST, RULES(ANA_NS_EVENT_ALONE),
     "A namespace that comes or goes is reported as Attached Namespace Attribute Changed alone",
     .changes = true)
{
        struct queue *q;

        require(t, caps(t)->ana, NO_ANA);
        require(t, le32_get(caps(t)->ana_id.oaes) & OAES_NS && caps(t)->ana_id.aerl > 0,
                "OAES does not announce Namespace Attribute Notices, or AERL is 0");
        q = watcher(t, AEC_NS | AEC_ANA);
        send_aer(q);
        send_aer(q);
        change(t, CHANGE_NAMESPACES);
        want_eq(t, "type, information and log page of the event", expect_next(q).dw0, NS_EVENT_DW0);
        give_ms(t, SETTLE_MS); /* it may be several changes */
        succeed(q, send_cmd(q, .opc = NVME_GET_LOG_PAGE, .nsid = NSID_ALL,
                            .cdw10 = LOG_CHANGED_NS | (NSIDS - 1) << 16, .bytes = 4 * NSIDS));
        expect_silence(q, SILENCE_MS);
}

/* Each group that is another than before has another count, if it has one. */
static bool want_counted(struct t *t, const struct log *before, const struct log *after)
{
        struct group a, b;
        size_t at = 0;
        bool any = false;

        while (next_group(after, &at, &a)) {
                bool there = find_group(before, a.id, &b);

                if (there && a.state == b.state && a.count == b.count &&
                    memcmp(a.nsids, b.nsids, a.count * 4) == 0)
                        continue;
                any = true;
                if (!there || !le64_get(a.g->chgcnt) || !le64_get(b.g->chgcnt))
                        continue;
                want(t, le64_get(a.g->chgcnt) > le64_get(b.g->chgcnt),
                     "a change count of the group that has increased", "group %u: %llu, then %llu",
                     a.id, (unsigned long long)le64_get(b.g->chgcnt),
                     (unsigned long long)le64_get(a.g->chgcnt));
        }
        return any;
}

static bool is_same(const struct log *a, const struct log *b)
{
        return a->len == b->len && memcmp(a->page, b->page, a->len) == 0;
}

/* ANA states change: the log when it shows that, or is as it was for so long. */
static struct log changed_log(struct queue *q, const struct log *before)
{
        uint64_t until = 0;
        struct log l;

        change(q->t, CHANGE_ANA);
        do
                l = read_log(q);
        while (is_same(before, &l) && look_again(q->t, &until));
        return l;
}

CASE("base/ana/change-count", MUST, RULES(ANA_CHANGES),
     "The change counts of the ANA log and of a group increase with a change of the group",
     .changes = true)
{
        struct queue *q = ana_queue(t);
        struct log before = read_log(q), after = changed_log(q, &before);
        uint64_t was = le64_get(before.page->chgcnt), is = le64_get(after.page->chgcnt);

        require(t, want_counted(t, &before, &after), "the ANA log shows the same as before");
        want(t, is > was, "a change count of the log that has increased", "%llu, then %llu",
             (unsigned long long)was, (unsigned long long)is);
}

CASE("base/ana/change-count-reset", SHOULD, RULES(ANA_COUNT_RESET),
     "After a Controller Reset the change count of the ANA log is 0, and that of a group 1 or 0",
     .changes = true)
{
        struct queue *q = ana_queue(t);
        struct log l = read_log(q);
        struct group g;
        size_t at = 0;

        changed_log(q, &l);
        set_cc(q, 0, CSTS_RDY, 0);
        set_cc(q, CC_RUN, CSTS_RDY, CSTS_RDY);
        l = read_log(q);
        want_eq(t, "the change count of the log", le64_get(l.page->chgcnt), 0);
        while (next_group(&l, &at, &g))
                want(t, le64_get(g.g->chgcnt) <= 1, "a change count of the group of 1, or 0",
                     "group %u: %llu", g.id, (unsigned long long)le64_get(g.g->chgcnt));
}

/* Groups that are in persistent loss in the one are so in the other. */
static unsigned want_lost(struct t *t, const struct log *before, const struct log *after)
{
        struct group a, b;
        size_t at = 0;
        unsigned n = 0;

        while (next_group(before, &at, &b)) {
                if (b.state != ANA_PERSISTENT_LOSS || !find_group(after, b.id, &a))
                        continue;
                n++;
                want(t, a.state == ANA_PERSISTENT_LOSS, "a group that stays in persistent loss",
                     "group %u: %s", b.id, state_name(a.state));
        }
        return n;
}

CASE("base/ana/loss-stays", MUST, RULES(ANA_LOSS_STAYS),
     "A group in the persistent loss state is still in it after a change of ANA states",
     .changes = true)
{
        struct queue *q = ana_queue(t);
        struct log before = read_log(q);
        unsigned n = 0;

        for (unsigned i = 0; i < 2; i++) { /* the first one may lead to it */
                struct log after = changed_log(q, &before);

                n += want_lost(t, &before, &after);
                before = after;
        }
        require(t, n > 0, "no group is in persistent loss");
}

/* One that is no longer attached has no group (Identify returns zeroes). */
static void want_group_stays(struct queue *q, uint32_t nsid, uint32_t before)
{
        uint32_t now = group_of(q, nsid);

        if (now != 0)
                want_eq(q->t, "the ANAGRPID", now, before);
}

CASE("base/ana/fixed-group", MUST, RULES(ANA_FIXED),
     "The ANAGRPID of a namespace that is attached does not change where ANACAP bit 6 is 1",
     .changes = true)
{
        struct queue *q = ana_queue(t);
        const void *list = identify(q, CNS_NS_LIST, 0);
        uint32_t n = at_most(ns_list_count(list, IDENTIFY_LEN), COMPARED), before[COMPARED];

        require(t, identify_ctrl(q)->anacap & ANACAP_FIXED, "ANACAP says that groups may change");
        require(t, n > 0, "the subsystem has no namespace");
        for (uint32_t i = 0; i < n; i++)
                before[i] = group_of(q, ns_list_get(list, i));
        change(t, CHANGE_ANA_GROUP);
        give_ms(t, QUIET_MS);
        for (uint32_t i = 0; i < n; i++)
                want_group_stays(q, ns_list_get(list, i), before[i]);
}
