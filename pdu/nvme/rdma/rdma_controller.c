/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma_controller.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/plant.h"
#include "pdu/nvme/machine/tags.h"
#include "pdu/nvme/wire/fabrics.h"
#include "spoil_rdma.h"

enum {
        CONNECT_CAPSULE = sizeof(union sqe) + sizeof(struct connect_data),
};

struct rdma_cmd {
        struct request r;
        bool tracked;           /* its CID finds it */
        bool invalidate;        /* the host asks for it, of invalid_key */
        uint8_t pieces;         /* of the data, one work request each */
        uint8_t asked, arrived; /* READs: chained, completed */
        uint8_t writes;         /* chained with the response */
        uint8_t response_len;   /* bytes */
        bool early;             /* the response goes before them */
        uint32_t invalid_key;
        struct verbs_wr *piece; /* &one, or memory of their own where there are more */
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
        struct requests requests;
        struct rdma_controller_config cfg;
        struct rdma_controller_ops ops;

        struct request_list responses, reads, writes; /* wait for room */
        const struct rdma_recv *rx;                   /* of the capsule in hand */
        struct rdma_recv *stalled, **stalled_last;    /* wait for a free request */
        struct verbs_wr *chain, **chain_last;
        uint32_t wrs_out, reads_out; /* chained or posted, not completed */
        bool broken; /* a work request failed: no more is posted, others may still be out */
        bool ended;
        struct fault fault;
        struct queue sq;

        struct tags cids;
        struct rdma_cmd **by_cid; /* by slot of cids */
};

/* --- requests --------------------------------------------------------------------------------- */

static struct rdma_cmd *cmd_of(struct request *r)
{
        return (struct rdma_cmd *)r; /* its first member */
}

static struct rdma_controller *queue_of(const struct rdma_cmd *q)
{
        return (struct rdma_controller *)q->r.queue; /* its first member, too */
}

static bool gone(const struct requests *q)
{
        const struct rdma_controller *c = (const struct rdma_controller *)q;

        return c->broken || c->ended || is_fault(c->fault);
}

static void free_pieces(struct rdma_cmd *q)
{
        if (q->piece != &q->one)
                free(q->piece);
        q->piece = &q->one;
}

/* Of two commands with one CID only the first one is found by it. Late
 * completions may have named its work requests until now. */
static void start_cmd(struct request *r)
{
        struct rdma_cmd *q = cmd_of(r);
        struct rdma_controller *c = queue_of(q);
        uint16_t cid = le16_get(r->sqe.cid);

        free_pieces(q);
        q->invalidate = q->early = false;
        q->pieces = q->asked = q->arrived = q->writes = 0;
        q->response_len = sizeof(r->cqe);
        c->sq.received++;
        c->sq.outstanding++;
        q->tracked = tags_find(&c->cids, cid) < 0;
        if (q->tracked)
                c->by_cid[tags_add(&c->cids, cid)] = q;
}

static struct request *find(const struct requests *q, uint16_t cid)
{
        const struct rdma_controller *c = (const struct rdma_controller *)q;
        int slot = tags_find(&c->cids, cid);

        return slot < 0 ? NULL : &c->by_cid[slot]->r;
}

/* What comes with its CID from here on is another command. */
static void release_cid(struct request *r)
{
        struct rdma_controller *c = queue_of(cmd_of(r));

        c->sq.outstanding--;
        if (cmd_of(r)->tracked)
                tags_free(&c->cids, tags_remove(&c->cids, le16_get(r->sqe.cid)));
}

/* Room for the CIDs of so many requests. */
static bool grow_cids(struct rdma_controller *c, unsigned count)
{
        struct rdma_cmd **by_cid = realloc(c->by_cid, count * sizeof(struct rdma_cmd *));

        if (by_cid)
                c->by_cid = by_cid;
        return by_cid && tags_grow(&c->cids, count) == 0;
}

/* Responses that do not go inline have registered memory. */
static bool grown(struct requests *requests, struct request *first, unsigned n)
{
        struct rdma_controller *c = (struct rdma_controller *)requests;
        struct cqe *capsules = NULL;
        struct rdma_cmd *q = cmd_of(first);
        uint32_t lkey = 0;

        if (requests->count + n > TAGS_MAX || !grow_cids(c, requests->count + n))
                return false;
        if (c->cfg.inline_bytes < sizeof(*capsules)) {
                capsules =
                    c->ops.response_memory(requests->user, n * (uint32_t)sizeof(*capsules), &lkey);
                if (!capsules)
                        return false;
                q->block = n;
        }
        for (unsigned i = 0; i < n; i++) {
                q[i].piece = &q[i].one;
                q[i].capsule = capsules ? capsules + i : NULL;
                q[i].capsule_lkey = lkey;
        }
        return true;
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

static void reset_chain(struct rdma_controller *c)
{
        c->chain = NULL;
        c->chain_last = &c->chain;
}

static void forget_waiting(struct rdma_controller *c)
{
        request_list_init(&c->responses);
        request_list_init(&c->reads);
        request_list_init(&c->writes);
        request_list_init(&c->requests.need_buffer);
}

/* --- out: responses and controller to host data ----------------------------------------------- */

/* The work request whose completion says that all is out: the response, or (RDMA_WRITE_BEFORE,
 * RDMA_INV_EARLY broken) the WRITE that follows it. */
static struct verbs_wr *last_wr(struct rdma_cmd *q)
{
        return q->early && q->writes > 0 ? &q->piece[q->writes - 1] : &q->response;
}

/* The response shows the host how far its queue has been emptied. */
static void note_sqhd(struct request *r)
{
        struct rdma_controller *c = queue_of(cmd_of(r));
        unsigned depth = r->queue->depth;
        uint16_t sqhd = le16_get(r->cqe.sqhd);

        if (sqe_is_connect(&r->sqe) && !cqe_status(&r->cqe))
                c->sq.no_flow_control = sqhd == SQHD_DISABLED;
        if (!c->sq.no_flow_control && depth > 0)
                c->sq.head += (sqhd + depth - c->sq.head % depth) % depth;
}

static void chain_response(struct rdma_cmd *q)
{
        struct cqe *capsule = &q->r.cqe;

        request_set_sqhd(&q->r);
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
        chain(queue_of(q), &q->response);
}

static void chain_writes(struct rdma_cmd *q)
{
        for (unsigned i = 0; i < q->writes; i++)
                chain(queue_of(q), &q->piece[i]);
}

/* WRITEs are not signaled: the response's completion comes when they have arrived. */
static void chain_answer(struct rdma_cmd *q)
{
        request_enter(&q->r, REQUEST_READY_TO_COMPLETE);
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

        spoil_transfer(q->r.queue->violated, &s);
        if (q->r.queue->faulty)
                q->r.queue->ops.faults->transfer(q->r.queue->user, &q->r, &s);
        wr->op = s.op;
        wr->remote = s.addr;
        wr->rkey = s.key;
        wr->sge[0].len = s.len;
        return !s.drop;
}

/* Its buffer is where the pieces come from or go to. */
static void aim_pieces(struct rdma_cmd *q)
{
        uint8_t *at = q->r.buffer;

        for (unsigned i = 0; i < q->pieces; i++) {
                q->piece[i].sge[0].addr = at;
                q->piece[i].sge[0].lkey = q->r.buffer_lkey;
                at += q->piece[i].sge[0].len;
        }
}

/* The last one of the WRITEs may not need all of its piece. */
static void prepare_writes(struct rdma_cmd *q)
{
        uint32_t left = q->r.c2h_len;

        aim_pieces(q);
        for (; left > 0 && q->writes < q->pieces; q->writes++) {
                struct verbs_wr *wr = &q->piece[q->writes];

                wr->op = VERBS_WRITE;
                if (wr->sge[0].len > left)
                        wr->sge[0].len = left;
                left -= wr->sge[0].len;
        }
        if ((q->r.queue->violated || q->r.queue->faulty) && q->writes > 0 &&
            !spoil_piece(q, q->writes - 1u, true))
                q->writes--;
}

static bool answer_fits(const struct rdma_cmd *q)
{
        return room(queue_of(q)) > q->writes;
}

static void answer(struct request *r)
{
        struct rdma_cmd *q = cmd_of(r);
        struct rdma_controller *c = queue_of(q);

        if (r->c2h_len > 0)
                prepare_writes(q);
        if (answer_fits(q) && (r->c2h_len == 0 || !c->writes.first))
                chain_answer(q);
        else if (r->c2h_len > 0)
                request_wait(r, &c->writes, REQUEST_C2H_PENDING);
        else
                request_wait(r, &c->responses, REQUEST_COMPLETION_PENDING);
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

static bool spoil(struct request *r)
{
        const struct rule_set *violated = r->queue->violated;
        struct rdma_cmd *q = cmd_of(r);
        struct rdma_data data;
        struct spoil_response s = {
                .sqe = &r->sqe,
                .data = &data,
                .bytes = (uint8_t *)&r->cqe,
                .len = sizeof(r->cqe),
                .invalidate = q->invalidate,
                .key = q->invalid_key,
        };

        describe_data(q, &data);
        spoil_completion(violated, &r->sqe, &r->cqe, r->buffer, r->c2h_len);
        spoil_response(violated, &s);
        if (r->queue->faulty)
                r->queue->ops.faults->response(r->queue->user, r, &s);
        q->response_len = (uint8_t)s.len;
        q->invalidate = s.invalidate;
        q->invalid_key = s.key;
        q->early = s.early;
        return !s.drop;
}

/* --- in: host to controller data -------------------------------------------------------------- */

/* A queue pair without any posts none, whatever rule is to be broken. */
static uint32_t reads_max(const struct rdma_controller *c)
{
        bool more = c->cfg.reads > 0 && rule_in(c->requests.violated, RDMA_READ_LIMIT);

        return more ? UINT32_MAX : c->cfg.reads;
}

static void chain_read(struct rdma_cmd *q)
{
        struct rdma_controller *c = queue_of(q);
        unsigned i = q->asked++;

        q->piece[i].op = VERBS_READ;
        q->piece[i].flags = VERBS_SIGNALED;
        if ((c->requests.violated || c->requests.faulty) &&
            !spoil_piece(q, i, q->asked == q->pieces)) {
                q->arrived++;
                return;
        }
        c->reads_out++;
        chain(c, &q->piece[i]);
}

/* False: there are some left that found no room. */
static bool chain_reads(struct rdma_cmd *q)
{
        struct rdma_controller *c = queue_of(q);

        while (q->asked < q->pieces && room(c) > 0 && c->reads_out < reads_max(c))
                chain_read(q);
        return q->asked == q->pieces;
}

static void await_data(struct rdma_cmd *q)
{
        request_enter(&q->r, REQUEST_TRANSFERRING_H2C);
        if (q->arrived == q->pieces) /* there is nothing to wait for */
                request_arrived(&q->r);
}

static void fetch(struct request *r)
{
        struct rdma_controller *c = queue_of(cmd_of(r));

        aim_pieces(cmd_of(r));
        if (!c->reads.first && chain_reads(cmd_of(r)))
                await_data(cmd_of(r));
        else
                request_wait(r, &c->reads, REQUEST_H2C_PENDING);
}

/* All that was asked for is there, and no more is to be asked for. */
static bool is_fetched(const struct rdma_cmd *q)
{
        return q->arrived == q->asked && (q->asked == q->pieces || q->r.withdrawn);
}

/* --- in: capsules ----------------------------------------------------------------------------- */

static bool breaks(struct rdma_controller *c, bool broken, enum rule_id rule)
{
        if (!broken || rule_in(c->requests.waived, rule))
                return false;
        c->fault = rule_fault(rule);
        return true;
}

static uint32_t capsule_max(const struct rdma_controller *c, const union sqe *sqe)
{
        uint32_t max = rdma_capsule_max(&c->cfg.format);

        if (!c->cfg.format.admin && sqe->opc == NVME_FABRICS && max < CONNECT_CAPSULE)
                return CONNECT_CAPSULE;
        return max;
}

enum rule_id rdma_controller_overrun(const struct rdma_controller *c)
{
        return c->sq.no_flow_control ? FAB_OUTSTANDING : FAB_OVERRUN;
}

/* As many commands are outstanding as the queue holds, and the host had to know it. */
static bool overruns(const struct rdma_controller *c)
{
        return c->sq.outstanding + 1 >= c->requests.depth &&
               (c->sq.no_flow_control || c->sq.received - c->sq.head + 1 >= c->requests.depth);
}

static bool is_refused(struct rdma_controller *c, const struct rdma_recv *rx, const union sqe *sqe)
{
        return breaks(c, rx->bytes > capsule_max(c, sqe), RDMA_CMD_LONG) ||
               breaks(c, overruns(c), rdma_controller_overrun(c));
}

/* One work request for each descriptor that some of the data goes to or comes from. */
static bool lay_out(struct rdma_cmd *q, const struct rdma_data *data)
{
        uint32_t left = q->r.wire_len;

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

        if (q->r.len > sge->len - data->offset && !PLANTED(RDMA_ICD_OFFSET))
                return NVME_SGL_LENGTH | STATUS_DNR;
        q->r.data = (uint8_t *)sge->addr + data->offset;
        q->r.in_place = true;
        memset(q->r.data + q->r.wire_len, 0, q->r.len - q->r.wire_len);
        return 0;
}

static uint16_t take_descriptors(struct rdma_cmd *q, const struct rdma_data *data)
{
        struct rdma_controller *c = queue_of(q);

        if (!lay_out(q, data))
                return NVME_INTERNAL_ERROR;
        q->invalidate = data->invalidate;
        q->invalid_key = data->invalidate_key;
        if (q->r.xfer == XFER_C2H && q->pieces >= c->cfg.send_wrs)
                return NVME_SGL_COUNT | STATUS_DNR;
        return q->r.xfer == XFER_H2C && reads_max(c) == 0 ? NVME_DATA_TRANSFER_ERROR : 0;
}

static uint16_t place(struct request *r)
{
        struct rdma_controller *c = queue_of(cmd_of(r));
        const struct rdma_recv *rx = c->rx;
        struct rdma_data data;
        struct fault f;

        f = rdma_data_read(rx->wr.sge[0].addr, rx->bytes, &c->cfg.format, r->xfer,
                           r->lax ? 0 : r->len, r->queue->waived, &data);
        if (is_fault(f))
                return f.code | STATUS_DNR;
        r->wire_len = data.len < r->len ? data.len : r->len;
        if (data.in_capsule && r->xfer == XFER_H2C)
                return take_in_capsule(cmd_of(r), &data, rx);
        return take_descriptors(cmd_of(r), &data); /* none where RDMA_ICD_DIR is waived */
}

static void put_recv(struct rdma_controller *c, struct rdma_recv *rx)
{
        c->ops.recv_put(c->requests.user, rx);
}

/* Command ID Conflict is a status, and hosts that leave use the CIDs of their AERs again. */
static bool collides(const struct rdma_controller *c, const union sqe *sqe)
{
        return tags_find(&c->cids, le16_get(sqe->cid)) >= 0 &&
               !rule_in(c->requests.waived, RDMA_CMD_CID);
}

/* The receive goes back before the response is taken: the host may answer that at once. */
static void take_capsule(struct rdma_controller *c, struct rdma_recv *rx)
{
        union sqe sqe;

        memcpy(&sqe, rx->wr.sge[0].addr, sizeof(sqe));
        c->rx = rx;
        if (!is_refused(c, rx, &sqe))
                requests_take(&c->requests, &sqe,
                              collides(c, &sqe) ? NVME_CID_CONFLICT | STATUS_DNR : 0);
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
        while (c->stalled && !gone(&c->requests) && requests_available(&c->requests))
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

        if (PLANTED(RDMA_RECV_TWICE) && is_short)
                put_recv(c, rx);
        if (gone(&c->requests) || breaks(c, is_short, RDMA_CMD_SHORT) || is_short)
                put_recv(c, rx);
        else if (c->stalled || !requests_available(&c->requests))
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
                chain_answer(cmd_of(r));
        }
        while ((r = c->reads.first) && chain_reads(cmd_of(r))) {
                request_list_remove(&c->reads, r);
                await_data(cmd_of(r));
        }
        while ((r = c->writes.first) && answer_fits(cmd_of(r))) {
                request_list_remove(&c->writes, r);
                chain_answer(cmd_of(r));
        }
}

static void answered(struct rdma_cmd *q)
{
        struct rdma_controller *c = queue_of(q);

        c->wrs_out -= 1u + q->writes;
        request_release(&q->r);
        go_on(c);
}

/* What waits for room comes before the answer that this may lead to. */
static void data_arrived(struct rdma_cmd *q)
{
        struct rdma_controller *c = queue_of(q);
        bool fetched;

        c->reads_out--;
        c->wrs_out--;
        q->arrived++;
        fetched = is_fetched(q);
        go_on(c);
        if (fetched)
                request_arrived(&q->r);
}

/* The response is about to leave: what comes with its CID from now on is another command. */
static void posted(struct rdma_cmd *q)
{
        request_release_cid(&q->r);
        request_enter(&q->r, q->writes > 0 ? REQUEST_TRANSFERRING_C2H : REQUEST_COMPLETING);
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
        reset_chain(c);
        return first;
}

bool rdma_controller_wants_post(const struct rdma_controller *c)
{
        return c->chain || (c->stalled && c->requests.free && !gone(&c->requests));
}

/* After a failure nothing is given back before the queue pair is drained: completions of the others
 * may still come, in whatever order. */
bool rdma_controller_completed(struct rdma_controller *c, const struct verbs_wc *wc)
{
        struct rdma_cmd *q = wc->wr->user;

        if (wc->status != VERBS_SUCCESS && !c->broken) {
                c->broken = true;
                reset_chain(c);
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

/* READs of it that are out keep its buffer where it is. */
static bool withdraw(struct request *r)
{
        struct rdma_controller *c = queue_of(cmd_of(r));
        bool writes = r->state == REQUEST_C2H_PENDING;

        if (r->state < REQUEST_EXECUTING) {
                if (r->state == REQUEST_H2C_PENDING)
                        request_list_remove(&c->reads, r);
                return cmd_of(r)->asked == cmd_of(r)->arrived || PLANTED(RDMA_ABORT_READ);
        }
        if (!writes && r->state != REQUEST_COMPLETION_PENDING)
                return false;
        request_list_remove(writes ? &c->writes : &c->responses, r);
        return true;
}

/* A host may answer a response with its next command before our completion of it is seen: there are
 * more requests than the queue has entries, but no more than can be on their way out. */
static const struct request_transport transport = {
        .size = sizeof(struct rdma_cmd),
        .granularity = 1,
        .gone = gone,
        .grown = grown,
        .begin = start_cmd,
        .find = find,
        .forget = release_cid,
        .place = place,
        .fetch = fetch,
        .spoil = spoil,
        .answer = answer,
        .withdraw = withdraw,
        .sqhd = note_sqhd,
};

struct rdma_controller *rdma_controller_new(const struct rdma_controller_config *cfg,
                                            const struct rdma_controller_ops *ops, void *user)
{
        struct rdma_controller *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        c->cfg = *cfg;
        c->ops = *ops;
        c->requests.max_transfer = cfg->max_transfer;
        c->requests.depth = cfg->depth;
        c->requests.extra = cfg->send_wrs;
        forget_waiting(c);
        c->stalled_last = &c->stalled;
        reset_chain(c);
        if (requests_init(&c->requests, &transport, &ops->request, user, cfg->policy) != 0) {
                rdma_controller_free(c);
                return NULL;
        }
        return c;
}

void rdma_controller_renew(struct rdma_controller *c)
{
        requests_set_policy(&c->requests, c->cfg.policy);
}

static void end_request(struct request *r)
{
        if (r->state != REQUEST_FREE && r->state != REQUEST_EXECUTING)
                request_release(r);
}

void rdma_controller_end(struct rdma_controller *c)
{
        if (c->ended)
                return;
        c->ended = true;
        reset_chain(c);
        put_stalled(c);
        forget_waiting(c);
        requests_each(&c->requests, end_request);
}

static void free_request(struct request *r)
{
        struct rdma_controller *c = queue_of(cmd_of(r));
        struct rdma_cmd *q = cmd_of(r);

        free_pieces(q);
        if (q->block > 0)
                c->ops.response_memory_put(c->requests.user, q->capsule,
                                           q->block * (uint32_t)sizeof(*q->capsule));
}

void rdma_controller_free(struct rdma_controller *c)
{
        if (!c)
                return;
        put_stalled(c);
        requests_each(&c->requests, free_request);
        requests_fini(&c->requests);
        tags_fini(&c->cids);
        free(c->by_cid);
        free(c);
}

struct requests *rdma_requests(struct rdma_controller *c)
{
        return &c->requests;
}
