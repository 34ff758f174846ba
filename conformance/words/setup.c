/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections and associations. */
#include <string.h>

#include "conn_tcp.h"
#include "pdu/nvme/wire/discovery.h"
#include "pdu/nvme/wire/text.h"
#include "words.h"

/* --- connections --------------------------------------------------------------------------- */

static void on_breach(void *arg, enum rule_id rule, const struct message *m)
{
        t_breach(arg, rule, m, NULL);
}

struct queue *new_queue(struct t *t)
{
        struct queue *q = t_alloc(t, sizeof(*q));

        *q = (struct queue) { .t = t };
        return q;
}

void attach(struct queue *q, struct suite_conn *c)
{
        q->conn = c;
        c->broken = on_breach;
        c->arg = q->t;
        c->leaving = q->t->suite->leaving;
        q->next = world(q->t)->queues;
        world(q->t)->queues = q;
}

static void secure(struct queue *q, const struct nvme_tls *tls, const char *subnqn)
{
        char error[RESULT_TEXT];

        if (conn_secure(conn_tcp(q->conn), tls, world(q->t)->hostnqn, subnqn, error,
                        sizeof(error)) < 0)
                broke(q->t, "%s", error);
}

/* With TLS if the run is. One identity is offered throughout, whichever subsystem Connect names. */
static void secure_as_run(struct queue *q)
{
        const struct peer *p = peer(q->t);

        if (p->tls_always)
                secure(q, &p->tls, p->subnqn ? p->subnqn : NQN_DISCOVERY);
}

static bool reads(const char *field, size_t size, const char *text)
{
        size_t len = text_len(field, size);

        return text && len == strlen(text) && memcmp(field, text, len) == 0;
}

bool is_tested(const struct t *t, const struct disc_entry *e)
{
        return reads(e->subnqn, sizeof(e->subnqn), peer(t)->subnqn) &&
               reads(e->traddr, sizeof(e->traddr), t->suite->traddr) &&
               reads(e->trsvcid, sizeof(e->trsvcid), t->suite->trsvcid);
}

struct treq tested_treq(struct t *t)
{
        struct treq treq = { .all = UINT8_MAX };
        uint64_t n = 0;
        const struct disc_header *h = whole_discovery_log(discovery_queue(t), 0, &n);

        for (const struct disc_entry *e = h->entries; e < h->entries + n; e++)
                if (is_tested(t, e)) {
                        treq.some |= e->treq;
                        treq.all &= e->treq;
                }
        return treq;
}

struct queue *tcp_open_bare(struct t *t)
{
        const struct suite *s = t->suite;
        struct queue *q = new_queue(t);
        char error[RESULT_TEXT];
        struct suite_conn *c =
            conn_tcp_open(s->traddr, s->trsvcid, (unsigned)(REPLY_MS * s->timeout_scale),
                          ++t->connections, &t->log, error, sizeof(error));

        if (!c)
                broke(t, "%s", error);
        attach(q, c);
        return q;
}

void await_target(struct t *t)
{
        enum { LEAST_MS = 5000, STEP_MS = 100 };
        const struct suite *s = t->suite;
        unsigned ms = announced_ms(caps(t)) > LEAST_MS ? announced_ms(caps(t)) : LEAST_MS;
        uint64_t left = t_lend(t, t_scaled(t, ms)), end = t_deadline(t, ms);
        struct suite_conn *c = NULL;
        char error[RESULT_TEXT];

        while (!t_is_rdma(t) && !c && now_ms() < end) {
                c = conn_tcp_open(s->traddr, s->trsvcid, STEP_MS, ++t->connections, &t->log, error,
                                  sizeof(error));
                if (c)
                        conn_free(c);
                else
                        pause_ms(t, STEP_MS);
        }
        t_repay(t, left);
}

struct queue *tcp_open(struct t *t)
{
        struct queue *q = tcp_open_bare(t);

        secure_as_run(q);
        return q;
}

static struct queue *open_with(struct t *t, const struct nvme_tls *tls, const char *subnqn)
{
        struct queue *q;

        if (!tls)
                return tcp_open(t);
        q = tcp_open_bare(t);
        q->tls = tls;
        secure(q, tls, subnqn);
        return q;
}

/* What fails in here is not what the case is about, unless it says so. */
static bool begin_setup(struct t *t, const struct setup *s)
{
        bool was = t->setting_up;

        t->setting_up = !s->judged;
        return was;
}

static void exchange_ics(struct queue *q, const struct setup *s)
{
        queue_icreq(
            q, (struct ic) {
                   .hpda = s->hpda, .hdgst = s->hdgst, .ddgst = s->ddgst, .maxr2t = s->maxr2t });
        expect_icresp(q);
}

static struct queue *ready(struct t *t, struct queue *admin, const struct setup *s)
{
        bool was = begin_setup(t, s);
        struct queue *q;

        if (t_is_rdma(t)) {
                q = rdma_ready(t, admin, s->qid, s->sqsize);
        } else {
                q = open_with(t, admin ? admin->tls : s->tls, admin ? admin->subnqn : s->subnqn);
                exchange_ics(q, s);
        }
        q->admin = admin;
        q->host = admin ? admin->host : s->host;
        q->conn->admin = !admin && s->qid == 0;
        t->setting_up = was;
        return q;
}

struct queue *queue_bare(struct t *t, struct setup s)
{
        s.sqsize = fitting_sqsize(t, s.qid, s.sqsize);
        return ready(t, NULL, &s);
}

/* I/O queues need a controller that has some; that a discovery controller has none is what a case of
 * discovery may want to see. */
static void require_io(struct t *t)
{
        require(t, caps(t)->io || t->test->needs & DISCOVERY, "the target has no I/O subsystem");
}

struct queue *queue_join(struct queue *admin, struct setup s)
{
        require_io(admin->t);
        s.sqsize = fitting_sqsize(admin->t, s.qid, s.sqsize);
        return ready(admin->t, admin, &s);
}

/* Connect has succeeded on q. */
static void connected(struct queue *q, struct reply r)
{
        q->cntlid = (uint16_t)r.dw0;
        q->sqfc_off = r.sqhd == SQHD_DISABLED;
        if (r.dw0 & (CONNECT_ATR | CONNECT_ASCR))
                auth_connected(q, r.dw0);
}

void expect_connected(struct queue *q, uint16_t cid)
{
        connected(q, succeed(q, cid));
}

/* Some look at PDO as though 128 were its limit, which is that of the alignment. */
static bool goes_by_r2t(struct queue *q, const struct setup *s)
{
        enum { NEAR = 128 };
        const union pdu h = { .cmd.ch = { .type = PDU_CAPSULE_CMD } };

        return s->near && !t_is_rdma(q->t) && pdu_data_offset(&h, &tcp_of(q)->h2c) > NEAR;
}

struct queue *queue_admin(struct t *t, struct setup s)
{
        bool was = begin_setup(t, &s);
        uint16_t sqsize = s.sqsize > 31 ? s.sqsize : 31;
        struct queue *q;

        s.qid = 0;
        s.sqsize = sqsize;
        q = queue_bare(t, s);
        connected(q, succeed(q, send_connect(q, .kato = s.kato, .cattr = s.cattr, .sqsize = sqsize,
                                             .subnqn = s.subnqn, .hostnqn = s.hostnqn,
                                             .through_r2t = goes_by_r2t(q, &s))));
        q->admin = q;
        if (!s.disabled)
                set_cc(q, CC_RUN, CSTS_RDY, CSTS_RDY);
        t->setting_up = was;
        return q;
}

struct queue *ana_queue(struct t *t)
{
        require(t, caps(t)->ana, NO_ANA);
        return admin_queue(t, .subnqn = caps(t)->ana);
}

/* Number of Queues, as many as any case uses. */
static void ask_for_queues(struct queue *admin, uint16_t qid)
{
        enum { QUEUES = 8 };
        uint32_t n = QUEUES - 1;
        struct reply r;

        if (admin->queues_granted == 0) {
                r = succeed(admin, send_set_feature(admin, FEAT_QUEUES, n << 16 | n));
                admin->queues_granted = (r.dw0 & 0xffff) + 1;
        }
        require(admin->t, admin->queues_granted >= qid, "the target grants only %u I/O queues",
                admin->queues_granted);
}

struct queue *queue_more(struct queue *admin, struct setup s)
{
        bool was = begin_setup(admin->t, &s);
        struct queue *q;

        require_io(admin->t);
        ask_for_queues(admin, s.qid);
        s.sqsize = fitting_sqsize(admin->t, s.qid, s.sqsize);
        q = queue_join(admin, s);
        connected(q, succeed(q, send_connect(q, .qid = s.qid, .cattr = s.cattr, .sqsize = s.sqsize,
                                             .through_r2t = goes_by_r2t(q, &s))));
        q->cntlid = admin->cntlid;
        admin->t->setting_up = was;
        return q;
}

struct queue *queue_io(struct t *t, struct setup s)
{
        bool was = begin_setup(t, &s);
        struct setup a = s;
        struct queue *q;

        require_io(t);
        a.cattr = s.cattr & CATTR_DISABLE_SQFC; /* some take it from this Connect */
        a.judged = false;
        a.sqsize = 31;
        q = queue_more(queue_admin(t, a), s);
        t->setting_up = was;
        return q;
}

struct queue *second_queue(struct queue *q, unsigned spare)
{
        return q->admin->queues_granted >= 2 + spare ? io_queue_of(q->admin, .qid = 2) : NULL;
}

void hang_up(struct queue *q)
{
        provoke(q);
        conn_close(q->conn);
        q->over = true;
}

void rst(struct queue *q)
{
        provoke(q);
        conn_reset(q->conn);
        q->over = true;
}

void half_close(struct queue *q)
{
        provoke(q);
        conn_half_close(tcp_of(q));
}

struct queue *granting_queue(struct t *t, const char *subnqn)
{
        struct queue *q = admin_queue(t, .subnqn = subnqn);

        grant_queue(q);
        return q;
}

void grant_queue(struct queue *admin)
{
        bool was = admin->t->setting_up;

        require_io(admin->t);
        admin->t->setting_up = true;
        ask_for_queues(admin, 1);
        admin->t->setting_up = was;
}
