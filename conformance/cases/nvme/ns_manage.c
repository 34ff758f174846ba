/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 5.1.20, 5.1.21, 8.1.15: Namespace Management and Attachment, of a subsystem that the run may do
 * this to. */
#include <string.h>

#include "conformance/engine/suite.h"
#include "conformance/words/case.h"
#include "pdu/nvme/wire/identify.h"

enum {
        CREATE,
        DELETE,
        SHARED = 1, /* NMIC: several controllers may have it */
        ATTACH = 0,
        DETACH = 1,
        OACS_NAMESPACES = 1 << 3,
        BLOCKS = 128, /* of a namespace that is made, if the granularity of sizes allows that */
        LIST_BYTES = 4096,
        NSIDS = LIST_BYTES / 4,
        ATTACHED_MOST = 16,
        SILENCE_MS = 100,
        NO_CNTLID = 0xffef,
};

static struct queue *manager(struct t *t)
{
        struct queue *q;

        require(t, caps(t)->expendable,
                "namespaces of no subsystem may be changed (--expendable-nqn)");
        q = admin_queue(t, .subnqn = caps(t)->expendable);
        require(t, le16_get(identify_ctrl(q)->oacs) & OACS_NAMESPACES,
                "OACS announces no Namespace Management");
        return q;
}

/* A list of NSIDs above the one before it begins with it. */
static bool lists(struct queue *q, uint8_t cns, uint32_t nsid)
{
        return le_get(identify(q, cns, nsid - 1), 4) == nsid;
}

static bool is_attached(struct queue *q, uint32_t nsid)
{
        return lists(q, CNS_NS_LIST, nsid);
}

/* --- the commands */

struct wish { /* of a namespace */
        uint64_t blocks;
        uint8_t flbas, csi;
};

static struct reply create_as(struct queue *q, struct wish w)
{
        struct id_ns id = {
                .nsze = le64(w.blocks), .ncap = le64(w.blocks), .flbas = w.flbas, .nmic = SHARED
        };
        struct reply r = finish_slow(q, send_cmd(q, .opc = NVME_NS_MANAGEMENT, .cdw10 = CREATE,
                                                 .cdw11 = (uint32_t)w.csi << 24,
                                                 .bytes = sizeof(id), .data = &id));

        if (r.status == NVME_SUCCESS && r.dw0 && !q->over)
                note_made(q, r.dw0);
        return r;
}

static uint32_t create(struct queue *q)
{
        struct reply r = create_as(q, (struct wish) { .blocks = BLOCKS });

        require(q->t, r.status == NVME_SUCCESS, "a namespace of %u blocks cannot be made", BLOCKS);
        return r.dw0;
}

static uint16_t erase_ns(struct queue *q, uint32_t nsid)
{
        uint16_t cid = send_cmd(q, .opc = NVME_NS_MANAGEMENT, .cdw10 = DELETE, .nsid = nsid);
        uint16_t status = finish_slow(q, cid).status;

        if (status == NVME_SUCCESS && !q->over)
                forget_made(q->t, nsid);
        return status;
}

/* One or two controllers; the second may be 0. */
static struct reply attachment(struct queue *q, uint32_t select, uint32_t nsid, uint16_t first,
                               uint16_t second)
{
        uint8_t list[LIST_BYTES] = { 0 };

        le_put(list, 2, second ? 2 : 1);
        le_put(list + 2, 2, first);
        le_put(list + 4, 2, second);
        return finish_slow(q, send_cmd(q, .opc = NVME_NS_ATTACHMENT, .cdw10 = select, .nsid = nsid,
                                       .bytes = sizeof(list), .data = list));
}

static void attach(struct queue *q, uint32_t nsid, const struct queue *to)
{
        want_eq(q->t, "the status of Namespace Attachment",
                attachment(q, ATTACH, nsid, to->cntlid, 0).status, NVME_SUCCESS);
}

/* What the newest entry of the error log says about this command beyond its status. */
static uint64_t more_about(struct queue *q, struct reply r)
{
        const struct log_error *e = get_log(q, LOG_ERROR, sizeof(*e), 0);

        require(q->t, r.more && le16_get(e->cid) == r.cid && le16_get(e->sqid) == 0,
                "the error log has no entry about the command");
        return le64_get(e->csinfo);
}

/* The status is printed; another error is lenient. */
static void want_refused(struct t *t, const char *what, uint16_t status, uint16_t right)
{
        want(t, status != NVME_SUCCESS, status_name(right), "Success for %s", what);
        if (status != right)
                lenient(t, status_name(right), "status %03Xh for %s", status, what);
}

/* --- Create, Delete */

CASE("base/namespace/create", MUST, RULES(NS_CREATE),
     "Create returns an NSID that was free, allocates the namespace, and attaches it to nobody",
     .alone = true, .after = undo)
{
        struct queue *q = manager(t);
        const void *before = identify(q, CNS_ALLOCATED_NS_LIST, 0);
        struct reply r = create_as(q, (struct wish) { .blocks = BLOCKS });
        const uint8_t *old = before;
        bool was = false;

        require(t, r.status == NVME_SUCCESS, "a namespace of %u blocks cannot be made", BLOCKS);
        for (unsigned i = 0; i < NSIDS; i++)
                was |= r.dw0 != 0 && le_get(old + i * 4, 4) == r.dw0;
        want(t, r.dw0 != 0 && !was, "an NSID that was free", "NSID %u", r.dw0);
        want(t, lists(q, CNS_ALLOCATED_NS_LIST, r.dw0), "the NSID in the list of allocated ones",
             "NSID %u is not in it", r.dw0);
        want(t, !is_attached(q, r.dw0), "a namespace that is attached to nobody",
             "NSID %u is active", r.dw0);
        want_eq(t, "the status of Delete", erase_ns(q, r.dw0), NVME_SUCCESS);
        want(t, !lists(q, CNS_ALLOCATED_NS_LIST, r.dw0), "no deleted NSID in that list",
             "NSID %u is in it", r.dw0);
}

CASE("base/namespace/create-refused", MUST, RULES(NS_CREATE_REFUSED),
     "Create of an unknown command set or format, or beyond the capacity, fails with its own "
     "status",
     .alone = true, .after = undo)
{
        enum { UNKNOWN_SET = 0x3e, LAST_FORMAT = 15, UNIT = 512 };
        struct queue *q = manager(t);
        const struct id_ns *common = identify(q, CNS_NS, NSID_ALL);
        uint64_t left = le_get(identify_ctrl(q)->unvmcap, 8), bytes;
        unsigned lbads = common->lbaf[0].lbads;
        struct reply r;

        if (property_get(q, PROP_VS) >= NVME_VERSION(2, 0, 0)) /* reserved bits before */
                want_refused(t, "an unknown command set",
                             create_as(q, (struct wish) { BLOCKS, 0, UNKNOWN_SET }).status,
                             NVME_IOCS_UNSUPPORTED);
        if (common->nlbaf + common->nulbaf < LAST_FORMAT)
                want_refused(t, "an unknown format",
                             create_as(q, (struct wish) { BLOCKS, LAST_FORMAT, 0 }).status,
                             NVME_INVALID_FORMAT);
        if (le_get(identify_ctrl(q)->tnvmcap, 8) == 0 || le_get(identify_ctrl(q)->unvmcap + 8, 8) ||
            lbads < 9 || lbads > 16)
                return;
        bytes = ((left >> lbads) + BLOCKS) << lbads;
        r = create_as(q, (struct wish) { .blocks = bytes >> lbads });
        want_refused(t, "more than the unallocated capacity", r.status, NVME_NS_CAPACITY);
        if (r.more && r.status == NVME_NS_CAPACITY) {
                uint64_t needed = more_about(q, r);

                want(t, needed >= bytes, "at least the bytes that it needs in the error log",
                     "%u MiB, not %u", (unsigned)(needed >> 20), (unsigned)(bytes >> 20));
        }
}

CASE("base/namespace/delete", MUST, RULES(NS_DELETE),
     "A namespace that is deleted is attached to no controller any more", .alone = true,
     .after = undo)
{
        struct queue *q = manager(t), *other = manager(t);
        uint32_t nsid = create(q);

        attach(q, nsid, q);
        attach(q, nsid, other);
        want_eq(t, "the status of Delete", erase_ns(q, nsid), NVME_SUCCESS);
        want(t, !is_attached(q, nsid), "the namespace inactive", "NSID %u is active", nsid);
        want(t, !is_attached(other, nsid), "the namespace inactive on the other controller",
             "NSID %u is active", nsid);
}

/* Others as large as those that were there, for the cases that come. */
static void make_again(struct queue *q, const struct wish *old, unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                struct reply r = create_as(q, old[i]);

                if (r.status != NVME_SUCCESS)
                        continue;
                attachment(q, ATTACH, r.dw0, q->cntlid, 0);
                forget_made(q->t, r.dw0);
        }
}

CASE("base/namespace/delete-all", MUST, RULES(NS_DELETE),
     "Delete of NSID FFFFFFFFh deletes all namespaces, and succeeds where there is none",
     .alone = true, .after = undo)
{
        struct queue *q = manager(t);
        const uint8_t *list = identify(q, CNS_NS_LIST, 0);
        struct wish old[ATTACHED_MOST];
        unsigned n = 0;
        uint16_t first, second;
        bool gone;

        for (; n < ATTACHED_MOST && le_get(list + n * 4, 4); n++) {
                const struct id_ns *id =
                    identify_optional(q, CNS_NS, (uint32_t)le_get(list + n * 4, 4));

                require(t, id, "there are namespaces that could not be made again");
                old[n] = (struct wish) { .blocks = le64_get(id->nsze), .flbas = id->flbas };
        }
        create(q);
        first = erase_ns(q, NSID_ALL);
        gone = le_get(identify(q, CNS_ALLOCATED_NS_LIST, 0), 4) == 0;
        second = erase_ns(q, NSID_ALL);
        make_again(q, old, n);
        want_eq(t, "the status of Delete", first, NVME_SUCCESS);
        want(t, gone, "no allocated namespace", "there are some");
        want_eq(t, "the status of Delete with none left", second, NVME_SUCCESS);
}

CASE("base/namespace/identifiers-new", MUST, RULES(NS_IDENTIFIERS),
     "NGUID and EUI64 of a deleted namespace are not those of the next one where UIDREUSE is 1",
     .alone = true, .after = undo)
{
        enum { UIDREUSE = 1 << 3, TRIES = 3 };
        struct queue *q = manager(t);
        uint8_t nguid[16], eui64[8], none[16] = { 0 };

        for (int i = 0; i < TRIES; i++) {
                uint32_t nsid = create(q);
                const struct id_ns *id = identify(q, CNS_ALLOCATED_NS, nsid);
                bool reuses = !(id->nsfeat & UIDREUSE);
                bool same =
                    i > 0 && ((memcmp(id->nguid, nguid, 16) == 0 && memcmp(nguid, none, 16) != 0) ||
                              (memcmp(id->eui64, eui64, 8) == 0 && memcmp(eui64, none, 8) != 0));

                memcpy(nguid, id->nguid, sizeof(nguid));
                memcpy(eui64, id->eui64, sizeof(eui64));
                erase_ns(q, nsid);
                require(t, !reuses, "UIDREUSE is 0: they may be used again");
                want(t, !same, "another NGUID and EUI64", "those of the deleted namespace");
        }
}

CASE("base/namespace/io-continues", MUST, RULES(NS_MANAGE_IO),
     "I/O commands to other namespaces work while one is made and deleted", .alone = true,
     .after = undo)
{
        enum { ROUNDS = 4 };
        struct queue *admin = manager(t), *q = io_queue_of(admin);
        uint32_t nsid = (uint32_t)le_get(identify(admin, CNS_NS_LIST, 0), 4);
        const struct id_ns *id;
        uint32_t block;

        require(t, nsid, "the subsystem has no namespace");
        id = identify_optional(admin, CNS_NS, nsid);
        require(t, id && !id_ns_metadata(id), "the namespace has metadata, or other than blocks");
        block = id_ns_block_size(id);
        require(t, block && block <= KIB(64), "the namespace has large blocks");
        require(
            t,
            finish(q, send_cmd(q, .opc = NVME_READ, .nsid = nsid, .bytes = block, .as_is = true))
                    .status == NVME_SUCCESS,
            "the first block of namespace %u cannot be read", nsid);
        for (int i = 0; i < ROUNDS; i++) {
                uint16_t before =
                    send_cmd(q, .opc = NVME_READ, .nsid = nsid, .bytes = block, .as_is = true);
                uint32_t made = create(admin);
                uint16_t after =
                    send_cmd(q, .opc = NVME_READ, .nsid = nsid, .bytes = block, .as_is = true);

                want_eq(t, "the status of a Read from before", finish(q, before).status,
                        NVME_SUCCESS);
                want_eq(t, "the status of a Read", finish(q, after).status, NVME_SUCCESS);
                erase_ns(admin, made);
        }
}

CASE("base/namespace/both-commands", MUST, RULES(NS_MANAGE_BOTH),
     "A controller with Namespace Management has Namespace Attachment, too, in log page 05h",
     .needs = ANY_CONTROLLER)
{
        enum { SUPPORTED = 1 };
        struct queue *q =
            caps(t)->expendable ? admin_queue(t, .subnqn = caps(t)->expendable) : admin_queue(t);
        const struct log_effects *e;

        require(t, identify_ctrl(q)->lpa & LPA_EFFECTS, "there is no log page 05h (LPA)");
        e = get_log(q, LOG_EFFECTS, sizeof(*e), 0);
        require(t, le32_get(e->admin[NVME_NS_MANAGEMENT]) & SUPPORTED,
                "Namespace Management is not supported");
        want(t, le32_get(e->admin[NVME_NS_ATTACHMENT]) & SUPPORTED,
             "Namespace Attachment supported", "log page 05h does not have it");
}

/* --- Attachment */

CASE("base/namespace/attach", MUST, RULES(NS_ATTACH),
     "Namespace Attachment concerns the controllers listed, and refuses what is so already",
     .alone = true, .after = undo)
{
        struct queue *q = manager(t), *other = manager(t);
        uint32_t nsid = create(q);

        attach(q, nsid, q);
        want(t, is_attached(q, nsid), "an active namespace", "NSID %u is not active", nsid);
        want(t, !is_attached(other, nsid), "a namespace inactive elsewhere", "NSID %u is active",
             nsid);
        want_eq(t, "the status of a second Attach",
                attachment(q, ATTACH, nsid, q->cntlid, 0).status, NVME_NS_ATTACHED);
        attach(q, nsid, other);
        want_eq(t, "the status of Detach", attachment(q, DETACH, nsid, q->cntlid, 0).status,
                NVME_SUCCESS);
        want(t, !is_attached(q, nsid), "an inactive namespace", "NSID %u is active", nsid);
        want(t, is_attached(other, nsid), "a namespace active elsewhere", "NSID %u is not active",
             nsid);
        want_eq(t, "the status of a second Detach",
                attachment(q, DETACH, nsid, q->cntlid, 0).status, NVME_NS_NOT_ATTACHED);
        erase_ns(q, nsid);
}

CASE("base/namespace/attach-list", MUST, RULES(NS_ATTACH),
     "Namespace Attachment with a controller that there is not fails with Controller List Invalid",
     .alone = true, .after = undo)
{
        struct queue *q = manager(t);
        uint32_t nsid = create(q);

        want_eq(t, "the status of Attach", attachment(q, ATTACH, nsid, NO_CNTLID, 0).status,
                NVME_CTRL_LIST_INVALID);
        erase_ns(q, nsid);
}

CASE("base/namespace/attach-stops", MUST, RULES(NS_ATTACH_STOPS),
     "Namespace Attachment stops at the entry that fails, leaves earlier ones, and says which it "
     "was",
     .alone = true, .after = undo)
{
        struct queue *a = manager(t), *b = manager(t);
        struct queue *low = a->cntlid < b->cntlid ? a : b, *high = low == a ? b : a;
        uint32_t nsid = create(a);
        struct reply r;

        attach(a, nsid, low);
        r = attachment(a, ATTACH, nsid, low->cntlid, high->cntlid);
        want_eq(t, "the status of Attach", r.status, NVME_NS_ATTACHED);
        want(t, !is_attached(high, nsid), "the second controller without it", "NSID %u is active",
             nsid);
        if (r.more)
                want_eq(t, "the offset of the first entry", more_about(a, r), 2);
        attach(a, nsid, high);
        attachment(a, DETACH, nsid, low->cntlid, 0);
        r = attachment(a, ATTACH, nsid, low->cntlid, high->cntlid);
        want_eq(t, "the status of Attach", r.status, NVME_NS_ATTACHED);
        want(t, is_attached(low, nsid), "the first controller with it", "NSID %u is not active",
             nsid);
        if (r.more)
                want_eq(t, "the offset of the second entry", more_about(a, r), 4);
        erase_ns(a, nsid);
}

CASE("base/namespace/attach-limit", MUST, RULES(NS_ATTACH_LIMIT),
     "No more than MAXCNA namespaces can be attached to a controller", .alone = true, .after = undo)
{
        struct queue *q = manager(t);
        uint32_t most = le32_get(identify_ctrl(q)->maxcna), made[ATTACHED_MOST + 1], n = 0;
        const uint8_t *list = identify(q, CNS_NS_LIST, 0);
        uint32_t attached = 0;
        uint16_t status = NVME_SUCCESS;

        require(t, most > 0 && most <= ATTACHED_MOST, "MAXCNA is %u", most);
        while (le_get(list + attached * 4, 4))
                attached++;
        for (; attached + n <= most && status == NVME_SUCCESS; n++) {
                made[n] = create(q);
                status = attachment(q, ATTACH, made[n], q->cntlid, 0).status;
        }
        for (uint32_t i = 0; i < n; i++)
                erase_ns(q, made[i]);
        want_eq(t, "the status of the last Attach", status, NVME_NS_ATTACH_LIMIT);
        want_eq(t, "namespaces attached before", attached + n - 1, most);
}

CASE("base/namespace/attachments-stay", MUST, RULES(NS_ATTACH_STAYS),
     "Attachments are as before after a Controller Reset", .alone = true, .after = undo)
{
        struct queue *q = manager(t);
        uint32_t nsid = create(q), none = create(q);

        attach(q, nsid, q);
        set_cc(q, CC_RUN & ~CC_EN, CSTS_RDY, 0);
        set_cc(q, CC_RUN, CSTS_RDY, CSTS_RDY);
        want(t, is_attached(q, nsid), "the namespace that was attached", "NSID %u is not active",
             nsid);
        want(t, !is_attached(q, none), "only that", "NSID %u is active, too", none);
        erase_ns(q, nsid);
        erase_ns(q, none);
}

CASE("base/namespace/event-elsewhere", MUST, RULES(NS_EVENT_OWN),
     "Of a namespace that is deleted other controllers are told, the one that deleted it is not",
     .alone = true, .after = undo)
{
        enum { EVENT = AEN_NOTICE | AEN_INFO_NS_CHANGED << 8 | LOG_CHANGED_NS << 16 };
        struct queue *q = manager(t), *other = manager(t);
        uint32_t nsid = create(q);
        uint16_t aer;

        require(t, le32_get(identify_ctrl(q)->oaes) & OAES_NS,
                "OAES does not announce Namespace Attribute Notices");
        attach(q, nsid, q);
        attach(q, nsid, other);
        take_changed(q);
        take_changed(other);
        succeed(q, send_set_feature(q, FEAT_AEC, AEC_NS));
        succeed(other, send_set_feature(other, FEAT_AEC, AEC_NS));
        send_cmd(q, .opc = NVME_AER);
        aer = send_cmd(other, .opc = NVME_AER);
        want_eq(t, "the status of Delete", erase_ns(q, nsid), NVME_SUCCESS);
        want_eq(t, "the event of the other controller", expect_success(other, aer).dw0, EVENT);
        expect_held(q, SILENCE_MS, NULL, 0);
}

/* A controller that is told of changes of namespaces, nothing having happened yet; its request is outstanding. */
static struct queue *watcher(struct t *t, uint16_t *aer)
{
        struct queue *q = manager(t);

        require(t, le32_get(identify_ctrl(q)->oaes) & OAES_NS,
                "OAES does not announce Namespace Attribute Notices");
        succeed(q, send_set_feature(q, FEAT_AEC, AEC_NS));
        take_changed(q);
        *aer = send_cmd(q, .opc = NVME_AER);
        expect_works(q);
        return q;
}

static bool has_changed(const le32_t *list, uint32_t nsid)
{
        bool changed = false;

        for (unsigned i = 0; i < CHANGED_NSIDS; i++)
                changed |= le32_get(list[i]) == nsid || le32_get(list[0]) == NSID_ALL;
        return changed;
}

CASE("base/namespace/event-attached", MUST, RULES(NS_ATTACH_EVENT),
     "A controller that another one attaches a namespace to, and detaches it from, reports both",
     .alone = true, .after = undo)
{
        enum { EVENT = AEN_NOTICE | AEN_INFO_NS_CHANGED << 8 | LOG_CHANGED_NS << 16 };
        uint16_t aer;
        struct queue *q = manager(t), *to = watcher(t, &aer);
        uint32_t nsid = create(q);

        for (uint32_t select = ATTACH; select <= DETACH; select++) {
                want_eq(t, "the status of Namespace Attachment",
                        attachment(q, select, nsid, to->cntlid, 0).status, NVME_SUCCESS);
                want_eq(t, "the event", expect_success(to, aer).dw0, EVENT);
                want(t, has_changed(take_changed(to), nsid),
                     "the namespace in the list of changed ones", "NSID %u is not in it", nsid);
                aer = send_cmd(to, .opc = NVME_AER);
        }
        erase_ns(q, nsid);
}

CASE("base/namespace/event-others", SHOULD, RULES(NS_EVENT_OTHERS),
     "A controller neither reports nor lists as changed what another one gets attached and loses",
     .alone = true, .after = undo)
{
        uint16_t aer;
        struct queue *q = manager(t), *to = manager(t), *other = watcher(t, &aer);
        uint32_t nsid = create(q);

        attach(q, nsid, to);
        attachment(q, DETACH, nsid, to->cntlid, 0);
        erase_ns(q, nsid);
        expect_held(other, SILENCE_MS, NULL, 0);
        want_eq(t, "the first changed namespace", le32_get(take_changed(other)[0]), 0);
}

/* --- Format NVM, where nothing is attached */

CASE("base/format/none-attached", MUST, RULES(FORMAT_NONE),
     "Format NVM of NSID FFFFFFFFh succeeds where no namespace is attached", .alone = true,
     .after = undo)
{
        enum { OACS_FORMAT = 1 << 1, FNS = 1 << 0, SENS = 1 << 1, NO_BROADCAST = 1 << 3 };
        struct queue *q = manager(t);
        const uint8_t *list = identify(q, CNS_NS_LIST, 0);
        uint16_t status = NVME_SUCCESS;
        bool none;

        require(t, le16_get(identify_ctrl(q)->oacs) & OACS_FORMAT, "OACS announces no Format NVM");
        require(t, !(identify_ctrl(q)->fna & (FNS | SENS | NO_BROADCAST)),
                "Format NVM concerns namespaces that are not attached, too, or not all (FNA)");
        for (unsigned i = 0; i < NSIDS && le_get(list + i * 4, 4); i++)
                attachment(q, DETACH, (uint32_t)le_get(list + i * 4, 4), q->cntlid, 0);
        none = le_get(identify(q, CNS_NS_LIST, 0), 4) == 0;
        if (none)
                status = finish_slow(q, send_cmd(q, .opc = NVME_FORMAT, .nsid = NSID_ALL)).status;
        for (unsigned i = 0; i < NSIDS && le_get(list + i * 4, 4); i++)
                attachment(q, ATTACH, (uint32_t)le_get(list + i * 4, 4), q->cntlid, 0);
        require(t, none, "namespaces cannot be detached");
        want_eq(t, "the status of Format NVM", status, NVME_SUCCESS);
}

CASE("base/namespace/event-allocated", MUST, RULES(NS_EVENT_ALLOCATED),
     "A namespace that is made is reported as Allocated Namespace Attribute Changed, and listed",
     .alone = true, .after = undo)
{
        enum {
                EVENT = AEN_NOTICE | AEN_INFO_ALLOCATED << 8 | LOG_CHANGED_ALLOCATED << 16,
        };
        struct queue *q = manager(t), *other = manager(t);
        const uint8_t *list;
        bool listed = false;
        uint32_t nsid;
        uint16_t aer;

        require(t, le32_get(identify_ctrl(q)->oaes) & OAES_ALLOCATED,
                "OAES does not announce Allocated Namespace Attribute Notices");
        succeed(other, send_set_feature(other, FEAT_AEC, AEC_ALLOCATED));
        aer = send_cmd(other, .opc = NVME_AER);
        nsid = create(q);
        want_eq(t, "the event", expect_success(other, aer).dw0, EVENT);
        list = get_log(other, LOG_CHANGED_ALLOCATED, LIST_BYTES, 0);
        for (unsigned i = 0; i < NSIDS; i++)
                listed |= le_get(list + i * 4, 4) == nsid || le_get(list, 4) == NSID_ALL;
        want(t, listed, "its NSID in log page 1Ch", "NSID %u is missing", nsid);
        erase_ns(q, nsid);
}
