/* SPDX-License-Identifier: BSD-3-Clause */
/* The discovery controller and its log. */
#include "ctrl_fixture.h"

#include "pdu/nvme/wire/discovery.h"

static struct bed bed;
static struct fake disc;
static struct cmd *cmd, *aer;

static int setup(void **state)
{
        (void)state;
        bed_init(&bed);
        cmd = calloc(1, sizeof(*cmd));
        aer = calloc(1, sizeof(*aer));
        return cmd && aer ? 0 : -1;
}

static int teardown(void **state)
{
        (void)state;
        ctrl_queue_gone(&disc.q);
        free(cmd);
        free(aer);
        bed_fini(&bed);
        return 0;
}

/* A discovery controller at `port`, for `hostnqn`. */
static void discover(struct fake *f, const struct port *port, const char *hostnqn, uint32_t kato)
{
        fake_init(f, &bed);
        f->port = port;
        make_connect(cmd, NULL, 0);
        cmd->r.sqe.connect.kato = le32(kato);
        text_fill(connect_data_of(cmd)->subnqn, NQN_FIELD, NQN_DISCOVERY);
        text_fill(connect_data_of(cmd)->hostnqn, NQN_FIELD, hostnqn);
        assert_int_equal(run(f, cmd), 0);
        assert_int_equal(set_cc(f, cmd, CC_EN), 0);
}

static const struct disc_header *header(void)
{
        return (const struct disc_header *)cmd->data;
}

static const struct disc_entry *entry(uint64_t i)
{
        const struct disc_entry *e = disc_log_entry(cmd->data, sizeof(cmd->data), i);

        assert_non_null(e);
        return e;
}

static void read_log(struct fake *f)
{
        assert_int_equal(get_log(f, cmd, LOG_DISCOVERY, false, 16384, 0), 0);
}

static void log_of_a_port(void **state)
{
        (void)state;
        discover(&disc, bed.port, HOST1, 0);
        read_log(&disc);
        assert_int_equal(le16_get(header()->recfmt), 0);
        assert_int_equal(le64_get(header()->numrec), 2);
        assert_int_equal(le64_get(header()->genctr), bed.inv.genctr);
        assert_int_equal(entry(0)->subtype, SUBTYPE_CURRENT);
        assert_string_equal(entry(0)->subnqn, NQN_DISCOVERY);
        assert_int_equal(le16_get(entry(0)->eflags), EFLAGS_EPCSD);
        assert_int_equal(entry(1)->subtype, SUBTYPE_NVM);
        assert_string_equal(entry(1)->subnqn, SUB1);
        assert_int_equal(entry(1)->trtype, TRTYPE_TCP);
        assert_int_equal(entry(1)->adrfam, ADRFAM_IPV4);
        assert_int_equal(entry(1)->treq, TREQ_SQFC);
        assert_int_equal(le16_get(entry(1)->portid), 1);
        assert_int_equal(le16_get(entry(1)->cntlid), CNTLID_DYNAMIC);
        assert_int_equal(le16_get(entry(1)->asqsz), 64);
        assert_int_equal(disc_entry_port(entry(1)), 4420);
        assert_memory_equal(entry(1)->traddr, "192.0.2.1 ", 10);
        for (unsigned i = 3 * 1024; i < 16384; i++)
                assert_int_equal(cmd->data[i], 0);
}

static void log_of_a_host(void **state)
{
        (void)state;
        discover(&disc, bed.other, HOST1, 0);
        read_log(&disc);
        assert_int_equal(le64_get(header()->numrec), 2);
        ctrl_queue_gone(&disc.q);
        discover(&disc, bed.other, HOST2, 0);
        disc.q.traddr = "198.51.100.7";
        read_log(&disc);
        assert_int_equal(le64_get(header()->numrec), 3);
        assert_string_equal(entry(2)->subnqn, SUB2);
        assert_memory_equal(entry(2)->traddr, "198.51.100.7 ", 13); /* not 0.0.0.0 */
}

static void say_where(struct port *port, const char *listens, const char *found)
{
        strcpy(port->traddr, listens);
        discover(&disc, port, HOST2, 0);
        disc.q.traddr = found;
        read_log(&disc);
        ctrl_queue_gone(&disc.q);
}

/* TRADDR is an address that a host can connect to, and ADRFAM is its family. */
static void addresses(void **state)
{
        static const struct {
                const char *listens, *found, *told;
                uint8_t adrfam;
        } all[] = {
                { "192.0.2.1", "127.0.0.1", "192.0.2.1 ", ADRFAM_IPV4 },
                { "2001:db8::1", "::1", "2001:db8::1 ", ADRFAM_IPV6 },
                { "[2001:db8::1]", "2001:db8::1", "2001:db8::1 ", ADRFAM_IPV6 },
                { "localhost", "127.0.0.1", "127.0.0.1 ", ADRFAM_IPV4 },
                { "localhost", "::1", "::1 ", ADRFAM_IPV6 },
                { "", "198.51.100.7", "198.51.100.7 ", ADRFAM_IPV4 },
                { "0::0", "198.51.100.7", "198.51.100.7 ", ADRFAM_IPV4 },
                { "::", "2001:db8::1", "2001:db8::1 ", ADRFAM_IPV6 },
                { "::", "198.51.100.7", "198.51.100.7 ", ADRFAM_IPV4 },
                { "fe80::1%eth0", "fe80::1", "fe80::1 ", ADRFAM_IPV6 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
                say_where(bed.port, all[i].listens, all[i].found);
                assert_memory_equal(entry(0)->traddr, all[i].told, strlen(all[i].told));
                assert_int_equal(entry(0)->adrfam, all[i].adrfam);
        }
}

static void referrals(void **state)
{
        struct referral *r = calloc(1, sizeof(*r));

        (void)state;
        *r = (struct referral) { .port_id = 9, .trtype = TRTYPE_RDMA, .adrfam = ADRFAM_IPV6 };
        strcpy(r->traddr, "2001:db8::1");
        strcpy(r->trsvcid, "8009");
        bed.port->referrals = r;
        discover(&disc, bed.port, HOST1, 0);
        read_log(&disc);
        assert_int_equal(le64_get(header()->numrec), 3);
        assert_int_equal(entry(2)->subtype, SUBTYPE_REFERRAL);
        assert_string_equal(entry(2)->subnqn, NQN_DISCOVERY);
        assert_int_equal(entry(2)->trtype, TRTYPE_RDMA);
        assert_int_equal(disc_entry_port(entry(2)), 8009);
}

static void log_in_pieces(void **state)
{
        static const uint32_t pieces[] = { 4, 1000, 1024, 1500 };
        static uint8_t whole[3072];

        (void)state;
        discover(&disc, bed.port, HOST1, 0);
        read_log(&disc);
        memcpy(whole, cmd->data, sizeof(whole));
        for (size_t i = 0; i < COUNT(pieces); i++)
                for (uint32_t at = 0; at < sizeof(whole); at += pieces[i]) {
                        uint32_t left = (uint32_t)sizeof(whole) - at;

                        assert_int_equal(get_log(&disc, cmd, LOG_DISCOVERY, true, pieces[i], at),
                                         0);
                        assert_memory_equal(cmd->data, whole + at,
                                            left < pieces[i] ? left : pieces[i]);
                }
        assert_int_equal(get_log(&disc, cmd, LOG_DISCOVERY, true, 4, sizeof(whole)), 0);
        assert_int_equal(get_log(&disc, cmd, LOG_DISCOVERY, true, 4, sizeof(whole) + 4),
                         NVME_INVALID_FIELD);
}

static void identify_discovery(void **state)
{
        const struct id_ctrl *id = (const struct id_ctrl *)cmd->data;

        (void)state;
        discover(&disc, bed.port, HOST1, 0);
        assert_int_equal(simple(&disc, cmd, NVME_IDENTIFY, 0, CNS_CTRL, 0), 0);
        assert_int_equal(id->cntrltype, CNTRLTYPE_DISCOVERY);
        assert_string_equal(id->subnqn, NQN_DISCOVERY);
        assert_int_equal(le32_get(id->oaes), OAES_DISCOVERY);
        assert_int_equal(le16_get(id->ofcs), 0); /* no Disconnect */
        assert_int_equal(le32_get(id->nn), 0);
        assert_true(le16_get(id->kas) > 0);
        assert_int_equal(simple(&disc, cmd, NVME_IDENTIFY, 1, CNS_NS, 0), NVME_INVALID_FIELD);
}

static void prohibited(void **state)
{
        static const struct {
                uint32_t opc, dw10;
                uint16_t status;
                enum rule_id rule;
        } rows[] = {
                { NVME_GET_LOG_PAGE, LOG_SMART, 0x109, DISC_LOGS },
                { NVME_GET_LOG_PAGE, LOG_FW_SLOT, 0x109, DISC_LOGS },
                { NVME_GET_LOG_PAGE, LOG_CHANGED_NS, 0x109, DISC_LOGS },
                { NVME_GET_LOG_PAGE, 0x71, 0x109, LOG_UNKNOWN },
                { NVME_GET_LOG_PAGE, LOG_SUPPORTED, 0, 0 },
                { NVME_GET_LOG_PAGE, LOG_EFFECTS, 0, 0 },
                { NVME_GET_LOG_PAGE, LOG_FEATURE_EFFECTS, 0, 0 },
                { NVME_GET_LOG_PAGE, LOG_MI_EFFECTS, 0, 0 },
                { NVME_GET_FEATURES, FEAT_KATO, 0, 0 },
                { NVME_GET_FEATURES, FEAT_AEC, 0, 0 },
                { NVME_GET_FEATURES, FEAT_QUEUES, 0x002, DISC_FEATURES },
                { NVME_GET_FEATURES, FEAT_HOSTID, 0x002, DISC_FEATURES },
                { NVME_GET_FEATURES, FEAT_WRITE_CACHE, 0x002, FEAT_UNKNOWN },
                { 0x11, 0, 0x001, DISC_PROHIBITED }, /* Firmware Download */
                { 0x0d, 0, 0x001, DISC_PROHIBITED }, /* Namespace Management */
                { NVME_CREATE_SQ, 0, 0x001, FAB_OPCODE },
                { NVME_KEEP_ALIVE, 0, 0, 0 },
        };

        (void)state;
        discover(&disc, bed.port, HOST1, 0);
        for (size_t i = 0; i < COUNT(rows); i++) {
                uint16_t status;

                memset(&bed.policy, 0, sizeof(bed.policy));
                status = simple(&disc, cmd, (uint8_t)rows[i].opc, 0, rows[i].dw10, 0);
                if (status != rows[i].status)
                        fail_msg("row %zu: %xh", i, status);
                if (!rows[i].rule)
                        continue;
                rule_add(&bed.policy.waived, rows[i].rule);
                assert_int_equal(simple(&disc, cmd, (uint8_t)rows[i].opc, 0, rows[i].dw10, 0), 0);
        }
}

static void changes(void **state)
{
        uint64_t before = bed.inv.genctr;

        (void)state;
        ctrl_table_discovery_changed(bed.env.table); /* nobody is there */
        discover(&disc, bed.port, HOST1, 5000);      /* persistent: no Set Features needed */
        assert_int_equal(simple(&disc, aer, NVME_AER, 0, 0, 0), LATER);
        ctrl_table_discovery_changed(bed.env.table);
        assert_int_equal(disc.later_n, 0); /* what this host sees is the same */

        pthread_rwlock_wrlock(&bed.inv.lock);
        assert_true(port_subsystems_add(&bed.port->subsystems, bed.two)); /* HOST2's */
        bed.inv.genctr++;
        pthread_rwlock_unlock(&bed.inv.lock);
        ctrl_table_discovery_changed(bed.env.table);
        assert_int_equal(disc.later_n, 0);

        pthread_rwlock_wrlock(&bed.inv.lock);
        bed.two->allow_any_host = true;
        bed.inv.genctr++;
        pthread_rwlock_unlock(&bed.inv.lock);
        ctrl_table_discovery_changed(bed.env.table);
        assert_int_equal(later(&disc, 0, aer), 0);
        assert_int_equal(le32_get(aer->r.cqe.dw0), 0x0070f002);

        assert_int_equal(simple(&disc, aer, NVME_AER, 0, 0, 0), LATER);
        port_subsystems_clear(&bed.port->subsystems);
        ctrl_table_discovery_changed(bed.env.table);
        assert_int_equal(disc.later_n, 1); /* masked */
        get_log(&disc, cmd, LOG_DISCOVERY, true, 1024, 0);
        assert_true(port_subsystems_add(&bed.port->subsystems, bed.two));
        ctrl_table_discovery_changed(bed.env.table);
        assert_int_equal(disc.later_n, 1); /* retained */
        read_log(&disc);
        assert_int_equal(le64_get(header()->genctr), before + 2);
        assert_int_equal(disc.later_n, 1);
        port_subsystems_clear(&bed.port->subsystems);
        ctrl_table_discovery_changed(bed.env.table);
        assert_int_equal(later(&disc, 1, aer), 0);
}

static void not_persistent_has_to_ask(void **state)
{
        (void)state;
        discover(&disc, bed.port, HOST1, 0);
        simple(&disc, aer, NVME_AER, 0, 0, 0);
        port_subsystems_clear(&bed.port->subsystems);
        ctrl_table_discovery_changed(bed.env.table);
        assert_int_equal(disc.later_n, 0);
        assert_int_equal(simple(&disc, cmd, NVME_SET_FEATURES, 0, FEAT_AEC, AEC_DISCOVERY), 0);
        assert_true(port_subsystems_add(&bed.port->subsystems, bed.one));
        ctrl_table_discovery_changed(bed.env.table);
        assert_int_equal(disc.later_n, 1);
}

static void broken_on_request(void **state)
{
        (void)state;
        discover(&disc, bed.port, HOST1, 5000);
        rule_add(&bed.policy.violated, DISC_LISTED);
        read_log(&disc);
        assert_int_equal(le64_get(header()->numrec), 1);
        memset(&bed.policy, 0, sizeof(bed.policy));
        rule_add(&bed.policy.violated, DISC_GENCTR);
        read_log(&disc);
        uint64_t first = le64_get(header()->genctr);
        read_log(&disc);
        assert_int_not_equal(le64_get(header()->genctr), first);
        memset(&bed.policy, 0, sizeof(bed.policy));
        rule_add(&bed.policy.violated, DISC_PERSISTENT);
        assert_int_equal(simple(&disc, aer, NVME_AER, 0, 0, 0), NVME_INVALID_OPCODE);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
        static const struct CMUnitTest tests[] = {
                TEST(log_of_a_port),     TEST(log_of_a_host), TEST(addresses),
                TEST(referrals),         TEST(log_in_pieces), TEST(identify_discovery),
                TEST(prohibited),        TEST(changes),       TEST(not_persistent_has_to_ask),
                TEST(broken_on_request),
        };

        return cmocka_run_group_tests_name("discovery", tests, NULL, NULL);
}
