/* SPDX-License-Identifier: BSD-3-Clause */
/* What a running case has: who we are, its range of blocks, its connections. */
#include <string.h>

#include "pdu/nvme/wire/text.h"
#include "words.h"

const struct caps *caps(const struct t *t)
{
        return &peer(t)->caps;
}

bool t_is_rdma(const struct t *t)
{
        return strcmp(t->suite->transport, "rdma") == 0;
}

static uint64_t mix(uint64_t x) /* splitmix64 */
{
        x += UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

static uint64_t unxorshift(uint64_t x, unsigned by)
{
        uint64_t y = x;

        for (unsigned n = by; n < 64; n += by)
                y = x ^ y >> by;
        return y;
}

static uint64_t unmix(uint64_t x)
{
        x = unxorshift(x, 31) * UINT64_C(0x319642b2d24d8ec3);
        x = unxorshift(x, 27) * UINT64_C(0x96de1b173f119089);
        return unxorshift(x, 30) - UINT64_C(0x9e3779b97f4a7c15);
}

/* --- who has written it? --------------------------------------------------------------------- */

/*
 * The first 8 bytes of each 512 of the pattern tell when it was made (s since the epoch), and by which run:
 * what was written after ours began, and not by us, is another run's.
 */
enum { STAMPED = 512 };

static uint16_t run_tag(const struct suite *s)
{
        return (uint16_t)mix(s->seed);
}

static uint64_t stamp(const struct t *t)
{
        return (uint64_t)(loop_wall_ns() / 1000000000) << 32 | (uint64_t)run_tag(t->suite) << 16 |
               (t->number & 0xff) << 8;
}

bool is_strangers(const struct t *t, const void *data, uint32_t bytes)
{
        for (uint32_t i = 0; i + STAMPED <= bytes; i += STAMPED) {
                uint64_t x = unmix(le_get((const uint8_t *)data + i, 8));
                int64_t made = (int64_t)(x >> 32), now = loop_wall_ns() / 1000000000;

                if (made >= t->suite->started && made <= now &&
                    (uint16_t)(x >> 16) != run_tag(t->suite))
                        return true;
        }
        return false;
}

struct lease lease(const struct peer *p)
{
        uint64_t blocks =
            (p->write_blocks ? p->write_blocks : p->caps.blocks) / (p->slices ? p->slices : 1);
        uint32_t block = p->caps.block;
        uint64_t slot, slots, begin, apart;

        if (!block)
                return (struct lease) { .read = p->write_slba, .slba = p->write_slba };
        slot = (blocks / SLOTS * block >= LARGE_SLOT ? LARGE_SLOT : SLOT_BYTES) / block;
        slots = blocks / slot;
        begin = p->write_slba + p->slice * slots * slot;
        apart = LARGE_SLOT / block / slot;
        if (apart > slots / 2)
                apart = slots / 2;
        return (struct lease) { begin, begin + apart * slot, slot, slots - apart };
}

/* --- a case ---------------------------------------------------------------------------------- */

static void nqn_of(const uint8_t u[16], char nqn[NQN_FIELD])
{
        snprintf(nqn, NQN_FIELD,
                 "nqn.2014-08.org.nvmexpress:uuid:"
                 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                 u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12],
                 u[13], u[14], u[15]);
}

void case_identity(const struct t *t, unsigned host, uint8_t hostid[16], char hostnqn[NQN_FIELD])
{
        const struct world *w = world(t);

        memcpy(hostid, w->hostid, 16);
        memcpy(hostnqn, w->hostnqn, NQN_FIELD);
        if (host == 0)
                return;
        hostid[15] = (uint8_t)(hostid[15] ^ host);
        if (!peer(t) || !peer(t)->hostnqn)
                nqn_of(hostid, hostnqn);
}

/* HOSTID and the NQN made of it: a random UUID of this run, another one for each case. */
static void identify_host(struct t *t)
{
        const struct peer *p = peer(t);
        struct world *w = world(t);
        uint8_t *u = w->hostid;
        uint64_t seed = (uint64_t)t->suite->seed << 32 | t->number;

        le_put(u, 8, mix(seed));
        le_put(u + 8, 8, mix(~seed));
        u[6] = (uint8_t)(0x40 | (u[6] & 0x0f));
        u[8] = (uint8_t)(0x80 | (u[8] & 0x3f));
        nqn_of(u, w->hostnqn);
        if (p && p->hostnqn)
                snprintf(w->hostnqn, sizeof(w->hostnqn), "%s", p->hostnqn);
        if (p && p->hostid)
                memcpy(u, p->hostid, 16);
}

/* range: -1 for a case that only reads. */
static void place_blocks(struct world *w, struct lease l, int range)
{
        w->blocks = l.slot;
        w->slba = range < 0 ? l.read : l.slba + (uint64_t)range * l.slot;
}

void world_begin(struct t *t)
{
        const struct peer *p = peer(t);
        struct world *w = t->world = t_alloc(t, sizeof(*w));

        identify_host(t);
        if (p)
                place_blocks(w, lease(p), t->range);
        w->stamp = stamp(t);
}

/* What still waits in the sockets may break a rule, too. */
void world_settle(struct t *t)
{
        if (t_is_rdma(t))
                rdma_look_once_more(t);
        for (struct queue *q = world(t)->queues; q; q = q->next) {
                if (q->conn->end == CONN_OPEN)
                        (void)conn_wait(q->conn, now_ms());
                if (q->conn->violate_armed)
                        broke(t, "the case sent no PDU that could break the rule");
        }
}

/* An I/O command without an answer, that writes: it may be executed yet, whatever became of its connection. */
static bool may_write_late(const struct queue *q)
{
        for (const struct command *c = q->commands; c; c = c->next)
                if (!c->done && !q->conn->admin && c->xfer != XFER_C2H &&
                    c->sqe.opc != NVME_FABRICS && c->sqe.opc != NVME_FLUSH)
                        return true;
        return false;
}

static void linger(struct t *t)
{
        unsigned cqt = le16_get(caps(t)->id.cqt);

        for (const struct queue *q = world(t)->queues; q; q = q->next)
                if (may_write_late(q))
                        t->lingers = cqt > LINGER_MS ? cqt : LINGER_MS;
}

void world_end(struct t *t)
{
        struct queue *next;

        if (!world(t))
                return;
        if (t->suite->role == ROLE_TARGET)
                linger(t);
        for (struct queue *q = world(t)->queues; q; q = next) {
                next = q->next;
                conn_free(q->conn);
        }
        rdma_end(t);
        world(t)->queues = NULL;
}

void provoke(struct queue *q)
{
        q->t->negative = true;
        world(q->t)->provoked = q;
}

/* The field of the common header that the rule is about: no line of a PDU has those. */
static void name_field(struct text *text, enum rule_id rule, const struct message *m)
{
        const struct outcome *o = &rule_get(rule)->accept[0];

        if (m->kind != MESSAGE_PDU || rule_get(rule)->reaction != REACT_TERM ||
            o->code != FES_INVALID_HEADER_FIELD)
                return;
        for (const struct field *f = pdu_fields(m->pdu.ch.type); f && f->name; f++)
                if (f->offset == o->place && f->offset > 0 && f->offset < sizeof(m->pdu.ch))
                        text_add(text, " %s %llu", f->name,
                                 (unsigned long long)field_get(f, &m->pdu));
}

void t_breach(struct t *t, enum rule_id rule, const struct message *m, const char *what)
{
        char line[EXCHANGE_LINE];
        struct text text = text_in(line, sizeof(line));

        if (m) {
                message_line(&text, m, true);
                name_field(&text, rule, m);
        }
        if (what)
                text_add(&text, "%s%s", m ? ": " : "", what);
        t_notice(t, rule, line);
}

const void *pattern(struct t *t, uint32_t bytes)
{
        struct world *w = world(t);

        if (bytes <= w->pattern_len)
                return w->pattern;
        w->pattern = t_alloc(t, (size_t)bytes + 8);
        w->pattern_len = bytes;
        for (size_t i = 0; i < bytes; i += 8)
                le_put(w->pattern + i, 8,
                       i % STAMPED ? mix(le_get(w->hostid, 8) + i)
                                   : mix(w->stamp + i / STAMPED % 256));
        return w->pattern;
}
