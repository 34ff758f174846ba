/* SPDX-License-Identifier: BSD-3-Clause */
#include "srp_conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/bytes.h"
#include "pdu/io/log.h"
#include "pdu/srp/machine/spoil.h"
#include "srp_tasks.h"

enum {
        LEAVING_MS = 1000, /* that SRP_T_LOGOUT may take */
        RECVS_MORE = 4,    /* IUs that take nothing from the request limit */
        WRS_MORE = 64,     /* WRITEs of one command in many pieces; more are waited for */
        REQUESTS_LEAST = 2,
        PROBES = 1,
};
enum { /* of SRP_T_LOGOUT */
       LOGOUT_NO_REASON = 0,
       LOGOUT_IU_TYPE = 2,
       LOGOUT_SPURIOUS = 3,
       LOGOUT_NEW_LOGIN = 4,
};

static struct srp_conn *conn_of(struct rdma_ep *e)
{
        return (struct srp_conn *)(void *)((char *)e - offsetof(struct srp_conn, link));
}

static struct srp_service *service(const struct srp_conn *c)
{
        return srp_service_of(c->base.reactor);
}

static void tell(const struct srp_conn *c, enum srp_happening what, int64_t value)
{
        const struct srp_service *s = service(c);

        if (s->watch)
                s->watch(s->watch_user, c, what, value);
}

/* --- what the user is told -------------------------------------------------------------------- */

static void trace(const struct srp_conn *c, const char *what)
{
        if (service(c)->trace)
                log_line(LOG_AS_TRACE, NULL, NULL, "conn %u: %s", c->base.number, what);
}

static void report(struct srp_conn *c, const char *kind, const char *what, const char *detail)
{
        if (!c->reported && !service(c)->quiet)
                log_line(LOG_AS_WARNING, kind, c->base.peer.addr, "conn %u (%s:%u): %s%s%s",
                         c->base.number, c->base.peer.addr, c->base.peer.port, what,
                         detail ? ": " : "", detail ? detail : "");
        c->reported = true;
}

static void report_fault(struct srp_conn *c, enum srp_rule broken)
{
        const struct rule *rule = srp_rule_get(broken);
        char what[120];

        snprintf(what, sizeof(what), "closed for %s", rule->id);
        report(c, rule->id, what, rule->says);
}

static void report_failure(struct srp_conn *c, const struct verbs_wc *wc)
{
        char what[120];

        if (rdma_failure(wc, what, sizeof(what)))
                report(c, "failed", what, NULL);
}

/* --- tasks ------------------------------------------------------------------------------------ */

static struct srp_task *task_of(const struct srp_command *c)
{
        return c->own;
}

static void take_outcome(struct srp_command *c)
{
        const struct scsi_task *t = &task_of(c)->scsi;

        c->in_len = t->in_len;
        c->status = t->status;
        if (t->status == SCSI_CHECK)
                srp_command_check(c, &t->sense);
}

static void finish(struct srp_task *t)
{
        take_outcome(t->command);
        srp_command_done(t->command);
}

static void on_finished(struct loop_message *m)
{
        struct srp_task *t =
            (struct srp_task *)(void *)((char *)m - offsetof(struct srp_task, finished));
        struct srp_conn *c = t->command->user;

        finish(t);
        srp_conn_again(c);
}

/* Another thread's. */
static void give_back(struct scsi_task *scsi)
{
        struct srp_task *t = (struct srp_task *)scsi;
        const struct srp_conn *c = t->command->user;

        (void)loop_post(&c->base.reactor->loop, &t->finished); /* the channel may be gone by now */
}

/* --- what its machine asks for ---------------------------------------------------------------- */

static bool admit(void *user, struct srp_command *cmd)
{
        struct srp_conn *c = user;
        struct srp_task *t = task_of(cmd);
        bool ok;

        tell(c, SRP_HAS_RUN, (int64_t)cmd->tag);
        c->base.part.taken++;
        cmd->user = c;
        t->command = cmd;
        t->visit = NULL;
        t->finished.run = on_finished;
        t->scsi = (struct scsi_task) { .cdb = cmd->cdb,
                                       .cdb_len = cmd->cdb_len,
                                       .lun = cmd->lun,
                                       .attr = cmd->attr,
                                       .out_size = cmd->out_size,
                                       .done = give_back };
        ok = scsi_admit(&service(c)->device, &c->nexus->scsi, &t->scsi);
        cmd->out_len = t->scsi.out_len;
        cmd->in_max = t->scsi.in_max;
        if (!ok)
                take_outcome(cmd);
        return ok;
}

static void execute(void *user, struct srp_command *cmd)
{
        struct srp_task *t = task_of(cmd);

        (void)user;
        t->scsi.data = cmd->data;
        if (scsi_execute(&t->scsi))
                finish(t);
}

static void manage(void *user, struct srp_command *cmd)
{
        struct srp_conn *c = user;

        tell(c, SRP_HAS_RUN, (int64_t)cmd->tag);
        c->base.part.taken++;
        cmd->user = c;
        task_of(cmd)->visit = NULL;
        srp_tasks_manage(c, cmd);
}

static void ended(void *user, struct srp_command *cmd)
{
        (void)user;
        srp_tasks_ended(task_of(cmd));
}

static void stepped(void *user, const struct srp_command *cmd)
{
        const struct srp_conn *c = user;
        const char *name = cmd->cdb ? srp_command_name(cmd->cdb[0]) : NULL;

        if (cmd->step == SRP_STEP_NEW || cmd->step == SRP_STEP_FREE)
                name = NULL; /* it is not known, or its IU is gone */
        log_line(LOG_AS_TRACE, NULL, NULL, "conn %u tag %llx%s%s: %s", c->base.number,
                 (unsigned long long)cmd->tag, name ? " " : "", name ? name : "",
                 srp_step_name(cmd->step));
}

static void machine_tells(void *user, enum srp_happening what, int64_t value)
{
        tell(user, what, value);
}

/* --- its end ---------------------------------------------------------------------------------- */

/* SRP_T_LOGOUT with this reason, then the end. */
static void log_out(struct srp_conn *c, uint32_t reason)
{
        if (c->leaving || !c->machine)
                return;
        c->leaving = true;
        c->left_at = reactor_now(c->base.reactor);
        srp_target_logout(c->machine, reason);
        srp_conn_again(c);
}

void srp_conn_end(struct conn *base)
{
        log_out(srp_conn_of(base), LOGOUT_NO_REASON);
}

static void on_oust(struct loop_message *m)
{
        struct srp_conn *c =
            (struct srp_conn *)(void *)((char *)m - offsetof(struct srp_conn, oust));

        report(c, "relogin", "closed: its initiator has logged in again", NULL);
        log_out(c, LOGOUT_NEW_LOGIN);
}

static uint32_t reason_for(enum srp_rule rule)
{
        return rule == SRP_TYPE_I       ? LOGOUT_IU_TYPE
               : rule == SRP_TAG_ANSWER ? LOGOUT_SPURIOUS
                                        : LOGOUT_NO_REASON;
}

/* --- what comes ------------------------------------------------------------------------------- */

static void take_iu(struct srp_conn *c, struct rdma_recv *rx)
{
        enum srp_rule rule;

        srp_script_heard(c, rx->wr.sge[0].addr, rx->bytes);
        switch (srp_target_received(c->machine, rx)) {
        case SRP_GOES_ON:
                return;
        case SRP_LOGGED_OUT:
                c->failed = true;
                return;
        case SRP_AT_FAULT:
                rule = srp_target_fault(c->machine);
                report_fault(c, rule);
                log_out(c, reason_for(rule));
                return;
        }
}

/* Takes it in this turn or, after those that wait already, in a later one. No more can wait than there are receives. */
static void take_or_defer(struct srp_conn *c, struct rdma_recv *rx)
{
        if (rdma_link_has_turn(&c->link))
                take_iu(c, rx);
        else
                rdma_link_defer(&c->link, rx);
}

static bool violates(const struct srp_conn *c, enum srp_rule rule)
{
        return rule_in(&service(c)->policy.violated, rule);
}

static bool on_event(struct rdma_ep *e, const struct verbs_event *event)
{
        struct srp_conn *c = conn_of(e);

        if (event->type != VERBS_DISCONNECTED)
                return true;
        tell(c, SRP_HAS_HEARD_DREQ, 0);
        return e->life.state > LIFE_LIVE || !violates(c, SRP_DREQ);
}

static bool on_completion(struct rdma_ep *e, const struct verbs_wc *wc)
{
        struct srp_conn *c = conn_of(e);
        struct rdma_recv *rx = (struct rdma_recv *)wc->wr;

        if (wc->wr->op != VERBS_RECV)
                c->moved_at = reactor_now(c->base.reactor);
        if (wc->status == VERBS_SUCCESS)
                c->heard_at = reactor_now(c->base.reactor);
        if (wc->wr == &c->probe && (wc->status == VERBS_SUCCESS || e->life.state >= LIFE_DEAD))
                return false;
        if (wc->wr->op == VERBS_RECV && wc->status == VERBS_SUCCESS) {
                rx->bytes = wc->bytes;
                take_or_defer(c, rx);
                return false;
        }
        if (wc->wr->op != VERBS_RECV && srp_script_completed(c, wc->wr))
                return false; /* what fails shows with the target's own, too */
        if (wc->wr->op != VERBS_RECV && wc->wr != &c->probe &&
            (e->life.state >= LIFE_DEAD || !srp_target_completed(c->machine, wc)))
                return false;
        if (e->life.state == LIFE_LIVE)
                report_failure(c, wc);
        if (wc->wr->op == VERBS_RECV)
                rdma_link_recv_put(c, rx);
        return true;
}

static void on_move(struct rdma_ep *e, enum life_event why)
{
        struct srp_conn *c = conn_of(e);
        char what[80];

        if (e->life.actions & LIFE_DO_DISCONNECT)
                tell(c, SRP_HAS_SAID_DREQ, 0);
        tell(c, SRP_HAS_MOVED, (int64_t)e->life.state);
        if (e->life.state > LIFE_LIVE) {
                srp_target_stop(c->machine);
                srp_nexus_close(service(c), c);
        }
        snprintf(what, sizeof(what), "%s (%s)", srp_life_name(e->life.state), life_event_name(why));
        trace(c, what);
}

/* No work request reaches memory any more. */
static void on_end(struct rdma_ep *e)
{
        struct srp_conn *c = conn_of(e);

        rdma_link_drop_waiting(&c->link);
        srp_target_end(c->machine);
        srp_nexus_leave(service(c), c);
        conn_leave_hungry(&c->base);
}

/* What it was made of, as far as it was. */
static void dismantle(struct srp_conn *c)
{
        struct srp_service *s = service(c);

        rdma_ep_destroy(&c->link.ep);
        tell(c, SRP_HAS_DESTROYED, 0);
        if (c->machine)
                srp_target_free(c->machine);
        rdma_link_fini(&c->link);
        tell(c, SRP_HAS_FREED, 0);
        if (c->registered) {
                c->base.host = NULL;
                conn_leave(&c->base);
        }
        srp_nexus_put(s, c);
        tell(c, SRP_HAS_PUT, 0);
        free(c);
}

/* --- what goes -------------------------------------------------------------------------------- */

static void post(struct srp_conn *c)
{
        struct verbs_wr *chain = srp_target_take(c->machine);

        if (c->link.ep.unfinished == 0)
                c->moved_at = reactor_now(c->base.reactor);
        srp_script_edit(c, chain);
        if (rdma_link_post(&c->link, chain) < 0)
                report(c, "posting", "posting failed", strerror(errno));
}

/* Nobody will speak of it any more. */
static bool is_idle(const struct srp_conn *c)
{
        return srp_target_executing(c->machine) == 0 && !loop_posted(&c->oust) && c->visits == 0;
}

static bool is_over(const struct srp_conn *c)
{
        if (c->failed)
                return true;
        return c->leaving && (c->link.ep.life.state < LIFE_LIVE || srp_target_is_said(c->machine) ||
                              conn_is_older(&c->base, c->left_at, LEAVING_MS));
}

/* Posts what is ready, and sees what becomes of it; may free it. */
static void settle(struct rdma_ep *e)
{
        struct srp_conn *c = conn_of(e);

        if (e->life.state == LIFE_LIVE)
                post(c);
        if (e->life.state <= LIFE_LIVE && is_over(c))
                rdma_ep_step(e, LIFE_CLOSE);
        if (e->life.state == LIFE_DEAD && is_idle(c) && rdma_ep_release(e)) {
                tell(c, SRP_HAS_MOVED, LIFE_RELEASED);
                dismantle(c);
        }
}

static void go_on(struct conn *base)
{
        struct srp_conn *c = srp_conn_of(base);
        bool live = c->link.ep.life.state == LIFE_LIVE;
        struct rdma_recv *rx;

        while (live && (rx = rdma_link_next(&c->link)) != NULL)
                take_iu(c, rx);
        settle(&c->link.ep);
}

static void feed(struct conn *base)
{
        struct srp_conn *c = srp_conn_of(base);

        if (c->link.ep.life.state == LIFE_LIVE)
                srp_target_feed(c->machine);
        settle(&c->link.ep);
}

/* --- timers ----------------------------------------------------------------------------------- */

/* An initiator that posts no receives, or whose link is stuck, holds what its commands have. */
static void sweep_pace(struct srp_conn *c)
{
        if (c->link.ep.unfinished == 0 ||
            !conn_is_older(&c->base, c->moved_at, service(c)->stall_timeout))
                return;
        report(c, "timeout",
               "closed: timed out: the initiator does not take or send a command's data", NULL);
        rdma_ep_step(&c->link.ep, LIFE_CLOSE);
}

/* A channel may be idle for as long as its initiator likes. One that has lost its power says nothing either, and nobody
 * but its device tells: it answers a WRITE that moves nothing. */
static void probe(struct srp_conn *c)
{
        if (c->link.ep.unfinished > 0 || !conn_is_older(&c->base, c->heard_at, service(c)->probe))
                return;
        c->heard_at = c->moved_at = reactor_now(c->base.reactor);
        c->probe = (struct verbs_wr) { .op = VERBS_WRITE, .flags = VERBS_SIGNALED };
        if (rdma_link_post(&c->link, &c->probe) < 0)
                report(c, "posting", "posting failed", strerror(errno));
}

static void sweep(struct conn *base)
{
        struct srp_conn *c = srp_conn_of(base);

        if (c->link.ep.life.state == LIFE_LIVE)
                sweep_pace(c);
        if (c->link.ep.life.state == LIFE_LIVE)
                probe(c);
        if (c->link.ep.life.state == LIFE_CONNECTING &&
            rdma_ep_is_older(&c->link.ep, service(c)->setup_timeout)) {
                report(c, "setup", "closed: timed out before the connection was established", NULL);
                rdma_ep_step(&c->link.ep, LIFE_LATE);
        }
        rdma_link_expire(&c->link);
        settle(&c->link.ep);
}

static bool is_busy(const struct srp_conn *c)
{
        return c->link.waiting || c->link.ep.unfinished > 0 || srp_target_first(c->machine) ||
               srp_target_wants_post(c->machine);
}

static void drain(struct conn *base, bool at_once)
{
        struct srp_conn *c = srp_conn_of(base);

        if (at_once)
                rdma_ep_step(&c->link.ep, LIFE_ABORT);
        else if (c->link.ep.life.state <= LIFE_LIVE && !is_busy(c))
                log_out(c, LOGOUT_NO_REASON);
        settle(&c->link.ep);
}

/* --- logging in ------------------------------------------------------------------------------- */

static void reject(struct srp_service *s, struct verbs_ep *ep, const struct srp_login_rej *rej)
{
        uint8_t said[SRP_IU_OUT], len = sizeof(*rej);
        struct srp_spoil spoil = { .iu = said, .len = sizeof(*rej) };

        memcpy(said, rej, sizeof(*rej));
        (void)srp_spoil(&s->policy.violated, &spoil);
        srp_script_login(s, NULL, said, &len);
        rdma_ep_refuse(ep, said, len);
}

static struct srp_login_rej rejection(const struct srp_service *s,
                                      const struct srp_login_req *asked, uint32_t reason)
{
        return (struct srp_login_rej) { .opcode = SRP_LOGIN_REJ,
                                        .reason = be32(reason),
                                        .tag = asked->tag,
                                        .buf_fmt = be16(s->port.formats) };
}

void srp_conn_reject(struct service *base, struct verbs_ep *ep)
{
        struct srp_service *s = (struct srp_service *)(void *)base;
        struct srp_login_rej r = rejection(s, &(struct srp_login_req) { 0 }, SRP_REJECT_RESOURCES);

        reject(s, ep, &r);
}

static void refuse(struct srp_service *s, const struct verbs_event *e,
                   const struct srp_login_req *asked, uint32_t reason, const char *why)
{
        struct srp_login_rej r = rejection(s, asked, reason);

        if (!s->quiet)
                rdma_log_rejected(e->ep, "login", srp_reject_name(reason), why);
        reject(s, e->ep, &r);
}

/* How many requests its receives are enough for; 0: too few. */
static uint32_t limit_of(const struct srp_conn *c)
{
        uint32_t most = rdma_link_receives_left(&c->link);

        if (most < REQUESTS_LEAST + RECVS_MORE)
                return 0;
        return least(service(c)->port.request_limit, most - RECVS_MORE);
}

static struct srp_target *make_machine(struct srp_conn *c, const struct srp_login_rsp *granted,
                                       const struct verbs_qp_attr *attr, uint32_t reads)
{
        const struct srp_service *s = service(c);
        const struct srp_target_config cfg = {
                .asked = c->asked,
                .granted = *granted,
                .send_wrs = attr->send_wrs - (s->script ? SRP_SCRIPT_MORE : 0) - PROBES,
                .reads = reads,
                .inline_bytes = attr->inline_bytes,
                .own_bytes = sizeof(struct srp_task),
                .policy = &s->policy
        };
        const struct srp_target_ops ops = { .admit = admit,
                                            .execute = execute,
                                            .manage = manage,
                                            .ended = ended,
                                            .buffer_get = rdma_link_buffer_get,
                                            .buffer_put = rdma_link_buffer_put,
                                            .recv_put = rdma_link_recv_put,
                                            .iu_memory = rdma_link_memory_get,
                                            .iu_memory_put = rdma_link_memory_put,
                                            .stepped = s->trace ? stepped : NULL,
                                            .tell = s->watch ? machine_tells : NULL };

        return srp_target_new(&cfg, &ops, c);
}

/* All that it needs before it can be accepted; -1 with errno. */
static int build(struct srp_conn *c, struct srp_login_rsp *granted, uint32_t reads)
{
        uint32_t limit = limit_of(c), receives = limit + RECVS_MORE;
        struct verbs_qp_attr attr = { .send_wrs = 2 * limit + WRS_MORE + PROBES,
                                      .recv_wrs = receives,
                                      .inline_bytes = SRP_IU_OUT };

        errno = ENOSPC;
        if (limit == 0 || rdma_link_make(&c->link, &attr, receives) < 0)
                return -1;
        granted->req_lim_delta = be32(limit);
        errno = ENOMEM;
        c->machine = make_machine(c, granted, &attr, reads);
        return c->machine ? 0 : -1;
}

/* NULL: out of memory; without a device: likewise, or it cannot be had. */
static struct srp_conn *conn_new(struct reactor *r, const struct verbs_event *e,
                                 const struct srp_login_req *asked)
{
        static const struct rdma_ep_ops ops = { .event = on_event,
                                                .completed = on_completion,
                                                .moved = on_move,
                                                .end = on_end,
                                                .settle = settle };
        struct srp_conn *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        c->base.reactor = r;
        c->asked = *asked;
        c->heard_at = reactor_now(r);
        c->oust.run = on_oust;
        rdma_link_init(&c->link, &c->base, &ops);
        (void)rdma_link_take(&c->link, e->ep);
        return c;
}

/* It never was: its connect request was rejected. */
static void undo(struct srp_conn *c)
{
        rdma_ep_disown(&c->link.ep);
        dismantle(c);
}

/* What the initiator is told, whatever the machine knows: some of it may be wrong on purpose. */
static void accept_it(struct srp_conn *c, struct srp_login_rsp granted, uint8_t reads,
                      uint8_t rnr_retry)
{
        struct srp_service *s = service(c);
        uint8_t said[SRP_IU_OUT];
        struct srp_spoil spoil = { .iu = said, .len = sizeof(granted), .asked = &c->asked };
        struct verbs_conn_param p = { .data = said,
                                      .len = sizeof(granted),
                                      .reads_out = reads,
                                      .rnr_retry = rnr_retry,
                                      .retry = 7 };
        bool enabled, accepted;

        if (violates(c, SRP_LOGIN_TOLD))
                granted.rsp_flags &= (uint8_t)~SRP_RESULT;
        memcpy(said, &granted, sizeof(granted));
        (void)srp_spoil(&s->policy.violated, &spoil);
        srp_script_login(s, c, said, &p.len);
        pthread_mutex_lock(&s->lock); /* who disables the port waits until it is said */
        enabled = s->enabled;
        errno = ESHUTDOWN;
        accepted = enabled && rdma_ep_accept(&c->link.ep, &p) == 0;
        if (accepted)
                tell(c, SRP_HAS_ACCEPTED, 0);
        pthread_mutex_unlock(&s->lock);
        if (!accepted) {
                report(c, "accepting", "accepting failed", strerror(errno));
                rdma_ep_step(&c->link.ep, enabled ? LIFE_REFUSED : LIFE_ABORT);
        }
        settle(&c->link.ep);
}

static void enter(struct srp_conn *c, struct port *port, const struct conn_peer *peer)
{
        static const struct conn_kind kind = {
                .go_on = go_on, .feed = feed, .sweep = sweep, .drain = drain
        };
        char what[160];

        conn_enter(&c->base, &kind, c->base.reactor, port, peer, &c->link.device->pool);
        c->registered = true;
        c->base.host = c->nexus->name;
        srp_script_heard(c, &c->asked, sizeof(c->asked));
        snprintf(what, sizeof(what), "login of %s: connecting", c->nexus->name);
        trace(c, what);
}

/* From here on others may speak of it: there is no way back but through its life. */
static bool is_made(struct srp_conn *c, struct srp_login_answer *a, struct srp_login_rsp *granted,
                    uint8_t reads)
{
        if (!c || !c->link.device || build(c, granted, reads) < 0 ||
            !srp_nexus_join(service(c), c, a) || a->reason)
                return false;
        granted->rsp_flags = a->rsp.rsp_flags;
        return true;
}

/* NULL: it was rejected. */
static struct srp_conn *serve(struct reactor *r, const struct verbs_event *e,
                              const struct srp_login_req *asked, struct srp_login_rsp *granted,
                              uint8_t *reads)
{
        struct srp_service *s = srp_service_of(r);
        struct srp_login_answer a = srp_nexus_ask(s, asked);
        struct srp_conn *c = a.reason ? NULL : conn_new(r, e, asked);

        *granted = a.rsp;
        if (c && c->link.device)
                *reads = rdma_link_reads(&c->link, &e->param);
        if (!a.reason && is_made(c, &a, granted, *reads))
                return c;
        refuse(s, e, asked, a.reason ? a.reason : SRP_REJECT_RESOURCES,
               a.reason ? NULL : strerror(errno));
        if (c)
                undo(c);
        return NULL;
}

/* Over InfiniBand and RoCE only the form of RDMA CM has room; who has more room may send the IU. */
static bool read_login(const struct verbs_event *e, struct srp_login_req *asked)
{
        bool native = e->param.len >= sizeof(struct srp_login_req);

        return srp_login_read(e->data, e->param.len, native, asked);
}

void srp_conn_start(struct reactor *r, struct port *port, const struct verbs_event *e,
                    const struct conn_peer *peer)
{
        struct srp_service *s = srp_service_of(r);
        struct srp_login_rsp granted;
        struct srp_login_req asked;
        struct srp_conn *c = NULL;
        uint8_t reads = 0;

        if (!read_login(e, &asked))
                refuse(s, e, &asked, SRP_REJECT_FIRST, "not a login request");
        else
                c = serve(r, e, &asked, &granted, &reads);
        if (!c) {
                conn_uncount(r->service, port, peer);
                return;
        }
        enter(c, port, peer);
        accept_it(c, granted, reads, e->param.rnr_retry);
}
