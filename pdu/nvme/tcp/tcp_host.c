/* SPDX-License-Identifier: BSD-3-Clause */
#include "tcp_host.h"

#include <stdlib.h>
#include <string.h>

#include "pdu/core/plant.h"
#include "pdu/nvme/wire/fabrics.h"

struct host_r2t { /* an R2T that is not served yet */
        struct host_r2t *next;
        le16_t ttag;
        uint32_t offset, left; /* bytes */
};

struct slot {
        struct host_slot base;
        struct tx tx;          /* the capsule, then one H2CData after the other */
        struct host_r2t *r2ts; /* to be served, in the order they came */
        bool queued;           /* tx is on its way out */
        bool ddgst_bad;
        uint8_t head[76];
};

enum {
        R2TS_DEFAULT = 256,
        SECTOR = 512, /* what flaws take for granted */
        PAGE = 4096,
};

struct tcp_host {
        struct tcp_host_config cfg;
        struct link link;
        struct slot *read; /* has had C2HData, and not its last */
        struct host_slots slots;
        struct host_r2t *r2t_pool, *free_r2t;
        struct slot *in_hand; /* of the PDU that is arriving */
        bool digests_refused;
        void *user;
        struct tx ic_tx;
        union pdu ic;
};

/* --- commands --------------------------------------------------------------------------------- */

static void free_r2t(struct tcp_host *h, struct host_r2t *r)
{
        r->next = h->free_r2t;
        h->free_r2t = r;
}

static struct host_r2t *pop_r2t(struct slot *s)
{
        struct host_r2t *r = s->r2ts;

        if (r)
                s->r2ts = r->next;
        return r;
}

static void drop_r2ts(struct tcp_host *h, struct slot *s)
{
        struct host_r2t *r;

        while ((r = pop_r2t(s)))
                free_r2t(h, r);
}

static bool is_short(const struct host_cmd *cmd)
{
        return cmd->xfer == XFER_C2H && cmd->got < cmd->len && cmd->sqe.opc != NVME_FABRICS;
}

static bool has_flaw(const struct tcp_host *h, enum flaw_id flaw)
{
        return flawed(h->cfg.policy, flaw);
}

static uint16_t status_of(const struct tcp_host *h, const struct slot *s)
{
        const struct host_cmd *cmd = s->base.cmd;

        if (cqe_status(&cmd->cqe))
                return cqe_status(&cmd->cqe);
        if (s->ddgst_bad && !has_flaw(h, FLAW_HOST_DIGEST_BLIND))
                return NVME_TRANSIENT_TRANSPORT;
        return is_short(cmd) ? NVME_DATA_TRANSFER_ERROR : NVME_SUCCESS;
}

/* R2Ts that are still open are dropped: nobody needs that data any more. But a PDU that is queued
 * holds on to the command until it is out. */
static void end(struct tcp_host *h, struct slot *s, const struct cqe *cqe)
{
        s->base.cmd->cqe = *cqe;
        s->base.cmd->status = status_of(h, s);
        drop_r2ts(h, s);
        s->base.ended = true;
        if (!s->queued)
                host_slot_done(&h->slots, &s->base);
}

/* --- out: capsules and host to controller data ------------------------------------------------ */

static void serve(struct tcp_host *h, struct slot *s);

static void tx_sent(struct tx *tx, void *user)
{
        struct slot *s = (struct slot *)((uint8_t *)tx - offsetof(struct slot, tx));
        struct tcp_host *h = user;

        s->queued = false;
        if (s->base.ended)
                host_slot_done(&h->slots, &s->base);
        else
                serve(h, s);
}

static void send_tx(struct tcp_host *h, struct slot *s, const void *data, uint32_t len)
{
        s->tx = (struct tx) {
                .head = s->head,
                .data = data,
                .data_len = len,
                .data_writable =
                    s->base.cmd->sqe.opc == NVME_FABRICS, /* Connect's, by a violator */
                .sqe = &s->base.cmd->sqe,
                .sent = tx_sent,
        };
        s->queued = true;
        link_send(&h->link, &s->tx);
}

/* The next H2CData for the oldest R2T of a command, when the one before is out. */
static void serve(struct tcp_host *h, struct slot *s)
{
        struct host_r2t *r = s->r2ts;
        uint32_t max = track_maxh2cdata(h->link.track), n, offset;
        struct pdu_data data;
        bool last;

        if (!r)
                return;
        if (has_flaw(h, FLAW_HOST_MAXH2CDATA_UP))
                max = (max + PAGE - 1) / PAGE * PAGE;
        n = max > 0 && max < r->left && !has_flaw(h, FLAW_HOST_MAXH2CDATA) ? max : r->left;
        offset = r->offset;
        last =
            (n == r->left && !(has_flaw(h, FLAW_HOST_LAST_END) && offset + n < s->base.cmd->len)) ||
            has_flaw(h, FLAW_HOST_LAST_EACH);
        data = (struct pdu_data) {
                .ch = { .type = PDU_H2C_DATA, .flags = last ? PDU_LAST : 0 },
                .cccid = le16(s->base.cid),
                .ttag = r->ttag,
                .offset = le32(offset),
                .length = le32(n),
        };
        memcpy(s->head, &data, sizeof(data));
        if (!has_flaw(h, FLAW_HOST_DATAO_STAYS))
                r->offset += n;
        r->left -= n;
        if (r->left == 0)
                free_r2t(h, pop_r2t(s));
        send_tx(h, s, s->base.cmd->data + offset, n);
}

static bool fits_capsule(const struct tcp_host *h, const struct host_cmd *cmd)
{
        uint32_t max = h->cfg.in_capsule;

        if (cmd->sqe.opc == NVME_FABRICS && max < PDU_ADMIN_IN_CAPSULE)
                max = PDU_ADMIN_IN_CAPSULE;
        return cmd->xfer == XFER_H2C && cmd->len > 0 && cmd->len <= max && !cmd->command_buffer;
}

int tcp_host_submit(struct tcp_host *h, struct host_cmd *cmd)
{
        struct pdu_capsule_cmd capsule = { .ch = { .type = PDU_CAPSULE_CMD } };
        bool in_capsule = fits_capsule(h, cmd);
        struct track_cmd *tracked;
        struct slot *s;

        s = tcp_host_ready(h) ? (struct slot *)host_slots_take(&h->slots, cmd) : NULL;
        if (!s)
                return -1;
        s->r2ts = NULL;
        s->ddgst_bad = false;
        cmd->sqe.sgl = (struct sgl) {
                .len = le32(cmd->xfer == XFER_NONE ? 0 : cmd->len),
                .id = in_capsule ? SGL_IN_CAPSULE : SGL_TRANSPORT,
        };
        capsule.sqe = cmd->sqe;
        memcpy(s->head, &capsule, sizeof(capsule));
        send_tx(h, s, in_capsule ? cmd->data : NULL, in_capsule ? cmd->len : 0);
        tracked = track_last_cmd(h->link.track);
        if (tracked)
                tracked->user = s;
        return 0;
}

/* --- in --------------------------------------------------------------------------------------- */

static struct slot *addressee(struct tcp_host *h)
{
        struct track_cmd *cmd = track_last_cmd(h->link.track);

        return cmd ? cmd->user : NULL;
}

/* Whether bytes lie within the command's buffer: sure, unless rules are waived. */
static bool inside(const struct host_cmd *cmd, uint32_t offset, uint32_t len)
{
        return PLANTED(C2H_OFFSET) || PLANTED(R2T_RANGE) ||
               (offset <= cmd->len && len <= cmd->len - offset);
}

/* At the header of a PDU. */
static void aim(struct tcp_host *h, const union pdu *p)
{
        uint32_t offset = le32_get(p->data.offset), len = framer_data_len(&h->link.rx);
        struct slot *s = h->in_hand = addressee(h);
        const struct host_cmd *cmd = s ? s->base.cmd : NULL;

        if (p->ch.type == PDU_C2H_DATA && cmd && cmd->xfer == XFER_C2H && cmd->data &&
            inside(cmd, offset, len))
                framer_sink(&h->link.rx, cmd->data + offset);
}

static void take_icresp(struct tcp_host *h, const union pdu *p)
{
        unsigned asked =
            (h->cfg.hdgst ? PDU_DGST_HEADER : 0u) | (h->cfg.ddgst ? PDU_DGST_DATA : 0u);

        h->digests_refused = h->cfg.require_digests && (asked & ~(unsigned)p->icresp.dgst);
        if (h->digests_refused)
                link_close(&h->link);
}

static void take_response(struct tcp_host *h, struct slot *s, const union pdu *p)
{
        end(h, s, &p->resp.cqe);
}

static void take_data(struct tcp_host *h, struct slot *s, const union pdu *p)
{
        uint32_t offset = le32_get(p->data.offset), len = framer_data_len(&h->link.rx);
        const uint8_t *data = framer_data(&h->link.rx);
        struct cqe success = { .cid = le16(s->base.cid) };
        struct host_cmd *cmd = s->base.cmd;

        if ((has_flaw(h, FLAW_HOST_ONE_READ) && h->read && h->read != s) ||
            (has_flaw(h, FLAW_HOST_C2H_BLOCKS) && cmd->sqe.opc == NVME_READ &&
             offset % SECTOR != 0))
                link_close(&h->link);
        h->read = p->ch.flags & PDU_LAST ? NULL : s;
        s->ddgst_bad |= framer_ddgst_bad(&h->link.rx);
        if (cmd->xfer == XFER_C2H && inside(cmd, offset, len)) {
                if (cmd->data && data && data != cmd->data + offset)
                        memcpy(cmd->data + offset, data, len);
                cmd->got += len;
        }
        if (p->ch.flags & PDU_SUCCESS && !has_flaw(h, FLAW_HOST_WANTS_RESPONSE))
                end(h, s, &success);
}

static void spoil_r2t(const struct tcp_host *h, const struct host_cmd *cmd, struct host_r2t *r)
{
        if (has_flaw(h, FLAW_HOST_R2TO))
                r->offset = 0;
        if (has_flaw(h, FLAW_HOST_R2TL))
                r->left = cmd->len - r->offset;
}

/* An R2T that would reach outside the buffer, as only waived rules let pass, gets nothing. */
static void take_r2t(struct tcp_host *h, struct slot *s, const union pdu *p)
{
        uint32_t offset = le32_get(p->data.offset), len = le32_get(p->data.length);
        struct host_r2t *r = h->free_r2t, **last = &s->r2ts;
        const struct host_cmd *cmd = s->base.cmd;

        if (cmd->xfer != XFER_H2C || !cmd->data || len == 0 || !inside(cmd, offset, len))
                return;
        if (!r) {
                link_terminate(&h->link, rule_fault(TCP_R2T_LIMIT));
                return;
        }
        h->free_r2t = r->next;
        *r = (struct host_r2t) { .ttag = p->data.ttag, .offset = offset, .left = len };
        spoil_r2t(h, cmd, r);
        while (*last)
                last = &(*last)->next;
        *last = r;
        if (!s->queued)
                serve(h, s);
}

typedef void take_fn(struct tcp_host *h, struct slot *s, const union pdu *p);

static take_fn *const taken_by_cmd[PDU_TYPES] = {
        [PDU_CAPSULE_RESP] = take_response,
        [PDU_C2H_DATA] = take_data,
        [PDU_R2T] = take_r2t,
};

static void handle_pdu(struct tcp_host *h, const union pdu *p)
{
        struct slot *s = h->in_hand;

        h->in_hand = NULL;
        if (p->ch.type == PDU_ICRESP)
                take_icresp(h, p);
        else if (s && s->base.cmd && !s->base.ended && p->ch.type < PDU_TYPES &&
                 taken_by_cmd[p->ch.type])
                taken_by_cmd[p->ch.type](h, s, p);
}

void tcp_host_received(struct tcp_host *h, size_t n)
{
        const union pdu *p = framer_header(&h->link.rx);

        link_received(&h->link, n);
        for (;;) {
                switch (link_next(&h->link)) {
                case FRAMER_HEADER:
                        aim(h, p);
                        break;
                case FRAMER_PDU:
                        handle_pdu(h, p);
                        break;
                case FRAMER_MORE:
                        if (has_flaw(h, FLAW_HOST_WHOLE_PDUS) && h->link.rx.end > h->link.rx.start)
                                link_close(&h->link);
                        return;
                case FRAMER_FAULT:
                        return;
                }
        }
}

/* --- life ------------------------------------------------------------------------------------- */

static int alloc_r2ts(struct tcp_host *h)
{
        unsigned n = h->cfg.limits.r2ts_max;

        h->r2t_pool = calloc(n, sizeof(*h->r2t_pool));
        for (unsigned i = 0; h->r2t_pool && i < n; i++)
                free_r2t(h, &h->r2t_pool[i]);
        return h->r2t_pool ? 0 : -1;
}

struct tcp_host *tcp_host_new(const struct tcp_host_config *cfg, void *user)
{
        struct link_config link = {
                .side = PARTY_HOST,
                .policy = cfg->policy,
        };
        struct tcp_host *h = calloc(1, sizeof(*h));

        if (!h)
                return NULL;
        h->cfg = *cfg;
        h->user = user;
        if (h->cfg.limits.r2ts_max == 0)
                h->cfg.limits.r2ts_max = R2TS_DEFAULT;
        link.limits = h->cfg.limits;
        if (host_slots_init(&h->slots, sizeof(struct slot), h->cfg.depth) != 0 ||
            alloc_r2ts(h) != 0 || link_init(&h->link, &link, h) != 0) {
                tcp_host_free(h);
                return NULL;
        }
        return h;
}

void tcp_host_free(struct tcp_host *h)
{
        if (!h)
                return;
        link_fini(&h->link);
        free(h->r2t_pool);
        host_slots_fini(&h->slots);
        free(h);
}

struct link *tcp_host_link(struct tcp_host *h)
{
        return &h->link;
}

void tcp_host_start(struct tcp_host *h)
{
        h->ic.icreq = (struct pdu_icreq) {
                .ch = { .type = PDU_ICREQ },
                .hpda = h->cfg.hpda,
                .dgst = (uint8_t)((h->cfg.hdgst ? PDU_DGST_HEADER : 0) |
                                  (h->cfg.ddgst ? PDU_DGST_DATA : 0)),
                .maxr2t = le32(h->cfg.maxr2t > 0 ? h->cfg.maxr2t - 1 : 0),
        };
        h->ic_tx = (struct tx) { .head = h->ic.bytes };
        link_send(&h->link, &h->ic_tx);
}

bool tcp_host_ready(const struct tcp_host *h)
{
        return h->link.state == LINK_LIVE;
}

bool tcp_host_digests_refused(const struct tcp_host *h)
{
        return h->digests_refused;
}

void tcp_host_set_in_capsule(struct tcp_host *h, uint32_t bytes)
{
        h->cfg.in_capsule = bytes;
}

unsigned tcp_host_outstanding(const struct tcp_host *h)
{
        return h->slots.outstanding;
}

void tcp_host_fail_all(struct tcp_host *h, uint16_t status)
{
        link_kill(&h->link);
        h->in_hand = NULL;
        host_slots_fail(&h->slots, status);
}
