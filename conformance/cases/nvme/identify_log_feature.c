/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 5: what Identify, features, logs and events have to be over fabrics. */
#include <inttypes.h>
#include <string.h>

#include "conformance/engine/suite.h"
#include "conformance/words/case.h"
#include "pdu/nvme/wire/identify.h"

/* --- Identify Controller */

CASE("base/identify/cntlid", MUST, RULES(ID_CNTLID),
     "CNTLID of Identify Controller is the CNTLID that Connect returned", .needs = ANY_CONTROLLER)
{
        struct queue *q = admin_queue(t);

        want_eq(t, "CNTLID", le16_get(identify_ctrl(q)->cntlid), q->cntlid);
}

CASE("base/identify/subnqn", MUST, RULES(ID_SUBNQN),
     "SUBNQN of Identify Controller is the NQN of the connected subsystem")
{
        struct queue *q = admin_queue(t);
        const struct id_ctrl *id = identify_ctrl(q);

        want_bytes(t, "SUBNQN", id->subnqn, q->subnqn, strlen(q->subnqn) + 1);
}

CASE("base/identify/ioccsz", MUST, RULES(ID_IOCCSZ),
     "IOCCSZ is at least 4 (a capsule of 64 bytes), and IORCSZ is 1")
{
        const struct id_ctrl *id = identify_ctrl(admin_queue(t));

        want(t, le32_get(id->ioccsz) >= 4, "IOCCSZ at least 4", "%u", le32_get(id->ioccsz));
        want_eq(t, "IORCSZ", le32_get(id->iorcsz), 1);
}

CASE("base/identify/icdoff", MUST, RULES(ID_ICDOFF), "ICDOFF is 0 over TCP", .only = "tcp")
{
        want_eq(t, "ICDOFF", le16_get(identify_ctrl(admin_queue(t))->icdoff), 0);
}

CASE("base/identify/sgls", MUST, RULES(ID_SGLS),
     "SGLS of Identify Controller reports that SGLs are supported")
{
        uint32_t sgls = le32_get(identify_ctrl(admin_queue(t))->sgls);

        want(t, (sgls & 3) == 1 || (sgls & 3) == 2, "SGLS bits 1:0 01b or 10b", "%u", sgls & 3);
}

CASE("base/identify/kas", MUST, RULES(ID_KAS), "KAS of Identify Controller is not zero")
{
        want(t, le16_get(identify_ctrl(admin_queue(t))->kas) > 0, "KAS not 0", "KAS 0");
}

CASE("base/identify/cntrltype", MUST, RULES(ID_CNTRLTYPE), "CNTRLTYPE of an I/O controller is 1")
{
        uint8_t type = identify_ctrl(admin_queue(t))->cntrltype;

        require(t, caps(t)->vs >= NVME_VERSION(1, 4, 0), "CNTRLTYPE was added in NVMe 1.4");
        want_eq(t, "CNTRLTYPE", type, CNTRLTYPE_IO);
}

CASE("base/identify/maxcmd", MUST, RULES(ID_MAXCMD), "MAXCMD of Identify Controller is not zero")
{
        want(t, le16_get(identify_ctrl(admin_queue(t))->maxcmd) > 0, "MAXCMD not 0", "MAXCMD 0");
}

CASE("base/identify/queue-entry-sizes", MUST, RULES(ID_QES),
     "SQES and CQES require entries of 64 and 16 bytes, and allow no smaller maximum")
{
        const struct id_ctrl *id = identify_ctrl(admin_queue(t));

        want(t, id_entry_sizes_right(id), "SQES 66h and CQES 44h, or with larger bits 7:4",
             "SQES %02Xh, CQES %02Xh", id->sqes, id->cqes);
}

CASE("base/identify/text", MUST, RULES(ID_TEXT),
     "Serial number, model and firmware revision are ASCII, left-justified and padded with spaces")
{
        const char *fault = id_text_fault(identify_ctrl(admin_queue(t)));

        want(t, !fault,
             "SN, MN and FR with bytes 20h to 7Eh only, left-justified and padded "
             "with spaces",
             "%s differs", fault);
}

CASE("base/identify/odd-requests", MUST, NO_RULE,
     "Identify with every CNS and unusual NSIDs is answered, and the controller works on",
     .related = "nvmet 79aba4c94034, f594863967d8", .needs = ANY_CONTROLLER)
{
        static const uint32_t nsids[] = { 0, 0xfffffffe, 0xffffffff };
        struct queue *q = admin_queue(t);

        for (uint8_t cns = 0; cns < 0x20; cns++)
                for (int i = 0; i < 3; i++)
                        finish(q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = cns, .nsid = nsids[i],
                                           .bytes = IDENTIFY_LEN));
        identify_ctrl(q);
}

enum { LIST_LEN = 1024 };

/* How many NSIDs are listed after `above`; ends the case if they do not rise from there, or if
 * something stands beyond their end. */
static uint32_t list_namespaces(struct queue *q, uint32_t above, uint32_t nsids[LIST_LEN])
{
        const uint8_t *list = identify(q, CNS_NS_LIST, above);
        uint32_t n = 0, last = above;

        for (uint32_t i = 0; i < LIST_LEN; i++) {
                uint32_t nsid = (uint32_t)le_get(list + (size_t)i * 4, 4);

                if (nsid == 0)
                        continue;
                want(q->t, n == i, "zeroes after the end of the list", "NSID %u", nsid);
                want(q->t, nsid > last, "NSIDs that rise from the given one", "%u after %u", nsid,
                     last);
                nsids[n++] = last = nsid;
        }
        return n;
}

CASE("base/identify/active-namespaces", MUST, RULES(ID_NS_LIST),
     "The list of active namespaces rises from the given NSID and ends with zeroes")
{
        enum { TRIES = 3 };
        uint32_t all[LIST_LEN], rest[LIST_LEN], n, others = 0;
        struct queue *q = admin_queue(t);

        for (int i = 0; i < TRIES; i++) { /* one may be attached or detached in between */
                n = list_namespaces(q, 0, all);
                require(t, n > 0 && n < LIST_LEN, "%u namespaces", n);
                others = list_namespaces(q, all[0], rest);
                if (others == n - 1 && memcmp(rest, all + 1, others * sizeof(*all)) == 0)
                        return;
        }
        want_eq(t, "namespaces after the first one", others, n - 1);
        want_bytes(t, "namespaces after the first one", rest, all + 1, (n - 1) * sizeof(*all));
}

/* Now: it may have been attached or detached since the list was read. */
static bool is_listed(struct queue *q, uint32_t nsid)
{
        return le_get(identify(q, CNS_NS_LIST, nsid - 1), 4) == nsid;
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
        return bytes[0] == 0 && memcmp(bytes, bytes + 1, n - 1) == 0;
}

CASE("base/identify/inactive-namespace", MUST, RULES(ID_ANSWERS, ID_NS_LIST),
     "Identify Namespace returns data for an active namespace, and zeroes for an inactive one")
{
        uint32_t list[LIST_LEN], n, absent = 1;
        struct queue *q = admin_queue(t);

        n = list_namespaces(q, 0, list);
        for (uint32_t i = 0; i < n && i < 16; i++) {
                struct reply r = finish(q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_NS,
                                                    .nsid = list[i], .bytes = IDENTIFY_LEN));

                want(t,
                     r.status != NVME_SUCCESS || !is_zero(r.data, IDENTIFY_LEN) ||
                         !is_listed(q, list[i]),
                     "the data of an active namespace", "zeroes for NSID %u", list[i]);
        }
        while (absent <= n && list[absent - 1] == absent)
                absent++;
        require_inactive(q, ID_ANSWERS, absent);
        want(t, is_zero(identify(q, CNS_NS, absent), IDENTIFY_LEN) || is_listed(q, absent),
             "zeroes", "other data for NSID %u, which is not active", absent);
}

/* What hosts know a namespace by again. */
struct identity {
        char sn[20], mn[40];
        uint8_t maxdna[16], lockdown; /* OACS.CFLS */
        uint8_t nguid[16], eui64[8], descriptors[IDENTIFY_LEN];
};

static struct identity identity_of(struct queue *q)
{
        const struct caps *c = caps(q->t);
        const struct id_ctrl *ctrl = identify_ctrl(q);
        const struct id_ns *ns = identify(q, CNS_NS, c->nsid);
        struct identity id = { 0 };

        memcpy(id.sn, ctrl->sn, sizeof(id.sn));
        memcpy(id.mn, ctrl->mn, sizeof(id.mn));
        memcpy(id.maxdna, ctrl->maxdna, sizeof(id.maxdna));
        id.lockdown = le16_get(ctrl->oacs) >> 10 & 1;
        memcpy(id.nguid, ns->nguid, sizeof(id.nguid));
        memcpy(id.eui64, ns->eui64, sizeof(id.eui64));
        if (c->vs >= NVME_VERSION(1, 3, 0))
                memcpy(id.descriptors, identify(q, CNS_NS_DESCS, c->nsid), IDENTIFY_LEN);
        return id;
}

CASE("base/identify/same-identity", MUST, RULES(ID_SAME),
     "Subsystem and namespace report the same identity to each controller, each time")
{
        struct identity a, b;

        struct queue *q = admin_queue(t), *other = admin_queue(t);

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        require(t, is_listed(q, caps(t)->nsid) && is_listed(other, caps(t)->nsid),
                "no other controller has the namespace");
        a = identity_of(q);
        b = identity_of(other);
        want_bytes(t, "serial number", b.sn, a.sn, sizeof(a.sn));
        want_bytes(t, "model number", b.mn, a.mn, sizeof(a.mn));
        if (!(le32_get(caps(t)->id.ctratt) & CTRATT_MDS)) /* it is the domain's */
                want_bytes(t, "MAXDNA", b.maxdna, a.maxdna, sizeof(a.maxdna));
        want_eq(t, "OACS bit 10", b.lockdown, a.lockdown);
        want_bytes(t, "NGUID", b.nguid, a.nguid, sizeof(a.nguid));
        want_bytes(t, "EUI64", b.eui64, a.eui64, sizeof(a.eui64));
        want_bytes(t, "descriptors", b.descriptors, a.descriptors, sizeof(a.descriptors));
}

CASE("base/identify/namespace", MUST, RULES(ID_NS),
     "NUSE is at most NCAP, NCAP is at most NSZE, and FLBAS selects an LBA format with blocks")
{
        struct queue *q = admin_queue(t);
        const struct id_ns *id;
        const char *fault;

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        id = identify(q, CNS_NS, caps(t)->nsid);
        fault = id_ns_fault(id);
        want(t, !fault, "consistent sizes and LBA format",
             "%s: NSZE %" PRIu64 ", NCAP %" PRIu64 ", NUSE %" PRIu64 ", FLBAS %02xh", fault,
             le64_get(id->nsze), le64_get(id->ncap), le64_get(id->nuse), id->flbas);
}

/* Ends the case if a descriptor of that type is there and is not what Identify Namespace says. */
static void want_same_id(struct t *t, const uint8_t *list, uint8_t type, const uint8_t *bytes)
{
        struct ns_id id;

        for (size_t at = 0; ns_desc_next(list, IDENTIFY_LEN, &at, &id);)
                if (id.type == type)
                        want_bytes(t, type == NIDT_NGUID ? "NGUID" : "EUI64", id.bytes, bytes,
                                   id.len);
}

static bool has_descriptor(const uint8_t *list, uint8_t type)
{
        struct ns_id id;

        for (size_t at = 0; ns_desc_next(list, IDENTIFY_LEN, &at, &id);)
                if (id.type == type)
                        return true;
        return false;
}

CASE("base/identify/namespace-descriptors", MUST, RULES(ID_NS_DESCS),
     "Namespace descriptors have the length of their type, no type occurs twice, and one "
     "identifies it")
{
        struct queue *q = admin_queue(t);
        uint8_t list[IDENTIFY_LEN];
        const struct id_ns *ns;
        const char *fault;

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        require(t, caps(t)->vs >= NVME_VERSION(1, 3, 0),
                "namespace descriptors were added in "
                "NVMe 1.3");
        memcpy(list, identify(q, CNS_NS_DESCS, caps(t)->nsid), sizeof(list));
        fault = ns_descs_fault(list, sizeof(list));
        want(t, !fault, "descriptors that identify the namespace", "%s", fault);
        want(t, !(caps(t)->cap & CAP_CSS_IOCSS) || has_descriptor(list, NIDT_CSI),
             "a descriptor of the command set (CAP.CSS bit 6 is set)", "none");
        ns = identify(q, CNS_NS, caps(t)->nsid);
        want_same_id(t, list, NIDT_NGUID, ns->nguid);
        want_same_id(t, list, NIDT_EUI64, ns->eui64);
}

CASE("base/identify/nsid", MUST, RULES(FAB_NSID),
     "Identify of namespace 0 or FFFFFFFEh is refused and affects nothing else")
{
        static const uint8_t cns[] = { CNS_NS, CNS_NS_DESCS };
        struct queue *q = admin_queue(t);
        bool is_valid = le32_get(caps(t)->id.nn) >= 0xfffffffe; /* and then inactive, maybe */

        for (int i = 0; i < 2; i++) {
                require(t, i == 0 || caps(t)->vs >= NVME_VERSION(1, 3, 0),
                        "namespace descriptors were added in NVMe 1.3");
                expect_refusal(q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = cns[i], .nsid = 0,
                                           .bytes = IDENTIFY_LEN));
                if (!is_valid)
                        expect_refusal(q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = cns[i],
                                                   .nsid = 0xfffffffe, .bytes = IDENTIFY_LEN));
        }
        expect_works(q);
}

CASE("base/identify/cns-unknown", MUST, RULES(ID_CNS), "Identify with a reserved CNS is refused",
     .needs = ANY_CONTROLLER)
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = 0x7f, .nsid = caps(t)->nsid,
                                   .bytes = IDENTIFY_LEN));
        expect_works(q);
}

/* The largest transfer of `left` bytes of the namespace that NLB and our own patience allow. */
static uint64_t most_of(struct t *t, uint64_t left)
{
        uint64_t bytes = (uint64_t)caps(t)->block * 65536;

        if (left < bytes)
                bytes = left;
        if (t_is_rdma(t) && bytes > KIB(8192)) /* a keyed descriptor has 24 bits for its length */
                bytes = KIB(8192);
        return bytes < KIB(32768) ? bytes : KIB(32768);
}

static uint64_t most(struct t *t)
{
        return most_of(t, bytes_left(t));
}

/* How many of its bytes a Read may have by MDTS: whole blocks. Metadata counts unless CTRATT says that it does not. */
static uint64_t allowed(struct t *t)
{
        const struct caps *c = caps(t);
        uint32_t left_out = le32_get(c->id.ctratt) & CTRATT_MEM && !c->made ? c->ms : 0;

        require(t, c->nsid, "the subsystem has no namespace");
        return (uint64_t)c->mdts / (c->block - left_out) * c->block;
}

CASE("base/identify/mdts", MUST, NO_RULE,
     "A Read as long as MDTS allows succeeds; without a limit, one of 32 MiB (over RDMA 8 MiB)",
     .related = "nvmet-tcp with MDTS 0")
{
        uint64_t mdts = allowed(t), n = mdts > 0 && mdts < most(t) ? mdts : most(t);
        struct queue *q = io_queue(t);
        uint16_t status;

        n -= n % caps(t)->block;
        require(t, n > 0, "MDTS allows no block");
        status = finish(q, send_read(q, .bytes = (uint32_t)n, .any_size = true)).status;
        require(t, status != NVME_UNRECOVERED_READ, "one of the blocks cannot be read");
        want(t, status == NVME_SUCCESS, "Success", "status %u/%02Xh", status >> 8, status & 0xff);
}

CASE("base/identify/mdts-beyond", MUST, RULES(ID_MDTS),
     "A Read longer than MDTS allows fails with Invalid Field")
{
        uint64_t more = allowed(t) + caps(t)->block;
        struct queue *q = io_queue(t);

        require(t, caps(t)->mdts > 0 && more <= most(t),
                "a transfer beyond MDTS would be too large for this case");
        expect_error(q, send_read(q, .bytes = (uint32_t)more, .any_size = true),
                     NVME_INVALID_FIELD);
        expect_works(q);
}

/* Whoever executes it writes to ranges of other cases, of which none runs then. */
CASE("base/identify/mdts-write", MUST, RULES(ID_MDTS),
     "A Write longer than MDTS allows fails with Invalid Field", .writes = true, .alone = true)
{
        uint64_t more = allowed(t) + caps(t)->block, lba = run_lba(t);
        struct queue *q = io_queue(t);

        require(t, caps(t)->mdts > 0 && more <= most_of(t, run_bytes(t)),
                "a transfer beyond MDTS would be too large for this case");
        require(t, !caps(t)->read_only, "the namespace is write protected (NSATTR)");
        expect_error(q,
                     send_cmd(q, .opc = NVME_WRITE, .nsid = caps(t)->nsid, .cdw10 = (uint32_t)lba,
                              .cdw11 = (uint32_t)(lba >> 32),
                              .cdw12 = (uint32_t)(more / caps(t)->block) - 1,
                              .bytes = (uint32_t)more, .in_capsule = more <= caps(t)->in_capsule,
                              .any_size = true),
                     NVME_INVALID_FIELD);
        expect_works(q);
}

/* Verify moves no data, and reads what anybody may have made unreadable. */
CASE("base/identify/mdts-no-data", MUST, RULES(ID_MDTS_DATA),
     "Verify of more than MDTS allows to transfer is not refused for its length")
{
        uint64_t blocks = (uint64_t)caps(t)->mdts / (caps(t)->block ? caps(t)->block : 1) + 1;
        struct queue *q = io_queue(t);
        uint16_t status;

        require(t, caps(t)->nsid && caps(t)->mdts > 0, "MDTS sets no limit");
        require(t, le16_get(caps(t)->id.oncs) & ONCS_VERIFY, "Verify is not supported");
        require(t, caps(t)->vs >= NVME_VERSION(2, 0, 0), "VSL was added in NVMe 2.0");
        require(t, *(const uint8_t *)identify(q->admin, CNS_IOCS_CTRL, 0) == 0, "VSL sets a limit");
        require(t, blocks <= 0x10000 && blocks <= caps(t)->blocks, "the namespace is too small");
        status = finish(q, send_cmd(q, .opc = NVME_VERIFY, .nsid = caps(t)->nsid,
                                    .cdw12 = (uint32_t)blocks - 1))
                     .status;
        want(t, status != NVME_INVALID_FIELD, "another status than Invalid Field", "Invalid Field");
}

/* --- asynchronous events, Abort */

CASE("base/event/held", MUST, RULES(AER_HELD),
     "An Asynchronous Event Request is not completed before there is an event",
     .needs = ANY_CONTROLLER, .slow = true)
{
        struct queue *q = admin_queue(t);

        disable_events(q);
        send_cmd(q, .opc = NVME_AER);
        expect_held(q, 100, NULL, 0);
        expect_works(q);
}

CASE("base/event/limit", MUST, RULES(AER_LIMIT),
     "AERL + 1 Asynchronous Event Requests are accepted, and those beyond are refused",
     .needs = ANY_CONTROLLER)
{
        enum { MOST = 30, REPLY_MS = 3000 };
        struct queue *q = admin_queue(t);
        unsigned n = caps(t)->id.aerl + 2u;
        uint16_t cid[MOST];
        int refused;

        require(t, n <= MOST, "AERL is %u", n - 2);
        disable_events(q);
        for (unsigned i = 0; i < n; i++)
                cid[i] = send_cmd(q, .opc = NVME_AER);
        refused = first_answered(q, cid, n, REPLY_MS); /* any one: nothing orders them (3.4.1) */
        if (refused < 0)
                refused = (int)n - 1;
        require(t, !reports_event(q, cid[refused]), "an event that cannot be disabled is reported");
        expect_refusal(q, cid[refused]);
        expect_works(q);
        for (unsigned i = 0; i < n; i++)
                if (i != (unsigned)refused && answered(q, cid[i])) /* or it reports an event */
                        want(t, finish(q, cid[i]).status != NVME_AER_LIMIT,
                             "room for AERL + 1 requests", "two of %u are refused, and AERL is %u",
                             n, n - 2);
}

CASE("base/abort/unknown", MUST, RULES(ABORT_UNKNOWN),
     "Abort of a command that is not outstanding succeeds and reports that nothing was aborted")
{
        struct queue *q = admin_queue(t);

        want_eq(t, "DW0 bit 0",
                succeed(q, send_cmd(q, .opc = NVME_ABORT, .cdw10 = 0xfff0u << 16)).dw0 & 1, 1);
}

CASE("base/abort/others", MUST, RULES(ABORT_WHICH),
     "Abort of another CID, or of another queue's, does not affect an Asynchronous Event Request",
     .needs = ANY_CONTROLLER)
{
        struct queue *q = admin_queue(t);
        uint16_t aer = send_cmd(q, .opc = NVME_AER);

        finish(q, send_cmd(q, .opc = NVME_ABORT, .cdw10 = 0xfff0u << 16));
        finish(q, send_cmd(q, .opc = NVME_ABORT, .cdw10 = (uint32_t)aer << 16 | 1));
        pause_ms(t, 50);
        expect_works(q);
        if (answered(q, aer)) { /* an event is none of our business */
                struct reply r = finish(q, aer);

                require_events(q, r);
                want_eq(t, "the status of the request", r.status, NVME_SUCCESS);
        }
}

CASE("base/abort/aer", SHOULD, NO_RULE,
     "An aborted Asynchronous Event Request completes with Command Abort Requested")
{
        struct queue *q = admin_queue(t);
        uint16_t aer = send_cmd(q, .opc = NVME_AER);
        struct reply r = succeed(q, send_cmd(q, .opc = NVME_ABORT, .cdw10 = (uint32_t)aer << 16));

        require(t, !(r.dw0 & 1), "the target does not abort the request");
        expect_status(q, aer, NVME_ABORT_REQUESTED);
}

/* --- features, logs */

CASE("base/feature/fid-unknown", MUST, RULES(FEAT_UNKNOWN),
     "Get and Set Features of a reserved FID are refused", .needs = ANY_CONTROLLER)
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = 0x77));
        expect_refusal(q, send_set_feature(q, 0x77, 0));
        expect_works(q);
}

CASE("base/feature/host-identifier", MUST, RULES(FEAT_HOSTID_FIXED),
     "Set Features does not change the Host Identifier given in Connect")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_cmd(q, .opc = NVME_SET_FEATURES, .cdw10 = FEAT_HOSTID, .cdw11 = 1,
                                   .bytes = 16, .data = "another HOSTID..", .in_capsule = true));
}

CASE("base/feature/host-identifier-read", MUST, RULES(FEAT_HOSTID_READ),
     "Get Features of the 128-bit Host Identifier returns the HOSTID of Connect")
{
        struct queue *q = admin_queue(t);
        struct connect_data d = connect_data(q);
        struct reply r = finish(q, send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_HOSTID,
                                            .cdw11 = 1, .bytes = sizeof(d.hostid)));

        require(t, r.status == NVME_SUCCESS, "the Host Identifier cannot be read");
        want_bytes(t, "HOSTID", r.data, d.hostid, sizeof(d.hostid));
}

CASE("base/feature/queues", MUST, RULES(FAB_ANSWERED), "Number of Queues grants at least one queue")
{
        struct queue *q = admin_queue(t);

        succeed(q, send_set_feature(q, FEAT_QUEUES, 0));
        get_feature(q, FEAT_QUEUES);
}

CASE("base/feature/queues-late", MUST, RULES(FEAT_QUEUES_LATE),
     "Number of Queues cannot be set after the first I/O queue is connected")
{
        struct queue *q = io_queue(t);

        expect_refusal(q->admin, send_set_feature(q->admin, FEAT_QUEUES, 0x00010001));
        expect_works(q->admin);
        if (!q->admin->over)
                expect_works(q);
}

CASE("base/feature/queues-range", SHOULD, RULES(FEAT_QUEUES_RANGE),
     "Number of Queues that asks for 65,536 queues (FFFFh) of either kind is refused")
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_set_feature(q, FEAT_QUEUES, 0x0000ffff));
        expect_refusal(q, send_set_feature(q, FEAT_QUEUES, 0xffff0000));
        expect_works(q);
}

static uint32_t select_feature(struct queue *q, uint8_t fid, uint8_t select)
{
        return succeed(q,
                       send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = fid | (uint32_t)select << 8))
            .dw0;
}

/* Sets Asynchronous Event Configuration to another value than the one that it has: this one. */
static uint32_t change_events(struct queue *q)
{
        uint32_t value = get_feature(q, FEAT_AEC) ^ 1; /* SMART: spare below its threshold */

        require_feature(q, finish(q, send_set_feature(q, FEAT_AEC, value)),
                        "Asynchronous Event Configuration cannot be changed");
        return value;
}

CASE("base/feature/value-kept", MUST, RULES(FEAT_KEPT),
     "Get Features returns the value last set of Asynchronous Event Configuration")
{
        struct queue *q = admin_queue(t);
        uint32_t value = change_events(q);

        want_eq(t, "Asynchronous Event Configuration", get_feature(q, FEAT_AEC), value);
}

CASE("base/feature/alone", MUST, RULES(FEAT_ALONE),
     "A feature set on one controller is not set on another controller of the same host")
{
        struct queue *other = admin_queue(t), *q = admin_queue(t);
        uint32_t events = get_feature(other, FEAT_AEC), kato = get_feature(other, FEAT_KATO),
                 arbitration;

        if (finish(other, send_cmd(other, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_ARBITRATION))
                .status == NVME_SUCCESS) {
                arbitration = get_feature(other, FEAT_ARBITRATION);
                finish(q, send_set_feature(q, FEAT_ARBITRATION, arbitration ^ 3));
                want_eq(t, "Arbitration", get_feature(other, FEAT_ARBITRATION), arbitration);
        }
        finish(q, send_set_feature(q, FEAT_AEC, events ^ 1));
        finish(q, send_set_feature(q, FEAT_KATO, kato + 100000));
        want_eq(t, "Asynchronous Event Configuration", get_feature(other, FEAT_AEC), events);
        want_eq(t, "KATO", get_feature(other, FEAT_KATO), kato);
}

/* The cache is everybody's. */
CASE("base/feature/others-kept", MUST, RULES(FEAT_KEPT),
     "Get Features returns the values last set of Arbitration and Volatile Write Cache, where "
     "supported",
     .writes = true, .alone = true, .after = undo)
{
        static const uint8_t fids[] = { FEAT_ARBITRATION, FEAT_WRITE_CACHE };
        struct queue *q = admin_queue(t);

        for (unsigned i = 0; i < sizeof(fids); i++) {
                struct reply was =
                    finish(q, send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = fids[i]));
                uint32_t value = was.dw0 ^ 1, kept;

                keep_feature(q, fids[i], 0, 0, 0);
                if (was.status != NVME_SUCCESS ||
                    finish(q, send_set_feature(q, fids[i], value)).status != NVME_SUCCESS)
                        continue;
                kept = get_feature(q, fids[i]);
                succeed(q, send_set_feature(q, fids[i], was.dw0));
                want_eq(t, "the feature that was set", kept, value);
                want_eq(t, "the feature set back", get_feature(q, fids[i]), was.dw0);
        }
}

CASE("base/feature/timestamp", MUST, RULES(FEAT_KEPT),
     "Timestamp counts on from the value set, and reports that the host has set it", .writes = true)
{
        static const uint8_t set[8] = { 0, 0x68, 0xe5, 0xcf, 0x8b, 1 }; /* ms: November 2023 */
        struct queue *q = admin_queue(t);
        const uint8_t *got;

        require(t, le16_get(caps(t)->id.oncs) & ONCS_TIMESTAMP, "Timestamp is not supported");
        succeed(q, send_cmd(q, .opc = NVME_SET_FEATURES, .cdw10 = FEAT_TIMESTAMP, .bytes = 8,
                            .data = set, .in_capsule = true));
        got = succeed(q, send_cmd(q, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_TIMESTAMP, .bytes = 8))
                  .data;
        want(t, le_get(got, 6) - le_get(set, 6) < 60000, "the value set plus less than a minute",
             "%" PRIu64 " ms instead of %" PRIu64, le_get(got, 6), le_get(set, 6));
        want_eq(t, "Timestamp Origin", got[6] >> 1 & 7, 1);
}

CASE(
    "base/feature/select", MUST, RULES(FEAT_SELECT),
    "Setting a feature leaves its default value, and its capabilities report whether it can be set")
{
        struct queue *q = admin_queue(t);
        uint32_t before, value;

        require(t, le16_get(caps(t)->id.oncs) & ONCS_SAVE, "ONCS does not announce Select");
        before = select_feature(q, FEAT_AEC, 1);
        value = change_events(q);
        want_eq(t, "the current value", select_feature(q, FEAT_AEC, 0), value);
        want_eq(t, "the default value", select_feature(q, FEAT_AEC, 1), before);
        want(t, select_feature(q, FEAT_AEC, 3) & 4, "changeable (bit 2 of the capabilities)",
             "not changeable, though it was changed");
}

CASE("base/feature/not-saveable", MUST, RULES(FEAT_ANSWERS),
     "Set Features with SV on a feature that cannot be saved is refused")
{
        struct queue *q = admin_queue(t);
        uint32_t value = get_feature(q, FEAT_AEC);

        require(t, le16_get(caps(t)->id.oncs) & ONCS_SAVE,
                "ONCS does not announce Select and Save");
        require(t, !(select_feature(q, FEAT_AEC, 3) & 1),
                "Asynchronous Event Configuration can "
                "be saved");
        expect_error(
            q, send_cmd(q, .opc = NVME_SET_FEATURES, .cdw10 = FEAT_AEC | 1u << 31, .cdw11 = value),
            NVME_FEATURE_NOT_SAVEABLE);
        expect_works(q);
}

enum { LID_RESERVED = 0x6f }; /* in every command set */

CASE("base/log/lid-unknown", MUST, RULES(LOG_UNKNOWN), "A reserved log page is refused",
     .needs = ANY_CONTROLLER)
{
        struct queue *q = admin_queue(t);

        expect_refusal(q, send_get_log(q, LID_RESERVED, 512, 0));
        expect_works(q);
}

CASE("base/log/offset-beyond", MUST, RULES(LOG_OFFSET),
     "A read of a log page from beyond its end is refused")
{
        struct queue *q = admin_queue(t);

        require(t, caps(t)->id.lpa & LPA_EXTENDED, "log page offsets are not supported");
        expect_refusal(q, send_get_log(q, LOG_SMART, 512, 1 << 20));
        expect_works(q);
}

CASE("base/log/offset-type", MUST, RULES(LOG_INDEX),
     "An index offset (OT 1) into SMART / Health, which does not support it, is refused")
{
        struct queue *q = admin_queue(t);

        require(t, caps(t)->vs >= NVME_VERSION(2, 0, 0), "OT was added in NVMe 2.0");
        require(t, caps(t)->id.lpa & LPA_EXTENDED, "log page offsets are not supported");
        expect_refusal(q,
                       send_cmd(q, .opc = NVME_GET_LOG_PAGE, .nsid = NSID_ALL,
                                .cdw10 = LOG_SMART | 127u << 16, .cdw14 = 1u << 23, .bytes = 512));
        expect_works(q);
}

CASE("base/log/discovery-logs", MUST, RULES(LOG_NOT_DISC),
     "An I/O controller refuses the discovery log pages 70h to 73h")
{
        struct queue *q = admin_queue(t);

        for (uint8_t lid = LOG_DISCOVERY; lid <= LOG_DISCOVERY + 3; lid++)
                expect_refusal(q, send_get_log(q, lid, 1024, 0));
        expect_works(q);
}

static const struct log_smart *smart(struct queue *q)
{
        return get_log(q, LOG_SMART, sizeof(struct log_smart), 0);
}

/* Entries that the log has, and that can be asked for at once. */
static unsigned errors_kept(const struct t *t)
{
        unsigned n = caps(t)->id.elpe + 1u, most = caps(t)->mdts / sizeof(struct log_error);

        return most > 0 && most < n ? most : n;
}

static bool has_entry(const struct log_error *log, unsigned n, struct reply r)
{
        for (unsigned i = 0; i < n; i++)
                if (le64_get(log[i].count) && le16_get(log[i].sqid) == 0 &&
                    le16_get(log[i].cid) == r.cid &&
                    (le16_get(log[i].sf) >> 1 & STATUS_MASK) == r.status)
                        return true;
        return false;
}

CASE("base/log/more", MUST, RULES(LOG_MORE),
     "A command that completed with M (More) set has an entry in the Error Information log")
{
        struct queue *q = admin_queue(t);
        unsigned n = errors_kept(t);
        struct reply r = finish(q, send_get_log(q, LID_RESERVED, 512, 0));

        require(t, r.status != NVME_SUCCESS && r.more,
                "the failed command completed with M "
                "(More) cleared");
        want(t, has_entry(get_log(q, LOG_ERROR, n * sizeof(struct log_error), 0), n, r),
             "an entry with SQID 0, its CID and its status", "no such entry among %u", n);
}

CASE("base/log/error-order", MUST, RULES(LOG_ERROR_ORDER),
     "The Error Information log begins with the latest error, and each entry has its own error "
     "count")
{
        struct queue *q = admin_queue(t);
        unsigned n = errors_kept(t);
        const struct log_error *log;

        for (int i = 0; i < 6; i++)
                finish(q, send_get_log(q, LID_RESERVED, 512, 0));
        log = get_log(q, LOG_ERROR, n * sizeof(*log), 0);
        for (unsigned i = 1; i < n && le64_get(log[i].count); i++)
                want(t, le64_get(log[i].count) < le64_get(log[i - 1].count),
                     "error counts that decrease from entry to entry", "%" PRIu64 " after %" PRIu64,
                     le64_get(log[i].count), le64_get(log[i - 1].count));
}

CASE("base/log/offset", MUST, RULES(LOG_PARTS),
     "Firmware Slot read from an offset equals the whole log page from that offset on")
{
        enum { FROM = 8 };
        struct queue *q = admin_queue(t);
        uint8_t whole[sizeof(struct log_fw_slot)];

        require(t, caps(t)->id.lpa & LPA_EXTENDED, "log page offsets are not supported");
        memcpy(whole, get_log(q, LOG_FW_SLOT, sizeof(whole), 0), sizeof(whole));
        want_bytes(t, "the log page from byte 8 on",
                   get_log(q, LOG_FW_SLOT, sizeof(whole) - FROM, FROM), whole + FROM,
                   sizeof(whole) - FROM);
}

/* More than 65,536 dwords, whose lower 16 bits are a part of the page: NUMDU counts, too. Who has not so many may
 * refuse them. */
CASE("base/log/numdu", MUST, RULES(TCP_C2H_COMPLETE),
     "Get Log Page with a length that needs NUMDU returns the whole log page or is refused",
     .only = "tcp")
{
        enum { BYTES = KIB(256) + 256 };
        struct queue *q = admin_queue(t);

        require(t, caps(t)->id.lpa & LPA_EXTENDED, "NUMDU is not supported");
        require(t, !caps(t)->mdts || caps(t)->mdts >= BYTES, "MDTS is %u", caps(t)->mdts);
        finish(q, send_get_log(q, LOG_SMART, BYTES, 0));
        expect_works(q);
}

enum { COUNTED = 5, COUNT_MS = 3000 /* how soon a counter shows it nobody says */ };

CASE("base/log/host-reads", SHOULD, RULES(LOG_SMART_READS), "SMART / Health counts Read commands")
{
        struct queue *q = io_queue(t);
        uint64_t before = le_get(smart(q->admin)->reads, 8), after, end;

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        for (int i = 0; i < COUNTED; i++)
                read_blocks(q, 0, 0);
        for (end = t_deadline(t, COUNT_MS);
             (after = le_get(smart(q->admin)->reads, 8)) - before < COUNTED && now_ms() < end;)
                pause_ms(t, 100);
        want(t, after - before >= COUNTED, "Host Read Commands to increase by at least 5",
             "%" PRIu64 " and then %" PRIu64, before, after);
}

CASE("base/log/host-writes", SHOULD, NO_RULE, "SMART / Health counts Write commands",
     .writes = true)
{
        struct queue *q = io_queue(t);
        uint64_t before = le_get(smart(q->admin)->writes, 8), after, end;

        for (int i = 0; i < COUNTED; i++)
                write_blocks(q, 0, r2t_bytes(t), NULL);
        for (end = t_deadline(t, COUNT_MS);
             (after = le_get(smart(q->admin)->writes, 8)) - before < COUNTED && now_ms() < end;)
                pause_ms(t, 100);
        want(t, after - before >= COUNTED, "Host Write Commands to increase by at least 5",
             "%" PRIu64 " and then %" PRIu64, before, after);
}

CASE("base/log/effects", MUST, RULES(LOG_EFFECTS_FIELDS),
     "Commands Supported and Effects lists Identify, Get Log Page, Read and Write")
{
        const struct log_effects *log;

        require(t, caps(t)->id.lpa & LPA_EFFECTS, "LPA does not announce this log page");
        log = get_log(admin_queue(t), LOG_EFFECTS, sizeof(*log), 0);
        want_eq(t, "CSUPP of Identify", le32_get(log->admin[NVME_IDENTIFY]) & 1, 1);
        want_eq(t, "CSUPP of Get Log Page", le32_get(log->admin[NVME_GET_LOG_PAGE]) & 1, 1);
        want_eq(t, "CSUPP of Read", le32_get(log->io[NVME_READ]) & 1, 1);
        want_eq(t, "CSUPP of Write", le32_get(log->io[NVME_WRITE]) & 1, 1);
}

CASE("base/log/mandatory", MUST, RULES(FAB_ANSWERED),
     "The logs Error Information, SMART / Health and Firmware Slot can be read")
{
        struct queue *q = admin_queue(t);

        get_log(q, LOG_ERROR, 64, 0);
        get_log(q, LOG_SMART, 512, 0);
        get_log(q, LOG_FW_SLOT, 512, 0);
}
