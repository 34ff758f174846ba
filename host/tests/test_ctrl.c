/* SPDX-License-Identifier: BSD-3-Clause */
/* Queues, the association and the discovery log, against a controller that can misbehave. */
#include "fake.h"
#include "pdu/nvme/io/auth_openssl.h"

#include <signal.h>
#include <stdio.h>

#include "host/cmd/call.h"
#include "host/nvme/build.h"
#include "host/nvme/discovery.h"
#include "pdu/nvme/wire/discovery.h"

static struct fake fake;
static struct host_ctrl ctrl;
static struct host_error error;

static int connect_with(const struct fake_knobs *k, void (*change)(struct host_params *p))
{
        struct host_params p;

        fake_start(&fake, k);
        p = fake_params(&fake);
        p.io_queues = 2;
        if (change)
                change(&p);
        return host_ctrl_connect(&ctrl, &p, &error);
}

/* Connecting fails with a line that says so. */
static void refused(const struct fake_knobs *k, enum host_trouble kind, const char *says)
{
        assert_int_equal(connect_with(k, NULL), -1);
        assert_int_equal(error.kind, kind);
        if (!strstr(error.line, says))
                fail_msg("'%s' does not say '%s'", error.line, says);
        fake_stop(&fake);
}

static int io(uint8_t opc, uint64_t slba, uint32_t blocks, void *data)
{
        union sqe sqe = build_rw(opc, 1, slba, blocks, 0);

        return host_ctrl_run(&ctrl, &ctrl.io[0], &sqe, data, data ? blocks * 512 : 0, NULL, &error);
}

static void writes_and_reads_back(struct host_params p)
{
        static uint8_t out[65536], in[65536];

        p.io_queues = 2;
        assert_int_equal(host_ctrl_connect(&ctrl, &p, &error), 0);
        assert_int_equal(ctrl.io_count, 2);
        for (size_t i = 0; i < sizeof(out); i++)
                out[i] = (uint8_t)(i * 7 + i / 512);
        for (uint32_t blocks = 1; blocks <= 128; blocks *= 2) {
                memset(in, 0, sizeof(in));
                assert_int_equal(io(NVME_WRITE, blocks, blocks, out), 0);
                assert_int_equal(io(NVME_READ, blocks, blocks, in), 0);
                assert_memory_equal(in, out, (size_t)blocks * 512);
        }
        assert_int_equal(host_ctrl_disconnect(&ctrl, &error), 0);
}

static void every_format_of_the_wire(void **state)
{
        static const uint8_t hpdas[] = { 0, 1, 15, 31 };
        struct fake_knobs k = { .ioccsz = 4 + 4096 / 16 };

        (void)state;
        fake_start(&fake, &k);
        for (unsigned i = 0; i < 16; i++) {
                struct host_params p = fake_params(&fake);

                p.hdgst = i & 1;
                p.ddgst = i & 2;
                p.hpda = hpdas[i / 4];
                p.maxr2t = 1 + i % 3;
                writes_and_reads_back(p);
        }
        assert_int_equal(fake.shutdowns, 16);
        fake_stop(&fake);
}

static void refusals_of_connect_are_explained(void **state)
{
        (void)state;
        refused(
            &(struct fake_knobs) { .status = NVME_CONNECT_PARAM, .dw0 = CONNECT_IATTR_DATA | 256 },
            HOST_STATUS, "Connect Invalid Parameters (status 182h), SUBNQN (data offset 256)");
        assert_int_equal(error.status, NVME_CONNECT_PARAM);
        refused(&(struct fake_knobs) { .status = NVME_CONNECT_PARAM, .dw0 = 44 }, HOST_STATUS,
                "SQSIZE (command offset 44)");
        refused(&(struct fake_knobs) { .status = NVME_CONNECT_HOST }, HOST_STATUS, FAKE_NQN);
        refused(&(struct fake_knobs) { .status = 0x7c5 | STATUS_DNR }, HOST_STATUS,
                "Unknown Status (status 7c5h, do not retry)");
        refused(&(struct fake_knobs) { .auth = true }, HOST_STATUS, "no key is given");
}

static void with_keys(struct host_params *p)
{
        p->dhchap = p->dhchap_ctrl = (struct auth_key) { .len = 32 };
}

/* One that asks for what it does not have; one that is to prove who it is, and does not. */
static void authentication_that_cannot_be(void **state)
{
        (void)state;
        if (!auth_openssl())
                skip();
        assert_int_equal(connect_with(&(struct fake_knobs) { .auth = true }, with_keys), -1);
        assert_int_equal(error.kind, HOST_STATUS);
        assert_non_null(strstr(error.line, "Authentication Send: Invalid Field"));
        fake_stop(&fake);
        assert_int_equal(connect_with(&(struct fake_knobs) { 0 }, with_keys), -1);
        assert_int_equal(error.kind, HOST_STATUS);
        assert_non_null(strstr(error.line, "cannot be authenticated itself"));
        fake_stop(&fake);
}

static void a_controller_that_does_not_get_ready(void **state)
{
        (void)state;
        refused(&(struct fake_knobs) { .fatal = true }, HOST_STATUS, "fatal");
        refused(&(struct fake_knobs) { .no_rdy = true }, HOST_STATUS, "CSTS");
        refused(&(struct fake_knobs) { .no_queues = true }, HOST_STATUS, "Set Features");
}

static void a_shutdown_has_the_time_it_needs(void **state)
{
        static const uint32_t us_ms[][2] = {
                { 0, 5000 }, { 1000000, 5000 }, { 20000000, 20000 }, { UINT32_MAX, 60000 }
        };
        struct host_ctrl c = { 0 };

        (void)state;
        for (size_t i = 0; i < sizeof(us_ms) / sizeof(us_ms[0]); i++) {
                c.id.rtd3e = le32(us_ms[i][0]);
                assert_int_equal(host_ctrl_shutdown_ms(&c), us_ms[i][1]);
        }
}

static void fewer_queues_are_taken(void **state)
{
        (void)state;
        assert_int_equal(connect_with(&(struct fake_knobs) { .queues = 1 }, NULL), 0);
        assert_int_equal(ctrl.io_count, 1);
        assert_int_equal(host_ctrl_disconnect(&ctrl, &error), 0);
        fake_stop(&fake);
}

static void error_statuses_keep_the_connection(void **state)
{
        struct fake_knobs k = { .fail_opc = NVME_READ + 1,
                                .fail_status = NVME_LBA_RANGE | STATUS_DNR };
        uint8_t data[512];

        (void)state;
        assert_int_equal(connect_with(&k, NULL), 0);
        assert_int_equal(io(NVME_READ, 0, 1, data), -1);
        assert_int_equal(error.kind, HOST_STATUS);
        assert_int_equal(error.status, NVME_LBA_RANGE);
        assert_non_null(strstr(error.line, "Read: "));
        assert_non_null(strstr(error.line, "do not retry"));
        assert_int_equal(io(NVME_WRITE, 0, 1, data), 0);
        assert_int_equal(host_ctrl_disconnect(&ctrl, &error), 0);
        fake_stop(&fake);
}

/* Command Aborted By Host is for hosts to say. */
static void a_status_of_the_host_is_one_of_many(void **state)
{
        struct fake_knobs k = { .fail_opc = NVME_READ + 1, .fail_status = 0x371 };
        uint8_t data[512];

        (void)state;
        assert_int_equal(connect_with(&k, NULL), 0);
        assert_int_equal(io(NVME_READ, 0, 1, data), -1);
        assert_int_equal(error.kind, HOST_STATUS);
        assert_non_null(strstr(error.line, "Command Aborted By Host (status 371h)"));
        assert_int_equal(host_ctrl_disconnect(&ctrl, &error), 0);
        fake_stop(&fake);
}

/* Blocks with metadata are not read as though they had none; to be written zeroes they are as good
 * as any. */
static void metadata_is_not_overlooked(void **state)
{
        struct args args = { .base = { .pattern = 0x5a, .blocks = 1 }, .nsid = 1 };
        struct call call = { .args = &args, .ctrl = &ctrl };

        (void)state;
        assert_int_equal(connect_with(&(struct fake_knobs) { .metadata = 8 }, NULL), 0);
        assert_int_equal(call_write(&call, &error), -1);
        assert_int_equal(error.kind, HOST_USAGE);
        assert_non_null(strstr(error.line, "8 bytes of metadata per block of 512"));
        assert_int_equal(call_zeroes(&call, &error), 0);
        assert_int_equal(host_ctrl_disconnect(&ctrl, &error), 0);
        fake_stop(&fake);
}

/* Of blocks 0 to 99 those from 3 to 51 and from 95 to 97 are zeroes, and no others. */
static void two_runs_are_zeroes(void)
{
        static uint8_t data[100 * 512];

        assert_int_equal(io(NVME_READ, 0, 100, data), 0);
        for (unsigned i = 0; i < 100; i++) {
                bool zero = (i >= 3 && i < 52) || (i >= 95 && i < 98);

                assert_int_equal(data[i * 512 + 511], zero ? 0 : 0xff);
        }
}

/* Commands without data are as long as CNS 06h says that they may be. */
static void limits_of_commands_without_data(void **state)
{
        static const struct fake_knobs rows[] = {
                { 0 },
                { .limits = { .wzsl = 1, .dmrl = 2 } },
                { .limits = { .wzsl = 2, .dmrl = 4, .dmrsl = { { 16 } }, .dmsl = { { 20 } } } },
                { .limits = { .wzsl = 1, .dmrsl = { { 7 } } } },
        };
        static uint8_t ones[100 * 512];
        char *ranges[] = { "3+25", "28+1", "29+0", "29+20", "49+3", "95+3" };
        struct args args = { .base = { .slba = 3, .blocks = 49 }, .nsid = 1 };
        struct call call = { .args = &args, .ctrl = &ctrl };

        (void)state;
        memset(ones, 0xff, sizeof(ones));
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                assert_int_equal(connect_with(&rows[i], NULL), 0);
                assert_int_equal(io(NVME_WRITE, 0, 100, ones), 0);
                args.base = (struct host_args) { .slba = 3, .blocks = 49 };
                assert_int_equal(call_zeroes(&call, &error), 0);
                args.base = (struct host_args) { .slba = 95, .blocks = 3 };
                assert_int_equal(call_zeroes(&call, &error), 0);
                two_runs_are_zeroes();
                assert_int_equal(io(NVME_WRITE, 0, 100, ones), 0);
                call.words = ranges;
                call.count = sizeof(ranges) / sizeof(ranges[0]);
                assert_int_equal(call_dsm(&call, &error), 0);
                two_runs_are_zeroes();
                call.count = 0;
                assert_int_equal(host_ctrl_disconnect(&ctrl, &error), 0);
                fake_stop(&fake);
        }
}

/* A Read ends the queue, one way or another: the error says how, and nothing hangs. */
static void breaks(const struct fake_knobs *k, const char *says)
{
        uint8_t data[512];

        assert_int_equal(connect_with(k, NULL), 0);
        if (k->silent_opc) /* the only one that the host waits for in vain */
                ctrl.io[0].timeout = 100;
        assert_int_equal(io(NVME_READ, 0, 1, data), -1);
        assert_int_equal(error.kind, HOST_BROKEN);
        if (!strstr(error.line, says))
                fail_msg("'%s' does not say '%s'", error.line, says);
        assert_int_equal(io(NVME_READ, 0, 1, data), -1);
        host_ctrl_close(&ctrl);
        fake_stop(&fake);
}

static void queues_break_with_a_reason(void **state)
{
        (void)state;
        breaks(&(struct fake_knobs) { .silent_opc = NVME_READ + 1 },
               "queue 1: no response to Read within 100 ms");
        breaks(&(struct fake_knobs) { .close_opc = NVME_READ + 1 }, "closed the connection");
        breaks(&(struct fake_knobs) { .term_opc = NVME_READ + 1 }, "C2HTermReq: Invalid PDU");
}

/* What the controller said before it reset the connection is read, though sending fails first. */
static void last_words_are_heard(void **state)
{
        uint8_t data[512] = { 0 };

        (void)state;
        assert_int_equal(connect_with(&(struct fake_knobs) { .term_stop = true }, NULL), 0);
        fake_stop(&fake);
        assert_int_equal(io(NVME_WRITE, 0, 1, data), -1);
        assert_int_equal(error.kind, HOST_BROKEN);
        if (!strstr(error.line, "queue 1: controller sent C2HTermReq: Invalid PDU"))
                fail_msg("'%s'", error.line);
        host_ctrl_close(&ctrl);
}

static void nobody_listens(void **state)
{
        struct host_params p = host_params_default();

        (void)state;
        fake_start(&fake, &(struct fake_knobs) { 0 });
        p = fake_params(&fake);
        fake_stop(&fake);
        assert_int_equal(host_ctrl_connect(&ctrl, &p, &error), -1);
        assert_int_equal(error.kind, HOST_BROKEN);
        assert_non_null(strstr(error.line, "refused"));
}

/* --- keep alive ------------------------------------------------------------------------------- */

/* The clock is turned by hand, TURN ms a turn; what the machine takes for it is next to nothing. */
enum { KATO = 200000, TURN = KATO / 100, TURNS = 310 };

static void long_kato(struct host_params *p)
{
        p->kato = KATO;
}

/* Until there is something to receive. */
static void wait_for_an_answer(void)
{
        struct pollfd fds[HOST_QUEUE_FDS];
        int n = host_queue_fds(&ctrl.admin, fds);

        assert_in_range(n, 1, HOST_QUEUE_FDS);
        assert_in_range(poll(fds, (nfds_t)n, FAKE_PATIENCE), 1, n);
}

static unsigned keep_alives(bool tbkas, bool traffic)
{
        uint8_t data[512];
        unsigned count;

        assert_int_equal(connect_with(&(struct fake_knobs) { .tbkas = tbkas }, long_kato), 0);
        for (unsigned i = 0; i < TURNS; i++) {
                if (traffic)
                        assert_int_equal(io(NVME_READ, 0, 1, data), 0);
                ctrl.keep_at -= TURN * UINT64_C(1000000);
                assert_true(host_ctrl_poll(&ctrl) >= 0);
                while (ctrl.keep_busy) {
                        wait_for_an_answer();
                        assert_true(host_ctrl_poll(&ctrl) >= 0);
                }
        }
        count = fake.keep_alives;
        assert_int_equal(host_ctrl_disconnect(&ctrl, &error), 0);
        fake_stop(&fake);
        return count;
}

/* 3.1 KATO: by command twice in each; with TBKAS a check four times, if there was no traffic. */
static void keep_alive_is_sent_when_due(void **state)
{
        static const struct {
                bool tbkas, traffic;
                unsigned least, most;
        } rows[] = { { false, true, 3, 6 }, { true, false, 4, 12 }, { true, true, 0, 0 } };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                assert_in_range(keep_alives(rows[i].tbkas, rows[i].traffic), rows[i].least,
                                rows[i].most);
}

static void many_queues(struct host_params *p)
{
        p->kato = 200;
        p->io_queues = 8;
}

/* Connecting many queues of a slow controller takes longer than KATO. */
static void it_is_kept_alive_while_queues_connect(void **state)
{
        (void)state;
        assert_int_equal(connect_with(&(struct fake_knobs) { .connect_ms = 60 }, many_queues), 0);
        assert_true(fake.keep_alives >= 2);
        assert_int_equal(host_ctrl_disconnect(&ctrl, &error), 0);
        fake_stop(&fake);
}

static void kato_of_a_second(struct host_params *p)
{
        p->kato = 1000;
}

/* Who polls only when host_ctrl_next() says so finds the answer later than the timeout: it is there
 * all the same. */
static void an_answer_that_waits_is_no_silence(void **state)
{
        (void)state;
        assert_int_equal(connect_with(&(struct fake_knobs) { 0 }, kato_of_a_second), 0);
        ctrl.params.timeout = 400;
        for (unsigned i = 0; i < 3; i++) {
                usleep(1000 * (unsigned)host_ctrl_next(&ctrl) + 1000);
                if (ctrl.keep_busy)
                        wait_for_an_answer();
                assert_true(host_ctrl_poll(&ctrl) >= 0);
        }
        assert_in_range(fake.keep_alives, 2, 3);
        assert_int_equal(host_ctrl_disconnect(&ctrl, &error), 0);
        fake_stop(&fake);
}

/* --- reconnecting ----------------------------------------------------------------------------- */

static void impatient(struct host_params *p)
{
        p->kato = 100;
        p->reconnect_delay = 1;
        p->ctrl_loss_tmo = 100;
}

/* KAS of 200 ms makes KATO so much; later than ctrl_loss_tmo, the first try is made all the same. */
static void kas_puts_off_the_first_try(void **state)
{
        (void)state;
        assert_int_equal(connect_with(&(struct fake_knobs) { .kas = 2 }, impatient), 0);
        assert_int_equal(host_ctrl_reconnect(&ctrl, &error), 0);
        assert_int_equal(host_ctrl_disconnect(&ctrl, &error), 0);
        fake_stop(&fake);
}

static void but_not_for_hours(void **state)
{
        (void)state;
        assert_int_equal(connect_with(&(struct fake_knobs) { .kas = UINT16_MAX }, impatient), 0);
        assert_int_equal(host_ctrl_reconnect(&ctrl, &error), -1);
        assert_int_equal(error.kind, HOST_BROKEN);
        assert_non_null(strstr(error.line, "KAS of 6553 s"));
        fake_stop(&fake);
}

/* --- the discovery log ------------------------------------------------------------------------ */

static void no_io(struct host_params *p)
{
        p->io_queues = 0;
}

static int read_log(const struct fake_knobs *k, uint32_t piece, struct discovery_log *log)
{
        assert_int_equal(connect_with(k, no_io), 0);
        return discovery_read(&ctrl, piece, log, &error);
}

static void end_log(struct discovery_log *log)
{
        discovery_free(log);
        assert_int_equal(host_ctrl_disconnect(&ctrl, &error), 0);
        fake_stop(&fake);
}

static void check_entries(const struct discovery_log *log, uint64_t count)
{
        const struct disc_entry *e;

        assert_int_equal(log->count, count);
        for (uint64_t i = 0; i < count; i++) {
                e = disc_log_entry(log->page, log->len, i);
                assert_non_null(e);
                assert_int_equal(le16_get(e->portid), i);
        }
        assert_null(disc_log_entry(log->page, log->len, count));
}

static void the_log_is_read_in_pieces(void **state)
{
        static const uint32_t pieces[] = { 0, 1024, 3072, 1 << 20 };
        struct discovery_log log;

        (void)state;
        for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
                assert_int_equal(read_log(&(struct fake_knobs) { .log_entries = 11, .mdts = 1 },
                                          pieces[i], &log),
                                 0);
                check_entries(&log, 11);
                assert_int_equal(log.restarts, 0);
                end_log(&log);
        }
        assert_int_equal(read_log(&(struct fake_knobs) { 0 }, 0, &log), 0);
        check_entries(&log, 0);
        end_log(&log);
}

static void a_log_that_changes_is_read_again(void **state)
{
        struct discovery_log log;

        (void)state;
        assert_int_equal(
            read_log(&(struct fake_knobs) { .log_entries = 4, .log_changes = 3 }, 0, &log), 0);
        check_entries(&log, 4);
        assert_int_equal(log.restarts, 3);
        assert_int_equal(log.genctr, 3);
        end_log(&log);
        assert_int_equal(
            read_log(&(struct fake_knobs) { .log_entries = 4, .log_restarts = 2 }, 0, &log), 0);
        assert_int_equal(log.restarts, 2);
        end_log(&log);
}

/* What is asked for may lie beyond the end of a log that became shorter: GENCTR tells. */
static void a_log_that_shrinks_is_read_again(void **state)
{
        struct discovery_log log;

        (void)state;
        assert_int_equal(
            read_log(&(struct fake_knobs) { .log_entries = 8, .log_shrinks = 2 }, 0, &log), 0);
        check_entries(&log, 2);
        assert_int_equal(log.restarts, 2);
        end_log(&log);
        assert_int_equal(
            read_log(&(struct fake_knobs) { .log_entries = 8, .log_fails = NVME_INVALID_FIELD }, 0,
                     &log),
            -1);
        assert_int_equal(error.status, NVME_INVALID_FIELD);
        assert_non_null(strstr(error.line, "Get Log Page: Invalid Field"));
        end_log(&log);
}

static void a_log_that_never_rests_is_an_error(void **state)
{
        struct discovery_log log;

        (void)state;
        assert_int_equal(
            read_log(&(struct fake_knobs) { .log_entries = 1, .log_changes = 1000 }, 0, &log), -1);
        assert_non_null(strstr(error.line, "changed"));
        end_log(&log);
        assert_int_equal(read_log(&(struct fake_knobs) { .log_entries = 1 << 30 }, 0, &log), -1);
        assert_non_null(strstr(error.line, "records"));
        end_log(&log);
}

/* What `host discover` prints. */
static void discover(const char *form, bool stays, char *out, size_t size)
{
        struct host_params p = fake_params(&fake);
        struct args args = { .traddr = p.traddr,
                             .trsvcid = p.trsvcid,
                             .base.output = form,
                             .kato = ARG_UNSET,
                             .timeout = p.timeout,
                             .maxr2t = 1,
                             .persistent = stays };
        struct call call = { .args = &args };
        FILE *f = tmpfile();
        int terminal = dup(STDOUT_FILENO);

        fflush(stdout);
        dup2(fileno(f), STDOUT_FILENO);
        assert_int_equal(call_discover(&call, &error), 0);
        fflush(stdout);
        dup2(terminal, STDOUT_FILENO);
        close(terminal);
        rewind(f);
        out[fread(out, 1, size - 1, f)] = '\0';
        fclose(f);
}

static void names_are_shown_but_not_obeyed(void **state)
{
        static char out[8192];

        (void)state;
        fake_start(&fake,
                   &(struct fake_knobs) { .log_entries = 1, .log_nqn = "nqn.\033[2J\xff:s" });
        discover("text", false, out, sizeof(out));
        assert_non_null(strstr(out, "subnqn:  nqn.\\x1b[2J\\xff:s\n"));
        discover("json", false, out, sizeof(out));
        assert_non_null(strstr(out, "\"nqn.\\\\x1b[2J\\\\xff:s\""));
        fake_stop(&fake);
}

/* Reports this event until the host reads a log page because of it. */
static void report(int dw0)
{
        unsigned reads = fake.log_reads;

        for (unsigned i = 0; i < 200 && fake.log_reads == reads; i++) {
                fake.aen = dw0;
                fake_wake(&fake);
                usleep(20000);
        }
}

static void *report_two(void *arg)
{
        (void)arg;
        while (fake.log_reads < 3) /* the log has been read as a whole */
                usleep(1000);
        report(0x00010000); /* an error, in log page 01h */
        report(0x0070f002);
        kill(getpid(), SIGTERM);
        return NULL;
}

/* An event of another page is cleared, and the host stays for those that it waits for. */
static void other_events_do_not_end_it(void **state)
{
        static char out[8192];
        pthread_t thread;

        (void)state;
        fake_start(&fake, &(struct fake_knobs) { .log_entries = 1 });
        assert_int_equal(pthread_create(&thread, NULL, report_two, NULL), 0);
        discover("text", true, out, sizeof(out));
        pthread_join(thread, NULL);
        assert_non_null(strstr(out, ", was 0\n"));
        fake_stop(&fake);
}

/* --- asynchronous use ------------------------------------------------------------------------- */

static void count_done(struct host_cmd *cmd, void *user)
{
        ++*(unsigned *)user;
        assert_int_equal(cmd->status, 0);
}

static void a_full_queue_refuses_and_recovers(void **state)
{
        static struct host_cmd cmds[200];
        unsigned done = 0, submitted = 0;
        struct host_queue *q;

        (void)state;
        assert_int_equal(connect_with(&(struct fake_knobs) { 0 }, NULL), 0);
        q = &ctrl.io[0];
        for (; submitted < 200; submitted++) {
                cmds[submitted] = (struct host_cmd) { .sqe = build_rw(NVME_READ, 1, 0, 8, 0),
                                                      .len = 4096,
                                                      .xfer = XFER_C2H,
                                                      .done = count_done,
                                                      .user = &done };
                if (host_queue_submit(q, &cmds[submitted]) < 0)
                        break;
        }
        assert_int_equal(submitted, q->depth);
        assert_int_equal(submitted, HOST_QUEUE_SIZE - 1);
        while (done < submitted)
                assert_true(host_queue_wait(q, 1000) >= 0);
        assert_int_equal(host_queue_submit(q, &cmds[0]), 0);
        while (done < submitted + 1)
                assert_true(host_queue_wait(q, 1000) >= 0);
        assert_int_equal(host_ctrl_disconnect(&ctrl, &error), 0);
        fake_stop(&fake);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_format_of_the_wire),
                cmocka_unit_test(refusals_of_connect_are_explained),
                cmocka_unit_test(authentication_that_cannot_be),
                cmocka_unit_test(a_controller_that_does_not_get_ready),
                cmocka_unit_test(a_shutdown_has_the_time_it_needs),
                cmocka_unit_test(fewer_queues_are_taken),
                cmocka_unit_test(error_statuses_keep_the_connection),
                cmocka_unit_test(a_status_of_the_host_is_one_of_many),
                cmocka_unit_test(metadata_is_not_overlooked),
                cmocka_unit_test(limits_of_commands_without_data),
                cmocka_unit_test(queues_break_with_a_reason),
                cmocka_unit_test(last_words_are_heard),
                cmocka_unit_test(nobody_listens),
                cmocka_unit_test(keep_alive_is_sent_when_due),
                cmocka_unit_test(it_is_kept_alive_while_queues_connect),
                cmocka_unit_test(an_answer_that_waits_is_no_silence),
                cmocka_unit_test(kas_puts_off_the_first_try),
                cmocka_unit_test(but_not_for_hours),
                cmocka_unit_test(the_log_is_read_in_pieces),
                cmocka_unit_test(a_log_that_changes_is_read_again),
                cmocka_unit_test(a_log_that_shrinks_is_read_again),
                cmocka_unit_test(a_log_that_never_rests_is_an_error),
                cmocka_unit_test(names_are_shown_but_not_obeyed),
                cmocka_unit_test(other_events_do_not_end_it),
                cmocka_unit_test(a_full_queue_refuses_and_recovers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
