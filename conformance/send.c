/* SPDX-License-Identifier: BSD-3-Clause */
/* The sending words. */
#include <stdlib.h>
#include <string.h>

#include "pdu/machine/spoil.h"
#include "pdu/wire/text.h"
#include "words.h"

/* --- changes to what comes next ------------------------------------------------------------ */

void mutate(struct queue *q, const char *field, uint64_t value)
{
        struct conn *c = q->conn;

        if (c->changes == CONN_CHANGES)
                broke(q->t, "more than %d changes to one PDU", CONN_CHANGES);
        c->change[c->changes++] = (struct conn_change) { field, value };
        q->t->negative = true;
}

void violate(struct queue *q, enum rule_id rule)
{
        if (!spoil_can(rule))
                broke(q->t, "%s has no violator", rule_get(rule)->id);
        rule_add(&q->conn->violate, rule);
        q->conn->violate_armed = true;
        q->t->negative = true;
}

void wrong_hdgst(struct queue *q)
{
        q->conn->hdgst_xor = 1;
        q->t->negative = true;
}

void wrong_ddgst(struct queue *q)
{
        q->conn->ddgst_xor = 1;
        q->t->negative = true;
}

void pad(struct queue *q, uint8_t steps, uint8_t value)
{
        q->conn->pad_steps = steps;
        q->conn->pad_value = value;
        q->t->negative = true;
}

void hold_back(struct queue *q, uint32_t n)
{
        q->conn->hold = n;
}

void dribble(struct queue *q, uint32_t n)
{
        q->conn->segment = n;
}

/* --- PDUs ---------------------------------------------------------------------------------- */

static void check_sent(struct queue *q, bool sent)
{
        if (!sent)
                fail(q->t, "the target reads what is sent to it", "it takes no more bytes");
        if (q->conn->bad_field)
                broke(q->t, "a change names a field that the PDU does not have");
        t_settle(q->t);
}

static void send_header(struct queue *q, union pdu *h, const void *data, uint32_t len)
{
        if (q->over)
                return;
        check_sent(q, conn_send(q->conn, h, data, len, t_deadline(q->t, REPLY_MS)));
}

void release(struct queue *q)
{
        check_sent(q, conn_release(q->conn, t_deadline(q->t, REPLY_MS)));
}

void send_bytes(struct queue *q, const void *bytes, uint32_t n)
{
        exchange_event(&q->t->log, q->conn->no, "%u bytes as they are", n);
        q->t->negative = q->conn->raw = true;
        check_sent(q, conn_send_bytes(q->conn, bytes, n, t_deadline(q->t, REPLY_MS)));
}

static uint8_t choose(int asked, bool of_run, uint8_t bit)
{
        return (asked == AS_RUN ? of_run : asked != 0) ? bit : 0;
}

void queue_icreq(struct queue *q, struct ic ic)
{
        const struct suite *s = q->t->suite;
        union pdu h = { .icreq = {
                            .ch = { .type = PDU_ICREQ },
                            .pfv = le16(ic.pfv),
                            .hpda = ic.hpda == AS_RUN ? s->hpda : (uint8_t)ic.hpda,
                            .dgst = choose(ic.hdgst, s->hdgst, PDU_DGST_HEADER) |
                                    choose(ic.ddgst, s->ddgst, PDU_DGST_DATA),
                            .maxr2t = le32(ic.maxr2t),
                        } };

        send_header(q, &h, NULL, 0);
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
        send_header(q, &h, data, m.bytes);
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

/* --- commands ------------------------------------------------------------------------------ */

struct command *command_of(struct queue *q, uint16_t cid)
{
        for (struct command *c = q->commands; c; c = c->next)
                if (c->cid == cid)
                        return c;
        broke(q->t, "no command %u was sent on this queue", cid);
}

static uint16_t next_cid(const struct queue *q)
{
        return q->commands ? (uint16_t)(q->commands->cid + 1) : 1;
}

static struct sgl sgl_for(enum nvme_xfer xfer, bool in_capsule, uint32_t len)
{
        if (xfer == XFER_NONE)
                return (struct sgl) { .id = SGL_TRANSPORT };
        return (struct sgl) { .len = le32(len), .id = in_capsule ? SGL_IN_CAPSULE : SGL_TRANSPORT };
}

/* Sends the SQE, its data in the capsule or remembered for R2Ts. */
static uint16_t submit(struct queue *q, union sqe sqe, const void *data, uint32_t bytes,
                       bool in_capsule, int64_t sgl_len)
{
        struct command *c = t_alloc(q->t, sizeof(*c));
        union pdu h = { .cmd = { .ch = { .type = PDU_CAPSULE_CMD } } };
        enum nvme_xfer xfer = bytes > 0 || sgl_len > 0 ? sqe_xfer(&sqe) : XFER_NONE;
        uint32_t described = sgl_len >= 0 ? (uint32_t)sgl_len : bytes;

        sqe.sgl = xfer == XFER_NONE && sqe.opc == NVME_FABRICS && sqe.fctype != FCTYPE_CONNECT
                      ? sqe.sgl
                      : sgl_for(xfer, in_capsule, described);
        *c = (struct command) {
                .next = q->commands,
                .cid = le16_get(sqe.cid),
                .sqe = sqe,
                .bytes = described > bytes ? described : bytes,
                .whole = sgl_len < 0,
                .data = data ? data : pattern(q->t, bytes),
        };
        q->commands = c;
        h.cmd.sqe = sqe;
        in_capsule = in_capsule && xfer == XFER_H2C;
        send_header(q, &h, in_capsule ? c->data : NULL, in_capsule ? bytes : 0);
        return c->cid;
}

uint16_t queue_cmd(struct queue *q, struct cmd c)
{
        union sqe s = {
                .opc = c.opc,
                .flags = c.flags,
                .cid = le16(c.cid >= 0 ? (uint16_t)c.cid : next_cid(q)),
                .nsid = le32(c.nsid),
                .cdw2 = le32(c.cdw2),
                .cdw3 = le32(c.cdw3),
                .cdw10 = le32(c.cdw10),
                .cdw11 = le32(c.cdw11),
                .cdw12 = le32(c.cdw12),
                .cdw13 = le32(c.cdw13),
                .cdw14 = le32(c.cdw14),
                .cdw15 = le32(c.cdw15),
        };

        if (c.opc == NVME_FABRICS)
                s.fctype = c.fctype;
        return submit(q, s, c.data, c.bytes, c.in_capsule, c.sgl_len);
}

static uint32_t whole_blocks(struct t *t, uint32_t bytes)
{
        uint32_t block = caps(t)->block;

        require(t, caps(t)->nsid, "no namespace to read or write");
        if (bytes == 0)
                return 1;
        require(t, bytes % block == 0, "blocks of %u bytes", block);
        return bytes / block;
}

uint16_t queue_blocks(struct queue *q, uint8_t opc, struct blocks b)
{
        struct t *t = q->t;
        uint32_t n = whole_blocks(t, b.bytes);
        uint64_t slba = t->slba + b.slba;

        if ((opc == NVME_WRITE || opc == NVME_WRITE_ZEROES) &&
            (!t->test->writes || b.slba + n > t->blocks))
                broke(t, "the case may not write there");
        return queue_cmd(q, (struct cmd) {
                                .opc = opc,
                                .flags = SQE_PSDT_SGL,
                                .cid = -1,
                                .nsid = b.nsid ? b.nsid : caps(t)->nsid,
                                .cdw10 = (uint32_t)slba,
                                .cdw11 = (uint32_t)(slba >> 32),
                                .cdw12 = (n - 1) | b.cdw12,
                                .bytes = n * caps(t)->block,
                                .data = b.data,
                                .in_capsule = b.in_capsule,
                                .sgl_len = b.sgl_len,
                            });
}

/* --- Fabrics commands ---------------------------------------------------------------------- */

static bool joined(const struct queue *q)
{
        return q->admin && q->admin != q;
}

static uint16_t cntlid_of(const struct queue *q)
{
        return joined(q) ? q->admin->cntlid : (uint16_t)CNTLID_DYNAMIC;
}

struct connect_data connect_data(struct queue *q)
{
        struct connect_data d = { .cntlid = le16(cntlid_of(q)) };

        memcpy(d.hostid, q->t->hostid, sizeof(d.hostid));
        text_fill(d.hostnqn, sizeof(d.hostnqn), q->t->hostnqn);
        text_fill(d.subnqn, sizeof(d.subnqn), joined(q) ? q->admin->subnqn : q->t->suite->subnqn);
        return d;
}

static struct connect_data data_of(struct queue *q, const struct connect *c)
{
        struct connect_data d = c->data ? *c->data : connect_data(q);

        if (c->data)
                return d;
        if (c->cntlid != AS_FITS)
                d.cntlid = le16((uint16_t)c->cntlid);
        if (c->hostid)
                memcpy(d.hostid, c->hostid, sizeof(d.hostid));
        if (c->hostnqn)
                text_fill(d.hostnqn, sizeof(d.hostnqn), c->hostnqn);
        if (c->subnqn)
                text_fill(d.subnqn, sizeof(d.subnqn), c->subnqn);
        return d;
}

uint16_t fitting_sqsize(struct t *t, uint16_t qid, uint16_t sqsize)
{
        uint16_t mqes = CAP_MQES(caps(t)->cap);

        return qid > 0 && mqes > 0 && sqsize > mqes ? mqes : sqsize;
}

uint16_t queue_connect(struct queue *q, struct connect c)
{
        uint16_t qid = c.qid == AS_FITS ? joined(q) : (uint16_t)c.qid;
        uint16_t sqsize = c.sqsize == AS_FITS ? fitting_sqsize(q->t, qid, 31) : (uint16_t)c.sqsize;
        union sqe s = { .connect = {
                            .opc = NVME_FABRICS,
                            .flags = SQE_PSDT_SGL,
                            .cid = le16(next_cid(q)),
                            .fctype = FCTYPE_CONNECT,
                            .recfmt = le16(c.recfmt),
                            .qid = le16(qid),
                            .sqsize = le16(sqsize),
                            .cattr = c.cattr,
                            .kato = le32(qid == 0 ? c.kato : 0),
                            .nvmsetid = le16(c.nvmsetid),
                        } };
        struct connect_data d = data_of(q, &c);
        uint8_t *data = t_alloc(q->t, c.bytes + sizeof(d));

        memcpy(data, &d, sizeof(d));
        q->conn->admin = qid == 0;
        q->qid = qid;
        q->sqsize = sqsize;
        memcpy(q->subnqn, d.subnqn, sizeof(d.subnqn));
        return submit(q, s, data, c.bytes, !c.through_r2t, c.sgl_len);
}

static uint16_t send_property(struct queue *q, uint8_t fctype, uint32_t ofst, unsigned attrib,
                              uint64_t value)
{
        union sqe s = { .property = {
                            .opc = NVME_FABRICS,
                            .flags = SQE_PSDT_SGL,
                            .cid = le16(next_cid(q)),
                            .fctype = fctype,
                            .attrib = (uint8_t)attrib,
                            .ofst = le32(ofst),
                            .value = le64(value),
                        } };

        return submit(q, s, NULL, 0, false, -1);
}

uint16_t send_property_get(struct queue *q, uint32_t ofst, unsigned attrib)
{
        return send_property(q, FCTYPE_PROPERTY_GET, ofst, attrib, 0);
}

uint16_t send_property_set(struct queue *q, uint32_t ofst, unsigned attrib, uint64_t value)
{
        return send_property(q, FCTYPE_PROPERTY_SET, ofst, attrib, value);
}

uint16_t send_disconnect(struct queue *q, uint16_t recfmt)
{
        union sqe s = { .disconnect = {
                            .opc = NVME_FABRICS,
                            .flags = SQE_PSDT_SGL,
                            .cid = le16(next_cid(q)),
                            .fctype = FCTYPE_DISCONNECT,
                            .recfmt = le16(recfmt),
                        } };

        return submit(q, s, NULL, 0, false, -1);
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

        send_header(q, &p, data_at(q, cid, offset, len), len);
}

void serve(struct queue *q, struct r2t r)
{
        uint32_t max = q->conn->maxh2cdata > 0 ? q->conn->maxh2cdata : r.len;

        for (uint32_t done = 0, len; done < r.len; done += len) {
                len = r.len - done < max ? r.len - done : max;
                send_h2c(q, r, .offset = r.offset + done, .len = len, .last = done + len == r.len);
        }
}
