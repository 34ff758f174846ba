/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection driven by hand: sends any PDU, whole or maimed, and takes whatever the target
 * answers. It checks every PDU that comes by the rulebook and reports what is broken, but goes on
 * as long as the stream can be read: verdicts are for others. (The link of pdu/machine would end
 * the connection, and lay out what has to go out broken; framer and tracker are used directly.)
 */
#ifndef NVMF_CONFORMANCE_CONN_H
#define NVMF_CONFORMANCE_CONN_H

#include "exchange.h"
#include "pdu/machine/framer.h"
#include "pdu/machine/track.h"

enum { CONN_CHANGES = 8, CONN_DATA_MAX = 64 << 20 };

struct seen { /* a PDU that came */
        struct seen *next;
        union pdu h;
        uint32_t len;
        bool ddgst_bad;
        uint8_t data[];
};

enum conn_end {
        CONN_OPEN,
        CONN_FIN,
        CONN_RST,
        CONN_UNREADABLE, /* what came can't be framed */
        CONN_FLOODED,    /* far more came than any case asks for */
        CONN_CLOSED,     /* by us */
};

struct conn_change {
        const char *field;
        uint64_t value;
};

struct conn {
        int fd;
        unsigned no; /* of the case's connections */
        enum conn_end end;
        bool admin; /* how opcodes read in the exchange */
        struct exchange *log;

        /* A rule that the target broke; h is the PDU. */
        void (*broken)(void *arg, enum rule_id rule, const union pdu *h);
        void *arg;

        struct framer rx;
        struct track *track; /* NULL once the two have lost each other */
        struct rule_set waived, waived_track;
        struct pdu_format h2c, c2h;
        uint8_t asked; /* DGST of the ICReq that was sent */
        uint8_t hpda;
        uint32_t maxh2cdata;
        struct seen *inbox, **inbox_end, *taken;
        uint64_t kept;  /* bytes of all of them, KEPT_PDU for each header */
        uint8_t *sink;  /* of the PDU in hand: a struct seen */
        bool term_seen; /* C2HTermReq came */

        /* how the next PDU is changed on its way out */
        struct conn_change change[CONN_CHANGES];
        unsigned changes;
        struct rule_set violate;
        bool violate_armed;
        uint32_t hdgst_xor, ddgst_xor;
        uint8_t pad_steps; /* of the alignment, beyond what it needs */
        uint8_t pad_value;
        uint32_t hold;
        uint32_t segment; /* of every PDU: bytes; 0: whole */
        bool bad_field;   /* a change named a field that the PDU does not have */
        bool maimed;      /* a PDU went out that the model can't make sense of */
        bool raw;         /* bytes went out that nobody here looked at */

        uint8_t *held;
        uint32_t held_len;
        uint32_t hdgst_sent; /* of the last PDU */
        union pdu sent[16];  /* headers of the last PDUs that went out, a ring */
        unsigned sent_count;
        uint8_t *out; /* the PDU that is put together */
        uint32_t out_cap;
        uint8_t buf[FRAMER_BUFFER_MIN];
};

uint64_t conn_clock(void); /* ms, monotonic */

/* NULL: error says why. timeout: ms. */
struct conn *conn_open(const char *traddr, const char *trsvcid, unsigned timeout, unsigned no,
                       struct exchange *log, char *error, size_t size);
void conn_free(struct conn *c);
/* Our end of it: FIN, RST, FIN in our direction. */
void conn_close(struct conn *c);
void conn_reset(struct conn *c);
void conn_half_close(struct conn *c);

/*
 * Lays the PDU out (type and own fields are set) in the format in force, changes it as asked, sums
 * the digests, sends. What can't be sent because the target has ended the connection is dropped.
 * deadline: conn_clock(). False: the target does not take it in time.
 */
bool conn_send(struct conn *c, union pdu *h, const void *data, uint32_t len, uint64_t deadline);
bool conn_send_bytes(struct conn *c, const void *bytes, uint32_t n, uint64_t deadline);
bool conn_release(struct conn *c, uint64_t deadline);

/* Waits until something more than now is in the inbox, or the connection has ended, or the
 * deadline; false at the deadline. */
bool conn_wait(struct conn *c, uint64_t deadline);
/* Takes s out of the inbox; it stays readable until conn_free(). */
void conn_take(struct conn *c, struct seen *s);

#endif
