/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma_controller.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/nvme/machine/spoil.h"
#include "pdu/nvme/machine/tags.h"
#include "pdu/nvme/wire/fabrics.h"

enum {
        FIRST_REQUESTS = 8, /* until Connect has come */
        SLAB_REQUESTS = 32,
        CONNECT_CAPSULE = sizeof(union sqe) + sizeof(struct connect_data),
};

struct rdma_cmd {
        struct request r;
        struct rdma_controller *queue;
        bool tracked;           /* its CID finds it */
        bool withdrawn;         /* completed by the owner while its data was arriving */
        bool invalidate;        /* the host asks for it, of invalid_key */
        uint8_t pieces;         /* of the data, one work request each */
        uint8_t asked, arrived; /* READs: chained, completed */
        uint8_t writes;         /* chained with the response */
        uint8_t response_len;   /* bytes */
        bool early;             /* the response goes before them */
        uint32_t invalid_key;
        uint32_t wire_len;         /* bytes that move: len, or what a short SGL has room for */
        uint32_t buffer_len, lkey; /* bytes, 0: none */
        uint8_t *buffer;           /* got from the owner */
        struct verbs_wr *piece;    /* &one, or memory of their own where there are more */
        struct verbs_wr one, response;
        struct cqe *capsule; /* of the response, where it does not go inline */
        uint32_t capsule_lkey;
        unsigned block; /* of how many it is the first, all got at once; 0: it is not the first */
};

/* The submission queue as SQHD shows it: counted without end, on the wire modulo its size. */
struct queue {
        uint32_t received, head;
        unsigned outstanding; /* their responses are not posted */
        bool no_flow_control;
};

struct rdma_controller {
        struct rdma_controller_config cfg;
        struct rdma_controller_ops ops;
        void *user;
        const struct rule_set *waived, *violated; /* NULL: none */

        struct request_pool pool;
        struct request_list responses, reads, writes; /* wait for room */
        struct request_list need_buffer;
        struct rdma_recv *stalled, **stalled_last; /* wait for a free request */
        struct verbs_wr *chain, **chain_last;
        uint32_t wrs_out, reads_out; /* chained or posted, not completed */
        unsigned executing;
        bool broken; /* a work request failed: no more is posted, others may still be out */
        bool ended;
        struct fault fault;
        struct queue sq;

        struct tags cids;
        struct rdma_cmd **by_cid; /* by slot of cids */
        unsigned depth;           /* the queue's entries */
};

/* --- requests --------------------------------------------------------------------------------- */

static struct rdma_cmd *of(struct request *r)
{
        return (struct rdma_cmd *)r; /* its first member */
}

static void enter(struct rdma_cmd *q, enum request_state s)
{
        struct rdma_controller *c = q->queue;

        q->r.state = s;
        if (c->ops.request.trace)
                c->ops.request.trace(c->user, &q->r);
}

static bool gone(const struct rdma_controller *c)
{
        return c->broken || c->ended || is_fault(c->fault);
}

static bool admin_queue(const struct rdma_controller *c)
{
        return c->cfg.format.admin;
}

static void put_buffer(struct rdma_cmd *q)
{
        struct rdma_controller *c = q->queue;

        if (q->buffer_len > 0)
                c->ops.request.buffer_put(c->user, q->buffer, q->buffer_len);
        q->buffer_len = 0;
        q->buffer = NULL;
}

static void free_pieces(struct rdma_cmd *q)
{
        if (q->piece != &q->one)
                free(q->piece);
        q->piece = &q->one;
}

/* Of two commands with one CID (RDMA_CMD_CID waived) only the first one is found by it. */
static void remember_command(struct rdma_cmd *q)
{
        struct rdma_controller *c = q->queue;
        uint16_t cid = le16_get(q->r.sqe.cid);

        c->sq.received++;
        c->sq.outstanding++;
        q->tracked = !c->waived || tags_find(&c->cids, cid) < 0;
        if (q->tracked)
                c->by_cid[tags_add(&c->cids, cid)] = q;
}

/* What comes with its CID from here on is another command. */
static void forget_command(struct rdma_cmd *q)
{
        struct rdma_controller *c = q->queue;

        c->sq.outstanding--;
        if (q->tracked)
                tags_free(&c->cids, tags_remove(&c->cids, le16_get(q->r.sqe.cid)));
        q->tracked = false;
}

/* Its work requests may still be named by late completions after the end. */
static void release(struct rdma_cmd *q)
{
        struct rdma_controller *c = q->queue;

        put_buffer(q);
        if (!c->ended)
                free_pieces(q);
        enter(q, REQUEST_COMPLETED);
        request_pool_put(&c->pool, &q->r);
}

static void end_silently(struct rdma_cmd *q)
{
        forget_command(q);
        release(q);
}

static struct rdma_cmd *take_request(struct rdma_controller *c, const union sqe *sqe)
{
        struct rdma_cmd *q = of(request_pool_take(&c->pool, sqe));

        q->withdrawn = q->invalidate = q->early = false;
        q->pieces = q->asked = q->arrived = q->writes = 0;
        q->response_len = sizeof(q->r.cqe);
        q->wire_len = 0;
        remember_command(q);
        enter(q, REQUEST_NEW);
        return q;
}

static bool responds_inline(const struct rdma_controller *c)
{
        return c->cfg.inline_bytes >= sizeof(struct cqe);
}

/* Room for the CIDs of n more requests. */
static int grow_cids(struct rdma_controller *c, unsigned n)
{
        struct rdma_cmd **by_cid =
            realloc(c->by_cid, (c->pool.count + n) * sizeof(struct rdma_cmd *));

        if (!by_cid)
                return -1;
        c->by_cid = by_cid;
        return tags_grow(&c->cids, c->pool.count + n);
}

/* False: without memory. */
static bool get_capsules(struct rdma_controller *c, unsigned n, struct cqe **capsules,
                         uint32_t *lkey)
{
        if (responds_inline(c))
                return true;
        *capsules = c->ops.response_memory(c->user, n * (uint32_t)sizeof(**capsules), lkey);
        return *capsules;
}

static void put_capsules(struct rdma_controller *c, struct cqe *capsules, unsigned n)
{
        if (capsules && n > 0)
                c->ops.response_memory_put(c->user, capsules, n * (uint32_t)sizeof(*capsules));
}

static void set_up(struct rdma_controller *c, struct rdma_cmd *q, struct cqe *capsule,
                   uint32_t lkey)
{
        q->queue = c;
        q->piece = &q->one;
        q->capsule = capsule;
        q->capsule_lkey = lkey;
}

static int add_requests(struct rdma_controller *c, unsigned n)
{
        struct cqe *capsules = NULL;
        struct request *r;
        uint32_t lkey = 0;

        if (grow_cids(c, n) < 0 || !get_capsules(c, n, &capsules, &lkey))
                return -1;
        r = request_pool_grow(&c->pool, n);
        if (!r) {
                put_capsules(c, capsules, n);
                return -1;
        }
        of(r)->block = n;
        for (unsigned i = 0; i < n; i++)
                set_up(c, of(r) + i, capsules ? capsules + i : NULL, lkey);
        return 0;
}

/* A host may answer a response with its next command before our completion of it is seen: there are
 * more than the queue has entries, but no more than can be on their way out. */
static bool request_to_be_had(struct rdma_controller *c)
{
        unsigned max = c->depth + c->cfg.send_wrs;

        return c->pool.free || (c->pool.count < max && c->pool.count + SLAB_REQUESTS <= TAGS_MAX &&
                                add_requests(c, SLAB_REQUESTS) == 0);
}

/* --- work requests ---------------------------------------------------------------------------- */

static uint32_t room(const struct rdma_controller *c)
{
        return c->cfg.send_wrs - c->wrs_out;
}

static void chain(struct rdma_controller *c, struct verbs_wr *wr)
{
        wr->next = NULL;
        *c->chain_last = wr;
        c->chain_last = &wr->next;
        c->wrs_out++;
}

static void forget_chain(struct rdma_controller *c)
{
        c->chain = NULL;
        c->chain_last = &c->chain;
}

static void forget_waiting(struct rdma_controller *c)
{
        request_list_init(&c->responses);
        request_list_init(&c->reads);
        request_list_init(&c->writes);
        request_list_init(&c->need_buffer);
}

static void wait_in(struct request_list *l, struct rdma_cmd *q, enum request_state s)
{
        enter(q, s);
        request_list_add(l, &q->r);
}

/* --- out: responses and controller to host data ----------------------------------------------- */

/* The work request whose completion says that all is out: the response, or (RDMA_WRITE_BEFORE,
 * RDMA_INV_EARLY broken) the WRITE that follows it. */
static struct verbs_wr *last_wr(struct rdma_cmd *q)
{
        return q->early && q->writes > 0 ? &q->piece[q->writes - 1] : &q->response;
}

/* The response shows the host how far its queue has been emptied. */
static void note_sqhd(struct rdma_controller *c, const struct request *r)
{
        uint16_t sqhd = le16_get(r->cqe.sqhd);

        if (r->sqe.opc == NVME_FABRICS && r->sqe.fctype == FCTYPE_CONNECT && !cqe_status(&r->cqe))
                c->sq.no_flow_control = sqhd == SQHD_DISABLED;
        if (!c->sq.no_flow_control && c->depth > 0)
                c->sq.head += (sqhd + c->depth - c->sq.head % c->depth) % c->depth;
}

static void set_sqhd(struct rdma_cmd *q)
{
        struct rdma_controller *c = q->queue;

        if (c->ops.request.sqhd)
                q->r.cqe.sqhd = le16(c->ops.request.sqhd(c->user, &q->r));
        note_sqhd(c, &q->r);
        if (c->violated)
                spoil_sqhd(c->violated, &q->r.sqe, &q->r.cqe);
}

static void chain_response(struct rdma_cmd *q)
{
        struct cqe *capsule = &q->r.cqe;

        set_sqhd(q);
        if (q->capsule) {
                *q->capsule = *capsule;
                capsule = q->capsule;
        }
        q->response = (struct verbs_wr) {
                .op = q->invalidate ? VERBS_SEND_INVALIDATE : VERBS_SEND,
                .flags = q->capsule ? 0 : VERBS_INLINE,
                .n_sge = 1,
                .sge = { { capsule, q->response_len, q->capsule_lkey } },
                .rkey = q->invalid_key,
                .user = q,
        };
        chain(q->queue, &q->response);
}

static void chain_writes(struct rdma_cmd *q)
{
        for (unsigned i = 0; i < q->writes; i++)
                chain(q->queue, &q->piece[i]);
}

/* WRITEs are not signaled: the response's completion comes when they have arrived. */
static void chain_answer(struct rdma_cmd *q)
{
        enter(q, REQUEST_READY_TO_COMPLETE);
        if (!q->early)
                chain_writes(q);
        chain_response(q);
        if (q->early)
                chain_writes(q);
        last_wr(q)->flags |= VERBS_SIGNALED;
}

/* False: it is not to be posted. */
static bool spoil_piece(struct rdma_cmd *q, unsigned i, bool last)
{
        struct verbs_wr *wr = &q->piece[i];
        struct spoil_transfer s = {
                .sqe = &q->r.sqe,
                .op = wr->op,
                .last = last,
                .addr = wr->remote,
                .key = wr->rkey,
                .len = wr->sge[0].len,
        };

        spoil_transfer(q->queue->violated, &s);
        wr->op = s.op;
        wr->remote = s.addr;
        wr->rkey = s.key;
        wr->sge[0].len = s.len;
        return !s.drop;
}

/* The last one of the WRITEs may not need all of its piece. */
static void prepare_writes(struct rdma_cmd *q)
{
        uint32_t left = q->r.c2h_len;

        for (; left > 0 && q->writes < q->pieces; q->writes++) {
                struct verbs_wr *wr = &q->piece[q->writes];

                wr->op = VERBS_WRITE;
                if (wr->sge[0].len > left)
                        wr->sge[0].len = left;
                left -= wr->sge[0].len;
        }
        if (q->queue->violated && q->writes > 0 && !spoil_piece(q, q->writes - 1u, true))
                q->writes--;
}

static bool answer_fits(const struct rdma_cmd *q)
{
        return room(q->queue) > q->writes;
}

static void respond(struct rdma_cmd *q)
{
        struct rdma_controller *c = q->queue;

        if (answer_fits(q))
                chain_answer(q);
        else
                wait_in(&c->responses, q, REQUEST_COMPLETION_PENDING);
}

static void write_and_respond(struct rdma_cmd *q)
{
        struct rdma_controller *c = q->queue;

        prepare_writes(q);
        if (!c->writes.first && answer_fits(q))
                chain_answer(q);
        else
                wait_in(&c->writes, q, REQUEST_C2H_PENDING);
}

static void describe_data(const struct rdma_cmd *q, struct rdma_data *data)
{
        *data = (struct rdma_data) { .count = q->pieces };
        for (unsigned i = 0; i < q->pieces; i++)
                data->keyed[i] = (struct rdma_buffer) {
                        .addr = q->piece[i].remote,
                        .len = q->piece[i].sge[0].len,
                        .key = q->piece[i].rkey,
                        .invalidate = q->invalidate,
                };
}

/* False: there is to be no response. */
static bool spoil_answer(struct rdma_cmd *q)
{
        const struct rule_set *violated = q->queue->violated;
        struct rdma_data data;
        struct spoil_response s = {
                .sqe = &q->r.sqe,
                .data = &data,
                .bytes = (uint8_t *)&q->r.cqe,
                .len = sizeof(q->r.cqe),
                .invalidate = q->invalidate,
                .key = q->invalid_key,
        };

        describe_data(q, &data);
        spoil_completion(violated, &q->r.sqe, &q->r.cqe, q->buffer, q->r.c2h_len);
        spoil_response(violated, &s);
        q->response_len = (uint8_t)s.len;
        q->invalidate = s.invalidate;
        q->invalid_key = s.key;
        q->early = s.early;
        return !s.drop;
}

/* r.cqe says how it ended. */
static void finish(struct rdma_cmd *q)
{
        struct rdma_controller *c = q->queue;
        struct request *r = &q->r;

        if (gone(c)) {
                end_silently(q);
                return;
        }
        request_seal(r, q->wire_len);
        if (c->ops.request.completing)
                c->ops.request.completing(c->user, r);
        if (r->no_response) {
                set_sqhd(q);
                end_silently(q);
                return;
        }
        if (c->violated && !spoil_answer(q)) {
                end_silently(q);
        } else if (r->c2h_len > 0) {
                write_and_respond(q);
        } else {
                put_buffer(q);
                respond(q);
        }
}

static void fail(struct rdma_cmd *q, uint16_t status)
{
        q->r.cqe = (struct cqe) { .sf = status_field(status) };
        finish(q);
}

/* --- in: execution ---------------------------------------------------------------------------- */

static void execute(struct rdma_cmd *q)
{
        struct rdma_controller *c = q->queue;

        enter(q, REQUEST_READY_TO_EXECUTE);
        enter(q, REQUEST_EXECUTING);
        c->executing++;
        c->ops.request.execute(c->user, &q->r);
}

/* --- in: host to controller data -------------------------------------------------------------- */

static uint32_t reads_max(const struct rdma_controller *c)
{
        return rule_in(c->violated, RDMA_READ_LIMIT) ? UINT32_MAX : c->cfg.reads;
}

static void chain_read(struct rdma_cmd *q)
{
        struct rdma_controller *c = q->queue;
        unsigned i = q->asked++;

        q->piece[i].op = VERBS_READ;
        q->piece[i].flags = VERBS_SIGNALED;
        if (c->violated && !spoil_piece(q, i, q->asked == q->pieces)) {
                q->arrived++;
                return;
        }
        c->reads_out++;
        chain(c, &q->piece[i]);
}

/* False: there are some left that found no room. */
static bool chain_reads(struct rdma_cmd *q)
{
        struct rdma_controller *c = q->queue;

        while (q->asked < q->pieces && room(c) > 0 && c->reads_out < reads_max(c))
                chain_read(q);
        return q->asked == q->pieces;
}

static void await_data(struct rdma_cmd *q)
{
        enter(q, REQUEST_TRANSFERRING_H2C);
        if (q->arrived == q->pieces) /* there is nothing to wait for */
                execute(q);
}

static void fetch(struct rdma_cmd *q)
{
        struct rdma_controller *c = q->queue;

        if (!c->reads.first && chain_reads(q))
                await_data(q);
        else
                wait_in(&c->reads, q, REQUEST_H2C_PENDING);
}

/* All that was asked for is there, and no more is to be asked for. */
static bool is_fetched(const struct rdma_cmd *q)
{
        return q->arrived == q->asked && (q->asked == q->pieces || q->withdrawn);
}

/* --- in: buffers ------------------------------------------------------------------------------ */

static bool get_buffer(struct rdma_cmd *q)
{
        struct rdma_controller *c = q->queue;
        uint8_t *at;

        at = c->ops.request.buffer_get(c->user, q->r.len, &q->lkey);
        if (!at)
                return false;
        q->r.data = q->buffer = at;
        q->buffer_len = q->r.len;
        for (unsigned i = 0; i < q->pieces; i++) {
                q->piece[i].sge[0].addr = at;
                q->piece[i].sge[0].lkey = q->lkey;
                at += q->piece[i].sge[0].len;
        }
        return true;
}

/* It has its buffer. */
static void transfer(struct rdma_cmd *q)
{
        if (q->r.xfer == XFER_C2H) {
                execute(q);
                return;
        }
        /* a short SGL was let pass: no byte of others' data in its place */
        if (q->wire_len < q->r.len)
                memset(q->buffer + q->wire_len, 0, q->r.len - q->wire_len);
        fetch(q);
}

static void obtain_buffer(struct rdma_cmd *q)
{
        struct rdma_controller *c = q->queue;

        if (!c->need_buffer.first && get_buffer(q))
                transfer(q);
        else
                wait_in(&c->need_buffer, q, REQUEST_NEED_BUFFER);
}

void rdma_controller_buffers(struct rdma_controller *c)
{
        struct request *r;

        while (!gone(c) && (r = c->need_buffer.first) && get_buffer(of(r))) {
                request_list_remove(&c->need_buffer, r);
                transfer(of(r));
        }
}

bool rdma_controller_needs_buffers(const struct rdma_controller *c)
{
        return !gone(c) && c->need_buffer.first;
}

/* --- in: capsules ----------------------------------------------------------------------------- */

static bool breaks(struct rdma_controller *c, bool broken, enum rule_id rule)
{
        if (!broken || rule_in(c->waived, rule))
                return false;
        c->fault = rule_fault(rule);
        return true;
}

static uint32_t capsule_max(const struct rdma_controller *c, const union sqe *sqe)
{
        uint32_t max = rdma_capsule_max(&c->cfg.format);

        if (!admin_queue(c) && sqe->opc == NVME_FABRICS && max < CONNECT_CAPSULE)
                return CONNECT_CAPSULE;
        return max;
}

/* As many commands are outstanding as the queue holds, and the host had to know it. */
static bool overruns(const struct rdma_controller *c)
{
        return c->sq.outstanding + 1 >= c->depth &&
               (c->sq.no_flow_control || c->sq.received - c->sq.head + 1 >= c->depth);
}

static bool is_refused(struct rdma_controller *c, const struct rdma_recv *rx, const union sqe *sqe)
{
        return breaks(c, rx->bytes > capsule_max(c, sqe), RDMA_CMD_LONG) ||
               breaks(c, tags_find(&c->cids, le16_get(sqe->cid)) >= 0, RDMA_CMD_CID) ||
               breaks(c, overruns(c), FAB_OVERRUN);
}

/* One work request for each descriptor that some of the data goes to or comes from. */
static bool lay_out(struct rdma_cmd *q, const struct rdma_data *data)
{
        uint32_t left = q->wire_len;

        if (data->count > 1)
                q->piece = malloc(data->count * sizeof(*q->piece));
        if (!q->piece) {
                q->piece = &q->one;
                return false;
        }
        for (unsigned i = 0; i < data->count && left > 0; i++) {
                const struct rdma_buffer *b = &data->keyed[i];
                uint32_t n = b->len < left ? b->len : left;

                if (n == 0)
                        continue;
                q->piece[q->pieces++] = (struct verbs_wr) {
                        .n_sge = 1,
                        .sge = { { .len = n } },
                        .remote = b->addr,
                        .rkey = b->key,
                        .user = q,
                };
                left -= n;
        }
        return true;
}

/* Where rules are waived the capsule may hold less than the command writes: then zeroes follow, as
 * far as the receive buffer goes. */
static uint16_t take_in_capsule(struct rdma_cmd *q, const struct rdma_data *data,
                                const struct rdma_recv *rx)
{
        const struct verbs_sge *sge = &rx->wr.sge[0];

        if (q->r.len > sge->len - data->offset)
                return NVME_SGL_LENGTH | STATUS_DNR;
        q->r.data = (uint8_t *)sge->addr + data->offset;
        q->r.in_place = true;
        memset(q->r.data + q->wire_len, 0, q->r.len - q->wire_len);
        return 0;
}

static uint16_t take_descriptors(struct rdma_cmd *q, const struct rdma_data *data)
{
        struct rdma_controller *c = q->queue;

        if (!lay_out(q, data))
                return NVME_INTERNAL_ERROR;
        q->invalidate = data->invalidate;
        q->invalid_key = data->invalidate_key;
        if (q->r.xfer == XFER_C2H && q->pieces >= c->cfg.send_wrs)
                return NVME_SGL_COUNT | STATUS_DNR;
        return q->r.xfer == XFER_H2C && reads_max(c) == 0 ? NVME_DATA_TRANSFER_ERROR : 0;
}

static uint16_t read_data(struct rdma_cmd *q, const struct rdma_recv *rx)
{
        struct rdma_controller *c = q->queue;
        struct rdma_data data;
        struct fault f;

        if (q->r.xfer == XFER_BOTH || q->r.len > c->cfg.max_transfer)
                return NVME_INVALID_FIELD | STATUS_DNR;
        f = rdma_data_read(rx->wr.sge[0].addr, rx->bytes, &c->cfg.format, q->r.xfer, q->r.len,
                           c->waived, &data);
        if (is_fault(f))
                return f.code | STATUS_DNR;
        q->wire_len = data.len < q->r.len ? data.len : q->r.len;
        if (data.in_capsule && q->r.xfer == XFER_H2C)
                return take_in_capsule(q, &data, rx);
        return take_descriptors(q, &data); /* none where RDMA_ICD_DIR is waived */
}

static uint16_t admit(struct rdma_cmd *q, const struct rdma_recv *rx)
{
        struct rdma_controller *c = q->queue;
        uint16_t status = c->ops.request.admit(c->user, &q->r);

        if (q->r.len == 0)
                q->r.xfer = XFER_NONE;
        if (!status && q->r.xfer != XFER_NONE)
                status = read_data(q, rx);
        return status;
}

static void start(struct rdma_cmd *q)
{
        if (q->r.xfer == XFER_NONE || q->r.in_place)
                execute(q);
        else
                obtain_buffer(q);
}

static void put_recv(struct rdma_controller *c, struct rdma_recv *rx)
{
        c->ops.recv_put(c->user, rx);
}

/* The receive goes back before the response is taken: the host may answer that at once. */
static void take_capsule(struct rdma_controller *c, struct rdma_recv *rx)
{
        struct rdma_cmd *q;
        union sqe sqe;
        uint16_t status;

        memcpy(&sqe, rx->wr.sge[0].addr, sizeof(sqe));
        if (!is_refused(c, rx, &sqe)) {
                q = take_request(c, &sqe);
                status = admit(q, rx);
                if (status)
                        fail(q, status);
                else
                        start(q);
        }
        put_recv(c, rx);
}

static void stall(struct rdma_controller *c, struct rdma_recv *rx)
{
        rx->next = NULL;
        *c->stalled_last = rx;
        c->stalled_last = &rx->next;
}

static struct rdma_recv *unstall(struct rdma_controller *c)
{
        struct rdma_recv *rx = c->stalled;

        c->stalled = rx->next;
        if (!c->stalled)
                c->stalled_last = &c->stalled;
        return rx;
}

static void take_stalled(struct rdma_controller *c)
{
        while (c->stalled && !gone(c) && request_to_be_had(c))
                take_capsule(c, unstall(c));
}

static void put_stalled(struct rdma_controller *c)
{
        while (c->stalled)
                put_recv(c, unstall(c));
}

/* RDMA_CMD_SHORT waived: there is no command in it, nothing happens. */
bool rdma_controller_received(struct rdma_controller *c, struct rdma_recv *rx)
{
        bool is_short = rx->bytes < sizeof(union sqe);

        if (gone(c) || breaks(c, is_short, RDMA_CMD_SHORT) || is_short)
                put_recv(c, rx);
        else if (c->stalled || !request_to_be_had(c))
                stall(c, rx);
        else
                take_capsule(c, rx);
        return is_fault(c->fault);
}

struct fault rdma_controller_fault(const struct rdma_controller *c)
{
        return c->fault;
}

/* --- completions ------------------------------------------------------------------------------ */

/* Work requests or READs have come back. */
static void go_on(struct rdma_controller *c)
{
        struct request *r;

        while ((r = c->responses.first) && room(c) > 0) {
                request_list_remove(&c->responses, r);
                chain_answer(of(r));
        }
        while ((r = c->reads.first) && chain_reads(of(r))) {
                request_list_remove(&c->reads, r);
                await_data(of(r));
        }
        while ((r = c->writes.first) && answer_fits(of(r))) {
                request_list_remove(&c->writes, r);
                chain_answer(of(r));
        }
}

static void answered(struct rdma_cmd *q)
{
        struct rdma_controller *c = q->queue;

        c->wrs_out -= 1u + q->writes;
        release(q);
        go_on(c);
}

/* What waits for room comes before the answer that this may lead to. */
static void data_arrived(struct rdma_cmd *q)
{
        struct rdma_controller *c = q->queue;
        bool fetched;

        c->reads_out--;
        c->wrs_out--;
        q->arrived++;
        fetched = is_fetched(q);
        go_on(c);
        if (fetched && q->withdrawn)
                finish(q);
        else if (fetched)
                execute(q);
}

/* The response is about to leave: what comes with its CID from now on is another command. */
static void posted(struct rdma_cmd *q)
{
        forget_command(q);
        enter(q, q->writes > 0 ? REQUEST_TRANSFERRING_C2H : REQUEST_COMPLETING);
}

struct verbs_wr *rdma_controller_take(struct rdma_controller *c)
{
        struct verbs_wr *first;

        take_stalled(c);
        first = c->chain;
        for (struct verbs_wr *wr = first; wr; wr = wr->next) {
                struct rdma_cmd *q = wr->user;

                if (wr == &q->response)
                        posted(q);
        }
        forget_chain(c);
        return first;
}

bool rdma_controller_wants_post(const struct rdma_controller *c)
{
        return c->chain || (c->stalled && c->pool.free && !gone(c));
}

/* After a failure nothing is given back before the queue pair is drained: completions of the others
 * may still come, in whatever order. */
bool rdma_controller_completed(struct rdma_controller *c, const struct verbs_wc *wc)
{
        struct rdma_cmd *q = wc->wr->user;

        if (wc->status != VERBS_SUCCESS && !c->broken) {
                c->broken = true;
                forget_chain(c);
        }
        if (c->broken || c->ended)
                return wc->status != VERBS_SUCCESS;
        if (wc->wr == last_wr(q))
                answered(q);
        else if (q->r.state < REQUEST_EXECUTING)
                data_arrived(q);
        return false;
}

/* --- the owner's side ------------------------------------------------------------------------- */

struct rdma_controller *rdma_controller_new(const struct rdma_controller_config *cfg,
                                            const struct rdma_controller_ops *ops, void *user)
{
        struct rdma_controller *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        c->cfg = *cfg;
        c->ops = *ops;
        c->user = user;
        c->depth = cfg->depth;
        if (cfg->policy && !rule_set_empty(&cfg->policy->waived))
                c->waived = &cfg->policy->waived;
        if (cfg->policy && !rule_set_empty(&cfg->policy->violated))
                c->violated = &cfg->policy->violated;
        forget_waiting(c);
        c->stalled_last = &c->stalled;
        forget_chain(c);
        c->pool = (struct request_pool) { .size = sizeof(struct rdma_cmd), .owner = user };
        if (add_requests(c, FIRST_REQUESTS) < 0) {
                rdma_controller_free(c);
                return NULL;
        }
        return c;
}

int rdma_controller_set_depth(struct rdma_controller *c, unsigned entries)
{
        c->depth = entries;
        return c->pool.count < entries ? add_requests(c, SLAB_REQUESTS) : 0;
}

static void end_request(struct request *r)
{
        if (r->state == REQUEST_FREE || r->state == REQUEST_EXECUTING)
                return;
        if (r->state < REQUEST_TRANSFERRING_C2H)
                forget_command(of(r));
        release(of(r));
}

void rdma_controller_end(struct rdma_controller *c)
{
        if (c->ended)
                return;
        c->ended = true;
        forget_chain(c);
        put_stalled(c);
        forget_waiting(c);
        request_pool_each(&c->pool, end_request);
}

static void put_request(struct request *r)
{
        struct rdma_cmd *q = of(r);

        put_buffer(q);
        free_pieces(q);
        put_capsules(q->queue, q->capsule, q->block);
}

void rdma_controller_free(struct rdma_controller *c)
{
        if (!c)
                return;
        assert(c->executing == 0);
        put_stalled(c);
        request_pool_each(&c->pool, put_request);
        request_pool_free(&c->pool);
        tags_fini(&c->cids);
        free(c->by_cid);
        free(c);
}

unsigned rdma_controller_executing(const struct rdma_controller *c)
{
        return c->executing;
}

/* A request that ends before its time: false if READs of it are out, so that its buffer has to
 * stay. */
static bool withdraw(struct rdma_cmd *q)
{
        struct rdma_controller *c = q->queue;

        if (q->r.state == REQUEST_NEED_BUFFER)
                request_list_remove(&c->need_buffer, &q->r);
        if (q->r.state == REQUEST_H2C_PENDING)
                request_list_remove(&c->reads, &q->r);
        q->withdrawn = q->asked > q->arrived;
        return !q->withdrawn;
}

void rdma_controller_complete(struct rdma_controller *c, struct request *r)
{
        struct rdma_cmd *q = of(r);

        if (r->state == REQUEST_EXECUTING) {
                c->executing--;
                enter(q, REQUEST_EXECUTED);
                finish(q);
        } else if (r->state < REQUEST_EXECUTING && withdraw(q)) {
                finish(q);
        }
}

/* Its answer has not been chained. */
static bool withdraw_answer(struct rdma_cmd *q)
{
        struct rdma_controller *c = q->queue;
        bool waits = q->r.state == REQUEST_C2H_PENDING || q->r.state == REQUEST_COMPLETION_PENDING;

        if (waits)
                request_list_remove(q->r.state == REQUEST_C2H_PENDING ? &c->writes : &c->responses,
                                    &q->r);
        return waits;
}

static void reset_request(struct request *r)
{
        struct rdma_cmd *q = of(r);

        if (r->state == REQUEST_FREE || r->sqe.opc == NVME_FABRICS)
                return;
        if (r->state < REQUEST_EXECUTING) {
                r->no_response = true;
                if (withdraw(q))
                        finish(q);
        } else if (withdraw_answer(q)) {
                set_sqhd(q);
                end_silently(q);
        }
}

void rdma_controller_reset(struct rdma_controller *c)
{
        request_pool_each(&c->pool, reset_request);
}

struct request *rdma_controller_request(struct rdma_controller *c, uint16_t cid)
{
        int slot = tags_find(&c->cids, cid);

        return slot < 0 ? NULL : &c->by_cid[slot]->r;
}
