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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(several_queues_are_served),
                cmocka_unit_test(each_session_finds_the_same),
                cmocka_unit_test(what_is_wrong_ends_the_connection_and_it_begins_anew),
                cmocka_unit_test(the_target_closes_what_is_over),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
