/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions with the machines of NVMe/RDMA, and the device between the two ends: it carries work
 * requests out in order, checks keys and ranges, and fails as the sequence says. The life cycle is
 * rdma_life.h's, and has to come to its end, each of its actions done once.
 */
#include <stdlib.h>

#include "pdu/core/asan.h"
#include "pdu/nvme/rdma/rdma_controller.h"
#include "pdu/nvme/rdma/rdma_host.h"
#include "pdu/nvme/wire/fabrics.h"
#include "pdu/verbs/rdma_life.h"
#include "session_own.h"

enum {
        RING = 128,
        ENTRIES = 128, /* of a queue at most */
        IN_CAPSULE = 4096,
        SEND_WRS = 24,
        SEND_WRS_SHORT = 4,
        TURNS = 1024,
        HOST_KEY = 0x1234500,
        HOST_ADDR = 0x10000000, /* a host's memory, as its descriptors say */
        COMMAND_KEY = 0x99,     /* our own host's */
};

struct ring { /* work requests that are the device's, oldest first */
        struct verbs_wr *wr[RING];
        enum verbs_status status[RING];
        unsigned first, n, carried_out;
};

struct rdma_play {
        struct play p;
        struct rdma_controller *c; /* one of the two, while it lives */
        struct rdma_host *h;
        struct rdma_life life;
        struct ring sends, recvs;
        unsigned fail_in; /* completions from here on, the one that fails among them; 0: none */
        enum verbs_status fail_status;
        unsigned receives, memories, credits;
        unsigned done; /* enum life_action */
        bool accepted, flushing;
};

static uint8_t memory[BIND_MEMORY], said[BIND_ROOM];
static uint32_t written[BIND_PLACES]; /* of the memory, in the last run */

static struct rdma_play *of(void *user)
{
        return user; /* the play is its first member */
}

/* --- the machine -------------------------------------------------------------------------------- */

static int submit(struct play *p, struct host_cmd *cmd)
{
        return rdma_host_submit(of(p)->h, cmd);
}

static struct rdma_format format_of(const struct play *p, bool admin)
{
        return (struct rdma_format) {
                .admin = admin,
                .icdoff = pda_of(p) & 3,
                .in_capsule = admin || is(p, SESSION_NO_ICD) ? 0 : IN_CAPSULE,
                .msdbd = pda_of(p) >> 2,
        };
}

/* --- the life of the queue pair ----------------------------------------------------------------- */

static void completes(struct rdma_play *t, struct verbs_wr *wr, enum verbs_status status);
static enum verbs_status move_data(struct rdma_play *t, const struct verbs_wr *wr);
static void act(struct rdma_play *t, unsigned actions);

static void event(struct rdma_play *t, enum life_event e)
{
        act(t, life_event(&t->life, e));
}

static void ring_add(struct ring *r, struct verbs_wr *chain)
{
        for (; chain; chain = chain->next) {
                must(r->n < RING);
                r->status[(r->first + r->n) % RING] = VERBS_SUCCESS;
                r->wr[(r->first + r->n++) % RING] = chain;
        }
}

static struct verbs_wr *ring_take(struct ring *r)
{
        struct verbs_wr *wr = r->wr[r->first];

        r->first = (r->first + 1) % RING;
        r->n--;
        if (r->carried_out > 0)
                r->carried_out--;
        return wr;
}

static void flush(struct rdma_play *t, struct ring *r)
{
        while (r->n > 0)
                completes(t, ring_take(r), VERBS_FLUSHED);
}

/* The queue pair fails: all that is posted is flushed, the sentinels last of all. */
static void fail(struct rdma_play *t)
{
        t->flushing = true;
        ring_add(&t->sends, life_send_sentinel(&t->life));
        ring_add(&t->recvs, life_recv_sentinel(&t->life));
        flush(t, &t->sends);
        flush(t, &t->recvs);
}

static void release(struct rdma_play *t)
{
        rdma_controller_free(t->c);
        rdma_host_free(t->h);
        t->c = NULL;
        t->h = NULL;
}

static void finish(struct rdma_play *t)
{
        if (t->c)
                rdma_controller_end(t->c);
        if (t->h)
                rdma_host_fail_all(t->h, NVME_TRANSIENT_TRANSPORT);
}

static void act(struct rdma_play *t, unsigned actions)
{
        must(!(t->done & actions));
        t->done |= actions;
        if (t->life.state > LIFE_LIVE)
                t->p.closed = true;
        if (actions & LIFE_DO_FAIL)
                fail(t);
        if (actions & LIFE_DO_END)
                finish(t);
        if (actions & LIFE_DO_RELEASE)
                release(t);
}

/* --- completions -------------------------------------------------------------------------------- */

/* Whether this is the completion that the sequence fails. */
static enum verbs_status fate(struct rdma_play *t, enum verbs_status status)
{
        if (t->flushing || t->fail_in == 0 || --t->fail_in > 0)
                return status;
        return t->fail_status;
}

static void complete_work(struct rdma_play *t, const struct verbs_wc *wc)
{
        bool ends = t->c ? rdma_controller_completed(t->c, wc) : rdma_host_completed(t->h, wc);

        must(ends || wc->status == VERBS_SUCCESS || wc->status == VERBS_FLUSHED);
        if (ends && !t->flushing)
                event(t, LIFE_FAILED);
}

/* A completion that nobody needs is not asked for; one that fails comes in any case. */
static void completes(struct rdma_play *t, struct verbs_wr *wr, enum verbs_status status)
{
        struct verbs_wc wc = { .wr = wr, .status = fate(t, status) };

        if (life_sentinel_flushed(&t->life, wr))
                return;
        if (wr->op == VERBS_RECV || wc.status != VERBS_SUCCESS || (wr->flags & VERBS_SIGNALED))
                complete_work(t, &wc);
        if (wc.status != VERBS_SUCCESS && !t->flushing)
                event(t, LIFE_FAILED);
}

static void complete_all(struct rdma_play *t)
{
        while (t->sends.carried_out > 0 && !t->p.closed) {
                enum verbs_status status = t->sends.status[t->sends.first];
                struct verbs_wr *wr = ring_take(&t->sends);

                completes(t, wr, wr->op == VERBS_READ ? move_data(t, wr) : status);
        }
}

/* --- what a controller does ---------------------------------------------------------------------- */

/* The bytes of a SEND. */
static uint32_t gather(const struct verbs_wr *wr, uint8_t *out, uint32_t room)
{
        uint32_t n = 0;

        for (unsigned i = 0; i < wr->n_sge; i++) {
                const struct verbs_sge *s = &wr->sge[i];

                must((wr->flags & VERBS_INLINE) || s->lkey == TOY_LKEY);
                must(s->len <= room - n);
                memcpy(out + n, s->addr, s->len);
                n += s->len;
        }
        return n;
}

static void on_message(struct rdma_play *t, const union pdu *h)
{
        struct session_report *r = t->p.r;

        r->pdus++;
        if (r->pdu)
                r->pdu(r->user, peer_of(t->p.s->side), h);
        seq_bind_heard(&t->p.bind, h);
}

static void receive_response(struct rdma_play *t, const struct verbs_wr *wr)
{
        union pdu h = { .resp.ch.type = PDU_CAPSULE_RESP };
        uint32_t len = gather(wr, (uint8_t *)&h.resp.cqe, sizeof(h.resp.cqe));

        must(len == sizeof(h.resp.cqe) || is_lenient(&t->p));
        t->p.r->heard += len;
        fuzz_digest(&t->p.r->digest, &h.resp.cqe, sizeof(h.resp.cqe));
        on_message(t, &h);
}

/* Of a host's memory, as the key and the range allow; NULL: they do not. */
static uint8_t *host_memory(const struct verbs_wr *wr)
{
        uint64_t at = wr->remote - HOST_ADDR;
        uint32_t len = wr->n_sge > 0 ? wr->sge[0].len : 0;

        must(wr->n_sge <= 1);
        return wr->rkey == HOST_KEY && at < sizeof(memory) && len <= sizeof(memory) - at
                   ? memory + at
                   : NULL;
}

static void mark_written(struct rdma_play *t, uint32_t at, uint32_t len)
{
        for (uint32_t end = at + len, next; at < end; at = next) {
                uint32_t *place = &t->p.bind.memory.written[at / SEQ_DATA_MAX], upto;

                next = (at / SEQ_DATA_MAX + 1) * SEQ_DATA_MAX;
                upto = (end < next ? end : next) - (next - SEQ_DATA_MAX);
                if (*place < upto)
                        *place = upto;
        }
}

static enum verbs_status move_data(struct rdma_play *t, const struct verbs_wr *wr)
{
        uint8_t *at = host_memory(wr);
        const struct verbs_sge *s = &wr->sge[0];

        if (!at)
                return VERBS_REMOTE_ACCESS;
        if (wr->n_sge == 0)
                return VERBS_SUCCESS;
        must(s->lkey == TOY_LKEY);
        if (wr->op == VERBS_READ) {
                memcpy(s->addr, at, s->len);
        } else {
                memcpy(at, s->addr, s->len);
                mark_written(t, (uint32_t)(at - memory), s->len);
                fuzz_digest(&t->p.r->digest, at, s->len);
                t->p.r->heard += s->len;
        }
        return VERBS_SUCCESS;
}

static enum verbs_status do_for_controller(struct rdma_play *t, const struct verbs_wr *wr)
{
        if (wr->op == VERBS_READ) /* until it completes its buffer is the device's to write */
                return VERBS_SUCCESS;
        if (wr->op == VERBS_WRITE)
                return move_data(t, wr);
        must(wr->op == VERBS_SEND || wr->op == VERBS_SEND_INVALIDATE);
        receive_response(t, wr);
        return VERBS_SUCCESS;
}

/* --- what a host does --------------------------------------------------------------------------- */

static enum verbs_status do_for_host(struct rdma_play *t, const struct verbs_wr *wr)
{
        union pdu h = { .cmd.ch.type = PDU_CAPSULE_CMD };
        uint32_t len = gather(wr, said, sizeof(said));

        must(wr->op == VERBS_SEND);
        must(len >= sizeof(h.cmd.sqe) || is_lenient(&t->p));
        memcpy(&h.cmd.sqe, said, len < sizeof(h.cmd.sqe) ? len : sizeof(h.cmd.sqe));
        t->p.r->heard += len;
        fuzz_digest(&t->p.r->digest, &h.cmd.sqe.cid, sizeof(h.cmd.sqe.cid));
        on_message(t, &h);
        return VERBS_SUCCESS;
}

static void carry_out(struct rdma_play *t)
{
        struct ring *r = &t->sends;

        while (r->carried_out < r->n) {
                unsigned i = (r->first + r->carried_out++) % RING;

                r->status[i] = t->c ? do_for_controller(t, r->wr[i]) : do_for_host(t, r->wr[i]);
        }
}

/* --- both ends go on ---------------------------------------------------------------------------- */

static void post(struct rdma_play *t)
{
        if (t->c) {
                ring_add(&t->sends, rdma_controller_take(t->c));
                must(t->sends.n <= SEND_WRS);
                if (is_fault(rdma_controller_fault(t->c)))
                        event(t, LIFE_FAILED);
        } else {
                ring_add(&t->recvs, rdma_host_take_recvs(t->h));
                ring_add(&t->sends, rdma_host_take(t->h));
        }
}

static bool wants_more(const struct rdma_play *t)
{
        if (t->p.closed)
                return false;
        return t->c ? rdma_controller_wants_post(t->c) : rdma_host_wants_post(t->h);
}

/* One round of what is due; completions only if they are not late. */
static void round_of(struct rdma_play *t, bool late)
{
        post(t);
        if (t->p.closed)
                return;
        carry_out(t);
        if (!late)
                complete_all(t);
        if (t->p.closed)
                return;
        if (t->c) {
                if (!is(&t->p, SESSION_DEFERS))
                        owner_unpark(&t->p);
                requests_buffers(rdma_requests(t->c));
        } else if (t->accepted) {
                client_submit(&t->p);
        }
}

static void turn(struct rdma_play *t, bool late)
{
        unsigned n = 0;

        if (!t->c && !t->h)
                return;
        do {
                round_of(t, late);
                must(++n < TURNS);
        } while (wants_more(t));
}

/* --- a host plays ------------------------------------------------------------------------------- */

static void recv_put(void *user, struct rdma_recv *rx)
{
        of(user)->receives--;
        free(rx->wr.sge[0].addr);
        free(rx);
}

static void *get_memory(void *user, size_t bytes, uint32_t *lkey)
{
        void *p = malloc(bytes);

        *lkey = TOY_LKEY;
        of(user)->memories += p != NULL;
        return p;
}

static void put_memory(void *user, void *p, size_t bytes)
{
        (void)bytes;
        of(user)->memories--;
        free(p);
}

static void *response_memory(void *user, uint32_t bytes, uint32_t *lkey)
{
        return get_memory(user, bytes, lkey);
}

static void put_response_memory(void *user, void *p, uint32_t bytes)
{
        put_memory(user, p, bytes);
}

static bool make_controller(struct rdma_play *t, const struct bind_work *w,
                            const struct rdma_request *r)
{
        const struct play *p = &t->p;
        uint32_t reads = is(p, SESSION_REQUIRES) ? 0 : is(p, SESSION_WINDOW) ? 4 : 1;
        struct rdma_controller_config cfg = {
                .format = format_of(p, le16_get(r->qid) == 0),
                .max_transfer = 1 << 17,
                .send_wrs = is(p, SESSION_SHORT) ? SEND_WRS_SHORT : SEND_WRS,
                .reads = reads < w->reads_in ? reads : w->reads_in,
                .inline_bytes = is(p, SESSION_DIGESTS) ? sizeof(struct cqe) : 0,
                .depth = (uint16_t)(le16_get(r->hsqsize) + 1),
                .policy = &p->policy,
        };
        struct rdma_controller_ops ops = { owner_ops, recv_put, response_memory,
                                           put_response_memory };

        t->credits = cfg.depth > 0 ? cfg.depth : 1;
        t->p.bind.format = cfg.format;
        t->c = rdma_controller_new(&cfg, &ops, t);
        return t->c != NULL;
}

/* A connect request; one while there is a connection already would be another's. */
static void receive_request(struct rdma_play *t, const struct bind_work *w)
{
        static const struct rdma_limits limits = { 4, ENTRIES, 1, 1, 0 };
        struct rdma_request r;
        struct fault f;

        ASAN_POISON_MEMORY_REGION(said + w->len, sizeof(said) - w->len);
        f = rdma_request_check(said, w->len, w->reads_in, w->reads_out, &limits,
                               &t->p.policy.waived);
        rdma_request_read(said, w->len, &r);
        ASAN_UNPOISON_MEMORY_REGION(said, sizeof(said));
        if (t->c)
                return;
        if (is_fault(f)) {
                must(f.code >= RDMA_REJECT_LENGTH && f.code <= RDMA_REJECT_CNTLID);
                t->p.r->fault = f;
        }
        t->life.has_qp = !is_fault(f) && make_controller(t, w, &r);
        if (!t->life.has_qp)
                event(t, LIFE_REFUSED);
}

static struct rdma_recv *receive(const uint8_t *bytes, uint32_t len)
{
        struct rdma_recv *rx = calloc(1, sizeof(*rx));
        uint8_t *p = malloc(len > 0 ? len : 1); /* of just that size: a byte too far is seen */

        if (!rx || !p) {
                free(rx);
                free(p);
                return NULL;
        }
        memcpy(p, bytes, len);
        rx->wr =
            (struct verbs_wr) { .op = VERBS_RECV, .n_sge = 1, .sge = { { p, len, TOY_LKEY } } };
        rx->bytes = len;
        return rx;
}

/* A SEND of the host's: it finds a receive, large enough, or both queue pairs fail. */
static void receive_capsule(struct rdma_play *t, uint32_t len)
{
        struct rdma_recv *rx;

        if (!t->c || t->p.closed)
                return;
        if (t->life.state == LIFE_CONNECTING)
                event(t, LIFE_ESTABLISHED);
        rx = t->receives < t->credits && len <= BIND_ROOM / 2 ? receive(said, len) : NULL;
        if (!rx || fate(t, VERBS_SUCCESS) != VERBS_SUCCESS) {
                if (rx) {
                        t->receives++;
                        recv_put(t, rx);
                }
                event(t, LIFE_FAILED);
                return;
        }
        t->receives++;
        if (rdma_controller_received(t->c, rx)) {
                must(is_fault(rdma_controller_fault(t->c)));
                t->p.r->fault = rdma_controller_fault(t->c);
                event(t, LIFE_FAILED);
        }
}

/* --- a controller plays ------------------------------------------------------------------------- */

static bool data_keys(void *user, const void *data, uint32_t len, uint32_t *lkey, uint32_t *rkey)
{
        size_t all;
        const uint8_t *first = client_data(&all);

        must((const uint8_t *)data >= first && len <= all);
        *lkey = TOY_LKEY;
        *rkey = COMMAND_KEY;
        return !is(user, SESSION_REQUIRES);
}

static bool make_host(struct rdma_play *t)
{
        static const struct rdma_host_ops ops = { get_memory, put_memory, data_keys };
        const struct play *p = &t->p;
        struct rdma_format format = format_of(p, !is(p, SESSION_IO));
        const struct rdma_host_config cfg = {
                .qid = is(p, SESSION_IO),
                .depth = is(p, SESSION_HUNGRY) ? 2 : 31,
                .icdoff = format.icdoff,
                .in_capsule = format.in_capsule,
                .capsule_max = 64u + format.icdoff * 16u + format.in_capsule + CONNECT_DATA_LEN,
                .inline_bytes = is(p, SESSION_DIGESTS) ? 64 : 0,
                .msdbd = format.msdbd,
                .policy = &p->policy,
        };
        struct rdma_request r = { .hsqsize = le16(cfg.depth), .hrqsize = le16(cfg.depth) };

        t->h = rdma_host_new(&cfg, &ops, t);
        if (!t->h)
                return false;
        t->life.has_qp = true;
        seq_bind_asked(&t->p.bind, &r);
        return true;
}

static void receive_accept(struct rdma_play *t, const struct bind_work *w)
{
        struct rdma_request r = { .hsqsize = le16(31) };
        struct rule_set found = { 0 };

        rdma_accept_check(said, w->len, w->reads_in, &r, &found);
        t->accepted = true;
        event(t, LIFE_ESTABLISHED);
}

static void receive_reject(struct rdma_play *t, const struct bind_work *w)
{
        struct rule_set found = { 0 };

        rdma_reject_check(said, w->len, &found);
        if (!t->accepted)
                event(t, LIFE_REFUSED);
}

/* A SEND of the controller's. */
static void receive_send(struct rdma_play *t, const struct bind_work *w)
{
        struct verbs_wc wc = { .bytes = w->len,
                               .invalidated = w->invalidate,
                               .invalid_key = w->key };

        if (t->recvs.n == 0) {
                event(t, LIFE_FAILED);
                return;
        }
        wc.wr = ring_take(&t->recvs);
        wc.status = wc.bytes > wc.wr->sge[0].len ? VERBS_LOCAL_LENGTH : VERBS_SUCCESS;
        wc.status = fate(t, wc.status);
        if (wc.status == VERBS_SUCCESS)
                memcpy(wc.wr->sge[0].addr, said, wc.bytes);
        complete_work(t, &wc);
        if (is_fault(rdma_host_fault(t->h)))
                t->p.r->fault = rdma_host_fault(t->h);
}

/* READ and WRITE of the host's memory: what is not allowed fails both queue pairs. */
static void receive_transfer(struct rdma_play *t, const struct bind_work *w)
{
        uint32_t digest = FUZZ_DIGEST_START;
        size_t all;
        uint8_t *first = client_data(&all);
        uint64_t at = w->addr - (uint64_t)(uintptr_t)first;

        if (w->key != COMMAND_KEY || at >= all || w->len > all - at)
                event(t, LIFE_FAILED);
        else if (w->type == SEQ_READ)
                fuzz_digest(&digest, first + at, w->len);
        else
                memset(first + at, 0x33, w->len);
}

/* --- steps -------------------------------------------------------------------------------------- */

static void receive_from_controller(struct rdma_play *t, const struct bind_work *w)
{
        if (w->type == SEQ_ACCEPT)
                receive_accept(t, w);
        else if (w->type == SEQ_REJECT)
                receive_reject(t, w);
        else if (t->accepted && (w->type == SEQ_READ || w->type == SEQ_WRITE))
                receive_transfer(t, w);
        else if (t->accepted)
                receive_send(t, w);
}

/* Who watches sees capsules as the PDUs that they would be. */
static void show(const struct rdma_play *t, const struct bind_work *w)
{
        union pdu h = { .ch.type = w->type };
        const struct session_report *r = t->p.r;

        if (w->type == PDU_CAPSULE_CMD)
                memcpy(&h.cmd.sqe, said, w->len < sizeof(h.cmd.sqe) ? w->len : sizeof(h.cmd.sqe));
        else
                memcpy(&h.resp.cqe, said,
                       w->len < sizeof(h.resp.cqe) ? w->len : sizeof(h.resp.cqe));
        r->pdu(r->user, t->p.s->side, &h);
}

static void perform_step(struct rdma_play *t, const struct seq_step *step)
{
        struct bind_work w = seq_bind_work(&t->p.bind, t->p.s, step, said);

        if (t->p.r->pdu && (w.type == PDU_CAPSULE_CMD || w.type == PDU_CAPSULE_RESP))
                show(t, &w);
        for (unsigned i = 0; i < w.times && !t->p.closed; i++)
                if (w.type == SEQ_REQUEST)
                        receive_request(t, &w);
                else if (w.type == PDU_CAPSULE_CMD)
                        receive_capsule(t, w.len);
                else
                        receive_from_controller(t, &w);
}

static void play_step(struct rdma_play *t, const struct seq_step *step)
{
        t->p.r->steps++;
        switch (step->kind) {
        case SEQ_PDU:
        case SEQ_RAW:
                perform_step(t, step);
                break;
        case SEQ_DELAY:
                if (t->c)
                        owner_unpark(&t->p);
                turn(t, false);
                break;
        case SEQ_CLOSE:
                event(t, LIFE_DISCONNECTED);
                break;
        case SEQ_RESET:
                event(t, LIFE_FAILED);
                break;
        case SEQ_FAIL:
                t->fail_in = step->of + 1u;
                t->fail_status = step->status;
                break;
        case SEQ_REMOVE:
                event(t, LIFE_REMOVED);
                break;
        case SEQ_RELOAD:
                break;
        }
}

/* --- all of it ---------------------------------------------------------------------------------- */

static bool begin(struct rdma_play *t)
{
        life_init(&t->life);
        t->p.bind.memory =
            (struct bind_memory) { .at = memory, .addr = HOST_ADDR, .key = HOST_KEY };
        for (unsigned i = 0; i < BIND_PLACES; i++)
                memset(memory + i * (size_t)SEQ_DATA_MAX, 0, written[i]);
        return t->p.s->side == PARTY_HOST || make_host(t);
}

/* Nothing comes any more. What still executes ends after the queue pair has. */
static void end(struct rdma_play *t)
{
        fuzz_scarce(0);
        event(t, LIFE_ABORT);
        if (t->c && requests_executing(rdma_requests(t->c)) > 0)
                life_busy(&t->life);
        event(t, LIFE_DRAINED);
        if (t->c) {
                owner_unpark(&t->p);
                must(requests_executing(rdma_requests(t->c)) == 0);
        }
        event(t, LIFE_IDLE);
        must(t->life.state == LIFE_RELEASED && (t->done & LIFE_DO_END));
        must(!t->c && !t->h);
        must(t->p.owner.buffers == 0 && t->receives == 0 && t->memories == 0);
        for (unsigned i = 0; i < COMMANDS; i++)
                must(!t->p.busy[i]);
}

void session_play_rdma(const struct play *as)
{
        struct rdma_play t = { .p = *as };
        const struct sequence *s = as->s;

        t.p.submit = submit;
        if (!begin(&t))
                return;
        turn(&t, true);
        for (unsigned i = 0; i < s->steps && !t.p.closed; i++) {
                if (s->step[i].on > 0)
                        continue;
                play_step(&t, &s->step[i]);
                turn(&t, is(&t.p, SESSION_BUDGET));
        }
        t.p.r->end = life_state_name(t.life.state);
        end(&t);
        memcpy(written, t.p.bind.memory.written, sizeof(written));
}
