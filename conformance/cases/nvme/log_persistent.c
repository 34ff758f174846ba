/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 5.1.12.1.14: the Persistent Event log, its reporting contexts and its events. */
#include <inttypes.h>
#include <string.h>

#include "conformance/engine/suite.h"
#include "conformance/words/case.h"

enum { READ, ESTABLISH, RELEASE, HEADER /* ACT */ };
enum {
        READ_BYTES = 64 << 10,
        READ_MOST = 4 << 20,
        TYPE_TIMESTAMP = 3,
        TYPE_RESET = 4,
        TYPE_SET_FEATURE = 11,
        STAMP = 8
};
#define FILLED "events of others fill the log"

static uint16_t send_action(struct queue *q, uint32_t action, uint32_t dwords, uint32_t bytes,
                            uint32_t offset)
{
        return send_cmd(q, .opc = NVME_GET_LOG_PAGE, .nsid = NSID_ALL,
                        .cdw10 = LOG_PERSISTENT | action << 8 | (dwords - 1) << 16, .cdw12 = offset,
                        .bytes = bytes);
}

static void let_go(struct queue *q)
{
        succeed(q, send_action(q, RELEASE, 1, 4, 0));
}

/* A controller with such a log, and without a context. */
static struct queue *recorder(struct t *t)
{
        struct queue *q = admin_queue(t);

        require(t, caps(t)->id.lpa & LPA_PERSISTENT, "there is no Persistent Event log (LPA)");
        let_go(q);
        return q;
}

static struct log_pel header_of(struct reply r)
{
        struct log_pel h;

        memcpy(&h, r.data, sizeof(h));
        return h;
}

/* The log of the subsystem, to which each of its controllers adds events at any time. */
struct pel {
        const uint8_t *bytes;
        uint32_t len;
        bool cut; /* there is more of it */
};

/* A new context and what is in it, piece by piece where there are offsets; it is released again. */
static struct pel read_log(struct queue *q)
{
        uint32_t mdts = mdts_bytes(identify_ctrl(q)->mdts, caps(q->t)->cap);
        uint32_t piece = mdts && mdts < READ_BYTES ? mdts : READ_BYTES;
        const uint8_t *data = succeed(q, send_action(q, ESTABLISH, piece / 4, piece, 0)).data;
        uint64_t all = le64_get(((const struct log_pel *)(const void *)data)->tll);
        bool offsets = caps(q->t)->id.lpa & LPA_EXTENDED;
        uint32_t most = offsets ? READ_MOST : piece, len = all < most ? (uint32_t)all : most;
        uint8_t *log = t_alloc(q->t, len + piece);

        memcpy(log, data, piece);
        for (uint32_t at = piece; at < len; at += piece) {
                uint32_t n = len - at < piece ? (len - at + 3) / 4 * 4 : piece;

                memcpy(log + at, succeed(q, send_action(q, READ, n / 4, n, at)).data, n);
        }
        let_go(q);
        return (struct pel) { log, len, all > len };
}

struct event {
        const struct log_pel_event *head;
        const uint8_t *data;
        uint32_t len;
};

/* The next event that is wholly there; begins with *at 0. */
static bool next_event(const struct pel *log, uint32_t *at, struct event *e)
{
        if (*at == 0)
                *at = LOG_PEL_HEADER;
        if (*at + sizeof(*e->head) > log->len)
                return false;
        e->head = (const void *)(log->bytes + *at);
        e->data = log->bytes + *at + e->head->ehl + 3 + le16_get(e->head->vsil);
        e->len = le16_get(e->head->el) - (uint32_t)le16_get(e->head->vsil);
        *at += e->head->ehl + 3u + le16_get(e->head->el);
        return *at <= log->len;
}

/* Of this type, by the queue's controller: how many, and the first. */
static unsigned count(const struct pel *log, const struct queue *q, uint8_t type,
                      struct event *first)
{
        uint32_t at = 0;
        struct event e;
        unsigned n = 0;

        while (next_event(log, &at, &e))
                if (e.head->type == type && le16_get(e.head->cntlid) == q->cntlid && n++ == 0)
                        *first = e;
        return n;
}

static unsigned events_of(struct queue *q, uint8_t type, struct event *first)
{
        struct pel log = read_log(q);

        return count(&log, q, type, first);
}

/* The log from here to its end is what the older one begins with. */
static bool goes_on_as(const struct pel *log, uint32_t from, const struct pel *older)
{
        uint32_t rest = log->len - from, most = older->len - LOG_PEL_HEADER;

        if (rest > most && !log->cut)
                return false;
        return memcmp(log->bytes + from, older->bytes + LOG_PEL_HEADER,
                      rest < most ? rest : most) == 0;
}

/* What is in `now`, in front of what `was` has. CNTLIDs are used again: there may be events of before. */
static struct pel newer_part(const struct pel *was, const struct pel *now)
{
        struct pel part = { now->bytes, LOG_PEL_HEADER, now->cut };
        uint32_t at = 0;
        struct event e;

        if (was->len <= LOG_PEL_HEADER)
                return *now;
        while (!goes_on_as(now, part.len, was) && next_event(now, &at, &e))
                part.len = at;
        return part;
}

enum { HALF_FULL = 32 << 10 }; /* bytes: a log has at least 64 KiB (PELS) */

/* Nothing is left of what `was` has: in a log that is full older events make way, those of a moment ago too where
 * many others record theirs. One that has become short was emptied; of one that was empty a log of half the least
 * size (PELS) may have lost some. */
static bool is_turned(const struct pel *was, const struct pel *now, const struct pel *newer)
{
        if (was->len <= LOG_PEL_HEADER)
                return now->cut || now->len >= HALF_FULL;
        return newer->len == now->len && now->len + now->len / 32 >= was->len;
}

/* The event, which `was` has, was among those that made way: some of what `was` has is left, but none that is as
 * old. */
static bool has_made_way(const struct pel *was, const struct pel *now, const struct pel *newer,
                         const struct event *e)
{
        uint32_t left = now->len - newer->len;

        return left > 0 && (uint32_t)(e->data + e->len - was->bytes) > LOG_PEL_HEADER + left;
}

enum { MANY = 8 };
#define SUPPRESSED "events of this type are many, and further ones may be suppressed"

/* Of events that are many in a short time a controller may leave out further ones (5.1.12.1.14). How many are too many
 * it decides: what this suite makes again and again may be. */
static bool is_suppressed(const struct pel *now, uint8_t type)
{
        bool frequent = type == TYPE_TIMESTAMP || type == TYPE_RESET || type == TYPE_SET_FEATURE;
        unsigned n = 0;
        uint32_t at = 0;
        struct event e;

        while (frequent && next_event(now, &at, &e))
                n += e.head->type == type;
        return n >= MANY;
}

/* So many events of this type by the queue's controller since `was`; *first is the first. */
static void want_events(struct queue *q, const struct pel *was, const char *what, uint8_t type,
                        unsigned n, struct event *first)
{
        struct pel now = read_log(q), newer = newer_part(was, &now);
        unsigned seen = count(&newer, q, type, first);

        require(q->t, seen == n || !is_turned(was, &now, &newer), FILLED);
        require(q->t, seen >= n || !is_suppressed(&now, type), SUPPRESSED);
        want_eq(q->t, what, seen, n);
}

/* ... at least one in all, from before or after that. */
static struct pel want_kept(struct queue *q, const struct pel *was, uint8_t type, const char *what)
{
        struct pel now = read_log(q), newer = newer_part(was, &now);
        struct event e;
        unsigned seen = count(&now, q, type, &e);

        require(q->t, seen || !is_turned(was, &now, &newer), FILLED);
        require(q->t, seen || !count(was, q, type, &e) || !has_made_way(was, &now, &newer, &e),
                FILLED);
        require(q->t, seen || !is_suppressed(&now, type), SUPPRESSED);
        want(q->t, seen, what, "none of controller %u", q->cntlid);
        return now;
}

static void set_timestamp(struct queue *q, uint64_t ms)
{
        uint8_t data[STAMP] = { 0 };

        require(q->t, le16_get(caps(q->t)->id.oncs) & ONCS_TIMESTAMP, "Timestamp is not supported");
        le_put(data, 6, ms);
        succeed(q, send_cmd(q, .opc = NVME_SET_FEATURES, .cdw10 = FEAT_TIMESTAMP, .bytes = STAMP,
                            .data = data, .in_capsule = !t_is_rdma(q->t)));
}

static void reset(struct queue *q)
{
        set_cc(q, CC_RUN & ~CC_EN, CSTS_RDY, 0);
        set_cc(q, CC_RUN, CSTS_RDY, CSTS_RDY);
}

/* --- contexts */

CASE("base/log/persistent-context", MUST, RULES(LOG_PEL_CONTEXT),
     "A reporting context is established once, told by its header, and gone when it is released")
{
        struct queue *q = recorder(t);

        require(t, caps(t)->vs >= NVME_VERSION(2, 0, 0),
                "headers with a context came with NVMe 2.0");
        expect_error(q, send_action(q, READ, 128, 512, 0), NVME_SEQUENCE_ERROR);
        succeed(q, send_action(q, ESTABLISH, 128, 512, 0));
        expect_error(q, send_action(q, ESTABLISH, 128, 512, 0), NVME_SEQUENCE_ERROR);
        succeed(q, send_action(q, READ, 128, 512, 0));
        succeed(q, send_action(q, READ, 128, 512, 0));
        want(t, le32_get(header_of(succeed(q, send_action(q, HEADER, 128, 512, 0))).rci) & PEL_RCE,
             "RCE 1 where there is a context", "RCE 0");
        let_go(q);
        want(t,
             !(le32_get(header_of(succeed(q, send_action(q, HEADER, 128, 512, 0))).rci) & PEL_RCE),
             "RCE 0 where the command has made the context", "RCE 1");
        let_go(q);
        let_go(q);
}

CASE("base/log/persistent-header", MUST, RULES(LOG_PEL_CONTEXT),
     "512 bytes of header are returned with a context, whatever length and offset are asked for")
{
        struct queue *q = recorder(t);
        struct reply r;
        struct log_pel h;

        require(t, caps(t)->vs >= NVME_VERSION(2, 0, 0),
                "headers with a context came with NVMe 2.0");
        h = header_of(succeed(q, send_action(q, HEADER, 128, 512, 0)));
        h.rci = le32(0);
        r = succeed(q, send_action(q, HEADER, 4, 512, 64));
        want_eq(t, "bytes of the header", r.got, 512);
        want_bytes(t, "the header up to RCI", r.data, &h, offsetof(struct log_pel, rci));
        let_go(q);
}

CASE("base/log/persistent-frozen", MUST, RULES(LOG_PEL_CONTEXT),
     "Events from after a context was established are in the next one, which has another GNUM")
{
        struct queue *q = recorder(t);
        struct log_pel before, after;

        before = header_of(succeed(q, send_action(q, ESTABLISH, 128, 512, 0)));
        set_timestamp(q, UINT64_C(1) << 40);
        after = header_of(succeed(q, send_action(q, READ, 128, 512, 0)));
        want_bytes(t, "the header of the same context", &after, &before,
                   offsetof(struct log_pel, rci));
        let_go(q);
        after = header_of(succeed(q, send_action(q, ESTABLISH, 128, 512, 0)));
        let_go(q);
        require(t,
                le16_get(after.generation) != le16_get(before.generation) ||
                    le32_get(after.tnev) != le32_get(before.tnev) || le32_get(after.tnev) < MANY,
                SUPPRESSED);
        want(t, le16_get(after.generation) != le16_get(before.generation),
             "another generation number", "%u again", le16_get(after.generation));
}

/* --- events */

static bool is_soon_after(uint64_t seen, uint64_t ms)
{
        enum { SLACK = 30000 };

        return seen >= ms && seen < ms + SLACK;
}

CASE("base/log/persistent-timestamp", MUST, RULES(LOG_PEL_EVENTS),
     "A Timestamp Change event has the new time in its header and the old one in its data")
{
        const uint64_t old = UINT64_C(1) << 40, new = UINT64_C(1) << 41;
        struct queue *q = recorder(t);
        struct pel was = read_log(q), now;
        uint64_t in_header = 0, in_data = 0;
        uint32_t at = 0;
        struct event e;
        bool found = false;

        set_timestamp(q, old);
        set_timestamp(q, new);
        now = want_kept(q, &was, TYPE_TIMESTAMP, "a Timestamp Change event of this controller");
        while (!found && next_event(&now, &at, &e)) {
                if (e.head->type != TYPE_TIMESTAMP || le16_get(e.head->cntlid) != q->cntlid)
                        continue;
                in_header = le_get(e.head->stamp, 6);
                in_data = le_get(e.data, 6);
                found = is_soon_after(in_header, new) && is_soon_after(in_data, old);
        }
        require(t, found || !is_suppressed(&now, TYPE_TIMESTAMP), SUPPRESSED);
        want(t, found, "the new time in the header, the old one in the data",
             "%" PRIX64 "h and %" PRIX64 "h", in_header, in_data);
}

CASE("base/log/persistent-reset", MUST, RULES(LOG_PEL_EVENTS),
     "A Controller Reset adds one event, which names the controller, and leaves the others")
{
        struct queue *q = recorder(t);
        struct event e;
        struct pel was;
        bool named = false;

        set_timestamp(q, UINT64_C(1) << 40);
        was = read_log(q);
        require(t, was.len < HALF_FULL || count(&was, q, TYPE_TIMESTAMP, &e), FILLED);
        reset(q);
        want_events(q, &was, "events about a reset of this controller", TYPE_RESET, 1, &e);
        for (uint32_t at = 8; at + 36 <= e.len; at += 36)
                named |= le_get(e.data + at, 2) == q->cntlid;
        want(t, named, "the controller among those that the event lists", "others");
        want_kept(q, &was, TYPE_TIMESTAMP, "the Timestamp Change event from before the reset");
}

CASE("base/log/persistent-order", SHOULD, RULES(LOG_PEL_ORDER),
     "Of two events of the Persistent Event log the newer one comes first")
{
        const uint64_t late = UINT64_C(1) << 41;
        struct queue *q = recorder(t);
        struct event e;

        set_timestamp(q, UINT64_C(1) << 40);
        set_timestamp(q, late);
        require(t, events_of(q, TYPE_TIMESTAMP, &e) > 1, "newer events of others fill the log");
        want(t, le_get(e.head->stamp, 6) >= late, "the newer of two events first", "the older one");
}

CASE("base/log/persistent-subsystem", MUST, RULES(LOG_PEL_EVENTS),
     "An event of one controller is in the Persistent Event log that another one returns")
{
        struct queue *q = recorder(t), *other = recorder(t);
        struct pel was = read_log(other), now, newer;
        struct event e;

        set_timestamp(q, UINT64_C(1) << 40);
        now = read_log(other);
        newer = newer_part(&was, &now);
        require(t, count(&newer, q, TYPE_TIMESTAMP, &e) || !is_turned(&was, &now, &newer), FILLED);
        require(t, count(&newer, q, TYPE_TIMESTAMP, &e) || !is_suppressed(&now, TYPE_TIMESTAMP),
                SUPPRESSED);
        want(t, count(&newer, q, TYPE_TIMESTAMP, &e), "the event", "none of controller %u",
             q->cntlid);
}

/* --- Format NVM, of a subsystem that may be formatted */

CASE("base/log/persistent-format", MUST, RULES(LOG_PEL_EVENTS),
     "Format NVM adds a start and a completion event, which has the status of the command",
     .alone = true)
{
        enum { START = 7, END = 8, OACS_FORMAT = 1 << 1 };
        struct queue *q;
        struct event start = { 0 }, end = { 0 };
        const struct id_ctrl *id;
        const struct id_ns *n;
        struct pel was;
        uint32_t nsid;

        require(t, caps(t)->expendable, "no subsystem may be formatted (--expendable-nqn)");
        q = admin_queue(t, .subnqn = caps(t)->expendable);
        id = identify_ctrl(q);
        require(t, id->lpa & LPA_PERSISTENT && le16_get(id->oacs) & OACS_FORMAT,
                "there is no Persistent Event log (LPA) or no Format NVM (OACS)");
        let_go(q);
        nsid = (uint32_t)le_get(identify(q, CNS_NS_LIST, 0), 4);
        require(t, nsid, "the subsystem has no namespace");
        n = identify(q, CNS_NS, nsid);
        was = read_log(q);
        succeed(q, send_cmd(q, .opc = NVME_FORMAT, .nsid = nsid, .cdw10 = n->flbas & 15u));
        want_events(q, &was, "start events", START, 1, &start);
        want_events(q, &was, "completion events", END, 1, &end);
        want(t, start.len >= 12 && end.len >= 10, "12 and 10 bytes of data", "%u and %u", start.len,
             end.len);
        if (end.head->revision != 1 || caps(t)->vs >= NVME_VERSION(2, 2, 0)) /* 1: of Base 2.0 */
                want_eq(t, "the revision of the completion event", end.head->revision, 2);
        want_eq(t, "NSID of the start event", le_get(start.data, 4), nsid);
        want_eq(t, "CDW10 of the start event", le_get(start.data + 8, 4), n->flbas & 15u);
        want_eq(t, "NSID of the completion event", le_get(end.data, 4), nsid);
        want_eq(t, "the status in the completion event", le_get(end.data + 8, 2) >> 1,
                NVME_SUCCESS);
        want(t, !(end.data[5] & 2) || end.data[5] & 1, "an error where the format is incomplete",
             "FNVMS %02Xh", end.data[5]);
}

/* --- what may be done to a subsystem that is given up */

static struct queue *whole_recorder(struct t *t)
{
        struct queue *q;

        require(t, caps(t)->expendable, "no subsystem may be changed (--expendable-nqn)");
        q = admin_queue(t, .subnqn = caps(t)->expendable);
        require(t, identify_ctrl(q)->lpa & LPA_PERSISTENT,
                "there is no Persistent Event log (LPA)");
        let_go(q);
        return q;
}

CASE("base/log/persistent-namespace", MUST, RULES(LOG_PEL_NAMESPACE),
     "Namespace Management adds a Change Namespace event that has the fields of the command",
     .alone = true)
{
        enum { CHANGE = 6, OACS_NAMESPACES = 1 << 3, BLOCKS = 256, DELETE = 1, LEAST = 48 };
        struct queue *q = whole_recorder(t);
        struct id_ns wish = { .nsze = le64(BLOCKS), .ncap = le64(BLOCKS) };
        struct event e = { 0 };
        struct pel was;
        struct reply r;

        require(t, le16_get(identify_ctrl(q)->oacs) & OACS_NAMESPACES,
                "OACS announces no Namespace Management");
        was = read_log(q);
        r = finish(q, send_cmd(q, .opc = NVME_NS_MANAGEMENT, .bytes = sizeof(wish), .data = &wish));
        require(t, r.status == NVME_SUCCESS, "a namespace of %u blocks cannot be made", BLOCKS);
        want_events(q, &was, "Change Namespace events", CHANGE, 1, &e);
        want(t, e.len >= LEAST, "48 bytes of data", "%u", e.len);
        want_eq(t, "the revision of the event", e.head->revision, 2);
        want_eq(t, "CDW10 of the event", le_get(e.data, 4), 0);
        want_eq(t, "the size in the event", le_get(e.data + 8, 8), BLOCKS);
        want_eq(t, "FLBAS of the event", e.data[32], 0);
        want_eq(t, "NMIC of the event", e.data[34], 0);
        want_eq(t, "NSID of the event", le_get(e.data + 44, 4), r.dw0);
        succeed(q, send_cmd(q, .opc = NVME_NS_MANAGEMENT, .nsid = r.dw0, .cdw10 = DELETE));
        want_events(q, &was, "Change Namespace events", CHANGE, 2, &e);
        want_eq(t, "CDW10 of the event about Delete", le_get(e.data, 4), DELETE);
        want_eq(t, "NSID of the event about Delete", le_get(e.data + 44, 4), r.dw0);
}

static void await_sanitized(struct queue *q)
{
        enum { IN_PROGRESS = 2, SOS = 7, POLL_MS = 10, WAIT_MS = 20000 };

        for (unsigned ms = 0; (le_get((const uint8_t *)get_log(q, LOG_SANITIZE, 512, 0) + 2, 2) &
                               SOS) == IN_PROGRESS;
             ms += POLL_MS) {
                require(q->t, ms < WAIT_MS, "the operation takes longer than %d s", WAIT_MS / 1000);
                pause_ms(q->t, POLL_MS);
        }
}

CASE("base/log/persistent-sanitize", MUST, RULES(LOG_PEL_SANITIZE),
     "A Sanitize operation adds a start and a completion event", .alone = true)
{
        enum { START = 9, END = 10, CRYPTO_ERASE = 4, BLOCK_ERASE = 2 };
        struct queue *q = whole_recorder(t);
        uint32_t sanicap = le32_get(identify_ctrl(q)->sanicap);
        uint32_t dw10 = sanicap & 1 ? CRYPTO_ERASE : BLOCK_ERASE;
        struct event start = { 0 }, end = { 0 };
        struct pel was;

        require(t, sanicap & 3, "SANICAP announces neither Crypto nor Block Erase");
        was = read_log(q);
        succeed(q, send_cmd(q, .opc = NVME_SANITIZE, .cdw10 = dw10));
        await_sanitized(q);
        want_events(q, &was, "start events", START, 1, &start);
        want_events(q, &was, "completion events", END, 1, &end);
        want(t, start.len >= 12, "12 bytes of data", "%u", start.len);
        want_eq(t, "SANICAP of the start event", le_get(start.data, 4), sanicap);
        want_eq(t, "CDW10 of the start event", le_get(start.data + 4, 4), dw10);
        want_eq(t, "CDW11 of the start event", le_get(start.data + 8, 4), 0);
}

/* --- Set Features: an event for those features whose changes a controller records */

CASE("base/log/persistent-feature", MUST, RULES(LOG_PEL_FEATURE),
     "Each change of a feature that is recorded adds an event with the dwords of the command",
     .after = undo)
{
        enum { CHANGED = TYPE_SET_FEATURE, HOT = 1000 };
        struct queue *q = recorder(t);
        struct event e = { 0 };
        uint32_t now = get_feature(q, FEAT_TEMP) & 0xffff, first = now == HOT ? HOT + 1 : HOT,
                 second = first + 2, layout, dwords;
        struct pel was = read_log(q);

        require(t, caps(t)->vs >= NVME_VERSION(2, 0, 0),
                "Set Feature events of NVMe 1.4 are not known");
        require(t, count(&was, q, CHANGED, &e) == 0, "there are Set Feature events of this CNTLID");
        keep_feature(q, FEAT_TEMP, 0, 0, 0);
        succeed(q, send_set_feature(q, FEAT_TEMP, first));
        require(t, events_of(q, CHANGED, &e) == 1,
                "changes of the Temperature Threshold are not recorded");
        succeed(q, send_set_feature(q, FEAT_TEMP, second));
        want_events(q, &was, "Set Feature events", CHANGED, 2, &e);
        layout = (uint32_t)le_get(e.data, 4);
        dwords = layout & 7;
        want(t, dwords >= 2 && dwords <= 6, "2 to 6 dwords of the command", "%u", dwords);
        want_eq(t, "bytes of the event", e.len,
                4 + 4 * dwords + (layout >> 16) + (layout & 8 ? 4 : 0));
        want_eq(t, "CDW10 of the event", le_get(e.data + 4, 4), FEAT_TEMP);
        want_eq(t, "CDW11 of the event", le_get(e.data + 8, 4), second);
}
