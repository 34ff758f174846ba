/* SPDX-License-Identifier: BSD-3-Clause */
/* What all reactors of an SRP target share, and what each has for itself. */
#ifndef NVMF_TARGET_SRP_SERVICE_H
#define NVMF_TARGET_SRP_SERVICE_H

#include "pdu/srp/machine/life.h"
#include "pdu/srp/machine/login.h"
#include "target/engine/reactor.h"
#include "target/scsi/scsi_task.h"

struct srp_conn;
struct srp_nexus;

struct srp_service {
        struct service base;  /* first */
        struct srp_port port; /* what logins get */
        struct scsi_device device;
        struct rule_policy policy;
        const struct srp_script *script; /* NULL: none */
        unsigned setup_timeout;          /* ms: until a login is established */
        unsigned
            stall_timeout; /* ms: that an initiator may take for a READ, or to have room for a response */
        unsigned
            probe; /* ms: of silence, after which it is looked whether the initiator is there */
        bool trace, quiet;
        pthread_mutex_t lock; /* of what follows, and of the nexuses' lists of channels */
        bool enabled;         /* logins are taken */
        struct srp_nexus *nexuses;
        /* What happens to a channel, for srp_watch_tell(); on its reactor. NULL: nobody asks. */
        void (*watch)(void *user, const struct srp_conn *c, enum srp_happening what, int64_t value);
        void *watch_user;
};

static inline struct srp_service *srp_service_of(const struct reactor *r)
{
        return (struct srp_service *)(void *)r->service;
}

#endif
