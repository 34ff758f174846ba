/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "pcap/trace/tracer.h"
#include "reader.h"

enum { OLD_MOST = 1024 /* bytes of a message of 2.10, as its samples have room for */ };

struct trace_flow {
        struct trace_conn conn;
        const struct doca_dialect *dialect;
        struct bytes in[2];
        bool lost[2];        /* nothing more of that side can be read */
        struct doca_end end; /* of the service, in the connection request that is outstanding */
        bool has_end;
};

/* --- whose it is -------------------------------------------------------------------------------- */

static enum trace_guess as_far_as(const uint8_t *p, size_t n, const uint8_t *expected, size_t len)
{
        if (memcmp(p, expected, n < len ? n : len) != 0)
                return TRACE_NO;
        return n < len ? TRACE_PERHAPS : TRACE_YES;
}

/* The first request of 3.0 and later is query_storage, which has nothing in it. */
static enum trace_guess begins_new(const uint8_t *p, size_t n)
{
        static const uint8_t query[] = { 0, 0, 0, 12, 0, 0, 0, 1 };

        return as_far_as(p, n, query, sizeof(query));
}

/* That of 2.10 is configure_data_path, whose two lengths agree. */
static enum trace_guess begins_old(const uint8_t *p, size_t n)
{
        enum { BLOB_AT = 20, FIXED = 24 };
        unsigned size = n >= 2 ? be16_at(p) : FIXED;

        if (size < FIXED || size > OLD_MOST || (n >= 3 && p[2] != 0) || (n >= 4 && p[3] != 1))
                return TRACE_NO;
        if (n < FIXED)
                return TRACE_PERHAPS;
        return be32_at(p + BLOB_AT) == size - FIXED ? TRACE_YES : TRACE_NO;
}

static enum trace_guess begins(const uint8_t *p, size_t n)
{
        enum trace_guess guess = begins_new(p, n);

        return guess == TRACE_NO ? begins_old(p, n) : guess;
}

/* --- messages ----------------------------------------------------------------------------------- */

/* 3.0 has one more number before its blob than 3.1 and later: only one reading fills the frame. */
static void guess_by_init(struct trace_flow *f, const uint8_t *p, size_t n)
{
        const struct doca_dialect *old = doca_dialect(DOCA_3_0);
        struct rule_set here = { 0 }, there = { 0 };
        struct doca_msg m;

        if (f->dialect->version != DOCA_3_2 || !doca_msg_read(old, p, n, PARTY_HOST, &m, &there) ||
            m.kind != DOCA_INIT || !rule_set_empty(&there))
                return;
        if (!doca_msg_read(f->dialect, p, n, PARTY_HOST, &m, &here) || !rule_set_empty(&here))
                f->dialect = old;
}

struct capture_end doca_address(const uint8_t gid[16])
{
        static const uint8_t v4[12] = { [10] = 0xff, [11] = 0xff };
        struct capture_end end = { .family = AF_INET6 };

        if (memcmp(gid, v4, sizeof(v4)) == 0) {
                end.family = AF_INET;
                gid += sizeof(v4);
        }
        memcpy(end.addr, gid, end.family == AF_INET ? 4 : 16);
        return end;
}

/* Both ends of a connection are known: what goes over it will be the family's. Its addresses need not be those of the
 * control channel. */
static void learn(struct tracer *t, struct trace_flow *f, const struct doca_end *target)
{
        const struct doca_end *service = &f->end;
        struct trace_pair pair = {
                .end = { doca_address(service->numbers.gid), doca_address(target->numbers.gid) },
                .qpn = { service->numbers.qpn, target->numbers.qpn },
                .psn = { service->numbers.psn, target->numbers.psn },
                .mtu = service->numbers.mtu < target->numbers.mtu ? service->numbers.mtu
                                                                  : target->numbers.mtu
        };

        (void)trace_learn(t, &f->conn, &pair);
}

static void take_ends(struct tracer *t, struct trace_flow *f, const struct doca_msg *m)
{
        struct doca_end target;

        if (m->kind == DOCA_CREATE)
                f->has_end = doca_end_read(m->data, &f->end) && !f->end.by_cm;
        if (m->kind == DOCA_CREATE_RSP && f->has_end && doca_end_read(m->data, &target) &&
            !target.by_cm)
                learn(t, f, &target);
        if (m->kind != DOCA_CREATE)
                f->has_end = false;
}

static void emit(struct tracer *t, struct trace_flow *f, enum trace_kind kind, enum party sender,
                 const struct trace_pdu *pdu)
{
        struct trace_event e = trace_event_of(t, &f->conn, kind, sender);

        e.pdu = pdu;
        trace_emit(t, &e);
}

static void take_frame(struct tracer *t, struct trace_flow *f, enum party sender, const uint8_t *p,
                       size_t n)
{
        struct trace_pdu pdu = { 0 };

        if (sender == PARTY_HOST)
                guess_by_init(f, p, n);
        pdu.dialect = f->dialect;
        (void)doca_msg_read(f->dialect, p, n, sender, &pdu.m, &pdu.found);
        emit(t, f, TRACE_PDU, sender, &pdu);
        take_ends(t, f, &pdu.m);
}

/* A size that is none: nothing that follows can be found. */
static void lose(struct tracer *t, struct trace_flow *f, enum party sender)
{
        struct trace_pdu pdu = { .dialect = f->dialect };

        rule_add(&pdu.found, sender == PARTY_HOST ? DOCA_SIZE_S : DOCA_SIZE_T);
        f->lost[sender] = true;
        emit(t, f, TRACE_FAULT, sender, &pdu);
}

/* No byte of a message says that it begins there. */
static void flow_gap(struct tracer *t, struct trace_flow *f, enum party sender, uint32_t n)
{
        f->lost[sender] = true;
        trace_gap(t, &f->conn, sender, (struct trace_gap) { .bytes = n });
}

static void flow_data(struct tracer *t, struct trace_flow *f, enum party sender, const uint8_t *p,
                      size_t n)
{
        struct bytes *b = &f->in[sender];
        size_t at = 0;
        uint64_t len;

        if (f->lost[sender])
                return;
        if (!bytes_add_within(&t->gathered, b, p, n)) {
                bytes_free_within(&t->gathered, b);
                flow_gap(t, f, sender, 0);
                return;
        }
        while ((len = doca_frame_len(f->dialect, b->p + at, b->n - at)) > 0 ||
               b->n - at >= f->dialect->frame.size_len) {
                if (!doca_frame_sane(f->dialect, len)) {
                        lose(t, f, sender);
                        break;
                }
                if (len > b->n - at)
                        break;
                take_frame(t, f, sender, b->p + at, (size_t)len);
                at += (size_t)len;
        }
        b->n -= at;
        if (b->n == 0)
                bytes_free_within(&t->gathered, b);
        else if (at > 0)
                memmove(b->p, b->p + at, b->n);
}

static void flow_close(struct tracer *t, struct trace_flow *f)
{
        trace_emit_kind(t, &f->conn, TRACE_CLOSED, PARTY_HOST);
        bytes_free_within(&t->gathered, &f->in[0]);
        bytes_free_within(&t->gathered, &f->in[1]);
        free(f);
}

/* What begins as 2.10 does has told so by its first bytes; the stream is opened before they are handed over. */
static struct trace_flow *flow_open(struct tracer *t, const struct capture_conn *c, bool begun)
{
        struct trace_flow *f = calloc(1, sizeof(*f));

        if (!f)
                return NULL;
        f->conn = (struct trace_conn) { .transport = TRACE_TCP,
                                        .end = { c->end[0], c->end[1] },
                                        .midstream = !begun,
                                        .whole_until = { UINT64_MAX, UINT64_MAX } };
        trace_open(t, &f->conn);
        return f;
}

static void first_data(struct tracer *t, struct trace_flow *f, enum party sender, const uint8_t *p,
                       size_t n)
{
        if (!f->dialect)
                f->dialect = doca_dialect(
                    sender == PARTY_HOST && n >= 4 && be16_at(p) > 0 ? DOCA_2_10 : DOCA_3_2);
        flow_data(t, f, sender, p, n);
}

const struct trace_stream doca_stream = { .begins = begins,
                                          .open = flow_open,
                                          .data = first_data,
                                          .gap = flow_gap,
                                          .close = flow_close };
