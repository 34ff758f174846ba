/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues whose host has to authenticate itself: what runs on them before, and how it is done. */
#include "ctrl_fixture.h"

#include <sched.h>

#include "pdu/nvme/io/auth_openssl.h"
#include "target/nvme/auth_work.h"

static struct bed bed;
static struct cmd *cmd;
static struct auth_config host_cfg;
static struct auth host;

static int setup(void **state)
{
        (void)state;
        bed_init(&bed);
        bed.one->keys.host = (struct auth_key) { .hash = AUTH_SHA256, .len = 32, .bytes = { 1 } };
        bed.one->keys.ctrl = (struct auth_key) { .len = 48, .bytes = { 2 } };
        host_cfg = (struct auth_config) { .role = PARTY_HOST,
                                          .crypto = auth_openssl(),
                                          .hostnqn = HOST1,
                                          .subnqn = SUB1,
                                          .keys = bed.one->keys,
                                          .t_id = 7 };
        cmd = calloc(1, sizeof(*cmd));
        return cmd ? 0 : -1;
}

/* With a thread that computes. */
static int setup_work(void **state)
{
        if (setup(state) < 0)
                return -1;
        bed.env.auth_work = auth_work_new(4);
        return bed.env.auth_work ? 0 : -1;
}

static int teardown(void **state)
{
        (void)state;
        auth_work_free(bed.env.auth_work);
        free(cmd);
        bed_fini(&bed);
        return 0;
}

static void open_timed(struct fake *f, uint32_t kato)
{
        fake_init(f, &bed);
        make_connect(cmd, NULL, 0);
        cmd->r.sqe.connect.kato = le32(kato);
        assert_int_equal(run(f, cmd), 0);
        assert_int_equal(le32_get(cmd->r.cqe.dw0) >> 16, 2); /* AUTHREQ: ATR */
        auth_start(&host, &host_cfg);
}

static void open_unproven(struct fake *f)
{
        open_timed(f, 0);
}

/* The status of what was parked for the thread that computes. */
static uint16_t computed(struct fake *f, uint16_t status)
{
        if (status != LATER)
                return status;
        assert_non_null(bed.env.auth_work);
        while (f->later_n == 0)
                sched_yield();
        f->later_n = 0;
        f->verdict = ctrl_resume(&bed.env, &f->q, &cmd->r, bed.now);
        return cqe_status(&cmd->r.cqe);
}

static uint16_t auth_run(struct fake *f, uint8_t fctype, uint32_t len)
{
        memset(&cmd->r, 0, sizeof(cmd->r));
        cmd->r.sqe.auth = (struct auth_cmd) { .opc = NVME_FABRICS,
                                              .fctype = fctype,
                                              .spsp0 = AUTH_SPSP,
                                              .spsp1 = AUTH_SPSP,
                                              .secp = AUTH_SECP,
                                              .len = le32(len) };
        return computed(f, run(f, cmd));
}

static uint16_t send_next(struct fake *f)
{
        size_t len = auth_speak(&host, cmd->data);

        return auth_run(f, FCTYPE_AUTH_SEND, (uint32_t)len);
}

static uint16_t receive(struct fake *f, uint32_t len)
{
        uint16_t status = auth_run(f, FCTYPE_AUTH_RECEIVE, len);

        if (!status)
                auth_hear(&host, cmd->data, len);
        return status;
}

/* To the end, however it ends. */
static void converse(struct fake *f)
{
        for (unsigned i = 0; i < 6 && f->verdict != CTRL_DISCONNECT; i++) {
                if (auth_turn(&host) == AUTH_SPEAK)
                        assert_int_equal(send_next(f), 0);
                else if (auth_turn(&host) == AUTH_LISTEN)
                        assert_int_equal(receive(f, AUTH_RECEIVE_MAX), 0);
        }
}

static void gone(struct fake *f)
{
        assert_null(ctrl_queue_gone(&f->q));
}

static void nothing_runs_before(void **state)
{
        struct fake f;

        (void)state;
        open_unproven(&f);
        assert_int_equal(set_cc(&f, cmd, CC_ON), NVME_AUTH_REQUIRED);
        assert_int_equal(simple(&f, cmd, NVME_IDENTIFY, 0, CNS_CTRL, 0), NVME_AUTH_REQUIRED);
        assert_int_equal(simple(&f, cmd, NVME_KEEP_ALIVE, 0, 0, 0), NVME_AUTH_REQUIRED);
        converse(&f);
        assert_int_equal(auth_turn(&host), AUTH_DONE);
        assert_true(host.mutual);
        assert_int_equal(set_cc(&f, cmd, CC_ON), 0);
        assert_int_equal(simple(&f, cmd, NVME_IDENTIFY, 0, CNS_CTRL, 0), 0);
        gone(&f);
}

static void each_queue_for_itself(void **state)
{
        struct fake admin, io;

        (void)state;
        open_unproven(&admin);
        converse(&admin);
        assert_int_equal(set_cc(&admin, cmd, CC_ON), 0);
        open_io(&io, &bed, &admin, 1);
        assert_int_equal(ctrl_io_admit(&io.q) & STATUS_MASK, NVME_AUTH_REQUIRED);
        auth_start(&host, &host_cfg);
        converse(&io);
        assert_int_equal(auth_turn(&host), AUTH_DONE);
        assert_int_equal(ctrl_io_admit(&io.q), 0);
        gone(&io);
        gone(&admin);
}

static void a_wrong_key_ends_the_connection(void **state)
{
        struct fake f;

        (void)state;
        host_cfg.keys.host.bytes[5] ^= 1;
        open_unproven(&f);
        converse(&f);
        assert_int_equal(f.verdict, CTRL_DISCONNECT);
        assert_int_equal(auth_turn(&host), AUTH_REFUSED);
        assert_int_equal(host.failed, AUTH_FAILED);
        assert_true(f.q.disconnecting);
        assert_int_equal(auth_run(&f, FCTYPE_AUTH_RECEIVE, 2000), NVME_SEQUENCE_ERROR);
        gone(&f);
}

/* Who is told of a failure by the host hangs up, too. */
static void a_host_that_refuses(void **state)
{
        struct fake f;

        (void)state;
        host_cfg.keys.ctrl.bytes[5] ^= 1;
        open_unproven(&f);
        converse(&f);
        assert_int_equal(auth_turn(&host), AUTH_REFUSED);
        assert_int_equal(f.verdict, CTRL_DISCONNECT);
        gone(&f);
}

static void fields_of_the_commands(void **state)
{
        static const struct {
                uint8_t fctype, secp, spsp0, spsp1;
                uint32_t len;
        } rows[] = {
                { FCTYPE_AUTH_SEND, 0xea, 1, 1, 72 },   { FCTYPE_AUTH_SEND, 0xe9, 0, 1, 72 },
                { FCTYPE_AUTH_SEND, 0xe9, 1, 2, 72 },   { FCTYPE_AUTH_SEND, 0xe9, 1, 1, 0 },
                { FCTYPE_AUTH_SEND, 0xe9, 1, 1, 4097 }, { FCTYPE_AUTH_RECEIVE, 0, 1, 1, 2000 },
                { FCTYPE_AUTH_RECEIVE, 0xe9, 1, 1, 0 }, { FCTYPE_AUTH_RECEIVE, 0xe9, 1, 1, 65537 },
        };
        struct fake f;

        (void)state;
        open_unproven(&f);
        for (size_t i = 0; i < COUNT(rows); i++) {
                memset(&cmd->r, 0, sizeof(cmd->r));
                cmd->r.sqe.auth = (struct auth_cmd) { .opc = NVME_FABRICS,
                                                      .fctype = rows[i].fctype,
                                                      .spsp0 = rows[i].spsp0,
                                                      .spsp1 = rows[i].spsp1,
                                                      .secp = rows[i].secp,
                                                      .len = le32(rows[i].len) };
                assert_int_equal(run(&f, cmd), NVME_INVALID_FIELD);
        }
        assert_int_equal(receive(&f, 2000), NVME_SEQUENCE_ERROR); /* nothing to be said yet */
        converse(&f);
        assert_int_equal(auth_turn(&host), AUTH_DONE);
        gone(&f);
}

/* A message that does not fit is not lost. */
static void too_little_room(void **state)
{
        struct fake f;

        (void)state;
        open_unproven(&f);
        assert_int_equal(send_next(&f), 0);
        assert_int_equal(auth_run(&f, FCTYPE_AUTH_RECEIVE, 100), NVME_INVALID_FIELD);
        converse(&f);
        assert_int_equal(auth_turn(&host), AUTH_DONE);
        gone(&f);
}

static void once_more(void **state)
{
        struct fake f;

        (void)state;
        open_unproven(&f);
        converse(&f);
        assert_int_equal(set_cc(&f, cmd, CC_ON), 0);
        auth_start(&host, &host_cfg);
        assert_int_equal(send_next(&f), 0);
        assert_int_equal(simple(&f, cmd, NVME_IDENTIFY, 0, CNS_CTRL, 0), 0); /* still trusted */
        converse(&f);
        assert_int_equal(auth_turn(&host), AUTH_DONE);
        host_cfg.keys.host.bytes[0] ^= 1;
        auth_start(&host, &host_cfg);
        converse(&f);
        assert_int_equal(f.verdict, CTRL_DISCONNECT);
        gone(&f);
}

/* What is refused keeps no controller alive, and nobody has forever. */
static void a_host_has_its_time(void **state)
{
        struct fake f, io;

        (void)state;
        open_unproven(&f);
        for (unsigned i = 0; i < 9; i++, bed.now += bed.limits.auth_timeout / 10) {
                ctrl_table_tick(bed.env.table, bed.now);
                assert_false(f.closed);
                assert_int_equal(simple(&f, cmd, NVME_KEEP_ALIVE, 0, 0, 0), NVME_AUTH_REQUIRED);
        }
        ctrl_table_tick(bed.env.table, bed.now + bed.limits.auth_timeout / 10);
        assert_true(f.closed);
        gone(&f);
        open_unproven(&f);
        converse(&f);
        fake_init(&io, &bed);
        assert_int_equal(set_cc(&f, cmd, CC_ON), 0);
        make_connect(cmd, &f, 1);
        assert_int_equal(run(&io, cmd), 0);
        ctrl_table_tick(bed.env.table, bed.now + bed.limits.auth_timeout);
        assert_true(io.closed); /* each queue for itself */
        assert_false(f.closed);
        gone(&io);
        gone(&f);
}

static uint16_t get_property(struct fake *f)
{
        memset(&cmd->r, 0, sizeof(cmd->r));
        cmd->r.sqe.property = (struct property_cmd) { .opc = NVME_FABRICS,
                                                      .fctype = FCTYPE_PROPERTY_GET,
                                                      .ofst = le32(PROP_CSTS) };
        return run(f, cmd);
}

/* Before it is enabled the Keep Alive Timer does not run (Base 2.2 3.9.2): it is as idle as one whose host says
 * nothing. */
static void what_is_refused_keeps_nothing_alive(void **state)
{
        enum { IDLE = 1000, STEPS = 10 };
        struct fake f;

        (void)state;
        bed.limits.idle_timeout = IDLE;
        open_timed(&f, IDLE);
        for (unsigned i = 0; i < STEPS; i++) {
                assert_false(f.closed);
                assert_int_equal(get_property(&f), NVME_AUTH_REQUIRED);
                assert_int_equal(simple(&f, cmd, NVME_KEEP_ALIVE, 0, 0, 0), NVME_AUTH_REQUIRED);
                ctrl_table_tick(bed.env.table, bed.now += IDLE / STEPS);
        }
        assert_true(f.closed);
        gone(&f);
}

/* Of a host that has authenticated itself each command counts, also one that is refused. */
static void what_is_refused_to_a_known_host_counts(void **state)
{
        enum { IDLE = 1000, STEPS = 10 };
        struct fake f;

        (void)state;
        bed.limits.idle_timeout = IDLE;
        open_unproven(&f);
        converse(&f);
        for (unsigned i = 0; i < 2 * STEPS; i++) { /* not enabled */
                assert_int_equal(simple(&f, cmd, NVME_IDENTIFY, 0, CNS_CTRL, 0),
                                 NVME_SEQUENCE_ERROR);
                ctrl_table_tick(bed.env.table, bed.now += IDLE / STEPS);
                assert_false(f.closed);
        }
        ctrl_table_tick(bed.env.table, bed.now += IDLE);
        assert_true(f.closed);
        gone(&f);
}

/* Nor by another connection than the one that has authenticated itself. */
static void an_unproven_queue_keeps_nothing_alive(void **state)
{
        enum { KATO = 1000, STEPS = 10 };
        struct fake admin, io;

        (void)state;
        open_timed(&admin, KATO);
        converse(&admin);
        assert_int_equal(set_cc(&admin, cmd, CC_ON), 0);
        open_io(&io, &bed, &admin, 1);
        ctrl_table_tick(bed.env.table, bed.now += KATO); /* the commands above */
        for (unsigned i = 0; i < STEPS; i++) {
                assert_false(admin.closed);
                assert_int_equal(ctrl_io_admit(&io.q) & STATUS_MASK, NVME_AUTH_REQUIRED);
                ctrl_table_tick(bed.env.table, bed.now += KATO / STEPS);
        }
        assert_true(admin.closed && io.closed);
        gone(&io);
        gone(&admin);
}

/* What is computed elsewhere is done once at a time, in bounds, and outlives its queue. */
static void computing_is_bounded(void **state)
{
        enum { MANY = 8 };
        struct fake f[MANY];
        struct cmd *c[MANY];
        unsigned refused = 0;

        (void)state;
        host_cfg.keys.groups = bed.one->keys.groups = 1 << AUTH_FFDHE8192;
        for (unsigned i = 0; i < MANY; i++) {
                open_unproven(&f[i]);
                assert_int_equal(send_next(&f[i]), 0);
        }
        for (unsigned i = 0; i < MANY; i++) {
                uint16_t status;

                c[i] = calloc(1, sizeof(*c[i]));
                assert_non_null(c[i]);
                c[i]->r.sqe.auth = (struct auth_cmd) { .opc = NVME_FABRICS,
                                                       .fctype = FCTYPE_AUTH_RECEIVE,
                                                       .spsp0 = AUTH_SPSP,
                                                       .spsp1 = AUTH_SPSP,
                                                       .secp = AUTH_SECP,
                                                       .len = le32(AUTH_RECEIVE_MAX) };
                status = run(&f[i], c[i]);
                refused += status == NVME_INTERNAL_ERROR;
                assert_true(status == LATER || status == NVME_INTERNAL_ERROR);
        }
        assert_in_range(refused, 1, MANY - 3); /* three of one address may wait */
        assert_int_equal(receive(&f[0], AUTH_RECEIVE_MAX), NVME_SEQUENCE_ERROR);
        for (unsigned i = 0; i < MANY; i++) {
                gone(&f[i]);
                while (c[i]->r.user && f[i].later_n == 0)
                        sched_yield();
                if (c[i]->r.user)
                        ctrl_resume(&bed.env, &f[i].q, &c[i]->r, bed.now);
                free(c[i]);
        }
}

/* Keys of one host, and none of the other. */
static void keys_by_host(void **state)
{
        struct auth_keys keys = { .host = { .len = 32 } };
        struct fake f;

        (void)state;
        bed.one->keys = (struct auth_keys) { .hashes = 0 };
        assert_true(hosts_add(&bed.one->hosts, HOST2, &keys));
        fake_init(&f, &bed);
        make_connect(cmd, NULL, 0);
        assert_int_equal(run(&f, cmd), 0);
        assert_int_equal(le32_get(cmd->r.cqe.dw0) >> 16, 0);
        assert_int_equal(auth_run(&f, FCTYPE_AUTH_SEND, 72), NVME_INVALID_FIELD);
        gone(&f);
        fake_init(&f, &bed);
        make_connect(cmd, NULL, 0);
        strcpy(connect_data_of(cmd)->hostnqn, HOST2);
        assert_int_equal(run(&f, cmd), 0);
        assert_int_equal(le32_get(cmd->r.cqe.dw0) >> 16, 2);
        gone(&f);
}

static void rules_waived(void **state)
{
        struct fake f;

        (void)state;
        fake_init(&f, &bed);
        make_connect(cmd, NULL, 0);
        strcpy(connect_data_of(cmd)->hostnqn, SUB1);
        assert_int_equal(run(&f, cmd), NVME_CONNECT_HOST);
        rule_add(&bed.policy.waived, FAB_CONNECT_SAME_NQN);
        rule_add(&bed.policy.waived, FAB_AUTH_REQUIRED);
        assert_int_equal(run(&f, cmd), 0);
        assert_int_equal(set_cc(&f, cmd, CC_ON), 0);
        gone(&f);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
#define WORK(t) cmocka_unit_test_setup_teardown(t, setup_work, teardown)
        const struct CMUnitTest tests[] = {
                TEST(nothing_runs_before),
                TEST(each_queue_for_itself),
                TEST(a_wrong_key_ends_the_connection),
                TEST(a_host_that_refuses),
                TEST(fields_of_the_commands),
                TEST(too_little_room),
                TEST(once_more),
                TEST(a_host_has_its_time),
                TEST(what_is_refused_keeps_nothing_alive),
                TEST(what_is_refused_to_a_known_host_counts),
                TEST(an_unproven_queue_keeps_nothing_alive),
                TEST(keys_by_host),
                TEST(rules_waived),
                WORK(nothing_runs_before),
                WORK(each_queue_for_itself),
                WORK(a_wrong_key_ends_the_connection),
                WORK(too_little_room),
                WORK(once_more),
                WORK(computing_is_bounded),
        };

        if (!auth_openssl())
                return 0;
        return cmocka_run_group_tests(tests, NULL, NULL);
}
