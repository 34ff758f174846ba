/* SPDX-License-Identifier: BSD-3-Clause */
/* Faults with a trigger (trigger.h), as they happen to the commands of a connection. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin.h"
#include "conn.h"
#include "pdu/io/capture/capture_writer.h"
#include "pdu/io/log.h"
#include "pdu/nvme/rdma/spoil_rdma.h"
#include "pdu/nvme/tcp/spoil_tcp.h"
#include "target/nvme/trigger.h"

enum {
        STATUS = 1u << FAULT_STATUS,
        VIOLATE = 1u << FAULT_VIOLATE,
        DELAY = 1u << FAULT_DELAY,
        DROP = 1u << FAULT_DROP,
        ENDS = 1u << FAULT_CLOSE | 1u << FAULT_RESET,
        CORRUPT = 1u << FAULT_CORRUPT,
};

static struct nvme_service *service(const struct target_conn *c)
{
        return conn_service(c);
}

/* --- the log ---------------------------------------------------------------------------------- */

/* Where in the recording it is to be looked for. */
static void tell_frame(const struct target_conn *c, char text[64])
{
        unsigned file;
        uint64_t frames;

        if (!service(c)->base.record)
                return;
        frames = capture_writer_frames(service(c)->base.record, &file);
        snprintf(text, 64, file ? ", after frame %llu of its file .%u" : ", after frame %llu",
                 (unsigned long long)frames, file);
}

/* It happens now, to r; NULL: to a message of no command. */
static void report(struct target_conn *c, const struct request *r, const struct trigger *f)
{
        char where[64] = "", which[80] = "";

        tell_frame(c, where);
        if (r)
                snprintf(which, sizeof(which), ", %s CID %u", sqe_name(&r->sqe, c->queue.qid == 0),
                         le16_get(r->sqe.cid));
        if (!service(c)->quiet)
                log_line(LOG_AS_INFO, "fault", c->base.peer.addr,
                         "fault %u (%s): conn %u (%s:%u, qid %u)%s%s", f->id, f->text,
                         c->base.number, c->base.peer.addr, c->base.peer.port, c->queue.qid, which,
                         where);
        if (c->kind->note)
                c->kind->note(c, f->text);
}

/* A chance for it: whether it happens. */
static bool happens(struct target_conn *c, const struct request *r, const struct trigger *f)
{
        if (!triggers_due(service(c)->faults, f))
                return false;
        report(c, r, f);
        return true;
}

/* The first one that happens at that point; all of them are counted. */
static const struct trigger *first(struct target_conn *c, const struct request *r, unsigned actions,
                                   enum fault_point point)
{
        const struct trigger *f, *found = NULL;
        unsigned slot = 0;

        while (r->faults && (f = triggers_at(service(c)->faults, r->faults, &slot, actions, point)))
                if (happens(c, r, f) && !found)
                        found = f;
        return found;
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Of the connection: this command and those after it are not answered any more. */
static void cut_off(struct target_conn *c, struct request *r, const struct trigger *f)
{
        r->no_response = true;
        c->cut_off = true;
        c->kind->finish(c, f->action == FAULT_RESET);
}

static bool ends(struct target_conn *c, struct request *r, enum fault_point point)
{
        const struct trigger *f = first(c, r, ENDS, point);

        if (f)
                cut_off(c, r, f);
        return f;
}

/* --- a command's life ------------------------------------------------------------------------- */

static uint64_t meet(struct target_conn *c, const struct request *r)
{
        const struct ctrl *ctrl = c->queue.ctrl;
        bool connects = r && !ctrl && sqe_is_connect(&r->sqe);
        struct trigger_command command = {
                .host = ctrl ? ctrl->m.hostnqn : NULL,
                .nqn = ctrl ? ctrl->m.subnqn : NULL,
                .qid = connects ? le16_get(r->sqe.connect.qid) : c->queue.qid,
                .sqe = r ? &r->sqe : NULL,
                .len = r && r->xfer != XFER_NONE ? r->len : 0,
                .now = reactor_now(c->base.reactor),
        };

        return triggers_meet(service(c)->faults, &command);
}

uint16_t conn_trigger_arrives(struct target_conn *c, struct request *r, uint16_t status)
{
        const struct trigger *f;

        r->faults = meet(c, r);
        f = first(c, r, STATUS, FAULT_COMMAND);
        if (ends(c, r, FAULT_COMMAND))
                return NVME_ABORT_SQ_DELETED;
        if (!f)
                return status;
        r->cqe.sf = status_field(f->status);
        if (c->queue.qid > 0 && c->queue.ctrl && r->sqe.opc != NVME_FABRICS)
                ctrl_log_error(&c->queue, r);
        return le16_get(r->cqe.sf) >> 1;
}

/* A byte of its data, where it is our memory. */
static void corrupt(struct target_conn *c, const struct request *r, enum fault_point point,
                    uint32_t len)
{
        const struct trigger *f;
        unsigned slot = 0;

        while (r->faults &&
               (f = triggers_at(service(c)->faults, r->faults, &slot, CORRUPT, point)) != NULL)
                if (f->value < len && happens(c, r, f))
                        r->data[f->value] = (uint8_t)~r->data[f->value];
}

bool conn_trigger_executes(struct target_conn *c, struct request *r)
{
        if (r->xfer != XFER_H2C || !r->data)
                return false;
        corrupt(c, r, FAULT_H2CDATA, r->len);
        return ends(c, r, FAULT_H2CDATA);
}

uint64_t conn_trigger_delays(struct target_conn *c, const struct request *r)
{
        bool data = r->xfer == XFER_C2H && r->c2h_len > 0 && !cqe_status(&r->cqe);
        const struct trigger *a = data ? first(c, r, DELAY, FAULT_C2HDATA) : NULL;
        const struct trigger *b = first(c, r, DELAY, FAULT_RESP);

        return (a ? a->value : 0) + (b ? b->value : 0);
}

static bool hold(void *user, struct request *r)
{
        struct target_conn *c = user;
        const struct trigger *f = first(c, r, DELAY, FAULT_R2T);

        if (!c->kind->by_pdu && ends(c, r, FAULT_R2T))
                return true;
        return f && conn_hold(c, r, f->value, true);
}

/* --- rules ------------------------------------------------------------------------------------ */

/* What a violator may have changed of a command's outcome. */
struct outcome_copy {
        struct cqe cqe;
        uint8_t *data; /* c2h_len bytes, or NULL */
};

static bool keep(struct outcome_copy *o, const struct request *r)
{
        bool data = r->buffer_len > 0 && r->c2h_len > 0;

        o->cqe = r->cqe;
        o->data = data ? malloc(r->c2h_len) : NULL;
        if (o->data)
                memcpy(o->data, r->data, r->c2h_len);
        return !data || o->data;
}

static void put_back(const struct outcome_copy *o, struct request *r)
{
        r->cqe = o->cqe;
        if (o->data)
                memcpy(r->data, o->data, r->c2h_len);
}

/* SQHD is nobody's yet. */
static bool is_about_sqhd(const struct trigger *f, const struct request *r)
{
        struct cqe copy = r->cqe;

        return spoil_sqhd(&f->rules, &r->sqe, &copy);
}

static void break_outcome(struct target_conn *c, struct request *r, const struct trigger *f)
{
        struct outcome_copy was;

        if (is_about_sqhd(f, r) || !keep(&was, r))
                return;
        if (spoil_completion(&f->rules, &r->sqe, &r->cqe, r->buffer_len > 0 ? r->data : NULL,
                             r->c2h_len) &&
            !happens(c, r, f))
                put_back(&was, r);
        free(was.data);
}

static void break_outcomes(struct target_conn *c, struct request *r)
{
        const struct trigger *f;
        unsigned slot = 0;

        while (r->faults &&
               (f = triggers_at(service(c)->faults, r->faults, &slot, VIOLATE, FAULT_RESP)) != NULL)
                break_outcome(c, r, f);
}

static void head(void *user, struct request *r)
{
        struct target_conn *c = user;
        const struct trigger *f;
        unsigned slot = 0;

        while (r->faults &&
               (f = triggers_at(service(c)->faults, r->faults, &slot, VIOLATE, FAULT_RESP)) != NULL)
                if (is_about_sqhd(f, r) && happens(c, r, f))
                        (void)spoil_sqhd(&f->rules, &r->sqe, &r->cqe);
}

void conn_trigger_completes(struct target_conn *c, struct request *r)
{
        bool data = r->c2h_len > 0;

        if (data && r->buffer_len > 0)
                corrupt(c, r, FAULT_C2HDATA, r->c2h_len);
        break_outcomes(c, r);
        if (first(c, r, DROP, FAULT_RESP))
                r->no_response = true;
        if (!c->kind->by_pdu && !(data && ends(c, r, FAULT_C2HDATA)))
                (void)ends(c, r, FAULT_RESP);
}

/* --- messages --------------------------------------------------------------------------------- */

static void break_pdu(struct target_conn *c, struct request *r, struct spoil *s,
                      const struct trigger *f)
{
        struct spoil was = *s;
        union pdu head_was = *s->h;

        if (!spoil_pdu(&f->rules, PARTY_CONTROLLER, s) || happens(c, r, f))
                return;
        *s->h = head_was;
        *s = was;
}

/* The connection ends within this PDU. */
static void end_within(struct target_conn *c, const struct request *r, struct tx *tx,
                       enum fault_point point)
{
        const struct trigger *f = first(c, r, ENDS, point);

        if (!f)
                return;
        tx->end = f->action == FAULT_RESET ? TX_RESETS : TX_CLOSES;
        tx->end_at = f->half ? TX_HALF : (uint32_t)f->value;
}

static enum fault_point point_of(const union pdu *h)
{
        switch (h->ch.type) {
        case PDU_R2T:
                return FAULT_R2T;
        case PDU_C2H_DATA:
                return FAULT_C2HDATA;
        case PDU_CAPSULE_RESP:
                return FAULT_RESP;
        default:
                return FAULT_POINTS; /* none */
        }
}

static void pdu(void *user, struct request *r, struct spoil *s, struct tx *tx)
{
        struct target_conn *c = user;
        uint64_t mask = r ? r->faults : meet(c, NULL);
        enum fault_point point = point_of(s->h);
        const struct trigger *f;
        unsigned slot = 0;

        while (mask && (f = triggers_at(service(c)->faults, mask, &slot, VIOLATE, point)) != NULL)
                break_pdu(c, r, s, f);
        if (r)
                end_within(c, r, tx, point);
}

static void response(void *user, struct request *r, struct spoil_response *s)
{
        struct target_conn *c = user;
        const struct trigger *f;
        unsigned slot = 0;

        while (r->faults && (f = triggers_at(service(c)->faults, r->faults, &slot, VIOLATE,
                                             FAULT_RESP)) != NULL) {
                struct spoil_response was = *s;
                struct cqe cqe = r->cqe;

                if (!spoil_response(&f->rules, s) || happens(c, r, f))
                        continue;
                *s = was;
                r->cqe = cqe;
        }
}

static void transfer(void *user, struct request *r, struct spoil_transfer *s)
{
        struct target_conn *c = user;
        const struct trigger *f;
        unsigned slot = 0;

        while (r->faults && (f = triggers_at(service(c)->faults, r->faults, &slot, VIOLATE,
                                             FAULT_C2HDATA)) != NULL) {
                struct spoil_transfer was = *s;

                if (spoil_transfer(&f->rules, s) && !happens(c, r, f))
                        *s = was;
        }
}

const struct request_faults conn_request_faults = {
        .hold = hold,
        .head = head,
        .pdu = pdu,
        .response = response,
        .transfer = transfer,
};

/* A slot may be another fault's from now on. */
static void forget_gone(struct request *r)
{
        struct target_conn *c = r->owner;

        r->faults &= ~service(c)->faults_gone;
}

void conn_trigger_renew(struct target_conn *c)
{
        const struct requests *requests = c->kind->requests(c);

        if (requests)
                requests_each(requests, forget_gone);
}
