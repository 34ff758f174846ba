/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a planted bug was found by, as small as it gets, as sequence and as capture:
 *
 *      fuzz_minimal PLANT INPUT OUT.seq OUT.pcap
 *      fuzz_minimal --check PLANT INPUT             it is small already
 *      fuzz_minimal --rdma PLANT INPUT              and is played to the whole target, over RDMA in memory
 *
 * The sequence has to end this process (a signal, a sanitizer, a timeout) with the bug, and must not
 * without it: one of a host over TCP is played to the target, others to the machine that they are for.
 * Each trial is a process of its own. The capture is of the target without the bug: of what the host
 * says nothing is missing; there is none of other sequences. Exit: 0 so it is, 1 it is not, 2 usage.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sanitizer/lsan_interface.h>

#include "fuzz/campaign/campaign.h"
#include "fuzz/campaign/minimise.h"
#include "fuzz/inproc/inproc_target.h"
#include "fuzz/inproc/session.h"
#include "fuzz/nvme/peer.h"
#include "pdu/core/plant.h"
#include "pdu/io/capture/capture_writer.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "pdu/nvme/wire/tcp.h"
#include "target/nvme/target.h"

enum { OK, FAILED, USAGE, PATIENCE = 10 /* s */ };

static const char *plant;
static bool over_rdma;

static bool is_for_target(const struct sequence *s)
{
        return s->side == PARTY_HOST && s->transport == SEQ_TCP;
}

/* --- trials ------------------------------------------------------------------------------------- */

/* The whole target, its threads and all, and the player of live targets at the other end. */
static void play_over_rdma(const struct sequence *s)
{
        static struct rule_policy policy;
        struct memory_caps caps;
        struct target_options o = { .trtype = TRTYPE_RDMA, .trsvcid = "0", .quiet = true };
        struct nvme_peer peer = { .host = host_params_default() };
        struct campaign_config config = { .target = { .family = &nvme_fuzz,
                                                      .transport = SEQ_RDMA,
                                                      .peer = &peer,
                                                      .timeout = 5000,
                                                      .settle = 100,
                                                      .hang = 3000,
                                                      .delay = 1,
                                                      .allow_write = true } };
        char error[200] = "", port[16];
        struct target *t;
        struct player p;
        struct loop loop;

        memory_caps_default(&caps);
        o.verbs = peer.host.verbs = verbs_memory_new(&caps);
        t = target_start(&o, error, sizeof(error));
        if (!t || loop_init(&loop) < 0)
                _exit(USAGE);
        snprintf(port, sizeof(port), "%u", target_trsvcid(t));
        peer.host.transport = HOST_RDMA;
        peer.host.traddr = "127.0.0.1";
        peer.host.trsvcid = port;
        peer.host.subnqn = TARGET_NQN;
        peer.host.timeout = config.target.timeout;
        peer.host.policy = &policy;
        if (player_init(&p, &config, &loop) < 0)
                _exit(USAGE);
        player_play(&p, s);
        player_fini(&p);
        loop_fini(&loop);
        target_stop(t);
        verbs_memory_free(peer.host.verbs);
}

/* A host's over TCP to the whole target, others to the machine that they are for. */
static void play(const struct sequence *s, struct inproc_report *r)
{
        struct session_report session = { 0 };

        if (over_rdma)
                play_over_rdma(s);
        else if (is_for_target(s))
                inproc_play(s, r);
        else
                session_play(s, SESSION_DECLARED, &session);
}

static _Noreturn void trial(const struct sequence *s, bool planted)
{
        int null = open("/dev/null", O_WRONLY);

        dup2(null, STDERR_FILENO);
        alarm(PATIENCE);
        if (planted)
                plant_switch_on(plant);
        play(s, &(struct inproc_report) { 0 });
        _exit(__lsan_do_recoverable_leak_check());
}

static bool ends_badly(const struct sequence *s, bool planted)
{
        pid_t child = fork();
        int status = 0;

        if (child == 0)
                trial(s, planted);
        return child < 0 || waitpid(child, &status, 0) < 0 || status != 0;
}

static bool is_bad(const struct sequence *s, void *user)
{
        unsigned *trials = user;

        ++*trials;
        return ends_badly(s, true);
}

/* --- files -------------------------------------------------------------------------------------- */

static bool load(const char *path, struct sequence *s)
{
        static char text[SEQ_TEXT];
        FILE *f = fopen(path, "re");
        char err[200] = "cannot be read";
        size_t n = f ? fread(text, 1, sizeof(text), f) : 0;
        bool ok = f && n < sizeof(text) && seq_parse(s, text, n, err, sizeof(err));

        if (f)
                fclose(f);
        if (!ok)
                fprintf(stderr, "%s: %s\n", path, err);
        return ok;
}

static bool save(const char *path, const struct sequence *s)
{
        static char text[SEQ_TEXT];
        FILE *f = fopen(path, "we");
        size_t n = seq_print(s, text, sizeof(text));
        bool ok = f && fwrite(text, 1, n, f) == n;

        if (f)
                ok &= fclose(f) == 0;
        if (!ok)
                perror(path);
        return ok;
}

struct recording {
        struct capture_writer *w;
        struct capture_flow flow[SEQ_QUEUES];
        bool open[SEQ_QUEUES];
        int64_t now; /* ns */
        uint16_t port;
};

/* Each connection has a port of its own. */
static void open_flow(struct recording *r, unsigned on)
{
        struct sockaddr_in host = { .sin_family = AF_INET, .sin_port = htons(r->port++) };
        struct sockaddr_in controller = { .sin_family = AF_INET, .sin_port = htons(NVME_TCP_PORT) };

        host.sin_addr.s_addr = htonl(0x0a000001);
        controller.sin_addr.s_addr = htonl(0x0a000002);
        capture_flow_open(r->w, &r->flow[on], (void *)&host, (void *)&controller, r->now);
}

static void on_bytes(void *user, unsigned on, enum party sender, const void *p, size_t n)
{
        struct recording *r = user;

        r->now += 1000;
        if (p && !r->open[on])
                open_flow(r, on);
        if (p)
                capture_flow_data(r->w, &r->flow[on], sender, p, n, r->now);
        else if (r->open[on])
                capture_flow_close(r->w, &r->flow[on], sender, false, r->now);
        r->open[on] = p;
}

static bool record(const char *path, const struct sequence *s)
{
        struct recording rec = { .port = 50000 };
        struct inproc_report r = { .bytes = on_bytes, .user = &rec };
        char err[200];

        rec.w = capture_writer_open(path, err, sizeof(err));
        if (!rec.w) {
                fprintf(stderr, "%s: %s\n", path, err);
                return false;
        }
        inproc_play(s, &r);
        return capture_writer_close(rec.w) == 0;
}

int main(int argc, char **argv)
{
        static struct sequence s;
        unsigned trials = 0;
        bool check;

        over_rdma = argc == 4 && strcmp(argv[1], "--rdma") == 0;
        check = over_rdma || (argc == 4 && strcmp(argv[1], "--check") == 0);
        if (argc != 5 && !check) {
                fprintf(stderr, "usage: fuzz_minimal PLANT INPUT OUT.seq OUT.pcap | --check|--rdma "
                                "PLANT INPUT\n");
                return USAGE;
        }
        argv += check;
        plant = argv[1];
        if (!load(argv[2], &s))
                return USAGE;
        if (!is_bad(&s, &trials)) {
                fprintf(stderr, "%s: does no harm even with %s\n", argv[2], plant);
                return FAILED;
        }
        if (!check)
                seq_minimise(&s, is_bad, &trials);
        if (ends_badly(&s, false)) {
                fprintf(stderr, "%s: does harm even without %s\n", argv[2], plant);
                return FAILED;
        }
        if (check)
                return OK;
        printf("%u steps, %u trials\n", s.steps, trials);
        return save(argv[3], &s) && (!is_for_target(&s) || record(argv[4], &s)) ? OK : FAILED;
}
