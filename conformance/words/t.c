/* SPDX-License-Identifier: BSD-3-Clause */
/* A running case: its identity, its memory, and the ways it ends. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conformance/engine/escape.h"
#include "pdu/io/loop.h"
#include "pdu/nvme/wire/text.h"
#include "words.h"

/* --- start and end ------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x) /* splitmix64 */
{
        x += UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

/* HOSTID and the NQN made of it: a random UUID of this run, another one for each case. */
static void identify_host(struct t *t, uint32_t n)
{
        uint8_t *u = t->hostid;

        le_put(u, 8, mix((uint64_t)t->suite->seed << 32 | n));
        le_put(u + 8, 8, mix(~((uint64_t)t->suite->seed << 32 | n)));
        u[6] = (uint8_t)(0x40 | (u[6] & 0x0f));
        u[8] = (uint8_t)(0x80 | (u[8] & 0x3f));
        snprintf(t->hostnqn, sizeof(t->hostnqn),
                 "nqn.2014-08.org.nvmexpress:uuid:"
                 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                 u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12],
                 u[13], u[14], u[15]);
        if (t->suite->hostnqn)
                snprintf(t->hostnqn, sizeof(t->hostnqn), "%s", t->suite->hostnqn);
        if (t->suite->hostid)
                memcpy(u, t->suite->hostid, 16);
}

void t_start(struct t *t, const struct suite *s, const struct test_case *test,
             struct result *result, uint32_t n)
{
        *t = (struct t) { .suite = s, .test = test, .result = result };
        t->rule = test->rules[0];
        t->deadline = conn_clock() + (uint64_t)(CASE_MS * s->timeout_scale);
        t->log.narrate = s->narrate;
        t->log.who = test->id;
        identify_host(t, n);
}

void t_end(struct t *t)
{
        struct queue *next;
        struct memory *after;

        for (struct queue *q = t->queues; q; q = next) {
                next = q->next;
                conn_free(q->conn);
        }
        rdma_end(t);
        for (struct memory *m = t->memory; m; m = after) {
                after = m->next;
                free(m);
        }
        exchange_free(&t->log);
        if (t->capture[0])
                unlink(t->capture);
        t->queues = NULL;
        t->memory = NULL;
}

void *t_alloc(struct t *t, size_t n)
{
        struct memory *m = calloc(1, sizeof(*m) + n);

        if (!m)
                broke(t, "out of memory");
        m->next = t->memory;
        t->memory = m;
        return m->align;
}

/* What still waits in the sockets may break a rule, too. */
static void look_once_more(struct t *t)
{
        if (t->suite->trtype == TRTYPE_RDMA)
                rdma_look_once_more(t);
        for (struct queue *q = t->queues; q; q = q->next) {
                if (q->conn->end == CONN_OPEN)
                        (void)conn_wait(q->conn, conn_clock());
                if (q->conn->violate_armed)
                        broke(t, "no PDU was sent that could break the rule");
        }
        t_settle(t);
}

void t_run(struct t *t, void (*body)(struct t *t))
{
        if (setjmp(t->out) != 0)
                return;
        body(t);
        look_once_more(t);
        if (t->result->verdict == VERDICT_NONE)
                t->result->verdict = VERDICT_PASS;
}

void t_keep_exchange(struct t *t)
{
        const struct exchange *x = &t->log;
        struct result *r = t->result;
        unsigned n = x->count < RESULT_EXCHANGE ? x->count : RESULT_EXCHANGE;

        r->exchange_count = n;
        r->exchange_dropped = x->count - n + x->dropped;
        if (x->count > 0)
                r->exchange_start = exchange_line(x, 0)->at;
        for (unsigned i = 0; i < n; i++)
                r->exchange[i] = *exchange_line(x, x->count - n + i);
}

void t_once(const struct suite *s, const struct test_case *test, struct result *result, uint32_t n)
{
        struct t t;

        t_start(&t, s, test, result, n);
        t_run(&t, test->run);
        t_end(&t);
}

/* --- verdicts ------------------------------------------------------------------------------ */

/* A peer or a hook may have said it: no report is to stumble over that, and no terminal. */
static void set_text(char text[RESULT_TEXT], const char *fmt, va_list ap)
{
        vsnprintf(text, RESULT_TEXT, fmt, ap);
        escape_text(text);
}

static enum level weaker(enum level a, enum level b)
{
        return a > b ? a : b;
}

/* What a deviation comes to: the level of the case, or of the rule where that is weaker. */
static enum verdict weigh(const struct t *t, enum rule_id rule)
{
        const struct rule *r = rule_get(rule);
        bool own = r && r->bound == (t->suite->hosted ? PARTY_HOST : PARTY_CONTROLLER);

        switch (weaker(t->test->level, own ? r->level : LEVEL_MUST)) {
        case LEVEL_INFO:
                return VERDICT_INFO;
        case LEVEL_SHOULD:
                t->result->only_strict = true;
                return t->suite->strict ? VERDICT_FAIL : VERDICT_LENIENT;
        case LEVEL_MUST:
                break;
        }
        return VERDICT_FAIL;
}

static void end_with(struct t *t, enum verdict v, enum rule_id rule)
{
        t->result->verdict = v;
        t->result->rule = rule;
        longjmp(t->out, 1);
}

void fail(struct t *t, const char *expected, const char *seen, ...)
{
        va_list ap;

        va_start(ap, seen);
        set_text(t->result->seen, seen, ap);
        va_end(ap);
        snprintf(t->result->expected, RESULT_TEXT, "%s%s", t->setting_up ? "in set-up: " : "",
                 expected);
        t->result->caught = !t->setting_up;
        t->result->only_strict = false;
        end_with(t, t->setting_up ? VERDICT_ERROR : weigh(t, t->rule), t->rule);
        abort();
}

void lenient(struct t *t, const char *expected, const char *seen, ...)
{
        struct result *r = t->result;
        va_list ap;

        if (r->verdict == VERDICT_LENIENT)
                return;
        va_start(ap, seen);
        set_text(r->seen, seen, ap);
        va_end(ap);
        snprintf(r->expected, RESULT_TEXT, "%s", expected);
        r->caught = r->only_strict = true;
        if (t->suite->strict)
                end_with(t,
                         weaker(t->test->level, LEVEL_SHOULD) == LEVEL_INFO ? VERDICT_INFO
                                                                            : VERDICT_FAIL,
                         t->rule);
        r->rule = t->rule;
        r->verdict = t->test->level == LEVEL_INFO ? VERDICT_INFO : VERDICT_LENIENT;
}

void skip(struct t *t, const char *why, ...)
{
        va_list ap;

        va_start(ap, why);
        set_text(t->result->note, why, ap);
        va_end(ap);
        end_with(t, VERDICT_SKIP, RULE_NONE);
        abort();
}

void broke(struct t *t, const char *fmt, ...)
{
        va_list ap;

        va_start(ap, fmt);
        set_text(t->result->seen, fmt, ap);
        va_end(ap);
        t->result->expected[0] = '\0';
        end_with(t, VERDICT_ERROR, RULE_NONE);
        abort();
}

void note(struct t *t, const char *fmt, ...)
{
        char *text = t->result->note;
        size_t len = strlen(text);
        va_list ap;

        if (len > 0 && len + 3 < RESULT_TEXT)
                len += (size_t)snprintf(text + len, RESULT_TEXT - len, "; ");
        va_start(ap, fmt);
        vsnprintf(text + len, RESULT_TEXT - len, fmt, ap);
        va_end(ap);
        escape_text(text);
}

/* --- rules that the target breaks on the way ----------------------------------------------- */

bool t_names(const struct t *t, enum rule_id rule)
{
        for (const enum rule_id *r = t->test->rules; *r != RULE_NONE; r++)
                if (*r == rule)
                        return true;
        return false;
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

static void describe_breach(char *line, size_t size, enum rule_id rule, const struct message *m,
                            const char *what)
{
        struct text text = text_in(line, size);

        if (m) {
                message_line(&text, m, true);
                name_field(&text, rule, m);
        }
        if (what)
                text_add(&text, "%s%s", m ? ": " : "", what);
}

void t_notice(struct t *t, enum rule_id rule, const struct message *m, const char *what)
{
        struct result *r = t->result;
        struct notice *n = &r->notices[r->notice_count];

        for (unsigned i = 0; i < r->notice_count; i++)
                if (r->notices[i].rule == rule)
                        return;
        if (r->notice_count == RESULT_NOTICES)
                return;
        n->rule = rule;
        describe_breach(n->line, sizeof(n->line), rule, m, what);
        r->notice_count++;
        if (!t_names(t, rule) || t->breach)
                return;
        t->breach = true;
        r->rule = rule;
        snprintf(r->expected, RESULT_TEXT, "%s", rule_get(rule)->says);
        snprintf(r->seen, RESULT_TEXT, "%s", n->line);
}

void t_settle(struct t *t)
{
        enum rule_id rule = t->result->rule;

        if (!t->breach)
                return;
        t->breach = false;
        t->result->caught = true;
        if (weigh(t, rule) == VERDICT_FAIL)
                end_with(t, VERDICT_FAIL, rule);
        t->result->verdict = weigh(t, rule);
}

/* --- small things -------------------------------------------------------------------------- */

const struct caps *caps(const struct t *t)
{
        return &t->suite->caps;
}

bool t_is_rdma(const struct t *t)
{
        return t->suite->trtype == TRTYPE_RDMA;
}

uint64_t t_deadline(const struct t *t, unsigned ms)
{
        uint64_t at = conn_clock() + (uint64_t)(ms * t->suite->timeout_scale);

        return at < t->deadline ? at : t->deadline;
}

uint64_t now_ms(void)
{
        return conn_clock();
}

void pause_ms(struct t *t, unsigned ms)
{
        (void)t;
        loop_sleep_us(ms * UINT64_C(1000));
}

void about(struct t *t, enum rule_id rule)
{
        if (!t_names(t, rule))
                broke(t, "the case does not name %s", rule_get(rule)->id);
        t->rule = rule;
}

const void *pattern(struct t *t, uint32_t bytes)
{
        if (bytes <= t->pattern_len)
                return t->pattern;
        t->pattern = t_alloc(t, (size_t)bytes + 8);
        t->pattern_len = bytes;
        for (size_t i = 0; i < bytes; i += 8)
                le_put(t->pattern + i, 8, mix(le_get(t->hostid, 8) + i));
        return t->pattern;
}

void want_eq(struct t *t, const char *what, uint64_t seen, uint64_t expected)
{
        char text[RESULT_TEXT];

        if (seen == expected)
                return;
        snprintf(text, sizeof(text), "%s %llu (%llXh)", what, (unsigned long long)expected,
                 (unsigned long long)expected);
        fail(t, text, "%s %llu (%llXh)", what, (unsigned long long)seen, (unsigned long long)seen);
}

void want_bytes(struct t *t, const char *what, const void *seen, const void *expected, size_t n)
{
        const uint8_t *a = seen, *b = expected;
        char text[RESULT_TEXT];

        for (size_t i = 0; i < n; i++) {
                if (a[i] == b[i])
                        continue;
                snprintf(text, sizeof(text), "%s: byte %zu is %02Xh", what, i, b[i]);
                fail(t, text, "%02Xh", a[i]);
        }
}
