/* SPDX-License-Identifier: BSD-3-Clause */
#include "command.h"

#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "family.h"
#include "pdu/core/family.h"
#include "pdu/io/capture/capture_writer.h"
#include "pdu/io/core_dump.h"
#include "pdu/io/log.h"
#include "pdu/io/net.h"
#include "pdu/io/option_table.h"
#include "pdu/io/page_server.h"
#include "pdu/io/verbs/verbs_rdma.h"

enum {
        EXIT_USAGE = 2,
        EXIT_BROKEN = 3,
        PCAP_LEAST = 1 << 16, /* bytes of a recording: some packets of the largest */
        PCAP_MOST = 1 << 30,  /* without --pcap-size */
};

/* --- options ---------------------------------------------------------------------------------- */

const char *target_transport(const struct target_args *a, const char **place)
{
        const char *const *all = a->family->family->transports;

        for (const char *const *t = all; *t; t++) {
                size_t len = strlen(*t);

                if (strncmp(*place, *t, len) == 0 && (*place)[len] == ':') {
                        *place += len + 1;
                        return *t;
                }
        }
        return a->trtype ? a->trtype : all[0];
}

static bool take_listen(void *args, const char *value, char *error, size_t size)
{
        struct target_args *a = args;
        const char *place = value;
        char addr[NET_TRADDR], port[32];

        (void)target_transport(a, &place);
        if (!net_split(place, addr, port)) {
                snprintf(error, size, "'%s' is not of the form [TYPE:]ADDR:PORT", value);
                return false;
        }
        if (a->n_listens == TARGET_LISTENS) {
                snprintf(error, size, "given more than %d times", TARGET_LISTENS);
                return false;
        }
        a->listens[a->n_listens++] = value;
        return true;
}

static bool take_cpus(void *args, const char *value, char *error, size_t size)
{
        struct target_args *a = args;

        for (const char *p = value; *p;) {
                char *end;
                unsigned long cpu = strtoul(p, &end, 10);

                if (end == p || (*end != ',' && *end != '\0') || cpu >= CPU_SETSIZE) {
                        snprintf(error, size, "'%s' is not a list of processors (0,2,3)", value);
                        return false;
                }
                CPU_SET(cpu, &a->cpus);
                p = *end ? end + 1 : end;
        }
        return true;
}

#define AT(field) .at = offsetof(struct target_args, field)

/* clang-format off */
/* Where, before the family's own; the choices of -t are those of all families. */
static const struct option_row where[] = {
        { 't', "transport", "TRTYPE", NULL /* "tcp or rdma (tcp)" */, OPTION_CHOICE, 1, AT(trtype) },
        { 'a', "traddr", "ADDR", "address to listen on (127.0.0.1)", OPTION_STRING, 1, AT(traddr) },
        { 's', "trsvcid", "PORT", NULL /* see add_port() */, OPTION_STRING, 1, AT(trsvcid) },
        { 0, "listen", "[TYPE:]ADDR:PORT", "another address to listen on, tcp:... or rdma:... (default: as -t says); "
                                           "repeatable", OPTION_CALL, 1, .call = take_listen },
        { 0 },
};

/* How it runs, after them. */
static const struct option_row how[] = {
        { 0, "metrics", "[ADDR]:PORT", "counters for Prometheus at http://ADDR:PORT/metrics (ADDR: 127.0.0.1)",
          OPTION_STRING, 1, AT(metrics) },
        { 0, "reactors", "N", "threads (1)", OPTION_NUMBER, 1, AT(reactors), .min = 1, .max = 256 },
        { 0, "busy-poll", "USEC", "poll for this time before sleeping (0)",
          OPTION_NUMBER, 1, AT(busy_poll), .max = 1000000 },
        { 0, "cpu", "LIST", "run on these processors (0,2,3)", OPTION_CALL, 1, .call = take_cpus },
        { 0, "user", "NAME", "give up root for this user, once namespaces are open and ports listen",
          OPTION_STRING, 1, AT(user) },
        { 0, "trace", NULL, "print each request's states on stderr: as --log-level trace", OPTION_FLAG, 1, AT(trace) },
        { 0, "pcap", "FILE", "write all connections to a .pcapng or .pcap, with the port that is usual; RDMA as RoCEv2",
          OPTION_STRING, 1, AT(pcap) },
        { 0, "pcap-size", "SIZE", "bytes that the recording may have, after which it ends; 0: no limit (1G)",
          OPTION_SIZE, 1, AT(pcap_size) },
        { 0, "pcap-files", "N", "record into a ring of N files of that size, as tcpdump -C -W does: FILE, FILE.1, ... "
                                "FILE.(N-1), then FILE over again (1)",
          OPTION_NUMBER, 1, AT(pcap_files), .min = 1, .max = 100000 },
        { 0, "quiet", NULL, "as --log-level error", OPTION_FLAG, 1, AT(quiet) },
        { 0, "log-level", "LEVEL", "error, warning, info or trace, on stderr (info)",
          OPTION_CHOICE, 1, AT(log_level), .choices = "error|warning|info|trace" },
        { 0, "log-format", "FORMAT", "text or json: an object a line (text)",
          OPTION_CHOICE, 1, AT(log_format), .choices = "text|json" },
        { 'h', "help", NULL, "this", OPTION_FLAG, 1, AT(help) },
        { 0 },
};
/* clang-format on */

/* What -s says, by the family's port. */
static void add_port(struct option_table *t, const char *port, char *says, size_t size)
{
        struct option_row *row = t->rows;

        while (row->letter != 's')
                row++;
        snprintf(says, size, "port to listen on%s%s%s; 0: any free port", port ? " (" : "",
                 port ? port : "", port ? ")" : "");
        row->says = says;
}

static void help(const struct option_table *t, const struct target_command *f)
{
        printf("usage: nvmfspec target [OPTION...]\n\n%s\n", f->intro);
        option_help(t->rows, 1, stdout);
        if (f->more_help)
                f->more_help(stdout);
}

static bool check_recording(const struct target_args *a, char *error, size_t size)
{
        if (!a->pcap && (a->pcap_size != PCAP_MOST || a->pcap_files > 1))
                snprintf(error, size, "--pcap-size and --pcap-files require --pcap");
        else if (a->pcap_size > 0 && a->pcap_size < PCAP_LEAST)
                snprintf(error, size, "--pcap-size is at least %dk, or 0", PCAP_LEAST >> 10);
        else if (a->pcap_size == 0 && a->pcap_files > 1)
                snprintf(error, size, "--pcap-files requires a --pcap-size");
        else
                return true;
        return false;
}

static bool complete(struct target_args *a, char *error, size_t size)
{
        const struct target_command *f = a->family->command;

        if (!check_recording(a, error, size))
                return false;
        if (!a->metrics || f->metrics)
                return !f->complete || f->complete(a, error, size);
        snprintf(error, size, "option --metrics: %s counts nothing", a->family->family->name);
        return false;
}

/* --- log, recording, rights -------------------------------------------------------------------- */

static void start_log(struct target_args *a)
{
        static const char *const levels[] = { "error", "warning", "info", "trace" };
        unsigned most = a->trace ? LOG_AS_TRACE : a->quiet ? LOG_AS_ERROR : LOG_AS_INFO;

        for (unsigned i = 0; a->log_level && i <= LOG_AS_TRACE; i++)
                if (strcmp(a->log_level, levels[i]) == 0)
                        most = i;
        a->trace = most == LOG_AS_TRACE;
        a->quiet = most == LOG_AS_ERROR;
        log_start(STDERR_FILENO, (enum log_level)most,
                  a->log_format && strcmp(a->log_format, "json") == 0);
}

static struct capture_writer *start_recording(const struct target_args *a, char *error, size_t size)
{
        struct capture_writer *w = capture_writer_open(a->pcap, error, size);

        if (w)
                capture_writer_limit(w, a->pcap_size, (unsigned)a->pcap_files);
        return w;
}

static int stop_recording(const struct target_args *a, struct capture_writer *w)
{
        if (!w || capture_writer_close(w) == 0)
                return 0;
        log_line(LOG_AS_ERROR, NULL, NULL, "%s: %s", a->pcap, strerror(errno));
        return EXIT_BROKEN;
}

/* Of all threads. What is opened later, by SIGHUP, the user has to be allowed to open. */
static bool become(const struct target_args *a, void *started, char *error, size_t size)
{
        const struct passwd *user = getpwnam(a->user);

        if (!user)
                snprintf(error, size, "option --user: there is no user '%s'", a->user);
        else if (a->family->command->give &&
                 a->family->command->give(started, user->pw_uid, user->pw_gid) < 0)
                snprintf(error, size, "option --user: the RPC's socket: %s", strerror(errno));
        else if (initgroups(a->user, user->pw_gid) < 0 ||
                 setresgid(user->pw_gid, user->pw_gid, user->pw_gid) < 0 ||
                 setresuid(user->pw_uid, user->pw_uid, user->pw_uid) < 0)
                snprintf(error, size, "option --user: %s", strerror(errno));
        else if (user->pw_uid != 0 && setuid(0) == 0)
                snprintf(error, size, "option --user: root could be had again");
        else
                return true;
        return false;
}

/* --- metrics ---------------------------------------------------------------------------------- */

struct running {
        struct target_args *args;
        void *started; /* the family's */
        struct capture_writer *record;
        struct page_server *pages; /* NULL: no metrics */
        struct page page;
        char addr[NET_TRADDR]; /* of them */
};

/* False: error says why not. */
static bool open_metrics(struct running *r, char *error, size_t size)
{
        const char *place = r->args->metrics;
        char port[32] = "";

        if (!place)
                return true;
        if (!net_split(place, r->addr, port)) {
                snprintf(error, size, "'%s' is not of the form [ADDR]:PORT", place);
                return false;
        }
        if (!r->addr[0])
                strcpy(r->addr, "127.0.0.1");
        r->pages = page_server_open(r->addr, port, error, size);
        return r->pages;
}

static char *make_metrics(void *user, size_t *len)
{
        const struct running *r = user;

        return r->args->family->command->metrics(r->started, len);
}

static bool start_metrics(struct running *r, char *error, size_t size)
{
        bool v6 = strchr(r->addr, ':') && r->addr[0] != '[';

        if (!r->pages)
                return true;
        r->page = (struct page) { .path = "/metrics",
                                  .type = "text/plain; version=0.0.4; charset=utf-8",
                                  .make = make_metrics,
                                  .user = r };
        if (page_server_run(r->pages, &r->page) < 0) {
                snprintf(error, size, "metrics: %s", strerror(errno));
                return false;
        }
        log_line(LOG_AS_INFO, NULL, NULL, "metrics at http://%s%s%s:%u/metrics", v6 ? "[" : "",
                 r->addr, v6 ? "]" : "", page_server_port(r->pages));
        return true;
}

static void free_args(struct target_args *a)
{
        if (a->family->command->forget)
                a->family->command->forget(a);
}

/* --- running ---------------------------------------------------------------------------------- */

static void announce(const struct running *r)
{
        char text[8192];

        r->args->family->command->describe(r->started, r->args, text, sizeof(text));
        printf("listening on %s\n", text);
        fflush(stdout);
}

static void reload(const struct running *r)
{
        char error[512];
        const struct target_command *f = r->args->family->command;
        int rc = f->reload ? f->reload(r->started, r->args, error, sizeof(error)) : 0;

        if (rc == 0)
                log_line(LOG_AS_INFO, NULL, NULL, "configuration read again");
        else
                log_line(LOG_AS_ERROR, NULL, NULL, "%s (%s)", error,
                         rc < 0 ? "nothing was changed" : "all else was changed");
}

static void wait_for_end(const struct running *r, const sigset_t *signals)
{
        int signal;

        while (sigwait(signals, &signal) == 0 && signal == SIGHUP)
                reload(r);
        pthread_sigmask(SIG_UNBLOCK, signals, NULL); /* another one ends it at once */
}

static void stop(struct running *r)
{
        page_server_close(r->pages);
        r->pages = NULL;
        if (r->started)
                r->args->family->command->stop(r->started);
        r->started = NULL;
}

/* False: error says why, and what was started is there all the same. */
static bool start(struct running *r, char *error, size_t size)
{
        struct target_args *a = r->args;
        const struct target_command *f = a->family->command;

        if (!open_metrics(r, error, size))
                return false;
        if (a->pcap && !(r->record = start_recording(a, error, size)))
                return false;
        r->started = f->start(a, r->record, error, size);
        return r->started && (!a->user || become(a, r->started, error, size)) &&
               (!f->control || f->control(r->started, a, error, size)) &&
               start_metrics(r, error, size);
}

static int run(struct target_args *a, const sigset_t *signals)
{
        struct running r = { .args = a };
        char error[512] = "";
        bool ok;
        int code;

        verbs_rdma_prepare();
        ok = start(&r, error, sizeof(error));
        if (ok) {
                announce(&r);
                free_args(a);
                wait_for_end(&r, signals);
        } else {
                fprintf(stderr, "nvmfspec target: %s\n", error);
        }
        stop(&r);
        code = stop_recording(a, r.record);
        return ok ? code : EXIT_USAGE;
}

/* Signals are taken by sigwait() alone: blocked before the target's threads are born. */
static int serve(struct target_args *a)
{
        sigset_t signals;

        sigemptyset(&signals);
        sigaddset(&signals, SIGTERM);
        sigaddset(&signals, SIGINT);
        sigaddset(&signals, SIGHUP);
        pthread_sigmask(SIG_BLOCK, &signals, NULL);
        signal(SIGPIPE, SIG_IGN);
        signal(SIGXFSZ, SIG_IGN); /* a file that may not grow so far fails its write, and no more */
        if (CPU_COUNT(&a->cpus) > 0 && sched_setaffinity(0, sizeof(a->cpus), &a->cpus) != 0) {
                fprintf(stderr, "nvmfspec target: option --cpu: %s\n", strerror(errno));
                return EXIT_USAGE;
        }
        start_log(a);
        if (a->key_on_line)
                log_line(LOG_AS_WARNING, NULL, NULL,
                         "a key on the command line is seen by others: give @FILE or "
                         "@/dev/fd/N");
        return run(a, &signals);
}

static int parse_and_serve(const struct option_table *t, struct target_args *a, int argc,
                           char **argv)
{
        char error[512] = "";
        int at = option_parse(t->rows, 1, argc, argv, a, error, sizeof(error));

        if (at >= 0 && a->help) {
                help(t, a->family->command);
                return 0;
        }
        if (at >= 0 && at < argc)
                fprintf(stderr, "nvmfspec target: '%s' is not an option\n", argv[at]);
        else if (at < 0 || !complete(a, error, sizeof(error)))
                fprintf(stderr, "nvmfspec target: %s\n", error);
        else
                return serve(a);
        return EXIT_USAGE;
}

int target_command(const struct target_family *const *families, int argc, char **argv)
{
        const struct target_family *f = option_family((const void *const *)families, argc, argv);
        struct option_table t;
        struct target_args *a;
        char says[80];
        int code;

        core_dump_empty(); /* secrets may come at any time */
        a = calloc(1, f->command->args_size);
        if (!a) {
                fprintf(stderr, "nvmfspec target: %s\n", strerror(ENOMEM));
                return EXIT_USAGE;
        }
        a->family = f;
        a->reactors = a->pcap_files = 1;
        a->pcap_size = PCAP_MOST;
        if (f->command->defaults)
                f->command->defaults(a);
        option_table_make(&t, (const void *const *)families, where, f->command->options, how);
        add_port(&t, f->command->port, says, sizeof(says));
        code = parse_and_serve(&t, a, argc, argv);
        free_args(a);
        free(a);
        return code;
}
