/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_record_flow.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/io/loop.h"

enum { ADDRESS_TEXT = 80 };

/* A work request on the send queue. */
struct sent {
        const struct verbs_wr *wr;
        enum verbs_op op;
        uint32_t number; /* by which the peer answers or acknowledges */
        int n_sge;
        struct iovec sge[VERBS_SGES]; /* READ: where the answer goes */
};

/* --- memory that the peer may access ---------------------------------------------------------- */

struct region {
        struct region *next;
        const struct verbs_window *window; /* NULL: an MR */
        uint32_t key;
        const uint8_t *addr;
        size_t len;
};

void record_memory_add(struct record_memory *m, const struct verbs_mr *mr, const void *addr,
                       size_t len)
{
        struct region *r = calloc(1, sizeof(*r));

        if (!r)
                return;
        *r = (struct region) { .next = m->regions, .key = mr->rkey, .addr = addr, .len = len };
        m->regions = r;
}

void record_memory_drop(struct record_memory *m, const struct verbs_window *window, uint32_t key)
{
        for (struct region **at = &m->regions; *at; at = &(*at)->next) {
                struct region *r = *at;

                if (r->window != window || (!window && r->key != key))
                        continue;
                *at = r->next;
                free(r);
                return;
        }
}

void record_memory_fini(struct record_memory *m)
{
        struct region *next;

        for (struct region *r = m->regions; r; r = next) {
                next = r->next;
                free(r);
        }
        m->regions = NULL;
}

static void keep_window(struct record_memory *m, const struct verbs_window *window)
{
        struct region *r = m->regions;

        while (r && r->window != window)
                r = r->next;
        if (!r && !(r = calloc(1, sizeof(*r))))
                return;
        if (!r->window) {
                r->next = m->regions;
                m->regions = r;
        }
        r->window = window;
        r->key = window->rkey;
        r->addr = window->addr;
        r->len = window->len;
}

uint32_t record_memory_bytes(const struct record_memory *m, uint64_t addr, uint32_t key,
                             uint32_t len)
{
        for (const struct region *r = m ? m->regions : NULL; r; r = r->next) {
                uint64_t begin = (uintptr_t)r->addr;

                if (r->key == key && addr >= begin && addr - begin < r->len)
                        return r->len - (addr - begin) < len ? (uint32_t)(r->len - (addr - begin))
                                                             : len;
        }
        return 0;
}

/* --- the flow --------------------------------------------------------------------------------- */

/* "10.0.0.1", "10.0.0.1:4420", "[fe80::1%v0]:4420". */
static struct sockaddr_storage address_of(char *text)
{
        struct sockaddr_storage ss = { 0 };
        struct sockaddr_in *in4 = (void *)&ss;
        struct sockaddr_in6 *in6 = (void *)&ss;
        char *end = strchr(text, ']'), *port = strrchr(end ? end : text, ':');
        char *first = strchr(text, ':');
        bool v6 = text[0] == '[' || (first && first != port);

        if (v6 && !end)
                port = NULL;
        if (port)
                *port++ = '\0';
        text[strcspn(text, "%]")] = '\0';
        if (inet_pton(AF_INET, text, &in4->sin_addr) == 1)
                ss.ss_family = AF_INET;
        else if (inet_pton(AF_INET6, text + (text[0] == '['), &in6->sin6_addr) == 1)
                ss.ss_family = AF_INET6;
        in4->sin_port = htons(port ? (uint16_t)strtoul(port, NULL, 10) : 0);
        return ss;
}

static bool same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
        const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
        const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

        if (a->ss_family != AF_INET || b->ss_family != AF_INET)
                return a->ss_family == b->ss_family &&
                       memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0;
        return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
}

/* Readers know a protocol by its port, and queue pairs by their address: true if both ends have one, and need one each. */
static bool disguise(const struct record_protocol *p, struct sockaddr_storage end[2])
{
        struct sockaddr_in *port = (void *)&end[PARTY_CONTROLLER];

        if (!p)
                return false;
        if (port->sin_port != htons(p->ports[1]))
                port->sin_port = htons(p->ports[0]);
        return same_host(&end[0], &end[1]);
}

void record_flow_open(struct record_flow *f, struct verbs_ep *of, const char *comment)
{
        char text[2][ADDRESS_TEXT] = { "", "" };
        struct sockaddr_storage end[2];
        bool loops;

        verbs_addresses(of, text[0], text[1], ADDRESS_TEXT);
        end[f->self] = address_of(text[0]);
        if (f->port != 0) /* at the same place in both families */
                ((struct sockaddr_in *)(void *)&end[f->self])->sin_port = htons(f->port);
        end[peer_of(f->self)] = address_of(text[1]);
        loops = disguise(f->protocol, end);
        f->rdma.comment = comment;
        capture_rdma_open(f->w, &f->rdma, loops ? NULL : (void *)&end[PARTY_HOST],
                          (void *)&end[PARTY_CONTROLLER], loop_wall_ns());
        f->open = true;
}

/* IPv6, or IPv4 mapped to it. */
static struct sockaddr_storage address_of_gid(const uint8_t gid[16])
{
        struct sockaddr_storage ss = { .ss_family = AF_INET6 };
        struct sockaddr_in *in4 = (void *)&ss;
        struct sockaddr_in6 *in6 = (void *)&ss;

        memcpy(&in6->sin6_addr, gid, sizeof(in6->sin6_addr));
        if (!IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
                return ss;
        ss = (struct sockaddr_storage) { .ss_family = AF_INET };
        memcpy(&in4->sin_addr, gid + 12, sizeof(in4->sin_addr));
        return ss;
}

/* Who finds the numbers elsewhere in the capture is to find the packets by them. */
void record_flow_join(struct record_flow *f, const struct verbs_numbers *own,
                      const struct verbs_numbers *peer, const char *comment)
{
        const struct verbs_numbers *numbers[2];
        struct sockaddr_storage end[2];

        numbers[f->self] = own;
        numbers[peer_of(f->self)] = peer;
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                end[p] = address_of_gid(numbers[p]->gid);
        f->rdma.comment = comment;
        capture_rdma_open(f->w, &f->rdma, (void *)&end[PARTY_HOST], (void *)&end[PARTY_CONTROLLER],
                          loop_wall_ns());
        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++) {
                f->rdma.qpn[p] = numbers[p]->qpn;
                f->rdma.next[p] = numbers[p]->psn;
        }
        f->rdma.mtu = own->mtu < peer->mtu ? own->mtu : peer->mtu;
        f->open = f->joined = true;
}

void record_flow_add_cm(struct record_flow *f, enum party sender, enum capture_cm_kind kind,
                        const struct verbs_conn_param *p, int reason)
{
        struct capture_cm m = { .kind = kind, .reason = (uint16_t)reason };

        if (!f->open || f->joined)
                return;
        if (p) {
                m.data = p->data;
                m.len = p->data ? p->len : 0;
                m.reads_in = p->reads_in;
                m.reads_out = p->reads_out;
        }
        capture_rdma_cm(f->w, &f->rdma, sender, &m, loop_wall_ns());
}

void record_flow_ready(struct record_flow *f)
{
        if (!f->ready)
                record_flow_add_cm(f, PARTY_HOST, CAPTURE_READY, NULL, 0);
        f->ready = true;
}

/* --- what is posted --------------------------------------------------------------------------- */

static bool push(struct record_flow *f, const struct sent *s)
{
        if (f->n == f->cap) {
                size_t cap = f->cap ? 2 * f->cap : 64;
                struct sent *bigger = calloc(cap, sizeof(*bigger));

                if (!bigger)
                        return false;
                for (size_t i = 0; i < f->n; i++)
                        bigger[i] = f->sent[(f->first + i) % f->cap];
                free(f->sent);
                f->sent = bigger;
                f->cap = cap;
                f->first = 0;
        }
        f->sent[(f->first + f->n++) % f->cap] = *s;
        return true;
}

static int list_of(const struct verbs_wr *wr, struct iovec iov[VERBS_SGES])
{
        for (int i = 0; i < wr->n_sge; i++)
                iov[i] = (struct iovec) { wr->sge[i].addr, wr->sge[i].len };
        return wr->n_sge;
}

static uint32_t list_len(const struct iovec *iov, int n)
{
        size_t len = 0;

        for (int i = 0; i < n; i++)
                len += iov[i].iov_len;
        return (uint32_t)len;
}

void record_flow_posted(struct record_flow *f, const struct verbs_wr *wr)
{
        struct capture_writer *w = f->w;
        struct sent s = { .wr = wr, .op = wr->op };
        int64_t now = loop_wall_ns();
        bool invalidates = wr->op == VERBS_SEND_INVALIDATE;

        s.n_sge = list_of(wr, s.sge);
        if (wr->op == VERBS_SEND || invalidates)
                s.number = capture_rdma_send(w, &f->rdma, f->self, s.sge, s.n_sge,
                                             invalidates ? &wr->rkey : NULL, now);
        else if (wr->op == VERBS_WRITE)
                s.number = capture_rdma_write(w, &f->rdma, f->self, wr->remote, wr->rkey, s.sge,
                                              s.n_sge, now);
        else if (wr->op == VERBS_READ)
                s.number = capture_rdma_read(w, &f->rdma, f->self, wr->remote, wr->rkey,
                                             list_len(s.sge, s.n_sge), now);
        if (wr->op == VERBS_SEND && f->self == PARTY_HOST && f->protocol)
                f->protocol->sent(f, s.sge, s.n_sge);
        if (wr->op == VERBS_BIND && f->memory)
                keep_window(f->memory, wr->window);
        else if (wr->op != VERBS_INVALIDATE)
                (void)push(f, &s);
}

/* --- what has come ---------------------------------------------------------------------------- */

static bool is_outstanding(const struct record_flow *f, const struct verbs_wr *wr)
{
        for (size_t i = 0; i < f->n; i++)
                if (f->sent[(f->first + i) % f->cap].wr == wr)
                        return true;
        return false;
}

static void refuse(struct record_flow *f, const struct sent *s, enum verbs_status status)
{
        static const enum capture_ack naks[VERBS_STATUSES] = {
                [VERBS_REMOTE_INVALID] = CAPTURE_NAK_REQUEST,
                [VERBS_REMOTE_ACCESS] = CAPTURE_NAK_ACCESS,
                [VERBS_REMOTE_OPERATION] = CAPTURE_NAK_OPERATION,
        };

        f->dead = true;
        if (naks[status])
                capture_rdma_ack(f->w, &f->rdma, peer_of(f->self), s->number, naks[status],
                                 loop_wall_ns());
}

static void succeed(struct record_flow *f, const struct sent *s, bool last)
{
        struct capture_writer *w = f->w;

        if (s->op == VERBS_READ)
                capture_rdma_answer(w, &f->rdma, peer_of(f->self), s->number, s->sge, s->n_sge,
                                    loop_wall_ns());
        else if (last)
                capture_rdma_ack(w, &f->rdma, peer_of(f->self), s->number, CAPTURE_ACK,
                                 loop_wall_ns());
}

/* With this one all that was posted before it is done, too. */
static void record_done(struct record_flow *f, const struct verbs_wc *wc)
{
        bool last = !is_outstanding(f, wc->wr);

        while (!last) {
                struct sent s = f->sent[f->first];

                f->first = (f->first + 1) % f->cap;
                f->n--;
                last = s.wr == wc->wr;
                if (last && wc->status != VERBS_SUCCESS)
                        refuse(f, &s, wc->status);
                else if (!f->dead)
                        succeed(f, &s, last);
        }
}

static void record_received(struct record_flow *f, const struct verbs_wc *wc)
{
        struct capture_writer *w = f->w;
        enum party peer = peer_of(f->self);
        struct iovec iov[VERBS_SGES];
        int n = list_of(wc->wr, iov);
        uint32_t left = wc->bytes, number;
        int64_t now;

        record_flow_ready(f);
        for (int i = 0; i < n; i++) {
                if (iov[i].iov_len > left)
                        iov[i].iov_len = left;
                left -= (uint32_t)iov[i].iov_len;
        }
        if (f->self == PARTY_HOST && f->protocol)
                f->protocol->received(f, iov, n);
        now = loop_wall_ns();
        number = capture_rdma_send(w, &f->rdma, peer, iov, n,
                                   wc->invalidated ? &wc->invalid_key : NULL, now);
        capture_rdma_ack(w, &f->rdma, f->self, number, CAPTURE_ACK, now);
}

/* The first to say so sends DREQ, the other one DREP. */
static void write_parting(struct record_flow *f, enum party sender)
{
        record_flow_add_cm(f, sender, f->leaving ? CAPTURE_DISCONNECTED : CAPTURE_DISCONNECT, NULL,
                           0);
        if (f->leaving)
                f->open = false;
        f->leaving = true;
}

void record_flow_partings(struct record_flow *f)
{
        for (unsigned i = 0; i < f->partings; i++)
                write_parting(f, f->parted[i]);
        f->partings = 0;
}

void record_flow_part(struct record_flow *f, enum party sender)
{
        if (sender == f->self && f->partings == 0)
                write_parting(f, sender);
        else if (f->partings < 2)
                f->parted[f->partings++] = sender;
}

void record_flow_completed(struct record_flow *f, const struct verbs_wc *wc)
{
        if (!f->open)
                return;
        if (wc->wr->op != VERBS_RECV)
                record_done(f, wc);
        else if (wc->status == VERBS_SUCCESS)
                record_received(f, wc);
        if (wc->status != VERBS_SUCCESS) {
                f->dead = true;
                record_flow_partings(f);
        }
}

void record_flow_fini(struct record_flow *f)
{
        if (f->protocol)
                f->protocol->end(f);
        free(f->sent);
}
