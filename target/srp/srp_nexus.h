/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * I_T nexuses: an initiator port with this target's port, and the channels between them, which may be on any
 * reactor. Under the service's lock; a nexus is there as long as one of its channels is.
 */
#ifndef NVMF_TARGET_SRP_NEXUS_H
#define NVMF_TARGET_SRP_NEXUS_H

#include "srp_service.h"

struct srp_nexus {
        struct srp_nexus *next;
        srp_port_id initiator, target;
        char name[SRP_PORT_ID_TEXT]; /* the initiator's, in hex */
        struct srp_conn *channels;   /* that are not at their end */
        unsigned refs;               /* channels, also those */
        struct scsi_nexus scsi;
};

/* What would be answered to a login at this moment. */
struct srp_login_answer srp_nexus_ask(struct srp_service *s, const struct srp_login_req *asked);
/* The channel is its nexus's from here on, unless the answer is a rejection; older channels are told to end where that
 * is what was asked for. False: out of memory. */
bool srp_nexus_join(struct srp_service *s, struct srp_conn *c, struct srp_login_answer *answer);
/* It is about to end: a login from now on does not find it. */
void srp_nexus_close(struct srp_service *s, struct srp_conn *c);
/* It is no longer on the list; its nexus stays with it. */
void srp_nexus_leave(struct srp_service *s, struct srp_conn *c);
/* Nor is it with the nexus. */
void srp_nexus_put(struct srp_service *s, struct srp_conn *c);

#endif
