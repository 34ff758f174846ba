/* SPDX-License-Identifier: BSD-3-Clause */
#include "session.h"

#include "pdu/nvme/machine/spoil_table.h"
#include "pdu/nvme/rdma/spoil_rdma.h"
#include "pdu/nvme/tcp/spoil_tcp.h"
#include "pdu/nvme/wire/answers.h"
#include "pdu/nvme/wire/commands.h"
#include "pdu/nvme/wire/fields.h"
#include "pdu/nvme/wire/pages.h"

/* --- two sessions that keep every rule -------------------------------------------------------- */

enum { BOTH = PDU_DGST_HEADER | PDU_DGST_DATA };

static void admin_session(struct session *s, unsigned dgst)
{
        union sqe sqe;

        say_icreq(s, 0, dgst, 2);
        say_icresp(s, 3, dgst, 4096);
        say_cmd(s, a_connect(1, 0, 31));
        say_cqe(s, 1, 0, NVME_CONNECT_PARAM, 16 | CONNECT_IATTR_DATA);
        say_cmd(s, a_connect(2, 0, 31));
        say_cqe(s, 2, 1, 0, 7);
        say_cmd(s, a_property(3, FCTYPE_PROPERTY_GET, PROP_CAP, 0));
        say_cqe(s, 3, 2, 0, 0x100 | CAP_CQR);
        say_cmd(s, a_property(4, FCTYPE_PROPERTY_SET, PROP_CC, CC_EN));
        say_resp(s, 4, 3);
        say_cmd(s, a_command(5, NVME_IDENTIFY, SGL_TRANSPORT, IDENTIFY_LEN));
        say_c2h(s, 5, 0, IDENTIFY_LEN, PDU_LAST);
        say_resp(s, 5, 4);
        sqe = a_command(6, NVME_SET_FEATURES, SGL_TRANSPORT, 0);
        sqe.cdw10 = le32(FEAT_KATO);
        sqe.cdw11 = le32(5000);
        say_cmd(s, sqe);
        say_resp(s, 6, 5);
        sqe = a_command(7, NVME_GET_FEATURES, SGL_TRANSPORT, 0);
        sqe.cdw10 = le32(FEAT_KATO);
        say_cmd(s, sqe);
        say_cqe(s, 7, 6, 0, 5000);
        sqe = a_command(8, NVME_GET_LOG_PAGE, SGL_TRANSPORT, 4096);
        sqe.cdw10 = le32(LOG_ERROR | 1023 << 16);
        say_cmd(s, sqe);
        say_c2h(s, 8, 0, 2048, 0);
        say_c2h(s, 8, 2048, 2048, PDU_LAST);
        say_resp(s, 8, 7);
        say_cmd(s, a_command(9, NVME_KEEP_ALIVE, SGL_TRANSPORT, 0));
        say_resp(s, 9, 8);
        say_cmd(s, a_command(11, NVME_ABORT, SGL_TRANSPORT, 0));
        say_cqe(s, 11, 9, 0, 1);
        say_cmd(s, a_command(12, NVME_AER, SGL_TRANSPORT, 0));
        say_cqe(s, 12, 10, 0, AEN_NOTICE | LOG_CHANGED_NS << 16);
        sqe = a_command(13, NVME_GET_LOG_PAGE, SGL_TRANSPORT, 4);
        sqe.cdw10 = le32(0x6f);
        say_cmd(s, sqe);
        say_cqe(s, 13, 11, NVME_INVALID_LOG_PAGE, 0);
        say_cmd(s, a_property(10, FCTYPE_PROPERTY_SET, PROP_CC, CC_EN | CC_SHN_NORMAL));
        say_resp(s, 10, 12);
        say_term(s, PARTY_HOST, 24);
}

static void io_session(struct session *s, unsigned dgst)
{
        say_icreq(s, 3, dgst, 2);
        say_icresp(s, 0, dgst, 6000);
        say_cmd(s, a_connect(1, 1, 127));
        say_cqe(s, 1, 1, 0, 7);
        say_cmd(s, an_io(2, NVME_WRITE, SGL_IN_CAPSULE, 4096));
        say_resp(s, 2, 2);
        say_cmd(s, an_io(3, NVME_WRITE, SGL_TRANSPORT, 12288));
        say_r2t(s, 3, 100, 0, 8192);
        say_r2t(s, 3, 101, 8192, 4096);
        say_h2c(s, 3, 100, 0, 6000, 0);
        say_h2c(s, 3, 100, 6000, 2192, PDU_LAST);
        say_h2c(s, 3, 101, 8192, 4096, PDU_LAST);
        say_resp(s, 3, 3);
        say_cmd(s, an_io(4, NVME_WRITE, SGL_TRANSPORT, 2048));
        say_r2t(s, 4, 0xffff, 0, 2048);
        say_h2c(s, 4, 0xffff, 0, 2048, PDU_LAST);
        say_resp(s, 4, 4);
        say_cmd(s, an_io(5, NVME_READ, SGL_TRANSPORT, 10240));
        say_c2h(s, 5, 0, 4096, 0);
        say_c2h(s, 5, 4096, 4096, 0);
        say_c2h(s, 5, 8192, 2048, PDU_LAST);
        say_resp(s, 5, 5);
        say_cmd(s, an_io(6, NVME_FLUSH, SGL_TRANSPORT, 0));
        say_resp(s, 6, 6);
        say_cmd(s, a_fabrics(7, FCTYPE_DISCONNECT, SGL_TRANSPORT, 0));
        say_resp(s, 7, 7);
        say_term(s, PARTY_CONTROLLER, 72);
}

static void (*const sessions[])(struct session *s, unsigned dgst) = { admin_session, io_session };

enum { RUNS = 4 }; /* either session, without digests and with them */

static void run(struct session *s, unsigned which)
{
        session_begin(s);
        sessions[which % 2](s, which / 2 ? BOTH : 0);
        session_end(s);
}

/* --- each violator ---------------------------------------------------------------------------- */

/* Broken in what the tracker does not look at: namespaces, Connect's data, values that are read. */
static bool is_out_of_sight(enum rule_id rule)
{
        static const enum rule_id rules[] = {
                FAB_NSID,
                FAB_NSID_INACTIVE,
                FEAT_UNKNOWN,
                LOG_UNKNOWN,
                LOG_OFFSET,
                FAB_CONNECT_SQSIZE_MAX,
                NVM_RANGE,
                ID_CNS,
                FAB_CONNECT_CNTLID_DYN,
                FAB_CONNECT_CNTLID_IO,
                FAB_CONNECT_SUBNQN,
                FAB_CONNECT_SUBNQN_SYNTAX,
                FAB_CONNECT_HOSTNQN_SYNTAX,
                FAB_CONNECT_HOST,
                FAB_CONNECT_IO_SUBNQN,
                FAB_CONNECT_IO_HOSTNQN,
                FAB_CONNECT_IO_HOSTID,
                FAB_CONNECT_HOSTID_ZERO,
                FAB_CAP,
                KA_ROUND,
                LOG_INDEX,
                FAB_CONNECT_NVMSET,
                FAB_CONNECT_CNTLID_RSVD,
                FAB_CRMS,
                TCP_TERM_COPY_LEN_C2H,
        };

        for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
                if (rules[i] == rule)
                        return true;
        return false;
}

static bool is_of_fields(enum rule_id rule)
{
        for (unsigned i = 0; field_duty(i); i++)
                if (field_duty(i)->rule == rule)
                        return true;
        for (unsigned i = 0; page_duty(i); i++)
                if (page_duty(i)->rule == rule)
                        return true;
        for (unsigned i = 0; command_duty(i); i++)
                if (command_duty(i)->rule == rule)
                        return true;
        return answer_is_judged(rule);
}

/* Tested below, on data of its own, or with the fields (wire/tests: test_fields.c, test_pages.c,
 * test_answers.c, test_commands.c). */
static bool is_of_data(enum rule_id rule)
{
        const struct rule *r = rule_get(rule);

        return is_of_fields(rule) || (rule >= DISC_HEADER && rule <= DISC_TSAS_RSVD) ||
               ((!r->checked || !strstr(r->checked, "pdu/")) && !is_out_of_sight(rule));
}

/* What its sender broke besides `expected`. What the other side breaks does not count: it goes on
 * by its script as though nothing had happened. */
static void names_of(const struct rule_set *set, enum rule_id expected, char *names, size_t size)
{
        size_t len = 0;

        names[0] = '\0';
        rule_each (rule) {
                bool foreign = expected && rule_get(rule)->bound != rule_get(expected)->bound;

                if (rule_in(set, rule) && rule != expected && !foreign && len < size)
                        len += (size_t)snprintf(names + len, size - len, "%s ", rule_get(rule)->id);
        }
}

static void break_rule(enum rule_id rule)
{
        static struct session s;
        struct rule_set one = { 0 };
        bool struck = false, seen = false;
        char names[1000];

        rule_add(&one, rule);
        for (unsigned i = 0; i < RUNS; i++) {
                s.violated = &one;
                s.waived = NULL;
                run(&s, i);
                struck |= s.struck;
                seen |= rule_in(&s.reported, rule);
                names_of(&s.reported, rule, names, sizeof(names));
                if (names[0])
                        fail_msg("%s also breaks %s(run %u)", rule_get(rule)->id, names, i);
                s.waived = &one;
                run(&s, i);
                if (rule_in(&s.reported, rule))
                        fail_msg("%s is reported though it is waived", rule_get(rule)->id);
        }
        if (!struck)
                fail_msg("%s is never broken", rule_get(rule)->id);
        if (seen == is_out_of_sight(rule))
                fail_msg("%s is%s seen", rule_get(rule)->id, seen ? "" : " not");
}

static void sessions_keep_every_rule(void **state)
{
        static struct session s;
        char names[1000];

        (void)state;
        for (unsigned i = 0; i < RUNS; i++) {
                s.violated = s.waived = NULL;
                run(&s, i);
                names_of(&s.reported, RULE_NONE, names, sizeof(names));
                assert_string_equal(names, "");
        }
}

static void each_violator_breaks_just_its_rule(void **state)
{
        unsigned n = 0;

        (void)state;
        rule_each (rule) {
                if (!spoil_can(rule) || is_of_data(rule))
                        continue;
                break_rule(rule);
                n++;
        }
        assert_in_range(n, 80, RULES);
}

/* What is reported does not depend on how the bytes arrive. */
static void reports_do_not_depend_on_cuts(void **state)
{
        static const size_t cuts[] = { 1, 3, 40, 500, 3000 };
        static struct events whole, cut;
        static struct session s;
        struct rule_set one;

        (void)state;
        rule_each (rule) {
                one = (struct rule_set) { 0 };
                rule_add(&one, rule);
                if (!spoil_can(rule))
                        continue;
                for (unsigned i = 0; i < RUNS; i++) {
                        s = (struct session) { .violated = &one, .events = &whole };
                        run(&s, i);
                        s = (struct session) { .violated = &one, .events = &cut };
                        s.cut = cuts[(rule + i) % (sizeof(cuts) / sizeof(cuts[0]))];
                        run(&s, i);
                        assert_string_equal(whole.text, cut.text);
                }
        }
}

/* What a row says of the tables is what they have; what a case sends needs one. */
static void the_rows_know_the_tables(void **state)
{
        (void)state;
        rule_each (rule) {
                const struct rule *r = rule_get(rule);
                unsigned kinds = spoil_kinds_pdu(rule) | spoil_kinds_sqe(rule) |
                                 spoil_kinds_cqe(rule) | spoil_kinds_rdma(rule);

                if ((r->violators & V_TABLES) != kinds)
                        fail_msg("%s: the tables have %x, the row says %x", r->symbol, kinds,
                                 r->violators & V_TABLES);
                if ((r->violators & V_CASE) && !(r->seen & SEEN_LIVE))
                        fail_msg("%s: there is no case that breaks it", r->symbol);
        }
}

static bool has_flaw(unsigned rule)
{
        for (unsigned f = 1; f < nvme_rules.flaw_count; f++)
                if (nvme_rules.flaws[f].breaks == rule)
                        return true;
        return false;
}

static void flaws_break_what_the_rows_say(void **state)
{
        struct rule_policy policy = { 0 };

        (void)state;
        rule_each (rule)
                assert_int_equal(has_flaw(rule), (rule_get(rule)->violators & V_FLAW) != 0);
        for (unsigned f = 1; f < nvme_rules.flaw_count; f++) {
                const struct flaw *flaw = &nvme_rules.flaws[f];

                assert_int_equal(rulebook_flaw_by_name(&nvme_rules, flaw->id), f);
                assert_true(flaw->says && flaw->found_by);
        }
        rule_add(&policy.violated, ABORT_WHICH);
        rulebook_add_flaws(&nvme_rules, &policy);
        assert_true(flawed(&policy, FLAW_ABORT_OTHER));
        assert_false(flawed(&policy, FLAW_READ_LARGE) || flawed(NULL, FLAW_ABORT_OTHER));
}

static void what_happens_over_time_is_broken_elsewhere(void **state)
{
        static const enum rule_id elsewhere[] = { TCP_TERM_CLOSE, TCP_TERM_SILENCE, TCP_TERM_QUIET,
                                                  TCP_ICD_ADMIN,  TCP_CDB,          FAB_ANSWERED,
                                                  FAB_RDY,        FAB_SHST,         KA_EXPIRY,
                                                  AER_HELD,       DISC_GENCTR,      DISC_LISTED,
                                                  RULE_NONE };

        (void)state;
        for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
                assert_false(spoil_can(elsewhere[i]));
}

/* What a host sends when, only its case can; what binds the controller, no host. */
static void a_host_breaks_what_its_machines_can(void **state)
{
        static const enum rule_id can[] = { TCP_H2C_TTAG, TCP_ICREQ_PFV, FAB_CONNECT_SUBNQN,
                                            RDMA_HOST_KEY_CHECK, RDMA_HOST_RECEIVES };
        static const enum rule_id cannot[] = { FAB_ENABLED, FAB_AUTH_T_ID, RDMA_HOST_READS,
                                               TCP_C2H_CONTIG };

        (void)state;
        for (size_t i = 0; i < sizeof(can) / sizeof(can[0]); i++)
                assert_true(spoil_host_can(can[i]));
        for (size_t i = 0; i < sizeof(cannot) / sizeof(cannot[0]); i++)
                assert_false(spoil_host_can(cannot[i]));
}

static void a_violator_leaves_the_others_pdus_alone(void **state)
{
        struct rule_set all;
        union pdu h = { .ch.type = PDU_CAPSULE_RESP }, before = h;
        struct spoil s = { .h = &h };

        (void)state;
        memset(&all, 0xff, sizeof(all));
        assert_false(spoil_pdu(&all, PARTY_HOST, &s));
        h.ch.type = before.ch.type = 0x42;
        assert_false(spoil_pdu(&all, PARTY_HOST, &s));
        assert_memory_equal(&h, &before, sizeof(h));
}

/* --- values ----------------------------------------------------------------------------------- */

static bool spoil_one(enum rule_id rule, const union sqe *sqe, struct cqe *cqe, void *data,
                      uint32_t len)
{
        struct rule_set one = { 0 };

        rule_add(&one, rule);
        return spoil_completion(&one, sqe, cqe, data, len);
}

static size_t differing_bytes(const void *a, const void *b, size_t n)
{
        const uint8_t *p = a, *q = b;
        size_t count = 0;

        for (size_t i = 0; i < n; i++)
                count += p[i] != q[i];
        return count;
}

static void identify_data(void **state)
{
        union sqe sqe = a_command(1, NVME_IDENTIFY, SGL_TRANSPORT, IDENTIFY_LEN);
        struct id_ctrl id, good;
        struct cqe cqe = { 0 };

        (void)state;
        memset(&good, 0, sizeof(good));
        good.ioccsz = le32(4);
        good.sgls = le32(1);
        good.kas = le16(10);
        good.cntrltype = CNTRLTYPE_IO;
        good.maxcmd = le16(128);
        good.sqes = 0x66;
        good.fr[0] = '1';
        good.subnqn[0] = 'n';
        for (enum rule_id rule = ID_CNTLID; rule <= ID_QES; rule++) {
                id = good;
                sqe.cdw10 = le32(CNS_NS);
                assert_false(spoil_one(rule, &sqe, &cqe, &id, sizeof(id)));
                sqe.cdw10 = le32(CNS_CTRL);
                assert_true(spoil_one(rule, &sqe, &cqe, &id, sizeof(id)));
                assert_in_range(differing_bytes(&id, &good, sizeof(id)), 1, 4);
                assert_false(spoil_one(rule, &sqe, &cqe, NULL, 0));
                assert_false(spoil_one(rule, &sqe, &cqe, &id, 64));
        }
        spoil_one(ID_IOCCSZ, &sqe, &cqe, &id, sizeof(id));
        assert_int_equal(le32_get(id.ioccsz), 3);
        cqe.sf = status_field(NVME_INVALID_FIELD);
        assert_false(spoil_one(ID_SGLS, &sqe, &cqe, &id, sizeof(id)));
}

static void identify_namespace(void **state)
{
        static const struct {
                enum rule_id rule;
                uint8_t cns;
        } rules[] = { { ID_NS, CNS_NS }, { ID_NS_DESCS, CNS_NS_DESCS } };
        union sqe sqe = a_command(1, NVME_IDENTIFY, SGL_TRANSPORT, IDENTIFY_LEN);
        static struct id_ns ns, good;
        struct cqe cqe = { 0 };

        (void)state;
        for (int i = 0; i < 2; i++) {
                ns = good;
                sqe.cdw10 = le32(CNS_CTRL);
                assert_false(spoil_one(rules[i].rule, &sqe, &cqe, (uint8_t *)&ns, sizeof(ns)));
                sqe.cdw10 = le32(rules[i].cns);
                assert_true(spoil_one(rules[i].rule, &sqe, &cqe, (uint8_t *)&ns, sizeof(ns)));
                assert_in_range(differing_bytes(&ns, &good, sizeof(ns)), 1, 8);
        }
}

static void discovery_log(void **state)
{
        static const struct {
                enum rule_id rule;
                uint32_t offset;
        } places[] = {
                { DISC_HEADER, offsetof(struct disc_header, recfmt) },
                { DISC_ENTRY, DISC_HEADER_LEN + offsetof(struct disc_entry, trtype) },
                { DISC_TRSVCID, DISC_HEADER_LEN + offsetof(struct disc_entry, trsvcid) },
                { DISC_TSAS, DISC_HEADER_LEN + offsetof(struct disc_entry, tsas) },
                { DISC_TSAS_RSVD, DISC_HEADER_LEN + offsetof(struct disc_entry, tsas) + 255 },
        };
        union sqe sqe = a_command(1, NVME_GET_LOG_PAGE, SGL_TRANSPORT, 2048);
        uint8_t log[2048], good[2048];
        struct cqe cqe = { 0 };

        (void)state;
        memset(good, TRTYPE_TCP, sizeof(good));
        sqe.nsid = le32(1); /* a Read from LBA 70h has the same opcode */
        sqe.cdw10 = le32(LOG_DISCOVERY);
        assert_false(spoil_one(DISC_HEADER, &sqe, &cqe, good, sizeof(good)));
        sqe.nsid = le32(0);
        sqe.cdw10 = le32(LOG_DISCOVERY | 511 << 16);
        for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
                memcpy(log, good, sizeof(log));
                sqe.cdw12 = le32(0);
                assert_true(spoil_one(places[i].rule, &sqe, &cqe, log, sizeof(log)));
                assert_int_not_equal(log[places[i].offset], good[places[i].offset]);
                /* read in pieces the place is where its offset says, or not there */
                memcpy(log, good, sizeof(log));
                sqe.cdw12 = le32(DISC_HEADER_LEN);
                assert_int_equal(spoil_one(places[i].rule, &sqe, &cqe, log, 1024),
                                 places[i].offset >= DISC_HEADER_LEN);
                assert_false(spoil_one(places[i].rule, &sqe, &cqe, log, 0));
        }
}

static void properties_and_features(void **state)
{
        union sqe sqe = a_property(1, FCTYPE_PROPERTY_GET, PROP_VS, 0);
        struct cqe cqe = { .result = le64(0x20200) };

        (void)state;
        assert_true(spoil_one(FAB_VS, &sqe, &cqe, NULL, 0));
        assert_int_equal(le64_get(cqe.result), 0);
        assert_false(spoil_one(FAB_CC_READBACK, &sqe, &cqe, NULL, 0));
        sqe = a_property(1, FCTYPE_PROPERTY_GET, PROP_CC, 0);
        assert_true(spoil_one(FAB_CC_READBACK, &sqe, &cqe, NULL, 0));
        assert_int_not_equal(le64_get(cqe.result), 0);
        assert_false(spoil_one(FAB_CAP, &sqe, &cqe, NULL, 0));
}

static void the_rest_of_values(void **state)
{
        union sqe sqe = a_property(1, FCTYPE_PROPERTY_GET, PROP_CRTO, 0);
        struct cqe cqe = { 0 };

        (void)state;
        assert_true(spoil_one(FAB_CRTO, &sqe, &cqe, NULL, 0));
        assert_int_equal(cqe_status(&cqe), NVME_INVALID_FIELD);
        cqe = (struct cqe) { 0 };
        assert_false(spoil_one(FAB_PROP_RSVD, &sqe, &cqe, NULL, 0));
        sqe = a_property(1, FCTYPE_PROPERTY_GET, PROP_CSTS, 0);
        assert_true(spoil_one(FAB_PROP_RSVD, &sqe, &cqe, NULL, 0));
        assert_int_equal(le64_get(cqe.result), 1 << 20);
        sqe = a_command(1, NVME_ABORT, SGL_TRANSPORT, 0);
        assert_true(spoil_one(ABORT_UNKNOWN, &sqe, &cqe, NULL, 0));
        assert_int_equal(le32_get(cqe.dw0), 0);
        sqe.nsid = le32(1); /* Write Zeroes */
        assert_false(spoil_one(ABORT_UNKNOWN, &sqe, &cqe, NULL, 0));
}

static void features(void **state)
{
        union sqe sqe = a_command(1, NVME_GET_FEATURES, SGL_TRANSPORT, 0);
        struct cqe cqe = { 0 };
        uint8_t time[8] = { 0 };

        (void)state;
        assert_false(spoil_one(FEAT_KEPT, &sqe, &cqe, NULL, 0));
        sqe.cdw10 = le32(FEAT_AEC);
        assert_true(spoil_one(FEAT_KEPT, &sqe, &cqe, NULL, 0));
        assert_int_equal(le32_get(cqe.dw0), 1);
        sqe.cdw10 = le32(FEAT_AEC | 1 << 8); /* the default value */
        assert_false(spoil_one(FEAT_KEPT, &sqe, &cqe, NULL, 0));
        sqe.cdw10 = le32(FEAT_TIMESTAMP);
        assert_true(spoil_one(FEAT_KEPT, &sqe, &cqe, time, sizeof(time)));
        assert_int_equal(time[5], 1);
}

static void long_sgls(void **state)
{
        union sqe sqe = a_command(1, NVME_IDENTIFY, SGL_TRANSPORT, 4096);
        struct cqe cqe = { 0 };

        (void)state;
        assert_false(spoil_one(FAB_SGL_LONG, &sqe, &cqe, NULL, 0));
        sqe.sgl.len = le32(8192);
        assert_true(spoil_one(FAB_SGL_LONG, &sqe, &cqe, NULL, 0));
        assert_int_equal(cqe_status(&cqe), NVME_SGL_LENGTH);
        sqe = an_io(1, NVME_DSM, SGL_TRANSPORT, 16);
        assert_false(spoil_one(FAB_SGL_LONG, &sqe, &cqe, NULL, 0));
        sqe.sgl.len = le32(32);
        assert_true(spoil_one(FAB_SGL_LONG, &sqe, &cqe, NULL, 0));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(sessions_keep_every_rule),
                cmocka_unit_test(each_violator_breaks_just_its_rule),
                cmocka_unit_test(reports_do_not_depend_on_cuts),
                cmocka_unit_test(what_happens_over_time_is_broken_elsewhere),
                cmocka_unit_test(the_rows_know_the_tables),
                cmocka_unit_test(flaws_break_what_the_rows_say),
                cmocka_unit_test(a_host_breaks_what_its_machines_can),
                cmocka_unit_test(a_violator_leaves_the_others_pdus_alone),
                cmocka_unit_test(identify_data),
                cmocka_unit_test(identify_namespace),
                cmocka_unit_test(discovery_log),
                cmocka_unit_test(properties_and_features),
                cmocka_unit_test(long_sgls),
                cmocka_unit_test(the_rest_of_values),
                cmocka_unit_test(features),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
