/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 5.1.12: parts of log pages, and what their entries are about. */
#include <inttypes.h>
#include <string.h>

#include "conformance/engine/suite.h"
#include "conformance/words/case.h"

static void needs_offsets(struct t *t)
{
        require(t, caps(t)->id.lpa & LPA_EXTENDED, "log page offsets are not supported");
}

/* A command that fails, so that there is an entry about it. */
static struct reply make_error(struct queue *admin)
{
        struct reply r = finish(admin, send_get_log(admin, 0x6f, 512, 0));

        require(admin->t, r.status != NVME_SUCCESS && r.more,
                "the failed command completed with M (More) cleared");
        return r;
}

CASE("base/log/error-offset", MUST, RULES(LOG_PARTS),
     "Error Information read from offset 64 begins with the second entry")
{
        struct queue *q = admin_queue(t);
        struct log_error second;

        needs_offsets(t);
        require(t, caps(t)->id.elpe > 0, "the log has a single entry");
        make_error(q);
        make_error(q);
        memcpy(&second, (const struct log_error *)get_log(q, LOG_ERROR, 2 * sizeof(second), 0) + 1,
               sizeof(second));
        require(t, le64_get(second.count), "the log keeps less than two entries");
        want_bytes(t, "the second entry", get_log(q, LOG_ERROR, sizeof(second), sizeof(second)),
                   &second, sizeof(second));
}

CASE("base/log/effects-offset", MUST, RULES(LOG_PARTS),
     "Commands Supported and Effects read in pieces equals the page read in one piece")
{
        struct queue *q = admin_queue(t);
        uint8_t whole[sizeof(struct log_effects)];

        needs_offsets(t);
        require(t, caps(t)->id.lpa & LPA_EFFECTS, "LPA does not announce this log page");
        memcpy(whole, get_log(q, LOG_EFFECTS, sizeof(whole), 0), sizeof(whole));
        for (uint32_t at = 0; at < sizeof(whole); at += 512)
                want_bytes(t, "a piece of the log page", get_log(q, LOG_EFFECTS, 512, at),
                           whole + at, 512);
}

CASE("base/log/error-entry", MUST, RULES(LOG_ERROR_NAMES),
     "The entry about a failed Read has its queue, CID, status, namespace and opcode")
{
        struct queue *q = io_queue(t, .qid = 1);
        const struct log_error *e;
        unsigned n = caps(t)->id.elpe + 1u, kept = n < 16 ? n : 16;
        struct reply r;

        require(t, caps(t)->nsid, "the subsystem has no namespace");
        for (int i = 0; i < 3; i++) /* so that the CID is not 0 */
                read_blocks(q, 0, 0);
        r = finish(q, send_cmd(q, .opc = NVME_READ, .nsid = caps(t)->nsid, .cdw10 = UINT32_MAX,
                               .cdw11 = UINT32_MAX, .bytes = caps(t)->block));
        require(t, r.status != NVME_SUCCESS && r.more,
                "the failed command completed with M (More) cleared");
        e = get_log(q->admin, LOG_ERROR, kept * sizeof(*e), 0);
        for (unsigned i = 0; i < kept; i++)
                if (le16_get(e[i].sqid) == q->qid && le16_get(e[i].cid) == r.cid &&
                    (le16_get(e[i].sf) >> 1 & STATUS_MASK) == r.status &&
                    le32_get(e[i].nsid) == caps(t)->nsid) {
                        want(t, e[i].lpver != 1 || e[i].opc == NVME_READ, "opcode 02h (Read)",
                             "%02Xh", e[i].opc);
                        return;
                }
        fail(t, "an entry of this queue, CID, status and namespace",
             "first entry: SQID %u, CID %u, status %Xh, NSID %u; none of %u fits",
             le16_get(e->sqid), le16_get(e->cid), le16_get(e->sf) >> 1 & STATUS_MASK,
             le32_get(e->nsid), kept);
}

/* --- SMART / Health */

enum { UNIT = 512 * 1000, COUNT_MS = 3000 };

static struct log_smart smart(struct queue *q)
{
        return *(const struct log_smart *)get_log(q, LOG_SMART, sizeof(struct log_smart), 0);
}

static uint64_t commands(const struct log_smart *s, bool writes)
{
        return le_get(writes ? s->writes : s->reads, 8);
}

/* SMART / Health when it has counted so many Read or Write commands since `before`: how soon it does nobody says, nor
 * that it does (a should). Skips the case where it does not within 3 s: what else it counts can't be judged then. */
static struct log_smart counted(struct queue *admin, const struct log_smart *before, bool writes,
                                uint64_t n)
{
        uint64_t end = t_deadline(admin->t, COUNT_MS), was = commands(before, writes);
        struct log_smart now = smart(admin);

        while (commands(&now, writes) - was < n && now_ms() < end) {
                pause_ms(admin->t, 100);
                now = smart(admin);
        }
        require(admin->t, commands(&now, writes) - was >= n,
                "Host %s Commands does not count, or counts late", writes ? "Write" : "Read");
        return now;
}

CASE("base/log/data-units", MUST, RULES(LOG_UNITS),
     "Data Units Read, where it is reported, rises by what is read", .writes = true)
{
        enum { UNITS = 4 };
        struct queue *q = io_queue(t);
        uint32_t n = large_bytes(t), reads = (UNITS * UNIT + n - 1) / n;
        uint64_t before, after;
        struct log_smart was, is;

        read_blocks(q, 0, 0);
        was = smart(q->admin);
        before = le_get(was.data_read, 8);
        require(t, before > 0, "Data Units Read is not reported");
        for (uint32_t i = 0; i < reads; i++)
                read_blocks(q, 0, n);
        is = counted(q->admin, &was, false, reads);
        after = le_get(is.data_read, 8);
        want(t, after >= before + UNITS - 1,
             "Data Units Read to rise by at least 3 (1,536,000 bytes)",
             "%" PRIu64 " and then %" PRIu64, before, after);
}

CASE("base/log/data-units-written", MUST, RULES(LOG_UNITS),
     "Data Units Written, where it is reported, rises by what is written", .writes = true)
{
        enum { UNITS = 4 };
        struct queue *q = io_queue(t);
        uint32_t n = large_bytes(t), writes = (UNITS * UNIT + n - 1) / n;
        uint64_t before, after;
        struct log_smart was, is;

        put_block(q, 0, pattern(t, caps(t)->block));
        was = smart(q->admin);
        before = le_get(was.data_written, 8);
        require(t, before > 0, "Data Units Written is not reported");
        for (uint32_t i = 0; i < writes; i++)
                write_blocks(q, 0, n, NULL);
        is = counted(q->admin, &was, true, writes);
        after = le_get(is.data_written, 8);
        want(t, after >= before + UNITS - 1,
             "Data Units Written to rise by at least 3 (1,536,000 bytes)",
             "%" PRIu64 " and then %" PRIu64, before, after);
}

/* Units that so many Read commands have at most, whoever sent them. */
static uint64_t units_of(const struct t *t, uint64_t commands)
{
        uint64_t each = caps(t)->mdts ? caps(t)->mdts : (uint64_t)caps(t)->block << 16;

        return commands * (each / UNIT + 1);
}

/* Others may read as well: no more than all Read commands of that time have, or, where these are counted late, than
 * links carry. */
CASE(
    "base/log/data-units-size", MUST, RULES(LOG_UNITS),
    "Data Units Read, where it is reported, does not rise by far more than what can have been read",
    .writes = true)
{
        enum { UNITS = 32, FAR = 32, UNITS_PER_MS = 40 /* 20 GB/s */ };
        struct queue *q = io_queue(t);
        uint32_t n = large_bytes(t), reads = (UNITS * UNIT + n - 1) / n, done = 0;
        uint64_t rise, commands, since, most;
        struct log_smart before, after;

        read_blocks(q, 0, 0);
        since = now_ms();
        before = smart(q->admin);
        require(t, le_get(before.data_read, 8), "Data Units Read is not reported");
        for (; !is_enough(t, done, reads); done++)
                read_blocks(q, 0, n);
        after = smart(q->admin);
        rise = le_get(after.data_read, 8) - le_get(before.data_read, 8);
        commands = le_get(after.reads, 8) - le_get(before.reads, 8);
        most = commands >= done ? units_of(t, commands) : (now_ms() - since + 1) * UNITS_PER_MS;
        want(t, rise <= UNITS * FAR + most, "Data Units Read in units of 512,000 bytes",
             "a rise by %" PRIu64 " with %" PRIu64 " Read commands", rise, commands);
}

CASE("base/log/verify-units", MUST, RULES(NVM_VERIFY_UNITS),
     "Data Units Read, where it is reported, rises by what Verify reads")
{
        enum { UNITS = 4 };
        struct queue *q = io_queue(t);
        uint32_t n = large_bytes(t), blocks = n / caps(t)->block;
        uint64_t before, after;
        struct log_smart was, is;

        require(t, le16_get(caps(t)->id.oncs) & ONCS_VERIFY, "Verify is not supported");
        read_blocks(q, 0, 0);
        was = smart(q->admin);
        before = le_get(was.data_read, 8);
        require(t, before > 0, "Data Units Read is not reported");
        for (uint32_t done = 0; done < UNITS * UNIT; done += n)
                succeed(q, send_cmd(q, .opc = NVME_VERIFY, .nsid = caps(t)->nsid,
                                    .cdw10 = (uint32_t)own_lba(t),
                                    .cdw11 = (uint32_t)(own_lba(t) >> 32), .cdw12 = blocks - 1));
        read_blocks(q, 0, 0); /* whether Verify is one of Host Read Commands is another matter */
        is = counted(q->admin, &was, false, 1);
        after = le_get(is.data_read, 8);
        want(t, after >= before + UNITS - 1,
             "Data Units Read to rise by at least 3 (1,536,000 bytes)",
             "%" PRIu64 " and then %" PRIu64, before, after);
}

CASE("base/log/error-lba", MUST, RULES(NVM_ERROR_LBA),
     "The entry about a Read of an unreadable block names that block, or none", .writes = true)
{
        struct queue *q = io_queue(t);
        const struct log_error *e;
        uint64_t bad = own_lba(t) + 2, lba;
        uint32_t block = caps(t)->block;
        struct reply r;

        require(t, le16_get(caps(t)->id.oncs) & ONCS_WRITE_UNCORRECTABLE,
                "Write Uncorrectable is not supported");
        require(t, caps(t)->nsid, "the subsystem has no namespace");
        write_blocks(q, 0, 4 * block, NULL);
        succeed(q, send_cmd(q, .opc = NVME_WRITE_UNCORRECTABLE, .nsid = caps(t)->nsid,
                            .cdw10 = (uint32_t)bad, .cdw11 = (uint32_t)(bad >> 32)));
        r = finish(q, send_read(q, .bytes = 4 * block));
        write_blocks(q, 2, block, NULL);
        require(t, r.status == NVME_UNRECOVERED_READ && r.more,
                "the failed command completed with M (More) cleared");
        e = get_log(q->admin, LOG_ERROR, sizeof(*e), 0);
        require(t, le16_get(e->cid) == r.cid && le16_get(e->sqid) == q->qid,
                "the newest entry is about another command");
        lba = le64_get(e->lba);
        want(t, lba == bad || lba == 0, "the block that is unreadable, or 0",
             "block %" PRIu64 " of the case's range", lba - own_lba(t));
}

CASE("base/log/smart-namespace", MUST, RULES(LOG_SMART_NSID),
     "SMART / Health of a namespace fails with Invalid Field where LPA announces no such page")
{
        struct queue *q = admin_queue(t);
        uint16_t cid;

        require(t, !(caps(t)->id.lpa & LPA_SMART_NS), "SMART / Health is there per namespace");
        require(t, caps(t)->nsid, "the subsystem has no namespace");
        cid = send_cmd(q, .opc = NVME_GET_LOG_PAGE, .nsid = caps(t)->nsid,
                       .cdw10 = LOG_SMART | retain_event(q) | 127u << 16, .bytes = 512);
        expect_error_since(q, NVME_VERSION(2, 2, 0), cid, NVME_INVALID_FIELD); /* a should before */
}

static void want_warning(struct queue *q)
{
        struct t *t = q->t;
        struct log_smart s;

        for (uint64_t end = t_deadline(t, COUNT_MS); /* a sensor is read now and then */
             !((s = smart(q)).critical & 2) && now_ms() < end;)
                pause_ms(t, 100);
        want(t, s.critical & 2, "bit 1 set", "critical warnings %02Xh at %u K", s.critical,
             (unsigned)le_get(s.temp, 2));
}

CASE("base/log/temperature-warning", MUST, RULES(LOG_WARNING),
     "With an over temperature threshold below the temperature, bit 1 of the critical warnings is "
     "set",
     .after = undo)
{
        struct queue *q = admin_queue(t);
        struct log_smart s = smart(q);
        uint32_t kelvin = (uint32_t)le_get(s.temp, 2);

        require(t, kelvin > 200 && kelvin < 500, "the composite temperature is %u K", kelvin);
        keep_feature(q, FEAT_TEMP, 0, 0, 0);
        require_feature(q, finish(q, send_set_feature(q, FEAT_TEMP, kelvin - 50)),
                        "Temperature Threshold cannot be set");
        want_warning(q);
}

CASE("base/log/temperature-warning-under", MUST, RULES(LOG_WARNING),
     "With an under temperature threshold above the temperature, bit 1 of the critical warnings is "
     "set",
     .after = undo)
{
        enum { UNDER = 1 << 20 /* THSEL */ };
        struct queue *q = admin_queue(t);
        struct log_smart s = smart(q);
        uint32_t kelvin = (uint32_t)le_get(s.temp, 2);

        require(t, le16_get(caps(t)->id.wctemp), "WCTEMP is 0");
        require(t, kelvin > 200 && kelvin < 500, "the composite temperature is %u K", kelvin);
        require(t, !(s.critical & 2), "the temperature is beyond a threshold already");
        require_feature(q, keep_feature(q, FEAT_TEMP, 0, UNDER, 0),
                        "the under temperature threshold cannot be read");
        require_feature(q, finish(q, send_set_feature(q, FEAT_TEMP, UNDER | (kelvin + 50))),
                        "the under temperature threshold cannot be set");
        want_warning(q);
}

/* --- Firmware Slot */

CASE("base/log/firmware", MUST, RULES(LOG_FIRMWARE),
     "The active firmware slot is one of 1 to 7, and its revision is FR of Identify Controller")
{
        struct queue *q = admin_queue(t);
        const struct log_fw_slot *log = get_log(q, LOG_FW_SLOT, sizeof(*log), 0);
        unsigned slot = log->afi & 7;

        want(t, slot > 0, "a slot from 1 to 7", "slot %u", slot);
        want_bytes(t, "the revision of the active slot", log->frs[slot - 1], identify_ctrl(q)->fr,
                   sizeof(log->frs[0]));
}

CASE("base/log/smart-apart", MUST, RULES(LOG_SMART_APART),
     "SMART / Health of a namespace, where there is such a thing, is that of the controller",
     .alone = true)
{
        enum { TRIES = 5 };
        struct queue *q = admin_queue(t);
        uint32_t nsid;
        int same = 0;

        if (!(identify_ctrl(q)->lpa & LPA_SMART_NS) && caps(t)->expendable)
                q = admin_queue(t, .subnqn = caps(t)->expendable);
        require(t, identify_ctrl(q)->lpa & LPA_SMART_NS, "SMART is not per namespace (LPA)");
        nsid = (uint32_t)le_get(identify(q, CNS_NS_LIST, 0), 4);
        require(t, nsid, "the subsystem has no namespace");
        for (int i = 0; i < TRIES && !same; i++) {
                const void *before = get_log(q, LOG_SMART, sizeof(struct log_smart), 0);
                uint16_t cid =
                    send_cmd(q, .opc = NVME_GET_LOG_PAGE, .nsid = nsid,
                             .cdw10 = LOG_SMART | (sizeof(struct log_smart) / 4 - 1) << 16,
                             .bytes = sizeof(struct log_smart));
                struct reply r = finish(q, cid);

                want_eq(t, "the status of Get Log Page", r.status, NVME_SUCCESS);
                if (memcmp(before, get_log(q, LOG_SMART, sizeof(struct log_smart), 0),
                           sizeof(struct log_smart)) != 0)
                        continue;
                same++;
                want_bytes(t, "SMART / Health of the namespace", r.data, before,
                           sizeof(struct log_smart));
        }
        require(t, same, "the log page changes all the time");
}
