/* SPDX-License-Identifier: BSD-3-Clause */
#include "conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
        BUDGET = 128, /* capsules of one connection in a turn */
        RECEIVES = 4, /* reads of one connection in a turn */
        IOVECS = 256, /* PDUs go out many at a time: two or three of these each */
};

#define container(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static struct conn *of_queue(struct ctrl_queue *q)
{
        return container(q, struct conn, queue);
}

static struct conn *of_nvm(struct nvm_queue *q)
{
        return container(q, struct conn, nvm);
}

static const struct ctrl_env *env(const struct conn *c)
{
        return &c->reactor->service->ctrl;
}

static bool is_io(const struct conn *c, const struct request *r)
{
        return c->queue.qid > 0 && r->sqe.opc != NVME_FABRICS;
}

/* --- lists of the reactor --------------------------------------------------------------------- */

static void come_again(struct conn *c)
{
        if (c->again)
                return;
        c->again = true;
        c->next_again = c->reactor->again;
        c->reactor->again = c;
}

static void go_hungry(struct conn *c)
{
        if (c->hungry)
                return;
        c->hungry = true;
        c->next_hungry = NULL;
        *c->reactor->hungry_last = c;
        c->reactor->hungry_last = &c->next_hungry;
}

static void leave_again(struct conn *c)
{
        struct conn **at = &c->reactor->again;

        while (c->again && *at && *at != c)
                at = &(*at)->next_again;
        if (c->again && *at)
                *at = c->next_again;
        c->again = false;
}

static void leave_hungry(struct conn *c)
{
        struct conn **at = &c->reactor->hungry;

        while (c->hungry && *at && *at != c)
                at = &(*at)->next_hungry;
        if (c->hungry && *at) {
                *at = c->next_hungry;
                if (!*at)
                        c->reactor->hungry_last = at;
        }
        c->hungry = false;
}

/* --- what the TCP machine asks for ------------------------------------------------------------ */

/* FAB_DISCONNECT_LAST is broken. */
static bool talks_on(const struct conn *c)
{
        return rule_in(&c->reactor->service->policy.violated, FAB_DISCONNECT_LAST);
}

static uint16_t admit(void *user, struct request *r)
{
        struct conn *c = user;
        uint16_t status;

        if (c->queue.disconnecting &&
            !rule_in(&c->reactor->service->policy.violated, FAB_DISCONNECT_LAST)) {
                r->no_response = true;
                return NVME_ABORT_SQ_DELETED;
        }
        r->success_ok = c->queue.success_ok && c->reactor->service->success;
        if (!is_io(c, r))
                return ctrl_admit(env(c), &c->queue, r, reactor_now(c->reactor));
        status = ctrl_io_admit(&c->queue);
        return status ? status : nvm_admit(&c->nvm, ctrl_subsystem(&c->queue), r);
}

static void connected(struct conn *c)
{
        if (tcp_controller_set_depth(c->tcp, c->queue.sq.size) < 0)
                c->failed = true;
        c->is_io = c->queue.qid > 0;
        if (c->is_io)
                atomic_fetch_add(&c->reactor->service->io_conns, 1);
}

/* An admin or Fabrics command. */
static void execute_ctrl(struct conn *c, struct request *r)
{
        switch (ctrl_execute(env(c), &c->queue, c->port, r, reactor_now(c->reactor))) {
        case CTRL_PARKED:
                return;
        case CTRL_CONNECTED:
                connected(c);
                break;
        case CTRL_DISCONNECT:
                c->last_words = !talks_on(c);
                break;
        case CTRL_COMPLETE:
                break;
        }
        tcp_controller_complete(c->tcp, r);
}

static void execute(void *user, struct request *r)
{
        struct conn *c = user;

        if (!is_io(c, r)) {
                execute_ctrl(c, r);
                return;
        }
        c->nvm.write_through = ctrl_write_through(&c->queue);
        nvm_execute(&c->nvm, ctrl_subsystem(&c->queue), r);
}

static void completing(void *user, struct request *r)
{
        struct conn *c = user;

        if (is_io(c, r))
                nvm_completing(&c->nvm, r);
        ctrl_completing(env(c), &c->queue, r);
}

static uint8_t *buffer_get(void *user, uint32_t len, uint32_t *lkey)
{
        struct conn *c = user;
        uint8_t *buf = pool_get(&c->reactor->pool, len, c->buffers);

        (void)lkey;
        if (buf)
                c->buffers++;
        else
                go_hungry(c);
        return buf;
}

static void buffer_put(void *user, uint8_t *buf, uint32_t len)
{
        struct conn *c = user;

        c->buffers--;
        pool_put(&c->reactor->pool, buf, len);
        c->reactor->fed = true;
}

static void trace(void *user, const struct request *r)
{
        const struct conn *c = user;
        uint64_t ns = loop_now_ns();

        fprintf(stderr, "%llu.%09llu conn %u qid %u cid %u %s: %s\n",
                (unsigned long long)(ns / 1000000000), (unsigned long long)(ns % 1000000000),
                c->number, c->queue.qid, le16_get(r->sqe.cid), sqe_name(&r->sqe, c->queue.qid == 0),
                request_state_name(r->state));
}

/* --- what I/O commands ask for ---------------------------------------------------------------- */

static void account(struct conn *c, const struct request *r)
{
        uint16_t status = cqe_status(&r->cqe);

        if (status && status != NVME_COMPARE_FAILURE)
                ctrl_log_error(&c->queue, r, status);
        else if (r->sqe.opc == NVME_READ || r->sqe.opc == NVME_WRITE)
                ctrl_account(&c->queue, r->sqe.opc == NVME_WRITE, r->len);
}

static void io_done(struct nvm_queue *q, struct request *r)
{
        struct conn *c = of_nvm(q);

        if (c->queue.ctrl)
                account(c, r);
        tcp_controller_complete(c->tcp, r);
}

static void io_post(struct nvm_queue *q, struct request *r)
{
        reactor_give_back(of_nvm(q)->reactor, r);
}

static const struct nvm_queue_ops nvm_ops = { io_done, io_post };

/* --- what its controller asks for, from any thread -------------------------------------------- */

static void ask_close(struct ctrl_queue *q)
{
        struct conn *c = of_queue(q);

        loop_post(&c->reactor->loop, &c->close);
}

static void ask_complete(struct ctrl_queue *q, struct request *r)
{
        reactor_give_back(of_queue(q)->reactor, r);
}

static void on_close(struct loop_message *m)
{
        struct conn *c = container(m, struct conn, close);

        c->last_words = true;
        conn_go_on(c);
}

void conn_finish(struct conn *c, struct request *r)
{
        if (is_io(c, r) && r->user)
                nvm_resume(&c->nvm, r);
        else
                tcp_controller_complete(c->tcp, r);
        come_again(c);
}

/* --- the end ---------------------------------------------------------------------------------- */

static void give_back_rx(struct conn *c)
{
        uint8_t *buf = c->link->rx.buf;

        framer_attach(&c->link->rx, NULL, 0);
        if (buf)
                reactor_rx_put(c->reactor, buf);
}

/* The connection is over; commands that other threads work on still come back. */
static void end(struct conn *c, bool reset)
{
        struct request *r, *next;

        loop_remove(&c->reactor->loop, &c->source);
        if (reset)
                net_reset_close(c->source.fd);
        else
                close(c->source.fd);
        c->source.fd = -1;
        link_kill(c->link);
        for (r = ctrl_queue_gone(&c->queue); r; r = next) {
                next = r->next;
                tcp_controller_complete(c->tcp, r);
        }
        nvm_give_up(&c->nvm);
        give_back_rx(c);
        leave_hungry(c);
        if (c->is_io)
                atomic_fetch_sub(&c->reactor->service->io_conns, 1);
}

static void conn_free(struct conn *c)
{
        leave_again(c);
        *c->prev = c->next;
        if (c->next)
                c->next->prev = c->prev;
        tcp_controller_free(c->tcp);
        port_put(c->port);
        atomic_fetch_sub(&c->reactor->service->conns, 1);
        free(c);
}

/* Nobody will speak of it any more. */
static bool is_free(const struct conn *c)
{
        return c->source.fd < 0 && tcp_controller_executing(c->tcp) == 0 && !loop_posted(&c->close);
}

static bool is_over(const struct conn *c)
{
        if (c->failed || c->link->state == LINK_DEAD)
                return true;
        if (link_wants_send(c->link))
                return false;
        return c->last_words || (c->link->state == LINK_CLOSING && !link_term_sent(c->link));
}

/* --- output ----------------------------------------------------------------------------------- */

static size_t bytes_in(const struct iovec *iov, int n)
{
        size_t bytes = 0;

        while (n-- > 0)
                bytes += iov[n].iov_len;
        return bytes;
}

static void flush(struct conn *c)
{
        struct iovec iov[IOVECS];
        struct msghdr msg = { .msg_iov = iov };
        ssize_t n;

        while ((msg.msg_iovlen = (size_t)link_send_iov(c->link, iov, IOVECS)) > 0) {
                n = sendmsg(c->source.fd, &msg, MSG_NOSIGNAL);
                if (n < 0) {
                        if (errno == EINTR)
                                continue;
                        c->failed = errno != EAGAIN;
                        return;
                }
                c->sent = reactor_now(c->reactor);
                link_sent(c->link, (size_t)n);
                if ((size_t)n < bytes_in(iov, (int)msg.msg_iovlen))
                        return;
        }
}

/* --- what the user is told ----------------------------------------------------------------- */

/* One line on stderr, for whoever looks at a host's faults. */
static void report(const struct conn *c, const char *what, const char *detail)
{
        char peer[NET_TRADDR];

        if (c->reactor->service->quiet)
                return;
        net_peer_addr(c->source.fd, peer);
        fprintf(stderr, "conn %u (%s:%u, qid %u): %s%s%s\n", c->number, peer,
                net_peer_port(c->source.fd), c->queue.qid, what, detail ? ": " : "",
                detail ? detail : "");
}

static void report_fault(const struct conn *c)
{
        const struct fault *f = &c->link->fault;
        const struct rule *rule = rule_get(f->rule);
        char what[160];

        if (c->link->term_queued)
                snprintf(what, sizeof(what),
                         f->fes == FES_HEADER_DIGEST_ERROR
                             ? "C2HTermReq %02xh (%s), FEI %08xh, for %s"
                             : "C2HTermReq %02xh (%s), FEI %u, for %s",
                         f->fes, pdu_fes_name(f->fes, PARTY_CONTROLLER), f->fei, rule->id);
        else
                snprintf(what, sizeof(what), "closed for %s", rule->id);
        report(c, what, rule->says);
}

static void report_end(struct conn *c)
{
        char what[80];

        if (c->reported || c->link->state < LINK_TERMINATING)
                return;
        c->reported = true;
        if (is_fault(c->link->fault)) {
                report_fault(c);
        } else if (c->link->peer_term.seen) {
                snprintf(what, sizeof(what), "host sent H2CTermReq %02xh (%s), FEI %u",
                         c->link->peer_term.fes, pdu_fes_name(c->link->peer_term.fes, PARTY_HOST),
                         c->link->peer_term.fei);
                report(c, what, NULL);
        }
}

/* --- after each step -------------------------------------------------------------------------- */

static void note_progress(struct conn *c)
{
        if (!c->live && c->link->state == LINK_LIVE) {
                c->live = true;
                c->phase_since = reactor_now(c->reactor);
        }
        if (c->closing_since == 0 && link_term_sent(c->link))
                c->closing_since = reactor_now(c->reactor);
}

/* An idle connection holds no receive buffer. */
static void lend_back(struct conn *c)
{
        uint8_t *buf = c->link->rx.buf && !c->more ? framer_detach(&c->link->rx) : NULL;

        if (buf)
                reactor_rx_put(c->reactor, buf);
}

static void wait_for_more(struct conn *c)
{
        bool blocked = link_wants_send(c->link);

        if (c->more && !blocked)
                come_again(c);
        loop_change(&c->reactor->loop, &c->source,
                    (c->more ? 0u : EPOLLIN) | (blocked ? EPOLLOUT : 0u));
        if (tcp_controller_needs_buffers(c->tcp))
                go_hungry(c);
}

/* Sends what there is, and sees what becomes of the connection. */
static void settle(struct conn *c)
{
        if (c->source.fd >= 0) {
                report_end(c);
                flush(c);
                note_progress(c);
                if (is_over(c)) {
                        end(c, c->link->state == LINK_DEAD);
                } else {
                        lend_back(c);
                        wait_for_more(c);
                }
        }
        if (is_free(c))
                conn_free(c);
}

/* --- input ------------------------------------------------------------------------------------ */

static bool attach(struct conn *c)
{
        uint8_t *buf;

        if (c->link->rx.buf)
                return true;
        buf = reactor_rx_get(c->reactor);
        if (buf)
                framer_attach(&c->link->rx, buf, RX_BUFFER);
        c->failed |= !buf;
        return buf;
}

/* False: nothing more to be had. */
static bool receive_once(struct conn *c)
{
        struct iovec iov[2];
        struct msghdr msg = { .msg_iov = iov };
        ssize_t n;

        msg.msg_iovlen = (size_t)link_recv_iov(c->link, iov);
        n = recvmsg(c->source.fd, &msg, 0);
        if (n <= 0) {
                c->failed |= n == 0 || (errno != EAGAIN && errno != EINTR);
                return false;
        }
        c->heard = reactor_now(c->reactor);
        c->more = tcp_controller_received(c->tcp, (size_t)n, BUDGET);
        return !c->more && (size_t)n == bytes_in(iov, (int)msg.msg_iovlen);
}

static void receive(struct conn *c)
{
        unsigned rounds = RECEIVES;

        if (!attach(c))
                return;
        while (rounds-- > 0 && receive_once(c))
                ;
}

static void on_ready(struct loop_source *s, uint32_t events)
{
        struct conn *c = container(s, struct conn, source);

        if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
                if (c->more) /* it is not waiting for input: the socket has failed */
                        c->failed = true;
                else
                        receive(c);
        } else if (c->more) {
                flush(c);
                c->more = tcp_controller_received(c->tcp, 0, BUDGET);
        }
        settle(c);
}

void conn_go_on(struct conn *c)
{
        if (c->source.fd >= 0 && c->more)
                c->more = tcp_controller_received(c->tcp, 0, BUDGET);
        settle(c);
}

void conn_feed(struct conn *c)
{
        tcp_controller_buffers(c->tcp);
        settle(c);
}

/* --- timers ----------------------------------------------------------------------------------- */

static bool is_older(struct conn *c, uint64_t since, unsigned ms)
{
        return reactor_now(c->reactor) - since >= ms;
}

static bool is_set_up_late(struct conn *c)
{
        const struct service *s = c->reactor->service;

        return !c->queue.connected && c->link->state < LINK_TERMINATING &&
               !rule_in(&s->policy.waived, TCP_IC_TIMEOUT) &&
               is_older(c, c->phase_since, s->limits.ic_timeout);
}

static bool has_stalled(struct conn *c)
{
        unsigned ms = c->reactor->service->limits.stall_timeout;

        if (!link_wants_send(c->link))
                c->sent = reactor_now(c->reactor);
        if (c->more || !tcp_controller_waits(c->tcp))
                c->heard = reactor_now(c->reactor);
        return is_older(c, c->sent, ms) || is_older(c, c->heard, ms);
}

/* Who does not listen gets a reset. */
static void give_up_stalled(struct conn *c)
{
        report(c, "reset",
               link_wants_send(c->link) ? "the host reads nothing" : "the host owes bytes");
        c->reported = true;
        link_kill(c->link);
}

static void give_up_late(struct conn *c)
{
        report(c, "closed for tcp/3.1/ic-timeout", c->live ? "no Connect" : "no ICReq");
        c->failed = true;
}

void conn_sweep(struct conn *c)
{
        if (c->source.fd >= 0) {
                if (c->closing_since > 0)
                        c->failed |=
                            is_older(c, c->closing_since, c->reactor->service->limits.term_timeout);
                else if (has_stalled(c))
                        give_up_stalled(c);
                else if (is_set_up_late(c))
                        give_up_late(c);
        }
        settle(c);
}

/* An admin queue waits for the I/O queues, which would end with it. */
static bool is_busy(struct conn *c)
{
        if (link_wants_send(c->link) || tcp_controller_waits(c->tcp) || c->more)
                return true;
        if (c->is_io)
                return tcp_controller_executing(c->tcp) > 0;
        return atomic_load(&c->reactor->service->io_conns) > 0;
}

void conn_drain(struct conn *c, bool at_once)
{
        c->failed |= at_once || !is_busy(c);
        settle(c);
}

/* --- the beginning ---------------------------------------------------------------------------- */

static struct conn *conn_new(struct reactor *r, struct port *port, int fd)
{
        static const struct request_ops ops = {
                .admit = admit,
                .execute = execute,
                .buffer_get = buffer_get,
                .buffer_put = buffer_put,
                .completing = completing,
        };
        struct request_ops traced = ops;
        struct conn *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        if (r->service->trace)
                traced.trace = trace;
        c->tcp = tcp_controller_new(&r->service->tcp, &traced, c);
        if (!c->tcp) {
                free(c);
                return NULL;
        }
        c->source = (struct loop_source) { .fd = fd, .ready = on_ready };
        c->reactor = r;
        c->port = port;
        c->link = tcp_controller_link(c->tcp);
        return c;
}

static void set_up(struct conn *c)
{
        struct service *s = c->reactor->service;

        net_local_addr(c->source.fd, c->traddr);
        c->queue.close = ask_close;
        c->queue.complete = ask_complete;
        c->queue.traddr = c->traddr;
        c->nvm.ops = &nvm_ops;
        c->nvm.policy = &s->policy;
        c->close.run = on_close;
        c->number = atomic_fetch_add(&s->accepted, 1) + 1;
        c->phase_since = c->heard = c->sent = reactor_now(c->reactor);
}

static void enlist(struct conn *c)
{
        struct reactor *r = c->reactor;

        c->next = r->conns;
        c->prev = &r->conns;
        if (c->next)
                c->next->prev = &c->next;
        r->conns = c;
}

void conn_start(struct reactor *r, struct port *port, int fd)
{
        struct conn *c = conn_new(r, port, fd);

        if (!c || loop_add(&r->loop, &c->source, EPOLLIN) < 0) {
                close(fd);
                port_put(port);
                atomic_fetch_sub(&r->service->conns, 1);
                if (c)
                        tcp_controller_free(c->tcp);
                free(c);
                return;
        }
        set_up(c);
        enlist(c);
}
