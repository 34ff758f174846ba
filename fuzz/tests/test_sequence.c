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
#include "fuzz/inproc/session.h"
#include "fuzz/nvme/seq_bind.h"
#include "fuzz/sequence/seq_mutate.h"
#include "pdu/core/crc32c.h"
#include "pdu/nvme/wire/fabrics.h"

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
        static const char all[] = "sequence host config=3 scarce=7 queues=3\n"
                                  "icreq dgst=3 hpda^=31 cut=1,8,128\n"
                                  "connect sqe.qid=1 poke=256:00ff\n"
                                  "write sqe.cdw12+=0xffffffffffffffff data=4096\n"
                                  "h2c ttag=0 datal+=4 of=2 violate=tcp/h2cdata/last-missing stale "
                                  "hdgst^=1 ddgst^=0x80000000\n"
                                  "auth_send data=hex:0102\n"
                                  "raw 0400480048000000 cut=3\n"
                                  "raw \n"
                                  "delay 20\n"
                                  "reload 3\n"
                                  "reset on=2\n";

        (void)state;
        parse(all);
        assert_int_equal(seq.steps, 10);
        assert_int_equal(seq_print(&seq, text, sizeof(text)), strlen(all));
        assert_string_equal(text, all);
}

static void rdma_goes_in_and_out(void **state)
{
        static const char *const all[] = {
                "sequence host rdma config=3 scarce=7 violate=rdma/accept/length\n"
                "request len=4 reads_in=0 qid=1 hsqsize^=3\n"
                "write len+=4 sqe.sgl.key^=1 sqe.sgl.id=79 data=4096 keys=3\n"
                "connect keys=0 violate=rdma/capsule/cid\n"
                "raw 0102\nfail remote_access_error of=2\nfail rnr_retry_count_exceeded\n"
                "remove\nclose\n",
                "sequence controller rdma\naccept crqsize=0 reads_in=1\nreject sts=9\n"
                "resp invalidate=1 key^=1 len=15 cqe.dw0=7 of=1\nread addr+=4 key=9 len=1\nwrite\n",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
                parse(all[i]);
                assert_int_equal(seq.transport, SEQ_RDMA);
                seq_print(&seq, text, sizeof(text));
                assert_string_equal(text, all[i]);
        }
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
        refuses("", "line 0: it contains no sequence");
        refuses("icreq\n", "line 1: the first line is 'sequence host' or 'sequence controller'");
        refuses("sequence target\n", "line 1: neither 'host' nor 'controller' follows 'sequence'");
        refuses("sequence host depth=1\n",
                "line 1: rdma, config=N, scarce=N, queues=N or violate=RULE, not 'depth'");
        refuses("sequence host\n\nicresp\n", "line 3: a host does not send 'icresp' over tcp");
        refuses("sequence host\nh2c ttga=1\n", "line 2: no field 'ttga' in H2CData");
        refuses("sequence host\nh2c ttag\n", "line 2: 'ttag' requires =, += or ^= and a value");
        refuses("sequence host\nh2c ttag=x\n", "line 2: ttag requires a number");
        refuses("sequence host\nh2c ttag=1x\n", "line 2: 'x' after a value");
        refuses("sequence host\nh2c ttag=18446744073709551616\n", "line 2: ttag is too large");
        refuses("sequence host\nh2c data=20481\n", "line 2: data is more than 20480");
        refuses("sequence host\nh2c data=hex:123\n", "line 2: data requires pairs of hex digits");
        refuses("sequence host\nh2c cut=8,8\n", "line 2: cuts have to ascend");
        refuses("sequence host\nh2c cut=8 cut=3\n", "line 2: cuts have to ascend");
        refuses("sequence host\nh2c cut=1,2,3,4,5\n", "line 2: more than 4 cuts");
        refuses("sequence host\nh2c violate=tcp/none\n", "line 2: no rule 'tcp/none'");
        refuses("sequence host\nclose ttag=1\n", "line 2: 'ttag' does not belong to this");
        refuses("sequence host\ndelay 600001\n", "line 2: delay is more than 600000");
        refuses("sequence host queues=5\n", "line 1: queues is more than 4");
        refuses("sequence host\nread on=1\n", "line 2: on is more than 0");
        refuses("sequence host\nreload 16\n", "line 2: reload is more than 15");
        refuses("sequence host queues=2\ndelay 1 on=1\n",
                "line 2: a delay applies to all connections");
        refuses("sequence host\nh2c !\n", "line 2: unknown word '!'");
}

static void what_is_of_one_transport_is_not_of_the_other(void **state)
{
        (void)state;
        refuses("sequence host rdma\nicreq\n", "line 2: a host does not send 'icreq' over rdma");
        refuses("sequence host\nrequest\n", "line 2: a host does not send 'request' over tcp");
        refuses("sequence host\nremove\n", "line 2: a host does not send 'remove' over tcp");
        refuses("sequence host rdma\nread cut=4\n", "line 2: cuts are possible in a stream only");
        refuses("sequence host rdma\nread stale\n",
                "line 2: 'stale' requires =, += or ^= and a value");
        refuses("sequence host rdma\nread hdgst^=1\n", "line 2: no field 'hdgst' in CapsuleCmd");
        refuses("sequence host rdma\nread plen=1\n", "line 2: no field 'plen' in CapsuleCmd");
        refuses("sequence host\nread keys=2\n", "line 2: keys belong to commands over rdma");
        refuses("sequence host rdma\nread keys=33\n", "line 2: keys is more than 32");
        refuses("sequence host rdma\nrequest sts=1\n", "line 2: no field 'sts' in request");
        refuses("sequence host rdma\nfail success\n", "line 2: no status 'success'");
        refuses("sequence host rdma violate=rdma/none\n", "line 1: no rule 'rdma/none'");
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
        size_t n = seq_bind_encode(&bind, &seq, &seq.step[step], out);

        memset(h, 0, sizeof(*h));
        memcpy(h, out, n < sizeof(*h) ? n : sizeof(*h));
        return n;
}

static void hear(union pdu h)
{
        struct message m = message_of_pdu(&h);

        seq_bind_received(&bind, &m);
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

static struct connect_data connect_said(unsigned step, uint16_t *qid)
{
        struct connect_data data;
        union pdu h;

        say(step, &h);
        *qid = le16_get(h.cmd.sqe.connect.qid);
        memcpy(&data, out + h.ch.pdo, sizeof(data));
        return data;
}

static void a_second_queue_joins_the_controller(void **state)
{
        static struct seq_bind admin;
        uint16_t qid;

        (void)state;
        parse("sequence host queues=2\nconnect\nconnect on=1\n");
        seq_bind_init(&bind, PARTY_HOST, "nqn.host", "nqn.sub");
        assert_int_equal(le16_get(connect_said(0, &qid).cntlid), CNTLID_DYNAMIC);
        assert_int_equal(qid, 0);
        hear((union pdu) { .resp = { .ch.type = PDU_CAPSULE_RESP, .cqe.dw0 = le32(7) } });
        admin = bind;
        seq_bind_init(&bind, PARTY_HOST, "nqn.host", "nqn.sub");
        bind.admin = &admin;
        bind.qid = 1;
        assert_int_equal(le16_get(connect_said(1, &qid).cntlid), 7);
        assert_int_equal(qid, 1);
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

/* --- what is live over RDMA --------------------------------------------------------------------- */

static uint8_t memory[BIND_MEMORY];

static void begin_rdma(const char *what, enum party side)
{
        parse(what);
        seq_bind_init(&bind, side, "nqn.host", "nqn.subsystem");
        bind.memory = (struct bind_memory) { .at = memory, .addr = 0x10000, .key = 0x77 };
}

static struct bind_work work(unsigned step)
{
        return seq_bind_work(&bind, &seq, &seq.step[step], out);
}

static struct rdma_data described(const struct bind_work *w, enum nvme_xfer xfer, uint32_t needs)
{
        struct rdma_format format = { .in_capsule = 8192, .icdoff = bind.format.icdoff };
        struct rdma_data data;

        assert_false(is_fault(rdma_data_read(out, w->len, &format, xfer, needs, NULL, &data)));
        return data;
}

static void data_is_described_by_keys_or_in_the_capsule(void **state)
{
        struct bind_work w;
        struct rdma_data data;

        (void)state;
        begin_rdma("sequence host rdma\nrequest qid=1\nconnect\nwrite keys=3 data=1000\n"
                   "write_icd data=512\nread sgl.id=0x4f sgl.key^=1 len+=4\nraw 0102\n",
                   PARTY_HOST);
        bind.format.icdoff = 2;
        w = work(0);
        assert_int_equal(w.type, SEQ_REQUEST);
        assert_int_equal(w.len, sizeof(struct rdma_request));
        assert_int_equal(w.reads_in, 16);
        w = work(1);
        data = described(&w, XFER_H2C, CONNECT_DATA_LEN);
        assert_int_equal(data.count, 1);
        assert_int_equal(le16_get(((const union sqe *)out)->connect.qid), 1);
        assert_string_equal((char *)memory + (data.keyed[0].addr - 0x10000) + 256, "nqn.subsystem");
        w = work(2);
        data = described(&w, XFER_H2C, 1000);
        assert_int_equal(w.len, 64 + 32 + 3 * 16);
        assert_int_equal(data.count, 3);
        assert_int_equal(data.keyed[2].addr, data.keyed[0].addr + 666);
        assert_int_equal(data.keyed[2].len, 334);
        w = work(3);
        data = described(&w, XFER_H2C, 512);
        assert_true(data.in_capsule);
        assert_int_equal(w.len, 64 + 32 + 512);
        w = work(4);
        assert_int_equal(w.len, 68);
        w.len = 64;
        data = described(&w, XFER_C2H, 4096);
        assert_true(data.invalidate);
        assert_int_equal(data.invalidate_key, 0x76);
        assert_int_equal(work(5).len, 2);
}

static void a_controller_answers_by_keys(void **state)
{
        struct message cmd = { .kind = MESSAGE_COMMAND, .sqe.cid = le16(5) };
        struct rdma_buffer buffer = { .addr = 0x5000, .len = 4096, .key = 9, .invalidate = true };
        struct bind_work w;

        (void)state;
        begin_rdma("sequence controller rdma\naccept\nread len=512\nwrite addr+=4\n"
                   "resp key^=1 dw0=7\nreject sts=9 len=2\n",
                   PARTY_CONTROLLER);
        sgl_put_keyed(&cmd.sqe.sgl, &buffer);
        seq_bind_asked(&bind, &(struct rdma_request) { .hsqsize = le16(7) });
        seq_bind_received(&bind, &cmd);
        work(0);
        assert_int_equal(le16_get(((const struct rdma_accept *)out)->crqsize), 8);
        w = work(1);
        assert_true(w.type == SEQ_READ && w.addr == 0x5000 && w.len == 512 && w.key == 9);
        w = work(2);
        assert_true(w.type == SEQ_WRITE && w.addr == 0x5204 && w.len == 3584);
        w = work(3);
        assert_true(w.invalidate && w.key == 8 && w.len == 16);
        assert_int_equal(le16_get(((const struct cqe *)out)->cid), 5);
        w = work(4);
        assert_int_equal(w.len, 2);
}

static void a_rule_of_rdma_is_broken(void **state)
{
        (void)state;
        begin_rdma("sequence host rdma\nrequest violate=rdma/request/hrqsize\n", PARTY_HOST);
        work(0);
        assert_int_equal(le16_get(((const struct rdma_request *)out)->hrqsize), 0);
}

/* --- mutators ----------------------------------------------------------------------------------- */

static void mutants_print_and_parse(void **state)
{
        static struct sequence other;
        static char again[SEQ_TEXT];
        uint64_t seed = 1;

        (void)state;
        for (unsigned all = 0; all < 4; all++) {
                enum party side = all % 2;
                enum seq_transport transport = all / 2;

                seq_begin(&seq, &nvme_fuzz, transport, side, &seed);
                for (unsigned i = 0; i < 2000; i++) {
                        size_t n;

                        if (i % 50 == 0) {
                                seq_begin(&other, &nvme_fuzz, transport, side, &seed);
                                seq_mutate(&other, &seed);
                                seq_splice(&seq, &other, &seed);
                        }
                        seq_mutate(&seq, &seed);
                        assert_int_equal(seq.side, side);
                        assert_int_equal(seq.transport, transport);
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
                n = seq_mutate_text(a, sizeof(first) - 1, sizeof(a), seed, SEQ_TCP, PARTY_HOST);
                m = seq_mutate_text(b, sizeof(first) - 1, sizeof(b), seed, SEQ_TCP, PARTY_HOST);
                assert_int_equal(n, m);
                assert_memory_equal(a, b, n);
        }
}

static bool is_fused_pair(const struct seq_step *step)
{
        for (unsigned i = 0; i < 2; i++)
                if (step[i].changes != 1 || step[i].on != step->on ||
                    strcmp(step[i].change[0].field->name, "sqe.flags") != 0 ||
                    step[i].change[0].value != SQE_PSDT_SGL + SQE_FUSE_FIRST + i)
                        return false;
        return true;
}

static void mutants_know_what_belongs_together(void **state)
{
        uint64_t seed = 1;
        unsigned pairs = 0;

        (void)state;
        for (unsigned i = 0; i < 500; i++) {
                seq_begin(&seq, &nvme_fuzz, SEQ_TCP, PARTY_HOST, &seed);
                seq_mutate(&seq, &seed);
                for (unsigned at = 0; at + 1 < seq.steps; at++)
                        pairs += is_fused_pair(&seq.step[at]);
        }
        assert_in_range(pairs, 1, 100);
}

/* How many changes are to this number, of 500 mutants. */
static unsigned mutants_with(uint64_t value)
{
        uint64_t seed = 1;
        unsigned n = 0;

        for (unsigned i = 0; i < 500; i++) {
                seq_begin(&seq, &nvme_fuzz, SEQ_TCP, PARTY_HOST, &seed);
                seq_mutate(&seq, &seed);
                for (unsigned at = 0; at < seq.steps; at++)
                        for (unsigned k = 0; k < seq.step[at].changes; k++)
                                n += seq.step[at].change[k].value == value;
        }
        return n;
}

static void mutants_know_the_limits(void **state)
{
        (void)state;
        assert_int_equal(mutants_with(12346), 0);
        seq_mutate_limits((const uint64_t[]) { 12345 }, 1);
        assert_in_range(mutants_with(12344), 1, 100);
        assert_in_range(mutants_with(12346), 1, 100);
        seq_mutate_limits(NULL, 0);
        assert_int_equal(mutants_with(12346), 0);
}

/* After the step that makes the queue ready: how many commands have less data than they need. */
static unsigned short_ones(const char *ready)
{
        unsigned n = 0, at = 0;

        while (at < seq.steps && (seq.step[at].kind != SEQ_PDU || seq.step[at].changes > 0 ||
                                  strcmp(seq.step[at].template->name, ready) != 0))
                at++;
        for (uint8_t on = at < seq.steps ? seq.step[at++].on : 0; at < seq.steps; at++) {
                const struct seq_step *step = &seq.step[at];

                n += step->kind == SEQ_PDU && step->on == on && step->has_data &&
                     step->template->type == PDU_CAPSULE_CMD &&
                     step->data_len < step->template->data_len;
        }
        return n;
}

static void mutants_say_commands_where_they_are_executed(void **state)
{
        unsigned admin = 0, io = 0;
        uint64_t seed = 1;

        (void)state;
        for (unsigned i = 0; i < 4000; i++) {
                parse("sequence host queues=2\nicreq\nconnect qid=0\nenable\nicreq on=1\nconnect "
                      "on=1\n");
                seq_mutate(&seq, &seed);
                admin += short_ones("enable");
                io += short_ones("connect");
        }
        assert_in_range(admin, 20, 400);
        assert_in_range(io, 20, 400);
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
                { "sequence host\nicreq\nicreq\n", "tcp/setup/icreq-once" },
                { "sequence host\nicreq dgst=1\nconnect hdgst^=1\n", "tcp/digest/hdgst-h2c" },
                { "sequence host\nicreq\nconnect qid=1\nwrite\nh2c ttag^=0x4000\n",
                  "tcp/h2cdata/ttag" },
                { "sequence host\nicreq\nconnect qid=1\nwrite\nh2c datao+=4\n",
                  "tcp/h2cdata/datao" },
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

static void capsules_are_answered_over_rdma(void **state)
{
        struct session_report r =
            play("sequence host rdma config=0x1020\nrequest qid=1 reads_in=4\nconnect\n"
                 "write_icd\nwrite keys=3\nread sgl.id=0x4f\nread keys=2\nflush\nclose\n",
                 SESSION_DECLARED);

        (void)state;
        assert_string_equal(fault_of(&r), "none");
        assert_int_equal(r.pdus, 6); /* Connect and five commands */
        assert_int_equal(r.heard, 6 * 16 + 2 * 4096);
        assert_string_equal(r.end, "dead");
}

static void a_host_is_served_over_rdma(void **state)
{
        struct session_report r = play("sequence controller rdma config=0x20000\naccept\n"
                                       "read\nresp\nwrite\nresp\nread\nresp\nresp\nresp\n",
                                       SESSION_DECLARED);

        (void)state;
        assert_string_equal(fault_of(&r), "none");
        assert_string_equal(r.end, "live");
        assert_in_range(r.pdus, 10, 12);
}

static void what_is_wrong_over_rdma_ends_it(void **state)
{
        static const struct {
                const char *text, *rule, *end;
        } cases[] = {
                { "sequence host rdma\nrequest hsqsize=0\n", "rdma/request/hsqsize", "dead" },
                { "sequence host rdma\nrequest\nconnect len=63\n", "rdma/capsule/length", "dead" },
                { "sequence host rdma\nrequest qid=1\nconnect\nwrite sgl.key^=1\n", "none",
                  "dead" },
                { "sequence host rdma\nrequest qid=1\nconnect\nfail flushed\nwrite\n", "none",
                  "dead" },
                { "sequence host rdma\nrequest\nremove\nconnect\n", "none", "dead" },
                { "sequence controller rdma\nreject\n", "none", "dead" },
                { "sequence controller rdma\naccept\nresp cqe.cid^=0x4000\n", "rdma/response/cid",
                  "dead" },
                { "sequence controller rdma\naccept\nresp invalidate=1\n",
                  "rdma/key/invalidate-unasked", "dead" },
                { "sequence controller rdma\naccept\nread key^=1\n", "none", "dead" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct session_report r = play(cases[i].text, SESSION_DECLARED);

                assert_string_equal(fault_of(&r), cases[i].rule);
                assert_string_equal(r.end, cases[i].end);
        }
}

static void the_other_side_may_break_a_rule(void **state)
{
        static const char lawful[] = "sequence host\nicreq\nconnect qid=1\nread\n",
                          broken[] =
                              "sequence host violate=tcp/c2hdata/last\nicreq\nconnect qid=1\n"
                              "read\n";

        (void)state;
        assert_int_equal(play(lawful, SESSION_DECLARED).pdus, 4);
        assert_int_equal(play(broken, SESSION_DECLARED).pdus, 4);
        assert_int_not_equal(play(lawful, SESSION_DECLARED).digest,
                             play(broken, SESSION_DECLARED).digest);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(text_goes_in_and_out),
                cmocka_unit_test(rdma_goes_in_and_out),
                cmocka_unit_test(comments_blanks_and_short_names),
                cmocka_unit_test(errors_name_their_line),
                cmocka_unit_test(what_is_of_one_transport_is_not_of_the_other),
                cmocka_unit_test(there_is_room_for_so_many_steps),
                cmocka_unit_test(an_r2t_is_served_with_its_tag_and_digests),
                cmocka_unit_test(a_second_queue_joins_the_controller),
                cmocka_unit_test(a_controller_answers_what_it_was_asked),
                cmocka_unit_test(data_is_described_by_keys_or_in_the_capsule),
                cmocka_unit_test(a_controller_answers_by_keys),
                cmocka_unit_test(a_rule_of_rdma_is_broken),
                cmocka_unit_test(mutants_print_and_parse),
                cmocka_unit_test(one_seed_makes_one_mutant),
                cmocka_unit_test(mutants_know_what_belongs_together),
                cmocka_unit_test(mutants_know_the_limits),
                cmocka_unit_test(mutants_say_commands_where_they_are_executed),
                cmocka_unit_test(a_lawful_session_is_answered_in_full),
                cmocka_unit_test(what_is_wrong_is_found),
                cmocka_unit_test(a_host_is_served),
                cmocka_unit_test(capsules_are_answered_over_rdma),
                cmocka_unit_test(a_host_is_served_over_rdma),
                cmocka_unit_test(what_is_wrong_over_rdma_ends_it),
                cmocka_unit_test(the_other_side_may_break_a_rule),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
