/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces that hosts make and delete: what they cost is bounded. */
#include <stdio.h>

#include "ctrl_fixture.h"

static struct bed bed;
static struct fake host;
static struct cmd *cmd;

static int tear_down(void **state)
{
        (void)state;
        ctrl_queue_gone(&host.q);
        bed_fini(&bed);
        free(cmd);
        return 0;
}

/* One block. The new NSID is in the completion. */
static uint16_t create(void)
{
        struct id_ns *id = (struct id_ns *)(void *)cmd->data;

        memset(id, 0, sizeof(*id));
        id->nsze = id->ncap = le64(1);
        return simple(&host, cmd, NVME_NS_MANAGEMENT, 0, 0, 0);
}

static uint16_t delete (uint32_t nsid)
{
        return simple(&host, cmd, NVME_NS_MANAGEMENT, nsid, 1, 0);
}

static int set_up(void **state)
{
        (void)state;
        bed_init(&bed);
        bed.one->whole = true;
        cmd = calloc(1, sizeof(*cmd));
        assert_non_null(cmd);
        fake_init(&host, &bed);
        make_connect(cmd, NULL, 0);
        assert_int_equal(run(&host, cmd), 0);
        assert_int_equal(set_cc(&host, cmd, CC_ON), 0);
        assert_int_equal(delete (NSID_ALL), 0); /* the bed is larger than what hosts may make */
        return 0;
}

static void made_and_deleted(void **state)
{
        uint32_t nsid;

        (void)state;
        assert_int_equal(create(), 0);
        nsid = le32_get(cmd->r.cqe.dw0);
        assert_non_null(ns_find(bed.one, nsid));
        assert_int_equal(delete (nsid), 0);
        assert_null(ns_find(bed.one, nsid));
        assert_int_equal(delete (nsid), NVME_INVALID_FIELD);
}

/* What was deleted stays in memory as long as somebody may look at it. */
static void not_for_ever(void **state)
{
        enum { MOST = 100000 };
        unsigned n = 0;
        uint16_t status;

        (void)state;
        while ((status = create()) == 0 && n++ < MOST)
                assert_int_equal(delete (le32_get(cmd->r.cqe.dw0)), 0);
        assert_int_equal(status, NVME_NSID_UNAVAILABLE);
        assert_in_range(n, 1000, MOST - 1);
}

/* --- who is told -------------------------------------------------------------------------------- */

static uint16_t cntlid_of(struct fake *f)
{
        assert_int_equal(simple(f, cmd, NVME_IDENTIFY, 0, CNS_CTRL, 0), 0);
        return le16_get(((const struct id_ctrl *)(const void *)cmd->data)->cntlid);
}

static bool lists(struct fake *f, uint8_t lid, uint32_t nsid)
{
        assert_int_equal(get_log(f, cmd, lid, false, 4096, 0), 0);
        return le_get(cmd->data, 4) == nsid;
}

static void attach(uint32_t nsid, uint32_t select, uint16_t first, uint16_t second)
{
        le_put(cmd->data, 2, 2);
        le_put(cmd->data + 2, 2, first);
        le_put(cmd->data + 4, 2, second);
        assert_int_equal(simple(&host, cmd, NVME_NS_ATTACHMENT, nsid, select, 0), 0);
}

/* Figure 152: all whom it concerns, the one that got the command among them, but for Delete (8.1.15). */
static void who_is_told(void **state)
{
        uint16_t first = cntlid_of(&host), second;
        struct fake other;
        uint32_t nsid;

        (void)state;
        open_admin(&other, &bed);
        second = cntlid_of(&other);
        assert_int_equal(create(), 0);
        nsid = le32_get(cmd->r.cqe.dw0);
        assert_true(lists(&host, LOG_CHANGED_ALLOCATED, nsid));
        assert_true(lists(&other, LOG_CHANGED_ALLOCATED, nsid));
        assert_false(lists(&host, LOG_CHANGED_NS, nsid));
        assert_false(lists(&other, LOG_CHANGED_NS, nsid));
        for (uint32_t select = 0; select < 3; select++) { /* and attached again */
                attach(nsid, select % 2, first, second);
                assert_true(lists(&host, LOG_CHANGED_ALLOCATED, nsid));
                assert_true(lists(&other, LOG_CHANGED_ALLOCATED, nsid));
                assert_true(lists(&host, LOG_CHANGED_NS, nsid));
                assert_true(lists(&other, LOG_CHANGED_NS, nsid));
        }
        assert_int_equal(delete (nsid), 0);
        assert_false(lists(&host, LOG_CHANGED_ALLOCATED, nsid));
        assert_true(lists(&other, LOG_CHANGED_ALLOCATED, nsid));
        assert_false(lists(&host, LOG_CHANGED_NS, nsid));
        assert_true(lists(&other, LOG_CHANGED_NS, nsid));
        ctrl_queue_gone(&other.q);
}

/* With ANA it is in a group as any other is, and the log shows that. */
static void in_a_group(void **state)
{
        uint16_t first = cntlid_of(&host), second;
        const struct log_ana *log = (const void *)cmd->data;
        const struct ana_group *group = (const void *)(log + 1);
        struct fake other;
        uint32_t nsid;

        (void)state;
        bed.one->ana = true;
        open_admin(&other, &bed);
        second = cntlid_of(&other);
        assert_int_equal(create(), 0);
        nsid = le32_get(cmd->r.cqe.dw0);
        attach(nsid, 0, first, second);
        assert_int_equal(get_log(&other, cmd, LOG_ANA, true, 64, 0), 0);
        assert_int_equal(le64_get(log->chgcnt), 1);
        assert_int_equal(le16_get(log->ngrps), 1);
        assert_int_equal(le32_get(group->grpid), ANA_GROUP_FIRST);
        assert_int_equal(le32_get(group->nnsids), 1);
        assert_int_equal(le_get((const uint8_t *)(group + 1), 4), nsid);
        assert_int_equal(simple(&other, cmd, NVME_IDENTIFY, nsid, CNS_NS, 0), 0);
        assert_int_equal(le32_get(((const struct id_ns *)(const void *)cmd->data)->anagrpid),
                         ANA_GROUP_FIRST);
        assert_int_equal(delete (nsid), 0);
        assert_int_equal(get_log(&other, cmd, LOG_ANA, true, 64, 0), 0);
        assert_int_equal(le64_get(log->chgcnt), 2);
        assert_int_equal(le16_get(log->ngrps), 0);
        ctrl_queue_gone(&other.q);
}

/* Log page 05h: commands by which namespaces come and go, and how far commands reach (figure 211). */
static void effects(void **state)
{
        enum {
                SUPPORTED = 1,
                LBCC = 1 << 1,
                NIC = 1 << 3,
                NS = 1 << 20,
                CTRL = 1 << 21,
                SUBSYSTEM = 1 << 25
        };
        static const struct {
                uint8_t opc;
                uint32_t effects;
        } rows[] = {
                { NVME_IDENTIFY, SUPPORTED | CTRL },
                { NVME_NS_MANAGEMENT, SUPPORTED | LBCC | NIC | NS | SUBSYSTEM },
                { NVME_NS_ATTACHMENT, SUPPORTED | NIC | NS | CTRL },
                { NVME_FORMAT, SUPPORTED | LBCC | NS },
                { NVME_SANITIZE, SUPPORTED | LBCC | SUBSYSTEM },
                { NVME_SET_FEATURES, SUPPORTED | NS | CTRL | SUBSYSTEM },
        };

        (void)state;
        assert_int_equal(get_log(&host, cmd, LOG_EFFECTS, false, 4096, 0), 0);
        for (size_t i = 0; i < COUNT(rows); i++)
                assert_int_equal(le_get(cmd->data + 4 * rows[i].opc, 4), rows[i].effects);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(made_and_deleted, set_up, tear_down),
                cmocka_unit_test_setup_teardown(not_for_ever, set_up, tear_down),
                cmocka_unit_test_setup_teardown(who_is_told, set_up, tear_down),
                cmocka_unit_test_setup_teardown(in_a_group, set_up, tear_down),
                cmocka_unit_test_setup_teardown(effects, set_up, tear_down),
        };

        return cmocka_run_group_tests_name("ns_manage", tests, NULL, NULL);
}
