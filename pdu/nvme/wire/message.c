/* SPDX-License-Identifier: BSD-3-Clause */
#include "message.h"

#include <string.h>

struct message message_of_capsule(enum message_kind kind, const void *capsule, uint32_t len)
{
        struct message m = { .kind = kind };
        size_t head = kind == MESSAGE_COMMAND ? sizeof(m.sqe) : sizeof(m.cqe);

        memcpy(&m.pdu, capsule, len < head ? len : head);
        return m;
}

const union sqe *message_sqe(const struct message *m)
{
        if (m->kind == MESSAGE_COMMAND)
                return &m->sqe;
        return message_is(m, PDU_CAPSULE_CMD) ? &m->pdu.cmd.sqe : NULL;
}

const struct cqe *message_cqe(const struct message *m)
{
        if (m->kind == MESSAGE_RESPONSE)
                return &m->cqe;
        return message_is(m, PDU_CAPSULE_RESP) ? &m->pdu.resp.cqe : NULL;
}

const struct field *message_field(const struct message *m, const char *name)
{
        switch (m->kind) {
        case MESSAGE_PDU:
                return field_named(pdu_fields(m->pdu.ch.type), name);
        case MESSAGE_COMMAND:
                return field_named(sqe_fields(), name);
        case MESSAGE_RESPONSE:
                return field_named(cqe_fields(), name);
        case MESSAGE_NONE:
                break;
        }
        return NULL;
}

void describe_message(const struct describe *d, const struct message *m, bool admin)
{
        switch (m->kind) {
        case MESSAGE_PDU:
                describe_pdu(d, &m->pdu, admin, NULL, 0);
                break;
        case MESSAGE_COMMAND:
                describe_sqe(d, &m->sqe, admin);
                break;
        case MESSAGE_RESPONSE:
                describe_cqe(d, &m->cqe);
                break;
        case MESSAGE_NONE:
                break;
        }
}

void message_line(struct text *t, const struct message *m, bool admin)
{
        switch (m->kind) {
        case MESSAGE_PDU:
                pdu_line(t, &m->pdu, admin);
                break;
        case MESSAGE_COMMAND:
                text_add(t, "%s ", pdu_info(PDU_CAPSULE_CMD)->name);
                sqe_line(t, &m->sqe, admin);
                break;
        case MESSAGE_RESPONSE:
                text_add(t, "%s ", pdu_info(PDU_CAPSULE_RESP)->name);
                cqe_line(t, &m->cqe);
                break;
        case MESSAGE_NONE:
                break;
        }
}
