/* SPDX-License-Identifier: BSD-3-Clause */
/* A host of few words over RDMA for the target's tests: the host machine on verbs, everything by
 * hand. One context each; whose thread calls owns it. */
#ifndef NVMF_TARGET_TESTS_RDMA_PEER_H
#define NVMF_TARGET_TESTS_RDMA_PEER_H

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/io/loop.h"
#include "pdu/io/net.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "pdu/nvme/rdma/rdma_host.h"
#include "pdu/nvme/wire/fabrics.h"
#include "target/nvme/target.h"

enum {
        RPEER_ARENA = 4 << 20,
        RPEER_NEVER = 0xffff,
        RPEER_PATIENCE = 60000, /* ms */
};
#define RPEER_HOSTNQN "nqn.2026-01.io.nvmfspec:test-host"

struct rpeer_options {
        uint16_t qid, entries; /* 0: 32 */
        uint32_t in_capsule;
        uint16_t icdoff;
        const char *host; /* NULL: RPEER_HOSTNQN */
        const char *at;   /* an address of a target on any, and so its own; NULL: the target's */
        /* of the connect request, where it is not as it should be */
        const void *data;
        uint8_t len;
        bool no_reads, no_rnr_retry;
};

struct rpeer {
        struct verbs_provider *v;
        struct verbs_context *context;
        struct verbs_ep *ep;
        struct verbs_domain *domain;
        struct verbs_mr mr;
        struct rdma_host *h;
        uint8_t *arena;
        size_t used;
        struct rpeer_options o;
        bool resolved, established, rejected, disconnected, removed, failed;
        bool no_receives; /* posts no more of them */
        uint16_t sts, crqsize, cntlid;
};

struct rpeer_cmd {
        struct host_cmd cmd;
        bool done;
        uint16_t status;
};

/* --- what the machine asks for ---------------------------------------------------------------- */

static void *rpeer_memory(void *user, size_t bytes, uint32_t *lkey)
{
        struct rpeer *p = user;
        void *at = p->arena + p->used;

        p->used += (bytes + 63) / 64 * 64;
        *lkey = p->mr.lkey;
        return p->used <= RPEER_ARENA ? at : NULL;
}

static void rpeer_memory_put(void *user, void *memory, size_t bytes)
{
        (void)user;
        (void)memory;
        (void)bytes;
}

static bool rpeer_keys(void *user, const void *data, uint32_t len, uint32_t *lkey, uint32_t *rkey)
{
        struct rpeer *p = user;
        const uint8_t *at = data;

        *lkey = p->mr.lkey;
        *rkey = p->mr.rkey;
        return at >= p->arena && at + len <= p->arena + RPEER_ARENA;
}

/* Registered memory for the data of commands. */
static uint8_t *rpeer_alloc(struct rpeer *p, size_t bytes)
{
        uint32_t lkey;
        uint8_t *at = rpeer_memory(p, bytes, &lkey);

        return at ? memset(at, 0, bytes) : NULL;
}

/* --- what comes ------------------------------------------------------------------------------- */

static void rpeer_note(struct rpeer *p, const struct verbs_event *e)
{
        struct rdma_reject r = { 0 };
        struct rdma_accept a = { 0 };

        p->resolved |= e->type == VERBS_RESOLVED;
        p->disconnected |= e->type == VERBS_DISCONNECTED;
        p->removed |= e->type == VERBS_DEVICE_REMOVED;
        p->failed |= e->type == VERBS_UNREACHABLE || e->type == VERBS_CONNECT_ERROR;
        if (e->type == VERBS_ESTABLISHED) {
                p->established = true;
                rdma_accept_read(e->data, e->param.len, &a);
                p->crqsize = le16_get(a.crqsize);
        }
        if (e->type == VERBS_REJECTED) {
                p->rejected = true;
                rdma_reject_read(e->data, e->param.len, &r);
                p->sts = le16_get(r.sts);
        }
}

static void rpeer_send(struct rpeer *p)
{
        struct verbs_wr *bad, *chain = p->no_receives ? NULL : rdma_host_take_recvs(p->h);

        if (chain && verbs_post_recv(p->ep, chain, &bad) < 0)
                p->failed = true;
        chain = rdma_host_take(p->h);
        if (chain && verbs_post(p->ep, chain, &bad) < 0)
                p->failed = true;
}

static bool rpeer_poll(struct rpeer *p)
{
        struct verbs_event e;
        struct verbs_wc wc[16];
        bool any = false;
        int n;

        while (verbs_event(p->context, &e)) {
                rpeer_note(p, &e);
                any = true;
        }
        if (!p->h)
                return any;
        while ((n = verbs_poll(p->domain, wc, 16)) > 0) {
                for (int i = 0; i < n; i++)
                        p->failed |= rdma_host_completed(p->h, &wc[i]);
                any = true;
        }
        if (!p->disconnected && !p->failed)
                rpeer_send(p);
        return any;
}

/* One round; false: nothing happened within ms. */
static bool rpeer_pump(struct rpeer *p, int ms)
{
        struct pollfd fds[8];
        int fd[8], n = verbs_fds(p->context, fd, 8);

        verbs_memory_do(p->v, NULL, NULL); /* a slow one goes on */
        if (rpeer_poll(p))
                return true;
        verbs_arm(p->context);
        if (rpeer_poll(p))
                return true;
        for (int i = 0; i < n; i++)
                fds[i] = (struct pollfd) { .fd = fd[i], .events = POLLIN };
        poll(fds, (nfds_t)n, ms);
        return rpeer_poll(p);
}

static bool rpeer_until(struct rpeer *p, const bool *what, unsigned ms)
{
        uint64_t until = loop_now_ms() + ms;

        while (!*what && loop_now_ms() < until)
                rpeer_pump(p, 10);
        return *what;
}

/* The target has ended it. */
static bool rpeer_closed(struct rpeer *p, unsigned ms)
{
        uint64_t until = loop_now_ms() + ms;

        while (!p->disconnected && !p->failed && loop_now_ms() < until)
                rpeer_pump(p, 10);
        return p->disconnected || p->failed;
}

/* --- commands --------------------------------------------------------------------------------- */

static void rpeer_on_done(struct host_cmd *cmd, void *user)
{
        struct rpeer_cmd *c = (struct rpeer_cmd *)cmd;

        (void)user;
        c->done = true;
        c->status = cmd->status;
}

static void rpeer_submit(struct rpeer *p, struct rpeer_cmd *c)
{
        c->cmd.done = rpeer_on_done;
        c->done = rdma_host_submit(p->h, &c->cmd) < 0;
        c->status = RPEER_NEVER;
        rpeer_send(p);
}

static uint16_t rpeer_wait(struct rpeer *p, struct rpeer_cmd *c)
{
        uint64_t until = loop_now_ms() + RPEER_PATIENCE;

        while (!c->done && !p->disconnected && !p->failed && loop_now_ms() < until)
                rpeer_pump(p, 10);
        if (c->done)
                return c->status;
        p->failed = true; /* nobody waits for it any more */
        rdma_host_fail_all(p->h, RPEER_NEVER);
        return RPEER_NEVER;
}

static uint16_t rpeer_run(struct rpeer *p, struct rpeer_cmd *c)
{
        rpeer_submit(p, c);
        return rpeer_wait(p, c);
}

/* --- connections ------------------------------------------------------------------------------ */

static void rpeer_close(struct rpeer *p)
{
        if (p->h)
                rdma_host_fail_all(p->h, NVME_ABORT_SQ_DELETED);
        if (p->ep)
                verbs_destroy(p->ep);
        if (p->h)
                rdma_host_free(p->h);
        if (p->mr.len > 0)
                verbs_dereg(p->domain, &p->mr);
        verbs_close(p->context);
        free(p->arena);
        free(p);
}

/* DREQ; false: the target did not answer. */
static __attribute__((unused)) bool rpeer_disconnect(struct rpeer *p)
{
        verbs_disconnect(p->ep);
        return rpeer_until(p, &p->disconnected, RPEER_PATIENCE);
}

static uint16_t rpeer_entries(const struct rpeer_options *o)
{
        return o->entries ? o->entries : 32;
}

static bool rpeer_build(struct rpeer *p)
{
        static const struct rdma_host_ops ops = { rpeer_memory, rpeer_memory_put, rpeer_keys };
        uint16_t entries = rpeer_entries(&p->o);
        struct rdma_host_config cfg = {
                .qid = p->o.qid,
                .depth = (uint16_t)(entries - 1),
                .icdoff = p->o.icdoff,
                .in_capsule = p->o.in_capsule,
                .capsule_max = 64 + p->o.icdoff * 16u + 4096,
        };
        struct verbs_qp_attr attr = { .send_wrs = 2u * entries, .recv_wrs = 2u * entries };

        p->domain = verbs_domain(p->ep);
        return p->domain && verbs_grow_cq(p->domain, 4u * entries) == 0 &&
               verbs_reg(p->domain, p->arena, RPEER_ARENA, VERBS_REMOTE_READ | VERBS_REMOTE_WRITE,
                         &p->mr) == 0 &&
               verbs_qp(p->ep, &attr) == 0 && (p->h = rdma_host_new(&cfg, &ops, p)) != NULL;
}

/* Until the target has accepted or rejected it. */
static struct rpeer *rpeer_open(struct verbs_provider *v, const struct target *t,
                                struct rpeer_options o)
{
        struct rdma_request r = {
                .qid = le16(o.qid),
                .hrqsize = le16(rpeer_entries(&o)),
                .hsqsize = le16((uint16_t)(rpeer_entries(&o) - 1)),
        };
        struct verbs_conn_param param = {
                .data = o.data ? o.data : &r,
                .len = o.data ? o.len : sizeof(r),
                .reads_in = o.no_reads ? 0 : 16,
                .rnr_retry = o.no_rnr_retry ? 0 : 7,
                .retry = 7,
        };
        struct rpeer *p = calloc(1, sizeof(*p));
        char port[16];

        p->v = v;
        p->o = o;
        p->arena = aligned_alloc(4096, RPEER_ARENA);
        p->context = verbs_open(v);
        snprintf(port, sizeof(port), "%u", target_trsvcid(t));
        p->ep = verbs_resolve(p->context, o.at ? o.at : target_traddr(t), port, RPEER_PATIENCE);
        if (!p->ep || !rpeer_until(p, &p->resolved, RPEER_PATIENCE) || !rpeer_build(p))
                return p;
        rpeer_send(p);
        verbs_connect(p->ep, &param);
        for (uint64_t until = loop_now_ms() + RPEER_PATIENCE;
             !p->established && !p->rejected && !p->failed && loop_now_ms() < until;)
                rpeer_pump(p, 10);
        return p;
}

static uint16_t rpeer_connect_queue(struct rpeer *p, const char *nqn, uint16_t cntlid)
{
        struct connect_data *data = (struct connect_data *)(void *)rpeer_alloc(p, sizeof(*data));
        struct rpeer_cmd c = {
                .cmd = { .data = (uint8_t *)data, .len = sizeof(*data), .xfer = XFER_H2C }
        };

        *data =
            (struct connect_data) { .hostid = { p->o.host ? 9 : 1, 2, 3 }, .cntlid = le16(cntlid) };
        strcpy(data->subnqn, nqn);
        strcpy(data->hostnqn, p->o.host ? p->o.host : RPEER_HOSTNQN);
        c.cmd.sqe.connect.opc = NVME_FABRICS;
        c.cmd.sqe.connect.fctype = FCTYPE_CONNECT;
        c.cmd.sqe.connect.qid = le16(p->o.qid);
        c.cmd.sqe.connect.sqsize = le16((uint16_t)(rpeer_entries(&p->o) - 1));
        c.cmd.sqe.connect.kato = le32(p->o.qid == 0 ? 120000 : 0);
        if (rpeer_run(p, &c) == NVME_SUCCESS)
                p->cntlid = le16_get((le16_t) { { c.cmd.cqe.dw0.b[0], c.cmd.cqe.dw0.b[1] } });
        return c.status;
}

static uint16_t rpeer_enable_with(struct rpeer *p, uint32_t cc)
{
        struct rpeer_cmd c = { 0 };

        c.cmd.sqe.property.opc = NVME_FABRICS;
        c.cmd.sqe.property.fctype = FCTYPE_PROPERTY_SET;
        c.cmd.sqe.property.ofst = le32(PROP_CC);
        c.cmd.sqe.property.value = le64(cc);
        return rpeer_run(p, &c);
}

static uint16_t rpeer_enable(struct rpeer *p)
{
        return rpeer_enable_with(p, CC_EN | CC_IOSQES | CC_IOCQES);
}

/* An admin queue, enabled, with I/O queues granted; NULL if a step fails. host: as in its options. */
static struct rpeer *rpeer_admin_of(struct verbs_provider *v, const struct target *t,
                                    const char *nqn, const char *host)
{
        struct rpeer *p = rpeer_open(v, t, (struct rpeer_options) { .host = host });
        struct rpeer_cmd queues = { .cmd.sqe = { .opc = NVME_SET_FEATURES,
                                                 .cdw10 = le32(FEAT_QUEUES),
                                                 .cdw11 = le32(0x003f003f) } };

        if (p->established && rpeer_connect_queue(p, nqn, CNTLID_DYNAMIC) == NVME_SUCCESS &&
            rpeer_enable(p) == NVME_SUCCESS && rpeer_run(p, &queues) == NVME_SUCCESS)
                return p;
        rpeer_close(p);
        return NULL;
}

static struct rpeer *rpeer_admin(struct verbs_provider *v, const struct target *t, const char *nqn)
{
        return rpeer_admin_of(v, t, nqn, NULL);
}

/* An I/O queue of the controller of `admin`; NULL if a step fails. */
static struct rpeer *rpeer_io(struct verbs_provider *v, const struct target *t, const char *nqn,
                              const struct rpeer *admin, struct rpeer_options o)
{
        struct rpeer *p = rpeer_open(v, t, o);

        if (p->established && rpeer_connect_queue(p, nqn, admin->cntlid) == NVME_SUCCESS)
                return p;
        rpeer_close(p);
        return NULL;
}

static struct rpeer_cmd rpeer_rw(uint8_t opc, uint64_t lba, uint32_t blocks, uint8_t *data)
{
        struct rpeer_cmd c = { .cmd = { .data = data, .len = blocks * 512 } };

        c.cmd.sqe.opc = opc;
        c.cmd.sqe.nsid = le32(1);
        c.cmd.sqe.cdw10 = le32((uint32_t)lba);
        c.cmd.sqe.cdw11 = le32((uint32_t)(lba >> 32));
        c.cmd.sqe.cdw12 = le32(blocks - 1);
        c.cmd.xfer = sqe_xfer(&c.cmd.sqe);
        return c;
}

#endif
