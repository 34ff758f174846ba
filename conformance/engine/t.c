/* SPDX-License-Identifier: BSD-3-Clause */
/* A running case: its identity, its memory, and the ways it ends. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "escape.h"
#include "family.h"
#include "pdu/io/loop.h"

/* --- start and end ------------------------------------------------------------------------- */

void t_start(struct t *t, const struct suite *s, const struct test_case *test,
             struct result *result, uint32_t n)
{
        *t = (struct t) { .suite = s, .test = test, .result = result, .number = n, .range = -1 };
        t->rule = test->rules[0];
        t->deadline = now_ms() + (uint64_t)(CASE_MS * s->timeout_scale);
        t->log.narrate = s->narrate;
        t->log.who = test->id;
}

void t_end(struct t *t)
{
        struct memory *after;

        t->suite->family->end(t);
        for (struct memory *m = t->memory; m; m = after) {
                after = m->next;
                free(m);
        }
        exchange_free(&t->log);
        if (t->capture[0])
                unlink(t->capture);
        t->world = NULL;
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

void t_run(struct t *t, void (*body)(struct t *t))
{
        if (setjmp(t->out) != 0)
                return;
        t->suite->family->begin(t);
        body(t);
        t->suite->family->settle(t);
        t_settle(t);
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
static enum verdict weigh(const struct t *t, unsigned rule)
{
        const struct rule *r = t_rule(t, rule);
        bool own = r && r->bound == (t->suite->role == ROLE_HOST ? PARTY_HOST : PARTY_CONTROLLER);

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

static void end_with(struct t *t, enum verdict v, unsigned rule)
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
        snprintf(t->result->expected, RESULT_TEXT, "%s%s", t->setting_up ? "in setup: " : "",
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

const struct rule *t_rule(const struct t *t, unsigned rule)
{
        return rulebook_get(t->suite->family->family->rules, rule);
}

bool t_names(const struct t *t, unsigned rule)
{
        for (const unsigned *r = t->test->rules; *r != RULE_NONE; r++)
                if (*r == rule)
                        return true;
        return false;
}

void t_notice(struct t *t, unsigned rule, const char *line)
{
        struct result *r = t->result;
        struct notice *n = &r->notices[r->notice_count];

        for (unsigned i = 0; i < r->notice_count; i++)
                if (r->notices[i].rule == rule)
                        return;
        if (r->notice_count == RESULT_NOTICES)
                return;
        n->rule = rule;
        snprintf(n->line, sizeof(n->line), "%s", line);
        r->notice_count++;
        if (!t_names(t, rule) || t->breach)
                return;
        t->breach = true;
        r->rule = rule;
        snprintf(r->expected, RESULT_TEXT, "%s", t_rule(t, rule)->says);
        snprintf(r->seen, RESULT_TEXT, "%s", n->line);
}

void t_settle(struct t *t)
{
        unsigned rule = t->result->rule;

        if (!t->breach)
                return;
        t->breach = false;
        t->result->caught = true;
        if (weigh(t, rule) == VERDICT_FAIL)
                end_with(t, VERDICT_FAIL, rule);
        t->result->verdict = weigh(t, rule);
}

/* --- small things -------------------------------------------------------------------------- */

uint64_t t_deadline(const struct t *t, unsigned ms)
{
        uint64_t at = now_ms() + (uint64_t)(ms * t->suite->timeout_scale);

        return at < t->deadline ? at : t->deadline;
}

uint64_t now_ms(void)
{
        return loop_now_ms();
}

void pause_ms(struct t *t, unsigned ms)
{
        (void)t;
        loop_sleep_us(ms * UINT64_C(1000));
}

void about(struct t *t, unsigned rule)
{
        if (!t_names(t, rule))
                broke(t, "the case does not name %s", t_rule(t, rule)->id);
        t->rule = rule;
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
