/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of the storage protocol of NVIDIA's DOCA sample applications: the control channel over TCP, and the I/O
 * message over RDMA SEND. All fields are big-endian. What a release of DOCA says differently is a table, struct
 * doca_dialect; nothing on the wire tells which one it is. A storage service (which connects) is PARTY_HOST, a target
 * PARTY_CONTROLLER.
 *
 * Reading is bounded by the length that is given and total: whatever the bytes are, what they hold is found, and what is
 * wrong with them is a set of rules.
 */
#ifndef NVMF_DOCA_WIRE_DOCA_H
#define NVMF_DOCA_WIRE_DOCA_H

#include "pdu/core/be.h"
#include "pdu/core/text.h"
#include "rules.h"

enum doca_error { /* doca_error_t; those that are used here */
                  DOCA_SUCCESS = 0,
                  DOCA_ERROR_NOT_SUPPORTED = 4,
                  DOCA_ERROR_INVALID_VALUE = 6,
                  DOCA_ERROR_NO_MEMORY = 7,
                  DOCA_ERROR_INITIALIZATION = 8,
                  DOCA_ERROR_NOT_CONNECTED = 14,
                  DOCA_ERROR_IO_FAILED = 17,
                  DOCA_ERROR_BAD_STATE = 18,
                  DOCA_ERROR_UNEXPECTED = 22,
                  DOCA_ERROR_FULL = 24,
                  DOCA_ERROR_TOO_BIG = 27,
};
/* "INVALID_VALUE"; "unknown" of a number that has no name. */
const char *doca_error_name(uint64_t error);

/* What a control message is, in whatever dialect. */
enum doca_kind {
        DOCA_NOTHING, /* of a type that the dialect does not have */
        DOCA_ERROR_RSP,
        DOCA_QUERY,
        DOCA_QUERY_RSP,
        DOCA_INIT, /* 2.10: configure_data_path */
        DOCA_INIT_RSP,
        DOCA_CREATE,
        DOCA_CREATE_RSP,
        DOCA_CONNECT, /* 2.10 alone: start_data_path_connections */
        DOCA_START,
        DOCA_START_RSP,
        DOCA_STOP,
        DOCA_STOP_RSP,
        DOCA_SHUTDOWN, /* 2.10: destroy_objects */
        DOCA_SHUTDOWN_RSP,
        DOCA_RESPONSE, /* 2.10 alone: to all but create_rdma_connection_request; also an error */
        DOCA_KINDS
};

enum doca_role { DOCA_IO_DATA, DOCA_IO_CONTROL, DOCA_ROLES };
const char *doca_role_name(uint64_t role); /* "io_data", "io_control", "unknown" */

struct doca_bytes { /* in the frame that was read; not its owner */
        const uint8_t *p;
        uint32_t len;
};

struct doca_msg { /* what the dialect or the kind does not have is zero */
        enum doca_kind kind;
        uint32_t type; /* as on the wire; writing goes by the kind, unless that is DOCA_NOTHING */
        uint32_t message_id, correlation_id;
        uint64_t result;                 /* errors: enum doca_error */
        uint64_t total_size, block_size; /* bytes */
        uint64_t transactions, cores, batch, buffer_size;
        uint64_t context, role;
        struct doca_bytes data; /* the error's text, or the blob */
};

/* One field: of a payload, where they follow each other, or of an I/O message. */
struct doca_item {
        const char *name;
        uint16_t member; /* offset in the struct: a uint64_t, or a struct doca_bytes */
        uint8_t len;     /* bytes on the wire; 0: a u32 length, and so many bytes */
        uint8_t at;      /* of an I/O message: where */
        bool text;       /* the bytes are a text */
        const char *(*say)(uint64_t value);
};

struct doca_shape { /* a type of message; the index in its table is the number on the wire */
        const char *name;
        enum doca_kind kind;
        enum party sender;
        enum doca_kind answer;         /* of a request, if all is well */
        const struct doca_item *items; /* ended by name NULL; NULL: no payload */
};

struct doca_framing {      /* all in bytes */
        uint8_t size_len;  /* of the field at 0 that says how long the frame is, ... */
        uint8_t uncounted; /* ... but for so many of it */
        uint8_t type_at, type_len;
        uint8_t message_at; /* message_id, u32; 0: there is none */
        uint8_t correlation_at;
        uint8_t header; /* before the payload */
};

enum doca_version { DOCA_2_10, DOCA_3_0, DOCA_3_1, DOCA_3_2, DOCA_VERSIONS };

struct doca_dialect {
        enum doca_version version;
        const char *name; /* "3.2", which is that of 3.3, too */
        struct doca_framing frame;
        const struct doca_shape *shapes;
        unsigned types; /* of them */
        const enum doca_kind
            *order; /* of requests, each once but DOCA_CREATE; ended by DOCA_NOTHING */
        const struct doca_item *io;
        unsigned io_types; /* the numbers of I/O messages are below */
        bool by_address;   /* a place in the service's memory is an address, else an offset */
        bool
            storage_by_memory; /* ... and the offset from the memory's beginning that in the storage */
        bool has_context; /* connections name their context; else two of each follow each other */
};

/* Never NULL. */
const struct doca_dialect *doca_dialect(enum doca_version v);
/* "3.2" (also "3.3"); NULL: there is none of that name. */
const struct doca_dialect *doca_dialect_named(const char *name);
#define DOCA_DIALECT_NAMES "2.10|3.0|3.1|3.2|3.3"

/* --- control messages ------------------------------------------------------------------------- */

enum { DOCA_FRAME_MAX = 1 << 20 }; /* bytes; who announces more is not believed */
enum { DOCA_HEADER_MAX = 16 };

/* Of a frame that begins at p: its length with all of the header, bytes; 0: n is too few to tell. A length below the
 * header's, or above DOCA_FRAME_MAX, is no frame. */
uint64_t doca_frame_len(const struct doca_dialect *d, const void *p, size_t n);
bool doca_frame_sane(const struct doca_dialect *d, uint64_t len);

/* The shape of a type on the wire; of a kind. NULL: the dialect does not have it. */
const struct doca_shape *doca_shape(const struct doca_dialect *d, uint32_t type);
const struct doca_shape *doca_shape_of(const struct doca_dialect *d, enum doca_kind kind);
/* Of a message in text: "init_storage_request". */
const char *doca_msg_name(const struct doca_dialect *d, const struct doca_msg *m);

/* A frame of n bytes, which is doca_frame_len() of it and sane. Rules that `sender` breaks by it are added to found. False:
 * its payload is not whole, or the type is unknown; what could be read is in out all the same, which points into p. */
bool doca_msg_read(const struct doca_dialect *d, const void *p, size_t n, enum party sender,
                   struct doca_msg *out, struct rule_set *found);
/* The frame's length, which is written to p if cap suffices for it; 0: the dialect has no such message, or it is longer
 * than its size field can say. */
size_t doca_msg_write(const struct doca_dialect *d, const struct doca_msg *m, void *p, size_t cap);

/* All its fields, blobs in hex. */
void doca_msg_describe(const struct describe *to, const struct doca_dialect *d,
                       const struct doca_msg *m);
/* One line, without line end: "init_storage_request id 2 transaction_count 64 core_count 1 blob of 32 bytes". */
void doca_msg_line(struct text *t, const struct doca_dialect *d, const struct doca_msg *m);

/* --- I/O messages ----------------------------------------------------------------------------- */

enum { DOCA_IO_LEN = 64 };
enum doca_io_type { DOCA_IO_RESULT, DOCA_IO_READ, DOCA_IO_WRITE, DOCA_IO_STOP };
const char *doca_io_name(uint64_t type); /* "read"; "unknown" */

struct doca_io { /* what the dialect does not have is zero */
        uint64_t type, correlation_id, user_data, result, size;
        uint64_t memory;  /* offset in the service's memory, or address there: see by_address */
        uint64_t storage; /* offset in the storage */
};

/* Of n bytes; what is beyond them reads as zeroes. False, and found has the rule: there are fewer or more than 64, or the
 * type is none of the sender's. */
bool doca_io_read(const struct doca_dialect *d, const void *p, size_t n, enum party sender,
                  struct doca_io *out, struct rule_set *found);
/* 64 bytes: bytes of no field are zero. */
void doca_io_write(const struct doca_dialect *d, const struct doca_io *io, uint8_t p[DOCA_IO_LEN]);
/* Into a message that is there already, type and result alone: so is a response made of its request. */
void doca_io_answer(const struct doca_dialect *d, uint8_t p[DOCA_IO_LEN], uint32_t result);
void doca_io_describe(const struct describe *to, const struct doca_dialect *d,
                      const struct doca_io *io);
/* "read user_data 5h 4096 bytes memory 0h storage 2000h" */
void doca_io_line(struct text *t, const struct doca_dialect *d, const struct doca_io *io);

/* Where a request's data lies: offsets from the beginning of the memory, and of the storage. */
struct doca_place {
        uint64_t memory, storage;
};
/* The service's memory begins at address `base`; an address before it becomes an offset far beyond any end. */
struct doca_place doca_io_place(const struct doca_dialect *d, const struct doca_io *io,
                                uint64_t base);
/* The other way round. */
void doca_io_put_place(const struct doca_dialect *d, struct doca_io *io, uint64_t base,
                       struct doca_place place);
/* A request of `size` bytes at `offset` lies within `len` bytes. */
static inline bool doca_within(uint64_t offset, uint64_t size, uint64_t len)
{
        return offset <= len && size <= len - offset;
}

#endif
