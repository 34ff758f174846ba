/* SPDX-License-Identifier: BSD-3-Clause */
#include "family.h"

#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "kept.h"
#include "line.h"
#include "pcap/trace/keep.h"
#include "pdu/srp/wire/family.h"
#include "tools.h"

enum { CONSUMER = 28 }; /* reason of a reject that the target itself has sent (IBTA 12.6.7.2) */

struct srp_reader {
        struct trace_reading how;
        struct srp_session *sessions;
        struct keep keep; /* where all data is kept */
        bool no_memory;
};

/* --- sessions --------------------------------------------------------------------------------- */

static struct srp_session *open_session(struct srp_reader *r, struct trace_conn *conn)
{
        struct srp_session *s = calloc(1, sizeof(*s));

        if (!s) {
                r->no_memory = true;
                return NULL;
        }
        srp_channel_init(&s->channel);
        s->conn = conn;
        s->next = r->sessions;
        r->sessions = s;
        return s;
}

static void close_session(struct srp_reader *r, struct srp_session *s)
{
        struct srp_session **at = &r->sessions;

        while (*at && *at != s)
                at = &(*at)->next;
        if (*at)
                *at = s->next;
        s->conn->user = NULL;
        for (unsigned i = 0; i < SRP_CHANNEL_REQUESTS; i++)
                kept_drop(&s->kept[i]);
        free(s);
}

static bool same_nexus(const struct srp_channel *a, const struct srp_channel *b)
{
        return memcmp(a->asked.initiator_port_id, b->asked.initiator_port_id,
                      sizeof(srp_port_id)) == 0 &&
               memcmp(a->asked.target_port_id, b->asked.target_port_id, sizeof(srp_port_id)) == 0;
}

/* The answer to task management that reaches beyond one task: other channels of the nexus may have lost
 * theirs. */
static void spread_task_management(struct srp_reader *r, const struct srp_session *s,
                                   const struct srp_rsp *rsp)
{
        const struct srp_request *tm = srp_channel_find(&s->channel, be64_get(rsp->tag));

        if (!tm || tm->type != SRP_TSK_MGMT || tm->function == SRP_TM_ABORT_TASK)
                return;
        for (struct srp_session *o = r->sessions; o; o = o->next)
                if (o != s && same_nexus(&o->channel, &s->channel))
                        srp_channel_doubt(&o->channel, tm->lun);
}

/* --- records ---------------------------------------------------------------------------------- */

static void give(trace_record_fn *fn, void *user, const struct srp_record *r)
{
        struct trace_record out = {
                .e = r->e,
                .broken = r->is_broken ? &r->broken : NULL,
                .unproven = r->unproven,
                .record = r,
        };

        fn(user, &out);
}

/* It is over, and nobody has answered it. */
static void lose(const struct srp_reader *r, struct srp_session *s, const struct trace_event *e,
                 const struct srp_request *request)
{
        struct srp_record rec = { .e = e, .session = s };

        rec.command = &s->command[request - s->channel.request];
        rec.kept = &s->kept[request - s->channel.request];
        if (r->how.lost)
                give(r->how.lost, r->how.user, &rec);
}

static void lose_all(const struct srp_reader *r, struct srp_session *s, const struct trace_event *e)
{
        for (unsigned i = 0; i < SRP_CHANNEL_REQUESTS; i++)
                if (s->channel.request[i].used)
                        lose(r, s, e, &s->channel.request[i]);
}

/* --- requests --------------------------------------------------------------------------------- */

static const char *name_in(uint8_t type, const char *field, uint64_t value, const char *other)
{
        const char *name = word_for(field_named(srp_info(type)->fields, field)->words, value);

        return name ? name : other;
}

static struct trace_command command_of(const union srp_iu *iu, const struct trace_event *e)
{
        const char *name = srp_command_name(iu->cmd.cdb[0]);

        if (iu->opcode == SRP_TSK_MGMT)
                return (struct trace_command) {
                        .name = name_in(SRP_TSK_MGMT, "function", iu->tsk_mgmt.function,
                                        "another function"),
                        .queue = "SRP task management",
                        .code = iu->tsk_mgmt.function,
                        .rank = iu->tsk_mgmt.function,
                        .id = be64_get(iu->tsk_mgmt.tag),
                        .at = e->at,
                };
        return (struct trace_command) { .name = name ? name : "another CDB",
                                        .queue = "SRP commands",
                                        .io = true,
                                        .code = iu->cmd.cdb[0],
                                        .rank = 256u + iu->cmd.cdb[0],
                                        .id = be64_get(iu->cmd.tag),
                                        .at = e->at };
}

static void add_data(struct trace_command *c, const struct trace_event *e, uint32_t n)
{
        if (n == 0)
                return;
        if (c->data_first.frame == 0)
                c->data_first = e->first;
        c->data_last = e->at;
        *(e->sender == PARTY_HOST ? &c->h2c : &c->c2h) += n;
}

/* Once the channel has it. False: out of memory. */
static bool begin_request(struct srp_session *s, const union srp_iu *iu, struct srp_record *rec,
                          struct keep *keep)
{
        const struct trace_capsule *c = &rec->e->capsule;
        const struct srp_request *r = srp_channel_find(&s->channel, be64_get(iu->cmd.tag));
        struct rule_set known = { 0 };
        struct srp_cmd_parts parts;
        struct trace_command *command;

        if (!r) /* there are too many */
                return true;
        rec->kept = &s->kept[r - s->channel.request];
        rec->command = command = &s->command[r - s->channel.request];
        rec->begins = true;
        *command = command_of(iu, rec->e);
        if (iu->opcode == SRP_CMD && srp_cmd_read(c->data, c->len, rec->imm_at, &parts, &known) &&
            parts.out.format == SRP_IMMEDIATE_DATA)
                add_data(command, rec->e, parts.out.len);
        return kept_begin(&s->kept[r - s->channel.request], iu, c, rec->imm_at, keep);
}

/* Before the channel ends its request. */
static void take_response(struct srp_session *s, const struct srp_rsp *rsp, struct srp_record *rec)
{
        const struct trace_capsule *c = &rec->e->capsule;
        const struct srp_request *r = srp_channel_find(&s->channel, be64_get(rsp->tag));
        struct rule_set known = { 0 };
        struct srp_rsp_parts parts;

        rec->rsp = rsp;
        rec->command = r ? &s->command[r - s->channel.request] : NULL;
        rec->kept = r ? &s->kept[r - s->channel.request] : NULL;
        (void)srp_rsp_read(c->data, c->len, &parts, &known);
        if (parts.resp_len >= 4)
                rec->code = c->data[parts.resp_at + 3];
}

static bool is_request_iu(uint8_t opcode)
{
        return opcode == SRP_CMD || opcode == SRP_TSK_MGMT;
}

/* The request that describes this memory, and where in its data that lies; -1: none that is known. A table of descriptors
 * is no data. */
static int find_by_key(const struct srp_session *s, const struct trace_memory *m, uint32_t *offset)
{
        for (int i = 0; i < SRP_CHANNEL_REQUESTS; i++) {
                const struct srp_request *r = &s->channel.request[i];
                uint32_t at = 0;

                for (unsigned j = 0; r->used && j < r->ranges; j++) {
                        const struct srp_desc *d = &r->range[j].desc;

                        *offset = at + (uint32_t)(m->addr - d->addr);
                        if (!r->range[j].table && d->key == m->key && m->addr >= d->addr &&
                            m->addr - d->addr < d->len)
                                return i;
                        at += r->range[j].table ? 0 : d->len;
                }
                if (r->used && kept_has(&s->kept[i], m, offset))
                        return i;
        }
        return -1;
}

static bool is_table(const struct srp_session *s, const struct trace_memory *m)
{
        for (unsigned i = 0; i < SRP_CHANNEL_REQUESTS; i++) {
                const struct srp_request *r = &s->channel.request[i];

                for (unsigned j = 0; r->used && j < r->ranges; j++)
                        if (r->range[j].table && r->range[j].desc.addr == m->addr &&
                            r->range[j].desc.key == m->key)
                                return true;
        }
        return false;
}

/* --- events ----------------------------------------------------------------------------------- */

static void take_capsule(struct srp_reader *r, struct srp_session *s, const struct trace_event *e,
                         struct srp_record *rec, union srp_iu *iu)
{
        const struct trace_capsule *c = &e->capsule;
        const struct srp_request *old;
        bool whole;

        rec->imm_at = srp_channel_immediate(&s->channel);
        if (c->known < c->len) {
                srp_channel_miss(&s->channel, e->sender);
                return;
        }
        whole = srp_read(c->data, c->len, iu);
        if (whole && e->sender == PARTY_CONTROLLER && iu->opcode == SRP_RSP) {
                spread_task_management(r, s, &iu->rsp);
                take_response(s, &iu->rsp, rec);
        }
        whole &= e->sender == PARTY_HOST && is_request_iu(iu->opcode);
        old = whole ? srp_channel_find(&s->channel, be64_get(iu->cmd.tag)) : NULL;
        if (old)
                lose(r, s, e, old);
        srp_channel_iu(&s->channel, e->sender, c->data, c->len, &rec->broken);
        if (whole && !begin_request(s, iu, rec, r->how.keep_data ? &r->keep : NULL))
                r->no_memory = true;
}

static void take_memory(struct srp_reader *r, struct srp_session *s, const struct trace_event *e,
                        struct srp_record *rec)
{
        struct srp_desc memory = { e->memory.addr, e->memory.key, e->memory.len };
        int found = find_by_key(s, &e->memory, &rec->offset);
        struct trace_command *c = found >= 0 ? &s->command[found] : NULL;
        bool data = e->kind == TRACE_READ_DATA || e->kind == TRACE_WRITE_DATA;

        rec->command = c;
        rec->kept = c ? &s->kept[found] : NULL;
        rec->is_table = !c && is_table(s, &e->memory);
        if (c && data) {
                add_data(c, e, e->memory.len);
                r->no_memory |= !kept_add(&s->kept[found], &e->memory, rec->offset);
        }
        for (unsigned i = 0; !c && data && i < SRP_CHANNEL_REQUESTS; i++)
                if (s->channel.request[i].used)
                        r->no_memory |= !kept_add_table(&s->kept[i], &e->memory);
        if (c && e->kind == TRACE_READ && c->asked.frame == 0)
                c->asked = e->at;
        if (e->sender == PARTY_CONTROLLER && (e->kind == TRACE_READ || e->kind == TRACE_WRITE))
                srp_channel_transfer(&s->channel, e->kind == TRACE_WRITE, &memory, &rec->broken);
}

static void take_event(struct srp_reader *r, struct srp_session *s, const struct trace_event *e,
                       struct srp_record *rec, union srp_iu *iu)
{
        struct srp_channel *c = &s->channel;

        switch (e->kind) {
        case TRACE_REQUEST:
                srp_channel_login(c, e->cm.data, e->cm.len, false, &rec->broken);
                break;
        case TRACE_ACCEPT:
                srp_channel_accept(c, e->cm.data, e->cm.len, &rec->broken);
                break;
        case TRACE_REJECT:
                if (e->cm.reason == CONSUMER)
                        srp_channel_reject(c, e->cm.data, e->cm.len, &rec->broken);
                else
                        srp_channel_close(c);
                break;
        case TRACE_GAP:
                srp_channel_miss(c, e->sender);
                break;
        case TRACE_CAPSULE:
                take_capsule(r, s, e, rec, iu);
                break;
        case TRACE_READ:
        case TRACE_READ_DATA:
        case TRACE_READ_END:
        case TRACE_WRITE_DATA:
        case TRACE_WRITE:
                take_memory(r, s, e, rec);
                break;
        case TRACE_CLOSED:
                srp_channel_close(c);
                break;
        case TRACE_OPENED:
        case TRACE_FOUND:
        case TRACE_HEADER:
        case TRACE_PDU:
        case TRACE_FAULT:
        case TRACE_READY:
        case TRACE_DISCONNECT:
        case TRACE_DISCONNECTED:
        case TRACE_TERMINATE:
        case TRACE_SECURED:
        case TRACE_REFUSAL:
                break;
        }
}

/* What is not checked goes; what one frame alone does not prove may be due to one that is missing. Not so
 * the answer to a login: both were seen. */
static void weigh(const struct srp_reader *r, struct srp_record *rec)
{
        enum trace_kind kind = rec->e->kind;
        bool in_doubt = false;

        rule_each_in (&rec->broken, id)
                if (!r->how.judge || rule_in(r->how.waived, id))
                        rule_remove(&rec->broken, id);
        rule_each_in (&rec->broken, id) {
                rec->is_broken = true;
                in_doubt |= !(srp_rule_get(id)->seen & SEEN_ALONE);
        }
        in_doubt &= kind != TRACE_ACCEPT && kind != TRACE_REJECT;
        rec->unproven = in_doubt && rec->e->conn->transport == TRACE_ROCE &&
                        !trace_proven(rec->e->conn, rec->e->sender, rec->e->at.frame);
}

static void reader_event(void *reader, const struct trace_event *e)
{
        struct srp_reader *r = reader;
        struct srp_record rec = { .e = e };
        struct srp_session *s = e->conn->user;
        union srp_iu iu;

        if (e->kind == TRACE_OPENED)
                e->conn->user = s = open_session(r, e->conn);
        if (!s)
                return;
        rec.session = s;
        take_event(r, s, e, &rec, &iu);
        weigh(r, &rec);
        give(r->how.record, r->how.user, &rec);
        if (e->kind != TRACE_CLOSED)
                return;
        lose_all(r, s, e);
        close_session(r, s);
}

static void *reader_open(const struct trace_reading *how)
{
        struct srp_reader *r = calloc(1, sizeof(*r));

        if (!r)
                return NULL;
        r->how = *how;
        r->keep = keep_most(KEEP_DATA);
        return r;
}

static bool reader_close(void *reader)
{
        struct srp_reader *r = reader;
        bool whole = !r->no_memory;

        while (r->sessions)
                close_session(r, r->sessions);
        free(r);
        return whole;
}

/* --- the family ------------------------------------------------------------------------------- */

static bool claims(const uint8_t *data, uint32_t len)
{
        return srp_login_likely(data, len);
}

enum { RESPONSE_CODE = 0x100 }; /* of a status: it is one */

static void view(struct trace_view *v, const void *record)
{
        const struct srp_record *r = record;
        const struct trace_capsule *c = &r->e->capsule;
        const struct srp_info *info =
            r->e->kind == TRACE_CAPSULE && c->known > 0 ? srp_info(c->data[0]) : NULL;

        v->kind = r->e->kind == TRACE_CAPSULE ? "iu" : NULL;
        v->message = info ? info->name : NULL;
        v->rank = info ? info->type : 0;
        v->known = r->command;
        if (r->command)
                v->command = *r->command;
        v->begins = r->begins;
        v->ends = r->rsp && r->command;
        v->answers = r->rsp;
        if (r->rsp)
                v->status = r->rsp->flags & SRP_RSPVALID ? RESPONSE_CODE | r->code : r->rsp->status;
        v->error = v->status != 0 && v->status != RESPONSE_CODE;
}

static void status(struct text *t, unsigned status)
{
        if (status & RESPONSE_CODE)
                text_add(t, "response code %u", status & 0xff);
        else
                text_add(t, "%02Xh %s", status,
                         name_in(SRP_RSP, "status", status, "another status"));
}

static bool has_command(const char *name)
{
        for (unsigned i = 0; i < 256; i++) {
                const char *one = srp_command_name((uint8_t)i);

                if (one && strcasecmp(one, name) == 0)
                        return true;
        }
        return false;
}

static void place(struct text *t, const struct trace_conn *c)
{
        text_add(t, "%s", srp_place(c));
}

static void place_json(struct json_object *o, const struct trace_conn *c)
{
        const struct srp_session *s = c->user;

        if (s)
                json_object_object_add(o, "state",
                                       json_object_new_string(srp_state_name(s->channel.state)));
        if (srp_is_on_nvme_port(c))
                json_object_object_add(o, "port_of", json_object_new_string("NVMe"));
        json_object_object_add(o, "protocol", json_object_new_string(srp_family.name));
}

const struct trace_family srp_capture = {
        .family = &srp_family,
        .name = "SRP",
        .claims = claims,
        .open = reader_open,
        .event = reader_event,
        .close = reader_close,
        .words = srp_words,
        .describe = srp_fields,
        .view = view,
        .status = status,
        .has_command = has_command,
        .place = place,
        .place_json = place_json,
        .extract = &srp_extract,
        .anonymize = &srp_anonymize,
        .replay = srp_replay_command,
};
