/* SPDX-License-Identifier: BSD-3-Clause */
#include "schedule.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pdu/io/shell.h"

enum {
        BLIND_MS = 1, /* between two looks at what has no descriptors */
        REMOTE_COMMAND = 4096,
};

#define each_conn(c, s)                                                                            \
        for (struct remote_conn *const *at_ = (s)->conn, *(c);                                     \
             at_ < (s)->conn + SEQ_QUEUES && ((c) = *at_); at_++)

static void due_in(struct remote_session *s, uint64_t ms)
{
        s->due = loop_now_ms() + ms;
        s->deadline = s->blind ? loop_now_ms() + BLIND_MS : s->due;
}

void remote_acted(struct remote_session *s)
{
        unsigned settle = s->target->settle;

        s->patience = loop_now_ms() + (s->hang > settle ? s->hang : settle);
}

void conn_speaks(struct remote_conn *c)
{
        uint64_t now = loop_now_ms(), last = 0;

        each_conn(any, c->session) last = any->spoke > last ? any->spoke : last;
        c->silence = last > 0 ? now - last : 0;
        c->spoke = now;
}

/* Each word makes us wait for the next one, but a target that never stops is not heard out. */
static void wait_for_more(struct remote_session *s)
{
        uint64_t now = loop_now_ms(), left = s->patience > now ? s->patience - now : 0;

        due_in(s, left < s->target->settle ? left : s->target->settle);
}

/* --- ends --------------------------------------------------------------------------------------- */

static void conn_end(struct remote_conn *c, enum remote_end end, bool reset)
{
        struct remote_answer *a = &c->session->answer;

        if (c->session->transport->close)
                c->session->transport->close(c, reset);
        c->state = CONN_OVER;
        a->end = end > a->end ? end : a->end;
        remote_answer_add(a,
                          (uint64_t)end << 32 | (uint64_t)c->broken << 40 | (uint64_t)c->on << 56);
}

void conn_refuse(struct remote_conn *c, const char *why, ...)
{
        struct remote_answer *a = &c->session->answer;
        va_list ap;

        va_start(ap, why);
        vsnprintf(a->why, sizeof(a->why), why, ap);
        va_end(ap);
        conn_end(c, REMOTE_REFUSED, true);
}

void conn_ended(struct remote_conn *c, bool reset)
{
        bool ours = c->session->mode == REMOTE_ENDING;

        c->broken |= reset && ours;
        conn_end(c,
                 c->term ? REMOTE_TERM
                 : ours  ? REMOTE_DONE
                 : reset ? REMOTE_RESET
                         : REMOTE_CLOSED,
                 false);
}

/* --- configurations ----------------------------------------------------------------------------- */

/* All other sessions wait; what becomes of it is the target's to show. */
static void reload(struct remote_session *s, unsigned which)
{
        char command[REMOTE_COMMAND], says[SHELL_LINE];

        if (!s->target->reload)
                return;
        snprintf(command, sizeof(command), "%s %u", s->target->reload, which);
        (void)shell_run(command, says, s->target->timeout);
        s->reloaded = which > 0;
        each_conn(c, s) if (which > 0 && which == s->target->revokes && c->state == CONN_LIVE)
            c->revoked = loop_now_ms();
        remote_acted(s);
}

static void finish(struct remote_session *s)
{
        if (s->reloaded)
                reload(s, 0);
        if (s->transport->end)
                s->transport->end(s);
        s->answer.steps = s->step;
        s->sequence = NULL;
        s->over(s);
}

/* The next step is not to be sent: nobody hears of it. */
static void give_up(struct remote_session *s)
{
        each_conn(c, s) if (c->state == CONN_OPENING || c->state == CONN_LIVE)
            conn_end(c, REMOTE_UNSENT, true);
        s->answer.end = REMOTE_UNSENT;
        finish(s);
}

static bool all_over(const struct remote_session *s)
{
        each_conn(c, s) if (c->state == CONN_OPENING || c->state == CONN_LIVE) return false;
        return true;
}

/* --- what comes --------------------------------------------------------------------------------- */

void conn_opening(struct remote_conn *c, unsigned ms)
{
        c->state = CONN_OPENING;
        due_in(c->session, ms);
}

void conn_live(struct remote_conn *c)
{
        c->state = CONN_LIVE;
        remote_acted(c->session);
}

void conn_received_word(struct remote_conn *c, uint64_t word)
{
        /* powers of ten from 100 ms on: what a busy machine makes of a fast answer is nothing new */
        uint64_t ms = loop_now_ms() - c->spoke;
        uint64_t slow = ms >= 10000 ? 3 : ms >= 1000 ? 2 : ms >= 100;

        remote_answer_add(&c->session->answer, word | (uint64_t)c->on << 56 | slow << 60);
}

void conn_broke(struct remote_conn *c, const struct rule_set *found)
{
        struct remote_session *s = c->session;

        rule_each_in (found, id) {
                const struct rule *r = seq_rule_get(s->target->family, id);

                if (r->bound == PARTY_CONTROLLER && r->level == LEVEL_MUST)
                        rule_add(&s->answer.broken, id);
        }
}

void conn_message(const struct remote_conn *c, enum party sender, const void *message)
{
        if (c->session->message)
                c->session->message(c->session->user, c->on, sender, message);
}

/* --- steps -------------------------------------------------------------------------------------- */

static bool is_due(const struct remote_conn *c)
{
        return c->state == CONN_LIVE && !c->term &&
               (c->broken || (c->session->transport->expects && c->session->transport->expects(c)));
}

static void settle(struct remote_session *s)
{
        bool due = false;

        each_conn(c, s) if (c->overdue && c->state == CONN_LIVE) conn_end(c, REMOTE_HANG, true);
        if (all_over(s)) {
                finish(s);
                return;
        }
        if (s->mode == REMOTE_ENDING)
                return;
        each_conn(c, s) due |= is_due(c);
        if (due && !s->impatient) {
                s->mode = REMOTE_SETTLING;
                wait_for_more(s);
                return;
        }
        s->mode = REMOTE_ENDING;
        due_in(s, s->hang);
        for (unsigned i = SEQ_QUEUES; i-- > 0;)
                if (s->conn[i]->state == CONN_LIVE)
                        s->transport->half_close(s->conn[i]);
        if (all_over(s))
                finish(s);
}

/* An answer is due that the next connection may hang on, such as the one to CC.EN. */
static bool is_waiting(const struct remote_session *s)
{
        each_conn(c, s) if (!c->broken && !c->wild && is_due(c)) return true;
        return false;
}

static bool is_said(const struct seq_step *step)
{
        return step->kind == SEQ_PDU || step->kind == SEQ_RAW;
}

static bool can_send(const struct remote_conn *c, const struct seq_step *step)
{
        const struct remote_transport *t = c->session->transport;

        return c->state == CONN_LIVE && is_said(step) && (!t->can_send || t->can_send(c, step));
}

/* False: it, or an answer, is to be waited for, or all is over. */
static bool open_conn(struct remote_session *s, struct remote_conn *c, const struct seq_step *step)
{
        if (!s->impatient && is_waiting(s)) {
                wait_for_more(s);
                return false;
        }
        if (!s->transport->open(c, step)) {
                give_up(s);
                return false;
        }
        return c->state != CONN_OPENING;
}

/* A step that takes more than bytes. False: as above. */
static bool do_step(struct remote_session *s, struct remote_conn *c, const struct seq_step *step)
{
        if (step->kind == SEQ_DELAY) {
                s->step++;
                s->mode = REMOTE_DELAYED;
                due_in(s, step->ms < s->target->delay ? step->ms : s->target->delay);
                return false;
        }
        if (step->kind == SEQ_RELOAD) {
                if (!s->impatient && is_waiting(s)) {
                        wait_for_more(s);
                        return false;
                }
                s->step++;
                reload(s, step->of);
                return true;
        }
        if (c->state == CONN_ABSENT)
                return open_conn(s, c, step);
        if (c->state == CONN_OPENING || can_send(c, step))
                return c->state == CONN_LIVE;
        if (is_said(step)) {
                wait_for_more(s);
                return false;
        }
        s->step++;
        if (step->kind == SEQ_CLOSE || step->kind == SEQ_RESET)
                conn_end(c, REMOTE_LEFT, step->kind == SEQ_RESET);
        return true;
}

static bool is_lost(const struct remote_conn *c)
{
        return c->state == CONN_OVER || c->broken || c->term;
}

/* No connection is left for which a delay would make a difference. */
static bool all_lost(const struct remote_session *s)
{
        for (unsigned i = 0; i == 0 || i < s->sequence->queues; i++)
                if (!is_lost(s->conn[i]))
                        return false;
        return true;
}

static bool flush(struct remote_session *s)
{
        if (!s->transport->flush || s->transport->flush(s))
                return true;
        s->due = s->deadline = s->patience;
        return false;
}

/* As far as it goes without an answer. */
static void go_on(struct remote_session *s)
{
        while (s->step < s->sequence->steps) {
                const struct seq_step *step = &s->sequence->step[s->step];
                struct remote_conn *c = s->conn[step->on];

                if (seq_is_for_all(step) ? all_lost(s) : is_lost(c)) {
                        s->step++;
                } else if (can_send(c, step)) {
                        s->step++;
                        if (!s->transport->send(c, step)) {
                                give_up(s);
                                return;
                        }
                } else if (!flush(s) || !do_step(s, c, step)) {
                        return;
                }
        }
        if (flush(s))
                settle(s);
}

void remote_go(struct remote_session *s)
{
        if (!s->sequence)
                return;
        if (s->mode == REMOTE_DELAYED && all_lost(s))
                s->mode = REMOTE_RUNNING;
        if (s->mode == REMOTE_RUNNING)
                go_on(s);
        else if (s->mode != REMOTE_DELAYED)
                settle(s);
}

/* --- life --------------------------------------------------------------------------------------- */

struct remote_session *remote_open(struct loop *loop, const struct remote_target *target)
{
        const struct remote_transport *transport =
            target->family->transports[target->transport].remote;
        struct remote_session *s = transport->new ();

        if (!s)
                return NULL;
        s->transport = transport;
        s->loop = loop;
        s->target = target;
        s->hang = target->hang;
        for (unsigned i = 0; i < SEQ_QUEUES; i++) {
                s->conn[i]->session = s;
                s->conn[i]->on = i;
        }
        s->log.bytes = malloc(REMOTE_LOG);
        if (s->log.bytes)
                return s;
        transport->free(s);
        return NULL;
}

void remote_stop(struct remote_session *s)
{
        each_conn(c,
                  s) if (s->transport->close && (c->state == CONN_OPENING || c->state == CONN_LIVE))
            s->transport->close(c, true);
        if (s->transport->end)
                s->transport->end(s);
        s->sequence = NULL;
}

void remote_close(struct remote_session *s)
{
        if (s->sequence)
                remote_stop(s);
        free(s->log.bytes);
        s->transport->free(s);
}

void remote_play(struct remote_session *s, const struct sequence *sequence)
{
        s->sequence = sequence;
        s->answer = (struct remote_answer) { 0 };
        s->log.len = 0;
        s->log.cut = false;
        s->mode = REMOTE_RUNNING;
        s->impatient = false;
        s->step = 0;
        each_conn(c, s)
        {
                c->state = CONN_ABSENT;
                c->broken = c->term = c->wild = c->joining = c->overdue = false;
                c->aers = c->question = c->posthumous = c->neglected = 0;
                c->kato = c->asks_kato = 0;
                c->leaves = c->spoke = c->unproven = c->revoked = 0;
        }
        remote_acted(s);
        if (s->transport->begin && !s->transport->begin(s)) {
                s->answer.end = REMOTE_REFUSED;
                finish(s);
                return;
        }
        due_in(s, s->target->settle);
        go_on(s);
        if (s->sequence && s->transport->poll)
                s->transport->poll(s);
}

/* Whoever has to do something and did not. */
static void give_in(struct remote_session *s)
{
        const struct remote_transport *t = s->transport;

        each_conn(c, s)
        {
                if (c->state == CONN_OPENING && (!t->retry || !t->retry(c)))
                        conn_refuse(c, "%s", strerror(ETIMEDOUT));
                else if (c->state == CONN_LIVE &&
                         (s->mode == REMOTE_ENDING || (t->is_stuck && t->is_stuck(c))))
                        conn_end(c, REMOTE_HANG, true);
        }
}

static void late(struct remote_session *s)
{
        bool opening = false;

        each_conn(c, s) opening |= c->state == CONN_OPENING;
        give_in(s);
        s->impatient |= !opening && s->mode != REMOTE_DELAYED;
        if (s->mode == REMOTE_DELAYED) {
                s->mode = REMOTE_RUNNING;
                remote_acted(s);
        }
        remote_go(s);
}

uint64_t remote_idle(const struct remote_session *s)
{
        uint64_t now = loop_now_ms(), begun = s->due - s->hang;

        return s->sequence && s->mode == REMOTE_ENDING && !s->reloaded && now > begun ? now - begun
                                                                                      : 0;
}

void remote_late(struct remote_session *s, uint64_t now)
{
        bool all;

        if (!s->sequence || now < s->deadline)
                return;
        if (s->transport->poll) {
                all = s->transport->poll(s);
                if (!s->sequence)
                        return;
                now = loop_now_ms();
                if (now < s->due) { /* only looked at what has no descriptors */
                        if (all)
                                s->deadline = s->blind ? now + BLIND_MS : s->due;
                        return;
                }
        }
        late(s);
}
