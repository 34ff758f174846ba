/* SPDX-License-Identifier: BSD-3-Clause */
#include "replay.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/engine/time.h"
#include "replay_live.h"

/* --- which commands --------------------------------------------------------------------------- */

/* Commands that leave everything as it is. What is not listed needs allow_write. */
static bool harmless(const struct plan_cmd *c)
{
        static const uint8_t admin[] = { NVME_GET_LOG_PAGE, NVME_IDENTIFY,    NVME_ABORT,
                                         NVME_GET_FEATURES, NVME_AER,         NVME_KEEP_ALIVE,
                                         NVME_FABRICS,      NVME_SET_FEATURES };
        static const uint8_t io[] = { NVME_FLUSH, NVME_READ, NVME_COMPARE, NVME_VERIFY,
                                      NVME_FABRICS };
        enum { SAVE = 1u << 31 };

        if (c->admin && c->sqe.opc == NVME_SET_FEATURES && le32_get(c->sqe.cdw10) & SAVE)
                return false;
        return c->admin ? memchr(admin, c->sqe.opc, sizeof(admin)) != NULL
                        : memchr(io, c->sqe.opc, sizeof(io)) != NULL;
}

static bool has_blocks(const struct plan_cmd *c)
{
        switch (c->sqe.opc) {
        case NVME_READ:
        case NVME_WRITE:
        case NVME_WRITE_UNCORRECTABLE:
        case NVME_COMPARE:
        case NVME_WRITE_ZEROES:
        case NVME_VERIFY:
                return !c->admin;
        default:
                return false;
        }
}

static bool fits(const struct replay_options *o, uint64_t slba, uint64_t blocks)
{
        return o->blocks == 0 || (blocks <= o->blocks && slba <= o->blocks - blocks);
}

/* Whether the command stays within the region that the user gave. */
static bool in_region(const struct replay_options *o, const struct plan_cmd *c)
{
        const struct dsm_range *range = (const void *)c->data;

        if (has_blocks(c))
                return fits(o, le32_get(c->sqe.cdw10) | (uint64_t)le32_get(c->sqe.cdw11) << 32,
                            (le32_get(c->sqe.cdw12) & RW_NLB_MASK) + 1ull);
        if (!c->admin && c->sqe.opc == NVME_DSM)
                for (uint32_t i = 0; i < c->data_len / sizeof(*range); i++)
                        if (!fits(o, le64_get(range[i].slba), le32_get(range[i].blocks)))
                                return false;
        return true;
}

static bool lacks_data(const struct plan_cmd *c)
{
        enum nvme_xfer way = sqe_xfer(&c->sqe);

        return c->len > 0 && (way & XFER_H2C) && (c->data_cut || c->data_len < c->len);
}

/* An I/O queue that was connected, of an association that cannot be replayed. */
static bool is_orphan(struct replay *r, const struct plan_cmd *c)
{
        const struct live_assoc *a;

        if (!sqe_is_connect(&c->sqe) || le16_get(c->sqe.connect.qid) == 0 || cqe_status(&c->cqe))
                return false;
        a = live_assoc_of(r, c->queue->assoc);
        return !a || !a->admin || a->admin->refused;
}

/* Why a command is not sent; NULL: it is. */
static const char *refusal(struct replay *r, const struct plan_cmd *c)
{
        const struct live_queue *lq = c->queue->live;
        bool connect = sqe_is_connect(&c->sqe);

        if (sqe_xfer(&c->sqe) == XFER_BOTH && c->len > 0)
                return "it transfers data in both directions";
        if (c->len > SESSION_DATA_MAX)
                return "it transfers more data than a replay supports";
        if (lacks_data(c))
                return "its data is not in the capture";
        if (!c->queue->connects)
                return "the Connect of its queue is not in the capture";
        if (connect && lq)
                return "its queue is already connected";
        if (!connect && (!lq || lq->refused))
                return "its queue is not connected";
        if (is_orphan(r, c))
                return "the admin queue of its association is not connected";
        if (sqe_is_auth(&c->sqe))
                return "the live target does not ask for authentication";
        if (!r->o->allow_write && !harmless(c))
                return "it changes something, which requires --allow-write";
        if (!in_region(r->o, c))
                return "it is not within the region of --remap-lba";
        return NULL;
}

/* --- telling ---------------------------------------------------------------------------------- */

static void report(struct replay *r, const struct plan_cmd *c, const struct live_cmd *live,
                   const struct verdict *v)
{
        struct replayed told = { .cmd = c, .verdict = *v };

        if (live) {
                told.sent = true;
                told.qid = live->queue->q.qid;
                told.cid = le16_get(live->cmd.sqe.cid);
        }
        r->totals->count[v->likeness]++;
        r->fn(r->user, &told);
}

static void __attribute__((format(printf, 5, 6)))
conclude(struct replay *r, const struct plan_cmd *c, const struct live_cmd *live, enum likeness l,
         const char *fmt, ...)
{
        struct verdict v = { .likeness = l };
        va_list ap;

        va_start(ap, fmt);
        vsnprintf(v.why, sizeof(v.why), fmt, ap);
        va_end(ap);
        report(r, c, live, &v);
}

/* --- live values in place of captured ones ---------------------------------------------------- */

static void map_lba(const struct replay_options *o, union sqe *s)
{
        uint64_t slba = (le32_get(s->cdw10) | (uint64_t)le32_get(s->cdw11) << 32) + o->offset;

        s->cdw10 = le32((uint32_t)slba);
        s->cdw11 = le32((uint32_t)(slba >> 32));
}

static void map_ranges(const struct replay_options *o, struct dsm_range *range, uint32_t len)
{
        for (uint32_t i = 0; i < len / sizeof(*range); i++)
                range[i].slba = le64(le64_get(range[i].slba) + o->offset);
}

static void set_name(char field[NQN_FIELD], const char *name)
{
        memset(field, 0, NQN_FIELD);
        snprintf(field, NQN_FIELD, "%s", name);
}

static void map_connect_data(const struct replay *r, const struct live_queue *lq, bool admin,
                             struct connect_data *data)
{
        const struct replay_options *o = r->o;

        if (!admin && lq->assoc)
                data->cntlid = le16(lq->assoc->cntlid);
        if (admin && lq->assoc)
                lq->assoc->discovery = strncmp(data->subnqn, NQN_DISCOVERY, NQN_FIELD) == 0;
        if (o->subnqn && strncmp(data->subnqn, NQN_DISCOVERY, NQN_FIELD) != 0)
                set_name(data->subnqn, o->subnqn);
        if (o->hostnqn)
                set_name(data->hostnqn, o->hostnqn);
        if (o->hostid)
                memcpy(data->hostid, o->hostid, sizeof(data->hostid));
}

/* A slower replay sends its Keep Alives later. */
static void map_connect(struct replay *r, const struct live_queue *lq, union sqe *s)
{
        double kato = le32_get(s->connect.kato);
        uint16_t mqes;

        if (r->o->timing > 1)
                kato *= r->o->timing;
        s->connect.kato = le32(kato < UINT32_MAX ? (uint32_t)kato : UINT32_MAX);
        if (le16_get(s->connect.qid) == 0 || !lq->assoc || !lq->assoc->admin)
                return;
        mqes = CAP_MQES(live_cap(r, lq->assoc->admin));
        if (mqes > 0 && le16_get(s->connect.sqsize) > mqes)
                s->connect.sqsize = le16(mqes);
}

/* CC.CSS as far as the live CAP offers it. */
static void map_cc(struct replay *r, struct live_queue *lq, union sqe *s)
{
        uint32_t cc = (uint32_t)le64_get(s->property.value), css = cc >> 4 & 7;
        uint64_t cap;

        if (css == 0 || css > 7 || !lq)
                return;
        cap = live_cap(r, lq);
        if ((css == 6 && !(cap >> 43 & 1)) || (css == 7 && !(cap >> 44 & 1)))
                s->property.value = le64(cc & ~(7u << 4));
}

/* A host asks for those events that the controller offers. */
static void map_events(const struct live_queue *lq, union sqe *s)
{
        enum { SMART_EVENTS = 0xff };

        if (lq && lq->assoc && lq->assoc->identified)
                s->cdw11 = le32(le32_get(s->cdw11) & (le32_get(lq->assoc->id.oaes) | SMART_EVENTS));
}

static bool sets_cc(const union sqe *s)
{
        return sqe_is_fabrics(s, FCTYPE_PROPERTY_SET) && le32_get(s->property.ofst) == PROP_CC;
}

/* The command as it is sent, but for what the transport fills in. */
static union sqe map_command(struct replay *r, const struct plan_cmd *c, void *data)
{
        struct live_queue *lq = c->queue->live;
        union sqe s = c->sqe;

        if (sqe_is_connect(&s)) {
                map_connect(r, lq, &s);
                if (c->len >= CONNECT_DATA_LEN)
                        map_connect_data(r, lq, le16_get(s.connect.qid) == 0, data);
        }
        if (sets_cc(&s))
                map_cc(r, lq, &s);
        if (c->admin && s.opc == NVME_SET_FEATURES && (le32_get(s.cdw10) & 0xff) == FEAT_AEC)
                map_events(lq, &s);
        if (has_blocks(c))
                map_lba(r->o, &s);
        if (!c->admin && s.opc == NVME_DSM && data)
                map_ranges(r->o, data, c->len);
        return s;
}

/* --- sending ---------------------------------------------------------------------------------- */

static void *data_for(const struct plan_cmd *c)
{
        void *data = c->len ? calloc(1, c->len) : NULL;

        if (data && (sqe_xfer(&c->sqe) & XFER_H2C) && c->data)
                memcpy(data, c->data, c->len < c->data_len ? c->len : c->data_len);
        return data;
}

/* Blocks that a command changed in the capture, but not here, are not known. */
static void skip(struct replay *r, const struct plan_cmd *c, const char *why)
{
        union sqe sqe = c->sqe;

        if (has_blocks(c))
                map_lba(r->o, &sqe);
        if (!c->admin)
                contents_sent(r, &sqe, NULL, 0);
        conclude(r, c, NULL, SKIPPED, "%s", why);
}

/* A controller that took a command was enabled, also if the capture lacks how. */
static void make_ready(struct replay *r, const struct plan_cmd *c)
{
        const struct live_queue *lq = c->queue->live;
        bool connects = sqe_is_connect(&c->sqe);
        struct live_assoc *a = lq ? lq->assoc : connects ? live_assoc_of(r, c->queue->assoc) : NULL;
        bool needs = connects ? le16_get(c->sqe.connect.qid) != 0 : c->sqe.opc != NVME_FABRICS;

        if (needs && a && a->admin && !a->enabled && c->answered && !cqe_status(&c->cqe))
                live_enable(r, a->admin);
}

/* 0; -1: no connection. The queue's size is told to the transport, too. */
static int open_queue(struct replay *r, struct plan_cmd *c)
{
        struct live_queue future = { .assoc = live_assoc_of(r, c->queue->assoc) };
        union sqe sqe = c->sqe;

        map_connect(r, &future, &sqe);
        return live_open(r, c->queue, &sqe);
}

static void send_mapped(struct replay *r, struct plan_cmd *c, void *data)
{
        struct live_queue *lq = c->queue->live;
        union sqe sqe = map_command(r, c, data);

        if (!c->admin)
                contents_sent(r, &sqe, data, c->len);
        c->live = live_submit(r, lq, &sqe, data, c->len, c);
        if (!c->live)
                conclude(r, c, NULL, DIFFERENT, "it could not be sent: %s",
                         lq->q.state.broken ? lq->q.state.error.line : "the queue stays full");
        else if (has_blocks(c))
                ((struct live_cmd *)c->live)->unknown = !contents_known(r, &sqe);
}

/* --- answers ---------------------------------------------------------------------------------- */

/* What the replay goes on with. */
static void learn(struct replay *r, struct live_cmd *c)
{
        struct live_queue *lq = c->queue;
        const union sqe *s = &c->cmd.sqe;
        struct live_assoc *a = lq->assoc;

        if (c->cmd.status != NVME_SUCCESS)
                return;
        if (!c->plan->admin)
                contents_done(r, s);
        if (!a || a->admin != lq)
                return;
        if (sqe_is_connect(s))
                a->cntlid = (uint16_t)le32_get(c->cmd.cqe.dw0);
        if (sqe_is_fabrics(s, FCTYPE_PROPERTY_GET) && le32_get(s->property.ofst) == PROP_CAP)
                a->cap = le64_get(c->cmd.cqe.result);
        if (s->opc == NVME_IDENTIFY && (le32_get(s->cdw10) & 0xff) == CNS_CTRL &&
            c->cmd.len >= sizeof(a->id)) {
                memcpy(&a->id, c->cmd.data, sizeof(a->id));
                a->identified = true;
        }
}

static struct verdict compare(struct replay *r, const struct live_cmd *c)
{
        const struct plan_cmd *p = c->plan;
        struct comparison x = {
                .sqe = &p->sqe,
                .admin = p->admin,
                .captured = { p->cqe, p->data, p->data_len },
                .live = { c->cmd.cqe, c->cmd.data, c->cmd.got },
                .cut = p->data_cut || p->data_len < p->len,
                .read_only = !r->o->allow_write,
        };

        if (has_blocks(p) && !r->o->strict_data)
                x.unknown = c->unknown || !contents_known(r, &c->cmd.sqe);
        return compare_answers(&x);
}

static void count_order(struct replay *r, struct live_cmd *c)
{
        if (c->nth < c->queue->last)
                r->totals->reordered++;
        else
                c->queue->last = c->nth;
}

/* Events come when something happens, which need not be now. */
static void judge_event(struct replay *r, struct plan_cmd *p, struct live_cmd *c)
{
        if (p->answered && c->over && cqe_status(&p->cqe) == cqe_status(&c->cmd.cqe))
                conclude(r, p, c, SAME, "%s", "");
        else
                conclude(r, p, c, ALLOWED, "%s",
                         p->answered == c->over ? "the live connection ended differently"
                         : c->over              ? "an event that is not in the capture"
                                                : "the event of the capture did not occur");
}

/* What a live Connect asks for before anything else; false: r->error. */
static bool authenticate(struct replay *r, struct live_cmd *c)
{
        const struct cqe *cqe = &c->cmd.cqe;

        if (!sqe_is_connect(&c->cmd.sqe) || c->cmd.status != NVME_SUCCESS ||
            c->cmd.len < CONNECT_DATA_LEN)
                return true;
        c->queue->refused =
            live_authenticate(r, c->queue, (void *)c->cmd.data, le32_get(cqe->dw0)) < 0;
        return !c->queue->refused;
}

static void judge(struct replay *r, struct plan_cmd *p, struct live_cmd *c)
{
        bool came = live_wait(r, c), settled = true;
        struct verdict v;

        if (!came) {
                conclude(r, p, c, DIFFERENT, "no answer: %s", c->queue->q.state.error.line);
                return;
        }
        count_order(r, c);
        learn(r, c);
        if (!authenticate(r, c)) {
                conclude(r, p, c, DIFFERENT, "%s", r->error.line);
                return;
        }
        if (sets_cc(&p->sqe) && c->cmd.status == NVME_SUCCESS)
                settled =
                    live_settle(r, c->queue, (uint32_t)le64_get(c->cmd.sqe.property.value)) == 0;
        if (!p->answered) {
                conclude(r, p, c, ALLOWED, "its answer is not in the capture");
                return;
        }
        v = compare(r, c);
        if (sqe_is_connect(&p->sqe) && c->cmd.status && !cqe_status(&p->cqe))
                c->queue->refused = true;
        if (!settled && v.likeness < DIFFERENT)
                v = (struct verdict) { DIFFERENT, "timed out before CSTS followed CC" };
        report(r, p, c, &v);
}

static bool is_event(const struct plan_cmd *p)
{
        return p->admin && p->sqe.opc == NVME_AER;
}

static void answer(struct replay *r, struct plan_cmd *p)
{
        struct live_cmd *c = p->live;

        if (!c || is_event(p))
                return;
        judge(r, p, c);
        p->live = NULL;
        live_drop(c);
}

/* 0; -1: there is no connection to the live target. */
static int submit(struct replay *r, struct plan_cmd *c)
{
        const struct live_queue *lq = c->queue->live;
        const char *why = refusal(r, c);
        void *data;

        if (sqe_is_auth(&c->sqe) && lq && lq->authenticated) {
                conclude(r, c, NULL, ALLOWED, "authentication was done with the live target");
                return 0;
        }
        if (why) {
                skip(r, c, why);
                return 0;
        }
        make_ready(r, c);
        if (sqe_is_connect(&c->sqe) && open_queue(r, c) < 0)
                return -1;
        data = data_for(c);
        if (c->len && !data)
                return host_fail(&r->error, HOST_BROKEN, "out of memory");
        send_mapped(r, c, data);
        if (c->sqe.opc == NVME_FABRICS && !c->answered)
                answer(r, c); /* what follows needs it, though the capture lost the answer */
        return 0;
}

/* What is still under way when the captured connection ends. */
static void close_queue(struct replay *r, struct live_queue *lq)
{
        while (lq && lq->cmds) {
                struct live_cmd *c = lq->cmds;

                if (is_event(c->plan))
                        judge_event(r, c->plan, c);
                else
                        judge(r, c->plan, c);
                c->plan->live = NULL;
                if (!c->over)
                        host_queue_break(&lq->q, "the capture ends here");
                live_drop(c);
        }
        if (lq)
                live_close(r, lq);
}

/* --- the whole -------------------------------------------------------------------------------- */

static void keep_time(struct replay *r, const struct plan_step *s)
{
        double after = (double)(s->time_ns - r->plan->steps->time_ns) * r->o->timing;
        uint64_t due = r->started + (after > 0 ? (uint64_t)after : 0);

        while (r->o->timing > 0 && ms_until(due) > 0)
                live_pump(r, ms_until(due));
}

static int run_step(struct replay *r, const struct plan_step *s)
{
        switch (s->kind) {
        case PLAN_SUBMIT:
                s->cmd->live = NULL; /* of an earlier turn */
                keep_time(r, s);
                return submit(r, s->cmd);
        case PLAN_ANSWER:
                answer(r, s->cmd);
                return 0;
        case PLAN_GAP:
                contents_lost(r);
                return 0;
        case PLAN_CLOSE:
                close_queue(r, s->queue->live);
                return 0;
        }
        return 0;
}

static void clean_up(struct replay *r)
{
        while (r->queues)
                live_close(r, r->queues);
        while (r->assocs) {
                struct live_assoc *a = r->assocs;

                r->assocs = a->next;
                free(a);
        }
        contents_free(r);
        free(r->fds);
}

static unsigned queues_of(const struct replay_plan *p)
{
        unsigned n = 1;

        for (const struct plan_queue *q = p->queues; q; q = q->next)
                n++;
        return n;
}

int replay_run(const struct replay_plan *plan, const struct replay_options *options, replay_fn *fn,
               void *user, struct replay_totals *totals, char *err, size_t err_size)
{
        struct replay r = { .plan = plan, .o = options, .fn = fn, .user = user, .totals = totals };
        size_t looked_at = 0;
        int rc = 0;

        for (struct plan_queue *q = plan->queues; q; q = q->next)
                q->live = NULL;
        r.fds = calloc(queues_of(plan) * (size_t)HOST_QUEUE_FDS, sizeof(*r.fds));
        r.started = loop_now_ns();
        if (!r.fds)
                rc = host_fail(&r.error, HOST_BROKEN, "out of memory");
        for (const struct plan_step *s = plan->steps; s && rc == 0; s = s->next) {
                rc = run_step(&r, s);
                spill_looked(&plan->spill, &looked_at,
                             sizeof(*s) + (s->cmd ? sizeof(*s->cmd) + s->cmd->data_len : 0));
        }
        for (const struct plan_queue *q = plan->queues; q && rc == 0; q = q->next)
                close_queue(&r, q->live); /* of a capture that --stop-at cut */
        clean_up(&r);
        if (rc < 0)
                snprintf(err, err_size, "%s", r.error.line);
        return rc;
}
