/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections over RDMA written again: each message as it was, in packets of our own. A transfer is
 * written when all of it has been seen, so that fields which lie across packets are replaced whole;
 * what is not all there becomes a gap.
 */
#include <stdlib.h>
#include <string.h>

#include "anonymize.h"
#include "pdu/io/capture/capture_rdma.h"

enum {
        MTU = 4096,      /* of what is written */
        READS_MAX = 256, /* outstanding ones of one side: what the CM can express */
        TRANSFER_MAX = 32 << 20,
};

struct read { /* that is asked for, and what has come of its answer */
        struct read *next;
        uint64_t addr;
        uint32_t key, len, number;
        struct bytes data;
};

struct rdma_copy {
        struct capture_rdma flow;
        struct bytes write[2]; /* the WRITE in hand, by sender */
        struct read *reads[2]; /* by who asked, oldest first */
        unsigned n_reads[2];
};

struct rdma_copy *rdma_copy_new(struct anonymizer *a, const struct trace_record *r)
{
        const struct trace_conn *conn = r->e->conn;
        struct sockaddr_storage host = anonymous_address(&a->scrub, &conn->end[PARTY_HOST]);
        struct sockaddr_storage controller =
            anonymous_address(&a->scrub, &conn->end[PARTY_CONTROLLER]);
        struct rdma_copy *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        c->flow.iwarp = conn->transport == TRACE_IWARP;
        c->flow.tcp.midstream = conn->midstream;
        capture_rdma_open(a->out, &c->flow, (struct sockaddr *)&host,
                          (struct sockaddr *)&controller, r->e->at.time_ns);
        return c;
}

static void drop_read(struct anonymizer *a, struct rdma_copy *c, enum party asker, struct read **at)
{
        struct read *r = *at;

        c->n_reads[asker]--;
        *at = r->next;
        bytes_free_within(&a->transfers, &r->data);
        free(r);
}

void rdma_copy_free(struct anonymizer *a, struct rdma_copy *c)
{
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++) {
                bytes_free_within(&a->transfers, &c->write[p]);
                while (c->reads[p])
                        drop_read(a, c, p, &c->reads[p]);
        }
        free(c);
}

/* --- connection management -------------------------------------------------------------------- */

static const struct {
        bool is_message;
        enum capture_cm_kind kind;
} messages[] = {
        [TRACE_REQUEST] = { true, CAPTURE_REQUEST },
        [TRACE_ACCEPT] = { true, CAPTURE_ACCEPT },
        [TRACE_REJECT] = { true, CAPTURE_REJECT },
        [TRACE_READY] = { true, CAPTURE_READY },
        [TRACE_DISCONNECT] = { true, CAPTURE_DISCONNECT },
        [TRACE_DISCONNECTED] = { true, CAPTURE_DISCONNECTED },
        [TRACE_WRITE] = { 0 }, /* the last one */
};

static void copy_message(struct anonymizer *a, struct rdma_copy *c, const struct trace_event *e)
{
        const struct trace_anonymize *f = e->conn->family->anonymize;
        const struct trace_cm *cm = &e->cm;
        bool private =
            e->kind == TRACE_REQUEST || e->kind == TRACE_ACCEPT || e->kind == TRACE_REJECT;
        struct capture_cm m = { .kind = messages[e->kind].kind };

        if (private) {
                m.reads_in = cm->reads_in;
                m.reads_out = cm->reads_out;
                m.depths = cm->depths;
                m.reason = cm->reason;
                m.data = cm->data;
                m.len = cm->len < f->private_data ? cm->len : f->private_data;
        }
        if (m.len > 0 && f->private_bytes) {
                a->message.n = 0;
                if (!bytes_add(&a->message, m.data, m.len)) {
                        a->no_memory = true;
                        return;
                }
                f->private_bytes(&a->scrub, e, a->message.p, m.len);
                m.data = a->message.p;
        }
        capture_rdma_cm(a->out, &c->flow, e->sender, &m, e->at.time_ns);
}

/* --- capsules --------------------------------------------------------------------------------- */

static void lose(struct rdma_copy *c, enum party sender, uint32_t bytes)
{
        uint32_t packets = bytes <= MTU ? 1 : (bytes - 1) / MTU + 1;

        capture_rdma_gap(&c->flow, sender, c->flow.iwarp ? bytes : packets);
}

/* With its acknowledgement, which tells a reader of half a capture whose packets are whose. */
static void copy_capsule(struct anonymizer *a, struct rdma_copy *c, const struct trace_record *r)
{
        const struct trace_event *e = r->e;
        const struct trace_capsule *cap = &e->capsule;
        struct iovec iov = { .iov_len = cap->len };
        uint32_t number;

        a->message.n = 0;
        if (cap->known < cap->len) {
                lose(c, e->sender, cap->len);
                return;
        }
        if (!bytes_add(&a->message, cap->data, cap->len)) {
                a->no_memory = true;
                return;
        }
        e->conn->family->anonymize->capsule(&a->scrub, r->record, a->message.p, cap->len);
        iov.iov_base = a->message.p;
        number = capture_rdma_send(a->out, &c->flow, e->sender, &iov, 1,
                                   cap->invalidates ? &cap->key : NULL, e->at.time_ns);
        capture_rdma_ack(a->out, &c->flow, peer_of(e->sender), number, CAPTURE_ACK, e->at.time_ns);
}

static void copy_terminate(struct anonymizer *a, struct rdma_copy *c, const struct trace_event *e)
{
        if (e->capsule.known == e->capsule.len)
                capture_rdma_terminate(a->out, &c->flow, e->capsule.data, e->capsule.len, e->sender,
                                       e->at.time_ns);
}

/* --- transfers -------------------------------------------------------------------------------- */

/* Adds a piece; one that does not go on where the last one ended spoils the whole, and so does one for which there is no
 * room. */
static void gather(struct anonymizer *a, struct bytes *to, const struct trace_memory *m)
{
        if (m->offset == 0)
                to->n = 0;
        if (to->n != m->offset || to->n + m->len > TRANSFER_MAX)
                return;
        if (!bytes_add_within(&a->transfers, to, m->data, m->len))
                bytes_free_within(&a->transfers, to);
}

static void scrub_transfer(struct anonymizer *a, const struct trace_record *r, struct bytes *data)
{
        if (data->n > 0)
                r->e->conn->family->anonymize->transfer(&a->scrub, r->record, data->p, data->n);
}

static void copy_write(struct anonymizer *a, struct rdma_copy *c, const struct trace_record *r)
{
        const struct trace_event *e = r->e;
        const struct trace_memory *m = &e->memory;
        struct bytes *data = &c->write[e->sender];
        struct iovec iov;
        uint32_t number;

        if (m->cut || data->n != m->len) {
                lose(c, e->sender, m->len);
        } else {
                scrub_transfer(a, r, data);
                iov = (struct iovec) { data->p, data->n };
                number = capture_rdma_write(a->out, &c->flow, e->sender, m->addr, m->key, &iov, 1,
                                            e->at.time_ns);
                capture_rdma_ack(a->out, &c->flow, peer_of(e->sender), number, CAPTURE_ACK,
                                 e->at.time_ns);
        }
        bytes_free_within(&a->transfers, data);
}

static void copy_read(struct anonymizer *a, struct rdma_copy *c, const struct trace_event *e)
{
        const struct trace_memory *m = &e->memory;
        struct read **end = &c->reads[e->sender], *r = calloc(1, sizeof(*r));

        if (!r) {
                a->no_memory = true;
                return;
        }
        *r = (struct read) { .addr = m->addr, .key = m->key, .len = m->len };
        r->number =
            capture_rdma_read(a->out, &c->flow, e->sender, m->addr, m->key, m->len, e->at.time_ns);
        while (*end)
                end = &(*end)->next;
        *end = r;
        if (++c->n_reads[e->sender] > READS_MAX)
                drop_read(a, c, e->sender, &c->reads[e->sender]);
}

/* Answers come in the order of the READs: those before it have none in the capture. */
static struct read **find_read(struct rdma_copy *c, const struct trace_event *e)
{
        struct read **at = &c->reads[peer_of(e->sender)];

        while (*at && ((*at)->addr != e->memory.addr || (*at)->key != e->memory.key))
                at = &(*at)->next;
        return at;
}

static void copy_answer(struct anonymizer *a, struct rdma_copy *c, const struct trace_record *r)
{
        const struct trace_event *e = r->e;
        struct read **at = find_read(c, e), *read = *at;
        struct iovec iov;

        if (!read)
                return;
        if (!e->memory.cut && read->data.n == read->len) {
                scrub_transfer(a, r, &read->data);
                iov = (struct iovec) { read->data.p, read->data.n };
                capture_rdma_answer(a->out, &c->flow, e->sender, read->number, &iov, 1,
                                    e->at.time_ns);
        } else if (c->flow.iwarp) {
                lose(c, e->sender, read->len);
        }
        drop_read(a, c, peer_of(e->sender), at);
}

/* --- all of them ------------------------------------------------------------------------------ */

void rdma_copy_record(struct anonymizer *a, struct rdma_copy *c, const struct trace_record *r)
{
        const struct trace_event *e = r->e;
        struct read **read;

        if (messages[e->kind].is_message)
                copy_message(a, c, e);
        else if (e->kind == TRACE_CAPSULE)
                copy_capsule(a, c, r);
        else if (e->kind == TRACE_TERMINATE)
                copy_terminate(a, c, e);
        else if (e->kind == TRACE_WRITE_DATA)
                gather(a, &c->write[e->sender], &e->memory);
        else if (e->kind == TRACE_WRITE)
                copy_write(a, c, r);
        else if (e->kind == TRACE_READ)
                copy_read(a, c, e);
        else if (e->kind == TRACE_READ_DATA && *(read = find_read(c, e)))
                gather(a, &(*read)->data, &e->memory);
        else if (e->kind == TRACE_READ_END)
                copy_answer(a, c, r);
        else if (e->kind == TRACE_GAP)
                capture_rdma_gap(&c->flow, e->sender,
                                 c->flow.iwarp ? e->gap.bytes : e->gap.packets);
        else if (e->kind == TRACE_CLOSED)
                capture_rdma_close(a->out, &c->flow, e->at.time_ns);
}
