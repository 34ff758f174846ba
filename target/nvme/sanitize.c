/* SPDX-License-Identifier: BSD-3-Clause */
/* Sanitize (Base 2.2 5.1.22, 8.1.24), of subsystems whose hosts may do what they like with them as a whole: a
 * Block Erase that takes a moment, without media verification. The data is gone when the command completes, or the
 * operation will have failed; what is in the subsystem is guarded by the table's lock. */
#include <string.h>

#include "admin.h"

enum {
        EXIT_FAILURE = 1,
        BLOCK_ERASE = 2,
        AUSE = 1 << 3,
        NDAS = 1 << 9,
        EMVS = 1 << 10,
        OVERWRITE_FIELDS = 0x1f0, /* OWPASS, OIPBP */
        DURATION = 200,           /* ms */
        NEVER = 0,                /* SOS */
        SUCCESS = 1,
        IN_PROGRESS = 2,
        FAILED = 3,
        GLOBAL_ERASED = 1 << 8, /* of SSTAT */
        NOT_REPORTED = -1,
        PROTECTION = FEAT_WRITE_PROTECT,
};

static enum sanitize_state state_of(const struct subsystem *s)
{
        return s ? atomic_load(&s->sanitize.state) : SANITIZE_IDLE;
}

static uint16_t status_in(enum sanitize_state state)
{
        return state == SANITIZE_RUNS     ? NVME_SANITIZING
               : state == SANITIZE_FAILED ? NVME_SANITIZE_FAILED
                                          : NVME_SUCCESS;
}

uint16_t sanitize_io_status(const struct subsystem *s)
{
        return status_in(state_of(s));
}

/* --- what may be done while it runs: figure 143 */

static bool may_read(uint8_t lid)
{
        switch (lid) {
        case LOG_ERROR:
        case LOG_SMART:
        case LOG_CHANGED_NS:
        case LOG_ANA:
        case LOG_RESERVATION:
        case LOG_SANITIZE:
                return true;
        default:
                return false;
        }
}

bool sanitize_bars(const struct ctrl *c, const union sqe *sqe)
{
        uint8_t low = (uint8_t)le32_get(sqe->cdw10);

        if (state_of(c->subsystem) == SANITIZE_IDLE)
                return false;
        switch (sqe->opc) {
        case NVME_SANITIZE:
                return state_of(c->subsystem) == SANITIZE_RUNS;
        case NVME_GET_LOG_PAGE:
                return !may_read(low) && !has_flaw(c->env, FLAW_SANITIZE_LOGS);
        case NVME_SET_FEATURES:
                return low == PROTECTION && !has_flaw(c->env, FLAW_SANITIZE_FEATURE);
        case NVME_IDENTIFY:
                return has_flaw(c->env, FLAW_SANITIZE_BARS);
        case NVME_ABORT:
        case NVME_AER:
        case NVME_GET_FEATURES:
        case NVME_KEEP_ALIVE:
        case NVME_FABRICS:
                return false;
        default:
                return true;
        }
}

/* --- the log page */

static bool is_empty(const struct subsystem *s)
{
        struct ns *ns = s->ns;

        while (ns && ns_used(ns) == 0)
                ns = ns->next;
        return !ns;
}

void sanitize_log(struct admin *a, const struct window *w)
{
        const struct subsystem *s = a->ctrl->subsystem;
        uint8_t page[512] = { 0 };
        uint64_t left;

        pthread_mutex_lock(&a->env->table->lock);
        left = s->sanitize.until > a->now ? s->sanitize.until - a->now : 0;
        le_put(page, 2,
               s->sanitize.sos == IN_PROGRESS ? (DURATION - left) * UINT16_MAX / (DURATION + 1)
                                              : UINT16_MAX);
        le_put(page + 2, 2, s->sanitize.sos | (is_empty(s) ? GLOBAL_ERASED : 0u));
        le_put(page + 4, 4, has_flaw(a->env, FLAW_SANITIZE_CDW10) ? 0 : s->sanitize.cdw10);
        pthread_mutex_unlock(&a->env->table->lock);
        for (unsigned at = 8; at < 32; at += 4)
                le_put(page + at, 4, at == 12 ? (DURATION + 999) / 1000 : (uint32_t)NOT_REPORTED);
        page[36] = has_flaw(a->env, FLAW_SANITIZE_SANS);
        window_put(w, 0, page, sizeof(page));
}

/* --- its course: under the table's lock */

static void record(struct ctrl *c, uint8_t type, uint64_t now, const void *data, size_t n)
{
        struct pel_from from = { c->m.cntlid, c->port_id, settings_stamp(c, now) };

        if (!has_flaw(c->env, FLAW_PEL_SANITIZE))
                pel_add(&c->subsystem->pel, type, &from, data, n);
}

static void update_queues(struct ctrl_table *t, const struct subsystem *s)
{
        for (struct ctrl *c = t->first; c; c = c->next)
                if (c->subsystem == s) {
                        pthread_mutex_lock(&c->lock);
                        ctrl_update_queues(c);
                        pthread_mutex_unlock(&c->lock);
                }
}

static void record_start(struct admin *a, uint32_t dw10)
{
        struct id_ctrl id = { 0 };
        uint8_t data[12];

        identify_fill(a->ctrl, &id);
        memcpy(data, &id.sanicap, 4);
        le_put(data + 4, 4, dw10);
        le_put(data + 8, 4, le32_get(a->r->sqe.cdw11));
        record(a->ctrl, PEL_SANITIZE_START, a->now, data, sizeof(data));
}

/* From here on; who is about to write finds it so at the namespace. */
static void enter(struct ctrl_table *t, struct subsystem *s, enum sanitize_state state)
{
        uint16_t status = status_in(state);

        atomic_store(&s->sanitize.state, state);
        for (struct ns *ns = s->ns; ns; ns = ns->next)
                atomic_store(&ns->barred, status ? NS_OWN + status : NS_DONE);
        update_queues(t, s);
}

static void finish(struct ctrl_table *t, struct subsystem *s, uint64_t now)
{
        uint8_t data[8] = { 0xff, 0xff, s->sanitize.spoilt ? FAILED : SUCCESS };

        s->sanitize.sos = data[2];
        enter(t, s, s->sanitize.spoilt ? SANITIZE_FAILED : SANITIZE_IDLE);
        for (struct ctrl *c = t->first; c; c = c->next)
                if (c->subsystem == s && c->m.cntlid == s->sanitize.by) {
                        pthread_mutex_lock(&c->lock);
                        record(c, PEL_SANITIZE_END, now, data, sizeof(data));
                        controller_event(&c->m, AEN_COMMAND_SET, AEN_INFO_SANITIZED, LOG_SANITIZE);
                        ctrl_send_events(c);
                        pthread_mutex_unlock(&c->lock);
                }
}

void sanitize_tick(struct ctrl_table *t, uint64_t now)
{
        for (struct ctrl *c = t->first; c; c = c->next)
                if (state_of(c->subsystem) == SANITIZE_RUNS && !c->subsystem->sanitize.erasing &&
                    now >= c->subsystem->sanitize.until)
                        finish(t, c->subsystem, now);
}

/* --- the command */

static bool is_protected(const struct subsystem *s)
{
        const struct ns *ns = s->ns;

        while (ns && !atomic_load(&ns->protection))
                ns = ns->next;
        return ns;
}

/* After one without AUSE that has failed only another without AUSE helps (8.1.24.3.3). */
static bool is_stuck(const struct sanitize *s, uint32_t dw10)
{
        return atomic_load(&s->state) == SANITIZE_FAILED && !s->unrestricted &&
               ((dw10 & 7) == EXIT_FAILURE || dw10 & AUSE);
}

static uint16_t check(const struct admin *a, uint32_t dw10)
{
        unsigned action = dw10 & 7;
        uint32_t wrong = EMVS | NDAS;

        if (state_of(a->ctrl->subsystem) == SANITIZE_RUNS)
                return NVME_SANITIZING;
        if (is_stuck(&a->ctrl->subsystem->sanitize, dw10))
                return NVME_SANITIZE_FAILED;
        if (action != BLOCK_ERASE && action != EXIT_FAILURE && !has_flaw(a->env, FLAW_SANITIZE_ANY))
                return NVME_INVALID_FIELD;
        if (has_flaw(a->env, FLAW_SANITIZE_ANY) || action == EXIT_FAILURE)
                wrong = 0;
        if (has_flaw(a->env, FLAW_SANITIZE_STRICT))
                wrong = EMVS | NDAS | OVERWRITE_FIELDS;
        if (dw10 & wrong)
                return NVME_INVALID_FIELD;
        if (is_protected(a->ctrl->subsystem) && !has_flaw(a->env, FLAW_SANITIZE_PROTECTED))
                return NVME_WRITE_PROTECTED;
        return 0;
}

/* Without the table's lock: where the storage has to be written it takes its time, and others have theirs. True: all of
 * it was erased. */
static bool erase(const struct admin *a)
{
        bool good = true;

        for (struct ns *ns = a->ctrl->subsystem->ns; ns; ns = ns->next)
                if (!has_flaw(a->env, FLAW_SANITIZE_KEEPS) && ns_erase(ns))
                        good = false;
        return good;
}

static void start_sanitize(struct admin *a, uint32_t dw10)
{
        struct subsystem *s = a->ctrl->subsystem;

        s->sanitize.sos = IN_PROGRESS;
        s->sanitize.unrestricted = dw10 & AUSE;
        s->sanitize.cdw10 = dw10;
        s->sanitize.by = a->ctrl->m.cntlid;
        s->sanitize.until = a->now + DURATION;
        s->sanitize.erasing = true;
        enter(a->env->table, s, SANITIZE_RUNS);
}

uint16_t admin_sanitize(struct admin *a)
{
        struct subsystem *s = a->ctrl->subsystem;
        uint32_t dw10 = le32_get(a->r->sqe.cdw10);
        uint16_t status;
        bool good;

        pthread_mutex_lock(&a->env->table->lock);
        status = check(a, dw10);
        if (!status && (dw10 & 7) != EXIT_FAILURE) {
                start_sanitize(a, dw10);
                record_start(a, dw10);
                pthread_mutex_unlock(&a->env->table->lock);
                good = erase(a);
                pthread_mutex_lock(&a->env->table->lock);
                s->sanitize.spoilt = !good;
                s->sanitize.erasing = false;
        } else if (!status && state_of(s) == SANITIZE_FAILED) {
                enter(a->env->table, s, SANITIZE_IDLE);
        }
        pthread_mutex_unlock(&a->env->table->lock);
        return status;
}
