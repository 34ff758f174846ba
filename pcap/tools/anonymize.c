/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A capture that may be shown: the NVMe connections of another one, what was said written anew with
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
#include "wirebytes.h"

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

static void open_flow(struct anonymizer *w, const struct record *r)
{
        const struct trace_conn *c = r->e->conn;
        struct sockaddr_storage host = anonymous_address(&w->scrub, &c->end[PARTY_HOST]);
        struct sockaddr_storage controller =
            anonymous_address(&w->scrub, &c->end[PARTY_CONTROLLER]);
        struct capture_flow *f;

        r->session->user = f = calloc(1, sizeof(*f));
        if (!f) {
                w->no_memory = true;
                return;
        }
        f->midstream = c->midstream;
        capture_flow_open(w->out, f, (struct sockaddr *)&host, (struct sockaddr *)&controller,
                          r->e->at.time_ns);
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
static void write_pdu(struct anonymizer *w, const struct record *r, struct capture_flow *f)
{
        const struct trace_pdu *p = r->e->pdu;
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
        capture_flow_data(w->out, f, r->e->sender, w->message.p, whole ? w->message.n : parts.data,
                          r->e->at.time_ns);
        if (!whole)
                f->seq[r->e->sender] += (uint32_t)(w->message.n - parts.data);
}

/* Of a header that cannot be believed what came of it, and the stream is lost. */
static void write_fault(struct anonymizer *w, const struct record *r, struct capture_flow *f)
{
        capture_flow_data(w->out, f, r->e->sender, r->e->pdu->h, r->e->pdu->header_len,
                          r->e->at.time_ns);
        f->seq[r->e->sender] += 4;
}

static void on_tcp(struct anonymizer *w, const struct record *r)
{
        struct capture_flow *f = r->session->user;

        if (!f)
                return;
        if (r->e->kind == TRACE_PDU)
                write_pdu(w, r, f);
        else if (r->e->kind == TRACE_FAULT)
                write_fault(w, r, f);
        else if (r->e->kind == TRACE_GAP)
                f->seq[r->e->sender] += r->e->gap.bytes ? (uint32_t)r->e->gap.bytes : 4;
        if (r->e->kind != TRACE_CLOSED)
                return;
        capture_flow_close(w->out, f, PARTY_HOST, false, r->e->at.time_ns);
        free(f);
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

static void begin(struct anonymizer *w, const struct record *r)
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
                begin(w, r);
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

        args.trace.data = true;
        call->args = &args;
        (void)pcap_records(call, &options, on_record, w, &totals);
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

        if (!call->args->to) {
                fputs("nvmfspec pcap anonymize: no output given: use --to\n", stderr);
                return PCAP_USAGE;
        }
        if (!make_key(call->args, &w.scrub)) {
                snprintf(call->err, sizeof(call->err), "no random key: %s", strerror(errno));
                return PCAP_UNREADABLE;
        }
        w.out = capture_writer_open(call->args->to, call->err, sizeof(call->err));
        if (!w.out)
                return PCAP_UNREADABLE;
        write_all(call, &w);
        bytes_free(&w.message);
        if (capture_writer_close(w.out) < 0 && !*call->err)
                snprintf(call->err, sizeof(call->err), "%s: %s", call->args->to, strerror(errno));
        return PCAP_OK;
}
