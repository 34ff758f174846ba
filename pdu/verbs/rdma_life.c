/* SPDX-License-Identifier: BSD-3-Clause */
#include "rdma_life.h"

#include <assert.h>

enum {
        REPLAY = LIFE_DO_REPLAY,
        SAY = LIFE_DO_DISCONNECT,
        FAIL = LIFE_DO_FAIL,
        END = LIFE_DO_END,
        RELEASE = LIFE_DO_RELEASE,
};

const char *life_state_name(enum life_state s)
{
        static const char *const names[] = {
                [LIFE_CONNECTING] = "connecting",
                [LIFE_LIVE] = "live",
                [LIFE_CLOSING] = "closing",
                [LIFE_DRAINING] = "draining",
                [LIFE_DEAD] = "dead",
                [LIFE_RELEASED] = "released",
        };

        return names[s];
}

const char *life_event_name(enum life_event e)
{
        static const char *const names[] = {
                [LIFE_ESTABLISHED] = "established",
                [LIFE_REFUSED] = "refused",
                [LIFE_CLOSE] = "close",
                [LIFE_ABORT] = "abort",
                [LIFE_DISCONNECTED] = "disconnected",
                [LIFE_TIMEWAIT] = "time-wait exit",
                [LIFE_LATE] = "too late",
                [LIFE_REMOVED] = "device removed",
                [LIFE_FAILED] = "queue pair failed",
                [LIFE_DRAINED] = "drained",
                [LIFE_IDLE] = "idle",
                [LIFE_EVENTS] = "nothing",
        };

        return names[e];
}

/* What ADDR_CHANGE leads to comes as an error; LAST_WQE is a sentinel. */
enum life_event life_event_of(enum verbs_event_type t)
{
        static const enum life_event events[] = {
                [VERBS_CONNECT_REQUEST] = LIFE_EVENTS,    [VERBS_RESOLVED] = LIFE_EVENTS,
                [VERBS_ESTABLISHED] = LIFE_ESTABLISHED,   [VERBS_REJECTED] = LIFE_REFUSED,
                [VERBS_UNREACHABLE] = LIFE_REFUSED,       [VERBS_CONNECT_ERROR] = LIFE_REFUSED,
                [VERBS_DISCONNECTED] = LIFE_DISCONNECTED, [VERBS_TIMEWAIT_EXIT] = LIFE_TIMEWAIT,
                [VERBS_DEVICE_REMOVED] = LIFE_REMOVED,    [VERBS_ADDR_CHANGE] = LIFE_EVENTS,
                [VERBS_LAST_WQE] = LIFE_EVENTS,           [VERBS_QP_ERROR] = LIFE_FAILED,
                [VERBS_PORT_DOWN] = LIFE_EVENTS,          [VERBS_PORT_UP] = LIFE_EVENTS,
        };

        return events[t];
}

/*
 * What is not here says nothing new. Only who is LIVE has somebody to wait for after DREQ: one that
 * is CONNECTING may never be answered. In CLOSING the queue pair has failed already, by the
 * disconnect: its flushed work requests (FAILED) are no reason to stop waiting for DREP.
 */
static const struct {
        enum life_state next;
        unsigned actions;
} table[LIFE_RELEASED + 1][LIFE_EVENTS] = {
        [LIFE_CONNECTING] = {
                [LIFE_ESTABLISHED] = { LIFE_LIVE, REPLAY },
                [LIFE_REFUSED] = { LIFE_DRAINING, FAIL },
                [LIFE_CLOSE] = { LIFE_DRAINING, SAY | FAIL },
                [LIFE_ABORT] = { LIFE_DRAINING, SAY | FAIL },
                [LIFE_DISCONNECTED] = { LIFE_DRAINING, SAY | FAIL }, /* DREQ is answered, always */
                [LIFE_TIMEWAIT] = { LIFE_DRAINING, FAIL },
                [LIFE_LATE] = { LIFE_DRAINING, SAY | FAIL },
                [LIFE_REMOVED] = { LIFE_DRAINING, SAY | FAIL },
                [LIFE_FAILED] = { LIFE_DRAINING, SAY | FAIL },
        },
        [LIFE_LIVE] = {
                [LIFE_REFUSED] = { LIFE_DRAINING, SAY | FAIL }, /* a capsule overtook ESTABLISHED */
                [LIFE_CLOSE] = { LIFE_CLOSING, SAY },
                [LIFE_ABORT] = { LIFE_DRAINING, SAY | FAIL },
                [LIFE_DISCONNECTED] = { LIFE_DRAINING, SAY | FAIL },
                [LIFE_TIMEWAIT] = { LIFE_DRAINING, FAIL },
                [LIFE_REMOVED] = { LIFE_DRAINING, SAY | FAIL },
                [LIFE_FAILED] = { LIFE_DRAINING, SAY | FAIL },
        },
        [LIFE_CLOSING] = {
                [LIFE_REFUSED] = { LIFE_DRAINING, FAIL },
                [LIFE_ABORT] = { LIFE_DRAINING, FAIL },
                [LIFE_DISCONNECTED] = { LIFE_DRAINING, FAIL },
                [LIFE_TIMEWAIT] = { LIFE_DRAINING, FAIL },
                [LIFE_LATE] = { LIFE_DRAINING, FAIL },
                [LIFE_REMOVED] = { LIFE_DRAINING, FAIL },
        },
        [LIFE_DRAINING] = {
                [LIFE_LATE] = { LIFE_DEAD, END },
                [LIFE_DRAINED] = { LIFE_DEAD, END },
        },
        [LIFE_DEAD] = {
                [LIFE_IDLE] = { LIFE_RELEASED, RELEASE },
        },
};

void life_init(struct rdma_life *l)
{
        *l = (struct rdma_life) { .state = LIFE_CONNECTING, .idle = true, .cause = LIFE_EVENTS };
}

/* Each action once, none after RELEASE, no END of a queue pair that was not failed. */
static void check(const struct rdma_life *l, enum life_state next, unsigned actions)
{
        unsigned after = l->actions | actions;

        assert(next > l->state);
        assert(!(l->actions & actions) && !(l->actions & RELEASE));
        assert(!(after & END) || !l->has_qp || (after & FAIL));
        assert(!(after & RELEASE) || ((after & END) && l->idle));
        assert(!(after & END) == (next < LIFE_DEAD) &&
               !(after & RELEASE) == (next < LIFE_RELEASED));
        (void)next;
        (void)after;
}

static unsigned step(struct rdma_life *l, enum life_event e)
{
        enum life_state next = table[l->state][e].next;
        unsigned actions = table[l->state][e].actions;

        if (!life_moves(l->state, e))
                return 0;
        if (!l->has_qp)
                actions &= ~(unsigned)(SAY | FAIL);
        check(l, next, actions);
        if (l->state <= LIFE_LIVE && next > LIFE_LIVE)
                l->cause = e;
        l->state = next;
        l->actions |= actions;
        return actions;
}

bool life_moves(enum life_state s, enum life_event e)
{
        return table[s][e].next > s;
}

unsigned life_event(struct rdma_life *l, enum life_event e)
{
        unsigned actions;

        assert(e != LIFE_DRAINED || l->sentinels == 0);
        l->idle |= e == LIFE_IDLE;
        actions = step(l, e);
        if (l->state == LIFE_DRAINING && !l->has_qp)
                actions |= step(l, LIFE_DRAINED);
        if (l->state == LIFE_DEAD && l->idle)
                actions |= step(l, LIFE_IDLE);
        return actions;
}

void life_busy(struct rdma_life *l)
{
        assert(l->state < LIFE_RELEASED);
        l->idle = false;
}

static struct verbs_wr *sentinel(struct rdma_life *l, int i, enum verbs_op op)
{
        l->sentinels++;
        l->sentinel[i] = (struct verbs_wr) { .op = op, .flags = VERBS_SIGNALED, .user = l };
        return &l->sentinel[i];
}

struct verbs_wr *life_send_sentinel(struct rdma_life *l)
{
        return sentinel(l, 0, VERBS_WRITE);
}

struct verbs_wr *life_recv_sentinel(struct rdma_life *l)
{
        return sentinel(l, 1, VERBS_RECV);
}

bool life_sentinel_flushed(struct rdma_life *l, const struct verbs_wr *wr)
{
        if (wr != &l->sentinel[0] && wr != &l->sentinel[1])
                return false;
        assert(l->sentinels > 0);
        l->sentinels--;
        return true;
}
