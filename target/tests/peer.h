/* SPDX-License-Identifier: BSD-3-Clause */
/* A host of few words for the target's tests: the host machine on a socket, one command after the
 * other or several at once, everything by hand. */
#ifndef NVMF_TARGET_TESTS_PEER_H
#define NVMF_TARGET_TESTS_PEER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pdu/nvme/io/link_stream.h"
#include "pdu/nvme/tcp/tcp_host.h"
#include "pdu/nvme/wire/fabrics.h"
#include "target/nvme/target.h"

enum { PEER_RX = 64 << 10, PEER_NEVER = 0xffff, PEER_PATIENCE = 60000 /* ms */ };
#define PEER_HOSTNQN "nqn.2026-01.io.nvmfspec:test-host"

struct peer {
        struct stream stream;
        bool closed, reset; /* by the target */
        struct tcp_host *h;
        struct link *link;
        uint8_t *rx;
        uint16_t cntlid;
};

struct peer_cmd {
        struct host_cmd cmd;
        bool done;
        uint16_t status;
};

static void peer_on_done(struct host_cmd *cmd, void *user)
{
        struct peer_cmd *c = (struct peer_cmd *)cmd;

        (void)user;
        c->done = true;
        c->status = cmd->status;
}

static void peer_send(struct peer *p)
{
        link_flush(p->link, &p->stream);
}

static void peer_receive(struct peer *p)
{
        ssize_t n = link_fill(p->link, &p->stream);

        p->closed |= n < 0;
        p->reset |= p->stream.end == STREAM_RST;
        if (n > 0)
                tcp_host_received(p->h, (size_t)n);
}

/* One round; false: nothing happened within ms. */
static bool peer_pump(struct peer *p, int ms)
{
        int events;

        peer_send(p);
        events = stream_wait(&p->stream, link_events(p->link), ms);
        if (events & ~EPOLLOUT)
                peer_receive(p);
        peer_send(p);
        return events != 0;
}

/* Until the target has closed it; false: it did not within ms. */
static __attribute__((unused)) bool peer_closed(struct peer *p, unsigned ms)
{
        uint64_t until = loop_now_ms() + ms;

        while (!p->closed && loop_now_ms() < until)
                peer_pump(p, 10);
        return p->closed;
}

static uint16_t peer_wait(struct peer *p, struct peer_cmd *c)
{
        uint64_t until = loop_now_ms() + PEER_PATIENCE;

        while (!c->done && !p->closed && loop_now_ms() < until)
                peer_pump(p, 100);
        return c->done ? c->status : PEER_NEVER;
}

/* What peer_send() sends. */
static void peer_queue(struct peer *p, struct peer_cmd *c)
{
        c->cmd.done = peer_on_done;
        c->done = tcp_host_submit(p->h, &c->cmd) < 0;
        c->status = PEER_NEVER;
}

static void peer_submit(struct peer *p, struct peer_cmd *c)
{
        peer_queue(p, c);
        peer_send(p);
}

static uint16_t peer_run(struct peer *p, struct peer_cmd *c)
{
        peer_submit(p, c);
        return peer_wait(p, c);
}

struct peer_options {
        bool hdgst, ddgst;
        uint16_t depth;
        uint8_t hpda;
};

/* The first byte of their Host Identifier, and so which host they are of. */
static uint8_t peer_host = 1;

/* Where they connect; NULL: to the target's first port. */
static const char *peer_port;

/* A connection without a word said: 0, or -1. */
static __attribute__((unused)) int peer_stream(const struct target *t, struct stream *s)
{
        char port[16], why[NET_ERROR];

        *s = (struct stream) { 0 };
        snprintf(port, sizeof(port), "%u", target_trsvcid(t));
        return stream_connect(s, target_traddr(t), peer_port ? peer_port : port, PEER_PATIENCE, why,
                              sizeof(why));
}

/* Bytes as they are; false: they are not taken. */
static __attribute__((unused)) bool peer_put(struct peer *p, const void *bytes, size_t n)
{
        struct stream_hand hand = { .deadline = loop_now_ms() + PEER_PATIENCE };

        return stream_send(&p->stream, bytes, n, &hand) == 1;
}

/* After ICResp; NULL if it is not to be had. */
static struct peer *peer_open(const struct target *t, struct peer_options o)
{
        struct tcp_host_config cfg = {
                .hpda = o.hpda,
                .hdgst = o.hdgst,
                .ddgst = o.ddgst,
                .maxr2t = 1,
                .depth = o.depth ? o.depth : 127,
                .in_capsule = PDU_ADMIN_IN_CAPSULE,
                .limits = { .depth_max = 1024, .r2ts_max = 1024 },
        };
        struct peer *p = calloc(1, sizeof(*p));

        peer_stream(t, &p->stream);
        p->rx = malloc(PEER_RX);
        p->h = tcp_host_new(&cfg, p);
        p->link = tcp_host_link(p->h);
        framer_attach(&p->link->rx, p->rx, PEER_RX);
        tcp_host_start(p->h);
        while (!tcp_host_ready(p->h) && !p->closed && peer_pump(p, PEER_PATIENCE))
                ;
        return p;
}

static void peer_close(struct peer *p)
{
        link_kill(p->link);
        tcp_host_fail_all(p->h, NVME_ABORT_SQ_DELETED);
        stream_close(&p->stream, false);
        tcp_host_free(p->h);
        free(p->rx);
        free(p);
}

static uint16_t peer_connect_queue(struct peer *p, const char *nqn, uint16_t qid, uint16_t cntlid,
                                   uint16_t entries)
{
        struct connect_data data = { .hostid = { peer_host, 2, 3 }, .cntlid = le16(cntlid) };
        struct peer_cmd c = {
                .cmd = { .data = (uint8_t *)&data, .len = sizeof(data), .xfer = XFER_H2C }
        };

        strcpy(data.subnqn, nqn);
        strcpy(data.hostnqn, PEER_HOSTNQN);
        c.cmd.sqe.connect.opc = NVME_FABRICS;
        c.cmd.sqe.connect.fctype = FCTYPE_CONNECT;
        c.cmd.sqe.connect.qid = le16(qid);
        c.cmd.sqe.connect.sqsize = le16((uint16_t)(entries - 1));
        c.cmd.sqe.connect.cattr = CATTR_DISABLE_SQFC;
        c.cmd.sqe.connect.kato = le32(qid == 0 ? 120000 : 0);
        if (peer_run(p, &c) == NVME_SUCCESS)
                p->cntlid = le16_get((le16_t) { { c.cmd.cqe.dw0.b[0], c.cmd.cqe.dw0.b[1] } });
        return c.done ? c.status : PEER_NEVER;
}

static uint16_t peer_enable(struct peer *p)
{
        struct peer_cmd c = { 0 };

        c.cmd.sqe.property.opc = NVME_FABRICS;
        c.cmd.sqe.property.fctype = FCTYPE_PROPERTY_SET;
        c.cmd.sqe.property.ofst = le32(PROP_CC);
        c.cmd.sqe.property.value = le64(CC_EN | CC_IOSQES | CC_IOCQES);
        return peer_run(p, &c);
}

/* An admin queue, enabled, with I/O queues granted; NULL if a step fails. */
static struct peer *peer_admin(const struct target *t, const char *nqn, struct peer_options o)
{
        struct peer *p = peer_open(t, o);
        struct peer_cmd queues = { .cmd.sqe = { .opc = NVME_SET_FEATURES,
                                                .cdw10 = le32(FEAT_QUEUES),
                                                .cdw11 = le32(0x003f003f) } };

        if (peer_connect_queue(p, nqn, 0, CNTLID_DYNAMIC, 32) == NVME_SUCCESS &&
            peer_enable(p) == NVME_SUCCESS && peer_run(p, &queues) == NVME_SUCCESS)
                return p;
        peer_close(p);
        return NULL;
}

/* An I/O queue of the controller of `admin`; NULL if a step fails. */
static struct peer *peer_io(const struct target *t, const char *nqn, const struct peer *admin,
                            uint16_t qid, struct peer_options o)
{
        struct peer *p = peer_open(t, o);
        uint16_t depth = o.depth ? o.depth : 127;

        if (peer_connect_queue(p, nqn, qid, admin->cntlid, (uint16_t)(depth + 1)) == NVME_SUCCESS) {
                tcp_host_set_in_capsule(p->h, 8192);
                return p;
        }
        peer_close(p);
        return NULL;
}

static struct peer_cmd peer_rw(uint8_t opc, uint32_t nsid, uint64_t lba, uint32_t blocks,
                               uint8_t *data, uint32_t len)
{
        struct peer_cmd c = { .cmd = { .data = data, .len = len } };

        c.cmd.sqe.opc = opc;
        c.cmd.sqe.nsid = le32(nsid);
        c.cmd.sqe.cdw10 = le32((uint32_t)lba);
        c.cmd.sqe.cdw11 = le32((uint32_t)(lba >> 32));
        c.cmd.sqe.cdw12 = le32(blocks - 1);
        c.cmd.xfer = len > 0 ? sqe_xfer(&c.cmd.sqe) : XFER_NONE;
        return c;
}

#endif
