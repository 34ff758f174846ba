/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's side of one NVMe/TCP connection (one queue pair): ICReq, command capsules out, R2Ts
 * served, C2HData and responses in. Connect, Identify and the like are ordinary commands to it.
 */
#ifndef NVMF_MACHINE_TCP_HOST_H
#define NVMF_MACHINE_TCP_HOST_H

#include "link.h"
#include "pdu/nvme/machine/host_cmd.h"

struct tcp_host;

struct tcp_host_config {
        uint8_t hpda;         /* 0's based dwords, 0..31 */
        bool hdgst, ddgst;    /* asked for */
        bool require_digests; /* give up (LINK_CLOSING) when the controller clears one that was
                               * asked for: tcp_host_digests_refused() */
        uint32_t maxr2t;      /* count, >= 1 */
        uint16_t depth;       /* commands outstanding at most: queue size - 1 */
        uint32_t in_capsule; /* bytes of in-capsule data: 8192 on the admin queue, else from IOCCSZ;
                              * may be changed by tcp_host_set_in_capsule() */
        struct track_limits limits;
        const struct rule_policy *policy; /* may be NULL */
};

/* NULL: out of memory. *cfg is copied, its policy is not. user is not looked at. */
struct tcp_host *tcp_host_new(const struct tcp_host_config *cfg, void *user);
/* Commands still outstanding are not called back: tcp_host_fail_all() first. */
void tcp_host_free(struct tcp_host *h);
/* Its link, by which bytes come and go; it lives as long as h. */
struct link *tcp_host_link(struct tcp_host *h);

/* Queues ICReq; before it nothing is sent. Commands may be submitted when tcp_host_ready(). */
void tcp_host_start(struct tcp_host *h);
bool tcp_host_ready(const struct tcp_host *h);
/* See tcp_host_config.in_capsule; for commands that are submitted from here on. */
void tcp_host_set_in_capsule(struct tcp_host *h, uint32_t bytes);

/* Whether the connection ended since ICResp lacks digests that require_digests insists on. */
bool tcp_host_digests_refused(const struct tcp_host *h);

/* 0; -1 when `depth` commands are outstanding or the link is not live. */
int tcp_host_submit(struct tcp_host *h, struct host_cmd *cmd);
unsigned tcp_host_outstanding(const struct tcp_host *h);

/* Bytes have arrived at link_recv_iov(): takes all events in them, calls done() of ended commands.
 */
void tcp_host_received(struct tcp_host *h, size_t n);

/* The connection is gone (link_kill() if it was not): every command that has not ended is called
 * back with `status`. */
void tcp_host_fail_all(struct tcp_host *h, uint16_t status);

#endif
