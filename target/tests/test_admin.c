/* SPDX-License-Identifier: BSD-3-Clause */
/* Admin commands: Identify, log pages, features, Abort, Asynchronous Event Requests. */
#include "ctrl_fixture.h"

#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

#include "pdu/io/loop.h"
#include "pdu/nvme/wire/identify.h"
#include "target/nvme/admin.h"

static struct bed bed;
static struct fake admin;
static struct cmd *cmd, *aer;

static int setup(void **state)
{
        (void)state;
        bed_init(&bed);
        cmd = calloc(1, sizeof(*cmd));
        aer = calloc(1, sizeof(*aer));
        if (!cmd || !aer)
                return -1;
        open_admin(&admin, &bed);
        return 0;
}

static int teardown(void **state)
{
        (void)state;
        ctrl_queue_gone(&admin.q);
        free(cmd);
        free(aer);
        bed_fini(&bed);
        return 0;
}

/* --- Identify --------------------------------------------------------------------------------- */

static uint16_t identify(uint8_t cns, uint32_t nsid, uint16_t cntid, uint8_t csi)
{
        memset(cmd->data, 0xee, sizeof(cmd->data));
        return simple(&admin, cmd, NVME_IDENTIFY, nsid, (uint32_t)cntid << 16 | cns,
                      (uint32_t)csi << 24);
}

static void identify_controller(void **state)
{
        const struct id_ctrl *id = (const struct id_ctrl *)cmd->data;

        (void)state;
        assert_int_equal(identify(CNS_CTRL, 0, 0, 0), 0);
        assert_int_equal(cmd->r.c2h_len, IDENTIFY_LEN);
        assert_int_equal(id->mdts, 4); /* 64 KiB */
        assert_int_equal(le32_get(id->ver), controller_vs());
        assert_int_equal(le32_get(id->oaes), OAES_NS | OAES_LBA_STATUS);
        assert_int_equal(le32_get(id->ctratt),
                         CTRATT_HOSTID128 | CTRATT_TBKAS | CTRATT_RHII | CTRATT_ULIST);
        assert_int_equal(id->cntrltype, CNTRLTYPE_IO);
        assert_int_equal(id->aerl, 3);
        assert_true(le16_get(id->kas) > 0);
        assert_int_equal(id->sqes, 0x66);
        assert_int_equal(id->cqes, 0x44);
        assert_int_equal(le16_get(id->maxcmd), 64);
        assert_int_equal(le32_get(id->sgls) & 3, 1);
        assert_int_equal(le32_get(id->ioccsz), (64 + 8192) / 16);
        assert_int_equal(le32_get(id->iorcsz), 1);
        assert_int_equal(le16_get(id->icdoff), 0);
        assert_int_equal(id->fcatt & 1, 0); /* dynamic */
        assert_int_equal(id->msdbd, 1);
        assert_int_equal(le16_get(id->ofcs), OFCS_DISCONNECT);
        assert_string_equal(id->subnqn, SUB1);
        assert_memory_equal(id->sn, bed.one->serial, strlen(bed.one->serial));
        assert_int_equal(id->sn[sizeof(id->sn) - 1], ' ');
        assert_memory_equal(id->fr, "0.1     ", sizeof(id->fr));
        assert_true(le32_get(id->nn) >= 3);
}

static void mdts_rounds_down(void **state)
{
        static const struct {
                uint32_t bytes;
                uint8_t mdts;
        } rows[] = { { 8192, 1 }, { 16383, 1 }, { 1 << 20, 8 }, { UINT32_MAX, 19 } };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                bed.limits.max_transfer = rows[i].bytes;
                assert_int_equal(identify(CNS_CTRL, 0, 0, 0), 0);
                assert_int_equal(((struct id_ctrl *)cmd->data)->mdts, rows[i].mdts);
        }
}

static void identify_namespace(void **state)
{
        const struct id_ns *id = (const struct id_ns *)cmd->data;
        static const uint8_t zero[IDENTIFY_LEN];

        (void)state;
        assert_int_equal(identify(CNS_NS, 1, 0, 0), 0);
        assert_int_equal(le64_get(id->nsze), 2048);
        assert_int_equal(id_ns_block_size(id), 512);
        assert_int_equal(id->nmic, 1);
        assert_int_equal(identify(CNS_NS, 3, 0, 0), 0);
        assert_int_equal(le64_get(id->nsze), 1 << 18);
        assert_int_equal(id_ns_block_size(id), 4096);
        assert_int_equal(identify(CNS_NS, 2, 0, 0), 0); /* inactive: zeroes */
        assert_memory_equal(cmd->data, zero, IDENTIFY_LEN);
}

static void identify_statuses(void **state)
{
        static const struct {
                uint8_t cns, csi;
                uint16_t status;
                uint32_t nsid;
        } rows[] = {
                { CNS_NS, 0, 0x00b, 0 },
                { CNS_NS, 0, 0x00b, UINT32_MAX },
                { CNS_NS, 0, 0, CTRL_NSID_MAX },
                { CNS_NS, 0, 0x00b, CTRL_NSID_MAX + 1 },
                { CNS_NS_DESCS, 0, 0, 1 },
                { CNS_NS_DESCS, 0, 0x002, 2 },
                { CNS_NS_DESCS, 0, 0x00b, 0 },
                { CNS_NS_LIST, 0, 0x00b, UINT32_MAX },
                { CNS_NS_LIST, 0, 0x00b, UINT32_MAX - 1 },
                { CNS_NS_LIST, 0, 0, UINT32_MAX - 2 },
                { CNS_IOCS_NS, 0, 0, 1 },
                { CNS_IOCS_NS, 2, 0x002, 1 },
                { CNS_IOCS_CTRL, 0, 0, 0 },
                { CNS_IOCS_CTRL, 1, 0x002, 0 },
                { CNS_IOCS_NS_LIST, 0, 0, 0 },
                { CNS_IOCS_NS_LIST, 1, 0x002, 0 },
                { CNS_NS_INDEPENDENT, 0, 0, 1 },
                { CNS_NS_INDEPENDENT, 0, 0, 2 },
                { CNS_ALLOCATED_NS_LIST, 0, 0, 0 },
                { CNS_ALLOCATED_NS, 0, 0, 1 },
                { CNS_IOCS_ALLOCATED_NS_LIST, 0, 0, 0 },
                { CNS_IOCS_ALLOCATED_NS_LIST, 1, 0x002, 0 },
                { CNS_IOCS_ALLOCATED_NS_LIST, 0, 0x00b, UINT32_MAX - 1 },
                { CNS_NS_CTRL_LIST, 0, 0, 1 },
                { CNS_NS_CTRL_LIST, 0, 0x002, 2 },
                { CNS_CTRL_LIST, 0, 0, 0 },
                { CNS_IOCS, 0, 0, 0 },
                { 0x04, 0, 0x002, 0 },
                { 0x20, 0, 0x002, 0 },
                { 0xff, 0, 0x002, 0 },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                uint16_t status = identify(rows[i].cns, rows[i].nsid, 0, rows[i].csi);

                if (status != rows[i].status)
                        fail_msg("row %zu: %xh", i, status);
        }
        rule_add(&bed.policy.waived, FAB_NSID);
        assert_int_equal(identify(CNS_NS, 0, 0, 0), 0);
        rule_add(&bed.policy.waived, FAB_NSID_INACTIVE);
        assert_int_equal(identify(CNS_NS_DESCS, 2, 0, 0), 0);
}

static void identify_lists(void **state)
{
        const le16_t *ids = (const le16_t *)cmd->data;
        struct fake second;

        (void)state;
        assert_int_equal(identify(CNS_NS_LIST, 0, 0, 0), 0);
        assert_int_equal(ns_list_count(cmd->data, IDENTIFY_LEN), 2);
        assert_int_equal(ns_list_get(cmd->data, 0), 1);
        assert_int_equal(ns_list_get(cmd->data, 1), 3);
        assert_int_equal(identify(CNS_NS_LIST, 1, 0, 0), 0);
        assert_int_equal(ns_list_count(cmd->data, IDENTIFY_LEN), 1);
        open_admin(&second, &bed);
        assert_int_equal(identify(CNS_CTRL_LIST, 0, 0, 0), 0);
        assert_int_equal(le16_get(ids[0]), 2);
        assert_true(le16_get(ids[1]) < le16_get(ids[2]));
        assert_int_equal(identify(CNS_NS_CTRL_LIST, 1, (uint16_t)(le16_get(ids[1]) + 1), 0), 0);
        assert_int_equal(le16_get(ids[0]), 1);
        assert_null(ctrl_queue_gone(&second.q));
}

static void identify_descriptors(void **state)
{
        struct ns *ns = subsystem_ns(bed.one, 1);
        struct ns_id id;
        size_t at = 0;

        (void)state;
        memset(nvme_ns(ns)->nguid, 7, sizeof(nvme_ns(ns)->nguid));
        assert_int_equal(identify(CNS_NS_DESCS, 1, 0, 0), 0);
        assert_true(ns_desc_next(cmd->data, IDENTIFY_LEN, &at, &id));
        assert_int_equal(id.type, NIDT_UUID);
        assert_memory_equal(id.bytes, ns->uuid, 16);
        assert_true(ns_desc_next(cmd->data, IDENTIFY_LEN, &at, &id));
        assert_int_equal(id.type, NIDT_NGUID);
        assert_true(ns_desc_next(cmd->data, IDENTIFY_LEN, &at, &id));
        assert_int_equal(id.type, NIDT_CSI);
        assert_int_equal(id.bytes[0], 0);
        assert_false(ns_desc_next(cmd->data, IDENTIFY_LEN, &at, &id));
        assert_int_equal(identify(CNS_NS_INDEPENDENT, 1, 0, 0), 0);
        assert_int_equal(cmd->data[14], 1); /* NSTAT.NRDY: the Linux host waits for it */
}

/* --- log pages -------------------------------------------------------------------------------- */

static void log_statuses(void **state)
{
        static const struct {
                uint8_t lid;
                uint32_t bytes;
                uint64_t offset;
                uint16_t status;
                enum rule_id rule;
        } rows[] = {
                { LOG_SUPPORTED, 1024, 0, 0, 0 },
                { LOG_ERROR, 4096, 0, 0, 0 },
                { LOG_ERROR, 64, 4096, 0, 0 }, /* the offset may be the size */
                { LOG_ERROR, 64, 4100, 0x002, LOG_OFFSET },
                { LOG_ERROR, 64, UINT64_MAX - 3, 0x002, LOG_OFFSET },
                { LOG_ERROR, 64, 2, 0x002, 0 },
                { LOG_SMART, 512, 0, 0, 0 },
                { LOG_SMART, 4, 0, 0, 0 },
                { LOG_SMART, 65536, 0, 0, 0 },
                { LOG_SMART, 65540, 0, 0x002, 0 }, /* MDTS */
                { LOG_SMART, 512, 516, 0x002, LOG_OFFSET },
                { LOG_FW_SLOT, 512, 0, 0, 0 },
                { LOG_CHANGED_NS, 4096, 0, 0, 0 },
                { LOG_EFFECTS, 4096, 0, 0, 0 },
                { LOG_FEATURE_EFFECTS, 1024, 0, 0, 0 },
                { LOG_MI_EFFECTS, 4096, 0, 0, 0 }, /* LPA says so */
                { LOG_DISCOVERY, 1024, 0, 0x109, LOG_NOT_DISC },
                { LOG_ANA, 1024, 0, 0x109, LOG_UNKNOWN },
                { 0xff, 4, 0, 0x109, LOG_UNKNOWN },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                uint16_t status =
                    get_log(&admin, cmd, rows[i].lid, false, rows[i].bytes, rows[i].offset);

                if (status != rows[i].status)
                        fail_msg("row %zu: %xh", i, status);
                if (!status)
                        assert_int_equal(cmd->r.c2h_len, rows[i].bytes);
                if (!rows[i].rule)
                        continue;
                memset(&bed.policy, 0, sizeof(bed.policy));
                rule_add(&bed.policy.waived, rows[i].rule);
                assert_int_equal(
                    get_log(&admin, cmd, rows[i].lid, false, rows[i].bytes, rows[i].offset), 0);
                memset(&bed.policy, 0, sizeof(bed.policy));
        }
}

static void log_fields(void **state)
{
        (void)state;
        memset(&cmd->r, 0, sizeof(cmd->r));
        cmd->r.sqe.opc = NVME_GET_LOG_PAGE;
        cmd->r.sqe.cdw10 = le32(127u << 16 | LOG_SMART);
        cmd->r.sqe.cdw14 = le32(1u << 23); /* OT */
        assert_int_equal(run(&admin, cmd), NVME_INVALID_FIELD);
        cmd->r.sqe.cdw14 = le32(0);
        cmd->r.sqe.nsid = le32(1); /* SMART is of the controller */
        assert_int_equal(run(&admin, cmd), NVME_INVALID_FIELD);
        cmd->r.sqe.nsid = le32(UINT32_MAX);
        assert_int_equal(run(&admin, cmd), 0);
        cmd->r.sqe.cdw10 = le32(0xffffu << 16 | LOG_SMART);
        cmd->r.sqe.cdw11 = le32(0xffff); /* 16 GiB */
        assert_int_equal(run(&admin, cmd), NVME_INVALID_FIELD);
}

/* A page read in pieces is the page read at once. */
static void log_offsets(void **state)
{
        static uint8_t whole[4096];
        static const uint32_t pieces[] = { 4, 12, 100, 1000, 4092 };

        (void)state;
        assert_int_equal(get_log(&admin, cmd, LOG_EFFECTS, false, 4096, 0), 0);
        memcpy(whole, cmd->data, sizeof(whole));
        for (size_t i = 0; i < COUNT(pieces); i++)
                for (uint32_t at = 0; at < 4096; at += pieces[i]) {
                        uint32_t n = 4096 - at < pieces[i] ? 4096 - at : pieces[i];

                        assert_int_equal(get_log(&admin, cmd, LOG_EFFECTS, false, pieces[i], at),
                                         0);
                        assert_memory_equal(cmd->data, whole + at, n);
                }
}

static void supported_pages(void **state)
{
        const le32_t *lids = (const le32_t *)cmd->data;
        const struct log_effects *e = (const struct log_effects *)cmd->data;

        (void)state;
        get_log(&admin, cmd, LOG_SUPPORTED, false, 1024, 0);
        assert_int_equal(le32_get(lids[LOG_SMART]) & 1, 1);
        assert_int_equal(le32_get(lids[LOG_DISCOVERY]), 0);
        get_log(&admin, cmd, LOG_FEATURE_EFFECTS, false, 1024, 0);
        assert_int_equal(le32_get(lids[FEAT_KATO]) & 1, 1);
        assert_int_equal(le32_get(lids[FEAT_TIMESTAMP]) & 1, 1);
        assert_int_equal(le32_get(lids[0x08]), 0);
        get_log(&admin, cmd, LOG_EFFECTS, false, 4096, 0);
        assert_int_equal(le32_get(e->admin[NVME_KEEP_ALIVE]) & 1, 1);
        assert_int_equal(le32_get(e->admin[NVME_CREATE_SQ]), 0);
        assert_int_equal(le32_get(e->io[NVME_WRITE]) & 3, 3);
        assert_int_equal(le32_get(e->io[NVME_READ]) & 3, 1);
}

static void error_log(void **state)
{
        const struct log_error *e = (const struct log_error *)cmd->data;

        (void)state;
        assert_int_equal(simple(&admin, cmd, 0x80, 0, 0, 0), NVME_INVALID_OPCODE);
        assert_int_equal(identify(0xff, 0, 0, 0), NVME_INVALID_FIELD);
        assert_true(cqe_more(&cmd->r.cqe));
        get_log(&admin, cmd, LOG_ERROR, false, 4096, 0);
        assert_int_equal(le64_get(e[0].count), 2); /* the newest first */
        assert_int_equal(e[0].opc, NVME_IDENTIFY);
        assert_int_equal(le16_get(e[0].cid), NVME_IDENTIFY);
        assert_int_equal(le16_get(e[0].sf) >> 1 & STATUS_MASK, NVME_INVALID_FIELD);
        assert_int_equal(le64_get(e[1].count), 1);
        assert_int_equal(e[1].opc, 0x80);
        assert_int_equal(le64_get(e[2].count), 0);
        for (unsigned i = 0; i < 100; i++)
                identify(0xff, 0, 0, 0);
        get_log(&admin, cmd, LOG_ERROR, false, 4096, 0);
        assert_int_equal(le64_get(e[0].count), 102);
        assert_int_equal(le64_get(e[63].count), 39);
        cmd->r.cqe.sf = status_field(NVME_LBA_RANGE | STATUS_DNR);
        ctrl_log_error(&admin.q, &cmd->r);
        assert_true(cqe_more(&cmd->r.cqe));
        get_log(&admin, cmd, LOG_ERROR, false, 64, 0);
        assert_int_equal(le16_get(e[0].sf) >> 1, NVME_LBA_RANGE | STATUS_DNR | STATUS_MORE);
}

static void smart(void **state)
{
        const struct log_smart *s = (const struct log_smart *)cmd->data;
        struct fake io;

        (void)state;
        open_io(&io, &bed, &admin, 1);
        ctrl_account(&io.q, false, 512);
        ctrl_account(&io.q, false, 512 * 1000);
        ctrl_account(&io.q, true, 4096);
        get_log(&admin, cmd, LOG_SMART, false, 512, 0);
        for (unsigned i = 0; i < 2; i++) { /* with the queue, and after it has gone */
                assert_int_equal(le_get(s->data_read, 8), 2);
                assert_int_equal(le_get(s->data_written, 8), 1);
                assert_int_equal(le_get(s->reads, 8), 2);
                assert_int_equal(le_get(s->writes, 8), 1);
                assert_int_equal(s->critical, 0);
                if (i == 0)
                        assert_null(ctrl_queue_gone(&io.q));
                get_log(&admin, cmd, LOG_SMART, false, 512, 0);
        }
}

/* Its ranges are told to be many, and none is looked for beyond those that would be listed. */
static void lba_status_of_many_ranges(void **state)
{
        enum { BLOCKS = 131072, HEADER = 16, ELEMENT = 16 };
        struct ns *ns;
        uint64_t began;

        (void)state;
        bed_add_ns(bed.one, "null:64M", 4);
        ns = ns_find(bed.one, 4);
        for (unsigned lba = 0; lba < BLOCKS; lba += 2)
                assert_int_equal(ns_write_uncorrectable(ns, lba, 1), 0);
        began = loop_now_ns();
        for (unsigned i = 0; i < 1000; i++)
                assert_int_equal(get_log(&admin, cmd, LOG_LBA_STATUS, false, 512, 0), 0);
        assert_true(loop_now_ns() - began < UINT64_C(1000000000));
        assert_int_equal(le_get(cmd->data, 4), HEADER + ELEMENT);
        assert_int_equal(le_get(cmd->data + 4, 4), 1);
        assert_int_equal(le_get(cmd->data + 8, 4), BLOCKS / 2);
        assert_int_equal(le_get(cmd->data + HEADER, 4), 4);
        assert_int_equal(le_get(cmd->data + HEADER + 4, 4), UINT32_MAX);
        for (unsigned lba = 128; lba < BLOCKS; lba += 2)
                ns_deallocate(ns, lba, 1);
        assert_int_equal(get_log(&admin, cmd, LOG_LBA_STATUS, false, 4096, 0), 0);
        assert_int_equal(le_get(cmd->data, 4), HEADER + ELEMENT + 64 * 16);
        assert_int_equal(le_get(cmd->data + 8, 4), 64);
        assert_int_equal(le_get(cmd->data + HEADER + ELEMENT + 63 * 16, 8), 126);
}

/* --- events ----------------------------------------------------------------------------------- */

static void want_ns_events(void)
{
        assert_int_equal(simple(&admin, cmd, NVME_SET_FEATURES, 0, FEAT_AEC, AEC_NS), 0);
}

static void namespace_change(void **state)
{
        const le32_t *list = (const le32_t *)cmd->data;

        (void)state;
        want_ns_events();
        assert_int_equal(simple(&admin, aer, NVME_AER, 0, 0, 0), LATER);
        ns_changed(&bed, bed.two, 5); /* another subsystem's */
        ns_changed(&bed, NULL, 5);
        assert_int_equal(admin.later_n, 0);
        ns_changed(&bed, bed.one, 3);
        assert_int_equal(later(&admin, 0, aer), 0);
        assert_int_equal(le32_get(aer->r.cqe.dw0), 0x00040002);
        ns_changed(&bed, bed.one, 1);
        ns_changed(&bed, bed.one, 3);
        assert_int_equal(simple(&admin, aer, NVME_AER, 0, 0, 0), LATER);
        assert_int_equal(admin.later_n, 1); /* masked */
        for (int rae = 1; rae >= 0; rae--) {
                get_log(&admin, cmd, LOG_CHANGED_NS, rae, 4096, 0);
                assert_int_equal(le32_get(list[0]), 1);
                assert_int_equal(le32_get(list[1]), 3);
                assert_int_equal(le32_get(list[2]), 0);
        }
        get_log(&admin, cmd, LOG_CHANGED_NS, false, 4096, 0);
        assert_int_equal(le32_get(list[0]), 0);
        assert_int_equal(admin.later_n, 1);
        ns_changed(&bed, bed.one, 2);
        assert_int_equal(later(&admin, 1, aer), 0);
}

/* Whether this controller has been told of NSID 1 since it was asked last, on the aer that it has. */
static bool was_told(struct fake *f, struct cmd *event)
{
        unsigned told = f->later_n;
        bool listed =
            get_log(f, cmd, LOG_CHANGED_NS, false, 4096, 0) == 0 && le_get(cmd->data, 4) == 1;

        assert_int_equal(told, listed);
        f->later_n = 0;
        if (told)
                assert_int_equal(simple(f, event, NVME_AER, 0, 0, 0), LATER);
        return told;
}

static void protection_is_told(void **state)
{
        static const uint32_t states[] = { 1, 1, 0, 0 };
        struct cmd *event = calloc(1, sizeof(*event));
        struct fake other;

        (void)state;
        open_admin(&other, &bed);
        want_ns_events();
        assert_int_equal(simple(&other, cmd, NVME_SET_FEATURES, 0, FEAT_AEC, AEC_NS), 0);
        assert_int_equal(simple(&admin, aer, NVME_AER, 0, 0, 0), LATER);
        assert_int_equal(simple(&other, event, NVME_AER, 0, 0, 0), LATER);
        for (size_t i = 0; i < COUNT(states); i++) {
                assert_int_equal(
                    simple(&admin, cmd, NVME_SET_FEATURES, 1, FEAT_WRITE_PROTECT, states[i]), 0);
                assert_int_equal(was_told(&other, event), i % 2 == 0);
                assert_int_equal(was_told(&admin, aer), i % 2 == 0);
        }
        ctrl_queue_gone(&other.q);
        free(event);
}

/* What was written before is not on the disk: neither is the namespace protected. */
static void protection_fails(void **state)
{
        static const uint16_t ends[] = { NVME_INTERNAL_ERROR, NVME_SUCCESS };
        char error[128];

        (void)state;
        subsystem_add_ns(
            bed.one, ns_open(&nvme_ns_family, "mem:1M,delay=1ms", SUB1, 4, error, sizeof(error)));
        for (size_t i = 0; i < COUNT(ends); i++) {
                assert_int_equal(simple(&admin, cmd, NVME_SET_FEATURES, 4, FEAT_WRITE_PROTECT, 1),
                                 0);
                assert_int_equal(admin.verdict, CTRL_FLUSH);
                cmd->r.cqe.sf = status_field(ends[i]);
                ctrl_flushed(&admin.q, &cmd->r);
                assert_int_equal(cqe_status(&cmd->r.cqe), ends[i]);
                assert_int_equal(ns_find(bed.one, 4)->protection, !ends[i]);
        }
}

/* Nothing waits for the disk where the namespace is not protected and was not. */
static void protection_waits_for_a_flush(void **state)
{
        static const uint32_t states[] = { 0, 1, 1, 0, 0 };
        char error[128];

        (void)state;
        subsystem_add_ns(
            bed.one, ns_open(&nvme_ns_family, "mem:1M,delay=1ms", SUB1, 4, error, sizeof(error)));
        for (size_t i = 0; i < COUNT(states); i++) {
                bool waits = states[i] == 1 || ns_find(bed.one, 4)->protection;

                assert_int_equal(
                    simple(&admin, cmd, NVME_SET_FEATURES, 4, FEAT_WRITE_PROTECT, states[i]), 0);
                assert_int_equal(admin.verdict, waits ? CTRL_FLUSH : CTRL_COMPLETE);
                if (waits)
                        ctrl_flushed(&admin.q, &cmd->r);
        }
}

static sem_t completed;

static void on_completed(struct ctrl_queue *q, struct request *r)
{
        (void)q;
        (void)r;
        sem_post(&completed);
}

/* The status of Reservation Persistence of all namespaces; a disk may be as fast as the command. */
static uint16_t persist(uint32_t ptpl)
{
        uint16_t status =
            simple(&admin, cmd, NVME_SET_FEATURES, NSID_ALL, FEAT_RESERVATION_PERSISTENCE, ptpl);

        if (status != LATER)
                return status;
        sem_wait(&completed);
        assert_true(ctrl_waits(&admin.q, &cmd->r));
        assert_int_equal(ctrl_resume(&bed.env, &admin.q, &cmd->r, bed.now), CTRL_COMPLETE);
        return cqe_status(&cmd->r.cqe);
}

/* One of the namespaces is on a disk. */
static void persistence_waits_for_the_disk(void **state)
{
        char path[] = "/tmp/nvmfspec-test-admin-XXXXXX", beside[64], fresh[80], spec[64];
        int fd = mkstemp(path);

        (void)state;
        close(fd);
        snprintf(spec, sizeof(spec), "file:%s,size=1M", path);
        snprintf(beside, sizeof(beside), "%s.reservations", path);
        snprintf(fresh, sizeof(fresh), "%s.new", beside);
        bed_add_ns(bed.one, spec, 4);
        sem_init(&completed, 0, 0);
        admin.q.complete = on_completed;
        for (uint32_t i = 0; i < 3; i++) { /* on, off, and one that cannot be written */
                uint16_t status = i == 2 ? NVME_INTERNAL_ERROR : 0;

                if (i == 2)
                        assert_int_equal(symlink("/nowhere/at/all", fresh), 0);
                assert_int_equal(persist(i != 1), status);
                assert_false(ctrl_waits(&admin.q, &cmd->r));
                assert_int_equal(ns_resv_ptpl(ns_find(bed.one, 4)), i == 0);
                assert_int_equal(access(beside, F_OK) == 0, i == 0);
        }
        assert_int_equal(simple(&admin, cmd, NVME_SET_FEATURES, 1, FEAT_RESERVATION_PERSISTENCE, 1),
                         0);
        unlink(fresh);
        unlink(path);
}

static void failed_read_keeps_the_event(void **state)
{
        (void)state;
        want_ns_events();
        simple(&admin, aer, NVME_AER, 0, 0, 0);
        ns_changed(&bed, bed.one, 3);
        assert_int_equal(admin.later_n, 1);
        assert_int_equal(get_log(&admin, cmd, LOG_CHANGED_NS, false, 4, 8192), NVME_INVALID_FIELD);
        simple(&admin, aer, NVME_AER, 0, 0, 0);
        ns_changed(&bed, bed.one, 3);
        assert_int_equal(admin.later_n, 1);
}

static void too_many_changes(void **state)
{
        const le32_t *list = (const le32_t *)cmd->data;

        (void)state;
        for (uint32_t nsid = LOG_CHANGED_NS_MAX; nsid > 0; nsid--)
                ns_changed(&bed, bed.one, nsid);
        get_log(&admin, cmd, LOG_CHANGED_NS, true, 4096, 0);
        for (uint32_t i = 0; i < LOG_CHANGED_NS_MAX; i++)
                assert_int_equal(le32_get(list[i]), i + 1);
        ns_changed(&bed, bed.one, LOG_CHANGED_NS_MAX + 1);
        ns_changed(&bed, bed.one, LOG_CHANGED_NS_MAX + 2);
        get_log(&admin, cmd, LOG_CHANGED_NS, false, 4096, 0);
        assert_int_equal(le32_get(list[0]), UINT32_MAX);
        assert_int_equal(le32_get(list[1]), 0);
}

static void event_before_aer(void **state)
{
        (void)state;
        want_ns_events();
        ns_changed(&bed, bed.one, 3);
        assert_int_equal(simple(&admin, aer, NVME_AER, 0, 0, 0), LATER);
        assert_int_equal(later(&admin, 0, aer), 0);
}

static void aer_limit(void **state)
{
        struct cmd *more = calloc(4, sizeof(*more));

        (void)state;
        for (unsigned i = 0; i < 4; i++)
                assert_int_equal(simple(&admin, &more[i], NVME_AER, 0, 0, 0), LATER);
        assert_int_equal(simple(&admin, aer, NVME_AER, 0, 0, 0), NVME_AER_LIMIT);
        assert_non_null(ctrl_queue_gone(&admin.q));
        free(more);
}

static void abort_rows(void **state)
{
        enum { CID = NVME_AER };

        (void)state;
        assert_int_equal(simple(&admin, cmd, NVME_ABORT, 0, 0x1234u << 16, 0), 0);
        assert_int_equal(le32_get(cmd->r.cqe.dw0), 1); /* no such command */
        simple(&admin, aer, NVME_AER, 0, 0, 0);
        assert_int_equal(simple(&admin, cmd, NVME_ABORT, 0, CID << 16 | 1, 0), 0);
        assert_int_equal(le32_get(cmd->r.cqe.dw0), 1); /* no such queue */
        assert_int_equal(simple(&admin, cmd, NVME_ABORT, 0, CID << 16, 0), LATER);
        assert_int_equal(later(&admin, 0, aer), NVME_ABORT_REQUESTED); /* it comes first */
        assert_int_equal(later(&admin, 1, cmd), 0);
        assert_int_equal(le32_get(cmd->r.cqe.dw0), 0);
}

/* --- features --------------------------------------------------------------------------------- */

static uint16_t set_feature(uint8_t fid, uint32_t dw11)
{
        return simple(&admin, cmd, NVME_SET_FEATURES, 0, fid, dw11);
}

static uint32_t get_feature(uint8_t fid, unsigned sel, uint32_t dw11)
{
        assert_int_equal(simple(&admin, cmd, NVME_GET_FEATURES, 0, sel << 8 | fid, dw11), 0);
        return le32_get(cmd->r.cqe.dw0);
}

static void feature_dwords(void **state)
{
        static const struct {
                uint8_t fid;
                uint32_t initial, legal, illegal;
        } rows[] = {
                { FEAT_ARBITRATION, 0, 0x01020303, 0x8 },
                { FEAT_POWER, 0, 0x20, 1 },
                { FEAT_WRITE_CACHE, 1, 0, 2 },
                { FEAT_WRITE_ATOMICITY, 0, 1, 2 },
                { FEAT_TEMP, 0x157, 0x160, 1 << 16 },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                assert_int_equal(get_feature(rows[i].fid, 0, 0), rows[i].initial);
                assert_int_equal(set_feature(rows[i].fid, rows[i].illegal), NVME_INVALID_FIELD);
                assert_int_equal(set_feature(rows[i].fid, rows[i].legal), 0);
                assert_int_equal(get_feature(rows[i].fid, 0, 0), rows[i].legal & 0xffffffff);
                if (rows[i].fid != FEAT_TEMP)
                        assert_int_equal(get_feature(rows[i].fid, 1, 0), rows[i].initial);
                assert_int_equal(get_feature(rows[i].fid, 3, 0), FEATURE_CHANGEABLE);
        }
        assert_int_equal(set_cc(&admin, cmd, 0), 0);
        assert_int_equal(set_cc(&admin, cmd, CC_ON), 0);
        for (size_t i = 0; i < COUNT(rows); i++)
                assert_int_equal(get_feature(rows[i].fid, 0, 0), rows[i].initial);
}

static void feature_statuses(void **state)
{
        static const struct {
                uint32_t opc, nsid, dw10, dw11;
                uint16_t status;
        } rows[] = {
                { NVME_SET_FEATURES, 0, 0xc0, 0, 0x002 },
                { NVME_GET_FEATURES, 0, 0xc0, 0, 0x002 },
                { NVME_GET_FEATURES, 0, 0x00, 0, 0x002 },
                { NVME_SET_FEATURES, 0, 1u << 31 | FEAT_WRITE_CACHE, 0, 0x10d },
                { NVME_SET_FEATURES, 1, FEAT_WRITE_CACHE, 0, 0x10f },
                { NVME_SET_FEATURES, UINT32_MAX, FEAT_WRITE_CACHE, 0, 0 },
                { NVME_SET_FEATURES, 1, FEAT_ERROR_RECOVERY, 0, 0 },
                { NVME_SET_FEATURES, 1, FEAT_ERROR_RECOVERY, 1 << 17, 0x002 },
                { NVME_SET_FEATURES, NSID_ALL, FEAT_ERROR_RECOVERY, 0, 0 },
                { NVME_GET_FEATURES, NSID_ALL, FEAT_ERROR_RECOVERY, 0, 0x00b },
                { NVME_SET_FEATURES, 0, FEAT_ERROR_RECOVERY, 0, 0x00b },
                { NVME_GET_FEATURES, CTRL_NSID_MAX, FEAT_ERROR_RECOVERY, 0, 0x002 },
                { NVME_GET_FEATURES, CTRL_NSID_MAX + 1, FEAT_ERROR_RECOVERY, 0, 0x00b },
                { NVME_GET_FEATURES, 0, 5u << 8 | FEAT_WRITE_CACHE, 0, 0x002 },
                { NVME_SET_FEATURES, 0, FEAT_HOSTID, 1, 0x00c },
                { NVME_GET_FEATURES, 0, FEAT_HOSTID, 1, 0 },
                { NVME_GET_FEATURES, 0, FEAT_HOSTID, 0, 0x002 },
                { NVME_SET_FEATURES, 0, FEAT_TEMP, 2 << 20, 0x002 },
                { NVME_SET_FEATURES, 0, FEAT_TEMP, 0xf << 16, 0 },
                { NVME_GET_FEATURES, 0, FEAT_TEMP, 0xf << 16, 0x002 },
                { NVME_SET_FEATURES, 0, FEAT_KATO, 0, 0x01a },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                uint16_t status = simple(&admin, cmd, (uint8_t)rows[i].opc, rows[i].nsid,
                                         rows[i].dw10, rows[i].dw11);

                if (status != rows[i].status)
                        fail_msg("row %zu: %xh", i, status);
        }
        rule_add(&bed.policy.waived, FEAT_UNKNOWN);
        assert_int_equal(simple(&admin, cmd, NVME_GET_FEATURES, 0, 0xc0, 0), 0);
        rule_add(&bed.policy.waived, FEAT_HOSTID_FIXED);
        assert_int_equal(set_feature(FEAT_HOSTID, 1), 0);
}

/* Each namespace has its own; a reset of the controller takes all back. */
static void feature_recovery(void **state)
{
        (void)state;
        assert_int_equal(simple(&admin, cmd, NVME_SET_FEATURES, 1, FEAT_ERROR_RECOVERY, 7), 0);
        assert_int_equal(simple(&admin, cmd, NVME_GET_FEATURES, 1, FEAT_ERROR_RECOVERY, 0), 0);
        assert_int_equal(le32_get(cmd->r.cqe.dw0), 7);
        assert_int_equal(get_feature(FEAT_ERROR_RECOVERY, 3, 0),
                         FEATURE_CHANGEABLE | FEATURE_OF_NS);
        assert_int_equal(set_cc(&admin, cmd, 0), 0);
        assert_int_equal(set_cc(&admin, cmd, CC_ON), 0);
        assert_int_equal(simple(&admin, cmd, NVME_GET_FEATURES, 1, FEAT_ERROR_RECOVERY, 0), 0);
        assert_int_equal(le32_get(cmd->r.cqe.dw0), 0);
}

static void feature_temperature(void **state)
{
        (void)state;
        assert_int_equal(set_feature(FEAT_TEMP, 1 << 20 | 280), 0);
        assert_int_equal(get_feature(FEAT_TEMP, 0, 1 << 20), 280);
        assert_int_equal(get_feature(FEAT_TEMP, 0, 0), 0x157);
}

static void feature_timestamp(void **state)
{
        (void)state;
        get_feature(FEAT_TIMESTAMP, 0, 0);
        assert_int_equal(cmd->r.c2h_len, 8);
        assert_int_equal(le_get(cmd->data, 8), 0);
        le_put(cmd->data, 8, 0x0000123456789abc);
        assert_int_equal(set_feature(FEAT_TIMESTAMP, 0), 0);
        bed.now += 500;
        get_feature(FEAT_TIMESTAMP, 0, 0);
        assert_int_equal(le_get(cmd->data, 6), 0x123456789abc + 500);
        assert_int_equal(cmd->data[6], 1 << 1);
        get_feature(FEAT_TIMESTAMP, 3, 0);
        assert_int_equal(cmd->r.c2h_len, 0);
}

static void feature_host(void **state)
{
        (void)state;
        get_feature(FEAT_HOSTID, 0, 1);
        assert_int_equal(cmd->r.c2h_len, 16);
        assert_int_equal(cmd->data[0], 1);
        assert_int_equal(get_feature(FEAT_HOSTID, 3, 1), 0); /* not changeable */
        memset(cmd->data, 0, 512);
        cmd->data[0] = 1;
        assert_int_equal(set_feature(FEAT_HOST_BEHAVIOR, 0), 0);
        memset(cmd->data, 0xee, 512);
        get_feature(FEAT_HOST_BEHAVIOR, 0, 0);
        assert_int_equal(cmd->data[0], 1);
        assert_int_equal(cmd->data[511], 0);
        get_feature(FEAT_HOST_BEHAVIOR, 1, 0);
        assert_int_equal(cmd->data[0], 0);
}

static void feature_queues(void **state)
{
        struct fake io;

        (void)state;
        assert_int_equal(get_feature(FEAT_QUEUES, 0, 0), 0x00030003);
        assert_int_equal(set_feature(FEAT_QUEUES, 0x00010001), 0);
        assert_int_equal(le32_get(cmd->r.cqe.dw0), 0x00010001);
        fake_init(&io, &bed);
        make_connect(cmd, &admin, 3);
        assert_int_equal(run(&io, cmd), NVME_CONNECT_PARAM);
        open_io(&io, &bed, &admin, 2);
        assert_int_equal(set_feature(FEAT_QUEUES, 0x00010001), NVME_SEQUENCE_ERROR);
        assert_null(ctrl_queue_gone(&io.q));
        assert_int_equal(set_feature(FEAT_QUEUES, 0x00020002), 0);
        assert_int_equal(le32_get(cmd->r.cqe.dw0), 0x00020002);
}

/* --- what does not exist ---------------------------------------------------------------------- */

/* Features have the controller's lock, which comes after the inventory's: who waits for that there, waits for a Connect
 * that waits for the controller. */
static void no_feature_waits_for_the_inventory(void **state)
{
        (void)state;
        pthread_rwlock_rdlock(&bed.inv.lock);
        alarm(60);
        for (unsigned fid = 0; fid < 256; fid++) {
                simple(&admin, cmd, NVME_GET_FEATURES, 1, fid, 0);
                simple(&admin, cmd, NVME_SET_FEATURES, 1, fid | 1u << 31, 0xc1);
        }
        alarm(0);
        pthread_rwlock_unlock(&bed.inv.lock);
}

/* --- Sanitize --------------------------------------------------------------------------------- */

enum { EXIT_FAILURE_MODE = 1, BLOCK_ERASE = 2, AUSE = 1 << 3 };

static uint16_t sanitize(uint32_t dw10)
{
        return simple(&admin, cmd, NVME_SANITIZE, 0, dw10, 0);
}

/* Its hosts may do what they like with the subsystem. */
static void make_expendable(void)
{
        ctrl_queue_gone(&admin.q);
        atomic_store(&bed.one->whole, true);
        open_admin(&admin, &bed);
}

static unsigned sanitize_status(void)
{
        assert_int_equal(get_log(&admin, cmd, LOG_SANITIZE, false, 512, 0), 0);
        return cmd->data[2] & 7;
}

static enum ns_result no_zero(struct ns *ns, uint64_t offset, uint64_t len, bool deallocate)
{
        (void)ns, (void)offset, (void)len, (void)deallocate;
        return NS_WRITE_ERROR;
}

static enum ns_result write_to(struct ns *ns)
{
        static uint8_t block[4096] = { 7 };

        return ns_write(ns, 0, 1, block);
}

/* The first namespace cannot be zeroed; those after it are all the same. */
static void sanitize_that_fails(void **state)
{
        struct ns *ns = ns_find(bed.one, 1), *other = ns_find(bed.one, 3);
        const struct ns_ops *works = ns->ops;
        static struct ns_ops fails;

        (void)state;
        fails = *works;
        fails.zero = no_zero;
        make_expendable();
        for (unsigned ause = 0; ause < 2; ause++) {
                ns->ops = &fails;
                assert_int_equal(write_to(ns), NS_DONE);
                assert_int_equal(write_to(other), NS_DONE);
                assert_int_equal(sanitize(BLOCK_ERASE | ause * AUSE), 0);
                assert_int_equal(sanitize_status(), 2);
                assert_int_equal(ns_used(other), 0);
                assert_int_equal(ns_status(write_to(ns)), NVME_SANITIZING);
                assert_int_equal(sanitize(BLOCK_ERASE), NVME_SANITIZING);
                ctrl_table_tick(bed.env.table, bed.now += 1000);
                assert_int_equal(sanitize_status(), 3);
                assert_int_equal(ns_status(write_to(other)), NVME_SANITIZE_FAILED);
                assert_int_equal(simple(&admin, cmd, NVME_FORMAT, 1, 0, 0), NVME_SANITIZING);
                ns->ops = works;
                assert_int_equal(sanitize(EXIT_FAILURE_MODE), ause ? 0 : NVME_SANITIZE_FAILED);
                assert_int_equal(sanitize_status(), 3);
                assert_int_equal(ns_status(write_to(ns)), ause ? 0 : NVME_SANITIZE_FAILED);
                assert_int_equal(sanitize(BLOCK_ERASE | AUSE), ause ? 0 : NVME_SANITIZE_FAILED);
                assert_int_equal(sanitize(BLOCK_ERASE), ause ? NVME_SANITIZING : 0);
                ctrl_table_tick(bed.env.table, bed.now += 1000);
                assert_int_equal(sanitize_status(), 1);
                assert_int_equal(ns_used(ns), 0);
        }
}

/* The table of controllers is free while storage is written, but its time may be up before it has been. */
static enum ns_result slow_zero(struct ns *ns, uint64_t offset, uint64_t len, bool deallocate)
{
        (void)ns, (void)offset, (void)len, (void)deallocate;
        assert_int_equal(pthread_mutex_trylock(&bed.env.table->lock), 0);
        pthread_mutex_unlock(&bed.env.table->lock);
        ctrl_table_tick(bed.env.table, bed.now += 1000);
        return NS_DONE;
}

static void nobody_waits_for_sanitize(void **state)
{
        struct ns *ns = ns_find(bed.one, 1);
        const struct ns_ops *works = ns->ops;
        static struct ns_ops slow;

        (void)state;
        slow = *works;
        slow.zero = slow_zero;
        make_expendable();
        ns->ops = &slow;
        assert_int_equal(sanitize(BLOCK_ERASE), 0);
        assert_int_equal(sanitize_status(), 2);
        ctrl_table_tick(bed.env.table, bed.now += 1000);
        assert_int_equal(sanitize_status(), 1);
        ns->ops = works;
}

/* A command that found no operation when it began may be late: it changes nothing any more. */
static void a_late_write_meets_sanitize(void **state)
{
        struct ns *ns = ns_find(bed.one, 1);
        uint8_t block[512] = { 0 };

        (void)state;
        make_expendable();
        assert_int_equal(write_to(ns), NS_DONE);
        assert_int_equal(sanitize(BLOCK_ERASE), 0);
        assert_int_equal(ns_status(write_to(ns)), NVME_SANITIZING);
        assert_int_equal(ns_status(ns_write_uncorrectable(ns, 0, 1)), NVME_SANITIZING);
        assert_int_equal(ns_read(ns, 0, 1, block), NS_DONE);
        assert_int_equal(block[0], 0);
        ctrl_table_tick(bed.env.table, bed.now += 1000);
        assert_int_equal(write_to(ns), NS_DONE);
}

static void opcodes(void **state)
{
        (void)state;
        assert_int_equal(simple(&admin, cmd, NVME_CREATE_SQ, 0, 0, 0), NVME_INVALID_OPCODE);
        rule_add(&bed.policy.waived, FAB_OPCODE);
        assert_int_equal(simple(&admin, cmd, NVME_CREATE_SQ, 0, 0, 0), 0);
        memset(&cmd->r, 0, sizeof(cmd->r));
        cmd->r.sqe.opc = NVME_FABRICS;
        cmd->r.sqe.fctype = 0x33;
        assert_int_equal(run(&admin, cmd), NVME_INVALID_FIELD);
        rule_add(&bed.policy.waived, FAB_FCTYPE);
        assert_int_equal(run(&admin, cmd), 0);
}

/* Any bytes: no crash, a status within the eleven bits. */
static void any_command(void **state)
{
        uint32_t x = 1;

        (void)state;
        for (unsigned i = 0; i < 200000; i++) {
                memset(&cmd->r, 0, sizeof(cmd->r));
                for (size_t n = 0; n < sizeof(cmd->r.sqe); n++) {
                        x = x * 1664525 + 1013904223;
                        cmd->r.sqe.bytes[n] = x >> 28 ? (uint8_t)(x >> 20 & 0x8f) : 0;
                }
                if (i % 3 == 0)
                        cmd->r.sqe.opc = NVME_FABRICS;
                run(&admin, cmd);
                if (i % 64 == 0) {
                        set_cc(&admin, cmd, 0);
                        admin.later_n = 0;
                        set_cc(&admin, cmd, CC_ON);
                }
        }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
        static const struct CMUnitTest tests[] = {
                TEST(identify_controller),
                TEST(mdts_rounds_down),
                TEST(identify_namespace),
                TEST(identify_statuses),
                TEST(identify_lists),
                TEST(identify_descriptors),
                TEST(log_statuses),
                TEST(log_fields),
                TEST(log_offsets),
                TEST(supported_pages),
                TEST(lba_status_of_many_ranges),
                TEST(error_log),
                TEST(smart),
                TEST(namespace_change),
                TEST(failed_read_keeps_the_event),
                TEST(too_many_changes),
                TEST(event_before_aer),
                TEST(protection_is_told),
                TEST(protection_fails),
                TEST(protection_waits_for_a_flush),
                TEST(persistence_waits_for_the_disk),
                TEST(aer_limit),
                TEST(abort_rows),
                TEST(feature_dwords),
                TEST(feature_statuses),
                TEST(feature_recovery),
                TEST(feature_temperature),
                TEST(feature_timestamp),
                TEST(feature_host),
                TEST(feature_queues),
                TEST(opcodes),
                TEST(any_command),
                TEST(sanitize_that_fails),
                TEST(no_feature_waits_for_the_inventory),
                TEST(a_late_write_meets_sanitize),
                TEST(nobody_waits_for_sanitize),
        };

        return cmocka_run_group_tests_name("admin", tests, NULL, NULL);
}
