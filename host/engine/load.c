/* SPDX-License-Identifier: BSD-3-Clause */
#include "load.h"

#include "pdu/io/loop.h"

enum { ASK_MS = 1 }; /* how often queues without descriptors are asked */

int load_poll(struct load *l, unsigned queue)
{
        long n;

        if (l->ops->send(l, queue) < 0)
                return -1;
        n = l->ops->receive(l, queue);
        if (n > 0 && l->ops->send(l, queue) < 0)
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
