/* SPDX-License-Identifier: BSD-3-Clause */
/* What is left of a sequence when all that can go went. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fuzz/campaign/minimise.h"
#include "fuzz/nvme/templates.h"
#include "fuzz/sequence/seq_mutate.h"

static struct sequence seq;
static char text[SEQ_TEXT], err[200];

static void parse(const char *s)
{
        if (!seq_parse(&seq, s, strlen(s), err, sizeof(err)))
                fail_msg("%s", err);
}

struct need { /* bad is a text in which all these words stand in this order */
        const char *words[6];
        unsigned asked, limit; /* after so many trials nothing is bad any more; 0: always */
};

static bool has_words(const struct sequence *s, void *user)
{
        static char own[SEQ_TEXT];
        struct need *need = user;
        const char *at = own;

        if (++need->asked > need->limit && need->limit > 0)
                return false;
        seq_print(s, own, sizeof(own));
        for (unsigned i = 0; i < 6 && need->words[i] && at; i++)
                at = strstr(at, need->words[i]);
        return at;
}

static const char rich[] = "sequence host config=0x21 scarce=4\n"
                           "icreq dgst=3 hpda=4 cut=1,8,20\n"
                           "delay 1000\n"
                           "connect sqe.qid=1 poke=256:00ff\n"
                           "write sqe.cdw12=7 sqe.cdw10=3 data=4096 cut=8,72\n"
                           "h2c datal+=4 of=2 violate=tcp/h2cdata/last-missing stale hdgst^=1\n"
                           "raw 0400480048000000 cut=3\n"
                           "reset\n";

static void only_what_matters_stays(void **state)
{
        struct need need = { .words = { "dgst=3", "write", "cdw10", "data=", "h2c" } };
        unsigned trials;

        (void)state;
        parse(rich);
        trials = seq_minimise(&seq, has_words, &need);
        assert_int_equal(trials, need.asked);
        seq_print(&seq, text, sizeof(text));
        assert_string_equal(text, "sequence host\nicreq dgst=3\nwrite sqe.cdw10=3 data=0\nh2c\n");
        assert_true(trials < 150);
}

static void bits_and_bytes_stay_where_they_matter(void **state)
{
        struct need need = { .words = { "config=3", "8", "raw 04004800" } };

        (void)state;
        parse(
            "sequence host config=0x21 scarce=4\nread cut=1,8,20\nraw 0400480048000000\ndelay 9\n");
        seq_minimise(&seq, has_words, &need);
        seq_print(&seq, text, sizeof(text));
        assert_string_equal(text, "sequence host config=32\nread cut=8\nraw 04004800\n");
        assert_int_equal(seq.pooled, 4);
}

static bool has_data(const struct sequence *s, void *user)
{
        const unsigned *edge = user;

        return s->steps == 1 && s->step[0].has_data && s->step[0].data_len >= *edge;
}

static void a_length_at_an_edge_is_found(void **state)
{
        unsigned edge = 1025;

        (void)state;
        parse("sequence host\nwrite data=20000\n");
        assert_true(seq_minimise(&seq, has_data, &edge) < 60);
        assert_int_equal(seq.step[0].data_len, edge);
}

static void who_runs_out_of_time_keeps_the_best(void **state)
{
        struct need need = { .words = { "h2c" }, .limit = 6 };
        unsigned trials;

        (void)state;
        parse(rich);
        trials = seq_minimise(&seq, has_words, &need);
        assert_true(trials < 100);
        seq_print(&seq, text, sizeof(text));
        assert_non_null(strstr(text, "h2c"));
}

/* Whatever is bad is bad still, and no larger. */
static void mutants_stay_bad(void **state)
{
        (void)state;
        for (uint64_t n = 1; n <= 300; n++) {
                struct need need = { .words = { "\nconnect", "\n" } };
                uint64_t seed = n;
                unsigned steps;

                seq_begin(&seq, &nvme_fuzz, SEQ_TCP, PARTY_HOST, &seed);
                for (unsigned i = 0; i < n % 40; i++)
                        seq_mutate(&seq, &seed);
                if (!has_words(&seq, &need))
                        continue;
                steps = seq.steps;
                seq_minimise(&seq, has_words, &need);
                assert_true(seq.steps <= steps);
                seq_print(&seq, text, sizeof(text));
                assert_true(strcmp(text, "sequence host\nconnect\n") == 0 ||
                            strcmp(text, "sequence host\nconnect_r2t\n") == 0);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(only_what_matters_stays),
                cmocka_unit_test(bits_and_bytes_stay_where_they_matter),
                cmocka_unit_test(a_length_at_an_edge_is_found),
                cmocka_unit_test(who_runs_out_of_time_keeps_the_best),
                cmocka_unit_test(mutants_stay_bad),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
