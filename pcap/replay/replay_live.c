/* SPDX-License-Identifier: BSD-3-Clause */
#include "replay_live.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/engine/time.h"
#include "host/nvme/build.h"
#include "pdu/nvme/wire/fabrics.h"

enum {
        CAP_TO_MS = 500,
        SHUTDOWN_MS = 5000,
        POLL_MS = 20,             /* between looks at CSTS */
        IN_CAPSULE_MAX = 1 << 24, /* bytes; whatever IOCCSZ says */
};

/* --- serving ---------------------------------------------------------------------------------- */

static void kept(struct host_cmd *cmd, void *user)
{
        (void)cmd;
        ((struct live_assoc *)user)->keep_busy = false;
}

/* The captured Keep Alives are replayed where they stand; these fill pauses that the capture did not
 * have. */
static void keep_alive(struct live_assoc *a)
{
        uint64_t due = a->spoken + (uint64_t)a->kato * NS_PER_MS / 2;

        if (!a->admin || !a->enabled || !a->kato || a->keep_busy || loop_now_ns() < due)
                return;
        a->keep = (struct host_cmd) { .sqe = { .opc = NVME_KEEP_ALIVE }, .done = kept, .user = a };
        a->keep_busy = host_queue_submit(&a->admin->q, &a->keep) == 0;
        a->spoken = loop_now_ns();
}

void live_pump(struct replay *r, int ms)
{
        struct host_sleep s = { .fds = r->fds };

        for (struct live_assoc *a = r->assocs; a; a = a->next)
                keep_alive(a);
        for (struct live_queue *q = r->queues; q; q = q->next) {
                host_queue_send(&q->q);
                if (!q->q.state.broken)
                        host_sleep_on(&s, &q->q);
        }
        host_sleep(&s, ms);
        for (struct live_queue *q = r->queues; q; q = q->next)
                host_queue_poll(&q->q);
}

/* --- commands --------------------------------------------------------------------------------- */

static void done(struct host_cmd *cmd, void *user)
{
        struct live_cmd *c = user;

        (void)cmd;
        c->over = true;
        if (c->plan)
                c->nth = ++c->queue->answers;
}

static bool submit(struct replay *r, struct live_queue *lq, struct live_cmd *c)
{
        uint64_t deadline = deadline_in(r->o->timeout);

        while (host_queue_submit(&lq->q, &c->cmd) < 0) {
                if (lq->q.state.broken || ms_until(deadline) == 0)
                        return false;
                live_pump(r, ms_until(deadline));
        }
        return true;
}

struct live_cmd *live_submit(struct replay *r, struct live_queue *lq, const union sqe *sqe,
                             void *data, uint32_t len, struct plan_cmd *plan)
{
        struct live_cmd *c = calloc(1, sizeof(*c));

        if (!c) {
                free(data);
                return NULL;
        }
        c->plan = plan;
        c->queue = lq;
        c->deadline = deadline_in(r->o->timeout);
        c->cmd = (struct host_cmd) { .sqe = *sqe,
                                     .data = data,
                                     .len = len,
                                     .xfer = len ? sqe_xfer(sqe) : XFER_NONE,
                                     .done = done,
                                     .user = c };
        if (!submit(r, lq, c)) {
                free(data);
                free(c);
                return NULL;
        }
        if (lq->assoc && lq->assoc->admin == lq)
                lq->assoc->spoken = loop_now_ns();
        c->next = lq->cmds;
        lq->cmds = c;
        host_queue_send(&lq->q);
        return c;
}

bool live_wait(struct replay *r, struct live_cmd *c)
{
        while (!c->over && !c->queue->q.state.broken && ms_until(c->deadline) > 0)
                live_pump(r, ms_until(c->deadline));
        if (!c->over && !c->queue->q.state.broken)
                host_queue_break(&c->queue->q, "no response to %s within %u ms",
                                 sqe_name(&c->cmd.sqe, c->queue->q.qid == 0), r->o->timeout);
        return c->over && c->cmd.status != HOST_STATUS_ABORTED;
}

static void release(struct live_cmd *c)
{
        free(c->cmd.data);
        free(c);
}

void live_drop(struct live_cmd *c)
{
        struct live_cmd **at = &c->queue->cmds;

        while (*at != c)
                at = &(*at)->next;
        *at = c->next;
        release(c);
}

static void explain(struct replay *r, const struct live_cmd *c)
{
        if (c->over && c->cmd.status != HOST_STATUS_ABORTED)
                host_fail_status(&r->error, c->cmd.status, &c->cmd.cqe, "%s",
                                 sqe_name(&c->cmd.sqe, c->queue->q.qid == 0));
        else
                r->error = c->queue->q.state.error;
}

/* A command of the replay's own, from start to end: 0; -1: r->error. */
static int live_run(struct replay *r, struct live_queue *lq, const union sqe *sqe, void *data,
                    uint32_t len, struct cqe *cqe)
{
        void *copy = len ? malloc(len) : NULL;
        struct live_cmd *c;
        bool good;

        if (len && !copy)
                return host_fail(&r->error, HOST_BROKEN, "out of memory");
        if (len)
                memcpy(copy, data, len);
        c = live_submit(r, lq, sqe, copy, len, NULL);
        if (!c)
                return host_fail(&r->error, HOST_BROKEN, "%s",
                                 lq->q.state.broken ? lq->q.state.error.line
                                                    : "the queue stays full");
        good = live_wait(r, c) && c->cmd.status == NVME_SUCCESS;
        if (!good)
                explain(r, c);
        if (good && cqe)
                *cqe = c->cmd.cqe;
        if (good && len)
                memcpy(data, c->cmd.data, len);
        live_drop(c);
        return good ? 0 : -1;
}

/* --- authentication --------------------------------------------------------------------------- */

struct authenticating {
        struct replay *replay;
        struct live_queue *queue;
};

static int run_auth(void *user, const union sqe *sqe, void *data, uint32_t len,
                    struct host_error *e)
{
        struct authenticating *w = user;

        if (live_run(w->replay, w->queue, sqe, data, len, NULL) == 0)
                return 0;
        *e = w->replay->error;
        return -1;
}

int live_authenticate(struct replay *r, struct live_queue *lq, const struct connect_data *data,
                      uint32_t dw0)
{
        struct authenticating who = { r, lq };
        char hostnqn[NQN_FIELD + 1], subnqn[NQN_FIELD + 1];
        struct host_auth h = { .hostnqn = hostnqn,
                               .subnqn = subnqn,
                               .host = r->o->dhchap,
                               .ctrl = r->o->dhchap_ctrl,
                               .run = run_auth,
                               .user = &who };
        struct host_error e;

        snprintf(hostnqn, sizeof(hostnqn), "%.*s", NQN_FIELD, data->hostnqn);
        snprintf(subnqn, sizeof(subnqn), "%.*s", NQN_FIELD, data->subnqn);
        if (host_authenticate(&h, dw0, NULL, &e) < 0) {
                host_queue_break(&lq->q, "%s", e.line);
                r->error = e;
                return -1;
        }
        lq->authenticated = dw0 & CONNECT_ATR;
        return 0;
}

/* --- properties ------------------------------------------------------------------------------- */

uint64_t live_cap(struct replay *r, struct live_queue *lq)
{
        union sqe sqe = build_property_get(PROP_CAP);
        struct cqe cqe;

        if (lq->assoc && lq->assoc->cap)
                return lq->assoc->cap;
        if (live_run(r, lq, &sqe, NULL, 0, &cqe) < 0)
                return 0;
        if (lq->assoc)
                lq->assoc->cap = le64_get(cqe.result);
        return le64_get(cqe.result);
}

static void pause_for(struct replay *r, int ms)
{
        uint64_t end = deadline_in((unsigned)ms);

        while (ms_until(end) > 0)
                live_pump(r, ms_until(end));
}

int live_settle(struct replay *r, struct live_queue *lq, uint32_t cc)
{
        bool shuts = CC_SHN(cc) != 0;
        unsigned ms = shuts ? SHUTDOWN_MS : (CAP_TO(live_cap(r, lq)) + 1) * CAP_TO_MS;
        uint32_t mask = shuts ? CSTS_SHST_COMPLETE | CSTS_SHST_OCCURS : CSTS_RDY;
        uint32_t want = shuts ? CSTS_SHST_COMPLETE : cc & CC_EN ? CSTS_RDY : 0;
        uint64_t end = deadline_in(ms);
        union sqe sqe = build_property_get(PROP_CSTS);
        struct cqe cqe;

        for (;;) {
                if (live_run(r, lq, &sqe, NULL, 0, &cqe) < 0)
                        return -1;
                if ((le32_get(cqe.dw0) & mask) == want)
                        break;
                if (ms_until(end) == 0)
                        return -1;
                pause_for(r, POLL_MS);
        }
        if (lq->assoc)
                lq->assoc->enabled = !shuts && cc & CC_EN;
        return 0;
}

void live_enable(struct replay *r, struct live_queue *lq)
{
        uint64_t cap = live_cap(r, lq);
        uint32_t css = cap >> 43 & 1 ? 6 : 0;
        uint32_t cc = CC_EN | css << 4 | CC_IOSQES | CC_IOCQES;
        union sqe sqe = build_property_set(PROP_CC, cc);

        if (live_run(r, lq, &sqe, NULL, 0, NULL) == 0)
                live_settle(r, lq, cc);
}

/* --- queues ----------------------------------------------------------------------------------- */

struct live_assoc *live_assoc_of(struct replay *r, unsigned number)
{
        struct live_assoc *a = r->assocs;

        while (a && (number == 0 ? a->discovery || !a->admin : a->number != number))
                a = a->next;
        return a;
}

static struct live_assoc *new_assoc(struct replay *r, struct live_queue *lq, const union sqe *s)
{
        struct live_assoc *a = calloc(1, sizeof(*a));

        if (!a)
                return NULL;
        a->number = lq->plan->assoc;
        a->admin = lq;
        a->kato = le32_get(s->connect.kato);
        a->spoken = loop_now_ns();
        a->next = r->assocs;
        r->assocs = a;
        return a;
}

static void identify(struct replay *r, struct live_assoc *a)
{
        union sqe sqe = build_identify(CNS_CTRL, 0);

        if (!a->identified && a->admin && a->enabled)
                a->identified = live_run(r, a->admin, &sqe, &a->id, sizeof(a->id), NULL) == 0;
}

static uint32_t in_capsule(const struct live_assoc *a)
{
        uint64_t capsule = le32_get(a->id.ioccsz), before = 4u + le16_get(a->id.icdoff);
        uint64_t bytes = capsule > before ? (capsule - before) * 16 : 0;

        return bytes < IN_CAPSULE_MAX ? (uint32_t)bytes : IN_CAPSULE_MAX;
}

static void configure(struct replay *r, const struct live_queue *lq, const union sqe *connect,
                      struct host_queue_config *cfg)
{
        const struct replay_options *o = r->o;
        struct live_assoc *a = lq->assoc;

        *cfg = (struct host_queue_config) {
                .transport = o->transport,
                .traddr = o->traddr,
                .trsvcid = o->trsvcid,
                .qid = le16_get(connect->connect.qid),
                .entries = (uint16_t)(le16_get(connect->connect.sqsize) + 1),
                .timeout = o->timeout,
                .in_capsule = PDU_ADMIN_IN_CAPSULE,
                .verbs = o->verbs,
                .record = o->record,
                .tcp = { .hdgst = o->hdgst, .ddgst = o->ddgst, .maxr2t = 1 },
        };
        if (cfg->entries < 2) /* 0: 65536 of them, which no transport's count holds */
                cfg->entries = cfg->entries == 0 ? UINT16_MAX : 2;
        if (cfg->qid == 0 || !a)
                return;
        identify(r, a);
        cfg->cntlid = a->cntlid;
        cfg->in_capsule = in_capsule(a);
        cfg->icdoff = le16_get(a->id.icdoff);
        cfg->msdbd = a->id.msdbd;
}

int live_open(struct replay *r, struct plan_queue *q, const union sqe *connect)
{
        struct live_queue *lq = calloc(1, sizeof(*lq));
        struct host_queue_config cfg;

        if (!lq)
                return host_fail(&r->error, HOST_BROKEN, "out of memory");
        lq->plan = q;
        lq->assoc = le16_get(connect->connect.qid) != 0 ? live_assoc_of(r, q->assoc)
                                                        : new_assoc(r, lq, connect);
        configure(r, lq, connect, &cfg);
        if (host_queue_open(&lq->q, &cfg, &r->error) < 0) {
                if (lq->assoc && lq->assoc->admin == lq)
                        lq->assoc->admin = NULL;
                free(lq);
                return -1;
        }
        lq->next = r->queues;
        r->queues = lq;
        q->live = lq;
        return 0;
}

void live_close(struct replay *r, struct live_queue *lq)
{
        struct live_queue **at = &r->queues;

        while (*at != lq)
                at = &(*at)->next;
        *at = lq->next;
        host_queue_close(&lq->q);
        for (struct live_cmd *c = lq->cmds, *next; c; c = next) {
                next = c->next;
                release(c);
        }
        if (lq->assoc && lq->assoc->admin == lq)
                lq->assoc->admin = NULL;
        lq->plan->live = NULL;
        free(lq);
}
