/* SPDX-License-Identifier: BSD-3-Clause */
/* The reservation of a namespace: figures 646 and 647, each command, and what is on the disk afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/nvme/ns_resv.h"
#include "target/nvme/nvme_ns.h"

enum { A = 1, B, C };

static struct reservation state;
static uint8_t told[RESERVATION_REGISTRANTS];

static struct reservation_cmd cmd(uint8_t host, uint8_t opc, uint32_t cdw10, uint64_t crkey,
                                  uint64_t key)
{
        return (struct reservation_cmd) {
                .opc = opc, .cdw10 = cdw10, .crkey = crkey, .key = key, .hostid = { host }
        };
}

static uint16_t run(uint8_t host, uint8_t opc, uint32_t cdw10, uint64_t crkey, uint64_t key)
{
        static struct reservation next;
        struct reservation_cmd c = cmd(host, opc, cdw10, crkey, key);
        uint16_t status = reservation_run(&state, &c, &next, told);

        if (status)
                assert_memory_equal(&state, &next, sizeof(state));
        state = next;
        return status;
}

/* Each registers its number as key. */
static uint16_t reg(uint8_t host)
{
        return run(host, NVME_RESERVATION_REGISTER, RREGA_REGISTER, 0, host);
}

static uint16_t acquire(uint8_t host, unsigned action, unsigned type, uint64_t prkey)
{
        return run(host, NVME_RESERVATION_ACQUIRE, action | type << RESERVATION_TYPE_SHIFT, host,
                   prkey);
}

static uint16_t release(uint8_t host, unsigned action, unsigned type)
{
        return run(host, NVME_RESERVATION_RELEASE, action | type << RESERVATION_TYPE_SHIFT, host,
                   0);
}

static int begin(void **user)
{
        (void)user;
        memset(&state, 0, sizeof(state));
        return 0;
}

/* A holds it, B is registered, C is nobody. */
static void hold(unsigned type)
{
        begin(NULL);
        assert_int_equal(reg(A), 0);
        assert_int_equal(reg(B), 0);
        assert_int_equal(acquire(A, RACQA_ACQUIRE, type, 0), 0);
}

static bool may(uint8_t host, bool writes)
{
        const uint8_t hostid[16] = { host };

        return reservation_allows(&state, hostid, writes, NULL);
}

static void rights_are_those_of_the_figure(void **user)
{
        static const struct {
                bool registrant_reads, registrant_writes, stranger_reads;
        } figure[] = {
                [WRITE_EXCLUSIVE] = { true, false, true },
                [EXCLUSIVE_ACCESS] = { false, false, false },
                [WRITE_EXCLUSIVE_REGISTRANTS] = { true, true, true },
                [EXCLUSIVE_ACCESS_REGISTRANTS] = { true, true, false },
                [WRITE_EXCLUSIVE_ALL] = { true, true, true },
                [EXCLUSIVE_ACCESS_ALL] = { true, true, false },
        };

        (void)user;
        for (unsigned type = 1; type <= EXCLUSIVE_ACCESS_ALL; type++) {
                hold(type);
                assert_true(may(A, false) && may(A, true));
                assert_int_equal(may(B, false), figure[type].registrant_reads);
                assert_int_equal(may(B, true), figure[type].registrant_writes);
                assert_int_equal(may(C, false), figure[type].stranger_reads);
                assert_false(may(C, true));
        }
        assert_true(reservation_allows(NULL, state.holder, true, NULL));
}

static void registering(void **user)
{
        (void)user;
        assert_int_equal(reg(A), 0);
        assert_int_equal(reg(A), 0);
        assert_int_equal(run(A, NVME_RESERVATION_REGISTER, RESERVATION_IEKEY, 0, 9),
                         NVME_RESERVATION_CONFLICT);
        assert_int_equal(run(B, NVME_RESERVATION_REGISTER, RREGA_REPLACE, 0, 9),
                         NVME_RESERVATION_CONFLICT);
        assert_int_equal(run(B, NVME_RESERVATION_REGISTER, RREGA_REPLACE | RESERVATION_IEKEY, 0, 9),
                         0);
        assert_int_equal(run(B, NVME_RESERVATION_REGISTER, RREGA_UNREGISTER, 8, 0),
                         NVME_RESERVATION_CONFLICT);
        assert_int_equal(run(B, NVME_RESERVATION_REGISTER, RREGA_UNREGISTER, 9, 0), 0);
        assert_int_equal(
            run(B, NVME_RESERVATION_REGISTER, RREGA_UNREGISTER | RESERVATION_IEKEY, 9, 0), 0);
        assert_int_equal(state.count, 1);
        assert_int_equal(state.gen, 5);
        assert_int_equal(run(A, NVME_RESERVATION_REGISTER, 3, A, 0), NVME_INVALID_FIELD);
        assert_int_equal(run(A, NVME_RESERVATION_REGISTER, 1u << CPTPL_SHIFT, 0, A),
                         NVME_INVALID_FIELD);
        assert_int_equal(run(A, NVME_RESERVATION_REGISTER, 3u << CPTPL_SHIFT, 0, A), 0);
        assert_true(state.ptpl);
        assert_int_equal(run(A, NVME_RESERVATION_REGISTER, 2u << CPTPL_SHIFT, 0, A), 0);
        assert_false(state.ptpl);
        state.gen = UINT32_MAX;
        assert_int_equal(reg(A), 0);
        assert_int_equal(state.gen, 0);
}

static void all_can_register_that_there_is_room_for(void **user)
{
        struct reservation_cmd c = cmd(0, NVME_RESERVATION_REGISTER, 0, 0, 1);
        static struct reservation next;

        (void)user;
        for (unsigned i = 0; i <= RESERVATION_REGISTRANTS; i++) {
                c.hostid[0] = (uint8_t)i;
                c.hostid[1] = (uint8_t)(i >> 8);
                assert_int_equal(reservation_run(&state, &c, &next, told),
                                 i < RESERVATION_REGISTRANTS ? 0 : NVME_INTERNAL_ERROR);
                state = next;
        }
}

static void acquiring(void **user)
{
        (void)user;
        assert_int_equal(acquire(A, RACQA_ACQUIRE, WRITE_EXCLUSIVE, 0), NVME_RESERVATION_CONFLICT);
        hold(WRITE_EXCLUSIVE);
        assert_int_equal(acquire(A, RACQA_ACQUIRE, WRITE_EXCLUSIVE, 0), 0);
        assert_int_equal(acquire(A, RACQA_ACQUIRE, EXCLUSIVE_ACCESS, 0), NVME_RESERVATION_CONFLICT);
        assert_int_equal(acquire(B, RACQA_ACQUIRE, WRITE_EXCLUSIVE, 0), NVME_RESERVATION_CONFLICT);
        assert_int_equal(acquire(A, RESERVATION_IEKEY, WRITE_EXCLUSIVE, 0), NVME_INVALID_FIELD);
        assert_int_equal(acquire(A, 3, WRITE_EXCLUSIVE, 0), NVME_INVALID_FIELD);
        assert_int_equal(acquire(A, RACQA_ACQUIRE, 0, 0), NVME_INVALID_FIELD);
        assert_int_equal(acquire(A, RACQA_ACQUIRE, 7, 0), NVME_INVALID_FIELD);
        assert_int_equal(state.gen, 2);
}

static void releasing(void **user)
{
        (void)user;
        hold(WRITE_EXCLUSIVE);
        assert_int_equal(release(B, RRELA_RELEASE, WRITE_EXCLUSIVE), 0);
        assert_int_equal(state.type, WRITE_EXCLUSIVE);
        assert_int_equal(release(A, RRELA_RELEASE, EXCLUSIVE_ACCESS), NVME_INVALID_FIELD);
        assert_int_equal(release(A, RESERVATION_IEKEY, WRITE_EXCLUSIVE), NVME_INVALID_FIELD);
        assert_int_equal(release(A, 2, WRITE_EXCLUSIVE), NVME_INVALID_FIELD);
        assert_int_equal(release(C, RRELA_RELEASE, WRITE_EXCLUSIVE), NVME_RESERVATION_CONFLICT);
        for (unsigned type = 1; type <= EXCLUSIVE_ACCESS_ALL; type++) {
                hold(type);
                assert_int_equal(release(A, RRELA_RELEASE, type), 0);
                assert_int_equal(state.type, RESERVATION_NONE);
                assert_int_equal(told[0], 0);
                assert_int_equal(told[1], type > EXCLUSIVE_ACCESS ? RESERVATION_RELEASED : 0);
                hold(type);
                assert_int_equal(run(A, NVME_RESERVATION_REGISTER, RREGA_UNREGISTER, A, 0), 0);
                assert_int_equal(state.type,
                                 type >= WRITE_EXCLUSIVE_ALL ? type : (unsigned)RESERVATION_NONE);
                assert_int_equal(told[1], type == 3 || type == 4 ? RESERVATION_RELEASED : 0);
                assert_int_equal(run(B, NVME_RESERVATION_REGISTER, RREGA_UNREGISTER, B, 0), 0);
                assert_int_equal(state.type, RESERVATION_NONE);
        }
        hold(EXCLUSIVE_ACCESS);
        assert_int_equal(release(B, RRELA_CLEAR, 0), 0);
        assert_int_equal(state.count + state.type, 0);
        assert_int_equal(told[0], RESERVATION_PREEMPTED);
        assert_int_equal(told[1], 0);
}

static void preempting(void **user)
{
        struct reservation_cmd c = cmd(A, NVME_RESERVATION_ACQUIRE, RACQA_PREEMPT_ABORT, 0, 0);

        (void)user;
        assert_true(reservation_aborts(&c));
        for (unsigned type = 1; type <= EXCLUSIVE_ACCESS_REGISTRANTS; type++) {
                hold(type);
                assert_int_equal(reg(C), 0);
                assert_int_equal(acquire(B, RACQA_PREEMPT, EXCLUSIVE_ACCESS_ALL, 0),
                                 NVME_INVALID_FIELD);
                assert_int_equal(acquire(B, RACQA_PREEMPT, EXCLUSIVE_ACCESS_ALL, A), 0);
                assert_int_equal(state.type, EXCLUSIVE_ACCESS_ALL);
                assert_int_equal(state.count, 2);
                assert_int_equal(told[0], REGISTRATION_PREEMPTED);
                assert_int_equal(told[1], 0);
                assert_int_equal(told[2], RESERVATION_RELEASED);
                hold(type);
                assert_int_equal(acquire(A, RACQA_PREEMPT, type, B), 0);
                assert_int_equal(state.type, type);
                assert_int_equal(state.count, 1);
                assert_int_equal(acquire(A, RACQA_PREEMPT, WRITE_EXCLUSIVE, A), 0);
                assert_int_equal(state.type, WRITE_EXCLUSIVE);
                assert_int_equal(state.count, 1);
        }
        hold(WRITE_EXCLUSIVE_ALL);
        assert_int_equal(acquire(A, RACQA_PREEMPT, WRITE_EXCLUSIVE, 9), NVME_RESERVATION_CONFLICT);
        assert_int_equal(acquire(A, RACQA_PREEMPT, WRITE_EXCLUSIVE, B), 0);
        assert_int_equal(state.type, WRITE_EXCLUSIVE_ALL);
        assert_int_equal(acquire(A, RACQA_PREEMPT, WRITE_EXCLUSIVE, A), 0);
        assert_int_equal(state.count + state.type, 0);
        hold(EXCLUSIVE_ACCESS_ALL);
        assert_int_equal(acquire(B, RACQA_PREEMPT, WRITE_EXCLUSIVE, 0), 0);
        assert_int_equal(state.type, WRITE_EXCLUSIVE);
        assert_int_equal(state.holder[0], B);
        assert_int_equal(release(B, RRELA_RELEASE, WRITE_EXCLUSIVE), 0);
        assert_int_equal(reg(A), 0);
        assert_int_equal(acquire(B, RACQA_PREEMPT, WRITE_EXCLUSIVE, A), 0);
        assert_int_equal(state.type, RESERVATION_NONE);
        assert_int_equal(state.count, 1);
}

static uint16_t five(void *user, const uint8_t hostid[16])
{
        (void)user;
        return hostid[0] == A ? 5 : CNTLID_NOT_ASSOCIATED;
}

static void reporting(void **user)
{
        uint8_t out[256] = { 0 };
        const struct reservation_status *s = (const void *)out;
        const struct reservation_entry_extended *e = (const void *)(out + REPORT_HEADER);
        const struct reservation_entry *r = (const void *)(out + sizeof(*s));

        (void)user;
        hold(WRITE_EXCLUSIVE);
        assert_int_equal(reservation_report(&state, true, out, sizeof(out), five, NULL), 192);
        assert_int_equal(le32_get(s->gen), 2);
        assert_int_equal(le16_get(s->registrants), 2);
        assert_int_equal(s->type, WRITE_EXCLUSIVE);
        assert_int_equal(le16_get(e[0].cntlid), 5);
        assert_int_equal(e[0].rcsts, RCSTS_HOLDER);
        assert_int_equal(le64_get(e[1].key), B);
        assert_int_equal(e[1].hostid[0], B);
        assert_int_equal(le16_get(e[1].cntlid), CNTLID_NOT_ASSOCIATED);
        assert_int_equal(e[1].rcsts, 0);
        assert_int_equal(reservation_report(&state, false, out, sizeof(out), five, NULL), 72);
        assert_int_equal(le64_get(r[1].key), B);
        memset(out, 0xee, sizeof(out));
        assert_int_equal(reservation_report(&state, true, out, 10, five, NULL), 192);
        assert_int_equal(out[9], 0);
        assert_int_equal(out[10], 0xee);
}

/* --- on the disk -------------------------------------------------------------------------------- */

static char path[] = "/tmp/reservation-XXXXXX", spec[64], beside[64];

static struct ns *open_ns(void)
{
        char error[256] = "";
        struct ns *ns =
            ns_open(&nvme_ns_family, spec, "nqn.2026-01.io.nvmfspec:one", 1, error, sizeof(error));

        if (!ns)
                print_message("%s\n", error);
        return ns;
}

/* The C library's, of a disk that may take its time; whoever serves hosts does not wait for it. */
static pthread_t host;
static _Atomic bool slow;
static _Atomic unsigned syncs, in_sync, waited_for;
int fsync(int fd)
{
        syncs++;
        waited_for += pthread_equal(pthread_self(), host) != 0;
        in_sync++;
        while (slow)
                usleep(1000);
        in_sync--;
        return (int)syscall(SYS_fsync, fd);
}

struct waiter {
        struct ns_resv_change change;
        struct reservation_cmd cmd;
        sem_t done;
};

static void on_changed(struct ns_resv_change *c)
{
        sem_post(&((struct waiter *)c)->done);
}

static bool begin_on(struct ns *ns, struct waiter *w, struct reservation_cmd c)
{
        w->cmd = c;
        w->change = (struct ns_resv_change) { .cmd = &w->cmd, .done = on_changed };
        sem_init(&w->done, 0, 0);
        host = pthread_self();
        return ns_resv_apply(ns, &w->change);
}

static uint16_t end_on(struct waiter *w)
{
        sem_wait(&w->done);
        free(w->change.notices);
        return w->change.status;
}

static uint16_t do_on(struct ns *ns, struct reservation_cmd c)
{
        struct waiter w;

        if (begin_on(ns, &w, c))
                sem_post(&w.done);
        return end_on(&w);
}

static void stop_persisting(struct ns *ns)
{
        struct waiter w = { .change = { .done = on_changed } };

        sem_init(&w.done, 0, 0);
        assert_false(ns_resv_apply(ns, &w.change));
        assert_int_equal(end_on(&w), 0);
}

static unsigned count_on(struct ns *ns)
{
        struct reservation *copy = ns_resv_copy(ns);
        unsigned n = copy->count;

        free(copy);
        return n;
}

static void make_file(void)
{
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        close(fd);
        snprintf(spec, sizeof(spec), "file:%s,size=1M", path);
        snprintf(beside, sizeof(beside), "%s.reservations", path);
}

static void persists_as_the_state_says(void **user)
{
        static const uint8_t b[16] = { B };
        struct ns *ns, *twin;

        (void)user;
        make_file();
        ns = open_ns();
        twin = open_ns();
        assert_int_equal(do_on(ns, cmd(A, NVME_RESERVATION_REGISTER, 0, 0, A)), 0);
        assert_int_equal(count_on(twin), 1); /* one object */
        ns_put(ns);
        ns_put(twin);
        ns = open_ns();
        assert_int_equal(count_on(ns), 0);
        assert_int_equal(
            do_on(ns, cmd(A, NVME_RESERVATION_REGISTER, (uint32_t)CPTPL_SET << CPTPL_SHIFT, 0, A)),
            0);
        assert_int_equal(do_on(ns, cmd(B, NVME_RESERVATION_REGISTER, 0, 0, B)), 0);
        assert_int_equal(do_on(ns, cmd(A, NVME_RESERVATION_ACQUIRE, 1 << 8, A, 0)), 0);
        ns_put(ns);
        ns = open_ns();
        assert_int_equal(count_on(ns), 2);
        assert_true(ns_resv_ptpl(ns));
        assert_false(ns_resv_allows(ns, b, true, NULL));
        assert_true(ns_resv_allows(ns, b, false, NULL));
        stop_persisting(ns);
        assert_int_not_equal(access(beside, F_OK), 0);
        ns_put(ns);
        ns = open_ns();
        assert_int_equal(count_on(ns), 0);
        ns_put(ns);
}

static void put_text(const char *text)
{
        FILE *f = fopen(beside, "w");

        fputs(text, f);
        fclose(f);
}

static void a_file_that_is_cut_is_not_nothing(void **user)
{
        static const char *const bad[] = {
                "",
                "nvmfspec reservations 2\nend\n",
                "nvmfspec reservations 1\n",
                "nvmfspec reservations 1\ngeneration 1 type 0\n",
                "nvmfspec reservations 1\ngeneration 1 type 7\nend\n",
                "nvmfspec reservations 1\ngeneration 1 type 1\nend\n",
                "nvmfspec reservations 1\ngeneration 1 type 0\nhost 12 key 34\nend\n",
        };
        static const char without_holder[] =
            "nvmfspec reservations 1\ngeneration 1 type 1\n"
            "host 01000000000000000000000000000000 key 0000000000000001\nend\n";
        struct ns *ns;

        (void)user;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                put_text(bad[i]);
                assert_null(open_ns());
        }
        put_text(without_holder);
        assert_null(open_ns());
        put_text("nvmfspec reservations 1\ngeneration 7 type 1\n"
                 "host 01000000000000000000000000000000 key 0000000000000001 holder\nend\n");
        ns = open_ns();
        assert_non_null(ns);
        assert_int_equal(count_on(ns), 1);
        ns_put(ns);
        unlink(beside);
}

/* The folder of the file takes no other file: nothing changes, and the host is told. */
static void what_cannot_be_kept_is_not_done(void **user)
{
        struct ns *ns = open_ns();
        char fresh[80];

        (void)user;
        snprintf(fresh, sizeof(fresh), "%s.new", beside);
        assert_int_equal(symlink("/nowhere/at/all", fresh), 0);
        assert_int_equal(
            do_on(ns, cmd(A, NVME_RESERVATION_REGISTER, (uint32_t)CPTPL_SET << CPTPL_SHIFT, 0, A)),
            NVME_INTERNAL_ERROR);
        assert_int_equal(count_on(ns), 0);
        unlink(fresh);
        assert_int_equal(do_on(ns, cmd(A, NVME_RESERVATION_REGISTER, 0, 0, A)), 0);
        ns_resv_clear_all(ns);
        assert_int_equal(count_on(ns), 0);
        ns_put(ns);
        unlink(beside);
        unlink(path);
}

/* Others go on as before until it is written, and all that come by then have one write. */
static void nobody_waits_for_the_disk_but_the_command(void **user)
{
        enum { MANY = 50 };
        static const uint8_t stranger[16] = { 200 };
        static struct waiter first, w[MANY];
        struct ns *ns;
        unsigned before;

        (void)user;
        strcpy(path + strlen(path) - 6, "XXXXXX");
        make_file();
        ns = open_ns();
        waited_for = 0;
        assert_int_equal(
            do_on(ns, cmd(A, NVME_RESERVATION_REGISTER, (uint32_t)CPTPL_SET << CPTPL_SHIFT, 0, A)),
            0);
        slow = true;
        assert_false(begin_on(
            ns, &first,
            cmd(A, NVME_RESERVATION_ACQUIRE, WRITE_EXCLUSIVE << RESERVATION_TYPE_SHIFT, A, 0)));
        while (in_sync == 0)
                usleep(1000);
        before = syncs;
        for (unsigned i = 0; i < MANY; i++) /* the last one is refused */
                assert_false(begin_on(
                    ns, &w[i],
                    cmd((uint8_t)(B + i % (MANY - 1)), NVME_RESERVATION_REGISTER, 0, 0, 1 + i)));
        assert_true(ns_resv_allows(ns, stranger, true, NULL));
        assert_int_equal(count_on(ns), 1);
        slow = false;
        assert_int_equal(end_on(&first), 0);
        for (unsigned i = 0; i < MANY; i++)
                assert_int_equal(end_on(&w[i]), i < MANY - 1 ? 0 : NVME_RESERVATION_CONFLICT);
        assert_false(ns_resv_allows(ns, stranger, true, NULL));
        assert_int_equal(count_on(ns), MANY);
        assert_true(syncs - before <= 3); /* the first one's folder; a file and its folder */
        assert_int_equal(waited_for, 0);
        ns_put(ns);
        ns = open_ns();
        assert_int_equal(count_on(ns), MANY);
        ns_put(ns);
        unlink(beside);
        unlink(path);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(rights_are_those_of_the_figure, begin),
                cmocka_unit_test_setup(registering, begin),
                cmocka_unit_test_setup(all_can_register_that_there_is_room_for, begin),
                cmocka_unit_test_setup(acquiring, begin),
                cmocka_unit_test_setup(releasing, begin),
                cmocka_unit_test_setup(preempting, begin),
                cmocka_unit_test_setup(reporting, begin),
                cmocka_unit_test(persists_as_the_state_says),
                cmocka_unit_test(a_file_that_is_cut_is_not_nothing),
                cmocka_unit_test(what_cannot_be_kept_is_not_done),
                cmocka_unit_test(nobody_waits_for_the_disk_but_the_command),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
