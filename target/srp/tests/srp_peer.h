/* SPDX-License-Identifier: BSD-3-Clause */
/* An initiator of few words, everything by hand: raw information units and descriptors, right or wrong. One context each;
 * whose thread calls owns it. */
#ifndef NVMF_TARGET_SRP_TESTS_SRP_PEER_H
#define NVMF_TARGET_SRP_TESTS_SRP_PEER_H

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pdu/io/loop.h"
#include "pdu/io/verbs/verbs_memory.h"
#include "pdu/scsi/scsi.h"
#include "pdu/srp/wire/srp.h"

enum {
        PEER_ARENA = 4 << 20, /* memory that the target may reach */
        PEER_IU = 8320,
        PEER_SENDS = 160,
        PEER_RECVS = 160,
        PEER_RECV_BYTES = 320,
        PEER_IMM_AT = 68,
        PEER_PATIENCE = 30000, /* ms */
};

struct srp_peer_options {
        uint8_t flags;  /* of the login */
        uint32_t it_iu; /* 0: PEER_IU less than which the target grants 8260 */
        uint16_t formats;
        uint8_t initiator; /* tells initiators apart */
        bool native;       /* an IU of 64 bytes */
        bool no_reads, no_receives;
        uint8_t reads;    /* 0: 16 */
        const void *data; /* in place of the login */
        uint8_t len;
};

struct srp_peer {
        struct verbs_provider *v;
        struct verbs_context *context;
        struct verbs_ep *ep;
        struct verbs_domain *domain;
        struct verbs_mr mr;
        uint8_t *arena, *ius; /* sends, then receives */
        struct verbs_wr send[PEER_SENDS], recv[PEER_RECVS];
        unsigned sent;
        bool out[PEER_SENDS];
        struct srp_login_req asked;
        struct srp_peer_options o;
        bool resolved, established, rejected, disconnected, failed;
        struct srp_login_rsp rsp;
        struct srp_login_rej rej;
        int64_t limit;
        struct srp_got {
                uint8_t p[PEER_RECV_BYTES];
                uint32_t n;
        } got[512];
        unsigned got_n, read;
        uint64_t tag; /* of the next request */
        /* Lets the rest of the world go on; NULL: it has a thread. */
        void (*go_on)(void *arg);
        void *arg;
};

/* --- what comes ------------------------------------------------------------------------------- */

static inline void peer_note(struct srp_peer *p, const struct verbs_event *e)
{
        union srp_iu iu;

        p->resolved |= e->type == VERBS_RESOLVED;
        p->disconnected |= e->type == VERBS_DISCONNECTED;
        p->failed |= e->type == VERBS_UNREACHABLE || e->type == VERBS_CONNECT_ERROR;
        if (e->type == VERBS_ESTABLISHED) {
                p->established = true;
                if (srp_read(e->data, e->param.len, &iu) && iu.opcode == SRP_LOGIN_RSP) {
                        p->rsp = iu.login_rsp;
                        p->limit = (int32_t)be32_get(iu.login_rsp.req_lim_delta);
                }
        }
        if (e->type == VERBS_REJECTED) {
                p->rejected = true;
                if (srp_read(e->data, e->param.len, &iu) && iu.opcode == SRP_LOGIN_REJ)
                        p->rej = iu.login_rej;
        }
}

static inline void peer_post_recv(struct srp_peer *p, struct verbs_wr *wr)
{
        struct verbs_wr *bad;

        wr->next = NULL;
        if (p->o.no_receives)
                return;
        if (!p->disconnected && !p->failed && verbs_post_recv(p->ep, wr, &bad) < 0)
                p->failed = true;
}

static inline void peer_take(struct srp_peer *p, const struct verbs_wc *wc)
{
        struct srp_got *g = &p->got[p->got_n % 512];
        union srp_iu iu;

        if (wc->status != VERBS_SUCCESS) {
                p->failed = true;
                return;
        }
        if (wc->wr->op != VERBS_RECV) {
                p->out[wc->wr - p->send] = false;
                return;
        }
        memcpy(g->p, wc->wr->sge[0].addr, wc->bytes);
        g->n = wc->bytes;
        p->got_n++;
        if (srp_read(g->p, g->n, &iu) && srp_info(iu.opcode)->grants)
                p->limit += (int32_t)be32_get(iu.rsp.req_lim_delta);
        peer_post_recv(p, wc->wr);
}

static inline bool peer_poll(struct srp_peer *p)
{
        struct verbs_event e;
        struct verbs_wc wc[16];
        bool any = false;
        int n;

        while (verbs_event(p->context, &e)) {
                peer_note(p, &e);
                any = true;
        }
        while (p->domain && (n = verbs_poll(p->domain, wc, 16)) > 0) {
                for (int i = 0; i < n; i++)
                        peer_take(p, &wc[i]);
                any = true;
        }
        return any;
}

static inline void peer_pump(struct srp_peer *p)
{
        struct pollfd fds[8];
        int fd[8], n;

        if (p->go_on) {
                p->go_on(p->arg);
                (void)peer_poll(p);
                return;
        }
        verbs_memory_do(p->v, NULL, NULL); /* a slow one goes on */
        if (peer_poll(p))
                return;
        verbs_arm(p->context);
        if (peer_poll(p))
                return;
        n = verbs_fds(p->context, fd, 8);
        for (int i = 0; i < n; i++)
                fds[i] = (struct pollfd) { .fd = fd[i], .events = POLLIN };
        poll(fds, (nfds_t)n, 10);
        (void)peer_poll(p);
}

static inline bool peer_until(struct srp_peer *p, const bool *what)
{
        uint64_t until = loop_now_ms() + PEER_PATIENCE;

        while (!*what && !p->rejected && !p->failed && loop_now_ms() < until)
                peer_pump(p);
        return *what;
}

/* The target has ended it. */
static inline bool peer_closed(struct srp_peer *p)
{
        uint64_t until = loop_now_ms() + PEER_PATIENCE;

        while (!p->disconnected && !p->failed && loop_now_ms() < until)
                peer_pump(p);
        return p->disconnected || p->failed;
}

/* The next IU; NULL: none comes. */
static inline const struct srp_got *peer_next(struct srp_peer *p)
{
        uint64_t until = loop_now_ms() + PEER_PATIENCE;

        while (p->read == p->got_n && !p->disconnected && !p->failed && loop_now_ms() < until)
                peer_pump(p);
        return p->read < p->got_n ? &p->got[p->read++ % 512] : NULL;
}

/* For so many ms nothing comes. */
static inline bool peer_is_silent(struct srp_peer *p, unsigned ms)
{
        uint64_t until = loop_now_ms() + ms;

        while (p->read == p->got_n && loop_now_ms() < until)
                peer_pump(p);
        return p->read == p->got_n;
}

/* --- connections ------------------------------------------------------------------------------ */

static inline bool peer_build(struct srp_peer *p)
{
        struct verbs_qp_attr attr = { .send_wrs = PEER_SENDS, .recv_wrs = PEER_RECVS };
        uint8_t *recvs = p->ius + (size_t)PEER_SENDS * PEER_IU;

        p->domain = verbs_domain(p->ep);
        if (!p->domain || verbs_grow_cq(p->domain, PEER_SENDS + PEER_RECVS) < 0 ||
            verbs_reg(p->domain, p->arena, PEER_ARENA, VERBS_REMOTE_READ | VERBS_REMOTE_WRITE,
                      &p->mr) < 0 ||
            verbs_qp(p->ep, &attr) < 0)
                return false;
        for (unsigned i = 0; i < PEER_RECVS; i++) {
                p->recv[i] = (struct verbs_wr) {
                        .op = VERBS_RECV,
                        .n_sge = 1,
                        .sge = { { recvs + (size_t)i * PEER_RECV_BYTES, PEER_RECV_BYTES,
                                   p->mr.lkey } },
                };
                peer_post_recv(p, &p->recv[i]);
        }
        return !p->failed;
}

static inline struct srp_login_req peer_login(const struct srp_peer_options *o)
{
        struct srp_login_req r = {
                .opcode = SRP_LOGIN_REQ,
                .tag = be64(77),
                .req_it_iu_len = be32(o->it_iu ? o->it_iu : 8260),
                .req_buf_fmt =
                    be16(o->formats ? o->formats : SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT),
                .req_flags = o->flags,
                .imm_data_offset = be16(o->flags & SRP_IMMEDIATE ? PEER_IMM_AT : 0),
                .initiator_port_id = "an initiator",
                .target_port_id = "a target",
        };

        r.initiator_port_id[15] = o->initiator;
        return r;
}

static inline void peer_connect(struct srp_peer *p)
{
        struct srp_login_req_cm cm = srp_login_to_cm(&p->asked);
        struct verbs_conn_param param = {
                .data = p->o.data     ? p->o.data
                        : p->o.native ? (const void *)&p->asked
                                      : (const void *)&cm,
                .len = p->o.data     ? p->o.len
                       : p->o.native ? sizeof(p->asked)
                                     : sizeof(cm),
                .reads_in = p->o.no_reads ? 0
                            : p->o.reads  ? p->o.reads
                                          : 16,
                .rnr_retry = 7,
                .retry = 7,
        };

        verbs_connect(p->ep, &param);
}

static inline struct srp_peer *peer_new(struct verbs_provider *v, struct srp_peer_options o)
{
        struct srp_peer *p = calloc(1, sizeof(*p));

        p->v = v;
        p->o = o;
        p->asked = peer_login(&o);
        p->arena =
            mmap(NULL, PEER_ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        p->ius = p->arena + (2 << 20);
        p->context = verbs_open(v);
        return p;
}

/* Until the target has accepted or rejected it. */
static inline struct srp_peer *peer_open(struct verbs_provider *v, const char *addr,
                                         const char *port, struct srp_peer_options o)
{
        struct srp_peer *p = peer_new(v, o);

        p->ep = verbs_resolve(p->context, addr, port, PEER_PATIENCE);
        if (!p->ep || !peer_until(p, &p->resolved) || !peer_build(p))
                return p;
        peer_connect(p);
        (void)peer_until(p, &p->established);
        return p;
}

static inline void peer_close(struct srp_peer *p)
{
        if (p->ep)
                verbs_destroy(p->ep);
        if (p->mr.len > 0)
                verbs_dereg(p->domain, &p->mr);
        verbs_close(p->context);
        munmap(p->arena, PEER_ARENA);
        free(p);
}

/* --- what is sent ----------------------------------------------------------------------------- */

/* An IU as it is. */
static inline void peer_send(struct srp_peer *p, const void *iu, uint32_t n)
{
        unsigned i = p->sent++ % PEER_SENDS;
        uint8_t *at = p->ius + (size_t)i * PEER_IU;
        struct verbs_wr *bad;

        while (p->out[i] && !p->failed)
                peer_pump(p);
        memcpy(at, iu, n);
        p->send[i] = (struct verbs_wr) { .op = VERBS_SEND,
                                         .flags = VERBS_SIGNALED,
                                         .n_sge = 1,
                                         .sge = { { at, n, p->mr.lkey } } };
        p->out[i] = true;
        if (p->disconnected || p->failed || verbs_post(p->ep, &p->send[i], &bad) < 0)
                p->failed = true;
}

struct peer_cmd { /* a command as it grows */
        uint8_t p[PEER_IU];
        uint32_t n;
        uint64_t tag;
};

static inline void cmd_begin(struct peer_cmd *c, uint64_t tag, uint32_t lun, const void *cdb,
                             size_t n)
{
        struct srp_cmd s = { .opcode = SRP_CMD, .tag = be64(tag), .lun = be64(scsi_lun_of(lun)) };

        memcpy(s.cdb, cdb, n);
        memset(c->p, 0, sizeof(c->p));
        memcpy(c->p, &s, sizeof(s));
        c->n = sizeof(s);
        c->tag = tag;
}

static inline void cmd_format(struct peer_cmd *c, bool out, uint8_t format, uint8_t count)
{
        c->p[5] |= (uint8_t)(out ? format << 4 : format);
        c->p[out ? 6 : 7] = count;
}

static inline struct srp_desc peer_desc(const struct srp_peer *p, size_t at, uint32_t len)
{
        return (struct srp_desc) { (uintptr_t)p->arena + at, p->mr.rkey, len };
}

static inline void cmd_direct(struct peer_cmd *c, bool out, struct srp_desc d)
{
        cmd_format(c, out, SRP_DIRECT, 0);
        srp_desc_put(c->p + c->n, &d);
        c->n += SRP_DESC_LEN;
}

static inline void cmd_indirect(struct peer_cmd *c, bool out, struct srp_desc table, uint32_t total,
                                const struct srp_desc *list, uint8_t in_line)
{
        cmd_format(c, out, SRP_INDIRECT, in_line);
        srp_desc_put(c->p + c->n, &table);
        be_put(c->p + c->n + SRP_DESC_LEN, 4, total);
        c->n += SRP_TABLE_LEN;
        for (uint8_t i = 0; i < in_line; i++, c->n += SRP_DESC_LEN)
                srp_desc_put(c->p + c->n, &list[i]);
}

static inline void cmd_immediate(struct peer_cmd *c, const void *data, uint32_t len)
{
        cmd_format(c, true, SRP_IMMEDIATE_DATA, 0);
        be_put(c->p + c->n, 4, len);
        memcpy(c->p + PEER_IMM_AT, data, len);
        c->n = PEER_IMM_AT + len;
}

/* READ(10) or WRITE(10), still without its data. */
static inline void cmd_rw(struct peer_cmd *c, uint64_t tag, uint32_t lun, bool write,
                          uint32_t block, uint16_t blocks)
{
        uint8_t cdb[10] = { write ? SCSI_WRITE_10 : SCSI_READ_10 };

        be_put(cdb + 2, 4, block);
        be_put(cdb + 7, 2, blocks);
        cmd_begin(c, tag, lun, cdb, sizeof(cdb));
}

static inline void peer_tsk_mgmt(struct srp_peer *p, uint64_t tag, uint32_t lun, uint8_t function,
                                 uint64_t task)
{
        struct srp_tsk_mgmt t = { .opcode = SRP_TSK_MGMT,
                                  .tag = be64(tag),
                                  .lun = be64(scsi_lun_of(lun)),
                                  .function = function,
                                  .task_tag = be64(task) };

        p->limit--;
        peer_send(p, &t, sizeof(t));
}

struct peer_rsp {
        struct srp_rsp rsp;
        struct scsi_sense sense;
        bool has_sense;
        int response; /* -1: none */
        int32_t delta;
};

/* The next response; false: none came. */
static inline bool peer_response(struct srp_peer *p, struct peer_rsp *r)
{
        const struct srp_got *g = peer_next(p);
        struct rule_set found = { 0 };
        struct srp_rsp_parts parts;

        *r = (struct peer_rsp) { .response = -1 };
        if (!g || g->p[0] != SRP_RSP || g->n < sizeof(r->rsp))
                return false;
        memcpy(&r->rsp, g->p, sizeof(r->rsp));
        (void)srp_rsp_read(g->p, g->n, &parts, &found);
        r->delta = (int32_t)be32_get(r->rsp.req_lim_delta);
        r->has_sense = parts.sense_len > 0 &&
                       scsi_sense_get(g->p + parts.sense_at, parts.sense_len, &r->sense);
        if (parts.resp_len == 4)
                r->response = g->p[parts.resp_at + 3];
        return true;
}

#endif
