/* SPDX-License-Identifier: BSD-3-Clause */
#include "tcp_controller.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
        FIRST_REQUESTS = 8, /* until Connect has said the queue's size */
        SLAB_REQUESTS = 32,
        ANSWERED_EVERY = 3, /* of the Identifies one is left without answer under FAB_ANSWERED */
        ICD_REFUSED_ABOVE = 4096, /* bytes, under TCP_ICD_ADMIN */
        R2T_TINY = 512,           /* bytes, under TCP_R2T_LIMIT */
        R2TS_DEFAULT = 256,
};

struct request_list {
        struct request *first, **last;
};

/* Requests come as the queue fills up for the first time: most connections never do. */
struct slab {
        struct slab *next;
        struct request r[SLAB_REQUESTS];
};

struct tcp_controller {
        struct tcp_controller_config cfg;
        struct tcp_controller_ops ops;
        void *user;
        struct link link;

        struct request *free;
        struct request_list need_buffer, need_r2t;
        struct track_cmd *cmd;   /* of the capsule in hand */
        struct request *in_hand; /* whose H2CData is arriving */
        unsigned executing;
        uint32_t r2ts;       /* open */
        unsigned budget;     /* capsules that may still be taken */
        bool stalled;        /* the capsule in hand waits for a free request */
        unsigned identifies; /* counted for FAB_ANSWERED */

        struct tx ic_tx, early_tx;
        bool ic_queued;
        union pdu ic;
        uint8_t early[sizeof(struct pdu_capsule_resp) + PDU_DIGEST_LEN];
        struct slab *slabs;
        unsigned requests, depth; /* there are; there may be */
        struct request first[FIRST_REQUESTS];
};

const char *request_state_name(enum request_state s)
{
        static const char *const names[] = {
                [REQUEST_FREE] = "free",
                [REQUEST_NEW] = "new",
                [REQUEST_NEED_BUFFER] = "need buffer",
                [REQUEST_TRANSFERRING_H2C] = "transferring host to controller",
                [REQUEST_READY_TO_EXECUTE] = "ready to execute",
                [REQUEST_EXECUTING] = "executing",
                [REQUEST_EXECUTED] = "executed",
                [REQUEST_TRANSFERRING_C2H] = "transferring controller to host",
                [REQUEST_COMPLETING] = "completing",
                [REQUEST_COMPLETED] = "completed",
        };

        return names[s];
}

/* --- requests --------------------------------------------------------------------------------- */

static void list_add(struct request_list *l, struct request *r)
{
        r->next = NULL;
        *l->last = r;
        l->last = &r->next;
}

static void list_remove(struct request_list *l, struct request *r)
{
        struct request **p = &l->first;

        while (*p && *p != r)
                p = &(*p)->next;
        if (!*p)
                return;
        *p = r->next;
        if (l->last == &r->next)
                l->last = p;
}

static void list_init(struct request_list *l)
{
        l->first = NULL;
        l->last = &l->first;
}

static void enter(struct request *r, enum request_state s)
{
        struct tcp_controller *c = r->queue;

        r->state = s;
        if (c->ops.trace)
                c->ops.trace(c->user, r);
}

static void put_buffer(struct request *r)
{
        struct tcp_controller *c = r->queue;

        if (r->buffer_len > 0)
                c->ops.buffer_put(c->user, r->buffer, r->buffer_len);
        r->buffer_len = 0;
        r->buffer = NULL;
}

/* R2Ts of requests that wait for their data. The tracker also counts those of commands that ended
 * meanwhile, but gives them up when it needs the room. */
static void count_r2ts(struct request *r, uint32_t open)
{
        r->queue->r2ts += open - r->r2ts;
        r->r2ts = open;
}

/* Off the wire: what the host still sends for this command finds nobody. */
static void forget_command(struct request *r)
{
        count_r2ts(r, 0);
        if (r->track && r->track->user == r) /* after a reset the CID may be another command's */
                r->track->user = NULL;
        r->track = NULL;
}

/* Of two commands with one CID (TCP_CMD_CID waived) only the first one is tracked. */
static void remember_command(struct request *r, struct track_cmd *cmd)
{
        r->track = cmd && !cmd->user ? cmd : NULL;
        if (r->track)
                r->track->user = r;
}

static void release(struct request *r)
{
        struct tcp_controller *c = r->queue;

        forget_command(r);
        put_buffer(r);
        enter(r, REQUEST_COMPLETED);
        r->state = REQUEST_FREE;
        r->next = c->free;
        c->free = r;
}

static struct request *take_request(struct tcp_controller *c, const union sqe *sqe)
{
        struct request *r = c->free;

        c->free = r->next;
        r->sqe = *sqe;
        r->cqe = (struct cqe) { .cid = sqe->cid };
        r->in_place = r->success_ok = r->no_response = false;
        r->data = NULL;
        r->len = r->c2h_len = r->wire_len = r->sent = r->asked = r->r2ts = 0;
        r->xfer = XFER_NONE;
        r->user = NULL;
        r->ddgst_bad = r->r2t_queued = r->awaits_r2t = r->withdrawn = r->success = false;
        remember_command(r, c->cmd);
        enter(r, REQUEST_NEW);
        return r;
}

static void add_requests(struct tcp_controller *c, struct request *r, unsigned n)
{
        c->requests += n;
        while (n-- > 0) {
                r[n].queue = c;
                r[n].next = c->free;
                c->free = &r[n];
        }
}

static int add_slab(struct tcp_controller *c)
{
        struct slab *s = calloc(1, sizeof(*s));

        if (!s)
                return -1;
        s->next = c->slabs;
        c->slabs = s;
        add_requests(c, s->r, SLAB_REQUESTS);
        return 0;
}

/* Without memory the command waits until another one ends. */
static bool request_to_be_had(struct tcp_controller *c)
{
        return c->free || (c->requests < c->depth && add_slab(c) == 0);
}

static bool gone(const struct tcp_controller *c)
{
        return c->link.state >= LINK_TERMINATING;
}

static bool admin_queue(const struct tcp_controller *c)
{
        return track_qid(c->link.track) <= 0;
}

/* --- out: responses and controller to host data ----------------------------------------------- */

/* FAB_ANSWERED broken: Flush, and on the admin queue one Identify in three, get no response. */
static bool swallows(struct request *r)
{
        struct tcp_controller *c = r->queue;

        if (!link_violates(&c->link, FAB_ANSWERED))
                return false;
        if (!admin_queue(c))
                return r->sqe.opc == NVME_FLUSH;
        return r->sqe.opc == NVME_IDENTIFY && ++c->identifies % ANSWERED_EVERY == 0;
}

static struct request *request_of(struct tx *tx, int i)
{
        return (struct request *)((uint8_t *)(tx - i) - offsetof(struct request, tx));
}

static void response_sent(struct tx *tx, void *user)
{
        (void)user;
        release(request_of(tx, 1));
}

static void send_tx(struct request *r, int i, const uint8_t *data, uint32_t len,
                    void (*sent)(struct tx *, void *))
{
        r->tx[i] = (struct tx) {
                .head = r->head[i],
                .data = data,
                .data_len = len,
                .data_writable = r->buffer_len > 0,
                .sqe = &r->sqe,
                .sent = sent,
        };
        link_send(&r->queue->link, &r->tx[i]);
}

static void respond(struct request *r)
{
        struct pdu_capsule_resp h = { .ch.type = PDU_CAPSULE_RESP, .cqe = r->cqe };

        enter(r, REQUEST_COMPLETING);
        forget_command(r);
        memcpy(r->head[1], &h, sizeof(h));
        send_tx(r, 1, NULL, 0, response_sent);
}

static void data_sent(struct tx *tx, void *user);

static void send_data(struct request *r)
{
        struct tcp_controller *c = r->queue;
        uint32_t left = r->c2h_len - r->sent;
        uint32_t n = c->cfg.c2h_max > 0 && c->cfg.c2h_max < left ? c->cfg.c2h_max : left;
        bool last = n == left, success = last && r->success;
        bool responds = last && (!success || link_violates(&c->link, TCP_C2H_SUCCESS_RESP));
        struct pdu_data h = {
                .ch = { .type = PDU_C2H_DATA },
                .cccid = r->sqe.cid,
                .offset = le32(r->sent),
                .length = le32(n),
        };

        if (last)
                h.ch.flags = success ? PDU_LAST | PDU_SUCCESS : PDU_LAST;
        if (success)
                forget_command(r);
        memcpy(r->head[0], &h, sizeof(h));
        r->sent += n;
        send_tx(r, 0, r->data + (r->sent - n), n, responds ? NULL : data_sent);
        if (responds)
                respond(r);
}

static void data_sent(struct tx *tx, void *user)
{
        struct request *r = request_of(tx, 0);

        (void)user;
        if (r->sent < r->c2h_len)
                send_data(r);
        else
                release(r);
}

/* But not while an R2T of it is on its way out: then r2t_sent() ends it. */
static void end_silently(struct request *r)
{
        r->no_response = true;
        if (r->r2t_queued && !gone(r->queue))
                enter(r, REQUEST_COMPLETING);
        else
                release(r);
}

/* SUCCESS stands for a status of 0 and nothing else in the completion. */
static bool takes_success(const struct request *r)
{
        return (r->success_ok || link_violates(&r->queue->link, TCP_C2H_SUCCESS_SQFC)) &&
               le16_get(r->cqe.sf) == 0 && le64_get(r->cqe.result) == 0;
}

static void spoil_result(struct request *r)
{
        struct tcp_controller *c = r->queue;
        const struct rule_set *violated = &c->cfg.policy->violated;
        bool read = !admin_queue(c) && r->sqe.opc == NVME_READ;

        spoil_completion(violated, &r->sqe, &r->cqe, r->buffer_len > 0 ? r->data : NULL,
                         r->c2h_len);
        if (read && rule_in(violated, TCP_C2H_COMPLETE))
                r->c2h_len = r->c2h_len / 2 & ~3u;
}

/* r->cqe says how it ended. */
static void finish(struct request *r)
{
        struct tcp_controller *c = r->queue;

        if (gone(c) || r->no_response || swallows(r)) {
                end_silently(r);
                return;
        }
        r->cqe.cid = r->sqe.cid;
        if (r->xfer != XFER_C2H || !r->data || cqe_status(&r->cqe))
                r->c2h_len = 0;
        if (r->c2h_len > r->wire_len)
                r->c2h_len = r->wire_len;
        if (c->ops.completing)
                c->ops.completing(c->user, r);
        if (c->link.spoils)
                spoil_result(r);
        if (r->c2h_len == 0) {
                respond(r);
                return;
        }
        r->success = takes_success(r);
        enter(r, REQUEST_TRANSFERRING_C2H);
        send_data(r);
}

static void fail(struct request *r, uint16_t status)
{
        r->cqe = (struct cqe) { .sf = status_field(status) };
        finish(r);
}

/* --- in: execution ---------------------------------------------------------------------------- */

static void execute(struct request *r)
{
        struct tcp_controller *c = r->queue;

        enter(r, REQUEST_READY_TO_EXECUTE);
        enter(r, REQUEST_EXECUTING);
        c->executing++;
        c->ops.execute(c->user, r);
}

/* --- in: host to controller data -------------------------------------------------------------- */

static void r2t_sent(struct tx *tx, void *user);

static uint32_t window(const struct tcp_controller *c)
{
        uint32_t max = track_maxr2t(c->link.track);

        if (link_violates(&c->link, TCP_R2T_LIMIT))
                return UINT32_MAX;
        return c->cfg.r2t_window < max ? c->cfg.r2t_window : max;
}

/* Bytes of one R2T at most; so few under TCP_R2T_LIMIT that any write takes many. */
static uint32_t r2t_max(const struct tcp_controller *c)
{
        return link_violates(&c->link, TCP_R2T_LIMIT) ? R2T_TINY : c->cfg.r2t_max;
}

static uint16_t next_ttag(const struct tcp_controller *c)
{
        return link_violates(&c->link, TCP_R2T_TTAG) ? 0 : track_free_ttag(c->link.track);
}

static uint32_t dwords(uint32_t len)
{
        return (len + 3) & ~3u;
}

/* R2Ts ask for whole dwords (3.6.2.8), also where the command counts bytes. */
static uint32_t to_ask(const struct request *r)
{
        return dwords(r->wire_len) - r->asked;
}

static void send_r2t(struct request *r)
{
        struct tcp_controller *c = r->queue;
        uint32_t n = to_ask(r) < r2t_max(c) ? to_ask(r) : r2t_max(c);
        struct pdu_data h = {
                .ch = { .type = PDU_R2T },
                .cccid = r->sqe.cid,
                .ttag = le16(next_ttag(c)),
                .offset = le32(r->asked),
                .length = le32(n),
        };

        memcpy(r->head[0], &h, sizeof(h));
        r->asked += n;
        r->r2t_queued = true;
        count_r2ts(r, r->r2ts + 1);
        send_tx(r, 0, NULL, 0, r2t_sent);
}

/* One R2T of a request is queued at a time: the next follows when it is out. */
static bool may_ask(const struct request *r)
{
        return !r->r2t_queued && !r->ddgst_bad && to_ask(r) > 0 && r->r2ts < window(r->queue);
}

static bool r2t_to_be_had(const struct tcp_controller *c)
{
        return c->r2ts < c->cfg.limits.r2ts_max;
}

static void ask(struct request *r)
{
        struct tcp_controller *c = r->queue;

        if (r->awaits_r2t || !may_ask(r))
                return;
        if (!c->need_r2t.first && r2t_to_be_had(c)) {
                send_r2t(r);
        } else {
                r->awaits_r2t = true;
                list_add(&c->need_r2t, r);
        }
}

static void stop_waiting(struct request *r)
{
        if (r->awaits_r2t)
                list_remove(&r->queue->need_r2t, r);
        r->awaits_r2t = false;
}

static void r2t_sent(struct tx *tx, void *user)
{
        struct request *r = request_of(tx, 0);

        (void)user;
        r->r2t_queued = false;
        if (r->state == REQUEST_TRANSFERRING_H2C && !r->withdrawn)
                ask(r);
        else if (r->state == REQUEST_COMPLETING && r->no_response)
                release(r);
}

/* An R2T was served: those who found none left may ask. */
static void ask_waiting(struct tcp_controller *c)
{
        struct request *r;

        while ((r = c->need_r2t.first) && r2t_to_be_had(c)) {
                stop_waiting(r);
                if (may_ask(r))
                        send_r2t(r);
        }
}

static struct request *receiver(struct tcp_controller *c)
{
        struct track_cmd *cmd = track_last_cmd(c->link.track);
        struct request *r = cmd ? cmd->user : NULL;

        return r && r->state == REQUEST_TRANSFERRING_H2C ? r : NULL;
}

/* Whether H2CData lies within the buffer: sure, unless rules are waived. */
static bool fits(const struct request *r, const struct pdu_data *h, uint32_t len)
{
        uint32_t offset = le32_get(h->offset);

        return offset <= r->buffer_len && len <= r->buffer_len - offset;
}

static void aim_data(struct tcp_controller *c, const union pdu *h)
{
        struct request *r = c->in_hand = receiver(c);

        if (r && fits(r, &h->data, framer_data_len(&c->link.rx)))
                framer_sink(&c->link.rx, r->buffer + le32_get(h->data.offset));
}

/* The data of one H2CData that is the whole transfer stays where it is, no matter that a buffer was
 * kept ready for it; of others it is gathered in the buffer. */
static void store(struct request *r, const struct pdu_data *h)
{
        const struct framer *rx = &r->queue->link.rx;
        const uint8_t *data = framer_data(rx);
        uint32_t len = framer_data_len(rx), offset = le32_get(h->offset);

        if (!data || !fits(r, h, len) || data == r->buffer + offset)
                return;
        if (offset == 0 && len >= r->len) {
                r->data = (uint8_t *)(uintptr_t)data;
                r->in_place = true;
        } else {
                memcpy(r->buffer + offset, data, len);
        }
}

static void data_stored(struct request *r)
{
        count_r2ts(r, r->track->r2ts);
        if (r->ddgst_bad)
                stop_waiting(r);
        if (r->r2ts > 0 || (to_ask(r) > 0 && !r->ddgst_bad))
                ask(r);
        else if (r->ddgst_bad)
                fail(r, NVME_TRANSIENT_TRANSPORT);
        else
                execute(r);
}

static void take_data(struct tcp_controller *c, const union pdu *h)
{
        struct request *r = c->in_hand;

        c->in_hand = NULL;
        if (r && r->withdrawn) {
                finish(r);
        } else if (r) {
                r->ddgst_bad |= framer_ddgst_bad(&c->link.rx);
                store(r, &h->data);
                data_stored(r);
        }
        ask_waiting(c);
}

/* --- in: buffers ------------------------------------------------------------------------------ */

static bool get_buffer(struct request *r)
{
        struct tcp_controller *c = r->queue;
        uint32_t len = dwords(r->len);

        r->buffer = c->ops.buffer_get(c->user, len);
        if (!r->buffer)
                return false;
        r->buffer_len = len;
        r->data = r->buffer;
        return true;
}

/* It has its buffer. */
static void transfer(struct request *r)
{
        if (r->xfer == XFER_C2H) {
                execute(r);
                return;
        }
        if (r->wire_len <
            r->len) /* a short SGL was let pass: no byte of others' data in its place */
                memset(r->buffer + r->wire_len, 0, r->len - r->wire_len);
        enter(r, REQUEST_TRANSFERRING_H2C);
        ask(r);
}

static void obtain_buffer(struct request *r)
{
        struct tcp_controller *c = r->queue;

        if (!c->need_buffer.first && get_buffer(r)) {
                transfer(r);
                return;
        }
        enter(r, REQUEST_NEED_BUFFER);
        list_add(&c->need_buffer, r);
}

void tcp_controller_buffers(struct tcp_controller *c)
{
        struct request *r;

        while (!gone(c) && (r = c->need_buffer.first) && get_buffer(r)) {
                list_remove(&c->need_buffer, r);
                transfer(r);
        }
}

bool tcp_controller_needs_buffers(const struct tcp_controller *c)
{
        return !gone(c) && c->need_buffer.first;
}

/* --- in: capsules ----------------------------------------------------------------------------- */

static uint32_t in_capsule_max(const struct tcp_controller *c, const union sqe *sqe)
{
        if (admin_queue(c) || sqe->opc == NVME_FABRICS)
                return link_violates(&c->link, TCP_ICD_ADMIN) ? ICD_REFUSED_ABOVE
                                                              : PDU_ADMIN_IN_CAPSULE;
        return c->cfg.io_in_capsule;
}

static bool is_in_capsule(const struct request *r)
{
        return r->sqe.sgl.id == SGL_IN_CAPSULE;
}

/* At the header of a capsule. */
static void aim_capsule(struct tcp_controller *c, const union pdu *h)
{
        c->cmd = track_last_cmd(c->link.track);
        if (framer_data_len(&c->link.rx) > in_capsule_max(c, &h->cmd.sqe) &&
            !link_waives(&c->link, TCP_ICD_LIMIT))
                link_terminate(&c->link, rule_fault(TCP_ICD_LIMIT));
}

/* What breaks TCP_CDB on request. */
static bool refuses(const struct request *r)
{
        const struct tcp_controller *c = r->queue;

        return !is_in_capsule(r) && link_violates(&c->link, TCP_CDB) && r->xfer == XFER_H2C &&
               r->len <= in_capsule_max(c, &r->sqe);
}

static uint16_t check_sgl_type(const struct request *r)
{
        bool waived = link_waives(&r->queue->link, TCP_SGL_TYPE);

        if (is_in_capsule(r) ? r->xfer == XFER_H2C : r->sqe.sgl.id == SGL_TRANSPORT || waived)
                return refuses(r) ? NVME_SGL_TYPE : 0;
        return NVME_SGL_TYPE;
}

static uint16_t check_in_capsule(const struct request *r)
{
        const struct framer *rx = &r->queue->link.rx;

        if (!framer_data(rx) || framer_data_len(rx) < r->len || le32_get(r->sqe.sgl.len) < r->len)
                return NVME_SGL_LENGTH;
        return 0;
}

static uint16_t check_command_buffer(const struct request *r)
{
        uint32_t len = le32_get(r->sqe.sgl.len);

        if (!r->track)
                return NVME_CID_CONFLICT;
        if (len < r->len && !link_waives(&r->queue->link, FAB_SGL_SHORT))
                return NVME_SGL_LENGTH;
        if (r->xfer == XFER_H2C && len < dwords(r->wire_len))
                return NVME_SGL_GRANULARITY;
        return 0;
}

static uint16_t check_transfer(struct request *r)
{
        uint32_t sgl_len = le32_get(r->sqe.sgl.len);
        uint16_t status = check_sgl_type(r);

        r->wire_len = sgl_len < r->len ? sgl_len : r->len;
        if (!status && (r->xfer == XFER_BOTH || r->len > r->queue->cfg.max_transfer))
                status = NVME_INVALID_FIELD;
        if (!status)
                status = is_in_capsule(r) ? check_in_capsule(r) : check_command_buffer(r);
        return status ? status | STATUS_DNR : 0;
}

static uint16_t admit(struct request *r)
{
        struct tcp_controller *c = r->queue;
        uint16_t status = c->ops.admit(c->user, r);

        if (r->len == 0)
                r->xfer = XFER_NONE;
        if (!status && framer_ddgst_bad(&c->link.rx))
                status = NVME_TRANSIENT_TRANSPORT;
        if (!status && r->xfer != XFER_NONE)
                status = check_transfer(r);
        return status;
}

static void start(struct request *r)
{
        if (r->xfer == XFER_NONE) {
                execute(r);
        } else if (is_in_capsule(r)) {
                r->data = (uint8_t *)(uintptr_t)framer_data(&r->queue->link.rx);
                r->in_place = true;
                execute(r);
        } else {
                obtain_buffer(r);
        }
}

static void take_capsule(struct tcp_controller *c, const union pdu *h)
{
        struct request *r;
        uint16_t status;

        c->stalled = !request_to_be_had(c);
        if (c->stalled)
                return;
        c->budget--;
        r = take_request(c, &h->cmd.sqe);
        status = admit(r);
        if (status)
                fail(r, status);
        else
                start(r);
}

/* --- in: set-up and dispatch ------------------------------------------------------------------ */

/* TCP_ICRESP_FIRST broken: a response to nothing, before ICResp. */
static void speak_early(struct tcp_controller *c)
{
        struct pdu_capsule_resp h = { .ch = { .type = PDU_CAPSULE_RESP } };

        memcpy(c->early, &h, sizeof(h));
        c->early_tx = (struct tx) { .head = c->early };
        link_send(&c->link, &c->early_tx);
}

static void icresp_sent(struct tx *tx, void *user)
{
        struct tcp_controller *c = user;

        (void)tx;
        c->ic_queued = false;
}

static void answer_icreq(struct tcp_controller *c, const union pdu *h)
{
        unsigned able = (c->cfg.hdgst ? PDU_DGST_HEADER : 0u) | (c->cfg.ddgst ? PDU_DGST_DATA : 0u);

        if (c->ic_queued) /* TCP_ICREQ_ONCE waived: one answer to both */
                return;
        if (link_violates(&c->link, TCP_ICRESP_FIRST))
                speak_early(c);
        c->ic.icresp = (struct pdu_icresp) {
                .ch = { .type = PDU_ICRESP },
                .cpda = c->cfg.cpda,
                .dgst = (uint8_t)(h->icreq.dgst & able),
                .maxh2cdata = le32(c->cfg.maxh2cdata),
        };
        c->ic_tx = (struct tx) { .head = c->ic.bytes, .sent = icresp_sent };
        c->ic_queued = true;
        link_send(&c->link, &c->ic_tx);
}

typedef void take_fn(struct tcp_controller *c, const union pdu *h);

static take_fn *const on_header[PDU_TYPES] = {
        [PDU_CAPSULE_CMD] = aim_capsule,
        [PDU_H2C_DATA] = aim_data,
};

static take_fn *const on_pdu[PDU_TYPES] = {
        [PDU_ICREQ] = answer_icreq,
        [PDU_CAPSULE_CMD] = take_capsule,
        [PDU_H2C_DATA] = take_data,
};

static void take(struct tcp_controller *c, take_fn *const table[PDU_TYPES])
{
        const union pdu *h = framer_header(&c->link.rx);

        if (h->ch.type < PDU_TYPES && table[h->ch.type])
                table[h->ch.type](c, h);
}

/* False: no more events. */
static bool step(struct tcp_controller *c)
{
        switch (link_next(&c->link)) {
        case FRAMER_HEADER:
                take(c, on_header);
                return true;
        case FRAMER_PDU:
                take(c, on_pdu);
                return true;
        case FRAMER_FAULT:
        case FRAMER_MORE:
                break;
        }
        return false;
}

bool tcp_controller_received(struct tcp_controller *c, size_t n, unsigned budget)
{
        link_received(&c->link, n);
        c->budget = budget > 0 ? budget : UINT_MAX;
        if (c->stalled && !gone(c))
                take(c, on_pdu);
        while (!c->stalled && c->budget > 0)
                if (!step(c))
                        return false;
        return !gone(c);
}

/* --- the owner's side ------------------------------------------------------------------------- */

static void apply_defaults(struct tcp_controller_config *cfg)
{
        if (cfg->io_in_capsule > FRAMER_IN_PLACE)
                cfg->io_in_capsule = FRAMER_IN_PLACE;
        if (cfg->r2t_window == 0)
                cfg->r2t_window = 1;
        if (cfg->r2t_max == 0)
                cfg->r2t_max = UINT32_MAX;
        if (cfg->limits.r2ts_max == 0)
                cfg->limits.r2ts_max = R2TS_DEFAULT;
}

struct tcp_controller *tcp_controller_new(const struct tcp_controller_config *cfg,
                                          const struct tcp_controller_ops *ops, void *user)
{
        struct tcp_controller *c = calloc(1, sizeof(*c));
        struct link_config link = { .side = PARTY_CONTROLLER, .policy = cfg->policy };

        if (!c)
                return NULL;
        c->cfg = *cfg;
        c->ops = *ops;
        c->user = user;
        apply_defaults(&c->cfg);
        link.limits = c->cfg.limits;
        if (link_init(&c->link, &link, c) != 0) {
                free(c);
                return NULL;
        }
        list_init(&c->need_buffer);
        list_init(&c->need_r2t);
        add_requests(c, c->first, FIRST_REQUESTS);
        return c;
}

int tcp_controller_set_depth(struct tcp_controller *c, unsigned entries)
{
        c->depth = entries;
        return c->requests < entries ? add_slab(c) : 0;
}

static void put_buffers(struct request *r, unsigned n)
{
        while (n-- > 0)
                put_buffer(&r[n]);
}

static void free_slabs(struct tcp_controller *c)
{
        struct slab *s;

        while ((s = c->slabs)) {
                c->slabs = s->next;
                put_buffers(s->r, SLAB_REQUESTS);
                free(s);
        }
}

void tcp_controller_free(struct tcp_controller *c)
{
        if (!c)
                return;
        assert(c->executing == 0);
        put_buffers(c->first, FIRST_REQUESTS);
        free_slabs(c);
        link_fini(&c->link);
        free(c);
}

unsigned tcp_controller_executing(const struct tcp_controller *c)
{
        return c->executing;
}

void *tcp_controller_user(const struct tcp_controller *c)
{
        return c->user;
}

bool tcp_controller_waits(const struct tcp_controller *c)
{
        return c->r2ts > 0 || !framer_idle(&c->link.rx);
}

struct link *tcp_controller_link(struct tcp_controller *c)
{
        return &c->link;
}

/* A request that ends before its time: false if a PDU of it is in the middle of arriving, so that
 * its buffer has to stay. */
static bool withdraw(struct request *r)
{
        struct tcp_controller *c = r->queue;

        if (r->state == REQUEST_NEED_BUFFER)
                list_remove(&c->need_buffer, r);
        stop_waiting(r);
        r->withdrawn = c->in_hand == r && !gone(c);
        return !r->withdrawn;
}

void tcp_controller_complete(struct tcp_controller *c, struct request *r)
{
        if (r->state == REQUEST_EXECUTING) {
                c->executing--;
                enter(r, REQUEST_EXECUTED);
                finish(r);
        } else if (r->state < REQUEST_EXECUTING && withdraw(r)) {
                finish(r);
        }
}

struct request *tcp_controller_request(struct tcp_controller *c, uint16_t cid)
{
        struct track_cmd *cmd = track_cmd(c->link.track, cid);

        return cmd ? cmd->user : NULL;
}
