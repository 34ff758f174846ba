/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes over all channels, for verify and perf. */
#include <stdio.h>

#include "channels.h"

struct srp_io {
        struct load_io io; /* first */
        struct srp_request_out r;
};

static const struct srp_work *work_of(const struct load *l)
{
        return l->host;
}

static struct srp_chan *chan_of(const struct load *l, unsigned queue)
{
        return &work_of(l)->all->chan[queue];
}

/* What is not all there is not done. */
static void ended(struct srp_request_out *r, void *user)
{
        struct srp_io *io = user;
        bool good = r->status == SCSI_GOOD && r->in_residual == 0 && r->out_residual == 0;

        io->io.outcome = r->outcome == SRP_LOST ? LOAD_LOST : good ? LOAD_DONE : LOAD_FAILED;
        io->io.done(&io->io, io->io.user);
}

static int submit(struct load *l, unsigned queue, struct load_io *io)
{
        const struct srp_work *w = work_of(l);
        struct srp_io *s = (struct srp_io *)io;

        s->r = srp_rw(&w->disk, io->write, io->block, io->blocks, io->data);
        s->r.form = io->asked_for && w->form == SRP_FORM_IMMEDIATE ? SRP_FORM_DIRECT : w->form;
        s->r.pieces = w->pieces;
        s->r.done = ended;
        s->r.user = s;
        return srp_chan_submit(chan_of(l, queue), &s->r);
}

static int send(struct load *l, unsigned queue)
{
        return srp_chan_send(chan_of(l, queue));
}

static long receive(struct load *l, unsigned queue)
{
        return host_rdma_receive(&chan_of(l, queue)->conn);
}

static struct load_state *state(const struct load *l, unsigned queue)
{
        return &chan_of(l, queue)->state;
}

static int fds(struct load *l, unsigned queue, struct pollfd *to)
{
        return host_rdma_fds(&chan_of(l, queue)->conn, to);
}

static void abandon(struct load *l, unsigned queue, const char *why)
{
        host_rdma_break(&chan_of(l, queue)->conn, "%s", why);
}

static int add_memory(struct load *l, unsigned queue, void *base, size_t len, struct host_error *e)
{
        struct srp_chan *c = chan_of(l, queue);

        if (rdma_memory_add(&c->conn.memory, base, len) == 0)
                return 0;
        return host_fail(e, HOST_BROKEN, "channel %u: cannot register %zu bytes", c->number, len);
}

static void drop_memory(struct load *l, unsigned queue, const void *base)
{
        rdma_memory_drop(&chan_of(l, queue)->conn.memory, base);
}

/* The nexus may be a new one: what the unit has to tell it is taken first. */
static int reconnect(struct load *l, struct host_error *e)
{
        const struct srp_work *w = work_of(l);
        struct srp_disk disk;

        if (srp_channels_reopen(w->all, e) < 0)
                return -1;
        return srp_disk_open(&w->all->chan[0], scsi_lun_number(w->disk.lun), &disk, e);
}

static void why_failed(const struct load *l, const struct load_io *io, struct host_error *e)
{
        char what[100];

        (void)l;
        snprintf(what, sizeof(what), "%s of %u blocks at LBA %llu",
                 io->write ? "WRITE(16)" : "READ(16)", io->blocks, (unsigned long long)io->block);
        srp_fail_status(&((const struct srp_io *)(const void *)io)->r, what, e);
}

struct load srp_load(struct srp_work *w)
{
        static const struct load_ops ops = {
                .io_bytes = sizeof(struct srp_io),
                .submit = submit,
                .send = send,
                .receive = receive,
                .state = state,
                .fds = fds,
                .abandon = abandon,
                .add_memory = add_memory,
                .drop_memory = drop_memory,
                .why_failed = why_failed,
                .reconnect = reconnect,
        };

        return (struct load) {
                .ops = &ops,
                .host = w,
                .queues = w->all->channels,
                .depth = w->all->chan[0].depth,
                .block_size = w->disk.block_size,
                .blocks = w->disk.blocks,
                .max_blocks = w->disk.max_blocks,
                .timeout = w->all->params.timeout,
                .reconnects = w->all->params.reconnect > 0,
                .sinks = true,
        };
}
