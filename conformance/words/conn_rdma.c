/* SPDX-License-Identifier: BSD-3-Clause */
#include "conn_rdma.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/io/verbs/rdma_wait.h"
#include "pdu/io/verbs/verbs_record.h"
#include "pdu/nvme/wire/text.h"

enum { LATE_MS = 20 };

struct work { /* a work request with its memory; until the connection is freed */
        struct verbs_wr wr;
        struct work *next;
        struct verbs_mr mr;
        bool registered;
        uint8_t bytes[];
};

struct rdma_group *conn_rdma_group(struct verbs_provider *p, const char *id, char *error,
                                   size_t size)
{
        struct rdma_group *g = malloc(sizeof(*g));

        if (g && rdma_group_open(g, p, NULL, loop_now_ms) == 0) {
                verbs_record_comment(g->context, id);
                return g;
        }
        snprintf(error, size, "RDMA: %s", strerror(errno));
        free(g);
        return NULL;
}

void conn_rdma_group_free(struct rdma_group *g)
{
        rdma_group_close(g);
        free(g);
}

/* --- memory -------------------------------------------------------------------------------- */

static uint64_t canary(const struct region *r, size_t i)
{
        uint64_t x = (r->seed + i) * UINT64_C(0x9e3779b97f4a7c15);

        return x ^ x >> 29;
}

/* The n bytes from base + at are still canaries. */
static bool intact(const struct region *r, size_t at, size_t n)
{
        for (size_t i = at; i < at + n; i++) {
                uint64_t w = canary(r, i / 8);

                if (i % 8 == 0 && i + 8 <= at + n) {
                        if (memcmp(r->base + i, &w, 8) != 0)
                                return false;
                        i += 7;
                } else if (r->base[i] != ((const uint8_t *)&w)[i % 8]) {
                        return false;
                }
        }
        return true;
}

static void fill(struct region *r)
{
        for (size_t i = 0; i < r->size; i += 8) {
                uint64_t w = canary(r, i / 8);

                memcpy(r->base + i, &w, 8);
        }
}

bool region_untouched(const struct region *r, uint32_t offset, uint32_t n)
{
        return intact(r, (size_t)(r->data - r->base) + offset, n);
}

static void *out_of_memory(char *error, size_t size)
{
        snprintf(error, size, "out of memory");
        return NULL;
}

struct region *region_new(struct conn_rdma *c, uint32_t len, unsigned access, bool with_canary,
                          char *error, size_t size)
{
        static _Atomic uint64_t seeds = 1;
        size_t guard = with_canary ? RDMA_GUARD : 0;
        struct region *r = conn_alloc(&c->base, sizeof(*r));

        if (!r)
                return out_of_memory(error, size);
        *r = (struct region) { .domain = c->domain, .len = len, .canary = with_canary, .cid = -1 };
        r->seed = atomic_fetch_add(&seeds, 0x10001) << 24 ^ loop_now_ms();
        r->size = (guard + len + guard + 63) / 64 * 64;
        r->base = conn_alloc(&c->base, r->size + 64);
        if (!r->base) {
                free(r);
                return out_of_memory(error, size);
        }
        r->data = r->base + guard;
        if (with_canary)
                fill(r);
        r->next = c->regions;
        c->regions = r;
        r->registered = verbs_reg(c->domain, with_canary ? r->base : r->data,
                                  with_canary ? r->size
                                  : len > 0   ? len
                                              : 1,
                                  access, &r->mr) == 0;
        if (r->registered)
                return r;
        snprintf(error, size, "no memory can be registered: %s", strerror(errno));
        return NULL;
}

uint32_t region_key(const struct region *r)
{
        return r->has_window ? r->window.rkey : r->mr.rkey;
}

static void drop_window(struct region *r)
{
        if (r->has_window)
                verbs_drop_window(r->domain, &r->window);
        r->has_window = false;
}

void region_revoke(struct region *r)
{
        drop_window(r);
        if (r->registered)
                verbs_dereg(r->domain, &r->mr);
        r->registered = false;
}

static void free_region(struct region *r)
{
        region_revoke(r);
        free(r->base);
        free(r->answer);
        free(r);
}

/* 8 bytes that nobody has written, or the last 4: less may be chance. */
static bool has_gap(const struct region *r, uint32_t n)
{
        for (uint32_t i = 0; i + 8 <= n; i += 8)
                if (region_untouched(r, i, 8))
                        return true;
        return n >= 4 && region_untouched(r, n - 4, 4);
}

static bool guards_intact(const struct region *r)
{
        size_t end = RDMA_GUARD + (size_t)r->len;

        return intact(r, 0, RDMA_GUARD) && intact(r, end, r->size - end);
}

/* The response to the command whose data lies here has come just now. */
static void look_at(struct conn_rdma *c, struct region *r, const struct message *m)
{
        bool success = cqe_status(&m->cqe) == NVME_SUCCESS;

        r->cid = -1;
        r->answer = conn_alloc(&c->base, (size_t)r->len + 1);
        if (!r->answer)
                return;
        memcpy(r->answer, r->data, r->len);
        if (!guards_intact(r))
                conn_breach(&c->base, RDMA_WRITE_RANGE, m);
        if (!success || r->whole == 0 || !has_gap(r, r->whole))
                return;
        loop_sleep_us(LATE_MS * 1000); /* not whole, or not yet? */
        conn_breach(&c->base, has_gap(r, r->whole) ? RDMA_WRITE_WHOLE : RDMA_WRITE_BEFORE, m);
}

static void look_at_data(struct conn_rdma *c, const struct message *m)
{
        for (struct region *r = c->regions; r; r = r->next)
                if (r->canary && r->cid == le16_get(m->cqe.cid))
                        look_at(c, r, m);
}

void conn_rdma_check(struct conn_rdma *c)
{
        for (struct region *r = c->regions; r; r = r->next) {
                if (!r->canary)
                        continue;
                if (!guards_intact(r))
                        conn_breach(&c->base, RDMA_WRITE_RANGE, NULL);
                if (r->answer && memcmp(r->answer, r->data, r->len) != 0)
                        conn_breach(&c->base,
                                    c->base.end == CONN_OPEN ? RDMA_WRITE_BEFORE : RDMA_LATE_SEND,
                                    NULL);
        }
}

/* --- work ---------------------------------------------------------------------------------- */

static struct work *work_new(struct conn_rdma *c, enum verbs_op op, uint32_t len)
{
        struct work *w = conn_alloc(&c->base, sizeof(*w) + len);

        if (!w)
                return NULL;
        *w = (struct work) { .next = c->works };
        w->wr = (struct verbs_wr) { .op = op, .n_sge = len > 0, .user = w };
        w->wr.sge[0] = (struct verbs_sge) { .addr = w->bytes, .len = len };
        c->works = w;
        return w;
}

/* Its bytes may be used by the device. */
static bool let_use(struct conn_rdma *c, struct work *w)
{
        struct verbs_sge *s = &w->wr.sge[0];

        if (w->wr.op == VERBS_SEND && s->len <= c->ep.dev->caps->inline_bytes) {
                w->wr.flags |= VERBS_INLINE;
                return true;
        }
        w->registered = verbs_reg(c->domain, w->bytes, s->len > 0 ? s->len : 1, 0, &w->mr) == 0;
        s->lkey = w->mr.lkey;
        return w->registered;
}

static bool post_receive(struct conn_rdma *c, struct work *w)
{
        struct verbs_wr *bad;

        return rdma_ep_post_recv(&c->ep, &w->wr, &bad) == 0;
}

static bool post_receives(struct conn_rdma *c, unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                struct work *w = work_new(c, VERBS_RECV, RDMA_RECEIVE);

                if (!w || !let_use(c, w) || !post_receive(c, w))
                        return false;
        }
        return true;
}

/* What can't be posted is given up. -1 with errno. */
static int post(struct conn_rdma *c, struct verbs_wr *chain)
{
        struct verbs_wr *bad;
        int rc = rdma_ep_post(&c->ep, chain, &bad), saved = errno;

        if (rc < 0)
                rdma_ep_flushed(&c->ep, bad);
        errno = saved;
        return rc;
}

int region_bind(struct conn_rdma *c, struct region *r, unsigned access)
{
        struct work *w;

        if (verbs_make_window(c->domain, &r->window) != 0)
                return -1;
        r->has_window = true;
        r->window.mr = &r->mr;
        r->window.addr = r->base;
        r->window.len = r->size;
        r->window.access = access;
        w = work_new(c, VERBS_BIND, 0);
        if (!w)
                return -1;
        w->wr.window = &r->window;
        w->wr.flags = VERBS_SIGNALED;
        return post(c, &w->wr);
}

int conn_rdma_write(struct conn_rdma *c, uint64_t addr, uint32_t key)
{
        struct work *w = work_new(c, VERBS_WRITE, 8);

        if (!w || !let_use(c, w))
                return -1;
        w->wr.remote = addr;
        w->wr.rkey = key;
        w->wr.flags |= VERBS_SIGNALED;
        return post(c, &w->wr);
}

static void free_works(struct conn_rdma *c)
{
        struct work *next;

        for (struct work *w = c->works; w; w = next) {
                next = w->next;
                if (w->registered)
                        verbs_dereg(c->domain, &w->mr);
                free(w);
        }
        c->works = NULL;
}

/* --- what comes ---------------------------------------------------------------------------- */

/* Only the controller's breaches: ours are on purpose. */
static void report_found(struct conn_rdma *c, const struct rule_set *found, const struct message *m)
{
        struct rule_set theirs = { 0 };

        rule_each (r)
                if (rule_in(found, r) && rule_get(r)->bound == PARTY_CONTROLLER)
                        rule_add(&theirs, r);
        conn_breaches(&c->base, &theirs, m);
}

void conn_rdma_track(struct conn_rdma *c, const void *capsule, uint32_t len)
{
        if (c->track && capsule) {
                report_found(c, rdma_track_command(c->track, capsule, len), NULL);
                return;
        }
        rdma_track_free(c->track);
        c->track = NULL;
}

static void judge_response(struct conn_rdma *c, const struct seen *s, const void *capsule,
                           uint32_t len)
{
        if (c->track)
                report_found(c, rdma_track_response(c->track, capsule, len, s->invalidated, s->key),
                             &s->m);
        else if (len != sizeof(struct cqe))
                conn_breach(&c->base, RDMA_RSP_LENGTH, &s->m);
}

static void on_response(struct conn_rdma *c, const struct verbs_wc *wc)
{
        const struct work *w = wc->wr->user;
        struct seen *s = conn_room(&c->base, 0);
        char remark[64] = "";
        uint32_t n = wc->bytes < sizeof(struct cqe) ? wc->bytes : (uint32_t)sizeof(struct cqe);

        if (!s)
                return;
        s->m.kind = MESSAGE_RESPONSE;
        memcpy(&s->m.cqe, w->bytes, n);
        s->invalidated = wc->invalidated;
        s->key = wc->invalid_key;
        if (n > 0)
                look_at_data(c, &s->m);
        if (s->invalidated)
                snprintf(remark, sizeof(remark), "invalidates key %08Xh", s->key);
        conn_file(&c->base, s);
        conn_log(&c->base, false, &s->m, wc->bytes - n, remark);
        judge_response(c, s, w->bytes, wc->bytes);
}

static struct conn_rdma *conn_of(struct rdma_ep *e)
{
        return (struct conn_rdma *)(void *)((char *)e - offsetof(struct conn_rdma, ep));
}

static void broken(struct conn_rdma *c, const struct verbs_wc *wc)
{
        char says[96];

        if (wc->wr->op == VERBS_SEND)
                c->send_end = wc->status;
        snprintf(says, sizeof(says), "%s failed: %s", verbs_op_name(wc->wr->op),
                 verbs_status_name(wc->status));
        conn_over(&c->base, CONN_BROKEN, says);
}

static bool on_completion(struct rdma_ep *e, const struct verbs_wc *wc)
{
        struct work *w = wc->wr->user;
        struct conn_rdma *c = conn_of(e);

        if (wc->status == VERBS_FLUSHED) /* what failed before has been told, or will be */
                return false;
        if (wc->status != VERBS_SUCCESS) {
                broken(c, wc);
        } else if (w->wr.op == VERBS_RECV) {
                on_response(c, wc);
                if (c->base.end == CONN_OPEN)
                        (void)post_receive(c, w);
        }
        return false; /* the target is to end it */
}

/* --- events -------------------------------------------------------------------------------- */

static void keep_answer(struct conn_rdma *c, const struct verbs_event *e)
{
        uint8_t len = e->param.data ? e->param.len : 0;

        c->answer = (struct rdma_answer) { .len = len,
                                           .reads_in = e->param.reads_in,
                                           .reads_out = e->param.reads_out,
                                           .reason = e->reason };
        if (len > 0)
                memcpy(c->answer.data, e->param.data, len);
}

static void on_established(struct conn_rdma *c, const struct verbs_event *e)
{
        const struct rdma_answer *a = &c->answer;
        struct rdma_accept data = { 0 };

        keep_answer(c, e);
        c->established = true;
        (void)rdma_accept_read(a->data, a->len, &data);
        exchange_cm(c->base.log, c->base.no, false,
                    "accepted: RECFMT %u CRQSIZE %u, reads %u in %u out, %u bytes",
                    le16_get(data.recfmt), le16_get(data.crqsize), a->reads_in, a->reads_out,
                    a->len);
        if (c->track) /* of iWARP the responder resources are the device's own */
                report_found(c,
                             rdma_track_accept(c->track, a->data, a->len,
                                               c->ep.dev->caps->iwarp ? 0 : a->reads_in,
                                               a->reads_out),
                             NULL);
}

static void on_rejected(struct conn_rdma *c, const struct verbs_event *e)
{
        struct rdma_answer *a = &c->answer;
        struct rdma_reject data = { 0 };
        char says[120];

        keep_answer(c, e);
        a->len = (uint8_t)rdma_reject_len(a->data, a->len);
        if (rdma_reject_read(a->data, a->len, &data))
                snprintf(says, sizeof(says), "rejected: RECFMT %u STS %u (%s)",
                         le16_get(data.recfmt), le16_get(data.sts),
                         rdma_reject_name(le16_get(data.sts)));
        else
                snprintf(says, sizeof(says), "rejected by RDMA_CM, reason %d", a->reason);
        conn_over(&c->base, CONN_REJECTED, says);
        if (c->track && a->len > 0)
                report_found(c, rdma_track_reject(c->track, a->data, a->len), NULL);
}

/* Responses that were sent before an end count: they may wait in the completion queue still. */
static void over_for(struct conn_rdma *c, enum conn_end how, const char *says)
{
        (void)rdma_group_poll(c->ep.group, UINT_MAX);
        conn_over(&c->base, how, says);
}

/* The life ends with the connection; of our own queue pair's failure it is not told: the target is to
 * disconnect then, not we. */
static bool on_event(struct rdma_ep *e, const struct verbs_event *v)
{
        struct conn_rdma *c = conn_of(e);
        char says[96];

        switch (v->type) {
        case VERBS_RESOLVED:
                c->domain = e->dev->domain;
                return true;
        case VERBS_ESTABLISHED:
                on_established(c, v);
                return true;
        case VERBS_REJECTED:
                on_rejected(c, v);
                return true;
        case VERBS_DISCONNECTED:
                over_for(c, CONN_DISCONNECTED, "disconnected by the target");
                c->disconnected = true;
                return !c->mute;
        case VERBS_UNREACHABLE:
        case VERBS_CONNECT_ERROR:
        case VERBS_DEVICE_REMOVED:
        case VERBS_QP_ERROR:
                snprintf(says, sizeof(says), "%s (%d)", verbs_event_name(v->type), v->reason);
                over_for(c, CONN_BROKEN, says);
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

static bool pump(struct rdma_group *g)
{
        unsigned n = rdma_group_poll(g, UINT_MAX);

        n += rdma_group_events(g, UINT_MAX);
        return n + rdma_group_poll(g, UINT_MAX) > 0;
}

/* Until something came, or ms are over. */
static void wait_some(struct conn_rdma *c, int ms)
{
        if (pump(c->ep.group))
                return;
        rdma_group_sleep(c->ep.group, ms);
        (void)pump(c->ep.group);
}

static bool wait_rdma(struct suite_conn *base, uint64_t deadline)
{
        struct conn_rdma *c = conn_rdma(base);
        struct seen **end = base->inbox_end;

        while (base->end == CONN_OPEN && base->inbox_end == end) {
                int left = loop_left(deadline);

                wait_some(c, left);
                if (left == 0 && base->end == CONN_OPEN && base->inbox_end == end)
                        return false;
        }
        return true;
}

/* However late it is, what is there already counts. */
static bool wait_for(struct conn_rdma *c, bool (*is_so)(const struct conn_rdma *c),
                     uint64_t deadline)
{
        while (!is_so(c)) {
                int left = loop_left(deadline);

                wait_some(c, left);
                if (left == 0)
                        break;
        }
        return is_so(c);
}

static bool is_decided(const struct conn_rdma *c)
{
        return c->established || c->base.end != CONN_OPEN;
}

static bool is_disconnected(const struct conn_rdma *c)
{
        return c->disconnected;
}

static bool is_resolved(const struct conn_rdma *c)
{
        return c->domain || c->base.end != CONN_OPEN;
}

bool conn_rdma_decided(struct conn_rdma *c, uint64_t deadline)
{
        return wait_for(c, is_decided, deadline);
}

bool conn_rdma_disconnected(struct conn_rdma *c, uint64_t deadline)
{
        return wait_for(c, is_disconnected, deadline);
}

void conn_rdma_look(struct conn_rdma *c)
{
        while (pump(c->ep.group))
                continue;
}

/* --- making and ending --------------------------------------------------------------------- */

/* Windows first: those that are bound may hold the queue pair (rxe waits for them, and long). */
static void destroy(struct conn_rdma *c)
{
        for (struct region *r = c->regions; r && c->ep.ep; r = r->next)
                drop_window(r);
        rdma_ep_destroy(&c->ep);
}

static void free_rdma(struct suite_conn *base)
{
        struct conn_rdma *c = conn_rdma(base);
        struct region *next;

        destroy(c);
        conn_free_seen(base);
        free_works(c);
        for (struct region *r = c->regions; r; r = next) {
                next = r->next;
                free_region(r);
        }
        rdma_track_free(c->track);
        free(c);
}

static void close_rdma(struct suite_conn *base)
{
        struct conn_rdma *c = conn_rdma(base);

        over_for(c, CONN_CLOSED, "we disconnect (DREQ)");
        rdma_ep_step(&c->ep, LIFE_CLOSE);
}

static void fail_rdma(struct suite_conn *base)
{
        struct conn_rdma *c = conn_rdma(base);

        conn_over(base, CONN_CLOSED, "our queue pair fails without a disconnect request");
        (void)rdma_ep_fail(&c->ep);
}

void conn_rdma_vanish(struct conn_rdma *c)
{
        conn_over(&c->base, CONN_CLOSED, "our endpoint is destroyed");
        destroy(c);
}

static const struct conn_ops rdma = {
        .free = free_rdma, .close = close_rdma, .reset = fail_rdma, .wait = wait_rdma
};

struct conn_rdma *conn_rdma(struct suite_conn *c)
{
        return c->kind == &rdma ? (struct conn_rdma *)(void *)c : NULL;
}

static void waive_ours(struct conn_rdma *c)
{
        rule_each (r)
                if (rule_get(r)->bound == PARTY_HOST)
                        rule_add(&c->waived, r);
}

struct suite_conn *conn_rdma_open(struct rdma_group *g, const char *traddr, const char *trsvcid,
                                  uint64_t deadline, unsigned no, struct exchange *log, char *error,
                                  size_t size)
{
        static const struct rdma_ep_ops ops = { .event = on_event, .completed = on_completion };
        struct conn_rdma *c = calloc(1, sizeof(*c));
        bool begun;

        if (!c)
                return out_of_memory(error, size);
        conn_init(&c->base, &rdma, no, log);
        rdma_ep_init(&c->ep, g, &ops);
        waive_ours(c);
        c->track = rdma_track_new(1024, false, &c->waived);
        if (!c->track) {
                conn_free(&c->base);
                return out_of_memory(error, size);
        }
        begun = rdma_ep_resolve(&c->ep, traddr, trsvcid, (unsigned)loop_left(deadline)) == 0;
        if (begun)
                (void)wait_for(c, is_resolved, deadline);
        if (c->domain)
                return &c->base;
        snprintf(error, size, "%s port %s cannot be reached over RDMA: %s", traddr, trsvcid,
                 !begun                     ? strerror(errno)
                 : c->base.end == CONN_OPEN ? "no answer"
                                            : "unreachable");
        conn_free(&c->base);
        return NULL;
}

static bool make_qp(struct conn_rdma *c, unsigned receives)
{
        struct verbs_qp_attr attr = {
                .send_wrs = receives + RDMA_SENDS_MORE < RDMA_SENDS ? receives + RDMA_SENDS_MORE
                                                                    : RDMA_SENDS,
                .recv_wrs = receives > 0 ? receives : 1,
                .inline_bytes = c->ep.dev->caps->inline_bytes,
        };

        if (rdma_ep_qp(&c->ep, &attr) < 0)
                return false;
        c->send_wrs = attr.send_wrs;
        return true;
}

int conn_rdma_connect(struct conn_rdma *c, const struct verbs_conn_param *param, unsigned receives,
                      char *error, size_t size)
{
        struct rdma_request r = { 0 };

        if (!make_qp(c, receives) || !post_receives(c, receives)) {
                snprintf(error, size, "no queue pair: %s", strerror(errno));
                return -1;
        }
        (void)rdma_request_read(param->data, param->len, &r);
        exchange_cm(c->base.log, c->base.no, true,
                    "connect request: RECFMT %u QID %u HRQSIZE %u HSQSIZE %u CNTLID %u, reads "
                    "%u in %u out, %u bytes",
                    le16_get(r.recfmt), le16_get(r.qid), le16_get(r.hrqsize), le16_get(r.hsqsize),
                    le16_get(r.cntlid), param->reads_in, param->reads_out, param->len);
        if (c->track)
                report_found(c,
                             rdma_track_request(c->track, param->data, param->len, param->reads_in,
                                                param->reads_out),
                             NULL);
        if (rdma_ep_connect(&c->ep, param) == 0)
                return 0;
        snprintf(error, size, "connect: %s", strerror(errno));
        return -1;
}

/* --- what goes ----------------------------------------------------------------------------- */

static bool wait_room(struct conn_rdma *c, unsigned n, uint64_t deadline)
{
        while (c->ep.unfinished + n > c->send_wrs && c->base.end == CONN_OPEN) {
                int left = loop_left(deadline);

                wait_some(c, left);
                if (left == 0)
                        break;
        }
        return c->ep.unfinished + n <= c->send_wrs;
}

static struct verbs_wr *make_chain(struct conn_rdma *c, const uint8_t *capsules, uint32_t len,
                                   unsigned n)
{
        struct verbs_wr *first = NULL, **end = &first;

        for (unsigned i = 0; i < n; i++) {
                struct work *w = work_new(c, VERBS_SEND, len);

                if (!w)
                        return NULL;
                if (len > 0)
                        memcpy(w->bytes, capsules + (size_t)i * len, len);
                w->wr.flags = VERBS_SIGNALED;
                if (!let_use(c, w))
                        return NULL;
                *end = &w->wr;
                end = &w->wr.next;
        }
        return first;
}

bool conn_rdma_send(struct conn_rdma *c, const void *capsules, uint32_t len, unsigned n,
                    uint64_t deadline)
{
        struct verbs_wr *chain;

        (void)pump(c->ep.group);
        if (c->base.end != CONN_OPEN)
                return true;
        if (!wait_room(c, n, deadline))
                return c->base.end != CONN_OPEN;
        chain = make_chain(c, capsules, len, n);
        if (!chain)
                return false;
        if (post(c, chain) == 0)
                return true;
        (void)pump(c->ep.group);
        return c->base.end != CONN_OPEN;
}
