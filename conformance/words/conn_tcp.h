/* SPDX-License-Identifier: BSD-3-Clause */
/* A TCP connection driven by hand: sends any PDU, whole or maimed, and takes whatever comes. */
#ifndef NVMF_CONFORMANCE_CONN_TCP_H
#define NVMF_CONFORMANCE_CONN_TCP_H

#include "conn.h"
#include "pdu/io/stream.h"
#include "pdu/nvme/tcp/framer.h"
#include "pdu/nvme/tcp/track.h"

enum { CONN_DATA_MAX = 64 << 20, CONN_SENT = 512 };

struct nvme_tls;

struct conn_tcp {
        struct suite_conn base;
        struct stream stream;
        struct framer rx;
        struct track *track; /* NULL once the two have lost each other */
        struct rule_set waived, waived_track;
        struct pdu_format h2c, c2h;
        uint8_t asked; /* DGST of the ICReq that was sent */
        uint8_t hpda;
        uint32_t maxh2cdata;
        struct seen *sink; /* of the PDU in hand */
        bool term_seen;    /* C2HTermReq came */

        /* how the next PDU is changed on its way out */
        struct rule_set violate;
        uint32_t hdgst_xor, ddgst_xor;
        uint8_t pad_steps; /* of the alignment, beyond what it needs */
        uint8_t pad_value;
        uint32_t hold;
        uint32_t segment; /* of every PDU: bytes; 0: whole */
        bool maimed;      /* a PDU went out that the model can't make sense of */
        bool raw;         /* bytes went out that nobody here looked at */
        bool foreign;     /* what comes is no PDU: conn_read_bytes() has been asked for it */

        uint8_t *held;
        uint32_t held_len;
        uint32_t hdgst_sent;       /* of the last PDU */
        union pdu sent[CONN_SENT]; /* headers of the last PDUs that went out, a ring */
        unsigned sent_count;
        uint8_t *out; /* the PDU that is put together */
        uint32_t out_cap;
        uint8_t *buf; /* FRAMER_BUFFER_MIN bytes */
};

/* NULL: error says why. timeout: ms. */
struct suite_conn *conn_tcp_open(const char *traddr, const char *trsvcid, unsigned timeout,
                                 unsigned no, struct exchange *log, char *error, size_t size);
/* TLS from here on, before anything has been sent; the names are those of the identity. 0; -1: error says
 * why. What the handshake comes to the first PDU shows. */
int conn_secure(struct conn_tcp *c, const struct nvme_tls *cfg, const char *hostnqn,
                const char *subnqn, char *error, size_t size);
/* NULL: c is of another kind. */
struct conn_tcp *conn_tcp(struct suite_conn *c);
/* The type of the PDU that went out last; -1: none did. */
int conn_last_sent(const struct conn_tcp *c);
/* FIN in our direction. */
void conn_half_close(struct conn_tcp *c);

/*
 * Lays the PDU out (type and own fields are set) in the format in force, changes it as asked, sums
 * the digests, sends. What can't be sent because the target has ended the connection is dropped.
 * deadline: loop_now_ms(). False: the target does not take it in time.
 */
bool conn_send(struct conn_tcp *c, union pdu *h, const void *data, uint32_t len, uint64_t deadline);
/* The same of bytes as they are; of what hold_back() has kept. */
bool conn_send_bytes(struct conn_tcp *c, const void *bytes, uint32_t n, uint64_t deadline);
bool conn_release(struct conn_tcp *c, uint64_t deadline);
/* The next bytes that come, as they are, for what is no PDU; 0: the connection has ended, or the deadline. */
size_t conn_read_bytes(struct conn_tcp *c, void *bytes, size_t size, uint64_t deadline);

#endif
