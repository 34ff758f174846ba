/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "command.h"
#include "pcap/nvme/line.h"

enum { FIELDS_MAX = 1 << 20 };

struct shower {
        const struct args *args;
        int64_t start_ns; /* of the first frame with a record */
        bool started;
        char *fields; /* FIELDS_MAX bytes, for -v */
};

/* Headers and pieces of data are told with what they are part of. */
static bool is_shown(const struct record *r)
{
        return r->e->kind != TRACE_HEADER && r->e->kind != TRACE_READ_DATA &&
               r->e->kind != TRACE_WRITE_DATA;
}

static void print_broken(const struct record *r)
{
        rule_each_in (&r->broken, id)
                printf("        ! %s %s %s (%s): %s%s\n", party_name(rule_get(id)->bound),
                       level_name(rule_get(id)->level), rule_get(id)->id, rule_get(id)->source,
                       rule_get(id)->says, r->unproven ? " [or a frame is missing]" : "");
}

static void print_fields(const struct shower *s, const struct record *r)
{
        struct text_lines lines = { .text = text_in(s->fields, FIELDS_MAX), .depth = 2 };
        struct describe d = text_describer(&lines);

        line_describe(&d, r);
        fputs(s->fields, stdout);
}

static void print_line(struct shower *s, const struct record *r)
{
        char words[LINE_MAX_TEXT], qid[16] = "q?";
        struct text t = text_in(words, sizeof(words));
        double seconds = (double)(r->e->at.time_ns - s->start_ns) / 1e9;

        line_words(&t, r);
        if (r->session->qid >= 0)
                snprintf(qid, sizeof(qid), "q%d", r->session->qid);
        printf("%7" PRIu64 " %11.6f%c %3u %-3s %c %s\n", r->e->at.frame, seconds,
               r->e->at.time_guessed ? '~' : ' ', r->e->conn->number, qid,
               r->e->sender == PARTY_HOST ? '>' : '<', words);
        if (s->args->verbose)
                print_fields(s, r);
        if (r->is_broken)
                print_broken(r);
}

static void print_object(const struct record *r)
{
        struct json_object *o = line_object(r), *inner = json_object_new_object();
        struct json_groups groups;
        struct describe d = json_describer(&groups, inner);

        line_describe(&d, r);
        json_object_object_add(o, "fields", inner);
        puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_NOSLASHESCAPE));
        json_object_put(o);
}

static void on_record(void *user, const struct record *r)
{
        struct shower *s = user;

        if (!s->started) {
                s->started = true;
                s->start_ns = r->e->at.time_ns;
        }
        if (!is_shown(r) || !args_select(s->args, r))
                return;
        if (args_json(s->args))
                print_object(r);
        else
                print_line(s, r);
}

/* --- counting --------------------------------------------------------------------------------- */

struct counter {
        const struct args *args;
        uint64_t pdus[PDU_TYPES], commands, responses, errors, bytes;
        uint64_t kinds[TRACE_WRITE + 1];
        uint64_t opcodes[2][256]; /* by admin queue or not */
        uint64_t fabrics[256];
        uint64_t status[2048];
};

static void count_event(void *user, const struct trace_event *e)
{
        struct counter *c = user;

        c->kinds[e->kind]++;
        if (e->kind == TRACE_PDU && e->pdu->h->ch.type < PDU_TYPES)
                c->pdus[e->pdu->h->ch.type]++;
}

static void count_record(void *user, const struct record *r)
{
        struct counter *c = user;

        if (!args_select(c->args, r))
                return;
        count_event(c, r->e);
        if (r->sqe) {
                c->commands++;
                if (r->sqe->opc == NVME_FABRICS)
                        c->fabrics[r->sqe->fctype]++;
                else
                        c->opcodes[!session_admin(r->session, r->sqe)][r->sqe->opc]++;
        }
        if (r->cqe) {
                c->responses++;
                c->status[cqe_status(r->cqe)]++;
        }
}

static void print_opcodes(const struct counter *c)
{
        union sqe s = { .opc = NVME_FABRICS };

        for (unsigned i = 0; i < 256; i++) {
                s.fctype = (uint8_t)i;
                if (c->fabrics[i])
                        printf("  %-28s %" PRIu64 "\n", sqe_name(&s, true), c->fabrics[i]);
        }
        for (int io = 0; io < 2; io++)
                for (unsigned i = 0; i < 256; i++) {
                        s = (union sqe) { .opc = (uint8_t)i };
                        if (c->opcodes[io][i])
                                printf("  %-28s %" PRIu64 "\n", sqe_name(&s, !io),
                                       c->opcodes[io][i]);
                }
}

static void print_counts(const struct counter *c, const struct trace_totals *t)
{
        printf("%" PRIu64 " frames, %" PRIu64 " connections, %" PRIu64 " gaps\n", t->frames,
               t->conns, t->gaps);
        for (uint8_t i = 0; i < PDU_TYPES; i++)
                if (c->pdus[i])
                        printf("  %-28s %" PRIu64 "\n", pdu_info(i)->name, c->pdus[i]);
        if (c->kinds[TRACE_READ] + c->kinds[TRACE_WRITE])
                printf("  %-28s %" PRIu64 "\n  %-28s %" PRIu64 "\n", "RDMA READ",
                       c->kinds[TRACE_READ], "RDMA WRITE", c->kinds[TRACE_WRITE]);
        printf("%" PRIu64 " commands\n", c->commands);
        print_opcodes(c);
        printf("%" PRIu64 " responses\n", c->responses);
        for (unsigned i = 0; i < 2048; i++)
                if (c->status[i])
                        printf("  %X/%02Xh %-22s %" PRIu64 "\n", i >> 8, i & 255,
                               status_name((uint16_t)i), c->status[i]);
}

static int count(struct pcap_call *call)
{
        struct session_options options = { 0 };
        struct counter *c = calloc(1, sizeof(*c));
        struct trace_totals totals;

        if (!c) {
                snprintf(call->err, sizeof(call->err), "out of memory");
                return PCAP_UNREADABLE;
        }
        c->args = call->args;
        (void)pcap_records(call, &options, count_record, c, &totals);
        print_counts(c, &totals);
        pcap_remarks(call, &totals);
        free(c);
        return PCAP_OK;
}

int pcap_show(struct pcap_call *call)
{
        struct session_options options = { .judge = true, .waived = &call->args->waived };
        struct shower s = { .args = call->args };
        struct trace_totals totals;

        if (call->args->count)
                return count(call);
        s.fields = malloc(FIELDS_MAX);
        if (!s.fields) {
                snprintf(call->err, sizeof(call->err), "out of memory");
                return PCAP_UNREADABLE;
        }
        (void)pcap_records(call, &options, on_record, &s, &totals);
        free(s.fields);
        fflush(stdout);
        pcap_remarks(call, &totals);
        return PCAP_OK;
}
