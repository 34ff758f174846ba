/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A capture that may be shown: the connections of another one, what was said written again with
 * what names somebody replaced, digests, CRCs and checksums right. What is missing in the first is
 * missing in the second.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "anonymize.h"
#include "call.h"
#include "command.h"
#include "pdu/core/text.h"
#include "pdu/io/output.h"

struct sockaddr_storage anonymous_address(const struct scrub *s, const struct capture_end *end)
{
        struct sockaddr_storage ss = { .ss_family = end->family };
        struct capture_end e = *end;

        scrub_address(s, &e);
        if (e.family == AF_INET) {
                memcpy(&((struct sockaddr_in *)&ss)->sin_addr, e.addr, 4);
                ((struct sockaddr_in *)&ss)->sin_port = htons(e.port);
        } else {
                memcpy(&((struct sockaddr_in6 *)&ss)->sin6_addr, e.addr, 16);
                ((struct sockaddr_in6 *)&ss)->sin6_port = htons(e.port);
        }
        return ss;
}

struct tcp_copy { /* of a connection over TCP; its `tool` */
        struct capture_flow flow;
        uint64_t kept[]; /* the family's */
};

static struct tcp_copy *open_flow(struct anonymizer *w, const struct trace_record *r)
{
        const struct trace_conn *c = r->e->conn;
        struct sockaddr_storage host = anonymous_address(&w->scrub, &c->end[PARTY_HOST]);
        struct sockaddr_storage controller =
            anonymous_address(&w->scrub, &c->end[PARTY_CONTROLLER]);
        struct tcp_copy *t = calloc(1, sizeof(*t) + c->family->anonymize->tcp_size);

        if (!t)
                return NULL;
        t->flow.midstream = c->midstream;
        capture_flow_open(w->out, &t->flow, (struct sockaddr *)&host,
                          (struct sockaddr *)&controller, r->e->at.time_ns);
        return t;
}

static void open_copy(struct anonymizer *w, const struct trace_record *r)
{
        struct trace_conn *c = r->e->conn;

        w->written++;
        if (c->transport == TRACE_TCP)
                c->tool = open_flow(w, r);
        else
                c->tool = rdma_copy_new(w, r);
        w->no_memory |= !c->tool;
}

static void on_tcp(struct anonymizer *w, struct tcp_copy *t, const struct trace_record *r)
{
        r->e->conn->family->anonymize->tcp(w, &t->flow, t->kept, r);
        if (r->e->kind != TRACE_CLOSED)
                return;
        capture_flow_close(w->out, &t->flow, PARTY_HOST, false, r->e->at.time_ns);
        free(t);
}

static void on_rdma(struct anonymizer *w, struct rdma_copy *c, const struct trace_record *r)
{
        rdma_copy_record(w, c, r);
        if (r->e->kind == TRACE_CLOSED)
                rdma_copy_free(w, c);
}

static void on_record(void *user, const struct trace_record *r)
{
        struct trace_conn *c = r->e->conn;
        struct anonymizer *w = user;

        if (r->e->kind == TRACE_OPENED && args_select_conn(w->args, c))
                open_copy(w, r);
        if (!c->tool)
                return;
        if (c->transport == TRACE_TCP)
                on_tcp(w, c->tool, r);
        else
                on_rdma(w, c->tool, r);
}

static bool can(const struct args *a, const struct trace_family *f)
{
        (void)a;
        return f->anonymize;
}

static bool make_key(const struct args *a, struct scrub *s)
{
        s->key[0] = s->key[1] = a->seed;
        s->keep_data = a->keep_data;
        return a->seed != 0 || getrandom(s->key, sizeof(s->key), 0) == sizeof(s->key);
}

static void write_all(struct pcap_call *call, struct anonymizer *w)
{
        const struct trace_reading how = { .record = on_record, .user = w };
        struct trace_totals totals;
        struct text t;

        call->can = can;
        call->cannot = "cannot be anonymized, and is not written";
        call->data = true;
        (void)pcap_records(call, &how, &totals);
        w->no_memory |= w->transfers.no_memory;
        if (w->no_memory && !*call->err)
                snprintf(call->err, sizeof(call->err), "out of memory");
        if (w->written > 0 || *call->err)
                return;
        t = text_in(call->err, sizeof(call->err));
        text_add(&t, "%s: contains no", call->file);
        for (unsigned i = 0; w->args->families[i]; i++)
                if (w->args->families[i]->anonymize)
                        text_add(&t, "%s %s", i ? " or" : "", w->args->families[i]->name);
        text_add(&t, " connection to write");
}

int pcap_anonymize(struct pcap_call *call)
{
        struct anonymizer w = { .args = call->args, .transfers = { .most = TRANSFERS_ALL } };
        struct output o;
        bool written;

        if (!call->args->to) {
                fputs("nvmfspec pcap anonymize: no output given: use --to\n", stderr);
                return PCAP_USAGE;
        }
        if (!make_key(call->args, &w.scrub)) {
                snprintf(call->err, sizeof(call->err), "no random key: %s", strerror(errno));
                return PCAP_UNREADABLE;
        }
        if (!output_begin(&o, call->file, call->args->to, call->err, sizeof(call->err)))
                return PCAP_UNREADABLE;
        w.out = capture_writer_open(o.path, call->err, sizeof(call->err));
        if (w.out)
                write_all(call, &w);
        bytes_free(&w.message);
        written = w.out && capture_writer_close(w.out) == 0;
        if (!output_end(&o, written && w.written > 0 && !w.no_memory) || !written)
                if (!*call->err)
                        snprintf(call->err, sizeof(call->err), "%s: %s", call->args->to,
                                 strerror(errno));
        return PCAP_OK;
}
