/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "command.h"
#include "pdu/io/json.h"
#include "tally.h"

enum { FIELDS_MAX = 1 << 20, WORDS_MAX = 1024, SCHEMA = 1 };

struct shower {
        const struct args *args;
        int64_t start_ns; /* of the first frame with a record */
        bool started;
        char *fields; /* FIELDS_MAX bytes, for -v */
};

/* Headers and pieces of data are told with what they are part of; of TLS only what is wrong with it. */
static bool is_shown(const struct trace_record *r)
{
        enum trace_kind kind = r->e->kind;

        if ((kind == TRACE_SECURED || r->e->conn->sealed) && !r->broken)
                return false;
        return kind != TRACE_HEADER && kind != TRACE_READ_DATA && kind != TRACE_WRITE_DATA;
}

/* --- text ------------------------------------------------------------------------------------- */

static void print_broken(const struct trace_record *r)
{
        const struct family *f = r->e->conn->family->family;

        rule_each_in (r->broken, id) {
                const struct rule *rule = rulebook_get(f->rules, id);

                printf("        ! %s %s %s (%s): %s%s\n", family_party(f, rule->bound),
                       grade_name(rule_grade(rule)), rule->id, rule->source, rule->says,
                       r->unproven ? " [or a frame is missing]" : "");
        }
}

static void print_fields(const struct shower *s, const struct trace_record *r)
{
        struct text_lines lines = { .text = text_in(s->fields, FIELDS_MAX), .depth = 2 };
        struct describe d = text_describer(&lines);

        if (!r->e->conn->family->describe)
                return;
        r->e->conn->family->describe(&d, r->record);
        fputs(s->fields, stdout);
}

static void print_line(const struct shower *s, const struct trace_record *r)
{
        const struct trace_event *e = r->e;
        const struct trace_family *f = e->conn->family;
        int number = f->queue ? f->queue(e->conn) : -1;
        char words[WORDS_MAX], queue[16] = "";
        struct text t = text_in(words, sizeof(words));

        if (f->queue)
                snprintf(queue, sizeof(queue), number < 0 ? "q?" : "q%d", number);
        f->words(&t, r->record);
        printf("%7" PRIu64 " %11.6f%c %3u %-3s %c %s\n", e->at.frame,
               (double)(e->at.time_ns - s->start_ns) / 1e9, e->at.time_guessed ? '~' : ' ',
               e->conn->number, queue, e->sender == PARTY_HOST ? '>' : '<', words);
        if (s->args->verbose)
                print_fields(s, r);
        if (r->broken)
                print_broken(r);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void add(struct json_object *o, const char *name, struct json_object *value)
{
        json_object_object_add(o, name, value);
}

static void add_broken(struct json_object *o, const struct trace_record *r)
{
        const struct family *f = r->e->conn->family->family;
        struct json_object *list = json_object_new_array();

        add(o, "broken", list);
        rule_each_in (r->broken, id) {
                const struct rule *rule = rulebook_get(f->rules, id);
                struct json_object *one = json_object_new_object();

                put_string(one, "rule", rule->id);
                put_string(one, "level", level_name(rule->level));
                put_string(one, "grade", grade_name(rule_grade(rule)));
                put_string(one, "bound", family_party(f, rule->bound));
                put_string(one, "source", rule->source);
                put_string(one, "says", rule->says);
                json_object_array_add(list, one);
        }
        if (r->unproven)
                add(o, "unproven", json_object_new_boolean(true));
}

static void add_opened(struct json_object *o, const struct trace_conn *c)
{
        char end[CAPTURE_END_TEXT];

        for (enum party p = PARTY_HOST; p <= PARTY_CONTROLLER; p++)
                put_string(o, family_party(c->family->family, p),
                           capture_end_text(&c->end[p], end));
        add(o, "midstream", json_object_new_boolean(c->midstream));
}

static void add_fields(struct json_object *o, const struct trace_record *r)
{
        struct json_object *inner = json_object_new_object();
        struct json_groups groups;
        struct describe d = json_describer(&groups, inner);

        if (r->e->conn->family->describe)
                r->e->conn->family->describe(&d, r->record);
        add(o, "fields", inner);
}

static void print_object(const struct trace_record *r)
{
        const struct trace_event *e = r->e;
        const struct trace_family *f = e->conn->family;
        struct json_object *o = json_object_new_object();
        struct trace_view v = { 0 };

        if (f->view)
                f->view(&v, r->record);
        add(o, "schema", json_object_new_int(SCHEMA));
        add(o, "frame", json_object_new_uint64(e->at.frame));
        add(o, "time_ns", json_object_new_int64(e->at.time_ns));
        if (e->at.time_guessed)
                add(o, "time_guessed", json_object_new_boolean(true));
        add(o, "connection", json_object_new_uint64(e->conn->number));
        put_string(o, "transport", trace_transport_name(e->conn->transport));
        put_string(o, "sender", family_party(f->family, e->sender));
        put_string(o, "kind", v.kind ? v.kind : trace_kind_name(e->kind));
        if (f->place_json)
                f->place_json(o, e->conn);
        if (e->kind == TRACE_OPENED)
                add_opened(o, e->conn);
        if (r->broken)
                add_broken(o, r);
        add_fields(o, r);
        puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_NOSLASHESCAPE));
        json_object_put(o);
}

static void on_record(void *user, const struct trace_record *r)
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
        struct tally *messages, *commands, *statuses;
        uint64_t begun, answered, reads, writes;
        bool no_memory;
};

static void count_view(struct counter *c, const struct trace_family *f, const struct trace_view *v)
{
        uint64_t key = args_key(c->args, f, 0);
        char name[TALLY_NAME];
        struct text t = text_in(name, sizeof(name));
        bool good = true;

        c->begun += v->begins;
        c->answered += v->answers;
        if (v->message)
                good &= tally_add(&c->messages, key | v->rank, v->message) > 0;
        if (v->begins && v->command.name)
                good &= tally_add(&c->commands, key | v->command.rank, v->command.name) > 0;
        if (v->answers) {
                f->status(&t, v->status);
                good &= tally_add(&c->statuses, key | v->status, name) > 0;
        }
        c->no_memory |= !good;
}

static void count_record(void *user, const struct trace_record *r)
{
        const struct trace_family *f = r->e->conn->family;
        struct counter *c = user;
        struct trace_view v = { 0 };

        if (!args_select(c->args, r))
                return;
        c->reads += r->e->kind == TRACE_READ;
        c->writes += r->e->kind == TRACE_WRITE;
        if (!f->view || (r->e->kind != TRACE_PDU && r->e->kind != TRACE_CAPSULE))
                return;
        f->view(&v, r->record);
        count_view(c, f, &v);
}

static void print_tally(const struct tally *list)
{
        for (; list; list = list->next)
                printf("  %-28s %" PRIu64 "\n", list->name, list->count);
}

static void print_counts(const struct counter *c, const struct trace_totals *t)
{
        printf("%" PRIu64 " frames, %" PRIu64 " connections, %" PRIu64 " gaps\n", t->frames,
               t->conns, t->gaps);
        print_tally(c->messages);
        if (c->reads + c->writes)
                printf("  %-28s %" PRIu64 "\n  %-28s %" PRIu64 "\n", "RDMA READ", c->reads,
                       "RDMA WRITE", c->writes);
        printf("%" PRIu64 " commands\n", c->begun);
        print_tally(c->commands);
        printf("%" PRIu64 " responses\n", c->answered);
        print_tally(c->statuses);
}

static void count(struct pcap_call *call)
{
        struct counter c = { .args = call->args };
        const struct trace_reading how = { .record = count_record, .user = &c };
        struct trace_totals totals;

        (void)pcap_records(call, &how, &totals);
        if (c.no_memory && !*call->err)
                snprintf(call->err, sizeof(call->err), "out of memory");
        print_counts(&c, &totals);
        pcap_remarks(call, &totals);
        tally_free(&c.messages);
        tally_free(&c.commands);
        tally_free(&c.statuses);
}

/* --- the command ------------------------------------------------------------------------------ */

int pcap_show(struct pcap_call *call)
{
        struct shower s = { .args = call->args };
        const struct trace_reading how = {
                .judge = true, .waived = call->args->waived, .record = on_record, .user = &s
        };
        struct trace_totals totals = { 0 };

        if (call->args->count) {
                count(call);
                return PCAP_OK;
        }
        s.fields = malloc(FIELDS_MAX);
        if (s.fields)
                (void)pcap_records(call, &how, &totals);
        else
                snprintf(call->err, sizeof(call->err), "%s: out of memory", call->file);
        free(s.fields);
        fflush(stdout);
        pcap_remarks(call, &totals);
        return PCAP_OK;
}
