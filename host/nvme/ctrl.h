/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An association (Base 2.2, 3.1.2): the admin queue, the controller behind it, and its I/O queues,
 * kept alive. One thread calls these functions; I/O queues may be given to other threads, which
 * then only touch their queue.
 */
#ifndef NVMF_HOST_CTRL_H
#define NVMF_HOST_CTRL_H

#include "auth.h"
#include "pdu/nvme/machine/tls_key.h"
#include "pdu/nvme/wire/fabrics.h"
#include "queue.h"

enum {
        HOST_QUEUE_SIZE = 128, /* entries */
        HOST_KATO = 10000,     /* ms */
        HOST_IO_QUEUES_MAX = 1024,
};

struct host_params {
        enum host_transport transport;
        struct verbs_provider *verbs; /* RDMA; NULL: the devices of this machine */
        const char *traddr, *trsvcid, *subnqn, *hostnqn;
        uint8_t hostid[16];
        uint16_t cntlid;     /* CNTLID_DYNAMIC: whichever */
        unsigned io_queues;  /* 0: admin queue only */
        unsigned queue_size; /* entries of an I/O queue; at most CAP.MQES + 1 are used */
        unsigned kato;       /* ms; 0: no keep alive */
        unsigned timeout;    /* ms for set-up and commands */
        unsigned reconnect_delay, ctrl_loss_tmo; /* ms, of host_ctrl_reconnect() */
        bool hdgst, ddgst;                       /* TCP */
        bool no_sqfc;                            /* ask to disable SQ flow control */
        uint8_t hpda;                            /* TCP: 0's based dwords, 0..31 */
        uint32_t maxr2t;                         /* TCP: count, >= 1 */
        struct auth_key dhchap, dhchap_ctrl; /* for authentication; len 0: none: host/nvme/auth.h */
        struct nvme_tls tls;                 /* TCP: all connections with TLS; key.len 0: without */
        bool
            concat; /* TCP: with TLS, and the PSK that authentication generates; tls has no key then */
        const struct rule_policy *policy; /* may be NULL */
        struct capture_writer *record;    /* as in host_queue_config */
};
/* All but traddr and subnqn. hostnqn is this machine's, in static memory. */
struct host_params host_params_default(void);

struct host_ctrl {
        struct host_params params;
        struct host_queue admin;
        struct host_queue *io; /* io_count of them */
        unsigned io_count;
        uint16_t cntlid;
        uint64_t cap;
        uint32_t vs;
        bool enabled, discovery;
        struct id_ctrl id; /* Identify Controller, once enabled */

        /* keep alive */
        uint64_t keep_at, keep_sent, keep_traffic;
        bool keep_busy;
        struct host_cmd keep_cmd;
};

/*
 * Connects the admin queue, enables the controller, identifies it, connects params.io_queues I/O
 * queues (fewer if the controller grants fewer; an error if none). 0; -1: nothing has to be
 * closed. The strings of params are not copied. c must not move.
 */
int host_ctrl_connect(struct host_ctrl *c, const struct host_params *params, struct host_error *e);
/*
 * An association that broke is made again, with as many I/O queues as it had. First everything is
 * closed, and time passes until the controller cannot process anything more that was outstanding
 * (Base 2.2, 9.6.2): else a write that is sent again, and what follows it, may be overwritten by its
 * first copy. reconnect_delay is part of it if the controller has no CQT, and lies between the tries;
 * after ctrl_loss_tmo none is made any more but the first, and not that one either where KAS puts it off for
 * minutes. What points into c->io has to be set again. 0; -1: it was not to be had, c is closed.
 */
int host_ctrl_reconnect(struct host_ctrl *c, struct host_error *e);

/* ms that a shutdown is given: RTD3E, but 5 s at least and a minute at most. */
unsigned host_ctrl_shutdown_ms(const struct host_ctrl *c);
/* Orderly: CC.SHN, waits for CSTS.SHST, closes. 0; -1: it did not end well, but is closed. */
int host_ctrl_disconnect(struct host_ctrl *c, struct host_error *e);
/* Just closes every connection; nothing, where it is closed. */
void host_ctrl_close(struct host_ctrl *c);

/* As host_queue_run() on the admin queue, or on an I/O queue of c, with the association kept alive.
 */
int host_ctrl_admin(struct host_ctrl *c, const union sqe *sqe, void *data, uint32_t len,
                    struct cqe *cqe, struct host_error *e);
int host_ctrl_run(struct host_ctrl *c, struct host_queue *q, const union sqe *sqe, void *data,
                  uint32_t len, struct cqe *cqe, struct host_error *e);

/*
 * Serves the admin queue: sends Keep Alive when it is due (every KATO/2; where the controller
 * counts traffic, only if a check every KATO/4 saw none), takes what arrives. -1: the admin queue
 * broke.
 */
int host_ctrl_poll(struct host_ctrl *c);
/* ms until host_ctrl_poll() has something to do of its own accord: a poll(2) timeout. */
int host_ctrl_next(const struct host_ctrl *c);

/* Identify into buf (IDENTIFY_LEN bytes). */
int host_ctrl_identify(struct host_ctrl *c, uint8_t cns, uint32_t nsid, void *buf,
                       struct host_error *e);
/* Bytes of one command at most, by MDTS; UINT32_MAX if the controller knows no bound, and with RDMA
 * what one descriptor describes. */
uint32_t host_ctrl_max_transfer(const struct host_ctrl *c);

#endif
