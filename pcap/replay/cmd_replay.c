/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/nvme/identity.h"
#include "pcap/nvme/source.h"
#include "pcap/nvme/tools.h"
#include "pcap/tools/args.h"
#include "pcap/tools/command.h"
#include "pdu/io/capture/capture_writer.h"
#include "pdu/io/option.h"
#include "pdu/io/output.h"
#include "pdu/io/verbs/verbs_rdma.h"
#include "pdu/nvme/io/auth_openssl.h"
#include "pdu/nvme/io/nvme_record.h"
#include "replay.h"
#include "replay_serve.h"

struct replay_args {
        struct trace_options trace; /* first: args_take_port() */
        struct source source;
        const char *transport, *traddr, *trsvcid, *nqn, *hostnqn, *hostid, *remap, *timing, *role,
            *pcap;
        uint64_t timeout, stop_at, loop, idle;
        bool hdgst, ddgst, allow_write, strict_data, verbose, help;
        struct auth_key dhchap, dhchap_ctrl;
};

static bool take_keylog(void *args, const char *value, char *error, size_t size)
{
        return source_take_keylog(&((struct replay_args *)args)->source, value, error, size);
}

static bool take_key(void *args, const char *value, char *error, size_t size)
{
        return auth_key_argument(&((struct replay_args *)args)->dhchap, value, error, size) == 0;
}

static bool take_ctrl_key(void *args, const char *value, char *error, size_t size)
{
        return auth_key_argument(&((struct replay_args *)args)->dhchap_ctrl, value, error, size) ==
               0;
}

#define AT(member) .at = offsetof(struct replay_args, member)
/* clang-format off */
static const struct option_row rows[] = {
        { 0, "role", "ROLE", "role to play: host (to a live target) or controller (for a live "
                             "host) (host)", OPTION_CHOICE, 1, AT(role), .choices = "host|controller" },
        { 't', "transport", "TYPE", "tcp or rdma, independent of the capture (tcp)", OPTION_CHOICE, 1, AT(transport), .choices = "tcp|rdma" },
        { 'a', "traddr", "ADDR", "address of the live target; controller: address to listen on", OPTION_STRING, 1, AT(traddr) },
        { 's', "trsvcid", "PORT", "its port (4420)", OPTION_STRING, 1, AT(trsvcid) },
        { 'n', "nqn", "NQN", "the subsystem to connect to (as captured)", OPTION_STRING, 1, AT(nqn) },
        { 'q', "hostnqn", "NQN", "host NQN (as captured)", OPTION_STRING, 1, AT(hostnqn) },
        { 'I', "hostid", "UUID", "host identifier (as captured)", OPTION_STRING, 1, AT(hostid) },
        { 'S', "dhchap-secret", "KEY", "host: key of the host, DHHC-1:..., or @FILE that "
                                       "contains it", OPTION_CALL, 1, .call = take_key },
        { 'C', "dhchap-ctrl-secret", "KEY", "host: key of the controller, to authenticate the "
                                            "live target, or @FILE", OPTION_CALL, 1, .call = take_ctrl_key },
        { 'g', "hdr-digest", NULL, "ask for header digests", OPTION_FLAG, 1, AT(hdgst) },
        { 'G', "data-digest", NULL, "ask for data digests", OPTION_FLAG, 1, AT(ddgst) },
        { 0, "timeout", "MS", "timeout of each command in milliseconds (30000)", OPTION_NUMBER, 1, AT(timeout), .min = 1, .max = 86400000 },
        { 0, "allow-write", NULL, "also replay commands that change something: destroys data", OPTION_FLAG, 1, AT(allow_write) },
        { 0, "remap-lba", "OFFSET[:BLOCKS]", "add OFFSET to each LBA; skip commands beyond "
                                             "BLOCKS blocks", OPTION_STRING, 1, AT(remap) },
        { 0, "strict-data", NULL, "blocks must contain the same data as when the capture was taken", OPTION_FLAG, 1, AT(strict_data) },
        { 0, "timing", "SCALE", "keep the original timing, scaled: 1 as captured, 0.5 twice as "
                                "fast", OPTION_STRING, 1, AT(timing) },
        { 0, "stop-at", "FRAME", "stop after this frame", OPTION_NUMBER, 1, AT(stop_at), .min = 1 },
        { 0, "loop", "N", "replay N times (1)", OPTION_NUMBER, 1, AT(loop), .min = 1 },
        { 0, "idle", "SEC", "controller: end after this time without a connection (only at a "
                            "signal)", OPTION_SECONDS, 1, AT(idle), .min = 1, .max = 86400000 },
        { 0, "port", "PORT", "port of a controller in the capture (4420, 8009); repeatable", OPTION_CALL, 1, .call = args_take_port },
        { 0, "keylog", "FILE", "decrypt TLS 1.3 in the capture with this key log (SSLKEYLOGFILE's format); repeatable", OPTION_CALL, 1, .call = take_keylog },
        { 0, "pcap", "FILE", "host: write the connections to a .pcapng or .pcap; RDMA as "
                             "RoCEv2, with READs and WRITEs derived from the responses", OPTION_STRING, 1, AT(pcap) },
        { 'v', "verbose", NULL, "print a line for each command", OPTION_FLAG, 1, AT(verbose) },
        { 'h', "help", NULL, "print this help", OPTION_FLAG, 1, AT(help) },
        { 0 },
};
/* clang-format on */

static int refuse(const char *why, const char *what)
{
        fprintf(stderr, "nvmfspec pcap replay: %s%s\n", why, what);
        return PCAP_USAGE;
}

/* "OFFSET" or "OFFSET:BLOCKS" */
static bool take_remap(const char *s, struct replay_options *o)
{
        char offset[32];
        const char *colon = strchr(s, ':');
        size_t n = colon ? (size_t)(colon - s) : strlen(s);

        if (n >= sizeof(offset))
                return false;
        memcpy(offset, s, n);
        offset[n] = '\0';
        return option_number(offset, &o->offset) == 0 &&
               (!colon || (option_number(colon + 1, &o->blocks) == 0 && o->blocks > 0));
}

static bool take_timing(const char *s, double *scale)
{
        char *end;

        *scale = strtod(s, &end);
        return end != s && *end == '\0' && *scale > 0 && *scale <= 1e6;
}

/* 0, or the exit code. */
static int make_options(const struct replay_args *a, struct replay_options *o, uint8_t hostid[16])
{
        *o = (struct replay_options) {
                .transport = strcmp(a->transport, "rdma") == 0 ? HOST_RDMA : HOST_TCP,
                .traddr = a->traddr,
                .trsvcid = a->trsvcid,
                .subnqn = a->nqn,
                .hostnqn = a->hostnqn,
                .hdgst = a->hdgst,
                .ddgst = a->ddgst,
                .dhchap = a->dhchap,
                .dhchap_ctrl = a->dhchap_ctrl,
                .timeout = (unsigned)a->timeout,
                .allow_write = a->allow_write,
                .strict_data = a->strict_data,
        };
        if (!a->traddr)
                return refuse("no address given: use -a ADDR", "");
        if (a->dhchap_ctrl.len && !a->dhchap.len)
                return refuse("--dhchap-ctrl-secret requires --dhchap-secret", "");
        if ((a->nqn && strlen(a->nqn) > NQN_MAX) || (a->hostnqn && strlen(a->hostnqn) > NQN_MAX))
                return refuse("an NQN has at most 223 bytes", "");
        if (a->hostid && host_uuid_parse(a->hostid, hostid) < 0)
                return refuse("not a UUID: ", a->hostid);
        if (a->hostid)
                o->hostid = hostid;
        if (a->pcap && strcmp(a->role, "host") != 0)
                return refuse("--pcap requires the role host", "");
        if (o->transport == HOST_RDMA && (a->hdgst || a->ddgst))
                return refuse("NVMe/RDMA has no digests", "");
        if (a->remap && !take_remap(a->remap, o))
                return refuse("must be OFFSET or OFFSET:BLOCKS, not ", a->remap);
        if (a->timing && !take_timing(a->timing, &o->timing))
                return refuse("not a scale of time: ", a->timing);
        return 0;
}

/* --- lines ------------------------------------------------------------------------------------ */

static void print(const struct replayed *r)
{
        char buf[512];
        struct text t = text_in(buf, sizeof(buf));
        const struct plan_cmd *c = r->cmd;

        sqe_line(&t, &c->sqe, c->admin);
        printf("%-9s frame %" PRIu64, likeness_name(r->verdict.likeness), c->at.frame);
        if (c->answered)
                printf("-%" PRIu64, c->answer.frame);
        printf(" connection %u", c->queue->number);
        if (c->queue->qid >= 0)
                printf(" q%d", c->queue->qid);
        printf(" %s", buf);
        if (r->sent)
                printf(", live q%u cid %u", r->qid, r->cid);
        printf("%s%s\n", *r->verdict.why ? ": " : "", r->verdict.why);
}

static void on_replayed(void *user, const struct replayed *r)
{
        const struct replay_args *a = user;

        if (a->verbose || r->verdict.likeness == DIFFERENT)
                print(r);
}

static void summary(const struct replay_totals *t)
{
        printf("%" PRIu64 " same, %" PRIu64 " allowed differences, %" PRIu64 " DIFFERENT, %" PRIu64
               " skipped\n",
               t->count[SAME], t->count[ALLOWED], t->count[DIFFERENT], t->count[SKIPPED]);
        if (t->reordered)
                printf("%" PRIu64 " answers arrived in another order (allowed: NVMe promises no "
                       "order)\n",
                       t->reordered);
}

static int read_plan(struct replay_plan *p, const struct replay_args *a, const char *file,
                     char *err, size_t err_size)
{
        int rc = replay_plan_read(p, file, &a->trace, a->stop_at, err, err_size);

        if (p->others > 0)
                fprintf(stderr, "%s: %u connections of %s %s%s\n", file, p->others, p->other->name,
                        p->other->replay ? "are left out: -t " : "cannot be replayed",
                        p->other->replay ? p->other->family->transports[0] : "");
        return rc;
}

static int run(const struct replay_args *a, const char *file, const struct replay_options *o)
{
        struct replay_totals totals = { 0 };
        struct replay_plan plan;
        char err[300] = "";
        int rc = read_plan(&plan, a, file, err, sizeof(err));

        if (rc == 0 && !plan.cmds) {
                snprintf(err, sizeof(err), "%s: contains no command", file);
                rc = -1;
        }
        for (uint64_t i = 0; i < a->loop && rc == 0; i++)
                rc = replay_run(&plan, o, on_replayed, (void *)a, &totals, err, sizeof(err));
        if (rc == 0 || totals.count[SAME] + totals.count[ALLOWED] + totals.count[DIFFERENT] > 0)
                summary(&totals);
        replay_plan_free(&plan);
        fflush(stdout);
        if (rc < 0) {
                fprintf(stderr, "nvmfspec pcap replay: %s\n", err);
                return PCAP_UNREADABLE;
        }
        return totals.count[DIFFERENT] ? PCAP_BROKEN : PCAP_OK;
}

/* --- as controller ---------------------------------------------------------------------------- */

struct serving {
        const struct replay_args *args;
        struct replay_totals totals;
};

static volatile sig_atomic_t stopped;

static void on_signal(int signal)
{
        (void)signal;
        stopped = 1;
}

static void on_listening(void *user, uint16_t port)
{
        const struct serving *s = user;

        printf("listening on %s:%u\n", s->args->traddr, port);
        fflush(stdout);
}

static void on_served(void *user, const struct served *served)
{
        struct serving *s = user;
        char buf[512];
        struct text t = text_in(buf, sizeof(buf));

        s->totals.count[served->verdict.likeness]++;
        if (!s->args->verbose && served->verdict.likeness != DIFFERENT)
                return;
        sqe_line(&t, served->sqe, served->qid == 0);
        printf("%-9s live q%u %s", likeness_name(served->verdict.likeness), served->qid, buf);
        if (served->cmd)
                printf(", captured frame %" PRIu64 "-%" PRIu64, served->cmd->at.frame,
                       served->cmd->answer.frame);
        printf("%s%s\n", *served->verdict.why ? ": " : "", served->verdict.why);
}

static int run_controller(const struct replay_args *a, const struct replay_options *as_host,
                          const char *file)
{
        struct serving serving = { .args = a };
        struct serve_options o = { .transport = as_host->transport,
                                   .traddr = a->traddr,
                                   .trsvcid = a->trsvcid,
                                   .idle = (unsigned)a->idle,
                                   .stop = &stopped,
                                   .listening = on_listening,
                                   .served = on_served,
                                   .user = &serving };
        struct replay_plan plan;
        char err[300] = "";
        int rc = read_plan(&plan, a, file, err, sizeof(err));

        setvbuf(stdout, NULL, _IOLBF, 0);
        signal(SIGINT, on_signal);
        signal(SIGTERM, on_signal);
        if (rc == 0)
                rc = replay_serve(&plan, &o, err, sizeof(err));
        replay_plan_free(&plan);
        if (rc == 0)
                summary(&serving.totals);
        fflush(stdout);
        if (rc < 0) {
                fprintf(stderr, "nvmfspec pcap replay: %s\n", err);
                return PCAP_UNREADABLE;
        }
        return serving.totals.count[DIFFERENT] ? PCAP_BROKEN : PCAP_OK;
}

static bool start_recording(const struct replay_args *a, struct replay_options *o, char *error,
                            size_t size)
{
        struct verbs_provider *devices;

        o->record = capture_writer_open(a->pcap, error, size);
        if (!o->record || o->transport == HOST_TCP)
                return o->record;
        devices = verbs_rdma(error, size);
        o->verbs = devices ? nvme_record_new(devices, o->record) : NULL;
        return o->verbs;
}

static int run_recorded(const struct replay_args *a, const char *file, struct replay_options *o)
{
        char error[300] = "";
        int rc;

        if (a->pcap && output_same(a->pcap, file))
                rc = refuse(a->pcap, ": is the file that is read; choose another one");
        else if (a->pcap && !start_recording(a, o, error, sizeof(error)))
                rc = refuse(error, "");
        else
                rc = run(a, file, o);
        if (a->pcap)
                verbs_record_free(o->verbs);
        if (o->record && capture_writer_close(o->record) < 0) {
                fprintf(stderr, "nvmfspec pcap replay: %s: %s\n", a->pcap, strerror(errno));
                return PCAP_UNREADABLE;
        }
        return rc;
}

int replay_command(const struct trace_family *const *families, int argc, char **argv)
{
        struct replay_args a = { .trace.beside = families + 1,
                                 .role = "host",
                                 .transport = "tcp",
                                 .trsvcid = "4420",
                                 .timeout = HOST_TIMEOUT,
                                 .loop = 1 };
        struct replay_options o;
        uint8_t hostid[16];
        char error[200] = "";
        int first = option_parse(rows, 1, argc, argv, &a, error, sizeof(error)), rc;

        if (first < 0)
                return refuse(error, "");
        if (a.help) {
                puts("usage: nvmfspec pcap replay FILE -a ADDR [OPTION...]\n"
                     "send the commands of a capture to a live target again and compare the "
                     "answers\n");
                option_help(rows, 1, stdout);
                return PCAP_OK;
        }
        if (first + 1 != argc)
                return refuse(first == argc ? "no file given" : "one file at a time", "");
        rc = make_options(&a, &o, hostid);
        if (rc == 0 && !source_open(&a.source, argv[first], &a.trace.tls, error, sizeof(error)))
                rc = refuse(error, "");
        if (rc == 0)
                rc = strcmp(a.role, "controller") == 0 ? run_controller(&a, &o, argv[first])
                                                       : run_recorded(&a, argv[first], &o);
        source_close(&a.source);
        return rc;
}
