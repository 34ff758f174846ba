/* SPDX-License-Identifier: BSD-3-Clause */
#include "words.h"

#include <inttypes.h>
#include <string.h>

static const struct word plain_words[] = {
        { TRACE_CLOSED, "end of the connection" },
        { TRACE_SECURED, "ClientHello of TLS" },
        { TRACE_READY, "READY" },
        { TRACE_DISCONNECT, "DISCONNECT" },
        { TRACE_DISCONNECTED, "DISCONNECT answered" },
        { TRACE_TERMINATE, "RDMAP Terminate" },
        { 0, NULL },
};

static const char *const refusal_words[] = {
        [TRACE_NOT_READY] = "receiver not ready",
        [TRACE_NO_ACCESS] = "no access to that memory",
        [TRACE_REFUSED_OTHERWISE] = "no such operation",
};

void words_conn(struct text *t, const struct trace_conn *c)
{
        char host[CAPTURE_END_TEXT], controller[CAPTURE_END_TEXT];

        text_add(t, "%s %s > %s", trace_transport_name(c->transport),
                 capture_end_text(&c->end[PARTY_HOST], host),
                 capture_end_text(&c->end[PARTY_CONTROLLER], controller));
        if (c->transport == TRACE_ROCE)
                text_add(t, " QP %u > %u", c->qpn[PARTY_HOST], c->qpn[PARTY_CONTROLLER]);
}

static void opened_words(struct text *t, const struct trace_conn *c, const char *more)
{
        text_add(t, "connection %u: ", c->number);
        words_conn(t, c);
        text_add(t, "%s%s", more, c->midstream ? ", began before the capture" : "");
}

static void gap_words(struct text *t, const struct trace_gap *g)
{
        if (g->bytes)
                text_add(t, "GAP: %" PRIu64 " bytes are not in the capture", g->bytes);
        else if (g->packets)
                text_add(t, "GAP: %" PRIu64 " packets are not in the capture", g->packets);
        else
                text_add(t, "GAP: the capture is incomplete here");
}

static void memory_words(struct text *t, const struct trace_event *e, const char *more)
{
        static const char *const names[] = { "READ", "READ data", "READ done", "WRITE data",
                                             "WRITE" };
        const struct trace_memory *m = &e->memory;

        text_add(t, "RDMA %s %u bytes at %" PRIx64 "h key %08Xh", names[e->kind - TRACE_READ],
                 m->len, m->addr, m->key);
        if (m->offset)
                text_add(t, " + %u", m->offset);
        text_add(t, "%s%s", more, m->cut ? ", not complete in the capture" : "");
}

static bool is_memory(enum trace_kind kind)
{
        return kind >= TRACE_READ && kind <= TRACE_WRITE;
}

bool words_event(struct text *t, const struct trace_event *e, const char *more)
{
        const char *plain = word_for(plain_words, e->kind);

        more = more ? more : "";
        if (e->kind == TRACE_OPENED)
                opened_words(t, e->conn, more);
        else if (plain)
                text_add(t, "%s", plain);
        else if (e->kind == TRACE_GAP)
                gap_words(t, &e->gap);
        else if (e->kind == TRACE_FOUND && e->gap.bytes)
                text_add(t, "continues here, %" PRIu64 " bytes skipped", e->gap.bytes);
        else if (e->kind == TRACE_FOUND)
                text_add(t, "continues here");
        else if (e->kind == TRACE_REFUSAL)
                text_add(t, "NAK: %s", refusal_words[e->refusal]);
        else if (is_memory(e->kind))
                memory_words(t, e, more);
        else
                return false;
        return true;
}

static void memory_fields(const struct describe *d, const struct trace_memory *m)
{
        d->number(d->arg, "addr", m->addr, 64, NULL);
        d->number(d->arg, "key", m->key, 32, NULL);
        d->number(d->arg, "len", m->len, 32, NULL);
        d->number(d->arg, "offset", m->offset, 32, NULL);
        d->number(d->arg, "cut", m->cut, 1, NULL);
}

bool words_fields(const struct describe *d, const struct trace_event *e)
{
        if (e->kind == TRACE_GAP || e->kind == TRACE_FOUND) {
                d->number(d->arg, "bytes", e->gap.bytes, 64, NULL);
                d->number(d->arg, "packets", e->gap.packets, 64, NULL);
        } else if (e->kind == TRACE_REFUSAL) {
                d->string(d->arg, "why", refusal_words[e->refusal],
                          strlen(refusal_words[e->refusal]));
        } else if (is_memory(e->kind)) {
                memory_fields(d, &e->memory);
        } else {
                return e->kind == TRACE_OPENED || word_for(plain_words, e->kind);
        }
        return true;
}
