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
        snprintf(w->hostnqn, sizeof(w->hostnqn),
                 "nqn.2014-08.org.nvmexpress:uuid:"
                 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                 u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12],
                 u[13], u[14], u[15]);
        if (p && p->hostnqn)
                snprintf(w->hostnqn, sizeof(w->hostnqn), "%s", p->hostnqn);
        if (p && p->hostid)
                memcpy(u, p->hostid, 16);
}

void world_begin(struct t *t)
{
        const struct peer *p = peer(t);
        struct world *w = t->world = t_alloc(t, sizeof(*w));

        identify_host(t);
        w->blocks = p && p->caps.block ? SLOT_BYTES / p->caps.block : 0;
        w->slba = p ? p->write_slba : 0;
        if (t->range >= 0)
                w->slba += (uint64_t)t->range * w->blocks;
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

void world_end(struct t *t)
{
        struct queue *next;

        if (!world(t))
                return;
        for (struct queue *q = world(t)->queues; q; q = next) {
                next = q->next;
                conn_free(q->conn);
        }
        rdma_end(t);
        world(t)->queues = NULL;
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
                le_put(w->pattern + i, 8, mix(le_get(w->hostid, 8) + i));
        return w->pattern;
}
