/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a planted bug was found by, as small as it gets, as sequence and as capture:
 *
 *      fuzz_minimal PLANT INPUT OUT.seq OUT.pcap
 *      fuzz_minimal --check PLANT INPUT             it is small already
 *
 * The sequence has to end the target in this process (a signal, a sanitizer, a timeout) with the bug,
 * and must not without it. Each trial is a process of its own. The capture is of the target without
 * the bug: of what the host says nothing is missing. Exit: 0 so it is, 1 it is not, 2 usage.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz/campaign/minimise.h"
#include "fuzz/inproc/inproc_target.h"
#include "pdu/core/plant.h"
#include "pdu/io/capture/capture_writer.h"
#include "pdu/nvme/wire/tcp.h"

enum { OK, FAILED, USAGE, PATIENCE = 10 /* s */ };

static const char *plant;

/* --- trials ------------------------------------------------------------------------------------- */

static _Noreturn void trial(const struct sequence *s, bool planted)
{
        struct inproc_report r = { 0 };
        int null = open("/dev/null", O_WRONLY);

        dup2(null, STDERR_FILENO);
        alarm(PATIENCE);
        if (planted)
                plant_switch_on(plant);
        inproc_play(s, &r);
        _exit(0);
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

        check = argc == 4 && strcmp(argv[1], "--check") == 0;
        if (argc != 5 && !check) {
                fprintf(stderr,
                        "usage: fuzz_minimal PLANT INPUT OUT.seq OUT.pcap | --check PLANT INPUT\n");
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
        return save(argv[3], &s) && record(argv[4], &s) ? OK : FAILED;
}
