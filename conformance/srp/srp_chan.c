/* SPDX-License-Identifier: BSD-3-Clause */
#include "srp_chan.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pdu/io/loop.h"
#include "pdu/io/verbs/rdma_wait.h"
#include "pdu/scsi/scsi.h"
#include "srp_suite.h"

enum {
        SETUP_MS = 5000,
        READS = 16,
        SENDS = CHAN_DEEP + CHAN_LARGES,
        SLOTS_AT = CHAN_ARENA,
        LARGES_AT = SLOTS_AT + CHAN_DEEP * CHAN_SLOT,
        RECVS_AT = LARGES_AT + CHAN_LARGES * CHAN_LARGE,
        MEMORY = RECVS_AT + CHAN_DEEP * CHAN_IU_IN,
        LINE_IU = 1, /* how a line's header reads */
        APART = 64,  /* pieces of memory, at least */
        CANARY = 0xa5,
        LINGER_MS = 10000, /* in which a WRITE may be executed that nobody waits for any more */
};

struct world {
        struct rdma_group group;
        bool open;
        struct chan *chans;
};

static struct chan *chan_of(struct rdma_ep *e)
{
        return (struct chan *)e;
}

/* --- a case ----------------------------------------------------------------------------------- */

void chan_world_begin(struct t *t)
{
        struct world *w = calloc(1, sizeof(*w));

        if (!w)
                broke(t, "out of memory");
        t->world = w;
        if (t->suite->role == ROLE_HOST)
                return;
        if (rdma_group_open(&w->group, t->suite->verbs, NULL, loop_now_ms) < 0)
                broke(t, "RDMA: %s", strerror(errno));
        w->open = true;
}

static void free_chan(struct chan *c)
{
        struct chan_iu *next;

        rdma_ep_destroy(&c->ep);
        if (c->registered)
                verbs_dereg(c->domain, &c->mr);
        if (c->memory)
                munmap(c->memory, MEMORY);
        for (struct chan_iu *iu = c->first; iu; iu = next) {
                next = iu->next;
                free(iu);
        }
        free(c->shadow);
        free(c->seen);
        free(c);
}

/* A WRITE without a response: it may be executed yet, whatever became of its channel (SAM-5 6.3.4: no time is prescribed
 * for what the loss of a nexus ends). */
static bool may_write_late(const struct chan *c)
{
        const struct order *o = c->orders;

        while (o && o->iu[offsetof(struct srp_cmd, cdb)] != SCSI_WRITE_10)
                o = o->next;
        return o;
}

void chan_world_end(struct t *t)
{
        struct world *w = t->world;
        struct chan *next;

        if (!w)
                return;
        for (struct chan *c = w->chans; c; c = next) {
                next = c->next;
                if (may_write_late(c))
                        t->lingers = LINGER_MS;
                free_chan(c);
        }
        if (w->open)
                rdma_group_close(&w->group);
        free(w);
        t->world = NULL;
}

/* --- what is seen ----------------------------------------------------------------------------- */

static void judge(struct chan *c, const struct rule_set *found, const char *line)
{
        rule_each_in (found, id)
                if (t_rule(c->t, id)->bound == PARTY_CONTROLLER)
                        t_notice(c->t, id, line);
}

static void show_iu(struct chan *c, bool sent, const void *p, uint32_t n, char line[EXCHANGE_LINE])
{
        struct text text = text_in(line, EXCHANGE_LINE);

        srp_line(&text, p, n, srp_channel_immediate(c->seen));
        exchange_header(&c->t->log, c->number, sent, LINE_IU, p, n, line);
}

void chan_fields(const struct exchange_line *l, char *buf, size_t size)
{
        struct text_lines lines = { .text = text_in(buf, size) };
        struct describe d = text_describer(&lines);

        srp_describe(&d, l->header, sizeof(l->header), 0);
}

/* What may have changed of the arena is what commands that are outstanding describe. */
static void look_at_memory(struct chan *c, const char *line)
{
        struct rule_set found = { 0 };

        for (const struct order *o = c->orders; o; o = o->next)
                for (unsigned i = 0; i < o->ins; i++)
                        memcpy(c->shadow + o->in[i].at, c->arena + o->in[i].at, o->in[i].len);
        if (memcmp(c->arena, c->shadow, c->arena_used + APART) == 0)
                return;
        memcpy(c->shadow, c->arena, c->arena_used + APART);
        rule_add(&found, SRP_TRANSFER);
        judge(c, &found, line);
}

static void forget_order(struct chan *c, uint64_t tag)
{
        struct order **at = &c->orders;

        while (*at && (*at)->tag != tag)
                at = &(*at)->next;
        if (*at)
                *at = (*at)->next;
}

static void keep(struct chan *c, const void *p, uint32_t n)
{
        struct chan_iu *iu = calloc(1, sizeof(*iu));

        if (!iu) {
                c->t->log.starved = true;
                return;
        }
        iu->n = n;
        memcpy(iu->p, p, n);
        *c->last = iu;
        c->last = &iu->next;
}

static void take_iu(struct chan *c, const uint8_t *p, uint32_t n)
{
        struct rule_set found = { 0 };
        char line[EXCHANGE_LINE];
        union srp_iu iu;
        bool whole = srp_read(p, n, &iu);

        show_iu(c, false, p, n, line);
        look_at_memory(c, line);
        srp_channel_iu(c->seen, PARTY_CONTROLLER, p, n, &found);
        judge(c, &found, line);
        if (whole && srp_info(iu.opcode)->grants)
                c->limit += (int32_t)be32_get(iu.rsp.req_lim_delta);
        if (whole && iu.opcode == SRP_RSP)
                forget_order(c, be64_get(iu.rsp.tag));
        if (whole && iu.opcode == SRP_T_LOGOUT) {
                c->left = true;
                c->left_for = be32_get(iu.t_logout.reason);
        }
        keep(c, p, n);
}

/* --- completions ------------------------------------------------------------------------------ */

static void post_recv(struct chan *c, struct verbs_wr *wr)
{
        struct verbs_wr *bad;

        wr->next = NULL;
        if (!c->how.no_receives && rdma_ep_post_recv(&c->ep, wr, &bad) < 0)
                c->failed = true;
}

static void sent(struct chan *c, const struct verbs_wr *wr)
{
        if (wr >= c->send && wr < c->send + CHAN_DEEP)
                c->out[wr - c->send] = false;
        else
                c->large_out[wr - c->large] = false;
}

static void failed(struct chan *c, const struct verbs_wc *wc)
{
        if (!c->failed)
                exchange_event(&c->t->log, c->number, "%s failed: %s", verbs_op_name(wc->wr->op),
                               verbs_status_name(wc->status));
        c->failed = true;
        if (c->state < CHAN_REJECTED)
                c->state = CHAN_ENDED;
}

static bool on_completion(struct rdma_ep *e, const struct verbs_wc *wc)
{
        struct chan *c = chan_of(e);

        if (wc->wr->op != VERBS_RECV)
                sent(c, wc->wr);
        if (wc->status == VERBS_FLUSHED)
                return false;
        if (wc->status != VERBS_SUCCESS) {
                failed(c, wc);
        } else if (wc->wr->op == VERBS_RECV) {
                take_iu(c, wc->wr->sge[0].addr, wc->bytes);
                post_recv(c, wc->wr);
        }
        return false; /* the target is to end it */
}

/* --- events ----------------------------------------------------------------------------------- */

static void ended(struct chan *c, const char *how)
{
        (void)rdma_group_poll(c->ep.group, UINT_MAX); /* what was sent before the end counts */
        if (c->state < CHAN_REJECTED)
                c->state = CHAN_ENDED;
        exchange_event(&c->t->log, c->number, "%s", how);
        srp_channel_close(c->seen);
}

static void accepted(struct chan *c, const struct verbs_event *e)
{
        struct rule_set found = { 0 };
        char line[EXCHANGE_LINE];
        struct text text = text_in(line, sizeof(line));
        union srp_iu iu;

        c->state = CHAN_LIVE;
        srp_channel_accept(c->seen, e->data, e->param.len, &found);
        srp_line(&text, e->data, e->param.len, 0);
        exchange_cm(&c->t->log, c->number, false, "accepted: %.150s", line);
        if (srp_read(e->data, e->param.len, &iu) && iu.opcode == SRP_LOGIN_RSP) {
                c->rsp = iu.login_rsp;
                c->limit = (int32_t)be32_get(c->rsp.req_lim_delta);
        }
        judge(c, &found, line);
}

enum {
        IB_CONSUMER = 28,
        IW_REFUSED = 111
}; /* why the CM says that a connection was rejected: the target did it itself */

static void rejected(struct chan *c, const struct verbs_event *e)
{
        struct rule_set found = { 0 };
        char line[EXCHANGE_LINE];
        struct text text = text_in(line, sizeof(line));
        bool itself =
            e->reason == IB_CONSUMER || e->reason == IW_REFUSED || e->reason == -IW_REFUSED;
        union srp_iu iu;

        c->state = CHAN_REJECTED;
        c->reason = e->reason;
        if (srp_read(e->data, e->param.len, &iu) && iu.opcode == SRP_LOGIN_REJ) {
                c->rej = iu.login_rej;
                c->has_rej = true;
        }
        srp_line(&text, e->data, e->param.len, 0);
        exchange_cm(&c->t->log, c->number, false, "rejected (%d): %.150s", e->reason, line);
        if (itself || c->has_rej)
                srp_channel_reject(c->seen, e->data, e->param.len, &found);
        judge(c, &found, line);
}

/* The life ends with the connection; of a failure of the queue pair it is not told: the target is to disconnect then. */
static bool on_event(struct rdma_ep *e, const struct verbs_event *v)
{
        struct chan *c = chan_of(e);

        switch (v->type) {
        case VERBS_RESOLVED:
                c->domain = e->dev->domain;
                return true;
        case VERBS_ESTABLISHED:
                accepted(c, v);
                return true;
        case VERBS_REJECTED:
                rejected(c, v);
                return true;
        case VERBS_DISCONNECTED:
                c->disconnected = true;
                ended(c, "disconnected");
                return !c->deaf;
        case VERBS_UNREACHABLE:
        case VERBS_CONNECT_ERROR:
        case VERBS_DEVICE_REMOVED:
        case VERBS_QP_ERROR:
                c->failed = true;
                ended(c, verbs_event_name(v->type));
                return v->type != VERBS_QP_ERROR;
        case VERBS_CONNECT_REQUEST:
        case VERBS_TIMEWAIT_EXIT:
        case VERBS_ADDR_CHANGE:
        case VERBS_LAST_WQE:
        case VERBS_PORT_DOWN:
        case VERBS_PORT_UP:
                break;
        }
        return true;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static bool pump(struct rdma_group *g)
{
        unsigned n = rdma_group_poll(g, UINT_MAX);

        n += rdma_group_events(g, UINT_MAX);
        return n + rdma_group_poll(g, UINT_MAX) > 0;
}

void chan_look(struct chan *c)
{
        while (pump(c->ep.group))
                continue;
}

/* However late it is, what is there already counts. */
static bool wait_for(struct chan *c, bool (*is_so)(const struct chan *c), uint64_t deadline)
{
        while (!is_so(c)) {
                int left = loop_left(deadline);

                if (!pump(c->ep.group)) {
                        rdma_group_sleep(c->ep.group, left);
                        (void)pump(c->ep.group);
                }
                if (left == 0)
                        break;
        }
        t_settle(c->t);
        return is_so(c);
}

static bool is_over(const struct chan *c)
{
        return c->state >= CHAN_REJECTED;
}

static bool is_resolved(const struct chan *c)
{
        return c->domain || is_over(c);
}

static bool is_decided(const struct chan *c)
{
        return c->state == CHAN_LIVE || is_over(c);
}

static bool has_more(const struct chan *c)
{
        return c->first || is_over(c);
}

bool chan_is_request(const struct chan_iu *iu)
{
        return iu->n >= sizeof(struct srp_cred_req) &&
               (iu->p[0] == SRP_CRED_REQ || iu->p[0] == SRP_AER_REQ);
}

static bool has_request(const struct chan *c)
{
        const struct chan_iu *iu = c->first;

        while (iu && !chan_is_request(iu))
                iu = iu->next;
        return iu;
}

static bool has_limit(const struct chan *c)
{
        return c->limit >= c->awaited || c->left || is_over(c) || (!c->mute && has_request(c));
}

static bool is_ended(const struct chan *c)
{
        return c->disconnected || c->failed || c->state == CHAN_REJECTED;
}

static bool is_disconnected(const struct chan *c)
{
        return c->disconnected;
}

bool chan_is_decided(struct chan *c, uint64_t deadline)
{
        return wait_for(c, is_decided, deadline);
}

bool chan_is_cm_busy(const struct chan *c)
{
        enum { NO_QP = 1, NO_RESOURCES = 3, STALE = 10 }; /* IBTA 12.6.7.2 */

        return c->state == CHAN_REJECTED &&
               (c->reason == NO_QP || c->reason == NO_RESOURCES || c->reason == STALE);
}

bool chan_has_iu(struct chan *c, uint64_t deadline)
{
        (void)wait_for(c, has_more, deadline);
        return c->first;
}

bool chan_has_limit(struct chan *c, int64_t least, uint64_t deadline)
{
        c->awaited = least;
        return wait_for(c, has_limit, deadline);
}

bool chan_is_ended(struct chan *c, uint64_t deadline)
{
        return wait_for(c, is_ended, deadline);
}

bool chan_is_disconnected(struct chan *c, uint64_t deadline)
{
        return wait_for(c, is_disconnected, deadline);
}

static const struct chan_iu *take_at(struct chan *c, struct chan_iu **at)
{
        struct chan_iu *iu = *at, *copy = t_alloc(c->t, sizeof(*copy));

        *copy = *iu;
        *at = iu->next;
        if (!*at)
                c->last = at;
        free(iu);
        return copy;
}

const struct chan_iu *chan_take(struct chan *c)
{
        return take_at(c, &c->first);
}

const struct chan_iu *chan_take_request(struct chan *c)
{
        struct chan_iu **at = &c->first;

        while (*at && !chan_is_request(*at))
                at = &(*at)->next;
        return *at ? take_at(c, at) : NULL;
}

/* What comes late is seen, too. */
void chan_world_settle(struct t *t)
{
        struct world *w = t->world;

        if (!w->open)
                return;
        while (pump(&w->group))
                continue;
        for (struct chan *c = w->chans; c; c = c->next)
                if (c->arena)
                        look_at_memory(c, "memory, at the end of the case");
}

/* --- making ----------------------------------------------------------------------------------- */

static bool make_memory(struct chan *c)
{
        c->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (c->memory == MAP_FAILED) {
                c->memory = NULL;
                return false;
        }
        c->arena = c->memory;
        c->shadow = calloc(1, CHAN_ARENA);
        c->registered = verbs_reg(c->domain, c->memory, MEMORY,
                                  VERBS_REMOTE_READ | VERBS_REMOTE_WRITE, &c->mr) == 0;
        return c->shadow && c->registered;
}

static bool make_queue_pair(struct chan *c)
{
        struct verbs_qp_attr attr = { .send_wrs = SENDS, .recv_wrs = CHAN_DEEP };

        if (!make_memory(c) || rdma_ep_qp(&c->ep, &attr) < 0)
                return false;
        for (unsigned i = 0; i < CHAN_DEEP; i++) {
                uint8_t *at = c->memory + RECVS_AT + i * CHAN_IU_IN;

                c->recv[i] = (struct verbs_wr) { .op = VERBS_RECV,
                                                 .n_sge = 1,
                                                 .sge = { { at, CHAN_IU_IN, c->mr.lkey } } };
                post_recv(c, &c->recv[i]);
        }
        return !c->failed;
}

static const struct rdma_ep_ops ops = { .event = on_event, .completed = on_completion };

static struct chan *add_chan(struct t *t, const struct chan_login *how)
{
        struct world *w = t->world;
        struct chan *c = calloc(1, sizeof(*c));

        if (!c)
                broke(t, "out of memory");
        c->t = t;
        c->number = ++t->connections;
        c->how = *how;
        c->last = &c->first;
        c->tag = 0x100;
        rdma_ep_init(&c->ep, &w->group, &ops);
        c->next = w->chans;
        w->chans = c;
        c->seen = calloc(1, sizeof(*c->seen));
        if (!c->seen)
                broke(t, "out of memory");
        srp_channel_init(c->seen);
        return c;
}

struct chan *chan_new(struct t *t, const struct chan_login *how)
{
        struct chan *c = add_chan(t, how);
        const struct suite *s = t->suite;
        unsigned ms = (unsigned)t_scaled(t, SETUP_MS);

        if (rdma_ep_resolve(&c->ep, s->traddr, s->trsvcid, ms) < 0)
                broke(t, "%s port %s: %s", s->traddr, s->trsvcid, strerror(errno));
        (void)wait_for(c, is_resolved, now_ms() + ms);
        if (!c->domain)
                broke(t, "%s port %s cannot be reached over RDMA", s->traddr, s->trsvcid);
        if (!make_queue_pair(c))
                broke(t, "no queue pair: %s", strerror(errno));
        return c;
}

/* --- logging in ------------------------------------------------------------------------------- */

/* Another one for each case, and those of the runs beside. */
static void name_initiator(const struct chan *c, srp_port_id id)
{
        static const uint8_t name[8] = { 'n', 'v', 'm', 'f', 's', 'p', 'e', 'c' };

        memcpy(id, name, sizeof(name));
        be_put(id + 8, 4, c->t->suite->seed);
        be_put(id + 12, 3, c->t->number);
        id[12] ^= (uint8_t)(c->t->number >> 24);
        id[15] = (uint8_t)c->how.other;
}

/* That is not zero. */
static uint32_t first_of(uint32_t a, uint32_t b, uint32_t c)
{
        return a ? a : b ? b : c;
}

static struct srp_login_req login_of(const struct chan *c)
{
        const struct chan_login *how = &c->how;
        bool immediate = how->flags & SRP_IMMEDIATE;
        const struct srp_peer *peer = srp_peer_of(c->t->suite);
        uint16_t formats = (uint16_t)first_of(how->formats, peer->formats,
                                              SRP_FORMAT_DIRECT | SRP_FORMAT_INDIRECT);
        struct srp_login_req r = {
                .opcode = how->opcode ? how->opcode : SRP_LOGIN_REQ,
                .tag = be64(0x4c4f47494eu + c->number),
                .req_it_iu_len = be32(first_of(how->it_iu, peer->it_iu, 8260)),
                .req_buf_fmt = be16(how->no_formats ? 0 : formats),
                .req_flags = how->flags,
                .imm_data_offset = be16(how->imm_at ? how->imm_at
                                        : immediate ? CHAN_IMM_AT
                                                    : 0),
        };

        memcpy(r.target_port_id, peer->target, sizeof(srp_port_id));
        r.target_port_id[7] ^= how->other_target;
        name_initiator(c, r.initiator_port_id);
        return r;
}

void chan_connect(struct chan *c)
{
        struct srp_login_req_cm cm;
        uint8_t data[sizeof(cm)] = { 0 }; /* the CM fills up with zeroes */
        struct verbs_conn_param param = {
                .data = data, .len = sizeof(data), .reads_in = READS, .rnr_retry = 7, .retry = 7
        };
        const struct verbs_caps *caps = c->ep.dev->caps;
        struct rule_set unused = { 0 };
        char line[EXCHANGE_LINE];
        struct text text = text_in(line, sizeof(line));

        c->asked = login_of(c);
        cm = srp_login_to_cm(&c->asked);
        memset(cm.rsvd50, c->how.reserved, sizeof(cm.rsvd50));
        if (c->how.len)
                param.len = c->how.len > 0 ? (uint8_t)c->how.len : 0;
        memcpy(data, &cm, param.len);
        if (caps->reads_in < READS)
                param.reads_in = caps->reads_in;
        srp_line(&text, &c->asked, sizeof(c->asked), 0);
        exchange_cm(&c->t->log, c->number, true, "connect request: %.120s, %u bytes", line,
                    param.len);
        srp_channel_login(c->seen, data, sizeof(data), false, &unused);
        c->state = CHAN_ASKED;
        if (rdma_ep_connect(&c->ep, &param) < 0)
                broke(c->t, "connect: %s", strerror(errno));
}

/* --- sending ---------------------------------------------------------------------------------- */

static bool has_room(const struct chan *c)
{
        return !c->out[c->sent % CHAN_DEEP] || is_over(c);
}

/* A work request with its memory, that is not on its way; NULL: there is none. */
static struct verbs_wr *send_slot(struct chan *c, uint32_t n)
{
        unsigned i = 0;

        if (n <= CHAN_SLOT) {
                i = c->sent++ % CHAN_DEEP;
                c->out[i] = true;
                c->send[i].sge[0].addr = c->memory + SLOTS_AT + i * CHAN_SLOT;
                return &c->send[i];
        }
        while (i < CHAN_LARGES && c->large_out[i])
                i++;
        if (i == CHAN_LARGES)
                return NULL;
        c->large_out[i] = true;
        c->large[i].sge[0].addr = c->memory + LARGES_AT + i * CHAN_LARGE;
        return &c->large[i];
}

static void post(struct chan *c, struct verbs_wr *wr, uint32_t n)
{
        struct verbs_wr *bad;

        wr->next = NULL;
        wr->op = VERBS_SEND;
        wr->flags = VERBS_SIGNALED;
        wr->n_sge = 1;
        wr->sge[0].len = n;
        wr->sge[0].lkey = c->mr.lkey;
        if (rdma_ep_post(&c->ep, wr, &bad) == 0)
                return;
        rdma_ep_flushed(&c->ep, bad);
        c->failed = true;
}

void chan_send(struct chan *c, const void *iu, uint32_t n, bool counted)
{
        struct rule_set unused = { 0 };
        char line[EXCHANGE_LINE];
        struct verbs_wr *wr;

        show_iu(c, true, iu, n, line);
        if (counted)
                srp_channel_iu(c->seen, PARTY_HOST, iu, n, &unused);
        else
                srp_channel_miss(c->seen, PARTY_HOST);
        (void)pump(c->ep.group);
        if (!has_room(c))
                (void)wait_for(c, has_room, t_deadline(c->t, SETUP_MS));
        if (is_over(c) || !c->ep.ep)
                return;
        wr = has_room(c) ? send_slot(c, n) : NULL;
        if (!wr)
                broke(c->t, "what was sent before is not taken");
        memcpy(wr->sge[0].addr, iu, n);
        post(c, wr, n);
}

/* --- ending ----------------------------------------------------------------------------------- */

void chan_leave(struct chan *c)
{
        exchange_event(&c->t->log, c->number, "we disconnect (DREQ)");
        rdma_ep_step(&c->ep, LIFE_CLOSE);
}

void chan_fail(struct chan *c)
{
        c->t->negative = true;
        exchange_event(&c->t->log, c->number, "our queue pair fails without a disconnect request");
        (void)rdma_ep_fail(&c->ep);
}

void chan_vanish(struct chan *c)
{
        c->t->negative = true;
        exchange_event(&c->t->log, c->number, "our endpoint is destroyed");
        rdma_ep_destroy(&c->ep);
        c->state = CHAN_ENDED;
}

/* --- memory ----------------------------------------------------------------------------------- */

/* What is not to be written has a pattern. */
static void guard(struct chan *c)
{
        memset(c->arena + c->arena_used, CANARY, APART);
        memset(c->shadow + c->arena_used, CANARY, APART);
}

uint8_t *chan_memory(struct chan *c, uint32_t len)
{
        uint32_t at = c->arena_used + APART;

        if (len > CHAN_ARENA - 3 * APART || at > CHAN_ARENA - 2 * APART - len)
                broke(c->t, "the case has used up its memory");
        guard(c);
        c->arena_used = (at + len + APART - 1) / APART * APART;
        memset(c->arena + at, 0, c->arena_used - at);
        memset(c->shadow + at, 0, c->arena_used - at);
        guard(c);
        return c->arena + at;
}

struct srp_desc chan_desc(const struct chan *c, const uint8_t *p, uint32_t len)
{
        return (struct srp_desc) { (uintptr_t)p, c->mr.rkey, len };
}
