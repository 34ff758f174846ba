/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The controller's side of one NVMe/TCP connection (one queue pair): ICResp, capsules in, R2T and
 * H2CData, C2HData and responses out. What a command means is the owner's business: it admits it,
 * executes it, completes it (request.h).
 */
#ifndef NVMF_MACHINE_TCP_CONTROLLER_H
#define NVMF_MACHINE_TCP_CONTROLLER_H

#include "link.h"
#include "pdu/nvme/machine/request.h"

struct tcp_controller;

struct tcp_controller_config {
        uint8_t cpda;           /* 0's based dwords, 0..31 */
        bool hdgst, ddgst;      /* digests that are granted when asked for */
        uint32_t maxh2cdata;    /* bytes, dword multiple, >= 4096 */
        uint32_t io_in_capsule; /* bytes of in-capsule data on I/O queues: IOCCSZ * 16 - 64;
                                 * at most FRAMER_IN_PLACE */
        uint32_t max_transfer;  /* bytes (MDTS): longer ones end with Invalid Field in Command */
        uint32_t c2h_max;       /* bytes of one C2HData, dword multiple; 0: whole transfer */
        uint32_t r2t_max;       /* bytes that one R2T asks for, dword multiple; 0: all */
        uint16_t r2t_window;    /* R2Ts of one command outstanding at once, bounded by MAXR2T */
        struct track_limits limits;
        const struct rule_policy *policy; /* may be NULL */
};

/* NULL: out of memory. ops and cfg are copied, user is handed to every op. */
struct tcp_controller *tcp_controller_new(const struct tcp_controller_config *cfg,
                                          const struct request_ops *ops, void *user);
/*
 * No request may be EXECUTING (requests_executing() == 0); buffers go back through
 * buffer_put. To give up a connection: link_kill() its link, let what executes end in
 * request_complete() as ever (nothing is sent any more), then free it.
 */
void tcp_controller_free(struct tcp_controller *c);
/* Its requests, for the calls of request.h. */
struct requests *tcp_requests(struct tcp_controller *c);
/* Whether the host owes bytes: the rest of a PDU, or the data that an R2T asked for. */
bool tcp_controller_waits(const struct tcp_controller *c);

/* The link: attach receive buffers to link.rx, read its state; input goes through the calls below.
 */
struct link *tcp_controller_link(struct tcp_controller *c);
/* Whether the owner's faults (request_ops.faults) are asked from here on. */
void tcp_controller_set_faulty(struct tcp_controller *c, bool faulty);
/* The policy of its configuration has changed. */
void tcp_controller_renew(struct tcp_controller *c);

/*
 * Bytes have arrived at link_recv_iov(): takes all events in them. At most `budget` capsules are
 * handled (0: no limit), so that one connection can't starve the others; true: call again with n 0
 * before any more is received (and, if nothing moved, after something was sent).
 */
bool tcp_controller_received(struct tcp_controller *c, size_t n, unsigned budget);

#endif
