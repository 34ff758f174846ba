/* SPDX-License-Identifier: BSD-3-Clause */
/* The target as a library, under a host of our own over loopback. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <pthread.h>
#include <sys/socket.h>

#include "peer.h"

#define NQN TARGET_NQN

static char error[512];

static struct target *start_with(struct target_options o)
{
        struct target *t;

        o.trsvcid = "0";
        o.quiet = true;
        t = target_start(&o, error, sizeof(error));
        if (!t)
                print_error("%s\n", error);
        assert_non_null(t);
        return t;
}

static struct target *start(void)
{
        return start_with((struct target_options) { 0 });
}

static unsigned open_files(void)
{
        DIR *d = opendir("/proc/self/fd");
        unsigned n = 0;

        while (readdir(d))
                n++;
        closedir(d);
        return n;
}

/* --- starting and stopping -------------------------------------------------------------------- */

static void test_many_at_once_and_again(void **state)
{
        unsigned before = open_files();
        struct target *t[4];

        (void)state;
        for (unsigned round = 0; round < 10; round++) {
                for (unsigned i = 0; i < 4; i++) {
                        t[i] = start_with((struct target_options) { .reactors = 1 + i });
                        assert_int_not_equal(target_trsvcid(t[i]), 0);
                        assert_string_equal(target_traddr(t[i]), "127.0.0.1");
                }
                assert_int_not_equal(target_trsvcid(t[0]), target_trsvcid(t[1]));
                for (unsigned i = 0; i < 4; i++)
                        target_stop(t[i]);
        }
        assert_int_equal(open_files(), before);
}

static void refuses(struct target_options o, const char *why)
{
        if (!o.trsvcid)
                o.trsvcid = "0";
        assert_null(target_start(&o, error, sizeof(error)));
        if (!strstr(error, why))
                fail_msg("'%s' is not in '%s'", why, error);
}

static void test_what_it_refuses(void **state)
{
        unsigned before = open_files();
        struct target *t = start();
        char port[16];

        (void)state;
        snprintf(port, sizeof(port), "%u", target_trsvcid(t));
        refuses((struct target_options) { .trsvcid = port }, "Address already in use");
        refuses((struct target_options) { .trsvcid = "http" }, "'http' is not a TCP port");
        refuses((struct target_options) { .ns = (const char *const[]) { "mem:1x", NULL } },
                "'1x' is not a size");
        refuses((struct target_options) { .config = "/nowhere.json" }, "/nowhere.json");
        refuses((struct target_options) { .cpda = 32 }, "cpda");
        refuses((struct target_options) { .limits.max_transfer = 5000 }, "max_transfer");
        refuses((struct target_options) { .limits.max_transfer = 4096 }, "max_transfer");
        target_stop(t);
        assert_int_equal(open_files(), before);
}

/* --- reading and writing ---------------------------------------------------------------------- */

struct session {
        struct target *target;
        struct peer *admin, *io;
};

static struct session session(struct target *t, struct peer_options o)
{
        struct session s = { .target = t };

        s.admin = peer_admin(t, NQN, (struct peer_options) { .hdgst = o.hdgst });
        assert_non_null(s.admin);
        s.io = peer_io(t, NQN, s.admin, 1, o);
        assert_non_null(s.io);
        return s;
}

static void end_session(struct session *s)
{
        peer_close(s->io);
        peer_close(s->admin);
        target_stop(s->target);
}

static uint16_t rw(struct peer *p, uint8_t opc, uint64_t lba, uint32_t len, uint8_t *data)
{
        struct peer_cmd c = peer_rw(opc, 1, lba, len / 512, data, len);

        return peer_run(p, &c);
}

static void fill(uint8_t *data, uint32_t len, unsigned seed)
{
        for (uint32_t i = 0; i < len; i++)
                data[i] = (uint8_t)(seed + i + i / 509);
}

static void write_and_read(struct peer *p, uint32_t len)
{
        uint8_t *in = malloc(len), *out = malloc(len);

        fill(in, len, len);
        assert_int_equal(rw(p, NVME_WRITE, 8, len, in), NVME_SUCCESS);
        assert_int_equal(rw(p, NVME_READ, 8, len, out), NVME_SUCCESS);
        assert_memory_equal(in, out, len);
        assert_int_equal(rw(p, NVME_COMPARE, 8, len, in), NVME_SUCCESS);
        in[len - 1] ^= 1;
        assert_int_equal(rw(p, NVME_COMPARE, 8, len, in), NVME_COMPARE_FAILURE);
        free(in);
        free(out);
}

static void test_read_and_write(void **state)
{
        static const uint32_t lens[] = { 512, 4096, 8192, 16384, 65536, 1 << 20 };

        (void)state;
        for (unsigned digests = 0; digests < 4; digests++) {
                struct session s =
                    session(start_with((struct target_options) { .cpda = 7 }),
                            (struct peer_options) {
                                .hdgst = digests & 1, .ddgst = digests & 2, .hpda = 3 });

                for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
                        write_and_read(s.io, lens[i]);
                end_session(&s);
        }
}

static void test_too_long_is_refused(void **state)
{
        struct session s =
            session(start_with((struct target_options) { .limits.max_transfer = 65536 }),
                    (struct peer_options) { 0 });
        static uint8_t data[65536 + 512];

        (void)state;
        assert_int_equal(rw(s.io, NVME_READ, 0, sizeof(data), data), NVME_INVALID_FIELD);
        assert_int_equal(rw(s.io, NVME_READ, 0, 65536, data), NVME_SUCCESS);
        end_session(&s);
}

enum { DEPTH = 64, TRIES = 5 };

/* Nothing is sent before the next peer_send(). */
static void queue_reads(struct peer *p, struct peer_cmd *c, uint8_t *data, uint32_t len)
{
        for (unsigned i = 0; i < DEPTH; i++) {
                c[i] = peer_rw(NVME_READ, 1, i, len / 512, data, len);
                peer_queue(p, &c[i]);
        }
}

static void submit_reads(struct peer *p, struct peer_cmd *c, uint8_t *data, uint32_t len)
{
        for (unsigned i = 0; i < DEPTH; i++) {
                c[i] = peer_rw(NVME_READ, 1, i, len / 512, data, len);
                peer_submit(p, &c[i]);
        }
}

static bool all_done(const struct peer_cmd *c)
{
        for (unsigned i = 0; i < DEPTH; i++) {
                if (!c[i].done)
                        return false;
                assert_int_equal(c[i].status, NVME_SUCCESS);
        }
        return true;
}

/* Two megabytes of buffers for all: everybody waits, and everybody is served. */
static void test_few_buffers_for_many(void **state)
{
        struct session s = session(start_with((struct target_options) { .limits.buffers = 1 }),
                                   (struct peer_options) { 0 });
        struct peer *more = peer_io(s.target, NQN, s.admin, 2, (struct peer_options) { 0 });
        static struct peer_cmd a[DEPTH], b[DEPTH];
        static uint8_t data[1 << 20];
        uint64_t until = loop_now_ms() + 60000;

        (void)state;
        submit_reads(s.io, a, data, sizeof(data));
        submit_reads(more, b, data, sizeof(data));
        while (!all_done(a) || !all_done(b)) {
                assert_true(loop_now_ms() < until);
                peer_pump(s.io, 1);
                peer_pump(more, 1);
        }
        peer_close(more);
        end_session(&s);
}

static void test_who_does_not_read_starves_nobody(void **state)
{
        struct session s = session(start_with((struct target_options) { .limits.buffers = 1 }),
                                   (struct peer_options) { 0 });
        struct peer *other = peer_io(s.target, NQN, s.admin, 2, (struct peer_options) { 0 });
        static struct peer_cmd c[DEPTH];
        static uint8_t data[1 << 20];

        (void)state;
        submit_reads(s.io, c, data, sizeof(data));
        usleep(50000);
        for (unsigned i = 0; i < 20; i++)
                assert_int_equal(rw(other, NVME_READ, 0, 65536, data), NVME_SUCCESS);
        peer_close(other);
        end_session(&s);
}

/* A write whose second half never comes. */
static void test_a_lost_connection_changes_no_block(void **state)
{
        struct session s = session(start(), (struct peer_options) { .ddgst = true });
        static uint8_t old[65536], new[65536], now[65536];
        struct peer_cmd c = peer_rw(NVME_WRITE, 1, 0, 128, new, sizeof(new));
        struct peer *other = peer_io(s.target, NQN, s.admin, 2, (struct peer_options) { 0 });

        (void)state;
        fill(old, sizeof(old), 1);
        fill(new, sizeof(new), 2);
        assert_int_equal(rw(s.io, NVME_WRITE, 0, sizeof(old), old), NVME_SUCCESS);
        peer_submit(s.io, &c);
        while (!link_wants_send(s.io->link)) { /* until the R2T is here */
                stream_wait(&s.io->stream, EPOLLIN, PEER_PATIENCE);
                peer_receive(s.io);
        }
        assert_true(peer_put(s.io, s.io->link->tx_first->head, 24));
        assert_true(peer_put(s.io, new, 32768));
        usleep(50000);
        stream_close(&s.io->stream, true);
        usleep(50000);
        assert_int_equal(rw(other, NVME_READ, 0, sizeof(now), now), NVME_SUCCESS);
        assert_memory_equal(now, old, sizeof(old));
        peer_close(other);
        end_session(&s);
}

/* A write whose data comes when its queue is over, but the connection can't be closed yet because the
 * host reads nothing. */
static void test_a_write_behind_a_reset_changes_no_block(void **state)
{
        struct session s = session(start(), (struct peer_options) { 0 }), again;
        static uint8_t old[65536], new[65536], now[65536], read[1 << 20];
        static struct peer_cmd reads[DEPTH];
        struct peer_cmd c = peer_rw(NVME_WRITE, 1, 0, 128, new, sizeof(new));
        struct peer_cmd reset = { .cmd.sqe.property = { .opc = NVME_FABRICS,
                                                        .fctype = FCTYPE_PROPERTY_SET,
                                                        .ofst = le32(PROP_CC) } };

        (void)state;
        fill(old, sizeof(old), 1);
        fill(new, sizeof(new), 2);
        assert_int_equal(rw(s.io, NVME_WRITE, 0, sizeof(old), old), NVME_SUCCESS);
        peer_submit(s.io, &c);
        submit_reads(s.io, reads, read, sizeof(read));
        usleep(50000);
        while (!link_wants_send(s.io->link)) { /* until the R2T is here */
                assert_true(stream_wait(&s.io->stream, EPOLLIN, PEER_PATIENCE) > 0);
                peer_receive(s.io);
        }
        assert_int_equal(peer_run(s.admin, &reset), NVME_SUCCESS);
        peer_send(s.io);
        assert_false(link_wants_send(s.io->link));
        usleep(50000);
        again = session(s.target, (struct peer_options) { 0 });
        assert_int_equal(rw(again.io, NVME_READ, 0, sizeof(now), now), NVME_SUCCESS);
        assert_memory_equal(now, old, sizeof(old));
        peer_close(again.io);
        peer_close(again.admin);
        end_session(&s);
}

/* --- files: a flush holds up nobody ----------------------------------------------------------- */

static void test_flush_and_fua(void **state)
{
        char path[] = "/tmp/nvmfspec-test-target-XXXXXX", spec[64];
        int fd = mkstemp(path);
        struct session s;
        static uint8_t data[8192], now[8192];
        struct peer_cmd fua = peer_rw(NVME_WRITE, 1, 0, 16, data, sizeof(data)), flush[8], all;

        (void)state;
        snprintf(spec, sizeof(spec), "file:%s,size=1M", path);
        s = session(start_with((struct target_options) {
                        .ns = (const char *const[]) { spec, "mem:1M", NULL } }),
                    (struct peer_options) { 0 });
        fill(data, sizeof(data), 3);
        fua.cmd.sqe.cdw12 = le32(RW_FUA | 15);
        assert_int_equal(peer_run(s.io, &fua), NVME_SUCCESS);
        for (unsigned i = 0; i < 8; i++) {
                flush[i] = (struct peer_cmd) { .cmd.sqe = { .opc = NVME_FLUSH, .nsid = le32(1) } };
                peer_submit(s.io, &flush[i]);
        }
        for (unsigned i = 0; i < 8; i++)
                assert_int_equal(peer_wait(s.io, &flush[i]), NVME_SUCCESS);
        all = (struct peer_cmd) { .cmd.sqe = { .opc = NVME_FLUSH, .nsid = le32(0xffffffff) } };
        assert_int_equal(peer_run(s.io, &all), NVME_SUCCESS);
        peer_submit(s.io, &flush[0]); /* and leave */
        end_session(&s);
        assert_int_equal(pread(fd, now, sizeof(now), 0), sizeof(now));
        assert_memory_equal(now, data, sizeof(data));
        close(fd);
        unlink(path);
}

/* --- time-outs -------------------------------------------------------------------------------- */

/* Each test hurries what it waits for and nothing else: a stall of ours while a session begins is no
 * offence. */

static bool ends_within(struct stream *s, int ms)
{
        char byte;
        const struct iovec iov = { &byte, 1 };

        return stream_wait(s, EPOLLIN, ms) > 0 && stream_read(s, &iov, 1) < 0;
}

static void test_silence_before_connect(void **state)
{
        struct target *t = start_with((struct target_options) { .limits.ic_timeout = 150 });
        struct stream silent;
        struct peer *p;

        (void)state;
        assert_int_equal(peer_stream(t, &silent), 0);
        p = peer_open(t, (struct peer_options) { 0 });
        assert_true(ends_within(&silent, PEER_PATIENCE));
        assert_true(peer_closed(p, PEER_PATIENCE)); /* ICReq, but no Connect */
        stream_close(&silent, false);
        peer_close(p);
        target_stop(t);
}

static void test_silence_is_borne_on_request(void **state)
{
        struct target_options o = { .limits.ic_timeout = 150 };
        struct stream silent;
        struct target *t;

        (void)state;
        rule_add(&o.policy.waived, TCP_IC_TIMEOUT);
        t = start_with(o);
        assert_int_equal(peer_stream(t, &silent), 0);
        assert_false(ends_within(&silent, 600));
        stream_close(&silent, false);
        target_stop(t);
}

/* Connected within the target's timeouts, at the latest at the fifth try. */
static struct session session_in_time(struct target *t)
{
        struct session s = { .target = t };

        for (unsigned try = 1; !s.io && try <= TRIES; try++) {
                if (s.admin)
                        peer_close(s.admin);
                s.admin = peer_admin(t, NQN, (struct peer_options) { 0 });
                if (s.admin)
                        s.io = peer_io(t, NQN, s.admin, 1, (struct peer_options) { 0 });
                if (!s.io)
                        print_message("no session at try %u of %u\n", try, TRIES);
        }
        assert_non_null(s.io);
        return s;
}

static void test_an_idle_queue_stays(void **state)
{
        const struct target_limits hasty = { .ic_timeout = 500,
                                             .stall_timeout = 500,
                                             .term_timeout = 500 };
        struct session s = session_in_time(start_with((struct target_options) { .limits = hasty }));

        (void)state;
        assert_false(peer_closed(s.io, 1500));
        assert_false(peer_closed(s.admin, 1));
        end_session(&s);
}

static void test_half_a_pdu(void **state)
{
        struct session s =
            session(start_with((struct target_options) { .limits.stall_timeout = 150 }),
                    (struct peer_options) { 0 });
        const uint8_t head[] = { PDU_CAPSULE_CMD, 0, 72, 0, 72, 0, 0, 0, NVME_FLUSH };

        (void)state;
        assert_true(peer_put(s.io, head, sizeof(head)));
        assert_true(peer_closed(s.io, PEER_PATIENCE));
        end_session(&s);
}

static void test_an_r2t_that_nobody_answers(void **state)
{
        struct session s =
            session(start_with((struct target_options) { .limits.stall_timeout = 150 }),
                    (struct peer_options) { 0 });
        static uint8_t data[65536];
        struct peer_cmd c = peer_rw(NVME_WRITE, 1, 0, 128, data, sizeof(data));

        (void)state;
        peer_submit(s.io, &c);
        assert_true(stream_wait(&s.io->stream, EPOLLIN, PEER_PATIENCE) > 0);
        assert_true(stream_wait(&s.io->stream, 0, PEER_PATIENCE) > 0);
        end_session(&s);
}

/* The longest pause between two turns of ours: a target that has waited in vain for all of it is right to
 * give us up, and nothing is learned. */
struct turns {
        uint64_t last, longest; /* ms */
};

static void take_turn(struct turns *t)
{
        uint64_t now = loop_now_ms();

        if (t->last && now - t->last > t->longest)
                t->longest = now - t->last;
        t->last = now;
}

/* false: a pause was longer than `most`, and this is to be tried again. */
static bool took_turns(const struct turns *t, uint64_t most, unsigned try)
{
        if (t->longest <= most)
                return true;
        print_message("try %u of %u: a pause of %u ms\n", try, TRIES, (unsigned)t->longest);
        return try >= TRIES;
}

/* The R2T comes after data that a slow line takes its time for: nothing is owed before it is out. */
static void test_an_r2t_that_is_not_out_yet(void **state)
{
        static uint8_t data[1 << 20];
        static struct peer_cmd reads[DEPTH];
        struct peer_cmd c;
        struct turns turns;
        int room = 65536;
        unsigned try = 0;

        (void)state;
        do {
                struct session s =
                    session(start_with((struct target_options) { .limits.stall_timeout = 800 }),
                            (struct peer_options) { 0 });

                turns = (struct turns) { 0 };
                c = peer_rw(NVME_WRITE, 1, 0, 128, data, 65536);
                assert_int_equal(
                    setsockopt(s.io->stream.source.fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)),
                    0);
                submit_reads(s.io, reads, data, 1 << 19);
                peer_submit(s.io, &c);
                while (!c.done && !s.io->closed) {
                        take_turn(&turns);
                        peer_pump(s.io, 100);
                        usleep(4000);
                }
                take_turn(&turns);
                end_session(&s);
        } while (c.status != NVME_SUCCESS && !took_turns(&turns, 400, ++try));
        assert_int_equal(c.status, NVME_SUCCESS);
}

static void test_output_that_nobody_reads(void **state)
{
        struct session s =
            session(start_with((struct target_options) { .limits.stall_timeout = 150 }),
                    (struct peer_options) { 0 });
        static uint8_t data[1 << 20];
        static struct peer_cmd c[DEPTH];

        (void)state;
        submit_reads(s.io, c, data, sizeof(data));
        assert_true(stream_wait(&s.io->stream, 0, PEER_PATIENCE) > 0);
        end_session(&s);
}

static void test_a_term_req_is_not_waited_for_for_ever(void **state)
{
        struct session s =
            session(start_with((struct target_options) { .limits.term_timeout = 150 }),
                    (struct peer_options) { 0 });
        const uint8_t head[128] = { PDU_ICREQ, 0, 128, 0, 128 };

        (void)state;
        assert_true(peer_put(s.io, head, sizeof(head)));
        assert_true(peer_closed(s.io, PEER_PATIENCE));
        end_session(&s);
}

/* --- bounds ----------------------------------------------------------------------------------- */

static void test_no_more_connections_than_allowed(void **state)
{
        struct target *t = start_with((struct target_options) { .limits.connections = 3 });
        struct stream fourth;
        struct peer *p[3];

        (void)state;
        for (unsigned i = 0; i < 3; i++)
                p[i] = peer_open(t, (struct peer_options) { 0 });
        assert_int_equal(peer_stream(t, &fourth), 0);
        assert_true(ends_within(&fourth, PEER_PATIENCE));
        stream_close(&fourth, false);
        peer_close(p[0]);
        p[0] = peer_open(t, (struct peer_options) { 0 });
        for (uint64_t until = loop_now_ms() + PEER_PATIENCE;
             p[0]->closed && loop_now_ms() < until;) { /* until the target has seen it go */
                usleep(10000);
                peer_close(p[0]);
                p[0] = peer_open(t, (struct peer_options) { 0 });
        }
        assert_false(p[0]->closed);
        for (unsigned i = 0; i < 3; i++)
                peer_close(p[i]);
        target_stop(t);
}

/* --- blocks are never torn, also between reactors --------------------------------------------- */

enum { TEAR_BYTES = 65536, TEAR_ROUNDS = 150 };

struct tearing {
        struct peer *peer;
        unsigned seed;
        bool writes, torn, failed;
};

static void *tear(void *arg)
{
        struct tearing *w = arg;
        uint8_t *data = malloc(TEAR_BYTES);

        for (unsigned i = 0; i < TEAR_ROUNDS && !w->failed; i++) {
                if (w->writes)
                        memset(data, (int)(i + w->seed), TEAR_BYTES);
                w->failed = rw(w->peer, w->writes ? NVME_WRITE : NVME_READ, 0, TEAR_BYTES, data);
                for (unsigned b = 0; b < TEAR_BYTES; b += 512)
                        w->torn |= memcmp(data + b, data + b + 1, 511) != 0;
        }
        free(data);
        return NULL;
}

static void test_no_block_is_torn(void **state)
{
        struct target *t = start_with((struct target_options) { .reactors = 3 });
        struct peer *admin = peer_admin(t, NQN, (struct peer_options) { 0 });
        struct tearing w[4];
        pthread_t thread[4];

        (void)state;
        for (uint16_t i = 0; i < 4; i++) {
                w[i] = (struct tearing) { .seed = 91 * i, .writes = i % 2 };
                w[i].peer = peer_io(t, NQN, admin, (uint16_t)(i + 1),
                                    (struct peer_options) { .ddgst = i > 1 });
                assert_non_null(w[i].peer);
        }
        for (unsigned i = 0; i < 4; i++)
                pthread_create(&thread[i], NULL, tear, &w[i]);
        for (unsigned i = 0; i < 4; i++) {
                pthread_join(thread[i], NULL);
                assert_false(w[i].failed);
                assert_false(w[i].torn);
                peer_close(w[i].peer);
        }
        peer_close(admin);
        target_stop(t);
}

/* --- change ----------------------------------------------------------------------------------- */

static void write_whole_config(const char *path, unsigned port, const char *nqn,
                               const char *namespaces)
{
        FILE *f = fopen(path, "w");

        fprintf(f,
                "{\"hosts\": [], \"ports\": [{\"portid\": %u, \"addr\": {\"trtype\": \"tcp\", "
                "\"adrfam\": \"ipv4\", \"traddr\": \"127.0.0.1\", \"trsvcid\": \"0\"}, "
                "\"subsystems\": [\"%s\"]}], \"subsystems\": [{\"nqn\": \"%s\", "
                "\"attr\": {\"allow_any_host\": \"1\"}, \"namespaces\": [%s]}]}",
                port, nqn, nqn, namespaces);
        fclose(f);
}

static void write_config(const char *path, const char *namespaces)
{
        write_whole_config(path, 1, NQN, namespaces);
}

#define NS(nsid, path) "{\"nsid\": " nsid ", \"device\": {\"path\": \"" path "\"}, \"enable\": 1}"

static void test_reload(void **state)
{
        char path[] = "/tmp/nvmfspec-test-config-XXXXXX";
        struct session s;
        static uint8_t data[512];
        struct peer_cmd aer = { .cmd.sqe.opc = NVME_AER };
        struct peer_cmd aec = { .cmd.sqe = { .opc = NVME_SET_FEATURES,
                                             .cdw10 = le32(FEAT_AEC),
                                             .cdw11 = le32(AEC_NS) } };
        struct peer_cmd two = peer_rw(NVME_READ, 2, 0, 1, data, 512);

        (void)state;
        close(mkstemp(path));
        write_config(path, NS("1", "mem:1M"));
        s = session(start_with((struct target_options) { .config = path }),
                    (struct peer_options) { 0 });
        fill(data, 512, 1);
        assert_int_equal(rw(s.io, NVME_WRITE, 2047, 512, data), NVME_SUCCESS);
        assert_int_equal(peer_run(s.io, &two), NVME_INVALID_FIELD);
        assert_int_equal(peer_run(s.admin, &aec), NVME_SUCCESS);
        peer_submit(s.admin, &aer);

        write_config(path, NS("1", "mem:2M") ", " NS("2", "null:1M"));
        assert_int_equal(target_reload(s.target, error, sizeof(error)), 0);
        assert_int_equal(peer_wait(s.admin, &aer), NVME_SUCCESS); /* a namespace has changed */
        assert_int_equal(le32_get(aer.cmd.cqe.dw0) & 0xff07, AEN_NOTICE);
        assert_int_equal(peer_run(s.io, &two), NVME_SUCCESS);
        assert_int_equal(rw(s.io, NVME_READ, 4095, 512, data), NVME_SUCCESS);
        assert_int_equal(rw(s.io, NVME_READ, 2047, 512, data), NVME_SUCCESS);
        assert_int_equal(data[1], 2);

        write_config(path, NS("2", "null:1M"));
        assert_int_equal(target_reload(s.target, error, sizeof(error)), 0);
        assert_int_equal(rw(s.io, NVME_READ, 0, 512, data), NVME_INVALID_FIELD);
        write_config(path, NS("2", "null:x"));
        assert_int_equal(target_reload(s.target, error, sizeof(error)), -1);
        assert_non_null(strstr(error, "'x' is not a size"));
        two.done = false;
        assert_int_equal(peer_run(s.io, &two), NVME_SUCCESS);
        end_session(&s);
        unlink(path);
}

/* What is said of the address is no reason to listen at it once more. */
static void test_reload_of_an_address_in_brackets(void **state)
{
        char path[] = "/tmp/nvmfspec-test-config-XXXXXX";
        FILE *f;
        struct target *t;

        (void)state;
        close(mkstemp(path));
        f = fopen(path, "w");
        fprintf(
            f,
            "{\"hosts\": [], \"subsystems\": [], \"ports\": [{\"portid\": 1, \"subsystems\": [], "
            "\"addr\": {\"traddr\": \"[::1]\", \"trsvcid\": \"0\"}}]}");
        fclose(f);
        t = target_start(&(struct target_options) { .config = path, .quiet = true }, error,
                         sizeof(error));
        if (t) {
                char ports[2][64];

                target_ports(t, ports[0], sizeof(ports[0]));
                assert_int_equal(target_reload(t, error, sizeof(error)), 0);
                target_ports(t, ports[1], sizeof(ports[1]));
                assert_string_equal(ports[0], ports[1]);
                assert_memory_equal(ports[0], "[::1]:", 6);
                target_stop(t);
        } /* else: a machine without IPv6 */
        unlink(path);
}

static void test_a_subsystem_and_a_port_go(void **state)
{
        char path[] = "/tmp/nvmfspec-test-config-XXXXXX";
        struct session s;
        struct stream gone;

        (void)state;
        close(mkstemp(path));
        write_whole_config(path, 1, NQN, NS("1", "mem:1M"));
        s = session(start_with((struct target_options) { .config = path, .reactors = 2 }),
                    (struct peer_options) { 0 });
        write_whole_config(path, 2, "nqn.2026-01.io.nvmfspec:other", NS("1", "mem:1M"));
        assert_int_equal(target_reload(s.target, error, sizeof(error)), 0);
        assert_true(peer_closed(s.io, PEER_PATIENCE));
        assert_true(peer_closed(s.admin, PEER_PATIENCE));
        assert_int_equal(peer_stream(s.target, &gone), -1); /* the first port's address */
        end_session(&s);
        unlink(path);
}

/* Namespaces come and go while they are read and written. */
static void test_reload_under_load(void **state)
{
        char path[] = "/tmp/nvmfspec-test-config-XXXXXX";
        struct target *t;
        struct peer *admin;
        struct tearing w[2];
        pthread_t thread[2];

        (void)state;
        close(mkstemp(path));
        write_config(path, NS("1", "mem:1M") ", " NS("2", "mem:1M"));
        t = start_with((struct target_options) { .config = path, .reactors = 2 });
        admin = peer_admin(t, NQN, (struct peer_options) { 0 });
        for (uint16_t i = 0; i < 2; i++) {
                w[i] = (struct tearing) { .seed = i, .writes = i };
                w[i].peer = peer_io(t, NQN, admin, (uint16_t)(i + 1), (struct peer_options) { 0 });
                pthread_create(&thread[i], NULL, tear, &w[i]);
        }
        for (unsigned i = 0; i < 20; i++) {
                write_config(path,
                             i % 2 ? NS("1", "mem:1M") ", " NS("2", "mem:1M") : NS("1", "mem:2M"));
                assert_int_equal(target_reload(t, error, sizeof(error)), 0);
        }
        for (unsigned i = 0; i < 2; i++) {
                pthread_join(thread[i], NULL);
                assert_false(w[i].failed);
                assert_false(w[i].torn);
                peer_close(w[i].peer);
        }
        peer_close(admin);
        target_stop(t);
        unlink(path);
}

static void test_a_file_that_grows_is_noticed(void **state)
{
        char path[] = "/tmp/nvmfspec-test-target-XXXXXX";
        struct session s;
        static uint8_t data[512];

        (void)state;
        close(mkstemp(path));
        assert_int_equal(truncate(path, 1 << 20), 0);
        s = session(
            start_with((struct target_options) { .ns = (const char *const[]) { path, NULL } }),
            (struct peer_options) { 0 });
        assert_int_equal(rw(s.io, NVME_READ, 2048, 512, data), NVME_LBA_RANGE);
        assert_int_equal(truncate(path, 2 << 20), 0);
        assert_int_equal(target_reload(s.target, error, sizeof(error)), 0);
        assert_int_equal(rw(s.io, NVME_READ, 2048, 512, data), NVME_SUCCESS);
        end_session(&s);
        unlink(path);
}

/* --- stopping under load ---------------------------------------------------------------------- */

/* How many of the commands that the target has when it stops end well. */
static unsigned done_at_stop(struct turns *turns)
{
        struct session s = session(start_with((struct target_options) { .reactors = 2 }),
                                   (struct peer_options) { 0 });
        static uint8_t data[1 << 20];
        static struct peer_cmd c[DEPTH];
        pthread_t stopper;
        unsigned done = 0;

        queue_reads(s.io, c, data, 1 << 18); /* more than sockets hold */
        peer_send(s.io);                     /* all of them are one segment, */
        assert_true(stream_wait(&s.io->stream, EPOLLIN, PEER_PATIENCE) > 0); /* which has arrived */
        take_turn(turns);
        pthread_create(&stopper, NULL, (void *(*)(void *))(void (*)(void))target_stop, s.target);
        while (!s.io->closed)
                peer_pump(s.io, 100);
        take_turn(turns);
        for (unsigned i = 0; i < DEPTH; i++)
                done += c[i].done && c[i].status == NVME_SUCCESS;
        assert_true(peer_closed(s.admin, PEER_PATIENCE));
        pthread_join(stopper, NULL);
        peer_close(s.io);
        peer_close(s.admin);
        return done;
}

/* A target that stops gives its hosts two seconds to take what they have asked for. */
static void test_stop_ends_what_is_in_flight(void **state)
{
        struct turns turns;
        unsigned done, try = 0;

        (void)state;
        do {
                turns = (struct turns) { 0 };
                done = done_at_stop(&turns);
        } while (done != DEPTH && !took_turns(&turns, 1000, ++try));
        assert_int_equal(done, DEPTH);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_many_at_once_and_again),
                cmocka_unit_test(test_what_it_refuses),
                cmocka_unit_test(test_read_and_write),
                cmocka_unit_test(test_too_long_is_refused),
                cmocka_unit_test(test_few_buffers_for_many),
                cmocka_unit_test(test_who_does_not_read_starves_nobody),
                cmocka_unit_test(test_a_lost_connection_changes_no_block),
                cmocka_unit_test(test_a_write_behind_a_reset_changes_no_block),
                cmocka_unit_test(test_flush_and_fua),
                cmocka_unit_test(test_silence_before_connect),
                cmocka_unit_test(test_silence_is_borne_on_request),
                cmocka_unit_test(test_an_idle_queue_stays),
                cmocka_unit_test(test_half_a_pdu),
                cmocka_unit_test(test_an_r2t_that_nobody_answers),
                cmocka_unit_test(test_an_r2t_that_is_not_out_yet),
                cmocka_unit_test(test_output_that_nobody_reads),
                cmocka_unit_test(test_a_term_req_is_not_waited_for_for_ever),
                cmocka_unit_test(test_no_more_connections_than_allowed),
                cmocka_unit_test(test_no_block_is_torn),
                cmocka_unit_test(test_reload),
                cmocka_unit_test(test_reload_of_an_address_in_brackets),
                cmocka_unit_test(test_a_subsystem_and_a_port_go),
                cmocka_unit_test(test_reload_under_load),
                cmocka_unit_test(test_a_file_that_grows_is_noticed),
                cmocka_unit_test(test_stop_ends_what_is_in_flight),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
