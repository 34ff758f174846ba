/* SPDX-License-Identifier: BSD-3-Clause */
#include "control.h"

#include <string.h>

#include "pdu/core/plant.h"

enum { MANY = 1 << 30 }; /* connections: 2.10 does not say how many there will be */

void doca_control_init(struct doca_control *c, const struct doca_dialect *d,
                       enum doca_after_error after_error)
{
        *c = (struct doca_control) { .dialect = d, .after_error = after_error };
}

void doca_control_miss(struct doca_control *c)
{
        c->missing = c->unsure = true;
        c->requests = 0;
}

enum doca_kind doca_control_due(const struct doca_control *c)
{
        return c->dialect->order[c->at];
}

const char *doca_control_stage(const struct doca_control *c)
{
        static const char *const names[DOCA_KINDS] = {
                [DOCA_NOTHING] = "end",        [DOCA_QUERY] = "query",       [DOCA_INIT] = "init",
                [DOCA_CREATE] = "connections", [DOCA_CONNECT] = "connect",   [DOCA_START] = "start",
                [DOCA_STOP] = "stop",          [DOCA_SHUTDOWN] = "shutdown",
        };

        return c->started && !c->stopped ? "data" : names[doca_control_due(c)];
}

bool doca_is_error(const struct doca_msg *m)
{
        return m->kind == DOCA_ERROR_RSP || (m->kind == DOCA_RESPONSE && m->result != DOCA_SUCCESS);
}

/* --- stages ------------------------------------------------------------------------------------- */

/* Connections are over when none is left; in 2.10, when another request says so. */
static bool is_due(const struct doca_control *c, enum doca_kind kind)
{
        enum doca_kind due = doca_control_due(c);

        if (due == kind)
                return true;
        return due == DOCA_CREATE && !c->dialect->has_context && c->made > 0 && c->made % 2 == 0 &&
               kind == c->dialect->order[c->at + 1];
}

static void skip_connections(struct doca_control *c)
{
        if (doca_control_due(c) == DOCA_CREATE && c->left == 0)
                c->at++;
}

static void stage_after(struct doca_control *c, enum doca_kind kind)
{
        unsigned i = 0;

        while (c->dialect->order[i] != kind && c->dialect->order[i] != DOCA_NOTHING)
                i++;
        if (c->dialect->order[i] == DOCA_NOTHING)
                return;
        c->at = kind == DOCA_CREATE ? i : i + 1;
        skip_connections(c);
}

static void use_up(struct doca_control *c)
{
        if (doca_control_due(c) == DOCA_CREATE)
                c->left -= c->left > 0;
        else if (doca_control_due(c) != DOCA_NOTHING)
                c->at++;
        skip_connections(c);
}

/* --- connections -------------------------------------------------------------------------------- */

static bool is_made(const struct doca_control *c, uint64_t context, uint64_t role)
{
        return context < DOCA_CORES_MAX && c->role_made[role][context / 64] >> context % 64 & 1;
}

static void make(struct doca_control *c, const struct doca_msg *m)
{
        if (!c->dialect->has_context)
                c->cores = c->made / 2 + 1;
        if (m->role < DOCA_ROLES && m->context < DOCA_CORES_MAX)
                c->role_made[m->role][m->context / 64] |= UINT64_C(1) << m->context % 64;
        c->made++;
        c->left -= c->left > 0;
}

/* --- requests ----------------------------------------------------------------------------------- */

static void judge_init(const struct doca_control *c, const struct doca_msg *m,
                       struct rule_set *found)
{
        if (m->transactions == 0 || (c->dialect->has_context && m->cores == 0))
                rule_add(found, DOCA_INIT_COUNTS);
}

static void judge_create(const struct doca_control *c, const struct doca_msg *m,
                         struct rule_set *found)
{
        uint64_t context = c->dialect->has_context ? m->context : c->made / 2;

        if (m->role >= DOCA_ROLES)
                rule_add(found, DOCA_ROLE);
        else if (is_made(c, context, m->role))
                rule_add(found, DOCA_ROLE_ONCE);
        if (c->dialect->has_context && m->context >= c->cores + PLANTED(DOCA_CONTEXT_END))
                rule_add(found, DOCA_CONTEXT);
}

static void judge_request(const struct doca_control *c, const struct doca_msg *m,
                          struct rule_set *found)
{
        bool due = is_due(c, m->kind);

        if (!due && !c->unsure)
                rule_add(found, DOCA_ORDER);
        if (m->kind == DOCA_INIT)
                judge_init(c, m, found);
        if (m->kind == DOCA_CREATE && due && !c->unsure)
                judge_create(c, m, found);
}

static void take_request(struct doca_control *c, const struct doca_msg *m, struct rule_set *found)
{
        if (c->requests > 0 && !c->missing) /* else responses may be what is missing */
                rule_add(found, DOCA_ONE);
        else
                judge_request(c, m, found);
        if (c->requests == DOCA_OUTSTANDING) {
                doca_control_miss(c);
                return;
        }
        c->request[c->requests] = *m;
        c->request[c->requests].data = (struct doca_bytes) { 0 };
        if (!c->dialect->has_context && m->kind == DOCA_CREATE)
                c->request[c->requests].context = c->made / 2;
        c->requests++;
        if (m->kind == DOCA_STOP || m->kind == DOCA_SHUTDOWN)
                c->stopped = true;
}

/* --- responses ---------------------------------------------------------------------------------- */

static bool answers(const struct doca_control *c, const struct doca_msg *request,
                    const struct doca_msg *m)
{
        const struct doca_shape *s = doca_shape_of(c->dialect, request->kind);

        if (!s || s->answer == DOCA_NOTHING)
                return doca_is_error(m); /* to what was not understood */
        return m->kind == s->answer || doca_is_error(m);
}

static void judge_response(const struct doca_control *c, const struct doca_msg *request,
                           const struct doca_msg *m, struct rule_set *found)
{
        if (!answers(c, request, m))
                rule_add(found, DOCA_ANSWER_TYPE);
        if (c->dialect->frame.message_at > 0 && m->message_id != request->message_id)
                rule_add(found, DOCA_ANSWER_ID);
        if (m->correlation_id != request->correlation_id)
                rule_add(found, DOCA_ANSWER_CORRELATION);
        if (m->kind == DOCA_CREATE_RSP && request->kind == DOCA_CREATE &&
            (m->role != request->role ||
             (c->dialect->has_context && m->context != request->context)))
                rule_add(found, DOCA_CREATE_ECHO);
}

static void judge_alone(const struct doca_msg *m, struct rule_set *found)
{
        if (m->kind == DOCA_ERROR_RSP && m->result == DOCA_SUCCESS)
                rule_add(found, DOCA_ERROR_CODE);
        if (m->kind == DOCA_QUERY_RSP && (m->block_size == 0 || m->total_size % m->block_size != 0))
                rule_add(found, DOCA_QUERY_SIZE);
}

static void failed(struct doca_control *c)
{
        if (c->after_error == DOCA_CONSUMES)
                use_up(c);
        if (c->after_error == DOCA_UNSURE)
                c->unsure = true;
}

static void initialised(struct doca_control *c, const struct doca_msg *request)
{
        c->transactions = request->transactions;
        c->cores = request->cores;
        c->left = c->dialect->has_context ? 2 * c->cores : MANY;
        c->made = 0;
        memset(c->role_made, 0, sizeof(c->role_made));
}

static void succeeded(struct doca_control *c, const struct doca_msg *request,
                      const struct doca_msg *m)
{
        if (request->kind == DOCA_QUERY) {
                c->total_size = m->total_size;
                c->block_size = m->block_size;
        }
        if (request->kind == DOCA_INIT)
                initialised(c, request);
        if (request->kind == DOCA_CREATE)
                make(c, request);
        if (request->kind == DOCA_START)
                c->started = true;
        stage_after(c, request->kind);
}

static void take_response(struct doca_control *c, const struct doca_msg *m, struct rule_set *found)
{
        struct doca_msg request;

        judge_alone(m, found);
        if (c->requests == 0) {
                if (!c->missing)
                        rule_add(found, DOCA_ANSWER_ASKED);
                return;
        }
        request = c->request[0];
        c->requests--;
        memmove(c->request, c->request + 1, c->requests * sizeof(c->request[0]));
        if (!c->missing)
                judge_response(c, &request, m, found);
        if (doca_is_error(m))
                failed(c);
        else
                succeeded(c, &request, m);
}

void doca_control_says(struct doca_control *c, enum party sender, const struct doca_msg *m,
                       struct rule_set *found)
{
        if (sender == PARTY_HOST)
                take_request(c, m, found);
        else
                take_response(c, m, found);
}
