/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions with the machines of NVMe/TCP. */
#include "pdu/nvme/tcp/tcp_controller.h"
#include "pdu/nvme/tcp/tcp_host.h"
#include "session_own.h"

enum { IDLE = 1024 };

struct tcp_play {
        struct play p;
        struct tcp_controller *c; /* one of the two */
        struct tcp_host *h;
        struct link *link;
        struct framer ear; /* for what the machine says */
        bool term_heard, deaf;
};

static uint8_t room_in[FRAMER_BUFFER_MIN], room_ear[FRAMER_BUFFER_MIN], said[BIND_ROOM];

/* --- the machine -------------------------------------------------------------------------------- */

static int submit(struct play *p, struct host_cmd *cmd)
{
        return tcp_host_submit(((struct tcp_play *)p)->h, cmd);
}

static bool begin_controller(struct tcp_play *t)
{
        const struct tcp_controller_config cfg = {
                .cpda = pda_of(&t->p),
                .hdgst = !is(&t->p, SESSION_DIGESTS),
                .ddgst = !is(&t->p, SESSION_DIGESTS),
                .maxh2cdata = is(&t->p, SESSION_SHORT) ? 4096 : 131072,
                .io_in_capsule = is(&t->p, SESSION_NO_ICD) ? 0 : 8192,
                .max_transfer = 1 << 17,
                .c2h_max = is(&t->p, SESSION_SHORT) ? 1024 : 0,
                .r2t_max = is(&t->p, SESSION_SHORT) ? 1024 : 0,
                .r2t_window = is(&t->p, SESSION_WINDOW) ? 4 : 1,
                .limits = { .depth_max = 128, .r2ts_max = 64 },
                .policy = &t->p.policy,
        };

        t->c = tcp_controller_new(&cfg, &owner_ops, t);
        if (t->c)
                t->link = tcp_controller_link(t->c);
        return t->c != NULL;
}

static void end_controller(struct tcp_play *t)
{
        link_kill(t->link);
        owner_unpark(&t->p);
        must(requests_executing(tcp_requests(t->c)) == 0);
        tcp_controller_free(t->c);
        must(t->p.owner.buffers == 0);
}

static bool begin_host(struct tcp_play *t)
{
        const struct tcp_host_config cfg = {
                .hpda = pda_of(&t->p),
                .hdgst = is(&t->p, SESSION_DIGESTS),
                .ddgst = is(&t->p, SESSION_DIGESTS),
                .require_digests = is(&t->p, SESSION_REQUIRES),
                .maxr2t = is(&t->p, SESSION_WINDOW) ? 4 : 1,
                .depth = is(&t->p, SESSION_HUNGRY) ? 2 : 31,
                .in_capsule = is(&t->p, SESSION_NO_ICD) ? 0 : 8192,
                .limits = { .depth_max = 64, .r2ts_max = 16 },
                .policy = &t->p.policy,
        };

        t->h = tcp_host_new(&cfg, t);
        if (!t->h)
                return false;
        t->link = tcp_host_link(t->h);
        tcp_host_start(t->h);
        return true;
}

static void end_host(struct tcp_play *t)
{
        tcp_host_fail_all(t->h, NVME_TRANSIENT_TRANSPORT);
        must(tcp_host_outstanding(t->h) == 0);
        for (unsigned i = 0; i < COMMANDS; i++)
                must(!t->p.busy[i]);
        tcp_host_free(t->h);
}

/* --- what the machine says ---------------------------------------------------------------------- */

static bool is_term(const union pdu *h)
{
        return h->ch.type == PDU_H2C_TERM || h->ch.type == PDU_C2H_TERM;
}

static void on_pdu(struct tcp_play *t)
{
        const union pdu *h = framer_header(&t->ear);
        const uint8_t *data = framer_data(&t->ear);
        struct message m = message_of_pdu(h);

        must(!t->term_heard || is_lenient(&t->p));
        must(!framer_ddgst_bad(&t->ear) || is_lenient(&t->p));
        t->p.r->pdus++;
        fuzz_digest(&t->p.r->digest, h, is_term(h) ? 1 : h->ch.hlen);
        if (data && !is_term(h))
                fuzz_digest(&t->p.r->digest, data, framer_data_len(&t->ear));
        if (t->p.r->message)
                t->p.r->message(t->p.r->user, peer_of(t->p.s->side), &m);
        t->term_heard = is_term(h);
        seq_bind_received(&t->p.bind, &m);
        if (h->ch.type == PDU_ICRESP)
                framer_negotiated(&t->ear, track_format(t->link->track, PARTY_CONTROLLER));
}

static void listen_to(struct tcp_play *t, const uint8_t *bytes, size_t n)
{
        enum framer_event e;

        t->p.r->heard += n;
        for (size_t len; n > 0 && !t->deaf; bytes += len, n -= len) {
                len = framer_feed(&t->ear, bytes, n);
                while ((e = framer_next(&t->ear)) != FRAMER_MORE && e != FRAMER_FAULT)
                        if (e == FRAMER_PDU)
                                on_pdu(t);
                if (e == FRAMER_FAULT) { /* who takes anything may come to say anything */
                        must(is_lenient(&t->p));
                        t->deaf = true;
                        return;
                }
        }
}

/* Takes all that the machine has to say. */
static void receive_pdus(struct tcp_play *t)
{
        struct iovec iov[8];
        int n;

        if (t->h) /* since ICResp came */
                framer_negotiated(&t->ear, track_format(t->link->track, PARTY_HOST));
        while ((n = link_send_iov(t->link, iov, 8)) > 0) {
                size_t bytes = 0;

                for (int i = 0; i < n; i++) {
                        must(iov[i].iov_len > 0);
                        listen_to(t, iov[i].iov_base, iov[i].iov_len);
                        bytes += iov[i].iov_len;
                }
                link_sent(t->link, bytes);
        }
}

/* --- what it is told ---------------------------------------------------------------------------- */

/* It may have to wait until something was answered: then it is. Sooner or later it has to go on. */
static void handle(struct tcp_play *t, size_t n)
{
        unsigned idle = 0;
        uint64_t before;

        if (t->h) {
                tcp_host_received(t->h, n);
                return;
        }
        while (tcp_controller_received(t->c, n, is(&t->p, SESSION_BUDGET) ? 1 : 0)) {
                n = 0;
                before = t->p.r->heard;
                receive_pdus(t);
                if (t->p.r->heard != before)
                        continue;
                owner_unpark(&t->p);
                requests_buffers(tcp_requests(t->c));
                if (idle++ < IDLE)
                        continue;
                must(is_lenient(&t->p)); /* who may overrun the queue may have it wait forever */
                t->p.closed = true;
                return;
        }
}

static void send_bytes(struct tcp_play *t, const uint8_t *bytes, size_t n)
{
        struct iovec iov[2];

        while (n > 0 && t->link->state < LINK_CLOSING && !t->p.closed) {
                int iovs = link_recv_iov(t->link, iov);
                size_t done = 0;

                for (int i = 0; i < iovs && done < n; i++) {
                        size_t len = iov[i].iov_len < n - done ? iov[i].iov_len : n - done;

                        must(len > 0);
                        memcpy(iov[i].iov_base, bytes + done, len);
                        done += len;
                }
                handle(t, done);
                bytes += done;
                n -= done;
        }
}

static void send_pieces(struct tcp_play *t, const struct seq_step *step, int cuts, size_t n)
{
        size_t at = 0;

        for (unsigned i = 0; cuts == SESSION_DECLARED && i < step->cuts; i++)
                if (step->cut[i] < n) {
                        send_bytes(t, said + at, step->cut[i] - at);
                        at = step->cut[i];
                }
        /* headers, digests and padding byte by byte, long data in pieces of an odd size */
        for (size_t len; cuts == SESSION_BYTES && at < n; at += len) {
                len = at < 300 || n - at < 16 ? 1 : n - at - 15 < 509 ? n - at - 15 : 509;
                send_bytes(t, said + at, len);
        }
        send_bytes(t, said + at, n - at);
}

static void perform_step(struct tcp_play *t, const struct seq_step *step, int cuts)
{
        size_t n = seq_bind_encode(&t->p.bind, t->p.s, step, said);

        if (t->p.r->message && step->kind == SEQ_PDU && n >= sizeof(struct pdu_ch)) {
                struct message m = { .kind = MESSAGE_PDU };

                memcpy(&m.pdu, said, n < sizeof(m.pdu) ? n : sizeof(m.pdu));
                t->p.r->message(t->p.r->user, t->p.s->side, &m);
        }
        send_pieces(t, step, cuts, n);
}

/* --- all of it ---------------------------------------------------------------------------------- */

/* Between two steps: what is due is done, and what is said is heard. */
static void turn(struct tcp_play *t)
{
        receive_pdus(t);
        if (t->h) {
                if (tcp_host_ready(t->h))
                        client_submit(&t->p);
        } else {
                if (!is(&t->p, SESSION_DEFERS))
                        owner_unpark(&t->p);
                requests_buffers(tcp_requests(t->c));
                handle(t, 0);
        }
        receive_pdus(t);
}

static void play_step(struct tcp_play *t, const struct seq_step *step, int cuts)
{
        t->p.r->steps++;
        switch (step->kind) {
        case SEQ_PDU:
        case SEQ_RAW:
                perform_step(t, step, cuts);
                break;
        case SEQ_DELAY:
                if (t->c)
                        owner_unpark(&t->p);
                break;
        case SEQ_CLOSE:
        case SEQ_RESET:
        case SEQ_FAIL:
        case SEQ_REMOVE:
                t->p.closed = true;
                break;
        case SEQ_RELOAD:
                break;
        }
}

static bool open_session(struct tcp_play *t)
{
        if (!(t->p.s->side == PARTY_HOST ? begin_controller(t) : begin_host(t)))
                return false;
        framer_attach(&t->link->rx, room_in, sizeof(room_in));
        framer_init(&t->ear, peer_of(t->p.s->side), NULL);
        framer_attach(&t->ear, room_ear, sizeof(room_ear));
        return true;
}

static void report(struct tcp_play *t)
{
        t->p.r->fault = t->link->fault;
        t->p.r->terminated = t->term_heard;
        t->p.r->end = link_state_name(t->link->state);
        must(!t->term_heard || t->link->state >= LINK_TERMINATING || t->p.s->violates != RULE_NONE);
}

void session_play_tcp(const struct play *as, int cuts)
{
        struct tcp_play t = { .p = *as };
        const struct sequence *s = as->s;

        t.p.submit = submit;
        if (!open_session(&t))
                return;
        turn(&t);
        for (unsigned i = 0; i < s->steps && !t.p.closed; i++) {
                if (s->step[i].on > 0)
                        continue;
                play_step(&t, &s->step[i], cuts);
                turn(&t);
        }
        report(&t);
        if (t.c)
                end_controller(&t);
        else
                end_host(&t);
}
