/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>

#include "pcap/trace/tracer.h"
#include "pcap/trace/words.h"
#include "reader.h"

static bool is_cm(const struct trace_event *e)
{
        return e->kind == TRACE_REQUEST || e->kind == TRACE_ACCEPT || e->kind == TRACE_REJECT;
}

static void request_words(struct text *t, const struct doca_record *r)
{
        const struct trace_cm *cm = &r->e->cm;
        uint64_t cookie;

        text_add(t, "REQUEST");
        if (doca_cm_read(cm->data, cm->len, &cookie))
                text_add(t, " cookie %" PRIx64 "h", cookie);
        if (r->client)
                text_add(t, ", %s of context %" PRIu64, doca_role_name(r->queue->role),
                         r->queue->context);
        else
                text_add(t, ", which no control channel in the capture has asked for");
}

static void cm_words(struct text *t, const struct doca_record *r)
{
        const struct trace_cm *cm = &r->e->cm;

        if (r->e->kind == TRACE_REQUEST)
                request_words(t, r);
        else if (r->e->kind == TRACE_ACCEPT)
                text_add(t, "ACCEPT");
        else if (cm->reason == CM_REJECTED_BY_CONSUMER)
                text_add(t, "REJECT by the service");
        else
                text_add(t, "REJECT by the connection manager, reason %u", cm->reason);
        if (cm->depths && r->e->kind != TRACE_REJECT)
                text_add(t, ", READs in %u out %u", cm->reads_in, cm->reads_out);
}

static void cm_fields(const struct describe *d, const struct trace_event *e)
{
        uint64_t cookie;

        if (e->kind == TRACE_REQUEST && doca_cm_read(e->cm.data, e->cm.len, &cookie))
                d->number(d->arg, "cookie", cookie, 64, NULL);
        if (e->kind == TRACE_REJECT)
                d->number(d->arg, "reason", e->cm.reason, 16, NULL);
        if (e->kind == TRACE_REJECT || !e->cm.depths)
                return;
        d->number(d->arg, "reads_in", e->cm.reads_in, 16, NULL);
        d->number(d->arg, "reads_out", e->cm.reads_out, 16, NULL);
}

void doca_words(struct text *t, const void *record)
{
        const struct doca_record *r = record;
        const struct trace_event *e = r->e;

        if (words_event(t, e, e->kind == TRACE_OPENED ? ", DOCA" : NULL))
                return;
        if (is_cm(e))
                cm_words(t, r);
        if (e->kind == TRACE_PDU)
                doca_msg_line(t, e->pdu->dialect, &e->pdu->m);
        else if (e->kind == TRACE_FAULT)
                text_add(t, "a frame whose size is none: nothing more can be read");
        else if (e->kind == TRACE_CAPSULE && e->capsule.known < e->capsule.len)
                text_add(t, "I/O message, not complete in the capture");
        else if (e->kind == TRACE_CAPSULE && !r->client)
                text_add(t, "message of %u bytes", e->capsule.len);
        else if (e->kind == TRACE_CAPSULE)
                doca_io_line(t, r->client->dialect, &r->io);
}

void doca_fields(const struct describe *d, const void *record)
{
        const struct doca_record *r = record;
        const struct trace_event *e = r->e;

        if (e->kind == TRACE_PDU) {
                doca_msg_describe(d, e->pdu->dialect, &e->pdu->m);
        } else if (e->kind == TRACE_CAPSULE) {
                d->number(d->arg, "len", e->capsule.len, 32, NULL);
                if (r->client)
                        doca_io_describe(d, r->client->dialect, &r->io);
        } else if (is_cm(e)) {
                cm_fields(d, e);
        } else {
                (void)words_fields(d, e);
        }
}
