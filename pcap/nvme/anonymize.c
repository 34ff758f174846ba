/* SPDX-License-Identifier: BSD-3-Clause */
/* What NVMe's messages are when they name nobody. */
#include "pcap/tools/anonymize.h"

#include <string.h>

#include "scrub.h"
#include "tools.h"
#include "wirebytes.h"

/* --- TCP -------------------------------------------------------------------------------------- */

struct tcp_copy {
        bool begun[2];     /* of this sender a header came, and not yet the rest of its PDU */
        union pdu head[2]; /* with its format and digest */
        struct pdu_format format[2];
        uint32_t hdgst[2];
        size_t written[2]; /* bytes of that PDU */
};

/* Where the data of a PDU lies in that of its command; false: it has none. */
static bool data_offset(const union pdu *h, uint64_t *offset)
{
        *offset = 0;
        if (h->ch.type == PDU_H2C_DATA || h->ch.type == PDU_C2H_DATA)
                *offset = le32_get(h->data.offset);
        else if (h->ch.type != PDU_CAPSULE_CMD)
                return false;
        return true;
}

static void scrub_pdu(struct anonymizer *w, const struct record *r, uint8_t *data, uint32_t n)
{
        const union sqe *sqe = r->sqe ? r->sqe : r->cmd ? &r->cmd->sqe : NULL;
        uint64_t offset;

        if (!data_offset(r->e->pdu->h, &offset))
                return;
        if (sqe)
                scrub_data(&w->scrub, sqe, session_admin(r->session, sqe), offset, data, n);
        else
                memset(data, 0, n); /* nobody knows what it is */
}

/* False: no memory. */
static bool write_whole(struct anonymizer *w, const struct record *r)
{
        const struct trace_pdu *p = r->e->pdu;
        struct wire_parts parts;

        if (!wire_bytes(&w->message, p, &parts))
                return false;
        if (p->data_len > 0) {
                scrub_pdu(w, r, w->message.p + parts.data, p->data_len);
                wire_sum(&w->message, &parts, p->ddgst_bad);
        }
        return true;
}

/* A PDU whose data is not all there is written up to its data, and the rest is a gap again. */
static void write_pdu(struct anonymizer *w, struct capture_flow *f, const struct record *r,
                      struct tcp_copy *t)
{
        const struct trace_pdu *p = r->e->pdu;
        size_t done = t->written[r->e->sender];
        bool whole = p->data_len == 0 || (p->data && !p->cut);

        if (!(whole ? write_whole(w, r) : wire_front(&w->message, p))) {
                w->no_memory = true;
                return;
        }
        capture_flow_data(w->out, f, r->e->sender, w->message.p + done, w->message.n - done,
                          r->e->at.time_ns);
        if (!whole)
                f->seq[r->e->sender] += wire_rest(p);
}

/* Of a header that cannot be believed what came of it, its digest too, and the stream is lost. */
static void write_fault(struct anonymizer *w, struct capture_flow *f, const struct trace_event *e)
{
        const struct trace_pdu *p = e->pdu;
        bool digest = p->fault.rule == TCP_HDGST_H2C || p->fault.rule == TCP_HDGST_C2H;
        le32_t sum = le32(p->hdgst);

        w->message.n = 0;
        if (!bytes_add(&w->message, p->h, p->header_len) ||
            (digest && !bytes_add(&w->message, &sum, sizeof(sum)))) {
                w->no_memory = true;
                return;
        }
        capture_flow_data(w->out, f, e->sender, w->message.p, w->message.n, e->at.time_ns);
        f->seq[e->sender] += 4;
}

static void keep_head(struct tcp_copy *t, const struct trace_event *e)
{
        t->begun[e->sender] = true;
        t->written[e->sender] = 0;
        t->head[e->sender] = *e->pdu->h;
        t->format[e->sender] = *e->pdu->format;
        t->hdgst[e->sender] = e->pdu->hdgst;
}

/* A PDU of which only the header came. */
static void write_head(struct anonymizer *w, struct capture_flow *f, struct tcp_copy *t,
                       enum party sender, int64_t time_ns)
{
        struct trace_pdu p = { .h = &t->head[sender],
                               .format = &t->format[sender],
                               .hdgst = t->hdgst[sender] };

        if (!t->begun[sender])
                return;
        t->begun[sender] = false;
        w->message.n = 0;
        if (!wire_head(&w->message, &p))
                w->no_memory = true;
        else
                capture_flow_data(w->out, f, sender, w->message.p, w->message.n, time_ns);
        t->written[sender] = w->message.n;
}

static bool is_term(const struct trace_pdu *p)
{
        return p->h->ch.type == PDU_H2C_TERM || p->h->ch.type == PDU_C2H_TERM;
}

static void copy_tcp(struct anonymizer *w, struct capture_flow *f, void *kept,
                     const struct trace_record *record)
{
        const struct record *r = record->record;
        const struct trace_event *e = r->e;
        struct tcp_copy *t = kept;

        if (e->kind == TRACE_HEADER) {
                keep_head(t, e);
        } else if (e->kind == TRACE_PDU) {
                t->begun[e->sender] = false;
                if (is_term(e->pdu)) /* perhaps because of what the other side has begun */
                        write_head(w, f, t, peer_of(e->sender), e->at.time_ns);
                write_pdu(w, f, r, t);
        } else if (e->kind == TRACE_FAULT) {
                write_fault(w, f, e);
        } else if (e->kind == TRACE_GAP) {
                write_head(w, f, t, e->sender, e->at.time_ns);
                f->seq[e->sender] += e->gap.bytes ? (uint32_t)e->gap.bytes : 4;
        } else if (e->kind == TRACE_CLOSED) {
                write_head(w, f, t, PARTY_HOST, e->at.time_ns);
                write_head(w, f, t, PARTY_CONTROLLER, e->at.time_ns);
        }
}

/* --- RDMA ------------------------------------------------------------------------------------- */

/* After the SQE: data, or descriptors, which stay; nothing else does. */
static void scrub_command(const struct scrub *s, const struct record *r, uint8_t *p, uint32_t n)
{
        const struct session_cmd *cmd = r->cmd;
        uint32_t from = sizeof(union sqe), to = from;
        struct rdma_buffer alone;

        if (cmd && cmd->rdma.in_capsule && cmd->rdma.offset + (uint64_t)cmd->rdma.len <= n) {
                from = cmd->rdma.offset;
                to = from + cmd->rdma.len;
                scrub_data(s, &cmd->sqe, session_admin(r->session, &cmd->sqe), 0, p + from,
                           to - from);
        } else if (cmd && cmd->rdma.count > 0 && !sgl_get_keyed(&cmd->sqe.sgl, &alone)) {
                to = n;
        }
        memset(p + sizeof(union sqe), 0, from - sizeof(union sqe));
        memset(p + to, 0, n - to);
}

static void scrub_capsule(const struct scrub *s, const void *record, uint8_t *p, uint32_t n)
{
        const struct record *r = record;

        if (r->e->sender == PARTY_CONTROLLER && n > sizeof(struct cqe))
                memset(p + sizeof(struct cqe), 0, n - sizeof(struct cqe));
        else if (r->e->sender == PARTY_HOST && n >= sizeof(union sqe))
                scrub_command(s, r, p, n);
}

static void scrub_transfer(const struct scrub *s, const void *record, uint8_t *p, size_t n)
{
        const struct record *r = record;
        const struct session_cmd *cmd = r->cmd;

        if (cmd)
                scrub_data(s, &cmd->sqe, session_admin(r->session, &cmd->sqe), r->offset, p, n);
        else
                memset(p, 0, n); /* nobody knows what it is */
}

const struct trace_anonymize nvme_anonymize = {
        .tcp_size = sizeof(struct tcp_copy),
        .tcp = copy_tcp,
        .private_data = 32,
        .capsule = scrub_capsule,
        .transfer = scrub_transfer,
};
