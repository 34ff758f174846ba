/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A capture that may be shown: the NVMe connections of another one, what was said written again with
 * what names somebody replaced, digests, CRCs and checksums right. What is missing in the first is
 * missing in the second.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "anonymize.h"
#include "call.h"
#include "command.h"
#include "pcap/nvme/wirebytes.h"
#include "pdu/io/output.h"

struct sockaddr_storage anonymous_address(const struct scrub *s, const struct capture_end *end)
{
        struct sockaddr_storage ss = { .ss_family = end->family };
        struct capture_end e = *end;

        scrub_address(s, &e);
        if (e.family == AF_INET) {
                memcpy(&((struct sockaddr_in *)&ss)->sin_addr, e.addr, 4);
                ((struct sockaddr_in *)&ss)->sin_port = htons(e.port);
        } else {
                memcpy(&((struct sockaddr_in6 *)&ss)->sin6_addr, e.addr, 16);
                ((struct sockaddr_in6 *)&ss)->sin6_port = htons(e.port);
        }
        return ss;
}

struct tcp_copy { /* a session's user */
        struct capture_flow flow;
        bool begun[2];     /* of this sender a header came, and not yet the rest of its PDU */
        union pdu head[2]; /* with its format and digest */
        struct pdu_format format[2];
        uint32_t hdgst[2];
        size_t written[2]; /* bytes of that PDU */
};

static void open_flow(struct anonymizer *w, const struct record *r)
{
        const struct trace_conn *c = r->e->conn;
        struct sockaddr_storage host = anonymous_address(&w->scrub, &c->end[PARTY_HOST]);
        struct sockaddr_storage controller =
            anonymous_address(&w->scrub, &c->end[PARTY_CONTROLLER]);
        struct tcp_copy *t;

        r->session->user = t = calloc(1, sizeof(*t));
        if (!t) {
                w->no_memory = true;
                return;
        }
        t->flow.midstream = c->midstream;
        capture_flow_open(w->out, &t->flow, (struct sockaddr *)&host,
                          (struct sockaddr *)&controller, r->e->at.time_ns);
}

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

/* A PDU whose data is not all there is written up to its data, and the rest is a gap again. */
static void write_pdu(struct anonymizer *w, const struct record *r, struct tcp_copy *t)
{
        const struct trace_pdu *p = r->e->pdu;
        struct capture_flow *f = &t->flow;
        size_t done = t->written[r->e->sender];
        bool whole = p->data_len == 0 || (p->data && !p->cut);
        struct wire_parts parts;

        if (!wire_bytes(&w->message, p, &parts)) {
                w->no_memory = true;
                return;
        }
        if (p->data_len > 0 && whole) {
                scrub_pdu(w, r, w->message.p + parts.data, p->data_len);
                wire_sum(&w->message, &parts, p->ddgst_bad);
        }
        capture_flow_data(w->out, f, r->e->sender, w->message.p + done,
                          (whole ? w->message.n : parts.data) - done, r->e->at.time_ns);
        if (!whole)
                f->seq[r->e->sender] += (uint32_t)(w->message.n - parts.data);
}

/* Of a header that cannot be believed what came of it, its digest too, and the stream is lost. */
static void write_fault(struct anonymizer *w, const struct record *r, struct capture_flow *f)
{
        const struct trace_pdu *p = r->e->pdu;
        bool digest = p->fault.rule == TCP_HDGST_H2C || p->fault.rule == TCP_HDGST_C2H;
        le32_t sum = le32(p->hdgst);

        w->message.n = 0;
        if (!bytes_add(&w->message, p->h, p->header_len) ||
            (digest && !bytes_add(&w->message, &sum, sizeof(sum)))) {
                w->no_memory = true;
                return;
        }
        capture_flow_data(w->out, f, r->e->sender, w->message.p, w->message.n, r->e->at.time_ns);
        f->seq[r->e->sender] += 4;
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
static void write_head(struct anonymizer *w, struct tcp_copy *t, enum party sender, int64_t time_ns)
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
                capture_flow_data(w->out, &t->flow, sender, w->message.p, w->message.n, time_ns);
        t->written[sender] = w->message.n;
}

static bool is_term(const struct trace_pdu *p)
{
        return p->h->ch.type == PDU_H2C_TERM || p->h->ch.type == PDU_C2H_TERM;
}

static void on_tcp(struct anonymizer *w, const struct record *r)
{
        struct tcp_copy *t = r->session->user;
        const struct trace_event *e = r->e;

        if (!t)
                return;
        if (e->kind == TRACE_HEADER) {
                keep_head(t, e);
        } else if (e->kind == TRACE_PDU) {
                t->begun[e->sender] = false;
                if (is_term(e->pdu)) /* perhaps because of what the other side has begun */
                        write_head(w, t, peer_of(e->sender), e->at.time_ns);
                write_pdu(w, r, t);
        } else if (e->kind == TRACE_FAULT) {
                write_fault(w, r, &t->flow);
        } else if (e->kind == TRACE_GAP) {
                write_head(w, t, e->sender, e->at.time_ns);
                t->flow.seq[e->sender] += e->gap.bytes ? (uint32_t)e->gap.bytes : 4;
        }
        if (e->kind != TRACE_CLOSED)
                return;
        write_head(w, t, PARTY_HOST, e->at.time_ns);
        write_head(w, t, PARTY_CONTROLLER, e->at.time_ns);
        capture_flow_close(w->out, &t->flow, PARTY_HOST, false, e->at.time_ns);
        free(t);
        r->session->user = NULL;
}

static void on_rdma(struct anonymizer *w, const struct record *r)
{
        struct rdma_copy *c = r->session->user;

        if (!c)
                return;
        rdma_copy_record(w, c, r);
        if (r->e->kind != TRACE_CLOSED)
                return;
        rdma_copy_free(c);
        r->session->user = NULL;
}

static void open_copy(struct anonymizer *w, const struct record *r)
{
        w->written++;
        if (r->e->conn->transport == TRACE_TCP)
                open_flow(w, r);
        else if (!(r->session->user = rdma_copy_new(w, r)))
                w->no_memory = true;
}

static void on_record(void *user, const struct record *r)
{
        struct anonymizer *w = user;

        if (r->e->kind == TRACE_OPENED && (!w->args->conn || w->args->conn == r->e->conn->number))
                open_copy(w, r);
        (r->e->conn->transport == TRACE_TCP ? on_tcp : on_rdma)(w, r);
}

static bool make_key(const struct args *a, struct scrub *s)
{
        s->key[0] = s->key[1] = a->seed;
        s->keep_data = a->keep_data;
        return a->seed != 0 || getrandom(s->key, sizeof(s->key), 0) == sizeof(s->key);
}

static void write_all(struct pcap_call *call, struct anonymizer *w)
{
        struct session_options options = { .keep_data = false };
        struct trace_totals totals;
        struct args args = *call->args;

        args.source.trace.data = true;
        call->args = &args;
        (void)pcap_sessions(call, &options, on_record, w, &totals);
        call->args = w->args;
        if (w->written == 0 && !*call->err)
                snprintf(call->err, sizeof(call->err), "%s: contains no NVMe connection to write",
                         call->file);
        if (w->no_memory && !*call->err)
                snprintf(call->err, sizeof(call->err), "out of memory");
}

int pcap_anonymize(struct pcap_call *call)
{
        struct anonymizer w = { .args = call->args };
        struct output o;
        bool written;

        if (!call->args->to) {
                fputs("nvmfspec pcap anonymize: no output given: use --to\n", stderr);
                return PCAP_USAGE;
        }
        if (!make_key(call->args, &w.scrub)) {
                snprintf(call->err, sizeof(call->err), "no random key: %s", strerror(errno));
                return PCAP_UNREADABLE;
        }
        if (!output_begin(&o, call->file, call->args->to, call->err, sizeof(call->err)))
                return PCAP_UNREADABLE;
        w.out = capture_writer_open(o.path, call->err, sizeof(call->err));
        if (w.out)
                write_all(call, &w);
        bytes_free(&w.message);
        written = w.out && capture_writer_close(w.out) == 0;
        if (!output_end(&o, written && w.written > 0 && !w.no_memory) || !written)
                if (!*call->err)
                        snprintf(call->err, sizeof(call->err), "%s: %s", call->args->to,
                                 strerror(errno));
        return PCAP_OK;
}
