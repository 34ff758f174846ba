/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host machine and controller machine, each with its life cycle and an owner that does no more than
 * it must, connected through memory (memory_verbs.h). A schedule is a number, or bytes and then a number: from it come the shape
 * of the connections, the order of all that happens, and what goes wrong when. Whatever it is,
 *
 *   - states only increase, DREQ is answered, and nothing of a queue pair is handled once it is dead
 *   - every command is called back once, what was read is what was written
 *   - neither machine ever finds fault with the other
 *   - both ends are released after so many steps, and nothing is left
 *
 * Asserts as cmocka does, by assert_true() and so on of whoever includes it.
 */
#ifndef NVMF_MACHINE_TESTS_SCHEDULE_H
#define NVMF_MACHINE_TESTS_SCHEDULE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/nvme/rdma/rdma_controller.h"
#include "pdu/nvme/rdma/rdma_host.h"
#include "pdu/nvme/rdma/spoil_rdma.h"
#include "pdu/nvme/wire/fabrics.h"
#include "pdu/verbs/memory_verbs.h"
#include "pdu/verbs/rdma_life.h"

enum {
        QUEUES = 2,
        AGAIN = 3,
        ACCEPTORS = QUEUES + AGAIN, /* old ones may take their time to end */
        ENDS = QUEUES + ACCEPTORS,
        DEPTH_MAX = 8,
        BLOCK = 128,
        BLOCKS = 16, /* of one queue's own */
        CONNECT_LEN = 1024,
        TRANSFER_MAX = 1024,
        CAPSULE_MAX = 64 + 32 + 512,
        REGIONS = 16,
        COMMANDS_MAX = 40,
        BATCH = 4,
        FAULTS = 6,
        STEPS_MAX = 20000, /* of a schedule; most need some hundreds */
};

struct world;

struct region { /* registered memory */
        uint8_t *p;
        size_t len;
        struct verbs_mr mr;
};

struct io { /* a command of the host */
        struct host_cmd cmd;
        struct end *e;
        unsigned block, blocks;
        bool busy;
        unsigned version; /* written */
};

struct end {
        struct world *w;
        bool is_host, used;
        uint16_t qid;
        struct verbs_context *c;
        struct verbs_domain *d;
        struct verbs_ep *ep;
        struct rdma_life life;
        unsigned ends, releases, states; /* seen, by bits */
        bool broken;                     /* a receive could not be posted again */
        bool held;                       /* its CM events wait */
        struct region regions[REGIONS];

        struct rdma_host *host;
        struct io io[DEPTH_MAX];
        struct region *data;
        unsigned to_issue, called_back, issued;
        bool connected, dreq_seen;
        int version[BLOCKS]; /* -1: unknown */
        bool block_busy[BLOCKS];
        unsigned versions;

        struct rdma_controller *ctrl;
        struct rdma_recv recv[DEPTH_MAX + 1];
        struct rdma_recv *kept, **kept_last; /* came before ESTABLISHED */
        struct request *executing;
        uint32_t head;
        unsigned buffers;
        uint8_t store[BLOCKS * BLOCK];
};

struct shape {
        bool srq;
        uint32_t inline_bytes, send_wrs, in_capsule;
        uint16_t depth; /* commands outstanding at most */
        uint16_t icdoff;
        uint8_t reads;
        unsigned queues, commands, buffers;
        bool established_by_capsule;
};

struct trouble {
        unsigned at; /* step */
        unsigned kind;
};

struct schedule {
        uint32_t seed;
        const uint8_t *input; /* n bytes that choose before the seed does; may be NULL */
        size_t n;
        bool loud;
        const struct rule_policy *policy; /* two, of each party; NULL: nobody departs from a rule */
        void (*tap)(void *user, const struct memory_tap_entry *e); /* user: the world; or NULL */
};

struct world {
        const struct schedule *s;
        bool lawless; /* whoever departs from a rule may be told so, and data may be anything */
        void *own;    /* the tap's */
        const uint8_t *input;
        size_t left;
        uint64_t rng;
        uint32_t seed;
        bool loud;
        struct memory_fabric *f;
        struct memory_caps caps;
        struct shape shape;
        struct verbs_context *hc, *cc;
        struct verbs_listener *listener;
        struct end end[ENDS];
        struct rdma_recv pool[2 * DEPTH_MAX]; /* of the SRQ */
        struct rdma_recv *pool_free;
        struct region pool_region;
        struct verbs_domain *pool_domain;
        struct verbs_domain *d[2]; /* the host's, the controller's */
        struct trouble trouble[FAULTS];
        unsigned troubles, steps;
        unsigned again; /* connections that are made after others have ended */
        bool meddled;   /* something went wrong on purpose */
};

static struct {
        unsigned statuses, released, commands, failed, late;
        unsigned causes[LIFE_EVENTS + 1], kinds[32], finished_clean;
} total;

/* --- chance ------------------------------------------------------------------------------------ */

static uint32_t drawn(struct world *w)
{
        w->rng ^= w->rng >> 12;
        w->rng ^= w->rng << 25;
        w->rng ^= w->rng >> 27;
        return (uint32_t)(w->rng * 0x2545f4914f6cdd1du >> 32);
}

static uint32_t chance(struct world *w)
{
        if (w->left == 0)
                return drawn(w);
        w->left--;
        return (uint32_t)*w->input++ << 24;
}

static uint32_t below(struct world *w, uint32_t n)
{
        return (uint32_t)((uint64_t)chance(w) * n >> 32);
}

static uint32_t between(struct world *w, uint32_t low, uint32_t high)
{
        return low + below(w, high - low + 1);
}

static bool one_in(struct world *w, uint32_t n)
{
        return below(w, n) == 0;
}

static uint32_t fabric_random(void *user)
{
        return chance(user);
}

#define SAY(w, ...)                                                                                \
        do {                                                                                       \
                if ((w)->loud)                                                                     \
                        printf("        " __VA_ARGS__);                                            \
        } while (0)

static const char *name_of(const struct end *e)
{
        static const char *const names[ENDS] = {
                "host 0",       "host 1",       "controller 0", "controller 1",
                "controller 2", "controller 3", "controller 4",
        };

        return names[e - e->w->end];
}

/* --- registered memory -------------------------------------------------------------------------- */

static int region_open(struct verbs_domain *d, struct region *r, size_t len)
{
        unsigned access = VERBS_REMOTE_READ | VERBS_REMOTE_WRITE;

        r->p = calloc(1, len);
        r->len = len;
        if (verbs_reg(d, r->p, len, access, &r->mr) == 0)
                return 0;
        free(r->p);
        r->p = NULL;
        return -1;
}

static void region_close(struct verbs_domain *d, struct region *r)
{
        verbs_dereg(d, &r->mr);
        free(r->p);
        r->p = NULL;
}

static struct region *region_get(struct end *e, size_t len)
{
        for (unsigned i = 0; i < REGIONS; i++)
                if (!e->regions[i].p)
                        return region_open(e->d, &e->regions[i], len) == 0 ? &e->regions[i] : NULL;
        return NULL;
}

static void region_put(struct end *e, const void *p)
{
        for (unsigned i = 0; i < REGIONS; i++)
                if (e->regions[i].p == p) {
                        region_close(e->d, &e->regions[i]);
                        return;
                }
        assert_true(false);
}

static void *memory_get(void *user, size_t bytes, uint32_t *lkey)
{
        struct region *r = region_get(user, bytes);

        if (!r)
                return NULL;
        *lkey = r->mr.lkey;
        return r->p;
}

static void memory_put(void *user, void *memory, size_t bytes)
{
        (void)bytes;
        region_put(user, memory);
}

/* --- life --------------------------------------------------------------------------------------- */

static void happens(struct end *e, enum life_event v);
static void controller_take(struct end *e, struct rdma_recv *rx);
static void post_all(struct end *e);

static void sentinels(struct end *e)
{
        struct verbs_wr *wr = life_send_sentinel(&e->life), *bad;

        if (verbs_post(e->ep, wr, &bad) < 0)
                life_sentinel_flushed(&e->life, wr);
        if (!e->is_host && e->w->shape.srq)
                return;
        wr = life_recv_sentinel(&e->life);
        if (verbs_post_recv(e->ep, wr, &bad) < 0)
                life_sentinel_flushed(&e->life, wr);
}

static void replay(struct end *e)
{
        struct rdma_recv *rx;

        while ((rx = e->kept)) {
                e->kept = rx->next;
                controller_take(e, rx);
        }
        e->kept_last = &e->kept;
        if (e->is_host)
                e->connected = false; /* Connect is the first command */
}

static void recv_put(void *user, struct rdma_recv *rx);

/* What the queue pair held is given up: nothing moves any more. */
static void give_up(struct end *e)
{
        struct rdma_recv *rx;

        e->ends++;
        while ((rx = e->kept)) {
                e->kept = rx->next;
                recv_put(e, rx);
        }
        if (e->host)
                rdma_host_fail_all(e->host, NVME_TRANSIENT_TRANSPORT);
        if (e->ctrl)
                rdma_controller_end(e->ctrl);
}

static void release(struct end *e)
{
        e->releases++;
        total.released++;
        total.causes[e->life.cause]++;
        if (e->ep)
                verbs_destroy(e->ep);
        e->ep = NULL;
        if (e->ctrl) {
                assert_null(e->executing);
                rdma_controller_free(e->ctrl);
                assert_int_equal(e->buffers, e->w->shape.buffers);
        }
        if (e->host) {
                assert_int_equal(rdma_host_outstanding(e->host), 0);
                assert_int_equal(e->called_back, e->issued);
                rdma_host_free(e->host);
        }
        e->ctrl = NULL;
        e->host = NULL;
        for (unsigned i = 0; i < REGIONS; i++)
                if (e->regions[i].p)
                        region_close(e->d, &e->regions[i]);
        e->used = false;
}

static void act(struct end *e, unsigned actions)
{
        if (actions & LIFE_DO_REPLAY)
                replay(e);
        if (actions & LIFE_DO_DISCONNECT) {
                if (verbs_disconnect(e->ep) < 0 && e->life.state == LIFE_CLOSING)
                        happens(e, LIFE_LATE);
        }
        if (actions & LIFE_DO_FAIL) {
                verbs_fail(e->ep);
                sentinels(e);
        }
        if (actions & LIFE_DO_END)
                give_up(e);
        if (actions & LIFE_DO_RELEASE)
                release(e);
}

static void happens(struct end *e, enum life_event v)
{
        enum life_state before = e->life.state;
        unsigned actions = life_event(&e->life, v);

        if (e->life.state == before)
                return;
        SAY(e->w, "%-12s %s: %s -> %s\n", name_of(e), life_event_name(v), life_state_name(before),
            life_state_name(e->life.state));
        assert_true(e->life.state > before);
        assert_false(e->states & 1u << e->life.state);
        e->states |= 1u << e->life.state;
        if (v == LIFE_DISCONNECTED && before <= LIFE_LIVE && e->life.has_qp)
                assert_true(actions & LIFE_DO_DISCONNECT); /* DREQ is answered */
        act(e, actions);
        if (e->life.state == LIFE_RELEASED) {
                assert_int_equal(e->ends, 1);
                assert_int_equal(e->releases, 1);
        }
}

static bool is_dead(const struct end *e)
{
        return e->life.state >= LIFE_DEAD;
}

static struct verbs_domain *domain_of(struct end *e)
{
        struct verbs_domain *d = verbs_domain(e->ep);

        if (d)
                e->w->d[!e->is_host] = d;
        return d;
}

/* --- who departs from the rules ------------------------------------------------------------------ */

enum { SPOIL_ROOM = 64 };

static const struct rule_policy *policy_of(const struct world *w, enum party p)
{
        return w->lawless ? &w->s->policy[p] : NULL;
}

/* Private data, as the owners of the machines break rules about it. */
static void spoil_message(const struct world *w, enum spoil_cm_message m, void *data,
                          struct verbs_conn_param *param)
{
        struct spoil_cm s = { .message = m,
                              .data = data,
                              .len = param->len,
                              .reads_in = param->reads_in,
                              .reads_out = param->reads_out };

        if (!w->lawless ||
            !spoil_cm(&w->s->policy[m == SPOIL_REQUEST ? PARTY_HOST : PARTY_CONTROLLER].violated,
                      &s))
                return;
        param->len = s.len;
        param->reads_in = s.reads_in;
        param->reads_out = s.reads_out;
}

/* --- the host's owner --------------------------------------------------------------------------- */

static bool data_keys(void *user, const void *data, uint32_t len, uint32_t *lkey, uint32_t *rkey)
{
        struct end *e = user;
        const uint8_t *at = data;

        assert_true(at >= e->data->p && at + len <= e->data->p + e->data->len);
        *lkey = e->data->mr.lkey;
        *rkey = e->data->mr.rkey;
        return true;
}

static void pattern(uint8_t *p, unsigned qid, unsigned block, unsigned version)
{
        for (unsigned i = 0; i < BLOCK; i += 4) {
                p[i] = (uint8_t)qid;
                p[i + 1] = (uint8_t)block;
                p[i + 2] = (uint8_t)version;
                p[i + 3] = (uint8_t)i;
        }
}

static void verify(const struct end *e, const struct io *io)
{
        uint8_t expected[BLOCK] = { 0 };

        for (unsigned i = 0; i < io->blocks; i++) {
                int version = e->version[io->block + i];

                if (version > 0)
                        pattern(expected, e->qid, io->block + i, (unsigned)version);
                if (version >= 0)
                        assert_memory_equal(io->cmd.data + i * BLOCK, expected, BLOCK);
                memset(expected, 0, BLOCK);
        }
}

static void issue(struct end *e);

static void done(struct host_cmd *cmd, void *user)
{
        struct io *io = user;
        struct end *e = io->e;
        bool ok = cmd->status == NVME_SUCCESS, lawless = e->w->lawless;

        assert_true(io->busy);
        assert_true(ok || cmd->status == NVME_TRANSIENT_TRANSPORT || lawless);
        assert_true(ok || e->life.state >= LIFE_DEAD || lawless);
        io->busy = false;
        e->called_back++;
        total.failed += !ok;
        if (cmd->sqe.opc == NVME_FABRICS) {
                e->connected |= ok;
                return;
        }
        if (ok && cmd->xfer == XFER_C2H && !lawless)
                verify(e, io);
        for (unsigned i = 0; i < io->blocks; i++) {
                e->block_busy[io->block + i] = false;
                if (cmd->xfer == XFER_H2C)
                        e->version[io->block + i] = ok ? (int)io->version : -1;
        }
        if (e->life.state == LIFE_LIVE && one_in(e->w, 4))
                issue(e);
}

static struct io *free_io(struct end *e)
{
        for (unsigned i = 0; i < e->w->shape.depth; i++)
                if (!e->io[i].busy)
                        return &e->io[i];
        return NULL;
}

static bool take_blocks(struct end *e, struct io *io)
{
        io->block = below(e->w, BLOCKS);
        io->blocks = between(e->w, 1, TRANSFER_MAX / BLOCK);
        if (io->block + io->blocks > BLOCKS)
                io->blocks = BLOCKS - io->block;
        for (unsigned i = 0; i < io->blocks; i++)
                if (e->block_busy[io->block + i])
                        return false;
        for (unsigned i = 0; i < io->blocks; i++)
                e->block_busy[io->block + i] = true;
        return true;
}

static void submit(struct end *e, struct io *io)
{
        io->e = e;
        io->busy = true;
        io->cmd.done = done;
        io->cmd.user = io;
        io->cmd.data = e->data->p + (size_t)(io - e->io) * TRANSFER_MAX;
        e->issued++;
        total.commands++;
        assert_int_equal(rdma_host_submit(e->host, &io->cmd), 0);
}

static void issue_connect(struct end *e)
{
        struct io *io = &e->io[0];

        io->cmd = (struct host_cmd) { .len = CONNECT_LEN, .xfer = XFER_H2C };
        io->cmd.sqe.connect =
            (struct connect_cmd) { .opc = NVME_FABRICS, .fctype = FCTYPE_CONNECT };
        submit(e, io);
        memset(io->cmd.data, 0x5c, CONNECT_LEN);
}

static void issue(struct end *e)
{
        struct io *io = free_io(e);
        bool writes = one_in(e->w, 2);

        if (!io || e->to_issue == 0 || !take_blocks(e, io))
                return;
        e->to_issue--;
        io->version = ++e->versions % 100 + 1;
        io->cmd = (struct host_cmd) { .len = io->blocks * BLOCK,
                                      .xfer = writes ? XFER_H2C : XFER_C2H,
                                      .command_buffer = one_in(e->w, 3) };
        io->cmd.sqe.opc = writes ? NVME_WRITE : NVME_READ;
        io->cmd.sqe.nsid = le32(1);
        io->cmd.sqe.cdw10 = le32(io->block);
        io->cmd.sqe.cdw12 = le32(io->blocks - 1);
        submit(e, io);
        for (unsigned i = 0; writes && i < io->blocks; i++)
                pattern(io->cmd.data + i * BLOCK, e->qid, io->block + i, io->version);
}

/* Whether it issued anything. */
static bool host_work(struct end *e)
{
        unsigned issued = e->issued;

        if (e->life.state != LIFE_LIVE)
                return false;
        if (e->issued == 0)
                issue_connect(e);
        else if (e->connected)
                issue(e);
        issued = e->issued - issued;
        post_all(e);
        return issued > 0;
}

static int host_prepare(struct end *e)
{
        const struct shape *s = &e->w->shape;
        const struct rdma_host_config cfg = {
                .qid = e->qid,
                .depth = s->depth,
                .icdoff = s->icdoff,
                .in_capsule = e->qid ? s->in_capsule : 0,
                .capsule_max = 64 + s->icdoff * 16u + (e->w->lawless ? SPOIL_ROOM : 0u),
                .inline_bytes = s->inline_bytes,
                .msdbd = 1,
                .policy = policy_of(e->w, PARTY_HOST),
        };
        static const struct rdma_host_ops ops = { memory_get, memory_put, data_keys };
        const struct verbs_qp_attr attr = { rdma_host_sends(&cfg) + 1, s->depth + 2u,
                                            s->inline_bytes };

        e->d = domain_of(e);
        if (!e->d || verbs_grow_cq(e->d, QUEUES * (3u * DEPTH_MAX + RDMA_HOST_SIGNAL + 8)) < 0)
                return -1;
        e->data = region_get(e, (size_t)DEPTH_MAX * TRANSFER_MAX);
        if (!e->data)
                return -1;
        e->host = rdma_host_new(&cfg, &ops, e);
        if (!e->host || verbs_qp(e->ep, &attr) < 0)
                return -1;
        e->life.has_qp = true;
        return 0;
}

static void host_resolved(struct end *e)
{
        const struct shape *s = &e->w->shape;
        struct rdma_request r = { .qid = le16(e->qid),
                                  .hrqsize = le16((uint16_t)(s->depth + 1)),
                                  .hsqsize = le16(s->depth) };
        struct verbs_conn_param param = {
                .data = &r, .len = sizeof(r), .reads_in = s->reads, .rnr_retry = 7, .retry = 7
        };

        if (e->host || e->life.state != LIFE_CONNECTING)
                return;
        if (host_prepare(e) == 0)
                post_all(e);
        spoil_message(e->w, SPOIL_REQUEST, &r, &param);
        if (!e->life.has_qp || verbs_connect(e->ep, &param) < 0)
                happens(e, LIFE_REFUSED);
}

/* --- the controller's owner --------------------------------------------------------------------- */

static uint16_t admit(void *user, struct request *r)
{
        struct end *e = user;
        uint32_t first = le32_get(r->sqe.cdw10), blocks = le32_get(r->sqe.cdw12);

        if (e->w->lawless && r->sqe.opc != NVME_FABRICS &&
            (blocks >= BLOCKS || first > BLOCKS - 1 - blocks))
                return NVME_LBA_RANGE;
        if (r->sqe.opc == NVME_FABRICS) {
                r->xfer = XFER_H2C;
                r->len = CONNECT_LEN;
        } else {
                r->xfer = sqe_xfer(&r->sqe);
                r->len = (le32_get(r->sqe.cdw12) + 1) * BLOCK;
                assert_true((le32_get(r->sqe.cdw10) * BLOCK) + r->len <= BLOCKS * BLOCK);
        }
        return 0;
}

static void complete(struct end *e, struct request *r)
{
        r->cqe = (struct cqe) { 0 };
        r->c2h_len = r->xfer == XFER_C2H ? r->len : 0;
        request_complete(r);
        if (requests_executing(rdma_requests(e->ctrl)) == 0)
                happens(e, LIFE_IDLE);
}

static void execute(void *user, struct request *r)
{
        struct end *e = user;
        bool fabrics = r->sqe.opc == NVME_FABRICS;
        uint8_t *at = e->store + (fabrics ? 0 : (size_t)le32_get(r->sqe.cdw10) * BLOCK);

        assert_true(e->life.state < LIFE_DEAD);
        life_busy(&e->life);
        if (fabrics)
                assert_true(r->data[CONNECT_LEN - 1] == 0x5c || e->w->lawless);
        else if (r->xfer == XFER_H2C)
                memcpy(at, r->data, r->len);
        else if (r->xfer == XFER_C2H)
                memcpy(r->data, at, r->len);
        if (one_in(e->w, 3)) {
                complete(e, r);
                return;
        }
        r->next = e->executing;
        e->executing = r;
}

/* Any of those that execute. */
static void complete_one(struct end *e)
{
        struct request **at = &e->executing;

        while ((*at)->next && one_in(e->w, 2))
                at = &(*at)->next;
        struct request *r = *at;

        *at = r->next;
        complete(e, r);
        if (e->used)
                post_all(e);
}

static uint8_t *buffer_get(void *user, uint32_t len, uint32_t *lkey)
{
        struct end *e = user;
        struct region *r = e->buffers > 0 ? region_get(e, len) : NULL;

        if (!r)
                return NULL;
        e->buffers--;
        *lkey = r->mr.lkey;
        return r->p;
}

static void buffer_put(void *user, uint8_t *buf, uint32_t len)
{
        struct end *e = user;

        (void)len;
        e->buffers++;
        region_put(e, buf);
}

static uint16_t sqhd(void *user, const struct request *r)
{
        struct end *e = user;

        (void)r;
        e->head = (e->head + 1) % (e->w->shape.depth + 1u);
        return (uint16_t)e->head;
}

static void *response_memory(void *user, uint32_t bytes, uint32_t *lkey)
{
        return memory_get(user, bytes, lkey);
}

static void response_memory_put(void *user, void *memory, uint32_t bytes)
{
        memory_put(user, memory, bytes);
}

static void pool_post(struct world *w)
{
        struct verbs_wr *bad;

        while (w->pool_free && verbs_post_srq(w->pool_domain, &w->pool_free->wr, &bad) == 0)
                w->pool_free = w->pool_free->next;
}

static void recv_put(void *user, struct rdma_recv *rx)
{
        struct end *e = user;
        struct verbs_wr *bad;

        if (e->w->shape.srq) {
                rx->next = e->w->pool_free;
                e->w->pool_free = rx;
                pool_post(e->w);
        } else if (e->life.state <= LIFE_LIVE && verbs_post_recv(e->ep, &rx->wr, &bad) < 0) {
                e->broken = true;
        }
}

static void recv_init(struct rdma_recv *rx, const struct region *r, unsigned i)
{
        *rx = (struct rdma_recv) {
                .wr = { .op = VERBS_RECV,
                        .n_sge = 1,
                        .sge = { { r->p + (size_t)i * CAPSULE_MAX, CAPSULE_MAX, r->mr.lkey } },
                        .user = rx },
        };
}

/* The SRQ, with the first queue. */
static int pool_open(struct world *w, struct verbs_domain *d)
{
        unsigned n = sizeof(w->pool) / sizeof(*w->pool);

        if (w->pool_domain)
                return 0;
        if (region_open(d, &w->pool_region, (size_t)n * CAPSULE_MAX) < 0)
                return -1;
        if (verbs_make_srq(d, n) < 0) {
                region_close(d, &w->pool_region);
                return -1;
        }
        w->pool_domain = d;
        for (unsigned i = 0; i < n; i++) {
                recv_init(&w->pool[i], &w->pool_region, i);
                w->pool[i].next = w->pool_free;
                w->pool_free = &w->pool[i];
        }
        pool_post(w);
        return 0;
}

static int own_receives(struct end *e)
{
        unsigned n = e->w->shape.depth + 1u;
        struct region *r = region_get(e, (size_t)n * CAPSULE_MAX);
        struct verbs_wr *bad;

        if (!r)
                return -1;
        for (unsigned i = 0; i < n; i++) {
                recv_init(&e->recv[i], r, i);
                if (verbs_post_recv(e->ep, &e->recv[i].wr, &bad) < 0)
                        return -1;
        }
        return 0;
}

static int controller_machine(struct end *e, uint8_t host_reads)
{
        const struct shape *s = &e->w->shape;
        const struct rdma_controller_config cfg = {
                .format = { .admin = e->qid == 0,
                            .icdoff = s->icdoff,
                            .in_capsule = e->qid ? s->in_capsule : 0,
                            .msdbd = 1 },
                .max_transfer = TRANSFER_MAX,
                .send_wrs = s->send_wrs,
                .reads = host_reads,
                .inline_bytes = s->inline_bytes,
                .depth = (uint16_t)(s->depth + 1),
                .policy = policy_of(e->w, PARTY_CONTROLLER),
        };
        static const struct rdma_controller_ops ops = {
                .request = { .admit = admit,
                             .execute = execute,
                             .buffer_get = buffer_get,
                             .buffer_put = buffer_put,
                             .sqhd = sqhd },
                .recv_put = recv_put,
                .response_memory = response_memory,
                .response_memory_put = response_memory_put,
        };

        e->ctrl = rdma_controller_new(&cfg, &ops, e);
        return e->ctrl ? 0 : -1;
}

static int controller_prepare(struct end *e, uint8_t host_reads)
{
        const struct shape *s = &e->w->shape;
        const struct verbs_qp_attr attr = { s->send_wrs + 1u, s->srq ? 0 : s->depth + 2u,
                                            s->inline_bytes };

        e->d = domain_of(e);
        if (!e->d ||
            verbs_grow_cq(e->d, ACCEPTORS * (s->send_wrs + DEPTH_MAX + 8) + 2 * DEPTH_MAX) < 0)
                return -1;
        if (s->srq && pool_open(e->w, e->d) < 0)
                return -1;
        if (controller_machine(e, host_reads) < 0 || verbs_qp(e->ep, &attr) < 0)
                return -1;
        e->life.has_qp = true;
        return s->srq ? 0 : own_receives(e);
}

static struct end *free_end(struct world *w)
{
        for (unsigned i = QUEUES; i < ENDS; i++)
                if (!w->end[i].used)
                        return &w->end[i];
        return NULL;
}

static void end_init(struct world *w, struct end *e, struct verbs_ep *ep, uint16_t qid)
{
        *e = (struct end) { .w = w, .used = true };
        e->is_host = e < w->end + QUEUES;
        e->ep = ep;
        e->c = e->is_host ? w->hc : w->cc;
        e->qid = qid;
        e->states = 1u << LIFE_CONNECTING;
        e->kept_last = &e->kept;
        e->buffers = w->shape.buffers;
        e->to_issue = w->shape.commands;
        life_init(&e->life);
        verbs_set_user(ep, e);
}

static void refuse(struct end *e)
{
        struct rdma_reject reject = { .sts = le16(RDMA_REJECT_RESOURCES) };
        struct verbs_conn_param param = { .len = sizeof(reject) };

        spoil_message(e->w, SPOIL_REJECT, &reject, &param);
        verbs_reject(e->ep, &reject, param.len);
        happens(e, LIFE_REFUSED);
}

static void connect_request(struct world *w, const struct verbs_event *v)
{
        struct rdma_accept accept = { .crqsize = le16((uint16_t)(w->shape.depth + 1)) };
        struct verbs_conn_param param = { .data = &accept,
                                          .len = sizeof(accept),
                                          .reads_out = 16, /* the machine is to keep the limit */
                                          .rnr_retry = 7,
                                          .retry = 7 };
        struct rdma_request r = { 0 };
        struct end *e = free_end(w);

        if (verbs_user(v->ep)) /* an event out of nowhere */
                return;
        if (!e) {
                verbs_reject(v->ep, NULL, 0);
                verbs_destroy(v->ep);
                return;
        }
        assert_true(rdma_request_read(v->data, v->param.len, &r) || w->lawless);
        end_init(w, e, v->ep, le16_get(r.qid));
        SAY(w, "%-12s is asked\n", name_of(e));
        spoil_message(w, SPOIL_ACCEPT, &accept, &param);
        if (controller_prepare(e, v->param.reads_in) < 0)
                refuse(e);
        else if (verbs_accept(e->ep, &param) < 0)
                happens(e, LIFE_REFUSED);
}

static void keep(struct end *e, struct rdma_recv *rx)
{
        rx->next = NULL;
        *e->kept_last = rx;
        e->kept_last = &rx->next;
}

static void controller_take(struct end *e, struct rdma_recv *rx)
{
        bool ends = rdma_controller_received(e->ctrl, rx);

        assert_true(!ends || e->w->lawless);
        if (ends)
                happens(e, LIFE_FAILED);
}

static void controller_received(struct end *e, struct rdma_recv *rx, const struct verbs_wc *wc)
{
        rx->bytes = wc->bytes;
        if (wc->status == VERBS_SUCCESS && e->life.state == LIFE_CONNECTING &&
            e->w->shape.established_by_capsule)
                happens(e, LIFE_ESTABLISHED);
        if (wc->status != VERBS_SUCCESS || e->life.state > LIFE_LIVE) {
                recv_put(e, rx);
                if (wc->status != VERBS_SUCCESS)
                        happens(e, LIFE_FAILED);
        } else if (e->life.state == LIFE_CONNECTING) {
                keep(e, rx);
        } else {
                controller_take(e, rx);
        }
}

/* --- completions and events ---------------------------------------------------------------------- */

static void post_chain(struct end *e, struct verbs_wr *chain, bool recv)
{
        struct verbs_wr *bad;
        int ret = 0;

        if (chain)
                ret = recv ? verbs_post_recv(e->ep, chain, &bad) : verbs_post(e->ep, chain, &bad);
        if (ret < 0)
                e->broken = true;
}

/* What the machines have made; not on a queue pair that has failed, where a receive would be flushed
 * after the sentinel. */
static void post_all(struct end *e)
{
        if (e->life.state > LIFE_LIVE)
                return;
        if (e->host) {
                post_chain(e, rdma_host_take_recvs(e->host), true);
                post_chain(e, rdma_host_take(e->host), false);
        }
        if (e->ctrl && e->life.state == LIFE_LIVE) {
                requests_buffers(rdma_requests(e->ctrl));
                post_chain(e, rdma_controller_take(e->ctrl), false);
        }
        if (e->broken)
                happens(e, LIFE_FAILED);
}

static void completed(struct end *e, const struct verbs_wc *wc)
{
        bool failed;

        if (life_sentinel_flushed(&e->life, wc->wr))
                return;
        if (!e->is_host && wc->wr->op == VERBS_RECV) {
                controller_received(e, wc->wr->user, wc);
                return;
        }
        failed =
            e->is_host ? rdma_host_completed(e->host, wc) : rdma_controller_completed(e->ctrl, wc);
        if (e->is_host)
                assert_true(!is_fault(rdma_host_fault(e->host)) || e->w->lawless);
        if (failed) {
                assert_true(wc->status != VERBS_SUCCESS || e->w->lawless);
                happens(e, LIFE_FAILED);
        }
}

/* A receive of the SRQ may come after its queue pair is dead, or gone. */
static void dispatch(struct world *w, const struct verbs_wc *wc)
{
        struct end *e = wc->ep ? verbs_user(wc->ep) : NULL;

        total.statuses |= 1u << wc->status;
        if (e && !is_dead(e)) {
                completed(e, wc);
                assert_true(e->used); /* no release within a batch */
        } else if (w->shape.srq && wc->wr->op == VERBS_RECV && (!e || !e->is_host)) {
                struct rdma_recv *rx = wc->wr->user;

                rx->next = w->pool_free;
                w->pool_free = rx;
                pool_post(w);
        } else {
                assert_true(e && (e->states & 1u << LIFE_DRAINING)); /* it was too late for it */
        }
}

/* Once the queue was seen empty all that was flushed has been handled. */
static void drained(struct world *w, bool host)
{
        for (unsigned i = host ? 0 : QUEUES; i < (host ? QUEUES : ENDS); i++) {
                struct end *e = &w->end[i];

                if (e->used && e->life.state == LIFE_DRAINING && e->life.sentinels == 0)
                        happens(e, LIFE_DRAINED);
        }
}

static bool poll_side(struct world *w, bool host)
{
        struct verbs_domain *d = w->d[!host];
        struct verbs_wc wc[BATCH];
        int n = d ? verbs_poll(d, wc, (int)between(w, 1, BATCH)) : 0;

        for (int i = 0; i < n; i++)
                dispatch(w, &wc[i]);
        for (unsigned i = host ? 0 : QUEUES; i < (host ? QUEUES : ENDS); i++) {
                struct end *e = &w->end[i];

                if (e->used && n > 0)
                        post_all(e);
        }
        if (n <= 0)
                drained(w, host);
        return n > 0;
}

static void handle(struct world *w, const struct verbs_event *v)
{
        struct end *e = v->ep ? verbs_user(v->ep) : NULL;

        SAY(w, "%-12s event: %s\n", e ? name_of(e) : "-", verbs_event_name(v->type));
        if (v->type == VERBS_CONNECT_REQUEST && v->ep) {
                connect_request(w, v);
        } else if (!v->ep && v->type == VERBS_DEVICE_REMOVED && v->listener) {
                assert_ptr_equal(v->listener, w->listener);
                verbs_unlisten(w->listener);
                w->listener = NULL;
        } else if (e && e->is_host && v->type == VERBS_RESOLVED) {
                host_resolved(e);
        } else if (e && v->type == VERBS_ESTABLISHED && !e->life.has_qp) {
                return; /* out of nowhere: it has not asked for anything yet */
        } else if (e && life_event_of(v->type) != LIFE_EVENTS) {
                happens(e, life_event_of(v->type));
                if (e->used)
                        post_all(e);
        }
}

static bool event_side(struct world *w, bool host)
{
        struct verbs_event v;

        if (!verbs_event(host ? w->hc : w->cc, &v))
                return false;
        handle(w, &v);
        return true;
}

/* --- what goes wrong ----------------------------------------------------------------------------- */

static struct end *any_end(struct world *w)
{
        struct end *e = &w->end[below(w, ENDS)];

        return e->used && e->ep ? e : NULL;
}

static enum verbs_status any_status(struct world *w)
{
        return (enum verbs_status)between(w, VERBS_SUCCESS + 1, VERBS_STATUSES - 1);
}

static void fail_completion(struct world *w, struct end *e)
{
        memory_fail_completion(e->ep, between(w, 1, 10), any_status(w));
}

static void fail_work(struct world *w, struct end *e)
{
        memory_fail_work(e->ep, between(w, 1, 10), any_status(w));
}

static void lose(struct world *w, struct end *e)
{
        memory_lose_cm(e->ep, between(w, 1, 2));
}

static void hold(struct world *w, struct end *e)
{
        (void)w;
        memory_hold_cm(e->ep, e->held = true);
}

static void any_event(struct world *w, struct end *e)
{
        memory_inject(e->ep, (enum verbs_event_type)below(w, VERBS_PORT_UP + 1), 1);
}

static void removal(struct world *w, struct end *e)
{
        memory_remove(w->f, one_in(w, 4) ? NULL : e->c);
}

static void no_memory(struct world *w, struct end *e)
{
        (void)e;
        memory_refuse(w->f, (enum memory_what)below(w, MEMORY_WHATS), between(w, 1, 12));
}

static void orderly(struct world *w, struct end *e)
{
        (void)w;
        happens(e, LIFE_CLOSE);
}

static void at_once(struct world *w, struct end *e)
{
        (void)w;
        happens(e, LIFE_ABORT);
}

static void too_late(struct world *w, struct end *e)
{
        (void)w;
        happens(e, LIFE_LATE);
}

static void hardware(struct world *w, struct end *e)
{
        (void)w;
        verbs_fail(e->ep);
        if (one_in(w, 2))
                memory_inject(e->ep, VERBS_QP_ERROR, 0);
}

static void no_listener(struct world *w, struct end *e)
{
        (void)e;
        if (w->listener)
                verbs_unlisten(w->listener);
        w->listener = NULL;
}

static void ports(struct world *w, struct end *e)
{
        memory_inject_context(e->c, one_in(w, 2) ? VERBS_PORT_DOWN : VERBS_PORT_UP, 0);
}

static const struct {
        const char *name;
        void (*do_it)(struct world *w, struct end *e);
} kinds[] = {
        { "a completion fails", fail_completion },
        { "a completion fails", fail_completion },
        { "a work request fails", fail_work },
        { "CM messages are lost", lose },
        { "CM messages are held", hold },
        { "an event out of nowhere", any_event },
        { "an event out of nowhere", any_event },
        { "the device goes away", removal },
        { "no memory", no_memory },
        { "no memory", no_memory },
        { "an orderly close", orderly },
        { "an abort", at_once },
        { "a timer", too_late },
        { "the queue pair fails", hardware },
        { "nobody listens", no_listener },
        { "the port", ports },
};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

/* One that waits for an endpoint to be there waits no longer than a few steps. */
static void make_trouble(struct world *w)
{
        for (unsigned i = 0; i < w->troubles; i++) {
                struct trouble *t = &w->trouble[i];
                struct end *e = t->at == w->steps ? any_end(w) : NULL;

                if (t->at == w->steps && !e)
                        t->at += between(w, 1, 5);
                if (!e)
                        continue;
                SAY(w, "%-12s %s\n", name_of(e), kinds[t->kind].name);
                total.kinds[t->kind]++;
                w->meddled = true;
                kinds[t->kind].do_it(w, e);
        }
}

/* --- time ---------------------------------------------------------------------------------------- */

/* Nothing moves any more: then the clocks of the owners do. Which of them is up first is chance. */
static void timer_of(struct world *w, struct end *e)
{
        bool waits = e->life.state == LIFE_CONNECTING || e->life.state == LIFE_CLOSING ||
                     e->life.state == LIFE_DRAINING;

        if (e->held) {
                memory_hold_cm(e->ep, e->held = false);
                return;
        }
        if (w->pool_free && w->pool_domain)
                pool_post(w);
        if (waits) {
                total.late++;
                assert_true(w->meddled); /* nobody is late when nothing is wrong */
                happens(e, LIFE_LATE);
        } else if (e->is_host && e->to_issue == 0 && e->called_back == e->issued) {
                happens(e, LIFE_CLOSE);
        } else if (e->life.state == LIFE_LIVE) {
                SAY(w, "%-12s is overdue: %u of %u called back\n", name_of(e), e->called_back,
                    e->issued);
                assert_true(w->meddled);
                happens(e, LIFE_ABORT); /* a command, or a keep alive, is overdue */
        }
}

static bool all_released(const struct world *w)
{
        for (unsigned i = 0; i < ENDS; i++)
                if (w->end[i].used)
                        return false;
        return true;
}

static bool anything_happens(struct world *w)
{
        if (memory_step(w->f) || event_side(w, true) || event_side(w, false) ||
            poll_side(w, true) || poll_side(w, false))
                return true;
        for (unsigned i = 0; i < ENDS; i++) {
                struct end *e = &w->end[i];

                if (e->used && e->executing) {
                        complete_one(e);
                        return true;
                }
                if (e->used && e->is_host && host_work(e))
                        return true;
                if (e->used && e->ctrl && e->life.state == LIFE_LIVE &&
                    (rdma_controller_wants_post(e->ctrl) ||
                     requests_need_buffers(rdma_requests(e->ctrl)))) {
                        post_all(e);
                        if (!e->used || !requests_need_buffers(rdma_requests(e->ctrl)))
                                return true;
                }
        }
        return false;
}

/* The controller's keep alive is longer than any timer of a host. */
static bool tick_those(struct world *w, bool patient)
{
        unsigned first = below(w, ENDS);

        for (unsigned i = 0; i < ENDS; i++) {
                struct end *e = &w->end[(first + i) % ENDS];

                if (e->used && patient == (!e->is_host && e->life.state == LIFE_LIVE)) {
                        timer_of(w, e);
                        return true;
                }
        }
        return false;
}

static void tick(struct world *w)
{
        if (!tick_those(w, false))
                tick_those(w, true);
}

/* --- a schedule ---------------------------------------------------------------------------------- */

static void turn(struct world *w)
{
        struct end *e;

        make_trouble(w);
        switch (below(w, 8)) {
        case 0:
                event_side(w, one_in(w, 2));
                break;
        case 1:
                poll_side(w, one_in(w, 2));
                break;
        case 2:
                e = any_end(w);
                if (e && e->executing)
                        complete_one(e);
                break;
        case 3:
                e = any_end(w);
                if (e && e->is_host)
                        host_work(e);
                break;
        case 4:
        case 5:
                memory_step(w->f);
                break;
        default:
                if (!anything_happens(w))
                        tick(w);
        }
}

static void choose_shape(struct world *w)
{
        struct verbs_caps *caps = &w->caps.device;
        struct shape *s = &w->shape;

        memory_caps_default(&w->caps);
        w->caps.no_padding = one_in(w, 3);
        caps->no_last_wqe = one_in(w, 2);
        caps->iwarp = one_in(w, 4);
        s->srq = one_in(w, 2);
        s->inline_bytes = one_in(w, 2) ? 0 : one_in(w, 2) ? 16 : 64;
        s->depth = (uint16_t)between(w, 1, DEPTH_MAX);
        s->send_wrs = between(w, 2, 12);
        s->in_capsule = one_in(w, 3) ? 0 : one_in(w, 2) ? 256 : 512;
        s->icdoff = one_in(w, 2) ? 0 : 2;
        s->reads = (uint8_t)between(w, 1, 4);
        s->queues = between(w, 1, QUEUES);
        s->commands = between(w, 0, COMMANDS_MAX);
        s->buffers = between(w, 1, 4);
        s->established_by_capsule = one_in(w, 2);
        w->again = one_in(w, 2) ? 0 : between(w, 1, AGAIN);
        w->troubles = below(w, FAULTS + 1);
        for (unsigned i = 0; i < w->troubles; i++)
                w->trouble[i] =
                    (struct trouble) { between(w, 1, one_in(w, 2) ? 60 : 900), below(w, KINDS) };
}

static void describe(struct world *w)
{
        const struct shape *s = &w->shape;

        SAY(w,
            "%u queues of %u, %u commands, SRQ %d, iWARP %d, inline %u, send queue %u, "
            "in-capsule %u at %u, READs %u, buffers %u\n",
            s->queues, s->depth, s->commands, s->srq, w->caps.device.iwarp, s->inline_bytes,
            s->send_wrs, s->in_capsule, s->icdoff, s->reads, s->buffers);
}

static void world_open(struct world *w, uint32_t seed)
{
        struct memory_config cfg = {
                .random = fabric_random, .user = w, .caps = &w->caps, .tap = w->s->tap
        };

        w->seed = seed;
        w->rng = seed * 0x9e3779b97f4a7c15u + 1;
        for (unsigned i = 0; i < 4; i++)
                drawn(w);
        choose_shape(w);
        describe(w);
        w->f = memory_fabric_new(&cfg);
        w->hc = verbs_open(memory_provider(w->f));
        w->cc = verbs_open(memory_provider(w->f));
        w->listener = verbs_listen(w->cc, "192.0.2.1", "4420", 16);
        for (unsigned i = 0; i < w->shape.queues; i++)
                end_init(w, &w->end[i], verbs_resolve(w->hc, "192.0.2.1", "4420", 1000),
                         (uint16_t)i);
}

/* The same queue once more, on the same completion queue, maybe with the same memory. */
static void connect_again(struct world *w)
{
        for (unsigned i = 0; i < w->shape.queues && w->again > 0; i++) {
                struct verbs_ep *ep = NULL;

                if (w->end[i].used || one_in(w, 2))
                        continue;
                w->again--;
                ep = verbs_resolve(w->hc, "192.0.2.1", "4420", 1000);
                if (ep)
                        end_init(w, &w->end[i], ep, (uint16_t)i);
        }
}

/* What an SRQ still has is given back with its domain; nothing else is left by then. */
static void world_close(struct world *w)
{
        struct memory_count left;

        if (w->listener)
                verbs_unlisten(w->listener);
        while (poll_side(w, true) || poll_side(w, false) || event_side(w, true) ||
               event_side(w, false))
                ;
        if (w->pool_domain)
                region_close(w->pool_domain, &w->pool_region);
        left = memory_leaks(w->f);
        for (struct rdma_recv *rx = w->pool_free; rx; rx = rx->next)
                left.posted++;
        assert_int_equal(left.posted, w->pool_domain ? sizeof(w->pool) / sizeof(*w->pool) : 0);
        assert_int_equal(left.eps + left.qps + left.mrs + left.windows + left.listeners, 0);
        verbs_close(w->hc);
        verbs_close(w->cc);
        assert_int_equal(memory_leaks(w->f).posted, 0);
        memory_fabric_free(w->f);
}

static bool went_well(const struct world *w)
{
        for (unsigned i = 0; i < w->shape.queues; i++)
                if (w->end[i].called_back != w->shape.commands + 1)
                        return false;
        return true;
}

static void schedule_run(const struct schedule *s)
{
        struct world *w = calloc(1, sizeof(*w));

        w->s = s;
        w->loud = s->loud;
        w->lawless = w->meddled = s->policy != NULL;
        w->input = s->input;
        w->left = s->n;
        world_open(w, s->seed);
        while (!all_released(w) || w->again > 0) {
                assert_true(w->steps < STEPS_MAX);
                w->steps++;
                turn(w);
                connect_again(w);
        }
        for (unsigned i = 0; i < ENDS; i++)
                assert_true(!w->end[i].states || w->end[i].life.state == LIFE_RELEASED);
        if (!w->meddled)
                assert_true(went_well(w));
        total.finished_clean += went_well(w);
        world_close(w);
        free(w);
}

#endif
