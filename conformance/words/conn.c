/* SPDX-License-Identifier: BSD-3-Clause */
#include "conn.h"

#include <stdlib.h>

#include "pdu/io/loop.h"
#include "pdu/nvme/wire/text.h"

/* What a connection may bring: it is kept, and looked through, until it is let go or the case ends. */
enum { CONN_KEPT = 512, KEPT_MAX = 128 << 20 };
_Static_assert(sizeof(struct seen) <= CONN_KEPT, "what is kept is counted in full");

void conn_init(struct suite_conn *c, const struct conn_ops *kind, unsigned no, struct exchange *log)
{
        *c = (struct suite_conn) { .kind = kind, .no = no, .log = log, .admin = true };
        c->inbox_end = &c->inbox;
}

void conn_free(struct suite_conn *c)
{
        c->kind->free(c);
}

void conn_close(struct suite_conn *c)
{
        c->kind->close(c);
}

void conn_reset(struct suite_conn *c)
{
        c->kind->reset(c);
}

bool conn_wait(struct suite_conn *c, uint64_t deadline)
{
        return c->kind->wait(c, deadline);
}

static void free_list(struct seen *s)
{
        struct seen *next;

        for (; s; s = next) {
                next = s->next;
                free(s);
        }
}

void conn_free_seen(struct suite_conn *c)
{
        free_list(c->inbox);
        free_list(c->taken);
        c->inbox = c->taken = NULL;
        c->search.at = NULL;
        c->inbox_end = &c->inbox;
}

void conn_over(struct suite_conn *c, enum conn_end how, const char *says)
{
        if (c->end != CONN_OPEN)
                return;
        c->end = how;
        exchange_event(c->log, c->no, "%s", says);
}

void conn_log(struct suite_conn *c, bool sent, const struct message *m, uint32_t data,
              const char *remark)
{
        char line[EXCHANGE_LINE];
        struct text t = text_in(line, sizeof(line));

        _Static_assert(sizeof(*m) <= EXCHANGE_HEADER, "all of it is kept");
        message_line(&t, m, c->admin);
        if (data > 0)
                text_add(&t, " +%u bytes", data);
        if (remark && *remark)
                text_add(&t, "  [%s]", remark);
        exchange_header(c->log, c->no, sent, c->admin ? LINE_ADMIN : LINE_IO, m, sizeof(*m), line);
}

void conn_breach(struct suite_conn *c, enum rule_id rule, const struct message *m)
{
        if (rule != RULE_NONE && c->broken)
                c->broken(c->arg, rule, m);
}

void conn_breaches(struct suite_conn *c, const struct rule_set *found, const struct message *m)
{
        if (!found || rule_set_empty(found))
                return;
        rule_each (r)
                if (rule_in(found, r))
                        conn_breach(c, r, m);
}

void *conn_alloc(struct suite_conn *c, size_t n)
{
        void *p = calloc(1, n);

        if (p)
                return p;
        c->log->starved = true;
        conn_over(c, CONN_STARVED, "out of memory");
        return NULL;
}

struct seen *conn_room(struct suite_conn *c, uint32_t len)
{
        c->kept += CONN_KEPT + len;
        if (c->kept > KEPT_MAX) {
                conn_over(c, CONN_FLOODED, "too many PDUs; the rest is not read");
                return NULL;
        }
        return conn_alloc(c, sizeof(struct seen) + len);
}

void conn_file(struct suite_conn *c, struct seen *s)
{
        s->next = NULL;
        *c->inbox_end = s;
        c->inbox_end = &s->next;
        c->filed++;
}

static struct seen *unlink_seen(struct suite_conn *c, struct seen **at)
{
        struct seen *s = *at;

        *at = s->next;
        if (c->inbox_end == &s->next)
                c->inbox_end = at;
        s->next = c->taken;
        c->taken = s;
        return s;
}

struct seen *conn_take(struct suite_conn *c, seen_fits fits, uint16_t cid)
{
        if (!c->search.at || c->search.fits != fits || c->search.cid != cid) {
                c->search.fits = fits;
                c->search.cid = cid;
                c->search.at = &c->inbox;
        }
        for (; *c->search.at; c->search.at = &(*c->search.at)->next)
                if (fits(*c->search.at, cid))
                        return unlink_seen(c, c->search.at);
        return NULL;
}

void conn_let_go(struct suite_conn *c, struct seen *s)
{
        struct seen **p = &c->taken;

        while (*p != s)
                p = &(*p)->next;
        *p = s->next;
        c->kept -= CONN_KEPT + s->len;
        free(s);
}

bool conn_apply_changes(struct suite_conn *c, struct message *m, struct text *remark)
{
        bool any = false;

        for (unsigned i = 0; i < c->changes; i++) {
                const struct field *f = message_field(m, c->change[i].field);

                if (!f) {
                        c->bad_field = true;
                        continue;
                }
                field_put(f, &m->pdu, c->change[i].value);
                any = true;
                text_add(remark, "%s%s=%llu", remark->len > 0 ? ", " : "", f->name,
                         (unsigned long long)c->change[i].value);
        }
        c->changes = 0;
        return any;
}
