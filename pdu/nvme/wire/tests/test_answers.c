/* SPDX-License-Identifier: BSD-3-Clause */
/* Each row of answers.def: there are controllers that have the duty, and a wrong answer breaks it. */
#include "pdu/core/tests/check.h"

#include "pdu/nvme/wire/answers.h"
#include "pdu/nvme/wire/fabrics.h"

static struct answerer some(const struct id_ctrl *c)
{
        return (struct answerer) { .cntrltype = CNTRLTYPE_IO,
                                   .vs = NVME_VERSION(2, 2, 0),
                                   .cap = UINT64_C(1) << 43,
                                   .ctrl = c,
                                   .active = 1,
                                   .inactive = 7 };
}

/* With all that is optional, as far as it has a bit; with nothing. */
static void make(struct id_ctrl *all, struct id_ctrl *none)
{
        memset(none, 0, sizeof(*none));
        memset(all, 0xff, sizeof(*all));
        all->npss = 3;
        all->nn = le32(16);
        all->endgidmax = le16(4);
        all->mxtmt = le16(400);
}

static union sqe sent(const struct ask *a)
{
        return (union sqe) { .opc = a->opc,
                             .nsid = le32(a->nsid),
                             .cdw10 = le32(a->cdw10),
                             .cdw11 = le32(a->cdw11),
                             .cdw12 = le32(a->cdw12),
                             .cdw13 = le32(a->cdw13),
                             .cdw14 = le32(a->cdw14) };
}

static void each(void **state)
{
        static struct id_ctrl ctrls[2];
        const struct answer_duty *d;

        (void)state;
        make(&ctrls[0], &ctrls[1]);
        for (unsigned i = 0; (d = answer_duty(i)); i++) {
                bool applies = false;

                for (unsigned k = 0; k < 2; k++) {
                        struct answerer who = some(&ctrls[k]);
                        struct rule_set found = { 0 };
                        struct ask ask = answer_ask(&who, i);
                        union sqe sqe = sent(&ask);

                        if (!answer_applies(&who, i))
                                continue;
                        applies = true;
                        assert_true(answer_is_right(i, d->statuses[0]));
                        answer_judge(&who, &sqe, d->statuses[0], &found);
                        if (rule_in(&found, d->rule))
                                fail_msg("%s is wrong by another row", d->says);
                        answer_judge(&who, &sqe, NVME_SUCCESS, &found);
                        if (rule_in(&found, d->rule) == answer_is_right(i, NVME_SUCCESS))
                                fail_msg("%s: a success is not judged", d->says);
                        who.vs = d->since - 1;
                        if (d->since && answer_applies(&who, i))
                                fail_msg("%s binds too early", d->says);
                }
                if (!applies)
                        fail_msg("nobody has this duty: %s (%s)", d->says, d->key);
        }
}

static void spoils(void **state)
{
        static const enum rule_id rules[] = { LOG_ANSWERS, ID_ANSWERS, FEAT_ANSWERS, CMD_ANSWERS,
                                              ANSWERS_ADVISED };
        static struct id_ctrl ctrls[2];

        (void)state;
        make(&ctrls[0], &ctrls[1]);
        for (size_t r = 0; r < sizeof(rules) / sizeof(rules[0]); r++) {
                struct answerer who = some(&ctrls[1]);
                unsigned spoilt = 0;

                assert_true(answer_is_judged(rules[r]));
                for (unsigned i = 0; answer_duty(i); i++) {
                        struct ask ask = answer_ask(&who, i);
                        union sqe sqe = sent(&ask);
                        uint16_t right = answer_duty(i)->statuses[0];

                        if (answer_duty(i)->rule == rules[r])
                                spoilt += answer_spoil(rules[r], &sqe, right) != right;
                }
                assert_true(spoilt > 0);
        }
        assert_false(answer_is_judged(FAB_SQHD));
}

/* Base 2.0 3.1.3.1: without CAP.CSS bit 6 nobody has to look at CSI. */
static void ignores_csi(void **state)
{
        static struct id_ctrl ctrls[2];
        union sqe sqe = { .opc = NVME_IDENTIFY, .cdw10 = le32(CNS_IOCS_CTRL) };
        struct answerer who = some(&ctrls[1]);
        struct rule_set found = { 0 };

        (void)state;
        make(&ctrls[0], &ctrls[1]);
        sqe.cdw11 = le32(UINT32_C(0x20) << 24);
        who.vs = NVME_VERSION(2, 0, 0);
        who.cap = 0;
        answer_judge(&who, &sqe, NVME_SUCCESS, &found);
        assert_false(rule_in(&found, ID_ANSWERS));
        who.cap = UINT64_C(1) << 43;
        answer_judge(&who, &sqe, NVME_SUCCESS, &found);
        assert_true(rule_in(&found, ID_ANSWERS));
}

/* Base 2.0 5.27.1.26 and 5.27.1.27 only advise to refuse them. */
static void of_all_namespaces(void **state)
{
        static const uint8_t fids[] = { FEAT_RESERVATION_MASK, FEAT_RESERVATION_PERSISTENCE };
        static struct id_ctrl ctrls[2];
        struct answerer who = some(&ctrls[0]);

        (void)state;
        make(&ctrls[0], &ctrls[1]);
        for (unsigned i = 0; i < sizeof(fids); i++) {
                union sqe sqe = { .opc = NVME_GET_FEATURES,
                                  .nsid = le32(NSID_ALL),
                                  .cdw10 = le32(fids[i]) };
                struct rule_set found = { 0 };

                who.vs = NVME_VERSION(2, 0, 0);
                answer_judge(&who, &sqe, NVME_SUCCESS, &found);
                assert_false(rule_in(&found, FEAT_ANSWERS));
                who.vs = NVME_VERSION(2, 2, 0);
                answer_judge(&who, &sqe, NVME_SUCCESS, &found);
                assert_true(rule_in(&found, FEAT_ANSWERS));
        }
}

/* N1.2 4.1.5.4: action 02h is announced elsewhere than in OACS. */
static void gets_lba_status(void **state)
{
        static struct id_ctrl ctrls[2];
        struct answerer who = some(&ctrls[1]);
        union sqe sqe = { .opc = 0x86, .nsid = le32(1), .cdw12 = le32(1023) };
        struct rule_set found = { 0 };

        (void)state;
        make(&ctrls[0], &ctrls[1]);
        answer_judge(&who, &sqe, NVME_SUCCESS, &found);
        sqe.cdw13 = le32(UINT32_C(0x02) << 24);
        answer_judge(&who, &sqe, NVME_SUCCESS, &found);
        assert_false(rule_in(&found, CMD_ANSWERS));
        sqe.cdw13 = le32(UINT32_C(0x10) << 24);
        answer_judge(&who, &sqe, NVME_SUCCESS, &found);
        assert_true(rule_in(&found, CMD_ANSWERS));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each),
                cmocka_unit_test(spoils),
                cmocka_unit_test(ignores_csi),
                cmocka_unit_test(of_all_namespaces),
                cmocka_unit_test(gets_lba_status),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
