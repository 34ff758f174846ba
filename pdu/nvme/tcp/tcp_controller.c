/* SPDX-License-Identifier: BSD-3-Clause */
#include "tcp_controller.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/core/plant.h"

enum {
        ANSWERED_EVERY = 3, /* of the Identifies one is left without answer under FAB_ANSWERED */
        ICD_REFUSED_ABOVE = 4096, /* bytes, under TCP_ICD_ADMIN */
        R2T_TINY = 512,           /* bytes, under TCP_R2T_LIMIT */
        R2T_PIECE = 16 << 10,     /* bytes, with FLAW_R2T_EARLY */
        R2TS_DEFAULT = 256,
};

struct tcp_request {
        struct request r;
        bool success; /* its last C2HData has SUCCESS */
        bool ddgst_bad;
        bool r2t_queued;         /* tx[0] is an R2T on its way out */
        bool awaits_r2t;         /* no R2T was to be had */
        struct track_cmd *track; /* NULL once the command has ended on the wire */
        uint32_t sent, asked;    /* bytes of C2HData sent, covered by R2Ts */
        uint32_t r2ts;           /* open */
        struct tx tx[2];         /* R2T or C2HData; response */
        uint8_t head[2][28];
};

struct tcp_controller {
        struct requests requests;
        struct tcp_controller_config cfg;
        struct rule_policy policy; /* of the link, which leaves it to us to answer TCP_CMD_CID */
        struct link link;

        struct request_list need_r2t;
        struct track_cmd *cmd;       /* of the capsule in hand */
        struct tcp_request *in_hand; /* whose H2CData is arriving */
        uint32_t r2ts;               /* open */
        unsigned budget;             /* capsules that may still be taken */
        bool stalled;                /* the capsule in hand waits for a free request */
        unsigned identifies;         /* counted for FAB_ANSWERED */

        struct tx ic_tx, early_tx;
        bool ic_queued;
        union pdu ic;
        uint8_t early[sizeof(struct pdu_capsule_resp) + PDU_DIGEST_LEN];
};

/* --- requests --------------------------------------------------------------------------------- */

static struct tcp_request *tcp_of(struct request *r)
{
        return (struct tcp_request *)r; /* its first member */
}

static struct tcp_controller *queue_of(const struct tcp_request *t)
{
        return (struct tcp_controller *)t->r.queue; /* its first member, too */
}

/* R2Ts of requests that wait for their data. The tracker also counts those of commands that ended
 * meanwhile, but gives them up when it needs the room. */
static void count_r2ts(struct tcp_request *t, uint32_t open)
{
        struct tcp_controller *c = queue_of(t);

        c->r2ts += open - t->r2ts;
        t->r2ts = open;
        assert(c->r2ts <= c->cfg.limits.r2ts_max);
}

/* Off the wire: what the host still sends for this command finds nobody. */
static void release_track(struct request *r)
{
        struct tcp_request *t = tcp_of(r);

        count_r2ts(t, 0);
        if (t->track && t->track->user == t) { /* after a reset the CID may be another command's */
                t->track->user = NULL;
                track_release(queue_of(t)->link.track, t->track);
        }
        t->track = NULL;
}

/* Of two commands with one CID only the first one is tracked. */
static void start_request(struct request *r)
{
        struct tcp_request *t = tcp_of(r);
        struct track_cmd *cmd = queue_of(t)->cmd;

        t->sent = t->asked = t->r2ts = 0;
        t->ddgst_bad = t->r2t_queued = t->awaits_r2t = t->success = false;
        t->track = cmd && !cmd->user ? cmd : NULL;
        if (t->track)
                t->track->user = t;
}

static struct request *find(const struct requests *q, uint16_t cid)
{
        struct track_cmd *cmd = track_cmd(((const struct tcp_controller *)q)->link.track, cid);
        struct tcp_request *t = cmd ? cmd->user : NULL;

        return t ? &t->r : NULL;
}

static bool gone(const struct requests *q)
{
        return ((const struct tcp_controller *)q)->link.state >= LINK_TERMINATING;
}

static bool admin_queue(const struct tcp_controller *c)
{
        return track_qid(c->link.track) <= 0;
}

/* --- out: responses and controller to host data ----------------------------------------------- */

/* FAB_ANSWERED broken: Flush, and on the admin queue one Identify in three, get no response. */
static bool swallows(struct tcp_request *t)
{
        struct tcp_controller *c = queue_of(t);

        if (!link_violates(&c->link, FAB_ANSWERED))
                return false;
        if (!admin_queue(c))
                return t->r.sqe.opc == NVME_FLUSH;
        return t->r.sqe.opc == NVME_IDENTIFY && ++c->identifies % ANSWERED_EVERY == 0;
}

static struct tcp_request *request_of(struct tx *tx, int i)
{
        return (struct tcp_request *)((uint8_t *)(tx - i) - offsetof(struct tcp_request, tx));
}

static void response_sent(struct tx *tx, void *user)
{
        (void)user;
        request_release(&request_of(tx, 1)->r);
}

static void send_tx(struct tcp_request *t, int i, const uint8_t *data, uint32_t len,
                    void (*sent)(struct tx *, void *))
{
        t->tx[i] = (struct tx) {
                .head = t->head[i],
                .data = data,
                .data_len = len,
                .data_writable = t->r.buffer_len > 0,
                .sqe = &t->r.sqe,
                .sent = sent,
        };
        link_send(&queue_of(t)->link, &t->tx[i]);
}

static void respond(struct tcp_request *t)
{
        struct pdu_capsule_resp h = { .ch.type = PDU_CAPSULE_RESP };

        assert(t->r.state != REQUEST_COMPLETING); /* a command ends once */
        request_enter(&t->r, REQUEST_COMPLETING);
        request_release_cid(&t->r);
        request_set_sqhd(&t->r);
        h.cqe = t->r.cqe;
        memcpy(t->head[1], &h, sizeof(h));
        send_tx(t, 1, NULL, 0, response_sent);
}

static void data_sent(struct tx *tx, void *user);

static void send_data(struct tcp_request *t)
{
        struct tcp_controller *c = queue_of(t);
        uint32_t left = t->r.c2h_len - t->sent;
        uint32_t n = c->cfg.c2h_max > 0 && c->cfg.c2h_max < left ? c->cfg.c2h_max : left;
        bool last = n == left, success = last && t->success;
        bool responds = last && (!success || link_violates(&c->link, TCP_C2H_SUCCESS_RESP));
        struct pdu_data h = {
                .ch = { .type = PDU_C2H_DATA },
                .cccid = t->r.sqe.cid,
                .offset = le32(t->sent),
                .length = le32(n),
        };

        if (last)
                h.ch.flags = success ? PDU_LAST | PDU_SUCCESS : PDU_LAST;
        if (success && !responds) {
                request_release_cid(&t->r);
                request_set_sqhd(&t->r);
        }
        memcpy(t->head[0], &h, sizeof(h));
        t->sent += n;
        send_tx(t, 0, t->r.data + (t->sent - n), n, responds ? NULL : data_sent);
        if (responds)
                respond(t);
}

static void data_sent(struct tx *tx, void *user)
{
        struct tcp_request *t = request_of(tx, 0);

        (void)user;
        if (t->sent < t->r.c2h_len)
                send_data(t);
        else
                request_release(&t->r);
}

/* While an R2T of it is on its way out: then r2t_sent() ends it. */
static bool lingers(const struct request *r)
{
        return ((const struct tcp_request *)r)->r2t_queued && !gone(r->queue);
}

/* SUCCESS stands for a status of 0 and nothing else in the completion. */
static bool takes_success(const struct tcp_request *t)
{
        return (t->r.success_ok || link_violates(&queue_of(t)->link, TCP_C2H_SUCCESS_SQFC)) &&
               le16_get(t->r.cqe.sf) == 0 &&
               (le64_get(t->r.cqe.result) == 0 ||
                link_violates(&queue_of(t)->link, TCP_C2H_SUCCESS_ALONE));
}

static bool spoil(struct request *r)
{
        const struct rule_set *violated = r->queue->violated;
        struct tcp_controller *c = queue_of(tcp_of(r));

        if (swallows(tcp_of(r)))
                return false;
        spoil_completion(violated, &r->sqe, &r->cqe, r->buffer_len > 0 ? r->data : NULL,
                         r->c2h_len);
        if (!admin_queue(c) && r->sqe.opc == NVME_READ && rule_in(violated, TCP_C2H_COMPLETE))
                r->c2h_len = r->c2h_len / 2 & ~3u;
        return true;
}

static void answer(struct request *r)
{
        struct tcp_request *t = tcp_of(r);

        if (r->c2h_len == 0) {
                respond(t);
                return;
        }
        t->success = takes_success(t);
        request_enter(r, REQUEST_TRANSFERRING_C2H);
        send_data(t);
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
        if (flawed(&c->policy, FLAW_R2T_EARLY))
                return R2T_PIECE;
        return link_violates(&c->link, TCP_R2T_LIMIT) ? R2T_TINY : c->cfg.r2t_max;
}

static uint32_t dwords(uint32_t len)
{
        return (len + 3) & ~3u;
}

/* R2Ts ask for whole dwords (3.6.2.8), also where the command counts bytes. */
static uint32_t to_ask(const struct tcp_request *t)
{
        return dwords(t->r.wire_len) - t->asked;
}

static void send_r2t(struct tcp_request *t)
{
        struct tcp_controller *c = queue_of(t);
        uint32_t n = to_ask(t) < r2t_max(c) ? to_ask(t) : r2t_max(c);
        struct pdu_data h = {
                .ch = { .type = PDU_R2T },
                .cccid = t->r.sqe.cid,
                .ttag = le16(
                    link_violates(&c->link, TCP_R2T_TTAG) ? 0 : track_free_ttag(c->link.track)),
                .offset = le32(t->asked),
                .length = le32(n),
        };

        memcpy(t->head[0], &h, sizeof(h));
        t->asked += n;
        t->r2t_queued = true;
        count_r2ts(t, t->r2ts + 1);
        send_tx(t, 0, NULL, 0, r2t_sent);
}

/* FLAW_R2T_EARLY: a part of what the last R2T asked for counts as all of it. */
static bool is_part_enough(const struct tcp_request *t)
{
        return flawed(&queue_of(t)->policy, FLAW_R2T_EARLY) && t->track &&
               (t->asked - t->track->h2c_got) % R2T_PIECE != 0;
}

/* One R2T of a request is queued at a time: the next follows when it is out. */
static bool may_ask(const struct tcp_request *t)
{
        return !t->r2t_queued && !t->ddgst_bad && to_ask(t) > 0 &&
               t->r2ts < (uint64_t)window(queue_of(t)) + is_part_enough(t);
}

static bool r2t_to_be_had(const struct tcp_controller *c)
{
        return c->r2ts < c->cfg.limits.r2ts_max;
}

static void ask(struct tcp_request *t)
{
        struct tcp_controller *c = queue_of(t);

        if (t->awaits_r2t || !may_ask(t))
                return;
        if (!c->need_r2t.first && r2t_to_be_had(c)) {
                send_r2t(t);
        } else {
                t->awaits_r2t = true;
                request_list_add(&c->need_r2t, &t->r);
        }
}

static void stop_waiting(struct tcp_request *t)
{
        if (t->awaits_r2t)
                request_list_remove(&queue_of(t)->need_r2t, &t->r);
        t->awaits_r2t = false;
}

static void r2t_sent(struct tx *tx, void *user)
{
        struct tcp_request *t = request_of(tx, 0);

        (void)user;
        t->r2t_queued = false;
        if (t->r.state == REQUEST_TRANSFERRING_H2C && !t->r.withdrawn)
                ask(t);
        else if (t->r.state == REQUEST_COMPLETING && t->r.no_response)
                request_release(&t->r);
}

/* An R2T was served: those who found none left may ask. */
static void ask_waiting(struct tcp_controller *c)
{
        struct tcp_request *t;

        while (c->need_r2t.first && r2t_to_be_had(c)) {
                t = tcp_of(c->need_r2t.first);
                stop_waiting(t);
                if (may_ask(t))
                        send_r2t(t);
        }
}

static struct tcp_request *receiver(struct tcp_controller *c)
{
        struct track_cmd *cmd = track_last_cmd(c->link.track);
        struct tcp_request *t = cmd ? cmd->user : NULL;

        return t && (t->r.state == REQUEST_TRANSFERRING_H2C || PLANTED(H2C_NO_BUFFER)) ? t : NULL;
}

/* Whether H2CData lies within the buffer: sure, unless rules are waived. */
static bool fits(const struct tcp_request *t, const struct pdu_data *h, uint32_t len)
{
        uint32_t offset = le32_get(h->offset);

        if (PLANTED(H2C_OFFSET) || PLANTED(H2C_NO_BUFFER))
                return true;
        return offset <= t->r.buffer_len &&
               (len <= t->r.buffer_len - offset || PLANTED(H2C_LENGTH));
}

/* FLAW_PDA_MIXED: HPDA, by which its own PDUs are aligned, is taken for what the host's have to have. */
static bool is_misaligned(const struct tcp_controller *c, const union pdu *h)
{
        unsigned step = (track_format(c->link.track, PARTY_CONTROLLER)->pda + 1u) * 4;

        return flawed(&c->policy, FLAW_PDA_MIXED) && h->ch.pdo % step != 0;
}

static void aim_data(struct tcp_controller *c, const union pdu *h)
{
        struct tcp_request *t = c->in_hand = receiver(c);

        if (is_misaligned(c, h)) {
                link_terminate(&c->link, rule_fault(TCP_PDO_H2C));
                return;
        }
        if (t && fits(t, &h->data, framer_data_len(&c->link.rx)))
                framer_sink(&c->link.rx, t->r.buffer + le32_get(h->data.offset));
}

/* Nothing is to come or to be asked for; not so after data that ran ahead of its R2Ts, which a rule
 * that is waived lets in. */
static bool is_served(const struct tcp_request *t)
{
        return t->track->r2ts == 0 && to_ask(t) == 0;
}

/* The data of one H2CData that is the whole transfer stays where it is, no matter that a buffer was
 * kept ready for it; of others it is gathered in the buffer. */
static void store(struct tcp_request *t, const struct pdu_data *h)
{
        const struct framer *rx = &queue_of(t)->link.rx;
        const uint8_t *data = framer_data(rx);
        uint32_t len = framer_data_len(rx), offset = le32_get(h->offset);

        if (!data || !fits(t, h, len) || data == t->r.buffer + offset)
                return;
        if (offset == 0 && len >= t->r.len && is_served(t)) {
                t->r.data = (uint8_t *)(uintptr_t)data;
                t->r.in_place = true;
        } else {
                memcpy(t->r.buffer + offset, data, len);
        }
}

static void data_stored(struct tcp_request *t)
{
        count_r2ts(t, t->track->r2ts);
        if (t->ddgst_bad)
                stop_waiting(t);
        if (t->r2ts > 0 || (to_ask(t) > 0 && !t->ddgst_bad))
                ask(t);
        else if (t->ddgst_bad)
                request_fail(&t->r, NVME_TRANSIENT_TRANSPORT);
        else
                request_arrived(&t->r);
}

static void take_data(struct tcp_controller *c, const union pdu *h)
{
        struct tcp_request *t = c->in_hand;

        c->in_hand = NULL;
        if (t && t->r.withdrawn) {
                request_arrived(&t->r);
        } else if (t) {
                t->ddgst_bad |= framer_ddgst_bad(&c->link.rx);
                if (PLANTED(H2C_AFTER) && t->ddgst_bad)
                        c->requests.ops.buffer_put(c->requests.user, t->r.buffer, t->r.buffer_len);
                if (PLANTED(R2T_COUNT) && t->ddgst_bad)
                        c->r2ts--;
                store(t, &h->data);
                data_stored(t);
        }
        ask_waiting(c);
}

static void fetch(struct request *r)
{
        request_enter(r, REQUEST_TRANSFERRING_H2C);
        ask(tcp_of(r));
}

/* False: a PDU of it is in the middle of arriving, so that its buffer has to stay. */
static bool withdraw(struct request *r)
{
        struct tcp_controller *c = queue_of(tcp_of(r));

        if (r->state > REQUEST_EXECUTING)
                return false;
        stop_waiting(tcp_of(r));
        return c->in_hand != tcp_of(r) || gone(r->queue);
}

/* --- in: capsules ----------------------------------------------------------------------------- */

static uint32_t in_capsule_max(const struct tcp_controller *c, const union sqe *sqe)
{
        if (admin_queue(c) || sqe->opc == NVME_FABRICS)
                return link_violates(&c->link, TCP_ICD_ADMIN) ? ICD_REFUSED_ABOVE
                                                              : PDU_ADMIN_IN_CAPSULE;
        return c->cfg.io_in_capsule;
}

static bool is_in_capsule(const struct tcp_request *t)
{
        return t->r.sqe.sgl.id == SGL_IN_CAPSULE;
}

/* Planted: for in-capsule data whose length is kept in 16 bits. */
static uint8_t *short_room(struct tcp_controller *c)
{
        return c->requests.ops.buffer_get(c->requests.user, (uint16_t)framer_data_len(&c->link.rx),
                                          &(uint32_t) { 0 });
}

/* On request: a command that nothing is wrong with. */
static bool ends_by(const struct tcp_controller *c, const union sqe *sqe)
{
        return (sqe->opc == NVME_WRITE && flawed(&c->policy, FLAW_TERM_UNPROVOKED)) ||
               (sqe_is_connect(sqe) && flawed(&c->policy, FLAW_TERM_CONNECT));
}

/* At the header of a capsule. */
static void aim_capsule(struct tcp_controller *c, const union pdu *h)
{
        c->cmd = track_last_cmd(c->link.track);
        if (PLANTED(PLEN_WRAP) && framer_data_len(&c->link.rx) > in_capsule_max(c, &h->cmd.sqe))
                framer_sink(&c->link.rx, short_room(c));
        else if (framer_data_len(&c->link.rx) > in_capsule_max(c, &h->cmd.sqe) &&
                 !link_waives(&c->link, TCP_ICD_LIMIT))
                link_terminate(&c->link, rule_fault(TCP_ICD_LIMIT));
        else if (ends_by(c, &h->cmd.sqe))
                link_terminate(&c->link, rule_fault(TCP_ICD_LEN));
}

/* What breaks TCP_CDB on request. */
static bool refuses(const struct tcp_request *t)
{
        const struct tcp_controller *c = queue_of(t);

        return !is_in_capsule(t) && link_violates(&c->link, TCP_CDB) && t->r.xfer == XFER_H2C &&
               t->r.len <= in_capsule_max(c, &t->r.sqe);
}

static uint16_t check_sgl_type(const struct tcp_request *t)
{
        bool waived = link_waives(&queue_of(t)->link, TCP_SGL_TYPE);

        if (is_in_capsule(t) ? t->r.xfer == XFER_H2C : t->r.sqe.sgl.id == SGL_TRANSPORT || waived)
                return refuses(t) ? NVME_SGL_TYPE : 0;
        return NVME_SGL_TYPE;
}

static uint16_t check_in_capsule(const struct tcp_request *t)
{
        const struct framer *rx = &queue_of(t)->link.rx;

        if (PLANTED(SGL_LENGTH) ? framer_data(rx) != NULL : PLANTED(NO_DATA) && !framer_data(rx))
                return 0;
        if (le64_get(t->r.sqe.sgl.addr) != 0)
                return NVME_SGL_OFFSET;
        if (!framer_data(rx) || framer_data_len(rx) < t->r.len ||
            le32_get(t->r.sqe.sgl.len) < t->r.len)
                return NVME_SGL_LENGTH;
        return 0;
}

static uint16_t check_command_buffer(const struct tcp_request *t)
{
        uint32_t len = le32_get(t->r.sqe.sgl.len);

        if (!t->track)
                return NVME_CID_CONFLICT;
        if (len < t->r.len && !t->r.lax && !link_waives(&queue_of(t)->link, FAB_SGL_SHORT))
                return NVME_SGL_LENGTH;
        if (t->r.xfer == XFER_H2C && len < dwords(t->r.wire_len))
                return NVME_SGL_GRANULARITY;
        return 0;
}

static uint16_t place(struct request *r)
{
        const struct tcp_request *t = tcp_of(r);
        uint32_t sgl_len = le32_get(r->sqe.sgl.len);
        uint16_t status = check_sgl_type(t);

        r->wire_len = sgl_len < r->len ? sgl_len : r->len;
        if (!status)
                status = is_in_capsule(t) ? check_in_capsule(t) : check_command_buffer(t);
        if (!status && is_in_capsule(t)) {
                r->data = (uint8_t *)(uintptr_t)framer_data(&queue_of(t)->link.rx);
                r->in_place = true;
        }
        return status ? status | STATUS_DNR : 0;
}

/* Command ID Conflict is a status, and hosts that leave use the CIDs of their AERs again. */
static bool collides(const struct tcp_controller *c)
{
        return c->cmd && c->cmd->user && !rule_in(c->requests.waived, TCP_CMD_CID);
}

static void take_capsule(struct tcp_controller *c, const union pdu *h)
{
        uint16_t status = framer_ddgst_bad(&c->link.rx) ? NVME_TRANSIENT_TRANSPORT : 0;

        c->stalled = !requests_available(&c->requests);
        if (c->stalled)
                return;
        c->budget--;
        requests_take(&c->requests, &h->cmd.sqe,
                      collides(c) ? NVME_CID_CONFLICT | STATUS_DNR : status);
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

/* Planted: as it was read, digest and all. */
static void keep_icreq(const struct tcp_controller *c)
{
        bool hdgst = c->link.rx.format.hdgst;
        struct pdu_icreq *copy = malloc(sizeof(*copy));

        for (size_t i = 0; copy && i < sizeof(struct pdu_icreq) + (hdgst ? PDU_DIGEST_LEN : 0); i++)
                ((volatile uint8_t *)copy)[i] = c->link.rx.buf[i];
        free(copy);
}

static void answer_icreq(struct tcp_controller *c, const union pdu *h)
{
        unsigned able = (c->cfg.hdgst ? PDU_DGST_HEADER : 0u) | (c->cfg.ddgst ? PDU_DGST_DATA : 0u);

        if (PLANTED(ICREQ_TWICE) && track_live(c->link.track)) {
                keep_icreq(c);
                return;
        }
        if (flawed(&c->policy, FLAW_IC_SILENT))
                return;
        if (flawed(&c->policy, FLAW_IC_TERM)) {
                link_terminate(&c->link, rule_fault(TCP_ICREQ_HPDA));
                return;
        }
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

static void handle_pdu(struct tcp_controller *c, take_fn *const table[PDU_TYPES])
{
        const union pdu *h = framer_header(&c->link.rx);

        if (h->ch.type < PDU_TYPES && table[h->ch.type])
                table[h->ch.type](c, h);
}

/* Planted: and it is kept all the same. */
static void give_its_buffer(struct request *r)
{
        struct requests *q = r->queue;

        if (r->buffer_len > 0)
                q->ops.buffer_put(q->user, r->buffer, r->buffer_len);
}

/* False: no more events. */
static bool step(struct tcp_controller *c)
{
        switch (link_next(&c->link)) {
        case FRAMER_HEADER:
                handle_pdu(c, on_header);
                return true;
        case FRAMER_PDU:
                handle_pdu(c, on_pdu);
                return true;
        case FRAMER_FAULT:
                if (PLANTED(TEARDOWN_TWICE))
                        requests_each(&c->requests, give_its_buffer);
                break;
        case FRAMER_MORE:
                break;
        }
        return false;
}

bool tcp_controller_received(struct tcp_controller *c, size_t n, unsigned budget)
{
        link_received(&c->link, n);
        c->budget = budget > 0 ? budget : UINT_MAX;
        if (c->stalled && !gone(&c->requests))
                handle_pdu(c, on_pdu);
        while (!c->stalled && c->budget > 0)
                if (!step(c))
                        return false;
        return !gone(&c->requests);
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

static const struct request_transport transport = {
        .size = sizeof(struct tcp_request),
        .granularity = 4, /* see to_ask() */
        .gone = gone,
        .begin = start_request,
        .find = find,
        .forget = release_track,
        .place = place,
        .fetch = fetch,
        .spoil = spoil,
        .answer = answer,
        .withdraw = withdraw,
        .lingers = lingers,
};

static void copy_policy(struct tcp_controller *c, const struct rule_policy *policy)
{
        c->policy = policy ? *policy : (struct rule_policy) { 0 };
        rule_add(&c->policy.waived, TCP_CMD_CID);
}

struct tcp_controller *tcp_controller_new(const struct tcp_controller_config *cfg,
                                          const struct request_ops *ops, void *user)
{
        struct tcp_controller *c = calloc(1, sizeof(*c));
        struct link_config link = { .side = PARTY_CONTROLLER };

        if (!c)
                return NULL;
        copy_policy(c, cfg->policy);
        link.policy = &c->policy;
        c->cfg = *cfg;
        apply_defaults(&c->cfg);
        link.limits = c->cfg.limits;
        request_list_init(&c->need_r2t);
        c->requests.max_transfer = cfg->max_transfer;
        if (link_init(&c->link, &link, c) != 0 ||
            requests_init(&c->requests, &transport, ops, user, cfg->policy) != 0) {
                tcp_controller_free(c);
                return NULL;
        }
        return c;
}

void tcp_controller_renew(struct tcp_controller *c)
{
        copy_policy(c, c->cfg.policy);
        link_renew(&c->link);
        requests_set_policy(&c->requests, c->cfg.policy);
}

void tcp_controller_free(struct tcp_controller *c)
{
        if (!c)
                return;
        requests_fini(&c->requests);
        link_fini(&c->link);
        free(c);
}

/* Of the request whose sqe it is. */
static void sending(void *user, struct tx *tx, struct spoil *s)
{
        struct tcp_controller *c = user;
        struct request *r = (struct request *)(void *)(uintptr_t)tx->sqe; /* its first member */

        c->requests.ops.faults->pdu(c->requests.user, r, s, tx);
}

void tcp_controller_set_faulty(struct tcp_controller *c, bool faulty)
{
        requests_set_faulty(&c->requests, faulty);
        c->link.sending = c->requests.faulty ? sending : NULL;
}

bool tcp_controller_waits(const struct tcp_controller *c)
{
        return c->r2ts > 0 || !framer_idle(&c->link.rx);
}

struct requests *tcp_requests(struct tcp_controller *c)
{
        return &c->requests;
}

struct link *tcp_controller_link(struct tcp_controller *c)
{
        return &c->link;
}
