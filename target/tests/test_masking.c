/* SPDX-License-Identifier: BSD-3-Clause */
/* Namespaces that are attached to some hosts only: what controllers of the others see, and hear. */
#include <stdio.h>

#include "ctrl_fixture.h"
#include "target/nvme/ns_hosts.h"
#include "target/nvme/nvm.h"

/* Of SUB1: namespaces 1 and 5 are everybody's, 3 is HOST1's. */
static struct bed bed;
static struct fake one, two;
static struct cmd *cmd, *aers;

static void open_as(struct fake *f, const char *hostnqn, uint8_t id)
{
        fake_init(f, &bed);
        make_connect(cmd, NULL, 0);
        connect_data_of(cmd)->hostid[0] = id;
        strcpy(connect_data_of(cmd)->hostnqn, hostnqn);
        assert_int_equal(run(f, cmd), 0);
        assert_int_equal(set_cc(f, cmd, CC_ON), 0);
}

static struct ns_hosts *hosts_of(const char *a, const char *b)
{
        char *nqns[] = { (char *)(uintptr_t)a, (char *)(uintptr_t)b };
        struct ns_hosts *h = ns_hosts_new(nqns, !a ? 0 : b ? 2 : 1);

        assert_non_null(h);
        return h;
}

/* As a plan does it. */
static void attach(uint32_t nsid, const char *a, const char *b)
{
        struct ns *ns = ns_find(bed.one, nsid);
        struct ns_change change = {
                .subsystem = bed.one, .nsid = nsid, .was = true, .is = true, .hosts_alone = true
        };
        struct ns_hosts *now = hosts_of(a, b), *before = atomic_exchange(&nvme_ns(ns)->hosts, now);

        change.before = before;
        change.after = now;
        ctrl_table_ns_changed(bed.env.table, &change);
        ctrl_table_ana_changed(bed.env.table);
        ns_hosts_free(before);
}

static void set_up_bed(bool ana)
{
        bed_init(&bed);
        bed_add_ns(bed.one, "mem:1M", 5);
        bed.one->ana = ana;
        for (struct ns *ns = bed.one->ns; ns; ns = ns->next)
                nvme_ns(ns)->anagrpid = ns->nsid == 3 ? 2 : 1;
        cmd = calloc(1, sizeof(*cmd));
        aers = calloc(4, sizeof(*aers));
        nvme_ns(ns_find(bed.one, 3))->hosts = hosts_of(HOST1, NULL);
        open_as(&one, HOST1, 1);
        open_as(&two, HOST2, 2);
}

static int set_up(void **state)
{
        (void)state;
        set_up_bed(false);
        return 0;
}

static int set_up_ana(void **state)
{
        (void)state;
        set_up_bed(true);
        return 0;
}

static int tear_down(void **state)
{
        (void)state;
        ctrl_queue_gone(&one.q);
        ctrl_queue_gone(&two.q);
        bed_fini(&bed);
        free(cmd);
        free(aers);
        return 0;
}

static void lists_of_hosts(void **state)
{
        struct ns_hosts *both = hosts_of(HOST2, HOST1), *twice = hosts_of(HOST1, HOST1);
        struct ns_hosts *first = hosts_of(HOST1, NULL), *none = hosts_of(NULL, NULL);

        (void)state;
        assert_true(ns_hosts_has(both, HOST1) && ns_hosts_has(both, HOST2));
        assert_false(ns_hosts_has(both, SUB1) || ns_hosts_has(both, NULL));
        assert_true(ns_hosts_has(NULL, HOST1) && ns_hosts_has(NULL, NULL));
        assert_false(ns_hosts_has(none, HOST1) || ns_hosts_has(first, HOST2));
        assert_true(ns_hosts_equal(first, twice) && ns_hosts_equal(NULL, NULL));
        assert_false(ns_hosts_equal(first, both) || ns_hosts_equal(none, NULL));
        assert_false(ns_hosts_equal(NULL, none) || ns_hosts_equal(none, first));
        ns_hosts_free(twice);
        twice = hosts_of(HOST2, NULL);
        assert_false(ns_hosts_equal(first, twice));
        ns_hosts_free(both);
        ns_hosts_free(twice);
        ns_hosts_free(first);
        ns_hosts_free(none);
        ns_hosts_free(NULL);
}

/* --- Identify --------------------------------------------------------------------------------- */

static uint16_t identify(struct fake *f, uint8_t cns, uint32_t nsid)
{
        memset(cmd->data, 0xee, sizeof(cmd->data));
        return simple(f, cmd, NVME_IDENTIFY, nsid, cns, 0);
}

static bool all_zero(void)
{
        for (size_t i = 0; i < IDENTIFY_LEN; i++)
                if (cmd->data[i])
                        return false;
        return true;
}

/* A list of NSIDs; "1 3 5". */
static void lists(struct fake *f, uint8_t cns, const char *expected)
{
        char text[64] = "";
        size_t n = 0;

        assert_int_equal(identify(f, cns, 0), 0);
        for (; le_get(cmd->data + 4 * n, 4); n++)
                sprintf(text + strlen(text), "%s%u", n > 0 ? " " : "",
                        (unsigned)le_get(cmd->data + 4 * n, 4));
        assert_string_equal(text, expected);
}

static void active_lists(void **state)
{
        (void)state;
        lists(&one, CNS_NS_LIST, "1 3 5");
        lists(&two, CNS_NS_LIST, "1 5");
        lists(&two, CNS_IOCS_NS_LIST, "1 5");
        lists(&two, CNS_ALLOCATED_NS_LIST, "1 3 5");
        lists(&two, CNS_IOCS_ALLOCATED_NS_LIST, "1 3 5");
        attach(3, HOST2, NULL);
        lists(&one, CNS_NS_LIST, "1 5");
        lists(&two, CNS_NS_LIST, "1 3 5");
}

static void structures(void **state)
{
        static const uint8_t zeroes[] = { CNS_NS, CNS_IOCS_NS, CNS_NS_INDEPENDENT };

        (void)state;
        for (size_t i = 0; i < COUNT(zeroes); i++) {
                assert_int_equal(identify(&two, zeroes[i], 3), 0);
                assert_true(all_zero());
        }
        assert_int_equal(identify(&one, CNS_NS, 3), 0);
        assert_false(all_zero());
        assert_int_equal(identify(&two, CNS_ALLOCATED_NS, 3), 0);
        assert_false(all_zero());
        assert_int_equal(identify(&two, CNS_ALLOCATED_NS, 4), 0);
        assert_true(all_zero());
        assert_int_equal(identify(&two, CNS_ALLOCATED_NS, 0), NVME_INVALID_NS);
        assert_int_equal(identify(&one, CNS_NS_DESCS, 3), 0);
        assert_int_equal(identify(&two, CNS_NS_DESCS, 3), NVME_INVALID_FIELD);
}

/* The controllers that a namespace is attached to, whoever asks. */
static void controllers(void **state)
{
        uint16_t first, count = 0;

        (void)state;
        assert_int_equal(identify(&one, CNS_CTRL, 0), 0);
        first = le16_get(((const struct id_ctrl *)cmd->data)->cntlid);
        for (struct fake *f = &one; f; f = f == &one ? &two : NULL) {
                assert_int_equal(identify(f, CNS_NS_CTRL_LIST, 3), 0);
                assert_int_equal(le_get(cmd->data, 2), 1);
                assert_int_equal(le_get(cmd->data + 2, 2), first);
                assert_int_equal(identify(f, CNS_NS_CTRL_LIST, 1), 0);
                assert_int_equal(le_get(cmd->data, 2), 2);
                assert_int_equal(identify(f, CNS_CTRL_LIST, 0), 0);
                count += (uint16_t)le_get(cmd->data, 2);
                assert_int_equal(identify(f, CNS_NS_CTRL_LIST, 4), NVME_INVALID_FIELD);
        }
        assert_int_equal(count, 4);
        attach(3, NULL, NULL);
        assert_int_equal(identify(&one, CNS_NS_CTRL_LIST, 3), 0);
        assert_int_equal(le_get(cmd->data, 2), 0);
}

/* --- what changes ------------------------------------------------------------------------------- */

static void listen(struct fake *f, struct cmd *aer)
{
        assert_int_equal(
            simple(f, cmd, NVME_SET_FEATURES, 0, FEAT_AEC, AEC_NS | (bed.one->ana ? AEC_ANA : 0u)),
            0);
        assert_int_equal(simple(f, aer, NVME_AER, 0, 0, 0), LATER);
}

/* What was heard, and the log: "" or "3". */
static void changed(struct fake *f, const char *expected)
{
        unsigned first;

        assert_int_equal(f->later_n, expected[0] ? 1 : 0);
        assert_int_equal(get_log(f, cmd, LOG_CHANGED_NS, false, 4096, 0), 0);
        first = (unsigned)le_get(cmd->data, 4);
        assert_int_equal(first, strtoul(expected, NULL, 10));
        assert_int_equal(le_get(cmd->data + 4, 4), 0);
}

static void only_who_sees_a_change_hears_of_it(void **state)
{
        (void)state;
        listen(&one, &aers[0]);
        listen(&two, &aers[1]);
        ns_changed(&bed, bed.one, 3); /* of a namespace that two does not have */
        changed(&two, "");
        changed(&one, "3");
        assert_int_equal(simple(&one, &aers[0], NVME_AER, 0, 0, 0), LATER);
        one.later_n = 0;
        attach(3, HOST1, HOST2);
        changed(&one, "");
        changed(&two, "3");
        assert_int_equal(simple(&two, &aers[1], NVME_AER, 0, 0, 0), LATER);
        two.later_n = 0;
        attach(3, HOST2, NULL);
        changed(&two, "");
        changed(&one, "3");
}

static void come_and_go(bool was, bool is, uint32_t nsid, const struct ns_hosts *hosts)
{
        ctrl_table_ns_changed(bed.env.table, &(struct ns_change) { .subsystem = bed.one,
                                                                   .nsid = nsid,
                                                                   .was = was,
                                                                   .is = is,
                                                                   .before = was ? hosts : NULL,
                                                                   .after = is ? hosts : NULL });
}

static void namespaces_that_come_and_go(void **state)
{
        struct ns_hosts *hosts = hosts_of(HOST2, NULL);

        (void)state;
        listen(&one, &aers[0]);
        listen(&two, &aers[1]);
        come_and_go(false, true, 7, hosts);
        changed(&one, "");
        changed(&two, "7");
        come_and_go(true, false, 8, hosts);
        changed(&one, "");
        come_and_go(false, true, 9, NULL);
        changed(&one, "9");
        ns_hosts_free(hosts);
}

/* --- I/O, features, ANA ------------------------------------------------------------------------- */

static uint16_t admit(const char *hostnqn, uint8_t opc, uint32_t nsid)
{
        struct nvm_queue q = { .qid = 1, .hostnqn = hostnqn };
        struct request r = { 0 };

        r.sqe.opc = opc;
        r.sqe.flags = SQE_PSDT_SGL;
        r.sqe.nsid = le32(nsid);
        return nvm_admit(&q, bed.one, &r);
}

static void commands(void **state)
{
        static const uint8_t opcs[] = { NVME_READ,   NVME_WRITE, NVME_FLUSH,
                                        NVME_VERIFY, NVME_DSM,   NVME_RESERVATION_REGISTER };

        (void)state;
        for (size_t i = 0; i < COUNT(opcs); i++) {
                bool resv =
                    opcs[i] == NVME_RESERVATION_REGISTER; /* of a host without an identifier */

                assert_int_equal(admit(HOST1, opcs[i], 3),
                                 resv ? NVME_HOSTID_NOT_SET | STATUS_DNR : 0);
                assert_int_equal(admit(HOST2, opcs[i], 3), NVME_INVALID_FIELD | STATUS_DNR);
                assert_int_equal(admit(NULL, opcs[i], 3), NVME_INVALID_FIELD | STATUS_DNR);
        }
        assert_int_equal(admit(HOST2, NVME_READ, 1), 0);
}

static uint16_t feature(struct fake *f, uint8_t opc, uint8_t fid, uint32_t nsid, uint32_t value)
{
        return simple(f, cmd, opc, nsid, fid, value);
}

/* Features of namespaces: of one that is not attached none, of all those that are. */
static void features(void **state)
{
        static const uint8_t fids[] = { FEAT_ERROR_RECOVERY, FEAT_WRITE_PROTECT,
                                        FEAT_RESERVATION_MASK, FEAT_RESERVATION_PERSISTENCE };

        (void)state;
        for (size_t i = 0; i < COUNT(fids); i++) {
                assert_int_equal(feature(&two, NVME_GET_FEATURES, fids[i], 3, 0),
                                 NVME_INVALID_FIELD);
                assert_int_equal(feature(&two, NVME_SET_FEATURES, fids[i], 3, 0),
                                 NVME_INVALID_FIELD);
        }
        assert_int_equal(feature(&two, NVME_SET_FEATURES, FEAT_ERROR_RECOVERY, NSID_ALL, 5), 0);
        assert_int_equal(feature(&one, NVME_GET_FEATURES, FEAT_ERROR_RECOVERY, 1, 0), 0);
        assert_int_equal(le32_get(cmd->r.cqe.dw0), 5);
        assert_int_equal(feature(&one, NVME_GET_FEATURES, FEAT_ERROR_RECOVERY, 3, 0), 0);
        assert_int_equal(le32_get(cmd->r.cqe.dw0), 0);
        assert_int_equal(feature(&two, NVME_SET_FEATURES, FEAT_WRITE_PROTECT, NSID_ALL, 1), 0);
        assert_int_equal(ns_find(bed.one, 1)->protection, 1);
        assert_int_equal(ns_find(bed.one, 3)->protection, 0);
}

/* The groups that a controller reports, "1:1,5 2:3". */
static void groups(struct fake *f, const char *expected)
{
        const uint8_t *at = cmd->data + 16;
        char text[64] = "";

        assert_int_equal(get_log(f, cmd, LOG_ANA, false, 256, 0), 0);
        for (size_t i = 0; i < le_get(cmd->data + 8, 2); i++) {
                size_t n = le_get(at + 4, 4);

                sprintf(text + strlen(text), "%s%u:", i > 0 ? " " : "", (unsigned)le_get(at, 4));
                at += 32;
                for (size_t k = 0; k < n; k++, at += 4)
                        sprintf(text + strlen(text), "%s%u", k > 0 ? "," : "",
                                (unsigned)le_get(at, 4));
        }
        assert_string_equal(text, expected);
}

/* A group without attached namespaces is none; that one is attached is no change of its state. */
static void ana(void **state)
{
        (void)state;
        groups(&one, "1:1,5 2:3");
        groups(&two, "1:1,5");
        bed.port->subsystems->ana.of[2] = ANA_INACCESSIBLE;
        listen(&two, &aers[1]);
        attach(3, HOST1, HOST2);
        groups(&two, "1:1,5 2:3");
        changed(&two, "3");
        assert_int_equal(le32_get(aers[1].r.cqe.dw0),
                         AEN_NOTICE | AEN_INFO_NS_CHANGED << 8 | LOG_CHANGED_NS << 16);
        assert_int_equal(feature(&two, NVME_GET_FEATURES, FEAT_ERROR_RECOVERY, 3, 0),
                         NVME_ANA_INACCESSIBLE);
        attach(3, NULL, NULL);
        groups(&one, "1:1,5");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(lists_of_hosts),
                TEST(active_lists),
                TEST(structures),
                TEST(controllers),
                TEST(only_who_sees_a_change_hears_of_it),
                TEST(namespaces_that_come_and_go),
                TEST(commands),
                TEST(features),
                cmocka_unit_test_setup_teardown(ana, set_up_ana, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
