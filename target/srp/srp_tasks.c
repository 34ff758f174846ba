/* SPDX-License-Identifier: BSD-3-Clause */
#include "srp_tasks.h"

#include <stdlib.h>

struct task_walk;

struct task_visit { /* of one channel */
        struct loop_message mail;
        struct task_walk *walk;
        struct srp_conn *conn;
        unsigned left;           /* tasks that have not ended, and the visit itself */
        bool follows;            /* others that came before it wait for tasks of its, too */
        struct task_visit *next; /* that came to the channel after it */
};

struct task_walk { /* a function under way */
        struct loop_message mail;
        struct srp_conn *origin;
        struct srp_command *command;
        uint32_t lun;
        _Atomic unsigned pending; /* visits */
        unsigned count;
        struct task_visit visit[];
};

/* What a function is about, and what others are told of it. */
static const struct function {
        uint8_t code;
        bool one_task; /* that of the tag */
        bool all_nexuses;
        uint16_t attention; /* of nexuses whose tasks it may have ended; 0: nothing */
        bool own, other;    /* attention for its own nexus, for the others */
} functions[] = {
        { SRP_TM_ABORT_TASK, true, false, 0, false, false },
        { SRP_TM_ABORT_TASK_SET, false, false, 0, false, false },
        { SRP_TM_CLEAR_TASK_SET, false, true, SCSI_ASC_CLEARED, false, true },
        { SRP_TM_LUN_RESET, false, true, SCSI_ASC_RESET, true, true },
};

static const struct function *function_of(const struct srp_command *c)
{
        for (unsigned i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
                if (functions[i].code == c->function)
                        return &functions[i];
        return NULL;
}

static void answer(struct srp_conn *c, struct srp_command *cmd, enum srp_tm_response response)
{
        cmd->response = (uint8_t)response;
        srp_command_done(cmd);
        srp_conn_again(c);
}

/* --- visits ----------------------------------------------------------------------------------- */

static void on_walk_over(struct loop_message *m)
{
        struct task_walk *w = (struct task_walk *)m;
        struct srp_conn *origin = w->origin;
        struct srp_command *cmd = w->command;

        free(w);
        answer(origin, cmd, SRP_TM_COMPLETE);
}

static void end_visit(struct task_visit *v)
{
        struct task_walk *w = v->walk;
        struct srp_conn *c = v->conn;

        srp_conn_again(c);
        atomic_fetch_sub(&c->visits, 1);
        if (atomic_fetch_sub(&w->pending, 1) == 1)
                loop_post(&w->origin->base.reactor->loop, &w->mail);
}

/* Who follows others ends after all of them, since a task is waited for by the first one that is about it. */
static void leave_visit(struct task_visit *left)
{
        struct task_visit **at = &left->conn->visiting, *v;
        bool first = true;

        left->left--;
        while ((v = *at) != NULL) {
                if (v->left == 0 && (first || !v->follows)) {
                        *at = v->next;
                        end_visit(v);
                } else {
                        first = false;
                        at = &v->next;
                }
        }
}

void srp_tasks_ended(struct srp_task *t)
{
        struct task_visit *v = t->visit;

        t->visit = NULL;
        if (v)
                leave_visit(v);
}

static bool is_meant(const struct task_walk *w, const struct srp_command *c)
{
        const struct function *f = function_of(w->command);

        return c->type == SRP_CMD && scsi_lun_number(c->lun) == w->lun &&
               (!f->one_task || c->tag == w->command->task_tag);
}

static void arrive(struct task_visit *v)
{
        struct task_visit **at = &v->conn->visiting;

        while (*at)
                at = &(*at)->next;
        *at = v;
}

/* Aborting one may end it, and no other. */
static void on_visit(struct loop_message *m)
{
        struct task_visit *v = (struct task_visit *)m;
        struct srp_command *next;

        arrive(v);
        for (struct srp_command *c = srp_target_first(v->conn->machine); c; c = next) {
                struct srp_task *t = c->own;

                next = srp_command_next(c);
                if (!is_meant(v->walk, c))
                        continue;
                if (t->visit) {
                        v->follows = true;
                        continue;
                }
                t->visit = v;
                v->left++;
                srp_command_abort(c);
        }
        leave_visit(v);
}

/* --- walks ------------------------------------------------------------------------------------ */

static bool is_visited(const struct srp_conn *c, const struct srp_conn *origin,
                       const struct function *f)
{
        if (f->one_task)
                return c == origin;
        return f->all_nexuses || c->nexus == origin->nexus;
}

/* With the service's lock held, under which channels stay. visits NULL: only counts. */
static unsigned each_visited(struct srp_service *s, const struct srp_conn *origin,
                             const struct function *f, struct task_walk *w)
{
        unsigned n = 0;

        for (struct srp_nexus *nexus = s->nexuses; nexus; nexus = nexus->next)
                for (struct srp_conn *c = nexus->channels; c; c = c->next) {
                        if (!is_visited(c, origin, f))
                                continue;
                        if (w)
                                w->visit[n] = (struct task_visit) {
                                        .mail.run = on_visit, .walk = w, .conn = c, .left = 1
                                };
                        n++;
                }
        return n;
}

static void attend(struct srp_service *s, const struct srp_conn *origin, const struct function *f,
                   uint32_t lun)
{
        for (struct srp_nexus *n = s->nexuses; n && f->attention; n = n->next)
                if (n == origin->nexus ? f->own : f->other)
                        scsi_nexus_attend(&n->scsi, lun, (enum scsi_asc)f->attention);
}

static bool set_out(struct srp_service *s, struct srp_conn *origin, struct srp_command *cmd,
                    const struct function *f)
{
        unsigned n = each_visited(s, origin, f, NULL);
        struct task_walk *w = n > 0 ? calloc(1, sizeof(*w) + n * sizeof(w->visit[0])) : NULL;

        if (!w)
                return false;
        w->mail.run = on_walk_over;
        w->origin = origin;
        w->command = cmd;
        w->lun = scsi_lun_number(cmd->lun);
        w->count = n;
        atomic_init(&w->pending, n);
        (void)each_visited(s, origin, f, w);
        attend(s, origin, f, w->lun);
        for (unsigned i = 0; i < n; i++)
                atomic_fetch_add(&w->visit[i].conn->visits, 1);
        for (unsigned i = 0; i < n; i++)
                loop_post(&w->visit[i].conn->base.reactor->loop, &w->visit[i].mail);
        return true;
}

/* No condition of ACA ever is: there is nothing to clear. */
static bool has_nothing_to_do(const struct srp_service *s, const struct srp_command *cmd)
{
        return cmd->function == SRP_TM_CLEAR_ACA || rule_in(&s->policy.waived, SRP_TM_FUNCTION);
}

void srp_tasks_manage(struct srp_conn *c, struct srp_command *cmd)
{
        struct srp_service *s = srp_service_of(c->base.reactor);
        const struct function *f = function_of(cmd);
        bool ok;

        if (!scsi_has_unit(&s->device, scsi_lun_number(cmd->lun))) {
                answer(c, cmd, SRP_TM_FAILED);
                return;
        }
        if (!f) {
                answer(c, cmd, has_nothing_to_do(s, cmd) ? SRP_TM_COMPLETE : SRP_TM_NOT_SUPPORTED);
                return;
        }
        pthread_mutex_lock(&s->lock);
        ok = set_out(s, c, cmd, f);
        pthread_mutex_unlock(&s->lock);
        if (!ok)
                answer(c, cmd, SRP_TM_FAILED);
}
