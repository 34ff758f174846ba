/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 4.4, 5.1.25: what becomes of the value of a feature. */
#include <inttypes.h>
#include <string.h>

#include "conformance/words/case.h"

enum { CURRENT, DEFAULT, SAVED, CAPABILITIES /* Select */ };
enum { SAVEABLE = 1 << 0, CHANGEABLE = 1 << 2, UNDER = 1 << 20 /* THSEL */ };

static struct reply get(struct queue *q, uint8_t fid, uint8_t select, uint32_t cdw11, uint32_t nsid)
{
        return finish(q, send_cmd(q, .opc = NVME_GET_FEATURES, .nsid = nsid,
                                  .cdw10 = fid | (uint32_t)select << 8, .cdw11 = cdw11));
}

static uint32_t value_of(struct queue *q, uint8_t fid, uint8_t select, uint32_t cdw11)
{
        struct reply r = get(q, fid, select, cdw11, 0);

        require_feature(q, r, "feature %02Xh cannot be read", fid);
        return r.dw0;
}

/* The default, where that can be asked for and the feature is one that a reset brings back to it. */
static uint32_t default_of(struct queue *q, uint8_t fid, uint32_t which)
{
        uint32_t can;

        require(q->t, le16_get(caps(q->t)->id.oncs) & ONCS_SAVE,
                "ONCS does not announce Select and Save");
        can = value_of(q, fid, CAPABILITIES, 0);
        require(q->t, (can & (SAVEABLE | CHANGEABLE)) == CHANGEABLE,
                "feature %02Xh is saveable or cannot be changed", fid);
        return value_of(q, fid, DEFAULT, which);
}

static void set(struct queue *q, uint8_t fid, uint32_t value)
{
        require_feature(q, finish(q, send_set_feature(q, fid, value)),
                        "feature %02Xh cannot be set to %Xh", fid, value);
}

static void reset(struct queue *q)
{
        set_cc(q, CC_RUN & ~CC_EN, CSTS_RDY, 0);
        set_cc(q, CC_RUN, CSTS_RDY, CSTS_RDY);
}

CASE("base/feature/read-twice", MUST, RULES(FEAT_STAYS),
     "Get Features returns a value that was set each time it is asked")
{
        struct queue *q = admin_queue(t);
        uint32_t value = value_of(q, FEAT_ARBITRATION, CURRENT, 0) ^ 1; /* Arbitration Burst */

        set(q, FEAT_ARBITRATION, value);
        for (int i = 0; i < 3; i++)
                want_eq(t, "Arbitration", value_of(q, FEAT_ARBITRATION, CURRENT, 0), value);
}

/* `flip`: bits that make a lawful other value of it; which: what dword 11 selects of the feature. */
static void goes_back_of(struct t *t, uint8_t fid, uint32_t which, uint32_t flip)
{
        struct queue *q = admin_queue(t);
        uint32_t initial = default_of(q, fid, which);

        keep_feature(q, fid, 0, which, 0);
        set(q, fid, which | (initial ^ flip));
        reset(q);
        want_eq(t, "the value after a Controller Reset", value_of(q, fid, CURRENT, which), initial);
}

static void goes_back(struct t *t, uint8_t fid, uint32_t flip)
{
        goes_back_of(t, fid, 0, flip);
}

CASE("base/feature/reset-arbitration", MUST, RULES(FEAT_RESET),
     "Arbitration has its default value after a Controller Reset", .after = undo)
{
        goes_back(t, FEAT_ARBITRATION, 1);
}

CASE("base/feature/reset-threshold", MUST, RULES(FEAT_RESET),
     "Temperature Threshold has its default value after a Controller Reset", .after = undo)
{
        goes_back(t, FEAT_TEMP, 1);
}

CASE("base/feature/reset-write-cache", MUST, RULES(FEAT_RESET),
     "Volatile Write Cache has its default value after a Controller Reset", .after = undo)
{
        require(t, caps(t)->id.vwc & 1, "there is no volatile write cache");
        goes_back(t, FEAT_WRITE_CACHE, 1);
}

CASE("base/feature/reset-events", MUST, RULES(FEAT_RESET),
     "Asynchronous Event Configuration has its default value after a Controller Reset",
     .after = undo)
{
        goes_back(t, FEAT_AEC, 1); /* SMART: spare below its threshold */
}

CASE("base/feature/reset-under-threshold", MUST, RULES(FEAT_RESET),
     "The under temperature threshold has its default value after a Controller Reset",
     .after = undo)
{
        require(t, le16_get(caps(t)->id.wctemp), "WCTEMP is 0");
        goes_back_of(t, FEAT_TEMP, UNDER, 1);
}

/* The power state that is returned is the current one (5.1.25.1.2), which may change by itself and by what other
 * controllers of the domain are told. */
CASE("base/feature/reset-power", MUST, RULES(FEAT_RESET),
     "The workload hint of Power Management has its default value after a Controller Reset",
     .after = undo)
{
        enum { WORKLOAD = 7 << 5 };
        struct queue *q = admin_queue(t);
        uint32_t initial = default_of(q, FEAT_POWER, 0);

        keep_feature(q, FEAT_POWER, 0, 0, 0);
        set(q, FEAT_POWER, (initial & 0xff) ^ 1 << 5);
        reset(q);
        want_eq(t, "the workload hint after a Controller Reset",
                value_of(q, FEAT_POWER, CURRENT, 0) & WORKLOAD, initial & WORKLOAD);
}

CASE("base/feature/saved", MUST, RULES(FEAT_SELECT),
     "Setting Arbitration, which cannot be saved, changes neither its default nor its saved value")
{
        struct queue *q = admin_queue(t);
        uint32_t initial = default_of(q, FEAT_ARBITRATION, 0);

        set(q, FEAT_ARBITRATION, initial ^ 1);
        want_eq(t, "the saved value of Arbitration", value_of(q, FEAT_ARBITRATION, SAVED, 0),
                initial);
        want_eq(t, "the default value of Arbitration", value_of(q, FEAT_ARBITRATION, DEFAULT, 0),
                initial);
}

/* --- Temperature Threshold */

CASE("base/feature/thresholds", MUST, RULES(FEAT_THRESHOLDS),
     "Over and under temperature threshold are set and read separately", .after = undo)
{
        struct queue *q = admin_queue(t);
        uint32_t over = value_of(q, FEAT_TEMP, CURRENT, 0) & 0xffff, under;

        require(t, le16_get(caps(t)->id.wctemp), "WCTEMP is 0");
        under = value_of(q, FEAT_TEMP, CURRENT, UNDER) & 0xffff;
        require(t, over > 1, "the over temperature threshold is %u", over);
        keep_feature(q, FEAT_TEMP, 0, UNDER, 0);
        under = under == 1 ? 2 : 1; /* kelvin: reached by nothing */
        set(q, FEAT_TEMP, UNDER | under);
        want_eq(t, "the over temperature threshold", value_of(q, FEAT_TEMP, CURRENT, 0) & 0xffff,
                over);
        want_eq(t, "the under temperature threshold",
                value_of(q, FEAT_TEMP, CURRENT, UNDER) & 0xffff, under);
}

CASE("base/feature/threshold-default", MUST, RULES(FEAT_THRESHOLDS),
     "The over temperature threshold is WCTEMP by default")
{
        struct queue *q = admin_queue(t);

        require(t, le16_get(caps(t)->id.wctemp), "WCTEMP is 0");
        reset(q);
        require(t,
                !(le16_get(caps(t)->id.oncs) & ONCS_SAVE) ||
                    !(value_of(q, FEAT_TEMP, CAPABILITIES, 0) & SAVEABLE),
                "Temperature Threshold is saveable");
        want_eq(t, "the over temperature threshold", value_of(q, FEAT_TEMP, CURRENT, 0) & 0xffff,
                le16_get(caps(t)->id.wctemp));
}

/* --- Timestamp */

enum { DAY_MS = 24 * 3600 * 1000, SET_MS_SHIFT = 40, STAMP = 8 };
#define SET_TO (UINT64_C(1) << SET_MS_SHIFT) /* in 2004 */

struct stamp {
        uint64_t ms;
        unsigned origin;
        bool synch; /* it may have stood still for a time */
};

static struct stamp timestamp(struct queue *q)
{
        const uint8_t *p = succeed(q, send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_TIMESTAMP,
                                               .bytes = STAMP))
                               .data;

        return (struct stamp) { le_get(p, 6), p[6] >> 1 & 7, p[6] & 1 };
}

static struct queue *stamped(struct t *t)
{
        struct queue *q = admin_queue(t);
        uint8_t data[STAMP] = { 0 };

        require(t, le16_get(caps(t)->id.oncs) & ONCS_TIMESTAMP, "Timestamp is not supported");
        le_put(data, 6, SET_TO);
        succeed(q, send_cmd(q, .opc = NVME_SET_FEATURES, .cdw10 = FEAT_TIMESTAMP, .bytes = STAMP,
                            .data = data, .in_capsule = !t_is_rdma(t)));
        return q;
}

CASE("base/feature/timestamp-origin", MUST, RULES(FEAT_TIMESTAMP_ORIGIN),
     "Timestamp Origin is 001b after Set Features, and 000b only with a Timestamp that a reset "
     "began")
{
        struct queue *q = stamped(t);
        struct stamp s = timestamp(q);

        want_eq(t, "Timestamp Origin", s.origin, 1);
        require(t,
                !(le16_get(caps(t)->id.oncs) & ONCS_SAVE) ||
                    !(value_of(q, FEAT_TIMESTAMP, CAPABILITIES, 0) & SAVEABLE),
                "Timestamp is saveable");
        reset(q);
        s = timestamp(q);
        want(t, s.origin == 1 || s.ms < DAY_MS, "origin 001b, or a Timestamp since the reset",
             "origin %u and %" PRIu64 " ms", s.origin, s.ms);
}

CASE("base/feature/timestamp-runs", MUST, RULES(FEAT_TIMESTAMP_RUNS),
     "Timestamp counts the milliseconds since it was set", .slow = true, .unmoved = true)
{
        enum { WAIT = 3000, SLACK = 1200 }; /* its resolution nobody says */
        uint64_t before = now_ms(), elapsed, least;
        struct queue *q = stamped(t);
        uint64_t set_by = now_ms();
        struct stamp s;

        pause_ms(t, WAIT);
        least = now_ms() - set_by;
        s = timestamp(q);
        elapsed = now_ms() - before;
        want(t, s.ms >= SET_TO && s.ms - SET_TO <= elapsed + elapsed / 20 + SLACK,
             "no more than the time since it was set", "%" PRIu64 " ms after %" PRIu64 " ms",
             s.ms - SET_TO, elapsed);
        want(t, s.synch || s.ms - SET_TO + SLACK + least / 20 >= least,
             "no less than the time since it was set (Synch is 0)",
             "%" PRIu64 " ms after %" PRIu64 " ms", s.ms - SET_TO, least);
}

/* --- NSID, Host Identifier */

CASE("base/feature/namespace", MUST, RULES(FEAT_NSID),
     "Set Features of Arbitration with the NSID of a namespace fails with Feature Not Namespace "
     "Specific")
{
        struct queue *q = admin_queue(t);
        uint32_t value = value_of(q, FEAT_ARBITRATION, CURRENT, 0);

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        expect_error(q,
                     send_cmd(q, .opc = NVME_SET_FEATURES, .nsid = caps(t)->nsid,
                              .cdw10 = FEAT_ARBITRATION, .cdw11 = value),
                     NVME_FEATURE_NOT_NS);
}

CASE("base/feature/get-namespace", MUST, RULES(FEAT_NSID),
     "Get Features of Arbitration with the NSID of a namespace returns the controller's value")
{
        struct queue *q = admin_queue(t);
        uint32_t value = value_of(q, FEAT_ARBITRATION, CURRENT, 0) ^ 1;
        struct reply r;

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        set(q, FEAT_ARBITRATION, value);
        r = get(q, FEAT_ARBITRATION, CURRENT, 0, caps(t)->nsid);
        want_eq(t, "the status of Get Features", r.status, NVME_SUCCESS);
        want_eq(t, "Arbitration", r.dw0, value);
}

CASE("base/feature/host-identifier-128", MUST, RULES(FEAT_HOSTID_READ),
     "Get Features returns the 128-bit Host Identifier that Connect gave")
{
        struct queue *q = admin_queue(t);
        struct connect_data d = connect_data(q);
        struct reply r = finish(q, send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_HOSTID,
                                            .cdw11 = 1, .bytes = sizeof(d.hostid)));

        want_eq(t, "the status of Get Features", r.status, NVME_SUCCESS);
        want_bytes(t, "HOSTID", r.data, d.hostid, sizeof(d.hostid));
}

/* --- scope, capabilities */

CASE("base/feature/capabilities", MUST, RULES(FEAT_NSSPEC),
     "The capabilities of features of the controller do not say that they are namespace specific")
{
        static const uint8_t fids[] = {
                FEAT_ARBITRATION, FEAT_POWER, FEAT_TEMP, FEAT_WRITE_CACHE,
                FEAT_QUEUES,      FEAT_AEC,   FEAT_KATO, FEAT_HOST_BEHAVIOR
        };
        enum { OF_NS = 1 << 1 };
        struct queue *q = admin_queue(t);

        require(t, le16_get(caps(t)->id.oncs) & ONCS_SAVE,
                "ONCS does not announce Select and Save");
        for (unsigned i = 0; i < sizeof(fids); i++) {
                struct reply r = get(q, fids[i], CAPABILITIES, 0, 0);

                want(t, r.status != NVME_SUCCESS || !(r.dw0 & OF_NS), "bit 1 cleared",
                     "capabilities %Xh of feature %02Xh", r.dw0, fids[i]);
        }
}

#define NOT_OF_NS "Error Recovery cannot be %s for NSID %u: %s"

/* It is not available where ANA makes a namespace inaccessible (8.1.1.10), nor for those of other command sets. */
static uint32_t error_recovery(struct queue *q, uint32_t nsid)
{
        struct reply r = get(q, FEAT_ERROR_RECOVERY, CURRENT, 0, nsid);

        require(q->t, r.status == NVME_SUCCESS, NOT_OF_NS, "read", nsid, status_name(r.status));
        return r.dw0;
}

/* Error Recovery of two namespaces; false: somebody else has set it in between. */
static bool is_apart(struct queue *q, uint32_t nsid, uint32_t other)
{
        uint32_t was = error_recovery(q, nsid), now = was ^ 1, before = error_recovery(q, other),
                 after;
        struct reply r = finish(q, send_cmd(q, .opc = NVME_SET_FEATURES, .nsid = nsid,
                                            .cdw10 = FEAT_ERROR_RECOVERY, .cdw11 = now));
        bool good;

        require(q->t, r.status == NVME_SUCCESS, NOT_OF_NS, "set", nsid, status_name(r.status));
        after = error_recovery(q, other);
        good = error_recovery(q, nsid) == now && after == before;
        finish(q, send_cmd(q, .opc = NVME_SET_FEATURES, .nsid = nsid, .cdw10 = FEAT_ERROR_RECOVERY,
                           .cdw11 = was));
        return good;
}

static void want_apart(struct queue *q, uint32_t nsid, uint32_t other)
{
        enum { TRIES = 5 };
        int tries = 0;

        while (tries < TRIES && !is_apart(q, nsid, other))
                tries++;
        want(q->t, tries < TRIES, "the Error Recovery of one namespace changed",
             "set for NSID %u: that of NSID %u unchanged, or that of NSID %u changed, %d times",
             nsid, nsid, other, TRIES);
}

CASE("base/feature/namespace-scope", MUST, RULES(FEAT_OF_NS),
     "Error Recovery is set for the namespace that is named, and for no other one", .alone = true,
     .after = undo)
{
        struct queue *q = admin_queue(t);
        const uint8_t *list = identify(q, CNS_NS_LIST, 0);
        uint32_t nsid = (uint32_t)le_get(list, 4), other = (uint32_t)le_get(list + 4, 4);

        require(t, other, "the subsystem has less than two namespaces");
        require_feature(q, get(q, FEAT_ERROR_RECOVERY, CURRENT, 0, nsid),
                        "Error Recovery is not supported");
        keep_feature(q, FEAT_ERROR_RECOVERY, nsid, 0, 0);
        keep_feature(q, FEAT_ERROR_RECOVERY, other, 0, 0);
        want_apart(q, nsid, other);
        want_apart(q, other, nsid);
}

/* --- Power Management, Host Behavior Support */

CASE("base/feature/power-state", MUST, RULES(FEAT_KEPT),
     "Get Features of Power Management returns the power state that was set", .after = undo)
{
        enum {
                TRIES = 3
        }; /* it may change by itself (5.1.25.1.6), or by what others of the domain are told */
        struct queue *q = admin_queue(t);
        uint32_t was = value_of(q, FEAT_POWER, CURRENT, 0), value = UINT32_MAX;

        keep_feature(q, FEAT_POWER, 0, 0, 0);
        for (int i = 0; i < TRIES && value != (was & 31); i++) {
                set(q, FEAT_POWER, was & 31);
                value = value_of(q, FEAT_POWER, CURRENT, 0) & 0xff;
        }
        want_eq(t, "Power Management", value, was & 31);
}

enum { BEHAVIOR = 512 };

static uint16_t send_behavior(struct queue *q, const uint8_t data[BEHAVIOR])
{
        return send_cmd(q, .opc = NVME_SET_FEATURES, .cdw10 = FEAT_HOST_BEHAVIOR, .bytes = BEHAVIOR,
                        .data = data);
}

static void set_behavior(struct queue *q, const uint8_t data[BEHAVIOR])
{
        require_feature(q, finish(q, send_behavior(q, data)),
                        "Host Behavior Support cannot be set");
}

static const uint8_t *behavior(struct queue *q)
{
        struct reply r = finish(q, send_cmd(q, .opc = NVME_GET_FEATURES,
                                            .cdw10 = FEAT_HOST_BEHAVIOR, .bytes = BEHAVIOR));

        require_feature(q, r, "Host Behavior Support is not supported");
        return r.data;
}

CASE("base/feature/host-behavior", MUST, RULES(FEAT_BEHAVIOR),
     "Host Behavior Support begins with zeroes, and each Set Features replaces all of it")
{
        enum { ACRE, ETDAS };
        struct queue *q = admin_queue(t);
        uint8_t zeroes[BEHAVIOR] = { 0 }, acre[BEHAVIOR] = { [ACRE] = 1 };

        want_bytes(t, "Host Behavior Support of a new controller", behavior(q), zeroes, BEHAVIOR);
        require_feature(q, finish(q, send_behavior(q, acre)),
                        "Host Behavior Support cannot be set");
        want_eq(t, "ACRE", behavior(q)[ACRE], 1);
        set_behavior(q, zeroes);
        want_eq(t, "ACRE", behavior(q)[ACRE], 0);
        want_eq(t, "ETDAS", behavior(q)[ETDAS], 0);
}

CASE("base/feature/reset-host-behavior", MUST, RULES(FEAT_RESET),
     "Host Behavior Support is zeroes after a Controller Reset")
{
        struct queue *q = admin_queue(t);
        uint8_t zeroes[BEHAVIOR] = { 0 }, acre[BEHAVIOR] = { 1 };

        require(t,
                !(le16_get(caps(t)->id.oncs) & ONCS_SAVE) ||
                    !(value_of(q, FEAT_HOST_BEHAVIOR, CAPABILITIES, 0) & SAVEABLE),
                "Host Behavior Support is saveable");
        behavior(q);
        require_feature(q, finish(q, send_behavior(q, acre)),
                        "Host Behavior Support cannot be set");
        reset(q);
        want_bytes(t, "Host Behavior Support", behavior(q), zeroes, BEHAVIOR);
}

CASE("base/feature/timestamp-wraps", MUST, RULES(FEAT_TIMESTAMP_RUNS),
     "Timestamp goes on with 0 after 2^48 - 1", .slow = true, .unmoved = true)
{
        enum { BEFORE = 200, WAIT = 2500 };
        struct queue *q = stamped(t);
        uint8_t data[STAMP] = { 0 };
        struct stamp s;

        le_put(data, 6, (UINT64_C(1) << 48) - BEFORE);
        succeed(q, send_cmd(q, .opc = NVME_SET_FEATURES, .cdw10 = FEAT_TIMESTAMP, .bytes = STAMP,
                            .data = data, .in_capsule = !t_is_rdma(t)));
        pause_ms(t, WAIT);
        s = timestamp(q);
        want(t, s.synch || s.ms < DAY_MS, "a Timestamp that has begun again", "%" PRIu64 " ms",
             s.ms);
}

/* --- data pointer, saving, all namespaces */

CASE("base/feature/no-data", MUST, RULES(FEAT_NO_DATA),
     "Get Features of Arbitration, which has no data, succeeds with a buffer of 4,096 bytes "
     "described")
{
        struct queue *q = admin_queue(t);

        require_feature(q, get(q, FEAT_ARBITRATION, CURRENT, 0, 0), "Arbitration is not supported");
        succeed(q, send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_ARBITRATION, .bytes = 4096,
                            .sgl_len = 4096));
}

CASE("base/feature/never-saved", MUST, RULES(FEAT_UNSAVEABLE),
     "Features that cannot be saved do not have the capability to be saved, and Host Metadata can "
     "be "
     "changed")
{
        static const uint8_t fids[] = { FEAT_HOST_BEHAVIOR, 0x7d, 0x7e, 0x7f, 0x83, 0x84, 0x85 };
        struct queue *q = admin_queue(t);

        require(t, le16_get(caps(t)->id.oncs) & ONCS_SAVE,
                "ONCS does not announce Select and Save");
        for (unsigned i = 0; i < sizeof(fids); i++) {
                bool of_ns = fids[i] == 0x7f || fids[i] == 0x83 || fids[i] == 0x84;
                bool metadata = fids[i] >= 0x7d && fids[i] <= 0x7f;
                struct reply r =
                    get(q, fids[i], CAPABILITIES, 0, of_ns && caps(t)->nsid ? caps(t)->nsid : 0);

                if (r.status != NVME_SUCCESS)
                        continue;
                if (fids[i] == 0x83 && caps(t)->vs < NVME_VERSION(2, 2, 0) && r.dw0 & SAVEABLE)
                        lenient(t, "bit 0 cleared", "Reservation Persistence is saveable");
                else
                        want(t, !(r.dw0 & SAVEABLE), "bit 0 cleared",
                             "capabilities %Xh of feature %02Xh", r.dw0, fids[i]);
                want(t, !metadata || r.dw0 & CHANGEABLE, "bit 2 set",
                     "capabilities %Xh of feature %02Xh", r.dw0, fids[i]);
        }
}

/* Whether all of these have it after it was set for all; somebody else may set it in between. */
static bool is_everywhere(struct queue *q, const uint8_t *list, uint32_t value)
{
        enum { LOOKED_AT = 4 };
        struct reply r = finish(q, send_cmd(q, .opc = NVME_SET_FEATURES, .nsid = NSID_ALL,
                                            .cdw10 = FEAT_ERROR_RECOVERY, .cdw11 = value));

        require(q->t, r.status != NVME_INVALID_NS,
                "Error Recovery cannot be set for all namespaces");
        require_feature(q, r, "Error Recovery cannot be set");
        for (unsigned i = 0; i < LOOKED_AT && le_get(list + i * 4, 4); i++)
                if (get(q, FEAT_ERROR_RECOVERY, CURRENT, 0, (uint32_t)le_get(list + i * 4, 4))
                        .dw0 != value)
                        return false;
        return true;
}

CASE("base/feature/namespace-all", MUST, RULES(FEAT_NS_ALL),
     "Error Recovery that is set for NSID FFFFFFFFh is that of each namespace", .alone = true,
     .after = undo)
{
        enum { TRIES = 5, MDS = 1 << 10, MOST = 64 };
        struct queue *q = admin_queue(t);
        const uint8_t *list = identify(q, CNS_NS_LIST, 0);
        uint32_t nsid = (uint32_t)le_get(list, 4), was;
        bool good = false;

        require(t, nsid, "the subsystem has no namespace");
        require(t, !(le32_get(caps(t)->id.ctratt) & MDS), "the subsystem has several domains");
        require_feature(q, get(q, FEAT_ERROR_RECOVERY, CURRENT, 0, nsid),
                        "Error Recovery is not supported");
        require(t, !le_get(list + MOST * 4, 4), "more than %d namespaces would have to be restored",
                MOST);
        for (unsigned i = 0; i < MOST && le_get(list + i * 4, 4); i++)
                keep_feature(q, FEAT_ERROR_RECOVERY, (uint32_t)le_get(list + i * 4, 4), 0, 0);
        was = get(q, FEAT_ERROR_RECOVERY, CURRENT, 0, nsid).dw0;
        for (int i = 0; i < TRIES && !good; i++)
                good = is_everywhere(q, list, was ^ 1);
        want(t, good, "one Error Recovery of all namespaces", "they differ, %d times", TRIES);
}

CASE(
    "base/feature/thermal", MUST, RULES(FEAT_THERMAL),
    "Thermal management temperatures are kept, and refused where the first is not below the second",
    .after = undo)
{
        struct queue *q = admin_queue(t);
        uint32_t least = le16_get(caps(t)->id.mntmt), most = le16_get(caps(t)->id.mxtmt);

        require(t, le16_get(caps(t)->id.hctma) & 1, "HCTMA announces no thermal management");
        require(t, least > 0 && least < most, "MNTMT and MXTMT leave no room");
        keep_feature(q, FEAT_THERMAL_MANAGEMENT, 0, 0, 0);
        set(q, FEAT_THERMAL_MANAGEMENT, least << 16 | most);
        want_eq(t, "the temperatures", value_of(q, FEAT_THERMAL_MANAGEMENT, CURRENT, 0),
                least << 16 | most);
        expect_error(q, send_set_feature(q, FEAT_THERMAL_MANAGEMENT, most << 16 | least),
                     NVME_INVALID_FIELD);
        set(q, FEAT_THERMAL_MANAGEMENT, 0);
        want_eq(t, "the temperatures when they are disabled",
                value_of(q, FEAT_THERMAL_MANAGEMENT, CURRENT, 0), 0);
}

/* --- what is kept for others: labels, addresses, progress */

static struct reply set_data(struct queue *q, uint8_t fid, uint32_t save, uint32_t nsid,
                             const void *data, uint32_t bytes)
{
        return finish(q, send_cmd(q, .opc = NVME_SET_FEATURES, .nsid = nsid, .cdw10 = fid | save,
                                  .bytes = bytes, .data = data));
}

static struct reply get_data(struct queue *q, uint8_t fid, uint32_t select, uint32_t nsid,
                             uint32_t bytes)
{
        return finish(q, send_cmd(q, .opc = NVME_GET_FEATURES, .nsid = nsid,
                                  .cdw10 = fid | select << 8, .bytes = bytes));
}

/* The subsystem that is given up, or that which is tested: where something is remembered. */
static struct queue *keeper(struct t *t, uint8_t fid, uint32_t bytes)
{
        struct queue *q;

        require(t, caps(t)->expendable,
                "nothing may be changed that outlives the run (--expendable-nqn)");
        q = admin_queue(t, .subnqn = caps(t)->expendable);
        require(t, le16_get(identify_ctrl(q)->oncs) & ONCS_SAVE,
                "ONCS does not announce Select and Save");
        if (fid != FEAT_LABEL)
                require_feature(q, get_data(q, fid, CURRENT, 0, bytes),
                                "feature %02Xh is not supported", fid);
        return q;
}

CASE("base/feature/label", MUST, RULES(FEAT_LABEL_KEPT, FAB_NSID),
     "Namespace Admin Label is zeroes by default, refused unless saved, and kept over a reset",
     .alone = true, .after = undo)
{
        enum { BYTES = 256, BEYOND_NN = 0x7fffffff };
        const uint32_t save = 1u << 31;
        uint8_t label[BYTES] = "nvmfspec", zeroes[BYTES] = { 0 };
        struct queue *q = keeper(t, FEAT_LABEL, BYTES);
        uint32_t nsid = (uint32_t)le_get(identify(q, CNS_NS_LIST, 0), 4);
        struct reply was;

        require(t, nsid, "the subsystem has no namespace");
        was = get_data(q, FEAT_LABEL, CURRENT, nsid, BYTES);
        require_feature(q, was, "there is no Namespace Admin Label");
        keep_feature(q, FEAT_LABEL | save, nsid, 0, BYTES);
        want_bytes(t, "the default label", get_data(q, FEAT_LABEL, DEFAULT, nsid, BYTES).data,
                   zeroes, BYTES);
        want_eq(t, "bit 0 of the capabilities",
                get(q, FEAT_LABEL, CAPABILITIES, 0, nsid).dw0 & SAVEABLE, SAVEABLE);
        want_eq(t, "the status of Set Features with SV 0",
                set_data(q, FEAT_LABEL, 0, nsid, label, BYTES).status, NVME_INVALID_FIELD);
        want_eq(t, "the status of Set Features with SV 1",
                set_data(q, FEAT_LABEL, save, nsid, label, BYTES).status, NVME_SUCCESS);
        want_bytes(t, "the label", get_data(q, FEAT_LABEL, CURRENT, nsid, BYTES).data, label,
                   BYTES);
        reset(q);
        want_bytes(t, "the label after a Controller Reset",
                   get_data(q, FEAT_LABEL, CURRENT, nsid, BYTES).data, label, BYTES);
        want_bytes(t, "the saved label after a Controller Reset",
                   get_data(q, FEAT_LABEL, SAVED, nsid, BYTES).data, label, BYTES);
        require(t, le32_get(identify_ctrl(q)->nn) < BEYOND_NN, "no NSID is invalid");
        about(t, FAB_NSID);
        want_eq(t, "the status of an NSID above NN",
                get_data(q, FEAT_LABEL, CURRENT, BEYOND_NN, BYTES).status, NVME_INVALID_NS);
}

CASE("base/feature/agents", MUST, RULES(FEAT_AGENTS),
     "The addresses of management controller and host agent are those that were set, each its own",
     .alone = true, .after = undo)
{
        enum { BYTES = 512 };
        struct queue *q = keeper(t, FEAT_AGENT, BYTES);
        uint8_t first[BYTES] = { [4] = 'a', 'b' }, second[BYTES] = { [4] = 'x', 'y', 'z' };

        require_feature(q, get_data(q, FEAT_HOST_AGENT, CURRENT, 0, BYTES),
                        "feature 79h is not supported");
        keep_feature(q, FEAT_AGENT, 0, 0, BYTES);
        keep_feature(q, FEAT_HOST_AGENT, 0, 0, BYTES);
        want_eq(t, "the status of Set Features of 78h",
                set_data(q, FEAT_AGENT, 0, 0, first, BYTES).status, NVME_SUCCESS);
        want_eq(t, "the status of Set Features of 79h",
                set_data(q, FEAT_HOST_AGENT, 0, 0, second, BYTES).status, NVME_SUCCESS);
        want_bytes(t, "the Embedded Management Controller Address",
                   get_data(q, FEAT_AGENT, CURRENT, 0, BYTES).data, first, BYTES);
        want_bytes(t, "the Host Management Agent Address",
                   get_data(q, FEAT_HOST_AGENT, CURRENT, 0, BYTES).data, second, BYTES);
}

CASE("base/feature/progress", MUST, RULES(FEAT_PROGRESS_KEPT),
     "Software Progress Marker is kept over a Controller Reset", .alone = true, .after = undo)
{
        enum { COUNT = 5 };
        struct queue *q = keeper(t, FEAT_PROGRESS, 0);

        keep_feature(q, FEAT_PROGRESS, 0, 0, 0);
        set(q, FEAT_PROGRESS, COUNT);
        reset(q);
        want_eq(t, "the count after a Controller Reset",
                value_of(q, FEAT_PROGRESS, CURRENT, 0) & 0xff, COUNT);
}

CASE("base/feature/copy-formats", MUST, RULES(FEAT_CDFE),
     "Bits 1:0 of CDFE are ignored by Set Features and returned as 0")
{
        enum { CDFE = 4, ALWAYS = 3, FORMATS = 7 << 2 /* of CDFS: that are to be enabled */ };
        struct queue *q = admin_queue(t);
        uint8_t data[BEHAVIOR] = { [CDFE] = ALWAYS };

        require(t, caps(t)->vs >= NVME_VERSION(2, 1, 0) || le16_get(caps(t)->id.cdfs) & FORMATS,
                "CDFE was added in NVMe 2.1");
        behavior(q);
        require(t, le16_get(caps(t)->id.oncs) & ONCS_COPY, "Copy is not supported (ONCS)");
        set_behavior(q, data);
        want_eq(t, "CDFE bits 1:0", behavior(q)[CDFE] & ALWAYS, 0);
}

CASE("base/feature/fixed", MUST, RULES(FEAT_FIXED),
     "Another value of a feature that cannot be changed is refused with Feature Not Changeable",
     .alone = true)
{
        /* Those of which bit 0 alone makes a lawful other value. */
        static const uint8_t fids[] = { FEAT_ARBITRATION, FEAT_WRITE_ATOMICITY, FEAT_SANITIZE };
        struct queue *q = keeper(t, FEAT_ARBITRATION, 0);
        unsigned fixed = 0;

        for (unsigned i = 0; i < sizeof(fids); i++) {
                struct reply can = get(q, fids[i], CAPABILITIES, 0, 0);
                struct reply is = get(q, fids[i], CURRENT, 0, 0);

                if (can.status || is.status || can.dw0 & CHANGEABLE)
                        continue;
                fixed++;
                want_eq(t, "the status of Set Features",
                        finish(q, send_set_feature(q, fids[i], is.dw0 ^ 1)).status,
                        NVME_FEATURE_NOT_CHANGEABLE);
        }
        require(t, fixed, "each of these features can be changed");
}
