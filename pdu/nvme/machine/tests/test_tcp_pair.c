/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_host against tcp_controller: whatever was negotiated and however the streams are cut, what is
 * written is what is read. */
#include "pair.h"
#include "pdu/core/tests/rounds.h"

enum { MOST = 1 << 20, QUEUE = 12, NOISY_SESSIONS = 500 };

static uint8_t out[MOST], in[MOST];

static void fill(uint64_t *seed, uint8_t *p, size_t n)
{
        for (size_t i = 0; i < n; i++)
                p[i] = (uint8_t)pair_rand(seed);
}

/* Writes `len` bytes and reads them back. */
static void round_trip(struct pair *p, uint32_t len, bool command_buffer)
{
        uint32_t lba = pair_rand(&p->seed) % (DISK_BLOCKS - len / BLOCK + 1);
        struct host_cmd write = io_command(NVME_WRITE, lba, out, len);
        struct host_cmd read = io_command(NVME_READ, lba, in, len);

        fill(&p->seed, out, len < 65536 ? len : 65536);
        memset(in, 0, len);
        write.command_buffer = command_buffer;
        assert_int_equal(pair_run(p, &write), 0);
        assert_int_equal(pair_run(p, &read), 0);
        assert_memory_equal(in, out, len);
        assert_int_equal(read.got, len);
        assert_int_equal(p->owner.toy.buffers, 0);
}

/* --- several at once -------------------------------------------------------------------------- */

struct op {
        struct host_cmd cmd;
        uint8_t data[65536];
};

static void submit_all(struct pair *p, struct op ops[QUEUE], uint8_t opc, unsigned *done)
{
        for (uint32_t i = 0; i < QUEUE; i++) {
                uint32_t len = (uint32_t)BLOCK << (i % 8);
                bool command_buffer = i % 3 == 0;

                ops[i].cmd = io_command(opc, i * 128, ops[i].data, len);
                ops[i].cmd.command_buffer = command_buffer;
                ops[i].cmd.done = count_done;
                ops[i].cmd.user = done;
                assert_int_equal(tcp_host_submit(p->host, &ops[i].cmd), 0);
        }
}

static void run_all(struct pair *p, struct op ops[QUEUE], uint8_t opc)
{
        unsigned done = 0;

        submit_all(p, ops, opc, &done);
        pair_pump(p);
        assert_int_equal(done, QUEUE);
        for (unsigned i = 0; i < QUEUE; i++)
                assert_int_equal(ops[i].cmd.status, 0);
        assert_int_equal(tcp_host_outstanding(p->host), 0);
}

static void many_at_once(struct pair *p)
{
        static struct op writes[QUEUE], reads[QUEUE];

        for (unsigned i = 0; i < QUEUE; i++)
                fill(&p->seed, writes[i].data, sizeof(writes[i].data));
        run_all(p, writes, NVME_WRITE);
        run_all(p, reads, NVME_READ);
        for (unsigned i = 0; i < QUEUE; i++)
                assert_memory_equal(reads[i].data, writes[i].data, reads[i].cmd.len);
}

static void all_of_it(const struct pair_config *cfg, uint32_t most)
{
        static const uint32_t sizes[] = { 512, 4096, 8192, 8704, 65536, MOST };
        struct pair p;

        pair_open(&p, cfg);
        for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= most; i++) {
                round_trip(&p, sizes[i], false);
                round_trip(&p, sizes[i], true);
        }
        many_at_once(&p);
        assert_int_equal(pair_controller_link(&p)->state, LINK_LIVE);
        assert_int_equal(pair_host_link(&p)->state, LINK_LIVE);
        pair_fini(&p);
}

/* --- negotiation: digests by alignments ------------------------------------------------------- */

static const uint8_t alignments[] = { 0, 1, 2, 3, 15, 16, 17, 31 };
enum { ALIGNMENTS = sizeof(alignments) };

static struct pair_config negotiated(unsigned digests, uint8_t hpda, uint8_t cpda)
{
        struct pair_config cfg = pair_defaults();

        cfg.host.hdgst = digests & 1;
        cfg.host.ddgst = digests & 2;
        cfg.host.hpda = hpda;
        cfg.controller.cpda = cpda;
        return cfg;
}

static void each_negotiation(size_t most, uint32_t bytes)
{
        for (unsigned i = 0; i < 4 * ALIGNMENTS * ALIGNMENTS; i++) {
                struct pair_config cfg = negotiated(i % 4, alignments[i / 4 % ALIGNMENTS],
                                                    alignments[i / 4 / ALIGNMENTS]);

                cfg.most = most;
                all_of_it(&cfg, bytes);
        }
}

static void every_negotiation_whole(void **state)
{
        (void)state;
        each_negotiation(0, 65536);
}

static void every_negotiation_in_random_pieces(void **state)
{
        (void)state;
        each_negotiation(9000, 8704);
}

static void byte_by_byte(void **state)
{
        static const uint8_t pda[] = { 0, 2, 17, 31 };

        (void)state;
        for (unsigned i = 0; i < 16; i++) {
                struct pair_config cfg = negotiated(i % 4, pda[i / 4], pda[3 - i / 4]);

                cfg.most = 1;
                all_of_it(&cfg, 8704);
        }
}

/* --- transfer limits -------------------------------------------------------------------------- */

static struct pair_config random_limits(uint64_t *seed)
{
        static const uint32_t maxh2cdata[] = { 4096, 8192, 131072, 4100 };
        static const uint32_t r2t_max[] = { 0, 4096, 16384, 20000, 65536 };
        static const uint32_t c2h_max[] = { 0, 4, 4096, 131072, 20004 };
        static const size_t most[] = { 0, 0, 100000, 30000, 3000 };
        struct pair_config cfg =
            negotiated(pair_rand(seed) % 4, alignments[pair_rand(seed) % ALIGNMENTS],
                       alignments[pair_rand(seed) % ALIGNMENTS]);

        cfg.host.maxr2t = 1 + pair_rand(seed) % 4;
        cfg.controller.r2t_window = (uint16_t)(pair_rand(seed) % 6);
        cfg.controller.maxh2cdata = maxh2cdata[pair_rand(seed) % 4];
        cfg.controller.r2t_max = r2t_max[pair_rand(seed) % 5];
        cfg.controller.c2h_max = c2h_max[pair_rand(seed) % 5];
        cfg.controller.io_in_capsule = cfg.host.in_capsule = (pair_rand(seed) % 3) * 8192;
        cfg.controller.limits.r2ts_max = (uint16_t)(1 + pair_rand(seed) % 8);
        cfg.no_flow_control = pair_rand(seed) % 2;
        cfg.budget = pair_rand(seed) % 3;
        cfg.most = most[pair_rand(seed) % 5];
        return cfg;
}

static void limits_at_random(void **state)
{
        uint64_t seed = 42;

        (void)state;
        for (unsigned i = 0; i < random_rounds(120); i++) {
                struct pair_config cfg = random_limits(&seed);

                all_of_it(&cfg, cfg.controller.c2h_max == 4 ? 8704 : MOST);
        }
}

static void success_flag_saves_the_response(void **state)
{
        struct pair_config cfg = pair_defaults();
        struct host_cmd read;
        struct pair p;

        (void)state;
        for (uint32_t c2h_max = 0; c2h_max <= 4096; c2h_max += 4096) {
                size_t before;

                cfg.no_flow_control = true;
                cfg.controller.c2h_max = c2h_max;
                pair_open(&p, &cfg);
                p.owner.toy.success_ok = true;
                before = p.moved;
                read = io_command(NVME_READ, 7, in, 8192);
                assert_int_equal(pair_run(&p, &read), 0);
                assert_int_equal(p.moved - before, 72 + 8192 + (c2h_max ? 48 : 24));
                assert_memory_equal(in, p.owner.toy.disk + 7 * BLOCK, 8192);
                round_trip(&p, 65536, true);
                many_at_once(&p);
                pair_fini(&p);
        }
}

static void executing_takes_its_time(void **state)
{
        struct pair_config cfg = pair_defaults();
        struct pair p;

        (void)state;
        pair_open(&p, &cfg);
        p.owner.toy.defers = true;
        many_at_once(&p);
        round_trip(&p, MOST, false);
        pair_fini(&p);
}

static void few_buffers_slow_down_and_nothing_else(void **state)
{
        (void)state;
        for (unsigned max = 1; max <= 4; max++) {
                struct pair_config cfg = pair_defaults();
                struct pair p;

                cfg.most = max == 3 ? 500 : 0;
                pair_open(&p, &cfg);
                p.owner.toy.buffers_max = max;
                p.owner.toy.defers = max % 2;
                many_at_once(&p);
                pair_fini(&p);
        }
}

/* --- the wire is cut, at every byte ----------------------------------------------------------- */

static size_t one_session(size_t stop, bool defers)
{
        static struct op ops[QUEUE];
        struct pair_config cfg = negotiated(3, 2, 17);
        struct host_cmd connect = connect_command(1, 32, true);
        unsigned done = 0;
        struct pair p;
        size_t moved;

        cfg.controller.r2t_max = 8192;
        cfg.host.maxr2t = 2;
        cfg.controller.r2t_window = 2;
        cfg.most = 1000;
        pair_init(&p, &cfg);
        p.stop = stop;
        p.owner.toy.defers = defers;
        p.owner.toy.success_ok = true;
        tcp_host_start(p.host);
        pair_pump(&p);
        connect.done = count_done;
        connect.user = &done;
        if (tcp_host_ready(p.host) && tcp_host_submit(p.host, &connect) == 0) {
                pair_pump(&p);
                if (done == 1)
                        submit_all(&p, ops, defers ? NVME_READ : NVME_WRITE, &done);
                pair_pump(&p);
        }
        moved = p.moved;
        pair_fini(&p);
        return moved;
}

static void connection_lost_at_every_point(void **state)
{
        (void)state;
        for (int defers = 0; defers < 2; defers++) {
                size_t all = one_session(0, defers);

                for (size_t at = 1; at < all; at += at < random_rounds(4000) ? 1 : 97)
                        assert_int_equal(one_session(at, defers), at);
        }
}

/* --- the wire changes bytes
 * ----------------------------------------------------------------------- */

/* However much is overlooked, nothing is lost, read or written that is not theirs. */
static void noisy_session(uint64_t seed, unsigned one_in, const struct rule_policy *policy)
{
        static struct op ops[QUEUE];
        struct pair_config cfg = random_limits(&seed);
        unsigned done = 0;
        struct pair p;

        cfg.controller.policy = cfg.host.policy = policy;
        pair_open(&p, &cfg);
        p.noise = one_in;
        p.noise_seed = seed;
        p.owner.toy.success_ok = cfg.no_flow_control;
        submit_all(&p, ops, NVME_WRITE, &done);
        pair_pump(&p);
        if (done == QUEUE && tcp_host_ready(p.host))
                submit_all(&p, ops, NVME_READ, &done);
        pair_pump(&p);
        pair_fini(&p);
}

static void noise(void **state)
{
        static const unsigned one_in[] = { 30, 300, 3000, 30000 };
        struct rule_policy nothing_checked = { 0 };

        (void)state;
        rule_each (id)
                rule_add(&nothing_checked.waived, id);
        for (uint64_t seed = 1; seed <= random_rounds(NOISY_SESSIONS); seed++)
                noisy_session(seed, one_in[seed % 4], seed % 8 < 4 ? NULL : &nothing_checked);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_negotiation_whole),
                cmocka_unit_test(every_negotiation_in_random_pieces),
                cmocka_unit_test(byte_by_byte),
                cmocka_unit_test(limits_at_random),
                cmocka_unit_test(success_flag_saves_the_response),
                cmocka_unit_test(executing_takes_its_time),
                cmocka_unit_test(few_buffers_slow_down_and_nothing_else),
                cmocka_unit_test(connection_lost_at_every_point),
                cmocka_unit_test(noise),
        };

        return cmocka_run_group_tests_name("tcp_pair", tests, NULL, NULL);
}
