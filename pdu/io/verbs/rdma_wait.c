/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma_wait.h"

#include <errno.h>

int rdma_group_arm(struct rdma_group *g, struct pollfd *fds, int max)
{
        bool armed = verbs_arm(g->context) == 0;
        int fd[RDMA_FDS], n;

        if (rdma_group_poll(g, 1) > 0)
                return -1;
        if (!armed)
                return 0;
        n = verbs_fds(g->context, fd, max < RDMA_FDS ? max : RDMA_FDS);
        for (int i = 0; i < n; i++)
                fds[i] = (struct pollfd) { .fd = fd[i], .events = POLLIN };
        return n;
}

void rdma_group_sleep(struct rdma_group *g, int ms)
{
        struct pollfd fds[RDMA_FDS];
        int n = rdma_group_arm(g, fds, RDMA_FDS);

        if (n < 0)
                return;
        if (n == 0 && (ms < 0 || ms > RDMA_BLIND_MS))
                ms = RDMA_BLIND_MS;
        (void)poll(fds, (nfds_t)n, ms);
}

/* Only the first descriptor of a context brings events. */
static void on_ready(struct loop_source *s, uint32_t events)
{
        struct rdma_loop *l = ((struct rdma_loop_fd *)(void *)s)->of;

        (void)events;
        l->ready(l, s == &l->fds[0].source);
}

static bool has_fd(const int *fds, int n, int fd)
{
        while (n > 0 && fds[n - 1] != fd)
                n--;
        return n > 0;
}

static int add(struct rdma_loop *l, int fd)
{
        struct rdma_loop_fd *f = &l->fds[l->count];

        if (l->count == RDMA_FDS) {
                errno = ENOSPC;
                return -1;
        }
        f->of = l;
        f->source = (struct loop_source) { .fd = fd, .ready = on_ready };
        if (loop_add(l->loop, &f->source, EPOLLIN) < 0)
                return -1;
        l->count++;
        return 0;
}

int rdma_loop_update(struct rdma_loop *l)
{
        int fds[RDMA_FDS], n = verbs_fds(l->context, fds, RDMA_FDS);

        for (int i = 0; i < l->count; i++)
                if (!has_fd(fds, n, l->fds[i].source.fd))
                        l->fds[i].source.fd = -1; /* closed, and so out of the loop */
        for (int i = 0; i < n; i++) {
                int k = 0;

                while (k < l->count && l->fds[k].source.fd != fds[i])
                        k++;
                if (k == l->count && add(l, fds[i]) < 0)
                        return -1;
        }
        return 0;
}

void rdma_loop_end(struct rdma_loop *l)
{
        while (l->count > 0)
                if (l->fds[--l->count].source.fd >= 0)
                        loop_remove(l->loop, &l->fds[l->count].source);
}
