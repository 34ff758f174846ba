/* SPDX-License-Identifier: BSD-3-Clause */
/* What is counted of commands, and how the page shows it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/nvme/machine/request.h"
#include "target/nvme/metrics.h"

static struct metrics *one, *two;

static int set_up(void **state)
{
        (void)state;
        one = calloc(1, sizeof(*one));
        two = calloc(1, sizeof(*two));
        return !one || !two;
}

static int tear_down(void **state)
{
        (void)state;
        free(one);
        free(two);
        return 0;
}

static void command(struct metrics *m, uint16_t qid, uint8_t opc, uint16_t status, uint64_t ns)
{
        struct request r = { 0 };

        r.sqe.opc = opc;
        r.cqe.sf = status_field(status);
        metrics_command(m, qid, &r, ns);
}

static char *page(bool timed)
{
        struct metrics_sum *sum = calloc(1, sizeof(*sum));
        size_t len;
        char *text;

        assert_non_null(sum);
        metrics_sum_add(sum, one);
        metrics_sum_add(sum, two);
        sum->timed = timed;
        text = metrics_text(sum, &len);
        assert_non_null(text);
        assert_int_equal(strlen(text), len);
        free(sum);
        return text;
}

static void has(const char *text, const char *line)
{
        if (!strstr(text, line))
                fail_msg("no line %s", line);
}

#define COMMANDS "nvmfspec_commands_total{queue=\"%s\",command=\"%s\",status=\"%s\"} "

static void commands_by_status(void **state)
{
        static const struct {
                uint16_t status;
                const char *name;
        } rows[] = {
                { NVME_SUCCESS, "success" },
                { NVME_INVALID_FIELD | STATUS_DNR, "generic" },
                { NVME_AER_LIMIT, "command_specific" },
                { NVME_COMPARE_FAILURE, "media" },
                { NVME_ANA_LOSS, "path" },
                { 4 << 8 | 1, "other" },
                { 7 << 8 | 1, "other" },
        };
        char line[120], *text;

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                command(i & 1 ? one : two, 1, NVME_READ, rows[i].status, 0);
        text = page(false);
        for (size_t i = 0; i < 5; i++) {
                snprintf(line, sizeof(line), COMMANDS "1\n", "io", "Read", rows[i].name);
                has(text, line);
        }
        snprintf(line, sizeof(line), COMMANDS "2\n", "io", "Read", "other");
        has(text, line);
        assert_null(strstr(text, "duration"));
        free(text);
}

/* Whatever opcodes hosts send, the page is no longer for it. */
static void opcodes_without_name(void **state)
{
        char line[120], *text;

        (void)state;
        for (unsigned qid = 0; qid < 2; qid++)
                for (unsigned opc = 0xc0; opc < 0x100; opc++)
                        command(one, (uint16_t)qid, (uint8_t)opc, NVME_INVALID_OPCODE, 0);
        command(one, 0, NVME_FABRICS, 0, 0); /* Property Set: both are 0 */
        text = page(false);
        snprintf(line, sizeof(line), COMMANDS "64\n", "io", "unknown", "generic");
        has(text, line);
        snprintf(line, sizeof(line), COMMANDS "64\n", "admin", "unknown", "generic");
        has(text, line);
        snprintf(line, sizeof(line), COMMANDS "1\n", "fabrics", "Property Set", "success");
        has(text, line);
        free(text);
}

static void times(void **state)
{
        char *text;

        (void)state;
        command(one, 1, NVME_WRITE, 0, 10000); /* bounds belong to what is below them */
        command(two, 1, NVME_WRITE, 0, 10001);
        command(one, 1, NVME_WRITE, 0, UINT64_C(20000000000));
        command(one, 0, NVME_AER, 0, UINT64_C(1) << 60); /* waits, and is not slow */
        text = page(true);
#define WRITES "nvmfspec_command_duration_seconds_bucket{command=\"Write\",le="
        has(text, WRITES "\"5e-06\"} 0\n");
        has(text, WRITES "\"1e-05\"} 1\n");
        has(text, WRITES "\"2.5e-05\"} 2\n");
        has(text, WRITES "\"10\"} 2\n");
        has(text, WRITES "\"+Inf\"} 3\n");
        has(text, "nvmfspec_command_duration_seconds_sum{command=\"Write\"} 20.000020001\n");
        has(text, "nvmfspec_command_duration_seconds_count{command=\"admin\"} 0\n");
        free(text);
}

static void broken_rules(void **state)
{
        char *text = page(false);

        (void)state;
        assert_null(strstr(text, "rule="));
        free(text);
        metric_add(&one->faults[TCP_H2C_TTAG], 2);
        metric_add(&two->faults[TCP_H2C_TTAG], 1);
        metric_add(&one->opened[METRIC_IO], 3);
        metric_add(&two->closed[METRIC_IO], 1);
        text = page(false);
        has(text, "nvmfspec_protocol_errors_total{rule=\"tcp/h2cdata/ttag\"} 3\n");
        has(text, "nvmfspec_queues{type=\"io\"} 2\n");
        has(text, "nvmfspec_reactors 2\n");
        free(text);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(commands_by_status),
                TEST(opcodes_without_name),
                TEST(times),
                TEST(broken_rules),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
