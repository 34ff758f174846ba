/* SPDX-License-Identifier: BSD-3-Clause */
#include "pcap/trace/words.h"
#include "reader.h"

void doca_words(struct text *t, const void *record)
{
        const struct doca_record *r = record;
        const struct trace_event *e = r->e;

        if (words_event(t, e, e->kind == TRACE_OPENED ? ", DOCA" : NULL))
                return;
        if (e->kind == TRACE_PDU)
                doca_msg_line(t, e->pdu->dialect, &e->pdu->m);
        else if (e->kind == TRACE_FAULT)
                text_add(t, "a frame whose size is none: nothing more can be read");
        else if (e->kind == TRACE_CAPSULE && e->capsule.known < e->capsule.len)
                text_add(t, "I/O message, not complete in the capture");
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
                doca_io_describe(d, r->client->dialect, &r->io);
        } else {
                (void)words_fields(d, e);
        }
}
