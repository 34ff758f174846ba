/* SPDX-License-Identifier: BSD-3-Clause */
/* NVM Command Set 4.2.1, 5.2.1: Get LBA Status, its log page, event and interval. */
#include <string.h>

#include "conformance/words/case.h"
#include "pdu/nvme/wire/identify.h"

enum {
        ROW = 8,
        HEADER = 8,
        ENTRY = 16,
        ROOM = 4096, /* bytes that are asked for */
        ALLOCATED = 2,
        SCAN = 0x10,
        TRACKED = 0x11,
        INCOMPLETE = 1,
        COMPLETE = 2,
        LOG_HEADER = 16,
        LOG_NS = 16,
        LOG_MAX = 4096,
        NO_RANGES = -1,
        DEFAULT = 1 << 8, /* SEL of Get Features */
        EVENT = AEN_NOTICE | AEN_INFO_LBA_STATUS << 8 | LOG_LBA_STATUS << 16,
        EVENT_MS = 3000,
        QUIET_MS = 100
};

struct status {
        const uint8_t *bytes;
        uint32_t n, room;
};

/* Of `blocks` of the case's range from its block `slba` on, in so many bytes. */
static uint16_t send_status(struct queue *q, uint8_t type, uint64_t slba, uint16_t blocks,
                            uint32_t bytes)
{
        uint64_t lba = own_lba(q->t) + slba;

        return send_cmd(q->admin, .opc = NVME_GET_LBA_STATUS, .nsid = caps(q->t)->nsid,
                        .cdw10 = (uint32_t)lba, .cdw11 = (uint32_t)(lba >> 32),
                        .cdw12 = bytes / 4 - 1, .cdw13 = (uint32_t)type << 24 | blocks,
                        .bytes = bytes);
}

static struct status get_status(struct queue *q, uint8_t type, uint64_t slba, uint16_t blocks,
                                uint32_t bytes)
{
        struct reply r = finish_slow(q->admin, send_status(q, type, slba, blocks, bytes));
        const uint8_t *seen = r.data;

        require(q->t, type == ALLOCATED || r.status != NVME_INVALID_FIELD,
                "Get LBA Status has no action %02Xh", type); /* figure 130: each is optional */
        check_success(q->admin, r);
        return (struct status) { seen, (uint32_t)le_get(seen, 4), (bytes - HEADER) / ENTRY };
}

static uint64_t first_of(const struct status *s, uint32_t i)
{
        return le_get(s->bytes + HEADER + (size_t)i * ENTRY, 8);
}

static uint64_t count_of(const struct status *s, uint32_t i)
{
        return le_get(s->bytes + HEADER + (size_t)i * ENTRY + 8, 4) + 1;
}

static unsigned kind_of(const struct status *s, uint32_t i)
{
        return s->bytes[HEADER + (size_t)i * ENTRY + 13] & 7;
}

/* Block i of the case's range is in an entry. */
static bool reports(struct queue *q, const struct status *s, uint64_t i)
{
        uint64_t lba = own_lba(q->t) + i;

        for (uint32_t k = 0; k < s->n && k < s->room; k++)
                if (lba >= first_of(s, k) && lba - first_of(s, k) < count_of(s, k))
                        return true;
        return false;
}

/* The list as it has to be, for blocks [slba, slba + blocks) of the case's range. */
static void want_list(struct queue *q, const struct status *s, uint64_t slba, uint64_t blocks)
{
        uint64_t from = own_lba(q->t) + slba, next = from;

        want(q->t, s->n <= s->room, "entries that fit in MNDW dwords", "%u entries", s->n);
        want(q->t, s->bytes[4] <= COMPLETE, "CMPC of 0h to 2h", "%Xh", s->bytes[4]);
        for (uint32_t i = 0; i < s->n; i++) {
                want(q->t, first_of(s, i) >= next, "entries that ascend and do not overlap",
                     "entry %u begins at LBA %llu", i, (unsigned long long)first_of(s, i));
                next = first_of(s, i) + count_of(s, i);
                want(q->t, next <= from + blocks, "entries within the range",
                     "entry %u ends at LBA %llu", i, (unsigned long long)next - 1);
        }
}

/* --- blocks */

static bool allocates(struct queue *q)
{
        struct reply r;

        if (!caps(q->t)->nsid || caps(q->t)->vs < NVME_VERSION(2, 0, 0))
                return false;
        r = finish(q->admin, send_cmd(q->admin, .opc = NVME_IDENTIFY, .cdw10 = CNS_IOCS_CTRL,
                                      .bytes = IDENTIFY_LEN));
        return r.status == NVME_SUCCESS &&
               le16_get(((const struct id_nvm_ctrl *)r.data)->aocs) & AOCS_ALLOCATED;
}

static bool tracks(struct queue *q)
{
        return caps(q->t)->nsid && le16_get(caps(q->t)->id.oacs) & OACS_LBA_STATUS;
}

static const uint8_t *write_row(struct queue *q)
{
        uint32_t block = caps(q->t)->block;
        const uint8_t *data = pattern(q->t, ROW * block);

        for (uint32_t i = 0; i < ROW; i++)
                write_blocks(q, i, block, data + i * block);
        return data;
}

static uint16_t send_bare(struct queue *q, uint8_t opc, uint64_t slba, uint32_t blocks,
                          uint32_t bits)
{
        uint64_t lba = own_lba(q->t) + slba;

        return send_cmd(q, .opc = opc, .nsid = caps(q->t)->nsid, .cdw10 = (uint32_t)lba,
                        .cdw11 = (uint32_t)(lba >> 32), .cdw12 = (blocks - 1) | bits);
}

static bool can_mark(struct queue *q)
{
        return le16_get(caps(q->t)->id.oncs) & ONCS_WRITE_UNCORRECTABLE;
}

static void mark(struct queue *q, uint64_t slba, uint32_t blocks)
{
        succeed(q, send_bare(q, NVME_WRITE_UNCORRECTABLE, slba, blocks, 0));
}

/* --- allocated blocks */

/* Blocks 2 and 3 of the row, deallocated; false: the controller did not do it, or does not tell so. */
static bool make_hole(struct queue *q)
{
        uint16_t oncs = le16_get(caps(q->t)->id.oncs);
        struct dsm_range range = { .blocks = le32(2), .slba = le64(own_lba(q->t) + 2) };
        struct status s;

        if (oncs & ONCS_WRITE_ZEROES)
                finish(q, send_bare(q, NVME_WRITE_ZEROES, 2, 2, RW_DEAC));
        else if (oncs & ONCS_DSM)
                finish(q, send_cmd(q, .opc = NVME_DSM, .nsid = caps(q->t)->nsid, .cdw11 = 4,
                                   .bytes = sizeof(range), .data = &range,
                                   .in_capsule = caps(q->t)->in_capsule >= sizeof(range)));
        s = get_status(q, ALLOCATED, 0, ROW, ROOM);
        return !reports(q, &s, 2) && !reports(q, &s, 3);
}

static void set_dulbe(struct queue *admin, uint32_t value)
{
        succeed(admin, send_cmd(admin, .opc = NVME_SET_FEATURES, .nsid = caps(admin->t)->nsid,
                                .cdw10 = FEAT_ERROR_RECOVERY, .cdw11 = value << 16));
}

CASE(
    "nvm/lba-status/allocated", MUST, RULES(NVM_LBA_ALLOCATED),
    "Get LBA Status reports blocks that were written as allocated, and does not report deallocated "
    "ones",
    .writes = true, .alone = true, .after = undo)
{
        struct queue *q = io_queue(t);
        const struct id_nvm_ns *n;
        const struct id_ns *ns;
        struct status s;

        require(t, allocates(q), "Get LBA Status does not report allocated blocks");
        n = identify(q->admin, CNS_IOCS_NS, caps(t)->nsid);
        ns = identify(q->admin, CNS_NS, caps(t)->nsid);
        write_row(q);
        s = get_status(q, ALLOCATED, 0, ROW, ROOM);
        want_list(q, &s, 0, ROW);
        for (unsigned i = 0; i < ROW; i++)
                want(t, reports(q, &s, i), "each block that was written", "all but block %u", i);
        want(t, s.n == 0 || kind_of(&s, 0) == 2, "LBARS 010b", "%u", kind_of(&s, 0));
        require(t, ns->nsfeat & 4 && le32_get(n->tlbaag) == 1,
                "NSFEAT.DAE is 0, or TLBAAG is not a single block");
        make_hole(q);
        keep_feature(q->admin, FEAT_ERROR_RECOVERY, caps(t)->nsid, 0, 0);
        set_dulbe(q->admin, 1);
        s = get_status(q, ALLOCATED, 0, ROW, ROOM);
        for (unsigned i = 0; i < ROW; i++) {
                uint16_t status = finish(q, send_read(q, .slba = i)).status;

                want(t, reports(q, &s, i) == (status != NVME_DEALLOCATED),
                     status == NVME_DEALLOCATED ? "a deallocated block not among the allocated ones"
                                                : "a block that is not deallocated among them",
                     "the contrary, of block %u", i);
        }
}

CASE("nvm/lba-status/list", MUST, RULES(NVM_LBA_LIST),
     "What Get LBA Status returns fits, ascends from the first block to report, and is complete "
     "only if so called",
     .writes = true)
{
        struct queue *q = io_queue(t);
        struct status s;

        require(t, allocates(q), "Get LBA Status does not report allocated blocks");
        write_row(q);
        s = get_status(q, ALLOCATED, 1, ROW - 2, ROOM);
        want_list(q, &s, 1, ROW - 2);
        want(t, s.n > 0 && first_of(&s, 0) == own_lba(t) + 1, "the first block of the range first",
             "another one");
        want(t, reports(q, &s, ROW - 2), "the last block of the range", "none of it");
        s = get_status(q, ALLOCATED, 0, 0, ROOM);
        want_list(q, &s, 0, caps(t)->blocks - own_lba(t));
        want(t, reports(q, &s, 0), "with RL 0, what begins at SLBA", "none of it");
        require(t, make_hole(q), "the controller does not deallocate two blocks");
        s = get_status(q, ALLOCATED, 0, ROW, ROOM);
        want_list(q, &s, 0, ROW);
        s = get_status(q, ALLOCATED, 0, ROW, HEADER + ENTRY);
        want_list(q, &s, 0, ROW);
        want(t, s.bytes[4] != COMPLETE, "CMPC that is not COMPLETE, with one entry of two",
             "COMPLETE");
        s = get_status(q, ALLOCATED, 2, 4, ROOM);
        want(t, s.n > 0 && first_of(&s, 0) == own_lba(t) + 4, "the lowest allocated block first",
             "another one");
}

CASE(
    "nvm/lba-status/merged", SHOULD, RULES(NVM_LBA_MERGED),
    "Contiguous blocks are one entry of Get LBA Status, with LBARS 011b if Write Uncorrectable has "
    "marked them all",
    .writes = true)
{
        struct queue *q = io_queue(t);
        const uint8_t *data;
        struct status s;
        unsigned kind = 3;

        require(t, allocates(q) || (tracks(q) && can_mark(q)), "Get LBA Status is not supported");
        data = write_row(q);
        if (tracks(q) && can_mark(q)) {
                mark(q, 1, 2);
                s = get_status(q, SCAN, 0, ROW, ROOM);
                kind = s.n > 0 ? kind_of(&s, 0) : 3;
                want(t, s.n <= 1, "one entry for two contiguous blocks", "%u entries", s.n);
                write_blocks(q, 1, caps(t)->block, data);
                write_blocks(q, 2, caps(t)->block, data);
        }
        want_eq(t, "LBARS of blocks that Write Uncorrectable has marked", kind, 3);
        if (!allocates(q))
                return;
        s = get_status(q, ALLOCATED, 0, ROW, ROOM);
        want(t, s.n == 1, "one entry for contiguous blocks", "%u entries", s.n);
}

/* --- blocks that cannot be read */

CASE("nvm/lba-status/marked", MUST, RULES(NVM_LBA_MARKED),
     "Get LBA Status reports blocks that Write Uncorrectable has marked, until they are written",
     .writes = true)
{
        static const uint8_t types[] = { SCAN, TRACKED };
        struct queue *q = io_queue(t);
        const uint8_t *data;

        require(t, tracks(q), "OACS.GLSS is 0");
        require(t, can_mark(q), "Write Uncorrectable is not supported");
        data = write_row(q);
        for (int i = 0; i < 2; i++) {
                struct status before, after;

                mark(q, 1, 2);
                before = get_status(q, types[i], 0, ROW, ROOM);
                write_blocks(q, 1, caps(t)->block, data);
                write_blocks(q, 2, caps(t)->block, data);
                after = get_status(q, types[i], 0, ROW, ROOM);
                want_list(q, &before, 0, ROW);
                want_list(q, &after, 0, ROW);
                want(t, reports(q, &before, 1) && reports(q, &before, 2),
                     "both blocks that were marked", "not both, with action %Xh", types[i]);
                want(t, !reports(q, &after, 1) && !reports(q, &after, 2),
                     "no block that was written again", "one, with action %Xh", types[i]);
        }
}

/* --- the log page */

static const uint8_t *read_log(struct queue *q, bool retain, uint32_t bytes)
{
        uint32_t numd = bytes / 4 - 1;

        return succeed(q->admin, send_cmd(q->admin, .opc = NVME_GET_LOG_PAGE, .nsid = NSID_ALL,
                                          .cdw10 = LOG_LBA_STATUS | (retain ? 1u << 15 : 0) |
                                                   (numd & 0xffff) << 16,
                                          .cdw11 = numd >> 16, .bytes = bytes))
            .data;
}

static bool is_active(struct queue *q, uint32_t nsid)
{
        const void *list = identify(q->admin, CNS_NS_LIST, nsid - 1);

        return ns_list_count(list, IDENTIFY_LEN) > 0 && ns_list_get(list, 0) == nsid;
}

static bool is_null(const uint8_t *bytes, size_t n)
{
        while (n > 0 && !*bytes)
                bytes++, n--;
        return n == 0;
}

CASE("nvm/lba-status/log", MUST, RULES(NVM_LBA_LOG),
     "The LBA Status Information log has the length that LSLPLEN says, of elements of attached "
     "namespaces",
     .writes = true)
{
        struct queue *q = io_queue(t);
        const uint8_t *log, *data;
        uint32_t len, elements;
        size_t at = LOG_HEADER;

        require(t, tracks(q), "OACS.GLSS is 0");
        data = write_row(q);
        if (can_mark(q))
                mark(q, 1, 1);
        log = read_log(q, false, LOG_HEADER);
        len = (uint32_t)le_get(log, 4);
        require(t, len <= LOG_MAX, "the log has %u bytes", len);
        log = read_log(q, true, LOG_MAX);
        write_blocks(q, 1, caps(t)->block, data);
        len = (uint32_t)le_get(log, 4);
        require(t, len <= LOG_MAX, "the log has %u bytes", len);
        elements = (uint32_t)le_get(log + 4, 4);
        if (!is_null(log + 12, 2))
                advise(t, "reserved bytes 13:12 of 0", "others");
        for (uint32_t i = 0; i < elements && at + LOG_NS <= LOG_MAX; i++) {
                uint32_t nsid = (uint32_t)le_get(log + at, 4);
                uint32_t n = (uint32_t)le_get(log + at + 4, 4);

                want(t, nsid > 0 && nsid < NSID_ALL && is_active(q, nsid),
                     "elements of attached namespaces", "one of namespace %u", nsid);
                if (!is_null(log + at + 9, 7))
                        advise(t, "reserved bytes of an element of 0", "others");
                at += LOG_NS + (n == (uint32_t)NO_RANGES ? 0 : (size_t)n * ENTRY);
        }
        read_log(q, false, LOG_HEADER);
        want(t, at == len, "LSLPLEN that is the length of header and elements", "%u, of %zu", len,
             at);
}

CASE("nvm/lba-status/log-fixed", MUST, RULES(NVM_LBA_LOG),
     "The LBA Status Information log stays the same while it is read with RAE", .writes = true,
     .alone = true)
{
        struct queue *q = io_queue(t);
        const uint8_t *data;
        uint8_t first[ROOM];

        require(t, tracks(q), "OACS.GLSS is 0");
        require(t, can_mark(q), "Write Uncorrectable is not supported");
        data = write_row(q);
        read_log(q, false, LOG_HEADER);
        memcpy(first, read_log(q, true, ROOM), ROOM);
        mark(q, 1, 1);
        want_bytes(t, "the log as it was", read_log(q, true, ROOM), first, ROOM);
        write_blocks(q, 1, caps(t)->block, data);
        want_bytes(t, "the log as it was", read_log(q, true, ROOM), first, ROOM);
        read_log(q, false, LOG_HEADER);
}

/* --- the event and its interval */

static uint32_t intervals(struct queue *admin, uint32_t select)
{
        return succeed(admin,
                       send_cmd(admin, .opc = NVME_GET_FEATURES, .cdw10 = FEAT_LBA_STATUS | select))
            .dw0;
}

static bool comes_within(struct queue *q, uint16_t cid, unsigned ms)
{
        for (unsigned waited = 0; waited < ms; waited += 10) {
                if (answered(q, cid))
                        return true;
                pause_ms(q->t, 10);
                expect_works(q);
        }
        return answered(q, cid);
}

CASE("nvm/lba-status/event", MUST, RULES(NVM_LBA_EVENT),
     "The LBA Status Information Alert is notice 05h, names log page 0Eh, and does not come again "
     "once "
     "that was read",
     .writes = true, .alone = true)
{
        struct queue *q = io_queue(t), *admin = q->admin;
        const uint8_t *data;
        uint16_t aer;
        bool came;

        require(t, tracks(q) && le32_get(caps(t)->id.oaes) & OAES_LBA_STATUS,
                "LBA Status Information Notices are not supported");
        require(t, can_mark(q), "Write Uncorrectable is not supported");
        require(t, (intervals(admin, 0) & 0xffff) * 100 < EVENT_MS,
                "the report interval is %u00 ms", intervals(admin, 0) & 0xffff);
        data = write_row(q);
        read_log(q, false, LOG_HEADER);
        succeed(admin, send_set_feature(admin, FEAT_AEC, AEC_LBA_STATUS));
        aer = send_cmd(admin, .opc = NVME_AER);
        mark(q, 1, 1);
        came = comes_within(admin, aer, EVENT_MS);
        write_blocks(q, 1, caps(t)->block, data);
        require(t, came, "marked blocks are not worth an event to the controller");
        want_eq(t, "type, information and log page of the event", expect_success(admin, aer).dw0,
                EVENT);
        read_log(q, false, LOG_HEADER);
        aer = send_cmd(admin, .opc = NVME_AER);
        want(t, !comes_within(admin, aer, QUIET_MS), "no event after the log was read", "an event");
}

CASE("nvm/feature/lba-status", MUST, RULES(NVM_LBA_INTERVAL),
     "LBA Status Information Attributes take the closest interval, return it, and keep the poll "
     "interval")
{
        struct queue *q = io_queue(t), *admin = q->admin;
        uint32_t now, poll, seen;

        require(t, tracks(q), "OACS.GLSS is 0");
        now = intervals(admin, 0);
        poll = now >> 16;
        if (le16_get(caps(t)->id.oncs) & ONCS_SAVE)
                want_eq(t, "the report interval by default", intervals(admin, DEFAULT) & 0xffff,
                        intervals(admin, DEFAULT) >> 16);
        require_feature(admin,
                        finish(admin, send_set_feature(admin, FEAT_LBA_STATUS, now & 0xffff)),
                        "the report interval cannot be set");
        seen = succeed(admin, send_set_feature(admin, FEAT_LBA_STATUS, ~poll << 16 | 0xffff)).dw0;
        want_eq(t, "the poll interval that Set Features returns", seen >> 16, poll);
        want_eq(t, "the intervals that Get Features returns then", intervals(admin, 0), seen);
        seen = succeed(admin, send_set_feature(admin, FEAT_LBA_STATUS, now & 0xffff)).dw0;
        want_eq(t, "intervals that were there before", seen, now);
}
