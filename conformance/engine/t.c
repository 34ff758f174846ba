/* SPDX-License-Identifier: BSD-3-Clause */
/* A running case: its identity, its memory, and the ways it ends. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "escape.h"
#include "family.h"
#include "pdu/io/loop.h"

enum { AFTER_MS = 10000 }; /* that at least what comes after a case has */

/* --- start and end ------------------------------------------------------------------------- */

void t_start(struct t *t, const struct suite *s, const struct test_case *test,
             struct result *result, uint32_t n)
{
        *t = (struct t) { .suite = s, .test = test, .result = result, .number = n, .range = -1 };
        t->rule = test->rules[0];
        t->began = now_ms();
        t->deadline = t->began + t_scaled(t, CASE_MS);
        t->log.narrate = s->narrate;
        t->log.who = test->id;
}

void t_end(struct t *t)
{
        struct memory *after;

        if (t->suite->family->end)
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

static void run_body(struct t *t, void (*body)(struct t *t))
{
        if (setjmp(t->out) != 0)
                return;
        if (t->suite->family->begin)
                t->suite->family->begin(t);
        body(t);
        if (t->suite->family->settle)
                t->suite->family->settle(t);
        t_settle(t);
        if (t->result->verdict == VERDICT_NONE)
                t->result->verdict = VERDICT_PASS;
}

/* What comes after a case, whatever it was, changes nothing about it, and has time though the case has none left. */
static void run_after(struct t *t)
{
        struct result was = *t->result;
        uint64_t least = now_ms() + t_scaled(t, AFTER_MS);

        t->deadline = t->deadline < least ? least : t->deadline;
        t->setting_up = false;
        if (setjmp(t->out) == 0)
                t->test->after(t);
        *t->result = was;
}

void t_run(struct t *t, void (*body)(struct t *t))
{
        struct result *r = t->result;

        run_body(t, body);
        if (body == t->test->run && t->test->after)
                run_after(t);
        if (!t->log.starved)
                return;
        r->verdict = VERDICT_ERROR;
        r->caught = r->harm = false;
        r->rule = RULE_NONE;
        r->expected[0] = '\0';
        snprintf(r->seen, RESULT_TEXT, "out of memory");
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

static enum party tested(const struct t *t)
{
        return t->suite->role == ROLE_HOST ? PARTY_HOST : PARTY_CONTROLLER;
}

bool rests_on_own_reading(const struct t *t, unsigned rule)
{
        const struct rule *r = t_rule(t, rule);

        return r && rule_is_advice(r, tested(t));
}

/* What a deviation comes to: by the level of the case, or of the rule where that is weaker, and by
 * what the rule rests on, which excuses no harm. */
static enum verdict weigh(const struct t *t, unsigned rule, bool harmful)
{
        const struct rule *r = t_rule(t, rule);
        enum level level =
            weaker(t->test->level, r && r->bound == tested(t) ? r->level : LEVEL_MUST);

        if (level == LEVEL_INFO)
                return VERDICT_INFO;
        if (!harmful && rests_on_own_reading(t, rule))
                return VERDICT_ADVICE;
        if (level == LEVEL_SHOULD && !t->suite->strict)
                return VERDICT_LENIENT;
        t->result->only_strict = level == LEVEL_SHOULD;
        return VERDICT_FAIL;
}

static void end_with(struct t *t, enum verdict v, unsigned rule)
{
        t->result->verdict = v;
        t->result->rule = rule;
        longjmp(t->out, 1);
}

static void set_texts(struct t *t, const char *expected, const char *seen, va_list ap)
{
        set_text(t->result->seen, seen, ap);
        snprintf(t->result->expected, RESULT_TEXT, "%s%s", t->setting_up ? "in setup: " : "",
                 expected);
}

/* What is remembered of it is the failure, not what was tolerated before. */
static void __attribute__((noreturn))
end_badly(struct t *t, bool harmful, const char *expected, const char *seen, va_list ap)
{
        struct result *r = t->result;

        set_texts(t, expected, seen, ap);
        r->harm = harmful && !t->setting_up;
        r->caught = !t->setting_up;
        r->only_strict = false;
        if (t->setting_up)
                end_with(t, VERDICT_ERROR, t->rule);
        end_with(t, weigh(t, t->rule, harmful), t->rule);
        abort();
}

void fail(struct t *t, const char *expected, const char *seen, ...)
{
        va_list ap;

        va_start(ap, seen);
        end_badly(t, false, expected, seen, ap);
}

void harm(struct t *t, const char *expected, const char *seen, ...)
{
        va_list ap;

        va_start(ap, seen);
        end_badly(t, true, expected, seen, ap);
}

/* The first remark of its weight stays. */
static bool is_heavier(const struct t *t, enum verdict v)
{
        return t->result->verdict == VERDICT_NONE || v > t->result->verdict;
}

static void remark(struct t *t, enum verdict v, const char *expected, const char *seen, va_list ap)
{
        set_texts(t, expected, seen, ap);
        t->result->caught = true;
        t->result->only_strict = v != VERDICT_ADVICE && v != VERDICT_INFO;
        t->result->rule = t->rule;
        t->result->verdict = v;
}

void lenient(struct t *t, const char *expected, const char *seen, ...)
{
        enum verdict v = t->test->level == LEVEL_INFO       ? VERDICT_INFO
                         : rests_on_own_reading(t, t->rule) ? VERDICT_ADVICE
                         : t->suite->strict                 ? VERDICT_FAIL
                                                            : VERDICT_LENIENT;
        va_list ap;

        if (!is_heavier(t, v))
                return;
        va_start(ap, seen);
        remark(t, v, expected, seen, ap);
        va_end(ap);
        if (v == VERDICT_FAIL)
                end_with(t, v, t->rule);
}

void advise(struct t *t, const char *expected, const char *seen, ...)
{
        enum verdict v = t->test->level == LEVEL_INFO ? VERDICT_INFO : VERDICT_ADVICE;
        va_list ap;

        if (!is_heavier(t, v))
                return;
        va_start(ap, seen);
        remark(t, v, expected, seen, ap);
        va_end(ap);
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
        if (!t_names(t, rule) || t->breach || !is_heavier(t, weigh(t, rule, false)))
                return;
        t->breach = true;
        r->rule = rule;
        snprintf(r->expected, RESULT_TEXT, "%s", t_rule(t, rule)->says);
        snprintf(r->seen, RESULT_TEXT, "%s", n->line);
}

void t_settle(struct t *t)
{
        unsigned rule = t->result->rule;
        enum verdict v;

        if (!t->breach)
                return;
        t->breach = false;
        t->result->caught = true;
        v = weigh(t, rule, false);
        if (v == VERDICT_FAIL)
                end_with(t, v, rule);
        t->result->verdict = v;
}

/* --- small things -------------------------------------------------------------------------- */

uint64_t t_scaled(const struct t *t, unsigned ms)
{
        return (uint64_t)(ms * t->suite->timeout_scale);
}

uint64_t t_deadline(const struct t *t, unsigned ms)
{
        uint64_t at = now_ms() + t_scaled(t, ms);

        return at < t->deadline ? at : t->deadline;
}

uint64_t t_lend(struct t *t, uint64_t ms)
{
        uint64_t now = now_ms(), left = t->deadline > now ? t->deadline - now : 0;

        t->deadline += ms;
        return left;
}

void t_repay(struct t *t, uint64_t left)
{
        t->deadline = now_ms() + left;
}

void broke_if_over(struct t *t)
{
        uint64_t now = now_ms();

        if (now >= t->deadline)
                broke(t, "the case timed out after %u s: the target is slow, or -j is too high",
                      (unsigned)((now - t->began) / 1000));
}

bool is_enough(struct t *t, unsigned n, unsigned most)
{
        bool late = now_ms() - t->began >= (t->deadline - t->began) / 2;

        if (late && n < most)
                note(t, "%u of %u, in half of the case's time", n, most);
        return late || n >= most;
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

void give_ms(struct t *t, unsigned ms)
{
        double scale = t->suite->timeout_scale;

        pause_ms(t, scale > 1 ? (unsigned)(ms * scale) : ms);
}

void about(struct t *t, unsigned rule)
{
        if (!t_names(t, rule))
                broke(t, "the case does not name %s", t_rule(t, rule)->id);
        t->rule = rule;
}

void blame(struct t *t, unsigned rule)
{
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

static void compare(struct t *t, bool harmful, const char *what, const uint8_t *seen,
                    const uint8_t *expected, size_t n)
{
        size_t first = 0, differ = 0;

        while (first < n && seen[first] == expected[first])
                first++;
        for (size_t i = first; i < n; i++)
                differ += seen[i] != expected[i];
        if (differ == 0)
                return;
        if (harmful)
                harm(t, what, "%02Xh in place of %02Xh at byte %zu; %zu of %zu bytes differ",
                     seen[first], expected[first], first, differ, n);
        fail(t, what, "%02Xh in place of %02Xh at byte %zu", seen[first], expected[first], first);
}

void want_bytes(struct t *t, const char *what, const void *seen, const void *expected, size_t n)
{
        compare(t, false, what, seen, expected, n);
}

void want_data(struct t *t, const char *what, const void *seen, const void *expected, size_t n)
{
        compare(t, true, what, seen, expected, n);
}
