/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvme_load.h"

#include "build.h"
#include "host/engine/time.h"
#include "pdu/io/json.h"

enum {
        TRIES_MORE = 5,
        DELAY_MS =
            100, /* before the first one where CRD names none; doubled for each, TRIES_MORE at most */
        CRDT_MS = 100, /* unit of CRDT1, ... */
};

struct nvme_io {
        struct load_io io; /* first */
        struct host_cmd cmd;
        struct load *load;
        unsigned queue, tries; /* tries: those that failed by a status that passes, ... */
        uint64_t since;        /* ... the first of them at this ms */
        uint64_t due;          /* ms: when it is sent once more, ... */
        struct nvme_io *next;  /* ... in the queue's `later` */
};

static struct host_ctrl *ctrl_of(const struct load *l)
{
        return l->host;
}

static struct host_queue *queue_of(const struct load *l, unsigned queue)
{
        return &ctrl_of(l)->io[queue];
}

/* --- once more (Base 2.2 9.6.3): what a controller cannot do now, it may be able to do soon ------- */

static bool is_of_ana(uint16_t status)
{
        return status == NVME_ANA_INACCESSIBLE || status == NVME_ANA_TRANSITION;
}

static bool passes(const struct host_cmd *cmd)
{
        uint16_t status = cmd->status;

        return (is_of_ana(status) || status == NVME_INTERRUPTED || status == NVME_NS_NOT_READY) &&
               !cqe_dnr(&cmd->cqe);
}

static unsigned crd_of(const struct nvme_io *n)
{
        return le16_get(n->cmd.cqe.sf) >> 12 & 3;
}

static uint64_t delay_of(const struct nvme_io *n)
{
        const struct id_ctrl *id = &ctrl_of(n->load)->id;
        const le16_t times[] = { id->crdt1, id->crdt2, id->crdt3 };
        unsigned crd = crd_of(n), doubled = n->tries < TRIES_MORE ? n->tries : TRIES_MORE - 1;

        return crd ? (uint64_t)le16_get(times[crd - 1]) * CRDT_MS : (uint64_t)DELAY_MS << doubled;
}

/* A transition may take ANATT (8.1.1.6), which is in seconds; CRDT may be hours, and is not cut short. */
static bool is_worth_a_try(const struct nvme_io *n)
{
        const struct host_ctrl *c = ctrl_of(n->load);

        if (crd_of(n) && delay_of(n) > c->params.timeout)
                return false;
        return n->tries < TRIES_MORE ||
               (is_of_ana(n->cmd.status) && loop_now_ms() - n->since < c->id.anatt * 1000u);
}

static void put_off(struct nvme_io *n)
{
        struct host_queue *q = queue_of(n->load, n->queue);
        uint64_t now = loop_now_ms();

        n->due = now + 1 + delay_of(n); /* 1: the ms that has begun */
        n->io.held_until = n->due * NS_PER_MS;
        if (n->tries++ == 0)
                n->since = now;
        n->next = q->later;
        q->later = n;
}

static void ended(struct host_cmd *cmd, void *user)
{
        struct nvme_io *n = user;

        if (passes(cmd) && is_worth_a_try(n)) {
                put_off(n);
                return;
        }
        n->io.outcome = cmd->status == 0                     ? LOAD_DONE
                        : cmd->status == HOST_STATUS_ABORTED ? LOAD_LOST
                                                             : LOAD_FAILED;
        n->io.done(&n->io, n->io.user);
}

static int submit_again(struct load *l, unsigned queue, struct nvme_io *n)
{
        const struct load_io *io = &n->io;

        n->cmd = (struct host_cmd) { .sqe = build_rw(io->write ? NVME_WRITE : NVME_READ, l->param,
                                                     io->block, io->blocks, 0),
                                     .data = io->data,
                                     .len = io->blocks * l->block_size,
                                     .xfer = io->write ? XFER_H2C : XFER_C2H,
                                     .command_buffer = io->asked_for,
                                     .done = ended,
                                     .user = n };
        return host_queue_submit(queue_of(l, queue), &n->cmd);
}

static int submit(struct load *l, unsigned queue, struct load_io *io)
{
        struct nvme_io *n = (struct nvme_io *)io;

        n->load = l;
        n->queue = queue;
        n->tries = 0;
        n->io.held_until = 0;
        return submit_again(l, queue, n);
}

/* Those that are due; there is room for them, as for all that has not been done. */
static void send_later(struct load *l, unsigned queue)
{
        struct host_queue *q = queue_of(l, queue);
        struct nvme_io *n = q->later, *next;
        uint64_t now = n ? loop_now_ms() : 0;

        for (q->later = NULL; n; n = next) {
                next = n->next;
                if (n->due <= now && submit_again(l, queue, n) == 0)
                        continue;
                n->next = q->later;
                q->later = n;
        }
}

static int send(struct load *l, unsigned queue)
{
        send_later(l, queue);
        return host_queue_send(queue_of(l, queue));
}

static long receive(struct load *l, unsigned queue)
{
        return host_queue_receive(queue_of(l, queue));
}

static struct load_state *state(const struct load *l, unsigned queue)
{
        return &queue_of(l, queue)->state;
}

static int fds(struct load *l, unsigned queue, struct pollfd *to)
{
        struct host_queue *q = queue_of(l, queue);

        return q->later && !q->state.broken ? 0 : host_queue_fds(q, to);
}

static void abandon(struct load *l, unsigned queue, const char *why)
{
        struct host_queue *q = queue_of(l, queue);
        struct nvme_io *n;

        host_queue_break(q, "queue %u: %s", q->qid, why);
        while ((n = q->later)) {
                q->later = n->next;
                n->io.outcome = LOAD_LOST;
                n->io.done(&n->io, n->io.user);
        }
}

static int add_memory(struct load *l, unsigned queue, void *base, size_t len, struct host_error *e)
{
        return host_queue_add_memory(queue_of(l, queue), base, len, e);
}

static void drop_memory(struct load *l, unsigned queue, const void *base)
{
        host_queue_drop_memory(queue_of(l, queue), base);
}

static unsigned number(const struct load *l, unsigned queue)
{
        return queue_of(l, queue)->qid;
}

static void why_failed(const struct load *l, const struct load_io *io, struct host_error *e)
{
        const struct host_cmd *cmd = &((const struct nvme_io *)io)->cmd;

        (void)l;
        host_fail_status(e, cmd->status, &cmd->cqe, "%s of %u blocks at LBA %llu",
                         sqe_name(&cmd->sqe, false), io->blocks, (unsigned long long)io->block);
}

static void show(const struct load *l, struct json_object *o)
{
        const struct host_params *p = &ctrl_of(l)->params;

        put_bool(o, "hdr_digest", p->hdgst);
        put_bool(o, "data_digest", p->ddgst);
}

static int keep(struct load *l, struct host_error *e)
{
        if (host_ctrl_poll(ctrl_of(l)) >= 0)
                return 0;
        *e = ctrl_of(l)->admin.state.error;
        return -1;
}

static int next(const struct load *l)
{
        return host_ctrl_next(ctrl_of(l));
}

static int reconnect(struct load *l, struct host_error *e)
{
        return host_ctrl_reconnect(ctrl_of(l), e);
}

struct load nvme_load(struct host_ctrl *c, uint32_t nsid, uint32_t block_size, uint64_t blocks)
{
        static const struct load_ops ops = {
                .io_bytes = sizeof(struct nvme_io),
                .submit = submit,
                .send = send,
                .receive = receive,
                .state = state,
                .fds = fds,
                .abandon = abandon,
                .add_memory = add_memory,
                .drop_memory = drop_memory,
                .number = number,
                .why_failed = why_failed,
                .show = show,
                .keep = keep,
                .next = next,
                .reconnect = reconnect,
        };
        uint32_t most = host_ctrl_max_transfer(c) / block_size;

        return (struct load) {
                .ops = &ops,
                .host = c,
                .queues = c->io_count,
                .depth = c->io[0].depth,
                .block_size = block_size,
                .blocks = blocks,
                .max_blocks = most < RW_NLB_MASK + 1 ? most : RW_NLB_MASK + 1,
                .timeout = c->params.timeout,
                .reconnects = c->params.ctrl_loss_tmo > 0,
                .sinks = c->params.transport == HOST_RDMA,
                .param = nsid,
        };
}
