/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma_host.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/nvme/wire/fabrics.h"
#include "spoil_rdma.h"

struct slot {
        struct host_slot base;
        uint8_t sending; /* SENDs that it waits for */
};

/*
 * Capsules go out of a ring, in which they stay until their SEND is known to be completed: most are
 * not signaled, and so when a later one is. A command that lends its own memory waits for its SEND;
 * and any does while there is little room in the ring, so that they can't fill it.
 */
struct send {
        struct verbs_wr wr;
        uint8_t *capsule;  /* in registered memory */
        struct slot *slot; /* that waits for it; NULL: none */
};

struct receive {
        struct verbs_wr wr;
        const struct cqe *cqe;
};

enum {
        RESPONSE_ROOM = 64, /* more than a response has: a longer one shows as what it is, and not
                             * as an error of the queue pair */
        SQE_LEN = sizeof(union sqe),
        CQE_LEN = sizeof(struct cqe),
};

struct chain {
        struct verbs_wr *first, **last;
};

struct rdma_host {
        struct rdma_host_config cfg;
        struct rdma_host_ops ops;
        void *user;
        struct host_slots slots;
        struct send *ring;
        unsigned ring_size, next_send, oldest_send; /* next_send == oldest_send: empty */
        unsigned unsignaled;                        /* since the last that is */
        struct receive *receives;
        uint8_t *memory;
        size_t bytes; /* of memory */
        uint32_t lkey, stride;
        struct chain sends, recvs; /* to be posted */
        struct fault fault;
        bool failed; /* all commands were given up */
        bool spoils; /* rules are violated: capsules lie in the ring as a whole */
};

/* --- chains ----------------------------------------------------------------------------------- */

static void chain_clear(struct chain *c)
{
        c->first = NULL;
        c->last = &c->first;
}

static void chain_add(struct chain *c, struct verbs_wr *wr)
{
        wr->next = NULL;
        *c->last = wr;
        c->last = &wr->next;
}

static struct verbs_wr *chain_take(struct chain *c)
{
        struct verbs_wr *first = c->first;

        chain_clear(c);
        return first;
}

struct verbs_wr *rdma_host_take_recvs(struct rdma_host *h)
{
        return chain_take(&h->recvs);
}

struct verbs_wr *rdma_host_take(struct rdma_host *h)
{
        return chain_take(&h->sends);
}

bool rdma_host_wants_post(const struct rdma_host *h)
{
        return h->sends.first || h->recvs.first;
}

/* A response may overtake its SEND's completion, but until that has come the memory that is sent
 * from is not its owner's: a command that waits for it ends when both are there. */
static void end_if_over(struct rdma_host *h, struct slot *s)
{
        if (s->base.cmd && s->sending == 0 && s->base.ended)
                host_slot_done(&h->slots, &s->base);
}

/* --- commands --------------------------------------------------------------------------------- */

static uint32_t data_offset(const struct rdma_host *h)
{
        return SQE_LEN + h->cfg.icdoff * 16u;
}

static bool fits_ring(const struct rdma_host *h, uint32_t len)
{
        return data_offset(h) + len <= h->stride;
}

/* A capsule of a Fabrics command has 64 bytes on every queue (R1.0 3.3). */
static bool fits_capsule(const struct rdma_host *h, const struct host_cmd *cmd)
{
        return cmd->xfer == XFER_H2C && cmd->len > 0 && cmd->len <= h->cfg.in_capsule &&
               fits_ring(h, h->spoils ? cmd->len : 0) && cmd->sqe.opc != NVME_FABRICS &&
               !cmd->command_buffer;
}

static bool has_data(const struct host_cmd *cmd)
{
        return cmd->xfer != XFER_NONE && cmd->len > 0;
}

static void add_sge(struct verbs_wr *wr, void *addr, uint32_t len, uint32_t lkey)
{
        wr->sge[wr->n_sge++] = (struct verbs_sge) { .addr = addr, .len = len, .lkey = lkey };
}

/* Data goes from where it lies if that is registered, else from the ring. True: the memory is lent. */
static bool put_in_capsule(struct rdma_host *h, struct send *send, struct host_cmd *cmd,
                           bool registered, uint32_t lkey)
{
        uint32_t offset = data_offset(h);

        sgl_put_in_capsule(&cmd->sqe.sgl, 0, cmd->len);
        if (registered && !h->spoils) {
                add_sge(&send->wr, send->capsule, offset, h->lkey);
                add_sge(&send->wr, cmd->data, cmd->len, lkey);
                return true;
        }
        memcpy(send->capsule + offset, cmd->data, cmd->len);
        add_sge(&send->wr, send->capsule, offset + cmd->len, h->lkey);
        return false;
}

static void put_keyed(struct rdma_host *h, struct send *send, struct host_cmd *cmd, uint32_t rkey)
{
        struct rdma_buffer buffer = { 0 };

        if (has_data(cmd))
                buffer = (struct rdma_buffer) { .addr = (uint64_t)(uintptr_t)cmd->data,
                                                .len = cmd->len,
                                                .key = rkey };
        sgl_put_keyed(&cmd->sqe.sgl, &buffer);
        add_sge(&send->wr, send->capsule, SQE_LEN, h->lkey);
}

static uint32_t wr_bytes(const struct verbs_wr *wr)
{
        uint32_t bytes = 0;

        for (unsigned i = 0; i < wr->n_sge; i++)
                bytes += wr->sge[i].len;
        return bytes;
}

static unsigned after(const struct rdma_host *h, unsigned i)
{
        return i + 1 < h->ring_size ? i + 1 : 0;
}

static unsigned unretired(const struct rdma_host *h)
{
        unsigned lap = h->next_send < h->oldest_send ? h->ring_size : 0;

        return h->next_send + lap - h->oldest_send;
}

/* There is one: those that a command waits for are depth (or twice that) at most. */
static struct send *take_send(struct rdma_host *h)
{
        struct send *send = &h->ring[h->next_send];

        h->next_send = after(h, h->next_send);
        send->slot = NULL;
        send->wr.n_sge = 0;
        send->wr.flags = 0;
        return send;
}

/* wait: the command does for its completion. */
static void add_send(struct rdma_host *h, struct slot *s, struct send *send, bool wait)
{
        struct verbs_wr *wr = &send->wr;

        if (wr_bytes(wr) <= h->cfg.inline_bytes)
                wr->flags |= VERBS_INLINE;
        if (wait || unretired(h) > h->cfg.depth + (unsigned)RDMA_HOST_SIGNAL) {
                send->slot = s;
                s->sending++;
        }
        if (send->slot || ++h->unsignaled >= RDMA_HOST_SIGNAL) {
                wr->flags |= VERBS_SIGNALED;
                h->unsignaled = 0;
        }
        chain_add(&h->sends, wr);
}

/* Sends `twice` first, where a violator wants it. */
static bool spoil(struct rdma_host *h, struct slot *s, struct send *send)
{
        struct host_cmd *cmd = s->base.cmd;
        struct rdma_format format = { .admin = h->cfg.qid == 0,
                                      .icdoff = h->cfg.icdoff,
                                      .in_capsule = h->cfg.in_capsule,
                                      .msdbd = h->cfg.msdbd };
        struct spoil_capsule c = { .bytes = send->capsule,
                                   .len = wr_bytes(&send->wr),
                                   .room = h->stride,
                                   .format = &format };
        struct send *again;

        if (sqe_is_connect(&cmd->sqe) && has_data(cmd))
                c.connect_data = cmd->data;
        spoil_capsule(&h->cfg.policy->violated, &c);
        send->wr.sge[0].len = c.len;
        if (!c.twice)
                return false;
        again = take_send(h);
        add_sge(&again->wr, again->capsule, c.len, h->lkey);
        memcpy(again->capsule, send->capsule, c.len);
        add_send(h, s, send, true);
        add_send(h, s, again, true);
        return true;
}

/* Whether the command's data can be sent or named. */
static bool has_place(const struct rdma_host *h, const struct host_cmd *cmd, bool in_capsule,
                      bool registered)
{
        if (in_capsule)
                return registered || fits_ring(h, cmd->len);
        return registered && cmd->len <= SGL_KEYED_MAX;
}

int rdma_host_submit(struct rdma_host *h, struct host_cmd *cmd)
{
        uint32_t lkey = 0, rkey = 0;
        bool in_capsule = fits_capsule(h, cmd), registered, lent = false;
        struct send *send;
        struct slot *s;

        if (h->failed || h->slots.free == HOST_NO_SLOT)
                return -1;
        registered = has_data(cmd) && h->ops.data_keys(h->user, cmd->data, cmd->len, &lkey, &rkey);
        if (has_data(cmd) && !has_place(h, cmd, in_capsule, registered))
                return -1;
        s = (struct slot *)host_slots_take(&h->slots, cmd);
        s->sending = 0;
        send = take_send(h);
        if (in_capsule)
                lent = put_in_capsule(h, send, cmd, registered, lkey);
        else
                put_keyed(h, send, cmd, rkey);
        memcpy(send->capsule, &cmd->sqe, SQE_LEN);
        if (!h->spoils || !spoil(h, s, send))
                add_send(h, s, send, lent);
        return 0;
}

unsigned rdma_host_outstanding(const struct rdma_host *h)
{
        return h->slots.outstanding;
}

/* --- completions ------------------------------------------------------------------------------ */

/* True: the rule is not waived, and so it ends the connection. */
static bool fault(struct rdma_host *h, enum rule_id rule)
{
        if (h->cfg.policy && rule_in(&h->cfg.policy->waived, rule))
                return false;
        h->fault = rule_fault(rule);
        return true;
}

static bool violates(const struct rdma_host *h, enum rule_id rule)
{
        return h->spoils && rule_in(&h->cfg.policy->violated, rule);
}

/* No key of ours is ever offered for invalidation. */
static bool bad_key(struct rdma_host *h, const struct verbs_wc *wc)
{
        return wc->invalidated && !violates(h, RDMA_HOST_KEY_CHECK) && fault(h, RDMA_INV_UNASKED);
}

static void take_response(struct rdma_host *h, struct slot *s, const struct cqe *cqe)
{
        struct host_cmd *cmd = s->base.cmd;

        cmd->cqe = *cqe;
        cmd->status = cqe_status(cqe);
        cmd->got = cmd->xfer == XFER_C2H && cmd->status == 0 ? cmd->len : 0;
        s->base.ended = true;
        end_if_over(h, s);
}

/* The receive goes back once the response is read out of it: done() may submit the next command,
 * whose response needs one. */
static bool received(struct rdma_host *h, struct receive *r, const struct verbs_wc *wc)
{
        struct cqe cqe;
        struct slot *s;

        if (wc->status != VERBS_SUCCESS)
                return true;
        cqe = *r->cqe;
        chain_add(&h->recvs, &r->wr);
        if (is_fault(h->fault))
                return true;
        if (wc->bytes != CQE_LEN && fault(h, RDMA_RSP_LENGTH))
                return true;
        if (wc->bytes < CQE_LEN)
                return false;
        s = (struct slot *)host_slots_find(&h->slots, le16_get(cqe.cid));
        if (!s)
                return fault(h, RDMA_RSP_CID);
        if (bad_key(h, wc))
                return true;
        take_response(h, s, &cqe);
        return false;
}

/* With it, all that were posted before. */
static void retire(struct rdma_host *h, const struct send *send)
{
        h->oldest_send = after(h, (unsigned)(send - h->ring));
}

static void sent(struct rdma_host *h, struct send *send)
{
        struct slot *s = send->slot;

        retire(h, send);
        send->slot = NULL;
        if (!s)
                return;
        s->sending--;
        end_if_over(h, s);
}

bool rdma_host_completed(struct rdma_host *h, const struct verbs_wc *wc)
{
        if (wc->wr->op == VERBS_RECV)
                return received(h, wc->wr->user, wc);
        if (!h->failed)
                sent(h, wc->wr->user);
        return wc->status != VERBS_SUCCESS || is_fault(h->fault);
}

struct fault rdma_host_fault(const struct rdma_host *h)
{
        return h->fault;
}

void rdma_host_fail_all(struct rdma_host *h, uint16_t status)
{
        h->failed = true;
        chain_clear(&h->sends);
        chain_clear(&h->recvs);
        host_slots_fail(&h->slots, status);
}

/* --- life ------------------------------------------------------------------------------------- */

/* One more than commands: its SEND may be answered before the receive of the last one is back. */
static unsigned receive_count(const struct rdma_host *h)
{
        return violates(h, RDMA_HOST_RECEIVES) ? 1 : h->cfg.depth + 1u;
}

static int alloc_memory(struct rdma_host *h)
{
        uint32_t capsule = h->cfg.capsule_max > SQE_LEN ? h->cfg.capsule_max : SQE_LEN;

        h->stride = (capsule + 63) & ~63u;
        h->bytes = (size_t)h->stride * h->ring_size + (size_t)RESPONSE_ROOM * receive_count(h);
        h->memory = h->ops.memory(h->user, h->bytes, &h->lkey);
        if (!h->memory)
                return -1;
        memset(h->memory, 0, h->bytes);
        return 0;
}

static int alloc_ring(struct rdma_host *h)
{
        h->ring = calloc(h->ring_size, sizeof(*h->ring));
        for (unsigned i = 0; h->ring && i < h->ring_size; i++)
                h->ring[i] = (struct send) { .wr = { .op = VERBS_SEND, .user = &h->ring[i] },
                                             .capsule = h->memory + (size_t)h->stride * i };
        return h->ring ? 0 : -1;
}

static int alloc_receives(struct rdma_host *h)
{
        uint8_t *at = h->memory + (size_t)h->stride * h->ring_size;

        h->receives = calloc(receive_count(h), sizeof(*h->receives));
        for (unsigned i = 0; h->receives && i < receive_count(h); i++, at += RESPONSE_ROOM) {
                struct receive *r = &h->receives[i];

                *r = (struct receive) { .wr = { .op = VERBS_RECV, .user = r },
                                        .cqe = (const struct cqe *)(const void *)at };
                add_sge(&r->wr, at, RESPONSE_ROOM, h->lkey);
                chain_add(&h->recvs, &r->wr);
        }
        return h->receives ? 0 : -1;
}

struct rdma_host *rdma_host_new(const struct rdma_host_config *cfg, const struct rdma_host_ops *ops,
                                void *user)
{
        struct rdma_host *h = calloc(1, sizeof(*h));

        if (!h)
                return NULL;
        h->cfg = *cfg;
        h->ops = *ops;
        h->user = user;
        chain_clear(&h->sends);
        chain_clear(&h->recvs);
        h->spoils = cfg->policy && !rule_set_empty(&cfg->policy->violated);
        h->ring_size = rdma_host_sends(cfg) + 1;
        if (alloc_memory(h) == 0 &&
            host_slots_init(&h->slots, sizeof(struct slot), h->cfg.depth) == 0 &&
            alloc_ring(h) == 0 && alloc_receives(h) == 0) {
                rdma_host_set_in_capsule(h, cfg->in_capsule, cfg->icdoff);
                return h;
        }
        rdma_host_free(h);
        return NULL;
}

void rdma_host_free(struct rdma_host *h)
{
        if (!h)
                return;
        if (h->memory)
                h->ops.memory_put(h->user, h->memory, h->bytes);
        free(h->receives);
        free(h->ring);
        host_slots_fini(&h->slots);
        free(h);
}

/* Lent or waited for: at most `depth` commands' SENDs (two each, by a violator), beside those that
 * may be there when the waiting begins. */
unsigned rdma_host_sends(const struct rdma_host_config *cfg)
{
        bool spoils = cfg->policy && !rule_set_empty(&cfg->policy->violated);

        return cfg->depth * (spoils ? 3u : 2u) + RDMA_HOST_SIGNAL + 1;
}

void rdma_host_set_in_capsule(struct rdma_host *h, uint32_t bytes, uint16_t icdoff)
{
        h->cfg.icdoff = icdoff;
        h->cfg.in_capsule = fits_ring(h, 0) ? bytes : 0;
}
