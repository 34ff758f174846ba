/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both sides of a connection from a script, through a framer for each direction and one tracker, as
 * a capture check or a suite would see it. What was reported is written down as events.
 *
 * Like a link it has a second tracker for the sender's own idea of the connection, so that formats
 * stay right while what goes over the wire is spoilt.
 */
#ifndef NVMF_MACHINE_TESTS_SESSION_H
#define NVMF_MACHINE_TESTS_SESSION_H

#include "splits.h"
#include "stream.h"

#include "pdu/nvme/tcp/framer.h"
#include "pdu/nvme/tcp/spoil_tcp.h"
#include "pdu/nvme/tcp/track.h"

struct session {
        const struct rule_set *violated; /* NULL: nothing is spoilt */
        const struct rule_set *waived;
        struct track_limits limits;
        size_t cut;    /* most bytes at once; 0: whole PDUs */
        uint64_t seed; /* of the cuts */
        bool flips;    /* a bit of one PDU in four is wrong */
        bool quiet;    /* only what was broken is written down */
        struct events *events;

        struct track *own, *judge;
        struct framer framer[2];
        uint8_t *buf[2];
        bool struck;              /* a violator did something */
        struct rule_set reported; /* faults and findings */
        struct fault fault;       /* the one that ended it */
        union sqe sqes[64];       /* by CID, for violators */
        struct stream out;
};

static uint8_t session_data[1 << 17]; /* of every PDU; it begins as Connect's has to */

static inline void session_fill(void)
{
        struct connect_data *c = (struct connect_data *)(void *)session_data;

        for (size_t i = 0; i < sizeof(session_data); i++)
                session_data[i] = (uint8_t)(i * 31 >> 3);
        memset(c, 0, sizeof(*c));
        c->hostid[0] = 1;
        c->cntlid = le16(CNTLID_DYNAMIC);
        snprintf(c->subnqn, sizeof(c->subnqn), "nqn.2026-01.org.example:subsystem");
        snprintf(c->hostnqn, sizeof(c->hostnqn), "nqn.2026-01.org.example:host");
}

static inline void session_begin(struct session *s)
{
        session_fill();
        s->limits.findings = true;
        s->own = track_new(&(struct track_limits) { 0 }, NULL);
        s->judge = track_new(&s->limits, s->waived);
        assert_non_null(s->own);
        assert_non_null(s->judge);
        for (int p = 0; p < 2; p++) {
                s->buf[p] = malloc(FRAMER_BUFFER_MIN);
                framer_init(&s->framer[p], (enum party)p, s->waived);
                framer_attach(&s->framer[p], s->buf[p], FRAMER_BUFFER_MIN);
        }
        track_set_in_capsule(s->judge, PDU_ADMIN_IN_CAPSULE);
        s->struck = false;
        s->fault = (struct fault) { 0 };
        s->reported = (struct rule_set) { 0 };
        if (s->events) {
                s->events->len = 0;
                s->events->text[0] = '\0';
        }
}

static inline void session_end(struct session *s)
{
        for (int p = 0; p < 2; p++)
                free(s->buf[p]);
        track_free(s->own);
        track_free(s->judge);
}

static inline void session_report(struct session *s, struct fault fault)
{
        const struct rule_set *findings = track_findings(s->judge);

        if (is_fault(fault)) {
                rule_add(&s->reported, fault.rule);
                if (s->events)
                        events_add(s->events, "fault %s %u %u\n", rule_get(fault.rule)->id,
                                   fault.code, fault.place);
        }
        rule_each (rule) {
                if (!rule_in(findings, rule))
                        continue;
                rule_add(&s->reported, rule);
                if (s->events)
                        events_add(s->events, "finding %s\n", rule_get(rule)->id);
        }
}

static inline bool session_fatal(struct fault fault)
{
        return is_fault(fault) && rule_get(fault.rule)->reaction != REACT_STATUS;
}

static inline void session_pdu(struct session *s, enum party sender)
{
        const struct framer *f = &s->framer[sender];
        const union pdu *h = framer_header(f);

        session_report(s, track_pdu(s->judge, sender, h, framer_ddgst_bad(f)));
        if (s->events && !s->quiet)
                events_add(s->events, "pdu %02x %u\n", h->ch.type, framer_data_len(f));
        if (h->ch.type == PDU_ICRESP)
                for (int p = 0; p < 2; p++)
                        framer_negotiated(&s->framer[p], track_format(s->judge, (enum party)p));
}

/* False: it is over. */
static inline bool session_event(struct session *s, enum party sender, enum framer_event event)
{
        struct framer *f = &s->framer[sender];
        struct fault fault = { 0 };

        switch (event) {
        case FRAMER_HEADER:
                fault = track_header(s->judge, sender, framer_header(f));
                if (session_fatal(fault)) {
                        session_report(s, fault);
                        s->fault = fault;
                }
                return !is_fault(s->fault);
        case FRAMER_PDU:
                session_pdu(s, sender);
                return true;
        case FRAMER_FAULT:
                s->fault = framer_fault(f);
                rule_add(&s->reported, s->fault.rule);
                if (s->events)
                        events_add(s->events, "fault %s %u %u\n", rule_get(s->fault.rule)->id,
                                   s->fault.code, s->fault.place);
                return false;
        case FRAMER_MORE:
                break;
        }
        return false;
}

static inline void session_bytes(struct session *s, enum party sender, const uint8_t *p, size_t n)
{
        struct framer *f = &s->framer[sender];

        while (n > 0 && !is_fault(s->fault)) {
                size_t len = s->cut > 0 ? splits_rand(&s->seed) % s->cut + 1 : n;

                len = framer_feed(f, p, len < n ? len : n);
                while (session_event(s, sender, framer_next(f)))
                        ;
                p += len;
                n -= len;
        }
}

static inline const union sqe *session_sqe(struct session *s, const union pdu *h)
{
        if (h->ch.type == PDU_CAPSULE_RESP)
                return &s->sqes[le16_get(h->resp.cqe.cid) % 64];
        if (h->ch.type == PDU_C2H_DATA || h->ch.type == PDU_R2T)
                return &s->sqes[le16_get(h->data.cccid) % 64];
        return NULL;
}

/* The bytes of a PDU that link_send() would send. */
static inline void session_write(struct session *s, const struct spoil *sp, uint8_t hlen,
                                 bool hdgst, bool ddgst)
{
        s->out.len = 0;
        stream_bytes(&s->out, sp->h, hlen);
        if (hdgst) {
                le32_t crc = le32(crc32c(sp->h, hlen) ^ sp->hdgst_xor);

                stream_bytes(&s->out, &crc, sizeof(crc));
        }
        stream_fill(&s->out, s->out.len + sp->pad);
        stream_bytes(&s->out, sp->data, sp->data_len);
        if (ddgst && sp->data_len > 0) {
                le32_t crc = le32(crc32c(sp->data, sp->data_len) ^ sp->ddgst_xor);

                stream_bytes(&s->out, &crc, sizeof(crc));
        }
}

static inline void session_send(struct session *s, enum party sender, union pdu h, uint32_t len)
{
        const struct pdu_format f = *track_format(s->own, sender);
        uint8_t *data = malloc(len + 1);
        struct spoil sp = { .h = &h, .data = data, .data_len = len, .data_writable = true };
        bool hdgst, ddgst;
        uint8_t hlen;

        memcpy(data, session_data, len);
        if (h.ch.type == PDU_CAPSULE_CMD)
                s->sqes[le16_get(h.cmd.sqe.cid) % 64] = h.cmd.sqe;
        sp.sqe = session_sqe(s, &h);
        if (s->violated && h.ch.type == PDU_CAPSULE_RESP)
                s->struck |= spoil_completion(s->violated, sp.sqe, &h.resp.cqe, NULL, 0);
        pdu_lay_out(&h, &f, len);
        (void)track_header(s->own, sender, &h);
        hlen = h.ch.hlen;
        hdgst = h.ch.flags & PDU_HDGSTF;
        ddgst = h.ch.flags & PDU_DDGSTF;
        sp.pad = h.ch.pdo > 0 ? h.ch.pdo - pdu_head_len(&h, &f) : 0;
        if (s->violated)
                s->struck |= spoil_pdu(s->violated, sender, &sp);
        session_write(s, &sp, hlen, hdgst, ddgst);
        if (s->flips && s->out.len > 0 && splits_rand(&s->seed) % 4 == 0)
                s->out.bytes[splits_rand(&s->seed) % (s->out.len < 24 ? s->out.len : 24)] ^=
                    (uint8_t)(1 << splits_rand(&s->seed) % 8);
        for (int i = sp.twice ? 0 : 1; i < 2; i++)
                session_bytes(s, sender, s->out.bytes, s->out.len);
        free(data);
}

/* --- words ------------------------------------------------------------------------------------ */

static inline void say_icreq(struct session *s, uint8_t hpda, unsigned dgst, uint32_t maxr2t)
{
        union pdu h = { .ch.type = PDU_ICREQ };

        h.icreq.hpda = hpda;
        h.icreq.dgst = (uint8_t)dgst;
        h.icreq.maxr2t = le32(maxr2t - 1);
        session_send(s, PARTY_HOST, h, 0);
}

static inline void say_icresp(struct session *s, uint8_t cpda, unsigned dgst, uint32_t maxh2cdata)
{
        union pdu h = { .ch.type = PDU_ICRESP };

        h.icresp.cpda = cpda;
        h.icresp.dgst = (uint8_t)dgst;
        h.icresp.maxh2cdata = le32(maxh2cdata);
        session_send(s, PARTY_CONTROLLER, h, 0);
}

/* Data in the capsule where the SGL says so. */
static inline void say_cmd(struct session *s, union sqe sqe)
{
        union pdu h = { .ch.type = PDU_CAPSULE_CMD };

        h.cmd.sqe = sqe;
        session_send(s, PARTY_HOST, h, sqe.sgl.id == SGL_IN_CAPSULE ? le32_get(sqe.sgl.len) : 0);
}

static inline union sqe a_command(uint16_t cid, uint8_t opc, uint8_t sgl_id, uint32_t len)
{
        union sqe sqe = { .opc = opc };

        sqe.flags = SQE_PSDT_SGL;
        sqe.cid = le16(cid);
        sqe.sgl.id = sgl_id;
        sqe.sgl.len = le32(len);
        return sqe;
}

static inline union sqe an_io(uint16_t cid, uint8_t opc, uint8_t sgl_id, uint32_t len)
{
        union sqe sqe = a_command(cid, opc, sgl_id, len);

        sqe.nsid = le32(1);
        return sqe;
}

static inline union sqe a_fabrics(uint16_t cid, enum fctype type, uint8_t sgl_id, uint32_t len)
{
        union sqe sqe = a_command(cid, NVME_FABRICS, sgl_id, len);

        sqe.fctype = (uint8_t)type;
        return sqe;
}

static inline union sqe a_connect(uint16_t cid, uint16_t qid, uint16_t sqsize)
{
        union sqe sqe = a_fabrics(cid, FCTYPE_CONNECT, SGL_IN_CAPSULE, CONNECT_DATA_LEN);

        sqe.connect.qid = le16(qid);
        sqe.connect.sqsize = le16(sqsize);
        return sqe;
}

static inline union sqe a_property(uint16_t cid, enum fctype type, uint32_t ofst, uint64_t value)
{
        union sqe sqe = a_fabrics(cid, type, SGL_TRANSPORT, 0);

        sqe.property.attrib = ofst == PROP_CAP ? PROP_ATTRIB_8 : PROP_ATTRIB_4;
        sqe.property.ofst = le32(ofst);
        sqe.property.value = le64(value);
        return sqe;
}

static inline void say_cqe(struct session *s, uint16_t cid, uint16_t sqhd, uint16_t status,
                           uint64_t result)
{
        union pdu h = { .ch.type = PDU_CAPSULE_RESP };

        h.resp.cqe.cid = le16(cid);
        h.resp.cqe.sqhd = le16(sqhd);
        h.resp.cqe.sf = status_field(status);
        h.resp.cqe.result = le64(result);
        session_send(s, PARTY_CONTROLLER, h, 0);
}

static inline void say_resp(struct session *s, uint16_t cid, uint16_t sqhd)
{
        say_cqe(s, cid, sqhd, 0, 0);
}

static inline void say_r2t(struct session *s, uint16_t cid, uint16_t ttag, uint32_t offset,
                           uint32_t len)
{
        union pdu h = { .ch.type = PDU_R2T };

        h.data.cccid = le16(cid);
        h.data.ttag = le16(ttag);
        h.data.offset = le32(offset);
        h.data.length = le32(len);
        session_send(s, PARTY_CONTROLLER, h, 0);
}

static inline void say_data(struct session *s, uint8_t type, uint16_t cid, uint16_t ttag,
                            uint32_t offset, uint32_t len, unsigned flags)
{
        union pdu h = { .ch = { .type = type, .flags = (uint8_t)flags } };

        h.data.cccid = le16(cid);
        h.data.ttag = le16(ttag);
        h.data.offset = le32(offset);
        h.data.length = le32(len);
        session_send(s, type == PDU_H2C_DATA ? PARTY_HOST : PARTY_CONTROLLER, h, len);
}

static inline void say_h2c(struct session *s, uint16_t cid, uint16_t ttag, uint32_t offset,
                           uint32_t len, unsigned flags)
{
        say_data(s, PDU_H2C_DATA, cid, ttag, offset, len, flags);
}

static inline void say_c2h(struct session *s, uint16_t cid, uint32_t offset, uint32_t len,
                           unsigned flags)
{
        say_data(s, PDU_C2H_DATA, cid, 0, offset, len, flags);
}

/* pdu_lay_out() gives a TermReq its length; its data stands right after the header. */
static inline void say_term(struct session *s, enum party sender, uint32_t copied)
{
        union pdu h = { .ch.type = sender == PARTY_HOST ? PDU_H2C_TERM : PDU_C2H_TERM };

        h.term.fes = le16(FES_SEQUENCE_ERROR);
        session_send(s, sender, h, copied);
}

/* ICs without digests or alignment, and a queue. MAXR2T 1, MAXH2CDATA 8192. */
static inline void say_connected(struct session *s, uint16_t qid, uint16_t sqsize)
{
        say_icreq(s, 0, 0, 1);
        say_icresp(s, 0, 0, 8192);
        say_cmd(s, a_connect(0, qid, sqsize));
        say_cqe(s, 0, 1, 0, 1);
}

#endif
