/* SPDX-License-Identifier: BSD-3-Clause */
/* Asymmetric Namespace Access: what a controller reports, and what states do to commands. */
#include "ctrl_fixture.h"
#include "target/nvme/ana.h"
#include "target/nvme/nvm.h"

static struct bed bed;
static struct fake admin;
static struct cmd *cmd;

/* Group 1: namespaces 1 and 5; group 2: namespace 3. */
static int set_up(void **state)
{
        (void)state;
        bed_init(&bed);
        bed_add_ns(bed.one, "mem:1M", 5);
        bed.one->ana = true;
        nvme_ns(ns_find(bed.one, 1))->anagrpid = 1;
        nvme_ns(ns_find(bed.one, 3))->anagrpid = 2;
        nvme_ns(ns_find(bed.one, 5))->anagrpid = 1;
        cmd = calloc(1, sizeof(*cmd));
        open_admin(&admin, &bed);
        return 0;
}

static int tear_down(void **state)
{
        (void)state;
        ctrl_queue_gone(&admin.q);
        bed_fini(&bed);
        free(cmd);
        return 0;
}

static void set_state(unsigned group, uint8_t state)
{
        bed.port->subsystems->ana.of[group] = state;
        ctrl_table_ana_changed(bed.env.table);
}

static const struct log_ana *read_log(bool rae, bool groups_only)
{
        memset(&cmd->r, 0, sizeof(cmd->r));
        cmd->r.sqe.opc = NVME_GET_LOG_PAGE;
        cmd->r.sqe.cdw10 =
            le32(LOG_ANA | (groups_only ? 1u << 8 : 0) | (uint32_t)rae << 15 | 63u << 16);
        assert_int_equal(run(&admin, cmd), 0);
        return (const struct log_ana *)cmd->data;
}

static const struct ana_group *group(const struct log_ana *log, size_t at)
{
        return (const struct ana_group *)((const uint8_t *)log + at);
}

static uint16_t io_status(uint32_t nsid)
{
        return ana_status(ctrl_ana(&admin.q), ns_find(bed.one, nsid));
}

/* An Asynchronous Event Request, which stays. */
static void listen(void)
{
        static struct cmd aer[4];
        static unsigned n;
        struct cmd *c = &aer[n++ % COUNT(aer)];

        memset(&c->r, 0, sizeof(c->r));
        c->r.sqe = (union sqe) { .opc = NVME_AER, .cid = le16((uint16_t)(100 + n)) };
        assert_int_equal(run(&admin, c), LATER);
}

static void told_so_often(unsigned times)
{
        assert_int_equal(admin.later_n, times);
        if (times > 0)
                assert_int_equal(le32_get(admin.later[times - 1]->cqe.dw0),
                                 AEN_NOTICE | AEN_INFO_ANA << 8 | LOG_ANA << 16);
}

static void log_has_groups_in_order(void **state)
{
        const struct log_ana *log = read_log(true, false);
        const uint8_t *nsids = cmd->data + 16 + 32;

        (void)state;
        assert_int_equal(le64_get(log->chgcnt), 0);
        assert_int_equal(le16_get(log->ngrps), 2);
        assert_int_equal(le32_get(group(log, 16)->grpid), 1);
        assert_int_equal(le32_get(group(log, 16)->nnsids), 2);
        assert_int_equal(le64_get(group(log, 16)->chgcnt), 1);
        assert_int_equal(group(log, 16)->state, ANA_OPTIMIZED);
        assert_int_equal(le_get(nsids, 4), 1);
        assert_int_equal(le_get(nsids + 4, 4), 5);
        assert_int_equal(le32_get(group(log, 56)->grpid), 2);
        assert_int_equal(le_get(cmd->data + 88, 4), 3);
        log = read_log(true, true);
        assert_int_equal(le16_get(log->ngrps), 2);
        assert_int_equal(le32_get(group(log, 16)->nnsids), 0);
        assert_int_equal(le32_get(group(log, 48)->grpid), 2);
}

static void log_is_read_by_index(void **state)
{
        static const uint32_t grpids[] = { 1, 2 };

        (void)state;
        for (uint32_t index = 0; index <= 3; index++) {
                memset(&cmd->r, 0, sizeof(cmd->r));
                cmd->r.sqe = (union sqe) { .opc = NVME_GET_LOG_PAGE,
                                           .cdw10 = le32(LOG_ANA | 7u << 16),
                                           .cdw12 = le32(index),
                                           .cdw14 = le32(1u << 23) };
                assert_int_equal(run(&admin, cmd), index < 3 ? 0 : NVME_INVALID_FIELD);
                if (index == 0)
                        assert_int_equal(le_get(cmd->data + 8, 2), 2);
                else if (index < 3)
                        assert_int_equal(le_get(cmd->data, 4), grpids[index - 1]);
        }
}

static void states_have_their_statuses(void **state)
{
        static const struct {
                uint8_t state;
                uint16_t status;
        } rows[] = { { ANA_OPTIMIZED, 0 },
                     { ANA_NONOPTIMIZED, 0 },
                     { ANA_CHANGE, NVME_ANA_TRANSITION },
                     { ANA_INACCESSIBLE, NVME_ANA_INACCESSIBLE },
                     { ANA_PERSISTENT_LOSS, NVME_ANA_LOSS } };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                set_state(2, rows[i].state);
                assert_int_equal(io_status(3), rows[i].status);
                assert_int_equal(io_status(1), 0);
                assert_int_equal(simple(&admin, cmd, NVME_GET_FEATURES, 3, FEAT_ERROR_RECOVERY, 0),
                                 rows[i].status);
                assert_int_equal(simple(&admin, cmd, NVME_SET_FEATURES, 3, FEAT_ERROR_RECOVERY, 7),
                                 rows[i].status);
                assert_int_equal(
                    simple(&admin, cmd, NVME_SET_FEATURES, NSID_ALL, FEAT_ERROR_RECOVERY, 7),
                    rows[i].status);
                assert_int_equal(simple(&admin, cmd, NVME_GET_FEATURES, 1, FEAT_ERROR_RECOVERY, 0),
                                 0);
        }
        /* Set Features of a lost namespace fails whichever it is. */
        assert_int_equal(simple(&admin, cmd, NVME_SET_FEATURES, 3, FEAT_ARBITRATION, 0),
                         NVME_ANA_LOSS);
        assert_int_equal(simple(&admin, cmd, NVME_SET_FEATURES, 0, FEAT_ARBITRATION, 0), 0);
}

/* As a change of the configuration does it: group 2 gets a state after `ms` in the change state. */
static void pass(uint8_t state, uint16_t ms, uint64_t now)
{
        struct ana_states *here = &bed.port->subsystems->ana, to = *here;

        to.of[2] = state;
        to.ms[2] = ms;
        ana_states_pass(&to, here, now);
        *here = to;
        atomic_store(&bed.inv.ana_due, ana_states_settle(&bed.inv, now));
        ctrl_table_ana_changed(bed.env.table);
}

static void a_transition_takes_its_time(void **state)
{
        (void)state;
        pass(ANA_INACCESSIBLE, 500, 1000);
        assert_int_equal(io_status(3), NVME_ANA_TRANSITION);
        ctrl_table_ana_tick(bed.env.table, 1499);
        assert_int_equal(io_status(3), NVME_ANA_TRANSITION);
        pass(ANA_INACCESSIBLE, 500, 1499); /* nothing new: it goes on */
        ctrl_table_ana_tick(bed.env.table, 1500);
        assert_int_equal(io_status(3), NVME_ANA_INACCESSIBLE);
        assert_int_equal(atomic_load(&bed.inv.ana_due), 0);
        pass(ANA_INACCESSIBLE, 500, 2000);
        assert_int_equal(io_status(3), NVME_ANA_INACCESSIBLE);
        pass(ANA_OPTIMIZED, 500, 2000);
        pass(ANA_NONOPTIMIZED, 0, 2100); /* another one, at once */
        assert_int_equal(io_status(3), 0);
        ctrl_table_ana_tick(bed.env.table, 9000);
        assert_int_equal(io_status(3), 0);
}

static void the_end_of_a_transition_is_told(void **state)
{
        const struct log_ana *log;
        uint64_t count;

        (void)state;
        pass(ANA_NONOPTIMIZED, 10, 1000);
        log = read_log(false, true);
        count = le64_get(log->chgcnt);
        ctrl_table_ana_tick(bed.env.table, 1010);
        log = read_log(false, true);
        assert_int_equal(le64_get(log->chgcnt), count + 1);
}

static void capacity_is_hidden(void **state)
{
        const struct id_ns *ns = (const struct id_ns *)cmd->data;

        (void)state;
        set_state(2, ANA_INACCESSIBLE);
        assert_int_equal(simple(&admin, cmd, NVME_IDENTIFY, 3, CNS_NS, 0), 0);
        assert_int_equal(le32_get(ns->anagrpid), 2);
        assert_int_equal(le64_get(ns->nuse), 0);
        assert_int_equal(le_get(ns->nvmcap, 8), 0);
        assert_true(le64_get(ns->nsze) > 0);
        assert_int_equal(simple(&admin, cmd, NVME_IDENTIFY, 1, CNS_NS, 0), 0);
        assert_true(le64_get(ns->nuse) > 0);
}

static void changes_are_counted_and_told(void **state)
{
        const struct log_ana *log;

        (void)state;
        set_state(2, ANA_NONOPTIMIZED); /* the notice is not asked for */
        assert_int_equal(simple(&admin, cmd, NVME_SET_FEATURES, 0, FEAT_AEC, AEC_ANA | AEC_NS), 0);
        listen();
        told_so_often(0);
        set_state(2, ANA_INACCESSIBLE);
        told_so_often(1);
        log = read_log(false, false);
        assert_int_equal(le64_get(log->chgcnt), 2);
        assert_int_equal(le64_get(group(log, 16)->chgcnt), 1);
        assert_int_equal(le64_get(group(log, 56)->chgcnt), 3);
        listen();
        set_state(9, ANA_INACCESSIBLE); /* nobody is in it */
        told_so_often(1);
        nvme_ns(ns_find(bed.one, 5))->anagrpid = 2;
        ctrl_table_ana_changed(bed.env.table);
        told_so_often(2);
        log = read_log(false, false);
        assert_int_equal(le64_get(log->chgcnt), 3);
        assert_int_equal(le32_get(group(log, 52)->nnsids), 2);
        assert_int_equal(set_cc(&admin, cmd, 0), 0);
        assert_int_equal(set_cc(&admin, cmd, CC_ON), 0);
        log = read_log(false, false);
        assert_int_equal(le64_get(log->chgcnt), 0);
        assert_int_equal(le64_get(group(log, 52)->chgcnt), 1);
}

static void who_comes_is_not_told_of(void **state)
{
        (void)state;
        assert_int_equal(simple(&admin, cmd, NVME_SET_FEATURES, 0, FEAT_AEC, AEC_ANA), 0);
        listen();
        bed.port->subsystems->ana.of[7] = ANA_INACCESSIBLE;
        bed_add_ns(bed.one, "mem:1M", 7);
        nvme_ns(ns_find(bed.one, 7))->anagrpid = 7;
        assert_int_equal(io_status(7),
                         0); /* not looked at yet: as it was when the controller came */
        ctrl_table_ana_changed(bed.env.table);
        assert_int_equal(io_status(7), NVME_ANA_INACCESSIBLE);
        told_so_often(0);
        assert_int_equal(le64_get(read_log(true, false)->chgcnt), 1);
}

static void loss_is_for_good(void **state)
{
        struct fake other;

        (void)state;
        set_state(2, ANA_PERSISTENT_LOSS);
        set_state(2, ANA_OPTIMIZED);
        assert_int_equal(io_status(3), NVME_ANA_LOSS);
        open_admin(&other, &bed); /* another relationship */
        assert_int_equal(ana_status(ctrl_ana(&other.q), ns_find(bed.one, 3)), 0);
        ctrl_queue_gone(&other.q);
}

static void nothing_where_it_is_off(void **state)
{
        const struct id_ctrl *id = (const struct id_ctrl *)cmd->data;
        struct fake other;

        (void)state;
        bed.one->ana = false;
        open_admin(&other, &bed);
        assert_null(ctrl_ana(&other.q));
        assert_int_equal(simple(&other, cmd, NVME_IDENTIFY, 0, CNS_CTRL, 0), 0);
        assert_int_equal(id->cmic & CMIC_ANA, 0);
        assert_int_equal(id->anacap, 0);
        assert_int_equal(get_log(&other, cmd, LOG_ANA, true, 64, 0), NVME_INVALID_LOG_PAGE);
        assert_int_equal(simple(&other, cmd, NVME_SET_FEATURES, 0, FEAT_AEC, AEC_ANA),
                         NVME_INVALID_FIELD);
        ctrl_queue_gone(&other.q);
        ctrl_table_revoke(bed.env.table, &bed.inv);
        assert_true(admin.closed); /* its subsystem is another one now */
}

/* What hosts make room for is no longer than one command may read, as long as all that is in use fits in it. */
static void fits_in_mdts(void **state)
{
        static const struct {
                uint32_t max_transfer, groups;
        } rows[] = { { 8192, 127 }, { 16384, 383 }, { 32768, 895 }, { 65536, 1024 } };
        const struct id_ctrl *id = (const struct id_ctrl *)(const void *)cmd->data;
        enum { MANY = 130 };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                bed.limits.max_transfer = rows[i].max_transfer;
                assert_int_equal(simple(&admin, cmd, NVME_IDENTIFY, 0, CNS_CTRL, 0), 0);
                assert_int_equal(le32_get(id->nanagrpid), rows[i].groups);
                assert_int_equal(le32_get(id->anagrpmax), ANA_GROUPS);
                assert_true(16 + rows[i].groups * 32 + le32_get(id->mnan) * 4 <=
                            rows[i].max_transfer);
        }
        for (uint32_t nsid = 6; nsid < 6 + MANY; nsid++) {
                bed_add_ns(bed.one, "null:1M", nsid);
                nvme_ns(ns_find(bed.one, nsid))->anagrpid = nsid;
        }
        bed.limits.max_transfer = 8192;
        assert_int_equal(simple(&admin, cmd, NVME_IDENTIFY, 0, CNS_CTRL, 0), 0);
        assert_int_equal(le32_get(id->nanagrpid), ANA_GROUPS);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
                TEST(log_has_groups_in_order),
                TEST(log_is_read_by_index),
                TEST(fits_in_mdts),
                TEST(states_have_their_statuses),
                TEST(a_transition_takes_its_time),
                TEST(the_end_of_a_transition_is_told),
                TEST(capacity_is_hidden),
                TEST(changes_are_counted_and_told),
                TEST(who_comes_is_not_told_of),
                TEST(loss_is_for_good),
                TEST(nothing_where_it_is_off),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
