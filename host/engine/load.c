/* SPDX-License-Identifier: BSD-3-Clause */
#include "load.h"

#include <stdio.h>

#include "pdu/io/loop.h"

enum { ASK_MS = 1 }; /* how often queues without descriptors are asked */

bool load_vbreak(struct load_state *s, const char *fmt, va_list ap)
{
        if (s->broken)
                return false;
        s->broken = true;
        s->error = (struct host_error) { .kind = HOST_BROKEN };
        vsnprintf(s->error.line, sizeof(s->error.line), fmt, ap);
        return true;
}

bool load_break(struct load_state *s, const char *fmt, ...)
{
        va_list ap;
        bool now;

        va_start(ap, fmt);
        now = load_vbreak(s, fmt, ap);
        va_end(ap);
        return now;
}

unsigned load_number(const struct load *l, unsigned queue)
{
        return l->ops->number ? l->ops->number(l, queue) : queue + 1;
}

int load_send(struct load *l, unsigned queue)
{
        return l->ops->send ? l->ops->send(l, queue) : 0;
}

void load_abandon(struct load *l, unsigned queue, const char *why)
{
        if (l->ops->abandon)
                l->ops->abandon(l, queue, why);
}

void load_why_failed(const struct load *l, const struct load_io *io, struct host_error *e)
{
        if (l->ops->why_failed)
                l->ops->why_failed(l, io, e);
        else
                host_error_set(e, HOST_STATUS, "a %s of %u blocks from block %llu on failed",
                               io->write ? "write" : "read", io->blocks,
                               (unsigned long long)io->block);
}

void load_why_lost(const struct load *l, unsigned queue, struct host_error *e)
{
        if (l->ops->state)
                *e = l->ops->state(l, queue)->error;
        else
                host_error_set(e, HOST_BROKEN, "queue %u: the connection ended",
                               load_number(l, queue));
}

int load_poll(struct load *l, unsigned queue)
{
        long n;

        if (load_send(l, queue) < 0)
                return -1;
        n = l->ops->receive(l, queue);
        if (n > 0 && load_send(l, queue) < 0)
                return -1;
        return n > 0 ? 1 : (int)n;
}

int load_sleep(struct load *l, const unsigned *queues, unsigned n, struct pollfd *fds, int ms)
{
        unsigned count = 0;
        bool blind = false;

        for (unsigned i = 0; i < n; i++) {
                int more = l->ops->fds(l, queues[i], fds + count);

                if (more < 0)
                        return 1;
                blind |= more == 0;
                count += (unsigned)more;
        }
        if (blind && (ms < 0 || ms > ASK_MS))
                ms = ASK_MS;
        return loop_poll(fds, count, ms);
}
