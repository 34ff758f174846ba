/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_rdma.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#ifndef NVMF_WITH_RDMA

void verbs_rdma_prepare(void)
{
}

struct verbs_provider *verbs_rdma(char *error, size_t size)
{
        snprintf(error, size, "built without RDMA");
        return NULL;
}

#else

#include "verbs_rdma_parts.h"

const struct verbs verbs_rdma_ops = {
        .open = vrdma_context_open,
        .close = vrdma_context_close,
        .fds = vrdma_context_fds,
        .event = vrdma_context_event,
        .listen = vrdma_listener,
        .listener_port = vrdma_listener_port,
        .unlisten = vrdma_unlisten,
        .resolve = vrdma_resolve,
        .migrate = vrdma_ep_migrate,
        .domain = vrdma_domain,
        .qp = vrdma_ep_qp,
        .connect = vrdma_ep_connect,
        .accept = vrdma_ep_accept,
        .reject = vrdma_ep_reject,
        .local = vrdma_local,
        .numbers = vrdma_ep_numbers,
        .join_peer = vrdma_ep_join,
        .disconnect = vrdma_ep_disconnect,
        .fail = vrdma_ep_fail,
        .destroy = vrdma_ep_destroy,
        .set_user = vrdma_ep_set_user,
        .user = vrdma_ep_user,
        .addresses = vrdma_ep_addresses,
        .caps = vrdma_domain_caps,
        .make_srq = vrdma_make_srq,
        .grow_cq = vrdma_grow_cq,
        .reg = vrdma_reg,
        .dereg = vrdma_dereg,
        .make_window = vrdma_make_window,
        .drop_window = vrdma_drop_window,
        .post = vrdma_post,
        .post_recv = vrdma_post_recv,
        .post_srq = vrdma_post_srq,
        .poll = vrdma_poll,
        .arm = vrdma_arm,
};

static const char *why(int problem)
{
        if (problem == ENODEV)
                return "no RDMA device";
        if (problem == ENOENT)
                return "no RDMA connection manager (kernel module rdma_ucm)";
        return strerror(problem);
}

/* librdmacm keeps its lists of devices in the order of their addresses, which older ones (44 among them) compare by an
 * int: of two that are 2 GiB apart the order is wrong. The lists of before and after, gone through side by side, then
 * lose devices that are there, and librdmacm waits for its own lock forever. Such a one is a device that came back, where
 * the thread that finds it has another arena than the one that found the first.
 * No padding, as in a thread's arena: what calloc() gives is fresh, and takes no memory until it is used. */
void verbs_rdma_prepare(void)
{
        mallopt(M_ARENA_MAX, 1);
        mallopt(M_TOP_PAD, 0);
}

struct verbs_provider *verbs_rdma(char *error, size_t size)
{
        static struct verbs_provider provider = { &verbs_rdma_ops };
        struct rdma_event_channel *channel = rdma_create_event_channel();

        if (!channel) {
                snprintf(error, size, "RDMA: %s", why(errno));
                return NULL;
        }
        rdma_destroy_event_channel(channel);
        return &provider;
}

#endif
