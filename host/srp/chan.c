/* SPDX-License-Identifier: BSD-3-Clause */
#include "chan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/engine/time.h"
#include "pdu/core/bytes.h"
#include "pdu/srp/machine/channel.h"
#include "pdu/srp/machine/spoil.h"

enum {
        LOGOUT_MS = 200,
        NAP_MS = 10,
        READS = 16,        /* of the target at a time, if the device can */
        INLINE = 64,       /* a command with a descriptor */
        IMMEDIATE_AT = 68, /* after a command and a descriptor, as Linux has it */
        LEFT_FOR_TM = 1,   /* of the request limit */
};

/* --- what the connection says ------------------------------------------------------------------- */

static void broken_by(struct srp_chan *c, const struct verbs_wc *wc)
{
        enum srp_rule rule = srp_initiator_fault(c->machine);
        uint32_t reason;

        if (rule != SRP_RULE_NONE)
                host_rdma_break(&c->conn, "target broke %s (%s)", srp_rule_get(rule)->id,
                                srp_rule_get(rule)->says);
        else if (srp_initiator_is_left(c->machine, &reason))
                host_rdma_break(&c->conn, "target has logged out (reason %u)", reason);
        else
                host_rdma_failed(&c->conn, wc);
}

/* A channel that breaks here ends what is left by itself: see host_rdma_abort(). */
static bool on_completion(struct rdma_ep *e, const struct verbs_wc *wc)
{
        struct srp_chan *c = (struct srp_chan *)e;

        host_rdma_note(&c->conn);
        if (srp_initiator_completed(c->machine, wc) && !c->state.broken)
                broken_by(c, wc);
        return false;
}

static void on_end(struct host_rdma *conn)
{
        struct srp_chan *c = (struct srp_chan *)conn;

        if (c->machine)
                srp_initiator_fail_all(c->machine);
}

/* --- serving ------------------------------------------------------------------------------------ */

static int post(struct srp_chan *c)
{
        return host_rdma_post(&c->conn, srp_initiator_take_recvs(c->machine),
                              srp_initiator_take(c->machine));
}

int srp_chan_send(struct srp_chan *c)
{
        if (c->state.broken)
                return -1;
        if (srp_initiator_wants_post(c->machine) && post(c) < 0)
                return host_rdma_break(&c->conn, "post: %s", strerror(errno));
        return 0;
}

int srp_chan_submit(struct srp_chan *c, struct srp_request_out *r)
{
        return c->state.broken ? -1 : srp_initiator_submit(c->machine, r);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* The target ends the connection, which is what is waited for. */
static void log_out(struct srp_chan *c)
{
        uint64_t deadline = deadline_in(LOGOUT_MS);

        srp_initiator_logout(c->machine);
        if (srp_chan_send(c) < 0)
                return;
        while (!c->state.broken && ms_until(deadline) > 0)
                if (host_rdma_receive(&c->conn) == 0)
                        host_rdma_sleep(&c->conn, NAP_MS);
}

void srp_chan_close(struct srp_chan *c, bool logout)
{
        if (!c->state.broken && logout && c->machine && c->conn.ep.life.state == LIFE_LIVE)
                log_out(c);
        host_rdma_disconnect(&c->conn);
        if (c->machine)
                srp_initiator_free(c->machine);
        c->machine = NULL;
        host_rdma_close(&c->conn);
}

/* --- open: the machine and its memory ----------------------------------------------------------- */

static void *machine_memory(void *user, size_t bytes, uint32_t *lkey, uint32_t *rkey)
{
        struct srp_chan *c = user;
        void *memory = rdma_memory_own(&c->conn.memory, bytes, lkey);

        if (memory)
                *rkey = rdma_memory_find(&c->conn.memory, memory, 1)->rkey;
        return memory;
}

static bool data_keys(void *user, const void *data, uint32_t len, uint32_t *rkey)
{
        const struct verbs_mr *mr =
            rdma_memory_find(&((struct srp_chan *)user)->conn.memory, data, len);

        if (mr)
                *rkey = mr->rkey;
        return mr;
}

static int make_queue_pair(struct srp_chan *c, struct host_error *e)
{
        unsigned depth = c->params->depth;
        struct verbs_qp_attr attr = { .send_wrs = srp_initiator_sends(depth),
                                      .recv_wrs = srp_initiator_receives(depth),
                                      .inline_bytes = INLINE };

        return host_rdma_qp(&c->conn, &attr, e);
}

/* What was agreed on bounds the requests outstanding. */
static int make_machine(struct srp_chan *c, struct host_error *e)
{
        static const struct srp_initiator_ops ops = { machine_memory, data_keys };
        int32_t limit = (int32_t)be32_get(c->granted.req_lim_delta);
        struct srp_initiator_config cfg = { .asked = c->asked,
                                            .granted = c->granted,
                                            .inline_bytes =
                                                least(c->conn.ep.dev->caps->inline_bytes, INLINE),
                                            .policy = &c->params->policy };

        if (limit <= LEFT_FOR_TM)
                return host_fail(e, HOST_BROKEN,
                                 "channel %u: a request limit of %d leaves no command", c->number,
                                 limit);
        c->depth = cfg.depth = least(c->params->depth, (uint32_t)limit - LEFT_FOR_TM);
        c->machine = srp_initiator_new(&cfg, &ops, c);
        if (!c->machine)
                return host_rdma_no_memory(&c->conn, e);
        return post(c) == 0 ? 0 : host_rdma_no_post(&c->conn, e);
}

/* --- open: logging in --------------------------------------------------------------------------- */

/* The CM pads private data with zeroes: a rejection of its own may come with some. */
static bool explain_reject(const struct host_rdma *conn, struct host_error *e)
{
        const struct verbs_event *v = &conn->said;
        uint32_t reason;
        union srp_iu iu;

        if (!srp_read(v->data, v->param.len, &iu) || iu.opcode != SRP_LOGIN_REJ)
                return false;
        reason = be32_get(iu.login_rej.reason);
        host_error_set(e, HOST_BROKEN, "%s: %s: login rejected: %s (%08Xh)", conn->name,
                       conn->where, srp_reject_name(reason), reason);
        return true;
}

static struct srp_login_req login_of(const struct srp_params *p, bool single)
{
        struct srp_login_req r = {
                .opcode = SRP_LOGIN_REQ,
                .tag = be64(1),
                .req_it_iu_len = be32(p->it_iu),
                .req_buf_fmt = be16(SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT),
                .req_flags = (uint8_t)((single ? SRP_ACTION_SINGLE : SRP_ACTION_MULTI) |
                                       (p->immediate ? SRP_IMMEDIATE : 0)),
                .imm_data_offset = be16(p->immediate ? IMMEDIATE_AT : 0),
        };

        memcpy(r.initiator_port_id, p->initiator, sizeof(srp_port_id));
        memcpy(r.target_port_id, p->target, sizeof(srp_port_id));
        return r;
}

static int connect_request(struct srp_chan *c, bool single, struct host_error *e)
{
        struct srp_login_req said = c->asked = login_of(c->params, single);
        struct srp_spoil s = { .iu = (uint8_t *)&said, .len = sizeof(said) };
        struct srp_login_req_cm cm;
        struct verbs_conn_param param = {
                .data = &cm,
                .len = sizeof(cm),
                .reads_in = (uint8_t)least(c->conn.ep.dev->caps->reads_in, READS),
                .retry = 7,
                .rnr_retry = 7,
        };

        (void)srp_spoil(&c->params->policy.violated, &s);
        cm = srp_login_to_cm(&said);
        return host_rdma_connect(&c->conn, &param, e);
}

/* What the response breaks beside its request; our own readings apart. */
static int judge_response(struct srp_chan *c, struct host_error *e)
{
        const struct verbs_conn_param *p = &c->conn.said.param;
        struct srp_channel *seen = calloc(1, sizeof(*seen));
        struct rule_set found = { 0 }, unused = { 0 };

        if (!seen)
                return host_fail(e, HOST_BROKEN, "%s", strerror(ENOMEM));
        srp_channel_init(seen);
        srp_channel_login(seen, &c->asked, sizeof(c->asked), true, &unused);
        srp_channel_accept(seen, p->data, p->len, &found);
        c->granted = seen->granted;
        free(seen);
        if (rule_in(&c->params->policy.waived, SRP_LOGIN_ANSWER) && p->len >= sizeof(c->granted))
                memcpy(&c->granted, p->data, sizeof(c->granted));
        rule_each_in (&found, id) {
                const struct rule *rule = srp_rule_get(id);

                if (rule_grade(rule) == GRADE_MUST && !rule_in(&c->params->policy.waived, id))
                        return host_fail(e, HOST_BROKEN, "channel %u: target broke %s (%s)",
                                         c->number, rule->id, rule->says);
        }
        return 0;
}

static int resolve(struct srp_chan *c, struct host_error *e)
{
        static const struct host_rdma_ops ops = { .closed = "target closed the connection",
                                                  .refused = "refused by the target",
                                                  .completed = on_completion,
                                                  .ended = on_end,
                                                  .rejected = explain_reject };
        const struct srp_params *p = c->params;
        const struct host_rdma_config cfg = { p->traddr, p->trsvcid, p->timeout, p->verbs };

        snprintf(c->conn.name, sizeof(c->conn.name), "channel %u", c->number);
        c->conn.state = &c->state;
        return host_rdma_resolve(&c->conn, &ops, &cfg, e);
}

int srp_chan_open(struct srp_chan *c, const struct srp_params *p, unsigned number, bool single,
                  struct host_error *e)
{
        *c = (struct srp_chan) { .params = p, .number = number };
        if (resolve(c, e) == 0 && make_queue_pair(c, e) == 0 &&
            connect_request(c, single, e) == 0 && judge_response(c, e) == 0 &&
            make_machine(c, e) == 0)
                return 0;
        srp_chan_close(c, false);
        return -1;
}
