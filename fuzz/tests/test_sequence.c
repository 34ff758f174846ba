/* SPDX-License-Identifier: BSD-3-Clause */
/* Sequences: text to steps and back, what is live in them, their mutators, and whole sessions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fuzz/fuzz.h"
#include "fuzz/seq_bind.h"
#include "fuzz/seq_mutate.h"
#include "fuzz/session.h"
#include "pdu/wire/crc32c.h"
#include "pdu/wire/fabrics.h"

static struct sequence seq;
static char text[SEQ_TEXT], err[200];

static void parse(const char *s)
{
        if (!seq_parse(&seq, s, strlen(s), err, sizeof(err)))
                fail_msg("%s", err);
}

static void refuses(const char *s, const char *why)
{
        assert_false(seq_parse(&seq, s, strlen(s), err, sizeof(err)));
        assert_string_equal(err, why);
}

/* --- text --------------------------------------------------------------------------------------- */

static void text_goes_in_and_out(void **state)
{
        static const char all[] = "sequence host config=3 scarce=7\n"
                                  "icreq dgst=3 hpda^=31 cut=1,8,128\n"
                                  "connect sqe.qid=1 poke=256:00ff\n"
                                  "write sqe.cdw12+=0xffffffffffffffff data=4096\n"
                                  "h2c ttag=0 datal+=4 of=2 violate=tcp/3.3.2.2/last-missing stale "
                                  "hdgst^=1 ddgst^=0x80000000\n"
                                  "auth_send data=hex:0102\n"
                                  "raw 0400480048000000 cut=3\n"
                                  "raw \n"
                                  "delay 20\n"
                                  "reset\n";

        (void)state;
        parse(all);
        assert_int_equal(seq.steps, 9);
        assert_int_equal(seq_print(&seq, text, sizeof(text)), strlen(all));
        assert_string_equal(text, all);
}

static void comments_blanks_and_short_names(void **state)
{
        (void)state;
        parse("# first\n\n  sequence  controller # who\n\tresp dw0=0x10  cid+=1 # twice\n\n");
        assert_int_equal(seq.side, PARTY_CONTROLLER);
        seq_print(&seq, text, sizeof(text));
        assert_string_equal(text, "sequence controller\nresp cqe.dw0=16 cqe.cid+=1\n");
}

static void errors_name_their_line(void **state)
{
        (void)state;
        refuses("", "line 0: there is no sequence in it");
        refuses("icreq\n", "line 1: the first line is 'sequence host' or 'sequence controller'");
        refuses("sequence target\n", "line 1: who plays: host or controller?");
        refuses("sequence host depth=1\n", "line 1: config=N or scarce=N, not 'depth'");
        refuses("sequence host\n\nicresp\n", "line 3: a host says no 'icresp'");
        refuses("sequence host\nh2c ttga=1\n", "line 2: no field 'ttga' in H2CData");
        refuses("sequence host\nh2c ttag\n", "line 2: 'ttag' wants =, += or ^= and a value");
        refuses("sequence host\nh2c ttag=x\n", "line 2: ttag wants a number");
        refuses("sequence host\nh2c ttag=1x\n", "line 2: 'x' behind a value");
        refuses("sequence host\nh2c ttag=18446744073709551616\n", "line 2: ttag is too large");
        refuses("sequence host\nh2c data=20481\n", "line 2: data is more than 20480");
        refuses("sequence host\nh2c data=hex:123\n", "line 2: data wants pairs of hex digits");
        refuses("sequence host\nh2c cut=8,8\n", "line 2: cuts have to ascend");
        refuses("sequence host\nh2c cut=8 cut=3\n", "line 2: cuts have to ascend");
        refuses("sequence host\nh2c cut=1,2,3,4,5\n", "line 2: more than 4 cuts");
        refuses("sequence host\nh2c violate=tcp/none\n", "line 2: no rule 'tcp/none'");
        refuses("sequence host\nclose ttag=1\n", "line 2: 'ttag' is not of this");
        refuses("sequence host\ndelay 600001\n", "line 2: delay is more than 600000");
        refuses("sequence host\nh2c !\n", "line 2: what is '!'?");
}

static void there_is_room_for_so_many_steps(void **state)
{
        char many[1024] = "sequence host\n";

        (void)state;
        for (int i = 0; i < SEQ_STEPS; i++)
                strcat(many, "close\n");
        parse(many);
        strcat(many, "close\n");
        refuses(many, "line 50: more than 48 steps");
}

/* --- what is live ------------------------------------------------------------------------------- */

static uint8_t out[BIND_ROOM];
static struct seq_bind bind;

static size_t say(unsigned step, union pdu *h)
{
        size_t n = seq_bind_say(&bind, &seq, &seq.step[step], out);

        memset(h, 0, sizeof(*h));
        memcpy(h, out, n < sizeof(*h) ? n : sizeof(*h));
        return n;
}

static void hear(union pdu h)
{
        seq_bind_heard(&bind, &h);
}

static void an_r2t_is_served_with_its_tag_and_digests(void **state)
{
        union pdu h, icresp = { .ch.type = PDU_ICRESP }, r2t = { .ch.type = PDU_R2T };
        le32_t crc;

        (void)state;
        parse("sequence host\nicreq dgst=3\nh2c data=1024\nh2c\nh2c ttag+=1 hdgst^=1\n");
        seq_bind_init(&bind, PARTY_HOST, "h", "s");
        assert_int_equal(say(0, &h), 128);
        icresp.icresp.dgst = 3;
        hear(icresp);
        r2t.data.cccid = le16(9);
        r2t.data.ttag = le16(77);
        r2t.data.offset = le32(512);
        r2t.data.length = le32(4096);
        hear(r2t);
        assert_int_equal(say(1, &h), 24 + 4 + 1024 + 4);
        assert_int_equal(le16_get(h.data.ttag), 77);
        assert_int_equal(le16_get(h.data.cccid), 9);
        assert_int_equal(le32_get(h.data.offset), 512);
        assert_int_equal(h.ch.flags, PDU_HDGSTF | PDU_DDGSTF);
        memcpy(&crc, out + 24, 4);
        assert_int_equal(le32_get(crc), crc32c(out, 24));
        assert_int_equal(say(2, &h), 24 + 4 + 3072 + 4);
        assert_int_equal(le32_get(h.data.offset), 1536);
        assert_true(h.ch.flags & PDU_LAST);
        assert_int_equal(bind.r2ts, 0);
        say(3, &h);
        assert_int_equal(le16_get(h.data.ttag), 1);
        memcpy(&crc, out + 24, 4);
        assert_int_equal(le32_get(crc), crc32c(out, 24) ^ 1);
}

static void a_controller_answers_what_it_was_asked(void **state)
{
        union pdu h, cmd = { .ch.type = PDU_CAPSULE_CMD };

        (void)state;
        parse("sequence controller\nc2h data=100\nc2h of=0\nresp\nresp\n");
        seq_bind_init(&bind, PARTY_CONTROLLER, "h", "s");
        cmd.cmd.sqe.cid = le16(5);
        cmd.cmd.sqe.sgl.len = le32(300);
        hear(cmd);
        cmd.cmd.sqe.cid = le16(6);
        hear(cmd);
        assert_int_equal(say(0, &h), 124);
        assert_int_equal(le16_get(h.data.cccid), 5);
        assert_false(h.ch.flags & PDU_LAST);
        assert_int_equal(say(1, &h), 224);
        assert_int_equal(le32_get(h.data.offset), 100);
        assert_true(h.ch.flags & PDU_LAST);
        say(2, &h);
        assert_int_equal(le16_get(h.resp.cqe.cid), 5);
        say(3, &h);
        assert_int_equal(le16_get(h.resp.cqe.cid), 6);
}

/* --- mutators ----------------------------------------------------------------------------------- */

static void mutants_print_and_parse(void **state)
{
        static struct sequence other;
        static char again[SEQ_TEXT];
        uint64_t seed = 1;

        (void)state;
        for (enum party side = PARTY_HOST; side <= PARTY_CONTROLLER; side++) {
                seq_begin(&seq, side, &seed);
                for (unsigned i = 0; i < 4000; i++) {
                        size_t n;

                        if (i % 50 == 0) {
                                seq_begin(&other, side, &seed);
                                seq_mutate(&other, &seed);
                                seq_splice(&seq, &other, &seed);
                        }
                        seq_mutate(&seq, &seed);
                        assert_int_equal(seq.side, side);
                        n = seq_print(&seq, text, sizeof(text));
                        parse(text);
                        assert_int_equal(seq_print(&seq, again, sizeof(again)), n);
                        assert_string_equal(text, again);
                }
        }
}

static void one_seed_makes_one_mutant(void **state)
{
        static uint8_t a[SEQ_TEXT], b[SEQ_TEXT];
        static const char first[] = "sequence host\nicreq\nconnect\n";
        size_t n, m;

        (void)state;
        for (unsigned seed = 0; seed < 100; seed++) {
                memcpy(a, first, sizeof(first) - 1);
                memcpy(b, first, sizeof(first) - 1);
                n = seq_mutate_text(a, sizeof(first) - 1, sizeof(a), seed, PARTY_HOST);
                m = seq_mutate_text(b, sizeof(first) - 1, sizeof(b), seed, PARTY_HOST);
                assert_int_equal(n, m);
                assert_memory_equal(a, b, n);
        }
}

/* --- sessions ----------------------------------------------------------------------------------- */

static struct session_report play(const char *s, int cuts)
{
        struct session_report r = { 0 };

        parse(s);
        session_play(&seq, cuts, &r);
        return r;
}

static const char *fault_of(const struct session_report *r)
{
        return is_fault(r->fault) ? rule_get(r->fault.rule)->id : "none";
}

static void a_lawful_session_is_answered_in_full(void **state)
{
        static const char lawful[] = "sequence host config=0x400\nicreq dgst=3 hpda=3\n"
                                     "connect qid=1\nwrite_icd\nwrite\nh2c data=1024\nh2c\n"
                                     "read cut=1,20,72\nflush\n";
        struct session_report r = play(lawful, SESSION_DECLARED);

        (void)state;
        assert_string_equal(fault_of(&r), "none");
        /* ICResp, Connect, Write, R2T, Write, C2HData, Read, Flush */
        assert_int_equal(r.pdus, 8);
        assert_string_equal(r.end, "live");
        assert_int_equal(play(lawful, SESSION_BYTES).digest, r.digest);
        assert_int_equal(play(lawful, SESSION_WHOLE).digest, r.digest);
}

static void what_is_wrong_is_found(void **state)
{
        static const struct {
                const char *text, *rule;
        } cases[] = {
                { "sequence host\nicreq\nicreq\n", "tcp/3.1/icreq-once" },
                { "sequence host\nicreq dgst=1\nconnect hdgst^=1\n", "tcp/3.3.1.1/hdgst-h2c" },
                { "sequence host\nicreq\nconnect qid=1\nwrite\nh2c ttag^=0x4000\n",
                  "tcp/3.3.2.2/ttag" },
                { "sequence host\nicreq\nconnect qid=1\nwrite\nh2c datao+=4\n",
                  "tcp/3.3.2.2/datao" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct session_report r = play(cases[i].text, SESSION_DECLARED);

                assert_string_equal(fault_of(&r), cases[i].rule);
                assert_true(r.terminated);
        }
}

static void a_host_is_served(void **state)
{
        struct session_report r = play("sequence controller config=0x20000\nicresp\nresp\nc2h\n"
                                       "resp\nresp\nresp\nr2t of=1\nc2h\nresp\nresp\n",
                                       SESSION_DECLARED);

        (void)state;
        assert_string_equal(fault_of(&r), "none");
        assert_string_equal(r.end, "live");
        assert_in_range(r.pdus, 6, 40);
        r = play("sequence controller\nicresp\nresp cqe.cid^=0x4000\n", SESSION_DECLARED);
        assert_true(r.terminated);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(text_goes_in_and_out),
                cmocka_unit_test(comments_blanks_and_short_names),
                cmocka_unit_test(errors_name_their_line),
                cmocka_unit_test(there_is_room_for_so_many_steps),
                cmocka_unit_test(an_r2t_is_served_with_its_tag_and_digests),
                cmocka_unit_test(a_controller_answers_what_it_was_asked),
                cmocka_unit_test(mutants_print_and_parse),
                cmocka_unit_test(one_seed_makes_one_mutant),
                cmocka_unit_test(a_lawful_session_is_answered_in_full),
                cmocka_unit_test(what_is_wrong_is_found),
                cmocka_unit_test(a_host_is_served),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
