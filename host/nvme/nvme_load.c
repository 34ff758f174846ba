/* SPDX-License-Identifier: BSD-3-Clause */
#include "nvme_load.h"

#include "build.h"
#include "pdu/io/json.h"

struct nvme_io {
        struct load_io io; /* first */
        struct host_cmd cmd;
};

static struct host_ctrl *ctrl_of(const struct load *l)
{
        return l->host;
}

static struct host_queue *queue_of(const struct load *l, unsigned queue)
{
        return &ctrl_of(l)->io[queue];
}

static void ended(struct host_cmd *cmd, void *user)
{
        struct nvme_io *n = user;

        n->io.outcome = cmd->status == 0                     ? LOAD_DONE
                        : cmd->status == HOST_STATUS_ABORTED ? LOAD_LOST
                                                             : LOAD_FAILED;
        n->io.done(&n->io, n->io.user);
}

static int submit(struct load *l, unsigned queue, struct load_io *io)
{
        struct nvme_io *n = (struct nvme_io *)io;

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

static int send(struct load *l, unsigned queue)
{
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
        return host_queue_fds(queue_of(l, queue), to);
}

static void abandon(struct load *l, unsigned queue, const char *why)
{
        struct host_queue *q = queue_of(l, queue);

        host_queue_break(q, "queue %u: %s", q->qid, why);
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
