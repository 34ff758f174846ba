/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue over RDMA: a connection (host/engine/rdma.h) and the host's machine. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bounce.h"
#include "host/engine/rdma.h"
#include "pdu/core/bytes.h"
#include "pdu/nvme/rdma/rdma_host.h"
#include "pdu/nvme/rdma/spoil_rdma.h"
#include "queue.h"

enum {
        READS_MAX = 128, /* READs of the controller at a time, if the device can */
        INLINE_MAX = 64, /* an SQE */
};

struct queue_rdma {
        struct host_rdma conn; /* first */
        struct host_queue *queue;
        struct rdma_host *host;
        struct bounces bounces;
        struct rdma_request request;
};

static struct queue_rdma *rdma_of(struct host_queue *q)
{
        return q->own;
}

/* --- what the connection says ------------------------------------------------------------------- */

static void broken_by(struct queue_rdma *r, const struct verbs_wc *wc)
{
        struct fault f = rdma_host_fault(r->host);

        if (is_fault(f))
                host_rdma_break(&r->conn, "controller broke %s (%s)", rule_get(f.rule)->id,
                                rule_get(f.rule)->says);
        else
                host_rdma_failed(&r->conn, wc);
}

/* A queue that breaks here takes, and ends, what is left by itself: see host_rdma_abort(). */
static bool on_completion(struct rdma_ep *e, const struct verbs_wc *wc)
{
        struct queue_rdma *r = (struct queue_rdma *)e;

        host_rdma_note(&r->conn);
        if (rdma_host_completed(r->host, wc) && !r->queue->state.broken)
                broken_by(r, wc);
        return false;
}

static void on_end(struct host_rdma *c)
{
        struct queue_rdma *r = (struct queue_rdma *)c;

        if (r->host)
                rdma_host_fail_all(r->host, HOST_STATUS_ABORTED);
}

static long rdma_receive(struct host_queue *q)
{
        return host_rdma_receive(&rdma_of(q)->conn);
}

static int rdma_fds(struct host_queue *q, struct pollfd *fds)
{
        return host_rdma_fds(&rdma_of(q)->conn, fds);
}

static void rdma_fail(struct host_queue *q)
{
        host_rdma_abort(&rdma_of(q)->conn);
}

static void rdma_close(struct host_queue *q)
{
        struct queue_rdma *r = rdma_of(q);

        host_rdma_disconnect(&r->conn);
        rdma_host_free(r->host);
        bounces_fini(&r->bounces);
        host_rdma_close(&r->conn);
        free(r);
        q->own = NULL;
}

/* --- commands --------------------------------------------------------------------------------- */

static void bounce_done(struct host_cmd *cmd, void *user)
{
        struct bounce *s = user;

        if (cmd->xfer == XFER_C2H && s->original && cmd->got)
                memcpy(s->original, s->data, cmd->got);
        cmd->data = s->original;
        cmd->done = s->done;
        cmd->user = s->user;
        bounce_put(s);
        cmd->done(cmd, cmd->user);
}

/* The command's data lies in a bounce buffer until it is done. */
static struct bounce *bounce_begin(struct queue_rdma *r, struct host_cmd *cmd)
{
        struct bounce *s = bounce_get(&r->bounces, cmd->len);

        if (!s)
                return NULL;
        if (cmd->xfer == XFER_H2C && cmd->data)
                memcpy(s->data, cmd->data, cmd->len);
        s->original = cmd->data;
        s->done = cmd->done;
        s->user = cmd->user;
        cmd->data = s->data;
        cmd->done = bounce_done;
        cmd->user = s;
        return s;
}

static void bounce_undo(struct bounce *s, struct host_cmd *cmd)
{
        cmd->data = s->original;
        cmd->done = s->done;
        cmd->user = s->user;
        bounce_put(s);
}

static int rdma_submit(struct host_queue *q, struct host_cmd *cmd)
{
        struct queue_rdma *r = rdma_of(q);
        struct bounce *s = NULL;

        if (rdma_host_outstanding(r->host) >= q->depth)
                return -1;
        if (cmd->xfer != XFER_NONE && cmd->len > 0 &&
            !(cmd->data && rdma_memory_find(&r->conn.memory, cmd->data, cmd->len))) {
                s = bounce_begin(r, cmd);
                if (!s)
                        return -1;
        }
        if (rdma_host_submit(r->host, cmd) == 0)
                return 0;
        if (s)
                bounce_undo(s, cmd);
        return -1;
}

static int post(struct queue_rdma *r)
{
        return host_rdma_post(&r->conn, rdma_host_take_recvs(r->host), rdma_host_take(r->host));
}

static int rdma_send(struct host_queue *q)
{
        struct queue_rdma *r = rdma_of(q);

        if (rdma_host_wants_post(r->host) && post(r) < 0)
                return host_rdma_break(&r->conn, "post: %s", strerror(errno));
        return 0;
}

static int rdma_add_memory(struct host_queue *q, void *base, size_t len)
{
        return rdma_memory_add(&rdma_of(q)->conn.memory, base, len);
}

static void rdma_drop_memory(struct host_queue *q, const void *base)
{
        rdma_memory_drop(&rdma_of(q)->conn.memory, base);
}

/* --- open: the machine and its memory --------------------------------------------------------- */

static void *machine_memory(void *user, size_t bytes, uint32_t *lkey)
{
        return rdma_memory_own(&((struct queue_rdma *)user)->conn.memory, bytes, lkey);
}

static void machine_memory_put(void *user, void *memory, size_t bytes)
{
        (void)bytes;
        rdma_memory_drop(&((struct queue_rdma *)user)->conn.memory, memory);
}

static bool data_keys(void *user, const void *data, uint32_t len, uint32_t *lkey, uint32_t *rkey)
{
        const struct verbs_mr *mr =
            rdma_memory_find(&((struct queue_rdma *)user)->conn.memory, data, len);

        if (!mr)
                return false;
        *lkey = mr->lkey;
        *rkey = mr->rkey;
        return true;
}

static bool violates(const struct host_queue_config *cfg)
{
        return cfg->policy && !rule_set_empty(&cfg->policy->violated);
}

/* In-capsule data is sent from where it lies, no room is needed for it; but violators have
 * the capsule as a whole, and some make it longer than is allowed. */
static uint32_t capsule_bytes(const struct host_queue_config *cfg)
{
        uint32_t bytes = 64 + cfg->icdoff * 16u;

        return violates(cfg) ? bytes + cfg->in_capsule + 16 * (cfg->msdbd + 2u) : bytes;
}

static struct rdma_host_config machine_config(const struct queue_rdma *r,
                                              const struct host_queue_config *cfg)
{
        return (struct rdma_host_config) { .qid = cfg->qid,
                                           .depth = r->queue->depth,
                                           .icdoff = cfg->icdoff,
                                           .in_capsule = cfg->qid ? cfg->in_capsule : 0,
                                           .capsule_max = capsule_bytes(cfg),
                                           .inline_bytes = least(r->conn.ep.dev->caps->inline_bytes,
                                                                 INLINE_MAX),
                                           .msdbd = cfg->msdbd,
                                           .policy = cfg->policy };
}

static int make_queue_pair(struct queue_rdma *r, const struct host_queue_config *cfg,
                           struct host_error *e)
{
        static const struct rdma_host_ops ops = {
                .memory = machine_memory,
                .memory_put = machine_memory_put,
                .data_keys = data_keys,
        };
        struct rdma_host_config host = machine_config(r, cfg);
        struct verbs_qp_attr attr = { .send_wrs = rdma_host_sends(&host),
                                      .recv_wrs = r->queue->depth + 1u, /* one to spare */
                                      .inline_bytes = host.inline_bytes };

        if (host_rdma_qp(&r->conn, &attr, e) < 0)
                return -1;
        r->host = rdma_host_new(&host, &ops, r);
        if (!r->host)
                return host_rdma_no_memory(&r->conn, e);
        return post(r) == 0 ? 0 : host_rdma_no_post(&r->conn, e);
}

/* --- open: the connection --------------------------------------------------------------------- */

/* The CM pads private data with zeroes: a rejection of its own may come with some. */
static bool explain_reject(const struct host_rdma *c, struct host_error *e)
{
        const struct verbs_conn_param *p = &c->said.param;
        struct rdma_reject reject;

        if (p->len == 0 || !rdma_reject_read(p->data, p->len, &reject) ||
            le16_get(reject.recfmt) != 0 || le16_get(reject.sts) == 0)
                return false;
        host_error_set(e, HOST_BROKEN, "%s: %s: controller rejected the connection: %s (status %u)",
                       c->name, c->where, rdma_reject_name(le16_get(reject.sts)),
                       le16_get(reject.sts));
        return true;
}

/* What it says bounds the commands outstanding. */
static int take_acceptance(struct queue_rdma *r, const struct host_queue_config *cfg,
                           struct host_error *e)
{
        const struct verbs_conn_param *p = &r->conn.said.param;
        struct rule_set found = { 0 };
        struct rdma_accept accept;
        uint16_t room;

        rdma_accept_check(p->data, p->len, p->reads_in, &r->request, &found);
        rule_each_in (&found, id) {
                const struct rule *rule = rule_get(id);

                if (rule->level != LEVEL_MUST || (cfg->policy && rule_in(&cfg->policy->waived, id)))
                        continue;
                return host_fail(e, HOST_BROKEN, "queue %u: controller broke %s (%s)", cfg->qid,
                                 rule->id, rule->says);
        }
        rdma_accept_read(p->data, p->len, &accept);
        room = le16_get(accept.crqsize);
        if (room > 0 && room < r->queue->depth)
                r->queue->depth = room;
        return 0;
}

static int connect_request(struct queue_rdma *r, const struct host_queue_config *cfg,
                           struct host_error *e)
{
        struct verbs_conn_param param = {
                .reads_in = (uint8_t)least(r->conn.ep.dev->caps->reads_in, READS_MAX),
                .reads_out = 0, /* a host starts no READ */
                .retry = 7,
                .rnr_retry = 7,
        };
        struct spoil_cm s = { .message = SPOIL_REQUEST,
                              .data = &r->request,
                              .len = sizeof(r->request),
                              .reads_in = param.reads_in };

        r->request = (struct rdma_request) { .qid = le16(cfg->qid),
                                             .hrqsize = le16(cfg->entries),
                                             .hsqsize = le16((uint16_t)(cfg->entries - 1)),
                                             .cntlid = le16(cfg->qid ? cfg->cntlid : 0) };
        if (violates(cfg))
                spoil_cm(&cfg->policy->violated, &s);
        param.data = &r->request;
        param.len = s.len;
        param.reads_in = s.reads_in;
        param.reads_out = s.reads_out;
        return host_rdma_connect(&r->conn, &param, e);
}

static int resolve(struct queue_rdma *r, const struct host_queue_config *cfg, struct host_error *e)
{
        static const struct host_rdma_ops ops = { .closed = "controller closed the connection",
                                                  .refused = "refused by the controller",
                                                  .completed = on_completion,
                                                  .ended = on_end,
                                                  .rejected = explain_reject };
        const struct host_rdma_config rdma = { cfg->traddr, cfg->trsvcid, cfg->timeout,
                                               cfg->verbs };

        snprintf(r->conn.name, sizeof(r->conn.name), "queue %u", cfg->qid);
        r->conn.state = &r->queue->state;
        r->bounces.memory = &r->conn.memory;
        return host_rdma_resolve(&r->conn, &ops, &rdma, e);
}

static int rdma_open(struct host_queue *q, const struct host_queue_config *cfg,
                     struct host_error *e)
{
        struct queue_rdma *r = q->own = calloc(1, sizeof(*r));

        if (!r)
                return host_fail(e, HOST_BROKEN, "no memory for a queue");
        r->queue = q;
        if (resolve(r, cfg, e) == 0 && make_queue_pair(r, cfg, e) == 0 &&
            connect_request(r, cfg, e) == 0 && take_acceptance(r, cfg, e) == 0)
                return 0;
        rdma_close(q);
        return -1;
}

const struct host_queue_ops host_queue_rdma = {
        .open = rdma_open,
        .close = rdma_close,
        .fail = rdma_fail,
        .submit = rdma_submit,
        .send = rdma_send,
        .receive = rdma_receive,
        .fds = rdma_fds,
        .add_memory = rdma_add_memory,
        .drop_memory = rdma_drop_memory,
};
