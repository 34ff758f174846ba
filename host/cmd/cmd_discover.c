/* SPDX-License-Identifier: BSD-3-Clause */
/* nvmfspec host discover: printed as nvme-cli prints it, and so is the JSON. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "host/engine/show.h"
#include "host/nvme/build.h"
#include "host/nvme/discovery.h"

enum { SLICE_MS = 200 };

/* --- an entry --------------------------------------------------------------------------------- */

static const struct word families[] = {
        { ADRFAM_IPV4, "ipv4" },
        { ADRFAM_IPV6, "ipv6" },
        { ADRFAM_IB, "infiniband" },
        { ADRFAM_FC, "fibre-channel" },
        { 0, NULL },
};
static const struct word transports[] = {
        { TRTYPE_RDMA, "rdma" }, { TRTYPE_FC, "fc" }, { TRTYPE_TCP, "tcp" },
        { TRTYPE_LOOP, "loop" }, { 0, NULL },
};
static const struct word subtypes[] = {
        { SUBTYPE_REFERRAL, "discovery subsystem referral" },
        { SUBTYPE_NVM, "nvme subsystem" },
        { SUBTYPE_CURRENT, "current discovery subsystem" },
        { 0, NULL },
};
static const struct word secure_channels[] = {
        { 0, "not specified" },
        { 1, "required" },
        { 2, "not required" },
        { 0, NULL },
};
static const struct word security_types[] = {
        { 0, "none" },
        { 1, "tls" },
        { 2, "tls13" },
        { 0, NULL },
};
static const struct word rdma_qptypes[] = {
        { 1, "connected" },
        { 2, "datagram" },
        { 0, NULL },
};
static const struct word rdma_prtypes[] = {
        { PRTYPE_NONE, "not specified" }, { PRTYPE_IB, "infiniband" }, { PRTYPE_ROCE, "roce" },
        { PRTYPE_ROCE_V2, "roce-v2" },    { PRTYPE_IWARP, "iwarp" },   { 0, NULL },
};
static const struct word rdma_cms[] = {
        { 1, "rdma-cm" },
        { 0, NULL },
};

static const char *word(const struct word *words, uint64_t value)
{
        const char *says = word_for(words, value);

        return says ? says : "unrecognized";
}

struct line {
        const char *name;
        char value[1200]; /* a field of 256 bytes, each as \xNN */
};
enum { LINES_MAX = 13, TSAS_QPTYPE = 0, TSAS_PRTYPE = 1, TSAS_CMS = 2, TSAS_PKEY = 8 };

static void set_string(struct line *l, const char *name, const char *s, size_t n)
{
        struct text t = text_in(l->value, sizeof(l->value));

        l->name = name;
        text_printable(&t, s, text_len(s, n));
}

static void set_word(struct line *l, const char *name, const char *s)
{
        set_string(l, name, s, strlen(s));
}

static void set_treq(struct line *l, uint8_t treq)
{
        struct text t = text_in(l->value, sizeof(l->value));

        l->name = "treq";
        text_add(&t, "%s", word(secure_channels, treq & TREQ_SECURE_MASK));
        if (treq & TREQ_SQFC)
                text_add(&t, ", sq flow control disable supported");
        if (treq & TREQ_ZHIDS)
                text_add(&t, ", zero hostid accepted");
}

static void set_eflags(struct line *l, uint16_t eflags)
{
        struct text t = text_in(l->value, sizeof(l->value));

        l->name = "eflags";
        if (eflags & EFLAGS_EPCSD)
                text_add(&t, "explicit discovery connections");
        if (eflags & EFLAGS_DUPRETINFO)
                text_add(&t, "%sduplicate discovery information", t.len ? ", " : "");
        if (!t.len)
                text_add(&t, "none");
}

static int rdma_lines(const struct disc_entry *d, struct line *l)
{
        set_word(&l[0], "rdma_prtype", word(rdma_prtypes, d->tsas[TSAS_PRTYPE]));
        set_word(&l[1], "rdma_qptype", word(rdma_qptypes, d->tsas[TSAS_QPTYPE]));
        set_word(&l[2], "rdma_cms", word(rdma_cms, d->tsas[TSAS_CMS]));
        l[3].name = "rdma_pkey";
        snprintf(l[3].value, sizeof(l[3].value), "0x%04x",
                 (unsigned)le_get(d->tsas + TSAS_PKEY, 2));
        return 4;
}

/* How many. */
static int entry_lines(const struct disc_entry *d, struct line l[LINES_MAX])
{
        set_word(&l[0], "trtype", word(transports, d->trtype));
        set_word(&l[1], "adrfam", word(families, d->adrfam));
        set_word(&l[2], "subtype", word(subtypes, d->subtype));
        set_treq(&l[3], d->treq);
        l[4].name = "portid";
        snprintf(l[4].value, sizeof(l[4].value), "%u", le16_get(d->portid));
        set_string(&l[5], "trsvcid", d->trsvcid, sizeof(d->trsvcid));
        set_string(&l[6], "subnqn", d->subnqn, sizeof(d->subnqn));
        set_string(&l[7], "traddr", d->traddr, sizeof(d->traddr));
        set_eflags(&l[8], le16_get(d->eflags));
        if (d->trtype == TRTYPE_RDMA)
                return 9 + rdma_lines(d, &l[9]);
        set_word(&l[9], "sectype", word(security_types, d->tsas[0]));
        return 10;
}

static void print_entry(const struct disc_entry *d)
{
        struct line lines[LINES_MAX];
        int count = entry_lines(d, lines);
        char name[16];

        for (int i = 0; i < count; i++) {
                snprintf(name, sizeof(name), "%s:", lines[i].name);
                printf("%-8s %s\n", name, lines[i].value);
        }
}

static struct json_object *entry_json(const struct disc_entry *d)
{
        struct json_object *o = json_object_new_object();
        struct line lines[LINES_MAX];
        int count = entry_lines(d, lines);

        for (int i = 0; i < count; i++)
                put_string(o, lines[i].name, lines[i].value);
        json_object_object_add(o, "portid", json_object_new_int(le16_get(d->portid)));
        json_object_object_add(o, "cntlid", json_object_new_int(le16_get(d->cntlid)));
        json_object_object_add(o, "asqsz", json_object_new_int(le16_get(d->asqsz)));
        return o;
}

/* --- a log ------------------------------------------------------------------------------------ */

static void print_log(const struct discovery_log *log)
{
        const struct disc_entry *d;

        printf("\nDiscovery Log Number of Records %llu, Generation counter %llu\n",
               (unsigned long long)log->count, (unsigned long long)log->genctr);
        for (uint64_t i = 0; (d = disc_log_entry(log->page, log->len, i)) != NULL; i++) {
                printf("=====Discovery Log Entry %llu======\n", (unsigned long long)i);
                print_entry(d);
        }
}

static struct json_object *log_json(const struct discovery_log *log)
{
        struct json_object *o = show_object(), *records = json_object_new_array();
        const struct disc_entry *d;

        put_number(o, "genctr", log->genctr);
        for (uint64_t i = 0; (d = disc_log_entry(log->page, log->len, i)) != NULL; i++)
                json_object_array_add(records, entry_json(d));
        json_object_object_add(o, "records", records);
        return o;
}

static void show_log(const struct discovery_log *log, bool json)
{
        if (json)
                show_json(log_json(log));
        else
                print_log(log);
        fflush(stdout);
}

/* Entries of a that b does not have. */
static void print_missing(const struct discovery_log *a, const struct discovery_log *b,
                          const char *verb)
{
        const struct disc_entry *d;

        for (uint64_t i = 0; (d = disc_log_entry(a->page, a->len, i)) != NULL; i++) {
                if (discovery_has(b, d))
                        continue;
                printf("=====Entry %s======\n", verb);
                print_entry(d);
        }
}

/* --- staying ---------------------------------------------------------------------------------- */

static volatile sig_atomic_t told_to_stop;

static void on_signal(int sig)
{
        (void)sig;
        told_to_stop = 1;
}

struct events { /* the outstanding Asynchronous Event Request */
        struct host_cmd cmd;
        bool outstanding, seen;
};

static uint8_t event_page(const struct cqe *cqe)
{
        return (uint8_t)(le32_get(cqe->dw0) >> 16);
}

static void event_done(struct host_cmd *cmd, void *user)
{
        struct events *ev = user;

        ev->outstanding = false;
        ev->seen = cmd->status == 0 && event_page(&cmd->cqe) == LOG_DISCOVERY;
}

static void request_event(struct host_ctrl *c, struct events *ev)
{
        ev->cmd = (struct host_cmd) { .sqe = { .opc = NVME_AER }, .done = event_done, .user = ev };
        ev->outstanding = host_queue_submit(&c->admin, &ev->cmd) == 0;
}

/* Until it has been answered or there is reason to stop. */
static int wait_for_event(struct host_ctrl *c, const struct events *ev, struct host_error *e)
{
        while (ev->outstanding && !told_to_stop) {
                int ms = host_ctrl_next(c);
                struct pollfd fds[HOST_QUEUE_FDS];
                struct host_sleep s = { .fds = fds };

                host_queue_send(&c->admin);
                host_sleep_on(&s, &c->admin);
                host_sleep(&s, ms < SLICE_MS ? ms : SLICE_MS);
                if (host_ctrl_poll(c) < 0) {
                        *e = c->admin.state.error;
                        return -1;
                }
        }
        if (!ev->outstanding && ev->cmd.status)
                return host_fail_status(e, ev->cmd.status, &ev->cmd.cqe,
                                        "Asynchronous Event Request");
        return 0;
}

/* An event of another log page: as long as that is not read, no other of its type is reported. */
static int clear_event(struct host_ctrl *c, const struct events *ev, struct host_error *e)
{
        le32_t start;
        union sqe sqe =
            build_get_log(event_page(&ev->cmd.cqe), UINT32_MAX, 0, sizeof(start), false);

        return host_ctrl_admin(c, &sqe, &start, sizeof(start), NULL, e) < 0 &&
                       e->kind == HOST_BROKEN
                   ? -1
                   : 0;
}

static int await_event(struct host_ctrl *c, struct events *ev, struct host_error *e)
{
        while (!ev->seen && !told_to_stop) {
                if (!ev->outstanding)
                        request_event(c, ev);
                if (wait_for_event(c, ev, e) < 0)
                        return -1;
                if (!ev->outstanding && !ev->seen && clear_event(c, ev, e) < 0)
                        return -1;
        }
        ev->seen = false;
        return 0;
}

static void show_change(const struct discovery_log *was, const struct discovery_log *is, bool json)
{
        if (json) {
                show_log(is, json);
                return;
        }
        printf("\nGeneration counter %llu, was %llu\n", (unsigned long long)is->genctr,
               (unsigned long long)was->genctr);
        print_missing(is, was, "added");
        print_missing(was, is, "removed");
        fflush(stdout);
}

/* Tells every change until a signal comes. */
static int stay(struct host_ctrl *c, struct events *ev, struct discovery_log *log, bool json,
                struct host_error *e)
{
        struct sigaction act = { .sa_handler = on_signal };
        struct discovery_log is;

        sigaction(SIGINT, &act, NULL);
        sigaction(SIGTERM, &act, NULL);
        while (!told_to_stop) {
                if (await_event(c, ev, e) < 0)
                        return -1;
                if (told_to_stop)
                        break;
                if (discovery_read(c, 0, &is, e) < 0)
                        return -1;
                show_change(log, &is, json);
                discovery_free(log);
                *log = is;
        }
        return 0;
}

static int read_and_show(struct call *call, struct host_ctrl *c, struct events *ev,
                         struct host_error *e)
{
        struct discovery_log log;
        int result = 0;

        if (discovery_read(c, 0, &log, e) < 0)
                return -1;
        show_log(&log, host_json(&call->args->base));
        if (call->args->persistent)
                result = stay(c, ev, &log, host_json(&call->args->base), e);
        discovery_free(&log);
        return result;
}

int call_discover(struct call *call, struct host_error *e)
{
        struct host_params p;
        struct host_error late;
        struct host_ctrl c;
        struct events ev = { 0 }; /* outstanding until the queue is closed */
        int result;

        if (args_params(call->args, "8009", NQN_DISCOVERY, &p, e) < 0)
                return -1;
        if (call->args->kato == ARG_UNSET && !call->args->persistent)
                p.kato = 0; /* asks for a connection that is not persistent */
        if (host_ctrl_connect(&c, &p, e) < 0)
                return -1;
        result = read_and_show(call, &c, &ev, e);
        host_ctrl_disconnect(&c, &late);
        return result;
}
