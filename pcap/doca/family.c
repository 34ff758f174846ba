/* SPDX-License-Identifier: BSD-3-Clause */

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "pdu/doca/wire/family.h"
#include "reader.h"

struct doca_reader {
        struct trace_reading how;
        struct doca_client *clients; /* the latest one first; queue pairs outlive their channel: */
        struct doca_client *closed[DOCA_CAPTURE_CLOSED]; /* round about */
        unsigned next_closed;
        unsigned asked;
        struct doca_queue *queues; /* those that are open */
        bool no_memory;
};

/* --- clients and their queue pairs -------------------------------------------------------------- */

static struct doca_client *open_client(struct doca_reader *r, const struct trace_conn *conn)
{
        struct doca_client *c = calloc(1, sizeof(*c));

        if (!c) {
                r->no_memory = true;
                return NULL;
        }
        c->number = conn->number;
        c->dialect = doca_dialect(DOCA_3_2);
        doca_control_init(&c->control, c->dialect, DOCA_UNSURE);
        c->next = r->clients;
        if (c->next)
                c->next->before = c;
        r->clients = c;
        return c;
}

static void free_client(struct doca_reader *r, struct doca_client *c)
{
        while (c->asked) {
                struct doca_asked *a = c->asked;

                c->asked = a->next;
                r->asked--;
                free(a);
        }
        free(c);
}

static void forget_client(struct doca_reader *r, struct doca_client *c)
{
        *(c->before ? &c->before->next : &r->clients) = c->next;
        if (c->next)
                c->next->before = c->before;
        free_client(r, c);
}

/* Its channel is over. It is remembered for what is still to come of it, and the first one of many such goes. */
static void close_client(struct doca_reader *r, struct doca_client *c)
{
        struct doca_client **at = &r->closed[r->next_closed++ % DOCA_CAPTURE_CLOSED], *old = *at;

        *at = c;
        if (old && old->queues > 0)
                old->forgotten = true;
        else if (old)
                forget_client(r, old);
}

/* Whose queue pairs these are: nothing else is known of it. */
static struct doca_client *open_told(struct doca_reader *r, const struct trace_conn *conn)
{
        struct doca_client *c = open_client(r, conn);

        if (!c)
                return NULL;
        c->told = true;
        c->dialect = c->control.dialect = doca_dialect((enum doca_version)conn->told->how);
        return c;
}

static struct doca_client *client_of(const struct doca_reader *r, unsigned number)
{
        struct doca_client *c = r->clients;

        while (c && c->number != number)
                c = c->next;
        return c;
}

static struct doca_bounds bounds_of(const struct doca_client *c)
{
        return (struct doca_bounds) { .total_size = c->control.total_size,
                                      .block_size = c->control.block_size,
                                      .base = c->memory.base,
                                      .len = c->has_memory ? c->memory.len : 0 };
}

static void assign(struct doca_queue *q, struct doca_client *c, uint64_t context, uint64_t role)
{
        struct doca_bounds bounds = bounds_of(c);

        c->queues++;
        q->client = c;
        q->context = context;
        q->role = role;
        doca_flow_init(&q->flow, c->dialect, &bounds, c->control.transactions);
}

/* One that messages describe is that which its client's channel has answered last; whose another is, its connect request
 * says. */
static struct doca_queue *open_queue(struct doca_reader *r, const struct trace_conn *conn)
{
        struct doca_client *c = conn->told           ? open_told(r, conn)
                                : conn->described_by ? client_of(r, conn->described_by)
                                                     : NULL;
        struct doca_queue *q = calloc(1, sizeof(*q));

        if (!q) {
                r->no_memory = true;
                return NULL;
        }
        if (c)
                assign(q, c, c->context, c->role);
        if (conn->told) /* its beginning is */
                doca_flow_miss(&q->flow);
        q->next = r->queues;
        r->queues = q;
        return q;
}

static void close_queue(struct doca_reader *r, struct trace_conn *conn)
{
        struct doca_queue **at = &r->queues, *q = conn->user;

        while (*at != q)
                at = &(*at)->next;
        *at = q->next;
        conn->user = NULL;
        if (q->client && --q->client->queues == 0 && (q->client->forgotten || q->client->told))
                forget_client(r, q->client);
        free(q);
}

/* --- connections by the connection manager ------------------------------------------------------ */

/* A request for one, on the control channel. Where none names its context, it is counted. */
static void take_asked(struct doca_reader *r, struct doca_client *c, const struct trace_pdu *p)
{
        struct doca_asked *a;
        struct doca_end end;

        if (!doca_end_read(p->m.data, &end) || !end.by_cm || c->asked_n == DOCA_CAPTURE_ASKED ||
            r->asked == DOCA_CAPTURE_ASKED_ALL || (c->control.missing && !p->dialect->has_context))
                return;
        a = malloc(sizeof(*a));
        if (!a) {
                r->no_memory = true;
                return;
        }
        *a = (struct doca_asked) { .next = c->asked,
                                   .cookie = end.cookie,
                                   .context =
                                       p->dialect->has_context ? p->m.context : c->control.made / 2,
                                   .role = p->m.role,
                                   .service = doca_address(end.numbers.gid) };
        c->asked = a;
        c->asked_n++;
        r->asked++;
}

static bool same_address(const struct capture_end *a, const struct capture_end *b)
{
        return a->family == b->family && memcmp(a->addr, b->addr, sizeof(a->addr)) == 0;
}

/* The latest one; NULL: none. */
static const struct doca_asked *find_asked(const struct doca_client *c, uint64_t cookie,
                                           const struct capture_end *service)
{
        const struct doca_asked *a = c->asked;

        while (a && (a->cookie != cookie || !same_address(&a->service, service)))
                a = a->next;
        return a;
}

/* A connect request of the target. */
static void take_connect(struct doca_reader *r, struct doca_queue *q, const struct trace_event *e)
{
        const struct doca_asked *a = NULL;
        struct doca_client *c = r->clients;
        uint64_t cookie;

        if (q->client || !doca_cm_read(e->cm.data, e->cm.len, &cookie))
                return;
        while (c && !(a = find_asked(c, cookie, &e->conn->end[PARTY_HOST])))
                c = c->next;
        if (c)
                assign(q, c, a->context, a->role);
}

/* --- commands ----------------------------------------------------------------------------------- */

static struct doca_command *free_command(struct doca_queue *q)
{
        for (unsigned i = 0; i < DOCA_CAPTURE_COMMANDS; i++)
                if (!q->command[i].used)
                        return &q->command[i];
        return NULL;
}

static struct doca_command *find_command(struct doca_queue *q, uint64_t user_data)
{
        for (unsigned i = 0; i < DOCA_CAPTURE_COMMANDS; i++)
                if (q->command[i].used && q->command[i].user_data == user_data)
                        return &q->command[i];
        return NULL;
}

static struct trace_command command_of(const struct doca_io *io, const struct trace_event *e)
{
        static const char *const names[] = {
                [DOCA_IO_READ] = "read", [DOCA_IO_WRITE] = "write", [DOCA_IO_STOP] = "stop"
        };
        unsigned code = io->type <= DOCA_IO_STOP ? (unsigned)io->type : 0;

        return (struct trace_command) { .name = names[code] ? names[code] : "another type",
                                        .queue = "DOCA requests",
                                        .io = true,
                                        .code = code,
                                        .rank = code,
                                        .id = io->user_data,
                                        .at = e->at };
}

static void begin_command(struct doca_queue *q, struct doca_record *rec)
{
        struct doca_command *c = free_command(q);

        if (!c)
                return;
        *c = (struct doca_command) { .used = true,
                                     .user_data = rec->io.user_data,
                                     .place = doca_io_place(q->client->dialect, &rec->io,
                                                            q->client->memory.base),
                                     .size = rec->io.size,
                                     .of = command_of(&rec->io, rec->e) };
        rec->command = &c->of;
        rec->begins = true;
}

static void end_command(struct doca_queue *q, struct doca_record *rec)
{
        struct doca_command *c = find_command(q, rec->io.user_data);

        if (!c)
                return;
        rec->command = &c->of;
        rec->ends = true;
        c->used = false;
}

/* Whose data lies there: of any io_control of the same context. */
static struct doca_command *command_at(const struct doca_reader *r, const struct doca_queue *q,
                                       uint64_t addr)
{
        const struct doca_client *client = q->client;
        uint64_t at = addr - client->memory.base;

        if (!client->has_memory)
                return NULL;
        for (struct doca_queue *o = r->queues; o; o = o->next) {
                bool same = o->client == client && o->context == q->context;

                for (unsigned i = 0; same && i < DOCA_CAPTURE_COMMANDS; i++) {
                        struct doca_command *c = &o->command[i];

                        if (c->used && at - c->place.memory < c->size && at >= c->place.memory)
                                return c;
                }
        }
        return NULL;
}

static void take_memory(const struct doca_reader *r, struct doca_queue *q, struct doca_record *rec)
{
        const struct trace_event *e = rec->e;
        struct doca_command *c = command_at(r, q, e->memory.addr);

        if (!c)
                return;
        rec->command = &c->of;
        if (e->kind == TRACE_READ && c->of.asked.frame == 0)
                c->of.asked = e->at;
        if (e->kind != TRACE_READ_DATA && e->kind != TRACE_WRITE_DATA)
                return;
        if (c->of.data_first.frame == 0)
                c->of.data_first = e->first;
        c->of.data_last = e->at;
        *(e->kind == TRACE_READ_DATA ? &c->of.h2c : &c->of.c2h) += e->memory.len;
}

static void take_capsule(struct doca_queue *q, struct doca_record *rec)
{
        const struct trace_capsule *c = &rec->e->capsule;

        if (c->known < c->len) {
                doca_flow_miss(&q->flow);
                return;
        }
        q->flow.bounds = bounds_of(q->client);
        doca_flow_says(&q->flow, rec->e->sender, c->data, c->len, &rec->io, &rec->broken);
        if (rec->e->sender == PARTY_HOST && q->client->control.stopped &&
            rec->e->first.frame > q->client->stopped_at)
                rule_add(&rec->broken, DOCA_IO_STOPPED);
        if (rec->e->sender == PARTY_HOST)
                begin_command(q, rec);
        else
                end_command(q, rec);
}

static void queue_event(struct doca_reader *r, struct doca_queue *q, struct doca_record *rec)
{
        enum trace_kind kind = rec->e->kind;

        if (kind == TRACE_REQUEST)
                take_connect(r, q, rec->e);
        rec->queue = q;
        rec->client = q->client;
        if (!q->client)
                return;
        if (kind == TRACE_CAPSULE)
                take_capsule(q, rec);
        else if (kind >= TRACE_READ && kind <= TRACE_WRITE)
                take_memory(r, q, rec);
        else if (kind == TRACE_GAP)
                doca_flow_miss(&q->flow);
}

/* --- the control channel ------------------------------------------------------------------------ */

static void take_message(struct doca_reader *r, struct doca_client *c, struct doca_record *rec)
{
        const struct trace_pdu *p = rec->e->pdu;

        c->dialect = c->control.dialect = p->dialect;
        rec->broken = p->found;
        if (rec->e->kind == TRACE_FAULT)
                return;
        doca_control_says(&c->control, rec->e->sender, &p->m, &rec->broken);
        if (c->control.stopped && c->stopped_at == 0)
                c->stopped_at = rec->e->at.frame;
        if (p->m.kind == DOCA_INIT)
                c->has_memory = doca_memory_read(p->m.data, &c->memory);
        if (p->m.kind == DOCA_CREATE)
                take_asked(r, c, p);
        if (p->m.kind == DOCA_CREATE_RSP) {
                c->context = p->dialect->has_context ? p->m.context : (c->control.made - 1) / 2;
                c->role = p->m.role;
        }
}

static void client_event(struct doca_reader *r, struct doca_client *c, struct doca_record *rec)
{
        enum trace_kind kind = rec->e->kind;

        rec->client = c;
        if (kind == TRACE_PDU || kind == TRACE_FAULT)
                take_message(r, c, rec);
        else if (kind == TRACE_GAP)
                doca_control_miss(&c->control);
}

/* --- records ------------------------------------------------------------------------------------ */

/* What is not checked goes; what one message alone does not prove may be due to one that is missing. */
static void weigh(const struct doca_reader *r, struct doca_record *rec)
{
        bool in_doubt = false;

        rule_each_in (&rec->broken, id)
                if (!r->how.judge || rule_in(r->how.waived, id))
                        rule_remove(&rec->broken, id);
        rule_each_in (&rec->broken, id) {
                rec->is_broken = true;
                in_doubt |= !(doca_rule_get(id)->seen & SEEN_ALONE);
        }
        rec->unproven = in_doubt && rec->e->conn->transport == TRACE_ROCE &&
                        !trace_proven(rec->e->conn, rec->e->sender, rec->e->at.frame);
}

static void give(trace_record_fn *fn, void *user, const struct doca_record *r)
{
        struct trace_record out = { .e = r->e,
                                    .broken = r->is_broken ? &r->broken : NULL,
                                    .unproven = r->unproven,
                                    .unknown = !r->client,
                                    .record = r };

        fn(user, &out);
}

static void lose_all(const struct doca_reader *r, struct doca_queue *q, const struct trace_event *e)
{
        for (unsigned i = 0; i < DOCA_CAPTURE_COMMANDS; i++) {
                struct doca_record rec = { .e = e, .client = q->client, .queue = q };

                if (!q->command[i].used)
                        continue;
                rec.command = &q->command[i].of;
                if (r->how.lost)
                        give(r->how.lost, r->how.user, &rec);
                q->command[i].used = false;
        }
}

static bool is_control(const struct trace_conn *conn)
{
        return conn->transport == TRACE_TCP;
}

static void reader_event(void *reader, const struct trace_event *e)
{
        struct doca_reader *r = reader;
        struct trace_conn *conn = e->conn;
        struct doca_record rec = { .e = e };

        if (e->kind == TRACE_OPENED)
                conn->user =
                    is_control(conn) ? (void *)open_client(r, conn) : (void *)open_queue(r, conn);
        if (!conn->user)
                return;
        if (is_control(conn))
                client_event(r, conn->user, &rec);
        else
                queue_event(r, conn->user, &rec);
        weigh(r, &rec);
        give(r->how.record, r->how.user, &rec);
        if (e->kind != TRACE_CLOSED)
                return;
        if (is_control(conn)) {
                close_client(r, conn->user);
                conn->user = NULL;
        } else {
                lose_all(r, conn->user, e);
                close_queue(r, conn);
        }
}

static void *reader_open(const struct trace_reading *how)
{
        struct doca_reader *r = calloc(1, sizeof(*r));

        if (r)
                r->how = *how;
        return r;
}

static bool reader_close(void *reader)
{
        struct doca_reader *r = reader;
        bool whole = !r->no_memory;

        while (r->clients) {
                struct doca_client *c = r->clients;

                r->clients = c->next;
                free_client(r, c);
        }
        while (r->queues) {
                struct doca_queue *q = r->queues;

                r->queues = q->next;
                free(q);
        }
        free(r);
        return whole;
}

/* --- the family --------------------------------------------------------------------------------- */

static bool claims(const uint8_t *data, uint32_t len)
{
        uint64_t cookie;

        return doca_cm_read(data, len, &cookie);
}

/* The dialect. */
static int told(const char *word)
{
        const struct doca_dialect *d = doca_dialect_named(*word ? word : "3.2");

        return d ? (int)d->version : -1;
}

enum { IO_RANK = 256 };

static void view_message(struct trace_view *v, const struct trace_pdu *p)
{
        v->message = doca_msg_name(p->dialect, &p->m);
        v->rank = p->m.type < IO_RANK ? p->m.type : IO_RANK - 1;
        v->answers = doca_is_error(&p->m);
        v->error = v->answers;
        v->status = v->answers ? (unsigned)p->m.result : 0;
}

static void view(struct trace_view *v, const void *record)
{
        const struct doca_record *r = record;

        if (r->e->kind == TRACE_PDU && !r->queue)
                view_message(v, r->e->pdu);
        v->known = r->command;
        if (r->command)
                v->command = *r->command;
        v->begins = r->begins;
        v->ends = r->ends;
        if (r->e->kind != TRACE_CAPSULE || !r->client)
                return;
        v->kind = "io_message";
        v->message = doca_io_name(r->io.type);
        v->rank = IO_RANK + (unsigned)(r->io.type & 0xff);
        v->answers = r->e->sender == PARTY_CONTROLLER;
        v->status = v->answers ? (unsigned)r->io.result : 0;
        v->error = v->status != DOCA_SUCCESS;
}

static void status(struct text *t, unsigned status)
{
        text_add(t, "%u %s", status, doca_error_name(status));
}

static bool has_command(const char *name)
{
        return strcasecmp(name, "read") == 0 || strcasecmp(name, "write") == 0 ||
               strcasecmp(name, "stop") == 0;
}

/* NULL: it is none, or nothing is known of it. */
static const struct doca_queue *queue_of(const struct trace_conn *c)
{
        const struct doca_queue *q = is_control(c) ? NULL : c->user;

        return q && q->client ? q : NULL;
}

static void place(struct text *t, const struct trace_conn *c)
{
        const struct doca_queue *q = queue_of(c);

        if (q && q->client->told)
                text_add(t, ", DOCA %s", q->client->dialect->name);
        else if (q)
                text_add(t, ", DOCA %s of context %u", doca_role_name(q->role),
                         (unsigned)q->context);
        else if (is_control(c))
                text_add(t, ", DOCA");
        else
                text_add(t, ", DOCA, of no control channel in the capture");
}

static void place_json(struct json_object *o, const struct trace_conn *c)
{
        const struct doca_queue *q = queue_of(c);

        json_object_object_add(o, "protocol", json_object_new_string(doca_family.name));
        if (!q || q->client->told)
                return;
        json_object_object_add(o, "context", json_object_new_int64((int64_t)q->context));
        json_object_object_add(o, "role", json_object_new_string(doca_role_name(q->role)));
}

const struct trace_family doca_capture = {
        .family = &doca_family,
        .name = "DOCA",
        .stream = &doca_stream,
        .claims = claims,
        .told = told,
        .active = PARTY_CONTROLLER, /* the service listens */
        .open = reader_open,
        .event = reader_event,
        .close = reader_close,
        .words = doca_words,
        .describe = doca_fields,
        .view = view,
        .status = status,
        .has_command = has_command,
        .place = place,
        .place_json = place_json,
};
