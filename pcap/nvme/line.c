/* SPDX-License-Identifier: BSD-3-Clause */
#include "line.h"

#include <inttypes.h>
#include <string.h>

#include "pcap/trace/check.h"
#include "pdu/nvme/wire/auth.h"
#include "pdu/nvme/wire/identify.h"
#include "pdu/nvme/wire/logs.h"

enum { SCHEMA = 1 };

/* --- words ------------------------------------------------------------------------------------ */

static const char *const refusal_words[] = {
        [TRACE_NOT_READY] = "receiver not ready",
        [TRACE_NO_ACCESS] = "no access to that memory",
        [TRACE_REFUSED_OTHERWISE] = "no such operation",
};

static const char *line_kind(const struct record *r)
{
        if (r->e->kind == TRACE_CAPSULE && r->sqe)
                return "command";
        if (r->e->kind == TRACE_CAPSULE && r->cqe)
                return "response";
        return trace_kind_name(r->e->kind);
}

static void opened_words(struct text *t, const struct record *r)
{
        text_add(t, "connection %u: ", r->e->conn->number);
        check_conn(t, r->e->conn);
        if (r->e->conn->midstream)
                text_add(t, ", began before the capture");
}

static void gap_words(struct text *t, const struct record *r)
{
        const struct trace_gap *g = &r->e->gap;

        if (g->bytes)
                text_add(t, "GAP: %" PRIu64 " bytes are not in the capture", g->bytes);
        else if (g->packets)
                text_add(t, "GAP: %" PRIu64 " packets are not in the capture", g->packets);
        else
                text_add(t, "GAP: the capture is incomplete here");
}

static bool is_admin(const struct record *r, const union sqe *s)
{
        return session_admin(r->session, s);
}

static void pdu_words(struct text *t, const struct record *r)
{
        const union pdu *h = r->e->pdu->h;

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

static void memory_words(struct text *t, const struct record *r)
{
        const struct trace_memory *m = &r->e->memory;
        static const char *const names[] = { "READ", "READ data", "READ done", "WRITE data",
                                             "WRITE" };

        text_add(t, "RDMA %s %u bytes at %" PRIx64 "h key %08Xh", names[r->e->kind - TRACE_READ],
                 m->len, m->addr, m->key);
        if (m->offset)
                text_add(t, " + %u", m->offset);
        if (r->cmd)
                text_add(t, " for cid %u", r->cmd->cid);
        if (m->cut)
                text_add(t, ", not complete in the capture");
}

void line_words(struct text *t, const struct record *r)
{
        switch (r->e->kind) {
        case TRACE_OPENED:
                opened_words(t, r);
                break;
        case TRACE_CLOSED:
                text_add(t, "end of the connection");
                break;
        case TRACE_GAP:
                gap_words(t, r);
                break;
        case TRACE_FOUND:
                text_add(t, "continues here");
                if (r->e->gap.bytes)
                        text_add(t, ", %" PRIu64 " bytes skipped", r->e->gap.bytes);
                break;
        case TRACE_SECURED:
                text_add(t, "ClientHello of TLS");
                break;
        case TRACE_HEADER:
        case TRACE_PDU:
                pdu_words(t, r);
                break;
        case TRACE_FAULT:
                text_add(t, "invalid header: ");
                pdu_words(t, r);
                break;
        case TRACE_REQUEST:
                request_words(t, &r->e->cm);
                break;
        case TRACE_ACCEPT:
                accept_words(t, &r->e->cm);
                break;
        case TRACE_REJECT:
                reject_words(t, &r->e->cm);
                break;
        case TRACE_READY:
                text_add(t, "READY");
                break;
        case TRACE_DISCONNECT:
                text_add(t, "DISCONNECT");
                break;
        case TRACE_DISCONNECTED:
                text_add(t, "DISCONNECT answered");
                break;
        case TRACE_TERMINATE:
                text_add(t, "RDMAP Terminate");
                break;
        case TRACE_REFUSAL:
                text_add(t, "NAK: %s", refusal_words[r->e->refusal]);
                break;
        case TRACE_CAPSULE:
                capsule_words(t, r);
                break;
        case TRACE_READ:
        case TRACE_READ_DATA:
        case TRACE_READ_END:
        case TRACE_WRITE_DATA:
        case TRACE_WRITE:
                memory_words(t, r);
                break;
        }
        if (r->why)
                text_add(t, " (%s)", r->why);
}

/* --- fields ----------------------------------------------------------------------------------- */

static bool is_auth(const union sqe *s)
{
        return s->opc == NVME_FABRICS &&
               (s->fctype == FCTYPE_AUTH_SEND || s->fctype == FCTYPE_AUTH_RECEIVE);
}

/* The structure that a command has brought, when it is over. */
static void describe_result(const struct describe *d, const struct record *r)
{
        const struct session_cmd *c = r->cmd;
        uint8_t selector;

        if (!r->ends || !c || !c->data || c->data_cut || (r->cqe && cqe_status(r->cqe)) ||
            !(session_admin(r->session, &c->sqe) || is_auth(&c->sqe)))
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
        } else if (c->sqe.opc == NVME_FABRICS && c->sqe.fctype == FCTYPE_CONNECT &&
                   c->data_len >= sizeof(struct connect_data)) {
                d->group(d->arg, "connect");
                describe_connect_data(d, (const void *)c->data);
                d->group(d->arg, NULL);
        } else if (is_auth(&c->sqe)) {
                d->group(d->arg, "authentication");
                describe_auth(d, c->data, c->data_len);
                d->group(d->arg, NULL);
        } else if (r->cqe && c->sqe.opc == NVME_FABRICS && c->sqe.fctype == FCTYPE_PROPERTY_GET) {
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

static void describe_memory(const struct describe *d, const struct record *r)
{
        const struct trace_memory *m = &r->e->memory;

        d->number(d->arg, "addr", m->addr, 64, NULL);
        d->number(d->arg, "key", m->key, 32, NULL);
        d->number(d->arg, "len", m->len, 32, NULL);
        d->number(d->arg, "offset", m->offset, 32, NULL);
        d->number(d->arg, "cut", m->cut, 1, NULL);
        if (r->cmd)
                d->number(d->arg, "cid", r->cmd->cid, 16, NULL);
}

void line_describe(const struct describe *d, const struct record *r)
{
        const struct trace_event *e = r->e;

        switch (e->kind) {
        case TRACE_PDU:
        case TRACE_HEADER:
        case TRACE_FAULT:
                describe_pdu(d, e->pdu->h,
                             e->pdu->h->ch.type != PDU_CAPSULE_CMD ||
                                 is_admin(r, &e->pdu->h->cmd.sqe),
                             e->pdu->cut ? NULL : e->pdu->data, e->pdu->cut ? 0 : e->pdu->data_len);
                if (e->pdu->h->ch.flags & PDU_HDGSTF)
                        d->number(d->arg, "hdgst", e->pdu->hdgst, 32, NULL);
                if (e->pdu->h->ch.flags & PDU_DDGSTF)
                        d->number(d->arg, "ddgst_bad", e->pdu->ddgst_bad, 1, NULL);
                break;
        case TRACE_REQUEST:
        case TRACE_ACCEPT:
        case TRACE_REJECT:
                describe_cm(d, r);
                break;
        case TRACE_CAPSULE:
        case TRACE_TERMINATE:
                describe_capsule(d, r);
                break;
        case TRACE_READ:
        case TRACE_READ_DATA:
        case TRACE_READ_END:
        case TRACE_WRITE_DATA:
        case TRACE_WRITE:
                describe_memory(d, r);
                break;
        case TRACE_REFUSAL:
                d->string(d->arg, "why", refusal_words[e->refusal],
                          strlen(refusal_words[e->refusal]));
                break;
        case TRACE_GAP:
        case TRACE_FOUND:
                d->number(d->arg, "bytes", e->gap.bytes, 64, NULL);
                d->number(d->arg, "packets", e->gap.packets, 64, NULL);
                break;
        case TRACE_OPENED:
        case TRACE_CLOSED:
        case TRACE_SECURED:
        case TRACE_READY:
        case TRACE_DISCONNECT:
        case TRACE_DISCONNECTED:
                break;
        }
        describe_result(d, r);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void add(struct json_object *o, const char *name, struct json_object *value)
{
        json_object_object_add(o, name, value);
}

static void line_broken(struct json_object *into, const struct rule_set *broken)
{
        struct json_object *list = json_object_new_array();

        add(into, "broken", list);
        rule_each (id) {
                struct json_object *o;

                if (!rule_in(broken, id))
                        continue;
                o = json_object_new_object();
                add(o, "rule", json_object_new_string(rule_get(id)->id));
                add(o, "level", json_object_new_string(level_name(rule_get(id)->level)));
                add(o, "grade", json_object_new_string(grade_name(rule_grade(rule_get(id)))));
                add(o, "bound", json_object_new_string(party_name(rule_get(id)->bound)));
                add(o, "source", json_object_new_string(rule_get(id)->source));
                add(o, "says", json_object_new_string(rule_get(id)->says));
                json_object_array_add(list, o);
        }
}

static void add_end(struct json_object *o, const char *name, const struct capture_end *e)
{
        char buf[CAPTURE_END_TEXT];

        add(o, name, json_object_new_string(capture_end_text(e, buf)));
}

struct json_object *line_object(const struct record *r)
{
        const struct trace_conn *c = r->e->conn;
        struct json_object *o = json_object_new_object();

        add(o, "schema", json_object_new_int(SCHEMA));
        add(o, "frame", json_object_new_uint64(r->e->at.frame));
        add(o, "time_ns", json_object_new_int64(r->e->at.time_ns));
        if (r->e->at.time_guessed)
                add(o, "time_guessed", json_object_new_boolean(true));
        add(o, "connection", json_object_new_uint64(c->number));
        add(o, "transport", json_object_new_string(trace_transport_name(c->transport)));
        add(o, "sender", json_object_new_string(party_name(r->e->sender)));
        add(o, "qid", json_object_new_int(r->session->qid));
        add(o, "kind", json_object_new_string(line_kind(r)));
        if (r->session->assoc)
                add(o, "association", json_object_new_uint64(r->session->assoc->number));
        if (r->e->kind == TRACE_OPENED) {
                add_end(o, "host", &c->end[PARTY_HOST]);
                add_end(o, "controller", &c->end[PARTY_CONTROLLER]);
                add(o, "midstream", json_object_new_boolean(c->midstream));
        }
        if (r->is_broken)
                line_broken(o, &r->broken);
        if (r->is_broken && r->unproven)
                add(o, "unproven", json_object_new_boolean(true));
        return o;
}
