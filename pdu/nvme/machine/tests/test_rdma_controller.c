/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RDMA controller against completions made by hand. The bench is owner, host and hardware in
 * one: what is posted lies in a queue, and READs and WRITEs happen when they complete.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/nvme/rdma/rdma_controller.h" /* before cmocka, whose fail() is a macro */
#include "pdu/nvme/rdma/spoil_rdma.h"
#include "pdu/nvme/wire/fabrics.h"

#include <cmocka.h>

#include "pdu/core/tests/scarce.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum {
        DEPTH = 32,
        IN_CAPSULE = 4096,
        SLOT = 64 + 64 + IN_CAPSULE, /* of a receive: with room for ICDOFF */
        RECVS = 128,
        POSTED = 512,
        DISK = 65536,
        LKEY = 0x111,
        RESPONSE_LKEY = 0x222,
        RKEY = 0x333,
        SCHEDULES = 4000,
};

/* --- bench ------------------------------------------------------------------------------------ */

struct response {
        struct cqe cqe;
        uint32_t len, key;
        bool invalidates;
};

struct bench {
        struct rdma_controller *c;
        struct rdma_controller_config cfg;
        struct rule_policy policy;

        bool hold; /* commands stay EXECUTING */
        struct request *held[RECVS];
        unsigned n_held, executed;
        uint16_t sqhd, sq_size; /* sq_size 0: as cfg.depth */
        bool sqfc_off;
        unsigned buffers, buffers_max; /* handed out; 0: any number */
        unsigned memories, recvs_out;
        char path[64]; /* states of the command whose CID is `watched` */
        unsigned path_len;
        uint16_t watched;
        bool in_place;

        struct rdma_recv recv[RECVS];
        uint8_t *slot[RECVS];
        struct verbs_wr *posted[POSTED]; /* oldest first */
        unsigned n_posted, most_posted, chains;
        unsigned reads_out, most_reads;
        struct response response[POSTED];
        unsigned responses;
        uint8_t disk[DISK], host[DISK];
        unsigned seed;

        /* faults of its own */
        bool holds, loses, skips; /* Writes; responses; data */
        struct request *kept;
        unsigned heads, transfers;
};

static unsigned chance(struct bench *b, unsigned n)
{
        b->seed = b->seed * 1664525 + 1013904223;
        return (b->seed >> 8) % n;
}

static uint16_t on_admit(void *user, struct request *r)
{
        (void)user;
        if (r->sqe.opc == NVME_FABRICS) {
                r->xfer = r->sqe.fctype == FCTYPE_CONNECT ? XFER_H2C : XFER_NONE;
                r->len = r->xfer ? CONNECT_DATA_LEN : 0;
                return 0;
        }
        if (r->sqe.opc == NVME_VERIFY)
                return NVME_INVALID_OPCODE | STATUS_DNR;
        r->xfer = sqe_xfer(&r->sqe);
        r->len = le32_get(r->sqe.cdw10);
        return 0;
}

static void run(struct bench *b, struct request *r)
{
        uint32_t at = le32_get(r->sqe.cdw11), some = le32_get(r->sqe.cdw12);

        if (r->xfer == XFER_H2C && r->sqe.opc != NVME_FABRICS)
                memcpy(b->disk + at, r->data, r->len);
        if (r->xfer == XFER_C2H) {
                memcpy(r->data, b->disk + at, r->len);
                r->c2h_len = some > 0 ? some : r->len;
        }
        b->executed++;
}

static void on_execute(void *user, struct request *r)
{
        struct bench *b = user;

        assert_ptr_equal(r->owner, b);
        assert_int_equal(r->state, REQUEST_EXECUTING);
        b->in_place = r->in_place;
        if (b->hold) {
                b->held[b->n_held++] = r;
                return;
        }
        run(b, r);
        request_complete(r);
}

static uint8_t *on_buffer_get(void *user, uint32_t len, uint32_t *lkey)
{
        struct bench *b = user;

        assert_true(len > 0);
        if (b->buffers_max > 0 && b->buffers == b->buffers_max)
                return NULL;
        b->buffers++;
        *lkey = LKEY;
        return memset(__real_malloc(len), 0xee, len);
}

static void on_buffer_put(void *user, uint8_t *buf, uint32_t len)
{
        struct bench *b = user;

        b->buffers--;
        assert_true(len > 0);
        free(buf);
}

static uint16_t on_sqhd(void *user, const struct request *r)
{
        struct bench *b = user;
        uint16_t size = b->sq_size ? b->sq_size : b->cfg.depth;

        b->sqhd = (uint16_t)((b->sqhd + 1) % size);
        if (r->sqe.opc == NVME_FABRICS && b->sqfc_off)
                return SQHD_DISABLED;
        return b->sqfc_off ? 0 : b->sqhd;
}

/* A state of a request in the paths below. */
static char letter(enum request_state s)
{
        static const char letters[] = {
                [REQUEST_FREE] = '-',
                [REQUEST_NEW] = 'N',
                [REQUEST_DEFERRED] = 'd',
                [REQUEST_NEED_BUFFER] = 'B',
                [REQUEST_H2C_PENDING] = 'h',
                [REQUEST_TRANSFERRING_H2C] = 'H',
                [REQUEST_READY_TO_EXECUTE] = 'r',
                [REQUEST_EXECUTING] = 'x',
                [REQUEST_EXECUTED] = 'X',
                [REQUEST_C2H_PENDING] = 'c',
                [REQUEST_COMPLETION_PENDING] = 'p',
                [REQUEST_READY_TO_COMPLETE] = 'y',
                [REQUEST_TRANSFERRING_C2H] = 'W',
                [REQUEST_COMPLETING] = 'C',
                [REQUEST_COMPLETED] = 'D',
        };

        return letters[s];
}

static void on_trace(void *user, const struct request *r)
{
        struct bench *b = user;

        assert_true(strlen(request_state_name(r->state)) > 2);
        if (le16_get(r->sqe.cid) == b->watched && b->path_len < sizeof(b->path) - 1)
                b->path[b->path_len++] = letter(r->state);
        b->path[b->path_len] = '\0';
}

static void on_recv_put(void *user, struct rdma_recv *rx)
{
        struct bench *b = user;

        b->recvs_out--;
        memset(rx->wr.sge[0].addr, 0xdd, SLOT); /* the next capsule comes */
        rx->wr.user = NULL;
}

static void *on_response_memory(void *user, uint32_t bytes, uint32_t *lkey)
{
        struct bench *b = user;
        void *p = malloc(bytes);

        *lkey = RESPONSE_LKEY;
        b->memories += p != NULL;
        return p;
}

static void on_response_memory_put(void *user, void *memory, uint32_t bytes)
{
        struct bench *b = user;

        assert_true(bytes > 0);
        b->memories--;
        free(memory);
}

static bool on_hold(void *user, struct request *r)
{
        struct bench *b = user;

        b->kept = b->holds ? r : NULL;
        return b->holds;
}

static void on_head(void *user, struct request *r)
{
        struct bench *b = user;

        (void)r;
        b->heads++;
}

static void on_response(void *user, struct request *r, struct spoil_response *s)
{
        const struct bench *b = user;

        assert_ptr_equal(s->bytes, &r->cqe);
        s->drop |= b->loses;
}

static void on_transfer(void *user, struct request *r, struct spoil_transfer *s)
{
        struct bench *b = user;

        assert_ptr_equal(s->sqe, &r->sqe);
        b->transfers++;
        s->drop |= b->skips;
}

static const struct request_faults faults = {
        .hold = on_hold, .head = on_head, .response = on_response, .transfer = on_transfer
};

static const struct rdma_controller_ops ops = {
        .request = { .admit = on_admit,
                     .execute = on_execute,
                     .buffer_get = on_buffer_get,
                     .buffer_put = on_buffer_put,
                     .sqhd = on_sqhd,
                     .trace = on_trace,
                     .faults = &faults },
        .recv_put = on_recv_put,
        .response_memory = on_response_memory,
        .response_memory_put = on_response_memory_put,
};

static struct rdma_controller_config io_queue(void)
{
        return (struct rdma_controller_config) {
                .format = { .in_capsule = IN_CAPSULE, .msdbd = 16 },
                .max_transfer = DISK,
                .send_wrs = 64,
                .reads = 16,
                .inline_bytes = 64,
                .depth = DEPTH,
        };
}

/* b is zero but for what the test wants of the owner. */
static bool bench_try(struct bench *b, struct rdma_controller_config cfg)
{
        b->cfg = cfg;
        b->cfg.policy = &b->policy;
        for (unsigned i = 0; i < DISK; i++) {
                b->disk[i] = (uint8_t)(i * 7 + i / 251);
                b->host[i] = (uint8_t)(i * 13 + i / 241);
        }
        b->c = rdma_controller_new(&b->cfg, &ops, b);
        if (!b->c)
                return false;
        for (unsigned i = 0; i < RECVS; i++)
                b->slot[i] = __real_malloc(SLOT);
        return true;
}

static void bench_init(struct bench *b, struct rdma_controller_config cfg)
{
        assert_true(bench_try(b, cfg));
}

static struct bench *bench_new(struct rdma_controller_config cfg)
{
        struct bench *b = calloc(1, sizeof(*b));

        if (!b)
                abort();
        bench_init(b, cfg);
        return b;
}

static struct bench *bench_default(void)
{
        return bench_new(io_queue());
}

static void finish_held(struct bench *b)
{
        for (unsigned i = 0; i < b->n_held; i++) {
                run(b, b->held[i]);
                request_complete(b->held[i]);
        }
        b->n_held = 0;
}

static void bench_close(struct bench *b)
{
        rdma_controller_end(b->c);
        finish_held(b);
        assert_int_equal(requests_executing(rdma_requests(b->c)), 0);
        assert_int_equal(b->buffers, 0);
        assert_int_equal(b->recvs_out, 0);
        rdma_controller_free(b->c);
        assert_int_equal(b->memories, 0);
        for (unsigned i = 0; i < RECVS; i++)
                free(b->slot[i]);
}

static void bench_free(struct bench *b)
{
        bench_close(b);
        free(b);
}

/* --- the host --------------------------------------------------------------------------------- */

static struct rdma_recv *a_recv(struct bench *b)
{
        for (unsigned i = 0; i < RECVS; i++)
                if (!b->recv[i].wr.user) {
                        b->recv[i].wr = (struct verbs_wr) {
                                .op = VERBS_RECV,
                                .n_sge = 1,
                                .sge = { { b->slot[i], SLOT, LKEY } },
                                .user = b,
                        };
                        return &b->recv[i];
                }
        return NULL;
}

/* A capsule of `len` bytes, of which sqe and, from `at` on (0: none), data are known. True: the connection
 * has to end. */
static bool capsule(struct bench *b, const union sqe *sqe, const void *data, uint32_t at,
                    uint32_t len)
{
        struct rdma_recv *rx = a_recv(b);
        uint8_t *slot = rx->wr.sge[0].addr;

        assert_true(len <= SLOT);
        memset(slot, 0xcc, SLOT);
        memcpy(slot, sqe, len < 64 ? len : 64);
        if (at > 0 && len > at)
                memcpy(slot + at, data, len - at);
        rx->bytes = len;
        b->recvs_out++;
        return rdma_controller_received(b->c, rx);
}

static union sqe command(uint8_t opc, uint16_t cid, uint32_t len, uint32_t at)
{
        return (union sqe) { .opc = opc,
                             .flags = 0x40,
                             .cid = le16(cid),
                             .nsid = le32(1),
                             .cdw10 = le32(len),
                             .cdw11 = le32(at) };
}

static struct rdma_buffer region(struct bench *b, uint32_t at, uint32_t len)
{
        return (struct rdma_buffer) { (uint64_t)(uintptr_t)(b->host + at), len, RKEY, false };
}

static bool send_keyed(struct bench *b, union sqe sqe, struct rdma_buffer buffer)
{
        sgl_put_keyed(&sqe.sgl, &buffer);
        return capsule(b, &sqe, NULL, 0, 64);
}

static void flush(struct bench *b, uint16_t cid)
{
        union sqe sqe = command(NVME_FLUSH, cid, 0, 0);

        assert_false(capsule(b, &sqe, NULL, 0, 64));
}

static void read_of(struct bench *b, uint16_t cid, uint32_t at, uint32_t len)
{
        assert_false(send_keyed(b, command(NVME_READ, cid, len, at), region(b, at, len)));
}

static void write_of(struct bench *b, uint16_t cid, uint32_t at, uint32_t len)
{
        assert_false(send_keyed(b, command(NVME_WRITE, cid, len, at), region(b, at, len)));
}

static bool send_list(struct bench *b, union sqe sqe, const struct rdma_buffer *list, unsigned n)
{
        struct sgl blocks[RDMA_DESCRIPTORS + 4];
        uint32_t bytes = n * (uint32_t)sizeof(struct sgl);

        for (unsigned i = 0; i < n; i++)
                sgl_put_keyed(&blocks[i], &list[i]);
        sqe.sgl = (struct sgl) { .len = le32(bytes), .id = SGL_LAST_IN_CAPSULE };
        return capsule(b, &sqe, blocks, 64, 64 + bytes);
}

/* Its data in n parts. */
static void send_parts(struct bench *b, uint8_t opc, uint16_t cid, uint32_t at, uint32_t len,
                       unsigned n)
{
        struct rdma_buffer list[RDMA_DESCRIPTORS];
        uint32_t part = len / n;

        for (unsigned i = 0; i < n; i++)
                list[i] = region(b, at + i * part, i + 1 < n ? part : len - i * part);
        assert_false(send_list(b, command(opc, cid, len, at), list, n));
}

static bool send_in_capsule(struct bench *b, uint8_t opc, uint16_t cid, uint64_t offset,
                            uint32_t needs, uint32_t says, uint32_t len)
{
        union sqe sqe = command(opc, cid, needs, 0);

        sgl_put_in_capsule(&sqe.sgl, offset, says);
        return capsule(b, &sqe, b->host, 64, len);
}

/* --- the hardware ----------------------------------------------------------------------------- */

/* Takes what is ready; how many work requests. */
static unsigned post(struct bench *b)
{
        unsigned n = 0;

        for (struct verbs_wr *wr = rdma_controller_take(b->c); wr; wr = wr->next, n++) {
                b->posted[b->n_posted++] = wr;
                b->reads_out += wr->op == VERBS_READ;
                assert_int_equal(wr->n_sge, 1);
        }
        b->chains += n > 0;
        assert_true(b->n_posted <= b->cfg.send_wrs);
        if (b->n_posted > b->most_posted)
                b->most_posted = b->n_posted;
        if (b->reads_out > b->most_reads)
                b->most_reads = b->reads_out;
        return n;
}

static void happens(struct bench *b, const struct verbs_wr *wr)
{
        const struct verbs_sge *sge = &wr->sge[0];

        if (wr->op == VERBS_READ) {
                assert_int_equal(sge->lkey, LKEY);
                memcpy(sge->addr, (void *)(uintptr_t)wr->remote, sge->len);
        } else if (wr->op == VERBS_WRITE) {
                assert_int_equal(sge->lkey, LKEY);
                memcpy((void *)(uintptr_t)wr->remote, sge->addr, sge->len);
        } else {
                struct response *r = &b->response[b->responses++];

                assert_true((wr->flags & VERBS_INLINE) || sge->lkey == RESPONSE_LKEY);
                assert_true(sge->len <= sizeof(r->cqe));
                memcpy(&r->cqe, sge->addr, sge->len);
                r->len = sge->len;
                r->invalidates = wr->op == VERBS_SEND_INVALIDATE;
                r->key = wr->rkey;
        }
}

static struct verbs_wr *unpost(struct bench *b, unsigned i)
{
        struct verbs_wr *wr = b->posted[i];

        b->n_posted--;
        memmove(&b->posted[i], &b->posted[i + 1], (b->n_posted - i) * sizeof(wr));
        b->reads_out -= wr->op == VERBS_READ;
        return wr;
}

static bool tell(struct bench *b, struct verbs_wr *wr, enum verbs_status status)
{
        struct verbs_wc wc = { .wr = wr, .status = status };

        return rdma_controller_completed(b->c, &wc);
}

/* The oldest one completes well. */
static void complete_one(struct bench *b)
{
        struct verbs_wr *wr = unpost(b, 0);

        happens(b, wr);
        if (wr->flags & VERBS_SIGNALED)
                assert_false(tell(b, wr, VERBS_SUCCESS));
}

static void settle(struct bench *b)
{
        while (post(b) > 0 || b->n_posted > 0)
                if (b->n_posted > 0)
                        complete_one(b);
        assert_false(rdma_controller_wants_post(b->c));
}

static void watch(struct bench *b, uint16_t cid)
{
        b->watched = cid;
        b->path_len = 0;
        b->path[0] = '\0';
}

static const struct response *last_response(const struct bench *b)
{
        assert_true(b->responses > 0);
        return &b->response[b->responses - 1];
}

static void expect_response(struct bench *b, uint16_t cid, uint16_t status)
{
        const struct response *r = last_response(b);

        assert_int_equal(r->len, sizeof(struct cqe));
        assert_int_equal(le16_get(r->cqe.cid), cid);
        assert_int_equal(cqe_status(&r->cqe), status);
}

static void expect_same(const struct bench *b, uint32_t at, uint32_t len)
{
        assert_memory_equal(b->disk + at, b->host + at, len);
}

/* --- paths ------------------------------------------------------------------------------------ */

static void no_data(struct bench *b)
{
        flush(b, 1);
}

static void keyed_read(struct bench *b)
{
        read_of(b, 1, 0, 4096);
}

static void keyed_write(struct bench *b)
{
        write_of(b, 1, 0, 4096);
}

static void in_capsule_write(struct bench *b)
{
        assert_false(send_in_capsule(b, NVME_WRITE, 1, 0, 512, 512, 64 + 512));
        assert_true(b->in_place);
}

static void listed_read(struct bench *b)
{
        send_parts(b, NVME_READ, 1, 0, 4096, 3);
}

static void listed_write(struct bench *b)
{
        send_parts(b, NVME_WRITE, 1, 0, 4096, 3);
}

static void refused(struct bench *b)
{
        union sqe sqe = command(NVME_VERIFY, 1, 512, 0);

        assert_false(capsule(b, &sqe, NULL, 0, 64));
}

static void refused_sgl(struct bench *b)
{
        assert_false(send_in_capsule(b, NVME_READ, 1, 0, 512, 512, 64 + 512));
}

struct path {
        const char *what;
        void (*send)(struct bench *b);
        uint32_t send_wrs, reads;
        unsigned before; /* commands ahead of it: flushes that are not yet posted, ... */
        enum { FLUSHES, WRITES, READS, BUFFERS } kind;
        const char *states;
};

static void paths(void **state)
{
        static const struct path rows[] = {
                { "no data", no_data, 64, 4, 0, FLUSHES, "NrxXyCD" },
                { "read", keyed_read, 64, 4, 0, FLUSHES, "NrxXyWD" },
                { "write", keyed_write, 64, 4, 0, FLUSHES, "NHrxXyCD" },
                { "write in the capsule", in_capsule_write, 64, 4, 0, FLUSHES, "NrxXyCD" },
                { "read to a list", listed_read, 64, 4, 0, FLUSHES, "NrxXyWD" },
                { "write from a list", listed_write, 64, 4, 0, FLUSHES, "NHrxXyCD" },
                { "refused", refused, 64, 4, 0, FLUSHES, "NyCD" },
                { "wrong SGL", refused_sgl, 64, 4, 0, FLUSHES, "NyCD" },
                { "response waits", no_data, 2, 2, 2, FLUSHES, "NrxXpyCD" },
                { "refusal waits", refused, 2, 2, 2, FLUSHES, "NpyCD" },
                { "READ waits for room", keyed_write, 2, 2, 2, FLUSHES, "NhHrxXyCD" },
                { "READ waits for READs", keyed_write, 64, 2, 2, WRITES, "NhHrxXyCD" },
                { "READs wait, some of them", listed_write, 64, 2, 1, WRITES, "NhHrxXyCD" },
                { "WRITE waits", keyed_read, 2, 2, 1, FLUSHES, "NrxXcyWD" },
                { "WRITEs wait", listed_read, 4, 2, 1, FLUSHES, "NrxXcyWD" },
                { "WRITE waits behind another", keyed_read, 6, 2, 2, READS, "NrxXcyWD" },
                { "buffer waits", keyed_read, 64, 4, 1, BUFFERS, "NBrxXyWD" },
                { "buffer waits to be READ into", keyed_write, 64, 4, 1, BUFFERS, "NBHrxXyCD" },
                { "buffer, then READ wait", keyed_write, 1, 4, 1, BUFFERS, "NBhHrxXpyCD" },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                const struct path *p = &rows[i];
                struct rdma_controller_config cfg = io_queue();
                struct bench *b;

                cfg.send_wrs = p->send_wrs;
                cfg.reads = p->reads;
                b = bench_new(cfg);
                for (uint16_t n = 0; n < p->before; n++) {
                        if (p->kind == FLUSHES)
                                flush(b, 10 + n);
                        else if (p->kind == READS)
                                send_parts(b, NVME_READ, 10 + n, 0, 3072, 3);
                        else
                                write_of(b, 10 + n, 8192u * (n + 1), 512);
                }
                b->buffers_max = p->kind == BUFFERS ? b->buffers : 0;
                watch(b, 1);
                p->send(b);
                if (p->kind == BUFFERS) {
                        assert_true(requests_need_buffers(rdma_requests(b->c)));
                        requests_buffers(rdma_requests(b->c)); /* in vain */
                        b->buffers_max = 0;
                        requests_buffers(rdma_requests(b->c));
                        assert_false(requests_need_buffers(rdma_requests(b->c)));
                }
                settle(b);
                if (strcmp(b->path, p->states) != 0)
                        fail_msg("%s: %s, not %s", p->what, b->path, p->states);
                assert_int_equal(b->responses, p->before + 1);
                assert_int_equal(b->buffers, 0);
                assert_null(requests_find(rdma_requests(b->c), 1));
                bench_free(b);
        }
}

/* --- data ------------------------------------------------------------------------------------- */

static void data_arrives(void **state)
{
        struct bench *b = bench_default();

        (void)state;
        for (unsigned parts = 1; parts <= RDMA_DESCRIPTORS; parts++) {
                uint32_t at = parts * 2048, len = 2000 + parts;

                send_parts(b, NVME_WRITE, 1, at, len, parts);
                settle(b);
                expect_response(b, 1, 0);
                expect_same(b, at, len);
                memset(b->host + at, 0, len);
                send_parts(b, NVME_READ, 2, at, len, parts);
                settle(b);
                expect_response(b, 2, 0);
                expect_same(b, at, len);
        }
        bench_free(b);
}

static void unequal_parts(void **state)
{
        struct bench *b = bench_default();
        /* parts of no bytes, and more than is asked for */
        struct rdma_buffer list[] = { region(b, 0, 0), region(b, 100, 1), region(b, 200, 0),
                                      region(b, 300, 511), region(b, 1000, 512) };
        uint8_t before[DISK];

        (void)state;
        memcpy(before, b->host, DISK);
        assert_false(send_list(b, command(NVME_READ, 1, 600, 0), list, COUNT(list)));
        assert_int_equal(post(b), 4);
        settle(b);
        assert_memory_equal(b->host + 100, b->disk, 1);
        assert_memory_equal(b->host + 300, b->disk + 1, 511);
        assert_memory_equal(b->host + 1000, b->disk + 512, 88);
        assert_memory_equal(b->host + 1088, before + 1088, DISK - 1088);
        bench_free(b);
}

/* The owner has less to say than the command asked for, or nothing. */
static void short_answers(void **state)
{
        static const uint32_t lens[] = { 1, 1023, 1024, 1025, 2048, 4096, 9999 };

        (void)state;
        for (size_t i = 0; i < COUNT(lens); i++) {
                struct bench *b = bench_default();
                struct rdma_buffer list[4];
                union sqe sqe = command(NVME_READ, 1, 4096, 0);
                uint32_t len = lens[i] < 4096 ? lens[i] : 4096;
                uint8_t before[DISK];

                memcpy(before, b->host, DISK);
                sqe.cdw12 = le32(lens[i]);
                for (unsigned n = 0; n < 4; n++)
                        list[n] = region(b, n * 1024, 1024);
                send_list(b, sqe, list, 4);
                assert_int_equal(post(b), (len + 1023) / 1024 + 1);
                settle(b);
                expect_same(b, 0, len);
                assert_memory_equal(b->host + len, before + len, DISK - len);
                bench_free(b);
        }
}

static void one_chain(void **state)
{
        enum { S = VERBS_SEND, W = VERBS_WRITE, R = VERBS_READ };
        static const int want[] = { R, W, S, S, W, W, S, S, R, R };
        struct bench *b = bench_default();

        (void)state;
        write_of(b, 1, 0, 512);
        read_of(b, 2, 512, 512);
        flush(b, 3);
        send_parts(b, NVME_READ, 4, 1024, 1000, 2);
        send_in_capsule(b, NVME_WRITE, 5, 0, 512, 512, 64 + 512);
        send_parts(b, NVME_WRITE, 6, 4096, 1000, 2);
        assert_true(rdma_controller_wants_post(b->c));
        assert_int_equal(post(b), COUNT(want));
        assert_false(rdma_controller_wants_post(b->c));
        assert_null(rdma_controller_take(b->c));
        for (size_t i = 0; i < COUNT(want); i++) {
                const struct verbs_wr *wr = b->posted[i];
                bool last = i + 1 == COUNT(want);

                assert_int_equal(wr->op, want[i]);
                assert_int_equal(wr->flags, wr->op == VERBS_WRITE  ? 0
                                            : wr->op == VERBS_READ ? VERBS_SIGNALED
                                                                   : VERBS_SIGNALED | VERBS_INLINE);
                assert_ptr_equal(wr->next, last ? NULL : b->posted[i + 1]);
                if (wr->op != VERBS_SEND)
                        assert_int_equal(wr->rkey, RKEY);
        }
        settle(b);
        assert_int_equal(b->responses, 6);
        assert_int_equal(b->chains, 3); /* each write's response when its data is there */
        bench_free(b);
}

/* Whatever the limits, and however many commands: they are kept, and everything ends well. */
static void limits(void **state)
{
        static const struct {
                uint32_t send_wrs, reads;
                unsigned parts;
        } rows[] = {
                { 2, 1, 1 }, { 2, 2, 1 },   { 3, 1, 2 },   { 5, 4, 4 },
                { 9, 3, 8 }, { 17, 1, 16 }, { 24, 5, 16 }, { 64, 64, 16 },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct rdma_controller_config cfg = io_queue();
                struct bench *b;

                cfg.send_wrs = rows[i].send_wrs;
                cfg.reads = rows[i].reads;
                b = bench_new(cfg);
                for (uint16_t n = 0; n < DEPTH - 1; n++)
                        send_parts(b, n % 3 ? NVME_WRITE : NVME_READ, n, n * 1024u, 1024,
                                   rows[i].parts);
                settle(b);
                assert_int_equal(b->responses, DEPTH - 1);
                for (unsigned n = 0; n < b->responses; n++)
                        assert_int_equal(cqe_status(&b->response[n].cqe), 0);
                expect_same(b, 0, (DEPTH - 1) * 1024u);
                assert_true(b->most_reads <= rows[i].reads);
                assert_true(b->most_reads == rows[i].reads || rows[i].reads >= 16);
                bench_free(b);
        }
}

/* The send queue is full of responses to 1 and 2: a read (3), a write (4) and a Flush (5) wait. */
static struct bench *bench_of_waiting(void)
{
        struct rdma_controller_config cfg = io_queue();
        struct bench *b;

        cfg.send_wrs = 2;
        b = bench_new(cfg);
        flush(b, 1);
        flush(b, 2);
        assert_int_equal(post(b), 2);
        read_of(b, 3, 0, 512);
        write_of(b, 4, 512, 512);
        flush(b, 5);
        return b;
}

/* When room comes back: responses, READs, WRITEs. */
static void priorities(void **state)
{
        struct bench *b = bench_of_waiting();

        (void)state;
        assert_int_equal(post(b), 0);
        assert_int_equal(requests_find(rdma_requests(b->c), 3)->state, REQUEST_C2H_PENDING);
        assert_int_equal(requests_find(rdma_requests(b->c), 4)->state, REQUEST_H2C_PENDING);
        assert_int_equal(requests_find(rdma_requests(b->c), 5)->state, REQUEST_COMPLETION_PENDING);
        complete_one(b);
        assert_int_equal(post(b), 1);
        assert_int_equal(b->posted[1]->op, VERBS_SEND); /* of 5 */
        assert_null(requests_find(rdma_requests(b->c), 5));
        complete_one(b);
        assert_int_equal(post(b), 1);
        assert_int_equal(b->posted[1]->op, VERBS_READ); /* of 4 */
        complete_one(b);                                /* the WRITE needs two */
        assert_int_equal(post(b), 0);
        complete_one(b); /* the READ: what it leads to comes after what waited */
        assert_int_equal(post(b), 2);
        assert_int_equal(b->posted[0]->op, VERBS_WRITE);
        assert_int_equal(b->posted[1]->op, VERBS_SEND);
        assert_int_equal(requests_find(rdma_requests(b->c), 4)->state, REQUEST_COMPLETION_PENDING);
        settle(b);
        assert_int_equal(b->responses, 5);
        expect_response(b, 4, 0);
        for (unsigned i = 0; i < 5; i++) /* whatever passed what */
                assert_int_equal(le16_get(b->response[i].cqe.sqhd), i + 1);
        bench_free(b);
}

/* --- in-capsule data -------------------------------------------------------------------------- */

static void in_capsule(void **state)
{
        enum { OFFSET = NVME_SGL_OFFSET, LENGTH = NVME_SGL_LENGTH, TYPE = NVME_SGL_TYPE };
        static const struct {
                uint16_t icdoff;
                bool admin;
                uint8_t opc;
                uint64_t offset;
                uint32_t needs, says, len;
                enum rule_id waived;
                uint16_t status;
                uint32_t got; /* bytes of the host's; zeroes follow */
        } rows[] = {
                { 0, 0, NVME_WRITE, 0, 512, 512, 64 + 512, 0, 0, 512 },
                { 0, 0, NVME_WRITE, 0, 4096, 4096, 64 + 4096, 0, 0, 4096 },
                { 0, 0, NVME_WRITE, 0, 512, 513, 64 + 513, 0, 0, 512 },
                { 0, 0, NVME_WRITE, 100, 512, 512, 64 + 612, 0, 0, 512 },
                { 0, 0, NVME_WRITE, 0, 0, 0, 64, 0, 0, 0 },
                { 0, 0, NVME_WRITE, 0, 512, 512, 64 + 511, 0, LENGTH, 0 },
                { 0, 0, NVME_WRITE, 0, 512, 511, 64 + 512, 0, LENGTH, 0 },
                { 0, 0, NVME_WRITE, 600, 512, 512, 64 + 512, 0, OFFSET, 0 },
                { 0, 0, NVME_WRITE, UINT64_MAX, 512, 512, 64 + 512, 0, OFFSET, 0 },
                { 0, 0, NVME_READ, 0, 512, 512, 64 + 512, 0, TYPE, 0 },
                { 0, 1, NVME_WRITE, 0, 512, 512, 64 + 512, RDMA_CMD_LONG, TYPE, 0 },
                { 4, 0, NVME_WRITE, 0, 512, 512, 64 + 64 + 512, 0, 0, 512 },
                { 4, 0, NVME_WRITE, 512, 512, 512, 64 + 64 + 512, 0, OFFSET, 0 },
                { 0, 0, NVME_WRITE, 0, 512, 512, 64 + 100, RDMA_ICD_LENGTH, LENGTH, 0 },
                { 0, 0, NVME_WRITE, 0, 512, 100, 64 + 512, RDMA_SGL_LENGTH, 0, 100 },
                { 0, 0, NVME_WRITE, 0, 5000, 100, 64 + 512, RDMA_SGL_LENGTH, LENGTH, 0 },
                { 0, 0, NVME_READ, 0, 512, 512, 64 + 512, RDMA_ICD_DIR, 0, 0 },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct rdma_controller_config cfg = io_queue();
                struct bench *b = calloc(1, sizeof(*b));
                uint8_t zeroes[DISK] = { 0 };
                uint32_t skip = (uint32_t)(rows[i].icdoff * 16u + rows[i].offset);

                cfg.format.icdoff = rows[i].icdoff;
                cfg.format.admin = rows[i].admin;
                rule_add(&b->policy.waived, rows[i].waived);
                bench_init(b, cfg);
                assert_false(send_in_capsule(b, rows[i].opc, 1, rows[i].offset, rows[i].needs,
                                             rows[i].says, rows[i].len));
                assert_int_equal(b->recvs_out, 0);
                settle(b);
                if (cqe_status(&last_response(b)->cqe) != rows[i].status)
                        fail_msg("row %zu: %xh", i, cqe_status(&last_response(b)->cqe));
                assert_int_equal(cqe_dnr(&last_response(b)->cqe), rows[i].status != 0);
                assert_memory_equal(b->disk, b->host + skip, rows[i].got);
                assert_int_equal(b->in_place, rows[i].got > 0);
                if (rows[i].got > 0)
                        assert_memory_equal(b->disk + rows[i].got, zeroes,
                                            rows[i].needs - rows[i].got);
                bench_free(b);
        }
}

/* In place data is looked at once only: it is gone when execute() has returned. */
static void in_place_is_given_back(void **state)
{
        struct bench *b = bench_default();

        (void)state;
        b->hold = true;
        in_capsule_write(b);
        assert_int_equal(b->n_held, 1);
        assert_true(b->held[0]->in_place);
        assert_int_equal(b->recvs_out, 0);
        bench_free(b);
}

/* What is short is filled up with zeroes, not with what lay in the buffer before. */
static void short_sgl_waived(void **state)
{
        static const uint32_t lens[] = { 0, 1, 511 };

        (void)state;
        for (size_t i = 0; i < COUNT(lens); i++) {
                struct bench *b = calloc(1, sizeof(*b));
                uint8_t zeroes[512] = { 0 };

                rule_add(&b->policy.waived, RDMA_SGL_LENGTH);
                bench_init(b, io_queue());
                send_keyed(b, command(NVME_WRITE, 1, 512, 0), region(b, 0, lens[i]));
                settle(b);
                expect_response(b, 1, 0);
                expect_same(b, 0, lens[i]);
                assert_memory_equal(b->disk + lens[i], zeroes, 512 - lens[i]);
                send_keyed(b, command(NVME_READ, 2, 512, 4096), region(b, 4096, lens[i]));
                settle(b);
                expect_response(b, 2, 0);
                expect_same(b, 4096, lens[i]);
                bench_free(b);
        }
}

/* Linux sends Connect of I/O queues with its data in the capsule, however small those are. */
static void connect_in_capsule(void **state)
{
        struct rdma_controller_config cfg = io_queue();
        struct bench *b;

        (void)state;
        cfg.format.in_capsule = 0;
        b = bench_new(cfg);
        for (uint16_t cid = 1; cid <= 2; cid++) {
                union sqe sqe = { .opc = NVME_FABRICS, .cid = le16(cid) };
                uint32_t len = 64 + CONNECT_DATA_LEN + cid - 1u;

                sqe.fctype = FCTYPE_CONNECT;
                sgl_put_in_capsule(&sqe.sgl, 0, CONNECT_DATA_LEN);
                assert_int_equal(capsule(b, &sqe, b->host, 64, len), cid == 2);
                settle(b);
        }
        assert_int_equal(b->responses, 1);
        expect_response(b, 1, 0);
        assert_int_equal(rdma_controller_fault(b->c).rule, RDMA_CMD_LONG);
        bench_free(b);
}

/* --- what is asked for to be invalidated ------------------------------------------------------ */

static void invalidation(void **state)
{
        static const struct {
                uint8_t opc;
                unsigned parts, asked; /* bits: which descriptors ask for it */
                bool invalidates;
        } rows[] = {
                { NVME_READ, 1, 0, false }, { NVME_READ, 1, 1, true },   { NVME_WRITE, 1, 1, true },
                { NVME_READ, 3, 7, true },  { NVME_WRITE, 3, 4, true },  { NVME_READ, 3, 4, true },
                { NVME_READ, 3, 3, false }, { NVME_WRITE, 3, 0, false },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct bench *b = bench_default();
                struct rdma_buffer list[3];

                for (unsigned n = 0; n < rows[i].parts; n++) {
                        list[n] = region(b, n * 512, 512);
                        list[n].key = RKEY + n;
                        list[n].invalidate = rows[i].asked >> n & 1;
                }
                send_list(b, command(rows[i].opc, 1, rows[i].parts * 512, 0), list, rows[i].parts);
                while (b->responses == 0) {
                        post(b);
                        for (unsigned n = 0; n < b->n_posted; n++)
                                if (b->posted[n]->op == VERBS_SEND_INVALIDATE)
                                        assert_int_equal(b->reads_out, 0);
                        complete_one(b);
                }
                expect_response(b, 1, 0);
                assert_int_equal(last_response(b)->invalidates, rows[i].invalidates);
                if (rows[i].invalidates)
                        assert_int_equal(last_response(b)->key, RKEY + rows[i].parts - 1);
                flush(b, 2); /* of the same request */
                settle(b);
                assert_false(last_response(b)->invalidates);
                bench_free(b);
        }
}

/* --- statuses --------------------------------------------------------------------------------- */

static void statuses(void **state)
{
        static const struct {
                uint8_t opc, id;
                uint32_t len, says;
                uint32_t reads, max;
                uint16_t status;
                bool dnr;
        } rows[] = {
                { NVME_READ, SGL_KEYED, 512, 512, 4, 4096, 0, false },
                { NVME_READ, SGL_KEYED, 512, 511, 4, 4096, NVME_SGL_LENGTH, true },
                { NVME_WRITE, SGL_KEYED, 512, 511, 4, 4096, NVME_SGL_LENGTH, true },
                { NVME_READ, SGL_KEYED + 3, 512, 512, 4, 4096, NVME_SGL_TYPE, true },
                { NVME_READ, SGL_TRANSPORT, 512, 512, 4, 4096, NVME_SGL_TYPE, true },
                { NVME_READ, SGL_KEYED, 4097, 5000, 4, 4096, NVME_INVALID_FIELD, true },
                { 0xc3, SGL_KEYED, 512, 512, 4, 4096, NVME_INVALID_FIELD, true },
                { NVME_WRITE, SGL_KEYED, 512, 512, 0, 4096, NVME_DATA_TRANSFER_ERROR, false },
                { NVME_READ, SGL_KEYED, 512, 512, 0, 4096, 0, false },
                { NVME_WRITE, SGL_TRANSPORT, 0, 0, 4, 4096, 0, false },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct rdma_controller_config cfg = io_queue();
                struct bench *b;
                union sqe sqe = command(rows[i].opc, 1, rows[i].len, 0);
                struct rdma_buffer buffer;

                cfg.reads = rows[i].reads;
                cfg.max_transfer = rows[i].max;
                b = bench_new(cfg);
                buffer = region(b, 0, rows[i].says);
                sgl_put_keyed(&sqe.sgl, &buffer);
                sqe.sgl.id = rows[i].id;
                assert_false(capsule(b, &sqe, NULL, 0, 64));
                settle(b);
                if (cqe_status(&last_response(b)->cqe) != rows[i].status)
                        fail_msg("row %zu: %xh", i, cqe_status(&last_response(b)->cqe));
                assert_int_equal(cqe_dnr(&last_response(b)->cqe), rows[i].dnr);
                assert_int_equal(b->executed, rows[i].status == 0);
                bench_free(b);
        }
}

/* A list that could never be served at once with its response. */
static void too_long_a_list(void **state)
{
        struct rdma_controller_config cfg = io_queue();
        struct bench *b;

        (void)state;
        cfg.send_wrs = 4;
        b = bench_new(cfg);
        send_parts(b, NVME_READ, 1, 0, 4096, 4);
        settle(b);
        expect_response(b, 1, NVME_SGL_COUNT);
        send_parts(b, NVME_WRITE, 2, 0, 4096, 16);
        settle(b);
        expect_response(b, 2, 0);
        bench_free(b);
}

static void owner_sets_status(void **state)
{
        struct bench *b = bench_default();

        (void)state;
        b->hold = true;
        keyed_read(b);
        b->held[0]->cqe.sf = status_field(NVME_UNRECOVERED_READ);
        b->held[0]->cqe.dw0 = le32(77);
        b->held[0]->c2h_len = 4096;
        b->n_held = 0;
        request_complete(requests_find(rdma_requests(b->c), 1));
        assert_int_equal(b->buffers, 0); /* at once: it has nothing to send */
        assert_int_equal(post(b), 1);
        settle(b);
        expect_response(b, 1, NVME_UNRECOVERED_READ);
        assert_int_equal(le32_get(last_response(b)->cqe.dw0), 77);
        bench_free(b);
}

static void no_response(void **state)
{
        struct bench *b = bench_default();

        (void)state;
        b->hold = true;
        read_of(b, 1, 0, 512);
        b->held[0]->no_response = true;
        watch(b, 1);
        finish_held(b);
        assert_string_equal(b->path, "XD");
        assert_int_equal(b->buffers, 0);
        assert_int_equal(post(b), 0);
        assert_null(requests_find(rdma_requests(b->c), 1));
        bench_free(b);
}

/* Whatever it waits for, but for the completion of what was posted. */
static void a_reset_ends_what_waits(void **state)
{
        struct bench *b = bench_of_waiting();

        (void)state;
        b->hold = true;
        flush(b, 6);
        requests_reset(rdma_requests(b->c));
        assert_int_equal(b->buffers, 0);
        for (uint16_t cid = 3; cid <= 6; cid++)
                assert_null(requests_find(rdma_requests(b->c), cid));
        settle(b);
        assert_int_equal(b->responses, 2);
        finish_held(b);
        settle(b);
        assert_int_equal(b->responses, 2);
        assert_int_equal(requests_executing(rdma_requests(b->c)), 0);
        bench_free(b);
}

static void responses_from_memory(void **state)
{
        struct rdma_controller_config cfg = io_queue();
        struct bench *b;

        (void)state;
        cfg.inline_bytes = sizeof(struct cqe) - 1;
        b = bench_new(cfg);
        assert_int_equal(b->memories, 1);
        for (uint16_t cid = 0; cid < DEPTH - 1; cid++)
                flush(b, cid);
        assert_int_equal(b->memories, 2);
        post(b);
        for (unsigned i = 0; i < b->n_posted; i++)
                for (unsigned n = 0; n < i; n++)
                        assert_ptr_not_equal(b->posted[i]->sge[0].addr, b->posted[n]->sge[0].addr);
        settle(b);
        for (unsigned i = 0; i < b->responses; i++)
                assert_int_equal(le16_get(b->response[i].cqe.cid), i);
        bench_free(b);
}

/* --- capsules that a host may not send -------------------------------------------------------- */

static bool second_cid(struct bench *b)
{
        union sqe sqe = command(NVME_FLUSH, 1, 0, 0);

        b->hold = true;
        flush(b, 1);
        return capsule(b, &sqe, NULL, 0, 64);
}

static bool short_capsule(struct bench *b)
{
        union sqe sqe = command(NVME_FLUSH, 1, 0, 0);
        bool ends = false;

        for (uint32_t len = 0; len < 64; len++)
                ends = capsule(b, &sqe, NULL, 0, len);
        return ends;
}

static bool long_capsule(struct bench *b)
{
        union sqe sqe = command(NVME_FLUSH, 1, 0, 0);

        assert_false(capsule(b, &sqe, NULL, 0, 64 + IN_CAPSULE));
        settle(b);
        return capsule(b, &sqe, NULL, 0, 64 + IN_CAPSULE + 1);
}

static bool overrun(struct bench *b)
{
        union sqe sqe = command(NVME_FLUSH, DEPTH, 0, 0);

        b->hold = true;
        for (uint16_t cid = 1; cid < DEPTH; cid++)
                flush(b, cid);
        return capsule(b, &sqe, NULL, 0, 64);
}

static void host_faults(void **state)
{
        static const struct {
                enum rule_id rule;
                bool (*send)(struct bench *b);
                unsigned executed; /* if it is waived */
        } rows[] = {
                { RDMA_CMD_SHORT, short_capsule, 0 },
                { RDMA_CMD_LONG, long_capsule, 2 },
                { FAB_OVERRUN, overrun, DEPTH },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows) * 2; i++) {
                struct bench *b = calloc(1, sizeof(*b));
                bool waived = i % 2;

                if (waived)
                        rule_add(&b->policy.waived, rows[i / 2].rule);
                bench_init(b, io_queue());
                assert_int_equal(rows[i / 2].send(b), !waived);
                assert_int_equal(b->recvs_out, 0);
                assert_int_equal(rdma_controller_fault(b->c).rule,
                                 waived ? RULE_NONE : rows[i / 2].rule);
                if (waived) {
                        finish_held(b);
                        settle(b);
                        assert_int_equal(b->executed, rows[i / 2].executed);
                        assert_int_equal(b->responses, rows[i / 2].executed);
                        assert_null(requests_find(rdma_requests(b->c), 1));
                } else {
                        /* deaf, and what executes ends without a word */
                        union sqe sqe = command(NVME_FLUSH, 999, 0, 0);
                        unsigned before = b->executed, held = b->n_held;

                        assert_true(capsule(b, &sqe, NULL, 0, 64));
                        finish_held(b);
                        assert_int_equal(b->executed, before + held);
                        assert_int_equal(post(b), 0);
                        assert_false(requests_need_buffers(rdma_requests(b->c)));
                }
                bench_free(b);
        }
}

/* The second one ends with Command ID Conflict (waived: like any other). The first one is the one
 * that is found, and no place is lost by it. */
static void same_cid_again(void **state)
{
        (void)state;
        for (unsigned waived = 0; waived < 2; waived++) {
                struct bench *b = calloc(1, sizeof(*b));

                if (waived)
                        rule_add(&b->policy.waived, RDMA_CMD_CID);
                bench_init(b, io_queue());
                for (unsigned i = 0; i < 100; i++) {
                        assert_false(second_cid(b));
                        assert_int_equal(b->n_held, 1 + waived);
                        assert_ptr_equal(requests_find(rdma_requests(b->c), 1), b->held[0]);
                        if (!waived) {
                                settle(b);
                                assert_int_equal(cqe_status(&b->response[b->responses - 1].cqe),
                                                 NVME_CID_CONFLICT);
                        }
                        finish_held(b);
                        settle(b);
                        assert_null(requests_find(rdma_requests(b->c), 1));
                }
                assert_int_equal(b->responses, 200);
                bench_free(b);
        }
}

/* The CID is free from when the response is posted: the host may use it before our own completion
 * of that is seen, and send as many commands. */
static void host_is_faster(void **state)
{
        struct bench *b = bench_default();
        union sqe sqe = command(NVME_FLUSH, 1, 0, 0);

        (void)state;
        for (unsigned round = 0; round < 2; round++) {
                for (uint16_t cid = 1; cid < DEPTH; cid++)
                        flush(b, cid);
                assert_int_equal(post(b), DEPTH - 1);
        }
        settle(b);
        assert_int_equal(b->responses, 2 * (DEPTH - 1));
        flush(b, 1); /* answered but not posted is not yet answered */
        assert_false(capsule(b, &sqe, NULL, 0, 64));
        assert_int_equal(post(b), 2);
        settle(b);
        assert_int_equal(cqe_status(&b->response[b->responses - 1].cqe), NVME_CID_CONFLICT);
        bench_free(b);
}

/* With SQHD a host may have more commands outstanding than the queue has entries: their places are
 * empty already (AERs). Without it may not. */
static void flow_control(void **state)
{
        for (int off = 0; off < 2; off++) {
                struct bench *b = bench_default();
                union sqe connect = { .opc = NVME_FABRICS, .cid = le16(999) };
                bool ends = false;

                (void)state;
                connect.fctype = FCTYPE_CONNECT;
                sgl_put_in_capsule(&connect.sgl, 0, CONNECT_DATA_LEN);
                b->sqfc_off = off;
                assert_false(capsule(b, &connect, b->host, 64, 64 + CONNECT_DATA_LEN));
                settle(b);
                for (uint16_t cid = 1; cid < 3 * DEPTH && !ends; cid++) {
                        union sqe sqe = command(NVME_FLUSH, cid, 0, 0);

                        b->hold = cid % 2;
                        b->sqhd = (uint16_t)(cid % DEPTH); /* fetched as they come */
                        ends = capsule(b, &sqe, NULL, 0, 64);
                        settle(b);
                        assert_true(!ends || b->n_held == DEPTH - 1);
                }
                assert_int_equal(ends, off);
                assert_int_equal(rdma_controller_fault(b->c).rule,
                                 off ? FAB_OUTSTANDING : RULE_NONE);
                bench_free(b);
        }
}

/* Connect says the queue's size. */
static void depth_of_connect(void **state)
{
        struct bench *b = bench_default();
        union sqe sqe = command(NVME_FLUSH, 99, 0, 0);

        (void)state;
        assert_int_equal(requests_set_depth(rdma_requests(b->c), 4), 0);
        b->hold = true;
        for (uint16_t cid = 0; cid < 3; cid++)
                flush(b, cid);
        assert_true(capsule(b, &sqe, NULL, 0, 64));
        assert_int_equal(rdma_controller_fault(b->c).rule, FAB_OVERRUN);
        bench_free(b);
        b = bench_default();
        assert_int_equal(requests_set_depth(rdma_requests(b->c), 100), 0);
        b->hold = true;
        for (uint16_t cid = 0; cid < 99; cid++)
                flush(b, cid);
        sqe.cid = le16(99);
        assert_true(capsule(b, &sqe, NULL, 0, 64));
        bench_free(b);
}

/* --- buffers ---------------------------------------------------------------------------------- */

static void buffers_in_order(void **state)
{
        struct bench *b = bench_default();

        (void)state;
        b->hold = true;
        b->buffers_max = 1;
        for (uint16_t cid = 1; cid <= 4; cid++)
                read_of(b, cid, cid * 512u, 512);
        assert_int_equal(b->n_held, 1);
        for (uint16_t cid = 1; cid <= 5; cid++) {
                assert_int_equal(le16_get(b->held[0]->sqe.cid), cid);
                finish_held(b);
                requests_buffers(rdma_requests(b->c)); /* it is still being sent */
                assert_int_equal(b->n_held, 0);
                settle(b);
                expect_response(b, cid, 0);
                if (cid == 1) { /* there is one, but others came first */
                        read_of(b, 5, 0, 512);
                        assert_int_equal(b->n_held, 0);
                }
                requests_buffers(rdma_requests(b->c));
                assert_int_equal(b->n_held, cid < 5);
        }
        assert_false(requests_need_buffers(rdma_requests(b->c)));
        bench_free(b);
}

/* --- completions with error ------------------------------------------------------------------- */

static void mixture(struct bench *b)
{
        write_of(b, 1, 0, 512);
        read_of(b, 2, 512, 512);
        send_parts(b, NVME_READ, 3, 1024, 3000, 3);
        send_parts(b, NVME_WRITE, 4, 8192, 3000, 3);
        flush(b, 5);
        b->buffers_max = b->buffers;
        read_of(b, 6, 16384, 512);
        b->hold = true;
        flush(b, 7);
        send_in_capsule(b, NVME_WRITE, 8, 0, 512, 512, 64 + 512);
}

/* Each work request fails with each status; the others are flushed before or after it. */
static void errors(void **state)
{
        unsigned n = 1;

        (void)state;
        for (unsigned at = 0; at < n; at++)
                for (enum verbs_status s = VERBS_SUCCESS + 1; s < VERBS_STATUSES; s++)
                        for (int order = 0; order < 3; order++) {
                                struct bench *b = bench_default();
                                unsigned before;

                                mixture(b);
                                n = post(b);
                                before = b->responses;
                                if (order == 1) /* those before it come late */
                                        assert_true(tell(b, unpost(b, at), s));
                                while (b->n_posted > 0 && order != 2) {
                                        enum verbs_status each = order ? VERBS_FLUSHED : s;

                                        assert_true(tell(b, unpost(b, 0), each));
                                }
                                if (order == 2) {
                                        assert_true(tell(b, unpost(b, at), s));
                                        while (b->n_posted > 0)
                                                assert_false(tell(b, unpost(b, b->n_posted - 1),
                                                                  VERBS_SUCCESS));
                                }
                                assert_int_equal(b->responses, before);
                                assert_int_equal(post(b), 0);
                                assert_false(rdma_controller_wants_post(b->c));
                                assert_false(requests_need_buffers(rdma_requests(b->c)));
                                assert_int_equal(requests_executing(rdma_requests(b->c)), 2);
                                assert_int_equal(rdma_controller_fault(b->c).rule, RULE_NONE);
                                /* what may still be named stays, buffers with it */
                                assert_true(b->buffers >= 4);
                                bench_free(b);
                        }
        assert_true(n >= 10);
}

/* Nothing is fetched or answered any more, but what executes comes to its end. */
static void after_an_error(void **state)
{
        struct bench *b = bench_default();
        union sqe sqe = command(NVME_FLUSH, 100, 0, 0);

        (void)state;
        mixture(b);
        post(b);
        b->hold = false;
        flush(b, 20);
        flush(b, 21); /* chained, never to be posted */
        assert_true(rdma_controller_wants_post(b->c));
        assert_true(tell(b, unpost(b, 0), VERBS_REMOTE_ACCESS));
        assert_int_equal(post(b), 0);
        finish_held(b);
        assert_int_equal(requests_executing(rdma_requests(b->c)), 0);
        assert_int_equal(post(b), 0);
        b->executed = 0;
        assert_false(capsule(b, &sqe, NULL, 0, 64));
        b->buffers_max = 0;
        requests_buffers(rdma_requests(b->c));
        request_complete(requests_find(rdma_requests(b->c), 6)); /* waits for a buffer */
        request_complete(requests_find(rdma_requests(b->c), 1)); /* is being READ */
        assert_int_equal(b->executed, 0);
        bench_free(b);
}

/* --- the end ---------------------------------------------------------------------------------- */

struct stage {
        const char *what;
        void (*send)(struct bench *b);
        bool hold, room, posted; /* room: on the queue pair */
        unsigned buffers_max;
        unsigned completed; /* work requests */
        enum request_state state;
};

static const struct stage stages[] = {
        { "need buffer", keyed_write, 0, 1, 1, 1, 0, REQUEST_NEED_BUFFER },
        { "H2C pending", keyed_write, 0, 0, 1, 0, 0, REQUEST_H2C_PENDING },
        { "H2C, not posted", keyed_write, 0, 1, 0, 0, 0, REQUEST_TRANSFERRING_H2C },
        { "H2C", keyed_write, 0, 1, 1, 0, 0, REQUEST_TRANSFERRING_H2C },
        { "H2C of a list", listed_write, 0, 1, 1, 0, 2, REQUEST_TRANSFERRING_H2C },
        { "executing", keyed_write, 1, 1, 1, 0, 1, REQUEST_EXECUTING },
        { "executing, in the capsule", in_capsule_write, 1, 1, 1, 0, 0, REQUEST_EXECUTING },
        { "C2H pending", keyed_read, 0, 0, 1, 0, 0, REQUEST_C2H_PENDING },
        { "C2H of a list pending", listed_read, 0, 0, 1, 0, 0, REQUEST_C2H_PENDING },
        { "completion pending", no_data, 0, 0, 1, 0, 0, REQUEST_COMPLETION_PENDING },
        { "ready to complete", no_data, 0, 1, 0, 0, 0, REQUEST_READY_TO_COMPLETE },
        { "ready to send", listed_read, 0, 1, 0, 0, 0, REQUEST_READY_TO_COMPLETE },
        { "C2H", keyed_read, 0, 1, 1, 0, 0, REQUEST_TRANSFERRING_C2H },
        { "C2H of a list", listed_read, 0, 1, 1, 0, 2, REQUEST_TRANSFERRING_C2H },
        { "completing", no_data, 0, 1, 1, 0, 0, REQUEST_COMPLETING },
};

static struct bench *at_stage(const struct stage *s)
{
        struct rdma_controller_config cfg = io_queue();
        struct bench *b;

        cfg.send_wrs = s->room ? 64 : 4;
        b = bench_new(cfg);
        for (uint16_t cid = 10; !s->room && cid < 14; cid++)
                flush(b, cid);
        if (s->buffers_max > 0)
                read_of(b, 20, 32768, 512);
        b->buffers_max = s->buffers_max;
        b->hold = s->hold;
        watch(b, 1);
        s->send(b);
        if (s->posted)
                post(b);
        for (unsigned n = 0; n < s->completed; n++)
                complete_one(b);
        return b;
}

static void reached(const struct stage *s, const struct bench *b)
{

        if (b->path[b->path_len - 1] != letter(s->state))
                fail_msg("%s: %s", s->what, b->path);
}

static void end_at_each_stage(void **state)
{
        (void)state;
        for (size_t i = 0; i < COUNT(stages) * 2; i++) {
                const struct stage *s = &stages[i / 2];
                struct bench *b = at_stage(s);
                union sqe sqe = command(NVME_FLUSH, 100, 0, 0);
                unsigned before = b->responses;

                reached(s, b);
                for (unsigned n = 0; i % 2 && n < b->n_posted; n++)
                        assert_true(tell(b, b->posted[n], VERBS_FLUSHED));
                rdma_controller_end(b->c);
                rdma_controller_end(b->c); /* nothing more */
                assert_int_equal(b->path[b->path_len - 1], s->hold ? 'x' : 'D');
                assert_int_equal(b->buffers, s->hold && s->completed);
                assert_false(rdma_controller_wants_post(b->c));
                assert_int_equal(post(b), 0);
                requests_buffers(rdma_requests(b->c));
                assert_false(requests_need_buffers(rdma_requests(b->c)));
                while (b->n_posted > 0) { /* later than it should be */
                        struct verbs_wr *wr = unpost(b, 0);

                        assert_false(tell(b, wr, VERBS_SUCCESS));
                        assert_true(tell(b, wr, VERBS_FLUSHED));
                        assert_false(tell(b, wr, VERBS_SUCCESS));
                }
                assert_false(capsule(b, &sqe, NULL, 0, 64));
                assert_int_equal(b->recvs_out, 0);
                assert_int_equal(requests_executing(rdma_requests(b->c)), s->hold);
                assert_int_equal(requests_find(rdma_requests(b->c), 1) != NULL, s->hold);
                finish_held(b);
                assert_int_equal(requests_executing(rdma_requests(b->c)), 0);
                assert_int_equal(b->path[b->path_len - 1], 'D');
                assert_int_equal(post(b), 0);
                assert_int_equal(b->responses, before);
                bench_free(b);
        }
}

/* Without end(): whatever it holds goes back as well. */
static void free_at_each_stage(void **state)
{
        (void)state;
        for (size_t i = 0; i < COUNT(stages); i++) {
                struct bench *b = at_stage(&stages[i]);

                finish_held(b);
                rdma_controller_free(b->c);
                assert_int_equal(b->buffers, 0);
                for (unsigned n = 0; n < RECVS; n++)
                        free(b->slot[n]);
                free(b);
        }
        rdma_controller_free(NULL);
}

/* --- Abort ------------------------------------------------------------------------------------ */

static void abort_at_each_stage(void **state)
{
        (void)state;
        for (size_t i = 0; i < COUNT(stages); i++) {
                const struct stage *s = &stages[i];
                struct bench *b = at_stage(s);
                struct request *r = requests_find(rdma_requests(b->c), 1);
                bool early = s->state < REQUEST_EXECUTING;
                unsigned executed = b->executed;

                if (!r) { /* the answer is out */
                        assert_true(s->state > REQUEST_READY_TO_COMPLETE);
                        settle(b);
                        bench_free(b);
                        continue;
                }
                assert_int_equal(r->state, s->state);
                if (s->hold)
                        b->n_held = 0;
                if (s->state <= REQUEST_EXECUTING)
                        r->cqe.sf = status_field(NVME_ABORT_REQUESTED);
                request_complete(r);
                if (s->state == REQUEST_TRANSFERRING_H2C && s->posted)
                        assert_int_equal(post(b), 0); /* no answer before its READs are in */
                settle(b);
                if (early)
                        assert_int_equal(b->executed, executed);
                for (unsigned n = 0; n < b->responses; n++)
                        if (le16_get(b->response[n].cqe.cid) == 1)
                                assert_int_equal(cqe_status(&b->response[n].cqe),
                                                 early || s->hold ? NVME_ABORT_REQUESTED : 0);
                assert_null(requests_find(rdma_requests(b->c), 1));
                assert_int_equal(b->buffers, 0);
                bench_free(b);
        }
}

/* Some of its READs are out, some are not: only those that are out are waited for. */
static void abort_half_fetched(void **state)
{
        struct rdma_controller_config cfg = io_queue();
        struct bench *b;
        struct request *r;

        (void)state;
        cfg.reads = 2;
        b = bench_new(cfg);
        send_parts(b, NVME_WRITE, 1, 0, 4096, 8);
        write_of(b, 2, 8192, 512);
        assert_int_equal(post(b), 2);
        complete_one(b);
        assert_int_equal(post(b), 1);
        r = requests_find(rdma_requests(b->c), 1);
        assert_int_equal(r->state, REQUEST_H2C_PENDING);
        r->cqe.sf = status_field(NVME_ABORT_REQUESTED);
        request_complete(r);
        request_complete(r); /* says nothing new */
        complete_one(b);
        assert_int_equal(post(b), 1); /* the other command's */
        complete_one(b);
        assert_int_equal(post(b), 1);
        assert_int_equal(b->executed, 0);
        settle(b);
        assert_int_equal(b->responses, 2);
        assert_int_equal(cqe_status(&b->response[0].cqe), NVME_ABORT_REQUESTED);
        expect_response(b, 2, 0);
        assert_int_equal(b->executed, 1);
        bench_free(b);
}

/* --- broken on request ------------------------------------------------------------------------ */

static struct bench *violating(enum rule_id rule, struct rdma_controller_config cfg)
{
        struct bench *b = calloc(1, sizeof(*b));

        rule_add(&b->policy.violated, rule);
        bench_init(b, cfg);
        return b;
}

static unsigned ops_in(const struct bench *b, char *out)
{
        static const char letters[] = { [VERBS_SEND] = 'S',
                                        [VERBS_SEND_INVALIDATE] = 'I',
                                        [VERBS_READ] = 'R',
                                        [VERBS_WRITE] = 'W' };

        for (unsigned i = 0; i < b->n_posted; i++)
                out[i] = letters[b->posted[i]->op];
        out[b->n_posted] = '\0';
        return b->n_posted;
}

static void violations(void **state)
{
        static const struct {
                enum rule_id rule;
                uint8_t opc;
                bool ask;        /* for invalidation */
                const char *ops; /* posted for it, then (after /) once these are done */
                unsigned responses;
        } rows[] = {
                { FAB_ANSWERED, NVME_FLUSH, 0, "/", 0 },
                { FAB_ANSWERED, NVME_READ, 0, "WWS/", 1 },
                { RDMA_WRITE_BEFORE, NVME_READ, 0, "SWW/", 1 },
                { RDMA_WRITE_BEFORE, NVME_WRITE, 0, "RR/S", 1 },
                { RDMA_WRITE_BEFORE, NVME_FLUSH, 0, "S/", 1 },
                { RDMA_INV_EARLY, NVME_READ, 1, "IWW/", 1 },
                { RDMA_INV_UNASKED, NVME_READ, 0, "WWI/", 1 },
                { RDMA_INV_KEY, NVME_WRITE, 1, "RR/I", 1 },
                { RDMA_READ_DIR, NVME_READ, 0, "WRS/", 1 },
                { RDMA_WRITE_DIR, NVME_WRITE, 0, "RW/S", 1 },
                { RDMA_WRITE_WHOLE, NVME_READ, 0, "WS/", 1 },
                { RDMA_READ_WHOLE, NVME_WRITE, 0, "R/S", 1 },
        };

        (void)state;
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct bench *b = violating(rows[i].rule, io_queue());
                struct rdma_buffer list[2] = { region(b, 0, 508), region(b, 1024, 4) };
                char got[16];

                list[1].invalidate = rows[i].ask;
                if (rows[i].opc == NVME_FLUSH)
                        flush(b, 1);
                else
                        send_list(b, command(rows[i].opc, 1, 512, 0), list, 2);
                post(b);
                ops_in(b, got);
                strcat(got, "/");
                for (unsigned n = b->n_posted; n > 0; n--)
                        complete_one(b);
                post(b);
                ops_in(b, got + strlen(got));
                if (strcmp(got, rows[i].ops) != 0)
                        fail_msg("row %zu: %s, not %s", i, got, rows[i].ops);
                settle(b);
                assert_int_equal(b->responses, rows[i].responses);
                assert_int_equal(b->buffers, 0);
                assert_null(requests_find(rdma_requests(b->c), 1));
                bench_free(b);
        }
}

/* All of what a command fetches is left out, and it goes on. */
static void nothing_fetched(void **state)
{
        struct bench *b = violating(RDMA_READ_WHOLE, io_queue());

        (void)state;
        write_of(b, 1, 0, 4);
        settle(b);
        expect_response(b, 1, 0);
        bench_free(b);
}

static void read_limit_ignored(void **state)
{
        struct rdma_controller_config cfg = io_queue();
        struct bench *b;

        (void)state;
        cfg.reads = 1;
        b = violating(RDMA_READ_LIMIT, cfg);
        send_parts(b, NVME_WRITE, 1, 0, 4096, 8);
        assert_int_equal(post(b), 8);
        settle(b);
        expect_response(b, 1, 0);
        bench_free(b);
}

static void spoilt_responses(void **state)
{
        struct bench *b = violating(RDMA_RSP_LENGTH, io_queue());

        (void)state;
        write_of(b, 1, 0, 512);
        settle(b);
        assert_true(last_response(b)->len < sizeof(struct cqe));
        flush(b, 2);
        settle(b);
        expect_response(b, 2, 0);
        bench_free(b);
        b = violating(FAB_CQE_ZERO, io_queue()); /* no rule of a transport */
        write_of(b, 1, 0, 512);
        read_of(b, 2, 0, 512);
        settle(b);
        assert_true(le64_get(b->response[0].cqe.result) || le64_get(b->response[1].cqe.result));
        bench_free(b);
}

static void faults_of_the_owner(void **state)
{
        struct bench *b = bench_default();

        (void)state;
        requests_set_faulty(rdma_requests(b->c), true);
        b->holds = true;
        write_of(b, 1, 0, 512);
        assert_int_equal(post(b), 0);
        assert_int_equal(b->kept->state, REQUEST_H2C_PENDING);
        request_fetch(b->kept);
        settle(b);
        expect_response(b, 1, 0);
        read_of(b, 2, 0, 512);
        settle(b);
        expect_response(b, 2, 0);
        assert_int_equal(b->transfers, 2);
        assert_int_equal(b->heads, 2);
        b->skips = true;
        b->holds = false;
        memset(b->host, 0, 512);
        read_of(b, 3, 0, 512);
        settle(b);
        expect_response(b, 3, 0);
        assert_int_equal(b->host[7], 0);
        write_of(b, 4, 0, 512); /* nothing is fetched */
        settle(b);
        expect_response(b, 4, 0);
        b->loses = true;
        flush(b, 5);
        settle(b);
        assert_int_equal(b->responses, 4);
        assert_null(requests_find(rdma_requests(b->c), 5));
        b->holds = true;
        write_of(b, 6, 0, 512); /* it ends with the connection */
        requests_set_faulty(rdma_requests(b->c), false);
        flush(b, 7);
        settle(b);
        expect_response(b, 7, 0);
        bench_free(b);
}

/* --- out of memory ---------------------------------------------------------------------------- */

static void a_day(struct bench *b)
{
        for (uint16_t round = 0; round < 3; round++) {
                for (uint16_t cid = 0; cid < 12; cid++)
                        send_parts(b, cid % 2 ? NVME_WRITE : NVME_READ, cid, cid * 4096u, 4096,
                                   cid % 4 + 1u);
                settle(b);
        }
}

static void out_of_memory(void **state)
{
        (void)state;
        for (int from_memory = 0; from_memory < 2; from_memory++)
                for (unsigned n = 1, done = 0; !done; n++) {
                        struct rdma_controller_config cfg = io_queue();
                        struct bench *b = calloc(1, sizeof(*b));

                        cfg.inline_bytes = from_memory ? 0 : 16;
                        allocations_left = n;
                        if (bench_try(b, cfg)) {
                                requests_set_depth(rdma_requests(b->c), DEPTH);
                                a_day(b);
                                done = allocations_left > 0;
                                allocations_left = 0;
                                assert_int_equal(b->responses, 36);
                                for (unsigned i = 0; i < b->responses; i++) {
                                        uint16_t s = cqe_status(&b->response[i].cqe);

                                        assert_true(s == 0 || s == NVME_INTERNAL_ERROR);
                                }
                                bench_close(b);
                        }
                        allocations_left = 0;
                        assert_int_equal(b->memories, 0);
                        free(b);
                        assert_true(n < 200);
                }
}

/* More than can be kept track of wait, in order, and go on when others have ended. */
static void stalled(void **state)
{
        struct rdma_controller_config cfg = io_queue();
        struct bench *b = calloc(1, sizeof(*b));

        (void)state;
        cfg.depth = 4;
        cfg.send_wrs = 4;
        rule_add(&b->policy.waived, FAB_OVERRUN);
        bench_init(b, cfg);
        b->hold = true;
        for (uint16_t cid = 0; cid < 20; cid++)
                flush(b, cid);
        assert_int_equal(b->n_held, 8);
        assert_int_equal(b->recvs_out, 12);
        assert_int_equal(post(b), 0);
        assert_int_equal(b->n_held, 8);
        for (unsigned i = 0; i < 3; i++)
                b->held[i]->no_response = true;
        for (unsigned i = 0; i < 3; i++) {
                run(b, b->held[i]);
                request_complete(b->held[i]);
        }
        memmove(b->held, b->held + 3, 5 * sizeof(b->held[0]));
        b->n_held -= 3;
        assert_true(rdma_controller_wants_post(b->c));
        flush(b, 20); /* there is room now, but others came first */
        assert_int_equal(post(b), 0);
        assert_int_equal(b->n_held, 8);
        assert_int_equal(b->recvs_out, 10);
        for (unsigned i = 0; i < 8; i++)
                assert_int_equal(le16_get(b->held[i]->sqe.cid), i + 3);
        finish_held(b);
        b->hold = false;
        settle(b);
        assert_int_equal(b->responses, 18);
        assert_int_equal(b->recvs_out, 0);
        for (unsigned i = 0; i < b->responses; i++)
                assert_int_equal(le16_get(b->response[i].cqe.cid), i + 3);
        b->hold = true;
        for (uint16_t cid = 0; cid < 20; cid++)
                flush(b, cid);
        assert_int_equal(b->recvs_out, 12); /* that go back at the end */
        bench_free(b);
}

/* --- any order -------------------------------------------------------------------------------- */

static void random_command(struct bench *b)
{
        uint16_t cid = (uint16_t)chance(b, DEPTH - 1);
        unsigned parts = 1 + chance(b, 4), len = 4 * (1 + chance(b, 128)), what = chance(b, 5);

        if (requests_find(rdma_requests(b->c), cid) || b->recvs_out > RECVS / 2)
                return;
        if (what == 0)
                flush(b, cid);
        else if (what == 1)
                send_in_capsule(b, NVME_WRITE, cid, 0, len, len, 64 + len);
        else
                send_parts(b, what < 4 ? NVME_READ : NVME_WRITE, cid, cid * 2048u, len, parts);
}

static void random_complete(struct bench *b)
{
        struct request *r;
        unsigned i;

        if (b->n_held == 0)
                return;
        i = chance(b, b->n_held);
        r = b->held[i];
        b->held[i] = b->held[--b->n_held];
        run(b, r);
        request_complete(r);
}

static void random_abort(struct bench *b)
{
        struct request *r = requests_find(rdma_requests(b->c), (uint16_t)chance(b, DEPTH - 1));

        if (r && r->state < REQUEST_EXECUTING) {
                r->cqe.sf = status_field(NVME_ABORT_REQUESTED);
                request_complete(r);
        }
}

static void random_step(struct bench *b, bool *failed)
{
        b->hold = chance(b, 2);
        switch (chance(b, 8)) {
        case 0:
        case 1:
        case 2:
                random_command(b);
                break;
        case 3:
                post(b);
                break;
        case 4:
                random_complete(b);
                break;
        case 5:
                b->buffers_max = chance(b, 2) ? 0 : b->buffers;
                requests_buffers(rdma_requests(b->c));
                break;
        case 6:
                if (chance(b, 4) == 0)
                        random_abort(b);
                break;
        default:
                if (b->n_posted == 0)
                        break;
                if (*failed || chance(b, 60) == 0) {
                        *failed = true;
                        tell(b, unpost(b, chance(b, b->n_posted)),
                             chance(b, 3) ? VERBS_FLUSHED : VERBS_REMOTE_ACCESS);
                } else {
                        complete_one(b);
                }
        }
}

/* Everything is answered once, or ends with the connection; nothing stays behind. */
static void any_order(void **state)
{
        unsigned answered = 0, broken = 0;

        (void)state;
        for (unsigned seed = 1; seed <= SCHEDULES; seed++) {
                struct bench *b = calloc(1, sizeof(*b));
                struct rdma_controller_config cfg = io_queue();
                bool failed = false;

                b->seed = seed;
                cfg.send_wrs = 5 + chance(b, 30);
                cfg.reads = 1 + chance(b, 6);
                cfg.inline_bytes = chance(b, 2) * 16;
                bench_init(b, cfg);
                for (unsigned n = 30 + chance(b, 200); n > 0 && b->responses < POSTED - 64; n--)
                        random_step(b, &failed);
                if (!failed && chance(b, 2)) {
                        b->buffers_max = 0;
                        b->hold = false;
                        do {
                                requests_buffers(rdma_requests(b->c));
                                finish_held(b);
                                settle(b);
                        } while (b->n_held > 0 || requests_need_buffers(rdma_requests(b->c)));
                        for (uint16_t cid = 0; cid < DEPTH; cid++)
                                assert_null(requests_find(rdma_requests(b->c), cid));
                        assert_int_equal(b->buffers, 0);
                }
                answered += b->responses;
                broken += failed;
                bench_free(b);
        }
        assert_true(answered > 10 * SCHEDULES);
        assert_true(broken > SCHEDULES / 20);
}

int main(void)
{
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(paths),
                cmocka_unit_test(data_arrives),
                cmocka_unit_test(unequal_parts),
                cmocka_unit_test(short_answers),
                cmocka_unit_test(one_chain),
                cmocka_unit_test(limits),
                cmocka_unit_test(priorities),
                cmocka_unit_test(in_capsule),
                cmocka_unit_test(in_place_is_given_back),
                cmocka_unit_test(short_sgl_waived),
                cmocka_unit_test(connect_in_capsule),
                cmocka_unit_test(invalidation),
                cmocka_unit_test(statuses),
                cmocka_unit_test(too_long_a_list),
                cmocka_unit_test(owner_sets_status),
                cmocka_unit_test(no_response),
                cmocka_unit_test(a_reset_ends_what_waits),
                cmocka_unit_test(responses_from_memory),
                cmocka_unit_test(host_faults),
                cmocka_unit_test(same_cid_again),
                cmocka_unit_test(host_is_faster),
                cmocka_unit_test(flow_control),
                cmocka_unit_test(depth_of_connect),
                cmocka_unit_test(buffers_in_order),
                cmocka_unit_test(errors),
                cmocka_unit_test(after_an_error),
                cmocka_unit_test(end_at_each_stage),
                cmocka_unit_test(free_at_each_stage),
                cmocka_unit_test(abort_at_each_stage),
                cmocka_unit_test(abort_half_fetched),
                cmocka_unit_test(violations),
                cmocka_unit_test(nothing_fetched),
                cmocka_unit_test(read_limit_ignored),
                cmocka_unit_test(spoilt_responses),
                cmocka_unit_test(faults_of_the_owner),
                cmocka_unit_test(out_of_memory),
                cmocka_unit_test(stalled),
                cmocka_unit_test(any_order),
        };

        return cmocka_run_group_tests_name("rdma_controller", tests, NULL, NULL);
}
