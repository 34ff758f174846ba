/* SPDX-License-Identifier: BSD-3-Clause */
/* A family of a few lines, whose peer says back what it is told: the suite's engine needs no more, and
 * this program finds no header of a protocol. */
#include "conformance/engine/conform.h"
#include "conformance/engine/family.h" /* before cmocka makes macros of fail and skip */
#include "conformance/engine/option_rows.h"

#include <unistd.h>

#define CASE_FAMILY echo_conform
static const struct conform_family echo_conform;

enum { ECHO_SAME = 1, ECHO_SHORT, ECHO_RULES };

static const struct rule echo_rows[ECHO_RULES] = {
        [ECHO_SAME] = { .symbol = "ECHO_SAME",
                        .id = "echo/reply/same",
                        .bound = PARTY_CONTROLLER,
                        .basis = BASIS_PRINTED,
                        .source = "Echo 1.0 1",
                        .says = "A reply is the request.",
                        .reaction = REACT_STATUS,
                        .accept = { { .code = 7, .place = PLACE_ANY } },
                        .unchecked = "an example",
                        .violators = 1 },
        [ECHO_SHORT] = { .symbol = "ECHO_SHORT",
                         .id = "echo/request/short",
                         .bound = PARTY_HOST,
                         .level = LEVEL_SHOULD,
                         .source = "Echo 1.0 2",
                         .says = "A request should be short.",
                         .unchecked = "an example",
                         .unbroken = "an example" },
};
static const char *const echo_violators[] = { "the peer", NULL };
static const struct rulebook echo_rules = {
        .name = "echo", .rows = echo_rows, .count = ECHO_RULES, .violators = echo_violators
};
static const struct topic echo_topics[] = { { "echo/reply", "Replies" },
                                            { "udp/loss", "What is lost" },
                                            { NULL, NULL } };
static const char *const echo_transports[] = { "tcp", "udp", NULL };
static const struct family echo_family = {
        .name = "Echo", .rules = &echo_rules, .topics = echo_topics, .transports = echo_transports
};

struct echo { /* suite.peer */
        bool wrong;
};

static char answer(struct t *t, char said)
{
        char back = ((const struct echo *)t->suite->peer)->wrong ? '?' : said;

        exchange_header(&t->log, 1, true, 1, &said, 1, "request");
        exchange_header(&t->log, 1, false, 1, &back, 1, "reply");
        if (back != said)
                t_notice(t, ECHO_SAME, "reply '?'");
        t_settle(t);
        return back;
}

CASE("echo/reply/same", MUST, RULES(ECHO_SAME), "A letter comes back")
{
        want_eq(t, "letter", (uint8_t)answer(t, 'a'), 'a');
}

CASE("echo/reply/capital", MUST, NO_RULE, "A letter comes back as a capital", .slow = true)
{
        char back = answer(t, 'a');

        want(t, back == 'A', "the letter A", "the letter %c", back);
}

CASE("udp/loss/twice", INFO, NO_RULE, "A reply that is lost is not sent again")
{
        note(t, "nothing was lost");
}

#define OPTION_ARGS struct options
static const struct option_row echo_options[] = {
        { 0 },
};

static int check(struct options *o)
{
        return o->suite.role == ROLE_HOST ? options_wrong("there are no cases of hosts") : 0;
}

static void *start(const struct options *o, const struct rule_policy *policy, struct suite *s,
                   char *error, size_t size)
{
        static struct echo sound, spoilt = { .wrong = true };

        (void)o, (void)error, (void)size;
        return s->peer = rule_in(&policy->violated, ECHO_SAME) ? &spoilt : &sound;
}

static void stop(void *started)
{
        (void)started;
}

static bool probe(struct suite *s, struct probed *p, char *error, size_t size)
{
        (void)s, (void)error, (void)size;
        p->count = 0;
        return true;
}

static void describe(const struct suite *s, struct run *run)
{
        snprintf(run->target, sizeof(run->target), "echo over %s", s->transport);
        snprintf(run->abilities, sizeof(run->abilities), "letters");
}

static const char *entity(const struct suite *s)
{
        return s->transport;
}

static const struct test_case *liveness(const struct suite *s)
{
        (void)s;
        return NULL;
}

static const char *why_not(const struct suite *s, const struct test_case *c, bool range)
{
        (void)s, (void)range;
        return c->writes ? "nothing is stored" : NULL;
}

static bool range_piece(const struct suite *s, unsigned range, unsigned i, char name[LEASE_NAME])
{
        (void)s;
        snprintf(name, LEASE_NAME, "test/%d/%u", getpid(), range);
        return i == 0;
}

static unsigned ranges(const struct suite *s)
{
        (void)s;
        return 0;
}

static void none(struct t *t)
{
        (void)t;
}

static void fields(const struct exchange_line *l, char *buf, size_t size)
{
        snprintf(buf, size, "letter : %c\n", l->header[0]);
}

static void outcome(const struct rule *r, const struct outcome *o, char *buf, size_t size)
{
        (void)r;
        snprintf(buf, size, "refusal %u", o->code);
}

static const struct conform_family echo_conform = {
        .family = &echo_family,
        .options = echo_options,
        .args_size = sizeof(struct options),
        .check = check,
        .start = start,
        .stop = stop,
        .probe = probe,
        .describe = describe,
        .entity = entity,
        .liveness = liveness,
        .why_not = why_not,
        .ranges = ranges,
        .range_piece = range_piece,
        .begin = none,
        .settle = none,
        .end = none,
        .fields = fields,
        .outcome = outcome,
        .port = 7,
        .spec = "# key\tparty\tlevel\twhen\tshows\trules\tgist\n"
                "E1.0/1/a\tcontroller\tshall\tany\tlive\techo/reply/same\tA reply says the same.\n"
                "E1.0/1/b\tboth\tshall\tany\tlive,capture\t\tLetters are ASCII.\n"
                "E1.0/2/a\thost\tshould\tudp\tno: no clock\t\tHosts wait.\n",
};

/* --- what the engine makes of it ----------------------------------------------------------- */

#include "conformance/engine/spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static char folder[] = "/tmp/nvmfspec-family-XXXXXX";
static char printed[1 << 16]; /* by the last conform() */

static const char *in_folder(const char *name)
{
        static char path[128];

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        return path;
}

static const char *read_back(const char *name)
{
        FILE *f = fopen(in_folder(name), "r");
        size_t n;

        assert_non_null(f);
        n = fread(printed, 1, sizeof(printed) - 1, f);
        printed[n] = '\0';
        fclose(f);
        return printed;
}

static const struct conform_family *const echo_families[] = { &echo_conform, NULL };

/* Words apart by spaces; in the folder. The exit code. */
static int conform(const char *words)
{
        char line[256], *argv[32] = { "conform" }, *rest = line;
        int argc = 1, code, out;

        snprintf(line, sizeof(line), "%s", words);
        while ((argv[argc] = strsep(&rest, " ")))
                argc++;
        assert_int_equal(chdir(folder), 0);
        fflush(stdout);
        out = dup(STDOUT_FILENO);
        assert_non_null(freopen(in_folder("out"), "w", stdout));
        code = conform_command(echo_families, argc, argv);
        fflush(stdout);
        dup2(out, STDOUT_FILENO);
        close(out);
        read_back("out");
        return code;
}

static void write_file(const char *name, const char *text)
{
        FILE *f = fopen(in_folder(name), "w");

        assert_non_null(f);
        fputs(text, f);
        fclose(f);
}

static void shows(const char *text)
{
        if (!strstr(printed, text))
                fail_msg("'%s' is not in:\n%s", text, printed);
}

static void cases_and_rules_are_listed(void **state)
{
        (void)state;
        assert_int_equal(conform("--list"), 0);
        shows("echo/reply  Replies\n");
        shows("must    slow          echo/reply/capital");
        shows("2 cases");
        assert_int_equal(conform("-t udp --list"), 0);
        shows("udp/loss  What is lost\n");
        shows("3 cases");
        assert_int_equal(conform("-t rdma --list"), 2);
        assert_int_equal(conform("--rules"), 0);
        shows("error status: refusal 7");
        shows("2 rules, 1 of them with cases");
        assert_int_equal(conform("--explain echo/reply/same"), 0);
        shows("want_eq(t, \"letter\"");
}

static void the_specification_is_listed_with_what_judges_it(void **state)
{
        (void)state;
        assert_int_equal(conform("--spec"), 0);
        shows("E1.0/1\n  a  controller shall (any): A reply says the same.\n"
              "      echo/reply/same: cases for targets\n");
        shows("Letters are ASCII.\n      NOT JUDGED\n");
        shows("Hosts wait.\n      can't be judged: no clock\n");
        assert_int_equal(conform("--spec --count"), 0);
        shows("all                  3  1 of 2, 50 %        0 of 1, 0 %         0 of 1, 0 %         "
              "1");
        assert_int_equal(conform("--spec --json spec.json"), 0);
        read_back("spec.json");
        shows("\"echo/reply/same\"");
        assert_int_equal(conform("--spec --html spec.html"), 0);
        read_back("spec.html");
        shows("<td>1 of 2, 50 %</td>");
        shows("<td class=\"v judged\">judged</td><td class=\"n\"><code>E1.0/1/a</code></td>");
        shows("<i>no clock</i>");
        assert_int_equal(conform("echo/reply/same --html run.html"), 0);
        read_back("run.html");
        shows("<td class=\"v covered\">covered</td><td class=\"n\"><code>E1.0/1/a</code></td>");
        shows("<td class=\"v open\">open</td>");
        assert_int_equal(conform("--spec --rules"), 2);
}

static void a_table_that_is_wrong_is_refused_with_its_line(void **state)
{
        static const char *const wrong[][2] = {
                { "E/1/a\thost\tshall\tany\tlive\t\n", "has fewer than seven columns" },
                { "E/1/a\thost\tshall\tany\tlive\t\tG\tH\n", "has more than seven columns" },
                { "E/a\thost\tshall\tany\tlive\t\tG\n", "has a key that is not DOCUMENT" },
                { "E/1/a\tboss\tshall\tany\tlive\t\tG\n", "has a party that is not" },
                { "E/1/a\thost\tmust\tany\tlive\t\tG\n", "has a level that is not" },
                { "E/1/a\thost\tshall\tany\tseldom\t\tG\n", "does not say how a breach shows" },
                { "E/1/a\thost\tshall\tany\tlive\techo/x\tG\n",
                  "names a rule that does not exist" },
                { "E/1/a\tcontroller\tshall\tany\tlive\techo/request/short\tG\n",
                  "names a rule that binds the other party, and demands no reaction" },
                { "E/1/a\thost\tshall\tany\tlive\t\tG\nE/1/a\thost\tshall\tany\tlive\t\tG\n",
                  "line 2 of the table (E/1/a) has a key that an earlier one has" },
        };
        struct conform_family f = echo_conform;
        struct spec s;
        char error[512];

        (void)state;
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                f.spec = wrong[i][0];
                assert_false(spec_read(&s, &f, error, sizeof(error)));
                if (!strstr(error, wrong[i][1]))
                        fail_msg("'%s' is not in: %s", wrong[i][1], error);
        }
}

static void selection_takes_what_is_there(void **state)
{
        (void)state;
        assert_int_equal(conform("echo/reply/same"), 0);
        shows("1 passed");
        assert_int_equal(conform("--rule echo/reply/same"), 0);
        assert_int_equal(conform("--rule tcp/icreq/pfv"), 2);
        assert_int_equal(conform("tcp"), 2);
        assert_int_equal(conform("udp/loss"), 2); /* not over its first transport */
        assert_int_equal(conform("--role host"), 2);
}

static void a_run_has_its_reports(void **state)
{
        (void)state;
        assert_int_equal(conform("--json json --junit junit --html html --tap tap --transcript t"),
                         1);
        shows("echo over tcp\nletters\n");
        shows("fail     capital");
        shows("expected  the letter A\n  seen      the letter a");
        shows("#1 <- reply");
        shows("FAIL  1 passed, 1 failed");
        read_back("json");
        shows("\"verdict\":\"fail\"");
        shows("\"not_covered\":[\n      \"echo/request/short\"");
        read_back("t/echo_reply_capital.txt");
        shows("letter : a");
}

static void a_baseline_excuses(void **state)
{
        (void)state;
        write_file("known", "echo/reply/capital fail # it can't\n");
        assert_int_equal(conform("--baseline known"), 0);
        shows("known    capital");
        write_file("known", "echo/reply/loud fail\n");
        assert_int_equal(conform("--baseline known"), 2);
}

static void a_broken_rule_is_found(void **state)
{
        (void)state;
        assert_int_equal(conform("--violate echo/reply/same echo/reply/same"), 1);
        shows("rule      echo/reply/same (Echo 1.0 1; must; printed)");
        assert_int_equal(conform("--power echo/reply/same"), 0);
        shows("power: 1 of 1");
}

static int make_folder(void **state)
{
        (void)state;
        return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
        char command[64];

        (void)state;
        snprintf(command, sizeof(command), "rm -r %s", folder);
        return system(command);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(cases_and_rules_are_listed),
                cmocka_unit_test(the_specification_is_listed_with_what_judges_it),
                cmocka_unit_test(a_table_that_is_wrong_is_refused_with_its_line),
                cmocka_unit_test(selection_takes_what_is_there),
                cmocka_unit_test(a_run_has_its_reports),
                cmocka_unit_test(a_baseline_excuses),
                cmocka_unit_test(a_broken_rule_is_found),
        };

        return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
