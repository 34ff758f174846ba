/* SPDX-License-Identifier: BSD-3-Clause */
/* The sending words that only TCP has: PDUs. */
#include <string.h>

#include "conn_tcp.h"
#include "pdu/nvme/machine/spoil.h"
#include "words.h"

struct conn_tcp *tcp_of(struct queue *q)
{
        struct conn_tcp *c = conn_tcp(q->conn);

        if (!c)
                broke(q->t, "a word of TCP in a case that runs over RDMA");
        return c;
}

/* --- changes to what comes next ------------------------------------------------------------ */

void violate(struct queue *q, enum rule_id rule)
{
        if (!spoil_can(rule))
                broke(q->t, "%s has no violator", rule_get(rule)->id);
        rule_add(&tcp_of(q)->violate, rule);
        q->conn->violate_armed = true;
        provoke(q);
}

void flip_hdgst(struct queue *q, uint32_t bits)
{
        tcp_of(q)->hdgst_xor = bits;
        provoke(q);
}

void flip_ddgst(struct queue *q, uint32_t bits)
{
        tcp_of(q)->ddgst_xor = bits;
        provoke(q);
}

void wrong_hdgst(struct queue *q)
{
        flip_hdgst(q, 1);
}

void wrong_ddgst(struct queue *q)
{
        flip_ddgst(q, 1);
}

void pad(struct queue *q, uint8_t steps, uint8_t value)
{
        tcp_of(q)->pad_steps = steps;
        tcp_of(q)->pad_value = value;
        provoke(q);
}

void hold_back(struct queue *q, uint32_t n)
{
        tcp_of(q)->hold = n;
}

void dribble(struct queue *q, uint32_t n)
{
        tcp_of(q)->segment = n;
}

/* --- PDUs ---------------------------------------------------------------------------------- */

static void check_sent(struct queue *q, bool sent)
{
        if (!sent)
                broke_if_late(q);
        if (!sent)
                harm(q->t, "the target reads what is sent to it", "it reads no more bytes");
        if (q->conn->bad_field)
                broke(q->t, "a change names a field that the PDU does not have");
        t_settle(q->t);
}

void tcp_send(struct queue *q, union pdu *h, const void *data, uint32_t len)
{
        if (q->over)
                return;
        check_sent(q, conn_send(tcp_of(q), h, data, len, t_deadline(q->t, REPLY_MS)));
}

void release(struct queue *q)
{
        check_sent(q, conn_release(tcp_of(q), t_deadline(q->t, REPLY_MS)));
}

void send_bytes(struct queue *q, const void *bytes, uint32_t n)
{
        exchange_event(&q->t->log, q->conn->no, "%u bytes as they are", n);
        q->t->negative = tcp_of(q)->raw = true;
        check_sent(q, conn_send_bytes(tcp_of(q), bytes, n, t_deadline(q->t, REPLY_MS)));
}

static uint8_t choose(int asked, bool of_run, uint8_t bit)
{
        return (asked == AS_RUN ? of_run : asked != 0) ? bit : 0;
}

void queue_icreq(struct queue *q, struct ic ic)
{
        const struct peer *s = peer(q->t);
        union pdu h = { .icreq = {
                            .ch = { .type = PDU_ICREQ },
                            .pfv = le16(ic.pfv),
                            .hpda = ic.hpda == AS_RUN ? s->hpda : (uint8_t)ic.hpda,
                            .dgst = choose(ic.hdgst, s->hdgst, PDU_DGST_HEADER) |
                                    choose(ic.ddgst, s->ddgst, PDU_DGST_DATA),
                            .maxr2t = le32(ic.maxr2t),
                        } };

        tcp_send(q, &h, NULL, 0);
}

void queue_term(struct queue *q, struct term m)
{
        union pdu h = { .term = {
                            .ch = { .type = PDU_H2C_TERM, .hlen = sizeof(struct pdu_term) },
                            .fes = le16(m.fes),
                            .fei = le32(m.fei),
                        } };
        uint8_t data[256];

        memset(data, 0xee, sizeof(data));
        if (m.plen >= 0)
                mutate(q, "plen", (uint64_t)m.plen);
        tcp_send(q, &h, data, m.bytes);
        q->terminated = m.plen < 0 && m.bytes <= PDU_TERM_DATA_MAX; /* else it is to end at once */
}

void send_pdu(struct queue *q, uint8_t type, uint32_t len)
{
        struct pdu_ch ch = { .type = type,
                             .hlen = (uint8_t)(sizeof(ch) + len),
                             .plen = le32((uint32_t)sizeof(ch) + len) };
        uint8_t bytes[512] = { 0 };

        memcpy(bytes, &ch, sizeof(ch));
        send_bytes(q, bytes, (uint32_t)sizeof(ch) + len);
}

/* --- H2CData ------------------------------------------------------------------------------- */

/* The bytes of the command's data at this place; where it has none, any bytes. */
static const uint8_t *data_at(struct queue *q, uint16_t cid, uint32_t offset, uint32_t len)
{
        const struct command *c = q->commands;

        while (c && c->cid != cid)
                c = c->next;
        if (c && c->data && (uint64_t)offset + len <= c->bytes)
                return c->data + offset;
        return pattern(q->t, len);
}

static uint32_t or_else(int64_t given, uint32_t otherwise)
{
        return given == AS_FITS ? otherwise : (uint32_t)given;
}

void queue_h2c(struct queue *q, struct r2t r, struct h2c h)
{
        uint16_t cid = (uint16_t)or_else(h.cid, r.cid);
        uint32_t offset = or_else(h.offset, r.offset), len = or_else(h.len, r.len);
        union pdu p = { .data = {
                            .ch = { .type = PDU_H2C_DATA, .flags = h.last ? PDU_LAST : 0 },
                            .cccid = le16(cid),
                            .ttag = le16((uint16_t)or_else(h.ttag, r.ttag)),
                            .offset = le32(offset),
                            .length = le32(or_else(h.datal, len)),
                        } };

        tcp_send(q, &p, data_at(q, cid, offset, len), len);
}

void serve(struct queue *q, struct r2t r)
{
        uint32_t max = tcp_of(q)->maxh2cdata > 0 ? tcp_of(q)->maxh2cdata : r.len;

        for (uint32_t done = 0, len; done < r.len; done += len) {
                len = r.len - done < max ? r.len - done : max;
                send_h2c(q, r, .offset = r.offset + done, .len = len, .last = done + len == r.len);
        }
}
