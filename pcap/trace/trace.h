/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A capture as events: what the two sides of each connection said, in the order in which it was
 * captured, whether it went over TCP, RoCEv2 or iWARP. Which connections are read, and how messages
 * are found in a TCP stream, is a family's business (struct trace_family); RDMA is the same for all.
 * Nothing is judged here. What the capture does not hold is reported (TRACE_GAP), never filled in;
 * after it the next thing that is beyond doubt goes on.
 *
 * Sources: IBTA Architecture 1.4 chapters 9 and 12 and annexes A11 (RDMA IP CM) and
 * A17 (RoCEv2); RFC 5040 (RDMAP), 5041 (DDP), 5044 and 6581 (MPA).
 */
#ifndef NVMF_PCAP_TRACE_H
#define NVMF_PCAP_TRACE_H

#include "pdu/core/family.h"
#include "pdu/io/capture/capture.h"

enum trace_transport { TRACE_TCP, TRACE_ROCE, TRACE_IWARP };
const char *trace_transport_name(enum trace_transport t); /* "tcp", "roce", "iwarp" */

struct trace_conn {
        unsigned number; /* from 1, in order of appearance */
        enum trace_transport transport;
        struct capture_end end[2]; /* RoCE: the ports are those of connection management */
        uint32_t qpn[2];           /* RoCE; 0: not known */
        enum party active;         /* who asks for the RDMA connection: the family's */
        bool midstream;            /* its beginning is not in the capture */
        bool sealed;               /* over TLS, and nothing but its ClientHello could be read */
        bool untold;               /* TRACE_OPENED comes with the next event */
        const struct trace_family *family; /* whose it is: known from TRACE_OPENED on */
        unsigned
            described_by; /* RoCE: messages of the connection of this number; 0: connection management */
        const struct trace_told *told; /* RoCE: ... or the user, by this; NULL: he has not */
        /* Frames up to which nothing that this side sent is missing; UINT64_MAX where that shows at
         * once. What one side seems to have done wrong may be due to a lost frame of the other
         * until this has passed it. */
        uint64_t whole_until[2];
        void *user; /* the family's, or whoever gets its events; NULL at first */
        void *tool; /* of whoever gets its records; NULL at first */
};

/* Whether nothing that the peer of `sender` sent up to `frame` can be missing unseen. */
static inline bool trace_proven(const struct trace_conn *c, enum party sender, uint64_t frame)
{
        return c->whole_until[peer_of(sender)] >= frame;
}

enum trace_kind {
        TRACE_OPENED,
        TRACE_CLOSED,     /* ... or the capture is over */
        TRACE_GAP,        /* `gap`: something that `sender` sent is missing */
        TRACE_FOUND,      /* `gap`: ... its stream goes on here */
        TRACE_SECURED,    /* `hello`: TLS begins; what is inside follows as far as it can be read */
        TRACE_HEADER,     /* `pdu`: the header of a message in a TCP stream */
        TRACE_PDU,        /* `pdu`: ... all of it */
        TRACE_FAULT,      /* `pdu`: a header that no receiver can believe; TRACE_FOUND follows */
        TRACE_REQUEST,    /* `cm`: the active side asks for an RDMA connection */
        TRACE_ACCEPT,     /* `cm` */
        TRACE_REJECT,     /* `cm` */
        TRACE_READY,      /* the active side has seen the acceptance */
        TRACE_DISCONNECT, /* DREQ: the sender ends the connection */
        TRACE_DISCONNECTED, /* DREP */
        TRACE_TERMINATE,    /* `capsule`: RDMAP Terminate message */
        TRACE_REFUSAL,   /* `refusal`: RoCE: a NAK of what the peer sent; not of a sequence error */
        TRACE_CAPSULE,   /* `capsule`: a whole RDMA SEND */
        TRACE_READ,      /* `memory`: an RDMA READ is asked for */
        TRACE_READ_DATA, /* `memory`: bytes of its answer, sent by the peer of who asked */
        TRACE_READ_END,  /* `memory`: the answer is over */
        TRACE_WRITE_DATA, /* `memory`: bytes of an RDMA WRITE */
        TRACE_WRITE,      /* `memory`: ... which is over; all of it */
};

/* "opened", "pdu", "rdma_read_data": as JSON has it. */
const char *trace_kind_name(enum trace_kind kind);

struct trace_pdu; /* a message in a TCP stream: the family's */

enum { /* IBTA 12.6.5 */
       TRACE_SERVICE_RC = 0,
       TRACE_SERVICE_UC = 1,
       TRACE_SERVICE_RD = 2,
};

struct trace_cm {
        const uint8_t *data; /* private data of the consumer, as padded by the CM */
        uint32_t len;
        uint16_t reads_in, reads_out;    /* responder resources, initiator depth: */
        bool depths;                     /* it names them (MPA of revision 1 does not) */
        bool retries;                    /* a request that has these (MPA does not): */
        uint8_t service_type, rnr_retry; /* TRACE_SERVICE_*; times, 7: forever */
        uint16_t reason; /* of a reject: IBTA 12.6.7.2; 28: the consumer's. MPA: 28 */
};

struct trace_capsule {
        const uint8_t *data;
        uint32_t len;
        uint32_t known; /* bytes from its beginning that were caught; the others are zero here */
        bool invalidates;
        uint32_t key; /* ... this one */
};

enum trace_refusal {
        TRACE_NOT_READY, /* RNR: no receive was posted */
        TRACE_NO_ACCESS, /* to the memory that it names */
        TRACE_REFUSED_OTHERWISE,
};

struct trace_memory {
        uint64_t addr; /* where the whole transfer begins, in the memory of the host */
        uint32_t key;
        uint32_t len;        /* of the transfer; of DATA: of this piece */
        uint32_t offset;     /* of DATA: of this piece in the transfer */
        bool cut;            /* END, WRITE: some of it is not in the capture */
        const uint8_t *data; /* of DATA */
};

struct trace_hello { /* the record of a ClientHello */
        const uint8_t *p;
        size_t len;
};

struct trace_gap {
        uint64_t bytes;   /* TCP, iWARP: bytes; 0: nobody knows */
        uint64_t packets; /* RoCE: packets */
};

struct trace_event {
        enum trace_kind kind;
        struct trace_conn *conn;
        enum party sender;
        struct capture_place at;    /* where its last byte is */
        struct capture_place first; /* where its first byte is */
        union {
                const struct trace_pdu *pdu;
                struct trace_cm cm;
                struct trace_capsule capsule;
                struct trace_memory memory;
                struct trace_gap gap;
                struct trace_hello hello;
                enum trace_refusal refusal;
        };
};

/* What is inside the connections over TLS, by whoever has their secrets. */
struct trace_tls {
        const void *keys;
        /* Of a new connection. NULL: no memory. */
        void *(*open)(const void *keys);
        /* The next n bytes of a side: what is inside them goes to plain(). NULL; else why nothing more of the
         * connection can be read, one line that is valid until close(). */
        const char *(*read)(void *conn, enum party sender, const uint8_t *p, size_t n,
                            void (*plain)(void *user, enum party sender, const uint8_t *p,
                                          size_t n),
                            void *user);
        void (*close)(void *conn);
        /* Called once where a connection cannot be read (further). May be NULL. */
        void (*unread)(void *user, const struct capture_conn *c, const struct capture_place *at,
                       const char *why);
        void *user; /* unread's */
};

/* Frames: over RoCE a packet may be caught as long after what acknowledges or answers it. */
enum { TRACE_LATE = 64 };

enum { TRACE_PORTS = 16, TRACE_TOLD = 16 };

/* Two RoCE queue pairs that are a connection, of which the capture may say nothing. */
struct trace_told {
        const struct trace_family *family; /* NULL: the end of a list */
        uint32_t qpn[2];
        int how; /* its messages are read: as the family numbers it */
};

struct trace_options {
        uint16_t ports[TRACE_PORTS];            /* of controllers, ended by 0; none: the family's */
        struct trace_told told[TRACE_TOLD + 1]; /* its end included */
        bool data; /* keep all data of messages; else what the family keeps anyway */
        /* Families that are read, too, where they claim a connect request; ended by NULL. NULL: none. */
        const struct trace_family *const *beside;
        const struct trace_tls *tls; /* NULL: connections over TLS are counted, not read */
};
enum { TRACE_FAMILIES = 5 }; /* so many at most */

/* What was seen of the file as a whole. */
struct trace_totals {
        uint64_t frames, bytes;  /* bytes: of TCP and UDP payload */
        uint64_t fragments, cut; /* frames that could not be read */
        uint64_t unknown_link;   /* ... nor these, whose link type is not supported */
        uint64_t guessed_times;  /* frames with a clock of their own */
        uint64_t conns, other;   /* the family's connections; TCP connections of something else */
        uint64_t unlike;         /* of these, those to a port of controllers */
        uint64_t
            guests; /* connections of a family that is read beside, on a port of the first one's controllers */
        uint64_t tls;      /* connections over TLS on a port of controllers; what is not read of
                                  * them does not count as one of conns */
        uint64_t tls_read; /* of these, those that could be read, to the end or not */
        uint64_t gaps, pdus, capsules; /* pdus: messages in TCP streams */
        uint64_t repeated;             /* RoCE packets that came again */
        uint64_t strange;              /* RoCE packets and MADs of no connection that is known */
        uint64_t sliced;               /* RoCE packets of whose data the snapshot lacks some */
        uint64_t
            unrecognized; /* TCP connections to a port of controllers whose beginning is not there */
        uint64_t crc_bad; /* MPA CRCs */
};

typedef void trace_fn(void *user, const struct trace_event *e);

/* --- families --------------------------------------------------------------------------------- */

struct tracer; /* tracer.h */
struct trace_flow;

enum trace_guess { TRACE_NO, TRACE_PERHAPS, TRACE_YES };

/* How messages are found in a TCP stream. */
struct trace_stream {
        /* Whether these first bytes of the host begin a connection; PERHAPS: more bytes are needed. */
        enum trace_guess (*begins)(const uint8_t *p, size_t n);
        /* Of a connection to a controllers' port: whether what one side says first is the family's,
         * wrong as it may be, so that it is to be judged; a port is no proof. NULL: it always is. */
        enum trace_guess (*resembles)(const uint8_t *p, size_t n);
        /* Whether a message of the sender may begin here, in the middle of a stream. NULL: that can't be told. */
        bool (*plausible)(const uint8_t *p, size_t n, enum party sender);
        /* begun: both directions start here; else its stream is looked for. NULL: no memory. */
        struct trace_flow *(*open)(struct tracer *t, const struct capture_conn *c, bool begun);
        void (*data)(struct tracer *t, struct trace_flow *f, enum party sender, const uint8_t *p,
                     size_t n);
        void (*gap)(struct tracer *t, struct trace_flow *f, enum party sender, uint32_t n);
        void (*close)(struct tracer *t, struct trace_flow *f); /* emits TRACE_CLOSED */
        /* Whose connection it is. NULL: nothing is told of TLS. */
        struct trace_conn *(*conn)(struct trace_flow *f);
};

/* What a family makes of an event. */
struct trace_record {
        const struct trace_event *e;
        /* By e->sender or, where it did not act, by who is bound; NULL: nothing is. */
        const struct rule_set *broken;
        bool unproven;      /* it needs proof: trace_proven() */
        bool unknown;       /* no verdict can rest on it: what it means is not in the capture */
        const void *record; /* the family's, for its functions */
};
typedef void trace_record_fn(void *user, const struct trace_record *r);

/* What records are for. */
struct trace_reading {
        bool judge;                    /* rules are checked */
        bool keep_data;                /* all commands keep their data */
        const struct rule_set *waived; /* rules that are not checked; NULL: none */
        trace_record_fn *record;       /* gets one for each event */
        /* Gets a record beside that of its event for each command that is over without an answer. NULL: nobody. */
        trace_record_fn *lost;
        void *user;
};

/* From what asks for something to the response. Times: frame 0 means that there was none. */
struct trace_command {
        const char *name;        /* of its kind: "Read"; static; NULL: it is not known */
        const char *queue;       /* where such commands are: "I/O queues"; static */
        bool io;                 /* it is one of those that move data; else of those that manage */
        bool waits;              /* for an event, however long that takes */
        unsigned code;           /* of its kind: the opcode */
        unsigned rank;           /* of its kind, in lists */
        uint64_t id;             /* by which its response finds it */
        struct capture_place at; /* it was whole */
        struct capture_place asked;      /* its data was first asked for */
        struct capture_place data_first; /* data, in whichever direction */
        struct capture_place data_last;
        uint64_t h2c, c2h; /* bytes of data seen */
};

/* A record, as filters and counters see it. */
struct trace_view {
        const char *kind;         /* of message, as JSON has it; NULL: trace_kind_name() */
        const char *message;      /* what it is counted as: "CapsuleCmd"; NULL: it is not counted */
        unsigned rank;            /* of these, in lists */
        bool begins, ends, known; /* a command begins, is over; it is known: */
        struct trace_command command;
        bool answers;    /* it is a response, with this status: */
        bool error;      /* ... which is another one than success */
        unsigned status; /* 0 where none was sent */
};

struct text;
struct describe;
struct json_object;
struct trace_extract;
struct trace_anonymize;
struct trace_secrets;

struct trace_family {
        const struct family *family;
        const char *name;            /* as a connection is called: "NVMe" */
        uint16_t ports[TRACE_PORTS]; /* of controllers, where the user names none; ended by 0 */
        const struct trace_stream *stream; /* NULL: not over TCP */
        /* Whether the private data of an RDMA connect request, 0-padded to at least 36 bytes, could be
         * the family's, though its port is none of `ports`; asked of the first family. NULL: it is not. */
        bool (*is_request)(const uint8_t *data);
        /* Whether such a connect request is this family's beyond doubt, whatever its port: for a family
         * that is read beside another. May be NULL. */
        bool (*claims)(const uint8_t *data, uint32_t len);
        enum party active; /* who asks for its RDMA connections: nearly always the host */
        /* How the messages of queue pairs that the user names are read, by a word of his, "" where he says none; -1:
         * that is no word of it. NULL: it has to find its connections. */
        int (*told)(const char *word);

        /* The tracker of a whole capture. `how` is gone after it, what it points to is not. NULL: no memory. */
        void *(*open)(const struct trace_reading *how);
        void (*event)(void *tracker, const struct trace_event *e);
        bool (*close)(void *tracker); /* false: memory ran out on the way */
        /* What was said, without frame, time and connection. */
        void (*words)(struct text *t, const void *record);
        /* All its fields. NULL: it has none. */
        void (*describe)(const struct describe *d, const void *record);
        /* Of *v, all zero, what holds. NULL: it has no commands. */
        void (*view)(struct trace_view *v, const void *record);
        /* "0/00h Successful Completion". NULL: it has no statuses. */
        void (*status)(struct text *t, unsigned status);
        /* Whether there are commands of this name. NULL: it has no commands. */
        bool (*has_command)(const char *name);
        /* The number of the queue that a connection is; -1: not known. NULL: they have none. */
        int (*queue)(const struct trace_conn *c);
        /* Which queue, session ... a connection is, as far as it is known by now: after its addresses
         * (", queue 0 of controller 1"), and as members of an object. NULL, both: there is nothing to say. */
        void (*place)(struct text *t, const struct trace_conn *c);
        void (*place_json)(struct json_object *o, const struct trace_conn *c);
        /* What tools ask of its records alone (pcap/tools). NULL, each: they do not have it. */
        const struct trace_extract *extract;
        const struct trace_anonymize *anonymize;
        const struct trace_secrets *secrets; /* of the first family alone */
        /* `pcap replay`, which has options of its own; argv[0] is "replay". Returns the exit code. */
        int (*replay)(const struct trace_family *const *families, int argc, char **argv);
};

/* Reads `path` ("-": standard input). options and totals may be NULL. 0, or -1 with one line in err
 * (as capture_read: what stands before the damage was handed out). */
int trace_read(const char *path, const struct trace_family *family,
               const struct trace_options *options, trace_fn *fn, void *user,
               struct trace_totals *totals, char *err, size_t err_size);

/* The same as records, each connection's of its own family: the first one of the list, ended by NULL, has the ports that
 * options name, and what nobody claims. how->waived: NULL, or a set for each. */
int trace_records(const char *path, const struct trace_family *const *families,
                  const struct trace_options *options, const struct trace_reading *how,
                  struct trace_totals *totals, char *err, size_t err_size);

#endif
