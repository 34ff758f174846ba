/* SPDX-License-Identifier: BSD-3-Clause */
#include "session.h"

#include <stdlib.h>

#include "fuzz.h"
#include "pdu/machine/tcp_controller.h"
#include "pdu/machine/tcp_host.h"
#include "pdu/wire/fabrics.h"
#include "seq_bind.h"

enum { BLOCK = 512, BLOCKS = 64, PARKED = 128, COMMANDS = 6, DATA = 8192, IDLE = 1024 };

struct play {
        const struct sequence *s;
        struct session_report *r;
        struct seq_bind bind;
        struct tcp_controller *c; /* one of the two */
        struct tcp_host *h;
        struct link *link;
        struct framer ear; /* for what the machine says */
        struct rule_policy policy;
        bool closed, term_heard, deaf;

        /* the owner of the controller's side */
        struct request *parked[PARKED];
        unsigned n_parked, buffers;
        uint16_t sq_size, sq_head, qid;
        bool connected, no_flow_control;

        /* the owner of the host's side */
        struct host_cmd cmd[COMMANDS];
        bool busy[COMMANDS];
        unsigned submitted;
};

static uint8_t room_in[FRAMER_BUFFER_MIN], room_ear[FRAMER_BUFFER_MIN], said[BIND_ROOM];
static uint8_t disk[BLOCK * BLOCKS], host_data[COMMANDS][DATA];

static bool is(const struct play *p, unsigned bit)
{
        return p->s->config & bit;
}

static uint8_t pda_of(const struct play *p)
{
        return p->s->config >> SESSION_PDA_SHIFT & ((1 << SESSION_PDA) - 1);
}

/* --- the owner of the controller's side --------------------------------------------------------- */

static uint16_t admit_io(struct request *r)
{
        uint32_t blocks = (le32_get(r->sqe.cdw12) & RW_NLB_MASK) + 1;

        r->xfer = sqe_xfer(&r->sqe);
        if (r->xfer == XFER_NONE)
                return 0;
        r->len = blocks * BLOCK;
        if (r->sqe.opc == NVME_READ || r->sqe.opc == NVME_WRITE)
                return blocks > BLOCKS || le32_get(r->sqe.cdw10) > BLOCKS - blocks ? NVME_LBA_RANGE
                                                                                   : 0;
        return 0;
}

static uint16_t admit_admin(struct request *r)
{
        r->xfer = sqe_xfer(&r->sqe);
        r->len =
            r->sqe.opc == NVME_IDENTIFY ? IDENTIFY_LEN : le32_get(r->sqe.sgl.len) % 20000 & ~3u;
        if (r->sqe.opc == NVME_SET_FEATURES || r->sqe.opc == NVME_GET_FEATURES)
                r->len = (le32_get(r->sqe.cdw10) & 0xff) == FEAT_HOSTID ? 16 : 0;
        return 0;
}

static uint16_t admit(void *user, struct request *r)
{
        struct play *p = user;

        p->sq_head++;
        if (r->sqe.opc == NVME_FABRICS && r->sqe.fctype == FCTYPE_CONNECT) {
                r->xfer = XFER_H2C;
                r->len = CONNECT_DATA_LEN;
                return p->connected ? NVME_SEQUENCE_ERROR : 0;
        }
        if (!p->connected)
                return NVME_SEQUENCE_ERROR;
        if (r->sqe.opc == NVME_FABRICS)
                return 0;
        return p->qid == 0 ? admit_admin(r) : admit_io(r);
}

static void connect_queue(struct play *p, struct request *r)
{
        const struct connect_cmd *cmd = &r->sqe.connect;
        unsigned entries = le16_get(cmd->sqsize) + 1u;

        if (p->connected || entries < 2 || entries > 128 ||
            tcp_controller_set_depth(p->c, entries) != 0) {
                r->cqe.sf = status_field(NVME_CONNECT_PARAM);
                return;
        }
        p->sq_size = (uint16_t)entries;
        p->sq_head = 1;
        p->no_flow_control = cmd->cattr & CATTR_DISABLE_SQFC;
        p->qid = le16_get(cmd->qid);
        p->connected = true;
        r->cqe.dw0 = le32(1);
}

static void carry_out(struct play *p, struct request *r)
{
        uint32_t digest = FUZZ_DIGEST_START;

        if (r->xfer == XFER_H2C)
                fuzz_digest(&digest, r->data, r->len);
        if (r->sqe.opc == NVME_FABRICS && r->sqe.fctype == FCTYPE_CONNECT) {
                connect_queue(p, r);
        } else if (r->xfer == XFER_C2H) {
                for (uint32_t i = 0, n; i < r->len; i += n) {
                        n = r->len - i < sizeof(disk) ? r->len - i : (uint32_t)sizeof(disk);
                        memcpy(r->data + i, disk, n);
                }
                r->c2h_len = r->len;
        } else if (r->sqe.opc == NVME_WRITE && p->qid > 0) {
                memcpy(disk + (size_t)le32_get(r->sqe.cdw10) * BLOCK, r->data, r->len);
        }
}

static void execute(void *user, struct request *r)
{
        struct play *p = user;

        r->success_ok = is(p, SESSION_SUCCESS) && p->no_flow_control;
        carry_out(p, r);
        if (!is(p, SESSION_DEFERS) || p->n_parked == PARKED)
                tcp_controller_complete(p->c, r);
        else
                p->parked[p->n_parked++] = r;
}

/* The youngest first: answers need not come in the order of the commands. */
static void unpark(struct play *p)
{
        while (p->n_parked > 0)
                tcp_controller_complete(p->c, p->parked[--p->n_parked]);
}

static uint8_t *buffer_get(void *user, uint32_t len, uint32_t *lkey)
{
        struct play *p = user;
        uint8_t *buf = NULL;

        (void)lkey;
        if (!is(p, SESSION_HUNGRY) || p->buffers == 0)
                buf = malloc(len); /* of just that size: a byte too far is seen */
        p->buffers += buf != NULL;
        return buf;
}

static void buffer_put(void *user, uint8_t *buf, uint32_t len)
{
        struct play *p = user;

        memset(buf, 0xee, len); /* whoever still looks at it will see */
        p->buffers--;
        free(buf);
}

static void completing(void *user, struct request *r)
{
        struct play *p = user;
        unsigned head = p->sq_head;

        if (p->sq_size > 0)
                head %= p->sq_size;
        if (p->no_flow_control)
                head = r->sqe.opc == NVME_FABRICS ? SQHD_DISABLED : 0;
        r->cqe.sqhd = le16((uint16_t)head);
}

static bool begin_controller(struct play *p)
{
        static const struct request_ops ops = { .admit = admit,
                                                .execute = execute,
                                                .buffer_get = buffer_get,
                                                .buffer_put = buffer_put,
                                                .completing = completing };
        const struct tcp_controller_config cfg = {
                .cpda = pda_of(p),
                .hdgst = !is(p, SESSION_DIGESTS),
                .ddgst = !is(p, SESSION_DIGESTS),
                .maxh2cdata = is(p, SESSION_SHORT) ? 4096 : 131072,
                .io_in_capsule = is(p, SESSION_NO_ICD) ? 0 : 8192,
                .max_transfer = 1 << 17,
                .c2h_max = is(p, SESSION_SHORT) ? 1024 : 0,
                .r2t_max = is(p, SESSION_SHORT) ? 1024 : 0,
                .r2t_window = is(p, SESSION_WINDOW) ? 4 : 1,
                .limits = { .depth_max = 128, .r2ts_max = 64 },
                .policy = &p->policy,
        };

        p->c = tcp_controller_new(&cfg, &ops, p);
        if (p->c)
                p->link = tcp_controller_link(p->c);
        return p->c != NULL;
}

static void end_controller(struct play *p)
{
        link_kill(p->link);
        unpark(p);
        must(tcp_controller_executing(p->c) == 0);
        tcp_controller_free(p->c);
        must(p->buffers == 0);
}

/* --- the owner of the host's side --------------------------------------------------------------- */

static void done(struct host_cmd *cmd, void *user)
{
        struct play *p = user;

        must(p->busy[cmd - p->cmd]);
        must(cmd->got <= cmd->len || cmd->xfer != XFER_C2H || is(p, SESSION_WAIVED));
        p->busy[cmd - p->cmd] = false;
}

static void submit_one(struct play *p, unsigned i)
{
        static const uint8_t admin[] = { NVME_FABRICS, NVME_IDENTIFY, NVME_AER, NVME_SET_FEATURES };
        static const uint8_t io[] = { NVME_FABRICS, NVME_READ, NVME_WRITE, NVME_FLUSH };
        const uint8_t *opcodes = is(p, SESSION_IO) ? io : admin;
        unsigned n = p->submitted;
        struct host_cmd *cmd = &p->cmd[i];

        *cmd = (struct host_cmd) { .done = done, .user = p };
        cmd->sqe.opc = opcodes[n == 0 ? 0 : 1 + (n - 1) % 3];
        if (n == 0) {
                cmd->sqe.fctype = FCTYPE_CONNECT;
                cmd->sqe.connect.sqsize = le16(ADMIN_SQ_MIN - 1);
                cmd->sqe.connect.qid = le16(is(p, SESSION_IO) ? 1 : 0);
        }
        cmd->xfer = sqe_xfer(&cmd->sqe);
        if (cmd->sqe.opc == NVME_SET_FEATURES)
                cmd->xfer = XFER_NONE;
        cmd->command_buffer = n % 2;
        if (cmd->xfer != XFER_NONE) {
                cmd->data = n % 5 == 4 && cmd->xfer == XFER_C2H ? NULL : host_data[i];
                cmd->len = n == 0 ? CONNECT_DATA_LEN : n % 3 == 0 ? 4096 : DATA;
        }
        p->busy[i] = true;
        if (tcp_host_submit(p->h, cmd) == 0)
                p->submitted++;
        else
                p->busy[i] = false;
}

static void submit(struct play *p)
{
        if (!tcp_host_ready(p->h))
                return;
        for (unsigned i = 0; i < COMMANDS; i++)
                if (!p->busy[i])
                        submit_one(p, i);
}

static bool begin_host(struct play *p)
{
        const struct tcp_host_config cfg = {
                .hpda = pda_of(p),
                .hdgst = is(p, SESSION_DIGESTS),
                .ddgst = is(p, SESSION_DIGESTS),
                .require_digests = is(p, SESSION_REQUIRES),
                .maxr2t = is(p, SESSION_WINDOW) ? 4 : 1,
                .depth = is(p, SESSION_HUNGRY) ? 2 : 31,
                .in_capsule = is(p, SESSION_NO_ICD) ? 0 : 8192,
                .limits = { .depth_max = 64, .r2ts_max = 16 },
                .policy = &p->policy,
        };

        p->h = tcp_host_new(&cfg, p);
        if (!p->h)
                return false;
        p->link = tcp_host_link(p->h);
        tcp_host_start(p->h);
        return true;
}

static void end_host(struct play *p)
{
        tcp_host_fail_all(p->h, NVME_TRANSIENT_TRANSPORT);
        must(tcp_host_outstanding(p->h) == 0);
        for (unsigned i = 0; i < COMMANDS; i++)
                must(!p->busy[i]);
        tcp_host_free(p->h);
}

/* --- what the machine says ---------------------------------------------------------------------- */

static bool is_term(const union pdu *h)
{
        return h->ch.type == PDU_H2C_TERM || h->ch.type == PDU_C2H_TERM;
}

static void heard(struct play *p)
{
        const union pdu *h = framer_header(&p->ear);
        const uint8_t *data = framer_data(&p->ear);

        must(!p->term_heard);
        must(!framer_ddgst_bad(&p->ear));
        p->r->pdus++;
        fuzz_digest(&p->r->digest, h, is_term(h) ? 1 : h->ch.hlen);
        if (data && !is_term(h))
                fuzz_digest(&p->r->digest, data, framer_data_len(&p->ear));
        if (p->r->pdu)
                p->r->pdu(p->r->user, peer_of(p->s->side), h);
        p->term_heard = is_term(h);
        seq_bind_heard(&p->bind, h);
        if (h->ch.type == PDU_ICRESP)
                framer_negotiated(&p->ear, track_format(p->link->track, PARTY_CONTROLLER));
}

static void listen_to(struct play *p, const uint8_t *bytes, size_t n)
{
        struct iovec iov[2];
        enum framer_event e;

        p->r->heard += n;
        for (size_t len; n > 0 && !p->deaf; bytes += len, n -= len) {
                framer_recv_iov(&p->ear, iov);
                len = iov[0].iov_len < n ? iov[0].iov_len : n;
                memcpy(iov[0].iov_base, bytes, len);
                framer_received(&p->ear, len);
                while ((e = framer_next(&p->ear)) != FRAMER_MORE && e != FRAMER_FAULT)
                        if (e == FRAMER_PDU)
                                heard(p);
                if (e == FRAMER_FAULT) { /* who takes anything may come to say anything */
                        must(is(p, SESSION_WAIVED));
                        p->deaf = true;
                        return;
                }
        }
}

/* Takes all that the machine has to say. */
static void hear(struct play *p)
{
        struct iovec iov[8];
        int n;

        if (p->h) /* since ICResp came */
                framer_negotiated(&p->ear, track_format(p->link->track, PARTY_HOST));
        while ((n = link_send_iov(p->link, iov, 8)) > 0) {
                size_t bytes = 0;

                for (int i = 0; i < n; i++) {
                        must(iov[i].iov_len > 0);
                        listen_to(p, iov[i].iov_base, iov[i].iov_len);
                        bytes += iov[i].iov_len;
                }
                link_sent(p->link, bytes);
        }
}

/* --- what it is told ---------------------------------------------------------------------------- */

/* It may have to wait until something was answered: then it is. Sooner or later it has to go on. */
static void handle(struct play *p, size_t n)
{
        unsigned idle = 0;
        uint64_t before;

        if (p->h) {
                tcp_host_received(p->h, n);
                return;
        }
        while (tcp_controller_received(p->c, n, is(p, SESSION_BUDGET) ? 1 : 0)) {
                n = 0;
                before = p->r->heard;
                hear(p);
                if (p->r->heard != before)
                        continue;
                unpark(p);
                tcp_controller_buffers(p->c);
                if (idle++ < IDLE)
                        continue;
                must(is(p,
                        SESSION_WAIVED)); /* who may overrun the queue may have it wait for ever */
                p->closed = true;
                return;
        }
}

static void tell(struct play *p, const uint8_t *bytes, size_t n)
{
        struct iovec iov[2];

        while (n > 0 && p->link->state < LINK_CLOSING && !p->closed) {
                int iovs = link_recv_iov(p->link, iov);
                size_t done = 0;

                for (int i = 0; i < iovs && done < n; i++) {
                        size_t len = iov[i].iov_len < n - done ? iov[i].iov_len : n - done;

                        must(len > 0);
                        memcpy(iov[i].iov_base, bytes + done, len);
                        done += len;
                }
                handle(p, done);
                bytes += done;
                n -= done;
        }
}

static void tell_cut(struct play *p, const struct seq_step *step, int cuts, size_t n)
{
        size_t at = 0;

        for (unsigned i = 0; cuts == SESSION_DECLARED && i < step->cuts; i++)
                if (step->cut[i] < n) {
                        tell(p, said + at, step->cut[i] - at);
                        at = step->cut[i];
                }
        /* headers, digests and padding byte by byte, long data in pieces of an odd size */
        for (size_t len; cuts == SESSION_BYTES && at < n; at += len) {
                len = at < 300 || n - at < 16 ? 1 : n - at - 15 < 509 ? n - at - 15 : 509;
                tell(p, said + at, len);
        }
        tell(p, said + at, n - at);
}

static void say(struct play *p, const struct seq_step *step, int cuts)
{
        size_t n = seq_bind_say(&p->bind, p->s, step, said);

        if (p->r->pdu && step->kind == SEQ_PDU && n >= sizeof(struct pdu_ch)) {
                union pdu h = { 0 };

                memcpy(&h, said, n < sizeof(h) ? n : sizeof(h));
                p->r->pdu(p->r->user, p->s->side, &h);
        }
        tell_cut(p, step, cuts, n);
}

/* --- all of it ---------------------------------------------------------------------------------- */

/* Between two steps: what is due is done, and what is said is heard. */
static void turn(struct play *p)
{
        hear(p);
        if (p->h) {
                submit(p);
        } else {
                if (!is(p, SESSION_DEFERS))
                        unpark(p);
                tcp_controller_buffers(p->c);
                handle(p, 0);
        }
        hear(p);
}

static void play_step(struct play *p, const struct seq_step *step, int cuts)
{
        p->r->steps++;
        switch (step->kind) {
        case SEQ_PDU:
        case SEQ_RAW:
                say(p, step, cuts);
                break;
        case SEQ_DELAY:
                if (p->c)
                        unpark(p);
                break;
        case SEQ_CLOSE:
        case SEQ_RESET:
                p->closed = true;
                break;
        }
}

static bool begin(struct play *p)
{
        bool ok;

        memset(disk, 0x11, sizeof(disk));
        memset(host_data, 0x22, sizeof(host_data));
        fuzz_scarce(p->s->scarce);
        ok = p->s->side == PARTY_HOST ? begin_controller(p) : begin_host(p);
        if (!ok)
                return false;
        framer_attach(&p->link->rx, room_in, sizeof(room_in));
        framer_init(&p->ear, peer_of(p->s->side), NULL);
        framer_attach(&p->ear, room_ear, sizeof(room_ear));
        return true;
}

static void report(struct play *p)
{
        p->r->fault = p->link->fault;
        p->r->terminated = p->term_heard;
        p->r->end = link_state_name(p->link->state);
        must(!p->term_heard || p->link->state >= LINK_TERMINATING);
}

void session_play(const struct sequence *s, int cuts, struct session_report *r)
{
        struct play p = { .s = s, .r = r };

        *r = (struct session_report) {
                .digest = FUZZ_DIGEST_START, .end = "no memory", .pdu = r->pdu, .user = r->user
        };
        if (s->config & SESSION_WAIVED)
                p.policy.waived = *fuzz_all_rules();
        seq_bind_init(&p.bind, s->side, "nqn.2014-08.org.nvmexpress:uuid:fuzz", "nqn.fuzz");
        if (begin(&p)) {
                turn(&p);
                for (unsigned i = 0; i < s->steps && !p.closed; i++) {
                        play_step(&p, &s->step[i], cuts);
                        turn(&p);
                }
                report(&p);
                if (p.c)
                        end_controller(&p);
                else
                        end_host(&p);
        }
        fuzz_scarce(0);
}
