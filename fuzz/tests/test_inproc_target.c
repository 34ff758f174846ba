/* SPDX-License-Identifier: BSD-3-Clause */
/* The target in this process: sessions of one and of several connections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fuzz/inproc/inproc_target.h"
#include "pdu/nvme/wire/tcp.h"

static unsigned said[SEQ_QUEUES], heard[SEQ_QUEUES], ends[SEQ_QUEUES][2];

static void on_bytes(void *user, unsigned on, enum party sender, const void *p, size_t n)
{
        (void)user;
        if (!p)
                ends[on][sender]++;
        else
                *(sender == PARTY_HOST ? &said[on] : &heard[on]) += (unsigned)n;
}

static struct inproc_report play(const char *text)
{
        static struct sequence s;
        struct inproc_report r = { .bytes = on_bytes };
        char err[200];

        memset(said, 0, sizeof(said));
        memset(heard, 0, sizeof(heard));
        memset(ends, 0, sizeof(ends));
        if (!seq_parse(&s, text, strlen(text), err, sizeof(err)))
                fail_msg("%s", err);
        inproc_play(&s, &r);
        return r;
}

static void several_queues_are_served(void **state)
{
        struct inproc_report r = play("sequence host queues=3\nicreq\nconnect\nenable\n"
                                      "icreq on=1\nconnect on=1\nwrite on=1\nh2c on=1\nread on=1\n"
                                      "icreq on=2\nconnect on=2\nread on=2\n");

        (void)state;
        /* ICResp and Connect everywhere, enable; R2T, response, data, response; data, response */
        assert_int_equal(r.pdus, 3 * 2 + 1 + 4 + 2);
        assert_int_equal(heard[0], 128 + 2 * 24);
        assert_int_equal(heard[1], 128 + 24 + 24 + 24 + 24 + 4096 + 24);
        assert_int_equal(ends[1][PARTY_HOST], 1);
        assert_int_equal(ends[1][PARTY_CONTROLLER], 0);
}

static void each_session_finds_the_same(void **state)
{
        static const char text[] = "sequence host queues=2\nicreq\nconnect\nenable\n"
                                   "icreq on=1\nconnect on=1\nread on=1\n"
                                   "write_icd on=1\nread on=1\nget_smart\ndelay 3000\nidentify\n";
        struct inproc_report first = play(text), second = play(text);

        (void)state;
        assert_int_equal(first.pdus, second.pdus);
        assert_int_equal(first.digest, second.digest);
}

/* What a host changes in a subsystem outlives its controllers, but not the session. */
static void nothing_of_a_session_is_found_by_the_next_one(void **state)
{
        static const char look[] = "sequence host queues=2\nicreq\nconnect\nenable\n"
                                   "identify_list\nidentify_ns\nget_log cdw10=0xff000d\n"
                                   "icreq on=1\nconnect on=1\nread on=1\nwrite_icd on=1\n";
        static const char *const change[] = {
                "set_features opc=13 nsid=1 cdw10=1 cdw11=0\n", /* Namespace Management: delete */
                "set_features opc=36 cdw10=0x910 cdw11=0\n",    /* Lockdown: Set Features */
                "set_features nsid=1 cdw10=0x84 cdw11=1\n",     /* write protection */
                "set_features opc=0x84 cdw10=2 cdw11=0\ndelay 1\n", /* Sanitize */
                "disable\nenable\ndisable\nenable\n",
        };
        const struct inproc_report before = play(look);
        char text[300];

        (void)state;
        for (size_t i = 0; i < sizeof(change) / sizeof(change[0]); i++) {
                snprintf(text, sizeof(text), "sequence host\nicreq\nconnect\nenable\n%s",
                         change[i]);
                play(text);
                assert_int_equal(play(look).digest, before.digest);
        }
}

static void what_is_wrong_ends_the_connection_and_it_begins_anew(void **state)
{
        struct inproc_report r =
            play("sequence host\nicreq\nicreq\nconnect\nclose\nicreq\nconnect\n");

        (void)state;
        assert_int_equal(r.pdus, 2 + 2);
        assert_int_equal(ends[0][PARTY_HOST], 2);
}

/* The association ends with its admin queue. */
static void the_target_closes_what_is_over(void **state)
{
        (void)state;
        play("sequence host queues=2\nicreq\nconnect\nenable\nicreq on=1\nconnect on=1\nclose\n");
        assert_int_equal(ends[1][PARTY_CONTROLLER], 1);
        play("sequence host\nicreq\nconnect kato=1000\nenable\ndelay 4000\n");
        assert_int_equal(ends[0][PARTY_CONTROLLER], 1);
}

/* Who knows the key is let in, by a computation that waits for a delay, too; a stranger is not. */
static void hosts_authenticate_themselves(void **state)
{
        static const char all[] = "icreq\nconnect\nauth_send\nauth_receive\ndelay 1\nauth_send\n"
                                  "delay 1\nauth_receive\nauth_send\nenable\nidentify\n";
        char text[300];
        unsigned pages[3];

        (void)state;
        for (unsigned i = 0; i < 3; i++) {
                snprintf(text, sizeof(text), "sequence host config=%d\n%s",
                         INPROC_SECRET | (i == 1   ? INPROC_LATE
                                          : i == 2 ? INPROC_STRANGER
                                                   : 0),
                         all);
                play(text);
                pages[i] = heard[0] > 4096;
        }
        assert_int_equal(pages[0], 1);
        assert_int_equal(pages[1], 1);
        assert_int_equal(pages[2], 0);
}

static void configurations_come_and_go(void **state)
{
        static const char *const leave[] = { "config=1\nicreq\nconnect\nreload 3\nidentify\n",
                                             "\nicreq\nconnect\nreload 4\nidentify\n",
                                             "\nicreq\nconnect\nreload 5\nidentify\n" };
        char text[200];

        (void)state;
        for (unsigned i = 0; i < 3; i++) {
                snprintf(text, sizeof(text), "sequence host %s", leave[i]);
                play(text);
                assert_int_equal(ends[0][PARTY_CONTROLLER], 1);
        }
        play("sequence host queues=2\nreload 6\nicreq\nreload 0\nconnect\nenable\nicreq "
             "on=1\nconnect on=1\n"
             "write cdw10=120 on=1\nreload 2\nh2c on=1\nreload 1\nread on=1\n");
        assert_int_equal(ends[1][PARTY_CONTROLLER], 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(several_queues_are_served),
                cmocka_unit_test(each_session_finds_the_same),
                cmocka_unit_test(nothing_of_a_session_is_found_by_the_next_one),
                cmocka_unit_test(what_is_wrong_ends_the_connection_and_it_begins_anew),
                cmocka_unit_test(the_target_closes_what_is_over),
                cmocka_unit_test(hosts_authenticate_themselves),
                cmocka_unit_test(configurations_come_and_go),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
