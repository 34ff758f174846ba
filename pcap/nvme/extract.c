/* SPDX-License-Identifier: BSD-3-Clause */
#include <json-c/json.h>
#include <stdio.h>

#include "pdu/nvme/wire/identify.h"
#include "session.h"
#include "tools.h"
#include "wirebytes.h"

static bool succeeds(const struct record *r)
{
        return r->ends && r->cmd && (!r->cqe || cqe_status(r->cqe) == NVME_SUCCESS);
}

static uint32_t block_size(const void *record, uint64_t nsid)
{
        const struct record *r = record;
        const struct session_cmd *c = r->cmd;

        if (!succeeds(r) || !session_admin(r->session, &c->sqe) || c->sqe.opc != NVME_IDENTIFY ||
            (le32_get(c->sqe.cdw10) & 0xff) != CNS_NS || le32_get(c->sqe.nsid) != nsid ||
            c->data_cut || c->data_len < sizeof(struct id_ns))
                return 0;
        return id_ns_block_size((const void *)c->data);
}

static bool blocks(struct extract_blocks *b, const void *record, uint64_t nsid)
{
        const struct record *r = record;
        const struct session_cmd *c = r->cmd;

        if (!succeeds(r) || session_admin(r->session, &c->sqe) ||
            (c->sqe.opc != NVME_WRITE && c->sqe.opc != NVME_READ) || le32_get(c->sqe.nsid) != nsid)
                return false;
        b->first = le32_get(c->sqe.cdw10) | (uint64_t)le32_get(c->sqe.cdw11) << 32;
        b->count = (le32_get(c->sqe.cdw12) & RW_NLB_MASK) + 1;
        b->data = c->data_cut ? NULL : c->data;
        b->len = c->data_len;
        return true;
}

static void command(struct json_object *o, const void *record)
{
        const struct record *r = record;
        const struct session_cmd *c = r->cmd;

        json_object_object_add(o, "sqe", extract_hex(c->sqe.bytes, sizeof(c->sqe.bytes)));
        if (c->data && !c->data_cut && c->data_len <= INT32_MAX / 4)
                json_object_object_add(o, c->h2c ? "sent_data" : "got_data",
                                       extract_hex(c->data, c->data_len));
        json_object_object_add(o, "dw0",
                               json_object_new_uint64(r->cqe ? le32_get(r->cqe->dw0) : 0));
        json_object_object_add(o, "dw1",
                               json_object_new_uint64(r->cqe ? le32_get(r->cqe->dw1) : 0));
}

enum { RANK_COMMAND = 256, RANK_RESPONSE, RANK_REQUEST, RANK_ACCEPT }; /* after those of TCP */

static void name_seed(struct extract_seed *s, unsigned rank, const uint8_t *p, size_t n)
{
        static const char *const names[] = { "command", "response", "request", "accept" };

        snprintf(s->kind, sizeof(s->kind), "rdma-%s", names[rank - RANK_COMMAND]);
        s->rank = rank;
        s->p = p;
        s->n = n;
}

static bool seed(struct extract_seed *s, const void *record, struct bytes *room)
{
        const struct record *r = record;
        const struct trace_event *e = r->e;
        const struct trace_capsule *c = &e->capsule;
        struct wire_parts parts;

        if (e->kind == TRACE_PDU && !e->pdu->cut && (e->pdu->data || e->pdu->data_len == 0)) {
                if (!wire_bytes(room, e->pdu, &parts))
                        return false;
                snprintf(s->kind, sizeof(s->kind), "tcp-%s", pdu_info(e->pdu->h->ch.type)->name);
                s->rank = e->pdu->h->ch.type;
                s->p = room->p;
                s->n = room->n;
        } else if (e->kind == TRACE_CAPSULE && c->known == c->len) {
                name_seed(s, r->sqe ? RANK_COMMAND : RANK_RESPONSE, c->data, c->len);
        } else if (e->kind == TRACE_REQUEST || e->kind == TRACE_ACCEPT) {
                name_seed(s, e->kind == TRACE_REQUEST ? RANK_REQUEST : RANK_ACCEPT, e->cm.data,
                          e->cm.len);
        } else {
                return false;
        }
        return true;
}

const struct trace_extract nvme_extract = {
        .blocks = blocks, .block_size = block_size, .command = command, .seed = seed
};
