/* SPDX-License-Identifier: BSD-3-Clause */
/* What is left out of what is played. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "fuzz/nvme/avoid.h"

#include <cmocka.h>

static char error[200];

static bool adds(struct avoid *a, enum seq_transport t, const char *what)
{
        error[0] = '\0';
        return avoid_add(a, t, what, error, sizeof(error));
}

static void values_of_a_step(void **state)
{
        const struct seq_template *request = nvme_template_by_name(SEQ_RDMA, PARTY_HOST, "request");
        const struct seq_template *connect = nvme_template_by_name(SEQ_RDMA, PARTY_HOST, "connect");
        union seq_work w = { .request.hrqsize = le16(1023) };
        struct avoid a = { 0 };

        (void)state;
        assert_false(avoid_message(NULL, request, &w));
        assert_true(adds(&a, SEQ_RDMA, "request.hrqsize>1023"));
        assert_false(avoid_message(&a, request, &w));
        w.request.hrqsize = le16(1024);
        assert_true(avoid_message(&a, request, &w));
        assert_false(avoid_message(&a, connect, &w));
        assert_true(adds(&a, SEQ_RDMA, "request.hrqsize<2"));
        assert_true(adds(&a, SEQ_RDMA, "request.hrqsize=0x10"));
        w.request.hrqsize = le16(2);
        assert_false(avoid_message(&a, request, &w));
        w.request.hrqsize = le16(1);
        assert_true(avoid_message(&a, request, &w));
        w.request.hrqsize = le16(16);
        assert_true(avoid_message(&a, request, &w));
}

static void rules_of_hosts(void **state)
{
        struct rule_set broken = { 0 };
        struct avoid a = { 0 };

        (void)state;
        rule_add(&broken, RDMA_ICD_OFFSET);
        assert_false(avoid_rules(NULL, &broken));
        assert_false(avoid_rules(&a, &broken));
        assert_true(adds(&a, SEQ_RDMA, "rdma/in-capsule/offset"));
        assert_true(avoid_rules(&a, &broken));
        broken = (struct rule_set) { 0 };
        rule_add(&broken, RDMA_ICD_LENGTH);
        assert_false(avoid_rules(&a, &broken));
}

static void what_is_neither(void **state)
{
        static const char *const wrong[] = {
                "",
                "request",
                "request.hrqsize",
                "request.hrqsize>",
                "request.hrqsize>many",
                "request.ttag>1",                /* no such field */
                "icreq.dgst=1",                  /* not over RDMA */
                "fab/connect/not-invalid-field", /* the controller's */
        };
        struct avoid a = { 0 };

        (void)state;
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                assert_false(adds(&a, SEQ_RDMA, wrong[i]));
                assert_non_null(strstr(error, "neither"));
        }
        assert_true(adds(&a, SEQ_TCP, "icreq.dgst=1"));
        for (int i = 1; i < AVOID_VALUES; i++)
                assert_true(adds(&a, SEQ_TCP, "icreq.dgst=1"));
        assert_false(adds(&a, SEQ_TCP, "icreq.dgst=1"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(values_of_a_step),
                cmocka_unit_test(rules_of_hosts),
                cmocka_unit_test(what_is_neither),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
