/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of the family share. */
#ifndef NVMF_PCAP_DOCA_READER_H
#define NVMF_PCAP_DOCA_READER_H

#include "family.h"
#include "pdu/doca/machine/control.h"
#include "pdu/doca/machine/flow.h"
#include "pdu/doca/wire/blob.h"

extern const struct trace_stream doca_stream;

/* A message of the control channel. The dialect is guessed: 2.10 and 3.0 show by their layout, 3.1 does not, and is read as
 * 3.2. */
struct trace_pdu {
        const struct doca_dialect *dialect;
        struct doca_msg m;
        struct rule_set found; /* what it breaks alone */
};

enum { DOCA_CAPTURE_COMMANDS = 256 }; /* of a context; of more, not all are followed */

struct doca_command {
        bool used;
        uint64_t user_data;
        struct doca_place place;
        uint64_t size; /* bytes */
        struct trace_command of;
};

/* A connection by the connection manager, which the target makes once it is asked to. */
struct doca_asked {
        struct doca_asked *next; /* an earlier one */
        uint64_t cookie, context, role;
        struct capture_end service; /* the address of its listener; no port */
};
enum {
        DOCA_CAPTURE_ASKED = DOCA_ROLES * DOCA_CORES_MAX, /* of a client; more are not followed, */
        DOCA_CAPTURE_ASKED_ALL = 16 * DOCA_CAPTURE_ASKED, /* ... nor of all of them */
        DOCA_CAPTURE_CLOSED = 256, /* clients that are remembered when their channel is closed */
};

struct doca_client { /* a control channel */
        struct doca_client *next, *before;
        bool forgotten;  /* it goes with the last of its queue pairs, */
        unsigned queues; /* ... of which so many are open */
        unsigned number; /* of its connection */
        bool told;       /* by the user: there is no channel, but queue pairs of that number */
        const struct doca_dialect *dialect;
        struct doca_control control;
        struct doca_memory memory;
        bool has_memory;        /* it is known */
        uint64_t stopped_at;    /* frame: what was caught before may be told later; 0: it is not */
        uint64_t context, role; /* of the connection that was answered last */
        struct doca_asked *asked; /* the latest one */
        unsigned asked_n;
};

struct doca_queue { /* an RDMA connection: by numbers, or by the connection manager */
        struct doca_queue *next;
        struct doca_client *client; /* NULL: it is not known whose it is, nor what: */
        uint64_t context, role;
        struct doca_flow flow; /* io_control */
        struct doca_command command[DOCA_CAPTURE_COMMANDS];
};

struct doca_record {
        const struct trace_event *e;
        const struct doca_client *client;    /* NULL: it is not known */
        const struct doca_queue *queue;      /* NULL: of the control channel */
        struct doca_io io;                   /* of a capsule */
        const struct trace_command *command; /* NULL: none, or not known */
        bool begins, ends;
        struct rule_set broken;
        bool is_broken, unproven;
};

/* stream.c: the IP address that a blob has, without port. */
struct capture_end doca_address(const uint8_t gid[16]);

/* line.c: as the members of struct trace_family. */
void doca_words(struct text *t, const void *record);
void doca_fields(const struct describe *d, const void *record);

#endif
