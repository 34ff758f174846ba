/* SPDX-License-Identifier: BSD-3-Clause */
/* I/O commands without a transport: the test plays its part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pdu/nvme/wire/reservation.h"
#include "target/nvme/ctrl.h"
#include "target/nvme/nvm.h"

enum { BS = 512, NONE = 0xffff };

static struct subsystem *sub;
static struct nvm_queue queue;
static struct request *mail;
static sem_t posted;
static unsigned ended; /* counts completions */

struct cmd {
        struct request r;
        uint8_t data[32 * BS];
        unsigned order; /* in which it ended; 0: not yet */
};

static void on_done(struct nvm_queue *q, struct request *r)
{
        nvm_completing(q, r);
        r->state = REQUEST_COMPLETING;
        ((struct cmd *)r)->order = ++ended;
}

static void on_post(struct nvm_queue *q, struct request *r)
{
        (void)q;
        r->next = mail;
        mail = r;
        sem_post(&posted);
}

static bool full; /* there is no memory for copies */
static uint64_t kept;

static void *on_keep(struct nvm_queue *q, const struct request *r)
{
        void *copy = full ? NULL : malloc(r->len);

        (void)q;
        kept += copy ? r->len : 0;
        return copy ? memcpy(copy, r->data, r->len) : NULL;
}

static void on_drop(struct nvm_queue *q, const struct request *r, void *copy)
{
        (void)q;
        kept -= r->len;
        free(copy);
}

static void deliver(void)
{
        struct request *r = mail;

        mail = r->next;
        nvm_resume(&queue, r);
}

static uint16_t status_of(const struct cmd *c)
{
        return c->order ? cqe_status(&c->r.cqe) : NONE;
}

static struct cmd *new_cmd(uint8_t opc, uint32_t nsid, uint64_t lba, uint32_t blocks)
{
        struct cmd *c = calloc(1, sizeof(*c));

        c->r.sqe.opc = opc;
        c->r.sqe.flags = SQE_PSDT_SGL;
        c->r.sqe.nsid = le32(nsid);
        c->r.sqe.cdw10 = le32((uint32_t)lba);
        c->r.sqe.cdw11 = le32((uint32_t)(lba >> 32));
        c->r.sqe.cdw12 = le32(blocks - 1);
        return c;
}

/* The capsule comes. */
static bool admit(struct cmd *c)
{
        uint16_t status = nvm_admit(&queue, sub, &c->r);

        c->r.cqe.sf = status_field(status);
        c->r.state = REQUEST_TRANSFERRING_H2C;
        if (status)
                on_done(&queue, &c->r);
        return !status;
}

/* Its data is there. in_place: only for the time of the call. */
static void execute(struct cmd *c, bool in_place)
{
        uint8_t *data = malloc(sizeof(c->data));

        memcpy(data, c->data, sizeof(c->data));
        c->r.data = in_place ? data : c->data;
        c->r.in_place = in_place;
        c->r.state = REQUEST_EXECUTING;
        nvm_execute(&queue, sub, &c->r);
        memset(data, 0xee, sizeof(c->data));
        free(data);
}

static uint16_t run(struct cmd *c)
{
        if (admit(c))
                execute(c, true);
        return status_of(c);
}

static uint16_t run_once(uint8_t opc, uint32_t nsid, uint64_t lba, uint32_t blocks)
{
        struct cmd *c = new_cmd(opc, nsid, lba, blocks);
        uint16_t status = run(c);

        free(c);
        return status;
}

static uint16_t write_byte(uint64_t lba, uint32_t blocks, uint8_t byte)
{
        struct cmd *c = new_cmd(NVME_WRITE, 1, lba, blocks);
        uint16_t status;

        memset(c->data, byte, sizeof(c->data));
        status = run(c);
        free(c);
        return status;
}

/* The byte that the block is full of, or the status << 8. */
static unsigned read_byte(uint64_t lba)
{
        struct cmd *c = new_cmd(NVME_READ, 1, lba, 1);
        unsigned found;

        assert_true(admit(c));
        execute(c, false);
        found = status_of(c) ? (unsigned)status_of(c) << 8 : c->data[0];
        if (!status_of(c)) {
                assert_int_equal(c->r.c2h_len, BS);
                assert_memory_equal(c->data, c->data + 1, BS - 1);
        }
        free(c);
        return found;
}

static void test_read_write(void **state)
{
        (void)state;
        assert_int_equal(write_byte(100, 8, 0x5a), NVME_SUCCESS);
        assert_int_equal(read_byte(99), 0);
        assert_int_equal(read_byte(100), 0x5a);
        assert_int_equal(read_byte(107), 0x5a);
        assert_int_equal(read_byte(108), 0);
        assert_int_equal(run_once(NVME_WRITE_ZEROES, 1, 100, 4), NVME_SUCCESS);
        assert_int_equal(read_byte(103), 0);
        assert_int_equal(read_byte(104), 0x5a);
        assert_int_equal(run_once(NVME_WRITE_UNCORRECTABLE, 1, 104, 1), NVME_SUCCESS);
        assert_int_equal(read_byte(104), NVME_UNRECOVERED_READ << 8);
        assert_int_equal(run_once(NVME_VERIFY, 1, 100, 8), NVME_UNRECOVERED_READ);
        assert_int_equal(write_byte(104, 1, 1), NVME_SUCCESS);
        assert_int_equal(run_once(NVME_VERIFY, 1, 100, 8), NVME_SUCCESS);
}

static void test_what_is_refused(void **state)
{
        (void)state;
        assert_int_equal(run_once(NVME_READ, 0, 0, 1), NVME_INVALID_NS);
        assert_int_equal(run_once(NVME_READ, CTRL_NSID_MAX + 1, 0, 1), NVME_INVALID_NS);
        assert_int_equal(run_once(NVME_READ, 3, 0, 1), NVME_INVALID_FIELD);
        assert_int_equal(run_once(NVME_READ, 0xffffffff, 0, 1), NVME_INVALID_FIELD);
        assert_int_equal(run_once(NVME_FLUSH, 3, 0, 1), NVME_INVALID_FIELD);
        assert_int_equal(run_once(NVME_READ, 1, 2047, 2), NVME_LBA_RANGE);
        assert_int_equal(run_once(NVME_WRITE, 1, UINT64_MAX, 2), NVME_LBA_RANGE);
        assert_int_equal(run_once(NVME_WRITE_ZEROES, 1, 2048, 1), NVME_LBA_RANGE);
        assert_int_equal(run_once(0x0f, 1, 0, 1), NVME_INVALID_OPCODE);
        assert_int_equal(run_once(0xff, 1, 0, 1), NVME_INVALID_OPCODE);
}

static void test_nsid_unchecked_on_request(void **state)
{
        struct rule_policy policy = { 0 };

        (void)state;
        rule_add(&policy.waived, FAB_NSID_INACTIVE);
        queue.policy = &policy;
        assert_int_equal(run_once(NVME_READ, 77, 0, 1), NVME_SUCCESS);
        assert_int_equal(run_once(NVME_READ, 0, 0, 1), NVME_INVALID_NS);
        queue.policy = NULL;
}

static uint16_t await(struct cmd *c)
{
        sem_wait(&posted);
        deliver();
        return status_of(c);
}

/* A disk may be faster than who asks it. */
static uint16_t run_to_end(struct cmd *c)
{
        uint16_t status = run(c);

        return status == NONE ? await(c) : status;
}

static void test_flush(void **state)
{
        struct cmd *c = new_cmd(NVME_FLUSH, 2, 0, 1), *all = new_cmd(NVME_FLUSH, 0xffffffff, 0, 1),
                   *fua = new_cmd(NVME_WRITE, 2, 0, 4);

        (void)state;
        assert_int_equal(run_once(NVME_FLUSH, 1, 0, 1), NVME_SUCCESS); /* memory: at once */
        assert_int_equal(run_to_end(c), NVME_SUCCESS);
        assert_int_equal(run_to_end(all), NVME_SUCCESS);
        fua->r.sqe.cdw12 = le32(RW_FUA | 3);
        assert_int_equal(run_to_end(fua), NVME_SUCCESS);
        assert_int_equal(subsystem_ns(sub, 2)->refs, 1);
        free(c);
        free(all);
        free(fua);
}

static uint16_t dsm(unsigned ranges, uint64_t lba, uint32_t blocks, uint32_t attributes)
{
        struct cmd *c = new_cmd(NVME_DSM, 1, ranges - 1, 1);
        struct dsm_range *range = (struct dsm_range *)c->data;
        uint16_t status;

        c->r.sqe.cdw11 = le32(attributes);
        for (unsigned i = 0; i < ranges; i++)
                range[i] = (struct dsm_range) { .slba = le64(lba + 2 * i), .blocks = le32(blocks) };
        status = run(c);
        assert_int_equal(c->r.len, 16 * ranges);
        free(c);
        return status;
}

static void test_dsm(void **state)
{
        (void)state;
        write_byte(200, 32, 7);
        assert_int_equal(dsm(4, 200, 1, 4), NVME_SUCCESS);
        assert_int_equal(read_byte(200), 0);
        assert_int_equal(read_byte(201), 7);
        assert_int_equal(read_byte(206), 0);
        assert_int_equal(dsm(1, 208, 4, 3), NVME_SUCCESS); /* hints only */
        assert_int_equal(read_byte(208), 7);
        assert_int_equal(dsm(2, 210, 2000, 4), NVME_LBA_RANGE); /* all or nothing */
        assert_int_equal(read_byte(210), 7);
        assert_int_equal(dsm(256, 0, 0, 4), NVME_SUCCESS);
}

/* --- Compare and Write ------------------------------------------------------------------------ */

enum { LBA = 300 };

static struct cmd *fused(unsigned half, uint8_t byte)
{
        struct cmd *c = new_cmd(half == 1 ? NVME_COMPARE : NVME_WRITE, 1, LBA, 2);

        memset(c->data, byte, sizeof(c->data));
        c->r.sqe.flags = (uint8_t)(SQE_PSDT_SGL | half);
        return c;
}

static void test_compare_and_write(void **state)
{
        struct cmd *a, *b;

        (void)state;
        for (unsigned in_place = 0; in_place < 2; in_place++)
                for (unsigned late = 0; late < 2; late++) { /* the data of which one comes last */
                        write_byte(LBA, 2, 1);
                        a = fused(1, 1);
                        b = fused(2, 2);
                        assert_true(admit(a));
                        assert_true(admit(b));
                        execute(late ? a : b, in_place);
                        assert_int_equal(status_of(a), NONE);
                        assert_int_equal(status_of(b), NONE);
                        execute(late ? b : a, in_place);
                        assert_int_equal(status_of(a), NVME_SUCCESS);
                        assert_int_equal(status_of(b), NVME_SUCCESS);
                        assert_true(a->order < b->order);
                        assert_int_equal(read_byte(LBA), 2);
                        free(a);
                        free(b);
                }
}

static void test_compare_fails(void **state)
{
        struct cmd *a = fused(1, 9), *b = fused(2, 2);

        (void)state;
        write_byte(LBA, 2, 1);
        assert_int_equal(run(a), NONE);
        assert_int_equal(run(b), NVME_ABORT_FAILED_FUSED);
        assert_int_equal(status_of(a), NVME_COMPARE_FAILURE);
        assert_int_equal(read_byte(LBA), 1);
        free(a);
        free(b);
}

/* What came in a capsule is copied as long as there is memory for it. */
static void test_a_held_half_without_memory(void **state)
{
        (void)state;
        write_byte(LBA, 2, 1);
        for (unsigned i = 0; i < 2; i++) {
                struct cmd *a = fused(1, 1), *b = fused(2, 2);

                full = i == 0;
                assert_int_equal(run(a), full ? NVME_INTERNAL_ERROR : NONE);
                assert_int_equal(kept, full ? 0 : 2 * BS);
                assert_int_equal(run(b), full ? NVME_ABORT_FAILED_FUSED : NVME_SUCCESS);
                assert_int_equal(kept, 0);
                assert_int_equal(read_byte(LBA), full ? 1 : 2);
                free(a);
                free(b);
        }
}

static void test_missing_halves(void **state)
{
        struct cmd *a = fused(1, 1), *b = fused(2, 2), *c = fused(1, 1), *d = fused(2, 2),
                   *e = fused(1, 1);

        (void)state;
        write_byte(LBA, 2, 1);
        assert_int_equal(run(b), NVME_ABORT_MISSING_FUSED);
        assert_int_equal(run(a), NONE);
        assert_int_equal(read_byte(LBA), 1); /* a Read between the two */
        assert_int_equal(status_of(a), NVME_ABORT_MISSING_FUSED);
        assert_true(admit(c)); /* its data is never seen */
        assert_true(admit(e));
        assert_int_equal(status_of(c), NVME_ABORT_MISSING_FUSED);
        assert_int_equal(run(d), NONE);
        execute(e, true);
        assert_int_equal(status_of(d), NVME_SUCCESS);
        assert_int_equal(status_of(e), NVME_SUCCESS);
        free(a);
        free(b);
        free(c);
        free(d);
        free(e);
}

static void test_bad_halves(void **state)
{
        struct cmd *a = fused(1, 1), *b = fused(2, 2), *c = fused(1, 1), *d = fused(2, 2),
                   *e = fused(3, 1), *f = fused(1, 1);

        (void)state;
        write_byte(LBA, 2, 1);
        a->r.sqe.nsid = le32(9);
        assert_int_equal(run(a), NVME_INVALID_FIELD);
        assert_int_equal(run(b), NVME_ABORT_FAILED_FUSED);
        d->r.sqe.cdw12 = le32(0); /* another range */
        assert_int_equal(run(c), NONE);
        assert_int_equal(run(d), NVME_INVALID_FIELD);
        assert_int_equal(status_of(c), NVME_INVALID_FIELD);
        assert_int_equal(run(e), NVME_INVALID_FIELD);
        f->r.sqe.opc = NVME_READ;
        assert_int_equal(run(f), NVME_INVALID_FIELD);
        assert_int_equal(read_byte(LBA), 1);
        free(a);
        free(b);
        free(c);
        free(d);
        free(e);
        free(f);
}

/* What fails is answered at once. */
static void test_a_slow_namespace(void **state)
{
        struct cmd *c = new_cmd(NVME_WRITE, 4, 0, 4), *a = fused(1, 0), *b = fused(2, 2);

        (void)state;
        assert_int_equal(run_once(NVME_READ, 4, 2048, 1), NVME_LBA_RANGE);
        assert_int_equal(run(c), NONE);
        assert_int_equal(await(c), NVME_SUCCESS);
        a->r.sqe.nsid = b->r.sqe.nsid = le32(4);
        assert_int_equal(run(a), NONE);
        assert_int_equal(run(b), NONE);
        assert_int_equal(status_of(a), NVME_SUCCESS); /* one of them is enough */
        assert_int_equal(await(b), NVME_SUCCESS);
        assert_int_equal(subsystem_ns(sub, 4)->refs, 1);
        free(a);
        free(b);
        free(c);
}

/* A half whose data digest is bad ends in the transport. */
static void transport_fails(struct cmd *c)
{
        c->r.cqe.sf = status_field(NVME_TRANSIENT_TRANSPORT);
        on_done(&queue, &c->r);
}

static void test_a_half_fails_in_the_transport(void **state)
{
        struct cmd *a = fused(1, 1), *b = fused(2, 2);

        (void)state;
        write_byte(LBA, 2, 1);
        assert_true(admit(a));
        transport_fails(a); /* before the second one is known */
        assert_int_equal(run(b), NVME_ABORT_FAILED_FUSED);
        free(a);
        free(b);
        for (unsigned which = 0; which < 4; which++) {
                struct cmd *half[2] = { fused(1, 1), fused(2, 2) };
                struct cmd *bad = half[which & 1], *good = half[!(which & 1)];

                assert_true(admit(half[0]));
                assert_true(admit(half[1]));
                if (which & 2)
                        execute(good, true);
                transport_fails(bad);
                if (which & 2) {
                        sem_wait(&posted);
                        deliver();
                } else {
                        execute(good, true);
                }
                assert_int_equal(status_of(good), NVME_ABORT_FAILED_FUSED);
                free(bad);
                free(good);
        }
        assert_int_equal(read_byte(LBA), 1);
}

/* --- Copy ------------------------------------------------------------------------------------- */

/* One block. */
static uint16_t copy_once(unsigned format, uint32_t from, uint64_t lba, uint64_t to)
{
        struct cmd *c = new_cmd(NVME_COPY, 1, to, 1);
        uint16_t status;

        c->r.sqe.cdw12 = le32(format << 8);
        le_put(c->data, 4, from);
        le_put(c->data + 8, 8, lba);
        status = run(c);
        free(c);
        return status;
}

static void test_copy_formats(void **state)
{
        (void)state;
        assert_int_equal(write_byte(3, 1, 0x33), NVME_SUCCESS);
        assert_int_equal(copy_once(0, 0, 3, 4), NVME_SUCCESS);
        assert_int_equal(copy_once(1, 0, 4, 5), NVME_SUCCESS);
        assert_int_equal(copy_once(2, 1, 5, 6), NVME_INVALID_FIELD); /* not enabled */
        queue.copy_formats = 0xc;
        assert_int_equal(copy_once(2, 1, 5, 6), NVME_SUCCESS);
        assert_int_equal(copy_once(3, 1, 6, 7), NVME_SUCCESS);
        assert_int_equal(read_byte(7), 0x33);
        assert_int_equal(copy_once(4, 1, 3, 4), NVME_INVALID_FIELD);
        assert_int_equal(copy_once(2, 1, 4, 4), NVME_OVERLAP);
        assert_int_equal(copy_once(2, 0, 3, 4), NVME_INVALID_NS);
        assert_int_equal(copy_once(2, NSID_ALL, 3, 4), NVME_INVALID_NS);
        assert_int_equal(copy_once(2, CTRL_NSID_MAX, 3, 4), NVME_INVALID_FIELD);
        assert_int_equal(copy_once(2, 1, UINT64_MAX, 4), NVME_LBA_RANGE);
        queue.copy_formats = 0;
}

static void test_giving_up(void **state)
{
        struct cmd *a = fused(1, 1);

        (void)state;
        assert_int_equal(run(a), NONE);
        nvm_give_up(&queue);
        assert_int_equal(status_of(a), NVME_ABORT_SQ_DELETED);
        assert_null(queue.held);
        free(a);
}

/* A command without data may be long: others get their turn in between. */
static void test_slices(void **state)
{
        static const uint8_t opcodes[] = { NVME_VERIFY, NVME_WRITE_ZEROES };

        (void)state;
        for (unsigned i = 0; i < 2; i++) {
                struct cmd *big = new_cmd(opcodes[i], 5, 0, 8192);
                unsigned turns = 0;

                assert_int_equal(run_once(NVME_WRITE, 5, 8191, 1), NVME_SUCCESS);
                assert_int_equal(run(big), NONE);
                assert_int_equal(run_once(NVME_WRITE_UNCORRECTABLE, 5, 8191, 1), NVME_SUCCESS);
                for (; !big->order; turns++) {
                        assert_int_equal(sem_trywait(&posted), 0);
                        deliver();
                }
                assert_true(turns >= 3);
                assert_int_equal(status_of(big), i == 0 ? NVME_UNRECOVERED_READ : NVME_SUCCESS);
                free(big);
        }
}

/* The connection is over: nobody waits for what is left. */
static void test_slices_are_dropped(void **state)
{
        struct cmd *big = new_cmd(NVME_WRITE_ZEROES, 5, 0, 8192);

        (void)state;
        assert_int_equal(run_once(NVME_WRITE_UNCORRECTABLE, 5, 8191, 1), NVME_SUCCESS);
        assert_int_equal(run(big), NONE);
        assert_int_equal(sem_trywait(&posted), 0);
        assert_ptr_equal(mail, &big->r);
        mail = NULL;
        assert_true(nvm_has_slices(&big->r));
        nvm_drop_slices(&big->r);
        assert_int_equal(status_of(big), NVME_ABORT_SQ_DELETED);
        assert_null(big->r.user);
        assert_int_equal(run_once(NVME_VERIFY, 5, 8191, 1), NVME_UNRECOVERED_READ);
        assert_int_equal(run_once(NVME_WRITE, 5, 8191, 1), NVME_SUCCESS);
        free(big);
}

/* Ranges may be as long as the namespace. They came in the capsule, which is gone when the next ones are had. */
static void test_long_ranges(void **state)
{
        struct cmd *c = new_cmd(NVME_DSM, 6, 3, 1);
        struct dsm_range *range = (struct dsm_range *)c->data;
        unsigned turns = 0;

        (void)state;
        c->r.sqe.cdw11 = le32(4);
        for (unsigned i = 0; i < 4; i++) /* 4 GiB, 0 bytes, 4 GiB, 512 bytes */
                range[i] = (struct dsm_range) { .slba = le64(i << 23),
                                                .blocks = le32(i % 2 ? i / 3 : 1 << 23) };
        assert_int_equal(run(c), NONE);
        memset(c->data, 0xee, sizeof(c->data));
        for (; !c->order; turns++) {
                assert_int_equal(sem_trywait(&posted), 0);
                deliver();
        }
        assert_int_equal(turns, 8);
        assert_int_equal(status_of(c), NVME_SUCCESS);
        assert_int_equal(ns_used(subsystem_ns(sub, 6)), (1U << 26) - (1U << 24) - 1);
        free(c);
}

/* --- reservations ----------------------------------------------------------------------------- */

static unsigned notified;

static void on_notify(struct nvm_queue *q, struct ns *ns, const struct ns_resv_notices *n)
{
        (void)q;
        (void)ns;
        notified += n->count;
}

static struct cmd *new_reservation(uint8_t host, uint8_t opc, uint32_t cdw10, uint64_t crkey,
                                   uint64_t key)
{
        struct cmd *c = new_cmd(opc, 2, cdw10, 1);

        memset(queue.hostid, 0, sizeof(queue.hostid));
        queue.hostid[0] = host;
        le_put(c->data, 8, crkey);
        le_put(c->data + 8, 8, key);
        return c;
}

/* What is to persist is answered when it does; a command that is refused is not. */
static void test_reservations_wait_for_the_disk(void **state)
{
        static const uint32_t persist = (uint32_t)CPTPL_SET << CPTPL_SHIFT;
        const struct {
                uint8_t host, opc;
                uint32_t cdw10;
                uint64_t crkey, key;
                uint16_t status;
                unsigned notices;
        } rows[] = {
                { 1, NVME_RESERVATION_REGISTER, persist | RREGA_REGISTER, 0, 7, 0, 0 },
                { 2, NVME_RESERVATION_REGISTER, RREGA_REGISTER, 0, 8, 0, 0 },
                { 2, NVME_RESERVATION_ACQUIRE, WRITE_EXCLUSIVE_REGISTRANTS << 8, 9, 0,
                  NVME_RESERVATION_CONFLICT, 0 },
                { 1, NVME_RESERVATION_ACQUIRE, WRITE_EXCLUSIVE_REGISTRANTS << 8, 7, 0, 0, 0 },
                { 1, NVME_RESERVATION_RELEASE, WRITE_EXCLUSIVE_REGISTRANTS << 8, 7, 0, 0, 1 },
                { 1, NVME_RESERVATION_REGISTER, (uint32_t)CPTPL_CLEAR << CPTPL_SHIFT, 0, 7, 0, 0 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct cmd *c = new_reservation(rows[i].host, rows[i].opc, rows[i].cdw10,
                                                rows[i].crkey, rows[i].key);
                bool waits = !rows[i].status;

                notified = 0;
                assert_int_equal(run(c), waits ? NONE : rows[i].status);
                if (waits) {
                        sem_wait(&posted);
                        deliver();
                }
                assert_int_equal(status_of(c), rows[i].status);
                assert_int_equal(notified, rows[i].notices);
                free(c);
        }
}

/* --- set-up ----------------------------------------------------------------------------------- */

static char path[] = "/tmp/nvmfspec-test-nvm-XXXXXX";

static int start(void **state)
{
        static const struct nvm_queue_ops ops = { .done = on_done,
                                                  .post = on_post,
                                                  .notify = on_notify,
                                                  .keep = on_keep,
                                                  .drop = on_drop };
        char spec[64], error[128];
        int fd = mkstemp(path);

        (void)state;
        close(fd);
        snprintf(spec, sizeof(spec), "file:%s,size=1M", path);
        sem_init(&posted, 0, 0);
        queue = (struct nvm_queue) { .ops = &ops };
        sub = subsystem_new("nqn.2026-01.io.nvmfspec:test");
        subsystem_add_ns(sub, ns_open(&nvme_ns_family, spec, sub->nqn, 2, error, sizeof(error)));
        subsystem_add_ns(sub,
                         ns_open(&nvme_ns_family, "mem:4M", sub->nqn, 5, error, sizeof(error)));
        subsystem_add_ns(sub,
                         ns_open(&nvme_ns_family, "null:32G", sub->nqn, 6, error, sizeof(error)));
        subsystem_add_ns(sub,
                         ns_open(&nvme_ns_family, "mem:1M", sub->nqn, 1, error, sizeof(error)));
        subsystem_add_ns(
            sub, ns_open(&nvme_ns_family, "mem:1M,delay=200ms", sub->nqn, 4, error, sizeof(error)));
        return 0;
}

static int stop(void **state)
{
        (void)state;
        assert_int_equal(kept, 0);
        subsystem_put(sub);
        return unlink(path);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_read_write),
                cmocka_unit_test(test_what_is_refused),
                cmocka_unit_test(test_nsid_unchecked_on_request),
                cmocka_unit_test(test_flush),
                cmocka_unit_test(test_dsm),
                cmocka_unit_test(test_compare_and_write),
                cmocka_unit_test(test_compare_fails),
                cmocka_unit_test(test_a_held_half_without_memory),
                cmocka_unit_test(test_missing_halves),
                cmocka_unit_test(test_bad_halves),
                cmocka_unit_test(test_a_half_fails_in_the_transport),
                cmocka_unit_test(test_copy_formats),
                cmocka_unit_test(test_giving_up),
                cmocka_unit_test(test_a_slow_namespace),
                cmocka_unit_test(test_slices),
                cmocka_unit_test(test_slices_are_dropped),
                cmocka_unit_test(test_long_ranges),
                cmocka_unit_test(test_reservations_wait_for_the_disk),
        };

        return cmocka_run_group_tests(tests, start, stop);
}
