/* SPDX-License-Identifier: BSD-3-Clause */
/* Each requirement of commands.def: right commands keep it, and something breaks it. */
#include "pdu/core/tests/check.h"

#include "pdu/nvme/wire/commands.h"

struct world {
        union sqe sqe, first;
        struct id_ctrl id;
        struct command_view v;
};

/* Commands as hosts should send them: queue, opcode, FCTYPE or CDW10, CDW12 where it matters. */
static const struct base {
        int qid;
        uint8_t opc, fctype;
        uint32_t dw10, dw11, dw12, dw13;
} bases[] = {
        { 0, NVME_FABRICS, FCTYPE_CONNECT, 0, 0, 0, 0 },
        { 1, NVME_FABRICS, FCTYPE_CONNECT, 1 << 16, 0, 0, 0 },
        { 0, NVME_FABRICS, FCTYPE_PROPERTY_GET, 0, PROP_VS, 0, 0 },
        { 0, NVME_FABRICS, FCTYPE_PROPERTY_SET, 0, PROP_CC, CC_EN, 0 },
        { 0, NVME_FABRICS, FCTYPE_PROPERTY_SET, 0, PROP_CC, CC_EN | CC_SHN_NORMAL, 0 },
        { 1, NVME_FABRICS, FCTYPE_DISCONNECT, 0, 0, 0, 0 },
        { 0, NVME_FABRICS, FCTYPE_AUTH_SEND, 0xe9010100, 16, 0, 0 },
        { 0, NVME_IDENTIFY, 0, CNS_CTRL, 0, 0, 0 },
        { 0, NVME_GET_FEATURES, 0, FEAT_KATO, 0, 0, 0 },
        { 0, NVME_SET_FEATURES, 0, FEAT_QUEUES, 0x10001, 0, 0 },
        { 0, NVME_SET_FEATURES, 0, FEAT_HOSTID, 1, 0, 0 },
        { 0, NVME_GET_LOG_PAGE, 0, 1023 << 16 | LOG_EFFECTS, 0, 0, 0 },
        { 0, NVME_ABORT, 0, 0x50001, 0, 0, 0 },
        { 0, NVME_AER, 0, 0, 0, 0, 0 },
        { 1, NVME_FLUSH, 0, 0, 0, 0, 0 },
        { 1, NVME_READ, 0, 0, 0, 7, 0 },
        { 1, NVME_WRITE, 0, 0, 0, 7, 0 },
        { 1, NVME_COMPARE, 0, 0, 0, 7, 0 },
        { 1, NVME_VERIFY, 0, 0, 0, 7, 0 },
        { 1, NVME_WRITE_ZEROES, 0, 0, 0, 7, 0 },
        { 1, NVME_WRITE_ZEROES, 0, 0, 0, RW_DEAC | 1 << 23, 0 },
        { 1, NVME_WRITE_UNCORRECTABLE, 0, 0, 0, 7, 0 },
        { 1, NVME_DSM, 0, 0, 4, 0, 0 },
        { 1, NVME_COPY, 0, 0, 0, 0, 0 },
        { 0, NVME_FORMAT, 0, 0, 0, 0, 0 },
        { 0, NVME_SET_FEATURES, 0, FEAT_LBA_RANGES, 0, 0, 0 },
        { 0, NVME_SET_FEATURES, 0, FEAT_ERROR_RECOVERY, 0, 0, 0 },
        { 0, NVME_GET_LBA_STATUS, 0, 0, 0, 0, 0 },
        { 1, NVME_RESERVATION_REGISTER, 0, 2u << 30 | 1, 0, 0, 0 },
        { 1, NVME_RESERVATION_REPORT, 0, 1023, 1, 0, 0 },
        { 1, NVME_RESERVATION_ACQUIRE, 0, 1 << 8 | 2, 0, 0, 0 },
        { 1, NVME_RESERVATION_RELEASE, 0, 6 << 8, 0, 0, 0 },
        { 1, NVME_RESERVATION_RELEASE, 0, 1, 0, 0, 0 },
        { 0, NVME_NS_ATTACHMENT, 0, 0, 0, 0, 0 },
        { 0, NVME_NS_MANAGEMENT, 0, 0, 0, 0, 0 },
        { 0, NVME_NS_MANAGEMENT, 0, 1, 0, 0, 0 },
        { 0, NVME_SANITIZE, 0, 2, 0, 0, 0 },
        { 0, NVME_DISCOVERY_MANAGEMENT, 0, 0, 0, 0, 0 },
        { 1, NVME_CANCEL, 0, 1, 0, 0, 0 },
        { 0, NVME_GET_LOG_PAGE, 0, 1023 << 16 | 3 << 8 | LOG_PERSISTENT, 0, 0, 0 },
};
enum { BASES = sizeof(bases) / sizeof(bases[0]) };

static void make(struct world *w, const struct base *b)
{
        bool fabrics = b->opc == NVME_FABRICS;

        memset(w, 0, sizeof(*w));
        w->sqe = (union sqe) { .opc = b->opc, .flags = fabrics ? 0 : SQE_PSDT_SGL };
        w->sqe.cdw10 = le32(b->dw10);
        w->sqe.cdw11 = le32(b->dw11);
        w->sqe.cdw12 = le32(b->dw12);
        w->sqe.cdw13 = le32(b->dw13);
        if (fabrics)
                w->sqe.fctype = b->fctype;
        else if (b->qid > 0)
                w->sqe.nsid = le32(1);
        if (b->opc == NVME_GET_LBA_STATUS)
                w->sqe.cdw13 = le32(2u << 24);
        if (sqe_xfer(&w->sqe) != XFER_NONE)
                w->sqe.sgl = (struct sgl) { .id = SGL_TRANSPORT, .len = le32(4096) };
        w->id.oncs = le16(1 << 11);
        w->id.sqes = 0x66;
        w->id.cqes = 0x44;
        w->id.mdts = 1;
        w->id.acl = 3;
        w->id.ver = le32(NVME_VERSION(2, 0, 0));
        w->v = (struct command_view) {
                .sqe = &w->sqe,
                .qid = b->qid,
                .tcp = true,
                .known = true,
                .nvm = true,
                .has_cap = true,
                .has_cc = true,
                .cap = CAP_CSS_NVM | UINT64_C(4) << 52,
                .cc = CC_IOSQES | CC_IOCQES | (b->dw12 & CC_SHN_NORMAL || !fabrics ? CC_EN : 0),
                .rdy = !fabrics,
                .asked_id = true,
                .asked_queues = true,
                .kato = 5000,
                .sqsize = 31,
                .id = &w->id,
        };
}

/* What of `rule` a judgement names. */
static bool names(const struct world *w, const char *key)
{
        struct rule_set found = { 0 };
        char buf[1024];
        struct text why = text_in(buf, sizeof(buf));

        command_judge(&w->v, &found, &why);
        return strstr(buf, key);
}

static void right_commands_break_nothing(void **state)
{
        static struct world w;

        (void)state;
        for (unsigned i = 0; i < BASES; i++)
                for (int joins = 0; joins < 2; joins++) {
                        struct rule_set found = { 0 };
                        char buf[1024];
                        struct text why = text_in(buf, sizeof(buf));

                        make(&w, &bases[i]);
                        w.v.joins = joins;
                        command_judge(&w.v, &found, &why);
                        if (!rule_set_empty(&found) || why.len > 0)
                                fail_msg("command %u: %s", i, buf);
                }
}

/* Of what nothing is known nothing is judged but what the command shows alone. */
static void nothing_known_breaks_nothing(void **state)
{
        static struct world w;

        (void)state;
        for (unsigned i = 0; i < BASES; i++) {
                struct rule_set found = { 0 };

                make(&w, &bases[i]);
                w.v = (struct command_view) { .sqe = &w.sqe, .qid = -1 };
                command_judge(&w.v, &found, NULL);
                assert_true(rule_set_empty(&found));
        }
}

/* Each row that can be is broken by its rule's violator, in one of the commands, and then nothing but
 * that rule is. */
static void violators_break_their_rows(void **state)
{
        const struct command_duty *d;
        static struct world w;

        (void)state;
        for (unsigned row = 0; (d = command_duty(row)); row++) {
                bool broken = !d->breakable;
                struct rule_set one = { 0 };

                rule_add(&one, d->rule);
                for (unsigned i = 0; i < BASES; i++) {
                        struct rule_set found = { 0 };

                        make(&w, &bases[i]);
                        if (!command_spoil(&one, &w.sqe))
                                continue;
                        command_judge(&w.v, &found, NULL);
                        rule_each (rule)
                                if (rule_in(&found, rule) != (rule == d->rule))
                                        fail_msg("%s in command %u: %s", d->key, i,
                                                 rule_get(rule)->id);
                        broken |= names(&w, d->says);
                }
                if (!broken)
                        fail_msg("nothing breaks %s: %s", d->key, d->says);
        }
}

/* Numbers of bases: */
enum {
        SETS_CC = 3,
        IDENTIFIES = 7,
        SETS = 9,
        GETS_LOG = 11,
        SENDS_AER = 13,
        READS = 15,
        WRITES,
        COMPARES,
        ZEROES = 19,
        DEALLOCATES = 22,
        COPIES,
        FORMATS,
        RANGES,
        RECOVERY,
        GETS_LBA_STATUS,
        ATTACHES = 33,
        MANAGES,
        REGISTERS = 37,
        CANCELS,
        ESTABLISHES
};
static const struct ns_format format = { .pi = 1, .lbads = 9, .ms = 8 };

#define BREAKS(base, key, change)                                                                  \
        make(&w, &bases[base]);                                                                    \
        change;                                                                                    \
        if (!names(&w, key))                                                                       \
        fail_msg("%s is not broken", key)

/* The others, by what was before. */
static void the_past_counts(void **state)
{
        static struct world w;

        (void)state;
        BREAKS(READS, "5.3.3/f",
               (w.sqe.cdw12 = le32(RW_PRCHK_REF), w.sqe.cdw14 = le32(1), w.v.format = &format));
        BREAKS(COMPARES, "2.1.3.1/f", (w.sqe.flags |= SQE_FUSE_FIRST, w.v.format = &format));
        BREAKS(ZEROES, "3.3.8/d", w.v.format = &format);
        BREAKS(RANGES, "4.1.3.1/c", w.sqe.sgl.len = le32(512));
        BREAKS(RECOVERY, "4.1.3.2/a", (w.sqe.cdw11 = le32(1 << 16), w.v.format = &format));
        BREAKS(READS, "4.1.1/c", w.sqe.cid = le16(0xffff));
        BREAKS(READS, "5.1.13.2.1/j", w.sqe.sgl.len = le32(8193));
        BREAKS(READS, "6.4/f", w.v.leaving = true);
        BREAKS(5, "3.3.2.4/j", w.v.outstanding = 1);
        BREAKS(12, "5.1.1/h", w.v.aborts = 4);
        BREAKS(10, "5.1.25.1.28/c", w.sqe.cdw11 = le32(0));
        BREAKS(20, "3.3.8/l", w.sqe.cdw10 = le32(8));
        BREAKS(7, "3.1.4.6/o", w.v.rdy = false);
        BREAKS(SETS_CC, "3.1.4.5/f", w.sqe.cdw12 = le32(3 << 14));
        BREAKS(SETS_CC, "3.1.4.5/a", w.sqe.cdw12 = le32(2 << 11));
        BREAKS(SETS_CC, "3.1.4.5/n", w.sqe.cdw12 = le32(1 << 4));
        BREAKS(SETS_CC, "3.1.4.5/n", w.sqe.cdw12 = le32(CC_EN | 6 << 4));
        BREAKS(SETS_CC, "3.1.4.1/h", w.sqe.cdw12 = le32(CC_EN | 5 << 7));
        BREAKS(SETS_CC, "3.1.4.5/j", w.sqe.cdw12 = le32(CC_EN | 1 << 11));
        BREAKS(SETS_CC, "3.1.4.5/m", (w.v.discovery = true, w.sqe.cdw12 = le32(6 << 4)));
        BREAKS(SETS_CC, "3.5.2/a", w.v.has_cap = false);
        BREAKS(SETS_CC, "3.5.2/b", w.v.cap |= CAP_CSS_IOCSS);
        BREAKS(SETS_CC, "3.1.4.5/s", w.v.rdy = true);
        BREAKS(1, "3.5.2/a", (w.v.joins = true, w.v.asked_id = false));
        BREAKS(1, "3.5.2/f", (w.v.joins = true, w.v.asked_queues = false));
        BREAKS(1, "3.1.4.5/d", (w.v.joins = true, w.v.cc = 0));
        BREAKS(WRITES, "2.1.3/b",
               (w.sqe.flags |= SQE_FUSE_SECOND, w.first.opc = NVME_READ, w.v.first = &w.first));
        BREAKS(WRITES, "2.1.3.1/d",
               (w.sqe.flags |= SQE_FUSE_SECOND, w.first.opc = NVME_COMPARE, w.v.first = &w.first));
}

static void what_is_described_counts(void **state)
{
        static struct world w;

        (void)state;
        BREAKS(READS, "4.3.2/f", (w.id.sgls = le32(2), w.sqe.sgl.len = le32(4094)));
        BREAKS(READS, "4.3.2/f", (w.id.sgls = le32(2), w.sqe.sgl.addr = le64(2)));
        BREAKS(READS, "3.3.2.1.3/e",
               (w.sqe.sgl.id = SGL_LAST_IN_CAPSULE, w.sqe.sgl.addr = le64(16)));
        BREAKS(
            READS, "3.3.2.1.3/f",
            (w.sqe.sgl.id = SGL_LAST_IN_CAPSULE, w.id.icdoff = le16(1), w.sqe.sgl.len = le32(32)));
        BREAKS(5, "4.1.2/e", w.sqe.sgl.len = le32(4));
        BREAKS(6, "6.1/d", w.sqe.cdw11 = le32(8));
        BREAKS(SETS_CC, "3.5.3/i", (w.v.cc |= CC_EN, w.sqe.cdw12 = le32(CC_EN | 1 << 24)));
        BREAKS(SENDS_AER, "3.9.2/c", w.v.outstanding = 30);
        BREAKS(IDENTIFIES, "5.1.13.2.1/bo", w.sqe.sgl.len = le32(8192));
        BREAKS(GETS_LOG, "5.1.13.2.1/bo", w.sqe.sgl.len = le32(4098));
        BREAKS(SETS, "4.4/p", (w.sqe.cdw10 = le32(0x17), w.sqe.nsid = le32(1)));
        BREAKS(GETS_LOG, "5.1.12.1.3/a", w.sqe.cdw10 = le32(1023 << 16 | LOG_SMART));
        BREAKS(ESTABLISHES, "5.1.12.1.14/i", w.sqe.cdw10 = le32(3 << 8 | LOG_PERSISTENT));
        BREAKS(ATTACHES, "5.1.20/b", w.sqe.cdw10 = le32(2));
        BREAKS(MANAGES, "5.1.21/d", w.sqe.cdw10 = le32(2));
        BREAKS(FORMATS, "4.1.2/f", w.sqe.cdw10 = le32(4 << 5));
        BREAKS(FORMATS, "4.1.2/e", w.sqe.cdw10 = le32(1 << 8));
        BREAKS(REGISTERS, "5.3.3/l", w.sqe.cdw10 = le32(3));
        BREAKS(GETS_LBA_STATUS, "4.2.1/b", w.sqe.cdw13 = le32(1u << 24));
        BREAKS(CANCELS, "7.1/a", w.sqe.cdw10 = le32(2));
        BREAKS(CANCELS, "7.1/o", w.sqe.cdw11 = le32(2));
        BREAKS(COPIES, "3.3.2/a", w.sqe.cdw12 = le32(5 << 8));
        BREAKS(COPIES, "3.3.2/d", w.sqe.cdw12 = le32(1 << 8 | 102));
        BREAKS(DEALLOCATES, "3.3.3/a", w.sqe.sgl.len = le32(8));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(right_commands_break_nothing),
                cmocka_unit_test(nothing_known_breaks_nothing),
                cmocka_unit_test(violators_break_their_rows),
                cmocka_unit_test(the_past_counts),
                cmocka_unit_test(what_is_described_counts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
