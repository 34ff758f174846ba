/* SPDX-License-Identifier: BSD-3-Clause */
/* The RDMA host against completions made by hand, right and wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/nvme/rdma/rdma_host.h" /* before cmocka, whose fail() is a macro */
#include "pdu/nvme/wire/fabrics.h"

#include <cmocka.h>

enum {
        DEPTH = 5, /* no power of two: CIDs have room that no slot has */
        IN_CAPSULE = 4096,
        SLOT_LKEY = 0x111,
        LKEY = 0x222,
        RKEY = 0x333,
        COMMANDS = 8,
};

struct bench {
        struct rdma_host *host;
        struct rdma_host_config cfg;
        struct rule_policy policy;
        bool no_memory;
        unsigned memories; /* handed out */
        struct host_cmd cmd[COMMANDS];
        unsigned done[COMMANDS];
        struct host_cmd *next;        /* submitted from within done() */
        uint8_t data[4 * IN_CAPSULE]; /* registered */
        uint8_t other[2 * IN_CAPSULE];
        struct verbs_wr *recv[DEPTH + 1]; /* posted, oldest first */
        unsigned recvs;
};

static void *memory(void *user, size_t bytes, uint32_t *lkey)
{
        struct bench *b = user;

        if (b->no_memory)
                return NULL;
        b->memories++;
        *lkey = SLOT_LKEY;
        return malloc(bytes);
}

static void memory_put(void *user, void *p, size_t bytes)
{
        struct bench *b = user;

        assert_true(bytes > 0);
        b->memories--;
        free(p);
}

static bool data_keys(void *user, const void *data, uint32_t len, uint32_t *lkey, uint32_t *rkey)
{
        struct bench *b = user;
        const uint8_t *p = data;

        *lkey = LKEY;
        *rkey = RKEY;
        return p >= b->data && p + len <= b->data + sizeof(b->data);
}

static const struct rdma_host_ops ops = { memory, memory_put, data_keys };

static void bench_new(struct bench *b, struct rdma_host_config cfg)
{
        memset(b, 0, sizeof(*b));
        b->cfg = cfg;
        b->cfg.policy = &b->policy;
        b->host = rdma_host_new(&b->cfg, &ops, b);
        assert_non_null(b->host);
}

/* Queues up what the machine wants posted; how many. */
static unsigned post_recvs(struct bench *b)
{
        unsigned before = b->recvs;

        for (struct verbs_wr *wr = rdma_host_take_recvs(b->host); wr; wr = wr->next) {
                assert_int_equal(wr->op, VERBS_RECV);
                assert_int_equal(wr->n_sge, 1);
                assert_int_equal(wr->sge[0].lkey, SLOT_LKEY);
                assert_true(wr->sge[0].len >= sizeof(struct cqe));
                assert_true(b->recvs < DEPTH + 1);
                b->recv[b->recvs++] = wr;
        }
        return b->recvs - before;
}

static void bench_init(struct bench *b)
{
        bench_new(b, (struct rdma_host_config) { .qid = 1,
                                                 .depth = DEPTH,
                                                 .in_capsule = IN_CAPSULE,
                                                 .capsule_max = 64 + IN_CAPSULE });
        assert_int_equal(post_recvs(b), DEPTH + 1);
}

static void bench_fini(struct bench *b)
{
        rdma_host_fail_all(b->host, NVME_ABORT_SQ_DELETED);
        assert_int_equal(rdma_host_outstanding(b->host), 0);
        rdma_host_free(b->host);
        assert_int_equal(b->memories, 0);
}

static void done(struct host_cmd *cmd, void *user)
{
        struct bench *b = user;

        b->done[cmd - b->cmd]++;
        if (b->next) {
                struct host_cmd *next = b->next;

                b->next = NULL;
                assert_int_equal(rdma_host_submit(b->host, next), 0);
        }
}

static struct host_cmd *command(struct bench *b, unsigned i, uint8_t opc, uint8_t *data,
                                uint32_t len)
{
        b->done[i] = 0;
        b->cmd[i] = (struct host_cmd) { .sqe = { .opc = opc, .nsid = le32(1) },
                                        .data = data,
                                        .len = len,
                                        .done = done,
                                        .user = b };
        b->cmd[i].xfer = len ? sqe_xfer(&b->cmd[i].sqe) : XFER_NONE;
        return &b->cmd[i];
}

/* Submits it alone; its SEND. */
static struct verbs_wr *send(struct bench *b, struct host_cmd *cmd)
{
        struct verbs_wr *wr;

        post_recvs(b);
        assert_false(rdma_host_wants_post(b->host));
        assert_int_equal(rdma_host_submit(b->host, cmd), 0);
        assert_true(rdma_host_wants_post(b->host));
        wr = rdma_host_take(b->host);
        assert_non_null(wr);
        assert_null(wr->next);
        assert_int_equal(wr->op, VERBS_SEND);
        return wr;
}

static const union sqe *capsule(const struct verbs_wr *wr)
{
        return wr->sge[0].addr;
}

/* Who is not signaled says nothing. */
static bool sent(struct bench *b, struct verbs_wr *wr)
{
        return wr->flags & VERBS_SIGNALED &&
               rdma_host_completed(b->host, &(struct verbs_wc) { .wr = wr });
}

/* The oldest receive completes with these bytes. */
static bool answer_with(struct bench *b, const void *bytes, uint32_t len, struct verbs_wc wc)
{
        assert_true(b->recvs > 0);
        wc.wr = b->recv[0];
        wc.bytes = len;
        assert_true(len <= wc.wr->sge[0].len);
        memcpy(wc.wr->sge[0].addr, bytes, len);
        memmove(b->recv, b->recv + 1, --b->recvs * sizeof(b->recv[0]));
        return rdma_host_completed(b->host, &wc);
}

static bool answer_cid(struct bench *b, uint16_t cid, uint16_t status)
{
        struct cqe cqe = { .cid = le16(cid), .sf = status_field(status) };

        return answer_with(b, &cqe, sizeof(cqe), (struct verbs_wc) { 0 });
}

static bool answer(struct bench *b, const struct host_cmd *cmd, uint16_t status)
{
        return answer_cid(b, le16_get(cmd->sqe.cid), status);
}

static void waive(struct bench *b, enum rule_id rule)
{
        rule_add(&b->policy.waived, rule);
}

/* --- capsules --------------------------------------------------------------------------------- */

static void assert_keyed(const union sqe *sqe, const void *data, uint32_t len, uint32_t key)
{
        struct rdma_buffer buffer;

        assert_true(sgl_get_keyed(&sqe->sgl, &buffer));
        assert_int_equal(buffer.addr, (uintptr_t)data);
        assert_int_equal(buffer.len, len);
        assert_int_equal(buffer.key, key);
        assert_false(buffer.invalidate);
}

static void no_data(void **state)
{
        struct bench b;
        struct verbs_wr *wr;

        (void)state;
        bench_init(&b);
        wr = send(&b, command(&b, 0, NVME_FLUSH, NULL, 0));
        assert_int_equal(wr->n_sge, 1);
        assert_int_equal(wr->sge[0].len, 64);
        assert_int_equal(wr->sge[0].lkey, SLOT_LKEY);
        assert_int_equal(wr->flags & VERBS_INLINE, 0);
        assert_int_equal(capsule(wr)->flags & SQE_PSDT_MASK, SQE_PSDT_SGL);
        assert_keyed(capsule(wr), NULL, 0, 0);
        assert_memory_equal(capsule(wr), &b.cmd[0].sqe, 64);
        assert_false(sent(&b, wr));
        assert_false(answer(&b, &b.cmd[0], NVME_WRITE_FAULT | STATUS_DNR));
        assert_int_equal(b.done[0], 1);
        assert_int_equal(b.cmd[0].status, NVME_WRITE_FAULT);
        bench_fini(&b);
}

static void read_goes_to_the_key(void **state)
{
        struct bench b;
        struct verbs_wr *wr;

        (void)state;
        bench_init(&b);
        wr = send(&b, command(&b, 0, NVME_READ, b.data + 512, 1024));
        assert_int_equal(wr->n_sge, 1);
        assert_keyed(capsule(wr), b.data + 512, 1024, RKEY);
        assert_false(sent(&b, wr));
        assert_int_equal(b.done[0], 0);
        assert_false(answer(&b, &b.cmd[0], 0));
        assert_int_equal(b.done[0], 1);
        assert_int_equal(b.cmd[0].got, 1024);
        assert_int_equal(b.cmd[0].status, 0);

        wr = send(&b, command(&b, 0, NVME_READ, b.data, 512));
        assert_false(sent(&b, wr));
        assert_false(answer(&b, &b.cmd[0], NVME_LBA_RANGE));
        assert_int_equal(b.cmd[0].got, 0);
        assert_int_equal(b.cmd[0].status, NVME_LBA_RANGE);
        bench_fini(&b);
}

static void write_in_capsule(void **state)
{
        struct bench b;
        struct verbs_wr *wr;

        (void)state;
        bench_init(&b);
        wr = send(&b, command(&b, 0, NVME_WRITE, b.data, IN_CAPSULE));
        assert_int_equal(capsule(wr)->sgl.id, SGL_IN_CAPSULE);
        assert_int_equal(le64_get(capsule(wr)->sgl.addr), 0);
        assert_int_equal(le32_get(capsule(wr)->sgl.len), IN_CAPSULE);
        assert_int_equal(wr->n_sge, 2); /* not copied */
        assert_int_equal(wr->sge[0].len, 64);
        assert_ptr_equal(wr->sge[1].addr, b.data);
        assert_int_equal(wr->sge[1].len, IN_CAPSULE);
        assert_int_equal(wr->sge[1].lkey, LKEY);

        memset(b.other, 0x5a, sizeof(b.other)); /* in no registered memory: copied */
        wr = send(&b, command(&b, 1, NVME_WRITE, b.other, 512));
        assert_int_equal(wr->n_sge, 1);
        assert_int_equal(wr->sge[0].len, 64 + 512);
        assert_int_equal(wr->sge[0].lkey, SLOT_LKEY);
        assert_memory_equal((uint8_t *)wr->sge[0].addr + 64, b.other, 512);
        bench_fini(&b);
}

static void in_capsule_offset(void **state)
{
        static const uint8_t zeroes[32];
        struct bench b;
        struct verbs_wr *wr;

        (void)state;
        bench_init(&b);
        rdma_host_set_in_capsule(b.host, 512, 2);
        wr = send(&b, command(&b, 0, NVME_WRITE, b.data, 512));
        assert_int_equal(wr->n_sge, 2);
        assert_int_equal(wr->sge[0].len, 64 + 32);
        assert_memory_equal((uint8_t *)wr->sge[0].addr + 64, zeroes, 32);
        assert_int_equal(le64_get(capsule(wr)->sgl.addr), 0);
        wr = send(&b, command(&b, 1, NVME_WRITE, b.other, 512));
        assert_int_equal(wr->sge[0].len, 64 + 32 + 512);
        bench_fini(&b);
}

static void room_in_capsule(void **state)
{
        static const struct {
                uint32_t bytes;
                uint16_t icdoff;
                uint32_t len;
                bool registered, in_capsule;
        } cases[] = {
                { IN_CAPSULE, 0, IN_CAPSULE, true, true },
                { 512, 0, 513, true, false },
                { 2 * IN_CAPSULE, 0, 2 * IN_CAPSULE, true, true }, /* the slot need not hold it */
                { 2 * IN_CAPSULE, 0, IN_CAPSULE, false, true },
                { IN_CAPSULE, 1, IN_CAPSULE, true, true },
                { IN_CAPSULE, 1, IN_CAPSULE - 16, false, true },
                { IN_CAPSULE, IN_CAPSULE / 16, 16, true, true },
                { IN_CAPSULE, IN_CAPSULE / 16 + 1, 16, true, false },
                { IN_CAPSULE, 0xffff, 1, true, false },
                { 0, 0, 1, true, false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct bench b;
                struct verbs_wr *wr;

                bench_init(&b);
                rdma_host_set_in_capsule(b.host, cases[i].bytes, cases[i].icdoff);
                wr = send(&b, command(&b, 0, NVME_WRITE, cases[i].registered ? b.data : b.other,
                                      cases[i].len));
                assert_int_equal(capsule(wr)->sgl.id == SGL_IN_CAPSULE, cases[i].in_capsule);
                if (!cases[i].in_capsule)
                        assert_keyed(capsule(wr), b.data, cases[i].len, RKEY);
                bench_fini(&b);
        }
}

static void keyed_where_asked(void **state)
{
        struct bench b;
        struct host_cmd *cmd;

        (void)state;
        bench_init(&b);
        cmd = command(&b, 0, NVME_WRITE, b.data, 512);
        cmd->command_buffer = true;
        assert_keyed(capsule(send(&b, cmd)), b.data, 512, RKEY);
        cmd = command(&b, 1, NVME_FABRICS, b.data, 1024); /* 64 bytes also on I/O queues */
        cmd->sqe.connect.fctype = FCTYPE_CONNECT;
        cmd->xfer = XFER_H2C;
        assert_keyed(capsule(send(&b, cmd)), b.data, 1024, RKEY);
        bench_fini(&b);
}

static void inline_sends(void **state)
{
        struct bench b;

        (void)state;
        bench_new(&b, (struct rdma_host_config) { .depth = DEPTH,
                                                  .in_capsule = IN_CAPSULE,
                                                  .capsule_max = 64 + IN_CAPSULE,
                                                  .inline_bytes = 64 + 512 });
        post_recvs(&b);
        assert_true(send(&b, command(&b, 0, NVME_FLUSH, NULL, 0))->flags & VERBS_INLINE);
        assert_true(send(&b, command(&b, 1, NVME_WRITE, b.data, 512))->flags & VERBS_INLINE);
        assert_false(send(&b, command(&b, 2, NVME_WRITE, b.data, 516))->flags & VERBS_INLINE);
        bench_fini(&b);
}

static void refused(void **state)
{
        struct bench b;
        struct host_cmd *cmd;

        (void)state;
        bench_init(&b);
        assert_int_equal(rdma_host_submit(b.host, command(&b, 0, NVME_READ, b.other, 512)), -1);
        assert_int_equal(
            rdma_host_submit(b.host, command(&b, 0, NVME_WRITE, b.other, IN_CAPSULE + 1)), -1);
        rdma_host_set_in_capsule(b.host, IN_CAPSULE, 1); /* its slot has no room for it */
        assert_int_equal(rdma_host_submit(b.host, command(&b, 0, NVME_WRITE, b.other, IN_CAPSULE)),
                         -1);
        cmd = command(&b, 0, NVME_WRITE, b.other, 512);
        cmd->command_buffer = true;
        assert_int_equal(rdma_host_submit(b.host, cmd), -1);
        assert_false(rdma_host_wants_post(b.host));
        assert_int_equal(rdma_host_outstanding(b.host), 0);
        bench_fini(&b);
}

static bool all_registered(void *user, const void *data, uint32_t len, uint32_t *lkey,
                           uint32_t *rkey)
{
        (void)user;
        (void)data;
        (void)len;
        *lkey = LKEY;
        *rkey = RKEY;
        return true;
}

static void longest(void **state)
{
        struct rdma_host_ops all = ops;
        struct bench b = { .cfg = { .depth = 1 } };

        (void)state;
        all.data_keys = all_registered;
        b.host = rdma_host_new(&b.cfg, &all, &b);
        rdma_host_take_recvs(b.host);
        assert_int_equal(
            rdma_host_submit(b.host, command(&b, 0, NVME_READ, b.data, SGL_KEYED_MAX + 1)), -1);
        assert_keyed(capsule(send(&b, command(&b, 0, NVME_READ, b.data, SGL_KEYED_MAX))), b.data,
                     SGL_KEYED_MAX, RKEY);
        bench_fini(&b);
}

/* --- slots and receives ----------------------------------------------------------------------- */

static void as_many_as_depth(void **state)
{
        struct bench b;
        struct verbs_wr *wr;
        unsigned n = 0;

        (void)state;
        bench_init(&b);
        for (unsigned i = 0; i < DEPTH; i++)
                assert_int_equal(rdma_host_submit(b.host, command(&b, i, NVME_FLUSH, NULL, 0)), 0);
        assert_int_equal(rdma_host_outstanding(b.host), DEPTH);
        assert_int_equal(rdma_host_submit(b.host, command(&b, 6, NVME_FLUSH, NULL, 0)), -1);
        for (unsigned i = 0; i < DEPTH; i++)
                for (unsigned j = 0; j < i; j++)
                        assert_int_not_equal(le16_get(b.cmd[i].sqe.cid),
                                             le16_get(b.cmd[j].sqe.cid));
        for (wr = rdma_host_take(b.host); wr; wr = wr->next, n++) /* one chain, in order */
                assert_memory_equal(capsule(wr), &b.cmd[n].sqe, 64);
        assert_int_equal(n, DEPTH);
        assert_null(rdma_host_take(b.host));
        bench_fini(&b);
        for (unsigned i = 0; i < DEPTH; i++) {
                assert_int_equal(b.done[i], 1);
                assert_int_equal(b.cmd[i].status, NVME_ABORT_SQ_DELETED);
        }
}

static void receives_come_back(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b);
        for (unsigned round = 0; round < 3; round++) {
                for (unsigned i = 0; i < DEPTH; i++) /* a SEND needs no answer to complete */
                        assert_false(sent(&b, send(&b, command(&b, i, NVME_FLUSH, NULL, 0))));
                for (unsigned i = 0; i < DEPTH; i++)
                        assert_false(answer(&b, &b.cmd[DEPTH - 1 - i], 0));
                assert_int_equal(post_recvs(&b), DEPTH); /* as one chain */
                for (unsigned i = 0; i < DEPTH; i++)
                        assert_int_equal(b.done[i], 1);
        }
        bench_fini(&b);
}

/* Over all generations of a slot's CID; FFFFh is never one. */
static void cids_move_on(void **state)
{
        struct bench b;
        uint16_t before = 0xffff;

        (void)state;
        bench_init(&b);
        for (unsigned i = 0; i < 0x20000; i++) {
                struct verbs_wr *wr = send(&b, command(&b, 0, NVME_FLUSH, NULL, 0));
                uint16_t cid = le16_get(b.cmd[0].sqe.cid);

                assert_int_not_equal(cid, before);
                assert_int_not_equal(cid, 0xffff);
                before = cid;
                assert_false(sent(&b, wr));
                assert_false(answer_cid(&b, cid, 0));
                post_recvs(&b);
        }
        bench_fini(&b);
}

static void response_overtakes_completion(void **state)
{
        struct bench b;
        struct verbs_wr *wr;

        (void)state;
        bench_init(&b);
        wr = send(&b, command(&b, 0, NVME_WRITE, b.data, 512));
        assert_false(answer(&b, &b.cmd[0], NVME_WRITE_FAULT));
        assert_int_equal(b.done[0], 0); /* its memory may still be sent from */
        assert_int_equal(rdma_host_outstanding(b.host), 1);
        assert_false(sent(&b, wr));
        assert_int_equal(b.done[0], 1);
        assert_int_equal(b.cmd[0].status, NVME_WRITE_FAULT);
        bench_fini(&b);
        assert_int_equal(b.done[0], 1);
}

/* A command that lends nothing ends with its response, whatever has become of its SEND. */
static void not_waited_for(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b);
        assert_false(send(&b, command(&b, 0, NVME_READ, b.data, 512))->flags & VERBS_SIGNALED);
        assert_false(answer(&b, &b.cmd[0], 0));
        assert_int_equal(b.done[0], 1);
        send(&b, command(&b, 0, NVME_WRITE, b.other, 512)); /* copied */
        assert_false(answer(&b, &b.cmd[0], 0));
        assert_int_equal(b.done[0], 1);
        assert_true(send(&b, command(&b, 0, NVME_WRITE, b.data, 512))->flags & VERBS_SIGNALED);
        assert_false(answer(&b, &b.cmd[0], 0));
        assert_int_equal(b.done[0], 0);
        bench_fini(&b);
}

/* Responses come, completions of SENDs don't: the ring does not overflow, as commands wait. */
static void completions_are_late(void **state)
{
        struct verbs_wr *out[4 * DEPTH + 4 * RDMA_HOST_SIGNAL];
        unsigned n = 0, unsignaled = 0, i;
        struct bench b;

        (void)state;
        bench_init(&b);
        do {
                out[n++] = send(&b, command(&b, 0, NVME_FLUSH, NULL, 0));
                for (i = 0; i + 1 < n; i++) /* all are the provider's still */
                        assert_ptr_not_equal(out[i], out[n - 1]);
                unsignaled = out[n - 1]->flags & VERBS_SIGNALED ? 0 : unsignaled + 1;
                assert_true(unsignaled < RDMA_HOST_SIGNAL);
                assert_false(answer(&b, &b.cmd[0], 0));
                post_recvs(&b);
        } while (b.done[0]);
        for (i = 1; i < DEPTH; i++) {
                out[n++] = send(&b, command(&b, i, NVME_FLUSH, NULL, 0));
                assert_false(answer(&b, &b.cmd[i], 0));
                assert_int_equal(b.done[i], 0);
        }
        post_recvs(&b);
        assert_true(n <= rdma_host_sends(&b.cfg));
        assert_int_equal(rdma_host_submit(b.host, command(&b, 6, NVME_FLUSH, NULL, 0)), -1);
        for (i = 0; i < n; i++)
                assert_false(sent(&b, out[i]));
        for (i = 0; i < DEPTH; i++)
                assert_int_equal(b.done[i], 1);
        assert_int_equal(rdma_host_outstanding(b.host), 0);
        bench_fini(&b);
}

static void done_submits_the_next(void **state)
{
        struct bench b;
        struct verbs_wr *wr;

        (void)state;
        bench_init(&b);
        wr = send(&b, command(&b, 0, NVME_FLUSH, NULL, 0));
        b.next = command(&b, 1, NVME_FLUSH, NULL, 0);
        assert_false(sent(&b, wr));
        assert_false(answer(&b, &b.cmd[0], 0));
        assert_int_equal(post_recvs(&b), 1); /* its receive is there before its SEND */
        wr = rdma_host_take(b.host);
        assert_memory_equal(capsule(wr), &b.cmd[1].sqe, 64);
        bench_fini(&b);
}

/* --- what a controller does wrong ------------------------------------------------------------- */

static void assert_breaks(struct bench *b, enum rule_id rule)
{
        assert_int_equal(rdma_host_fault(b->host).rule, rule);
        assert_int_equal(b->done[0], 0);
        assert_true(answer(b, &b->cmd[0], 0)); /* it is over */
        assert_int_equal(b->done[0], 0);
        bench_fini(b);
        assert_int_equal(b->done[0], 1);
        assert_int_equal(b->cmd[0].status, NVME_ABORT_SQ_DELETED);
}

static void response_length(void **state)
{
        static const uint32_t wrong[] = { 0, 1, 15, 17, 32 };
        uint8_t bytes[32] = { 0 };

        (void)state;
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                struct bench b;

                bench_init(&b);
                assert_false(sent(&b, send(&b, command(&b, 0, NVME_FLUSH, NULL, 0))));
                memcpy(bytes, &b.cmd[0].cqe, sizeof(struct cqe));
                assert_true(answer_with(&b, bytes, wrong[i], (struct verbs_wc) { 0 }));
                assert_breaks(&b, RDMA_RSP_LENGTH);
        }
}

static void response_length_waived(void **state)
{
        uint8_t bytes[32] = { 0 };
        struct bench b;

        (void)state;
        bench_init(&b);
        waive(&b, RDMA_RSP_LENGTH);
        assert_false(sent(&b, send(&b, command(&b, 0, NVME_FLUSH, NULL, 0))));
        memcpy(bytes, &b.cmd[0].cqe, sizeof(struct cqe));
        assert_false(answer_with(&b, bytes, 15, (struct verbs_wc) { 0 })); /* says nothing */
        assert_int_equal(b.done[0], 0);
        assert_false(answer_with(&b, bytes, 32, (struct verbs_wc) { 0 }));
        assert_int_equal(b.done[0], 1);
        bench_fini(&b);
}

static void unknown_cid(void **state)
{
        static const uint16_t wrong[] = { 1, DEPTH, 7, 8, 0x8000, 0xffff }; /* CID 0 is out */

        (void)state;
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                struct bench b;

                bench_init(&b);
                assert_false(sent(&b, send(&b, command(&b, 0, NVME_FLUSH, NULL, 0))));
                assert_int_equal(le16_get(b.cmd[0].sqe.cid), 0);
                assert_true(answer_cid(&b, wrong[i], 0));
                assert_breaks(&b, RDMA_RSP_CID);
        }
}

static void answered_twice(void **state)
{
        struct bench b;
        struct verbs_wr *wr;

        (void)state;
        bench_init(&b); /* while the SEND's completion is still to come, and after it */
        wr = send(&b, command(&b, 0, NVME_WRITE, b.data, 512));
        assert_false(answer(&b, &b.cmd[0], 0));
        assert_true(answer(&b, &b.cmd[0], 0));
        assert_int_equal(rdma_host_fault(b.host).rule, RDMA_RSP_CID);
        assert_true(sent(&b, wr)); /* ends the command, but the connection is past saving */
        assert_int_equal(b.done[0], 1);
        bench_fini(&b);

        bench_init(&b);
        assert_false(sent(&b, send(&b, command(&b, 0, NVME_FLUSH, NULL, 0))));
        assert_false(answer(&b, &b.cmd[0], 0));
        assert_true(answer(&b, &b.cmd[0], 0));
        assert_int_equal(rdma_host_fault(b.host).rule, RDMA_RSP_CID);
        bench_fini(&b);
        assert_int_equal(b.done[0], 1);
}

static void unknown_cid_waived(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b);
        waive(&b, RDMA_RSP_CID);
        assert_false(sent(&b, send(&b, command(&b, 0, NVME_FLUSH, NULL, 0))));
        assert_false(answer_cid(&b, 77, 0));
        assert_int_equal(b.done[0], 0);
        assert_int_equal(post_recvs(&b), 1);
        assert_false(answer(&b, &b.cmd[0], 0));
        assert_int_equal(b.done[0], 1);
        bench_fini(&b);
}

static void key_is_invalidated(void **state)
{
        struct verbs_wc wc = { .invalidated = true, .invalid_key = RKEY };
        struct bench b;

        (void)state;
        bench_init(&b);
        assert_false(sent(&b, send(&b, command(&b, 0, NVME_READ, b.data, 512))));
        assert_true(answer_with(&b, &b.cmd[0].cqe, sizeof(struct cqe), wc));
        assert_breaks(&b, RDMA_INV_UNASKED);

        bench_init(&b);
        waive(&b, RDMA_INV_UNASKED);
        assert_false(sent(&b, send(&b, command(&b, 0, NVME_READ, b.data, 512))));
        assert_false(answer_with(&b, &b.cmd[0].cqe, sizeof(struct cqe), wc));
        assert_int_equal(b.done[0], 1);
        bench_fini(&b);
}

/* --- errors of the queue pair ----------------------------------------------------------------- */

static void errors_end_it(void **state)
{
        (void)state;
        for (int status = VERBS_SUCCESS + 1; status < VERBS_STATUSES; status++) {
                struct verbs_wc wc = { .status = (enum verbs_status)status };
                struct bench b;

                bench_init(&b);
                wc.wr = send(&b, command(&b, 0, NVME_FLUSH, NULL, 0));
                assert_true(rdma_host_completed(b.host, &wc));
                assert_int_equal(b.done[0], 0);
                wc.wr = b.recv[0];
                assert_true(rdma_host_completed(b.host, &wc));
                assert_int_equal(rdma_host_fault(b.host).rule, RULE_NONE);
                assert_null(rdma_host_take_recvs(b.host)); /* not to be posted again */
                bench_fini(&b);
                assert_int_equal(b.done[0], 1);
        }
}

/* Answered, but the SEND is flushed: the response counts. */
static void flushed_after_response(void **state)
{
        struct verbs_wc flushed = { .status = VERBS_FLUSHED };
        struct bench b;

        (void)state;
        bench_init(&b);
        flushed.wr = send(&b, command(&b, 0, NVME_WRITE, b.data, 512));
        assert_false(answer(&b, &b.cmd[0], 0));
        assert_true(rdma_host_completed(b.host, &flushed));
        assert_int_equal(b.done[0], 1);
        assert_int_equal(b.cmd[0].status, 0);
        bench_fini(&b);
}

static void gives_up_all(void **state)
{
        struct bench b;

        (void)state;
        bench_init(&b);
        send(&b, command(&b, 0, NVME_FLUSH, NULL, 0));
        send(&b, command(&b, 1, NVME_WRITE, b.data, 512));
        assert_false(answer(&b, &b.cmd[1], NVME_WRITE_FAULT)); /* the SEND never completed */
        post_recvs(&b);
        assert_int_equal(rdma_host_submit(b.host, command(&b, 2, NVME_FLUSH, NULL, 0)), 0);
        rdma_host_fail_all(b.host, NVME_ABORT_SQ_DELETED);
        assert_int_equal(b.cmd[0].status, NVME_ABORT_SQ_DELETED);
        assert_int_equal(b.cmd[1].status, NVME_WRITE_FAULT);
        assert_int_equal(b.cmd[2].status, NVME_ABORT_SQ_DELETED); /* was not posted yet */
        for (unsigned i = 0; i < 3; i++)
                assert_int_equal(b.done[i], 1);
        assert_false(rdma_host_wants_post(b.host));
        assert_int_equal(rdma_host_submit(b.host, command(&b, 3, NVME_FLUSH, NULL, 0)), -1);
        bench_fini(&b);
}

/* --- rules that are broken on purpose --------------------------------------------------------- */

static void bench_violating(struct bench *b, enum rule_id rule)
{
        struct rule_policy policy = { 0 };

        rule_add(&policy.violated, rule);
        memset(b, 0, sizeof(*b));
        b->policy = policy;
        b->cfg = (struct rdma_host_config) { .qid = 1,
                                             .depth = DEPTH,
                                             .in_capsule = IN_CAPSULE,
                                             .capsule_max = 64 + IN_CAPSULE + 64,
                                             .policy = &b->policy };
        b->host = rdma_host_new(&b->cfg, &ops, b);
        assert_non_null(b->host);
}

/* Violators have the capsule as a whole, the caller's data is left alone. */
static void capsules_are_spoilt(void **state)
{
        static const struct {
                enum rule_id rule;
                uint32_t least, most;
        } cases[] = {
                { RDMA_CMD_SHORT, 0, 63 },
                { RDMA_CMD_LONG, 64 + IN_CAPSULE + 1, 64 + IN_CAPSULE + 64 },
        };
        static uint8_t before[IN_CAPSULE];

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct bench b;
                struct verbs_wr *wr;

                bench_violating(&b, cases[i].rule);
                memset(b.data, 0x77, sizeof(b.data));
                memset(before, 0x77, sizeof(before));
                wr = send(&b, command(&b, 0, NVME_WRITE, b.data, IN_CAPSULE));
                assert_int_equal(wr->n_sge, 1);
                assert_in_range(wr->sge[0].len, cases[i].least, cases[i].most);
                assert_memory_equal(b.data, before, sizeof(before));
                bench_fini(&b);
        }
}

/* A capsule that is sent twice: the command ends when both SENDs have. */
static void sent_twice(void **state)
{
        struct bench b;
        struct verbs_wr *first, *second;

        (void)state;
        bench_violating(&b, RDMA_CMD_CID);
        post_recvs(&b);
        assert_int_equal(rdma_host_submit(b.host, command(&b, 0, NVME_WRITE, b.data, 8192)), 0);
        first = rdma_host_take(b.host);
        second = first->next;
        assert_non_null(second);
        assert_null(second->next);
        assert_memory_equal(capsule(first), capsule(second), 64);
        assert_false(sent(&b, first));
        assert_false(answer(&b, &b.cmd[0], 0));
        assert_int_equal(b.done[0], 0);
        assert_false(sent(&b, second));
        assert_int_equal(b.done[0], 1);
        bench_fini(&b);
}

static void one_receive(void **state)
{
        struct bench b;

        (void)state;
        bench_violating(&b, RDMA_HOST_RECEIVES);
        assert_int_equal(post_recvs(&b), 1);
        assert_false(sent(&b, send(&b, command(&b, 0, NVME_FLUSH, NULL, 0))));
        assert_false(answer(&b, &b.cmd[0], 0));
        assert_int_equal(post_recvs(&b), 1);
        bench_fini(&b);
}

static void keys_are_not_checked(void **state)
{
        struct verbs_wc wc = { .invalidated = true, .invalid_key = RKEY };
        struct bench b;

        (void)state;
        bench_violating(&b, RDMA_HOST_KEY_CHECK);
        assert_false(sent(&b, send(&b, command(&b, 0, NVME_READ, b.data, 512))));
        assert_false(answer_with(&b, &b.cmd[0].cqe, sizeof(struct cqe), wc));
        assert_int_equal(b.done[0], 1);
        bench_fini(&b);
}

static void without_memory(void **state)
{
        struct bench b = { .cfg = { .depth = DEPTH }, .no_memory = true };

        (void)state;
        assert_null(rdma_host_new(&b.cfg, &ops, &b));
        rdma_host_free(NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(no_data),
                cmocka_unit_test(read_goes_to_the_key),
                cmocka_unit_test(write_in_capsule),
                cmocka_unit_test(in_capsule_offset),
                cmocka_unit_test(room_in_capsule),
                cmocka_unit_test(keyed_where_asked),
                cmocka_unit_test(inline_sends),
                cmocka_unit_test(refused),
                cmocka_unit_test(longest),
                cmocka_unit_test(as_many_as_depth),
                cmocka_unit_test(receives_come_back),
                cmocka_unit_test(cids_move_on),
                cmocka_unit_test(response_overtakes_completion),
                cmocka_unit_test(not_waited_for),
                cmocka_unit_test(completions_are_late),
                cmocka_unit_test(done_submits_the_next),
                cmocka_unit_test(response_length),
                cmocka_unit_test(response_length_waived),
                cmocka_unit_test(unknown_cid),
                cmocka_unit_test(answered_twice),
                cmocka_unit_test(unknown_cid_waived),
                cmocka_unit_test(key_is_invalidated),
                cmocka_unit_test(errors_end_it),
                cmocka_unit_test(flushed_after_response),
                cmocka_unit_test(gives_up_all),
                cmocka_unit_test(capsules_are_spoilt),
                cmocka_unit_test(sent_twice),
                cmocka_unit_test(one_receive),
                cmocka_unit_test(keys_are_not_checked),
                cmocka_unit_test(without_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
