/* SPDX-License-Identifier: BSD-3-Clause */
/* Captures of NVMe/RDMA as sequences: what is played and recorded reads back, and says the same. */
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz/nvme/seq_bind.h"
#include "fuzz/nvme/seq_capture.h"
#include "fuzz/sequence/seq_mutate.h"
#include "pdu/io/loop.h"
#include "pdu/nvme/io/nvme_record.h"
#include "rdma_target.h"

enum { SAID = 2 * SEQ_STEPS, MUTANTS = 150, PCAP_HEADER = 24 /* bytes */ };

struct wire { /* what a host said: the SQEs of its capsules */
        union sqe said[SAID];
        unsigned n;
        uint64_t addr[SEQ_QUEUES]; /* of a connection's first descriptor */
        uint32_t key[SEQ_QUEUES];
        bool cut[SEQ_QUEUES]; /* a capsule ended before it told where its data lies */
};

static char file[] = "/tmp/capture_rdma.XXXXXX";
static struct corpus back;
static char err[CORPUS_ERROR];
static struct wire *heard;

/* Where a host's data lies, and by which key, is the session's: told from the first one on, as far
 * as it is any of its memory. */
static void relate(struct wire *w, unsigned on, struct sgl *s)
{
        struct rdma_buffer b;
        uint8_t id = s->id;

        if (id == SGL_IN_CAPSULE || id == SGL_LAST_IN_CAPSULE)
                return;
        s->id = SGL_KEYED;
        (void)sgl_get_keyed(s, &b);
        if (w->key[on] == 0 && b.len > 0) {
                w->addr[on] = b.addr;
                w->key[on] = b.key;
        }
        if (w->cut[on])
                b.addr = 0;
        else if (b.addr > 0)
                b.addr -= w->addr[on];
        if (b.addr + BIND_MEMORY > 2 * BIND_MEMORY)
                b.addr = UINT64_MAX;
        b.key = b.key > 0 ? 1u + (b.key == w->key[on]) : 0;
        sgl_put_keyed(s, &b);
        s->id = id;
}

static void add(struct wire *w, unsigned on, const void *capsule, size_t n)
{
        union sqe *sqe = &w->said[w->n];

        if (w->n == SAID)
                return;
        *sqe = (union sqe) { 0 };
        memcpy(sqe, capsule, n < sizeof(*sqe) ? n : sizeof(*sqe));
        w->cut[on] |= sqe->sgl.id == 0;
        relate(w, on, &sqe->sgl);
        w->n++;
}

static void on_message(void *user, unsigned on, enum party sender, const void *message)
{
        const struct message *m = message;

        (void)user; /* the player */
        if (sender == PARTY_HOST)
                add(heard, on, &m->sqe, sizeof(m->sqe));
}

/* What the host of a sequence says, whatever comes back. */
static void say_all(const struct sequence *s, struct wire *wire)
{
        static struct seq_bind bind[SEQ_QUEUES];
        static uint8_t memory[BIND_MEMORY], out[BIND_ROOM];

        for (unsigned i = 0; i < SEQ_QUEUES; i++) {
                seq_bind_init(&bind[i], PARTY_HOST, "", "");
                bind[i].qid = (uint16_t)i;
                bind[i].memory = (struct bind_memory) { .at = memory, .addr = 1 << 30, .key = 7 };
        }
        memset(wire->key, 0, sizeof(wire->key));
        memset(wire->cut, 0, sizeof(wire->cut));
        for (unsigned i = 0; i < s->steps; i++) {
                const struct seq_step *step = &s->step[i];
                struct bind_work w = { 0 };

                if (step->kind <= SEQ_RAW)
                        w = seq_bind_work(&bind[step->on], s, step, out);
                if (w.type == PDU_CAPSULE_CMD)
                        add(wire, step->on, out, w.len);
        }
}

static struct remote_answer play_by(const struct campaign_config *c, const struct sequence *s,
                                    struct wire *wire)
{
        struct remote_answer a;
        struct player p;
        struct loop loop;

        assert_int_equal(loop_init(&loop), 0);
        assert_int_equal(player_init(&p, c, &loop), 0);
        heard = wire;
        memset(wire->key, 0, sizeof(wire->key));
        memset(wire->cut, 0, sizeof(wire->cut));
        p.session->message = on_message;
        player_play(&p, s);
        a = p.session->answer;
        player_fini(&p);
        loop_fini(&loop);
        return a;
}

static struct remote_answer record(struct capture_writer *w, const struct sequence *s,
                                   struct wire *wire)
{
        struct campaign_config recorded = config;
        struct nvme_peer by = peer;
        struct remote_answer a;

        recorded.target.peer = &by;
        by.host.verbs = nvme_record_new(verbs, w);
        assert_non_null(by.host.verbs);
        a = play_by(&recorded, s, wire);
        verbs_record_free(by.host.verbs);
        return a;
}

static struct capture_writer *new_capture(void)
{
        struct capture_writer *w = capture_writer_open(file, err, sizeof(err));

        if (!w)
                fail_msg("%s", err);
        return w;
}

static void read_back(const char *path)
{
        corpus_free(&back);
        if (!seq_capture(&back, path, err))
                fail_msg("%s", err);
}

/* False: nothing of it went out. */
static bool record_and_read(const struct sequence *s, struct wire *wire)
{
        struct capture_writer *w = new_capture();
        struct stat is;

        record(w, s, wire);
        assert_int_equal(capture_writer_close(w), 0);
        assert_int_equal(stat(file, &is), 0);
        if (is.st_size == PCAP_HEADER)
                return false;
        read_back(file);
        return true;
}

static void parse(struct sequence *s, const char *text)
{
        if (!seq_parse(s, text, strlen(text), err, sizeof(err)))
                fail_msg("%s", err);
}

static void begin(void)
{
        start(NULL);
        config.target.allow_write = true;
        config.target.settle = 1000;
}

/* A delay stands for an answer that was there already; a close at the end for a connection that the
 * controller gave up, if the host was first to say so. */
static void print_what_counts(const struct sequence *s, char text[SEQ_TEXT])
{
        static const char delay[] = "delay 2\n";
        struct sequence copy = *s;
        char *at;

        if (copy.step[copy.steps - 1].kind == SEQ_CLOSE)
                seq_remove(&copy, copy.steps - 1);
        seq_print(&copy, text, SEQ_TEXT);
        while ((at = strstr(text, delay)))
                memmove(at, at + strlen(delay), strlen(at + strlen(delay)) + 1);
}

/* Everything that the wire shows of it, and nothing else: the text is the same. */
static void what_is_played_reads_back(void **state)
{
        static const char *const texts[] = {
                "sequence host rdma\nrequest\nconnect\nproperty_get "
                "sqe.cdw11=8\nenable\nidentify\n",
                "sequence host rdma\nrequest reads_in=4 hsqsize=7\nconnect sqe.cdw11=7\nraw 00\n",
                "sequence host rdma\nrequest recfmt=7\n",
                "sequence host rdma queues=3\nrequest\nconnect\nenable\nrequest on=2\nconnect "
                "on=2\n"
                "request on=1\nconnect keys=0 on=1\nwrite_icd on=1\nread sqe.sgl.id=79 on=2\n"
                "close on=2\nflush on=1\n",
                "sequence host rdma queues=2\nrequest hsqsize=0\nrequest on=1\n",
                "sequence host rdma queues=2\nrequest\nconnect\nenable\nrequest on=1\nconnect "
                "on=1\n"
                "read on=1\nwrite sqe.sgl.addr^=256 on=1\n",
                "sequence host rdma\nrequest\nconnect\nkeep_alive sqe.cid^=0x8000\nabort of=1\n"
                "identify sqe.sgl.key^=1\nidentify sqe.sgl.key=0\n",
                "sequence host rdma\nrequest\nconnect\nget_smart\nget_log "
                "sqe.sgl.addr^=8\nidentify "
                "data=512\nidentify sqe.sgl.len=0x100000\nkeep_alive len=80\n",
                "sequence host rdma queues=2\nrequest\nconnect\nenable\nrequest on=1\nconnect "
                "on=1\n"
                "write_icd poke=7:abcd keys=1 on=1\nwrite sqe.cdw12=3 data=2048 on=1\n"
                "read sqe.sgl.id=0x5a on=1\ncompare data=1024 keys=3 on=1\n",
        };
        static char text[SEQ_TEXT], is[SEQ_TEXT];
        static struct sequence s;
        static struct wire wire;

        (void)state;
        begin();
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                parse(&s, texts[i]);
                wire = (struct wire) { 0 };
                assert_true(record_and_read(&s, &wire));
                assert_int_equal(back.n, 1);
                seq_print(&s, text, sizeof(text));
                print_what_counts(back.at[0], is);
                assert_string_equal(is, text);
        }
        stop();
}

/* A host may have said a thing or two to a connection that was no more. */
static void mutants_say_the_same_again(void **state)
{
        static struct sequence s;
        static struct wire first, second;
        struct corpus c = { 0 };
        /* The mutants depend on the number of rules, too. Open: with seed 1 and 392 rules, mutant 42 (Reads
         * by key 4Fh from an address that is no memory of the session's) reads back as Reads from it. */
        uint64_t seed = 2;
        unsigned n, lost = 0, apart = 0;

        (void)state;
        begin();
        config.target.settle = 20;
        corpus_begin(&c, &nvme_fuzz, SEQ_RDMA);
        for (unsigned i = 0; i < MUTANTS; i++) {
                s = *c.at[i % c.n];
                for (unsigned k = 0; k < i / c.n % 4; k++)
                        seq_mutate(&s, &seed);
                first = second = (struct wire) { 0 };
                if (!record_and_read(&s, &first))
                        continue;
                for (unsigned k = 0; k < back.n; k++)
                        say_all(back.at[k], &second);
                n = first.n < second.n ? first.n : second.n;
                if (memcmp(first.said, second.said, n * sizeof(first.said[0])) == 0)
                        lost += first.n - n;
                else if (back.n > 1) /* a queue whose admin queue was not to be had stands alone */
                        apart++;
                else
                        fail_msg("mutant %u says something else", i);
        }
        assert_true(lost < MUTANTS / 10 && apart < MUTANTS / 100 + 2);
        corpus_free(&c);
        stop();
}

static void both_transports_in_one_file(void **state)
{
        static const uint8_t icreq[] = { 0, 0, 128, 0, 128 };
        uint8_t pdu[128] = { 0 };
        struct capture_flow flow = { 0 };
        struct sockaddr_in any = { .sin_family = AF_UNIX };
        static struct sequence s;
        static struct wire wire;
        struct capture_writer *w;

        (void)state;
        begin();
        parse(&s, "sequence host rdma\nconnect\n");
        w = new_capture();
        (void)record(w, &s, &wire);
        memcpy(pdu, icreq, sizeof(icreq));
        capture_flow_open(w, &flow, (void *)&any, (void *)&any, loop_wall_ns());
        capture_flow_data(w, &flow, PARTY_HOST, pdu, sizeof(pdu), loop_wall_ns());
        capture_flow_close(w, &flow, PARTY_HOST, false, loop_wall_ns());
        assert_int_equal(capture_writer_close(w), 0);
        read_back(file);
        assert_int_equal(back.n, 2);
        assert_int_equal(corpus_keep(&back, &nvme_fuzz, SEQ_TCP), 1);
        assert_string_equal(back.at[0]->step[0].template->name, "icreq");
        read_back(file);
        assert_int_equal(corpus_keep(&back, &nvme_fuzz, SEQ_RDMA), 1);
        assert_int_equal(back.at[0]->steps, 2);
        stop();
}

/* Of a host that is not ours: discovery, and a session that is longer than a sequence. */
static void a_kernel_s_host(const char *name)
{
        static const char text[] = "sequence host rdma\n"
                                   "request reads_in=128\n"
                                   "connect\n"
                                   "property_get sqe.cdw10=1\n"
                                   "enable sqe.cdw12=0x460060\n"
                                   "property_get sqe.cdw10=1\n"
                                   "enable sqe.cdw12=0x460061\n"
                                   "property_get sqe.cdw11=28\n"
                                   "property_get sqe.cdw11=8\n"
                                   "identify\n"
                                   "set_features sqe.cdw10=11 sqe.cdw11=0x80000000\n"
                                   "aer\n"
                                   "identify\n"
                                   "get_log sqe.cdw10=0xff8070\n"
                                   "get_smart sqe.cdw10=0x2ff0070 data=3072\n"
                                   "enable sqe.cdw12=0x464061\n"
                                   "property_get sqe.cdw11=28\n";
        static char path[300], is[SEQ_TEXT];
        static struct wire wire;
        struct remote_answer a;

        snprintf(path, sizeof(path), "%s/pcap/tests/captures/%s", SOURCE_DIR, name);
        read_back(path);
        assert_int_equal(back.n, 2);
        seq_print(back.at[0], is, sizeof(is));
        assert_string_equal(is, text);
        assert_int_equal(back.at[1]->queues, 3);
        assert_int_equal(back.at[1]->steps, SEQ_STEPS);
        for (unsigned i = 0; i < SEQ_STEPS; i++)
                assert_int_equal(back.at[1]->step[i].kind, SEQ_PDU);
        a = play_by(&config, back.at[1], &wire);
        assert_int_equal(a.end, REMOTE_DONE);
        assert_true(a.pdus >= SEQ_STEPS - 3 - 1); /* requests, an AER */
}

static void captures_of_the_kernel_s_host(void **state)
{
        (void)state;
        begin();
        config.target.settle = 1000;
        a_kernel_s_host("nvme-rdma-rxe-6.12.pcap");
        a_kernel_s_host("nvme-rdma-siw-6.12.pcap");
        stop();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_played_reads_back),
                cmocka_unit_test(mutants_say_the_same_again),
                cmocka_unit_test(both_transports_in_one_file),
                cmocka_unit_test(captures_of_the_kernel_s_host),
        };
        int fd = mkstemp(file), rc;

        if (fd < 0)
                return 1;
        close(fd);
        rc = cmocka_run_group_tests(tests, NULL, NULL);
        unlink(file);
        corpus_free(&back);
        return rc;
}
