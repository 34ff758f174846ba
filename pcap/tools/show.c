/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "command.h"
#include "pcap/nvme/line.h"
#include "pcap/srp/line.h"

enum { FIELDS_MAX = 1 << 20 };

struct shower {
        struct pcap_call *call;
        const struct args *args;
        struct reader *nvme;
        struct srp_reader *srp;
        int64_t start_ns; /* of the first frame with a record */
        bool started;
        char *fields; /* FIELDS_MAX bytes, for -v */
};

/* Headers and pieces of data are told with what they are part of. */
static bool is_shown(enum trace_kind kind)
{
        return kind != TRACE_HEADER && kind != TRACE_READ_DATA && kind != TRACE_WRITE_DATA;
}

/* Of TLS only what is wrong with it. */
static bool is_sealed(const struct record *r)
{
        return (r->e->kind == TRACE_SECURED || r->e->conn->sealed) && !r->is_broken;
}

static void print_broken(const struct family *f, const struct rule_set *broken, bool unproven)
{
        rule_each_in (broken, id) {
                const struct rule *r = rulebook_get(f->rules, id);

                printf("        ! %s %s %s (%s): %s%s\n", family_party(f, r->bound),
                       grade_name(rule_grade(r)), r->id, r->source, r->says,
                       unproven ? " [or a frame is missing]" : "");
        }
}

/* A visitor that writes to s->fields. */
static struct describe fields_of(const struct shower *s, struct text_lines *lines)
{
        *lines = (struct text_lines) { .text = text_in(s->fields, FIELDS_MAX), .depth = 2 };
        return text_describer(lines);
}

static void print_head(const struct shower *s, const struct trace_event *e, const char *queue,
                       const char *words)
{
        double seconds = (double)(e->at.time_ns - s->start_ns) / 1e9;

        printf("%7" PRIu64 " %11.6f%c %3u %-3s %c %s\n", e->at.frame, seconds,
               e->at.time_guessed ? '~' : ' ', e->conn->number, queue,
               e->sender == PARTY_HOST ? '>' : '<', words);
}

static void print_line(struct shower *s, const struct record *r)
{
        char words[LINE_MAX_TEXT], qid[16] = "q?";
        struct text t = text_in(words, sizeof(words));
        struct text_lines lines;

        line_words(&t, r);
        if (r->session->qid >= 0)
                snprintf(qid, sizeof(qid), "q%d", r->session->qid);
        print_head(s, r->e, qid, words);
        if (s->args->verbose) {
                struct describe d = fields_of(s, &lines);

                line_describe(&d, r);
                fputs(s->fields, stdout);
        }
        if (r->is_broken)
                print_broken(nvme_capture.family, &r->broken, r->unproven);
}

static void print_json(struct json_object *o, struct json_object *fields)
{
        json_object_object_add(o, "fields", fields);
        puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_NOSLASHESCAPE));
        json_object_put(o);
}

static void print_object(const struct record *r)
{
        struct json_object *o = line_object(r), *inner = json_object_new_object();
        struct json_groups groups;
        struct describe d = json_describer(&groups, inner);

        line_describe(&d, r);
        print_json(o, inner);
}

static void note_start(struct shower *s, const struct trace_event *e)
{
        if (!s->started) {
                s->started = true;
                s->start_ns = e->at.time_ns;
        }
}

static void on_record(void *user, const struct record *r)
{
        struct shower *s = user;

        note_start(s, r->e);
        s->call->selected |= args_select_queue(s->args, r);
        if (!is_shown(r->e->kind) || is_sealed(r) || !args_select(s->args, r))
                return;
        if (args_json(s->args))
                print_object(r);
        else
                print_line(s, r);
}

/* --- SRP -------------------------------------------------------------------------------------- */

static void print_srp_line(struct shower *s, const struct srp_record *r)
{
        char words[LINE_MAX_TEXT];
        struct text t = text_in(words, sizeof(words));
        struct text_lines lines;

        srp_words(&t, r);
        print_head(s, r->e, "", words);
        if (s->args->verbose) {
                struct describe d = fields_of(s, &lines);

                srp_fields(&d, r);
                fputs(s->fields, stdout);
        }
        if (r->is_broken)
                print_broken(srp_capture.family, &r->broken, r->unproven);
}

static void print_srp_object(const struct srp_record *r)
{
        struct json_object *o = srp_object(r), *inner = json_object_new_object();
        struct json_groups groups;
        struct describe d = json_describer(&groups, inner);

        srp_fields(&d, r);
        print_json(o, inner);
}

/* Filters that ask for something of NVMe let nothing of SRP through. */
static bool is_srp_wanted(const struct args *a, const struct srp_record *r)
{
        return args_select_conn(a, r->e->conn) && a->cid == ARG_ANY && !a->opcode &&
               a->status == ARG_ANY && (!a->violations || r->is_broken);
}

static void on_srp_record(void *user, const struct srp_record *r)
{
        struct shower *s = user;

        note_start(s, r->e);
        s->call->selected |= args_select_conn(s->args, r->e->conn);
        if (!is_shown(r->e->kind) || !is_srp_wanted(s->args, r))
                return;
        if (args_json(s->args))
                print_srp_object(r);
        else
                print_srp_line(s, r);
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

static void on_event(void *user, const struct trace_event *e)
{
        struct shower *s = user;

        if (e->conn->family == &srp_capture)
                srp_reader_event(s->srp, e);
        else
                reader_event(s->nvme, e);
}

/* What was said, of both families, in order; false: out of memory. */
static bool show(struct shower *s, struct trace_totals *totals)
{
        static const struct trace_family *const beside[] = { &srp_capture, NULL };
        const struct args *a = s->args;
        struct session_options options = { .judge = true, .waived = &a->waived };
        struct trace_options trace = a->source.trace;
        bool whole;

        trace.beside = beside;
        s->nvme = reader_new(&options, on_record, s);
        s->srp = srp_reader_new(&a->waived_beside[0], on_srp_record, s);
        whole = s->nvme && s->srp;
        if (whole && trace_read(s->call->file, &nvme_capture, &trace, on_event, s, totals,
                                s->call->err, sizeof(s->call->err)) == 0)
                whole = !source_is_sealed(&a->source, totals, s->call->err, sizeof(s->call->err));
        whole &= !s->nvme || reader_free(s->nvme);
        whole &= !s->srp || srp_reader_free(s->srp);
        return whole;
}

int pcap_show(struct pcap_call *call)
{
        struct shower s = { .call = call, .args = call->args };
        struct trace_totals totals = { 0 };
        bool whole;

        if (call->args->count)
                return count(call);
        call->selected = !call->args->conn && call->args->qid == ARG_ANY;
        s.fields = malloc(FIELDS_MAX);
        whole = s.fields && show(&s, &totals);
        if (!whole && !*call->err)
                snprintf(call->err, sizeof(call->err), "%s: out of memory", call->file);
        free(s.fields);
        fflush(stdout);
        pcap_remarks(call, &totals);
        return whole ? PCAP_OK : PCAP_UNREADABLE;
}
