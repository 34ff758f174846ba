/* SPDX-License-Identifier: BSD-3-Clause */
#include "line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pcap/trace/words.h"
#include "pdu/nvme/wire/auth.h"
#include "pdu/nvme/wire/identify.h"
#include "pdu/nvme/wire/logs.h"

/* --- words ------------------------------------------------------------------------------------ */

static bool is_admin(const struct record *r, const union sqe *s)
{
        return session_admin(r->session, s);
}

static void pdu_words(struct text *t, const struct record *r)
{
        const union pdu *h = r->e->pdu->h;

        if (r->e->kind == TRACE_FAULT)
                text_add(t, "invalid header: ");
        pdu_line(t, h, h->ch.type != PDU_CAPSULE_CMD || is_admin(r, &h->cmd.sqe));
        if (r->e->pdu->ddgst_bad)
                text_add(t, ", DDGST wrong");
        if (r->e->pdu->cut)
                text_add(t, ", data not complete in the capture");
}

static void depth_words(struct text *t, const struct trace_cm *cm)
{
        if (cm->depths)
                text_add(t, ", READs in %u out %u", cm->reads_in, cm->reads_out);
}

static void request_words(struct text *t, const struct trace_cm *cm)
{
        struct rdma_request q;

        text_add(t, "REQUEST");
        if (rdma_request_read(cm->data, cm->len, &q))
                text_add(t, " recfmt %u qid %u hrqsize %u hsqsize %u cntlid %u", le16_get(q.recfmt),
                         le16_get(q.qid), le16_get(q.hrqsize), le16_get(q.hsqsize),
                         le16_get(q.cntlid));
        else
                text_add(t, " with %u bytes of private data", cm->len);
        depth_words(t, cm);
}

static void accept_words(struct text *t, const struct trace_cm *cm)
{
        struct rdma_accept a;

        text_add(t, "ACCEPT");
        if (rdma_accept_read(cm->data, cm->len, &a))
                text_add(t, " recfmt %u crqsize %u", le16_get(a.recfmt), le16_get(a.crqsize));
        depth_words(t, cm);
}

static void reject_words(struct text *t, const struct trace_cm *cm)
{
        struct rdma_reject j;

        text_add(t, "REJECT");
        if (cm->reason != 28)
                text_add(t, " by the connection manager, reason %u", cm->reason);
        else if (rdma_reject_read(cm->data, cm->len, &j))
                text_add(t, " sts %u (%s)", le16_get(j.sts), rdma_reject_name(le16_get(j.sts)));
}

static void capsule_words(struct text *t, const struct record *r)
{
        const struct trace_capsule *c = &r->e->capsule;

        if (r->sqe) {
                text_add(t, "%s ", pdu_info(PDU_CAPSULE_CMD)->name);
                sqe_line(t, r->sqe, is_admin(r, r->sqe));
        } else if (r->cqe) {
                text_add(t, "%s ", pdu_info(PDU_CAPSULE_RESP)->name);
                cqe_line(t, r->cqe);
        } else {
                text_add(t, "SEND");
        }
        if (c->len != (r->cqe ? sizeof(struct cqe) : sizeof(union sqe)))
                text_add(t, ", capsule of %u", c->len);
        if (c->invalidates)
                text_add(t, ", invalidates key %08Xh", c->key);
        if (c->known < c->len)
                text_add(t, ", not complete in the capture");
}

static void message_words(struct text *t, const struct record *r)
{
        if (r->e->kind == TRACE_REQUEST)
                request_words(t, &r->e->cm);
        else if (r->e->kind == TRACE_ACCEPT)
                accept_words(t, &r->e->cm);
        else if (r->e->kind == TRACE_REJECT)
                reject_words(t, &r->e->cm);
        else if (r->e->kind == TRACE_CAPSULE)
                capsule_words(t, r);
        else
                pdu_words(t, r);
}

void line_words(struct text *t, const struct record *r)
{
        char whose[24] = "";

        if (r->cmd)
                snprintf(whose, sizeof(whose), " for cid %u", r->cmd->cid);
        if (!words_event(t, r->e, whose))
                message_words(t, r);
        if (r->why)
                text_add(t, " (%s)", r->why);
}

/* --- fields ----------------------------------------------------------------------------------- */

/* The structure that a command has brought, when it is over. */
static void describe_result(const struct describe *d, const struct record *r)
{
        const struct session_cmd *c = r->cmd;
        uint8_t selector;

        if (!r->ends || !c || !c->data || c->data_cut || (r->cqe && cqe_status(r->cqe)) ||
            !(session_admin(r->session, &c->sqe) || sqe_is_auth(&c->sqe)))
                return;
        selector = (uint8_t)le32_get(c->sqe.cdw10);
        if (c->sqe.opc == NVME_IDENTIFY) {
                d->group(d->arg, "identify");
                describe_identify(d, selector, c->data, c->data_len);
                d->group(d->arg, NULL);
        } else if (c->sqe.opc == NVME_GET_LOG_PAGE) {
                d->group(d->arg, "log");
                describe_log(d, selector, c->data, c->data_len);
                d->group(d->arg, NULL);
        } else if (sqe_is_connect(&c->sqe) && c->data_len >= sizeof(struct connect_data)) {
                d->group(d->arg, "connect");
                describe_connect_data(d, (const void *)c->data);
                d->group(d->arg, NULL);
        } else if (sqe_is_auth(&c->sqe)) {
                d->group(d->arg, "authentication");
                describe_auth(d, c->data, c->data_len);
                d->group(d->arg, NULL);
        } else if (r->cqe && sqe_is_fabrics(&c->sqe, FCTYPE_PROPERTY_GET)) {
                d->group(d->arg, "property");
                describe_property(d, le32_get(c->sqe.property.ofst), le64_get(r->cqe->result));
                d->group(d->arg, NULL);
        }
}

static void describe_cm(const struct describe *d, const struct record *r)
{
        const struct trace_cm *cm = &r->e->cm;
        struct rdma_request q;
        struct rdma_accept a;
        struct rdma_reject j;

        if (cm->depths) {
                d->number(d->arg, "reads_in", cm->reads_in, 16, NULL);
                d->number(d->arg, "reads_out", cm->reads_out, 16, NULL);
        }
        if (r->e->kind == TRACE_REQUEST && rdma_request_read(cm->data, cm->len, &q))
                describe_rdma_request(d, &q);
        else if (r->e->kind == TRACE_ACCEPT && rdma_accept_read(cm->data, cm->len, &a))
                describe_rdma_accept(d, &a);
        else if (r->e->kind == TRACE_REJECT)
                d->number(d->arg, "reason", cm->reason, 16, NULL);
        if (r->e->kind == TRACE_REJECT && cm->reason == 28 &&
            rdma_reject_read(cm->data, cm->len, &j))
                describe_rdma_reject(d, &j);
}

static void describe_capsule(const struct describe *d, const struct record *r)
{
        const struct trace_capsule *c = &r->e->capsule;

        d->number(d->arg, "len", c->len, 32, NULL);
        if (c->known < c->len)
                d->number(d->arg, "known", c->known, 32, NULL);
        if (c->invalidates)
                d->number(d->arg, "invalidates", c->key, 32, NULL);
        if (r->sqe)
                describe_sqe(d, r->sqe, is_admin(r, r->sqe));
        else if (r->cqe)
                describe_cqe(d, r->cqe);
}

static void describe_pdu_of(const struct describe *d, const struct record *r)
{
        const struct trace_pdu *p = r->e->pdu;

        describe_pdu(d, p->h, p->h->ch.type != PDU_CAPSULE_CMD || is_admin(r, &p->h->cmd.sqe),
                     p->cut ? NULL : p->data, p->cut ? 0 : p->data_len);
        if (p->h->ch.flags & PDU_HDGSTF)
                d->number(d->arg, "hdgst", p->hdgst, 32, NULL);
        if (p->h->ch.flags & PDU_DDGSTF)
                d->number(d->arg, "ddgst_bad", p->ddgst_bad, 1, NULL);
}

void line_describe(const struct describe *d, const struct record *r)
{
        enum trace_kind kind = r->e->kind;

        if (kind == TRACE_CAPSULE || kind == TRACE_TERMINATE)
                describe_capsule(d, r);
        else if (words_fields(d, r->e) && kind >= TRACE_READ && kind <= TRACE_WRITE && r->cmd)
                d->number(d->arg, "cid", r->cmd->cid, 16, NULL);
        else if (kind == TRACE_REQUEST || kind == TRACE_ACCEPT || kind == TRACE_REJECT)
                describe_cm(d, r);
        else if (kind == TRACE_HEADER || kind == TRACE_PDU || kind == TRACE_FAULT)
                describe_pdu_of(d, r);
        describe_result(d, r);
}
