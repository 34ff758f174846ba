/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A family of protocols, as the target's engine knows it. The engine has reactors, listeners, pools of memory and
 * what is fair between hosts; a family has ports, connections, and all that goes over them. The engine includes no
 * header of a family: it is handed this table.
 */
#ifndef NVMF_TARGET_FAMILY_H
#define NVMF_TARGET_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pdu/core/family.h"

struct capture_writer;
struct conn_peer;
struct port; /* the family's */
struct reactor;
struct service;
struct stream;
struct target_command;
struct verbs_ep;
struct verbs_event;
struct verbs_provider;

enum { LISTEN_SERVICE = 32 }; /* bytes of a port number as text, and more for names of services */

struct listen_place {
        bool rdma;          /* else a byte stream over TCP */
        const char *traddr; /* numeric, or a name */
        char *trsvcid;      /* of LISTEN_SERVICE bytes: "0" becomes the port that was free */
};

struct target_family {
        const struct family *family; /* first */

        /* --- ports and connections ------------------------------------------------------------ */
        /* Where a port listens: pointers hold as long as the port. */
        struct listen_place (*place)(struct port *port);
        /* A connection's reference. Any thread. NULL, both: a port is there as long as the target. */
        struct port *(*port_get)(struct port *port);
        void (*port_put)(struct port *port);

        /* On the reactor's thread: a stream was accepted, a connect request has come. The reference to the port, the
         * stream (which may move) and e->ep are the family's from here on, also if it fails; then conn_uncount(). */
        void (*start_stream)(struct reactor *r, struct port *port, struct stream *stream,
                             const struct conn_peer *peer);
        void (*start_rdma)(struct reactor *r, struct port *port, const struct verbs_event *e,
                           const struct conn_peer *peer);
        /* There is no room for a connect request: says so, and takes ep. NULL, both: no port is one of RDMA. */
        void (*reject_rdma)(struct service *s, struct verbs_ep *ep);
        /* A provider of verbs that is `of`, and writes to w what goes over it; NULL: out of memory. NULL, both: it has no
         * RDMA at all, or cannot be recorded. */
        struct verbs_provider *(*record_rdma)(struct verbs_provider *of, struct capture_writer *w);
        void (*record_end)(struct verbs_provider *p);

        /* Bytes of what it keeps for each reactor, zero at first: reactor->own. Set up before the thread runs. 0 and
         * NULL: nothing. */
        size_t own_bytes;
        void (*own_init)(struct reactor *r);
        /* On the first reactor, ten times a second; now: ms. NULL: it has no timers. */
        void (*tick)(struct service *s, uint64_t now);

        const struct target_command *command; /* what `nvmfspec target` has of it: see command.h */
};

#endif
