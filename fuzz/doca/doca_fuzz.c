/* SPDX-License-Identifier: BSD-3-Clause */
#include "doca_fuzz.h"

#include <stdio.h>
#include <string.h>

#include "fuzz/campaign/command.h"
#include "fuzz/campaign/oracle.h"
#include "fuzz/remote/remote_stream.h"
#include "host/doca/session.h"
#include "pdu/doca/machine/control.h"
#include "pdu/doca/machine/frames.h"
#include "pdu/doca/machine/spoil.h"
#include "pdu/doca/wire/family.h"

enum { READ_BYTES = 4096, ROOM = SEQ_DATA_MAX + 64, TRANSACTIONS = 4 };

static const struct doca_dialect *dialect(void)
{
        return doca_dialect(DOCA_3_2);
}

/* --- what is said ------------------------------------------------------------------------------- */

struct row {
        struct seq_template base; /* type: enum doca_kind */
        struct doca_msg says;
};

#define REQUEST(name_, message_, kind_, ...)                                                       \
        {                                                                                          \
                { .name = name_, .message = message_, .side = PARTY_HOST, .type = kind_ },         \
                {                                                                                  \
                        .kind = kind_, ##__VA_ARGS__                                               \
                }                                                                                  \
        }

static const struct row rows[] = {
        REQUEST("query", "query_storage_request", DOCA_QUERY),
        REQUEST("init", "init_storage_request", DOCA_INIT, .transactions = TRANSACTIONS,
                .cores = 1),
        REQUEST("create", "create_rdma_connection_request", DOCA_CREATE),
        REQUEST("create_control", "create_rdma_connection_request", DOCA_CREATE,
                .role = DOCA_IO_CONTROL),
        REQUEST("start", "start_storage_request", DOCA_START),
        REQUEST("stop", "stop_storage_request", DOCA_STOP),
        REQUEST("shutdown", "shutdown_request", DOCA_SHUTDOWN),
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static const struct seq_template *template_at(unsigned transport, enum party side, unsigned n)
{
        (void)transport;
        return side == PARTY_HOST && n < ROWS ? &rows[n].base : NULL;
}

/* clang-format off */
static const struct field header[] = {
        FIELD_AT("size", 0, 4, .big = true), FIELD_AT("type", 4, 4, .big = true),
        FIELD_AT("message_id", 8, 4, .big = true), FIELD_AT("correlation_id", 12, 4, .big = true),
        { 0 },
};
static const struct field init[] = {
        FIELD_AT("transactions", 16, 4, .big = true), FIELD_AT("cores", 20, 4, .big = true),
        FIELD_AT("blob_len", 24, 4, .big = true), { 0 },
};
static const struct field create[] = {
        FIELD_AT("context", 16, 4, .big = true), FIELD_AT("role", 20, 4, .big = true),
        FIELD_AT("blob_len", 24, 4, .big = true), { 0 },
};
/* clang-format on */

static void fields(unsigned transport, const struct seq_template *t,
                   const struct field *table[FUZZ_FIELD_TABLES])
{
        (void)transport;
        table[0] = header;
        if (t->type == DOCA_INIT || t->type == DOCA_CREATE)
                table[1] = t->type == DOCA_INIT ? init : create;
}

static bool can_violate(unsigned transport, unsigned rule)
{
        const struct rule *r = doca_rule_get(rule);

        (void)transport;
        return r && r->bound == PARTY_HOST &&
               doca_spoil_kinds((enum doca_rule)rule) & DOCA_V_CONTROL;
}

static const char *const seeds[] = {
        "sequence doca host\nquery\ninit\ncreate\ncreate_control\nstart\nstop\nshutdown\n",
        "sequence doca host\nquery\ninit cores=4 data=32\ncreate context=3 data=40\n",
        "sequence doca host\nquery cut=1,7\ninit\nclose\n",
        "sequence doca host queues=2\nquery\nquery on=1\ninit\ninit on=1\n",
        "sequence doca host\nshutdown\nstop\nstart\ncreate\ninit\nquery\n",
        NULL,
};
static const char *const groups[] = { "query\ninit\ncreate\ncreate_control\nstart\n",
                                      "stop\nshutdown\n", "init\ninit\n", NULL };

/* --- a talk ------------------------------------------------------------------------------------- */

struct talk {
        struct remote_conn *conn;
        struct doca_control control;
        struct doca_buffer in;
        uint32_t next_id;
        uint8_t read[READ_BYTES];
};

static int talk_init(void *talk, struct remote_conn *c)
{
        ((struct talk *)talk)->conn = c;
        return 0;
}

static void talk_fini(void *talk)
{
        doca_buffer_free(&((struct talk *)talk)->in);
}

static int talk_begin(void *talk, void *first)
{
        struct talk *t = talk;

        (void)first;
        doca_buffer_drop(&t->in, doca_buffer_len(&t->in));
        doca_control_init(&t->control, dialect(), DOCA_UNSURE);
        t->next_id = 1;
        return 0;
}

/* A request does not need the response before it to be built. */
static bool talk_waits(const void *talk, const struct seq_step *step)
{
        const struct talk *t = talk;

        return step->kind == SEQ_PDU && t->control.requests > 0 && !t->conn->wild;
}

/* The data of a step is the blob. */
static struct doca_bytes blob_of(const struct sequence *s, const struct seq_step *step,
                                 uint8_t *room)
{
        if (!step->has_data)
                return (struct doca_bytes) { room, 0 };
        if (step->is_literal)
                return (struct doca_bytes) { s->pool + step->bytes.at, step->bytes.len };
        for (unsigned i = 0; i < step->data_len; i++)
                room[i] = (uint8_t)i;
        return (struct doca_bytes) { room, step->data_len };
}

static size_t build(struct talk *t, const struct sequence *s, const struct seq_step *step,
                    uint8_t *p)
{
        const struct row *row = (const struct row *)(const void *)step->template;
        static _Thread_local uint8_t room[SEQ_DATA_MAX];
        struct rule_set violated = { 0 };
        struct doca_msg m = row->says;
        size_t n;

        if (step->violates)
                rule_add(&violated, step->violates);
        m.message_id = t->next_id;
        m.correlation_id = t->next_id++;
        m.data = blob_of(s, step, room);
        (void)doca_spoil_msg(&violated, dialect(), &m);
        n = doca_msg_write(dialect(), &m, p, ROOM - DOCA_SPOIL_ROOM);
        if (n == 0)
                return 0;
        (void)doca_spoil_frame(&violated, dialect(), p, &n);
        seq_apply(step, p);
        return n;
}

/* What the watch makes of it; whose size is none is not understood from there on. */
static void watch(struct talk *t, const uint8_t *p, size_t n)
{
        struct rule_set found = { 0 };
        struct doca_msg m;

        if (n < dialect()->frame.header || doca_frame_len(dialect(), p, n) != n) {
                t->conn->wild = true;
                doca_control_miss(&t->control);
                return;
        }
        (void)doca_msg_read(dialect(), p, n, PARTY_HOST, &m, &found);
        doca_control_says(&t->control, PARTY_HOST, &m, &found);
        conn_message(t->conn, PARTY_HOST, &m);
}

static bool talk_say(void *talk, const struct sequence *s, const struct seq_step *step, uint8_t *p,
                     size_t *n)
{
        struct talk *t = talk;

        if (step->kind == SEQ_PDU) {
                *n = build(t, s, step, p);
        } else {
                *n = step->bytes.len;
                memcpy(p, s->pool + step->bytes.at, *n);
        }
        if (*n > 0)
                watch(t, p, *n);
        return true;
}

static void talk_room(void *talk, struct iovec *iov)
{
        struct talk *t = talk;

        *iov = (struct iovec) { t->read, sizeof(t->read) };
}

static void take(struct talk *t, size_t n)
{
        struct rule_set found = { 0 };
        struct doca_msg m;

        (void)doca_msg_read(dialect(), t->in.p + t->in.at, n, PARTY_CONTROLLER, &m, &found);
        doca_control_says(&t->control, PARTY_CONTROLLER, &m, &found);
        if (!t->conn->wild)
                conn_broke(t->conn, &found);
        conn_message(t->conn, PARTY_CONTROLLER, &m);
        conn_received_word(t->conn, (uint64_t)m.kind << 32 | (uint32_t)m.result);
        doca_buffer_drop(&t->in, n);
}

static void talk_heard(void *talk, size_t n)
{
        struct talk *t = talk;
        struct rule_set found = { 0 };
        enum doca_frame frame;
        size_t len;

        if (!doca_buffer_add(&t->in, t->read, n))
                return;
        while ((frame = doca_frame_next(dialect(), &t->in, &len)) == DOCA_FRAME_WHOLE)
                take(t, len);
        if (frame == DOCA_FRAME_MORE)
                return;
        rule_add(&found, DOCA_SIZE_T);
        if (!t->conn->wild)
                conn_broke(t->conn, &found);
        doca_buffer_drop(&t->in, doca_buffer_len(&t->in));
        t->conn->wild = true;
}

static bool talk_expects(const void *talk)
{
        const struct talk *t = talk;

        return t->control.requests > 0 && !t->conn->wild;
}

static void where(const struct remote_target *to, const char **traddr, const char **trsvcid)
{
        const struct fuzz_args *a = to->peer;

        *traddr = a->traddr ? a->traddr : "127.0.0.1";
        *trsvcid = a->trsvcid ? a->trsvcid : "4421";
}

static struct remote_session *new_session(void)
{
        static const struct stream_talk_ops ops = { .bytes = sizeof(struct talk),
                                                    .room = ROOM,
                                                    .init = talk_init,
                                                    .fini = talk_fini,
                                                    .begin = talk_begin,
                                                    .waits = talk_waits,
                                                    .say = talk_say,
                                                    .room_for = talk_room,
                                                    .heard = talk_heard,
                                                    .expects = talk_expects,
                                                    .where = where };

        return remote_stream_new(&ops);
}

/* --- the family --------------------------------------------------------------------------------- */

/* Somebody else's query is answered. */
static bool alive(const struct remote_target *target, char *why)
{
        struct doca_params p = { .dialect = dialect(), .timeout = target->timeout };
        struct doca_session s;
        struct host_error e = { 0 };

        where(target, &p.traddr, &p.trsvcid);
        for (unsigned rule = 1; rule < DOCA_RULES; rule++)
                rule_add(&p.policy.waived, rule); /* whatever it breaks, it is there */
        if (doca_session_open(&s, &p, &e) < 0) {
                snprintf(why, ORACLE_LINE, "%.*s", ORACLE_LINE - 1, e.line);
                return false;
        }
        (void)doca_session_close(&s, false, NULL);
        return true;
}

static bool complete(void *args, char *error, size_t size)
{
        struct fuzz_args *a = args;

        (void)error, (void)size;
        a->config.target.peer = a;
        return true;
}

static void line(struct text *t, unsigned on, enum party sender, const void *message)
{
        (void)on, (void)sender;
        doca_msg_line(t, dialect(), message);
}

static const struct remote_transport over_tcp = REMOTE_STREAM(new_session);
static const struct fuzz_transport transports[] = {
        { .stream = true,
          .opening = { "query", "init" },
          .groups = groups,
          .seeds = seeds,
          .remote = &over_tcp },
};
static const struct fuzz_command command = { .args_size = sizeof(struct fuzz_args),
                                             .complete = complete,
                                             .line = line };
const struct fuzz_family doca_fuzz = { .family = &doca_family,
                                       .transports = transports,
                                       .template = template_at,
                                       .fields = fields,
                                       .can_violate = can_violate,
                                       .alive = alive,
                                       .command = &command };
