/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVMe Base 5.1.25.1.31, 8.1.16: write protection of the namespace that is tested. Nothing is judged
 * before the namespace is writable again.
 */
#include <string.h>

#include "conformance/words/case.h"

#include "conformance/engine/suite.h"

enum { DEALLOCATE = 4, TRIES = 6 };

static uint16_t send_state(struct queue *admin, uint32_t state)
{
        return send_cmd(admin, .opc = NVME_SET_FEATURES, .nsid = caps(admin->t)->nsid,
                        .cdw10 = FEAT_WRITE_PROTECT, .cdw11 = state);
}

static struct reply state_of(struct queue *admin)
{
        return finish(admin, send_cmd(admin, .opc = NVME_GET_FEATURES, .nsid = caps(admin->t)->nsid,
                                      .cdw10 = FEAT_WRITE_PROTECT));
}

static uint16_t unprotect(struct queue *q)
{
        return finish(q->admin, send_state(q->admin, 0)).status;
}

static uint16_t send_blocks(struct queue *q, uint8_t opc, const void *data)
{
        uint64_t lba = own_lba(q->t);
        uint32_t bytes = data ? caps(q->t)->block : 0;

        return send_cmd(q, .opc = opc, .nsid = caps(q->t)->nsid, .cdw10 = (uint32_t)lba,
                        .cdw11 = (uint32_t)(lba >> 32), .bytes = bytes, .data = data,
                        .in_capsule = bytes <= caps(q->t)->in_capsule);
}

/* A block of the case, written before the namespace is protected. */
static const uint8_t *protect(struct queue *q)
{
        struct t *t = q->t;
        const uint8_t *data = pattern(t, 2 * caps(t)->block);
        struct reply r;

        require(t, caps(t)->id.nwpc & 1, "NWPC says that there is no write protection");
        require(t, caps(t)->nsid && caps(t)->block <= BLOCK_MAX, "no blocks of at most %u bytes",
                BLOCK_MAX);
        r = keep_feature(q->admin, FEAT_WRITE_PROTECT, caps(t)->nsid, 0, 0);
        require(t, r.status == NVME_SUCCESS && r.dw0 == 0, "the namespace is write protected");
        succeed(q, send_blocks(q, NVME_WRITE, data));
        succeed(q->admin, send_state(q->admin, 1));
        return data;
}

static uint16_t send_dsm(struct queue *q, uint32_t attributes)
{
        struct dsm_range *range = t_alloc(q->t, sizeof(*range));

        *range = (struct dsm_range) { .blocks = le32(1), .slba = le64(own_lba(q->t)) };
        return send_cmd(q, .opc = NVME_DSM, .nsid = caps(q->t)->nsid, .cdw11 = attributes,
                        .bytes = sizeof(*range), .data = range,
                        .in_capsule = caps(q->t)->in_capsule >= sizeof(*range));
}

static uint16_t send_copy(struct queue *q)
{
        uint64_t lba = own_lba(q->t);
        struct copy_range *range = t_alloc(q->t, sizeof(*range));

        *range = (struct copy_range) { .slba = le64(lba + 1) };
        return send_cmd(q, .opc = NVME_COPY, .nsid = caps(q->t)->nsid, .cdw10 = (uint32_t)lba,
                        .cdw11 = (uint32_t)(lba >> 32), .bytes = sizeof(*range), .data = range,
                        .in_capsule = caps(q->t)->in_capsule >= sizeof(*range));
}

struct attempt {
        const char *what;
        uint16_t status;
        bool any; /* error is right */
};

static bool is_right(const struct attempt *a)
{
        return a->any ? a->status != NVME_SUCCESS : a->status == NVME_WRITE_PROTECTED;
}

/* What this controller supports; how many. */
static unsigned attempt(struct queue *q, struct queue *other, const uint8_t *data,
                        struct attempt a[TRIES])
{
        uint16_t oncs = le16_get(caps(q->t)->id.oncs);
        unsigned n = 0;

        a[n++] =
            (struct attempt) { "Write", finish(q, send_blocks(q, NVME_WRITE, data)).status, false };
        a[n++] =
            (struct attempt) { "Write on another controller",
                               finish(other, send_blocks(other, NVME_WRITE, data)).status, false };
        if (oncs & ONCS_WRITE_ZEROES)
                a[n++] =
                    (struct attempt) { "Write Zeroes",
                                       finish(q, send_blocks(q, NVME_WRITE_ZEROES, NULL)).status,
                                       false };
        if (oncs & ONCS_WRITE_UNCORRECTABLE)
                a[n++] = (struct attempt) {
                        "Write Uncorrectable",
                        finish(q, send_blocks(q, NVME_WRITE_UNCORRECTABLE, NULL)).status, false
                };
        if (oncs & ONCS_COPY && le16_get(caps(q->t)->id.cdfs) & 1)
                a[n++] = (struct attempt) { "Copy", finish(q, send_copy(q)).status, false };
        if (oncs & ONCS_DSM)
                a[n++] = (struct attempt) { "Dataset Management that deallocates",
                                            finish(q, send_dsm(q, DEALLOCATE)).status, true };
        return n;
}

CASE("nvm/write-protect/refused", MUST, RULES(NS_PROTECTED),
     "Commands that would change a write protected namespace fail, on each controller, and change "
     "nothing",
     .writes = true, .alone = true, .after = undo)
{
        struct queue *q = io_queue(t), *other = io_queue(t);
        const uint8_t *data = protect(q);
        uint32_t block = caps(t)->block;
        struct attempt a[TRIES];
        unsigned n = attempt(q, other, data + block, a);
        uint16_t status = unprotect(q);

        want_eq(t, "the status of Set Features with No Write Protect", status, NVME_SUCCESS);
        for (unsigned i = 0; i < n; i++)
                want(t, is_right(&a[i]),
                     a[i].any ? "an error" : "Namespace is Write Protected (0/20h)",
                     "status %u/%02Xh of %s", a[i].status >> 8, a[i].status & 0xff, a[i].what);
        want_bytes(t, "what was written before", read_blocks(q, 0, block), data, block);
        succeed(q, send_blocks(q, NVME_WRITE, data + block));
}

/* Advice: Deallocate is not set. */
CASE("nvm/write-protect/readable", MUST, RULES(NS_PROTECTED_WORKS),
     "Read, Compare, Verify, Flush and hints of Dataset Management work on a write protected "
     "namespace",
     .writes = true, .alone = true, .after = undo)
{
        struct queue *q = io_queue(t);
        const uint8_t *data = protect(q);
        uint16_t oncs = le16_get(caps(t)->id.oncs), status[TRIES] = { 0 };
        uint32_t block = caps(t)->block;
        struct reply r = finish(q, send_read(q));

        status[0] = r.status;
        status[1] = finish(q, send_cmd(q, .opc = NVME_FLUSH, .nsid = caps(t)->nsid)).status;
        if (oncs & ONCS_COMPARE)
                status[2] = finish(q, send_compare(q, .data = data)).status;
        if (oncs & ONCS_VERIFY)
                status[3] = finish(q, send_blocks(q, NVME_VERIFY, NULL)).status;
        if (oncs & ONCS_DSM)
                status[4] = finish(q, send_dsm(q, 0)).status;
        status[5] = unprotect(q);
        for (unsigned i = 0; i < TRIES; i++) {
                static const char *const what[TRIES] = { "Read",
                                                         "Flush",
                                                         "Compare",
                                                         "Verify",
                                                         "Dataset Management without Deallocate",
                                                         "Set Features" };

                want(t, status[i] == NVME_SUCCESS, "Success", "status %u/%02Xh of %s",
                     status[i] >> 8, status[i] & 0xff, what[i]);
        }
        want_bytes(t, "what was written before", r.data, data, block);
}

enum { READ_ONLY = 1 << 3 };

static uint8_t warning(struct queue *admin)
{
        return *(const uint8_t *)get_log(admin, LOG_SMART, 512, 0);
}

CASE("nvm/write-protect/state", MUST, RULES(NS_PROTECTED_STAYS),
     "Get Features and NSATTR tell of write protection, which survives a Controller Reset",
     .writes = true, .alone = true, .after = undo)
{
        struct queue *q = io_queue(t), *admin = q->admin;
        uint32_t nsid = caps(t)->nsid;
        uint8_t before = warning(admin), during;
        uint32_t state, kept;
        struct id_ns ns;

        protect(q);
        state = state_of(admin).dw0;
        ns = *(const struct id_ns *)identify(admin, CNS_NS, nsid);
        during = warning(admin);
        set_cc(admin, 0, CSTS_RDY, 0);
        set_cc(admin, CC_RUN, CSTS_RDY, CSTS_RDY);
        kept = state_of(admin).dw0;
        succeed(admin, send_state(admin, 0));
        want_eq(t, "the state after it was set", state, 1);
        want_eq(t, "the state after a Controller Reset", kept, 1);
        want(t, ns.nsattr & 1, "NSATTR bit 0 of 1", "0");
        want(t, !(during & READ_ONLY) || before & READ_ONLY,
             "no critical warning of read-only media", "critical warning %02Xh", during);
        want_eq(t, "the state after No Write Protect was set", state_of(admin).dw0, 0);
        want(t, !(((const struct id_ns *)identify(admin, CNS_NS, nsid))->nsattr & 1),
             "NSATTR bit 0 of 0", "1");
}

CASE("nvm/write-protect/event", MUST, RULES(AER_PROTECTED),
     "Write protection of a namespace is not reported as a loss of reliability", .writes = true,
     .alone = true)
{
        enum { HEALTH = 0xff, QUIET_MS = 50 };
        struct queue *q = io_queue(t), *admin = q->admin;
        uint16_t aer, status;
        bool reported;

        require_feature(admin, finish(admin, send_set_feature(admin, FEAT_AEC, HEALTH & ~2u)),
                        "events of critical warnings cannot be enabled");
        aer = send_cmd(admin, .opc = NVME_AER);
        pause_ms(t, QUIET_MS);
        expect_works(admin);
        require(t, !answered(admin, aer), "there is an event already");
        protect(q);
        pause_ms(t, QUIET_MS);
        status = unprotect(q);
        expect_works(admin);
        reported = answered(admin, aer) && (finish(admin, aer).dw0 & 0xff07) == AEN_SMART;
        want_eq(t, "the status of Set Features with No Write Protect", status, NVME_SUCCESS);
        want(t, !reported, "no SMART / Health event", "NVM subsystem Reliability");
}

static bool is_changed(struct queue *admin, uint32_t nsid)
{
        const le32_t *list = take_changed(admin);
        bool changed = le32_get(list[0]) == NSID_ALL;

        for (unsigned i = 0; i < CHANGED_NSIDS && !changed; i++)
                changed = le32_get(list[i]) == nsid;
        return changed;
}

/* A change that is not reported is only looked for while the namespace is protected. */
CASE("nvm/write-protect/notice", MUST, RULES(AER_REPORTED),
     "A controller reports that another one has write protected a namespace, and lists that as "
     "changed",
     .writes = true, .alone = true, .after = undo)
{
        enum { EVENT = AEN_NOTICE | AEN_INFO_NS_CHANGED << 8 | LOG_CHANGED_NS << 16 };
        struct queue *q = io_queue(t), *other = admin_queue(t);
        uint32_t nsid = caps(t)->nsid;
        uint16_t aer, status;
        uint64_t until = 0;
        bool reported;

        require(t, caps(t)->vs >= NVME_VERSION(2, 0, 0),
                "before NVMe 2.0 a change of NSATTR is not named as one to report");
        require(t, le32_get(caps(t)->id.oaes) & OAES_NS,
                "OAES does not announce Attached Namespace Attribute Notices");
        succeed(other, send_set_feature(other, FEAT_AEC, AEC_NS));
        take_changed(other);
        aer = send_cmd(other, .opc = NVME_AER);
        expect_works(other);
        require(t, !answered(other, aer), "there is an event already");
        protect(q);
        do {
                expect_works(other);
                reported = answered(other, aer);
        } while (!reported && look_again(t, &until));
        status = unprotect(q);
        want_eq(t, "the status of Set Features with No Write Protect", status, NVME_SUCCESS);
        want(t, reported, "Attached Namespace Attribute Changed", "no event");
        want_eq(t, "the event", expect_success(other, aer).dw0, EVENT);
        want(t, is_changed(other, nsid), "the namespace in the list of changed ones",
             "NSID %u is not in it", nsid);
}

/* Where it is supported, it would last. */
CASE("nvm/write-protect/until-power-cycle", MUST, RULES(NS_PROTECT_CHANGE),
     "Write Protect Until Power Cycle is refused where NWPC or several domains rule it out",
     .writes = true, .alone = true, .after = undo)
{
        enum { UNTIL_POWER_CYCLE = 2, MDS = 1 << 10 };
        struct queue *q = io_queue(t);
        bool several = le32_get(caps(t)->id.ctratt) & MDS;

        require(t, caps(t)->id.nwpc & 1, "NWPC says that there is no write protection");
        require(t, several || !(caps(t)->id.nwpc & 2), "NWPC offers it");
        require(t, keep_feature(q->admin, FEAT_WRITE_PROTECT, caps(t)->nsid, 0, 0).dw0 == 0,
                "the namespace is write protected");
        expect_refusal(q->admin, send_state(q->admin, UNTIL_POWER_CYCLE));
        want(t, finish(q->admin, send_state(q->admin, 4)).status != NVME_SUCCESS,
             "an error for the reserved state 4", "Success");
        want_eq(t, "the state", state_of(q->admin).dw0, 0);
}
