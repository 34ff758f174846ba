/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both ends of an NVMe/TCP connection in memory: a tcp_host and a tcp_controller whose owner serves
 * a small disk. pair_pump() moves what each end wants to send into the other, in pieces of any
 * size.
 */
#ifndef NVMF_MACHINE_TESTS_PAIR_H
#define NVMF_MACHINE_TESTS_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pdu/nvme/machine/toy.h"
#include "pdu/nvme/tcp/tcp_controller.h"
#include "pdu/nvme/tcp/tcp_host.h"
#include "pdu/nvme/wire/fabrics.h"

enum { BLOCK = TOY_BLOCK, DISK_BLOCKS = 4096, DISK = BLOCK * DISK_BLOCKS };

/* --- the owner of the controller's side ------------------------------------------------------- */

struct owner {
        struct toy toy; /* first */
        struct tcp_controller *c;
};

/* Of its requests; NULL: none. */
static const struct request_faults *owner_faults __attribute__((unused));

/* Requests go down the list of states; r->user holds the last one. */
static inline void owner_trace(void *user, const struct request *r)
{
        (void)user;
        assert_true(r->state > (uintptr_t)r->user);
        ((struct request *)(uintptr_t)r)->user = (void *)(uintptr_t)r->state;
}

static inline const struct request_ops *owner_ops(void)
{
        static struct request_ops ops;

        ops = toy_ops;
        ops.trace = owner_trace;
        ops.faults = owner_faults;
        return &ops;
}

static inline void owner_init(struct owner *o, const struct tcp_controller_config *cfg)
{
        static uint8_t disk[DISK];

        *o = (struct owner) { .toy = { .disk = disk, .blocks = DISK_BLOCKS } };
        o->c = tcp_controller_new(cfg, owner_ops(), o);
        assert_non_null(o->c);
}

/* The connection is lost: what executes ends as ever, all buffers come back. */
static inline void owner_fini(struct owner *o)
{
        link_kill(tcp_controller_link(o->c));
        while (o->toy.parked)
                toy_complete(&o->toy);
        assert_int_equal(requests_executing(tcp_requests(o->c)), 0);
        tcp_controller_free(o->c);
        assert_int_equal(o->toy.buffers, 0);
}

/* --- bytes in memory -------------------------------------------------------------------------- */

static inline uint32_t pair_rand(uint64_t *seed)
{
        *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (uint32_t)(*seed >> 33);
}

/* A wire that changes bytes now and then. */
static inline void add_noise(uint8_t *p, size_t n, unsigned noise, uint64_t *seed)
{
        for (size_t i = 0; noise > 0 && i < n; i++)
                if (pair_rand(seed) % noise == 0)
                        p[i] = (uint8_t)pair_rand(seed);
}

/* Copies what `from` wants to send, at most `most` bytes (0: any number), to where `to` wants it;
 * the number of bytes. */
static inline size_t flow_noisy(struct link *from, struct link *to, size_t most, unsigned noise,
                                uint64_t *seed)
{
        struct iovec out[16], in[2];
        int outs = link_send_iov(from, out, 16), ins = link_recv_iov(to, in), i = 0;
        size_t done = 0;

        most = most > 0 ? most : SIZE_MAX;
        for (int o = 0; o < outs && i < ins && most > 0;) {
                size_t n = out[o].iov_len < in[i].iov_len ? out[o].iov_len : in[i].iov_len;

                n = n < most ? n : most;
                memcpy(in[i].iov_base, out[o].iov_base, n);
                add_noise(in[i].iov_base, n, noise, seed);
                out[o] = (struct iovec) { (uint8_t *)out[o].iov_base + n, out[o].iov_len - n };
                in[i] = (struct iovec) { (uint8_t *)in[i].iov_base + n, in[i].iov_len - n };
                o += out[o].iov_len == 0;
                i += in[i].iov_len == 0;
                done += n;
                most -= n;
        }
        link_sent(from, done);
        return done;
}

static inline size_t flow(struct link *from, struct link *to, size_t most)
{
        return flow_noisy(from, to, most, 0, NULL);
}

/* --- the pair --------------------------------------------------------------------------------- */

struct pair_config {
        struct tcp_controller_config controller;
        struct tcp_host_config host;
        uint16_t qid;
        bool no_flow_control;
        size_t most;     /* bytes moved at once: 0 any number, else 1 .. most at random */
        unsigned budget; /* of tcp_controller_received() */
};

struct pair {
        struct pair_config cfg;
        struct owner owner;
        struct tcp_host *host;
        uint8_t *controller_buf, *host_buf;
        uint64_t seed;
        size_t moved;   /* bytes so far, both ways */
        size_t stop;    /* the wire is cut after that many; 0: never */
        bool stalled;   /* the controller's side can take nothing before something was sent */
        unsigned noise; /* one byte in so many changes on its way; 0: none */
        uint64_t noise_seed;
};

static inline struct pair_config pair_defaults(void)
{
        static const struct track_limits limits = { .depth_max = 256, .r2ts_max = 64 };

        return (struct pair_config) {
                .controller = { .hdgst = true,
                                .ddgst = true,
                                .maxh2cdata = 131072,
                                .io_in_capsule = 8192,
                                .max_transfer = 1 << 20,
                                .r2t_window = 1,
                                .limits = limits },
                .host = { .maxr2t = 1, .depth = 31, .in_capsule = 8192, .limits = limits },
                .qid = 1,
        };
}

static inline struct link *pair_controller_link(struct pair *p)
{
        return tcp_controller_link(p->owner.c);
}

static inline struct link *pair_host_link(struct pair *p)
{
        return tcp_host_link(p->host);
}

static inline void pair_init(struct pair *p, const struct pair_config *cfg)
{
        *p = (struct pair) { .cfg = *cfg, .seed = 1 };
        owner_init(&p->owner, &p->cfg.controller);
        p->host = tcp_host_new(&p->cfg.host, p);
        assert_non_null(p->host);
        p->controller_buf = malloc(FRAMER_BUFFER_MIN);
        p->host_buf = malloc(FRAMER_BUFFER_MIN);
        framer_attach(&pair_controller_link(p)->rx, p->controller_buf, FRAMER_BUFFER_MIN);
        framer_attach(&pair_host_link(p)->rx, p->host_buf, FRAMER_BUFFER_MIN);
}

static inline void pair_fini(struct pair *p)
{
        tcp_host_fail_all(p->host, NVME_ABORT_SQ_DELETED);
        assert_int_equal(tcp_host_outstanding(p->host), 0);
        tcp_host_free(p->host);
        owner_fini(&p->owner);
        free(p->controller_buf);
        free(p->host_buf);
}

static inline size_t pair_piece(struct pair *p)
{
        size_t most = p->cfg.most > 1 ? pair_rand(&p->seed) % p->cfg.most + 1 : p->cfg.most;
        size_t left = p->stop > 0 ? p->stop - p->moved : most;

        return most > 0 && most < left ? most : left;
}

static inline bool pair_cut(const struct pair *p)
{
        return p->stop > 0 && p->moved >= p->stop;
}

static inline size_t pair_flow(struct pair *p, struct link *from, struct link *to)
{
        size_t n;

        if (pair_cut(p))
                return 0;
        n = flow_noisy(from, to, pair_piece(p), p->noise, &p->noise_seed);
        p->moved += n;
        return n;
}

static inline void pair_take(struct pair *p, size_t n)
{
        unsigned before;

        do {
                before = p->owner.toy.admitted;
                p->stalled = tcp_controller_received(p->owner.c, n, p->cfg.budget);
                n = 0;
        } while (p->stalled && p->owner.toy.admitted != before);
}

static inline size_t pair_to_controller(struct pair *p)
{
        size_t n;

        if (p->stalled)
                pair_take(p, 0);
        if (p->stalled)
                return 0;
        n = pair_flow(p, pair_host_link(p), pair_controller_link(p));
        if (n > 0)
                pair_take(p, n);
        return n;
}

static inline size_t pair_to_host(struct pair *p)
{
        size_t n = pair_flow(p, pair_controller_link(p), pair_host_link(p));

        if (n > 0)
                tcp_host_received(p->host, n);
        return n;
}

/* Until nothing moves any more. */
static inline void pair_pump(struct pair *p)
{
        size_t n;

        do {
                n = pair_to_controller(p) + pair_to_host(p);
                if (n == 0 && requests_need_buffers(tcp_requests(p->owner.c)) &&
                    p->owner.toy.buffers == 0) {
                        requests_buffers(tcp_requests(p->owner.c));
                        n = 1;
                } else if (n == 0 && p->owner.toy.parked) {
                        toy_complete(&p->owner.toy);
                        n = 1;
                }
        } while (n > 0);
}

static inline void count_done(struct host_cmd *cmd, void *user)
{
        (void)cmd;
        ++*(unsigned *)user;
}

/* Runs a command to its end: its status. */
static inline uint16_t pair_run(struct pair *p, struct host_cmd *cmd)
{
        unsigned done = 0;

        cmd->done = count_done;
        cmd->user = &done;
        assert_int_equal(tcp_host_submit(p->host, cmd), 0);
        pair_pump(p);
        assert_int_equal(done, 1);
        return cmd->status;
}

static inline struct host_cmd connect_command(uint16_t qid, uint16_t entries, bool no_flow_control)
{
        static uint8_t data[CONNECT_DATA_LEN];
        struct host_cmd cmd = { .data = data, .len = sizeof(data), .xfer = XFER_H2C };

        cmd.sqe.connect = (struct connect_cmd) {
                .opc = NVME_FABRICS,
                .fctype = FCTYPE_CONNECT,
                .qid = le16(qid),
                .sqsize = le16((uint16_t)(entries - 1)),
                .cattr = no_flow_control ? CATTR_DISABLE_SQFC : 0,
        };
        return cmd;
}

static inline struct host_cmd io_command(uint8_t opc, uint32_t lba, void *data, uint32_t len)
{
        struct host_cmd cmd = { .data = data, .len = len };

        cmd.sqe.opc = opc;
        cmd.sqe.nsid = le32(1);
        cmd.sqe.cdw10 = le32(lba);
        cmd.sqe.cdw12 = le32(len > 0 ? len / BLOCK - 1 : 0);
        cmd.xfer = sqe_xfer(&cmd.sqe);
        return cmd;
}

/* ICReq to Connect. */
static inline void pair_connect(struct pair *p)
{
        struct host_cmd connect =
            connect_command(p->cfg.qid, (uint16_t)(p->cfg.host.depth + 1), p->cfg.no_flow_control);

        tcp_host_start(p->host);
        pair_pump(p);
        assert_true(tcp_host_ready(p->host));
        assert_int_equal(pair_run(p, &connect), 0);
}

static inline void pair_open(struct pair *p, const struct pair_config *cfg)
{
        pair_init(p, cfg);
        pair_connect(p);
}

#endif
