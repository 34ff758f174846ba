/* SPDX-License-Identifier: BSD-3-Clause */
/* Associations: Connect, Controller Reset, time, and how they end. */
#include "ctrl_fixture.h"

#include <pthread.h>

static struct bed bed;
static struct cmd *cmd;

static int setup(void **state)
{
        (void)state;
        bed_init(&bed);
        cmd = calloc(1, sizeof(*cmd));
        return cmd ? 0 : -1;
}

static int teardown(void **state)
{
        (void)state;
        free(cmd);
        bed_fini(&bed);
        return 0;
}

static void gone(struct fake *f)
{
        assert_null(ctrl_queue_gone(&f->q));
        assert_null(f->q.ctrl);
}

static uint16_t cntlid(struct fake *f)
{
        assert_int_equal(simple(f, cmd, NVME_IDENTIFY, 0, CNS_CTRL, 0), 0);
        return le16_get(((struct id_ctrl *)cmd->data)->cntlid);
}

/* --- Connect ---------------------------------------------------------------------------------- */

static void connects(void **state)
{
        struct fake admin, io;
        uint16_t id;

        (void)state;
        fake_init(&admin, &bed);
        make_connect(cmd, NULL, 0);
        assert_int_equal(run(&admin, cmd), 0);
        assert_int_equal(admin.verdict, CTRL_CONNECTED);
        id = (uint16_t)le32_get(cmd->r.cqe.dw0);
        assert_true(id >= CNTLID_MIN && id <= CNTLID_MAX);
        assert_int_equal(le32_get(cmd->r.cqe.dw0) >> 16, 0);
        assert_int_equal(le16_get(cmd->r.cqe.sqhd), 1);
        assert_int_equal(admin.q.sq.size, 32);
        assert_int_equal(get_csts(&admin, cmd), 0);
        assert_int_equal(le16_get(cmd->r.cqe.sqhd), 2);
        assert_int_equal(set_cc(&admin, cmd, CC_ON), 0);
        assert_int_equal(cntlid(&admin), id);

        open_io(&io, &bed, &admin, 4);
        assert_int_equal(io.q.qid, 4);
        assert_ptr_equal(ctrl_subsystem(&io.q), bed.one);
        assert_int_equal(ctrl_io_admit(&io.q), 0);
        gone(&io);
        gone(&admin);
}

static void flow_control(void **state)
{
        static const struct {
                bool able, asked, unasked;
                uint16_t first, next;
                bool success_ok;
        } rows[] = {
                { true, true, false, 0xffff, 0, true },
                { true, false, false, 1, 2, false },
                { false, true, false, 1, 2, false },
                { true, false, true, 0xffff, 0, false }, /* FAB_SQFC_UNASKED broken */
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct fake f;

                fake_init(&f, &bed);
                bed.env.sqfc_disable = rows[i].able;
                memset(&bed.policy, 0, sizeof(bed.policy));
                if (rows[i].unasked)
                        rule_add(&bed.policy.violated, FAB_SQFC_UNASKED);
                make_connect(cmd, NULL, 0);
                cmd->r.sqe.connect.cattr = rows[i].asked ? CATTR_DISABLE_SQFC : 0;
                assert_int_equal(run(&f, cmd), 0);
                assert_int_equal(le16_get(cmd->r.cqe.sqhd), rows[i].first);
                get_csts(&f, cmd);
                assert_int_equal(le16_get(cmd->r.cqe.sqhd), rows[i].next);
                assert_int_equal(f.q.success_ok, rows[i].success_ok);
                gone(&f);
        }
}

static void change_nothing(struct cmd *c)
{
        (void)c;
}
static void unknown_subnqn(struct cmd *c)
{
        strcpy(connect_data_of(c)->subnqn, "nqn.2026-01.io.nvmfspec:none");
}
static void subsystem_of_other_port(struct cmd *c)
{
        strcpy(connect_data_of(c)->subnqn, SUB2);
}
static void other_host(struct cmd *c)
{
        strcpy(connect_data_of(c)->hostnqn, HOST2);
}
static void other_hostid(struct cmd *c)
{
        connect_data_of(c)->hostid[3] = 9;
}
static void cntlid_dynamic(struct cmd *c)
{
        connect_data_of(c)->cntlid = le16(CNTLID_DYNAMIC);
}
static void cntlid_unknown(struct cmd *c)
{
        connect_data_of(c)->cntlid = le16(0x4000);
}
static void qid_5(struct cmd *c)
{
        c->r.sqe.connect.qid = le16(5);
}
static void sqsize_64(struct cmd *c)
{
        c->r.sqe.connect.sqsize = le16(64);
}
static void sqsize_zero(struct cmd *c)
{
        c->r.sqe.connect.sqsize = le16(0);
}
static void names_without_end(struct cmd *c)
{
        memset(connect_data_of(c)->subnqn, 'x', 2 * NQN_FIELD);
}
static void recfmt_1(struct cmd *c)
{
        c->r.sqe.connect.recfmt = le16(1);
}

static void connect_refusals(void **state)
{
        enum { ADMIN = 0, IO = 1, DATA = CONNECT_IATTR_DATA };
        static const struct {
                void (*change)(struct cmd *c);
                uint16_t qid;
                uint16_t status;
                uint32_t ipo;
                enum rule_id rule;
        } rows[] = {
                { change_nothing, ADMIN, 0, 0, RULE_NONE },
                { change_nothing, IO, 0, 0, RULE_NONE },
                { recfmt_1, ADMIN, 0x180, 0, FAB_CONNECT_RECFMT },
                { sqsize_zero, ADMIN, 0x182, 44, FAB_CONNECT_SQSIZE_ZERO },
                { sqsize_64, ADMIN, 0x182, 44, FAB_CONNECT_SQSIZE_MAX },
                { sqsize_64, IO, 0x182, 44, FAB_CONNECT_SQSIZE_MAX },
                { unknown_subnqn, ADMIN, 0x182, DATA | 256, FAB_CONNECT_SUBNQN },
                { subsystem_of_other_port, ADMIN, 0x182, DATA | 256, FAB_CONNECT_SUBNQN },
                { names_without_end, ADMIN, 0x182, DATA | 256, RULE_NONE },
                { cntlid_unknown, ADMIN, 0x182, DATA | 16, FAB_CONNECT_CNTLID_DYN },
                { cntlid_unknown, IO, 0x182, DATA | 16, FAB_CONNECT_CNTLID_IO },
                { cntlid_dynamic, IO, 0x182, DATA | 16, FAB_CONNECT_CNTLID_IO },
                { unknown_subnqn, IO, 0x182, DATA | 256, FAB_CONNECT_IO_SUBNQN },
                { other_host, IO, 0x182, DATA | 512, FAB_CONNECT_IO_HOSTNQN },
                { other_hostid, IO, 0x182, DATA | 0, FAB_CONNECT_IO_HOSTID },
                { qid_5, IO, 0x182, 42, FAB_CONNECT_QID_GRANTED },
        };
        struct fake admin, f;

        (void)state;
        open_admin(&admin, &bed);
        for (size_t i = 0; i < COUNT(rows); i++) {
                for (int waived = 0; waived < 2; waived++) {
                        uint16_t want = waived && rows[i].rule ? 0 : rows[i].status, status;
                        uint32_t dw0 = waived && rows[i].rule ? 0 : rows[i].ipo;

                        memset(&bed.policy, 0, sizeof(bed.policy));
                        if (waived)
                                rule_add(&bed.policy.waived, rows[i].rule);
                        fake_init(&f, &bed);
                        make_connect(cmd, rows[i].qid ? &admin : NULL, rows[i].qid);
                        rows[i].change(cmd);
                        status = run(&f, cmd);
                        if (status != want || (status && le32_get(cmd->r.cqe.dw0) != dw0))
                                fail_msg("row %zu: status %xh IPO %xh", i, status,
                                         le32_get(cmd->r.cqe.dw0));
                        assert_int_equal(f.q.connected, !status);
                        if (!status && f.q.qid > 0) /* as a Linux host would: no end of the rest */
                                f.q.detached = true;
                        gone(&f);
                }
        }
        assert_false(admin.closed);
        gone(&admin);
}

static void host_not_allowed(void **state)
{
        struct fake f;

        (void)state;
        fake_init(&f, &bed);
        f.port = bed.other;
        make_connect(cmd, NULL, 0);
        subsystem_of_other_port(cmd);
        assert_int_equal(run(&f, cmd), NVME_CONNECT_HOST);
        assert_int_equal(le32_get(cmd->r.cqe.dw0), 0);
        other_host(cmd);
        assert_int_equal(run(&f, cmd), 0);
        gone(&f);
        fake_init(&f, &bed);
        f.port = bed.other;
        rule_add(&bed.policy.waived, FAB_CONNECT_HOST);
        make_connect(cmd, NULL, 0);
        subsystem_of_other_port(cmd);
        assert_int_equal(run(&f, cmd), 0);
        gone(&f);
}

static void qid_in_use(void **state)
{
        struct fake admin, io, again;

        (void)state;
        open_admin(&admin, &bed);
        open_io(&io, &bed, &admin, 1);
        fake_init(&again, &bed);
        make_connect(cmd, &admin, 1);
        assert_int_equal(run(&again, cmd), NVME_INVALID_QID);
        rule_add(&bed.policy.waived, FAB_CONNECT_QID_USED);
        assert_int_equal(run(&again, cmd), 0);
        gone(&again);
        gone(&io);
        gone(&admin);
}

static void connect_once(void **state)
{
        struct fake admin;
        uint16_t id;

        (void)state;
        open_admin(&admin, &bed);
        id = cntlid(&admin);
        make_connect(cmd, NULL, 0);
        assert_int_equal(run(&admin, cmd), NVME_SEQUENCE_ERROR);
        rule_add(&bed.policy.waived, FAB_CONNECT_ONCE);
        assert_int_equal(run(&admin, cmd), 0);
        assert_int_equal(cntlid(&admin), id);
        gone(&admin);
}

static void io_needs_an_enabled_controller(void **state)
{
        struct fake admin, io;

        (void)state;
        open_admin(&admin, &bed);
        make_connect(cmd, &admin, 1);
        struct cmd io_connect = *cmd;
        assert_int_equal(set_cc(&admin, cmd, CC_ON | CC_SHN_NORMAL), 0);
        fake_init(&io, &bed);
        assert_int_equal(run(&io, &io_connect), NVME_CONNECT_PARAM);
        assert_int_equal(set_cc(&admin, cmd, 0), 0);
        assert_int_equal(run(&io, &io_connect), NVME_CONNECT_PARAM);
        assert_int_equal(set_cc(&admin, cmd, CC_ON), 0);
        assert_int_equal(run(&io, &io_connect), 0);
        gone(&io);
        gone(&admin);
}

static void io_on_another_port(void **state)
{
        struct fake admin, io;

        (void)state;
        open_admin(&admin, &bed);
        fake_init(&io, &bed);
        io.port = bed.other;
        make_connect(cmd, &admin, 1);
        assert_int_equal(run(&io, cmd), NVME_CONNECT_PARAM);
        gone(&admin);
}

static void discovery_has_no_io_queues(void **state)
{
        struct fake admin, io;

        (void)state;
        open_admin_to(&admin, &bed, NQN_DISCOVERY, 0);
        fake_init(&io, &bed);
        make_connect(cmd, &admin, 1);
        assert_int_equal(run(&io, cmd), NVME_CONNECT_PARAM);
        rule_add(&bed.policy.waived, FAB_DISC_IO);
        rule_add(&bed.policy.waived, FAB_CONNECT_QID_GRANTED);
        make_connect(cmd, &admin, 1);
        assert_int_equal(run(&io, cmd), 0);
        assert_null(ctrl_subsystem(&io.q));
        assert_int_equal(ctrl_io_admit(&io.q), NVME_INVALID_OPCODE);
        gone(&io);
        gone(&admin);
}

static void short_connect_data(void **state)
{
        struct fake f;

        (void)state;
        fake_init(&f, &bed);
        make_connect(cmd, NULL, 0);
        cmd->r.sqe.sgl.len = le32(800);
        assert_int_equal(run(&f, cmd), NVME_SGL_LENGTH);
        rule_add(&bed.policy.waived, FAB_CONNECT_DATA);
        assert_int_equal(run(&f, cmd), 0);
        gone(&f);
}

static void first_command(void **state)
{
        struct fake f;

        (void)state;
        fake_init(&f, &bed);
        assert_int_equal(simple(&f, cmd, NVME_IDENTIFY, 0, CNS_CTRL, 0), NVME_SEQUENCE_ERROR);
        rule_add(&bed.policy.waived, FAB_FIRST_CONNECT);
        assert_int_equal(simple(&f, cmd, NVME_IDENTIFY, 0, CNS_CTRL, 0), 0);
        assert_int_equal(cmd->r.c2h_len, IDENTIFY_LEN);
        gone(&f);
}

static void controllers_are_bounded(void **state)
{
        struct fake f[9];

        (void)state;
        for (unsigned i = 0; i < 8; i++)
                open_admin(&f[i], &bed);
        fake_init(&f[8], &bed);
        make_connect(cmd, NULL, 0);
        assert_int_equal(run(&f[8], cmd), NVME_CONNECT_BUSY);
        gone(&f[3]);
        assert_int_equal(run(&f[8], cmd), 0);
        for (unsigned i = 0; i < 9; i++)
                if (i != 3)
                        gone(&f[i]);
}

/* One address, one host, one subsystem leave some for others. */
static void controllers_are_shared(void **state)
{
        static const struct {
                const char *peer, *hostnqn, *subnqn;
                uint16_t status;
        } rows[] = {
                { "192.0.2.1", HOST1, SUB1, 0 },
                { "192.0.2.1", HOST1, SUB1, 0 },
                { "192.0.2.1", HOST2, SUB1, 0 },
                { "192.0.2.1", HOST2, SUB1, NVME_CONNECT_BUSY }, /* the address has three */
                { "192.0.2.2", HOST1, SUB1, 0 },
                { "192.0.2.3", HOST1, SUB1, 0 }, /* three have the name, but a name is no proof */
                { "192.0.2.3", HOST2, SUB1, NVME_CONNECT_BUSY },     /* the subsystem has five */
                { "192.0.2.4", HOST2 "a", SUB1, NVME_CONNECT_BUSY }, /* the subsystem has five */
                { "192.0.2.4", HOST2 "a", NQN_DISCOVERY, 0 },
        };
        struct fake f[COUNT(rows)];

        (void)state;
        bed.limits.host_controllers = 3;
        bed.limits.subsystem_controllers = 5;
        for (unsigned i = 0; i < COUNT(rows); i++) {
                fake_init(&f[i], &bed);
                f[i].q.peer = rows[i].peer;
                make_connect(cmd, NULL, 0);
                strcpy(connect_data_of(cmd)->hostnqn, rows[i].hostnqn);
                strcpy(connect_data_of(cmd)->subnqn, rows[i].subnqn);
                assert_int_equal(run(&f[i], cmd), rows[i].status);
        }
        for (unsigned i = 0; i < COUNT(rows); i++)
                gone(&f[i]);
}

static void cntlids(void **state)
{
        struct fake f[3], late;
        uint16_t id[3];

        (void)state;
        bed.one->cntlid_min = 10;
        bed.one->cntlid_max = 12;
        for (unsigned i = 0; i < 3; i++) {
                open_admin(&f[i], &bed);
                id[i] = cntlid(&f[i]);
                assert_true(id[i] >= 10 && id[i] <= 12);
                for (unsigned n = 0; n < i; n++)
                        assert_int_not_equal(id[n], id[i]);
        }
        fake_init(&late, &bed);
        make_connect(cmd, NULL, 0);
        assert_int_equal(run(&late, cmd), NVME_CONNECT_BUSY);
        gone(&f[1]);
        assert_int_equal(run(&late, cmd), 0);
        gone(&late);
        open_admin(&f[1], &bed); /* what was given last comes last */
        gone(&f[0]);
        gone(&f[1]);
        gone(&f[2]);
        bed.one->cntlid_max = CNTLID_MAX;
        open_admin(&f[0], &bed);
        id[0] = cntlid(&f[0]);
        gone(&f[0]);
        open_admin(&f[0], &bed);
        assert_int_not_equal(cntlid(&f[0]), id[0]); /* not the one that was just freed */
        gone(&f[0]);
}

static uint64_t error_count(struct fake *f)
{
        assert_int_equal(get_log(f, cmd, LOG_ERROR, true, 64, 0), 0);
        return le64_get(((struct log_error *)cmd->data)->count);
}

static void failed_connect_leaves_no_trace(void **state)
{
        struct fake admin, io;

        (void)state;
        open_admin(&admin, &bed);
        fake_init(&io, &bed);
        make_connect(cmd, &admin, 9);
        assert_int_equal(run(&io, cmd), NVME_CONNECT_PARAM);
        make_connect(cmd, NULL, 0);
        assert_int_equal(run(&admin, cmd), NVME_SEQUENCE_ERROR);
        assert_int_equal(error_count(&admin), 0);
        rule_add(&bed.policy.violated, FAB_CONNECT_NO_LOG);
        make_connect(cmd, &admin, 9);
        assert_int_equal(run(&io, cmd), NVME_CONNECT_PARAM);
        assert_int_equal(error_count(&admin), 1);
        gone(&admin);
}

/* --- reset, shutdown, Disconnect -------------------------------------------------------------- */

static void reset_ends_queues_and_aers(void **state)
{
        struct fake admin, io;
        struct cmd *aer = calloc(1, sizeof(*aer));

        (void)state;
        open_admin(&admin, &bed);
        open_io(&io, &bed, &admin, 1);
        assert_int_equal(simple(&admin, aer, NVME_AER, 0, 0, 0), LATER);
        assert_int_equal(set_cc(&admin, cmd, 0), LATER); /* after the AER has gone */
        assert_int_equal(later(&admin, 0, aer), 0x7ff);  /* untouched: there is no CQE */
        assert_true(aer->r.no_response);
        assert_int_equal(later(&admin, 1, cmd), 0);
        assert_false(cmd->r.no_response);
        assert_true(io.closed);
        assert_int_equal(ctrl_io_admit(&io.q), NVME_SEQUENCE_ERROR);
        assert_false(admin.closed);
        assert_int_equal(set_cc(&admin, cmd, CC_ON), 0);
        assert_int_equal(ctrl_io_admit(&io.q), NVME_SEQUENCE_ERROR); /* a queue stays dead */
        gone(&io);
        bed.now += 10000;
        ctrl_table_tick(bed.env.table, bed.now);
        bed.now += 10000;
        ctrl_table_tick(bed.env.table, bed.now);
        assert_false(admin.closed);
        open_io(&io, &bed, &admin, 1);
        assert_int_equal(ctrl_io_admit(&io.q), 0);
        gone(&io);
        gone(&admin);
        free(aer);
}

static void queues_survive_reset_on_request(void **state)
{
        struct fake admin, io;

        (void)state;
        rule_add(&bed.policy.violated, FAB_RESET_CLEARS);
        open_admin(&admin, &bed);
        open_io(&io, &bed, &admin, 1);
        assert_int_equal(set_cc(&admin, cmd, 0), 0);
        assert_false(io.closed);
        assert_int_equal(ctrl_io_admit(&io.q), 0);
        gone(&io);
        gone(&admin);
}

static void shutdown_stops_io(void **state)
{
        struct fake admin, io;

        (void)state;
        open_admin(&admin, &bed);
        open_io(&io, &bed, &admin, 1);
        assert_int_equal(set_cc(&admin, cmd, CC_ON | CC_SHN_NORMAL), 0);
        assert_int_equal(CSTS_SHST(get_csts(&admin, cmd)), 2);
        assert_int_equal(ctrl_io_admit(&io.q), NVME_SEQUENCE_ERROR);
        assert_int_equal(simple(&admin, cmd, NVME_IDENTIFY, 0, CNS_CTRL, 0), NVME_SEQUENCE_ERROR);
        assert_false(io.closed);
        gone(&io);
        bed.now += 60000;
        ctrl_table_tick(bed.env.table, bed.now);
        ctrl_table_tick(bed.env.table, bed.now + 59999);
        assert_false(admin.closed);
        ctrl_table_tick(bed.env.table, bed.now + 60000); /* two minutes, and nobody came back */
        assert_true(admin.closed);
        gone(&admin);
}

static uint16_t disconnect(struct fake *f, uint16_t recfmt)
{
        memset(&cmd->r, 0, sizeof(cmd->r));
        cmd->r.sqe.disconnect = (struct disconnect_cmd) { .opc = NVME_FABRICS,
                                                          .fctype = FCTYPE_DISCONNECT,
                                                          .recfmt = le16(recfmt) };
        return run(f, cmd);
}

static void disconnects(void **state)
{
        struct fake admin, io, again;

        (void)state;
        open_admin(&admin, &bed);
        open_io(&io, &bed, &admin, 1);
        assert_int_equal(disconnect(&admin, 0), NVME_INVALID_QUEUE_TYPE);
        assert_int_equal(disconnect(&io, 1), NVME_CONNECT_FORMAT);
        assert_int_equal(disconnect(&io, 0), 0);
        assert_int_equal(io.verdict, CTRL_DISCONNECT);
        assert_true(io.q.disconnecting);
        assert_int_equal(ctrl_io_admit(&io.q), NVME_SEQUENCE_ERROR);
        assert_int_equal(disconnect(&io, 0), NVME_SEQUENCE_ERROR);
        open_io(&again, &bed, &admin, 1); /* the same QID */
        gone(&io);
        for (unsigned i = 0; i < 10; i++)
                ctrl_table_tick(bed.env.table, bed.now += 1000);
        assert_false(admin.closed);
        gone(&again);
        rule_add(&bed.policy.waived, FAB_DISCONNECT_ADMIN);
        assert_int_equal(disconnect(&admin, 0), 0);
        assert_int_equal(admin.verdict, CTRL_COMPLETE);
        gone(&admin);
}

/* --- how associations end --------------------------------------------------------------------- */

static void admin_queue_takes_all_with_it(void **state)
{
        struct fake admin, io[2], next;
        struct cmd *aer[2] = { calloc(1, sizeof(struct cmd)), calloc(1, sizeof(struct cmd)) };
        struct request *parked;

        (void)state;
        open_admin(&admin, &bed);
        open_io(&io[0], &bed, &admin, 1);
        open_io(&io[1], &bed, &admin, 2);
        simple(&admin, aer[0], NVME_AER, 0, 0, 0);
        simple(&admin, aer[1], NVME_AER, 0, 0, 0);
        parked = ctrl_queue_gone(&admin.q);
        assert_non_null(parked);
        assert_non_null(parked->next);
        assert_null(parked->next->next);
        assert_true(io[0].closed && io[1].closed);
        assert_int_equal(ctrl_io_admit(&io[0].q), NVME_ABORT_SQ_DELETED);
        assert_int_equal(admin.later_n, 0);
        make_connect(cmd, NULL, 1);
        connect_data_of(cmd)->cntlid = le16(1);
        fake_init(&next, &bed);
        assert_int_equal(run(&next, cmd), NVME_CONNECT_PARAM); /* it is not there any more */
        gone(&io[0]);
        gone(&io[1]);
        free(aer[0]);
        free(aer[1]);
}

/* Hosts close I/O queues that they do not need, and open them again. */
static void lost_io_queue_comes_back(void **state)
{
        struct fake admin, io;

        (void)state;
        open_admin(&admin, &bed);
        for (int i = 0; i < 3; i++) {
                open_io(&io, &bed, &admin, 1);
                gone(&io);
                ctrl_table_tick(bed.env.table, bed.now);
                ctrl_table_tick(bed.env.table, bed.now + 5000);
                assert_false(admin.closed);
        }
        gone(&admin);
}

static void lost_io_queue_ends_it_after_a_while(void **state)
{
        struct fake admin, io;

        (void)state;
        bed.env.strict = true;
        open_admin(&admin, &bed);
        open_io(&io, &bed, &admin, 1);
        gone(&io);
        ctrl_table_tick(bed.env.table, bed.now);
        ctrl_table_tick(bed.env.table, bed.now + 1999);
        assert_false(admin.closed);
        ctrl_table_tick(bed.env.table, bed.now + 2000);
        assert_true(admin.closed);
        assert_int_equal(simple(&admin, cmd, NVME_IDENTIFY, 0, CNS_CTRL, 0), NVME_SEQUENCE_ERROR);
        gone(&admin);
}

static void lost_io_queue_is_borne_by_who_deletes_single_ones(void **state)
{
        struct fake admin, io;

        (void)state;
        bed.env.strict = true;
        fake_init(&admin, &bed);
        make_connect(cmd, NULL, 0);
        cmd->r.sqe.connect.cattr = CATTR_INDIVIDUAL_DELETE;
        assert_int_equal(run(&admin, cmd), 0);
        assert_int_equal(set_cc(&admin, cmd, CC_ON), 0);
        open_io(&io, &bed, &admin, 1);
        gone(&io);
        ctrl_table_tick(bed.env.table, bed.now);
        ctrl_table_tick(bed.env.table, bed.now + 5000);
        assert_false(admin.closed);
        open_io(&io, &bed, &admin, 1); /* it comes back */
        gone(&io);
        gone(&admin);
}

static void who_leaves_in_order_is_let_go(void **state)
{
        static const uint32_t ways[] = { CC_ON | CC_SHN_NORMAL, 0 };

        (void)state;
        for (size_t i = 0; i < COUNT(ways); i++) {
                struct fake admin, io;

                open_admin(&admin, &bed);
                open_io(&io, &bed, &admin, 1);
                gone(&io); /* the Linux host: I/O queues first, then the shutdown */
                ctrl_table_tick(bed.env.table, bed.now);
                assert_int_equal(set_cc(&admin, cmd, ways[i]), 0);
                ctrl_table_tick(bed.env.table, bed.now += 5000);
                ctrl_table_tick(bed.env.table, bed.now += 5000);
                assert_false(admin.closed);
                gone(&admin);
        }
}

static void keep_alive_expires(void **state)
{
        struct fake admin, io, next;

        (void)state;
        open_admin_to(&admin, &bed, SUB1, 1000);
        open_io(&io, &bed, &admin, 1);
        ctrl_table_tick(bed.env.table, bed.now += 999); /* the commands above */
        ctrl_table_tick(bed.env.table, bed.now += 1);
        assert_false(admin.closed);
        ctrl_io_admit(&io.q);
        ctrl_table_tick(bed.env.table, bed.now += 1000); /* there was traffic */
        assert_false(admin.closed);
        ctrl_table_tick(bed.env.table, bed.now += 1000);
        assert_true(admin.closed && io.closed);
        assert_int_equal(ctrl_io_admit(&io.q), NVME_ABORT_SQ_DELETED);
        open_admin(&next, &bed); /* anyone may come */
        gone(&next);
        gone(&admin);
        gone(&io);
}

static bool behind;

static bool is_behind(struct ctrl_queue *q)
{
        (void)q;
        return behind;
}

/* Its connection's reactor stands still: a Keep Alive may wait there. */
static void keep_alive_that_nobody_has_read(void **state)
{
        struct fake admin;

        (void)state;
        open_admin_to(&admin, &bed, SUB1, 1000);
        ctrl_table_tick(bed.env.table, bed.now += 1); /* what opened it was traffic */
        admin.q.behind = is_behind;
        behind = true;
        ctrl_table_tick(bed.env.table, bed.now += 5000);
        assert_false(admin.closed);
        assert_int_equal(simple(&admin, cmd, NVME_KEEP_ALIVE, 0, 0, 0), 0);
        behind = false;
        ctrl_table_tick(bed.env.table, bed.now += 900);
        assert_false(admin.closed);
        ctrl_table_tick(bed.env.table, bed.now += 5000);
        assert_true(admin.closed);
        gone(&admin);
}

static void keep_alive_command(void **state)
{
        struct fake admin;

        (void)state;
        open_admin_to(&admin, &bed, SUB1, 1000);
        for (unsigned i = 0; i < 10; i++) {
                assert_int_equal(simple(&admin, cmd, NVME_KEEP_ALIVE, 0, 0, 0), 0);
                assert_int_equal(le64_get(cmd->r.cqe.result), 0);
                ctrl_table_tick(bed.env.table, bed.now += 900);
        }
        assert_false(admin.closed);
        gone(&admin);
}

static void idle_discovery_expires(void **state)
{
        struct fake admin;

        (void)state;
        open_admin_to(&admin, &bed, NQN_DISCOVERY, 0);
        ctrl_table_tick(bed.env.table, bed.now + bed.limits.idle_timeout - 1);
        assert_false(admin.closed);
        ctrl_table_tick(bed.env.table, bed.now + bed.limits.idle_timeout);
        assert_true(admin.closed);
        gone(&admin);
}

static void revocation(void **state)
{
        struct fake one, two, disc, keyed;

        (void)state;
        open_admin(&one, &bed);
        open_admin_to(&disc, &bed, NQN_DISCOVERY, 0);
        fake_init(&two, &bed);
        two.port = bed.other;
        make_connect(cmd, NULL, 0);
        subsystem_of_other_port(cmd);
        other_host(cmd);
        assert_int_equal(run(&two, cmd), 0);
        ctrl_table_revoke(bed.env.table, &bed.inv);
        assert_false(one.closed || two.closed || disc.closed);
        open_admin(&keyed, &bed);
        bed.one->keys.host.len = 32; /* who has proven nothing has to from here on */
        ctrl_table_revoke(bed.env.table, &bed.inv);
        assert_true(keyed.closed && one.closed && !two.closed && !disc.closed);
        gone(&keyed);
        gone(&one);
        bed.one->keys.host.len = 0;
        open_admin(&one, &bed);

        pthread_rwlock_wrlock(&bed.inv.lock);
        hosts_clear(&bed.two->hosts);
        inventory_remove_subsystem(&bed.inv, bed.one);
        subsystem_put(bed.one);
        pthread_rwlock_unlock(&bed.inv.lock);
        ctrl_table_revoke(bed.env.table, &bed.inv);
        assert_true(one.closed && two.closed && !disc.closed);
        gone(&one);
        gone(&two);

        pthread_rwlock_wrlock(&bed.inv.lock);
        inventory_remove_port(&bed.inv, bed.port);
        pthread_rwlock_unlock(&bed.inv.lock);
        ctrl_table_revoke(bed.env.table, &bed.inv);
        assert_true(disc.closed);
        gone(&disc);
        port_put(bed.port);
}

/* Hosts learn of another number of queues as they connect, so they do that again, as nvmet has them. */
static void queues_that_may_be_had(void **state)
{
        static const struct {
                uint16_t qid_max;
                bool ends;
        } rows[] = { { 4, false }, { 128, false }, { 2, true },
                     { 2, false }, { 3, true },    { 0, true } };
        struct fake one, disc;

        (void)state;
        open_admin(&one, &bed);
        open_admin_to(&disc, &bed, NQN_DISCOVERY, 0);
        for (size_t i = 0; i < COUNT(rows); i++) {
                bed.one->qid_max = rows[i].qid_max;
                ctrl_table_revoke(bed.env.table, &bed.inv);
                assert_int_equal(one.closed, rows[i].ends);
                assert_false(disc.closed);
                if (!one.closed)
                        continue;
                gone(&one);
                open_admin(&one, &bed);
        }
        gone(&one);
        gone(&disc);
}

static void write_cache_off(void **state)
{
        struct fake admin, io;

        (void)state;
        open_admin(&admin, &bed);
        open_io(&io, &bed, &admin, 1);
        assert_false(ctrl_write_through(&io.q));
        assert_int_equal(simple(&admin, cmd, NVME_SET_FEATURES, 0, FEAT_WRITE_CACHE, 0), 0);
        assert_true(ctrl_write_through(&io.q));
        assert_int_equal(set_cc(&admin, cmd, 0), 0); /* back to the default */
        assert_false(ctrl_write_through(&io.q));
        gone(&io);
        gone(&admin);
}

/* --- threads ---------------------------------------------------------------------------------- */

enum { ROUNDS = 300 };

struct io_thread {
        struct fake f;
        struct cmd connect;
        uint16_t status;
};

/* One I/O connection's life on its own reactor. */
static void *live(void *arg)
{
        struct io_thread *t = arg;

        t->status = run(&t->f, &t->connect);
        for (unsigned i = 0; i < 200 && !t->f.closed; i++) {
                ctrl_io_admit(&t->f.q);
                ctrl_account(&t->f.q, i & 1, 512);
                ctrl_write_through(&t->f.q);
        }
        ctrl_log_error(&t->f.q, &t->connect.r);
        assert_null(ctrl_queue_gone(&t->f.q));
        return NULL;
}

static _Atomic bool stop;

static void *disturb(void *arg)
{
        (void)arg;
        for (uint32_t i = 0; !stop; i++) {
                ctrl_table_tick(bed.env.table, 1000);
                ns_changed(&bed, bed.one, i % 7 + 1);
                ctrl_table_discovery_changed(bed.env.table);
                ctrl_table_revoke(bed.env.table, &bed.inv);
        }
        return NULL;
}

static void one_round(unsigned round, struct io_thread *t, unsigned n)
{
        pthread_t id[4];
        struct fake admin;
        struct cmd aer = { 0 };

        open_admin(&admin, &bed);
        simple(&admin, cmd, NVME_SET_FEATURES, 0, FEAT_AEC, AEC_NS);
        for (unsigned i = 0; i < n; i++) {
                fake_init(&t[i].f, &bed);
                make_connect(&t[i].connect, &admin, (uint16_t)(i + 1));
        }
        for (unsigned i = 0; i < n; i++)
                pthread_create(&id[i], NULL, live, &t[i]);
        simple(&admin, &aer, NVME_AER, 0, 0, 0);
        get_log(&admin, cmd, LOG_SMART, false, 512, 0);
        get_log(&admin, cmd, LOG_CHANGED_NS, false, 4096, 0);
        simple(&admin, cmd, NVME_IDENTIFY, 1, CNS_NS, 0);
        if (round % 3 == 0)
                set_cc(&admin, cmd, 0);
        if (round % 3 == 1) /* the idle timer of a controller that is shut down */
                set_cc(&admin, cmd, CC_ON | CC_SHN_NORMAL);
        if (round % 3 == 1)
                ctrl_table_tick(bed.env.table, 10 * bed.limits.idle_timeout);
        ctrl_queue_gone(&admin.q);
        for (unsigned i = 0; i < n; i++)
                pthread_join(id[i], NULL);
}

static void races(void **state)
{
        struct io_thread *t = calloc(4, sizeof(*t));
        pthread_t disturber;

        (void)state;
        stop = false;
        pthread_create(&disturber, NULL, disturb, NULL);
        for (unsigned i = 0; i < ROUNDS; i++)
                one_round(i, t, 4);
        stop = true;
        pthread_join(disturber, NULL);
        free(t);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
        static const struct CMUnitTest tests[] = {
                TEST(connects),
                TEST(flow_control),
                TEST(connect_refusals),
                TEST(host_not_allowed),
                TEST(qid_in_use),
                TEST(connect_once),
                TEST(io_needs_an_enabled_controller),
                TEST(io_on_another_port),
                TEST(discovery_has_no_io_queues),
                TEST(short_connect_data),
                TEST(first_command),
                TEST(controllers_are_bounded),
                TEST(controllers_are_shared),
                TEST(cntlids),
                TEST(failed_connect_leaves_no_trace),
                TEST(reset_ends_queues_and_aers),
                TEST(queues_survive_reset_on_request),
                TEST(shutdown_stops_io),
                TEST(disconnects),
                TEST(admin_queue_takes_all_with_it),
                TEST(lost_io_queue_comes_back),
                TEST(lost_io_queue_ends_it_after_a_while),
                TEST(lost_io_queue_is_borne_by_who_deletes_single_ones),
                TEST(who_leaves_in_order_is_let_go),
                TEST(keep_alive_expires),
                TEST(keep_alive_that_nobody_has_read),
                TEST(keep_alive_command),
                TEST(idle_discovery_expires),
                TEST(revocation),
                TEST(queues_that_may_be_had),
                TEST(write_cache_off),
                TEST(races),
        };

        return cmocka_run_group_tests_name("ctrl", tests, NULL, NULL);
}
