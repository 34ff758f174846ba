/* SPDX-License-Identifier: BSD-3-Clause */
/* The words that only RDMA has, and how the others send over it. */
#include <errno.h>
#include <string.h>

#include "case_rdma.h"
#include "conn_rdma.h"
#include "pdu/nvme/wire/text.h"
#include "words.h"

enum { CAPSULE_MAX = 64 << 10, SQE_BYTES = sizeof(union sqe), PORT_TRIES = 5 };

struct conn_rdma *rdma_of(struct queue *q)
{
        struct conn_rdma *c = conn_rdma(q->conn);

        if (!c)
                broke(q->t, "a word of RDMA in a case that runs over TCP");
        return c;
}

bool is_rdma(const struct queue *q)
{
        return t_is_rdma(q->t);
}

bool is_iwarp(struct queue *q)
{
        return verbs_caps(rdma_of(q)->domain)->iwarp;
}

/* --- connections --------------------------------------------------------------------------- */

static struct rdma_group *group_of(struct t *t)
{
        const struct suite *s = t->suite;
        struct verbs_provider *p = s->recorder ? s->recorder : s->verbs;
        char error[RESULT_TEXT];

        if (!world(t)->rdma)
                world(t)->rdma = conn_rdma_group(p, t->test->id, error, sizeof(error));
        if (!world(t)->rdma)
                broke(t, "%s", error);
        return world(t)->rdma;
}

uint64_t cm_deadline(const struct t *t, unsigned ms)
{
        uint64_t scaled = t_scaled(t, ms), at = now_ms() + (scaled > CM_MS ? scaled : CM_MS);

        return at < t->deadline ? at : t->deadline;
}

/* A queue whose address is resolved. */
static struct queue *resolved_queue(struct t *t)
{
        const struct suite *s = t->suite;
        struct queue *q = new_queue(t);
        char error[RESULT_TEXT];
        struct suite_conn *c =
            conn_rdma_open(group_of(t), s->traddr, s->trsvcid, cm_deadline(t, REPLY_MS),
                           ++t->connections, &t->log, error, sizeof(error));

        if (!c) {
                broke_if_over(t);
                broke(t, "%s", error);
        }
        attach(q, c);
        return q;
}

static uint16_t or_else(int given, uint16_t otherwise)
{
        return given == AS_FITS ? otherwise : (uint16_t)given;
}

static struct rdma_request request_of(struct t *t, const struct queue *admin,
                                      const struct rdma_setup *s)
{
        uint16_t qid = or_else(s->qid, 0);
        uint16_t hsqsize = or_else(s->hsqsize, fitting_sqsize(t, qid, 31));

        if (s->data)
                return *s->data;
        return (struct rdma_request) {
                .recfmt = le16((uint16_t)s->recfmt),
                .qid = le16(qid),
                .hrqsize = le16(or_else(s->hrqsize, (uint16_t)(hsqsize + (hsqsize < 0xffff)))),
                .hsqsize = le16(hsqsize),
                .cntlid = le16(or_else(s->cntlid, admin && qid > 0 ? admin->cntlid : 0)),
        };
}

struct rdma_request private_data(struct t *t)
{
        return request_of(t, NULL, &(struct rdma_setup) { RDMA_DEFAULTS });
}

static uint8_t reads(int given, uint8_t of_device)
{
        return given == AS_FITS ? of_device : (uint8_t)given;
}

/* 0, or -1 with errno. */
static int request(struct queue *q, struct queue *admin, const struct rdma_setup *s, char *error,
                   size_t size)
{
        struct t *t = q->t;
        struct rdma_request r = request_of(t, admin, s);
        struct conn_rdma *c = rdma_of(q);
        const struct verbs_caps *device = verbs_caps(c->domain);
        uint16_t entries = le16_get(r.hrqsize) < 2048 ? le16_get(r.hrqsize) : 2048;
        uint8_t data[VERBS_PRIVATE_MAX] = { 0 };
        struct verbs_conn_param p = {
                .data = data,
                .len = (uint8_t)(s->len == AS_FITS ? (int)sizeof(r) : s->len),
                .reads_in = reads(s->reads_in, device->reads_in),
                .reads_out = reads(s->reads_out, 0),
                .rnr_retry = (uint8_t)s->rnr_retry,
                .retry = 7,
        };

        memcpy(data, &r, sizeof(r));
        q->admin = admin;
        c->mute = s->mute;
        c->base.admin = le16_get(r.qid) == 0;
        if (caps(t)->io && c->track)
                rdma_track_format(c->track, caps(t)->in_capsule, caps(t)->icdoff, caps(t)->msdbd);
        return conn_rdma_connect(c, &p, s->receives == AS_FITS ? entries : (unsigned)s->receives,
                                 error, size);
}

/* The port that RDMA_CM chose may be a TCP connection's that has just ended, which it does not know
 * and iWARP stumbles over: then another one. */
struct queue *rdma_request_queue(struct t *t, struct queue *admin, struct rdma_setup s)
{
        char error[RESULT_TEXT];
        struct queue *q;

        for (int tries = 0; tries < PORT_TRIES; tries++) {
                q = resolved_queue(t);
                if (request(q, admin, &s, error, sizeof(error)) == 0)
                        return q;
                if (errno != EADDRNOTAVAIL)
                        break;
        }
        broke(t, "%s", error);
}

struct queue *rdma_ready(struct t *t, struct queue *admin, uint16_t qid, uint16_t sqsize)
{
        struct queue *q = rdma_request_queue(
            t, admin, (struct rdma_setup) { RDMA_DEFAULTS, .qid = qid, .hsqsize = sqsize });

        (void)expect_accept(q);
        return q;
}

static void decided(struct queue *q, const char *expected)
{
        if (!conn_rdma_decided(rdma_of(q), cm_deadline(q->t, REPLY_MS))) {
                broke_if_over(q->t);
                harm(q->t, expected, "the connect request is not answered");
        }
        q->t->busy = reject_status(q) == RDMA_REJECT_RESOURCES;
        t_settle(q->t);
}

/* The connect request came to nothing: what is said of it. */
static void describe_end(struct queue *q, char *buf, size_t size)
{
        const struct conn_rdma *c = rdma_of(q);
        struct rdma_reject r;

        if (c->base.end != CONN_REJECTED)
                snprintf(buf, size, "the connection could not be made");
        else if (rdma_reject_read(c->answer.data, c->answer.len, &r))
                snprintf(buf, size, "rejected with STS %u (%s)", le16_get(r.sts),
                         rdma_reject_name(le16_get(r.sts)));
        else
                snprintf(buf, size, "rejected by RDMA_CM (reason %d)", c->answer.reason);
}

struct accept expect_accept(struct queue *q)
{
        const struct conn_rdma *c = rdma_of(q);
        struct accept a = { 0 };
        char seen[120];

        decided(q, "the connect request is accepted");
        if (!c->established) {
                describe_end(q, seen, sizeof(seen));
                fail(q->t, "the connect request is accepted", "%s", seen);
        }
        (void)rdma_accept_read(c->answer.data, c->answer.len, &a.data);
        a.len = c->answer.len;
        a.reads_in = c->answer.reads_in;
        a.reads_out = c->answer.reads_out;
        return a;
}

bool expect_decision(struct queue *q)
{
        provoke(q);
        decided(q, "the connect request is accepted or rejected");
        if (!rdma_of(q)->established)
                q->over = true;
        return rdma_of(q)->established;
}

struct accept accepted_or_skip(struct queue *q, const char *why)
{
        require(q->t, expect_decision(q) || reject_status(q) == RDMA_REJECT_RESOURCES, "%s", why);
        return expect_accept(q);
}

uint16_t reject_status(struct queue *q)
{
        const struct conn_rdma *c = rdma_of(q);
        struct rdma_reject r;

        return c->base.end == CONN_REJECTED && rdma_reject_read(c->answer.data, c->answer.len, &r)
                   ? le16_get(r.sts)
                   : 0;
}

void expect_reject(struct queue *q)
{
        const struct conn_rdma *c = rdma_of(q);
        char expected[RESULT_TEXT], seen[120];

        provoke(q);
        reaction_says(rule_get(q->t->rule), expected, sizeof(expected));
        decided(q, expected);
        if (c->established)
                fail(q->t, expected, "the connect request is accepted");
        q->over = true;
        describe_end(q, seen, sizeof(seen));
        if (c->base.end != CONN_REJECTED || !rule_accepts(q->t->rule, reject_status(q), 0, 0))
                lenient(q->t, expected, "%s", seen);
}

void prefer_reject(struct queue *q)
{
        if (!expect_decision(q))
                return;
        prefer_refusal(q, send_connect(q));
}

void drop(struct queue *q)
{
        rst(q);
}

void vanish(struct queue *q)
{
        provoke(q);
        conn_rdma_vanish(rdma_of(q));
        q->over = true;
}

void expect_disconnect(struct queue *q, unsigned ms)
{
        uint64_t deadline = cm_deadline(q->t, ms);
        char expected[80];

        snprintf(expected, sizeof(expected),
                 "RDMA_CM reports the end of the connection within %llu ms",
                 (unsigned long long)(deadline - now_ms()));
        provoke(q);
        if (!conn_rdma_disconnected(rdma_of(q), deadline)) {
                broke_if_over(q->t);
                if (is_silent(q))
                        harm(q->t, expected, "nothing, and a command has no answer");
                fail(q->t, expected, "nothing is received");
        }
        q->over = true;
}

/* --- memory -------------------------------------------------------------------------------- */

static struct region *new_region(struct queue *q, uint32_t len, unsigned access, bool canary)
{
        char error[RESULT_TEXT];
        struct region *r = region_new(rdma_of(q), len, access, canary, error, sizeof(error));

        if (!r)
                broke(q->t, "%s", error);
        return r;
}

static struct buffer buffer_of_region(struct region *r)
{
        return (struct buffer) { r->data, r->len, region_key(r), r };
}

struct buffer data_buffer(struct queue *q, uint32_t len, uint32_t offset)
{
        struct region *r = new_region(q, len, VERBS_REMOTE_READ, false);

        memcpy(r->data, (const uint8_t *)pattern(q->t, offset + len) + offset, len);
        return buffer_of_region(r);
}

struct buffer fill_buffer(struct queue *q, uint32_t len)
{
        return buffer_of_region(new_region(q, len, VERBS_REMOTE_WRITE, true));
}

struct buffer buffer_with(struct queue *q, uint32_t len, unsigned access)
{
        return buffer_of_region(new_region(q, len, access, true));
}

struct buffer window_buffer(struct queue *q, uint32_t len, unsigned access)
{
        struct region *r;

        require(q->t, verbs_caps(rdma_of(q)->domain)->windows,
                "the device does not support "
                "memory windows");
        r = new_region(q, len, VERBS_WINDOWS, true);
        if (region_bind(rdma_of(q), r, access) != 0)
                broke(q->t, "no memory window: %s", strerror(errno));
        return buffer_of_region(r);
}

void host_write(struct queue *q, uint64_t addr, uint32_t key)
{
        exchange_cm(&q->t->log, q->conn->no, true, "RDMA WRITE of 8 bytes to %llXh, key %08Xh",
                    (unsigned long long)addr, key);
        provoke(q);
        if (conn_rdma_write(rdma_of(q), addr, key) != 0)
                broke(q->t, "the WRITE cannot be posted: %s", strerror(errno));
}

void revoke_key(struct buffer *b)
{
        region_revoke(b->region);
}

bool is_untouched(const struct buffer *b, uint32_t offset, uint32_t n)
{
        return region_untouched(b->region, offset, n);
}

void want_untouched(struct t *t, const struct buffer *b, uint32_t offset, uint32_t n)
{
        char expected[80];

        snprintf(expected, sizeof(expected), "bytes %u to %u are not written", offset,
                 offset + n - 1);
        want(t, is_untouched(b, offset, n), expected, "they are written");
}

void rdma_look_once_more(struct t *t)
{
        for (struct queue *q = world(t)->queues; q; q = q->next) {
                conn_rdma_look(rdma_of(q));
                conn_rdma_check(rdma_of(q));
        }
}

void rdma_end(struct t *t)
{
        if (world(t)->rdma)
                conn_rdma_group_free(world(t)->rdma);
        world(t)->rdma = NULL;
}

/* Bytes up to the last one that is no canary any more, in fours. */
static uint32_t written(const struct region *r)
{
        uint32_t n = (r->len + 3) / 4 * 4;

        while (n > 0 && region_untouched(r, n - 4, n <= r->len ? 4 : r->len % 4))
                n -= 4;
        return n < r->len ? n : r->len;
}

uint32_t rdma_written(const struct command *c)
{
        return c->region && c->region->canary ? written(c->region) : 0;
}

void rdma_collect(struct queue *q, struct command *c)
{
        struct region *r = c->region;

        (void)q;
        if (!r || !r->canary || !r->answer)
                return;
        c->in = r->answer;
        c->got = written(r);
}

/* --- descriptors --------------------------------------------------------------------------- */

static struct sgl keyed_sgl(uint64_t addr, uint32_t len, uint32_t key, bool invalidate)
{
        struct sgl s;

        sgl_put_keyed(&s, &(struct rdma_buffer) { addr, len, key, invalidate });
        return s;
}

struct sgl keyed_as(struct buffer b, uint32_t len, uint32_t key)
{
        return keyed_sgl((uintptr_t)b.data, len, key, false);
}

struct sgl keyed(struct buffer b)
{
        return keyed_as(b, b.len, b.key);
}

struct sgl keyed_part(struct buffer b, uint32_t offset, uint32_t len)
{
        return keyed_sgl((uintptr_t)b.data + offset, len, b.key, false);
}

struct sgl keyed_invalidate(struct buffer b)
{
        return keyed_sgl((uintptr_t)b.data, b.len, b.key, true);
}

struct sgl in_capsule(uint64_t offset, uint32_t len)
{
        struct sgl s;

        sgl_put_in_capsule(&s, offset, len);
        return s;
}

struct sgl last_segment(uint64_t offset, uint32_t len)
{
        return typed(in_capsule(offset, len), SGL_LAST_IN_CAPSULE);
}

struct sgl typed(struct sgl s, uint8_t id)
{
        s.id = id;
        return s;
}

/* --- capsules ------------------------------------------------------------------------------ */

static void check_posted(struct queue *q, bool posted)
{
        if (!posted)
                broke_if_over(q->t);
        if (!posted)
                harm(q->t, "the target receives what is sent to it", "SENDs are not acknowledged");
        t_settle(q->t);
}

static void post(struct queue *q, const void *capsules, uint32_t len, unsigned n)
{
        check_posted(q, conn_rdma_send(rdma_of(q), capsules, len, n, t_deadline(q->t, REPLY_MS)));
}

/* A whole capsule goes out, changed as asked. */
static void send_sqe(struct queue *q, struct command *c, uint8_t *capsule, uint32_t len,
                     const char *how)
{
        char remark[128];
        struct text t = text_in(remark, sizeof(remark));
        struct message m = { .kind = MESSAGE_COMMAND, .sqe = c->sqe };
        bool changed = conn_apply_changes(q->conn, &m, &t);

        if (q->conn->bad_field)
                broke(q->t, "a change names a field that the SQE does not have");
        text_add(&t, "%s%s", t.len > 0 && *how ? ", " : "", how);
        memcpy(capsule, &m.sqe, len < SQE_BYTES ? len : SQE_BYTES);
        conn_log(q->conn, true, &m, len > SQE_BYTES ? len - SQE_BYTES : 0, remark);
        conn_rdma_track(rdma_of(q), changed || len < SQE_BYTES ? NULL : capsule, len);
        post(q, capsule, len, 1);
}

static bool fits_capsule(struct queue *q, const struct command *c, const struct transfer *x)
{
        return x->in_capsule && c->xfer == XFER_H2C && !q->conn->admin && x->sgl_len < 0 &&
               x->bytes <= caps(q->t)->in_capsule;
}

static uint32_t in_capsule_at(struct queue *q)
{
        return SQE_BYTES + caps(q->t)->icdoff * 16u;
}

/* Memory for the command's data, and the descriptor of it. */
static void describe_by_key(struct queue *q, struct command *c, const struct transfer *x)
{
        uint32_t len = x->sgl_len >= 0 ? (uint32_t)x->sgl_len : x->bytes;
        bool c2h = c->xfer == XFER_C2H;

        c->region = new_region(q, c->bytes, c2h ? VERBS_REMOTE_WRITE : VERBS_REMOTE_READ, c2h);
        c->region->cid = c->cid;
        c->region->whole = c2h ? c->least : 0;
        if (!c2h)
                memcpy(c->region->data, c->data, x->bytes);
        c->sqe.sgl =
            keyed_sgl((uintptr_t)c->region->data, len < SGL_KEYED_MAX ? len : SGL_KEYED_MAX,
                      c->region->mr.rkey, false);
}

static void submit_plainly(struct queue *q, struct command *c, const struct transfer *x)
{
        bool within = fits_capsule(q, c, x);
        uint32_t at = within ? in_capsule_at(q) : SQE_BYTES, len = at + (within ? x->bytes : 0);
        uint8_t *capsule = t_alloc(q->t, len);

        if (within)
                c->sqe.sgl = in_capsule(0, x->bytes);
        else if (c->xfer != XFER_NONE)
                describe_by_key(q, c, x);
        else
                c->sqe.sgl = keyed_sgl(0, 0, 0, false);
        if (within)
                memcpy(capsule + at, c->data, x->bytes);
        send_sqe(q, c, capsule, len, "");
}

static void submit_by_hand(struct queue *q, struct command *c, const struct by_hand *m)
{
        uint32_t at = m->count > 0 || m->len > 0 ? in_capsule_at(q) : SQE_BYTES;
        uint32_t more = m->count > 0 ? m->count * (uint32_t)sizeof(struct sgl) : m->len;
        uint32_t len = m->capsule >= 0 ? (uint32_t)m->capsule : at + more;
        uint8_t *capsule = t_alloc(q->t, (size_t)at + more + len);
        char how[64];

        provoke(q);
        c->by_hand = true;
        c->sqe.sgl = m->sgl;
        if (more > 0)
                memcpy(capsule + at, m->count > 0 ? (const void *)m->list : m->behind, more);
        snprintf(how, sizeof(how), "%u bytes, followed by %u descriptors", len, m->count);
        send_sqe(q, c, capsule, len, how);
}

void rdma_submit(struct queue *q, struct command *c, const struct transfer *x)
{
        if (q->over)
                return;
        if (x->hand)
                submit_by_hand(q, c, x->hand);
        else
                submit_plainly(q, c, x);
}

void send_capsule(struct queue *q, const void *bytes, uint32_t n)
{
        if (q->over)
                return;
        provoke(q);
        exchange_cm(&q->t->log, q->conn->no, true, "%u bytes as they are", n);
        conn_rdma_track(rdma_of(q), NULL, 0);
        post(q, bytes, n, 1);
}

uint16_t send_sized(struct queue *q, uint8_t opc, uint32_t n)
{
        return send_cmd(q, .opc = opc, .nsid = q->conn->admin ? 0 : caps(q->t)->nsid,
                        .sgl = HAND(keyed_sgl(0, 0, 0, false), .capsule = n));
}

uint16_t send_burst(struct queue *q, unsigned n)
{
        uint8_t *capsules = t_alloc(q->t, (size_t)n * SQE_BYTES);
        uint16_t first = 0;

        for (unsigned i = 0; i < n; i++) {
                struct command *c = t_alloc(q->t, sizeof(*c));

                *c = block_read(q);
                q->commands = c;
                describe_by_key(q, c, &(struct transfer) { .bytes = c->bytes, .sgl_len = -1 });
                memcpy(capsules + (size_t)i * SQE_BYTES, &c->sqe, SQE_BYTES);
                conn_rdma_track(rdma_of(q), &c->sqe, SQE_BYTES);
                first = i == 0 ? c->cid : first;
        }
        exchange_cm(&q->t->log, q->conn->no, true, "%u Reads of a block, CID %u on", n, first);
        post(q, capsules, SQE_BYTES, n);
        return first;
}
