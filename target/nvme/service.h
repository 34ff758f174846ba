/* SPDX-License-Identifier: BSD-3-Clause */
/* What all reactors of an NVMe target share, and what each has for itself. */
#ifndef NVMF_TARGET_SERVICE_H
#define NVMF_TARGET_SERVICE_H

#include "metrics.h"
#include "pdu/nvme/io/nvme_tls.h"
#include "pdu/nvme/tcp/tcp_controller.h"
#include "target/engine/reactor.h"
#include "target/nvme/ctrl.h"

struct journal;
struct tls;
struct triggers;

/* Does not change while the reactors run, but where it is atomic. */
struct nvme_service {
        struct service base; /* first */
        struct ctrl_env ctrl;
        struct target_limits limits;
        struct rule_policy policy;
        struct tcp_controller_config tcp;
        struct nvme_tls_server tls_server[2]; /* of these two: */
        struct tls *tls,
            *tls_alone; /* for hosts with TLS and without; for those with it. NULL: no OpenSSL */
        bool (*tls_take_over)(void *tls_user, const struct nvme_tls_server *server,
                              struct stream *s, const uint8_t *hello, size_t len);
        void *tls_user;                                        /* both see struct target_options */
        enum { TLS_BY_PORT, TLS_OR_PLAIN, TLS_ALONE } tls_use; /* on each port over TCP */
        bool success;                                          /* C2HData may carry SUCCESS */
        bool sqfc_disable;                                     /* as far as its options go */
        bool trace, quiet;
        _Atomic bool timed;        /* how long commands take is measured */
        double started;            /* seconds since 1970 */
        struct triggers *faults;   /* with a trigger; NULL: there are none */
        struct journal *journal;   /* of commands; NULL: there is none */
        uint64_t faults_gone;      /* slots of those that the last change took out */
        _Atomic unsigned io_conns; /* connections with I/O queues, of all reactors */
};

/* A reactor's own. */
struct nvme_reactor {
        struct metrics metrics;
        uint64_t admin_queues, io_queues, commands; /* ever: connected, and I/O that was answered */
        _Atomic(struct request *) finished;         /* given back by other threads, newest first */
        struct loop_message finished_mail;
};

static inline struct nvme_service *reactor_service(const struct reactor *r)
{
        return (struct nvme_service *)(void *)r->service;
}

static inline struct nvme_reactor *reactor_own(const struct reactor *r)
{
        return r->own;
}

/* From what is asked for; what is 0 in its limits then is so. False: `error` has one line. The
 * inventory is the caller's and outlives it. */
bool service_init(struct nvme_service *s, const struct target_options *o, struct inventory *inv,
                  char *error, size_t size);
/* Other limits for what comes from here on, while all reactors stand still, and nobody is connected, who has been told
 * the old ones. NULL: done; else what is wrong, and nothing has changed. */
const char *service_set_limits(struct nvme_service *s, const struct target_limits *limits);
/* No controller is left. */
void service_fini(struct nvme_service *s);
/* What a connection over TCP to this port begins with; NULL: it is without TLS. */
struct tls *service_tls(const struct nvme_service *s, const struct port *port);

#endif
